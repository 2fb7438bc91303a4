"""The rows of a view's query by time: which table says when they happened, and up to when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from sqlglot import exp

from dpsql.core.sql_types import DATE, SqlType
from dpsql.errors import QueryRefused
from dpsql.policy.model import Policy, TablePolicy
from dpsql.sql.lineage.table_names import name_of
from dpsql.syntax.clock import clock_words
from dpsql.syntax.parse import place_of

ZONED_TIME: Final = SqlType.of("TIMESTAMP WITH TIME ZONE")
STEP_NUMBER: Final = "dpsql_step_number"
"""The part of a SELECT with the first step in which a row counts.

No statement has it, and it is no column of the SELECT: nothing that is written can be taken for it.
"""


def no_view(reason: str, hint: str) -> QueryRefused:
    """Build the refusal of a query that has no running answer."""
    return QueryRefused(f"{reason}: this cannot be a materialized view", code="no_view", hint=hint)


def timed_table(tree: exp.Query, policy: Policy) -> tuple[str, TablePolicy]:
    """Find the only private table of a query, and its name in the query.

    Raises ``QueryRefused`` (``no_view``) if there is not exactly one, in the query's own FROM, or
    if the policy names no time column of it.
    """
    found = [
        (node, table)
        for node in tree.find_all(exp.Table)
        if (name := name_of(node)) is not None
        and (table := policy.table(name)) is not None
        and not table.public
    ]
    direct = []
    if isinstance(tree, exp.Select) and tree.args.get("from_") is not None:
        direct = [tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or ())]
    if len(found) != 1 or not any(found[0][0] is node for node in direct):
        raise no_view(
            "it does not read one private table in its own FROM clause",
            "A view reads one table with a privacy unit, joined with public ones if need be.",
        )
    node, table = found[0]
    unit = policy.unit_of(table)
    if unit is not None and unit.is_row:
        raise no_view(
            f"{unit.words}, so that a step could not tell which rows of {table.name} earlier ones "
            "have counted",
            "Ask the query itself, or let the owner name a column that says whose row it is.",
        )
    if table.time is None:
        raise no_view(
            f"the policy does not say when the rows of {table.name} happened",
            f"The owner names the column: tables.{table.name}.time: {{column: …, zone: UTC}}.",
        )
    return node.alias_or_name, table


def refuse_clock(tree: exp.Query, text: str) -> None:
    """Refuse a query that asks for the time: every step would ask another question.

    Raises ``QueryRefused`` (``no_view``).
    """
    word = next(clock_words(tree), None)
    if word is not None:
        refused = no_view(
            "what a view counts cannot depend on the time at which it is refreshed",
            "Leave it out: a view has steps, WITH (step = '1 day', …), and says of each what had "
            "happened by then. Or write a date, DATE '2026-01-01'.",
        )
        refused.place = place_of(text, word)
        raise refused


def bound_time(
    tree: exp.Query,
    qualifier: str,
    column: str,
    type_: SqlType,
    zone: str,
    between: tuple[datetime, datetime],
) -> None:
    """Keep the rows of a SELECT between two wall times in a zone, the second one excluded."""
    name = exp.column(column, table=qualifier, quoted=True)
    first, end = (_literal(moment, type_, zone) for moment in between)
    condition = exp.and_(exp.GTE(this=name, expression=first), name.copy() < end)
    assert isinstance(tree, exp.Select)
    tree.where(condition, copy=False)


def number_steps(
    tree: exp.Query,
    qualifier: str,
    column: str,
    type_: SqlType,
    zone: str,
    ends: Sequence[datetime],
) -> None:
    """Say of the rows of a SELECT how many of some wall times have passed, beside all it selects.

    ``ends`` ascend.
    """
    name = exp.column(column, table=qualifier, quoted=True)
    number = exp.Case(default=exp.Literal.number(len(ends)))
    for passed, end in enumerate(ends):
        number = number.when(name.copy() < _literal(end, type_, zone), str(passed))
    tree.set(STEP_NUMBER, number)


def _literal(wall: datetime, type_: SqlType, zone: str) -> exp.Expr:
    """Write a wall time as a literal of the time column's type."""
    if type_ == ZONED_TIME:
        instant = wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        text, kind = instant.strftime("%Y-%m-%d %H:%M:%S+00"), "TIMESTAMPTZ"
    elif type_ == DATE:
        text, kind = wall.date().isoformat(), "DATE"
    else:  # timestamps of all precisions compare with each other
        text, kind = wall.strftime("%Y-%m-%d %H:%M:%S"), "TIMESTAMP"
    return exp.cast(exp.Literal.string(text), kind, dialect="duckdb")

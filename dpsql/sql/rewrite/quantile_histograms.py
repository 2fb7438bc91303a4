"""The SQL of quantiles: how many rows of each group have which value, each unit's share bounded.

Groups are stored first, with a row id; then one statement for each value that quantiles are asked
of counts its rows in the groups that come out. Rows go through the same cap on the keys of a unit
as those that are summed. Of the rows a unit has beyond ``max_rows_contributed`` in a group it keeps
a systematic sample: in the order of their values every n/m-th one, from a start that a salted hash
draws. All of its rows are as likely to be kept, and those that are resemble the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID, quote
from dpsql.core.schema import Table
from dpsql.ir.measures import Ranked
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.expressions.ranges import numbers_of
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.rewrite.contributions import clamped_step
from dpsql.sql.rewrite.rows import UNIT, PrivateRows

GROUPS = f"{INTERNAL_PREFIX}groups"
_ROW_ID = quote(ROW_ID)
_VALUE, _POINT, _START, _NUMBER, _SIZE, _ROWS = (
    quote(f"{INTERNAL_PREFIX}{name}")
    for name in ("value", "point", "start", "number", "size", "rows")
)

_FEW = 50  # groups that are found faster one by one than by a join


@dataclass(frozen=True, slots=True)
class HistogramSQL:
    """The statements of a plan with quantiles.

    ``groups`` is to be stored as GROUPS: row id, keys, measures. Those of ``counts`` take a list of
    row ids and return, for these groups, the row id, each point that has rows and how many, in
    order. ``sql`` is all of it as one statement, with a list of points for each of ``counts``.
    """

    groups: str
    counts: tuple[tuple[Ranked, str], ...]
    sql: str


def stored_groups(columns: Sequence[str]) -> str:
    """The row ids and some columns of the groups that are stored as GROUPS."""
    return f"SELECT {', '.join([_ROW_ID, *map(quote, columns)])} FROM {quote(GROUPS)}"


def chosen_groups(columns: Sequence[str], chosen: int) -> str:
    """The same of so many groups, whose row ids are given as a list."""
    if chosen <= _FEW:
        return f"{stored_groups(columns)} WHERE list_contains(?::BIGINT[], {_ROW_ID})"
    return f"{stored_groups(columns)} WHERE {_ROW_ID} IN (SELECT unnest(?::BIGINT[]))"


def histogram_sql(plan: BlockPlan, table: Table, salt: int, groups: str) -> HistogramSQL:
    """The statements of a plan with quantiles, ``groups`` being the one for its exact rows.

    Sensitivity: when one unit is added or removed, counts change in at most ``plan.groups`` groups
    (any number without a cap), and in each of them at most ``max_rows_contributed`` rows are added,
    or as many taken away. Checked by ``tests/sql/test_quantile_queries.py``.
    """
    if plan.bounding is not None and plan.bounding.weighted:
        # Units count in full here, in as many groups as they weigh.
        plan = replace(plan, bounding=Bounding.sample(plan.bounding.groups))
    rows = PrivateRows(plan, table, salt)
    asked = dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles)
    chosen = f" AND g.{_ROW_ID} IN (SELECT unnest(?::BIGINT[]))"
    return HistogramSQL(
        groups=groups,
        counts=tuple((ranked, _counted(rows, ranked, chosen)) for ranked in asked),
        sql=_as_one(groups, [_counted(rows, ranked, "") for ranked in asked]),
    )


def _counted(rows: PrivateRows, ranked: Ranked, chosen: str) -> str:
    most = rows.plan.block.parameters.max_rows_contributed
    unit = f"PARTITION BY {_ROW_ID}, {UNIT}"
    numbered = (
        f"SELECT {_ROW_ID}, {_POINT}, {_START}, "
        f"row_number() OVER ({unit} ORDER BY {_POINT}) AS {_NUMBER}, "
        f"count(*) OVER ({unit}) AS {_SIZE} FROM ({_placed(rows, ranked, chosen)})"
    )
    number = column(_NUMBER, 1, MOST_ROWS)
    taken, before = _taken(number, most), _taken(number - 1, most)
    return (
        f"SELECT {_ROW_ID}, {_POINT}, count(*) AS {_ROWS} FROM ({numbered}) "
        f"WHERE {_SIZE} <= {most} OR {taken.sql} > {before.sql} "
        f"GROUP BY {_ROW_ID}, {_POINT} ORDER BY {_ROW_ID}, {_POINT}"
    )


def _taken(number: Ranged, most: int) -> Ranged:
    """How many of a unit's first rows are in its sample."""
    size = column(_SIZE, 1, MOST_ROWS)
    return (number * most + column(_START, 0, 2**32 - 1) % size) // size


def _placed(rows: PrivateRows, ranked: Ranked, chosen: str) -> str:
    """Rows with their group's row id, their point and their unit's start."""
    argument = f"{total_sql(ranked.argument, rows.table)} AS {_VALUE}"
    numbers = numbers_of(ranked.argument, rows.table)
    point = clamped_step(ranked.lattice, _VALUE, numbers) - ranked.lattice.low
    # One more column than the cap hashes, so that the two are independent.
    start = f"CAST({rows.hashed([UNIT, *rows.keys, '0'])} >> 32 AS BIGINT)"
    columns = ", ".join([UNIT, *rows.keys])
    points = (
        f"SELECT {columns}, {point.sql} AS {_POINT}, {start} AS {_START} "
        f"FROM {rows.capped(rows.select([argument]))}"
    )
    same = " AND ".join(f"p.{key} IS NOT DISTINCT FROM g.{key}" for key in rows.keys) or "TRUE"
    return (
        f"SELECT g.{_ROW_ID}, {UNIT}, {_POINT}, {_START} "
        f"FROM ({points}) p JOIN {quote(GROUPS)} g ON {same} WHERE {_POINT} IS NOT NULL{chosen}"
    )


def _as_one(groups: str, counts: list[str]) -> str:
    names = [quote(f"{INTERNAL_PREFIX}d{i}") for i in range(len(counts))]
    lists = "".join(
        f" LEFT JOIN (SELECT {_ROW_ID}, list([{_POINT}, {_ROWS}]) AS {name} FROM ({count}) "
        f"GROUP BY {_ROW_ID}) USING ({_ROW_ID})"
        for name, count in zip(names, counts, strict=True)
    )
    return (
        f"WITH {quote(GROUPS)} AS MATERIALIZED ({groups}) "
        f"SELECT * FROM {quote(GROUPS)}{lists} ORDER BY {_ROW_ID}"
    )

"""Tells from public rows whether a lookup finds several of them.

Two rows are found for one value only if both can compare with it so: if their keys are equal, and
the ends of their ranges leave room for it. All pairs are looked at, by the twin of the engine. No
private row has a part in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, join, name, sql
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.ir.relations import PublicTable, RowSet, ViewScan, bottom_up, scanned
from dpsql.pipeline.public_keys import is_public
from dpsql.pipeline.tail.public_tables import PublicTables
from dpsql.policy.model import Policy
from dpsql.sql.lineage.lookups import KeyComparison
from dpsql.sql.relations.from_clause import from_clause

_PLACE: Final = name(f"{INTERNAL_PREFIX}place")
_LOWER: Final = {exp.LT, exp.LTE}
_UPPER: Final = {exp.GT, exp.GTE}


def finds_one(
    rows: RowSet,
    compared: Sequence[KeyComparison],
    engine: Engine,
    policy: Policy,
    public: PublicTables | None,
) -> bool:
    """Tell whether at most one of some public rows fulfils comparisons, whatever the values are.

    False where that cannot be found out. Without ``public`` tables there are no rows.
    Raises ``EngineError`` if a table cannot be read.
    """
    if public is None:
        return bool(compared)
    if any(isinstance(node, ViewScan) for node in bottom_up(rows)):
        return False  # it has rows of several steps
    tables = [engine.schema[each.key] for each in dict.fromkeys(scanned(rows))]
    if not compared or not all(is_public(policy, table) for table in tables):
        return False
    several = sql(
        "WITH found AS MATERIALIZED (SELECT *, ROW_NUMBER() OVER () AS {} FROM {}) "
        "SELECT 1 FROM found AS one JOIN found AS other ON {} LIMIT 1",
        *(_PLACE, from_clause(rows, TWIN)),
        join(" AND ", [sql("one.{} < other.{}", _PLACE, _PLACE), *_room(compared)]),
    )
    return public.computed([PublicTable(table) for table in tables], several) == []


def _room(compared: Collection[KeyComparison]) -> list[Sql]:
    """Write the conditions on two rows under which both compare with a value."""
    room = []
    for each in compared:
        if each.operator is exp.EQ:
            room.append(sql("one.{} = other.{}", name(each.column), name(each.column)))
    ranges = [each for each in compared if each.operator is not exp.EQ]
    for low, high in product(ranges, ranges):
        if low.operator not in _LOWER or high.operator not in _UPPER or low.value != high.value:
            continue
        if not low.column_type.compares_exactly(high.column_type):
            continue  # the value meets each as another type
        closed = {low.operator, high.operator} == {exp.LTE, exp.GTE}
        sign = sql("<=") if closed else sql("<")
        for first, second in (("one", "other"), ("other", "one")):
            ends = _as_compared(first, low), sign, _as_compared(second, high)
            room.append(sql("{} {} {}", *ends))
    return room


def _as_compared(row: str, end: KeyComparison) -> Sql:
    """Write the end of a range as it meets the value, which can make two ends equal."""
    column = sql("{}.{}", name(row), name(end.column))
    if end.column_type.compares_exactly(end.value_type):
        return column
    return sql("COALESCE(CAST(NULL AS {}), {})", end.value_type.sql, column)

"""Narrows the declared domains of keys to the values that a statement's conditions leave.

``WHERE status IN ('open', 'late') GROUP BY status`` asks for two groups, however many are
declared. Which values satisfy a condition depends on the statement and the policy alone, and no row
of another group satisfies it: so the others are not answered, and no noise is made for them. Only
conditions on one key by itself are read; those that other columns take part in are left to the
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, Key
from dpsql.ir.relations import (
    Distinct,
    Extend,
    Filter,
    Join,
    JoinKind,
    LinkJoin,
    OneSpelling,
    PerUnit,
    Rename,
    RowSet,
    Scan,
    SemiJoin,
    Typed,
)
from dpsql.sql.expressions.totality import total_condition_sql

_MOST_VALUES: Final = 20_000
"""Values of a domain that is narrowed: each is a constant of a statement."""
_SHOWN: Final = 10
_PLACE: Final = name(f"{INTERNAL_PREFIX}place")


def with_keys_narrowed(block: Block, engine: Engine) -> Block:
    """Return the block with the declared values of its keys that its conditions leave.

    Raises ``QueryRefused`` (``no_group_left``) where they leave none.
    """
    keys = tuple(_narrowed(key, block, engine) for key in block.keys)
    for key, before in zip(keys, block.keys, strict=True):
        if key.domain == () != before.domain:
            raise _none_left(before)
    by_column = {key.expression: key for key in keys}
    declared = (
        by_column.get(k.expression) or _narrowed(k, block, engine) for k in block.source.declared
    )
    left = tuple(key for key in declared if key.domain)
    return replace(block, keys=keys, source=replace(block.source, declared=left))


def _narrowed(key: Key, block: Block, engine: Engine) -> Key:
    """Limit a key's declared values to those that pass all conditions on the key alone."""
    column = block.source.table.column(key.expression.name)
    if key.domain is None or column is None or len(key.domain) > _MOST_VALUES:
        return key
    if column.type.is_float:  # equal values may differ, as 0.0 and -0.0, and conditions may tell
        return key
    left: Sequence[int] = range(len(key.domain))
    for found in conditions_on(block.condition, block.source.rows, column.name):
        if not found.alone:
            continue
        own = Column(found.column, column.type)
        left = satisfying(key.domain, left, own, found.condition, engine)
    return key if len(left) == len(key.domain) else replace(key, domain=_chosen(key.domain, left))


def satisfying(
    domain: Sequence[object],
    places: Sequence[int],
    column: Column,
    condition: exp.Expr,
    engine: Engine,
) -> Sequence[int]:
    """Keep the places of a domain's values that fulfil a condition on the column."""
    if not places:
        return places
    values = (sql("({}, {})", place, _written(domain[place], column.type)) for place in places)
    found = engine.compute_constants(
        sql(
            "SELECT {place} FROM (VALUES {}) AS declared({place}, {}) WHERE {}",
            *(join(", ", values), name(column.name)),
            total_condition_sql(condition, Table("declared", (column,)), TWIN),
            place=_PLACE,
        )
    )
    return sorted(place for place in found if place is not None)


def _written(value: object, type_: SqlType) -> Sql:
    return TWIN.cast(sql("NULL"), type_) if value is None else TWIN.declared(value, type_)


def _chosen(domain: Sequence[object], places: Sequence[int]) -> tuple[object, ...]:
    return tuple(domain[place] for place in places)


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """A condition on a column, and the name of the column in it.

    ``always``: it holds of every row, and not only of those in which the column is not NULL.
    """

    column: str
    condition: exp.Expr
    always: bool

    @property
    def alone(self) -> bool:
        """True if no other column takes part."""
        return {found.name for found in self.condition.find_all(exp.Column)} == {self.column}


def conditions_on(condition: exp.Expr | None, rows: RowSet, column: str) -> Iterator[KeyCondition]:
    """Yield the parts of a condition over rows that name a column, and those of relations below."""
    if condition is not None:
        yield from _naming(condition, column, always=True)
    found: tuple[RowSet, str] | None = rows, column
    always = True
    while found is not None:
        rows, name_there = found
        if isinstance(rows, Join):
            filled = {JoinKind.LEFT: rows.right, JoinKind.RIGHT: rows.left}.get(rows.kind)
            # An outer join keeps rows that do not fulfil its conditions: with NULLs, on one side.
            nulled = filled is not None and _has(filled, name_there)
            always = always and not nulled
            conditions = rows.conditions if nulled or filled is None else ()
        else:
            conditions = (rows.condition,) if isinstance(rows, Filter) else ()
        for each in conditions:
            yield from _naming(each, name_there, always=always)
        found = _where_from(rows, name_there)


@dataclass(frozen=True, slots=True)
class ColumnBehind:
    """A column of a table whose values include the values of another column.

    ``nulled``: or NULL, in rows that an outer join kept.
    """

    table: Table
    column: str
    nulled: bool


def columns_behind(rows: RowSet, column: str, *, nulled: bool = False) -> Iterator[ColumnBehind]:
    """Yield the columns of tables that the values of a column come from, or are found in.

    Where a join or an IN keeps rows alone in which the column is equal to another, its values are
    among those of the other.
    """
    if type(rows) is Scan:
        yield ColumnBehind(rows.table, column, nulled)
        return
    if isinstance(rows, Join):
        filled = {JoinKind.LEFT: rows.right, JoinKind.RIGHT: rows.left}.get(rows.kind)
        missing = filled is not None and _has(filled, column)
        nulled = nulled or missing
        if missing or filled is None:
            yield from _compared(rows, column, nulled)
    if isinstance(rows, SemiJoin) and not rows.negated:
        yield from _compared(rows, column, nulled)
    found = _where_from(rows, column)
    if found is not None:
        yield from columns_behind(*found, nulled=nulled)


def _compared(rows: Join | SemiJoin, column: str, nulled: bool) -> Iterator[ColumnBehind]:
    """Yield the columns behind those that a join's conditions say to be equal to a column."""
    for condition in rows.conditions:
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            equal = part.unnest()
            if not isinstance(equal, exp.EQ):
                continue
            sides = [side.unnest() for side in (equal.this, equal.expression)]
            names = [side.name for side in sides if isinstance(side, exp.Column)]
            if len(names) < 2 or column not in names:
                continue
            other = names[1 - names.index(column)]
            types = {c.name: c.type for source in rows.sources for c in source.columns}
            for source in rows.sources:
                apart = _has(source, other) and not _has(source, column)
                if apart and types[other] == types[column]:
                    yield from columns_behind(source, other, nulled=nulled)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """The expression that a column is computed by, over the columns of a relation.

    ``nulled``: the column is NULL in rows that an outer join kept.
    """

    expression: exp.Expr
    rows: RowSet
    nulled: bool


def definition_of(rows: RowSet, column: str) -> ColumnDefinition | None:
    """Find the expression that computes a column below; None for columns of tables."""
    nulled = False
    while True:
        computed = {Extend: "computed", PerUnit: "keys"}.get(type(rows))
        for each in () if computed is None else getattr(rows, computed):
            if each.name == column and not isinstance(each.expression, exp.Column):
                return ColumnDefinition(each.expression, rows.sources[0], nulled)
        filled = None
        if isinstance(rows, Join):
            filled = {JoinKind.LEFT: rows.right, JoinKind.RIGHT: rows.left}.get(rows.kind)
        nulled = nulled or (filled is not None and _has(filled, column))
        found = _where_from(rows, column)
        if found is None:
            return None
        rows, column = found


def _where_from(rows: RowSet, column: str) -> tuple[RowSet, str] | None:
    """Find the relation that a column's values come from, as they are, and its name there."""
    if isinstance(rows, Rename):
        old = next((old for old, new in rows.names if new == column), None)
        return None if old is None else (rows.source, old)
    if isinstance(rows, PerUnit):
        key = next((key.expression for key in rows.keys if key.name == column), None)
        return (rows.source, key.name) if isinstance(key, exp.Column) else None
    if isinstance(rows, _KEEPING):
        return next(((source, column) for source in rows.sources if _has(source, column)), None)
    return None


_KEEPING: Final = (Distinct, Extend, Filter, Join, LinkJoin, OneSpelling, SemiJoin, Typed)
"""Relations that give the values of their columns on as they are, under the same names."""


def _has(rows: RowSet, column: str) -> bool:
    return any(each.name == column for each in rows.columns)


def _naming(condition: exp.Expr, column: str, *, always: bool) -> Iterator[KeyCondition]:
    """Yield the conjuncts of a condition that name a column."""
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    for part in (each.unnest() for each in parts):
        if isinstance(part, exp.And):
            yield from _naming(part, column, always=always)
        elif any(found.name == column for found in part.find_all(exp.Column)):
            yield KeyCondition(column, part, always)


def _none_left(key: Key) -> QueryRefused:
    declared = key.domain or ()
    shown = ", ".join(map(str, declared[:_SHOWN]))
    more = f" and {len(declared) - _SHOWN} more" if len(declared) > _SHOWN else ""
    return QueryRefused(
        f"no declared value of {key.text} satisfies the conditions on it: no group is left",
        code="no_group_left",
        hint=f"Declared are {shown}{more}.",
    )

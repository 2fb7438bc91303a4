"""Finds where the columns of rows come from: tables, expressions, and conditions on the way.

Everything is read off the relations; no row is looked at. What cannot be followed, as a column of
a set operation, comes from nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.ir.relations import (
    Computed,
    Distinct,
    EachRow,
    Extend,
    Filter,
    Join,
    JoinKind,
    LinkJoin,
    NumberedRows,
    OneSpelling,
    PerUnit,
    Rename,
    RowSet,
    Scan,
    SemiJoin,
    Typed,
)

RelationPath: TypeAlias = tuple[int, ...]
"""The place of a relation below another: of the sources, which one at each step.

A table that is scanned twice has two places.
"""


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
    """Yield the parts of a condition over rows that name a column, and those of relations below.

    Where a join or an IN keeps rows alone in which the column is equal to one of listed constants,
    that is such a condition, too.
    """
    if condition is not None:
        yield from _naming(condition, column, always=True)
    found: tuple[RowSet, str] | None = rows, column
    always = True
    while found is not None:
        rows, name_there = found
        if isinstance(rows, Join):
            filled = _filled(rows)
            # An outer join keeps rows that do not fulfil its conditions: with NULLs, on one side.
            nulled = filled is not None and _has(filled, name_there)
            always = always and not nulled
            conditions = rows.conditions if nulled or filled is None else ()
        else:
            conditions = (rows.condition,) if isinstance(rows, Filter) else ()
        among = _listed(rows, name_there) if conditions or _keeps_equal(rows) else ()
        yield from (KeyCondition(name_there, each, always) for each in among)
        for each in conditions:
            yield from _naming(each, name_there, always=always)
        found = _where_from(rows, name_there)


def _keeps_equal(rows: RowSet) -> bool:
    """Tell whether an IN or EXISTS keeps the rows alone that fulfil its conditions."""
    return isinstance(rows, SemiJoin) and not rows.negated


def _listed(rows: RowSet, column: str) -> Iterator[exp.Expr]:
    """Yield the conditions that a column is among listed constants, as a join's conditions say."""
    for source, other in _equal_to(rows, column) if isinstance(rows, Join | SemiJoin) else ():
        values = _constants_of(source, other)
        if values:
            yield exp.In(this=exp.column(column), expressions=values)


def _constants_of(rows: RowSet, column: str) -> list[exp.Expr]:
    """List the constants that a column of numbered rows is among, as VALUES are; else none."""
    to: exp.Expr | None = None
    found: tuple[RowSet, str] | None = (rows, column)
    while found is not None:
        rows, column = found
        node = next((e.expression for e in _computed_by(rows) if e.name == column), None)
        if isinstance(node, exp.Case) and isinstance(rows.sources[0], NumberedRows):
            return _outcomes(node, to)
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) and to is None:
            to, found = node, (rows.sources[0], node.this.name)
        else:
            found = _where_from(rows, column) if node is None else None
    return []


def _outcomes(node: exp.Case, to: exp.Expr | None) -> list[exp.Expr]:
    """List the outcomes of a CASE that are constants, converted as ``to`` is; else none."""
    outcomes = [branch.args["true"] for branch in node.args["ifs"]]
    outcomes += [default for default in (node.args.get("default"),) if default is not None]
    if any(each.find(exp.Column) is not None for each in outcomes):
        return []
    values = []
    for each in outcomes:
        if isinstance(each.unnest(), exp.Null):  # which is equal to nothing
            continue
        value = each.copy() if to is None else to.copy()
        if to is not None:
            value.set("this", each.copy())
        values.append(value)
    return values


@dataclass(frozen=True, slots=True)
class ColumnBehind:
    """A column of a table whose values include the values of another column.

    ``nulled``: or NULL, in rows that an outer join kept. ``path`` leads to the table.
    """

    table: Table
    column: str
    nulled: bool
    path: RelationPath


def columns_behind(
    rows: RowSet, column: str, *, nulled: bool = False, path: RelationPath = ()
) -> Iterator[ColumnBehind]:
    """Yield the columns of tables that the values of a column come from, or are found in.

    Where a join or an IN keeps rows alone in which the column is equal to another, its values are
    among those of the other.
    """
    if type(rows) is Scan:
        yield ColumnBehind(rows.table, column, nulled, path)
        return
    if isinstance(rows, Join):
        filled = _filled(rows)
        missing = filled is not None and _has(filled, column)
        nulled = nulled or missing
        if missing or filled is None:
            yield from _compared(rows, column, nulled, path)
    if isinstance(rows, SemiJoin) and not rows.negated:
        yield from _compared(rows, column, nulled, path)
    found = _where_from(rows, column)
    if found is not None:
        yield from columns_behind(*found, nulled=nulled, path=_down(path, rows, found[0]))


def _compared(
    rows: Join | SemiJoin, column: str, nulled: bool, path: RelationPath
) -> Iterator[ColumnBehind]:
    """Yield the columns behind those that a join's conditions say to be equal to a column."""
    for source, other in _equal_to(rows, column):
        below = _down(path, rows, source)
        yield from columns_behind(source, other, nulled=nulled, path=below)


def _equal_to(rows: Join | SemiJoin, column: str) -> Iterator[tuple[RowSet, str]]:
    """Yield the columns of other sources that a join's conditions say to be equal to a column."""
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
                    yield source, other


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
        for each in _computed_by(rows):
            if each.name == column and not isinstance(each.expression, exp.Column):
                return ColumnDefinition(each.expression, rows.sources[0], nulled)
        filled = _filled(rows)
        nulled = nulled or (filled is not None and _has(filled, column))
        found = _where_from(rows, column)
        if found is None:
            return None
        rows, column = found


@dataclass(frozen=True, slots=True)
class Base:
    """The column at the end of a trace: of a table, or of an operator without a trace."""

    path: RelationPath
    column: str
    table: Table | None


def bases_of(rows: RowSet, node: exp.Expr, path: RelationPath = ()) -> Iterator[Base]:
    """Yield the columns at the bottom that an expression over rows is computed from."""
    for column in node.find_all(exp.Column):
        yield from _bases(rows, column.name, path)


def _bases(rows: RowSet, column: str, path: RelationPath) -> Iterator[Base]:
    for each in _computed_by(rows):
        if each.name == column:
            yield from bases_of(rows.sources[0], each.expression, (*path, 0))
            return
    found = _where_from(rows, column)
    if found is None:
        yield Base(path, column, rows.table if type(rows) is Scan else None)
        return
    yield from _bases(*found, _down(path, rows, found[0]))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table at the end of a path.

    ``nulled``: or NULL instead, in rows that an outer join kept.
    """

    path: RelationPath
    column: str
    table: Table
    nulled: bool


def table_column(rows: RowSet, column: str) -> TableColumn | None:
    """Find the column of a table with the same values; None for a column that is computed."""
    path: RelationPath = ()
    nulled = False
    while type(rows) is not Scan:
        filled = _filled(rows)
        nulled = nulled or (filled is not None and _has(filled, column))
        found = _where_from(rows, column)
        if found is None:
            return None
        path, (rows, column) = _down(path, rows, found[0]), found
    return TableColumn(path, column, rows.table, nulled)


@dataclass(frozen=True, slots=True)
class PathCondition:
    """A condition over rows above a table, ``path`` leading from those to the table."""

    condition: exp.Expr
    rows: RowSet
    path: RelationPath


def conditions_above(
    condition: exp.Expr | None, rows: RowSet, path: RelationPath
) -> Iterator[PathCondition]:
    """Yield the conditions on rows of a table that some row above them is made of."""
    above = () if condition is None else (condition,)
    while True:
        if isinstance(rows, Filter):
            above = (*above, rows.condition)
        elif isinstance(rows, Join) and path:
            filled = _filled(rows)
            if filled is None or filled is rows.sources[path[0]]:
                above = (*above, *_with_listed(rows, rows.sources[path[0]]))
        elif isinstance(rows, SemiJoin) and path and not rows.negated:
            above = (*above, *_with_listed(rows, rows.sources[path[0]]))
        for each in above:
            parts = each.flatten() if isinstance(each, exp.And) else [each]
            yield from (PathCondition(part.unnest(), rows, path) for part in parts)
        if not path:
            return
        rows, path, above = rows.sources[path[0]], path[1:], ()


def _with_listed(rows: Join | SemiJoin, source: RowSet) -> Iterator[exp.Expr]:
    """Yield a join's conditions, and those that columns of a source are among constants."""
    yield from rows.conditions
    for column in source.columns:
        yield from _listed(rows, column.name)


def _filled(rows: RowSet) -> RowSet | None:
    """Return the side of an outer join that is NULL in rows without a match."""
    if not isinstance(rows, Join):
        return None
    return {JoinKind.LEFT: rows.right, JoinKind.RIGHT: rows.left}.get(rows.kind)


def _computed_by(rows: RowSet) -> Sequence[Computed]:
    """List the columns that a relation computes by expressions over its source."""
    if isinstance(rows, Extend):
        return rows.computed
    return rows.keys if isinstance(rows, PerUnit) else ()


def _down(path: RelationPath, rows: RowSet, source: RowSet) -> RelationPath:
    return (*path, next(place for place, each in enumerate(rows.sources) if each is source))


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


_KEEPING: Final = (Distinct, EachRow, Extend, Filter, Join, LinkJoin, OneSpelling, SemiJoin, Typed)
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

"""Finds the public rows that rows of a question are made of, and joins them without private ones.

``FROM sales JOIN products USING (product) JOIN kinds USING (kind) WHERE kinds.name = 'x'`` has rows
of products of one kind alone. Which these are is told by public tables: those that conditions join
to each other, with all conditions that are on their rows alone. Two of their columns are equal too
where both are equal to one column of private rows, as in ``s.day = a.day AND s.day = b.day``. Every
row of the question is made of one of the joined public rows, whatever the private rows are; so the
values that an expression of public columns has for these are all that it can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Table
from dpsql.ir.relations import Filter, Join, JoinKind, Rename, RowSet, Scan
from dpsql.pipeline.column_origins import (
    ColumnBehind,
    RelationPath,
    TableColumn,
    conditions_above,
    table_column,
)
from dpsql.sql.lineage.names import generated_column
from dpsql.syntax.text import put

_Place: TypeAlias = tuple[RelationPath, str]


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The pairs of rows of public tables, by their places, that fulfil conditions on them alone.

    Columns are named anew, so that none of two tables have one name.
    """

    tables: Mapping[RelationPath, Table]
    conditions: tuple[exp.Expr, ...]

    @property
    def pairs(self) -> RowSet:
        """All pairs of rows of the tables."""
        first, *others = (self._renamed(path, table) for path, table in self.tables.items())
        rows: RowSet = first
        for other in others:
            rows = Join(rows, other, JoinKind.INNER, ())
        return rows

    @property
    def rows(self) -> RowSet:
        """The pairs that fulfil all conditions."""
        if not self.conditions:
            return self.pairs
        return Filter(self.pairs, exp.and_(*self.conditions, copy=True))

    def over(self, node: exp.Expr, columns: Mapping[str, ColumnBehind]) -> exp.Expr:
        """Return an expression with the columns of these rows in place of those they are behind."""
        return _named(node, {n: (c.path, c.column) for n, c in columns.items()}, self.tables)

    def _renamed(self, path: RelationPath, table: Table) -> RowSet:
        place = [*self.tables].index(path)
        names = ((c.name, _numbered(place, n)) for n, c in enumerate(table.columns))
        return Rename(Scan(table), tuple(names))


def public_rows(
    rows: RowSet,
    condition: exp.Expr | None,
    found: ColumnBehind,
    is_public: Callable[[Table], bool],
) -> PublicRows | None:
    """Join a public table to others by the conditions between them.

    None where one of them may be missing beside a row of the table: a condition on both says
    nothing then.
    """
    tables, conditions = {found.path: found.table}, dict[int, tuple[exp.Expr, dict[str, _Place]]]()
    equal: dict[_Place, dict[_Place, Table]] = {}
    left = [found.path]
    while left:
        path = left.pop()
        for each in _conditions_at(rows, condition, path):
            public = {n: base for n, base in each.bases.items() if is_public(base.table)}
            if len(public) < len(each.bases):
                _note_equal(each, public, equal)
                continue
            places = {name: base.path for name, base in public.items()}
            if path not in places.values():
                continue
            new = {base.path: base for base in public.values() if base.path not in tables}
            if any(base.nulled for base in new.values()):
                return None
            tables |= {base.path: base.table for base in new.values()}
            left += new
            named = {name: (base.path, base.column) for name, base in public.items()}
            conditions[id(each.condition)] = each.condition, named
        for those in equal.values():
            if any(one in tables for one, _ in those):
                new_paths = {place[0]: t for place, t in those.items() if place[0] not in tables}
                tables |= new_paths
                left += new_paths
    written = [_named(node, named, tables) for node, named in conditions.values()]
    written += [
        exp.EQ(this=_column(first, tables), expression=_column(other, tables))
        for first, *others in map(list, equal.values())
        if first[0] in tables
        for other in others
    ]
    return PublicRows(tables, tuple(written))


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition, and the columns of tables, by names in it, with paths from the top."""

    condition: exp.Expr
    bases: Mapping[str, TableColumn]


def _conditions_at(
    rows: RowSet, condition: exp.Expr | None, path: RelationPath
) -> Iterator[_Condition]:
    """Yield the conditions above a table that are on columns of tables alone."""
    for found in conditions_above(condition, rows, path):
        above = path[: len(path) - len(found.path)]
        names = {each.name for each in found.condition.find_all(exp.Column)}
        bases = {name: table_column(found.rows, name) for name in names}
        known = {
            name: TableColumn((*above, *base.path), base.column, base.table, base.nulled)
            for name, base in bases.items()
            if base is not None
        }
        if names and len(known) == len(names):
            yield _Condition(found.condition, known)


def _note_equal(
    found: _Condition,
    public: Mapping[str, TableColumn],
    equal: dict[_Place, dict[_Place, Table]],
) -> None:
    """Add a column of a public table that a condition says to be equal to a private one."""
    sides = [found.condition.args.get(side) for side in ("this", "expression")]
    if not isinstance(found.condition, exp.EQ) or len(public) != 1 or len(found.bases) != 2:
        return
    if not all(
        isinstance(side, exp.Expr) and isinstance(side.unnest(), exp.Column) for side in sides
    ):
        return
    (one,) = public.values()
    (other,) = (base for name, base in found.bases.items() if name not in public)
    held = [base.table.column(base.column) for base in (one, other)]
    alike = len({each.type for each in held if each is not None}) == 1
    if alike and not one.nulled and not any(each is None or each.collated for each in held):
        equal.setdefault((other.path, other.column), {})[one.path, one.column] = one.table


def _named(
    node: exp.Expr, places: Mapping[str, _Place], tables: Mapping[RelationPath, Table]
) -> exp.Expr:
    """Return an expression over the joined tables."""
    made = exp.Paren(this=node.copy())  # so that a column alone has a place to be put in
    for column in list(made.find_all(exp.Column)):
        put(column, _column(places[column.name], tables))
    return made


def _column(place: _Place, tables: Mapping[RelationPath, Table]) -> exp.Column:
    """Return a column of one of the tables as it is named beside the others."""
    path, column = place
    table = tables[path]
    found = table.column(column)
    number = next(n for n, each in enumerate(table.columns) if each is found)
    return generated_column(_numbered([*tables].index(path), number))


def _numbered(table: int, column: int) -> str:
    """Name a column by numbers: an engine may cut off a name that is longer than its own."""
    return f"{INTERNAL_PREFIX}{table}_{column}"

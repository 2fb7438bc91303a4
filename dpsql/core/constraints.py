"""Constraints of a table's definition: what its database holds all of its rows to.

They are the owner's, as the whole catalog is: for ``dpsql init`` and ``dpsql check`` alone. No
engine that questions are asked of has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from dpsql.core.table_name import TableName


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A column whose values, NULL apart, are those of a key of another table."""

    column: str
    parent: TableName
    parent_column: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a table, to which all of its committed rows are held.

    ``keys`` are the columns of which no two rows have the same value, NULL apart: the rows without
    a value may be many. ``combinations`` are the columns, several together, in all of which no two
    rows have the same values; none of these columns is NULL in any row. ``references`` are its
    foreign keys of one column each. ``conditions`` are those of CHECK as the engine writes them;
    none is false for a row. Columns are named as the database spells them.
    """

    keys: frozenset[str] = frozenset()
    references: tuple[ForeignKey, ...] = ()
    conditions: tuple[str, ...] = ()
    combinations: frozenset[frozenset[str]] = frozenset()


ConstraintsOf: TypeAlias = Mapping[str, Constraints]
"""The constraints of tables, by the keys of their names."""
NO_CONSTRAINTS: Final[ConstraintsOf] = MappingProxyType({})


def gathered(
    keys: Iterable[tuple[TableName, str]],
    references: Iterable[tuple[TableName, ForeignKey]],
    conditions: Iterable[tuple[TableName, str]],
    combinations: Iterable[tuple[TableName, frozenset[str]]],
) -> ConstraintsOf:
    """Put together the constraints of each table from those of all tables."""
    found: dict[str, Constraints] = {}

    def of(table: TableName) -> Constraints:
        return found.get(table.key, Constraints())

    for table, column in keys:
        found[table.key] = replace(of(table), keys=of(table).keys | {column})
    for table, reference in references:
        found[table.key] = replace(of(table), references=(*of(table).references, reference))
    for table, condition in conditions:
        found[table.key] = replace(of(table), conditions=(*of(table).conditions, condition))
    for table, columns in combinations:
        found[table.key] = replace(of(table), combinations=of(table).combinations | {columns})
    return found

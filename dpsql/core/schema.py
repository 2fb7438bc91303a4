"""The schema of a database: names of tables, names and types of columns, never a row.

A schema is a mapping from a table's key to :class:`Table`. Types are DuckDB's; every engine
translates its own to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import NameRules, TableName
from dpsql.core.table_name import fold as fold


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name, as the database spells it, and its type.

    ``collated`` columns compare text in a way that makes different values equal. The texts of
    ``enumerated`` ones are an ENUM in the database, and have an order of their own there.
    """

    name: str
    type: SqlType
    collated: bool = False
    enumerated: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a table or view, such as why it cannot be read, with a hint."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A column that dpsql does not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table or view and its columns in order. A name that is a text has no schema.

    One that is ``unreadable`` cannot be listed in a policy. ``left_out`` are columns it has in the
    database and not here.
    """

    name: TableName
    columns: tuple[Column, ...]
    is_view: bool = False
    unreadable: Remark | None = None
    left_out: tuple[LeftOut, ...] = ()
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: TableName | str,
        columns: tuple[Column, ...],
        is_view: bool = False,
        unreadable: Remark | None = None,
        left_out: tuple[LeftOut, ...] = (),
    ) -> None:
        known: dict[str, object] = {
            "name": TableName.of(name),
            "columns": columns,
            "is_view": is_view,
        }
        known |= {"unreadable": unreadable, "left_out": left_out}
        # Of two columns with one name, the first.
        known["_by_name"] = {fold(column.name): column for column in reversed(columns)}
        for each, value in known.items():
            object.__setattr__(self, each, value)

    def column(self, name: str) -> Column | None:
        """Find the column of that name, compared as DuckDB does (ignoring ASCII case), or None."""
        return self._by_name.get(fold(name))

    def spelled(self, name: str) -> Column | None:
        """Find the column of that name as the definition of the table means it, or None.

        A server may tell two columns apart by the case of letters alone, of which one is left out.
        """
        other = any(left.name == name for left in self.left_out)
        return None if other else self.column(name)


Schema: TypeAlias = Mapping[str, Table]
"""Key of a table's name -> Table."""


def schema_of(*tables: Table) -> Schema:
    """Return the schema holding these tables, by the keys of their names."""
    return {table.name.key: table for table in tables}


def rules_of(schema: Schema, catalog: str, listed: Iterable[TableName]) -> NameRules:
    """Build the rules by which names of tables are resolved in a database with this schema."""
    return NameRules.of((table.name for table in schema.values()), catalog, listed)

"""Keys of a database beside the declared units and links of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.core.constraints import Constraints, ConstraintsOf
from dpsql.core.schema import Column, Schema, Table
from dpsql.core.table_name import written_part
from dpsql.policy.model import Link, PrivacyUnit, is_all_of


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key between two tables of a schema, in columns that are compared as they are."""

    column: Column
    parent: Table
    key: Column

    @property
    def link(self) -> Link:
        """The link that follows the key."""
        return Link(self.column.name, self.parent.name, self.key.name)

    @property
    def text(self) -> str:
        """The key as an owner writes a link: ``o_custkey -> customer.c_custkey``."""
        end = f"{self.parent.name}.{written_part(self.key.name)}"
        return f"{written_part(self.column.name)} -> {end}"


def references(table: Table, schema: Schema, constraints: ConstraintsOf) -> list[Reference]:
    """List the foreign keys by which a table refers to others."""
    found = []
    for each in constraints.get(table.name.key, Constraints()).references:
        parent, column = schema.get(each.parent.key), table.spelled(each.column)
        key = None if parent is None else parent.spelled(each.parent_column)
        if parent is None or column is None or key is None or parent.name == table.name:
            continue
        if column.type.compares_exactly(key.type) and not (column.collated or key.collated):
            found.append(Reference(column, parent, key))
    return found


def key_columns_of(table: Table, constraints: ConstraintsOf) -> list[Column]:
    """List the columns of which no two rows have the same value, NULL apart."""
    keys = constraints.get(table.name.key, Constraints()).keys
    found = (table.spelled(name) for name in sorted(keys))
    return [column for column in found if column is not None and not column.collated]


def unique_columns_of(
    table: Table, units: Mapping[str, PrivacyUnit], links: Mapping[str, Link], of: ConstraintsOf
) -> list[list[Column]]:
    """List the columns, the unit's among them, in all of which no two rows are the same."""
    unit, link = units.get(table.name.key), links.get(table.name.key)
    if link is not None:
        above = units.get(link.parent.key)
        if above is None or not is_all_of(above, *link.parent_columns):
            return []
    said = _one_column(unit, link)
    whose = None if said is None or table.is_view else table.column(said)
    if whose is None:
        return []
    found = []
    for names in of.get(table.name.key, Constraints()).combinations:
        columns = [column for column in table.columns if column.name in names]
        if whose in columns and len(columns) == len(names):
            found.append([whose, *(column for column in columns if column is not whose)])
    plain = [columns for columns in found if not any(column.collated for column in columns)]
    return sorted(plain, key=lambda columns: [len(columns), *(str(c.name) for c in columns)])


def one_row_per_unit(
    name: str,
    units: Mapping[str, PrivacyUnit],
    links: Mapping[str, Link],
    schema: Schema,
    constraints: ConstraintsOf,
) -> bool:
    """Tell whether keys prove that no unit has two rows in a table, given by the key of its name.

    A row without a unit is nobody's and is not read, so the column of the unit may be NULL.
    """
    table, unit, link = schema.get(name), units.get(name), links.get(name)
    said = _one_column(unit, link)
    if table is None or table.is_view or said is None:
        return False
    column = table.column(said)
    if column is None or column not in key_columns_of(table, constraints):
        return False
    if unit is not None or link is None:
        return True
    above = {key: each for key, each in links.items() if key != name}  # no circle is followed twice
    return one_row_per_unit(link.parent.key, units, above, schema, constraints)


def _one_column(unit: PrivacyUnit | None, link: Link | None) -> str | None:
    """Name the only column with the unit or the link of a table, if there is one."""
    if unit is not None:
        return unit.column
    return link.columns[0] if link is not None and len(link.columns) == 1 else None

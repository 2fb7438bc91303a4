"""Keys and references that a policy declares, as PostgreSQL's catalogs have constraints.

They are what the owner promises of the rows, or the SQL of questions keeps; nothing of rows is read
for them. A key that links refer to is the primary key of its table, and so is the unit's column of
one row each; all others are unique constraints. Each has an index, as tools look for keys there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dpsql.core.schema import Table, fold
from dpsql.policy.model import Policy, TablePolicy

_MOST_NAME: Final = 63
"""The longest name in PostgreSQL's catalogs."""


@dataclass(frozen=True, slots=True)
class CatalogKey:
    """Columns of a table, by their places from 1, in all of which no two rows agree."""

    table: str
    name: str
    places: tuple[int, ...]
    primary: bool


@dataclass(frozen=True, slots=True)
class CatalogReference:
    """Columns of a table that hold the key of another one."""

    table: str
    name: str
    places: tuple[int, ...]
    key: CatalogKey
    parent_places: tuple[int, ...]


@dataclass(slots=True)
class _Names:
    """Gives names that nothing else in a schema has."""

    taken: set[str] = field(default_factory=set)

    def free(self, table: str, columns: Sequence[str], end: str) -> str:
        whole = "_".join((table, *columns))
        number = 0
        while True:
            last = f"_{end}{number or ''}"
            found = whole.encode()[: _MOST_NAME - len(last)].decode(errors="ignore") + last
            if found not in self.taken:
                self.taken.add(found)
                return found
            number += 1


def declared_keys(
    policy: Policy, tables: Mapping[str, Table]
) -> tuple[tuple[CatalogKey, ...], tuple[CatalogReference, ...]]:
    """List the keys and references of listed tables, by the tables' keys in the policy."""
    names = _Names({table.name.table for table in tables.values()})
    referred: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    for key, child in policy.tables.items():
        for link in child.links if key in tables else ():
            referred.setdefault((link.parent.key, link.key), link.parent_columns)
    keys = {
        (key, columns): CatalogKey(
            key,
            names.free(
                tables[key].name.table,
                () if primary else [tables[key].columns[place - 1].name for place in places],
                "pkey" if primary else "key",
            ),
            places,
            primary,
        )
        for key, table in policy.tables.items()
        if key in tables
        for columns, places, primary in _keys_of(
            table, tables[key], [columns for (to, _), columns in referred.items() if to == key]
        )
    }
    references = []
    for key, child in policy.tables.items():
        for link in child.links if key in tables else ():
            found = keys.get((link.parent.key, frozenset(link.key)))
            own = None if found is None else _places(tables[key], link.columns)
            if found is None or own is None:
                continue
            parent = _places(tables[link.parent.key], link.parent_columns)
            assert parent is not None, "its key was found"
            name = names.free(tables[key].name.table, link.columns, "fkey")
            references.append(CatalogReference(key, name, own, found, parent))
    return tuple(keys.values()), tuple(references)


def _keys_of(
    policy: TablePolicy, table: Table, referred: Sequence[Sequence[str]]
) -> Iterator[tuple[frozenset[str], tuple[int, ...], bool]]:
    """Yield each key of a table once: its folded columns, their places, whether it is primary.

    ``referred`` are the columns that links refer to, each in the order of the first link.
    """
    unit = policy.privacy_unit
    each = unit is not None and not unit.is_row and unit.per is None and policy.rows_per_unit == 1
    of_unit = [(unit.column,)] if unit is not None and each else []
    seen: set[frozenset[str]] = set()
    for number, columns in enumerate((*referred, *of_unit, *policy.unique)):
        key, places = frozenset(map(fold, columns)), _places(table, columns)
        if key not in seen and places is not None:
            primary = not seen and number < len(referred) + len(of_unit)
            seen.add(key)
            yield key, places, primary


def _places(table: Table, columns: Sequence[str]) -> tuple[int, ...] | None:
    """Return the places of columns, from 1; None where the table has not all of them."""
    known = {fold(column.name): place for place, column in enumerate(table.columns, 1)}
    found = tuple(known[fold(name)] for name in columns if fold(name) in known)
    return found if len(found) == len(columns) else None

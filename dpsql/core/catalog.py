"""All that an engine has, whether or not a policy lists it: for the database's owner alone.

Names of tables that no policy lists are not public. So nothing of a connection's holds a catalog:
opening cuts it to the tables of the policy, and what is left is a schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpsql.core.schema import Schema, Table, schema_of


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every table and view of a database, by the keys of their names, readable or not."""

    tables: Schema

    @classmethod
    def of(cls, *tables: Table) -> Catalog:
        """Return the catalog of these tables."""
        return cls(schema_of(*tables))

    def cut(self, listed: Iterable[str]) -> Schema:
        """Return the schema of the tables with these keys, of those that can be read."""
        found = (self.tables.get(key) for key in sorted(set(listed)))
        return schema_of(*(t for t in found if t is not None and t.unreadable is None))

"""Public tables in the rooms: read once from the owner's database, and kept for who comes next.

Materialized views are public too, once they are published; a room has them as of one refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import duckdb

from dpsql.core.quoting import quote, quote_table
from dpsql.core.schema import Table
from dpsql.core.table_name import TableName
from dpsql.engines.base import Engine, Run
from dpsql.errors import EngineError
from dpsql.pipeline.rooms import Stay, Tenant


class PublishedViews(Protocol):
    """The materialized views that an account may read."""

    def tables(self) -> Mapping[str, Table]:
        """Return their columns, by the keys of their names."""

    def load(self, name: str, stay: Stay) -> None:
        """Make the table of a view in a room, as it is published now."""

    def figures(self, name: str, column: str, confidence: float | None) -> Sequence[float] | None:
        """Tell the noise of a view's column, by step: see ``view_intervals.NoiseFigures``."""


class NoViews:
    """No views at all."""

    def tables(self) -> Mapping[str, Table]:
        """Return no table."""
        return {}

    def load(self, name: str, stay: Stay) -> None:
        """Raise ``KeyError``: there is nothing to load."""
        raise KeyError(name)

    def figures(self, name: str, column: str, confidence: float | None) -> Sequence[float] | None:
        """Tell nothing: there is no view."""
        return None


class PublicTables:
    """Copies the public tables of statements into the room of their connection."""

    def __init__(self, engine: Engine, tenant: Tenant) -> None:
        self._engine = engine
        self._tenant = tenant
        self._reading: Run | None = None
        self.views: Callable[[], PublishedViews] = NoViews  # made when first asked for

    def load(self, tables: Iterable[str]) -> None:
        """Copy tables into the room, once each. Raises ``EngineError`` if one cannot be."""
        try:
            for table in tables:
                self._load(table)
        except (duckdb.Error, EngineError, MemoryError):
            raise EngineError() from None
        finally:
            self._reading = None

    def interrupt(self) -> None:
        """End the reading of a table, if one is read; it fails. For other threads to call."""
        reading = self._reading
        if reading is not None:
            reading.interrupt()

    def name(self, table: str) -> TableName:
        """Return the name of a table, as the room has it."""
        return self._known(table).name

    def definition(self, table: str) -> str:
        """Write what makes an empty copy of a table."""
        known = self._known(table)
        columns = ", ".join(f"{quote(column.name)} {column.type}" for column in known.columns)
        return f"{_schema(known)}CREATE TABLE {quote_table(known.name)} ({columns})"

    def _known(self, table: str) -> Table:
        found = self._engine.schema().get(table)
        return self.views().tables()[table] if found is None else found

    def _load(self, table: str) -> None:
        stay, known = self._tenant.stay(), self._engine.schema().get(table)
        if known is None:
            self.views().load(table, stay)
            return
        # A view may have other rows tomorrow, and must have the same ones for one connection.
        kept = stay.own if known.is_view else stay.room.public
        if known.name in kept:
            return
        made = f"CREATE TABLE {quote_table(known.name)} AS SELECT * FROM __dpsql_public"
        with self._engine.run() as self._reading:
            rows = self._reading.stream(table)
        with stay.registered(public=rows):
            stay.cursor.execute(_schema(known) + made)
        kept.add(known.name)


def _schema(table: Table) -> str:
    """Write what makes the schema of a table, where it may be missing."""
    if table.name.in_main:
        return ""
    return f"CREATE SCHEMA IF NOT EXISTS {quote(table.name.schema)}; "

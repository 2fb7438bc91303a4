"""Public tables in the rooms: read once from the owner's database, and kept for who comes next.

Materialized views are public too, once they are published; a room has them as of one refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, Protocol, TypeAlias

import duckdb

from dpsql.core.quoting import table_sql
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import Engine, Run
from dpsql.engines.base.twin import columns_sql
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.running import execute
from dpsql.errors import EngineError
from dpsql.ir.relations import PublicSource, PublicTable, PublishedView, TypesAlone
from dpsql.pipeline.tail.rooms import Stay, Tenant

_MOST_TEXT: Final = 100_000
"""Characters of all values of a column: they are constants of a statement."""
_MOST_LISTS: Final = 64
"""Lists of values that a connection keeps: those that were asked for last."""
_SECONDS: Final = 10.0
"""The time of a statement that is computed before a question is paid for."""
_Rows: TypeAlias = list[tuple[Any, ...]]
_Asked: TypeAlias = tuple[tuple[TableName, ...], Sql, tuple[Column, ...], int]
_ENDS: Final = frozenset({date.min, date.max, datetime.min, datetime.max})
"""What Python makes of infinite moments."""


class PublishedViews(Protocol):
    """The materialized views that an account may read."""

    def tables(self) -> Mapping[str, PublishedView]:
        """Return the published views, by the keys of their names."""

    def load(self, view: PublishedView, stay: Stay) -> None:
        """Make the table of a view in a room, as it is published now."""

    def figures(
        self, view: PublishedView, column: str, confidence: float | None
    ) -> Sequence[float] | None:
        """Tell the noise of a view's column, by step: see ``view_intervals.NoiseFigures``."""


class NoViews:
    """No views at all."""

    def tables(self) -> Mapping[str, PublishedView]:
        """Return no view."""
        return {}

    def load(self, view: PublishedView, stay: Stay) -> None:
        """Raise ``KeyError``: there is nothing to load."""
        raise KeyError(view.stream)

    def figures(
        self, view: PublishedView, column: str, confidence: float | None
    ) -> Sequence[float] | None:
        """Tell nothing: there is no view."""
        return None


class PublicTables:
    """Copies the public tables of statements into the room of their connection."""

    def __init__(self, engine: Engine, tenant: Tenant) -> None:
        self._engine = engine
        self._tenant = tenant
        self._reading: Run | None = None
        self._rows: dict[_Asked, _Rows | None] = {}
        self.views: Callable[[], PublishedViews] = NoViews  # made when first asked for
        self.asked = 0
        """How often rows of these tables were asked for."""

    def load(self, sources: Iterable[PublicSource]) -> None:
        """Copy tables into the room, once each. Raises ``EngineError`` if one cannot be."""
        try:
            for source in sources:
                self.asked += 1
                self._load(source)
        except (duckdb.Error, EngineError, MemoryError):
            raise EngineError() from None
        finally:
            self._reading = None

    def found(
        self, tables: Sequence[TableName], statement: Sql, columns: Sequence[Column], most: int
    ) -> _Rows | None:
        """Return what a query finds in public tables, computed by their engine.

        ``tables`` are those that it scans, as often as it does.
        None where there are more than ``most`` rows, or it takes too long. A connection keeps the
        rows that it asked for last. Raises ``EngineError`` if they cannot be read.
        """
        asked = tuple(tables), statement, tuple(columns), most
        self.asked += 1
        try:
            known = asked in self._rows
            found = self._rows.pop(asked) if known else self._read_rows(*asked)
        except (duckdb.Error, EngineError, MemoryError):
            raise EngineError() from None
        finally:
            self._reading = None
        self._rows[asked] = found
        if len(self._rows) > _MOST_LISTS:
            del self._rows[next(iter(self._rows))]
        return found

    def _read_rows(
        self, tables: Sequence[TableName], statement: Sql, columns: Sequence[Column], most: int
    ) -> _Rows | None:
        stay, limited = self._tenant.stay(), sql("{} LIMIT {}", statement, most + 1)
        with self._engine.run(_SECONDS) as self._reading:
            try:
                self._reading.begin(dict.fromkeys(tables))
                stream = self._reading.stream_found(tables, limited, columns)
                with stay.registered(public=stream):
                    rows = execute(stay.cursor, sql("SELECT * FROM __dpsql_public")).fetchall()
            except (duckdb.Error, EngineError):
                if self._reading.expired:
                    return None
                raise
        return None if len(rows) > most else rows

    def computed(self, sources: Iterable[PublicSource], statement: Sql) -> _Rows | None:
        """Compute a statement over public tables; None where it fails or takes too long.

        Raises ``EngineError`` where it was interrupted, or if a table cannot be read.
        """
        self.load(sources)
        stay = self._tenant.stay()
        deadline = Deadline(_SECONDS, stay.cursor.interrupt)
        try:
            with deadline:
                return execute(stay.cursor, statement).fetchall()
        except (duckdb.Error, MemoryError, RuntimeError) as error:
            raise_if_interrupted(error)
            if isinstance(error, duckdb.InterruptException) and not deadline.expired:
                raise EngineError("the query was interrupted", code="interrupted") from None
            return None

    def interrupt(self) -> None:
        """End the reading of a table, if one is read; it fails. For other threads to call."""
        reading = self._reading
        if reading is not None:
            reading.interrupt()

    def _load(self, source: PublicSource) -> None:
        match source:
            case PublishedView():
                self.views().load(source, self._tenant.stay())
            case PublicTable():
                self._copy(source)
            case TypesAlone():
                raise EngineError()  # a private table: no statement that has rows holds one

    def _copy(self, source: PublicTable) -> None:
        """Copy a table of the owner's; another one of its name is in no room of this engine's."""
        stay, table = self._tenant.stay(), source.table
        # A view may have other rows tomorrow, and must have the same ones for one connection.
        if source in (stay.own if table.is_view else stay.room.public):
            return
        made = sql("CREATE TABLE {} AS SELECT * FROM __dpsql_public", table_sql(table.name))
        with self._engine.run() as self._reading:
            self._reading.begin([table.name])
            rows = self._reading.stream(table)
        with stay.registered(public=rows):
            for statement in (*_schema(table), made):
                execute(stay.cursor, statement)
        if table.is_view:
            stay.own.add(source)
        else:
            stay.room.public.add(source)


def values_of(found: Iterable[Any], type_: SqlType) -> tuple[object, ...] | None:
    """Sort the different values of a column, NULL last; None where not all are values of Python's.

    None too where they are too long together.
    """
    values = set(found)
    known = [value for value in values if value is not None]
    if type_.kind != "VARCHAR" and any(isinstance(value, str) for value in known):
        return None  # moments of years that Python does not have
    size = sum(len(value) for value in known if isinstance(value, str))
    if size > _MOST_TEXT or any(value in _ENDS for value in known):
        return None
    return (*sorted(known), None) if None in values else tuple(sorted(known))


def empty_copy(table: Table) -> list[Sql]:
    """Write the statements that make an empty copy of a table."""
    made = sql("CREATE TABLE {} ({})", table_sql(table.name), columns_sql(table))
    return [*_schema(table), made]


def _schema(table: Table) -> list[Sql]:
    """Write the statement that creates the schema of a table, where it may be missing."""
    if table.name.in_main:
        return []
    return [sql("CREATE SCHEMA IF NOT EXISTS {}", quoted(table.name.schema))]

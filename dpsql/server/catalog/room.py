"""A room for the catalogs: a database without a row of the data.

What tools ask of it is arbitrary SQL. So it is a file that processes of their own read, locked as
the rooms of tails are: they have little memory and little time, and end beyond it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

from dpsql.core.quoting import table_sql
from dpsql.core.schema import Schema
from dpsql.core.sql import Sql, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import execute
from dpsql.policy.model import Policy
from dpsql.server.catalog.asking import CatalogAsking
from dpsql.server.catalog.macros import MACROS
from dpsql.server.catalog.room_process import CatalogAnswer, RoomEnded, RoomFailed, RoomProcess
from dpsql.server.catalog.rows import catalog_rows
from dpsql.server.catalog.structure import PG_CATALOG, CatalogColumn, CatalogRow, Structure
from dpsql.syntax.catalog_spelling import INFORMATION_ROOM, PG_ROOM, not_answered

_MOST_IDLE: Final = 2  # processes that wait for the next query
_EMPTY: Final = {"BOOLEAN": False, "VARCHAR": ""}
_NUMBERS: Final = frozenset({"BIGINT", "INTEGER", "SMALLINT", "FLOAT", "DOUBLE"})
_OPTIONAL: Final = frozenset(
    {"text", "pg_node_tree", "varchar", "timestamptz", "bytea", "interval", "inet"}
)
_FORMATS: Final = (CatalogColumn("oid", "oid"), CatalogColumn("written", "text"))
_KEYWORDS: Final = tuple(CatalogColumn(n, "text") for n in ("word", "catcode", "catdesc"))


class CatalogRoom:
    """The catalogs of one view of a policy. Safe for threads."""

    def __init__(self, structure: Structure, policy: Policy, schema: Schema) -> None:
        self._directory = TemporaryDirectory(prefix="dpsql-catalogs-")
        self._database = Path(self._directory.name) / "room.duckdb"
        with isolated(str(self._database)) as filling:
            _fill(filling, structure, policy, schema)
        self._idle: list[RoomProcess] = []
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, written: str, asking: CatalogAsking, *, rows: bool) -> CatalogAnswer:
        """Run a respelled query, or plan it alone where no ``rows`` are wanted.

        Raises ``NotSupportedError`` for what cannot be answered, and ``EngineError`` where it was
        interrupted, or took longer than the client has set.
        """
        answer, ended = None, False
        process = self._taken()
        try:
            with asking.limit(process.kill) as deadline:
                answer = process.ask(written, rows=rows)
        except RoomFailed as failure:
            ended = isinstance(failure, RoomEnded)
        finally:
            self._take_back(process)
        if answer is None or deadline.expired:  # which it may be as late as this
            raise asking.failure(late=deadline.expired, ended=ended)
        return answer

    def _taken(self) -> RoomProcess:
        """Take a process that waits, or start one."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.ready:
                    return process
                process.end()
        try:
            return RoomProcess(self._database)
        except RoomFailed:
            pass
        raise not_answered("no process for it could be started")

    def _take_back(self, process: RoomProcess) -> None:
        """Keep a process for the next query, if it can have one and few wait."""
        with self._lock:
            if process.ready and not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.end()

    def close(self) -> None:
        """End its processes and remove its file."""
        with self._lock:
            self._closed = True
            for process in self._idle:
                process.end()
            self._idle.clear()
        self._directory.cleanup()


def _fill(
    here: duckdb.DuckDBPyConnection, structure: Structure, policy: Policy, schema: Schema
) -> None:
    """Create all relations and macros, and insert the rows column by column."""
    execute(here, sql("BEGIN"))
    for room in (PG_ROOM, INFORMATION_ROOM):
        execute(here, sql("CREATE SCHEMA {}", name(room)))
    known = catalog_rows(structure, policy, schema)
    for (schema_name, relation_name), columns in structure.relations.items():
        table = _table(schema_name, relation_name)
        execute(here, _created(table, columns))
        rows = [*structure.rows.get(relation_name, ())] if schema_name == PG_CATALOG else []
        for fields in known.get((schema_name, relation_name), ()):
            bare = schema_name != PG_CATALOG
            rows.append(tuple(fields.get(c.name, None if bare else _empty(c)) for c in columns))
        _insert(here, table, columns, rows)
    for special, columns in (("formats", _FORMATS), ("keywords", _KEYWORDS)):
        table = _table(PG_CATALOG, special)
        execute(here, _created(table, columns))
        _insert(here, table, columns, structure.rows[special])
    execute(here, MACROS)
    execute(here, sql("COMMIT"))


def _insert(
    here: duckdb.DuckDBPyConnection,
    table: Sql,
    columns: Sequence[CatalogColumn],
    rows: Sequence[CatalogRow],
) -> None:
    if not rows:
        return
    holes = join(", ", (sql("unnest(CAST(? AS {}[]))", _type(c)) for c in columns))
    values = [
        [_plain(value, column) for value in values]
        for column, values in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    execute(here, sql("INSERT INTO {} SELECT {}", table, holes), values)


def _table(schema: str, relation_name: str) -> Sql:
    room = PG_ROOM if schema == PG_CATALOG else INFORMATION_ROOM
    return table_sql(TableName(relation_name, room))


def _created(table: Sql, columns: Iterable[CatalogColumn]) -> Sql:
    listed = (sql("{} {}", name(column.name), _type(column)) for column in columns)
    return sql("CREATE TABLE {} ({})", table, join(", ", listed))


def _type(column: CatalogColumn) -> Sql:
    return SqlType.of(column.stored).sql


def _empty(column: CatalogColumn) -> object:
    """Return the value of a column that nothing is known of."""
    if column.stored in _NUMBERS:
        return 0
    return None if column.type in _OPTIONAL else _EMPTY.get(column.stored)


def _plain(value: object, column: CatalogColumn) -> object:
    if isinstance(value, str) and column.type == "oidvector":
        return [int(each) for each in value.split()]
    return value

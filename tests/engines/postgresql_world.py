"""A PostgreSQL server as an engine world: one database that is filled, and a role that reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import psycopg
from engine_world import EngineWorld, Filled, Row
from helpers.postgresql_server import Server
from helpers.sql_text import text
from worlds import sql_of, values_of

from dpsql.core.quoting import quote
from dpsql.core.sql_types import SqlType
from dpsql.engines.postgresql.engine import OpenPostgreSQL, PostgreSQLEngine
from dpsql.engines.postgresql.types import sql_type

READER, PASSWORD = "dpsql_reader", "only-reading"
TYPES = (
    "BOOLEAN SMALLINT INTEGER BIGINT FLOAT DOUBLE DECIMAL(12,2) DECIMAL(38,10) VARCHAR DATE "
    "TIMESTAMP TIME UUID"
)


class PostgreSQLWorld(EngineWorld):
    """A database of its own on a server; tables are replaced where they differ."""

    def __init__(self, server: Server, database: str) -> None:
        self._server, self.database = server, database
        self.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", "postgres")
        self.run(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'", "postgres")
        with contextlib.suppress(psycopg.errors.DuplicateObject):
            self.run(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'", "postgres")
        self.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        self._owner = psycopg.connect(server.url(database), autocommit=True)
        self._made: dict[str, tuple[tuple[str, str], ...]] = {}
        self._engine: PostgreSQLEngine | None = None

    @property
    def name(self) -> str:
        return "postgresql"

    @property
    def url(self) -> str:
        """Where the reader connects to."""
        return self._server.url(self.database, READER, PASSWORD)

    @property
    def types(self) -> frozenset[str]:
        return frozenset(TYPES.split())

    @property
    def version(self) -> int:
        """The server's version."""
        return self._owner.info.server_version // 10_000

    def run(self, sql: str, database: str = "") -> None:
        """Run a statement as the superuser."""
        self._server.run(sql, database or self.database)

    def engine(self, tables: Mapping[str, Filled]) -> OpenPostgreSQL:
        shapes = {name: table.columns for name, table in tables.items()}
        for name in self._made.keys() - shapes.keys():
            self._do(f"DROP TABLE {quote(name)}")
        for name, columns in shapes.items():
            if self._made.get(name) != columns:
                listed = ", ".join(f"{quote(c)} {_type(t)}" for c, t in columns)
                self._do(f"DROP TABLE IF EXISTS {quote(name)}")
                self._do(f"CREATE TABLE {quote(name)} ({listed})")
                self._do(f"GRANT SELECT ON {quote(name)} TO {READER}")
            else:
                self._do(f"TRUNCATE {quote(name)}")
            if tables[name].rows:
                types = {kind: _type(kind) for _, kind in columns}
                self._do(f"INSERT INTO {quote(name)} VALUES {values_of(tables[name], types)}")
        if self._engine is None or self._made != shapes:
            self._leave()
            self._engine = PostgreSQLEngine(self.url)
        self._made = shapes
        return self._engine.open(self._engine.catalog().tables)

    def write(self, name: str, row: Row) -> None:
        kinds = [_type(kind) for _, kind in self._made[name]]
        values = ", ".join(sql_of(value, kind) for value, kind in zip(row, kinds, strict=True))
        self._do(f"INSERT INTO {quote(name)} VALUES ({values})")

    @property
    def snapshots(self) -> bool:
        return True

    def _do(self, sql: str) -> None:
        self._owner.execute(sql.encode(), prepare=False)

    def _leave(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    def close(self) -> None:
        self._leave()
        self._owner.close()

    @property
    def failing(self) -> str:
        return "SELECT 1 AS __dpsql_rid, CAST('quoted-value' || random() AS INTEGER) AS m"

    @property
    def endless(self) -> str:
        return (
            "SELECT 1 AS __dpsql_rid, count(*) AS m FROM generate_series(1, 10000000) a(x), "
            "generate_series(1, 10000000) b(y) WHERE hashint4(x + y) = 1"
        )

    @property
    def lenient(self) -> Callable[[str, str], str | None]:
        return lambda title, code: REFUSED.get(title)


REFUSED: Mapping[str, str] = {
    "A key that is an interval, made distinct first": "it has no intervals",
}
"""Golden cases that are refused here, and why."""


def _type(type_: str) -> str:
    found = SqlType.of(type_)
    name = sql_type(found)
    assert name is not None
    written = text(name)
    return written.replace(" ", "") if found.is_decimal else written

"""The worlds of statements on servers, to be asked what DuckDB is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import psycopg
import pytest
from helpers.postgresql_server import Server
from helpers.sql_text import text

import dpsql
from dpsql.core.quoting import quote
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.engine import Database
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.engines.postgresql.types import sql_type
from dpsql.engines.spark.engine import SparkEngine
from dpsql.engines.spark.text import spark_quote
from dpsql.policy.model import AccountPolicy

from .compare import WIDE, Comparison, without_options
from .rules import Row, equal, has_ties
from .worlds import World, world

READER, PASSWORD = "worlds_reader", "only-reading"
Opened: TypeAlias = Callable[[World], Database]
"""From a world to an engine over its rows."""
_TEXTS: Final = {"VARCHAR[]": "TEXT[]"}


def in_postgresql(server: Server) -> Opened:
    """Return how a world is filled into a database of its own on a server."""
    with suppress(psycopg.errors.DuplicateObject):
        server.run(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'")

    def opened(filled: World) -> PostgreSQLEngine:
        database = f"world_{filled.name}_{id(filled)}"
        server.run(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'")
        with psycopg.connect(server.url(database)) as owner:
            for table, columns in filled.columns.items():
                listed = ", ".join(f"{quote(name)} {_type(kind)}" for name, kind in columns)
                owner.execute(f"CREATE TABLE {quote(table)} ({listed})".encode())
                rows = [*filled.rows[table], *filled.nobodys.get(table, ())]
                copied = f"COPY {quote(table)} FROM STDIN".encode()
                with owner.cursor() as cursor, cursor.copy(copied) as copy:
                    for row in rows:
                        copy.write_row(row)
                owner.execute(f"GRANT SELECT ON {quote(table)} TO {READER}".encode())
        return PostgreSQLEngine(server.url(database, READER, PASSWORD))

    return opened


def _type(kind: str) -> str:
    found = sql_type(SqlType.of(kind))
    return _TEXTS[kind] if found is None else text(found)


def in_spark(session: Any) -> Opened:
    """Return how a world is filled into a database of its own in the catalog of a session."""

    def opened(filled: World) -> SparkEngine:
        database = f"world_{filled.name}_{id(filled)}"
        session.sql(f"CREATE DATABASE {database}")
        with duckdb.connect() as owner:
            filled.fill(owner, nobodys=True)
            for table in filled.columns:
                frame = session.createDataFrame(owner.table(table).to_arrow_table()).coalesce(1)
                frame.write.format("parquet").saveAsTable(f"{database}.{spark_quote(table)}")
        session.sql(f"USE {database}")
        return SparkEngine(session, snapshot="copy")

    return opened


class ServerComparison:
    """A world on a server, beside the same in DuckDB."""

    def __init__(self, name: str, statements: tuple[str, ...], opened: Opened, place: Path) -> None:
        self._of, self._opened, self._place = (name, statements), opened, place
        self._made: dict[bool, tuple[Comparison, dpsql.Connection]] = {}

    def _both(self, *, ties: bool) -> tuple[Comparison, dpsql.Connection]:
        if ties not in self._made:
            filled = world(*self._of, ties=ties)
            place = self._place / str(ties)
            place.mkdir(parents=True)
            rich = replace(filled.policy, accounts={"ana": AccountPolicy("ana", 1e6, 0.9)})
            ledger = place / "server.db"
            server = dpsql.connect(self._opened(filled), rich, ledger, "ana", **WIDE)
            self._made[ties] = Comparison(filled, place), server
        return self._made[ties]

    def close(self) -> None:
        """Close all that was opened."""
        for in_duckdb, server in self._made.values():
            in_duckdb.close()
            server.close()

    def is_answered(self, sql: str) -> bool:
        """Tell whether it is answered in DuckDB."""
        in_duckdb, _ = self._both(ties=True)
        try:
            in_duckdb.ask(sql)
        except dpsql.Error:
            return False
        return True

    def difference(self, sql: str) -> str:
        """Say how the server's answer differs from DuckDB's.

        Raises the ``dpsql.Error`` of the server, if DuckDB has an answer.
        """
        if not self.is_answered(sql):
            return ""
        found = self._difference(sql, ties=True)
        return self._difference(sql, ties=False) if found and has_ties(sql) else found

    def _difference(self, sql: str, *, ties: bool) -> str:
        in_duckdb, server = self._both(ties=ties)
        expected = in_duckdb.ask(sql)
        rows = server.sql(without_options(sql), fresh=True).fetchall()
        if _alike(rows, expected) or in_duckdb.rules(rows, in_duckdb.own_text(sql)) is not None:
            return ""
        extra = [row for row in rows if not any(equal(row, each) for each in expected)]
        missing = [row for row in expected if not any(equal(row, each) for each in rows)]
        return f"{sql}\n{len(rows)} rows, {len(expected)} of DuckDB\n{extra[:4]}\nnot {missing[:4]}"


def _alike(rows: Sequence[Row], expected: Sequence[Row]) -> bool:
    left = list(expected)
    for row in rows:
        place = next((place for place, each in enumerate(left) if equal(row, each)), None)
        if place is None:
            return False
        del left[place]
    return not left


def require_drivers() -> None:
    """Skip what needs the drivers of PostgreSQL where they are not installed."""
    pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")

"""Engines with the benchmark's table in them, and what their CPU seconds are.

An engine is a name, what is missing for it on this machine, and a context in which it is filled.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from questions import ANALYST, TABLE, policy

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "engines")]

import dpsql  # noqa: E402

_TICK = os.sysconf("SC_CLK_TCK")


class Filled(ABC):
    """An engine that has the table, and a connection of dpsql's to it."""

    connection: dpsql.Connection

    @abstractmethod
    def plain(self, sql: str) -> object:
        """Run a query as it is, and fetch its rows."""

    @abstractmethod
    def cpu(self) -> float:
        """CPU seconds so far."""


@dataclass(frozen=True)
class MeasuredEngine:
    """``counted`` says whose CPU seconds are; ``missing`` what is not installed, if anything."""

    name: str
    counted: str
    missing: Callable[[], str | None]
    filled: Callable[[pa.Table, Path], AbstractContextManager[Filled]]


# -- DuckDB ------------------------------------------------------------------------------------


class _DuckDB(Filled):
    def __init__(self, file: Path, place: Path) -> None:
        self._plain = duckdb.connect(str(file), read_only=True)
        self.connection = dpsql.connect(file, policy(), place / "duckdb.db", ANALYST)

    def plain(self, sql: str) -> object:
        return self._plain.execute(sql).fetchnumpy()

    def cpu(self) -> float:
        return time.process_time()


@contextmanager
def _duckdb(data: pa.Table, place: Path) -> Iterator[Filled]:
    file = place / "bench.duckdb"
    with duckdb.connect(str(file)) as writer:
        writer.register("given", data)
        writer.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM given")
    engine = _DuckDB(file, place)
    with engine.connection:
        yield engine


# -- PostgreSQL --------------------------------------------------------------------------------


def _no_postgresql() -> str | None:
    if any(
        importlib.util.find_spec(name) is None for name in ("adbc_driver_postgresql", "psycopg")
    ):
        return "pip install '.[postgresql,postgres]'"
    from helpers.postgresql_server import binaries

    return None if binaries() is not None else "a server (Debian: postgresql)"


class _PostgreSQL(Filled):
    def __init__(self, server: Any, place: Path) -> None:
        import psycopg

        self._server = server
        self._session = psycopg.connect(server.url("bench"), autocommit=True)
        self._session.execute("SET jit = off")  # as dpsql's sessions have it
        url = server.url("bench", "reader", "reading")
        self.connection = dpsql.connect(url, policy(), place / "postgresql.db", ANALYST)

    def plain(self, sql: str) -> object:
        return self._session.execute(sql.encode()).fetchall()

    def cpu(self) -> float:
        """Add up the server's processes, once no worker is about to end.

        What one has used is told by itself while it runs, and by the server once it has ended.
        """
        seen = -1.0
        while seen != (seen := self._added_up()):
            time.sleep(0.05)
        return seen

    def _added_up(self) -> float:
        main = self._server.process.pid
        ticks = sum(_fields(main)[11:15])
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = _fields(int(entry.name))
                except OSError:
                    continue
                if fields[1] == main:
                    ticks += fields[11] + fields[12]
        return ticks / _TICK


def _fields(process: int) -> list[int]:
    """Read what Linux tells of a process: after its name, the state first, which is no number."""
    found = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [int(field) if field.lstrip("-").isdigit() else 0 for field in found]


@contextmanager
def _postgresql(data: pa.Table, place: Path) -> Iterator[Filled]:
    from adbc_driver_postgresql import dbapi
    from helpers.postgresql_server import running

    with running() as server:
        server.run("CREATE DATABASE bench TEMPLATE template0 ENCODING 'UTF8'")
        server.run("CREATE ROLE reader LOGIN PASSWORD 'reading'")
        with dbapi.connect(server.url("bench")) as writer, writer.cursor() as cursor:
            cursor.adbc_ingest(TABLE, data, mode="create")
            writer.commit()
        server.run(f"GRANT SELECT ON {TABLE} TO reader", "bench")
        server.run(f"VACUUM ANALYZE {TABLE}", "bench")
        engine = _PostgreSQL(server, place)
        with engine.connection:
            yield engine


# -- Spark -------------------------------------------------------------------------------------


def _no_spark() -> str | None:
    from spark_sessions import missing

    return missing()


class _Spark(Filled):
    def __init__(self, session: Any, place: Path) -> None:
        self._session = session
        self.connection = dpsql.connect(session, policy(), place / "spark.db", ANALYST)

    def plain(self, sql: str) -> object:
        return self._session.sql(sql).toArrow()

    def cpu(self) -> float:
        fields = _fields(self._session.sparkContext._gateway.proc.pid)
        return (fields[11] + fields[12]) / _TICK + time.process_time()


@contextmanager
def _spark(data: pa.Table, place: Path) -> Iterator[Filled]:
    from spark_sessions import started

    session = started(**{"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "2g"})
    try:
        session.createDataFrame(data).write.mode("overwrite").saveAsTable(TABLE)
        engine = _Spark(session, place)
        with engine.connection:
            yield engine
    finally:
        session.stop()


ENGINES = (
    MeasuredEngine("DuckDB", "of the process", lambda: None, _duckdb),
    MeasuredEngine("PostgreSQL", "of the server and its workers", _no_postgresql, _postgresql),
    MeasuredEngine("Spark", "of Python and the JVM", _no_spark, _spark),
)

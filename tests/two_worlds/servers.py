"""Worlds on servers: PostgreSQL, Spark and Spark Connect, of which each world has its own place.

A server is started when it is first needed and ends with the run; rows are put there once for each
lot of the unit's.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import dpsql
from dpsql.engines.postgresql.sessions import PostgreSQLSession

from . import tape as tapes
from .readers import ALL_WAYS, IN_PROCESS, Reader
from .rows import Rows, Table, arrow_of, ordinary, other_rows, unit_rows

_ENGINES: Final = Path(__file__).resolve().parents[1] / "engines"
if str(_ENGINES) not in sys.path:
    sys.path.append(str(_ENGINES))


class Server(Reader):
    """Rows on a server: a world's directory says which of its places is read."""

    has_views = False

    def __init__(self) -> None:
        super().__init__()
        self._stack = contextlib.ExitStack()
        self._filled: dict[tuple[int, bool], str] = {}

    def write(self, place: Path, variant: int, unit: bool) -> None:
        where = self._filled.get((variant, unit))
        if where is None:
            mine = {**other_rows(variant), "t": unit_rows(variant)} if unit else {}
            where = self.fill(variant, unit, mine)
            self._filled[variant, unit] = where
        (place / "where.json").write_text(json.dumps(where), "utf-8")

    def where(self) -> str:
        """The place of the world whose directory is the current one."""
        found: str = json.loads(Path("where.json").read_text("utf-8"))
        return found

    def fill(self, variant: int, unit: bool, mine: dict[str, Rows]) -> str:
        """Put rows on the server; returns where."""
        raise NotImplementedError

    def close(self) -> None:
        """End what was started."""
        super().close()
        self._stack.close()
        self._filled.clear()


class PostgreSQL(Server):
    """A server for each side, so that both have one address but for the port."""

    name = "postgresql"
    ways = ALL_WAYS
    # Relations have numbers, of a counter that all sessions of a server share: one that begins
    # before another has quite ended makes a temporary schema of its own, and takes two.
    hides = re.compile(
        r"127\.0\.0\.1:\d+|dpsql:[0-9a-f]{32}@|:\d{4,5}/|(?<=c\.oid IN \()[\d, ]+(?=\))"
    )

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[bool, Any] = {}

    def missing(self) -> str | None:
        from helpers.postgresql_server import binaries

        return None if binaries() else "there is no PostgreSQL"

    def _server(self, unit: bool) -> Any:
        if unit not in self._servers:
            from helpers.postgresql_server import running

            if not self._servers:
                sends = [(PostgreSQLSession, name) for name in ("run", "_execute", "ask")]
                self._stack.enter_context(recorded("dpsql.engines.postgresql.engine", *sends))
            self._servers[unit] = server = self._stack.enter_context(running())
            server.run("CREATE ROLE reader LOGIN PASSWORD 'only-reading'")
        return self._servers[unit]

    def fill(self, variant: int, unit: bool, mine: dict[str, Rows]) -> str:
        import psycopg

        server, name = self._server(unit), f"two{variant}"
        server.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        server.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC", name)
        with psycopg.connect(server.url(name), autocommit=True) as owner:
            for table in ordinary().values():
                columns = ", ".join(f"{n} {_PG.get(t, t)}" for n, t in table.columns)
                owner.execute(f"CREATE TABLE {table.name} ({columns})".encode())
                given = [_pg(row) for row in (*mine.get(table.name, []), *table.rows)]
                marks = f"({', '.join(['%s'] * len(table.columns))})"
                owner.cursor().executemany(
                    f"INSERT INTO {table.name} VALUES {marks}".encode(), given
                )
            owner.execute(b"CREATE VIEW seen AS SELECT uid, i32, s FROM t WHERE i32 IS NOT NULL")
            owner.execute(b"CREATE VIEW everybody AS SELECT * FROM t")
            owner.execute(b"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        return str(server.url(name, "reader", "only-reading"))

    def database(self) -> Any:
        return self.where()

    def close(self) -> None:
        super().close()
        self._servers.clear()


_PG: Final = {"DOUBLE": "DOUBLE PRECISION"}


def _pg(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row without what PostgreSQL has no value for."""
    return tuple(v.replace("\x00", "") if isinstance(v, str) else v for v in row)


class Spark(Server):
    """A session of Spark's, with a database for each world."""

    name = "spark"
    ways = IN_PROCESS
    hides = re.compile(r"\btwo_(?:with|without)_\d\b")

    def __init__(self) -> None:
        super().__init__()
        self._session: Any = None

    def missing(self) -> str | None:
        from spark_sessions import missing

        return missing()

    def session(self) -> Any:
        """The owner's session."""
        if self._session is None:
            from spark_sessions import started

            self._session = started()
            self._stack.callback(self._session.stop)
            self._record()
        return self._session

    def _record(self) -> None:
        kind = type(self._session)
        self._stack.enter_context(recorded("dpsql.engines.spark.engine", (kind, "sql")))

    def fill(self, variant: int, unit: bool, mine: dict[str, Rows]) -> str:
        from pyspark.sql.pandas.types import from_arrow_schema

        session, name = self.session(), f"two_{'with' if unit else 'without'}_{variant}"
        session.sql(f"CREATE DATABASE {name}")
        for table in ordinary().values():
            rows = arrow_of(table.columns, [*map(_spark, mine.get(table.name, [])), *table.rows])
            frame = session.createDataFrame(rows, schema=from_arrow_schema(rows.schema, True))
            frame.coalesce(1).write.format("parquet").saveAsTable(f"{name}.{table.name}")
        return name

    def database(self) -> Any:
        session = self.session()
        session.sql(f"USE {self.where()}")
        return dpsql.SparkEngine(session, snapshot="fixed")

    def close(self) -> None:
        super().close()
        self._session = None


def _spark(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row without moments that Spark's calendar has none for."""
    return tuple(None if getattr(v, "year", 2000) in (1, 9999) else v for v in row)


class SparkConnect(Spark):
    """The same on a Spark Connect server."""

    name = "spark connect"

    def session(self) -> Any:
        if self._session is None:
            from pyspark.sql import SparkSession
            from spark_sessions import served

            url = self._stack.enter_context(served())
            self._session = SparkSession.builder.remote(url).create()
            self._stack.callback(self._session.stop)
            self._record()
        return self._session


@contextlib.contextmanager
def recorded(module: str, *places: tuple[Any, str]) -> Iterator[None]:
    """Have what is sent to a server written down, too: methods of classes, by their names."""
    originals = [(kind, name, getattr(kind, name)) for kind, name in places]
    for kind, name, original in originals:
        setattr(kind, name, _noting(module)(original))
    try:
        yield
    finally:
        for kind, name, original in reversed(originals):
            setattr(kind, name, original)


def _noting(module: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def send(self: Any, sql: Any, *arguments: Any, **named: Any) -> Any:
            tapes.note(module, sql, arguments or named or None)
            return original(self, sql, *arguments, **named)

        return send

    return make


SERVERS: Final = (PostgreSQL(), Spark(), SparkConnect())

__all__ = ["SERVERS", "Server", "Table", "recorded"]

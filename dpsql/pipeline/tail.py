"""The public tail: SQL over released rows, run by an isolated in-memory DuckDB.

The room holds released rows, public tables and answers, nothing else. It is locked like the private
connection and limited in memory and time, so the tail may be any query DuckDB accepts. What it
costs is nothing, because it sees nothing that is not released.

DuckDB's limit does not cover values that are being computed. Tails that could make these grow
(:mod:`dpsql.sql.tail.growth_class` knows which cannot) are planned and run in a process of their
own, which ends when it takes too much; what was released before is stored by then.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from weakref import finalize

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID, quote
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream, Engine
from dpsql.engines.constants import failing_constant
from dpsql.engines.duckdb import MaterializedStream, numpy_safe, raise_if_interrupted
from dpsql.engines.lockdown import lock_down
from dpsql.engines.sandbox import Apart, ApartFailed, Limits
from dpsql.errors import DataError, EngineError, QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import PlainTail, Query, TailKind
from dpsql.pipeline.released import ReleasedBlock, Values
from dpsql.pipeline.tail_tables import _domain_keys, _lists, _Source, _source
from dpsql.results.rows import Answer, HeldAnswer, Row, StoredAnswer, _unnest
from dpsql.sql.tail.bind_check import constant_fails, tail_sql

MEMORY_LIMIT = "2GB"
TIME_LIMIT_SECONDS = 60.0
# Of a process of its own: what DuckDB counts, and half as much again for what it does not.
RUN_LIMITS = Limits(3 << 30, MEMORY_LIMIT, TIME_LIMIT_SECONDS)
PLAN_LIMITS = Limits(1 << 30, "500MB", 10.0)
_ANSWER = quote(f"{INTERNAL_PREFIX}answer")
_FEW_ROWS = 10_000  # up to here, passing values as parameters beats registering arrays


class TailRoom:
    """An isolated DuckDB for the tails of one connection's queries. Not safe for threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": "",
        }
        self._connection = duckdb.connect(":memory:", config=config)
        lock_down(self._connection)
        self._public: set[str] = set()
        self._numbers = count()
        self._dropped: deque[str] = deque()
        self._apart = Apart()

    def load_public(self, tables: Iterable[str]) -> None:
        """Copy public tables into the room, once each. Raises ``EngineError`` if one cannot be."""
        try:
            for table in tables:
                if table not in self._public:
                    self._load_public(table)
        except (duckdb.Error, MemoryError):
            raise EngineError() from None

    def check(self, query: Query, blocks: Sequence[PreparedBlock]) -> None:
        """Refuse a tail that fails whatever is released. Nothing is run but its constants.

        Raises ``QueryRefused`` if one of them cannot be computed, or if planning the tail alone
        takes more than ``PLAN_LIMITS``. Errors that depend on released values come when it runs.
        """
        if query.tail_kind is TailKind.SURE:
            return
        sql = tail_sql(query, blocks)
        try:
            if query.tail_kind is TailKind.BOUNDED:
                found = failing_constant(self._connection, sql)
            else:
                tables = list(map(self._definition, query.public_tables))
                found = self._apart.failing_constant(tables, sql, PLAN_LIMITS)
        except ApartFailed:
            raise QueryRefused(
                "the query is too large to be planned",
                code="tail_too_large",
                hint="Its constants alone, or columns and aliases that are repeated in each other, "
                f"take more than {PLAN_LIMITS.memory_bytes >> 30} GB "
                f"or {PLAN_LIMITS.seconds:.0f} seconds.",
            ) from None
        if found is not None:
            raise constant_fails(query.text, found.reason, found.literals)

    def run(self, query: Query, released: Sequence[ReleasedBlock], names: Sequence[str]) -> Answer:
        """Run the tail over released rows. Raises ``DataError`` with a fixed text if it fails."""
        if query.plain is not None:
            (only,) = released
            if only.rows.count <= _FEW_ROWS and numpy_safe(only.block.keys):
                return self._held(query.plain, only)
        self._drop_unused()
        loaded: list[str] = []
        sources: list[_Source] = []
        try:
            for each in released:
                # Released rows and public types decide, not how many groups stayed unreleased.
                keys = each.rows.keys
                if each.rows.count <= _FEW_ROWS and (keys is None or isinstance(keys, dict)):
                    sources.append(_source(each))
                else:
                    loaded.append(each.block.name)
                    self._load(each)
            if query.tail_kind is TailKind.UNBOUNDED:
                return self._run_apart(query, sources, loaded, names)
            with self._time_limit():
                return self._stored(query, sources, names)
        except (duckdb.Error, MemoryError, OSError, RuntimeError, ApartFailed) as error:
            raise_if_interrupted(error)
            raise _failed(released) from None
        finally:
            self._dropped.extend(map(quote, loaded))

    def hold(self, columns: Sequence[Column], rows: list[Row]) -> Answer:
        """Rows that were not released, because there was nothing private in them, as an answer."""
        return HeldAnswer(
            self._connection, [c.name for c in columns], [c.type for c in columns], rows
        )

    def key_texts(
        self, columns: Sequence[Column], stream: ArrowStream, row_ids: NDArray[np.int64]
    ) -> list[list[str | None]] | None:
        """The keys of these groups as the engine's texts, by column.

        None where some text does not stand for its key again, or if the engine cannot say.
        """
        texts, same = [], []
        for column in columns:
            key = quote(column.name)
            texts.append(f"list(CAST({key} AS VARCHAR) ORDER BY place)")
            again = f"TRY_CAST(CAST({key} AS VARCHAR) AS {column.type})"
            same.append(f"coalesce(bool_and({again} IS NOT DISTINCT FROM {key}), true)")
        sql = (
            f"SELECT {' AND '.join(same)}, count(*), {', '.join(texts)} "
            f"FROM __dpsql_values JOIN __dpsql_keys USING ({ROW_ID})"
        )
        places = np.arange(len(row_ids))
        try:
            with self._registered({ROW_ID: row_ids, "place": places}, stream):
                ((sound, found, *lists),) = self._connection.execute(sql).fetchall()
        except (duckdb.Error, MemoryError, RuntimeError) as error:
            raise_if_interrupted(error)
            return None
        return [each or [] for each in lists] if sound and found == len(row_ids) else None

    def keys_of_texts(
        self, columns: Sequence[Column], texts: list[list[str | None]], row_ids: list[int]
    ) -> ArrowStream | None:
        """The keys that :meth:`key_texts` wrote, with their row numbers; None for other texts."""
        names = [ROW_ID, *(quote(column.name) for column in columns)]
        keys = [f"CAST({quote(c.name)} AS {c.type}) AS {quote(c.name)}" for c in columns]
        unnested = _unnest(names, ["BIGINT", *("VARCHAR" for _ in columns)])
        sql = f"SELECT {', '.join([ROW_ID, *keys])} FROM ({unnested})"
        try:
            rows = self._connection.cursor().sql(sql, params=[row_ids, *texts])
            return MaterializedStream(rows.materialize())
        except (duckdb.Error, MemoryError, RuntimeError, ValueError) as error:
            raise_if_interrupted(error)
            return None

    def interrupt(self) -> None:
        """End the tail that runs, if one does; it fails. For other threads to call."""
        self._apart.interrupt()
        with suppress(duckdb.Error):  # it was closed a moment ago
            self._connection.interrupt()

    def close(self) -> None:
        """Leave the room. Answers that are still referred to keep theirs."""
        self._drop_unused()
        self._connection = self._connection.cursor()

    def _held(self, tail: PlainTail, released: ReleasedBlock) -> Answer:
        """The answer of a plain tail over a few released rows: no engine is needed for that."""
        columns = released.block.released_columns
        lists = dict(zip((c.name for c in columns), _lists(released), strict=True))
        order = list(range(released.rows.count))
        for term in reversed(tail.order):
            values = lists[term.column]
            missing = [row for row in order if values[row] is None]
            present = [row for row in order if values[row] is not None]
            present.sort(key=values.__getitem__, reverse=term.descending)
            order = missing + present if term.nulls_first else present + missing
        end = None if tail.limit is None else tail.offset + tail.limit
        chosen = [lists[name] for name in tail.columns]
        rows = [tuple(column[row] for column in chosen) for row in order[tail.offset : end]]
        types = {column.name: column.type for column in columns}
        return HeldAnswer(
            self._connection, list(tail.names), [types[name] for name in tail.columns], rows
        )

    def _stored(self, query: Query, sources: list[_Source], names: Sequence[str]) -> Answer:
        table = f"answer_{next(self._numbers)}"
        columns = ", ".join(f"c{i}" for i in range(len(names)))
        ctes = f"WITH {', '.join(s.sql for s in sources)} " if sources else ""
        parameters = [values for source in sources for values in source.parameters]
        sql = f"CREATE TABLE {table}({columns}) AS {ctes}SELECT * FROM ({query.tail})"
        ((rows,),) = self._connection.execute(sql, parameters).fetchall()
        answer = StoredAnswer(self._connection.cursor(), table, names, rows)
        finalize(answer, self._dropped.append, table).atexit = False
        return answer

    def _run_apart(
        self, query: Query, sources: list[_Source], loaded: list[str], names: Sequence[str]
    ) -> Answer:
        """The answer of a tail that a process of its own computes, over a file of its own."""
        columns = ", ".join(f"c{i}" for i in range(len(names)))
        sql = f"CREATE TABLE {_ANSWER}({columns}) AS SELECT * FROM ({query.tail})"
        tables = [quote(self._engine.schema()[table].name) for table in query.public_tables]
        tables += map(quote, loaded)
        with tempfile.TemporaryDirectory(prefix="dpsql-") as directory:
            path = str(Path(directory) / "tail.duckdb")
            with _opened(path) as new:
                for source in sources:
                    released = f"WITH {source.sql} SELECT * FROM {source.name}"
                    self._copy(source.name, released, source.parameters, new)
                for table in tables:
                    self._copy(table, f"SELECT * FROM {table}", None, new)
            self._apart.run(path, [sql], RUN_LIMITS)
            # It is read from while it is needed, and gone when it is closed.
            file = _opened(path, read_only=True)
            ((rows,),) = file.execute(f"SELECT count(*) FROM {_ANSWER}").fetchall()
            return StoredAnswer(file, _ANSWER, names, rows)

    def _copy(
        self,
        table: str,
        rows: str,
        parameters: list[list[object]] | None,
        file: duckdb.DuckDBPyConnection,
    ) -> None:
        found = self._connection.cursor().sql(rows, params=parameters).materialize()
        file.register("__dpsql_rows", MaterializedStream(found))
        file.execute(f"CREATE TABLE {table} AS SELECT * FROM __dpsql_rows")
        file.unregister("__dpsql_rows")

    def _definition(self, table: str) -> str:
        """The statement that makes an empty copy of a public table."""
        known = self._engine.schema()[table]
        columns = ", ".join(f"{quote(column.name)} {column.type}" for column in known.columns)
        return f"CREATE TABLE {quote(known.name)} ({columns})"

    def _drop_unused(self) -> None:
        while self._dropped:
            self._connection.execute(f"DROP TABLE IF EXISTS {self._dropped.popleft()}")

    def _load(self, released: ReleasedBlock) -> None:
        """A large release as a table, sorted by what was released, never in engine order."""
        block, rows = released.block.plan.block, released.rows
        values = {ROW_ID: rows.row_ids, **rows.values}
        columns = [f"v.{quote(name)}" for name in rows.values]
        selected = [quote(block.key_column(i)) for i in range(len(block.keys))]
        source, order = "", [*(f"{column} DESC" for column in columns[:1]), *selected]
        stream: ArrowStream | None = None
        if rows.keys is None:
            keys = released.block.keys
            selected, order = _domain_keys(block, keys, f"v.{ROW_ID}"), [f"v.{ROW_ID}"]
        elif isinstance(rows.keys, dict):
            values |= rows.keys
        else:
            stream, source = rows.keys, f" JOIN __dpsql_keys k USING ({ROW_ID})"
        names = ", ".join(quote(column.name) for column in released.block.released_columns)
        query = f"SELECT {', '.join([*selected, *columns])} FROM __dpsql_values v{source}"
        with self._registered(values, stream):
            self._connection.execute(
                f"CREATE OR REPLACE TABLE {quote(block.name)}({names}) AS "
                f"{query} ORDER BY {', '.join(order)}"
            )

    def _load_public(self, table: str) -> None:
        name = self._engine.schema()[table].name
        self._connection.register("__dpsql_public", self._engine.stream(table))
        try:
            self._connection.execute(f"CREATE TABLE {quote(name)} AS SELECT * FROM __dpsql_public")
        finally:
            self._connection.unregister("__dpsql_public")
        self._public.add(table)

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        timer = threading.Timer(TIME_LIMIT_SECONDS, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # a thread still on its way out would hold on to the connection

    @contextmanager
    def _registered(self, values: dict[str, Values], keys: object) -> Iterator[None]:
        objects = {"__dpsql_values": values, "__dpsql_keys": keys}
        names = [name for name, data in objects.items() if data is not None]
        for name in names:
            self._connection.register(name, objects[name])
        try:
            yield
        finally:
            for name in names:
                self._connection.unregister(name)


def _failed(released: Sequence[ReleasedBlock]) -> DataError:
    """The error of a tail that failed. What the engine says is withheld: it may quote values."""
    limits = f"a result beyond {MEMORY_LIMIT} or {TIME_LIMIT_SECONDS:.0f} seconds"
    if not released:
        return DataError(
            "the query failed on the public tables",
            code="tail_failed",
            hint=f"Nothing was spent. Look for casts or divisions, or for {limits}.",
        )
    return DataError(
        "the part of the query above its aggregates failed on the released rows",
        code="tail_failed",
        hint="The release was paid for. Look for casts or divisions in the outer query, or for "
        f"{limits}.",
    )


def _opened(path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A locked connection to a file of the room's own."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": "",
        "threads": "1",
    }
    connection = duckdb.connect(path, read_only=read_only, config=config)
    lock_down(connection)
    return connection

"""The public tail: SQL over released rows, run by an isolated in-memory DuckDB.

The room holds released rows, public tables and answers, nothing else. It is locked like the private
connection and limited in memory and time, so the tail may be any query DuckDB accepts. What it
costs is nothing, because it sees nothing that is not released.

DuckDB's limit does not cover values that are being computed. Tails that could make these grow
(:mod:`dpsql.sql.tail.growth_class` knows which cannot) are planned and run in a process of their own, which
ends when it takes too much; what was released before is stored by then.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Any, Protocol
from weakref import finalize

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import literal, quote
from dpsql.core.schema import Column, is_text
from dpsql.engines.base import ArrowStream, Engine
from dpsql.engines.constants import failing_constant
from dpsql.engines.duckdb import MaterializedStream, numpy_safe, raise_if_interrupted
from dpsql.engines.lockdown import lock_down
from dpsql.engines.sandbox import Apart, ApartFailed, Limits
from dpsql.errors import DataError, EngineError, InterfaceError, QueryRefused
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import INTERNAL_PREFIX, ROW_ID, Block, PlainTail, Query, TailKind
from dpsql.pipeline.release import ReleasedRows, Values
from dpsql.sql.tail.bind_check import constant_fails, tail_sql

MEMORY_LIMIT = "2GB"
TIME_LIMIT_SECONDS = 60.0
MAX_PYTHON_VALUES = 20_000_000  # of an answer, which take up to 2 GB
# Of a process of its own: what DuckDB counts, and half as much again for what it does not.
RUN_LIMITS = Limits(3 << 30, MEMORY_LIMIT, TIME_LIMIT_SECONDS)
PLAN_LIMITS = Limits(1 << 30, "500MB", 10.0)
_ANSWER = quote(f"{INTERNAL_PREFIX}answer")
_FEW_ROWS = 10_000  # up to here, passing values as parameters beats registering arrays

Row = tuple[Any, ...]


class Answer(Protocol):
    """The rows of a finished tail: the answer's columns, then the hidden ones."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    def types(self) -> list[str]:
        """The DuckDB types of all columns."""

    def fetchall(self, width: int) -> list[Row]:
        """The first ``width`` columns as Python values.

        Raises ``InterfaceError`` for values that Python cannot hold.
        """

    def column(self, position: int) -> list[Any]:
        """The values of one column."""

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        """The first ``width`` columns, for conversion to Arrow and data frames."""


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A small answer of plain types, held as Python values."""

    connection: duckdb.DuckDBPyConnection
    names: list[str]
    types: list[str]
    rows: list[Row]

    def fetchall(self, width: int) -> list[Row]:
        return [row[:width] for row in self.rows]

    def column(self, position: int) -> list[Any]:
        return [row[position] for row in self.rows]

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        columns = [quote(name) for name in self.names[:width]]
        lists = [self.column(position) for position in range(width)]
        return self.connection.cursor().sql(_unnest(columns, self.types[:width]), params=lists)


class StoredAnswer:
    """An answer stored as a table in the room until nobody refers to it."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], rows: int
    ) -> None:
        self._connection = connection
        self._table = table
        self._rows = rows
        self.names = list(names)

    @property
    def types(self) -> list[str]:
        found = self._connection.cursor().execute(f"SELECT * FROM {self._table} LIMIT 0")
        return [str(column[1]) for column in found.description or ()]

    def fetchall(self, width: int) -> list[Row]:
        self._refuse_many(width)
        columns = ", ".join(f"c{i}" for i in range(width))
        sql = f"SELECT {columns} FROM {self._table}"
        try:
            rows: list[Row] = self._connection.cursor().execute(sql).fetchall()
        except (duckdb.InvalidInputException, OverflowError, ValueError):
            raise InterfaceError(
                "some values of the answer cannot be shown as Python values",
                code="no_python_value",
                hint="Read the answer with arrow(), or cast the column to VARCHAR in the query. "
                "Timestamps with time zone need the package pytz.",
            ) from None
        return rows

    def column(self, position: int) -> list[Any]:
        self._refuse_many(1)
        sql = f"SELECT c{position} FROM {self._table}"
        return [row[0] for row in self._connection.cursor().execute(sql).fetchall()]

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        columns = [f"c{i} AS {quote(name)}" for i, name in enumerate(self.names[:width])]
        sql = f"SELECT {', '.join(columns)} FROM {self._table}"
        return self._connection.cursor().sql(sql)

    def _refuse_many(self, width: int) -> None:
        if self._rows * width > MAX_PYTHON_VALUES:
            raise InterfaceError(
                f"the answer has {self._rows:,} rows: too many values to hold as Python objects",
                code="answer_too_large",
                hint="Read the answer with arrow(), or ask for less of it: the same release "
                "answers another statement over the same blocks at no cost.",
            )


@dataclass(frozen=True, slots=True)
class _Source:
    """A released table as a common table expression, with its query parameters."""

    name: str
    sql: str
    parameters: list[list[object]]


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

    def check(
        self, query: Query, plans: Sequence[BlockPlan], keys: Sequence[Sequence[Column]]
    ) -> None:
        """Refuse a tail that fails whatever is released. Nothing is run but its constants.

        Raises ``QueryRefused`` if one of them cannot be computed, or if planning the tail alone
        takes more than ``PLAN_LIMITS``. Errors that depend on released values come when it runs.
        """
        if query.tail_kind is TailKind.SURE:
            return
        columns = [released_columns(*pair) for pair in zip(plans, keys, strict=True)]
        sql = tail_sql(query, plans, columns)
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

    def run(
        self,
        query: Query,
        plans: Sequence[BlockPlan],
        keys: Sequence[Sequence[Column]],
        released: Sequence[ReleasedRows],
        names: Sequence[str],
    ) -> Answer:
        """Run the tail over released rows. Raises ``DataError`` with a fixed text if it fails."""
        if query.plain is not None and released[0].count <= _FEW_ROWS and numpy_safe(keys[0]):
            return self._held(query.plain, plans[0], keys[0], released[0])
        self._drop_unused()
        loaded: list[str] = []
        sources: list[_Source] = []
        try:
            for plan, columns, rows in zip(plans, keys, released, strict=True):
                # Released rows and public types decide, not how many groups stayed unreleased.
                if rows.count <= _FEW_ROWS and (rows.keys is None or isinstance(rows.keys, dict)):
                    sources.append(_source(plan, columns, rows))
                else:
                    loaded.append(plan.block.name)
                    self._load(plan, columns, rows)
            if query.tail_kind is TailKind.UNBOUNDED:
                return self._run_apart(query, sources, loaded, names)
            with self._time_limit():
                return self._stored(query, sources, names)
        except (duckdb.Error, MemoryError, OSError, RuntimeError, ApartFailed) as error:
            raise_if_interrupted(error)
            raise _failed(plans) from None
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

    def _held(
        self, tail: PlainTail, plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows
    ) -> Answer:
        """The answer of a plain tail over a few released rows: no engine is needed for that."""
        columns = released_columns(plan, keys)
        lists = dict(zip((c.name for c in columns), _lists(plan, keys, released), strict=True))
        order = list(range(released.count))
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

    def _load(self, plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> None:
        """A large release as a table, sorted by what was released, never in engine order."""
        block = plan.block
        values = {ROW_ID: released.row_ids, **released.values}
        columns = [f"v.{quote(name)}" for name in released.values]
        selected = [quote(block.key_column(i)) for i in range(len(block.keys))]
        source, order = "", [*(f"{column} DESC" for column in columns[:1]), *selected]
        stream: ArrowStream | None = None
        if released.keys is None:
            selected, order = _domain_keys(block, keys, f"v.{ROW_ID}"), [f"v.{ROW_ID}"]
        elif isinstance(released.keys, dict):
            values |= released.keys
        else:
            stream, source = released.keys, f" JOIN __dpsql_keys k USING ({ROW_ID})"
        names = ", ".join(quote(column.name) for column in released_columns(plan, keys))
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


def _failed(plans: Sequence[BlockPlan]) -> DataError:
    """The error of a tail that failed. What the engine says is withheld: it may quote values."""
    limits = f"a result beyond {MEMORY_LIMIT} or {TIME_LIMIT_SECONDS:.0f} seconds"
    if not plans:
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


def released_columns(plan: BlockPlan, keys: Sequence[Column]) -> list[Column]:
    """The columns of a block's released table: keys, aggregates and their supports, noise."""
    block = plan.block
    columns = [Column(block.key_column(i), key.type) for i, key in enumerate(keys)]
    for index, aggregate in enumerate(block.aggregates):
        whole = plan.is_whole(aggregate)
        columns.append(Column(block.aggregate_column(index), "BIGINT" if whole else "DOUBLE"))
        columns += [Column(name, "DOUBLE") for name in block.support_columns(index)]
    asked = range(len(block.noise_columns))
    return columns + [Column(block.noise_column(index), "DOUBLE") for index in asked]


def _lists(plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> list[list[Any]]:
    """The released columns as lists, in the order of what was released, never of the engine."""
    values: list[list[Any]] = [column.tolist() for column in released.values.values()]
    if released.keys is None:
        return [*_domain_lists(plan.block, keys, released.row_ids.tolist()), *values]
    assert isinstance(released.keys, dict)
    key_lists = [released.keys[column.name].tolist() for column in keys]
    return _sorted_lists(key_lists, values, released.count)


def _domain_lists(
    block: Block, keys: Sequence[Column], positions: Sequence[int]
) -> list[list[Any]]:
    """The declared keys of these groups, as values of the columns' (plain) types."""
    texts = [is_text(column.type) for column in keys]
    domains = [
        [str(value) if text else value for value in key.domain or ()]
        for key, text in zip(block.keys, texts, strict=True)
    ]
    groups = list(product(*domains))
    chosen = [groups[position] for position in positions]
    return [[group[i] for group in chosen] for i in range(len(keys))]


def _source(plan: BlockPlan, keys: Sequence[Column], released: ReleasedRows) -> _Source:
    """A small release as a common table expression over lists of values."""
    block, columns = plan.block, released_columns(plan, keys)
    if released.keys is None:
        values: list[list[Any]] = [column.tolist() for column in released.values.values()]
        lists = [released.row_ids.tolist(), *values]
        unnested = [ROW_ID, *(quote(column.name) for column in columns[len(keys) :])]
        types = ["BIGINT", *(column.type for column in columns[len(keys) :])]
        selected = ", ".join([*_domain_keys(block, keys, ROW_ID), *unnested[1:]])
        rows = f"SELECT {selected} FROM ({_unnest(unnested, types)})"
    else:
        lists = _lists(plan, keys, released)
        rows = _unnest([quote(c.name) for c in columns], [c.type for c in columns])
    names = ", ".join(quote(column.name) for column in columns)
    name = quote(block.name)
    return _Source(name, f"{name}({names}) AS MATERIALIZED ({rows})", lists)


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


def _unnest(names: list[str], types: list[str]) -> str:
    columns = [f"unnest(?::{type_}[]) AS {name}" for name, type_ in zip(names, types, strict=True)]
    return f"SELECT {', '.join(columns)}"


def _sorted_lists(
    keys: list[list[object]], values: list[list[Any]], rows: int
) -> list[list[object]]:
    """Columns in the order of the first released value, then of the keys' text: nothing else."""
    first: list[Any] = values[0] if values else [0] * rows

    def position(row: int) -> tuple[float, tuple[tuple[bool, str], ...]]:
        # No two groups are equal here, NULL and 'None' included: a tie would show engine order.
        return -first[row], tuple((column[row] is None, str(column[row])) for column in keys)

    order = sorted(range(rows), key=position)
    return [[column[row] for row in order] for column in [*keys, *values]]


def _domain_keys(block: Block, keys: Sequence[Column], position: str) -> list[str]:
    """Each key as a function of the group's position in the declared domain."""
    stride, expressions = block.domain_size, []
    for key, column in zip(block.keys, keys, strict=True):
        assert key.domain is not None
        stride //= len(key.domain)
        values = f"[{', '.join(map(literal, key.domain))}]::{column.type}[]"
        expressions.append(f"({values})[1 + ({position} // {stride}) % {len(key.domain)}]")
    return expressions

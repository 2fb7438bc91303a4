"""The public tail: SQL over released rows, run by an isolated in-memory DuckDB.

The room holds released rows and public tables, nothing else. It is locked like the private
connection and limited in memory and time, so the tail may be any query DuckDB accepts. What it
costs is nothing, because it sees nothing that is not released.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np

from dpsql.engines.base import Engine
from dpsql.engines.duckdb import first_line, lock_down
from dpsql.errors import DataError, QueryRefused
from dpsql.plan import BlockPlan
from dpsql.query import ROW_ID, AggregateKind, Block, Query
from dpsql.release import ReleasedRows, is_whole
from dpsql.schema import Column

MEMORY_LIMIT = "2GB"
TIME_LIMIT_SECONDS = 60.0


class TailRoom:
    """An isolated DuckDB for the tails of one connection's queries. Not safe for threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        config = {"memory_limit": MEMORY_LIMIT, "temp_directory": ""}
        self._connection = duckdb.connect(":memory:", config=config)
        lock_down(self._connection)
        self._public: set[str] = set()
        self._released: list[str] = []

    def prepare(
        self, query: Query, plans: Sequence[BlockPlan], keys: Sequence[Sequence[Column]]
    ) -> tuple[Column, ...]:
        """Create the empty released tables and bind the tail; returns the answer's columns.

        Nothing has been reserved or read yet. Raises ``QueryRefused`` if the tail does not bind.
        """
        for table in query.public_tables:
            self._load_public(table)
        for plan, key_columns in zip(plans, keys, strict=True):
            self._released.append(plan.block.name)
            self._connection.execute(_create_table(plan, key_columns))
        try:
            relation = self._connection.sql(query.tail_text)
            columns = zip(relation.columns, relation.types, strict=True)
            return tuple(Column(name, str(type_)) for name, type_ in columns)
        except duckdb.Error as error:
            raise QueryRefused(
                f"the part of the query above its aggregates is not valid: {_public_text(error)}",
                code="tail_does_not_bind",
            ) from None

    def load(self, plan: BlockPlan, released: ReleasedRows) -> None:
        """Insert a block's released rows, sorted by what was released, never in engine order."""
        block = plan.block
        values = {ROW_ID: released.row_ids, **released.values}
        columns = [f"v.{_quote(name)}" for name in released.values]
        keys = [_quote(block.key_column(i)) for i in range(len(block.keys))]
        if released.keys is None:
            source = "__dpsql_values v"
            selected = [*_domain_keys(block), *columns]
            order = [f"v.{ROW_ID}"]
        else:
            source = f"__dpsql_keys k JOIN __dpsql_values v USING ({ROW_ID})"
            selected = [*(f"k.{key}" for key in keys), *columns]
            order = [*(f"{column} DESC" for column in columns[:1]), *(f"k.{key}" for key in keys)]
        with self._registered(values, released):
            self._connection.execute(
                f"INSERT INTO {_quote(block.name)} SELECT {', '.join(selected)} FROM {source}"
                + (f" ORDER BY {', '.join(order)}" if order else "")
            )

    def run(self, query: Query) -> duckdb.DuckDBPyRelation:
        """Run the tail and keep its rows. Raises ``DataError`` with a fixed text if it fails."""
        timer = threading.Timer(TIME_LIMIT_SECONDS, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return self._connection.sql(query.tail_text).materialize()
        except (duckdb.Error, MemoryError):
            raise DataError(
                "the part of the query above its aggregates failed on the released rows",
                code="tail_failed",
                hint="The release was paid for. Look for casts or divisions in the outer query, "
                f"or for a result beyond {MEMORY_LIMIT} or {TIME_LIMIT_SECONDS:.0f} seconds.",
            ) from None
        finally:
            timer.cancel()

    def clear(self) -> None:
        """Drop the released tables of a finished or refused query."""
        while self._released:
            self._connection.execute(f"DROP TABLE IF EXISTS {_quote(self._released.pop())}")

    def close(self) -> None:
        """Discard the room and everything in it."""
        self._connection.close()

    def _load_public(self, table: str) -> None:
        if table in self._public:
            return
        name = self._engine.schema()[table].name
        self._connection.register("__dpsql_public", self._engine.stream(table))
        try:
            self._connection.execute(f"CREATE TABLE {_quote(name)} AS SELECT * FROM __dpsql_public")
        finally:
            self._connection.unregister("__dpsql_public")
        self._public.add(table)

    @contextmanager
    def _registered(self, values: dict[str, np.ndarray], released: ReleasedRows) -> Iterator[None]:
        self._connection.register("__dpsql_values", values)
        if released.keys is not None:
            self._connection.register("__dpsql_keys", released.keys)
        try:
            yield
        finally:
            self._connection.unregister("__dpsql_values")
            if released.keys is not None:
                self._connection.unregister("__dpsql_keys")


def _create_table(plan: BlockPlan, keys: Sequence[Column]) -> str:
    block = plan.block
    columns = [f"{_quote(block.key_column(i))} {key.type}" for i, key in enumerate(keys)]
    for index, aggregate in enumerate(block.aggregates):
        whole = is_whole(aggregate, plan.measures[aggregate.measures[0]].measure)
        columns.append(f"{_quote(block.aggregate_column(index))} {'BIGINT' if whole else 'DOUBLE'}")
        if aggregate.kind is AggregateKind.AVG:
            columns.append(f"{_quote(block.support_column(index))} DOUBLE")
    return f"CREATE OR REPLACE TABLE {_quote(block.name)} ({', '.join(columns)})"


def _domain_keys(block: Block) -> list[str]:
    """Each key as a function of the group's position in the declared domain."""
    stride, keys = block.domain_size, []
    for index, key in enumerate(block.keys):
        assert key.domain is not None
        size = len(key.domain)
        stride //= size
        literals = ", ".join(_literal(value) for value in key.domain)
        keys.append(f"[{literals}][1 + (v.{ROW_ID} // {stride}) % {size}]")
    return keys


def _public_text(error: duckdb.Error) -> str:
    """A binder message about released columns, without internal names."""
    return first_line(error).replace("__dpsql_", "")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"

"""The public tail: SQL over released rows, run in a room of its own
(:mod:`dpsql.pipeline.tail.rooms`).

A room holds released rows, public tables and answers, nothing else. It is locked like the private
connection and limited in memory and time, so the tail may be any query DuckDB accepts. What it
costs is nothing, because it sees nothing that is not released.

DuckDB's limit does not cover values that are being computed. Tails that could make these grow
(:mod:`dpsql.sql.tail.growth_class` knows which cannot) are planned and run in a process of their
own, which ends when it takes too much; what was released before is stored by then.

A tail that fails whatever is released is refused before anything is paid (:class:`TailChecker`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from weakref import finalize

import duckdb

from dpsql.core.quoting import INTERNAL_PREFIX, table_sql
from dpsql.core.schema import Table
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import Engine
from dpsql.engines.duckdb.engine import MaterializedStream
from dpsql.engines.embedded.constants import FailingConstant, failing_constant
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.lockdown import MEMORY_LIMIT, isolated
from dpsql.engines.embedded.running import execute, materialized
from dpsql.engines.embedded.sandbox import Apart, ApartFailed, SandboxLimits
from dpsql.engines.embedded.types import numpy_safe
from dpsql.errors import DataError, EngineError, QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.ir.query import PlainTail, Query, TailKind
from dpsql.ir.relations import PublicSource
from dpsql.kinds.released import ReleasedBlock
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.pipeline.tail.public_tables import PublicTables, empty_copy
from dpsql.pipeline.tail.rooms import Stay, Tenant, pool_of
from dpsql.pipeline.tail.tables import ReleasedTable, load_release, released_lists, released_table
from dpsql.policy.model import Policy
from dpsql.results.rows import Answer, HeldAnswer, StoredAnswer, answer_columns
from dpsql.sql.tail.bind_check import constant_fails, needs_catalog, tail_sql, text_is_read

_FEW_ROWS: Final = 10_000  # up to here, passing values as parameters beats registering arrays


_FAILURES: Final = (duckdb.Error, ApartFailed, EngineError, MemoryError, OSError, RuntimeError)


class TailRunner:
    """Runs the tails of one connection's queries. Not safe for threads."""

    def __init__(self, tenant: Tenant, public: PublicTables, apart: Apart) -> None:
        self._tenant = tenant
        self._public = public
        self._apart = apart

    def run(self, query: Query, released: Sequence[ReleasedBlock], names: Sequence[str]) -> Answer:
        """Run the tail over released rows. Raises ``DataError`` with a fixed text if it fails."""
        if query.plain is not None:
            (only,) = released
            if only.rows.count <= _FEW_ROWS and numpy_safe(only.block.keys):
                return _held(query.plain, only)
        try:
            self._public.load(query.public_tables)
            return self._run(query, released, names)
        except _FAILURES as error:
            raise_if_interrupted(error)
            raise _failed(released) from None

    def _run(self, query: Query, released: Sequence[ReleasedBlock], names: Sequence[str]) -> Answer:
        stay = self._tenant.stay()
        stay.drop_unused()
        loaded: list[Sql] = []
        sources: list[ReleasedTable] = []
        try:
            for each in released:
                # Released rows and public types decide, not how many groups stayed unreleased.
                keys = each.rows.keys
                if each.rows.count <= _FEW_ROWS and (keys is None or isinstance(keys, dict)):
                    sources.append(released_table(each))
                else:
                    loaded.append(quoted(each.block.name))
                    load_release(stay, each)
            if query.tail_kind is TailKind.UNBOUNDED:
                return self._run_apart(stay, query, sources, loaded, names)
            with Deadline(TIME_LIMIT_SECONDS, stay.cursor.interrupt):
                return _stored(stay, query, sources, names)
        finally:
            stay.unused.extend(loaded)

    def _run_apart(
        self,
        stay: Stay,
        query: Query,
        sources: Sequence[ReleasedTable],
        loaded: Sequence[Sql],
        names: Sequence[str],
    ) -> Answer:
        tables = [
            Copied(s.name, sql("WITH {} SELECT * FROM {}", s.sql, s.name), s.parameters)
            for s in sources
        ]
        tables += [Copied(name, sql("SELECT * FROM {}", name)) for name in loaded]
        tables += map(_copied, query.public_tables)
        answer = run_apart(self._apart, query.run_sql, stay.cursor, tables, names)
        return answer.held() or answer


def _copied(source: PublicSource) -> Copied:
    """Copy a public table into a schema of the same name."""
    name = source.table.name
    table = table_sql(name)
    return Copied(table, sql("SELECT * FROM {}", table), schema=quoted(name.schema))


@dataclass(frozen=True, slots=True)
class Tails:
    """The parts with which a connection runs its tails, all for the same tenant."""

    tenant: Tenant
    public: PublicTables
    checker: TailChecker
    runner: TailRunner
    keys: KeySpelling
    apart: Apart

    @classmethod
    def of(cls, engine: Engine, policy: Policy) -> Tails:
        """Make the parts for a connection to an engine, with the public tables of a policy."""
        tables = frozenset(name for name, table in policy.tables.items() if table.public)
        tenant, apart = Tenant(pool_of(engine, tables)), Apart()
        public = PublicTables(engine, tenant)
        parts = TailChecker(tenant, apart), TailRunner(tenant, public, apart)
        return cls(tenant, public, *parts, KeySpelling(tenant), apart)

    def interrupt(self) -> None:
        """Interrupt the work for a tail; it fails. For other threads to call."""
        self.public.interrupt()
        self.apart.interrupt()
        self.tenant.interrupt()


def _stored(
    stay: Stay, query: Query, sources: Sequence[ReleasedTable], names: Sequence[str]
) -> HeldAnswer | StoredAnswer:
    """Compute the answer of a tail in the room, where it stays if it is large."""
    table = stay.new_table()
    columns = join(", ", answer_columns(len(names)))
    whole = sql("SELECT * FROM ({})", query.run_sql)
    if sources:
        whole = sql("WITH {} {}", join(", ", (source.sql for source in sources)), whole)
    parameters = [values for source in sources for values in source.parameters]
    made = sql("CREATE TABLE {}({}) AS {}", table, columns, whole)
    ((rows,),) = execute(stay.cursor, made, parameters).fetchall()
    answer = StoredAnswer(stay.cursor.cursor(), table, names, rows, keeps=stay)
    finalize(answer, stay.unused.append, table).atexit = False
    return answer.held() or answer


def _held(tail: PlainTail, released: ReleasedBlock) -> Answer:
    """Compute the answer of a plain tail over a few released rows, which needs no engine."""
    columns = released.block.released_columns
    lists = dict(zip((c.name for c in columns), released_lists(released), strict=True))
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
    return HeldAnswer(list(tail.names), [types[name] for name in tail.columns], rows)


def _failed(released: Sequence[ReleasedBlock]) -> DataError:
    """Build the error of a tail that failed. The engine's text is withheld: it may quote values."""
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
        hint="The release was paid for and is kept: asked with the outer query mended, it costs "
        f"nothing more. Look there for casts or divisions, or for {limits}.",
    )


PLAN_LIMITS: Final = SandboxLimits(1 << 30, "500MB", 10.0)


class TailChecker:
    """Plans tails where there is nothing released, and computes their constants."""

    def __init__(self, tenant: Tenant, apart: Apart) -> None:
        self._tenant = tenant
        self._apart = apart

    def check(
        self, query: Query, blocks: Sequence[PreparedBlock], stand_ins: Sequence[Table] = ()
    ) -> None:
        """Refuse a tail that fails whatever is released. Nothing is run but its constants.

        Tables with ``stand_ins`` are not looked for: types take their place, or empty copies.

        Raises ``QueryRefused`` if one of them cannot be computed, or if planning the tail alone
        takes more than ``PLAN_LIMITS``. Errors that depend on released values come when it runs.
        Raises ``EngineError`` (``interrupted``) where the statement was: nothing is known then.
        """
        if query.tail_kind is TailKind.SURE:
            return
        try:
            found = self._failing(query, tail_sql(query, blocks, stand_ins), stand_ins)
        except ApartFailed:
            raise QueryRefused(
                "the query is too large to be planned",
                code="tail_too_large",
                hint="Its constants alone, or columns and aliases that are repeated in each other, "
                f"take more than {PLAN_LIMITS.memory_bytes >> 30} GB "
                f"or {PLAN_LIMITS.seconds:.0f} seconds.",
            ) from None
        except duckdb.InterruptException:
            raise EngineError("the query was interrupted", code="interrupted") from None
        if found is not None and found.read_as:
            raise text_is_read(query.text, found.read_as, found.literals)
        if found is not None:
            raise constant_fails(query.text, found.reason, found.literals)

    def check_values(self, query: Query, public: PublicTables) -> None:
        """Refuse a tail with a subquery of several rows that stands for one value.

        Only those over public tables are looked at; one that fails by itself, as
        it is about the rows around it or takes too long, is left to the run. Raises
        ``QueryRefused``, or ``EngineError`` where the statement was interrupted.
        """
        if query.tail_kind is TailKind.UNBOUNDED:
            return
        for value in query.values:
            rows = public.computed(query.public_tables, value.rows_sql)
            if rows is not None and len(rows) > 1:
                raise QueryRefused(
                    "a subquery that stands for one value has several rows",
                    code="several_rows",
                    place=value.place,
                    hint="Aggregate its rows, or limit them to one: (SELECT max(x) FROM …).",
                )

    def _failing(
        self, query: Query, tail: Sql, stand_ins: Sequence[Table]
    ) -> FailingConstant | None:
        if query.tail_kind is TailKind.BOUNDED and not any(map(needs_catalog, stand_ins)):
            return failing_constant(self._tenant.stay().cursor, tail, texts=not query.casts)
        given = [table for table in stand_ins if not needs_catalog(table)]
        read = (source.table for source in query.public_tables)
        tables = [made for table in read if table not in given for made in empty_copy(table)]
        return self._apart.failing_constant(tables, tail, PLAN_LIMITS, texts=not query.casts)


TIME_LIMIT_SECONDS: Final = 60.0
# Of a process of its own: what DuckDB counts, and half as much again for what it does not.
RUN_LIMITS: Final = SandboxLimits(3 << 30, MEMORY_LIMIT, TIME_LIMIT_SECONDS)
_ANSWER: Final = quoted(f"{INTERNAL_PREFIX}answer")


_MAIN: Final = quoted("main")
_ROWS: Final = f"{INTERNAL_PREFIX}rows"


@dataclass(frozen=True, slots=True)
class Copied:
    """A table of the file: its quoted name, and the query over the room that gives its rows.

    ``schema`` is the quoted name of its schema, if it has one.
    """

    name: Sql
    rows: Sql
    parameters: list[list[object]] | None = None
    schema: Sql = _MAIN


def run_apart(
    apart: Apart,
    tail: Sql,
    room: duckdb.DuckDBPyConnection,
    tables: Sequence[Copied],
    names: Sequence[str],
) -> StoredAnswer:
    """Run a tail over copies of the room's tables. Raises ``ApartFailed`` as well."""
    columns = join(", ", answer_columns(len(names)))
    made = sql("CREATE TABLE {}({}) AS SELECT * FROM ({})", _ANSWER, columns, tail)
    with tempfile.TemporaryDirectory(prefix="dpsql-") as directory:
        path = str(Path(directory) / f"{INTERNAL_PREFIX}tail.duckdb")  # no schema is called that
        with isolated(path) as new:
            for table in tables:
                _copy(table, room, new)
        apart.run(path, [made], RUN_LIMITS)
        # It is read from while it is needed, and gone when it is closed.
        file = isolated(path, read_only=True)
        ((rows,),) = execute(file, sql("SELECT count(*) FROM {}", _ANSWER)).fetchall()
        return StoredAnswer(file, _ANSWER, names, rows)


def _copy(table: Copied, room: duckdb.DuckDBPyConnection, file: duckdb.DuckDBPyConnection) -> None:
    found = materialized(room.cursor(), table.rows, table.parameters)
    file.register(_ROWS, MaterializedStream(found))
    execute(file, sql("CREATE SCHEMA IF NOT EXISTS {}", table.schema))
    execute(file, sql("CREATE TABLE {} AS SELECT * FROM {}", table.name, quoted(_ROWS)))
    file.unregister(_ROWS)

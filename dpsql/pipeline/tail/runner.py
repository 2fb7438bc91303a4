"""The public tail: SQL over released rows, run in a room of its own
(:mod:`dpsql.pipeline.tail.rooms`).

A room holds released rows, public tables and answers, nothing else. It is locked like the private
connection and limited in memory and time, so the tail may be any query DuckDB accepts. What it
costs is nothing, because it sees nothing that is not released.

DuckDB's limit does not cover values that are being computed. Tails that could make these grow
(:mod:`dpsql.sql.tail.growth_class` knows which cannot) are planned and run in a process of their
own, which ends when it takes too much; what was released before is stored by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import finalize

import duckdb

from dpsql.core.quoting import table_sql
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import Engine
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.lockdown import MEMORY_LIMIT
from dpsql.engines.embedded.running import execute
from dpsql.engines.embedded.sandbox import Apart, ApartFailed
from dpsql.engines.embedded.types import numpy_safe
from dpsql.errors import DataError, EngineError
from dpsql.ir.query import PlainTail, Query, TailKind
from dpsql.ir.relations import PublicSource
from dpsql.kinds.released import ReleasedBlock
from dpsql.pipeline.tail.apart import TIME_LIMIT_SECONDS, Copied, run_apart
from dpsql.pipeline.tail.check import TailChecker
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.pipeline.tail.public_tables import PublicTables
from dpsql.pipeline.tail.rooms import Stay, Tenant, pool_of
from dpsql.pipeline.tail.tables import ReleasedTable, load_release, released_lists, released_table
from dpsql.policy.model import Policy
from dpsql.results.rows import Answer, HeldAnswer, StoredAnswer, answer_columns

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
        answer = run_apart(self._apart, query.tail_sql, stay.cursor, tables, names)
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
    whole = sql("SELECT * FROM ({})", query.tail_sql)
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

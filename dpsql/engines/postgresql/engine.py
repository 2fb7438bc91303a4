"""PostgreSQL 15 and later: generated SQL runs on the owner's server, over ADBC.

A run is a transaction with one snapshot of the data, on a session of its own whose settings are
pinned. Statements are bound and examined on an empty DuckDB with the same tables
(:mod:`dpsql.engines.base.twin`), so that analysts' SQL means the same on every engine, and no text
of the server's can reach anybody. The driver comes with ``pip install '.[postgresql]'``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.catalog import Catalog
from dpsql.core.constraints import ConstraintsOf
from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Column, Schema, Table
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.arrow_rows import as_type, exact_rows, integers
from dpsql.engines.base.discreet import withholding_texts
from dpsql.engines.base.engine import ArrowStream, Definition, ExactRows, Reads
from dpsql.engines.base.engine_base import ServerDatabase, ServerEngine
from dpsql.engines.base.rehearsal import Rehearsal
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.scratch import Passed, ScratchBase, Sheet
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.evidence.trials import TRIAL_SECONDS, TRIED, definitions_changed
from dpsql.engines.evidence.verdicts import Verdicts, verdicts_on
from dpsql.engines.postgresql.catalog import (
    check_own,
    check_role,
    check_server,
    check_writable,
    read_catalog,
    server_constraints,
)
from dpsql.engines.postgresql.definitions import (
    OWN,
    digests_of,
    digests_sql,
    lock_sql,
    touch_sql,
)
from dpsql.engines.postgresql.last import ServerReading
from dpsql.engines.postgresql.reading import rows_of, sent
from dpsql.engines.postgresql.sessions import (
    PostgreSQLSession,
    PostgreSQLSessions,
    code_of,
    not_answering,
)
from dpsql.errors import EngineError, Error, InterfaceError

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")


class PostgreSQLEngine(ServerDatabase):
    """An owner-side handle on a PostgreSQL database, given as a ``postgresql://`` URL.

    The role in the URL can read the tables of the policy and change nothing; connecting proves it.
    Raises ``InterfaceError`` if the server cannot be reached, or is no PostgreSQL 15 or later.
    """

    def __init__(self, url: str) -> None:
        self._sessions = PostgreSQLSessions(url)
        self._lock = threading.Lock()
        self._opened: dict[frozenset[str], OpenPostgreSQL] = {}
        with self._sessions.one() as session:
            database, self.version = check_server(session.ask)
            self._catalog = read_catalog(session.ask, database)

    def __repr__(self) -> str:
        """Show the database, and nothing of the URL, which may have a password."""
        return f"<PostgreSQLEngine on the database {self._catalog.database}>"

    def catalog(self) -> Catalog:
        return self._catalog.all

    def definition(self, table: TableName) -> Definition:
        return self._catalog.definition(table)

    def constraints(self) -> ConstraintsOf:
        with self._sessions.one() as session:
            return server_constraints(session.ask)

    def open(self, tables: Iterable[str], memory: str | None = None) -> OpenPostgreSQL:
        """Check that the role can change nothing. ``memory`` is the server's own business."""
        with self._sessions.one() as session:
            _, self.version = check_server(session.ask)  # it may be another one by now
            verdicts = verdicts_on(self.version)  # without them nothing private could be asked
            evidence_for(duckdb.__version__)
            schema = self._catalog.all.cut(tables)
            check_role(session.ask)
            check_own(session.ask)
            found = read_catalog(session.ask, self._catalog.database)
            if not found.is_same(self._catalog, schema):
                raise definitions_changed()
            listed = {key: found.relations[key] for key in schema}
            check_writable(list(listed.values()))
            names = [table.name for table in schema.values()]
            digests = digests_of(session.ask(digests_sql(names)))
        proved = Proved(digests, frozenset(k for k, each in listed.items() if each.lockable))
        with self._lock:
            opened = self._opened.get(frozenset(schema))
            if opened is None or opened.proved != proved:  # who holds the former one is refused
                opened = OpenPostgreSQL(
                    self._sessions, self._catalog.database, schema, proved, verdicts
                )
                self._opened[frozenset(schema)] = opened
            return opened

    def over_constants(self, statement: Sql) -> pa.Table:
        """Run a statement that reads no table. Raises ``EngineError`` with a fixed text."""
        with self._sessions.one(TRIAL_SECONDS) as session:
            return session.rows(statement)

    def close(self) -> None:
        """Close all sessions that no run has."""
        self._sessions.close()
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()


@dataclass(frozen=True, slots=True)
class Proved:
    """The digests of tables when they were opened, and the tables that can be locked whole."""

    digests: Mapping[str, str]
    lockable: frozenset[str]

    def begin(self, session: PostgreSQLSession, tables: Iterable[TableName]) -> None:
        """Keep tables as they are for the transaction of a session.

        Locks come before its snapshot, so that this is of what they keep. Raises ``InterfaceError``
        (``definitions_changed``).
        """
        names = sorted(set(tables), key=lambda name: name.key)
        locked = lock_sql(name for name in names if name.key in self.lockable)
        try:
            if locked is not None:
                session.run(locked)
            for name in names:
                if name.key not in self.lockable:
                    session.rows(touch_sql(name))
            found = digests_of(session.ask(digests_sql(names)))
        except EngineError:
            found = {}
        TRIED["definitions"] += 1
        if any(found.get(key) != self.digests.get(key) for key in (OWN, *(n.key for n in names))):
            raise definitions_changed()


class OpenPostgreSQL(ServerEngine):
    """The listed tables of a PostgreSQL database: all that runs and the twin know of it."""

    def __init__(
        self,
        sessions: PostgreSQLSessions,
        name: str,
        schema: Schema,
        proved: Proved,
        verdicts: Verdicts,
    ) -> None:
        super().__init__(name, schema, verdicts)
        self._sessions = sessions
        self.proved = proved
        self.last_reading = ServerReading()

    def _computed(self, statement: Sql) -> None:
        """Run a statement over constants. Raises ``EngineError``, or that nobody answers."""
        with self._sessions.one(TRIAL_SECONDS) as session:
            try:
                session.rows(statement)
                return
            except EngineError as error:
                code = error.code
                alive = session.rolled_back()
        # Raised outside the handler, so that its context quotes nothing.
        raise EngineError(code=code) if alive else not_answering()

    @contextlib.contextmanager
    def _rehearsal(self) -> Iterator[Rehearsal]:
        """Plan each statement on the server, for none of its rows.

        What is stored on the way are empty temporary tables of a transaction that is rolled back.
        """
        with self._sessions.one() as session:
            yield _PlannedOnServer(session, self.last_reading)

    def run(self, seconds: float | None = None) -> PostgreSQLRun:
        reading, proved = self.last_reading, self.proved
        return PostgreSQLRun(self._sessions, reading, self._schema, proved, seconds)


class PostgreSQLRun(RunBase):
    """The statements of one query: a transaction with one snapshot, on a session of its own."""

    def __init__(
        self,
        sessions: PostgreSQLSessions,
        reading: ServerReading,
        schema: Schema,
        proved: Proved,
        seconds: float | None,
    ) -> None:
        self._sessions = sessions
        self._reading = reading
        self._schema = schema
        self._proved = proved
        self._seconds = seconds
        self._session: PostgreSQLSession | None = None
        self._open = _Open()
        super().__init__(seconds, self._open.cancel)

    def begin(self, tables: Iterable[TableName]) -> None:
        assert self._session is None, "a run begins once"
        session = self._sessions.take(self._seconds)
        try:
            self._proved.begin(session, tables)
        except BaseException:
            self._sessions.give(session, sound=session.rolled_back())
            raise
        self._session = self._open.session = session

    def release(self) -> None:
        session, self._session = self._session, None
        self._open.session = None
        if session is not None:
            sound = session.rolled_back()
            self._sessions.give(session, sound=sound and not self._open.cancelled)

    @property
    def session(self) -> PostgreSQLSession:
        """The session of this run: if it has not begun, it begins. Raises ``EngineError``."""
        if self._session is None:
            # The price may be reserved by now: it is the engine that fails.
            with contextlib.suppress(InterfaceError):
                self.begin(table.name for table in self._schema.values())
        if self._session is None:
            raise EngineError()
        return self._session

    def place(self, sheet: Sheet) -> PostgreSQLScratch:
        return PostgreSQLScratch(self.session, sheet)

    def _sheet(self, reads: Reads) -> Sheet:
        return self._reading.over(reads, lambda: self.session)

    def _all_of(self, table: Table) -> Sql:
        if self._schema.get(table.name.key) != table:
            raise EngineError()  # it is none of those that are listed
        return sql("SELECT {} FROM ({}) AS t", _selected((), table.columns), rows_of(table))

    def stream(self, table: Table) -> ArrowStream:
        """Stream all rows of a public table, as its types have them."""
        return _typed(super().stream(table), table.columns)

    def stream_found(
        self, tables: Sequence[TableName], statement: Sql, columns: Sequence[Column]
    ) -> ArrowStream:
        """Stream what a query over public tables finds, as the types of columns have it."""
        written = sql("SELECT {} FROM ({}) AS t", _selected((), columns), statement)
        return _typed(super().stream_found(tables, written, columns), columns)


class _Open:
    """The present session of a run, for whoever may stop the run."""

    def __init__(self) -> None:
        self.session: PostgreSQLSession | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Have the server cancel the session's statement, if there is a session."""
        session = self.session
        if session is not None:
            self.cancelled = True
            session.cancel()


class PostgreSQLScratch(ScratchBase):
    """The session of a run, with temporary tables that go with its transaction at the latest."""

    def __init__(self, session: PostgreSQLSession, sheet: Sheet) -> None:
        super().__init__(sheet)
        self._session = session

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        return withholding_texts(run, code_of)

    def _written(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
        return _sent(statement, keys, measures)

    def _exact(self, passed: Passed, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        return exact_rows(self._rows(passed), keys, measures)

    def _pairs(self, passed: Passed) -> ArrowStream:
        found: ArrowStream = self._rows(passed)
        return found

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        return [integers(column) for column in self._rows(passed).columns]

    def _store(self, name: str, passed: Passed) -> int:
        made = sql("CREATE TEMP TABLE {} AS {}", quoted(name), passed.statement)
        self._session.store(made, passed.given)
        # Without figures of a new table, the planner takes it for a small one.
        self._session.run(sql("ANALYZE pg_temp.{}", quoted(name)))
        count = self._session.rows(sql("SELECT count(*) AS n FROM pg_temp.{}", quoted(name)))
        return int(integers(count["n"])[0])

    def _drop(self, name: str) -> None:
        self._session.run(sql("DROP TABLE pg_temp.{}", quoted(name)))

    def _rows(self, passed: Passed) -> pa.Table:
        return self._session.rows(passed.statement, passed.given)


class _PlannedOnServer(Rehearsal):
    """Rehearsed statements: the server plans each and returns no rows."""

    def __init__(self, session: PostgreSQLSession, reading: ServerReading) -> None:
        super().__init__(lambda reads: reading.over(reads, lambda: session), "the server")
        self._session = session

    def refusal(self) -> Error:
        return super().refusal() if self._session.rolled_back() else not_answering()

    def _written(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
        return _sent(statement, keys, measures)

    def _planned(self, passed: Passed) -> int:
        return len(self._session.rows(_of_no_rows(passed.statement), passed.given).columns)

    def _make(self, name: str, passed: Passed) -> None:
        empty = _of_no_rows(passed.statement)
        made = sql("CREATE TEMP TABLE {} AS {}", quoted(name), empty)
        self._session.store(made, passed.given)

    def _drop(self, name: str) -> None:
        self._session.run(sql("DROP TABLE pg_temp.{}", quoted(name)))


def _of_no_rows(statement: Sql) -> Sql:
    return sql("SELECT * FROM ({}) AS t LIMIT 0", statement)


def _sent(statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
    """Write a query in the form for the server: 64-bit integers and keys leave it."""
    return sql("SELECT {} FROM ({}) AS t", _selected([ROW_ID, *measures], keys), statement)


def _typed(found: Any, columns: Sequence[Column]) -> ArrowStream:
    """Return the columns of a table of Arrow, as their types have them."""
    values = [as_type(found[column.name], column.type) for column in columns]
    stream: ArrowStream = type(found).from_arrays(values, names=[c.name for c in columns])
    return stream


def _selected(numbers: Sequence[str], columns: Sequence[Column]) -> Sql:
    written = [sql("CAST({} AS BIGINT) AS {}", quoted(name), quoted(name)) for name in numbers]
    written += [sql("{} AS {}", sent(c), quoted(c.name)) for c in columns]
    return join(", ", written)

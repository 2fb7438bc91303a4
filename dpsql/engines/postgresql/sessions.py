"""Sessions on a PostgreSQL server, over ADBC: with pinned settings, each lent to one run at a time.

No text of the server's leaves them. The driver comes with ``pip install '.[postgresql]'``.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import finalize

from dpsql.core.extras import install_hint
from dpsql.core.sql import Sql, bare_word, join, literal, sql
from dpsql.engines.base.discreet import withholding_texts
from dpsql.engines.base.engine import GivenValues
from dpsql.engines.postgresql.catalog import SETTINGS
from dpsql.engines.postgresql.reading import POSTGRESQL_TEXT
from dpsql.errors import EngineError, InterfaceError

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
_CANCELLED, _OUT_OF_MEMORY = "57014", "53200"
_GRACE: Final = 5.0  # seconds after which the server ends what the watch over the time has not
_IDLE: Final = 4  # sessions that are kept for the next runs


class PostgreSQLSessions:
    """Sessions of one database: each is lent to one run at a time, and kept for the next."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._idle: list[PostgreSQLSession] = []
        self._closed = False

    def take(self, seconds: float | None = None) -> PostgreSQLSession:
        """Return an idle session that answers, with this limit per statement.

        Those that were idle may have been ended by the server since. Raises ``InterfaceError``
        (``server_unreachable``) if no new one can be made, ``EngineError`` if that one fails.
        """
        while (session := self._an_idle_one()) is not None:
            try:
                session.limit(seconds)
            except EngineError:
                session.close()
            else:
                return session
        session = PostgreSQLSession(self._url)
        session.limit(seconds)
        return session

    def _an_idle_one(self) -> PostgreSQLSession | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give(self, session: PostgreSQLSession, *, sound: bool) -> None:
        """Take a session back; one that is not ``sound`` is closed."""
        with self._lock:
            keep = sound and not self._closed and len(self._idle) < _IDLE
            if keep:
                self._idle.append(session)
        if not keep:
            session.close()

    @contextlib.contextmanager
    def one(self, seconds: float | None = None) -> Any:
        """Lend a session for questions about the server, of so many seconds each."""
        session = self.take(seconds)
        sound = False
        try:
            yield session
            sound = session.rolled_back()
        finally:
            self.give(session, sound=sound)

    def close(self) -> None:
        """Close those that nobody has, and the others when they come back."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for session in idle:
            session.close()


class PostgreSQLSession:
    """One connection to the server with pinned settings, and a transaction that is always open."""

    def __init__(self, url: str) -> None:
        dbapi = _driver()
        failed = False
        try:
            self._connection = dbapi.connect(url)
        except Exception:  # noqa: BLE001  # of whatever kind: its text may hold the URL
            failed = True
        if failed:
            raise _unreachable(url)
        self._cursor = self._connection.cursor()
        # Also where nobody closes it: left to itself, the driver closes these in any order at the
        # end of the process, and complains on stderr of the one that it does not take.
        self._end = finalize(self, _closed, self._cursor, self._connection)
        for name, value in SETTINGS.items():
            self.run(sql("SET SESSION {} = {}", bare_word(name), _setting(name, value)))
        self.limit(None)

    def limit(self, seconds: float | None) -> None:
        """Set how long a statement may take on the server, for whoever takes the session."""
        most = 0 if seconds is None else math.ceil(1000 * (seconds + _GRACE))
        self.run(sql("SET SESSION statement_timeout = {}", min(most, 2**31 - 1)))
        self._discreetly(self._connection.commit)

    def ask(self, statement: Sql) -> list[tuple[Any, ...]]:
        """Run a fixed statement over the catalogs."""
        return self._discreetly(lambda: _rows(self._fetched(statement, ())))

    def run(self, statement: Sql) -> None:
        """Run a statement without rows."""
        self._discreetly(lambda: self._execute(statement, ()))

    def rows(self, statement: Sql, parameters: GivenValues = ()) -> pa.Table:
        """Run a generated query. Raises ``EngineError`` with a fixed text."""
        return self._discreetly(lambda: self._fetched(statement, parameters))

    def _fetched(self, statement: Sql, parameters: GivenValues) -> pa.Table:
        self._execute(statement, parameters)
        return self._cursor.fetch_arrow_table()

    def store(self, statement: Sql, parameters: GivenValues) -> None:
        """Run a statement that makes a table."""
        self._discreetly(lambda: self._execute(statement, parameters))

    def _execute(self, statement: Sql, parameters: GivenValues) -> None:
        text = statement.render(POSTGRESQL_TEXT)
        if parameters:
            self._cursor.execute(text, list(parameters))
        else:
            self._cursor.execute(text)

    def cancel(self) -> None:
        """Have the server stop what this session runs now. For other threads."""
        with contextlib.suppress(Exception):  # nothing runs, or it was closed a moment ago
            self._connection.adbc_cancel()

    def rolled_back(self) -> bool:
        """End the transaction, with all of its temporary tables. False if the session is broken."""
        try:
            self._connection.rollback()
        except Exception:  # noqa: BLE001
            return False
        return True

    def close(self) -> None:
        """Close the connection; the server drops its temporary objects."""
        self._end()

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        return withholding_texts(run, code_of)


def _closed(*parts: Any) -> None:
    for part in parts:
        with contextlib.suppress(Exception):
            part.close()


def _rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def code_of(error: Exception) -> str | None:
    """Classify an error of the server's by its SQLSTATE; None for other errors."""
    if not isinstance(error, MemoryError | _driver().Error):
        return None
    state = getattr(error, "sqlstate", None)
    if state == _CANCELLED:
        return "interrupted"
    memory = state == _OUT_OF_MEMORY or isinstance(error, MemoryError)
    return "memory_limit" if memory else "engine_failed"


def _setting(name: str, value: str) -> Sql:
    if name != "search_path":
        return literal(value)
    return join(", ", map(bare_word, value.split(", ")))


def _driver() -> Any:
    """Load the driver, which is an extra."""
    try:
        import adbc_driver_postgresql.dbapi as dbapi
        import pyarrow  # noqa: F401
    except ImportError:
        raise InterfaceError(
            "a PostgreSQL database needs the packages adbc-driver-postgresql and pyarrow",
            code="missing_package",
            hint=install_hint("postgresql"),
        ) from None
    return dbapi


def _unreachable(url: str) -> InterfaceError:
    """Say that nobody answers, in words of our own: the driver's may repeat the URL."""
    try:
        parts = urlsplit(url)
        where = f"{parts.hostname or 'this machine'}, database {unquote(parts.path[1:]) or '?'}"
    except ValueError:
        where = "the address that was given"
    return InterfaceError(
        f"the PostgreSQL server cannot be connected to ({where})",
        code="server_unreachable",
        hint="Check that it runs, and user, password and database in the URL: "
        "postgresql://user:password@host:5432/database.",
    )


def not_answering() -> InterfaceError:
    """Build the error for a server that has gone away since it was connected to."""
    return InterfaceError(
        "the PostgreSQL server does not answer",
        code="server_unreachable",
        hint="Check that it runs. Nothing was spent.",
    )

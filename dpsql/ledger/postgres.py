"""The ledger in a PostgreSQL database, shared by several machines.

Its tables are in the schema ``dpsql_ledger`` of the database that the URL names. A writer locks the
row of the head before anything else, so writers come one after the other, as they must: each event
is hashed with the one before it. Time is that of the server's clock.

The driver, psycopg 3, comes with ``pip install '.[postgresql]'``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cache
from typing import Any

from dpsql.core.extras import install_hint
from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend, LedgerRow, Said, Value
from dpsql.ledger.journal import begin_chain, require_whole
from dpsql.ledger.schema import (
    POSTGRES_SCHEMA,
    POSTGRES_TRIGGERS,
    require_version,
)

try:
    import psycopg
    from psycopg import pq, rows
except ImportError:
    raise LedgerError(
        "a ledger in PostgreSQL needs the package psycopg",
        code="ledger_unsupported",
        hint=install_hint("postgresql"),
    ) from None

SCHEMA_NAME = "dpsql_ledger"
"""The schema of the database in which the ledger's tables are."""

_CREATION_LOCK = 0x6470736C  # an advisory lock: two clients must not create one ledger at a time
_STUCK = 60_000  # milliseconds after which the server ends a client that holds the lock and sleeps

_REASONS: dict[str, tuple[str, str, str]] = {
    "55P03": (
        "ledger_busy",
        "the ledger is busy: another connection kept it locked for too long",
        "try again, or end the process that holds it",
    ),
    "53100": (
        "ledger_disk_full",
        "the ledger cannot grow: the server's disk is full",
        "free some space; nothing runs until its cost can be recorded",
    ),
    "25006": (
        "ledger_read_only",
        "the ledger cannot be written: the server only allows reading",
        "connect to the primary server",
    ),
    "42501": (
        "ledger_read_only",
        "the ledger cannot be used: the database role lacks a privilege",
        "have the ledger's owner grant what docs/ledger.md lists",
    ),
    "42": (
        "ledger_foreign",
        f"the schema {SCHEMA_NAME} is not that of a dpsql ledger",
        "give another database; nothing was changed",
    ),
    "XX001": (
        "ledger_corrupt",
        "the ledger's database is damaged",
        "restore it from a backup no older than the last query",
    ),
    "": (
        "ledger_cannot_open",
        "the connection to the ledger's database failed or broke",
        "check that the server runs, and user, password and database in the URL; what was being "
        "written may be on disk or not",
    ),
}


def postgres_error(error: psycopg.Error) -> LedgerError:
    """Say in fixed words what PostgreSQL's error means for the ledger. Raise it ``from None``."""
    state = error.sqlstate or ""
    known = _REASONS.get(state) or _REASONS.get(state[:2])
    if known is None and (state[:2] in {"08", "57"} or isinstance(error, psycopg.InterfaceError)):
        known = _REASONS[""]
    code, reason, hint = known or (
        "ledger_failed",
        "the ledger refused the operation",
        "check the ledger's database",
    )
    return LedgerError(reason, code=code, hint=hint)


class PostgresBackend:
    """One connection to a ledger's database."""

    def __init__(self, connection: psycopg.Connection[LedgerRow]) -> None:
        self._connection = connection
        self.said: dict[bytes, Said] = {}

    def begin_write(self) -> None:
        """Lock the row of the head: the next statement sees all that earlier writers committed."""
        self.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        if not self.execute("SELECT 1 FROM head FOR UPDATE"):
            raise _foreign()

    def begin_read(self) -> None:
        """Begin a transaction that reads the state its first statement finds."""
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[LedgerRow]:
        """Run one statement and return its rows."""
        try:
            cursor = self._connection.execute(_with_marks(sql), values)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise postgres_error(error) from None

    def commit(self) -> None:
        """Return once the server's log is on its disk."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        if self._connection.info.transaction_status != pq.TransactionStatus.IDLE:
            self.execute("ROLLBACK")

    def now(self) -> int:
        """Return the server's clock: one for all machines."""
        rows = self.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(rows[0][0])

    def damage(self) -> str | None:
        """Find nothing: beyond what reading everything has shown, PostgreSQL has checksums."""
        return None

    def forget_deleted(self) -> None:
        """Do nothing: the server reuses the space when its vacuum comes by."""

    def close(self) -> None:
        """Close the connection."""
        try:
            self._connection.close()
        except psycopg.Error as error:
            raise postgres_error(error) from None


class PostgresHome:
    """The ledger in the database at ``url``.

    ``patience`` is how many seconds to wait for its lock; ``who`` goes into the first event of a
    ledger that is created.
    """

    def __init__(self, url: str, patience: float, who: str) -> None:
        self._url = url
        self._patience = patience
        self._who = who
        self._ledger = ""
        self.created = False

    def connect(self) -> Backend:
        """Connect to the database; the first time, create the ledger if it has none."""
        try:
            connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=max(2, int(self._patience)),
                row_factory=rows.tuple_row,
                application_name="dpsql",
            )
        except psycopg.Error as error:
            raise postgres_error(error) from None
        backend = PostgresBackend(connection)
        try:
            self._prepare(backend)
        except BaseException:
            connection.close()
            raise
        return backend

    def require_same(self) -> None:
        """Do nothing: a database cannot be exchanged under an open connection."""

    def _prepare(self, backend: PostgresBackend) -> None:
        _make_durable(backend, self._patience)
        if not self._ledger:
            self.created = _create_if_missing(backend, self._who)
        name = _require_ledger(backend)
        if self._ledger not in ("", name):
            raise LedgerError(
                "the ledger was replaced by another one while it was open",
                code="ledger_missing",
                hint="put the same ledger back; another one would forget what was spent",
            )
        require_whole(backend)
        self._ledger = name


def _make_durable(backend: PostgresBackend, patience: float) -> None:
    """Make every commit wait for the server's disk, and limit how long locks are waited for."""
    for setting in ("fsync", "full_page_writes"):
        if backend.execute(f"SHOW {setting}") != [("on",)]:
            raise LedgerError(
                f"the ledger's server runs with {setting} off: a crash could lose charges",
                code="ledger_unsupported",
                hint=f"set {setting} = on in postgresql.conf",
            )
    settings: dict[str, Any] = {
        "synchronous_commit": "on",
        "lock_timeout": max(1, int(patience * 1000)),
        "idle_in_transaction_session_timeout": _STUCK,
        "search_path": f"{SCHEMA_NAME}, pg_temp",
        "standard_conforming_strings": "on",
    }
    for setting, value in settings.items():
        backend.execute("SELECT set_config(?, ?, false)", (setting, str(value)))


def _create_if_missing(backend: PostgresBackend, who: str) -> bool:
    """Create the ledger whole or not at all; of several clients at once, one does."""
    if _exists(backend):
        return False
    backend.execute("BEGIN")
    try:
        backend.execute("SELECT pg_advisory_xact_lock(?)", (_CREATION_LOCK,))
        missing = not _exists(backend)
        if missing:
            backend.execute(f"CREATE SCHEMA {SCHEMA_NAME}")
            backend.execute(POSTGRES_SCHEMA)
            begin_chain(backend, secrets.token_hex(16), backend.now(), who)
        backend.commit()
        return missing
    finally:
        backend.rollback()


def _exists(backend: PostgresBackend) -> bool:
    return bool(backend.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (SCHEMA_NAME,)))


def _require_ledger(backend: PostgresBackend) -> str:
    """Return the ledger's name. Refuses others than ledgers of this version with its rules."""
    found = backend.execute("SELECT ledger, version FROM head")
    if len(found) != 1:
        raise _foreign()
    ((name, version),) = found
    require_version(int(version))
    triggers = backend.execute(
        "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = ? AND NOT tgisinternal AND tgenabled IN ('O', 'A')",
        (SCHEMA_NAME,),
    )
    if {trigger for (trigger,) in triggers} != POSTGRES_TRIGGERS:
        raise LedgerError(
            "the ledger's tables or rules were altered",
            code="ledger_corrupt",
            hint="restore the ledger from a backup; it was not changed",
        )
    return str(name)


def _foreign() -> LedgerError:
    code, reason, hint = _REASONS["42"]
    return LedgerError(reason, code=code, hint=hint)


@cache
def _with_marks(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()

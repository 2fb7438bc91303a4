"""The ledger in a SQLite file: write-ahead log, every commit synced, one writer at a time.

Opening creates the file whole or not at all, recognises it, and never touches anything else.
Nothing here opens the file except through SQLite: closing any other descriptor of it would drop
the POSIX locks this process holds on it (sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend, LedgerRow, Said, Value
from dpsql.ledger.journal import begin_chain, require_whole
from dpsql.ledger.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    SQLITE_SCHEMA,
    require_version,
)

_REASONS: dict[int, tuple[str, str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "ledger_busy",
        "the ledger is busy: another process kept it locked for too long",
        "try again, or end the process that holds it",
    ),
    sqlite3.SQLITE_LOCKED: (
        "ledger_busy",
        "the ledger is busy: another connection kept it locked for too long",
        "try again, or end the process that holds it",
    ),
    sqlite3.SQLITE_FULL: (
        "ledger_disk_full",
        "the ledger cannot grow: the disk is full",
        "free some space; nothing runs until its cost can be recorded",
    ),
    sqlite3.SQLITE_READONLY: (
        "ledger_read_only",
        "the ledger cannot be written",
        "give this user write permission on the ledger file and its directory",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "ledger_corrupt",
        "the ledger file is damaged",
        "restore it from a backup no older than the last query; it was not changed",
    ),
    sqlite3.SQLITE_NOTADB: (
        "ledger_corrupt",
        "the file is not a ledger, or is damaged beyond recognition",
        "check the path, or restore the ledger from a backup; it was not changed",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "ledger_cannot_open",
        "the ledger file cannot be opened",
        "check that it exists and that this user may write to it and to its directory",
    ),
    sqlite3.SQLITE_IOERR: (
        "ledger_io_error",
        "the ledger's disk failed while reading or writing",
        "check the disk; the ledger must be on a local file system",
    ),
}


def sqlite_error(error: sqlite3.Error) -> LedgerError:
    """Translate a SQLite error into a ledger error, in fixed words. Raise it ``from None``."""
    return known_error(getattr(error, "sqlite_errorcode", 0) & 0xFF)


def known_error(primary: int) -> LedgerError:
    """Translate one of SQLite's primary result codes into a ledger error."""
    code, reason, hint = _REASONS.get(
        primary,
        ("ledger_failed", "the ledger refused the operation", "check the ledger file"),
    )
    return LedgerError(reason, code=code, hint=hint)


FileIdentity: TypeAlias = tuple[int, int] | None
"""Device and inode of a file; None where there is none."""


def identity(path: str | Path) -> FileIdentity:
    """Tell which file is now at ``path``."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SQLiteBackend:
    """One connection to a ledger file.

    ``log`` is where SQLite keeps what is not in the file yet: others find it there by its name.
    """

    def __init__(self, connection: sqlite3.Connection, log: Sequence[str] = ()) -> None:
        self._connection = connection
        self._log = {path: identity(path) for path in log}
        self.said: dict[bytes, Said] = {}

    def begin_write(self) -> None:
        """Acquire the file's write lock."""
        self.execute("BEGIN IMMEDIATE")
        self._require_log()

    def begin_read(self) -> None:
        """Begin a transaction that reads the state its first statement finds."""
        self.execute("BEGIN")
        self._require_log()

    def _require_log(self) -> None:
        """Refuse to go on after the write-ahead log was deleted: charges in it would be lost."""
        if any(identity(path) != known for path, known in self._log.items()):
            raise LedgerError(
                "the ledger's log was moved, deleted or replaced while the ledger was open",
                code="ledger_missing",
                hint="never delete the files that end in -wal and -shm: what was spent last is "
                "there. End all programs that use the ledger, and look with dpsql budget verify",
            )

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[LedgerRow]:
        """Run one statement and return its rows."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise sqlite_error(error) from None

    def commit(self) -> None:
        """Return once the log is synced."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def now(self) -> int:
        """Read this machine's clock."""
        return time.time_ns() // 1000

    def damage(self) -> str | None:
        """Check the file's structure, indexes against tables, types and conditions of columns."""
        (verdict,) = self.execute("PRAGMA integrity_check(1)")[0]
        return None if verdict == "ok" else "the file's structure is damaged"

    def forget_deleted(self) -> None:
        """Empty the log of deleted content, which is overwritten elsewhere as it is deleted."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            raise sqlite_error(error) from None


def run_statements(connection: sqlite3.Connection, script: str) -> None:
    """Run statements within the transaction that is open: ``executescript`` would commit it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def stored_schema(connection: sqlite3.Connection) -> tuple[tuple[str, str, str | None], ...]:
    """Return the tables, indexes and triggers of a file: type, name and text."""
    return tuple(
        connection.execute(
            "SELECT type, name, sql FROM sqlite_schema "
            "WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
        )
    )


_BEGUN: Final = ".ledger-"
"""How the name begins under which a ledger is built."""


class SQLiteHome:
    """The ledger file at ``path``.

    ``patience`` is how many seconds to wait for its lock; ``who`` goes into the first event of a
    ledger that is created.
    """

    def __init__(self, path: Path, patience: float, who: str) -> None:
        self._path = path
        self._patience = patience
        self._who = who
        self._identity: FileIdentity = None
        self.created = False

    def connect(self) -> Backend:
        """Open the file; the first time, create it if nothing is there."""
        if self._identity is None and not os.path.lexists(self._path):
            self.created = _create(self._path, self._who)
        connection = _connect(self._path, self._patience)
        backend = SQLiteBackend(connection, _log_of(self._path))
        try:
            require_whole(backend)
        except BaseException:
            backend.close()
            raise
        self._identity = identity(self._path)
        return backend

    def require_same(self) -> None:
        """Refuse a file that was moved, deleted or replaced while it was open."""
        if identity(self._path) != self._identity:
            raise LedgerError(
                "the ledger file was moved, deleted or replaced while it was open",
                code="ledger_missing",
                hint="put the same file back; another one would forget what was spent",
            )


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    """Connect to the existing ledger at ``path``.

    Raises :class:`LedgerError`, leaving the file as it was, for anything that is not a usable
    ledger of this version.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError(
            "the ledger needs SQLite 3.37 or newer",
            code="ledger_unsupported",
            hint="upgrade the Python installation",
        )
    _require_writable_file(path)
    try:
        _require_ledger(path)
        connection = _open(path, "mode=rw", patience)
        try:
            _make_durable(connection)
            _use_write_ahead_log(connection)
            connection.execute("PRAGMA secure_delete = ON")
            require_version(_version(connection))
            connection.execute("PRAGMA foreign_keys = ON")
            _require_schema(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise sqlite_error(error) from None
    return connection


def _open(path: Path, options: str, busy_timeout: float) -> sqlite3.Connection:
    # Transactions are ours to begin (isolation_level), and threads are kept apart by the ledger.
    return sqlite3.connect(
        f"{path.as_uri()}?{options}",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
    )


def _make_durable(connection: sqlite3.Connection) -> None:
    """Make every commit wait for the disk."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's own cache as well
    connection.execute("PRAGMA checkpoint_fullfsync = ON")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise LedgerError(
            "the ledger's file system has no support for SQLite's write-ahead log",
            code="ledger_unsupported",
            hint="put the ledger on a local file system",
        )


def _log_of(path: Path) -> tuple[str, str]:
    """Name the files that SQLite keeps beside an open database; links are followed."""
    real = os.path.realpath(path)
    return f"{real}-wal", f"{real}-shm"


def _create(path: Path, who: str) -> bool:
    """Put a new, empty, complete ledger at ``path``, readable by its owner only.

    It is built under another name and linked into place, so that no process ever sees half a
    ledger, and a ledger that appears meanwhile wins: then this returns False.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        if os.path.lexists(f"{path}{suffix}"):
            raise LedgerError(
                f"the ledger file is gone but its {suffix} file is still there",
                code="ledger_missing",
                hint="restore the ledger file; a new one would forget what was spent",
            )
    try:
        descriptor, name = tempfile.mkstemp(prefix=_BEGUN, dir=path.parent)  # mode 0600
        os.close(descriptor)
    except (OSError, ValueError) as error:
        raise _cannot_create(path, error) from None
    try:
        _fill(Path(name), who)
        created = _link(name, path)
        _sync(path.parent)
        return created
    except sqlite3.Error as error:
        raise sqlite_error(error) from None
    except (OSError, ValueError) as error:
        raise _cannot_create(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _link(name: str, path: Path) -> bool:
    try:
        os.link(name, path, follow_symlinks=False)
    except FileExistsError:
        return False
    return True


def _fill(path: Path, who: str) -> None:
    connection = _open(path, "mode=rw", 0.0)
    try:
        _make_durable(connection)
        connection.execute("BEGIN")
        run_statements(connection, SQLITE_SCHEMA)
        begin_chain(SQLiteBackend(connection), secrets.token_hex(16), time.time_ns() // 1000, who)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        # Last, so that all of the above is in the file itself and none of it in a log beside it.
        _use_write_ahead_log(connection)
    finally:
        connection.close()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_writable_file(path: Path) -> None:
    try:
        known = os.stat(path)
    except (OSError, ValueError):
        raise LedgerError(
            "the ledger file cannot be found",
            code="ledger_missing",
            hint="restore it; a new one would forget what was spent",
        ) from None
    mode = known.st_mode
    if not stat.S_ISREG(mode):
        raise LedgerError(
            "the ledger's path is not a file",
            code="ledger_not_a_file",
            hint="give the path of a file; it is created if it does not exist",
        )
    # Asked of the mode as well as of the system, for which root may write anything.
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise known_error(sqlite3.SQLITE_READONLY)
    if known.st_nlink > 1:
        _require_one_name(path)


def _require_one_name(path: Path) -> None:
    """Refuse a file that has another name, by a hard link.

    SQLite's log is called after the file: who opens it by the other name sees no charge that is
    only in the log, and writes another one.
    """
    # What a process that creates it has not removed yet, or never will, is no name of anybody's.
    for begun in Path(os.path.realpath(path)).parent.glob(f"{_BEGUN}*"):
        with contextlib.suppress(OSError):
            if os.path.samefile(begun, path):
                os.unlink(begun)
    if os.stat(path).st_nlink > 1:
        raise LedgerError(
            "the ledger file has another name, by a hard link",
            code="ledger_linked",
            hint="keep one of its names, or make a copy of the other: by two names, what is spent "
            "by one would not be seen by the other",
        )


def _require_ledger(path: Path) -> None:
    """Read the file's marks from its first page without locking, recovering or writing anything.

    A normal connection would replay the journal of somebody else's database. ``writable_schema``
    only skips the comparison of the page count with the file's size, which another process may be
    about to change; the real connection makes it.
    """
    probe = _open(path, "mode=ro&immutable=1", 0.0)
    try:
        probe.execute("PRAGMA writable_schema = ON")
        (application,) = probe.execute("PRAGMA application_id").fetchone()
        version = _version(probe)
    finally:
        probe.close()
    if application != APPLICATION_ID:
        raise LedgerError(
            "the file is not a dpsql ledger",
            code="ledger_foreign",
            hint="give another path; the file was not changed",
        )
    require_version(version)  # the first page may lag behind the log, so it is asked again later


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _require_schema(connection: sqlite3.Connection) -> None:
    if stored_schema(connection) != _expected_schema():
        raise LedgerError(
            "the ledger's tables or rules were altered",
            code="ledger_corrupt",
            hint="restore the ledger from a backup; it was not changed",
        )


@cache
def _expected_schema() -> tuple[tuple[str, str, str | None], ...]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SQLITE_SCHEMA)
        return stored_schema(connection)
    finally:
        connection.close()


def _cannot_create(path: Path, error: OSError | ValueError) -> LedgerError:
    reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a path"
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(path))
    return LedgerError(
        f"the ledger {shown} cannot be created: {reason}",
        code="ledger_cannot_create",
        hint="name a place that this user may write to, with --ledger or as `ledger` in the "
        "policies file; data that are only read need not be beside it",
    )

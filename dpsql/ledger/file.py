"""Opening a ledger file: create it whole or not at all, recognise it, never touch anything else.

Nothing here opens the file except through SQLite: closing any other descriptor of it would drop
the POSIX locks this process holds on it (sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import tempfile
from functools import cache
from pathlib import Path

from dpsql.errors import LedgerError
from dpsql.ledger.schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION

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


def ledger_error(error: sqlite3.Error) -> LedgerError:
    """What a SQLite error means for the ledger, in fixed words. Raise it ``from None``."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    code, reason, hint = _REASONS.get(
        primary,
        ("ledger_failed", "the ledger refused the operation", "check the ledger file"),
    )
    return LedgerError(reason, code=code, hint=hint)


def open_file(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A connection to the ledger at ``path``, which is created if nothing is there.

    Raises :class:`LedgerError`, leaving the file as it was, for anything that is not a usable
    ledger of this version.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError(
            "the ledger needs SQLite 3.37 or newer",
            code="ledger_unsupported",
            hint="upgrade the Python installation",
        )
    if not os.path.lexists(path):
        _create(path)
    return connect(path, busy_timeout)


def connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A connection to the existing ledger at ``path``. Raises as :func:`open_file`."""
    _require_writable_file(path)
    try:
        _require_ledger(path)
        connection = _open(path, "mode=rw", busy_timeout)
        try:
            _make_durable(connection)
            _use_write_ahead_log(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            _require_schema(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise ledger_error(error) from None
    return connection


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file now at ``path``; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
    """Have every commit on disk before it returns."""
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


def _create(path: Path) -> None:
    """Put a new, empty, complete ledger at ``path``, readable by its owner only.

    It is built under another name and linked into place, so that no process ever sees half a
    ledger, and a ledger that appears meanwhile wins.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        if os.path.lexists(f"{path}{suffix}"):
            raise LedgerError(
                f"the ledger file is gone but its {suffix} file is still there",
                code="ledger_missing",
                hint="restore the ledger file; a new one would forget what was spent",
            )
    try:
        descriptor, name = tempfile.mkstemp(prefix=".ledger-", dir=path.parent)  # mode 0600
        os.close(descriptor)
    except (OSError, ValueError):
        raise _cannot_create() from None
    try:
        _fill(Path(name))
        with contextlib.suppress(FileExistsError):
            os.link(name, path, follow_symlinks=False)
        _sync(path.parent)
    except sqlite3.Error as error:
        raise ledger_error(error) from None
    except (OSError, ValueError):
        raise _cannot_create() from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _fill(path: Path) -> None:
    connection = _open(path, "mode=rw", 0.0)
    try:
        _make_durable(connection)
        connection.executescript(
            f"BEGIN; {SCHEMA}"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
            "COMMIT;"
        )
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
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        raise LedgerError(
            "the ledger file cannot be found",
            code="ledger_missing",
            hint="restore it; a new one would forget what was spent",
        ) from None
    if not stat.S_ISREG(mode):
        raise LedgerError(
            "the ledger's path is not a file",
            code="ledger_not_a_file",
            hint="give the path of a file; it is created if it does not exist",
        )
    # Asked of the mode as well as of the system, for which root may write anything.
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        code, reason, hint = _REASONS[sqlite3.SQLITE_READONLY]
        raise LedgerError(reason, code=code, hint=hint)


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
        (version,) = probe.execute("PRAGMA user_version").fetchone()
    finally:
        probe.close()
    if application != APPLICATION_ID:
        raise LedgerError(
            "the file is not a dpsql ledger",
            code="ledger_foreign",
            hint="give another path; the file was not changed",
        )
    if version != SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger has version {version}; this dpsql reads version {SCHEMA_VERSION}",
            code="ledger_version",
            hint="use the dpsql that wrote it, or a newer one; the file was not changed",
        )


def _require_schema(connection: sqlite3.Connection) -> None:
    if _schema_of(connection) != _expected_schema():
        raise LedgerError(
            "the ledger's tables or rules were altered",
            code="ledger_corrupt",
            hint="restore the ledger from a backup; it was not changed",
        )


def _schema_of(connection: sqlite3.Connection) -> tuple[tuple[str, str, str | None], ...]:
    return tuple(
        connection.execute(
            "SELECT type, name, sql FROM sqlite_schema "
            "WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
        )
    )


@cache
def _expected_schema() -> tuple[tuple[str, str, str | None], ...]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA)
        return _schema_of(connection)
    finally:
        connection.close()


def _cannot_create() -> LedgerError:
    return LedgerError(
        "the ledger cannot be created",
        code="ledger_cannot_create",
        hint="check that its directory exists, that this user may write to it, and its free space",
    )

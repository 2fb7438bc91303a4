"""The ledger in a SQLite file: write-ahead log, every commit synced, one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from dpsql.errors import LedgerError
from dpsql.ledger.backend import LedgerRow, Said, Value

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
    """Tell what a SQLite error means for the ledger, in fixed words. Raise it ``from None``."""
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

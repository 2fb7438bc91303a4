"""A server on a disk that fails, as it is or with a ledger that is broken in a way of its own.

``unsettled`` shows what the ledger does not know. ``unsynced`` waits for no disk. ``careless`` goes
on where the ledger could not commit. Checkpoints come often, to be met.
"""

from __future__ import annotations

import os
import sqlite3
import sys

from dpsql.errors import LedgerError
from dpsql.interfaces.cli import main
from dpsql.ledger import sqlite_file
from dpsql.service.answering import Answerer
from helpers.session_worker import never_settles


def _checkpoints(connection: sqlite3.Connection) -> None:
    _makes_durable(connection)
    connection.execute("PRAGMA wal_autocheckpoint = 60")


def _never_waits(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = OFF")


_makes_durable = sqlite_file._make_durable


def _goes_on(backend: sqlite_file.SQLiteBackend) -> None:
    try:
        backend.execute("COMMIT")
    except LedgerError:
        backend.rollback()


if __name__ == "__main__":
    sqlite_file._make_durable = _checkpoints
    match sys.argv.pop(1):
        case "unsettled":
            Answerer._settle = never_settles  # type: ignore[assignment]
        case "unsynced":
            sqlite_file._make_durable = _never_waits
        case "careless":
            sqlite_file.SQLiteBackend.commit = _goes_on  # type: ignore[assignment]
    os.environ.setdefault("DPSQL_LEDGER", "budget.db")
    main()

"""Upgrading a ledger of version 3: it could not suspend accounts, and its sums were not tied.

Its events stay what they are, and so do their hashes: heads that were written down still hold. Each
account is carried over by an event that says where it and its windows stand.
"""

from __future__ import annotations

import sqlite3

from dpsql.ledger.accounts import carry_over
from dpsql.ledger.backend import Backend
from dpsql.ledger.chain import Kind
from dpsql.ledger.journal import Journal
from dpsql.ledger.schema import (
    CHANGES,
    POSTGRES_RULES,
    SQLITE_TABLES,
    SQLITE_TRIGGERS,
    SUSPENSIONS,
)
from dpsql.ledger.sqlite import SQLiteBackend, run_script

SCHEMA = "5ba9177679ce19859724d8f42146da02947f4a7e969b3e3e86d243eecb6e716c"
"""SHA-256 of the JSON of the tables and triggers of a file."""

_WHO = "migration"
_TABLES = ("events", "head", "windows", "accounts", "releases")  # what is referred to comes first
_INDEXES = ("entries_by_account", "windows_by_account", "releases_by_query")
_COLUMNS = (
    "events ADD COLUMN state TEXT",
    "windows ADD COLUMN last BIGINT NOT NULL DEFAULT 0",
    "windows ADD COLUMN tie BYTEA",
    "accounts ADD COLUMN suspended BIGINT NOT NULL DEFAULT 0",
    "accounts ADD COLUMN reopened BIGINT NOT NULL DEFAULT 0",
    "accounts ADD COLUMN last BIGINT NOT NULL DEFAULT 0",
    "accounts ADD COLUMN tie BYTEA",
)
_CHANGED = ("account_keeps_its_name", "window_only_grows_or_settles")
_NEW = ("suspended_account_is_not_charged", "event_says_what_it_does")


def rewrite(connection: sqlite3.Connection) -> None:
    """Make the file a ledger of the present version, within the transaction that is open."""
    for index in _INDEXES:
        connection.execute(f"DROP INDEX {index}")
    for table in _TABLES:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    run_script(connection, SQLITE_TABLES)
    for table in _TABLES:
        columns = ", ".join(_columns(connection, f"old_{table}"))
        connection.execute(
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM old_{table} ORDER BY 1"
        )
    for table in reversed(_TABLES):
        connection.execute(f"DROP TABLE old_{table}")
    run_script(connection, SQLITE_TRIGGERS)
    _tell(SQLiteBackend(connection))


def alter(backend: Backend) -> None:
    """The same for a ledger in PostgreSQL, which has the lock of a writer."""
    for column in _COLUMNS:
        backend.execute(f"ALTER TABLE {column}")
    for index in (SUSPENSIONS, CHANGES):
        backend.execute(index)
    for rule in _CHANGED:
        backend.execute(f"DROP TRIGGER {rule} ON {POSTGRES_RULES[rule][0]}")
    for rule in (*_CHANGED, *_NEW):
        backend.execute(POSTGRES_RULES[rule][1])
    _tell(backend)


def _tell(sql: Backend) -> None:
    journal = Journal(sql, _WHO, late=True)
    journal.note(Kind.MIGRATED, version=3)
    for (path,) in sql.execute("SELECT path FROM accounts ORDER BY path"):
        carry_over(journal, path)
    journal.finish()


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [name for (_, name, *_) in connection.execute(f"PRAGMA table_info({table})")]

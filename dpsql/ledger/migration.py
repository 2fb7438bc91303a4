"""Upgrading a ledger file of version 2: in one transaction, with a copy of the old file beside it.

Version 2 had accounts, entries and charges, and no chain. Its entries become events at the times
they were made; what an account had spent is spent in its first window. Where an entry was charged
to accounts that do not lie on one line, it is charged to each line: never less than before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dpsql.accounting import Amount
from dpsql.errors import LedgerError
from dpsql.ledger.accounts import add, create, lower, nodes_of
from dpsql.ledger.chain import Kind, microseconds
from dpsql.ledger.journal import Journal, begin_chain
from dpsql.ledger.schema import SCHEMA_VERSION, SQLITE_SCHEMA
from dpsql.ledger.sqlite import SQLiteBackend, run_script, schema_of
from dpsql.ledger.values import line_of
from dpsql.ledger.verify import verify

OLD_VERSION = 2
"""The version that can be upgraded."""

_WHO = "migration"
_OLD_SCHEMA = "4db8244311348477d2db1729fc34d68e79da3353093acacc02a865e78d01bad5"
"""SHA-256 of the JSON of version 2's tables and triggers."""
_OLD_TABLES = ("charges", "entries", "accounts")
_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
_ENTRIES = """
SELECT entry, created, query, plan, reserved_rho, reserved_epsilon, reserved_delta,
    settled, settled_rho, settled_epsilon, settled_delta,
    (SELECT group_concat(path, char(10)) FROM old_charges AS c JOIN old_accounts USING (account)
     WHERE c.entry = old_entries.entry)
FROM old_entries ORDER BY entry
"""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the open ledger file at ``path`` to the present version, if nobody has done so yet.

    Raises :class:`LedgerError`, leaving the file as it was, if it is not a sound ledger of
    version 2, and ``sqlite3.Error``.
    """
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if connection.execute("PRAGMA user_version").fetchone() == (OLD_VERSION,):
            _require_sound(connection)
            _rewrite(connection)
            _copy(path)  # others still see the old ledger until the commit
            connection.execute("COMMIT")
    finally:
        connection.rollback()


def _require_sound(connection: sqlite3.Connection) -> None:
    schema = hashlib.sha256(json.dumps(schema_of(connection)).encode()).hexdigest()
    integrity = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if schema != _OLD_SCHEMA or integrity != ("ok",):
        raise _damaged("its tables or rules were altered")
    sums = connection.execute(
        "SELECT count(*) FROM accounts AS a WHERE (rho, epsilon, delta, queries, unsettled) IS NOT "
        "(SELECT coalesce(sum(coalesce(settled_rho, reserved_rho)), 0), "
        "coalesce(sum(coalesce(settled_epsilon, reserved_epsilon)), 0), "
        "coalesce(sum(reserved_delta), 0), count(entry), count(entry) - count(settled) "
        "FROM charges JOIN entries USING (entry) WHERE charges.account = a.account)"
    ).fetchone()
    if sums != (0,):
        raise _damaged("its totals are not the sums of its entries")


def _copy(path: Path) -> None:
    """Keep the old ledger beside the new one, under a name that nothing has yet."""
    descriptor, temporary = tempfile.mkstemp(prefix=".ledger-", dir=path.parent)  # mode 0600
    os.close(descriptor)
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(temporary)) as target,
        ):
            source.backup(target)
        _sync(temporary)
        _link(temporary, _names(path))
        _sync(path.parent)
    except OSError:
        raise LedgerError(
            "the old ledger cannot be copied before it is upgraded",
            code="ledger_cannot_create",
            hint="give this user write permission on its directory, and free some space",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _names(path: Path) -> Iterator[Path]:
    plain = path.with_name(f"{path.name}.version-{OLD_VERSION}")
    yield plain
    for number in range(1, 1000):
        yield plain.with_name(f"{plain.name}.{number}")


def _link(existing: str, names: Iterable[Path]) -> None:
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.link(existing, name)
            return
    raise FileExistsError


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rewrite(connection: sqlite3.Connection) -> None:
    for (trigger,) in connection.execute(_TRIGGERS).fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("DROP INDEX charges_by_entry")
    for table in _OLD_TABLES:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    run_script(connection, SQLITE_SCHEMA)
    sql = SQLiteBackend(connection)
    now = sql.now()
    entries = [_OldEntry.of_row(row, now) for row in connection.execute(_ENTRIES).fetchall()]
    start = min((entry.created for entry in entries), default=now)
    begin_chain(sql, secrets.token_hex(16), start, _WHO)
    journal = Journal(sql, _WHO)
    _relive(journal, entries)
    journal.at = now
    journal.note(Kind.MIGRATED, entries=len(entries), version=OLD_VERSION)
    journal.finish()
    for table in _OLD_TABLES:
        connection.execute(f"DROP TABLE old_{table}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    found = verify(sql)
    if not found.sound:
        raise _damaged(f"upgraded, it would not be sound: {found.broken}")


@dataclass(frozen=True, slots=True)
class _OldEntry:
    """An entry of version 2; ``settled`` and ``charged`` are None if it never was settled."""

    number: int
    created: int
    query: str
    plan: str
    reserved: Amount
    settled: int | None
    charged: Amount | None
    payers: tuple[str, ...]

    @classmethod
    def of_row(cls, row: tuple[Any, ...], now: int) -> _OldEntry:
        number, created, query, plan, *units, paths = row
        begun = _moment(created, 0, now)
        done = None if units[3] is None else _moment(units[3], begun, now)
        charged = None if done is None else Amount(*units[4:])
        payers = tuple(sorted(paths.split("\n")))
        return cls(number, begun, query, plan, Amount(*units[:3]), done, charged, payers)

    @property
    def accounts(self) -> tuple[str, ...]:
        """The payers that are not above another payer."""
        above = {each for path in self.payers for each in line_of(path)[:-1]}
        return tuple(path for path in self.payers if path not in above)


def _moment(text: str, earliest: int, latest: int) -> int:
    try:
        return max(earliest, min(latest, microseconds(datetime.fromisoformat(text))))
    except (TypeError, ValueError):
        raise _damaged("an entry has no time") from None


def _relive(journal: Journal, entries: list[_OldEntry]) -> None:
    """Make the entries' events in the order of their times."""
    steps: list[tuple[int, int, bool]] = []
    for index, entry in enumerate(entries):
        steps.append((entry.created, index, False))
        if entry.settled is not None:
            steps.append((entry.settled, index, True))
    charged: dict[tuple[int, str], int] = {}
    for at, index, settles in sorted(steps):
        entry, journal.at = entries[index], at
        for account in entry.accounts:
            if settles:
                _settle(journal, entry, account, charged[index, account])
            else:
                charged[index, account] = _reserve(journal, entry, account)


def _reserve(journal: Journal, entry: _OldEntry, account: str) -> int:
    line = line_of(account)
    known = nodes_of(journal.sql, line)
    nodes = [known.get(each) or create(journal, each) for each in line]
    number = journal.append(
        Kind.RESERVE, account, entry.reserved, query=entry.query, detail=entry.plan
    )
    add(journal.sql, nodes, entry.reserved)
    return number


def _settle(journal: Journal, entry: _OldEntry, account: str, number: int) -> None:
    assert entry.charged is not None
    journal.append(Kind.SETTLE, account, entry.charged, entry=number)
    lower(journal.sql, account, number, entry.reserved, entry.charged)


def _damaged(what: str) -> LedgerError:
    return LedgerError(
        f"the ledger of version {OLD_VERSION} is damaged: {what}",
        code="ledger_corrupt",
        hint="restore it from a backup; it was not changed",
    )

"""Upgrading a ledger file of version 2, which had accounts, entries and charges, and no chain.

Its entries become events at the times they were made; what an account had spent is spent in its
first window. Where an entry was charged to accounts that do not lie on one line, it is charged to
each line: never less than before.
"""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dpsql.accounting import Amount
from dpsql.ledger.accounts import create, nodes_of, reserve, settle
from dpsql.ledger.chain import Kind, microseconds
from dpsql.ledger.journal import Journal, begin_chain
from dpsql.ledger.replay import BrokenError
from dpsql.ledger.schema import SQLITE_SCHEMA
from dpsql.ledger.sqlite import SQLiteBackend, run_script
from dpsql.ledger.values import Charge, line_of

SCHEMA = "4db8244311348477d2db1729fc34d68e79da3353093acacc02a865e78d01bad5"
"""SHA-256 of the JSON of its tables and triggers."""

_WHO = "migration"
_OLD_TABLES = ("charges", "entries", "accounts")
_ENTRIES = """
SELECT entry, created, query, plan, reserved_rho, reserved_epsilon, reserved_delta,
    settled, settled_rho, settled_epsilon, settled_delta,
    (SELECT group_concat(path, char(10)) FROM old_charges AS c JOIN old_accounts USING (account)
     WHERE c.entry = old_entries.entry)
FROM old_entries ORDER BY entry
"""


def rewrite(connection: sqlite3.Connection) -> None:
    """Make the file a ledger of the present version, within the transaction that is open.

    Raises :class:`BrokenError` for a ledger that is not sound.
    """
    _require_sums(connection)
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
    journal.note(Kind.MIGRATED, entries=len(entries), version=2)
    journal.finish()
    for table in _OLD_TABLES:
        connection.execute(f"DROP TABLE old_{table}")


def _require_sums(connection: sqlite3.Connection) -> None:
    sums = connection.execute(
        "SELECT count(*) FROM accounts AS a WHERE (rho, epsilon, delta, queries, unsettled) IS NOT "
        "(SELECT coalesce(sum(coalesce(settled_rho, reserved_rho)), 0), "
        "coalesce(sum(coalesce(settled_epsilon, reserved_epsilon)), 0), "
        "coalesce(sum(reserved_delta), 0), count(entry), count(entry) - count(settled) "
        "FROM charges JOIN entries USING (entry) WHERE charges.account = a.account)"
    ).fetchone()
    if sums != (0,):
        raise BrokenError("its totals are not the sums of its entries")


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
        raise BrokenError("an entry has no time") from None


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
    return reserve(journal, nodes, entry.reserved, query=entry.query, plan=entry.plan)


def _settle(journal: Journal, entry: _OldEntry, account: str, number: int) -> None:
    assert entry.charged is not None
    settle(journal, Charge(number, account, entry.reserved), entry.charged)

"""Writing to the chain: a transaction's events, and the head that moves on with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend, State
from dpsql.ledger.chain import FIELDS, NOTHING, Kind, hash_of, iso
from dpsql.ledger.records import Head
from dpsql.ledger.schema import SCHEMA_VERSION
from dpsql.ledger.ties import remember, text_of
from dpsql.privacy.accounting.zcdp import Amount

CLOCK_TOLERANCE = 2_000_000
"""By how many microseconds a clock may seem to go back: small steps are part of keeping time."""

_T = TypeVar("_T")
_ZERO = Amount()
_MARKS = ", ".join("?" * (len(FIELDS.split(", ")) + 1))
_INSERT = f"INSERT INTO events ({FIELDS}, hash) VALUES ({_MARKS})"


class Journal:
    """Appends events to the chain, within one write transaction of ``sql``.

    Every event of the transaction has the same time, never before that of an earlier event. Raises
    :class:`LedgerError` (``ledger_clock``) when the clock went back by more than a little;
    ``any_clock`` is for the owner, who may accept that, and ``late`` for what must be recorded in
    any case: it has the time of the last event then.
    """

    def __init__(
        self, sql: Backend, who: str, *, any_clock: bool = False, late: bool = False
    ) -> None:
        self.sql = sql
        self._who = who
        last: int
        self._seq: int
        self._hash: bytes
        self._seq, last, self._hash = sql.execute("SELECT seq, at, hash FROM head")[0]
        self.at = sql.now()
        if any_clock or self.at >= last:
            return
        if self.at < last - CLOCK_TOLERANCE and not late:
            raise LedgerError(
                f"the clock went back: it is {iso(self.at)} now, before the ledger's last event",
                code="ledger_clock",
                # Not when that was: it may be somebody else's.
                hint="set the clock right; if the ledger's time is the wrong one, which `dpsql "
                "budget history` tells its owner, the owner can accept the present clock",
            )
        self.at = last

    def append(
        self,
        kind: Kind,
        account: str = "",
        amount: Amount = _ZERO,
        *,
        entry: int | None = None,
        stream: int | None = None,
        step: int = 0,
        query: str = "",
        detail: str = "{}",
        digest: bytes | None = None,
        states: Sequence[State] = (),
    ) -> int:
        """Add an event and return its number. ``states`` is what it makes of rows."""
        seq = self.next
        fields = (
            *(seq, self.at, self._who, kind.value, account),
            *(entry, stream, step, query, detail, *amount.units, digest, text_of(states)),
        )
        digest = hash_of(self._hash, fields)
        self.sql.execute(_INSERT, (*fields, digest))
        remember(self.sql, seq, digest, states)
        self._seq, self._hash = seq, digest
        return seq

    def note(
        self,
        kind: Kind,
        account: str = "",
        amount: Amount = _ZERO,
        *,
        states: Sequence[State] = (),
        **detail: Any,
    ) -> int:
        """Add an event with ``detail`` as JSON."""
        return self.append(kind, account, amount, detail=in_order(detail), states=states)

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self._seq + 1

    @property
    def last(self) -> tuple[int, bytes]:
        """The number and the hash of the last event."""
        return self._seq, self._hash


def recorded(
    who: str,
    work: Callable[[Journal], _T],
    sql: Backend,
    *,
    any_clock: bool = False,
    late: bool = False,
) -> _T:
    """Append what ``work`` has to tell, and move the head to the last event, before the commit."""
    journal = Journal(sql, who, any_clock=any_clock, late=late)
    begun = journal.next
    found = work(journal)
    if journal.next > begun:
        sql.execute(
            "UPDATE head SET version = ?, seq = ?, at = ?, hash = ? WHERE one = 1",
            (SCHEMA_VERSION, journal.last[0], journal.at, journal.last[1]),
        )
    return found


def begin_chain(sql: Backend, ledger: str, at: int, who: str) -> None:
    """Write the first event and the head of a new ledger, which is named ``ledger``."""
    detail = in_order({"ledger": ledger, "version": SCHEMA_VERSION})
    beginning = (1, at, who, Kind.LEDGER.value, "", None, None, 0, "", detail)
    fields = (*beginning, *Amount().units, None, text_of(()))
    digest = hash_of(NOTHING, fields)
    sql.execute(_INSERT, (*fields, digest))
    sql.execute(
        "INSERT INTO head (one, ledger, version, seq, at, hash) VALUES (1, ?, ?, 1, ?, ?)",
        (ledger, SCHEMA_VERSION, at, digest),
    )


def in_order(value: object) -> str:
    """Write ``value`` as JSON text, always the same for the same value."""
    return json.dumps(value, sort_keys=True)


def require_whole(sql: Backend) -> None:
    """Refuse a ledger whose chain does not end with the event named by its head.

    Raises :class:`LedgerError` (``ledger_corrupt``). What lies before the end is for verification.
    """
    rows = sql.execute(
        "SELECT head.seq = (SELECT max(seq) FROM events) FROM head JOIN events USING (seq) "
        "WHERE head.hash = events.hash"
    )
    if len(rows) != 1 or not rows[0][0]:
        raise LedgerError(
            "the ledger's chain was cut or continued by somebody else",
            code="ledger_corrupt",
            hint="restore the ledger from a backup; it was not changed",
        )


def head(sql: Backend) -> Head:
    """Return the head as it is stored."""
    return Head(*sql.execute("SELECT seq, hash FROM head")[0])

"""Sums tied to the chain: a row that decides about charges must match its latest event.

Every event says in its hashed field ``state`` what it has made of the rows of accounts and windows,
and these name its number in ``last`` and its hash in ``tie``. Before a row decides anything, it is
compared with what that event says, and the event with its hash. So a row that was edited is noticed
by the next charge, and not by verification alone.

What has a hash is remembered by it, for a connection, so each event is hashed once, and no later
edit can change what is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend, Said, State
from dpsql.ledger.chain import FIELDS, hash_of

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_MOST = 4096  # events that are remembered

_NAMES = FIELDS.split(", ")
_EVENTS = f"""
SELECT {", ".join(f"events.{name}" for name in _NAMES)}, events.hash, before.hash
FROM events JOIN events AS before ON before.seq = events.seq - 1 WHERE events.seq IN ({{}})
"""


class Tied(Protocol):
    """A row of ``accounts`` or ``windows`` with its path and its tie to the chain.

    ``last`` is the event that changed it last, ``tie`` that event's hash.
    """

    @property
    def path(self) -> str: ...
    @property
    def last(self) -> int: ...
    @property
    def tie(self) -> bytes | None: ...
    @property
    def state(self) -> State: ...


def text_of(states: Sequence[State]) -> str:
    """Write the states as an event holds them."""
    return _ENCODER.encode(states)


def remember(sql: Backend, seq: int, digest: bytes, states: Iterable[State]) -> None:
    """Store the statement of the event with this hash in the cache."""
    if len(sql.said) >= _MOST:
        sql.said.clear()
    sql.said[digest] = seq, tuple(states)


def require_tied(sql: Backend, rows: Collection[Tied]) -> None:
    """Raise :class:`LedgerError` (``ledger_corrupt``) unless all rows are what the chain says."""
    said = sql.said
    missing = {row.last for row in rows if row.tie not in said}
    if missing:
        said = dict(said) | _read(sql, missing)  # reading may forget what was known
    for row in rows:
        seq, states = said.get(row.tie or b"", (0, ()))
        if seq != row.last or row.state not in states:
            raise untied(row.path)


def require_hashed(sql: Backend, path: str, events: Collection[int]) -> None:
    """Raise :class:`LedgerError` (``ledger_corrupt``) unless these events have their hashes.

    For events that decide by themselves, without a row that is tied to them.
    """
    if len(_read(sql, events)) != len(events):
        raise untied(path)


def untied(path: str) -> LedgerError:
    """Build the error of a row that does not follow from the events."""
    return LedgerError(
        f"what the ledger says of the account {path} does not follow from its events",
        code="ledger_corrupt",
        hint="run `dpsql budget verify`, and restore the ledger from a backup; it was not changed",
    )


def _read(sql: Backend, events: Collection[int]) -> dict[bytes, Said]:
    """Read the statements of events with valid hashes, by hash; they are cached."""
    found: dict[bytes, Said] = {}
    for *fields, own, before in sql.execute(_EVENTS.format(_marks(events)), [*events]):
        try:
            if hash_of(before, tuple(fields)) == own:
                found[own] = fields[0], tuple(map(tuple, json.loads(fields[-1])))
                remember(sql, fields[0], own, found[own][1])
        except (TypeError, ValueError, AttributeError, RecursionError):
            continue  # it says nothing that could be right
    return found


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))

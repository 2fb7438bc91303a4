"""Verification: all events are in place, and all else in the ledger is derived from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.backend import Backend, LedgerRow
from dpsql.ledger.chain import FIELDS, NOTHING, Event, hash_of
from dpsql.ledger.records import Head
from dpsql.ledger.releases import (
    PartsDigest,
    count_step_parts,
    further_part,
    step_part,
    unpack,
)
from dpsql.ledger.replay import BrokenError, Replay
from dpsql.ledger.schema import SCHEMA_VERSION

_CHUNK = 10_000
_WINDOWS = (
    "SELECT opened, path, period, rho, epsilon, delta, gaussian, queries, unsettled, "
    "carried_rho, carried_epsilon, carried_delta, carried_gaussian, last, tie FROM windows"
)
_ACCOUNTS = (
    "SELECT path, opened, renews, terms, limit_rho, limit_epsilon, limit_delta, limit_gaussian, "
    "policy_rho, policy_epsilon, policy_delta, policy_gaussian, suspended, reopened, last, tie "
    "FROM accounts"
)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification.

    ``events`` counts the events from the first on that are sound, ``head`` is the last of them.
    ``broken`` says in a sentence what is wrong first, and is None if nothing is; ``place`` is the
    number of the event where that is, or None if it is not in the chain.
    """

    events: int
    head: Head | None
    broken: str | None = None
    place: int | None = None

    @property
    def sound(self) -> bool:
        """True if nothing is broken."""
        return self.broken is None


def verify(sql: Backend, anchors: tuple[Head, ...] = ()) -> Verification:
    """Check everything, in one state of the ledger. Raises LedgerError if it cannot be read."""
    replay, found = Replay(), Verification(0, None)
    wanted = set(anchors)
    for row in _events(sql):
        broken = _event_is_broken(row, found, replay)
        if broken is not None:
            return Verification(found.events, found.head, broken, found.events + 1)
        found = Verification(found.events + 1, Head(row[0], row[-1]))
        here = {anchor for anchor in wanted if anchor.seq == found.events}
        wanted -= here
        if here - {found.head}:
            broken = "it is not the event that was written down as the head"
            return Verification(found.events, found.head, broken, found.events)
    broken = (
        _head_is_broken(sql, found, replay)
        or ("the chain ends before a head that was written down" if wanted else None)
        or sql.damage()  # first, as a damaged index may hide rows from what follows
        or _sums_are_broken(sql, replay)
        or _releases_are_broken(sql, replay)
        or _steps_are_broken(sql, replay)
    )
    return Verification(found.events, found.head, broken)


def _events(sql: Backend) -> Iterator[LedgerRow]:
    last = -(2**63)
    while True:
        rows = sql.execute(
            f"SELECT {FIELDS}, hash FROM events WHERE seq > ? ORDER BY seq LIMIT {_CHUNK}",
            (last,),
        )
        if not rows:
            return
        yield from rows
        last = rows[-1][0]


def _event_is_broken(row: LedgerRow, found: Verification, replay: Replay) -> str | None:
    if row[0] != found.events + 1:
        return f"event {found.events + 1} is missing"
    previous = NOTHING if found.head is None else found.head.hash
    try:
        if hash_of(previous, row[:-1]) != row[-1]:
            return "its hash does not follow from it and the event before it"
        replay.apply(Event.of_row(row))
    except (AttributeError, TypeError, ValueError, ParameterError):
        return "it holds values of the wrong type"
    except BrokenError as error:
        return str(error)
    return None


def _head_is_broken(sql: Backend, found: Verification, replay: Replay) -> str | None:
    rows = sql.execute("SELECT one, ledger, version, seq, at, hash FROM head")
    last = None if found.head is None else found.head.hash
    if rows != [(1, replay.name, SCHEMA_VERSION, found.events, replay.at, last)]:
        return "the chain does not end where the ledger says that it ends: it was cut or continued"
    return None


def _sums_are_broken(sql: Backend, replay: Replay) -> str | None:
    windows = {opened: tuple(row) for opened, *row in sql.execute(_WINDOWS)}
    for opened, state in replay.windows.items():
        if windows.pop(opened, None) != state.row:
            return f"the sums of the account {state.path} do not follow from the events"
    accounts = {path: tuple(row) for path, *row in sql.execute(_ACCOUNTS)}
    for path, account in replay.accounts.items():
        if accounts.pop(path, None) != account.row:
            return f"the limits of the account {path} do not follow from the events"
    return "the ledger has an account that no event created" if windows or accounts else None


def _releases_are_broken(sql: Backend, replay: Replay) -> str | None:
    kept = {entry for (entry,) in sql.execute("SELECT entry FROM releases")}
    if kept != set(replay.releases):
        return "a stored release is missing, or was not stored by settling"
    rows = sql.execute("SELECT entry, count(*) FROM release_parts GROUP BY entry")
    further: dict[int, int] = dict(map(tuple, rows))
    if not further.keys() <= kept | replay.unsettled:
        return "a part of a stored release was not stored by settling"
    for entry, (account, query, expected) in replay.releases.items():
        *whose, size, packed, kept_payload = sql.execute(
            "SELECT account, query, size, packed, payload FROM releases WHERE entry = ?", (entry,)
        )[0]
        if whose != [account, query] or not _is_stored(
            sql, entry, unpack(size, packed, kept_payload), further.get(entry, 0), expected
        ):
            return f"the stored release of entry {entry} is not what was stored"
    return None


def _is_stored(
    sql: Backend, entry: int, first: bytes | None, further: int, expected: bytes
) -> bool:
    """Tell whether the parts of a release match the chain's digest."""
    if first is None:
        return False
    digest = PartsDigest()
    digest.add(first)
    try:
        for part in range(1, further + 1):
            digest.add(further_part(sql, entry, part))
    except LedgerError as error:
        if error.code != "ledger_corrupt":
            raise
        return False
    return digest.digest == expected


def _steps_are_broken(sql: Backend, replay: Replay) -> str | None:
    expected = {
        (entry, step): digest
        for entry, stream in replay.streams.items()
        for step, digest in stream.published.items()
    }
    # Of a step that was interrupted there may be parts: all but the first, which comes last.
    kept = set(sql.execute("SELECT stream, step FROM step_releases WHERE part <= 0"))
    parts = set(sql.execute("SELECT DISTINCT stream, step FROM step_releases"))
    interrupted = {(entry, step) for entry, step in parts - kept if replay.has_begun(entry, step)}
    if not kept <= expected.keys() or not parts <= expected.keys() | interrupted:
        return "a stored release of a stream was not published"
    for (entry, step), digest in expected.items():
        if not _is_published(sql, entry, step, digest):
            return f"the stored release of step {step} of entry {entry} is not what was published"
    return None


def _is_published(sql: Backend, entry: int, step: int, expected: bytes) -> bool:
    """Tell whether the parts of a step match the chain's digest."""
    digest = PartsDigest()
    try:
        for part in range(count_step_parts(sql, entry, step)):
            digest.add(step_part(sql, entry, step, part))
    except LedgerError as error:
        if error.code != "ledger_corrupt":
            raise
        return False
    return digest.of_parts == expected

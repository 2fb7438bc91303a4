"""The chain: every event is hashed together with the hash of the event before it.

``hash = SHA-256(hash of the event before, then the JSON array of the event's fields)``, where the
first event follows 32 zero bytes. The array is written as Python's ``json.dumps`` writes it with
separators ``","`` and ``":"``: ASCII, no blanks. So anybody can check a ledger with a few lines of
any language, and changing, removing, adding or exchanging events breaks every later hash.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from dpsql.errors import LedgerError
from dpsql.privacy.accounting.zcdp import Amount

NOTHING = bytes(32)
"""What comes before the first event."""

FIELDS = (
    "seq, at, who, kind, account, entry, stream, step, query, detail, rho, epsilon, delta, "
    "gaussian, digest, state"
)
"""The hashed columns of an event, in the order in which they are hashed."""

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """The kind of an event."""

    LEDGER = "ledger"  # the ledger was created
    ACCOUNT = "account"  # an account was created, with its first window
    POLICY = "policy"  # the policy gave an account other limits than before, or none
    LIMITS = "limits"  # the owner set an account's limits, or lifted them
    RENEWAL = "renewal"  # the owner set how often an account's window is renewed
    WINDOW = "window"  # a new window was opened, by the calendar or by the owner
    RESERVE = "reserve"  # a query's worst case was charged
    SETTLE = "settle"  # ... and replaced by its actual cost
    FORGET = "forget"  # the owner deleted a stored release
    CLOCK = "clock"  # the owner accepted a clock that was set back
    STREAM = "stream"  # a charge that was settled in full pays for a stream of steps
    STEP = "step"  # a step of it was begun: it is used, whether anything comes out or not
    PUBLISH = "publish"  # ... and its release was published
    DROP = "drop"  # a stream has ended
    READ = "read"  # an account has read what the stream of another one has published
    FAILURE = "failure"  # the engine failed on private rows, which suspended an account
    SUSPEND = "suspend"  # the owner suspended an account
    REOPEN = "reopen"  # ... or lets it ask again
    RENAME = "rename"  # the owner gave an account another name


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the chain.

    ``at`` counts microseconds since 1970 (UTC). ``entry`` is the reservation that is settled, or
    whose query failed; ``stream`` the one that pays for a stream, of which ``step`` is the number,
    from 1 on, of a step that was begun, published or failed, and 0 for what is of no step.
    ``query`` is the query's fingerprint, the stream's id, also of one that is read, or the new name
    of an account, which the chain goes on to call what it was called first.

    ``detail`` is JSON text: the plan of a reservation, the terms of a limit. ``digest`` is the
    SHA-256 of the release that was stored. ``amount`` is what was reserved or charged, or a limit.
    ``state`` says what the rows of accounts and windows are since this event.
    """

    seq: int
    at: int
    who: str
    kind: str
    account: str
    entry: int | None
    stream: int | None
    step: int
    query: str
    detail: str
    amount: Amount
    digest: bytes | None
    state: str
    hash: bytes

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Event:
        """Read an event from a row of ``FIELDS, hash``.

        Raises ParameterError for impossible amounts.
        """
        seq, at, who, kind, account, entry, stream, step, query, detail, *rest = row
        *units, digest, state, own = rest
        amount, whose = Amount(*units), (account, entry, stream, step)
        return cls(seq, at, who, kind, *whose, query, detail, amount, digest, state, own)

    @property
    def time(self) -> str:
        """The time of the event, in ISO 8601."""
        return iso(self.at)


def cause_of(event: Event) -> str | None:
    """Return why a query failed; None for an event of another kind."""
    try:
        return str(json.loads(event.detail)["cause"]) if event.kind == Kind.FAILURE else None
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def hash_of(previous: bytes, fields: tuple[Any, ...]) -> bytes:
    """Return the hash of an event with these ``FIELDS`` that follows an event of hash ``previous``.

    Raises TypeError or ValueError if a field has a type that no event has.
    """
    *plain, digest, state = fields
    plain += [None if digest is None else digest.hex(), state]
    return hashlib.sha256(previous + _encode(plain)).digest()


def _encode(fields: list[Any]) -> bytes:
    return _ENCODER.encode(fields).encode()


def iso(at: int) -> str:
    """Write microseconds since 1970 as a UTC time in ISO 8601.

    Raises :class:`LedgerError` (``ledger_corrupt``) for a time that no calendar has.
    """
    try:
        return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds")
    except OverflowError:
        raise LedgerError(
            "the ledger holds an impossible time",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        ) from None


def microseconds(moment: datetime) -> int:
    """Return the inverse of :func:`iso`, for a datetime with a time zone."""
    return (moment - _EPOCH) // timedelta(microseconds=1)

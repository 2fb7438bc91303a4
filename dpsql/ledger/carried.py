"""Continuing streams and their charges, with which a new window opens.

A stream is paid for once and publishes for a long time, also in windows after the one that bought
it. What is published in a window counts in it, or its limit would not be one. All steps of a stream
together cost what it was charged, and any part of them may, so each window in which it publishes
counts the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend
from dpsql.ledger.names import full_name
from dpsql.ledger.records import ReadableStream, planned_beside
from dpsql.ledger.schema import ACCOUNT_CHANGES
from dpsql.ledger.ties import require_hashed
from dpsql.privacy.accounting.zcdp import MAX_LEDGER_UNITS, Amount

READS = f"""
SELECT seq, query FROM events
WHERE account = ? AND {ACCOUNT_CHANGES} AND kind = 'read' AND at >= ? ORDER BY seq
"""
"""The events by which an account has read streams since a moment."""

_MADE = """
SELECT made.seq, made.account, made.stream, asked.detail, asked.rho, asked.epsilon, asked.delta,
    asked.gaussian
FROM events AS made JOIN events AS asked ON asked.seq = made.stream
WHERE made.kind = 'stream' AND made.query = ?
"""
# A step that was begun may be published until it has failed or a later one was published.
_OF_LINE = """
SELECT made.seq, made.account, made.stream, made.query, made.detail, asked.rho, asked.epsilon,
    asked.delta, asked.gaussian, ended.seq, ended.at,
    (SELECT max(step) FROM events WHERE stream = made.stream AND kind = 'step'),
    (SELECT max(begun.step) FROM events AS begun
        WHERE begun.stream = made.stream AND begun.kind = 'step' AND NOT EXISTS
            (SELECT 1 FROM events AS ended WHERE ended.stream = made.stream
                AND ended.kind = 'failure' AND ended.step = begun.step)),
    (SELECT max(step) FROM events WHERE stream = made.stream AND kind = 'publish')
FROM events AS made JOIN events AS asked ON asked.seq = made.stream
    LEFT JOIN events AS ended ON ended.stream = made.stream AND ended.kind = 'drop'
WHERE made.kind = 'stream' AND (made.account = ? OR substr(made.account, 1, ?) = ?)
ORDER BY made.seq
"""


class PaidStream(NamedTuple):
    """A stream of the account with this key, by its id: what was paid for all of its steps.

    ``dropped`` is when that was done, in microseconds since 1970, or None. ``goes_on`` says that it
    may publish a further step.
    """

    account: str
    stream: str
    amount: Amount
    dropped: int | None
    goes_on: bool


def streams_of(sql: Backend, key: str) -> tuple[PaidStream, ...]:
    """List all streams of an account and the accounts below it, the oldest first."""
    below, found = key + "/", []
    rows = sql.execute(_OF_LINE, (key, len(below), below))
    for seq, account, entry, stream, detail, *rest in rows:
        units, (drop, dropped, begun, unfailed, published) = rest[:4], rest[4:]
        steps = stream_terms(detail)[1]
        unused, unended = (begun or 0) < steps, (unfailed or 0) > (published or 0)
        goes_on = dropped is None and (unused or unended)
        # What decides here are events themselves: they must be those of the chain.
        require_hashed(sql, key, {seq, entry, *([] if drop is None else [drop])})
        found.append(PaidStream(account, stream, Amount(*units), dropped, goes_on))
    return tuple(found)


def carried_by(sql: Backend, key: str) -> Amount:
    """Sum the charges of continuing streams of an account and the accounts below it."""
    return amount_of(found.amount for found in streams_of(sql, key) if found.goes_on)


def readable_of(sql: Backend, key: str, since: int) -> tuple[ReadableStream, ...]:
    """List the streams that an account has, or has dropped since a moment."""
    return tuple(
        _readable(sql, found.stream)
        for found in streams_of(sql, key)
        if found.account == key and (found.dropped is None or found.dropped >= since)
    )


def read_by(sql: Backend, key: str, since: int) -> tuple[ReadableStream, ...]:
    """List the streams of others that an account has read since a moment, live or not."""
    reads = sql.execute(READS, (key, since))
    if reads:
        require_hashed(sql, key, {seq for seq, _ in reads})
    return tuple(_readable(sql, stream) for stream in dict.fromkeys(s for _, s in reads))


def _readable(sql: Backend, stream: str) -> ReadableStream:
    ((seq, account, entry, plan, *units),) = sql.execute(_MADE, (stream,))
    require_hashed(sql, account, {seq, entry})
    price = amount_of([Amount(*units), planned_beside(plan)])
    return ReadableStream(stream, full_name(sql, account), price)


def amount_of(amounts: Iterable[Amount]) -> Amount:
    """Add up amounts; sums beyond what can be counted stay at the largest."""
    columns = zip(*(amount.units for amount in amounts), strict=True)
    return Amount(*(min(MAX_LEDGER_UNITS, sum(column)) for column in columns))


def stream_terms(detail: str) -> tuple[str, int]:
    """Read a stream's name and number of steps from the event of its creation."""
    try:
        terms = json.loads(detail)
        return str(terms["name"]), int(terms["steps"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise LedgerError(
            "the ledger holds an impossible stream",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        ) from None

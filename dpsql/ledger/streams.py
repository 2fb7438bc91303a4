"""Streams: one charge pays for many published steps, and each step is used once.

The noise of a stream belongs to all of its steps (:mod:`dpsql.privacy.streams`), so its
charge is settled in full at once and nothing of it is ever refunded. What remains to be promised is
that no step has two answers, of two states of the data. So a step is an event of the chain before
anything is read for it, later than all steps before, and no event takes that back.

What a stream is, and how far, is read from its events alone. Those that decide are compared with
their hashes, as rows of accounts are with their events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dpsql.errors import LedgerError
from dpsql.ledger.accounts import charge_line, require_within, settle, without_charge
from dpsql.ledger.backend import Backend, Value
from dpsql.ledger.carried import stream_terms
from dpsql.ledger.chain import Kind, iso
from dpsql.ledger.journal import Journal, in_order
from dpsql.ledger.names import full_names, key_by_name
from dpsql.ledger.records import (
    Account,
    Charge,
    PublishedStep,
    StepTicket,
    StreamRecord,
    planned_steps,
    refused_change,
)
from dpsql.ledger.releases import count_step_parts, forget_parts, step_part
from dpsql.ledger.ties import require_hashed
from dpsql.privacy.accounting.zcdp import Amount

_MADE = """
SELECT seq, stream, account, detail,
    (SELECT count(*) FROM events WHERE stream = made.stream AND kind = 'drop')
FROM events AS made WHERE kind = 'stream' AND query = ?
"""
_LAST_STEP = """
SELECT seq, step FROM events WHERE stream = ? AND kind = 'step' ORDER BY step DESC LIMIT 1
"""
_ENDED = """
SELECT kind FROM events
WHERE stream = ? AND step = ? AND (kind = 'publish' OR kind = 'failure')
"""
_BEGUN = "SELECT seq FROM events WHERE stream = ? AND kind = 'step' AND step = ?"
_LATER = "SELECT 1 FROM events WHERE stream = ? AND kind = 'publish' AND step > ? LIMIT 1"
_NAMED = """
SELECT detail FROM events AS made WHERE kind = 'stream' AND account = ? AND NOT EXISTS
    (SELECT 1 FROM events WHERE stream = made.stream AND kind = 'drop')
"""
_LIVE = """
SELECT made.stream, made.account, made.query, made.detail, asked.detail, asked.at, asked.rho,
    asked.epsilon, asked.delta, asked.gaussian,
    (SELECT max(step) FROM events WHERE stream = made.stream AND kind = 'step')
FROM events AS made JOIN events AS asked ON asked.seq = made.stream
WHERE made.kind = 'stream' AND {} NOT EXISTS
    (SELECT 1 FROM events WHERE stream = made.stream AND kind = 'drop')
ORDER BY made.seq
"""
_PUBLISHED = "SELECT step, at FROM events WHERE stream = ? AND kind = 'publish' ORDER BY step"
_PUBLISHING = """
SELECT made.query, made.stream, max(out.at), count(*)
FROM events AS made JOIN events AS out ON out.stream = made.stream AND out.kind = 'publish'
WHERE made.kind = 'stream' AND made.account = ? AND NOT EXISTS
    (SELECT 1 FROM events WHERE stream = made.stream AND kind = 'drop')
GROUP BY made.query, made.stream ORDER BY made.stream
"""
_NEXT = """
SELECT step, digest FROM events WHERE stream = ? AND kind = 'publish' AND step > ?
ORDER BY step LIMIT 1
"""


class _Live(NamedTuple):
    """A continuing stream: its charge, its number of steps, and the latest begun step."""

    entry: int
    steps: int
    begun: int


def open_stream(
    journal: Journal,
    account: str,
    limits: Mapping[str, Account],
    amount: Amount,
    *,
    name: str,
    stream: str,
    plan: str,
) -> Charge:
    """Charge an account for a stream in full, and put the stream into the chain.

    Raises what charging raises, and :class:`LedgerError` (``ledger_stream_exists``).
    """
    sql = journal.sql
    if sql.execute(_MADE, (stream,)):
        raise refused_change(
            "ledger_stream_exists", "the id belongs to a stream, or to a former one"
        )
    key = key_by_name(sql, account)
    if any(stream_terms(terms)[0] == name for (terms,) in sql.execute(_NAMED, (key,))):
        raise refused_change("ledger_stream_exists", "the account has a stream of this name")
    charge = charge_line(journal, account, limits, amount, query=stream, plan=plan)
    settle(journal, charge, amount)
    terms = in_order({"name": name, "steps": planned_steps(plan)})
    journal.append(Kind.STREAM, key, stream=charge.entry, query=stream, detail=terms)
    return charge


def open_step(
    journal: Journal, account: str, limits: Mapping[str, Account], stream: str, step: int
) -> StepTicket:
    """Begin a step of a stream of the account of this key; it is used from then on.

    The windows of the account, and of those above it, are those of now, and what counts in them
    is within their limits. ``limits`` are the policy's, where they are told, by names of accounts.
    Raises :class:`LedgerError`.
    """
    live = _live(journal.sql, account, stream)
    require_within(without_charge(journal, account, limits))
    if step > live.steps:
        raise refused_change("ledger_step_beyond", "the stream has no step of this number")
    if step <= live.begun:
        raise refused_change(
            "ledger_step_used", "this step of the stream was begun before, or passed by"
        )
    journal.append(Kind.STEP, account, stream=live.entry, step=step, query=stream)
    return StepTicket(live.entry, account, stream, step)


def close_step(journal: Journal, ticket: StepTicket, digest: bytes) -> None:
    """Publish a begun step with the ``digest`` of its release; steps are published in order.

    Raises :class:`LedgerError` where the step has ended, the stream, or the account is suspended.
    """
    _live(journal.sql, ticket.account, ticket.stream)
    without_charge(journal, ticket.account, {})
    entry = require_unended(journal.sql, ticket)
    journal.append(
        Kind.PUBLISH,
        ticket.account,
        stream=entry,
        step=ticket.step,
        query=ticket.stream,
        digest=digest,
    )


def require_unended(sql: Backend, ticket: StepTicket) -> int:
    """Require a step that was begun and may be published; return the entry of its stream.

    Raises :class:`LedgerError` where the step has ended, or the stream.
    """
    live = _live(sql, ticket.account, ticket.stream)
    if ticket.entry != live.entry or ticket.step > live.begun:
        raise _unknown_stream("this ledger has begun no such step")
    begun = sql.execute(_BEGUN, (live.entry, ticket.step))
    if not begun:
        raise _unknown_stream("this ledger has begun no such step")
    require_hashed(sql, ticket.account, [seq for (seq,) in begun])
    if sql.execute(_ENDED, (live.entry, ticket.step)) or sql.execute(
        _LATER, (live.entry, ticket.step)
    ):
        raise refused_change(
            "ledger_step_ended", "the step was published or failed, or a later one was published"
        )
    return live.entry


def step_may_fail(sql: Backend, ticket: StepTicket) -> bool:
    """Tell whether a step was begun and has not ended; False for one that failed before.

    The stream may have been dropped meanwhile. Raises :class:`LedgerError` for any other step.
    """
    made = [(row[1], row[2]) for row in sql.execute(_MADE, (ticket.stream,))]
    begun = sql.execute(_BEGUN, (ticket.entry, ticket.step))
    if made != [(ticket.entry, ticket.account)] or not begun:
        raise _unknown_stream("this ledger has begun no such step")
    ended = {kind for (kind,) in sql.execute(_ENDED, (ticket.entry, ticket.step))}
    if Kind.PUBLISH in ended:
        raise refused_change("ledger_step_ended", "the step was published")
    return not ended


def require_live(sql: Backend, stream: str) -> None:
    """Require a stream of this id that was not dropped. Raises :class:`LedgerError`."""
    rows = sql.execute(_MADE, (stream,))
    if not rows or rows[0][4]:
        raise _unknown_stream("there is no such stream, or it was dropped")


def close_stream(journal: Journal, account: str, stream: str) -> None:
    """End a stream and delete its published steps. Raises :class:`LedgerError`."""
    live = _live(journal.sql, account, stream)
    journal.append(Kind.DROP, account, stream=live.entry, query=stream)
    forget_parts(journal.sql, live.entry)


def end_published(journal: Journal, account: str, latest: int) -> int:
    """End the account's streams that have published, and nothing later than a moment.

    What they have published is deleted. Returns how many steps that were.
    """
    count = 0
    for stream, entry, last, steps in journal.sql.execute(_PUBLISHING, (account,)):
        if last <= latest:
            journal.append(Kind.DROP, account, stream=entry, query=stream)
            forget_parts(journal.sql, entry)
            count += steps
    return count


def ended_streams(sql: Backend, streams: Iterable[str]) -> tuple[str, ...]:
    """List those of some ids whose streams have ended."""
    return tuple(each for each in streams if any(row[4] for row in sql.execute(_MADE, (each,))))


def live_streams(sql: Backend, account: str | None = None) -> tuple[StreamRecord, ...]:
    """Find the live streams of one account, by its key, or of all, oldest first."""
    one = "" if account is None else "made.account = ? AND"
    values: tuple[Value, ...] = () if account is None else (account,)
    rows = sql.execute(_LIVE.format(one), values)
    names, found = full_names(sql, {row[1] for row in rows}), []
    for entry, key, stream, terms, plan, at, *units, begun in rows:
        name, steps = stream_terms(terms)
        published = tuple(
            PublishedStep(step, iso(then)) for step, then in sql.execute(_PUBLISHED, (entry,))
        )
        amount = Amount(*units)
        own = (name, stream, steps, plan, iso(at), amount, begun or 0, published)
        found.append(StreamRecord(entry, names[key], *own))
    return tuple(found)


class StepRecord(NamedTuple):
    """The record of a published step: its number, digest, number of parts, and first part."""

    step: int
    digest: bytes
    parts: int
    first: bytes


def next_release(sql: Backend, account: str, stream: str, after: int) -> StepRecord | None:
    """Find the first release of a live stream after a step; None without one.

    Raises :class:`LedgerError` if nothing is kept of it.
    """
    live = _live(sql, account, stream)
    rows = sql.execute(_NEXT, (live.entry, after))
    if not rows:
        return None
    step, digest = rows[0]
    first = step_part(sql, live.entry, step, 0)
    return StepRecord(step, digest, count_step_parts(sql, live.entry, step), first)


def further_release(sql: Backend, account: str, stream: str, step: int, part: int) -> bytes:
    """Read a further part of what a step of a live stream has released.

    Raises :class:`LedgerError` if there is none.
    """
    return step_part(sql, _live(sql, account, stream).entry, step, part)


def _live(sql: Backend, account: str, stream: str) -> _Live:
    """Read the stream of this id, if the account has it and it was not dropped.

    Raises :class:`LedgerError` for any other, and for events that do not have their hashes.
    """
    rows = sql.execute(_MADE, (stream,))
    if not rows or rows[0][2] != account or rows[0][4]:
        raise _unknown_stream("the account has no such stream, or has dropped it")
    seq, entry, _, detail, _ = rows[0]
    last = sql.execute(_LAST_STEP, (entry,))
    require_hashed(sql, account, [seq, *(found for found, _ in last)])
    return _Live(entry, stream_terms(detail)[1], last[0][1] if last else 0)


def _unknown_stream(reason: str) -> LedgerError:
    return refused_change("ledger_unknown_stream", reason)

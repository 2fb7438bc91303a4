"""Events of sessions, which observers receive as they happen. The log is one of them.

An event has paths of accounts, codes, fingerprints and costs, and the text of a statement where one
is asked: never a row, and never more of an answer than what it cost. Logs, audits and metrics are
observers. What an observer raises reaches whoever asked: of :class:`StatementAsked` nothing is done
and nothing spent then; of what comes later, the ledger knows already. What was reserved stays
spent, and a release that is kept is given again at no cost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dpsql.ledger import Cause
from dpsql.privacy.accounting.zcdp import Amount
from dpsql.results.result import Cost


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Something that has happened. ``account`` is the path of the account that pays."""

    account: str


@dataclass(frozen=True, slots=True)
class SessionOpened(SessionEvent):
    """A session was opened."""


@dataclass(frozen=True, slots=True)
class StatementAsked(SessionEvent):
    """A statement has come, and nothing was done with it. ``text`` is as it was typed."""

    text: str


@dataclass(frozen=True, slots=True)
class StatementRefused(SessionEvent):
    """A statement was refused, and nothing was spent. ``code`` is that of the error."""

    code: str


@dataclass(frozen=True, slots=True)
class StatementFailed(SessionEvent):
    """A statement has failed otherwise, after it was charged or in an engine.

    What it was charged, other events tell. ``code`` is that of the error. Where private rows could
    not be read, :class:`ReadingFailed` or :class:`StepFailed` is told instead.
    """

    code: str


@dataclass(frozen=True, slots=True)
class ChargeReserved(SessionEvent):
    """The worst case of a purchase was charged; no private row was read for it yet.

    ``entry`` is the number of the charge in the ledger. A materialized view is charged for good:
    nothing is settled later, and ``fingerprint`` is that of its definition.
    """

    entry: int
    fingerprint: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class ChargeSettled(SessionEvent):
    """A charge was lowered to the cost of its release, and the release was stored if possible."""

    entry: int
    amount: Amount
    kept: bool


@dataclass(frozen=True, slots=True)
class QuestionAnswered(SessionEvent):
    """A question was answered: from private rows, a stored release or public tables alone.

    ``fingerprint`` is None for the last. ``seconds`` tell of the rows, as waiting for them does.
    """

    fingerprint: str | None
    cost: Cost
    seconds: float


@dataclass(frozen=True, slots=True)
class ReadingFailed(SessionEvent):
    """A reading of private rows failed without a release: the reservation stays spent.

    ``fingerprint`` is None where estimates of what bounding leaves out were asked for alone.
    """

    fingerprint: str | None
    code: str


@dataclass(frozen=True, slots=True)
class AccountSuspended(SessionEvent):
    """The ledger has suspended an account after a failure: no new question until it is reopened."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class ViewCreated(SessionEvent):
    """A materialized view was created, whose steps were charged all at once.

    ``stream`` is what the ledger calls it.
    """

    stream: str


@dataclass(frozen=True, slots=True)
class StepPublished(SessionEvent):
    """A step of a materialized view was published: it was paid for when the view was created."""

    stream: str
    step: int


@dataclass(frozen=True, slots=True)
class StepFailed(SessionEvent):
    """Private rows were being read for a step of a materialized view, which stays empty."""

    stream: str
    step: int
    code: str


Observer: TypeAlias = Callable[[SessionEvent], object]
"""Is told of each event, in the thread that asked."""


_logger = logging.getLogger("dpsql.session")
_SHOWN = 12  # digits of a fingerprint


def log(event: SessionEvent) -> None:
    """Log an event that programs watch for; all others are for audits."""
    account = event.account
    match event:
        case SessionOpened():
            _logger.info("%s: connected", account)
        case StatementRefused(code=code):
            _logger.info("%s: refused, %s", account, code)
        case StatementFailed(code=code):
            _logger.info("%s: failed, %s", account, code)
        case QuestionAnswered(fingerprint=fingerprint, cost=cost, seconds=seconds):
            stored = ", stored" if cost.stored else ""
            paid, asked = cost.settled, _short(fingerprint) or "from public tables"
            _logger.info(
                "%s: answered %s%s, cost rho %.6g, epsilon %.6g, delta %.6g, in %.3f seconds",
                *(account, asked, stored, paid.rho, paid.epsilon, paid.delta, seconds),
            )
        case ReadingFailed(fingerprint=fingerprint, code=code):
            _logger.error("%s: failed %s, %s", account, _short(fingerprint) or "an estimate", code)
        case ViewCreated(stream=stream):
            _logger.info("%s: view created, stream %s", account, stream[:_SHOWN])
        case StepPublished(stream=stream, step=step):
            _logger.info("%s: published step %d of %s", account, step, stream[:_SHOWN])
        case StepFailed(step=step, code=code):
            _logger.error("%s: step %d failed, %s", account, step, code)
        case AccountSuspended(cause=cause):
            _logger.warning("%s: account suspended, cause %s", account, cause.value)


def _short(fingerprint: str | None) -> str:
    return "" if fingerprint is None else fingerprint[:_SHOWN]

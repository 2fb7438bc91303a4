"""Logs the events of sessions: codes, costs and digests, never a text that was typed."""

from __future__ import annotations

import logging

from dpsql.pipeline.events import (
    AccountSuspended,
    QuestionAnswered,
    ReadingFailed,
    SessionEvent,
    SessionOpened,
    StatementRefused,
)

_logger = logging.getLogger(__name__)
_SHOWN = 12  # digits of a fingerprint


def log(event: SessionEvent) -> None:
    """Log an event that programs watch for; all others are for audits."""
    account = event.account
    match event:
        case SessionOpened():
            _logger.info("%s: connected", account)
        case StatementRefused(code=code):
            _logger.info("%s: refused, %s", account, code)
        case QuestionAnswered(fingerprint=fingerprint, cost=cost, seconds=seconds):
            stored = ", stored" if cost.stored else ""
            paid, asked = cost.settled, _short(fingerprint) or "from public tables"
            _logger.info(
                "%s: answered %s%s, cost rho %.6g, epsilon %.6g, delta %.6g, in %.3f seconds",
                *(account, asked, stored, paid.rho, paid.epsilon, paid.delta, seconds),
            )
        case ReadingFailed(fingerprint=fingerprint, code=code):
            _logger.error("%s: failed %s, %s", account, _short(fingerprint) or "a look", code)
        case AccountSuspended(cause=cause):
            _logger.warning("%s: account suspended, cause %s", account, cause.value)


def _short(fingerprint: str | None) -> str:
    return "" if fingerprint is None else fingerprint[:_SHOWN]

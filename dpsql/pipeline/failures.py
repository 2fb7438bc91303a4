"""Failures on private rows: what is told of them, and to whom. Their own texts may quote rows."""

from __future__ import annotations

from dpsql.errors import EngineError
from dpsql.ledger import Cause
from dpsql.policy.limits import ResourceFailures
from dpsql.policy.model import Policy

_CAUSES = {
    "engine_failed": Cause.ENGINE,
    "time_limit": Cause.TIME,
    "memory_limit": Cause.MEMORY,
}


def failure_code(error: Exception, *, expired: bool) -> str:
    """Return a failure's code, by the kind of the error alone; ``expired`` if time was over."""
    if isinstance(error, MemoryError):
        return "memory_limit"
    if not isinstance(error, EngineError):
        return "engine_failed"  # an error of ours, for reasons that rows may have
    return "time_limit" if expired and error.code == "interrupted" else error.code


def suspending_cause(policy: Policy, code: str) -> Cause | None:
    """Decide why a failure suspends the account that asked; None if it does not.

    One failure may tell something of the rows, a second must not. What the caller interrupted tells
    nothing; of limits that were met, the policy decides.
    """
    keeps = policy.limits.resource_failures is ResourceFailures.KEEP
    if code == "interrupted" or (code != "engine_failed" and keeps):
        return None
    return _CAUSES.get(code, Cause.ENGINE)


def failure_error(policy: Policy, code: str, kept: str, suspended: str | None) -> EngineError:
    """Build the error that tells the analyst of a failure, in fixed words.

    ``kept`` says what stays spent; ``suspended`` is the account that is suspended now, if one is.
    """
    if suspended is not None:
        kept += (
            f" The account {suspended} gets no answer to a new question until the owner has "
            f"looked and reopens it: dpsql budget owner reopen {suspended}"
        )
    match code:
        case "interrupted":
            reason = "the query was interrupted"
        case "time_limit":
            seconds = f"{policy.limits.seconds:g}"
            reason = f"the query ran into the policy's limit of {seconds} seconds"
        case "memory_limit":
            reason = "the query ran into the limit of memory"
        case _:
            code, reason = "engine_failed", EngineError.FIXED_REASON
    return EngineError(reason, code=code, hint=kept)

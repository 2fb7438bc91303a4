"""Errors as HTTP's clients read them: problem+json (RFC 9457), with dpsql's code and hint.

A ``dpsql.Error`` has no data values, and is told as it is. Of any other exception nothing is told
but a number, under which the log has its class and where it was raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.responses import Response

from dpsql import errors
from dpsql.core.codes import CODES
from dpsql.server.faults import logged_fault
from dpsql.server.http.bodies import ProblemReply

PROBLEM_TYPE: Final = "application/problem+json"
_OF_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "audit_not_written": 503,
        "bad_request": 400,
        "body_too_large": 413,
        "cancelled": 409,
        "closed": 503,
        "interrupted": 409,
        "ledger_account_exists": 409,
        "ledger_name_taken": 409,
        "ledger_not_suspended": 409,
        "ledger_other_composition": 409,
        "account_renamed": 409,
        "login_failed": 401,
        "method_not_allowed": 405,
        "missing_package": 501,
        "not_acceptable": 406,
        "not_allowed": 403,
        "not_json": 415,
        "policies_changed": 409,
        "policies_not_written": 503,
        "protection_changed": 403,
        "query_not_running": 404,
        "query_running": 409,
        "policies_give_less": 409,
        "question_too_dear": 402,
        "request_decided": 409,
        "server_busy": 503,
        "sign_on_unavailable": 503,
        "statement_timeout": 504,
        "time_limit": 504,
        "token_exists": 409,
        "too_many_requests": 429,
        "too_slow": 408,
        "unknown_request": 404,
        "unknown_route": 404,
        "unknown_token": 404,
        "unknown_user": 404,
        "user_exists": 409,
        "users_busy": 503,
        "wrong_host": 421,
    }
)
_OF_CLASSES: Final[tuple[tuple[type[errors.Error], int], ...]] = (
    (errors.BudgetExceeded, 402),
    (errors.LedgerError, 503),
    (errors.PolicyError, 500),
    (errors.EngineError, 500),
    (errors.OperationalError, 500),
    (errors.InternalError, 500),
    (errors.Error, 422),
)
"""The status of each class: the first that holds decides."""


def status_of(error: errors.Error) -> int:
    """Return the status for an error."""
    own = _OF_CODES.get(error.code)
    if own is not None:
        return own
    return next(status for kind, status in _OF_CLASSES if isinstance(error, kind))


def problem_of(error: Exception) -> ProblemReply:
    """Return an error as a problem; an unexpected one is logged, and told as a number."""
    if not isinstance(error, errors.Error):
        number = logged_fault(error)
        fault = errors.InternalError(
            f"internal error {number}: the server's log has more", code="internal_error"
        )
        return problem_of(fault).model_copy(update={"id": number})
    place = error.place
    known = CODES.get(error.code)
    found = ProblemReply(
        type=f"urn:dpsql:error:{error.code}",
        title=error.code.replace("_", " ") if known is None else known.meaning,
        status=status_of(error),
        detail=error.reason,
        code=error.code,
        kind=type(error).__name__,
        hint=error.hint,
    )
    if place is not None and place.source in _SENT:
        found = found.model_copy(update={"line": place.line, "column": place.column})
    if isinstance(error, errors.BudgetExceeded):
        remaining = None if error.remaining is None else list(error.remaining)
        asked = {"remaining": remaining, "requested": list(error.requested)}
        found = found.model_copy(update=asked)
    return found


def problem_response(error: Exception, status: int | None = None) -> Response:
    """Return the response to a request that has failed, with a status of its own if one is given.

    It ends the connection where the request may not have been read to its end.
    """
    found = problem_of(error)
    if status is not None:
        found = found.model_copy(update={"status": status})
    headers: dict[str, str] = {}
    if found.status in _UNREAD:
        headers["connection"] = "close"
    if found.status == 401:
        headers["www-authenticate"] = "Bearer"
    if found.status == 503:
        headers["retry-after"] = "5"
    body = found.model_dump_json(exclude_none=True)
    return Response(body, found.status, headers, media_type=PROBLEM_TYPE)


_SENT: Final = frozenset({"query", "policies.yaml"})
"""The texts that clients send, whose places they can look up."""
_UNREAD: Final = frozenset({400, 401, 404, 405, 406, 408, 413, 415, 421, 500})

"""Requests for more budget at a server, with the owners' decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.client.transport import RemoteServer, bad_reply

_STATES: Final = ("open", "approved", "refused")


@dataclass(frozen=True, slots=True)
class RemoteBudgetRequest:
    """A request that an account may spend up to an epsilon in a window.

    ``state`` is ``open``, ``approved`` or ``refused``; ``note`` is what the owner who decided says
    about it. Times are UTC, in ISO 8601.
    """

    number: int
    user: str
    account: str
    epsilon: float
    why: str
    asked: str
    state: str
    owner: str | None
    note: str
    decided: str | None


def request_budget(server: RemoteServer, epsilon: float, why: str) -> RemoteBudgetRequest:
    """Ask the owners of a server that the account may spend up to an epsilon in a window."""
    return _request(server.call("POST", "budget/requests", {"epsilon": epsilon, "why": why}))


def own_requests(server: RemoteServer, limit: int) -> tuple[RemoteBudgetRequest, ...]:
    """List the latest requests of the token's user, the latest first."""
    return _requests(server.call("GET", f"budget/requests?limit={limit}"))


def all_requests(server: RemoteServer, limit: int) -> tuple[RemoteBudgetRequest, ...]:
    """List requests of all users, for an owner: those first that wait for a decision."""
    return _requests(server.call("GET", f"requests?limit={limit}"))


def approve_asked_budget(server: RemoteServer, number: int, note: str) -> bool:
    """Approve a request, as an owner.

    Returns False where the account may spend as much already, and no limit was raised.
    """
    reply = server.call("POST", "requests/approve", {"number": number, "note": note})
    raised = reply.get("raised")
    if not isinstance(raised, bool):
        raise bad_reply()
    return raised


def refuse_asked_budget(server: RemoteServer, number: int, note: str) -> None:
    """Refuse a request, as an owner."""
    _request(server.call("POST", "requests/refuse", {"number": number, "note": note}))


def _requests(reply: Mapping[str, Any]) -> tuple[RemoteBudgetRequest, ...]:
    found = reply.get("requests")
    if not isinstance(found, list):
        raise bad_reply()
    return tuple(map(_request, found))


def _request(found: object) -> RemoteBudgetRequest:
    try:
        assert isinstance(found, Mapping)
        request = RemoteBudgetRequest(
            int(found["number"]),
            str(found["user"]),
            str(found["account"]),
            float(found["epsilon"]),
            str(found["why"]),
            str(found["asked"]),
            _STATES[_STATES.index(found["state"])],
            None if found["owner"] is None else str(found["owner"]),
            str(found["note"]),
            None if found["decided"] is None else str(found["decided"]),
        )
    except (AssertionError, KeyError, TypeError, ValueError):
        request = None
    if request is None:
        raise bad_reply()
    return request

"""Requests of analysts for more budget, kept in the file of users until an owner decides on them.

A request has what its user has written, and nothing that follows from data. It is told to that
user and to owners, by servers of the dataset that it is about: they may share a file of users.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeVar

from dpsql.errors import InterfaceError
from dpsql.server.people.user_file import UserFile

_Found = TypeVar("_Found")
MOST_WAITING: Final = 3
"""The most requests of one user that may wait for a decision."""
MOST_A_DAY: Final = 10
"""The most requests that one user may make in 24 hours."""
_DAY: Final = 86_400
_REQUEST: Final = (
    "SELECT number, user, account, epsilon, why, asked, state, owner, note, decided FROM requests"
)


class RequestState(Enum):
    """What has become of a request."""

    OPEN = "open"
    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A request that an account may spend up to an epsilon in a window.

    ``why`` is the user's reason, ``note`` that of the owner who decided.
    """

    number: int
    user: str
    account: str
    epsilon: float
    why: str
    asked: datetime
    state: RequestState
    owner: str | None
    note: str
    decided: datetime | None

    def facts(self) -> dict[str, Any]:
        """Return all of it as values of JSON."""
        return {
            "number": self.number,
            "user": self.user,
            "account": self.account,
            "epsilon": self.epsilon,
            "why": self.why,
            "asked": self.asked.isoformat(),
            "state": self.state.value,
            "owner": self.owner,
            "note": self.note,
            "decided": None if self.decided is None else self.decided.isoformat(),
        }


class BudgetRequests:
    """The requests in a file of users. Safe for threads and processes."""

    def __init__(self, file: UserFile, clock: Callable[[], datetime]) -> None:
        self._file = file
        self._clock = clock
        self._deciding = threading.Lock()

    def file(
        self,
        dataset: str,
        user: str,
        account: str,
        epsilon: float,
        why: str,
        noted: Callable[[BudgetRequest], None],
    ) -> BudgetRequest:
        """Keep a request of a user, once ``noted`` has written it down elsewhere.

        Raises ``InterfaceError`` (``too_many_requests``) beyond the limits of one user.
        """
        now = int(self._clock().timestamp())
        with self._file.writing() as write:
            counted = "SELECT COUNT(*) FROM requests WHERE user = ? AND dataset = ? AND"
            who = (user, dataset)
            ((waiting,),) = self._file.read(f"{counted} state = 'open'", who)
            ((lately,),) = self._file.read(f"{counted} asked > ?", (*who, now - _DAY))
            if waiting >= MOST_WAITING or lately >= MOST_A_DAY:
                raise InterfaceError(
                    "there are too many requests of this user",
                    code="too_many_requests",
                    hint=f"{MOST_WAITING} may wait for a decision at once, and {MOST_A_DAY} be "
                    "made in 24 hours.",
                )
            made = write(
                "INSERT INTO requests (dataset, user, account, epsilon, why, asked)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (dataset, user, account, epsilon, why, now),
            )
            assert made.lastrowid is not None, "a row was inserted"
            found = self.request(dataset, made.lastrowid)
            noted(found)
        return found

    def of_user(self, dataset: str, user: str, limit: int) -> tuple[BudgetRequest, ...]:
        """Return the latest requests of a user, the latest first."""
        latest = f"{_REQUEST} WHERE user = ? AND dataset = ? ORDER BY number DESC LIMIT ?"
        return tuple(map(_request, self._file.read(latest, (user, dataset, limit))))

    def all(self, dataset: str, limit: int) -> tuple[BudgetRequest, ...]:
        """Return requests of all users: those that are open first, then the latest first."""
        ordered = f"{_REQUEST} WHERE dataset = ? ORDER BY state = 'open' DESC, number DESC LIMIT ?"
        return tuple(map(_request, self._file.read(ordered, (dataset, limit))))

    def request(self, dataset: str, number: int) -> BudgetRequest:
        """Return a request. Raises ``InterfaceError`` (``unknown_request``)."""
        rows = self._file.read(f"{_REQUEST} WHERE number = ? AND dataset = ?", (number, dataset))
        if not rows:
            raise InterfaceError(
                "there is no request of this number",
                code="unknown_request",
                hint="`dpsql budget requests` lists them.",
            )
        return _request(rows[0])

    def decide(
        self,
        dataset: str,
        number: int,
        state: RequestState,
        owner: str,
        note: str,
        act: Callable[[BudgetRequest], _Found],
    ) -> _Found:
        """Decide on an open request after ``act``, and return its result.

        Nobody else decides meanwhile, of this process or another one, and everybody reads and
        writes the file: an act on a ledger may wait for it. If it fails, or the process ends, the
        request stays open; so it has to be one that can be done twice. Raises ``InterfaceError``
        (``unknown_request``, ``request_decided``, ``users_busy``).
        """
        with self._deciding, self._file.deciding():
            done = act(self._open(dataset, number))
            with self._file.writing() as write:
                write(
                    "UPDATE requests SET state = ?, owner = ?, note = ?, decided = ?"
                    " WHERE number = ?",
                    (state.value, owner, note, int(self._clock().timestamp()), number),
                )
        return done

    def _open(self, dataset: str, number: int) -> BudgetRequest:
        found = self.request(dataset, number)
        if found.state is not RequestState.OPEN:
            raise InterfaceError(
                f"the request was {found.state.value} already",
                code="request_decided",
                hint="Its user can make another one.",
            )
        return found


def _request(row: Sequence[Any]) -> BudgetRequest:
    number, user, account, epsilon, why, asked, state, owner, note, decided = row
    return BudgetRequest(
        *(number, user, account, epsilon, why, _time(asked), RequestState(state), owner, note),
        None if decided is None else _time(decided),
    )


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

"""Replays a ledger's events into the sums it must hold, independently, for verification.

Shares no arithmetic with the code that writes: sums, windows and rules are worked out anew from the
events alone.
"""

from __future__ import annotations

import json
import operator
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.chain import Event, Kind
from dpsql.ledger.records import Cause, Renewal, check_new_path, is_over, line_of, period
from dpsql.ledger.schema import SCHEMA_VERSION
from dpsql.privacy.accounting.zcdp import MAX_LEDGER_UNITS

_OF_ENTRIES = {Kind.SETTLE, Kind.FAILURE}
_OF_STREAMS = {Kind.STREAM, Kind.STEP, Kind.PUBLISH, Kind.DROP, Kind.FAILURE}
_OF_STEPS = {Kind.STEP, Kind.PUBLISH, Kind.FAILURE}

Units = tuple[int, int, int, int]


class BrokenError(Exception):
    """An event that no ledger writes. Its text is one sentence about it."""


@dataclass(slots=True)
class WindowState:
    """A replayed window: its account, its period, and sums of amounts and queries.

    ``carried`` is the part of the amounts that it opened with.
    """

    path: str
    period: str
    opened: int
    sums: list[int] = field(default_factory=lambda: [0] * 6)
    carried: list[int] = field(default_factory=lambda: [0] * 4)
    last: tuple[int, bytes | None] = (0, None)

    @property
    def row(self) -> tuple[Any, ...]:
        """The row as stored, without the key."""
        return (self.path, self.period, *self.sums, *self.carried, *self.last)

    @property
    def state(self) -> list[Any]:
        """The window as events state it."""
        return ["windows", self.opened, self.path, self.period, *self.sums]


@dataclass(slots=True)
class AccountState:
    """A replayed account: its windows, as the events that opened them, and its limits."""

    path: str
    opened: list[int]
    renews: str = ""
    terms: str = "{}"
    limit: Units | None = None
    policy: Units | None = None
    share: float | None = None
    suspended: int = 0
    reopened: int = 0
    last: tuple[int, bytes | None] = (0, None)

    @property
    def row(self) -> tuple[Any, ...]:
        """The row as stored, without the key."""
        settings = (self.opened[-1], self.renews, self.terms, *self._limits)
        return (*settings, self.suspended, self.reopened, *self.last)

    @property
    def state(self) -> list[Any]:
        """The account as events state it, without its terms."""
        settings = (self.path, self.opened[-1], self.renews, *self._limits)
        return ["accounts", *settings, self.suspended, self.reopened]

    @property
    def _limits(self) -> tuple[int | None, ...]:
        nothing = (None,) * 4
        return (*(self.limit or nothing), *(self.policy or nothing))


@dataclass(slots=True)
class StreamState:
    """A replayed stream: account, name, id, number of steps, price, and the latest begun step.

    ``unended`` were begun, and neither published nor failed; ``published`` have these digests.
    """

    account: str
    name: str
    stream: str
    steps: int
    price: Units
    begun: int = 0
    dropped: bool = False
    unended: set[int] = field(default_factory=set)
    published: dict[int, bytes] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """True if a step of it may still be published."""
        last = max(self.published, default=0)
        return not self.dropped and (
            self.begun < self.steps or any(step > last for step in self.unended)
        )


class Replay:
    """The state after a number of events. :meth:`apply` takes the next one."""

    def __init__(self) -> None:
        self.accounts: dict[str, AccountState] = {}
        self.windows: dict[int, WindowState] = {}
        self.releases: dict[int, tuple[str, str, bytes]] = {}  # account, query, digest
        self.streams: dict[int, StreamState] = {}
        self.name = ""
        self.at = 0
        self._named: dict[str, str] = {}  # whose a name is, or was, by the account's first one
        self._called: dict[str, str] = {}  # the present name of an account that was renamed
        self._open: dict[int, Event] = {}
        self._failed: set[int] = set()
        self._price: Units = (0, 0, 0, 0)  # of the stream that the present event creates
        self._paid: Event | None = None  # what was charged, where the last event was its settling
        self._touched: list[AccountState | WindowState] = []
        self._rules: dict[str, Callable[[Event, dict[str, Any]], None]] = {
            Kind.LEDGER: self._ledger,
            Kind.ACCOUNT: self._account,
            Kind.POLICY: self._policy,
            Kind.LIMITS: self._limits,
            Kind.RENEWAL: self._renewal,
            Kind.WINDOW: self._window,
            Kind.RESERVE: self._reserve,
            Kind.SETTLE: self._settle,
            Kind.FORGET: self._forget,
            Kind.CLOCK: self._nothing,
            Kind.STREAM: self._stream,
            Kind.STEP: self._step,
            Kind.PUBLISH: self._publish,
            Kind.DROP: self._drop,
            Kind.FAILURE: self._failure,
            Kind.SUSPEND: self._suspend,
            Kind.REOPEN: self._reopen,
            Kind.RENAME: self._rename,
            Kind.READ: self._read,
        }

    def apply(self, event: Event) -> None:
        """Apply the next event. Raises :class:`BrokenError`."""
        if (event.kind == Kind.LEDGER) != (event.seq == 1):
            raise BrokenError("a ledger is created once, first of all")
        if event.at < self.at and event.kind != Kind.CLOCK:
            raise BrokenError("it is older than the event before it")
        self.at = event.at
        rule = self._rules.get(event.kind)
        if rule is None:
            raise BrokenError("its kind is unknown")
        self._require_subject(event)
        paid, self._paid = self._paid, None
        try:
            self._touched.clear()
            if event.kind == Kind.STREAM:
                self._price = self._require_paid(event, paid)
            rule(event, {} if event.kind == Kind.RESERVE else json.loads(event.detail))
            self._require_told(event)
        except (KeyError, TypeError, ValueError, RecursionError, LedgerError, ParameterError):
            raise BrokenError("its detail is not that of an event of its kind") from None

    def _require_subject(self, event: Event) -> None:
        """Require that an event is about an entry, or a stream and a step, if its kind is."""
        of_entry, of_stream = event.entry is not None, event.stream is not None
        may_be = event.kind in _OF_ENTRIES, event.kind in _OF_STREAMS
        wrong = of_entry == of_stream if all(may_be) else (of_entry, of_stream) != may_be
        if wrong:
            raise BrokenError("it settles or fails nothing, or must not")
        if (event.step > 0) != (event.kind in _OF_STEPS and of_stream):
            raise BrokenError("it is of a step and must not be, or of none")

    def _require_told(self, event: Event) -> None:
        for row in self._touched:
            row.last = (event.seq, event.hash)
        if json.loads(event.state) != [row.state for row in self._touched]:
            raise BrokenError(
                "what it says of accounts and windows does not follow from the events"
            )

    def _nothing(self, event: Event, detail: dict[str, Any]) -> None:
        """Change no account."""

    def _ledger(self, event: Event, detail: dict[str, Any]) -> None:
        self.name = str(detail["ledger"])
        if detail["version"] != SCHEMA_VERSION:
            raise BrokenError("it creates a ledger of another version")

    @property
    def unsettled(self) -> set[int]:
        """The charges that have not ended, or have failed: parts of an answer may lie there."""
        return set(self._open) | self._failed

    def _carried(self, path: str) -> list[int]:
        """Add up the charges of the streams below an account that go on."""
        sums = [0] * 4
        for stream in self.streams.values():
            if path in line_of(stream.account) and stream.goes_on:
                sums = list(map(operator.add, sums, stream.price))
        return [min(units, MAX_LEDGER_UNITS) for units in sums]

    def _account(self, event: Event, detail: dict[str, Any]) -> None:
        if event.account in self.accounts or event.account in self._named:
            raise BrokenError("the account exists already")
        self.accounts[event.account] = AccountState(event.account, [event.seq])
        self.windows[event.seq] = WindowState(event.account, "", event.seq)
        self._touched += [self.accounts[event.account], self.windows[event.seq]]

    def _policy(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        share = detail.get("conversion_share")
        spent = self.windows[account.opened[-1]].sums[-2]  # how many questions
        if share is not None and account.share not in (None, share) and spent:
            raise BrokenError("it keeps another part of delta for conversion, after charges")
        account.share = account.share if share is None else share
        account.policy = self._limit(event, detail)
        self._touched.append(account)

    def _limits(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        account.limit = self._limit(event, detail)
        account.terms = json.dumps(detail["terms"], sort_keys=True)
        self._touched.append(account)

    def _limit(self, event: Event, detail: dict[str, Any]) -> Units | None:
        return event.amount.units if detail["limited"] else None

    def _renewal(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        account.renews = detail["every"]
        label = period(_renewal(account), event.at)
        if detail["period"] != label:
            raise BrokenError("its period is not that of its time")
        window = self.windows[account.opened[-1]]
        window.period = label
        self._touched += [account, window]

    def _window(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        current = self.windows[account.opened[-1]].period
        due = is_over(_renewal(account), current, event.at)
        if detail["by"] != "owner" and not due:
            raise BrokenError("a window was renewed before it was over")
        if detail["period"] != period(_renewal(account), event.at):
            raise BrokenError("its period is not that of its time")
        carried = self._carried(event.account)
        if list(event.amount.units) != carried:
            raise BrokenError("its window does not open with the streams that go on")
        account.opened.append(event.seq)
        self.windows[event.seq] = WindowState(
            event.account, detail["period"], event.seq, [*carried, 0, 0], carried
        )
        self._touched += [account, self.windows[event.seq]]

    def _reserve(self, event: Event, detail: dict[str, Any]) -> None:
        amount = event.amount
        if not any(amount.units) or amount.currencies > 1:
            raise BrokenError("it charges nothing, or in more than one of rho, epsilon and mu")
        for path in line_of(event.account):
            account = self._answering(path)
            window = self.windows[account.opened[-1]]
            if is_over(_renewal(account), window.period, event.at):
                raise BrokenError("it is charged to a window that was over")
            for index, units in enumerate((*amount.units, 1, 1)):
                window.sums[index] += units
            self._touched.append(window)
            for limit in (account.limit, account.policy):
                if limit and any(map(operator.gt, window.sums, limit)):
                    raise BrokenError(f"it exceeds the limits of {path}")
        self._open[event.seq] = event

    def _settle(self, event: Event, detail: dict[str, Any]) -> None:
        asked = self._open.pop(event.entry or 0, None)
        if asked is None or asked.account != event.account:
            raise BrokenError("it settles what was not reserved, or was settled before")
        freed = list(map(operator.sub, asked.amount.units, event.amount.units))
        if min(freed) < 0 or freed[2] != 0:
            raise BrokenError("it costs more than was reserved, or lowers delta")
        if not any(freed) and event.digest is None:
            self._paid = asked
        for path in line_of(event.account):
            opened = self._answering(path).opened
            window = self.windows[opened[bisect_left(opened, asked.seq) - 1]]
            for index, units in enumerate((*freed, 0, 1)):
                window.sums[index] -= units
            self._touched.append(window)
        if event.digest is not None:
            self.releases[asked.seq] = (asked.account, asked.query, event.digest)

    def _forget(self, event: Event, detail: dict[str, Any]) -> None:
        if self.releases.pop(detail["entry"], None) is None:
            raise BrokenError("it deletes a release that is not there")

    def _require_paid(self, event: Event, paid: Event | None) -> Units:
        """Return the price of a stream, which must follow upon its charge and nothing else."""
        if (
            paid is None
            or (paid.seq, paid.seq + 2) != (event.stream, event.seq)
            or (paid.account, paid.query) != (event.account, event.query)
            or json.loads(paid.detail)["stream"]["steps"] != json.loads(event.detail)["steps"]
        ):
            raise BrokenError("it creates a stream that was not charged in full")
        return paid.amount.units

    def _stream(self, event: Event, detail: dict[str, Any]) -> None:
        terms = detail["name"], event.query, detail["steps"]
        made = StreamState(event.account, *terms, self._price)
        for other in self.streams.values():
            same = (other.account, other.name) == (made.account, made.name)
            if other.stream == made.stream or (same and not other.dropped):
                raise BrokenError("it creates a stream whose name or id is taken")
        self.streams[event.stream or 0] = made

    def _step(self, event: Event, detail: dict[str, Any]) -> None:
        stream = self._going_on(event)
        if not stream.begun < event.step <= stream.steps:
            raise BrokenError("it begins a step that was used, or that the stream does not have")
        stream.begun = event.step
        stream.unended.add(event.step)

    def _publish(self, event: Event, detail: dict[str, Any]) -> None:
        stream = self._going_on(event)
        later = event.step > max(stream.published, default=0)
        if not later or event.step not in stream.unended or event.digest is None:
            raise BrokenError(
                "it publishes a step that was not begun, has ended before, or is late"
            )
        stream.unended.remove(event.step)
        stream.published[event.step] = event.digest

    def _drop(self, event: Event, detail: dict[str, Any]) -> None:
        stream = self._live_stream(event)
        stream.dropped = True
        stream.published.clear()

    def _read(self, event: Event, detail: dict[str, Any]) -> None:
        read = [stream for stream in self.streams.values() if stream.stream == event.query]
        if not read or read[0].dropped:
            raise BrokenError("it reads a stream that does not exist, or was dropped")
        self._touched.append(self._known(event.account))

    def _going_on(self, event: Event) -> StreamState:
        """Return the live stream of a step, whose payers are all open."""
        stream = self._live_stream(event)
        for path in line_of(event.account):
            self._require_present(event, self._answering(path))
        return stream

    def _require_present(self, event: Event, account: AccountState) -> None:
        """Require a step to be in a window that is not over, and to begin within its limits."""
        window = self.windows[account.opened[-1]]
        if is_over(_renewal(account), window.period, event.at):
            raise BrokenError("it is of a stream whose window was over")
        if event.kind == Kind.STEP:
            for limit in (account.limit, account.policy):
                if limit and any(map(operator.gt, window.sums, limit)):
                    raise BrokenError(f"it exceeds the limits of {account.path}")

    def _live_stream(self, event: Event) -> StreamState:
        stream = self.streams.get(event.stream or 0)
        if stream is None or (event.account, event.query) != (stream.account, stream.stream):
            raise BrokenError("its stream does not exist, or is another one's")
        if stream.dropped:
            raise BrokenError("its stream was dropped")
        return stream

    def has_begun(self, entry: int, step: int) -> bool:
        """Tell whether a stream has begun a step, or one after it."""
        stream = self.streams.get(entry)
        return stream is not None and not stream.dropped and 0 < step <= stream.begun

    def _fail_step(self, event: Event) -> None:
        stream = self.streams.get(event.stream or 0)
        if stream is None or event.account not in line_of(stream.account):
            raise BrokenError("it fails what was not reserved, or had ended before")
        if event.step not in stream.unended:
            raise BrokenError("it fails a step that was not begun, or had ended before")
        stream.unended.remove(event.step)

    def _failure(self, event: Event, detail: dict[str, Any]) -> None:
        if event.stream is None:
            asked = self._open.pop(event.entry or 0, None)
            if asked is None or event.account not in line_of(asked.account):
                raise BrokenError("it fails what was not reserved, or had ended before")
            self._failed.add(asked.seq)
        else:
            self._fail_step(event)
        if detail["cause"] not in set(Cause):
            raise BrokenError("its cause is unknown")
        self._suspend(event, detail)

    def _suspend(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        if account.suspended <= account.reopened:
            account.suspended = event.seq
        self._touched.append(account)

    def _reopen(self, event: Event, detail: dict[str, Any]) -> None:
        account = self._known(event.account)
        if account.suspended <= account.reopened:
            raise BrokenError("it reopens an account that was not suspended")
        account.reopened = event.seq
        self._touched.append(account)

    def _rename(self, event: Event, detail: dict[str, Any]) -> None:
        key, given = event.account, event.query
        account = self._known(key)
        check_new_path(given)
        if line_of(given)[:-1] != line_of(key)[:-1]:
            raise BrokenError("it moves an account to another place")
        if given == self._called.get(key, key):
            raise BrokenError("it gives an account the name that it has")
        if self._named.get(given, key) != key or (given != key and given in self.accounts):
            raise BrokenError("it gives an account the name of another one")
        self._called[key], self._named[given] = given, key
        self._touched.append(account)

    def _answering(self, path: str) -> AccountState:
        account = self._known(path)
        if account.suspended > account.reopened:
            raise BrokenError(f"the account {path} is suspended")
        return account

    def _known(self, path: str) -> AccountState:
        if path not in self.accounts:
            raise BrokenError("its account does not exist")
        return self.accounts[path]


def _renewal(account: AccountState) -> Renewal | None:
    return Renewal(account.renews) if account.renews else None

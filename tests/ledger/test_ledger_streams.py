"""Streams in the ledger: charged once and in full, steps used once, what they published kept."""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import EPSILON, RHO, Currency, raw

from dpsql.errors import BudgetExceeded, LedgerError, ParameterError, UnknownName
from dpsql.ledger import (
    Account,
    Cause,
    Kind,
    Ledger,
    PublishedStep,
    Renewal,
    StepTicket,
    StreamProgress,
    releases,
)
from dpsql.privacy.accounting.zcdp import Amount

ALICE, BOB = RHO.account("sales/alice"), RHO.account("sales/bob")
A, B = ALICE.path, BOB.path


@pytest.fixture(params=[RHO, EPSILON], ids=lambda currency: currency.name)
def currency(request: pytest.FixtureRequest) -> Currency:
    found: Currency = request.param
    return found


def refused(code: str, ledger: Ledger, call: Any, *args: Any, **named: Any) -> None:
    """The call is refused with this code, and the ledger is what it was."""
    before = ledger.head()
    with fails_with(code):
        call(*args, **named)
    assert ledger.head() == before
    assert ledger.verify().sound


def published(ledger: Ledger, stream: str, step: int, *parts: bytes) -> StepTicket:
    ticket = ledger.begin_step(A, stream, step)
    ledger.publish_step(ticket, parts)
    return ticket


def kept_of(ledger: Ledger, stream: str, after: int = 0) -> list[tuple[int, bytes]]:
    """Read the steps of A's stream and what is kept of each."""
    found = ledger.step_releases(A, stream, after)
    return [(step, b"".join(parts)) for step, parts in found]


# -- creating -----------------------------------------------------------------------------------


def test_a_stream_is_an_entry_that_is_paid_in_full(ledger: Ledger, currency: Currency) -> None:
    account = currency.account("sales/alice", 100, 100)
    charge = currency.stream(ledger, "s1", account)
    assert ledger.spent("sales/alice") == currency.spent(20, 2, 1, 0)
    assert ledger.spent("sales") == currency.spent(20, 2, 1, 0)
    assert ledger.estimate("sales/alice", currency.amount(20, 2), [account]) == 4
    (entry,) = ledger.history("sales")
    assert (entry.entry, entry.query, entry.stored) == (charge.entry, "s1", False)
    assert entry.charged == entry.reserved == charge.amount == currency.amount(20, 2)
    assert entry.stream == StreamProgress("name of s1", 5, 0, 0, False)
    assert ledger.stored("sales/alice", "s1") is None
    for step in range(1, 6):
        ledger.publish_step(ledger.begin_step("sales/alice", "s1", step), [b"released"])
    assert ledger.spent("sales/alice") == currency.spent(20, 2, 1, 0)  # steps are free
    (entry,) = ledger.history("sales")
    assert entry.stream == StreamProgress("name of s1", 5, 5, 5, False)
    with fails_with("ledger_settled_twice"):
        ledger.settle(charge, currency.amount(0, 2))
    with fails_with("ledger_settled_twice"):
        ledger.fail(charge, "sales/alice", Cause.ENGINE)
    assert ledger.verify().sound


def test_a_question_is_no_stream(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ledger.settle(RHO.reserve(ledger, 7, 1, ALICE), RHO.amount(3, 1), b"answer")
    RHO.reserve(ledger, 7, 1, ALICE)
    for step in (1, 2, 4):
        published(ledger, "s1", step, b"x")
    unsettled, settled, stream = ledger.history("sales")
    assert (unsettled.stream, unsettled.charged, unsettled.failed) == (None, None, None)
    assert (settled.stream, settled.charged, settled.stored) == (None, RHO.amount(3, 1), True)
    assert stream.stream == StreamProgress("name of s1", 5, 4, 3, False)
    assert stream.failed is None


def test_a_stream_that_does_not_fit_is_refused_and_leaves_nothing(ledger: Ledger) -> None:
    poor = RHO.account("sales/alice", 19, 100)
    before = ledger.head()
    with pytest.raises(BudgetExceeded):
        RHO.stream(ledger, "s1", poor)
    assert ledger.head() == before
    assert ledger.all_streams() == ()
    RHO.stream(ledger, "s1", RHO.account("sales/alice", 20, 100))


def test_names_are_unique_among_the_live_streams_of_an_account(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE, name="visits")
    refused("ledger_stream_exists", ledger, RHO.stream, ledger, "s2", ALICE, name="visits")
    RHO.stream(ledger, "s3", BOB, name="visits")  # another account's
    ledger.drop_stream(A, "s1")
    RHO.stream(ledger, "s4", ALICE, name="visits")
    assert [each.stream for each in ledger.all_streams()] == ["s3", "s4"]
    assert [each.stream for each in ledger.streams(A)] == ["s4"]
    assert ledger.streams("sales") == ()
    assert ledger.verify().sound


def test_an_id_is_never_given_again_to_whomever(ledger: Ledger) -> None:
    """Noise is drawn from it: two streams of one id would have the same."""
    RHO.stream(ledger, "s1", ALICE)
    refused("ledger_stream_exists", ledger, RHO.stream, ledger, "s1", BOB, name="b")
    ledger.drop_stream(A, "s1")
    refused("ledger_stream_exists", ledger, RHO.stream, ledger, "s1", ALICE, name="c")
    assert ledger.total("sales") == RHO.spent(20, 2, 1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "two\nlines"},
        {"stream": ""},
        {"stream": "x" * 1025},
        {"plan": "{"},
        {"plan": "[]"},
        {"plan": "{}"},
        {"plan": '{"stream": {"steps": 0}}'},
        {"plan": '{"stream": {"steps": true}}'},
        {"plan": '{"stream": {"steps": 1000001}}'},
        {"plan": '{"stream": {"steps": "5"}}'},
        {"plan": '{"stream": 5}'},
        {"amount": Amount()},
        {"amount": Amount(rho=1, epsilon=1)},
        {"account": "sales//alice"},
        {"limits": [BOB]},
    ],
    ids=lambda wrong: f"{wrong}"[:40],
)
def test_malformed_streams_are_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "account": A,
        "amount": RHO.amount(1, 1),
        "name": "visits",
        "stream": "s1",
        "plan": '{"stream": {"steps": 5}}',
        "limits": [ALICE],
    } | wrong
    before = ledger.head()
    with pytest.raises(ParameterError):
        ledger.create_stream(given.pop("account"), given.pop("amount"), **given)
    assert ledger.head() == before


def test_an_account_that_nobody_gave_a_budget_has_no_streams(ledger: Ledger) -> None:
    with pytest.raises(UnknownName):
        ledger.create_stream(
            A, RHO.amount(1, 1), name="v", stream="s", plan='{"stream": {"steps": 5}}'
        )
    assert ledger.streams(A) == ()


def test_a_renewed_window_does_not_free_a_stream(ledger: Ledger) -> None:
    """It counts in each window in which it may publish, and over all windows once."""
    owner = ledger.owner("olga")
    owner.create(A)
    owner.renew(A, Renewal.MONTH)
    charge = RHO.stream(ledger, "s1", ALICE)
    owner.open_window(A)
    published(ledger, "s1", 1, b"x")
    assert ledger.spent(A) == RHO.spent(20, 2, 0, 0)
    assert ledger.total(A) == RHO.spent(20, 2, 1, 0)
    assert ledger.streams(A)[0].entry == charge.entry
    ledger.drop_stream(A, "s1")
    assert ledger.spent(A) == RHO.spent(20, 2, 0, 0)
    assert ledger.total(A) == RHO.spent(20, 2, 1, 0)
    owner.open_window(A)
    assert ledger.spent(A) == RHO.spent(0, 0, 0, 0)
    assert ledger.total(A) == RHO.spent(20, 2, 1, 0)
    assert ledger.verify().sound


# -- steps --------------------------------------------------------------------------------------


def test_a_step_is_begun_once_and_after_all_before(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    assert ledger.begin_step(A, "s1", 2).step == 2
    for step in (1, 2):
        refused("ledger_step_used", ledger, ledger.begin_step, A, "s1", step)
    assert ledger.begin_step(A, "s1", 5).step == 5
    refused("ledger_step_beyond", ledger, ledger.begin_step, A, "s1", 6)
    wrong: tuple[Any, ...] = (0, -1, True, 1.0, "1", 10**7)
    for number in wrong:
        with pytest.raises(ParameterError):
            ledger.begin_step(A, "s1", number)


def test_a_stream_is_its_accounts_alone(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    RHO.stream(ledger, "s2", BOB)
    for account, stream in ((A, "s2"), ("sales", "s1"), (f"{A}/night", "s1"), (A, "s3")):
        refused("ledger_unknown_stream", ledger, ledger.begin_step, account, stream, 1)
        refused("ledger_unknown_stream", ledger, ledger.drop_stream, account, stream)
        read = ledger.step_releases(account, stream)
        refused("ledger_unknown_stream", ledger, next, read)


def test_what_is_published_is_given_back_in_order(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    large = bytes(range(256)) * 5000
    published(ledger, "s1", 1, large, b"", b"end")
    published(ledger, "s1", 2)
    ledger.begin_step(A, "s1", 3)
    published(ledger, "s1", 5, b"last")
    kept = [(1, large + b"end"), (2, b""), (5, b"last")]
    assert kept_of(ledger, "s1") == kept
    assert kept_of(ledger, "s1", after=2) == kept[2:]
    (found,) = ledger.streams(A)
    assert (found.begun, found.steps, found.charged) == (5, 5, RHO.amount(20, 2))
    events = {e.step: e.time for e in ledger.events() if e.kind == Kind.PUBLISH}
    assert found.published == tuple(PublishedStep(step, events[step]) for step in (1, 2, 5))
    assert found.created == next(e.time for e in ledger.events() if e.kind == Kind.STREAM)
    assert json.loads(found.plan)["stream"]["steps"] == 5
    assert ledger.all_streams() == (found,)
    assert ledger.verify().sound


def test_a_step_is_published_once_and_never_after_a_later_one(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    first = published(ledger, "s1", 1, b"x")
    refused("ledger_step_ended", ledger, ledger.publish_step, first, [b"x"])
    second = ledger.begin_step(A, "s1", 2)
    refused("ledger_step_ended", ledger, ledger.publish_step, first, [b"x"])
    third = ledger.begin_step(A, "s1", 3)
    ledger.publish_step(third, [b"z"])
    refused("ledger_step_ended", ledger, ledger.publish_step, second, [b"x"])
    assert kept_of(ledger, "s1") == [(1, b"x"), (3, b"z")]
    assert ledger.verify().sound


def test_steps_that_are_begun_together_are_published_in_order(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    tickets = ledger.begin_steps(A, "s1", [1, 2, 4])
    assert [ticket.step for ticket in tickets] == [1, 2, 4]
    for steps in ([3], [4, 5], [5, 5], [5, 3]):  # all of them or none
        refused("ledger_step_used", ledger, ledger.begin_steps, A, "s1", steps)
    ledger.publish_step(tickets[0], [b"a"])
    ledger.fail_step(tickets[1], A, Cause.ENGINE)
    ledger.owner("olga").reopen(A)
    refused("ledger_step_ended", ledger, ledger.publish_step, tickets[1], [b"b"])
    ledger.publish_step(tickets[2], [b"c"])
    made_up = replace(tickets[2], step=3)
    refused("ledger_unknown_stream", ledger, ledger.publish_step, made_up, [b"d"])
    assert kept_of(ledger, "s1") == [(1, b"a"), (4, b"c")]
    (record,) = ledger.streams(A)
    assert record.begun == 4
    assert ledger.verify().sound


def test_made_up_tickets_publish_nothing(ledger: Ledger) -> None:
    charge = RHO.stream(ledger, "s1", ALICE)
    other = RHO.stream(ledger, "s2", BOB)
    ledger.begin_step(A, "s1", 1)
    for ticket in (
        StepTicket(charge.entry, A, "s1", 2),
        StepTicket(other.entry, A, "s1", 1),
        StepTicket(charge.entry, B, "s1", 1),
        StepTicket(charge.entry, A, "s2", 1),
        StepTicket(charge.entry, A, "none", 1),
    ):
        refused("ledger_unknown_stream", ledger, ledger.publish_step, ticket, [b"x"])
        refused("ledger_unknown_stream", ledger, ledger.fail_step, ticket, ticket.account, "time")
    with pytest.raises(ParameterError):
        ledger.publish_step(charge, [b"x"])  # type: ignore[arg-type]


def test_releases_that_cannot_be_kept_are_refused(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ticket, before = ledger.begin_step(A, "s1", 1), ledger.head()
    for release in ("x", None, ["x"], [1], 5):
        with pytest.raises(ParameterError):
            ledger.publish_step(ticket, release)  # type: ignore[arg-type]
    assert ledger.head() == before
    ledger.publish_step(ticket, [b"x" * 500] * 1100)
    assert kept_of(ledger, "s1") == [(1, b"x" * 550_000)]


# -- the end of a stream, and failures ----------------------------------------------------------


def test_a_dropped_stream_has_no_more_steps_and_nothing_to_read(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    published(ledger, "s1", 1, b"x" * 100)
    ticket, spent = ledger.begin_step(A, "s1", 2), ledger.total(A)
    ledger.drop_stream(A, "s1")
    refused("ledger_unknown_stream", ledger, ledger.publish_step, ticket, [b"x"])
    refused("ledger_unknown_stream", ledger, ledger.begin_step, A, "s1", 3)
    refused("ledger_unknown_stream", ledger, ledger.drop_stream, A, "s1")
    refused("ledger_unknown_stream", ledger, next, ledger.step_releases(A, "s1"))
    assert ledger.streams(A) == ledger.all_streams() == ()
    assert ledger.total(A) == spent == RHO.spent(20, 2, 1, 0)
    assert ledger.history(A)[0].stream == StreamProgress("name of s1", 5, 2, 1, True)
    assert ledger.verify().sound


def test_what_was_published_leaves_the_file_with_its_stream(path: Path) -> None:
    secret = b"a release that nobody reads any more"
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        published(ledger, "s1", 1, secret)
        assert any(secret in item.read_bytes() for item in path.parent.iterdir())
        ledger.drop_stream(A, "s1")
        assert not any(secret in item.read_bytes() for item in path.parent.iterdir())


def test_a_step_that_fails_suspends_the_account_once(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    published(ledger, "s1", 1, b"x")
    ticket = ledger.begin_step(A, "s1", 2)
    ledger.fail_step(ticket, A, Cause.MEMORY)
    again = ledger.head()
    ledger.fail_step(ticket, A, Cause.MEMORY)
    assert ledger.head() == again
    (failure,) = ledger.suspensions(A)
    assert (failure.kind, failure.stream, failure.step) == (Kind.FAILURE, ticket.entry, 2)
    assert failure.entry is None
    refused("account_suspended", ledger, ledger.publish_step, ticket, [b"x"])
    refused("account_suspended", ledger, ledger.begin_step, A, "s1", 3)
    refused("account_suspended", ledger, RHO.stream, ledger, "s2", ALICE)
    assert kept_of(ledger, "s1") == [(1, b"x")]  # it was released before
    assert ledger.history(A)[0].charged == RHO.amount(20, 2)
    ledger.owner("olga").reopen(A)
    refused("ledger_step_ended", ledger, ledger.publish_step, ticket, [b"x"])
    published(ledger, "s1", 3, b"y")
    assert ledger.verify().sound


def test_only_a_step_that_was_begun_and_not_published_fails(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    done = published(ledger, "s1", 1, b"x")
    refused("ledger_step_ended", ledger, ledger.fail_step, done, A, Cause.TIME)
    ticket = ledger.begin_step(A, "s1", 2)
    for account in (B, f"{A}/night", "else"):
        with pytest.raises(ParameterError):
            ledger.fail_step(ticket, account, Cause.TIME)
    with pytest.raises(ParameterError):
        ledger.fail_step(ticket, A, "salary")
    ledger.begin_step(A, "s1", 3)
    ledger.drop_stream(A, "s1")
    ledger.fail_step(ticket, "sales", Cause.TIME)  # late, and it counts all the same
    assert [event.account for event in ledger.suspensions()] == ["sales"]
    assert ledger.verify().sound


def test_a_clock_that_went_back_begins_no_step_and_hides_no_failure(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ticket = ledger.begin_step(A, "s1", 1)
    backend: Any = ledger._link.use(type)
    real = backend.now
    monkeypatch.setattr(backend, "now", lambda self: real(self) - 3_600_000_000)
    refused("ledger_clock", ledger, ledger.begin_step, A, "s1", 2)
    refused("ledger_clock", ledger, ledger.publish_step, ticket, [b"x"])
    ledger.fail_step(ticket, A, Cause.ENGINE)
    assert len(ledger.suspensions()) == 1


@pytest.mark.parametrize("suspended", [A, "sales"])
def test_the_owner_stops_streams_by_suspending_who_pays(ledger: Ledger, suspended: str) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ticket = ledger.begin_step(A, "s1", 1)
    ledger.owner("olga").suspend(suspended)
    refused("account_suspended", ledger, ledger.begin_step, A, "s1", 2)
    refused("account_suspended", ledger, ledger.publish_step, ticket, [b"x"])
    ledger.owner("olga").reopen(suspended)
    ledger.publish_step(ticket, [b"x"])
    ledger.owner("olga").suspend(suspended)
    ledger.drop_stream(A, "s1")


@dataclass
class Known:
    """What a small model knows of a stream; ``open`` is the last step, until it has ended."""

    name: str
    begun: int = 0
    open: StepTicket | None = None
    dropped: bool = False
    kept: dict[int, bytes] = field(default_factory=dict)


class Model:
    """Streams of one account, and what each call must say."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.streams: dict[str, Known] = {}
        self.suspended = False

    def create(self, stream: str, name: str) -> str:
        live = (each.name for each in self.streams.values() if not each.dropped)
        expected = "ledger_stream_exists" if stream in self.streams or name in live else ""
        if not expected and self.suspended:
            expected = "account_suspended"
        if not expected:
            self.streams[stream] = Known(name)
        return self.said(expected, RHO.stream, self.ledger, stream, ALICE, name=name)

    def begin(self, stream: str, step: int) -> str:
        known = self.streams.get(stream)
        expected = "account_suspended" if self.suspended else ""
        if known is None or known.dropped:
            expected = "ledger_unknown_stream"
        elif not expected and step > 5:
            expected = "ledger_step_beyond"
        elif not expected and step <= known.begun:
            expected = "ledger_step_used"
        elif not expected:
            known.begun = step
        found = self.said(expected, self.ledger.begin_step, A, stream, step)
        if not expected and known is not None:
            (record,) = (each for each in self.ledger.streams(A) if each.stream == stream)
            known.open = StepTicket(record.entry, A, stream, step)
        return found

    def publish(self, stream: str, parts: tuple[bytes, ...], late: bool) -> str:
        known = self.streams.get(stream)
        if known is None or known.open is None:
            return ""
        ticket, expected = known.open, ""
        if known.dropped:
            expected = "ledger_unknown_stream"
        elif self.suspended:
            expected = "account_suspended"
        elif ticket.step <= max(known.kept, default=0):
            expected = "ledger_step_ended"
        if not expected:
            known.kept[ticket.step] = b"".join(parts)
        found = self.said(expected, self.ledger.publish_step, ticket, parts)
        if not late:
            known.open = None
        return found

    def drop(self, stream: str) -> str:
        known = self.streams.get(stream)
        expected = "" if known and not known.dropped else "ledger_unknown_stream"
        if known is not None:
            known.dropped = True
        return self.said(expected, self.ledger.drop_stream, A, stream)

    def suspend(self, suspended: bool) -> str:
        owner = self.ledger.owner("olga")
        expected = "" if suspended or self.suspended else "ledger_not_suspended"
        self.suspended = suspended
        return self.said(expected, owner.suspend if suspended else owner.reopen, A)

    def said(self, expected: str, call: Any, *args: Any, **named: Any) -> str:
        found = ""
        try:
            call(*args, **named)
        except LedgerError as error:
            found = error.code
        assert found == expected, (call, args)
        return found

    def check(self) -> None:
        live = {stream: known for stream, known in self.streams.items() if not known.dropped}
        found = {each.stream: (each.name, each.begun) for each in self.ledger.streams(A)}
        assert found == {stream: (known.name, known.begun) for stream, known in live.items()}
        for stream, known in live.items():
            assert dict(kept_of(self.ledger, stream)) == known.kept
        charged = len(self.streams)
        assert self.ledger.total(A) == RHO.spent(20 * charged, 2 * charged, charged, 0)
        assert self.ledger.verify().sound


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_streams_are_what_a_small_model_says(path: Path, seed: int) -> None:
    """Random calls, of which about half must be refused: each as the model says."""
    chance = random.Random(seed)
    refusals: set[str] = set()
    with Ledger.open(path) as ledger:
        ledger.owner("olga").create(A)
        model = Model(ledger)
        for turn in range(1500):
            stream = f"s{turn // 30 + chance.randrange(3)}"  # old ones are left behind
            parts = tuple(
                chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(4))
            )
            calls = (
                (3, partial(model.create, stream, f"name {chance.randrange(60)}")),
                (9, partial(model.begin, stream, chance.randrange(1, 8))),
                (9, partial(model.publish, stream, parts, chance.random() < 0.3)),
                (1, partial(model.drop, stream)),
                (2, partial(model.suspend, True)),
                (3, partial(model.suspend, False)),
            )
            weights, works = zip(*calls, strict=True)
            (work,) = chance.choices(works, weights)
            refusals.add(work())
        model.check()
    known = {"exists", "unknown_stream", "step_used", "step_beyond", "suspended", "step_ended"}
    assert all(any(word in code for code in refusals) for word in known), refusals


# -- what the database and the chain refuse -----------------------------------------------------

_STEP = (
    "INSERT INTO events SELECT (SELECT max(seq) + 1 FROM events), at, who, {}, account, entry, "
    "stream, {}, query, detail, rho, epsilon, delta, gaussian, digest, state, hash FROM events "
    "WHERE kind = 'step' AND step = 2"
)
_AGAIN = "INSERT {} INTO step_releases SELECT stream, step, part, 0, 0, payload FROM step_releases"


@pytest.mark.parametrize(
    "statement",
    [
        _STEP.format("kind", 2),
        _STEP.format("kind", 1),
        _STEP.format("'publish'", 1),
        _STEP.format("'step'", 0).replace("stream,", "NULL,").replace(", 0,", ", 3,"),
        "INSERT OR REPLACE" + _STEP.format("kind", 2).removeprefix("INSERT"),
        "UPDATE step_releases SET payload = NULL",
        "DELETE FROM step_releases",
        _AGAIN.format(""),
        _AGAIN.format("OR REPLACE"),
    ],
)
def test_the_database_itself_keeps_the_rules_of_streams(path: Path, statement: str) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        published(ledger, "s1", 1, b"x")
        ledger.begin_step(A, "s1", 2)
        with raw(path) as connection, pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
        assert ledger.verify().sound


@pytest.mark.parametrize("kind", ["step", "publish"])
def test_the_database_itself_ends_a_dropped_stream(path: Path, kind: str) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.begin_step(A, "s1", 2)
        ledger.drop_stream(A, "s1")
    with raw(path) as connection, pytest.raises(sqlite3.IntegrityError, match="dropped"):
        connection.execute(_STEP.format(f"'{kind}'", 3))


@pytest.mark.parametrize(
    "statement",
    [
        _STEP.format("kind", 2),
        _STEP.format("kind", 1),
        _STEP.format("'publish'", 1),
        "UPDATE step_releases SET payload = NULL",
        "DELETE FROM step_releases",
        "TRUNCATE step_releases",
        _AGAIN.format(""),
    ],
)
def test_so_does_a_server(postgres_server: Any, statement: str) -> None:
    import psycopg

    url = postgres_server.without_ledger()
    with Ledger.open(url) as ledger, psycopg.connect(url, autocommit=True) as admin:
        RHO.stream(ledger, "s1", ALICE)
        published(ledger, "s1", 1, b"x")
        ledger.begin_step(A, "s1", 2)
        admin.execute("SET search_path = dpsql_ledger")
        with pytest.raises(psycopg.Error):
            admin.execute(statement.encode())
        assert ledger.verify().sound
        ledger.drop_stream(A, "s1")  # which deletes, and may
        assert admin.execute("SELECT count(*) FROM step_releases").fetchone() == (0,)


def _forge(path: Path, *statements: str) -> None:
    """Edit a ledger's file behind the back of its rules, which are put back."""
    with raw(path) as connection:
        rules = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        kept = rules.fetchall()
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
            assert connection.execute("SELECT changes()").fetchone() != (0,)
        for _, text in kept:
            connection.execute(text)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE events SET step = 1 WHERE kind = 'step'",
        "UPDATE events SET detail = replace(detail, ': 5', ': 500') WHERE kind = 'stream'",
        "UPDATE events SET query = 's9' WHERE kind = 'step'",
    ],
)
def test_an_edited_stream_takes_no_further_step(path: Path, edit: str) -> None:
    """Not by verification alone: the events that decide are compared with their hashes."""
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.begin_step(A, "s1", 3)
    _forge(path, edit)
    with Ledger.open(path) as ledger:
        with fails_with("ledger_corrupt"):
            ledger.begin_step(A, "s1", 4)
        assert not ledger.verify().sound


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE step_releases SET payload = x'00'",
        "UPDATE step_releases SET size = 7",
        "UPDATE step_releases SET part = 3 WHERE part = 1",
        "DELETE FROM step_releases WHERE part = 1",
        "INSERT INTO step_releases SELECT stream, step, 2, size, packed, payload "
        "FROM step_releases WHERE part = 0",
        "DELETE FROM step_releases",
    ],
)
def test_an_edited_release_is_not_given(
    path: Path, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "MAX_RELEASE", 6)
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        published(ledger, "s1", 1, b"first", b"second")
        ((_, parts),) = ledger.step_releases(A, "s1")
        assert list(parts) == [b"firsts", b"econd"]
    _forge(path, edit)
    with Ledger.open(path) as ledger:
        with fails_with("ledger_corrupt"):
            kept_of(ledger, "s1")
        assert not ledger.verify().sound


def test_a_ledger_with_an_edited_suspension_takes_no_step(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.owner("olga").suspend("sales")
    _forge(path, "UPDATE accounts SET suspended = 0 WHERE path = 'sales'")
    with Ledger.open(path) as ledger, fails_with("ledger_corrupt"):
        ledger.begin_step(A, "s1", 1)


@pytest.mark.slow
def test_a_stream_of_many_steps_is_as_quick_as_one_of_few(path: Path) -> None:
    """What a step reads does not grow with the steps before it: each question uses an index."""
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", Account(A, RHO.amount(100, 100)), steps=1000)
        counts: list[int] = []
        backend: Any = ledger._link.use(type)
        real = backend.execute

        def counted(self: Any, sql: str, values: Any = ()) -> Any:
            rows = real(self, sql, values)
            counts[-1] += 1 + len(rows)
            return rows

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "execute", counted)
            for step in range(1, 200):
                counts.append(0)
                ledger.publish_step(ledger.begin_step(A, "s1", step), [b"x"])
        assert max(counts[10:]) <= max(counts[:10])

"""What is published in a window counts in it: windows open with the streams that go on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.ledgers import EPSILON, GAUSSIAN, RHO, Currency

from dpsql.errors import BudgetExceeded, LedgerError
from dpsql.ledger import Account, Cause, Ledger, Renewal, accounts, streams
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.privacy.accounting.zcdp import Amount

ANA = "sales/ana"


class Clock:
    """The time that ledgers in files are told."""

    def __init__(self) -> None:
        self.time = datetime(2096, 1, 15, tzinfo=UTC)  # after the time at which ledgers are created

    def now(self) -> int:
        return int(self.time.timestamp() * 1e6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(SQLiteBackend, "now", lambda _: made.now())
    return made


@pytest.fixture(params=[RHO, EPSILON, GAUSSIAN], ids=lambda currency: currency.name)
def currency(request: pytest.FixtureRequest) -> Currency:
    found: Currency = request.param
    return found


def step(ledger: Ledger, stream: str, number: int, *limits: Account) -> None:
    ledger.publish_step(ledger.begin_step(ANA, stream, number, limits), [b"x"])


def test_the_limit_binds_what_is_published_in_a_window(ledger: Ledger, currency: Currency) -> None:
    limit = currency.account(ANA, 65, 100)
    for name in ("s1", "s2", "s3"):
        currency.stream(ledger, name, limit)
    ledger.owner("olga").open_window(ANA)
    assert ledger.spent(ANA) == currency.spent(60, 6, 0, 0)
    with pytest.raises(BudgetExceeded):
        currency.stream(ledger, "s4", limit)
    currency.reserve(ledger, 5, 1, limit)
    for name in ("s1", "s2", "s3"):
        step(ledger, name, 1, limit)
    assert ledger.verify().sound
    window = ledger.windows(ANA)[-1]
    assert (window.carried, window.bought) == (currency.amount(60, 6), currency.amount(5, 1))
    assert ledger.total(ANA).amount == currency.amount(65, 7)


def test_windows_of_all_accounts_above_count_it(ledger: Ledger) -> None:
    session, analyst = f"{ANA}/notebook", RHO.account(ANA)
    RHO.stream(ledger, "s1", analyst)
    plan = '{"stream": {"steps": 2}}'
    ledger.create_stream(
        session, RHO.amount(3, 1), name="n", stream="s2", plan=plan, limits=[analyst]
    )
    for path, units in (("sales", 23), (ANA, 23), (session, 3)):
        ledger.owner("olga").open_window(path)
        assert ledger.spent(path).amount.rho == units
    assert ledger.verify().sound


@pytest.mark.parametrize("ended", ["dropped", "published", "failed"])
def test_a_stream_that_has_ended_counts_in_no_later_window(ledger: Ledger, ended: str) -> None:
    RHO.stream(ledger, "s1", RHO.account(ANA), steps=2)
    step(ledger, "s1", 1)
    if ended == "dropped":
        ledger.drop_stream(ANA, "s1")
    elif ended == "published":
        step(ledger, "s1", 2)
    else:
        ledger.fail_step(ledger.begin_step(ANA, "s1", 2), ANA, Cause.ENGINE)
    assert ledger.spent(ANA).amount == RHO.amount(20, 2)
    ledger.owner("olga").open_window(ANA)
    assert ledger.spent(ANA).amount == Amount()
    assert ledger.verify().sound


def test_a_step_that_was_begun_and_not_published_counts(ledger: Ledger) -> None:
    """Whoever has begun it may publish it still."""
    RHO.stream(ledger, "s1", RHO.account(ANA), steps=1)
    ticket = ledger.begin_step(ANA, "s1", 1)
    ledger.owner("olga").open_window(ANA)
    assert ledger.spent(ANA).amount == RHO.amount(20, 2)
    ledger.publish_step(ticket, [b"x"])
    ledger.owner("olga").open_window(ANA)
    assert ledger.spent(ANA).amount == Amount()
    assert ledger.verify().sound


@pytest.mark.parametrize("moment", ["begin", "publish"])
def test_a_step_opens_the_window_that_is_due(clock: Clock, tmp_path: Path, moment: str) -> None:
    """Else its last step of a month would count in the month before alone."""
    with Ledger.open(tmp_path / "budget.ledger") as ledger:
        ledger.owner("olga").create(ANA)
        ledger.owner("olga").renew(ANA, Renewal.MONTH)
        RHO.stream(ledger, "s1", RHO.account(ANA, 25), steps=1)
        if moment == "begin":
            clock.time += timedelta(days=31)
        ticket = ledger.begin_step(ANA, "s1", 1)
        if moment == "publish":
            clock.time += timedelta(days=31)
        ledger.publish_step(ticket, [b"x"])
        with pytest.raises(BudgetExceeded):
            RHO.reserve(ledger, 6, 1, RHO.account(ANA, 25))
        assert ledger.spent(ANA).amount == RHO.amount(20, 2)
        assert ledger.verify().sound


def test_a_window_that_is_due_is_reported_with_them(clock: Clock, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.ledger") as ledger:
        ledger.owner("olga").create(ANA)
        ledger.owner("olga").renew(ANA, Renewal.MONTH)
        RHO.stream(ledger, "s1", RHO.account(ANA))
        clock.time += timedelta(days=31)
        standing = ledger.standing(ANA)[-1]
        assert (standing.window.period, standing.window.carried) == ("2096-02", RHO.amount(20, 2))
        assert ledger.spent(ANA) == RHO.spent(20, 2, 0, 0)
        assert ledger.total(ANA) == RHO.spent(20, 2, 1, 0)


@pytest.mark.parametrize("ended", ["dropped", "failed"])
def test_a_position_changes_with_the_streams_of_a_window_that_is_due(
    clock: Clock, tmp_path: Path, ended: str
) -> None:
    with Ledger.open(tmp_path / "budget.ledger") as ledger:
        ledger.owner("olga").create(ANA)
        ledger.owner("olga").renew(ANA, Renewal.MONTH)
        RHO.stream(ledger, "s1", RHO.account(ANA), steps=1)
        ticket = ledger.begin_step(ANA, "s1", 1)
        clock.time += timedelta(days=31)
        before = ledger.position(ANA), ledger.standing(ANA)[-1].window.carried
        if ended == "dropped":
            ledger.drop_stream(ANA, "s1")
        else:
            ledger.fail_step(ticket, ANA, Cause.ENGINE)
        after = ledger.position(ANA), ledger.standing(ANA)[-1].window.carried
        assert (before[1], after[1]) == (RHO.amount(20, 2), Amount())
        assert before[0] != after[0]


def test_nothing_is_published_beyond_a_limit_that_was_lowered(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", RHO.account(ANA))
    before = ledger.head()
    with fails_with("ledger_over_limit"):
        ledger.begin_step(ANA, "s1", 1, [RHO.account(ANA, 19)])
    assert ledger.head() == before
    ledger.owner("olga").set_limits(ANA, RHO.amount(19, 9))
    with fails_with("ledger_over_limit"):
        step(ledger, "s1", 1)
    ledger.owner("olga").set_limits(ANA, RHO.amount(20, 2))
    step(ledger, "s1", 1)
    assert ledger.verify().sound


@pytest.mark.parametrize(
    ("where", "name"),
    [(accounts, "carried_by"), (streams, "require_within")],
    ids=["a window that opens with nothing", "steps beyond a limit"],
)
def test_a_ledger_that_forgets_them_is_found(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    RHO.stream(ledger, "s1", RHO.account(ANA))
    monkeypatch.setattr(where, name, lambda *_: Amount())
    if where is accounts:
        ledger.owner("olga").open_window(ANA)
    else:
        ledger.begin_step(ANA, "s1", 1, [RHO.account(ANA, 1)])
    assert not ledger.verify().sound


_OF_STEPS = ("ledger_over_limit", "ledger_step_beyond")
_EXPECTED = ("budget_exceeded", *_OF_STEPS)


@dataclass
class Shown:
    """What was shown of one account, by an account of its own: prices by the window they are in.

    A question belongs to the window that bought it; a stream to that one, and to each in which a
    step of it is published.
    """

    limit: int
    window: int = 0
    asked: dict[int, int] = field(default_factory=dict)
    published: dict[int, set[str]] = field(default_factory=dict)

    def price(self, window: int, prices: dict[str, int]) -> int:
        """Add up what one window has shown."""
        shown = self.published.get(window, set())
        return self.asked.get(window, 0) + sum(prices[stream] for stream in shown)


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_show_in_no_window_more_than_its_limit(
    ledger: Ledger, currency: Currency, seed: int
) -> None:
    """Questions, streams, steps, failures, drops and windows; limits that move."""
    chance, owner = random.Random(seed), ledger.owner("olga")
    owner.create(ANA)
    prices: dict[str, int] = {}
    used: dict[str, int] = {}
    shown, carried, least = Shown(100), False, 100
    for _ in range(60):
        limit = currency.account(ANA, shown.limit, 10**6)
        try:
            match chance.choice(
                ["ask", "stream", "step", "step", "step", "drop", "window", "limit"]
            ):
                case "ask":
                    units = chance.randint(1, 30)
                    charge = currency.reserve(ledger, units, 1, limit)
                    paid = chance.randint(0, units)
                    ledger.settle(charge, currency.amount(paid, 1))
                    shown.asked[shown.window] = shown.asked.get(shown.window, 0) + paid
                case "stream":
                    name = f"s{len(prices)}"
                    units = chance.randint(1, 40)
                    plan = f'{{"stream": {{"steps": {chance.randint(1, 4)}}}}}'
                    ledger.create_stream(
                        ANA,
                        currency.amount(units, 1),
                        name=name,
                        stream=name,
                        plan=plan,
                        limits=[limit],
                    )
                    prices[name], used[name] = units, 0
                case "step" if used:
                    name = chance.choice(sorted(used))
                    used[name] += 1
                    step(ledger, name, used[name], limit)
                    shown.published.setdefault(shown.window, set()).add(name)
                    carried |= shown.window > 0
                case "drop" if used:
                    name = chance.choice(sorted(used))
                    ledger.drop_stream(ANA, name)
                    del used[name]
                case "window":
                    owner.open_window(ANA)
                    shown.window, least = shown.window + 1, shown.limit
                case "limit":
                    shown.limit = chance.randint(40, 120)
                case _:
                    pass
        except (BudgetExceeded, LedgerError) as refusal:
            if refusal.code not in _EXPECTED:
                raise
            if refusal.code in _OF_STEPS:
                used[name] -= 1
        least = max(least, shown.limit)
        counted = getattr(ledger.spent(ANA).amount, currency.name)
        assert shown.price(shown.window, prices) <= min(counted, least)
    assert carried
    assert ledger.verify().sound
    bought = sum(shown.asked.values()) + sum(prices.values())
    assert getattr(ledger.total(ANA).amount, currency.name) == bought

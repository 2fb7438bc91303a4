"""What the owner does: accounts, limits, windows, clocks, deleted releases. And stored releases."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import PLAN, RHO, raw

from dpsql.errors import BudgetExceeded, LedgerError, ParameterError
from dpsql.ledger import MAX_RELEASE, Ledger, Owner, Renewal, Spent
from dpsql.ledger.chain import microseconds
from dpsql.ledger.journal import CLOCK_TOLERANCE
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.privacy.accounting.zcdp import Amount

NOON = datetime(2096, 8, 18, 12, tzinfo=UTC)  # after the time at which the ledger is created
SECOND = timedelta(seconds=1)


class Clock:
    """The time that ledgers see, in the file and on the server."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> int:
        return microseconds(self.time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(SQLiteBackend, "now", lambda backend: made.now())
    try:
        from dpsql.ledger.postgres import PostgresBackend
    except LedgerError:
        pass
    else:
        monkeypatch.setattr(PostgresBackend, "now", lambda backend: made.now())
    return made


@pytest.fixture
def owner(ledger: Ledger) -> Owner:
    return ledger.owner("olga")


def charge(ledger: Ledger, units: int, path: str = "sales/alice") -> Any:
    return ledger.reserve(path, RHO.amount(units, 1), query="f1", plan=PLAN)


# Accounts and limits


def test_owner_actions_on_unknown_accounts_are_refused(ledger: Ledger, owner: Owner) -> None:
    actions: tuple[Callable[[], object], ...] = (
        lambda: owner.set_limits("sales", RHO.amount(1, 1)),
        lambda: owner.renew("sales", Renewal.DAY),
        lambda: owner.open_window("sales"),
    )
    for action in actions:
        with fails_with("unknown_account"):
            action()
    assert owner.forget("sales") == 0
    assert len(list(ledger.events())) == 1


def test_malformed_owner_actions_are_refused(ledger: Ledger, owner: Owner) -> None:
    owner.create("sales")
    before = ledger.head()
    refused: list[Any] = [
        lambda: ledger.owner(""),
        lambda: ledger.owner("two\nlines"),
        lambda: owner.create("a//b"),
        lambda: owner.set_limits("sales", Amount(1, 1, 1)),
        lambda: owner.set_limits("sales", RHO.amount(1, 1), terms="{"),
        lambda: owner.set_limits("sales", RHO.amount(-1, 1)),
        lambda: owner.renew("sales", "year"),  # type: ignore[arg-type]
        lambda: owner.forget("sales", before=datetime(2026, 1, 1)),
        lambda: owner.forget("/"),
    ]
    for action in refused:
        with pytest.raises(ParameterError):
            action()
    assert ledger.head() == before


def test_each_owner_action_is_an_event_of_the_chain(ledger: Ledger, owner: Owner) -> None:
    actions: list[tuple[str, Callable[[], object]]] = [
        ("account", lambda: owner.create("sales")),
        ("limits", lambda: owner.set_limits("sales", RHO.amount(5, 5))),
        ("renewal", lambda: owner.renew("sales", Renewal.DAY)),
        ("window", lambda: owner.open_window("sales")),
        ("clock", lambda: owner.accept_clock()),
    ]
    for kind, action in actions:
        before = ledger.head().seq
        action()
        (event,) = ledger.events(after=before)
        assert (event.kind, event.who) == (kind, "olga")
    assert ledger.verify().sound


# Windows


def test_limits_apply_within_a_window_and_totals_go_over_all(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    owner.create("sales/alice")
    owner.set_limits("sales/alice", RHO.amount(10, 100))
    clock.time = NOON
    owner.renew("sales/alice", Renewal.DAY)
    for day in range(1, 4):
        charge(ledger, 10)
        with pytest.raises(BudgetExceeded):
            charge(ledger, 1)
        assert ledger.spent("sales/alice") == RHO.spent(10, 1, 1, 1)
        assert ledger.total("sales/alice") == RHO.spent(10 * day, day, day, day)
        clock.time += timedelta(days=1)
        assert ledger.spent("sales/alice") == Spent()
        assert ledger.estimate("sales/alice", RHO.amount(1, 1)) == 10
    assert [window.period for window in ledger.windows("sales/alice")] == [
        "2096-08-18",
        "2096-08-19",
        "2096-08-20",
    ]
    assert ledger.spent("sales") == ledger.total("sales") == RHO.spent(30, 3, 3, 3)
    assert ledger.verify().sound


@pytest.mark.parametrize(
    ("renewal", "start", "last"),
    [
        (Renewal.DAY, datetime(2096, 2, 28, tzinfo=UTC), datetime(2096, 2, 29, tzinfo=UTC)),
        (Renewal.DAY, datetime(2095, 12, 31, tzinfo=UTC), datetime(2096, 1, 1, tzinfo=UTC)),
        (Renewal.MONTH, datetime(2096, 2, 1, tzinfo=UTC), datetime(2096, 3, 1, tzinfo=UTC)),
        (Renewal.MONTH, datetime(2095, 12, 31, tzinfo=UTC), datetime(2096, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_window_is_renewed_when_its_day_or_month_is_over_and_not_before(
    ledger: Ledger,
    owner: Owner,
    clock: Clock,
    renewal: Renewal,
    start: datetime,
    last: datetime,
) -> None:
    clock.time = start
    owner.create("sales")
    owner.set_limits("sales", RHO.amount(1, 9))
    owner.renew("sales", renewal)
    charge(ledger, 1, "sales")
    clock.time = last - timedelta(microseconds=1)
    with pytest.raises(BudgetExceeded):
        charge(ledger, 1, "sales")
    clock.time = last
    charge(ledger, 1, "sales")
    assert ledger.total("sales") == RHO.spent(2, 2, 2, 2)


def test_changing_how_often_a_window_is_renewed_does_not_renew_it(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    owner.create("sales")
    owner.set_limits("sales", RHO.amount(5, 100))
    charge(ledger, 5, "sales")
    for every in (Renewal.MONTH, Renewal.DAY, None, Renewal.DAY, Renewal.MONTH):
        owner.renew("sales", every)
        with pytest.raises(BudgetExceeded):
            charge(ledger, 1, "sales")
    assert ledger.standing("sales")[0].renews == Renewal.MONTH
    clock.time += timedelta(days=32)
    charge(ledger, 5, "sales")


def test_a_new_window_may_be_of_the_other_composition(ledger: Ledger, owner: Owner) -> None:
    owner.create("sales")
    owner.set_limits("sales", Amount(5, 0, 5))
    charge(ledger, 5, "sales")
    owner.set_limits("sales", Amount(0, 5, 5))
    with pytest.raises(LedgerError):
        charge(ledger, 1, "sales")
    owner.open_window("sales")
    ledger.reserve("sales", Amount(0, 5, 1), query="f1", plan=PLAN)
    assert ledger.total("sales").amount == Amount(5, 5, 2)


# Clocks


def test_a_clock_that_went_back_is_refused_until_the_owner_accepts_it(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    owner.create("sales")
    owner.set_limits("sales", RHO.amount(5, 5))
    owner.renew("sales", Renewal.DAY)
    clock.time += timedelta(days=400)  # somebody sets it wrong, and right again
    held = charge(ledger, 5, "sales")
    clock.time -= timedelta(days=399)
    before = ledger.head()
    for action in (
        lambda: charge(ledger, 1, "sales"),
        lambda: ledger.settle(held, RHO.amount(1, 1)),
        lambda: owner.open_window("sales"),
    ):
        with fails_with("ledger_clock") as refusal:
            action()
        assert "went back" in refusal.value.reason
        # Whoever asks is not told when somebody else did.
        assert f"{clock.time + timedelta(days=399):%Y-%m}" not in str(refusal.value)
    assert ledger.head() == before
    owner.accept_clock()
    with pytest.raises(BudgetExceeded):  # a wrong clock buys no window
        charge(ledger, 1, "sales")
    ledger.settle(held, RHO.amount(1, 1))
    charge(ledger, 4, "sales")
    assert ledger.verify().sound


def test_what_was_stored_under_a_clock_that_was_ahead_is_forgotten_too(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    now = clock.time
    clock.time += timedelta(days=400)
    stored(ledger, ALICE, "q1", b"answer")
    clock.time = now
    owner.accept_clock()
    assert owner.forget(ALICE, before=now) == 0
    assert owner.forget(ALICE) == 1
    assert ledger.stored(ALICE, "q1") is None
    assert ledger.verify().sound


def test_small_steps_back_do_not_stop_the_ledger_and_times_never_go_back(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    owner.create("sales")
    latest = clock.time
    for back in (timedelta(microseconds=1), timedelta(microseconds=CLOCK_TOLERANCE)):
        clock.time = latest - back
        owner.open_window("sales")
    clock.time -= timedelta(microseconds=1)
    with pytest.raises(LedgerError):
        owner.open_window("sales")
    times = [event.at for event in ledger.events()]
    assert times == sorted(times)
    assert times[-1] == microseconds(latest)


# Stored releases


def stored(ledger: Ledger, path: str, query: str, payload: bytes, units: int = 1) -> None:
    held = ledger.reserve(
        path, RHO.amount(9, 1), query=query, plan=PLAN, limits=[RHO.account("sales/alice")]
    )
    ledger.settle(held, RHO.amount(units, 1), payload)


ALICE, NOTEBOOK = "sales/alice", "sales/alice/notebook"


def test_the_same_question_finds_its_latest_answer_at_no_cost(ledger: Ledger) -> None:
    stored(ledger, ALICE, "q1", b"first")
    stored(ledger, ALICE, "q2", b"other")
    stored(ledger, ALICE, "q1", b"second", units=3)
    before = ledger.head(), ledger.spent("sales")
    found = ledger.stored(ALICE, "q1")
    assert found is not None
    assert (found.payload, found.charged, found.account) == (b"second", RHO.amount(3, 1), ALICE)
    assert found.entry == ledger.history(ALICE)[0].entry
    assert (ledger.head(), ledger.spent("sales")) == before
    assert ledger.stored(ALICE, "q3") is None


def test_an_answer_belongs_to_its_account_and_those_above_it(ledger: Ledger) -> None:
    stored(ledger, NOTEBOOK, "q1", b"answer")
    for path in (NOTEBOOK, ALICE, "sales"):
        found = ledger.stored(path, "q1")
        assert found is not None
        assert found.account == NOTEBOOK
    for path in ("sales/bob", "sales/alice/other", "sales/alic", "sales/alice/note", "sale"):
        assert ledger.stored(path, "q1") is None


def test_answers_are_found_by_the_parts_of_a_fingerprint(ledger: Ledger) -> None:
    """In either database: its start names a statistic, its end the rows."""
    for number, (path, start, end) in enumerate(
        [(ALICE, "9", "f"), (NOTEBOOK, "9", "0"), ("sales/bob", "9", "f"), (ALICE, "a", "f")]
    ):
        query = start * 32 + f"{number}" * 32 + end * 32
        limits = [RHO.account(path)]
        held = ledger.reserve(path, RHO.amount(9, 1), query=query, plan=PLAN, limits=limits)
        ledger.settle(held, RHO.amount(1, 1), b"%d" % number)

    def alike(path: str, start: str) -> list[bytes]:
        return [each.payload for each in ledger.stored_alike(path, start, 10)]

    def on_rows(path: str, end: str) -> list[bytes]:
        return [each.payload for each in ledger.stored_on_rows(path, end, 10)]

    assert (alike(ALICE, "9" * 32), alike(ALICE, "a" * 32)) == ([b"0", b"1"], [b"3"])
    assert alike("sales/bob", "9" * 32) == [b"2"]
    assert alike("sales", "9" * 32) == [b"0", b"1", b"2"]
    assert (on_rows(ALICE, "f" * 32), on_rows(ALICE, "0" * 32)) == ([b"0", b"3"], [b"1"])
    assert on_rows(NOTEBOOK, "f" * 32) == on_rows("sales/alic", "f" * 32) == []
    assert [each.payload for each in ledger.stored_on_rows(ALICE, "f" * 32, 1)] == [b"3"]
    ends = ["f" * 32, "9" * 32, "f" * 32]
    for most in (1, 10):
        alone = tuple(ledger.stored_on_rows(ALICE, end, most) for end in ends)
        assert ledger.stored_on_each(ALICE, ends, most) == alone
        assert [bool(each) for each in alone] == [True, False, True]


@pytest.mark.parametrize("size", [0, 1, 1000, MAX_RELEASE])
@pytest.mark.parametrize("packable", [True, False])
def test_any_bytes_come_back_as_they_were(file_ledger: Ledger, size: int, packable: bool) -> None:
    payload = bytes(size) if packable else random.Random(1).randbytes(size)
    stored(file_ledger, ALICE, "q1", payload)
    found = file_ledger.stored(ALICE, "q1")
    assert found is not None
    assert found.payload == payload
    assert file_ledger.verify().sound


def test_an_answer_that_is_too_large_is_refused_and_settles_without(ledger: Ledger) -> None:
    held = RHO.reserve(ledger, 5, 1)
    for bad in ([bytes(MAX_RELEASE), "text"], "text", bytearray(b"x")):
        with pytest.raises(ParameterError):
            ledger.settle(held, RHO.amount(1, 1), bad)  # type: ignore[arg-type]
    assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
    ledger.settle(held, RHO.amount(1, 1))
    assert ledger.stored("sales", "f1") is None


def test_an_answer_is_kept_with_its_charge_or_not_at_all(ledger: Ledger) -> None:
    held = RHO.reserve(ledger, 5, 1)
    with pytest.raises(LedgerError):
        ledger.settle(held, RHO.amount(6, 1), b"answer")
    assert ledger.stored("sales", "f1") is None
    ledger.settle(held, RHO.amount(5, 1), b"answer")
    with pytest.raises(LedgerError):
        ledger.settle(held, RHO.amount(1, 1), b"another")
    found = ledger.stored("sales", "f1")
    assert found is not None
    assert found.payload == b"answer"


def test_a_damaged_answer_is_never_given(file_ledger: Ledger, path: Path) -> None:
    stored(file_ledger, ALICE, "q1", b"answer" * 100)
    changes = ["payload = x'00'", "size = 1", "packed = 0", "payload = zeroblob(20)"]
    with raw(path) as connection:
        connection.execute("DROP TRIGGER releases_no_update")
        for change in changes:
            connection.execute("BEGIN")
            connection.execute(f"UPDATE releases SET {change}")
            connection.execute("COMMIT")
            with fails_with("ledger_corrupt"):
                file_ledger.stored(ALICE, "q1")


def test_the_owner_deletes_answers_and_the_chain_stays_whole(
    ledger: Ledger, owner: Owner, clock: Clock
) -> None:
    stored(ledger, ALICE, "q1", b"old")
    between = clock.time
    clock.time += SECOND
    stored(ledger, NOTEBOOK, "q1", b"new")
    stored(ledger, NOTEBOOK, "q2", b"new")
    spent = ledger.spent("sales")
    assert owner.forget("sales/bob") == 0
    assert owner.forget("sales", before=between) == 1
    assert ledger.verify().sound
    found = ledger.stored(ALICE, "q1")
    assert found is not None
    assert found.payload == b"new"
    assert owner.forget(ALICE) == 2
    assert owner.forget(ALICE) == 0
    assert ledger.stored(ALICE, "q1") is None
    assert not any(entry.stored for entry in ledger.history("sales"))
    assert ledger.spent("sales") == spent
    assert ledger.verify().sound
    forgotten = [event.who for event in ledger.events() if event.kind == "forget"]
    assert forgotten == ["olga"] * 3


def test_a_deleted_answer_is_gone_from_the_file(file_ledger: Ledger, path: Path) -> None:
    secret = os.urandom(5000).hex().encode()[:9000]
    stored(file_ledger, ALICE, "q1", os.urandom(20) + b"needle-in-the-file" + os.urandom(20))
    stored(file_ledger, ALICE, "q2", secret)

    def everywhere() -> bytes:
        return b"".join(item.read_bytes() for item in path.parent.iterdir())

    assert b"needle-in-the-file" in everywhere()
    file_ledger.owner("olga").forget("sales")
    assert b"needle-in-the-file" not in everywhere()


def test_events_of_many_windows_are_told_apart(ledger: Ledger, owner: Owner) -> None:
    """Reservations and settlings of two accounts, interleaved with new windows of both."""
    owner.create("sales/alice")
    owner.create("sales/bob")
    for path in ("sales/alice", "sales/bob"):
        owner.set_limits(path, RHO.amount(1000, 1000))
    held = []
    for step, path in itertools.product(range(4), ("sales/alice", "sales/bob")):
        held.append(charge(ledger, 10 + step, path))
        if step % 2:
            owner.open_window(path)
        if step == 2:
            owner.open_window("sales")
    for index, each in enumerate(held):
        ledger.settle(each, RHO.amount(index, 1))
    spent = [window.spent.amount.rho for window in ledger.windows("sales/alice")]
    assert spent == [0 + 2, 4 + 6, 0]
    assert ledger.total("sales").amount == RHO.amount(sum(range(8)), 8)
    assert ledger.verify().sound

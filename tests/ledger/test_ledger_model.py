"""The ledger against a small model: tree, limits, windows, stored releases."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import EPSILON, GAUSSIAN, RHO, Currency
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from dpsql.errors import BudgetExceeded, LedgerError, ParameterError, UnknownName
from dpsql.ledger import Charge, Ledger, Renewal, Spent, store
from dpsql.ledger.accounts import settle
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.privacy.accounting.zcdp import Amount

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

DAY = 24 * 3600 * 10**6
START = 4_000_000_000 * 10**6  # in 2096, after the time at which any ledger is created
PATHS = ("a", "a/b", "a/b/s", "a/c", "d/e")


@dataclass
class Line:
    """A question in the model."""

    path: str
    query: str
    amount: Amount
    window: dict[str, int]  # of each account above it and its own
    settled: bool = False
    payload: bytes | None = None


@dataclass
class Tree:
    """All that the model knows."""

    lines: dict[int, Line] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    owner: dict[str, Amount] = field(default_factory=dict)
    daily: dict[str, int] = field(default_factory=dict)  # the day of the present window
    window: dict[str, int] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)  # those that have their other name now

    def spent(self, path: str, window: int | None = None) -> Spent:
        under = [
            line
            for line in self.lines.values()
            if path in line.window and (window is None or line.window[path] == window)
        ]
        return Spent(
            Amount(*(sum(line.amount.units[i] for line in under) for i in range(4))),
            queries=len(under),
            unsettled=sum(not line.settled for line in under),
        )


def line_of(path: str) -> list[str]:
    return [path[:i] for i in range(1, len(path)) if path[i] == "/"] + [path]


def kinds(amount: Amount) -> set[str]:
    """The currencies that there is anything of."""
    return {name for name in ("rho", "epsilon", "gaussian") if getattr(amount, name)}


class LedgerModel(RuleBasedStateMachine):
    """Policies come and go with every reservation, of any composition."""

    charges = Bundle("charges")
    place: Any = None
    today = 0  # of all machines: one runs at a time

    @staticmethod
    def now() -> int:
        return START + LedgerModel.today * DAY

    @property
    def day(self) -> int:
        return LedgerModel.today

    @day.setter
    def day(self, day: int) -> None:
        LedgerModel.today = day

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.where = self.place() if self.place else Path(self.directory.name) / "ledger"
        self.day = 0
        self.ledger = Ledger.open(self.where)
        self.owner = self.ledger.owner("olga")
        self.tree = Tree()
        self.told: dict[Hashable, object] = {}

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.directory.cleanup()

    def know(self, path: str) -> None:
        for each in line_of(path):
            self.tree.known.add(each)
            self.tree.window.setdefault(each, 0)

    def name(self, path: str) -> str:
        """What the account is called now."""
        return "/".join(
            each.rpartition("/")[2] + "2" * (each in self.tree.renamed) for each in line_of(path)
        )

    def renewed(self, path: str) -> int:
        """The window that a charge now would go to."""
        over = path in self.tree.daily and self.tree.daily[path] < self.day
        return self.tree.window[path] + over if path in self.tree.window else 0

    def renew(self, path: str) -> None:
        self.tree.window[path] = self.renewed(path)
        if path in self.tree.daily:
            self.tree.daily[path] = max(self.day, self.tree.daily[path])

    @rule(
        target=charges,
        path=st.sampled_from(PATHS),
        limited=st.sampled_from([set(PATHS), set(PATHS), {"a/b", "a/c", "d/e"}, {"a"}, set()]),
        policy=st.sampled_from([RHO, RHO, EPSILON, GAUSSIAN]),
        switched=st.sampled_from([False, False, False, True]),
        most=st.sampled_from([80, 50, 20, 0]),
        units=st.integers(0, 20),
        delta=st.integers(0, 12),
        query=st.sampled_from(["q1", "q2"]),
    )
    def reserve(
        self,
        path: str,
        limited: set[str],
        policy: Currency,
        switched: bool,
        most: int,
        units: int,
        delta: int,
        query: str,
    ) -> Any:
        tree, line, name = self.tree, line_of(path), self.name(path)
        named = line[1:] or line
        amount = (policy.other if switched else policy).amount(units, delta)
        limits = [policy.account(self.name(each), most, 60) for each in line if each in limited]
        bound = [(each, policy.amount(most, 60)) for each in line if each in limited]
        bound += [(each, tree.owner[each]) for each in line if each in tree.owner]
        spent = {each: tree.spent(each, self.renewed(each)).amount for each in line}
        expected: Any = None
        if not units and not delta:
            expected = ParameterError
        elif not bound or not any(each in limited or each in tree.known for each in named):
            expected = UnknownName
        else:
            for each, limit in bound:
                now = spent[each]
                if kinds(limit) and not kinds(now) <= kinds(limit):
                    expected = LedgerError
                    break
                sums = zip(now.units, amount.units, limit.units, strict=True)
                if any(paid + more > upto for paid, more, upto in sums):
                    expected = BudgetExceeded
        if expected is not None:
            before = self.ledger.head()
            with pytest.raises((BudgetExceeded, LedgerError, ParameterError, UnknownName)) as no:
                self.ledger.reserve(name, amount, query=query, plan="{}", limits=limits)
            assert no.type is expected
            assert self.ledger.head() == before
            return multiple()
        charge = self.ledger.reserve(name, amount, query=query, plan="{}", limits=limits)
        assert charge.entry not in tree.lines
        self.know(path)
        for each in line:
            self.renew(each)
        windows = {each: tree.window[each] for each in line}
        tree.lines[charge.entry] = Line(path, query, amount, windows)
        return charge

    @rule(
        charge=charges,
        thirds=st.sampled_from([0, 1, 2, 3, 4]),
        delta=st.sampled_from([0, 0, 0, 0, -1, 1]),
        payload=st.none() | st.binary(max_size=300),
    )
    def settle_in_any_way(
        self, charge: Charge, thirds: int, delta: int, payload: bytes | None
    ) -> None:
        self.settle(charge, thirds, delta, payload)

    def settle(self, charge: Charge, thirds: int, delta: int, payload: bytes | None) -> None:
        line, most = self.tree.lines[charge.entry], charge.amount
        changed = most.delta + delta
        if changed < 0:
            return
        rho, epsilon, _, gaussian = (each * thirds // 3 for each in most.units)
        amount = Amount(rho, epsilon, changed, gaussian)
        over = any(now > upto for now, upto in zip(amount.units, most.units, strict=True))
        if line.settled or delta or over:
            with pytest.raises(LedgerError) as refused:
                self.ledger.settle(charge, amount, payload)
            assert refused.value.code == "ledger_settled_twice" or not line.settled
            return
        self.ledger.settle(charge, amount, payload)
        line.amount, line.settled, line.payload = amount, True, payload

    @rule(charge=charges, thirds=st.sampled_from([0, 1, 2, 3]))
    def settle_plainly(self, charge: Charge, thirds: int) -> None:
        self.settle(charge, thirds, 0, None)

    @rule(charge=consumes(charges))
    def abandon(self, charge: Charge) -> None:
        """A query dies: its charge is lost, its reservation is not."""

    @rule(path=st.sampled_from(PATHS))
    def create(self, path: str) -> None:
        if path in self.tree.known:
            with pytest.raises(LedgerError):
                self.owner.create(self.name(path))
        else:
            self.owner.create(self.name(path))
            self.know(path)

    @rule(
        path=st.sampled_from(PATHS),
        limit=st.none() | st.builds(RHO.amount, st.integers(0, 60), st.integers(0, 60)),
    )
    def set_limits(self, path: str, limit: Amount | None) -> None:
        if path not in self.tree.known:
            return
        self.owner.set_limits(self.name(path), limit)
        self.tree.owner.pop(path, None)
        if limit is not None:
            self.tree.owner[path] = limit

    @rule(path=st.sampled_from(PATHS), daily=st.booleans())
    def renew_daily(self, path: str, daily: bool) -> None:
        if path not in self.tree.known:
            return
        self.owner.renew(self.name(path), Renewal.DAY if daily else None)
        self.tree.daily.pop(path, None)
        if daily:
            self.tree.daily[path] = self.day

    @rule(path=st.sampled_from(PATHS))
    def open_window(self, path: str) -> None:
        if path not in self.tree.known:
            return
        self.owner.open_window(self.name(path))
        self.tree.window[path] += 1
        if path in self.tree.daily:
            self.tree.daily[path] = self.day

    @rule(path=st.sampled_from(PATHS))
    def rename(self, path: str) -> None:
        """Every account has two names, and is called by one of them at a time."""
        before, known = self.name(path), path in self.tree.known
        self.tree.renamed ^= {path}
        if known:
            self.owner.rename(before, self.name(path))
            with fails_with("account_renamed"):
                self.ledger.spent(before)
        else:
            with pytest.raises(UnknownName):
                self.owner.rename(before, self.name(path))
            self.tree.renamed ^= {path}

    @rule(days=st.integers(1, 40))
    def time_passes(self, days: int) -> None:
        self.day += days

    @rule(days=st.integers(1, 3))
    def clock_goes_back(self, days: int) -> None:
        self.owner.accept_clock()
        self.day -= days
        with pytest.raises(LedgerError):
            self.owner.create("z/new")
        self.owner.accept_clock()

    @rule(path=st.sampled_from(PATHS))
    def forget(self, path: str) -> None:
        under = [
            line
            for line in self.tree.lines.values()
            if path in line.window and line.payload is not None
        ]
        assert self.owner.forget(self.name(path)) == len(under)
        for line in under:
            line.payload = None

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.where)
        self.owner = self.ledger.owner("olga")

    @invariant()
    def totals_are_the_models(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for path in PATHS:
            assert self.ledger.total(self.name(path)) == self.tree.spent(path)
            now = self.ledger.spent(self.name(path))
            assert now == self.tree.spent(path, self.renewed(path))

    @invariant()
    def stored_answers_are_the_models(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for path in PATHS:
            for query in ("q1", "q2"):
                kept = [
                    line.payload
                    for _, line in sorted(self.tree.lines.items())
                    if path in line.window and line.query == query and line.payload is not None
                ]
                found = self.ledger.stored(self.name(path), query)
                assert (found.payload if found else None) == (kept[-1] if kept else None)

    @invariant()
    def standings_stay_while_positions_do(self) -> None:
        """But for the dataset's, of which a position says nothing."""
        if not hasattr(self, "ledger"):
            return
        for path in PATHS:
            name = self.name(path)
            told = self.ledger.standing(name)[1:]
            assert self.told.setdefault((name, self.ledger.position(name)), told) == told

    @invariant()
    def the_chain_is_sound(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.verify().sound


SETTINGS = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> type[LedgerModel]:
    """The model, with ledgers that see its days."""
    monkeypatch.setattr(SQLiteBackend, "now", lambda backend: LedgerModel.now())
    return LedgerModel


@pytest.mark.slow
def test_the_ledger_agrees_with_a_small_model(model: type[LedgerModel]) -> None:
    run_state_machine_as_test(model, settings=SETTINGS)


@pytest.mark.slow
def test_the_ledger_agrees_with_a_small_model_for_long(model: type[LedgerModel]) -> None:
    run_state_machine_as_test(
        model, settings=settings(SETTINGS, max_examples=150, stateful_step_count=40)
    )


@pytest.mark.slow
def test_the_ledger_on_postgres_agrees_with_a_small_model(
    model: type[LedgerModel], postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.ledger.postgres import PostgresBackend

    monkeypatch.setattr(PostgresBackend, "now", lambda backend: LedgerModel.now())

    class OnPostgres(model):  # type: ignore[misc, valid-type]
        place = staticmethod(postgres_server.without_ledger)

    run_state_machine_as_test(OnPostgres, settings=settings(SETTINGS, max_examples=40))


@pytest.mark.slow
def test_a_ledger_that_forgets_one_unit_does_not_agree(
    model: type[LedgerModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model can tell: here a settled charge is lowered by one unit too many."""

    def generous(journal: Any, charge: Any, actual: Amount, digest: bytes | None) -> None:
        less = Amount(max(0, actual.rho - 1), actual.epsilon, actual.delta)
        settle(journal, charge, less, digest)

    monkeypatch.setattr(store, "settle", generous)
    told = settings(SETTINGS, phases=[Phase.generate], max_examples=200)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(model, settings=told)

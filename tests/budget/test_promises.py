"""What is printed of a promise covers what was shown, priced anew from the mechanisms.

Random histories of one analyst, beside an account that shares views: questions, views, refreshes,
windows, forgets, limits that move. Whatever is drawn is noted where it is drawn, with the price
that its noise has, in the window in which it was shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.random_examples import long

import dpsql
from dpsql.budget import BudgetReport
from dpsql.errors import BudgetExceeded, Error
from dpsql.ledger import Ledger
from dpsql.ledger import accounts as ledger_accounts
from dpsql.pipeline import purchase
from dpsql.pipeline.release import release_block
from dpsql.policy.model import (
    AccountPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    ViewsPolicy,
)
from dpsql.policy.parameters import Parameters
from dpsql.present.budget import promise
from dpsql.privacy.accounting.zcdp import Amount, Composition, PrivacyLoss, epsilon_from_zcdp
from dpsql.views import views as views_module
from dpsql.views.plan import ViewPlan

DAYS = 20
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM plays"
EXPECTED = (
    *("budget_exceeded", "ledger_over_limit", "no_step_closed", "view_full"),
    "unknown_table",  # Bob's, while he does not share it
)
KINDS = (
    *("ask", "again", "create", "refresh", "refresh", "drop", "bobs", "bobs_end", "window"),
    *("limit", "forget", "day", "read", "read", "share"),
)


def policy(composition: Composition, epsilon: float, *, shares: bool = True) -> Policy:
    tables = {
        "plays": TablePolicy("plays", PrivacyUnit("user", "user_id"), time=TimeColumn("played_at"))
    }
    accounts = {
        "ana": AccountPolicy("ana", epsilon, 1e-5, composition),
        "bob": AccountPolicy("bob", 20.0, 1e-4, Composition.ZCDP),
    }
    parameters = Parameters(
        epsilon=0.3, delta=1e-8, max_groups_contributed=1, max_rows_contributed=1
    )
    views = ViewsPolicy(shared=("bob",) if shares else ())
    return Policy("d", parameters, accounts=accounts, tables=tables, views=views)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE plays AS SELECT range % 90 AS user_id, "
            "TIMESTAMP '2026-01-01' + INTERVAL (range) HOUR AS played_at FROM range(480)"
        )
    return path


@dataclass
class Shown:
    """What was shown to Ana: prices by the window in which that was, and Bob's views by name."""

    window: int = 0
    asked: dict[int, list[PrivacyLoss]] = field(default_factory=dict)
    published: dict[int, dict[str, PrivacyLoss]] = field(default_factory=dict)
    prices: dict[str, PrivacyLoss] = field(default_factory=dict)
    bobs: dict[str, PrivacyLoss] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # of Bob's views, in earlier windows
    read: dict[int, set[str]] = field(default_factory=dict)  # of Bob's views, by window
    shared: bool = True

    def losses(self) -> Iterator[PrivacyLoss]:
        yield from self.asked.get(self.window, ())
        yield from self.published.get(self.window, {}).values()
        readable = self.bobs.keys() - self.gone if self.shared else set()
        yield from (self.bobs[name] for name in readable | self.read.get(self.window, set()))

    def epsilon_at(self, delta: float) -> float:
        """Convert all that the present window has shown, at the delta that is printed."""
        losses = list(self.losses())
        rho, aside = sum(each.rho for each in losses), delta - sum(each.delta for each in losses)
        converted = epsilon_from_zcdp(rho, aside) if rho else 0.0
        return converted + sum(each.epsilon for each in losses)


def priced(plan: Any) -> PrivacyLoss:
    """Price a block by the noise that it draws."""
    if plan.one_shot is not None:
        return PrivacyLoss(0.0, plan.one_shot.delta, plan.one_shot.epsilon)
    (noisy,) = plan.measures
    return PrivacyLoss(noisy.noise.rho(1), plan.selection.delta)


def priced_view(plan: ViewPlan) -> PrivacyLoss:
    """Price all steps of a view by its noise: the norm of what one unit moves, over sigma."""
    (noise,) = plan.noises
    if plan.conversion_delta == 0.0:
        return PrivacyLoss(0.0, plan.loss.delta, plan.loss.epsilon)
    return PrivacyLoss(noise.rho, plan.mechanism.loss.delta)


class World:
    """A database, a ledger and a policy whose limits move; Ana asks, and Bob shares views."""

    def __init__(self, database: Path, place: Path, composition: Composition, seed: int) -> None:
        self.database, self.place = database, place
        self.ledger = place / f"{composition}-{seed}.db"
        self.composition, self.epsilon = composition, 3.0
        self.chance, self.shown = random.Random(seed), Shown()
        self.counts = {"ana": 0, "bob": 0}
        self.day = 2

    def connect(self, analyst: str) -> dpsql.Connection:
        found = policy(self.composition, self.epsilon, shares=self.shown.shared)
        found = replace(found, views=replace(found.views, directory=str(self.place)))
        return dpsql.connect(self.database, found, self.ledger, analyst)

    def note(self, loss: PrivacyLoss) -> None:
        self.shown.asked.setdefault(self.shown.window, []).append(loss)

    def act(self, kind: str) -> None:
        match kind:
            case "ask":
                with self.connect("ana") as ana:
                    ana.sql(COUNT, fresh=True, epsilon=self.chance.choice((0.1, 0.4, 0.9)))
            case "again":
                with self.connect("ana") as ana:
                    ana.sql(COUNT)
            case "create":
                self.create("ana", self.shown.prices)
            case "refresh":
                self.refresh()
            case "drop":
                self.drop("ana")
            case "bobs":
                self.create("bob", self.shown.bobs)
            case "bobs_end":
                self.drop("bob")
            case "window":
                self.open_window()
            case "limit":
                self.epsilon = self.chance.choice((1.0, 2.0, 3.0, 4.0))
            case "forget":
                with Ledger.open(self.ledger) as ledger:
                    if "d/ana" in ledger.accounts():
                        ledger.owner("olga").forget("d/ana")
            case "day":
                self.day += 1
            case "read":
                self.read()
            case "share":
                self.shown.shared = not self.shown.shared

    def create(self, analyst: str, prices: dict[str, PrivacyLoss]) -> None:
        if analyst == "ana" and self.composition is Composition.GDP:
            return
        name, number = f"{analyst}_{self.counts[analyst]}", self.counts[analyst]
        epsilon = self.chance.choice((0.3, 0.8))
        steps = self.chance.choice((3, 8))
        with self.connect(analyst) as connection:
            connection.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (step = '1 day', start = '2026-01-01', "
                f"steps = {steps}, epsilon = {epsilon}, delta = 1e-8) AS {COUNT}"
            )
            views = connection._answerer.views
            plan = views.plan_of(views.named(name)).plan
            assert isinstance(plan, ViewPlan)
            prices[name] = priced_view(plan)
        self.counts[analyst] = number + 1

    def live(self, analyst: str) -> list[str]:
        with Ledger.open(self.ledger) as ledger:
            if f"d/{analyst}" not in ledger.accounts():
                return []
            return [each.name for each in ledger.streams(f"d/{analyst}")]

    def read(self) -> None:
        """Bob publishes what has closed, and Ana looks at one view of his, while she may."""
        for name in self.live("bob")[-1:]:
            with self.connect("bob") as bob, suppress(Error):
                bob.sql(f"REFRESH MATERIALIZED VIEW {name}")
            with self.connect("ana") as ana:
                if ana.sql(f"SELECT * FROM {name}").fetchall():
                    self.shown.read.setdefault(self.shown.window, set()).add(name)

    def refresh(self) -> None:
        for name in self.live("ana"):
            with self.connect("ana") as ana:
                ana.sql(f"REFRESH MATERIALIZED VIEW {name}")
            published = self.shown.published.setdefault(self.shown.window, {})
            published[name] = self.shown.prices[name]

    def drop(self, analyst: str) -> None:
        for name in self.live(analyst)[:1]:
            with self.connect(analyst) as connection:
                connection.sql(f"DROP MATERIALIZED VIEW {name}")

    def open_window(self) -> None:
        with Ledger.open(self.ledger) as ledger:
            if "d/ana" not in ledger.accounts():
                return
            ledger.owner("olga").open_window("d/ana")
        self.shown.window += 1
        self.shown.gone |= self.shown.bobs.keys() - set(self.live("bob"))


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """The clock of views follows a world, and what is drawn in it is noted."""

    def follow(world: World) -> None:
        monkeypatch.setattr(
            views_module, "_now", lambda: datetime(2026, 1, min(world.day, DAYS), 1, tzinfo=UTC)
        )
        released = release_block

        def noted(block: Any, exact: Any, source: Any) -> Any:
            world.note(priced(block.plan))
            return released(block, exact, source)

        monkeypatch.setattr(purchase, "release_block", noted)

    return follow


def printed(report: BudgetReport) -> tuple[float, float] | None:
    """Read the figures out of the words; None where nothing is promised."""
    found = re.search(r"\(ε ([\d.,e+-]+), δ ([\d.,e+-]+)\)-differentially", promise(report).plain)
    return None if found is None else (float(found[1]), float(found[2]))


def history(world: World, kinds: Iterable[str]) -> int:
    """Act, and compare each time what was shown with what is printed; count comparisons."""
    compared = 0
    for kind in kinds:
        try:
            world.act(kind)
        except (BudgetExceeded, Error) as error:
            if error.code not in EXPECTED:
                raise
        with world.connect("ana") as ana:
            report = ana.budget()
            listed = {name: most for _, name, _, _, most in ana.sql("SHOW BUDGET")}
        if report.promise is None:
            continue
        compared += bool(list(world.shown.losses()))
        epsilon, delta = report.promise.epsilon, report.promise.delta
        assert world.shown.epsilon_at(delta) <= epsilon * (1 + 1e-9)
        words = printed(report)
        assert words == pytest.approx((epsilon, delta), rel=0.01)
        assert (listed["promised epsilon"], listed["promised delta"]) == (epsilon, delta)
    return compared


COMPOSITIONS = list(Composition)


@pytest.mark.slow
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("seed", range(1, 1 + long(10)))
def test_what_was_shown_costs_no_more_than_is_printed(
    database: Path,
    tmp_path: Path,
    day: Callable[[World], None],
    composition: Composition,
    seed: int,
) -> None:
    world = World(database, tmp_path, composition, seed)
    day(world)
    assert history(world, world.chance.choices(KINDS, k=100)) > 5


def _no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_accounts, "carried_by", lambda sql, key: Amount())


def _no_views_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.budget.own.OwnAccount.shared_views", lambda *_: ())


def _no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "note_read", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "kinds"),
    [
        (_no_streams, ["create", "create", "create", "window"] * 2 + ["create", "refresh"]),
        (_no_views_of_others, ["bobs", "bobs", "bobs", "bobs", "ask"]),
        (_no_readings, ["bobs", "read"] * 4 + ["ask", "share"]),
    ],
)
def test_a_twin_that_forgets_what_is_published_is_noticed(
    database: Path,
    tmp_path: Path,
    day: Callable[[World], None],
    monkeypatch: pytest.MonkeyPatch,
    twin: Callable[[pytest.MonkeyPatch], None],
    kinds: list[str],
) -> None:
    for name, passes in (("sound", True), ("twin", False)):
        (tmp_path / name).mkdir()
        world = World(database, tmp_path / name, Composition.ZCDP, 1)
        world.epsilon, world.day = 1.0, 4
        day(world)
        if passes:
            history(world, kinds)
        else:
            twin(monkeypatch)
            with pytest.raises(AssertionError):
                history(world, kinds)

"""Queries with ``contribution_bounding = weight``: plans, prices, answers and their intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.failures import fails_with
from helpers.laws import lower_bound, upper_bound

import dpsql
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.planner import plan_block
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import ContributionBounding, Parameters
from dpsql.privacy.accounting.zcdp import Composition, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.calibration import LATTICE_VARIANCE
from dpsql.privacy.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
    WeightedSparseHistogram,
    kept_groups,
    weighted_histogram_delta,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.results.explanation import explain_block

USUAL = Parameters(
    1.0, 1e-6, 10, contribution_bounding=ContributionBounding.WEIGHT, left_out_share=0.0
)
SETS = (
    (UNITS,),
    (ROWS,),
    (UNITS, ROWS),
    (summed(USUAL, -50, 40), ROWS, UNITS),
    (summed(USUAL, 0, 10**9, centered=True), ROWS),
)


def gaussians(plan: BlockPlan) -> list[tuple[Measure, IndependentNoise]]:
    """Each measure and its noise, which must be independent and Gaussian."""
    found = []
    for index, noisy in enumerate(plan.measures):
        noise = plan.noise_of(index)
        assert isinstance(noise, IndependentNoise)
        assert isinstance(noise.noise, DiscreteGaussian), "weights do not bound l1"
        found.append((noisy.measure, noise))
    return found


# -- plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("measures", SETS)
@pytest.mark.parametrize("domain", [None, 60])
@pytest.mark.parametrize("groups", [1, 3, 40])
def test_in_a_session_weighted_measures_cost_what_the_query_may(
    measures: tuple[Measure, ...], domain: int | None, groups: int
) -> None:
    given = replace(USUAL, max_groups_contributed=groups)
    plan = plan_block(block(given, *measures, domain=domain))
    if domain is not None and plan.bounding is None:
        return  # fewer declared groups than it takes for weights to pay
    kept = kept_groups(groups) if domain is None else domain
    assert plan.bounding == Bounding(groups, kept)
    spent = 0.0
    for measure, noise in gaussians(plan):
        sensitivity = measure.sensitivity(given.rows_limit)
        assert noise.sensitivity == sensitivity
        spent += groups * sensitivity**2 / (2 * noise.scale**2)
    assert plan.loss(None).rho >= spent * (1 - 1e-12)
    assert plan.loss(None).rho <= rho_from_epsilon(1.0, 0.5e-6)
    if domain is not None or groups <= 7:
        assert plan.loss(7) == plan.loss(None), "nothing is refunded"
        return
    # In seven groups a unit weighs at most one each.
    choice, few = plan.selection.rho(7), plan.loss(7).rho
    assert few - choice == pytest.approx((plan.loss(None).rho - choice) * 7 / groups)
    assert plan.loss(groups) == plan.loss(None)


@pytest.mark.parametrize("measures", SETS)
@pytest.mark.parametrize("groups", [1, 10])
def test_one_publication_spends_its_delta_on_all_measures_together(
    measures: tuple[Measure, ...], groups: int
) -> None:
    given = replace(USUAL, max_groups_contributed=groups)
    plan = plan_block(block(given, *measures), composition=Composition.BASIC)
    selection = plan.selection
    assert isinstance(selection, WeightedSparseHistogram)
    assert plan.loss(None) == plan.loss(3)
    assert 1 - 1e-6 <= plan.loss(None).epsilon <= 1.0
    assert 1e-6 * (1 - 1e-6) <= plan.loss(None).delta <= 1e-6
    others = 0.0
    for index, (measure, noise) in enumerate(gaussians(plan)):
        sensitivity = measure.sensitivity(given.rows_limit)
        if index != plan.score:
            others += sensitivity**2 / (noise.scale**2 - LATTICE_VARIANCE)
    assert others <= selection.others * (1 + 1e-9)
    assert others >= selection.others * (1 - 1e-6)
    spent = weighted_histogram_delta(
        plan.loss(None).epsilon, selection.noise, selection.threshold, selection.weights, others
    )
    assert 0.999e-6 <= spent <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("composition", Composition)
def test_weighting_pays_for_one_publication_as_sampling_does(composition: Composition) -> None:
    """The noise is the same, the threshold a little higher."""
    weighted = plan_block(block(USUAL, UNITS), composition=composition)
    sampled = plan_block(
        block(replace(USUAL, contribution_bounding=ContributionBounding.SAMPLE), UNITS),
        composition=composition,
    )
    ours, theirs = (plan.noise_of(0).std(10) for plan in (weighted, sampled))
    step = weighted.measures[0].measure.step
    if composition is Composition.GDP:
        # What whole units lose to the lattice, and steps do not.
        theirs = math.sqrt(theirs**2 - LATTICE_VARIANCE)
    # A single publication takes the noise of the least threshold, which is flat around there.
    one_shot = composition is Composition.BASIC
    assert ours * step == pytest.approx(theirs, rel=1e-3 if one_shot else 1e-6)
    thresholds = [plan.selection.score_for_inclusion(0.5) or 0 for plan in (weighted, sampled)]
    assert 1.03 < thresholds[0] * step / thresholds[1] < 1.08


def test_a_small_minimum_of_units_is_enforced_by_the_engine_and_raises_the_threshold() -> None:
    plans = [
        plan_block(block(replace(USUAL, min_units_per_group=minimum), UNITS)) for minimum in (1, 6)
    ]
    low, high = (plan.selection.score_for_inclusion(0.5) for plan in plans)
    assert low is not None
    assert high == low + 5 * WEIGHT_STEPS


def test_a_top_k_samples_units_and_says_so() -> None:
    plan = plan_block(block(USUAL, UNITS, limit=5), "gaussian_top_k")
    assert plan.bounding == Bounding.sample(10)
    assert "cannot weigh units" in explain_block(plan, "").bounding
    weighted = plan_block(block(USUAL, UNITS))
    assert "weighing at most 10 together" in explain_block(weighted, "").bounding


@pytest.mark.parametrize(
    ("bounding", "mechanism"),
    [
        (ContributionBounding.WEIGHT, "gaussian_positive_counts"),
        (ContributionBounding.WEIGHT, "laplace_positive_counts"),
        (ContributionBounding.SAMPLE, "weighted_gaussian_positive_counts"),
    ],
)
def test_a_mechanism_of_the_other_bounding_is_refused(
    bounding: ContributionBounding, mechanism: str
) -> None:
    with fails_with("mechanism_does_not_fit"):
        plan_block(block(replace(USUAL, contribution_bounding=bounding), UNITS), mechanism)


@pytest.mark.slow
def test_every_extreme_is_planned_or_refused() -> None:
    planned = 0
    for epsilon, delta, groups, rows in itertools.product(
        (1e-6, 1.0, 1000.0), (1e-18, 0.4), (1, 2**31 - 1), (1, 2**31 - 1)
    ):
        given = Parameters(
            epsilon=epsilon,
            delta=delta,
            max_groups_contributed=groups,
            max_rows_contributed=rows,
            contribution_bounding=ContributionBounding.WEIGHT,
            left_out_share=0.0,
        )
        for composition, measures in itertools.product(
            Composition, [(UNITS,), (summed(given, 0, 10**15), ROWS)]
        ):
            try:
                plan = plan_block(block(given, *measures), composition=composition)
            except (ParameterError, QueryRefused):
                continue
            planned += 1
            half = plan.selection.score_for_inclusion(0.5)
            assert half is not None
            assert half > 0
            for measure, _ in gaussians(plan):
                assert 1 <= measure.sensitivity(rows) <= 2**20
    assert planned >= 60


# -- answers ----------------------------------------------------------------------------------

PEOPLE, PLACES = 2000, 12


def visits() -> dict[str, np.ndarray]:
    """Person p visits 1 + p % 6 places, each twice."""
    pairs = [(p, (5 * p + 7 * i) % PLACES) for p in range(PEOPLE) for i in range(1 + p % 6)]
    person, place = np.array(pairs * 2).T
    return {"person": person, "place": place, "known": place, "n": person % 5 - 1}


def expected(cap: int) -> dict[str, np.ndarray]:
    """What weighted units amount to in each place, from the definition."""
    data = visits()
    half = len(data["person"]) // 2
    person, place, n = (data[name][:half] for name in ("person", "place", "n"))
    weight = np.minimum(1.0, np.sqrt(cap / (1 + person % 6)))

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, weight * values, minlength=PLACES)

    return {
        "users": total(np.ones(half)),
        "seen": total(np.full(half, 2.0)),
        "summed": total(2.0 * n),
        "mean": total(2.0 * n) / total(np.full(half, 2.0)),
    }


POLICY = Policy(
    "weighing",
    tables={
        "visits": TablePolicy(
            "visits",
            PrivacyUnit("person", "person"),
            {
                "known": ColumnPolicy(domain=tuple(range(PLACES))),
                "n": ColumnPolicy(-1, 3),
            },
        )
    },
    accounts={
        "session": AccountPolicy("session", 1e5, 0.1),
        "publication": AccountPolicy("publication", 1e5, 0.1, Composition.BASIC),
    },
    defaults=replace(USUAL, max_groups_contributed=2, max_rows_contributed=2),
)
AGGREGATES = "COUNT(DISTINCT person) users, COUNT(*) seen, SUM(n) summed, AVG(n) mean"


@pytest.fixture(scope="module", params=["session", "publication"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dpsql.Connection]:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", visits())
    ledger = tmp_path_factory.mktemp("ledger") / "budget.db"
    with dpsql.connect(engine, POLICY, ledger, request.param) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("key", ["place", "known"])
@pytest.mark.parametrize("cap", [1, 2, 5])
def test_answers_are_those_of_weighted_units(
    connection: dpsql.Connection, key: str, cap: int
) -> None:
    sql = f"SELECT {key}, {AGGREGATES} FROM visits GROUP BY {key} ORDER BY {key}"
    # With next to no noise a declared domain would be answered without weights.
    epsilon = 900.0 if key == "place" else 2.0
    result = connection.sql(sql, max_groups_contributed=cap, epsilon=epsilon, fresh=True)
    rows = result.fetchall()
    assert [row[0] for row in rows] == list(range(PLACES))
    assert all(isinstance(value, int) for row in rows for value in row[:4]), "counts are whole"
    for index, (name, exact) in enumerate(expected(cap).items()):
        shown = np.array([float(row[1 + index]) for row in rows])
        interval = result.intervals(1 - 1e-10)[name]
        assert bool(((interval.low <= exact) & (exact <= interval.high)).all()), name
        if (cap, key) == (1, "place") and name != "mean":
            assert float(np.abs(shown - exact).max()) < 0.05 * float(exact.max())


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["users", "seen", "summed", "mean"])
def test_intervals_cover_weighted_values_as_often_as_they_say(
    connection: dpsql.Connection, name: str
) -> None:
    sql = f"SELECT known, {AGGREGATES} FROM visits GROUP BY known ORDER BY known"
    exact, hits, runs = expected(2)[name], 0, 25
    for _ in range(runs):
        interval = connection.sql(sql, fresh=True).intervals(0.8)[name]
        hits += int(((interval.low <= exact) & (exact <= interval.high)).sum())
    trials = runs * PLACES
    assert upper_bound(hits, trials) >= 0.8
    if name != "mean":
        assert lower_bound(hits, trials) <= 0.82
        assert hits < trials


def test_a_publication_costs_its_epsilon_and_delta(connection: dpsql.Connection) -> None:
    result = connection.sql(f"SELECT place, {AGGREGATES} FROM visits GROUP BY place")
    settled = result.cost.settled
    if settled.rho == 0:
        assert 1 - 1e-6 <= settled.epsilon <= 1.0
        assert 1e-6 * (1 - 1e-6) <= settled.delta <= 1e-6
    else:
        assert math.isfinite(settled.rho)
        assert result.cost.settled_epsilon <= 1.0

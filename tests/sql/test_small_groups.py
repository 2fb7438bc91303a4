"""Declared groups of few units are left out by their noisy number: in plans, releases and words."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import SeededSource, lower_bound, upper_bound
from helpers.present import present
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sqlglot import exp

import dpsql
from dpsql.accuracy.appearance import large_enough, threshold
from dpsql.accuracy.wording import Part, ShownAggregate
from dpsql.engines.base.engine import ExactRows
from dpsql.ir.measures import Aggregate, AggregateKind, Measure, MeasureKind, Quantile, Ranked
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.groups import ExactGroups
from dpsql.kinds.released import ReleasedRows
from dpsql.kinds.summary import summary
from dpsql.planner import plan_block
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import ContributionBounding, Parameters
from dpsql.present import explanation_text
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.results.explanation import explain_block
from dpsql.sql.expressions.lattices import lattice_for

LEAST = 20
USUAL = Parameters(
    epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=2, left_out_share=0.0
)
MINIMUM = replace(USUAL, min_units_per_group=LEAST)
EXACT = replace(MINIMUM, epsilon=1000.0)  # next to no noise
WEIGHT = replace(MINIMUM, contribution_bounding=ContributionBounding.WEIGHT)
FREE = replace(MINIMUM, max_groups_contributed=None)
SUM = summed(USUAL, 0, 10)
MATCHING = Measure(MeasureKind.MATCHING_UNITS, argument=exp.column("x"))

PLANS = {
    "units": plan_block(block(MINIMUM, UNITS, domain=9)),
    "units, no cap": plan_block(block(FREE, UNITS, domain=4)),
    "rows": plan_block(block(MINIMUM, ROWS, domain=9)),
    "a sum and units that match": plan_block(block(MINIMUM, SUM, MATCHING, domain=9)),
    "one publication": plan_block(block(MINIMUM, UNITS, domain=9), None, Composition.BASIC),
    "weighted": plan_block(block(WEIGHT, UNITS, domain=9)),
}
FOUND = [name for name in PLANS if name != "weighted"]


def units_of(plan: BlockPlan) -> Measure:
    assert plan.units_measure is not None
    return plan.measures[plan.units_measure].measure


def released(plan: BlockPlan, units: NDArray[np.int64], seed: int = 1) -> ReleasedRows:
    """A release of declared groups with so many units, and as much of everything else."""
    columns = {
        plan.block.measure_column(i): (units / noisy.measure.step).round().astype(np.int64)
        for i, noisy in enumerate(plan.measures)
    }
    columns[plan.block.key_column(0)] = np.arange(1, len(units) + 1)
    exact = ExactRows(np.arange(1, len(units) + 1), columns, {})
    return ExactGroups(exact).release(plan, SeededSource(seed))


# -- plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_the_number_of_units_is_measured_once_and_pays_its_share(name: str) -> None:
    plan = PLANS[name]
    kinds = [noisy.measure.kind for noisy in plan.measures]
    assert kinds.count(MeasureKind.UNITS) == 1
    assert all(noisy.noise is not None for noisy in plan.measures)
    asked = plan.block.measures
    assert len(plan.measures) == len(asked) + (UNITS not in asked)
    if plan.one_shot is None:
        alone = plan_block(replace(plan.block, parameters=USUAL))
        assert plan.loss(None).rho <= alone.loss(None).rho * (1 + 1e-6)
        assert plan.loss(None) == plan.loss(0) == plan.loss(9)


def test_without_a_minimum_or_without_keys_nothing_changes() -> None:
    for chosen in (
        block(USUAL, ROWS, domain=9),
        replace(block(MINIMUM, ROWS, domain=9), keys=()),
    ):
        plan = plan_block(chosen)
        assert [noisy.measure for noisy in plan.measures] == [ROWS]
        assert plan.units_measure is None
        assert plan.units_needed(0.95) is None
        assert large_enough(plan) is None
    undeclared = plan_block(block(MINIMUM, ROWS))
    assert undeclared.units_measure is None  # the rewriting drops small groups itself


def test_quantiles_alone_leave_a_share_to_the_number_of_units() -> None:
    ranked = Ranked(exp.column("x"), lattice_for((0.0, 10.0), True, 2))
    asked = Aggregate(AggregateKind.QUANTILE, (), "median", Quantile(ranked, Fraction(1, 2), True))
    for parameters, shares in ((MINIMUM, 2), (USUAL, 1)):
        plan = plan_block(replace(block(parameters, domain=9), aggregates=(asked,)))
        assert len(plan.measures) == shares - 1
        (median,) = plan.quantiles
        assert plan.groups is not None
        assert median.mechanism.rho(plan.groups) == pytest.approx(
            plan.loss(None).rho / shares, rel=1e-3
        )


@pytest.mark.slow
@given(
    st.sampled_from([MINIMUM, WEIGHT, FREE, replace(MINIMUM, epsilon=0.1)]),
    st.lists(st.sampled_from([UNITS, ROWS, SUM, MATCHING]), min_size=1, max_size=3, unique=True),
    st.sampled_from([2, 9, 40]),
    st.sampled_from([None, 1, 5]),
    st.sampled_from(list(Composition)),
)
@settings(max_examples=60, deadline=None)
def test_a_minimum_never_costs_more_than_the_question_without(
    parameters: Parameters,
    measures: list[Measure],
    domain: int,
    limit: int | None,
    composition: Composition,
) -> None:
    b = block(parameters, *measures, domain=domain, limit=limit)
    plan = plan_block(b, None, composition)
    without = replace(b, parameters=replace(parameters, min_units_per_group=1))
    allowed = plan_block(without, None, composition).loss(None)
    loss = plan.loss(None)
    assert loss.delta == allowed.delta
    assert (loss.rho + loss.epsilon) <= (allowed.rho + allowed.epsilon) * (1 + 1e-6)
    assert units_of(plan).kind is MeasureKind.UNITS


# -- releases ---------------------------------------------------------------------------------


def test_groups_below_the_minimum_are_left_out_with_their_values() -> None:
    plan = plan_block(block(EXACT, ROWS, UNITS, domain=6))
    units = np.array([100, 3, 60, 0, 19, 5000])
    found = released(plan, units)
    assert found.row_ids.tolist() == [0, 2, 5]
    assert found.keys is None
    for column in ("__dpsql_a0", "__dpsql_a1"):
        assert np.abs(found.values[column] - units[[0, 2, 5]]).max() < 8
    assert found.loss == plan.loss(None)


def test_the_largest_of_declared_groups_are_left_out_where_they_are_small() -> None:
    plan = plan_block(block(EXACT, ROWS, domain=9, limit=3), "known_domain_top_k")
    found = released(plan, np.array([4, 900, 2, 0, 1, 70, 0, 2, 1]))
    assert found.row_ids.tolist() == [1, 5]
    assert list(found.values) == ["__dpsql_a0"]
    assert found.loss == plan.loss(None)


@pytest.mark.parametrize("name", PLANS)
def test_what_is_left_out_is_decided_by_what_is_released_alone(name: str) -> None:
    """The kept groups are a function of the noisy number of units, drawn as without a minimum."""
    plan = PLANS[name]
    index = plan.units_measure
    assert index is not None
    size = plan.block.domain_size
    units = np.arange(size) * 8
    whole = replace(plan.block, parameters=replace(plan.block.parameters, min_units_per_group=1))
    for seed in range(20):
        every = released(replace(plan, block=whole), units, seed)
        kept = released(plan, units, seed)
        assert every.count == size
        assert kept.loss == every.loss
        chosen = np.isin(every.row_ids, kept.row_ids)
        for column, values in kept.values.items():
            assert values.tolist() == every.values[column][chosen].tolist()
        if plan.block.measures[0] == UNITS:
            noisy = every.values["__dpsql_a0"]
            assert (noisy[~chosen] <= LEAST).all()
            assert (noisy[chosen] >= LEAST).all()


def appearing(plan: BlockPlan, size: float, runs: int = 1500) -> int:
    """How often the first of the declared groups comes out."""
    units = np.zeros(plan.block.domain_size, dtype=np.int64)
    units[0] = round(size)
    return sum(0 in released(plan, units, seed).row_ids for seed in range(runs))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.slow
def test_groups_appear_as_often_as_is_said(name: str) -> None:
    plan, runs = PLANS[name], 1500
    found = large_enough(plan)
    assert found is not None
    assert found.half == LEAST
    assert upper_bound(appearing(plan, found.half), runs) >= 0.5
    assert upper_bound(appearing(plan, found.surely), runs) >= 0.95
    assert lower_bound(appearing(plan, max(0.0, found.rarely)), runs) <= 0.05 or found.rarely < 0
    off = max(3.0, (found.surely - found.half) / 3)  # figures that were off would be noticed
    assert upper_bound(appearing(plan, found.half - off), runs) < 0.5
    assert upper_bound(appearing(plan, found.surely - off), runs) < 0.95


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["units", "units, no cap", "one publication"])
def test_counts_that_decide_are_covered_from_the_minimum_on(name: str) -> None:
    plan, runs = PLANS[name], 1500
    allowed = margin(plan)
    for size, covered in ((LEAST, True), (2 * LEAST, True), (max(0, LEAST - 2 * allowed), False)):
        units = np.full(plan.block.domain_size, size)
        found = [released(plan, units, seed) for seed in range(runs)]
        errors = [
            abs(int(rows.values["__dpsql_a0"][0]) - size) for rows in found if 0 in rows.row_ids
        ]
        hits = sum(error <= allowed for error in errors)
        if covered:
            assert upper_bound(hits, len(errors)) >= 0.95
        elif len(errors) > 20:
            assert upper_bound(hits, len(errors)) < 0.95


def margin(plan: BlockPlan) -> int:
    noise = plan.noise_of(plan.units_measure or 0)
    return math.ceil(noise.margin(0.95, plan.groups or 1))


# -- words ------------------------------------------------------------------------------------


def told(plan: BlockPlan) -> str:
    return summary([Part(plan, 3, (ShownAggregate(0, "n"),), 3)])


def test_answers_and_plans_say_what_decides() -> None:
    plan = PLANS["units"]
    found = large_enough(plan)
    assert found is not None
    text = told(plan)
    assert "in groups of 20 units (person) or more" in text
    assert "Declared groups are left out where the noisy number of units (person) is below 20" in (
        text
    )
    assert f"one with {found.surely} at least 95%" in text
    assert "below 20 what appears is counted too high" in text
    assert "whether they hold rows or not" not in text
    assert present(threshold(plan, 0)).value == LEAST - 1
    explained = explain_block(plan, "SELECT 1")
    assert (explained.least_units, explained.units_95) == (LEAST, plan.units_needed(0.95))


def test_values_with_noise_of_their_own_need_no_condition() -> None:
    text = told(PLANS["rows"])
    assert "in groups of" not in text
    assert "counted too high" not in text
    assert "is below 20" in text
    assert threshold(PLANS["rows"], 0) is None


def test_a_top_k_of_declared_groups_says_both() -> None:
    plan = plan_block(block(MINIMUM, UNITS, domain=40, limit=3), "known_domain_top_k")
    text = told(plan)
    assert "It picks 3 of the 40 declared groups" in text
    assert "always names" not in text
    assert "is below 20" in text


# -- from SQL on ------------------------------------------------------------------------------

POLICY = Policy(
    "clinic",
    Parameters(
        epsilon=100.0,
        delta=1e-6,
        max_groups_contributed=2,
        max_rows_contributed=10,
        min_units_per_group=LEAST,
        left_out_share=0.0,
    ),
    accounts={
        "ana": AccountPolicy("ana", 900.0, 1e-2),
        "bo": AccountPolicy("bo", 900.0, 1e-2, Composition.BASIC),
    },
    tables={
        "visits": TablePolicy(
            "visits",
            PrivacyUnit("patient", "uid"),
            {
                "ward": ColumnPolicy(domain=("ears", "eyes", "rare", "none")),
                "sex": ColumnPolicy(domain=("f", "m")),
                "cost": ColumnPolicy(0.0, 10.0),
            },
        )
    },
)


@pytest.fixture(scope="module")
def engine() -> dpsql.DuckDBEngine:
    uid = np.arange(905)
    ward = np.where(uid < 500, "ears", np.where(uid < 900, "eyes", "rare"))
    sex = np.where(uid % 2, "f", "m")
    engine = dpsql.DuckDBEngine()
    engine.register("visits", {"uid": uid, "ward": ward, "sex": sex, "cost": uid % 10 * 1.0})
    return engine


@pytest.mark.parametrize("analyst", ["ana", "bo"])
@pytest.mark.parametrize(
    "asked",
    [
        "count(DISTINCT uid)",
        "count(*)",
        "avg(cost)",
        "sum(cost), count(*) FILTER (cost > 3)",
        "count(DISTINCT cost)",
        "count(DISTINCT cost), sum(cost)",
        "median(cost)",
        "median(cost), count(DISTINCT uid)",
        "stddev(cost), dp_interval_low(sum(cost))",
    ],
)
def test_small_declared_groups_are_not_answered(
    engine: dpsql.DuckDBEngine, tmp_path: Path, analyst: str, asked: str
) -> None:
    with dpsql.connect(engine, POLICY, tmp_path / "b.db", analyst) as con:
        wards = f"SELECT ward, {asked} FROM visits GROUP BY ward"
        assert sorted(row[0] for row in con.sql(wards)) == ["ears", "eyes"]
        assert sorted(row[0] for row in con.sql(wards)) == ["ears", "eyes"]  # stored
        assert con.sql(wards).cost.stored
        lowered = con.sql(wards, fresh=True, contribution_bounding="weight")
        assert sorted(row[0] for row in lowered) == ["ears", "eyes"]
        best = con.sql(
            f"SELECT ward, {asked} AS n FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 3"
        )
        assert {row[0] for row in best} <= {"ears", "eyes"}
        both = con.sql(f"SELECT ward, sex, {asked} FROM visits GROUP BY ward, sex")
        assert {row[0] for row in both} == {"ears", "eyes"}
        assert len(both.fetchall()) == 4


def test_a_total_is_answered_however_small_and_subtotals_like_other_groups(
    engine: dpsql.DuckDBEngine, tmp_path: Path
) -> None:
    with dpsql.connect(engine, POLICY, tmp_path / "b.db", "ana") as con:
        few = con.sql("SELECT count(*) FROM visits WHERE ward = 'rare'").fetchall()
        assert len(few) == 1
        rolled = con.sql("SELECT ward, count(*) FROM visits WHERE uid > 890 GROUP BY ROLLUP (ward)")
        assert [row[0] for row in rolled] == [None]


def test_intervals_are_those_of_the_groups_that_came_out_however_often_they_are_given(
    engine: dpsql.DuckDBEngine, tmp_path: Path
) -> None:
    sql = (
        "SELECT ward, count(*) AS n, dp_interval_low(count(*)) AS low, dp_interval_high(count(*)) "
        "AS high FROM visits GROUP BY ward ORDER BY n DESC LIMIT 1"
    )
    with dpsql.connect(engine, POLICY, tmp_path / "b.db", "ana") as con:
        first, again = (con.sql(sql, epsilon=0.2, mechanism="known_domain") for _ in range(2))
        ((_, _, low, high),) = first.fetchall()
        assert first.fetchall() == again.fetchall()
        interval = first.intervals()["n"]
        assert (interval.low.tolist(), interval.high.tolist()) == ([low], [high])


def test_plans_say_it_in_words(engine: dpsql.DuckDBEngine, tmp_path: Path) -> None:
    with dpsql.connect(engine, POLICY, tmp_path / "b.db", "ana") as con:
        asked = "SELECT ward, count(*) FROM visits GROUP BY ward"
        text = " ".join(explanation_text(con.explain(asked)).split())
        assert "those of fewer than 20 noisy units are left out" in text
        assert "whether they hold rows or not" not in text
        assert "is below 20" in repr(con.sql(asked)).replace("\n", " ")

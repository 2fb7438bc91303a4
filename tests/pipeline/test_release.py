"""From exact rows to released rows: bounded, aligned, ordered by what is released alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import SeededSource
from numpy.typing import NDArray

import dpsql
from dpsql.engines.base.engine import ExactRows
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.groups import ExactGroups
from dpsql.kinds.released import ReleasedRows
from dpsql.pipeline.tail.tables import _sorted_lists
from dpsql.planner import plan_block
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.sampling.noise import OSEntropy

EXACT = Parameters(1000.0, 1e-6, 10, max_rows_contributed=3, left_out_share=0.0)  # next to no noise
USUAL = Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=10, left_out_share=0.0)


def rows(plan: BlockPlan, columns: list[list[int]], keys: list[tuple[object, ...]]) -> ExactRows:
    """Exact rows as an engine gives them; a declared domain's keys are positions from 1."""
    measures: dict[str, NDArray[np.int64]] = {
        plan.block.measure_column(i): np.array(column, dtype=np.int64)
        for i, column in enumerate(columns)
    }
    if plan.declared:
        measures[plan.block.key_column(0)] = np.array([k for (k,) in keys], dtype=np.int64)
        keys = []
    names = np.array([k for (k,) in keys], dtype=object)
    return ExactRows(np.arange(1, len(columns[0]) + 1), measures, {"k": names})


def names(released: ReleasedRows) -> list[object]:
    assert isinstance(released.keys, dict)
    keys: list[object] = released.keys["k"].tolist()
    return keys


def test_a_declared_domain_is_answered_whole_and_absent_groups_are_zero() -> None:
    plan = plan_block(block(EXACT, ROWS, domain=5))
    released = ExactGroups(rows(plan, [[70, 90]], [(4,), (2,)])).release(plan, OSEntropy())
    assert released.row_ids.tolist() == [0, 1, 2, 3, 4]
    assert released.keys is None
    assert np.abs(released.values["__dpsql_a0"] - [0, 90, 0, 70, 0]).max() < 5
    assert released.loss == plan.loss(None)


def test_the_largest_declared_groups_come_out_in_order_with_their_values() -> None:
    b = block(EXACT, ROWS, UNITS, domain=9, limit=3)
    plan = plan_block(b, "known_domain_top_k")
    keys: list[tuple[object, ...]] = [(4,), (2,), (9,)]
    released = ExactGroups(rows(plan, [[7000, 90, 800], [6000, 80, 700]], keys)).release(
        plan, OSEntropy()
    )
    assert released.row_ids.tolist()[:2] == [3, 8]
    assert released.row_ids.tolist()[2] == 1
    assert released.keys is None
    assert np.abs(released.values["__dpsql_a0"] - [7000, 800, 90]).max() < 9
    assert np.abs(released.values["__dpsql_a1"] - [6000, 700, 80]).max() < 9
    assert released.loss == plan.loss(None)


def test_as_many_declared_groups_come_out_of_empty_data_for_the_same_charge() -> None:
    plan = plan_block(block(USUAL, ROWS, domain=9, limit=3), "known_domain_top_k")
    found = [
        ExactGroups(rows(plan, [[]], [])).release(plan, SeededSource(seed)) for seed in range(60)
    ]
    assert {r.count for r in found} == {3}
    assert {r.loss for r in found} == {plan.loss(None)}
    assert {i for r in found for i in r.row_ids.tolist()} == set(range(9))


def test_empty_data_has_the_same_shape_and_charge_as_full_data() -> None:
    plan = plan_block(block(USUAL, ROWS, domain=5))
    empty = ExactGroups(rows(plan, [[]], [])).release(plan, OSEntropy())
    full = ExactGroups(rows(plan, [[9] * 5], [(i,) for i in range(1, 6)])).release(
        plan, OSEntropy()
    )
    assert (empty.count, empty.loss) == (full.count, full.loss)


def test_keys_and_values_of_the_released_groups_stay_together() -> None:
    plan = plan_block(block(replace(EXACT, delta=1e-9), ROWS, UNITS))
    exact = rows(plan, [[300, 3, 6000], [100, 1, 2000]], [("a",), ("b",), ("c",)])
    released = ExactGroups(exact).release(plan, OSEntropy())
    assert names(released) == ["a", "c"]
    assert released.row_ids.tolist() == [1, 3]
    assert np.abs(released.values["__dpsql_a0"] - [300, 6000]).max() < 20
    assert np.abs(released.values["__dpsql_a1"] - [100, 2000]).max() < 20


def test_a_hidden_unit_count_selects_but_is_not_shown() -> None:
    plan = plan_block(block(EXACT, ROWS))
    released = ExactGroups(rows(plan, [[500, 500], [400, 1]], [("a",), ("b",)])).release(
        plan, OSEntropy()
    )
    assert names(released) == ["a"]
    assert list(released.values) == ["__dpsql_a0"]


def test_sums_come_back_in_the_units_of_the_data() -> None:
    wide = replace(EXACT, max_rows_contributed=1)
    measure = summed(wide, 0, 10**8)
    plan = plan_block(block(wide, measure, domain=1))
    assert measure.lattice is not None
    assert measure.lattice.coarsening > 1
    exact = 5 * 10**12
    coarse = exact // measure.lattice.coarsening
    released = ExactGroups(rows(plan, [[coarse]], [(1,)])).release(plan, OSEntropy())
    assert released.values["__dpsql_a0"].dtype == np.int64
    assert released.values["__dpsql_a0"][0] == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 1000.0])
def test_averages_stay_within_their_bounds_and_near_the_truth_with_little_noise(
    epsilon: float,
) -> None:
    chosen = replace(EXACT, epsilon=epsilon)
    total = summed(chosen, -10, 30, centered=True)
    plan = plan_block(block(chosen, total, Measure(MeasureKind.VALUES), domain=3, average=True))
    # Averages 10 + 900/300 = 13, and of nothing, and 10 - 2000/100 = -10 (the lower bound).
    exact = rows(plan, [[900, 0, -2000], [300, 0, 100]], [(1,), (2,), (3,)])
    for _ in range(50):
        released = ExactGroups(exact).release(plan, OSEntropy())
        means = released.values["__dpsql_a0"]
        assert bool(((means >= -10) & (means <= 30)).all())
        assert "__dpsql_n0_1" in released.values
        if epsilon > 1:
            assert np.abs(means[[0, 2]] - [13, -10]).max() < 2


def test_the_charge_is_a_function_of_how_many_groups_came_out() -> None:
    free = replace(USUAL, max_groups_contributed=None, k_bar=5)
    plan = plan_block(block(free, UNITS, limit=3))
    losses: dict[int, set[float]] = {}
    for scores in ([0], [60, 50, 40], [10**6] * 3, [300, 2, 1], [200, 90, 80, 70, 60, 50]):
        keys: list[tuple[object, ...]] = [(i,) for i in range(len(scores))]
        for seed in range(25):
            released = ExactGroups(rows(plan, [scores], keys)).release(plan, SeededSource(seed))
            losses.setdefault(released.count, set()).add(released.loss.rho)
            assert released.loss == plan.loss(released.count)
            assert released.loss.rho <= plan.loss(None).rho
    assert {0, 3} <= losses.keys()
    assert all(len(found) == 1 for found in losses.values())


def test_groups_a_top_k_query_did_not_release_leave_no_trace() -> None:
    """The same draws with other names for the unreleased groups give the same release."""
    plan = plan_block(block(replace(USUAL, k_bar=3), UNITS, limit=3), "gaussian_top_k")
    for seed in range(20):
        one = ExactGroups(rows(plan, [[900, 2, 1]], [("a",), ("b",), ("c",)])).release(
            plan, SeededSource(seed)
        )
        two = ExactGroups(rows(plan, [[900, 2, 1]], [("a",), ("x",), ("y",)])).release(
            plan, SeededSource(seed)
        )
        assert names(one) == names(two) == ["a"]
        assert one.values["__dpsql_a0"].tolist() == two.values["__dpsql_a0"].tolist()


def test_fresh_noise_is_drawn_for_every_value_and_every_run() -> None:
    plan = plan_block(block(USUAL, ROWS, summed(USUAL, 0, 9), domain=40))
    exact = rows(plan, [[0] * 40, [0] * 40], [(i,) for i in range(1, 41)])
    one, two = (ExactGroups(exact).release(plan, OSEntropy()) for _ in range(2))
    seen = [tuple(v.tolist()) for r in (one, two) for v in r.values.values()]
    assert len(set(seen)) == 4
    assert all(len(set(values)) > 20 for values in seen)


@pytest.mark.parametrize(
    "keys",
    [[(None,), ("None",)], [(2,), (10,), (None,)], [("a", None), ("a", "None"), (None, "a")]],
)
def test_ties_between_released_rows_are_not_broken_by_the_engines_order(
    keys: list[tuple[object, ...]],
) -> None:
    """The engine returns the largest groups first: its order tells true counts apart."""
    width = len(keys[0])
    orders = set()
    for permutation in itertools.permutations(keys):
        given = [list(column) for column in zip(*permutation, strict=True)]
        columns = _sorted_lists(given, [[7] * len(keys)], len(keys))
        orders.add(tuple(zip(*columns[:width], strict=True)))
    assert len(orders) == 1


def test_nothing_released_is_an_answer_too() -> None:
    plan = plan_block(block(USUAL, UNITS))
    released = ExactGroups(rows(plan, [[]], [])).release(plan, OSEntropy())
    assert released.count == 0
    assert released.loss == plan.loss(None)
    assert math.isfinite(released.loss.rho)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT k FROM t",
        "SELECT k, s FROM t GROUP BY k, s",
        "SELECT k, name FROM (SELECT DISTINCT k FROM t) JOIN pub USING (k)",
    ],
)
def test_how_many_groups_stayed_unreleased_does_not_show_in_the_order_of_rows(
    sql: str, tmp_path: Path
) -> None:
    """No threshold on the number of exact groups may change how rows are carried or sorted."""
    answers = []
    for groups in (9_000, 10_000, 10_001, 12_000):
        keys = np.concatenate([np.repeat([2, 10, 33], 400), np.arange(1000, 1000 + groups - 3)])
        engine = dpsql.DuckDBEngine()
        data = {"u": np.arange(len(keys)), "k": keys, "s": np.array([f"{k:x}" for k in keys])}
        engine.register("t", data)
        public = {"k": [10, 2, 33, 1], "name": ["ten", "two", "more", "one"]}
        engine.register("pub", public, types={"k": "BIGINT", "name": "VARCHAR"})
        policy = Policy(
            "world",
            tables={
                "t": TablePolicy("t", PrivacyUnit("person", "u")),
                "pub": TablePolicy("pub", None),
            },
            accounts={"ana": AccountPolicy("ana", 100.0, 1e-3)},
            defaults=Parameters(
                epsilon=20.0,
                delta=1e-12,
                max_groups_contributed=1,
                max_rows_contributed=1,
                left_out_share=0.0,
            ),
        )
        with dpsql.connect(engine, policy, tmp_path / f"{groups}.db", "ana") as connection:
            answers.append([row[0] for row in connection.sql(sql).fetchall()])
    assert len(answers[0]) == 3
    assert answers[1:] == answers[:-1]

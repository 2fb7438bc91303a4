"""What is given back when few groups come out: by the released output alone, and no more than that.

Values are drawn for the groups that came out, after these were chosen. A unit changes at most
``groups`` of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import SeededSource
from numpy.typing import NDArray

from dpsql.engines.base.engine import ExactRows
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.cascade import CascadeKind
from dpsql.kinds.groups import ExactGroups
from dpsql.planner import plan_block
from dpsql.policy.parameters import Automatic, Parameters
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

CAP = 4
USUAL = Parameters(epsilon=2.0, delta=1e-6, max_groups_contributed=CAP, left_out_share=0.0)
Price: TypeAlias = Callable[[BlockPlan, ExactRows, int], PrivacyLoss]
"""What a release costs, of exact rows of which so many groups came out."""


def capped() -> BlockPlan:
    return plan_block(block(USUAL, ROWS, summed(USUAL, 0, 50)))


def exact(plan: BlockPlan, sizes: list[int]) -> ExactRows:
    """Groups of so many units, with one row and one step of the sum in each."""
    column: NDArray[np.int64] = np.array(sizes, dtype=np.int64)
    measures = {plan.block.measure_column(i): column for i in range(len(plan.measures))}
    names = np.array([f"k{i}" for i in range(len(sizes))], dtype=object)
    return ExactRows(np.arange(1, len(sizes) + 1), measures, {"k": names})


def by_output(plan: BlockPlan, rows: ExactRows, released: int) -> PrivacyLoss:
    return plan.loss(released)


def by_bounds_found(plan: BlockPlan, rows: ExactRows, released: int) -> PrivacyLoss:
    """A twin that pays for the groups there are, released or not."""
    return plan.loss(len(rows.row_ids))


def told_apart(price: Price) -> bool:
    """Tell whether a price differs on two databases that have released the same groups.

    The second one has groups of one unit more, which are far below the threshold.
    """
    plan = capped()
    found = []
    for sizes in ([5000], [5000, 1, 1, 1]):
        rows = exact(plan, sizes)
        drawn = ExactGroups(rows).release(plan, SeededSource(7))
        assert drawn.count == 1
        found.append(price(plan, rows, drawn.count))
    return found[0] != found[1]


def test_a_refund_depends_on_what_came_out_alone() -> None:
    assert not told_apart(by_output)


def test_a_twin_that_looks_at_what_did_not_come_out_is_caught() -> None:
    assert told_apart(by_bounds_found)


@pytest.mark.parametrize("sizes", [[], [5000], [5000] * 3, [5000] * 4, [5000] * 9])
def test_what_is_charged_is_that_of_the_groups_that_came_out(sizes: list[int]) -> None:
    plan = capped()
    drawn = ExactGroups(exact(plan, sizes)).release(plan, SeededSource(3))
    assert drawn.count == len(sizes)
    assert drawn.loss == plan.loss(len(sizes))
    few, worst, none = min(CAP, len(sizes)), plan.loss(None), plan.loss(0)
    values = worst.rho - none.rho
    assert drawn.loss.rho - none.rho == pytest.approx(values * few / CAP, rel=1e-9)
    assert drawn.loss.delta == worst.delta
    assert none.rho == pytest.approx(plan.selection.rho(0))


def test_of_as_many_groups_as_a_unit_may_have_all_is_paid() -> None:
    plan = capped()
    assert plan.loss(CAP) == plan.loss(CAP + 1) == plan.loss(10**6) == plan.loss(None)
    losses = [plan.loss(n).rho for n in range(CAP + 1)]
    assert losses == sorted(set(losses))


def renyi(noise: IndependentNoise, shift: int, order: float) -> float:
    """The Rényi divergence of a noise and the same, shifted, from its definition."""
    points = np.arange(-4000, 4001)
    law = noise.noise
    if isinstance(law, DiscreteGaussian):
        logs = -(points**2) / (2 * law.sigma**2)
    else:
        logs = -np.abs(points) / law.spread
    logs = logs - np.log(np.exp(logs).sum())
    moved = np.roll(logs, shift)
    inside = slice(abs(shift), len(points) - abs(shift))
    total = np.exp(order * logs[inside] + (1 - order) * moved[inside]).sum()
    return float(np.log(total) / (order - 1))


def divergence(plan: BlockPlan, released: int, order: float) -> float:
    """The largest divergence of the values of the groups that came out, over what a unit can do.

    The unit is in any of them, in at most CAP, and moves each measure by up to its sensitivity.
    """
    worst = 0.0
    for touched in itertools.product((0, 1), repeat=released):
        if sum(touched) <= CAP:
            each = sum(
                renyi(noisy.noise, noisy.noise.sensitivity, order)
                for noisy in plan.measures
                if isinstance(noisy.noise, IndependentNoise)
            )
            worst = max(worst, sum(touched) * each)
    return worst


def small() -> BlockPlan:
    """A plan whose noise is small enough to enumerate."""
    return plan_block(block(USUAL, ROWS, UNITS))


@pytest.mark.parametrize("order", [1.01, 2.0, 8.0])
@pytest.mark.parametrize("released", [0, 1, 2, 3, 5, 6])
def test_what_is_charged_bounds_the_divergence(released: int, order: float) -> None:
    plan = small()
    values = plan.loss(released).rho - plan.selection.rho(released)
    assert divergence(plan, released, order) <= order * values * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("released", [1, 3, 6])
def test_a_twin_that_gives_back_a_group_too_much_is_caught(released: int) -> None:
    plan = small()
    values = plan.loss(released - 1).rho - plan.selection.rho(released)
    if released > CAP:  # where a twin would divide by all that came out
        values = plan.loss(None).rho - plan.selection.rho(None)
        values *= CAP / released
    assert divergence(plan, released, 8.0) > 8.0 * values * (1 + 1e-6)


def test_what_came_out_for_one_price_gives_nothing_back() -> None:
    basic = plan_block(block(USUAL, ROWS, UNITS), None, Composition.BASIC)
    assert basic.loss(0) == basic.loss(None)
    declared = plan_block(block(USUAL, ROWS, domain=9))
    assert declared.loss(9) == declared.loss(0) == declared.loss(None)
    automatic = Parameters(2.0, 1e-6, Automatic(), left_out_share=0.0)
    cascade = plan_block(block(automatic, ROWS))
    assert CascadeKind.fits(cascade)
    assert cascade.loss(0) == cascade.loss(None)


def test_laplace_noise_is_paid_by_the_group_as_well() -> None:
    noise = IndependentNoise(DiscreteLaplace(3.0), 1)
    assert noise.rho(2) == pytest.approx(noise.rho(4) / 2)
    assert math.isclose(noise.rho(0), 0.0)

"""The draws of bounds of values: their price by exact divergence, and what they choose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from helpers.laws import ORDERS, SeededSource, renyi
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import WHOLE_WEIGHT, BoundDraw, rows_target
from dpsql.privacy.mechanisms.value_bounds import ValueBounds, value_bounds

PRICE = PrivacyLoss(0.2**2 / 8)
Unit = tuple[float, ...]  # the values of a unit
Law = NDArray[np.float64]
SMALL = value_bounds(PRICE, PRICE, 1.0, whole=True)
SMALL = replace(SMALL, size=replace(SMALL.size, rungs=(0, 1, 2, 4), targets=(WHOLE_WEIGHT,) * 4))
_FALLING = tuple(
    value_bounds(PRICE, PRICE, 8.0, whole=True, falling=True).size.targets[i] for i in (0, 1, 2, 4)
)
BESIDE_ERROR = replace(SMALL, size=replace(SMALL.size, lasting=True, targets=_FALLING))


def weights(units: Sequence[Unit], draw: ValueBounds, sign: int) -> list[int]:
    """The definition: values by the rungs below their size, each with its part of its unit."""
    found = [0] * (len(draw.sizes) + 1)
    for unit in units:
        for value in unit:
            found[sum(size < sign * value for size in draw.sizes)] += WHOLE_WEIGHT // len(unit)
    return found


def log_law(
    draw: BoundDraw, exact: Sequence[int], base: Callable[[int], float] | None = None
) -> Law:
    """The logarithms of what each rung is drawn with, by the formula."""
    over = list(accumulate(reversed(exact)))[-2::-1]
    beyond = [max(0, tail - target) for tail, target in zip(over, draw.targets, strict=True)]
    if draw.lasting:
        beyond = list(accumulate(reversed([*beyond[:-1], 0]), max))[::-1]
    logs = [
        (math.log(each) if base is None else base(rung)) - draw.rate * score / WHOLE_WEIGHT
        for rung, each, score in zip(draw.rungs, draw.bases(), beyond, strict=True)
    ]
    found = np.array(logs)
    law: Law = found - np.log(np.exp(found - found.max()).sum()) - found.max()
    return law


def joint_law(draw: ValueBounds, units: Sequence[Unit], **base: Callable[[int], float]) -> Law:
    """The logarithms of what size and signs are drawn with together."""
    above, below = (weights(units, draw, sign) for sign in (1, -1))
    sizes = log_law(draw.size, [sum(pair) for pair in zip(above, below, strict=True)], **base)
    laws = []
    for size, target, log in zip(draw.size.rungs, draw.size.targets, sizes, strict=True):
        sign = replace(draw.sign, targets=(target, 0))
        signs = [log_law(sign, [side[0], sum(side[1:]), 0]) for side in (above, below)]
        laws.append(log + np.add.outer(*signs).ravel() if size else np.array([log]))
    return np.concatenate(laws)


def neighbours() -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Some units, few or many alike, and the same with one more."""
    some: list[Unit] = [(1.0,), (3.0, -9.0), (-2.0,), (9.0, 9.0, 0.0)]
    for few in itertools.chain(
        [()], itertools.combinations(some, 1), itertools.combinations(some, 2)
    ):
        for often in (1, 3, 40):
            without = list(few) * often
            for unit in [*some, (9.0,), (-9.0,), (0.0,), ()]:
                yield without, [*without, unit]


@pytest.mark.slow
@pytest.mark.parametrize("draw", [SMALL, BESIDE_ERROR])
def test_divergences_are_within_the_price_of_both_draws(draw: ValueBounds) -> None:
    widest = 0.0
    for without, with_unit in neighbours():
        p, q = joint_law(draw, without), joint_law(draw, with_unit)
        for order in ORDERS:
            divergence = max(renyi(p, q, order), renyi(q, p, order)) / order
            widest = max(widest, divergence)
            assert divergence <= SMALL.loss.rho * (1 + 1e-9)
    assert SMALL.loss.rho == pytest.approx(3 * PRICE.rho)
    assert widest > PRICE.rho / 2


@pytest.mark.slow
def test_broken_twins_are_noticed() -> None:
    """A base measure that begins at the largest value, and that value in the draw's place."""

    def worst(law: Callable[[Sequence[Unit]], Law]) -> float:
        return max(
            max(renyi(law(one), law(other), 2.0), renyi(law(other), law(one), 2.0)) / 2
            for one, other in neighbours()
        )

    def from_data(units: Sequence[Unit]) -> Law:
        largest = max((value for unit in units for value in unit), default=0.0)
        return joint_law(SMALL, units, base=lambda rung: -2.5 * abs(rung - largest))

    def true_maximum(units: Sequence[Unit]) -> Law:
        exact = weights(units, SMALL, 1)
        places = [place for place, weight in enumerate(exact) if weight]
        law = np.full(len(exact), 1e-6)
        law[max(places, default=0)] = 1.0
        logs: Law = np.log(law / law.sum())
        return logs

    assert worst(lambda units: joint_law(SMALL, units)) <= SMALL.loss.rho
    assert worst(from_data) > 2 * SMALL.loss.rho
    assert worst(true_maximum) > 2 * SMALL.loss.rho


@pytest.mark.parametrize(
    "price", [PrivacyLoss(0.1), PrivacyLoss(0.1, gaussian=True), PrivacyLoss(epsilon=0.5)]
)
def test_each_draw_costs_what_it_was_built_for(price: PrivacyLoss) -> None:
    asked = price.rho or price.epsilon
    draw = value_bounds(price, price, 5.0, whole=False)
    assert asked * (1 - 1e-6) <= draw.size.cost(price.composition, None) <= asked
    assert draw.loss == price + price + price
    with pytest.raises(ParameterError):
        value_bounds(PrivacyLoss(), PRICE, 5.0, whole=False)


def test_ladders_follow_from_the_type_alone() -> None:
    whole, any_number = (value_bounds(PRICE, PRICE, 5.0, whole=each) for each in (True, False))
    assert whole.sizes[:8] == (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
    assert any_number.sizes[:4] == (0.0, 2.0**-10, 2.0**-9, 3 * 2.0**-10)
    assert whole.sizes[-1] == any_number.sizes[-1] == 2.0**49
    assert whole.most.values == ((-(2.0**49), 2.0**49),)


UNITS = 2000
SHAPES: dict[str, Callable[[np.random.Generator], Law]] = {
    "uniform": lambda rng: rng.uniform(0, 100, UNITS),
    "parts": lambda rng: rng.uniform(0, 1, UNITS),
    "constant": lambda rng: np.full(UNITS, 5.0),
    "lognormal": lambda rng: np.exp(rng.normal(3, 1, UNITS)),
    "Pareto": lambda rng: 10 * (rng.pareto(1.5, UNITS) + 1),
    "of both signs": lambda rng: rng.normal(-20, 50, UNITS),
}


def drawn_bounds(values: Law, draws: int, *, whole: bool = False) -> list[tuple[float, float]]:
    """The bounds that are drawn for a total of one value of each unit, at ε 1."""
    rho = 1 / 50
    draw = value_bounds(
        PrivacyLoss(0.14 * rho), PrivacyLoss(0.03 * rho), rows_target(1, 1, 5.0), whole=whole
    )
    exact = []
    for sign in (1, -1):
        places = np.searchsorted(np.array(draw.sizes), sign * values, side="left")
        counts = np.bincount(places, minlength=len(draw.sizes) + 1)
        exact.append([int(count) * WHOLE_WEIGHT for count in counts])
    source = SeededSource(7)
    return [draw.draw(exact[0], exact[1], source).values[0] for _ in range(draws)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_of_a_sum_is_near_that_of_the_best_bounds_in_hindsight(shape: str) -> None:
    values, sigma = SHAPES[shape](np.random.default_rng(3)), 5.0

    def error(bounds: tuple[float, float], sigma: float = sigma) -> float:
        cut = np.abs(values - np.clip(values, *bounds)).sum()
        return math.hypot(cut, sigma * max(-bounds[0], bounds[1]))

    ends = [0.0, *(2.0**k for k in range(-4, 16)), *np.quantile(np.abs(values), (0.9, 0.99, 1.0))]
    best = min(error((-low, high)) for low in ends for high in ends)
    found = [error(bounds, sigma / math.sqrt(0.8)) for bounds in drawn_bounds(values, 200)]
    assert np.mean(found) < 2.6 * best
    assert error((-(2.0**20), 2.0**20)) > 20 * best  # it matters which


def test_what_a_bound_may_cut_beside_an_error_falls_with_it() -> None:
    assert [target / WHOLE_WEIGHT for target in _FALLING] == [8.0, 8.0, 4.0, 2.0]
    units = [(50.0,)] * UNITS
    for error, cut in ((1e2, False), (1e6, True)):
        draw = value_bounds(PrivacyLoss(0.02), PrivacyLoss(0.01), error, whole=False, falling=True)
        above, below = (weights(units, draw, sign) for sign in (1, -1))
        ((_, upper),) = draw.draw(above, below, SeededSource(5)).values
        assert (upper < 50) == cut


@pytest.mark.slow
def test_values_of_one_sign_have_zero_as_the_other_bound() -> None:
    values = np.arange(1.0, 101.0).repeat(20)
    assert sum(lower == 0.0 for lower, _ in drawn_bounds(values, 60)) > 45
    assert sum(upper == 0.0 for _, upper in drawn_bounds(-values, 60)) > 45
    assert {bounds for bounds in drawn_bounds(np.zeros(0), 40) if bounds[1] > 1} == set()

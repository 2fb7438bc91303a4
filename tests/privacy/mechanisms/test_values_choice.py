"""The draw of a number of distinct values: its law, its privacy loss, and what it chooses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers.laws import ORDERS, SeededSource, chi_square_p, renyi
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import (
    POWER_OF_SHARED,
    WHOLE_WEIGHT,
    BoundDraw,
    bound_draw,
    ladder,
)

RUNGS = (1, 8, 16)
PRICE = PrivacyLoss(0.2**2 / 8)
Unit = tuple[tuple[int, ...], ...]  # the values of a unit in each of its groups, in its own order
Law = NDArray[np.float64]


def draw_of(
    rungs: Sequence[int] = RUNGS, target: float = 0.0, price: PrivacyLoss = PRICE
) -> BoundDraw:
    return bound_draw(price, rungs, POWER_OF_SHARED, [target] * len(rungs), shared=True)


def divided(unit: Unit) -> float:
    """What each value of a unit weighs."""
    return 1 / len(unit)


def named(
    units: Sequence[Unit], rungs: Sequence[int], weight: Callable[[Unit], float] = divided
) -> list[float]:
    """The definition: what is named up to each rung, by the heaviest unit of each value."""
    found = []
    for rung in rungs:
        heaviest: dict[tuple[int, int], float] = {}
        for unit in units:
            for group, values in enumerate(unit):
                for value in values[:rung]:
                    here = group, value
                    heaviest[here] = max(heaviest.get(here, 0.0), weight(unit))
        found.append(sum(heaviest.values()))
    return found


def weights(units: Sequence[Unit], rungs: Sequence[int] = RUNGS) -> list[int]:
    """What a draw is given: what each rung names beyond the ones before, and what none does."""
    most = max((len(values) for unit in units for values in unit), default=0)
    up_to = [0.0, *named(units, (*rungs, max(most, rungs[-1])))]
    return [round((more - less) * WHOLE_WEIGHT) for less, more in pairwise(up_to)]


def as_a_part(besides: float, rung: int, larger: int) -> float:
    return besides / max(larger, 2 * rung)


def log_law(
    choice: BoundDraw,
    units: Sequence[Unit],
    part: Callable[[float, int, int], float] = as_a_part,
    weight: Callable[[Unit], float] = divided,
    divisor: float = 1.5,
) -> Law:
    """The logarithms of what each rung is drawn with, by the formula."""
    found = named(units, choice.rungs, weight)
    exponents = []
    for i, rung in enumerate(choice.rungs):
        target = choice.targets[i] / WHOLE_WEIGHT
        parts = [
            part(found[j] - found[i] - target * (larger - rung), rung, larger)
            for j, larger in enumerate(choice.rungs)
            if larger > rung
        ]
        base = math.log(math.isqrt(rung**choice.power))
        exponents.append(-base - choice.rate / divisor * max([0.0, *parts]))
    law = np.array(exponents)
    law -= law.max()
    normal: Law = law - np.log(np.exp(law).sum())
    return normal


def neighbours() -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Some units, and the same with one more."""
    one: Unit = ((1, *range(22, 29), *range(2, 9)),)
    yield [one], [one, (tuple(range(1, 9)),)]
    new = (tuple(range(100, 116)),)
    yield [], [new]
    yield [new], [new, (tuple(range(200, 216)),)]
    yield [one], [one, (one[0], new[0], one[0])]
    rng = np.random.default_rng(4)

    def some() -> Unit:
        sizes = rng.choice((1, 3, 9, 16, 20), size=rng.integers(1, 4))
        return tuple(tuple(rng.permutation(24)[:size].tolist()) for size in sizes)

    for _ in range(60):
        without = [some() for _ in range(rng.integers(0, 5))]
        yield without, [*without, some()]


def spread(choice: BoundDraw, **broken: Any) -> float:
    """The widest range of the privacy loss between neighbours."""
    losses = [
        log_law(choice, without, **broken) - log_law(choice, with_unit, **broken)
        for without, with_unit in neighbours()
    ]
    return max(float(loss.max() - loss.min()) for loss in losses)


@pytest.mark.parametrize("target", [0.0, 0.3])
def test_the_privacy_loss_has_the_stated_range(target: float) -> None:
    choice = draw_of(target=target)
    widest = spread(choice)
    assert widest <= choice.rate * (1 + 1e-9)
    assert target or widest > 0.85 * choice.rate


def test_divergences_are_within_the_price() -> None:
    for choice in (draw_of(), draw_of((1, 2, 3, 4, 6), 0.3)):
        for without, with_unit in neighbours():
            p, q = log_law(choice, without), log_law(choice, with_unit)
            for order in ORDERS:
                worst = max(renyi(p, q, order), renyi(q, p, order))
                assert worst <= order * choice.cost(Composition.ZCDP, None) * (1 + 1e-9)


def test_broken_twins_are_noticed() -> None:
    """What is lost in all, as a part of the distance, or at the rate of a range of one."""
    choice = draw_of()
    assert spread(choice, part=lambda besides, _rung, _larger: besides) > 8 * choice.rate
    by_distance = spread(choice, part=lambda b, rung, larger: b / (larger - rung))
    assert by_distance > 1.1 * choice.rate
    assert spread(choice, divisor=1.0) > 1.2 * choice.rate
    assert spread(choice, weight=lambda _unit: 1.0) > 1.2 * choice.rate


@pytest.mark.slow
def test_what_is_drawn_has_the_law() -> None:
    units = [(tuple(range(9)),), ((3, 2, 1), tuple(range(20))), (tuple(range(40, 57)),)] * 2
    for choice in (draw_of(), draw_of((1, 2, 4, 8), 0.5, PrivacyLoss(0.5))):
        law = np.exp(log_law(choice, units))
        source, exact = SeededSource(5), weights(units, choice.rungs)
        drawn = Counter(choice.draw(exact, source) for _ in range(4000))
        assert chi_square_p(drawn, dict(zip(choice.rungs, law.tolist(), strict=True))) > 1e-3
        wrong = dict(zip(choice.rungs, np.roll(law, 1).tolist(), strict=True))
        assert chi_square_p(drawn, wrong) < 1e-6


def of_units(lists: Sequence[Sequence[int]]) -> list[int]:
    """The weights of units in one group, by the first place of each value."""
    rungs, first = ladder(), dict[int, int]()
    for values in lists:
        for place, value in enumerate(values, 1):
            first[value] = min(place, first.get(value, place))
    places = Counter(int(np.searchsorted(rungs, place)) for place in first.values())
    return [WHOLE_WEIGHT * places[place] for place in range(len(rungs) + 1)]


@pytest.mark.slow
def test_values_that_units_share_take_a_small_number_and_others_as_many_as_units_have() -> None:
    rng = np.random.default_rng(2)
    shared = of_units([rng.permutation(40).tolist() for _ in range(3000)])
    apart = of_units([range(40 * unit, 40 * unit + 40) for unit in range(3000)])
    choice = draw_of(ladder(), 5.0, PrivacyLoss(0.004))
    drawn = [choice.draw(shared, SeededSource(seed)) for seed in range(40)]
    assert np.median(drawn) <= 2
    drawn = [choice.draw(apart, SeededSource(seed)) for seed in range(40)]
    assert min(drawn) == 45
    assert np.median(drawn) <= 64


@pytest.mark.slow
def test_its_error_is_near_that_of_the_best_number_in_hindsight() -> None:
    """Totals of values that few units hold, where noise and what is lost weigh alike."""
    rng, sigma = np.random.default_rng(7), 5.6
    sizes = np.ceil(5 * rng.pareto(1.5, size=4000) + 1).astype(int)
    exact = of_units([rng.integers(0, 20_000, size=n) ** 2 // 20_000 for n in sizes])
    rungs, up_to = ladder(), np.cumsum(exact) / WHOLE_WEIGHT

    def error(number: int, sigma: float) -> float:
        return math.hypot(up_to[-1] - up_to[rungs.index(number)], number * sigma)

    choice = draw_of(rungs, sigma, PrivacyLoss(0.25 / (2 * sigma**2)))
    drawn = [error(choice.draw(exact, SeededSource(n)), sigma / 0.75**0.5) for n in range(300)]
    best = min(error(rung, sigma) for rung in rungs)
    assert np.mean(drawn) < 3.0 * best
    assert np.mean([error(rung, sigma) for rung in rungs[:24]]) > 6 * best


@pytest.mark.slow
def test_a_maximum_error_lets_less_be_lost_than_noise_of_a_rung() -> None:
    """Its targets fall with the rung: what is lost in all is held against one allowance."""
    rungs = ladder()
    falling = [200.0 / rung for rung in rungs]
    choice = bound_draw(
        PrivacyLoss(1.0), rungs, POWER_OF_SHARED, falling, lasting=True, shared=True
    )
    apart = of_units([range(20 * unit, 20 * unit + 20) for unit in range(3000)])
    few = of_units([range(2), range(10, 160)])
    assert min(choice.draw(apart, SeededSource(seed)) for seed in range(20)) == 23
    assert np.median([choice.draw(few, SeededSource(seed)) for seed in range(40)]) <= 2

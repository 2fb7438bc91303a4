"""The draws of contribution bounds: their law, price by exact divergence, and what they choose."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from helpers.laws import ORDERS, SeededSource, chi_square_p, renyi
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms import bounds_choice as module
from dpsql.privacy.mechanisms.bounds_choice import (
    BASE_OF_NONE,
    NONE,
    POWER_OF_GROUPS,
    POWER_OF_NAMED,
    POWER_OF_ROWS,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
    FoundBounds,
    bound_draw,
    groups_target,
    ladder,
    rows_target,
    weight_in_steps,
)

RUNGS = (1, 2, 4, 8)
PRICE = PrivacyLoss(0.2**2 / 8)
Unit = tuple[int, ...]  # the rows of a unit in each of its groups
Law = NDArray[np.float64]


def draw_of(
    price: PrivacyLoss, rungs: Sequence[int], target: float, power: int = POWER_OF_ROWS
) -> BoundDraw:
    """A draw with one target for all rungs but that for too few units."""
    targets = [target if rung else 0.0 for rung in rungs]
    return bound_draw(price, rungs, power, targets, base_of_zero=BASE_OF_NONE)


def weights(
    units: Sequence[Unit], rungs: Sequence[int] = RUNGS, *, of_groups: bool = False
) -> list[int]:
    """The definition: pairs by the rungs below their rows, each with its part of its unit.

    Or by the rungs below the number of groups of their unit.
    """
    found = [0] * (len(rungs) + 1)
    for unit in units:
        for rows in unit:
            number = len(unit) if of_groups else rows
            found[sum(rung < number for rung in rungs)] += WHOLE_WEIGHT // len(unit)
    return found


def log_law(
    choice: BoundDraw,
    units: Sequence[Unit],
    score: Callable[[float, float], float] = lambda over, target: max(0.0, over - target),
    several: Callable[[Sequence[float]], float] = max,
) -> Law:
    """The logarithms of what each rung is drawn with, by the formula."""
    of_groups = choice.power == POWER_OF_GROUPS
    sums = list(accumulate(reversed(weights(units, choice.rungs, of_groups=of_groups))))[::-1]
    free = float(choice.part) * sums[0]
    scores = [
        score((over - free) / WHOLE_WEIGHT, target / WHOLE_WEIGHT)
        for over, target in zip(sums[1:], choice.targets, strict=True)
    ]
    scores[-1] = 0.0
    if choice.lasting:
        scores = [several(scores[place:]) for place in range(len(scores))]
    bases = [
        -math.log(math.isqrt(r**choice.power)) if r else math.log(choice.base_of_zero)
        for r in choice.rungs
    ]
    found = np.array(bases) - choice.rate * np.array(scores)
    law: Law = found - np.log(np.exp(found - found.max()).sum()) - found.max()
    return law


def neighbours() -> Iterator[tuple[list[Unit], list[Unit]]]:
    """Some units, few or many alike, and the same with one more, of one to three groups."""
    some: list[Unit] = [(1,), (3,), (9,), (1, 9), (2, 3, 5)]
    for few in itertools.chain(
        [()], itertools.combinations(some, 1), itertools.combinations(some, 2)
    ):
        for often in (1, 3, 40):
            without = list(few) * often
            for unit in [*some, (2,), (5,), (9, 9), (1, 1, 9), ()]:
                yield without, [*without, unit]


# -- what it guarantees -----------------------------------------------------------------------


def spreads(choice: BoundDraw, **broken: Callable[..., float]) -> float:
    """The widest range of the privacy loss between neighbours."""
    widest = 0.0
    for without, with_unit in neighbours():
        loss = log_law(choice, without, **broken) - log_law(choice, with_unit, **broken)
        widest = max(widest, float(loss.max() - loss.min()))
    return widest


@pytest.mark.parametrize("rungs", [RUNGS[:3], (NONE, *RUNGS[:3])])
@pytest.mark.parametrize("power", [POWER_OF_ROWS, POWER_OF_GROUPS])
@pytest.mark.parametrize("target", [0.0, 0.4, 1.0, 3.5])
def test_the_privacy_loss_has_the_stated_range(
    target: float, power: int, rungs: tuple[int, ...]
) -> None:
    choice = draw_of(PRICE, rungs, target, power)
    assert choice.rate * (1 - 1e-9) <= spreads(choice) <= choice.rate * (1 + 1e-9)


def test_the_worst_of_several_falling_targets_has_the_range_of_one_and_their_sum_has_more() -> None:
    aims = [4.0, 2.0, 1.0, 0.5]
    choice = bound_draw(PRICE, RUNGS, POWER_OF_ROWS, aims, lasting=True)
    assert spreads(choice) <= choice.rate * (1 + 1e-9)
    assert spreads(choice) > 0.9 * choice.rate
    assert spreads(choice, several=sum) > 1.9 * choice.rate


@pytest.mark.parametrize("part", [Fraction(1, 5), Fraction(2, 5)])
def test_a_part_of_all_weight_that_is_free_leaves_the_range_as_it_is(part: Fraction) -> None:
    """That of a score of both sides would be wider: a unit moves it up at some rungs only."""
    choice = bound_draw(PRICE, (1, 2, 3), POWER_OF_GROUPS, [0.0] * 3, part=part)
    assert 0.9 * choice.rate < spreads(choice) <= choice.rate * (1 + 1e-9)
    two_sided = spreads(choice, score=lambda over, target: abs(over - target))
    assert two_sided > 1.1 * choice.rate


def test_with_a_free_part_the_number_follows_the_quantile_of_units() -> None:
    units: list[Unit] = [(1,) * groups for groups in range(1, 11)] * 60
    choice = bound_draw(
        PrivacyLoss(0.5), range(1, 11), POWER_OF_NAMED, [0.0] * 10, part=Fraction(2, 5)
    )
    exact = weights(units, choice.rungs, of_groups=True)
    drawn = Counter(choice.draw(exact, SeededSource(seed)) for seed in range(40))
    assert min(drawn) == drawn.most_common(1)[0][0] == 6


def test_few_pairs_with_many_rows_count_where_targets_fall() -> None:
    """A tail that is within its target here, and not further on, cuts more than it seems."""
    units: list[Unit] = [(8,)] * 300
    falling = [600.0 / rung for rung in RUNGS]
    lasting = bound_draw(PrivacyLoss(0.5), RUNGS, POWER_OF_ROWS, falling, lasting=True)
    found = {lasting.draw(weights(units), SeededSource(seed)) for seed in range(40)}
    assert found == {8}
    alone = replace(lasting, lasting=False)
    assert 1 in {alone.draw(weights(units), SeededSource(seed)) for seed in range(40)}


def test_divergences_are_within_the_price() -> None:
    for choice in (
        bound_draw(PRICE, RUNGS, POWER_OF_ROWS, [4.0, 2.0, 1.0, 0.5], lasting=True),
        draw_of(PRICE, RUNGS, 1.0),
        draw_of(PRICE, (NONE, *RUNGS), 1.0),
        bound_draw(PRICE, RUNGS, POWER_OF_GROUPS, [1.0, 0.7, 0.5, 0.3]),
    ):
        for without, with_unit in neighbours():
            p, q = log_law(choice, without), log_law(choice, with_unit)
            for order in ORDERS:
                worst = max(renyi(p, q, order), renyi(q, p, order))
                assert worst <= order * choice.cost(Composition.ZCDP, None) * (1 + 1e-9)


def joint_law(choice: BoundsChoice, units: Sequence[Unit]) -> Law:
    """The logarithms of what both bounds are drawn with: those of groups, then of rows."""
    assert choice.groups is not None
    assert choice.rows is not None
    parts = [
        of_groups + log_law(replace(choice.rows, targets=(target,) * len(choice.rows.rungs)), units)
        for of_groups, target in zip(log_law(choice.groups, units), choice.targets, strict=True)
    ]
    return np.concatenate(parts)


def both() -> BoundsChoice:
    """Draws of both bounds, at one price each."""
    groups = bound_draw(PRICE, (1, 2, 3), POWER_OF_GROUPS, [0.7, 0.5, 0.3])
    targets = tuple(weight_in_steps(target) for target in (2.0, 1.0, 0.5))
    return BoundsChoice(groups, draw_of(PRICE, RUNGS, 1.0), targets)


@pytest.mark.slow
def test_two_draws_of_one_reading_cost_the_sum_of_their_prices() -> None:
    """One price would not do: a unit moves the weights by rows and those by groups."""
    choice, widest = both(), 0.0
    assert choice.loss.rho == pytest.approx(2 * PRICE.rho)
    for without, with_unit in neighbours():
        p, q = joint_law(choice, without), joint_law(choice, with_unit)
        for order in ORDERS:
            divergence = max(renyi(p, q, order), renyi(q, p, order)) / order
            widest = max(widest, divergence)
            assert divergence <= choice.loss.rho * (1 + 1e-9)
    assert widest > PRICE.rho


def test_broken_twins_are_noticed() -> None:
    """A score of both sides has twice the range; a base or a target from the data has more."""
    choice = draw_of(PRICE, RUNGS, 1.0)
    two_sided = spreads(choice, score=lambda over, target: abs(over - target))
    assert two_sided > 1.9 * choice.rate
    from_data = 0.0
    for without, with_unit in neighbours():
        laws = [
            log_law(replace(choice, targets=(len(units) * WHOLE_WEIGHT // 2,) * len(RUNGS)), units)
            + np.log1p(len(units)) * np.arange(len(RUNGS))
            for units in (without, with_unit)
        ]
        loss = laws[0] - laws[1]
        from_data = max(from_data, float(loss.max() - loss.min()))
    assert from_data > 1.9 * choice.rate


@pytest.mark.parametrize("part", [1e-4, 0.03, 1.0])
@pytest.mark.parametrize(
    "price", [PrivacyLoss(0.1), PrivacyLoss(0.1, gaussian=True), PrivacyLoss(epsilon=0.5)]
)
def test_it_costs_what_it_was_built_for_and_little_less(price: PrivacyLoss, part: float) -> None:
    one = replace(price, rho=price.rho * part, epsilon=price.epsilon * part)
    asked = one.rho or one.epsilon
    choice = draw_of(one, ladder(), 10.0)
    assert asked * (1 - 1e-6) <= choice.cost(one.composition, None) <= asked
    assert choice.loss == one


def test_nothing_is_built_for_nothing() -> None:
    for price in (PrivacyLoss(), PrivacyLoss(gaussian=True)):
        with pytest.raises(ParameterError):
            draw_of(price, RUNGS, 1.0)


# -- what is drawn ----------------------------------------------------------------------------

DATA: dict[str, list[Unit]] = {
    "none": [],
    "few": [(9,), (3,), (1, 1)],
    "many": [*[(9,)] * 50, *[(2, 3)] * 30, *[(1,)] * 400],
    "all large": [(100, 100)] * 300,
}


@pytest.mark.slow
@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("power", [POWER_OF_ROWS, POWER_OF_GROUPS])
@pytest.mark.parametrize("data", DATA)
def test_what_is_drawn_has_the_law(
    data: str, power: int, rough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with wide errors ascribed to float64, by which nearly all draws are decided exactly."""
    if rough:
        monkeypatch.setattr(module, "_SLACK", 0.2)
        monkeypatch.setattr(module, "_STRIPS", 5)
    falling = power == POWER_OF_GROUPS
    targets = [2.0, 1.5, 1.0, 0.5] if falling else [2.0] * len(RUNGS)
    part = Fraction(1, 5) if falling else Fraction(0)
    price = PrivacyLoss(0.5**2 / 8)
    choice = bound_draw(price, RUNGS, power, targets, lasting=falling, part=part)
    law = np.exp(log_law(choice, DATA[data]))
    source = SeededSource(5)
    exact = weights(DATA[data], of_groups=power == POWER_OF_GROUPS)
    drawn = Counter(choice.draw(exact, source) for _ in range(4000))
    assert chi_square_p(drawn, dict(zip(RUNGS, law.tolist(), strict=True))) > 1e-3
    wrong = dict(zip(RUNGS, np.roll(law, 1).tolist(), strict=True))
    assert chi_square_p(drawn, wrong) < 1e-6


def test_huge_tails_are_drawn_from_as_well() -> None:
    choice = draw_of(PrivacyLoss(1.0), ladder(), 5.0)
    huge = [2**60 // 100] * (len(choice.rungs) + 1)
    assert choice.draw(huge, SeededSource(1)) == choice.rungs[-1]
    nothing = [0] * (len(choice.rungs) + 1)
    assert {choice.draw(nothing, SeededSource(seed)) for seed in range(20)} <= {1, 2, 3, 4}


def test_a_draw_says_that_there_are_too_few_units_and_only_then() -> None:
    """Over no rows once in a million times; with two hundred units a number comes out."""
    choice = draw_of(PrivacyLoss(0.2**2 / 8), (NONE, *ladder()), 20.0)
    none = np.exp(log_law(choice, []))[0]
    assert 1 - 1e-5 < none < 1
    for number in (2, 10):
        assert np.exp(log_law(choice, [(3,)] * number))[0] > 0.99
    assert np.exp(log_law(choice, [(3,)] * 250))[0] < 1e-8
    assert {choice.draw(weights([], choice.rungs), SeededSource(n)) for n in range(9)} == {NONE}
    many = weights([(3,)] * 500, choice.rungs)
    assert {choice.draw(many, SeededSource(seed)) for seed in range(9)} <= {3, 4}


def test_where_a_ladder_ends_below_what_units_have_its_end_is_drawn() -> None:
    """All of its rungs cut alike: the last one lets most rows through."""
    units: list[Unit] = [(40,)] * 3000
    choice = draw_of(PRICE, ladder(20), 20.0)
    assert {choice.draw(weights(units, choice.rungs), SeededSource(n)) for n in range(9)} == {20}


# -- the ladder, and what it chooses ----------------------------------------------------------


def test_a_ladder_reaches_its_end_in_steps_of_the_root_of_two() -> None:
    rungs = ladder()
    assert rungs[:8] == (1, 2, 3, 4, 6, 8, 11, 16)
    assert rungs[-1] == module.MOST_CHOSEN
    assert all(1.3 < above / below < 1.5 for below, above in pairwise(rungs) if below > 4)
    assert ladder(1) == (1,)
    assert ladder(7) == (1, 2, 3, 4, 6, 7)
    assert ladder(10**9)[-1] == module.MOST_CHOSEN


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("shape", [1.2, 2.5])
def test_its_error_is_near_that_of_the_best_number_in_hindsight(
    epsilon: float, shape: float
) -> None:
    """Counts of 12 groups, of units in one of them, with heavy and with light tails."""
    rng, groups = np.random.default_rng(7), 12
    rho = epsilon**2 / 50
    rows = np.ceil(8 * rng.pareto(shape, size=5000) + 1).astype(np.int64)
    sigma = 1 / math.sqrt(2 * rho)

    def error(cap: int, sigma: float) -> float:
        cut = float(np.maximum(rows - cap, 0).sum()) / groups
        return math.hypot(cut, cap * sigma)

    choice = draw_of(PrivacyLoss(0.05 * rho), ladder(), rows_target(groups, 1, sigma))
    exact = weights([(int(r),) for r in rows], choice.rungs)
    source = SeededSource(11)
    drawn = [error(choice.draw(exact, source), sigma / math.sqrt(0.95)) for _ in range(300)]
    best = min(error(rung, sigma) for rung in choice.rungs)
    assert np.mean(drawn) < 1.35 * best
    assert np.mean([error(rung, sigma) for rung in choice.rungs]) > 3 * best  # it matters which


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("usual", [1, 3, 16])
def test_a_number_of_groups_is_near_the_best_in_hindsight(epsilon: float, usual: int) -> None:
    """Counts of units by 16 groups, where units are in one, some three or all of them."""
    rng, size, rho = np.random.default_rng(7), 16, epsilon**2 / 50
    of_units = np.minimum(size, rng.geometric(1 / usual, size=4000) if usual < size else size)
    of_units = np.broadcast_to(of_units, 4000)
    sigma = 1 / math.sqrt(2 * rho)

    def error(cap: int, sigma: float) -> float:
        cut = float(np.maximum(of_units - cap, 0).sum()) / size
        return math.hypot(cut, math.sqrt(cap) * sigma)

    rungs = ladder(size)
    targets = [groups_target(size, each, sigma) for each in rungs]
    choice = bound_draw(PrivacyLoss(0.1 * rho), rungs, POWER_OF_GROUPS, targets)
    exact = weights([(1,) * int(n) for n in of_units], rungs, of_groups=True)
    source = SeededSource(11)
    drawn = [error(choice.draw(exact, source), sigma / math.sqrt(0.9)) for _ in range(300)]
    best = min(error(rung, sigma) for rung in rungs)
    assert np.mean(drawn) < 1.5 * best
    assert max(error(rung, sigma) for rung in rungs) > 3 * best  # it matters which


def test_both_bounds_are_drawn_and_those_of_rows_aim_by_the_groups() -> None:
    choice, units = both(), [(8, 8, 8)] * 500
    of_rows, of_groups = weights(units), weights(units, (1, 2, 3), of_groups=True)
    drawn = choice.draw(of_rows, of_groups, SeededSource(3))
    assert drawn == FoundBounds(8, 3)
    alone = replace(choice, rows=None)
    assert alone.draw([], of_groups, SeededSource(3)) == FoundBounds(None, 3)
    assert choice.most == FoundBounds(8, 3)
    assert replace(choice, groups=None).most == FoundBounds(8, None)


def test_what_a_draw_supposedly_cuts_is_its_target_and_its_error() -> None:
    choice = both()
    assert choice.rows is not None
    beyond = 2.5 / choice.rows.rate
    for place, groups in enumerate((1, 2, 3)):
        target = choice.targets[place] / WHOLE_WEIGHT
        assert choice.weight_cut(groups, 1) == pytest.approx(target + beyond)
    assert replace(choice, rows=None).weight_cut(1, 1) == 0.0


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_of_the_weight_that_is_untold_a_number_is_as_likely_as_one_of_32_times(rows: int) -> None:
    rungs = ladder(32 * rows)
    draw = bound_draw(PrivacyLoss(0.001), rungs, POWER_OF_ROWS, [5.0] * len(rungs))
    choice = BoundsChoice(None, draw, (5 * WHOLE_WEIGHT,))
    untold = choice.weight_untold(1)
    law = log_law(draw, [(32 * rows,)] * round(untold))
    assert law[rungs.index(rows)] == pytest.approx(law[-1], abs=draw.rate)
    more = log_law(draw, [(32 * rows,)] * (2 * round(untold)))
    assert more[rungs.index(rows)] < more[-1] - 5
    assert replace(choice, rows=None).weight_untold(1) == 0.0


@pytest.mark.slow
def test_a_draw_among_heavy_tails_seldom_cuts_more_than_it_supposedly_does() -> None:
    """Pareto numbers of rows in a single group, with exponents of 2 to 4."""
    rng, source, cut = np.random.default_rng(5), SeededSource(4), []
    for exponent in (2.0, 3.0, 4.0):
        of_units = np.floor(rng.pareto(exponent, size=20_000) + 1)
        draw = bound_draw(
            PrivacyLoss(0.01), ladder(10**6), POWER_OF_ROWS, [10.0] * len(ladder(10**6))
        )
        choice = BoundsChoice(None, draw, (10 * WHOLE_WEIGHT,))
        exact = weights([(int(n),) for n in of_units], draw.rungs)
        for _ in range(100):
            drawn = choice.draw(exact, [], source).rows
            cut.append(float((of_units > drawn).sum()) / choice.weight_cut(1, drawn or 0))
    assert np.mean(np.array(cut) <= 1) > 0.8
    assert np.mean(np.array(cut) <= 0.2) < 0.5  # nor much less


def test_a_target_is_what_the_noise_wants() -> None:
    assert draw_of(PRICE, RUNGS, 1e6).targets == (10**6 * WHOLE_WEIGHT,) * len(RUNGS)
    assert rows_target(16, 16, 5.0) == pytest.approx(4 * 5.0)
    assert rows_target(16, 1, 5.0) == pytest.approx(16 * 5.0)
    assert groups_target(16, 4, 5.0) == pytest.approx(0.1 * 8 * 5.0)

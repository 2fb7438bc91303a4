"""The draw of a number of rows: its law, its price by exact divergence, and what it chooses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
from helpers.laws import ORDERS, SeededSource, chi_square_p, renyi
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms import rows_choice as module
from dpsql.privacy.mechanisms.rows_choice import (
    WHOLE_WEIGHT,
    RowsChoice,
    ladder,
    rows_choice,
    usual_target,
)

RUNGS = (1, 2, 4, 8)
PRICE = PrivacyLoss(0.2**2 / 8)
Unit = tuple[int, ...]  # the rows of a unit in each of its groups
Law = NDArray[np.float64]


def weights(units: Sequence[Unit], rungs: Sequence[int] = RUNGS) -> list[int]:
    """The definition: pairs by the rungs below their rows, each with its part of its unit."""
    found = [0] * (len(rungs) + 1)
    for unit in units:
        for rows in unit:
            found[sum(rung < rows for rung in rungs)] += WHOLE_WEIGHT // len(unit)
    return found


def log_law(
    choice: RowsChoice,
    units: Sequence[Unit],
    score: Callable[[float, float], float] = lambda over, target: max(0.0, over - target),
    base: Callable[[int], float] = lambda rows: rows**-5.0,
) -> Law:
    """The logarithms of what each rung is drawn with, by the formula."""
    sums = list(accumulate(reversed(weights(units, choice.rungs))))[::-1]
    logs = [
        math.log(base(rung))
        - choice.rate * score(over / WHOLE_WEIGHT, choice.target / WHOLE_WEIGHT)
        for rung, over in zip(choice.rungs, sums[1:], strict=True)
    ]
    found = np.array(logs)
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


def spreads(choice: RowsChoice, **broken: Callable[..., float]) -> float:
    """The widest range of the privacy loss between neighbours."""
    widest = 0.0
    for without, with_unit in neighbours():
        loss = log_law(choice, without, **broken) - log_law(choice, with_unit, **broken)
        widest = max(widest, float(loss.max() - loss.min()))
    return widest


@pytest.mark.parametrize("target", [0.0, 0.4, 1.0, 3.5])
def test_the_privacy_loss_has_the_stated_range(target: float) -> None:
    choice = replace(rows_choice(PRICE, RUNGS, 1.0), target=round(target * WHOLE_WEIGHT))
    assert choice.rate * (1 - 1e-9) <= spreads(choice) <= choice.rate * (1 + 1e-9)


def test_divergences_are_within_the_price() -> None:
    choice = replace(rows_choice(PRICE, RUNGS, 1.0), target=WHOLE_WEIGHT)
    for without, with_unit in neighbours():
        p, q = log_law(choice, without), log_law(choice, with_unit)
        for order in ORDERS:
            worst = max(renyi(p, q, order), renyi(q, p, order))
            assert worst <= order * choice.cost(Composition.ZCDP, None) * (1 + 1e-9)


def test_broken_twins_are_noticed() -> None:
    """A score of both sides has twice the range; a base or a target from the data has more."""
    choice = replace(rows_choice(PRICE, RUNGS, 1.0), target=WHOLE_WEIGHT)
    two_sided = spreads(choice, score=lambda over, target: abs(over - target))
    assert two_sided > 1.9 * choice.rate
    from_data = 0.0
    for without, with_unit in neighbours():
        laws = [
            log_law(replace(choice, target=len(units) * WHOLE_WEIGHT // 2), units)
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
    choice = rows_choice(one, ladder(), 10.0)
    assert asked * (1 - 1e-6) <= choice.cost(one.composition, None) <= asked
    assert choice.loss == one


def test_nothing_is_built_for_nothing() -> None:
    for price in (PrivacyLoss(), PrivacyLoss(gaussian=True)):
        with pytest.raises(ParameterError):
            rows_choice(price, RUNGS, 1.0)


# -- what is drawn ----------------------------------------------------------------------------

DATA: dict[str, list[Unit]] = {
    "none": [],
    "few": [(9,), (3,), (1, 1)],
    "many": [*[(9,)] * 50, *[(2, 3)] * 30, *[(1,)] * 400],
    "all large": [(100, 100)] * 300,
}


@pytest.mark.slow
@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("data", DATA)
def test_what_is_drawn_has_the_law(data: str, rough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with wide errors ascribed to float64, by which nearly all draws are decided exactly."""
    if rough:
        monkeypatch.setattr(module, "_SLACK", 0.2)
        monkeypatch.setattr(module, "_STRIPS", 5)
    choice = replace(rows_choice(PrivacyLoss(0.5**2 / 8), RUNGS, 1.0), target=2 * WHOLE_WEIGHT)
    law = np.exp(log_law(choice, DATA[data]))
    source, exact = SeededSource(5), weights(DATA[data])
    drawn = Counter(choice.draw(exact, source) for _ in range(4000))
    assert chi_square_p(drawn, dict(zip(RUNGS, law.tolist(), strict=True))) > 1e-3
    wrong = dict(zip(RUNGS, np.roll(law, 1).tolist(), strict=True))
    assert chi_square_p(drawn, wrong) < 1e-6


def test_huge_tails_are_drawn_from_as_well() -> None:
    choice = rows_choice(PrivacyLoss(1.0), ladder(), 5.0)
    huge = [2**60 // 100] * (len(choice.rungs) + 1)
    assert choice.draw(huge, SeededSource(1)) == choice.rungs[-1]
    nothing = [0] * (len(choice.rungs) + 1)
    assert {choice.draw(nothing, SeededSource(seed)) for seed in range(20)} <= {1, 2, 3, 4}


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
        return (
            float(np.maximum(rows - cap, 0).sum()) / groups + 0.8 * cap * math.sqrt(groups) * sigma
        )

    choice = rows_choice(PrivacyLoss(0.05 * rho), ladder(), usual_target(groups, 1, sigma))
    exact = weights([(int(r),) for r in rows], choice.rungs)
    source = SeededSource(11)
    drawn = [error(choice.draw(exact, source), sigma / math.sqrt(0.95)) for _ in range(300)]
    best = min(error(rung, sigma) for rung in choice.rungs)
    assert np.mean(drawn) < 1.35 * best
    assert np.mean([error(rung, sigma) for rung in choice.rungs]) > 3 * best  # it matters which


def test_a_target_is_what_the_noise_wants() -> None:
    assert rows_choice(PRICE, RUNGS, 1e6).target == 10**6 * WHOLE_WEIGHT
    assert usual_target(16, 16, 5.0) == pytest.approx(1.2 * 4 * 5.0)
    assert usual_target(16, 1, 5.0) == pytest.approx(1.2 * 16 * 5.0)

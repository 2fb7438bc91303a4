"""Noise for a single publication: exact divergences of what is drawn, against (epsilon, delta).

Where noise is Gaussian, the loss of groups that move by the same steps is a function of sums of
their noises, so exact joint laws fit on a grid of one axis for each measure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers.laws import hockey_stick, log_pmf
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import (
    CorrelatedGaussian,
    IndependentNoise,
    correlated_gaussian,
    gaussian,
    laplace,
    one_shot_distance,
)
from dpsql.privacy.sampling.noise import (
    MIN_SCALE,
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeNoise,
)

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
BUDGETS = [(0.3, 1e-5), (1.0, 1e-6), (1.0, 0.05), (3.0, 1e-9), (8.0, 1e-3)]
FLOAT = 1e-9  # relative, for sums of a million floats


def pmf(noise: LatticeNoise, spreads: float = 8.5) -> tuple[Array, int]:
    """P[Z = x] for x from -w to w, and w; the rest is below 1e-16 for a Gaussian."""
    width = math.ceil(spreads * noise.spread) + 2
    return np.exp(log_pmf(noise, np.arange(-width, width + 1))), width


def sum_of(law: Array, count: int) -> Array:
    """The law of the sum of ``count`` draws."""
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, law)
    return total


def moved(noise: LatticeNoise, shift: int, groups: int) -> Pair:
    """The laws of the sum of ``groups`` noisy values, and of it if each moves by ``shift``."""
    law = sum_of(pmf(noise)[0], groups)
    gap = np.zeros(abs(shift) * groups)
    still, other = np.concatenate((law, gap)), np.concatenate((gap, law))
    return (still, other) if shift >= 0 else (other, still)


def divergence(epsilon: float, *pairs: Pair) -> float:
    """The smallest delta at ``epsilon`` for independent releases, in both directions."""
    one, other = np.ones(()), np.ones(())
    for p, q in pairs:
        one, other = np.multiply.outer(one, p), np.multiply.outer(other, q)
    laws = {(): one}, {(): other}
    return max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))


def gaussian_of(noise: IndependentNoise, scale: float = 1.0) -> DiscreteGaussian:
    assert isinstance(noise.noise, DiscreteGaussian)
    return DiscreteGaussian(noise.noise.sigma * scale)


# -- independent Gaussian noise ---------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("sensitivity", [1, 3, 12])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_groups_that_all_move_are_hidden_by_the_noise_that_is_drawn(
    budget: tuple[float, float], sensitivity: int, groups: int
) -> None:
    epsilon, delta = budget
    noise = gaussian(PrivacyLoss(0.0, delta, epsilon), sensitivity, groups)
    worst = divergence(epsilon, moved(gaussian_of(noise), sensitivity, groups))
    assert worst <= delta * (1 + FLOAT)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_large_steps_cost_all_of_delta_and_thirty_percent_less_noise_exceeds_it(
    budget: tuple[float, float], groups: int
) -> None:
    epsilon, delta = budget
    distance = one_shot_distance(epsilon, delta)
    steps = math.ceil(60 * math.sqrt(distance))  # sigma is then about 60 steps a group
    noise = gaussian(PrivacyLoss(distance / 2, gaussian=True), steps, groups)
    assert divergence(epsilon, moved(gaussian_of(noise), steps, groups)) >= 0.5 * delta
    less = gaussian_of(noise, 0.7)
    assert divergence(epsilon, moved(less, steps, groups)) > 2 * delta


@pytest.mark.parametrize("forgotten", ["a group", "a step"])
def test_noise_for_one_group_or_one_step_less_is_caught(forgotten: str) -> None:
    distance = one_shot_distance(1.0, 1e-6)
    groups, steps = (1, 12) if forgotten == "a group" else (2, 11)
    noise = gaussian_of(gaussian(PrivacyLoss(distance / 2, gaussian=True), steps, groups))
    assert divergence(1.0, moved(noise, 12, 2)) > 1e-6


@pytest.mark.parametrize("budget", [(0.7, 1e-4), (1.0, 1e-6), (3.0, 0.02)], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_two_measures_share_the_distance_whichever_way_a_unit_moves_them(
    budget: tuple[float, float], groups: int
) -> None:
    epsilon, delta = budget
    share = one_shot_distance(epsilon, delta) / 2
    one, two = (
        gaussian_of(gaussian(PrivacyLoss(share / 2, gaussian=True), steps, groups))
        for steps in (2, 9)
    )
    for rise, steps in itertools.product((-2, -1, 2), (-9, 0, 5, 9)):
        pair = moved(one, rise, groups), moved(two, steps, groups)
        assert divergence(epsilon, *pair) <= delta * (1 + FLOAT)


def test_measures_that_each_take_the_whole_distance_are_caught() -> None:
    for epsilon, delta in ((0.7, 1e-4), (1.0, 1e-6)):
        whole = one_shot_distance(epsilon, delta)
        noises = [
            (gaussian_of(gaussian(PrivacyLoss(whole / 2, gaussian=True), steps, 1)), steps)
            for steps in (9, 12)
        ]
        assert divergence(epsilon, *(moved(noise, steps, 1) for noise, steps in noises)) > 2 * delta


def test_two_measures_with_thirty_percent_less_noise_are_caught() -> None:
    share = one_shot_distance(1.0, 1e-4) / 2
    pairs = [
        moved(gaussian_of(gaussian(PrivacyLoss(share / 2, gaussian=True), steps, 1), 0.7), steps, 1)
        for steps in (6, 9)
    ]
    assert divergence(1.0, *pairs) > 2e-4


def test_the_distance_may_be_divided_unequally() -> None:
    epsilon, delta = 1.0, 1e-5
    whole = one_shot_distance(epsilon, delta)
    for part in (0.1, 0.5, 0.8):
        small, large = (
            gaussian(PrivacyLoss((whole * part) / 2, gaussian=True), 3, 1),
            gaussian(PrivacyLoss((whole * (1 - part)) / 2, gaussian=True), 7, 2),
        )
        pairs = moved(gaussian_of(small), 3, 1), moved(gaussian_of(large), 7, 2)
        assert divergence(epsilon, *pairs) <= delta * (1 + FLOAT)


def test_tighter_budgets_hide_less() -> None:
    assert one_shot_distance(1.0, 1e-6) < one_shot_distance(2.0, 1e-6) < one_shot_distance(2.0, 0.1)
    for epsilon, delta in ((0.0, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ParameterError):
            one_shot_distance(epsilon, delta)


# -- correlated Gaussian noise ----------------------------------------------------------------


def joint_law(noise: CorrelatedGaussian, rises: Sequence[int], reach: int) -> Array:
    """P[values + noise = y] in half-steps, over -reach..reach for each of two or three groups."""
    own, shared = noise._parts(len(rises))
    y = np.arange(-reach, reach + 1)
    weights, width = pmf(shared)
    common = np.arange(-width, width + 1)
    each = [np.exp(log_pmf(own, y[:, None] - 2 * rise - common[None, :])) for rise in rises]
    left = each[0] * weights
    for other in each[1:-1]:
        left = left[..., None, :] * other
    law: Array = left @ each[-1].T
    return law


def trimmed(law: Array, spread: float) -> Array:
    """A symmetric law without what lies beyond 8.5 spreads."""
    cut = max(0, len(law) // 2 - math.ceil(8.5 * spread))
    return law[cut : len(law) - cut]


def raised_laws(noise: CorrelatedGaussian, raised: int, groups: int) -> Pair:
    """The laws with and without a unit that raises ``raised`` groups in full, in half-steps.

    As functions of the sums over raised and over other groups: given these two sums the loss is
    determined, because every term of the joint law's exponent that depends on more is the same
    with and without the unit.
    """
    own, shared = noise._parts(groups)
    rise = 2 * noise.sensitivity * raised
    law, _ = pmf(own)
    weights, reach = pmf(shared)

    def given_shared(count: int, lift: int) -> Array:
        """Rows: the shared draw; columns: the sum over ``count`` groups, lifted."""
        total = trimmed(sum_of(law, count), own.sigma * math.sqrt(count))
        rows = np.zeros((2 * reach + 1, len(total) + 2 * reach * count + rise))
        for z in range(2 * reach + 1):
            start = z * count + lift
            rows[z, start : start + len(total)] = total
        return rows

    others = given_shared(groups - raised, 0)
    with_unit = (given_shared(raised, rise) * weights[:, None]).T @ others
    without = (given_shared(raised, 0) * weights[:, None]).T @ others
    return with_unit, without


def worst_raise(epsilon: float, noise: CorrelatedGaussian, groups: int) -> float:
    """The largest divergence over how many groups a unit raises in full."""
    return max(
        divergence(epsilon, raised_laws(noise, raised, groups)) for raised in range(1, groups + 1)
    )


class SharedTooSmall(CorrelatedGaussian):
    """A shared draw of standard deviation (not variance) scaled by √d."""

    def _parts(self, groups: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(2 * self.sigma), DiscreteGaussian(2 * self.sigma / groups**0.5)


class WholeSteps(CorrelatedGaussian):
    """Half of the noise: its half-steps taken for steps."""

    def _parts(self, groups: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(self.sigma), DiscreteGaussian(self.sigma / groups**0.25)


@pytest.mark.parametrize(
    ("budget", "groups"),
    [((0.7, 1e-3), 2), ((1.0, 1e-6), 2), ((4.0, 0.01), 2), ((4.0, 0.01), 3), ((1.0, 0.1), 3)],
    ids=str,
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_every_pattern_of_raised_groups_is_hidden_by_correlated_noise(
    budget: tuple[float, float], groups: int, sensitivity: int
) -> None:
    epsilon, delta = budget
    noise = correlated_gaussian(PrivacyLoss(0.0, delta, epsilon), sensitivity, groups)
    reach = math.ceil((7 if delta < 1e-3 else 5.5) * 2 * noise.std(groups)) + 2 * sensitivity
    base = joint_law(noise, (0,) * groups, reach)
    for rises in itertools.product(range(sensitivity + 1), repeat=groups):
        if any(rises) and list(rises) == sorted(rises):  # the groups are exchangeable
            if groups == 3 and not set(rises) <= {0, sensitivity}:
                continue
            raised = joint_law(noise, rises, reach)
            assert divergence(epsilon, (base, raised)) <= delta * (1 + FLOAT)


@pytest.mark.parametrize(
    ("budget", "groups", "sensitivity"),
    [
        ((1.0, 1e-6), 1, 3), ((1.0, 1e-6), 2, 3), ((0.7, 1e-3), 4, 3), ((4.0, 0.01), 4, 1),
        ((4.0, 0.01), 9, 1),
    ],
    ids=str,
)  # fmt: skip
def test_however_many_groups_a_unit_raises_correlated_noise_hides_it(
    budget: tuple[float, float], groups: int, sensitivity: int
) -> None:
    epsilon, delta = budget
    noise = correlated_gaussian(PrivacyLoss(0.0, delta, epsilon), sensitivity, groups)
    assert worst_raise(epsilon, noise, groups) <= delta * (1 + FLOAT)


def test_the_laws_of_sums_lose_nothing_of_the_joint_law() -> None:
    noise = CorrelatedGaussian(1.5, 1)
    for groups, raised in ((2, 1), (2, 2), (3, 1), (3, 2)):
        reach = math.ceil(7 * 2 * noise.std(groups)) + 2
        rises = (1,) * raised + (0,) * (groups - raised)
        joint = joint_law(noise, (0,) * groups, reach), joint_law(noise, rises, reach)
        for epsilon in (0.0, 0.5, 1.5):
            sums = divergence(epsilon, raised_laws(noise, raised, groups))
            assert sums == pytest.approx(divergence(epsilon, joint), rel=1e-6, abs=1e-12)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("broken", [SharedTooSmall, WholeSteps])
def test_broken_correlated_noise_exceeds_delta(broken: type[CorrelatedGaussian]) -> None:
    epsilon, delta, groups = 1.0, 0.02, 4
    fine = correlated_gaussian(PrivacyLoss(0.0, delta, epsilon), 8, groups)
    assert 0.3 * delta <= worst_raise(epsilon, fine, groups) <= delta
    assert worst_raise(epsilon, broken(fine.sigma, 8), groups) > 1.3 * delta


def test_correlated_noise_with_thirty_percent_less_scale_exceeds_delta() -> None:
    fine = correlated_gaussian(PrivacyLoss(0.0, 1e-3, 1.0), 5, 2)
    assert worst_raise(1.0, CorrelatedGaussian(0.7 * fine.sigma, 5), 2) > 2e-3


def test_correlated_noise_is_not_for_values_that_may_fall() -> None:
    """Why the planner keeps it for monotone measures: one value up and one down."""
    epsilon, delta = 1.0, 1e-3
    noise = correlated_gaussian(PrivacyLoss(0.0, delta, epsilon), 5, 2)
    reach = math.ceil(7 * 2 * noise.std(2)) + 10
    base, mixed = joint_law(noise, (0, 0), reach), joint_law(noise, (5, -5), reach)
    assert divergence(epsilon, (base, mixed)) > 1.2 * delta


@pytest.mark.slow
def test_correlated_noise_made_for_fewer_groups_is_caught() -> None:
    two = correlated_gaussian(PrivacyLoss(0.0, 0.02, 1.0), 6, 2)
    assert worst_raise(1.0, two, 2) <= 0.02 < worst_raise(1.0, two, 4)


# -- Laplace noise ----------------------------------------------------------------------------


def laplace_pair(noise: IndependentNoise, steps: int) -> Pair:
    assert isinstance(noise.noise, DiscreteLaplace)
    law, _ = pmf(noise.noise, 45.0)
    gap = np.zeros(steps)
    return np.concatenate((law, gap)), np.concatenate((gap, law))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 7.0])
@pytest.mark.parametrize("sensitivity", [1, 3, 1_000_003])
@pytest.mark.parametrize("groups", [1, 2, 7, 10_000])
def test_laplace_noise_loses_its_epsilon_over_all_groups_and_no_more(
    epsilon: float, sensitivity: int, groups: int
) -> None:
    noise = laplace(PrivacyLoss(epsilon=epsilon), sensitivity, groups)
    loss = groups * Fraction(sensitivity) / Fraction(noise.scale)  # the largest log-ratio, exactly
    assert loss <= Fraction(epsilon)
    assert loss >= Fraction(epsilon) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 2.5])
def test_no_outcome_of_laplace_noise_is_likelier_than_epsilon_allows(epsilon: float) -> None:
    for sensitivity in (1, 2, 5):
        noise = laplace(PrivacyLoss(epsilon=epsilon), sensitivity, 2)
        x = np.arange(-60, 61)
        for shift in range(-sensitivity, sensitivity + 1):
            loss = np.abs(log_pmf(noise.noise, x) - log_pmf(noise.noise, x - shift))
            assert 2 * loss.max() <= epsilon * (1 + FLOAT)
            if abs(shift) == sensitivity:
                assert 2 * loss.max() >= epsilon * (1 - 1e-6)


def test_laplace_measures_that_share_epsilon_leave_no_delta_and_others_do() -> None:
    def delta_of(share: float) -> float:
        noises = [(laplace(PrivacyLoss(epsilon=share), steps, 1), steps) for steps in (1, 3)]
        return divergence(1.0, *(laplace_pair(noise, steps) for noise, steps in noises))

    assert delta_of(0.5) <= 1e-12
    assert delta_of(1.0) > 0.05, "each with the whole epsilon"


def test_laplace_noise_that_forgets_the_groups_is_caught() -> None:
    pair = laplace_pair(laplace(PrivacyLoss(epsilon=1.0), 3, 1), 3)
    assert divergence(1.0, pair) <= 1e-12
    assert divergence(1.0, pair, pair) > 0.05


def test_a_budget_beyond_the_smallest_noise_gets_the_smallest_noise() -> None:
    assert laplace(PrivacyLoss(epsilon=1000.0), 1, 1).scale == MIN_SCALE

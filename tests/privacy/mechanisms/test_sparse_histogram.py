"""The Gaussian sparse histogram: its two analyses, its calibration, and what is really drawn."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.laws import (
    EPSILONS,
    IMPOSSIBLE,
    Counts,
    Law,
    SeededSource,
    apart,
    at_threshold_law,
    chi_square_p,
    drawn,
    flat,
    hockey_stick,
    log_pmf,
    neighbours,
    tail,
)
from numpy.typing import NDArray
from scipy import special

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, gaussian
from dpsql.privacy.mechanisms.calibration import analytic_gaussian_sigma
from dpsql.privacy.mechanisms.sparse_histogram import (
    DeltaAnalysis,
    SparseHistogram,
    calibrate_sparse_histogram,
    joint_sparse_histogram,
    lattice_noise_delta,
    sparse_histogram,
    sparse_histogram_delta,
    sparse_histogram_lattice_delta,
    sparse_histogram_tau,
    worst_over,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian

# (epsilon, delta, groups): sigma and tau by adding the deltas, then exactly.
TABLE = {
    (0.35, 1e-5, 51914): (2268, 14673, 2223, 13913),
    (0.35, 1e-5, 10): (31.84, 157.6, 30.85, 146.6),
    (1.0, 1e-6, 10): (13.71, 73.46, 13.36, 69.46),
    (1.0, 1e-6, 100): (43.24, 249.7, 42.25, 237.1),
}


# -- calibration ------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "expected"), TABLE.items(), ids=str)
def test_calibration_finds_the_reference_noise_and_threshold(
    question: tuple[float, float, int], expected: tuple[float, ...]
) -> None:
    simple = calibrate_sparse_histogram(*question, DeltaAnalysis.ADD_THE_DELTAS)
    exact = calibrate_sparse_histogram(*question, DeltaAnalysis.EXACT)
    found = (simple.sigma, simple.tau, exact.sigma, exact.tau)
    assert found == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("analysis", DeltaAnalysis)
@pytest.mark.parametrize("question", [*TABLE, (3.0, 1e-3, 1), (0.01, 1e-12, 3)], ids=str)
def test_a_calibrated_mechanism_spends_its_delta_and_no_more(
    question: tuple[float, float, int], analysis: DeltaAnalysis
) -> None:
    epsilon, delta, groups = question
    found = calibrate_sparse_histogram(epsilon, delta, groups, analysis)
    spent = sparse_histogram_delta(epsilon, found.sigma, found.tau, groups, analysis)
    assert delta * (1 - 1e-5) <= spent <= delta


def test_the_printed_thresholds_were_not_the_lowest() -> None:
    """Lebeda & Retschmeier 2024, Section 5, quote about 13,950 at (0.35, 1e-5, 51914)."""
    exact = calibrate_sparse_histogram(0.35, 1e-5, 51914)
    assert exact.tau < 13_950 * 0.998
    assert sparse_histogram_delta(0.35, exact.sigma, exact.tau, 51914) <= 1e-5


def test_a_given_noise_gets_the_lowest_threshold_or_an_error() -> None:
    for analysis in DeltaAnalysis:
        tau = sparse_histogram_tau(1.0, 1e-6, 20.0, 10, analysis)
        assert sparse_histogram_delta(1.0, 20.0, tau, 10, analysis) <= 1e-6
        assert sparse_histogram_delta(1.0, 20.0, tau * (1 - 1e-6), 10, analysis) > 1e-6
    with pytest.raises(ParameterError, match="noise alone"):
        sparse_histogram_tau(1.0, 1e-6, 5.0, 10)


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"),
    [(0.0, 1e-6, 1), (math.nan, 1e-6, 1), (1.0, 0.0, 1), (1.0, 0.5, 1), (1.0, 1e-6, 0)],
)
def test_senseless_parameters_are_refused(epsilon: float, delta: float, groups: int) -> None:
    with pytest.raises(ParameterError):
        calibrate_sparse_histogram(epsilon, delta, groups)


# -- the analyses -----------------------------------------------------------------------------


def test_the_gaussian_curve_agrees_with_an_independent_formula() -> None:
    for epsilon, distance in itertools.product((-1.0, -0.01, 0.0, 0.35, 1.0, 9.0), (0.05, 0.4, 3)):
        first = special.ndtr(distance / 2 - epsilon / distance)
        second = math.exp(epsilon + special.log_ndtr(-distance / 2 - epsilon / distance))
        found = gaussian_delta(epsilon, distance)
        assert first - second <= found * (1 + 1e-13) + 1e-16
        assert found <= first - second + 1e-11 * first


def plain_delta(epsilon: float, sigma: float, tau: float, k: int) -> float:
    """Lemma 2.7 as printed, one j after the other."""

    def curve(e: float, j: int) -> float:
        d = math.sqrt(j) / sigma
        second = math.exp(e + special.log_ndtr(-d / 2 - e / d))
        return float(special.ndtr(d / 2 - e / d) - second)

    hidden = float(special.ndtr(tau / sigma))
    found = [1 - hidden**k]
    for j in range(1, k + 1):
        gamma, psi = (k - j) * math.log(hidden), hidden ** (k - j)
        found.append(1 - psi + psi * curve(epsilon - gamma, j))
        found.append(curve(epsilon + gamma, j))
    return max(found)


@pytest.mark.parametrize("k", [1, 2, 7, 300])
@pytest.mark.parametrize("t", [2.0, 3.3, 4.5])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_bounding_blocks_finds_the_maximum_over_every_division(
    k: int, t: float, ratio: float
) -> None:
    sigma = ratio * math.sqrt(k)
    for epsilon in (0.2, 1.0, 3.0):
        found = sparse_histogram_delta(epsilon, sigma, t * sigma, k)
        assert found == pytest.approx(
            plain_delta(epsilon, sigma, t * sigma, k), rel=3e-9, abs=1e-12
        )


def test_branch_and_bound_finds_a_hidden_peak() -> None:
    values = np.linspace(0.1, 0.5, 10_001)
    values[7_123] = 0.9

    def bound(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
        pairs = zip(low, high, strict=True)
        return np.array([values[a - 1 : b].max() * (1 + 1e-3 * (b - a)) for a, b in pairs])

    assert worst_over(1, 10_001, bound) == pytest.approx(0.9, rel=2e-9)


@pytest.mark.parametrize("groups", [1, 4, 50, 10**6])
def test_adding_the_deltas_is_never_below_the_exact_delta(groups: int) -> None:
    for epsilon, ratio, t in itertools.product((0.1, 1.0, 4.0), (0.5, 2.0, 9.0), (1.0, 3.0, 6.0)):
        sigma = ratio * math.sqrt(groups)
        simple = sparse_histogram_delta(
            epsilon, sigma, t * sigma, groups, DeltaAnalysis.ADD_THE_DELTAS
        )
        exact = sparse_histogram_delta(epsilon, sigma, t * sigma, groups)
        assert exact <= simple * (1 + 1e-8)


# -- what is drawn ----------------------------------------------------------------------------


def worst_pairs(groups: int, high: int) -> list[tuple[Counts, Counts]]:
    """j large counts (too large for the threshold to matter) rise, the others are fresh."""
    return [
        ((high,) * j + (0,) * (groups - j), (high + 1,) * j + (1,) * (groups - j))
        for j in range(groups + 1)
    ]


@pytest.mark.parametrize(
    ("groups", "sigma", "threshold"), [(1, 1.2, 4), (2, 1.5, 4), (2, 2.3, 6), (3, 1.3, 4)]
)
def test_the_lattice_delta_is_the_exact_divergence_of_the_worst_neighbours(
    groups: int, sigma: float, threshold: int
) -> None:
    high = threshold + math.ceil(9 * sigma)
    grid = np.arange(threshold - 2, high + math.ceil(8 * sigma) + 2)
    pairs = worst_pairs(groups, high)
    laws = {c: at_threshold_law(sigma, threshold, c, grid) for pair in pairs for c in pair}
    for epsilon in EPSILONS[1:8]:
        worst = max(apart(laws[a], laws[b], epsilon) for a, b in pairs)
        stated = sparse_histogram_lattice_delta(epsilon, sigma, threshold, groups)
        assert worst <= stated * (1 + 1e-9) + 1e-13
        assert worst >= stated * (1 - 1e-3), "the analysis is not needlessly pessimistic"


@pytest.mark.parametrize("groups", [1, 2])
def test_no_small_pair_of_neighbours_exceeds_the_stated_delta(groups: int) -> None:
    epsilon, delta = 0.9, 0.03
    mechanism = sparse_histogram(epsilon, delta, groups)
    grid = np.arange(mechanism.threshold - 1, 14 + math.ceil(7 * mechanism.sigma))
    pairs = list(neighbours(2, 2, groups, 1))
    sigma, threshold = mechanism.sigma, mechanism.threshold
    laws = {c: at_threshold_law(sigma, threshold, c, grid) for pair in pairs for c in pair}
    for a, b in pairs:
        assert hockey_stick(laws[a], laws[b], epsilon) <= delta
        assert hockey_stick(laws[b], laws[a], epsilon) <= delta


@pytest.mark.parametrize("question", [*TABLE, (0.9, 0.03, 2), (8.0, 1e-9, 1)], ids=str)
def test_the_lattice_threshold_is_the_lowest_for_its_delta(
    question: tuple[float, float, int],
) -> None:
    epsilon, delta, groups = question
    mechanism = sparse_histogram(epsilon, delta, groups)
    sigma, threshold = mechanism.sigma, mechanism.threshold
    assert sparse_histogram_lattice_delta(epsilon, sigma, threshold, groups) <= delta
    assert sparse_histogram_lattice_delta(epsilon, sigma, threshold - 1, groups) > delta
    continuous = calibrate_sparse_histogram(epsilon, delta, groups)
    assert threshold <= 1 + continuous.tau * 1.001 + 2, "the lattice costs next to nothing"


def test_the_noise_delta_on_the_lattice_agrees_with_the_sum_of_its_laws() -> None:
    sigma = 1.4
    x = np.arange(-40, 41)
    one = np.exp(-(x**2) / (2 * sigma**2))
    law = one / one.sum()
    for groups in (1, 2, 3, 5):
        total = np.array([1.0])
        for _ in range(groups):
            total = np.convolve(total, law)
        moved = np.concatenate((np.zeros(groups), total))
        still = np.concatenate((total, np.zeros(groups)))
        for epsilon in (-0.5, 0.0, 0.4, 1.3, 2.5):
            exact = float(np.maximum(still - math.exp(epsilon) * moved, 0).sum())
            stated = lattice_noise_delta(epsilon, sigma, groups)
            assert exact <= stated <= exact * (1 + 1e-6) + 3e-7


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (0.7, False), (1.3, False)])
@pytest.mark.parametrize(
    "mechanism",
    [SparseHistogram(1.0, 0.1, 2, 2.5, 1), SparseHistogram(3.0, 0.3, 2, 5.0, 1, 0.1)],
    ids=["alone", "with further values"],
)
def test_draws_follow_the_law_at_the_stated_scale_only(
    mechanism: SparseHistogram, scale: float, passes: bool
) -> None:
    counts = (9, 3, 1)
    grid = np.arange(-25, 40)
    sigma, floor = mechanism.sigma * scale, mechanism.floor
    law = flat(at_threshold_law(sigma, mechanism.threshold, counts, grid, floor), grid)
    p = chi_square_p(drawn(mechanism, counts, 6000), law)
    assert (p > IMPOSSIBLE) == passes


def test_the_floor_moves_the_threshold_and_hides_small_groups() -> None:
    low, high = sparse_histogram(1.0, 1e-3, 2), sparse_histogram(1.0, 1e-3, 2, floor=7)
    assert high.threshold == low.threshold + 7
    scores = np.full(4000, 7, dtype=np.int64)
    loose = SparseHistogram(1.0, 0.4, 1, 30.0, 7)
    assert len(loose.select(scores, SeededSource(1)).indices) == 0
    assert len(loose.select(scores + 1, SeededSource(1)).indices) > 0


# -- with further values ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joint:
    """Noisy counts above the threshold, and one noisy value of each group that is shown."""

    selection: SparseHistogram
    value: IndependentNoise

    def law(self, old: tuple[int, int], fresh: int) -> Law:
        """Of one group with (units, value), and of groups that exist by one unit.

        Without that unit no fresh group is ever named, so its noisy values need no outcomes.
        """
        selection, (units, value) = self.selection, old
        counts = np.arange(selection.threshold + 1, self.largest + math.ceil(9 * selection.sigma))
        reach = math.ceil(9 * self.value.scale) + 2 * self.value.sensitivity
        values = np.exp(log_pmf(self.value.noise, np.arange(-reach, reach + 1) - value))
        above = np.exp(log_pmf(DiscreteGaussian(selection.sigma), counts - units))
        unnamed = (1 - self.fresh_named) ** fresh
        return {
            "named": np.asarray(1 - unnamed),
            "hidden": np.asarray(unnamed * (1 - above.sum())),
            "shown": unnamed * np.multiply.outer(above, values),
        }

    @property
    def largest(self) -> int:
        """A count so large that the threshold no longer matters."""
        return self.selection.threshold + math.ceil(7 * self.selection.sigma)

    @property
    def fresh_named(self) -> float:
        """P[a group that one unit lifts above the floor is named]."""
        fresh = self.selection.floor + 1
        return tail(DiscreteGaussian(self.selection.sigma), self.selection.threshold - fresh)

    def worst(self, epsilon: float, fresh: int) -> float:
        """The largest delta of one changed and ``fresh`` new groups, in both directions."""
        first = self.selection.floor + 1
        near = range(max(first, self.selection.threshold - 3), self.selection.threshold + 4)
        found = 0.0
        for units in sorted({first, *near, self.largest}):
            without = self.law((units, 0), 0)
            for change in (self.value.sensitivity, -self.value.sensitivity):
                with_unit = self.law((units + 1, change), fresh)
                found = max(
                    found,
                    apart(with_unit, without, epsilon),
                )
        return found

    def all_fresh(self, groups: int) -> float:
        return 1 - (1 - self.fresh_named) ** groups


def all_old(epsilon: float, groups: int, noises: list[tuple[float, int]]) -> float:
    """The delta where ``groups`` large groups change, each value i by the steps in noises[i].

    The loss is a function of each value's sum over groups.
    """
    one, other = np.ones(()), np.ones(())
    for sigma, steps in noises:
        reach = math.ceil(8.5 * sigma)
        law = np.exp(log_pmf(DiscreteGaussian(sigma), np.arange(-reach, reach + 1)))
        total, gap = law, np.zeros(steps * groups)
        for _ in range(groups - 1):
            total = np.convolve(total, law)
        one = np.multiply.outer(one, np.concatenate((total, gap)))
        other = np.multiply.outer(other, np.concatenate((gap, total)))
    laws = {(): one}, {(): other}
    return max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))


def joint(
    epsilon: float, delta: float, groups: int, steps: int, floor: int = 0, measures: int = 2
) -> Joint:
    """The mechanism of a block that counts units and sums values, as the planner builds it."""
    selection = joint_sparse_histogram(epsilon, delta, groups, floor, measures)
    share = groups * selection.others / (measures - 1)
    return Joint(selection, gaussian(PrivacyLoss(share / 2, gaussian=True), steps, groups))


JOINT = [(1.0, 0.05), (2.0, 1e-3), (0.7, 1e-4)]


@pytest.mark.parametrize(("epsilon", "delta"), JOINT)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("floor", [0, 4])
def test_a_count_and_a_sum_of_one_group_spend_no_more_than_delta_together(
    epsilon: float, delta: float, steps: int, floor: int
) -> None:
    mechanism = joint(epsilon, delta, 1, steps, floor)
    assert mechanism.worst(epsilon, 0) <= delta
    assert 0.2 * delta <= mechanism.all_fresh(1) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), JOINT)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("floor", [0, 4])
def test_a_count_and_a_sum_of_two_groups_spend_no_more_than_delta_however_many_are_fresh(
    epsilon: float, delta: float, steps: int, floor: int
) -> None:
    mechanism = joint(epsilon, delta, 2, steps, floor)
    noises = [(mechanism.selection.sigma, 1), (mechanism.value.scale, steps)]
    assert all_old(epsilon, 2, noises) <= delta * (1 + 1e-9)
    assert mechanism.worst(epsilon, 1) <= delta
    assert mechanism.all_fresh(2) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), JOINT[:2])
def test_three_values_of_a_group_spend_no_more_than_delta_together(
    epsilon: float, delta: float
) -> None:
    selection = joint_sparse_histogram(epsilon, delta, 2, 0, 3)
    noises = [(selection.sigma, 1)]
    for steps in (1, 2):
        value = gaussian(PrivacyLoss((2 * selection.others / 2) / 2, gaussian=True), steps, 2)
        noises.append((value.scale, steps))
    assert all_old(epsilon, 1, noises) <= delta
    assert all_old(epsilon, 1, [(sigma / 2, steps) for sigma, steps in noises]) > delta


@pytest.mark.parametrize("groups", [1, 2, 30])
def test_each_of_several_values_gets_noise_as_good_as_the_counts(groups: int) -> None:
    for measures in (2, 3, 5):
        mechanism = joint(1.0, 1e-6, groups, 1, measures=measures)
        assert mechanism.value.scale == pytest.approx(mechanism.selection.sigma, rel=1e-6)
    assert joint_sparse_histogram(1.0, 1e-6, groups, 2, 1) == sparse_histogram(1.0, 1e-6, groups, 2)


@pytest.mark.parametrize("groups", [1, 2])
def test_further_values_that_the_analysis_is_not_told_of_exceed_delta(groups: int) -> None:
    epsilon, delta = 0.3, 0.02
    alone = sparse_histogram(epsilon, delta, groups)
    value = IndependentNoise(DiscreteGaussian(3 * alone.sigma), 3)
    noises = [(alone.sigma, 1), (value.scale, 3)]
    assert all_old(epsilon, groups, noises) > 1.5 * delta
    assert Joint(alone, value).worst(epsilon, groups - 1) > 1.02 * delta
    told = replace(alone, others=1 / alone.sigma**2)
    with pytest.raises(ParameterError, match="noise alone"):
        _ = told.threshold


def test_a_threshold_without_the_floor_exceeds_delta() -> None:
    fine = joint(1.0, 0.02, 2, 3, floor=4)
    low = replace(fine.selection, floor=0)
    lifted = tail(DiscreteGaussian(low.sigma), low.threshold - 5)
    assert fine.all_fresh(2) <= 0.02 < 1 - (1 - lifted) ** 2


@pytest.mark.slow
def test_the_stated_joint_delta_covers_the_exact_one_nearly_tightly() -> None:
    epsilon, groups, others = 0.2, 2, 0.002
    for sigma in (20.0, 40.0):
        value = gaussian(PrivacyLoss((groups * others) / 2, gaussian=True), 5, groups)
        exact = all_old(epsilon, groups, [(sigma, 1), (value.scale, 5)])
        stated = lattice_noise_delta(epsilon, sigma, groups, others)
        assert exact <= stated <= 1.3 * exact
    assert lattice_noise_delta(epsilon, 0.99, groups, others) == 1.0, "nothing is proved"


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"), [*TABLE, (0.35, 1e-5, 5000), (0.1, 1e-8, 300)]
)
@pytest.mark.parametrize("analysis", DeltaAnalysis)
def test_no_noise_has_a_lower_threshold(
    epsilon: float, delta: float, groups: int, analysis: DeltaAnalysis
) -> None:
    """By the exact analysis the least noise has it: a search that stops short of it is too high."""
    found = calibrate_sparse_histogram(epsilon, delta, groups, analysis)
    least = analytic_gaussian_sigma(epsilon, delta, math.sqrt(groups))
    more = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.03, 0.1, 1.0)
    for sigma in (*(least * (1 + m) for m in more), found.sigma * 0.99, found.sigma * 1.01):
        try:
            tau = sparse_histogram_tau(epsilon, delta, sigma, groups, analysis)
        except ParameterError:
            assert sigma < found.sigma
            continue
        assert found.tau <= tau * (1 + 1e-4)

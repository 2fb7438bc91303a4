"""The stated guarantee, computed: exact output laws of neighbours against rho and delta.

Two checks for each mechanism. The construction-free one compares the true output laws with what
delta-approximate rho-zCDP implies for every (epsilon, delta). The other follows the proof: it
builds the sub-laws P' and Q' and bounds their Rényi divergences at every order (for top-k in
``test_coupling.py``). Each check has twins with known mistakes (most of them printed somewhere)
that it must reject.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from helpers.laws import (
    EPSILONS,
    ORDERS,
    Counts,
    Law,
    coupled_delta,
    gaussian_top_k_law,
    gumbel_law,
    hockey_stick,
    implied_delta,
    log_cdf,
    log_pmf,
    neighbours,
    positive_counts_law,
    renyi,
    sums_law,
    tail,
    worst_excess,
)
from numpy.typing import NDArray

from dpsql.privacy.mechanisms.additive import (
    CorrelatedGaussian,
    IndependentNoise,
)
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

Noise = DiscreteGaussian | DiscreteLaplace
Orders = dict[tuple[int, ...], float]
ROUNDING = 1e-12


# -- additive noise ---------------------------------------------------------------------------


def shift_divergence(noise: Noise, shift: int, order: float) -> float:
    """D_order of the noise from itself moved by ``shift``, far terms of large orders included."""
    reach = math.ceil(60 * noise.spread) + 60 + math.ceil(shift * (order + 1))
    x = np.arange(-reach, reach + 1)
    return renyi(log_pmf(noise, x), log_pmf(noise, x - shift), order)


@pytest.mark.parametrize("sensitivity", [1, 2, 3])
@pytest.mark.parametrize(
    "noise",
    [DiscreteGaussian(0.4), DiscreteGaussian(2.3), DiscreteLaplace(0.5), DiscreteLaplace(3.0)],
    ids=repr,
)
def test_independent_noise_costs_its_rho_and_no_less(noise: Noise, sensitivity: int) -> None:
    stated = IndependentNoise(noise, sensitivity)
    ratios = [shift_divergence(noise, sensitivity, order) / order for order in ORDERS]
    assert max(ratios) <= stated.rho(1) * (1 + 1e-9)
    assert max(ratios) >= stated.rho(1) * 0.998
    for smaller in range(1, sensitivity):
        assert max(shift_divergence(noise, smaller, a) / a for a in ORDERS) < stated.rho(1)
    assert stated.rho(7) == pytest.approx(7 * stated.rho(1))


def test_half_the_sensitivity_is_not_enough() -> None:
    """The negative control of the test above."""
    noise = DiscreteGaussian(2.3)
    stated = IndependentNoise(noise, 1)
    assert shift_divergence(noise, 2, 2.0) / 2 > stated.rho(1) * 3.9


def test_the_laplace_cost_is_below_half_epsilon_squared() -> None:
    for b in (0.3, 1.0, 2.0, 10.0):
        assert IndependentNoise(DiscreteLaplace(b), 1).rho(1) < 0.5 / b**2


def test_a_known_domain_adds_nothing_to_the_cost_of_its_noise() -> None:
    assert KnownDomain(5).rho(None) == KnownDomain(5).rho(5) == KnownDomain(5).delta == 0.0


# -- correlated noise -------------------------------------------------------------------------


def correlated_ratio(noise: CorrelatedGaussian, rises: Counts, scale: int = 2) -> float:
    """sup over orders of D_order/order when the values rise by ``rises``; in half-steps if 2."""
    own, shared = noise._parts(len(rises))
    reach = math.ceil(7 * math.hypot(own.sigma, shared.sigma)) + 2
    grid = np.arange(-reach, reach + scale * max(rises) + 1)
    one = sums_law(own, shared, (0,) * len(rises), grid)
    other = sums_law(own, shared, tuple(scale * rise for rise in rises), grid)
    return max(
        max(renyi(one, other, order), renyi(other, one, order)) / order
        for order in (1.01, 1.5, 3.0)
    )


def continuous_ratio(noise: CorrelatedGaussian, rises: Counts) -> float:
    """The same for continuous noise of these variances: half the squared Mahalanobis length."""
    d = len(rises)
    covariance = noise.sigma**2 * (np.eye(d) + np.full((d, d), d**-0.5))
    return float(rises @ np.linalg.solve(covariance, np.array(rises, dtype=float))) / 2


@pytest.mark.parametrize("sensitivity", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.45, 0.8])
def test_correlated_noise_costs_at_most_its_rho_whichever_groups_a_unit_raises(
    sensitivity: int, groups: int, sigma: float
) -> None:
    noise = CorrelatedGaussian(sigma, sensitivity)
    rises = itertools.product(range(sensitivity + 1), repeat=groups)
    ordered = {tuple(sorted(r)) for r in rises if any(r)}
    if groups == 3 and sensitivity > 1:  # the worst are those that rise fully or not at all
        ordered = {r for r in ordered if set(r) <= {0, sensitivity}}
    worst = max(correlated_ratio(noise, rise) for rise in ordered)
    assert worst <= noise.rho(groups) * (1 + ROUNDING)
    assert worst >= 0.9 * noise.rho(groups), "the bound is nearly reached"


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 9, 100])
def test_correlated_rho_is_the_continuous_worst_case(groups: int) -> None:
    noise = CorrelatedGaussian(5.0, 2)
    worst = max(
        continuous_ratio(noise, (2,) * raised + (0,) * (groups - raised))
        for raised in range(groups + 1)
    )
    stated = noise.rho(groups)
    assert 0.95 * stated <= worst <= stated
    assert stated == pytest.approx(4 * (groups + math.sqrt(groups)) / (8 * 25))


class Undoubled(CorrelatedGaussian):
    """N_Z(0, σ²) on whole steps: without half-steps a rise cannot be shared out evenly."""

    def _parts(self, groups: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(self.sigma), DiscreteGaussian(self.sigma / groups**0.25)


class SharedTooSmall(CorrelatedGaussian):
    """A shared draw of standard deviation (not variance) scaled by √d."""

    def _parts(self, groups: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(2 * self.sigma), DiscreteGaussian(2 * self.sigma / groups**0.5)


def test_correlated_noise_without_half_steps_breaks_its_rho() -> None:
    stated = CorrelatedGaussian(0.45, 1).rho(1)
    assert correlated_ratio(Undoubled(0.45, 1), (1,), scale=1) > 1.1 * stated


def test_a_shared_draw_with_the_printed_standard_deviation_breaks_its_rho() -> None:
    stated = CorrelatedGaussian(0.9, 1).rho(3)
    assert correlated_ratio(SharedTooSmall(0.9, 1), (1, 1, 1)) > 1.1 * stated


def test_correlated_noise_for_values_that_may_fall_breaks_its_rho() -> None:
    """Why only monotone measures may use it: one value up and one down."""
    noise = CorrelatedGaussian(5.0, 1)
    assert continuous_ratio(noise, (1, 1, -1, -1)) > 1.3 * noise.rho(4)


# -- every large group ------------------------------------------------------------------------


POSITIVE = [
    PositiveCounts(IndependentNoise(noise, 1), groups, delta, floor)
    for noise in (DiscreteGaussian(0.8), DiscreteGaussian(1.6), DiscreteLaplace(0.8))
    for groups in (1, 2)
    for delta in (0.02, 0.2)
    for floor in (0, 1)
]


def positive_excess(mechanism: PositiveCounts, stated: PositiveCounts) -> float:
    grid = np.arange(-30, 45)
    law = cache(lambda counts: positive_counts_law(mechanism, counts, grid))
    floor = stated.floor
    return max(
        worst_excess(law(a), law(b), stated.rho(None), stated.delta)
        for a, b in neighbours(2, floor + 2, stated.groups, 1, floor)
    )


@pytest.mark.parametrize("mechanism", POSITIVE, ids=repr)
def test_positive_counts_imply_every_epsilon_and_delta_of_their_claim(
    mechanism: PositiveCounts,
) -> None:
    assert positive_excess(mechanism, mechanism) <= ROUNDING


@pytest.mark.parametrize("mechanism", POSITIVE, ids=repr)
def test_positive_counts_without_fresh_groups_keep_their_rho(mechanism: PositiveCounts) -> None:
    """P' and Q' of the proof: condition on no fresh group out; what stays is truncated noise."""
    noise = mechanism.noise.noise
    fresh = tail(noise, mechanism.threshold - mechanism.floor - 1)
    assert -math.expm1(mechanism.groups * math.log1p(-fresh)) <= mechanism.delta
    reach = math.ceil(60 * noise.spread) + 1100
    x = np.arange(mechanism.threshold + 1, mechanism.threshold + reach)
    for count in range(mechanism.floor + 1, mechanism.floor + 6):
        laws = [
            np.append(log_pmf(noise, x - c), log_cdf(noise, np.array([mechanism.threshold - c]))[0])
            for c in (count, count + 1)
        ]
        for order in ORDERS:
            for p, q in (laws, laws[::-1]):
                assert renyi(p, q, order) <= order * mechanism.noise.rho(1) * (1 + 1e-9)


class LowThreshold(PositiveCounts):
    """The threshold forgets the one unit that brings a group in."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


def test_a_threshold_without_the_sensitivity_breaks_the_claim() -> None:
    for noise in (DiscreteGaussian(0.8), DiscreteLaplace(0.5)):
        broken = LowThreshold(IndependentNoise(noise, 1), 2, 0.02, 0)
        assert positive_excess(broken, broken) > 1e-3


# -- Gaussian top-k ---------------------------------------------------------------------------

TOP_GRID = np.arange(-16, 34)


def gaussian_top_k(
    sigma: float, sensitivity: int, groups: int, k_bar: int, delta: float, floor: int = 0
) -> GaussianTopK:
    noise = IndependentNoise(DiscreteGaussian(sigma), sensitivity)
    return GaussianTopK(noise, groups, k_bar, delta, floor)


TOP_K = [
    gaussian_top_k(1.0, 1, 1, 1, 0.1),
    gaussian_top_k(1.0, 1, 2, 2, 0.1),
    gaussian_top_k(1.5, 1, 1, 2, 0.02),
    gaussian_top_k(1.5, 1, 3, 1, 0.3),
    gaussian_top_k(1.5, 1, 2, 2, 0.3, floor=1),
    gaussian_top_k(1.7, 2, 1, 2, 0.1),
    gaussian_top_k(1.7, 2, 2, 1, 0.3),
]


def top_k_excess(mechanism: GaussianTopK, size: int, largest: int, hard: bool = False) -> float:
    law = cache(lambda counts: gaussian_top_k_law(mechanism, counts, TOP_GRID, hard))
    pairs = neighbours(
        size, largest, mechanism.groups, mechanism.noise.sensitivity, mechanism.floor
    )
    rho, delta = mechanism.rho(None), mechanism.delta
    return max(worst_excess(law(a), law(b), rho, delta, coupled_delta) for a, b in pairs)


@pytest.mark.parametrize("mechanism", TOP_K, ids=repr)
def test_gaussian_top_k_implies_every_epsilon_and_delta_of_its_claim(
    mechanism: GaussianTopK,
) -> None:
    assert top_k_excess(mechanism, 3, 3) <= ROUNDING


def test_a_hard_check_on_true_counts_breaks_the_claim() -> None:
    """Printed in Durfee & Rogers 2019, Algorithm 8: noise only for counts above the threshold."""
    mechanism = gaussian_top_k(1.0, 1, 1, 1, 0.1)
    assert top_k_excess(mechanism, 2, 8, hard=True) > 0.1
    assert top_k_excess(mechanism, 2, 8) <= ROUNDING


# -- Gumbel top-k -----------------------------------------------------------------------------


def gumbel_excess(mechanism: GumbelTopK, stated: GumbelTopK, size: int, largest: int) -> float:
    def law(counts: Counts) -> Law:
        return {order: np.asarray(p) for order, p in gumbel_law(mechanism, counts).items()}

    cached = cache(law)
    touched = stated.groups or size
    return max(
        worst_excess(cached(a), cached(b), stated.rho(None), stated.delta, coupled_delta)
        for a, b in neighbours(size, largest, touched, stated.sensitivity, stated.floor)
    )


GUMBEL = [
    GumbelTopK(1.5, 1, 1, 1, 0.1, 0),
    GumbelTopK(1.5, 1, 1, 3, 0.3, 0),
    GumbelTopK(3.0, 1, 2, 2, 0.05, 0),
    GumbelTopK(0.4, 1, 3, 3, 0.3, 0),
    GumbelTopK(2.0, 2, 2, 2, 0.2, 0),
    GumbelTopK(2.0, 1, 2, 2, 0.2, 1),
    GumbelTopK(1.5, 1, 1, 3, 0.3, 0, groups=1),
    GumbelTopK(0.8, 1, 3, 3, 0.2, 0, groups=1),
    GumbelTopK(2.0, 2, 2, 3, 0.2, 0, groups=2),
]


@pytest.mark.parametrize("mechanism", GUMBEL, ids=repr)
def test_gumbel_implies_every_epsilon_and_delta_of_its_claim(mechanism: GumbelTopK) -> None:
    assert gumbel_excess(mechanism, mechanism, 3, 2 + mechanism.floor) <= ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", GUMBEL[:4], ids=repr)
def test_gumbel_keeps_its_claim_on_larger_histograms(mechanism: GumbelTopK) -> None:
    assert gumbel_excess(mechanism, mechanism, 4, 3) <= ROUNDING


@pytest.mark.slow
def test_a_cap_that_is_not_enforced_breaks_the_claim() -> None:
    capped = GumbelTopK(0.8, 1, 3, 3, 0.2, 0, groups=1)
    assert gumbel_excess(capped, capped, 3, 2) <= ROUNDING
    assert gumbel_excess(capped, GumbelTopK(0.8, 1, 3, 3, 0.2, 0), 3, 2) > 0.01


def test_choosing_the_least_noisy_score_with_gumbel_noise_breaks_bounded_range() -> None:
    """Printed in Durfee & Rogers 2019, Algorithm 6: an argmin. Gumbel noise is not symmetric."""
    epsilon = 1.0
    x = np.linspace(-12, 40, 400_001)
    step = x[1] - x[0]

    def least(scores: tuple[float, ...]) -> NDArray[np.float64]:
        shifted = [x - epsilon * s for s in scores]
        density = [np.exp(-z - np.exp(-z)) for z in shifted]
        above = [-np.expm1(-np.exp(-z)) for z in shifted]
        chosen = [
            density[i] * np.prod([a for j, a in enumerate(above) if j != i], axis=0)
            for i in range(len(scores))
        ]
        found: NDArray[np.float64] = np.array([c.sum() * step for c in chosen])
        shares: NDArray[np.float64] = found / found.sum()
        return shares

    # The last is chosen only if both others are large: its chance falls at twice the rate.
    one, other = least((0.0, 0.0, 3.0)), least((0.0, 0.0, 4.0))
    spread = np.log(one / other)
    assert spread.max() - spread.min() > 1.5 * epsilon


# -- the tools --------------------------------------------------------------------------------


def test_the_implied_delta_is_tight_for_one_gaussian() -> None:
    """The conversion is a true upper bound, and not by much."""
    noise = DiscreteGaussian(20.0)
    x = np.arange(-400, 401)
    law = {"all": np.exp(log_pmf(noise, x))}
    other = {"all": np.exp(log_pmf(noise, x - 10))}
    for epsilon in EPSILONS:
        found = hockey_stick(law, other, epsilon)
        assert found <= implied_delta(0.125, 0.0, epsilon)
    assert hockey_stick(law, other, 1.0) > 0.2 * implied_delta(0.125, 0.0, 1.0)

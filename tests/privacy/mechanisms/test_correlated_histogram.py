"""The correlated stability histogram: analyses, calibration, and top-k with counts as drawn."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    ORDERS,
    Counts,
    Law,
    SeededSource,
    apart,
    chi_square_p,
    hockey_stick,
    log_cdf,
    log_pmf,
    lower_bound,
    neighbours,
    renyi,
    tail,
    top_of,
    total_mass,
    upper_bound,
    worst_excess,
)
from helpers.one_shot import one_shot_delta
from numpy.typing import NDArray
from scipy import integrate, special

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.calibration import gaussian_deltas
from dpsql.privacy.mechanisms.correlated_histogram import (
    CorrelatedAnalysis,
    calibrate_correlated,
    correlated_delta,
    correlated_tau,
    half_distance,
)
from dpsql.privacy.mechanisms.correlated_topk import (
    CorrelatedTopK,
    correlated_top_k,
    fresh_quantile,
    fresh_released,
)
from dpsql.privacy.mechanisms.sparse_histogram import calibrate_sparse_histogram
from dpsql.privacy.sampling.noise import DiscreteGaussian

ADD, TIGHT, INTEGRATED = CorrelatedAnalysis

# (epsilon, delta, sparsity): sigma and tau by adding the deltas, then by the tighter analysis.
TABLE = {
    (0.35, 1e-5, 51914): (1136.7, 7840, 1113.8, 7434),
    (0.35, 1e-5, 10): (18.26, 141.8, 17.70, 131.9),
    (1.0, 1e-6, 100): (22.67, 172.4, 22.15, 163.7),
    (1.0, 1e-6, 1000): (69.28, 503.0, 67.85, 479.3),
}


# -- calibration ------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "expected"), TABLE.items(), ids=str)
def test_calibration_finds_the_reference_noise_and_threshold(
    question: tuple[float, float, int], expected: tuple[float, ...]
) -> None:
    simple, tight = (calibrate_correlated(*question, analysis) for analysis in (ADD, TIGHT))
    found = (simple.sigma, simple.tau, tight.sigma, tight.tau)
    assert found == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("question", TABLE, ids=str)
def test_integrating_over_the_shared_noise_lowers_the_threshold_further(
    question: tuple[float, float, int],
) -> None:
    tight, best = (calibrate_correlated(*question, analysis) for analysis in (TIGHT, INTEGRATED))
    assert best.tau < tight.tau * 0.95


@pytest.mark.slow
def test_shared_noise_beats_independent_noise_if_there_are_few_groups() -> None:
    for question in TABLE:
        assert (
            calibrate_correlated(*question).tau < 0.66 * calibrate_sparse_histogram(*question).tau
        )


def test_the_printed_thresholds_were_not_the_lowest() -> None:
    """Lebeda & Retschmeier 2024, Section 5, quote about 7,860 at (0.35, 1e-5, 51914)."""
    for analysis in CorrelatedAnalysis:
        found = calibrate_correlated(0.35, 1e-5, 51914, analysis)
        assert found.tau < 7_860 * 0.998
        assert correlated_delta(0.35, found.sigma, found.tau, 51914, analysis) <= 1e-5


@pytest.mark.parametrize("analysis", CorrelatedAnalysis)
@pytest.mark.parametrize("question", [*TABLE, (1.0, 1e-6, 1), (3.0, 1e-3, 2)], ids=str)
def test_a_calibrated_mechanism_spends_its_delta_and_other_noise_needs_more(
    question: tuple[float, float, int], analysis: CorrelatedAnalysis
) -> None:
    epsilon, delta, k = question
    best = calibrate_correlated(epsilon, delta, k, analysis)
    spent = correlated_delta(epsilon, best.sigma, best.tau, k, analysis)
    assert delta * (1 - 1e-5) <= spent <= delta
    for factor in (0.99, 1.01, 1.1):
        try:
            tau = correlated_tau(epsilon, delta, best.sigma * factor, k, analysis)
        except ParameterError:
            continue
        assert tau >= best.tau * (1 - 1e-4)


def test_too_little_noise_is_an_error() -> None:
    with pytest.raises(ParameterError, match="noise alone"):
        correlated_tau(1.0, 1e-6, 1.0, 100)


# -- the analyses -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 10, 500])
def test_the_analyses_are_ordered(k: int) -> None:
    for epsilon, ratio, t in itertools.product((0.2, 1.0, 3.0), (0.5, 2.0), (2.0, 4.0, 7.0)):
        sigma = ratio * math.sqrt(k)
        simple, tight, best = (
            correlated_delta(epsilon, sigma, t * sigma, k, a) for a in (ADD, TIGHT, INTEGRATED)
        )
        assert best <= tight * (1 + 1e-8) <= simple * (1 + 1e-7)


@pytest.mark.parametrize("k", [2, 9, 40])
def test_the_left_out_family_of_the_printed_theorem_is_never_the_largest(k: int) -> None:
    j = np.arange(1, k)
    for epsilon, ratio, t in itertools.product((0.2, 1.0, 3.0), (0.5, 2.0, 6.0), (3.5, 5.0)):
        sigma = ratio * math.sqrt(k)
        hidden = special.log_ndtr(t / (1 + k**-0.25)) * (k - j + 1)
        last = gaussian_deltas(epsilon + hidden, half_distance(j, k) / sigma)
        assert last.max() <= correlated_delta(epsilon, sigma, t * sigma, k, TIGHT)


@pytest.mark.parametrize("k", [1, 2, 10, 1000])
@pytest.mark.parametrize("t", [1.0, 4.0, 6.5])
def test_the_integrated_chance_of_a_fresh_count_agrees_with_adaptive_quadrature(
    k: int, t: float
) -> None:
    def density(x: float) -> float:
        shown = -math.expm1(k * special.log_ndtr(t - k**-0.25 * x))
        return shown * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    exact, _ = integrate.quad(density, -10, 12, epsabs=0, epsrel=1e-11, limit=500)
    # So little noise is lost in itself that only the chance of a fresh count remains.
    found = correlated_delta(400.0, 10.0 * math.sqrt(k), t * 10 * math.sqrt(k), k)
    assert found == pytest.approx(exact, rel=1e-8)


def mahalanobis(old: int, raised: int, shared_variance: float) -> float:
    """Squared distance of ``raised`` of ``old`` counts up by one, noise I + shared_variance 11'."""
    return raised - raised**2 / (1 / shared_variance + old)


@pytest.mark.parametrize("k", [1, 2, 4, 9, 100])
def test_gamma_bounds_the_true_distance_of_every_change_and_is_reached(k: int) -> None:
    for old in range(1, k + 1):
        worst = max(mahalanobis(old, raised, k**-0.5) for raised in range(1, old + 1))
        gamma = float(half_distance(np.array([old]), k)[0])
        assert worst <= gamma**2 * (1 + 1e-12)
        if old == k > 1:
            assert worst >= gamma**2 * 0.97


def test_shared_noise_of_magnitude_sigma_over_root_k_would_break_the_promise() -> None:
    """Lemma B.1 prints that magnitude; it is the variance that is sigma**2/sqrt(k)."""
    epsilon, delta, k = 1.0, 1e-6, 100
    sigma = calibrate_correlated(epsilon, delta, k).sigma
    right, printed = (
        math.sqrt(max(mahalanobis(k, raised, v) for raised in range(1, k + 1))) / sigma
        for v in (k**-0.5, 1 / k)
    )
    assert gaussian_delta(epsilon, right) <= delta
    assert gaussian_delta(epsilon, printed) > 10 * delta


# -- the threshold on the lattice -------------------------------------------------------------


@cache
def exact_fresh(own: float, shared: float, fresh: int, x: int) -> float:
    reach, far = math.ceil(12 * shared) + 1, math.ceil(12 * own)
    z = np.arange(-reach, reach + 1)
    downwards = np.arange(max(0, x) + reach + far, x - reach, -1)
    tails = np.cumsum(np.exp(log_pmf(DiscreteGaussian(own), downwards)).astype(np.longdouble))
    above = np.asarray(tails[-len(z) :], dtype=np.float64)  # P[Z > x - z] for each z
    shown = _any_of(above, fresh)
    return math.fsum(np.exp(log_pmf(DiscreteGaussian(shared), z)) * shown)


def _any_of(probability: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    return np.asarray(-np.expm1(times * np.log1p(-np.minimum(probability, 1 - 1e-16))))


@pytest.mark.parametrize(("own", "shared"), [(1.0, 1.0), (2.0, 0.7), (7.3, 4.0), (60.0, 11.0)])
@pytest.mark.parametrize("fresh", [1, 2, 30, 1000])
def test_the_chance_of_a_fresh_group_is_exact(own: float, shared: float, fresh: int) -> None:
    for t in (0.0, 1.0, 3.0, 5.0):
        x = round(t * math.hypot(own, shared))
        found = fresh_released(own, shared, fresh, x)
        exact = exact_fresh(own, shared, fresh, x)
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 3e-9) + 1e-15


@pytest.mark.parametrize("k", [4, 1000])
def test_wide_noise_is_bounded_closely(k: int) -> None:
    own = 2.0e6
    shared = own / k**0.25
    for t in (4.0, 6.0, 8.0):
        found = fresh_released(own, shared, k, round(t * own))
        continuous = correlated_delta(400.0, 1e6, t * 1e6, k)
        assert continuous * (1 - 1e-6) <= found <= continuous * 1.05


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("sigma", [1.5, 8.0])
def test_the_threshold_is_exactly_the_lowest_and_below_the_printed_bound(
    k: int, sigma: float
) -> None:
    own, shared = 2 * sigma, 2 * sigma / k**0.25
    for delta in (0.1, 1e-4, 1e-9):
        x = fresh_quantile(own, shared, k, delta)
        assert exact_fresh(own, shared, k, x) <= delta < exact_fresh(own, shared, k, x - 1)
        share = 1 / (k**0.25 + 1)
        printed = (
            1
            - (1 - tail(DiscreteGaussian(shared), math.floor(x * share)))
            * (1 - tail(DiscreteGaussian(own), math.floor(x * (1 - share)))) ** k
        )
        assert printed >= delta * 0.999, "Theorem 7.7 would ask for a higher threshold"


# -- exact laws of what is drawn --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtHalfSteps(CorrelatedTopK):
    """The same release with twice its threshold given."""

    given: int = 0

    @property
    def half_steps(self) -> int:
        return self.given


def top_k_law(mechanism: CorrelatedTopK, counts: Counts, grid: NDArray[np.int64]) -> Law:
    """Which groups come out and with which noisy counts; ``grid`` is of half-steps."""
    own = DiscreteGaussian(2 * mechanism.sigma)
    shared = DiscreteGaussian(2 * mechanism.sigma / mechanism.k_bar**0.25)
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    top = tuple(i for i in top if counts[i] > base)
    reach = math.ceil(8 * shared.sigma)
    z = np.arange(-reach, reach + 1)
    weight = np.exp(log_pmf(shared, z))
    wide = np.arange(grid[0] - reach, grid[-1] + reach + 1)
    law: dict[Hashable, NDArray[np.float64]] = {}
    for size in range(len(top) + 1):
        for released in itertools.combinations(top, size):
            given_z = weight.copy()
            for i in set(top) - set(released):
                needed = mechanism.half_steps - 2 * (counts[i] - base)
                given_z *= np.exp(log_cdf(own, needed - z[::-1]))[::-1]
            law[released] = _values_law(mechanism, counts, base, released, own, z, given_z, wide)
            if released and mechanism.with_counts:
                law[released] = _moved_by(law[released], weight, reach)
            elif released:
                law[released] = np.asarray(law[released].sum())
    return law


def _values_law(
    mechanism: CorrelatedTopK,
    counts: Counts,
    base: int,
    released: tuple[int, ...],
    own: DiscreteGaussian,
    z: NDArray[np.int64],
    given_z: NDArray[np.float64],
    wide: NDArray[np.int64],
) -> NDArray[np.float64]:
    """P[released, 2 score_i + Z_i = u_i] over u, summed over the shared noise z."""
    values = given_z
    for i in released:
        alone = np.exp(log_pmf(own, wide - 2 * counts[i]))
        stands_out = wide - 2 * base + z[:, None] > mechanism.half_steps
        shown = np.where(stands_out, alone, 0.0)
        values = values[..., None] * shown.reshape(len(z), *(1,) * (values.ndim - 1), len(wide))
    return np.asarray(values.sum(axis=0))


def _moved_by(
    values: NDArray[np.float64], weight: NDArray[np.float64], reach: int
) -> NDArray[np.float64]:
    """All values moved by one shared noise."""
    size = values.shape[0] - 2 * reach
    total = np.zeros((size,) * values.ndim)
    for step, p in enumerate(weight):
        start = 2 * reach - step
        total += p * values[(slice(start, start + size),) * values.ndim]
    return total


def check_pairs(
    mechanism: CorrelatedTopK, pairs: list[tuple[Counts, Counts]]
) -> tuple[float, float]:
    """The largest excess over the stated guarantee, and the largest hockey-stick at epsilon 0.3."""
    largest = max(max(c) for pair in pairs for c in pair)
    reach = math.ceil(5 * mechanism.sigma * 2)
    grid = np.arange(-reach, 2 * largest + reach)
    laws = {c: top_k_law(mechanism, c, grid) for c in {c for pair in pairs for c in pair}}
    rho, delta = mechanism.rho(None), mechanism.delta
    excess = max(worst_excess(laws[a], laws[b], rho, delta) for a, b in pairs)
    found = max(hockey_stick(laws[a], laws[b], 0.3) for a, b in pairs)
    return excess, found


@pytest.mark.slow
@pytest.mark.parametrize("with_counts", [True, False])
@pytest.mark.parametrize(("k_bar", "sensitivity", "floor"), [(1, 1, 0), (1, 2, 0), (1, 1, 1)])
def test_no_pair_of_neighbours_exceeds_the_stated_guarantee(
    with_counts: bool, k_bar: int, sensitivity: int, floor: int
) -> None:
    mechanism = CorrelatedTopK(1.1, sensitivity, k_bar, k_bar, 0.05, floor, with_counts)
    pairs = list(neighbours(3, 3, 3, sensitivity, floor))
    pairs += [((a, 12, 9), (b, 12 + c, 9 + d)) for a, b, c, d in _rises(sensitivity)]
    excess, found = check_pairs(mechanism, pairs)
    assert excess <= 1e-9
    assert found > 0.01, "the comparison is not empty"


def _rises(sensitivity: int) -> list[tuple[int, int, int, int]]:
    steps = range(sensitivity + 1)
    return [(a, a + r, c, d) for a in (0, 8) for r in steps for c in steps for d in steps]


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_two_groups_in_the_top_stay_within_the_stated_guarantee(sensitivity: int) -> None:
    mechanism = CorrelatedTopK(0.9, sensitivity, 2, 2, 0.1, 0)
    s = sensitivity
    pairs: list[tuple[Counts, Counts]] = [
        ((0, 0, 0), (s, s, 0)),
        ((9, 0, 0), (9 + s, s, 0)),
        ((9, 0, 0), (9, s, 0)),
        ((9, 8, 0), (9 + s, 8, 0)),
        ((9, 8, 0), (9 + s, 8 + s, s)),
        ((9, 8, 0), (9, 8, s)),
        ((9, 8, 0), (9 + s, 8, s)),
        ((9, s, 0), (9, s, s)),
        ((9, 1, 1), (9, 1, 1 + s)),
        ((9, 1, 0), (9 + s, s, s)),
    ]
    excess, _ = check_pairs(mechanism, pairs)
    assert excess <= 1e-9


@pytest.mark.parametrize(
    ("sigma_lie", "steps_lie"), [(0.6, 0), (1.0, 4)], ids=["half the noise", "a low threshold"]
)
def test_broken_twins_exceed_it(sigma_lie: float, steps_lie: int) -> None:
    honest = CorrelatedTopK(1.1, 1, 1, 1, 0.005, 0)

    @dataclass(frozen=True, slots=True)
    class Broken(AtHalfSteps):
        def cost(self, composition: Composition, reach: int | None) -> float:
            return honest.cost(composition, reach)

    broken = Broken(1.1 * sigma_lie, 1, 1, 1, 0.005, 0, given=honest.half_steps - steps_lie)
    pairs: list[tuple[Counts, Counts]] = [((0, 0), (1, 0)), ((15, 0), (16, 0)), ((15, 0), (15, 1))]
    assert check_pairs(honest, pairs)[0] <= 1e-9
    assert check_pairs(broken, pairs)[0] > 1e-3


def largest_norm(k: int, base_noise: NDArray[np.float64]) -> float:
    """2 sigma**2 rho of releasing k excesses and the base: the worst squared distance."""
    worst = 0.0
    inverse = np.linalg.inv(base_noise)
    for raised in range(k + 1):
        for base in (0, 1):
            change = np.array([1.0 - base] * raised + [-float(base)] * (k - raised) + [base])
            worst = max(worst, float(change @ inverse @ change))
    return worst


@pytest.mark.parametrize("k", [1, 2, 4, 9, 25])
def test_releasing_the_base_costs_what_is_claimed_and_reusing_the_noise_costs_less(k: int) -> None:
    """Independently noised (as printed) k + 5 sqrt(k); with -Z in it k + 2 sqrt(k)."""
    root = math.sqrt(k)
    covariance = np.eye(k + 1)
    covariance[k, k] = 0
    covariance[:k, :k] += 1 / root
    printed = covariance.copy()
    printed[k, k] = 1 / root
    ours = covariance.copy()
    ours[k, :k] = ours[:k, k] = -1 / root
    ours[k, k] = 2 / root
    assert largest_norm(k, printed) <= (k + 5 * root) / 4 * (1 + 1e-9)
    assert largest_norm(k, ours) <= (k + 2 * root) / 4 * (1 + 1e-9)
    if k >= 4:
        assert largest_norm(k, printed) > (k + 4 * root) / 4
        assert largest_norm(k, ours) > (k + 2 * root) / 4 * 0.9


@pytest.mark.slow
def test_one_group_with_its_base_costs_at_most_the_stated_rho_at_every_order() -> None:
    """The joint law of (2e + Z_1 + Z, 2 base + Z' - Z), far from the threshold."""
    mechanism = CorrelatedTopK(0.8, 1, 1, 1, 0.1, 0)
    noise = DiscreteGaussian(1.6)
    x = np.arange(-60, 61)
    with np.errstate(divide="ignore"):
        log_p = log_pmf(noise, x)
    y, b = np.meshgrid(np.arange(-25, 26), np.arange(-25, 26), indexing="ij")

    def law(excess: int, base: int) -> NDArray[np.float64]:
        z = np.arange(-14, 15)
        terms = [
            log_pmf(noise, np.asarray([s]))
            + log_p[y - 2 * excess - s + 60]
            + log_p[b - 2 * base + s + 60]
            for s in z
        ]
        summed: NDArray[np.float64] = special.logsumexp(np.array(terms), axis=0).ravel()
        return summed

    for before, after in [((5, 0), (6, 0)), ((5, 0), (4, 1)), ((5, 0), (5, 1))]:
        for order in [a for a in ORDERS if a <= 5]:
            for p, q in [(law(*before), law(*after)), (law(*after), law(*before))]:
                assert renyi(p, q, order) / order <= mechanism.rho(None) * (1 + 1e-9)


def test_whole_steps_of_the_shared_noise_would_cost_more() -> None:
    """c + Z_1 + Z in whole steps, the same variances: half-steps are what the price rests on."""
    sigma, k = 0.4, 1
    claimed = (k + math.sqrt(k)) / (8 * sigma**2)
    x = np.arange(-80, 81)
    pmf = np.exp(log_pmf(DiscreteGaussian(sigma), x))
    log_law = np.log(np.maximum(np.convolve(pmf, pmf), 1e-300))[130:191]
    moved = np.log(np.maximum(np.convolve(pmf, pmf), 1e-300))[129:190]
    found = max(renyi(log_law, moved, order) / order for order in ORDERS[:7])
    assert found > claimed * 1.05


# -- the mechanism as a selection -------------------------------------------------------------


@cache
def names_law(mechanism: CorrelatedTopK, counts: Counts) -> Law:
    """Which groups come out of ``counts``, whatever their noisy counts."""
    twin = AtHalfSteps(
        mechanism.sigma,
        mechanism.sensitivity,
        mechanism.k,
        mechanism.k_bar,
        mechanism.delta,
        mechanism.floor,
        with_counts=False,
        given=mechanism.half_steps,
    )
    return top_k_law(twin, counts, np.arange(-30, 40))


def crossing(mechanism: CorrelatedTopK, one: Counts, other: Counts) -> float:
    """P[a group that exists above the base of ``one`` but not of ``other`` comes out]."""

    def standing(counts: Counts) -> set[int]:
        top, base = top_of(counts, mechanism.k_bar, 0)
        return {i for i in top if counts[i] > base}

    fresh = standing(one) - standing(other)
    named = names_law(mechanism, one).items()
    return sum(float(v) for key, v in named if isinstance(key, tuple) and fresh & set(key))


@pytest.mark.parametrize(("k_bar", "sensitivity"), [(1, 1), (2, 1), (2, 2), (1, 3)])
def test_groups_that_one_neighbour_lacks_come_out_with_probability_at_most_delta(
    k_bar: int, sensitivity: int
) -> None:
    mechanism = CorrelatedTopK(1.2, sensitivity, k_bar, k_bar, 0.1, 0)
    worst = max(
        max(crossing(mechanism, a, b), crossing(mechanism, b, a))
        for a, b in neighbours(3, 2, 3, sensitivity)
    )
    assert worst <= mechanism.delta
    own, shared = 2.4, 2.4 / k_bar**0.25
    if sensitivity == 1:
        assert worst == pytest.approx(exact_fresh(own, shared, k_bar, mechanism.half_steps - 2))
        assert exact_fresh(own, shared, k_bar, mechanism.half_steps - 3) > mechanism.delta


def flat_halves(law: Law, grid: NDArray[np.int64]) -> dict[Hashable, float]:
    found: dict[Hashable, float] = {}
    for key, values in law.items():
        for index in zip(*np.nonzero(values > 1e-12), strict=True) if values.ndim else [()]:
            found[key, tuple(int(grid[i]) for i in index)] = float(values[index])
    return found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (0.7, False), (1.3, False)])
def test_draws_follow_the_law_at_the_stated_scale_only(scale: float, passes: bool) -> None:
    mechanism = CorrelatedTopK(1.0, 1, 2, 2, 0.2, 0)
    counts, grid = (9, 5, 2), np.arange(-12, 45)
    twin = AtHalfSteps(scale, 1, 2, 2, 0.2, 0, given=mechanism.half_steps)
    law = flat_halves(top_k_law(twin, counts, grid), grid)
    source, runs = SeededSource(3), 6000
    found: Counter[Hashable] = Counter()
    for _ in range(runs):
        selected = mechanism.select(np.array(counts, dtype=np.int64), source)
        assert selected.noisy is not None
        halves = tuple(int(2 * v) for v in selected.noisy)
        found[tuple(int(i) for i in selected.indices), halves] += 1
    assert (chi_square_p(found, law) > IMPOSSIBLE) == passes


def test_the_law_is_a_probability() -> None:
    for with_counts in (True, False):
        mechanism = CorrelatedTopK(1.0, 1, 2, 2, 0.2, 0, with_counts)
        law = top_k_law(mechanism, (9, 5, 2), np.arange(-30, 60))
        assert total_mass(law) == pytest.approx(1, abs=1e-9)


@pytest.mark.slow
def test_released_counts_are_unbiased_with_the_stated_spread_and_margin() -> None:
    mechanism = CorrelatedTopK(3.0, 1, 40, 40, 0.01, 0)
    noise = mechanism.score_noise
    assert noise is not None
    scores = np.array([10_000] * 40 + [500], dtype=np.int64)
    source = SeededSource(8)
    runs = 2500
    errors = np.empty((runs, 40))
    for run in range(runs):
        noisy = mechanism.select(scores, source).noisy
        assert noisy is not None
        errors[run] = noisy - 10_000
    assert abs(errors.mean()) < 7 * noise.std(40) / math.sqrt(runs)
    assert errors.std() == pytest.approx(noise.std(40), rel=0.05)
    covered = int((np.abs(errors[:, 0]) <= noise.margin(0.9, 40)).sum())
    assert lower_bound(covered, runs) <= 0.95
    assert upper_bound(covered, runs) >= 0.9
    own_only = int((np.abs(errors[:, 0]) <= 0.7 * noise.margin(0.9, 40)).sum())
    assert upper_bound(own_only, runs) < 0.9


@pytest.mark.slow
def test_a_group_appears_as_often_as_stated() -> None:
    mechanism = CorrelatedTopK(3.0, 1, 5, 5, 0.01, 0)
    source, runs = SeededSource(9), 2500
    for probability in (0.5, 0.95):
        needed = mechanism.score_for_inclusion(probability)
        assert needed is not None
        for extra, fewer in ((0, False), (-6, True)):
            score = 100 + math.ceil(needed) + extra
            scores = np.array([score, 100, 100, 100, 100, 100], dtype=np.int64)
            named = sum(len(mechanism.select(scores, source).indices) for _ in range(runs))
            assert (upper_bound(named, runs) < probability) == fewer


@pytest.mark.slow
def test_at_most_k_come_out_and_ties_are_settled_by_lot() -> None:
    mechanism = CorrelatedTopK(0.8, 1, 2, 4, 0.2, 0, with_counts=False)
    scores = np.array([900, 900, 900, 900, 3], dtype=np.int64)
    source, seen = SeededSource(4), Counter[tuple[int, ...]]()
    for _ in range(3000):
        indices = mechanism.select(scores, source).indices
        assert list(indices) == sorted(indices)
        seen[tuple(int(i) for i in indices)] += 1
    law = dict.fromkeys(itertools.combinations(range(4), 2), 1 / 6)
    assert chi_square_p(Counter(dict(seen)), dict(law)) > IMPOSSIBLE
    assert mechanism.score_noise is None


def test_nothing_level_with_the_base_or_the_floor_is_ever_released() -> None:
    mechanism = CorrelatedTopK(30.0, 1, 9, 3, 0.4, 2)
    source = SeededSource(6)
    for scores in ([], [2, 1], [7, 5, 5, 5], [4, 3, 3, 3]):
        standing = {i for i, s in enumerate(scores[:3]) if s > max([2, *scores[3:]])}
        seen = set()
        for _ in range(200):
            seen |= set(mechanism.select(np.array(scores, dtype=np.int64), source).indices)
        assert seen == standing


def test_huge_scores_do_not_overflow() -> None:
    mechanism = CorrelatedTopK(2.0, 1, 2, 2, 1e-3, 0)
    selected = mechanism.select(np.array([2**62, 2**61, 5], dtype=np.int64), SeededSource(1))
    assert selected.noisy is not None
    assert list(selected.indices) == [0, 1]
    assert selected.noisy == pytest.approx([2.0**62, 2.0**61], rel=1e-9)


@pytest.mark.parametrize("with_counts", [True, False])
@pytest.mark.parametrize("k_bar", [1, 10, 1000])
def test_a_mechanism_made_for_a_rho_costs_it_and_no_more(k_bar: int, with_counts: bool) -> None:
    for rho in (1e-4, 0.0105, 0.5):
        for sensitivity in (1, 3):
            made = correlated_top_k(
                PrivacyLoss(rho, 1e-7),
                sensitivity=sensitivity,
                k=5,
                k_bar=k_bar,
                floor=0,
                with_counts=with_counts,
            )
            assert made is not None
            assert rho * (1 - 1e-9) <= made.rho(None) <= rho
            root = (2 if with_counts else 1) * math.sqrt(k_bar)
            stated = sensitivity**2 * (k_bar + root) / (8 * made.sigma**2)
            assert made.rho(3) == pytest.approx(stated)
            assert made.top_rows_needed == k_bar + 1


def test_noise_too_small_for_the_analysis_is_refused() -> None:
    price = PrivacyLoss(1e4, 1e-6)
    assert correlated_top_k(price, sensitivity=1, k=1, k_bar=100, floor=0) is None
    with pytest.raises(ParameterError, match="too small"):
        CorrelatedTopK(0.5, 1, 1, 100, 1e-6, 0)


# -- a single publication ---------------------------------------------------------------------


def published_once(
    price: PrivacyLoss, *, sensitivity: int, k: int, k_bar: int, with_counts: bool = True
) -> CorrelatedTopK:
    found = correlated_top_k(
        price, sensitivity=sensitivity, k=k, k_bar=k_bar, floor=0, with_counts=with_counts
    )
    assert found is not None
    return found


@pytest.mark.parametrize("question", [q for q in TABLE if q[2] <= 1000], ids=str)
def test_one_release_on_the_lattice_needs_hardly_more_than_the_continuous_analysis(
    question: tuple[float, float, int],
) -> None:
    epsilon, delta, k_bar = question
    names = published_once(
        PrivacyLoss(0.0, delta, epsilon),
        sensitivity=1,
        k=5,
        k_bar=k_bar,
        with_counts=False,
    )
    assert one_shot_delta(names, epsilon) <= delta
    continuous = calibrate_correlated(epsilon, delta, k_bar)
    assert names.threshold <= 1 + continuous.tau * 1.03
    counts = published_once(
        PrivacyLoss(0.0, delta, epsilon),
        sensitivity=1,
        k=5,
        k_bar=k_bar,
    )
    assert one_shot_delta(counts, epsilon) <= delta
    assert names.threshold < counts.threshold < names.threshold * 1.2


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_one_release_stays_within_its_epsilon_and_delta(sensitivity: int) -> None:
    epsilon, delta = 1.5, 0.05
    mechanism = published_once(
        PrivacyLoss(0.0, delta, epsilon),
        sensitivity=sensitivity,
        k=1,
        k_bar=1,
    )
    s, high = sensitivity, 40
    pairs = [((0, 0), (s, 0)), ((high, 0), (high, s)), ((high, 0), (high + s, 0)), ((s, 0), (s, s))]
    reach = math.ceil(9 * mechanism.sigma)
    grid = np.arange(-reach, 2 * high + reach)
    for a, b in pairs:
        p, q = (top_k_law(mechanism, c, grid) for c in (a, b))
        assert apart(p, q, epsilon) <= delta

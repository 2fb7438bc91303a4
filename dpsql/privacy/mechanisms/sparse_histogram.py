"""The Gaussian sparse histogram mechanism under (epsilon, delta)-DP: analyses and calibration.

Gaussian noise on each group present in the data; a group is released iff its noisy count exceeds
1 + tau. A unit raises at most ``groups`` counts by one each. Of these, some exist without the unit
(the noise hides the change) and some are fresh (the threshold hides them). Adding the two worst
cases is a valid delta; taking the worst over the possible divisions is the exact one.

:func:`sparse_histogram_delta`, :func:`sparse_histogram_tau` and
:func:`calibrate_sparse_histogram` speak of continuous noise. :class:`SparseHistogram` draws on the
lattice and states the delta of what it draws.

Sources: Wilkins, Kifer, Zhang & Karrer 2024 (the exact analysis); Lebeda & Retschmeier 2024,
Lemmas 2.6 and 2.7; Balle & Wang 2018, Theorem 8 (the Gaussian mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.calibration import (
    LATTICE_VARIANCE,
    LEAST_SIGMA,
    analytic_gaussian_sigma,
    gaussian_deltas,
    lattice_sigma,
)
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource
from dpsql.privacy.sampling.numeric import checked_positive, normal_quantile_sf, smallest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BlockBound = Callable[[Integers, Integers], Floats]

_SLACK = 1e-12  # relative; exceeds the rounding errors of a normal tail and its logarithm
_WORST_TOLERANCE = 1e-9
_NEXT = 1e-8  # relative; how near to the least sigma a better one is looked for
_BRANCHES = 16
_ROOT_HALF = math.sqrt(0.5)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


class DeltaAnalysis(Enum):
    """How delta is computed from the noise and the threshold."""

    ADD_THE_DELTAS = "add_the_deltas"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class NoiseAndThreshold:
    """Noise ``sigma`` and threshold ``tau`` (release iff noisy > 1 + tau), in units of a count."""

    sigma: float
    tau: float


# -- one Gaussian -----------------------------------------------------------------------------


def normal_sf(z: Floats) -> Floats:
    """Compute P[N > z] for a standard normal N, relative error below 2e-13; 0 beyond z = 38.2.

    By the standard library: SciPy takes long to import, and the arrays are short.
    """
    return np.asarray(_ERFC(z * _ROOT_HALF), dtype=np.float64) / 2


# -- the analyses -----------------------------------------------------------------------------


def sparse_histogram_delta(
    epsilon: float,
    sigma: float,
    tau: float,
    groups: int,
    analysis: DeltaAnalysis = DeltaAnalysis.EXACT,
) -> float:
    """Compute the delta of the mechanism at ``epsilon``, rounded up; exact to a relative 1e-9.

    Lebeda & Retschmeier 2024, Lemma 2.6 (add the deltas) or 2.7 (exact). Raises ParameterError
    for parameters out of range. Checked by ``tests/privacy/mechanisms/test_sparse_histogram.py``.
    """
    check_parameters(epsilon, groups)
    checked_positive(sigma, "sigma")
    checked_positive(tau, "tau")
    log_hidden = float(np.log1p(-normal_sf(np.array([tau / sigma]))[0]))
    all_fresh = -math.expm1(groups * log_hidden) * (1 + _SLACK)
    if analysis is DeltaAnalysis.ADD_THE_DELTAS:
        return min(1.0, all_fresh + gaussian_delta(epsilon, math.sqrt(groups) / sigma))

    def noise_delta(epsilons: Floats, counts: Integers) -> Floats:
        return gaussian_deltas(epsilons, np.sqrt(counts.astype(np.float64)) / sigma)

    mixed = worst_over(1, groups, split_bound(epsilon, groups, log_hidden, noise_delta))
    return min(1.0, max(all_fresh, mixed))


def split_bound(
    epsilon: float,
    groups: int,
    log_hidden: float,
    noise_delta: Callable[[Floats, Integers], Floats],
) -> BlockBound:
    """Bound the exact delta if between ``low`` and ``high`` of the changed groups are old.

    The k - j fresh groups all stay hidden with probability psi = exp((k - j) log_hidden). With the
    unit, the output is anything else with probability 1 - psi, which is pure loss, and psi times
    the shifted noise otherwise; without it, the unshifted noise. The two directions of this pair
    are the two families. Each grows with the number of old groups and with that of fresh ones, so
    the corner (high old, k - low fresh) bounds a whole block.
    """

    def bound(low: Integers, high: Integers) -> Floats:
        log_psi: Floats = np.asarray((groups - low) * log_hidden, dtype=np.float64)
        with_unit = -np.expm1(log_psi) + np.exp(log_psi) * noise_delta(epsilon - log_psi, high)
        without = noise_delta(epsilon + log_psi, high)
        worst: Floats = np.maximum(with_unit * (1 + _SLACK), without)
        return worst

    return bound


def worst_over(first: int, last: int, bound: BlockBound) -> float:
    """Bound the maximum over first <= j <= last of ``bound(j, j)``, tight to a relative 1e-9.

    ``bound(low, high)`` must bound the values of all j in between. Branch and bound: blocks that
    cannot hold the maximum are dropped, the others are split.
    """
    if last < first:
        return 0.0
    low, high = np.array([first]), np.array([last])
    best = float(np.max(bound(low, low)))
    while True:
        limits = bound(low, high)
        open_ = (limits > best * (1 + _WORST_TOLERANCE)) & (low < high)
        best = max(best, float(limits[low == high].max(initial=0.0)))
        if not open_.any():
            return best * (1 + _WORST_TOLERANCE)
        low, high = _split(low[open_], high[open_])
        best = max(best, float(bound(high, high).max()))


def _split(low: Integers, high: Integers) -> tuple[Integers, Integers]:
    cuts = low[:, None] + (high - low + 1)[:, None] * np.arange(_BRANCHES + 1) // _BRANCHES
    starts, ends = cuts[:, :-1].ravel(), cuts[:, 1:].ravel() - 1
    real = starts <= ends
    return starts[real], ends[real]


# -- calibration ------------------------------------------------------------------------------


def sparse_histogram_tau(
    epsilon: float,
    delta: float,
    sigma: float,
    groups: int,
    analysis: DeltaAnalysis = DeltaAnalysis.EXACT,
) -> float:
    """Find the smallest tau with which the mechanism with noise ``sigma`` is (epsilon, delta)-DP.

    Raises ParameterError if no threshold is enough, because the noise alone exceeds delta.
    """
    check_parameters(epsilon, groups, delta)
    checked_positive(sigma, "sigma")
    rest = delta - gaussian_delta(epsilon, math.sqrt(groups) / sigma)
    if rest <= 0:
        raise too_little_noise()
    high = sigma * hidden_quantile(rest * (1 - 1e-11), groups)
    if analysis is DeltaAnalysis.ADD_THE_DELTAS:
        return high
    low = sigma * hidden_quantile(delta, groups)
    return crossing(
        lambda tau: sparse_histogram_delta(epsilon, sigma, tau, groups), delta, low, high
    )


@lru_cache(maxsize=4096)
def calibrate_sparse_histogram(
    epsilon: float, delta: float, groups: int, analysis: DeltaAnalysis = DeltaAnalysis.EXACT
) -> NoiseAndThreshold:
    """Find the (epsilon, delta)-DP noise with the smallest tau, and that tau."""
    check_parameters(epsilon, groups, delta)
    least = analytic_gaussian_sigma(epsilon, delta, math.sqrt(groups))
    return lowest_tau(lambda s: sparse_histogram_tau(epsilon, delta, s, groups, analysis), least)


def hidden_quantile(delta: float, groups: int) -> float:
    """Find the t with 1 - P[N <= t]**groups = delta."""
    return normal_quantile_sf(math.log(-math.expm1(math.log1p(-delta) / groups)))


def lowest_tau(tau_of: Callable[[float], float], least_sigma: float) -> NoiseAndThreshold:
    """Minimise ``tau_of`` over sigma > least_sigma, where it starts at infinity and ends linear.

    Brent's method in log(sigma/least_sigma - 1), which spans any scale. The minimum may be next to
    least_sigma, as it is by the exact analysis, so that end is looked at, too.
    """
    from scipy.optimize import minimize_scalar

    tried: list[NoiseAndThreshold] = []

    def tau_at(x: float) -> float:
        sigma = least_sigma * (1 + math.exp(x))
        tried.append(NoiseAndThreshold(sigma, tau_of(sigma)))
        return tried[-1].tau

    ends = (math.log(_NEXT), math.log(4.0))
    minimize_scalar(tau_at, bounds=ends, method="bounded", options={"xatol": 1e-3})
    tau_at(ends[0])
    return min(tried, key=lambda found: found.tau)


def crossing(delta_of: Callable[[float], float], delta: float, low: float, high: float) -> float:
    """Find a tau with delta_of(tau) <= delta, smallest to a relative 1e-8, at or above ``low``.

    ``delta_of`` decreases and is at most delta at ``high``, but for rounding; ``low`` is often the
    answer. Chandrupatla's method (1997) on the logarithm; what is returned has been evaluated and
    found small enough.
    """
    target = math.log(delta)

    def excess(tau: float) -> float:
        return math.log(delta_of(tau)) - target

    a, b = low * (1 + 1e-8), high
    at_a, at_b = excess(a), excess(b)
    if at_a <= 0:
        return a
    while at_b > 0:
        b, at_b = b * (1 + 1e-11), excess(b * (1 + 1e-11))
    tolerance, share = 1e-10 * high, 0.5
    while abs(b - a) > tolerance:
        middle = a + share * (b - a)
        at_middle = excess(middle)
        if (at_middle > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = middle, at_middle
        share = _interpolated(a, at_a, b, at_b, c, at_c)
        least = tolerance / 2 / max(abs(b - a), tolerance)
        share = min(max(share, least), 1 - least)
    return a if at_a <= 0 else b


def _interpolated(a: float, at_a: float, b: float, at_b: float, c: float, at_c: float) -> float:
    """Choose where between a and b to look next: by inverse quadratics if they can be trusted."""
    along, up = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    if up * up >= along or (1 - up) ** 2 >= 1 - along:
        return 0.5
    first = at_a / (at_b - at_a) * at_c / (at_b - at_c)
    return first + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)


def check_parameters(epsilon: float, groups: int, delta: float = 0.25) -> None:
    """Raise ParameterError unless epsilon > 0, groups >= 1 and 0 < delta < 1/2."""
    checked_positive(epsilon, "epsilon")
    if groups < 1:
        raise ParameterError("the number of groups must be at least 1", code="not_positive")
    if not 0 < delta < 0.5:
        raise ParameterError("delta must lie strictly between 0 and 1/2", code="bad_probability")


def too_little_noise() -> ParameterError:
    return ParameterError(
        "sigma is too small: the noise alone exceeds delta, whatever the threshold",
        code="noise_scale",
        hint="raise sigma, epsilon or delta",
    )


# -- on the lattice ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparseHistogram(Usual):
    """Discrete Gaussian noise on each group present; released iff its noisy count > T.

    ``scores`` count privacy units; a unit changes at most ``groups`` of them by one. Groups with at
    most ``floor`` units (minimum units - 1) are dropped before noise. ``others`` is what Gaussian
    noise on further values of the released groups hides: their squared change per group, each in
    units of its own standard deviation (with ``LATTICE_VARIANCE`` less).

    Guarantee: (epsilon, delta)-DP of counts and further values together, T being the smallest
    integer for which the exact delta of the discrete mechanism is at most delta. As in Lemma 2.7 of
    Lebeda & Retschmeier 2024, with the lattice's tails: the loss of j shifted groups is a function
    of the sum of their noises, whose law is within a factor exp(±5j exp(-π²σ²)) of one discrete
    Gaussian with scale σ√j (Poisson summation; ``privacy.sampling.difference``). With further
    values it is that of continuous noise (``calibration.lattice_gaussian_delta``) on all of them:
    drawing theirs for the released groups only has the same law. It states no zCDP cost. Checked by
    ``tests/privacy/mechanisms/test_sparse_histogram.py``.
    """

    word: ClassVar[str] = "sparse histogram"
    name: ClassVar[str] = "gaussian_sparse_histogram"
    source: ClassVar[str] = "Wilkins et al. 2024; Lebeda & Retschmeier 2024, Lemma 2.7"
    epsilon: float
    delta: float
    groups: int
    sigma: float
    floor: int
    others: float = 0.0

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.epsilon if composition is Composition.BASIC else math.inf

    @property
    def score_noise(self) -> IndependentNoise:
        return IndependentNoise(DiscreteGaussian(self.sigma), 1)

    @property
    def threshold(self) -> int:
        """T: the noisy count a group must exceed, in units."""
        return self.floor + _lattice_threshold(
            self.epsilon, self.delta, self.groups, self.sigma, self.others
        )

    def score_for_inclusion(self, probability: float) -> float | None:
        if probability <= 0.5:
            return float(self.threshold)
        return self.threshold + 1 + DiscreteGaussian(self.sigma).quantile_sf(1 - probability)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the released groups and their noisy counts from counts of shape (groups,)."""
        noisy = scores + DiscreteGaussian(self.sigma).sample(len(scores), source)
        kept = np.flatnonzero((noisy > self.threshold) & (scores > self.floor))
        return Selected(kept, noisy[kept].astype(np.float64))


def sparse_histogram(epsilon: float, delta: float, groups: int, floor: int = 0) -> SparseHistogram:
    """Build the mechanism whose sigma minimises the threshold, (epsilon, delta)-DP as sampled.

    Raises ParameterError for parameters out of range.
    """
    sigma = calibrate_sparse_histogram(epsilon, delta, groups).sigma
    while lattice_noise_delta(epsilon, sigma, groups) >= delta:
        sigma *= 1 + 1e-4  # a step or two, but where the lattice is coarse beside sigma
    return SparseHistogram(epsilon, delta, groups, sigma, floor)


def joint_sparse_histogram(
    epsilon: float, delta: float, groups: int, floor: int, measures: int
) -> SparseHistogram:
    """Build the mechanism that leaves ``measures`` - 1 other values a noise as good as its own.

    What the noise with the least threshold hides is shared equally: the others may take
    ``groups`` * ``others`` in all. Raises ParameterError for parameters out of range.
    """
    if measures == 1:
        return sparse_histogram(epsilon, delta, groups, floor)
    alone = calibrate_sparse_histogram(epsilon, delta, groups).sigma ** 2
    sigma = lattice_sigma(measures * alone)
    return SparseHistogram(epsilon, delta, groups, sigma, floor, (1 - 1 / measures) / alone)


def lattice_noise_delta(epsilon: float, sigma: float, groups: int, others: float = 0.0) -> float:
    """Compute the delta of discrete Gaussian noise on ``groups`` counts that each change by one.

    Any real epsilon. With S the sum of the noises, P[S > x] - exp(ε) P[S > x + groups] at
    x = floor(ε σ² - groups/2); rounded up. With ``others`` (see ``SparseHistogram``) by the
    continuous analysis; 1.0 if sigma is too small for it.
    """
    if others > 0:
        if sigma < LEAST_SIGMA:
            return 1.0
        distance = math.sqrt(groups * (1 / (sigma * sigma - LATTICE_VARIANCE) + others))
        return gaussian_delta(epsilon, distance * (1 + 1e-12))
    total = DiscreteGaussian(sigma * math.sqrt(groups))
    spread = 0.0 if groups == 1 else 5 * groups * math.exp(-((math.pi * sigma) ** 2))
    x = math.floor(epsilon * sigma * sigma - groups / 2)
    above = total.log_sf(x) + spread
    beyond = total.log_sf(x + groups) - 1e-10 - spread
    return max(0.0, math.exp(above) - math.exp(epsilon + beyond))


def sparse_histogram_lattice_delta(
    epsilon: float, sigma: float, threshold: int, groups: int, others: float = 0.0
) -> float:
    """Compute the exact delta of discrete noise, released iff noisy > threshold; rounded up."""
    check_parameters(epsilon, groups)
    appears = DiscreteGaussian(sigma).sf(threshold - 1)
    if appears >= 1:
        return 1.0
    log_hidden = math.log1p(-appears)

    def noise_delta(epsilons: Floats, counts: Integers) -> Floats:
        pairs = zip(epsilons.tolist(), counts.tolist(), strict=True)
        return np.array([lattice_noise_delta(e, sigma, count, others) for e, count in pairs])

    mixed = worst_over(1, groups, split_bound(epsilon, groups, log_hidden, noise_delta))
    return min(1.0, max(-math.expm1(groups * log_hidden), mixed))


@lru_cache(maxsize=4096)
def _lattice_threshold(
    epsilon: float, delta: float, groups: int, sigma: float, others: float
) -> int:
    check_parameters(epsilon, groups, delta)
    if lattice_noise_delta(epsilon, sigma, groups, others) >= delta:
        raise too_little_noise()
    joint = 1 / math.sqrt(1 / sigma**2 + others)
    guess = 1 + round(sigma / joint * sparse_histogram_tau(epsilon, delta, joint, groups))
    return smallest(
        lambda t: sparse_histogram_lattice_delta(epsilon, sigma, t, groups, others) <= delta, guess
    )

"""Top-k with counts under noise that groups share, drawn on the half-integers.

Source: Lebeda & Retschmeier 2024, "The Correlated Gaussian Sparse Histogram Mechanism".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, Steps, UsualNoise
from dpsql.privacy.mechanisms.calibration import (
    LATTICE_VARIANCE,
    LEAST_SIGMA,
    analytic_gaussian_sigma,
    gaussian_deltas,
)
from dpsql.privacy.mechanisms.price import RHO_UP, lattice_gaussian_rho, priced
from dpsql.privacy.mechanisms.selection import BETA, AboveBase, Selected, UtilityBound
from dpsql.privacy.mechanisms.sparse_histogram import (
    BlockBound,
    Floats,
    Integers,
    check_parameters,
    normal_sf,
    worst_over,
)
from dpsql.privacy.mechanisms.topk import split_base
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource, difference_quantile_sf
from dpsql.privacy.sampling.numeric import checked_positive, normal_quantile_sf, smallest

_ROUNDING = 1e-9  # relative; exceeds the rounding errors of the sums below
_TABLE_SIGMA = 2048.0  # up to here the lattice is summed point by point
_REACH = 14.0  # P[Z > 14 sigma] is below 1e-43


def fresh_released(own: float, shared: float, fresh: int, x: int) -> float:
    """Bound P[max of ``fresh`` Z_i + Z > x] from above, Z_i ~ N_Z(0, own²), Z ~ N_Z(0, shared²).

    Summed over Z, where it is tight to a relative 1e-9 for own <= 2048. Above, Z comes in blocks
    that count as if at their upper end, and P[Z_i > y] is bounded by the integral from y + 1/2
    (the density is convex there): together tight to a few per cent.
    """
    if fresh == 0:
        return 0.0
    one, common = DiscreteGaussian(own), DiscreteGaussian(shared)
    reach = math.ceil(_REACH * shared)
    block = 1 if own <= _TABLE_SIGMA else max(1, int(shared / 512))
    ends = np.arange(-reach, reach + block, block)
    mass = block * common.pmf(np.clip(0, ends - block + 1, ends))
    tails = _tails(one, x - ends)
    with np.errstate(divide="ignore"):
        appears = -np.expm1(fresh * np.log1p(-np.minimum(tails, 1.0)))
    return min(1.0, float(mass @ appears) * (1 + _ROUNDING) + 2 * common.sf(reach - block))


def _tails(noise: DiscreteGaussian, y: Integers) -> Floats:
    """Compute upper bounds on P[Z > y] for integers y that descend in equal steps."""
    if noise.sigma > _TABLE_SIGMA:
        z = (y.astype(np.float64) + 0.5) / noise.sigma
        return np.where(z >= 1, normal_sf(z) * (1 + _ROUNDING), 1.0)
    first, last = int(y[-1]), max(int(y[0]), 0) + math.ceil(_REACH * noise.sigma)
    upwards = noise.pmf(np.arange(last, first, -1))  # P[Z = last], ..., P[Z = first + 1]
    sums = noise.sf(last) + np.cumsum(upwards)
    tails: Floats = np.append(noise.sf(last), sums)[last - y]
    return tails


@lru_cache(maxsize=1024)
def fresh_quantile(own: float, shared: float, fresh: int, delta: float) -> int:
    """Find the smallest integer x for which :func:`fresh_released` is at most ``delta``."""
    if not 0 < delta < 0.5:
        raise ParameterError("delta must lie strictly between 0 and 1/2", code="bad_probability")
    guess = math.hypot(own, shared) * normal_quantile_sf(math.log(delta / fresh))
    return smallest(lambda x: fresh_released(own, shared, fresh, x) <= delta, math.ceil(guess))


@dataclass(frozen=True, slots=True)
class TopKCounts(UsualNoise):
    """The noise on the counts that :class:`CorrelatedTopK` releases.

    (Z_i + Z)/2 with Z_i ~ N_Z(0, 4σ²), Z ~ N_Z(0, 4σ²/√k_bar), whatever number of groups come out.
    Its cost is that of the selection with its counts.
    """

    noise: CorrelatedGaussian
    k_bar: int

    @property
    def name(self) -> str:
        return self.noise.name

    @property
    def scale(self) -> float:
        return self.noise.sigma

    def cost(self, composition: Composition, reach: int) -> float:
        return _cost(composition, self.noise.sigma, self.noise.sensitivity, self.k_bar, 2)

    def std(self, groups: int) -> float:
        return self.noise.std(self.k_bar)

    def shared_part(self, groups: int) -> float:
        return self.noise.shared_part(self.k_bar)

    def margin(self, confidence: float, groups: int) -> float:
        return self.noise.margin(confidence, self.k_bar)

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        own, shared = _parts(self.noise.sigma, self.k_bar)
        return _plus_half(values, own.sample(len(values), source) + shared.sample(1, source))


@dataclass(frozen=True, slots=True)
class CorrelatedTopK(AboveBase):
    """The groups that stand out above the (k_bar+1)-th largest score, with their counts.

    With e_i = score_i - base > 0 for at most k_bar groups (base: the (k_bar+1)-th score, or the
    floor if that is larger), a group is released iff e_i + (Z_i + Z)/2 > T; at most ``k`` of them,
    the largest. Z_i ~ N_Z(0, 4σ²) is the group's own noise, Z ~ N_Z(0, 4σ²/√k_bar) is shared.
    Scores may only grow when a unit is added, by at most Δ∞ = ``sensitivity`` each; how many groups
    a unit touches does not matter.

    ``with_counts``: the base is released too, as base + (Z' - Z)/2 with Z' distributed like Z,
    which turns the noisy e_i into score_i + (Z_i + Z')/2. Else only names come out.

    Guarantee: δ-approximate ρ-zCDP, ρ = Δ∞²(k_bar + √k_bar)/(8σ²) without counts and
    Δ∞²(k_bar + 2√k_bar)/(8σ²) with them, and δ-approximate μ-GDP with the same for μ²/2, but for
    LATTICE_VARIANCE less in half-steps. T is the smallest half-integer with P[max of m (Z_i + Z)/2
    > T - Δ∞] <= δ, m = k_bar if Δ∞ = 1 and 2 k_bar otherwise.

    After Lebeda & Retschmeier 2024, Algorithms 2 to 4, Lemmas 4.1 and 7.5, Theorem 7.7. In
    half-steps, if a unit raises scores by v_i and the base by b, then 2e_i changes by
    2v_i - 2b = (2v_i - Δ∞) + (Δ∞ - 2b): the first part is absorbed by Z_i, the second by Z, and
    both are at most Δ∞ in size. Three things differ here.
    (1) The paper releases base + N(0, σ²/√k) for k + 5√k. Twice the base moves by 2b; reusing -Z
    absorbs 2b - Δ∞ of it and leaves Δ∞ to Z', hence k + 2√k; and the counts are less noisy.
    (2) The proof is by coupling (docs/mechanisms/coupling.md), not by the laws given that no fresh
    group is released: the companions show no group that only one neighbour has, and draw its noise
    alike. If Δ∞ > 1 groups may leave while others enter, hence 2 k_bar.
    (3) T comes from the exact law of the maximum in place of Lemma 7.6.
    Checked by ``tests/privacy/mechanisms/test_correlated_histogram.py``.
    """

    word: ClassVar[str] = "correlated top-k"
    name: ClassVar[str] = "correlated_top_k"
    source: ClassVar[str] = "Lebeda & Retschmeier 2024, Algorithm 3 and Theorem 7.7"
    sigma: float
    sensitivity: int
    k: int
    k_bar: int
    delta: float
    floor: int
    with_counts: bool = True

    def __post_init__(self) -> None:
        if min(self.sensitivity, self.k, self.k_bar) < 1:
            raise ParameterError("sensitivity, k and k_bar must be at least 1", code="not_positive")
        if not 2 * self.sigma >= self.k_bar**0.25:
            raise ParameterError(
                "sigma is too small for the analysis of shared noise",
                code="noise_scale",
                hint="lower epsilon or k_bar",
            )

    @property
    def score_noise(self) -> TopKCounts | None:
        if not self.with_counts:
            return None
        noise = CorrelatedGaussian(self.sigma, self.sensitivity)
        return TopKCounts(noise, self.k_bar)

    @property
    def leaves_out(self) -> bool:
        """It keeps the k largest itself."""
        return True

    @property
    def copies(self) -> int:
        """How many noises are shared: one for the selection, one for the counts."""
        return 2 if self.with_counts else 1

    @property
    def sides(self) -> int:
        """On how many of two neighbours there can be groups that the other lacks."""
        return 1 if self.sensitivity == 1 else 2

    @property
    def half_steps(self) -> int:
        """2T: twice what a noisy excess over the base must exceed."""
        own, shared = _parts(self.sigma, self.k_bar)
        fresh = self.sides * self.k_bar
        return 2 * self.sensitivity + fresh_quantile(own.sigma, shared.sigma, fresh, self.delta)

    @property
    def threshold(self) -> float:
        """T: what a noisy excess over the base must exceed."""
        return self.half_steps / 2

    def cost(self, composition: Composition, reach: int | None) -> float:
        return _cost(composition, self.sigma, self.sensitivity, self.k_bar, self.copies)

    def score_for_inclusion(self, probability: float) -> float | None:
        return self.threshold if probability <= 0.5 else self._surely(1 - probability)

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the k largest noisy excesses by a union over pairs, whose shared noise cancels."""
        own, pairs = 2 * self.sigma, k * (self.k_bar - k)
        share = beta / 2 if pairs else beta
        # A group x + 1 below is 2x + 2 half-steps below, and comes first if Z - Z' is as much.
        ahead = difference_quantile_sf(own, own, share / pairs) - 1 if pairs else 0
        return UtilityBound(beta, shortfall=float(-(-ahead // 2)), gap=self._surely(share / k))

    def _surely(self, probability: float) -> float:
        """Return the excess over the base that stays hidden with at most this probability."""
        own, shared = _parts(self.sigma, self.k_bar)
        tail = difference_quantile_sf(own.sigma, shared.sigma, probability)
        return (self.half_steps + tail + 1) / 2

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        values, candidates, base = split_base(scores, self.k_bar, self.floor)
        excess = values - base
        own, shared = _parts(self.sigma, self.k_bar)
        alone, common = own.sample(len(values), source), shared.sample(2, source)
        noise = alone + common[0]
        # 2e + n > 2T, without doubling e; a group level with the base does not exist.
        kept = np.flatnonzero((excess > (self.half_steps - noise) // 2) & (excess > 0))
        noisy = _plus_half(excess[kept], noise[kept])
        best = np.sort(kept[_largest(noisy, self.k, source)])
        if not self.with_counts:
            return Selected(candidates[best], None)
        return Selected(candidates[best], _plus_half(values[best], alone[best] + common[1]))


def correlated_top_k(
    price: PrivacyLoss,
    *,
    sensitivity: int,
    k: int,
    k_bar: int,
    floor: int,
    with_counts: bool = True,
) -> CorrelatedTopK | None:
    """Build the mechanism of at most ``price``.

    None if a rho is too large for its analysis.
    """
    epsilon, rho, delta = price.epsilon, price.rho, price.delta
    if price.composition is Composition.BASIC:
        return _one_shot(epsilon, sensitivity, k, k_bar, delta, floor, with_counts)
    checked_positive(rho, "rho")
    shared = (2 if with_counts else 1) * math.sqrt(k_bar)
    sigma = sensitivity * math.sqrt((k_bar + shared) / (8 * rho))
    if 2 * sigma < k_bar**0.25:
        return None
    while True:
        found = CorrelatedTopK(sigma, sensitivity, k, k_bar, delta, floor, with_counts)
        cost = priced(found, price).cost(price.composition, None)
        if cost <= rho:
            return found
        # A little less than what is missing: the cost falls somewhat faster than 1/sigma**2.
        sigma *= 1 + max(1e-12, 0.4 * (cost / rho - 1))


# -- a single publication ---------------------------------------------------------------------


def _suffices(mechanism: CorrelatedTopK, epsilon: float, delta: float) -> bool:
    """Tell whether one release is (epsilon, delta)-DP; bounds far from delta decide at once.

    Its delta is the worst, over the number j of groups that both neighbours have, of the chance
    that one of the others appears plus the delta of the noise on j groups, as in
    ``correlated_delta``. Discrete noise counts as continuous (see ``lattice_gaussian_delta``), in
    half-steps.
    """
    bound = _one_shot_bound(mechanism, epsilon)

    def near(low: Integers, high: Integers) -> Floats:
        return np.clip(bound(low, high), delta * (1 - 1e-6), delta * (1 + 1e-6))

    return worst_over(0, mechanism.k_bar, near) <= delta


def _one_shot_bound(mechanism: CorrelatedTopK, epsilon: float) -> BlockBound:
    """Bound the deltas of low to high common groups."""
    own, shared = _parts(mechanism.sigma, mechanism.k_bar)
    k_bar, limit = mechanism.k_bar, mechanism.half_steps - 2 * mechanism.sensitivity
    per_group = 1 / (own.sigma**2 - LATTICE_VARIANCE)
    for_all = mechanism.copies / (shared.sigma**2 - LATTICE_VARIANCE)

    def noise_delta(common: Integers) -> Floats:
        distance = mechanism.sensitivity * np.sqrt(common * per_group + for_all)
        return gaussian_deltas(epsilon, distance * (1 + 1e-12))

    def bound(low: Integers, high: Integers) -> Floats:
        others = mechanism.sides * (k_bar - low)
        appears = [fresh_released(own.sigma, shared.sigma, int(m), limit) for m in others]
        return np.array(appears) + noise_delta(high)

    # Without a common group only the shared noise remains: covered by counting it in.
    return bound


@lru_cache(maxsize=4096)
def _one_shot(
    epsilon: float,
    sensitivity: int,
    k: int,
    k_bar: int,
    delta: float,
    floor: int,
    with_counts: bool,
) -> CorrelatedTopK:
    """Build the mechanism whose release is (epsilon, delta)-DP, its threshold near the lowest.

    The noise alone and the threshold alone may each take nearly all of delta, as no neighbours are
    worst for both. For the analysis' sake sigma is never below k_bar^(1/4)/2, so a large epsilon
    gains little. Raises ParameterError for parameters out of range.
    """
    check_parameters(epsilon, k_bar, delta)
    copies, root = (2 if with_counts else 1), math.sqrt(k_bar)
    distance = sensitivity * math.sqrt(k_bar + copies * root) / 2
    lattice = LATTICE_VARIANCE / 4 * (1 + copies) * root / (root + copies)
    least = LEAST_SIGMA**2 * root / 4 * (1 + 1e-12)
    share, rest = 1.0, 0.01
    while True:
        share, rest = (1 - rest if rest < 0.5 else share / 2), 2 * rest
        sigma = analytic_gaussian_sigma(epsilon, delta * share, distance)
        sigma = math.sqrt(max(sigma**2 + lattice, least))
        found = CorrelatedTopK(sigma, sensitivity, k, k_bar, delta * share, floor, with_counts)
        if _suffices(found, epsilon, delta):
            return found


def _cost(
    composition: Composition, sigma: float, sensitivity: int, k_bar: int, copies: int
) -> float:
    """Compute the price of k_bar noises of their own and of ``copies`` that they share."""
    own, shared = _parts(sigma, k_bar)
    match composition:
        case Composition.ZCDP:
            cost = k_bar * own.rho(sensitivity) + copies * shared.rho(sensitivity)
            return cost * (1 + 2.0**-50)
        case Composition.GDP:
            squared = sensitivity**2
            alone = lattice_gaussian_rho(own, k_bar * squared)
            return (alone + lattice_gaussian_rho(shared, copies * squared)) * RHO_UP
        case Composition.BASIC:
            return math.inf


def _parts(sigma: float, k_bar: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
    return DiscreteGaussian(2 * sigma), DiscreteGaussian(2 * sigma / k_bar**0.25)


def _plus_half(values: NDArray[np.int64], half_steps: NDArray[np.int64]) -> Steps:
    # Whole steps first, as integers: a float sum would round the exact value before its noise.
    noisy: Steps = values + half_steps // 2 + half_steps % 2 / 2
    return noisy


def _largest(noisy: Steps, k: int, source: EntropySource) -> NDArray[np.intp]:
    """Find the positions of the k largest; ties by lot, as their order is exact and private."""
    if len(noisy) <= k:
        return np.arange(len(noisy))
    return np.lexsort((source.words(len(noisy)), -noisy))[:k]

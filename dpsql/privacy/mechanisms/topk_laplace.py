"""Top-k from the k_bar+1 largest groups with Laplace noise, under (epsilon, delta)-DP.

Both mechanisms count privacy units: a unit raises each score by at most one. As in
:mod:`dpsql.privacy.mechanisms.topk`, groups at or below the floor do not exist, and the base is the
(k_bar+1)-th score or the floor.

Source: Durfee & Rogers 2019, Algorithm 4 and Appendix F.
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
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.selection import BETA, AboveBase, Selected, Usual, UtilityBound
from dpsql.privacy.mechanisms.topk import moved_scores, split_base
from dpsql.privacy.sampling.noise import DiscreteLaplace, EntropySource
from dpsql.privacy.sampling.numeric import SLOP, checked_positive, smallest

MAX_RELEASE_EPSILON = 100.0  # of a whole release: beyond, exp(epsilon) leaves nothing of any delta
_SUMMED_SCALE = 512.0  # up to here tails are summed over the threshold's noise


def overtaking_delta(scale: float, items: int, t: int) -> float:
    """Bound P[max of ``items`` Z_i > t + Z] from above for discrete Laplace noises, t >= 0.

    Exact to rounding for scales up to 512; above, the union bound over the items.
    """
    noise = DiscreteLaplace(scale)
    union = items * _difference_sf(scale, t)
    if scale > _SUMMED_SCALE:
        return min(1.0, union)
    reach = math.ceil(80 * scale)
    z = np.arange(-reach, reach + 1)
    # P[Z_i > y] = q**(y+1)/(1+q) for y >= -1, and by symmetry below.
    log_q = -1.0 / scale
    y = (t + z).astype(np.float64)
    upper = np.exp(log_q * (np.maximum(y, -1.0) + 1)) / (1 + math.exp(log_q))
    lower = 1 - np.exp(-log_q * np.minimum(y, 0.0)) / (1 + math.exp(log_q))
    tails = np.where(y >= -1, upper, lower)
    with np.errstate(divide="ignore"):
        appears = -np.expm1(items * np.log1p(-tails))
    summed = float(noise.pmf(z) @ appears) * (1 + 1e-10) + 2 * noise.sf(reach)
    return min(1.0, union, summed)


@lru_cache(maxsize=4096)
def _difference_quantile(scale: float, probability: float) -> int:
    """Find the smallest t >= 0 with P[Z1 - Z2 > t] <= ``probability``."""
    guess = max(0, math.ceil(scale * -math.log(probability)))
    return smallest(lambda t: t >= 0 and _difference_sf(scale, t) <= probability, guess)


def _difference_sf(scale: float, t: int) -> float:
    """Compute P[Z1 - Z2 > t] for independent discrete Laplace noises and t >= 0, rounded up.

    With q = exp(-1/scale): P[Z1 - Z2 = d] = ((1-q)/(1+q))**2 q**d (d + (1+q**2)/(1-q**2)), d >= 0.
    """
    eps = 1 / scale
    q, gap = math.exp(-eps), -math.expm1(-eps)
    n = t + 1
    series = n + q / gap + (1 + q * q) / (gap * (1 + q))
    return math.exp(-n * eps) * gap * series / (1 + q) ** 2 * (1 + SLOP)


@dataclass(frozen=True, slots=True)
class LaplaceTopK(AboveBase):
    """Laplace noise on the k_bar largest scores and the threshold; scores above it are released.

    score_i + Z_i against base + 1 + t + Z', all discrete Laplace of scale 1/``epsilon_per_group``;
    one unit raises at most ``groups`` scores, by one each. The noisy scores are released too.

    Guarantee: (epsilon, delta)-DP, epsilon = min(groups, k_bar + 1)*epsilon_per_group; t is the
    smallest integer for which P[max of min(groups, k_bar) Z_i > t + Z'] <= delta. It states no zCDP
    cost. Raises ParameterError for parameters out of range.

    Durfee & Rogers 2019, Lemma 6.1, whose (δ/4)(3 + ln(Δ0/δ)) bounds the same probability for
    continuous noise, and who pay it exp(epsilon) + 1 times. By coupling it is paid once: with the
    groups that enter the top under the labels of those that leave it, scores and base together
    change by one in at most so many places (``docs/mechanisms/coupling.md``).
    Checked by ``tests/privacy/mechanisms/test_coupling.py`` and ``test_topk_laplace.py``.
    """

    word: ClassVar[str] = "laplace top-k"
    name: ClassVar[str] = "laplace_top_k"
    source: ClassVar[str] = "Durfee & Rogers 2019, Algorithm 4 and Lemma 6.1"
    epsilon_per_group: float
    groups: int
    k_bar: int
    delta: float
    floor: int

    def __post_init__(self) -> None:
        _check(self.epsilon_per_group, self.delta, self.groups, self.k_bar)
        if self.epsilon > MAX_RELEASE_EPSILON:
            raise ParameterError("epsilon is too large for its analysis", code="epsilon_range")

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole release."""
        moved = moved_scores(self.groups, self.k_bar)
        return moved * self.epsilon_per_group * (1 + 2.0**-50)

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.epsilon if composition is Composition.BASIC else math.inf

    @property
    def score_noise(self) -> IndependentNoise:
        return IndependentNoise(DiscreteLaplace(1 / self.epsilon_per_group), 1)

    @property
    def threshold(self) -> int:
        """How far above the (k_bar+1)-th score the threshold is centred."""
        crossing = min(self.groups, self.k_bar)
        allowed = self.delta * (1 - 1e-12)
        return 1 + _overtaking_quantile(1 / self.epsilon_per_group, crossing, allowed)

    def score_for_inclusion(self, probability: float) -> float | None:
        if probability <= 0.5:
            return float(self.threshold)
        hidden = _difference_quantile(1 / self.epsilon_per_group, 1 - probability)
        return self.threshold + 1 + hidden

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the k largest noisy scores by a union over pairs of a wanted and another group."""
        scale, pairs = 1 / self.epsilon_per_group, k * (self.k_bar - k)
        share = beta / 2 if pairs else beta
        return UtilityBound(
            beta,
            shortfall=_difference_quantile(scale, share / pairs) if pairs else 0.0,
            gap=self.threshold + 1 + _difference_quantile(scale, share / k),
        )

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the released groups and their noisy scores from scores of shape (groups,)."""
        values, candidates, base = split_base(scores, self.k_bar, self.floor)
        noise = DiscreteLaplace(1 / self.epsilon_per_group)
        noisy = np.append(values, base + self.threshold) + noise.sample(len(values) + 1, source)
        kept = np.flatnonzero(noisy[:-1] > noisy[-1])
        return Selected(candidates[kept], noisy[kept].astype(np.float64))


@dataclass(frozen=True, slots=True)
class FixedThreshold(Usual):
    """The names of groups that stand out above the (k+1)-th largest score; the threshold is fixed.

    A group with score_i > base is released iff score_i + Z_i > base + 1 + t, with discrete Laplace
    noise of scale 1/``epsilon_per_group``. Unordered, without counts. How many groups a unit
    touches does not matter.

    Guarantee: (epsilon, delta)-DP, delta = 1 - (1 - δ1)^k + ``delta_composition``, where
    δ1 = P[Z > t] <= ``delta_per_group`` and epsilon is the smaller of k*ε1 and
    k*ε1*tanh(ε1/2) + ε1*sqrt(2k ln(1/delta_composition)). It states no zCDP cost.

    Durfee & Rogers 2019, Appendix F. At most k excesses over the base exist, with and without the
    unit together, and each changes by at most one (Lebeda & Retschmeier 2024, Lemma 4.1), so this
    is a composition of k (ε1, δ1)-DP answers. Their Algorithm 8 prints a comparison of the *true*
    score with the threshold before drawing noise; it must be with the base, as in Definition F.1.
    Checked by ``tests/privacy/mechanisms/test_topk_laplace.py``.
    """

    word: ClassVar[str] = "fixed threshold"
    name: ClassVar[str] = "fixed_threshold"
    source: ClassVar[str] = "Durfee & Rogers 2019, Appendix F"
    epsilon_per_group: float
    k: int
    delta_per_group: float
    delta_composition: float
    floor: int

    def __post_init__(self) -> None:
        _check(self.epsilon_per_group, self.delta_per_group, self.k, self.k)
        if not 0 <= self.delta_composition < 1:
            raise _bad_delta()

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole release."""
        one, k = self.epsilon_per_group, self.k
        found = k * one
        if self.delta_composition > 0:
            spread = math.sqrt(-2 * k * math.log(self.delta_composition))
            found = min(found, k * one * math.tanh(one / 2) + one * spread)
        return found * (1 + 2.0**-48)

    @property
    def delta(self) -> float:
        """The delta of the whole release."""
        appears = -math.expm1(self.k * math.log1p(-self.delta_per_group))
        return (appears + self.delta_composition) * (1 + 2.0**-48)

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.epsilon if composition is Composition.BASIC else math.inf

    @property
    def top_rows_needed(self) -> int | None:
        return self.k + 1

    @property
    def threshold(self) -> int:
        """How far above the (k+1)-th score a noisy score must be."""
        return 1 + DiscreteLaplace(1 / self.epsilon_per_group).quantile_sf(self.delta_per_group)

    def score_for_inclusion(self, probability: float) -> float | None:
        """Find the score, counted from the (k+1)-th largest."""
        if probability <= 0.5:
            return float(self.threshold)
        hidden = DiscreteLaplace(1 / self.epsilon_per_group).quantile_sf(1 - probability)
        return self.threshold + 1 + hidden

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound how much the k largest scores need to come out.

        Only they can; all do unless one of k independent noises is low.
        """
        each = -math.expm1(math.log1p(-beta) / k)
        hidden = DiscreteLaplace(1 / self.epsilon_per_group).quantile_sf(each)
        return UtilityBound(beta, shortfall=0.0, gap=self.threshold + 1 + hidden)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the names of the released groups from true scores of shape (groups,)."""
        values, candidates, base = split_base(scores, self.k, self.floor)
        noise = DiscreteLaplace(1 / self.epsilon_per_group).sample(len(values), source)
        kept = np.flatnonzero((values + noise > base + self.threshold) & (values > base))
        return Selected(candidates[kept], None)


def fixed_threshold(epsilon: float, *, delta: float, k: int, floor: int) -> FixedThreshold:
    """Find the (epsilon, delta)-DP threshold: the lower of basic and advanced composition.

    Raises ParameterError for parameters out of range.
    """
    checked_positive(epsilon, "epsilon")
    if not 0 < delta < 1:
        raise _bad_delta()

    def built(one: float, composition: float) -> FixedThreshold:
        rest = delta * (1 - 1e-12) - composition
        return FixedThreshold(one, k, rest / k * (1 - 1e-12), composition, floor)

    basic = built(epsilon / k * (1 - 1e-12), 0.0)
    low, high = basic.epsilon_per_group, epsilon
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        if built(middle, delta / 2).epsilon <= epsilon:
            low = middle
        else:
            high = middle
    return min(basic, built(low, delta / 2), key=lambda mechanism: mechanism.threshold)


def laplace_top_k(price: PrivacyLoss, *, groups: int, k_bar: int, floor: int) -> LaplaceTopK:
    """Build the mechanism of at most the epsilon and delta of ``price``."""
    each = price.epsilon / moved_scores(groups, k_bar) * (1 - 1e-12)
    return LaplaceTopK(each, groups, k_bar, price.delta, floor)


@lru_cache(maxsize=4096)
def _overtaking_quantile(scale: float, items: int, delta: float) -> int:
    guess = max(0, math.ceil(scale * math.log(items / delta)))
    return smallest(lambda t: t >= 0 and overtaking_delta(scale, items, t) <= delta, guess)


def _check(epsilon: float, delta: float, groups: int, k_bar: int) -> None:
    checked_positive(epsilon, "epsilon")
    if not 0 < delta < 1:
        raise _bad_delta()
    if groups < 1 or k_bar < 1:
        raise ParameterError("the number of groups must be at least 1", code="not_positive")


def _bad_delta() -> ParameterError:
    return ParameterError("delta must lie strictly between 0 and 1", code="bad_probability")

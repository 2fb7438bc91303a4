"""Histograms of weighted units: a unit with many groups keeps more of them, each counting for less.

A unit that may contribute to G groups and has n of them can be sampled, or it can keep them with
weight sqrt(G/n) each: its l2 norm is at most sqrt(G) either way, so Gaussian noise of the same size
covers both, but the weighted counts miss less. Only up to ``kept`` groups are kept (a unit with
more is sampled down first, by a salted hash), because the threshold has to hide any number of fresh
groups that a unit may bring.

**Lattice.** Weights are integers, floor(STEPS * min(1, sqrt(G/n))), from an exact integer square
root: n * weight**2 <= G * STEPS**2 without any rounding error. With STEPS = 2**16 rounding down
costs a weight less than 2**-16 of a unit; noise of up to MAX_SCALE = 2**40 steps is 2**24 units;
and sums of weights stay exact in 64 bits up to 2**47 units.

**Setting.** Scores are sums of weights. Neighbours differ in one unit, which keeps n groups, 1 <= n
<= kept. All of them have the same weight w = weight_of(G, n), and no other unit's weights depend on
it, so the scores of j of the groups (the old ones, present without the unit) rise by w, and n - j
(the fresh ones) are present with the unit only. With a minimum of floor + 1 units per group, which
the engine enforces, fresh groups have ``floor`` other units, each of weight STEPS at most: their
score is at most floor * STEPS + w. Noise Z is drawn for each group present; a group is released,
with its noisy score, iff that exceeds T. All groups present whose score does not change contribute
the same independent outputs to both neighbours.

**What fresh groups reveal.** They all stay hidden with probability psi >= h(n)**(n - j), where
h(n) = P[Z <= T - floor * STEPS - w]. The worst case is L = min over n of n log h(n), so that

    log psi >= (n - j) log h(n) = (1 - f) n log h(n) >= (1 - f) L,    f = j/n.

**Approximate zCDP.** Given that no fresh group is released (an event of probability at least
exp(L) with the unit, and 1 without), what is released is post-processing of Gaussian noise on
scores at l2 distance sqrt(j) w <= sqrt(G) STEPS. So delta = 1 - exp(L) and rho = G STEPS**2 /
(2 sigma**2) (Rogers 2024, Theorem 7, which has w = 1).

**(epsilon, delta).** Let P be the law of the old groups' outputs with the unit, Q without, and
H(e) = sup over events of P - exp(e) Q, which is that of two Gaussians at distance sqrt(j) w <=
sqrt(f G) STEPS or less (Balle & Wang 2018, Theorem 8; the same for Q - exp(e) P, by symmetry).
With the unit, an output shows a fresh group with probability 1 - psi, and is otherwise drawn from
P; without, it is drawn from Q. In the two directions the smallest delta is therefore

    1 - psi + sup (psi P - exp(epsilon) Q) = 1 - psi + psi H(epsilon - log psi),
    sup (Q - exp(epsilon) psi P)           = H(epsilon + log psi),

as in Lebeda & Retschmeier 2024, Lemma 2.7. Both grow as psi falls (the derivative of the first by
psi is P of an event - 1 <= 0) and as the distance grows, so both are bounded by their values at
distance sqrt(f G) STEPS and log psi = (1 - f) L: the pair (n, j) is gone, and with it the need to
search both. The maximum over f in [0, 1] bounds delta; f ranges over a grid whose cells are
evaluated at their worse corners. At f = 0 this is 1 - exp(L), as above.

**Discrete noise.** The tails in h(n) are those of the discrete Gaussian that is drawn, rounded up.
H is at most that of continuous noise of variance sigma**2 - LATTICE_VARIANCE (in steps), by
:func:`dpsql.privacy.mechanisms.calibration.lattice_gaussian_delta`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, gaussian
from dpsql.privacy.mechanisms.calibration import (
    analytic_gaussian_sigma,
    gaussian_deltas,
    lattice_sigma,
    smooth_sigma,
)
from dpsql.privacy.mechanisms.price import priced
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.mechanisms.sparse_histogram import (
    Floats,
    Integers,
    check_parameters,
    crossing,
    lowest_tau,
    normal_sf,
    split_bound,
    too_little_noise,
    worst_over,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource
from dpsql.privacy.sampling.numeric import normal_quantile_sf, smallest

WEIGHT_STEPS = 2**16
"""Lattice steps in a whole unit's weight."""
KEPT_FACTOR = 7
"""How many times ``max_groups_contributed`` groups a weighted unit keeps.

Keeping more weighs more groups but raises the threshold, slowly: by 2% at twice as many, 6% at
seven times, 8% at fifteen times (one publication at epsilon 1, delta 1e-6, 10 groups). On zipf-like
data the number of released groups peaks at 5 to 7 times, while the error hardly falls beyond.
"""

SQUARE_STEPS = 2**16
"""Lattice steps in the square of the most that a unit may add to a group."""
PART_STEPS = 2**8
"""Lattice steps in the most that a unit may add to a group; their squares are SQUARE_STEPS."""
MOST_NORM = 2**7
"""Norms above, in the most that a unit may add to a group, are not told apart."""

_CELLS = 2**16  # of the grid for the fraction of old groups
_SLACK = 1e-12


def kept_groups(groups: int) -> int:
    """Tell how many groups a weighted unit keeps, from a public parameter alone."""
    return KEPT_FACTOR * groups


def weight_of(groups: int, size: int) -> int:
    """Compute the weight, in steps, of each group of a unit that keeps ``size`` groups."""
    return WEIGHT_STEPS if size <= groups else math.isqrt(groups * WEIGHT_STEPS**2 // size)


def weights_of(groups: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute ``weight_of`` for each of some sizes: an int64 array of their shape.

    ``groups`` are fewer than 2**31. Roots of numbers below 2**32 are exact in doubles.
    """
    found: NDArray[np.int64] = np.sqrt(groups * WEIGHT_STEPS**2 // np.maximum(sizes, groups))
    return found.astype(np.int64)


def weights_within(groups: int, squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the weights, in steps, of units by their squared l2 norms, in ``SQUARE_STEPS``.

    A unit whose squared norm is n counts min(1, sqrt(groups/n)) times what it adds: then its norm
    is sqrt(groups) at most. Of a unit that adds the most it may to each of its groups n is their
    number, and this is ``weights_of``. An int64 array of the shape of ``squares``; ``groups`` are
    fewer than 2**14.
    """
    most = groups * SQUARE_STEPS
    found: NDArray[np.int64] = np.sqrt(most * WEIGHT_STEPS**2 // np.maximum(squares, most))
    return found.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Weights:
    """Units of at most ``kept`` groups, weighted down to the l2 norm of ``groups`` whole ones.

    Raises ParameterError unless 1 <= groups <= kept.
    """

    groups: int
    kept: int

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= self.kept:
            raise ParameterError(
                "weighting keeps at least as many groups as it may contribute to, and at least 1",
                code="not_positive",
            )

    def of(self, sizes: Integers) -> Integers:
        """Compute the weight of each group of a unit of that size, in steps."""
        weights = [weight_of(self.groups, size) for size in sizes.tolist()]
        return np.array(weights, dtype=np.int64)

    def log_hidden(self, log_hidden_at: Callable[[Integers], Floats]) -> float:
        """Bound from below L: the least log-probability that a unit's fresh groups all stay hidden.

        ``log_hidden_at`` is that of one group, by weight. The worst size is never below ``groups``,
        where a group has its whole weight already; a block of sizes is bounded by its largest size
        at its largest weight.
        """

        def shown(low: Integers, high: Integers) -> Floats:
            exposure: Floats = -high * log_hidden_at(self.of(low))
            return exposure

        return -worst_over(self.groups, self.kept, shown) * (1 + _SLACK)


# -- analyses ---------------------------------------------------------------------------------


class TailedNoise(Protocol):
    """Noise on the integers, as far as thresholds need to know it."""

    @property
    def sigma(self) -> float:
        """Its scale, which is about its standard deviation."""

    def sf(self, t: int) -> float:
        """Bound P[noise > t] from above."""

    def __hash__(self) -> int:
        """Return the hash of a value: thresholds are remembered."""


def fresh_delta(noise: TailedNoise, threshold: int, weights: Weights) -> float:
    """Bound the probability that some fresh group's noisy weight exceeds ``threshold``."""
    return -math.expm1(_lattice_log_hidden(noise, threshold, weights)) * (1 + _SLACK)


def weighted_histogram_delta(
    epsilon: float, noise: DiscreteGaussian, threshold: int, weights: Weights, others: float = 0.0
) -> float:
    """Compute delta of discrete noise at ``epsilon``, released iff noisy > threshold; rounded up.

    ``threshold`` is in steps, above any floor; ``others`` as in ``WeightedSparseHistogram``. Raises
    ParameterError for an epsilon out of range and for noise of less than a step. Checked by
    ``tests/privacy/mechanisms/test_weighted_histogram.py``.
    """
    check_parameters(epsilon, weights.groups)
    log_hidden = _lattice_log_hidden(noise, threshold, weights)
    return _delta(epsilon, weights.groups, _joint(_smooth(noise.sigma), others), log_hidden)


def shared_out_delta(epsilon: float, distance: float, log_hidden: float) -> float:
    """Bound delta of Gaussian noise for units whose weight is shared out to old and fresh groups.

    If a fraction f of a unit's groups is old, the scores of these move by at most sqrt(f) *
    ``distance`` in l2, in standard deviations of continuous noise, and the others all stay hidden
    with probability at least exp((1 - f) * ``log_hidden``). The larger of the module's two
    families, at the worst f. Checked by ``tests/privacy/mechanisms/test_weighted_histogram.py``.
    """

    def noise_delta(epsilons: Floats, cells: Integers) -> Floats:
        return gaussian_deltas(epsilons, np.sqrt(cells / _CELLS) * (distance * (1 + _SLACK)))

    if log_hidden == -math.inf:
        return 1.0
    corner = split_bound(epsilon, _CELLS, log_hidden / _CELLS, noise_delta)
    mixed = worst_over(1, _CELLS, lambda low, high: corner(low - 1, high))
    return min(1.0, max(-math.expm1(log_hidden) * (1 + _SLACK), mixed))


def _delta(epsilon: float, groups: int, sigma: float, log_hidden: float) -> float:
    """Compute delta for units that weigh at most ``groups`` whole groups; ``sigma`` in steps."""
    distance = math.sqrt(groups) * WEIGHT_STEPS / sigma * (1 + _SLACK)
    return shared_out_delta(epsilon, distance, log_hidden)


def _smooth(sigma: float) -> float:
    """Return the scale of the continuous noise that discrete noise is as private as."""
    smooth = smooth_sigma(sigma)
    if smooth == 0.0:
        raise too_little_noise()
    return smooth


def _joint(sigma: float, others: float) -> float:
    """Find the scale of one noise that hides as little as ``sigma`` and the others together."""
    return 1 / math.sqrt(1 / sigma**2 + others / WEIGHT_STEPS**2) * (1 - _SLACK)


def _lattice_log_hidden(noise: TailedNoise, threshold: int, weights: Weights) -> float:
    def at(given: Integers) -> Floats:
        shown = [noise.sf(threshold - weight) for weight in given.tolist()]
        return _log_complement(np.array(shown))

    return weights.log_hidden(at)


def _continuous_log_hidden(sigma: float, threshold: float, weights: Weights) -> float:
    def at(given: Integers) -> Floats:
        return _log_complement(normal_sf(np.asarray((threshold - given) / sigma, np.float64)))

    return weights.log_hidden(at)


def _log_complement(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log1p(-np.minimum(probabilities, 1.0))
    return logs


# -- calibration ------------------------------------------------------------------------------


def _hiding(delta: float, sigma: float, weights: Weights) -> float:
    """Find about the least threshold that shows fresh groups with chance at most ``delta``."""
    log_hidden = math.log1p(-delta)

    def needed(size: int) -> float:
        tail = normal_quantile_sf(math.log(-math.expm1(log_hidden / size)))
        return weight_of(weights.groups, size) + sigma * tail

    def delta_of(threshold: float) -> float:
        shown = -math.expm1(_continuous_log_hidden(sigma, threshold, weights))
        return max(shown, sys.float_info.min)  # whose logarithm is finite

    low = max(needed(weights.groups), needed(weights.kept))
    # No size needs more than a whole weight on top of the largest size's tail.
    return crossing(delta_of, delta, low, low + WEIGHT_STEPS)


def _continuous_threshold(
    epsilon: float, delta: float, sigma: float, weights: Weights, others: float = 0.0
) -> float:
    """Find the least threshold for continuous noise; infinite if the noise alone exceeds delta."""
    joint = _joint(sigma, others)
    rest = delta - gaussian_delta(epsilon, math.sqrt(weights.groups) * WEIGHT_STEPS / joint)
    if rest <= 0:
        return math.inf

    def delta_of(threshold: float) -> float:
        hidden = _continuous_log_hidden(sigma, threshold, weights)
        return _delta(epsilon, weights.groups, joint, hidden)

    least = _hiding(delta, sigma, weights)
    if delta_of(least) <= delta:
        return least
    return crossing(delta_of, delta, least, _hiding(rest * (1 - 1e-9), sigma, weights))


@lru_cache(maxsize=4096)
def fresh_threshold(noise: TailedNoise, delta: float, weights: Weights, beyond: int = 0) -> int:
    """Find the smallest threshold, above any floor, that hides fresh groups up to ``delta``.

    ``beyond`` is about how much farther out than a normal tail that of the noise is bounded, from
    where the search begins.
    """
    guess = round(_hiding(delta, noise.sigma, weights)) + beyond
    return smallest(lambda t: fresh_delta(noise, t, weights) <= delta, guess)


@lru_cache(maxsize=4096)
def _one_shot_threshold(
    epsilon: float, delta: float, noise: DiscreteGaussian, weights: Weights, others: float
) -> int:
    check_parameters(epsilon, weights.groups, delta)
    continuous = _continuous_threshold(epsilon, delta, _smooth(noise.sigma), weights, others)
    if continuous == math.inf:
        raise too_little_noise()
    return smallest(
        lambda t: weighted_histogram_delta(epsilon, noise, t, weights, others) <= delta,
        round(continuous),
    )


@lru_cache(maxsize=4096)
def _one_shot_sigma(epsilon: float, delta: float, weights: Weights) -> float:
    """Find the continuous noise, in steps, that allows the lowest threshold."""
    least = analytic_gaussian_sigma(epsilon, delta, math.sqrt(weights.groups) * WEIGHT_STEPS)
    return lowest_tau(lambda s: _continuous_threshold(epsilon, delta, s, weights), least).sigma


# -- mechanisms -------------------------------------------------------------------------------


class _Weighted(Usual):
    """Release groups whose noisy weight exceeds a threshold; each kind sets the threshold."""

    __slots__ = ()
    noise: DiscreteGaussian

    @property
    def threshold(self) -> int:
        raise NotImplementedError

    @property
    def score_noise(self) -> IndependentNoise:
        return IndependentNoise(self.noise, WEIGHT_STEPS)

    def score_for_inclusion(self, probability: float) -> float | None:
        if probability <= 0.5:
            return float(self.threshold)
        return self.threshold + self.noise.quantile_sf(1 - probability)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        noisy = self.score_noise.add(scores, source)
        kept = np.flatnonzero(noisy > self.threshold)
        return Selected(kept, noisy[kept])


@dataclass(frozen=True, slots=True)
class WeightedPositiveCounts(_Weighted):
    """Noise on each group's weight; a group is released iff its noisy weight > T.

    ``noise`` is in steps. Groups of at most ``floor`` units (minimum units - 1) must have been
    dropped: weights do not tell.

    Guarantee: δ-approximate G*STEPS²/(2σ²)-zCDP, with the smallest T for which the fresh groups of
    a unit of any size stay hidden with probability 1 - δ, by the exact tail of the sampled
    distribution (Rogers 2024, Theorem 7, with weights; see the module for the proof). Checked by
    ``tests/privacy/mechanisms/test_weighted_histogram.py``.
    """

    word: ClassVar[str] = "weighted positive counts"
    name: ClassVar[str] = "weighted_gaussian_positive_counts"
    source: ClassVar[str] = "Rogers 2024, Theorem 7, with weights"
    noise: DiscreteGaussian
    weights: Weights
    delta: float
    floor: int

    @property
    def threshold(self) -> int:
        """T: the noisy weight a group must exceed, in steps."""
        return self.floor * WEIGHT_STEPS + fresh_threshold(self.noise, self.delta, self.weights)

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.score_noise.cost(composition, self.weights.groups)


@dataclass(frozen=True, slots=True)
class WeightedSparseHistogram(_Weighted):
    """Noise on each group's weight; a group is released iff its noisy weight > T.

    ``noise`` is in steps. Groups of at most ``floor`` units (minimum units - 1) must have been
    dropped: weights do not tell.

    Further values of the released groups may be shown with Gaussian noise of their own. ``others``
    is what they reveal: for each value the squared change of a group by a whole weight over the
    noise's variance (less LATTICE_VARIANCE), added up over the values.

    Guarantee: (epsilon, delta)-DP of weights and further values together, T being the smallest
    integer for which the delta of the module's analysis is at most delta (Lebeda & Retschmeier
    2024, Lemma 2.7, with weights), the distance there being that of all values of the old groups:
    drawing further values for the released groups only has the same law. It states no zCDP cost.
    Checked by ``tests/privacy/mechanisms/test_weighted_histogram.py``.
    """

    word: ClassVar[str] = "weighted sparse histogram"
    name: ClassVar[str] = "weighted_gaussian_sparse_histogram"
    source: ClassVar[str] = "Lebeda & Retschmeier 2024, Lemma 2.7, with weights"
    epsilon: float
    delta: float
    noise: DiscreteGaussian
    weights: Weights
    floor: int
    others: float = 0.0

    @property
    def threshold(self) -> int:
        """T: the noisy weight a group must exceed, in steps."""
        return self.floor * WEIGHT_STEPS + _one_shot_threshold(
            self.epsilon, self.delta, self.noise, self.weights, self.others
        )

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.epsilon if composition is Composition.BASIC else math.inf


def weighted_positive_counts(
    price: PrivacyLoss, weights: Weights, floor: int = 0
) -> WeightedPositiveCounts:
    """Build the mechanism of at most ``price``. Raises ParameterError if that is out of range."""
    check_parameters(1.0, weights.groups, price.delta)
    noise = gaussian(price, WEIGHT_STEPS, weights.groups).noise
    assert isinstance(noise, DiscreteGaussian)
    return priced(WeightedPositiveCounts(noise, weights, price.delta, floor), price)


def weighted_sparse_histogram(
    epsilon: float, delta: float, weights: Weights, floor: int = 0, measures: int = 1
) -> WeightedSparseHistogram:
    """Build the mechanism that leaves ``measures`` - 1 further values a noise as good as its own.

    Alone its noise allows the lowest threshold. What that noise hides is shared equally: the others
    may take ``weights.groups`` * ``others`` in all. Raises ParameterError for parameters out of
    range.
    """
    check_parameters(epsilon, weights.groups, delta)
    alone = _one_shot_sigma(epsilon, delta, weights) ** 2
    sigma = lattice_sigma(measures * alone)
    others = (1 - 1 / measures) * WEIGHT_STEPS**2 / alone
    noise = DiscreteGaussian(sigma)
    return WeightedSparseHistogram(epsilon, delta, noise, weights, floor, others)

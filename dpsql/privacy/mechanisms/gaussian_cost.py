"""What mechanisms cost in Gaussian differential privacy, as mu**2/2, and how they are built for it.

Only what is listed here has a cost; that of anything else is infinite, and so is charged to nobody.
The proofs are in ``docs/mechanisms/accounting.md``. In short:

* A discrete Gaussian of variance sigma**2 on integers costs what a continuous one of variance
  sigma**2 - 4 does: it is that one, rounded at random, up to a factor 1 +- 3.3e-34 for each number
  that a unit changes (``calibration.lattice_gaussian_delta``). The factors are outcomes that the
  companions of approximate GDP leave out: SMOOTHING_DELTA pays for 1e14 such numbers.
* A pick whose scores move one way by at most epsilon is of bounded range; a Laplace answer is
  epsilon-DP. Both cost what the two-point laws do that are easiest to tell apart.
* Where a group that only one neighbour has may come out, what is left of the mechanism without
  that event is Gaussian noise on what both have, or picks from it: delta pays for the event.

Checked by ``tests/privacy/mechanisms/test_gaussian_cost.py``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpsql.privacy.accounting.gdp import (
    bounded_range_of_gaussian_rho,
    gaussian_rho_of_bounded_range,
    gaussian_rho_of_pure,
    pure_of_gaussian_rho,
)
from dpsql.privacy.accounting.zcdp import DELTA_UNIT
from dpsql.privacy.mechanisms.additive import Additive, CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.calibration import SMOOTHING_VARIANCE
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, exponential_quantile
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK, moved_scores
from dpsql.privacy.mechanisms.weighted_histogram import WeightedPositiveCounts
from dpsql.privacy.sampling.noise import MIN_SCALE, DiscreteGaussian, DiscreteLaplace
from dpsql.privacy.sampling.numeric import rounded_up

SMOOTHING_DELTA = DELTA_UNIT
"""The delta of taking discrete Gaussians for rounded ones, in up to 1e14 numbers of one unit."""

_UP = 1.0 + 2.0**-46
_EPSILON_UP = 1.0 + 1e-12


def gaussian_price_of_noise(noise: Additive, groups: int) -> float:
    """Compute mu**2/2 of noise when a unit may change the values of ``groups`` groups, rounded up.

    Infinite for noise that has no such cost.
    """
    if groups == 0:
        return 0.0
    if isinstance(noise, CorrelatedGaussian):
        return _price_of_shared(noise, groups)
    if isinstance(noise, EllipticGaussian):
        return _price_of_elliptic(noise, groups)
    if not isinstance(noise, IndependentNoise):
        return math.inf
    if isinstance(noise.noise, DiscreteLaplace):
        epsilon = noise.sensitivity / noise.noise.scale * _EPSILON_UP
        return groups * gaussian_rho_of_pure(epsilon) * _UP
    return _gaussian_price(noise.noise, groups * noise.sensitivity**2)


def _gaussian_price(noise: DiscreteGaussian, squared: int | Fraction) -> float:
    """Compute half of ``squared``, the l2 distance, over the variance that is left of it."""
    left = Fraction(noise.sigma) ** 2 - Fraction(SMOOTHING_VARIANCE)
    return math.inf if left <= 0 else rounded_up(Fraction(squared) / (2 * left))


def _price_of_shared(noise: CorrelatedGaussian, groups: int) -> float:
    """Add the price of the groups' own noise and that of what they share, in half-steps."""
    own, shared = (
        DiscreteGaussian(2 * noise.sigma / spread * (1 - 2.0**-50))
        for spread in (1.0, groups**0.25)
    )
    squared = noise.sensitivity**2
    prices = _gaussian_price(own, groups * squared) + _gaussian_price(shared, squared)
    return prices * _UP


def _price_of_elliptic(noise: EllipticGaussian, groups: int) -> float:
    """Compute half of the squared distance, each noise having ``SMOOTHING_VARIANCE`` less."""
    if any(part.sigma**2 <= SMOOTHING_VARIANCE for part in noise.parts):
        return math.inf
    return rounded_up(noise.squared_distance(groups, SMOOTHING_VARIANCE) / 2)


def gaussian_price_of_selection(selection: Selection, released: int | None) -> float:
    """Compute mu**2/2 of a selection when ``released`` groups came out; None is the worst case.

    Rounded up; infinite for a selection that has no such cost.
    """
    match selection:
        case KnownDomain():
            return 0.0
        case PositiveCounts():
            return gaussian_price_of_noise(selection.noise, selection.groups)
        case WeightedPositiveCounts():
            return gaussian_price_of_noise(selection.score_noise, selection.weights.groups)
        case GaussianTopK():
            moved = moved_scores(selection.groups, selection.k_bar)
            return gaussian_price_of_noise(selection.noise, moved)
        case KnownDomainTopK():
            return selection.picks * _pick(selection.epsilon)
        case GumbelTopK():
            picks = selection.k if released is None else min(selection.k, released + 1)
            return picks * _pick(selection.epsilon)
        case GumbelTopKChosenKBar():
            choice = _pick(selection.widest.epsilon)
            return choice + gaussian_price_of_selection(selection.widest, released)
        case SetUnion():
            return _price_of_union(selection)
        case _:
            return math.inf


def _pick(epsilon: float) -> float:
    return gaussian_rho_of_bounded_range(epsilon * _EPSILON_UP) * _UP


def _price_of_union(union: SetUnion) -> float:
    if isinstance(union.noise, DiscreteGaussian):
        return _gaussian_price(union.noise, Fraction(union.sensitivity) ** 2)
    return gaussian_rho_of_pure(union.sensitivity / union.noise.scale * _EPSILON_UP) * _UP


def gaussian_price_of_quantile(quantile: ExponentialQuantile, groups: int) -> float:
    """Compute mu**2/2 of a quantile when a unit may change ``groups`` groups, rounded up."""
    # Its zCDP in one group is the square of its range over 8, rounded up.
    return groups * _pick(math.sqrt(8.0 * quantile.rho(1))) * _UP


# -- mechanisms for a cost --------------------------------------------------------------------


def zcdp_of_picks(rho: float, picks: int) -> float:
    """Find the zCDP, epsilon**2/8 each, of so many picks that cost ``rho`` in GDP together."""
    return picks * bounded_range_of_gaussian_rho(rho / picks) ** 2 / 8 * (1 - 1e-11)


@lru_cache(maxsize=1024)
def laplace_for_gaussian_rho(rho: float, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Laplace noise that costs at most ``rho`` in GDP over ``groups`` groups."""
    epsilon = pure_of_gaussian_rho(rho / groups) * (1 - 1e-11)
    scale = max(sensitivity / epsilon, MIN_SCALE)
    noise = IndependentNoise(DiscreteLaplace(scale), sensitivity)
    while gaussian_price_of_noise(noise, groups) > rho:
        scale *= 1 + 1e-12
        noise = IndependentNoise(DiscreteLaplace(scale), sensitivity)
    return noise


def quantile_for_gaussian_rho(
    rho: float, fraction: Fraction, *, rows: int, groups: int, size: int
) -> ExponentialQuantile:
    """Find the most accurate quantile of at most ``rho`` in GDP, as ``exponential_quantile`` does.

    Raises ParameterError if ``rho`` is not finite and positive.
    """
    composed = zcdp_of_picks(rho, groups) if 0 < rho < math.inf else rho
    return exponential_quantile(composed, fraction, rows=rows, groups=groups, size=size)


def set_union_for_gaussian_rho(
    weighting: Weighting, norm: int, rho: float, *, groups: int, delta: float
) -> SetUnion | None:
    """Build the set union of at most ``rho`` in GDP; None for counts of Laplace noise.

    Raises ParameterError for parameters out of range, as ``set_union_for_rho`` does.
    """
    if norm == 1 and weighting is Weighting.COUNT:
        return None
    least = 1.0
    while True:
        noise: DiscreteGaussian | DiscreteLaplace
        if norm == 1:
            noise = DiscreteLaplace(least / pure_of_gaussian_rho(rho) * (1 + 1e-11))
        else:
            variance = least**2 / (2 * rho) + SMOOTHING_VARIANCE
            noise = DiscreteGaussian(math.sqrt(variance) * (1 + 1e-12))
        union = SetUnion(weighting, noise, groups, delta)
        if gaussian_price_of_selection(union, None) <= rho:
            return union
        least = max(union.sensitivity, least) * (1 + 1e-12)

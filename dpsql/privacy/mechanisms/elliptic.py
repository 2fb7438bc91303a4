"""Noise that a unit's few groups share a little of with all the others: elliptic Gaussian noise.

Beside its own noise each of d values gets one draw W that is the same for all. A unit that raises
up to j of the values by at most Δ∞ is hidden by both: if W takes t of the rise, a value that is
raised has to hide Δ∞ - t, and one that is not has to hide t. With independent noise t is 0; where a
unit may raise every value the best t is Δ∞/2, and there is ``additive.CorrelatedGaussian``. In
between, t depends on how many values were raised, so that the lattice of the noise must be finer
than that of the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps, UsualNoise, hidden_distance
from dpsql.privacy.mechanisms.calibration import LATTICE_VARIANCE, LEAST_SIGMA
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource, difference_quantile_sf
from dpsql.privacy.sampling.numeric import MAX_SCALE, checked_positive, rounded_up

_LOST = 2.0**-13  # at most this part of the price is for shifts that are rounded to the lattice


@dataclass(frozen=True, slots=True)
class EllipticGaussian(UsualNoise):
    """value_i + (Z_i + W)/L with Z_i ~ N_Z(0, L²σ²) and one W ~ N_Z(0, L²τ²) for all values.

    L = ``fineness`` is how many steps of the noise make one of the values, τ = ``shared``. For up
    to d = ``of`` values that a unit can only raise, by at most Δ∞ = ``sensitivity`` each, in any
    ``groups`` of them.

    Guarantee: with A = L²σ² and K = 1/(L²τ²) + d/A,

        max over j <= groups of (j L²Δ∞²/A - (j LΔ∞/A)²/K) / 2  +  K/8   zCDP.

    Let adding a unit raise the values by v, and let t be any whole number, which may depend on v.
    The noisy values are a function of W and of all value_i + Z_i/L: if W is moved by t and each of
    these by v_i - t/L instead, their sums are moved by v. Whole shifts of independent discrete
    Gaussians cost what they do for continuous ones (Canonne, Kamath & Steinke 2020, Theorem 4), so
    the noisy values cost at most half of t²/(L²τ²) + Σ (Lv_i - t)²/A, which is

        Σ (Lv_i)²/A - (Σ Lv_i/A)²/K + K (t - t*)²,   t* = Σ Lv_i / (AK).

    The last term is at most K/4 for the whole t next to t*. The others are a convex function of v,
    as they are a minimum over t* of what is convex in both; so they are largest at a corner of
    what a unit may do, where j values are raised by Δ∞ and the others not at all. Removing the unit
    moves everything the other way. Fewer than d values are a part of d, as good as one of them is
    left out. For values that may fall there is nothing to gain: rises and falls of as many values
    leave t* at 0. Checked by ``tests/privacy/mechanisms/test_elliptic.py``.
    """

    name: ClassVar[str] = "elliptic_gaussian"
    divides: ClassVar[bool] = True  # as a unit raises so many of fewer values at most
    sigma: float
    shared: float
    fineness: int
    sensitivity: int
    of: int

    def __post_init__(self) -> None:
        if min(self.sensitivity, self.of) < 1:
            raise ParameterError("sensitivity and size must be at least 1", code="not_positive")
        # A power of two divides without rounding; of two or more, see ``combination``.
        if self.fineness < 2 or self.fineness & (self.fineness - 1):
            raise ParameterError("the fineness must be a power of two", code="bad_parameter")
        _ = self.parts  # which refuses scales that are out of range

    @property
    def scale(self) -> float:
        return self.sigma

    @property
    def parts(self) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        """A value's own noise and what all share, in steps of the noise."""
        own, shared = self.fineness * self.sigma, self.fineness * self.shared
        return DiscreteGaussian(own), DiscreteGaussian(shared)

    @property
    def smooth(self) -> bool:
        """True if both are as private as continuous noise with LATTICE_VARIANCE less."""
        return min(p.sigma for p in self.parts) >= LEAST_SIGMA

    def squared_distance(self, groups: int, less: float = 0.0) -> Fraction:
        """Compute how far, in standard deviations and squared, a unit moves the noises at most.

        ``less`` than there is of it is taken from each variance, in steps of the noise.
        """
        if groups == 0:
            return Fraction(0)
        own, shared = (Fraction(p.sigma) ** 2 - Fraction(less) for p in self.parts)
        weight = 1 / shared + self.of / own
        move = Fraction(self.fineness * self.sensitivity)
        peak = int(own * weight / 2)  # of the following, were j not whole
        nearest = {min(groups, peak), min(groups, peak + 1)}
        return max(j * move**2 / own - (j * move / own) ** 2 / weight for j in nearest) + weight / 4

    def cost(self, composition: Composition, reach: int) -> float:
        """Compute half of the squared distance when one unit may raise ``reach`` of the values.

        In Gaussian DP each noise has ``LATTICE_VARIANCE`` less.
        """
        if reach == 0:
            return 0.0
        match composition:
            case Composition.ZCDP:
                return rounded_up(self.squared_distance(reach) / 2)
            case Composition.GDP if self.smooth:
                return rounded_up(self.squared_distance(reach, LATTICE_VARIANCE) / 2)
        return math.inf

    def std(self, groups: int) -> float:
        own, shared = self.parts
        return math.sqrt(own.variance + shared.variance) / self.fineness

    def shared_part(self, groups: int) -> float:
        own, shared = self.parts
        return float(shared.variance / (own.variance + shared.variance))

    def margin(self, confidence: float, groups: int) -> float:
        own, shared = self.parts
        # Z_i + W has the law of Z_i - W, both being symmetric.
        tail = (1 - confidence) / 2
        return difference_quantile_sf(own.sigma, shared.sigma, tail) / self.fineness

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add a draw of its own and a shared one to each value: ``of`` at most, shape (groups,)."""
        if len(values) > self.of:
            raise ParameterError("more values than share the noise", code="bad_parameter")
        own, shared = self.parts
        fine = own.sample(len(values), source) + shared.sample(1, source)[0]
        # Whole steps first, as integers: a float sum would round the exact value before its noise.
        noisy: Steps = values + fine // self.fineness + fine % self.fineness / self.fineness
        return noisy


def _best_ratio(groups: int, of: int) -> float:
    """Find the ratio of shared to own variance with the least total at a price.

    Below (of + sqrt(of))/2 groups a unit does most by raising all it may, and the least of
    (1 + r)(c - c² r/(1 + dr)) is where 1 + dr = sqrt((d - 1)c/(d - c)). From there on it does most
    by raising that many, and the ratio is that of ``CorrelatedGaussian``.
    """
    if 2 * groups >= of + math.sqrt(of):
        return 1 / math.sqrt(of)
    return (math.sqrt((of - 1) * groups / (of - groups)) - 1) / of


def _built(
    sigma: float, ratio: float, fineness: int, sensitivity: int, of: int
) -> EllipticGaussian | None:
    """Build noise with this own sigma; None if it is out of the samplers' range."""
    try:
        return EllipticGaussian(sigma, sigma * math.sqrt(ratio), fineness, sensitivity, of)
    except ParameterError:
        return None


@lru_cache(maxsize=1024)
def elliptic_gaussian(
    price: PrivacyLoss, sensitivity: int, groups: int, of: int
) -> EllipticGaussian | None:
    """Build noise of at most ``price`` if a unit may raise ``groups`` of ``of`` values.

    None where nothing can be shared, of one group or of all, or where no noise is in range. Beyond
    zCDP a discrete Gaussian is as private as a continuous one with LATTICE_VARIANCE less (see
    ``calibration.lattice_gaussian_delta``), here in steps of the noise: continuous noises of which
    a unit moves the means by a distance in all are one Gaussian mechanism.
    """
    zcdp = price.composition is Composition.ZCDP
    distance = 2 * price.rho if zcdp else hidden_distance(price)
    less = 0.0 if zcdp else LATTICE_VARIANCE
    checked_positive(distance, "the distance")
    if not 1 < groups < of:
        return None
    ratio = _best_ratio(groups, of)
    raised = min(float(groups), (of + 1 / ratio) / 2)
    most = sensitivity**2 * (raised - raised**2 * ratio / (1 + of * ratio))
    fine = math.sqrt((of + 1 / ratio) / (4 * _LOST * most))
    sigma = math.sqrt(most / distance)
    # The lattice is as fine as it must be, and as the samplers' largest scale lets it be.
    bits = min(max(1, math.ceil(math.log2(fine))), math.floor(math.log2(MAX_SCALE / sigma)) - 1)
    if bits < 1:
        return None
    fineness = 2**bits
    sigma = math.sqrt(sigma**2 * (1 + (fine / fineness) ** 2 * _LOST) + less / fineness**2)
    while True:
        noise = _built(sigma, ratio, fineness, sensitivity, of)
        if noise is None:
            return None
        taken = _distance_of(noise, groups, less)
        if taken <= distance:
            return noise
        # Near the root the distance falls with the square of sigma; less is taken from it, though.
        sigma *= max(1 + 1e-12, math.sqrt(min(taken / distance, 4.0)))


def _distance_of(noise: EllipticGaussian, groups: int, less: float) -> float:
    if less and not noise.smooth:
        return math.inf
    return rounded_up(noise.squared_distance(groups, less))

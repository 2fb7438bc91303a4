"""Noise added to integer values of groups: independent per group, or partly shared.

Values, noise and results are in released steps (integers for independent noise, half-integers for
correlated noise). ``groups`` is how many groups one unit may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.gdp import gaussian_rho_of_pure, pure_of_gaussian_rho
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.calibration import (
    LATTICE_VARIANCE,
    LEAST_SIGMA,
    analytic_gaussian_sigma,
    lattice_sigma,
)
from dpsql.privacy.mechanisms.price import EPSILON_UP, RHO_UP, Priced, lattice_gaussian_rho
from dpsql.privacy.sampling.noise import (
    MIN_SCALE,
    DiscreteGaussian,
    DiscreteLaplace,
    EntropySource,
    difference_quantile_sf,
    gaussian_sigma_for_rho,
    laplace_scale_for_rho,
)
from dpsql.privacy.sampling.numeric import rounded_up

Steps = NDArray[np.float64]


class Additive(Protocol):
    """Noise for the values of several groups, with its price and its size."""

    @property
    def name(self) -> str:
        """The mechanism's standard name."""

    @property
    def scale(self) -> float:
        """The noise parameter in steps (sigma, or the Laplace scale b)."""

    def cost(self, composition: Composition, reach: int) -> float:
        """Compute its price when one unit may change the values of ``reach`` groups."""

    def rho(self, reach: int) -> float:
        """Compute its price under zCDP."""

    @property
    def divides(self) -> bool:
        """True if releasing fewer groups than planned costs no more than a plan for so few."""

    @property
    def independent(self) -> IndependentNoise | None:
        """Itself if each value has a draw of its own and nothing else, else None."""

    def std(self, groups: int) -> float:
        """Return the standard deviation of one noisy value, in steps."""

    def shared_part(self, groups: int) -> float:
        """Return the part of the variance of one noisy value that all values have together."""

    def margin(self, confidence: float, groups: int) -> float:
        """Find the smallest m, in steps, with P[|noise| <= m] >= confidence."""

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add noise to true values, drawn anew by each call.

        Takes an int64 array of shape (groups,) and returns a float64 one, both in lattice steps.
        """


class UsualNoise(Priced[int]):
    """Give the usual answers of an :class:`Additive`, for its kinds to build on."""

    __slots__ = ()
    divides: ClassVar[bool] = False

    @property
    def independent(self) -> IndependentNoise | None:
        """Itself if each value has a draw of its own and nothing else, else None."""
        return None

    def shared_part(self, groups: int) -> float:
        """Return the part of the variance that all values have together: all, if unknown."""
        return 1.0


@dataclass(frozen=True, slots=True)
class IndependentNoise(UsualNoise):
    """Each value gets its own draw of a discrete Gaussian or Laplace.

    Guarantee: groups * rho(Δ∞) zCDP, for any change of each value by at most ``sensitivity``
    (Canonne, Kamath & Steinke 2020, Thm 4 for the Gaussian; composition over groups for both).
    Checked by ``tests/privacy/mechanisms/test_mechanisms.py``.
    """

    divides: ClassVar[bool] = True
    noise: DiscreteGaussian | DiscreteLaplace
    sensitivity: int

    @property
    def independent(self) -> IndependentNoise:
        return self

    def shared_part(self, groups: int) -> float:
        return 0.0

    @property
    def name(self) -> str:
        return "gaussian" if isinstance(self.noise, DiscreteGaussian) else "laplace"

    @property
    def scale(self) -> float:
        return self.noise.spread

    def cost(self, composition: Composition, reach: int) -> float:
        """Compute its price when one unit may change the values of ``reach`` groups."""
        if reach == 0:
            return 0.0
        match composition, self.noise:
            case Composition.ZCDP, noise:
                return _up(reach * noise.rho(self.sensitivity))
            case Composition.GDP, DiscreteGaussian() as noise:
                return lattice_gaussian_rho(noise, reach * self.sensitivity**2)
            case Composition.GDP, DiscreteLaplace(scale):
                epsilon = self.sensitivity / scale * EPSILON_UP
                return reach * gaussian_rho_of_pure(epsilon) * RHO_UP
            case Composition.BASIC, DiscreteLaplace(scale):
                return rounded_up(Fraction(reach * self.sensitivity) / Fraction(scale))
        return math.inf

    def std(self, groups: int) -> float:
        return self.noise.std

    def margin(self, confidence: float, groups: int) -> float:
        return float(self.noise.margin(confidence))

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add a draw of its own to each value of an array of shape (groups,)."""
        return (values + self.noise.sample(len(values), source)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class CorrelatedGaussian(UsualNoise):
    """value_i + (Z_i + Z)/2 with Z_i ~ N_Z(0, 4σ²) and one shared Z ~ N_Z(0, 4σ²/√d).

    For values that a unit can only raise, by at most Δ∞ each, in any subset of the d groups.
    Guarantee: Δ∞²(d + √d)/(8σ²) zCDP: the change 2v_i - Δ∞ in half-steps is absorbed by Z_i and
    the constant Δ∞ by Z (Lebeda & Retschmeier 2024, Algorithm 2 and Section 7; discrete because
    all shifts are whole half-steps). Checked by ``tests/privacy/mechanisms/test_mechanisms.py``.
    """

    name: ClassVar[str] = "correlated_gaussian"
    sigma: float
    sensitivity: int

    @property
    def scale(self) -> float:
        return self.sigma

    def _parts(self, groups: int) -> tuple[DiscreteGaussian, DiscreteGaussian]:
        return DiscreteGaussian(2 * self.sigma), DiscreteGaussian(2 * self.sigma / groups**0.25)

    def cost(self, composition: Composition, reach: int) -> float:
        """Add the price of the own noise of ``reach`` groups and the price of the shared noise."""
        if reach == 0:
            return 0.0
        match composition:
            case Composition.ZCDP:
                own, shared = self._parts(reach)
                return _up(reach * own.rho(self.sensitivity) + shared.rho(self.sensitivity))
            case Composition.GDP:
                own, shared = (
                    DiscreteGaussian(2 * self.sigma / spread * (1 - 2.0**-50))
                    for spread in (1.0, reach**0.25)
                )
                squared = self.sensitivity**2
                own_price = lattice_gaussian_rho(own, reach * squared)
                return (own_price + lattice_gaussian_rho(shared, squared)) * RHO_UP
            case Composition.BASIC:
                return math.inf

    def std(self, groups: int) -> float:
        own, shared = self._parts(max(1, groups))
        return math.sqrt(own.variance + shared.variance) / 2

    def shared_part(self, groups: int) -> float:
        own, shared = self._parts(max(1, groups))
        return float(shared.variance / (own.variance + shared.variance))

    def margin(self, confidence: float, groups: int) -> float:
        own, shared = self._parts(max(1, groups))
        # Z_i + Z has the law of Z_i - Z, both being symmetric.
        tail = (1 - confidence) / 2
        return difference_quantile_sf(own.sigma, shared.sigma, tail) / 2

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add half of a draw of its own and of a shared one to each value, of shape (groups,)."""
        groups = len(values)
        if groups == 0:
            return np.empty(0, dtype=np.float64)
        own, shared = self._parts(groups)
        common = shared.sample(1, source)[0]
        half_steps = own.sample(groups, source) + common
        # Whole steps first, as integers: a float sum would round the exact value before its noise.
        noisy: Steps = values + half_steps // 2 + half_steps % 2 / 2
        return noisy


# -- noise for a price ------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def one_shot_distance(epsilon: float, delta: float) -> float:
    """Compute the squared l2 distance, in standard deviations, that Gaussian noise may hide.

    Gaussian noises of which one unit shifts the means by this much in all, each in units of its own
    standard deviation, are together (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8). Raises
    ParameterError for parameters out of range.
    """
    return analytic_gaussian_sigma(epsilon, delta) ** -2 * (1 - 1e-12)


def hidden_distance(price: PrivacyLoss) -> float:
    """Compute the squared l2 distance that continuous noise may hide at a price.

    Of Gaussian DP mu**2, else that of one publication by :func:`one_shot_distance`.
    """
    if price.gaussian:
        return 2 * price.rho
    return one_shot_distance(price.epsilon, price.delta)


@lru_cache(maxsize=1024)
def gaussian(price: PrivacyLoss, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Gaussian noise that costs at most ``price`` over ``groups`` groups.

    Beyond zCDP a discrete Gaussian is as private as a continuous one with LATTICE_VARIANCE less
    (see ``calibration.lattice_gaussian_delta``). Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    if price.composition is Composition.ZCDP:
        sigma = gaussian_sigma_for_rho(price.rho, groups * sensitivity**2)
        noise = IndependentNoise(DiscreteGaussian(sigma), sensitivity)
        return _within(noise, price, groups)
    sigma = lattice_sigma(groups * sensitivity**2 / hidden_distance(price))
    return IndependentNoise(DiscreteGaussian(sigma), sensitivity)


@lru_cache(maxsize=1024)
def laplace(price: PrivacyLoss, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Laplace noise that costs at most ``price`` over ``groups`` groups.

    By its epsilon each group loses at most sensitivity/scale. Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    match price.composition:
        case Composition.ZCDP:
            scale = laplace_scale_for_rho(price.rho / groups, sensitivity)
        case Composition.GDP:
            epsilon = pure_of_gaussian_rho(price.rho / groups) * (1 - 1e-11)
            scale = max(sensitivity / epsilon, MIN_SCALE)
        case Composition.BASIC:
            scale = max(groups * sensitivity / price.epsilon * (1 + 1e-12), MIN_SCALE)
    noise = IndependentNoise(DiscreteLaplace(scale), sensitivity)
    return _within(noise, price, groups)


@lru_cache(maxsize=1024)
def correlated_gaussian(price: PrivacyLoss, sensitivity: int, groups: int) -> CorrelatedGaussian:
    """Build correlated Gaussian noise of at most ``price`` if all ``groups`` groups may change.

    In half-steps the noises of the groups and the shared one each move by at most Δ∞. Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    root = math.sqrt(groups)
    if price.composition is Composition.ZCDP:
        sigma = sensitivity * math.sqrt((groups + root) / (8 * price.rho))
        noise = CorrelatedGaussian(sigma, sensitivity)
        while noise.rho(groups) > price.rho:
            noise = CorrelatedGaussian(noise.sigma * (1 + 1e-12), sensitivity)
        return noise
    distance = hidden_distance(price)

    def taken(variance: float) -> float:
        own, shared = variance - LATTICE_VARIANCE, variance / root - LATTICE_VARIANCE
        return sensitivity**2 * (groups / own + 1 / shared)

    low = LEAST_SIGMA**2 * root
    high = low + sensitivity**2 * (groups + root) / distance
    while high > low * (1 + 1e-13):  # taken falls to at most distance at high
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if taken(middle) <= distance:
            high = middle
        else:
            low = middle
    return CorrelatedGaussian(math.sqrt(high) / 2 * (1 + 1e-12), sensitivity)


def _within(noise: IndependentNoise, price: PrivacyLoss, groups: int) -> IndependentNoise:
    """Widen noise by parts in 1e12 until its stated cost is within the price."""
    allowed = price.epsilon if price.composition is Composition.BASIC else price.rho
    while noise.cost(price.composition, groups) > allowed:
        wider = type(noise.noise)(noise.scale * (1 + 1e-12))
        noise = IndependentNoise(wider, noise.sensitivity)
    return noise


def _up(rho: float) -> float:
    """Round a computed cost up past the rounding of the few operations behind it."""
    return rho * (1 + 2.0**-50) if rho > 0 else 0.0

"""Noise added to integer values of groups: independent per group, or partly shared.

Values, noise and results are in released steps (integers for independent noise, half-integers for
correlated noise). ``groups`` is how many groups one unit may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.mechanisms.calibration import SMOOTHING_VARIANCE, analytic_gaussian_sigma
from dpsql.privacy.sampling.noise import (
    MIN_SCALE,
    DiscreteGaussian,
    DiscreteLaplace,
    EntropySource,
    difference_quantile_sf,
    gaussian_sigma_for_rho,
    laplace_scale_for_rho,
)

Steps = NDArray[np.float64]


class Additive(Protocol):
    """Noise for the values of several groups, with its price and its size."""

    @property
    def name(self) -> str:
        """The mechanism's standard name."""

    @property
    def scale(self) -> float:
        """The noise parameter in steps (sigma, or the Laplace scale b)."""

    def rho(self, groups: int) -> float:
        """Compute the zCDP parameter when one unit may change the values of ``groups`` groups."""

    def std(self, groups: int) -> float:
        """Return the standard deviation of one noisy value, in steps."""

    def margin(self, confidence: float, groups: int) -> float:
        """Find the smallest m, in steps, with P[|noise| <= m] >= confidence."""

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add noise to true values, drawn anew by each call.

        Takes an int64 array of shape (groups,) and returns a float64 one, both in lattice steps.
        """


@dataclass(frozen=True, slots=True)
class IndependentNoise:
    """Each value gets its own draw of a discrete Gaussian or Laplace.

    Guarantee: groups * rho(Δ∞) zCDP, for any change of each value by at most ``sensitivity``
    (Canonne, Kamath & Steinke 2020, Thm 4 for the Gaussian; composition over groups for both).
    Checked by ``tests/privacy/mechanisms/test_mechanisms.py``.
    """

    noise: DiscreteGaussian | DiscreteLaplace
    sensitivity: int

    @property
    def name(self) -> str:
        return "gaussian" if isinstance(self.noise, DiscreteGaussian) else "laplace"

    @property
    def scale(self) -> float:
        return self.noise.spread

    def rho(self, groups: int) -> float:
        return _up(groups * self.noise.rho(self.sensitivity))

    def std(self, groups: int) -> float:
        return self.noise.std

    def margin(self, confidence: float, groups: int) -> float:
        return float(self.noise.margin(confidence))

    def add(self, values: NDArray[np.int64], source: EntropySource) -> Steps:
        """Add a draw of its own to each value of an array of shape (groups,)."""
        return (values + self.noise.sample(len(values), source)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class CorrelatedGaussian:
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

    def rho(self, groups: int) -> float:
        if groups == 0:
            return 0.0
        own, shared = self._parts(groups)
        return _up(groups * own.rho(self.sensitivity) + shared.rho(self.sensitivity))

    def std(self, groups: int) -> float:
        own, shared = self._parts(max(1, groups))
        return math.sqrt(own.variance + shared.variance) / 2

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


@lru_cache(maxsize=1024)
def gaussian(rho: float, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Gaussian noise that costs at most ``rho`` over ``groups`` groups."""
    sigma = gaussian_sigma_for_rho(rho, groups * sensitivity**2)
    noise = IndependentNoise(DiscreteGaussian(sigma), sensitivity)
    return _within(noise, rho, groups)


@lru_cache(maxsize=1024)
def laplace(rho: float, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Laplace noise that costs at most ``rho`` over ``groups`` groups."""
    scale = laplace_scale_for_rho(rho / groups, sensitivity)
    return _within(IndependentNoise(DiscreteLaplace(scale), sensitivity), rho, groups)


@lru_cache(maxsize=1024)
def correlated_gaussian(rho: float, sensitivity: int, groups: int) -> CorrelatedGaussian:
    """Build correlated Gaussian noise of at most ``rho`` if all ``groups`` groups may change."""
    sigma = sensitivity * math.sqrt((groups + math.sqrt(groups)) / (8 * rho))
    noise = CorrelatedGaussian(sigma, sensitivity)
    while noise.rho(groups) > rho:
        noise = CorrelatedGaussian(noise.sigma * (1 + 1e-12), sensitivity)
    return noise


# -- a single publication ---------------------------------------------------------------------


@lru_cache(maxsize=1024)
def one_shot_distance(epsilon: float, delta: float) -> float:
    """Compute the squared l2 distance, in standard deviations, that Gaussian noise may hide.

    Gaussian noises of which one unit shifts the means by this much in all, each in units of its own
    standard deviation, are together (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8). Raises
    ParameterError for parameters out of range.
    """
    return analytic_gaussian_sigma(epsilon, delta) ** -2 * (1 - 1e-12)


@lru_cache(maxsize=1024)
def one_shot_gaussian(distance: float, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Gaussian noise that takes ``distance`` of ``one_shot_distance``.

    A discrete Gaussian is as private as a continuous one with SMOOTHING_VARIANCE less (see
    ``calibration.lattice_gaussian_delta``). Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    variance = groups * sensitivity**2 / distance + SMOOTHING_VARIANCE
    return IndependentNoise(DiscreteGaussian(math.sqrt(variance) * (1 + 1e-12)), sensitivity)


@lru_cache(maxsize=1024)
def one_shot_correlated_gaussian(
    distance: float, sensitivity: int, groups: int
) -> CorrelatedGaussian:
    """Build correlated Gaussian noise that takes ``distance`` (squared), if all groups may change.

    In half-steps the noises of the groups and the shared one each move by at most Δ∞. Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    root = math.sqrt(groups)

    def taken(variance: float) -> float:
        own, shared = variance - SMOOTHING_VARIANCE, variance / root - SMOOTHING_VARIANCE
        return sensitivity**2 * (groups / own + 1 / shared)

    low = SMOOTHING_VARIANCE * root
    high = low + sensitivity**2 * (groups + root) / distance
    while high > low * (1 + 1e-13):  # taken falls from infinity at low to at most distance at high
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if taken(middle) <= distance:
            high = middle
        else:
            low = middle
    return CorrelatedGaussian(math.sqrt(high) / 2 * (1 + 1e-12), sensitivity)


def one_shot_laplace(epsilon: float, sensitivity: int, groups: int) -> IndependentNoise:
    """Build independent Laplace noise, ``epsilon``-DP over ``groups`` groups.

    Each of them loses at most sensitivity/scale. Checked by
    ``tests/privacy/mechanisms/test_one_shot_noise.py``.
    """
    scale = groups * sensitivity / epsilon * (1 + 1e-12)
    return IndependentNoise(DiscreteLaplace(max(scale, MIN_SCALE)), sensitivity)


def _within(noise: IndependentNoise, rho: float, groups: int) -> IndependentNoise:
    """Widen the noise by parts in 1e12 until its stated cost is within the budget."""
    while noise.rho(groups) > rho:
        wider = noise.scale * (1 + 1e-12)
        kind = type(noise.noise)
        noise = IndependentNoise(kind(wider), noise.sensitivity)
    return noise


def _up(rho: float) -> float:
    """Round a computed cost up past the rounding of the few operations behind it."""
    return rho * (1 + 2.0**-50) if rho > 0 else 0.0

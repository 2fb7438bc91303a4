"""Integer noise with exact samplers, exact tails and exact privacy: discrete Gaussian and Laplace.

Both are described by one positive float64, read as an exact rational. Sampling has total-variation
error zero (see :mod:`dpsql.privacy.sampling.lattice`). Every tail is an upper bound, since
privacy proofs need upper bounds, and tight to a relative 1e-10.

Sources: Canonne, Kamath & Steinke 2020, "The Discrete Gaussian for Differential Privacy" (the
distribution and its zCDP); Ghosh, Roughgarden & Sundararajan 2009 (the discrete Laplace, there
called geometric).

The inverse question, which scale costs at most a given rho, is answered at the end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import mills_ratio
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.lattice import LatticeSampler
from dpsql.privacy.sampling.numeric import (
    MAX_SCALE,
    MIN_SCALE,
    SLOP,
    checked_positive,
    checked_scale,
    checked_shift,
    exp_remainder,
    log_probability,
    normal_quantile_sf,
    raised,
    rounded_up,
    scale_error,
    sinh_minus_linear,
    smallest,
)

_DIRECT_SIGMA = 512.0  # up to here tails are summed term by term
_NEGLIGIBLE = 45.0  # exp(-45) is below the rounding error of any sum it is left out of


class LatticeNoise(ABC):
    """Symmetric noise on the integers, as mechanisms use it.

    Guarantee: ``sample`` draws from exactly the distribution the other methods describe.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def spread(self) -> float:
        """The distribution's scale parameter, in units of the noise."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """How many spreads hold all but about 1e-6 of the probability."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The exact variance, correct to rounding."""

    @property
    def std(self) -> float:
        """The standard deviation, correct to rounding."""
        return math.sqrt(self.variance)

    @abstractmethod
    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute -log of the unnormalised probabilities of integers, an array of any shape."""

    @abstractmethod
    def exact_energy(self, x: int) -> Fraction:
        """Compute -log of the unnormalised probability of one integer, exactly."""

    @abstractmethod
    def rho(self, shift: float) -> float:
        """Compute the zCDP cost of adding this noise to a number that may change by ``shift``."""

    @abstractmethod
    def log_normaliser(self) -> float:
        """Compute log of the sum of exp(-energy) over all integers."""

    @abstractmethod
    def _log_upper_mass(self, x: int) -> float:
        """Compute log of the sum of exp(-energy) over the integers above x >= 0."""

    @abstractmethod
    def _tail_guess(self, log_p: float) -> float:
        """Guess the t >= 0 with log P[Z > t] = log_p, for log_p <= log(1/2)."""

    def sample(self, n: int, source: EntropySource) -> NDArray[np.int64]:
        """Draw ``n`` independent values with total-variation error zero: int64, of shape (n,).

        (A value beyond int64 would raise OverflowError; its probability is below exp(-10**6).)
        """
        return _sampler(self).sample(n, source)

    def pmf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Compute P[Z = x] for an array of integers of any shape, relative error below 1e-12."""
        values: NDArray[np.float64] = np.exp(
            -self.energy(np.asarray(x, dtype=np.int64)) - self.log_normaliser()
        )
        return values

    def log_sf(self, x: int) -> float:
        """Bound log P[Z > x] from above, tight to about 1e-11 however small the probability."""
        if x < 0:
            return min(0.0, math.log1p(-math.exp(self.log_sf(-x - 1))) + 3 * SLOP)
        return raised(self._log_upper_mass(x) - self.log_normaliser())

    def sf(self, x: int) -> float:
        """Bound P[Z > x] from above, relative error at most 1e-10 (0.0 only by underflow)."""
        return math.exp(self.log_sf(x))

    def quantile_sf(self, p: float) -> int:
        """Find the smallest integer t with P[Z > t] <= p, for 0 < p < 1.

        Rounded safely: P[Z > t] <= p always holds; t is one more than the smallest only if p
        is within a relative 1e-10 of a jump.
        """
        return _quantile_sf(self, p)

    def _quantile_sf(self, p: float) -> int:
        log_p = log_probability(p)
        guess = self._tail_guess(min(log_p, -math.log(2)))
        if p > 0.5:
            guess = -self._tail_guess(math.log1p(-p)) - 1
        return smallest(lambda t: self.log_sf(t) <= log_p, math.ceil(guess))

    def margin(self, confidence: float) -> int:
        """Find the smallest m with P[abs(Z) <= m] >= ``confidence``, for 0 < confidence < 1."""
        log_probability(confidence)
        return max(0, self.quantile_sf((1.0 - confidence) / 2))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(LatticeNoise):
    """P[x] proportional to exp(-x**2 / (2 sigma**2)) on the integers.

    ``sigma`` is in units of the noised number, from MIN_SCALE to MAX_SCALE. Its variance is at most
    sigma**2. Raises ParameterError for any other sigma.
    Guarantee: adding it to a vector whose l2 norm changes by at most s is s**2/(2 sigma**2)-zCDP
    (Canonne, Kamath & Steinke 2020, Thm 4). Checked by ``tests/privacy/mechanisms/test_noise.py``.
    """

    reach: ClassVar[float] = 5.5  # P[abs(Z) > 5.5 sigma] is below 1e-7
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checked_scale(self.sigma, "sigma"))

    @property
    def spread(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def variance(self) -> float:
        """The exact variance, by summation or (sigma >= 1) Poisson summation."""
        if self.sigma < 1:
            x = np.arange(-40, 41)
            return float(np.sum(x * x * self.pmf(x)))
        dual = math.exp(-2 * (math.pi * self.sigma) ** 2)
        return self.sigma**2 - 8 * math.pi**2 * self.sigma**4 * dual / (1 + 2 * dual)

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute x**2 / (2 sigma**2) for an array of integers of any shape."""
        z = x / self.sigma
        return 0.5 * z * z

    def exact_energy(self, x: int) -> Fraction:
        """Compute x**2 / (2 sigma**2), exactly."""
        return Fraction(x) ** 2 / (2 * Fraction(self.sigma) ** 2)

    def rho(self, shift: float) -> float:
        """Compute shift**2 / (2 sigma**2), rounded up; ``shift`` is the l2 sensitivity."""
        exact = Fraction(checked_shift(shift)) ** 2 / (2 * Fraction(self.sigma) ** 2)
        return rounded_up(exact)

    def log_normaliser(self) -> float:
        """Compute the log of the sum by summation or (sigma >= 1) Poisson summation."""
        if self.sigma < 1:
            return math.log(float(np.sum(np.exp(-self.energy(np.arange(-40, 41))))))
        dual = math.exp(-2 * (math.pi * self.sigma) ** 2)
        return math.log(self.sigma) + 0.5 * math.log(2 * math.pi) + math.log1p(2 * dual)

    def _log_upper_mass(self, x: int) -> float:
        hazard = (x + 0.5) / self.sigma / self.sigma
        if self.sigma <= _DIRECT_SIGMA or hazard > 0.06:
            return self._log_direct_sum(x + 1)
        return self._log_euler_maclaurin((x + 0.5) / self.sigma)

    def _log_direct_sum(self, first: int) -> float:
        """Compute log sum of exp(-y**2/(2 sigma**2)) over y >= first >= 1, term by term."""
        spans = 2 * _NEGLIGIBLE * self.sigma**2
        terms = math.ceil(spans / (first + math.sqrt(first**2 + spans))) + 2
        k = np.arange(terms, dtype=np.float64)
        total = np.exp(-k * (2.0 * first + k) / (2 * self.sigma**2)).sum()
        return math.log(float(total)) - 0.5 * (first / self.sigma) ** 2

    def _log_euler_maclaurin(self, z: float) -> float:
        """Bound log sum of exp(-y**2/(2 sigma**2)) over y >= z*sigma + 1/2 from above.

        Euler-Maclaurin at midpoints: the integral from z*sigma, minus B_2k(1/2)/(2k)! times the
        derivatives there (k = 1, 2, 3; Hermite polynomials), and a remainder of at most
        abs(B_6)/6! times the integral of the sixth derivative's size. That is bounded through
        E[He(Z) | Z > z] <= He at z + 1.6, as Z - z is stochastically below a half-normal.
        """
        s = self.sigma
        mills = mills_ratio(z)
        he1, he3, he5 = z, z**3 - 3 * z, z**5 - 10 * z**3 + 15 * z
        series = -he1 / (24 * s) + 7 * he3 / (5760 * s**3) - 31 * he5 / (967680 * s**5)
        far = z + 1.6
        remainder = (far**6 + 15 * far**4 + 45 * far**2 + 15) / (30240 * s**6)
        correction = series / (s * mills) + remainder
        return math.log(s) - 0.5 * z * z + math.log(mills) + math.log1p(correction)

    def _tail_guess(self, log_p: float) -> float:
        return self.sigma * normal_quantile_sf(log_p) - 0.5


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(LatticeNoise):
    """P[x] proportional to exp(-abs(x) / scale) on the integers.

    ``scale`` is in units of the noised number, from MIN_SCALE to MAX_SCALE. Raises ParameterError
    for any other. Guarantee: adding it to a number that changes by at most the integer s is
    s/scale-DP and rho(s)-zCDP. Checked by ``tests/privacy/mechanisms/test_noise.py``.
    """

    reach: ClassVar[float] = 12.0  # P[abs(Z) > 12 scale] is below 1e-5
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale, "scale"))

    @property
    def spread(self) -> float:
        """scale."""
        return self.scale

    @property
    def variance(self) -> float:
        """1 / (2 sinh(1/(2 scale))**2)."""
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute abs(x) / scale for an array of integers of any shape."""
        return np.abs(x) / self.scale

    def exact_energy(self, x: int) -> Fraction:
        """Compute abs(x) / scale, exactly."""
        return abs(x) / Fraction(self.scale)

    def rho(self, shift: float) -> float:
        """Compute the Kullback-Leibler divergence of the noise from itself moved by ``shift``.

        It is the supremum over alpha of D_alpha/alpha (reached as alpha falls to 1), hence zCDP's
        rho: (1/b) * (s - 2q(1 - q**s)/(1 - q**2)) with q = exp(-1/b); for s = 1 it equals
        eps*tanh(eps/2), eps = 1/b. Rounded up. Raises ParameterError unless s is a whole number.
        """
        s = checked_shift(shift)
        if s != math.floor(s):
            raise ParameterError(
                f"the discrete Laplace mechanism needs a whole sensitivity, not {s:g}",
                code="bad_sensitivity",
            )
        eps = 1.0 / self.scale
        # 2q/(1 - q**2) = 1/sinh(eps), so the bracket is a quotient of sums of positive terms.
        numerator = s * sinh_minus_linear(eps) + exp_remainder(s * eps)
        return numerator / math.sinh(eps) * eps * (1 + 2.0**-47)

    def log_normaliser(self) -> float:
        """Compute -log tanh(1/(2 scale))."""
        return -math.log(math.tanh(0.5 / self.scale))

    def _log_upper_mass(self, x: int) -> float:
        return -(x + 1) / self.scale - math.log(-math.expm1(-1 / self.scale))

    def _tail_guess(self, log_p: float) -> float:
        return max(0.0, -self.scale * (log_p + math.log1p(math.exp(-1 / self.scale))) - 1)


@lru_cache(maxsize=4096)
def _quantile_sf(noise: LatticeNoise, p: float) -> int:
    # Sessions ask for the same few quantiles query after query.
    return noise._quantile_sf(p)


@lru_cache(maxsize=32)
def _sampler(noise: LatticeNoise) -> LatticeSampler:
    return LatticeSampler(noise)


def gaussian_sigma_for_rho(rho: float, l2_squared: float | Fraction) -> float:
    """Find the smallest float sigma with l2_squared/(2 sigma**2) <= rho in exact arithmetic.

    ``l2_squared`` is the squared l2 sensitivity. Raises ParameterError if either is not finite and
    positive, or if the sigma needed is above MAX_SCALE. Never returns less than MIN_SCALE.
    """
    checked_positive(rho, "rho")
    checked_positive(float(l2_squared), "the squared l2 sensitivity")
    exact = Fraction(l2_squared) / (2 * Fraction(rho))
    if exact > Fraction(MAX_SCALE) ** 2:
        raise scale_error("sigma")
    sigma = math.sqrt(float(exact)) * (1 - 2.0**-50)
    while Fraction(sigma) ** 2 < exact:
        sigma = math.nextafter(sigma, math.inf)
    return checked_scale(max(sigma, MIN_SCALE), "sigma")


@lru_cache(maxsize=4096)
def laplace_scale_for_rho(rho: float, shift: float) -> float:
    """Find a scale b of ``DiscreteLaplace(b).rho(shift) <= rho``, least to a relative 1e-13.

    Raises ParameterError if rho is not finite and positive, if ``shift`` is not a positive whole
    number, or if the scale needed is above MAX_SCALE. Never returns less than MIN_SCALE.
    """
    checked_positive(rho, "rho")
    checked_positive(shift, "the sensitivity")
    if DiscreteLaplace(MIN_SCALE).rho(shift) <= rho:
        return MIN_SCALE
    low, high = MIN_SCALE, MAX_SCALE
    if DiscreteLaplace(high).rho(shift) > rho:
        raise scale_error("scale")
    while high > low * (1 + 1e-13):
        middle = math.sqrt(low) * math.sqrt(high)
        if DiscreteLaplace(middle).rho(shift) <= rho:
            high = middle
        else:
            low = middle
    return high

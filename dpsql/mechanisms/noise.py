"""Integer noise with exact samplers, exact tails and exact privacy: discrete Gaussian and Laplace.

Both are described by one positive float64, read as an exact rational. Sampling has total-variation
error zero (see :mod:`dpsql.mechanisms.lattice`). Every tail is an upper bound, since privacy proofs
need upper bounds, and tight to a relative 1e-10: the result is raised by ``_SLOP``, which exceeds
the rounding errors of the formulas behind it.

Sources: Canonne, Kamath & Steinke 2020, "The Discrete Gaussian for Differential Privacy" (the
distribution and its zCDP); Ghosh, Roughgarden & Sundararajan 2009 (the discrete Laplace, there
called geometric).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.errors import ParameterError
from dpsql.mechanisms.entropy import EntropySource, OSEntropy
from dpsql.mechanisms.gumbel import gumbel_order
from dpsql.mechanisms.lattice import LatticeSampler

__all__ = [
    "MAX_SCALE",
    "MIN_SCALE",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EntropySource",
    "LatticeNoise",
    "OSEntropy",
    "difference_log_sf",
    "difference_quantile_sf",
    "gaussian_sigma_for_rho",
    "gumbel_order",
    "laplace_scale_for_rho",
]

MIN_SCALE = 0.01
MAX_SCALE = 2.0**40

_SLOP = 4e-12  # relative; also scaled up with the size of a logarithm, see _raised
_DIRECT_SIGMA = 512.0  # up to here tails are summed term by term
_NEGLIGIBLE = 45.0  # exp(-45) is below the rounding error of any sum it is left out of


class LatticeNoise(ABC):
    """Symmetric noise on the integers: what mechanisms may ask of it.

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
        """-log of the unnormalised probabilities of integers."""

    @abstractmethod
    def exact_energy(self, x: int) -> Fraction:
        """-log of the unnormalised probability of one integer, exactly."""

    @abstractmethod
    def rho(self, shift: float) -> float:
        """The zCDP cost of adding this noise to a number that may change by ``shift``."""

    @abstractmethod
    def _log_normaliser(self) -> float:
        """log of the sum of exp(-energy) over all integers."""

    @abstractmethod
    def _log_upper_mass(self, x: int) -> float:
        """log of the sum of exp(-energy) over the integers above x >= 0."""

    @abstractmethod
    def _tail_guess(self, log_p: float) -> float:
        """About the t >= 0 with log P[Z > t] = log_p, for log_p <= log(1/2)."""

    def sample(self, n: int, source: EntropySource) -> NDArray[np.int64]:
        """``n`` independent draws with total-variation error zero.

        (A value beyond int64 would raise OverflowError; its probability is below exp(-10**6).)
        """
        return _sampler(self).sample(n, source)

    def pmf(self, x: ArrayLike) -> NDArray[np.float64]:
        """P[Z = x] for an array of integers, relative error below 1e-12."""
        values: NDArray[np.float64] = np.exp(
            -self.energy(np.asarray(x, dtype=np.int64)) - self._log_normaliser()
        )
        return values

    def log_sf(self, x: int) -> float:
        """An upper bound on log P[Z > x], tight to about 1e-11 however small the probability."""
        if x < 0:
            return min(0.0, math.log1p(-math.exp(self.log_sf(-x - 1))) + 3 * _SLOP)
        return _raised(self._log_upper_mass(x) - self._log_normaliser())

    def sf(self, x: int) -> float:
        """An upper bound on P[Z > x], relative error at most 1e-10 (0.0 only by underflow)."""
        return math.exp(self.log_sf(x))

    def quantile_sf(self, p: float) -> int:
        """The smallest integer t with P[Z > t] <= p, for 0 < p < 1.

        Rounded safely: P[Z > t] <= p always holds; t is one more than the smallest only if p
        is within a relative 1e-10 of a jump.
        """
        log_p = _log_probability(p)
        guess = self._tail_guess(min(log_p, -math.log(2)))
        if p > 0.5:
            guess = -self._tail_guess(math.log1p(-p)) - 1
        return _smallest(lambda t: self.log_sf(t) <= log_p, math.ceil(guess))

    def margin(self, confidence: float) -> int:
        """The smallest m with P[abs(Z) <= m] >= ``confidence``, for 0 < confidence < 1."""
        _log_probability(confidence)
        return max(0, self.quantile_sf((1.0 - confidence) / 2))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(LatticeNoise):
    """P[x] proportional to exp(-x**2 / (2 sigma**2)) on the integers.

    ``sigma`` is in units of the noised number, from MIN_SCALE to MAX_SCALE. Its variance is at most
    sigma**2. Raises ParameterError for any other sigma.
    Guarantee: adding it to a vector whose l2 norm changes by at most s is s**2/(2 sigma**2)-zCDP
    (Canonne, Kamath & Steinke 2020, Thm 4). Checked by ``tests/test_noise.py``.
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _checked_scale(self.sigma, "sigma"))

    @property
    def spread(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def reach(self) -> float:
        """P[abs(Z) > 5.5 sigma] is below 1e-7."""
        return 5.5

    @property
    def variance(self) -> float:
        """The exact variance, by summation or (sigma >= 1) Poisson summation."""
        if self.sigma < 1:
            x = np.arange(-40, 41)
            return float(np.sum(x * x * self.pmf(x)))
        dual = math.exp(-2 * (math.pi * self.sigma) ** 2)
        return self.sigma**2 - 8 * math.pi**2 * self.sigma**4 * dual / (1 + 2 * dual)

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """x**2 / (2 sigma**2)."""
        z = x / self.sigma
        return 0.5 * z * z

    def exact_energy(self, x: int) -> Fraction:
        """x**2 / (2 sigma**2), exactly."""
        return Fraction(x) ** 2 / (2 * Fraction(self.sigma) ** 2)

    def rho(self, shift: float) -> float:
        """shift**2 / (2 sigma**2), rounded up; ``shift`` is the l2 sensitivity."""
        exact = Fraction(_checked_shift(shift)) ** 2 / (2 * Fraction(self.sigma) ** 2)
        return _rounded_up(exact)

    def _log_normaliser(self) -> float:
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
        """log sum of exp(-y**2/(2 sigma**2)) over y >= first >= 1, term by term."""
        spans = 2 * _NEGLIGIBLE * self.sigma**2
        terms = math.ceil(spans / (first + math.sqrt(first**2 + spans))) + 2
        k = np.arange(terms, dtype=np.float64)
        total = np.exp(-k * (2.0 * first + k) / (2 * self.sigma**2)).sum()
        return math.log(float(total)) - 0.5 * (first / self.sigma) ** 2

    def _log_euler_maclaurin(self, z: float) -> float:
        """An upper bound on log sum of exp(-y**2/(2 sigma**2)) over y >= z*sigma + 1/2.

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
    s/scale-DP and rho(s)-zCDP. Checked by ``tests/test_noise.py``.
    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale, "scale"))

    @property
    def spread(self) -> float:
        """scale."""
        return self.scale

    @property
    def reach(self) -> float:
        """P[abs(Z) > 12 scale] is below 1e-5."""
        return 12.0

    @property
    def variance(self) -> float:
        """1 / (2 sinh(1/(2 scale))**2)."""
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """abs(x) / scale."""
        return np.abs(x) / self.scale

    def exact_energy(self, x: int) -> Fraction:
        """abs(x) / scale, exactly."""
        return abs(x) / Fraction(self.scale)

    def rho(self, shift: float) -> float:
        """The Kullback-Leibler divergence of the noise from itself moved by the integer ``shift``.

        It is the supremum over alpha of D_alpha/alpha (reached as alpha falls to 1), hence zCDP's
        rho: (1/b) * (s - 2q(1 - q**s)/(1 - q**2)) with q = exp(-1/b); for s = 1 it equals
        eps*tanh(eps/2), eps = 1/b. Rounded up. Raises ParameterError unless s is a whole number.
        """
        s = _checked_shift(shift)
        if s != math.floor(s):
            raise ParameterError(
                f"the discrete Laplace mechanism needs a whole sensitivity, not {s:g}",
                code="bad_sensitivity",
            )
        eps = 1.0 / self.scale
        if eps > 700.0:  # sinh would overflow; the divergence is below s*eps
            return s * eps
        # 2q/(1 - q**2) = 1/sinh(eps), so the bracket is a quotient of sums of positive terms.
        numerator = s * _sinh_minus_linear(eps) + _exp_remainder(s * eps)
        return numerator / math.sinh(eps) * eps * (1 + 2.0**-47)

    def _log_normaliser(self) -> float:
        return -math.log(math.tanh(0.5 / self.scale))

    def _log_upper_mass(self, x: int) -> float:
        return -(x + 1) / self.scale - math.log(-math.expm1(-1 / self.scale))

    def _tail_guess(self, log_p: float) -> float:
        return max(0.0, -self.scale * (log_p + math.log1p(math.exp(-1 / self.scale))) - 1)


@lru_cache(maxsize=32)
def _sampler(noise: LatticeNoise) -> LatticeSampler:
    return LatticeSampler(noise)


def difference_log_sf(sigma1: float, sigma2: float, t: int) -> float:
    """An upper bound on log P[Z1 - Z2 > t], independent discrete Gaussians with sigma1 and sigma2.

    Completing the square in x**2/(2 sigma1**2) + (x - d)**2/(2 sigma2**2) gives, with
    sigma**2 = sigma1**2 + sigma2**2, tau = sigma1*sigma2/sigma and N(s) the normaliser at scale s,

        P[Z1 - Z2 = d] = exp(-d**2/(2 sigma**2)) * theta(d) / (N(sigma1) N(sigma2)),
        theta(d) = sum over x of exp(-(x - d*sigma1**2/sigma**2)**2 / (2 tau**2)) <= N(tau),

    because a Gaussian's sum over a shifted lattice is largest unshifted (Poisson summation). So the
    tail is at most N(tau)N(sigma)/(N(sigma1)N(sigma2)) times that of one discrete Gaussian with
    scale sigma: a factor below 1 + 1e-8 once tau >= 1. Smaller scales are summed exactly.
    """
    one, two = DiscreteGaussian(sigma1), DiscreteGaussian(sigma2)
    if _is_small(one, two):
        first, log_tails = _difference_tails(one.sigma, two.sigma)
        if t < first:
            return 0.0
        if t - first < len(log_tails):
            return float(log_tails[t - first])
    total, log_factor = _difference_bound(one, two)
    return min(0.0, total.log_sf(t) + log_factor)


def difference_quantile_sf(sigma1: float, sigma2: float, p: float) -> int:
    """The smallest integer t for which the bound above gives P[Z1 - Z2 > t] <= p, for 0 < p < 1.

    P[Z1 - Z2 > t] <= p always holds; t exceeds the smallest such integer only if p is within a
    relative 1e-8 of a jump. Raises ParameterError for sigmas or p out of range.
    """
    log_p = _log_probability(p)
    guess = math.hypot(sigma1, sigma2) * normal_quantile_sf(min(log_p, -math.log(2)))
    return _smallest(
        lambda t: difference_log_sf(sigma1, sigma2, t) <= log_p, math.ceil(guess - 0.5)
    )


def _is_small(one: DiscreteGaussian, two: DiscreteGaussian) -> bool:
    tau = one.sigma * two.sigma / math.hypot(one.sigma, two.sigma)
    return tau < 1 and max(one.sigma, two.sigma) <= 16


@lru_cache(maxsize=64)
def _difference_bound(
    one: DiscreteGaussian, two: DiscreteGaussian
) -> tuple[DiscreteGaussian, float]:
    """The single Gaussian above the difference, and the log of its factor."""
    sigma = math.nextafter(math.hypot(one.sigma, two.sigma), math.inf)
    total = DiscreteGaussian(min(math.nextafter(sigma, math.inf), MAX_SCALE))
    tau = DiscreteGaussian(max(one.sigma * two.sigma / sigma, MIN_SCALE))
    log_factor = tau._log_normaliser() + total._log_normaliser()
    log_factor -= one._log_normaliser() + two._log_normaliser()
    return total, log_factor + _SLOP


@lru_cache(maxsize=64)
def _difference_tails(sigma1: float, sigma2: float) -> tuple[int, NDArray[np.float64]]:
    """(first, log P[Z1 - Z2 > t] for t = first, first + 1, ...) by summing positive terms."""
    one, two = DiscreteGaussian(sigma1), DiscreteGaussian(sigma2)
    last = math.ceil(math.hypot(sigma1, sigma2) * 38) + 2
    d = np.arange(-last, last + 1)
    narrow, wide = (one, two) if sigma1 <= sigma2 else (two, one)
    # The mode of the narrow one's conditional law is d*share; its scale is below 1.
    share = narrow.sigma**2 / (one.sigma**2 + two.sigma**2)
    x = np.rint(d * share).astype(np.int64)[:, None] + np.arange(-10, 11)
    log_terms = -narrow.energy(x) - wide.energy(d[:, None] - x)
    peak = log_terms.max(axis=1)
    log_pmf = peak + np.log(np.exp(log_terms - peak[:, None]).sum(axis=1))
    log_tails = np.logaddexp.accumulate(log_pmf[::-1])[::-1]
    log_tails -= one._log_normaliser() + two._log_normaliser()
    return -last - 1, _raised_array(log_tails)


def gaussian_sigma_for_rho(rho: float, l2_squared: float | Fraction) -> float:
    """The smallest float sigma found with l2_squared/(2 sigma**2) <= rho in exact arithmetic.

    ``l2_squared`` is the squared l2 sensitivity. Raises ParameterError if either is not finite and
    positive, or if the sigma needed is above MAX_SCALE. Never returns less than MIN_SCALE.
    """
    _checked_positive(rho, "rho")
    _checked_positive(float(l2_squared), "the squared l2 sensitivity")
    exact = Fraction(l2_squared) / (2 * Fraction(rho))
    sigma = math.sqrt(float(exact)) * (1 - 2.0**-50)
    while Fraction(sigma) ** 2 < exact:
        sigma = math.nextafter(sigma, math.inf)
    return _checked_scale(max(sigma, MIN_SCALE), "sigma")


def laplace_scale_for_rho(rho: float, shift: float) -> float:
    """A scale b with ``DiscreteLaplace(b).rho(shift) <= rho``, smallest to a relative 1e-13.

    Raises ParameterError if rho is not finite and positive, if ``shift`` is not a positive whole
    number, or if the scale needed is above MAX_SCALE. Never returns less than MIN_SCALE.
    """
    _checked_positive(rho, "rho")
    _checked_positive(shift, "the sensitivity")
    if DiscreteLaplace(MIN_SCALE).rho(shift) <= rho:
        return MIN_SCALE
    low, high = MIN_SCALE, MAX_SCALE
    if DiscreteLaplace(high).rho(shift) > rho:
        raise _scale_error("scale")
    while high > low * (1 + 1e-13):
        middle = math.sqrt(low) * math.sqrt(high)
        if DiscreteLaplace(middle).rho(shift) <= rho:
            high = middle
        else:
            low = middle
    return high


def mills_ratio(z: float) -> float:
    """P[N > z] / density(z) for a standard normal N and z >= 0, relative error below 1e-13."""
    if z <= 8:
        return math.sqrt(math.pi / 2) * math.erfc(z / math.sqrt(2)) * math.exp(0.5 * z * z)
    value = z
    for k in range(40, 0, -1):  # Laplace's continued fraction, converged far before 40 terms
        value = z + k / value
    return 1 / value


def normal_quantile_sf(log_p: float) -> float:
    """About the z >= 0 with log P[N > z] = log_p <= log(1/2), by Newton's method in log space."""
    z = math.sqrt(max(0.0, -2 * (log_p + math.log(2))))  # above the root, as P <= exp(-z*z/2)/2
    for _ in range(12):
        mills = mills_ratio(z)
        error = -0.5 * z * z + math.log(mills) - 0.5 * math.log(2 * math.pi) - log_p
        z = max(0.0, z + error * mills)
        if abs(error) < 1e-12:
            break
    return z


def _smallest(holds: Callable[[int], bool], guess: int) -> int:
    """The smallest integer for which a monotone condition holds, searched outwards from a guess."""
    low = high = guess
    step = 1
    while not holds(high):
        low, high, step = high, high + step, 2 * step
    if low == high:
        low, step = high - 1, 1
        while holds(low):
            low, high, step = low - step, low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _raised(log_value: float) -> float:
    """An upper bound on a computed log-probability: above its rounding error, and at most 0."""
    return min(0.0, log_value + _SLOP + 1e-15 * abs(log_value))


def _raised_array(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(0.0, log_values + _SLOP + 1e-14 * np.abs(log_values))


def _rounded_up(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def _exp_remainder(u: float) -> float:
    """u - 1 + exp(-u) for u >= 0, without cancellation."""
    if u > 0.5:
        return u + math.expm1(-u)
    total, term, k = 0.0, u * u / 2, 2
    while abs(term) > 1e-18 * u * u:
        total, term, k = total + term, -term * u / (k + 1), k + 1
    return total


def _sinh_minus_linear(u: float) -> float:
    """sinh(u) - u for u >= 0, without cancellation."""
    if u > 1:
        return math.sinh(u) - u
    total, term, k = 0.0, u**3 / 6, 3
    while term > 1e-18 * u**3:
        total, term, k = total + term, term * u * u / ((k + 1) * (k + 2)), k + 2
    return total


def _log_probability(p: float) -> float:
    if not 0 < p < 1:
        raise ParameterError(
            "a probability must lie strictly between 0 and 1", code="bad_probability"
        )
    return math.log(p)


def _checked_positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be finite and positive", code="not_positive")


def _checked_shift(shift: float) -> float:
    if not (math.isfinite(shift) and shift >= 0):
        raise ParameterError(
            "a sensitivity must be finite and not negative", code="bad_sensitivity"
        )
    return shift


def _checked_scale(value: float, name: str) -> float:
    if not (isinstance(value, (int, float, np.floating)) and MIN_SCALE <= value <= MAX_SCALE):
        raise _scale_error(name)
    return float(value)


def _scale_error(name: str) -> ParameterError:
    return ParameterError(
        f"the noise's {name} must lie between {MIN_SCALE:g} and {MAX_SCALE:g}",
        code="noise_scale",
        hint="choose a larger or smaller budget, or bring the bounds into a saner unit",
    )

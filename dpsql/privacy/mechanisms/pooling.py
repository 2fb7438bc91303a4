"""Pooling of noisy values of one number by inverse variance, and margins of the result.

Releases of one statistic x are x + Z_1, …, x + Z_m with independent noise of known variances v_i.
Weights proportional to 1/v_i sum to 1 and make the variance of the weighted mean 1/(Σ 1/v_i), the
least of all unbiased weighted means. All of it is post-processing of numbers that were paid for.

Margins of small noise are read off the convolution of the lattice noises themselves, on a fine
grid. Others come from continuous noise that each Z_i follows within one step: |Z_i| has the tail of
a continuous |Y_i| but for one step each way, so that there are Z_i and Y_i of the same sign with
|Z_i - Y_i| <= 1, and the weighted means differ by at most one step. For a discrete Gaussian with
normalisation s = Σ exp(-x²/2σ²) >= σ sqrt(2π):

    P[Z >= k] <= (1/s) times the integral from k - 1 on <= P[Y >= k - 1]
    P[Z >= k] >= (exp(-k²/2σ²) + I) / s with I the integral from k + 1 on, and that is at least
        P[Y >= k + 1] as I < σ² exp(-k²/2σ²) and σ² (s / (σ sqrt(2π)) - 1) <= 1

for all k >= 1. For a discrete Laplace with q = exp(-1/b), P[|Z| >= k] = 2 q^k / (1 + q) lies
between q^(k+1) and q^(k-1). Correlated noise is half a sum of two such Gaussians, elliptic noise a
sum of two in finer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from dpsql.errors import ParameterError
from dpsql.privacy.mechanisms.additive import Additive, CorrelatedGaussian, IndependentNoise, Steps
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace
from dpsql.privacy.sampling.numeric import normal_quantile_sf

_LEAST_CONVOLVED = 1e-6  # below, what rounding adds to a convolution is no longer negligible
_CELLS = 500  # of a grid, to a standard deviation
_LARGEST_SPREAD = (
    500  # of lattice noise that is convolved itself: beyond, a step is next to nothing
)
_Part: TypeAlias = tuple[float, DiscreteGaussian | DiscreteLaplace]
"""A weight and the lattice noise that it is the weight of."""


Noise: TypeAlias = IndependentNoise | CorrelatedGaussian | EllipticGaussian
"""The kinds whose releases can be pooled."""


def published(noise: Additive, groups: int) -> PublishedNoise | None:
    """Tell the noise on one of ``groups`` values; None if its releases are not pooled."""
    if isinstance(noise, IndependentNoise | CorrelatedGaussian | EllipticGaussian):
        return PublishedNoise(noise, groups)
    return None


@dataclass(frozen=True, slots=True)
class PublishedNoise:
    """The noise of a released value: its law, and the number of groups that share it."""

    noise: Noise
    groups: int

    @property
    def law(self) -> dict[str, str | float | int]:
        """The parameters of the noise, from which :func:`noise_of_law` builds it again."""
        found: dict[str, str | float | int] = {
            "law": self.noise.name,
            "scale": self.noise.scale,
            "sensitivity": self.noise.sensitivity,
            "groups": self.groups,
        }
        if isinstance(self.noise, EllipticGaussian):
            more = self.noise
            found |= {"shared": more.shared, "fineness": more.fineness, "of": more.of}
        return found

    @property
    def variance(self) -> float:
        """The variance of the noise on one value, in steps."""
        return self.noise.std(self.groups) ** 2

    @property
    def fractional(self) -> bool:
        """True if values may lie between steps."""
        return not isinstance(self.noise, IndependentNoise)

    @property
    def apart(self) -> float:
        """How far the noise may be from the continuous noise that it follows, in steps."""
        return 2 / self.noise.fineness if isinstance(self.noise, EllipticGaussian) else 1.0

    @property
    def parts(self) -> tuple[_Part, ...]:
        """The lattice noises that it is the sum of, each with its factor."""
        if isinstance(self.noise, CorrelatedGaussian):
            shared = 2 * self.noise.sigma / max(1, self.groups) ** 0.25
            return (0.5, DiscreteGaussian(2 * self.noise.sigma)), (0.5, DiscreteGaussian(shared))
        if isinstance(self.noise, EllipticGaussian):
            own, common = self.noise.parts
            return (1 / self.noise.fineness, own), (1 / self.noise.fineness, common)
        return ((1.0, self.noise.noise),)

    @property
    def normal_variance(self) -> float:
        """The variance of the continuous Gaussian that the noise follows; 0 for a Laplace."""
        if isinstance(self.noise, CorrelatedGaussian):
            shared = 4 * self.noise.sigma**2 / math.sqrt(max(1, self.groups))
            return (4 * self.noise.sigma**2 + shared) / 4
        if isinstance(self.noise, EllipticGaussian):
            return self.noise.sigma**2 + self.noise.shared**2
        gaussian = isinstance(self.noise.noise, DiscreteGaussian)
        return self.noise.noise.spread**2 if gaussian else 0.0

    @property
    def laplace_scale(self) -> float:
        """The scale of the continuous Laplace that the noise follows; 0 for a Gaussian."""
        return 0.0 if self.normal_variance else self.noise.scale


_ONE = frozenset({"scale", "sensitivity"})
_LAWS: Mapping[str, tuple[frozenset[str], Callable[..., Noise]]] = {
    "gaussian": (_ONE, lambda scale, **more: IndependentNoise(DiscreteGaussian(scale), **more)),
    "laplace": (_ONE, lambda scale, **more: IndependentNoise(DiscreteLaplace(scale), **more)),
    CorrelatedGaussian.name: (_ONE, lambda scale, **more: CorrelatedGaussian(scale, **more)),
    EllipticGaussian.name: (
        _ONE | {"shared", "fineness", "of"},
        lambda scale, **more: EllipticGaussian(scale, **more),
    ),
}


def noise_of_law(law: str, groups: int, parameters: Mapping[str, float | int]) -> PublishedNoise:
    """Build the noise of a :attr:`PublishedNoise.law`. Raises ParameterError for no such law."""
    names, build = _LAWS.get(law, (frozenset(), None))
    if build is None or parameters.keys() != names:
        raise ParameterError("there is no such noise", code="bad_parameter")
    found = PublishedNoise(build(**parameters), groups)
    _ = found.parts  # which refuses scales that are out of range
    return found


def pooling_weights(noises: Sequence[PublishedNoise]) -> tuple[float, ...]:
    """Compute the weights of values with such noise: inverse variances, of sum 1."""
    precisions = [1 / noise.variance for noise in noises]
    total = math.fsum(precisions)
    return tuple(precision / total for precision in precisions)


def pooled_std(noises: Sequence[PublishedNoise]) -> float:
    """Compute the standard deviation of the weighted mean, in steps."""
    weights = pooling_weights(noises)
    return math.sqrt(math.fsum(w**2 * n.variance for w, n in zip(weights, noises, strict=True)))


def pooled_margin(noises: Sequence[PublishedNoise], risk: float) -> float:
    """Bound the error of the weighted mean of independent noises, in steps.

    It is larger with probability at most ``risk``. For one noise that is its own exact margin.
    Checked by ``tests/privacy/mechanisms/test_pooled_noise.py``.
    """
    if len(noises) == 1:
        (only,) = noises
        return only.noise.margin(1 - risk, only.groups)
    weights = pooling_weights(noises)
    normal = math.fsum(w**2 * n.normal_variance for w, n in zip(weights, noises, strict=True))
    scales = [w * n.laplace_scale for w, n in zip(weights, noises, strict=True)]
    apart = math.fsum(w * n.apart for w, n in zip(weights, noises, strict=True)) * (1 + 1e-12)
    continuous = _continuous_margin(normal, tuple(sorted(s for s in scales if s)), risk) + apart
    parts = tuple(
        (weight * factor, law)
        for weight, noise in zip(weights, noises, strict=True)
        for factor, law in noise.parts
    )
    coarse = all(law.spread <= _LARGEST_SPREAD for _, law in parts)
    if risk < _LEAST_CONVOLVED or not coarse:
        return continuous
    return min(continuous, _lattice_margin(parts, risk))


@lru_cache(maxsize=1024)
def _lattice_margin(parts: tuple[_Part, ...], risk: float) -> float:
    """Bound a weighted sum of lattice noises by the convolution of their own laws."""
    lost = risk / 1000 / len(parts)
    spread = math.sqrt(sum(weight**2 * law.variance for weight, law in parts))
    cell, laws = spread / _CELLS, []
    for weight, law in parts:
        points = np.arange(-law.margin(1 - lost), law.margin(1 - lost) + 1)
        gaussian = isinstance(law, DiscreteGaussian)
        far = (points / law.spread) ** 2 / 2 if gaussian else np.abs(points) / law.spread
        places = np.rint(weight * points / cell).astype(np.int64)
        masses = np.bincount(places - places[0], np.exp(-far))
        laws.append(masses / masses.sum())
    return _summed_margin(laws, cell, risk)


@lru_cache(maxsize=1024)
def _continuous_margin(variance: float, scales: tuple[float, ...], risk: float) -> float:
    """Bound the sum of a Gaussian and of Laplaces with these scales, all continuous."""
    if not scales:
        return math.sqrt(variance) * normal_quantile_sf(math.log(risk / 2)) * (1 + 1e-9)
    exponential = _exponential_margin(variance, scales, risk)
    if risk < _LEAST_CONVOLVED:
        return exponential
    return min(exponential, _convolved_margin(variance, scales, risk))


def _exponential_margin(variance: float, scales: tuple[float, ...], risk: float) -> float:
    """Bound the sum by Chernoff's inequality: the moments of all parts are known.

    P[|S| > x] <= 2 exp(-t x + t² variance / 2) Π 1 / (1 - (t b)²) for every t below the 1/b.
    """
    rates = np.linspace(0, 1, 513)[1:-1] / max(scales)
    logs = rates**2 * variance / 2
    for scale in scales:
        logs = logs - np.log1p(-((rates * scale) ** 2))
    return float(np.min((logs + math.log(2 / risk)) / rates)) * (1 + 1e-9)


def _convolved_margin(variance: float, scales: tuple[float, ...], risk: float) -> float:
    """Bound the sum by the convolution of its parts on a grid.

    Each part is rounded to the nearest point, which moves it by at most half a cell, and what lies
    far out is given up: a thousandth of the risk.
    """
    parts = len(scales) + (variance > 0)
    spread = math.sqrt(variance + 2 * sum(scale**2 for scale in scales))
    cell, lost = spread / _CELLS, risk / 1000 / parts
    reaches = [scale * math.log(1 / lost) for scale in scales]
    if variance:
        reaches.append(math.sqrt(variance) * normal_quantile_sf(math.log(lost / 2)))
    laws = []
    for index, reach in enumerate(reaches):
        count = math.ceil(reach / cell) + 1
        edges: Steps = (np.arange(2 * count + 2, dtype=np.float64) - count - 0.5) * np.float64(cell)
        laplace = index < len(scales)
        cdf = _laplace_cdf(edges, scales[index]) if laplace else _normal_cdf(edges, variance)
        laws.append(np.diff(cdf))
    return _summed_margin(laws, cell, risk)


def _summed_margin(laws: Sequence[Steps], cell: float, risk: float) -> float:
    """Bound a sum of symmetric laws on a grid, each of 2n + 1 cells around 0.

    Each part was rounded to the grid, and a thousandth of the risk was given up. The convolution is
    by Fourier transform, whose rounding is below a billionth.
    """
    whole = sum(len(law) // 2 for law in laws)
    size = 1 << (2 * whole + 1).bit_length()
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for law in laws:
        transform *= np.fft.rfft(law, size)
    both = np.fft.irfft(transform, size)[: 2 * whole + 1]
    folded = both[whole:].copy()
    folded[1:] += both[:whole][::-1]
    beyond = np.cumsum(folded[::-1])[::-1]  # P[|S| >= i cells]
    allowed = risk * (1 - 1 / 1000) - 1e-9
    first = int(np.argmax(beyond <= allowed))
    return (max(0, first - 1) + len(laws) / 2) * cell * (1 + 1e-9)


def _laplace_cdf(values: Steps, scale: float) -> Steps:
    half = np.exp(-np.abs(values) / scale) / 2
    return np.where(values < 0, half, 1 - half)


def _normal_cdf(values: Steps, variance: float) -> Steps:
    from scipy.special import ndtr

    found: Steps = ndtr(values / math.sqrt(variance))
    return found

"""Sums of noisy values of one release, and margins of such a sum: post-processing.

Let each of n values be x_i + Z_i. Independent noise adds up to the sum of n draws. Correlated and
elliptic noise is an own draw and one that all values share, in halves of a step or finer ones, so
that n of them have the sum of n own draws and n times the shared one: it grows faster than the root
of n.

Sums are lattice noise themselves. Their law is found exactly, from the characteristic functions of
the draws: for a discrete Laplace with s = 2 sinh²(1/2b) that is s / (s + 1 - cos t), for a discrete
Gaussian a theta function, which Poisson summation gives as the sum over all integers m of
exp(-σ²(t - 2πm)²/2), divided by its value at 0. Taken at L points and transformed, it is the law
wound around a circle of L integers. What is further out than the circle reaches is bounded by
Chernoff's inequality: a Laplace's moments are known, and a discrete Gaussian's at most those of the
continuous one, E[exp(tZ)] being exp(t²σ²/2) times Σ exp(-(x - tσ²)²/2σ²) / Σ exp(-x²/2σ²), which
is at most 1 (Canonne, Kamath & Steinke 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.pooling import PublishedNoise
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace
from dpsql.privacy.sampling.numeric import normal_quantile_sf

_LARGEST_CIRCLE = 2**20
_LEAST_WOUND = 1e-6  # below, the rounding of a Fourier transform is no longer negligible
_ROUNDING = 1e-9
_OUTSIDE = 1e-3  # the part of the risk that what lies outside of the circle may have


@dataclass(frozen=True, slots=True)
class _Draws:
    """So many independent draws of a law, each times a whole ``factor``."""

    law: DiscreteGaussian | DiscreteLaplace
    factor: int
    count: int


def summed_std(noise: PublishedNoise, count: int) -> float:
    """Compute the standard deviation of the sum of so many values of one release, in steps."""
    draws, part = _draws(noise, count)
    return part * math.sqrt(math.fsum(d.count * d.factor**2 * d.law.variance for d in draws))


def summed_margin(noise: PublishedNoise, count: int, risk: float) -> float:
    """Bound the error of the sum of so many values of one release, in steps.

    It is larger with probability at most ``risk``. For one value that is its own exact margin.
    Checked by ``tests/privacy/mechanisms/test_summed_noise.py``.
    """
    if count == 1:
        return noise.noise.margin(1 - risk, noise.groups)
    draws, part = _draws(noise, count)
    return part * _margin(draws, risk)


def _draws(noise: PublishedNoise, count: int) -> tuple[tuple[_Draws, ...], float]:
    """List the draws in a sum of noises, and their unit."""
    (unit, own), *rest = noise.parts
    shared = (_Draws(law, count, 1) for _, law in rest)  # one draw, in the steps of the own ones
    return (_Draws(own, 1, count), *shared), unit


@lru_cache(maxsize=1024)
def _margin(draws: tuple[_Draws, ...], risk: float) -> float:
    """Bound a sum of draws, in units of the lattice."""
    outer = _chernoff(draws, risk)
    if risk < _LEAST_WOUND:
        return min(outer, _continuous(draws, risk))
    reach = math.ceil(_chernoff(draws, risk * _OUTSIDE)) + 1
    size = 1 << (2 * reach).bit_length()
    if size > _LARGEST_CIRCLE:
        return min(outer, _continuous(draws, risk))
    return min(outer, _wound(draws, size, risk))


def _chernoff(draws: tuple[_Draws, ...], risk: float) -> float:
    """Bound the sum by the moments of its parts: P[|S| > x] <= 2 exp(-t x) E[exp(t S)]."""
    laplaces = [d for d in draws if isinstance(d.law, DiscreteLaplace)]
    variance = math.fsum(
        d.count * (d.factor * d.law.spread) ** 2
        for d in draws
        if isinstance(d.law, DiscreteGaussian)
    )
    log = math.log(2 / risk)
    if not laplaces:
        return math.sqrt(2 * variance * log) * (1 + 1e-9)
    rates = np.linspace(0, 1, 2049)[1:-1] / max(d.factor * d.law.spread for d in laplaces)
    logs = rates**2 * variance / 2
    for d in laplaces:
        least = 2 * math.sinh(1 / (2 * d.law.spread)) ** 2
        logs = logs - d.count * np.log1p(-2 * np.sinh(d.factor * rates / 2) ** 2 / least)
    return float(np.min((logs + log) / rates)) * (1 + 1e-9)


def _continuous(draws: tuple[_Draws, ...], risk: float) -> float:
    """Bound a sum of discrete Gaussians by continuous ones, within one step each.

    See :mod:`dpsql.privacy.mechanisms.pooling`. Infinite where there is a Laplace among them.
    """
    if any(isinstance(d.law, DiscreteLaplace) for d in draws):
        return math.inf
    variance = math.fsum(d.count * (d.factor * d.law.spread) ** 2 for d in draws)
    near = math.sqrt(variance) * normal_quantile_sf(math.log(risk / 2)) * (1 + 1e-9)
    return near + sum(d.count * d.factor for d in draws)


def _wound(draws: tuple[_Draws, ...], size: int, risk: float) -> float:
    """Bound the sum by its law on a circle of ``size`` integers."""
    turns = np.arange(size // 2 + 1, dtype=np.int64)
    logs = np.zeros(len(turns))
    for d in draws:
        at = d.factor * turns % size
        at = np.minimum(at, size - at)  # characteristic functions are even
        logs += d.count * _log_characteristic(d.law, 2 * math.pi * at / size)
    law = np.fft.irfft(np.exp(logs), size)
    within = law[: size // 2 + 1].copy()
    within[1 : size // 2] += law[: size // 2 : -1]
    beyond = np.cumsum(within[::-1])[::-1]  # P[|S| >= k], of what the circle holds
    allowed = risk * (1 - _OUTSIDE) - _ROUNDING
    return float(max(0, int(np.argmax(beyond <= allowed)) - 1))


def _log_characteristic(law: DiscreteGaussian | DiscreteLaplace, angle: Steps) -> Steps:
    """Compute the logarithm of E[cos(tZ)] for angles from 0 to π; it is positive."""
    found: Steps
    if isinstance(law, DiscreteLaplace):
        least = 2 * math.sinh(1 / (2 * law.spread)) ** 2
        found = -np.log1p(2 * np.sin(angle / 2) ** 2 / least)
        return found
    if law.sigma < 1:
        points = np.arange(-40, 41)
        masses = np.exp(-law.energy(points))
        waves: Steps = np.cos(np.outer(angle, points)) @ masses / masses.sum()
        found = np.log(np.maximum(waves, 1e-300))
        return found
    # From σ = 1 on, terms beyond the two nearest multiples of 2π are below exp(-4π²/2 · 4).
    nearest = -((law.sigma * angle) ** 2) / 2
    other = np.exp(-(law.sigma**2) * ((2 * math.pi - angle) ** 2 - angle**2) / 2)
    third = np.exp(-(law.sigma**2) * ((2 * math.pi + angle) ** 2 - angle**2) / 2)
    at_zero = 2 * math.exp(-2 * (math.pi * law.sigma) ** 2)
    found = nearest + np.log1p(other + third) - math.log1p(at_zero)
    return found

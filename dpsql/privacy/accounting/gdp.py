"""Gaussian differential privacy: conversions between mu, epsilon and delta, exact ones.

A mechanism is mu-GDP if telling two neighbours apart by its output is at least as hard as telling
N(0, 1) from N(mu, 1) (Dong, Roth & Su 2022). Costs are counted as ``mu**2 / 2``: this is the rho of
the zCDP that mu-GDP implies, and it adds up, also where each question and its cost are chosen after
seeing earlier answers (Smith & Thakurta 2022; ``docs/mechanisms/accounting.md`` has the proof).

Every rounding is against the analyst: costs and epsilons are rounded up, what may be spent down.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_FAR = 8.0  # spreads: beyond them, erfc's relative error would be multiplied by too large a power
_MILLS_ERROR = 4e-13  # of the terms below, relative to the larger one
_UP = 1.0 + 2.0**-48
"""Exceeds the rounding of a few correctly rounded operations (each 2**-52)."""
_STEEPEST = math.sqrt(2.0 * math.pi) / 4.0
"""The slope at 0 of the normal quantile of 1/(1 + exp(-x)), which is concave from there on."""


def mills_ratio(z: float) -> float:
    """Compute P[N > z] / density(z) for a standard normal N and z >= 0: relative error below 1e-13.

    The standard library does where it is exact enough: SciPy takes long to import.
    Checked by ``tests/privacy/mechanisms/test_noise.py`` against 50 digits.
    """
    if z < _FAR:
        scaled = math.exp(z * z / 2) * math.erfc(z / math.sqrt(2))
    else:
        from scipy.special import erfcx

        scaled = float(erfcx(z / math.sqrt(2)))
    return math.sqrt(math.pi / 2) * scaled


def gaussian_delta(epsilon: float, distance: float) -> float:
    """Bound the smallest delta for which N(0, 1) and N(distance, 1) are (epsilon, delta)-close.

    For any real epsilon and positive distance: of noise, its sensitivity in l2 over its sigma.
    Tight to about 1e-12 of the probability that N(0, 1) exceeds epsilon/distance - distance/2.
    """
    near, far = epsilon / distance - distance / 2, epsilon / distance + distance / 2
    # exp(epsilon)*density(far) = density(near), so the two tails differ by their Mills ratios only.
    density = math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    if far >= 0:
        second = density * mills_ratio(far)
    else:
        second = math.exp(epsilon) * 0.5 * math.erfc(far / math.sqrt(2))
    first = density * mills_ratio(near) if near >= 0 else 0.5 * math.erfc(near / math.sqrt(2))
    # exp() amplifies the rounding of its argument.
    error = _MILLS_ERROR + 4e-16 * near * near
    return min(1.0, max(0.0, first - second) + error * first)


@lru_cache(maxsize=4096)
def gaussian_rho_from_epsilon(epsilon: float, delta: float) -> float:
    """Find the largest mu**2/2 whose GDP implies (``epsilon``, ``delta``)-DP, rounded down.

    mu-GDP implies it if and only if ``gaussian_delta(epsilon, mu) <= delta`` (Dong, Roth & Su 2022,
    Corollary 1). Takes a finite epsilon > 0 and 0 < delta < 1.
    """
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2.0 * high
    if low == 0.0:
        low = high
        while gaussian_delta(epsilon, low) > delta:
            low, high = low / 2.0, low
    while low < (middle := (low + high) / 2.0) < high:
        if gaussian_delta(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    return low * low / 2.0 / _UP


@lru_cache(maxsize=4096)
def epsilon_from_gaussian(rho: float, delta: float) -> float:
    """Find the epsilon for which (mu**2/2 = ``rho``)-GDP implies (epsilon, ``delta``)-DP.

    Rounded up. Takes a finite ``rho`` >= 0 and 0 < delta < 1.
    """
    if rho == 0.0:
        return 0.0
    mu = math.sqrt(2.0 * rho) * _UP
    low, high = 0.0, (rho + 2.0 * math.sqrt(rho * -math.log(delta))) * _UP  # that of zCDP
    if gaussian_delta(low, mu) <= delta:
        return 0.0
    while gaussian_delta(high, mu) > delta:  # by the rounding of the bound
        low, high = high, high * (1.0 + 1e-9)
    while low < (middle := (low + high) / 2.0) < high:
        if gaussian_delta(middle, mu) <= delta:
            high = middle
        else:
            low = middle
    return high


def gaussian_rho_of_bounded_range(epsilon: float) -> float:
    """Compute mu**2/2 of an ``epsilon``-bounded-range pick, rounded up.

    mu = 2 z with P[N <= z] = 1/(1 + exp(-epsilon/2)). The loss of such a pick lies in an interval
    of length epsilon, so two Bernoulli laws whose odds differ by exp(epsilon) are no harder to tell
    apart; and of these the symmetric ones are the easiest (``docs/mechanisms/accounting.md``).
    """
    half = epsilon / 2.0
    away = 1.0 / (1.0 + math.exp(min(half, 700.0)))
    quantile = -_NORMAL.inv_cdf(away) * (1.0 + 1e-12) + 1e-14
    if half > 700.0:
        quantile = math.sqrt(2.0 * half)  # above the quantile: P[N > z] <= exp(-z**2/2)/2
    return 2.0 * min(quantile, _STEEPEST * half * _UP) ** 2 * _UP


def gaussian_rho_of_pure(epsilon: float) -> float:
    """Compute mu**2/2 of an ``epsilon``-DP mechanism, rounded up: that of randomized response.

    Its loss lies between -epsilon and epsilon (Dong, Roth & Su 2022, Proposition 2, for the laws).
    """
    return gaussian_rho_of_bounded_range(2.0 * epsilon)


def bounded_range_of_gaussian_rho(rho: float) -> float:
    """Find an epsilon whose bounded-range picks cost at most mu**2/2 = ``rho``, rounded down."""
    quantile = math.sqrt(rho / 2.0)
    least = quantile / _STEEPEST / _UP  # as the quantile is concave in half of epsilon
    far = 0.5 * math.erfc(quantile / math.sqrt(2.0))
    exact = 0.0 if far < 1e-300 else math.log((1.0 - far) / far) * (1.0 - 1e-11) - 1e-13
    epsilon = 2.0 * max(least, exact)
    step = 2.0**-50
    while gaussian_rho_of_bounded_range(epsilon) > rho:
        epsilon *= 1.0 - step
        step = min(0.5, step * 2.0)
    return epsilon


def pure_of_gaussian_rho(rho: float) -> float:
    """Find an epsilon for which epsilon-DP costs at most mu**2/2 = ``rho``, rounded down."""
    return bounded_range_of_gaussian_rho(rho) / 2.0

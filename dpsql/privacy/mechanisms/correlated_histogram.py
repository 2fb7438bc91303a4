"""The correlated stability histogram with continuous noise: analyses and calibration.

If every change of the counts has the same sign, a shift of all of them by one half can be carried
by one shared noise, which leaves changes of one half instead of one to the noises of the groups.
That needs a bound on how many groups there are at all (the sparsity), not on how many a unit
touches: subtracting the (k_bar+1)-th largest count gives it, as
:class:`dpsql.privacy.mechanisms.correlated_topk.CorrelatedTopK` does, which draws on the
half-integers.

Source: Lebeda & Retschmeier 2024, "The Correlated Gaussian Sparse Histogram Mechanism".
"""

from __future__ import annotations

import math
from enum import Enum
from functools import lru_cache

import numpy as np

from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.mechanisms.calibration import analytic_gaussian_sigma, gaussian_deltas
from dpsql.privacy.mechanisms.sparse_histogram import (
    Floats,
    Integers,
    NoiseAndThreshold,
    check_parameters,
    crossing,
    hidden_quantile,
    lowest_tau,
    normal_sf,
    too_little_noise,
    worst_over,
)
from dpsql.privacy.sampling.numeric import checked_positive, normal_quantile_sf

_ROUNDING = 1e-9  # relative; exceeds the rounding errors of the sums below
_NODES = np.arange(-7.0, 11.0, 1 / 4)  # of a standard normal: beyond 11 lie 2e-28 of it
_WEIGHTS = np.exp(-0.5 * _NODES**2) / 4 / math.sqrt(2 * math.pi)


class CorrelatedAnalysis(Enum):
    """How delta is computed from the noise and the threshold.

    The first two bound the chance that one of m fresh counts appears by letting the shared noise
    and the largest of the others each have a part of the threshold (Lemma 3.2). The third
    integrates over the shared noise instead, which is exact.
    """

    ADD_THE_DELTAS = "add_the_deltas"
    TIGHT = "tight"
    INTEGRATED = "integrated"


def half_distance(old: Integers, sparsity: int) -> Floats:
    """Compute gamma(j): the l2 change that j existing counts, each up by at most one, amount to."""
    distance: Floats = np.minimum(np.sqrt(old), 0.5 * np.sqrt(old + math.sqrt(sparsity)))
    return distance


def correlated_delta(
    epsilon: float,
    sigma: float,
    tau: float,
    sparsity: int,
    analysis: CorrelatedAnalysis = CorrelatedAnalysis.INTEGRATED,
) -> float:
    """Compute delta, at ``epsilon``, of count + Z_i + Z > 1 + tau; Var Z_i = σ², Var Z = σ²/√k.

    For histograms with at most ``sparsity`` groups whose counts a unit changes in one direction, by
    at most one each (Theorems 3.3 and 3.5). Raises ParameterError for parameters out of range.

    Of Theorem 3.5 the last family (fresh counts on the other side) is left out. Its proof takes the
    event of high loss to be monotone in the shared noise, which conditioning on hidden fresh counts
    breaks; and it is not needed. Hiding the fresh counts that the other side would have shown costs
    at most 1 - psi and leaves two Gaussians thinned by the same event, so the third family of the
    theorem, 1 - psi(k-j) + delta_gauss(gamma(j)), holds in both directions.
    Checked by ``tests/privacy/mechanisms/test_correlated_histogram.py``.
    """
    check_parameters(epsilon, sparsity)
    checked_positive(sigma, "sigma")
    checked_positive(tau, "tau")

    def noise_delta(old: Integers) -> Floats:
        return gaussian_deltas(epsilon, half_distance(old, sparsity) / sigma)

    def fresh_delta(fresh: Integers) -> Floats:
        return _fresh_released(sigma, tau, sparsity, fresh, analysis)

    def bound(low: Integers, high: Integers) -> Floats:
        return fresh_delta(sparsity - low) + noise_delta(high)

    all_of_them = np.array([sparsity])
    only_fresh, only_old = float(fresh_delta(all_of_them)[0]), float(noise_delta(all_of_them)[0])
    if analysis is CorrelatedAnalysis.ADD_THE_DELTAS:
        return min(1.0, only_fresh + only_old)
    return min(1.0, max(only_fresh, only_old, worst_over(1, sparsity - 1, bound)))


def _fresh_released(
    sigma: float, tau: float, sparsity: int, fresh: Integers, analysis: CorrelatedAnalysis
) -> Floats:
    """Compute 1 - psi(m), a bound on P[max of m Z_i + Z > tau], for each m."""
    shared = sparsity**-0.25
    if analysis is not CorrelatedAnalysis.INTEGRATED:
        log_hidden = np.log1p(-normal_sf(np.array([tau / sigma / (1 + shared)])))
        both: Floats = -np.expm1((fresh + 1) * log_hidden) * (1 + 1e-12)
        return both
    with np.errstate(divide="ignore"):
        log_hidden = np.log1p(-normal_sf(tau / sigma - shared * _NODES))
    # The trapezoidal rule converges exponentially for such integrands; at step 1/4 to rounding.
    integral: Floats = -np.expm1(fresh[:, None] * log_hidden) @ _WEIGHTS
    return integral * (1 + _ROUNDING) + 2e-28


def correlated_tau(
    epsilon: float,
    delta: float,
    sigma: float,
    sparsity: int,
    analysis: CorrelatedAnalysis = CorrelatedAnalysis.INTEGRATED,
) -> float:
    """Find the smallest tau with which noise ``sigma`` is (epsilon, delta)-DP.

    Raises ParameterError if no threshold is enough, because the noise alone exceeds delta.
    """
    check_parameters(epsilon, sparsity, delta)
    checked_positive(sigma, "sigma")
    distance = float(half_distance(np.array([sparsity]), sparsity)[0])
    rest = delta - gaussian_delta(epsilon, distance / sigma)
    if rest <= 0:
        raise too_little_noise()
    wide = sigma * (1 + sparsity**-0.25)
    high = wide * hidden_quantile(rest * (1 - 1e-11), sparsity + 1)
    if analysis is CorrelatedAnalysis.ADD_THE_DELTAS:
        return float(high)
    low = wide * hidden_quantile(delta, sparsity + 1)
    if analysis is CorrelatedAnalysis.INTEGRATED:
        low = sigma * math.hypot(1, sparsity**-0.25) * normal_quantile_sf(math.log(delta))
        everything = np.array([sparsity])  # fresh, which is often the worst case
        low = crossing(
            lambda tau: float(_fresh_released(sigma, tau, sparsity, everything, analysis)[0]),
            delta,
            low,
            high,
        )
    return crossing(
        lambda tau: correlated_delta(epsilon, sigma, tau, sparsity, analysis), delta, low, high
    )


@lru_cache(maxsize=4096)
def calibrate_correlated(
    epsilon: float,
    delta: float,
    sparsity: int,
    analysis: CorrelatedAnalysis = CorrelatedAnalysis.INTEGRATED,
) -> NoiseAndThreshold:
    """Find the (epsilon, delta)-DP noise with the smallest tau, and that tau."""
    check_parameters(epsilon, sparsity, delta)
    distance = float(half_distance(np.array([sparsity]), sparsity)[0])
    least = analytic_gaussian_sigma(epsilon, delta, distance)
    return lowest_tau(lambda s: correlated_tau(epsilon, delta, s, sparsity, analysis), least)

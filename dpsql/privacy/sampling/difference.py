"""The tail of Z1 - Z2: how far noise can lift a count above a noisy threshold."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.sampling.distributions import DiscreteGaussian
from dpsql.privacy.sampling.numeric import (
    MIN_SCALE,
    SLOP,
    log_probability,
    normal_quantile_sf,
    raised_array,
    smallest,
)


def difference_log_sf(sigma1: float, sigma2: float, t: int) -> float:
    """Bound log P[Z1 - Z2 > t] from above, independent discrete Gaussians of sigma1 and sigma2.

    Completing the square in x**2/(2 sigma1**2) + (x - d)**2/(2 sigma2**2) gives, with
    sigma**2 = sigma1**2 + sigma2**2, tau = sigma1*sigma2/sigma and N(s) the normaliser at scale s,

        P[Z1 - Z2 = d] = exp(-d**2/(2 sigma**2)) * theta(d) / (N(sigma1) N(sigma2)),
        theta(d) = sum over x of exp(-(x - d*sigma1**2/sigma**2)**2 / (2 tau**2)) <= N(tau),

    because a Gaussian's sum over a shifted lattice is largest unshifted (Poisson summation). So the
    tail is at most N(tau)N(sigma)/(N(sigma1)N(sigma2)) times that of one discrete Gaussian with
    scale sigma: a factor below 1 + 1e-8 if tau >= 1, below 1 + 1e-2 if either sigma is above 8.
    Otherwise the positive terms are summed.
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


@lru_cache(maxsize=4096)
def difference_quantile_sf(sigma1: float, sigma2: float, p: float) -> int:
    """Find the smallest integer t whose bound above gives P[Z1 - Z2 > t] <= p, for 0 < p < 1.

    P[Z1 - Z2 > t] <= p always holds; t exceeds the smallest such integer only if p is within the
    bound's slack of a jump. Raises ParameterError for sigmas or p out of range.
    """
    log_p = log_probability(p)
    guess = math.hypot(sigma1, sigma2) * normal_quantile_sf(min(log_p, -math.log(2)))
    return smallest(lambda t: difference_log_sf(sigma1, sigma2, t) <= log_p, math.ceil(guess - 0.5))


def _is_small(one: DiscreteGaussian, two: DiscreteGaussian) -> bool:
    tau = one.sigma * two.sigma / math.hypot(one.sigma, two.sigma)
    return tau < 1 and max(one.sigma, two.sigma) <= 8


@lru_cache(maxsize=64)
def _difference_bound(
    one: DiscreteGaussian, two: DiscreteGaussian
) -> tuple[DiscreteGaussian, float]:
    """Find the single Gaussian above the difference, and the log of its factor, all rounded up."""
    sigma = math.nextafter(math.hypot(one.sigma, two.sigma), math.inf)
    total = DiscreteGaussian(math.nextafter(sigma, math.inf))
    tau = DiscreteGaussian(max(one.sigma * two.sigma / sigma, MIN_SCALE))
    log_factor = tau.log_normaliser() + total.log_normaliser()
    log_factor -= one.log_normaliser() + two.log_normaliser()
    return total, log_factor + SLOP


@lru_cache(maxsize=64)
def _difference_tails(sigma1: float, sigma2: float) -> tuple[int, NDArray[np.float64]]:
    """Sum positive terms to (first, log P[Z1 - Z2 > t] for t = first, first + 1, ...)."""
    one, two = DiscreteGaussian(sigma1), DiscreteGaussian(sigma2)
    last = math.ceil(math.hypot(sigma1, sigma2) * 38) + 2
    # Mass beyond `end` is missing from every sum; below `last` it is negligible.
    end = math.ceil(math.hypot(sigma1, sigma2) * 50) + 4
    d = np.arange(-end, end + 1)
    narrow, wide = (one, two) if sigma1 <= sigma2 else (two, one)
    # The mode of the narrow one's conditional law is d*share; its scale is below 1.
    share = narrow.sigma**2 / (one.sigma**2 + two.sigma**2)
    x = np.rint(d * share).astype(np.int64)[:, None] + np.arange(-10, 11)
    log_terms = -narrow.energy(x) - wide.energy(d[:, None] - x)
    peak = log_terms.max(axis=1)
    log_pmf = peak + np.log(np.exp(log_terms - peak[:, None]).sum(axis=1))
    log_tails = np.logaddexp.accumulate(log_pmf[::-1])[::-1]
    log_tails -= one.log_normaliser() + two.log_normaliser()
    first = -end - 1
    return first, raised_array(log_tails[: last + 1 - first])

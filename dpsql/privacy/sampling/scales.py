"""The inverse question: which noise scale costs at most a given rho."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.privacy.sampling.distributions import DiscreteLaplace
from dpsql.privacy.sampling.numeric import (
    MAX_SCALE,
    MIN_SCALE,
    checked_positive,
    checked_scale,
    scale_error,
)


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

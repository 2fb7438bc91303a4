"""Small numerical tools for noise: safe rounding, stable formulas, parameter checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError

MIN_SCALE = 0.01
MAX_SCALE = 2.0**40

_NORMAL = NormalDist()
SLOP = 4e-12  # relative; exceeds the rounding errors of every tail formula


_FAR_LOG = -32.0  # about log P[N > 8]


def normal_quantile_sf(log_p: float) -> float:
    """Compute about the z >= 0 with log P[N > z] = log_p <= log(1/2)."""
    if log_p > _FAR_LOG:
        return max(0.0, -_NORMAL.inv_cdf(math.exp(log_p)))
    from scipy.special import ndtri_exp

    return max(0.0, -float(ndtri_exp(log_p)))


def smallest(holds: Callable[[int], bool], guess: int) -> int:
    """Find the smallest integer for which a monotone condition holds, outwards from a guess."""
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


def raised(log_value: float) -> float:
    """Bound a computed log-probability from above its rounding error, by at most 0."""
    return min(0.0, log_value + SLOP + 1e-15 * abs(log_value))


def raised_array(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound each of many log-probabilities from above, as :func:`raised` does one.

    Takes and returns float64 arrays of any shape.
    """
    return np.minimum(0.0, log_values + SLOP + 1e-14 * np.abs(log_values))


def rounded_up(exact: Fraction) -> float:
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def exp_remainder(u: float) -> float:
    """Compute u - 1 + exp(-u) for u >= 0, without cancellation."""
    if u > 0.5:
        return u + math.expm1(-u)
    total, term, k = 0.0, u * u / 2, 2
    while abs(term) > 1e-18 * u * u:
        total, term, k = total + term, -term * u / (k + 1), k + 1
    return total


def sinh_minus_linear(u: float) -> float:
    """Compute sinh(u) - u for u >= 0, without cancellation."""
    if u > 1:
        return math.sinh(u) - u
    total, term, k = 0.0, u**3 / 6, 3
    while term > 1e-18 * u**3:
        total, term, k = total + term, term * u * u / ((k + 1) * (k + 2)), k + 2
    return total


def log_probability(p: float) -> float:
    if not 0 < p < 1:
        raise ParameterError(
            "a probability must lie strictly between 0 and 1", code="bad_probability"
        )
    return math.log(p)


def checked_positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be finite and positive", code="not_positive")


def checked_shift(shift: float) -> float:
    if not (math.isfinite(shift) and shift >= 0):
        raise ParameterError(
            "a sensitivity must be finite and not negative", code="bad_sensitivity"
        )
    return shift


def checked_scale(value: float, name: str) -> float:
    if not (isinstance(value, (int, float, np.floating)) and MIN_SCALE <= value <= MAX_SCALE):
        raise scale_error(name)
    return float(value)


def scale_error(name: str) -> ParameterError:
    return ParameterError(
        f"the noise's {name} must lie between {MIN_SCALE:g} and {MAX_SCALE:g}",
        code="noise_scale",
        hint="choose a larger or smaller budget, or bring the bounds into a saner unit",
    )

"""Exact (epsilon, delta) analysis of Gaussian noise, for a single publication.

The analytic Gaussian mechanism (Balle & Wang 2018, Theorem 8): adding N(0, sigma**2 I) to a vector
whose l2 norm changes by at most D is (epsilon, delta)-DP if and only if, with u = D/sigma,

    delta >= Phi(u/2 - epsilon/u) - exp(epsilon) * Phi(-u/2 - epsilon/u).

Every rounding is towards more noise: deltas are rounded up, sigmas are rounded up.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.sampling.numeric import checked_positive

LATTICE_VARIANCE = 3 / 32
"""What a discrete Gaussian needs on top of sigma**2 to be as private as a continuous one.

In squared lattice steps, for a sigma of 1 or more: see :func:`lattice_gaussian_delta`.
"""
LEAST_SIGMA = 1.0
"""The least sigma, in lattice steps, of which that holds."""


_each = np.frompyfunc(gaussian_delta, 2, 1)


def gaussian_deltas(
    epsilon: float | NDArray[np.float64], distance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound each of many deltas, as :func:`gaussian_delta` does one.

    Takes floats or float64 arrays of shape (cases,), and returns one of that shape.
    """
    return np.asarray(_each(epsilon, distance), dtype=np.float64)


@lru_cache(maxsize=1024)
def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Find the smallest sigma for which N(0, sigma**2) noise is (epsilon, delta)-DP.

    ``sensitivity`` is in l2; sigma is in its units, never below the exact root and above it by a
    relative 1e-7 at most for epsilon >= 0.001. For the integers see ``lattice_gaussian_sigma``.
    Guarantee: (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8; Gopi et al. 2020, Proposition
    2.2). Checked by ``tests/privacy/mechanisms/test_set_union.py``. Raises ParameterError for an
    epsilon or sensitivity that is not finite and positive, or a delta outside (0, 1).
    """
    checked_positive(epsilon, "epsilon")
    checked_positive(sensitivity, "the sensitivity")
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1", code="bad_parameter")
    low = high = 1.0
    while gaussian_delta(epsilon, 1.0 / high) > delta:
        low, high = high, 2 * high
    while gaussian_delta(epsilon, 1.0 / low) <= delta and low > 1e-6:
        low, high = low / 2, low
    while high > low * (1 + 1e-14):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if gaussian_delta(epsilon, 1.0 / middle) <= delta:
            high = middle
        else:
            low = middle
    sigma = high * sensitivity
    while gaussian_delta(epsilon, sensitivity / sigma) > delta:  # by the rounding of the product
        sigma *= 1 + 1e-13
    return sigma


def lattice_gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Compute ``gaussian_delta`` for discrete Gaussian noise on integer vectors.

    1.0 for a sigma below LEAST_SIGMA.

    Why a continuous analysis covers discrete noise: moved by whole steps, a discrete Gaussian is no
    easier to tell from itself than a continuous one of variance s**2 is, with

        s**2 = (sigma**2 + sigma sqrt(sigma**2 - 1/3)) / 2 >= sigma**2 - LATTICE_VARIANCE,

    exactly and for one coordinate (docs/mechanisms/accounting.md has the proof). Coordinates are
    independent, so all of them together are no easier to tell apart than the continuous ones are.
    Checked by ``tests/privacy/mechanisms/test_lattice_gaussian.py``.
    """
    smooth = smooth_sigma(sigma)
    if smooth == 0.0:
        return 1.0
    checked_positive(epsilon, "epsilon")
    checked_positive(smooth, "sigma")
    checked_positive(sensitivity, "the sensitivity")
    return gaussian_delta(epsilon, sensitivity / smooth)


def smooth_sigma(sigma: float) -> float:
    """Find the scale of continuous noise that discrete noise is as private as; 0.0 for too little.

    In lattice steps, rounded down; see ``lattice_gaussian_delta``.
    """
    if sigma < LEAST_SIGMA:
        return 0.0
    return math.sqrt(sigma * sigma - LATTICE_VARIANCE) * (1 - 2.0**-50)


def lattice_sigma(variance: float) -> float:
    """Find a sigma of discrete noise as private as continuous noise of that variance.

    Both in lattice steps; rounded up.
    """
    return math.sqrt(max(variance + LATTICE_VARIANCE, LEAST_SIGMA**2)) * (1 + 1e-12)


def lattice_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Find a sigma for which discrete Gaussian noise on integer vectors is (epsilon, delta)-DP.

    The continuous one of ``analytic_gaussian_sigma`` plus LATTICE_VARIANCE, negligible when a
    lattice step is small. Arguments and errors are those of the continuous one.
    """
    return lattice_sigma(analytic_gaussian_sigma(epsilon, delta, sensitivity) ** 2)

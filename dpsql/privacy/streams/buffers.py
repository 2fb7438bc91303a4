"""Parameters of buffered linear Toeplitz factorisations, found by an optimiser."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.streams.factorisation import DEFAULT_BITS, BufferedToeplitz

_SLOWEST = 1 - 2.0**-24  # a buffer forgets: far out the search would round its decay to 1
_FAILED = 1e3  # of the logarithm of an error: where the search left the floats


@lru_cache(maxsize=64)
def optimal_buffers(steps: int, buffers: int, bits: int = DEFAULT_BITS) -> BufferedToeplitz:
    """Search for the factorisation with 2 to 4 ``buffers`` of the least worst error.

    The search decides how good it is, never how private: its result is an exact value with an exact
    norm. It goes downhill from decays at equal ratios, and is not proved optimal. Raises
    ParameterError for parameters out of range.
    """
    if buffers not in (2, 3, 4):
        raise ParameterError("there must be 2, 3 or 4 buffers", code="bad_parameter")
    checked = BufferedToeplitz(steps, (0.5,), (0.5,), bits)
    if steps == 1:
        return checked
    from scipy.optimize import minimize

    rough = minimize(_log_error, _start(steps, buffers), args=(steps,), method="BFGS")
    options = {"maxfev": 4000, "xatol": 1e-6, "fatol": 1e-9, "adaptive": True}
    fine = minimize(_log_error, rough.x, args=(steps,), method="Nelder-Mead", options=options)
    decays, weights = _parameters(fine.x)
    return BufferedToeplitz(
        steps, tuple(map(float, decays)), tuple(min(1.0, float(w)) for w in weights), bits
    )


def _parameters(point: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the decays and weights of a point of the search, which has no borders."""
    half = len(point) // 2
    decays = np.minimum(1 / (1 + np.exp(point[:half])), _SLOWEST)
    return decays, np.exp(point[half:])


def _start(steps: int, buffers: int) -> NDArray[np.float64]:
    """Start from decays at equal ratios, with the weights that come nearest to the square root."""
    from scipy.optimize import nnls

    decays = 1 - np.geomspace(0.6, 1.5 / (steps + 2), buffers)
    i = np.arange(1.0, steps)
    root = np.cumprod((2 * i - 1) / (2 * i))
    shown = 1 / np.sqrt(i)
    weights, _ = nnls(decays ** (i[:, None] - 1) * shown[:, None], root * shown)
    return np.concatenate((np.log(1 / decays - 1), np.log(np.maximum(weights, 1e-4))))


def _log_error(point: NDArray[np.float64], steps: int) -> float:
    """Compute log of the last row's norm times C's: the worst error, as the rows' norms grow.

    C is the quotient of two polynomials, N(x)/D(x), so that filters compute both columns.
    """
    from scipy.signal import lfilter

    with np.errstate(all="ignore"):
        decays, weights = _parameters(point)
        denominator = np.poly(decays)
        numerator = denominator.copy()
        for m, weight in enumerate(weights):
            numerator[1:] += weight * np.poly(np.delete(decays, m))
        impulse = np.zeros(steps)
        impulse[0] = 1.0
        column = lfilter(numerator, denominator, impulse)
        row = lfilter(denominator, numerator, np.ones(steps))
        error = math.log(float(np.sum(column**2)) * float(np.sum(row**2))) / 2
    return error if math.isfinite(error) else _FAILED

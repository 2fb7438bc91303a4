"""Exact ranking by noisy score: the exponential mechanism, peeled ``limit`` times at once.

Ranking ``epsilon*score + offset + Gumbel`` and keeping the first ``limit`` places is the same as
drawing ``limit`` times without replacement from the exponential mechanism (Durfee & Rogers 2019,
Lemma 4.2). One Gumbel is G = -log(-log(1 - W)) with W uniform on [0, 1); it falls in W. Only the
order is released, so only the order must be exact: 64 bits of each W confine its key to a narrow
interval of float64 numbers, and the few keys whose intervals overlap get more bits, and decimal
arithmetic of growing precision, until they are apart.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.sampling.entropy import EntropySource

_TINY = 2.0**-100
_PAD = 2.0**-48  # 32 units in the last place, for sums of a handful of rounded terms


def gumbel_order(
    scores: Sequence[Fraction | int] | NDArray[np.int64],
    epsilon: float,
    offsets: NDArray[np.float64] | None,
    limit: int,
    source: EntropySource,
) -> NDArray[np.intp]:
    """Draw the ``limit`` largest ``epsilon*score + offset + Gumbel``, largest first: their indices.

    ``scores`` and ``offsets`` have the shape (groups,), the indices (min(limit, groups),).
    ``scores`` are exact numbers, ``epsilon`` (2**-100 to 2**100) and the finite
    ``offsets`` exact float64 constants. All indices are returned if ``limit`` exceeds their number.
    Guarantee: the ranking has exactly the stated law, total-variation error zero. With scores that
    change by at most 1, all in one direction, each place is an epsilon-bounded-range selection,
    epsilon**2/8-zCDP (Durfee & Rogers 2019). Raises ParameterError for values out of range.
    Checked by ``tests/privacy/mechanisms/test_noise.py``.
    """
    _check(len(scores), epsilon, offsets, limit)
    n = len(scores)
    limit = min(limit, n)
    if limit == 0:
        return np.empty(0, dtype=np.intp)
    base = _float_bases(scores, epsilon)
    size = np.abs(base)
    if offsets is not None:
        base = base + offsets
        size = size + np.abs(offsets)
    words = source.words(n)
    low, high = _float_bounds(base, size, words)

    # A key in the first places has its upper end at or above the limit-th largest lower end.
    bar = np.partition(low, n - limit)[n - limit]
    candidates = np.flatnonzero(high >= bar)
    order = candidates[np.argsort(-low[candidates], kind="stable")]
    if len(order) == limit and bool(np.all(low[order[:-1]] > high[order[1:]])):
        return order
    return _exact_order(order, scores, epsilon, offsets, (low, high, words), source)[:limit]


def _check(n: int, epsilon: float, offsets: NDArray[np.float64] | None, limit: int) -> None:
    if not _TINY <= epsilon <= 1 / _TINY:
        raise ParameterError(
            f"epsilon must lie between {_TINY:g} and {1 / _TINY:g}", code="epsilon_range"
        )
    if limit < 0:
        raise ParameterError("the number of places must not be negative", code="bad_limit")
    if offsets is not None and not (len(offsets) == n and bool((np.abs(offsets) < 1e300).all())):
        raise ParameterError(
            "there must be one finite offset (below 1e300) per score", code="bad_offsets"
        )


def _float_bases(
    scores: Sequence[Fraction | int] | NDArray[np.int64], epsilon: float
) -> NDArray[np.float64]:
    """Compute epsilon * (score - largest score) in float64, the difference taken exactly."""
    if isinstance(scores, np.ndarray):
        # The difference of two int64 fits uint64, and wrapping subtraction gives exactly it.
        behind = scores.max().astype(np.uint64) - scores.astype(np.uint64)
        base: NDArray[np.float64] = -epsilon * behind.astype(np.float64)
        return base
    top = max(scores)
    return np.array([float(Fraction(epsilon) * (score - top)) for score in scores])


def _float_bounds(
    base: NDArray[np.float64], size: NDArray[np.float64], words: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find float64 numbers below and above base + G, given W's first 64 bits."""
    w = words * 2.0**-64  # two roundings at most; the widening below covers them and its own
    with np.errstate(divide="ignore"):  # log(0) = -inf is right at both ends of the unit interval
        below = -np.log(-np.log1p(-np.minimum(w * (1 + 2.0**-51) + 2.0**-64, 1.0)))
        above = -np.log(-np.log1p(-(w * (1 - 2.0**-51))))
    low, high = base + below, base + above
    low -= _PAD * (1 + size + np.abs(below))
    high += _PAD * (1 + size + np.abs(above))
    return low, high


@dataclass(slots=True)
class _Key:
    """One item's key, known to lie within [low, high]; more bits narrow it."""

    index: int
    base: Fraction
    low: Fraction | float
    high: Fraction | float
    numerator: int
    bits: int = 64

    def refine(self, source: EntropySource) -> None:
        self.numerator = self.numerator << 64 | int(source.words(1)[0])
        self.bits += 64
        low, high = gumbel_enclosure(self.numerator, self.bits)
        self.low, self.high = self.base + low, self.base + high


def _exact_order(
    items: NDArray[np.intp],
    scores: Sequence[Fraction | int] | NDArray[np.int64],
    epsilon: float,
    offsets: NDArray[np.float64] | None,
    known: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint64]],
    source: EntropySource,
) -> NDArray[np.intp]:
    """Sort ``items`` by falling key, drawing further bits wherever two intervals overlap."""
    top = max(scores) if not isinstance(scores, np.ndarray) else int(scores.max())
    low, high, words = known

    def key(i: int) -> _Key:
        score = scores[i] if not isinstance(scores, np.ndarray) else int(scores[i])
        offset = Fraction(0) if offsets is None else Fraction(float(offsets[i]))
        base = Fraction(epsilon) * (score - top) + offset
        return _Key(i, base, float(low[i]), float(high[i]), int(words[i]))

    def compare(a: _Key, b: _Key) -> int:
        while True:
            if a.low > b.high:
                return -1
            if b.low > a.high:
                return 1
            a.refine(source)
            b.refine(source)

    ranked = sorted((key(int(i)) for i in items), key=cmp_to_key(compare))
    return np.array([k.index for k in ranked], dtype=np.intp)


def gumbel_enclosure(numerator: int, bits: int) -> tuple[Fraction | float, Fraction | float]:
    """Bound G for W in [numerator, numerator + 1] / 2**bits; infinite at the ends of [0, 1].

    1 - W has at most ``bits`` decimal digits, so it is exact here; each ``ln`` is correctly
    rounded, and the margin is ten times what the two of them can err.
    """
    context = decimal.Context(prec=bits + 20, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)

    def gumbel(complement: int) -> decimal.Decimal:
        u = context.divide(decimal.Decimal(complement), decimal.Decimal(1 << bits))
        return -context.ln(-context.ln(u))

    low: Fraction | float = -math.inf
    high: Fraction | float = math.inf
    complement = (1 << bits) - numerator
    if complement > 1:
        value = Fraction(gumbel(complement - 1))
        low = value - (1 + abs(value)) / 10 ** (bits + 18)
    if complement < 1 << bits:
        value = Fraction(gumbel(complement))
        high = value + (1 + abs(value)) / 10 ** (bits + 18)
    return low, high

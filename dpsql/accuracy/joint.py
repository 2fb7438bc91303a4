"""Ranges of averages and spreads by the noise of all their parts together: post-processing.

A range put together from those of the parts holds whatever all noises are within theirs, so it is
too wide: they are seldom as large as that at once. Here a true value is held against one sum of
the noisy parts whose noise is that of all. Of an average a, and of a variance v around it, with the
number n of values, all centred as :mod:`dpsql.accuracy.estimates` has them,

    Σ(x - c) - a n = 0    and    Σ((x - c)² - h) - 2 a Σ(x - c) - u n = 0,  v = h + u + a²

for the true sums; for noisy ones they are Gaussian, with variances that a and u tell. The second
is a condition on u for each a, whose own range has a small part of the risk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from dpsql.accuracy.estimates import FloatArray, PlausibleRange
from dpsql.ir.measures import Aggregate, Lattice, Measure

_LARGE: Final = 12
"""Margins of a number from which the range of its variance is narrower than that by parts."""
_RISKS: Final = (0.92, 0.05, 0.03)
"""Parts of the risk of a variance: of itself, of the average, and of the number of values."""
_STEPS: Final = 32
"""Steps in which the range of averages is gone through; what is between them is allowed for."""

Margins = Callable[[float], Sequence[float]]
"""The margins of an aggregate's parts by confidence, in the units of the answer."""


def joint_range(
    aggregate: Aggregate,
    measures: Sequence[Measure],
    parts: Sequence[FloatArray],
    margins: Margins,
    confidence: float,
    apart: PlausibleRange,
) -> PlausibleRange:
    """Compute the values that an aggregate of noisy parts may have, with a confidence.

    The noise of each part is Gaussian, far above 1, and independent of that of the others.
    ``apart`` is the range by parts, which spreads of few values have.
    """
    lattice, *_ = lattices = [measures[index].lattice for index in aggregate.measures]
    if aggregate.kind.is_average:
        return joint_average(lattice, parts, margins(confidence))
    own, of_average, of_number = (
        margins(float(np.nextafter(1 - risk * (1 - confidence), 1))) for risk in _RISKS
    )
    center, number = _given(lattice), parts[1]
    limit = (center.upper - center.lower) / 2
    found = _variance(_given(lattices[2]), limit, parts, own, of_average)
    found = found.clip(0.0, limit**2)
    if aggregate.kind.of_sample:
        fewest, most = np.maximum(number - of_number[1], 2.0), number + of_number[1]
        found = PlausibleRange(found.low * most / (most - 1), found.high * fewest / (fewest - 1))
    if aggregate.kind.is_deviation:
        found = PlausibleRange(np.sqrt(found.low), np.sqrt(found.high))
    large = number >= _LARGE * own[1]
    return PlausibleRange(
        np.where(large, found.low, apart.low), np.where(large, found.high, apart.high)
    )


def joint_average(
    lattice: Lattice | None, parts: Sequence[FloatArray], margins: Sequence[float]
) -> PlausibleRange:
    """Compute the averages that a noisy sum and a noisy number may stand for, taken together.

    Where the number may be 0, that is all averages.
    """
    center = _given(lattice)
    total, number = parts
    found, middle = _quotient(total, number, *margins), center.midpoint * center.quantum
    moved = PlausibleRange(found.low + middle, found.high + middle)
    return moved.clip(center.lower, center.upper)


def _quotient(
    total: FloatArray, number: FloatArray, sum_margin: float | FloatArray, number_margin: float
) -> PlausibleRange:
    """Compute all q for which Σ - q n is within sqrt(s² + q² m²) (Fieller 1954).

    That is the margin of the noise of both, of which each has its own margin.
    """
    known = number > number_margin
    spread = (total * number_margin) ** 2 + (number * sum_margin) ** 2
    root = np.sqrt(np.maximum(spread - (sum_margin * number_margin) ** 2, 0.0))
    divisor = np.where(known, number**2 - number_margin**2, 1.0)
    low = np.where(known, (total * number - root) / divisor, -np.inf)
    high = np.where(known, (total * number + root) / divisor, np.inf)
    return PlausibleRange(low, high)


def _variance(
    squares: Lattice,
    limit: float,
    parts: Sequence[FloatArray],
    own: Sequence[float],
    of_average: Sequence[float],
) -> PlausibleRange:
    """Compute the variances around all averages that there may be, up to ``limit`` from the middle.

    Between two of them that are looked at, u + a² bends by less than the square of their distance.
    """
    total, number, power = parts
    averages = _quotient(total, number, *of_average[:2]).clip(-limit, limit)
    step = (averages.high - averages.low) / _STEPS
    low, high = np.full_like(total, np.inf), np.full_like(total, -np.inf)
    for place in range(_STEPS + 1):
        average = averages.low + place * step
        margin = np.hypot(own[2], 2 * average * own[0])
        found = _quotient(power - 2 * average * total, number, margin, own[1])
        low = np.minimum(low, found.low + average**2)
        high = np.maximum(high, found.high + average**2)
    middle = squares.midpoint * squares.quantum
    return PlausibleRange(low - step**2 + middle, high + step**2 + middle)


def _given(lattice: Lattice | None) -> Lattice:
    assert lattice is not None
    return lattice

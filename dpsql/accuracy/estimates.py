"""Averages and spreads from noisy sums and counts, and intervals for them: post-processing.

Sums are centred: of x - c and of (x - c)² - h, where c is the middle of the values' bounds and h
that of the squares', both times the number of values n. So

    average  = c + Σ(x - c) / n
    variance = h + Σ((x - c)² - h) / n - (Σ(x - c) / n)²

Both are kept within what the bounds allow. With noise of variance s² on the centred sum, the square
of the mean is too large by s²/n² on average, and the variance too small by as much: nothing for
groups far larger than the noise. Then what is cut off at 0 and at the largest variance possible
makes small variances of small groups come out too large. The square root of a noisy variance is a
little too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.measures import Aggregate, AggregateKind, Lattice, Measure

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlausibleRange:
    """The values that something noisy may stand for, one range for each row."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def around(cls, values: FloatArray, margin: float) -> PlausibleRange:
        """Return the range of all values within ``margin`` of these."""
        return cls(values - margin, values + margin)

    def clip(self, low: float, high: float) -> PlausibleRange:
        """Cut off what lies outside of fixed limits."""
        return PlausibleRange(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def over(self, divisor: PlausibleRange) -> PlausibleRange:
        """Divide all values by positive numbers."""
        low = np.minimum(self.low / divisor.low, self.low / divisor.high)
        return PlausibleRange(low, np.maximum(self.high / divisor.low, self.high / divisor.high))

    def squared(self) -> PlausibleRange:
        """Square all values."""
        one, other = self.low**2, self.high**2
        crossing = (self.low <= 0) & (self.high >= 0)
        return PlausibleRange(
            np.where(crossing, 0.0, np.minimum(one, other)), np.maximum(one, other)
        )


def estimate(
    aggregate: Aggregate, measures: Sequence[Measure], parts: Sequence[FloatArray]
) -> FloatArray:
    """Compute an aggregate from its noisy measures, in the units of the answer."""
    exact = [PlausibleRange(part, part) for part in parts]
    return estimate_range(aggregate, measures, exact).low


def estimate_range(
    aggregate: Aggregate, measures: Sequence[Measure], parts: Sequence[PlausibleRange]
) -> PlausibleRange:
    """Compute all values that an aggregate may have if its measures are in these ranges."""
    lattices = [measures[index].lattice for index in aggregate.measures]
    return _ESTIMATES[aggregate.kind](lattices, parts)


# -- the formulas: each takes the lattices and the ranges of an aggregate's parts --------------

Lattices = Sequence[Lattice | None]
Parts = Sequence[PlausibleRange]


def _average(lattices: Lattices, parts: Parts) -> PlausibleRange:
    center, mean = _given(lattices[0]), _centred_mean(parts)
    middle = _middle(center)
    return PlausibleRange(mean.low + middle, mean.high + middle).clip(center.lower, center.upper)


def _variance(lattices: Lattices, parts: Parts) -> PlausibleRange:
    center, squares = _given(lattices[0]), _given(lattices[2])
    power = parts[2].over(_at_least(parts[1], 1))
    middle, square = _middle(squares), _centred_mean(parts).squared()
    largest = ((center.upper - center.lower) / 2) ** 2
    low, high = power.low + middle - square.high, power.high + middle - square.low
    return PlausibleRange(low, high).clip(0.0, largest)


def _variance_of_sample(lattices: Lattices, parts: Parts) -> PlausibleRange:
    """Compute the unbiased estimate, which divides by one less."""
    variance, number = _variance(lattices, parts), _at_least(parts[1], 2)
    return PlausibleRange(
        variance.low * number.high / (number.high - 1),
        variance.high * number.low / (number.low - 1),
    )


def _deviation(lattices: Lattices, parts: Parts) -> PlausibleRange:
    return _root(_variance(lattices, parts))


def _deviation_of_sample(lattices: Lattices, parts: Parts) -> PlausibleRange:
    return _root(_variance_of_sample(lattices, parts))


_ESTIMATES: Mapping[AggregateKind, Callable[[Lattices, Parts], PlausibleRange]] = {
    AggregateKind.AVG: _average,
    AggregateKind.AVG_OF_UNITS: _average,
    AggregateKind.VAR_POP: _variance,
    AggregateKind.VAR_SAMP: _variance_of_sample,
    AggregateKind.STDDEV_POP: _deviation,
    AggregateKind.STDDEV_SAMP: _deviation_of_sample,
}


def _centred_mean(parts: Parts) -> PlausibleRange:
    total, count, *_ = parts
    return total.over(_at_least(count, 1))


def _root(variance: PlausibleRange) -> PlausibleRange:
    return PlausibleRange(np.sqrt(variance.low), np.sqrt(variance.high))


def _given(lattice: Lattice | None) -> Lattice:
    assert lattice is not None
    return lattice


def _at_least(count: PlausibleRange, least: float) -> PlausibleRange:
    return PlausibleRange(np.maximum(count.low, least), np.maximum(count.high, least))


def _middle(lattice: Lattice) -> float:
    return lattice.midpoint * lattice.quantum

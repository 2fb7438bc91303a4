"""Quantiles of bounded values: an exponential mechanism over a public grid, for each group.

Every point of the grid is an answer, weighted by how far its rank is from the one asked for. Points
between two values of the data share their weight, so a group costs time for its distinct values
and not for the grid, which can be fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.price import RHO_UP, Priced, cost_of_pick, rho_of_picks
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.lattice import uniform_below
from dpsql.privacy.sampling.numeric import checked_positive, rounded_up
from dpsql.privacy.sampling.uniform import uniform_integers

_MOST_ROWS = 2**53
MAX_DENOMINATOR = 10**6
"""Fractions are those of decimals with at most six places, so that scaled ranks fit int64."""

_EXTREME = 0.95
"""How sure a largest value is to lie no further out than the data, nor far within it."""
_STRIPS = 40  # bits of the resolution that proposals are drawn with
_SLACK = 2.0**-36  # relative error ascribed to float64 weights; the real one is below 2**-40
_BATCH = 2**20  # stretches of the grid at a time


@dataclass(frozen=True, slots=True)
class Histograms:
    """The number of rows of each group at each point of the grid.

    ``points`` and ``counts`` are int64 arrays of shape (entries,), ``ends`` one of shape (groups,).
    Entries of a group stand together, points ascending, counts positive; ``ends`` holds the index
    after each group's last entry.
    """

    ends: NDArray[np.int64]
    points: NDArray[np.int64]
    counts: NDArray[np.int64]

    def batches(self) -> Iterator[Histograms]:
        """Split the groups into batches, in order."""
        stretches = 2 * self.ends + np.arange(1, len(self.ends) + 1)
        first = 0
        while first < len(self.ends):
            done = int(stretches[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(stretches, done + _BATCH, side="right")))
            begin, end = int(self.ends[first - 1]) if first else 0, int(self.ends[last - 1])
            yield Histograms(
                self.ends[first:last] - begin, self.points[begin:end], self.counts[begin:end]
            )
            first = last


@dataclass(frozen=True, slots=True)
class ExponentialQuantile(Priced[int]):
    """The ``fraction``-quantile of each group, on the grid 0, 1, ..., ``size`` - 1.

    Distribution: point v of a group of n rows has probability proportional to
    exp(-``rate`` * d(v)), where d(v) is the distance of ``fraction`` * n from the interval
    [rows below v, rows at or below v], exactly. Without rows all points are alike.

    Sensitivity: a further row at x changes -d(v) by an amount that depends on v. Let f be the
    fraction. For v < x it is f where the rank of v is too high and -f where it is too low; for
    v > x it is f - 1 where the rank is too high and 1 - f where it is too low; at v = x it is
    between 0 and f or 1 - f in the same way. Ranks rise with v, so if x lies above the quantile no
    v beyond x has too low a rank, and if x lies below it no v before x has too high a one. Either
    way the largest change is at most 2 max(f, 1 - f) above the smallest. (Where a rank changes
    sides, take the row in parts.) For f = 0 no rank is too low and for f = 1 none too high, and the
    changes are at most 1 apart. ``rows`` rows move them at most ``rows`` times as far apart.

    An ``extreme`` has its target :attr:`beyond` ranks from the end that the fraction, 0 or 1,
    names, or in the middle of the rows where that is nearer. Its rank from below moves by t with a
    further row, t from 0 to 1 (take the row in parts, so that it moves evenly). The above holds
    with t for f: the largest change is at most 2 max(t, 1 - t), so at most 2, above the smallest.

    Guarantee: e-bounded range with e = ``rate * rows`` times 2 max(f, 1 - f), or 1 for f = 0 and 1,
    or 2 for an ``extreme``, in each group that a unit adds up to ``rows`` rows to or takes them
    from; hence e**2/8-zCDP (Cesar & Rogers 2021, as in Rogers 2024, Theorem 5), added over groups,
    and e-DP. The target ``fraction`` * n moves with the data: with one fixed beforehand the range
    would be 2 for every fraction.

    An extreme is ``beyond`` ranks or more from its target with probability at most 5%, by
    :meth:`margin`. So of ``2 * beyond`` rows or more, with probability at least 95%, it is no
    further out than the data reaches, and fewer than ``2 * beyond`` rows lie beyond it.

    Source: Smith 2011, Algorithm 2, with points of a grid for real numbers, a distance that is 0
    for every rank a repeated value has, and the tight range. Checked by
    ``tests/privacy/mechanisms/test_quantiles.py``.
    """

    name: ClassVar[str] = "exponential_mechanism"
    fraction: Fraction
    rate: float
    rows: int
    size: int
    extreme: bool = False

    @property
    def beyond(self) -> int:
        """The number of rows that are meant to lie beyond an extreme; 0 for other quantiles."""
        return math.ceil(min(self.margin(_EXTREME), _MOST_ROWS)) if self.extreme else 0

    @property
    def scale(self) -> float:
        """How many ranks further off makes a point e times less likely."""
        return 1 / self.rate

    def cost(self, composition: Composition, reach: int) -> float:
        """Compute its price when one unit may change ``reach`` groups, rounded up."""
        span = Fraction(self.rate) * self.rows * _range(self.fraction, self.extreme)
        match composition:
            case Composition.ZCDP:
                return rounded_up(reach * span**2 / 8)
            case Composition.GDP:
                # Of the zCDP in one group, the square of its range over 8, rounded up.
                pick = cost_of_pick(composition, math.sqrt(8.0 * self.rho(1)))
                return reach * pick * RHO_UP
            case Composition.BASIC:
                return rounded_up(reach * span)

    def margin(self, confidence: float) -> float:
        """Find a distance in ranks that answers exceed with probability at most 1 - confidence.

        At least one point has distance 0, and each further than t has a weight below exp(-rate*t).
        It holds for all data; where values lie densely, the error is some ln(size) times smaller.
        """
        return math.log(self.size / (1 - confidence)) / self.rate

    def draw(self, histograms: Histograms, source: EntropySource) -> NDArray[np.int64]:
        """Draw a point of the grid for each group, from exactly the stated distribution.

        Returns an int64 array of shape (groups,).
        """
        drawn = [self._draw(batch, source) for batch in histograms.batches()]
        return np.concatenate([np.empty(0, dtype=np.int64), *drawn])

    def _draw(self, histograms: Histograms, source: EntropySource) -> NDArray[np.int64]:
        """Draw by rejection from bars of whole strips, each just above the weight of a stretch."""
        stretches = _stretches(histograms, self)
        weights = stretches.width * np.exp(
            -self.rate * stretches.distance / self.fraction.denominator
        )
        # Some point has distance 0, so no group's weights vanish.
        _, exponent = np.frexp(np.add.reduceat(weights, stretches.first))
        scale = np.ldexp(1.0, _STRIPS - exponent)
        curve = weights * np.repeat(scale, np.diff(stretches.first, append=len(weights)))
        bars = np.floor(curve * (1 + _SLACK)).astype(np.int64) + (stretches.width > 0)
        ends = np.cumsum(bars)
        starts = ends - bars
        begin = starts[stretches.first]
        total = np.append(begin[1:], ends[-1:]) - begin

        drawn = np.empty(len(begin), dtype=np.int64)
        todo = np.arange(len(begin))
        while len(todo):
            strip = begin[todo] + uniform_integers(total[todo], source)
            chosen = ends.searchsorted(strip, side="right")
            height = strip - starts[chosen]
            kept = height + 1 <= curve[chosen] * (1 - _SLACK)
            # The addend covers curves that underflowed: a height of zero is never surely above.
            doubt = ~kept & (height < curve[chosen] * (1 + _SLACK) + 2.0**-900)
            for i in np.flatnonzero(doubt):
                factor = Fraction(float(scale[todo[i]])) * int(stretches.width[chosen[i]])
                energy = self._energy(int(stretches.distance[chosen[i]]))
                kept[i] = uniform_below(factor, energy, int(height[i]), source)
            found = chosen[kept]
            drawn[todo[kept]] = stretches.low[found] + uniform_integers(
                stretches.width[found], source
            )
            todo = todo[~kept]
        return drawn

    def targets(self, totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute the ranks asked for in groups of rows, times the denominator.

        ``totals`` are the groups' numbers of rows: int64, of shape (groups,).
        """
        wanted = self.fraction.numerator * totals
        if not self.extreme:
            return wanted
        return np.abs(wanted - np.minimum(totals // 2, self.beyond))

    def _energy(self, distance: int) -> Fraction:
        return Fraction(self.rate) * Fraction(distance, self.fraction.denominator)


def exponential_quantile(
    price: PrivacyLoss,
    fraction: Fraction,
    *,
    rows: int,
    groups: int,
    size: int,
    extreme: bool = False,
) -> ExponentialQuantile:
    """Find the most accurate quantile of at most ``price``.

    Units add ``rows`` to each of ``groups`` groups; of an epsilon each group takes its part. Raises
    ParameterError if the price is not positive.
    """
    assert 0 <= fraction <= 1
    assert fraction.denominator <= MAX_DENOMINATOR
    assert fraction in (0, 1) or not extreme
    span = rows * _range(fraction, extreme)
    if price.composition is Composition.BASIC:
        rate = price.epsilon / float(groups * span) * (1 - 1e-12)
        return ExponentialQuantile(fraction, rate, rows, size, extreme)
    rho = rho_of_picks(price, groups) if price.rho else 0.0
    checked_positive(rho, "rho")
    rate = math.sqrt(8 * rho / groups) / float(span) * (1 + 2.0**-50)
    quantile = ExponentialQuantile(fraction, rate, rows, size, extreme)
    while quantile.rho(groups) > rho:
        rate = math.nextafter(rate, 0.0)
        quantile = ExponentialQuantile(fraction, rate, rows, size, extreme)
    return quantile


def _range(fraction: Fraction, extreme: bool) -> Fraction:
    """Bound how far one row can move the scores of two points apart."""
    if extreme:
        return Fraction(2)
    return Fraction(1) if fraction in (0, 1) else 2 * max(fraction, 1 - fraction)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """The grid of each group, cut into stretches of points with the same distance.

    They are the distinct values of the data and the gaps around them (of which some are empty), in
    ascending order; ``first`` is the index of each group's first one. ``distance`` is in units of
    one over the fraction's denominator.
    """

    first: NDArray[np.int64]
    low: NDArray[np.int64]
    width: NDArray[np.int64]
    distance: NDArray[np.int64]


def _stretches(histograms: Histograms, quantile: ExponentialQuantile) -> _Stretches:
    denominator, size = quantile.fraction.denominator, quantile.size
    ends, points, counts = histograms.ends, histograms.points, histograms.counts
    starts = np.concatenate(([0], ends[:-1]))
    groups = np.arange(len(ends))
    owner = np.repeat(groups, ends - starts)
    ranks = np.concatenate(([0], np.cumsum(counts)))
    total = ranks[ends] - ranks[starts]

    # Entry e of group g is stretch 2e + g + 1, after the gap before it; a last gap ends the group.
    value = 2 * np.arange(len(points)) + owner + 1
    last = 2 * ends + groups
    after = np.concatenate(([0], points + 1))  # the point after the entry before
    after_last = np.where(ends > starts, after[ends], 0)
    before = after[:-1].copy()
    before[starts[ends > starts]] = 0

    low = np.empty(2 * len(points) + len(ends), dtype=np.int64)
    width, distance = np.empty_like(low), np.empty_like(low)
    low[value], low[value - 1], low[last] = points, before, after_last
    width[value], width[value - 1], width[last] = 1, points - before, size - after_last
    wanted = quantile.targets(total)
    under = denominator * (ranks[:-1] - ranks[starts][owner]) - wanted[owner]
    upto = under + denominator * counts
    distance[value] = np.maximum(0, np.maximum(under, -upto))
    distance[value - 1] = np.abs(under)
    distance[last] = denominator * total - wanted
    return _Stretches(2 * starts + groups, low, width, distance)

"""Left-out estimates over pairs of units and groups: what bounding keeps and leaves out of units.

They are the sums of ``dpsql.sql.rewrite.left_out``, number for number, over all pairs of a unit
before any of its groups is left out. Where 64 bits may not hold what a unit has together it is
added up in Python's integers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions
from dpsql.bounding.pairs import Int64s, Pairs
from dpsql.bounding.specification import EstimateColumns
from dpsql.ir.measures import MeasureKind

_LARGEST: Final = 1 << 62
_LOW_BITS: Final = 32
_Any = NDArray[Any]


class LeftOutSums:
    """The sums of one estimate over units: the kept part, and the climb of each span.

    Sensitivity: as of ``left_out_sql``. Checked by ``tests/bounding/test_left_out_of_pairs.py``.
    """

    def __init__(self, estimate: EstimateColumns) -> None:
        self._estimate = estimate
        self._ladder = estimate.plan.noise.ladder
        self._kept = 0
        self._climbed = [0] * self._ladder.rungs

    def measured(self, pairs: Pairs, contributions: Contributions) -> Int64s:
        """Measure units by some of their pairs: a row for each number, which parts add up."""
        estimate, source, starts = self._estimate, self._estimate.source, pairs.starts
        if estimate.outside is not None:
            counted = (source.counted, estimate.outside)
            return np.stack([_added(contributions.counted(each), starts) for each in counted])
        groups = np.diff(starts, append=len(pairs))
        if source.measure.kind is MeasureKind.UNITS:
            return np.stack([groups, groups, groups])
        of_pairs = contributions.of(source)
        within = whole = _added(of_pairs, starts)
        if not source.measure.counts_units:
            seen = self._ladder.top + estimate.plan.noise.most
            whole = _added(contributions.whole(source, seen), starts)
        return np.stack([groups, within, whole])

    def add(self, units: Int64s) -> None:
        """Add units, by all that was measured of each."""
        if not units.size:
            return
        kept, left = self._of_units(units)
        self._kept += _exact_sum(kept)
        left = left[left >= self._ladder.grain]  # of most units there is nothing
        grains = np.minimum(left, self._ladder.top) // self._ladder.grain
        for place, (low, span) in enumerate(self._ladder.spans):
            climbed = np.minimum(np.maximum(grains - low, 0), span)
            self._climbed[place] += _exact_sum(climbed)

    @property
    def sums(self) -> tuple[int, ...]:
        """The kept part, then the climb of each span, from the lowest."""
        return tuple(min(total, _LARGEST) for total in (self._kept, *self._climbed))

    def _of_units(self, units: Int64s) -> tuple[_Any, _Any]:
        """Compute the kept and the left-out part of each unit."""
        most = self._estimate.plan.noise.most
        if self._estimate.outside is not None:
            values, some = units
            divisor = np.maximum(values, 1)
            return (values - some) * most // divisor, some * most // divisor
        groups, within, whole = units
        if self._estimate.groups is None:
            return within, whole - within
        kept = np.minimum(_shared(within, groups, self._estimate.groups), most)
        return kept, whole - kept


def _shared(within: _Any, groups: _Any, kept: int) -> _Any:
    """Compute what a unit keeps on average of so many groups, rounded to the nearest."""
    if within.dtype != object and int(within.max()) > _LARGEST // (4 * kept):
        within = within.astype(object)
    many = np.maximum(groups, 1)
    return np.where(groups <= kept, within, (within * (2 * kept) + many) // (many * 2))


def _added(values: _Any, starts: NDArray[np.intp]) -> _Any:
    """Add up numbers from 0 on, from each of some places to the next."""
    many = int(np.diff(starts, append=len(values)).max())
    if int(values.max()) > _LARGEST // many:
        values = values.astype(object)
    found: _Any = np.add.reduceat(values, starts)
    return found


def _exact_sum(values: _Any) -> int:
    if values.dtype == object:
        return int(values.sum())
    high, low = values >> _LOW_BITS, values & ((1 << _LOW_BITS) - 1)
    return (int(high.sum()) << _LOW_BITS) + int(low.sum())

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
from dpsql.bounding.pairs import Pairs
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

    def add(self, pairs: Pairs, contributions: Contributions) -> None:
        """Add units, each with all of its pairs."""
        if not len(pairs):
            return
        kept, left = self._of_units(pairs, contributions)
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

    def _of_units(self, pairs: Pairs, contributions: Contributions) -> tuple[_Any, _Any]:
        """Compute the kept and the left-out part of each unit."""
        estimate, source = self._estimate, self._estimate.source
        starts, most = pairs.starts, estimate.plan.noise.most
        if estimate.outside is not None:
            values = _added(contributions.counted(source.counted), starts)
            some = _added(contributions.counted(estimate.outside), starts)
            divisor = np.maximum(values, 1)
            return (values - some) * most // divisor, some * most // divisor
        groups = np.diff(starts, append=len(pairs))
        if source.measure.kind is MeasureKind.UNITS:
            within = whole = groups
        else:
            of_pairs = contributions.of(source)
            within = _added(of_pairs, starts)
            whole = within
            if not source.measure.counts_units:
                seen = self._ladder.top + most
                whole = _added(contributions.whole(source, seen), starts)
        if estimate.groups is None:
            return within, whole - within
        kept = np.minimum(_shared(within, groups, estimate.groups), most)
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

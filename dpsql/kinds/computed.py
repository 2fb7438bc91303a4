"""Intervals of columns that compute with the aggregates of a release: post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.accuracy.computed import TogetherNoise, computed_range
from dpsql.accuracy.estimates import FloatArray, PlausibleRange
from dpsql.accuracy.intervals import GroupsTotal, Interval, risked_confidence
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.terms import Term
from dpsql.kinds.base import ReleaseKind

_UNITS: Final = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS)
_SOME: Final = (MeasureKind.MATCHING_UNITS, MeasureKind.VALUES, MeasureKind.NUMBERS)


@dataclass(frozen=True)
class NoisyRelease:
    """The values of a release's aggregates in the rows of an answer, and their noise.

    ``columns`` are those of ``Block.interval_columns``, by aggregate; ``left_out`` and ``totals``
    are as for :meth:`ReleaseKind.interval`.
    """

    kind: ReleaseKind
    released: int
    columns: Mapping[int, Sequence[FloatArray]]
    left_out: float | None
    totals: Sequence[GroupsTotal]

    def interval(self, term: Term, values: FloatArray, confidence: float) -> Interval:
        """Compute the interval of a column with these values; NaN where nothing is known."""
        found = computed_range(term, self, confidence, len(values))
        low, high = np.fmin(found.low, values), np.fmax(found.high, values)
        known = np.isfinite(low) & np.isfinite(high) & (found.low <= found.high)
        return Interval(np.where(known, low, np.nan), np.where(known, high, np.nan))

    def alone(self, aggregate: int, confidence: float) -> PlausibleRange:
        """Compute the range of one aggregate."""
        total, columns = self.totals[aggregate], self.columns[aggregate]
        found = self.kind.interval(
            self.released, aggregate, columns, confidence, self.left_out, total
        )
        return PlausibleRange(found.low, found.high)

    def are_joint(self, aggregates: Sequence[int]) -> bool:
        """Tell whether the noise of all is Gaussian, large and independent."""
        found = [self.kind.plan.block.aggregates[index] for index in aggregates]
        ways = self.kind.ways(self.columns[aggregates[0]])
        return not any(one.kind.composed for one in found) and all(
            self.kind.large_gaussian(one, way) for one in found for way, _ in ways
        )

    def together(self, aggregates: Sequence[int], confidence: float) -> TogetherNoise:
        """Return the values and margins of aggregates that are joint.

        Where LIMIT chooses by the noise of one of them, that is allowed for in all.
        """
        plan, released = self.kind.plan, self.released
        measures = {index: plan.block.aggregates[index].measures[0] for index in aggregates}
        risked = max(
            risked_confidence(plan, released, one, confidence) for one in measures.values()
        )
        margins = {index: np.full_like(self.columns[index][0], np.nan) for index in aggregates}
        for way, rows in self.kind.ways(self.columns[aggregates[0]]):
            for index, one in measures.items():
                whole = plan.is_whole(plan.block.aggregates[index])
                margins[index][rows] = self.kind.reach(released, one, whole, risked, way)
        for index, columns in self.columns.items():
            if index in margins:
                margins[index] += self.kind.taken_either_way(released, index, columns)
        beyond = {
            index: self.kind.taken(released, index, self.columns[index], self.totals[index])
            for index in aggregates
        }
        return TogetherNoise({a: self.columns[a][0] for a in aggregates}, margins, beyond)

    def counts(self, aggregate: int) -> bool:
        """Tell whether an aggregate counts something, so that none is between 0 and 1."""
        return self._measure(aggregate).lattice is None

    def is_positive(self, aggregate: int) -> bool:
        """Tell whether an aggregate cannot be negative."""
        return self._measure(aggregate).monotone

    def is_part(self, aggregate: int, of: int) -> bool:
        """Tell whether all that an aggregate counts is counted by another."""
        one, other = self._measure(aggregate), self._measure(of)
        if other.kind is MeasureKind.ROWS:
            return one.kind in (*_UNITS, *_SOME)
        if other.kind is MeasureKind.UNITS:
            return one.kind is MeasureKind.MATCHING_UNITS
        same = one.argument == other.argument
        return same and one.kind is MeasureKind.MATCHING_UNITS and other.kind in _SOME

    def _measure(self, aggregate: int) -> Measure:
        plan = self.kind.plan
        return plan.measures[plan.block.aggregates[aggregate].measures[0]].measure

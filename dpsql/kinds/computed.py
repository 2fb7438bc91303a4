"""Intervals of columns that compute with released values: post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.computed import TogetherNoise, computed_range
from dpsql.accuracy.estimates import FloatArray, PlausibleRange
from dpsql.accuracy.intervals import GroupsTotal, Interval, kept_confidence, risked_confidence
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.query import ComputedColumn, ReleasedValue
from dpsql.kinds.base import ReleaseKind

_UNITS: Final = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS)
_SOME: Final = (MeasureKind.MATCHING_UNITS, MeasureKind.VALUES, MeasureKind.NUMBERS)


@dataclass(frozen=True, slots=True)
class NoisyRelease:
    """A release of ``released`` groups; ``left_out`` and ``totals`` are as for its intervals."""

    kind: ReleaseKind
    released: int
    left_out: float | None
    totals: Sequence[GroupsTotal]


@dataclass(frozen=True, slots=True)
class NoisyRows:
    """Rows of an answer: their ``columns`` by place, and the releases they are of, by block."""

    releases: Sequence[NoisyRelease]
    columns: Mapping[int, FloatArray]
    rows: int

    def of(self, column: ComputedColumn) -> NDArray[np.bool_]:
        """Tell in which rows a column is computed so: bool of shape (rows,)."""
        found = np.ones(self.rows, dtype=np.bool_)
        for mark, number in column.branches:
            found &= self.columns[mark] == number
        return found

    def among(self, chosen: NDArray[np.bool_]) -> NoisyRows:
        """Return some of the rows."""
        if chosen.all():
            return self
        columns = {place: column[chosen] for place, column in self.columns.items()}
        return NoisyRows(self.releases, columns, int(chosen.sum()))

    def interval(self, column: ComputedColumn, shown: FloatArray, confidence: float) -> Interval:
        """Compute the interval of a column that is ``shown``; NaN where nothing is known."""
        noise = _ValueNoise(self, column.values, column.known)
        found = computed_range(column.term, noise, confidence, self.rows)
        low, high = np.fmin(found.low, shown), np.fmax(found.high, shown)
        known = np.isfinite(low) & np.isfinite(high) & (found.low <= found.high)
        return Interval(np.where(known, low, np.nan), np.where(known, high, np.nan))

    def alone(self, value: ReleasedValue, confidence: float) -> Interval:
        """Compute the interval of a released value; NaN where nothing is known."""
        release = self.releases[value.block]
        if release.kind.plan.block.tells_nothing(value.aggregate):
            return Interval(np.full(self.rows, np.nan), np.full(self.rows, np.nan))
        kept = self.kept(value, confidence)
        if value.summed is not None:
            return self._summed(value, release, kept)
        total = release.totals[value.aggregate]
        return release.kind.interval(
            *(release.released, value.aggregate, self.read(value.columns), kept),
            *(release.left_out, total),
        )

    def kept(self, value: ReleasedValue, confidence: float) -> float:
        """Return the confidence of each interval, where rows are chosen by noise.

        Of a row that may be repeated, it is not known how many groups are shown: one at least.
        """
        release = self.releases[value.block]
        rows = min(self.rows, 1) if value.repeated else self.rows
        return kept_confidence(release.kind.plan, release.released, rows, confidence)

    def read(self, places: Sequence[int]) -> list[FloatArray]:
        """Return columns by their places."""
        return [self.columns[place] for place in places]

    def _summed(self, value: ReleasedValue, release: NoisyRelease, confidence: float) -> Interval:
        """Compute the interval of a sum over rows: :meth:`times` as wide as of the noisiest row.

        What bounding supposedly takes adds up to its part of the whole.
        """
        times, lows, highs = self.times(value), list[FloatArray](), list[FloatArray]()
        for columns in self.ways(value):
            found = release.kind.interval(
                *(release.released, value.aggregate, columns, confidence),
                *(None, self.total(value)),
            )
            down, up = columns[0] - found.low, found.high - columns[0]
            lows.append(columns[0] - times * down)
            highs.append(columns[0] + times * down + np.maximum(up - down, 0.0))
        return Interval(np.minimum.reduce(lows), np.maximum.reduce(highs))

    def ways(self, value: ReleasedValue) -> list[list[FloatArray]]:
        """Return the columns of a value: twice where rows of a sum were counted in two ways."""
        summed = value.summed
        if summed is None:
            return [self.read(value.columns)]
        places = list(dict.fromkeys((value.columns, summed.least)))
        if not summed.own:
            return [self.read(each) for each in places]
        told = len(summed.own) - self.releases[value.block].kind.plan.block.told_columns
        own = self.read(summed.own[:told])
        sums = (self.read(each) for each in places)
        return [[*(a - b for a, b in zip(each, own, strict=False)), *each[told:]] for each in sums]

    def total(self, value: ReleasedValue) -> GroupsTotal:
        """Return the total of an aggregate over all groups, of which values are parts."""
        total = self.releases[value.block].totals[value.aggregate]
        if value.summed is None:
            return total
        return GroupsTotal(total.sum, max(total.squares, total.sum**2))

    def times(self, value: ReleasedValue) -> FloatArray | float:
        """Return the width of the noise of a value, as a multiple of the noise of a row.

        Of n rows whose noise is independent √n times, and n times where it is the same.
        """
        if value.summed is None:
            return 1.0
        release = self.releases[value.block]
        plan, count = release.kind.plan, self.columns[value.summed.count]
        rows = np.maximum(count - bool(value.summed.own), 0.0)
        measures = plan.block.aggregates[value.aggregate].measures
        groups = plan.spread_groups(release.released)
        shared = max(plan.noise_of(one).shared_part(groups) for one in measures)
        beside = 2 * rows * shared if value.summed.own else 0.0  # what it shares with that row
        return np.asarray(np.sqrt(rows * (1 - shared) + rows**2 * shared + beside))


@dataclass(frozen=True, slots=True)
class _ValueNoise:
    """The noise of the released values that a column computes with, by their index."""

    rows: NoisyRows
    values: Sequence[ReleasedValue]
    places: Sequence[int]

    def alone(self, aggregate: int, confidence: float) -> PlausibleRange:
        """Compute the range of one value."""
        found = self.rows.alone(self.values[aggregate], confidence)
        return PlausibleRange(found.low, found.high)

    def are_joint(self, aggregates: Sequence[int]) -> bool:
        """Tell whether the noise of all is Gaussian, large and independent.

        That is known of the aggregates of one row, and of all others in one window beside it; what
        rows share is more of these then. Values of other rows may be of the same noise, as where
        one release follows from another.
        """
        values = [self.values[index] for index in aggregates]
        kind = self._release(aggregates[0]).kind
        block = kind.plan.block
        if len({one.source for one in values}) > 1:
            return False
        if len({one.summed.window for one in values if one.summed is not None}) > 1:
            return False
        for one in values:
            aggregate = block.aggregates[one.aggregate]
            if aggregate.kind.composed or block.tells_nothing(one.aggregate):
                return False
            ways = (way for columns in self.rows.ways(one) for way, _ in kind.ways(columns))
            if not all(kind.large_gaussian(aggregate, way) for way in ways):
                return False
        return True

    def together(self, aggregates: Sequence[int], confidence: float) -> TogetherNoise:
        """Return the values and margins of aggregates that are joint.

        Where LIMIT chooses by the noise of one of them, that is allowed for in all.
        """
        values = {index: self.values[index] for index in aggregates}
        release = self._release(aggregates[0])
        kind, plan, released = release.kind, release.kind.plan, release.released
        kept = max(self.rows.kept(one, confidence) for one in values.values())
        measures = {
            index: plan.block.aggregates[one.aggregate].measures[0] for index, one in values.items()
        }
        risked = max(risked_confidence(plan, released, one, kept) for one in measures.values())
        shown, margins, beyond = (dict[int, FloatArray]() for _ in range(3))
        for index, one in values.items():
            whole = plan.is_whole(plan.block.aggregates[one.aggregate])
            of_ways = []
            for columns in self.rows.ways(one):
                margin = np.full_like(columns[0], np.nan)
                for way, rows in kind.ways(columns):
                    margin[rows] = kind.reach(released, measures[index], whole, risked, way)
                of_ways.append(margin)
            columns = self.rows.ways(one)[0]
            shown[index] = columns[0]
            margins[index] = np.maximum.reduce(of_ways) * self.rows.times(one)
            margins[index] += kind.taken_either_way(released, one.aggregate, columns)
            total = self.rows.total(one)
            beyond[index] = kind.taken(released, one.aggregate, columns, total)
        return TogetherNoise(shown, margins, beyond)

    def counts(self, aggregate: int) -> bool:
        """Tell whether a value counts something, so that none is between 0 and 1."""
        return self._measure(aggregate).lattice is None

    def is_positive(self, aggregate: int) -> bool:
        """Tell whether a value cannot be negative."""
        return self._measure(aggregate).monotone

    def is_part(self, aggregate: int, of: int) -> bool:
        """Tell whether all that a value counts is counted by another."""
        values = self.values[aggregate], self.values[of]
        if values[0].source != values[1].source or any(each.summed for each in values):
            return False
        one, other = self._measure(aggregate), self._measure(of)
        if other.kind is MeasureKind.ROWS:
            return one.kind in (*_UNITS, *_SOME)
        if other.kind is MeasureKind.UNITS:
            return one.kind is MeasureKind.MATCHING_UNITS
        same = one.argument == other.argument
        return same and one.kind is MeasureKind.MATCHING_UNITS and other.kind in _SOME

    def known(self, known: int) -> FloatArray:
        """Return values without noise."""
        return self.rows.columns[self.places[known]]

    def _release(self, aggregate: int) -> NoisyRelease:
        return self.rows.releases[self.values[aggregate].block]

    def _measure(self, aggregate: int) -> Measure:
        plan = self._release(aggregate).kind.plan
        measures = plan.block.aggregates[self.values[aggregate].aggregate].measures
        return plan.measures[measures[0]].measure

"""Pooled releases: the weighted mean of several releases of one statistic, and its intervals.

Each release keeps its own values; putting them together is computed anew whenever an answer is
shown, so that none counts twice. Where a count's own noise decided whether its group appears in a
release, the count is conditionally too high in each release, and the excess does not average out.
Intervals take that in: given that a group appears in s releases that decided by this measure, in
each of which it appears at least half the time, any event is at most 2^(s-1) times as likely as the
same event under the condition of one release alone: the releases are independent, and each of the
other s - 1 conditions has probability 1/2 or more. For one condition the argument of
:mod:`dpsql.accuracy.wording` holds as before, the sum of the other noises being symmetric and
unimodal. So the risk of an interval is divided by 2^(s-1).

Large groups need less. Where each of the s releases names a group 95% of the time, its value misses
a narrower interval, of the risk times 0.95^(s-1), with the risk at most, by the same argument. Rows
may have changed between releases, so each has to tell by itself that its group was so large: its
own value lies beyond that size by a margin that noise exceeds once in a million times. An interval
is narrowed only if all tell so. If one of them is wrong, its noise was beyond that margin, and as
much risk is taken off the wide interval's. Checked by ``tests/accuracy/test_pooled_counts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Threshold
from dpsql.accuracy.estimates import FloatArray
from dpsql.accuracy.intervals import GroupsTotal, Interval, with_rounding
from dpsql.accuracy.wording import Part, score_unit
from dpsql.core.formatting import figure_above
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.kinds.base import Rows
from dpsql.kinds.groups import GroupsKind, deciding_measure, whole_units
from dpsql.kinds.released import NumericArray, ReleasedRows, answer_of_parts
from dpsql.privacy.mechanisms.pooling import (
    PublishedNoise,
    pooled_margin,
    pooled_std,
    pooling_weights,
)

MAX_POOLED = 32
"""How many releases of one question are pooled at most, the latest: each is a bit."""

_SURELY = 0.95
"""How often a group of the size ``ReleaseNoise.appears_95`` appears, or more often."""
_DOUBT = 1e-6
"""How often a release tells of a smaller group that it is as large, or less often."""
_LARGE = 1 << MAX_POOLED
"""The bit of a row that is as large by all of its releases, beside the bits of these."""


class PooledKind(GroupsKind):
    """Groups whose values are pooled from several releases of the same statistic."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether values are those of several releases."""
        return isinstance(plan.kept, tuple)

    @property
    def releases(self) -> tuple[ReleaseNoise, ...]:
        """The pooled releases; the place of each is its bit in a row's set of releases."""
        assert isinstance(self.plan.kept, tuple)
        return self.plan.kept

    @property
    def pooled(self) -> int:
        """The number of releases."""
        return len(self.releases)

    @property
    def every(self) -> int:
        """The bits of all releases."""
        return (1 << len(self.releases)) - 1

    def values(
        self, released: Sequence[ReleasedRows], places: NDArray[np.int64]
    ) -> dict[str, NumericArray]:
        """Compute the released columns: pooled aggregates and measures, and the bits of releases.

        ``places`` has the shape (releases, groups): the group's row in the release, -1 for none.
        """
        block, found = self.plan.block, dict[str, NumericArray]()
        held = places >= 0
        bits = (1 << np.arange(len(released)))[:, np.newaxis]
        masks = (held * bits).sum(axis=0)
        with np.errstate(all="ignore"):
            for index, aggregate in enumerate(block.aggregates):
                # Drawn columns have the names that they have where nothing is pooled.
                name, supports = block.aggregate_column(index), block.support_columns(index)
                drawn = supports[:-1] if aggregate.kind.composed else (name,)
                parts = [
                    pooled_values(
                        _aligned([rows.values[column] for rows in released], places),
                        held,
                        [release.measures[measure] for release in self.releases],
                    )
                    for column, measure in zip(drawn, aggregate.measures, strict=True)
                ]
                marks = masks + _LARGE * self._surely_large(released, places, index)
                found |= answer_of_parts(self.plan, index, parts)
                found[supports[-1]] = marks.astype(np.float64)
            return self.with_noise_columns(found)

    def _surely_large(
        self, released: Sequence[ReleasedRows], places: NDArray[np.int64], index: int
    ) -> NDArray[np.bool_]:
        """Find the groups that each release surely names: its own value is large enough.

        Of counts whose own noise decided. What was drawn in one release says nothing of the rows
        that there were at another one.
        """
        deciding = self._deciding(index)
        sizes = [release.appears_95 for release in deciding]
        if len(deciding) < 2 or None in sizes:
            return np.zeros(places.shape[1], dtype=np.bool_)
        column = self.plan.block.aggregate_column(index)
        values = _aligned([rows.values[column] for rows in released], places)
        (measure,) = self.plan.block.aggregates[index].measures
        step, large = self.plan.measures[measure].measure.step, np.ones(places.shape[1], np.bool_)
        for release, own, place in zip(self.releases, values, places, strict=True):
            if release.decided == measure and release.appears_95 is not None:
                margin = pooled_margin([release.measures[measure]], _DOUBT) + 1  # for rounding
                large &= (place < 0) | (own >= release.appears_95 + margin * step)
        return large

    def ways(self, columns: Sequence[FloatArray]) -> Iterable[tuple[int, Rows]]:
        """List each set of releases that rows come from, as bits."""
        masks = columns[-1]
        return [(int(mask), masks == mask) for mask in np.unique(masks[np.isfinite(masks)])]

    def large_gaussian(self, aggregate: Aggregate, way: int) -> bool:
        """Tell that measures have noise of several releases, each taken by itself."""
        return False

    def interval(
        self,
        released: int,
        index: int,
        columns: Sequence[FloatArray],
        confidence: float,
        left_out: float | None = None,
        total: GroupsTotal | None = None,
    ) -> Interval:
        """Compute intervals as for all kinds, narrower for groups that each release names surely.

        Of counts whose own noise decided in several releases.
        """
        wide = super().interval(released, index, columns, confidence, left_out, total)
        deciding = self._deciding(index)
        if len(deciding) < 2 or 1 - confidence < 2 * _DOUBT:
            return wide
        risk = (1 - confidence) * _SURELY ** (len(deciding) - 1)
        undecided = tuple(replace(release, decided=None) for release in self.releases)
        kind = PooledKind(replace(self.plan, kept=undecided))
        narrow = kind.interval(released, index, columns, 1 - risk, left_out, total)
        large = columns[-1] >= _LARGE
        return Interval(
            np.where(large, np.maximum(wide.low, narrow.low), wide.low),
            np.where(large, np.minimum(wide.high, narrow.high), wide.high),
        )

    def varies(self, released: int, index: int, confidence: float) -> bool:
        """Tell whether large groups have narrower intervals."""
        return len(self._deciding(index)) > 1

    def _deciding(self, index: int) -> list[ReleaseNoise]:
        """List the releases whose groups the noise of an aggregate decided by itself."""
        measures = self.plan.block.aggregates[index].measures
        return [r for r in self.releases if measures == (r.decided,)]

    def reach(self, released: int, index: int, whole: bool, confidence: float, way: int) -> float:
        """Bound how far noise and rounding move a measure of rows that some releases have.

        It holds for groups that appear at least half the time in each of them.
        """
        releases = releases_in(way or self.every, self.releases)
        noises = [release.measures[index] for release in releases]
        if len(noises) == 1:
            margin = noises[0].noise.margin(confidence, noises[0].groups)
            return with_rounding(self.plan, index, whole, margin)
        deciding = sum(release.decided == index for release in releases)
        risk = 1 - confidence
        if deciding > 1:
            risk = (risk - min(_DOUBT, risk / 2)) / 2 ** (deciding - 1)
        margin = pooled_margin(noises, risk)
        return _with_pooled_rounding(self.plan, index, whole, noises, margin)

    def scale(self, measure: int, way: int) -> float:
        """Compute the scale of one release's noise, of several the standard deviation."""
        noises = [release.measures[measure] for release in releases_in(way, self.releases)]
        return pooled_std(noises) if len(noises) > 1 else noises[0].noise.scale

    def uniform(self, values: Mapping[str, NumericArray]) -> bool:
        """Tell whether all rows came out of all releases."""
        masks = values[self.plan.block.support_columns(0)[-1]]
        return bool(np.all(masks % _LARGE == self.every))

    def of_values(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield the number of pooled releases, and the rows that the values describe."""
        whole = "those that name it" if not self.plan.declared else "those that show it"
        each = "" if part.uniform else f", each group from {whole}"
        yield (
            f"Values are pooled from {len(self.releases)} releases of this question{each}: the "
            "true ones are those of the rows as they were then, on weighted average."
        )

    def appearing(self, part: Part) -> Iterator[str]:
        """Yield the sizes at which groups appear in at least one of the releases."""
        if deciding_measure(self.plan) is None:
            yield from super().appearing(part)
            return
        halves = [each.appears_half for each in self.releases if each.appears_half is not None]
        surely = [each.appears_95 for each in self.releases if each.appears_95 is not None]
        text = (
            "A group appears if one of the releases names it: one that keeps "
            f"{figure_above(min(halves))} {score_unit(self.plan)} does at least half the time, one "
            f"with {figure_above(min(surely))} at least 95%"
        )
        yield f"{text}{self.counted_too_high(part, max(halves))}{whole_units(self.plan)}."

    def appears_half(self) -> float | None:
        """Find the size from which a group appears at least half the time in each release."""
        found = super().appears_half()
        sizes = [r.appears_half for r in self.releases if r.appears_half is not None]
        return None if found is None else max(sizes, default=found)

    def threshold(self, aggregate: int) -> Threshold | None:
        """Return None: each release had a threshold of its own."""
        return None


def releases_in(mask: int, releases: Sequence[ReleaseNoise]) -> list[ReleaseNoise]:
    """List the releases that a row is pooled from."""
    return [each for bit, each in enumerate(releases) if mask >> bit & 1]


def _aligned(columns: Sequence[NumericArray], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Put the values of each release at its groups, as an array of shape (releases, groups)."""
    aligned = np.zeros(places.shape, dtype=np.float64)
    for row, column, place in zip(aligned, columns, places, strict=True):
        there = place >= 0
        row[there] = column[place[there]]
    return aligned


def pooled_values(
    values: NDArray[np.float64], held: NDArray[np.bool_], noises: Sequence[PublishedNoise]
) -> NDArray[np.float64]:
    """Compute the weighted means of arrays of shape (releases, groups), of shape (groups,).

    ``held`` says which release has which group; what it has not is left out of the mean.
    """
    weights = np.array(pooling_weights(noises))[:, np.newaxis] * held
    total = (weights * np.where(held, values, 0.0)).sum(axis=0)
    only = held.sum(axis=0) == 1
    mean: NDArray[np.float64] = total / weights.sum(axis=0)
    # Of one release alone the value stays what it was: a weight over itself is 1 but for rounding.
    mean[only] = np.where(held, values, 0.0).sum(axis=0)[only]
    return mean


def _with_pooled_rounding(
    plan: BlockPlan, index: int, whole: bool, noises: Sequence[PublishedNoise], margin: float
) -> float:
    """Add to a margin in steps what rounding can: of exact sums, of each release, of the mean."""
    measure = plan.measures[index].measure
    coarse = measure.lattice is not None and measure.lattice.coarsening > 1
    if coarse and measure.weights is None:
        margin += 1
    elif whole and measure.weights is None and any(n.fractional for n in noises):
        margin += 0.5
    within = margin * measure.step
    if measure.weights is not None and whole:
        within += 0.5
    if not whole:
        return float(within)
    # Units keep other groups in each release where they keep a few: then the mean of what the
    # releases estimate need not be a whole number.
    exact = plan.bounding is None and measure.weights is None and not coarse
    return float(np.floor(within + 0.5)) if exact else float(within + 0.5)

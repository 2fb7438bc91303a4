"""Weights that bounds of units are drawn from, over pairs of units and groups.

They are those of ``dpsql.kinds.bounds_choice``, number for number: each unit has a whole weight,
which its groups share, at the place of a pair between the rungs of a draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions
from dpsql.bounding.pairs import Int64s, Pairs, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.bounding.units import GatheredUnits
from dpsql.privacy.mechanisms.bounds_choice import (
    AVERAGE_PLACES,
    MOST_CHOSEN,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
)

_LISTED: Final = 1 << 10
"""The largest number whose place between rungs is looked up."""


def choice_weights(
    whole: Iterable[GatheredUnits],
    spec: Specification,
    choice: BoundsChoice,
    alone: Sequence[MeasureColumns],
) -> tuple[list[int], list[int]]:
    """Compute the weights by places of rows, and by those of groups.

    ``whole`` are all units, and ``alone`` the sums that a number of rows clamps, or those of
    averages, if it bounds nothing else. Sensitivity: as of ``bounds_choice_sql``. Checked by
    ``tests/kinds/test_streamed_bounds.py``.
    """
    fields = tallies_of(spec)
    by_rows, by_groups = _Weights(choice.rows), _Weights(choice.groups)
    averages = _WeightsOfAverages(choice) if choice.centres is not None else None
    for units in whole:
        groups = units.of_each(_groups)
        shares = WHOLE_WEIGHT // groups
        by_groups.add(groups, shares * groups)
        if averages is not None:
            shares = averages.shares(groups)
        for pairs in units.parts:
            contributions = Contributions(spec, fields, pairs)
            of_pairs = np.repeat(shares, _groups(pairs))
            if averages is not None:
                averages.add(contributions, alone, of_pairs)
            else:
                by_rows.add(_sizes(contributions, alone), of_pairs)
    return (by_rows if averages is None else averages).found, by_groups.found


def _groups(pairs: Pairs) -> Int64s:
    """Count the groups of each unit."""
    return np.diff(pairs.starts, append=len(pairs))


def _sizes(contributions: Contributions, sums: Sequence[MeasureColumns]) -> Int64s:
    """Compute the number of rows that cuts nothing of each pair."""
    if not sums:
        return contributions.counted(None)
    found = []
    for source in sums:
        lattice = source.measure.lattice
        assert lattice is not None
        for end, negated in ((lattice.high, False), (-lattice.low, True)):
            if end > 0:
                most = contributions.whole(source, end * (MOST_CHOSEN + 1), negated=negated)
                found.append((most + (end - 1)) // end)
    return reduce(np.maximum, found or [np.zeros_like(contributions.counted(None))])


class _Rungs:
    """Counts the rungs of a draw below numbers from 0: mostly by a table, as most are small."""

    def __init__(self, draw: BoundDraw) -> None:
        self._rungs = np.array(draw.rungs)
        self._table = np.searchsorted(self._rungs, np.arange(_LISTED + 1))

    def below(self, numbers: Int64s) -> NDArray[np.intp]:
        """Count the rungs below each number."""
        places = self._table.take(np.minimum(numbers, _LISTED))
        larger = np.flatnonzero(numbers > _LISTED)
        places[larger] = np.searchsorted(self._rungs, numbers[larger])
        return places


class _Weights:
    """The weights of one draw, by how many of its rungs are below; none without a draw."""

    def __init__(self, draw: BoundDraw | None) -> None:
        self._rungs = None if draw is None else _Rungs(draw)
        self.found = [] if draw is None else [0] * (len(draw.rungs) + 1)

    def add(self, numbers: Int64s, weights: Int64s) -> None:
        """Add weights, each with a number."""
        if self._rungs is None:
            return
        places = self._rungs.below(numbers)
        sums = np.zeros(len(self.found), dtype=np.int64)
        np.add.at(sums, places, weights)
        self.found = [had + int(more) for had, more in zip(self.found, sums, strict=True)]


class _WeightsOfAverages:
    """The weights of pairs by each average, the rungs below its number of values, and its part."""

    def __init__(self, choice: BoundsChoice) -> None:
        assert choice.rows is not None
        assert choice.centres is not None
        self._rungs = _Rungs(choice.rows)
        self._averages = choice.centres.number
        self.found = [0] * choice.row_places

    def shares(self, groups: Int64s) -> Int64s:
        """Divide the whole weight of units by so many groups each, and by all averages."""
        return WHOLE_WEIGHT // (groups * self._averages)

    def add(
        self, contributions: Contributions, averages: Sequence[MeasureColumns], weights: Int64s
    ) -> None:
        """Add the weights of pairs."""
        size = len(self.found) // self._averages
        for index, source in enumerate(averages):
            numbers, average = contributions.counted(source.counted), contributions.averaged(source)
            assert source.measure.of_rows is not None
            half = source.measure.of_rows.half_width
            parts = (average + half) * AVERAGE_PLACES // (2 * half + 1)
            places = self._rungs.below(numbers) * AVERAGE_PLACES + parts
            there = numbers > 0
            sums = np.zeros(size, dtype=np.int64)
            np.add.at(sums, places[there], weights[there])
            for place in np.flatnonzero(sums):
                self.found[index * size + place] += int(sums[place])

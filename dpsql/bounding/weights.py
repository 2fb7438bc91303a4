"""Weights that bounds of units are drawn from, over pairs of units and groups.

They are those of ``dpsql.kinds.bounds_choice``, number for number: each unit has a whole weight,
which its groups share, at the place of a pair between the rungs of a draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions
from dpsql.bounding.pairs import Int64s, Pairs, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.privacy.mechanisms.bounds_choice import (
    MOST_CHOSEN,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
)


def choice_weights(
    whole: Iterable[Pairs],
    spec: Specification,
    choice: BoundsChoice,
    sums: Sequence[MeasureColumns],
) -> tuple[list[int], list[int]]:
    """Compute the weights by places of rows, and by those of groups.

    ``whole`` are the pairs of all units, all of a unit at once, and ``sums`` those that a number of
    rows clamps, if it bounds nothing else. Sensitivity: as of ``bounds_choice_sql``. Checked by
    ``tests/kinds/test_streamed_bounds.py``.
    """
    fields = tallies_of(spec)
    by_rows, by_groups = _Weights(choice.rows), _Weights(choice.groups)
    for pairs in whole:
        numbers = np.diff(pairs.starts, append=len(pairs))
        groups = np.repeat(numbers, numbers)
        weights = WHOLE_WEIGHT // groups
        by_rows.add(_sizes(Contributions(spec, fields, pairs), sums), weights)
        by_groups.add(groups, weights)
    return by_rows.found, by_groups.found


def _sizes(contributions: Contributions, sums: Sequence[MeasureColumns]) -> Int64s:
    """Compute the number of rows that cuts nothing of each pair."""
    sizes = contributions.counted(None)
    if sums:
        sizes = np.zeros_like(sizes)
    for source in sums:
        lattice = source.measure.lattice
        assert lattice is not None
        for end, negated in ((lattice.high, False), (-lattice.low, True)):
            if end > 0:
                most = contributions.whole(source, end * (MOST_CHOSEN + 1), negated=negated)
                sizes = np.maximum(sizes, (most + (end - 1)) // end)
    return sizes


class _Weights:
    """The weights of one draw, by how many of its rungs are below; none without a draw."""

    def __init__(self, draw: BoundDraw | None) -> None:
        self._rungs: NDArray[np.int64] | None = None if draw is None else np.array(draw.rungs)
        self.found = [] if draw is None else [0] * (len(draw.rungs) + 1)

    def add(self, numbers: Int64s, weights: Int64s) -> None:
        """Add the weights of pairs, each with a number."""
        if self._rungs is None:
            return
        places = np.searchsorted(self._rungs, numbers)
        sums = np.zeros(len(self.found), dtype=np.int64)
        np.add.at(sums, places, weights)
        self.found = [had + int(more) for had, more in zip(self.found, sums, strict=True)]

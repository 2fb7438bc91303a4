"""Quantiles whose units are bounded in NumPy: the values of released groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.maker import gathered_units
from dpsql.bounding.points import PointCounts, group_hashes, point_counts
from dpsql.core.sql import name
from dpsql.engines.base.engine import IntegerStream, Scratch
from dpsql.ir.measures import Ranked
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.streamed import read_stream, stored_hashes
from dpsql.privacy.mechanisms.quantiles import Histograms
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed, StreamedPoints

PointsOf = Callable[[PrivateRows, Ranked], StreamedPoints]
"""Writes the rows of a block with the points of their values."""


def streamed_histograms(
    reading: BlockReading, scratch: Scratch, points_of: PointsOf
) -> Callable[[Ranked, NDArray[np.int64]], Histograms]:
    """Return how to count the rows of groups whose exact rows ``streamed_rows`` has read."""
    plan = reading.plan
    rows = PrivateRows(plan, reading.salt, reading.dialect)
    if plan.declared:
        spec, groups = Streamed(rows).specification(plan.block.domain_size), None
    else:
        hashes, groups = stored_hashes(scratch), name(GROUPS)
        spec = Streamed(rows).specification(len(hashes), hashes)

    def counted(ranked: Ranked, ids: NDArray[np.int64]) -> Histograms:
        points, there = ranked.points, np.flatnonzero((ids > 0) & (ids <= spec.groups))
        fine = replace(
            spec,
            columns=(),
            sources=(),
            estimates=(),
            groups=spec.groups * (points + 1),
            kept=None,
            hashes=None,
        )

        def work(stream: IntegerStream) -> PointCounts:
            units = gathered_units(stream, fine, group_hashes(spec, points))
            return point_counts(units, spec, points, ids[there] - 1)

        found = read_stream(points_of(rows, ranked), scratch, groups, work)
        owners = there[found.places]
        ends = np.searchsorted(owners, np.arange(len(ids)), side="right")
        return Histograms(ends, found.points, found.rows)

    return counted

"""The fixed-point grids of summed values, from the bounds that their contributions have.

Bounds only decide where values are clamped and how much noise that takes, and every row and every
unit is clamped, so bounds that are too tight cost accuracy and never privacy: a query may choose
its own, narrower or wider than those of the policy. No data is read.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.errors import QueryRefused
from dpsql.ir.measures import Lattice, Measure, coarsening_for
from dpsql.sql.expressions.ranges import Range

FINE_STEPS = 2**30  # row values are rounded to about this many steps across their range
_MOST_STEPS = 2**60  # what a row holds at most, so that it is an integer of 64 bits
_ROOM = 2**20  # rows may exceed what is bounded per group by so much, and cancel out
_LARGEST_BOUND = 1e15
_SMALLEST_BOUND = 1e-100  # steps of values this small, and the squares of those, are floats still


def lattice_for(
    bounds: Range, integral: bool, max_rows_contributed: int, per_group: Range | None = None
) -> Lattice:
    """Choose the grids for values in ``bounds``.

    A unit adds at most so many of them to a group, or what is in ``per_group``. Raises
    ``QueryRefused`` for bounds too large or too small to compute with.
    """
    lower, upper = bounds
    reach = reach_of(bounds)
    finest = reach if per_group is None else min(reach, reach_of(per_group))
    quantum = 1.0
    whole = integral and lower == int(lower) and upper == int(upper)
    if not (whole and finest <= FINE_STEPS):
        steps = max(finest / FINE_STEPS, reach / _MOST_STEPS)
        quantum = 2.0 ** (math.ceil(math.log2(steps)) if steps > 0 else -30)
    low, high = steps_of(bounds, quantum)
    if per_group is None:
        most = max_rows_contributed * max(abs(low), abs(high))
    else:
        most = max(map(abs, steps_of(per_group, quantum)))
    return Lattice(lower, upper, quantum, low, high, coarsening_for(most), integral)


def with_bounds(summed: Measure, bounds: Range, max_rows_contributed: int) -> Measure:
    """Return a sum with other bounds of its values, as if the query had given these.

    What a unit adds follows from them, and so does the noise: no bounds are less private. Raises
    ``QueryRefused`` for bounds too large or too small to compute with.
    """
    assert summed.lattice is not None
    assert summed.per_group is None
    lattice = lattice_for(bounds, summed.lattice.integral, max_rows_contributed)
    return replace(summed, lattice=lattice)


def room_for(per_group: Range) -> Range:
    """Return wide bounds for rows where only the unit's sum is bounded."""
    room = min(_ROOM * reach_of(per_group), _LARGEST_BOUND)
    return -room, room


def steps_of(bounds: Range, quantum: float) -> tuple[int, int]:
    """Return the lattice steps that enclose the bounds."""
    return math.floor(bounds[0] / quantum), math.ceil(bounds[1] / quantum)


def reach_of(bounds: Range, largest: float = _LARGEST_BOUND) -> float:
    """Return the size of the larger bound.

    Raises ``QueryRefused`` unless it is 0 or can be computed with.
    """
    reach = max(abs(bounds[0]), abs(bounds[1]))
    if not reach <= largest:
        raise QueryRefused(
            f"the bounds of the aggregated expression exceed {largest:g} in size",
            code="bounds_too_large",
            hint="Give tighter lower and upper bounds: noise grows with them.",
        )
    if 0 < reach < _SMALLEST_BOUND:
        raise QueryRefused(
            f"the bounds of the aggregated expression are below {_SMALLEST_BOUND:g} in size",
            code="bounds_too_small",
            hint="Give bounds that real values reach, or use larger units: SUM(x * 1e100).",
        )
    return reach

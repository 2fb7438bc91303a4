"""Chooses the points between the bounds of values, one of which a released quantile is.

Every point of a grid over the values' bounds is an answer, so there is no difference between the
continuous and the discrete kind but in their type: the first are DOUBLE.
"""

from __future__ import annotations

import math

from sqlglot import exp

from dpsql.ir.measures import Lattice, Ranked
from dpsql.sql.expressions.lattices import reach_of
from dpsql.sql.expressions.ranges import Range
from dpsql.syntax.arguments import branches

MAX_POINTS = 2**16
"""Integers in bounds no wider than this are kept as they are; others are rounded to about this many
points."""
_WIDE = 2.0**20
"""Bounds as wide as this say little of where the values are: points are as far apart as values are
large. Those of a count are 0 and 2**53, and most counts are small."""
_MOMENT_POINTS = 2**20
"""Moments are far from 1970 and close to each other: points in between are evenly spaced, however
wide the bounds are. Of a life of 68 years they are half an hour apart."""
_KEPT_BITS = 9
"""Binary digits of the values that are kept then: they are rounded by 0.2% at most. Values below
2**10 steps are kept as they are."""
_FINEST_BITS = 50  # of a double, which holds 53: so many steps are told apart
_WHOLE_BITS = 62  # of a BIGINT, which holds 63

_LARGEST = 1e300
_LARGEST_WHOLE = 1e18  # released as BIGINT


def points_for(argument: exp.Expr, bounds: Range, integral: bool) -> Ranked:
    """Choose the points for the values of an argument between ``bounds``.

    These are integers, or up to MAX_POINTS steps of a power of two; between wide bounds points are
    as far apart as the values are large. Bounds may be too narrow or too wide: every row is clamped
    to them. Raises ``QueryRefused`` for bounds too large or too small to compute with.
    """
    reach_of(bounds, _LARGEST_WHOLE if integral else _LARGEST)
    lower, upper = bounds
    if integral:
        lower, upper = float(math.floor(lower)), float(math.ceil(upper))
    values = branches(argument) if isinstance(argument, exp.Case) else [argument]
    moments = all(isinstance(value.unnest(), exp.TimeToUnix) for value in values)
    wide = upper - lower > _WIDE and not moments
    largest = max(abs(lower), abs(upper))
    if wide:
        finest = largest / 2**_WHOLE_BITS
    else:  # no finer than floating-point numbers of this size can tell apart
        points = _MOMENT_POINTS if moments else MAX_POINTS
        finest = max((upper - lower) / points, largest / 2**_FINEST_BITS)
    quantum = 2.0 ** math.ceil(math.log2(finest)) if finest > 0 else 1.0
    if integral:
        quantum = 1.0 if wide else max(1.0, quantum)
    low, high = math.floor(lower / quantum), math.ceil(upper / quantum)
    lattice = Lattice(lower, upper, quantum, low, high, 1, integral)
    return Ranked(argument, lattice, _KEPT_BITS if wide else None)

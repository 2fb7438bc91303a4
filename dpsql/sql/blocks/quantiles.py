"""Reads quantiles: the values, and the fraction of rows below.

    MEDIAN(x)   QUANTILE_CONT(x, 0.9)   PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x DESC)
    MIN(x)      MAX(x)

Every point of a grid over the values' bounds is an answer, so there is no difference between the
continuous and the discrete kind but in their type: the first are DOUBLE.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.ir.measures import AggregateKind, Lattice, Ranked
from dpsql.privacy.mechanisms.quantiles import MAX_DENOMINATOR
from dpsql.sql.expressions.call import AggregateCall
from dpsql.sql.expressions.lattices import reach_of
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.expressions.ranges import Range
from dpsql.syntax.arguments import branches
from dpsql.syntax.text import written_name

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

_CONTINUOUS = (exp.Median, exp.PercentileCont)
EXTREMES = (exp.Min, exp.Max)
QUANTILES = AggregateKind.QUANTILE.value.nodes
_HALF = Fraction(1, 2)
_MAX_DIGITS = 38
_LARGEST = 1e300
_LARGEST_WHOLE = 1e18  # released as BIGINT


def is_continuous(function: exp.AggFunc) -> bool:
    """Tell whether a quantile interpolates, so that its answer is not of the column's type."""
    return isinstance(function, _CONTINUOUS)


def quantile_parts(call: AggregateCall, text: str) -> tuple[exp.Expr, Fraction]:
    """Return the argument of a quantile, and the fraction of rows below it.

    Raises ``QueryRefused`` for anything but a literal fraction from 0 to 1.
    """
    function = call.function
    if call.order is not None:
        return _ordered(call, call.order, text)
    if isinstance(function, EXTREMES):
        if function.expressions:
            raise refusal(
                text,
                f"{written_name(function)} of a group takes one argument",
                "aggregate_not_supported",
                function,
                hint="Of the values of a row, LEAST and GREATEST are the smallest and the largest.",
            )
        return function.this, Fraction(int(isinstance(function, exp.Max)))
    argument, fraction = function.this, function.args.get("quantile", function.expression)
    if isinstance(function, exp.Median):
        return argument, _HALF
    return argument, _fraction(fraction, function, text)


def _ordered(call: AggregateCall, order: exp.Order, text: str) -> tuple[exp.Expr, Fraction]:
    """Read the form with WITHIN GROUP, whose argument is the fraction."""
    function = call.function
    terms = order.expressions
    percentile = isinstance(function, exp.PercentileCont | exp.PercentileDisc)
    if not percentile or function.expression is not None or len(terms) != 1:
        raise refusal(
            text,
            "WITHIN GROUP (ORDER BY x) belongs to PERCENTILE_CONT(0.9) and PERCENTILE_DISC(0.9)",
            "aggregate_not_supported",
            function,
            hint="For example PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x).",
        )
    fraction = _fraction(function.this, function, text)
    return terms[0].this, 1 - fraction if terms[0].args.get("desc") else fraction


def _fraction(node: object, function: exp.AggFunc, text: str) -> Fraction:
    if isinstance(node, exp.Literal) and not node.is_string:
        found = _exactly(node.this)
        if found is not None and 0 <= found <= 1 and found.denominator <= MAX_DENOMINATOR:
            return found
    name = written_name(function)
    raise refusal(
        text,
        f"{name} takes one fraction: a number from 0 to 1, with at most six decimals",
        "bad_fraction",
        function,
        hint="For example QUANTILE_CONT(x, 0.9); write one column for each fraction.",
    )


def _exactly(number: str) -> Fraction | None:
    """Read a literal exactly, or return None if it has too many digits, as 1e-999999999 has."""
    if len(number) > _MAX_DIGITS:
        return None
    value = Decimal(number)
    exponent = value.as_tuple().exponent
    return Fraction(value) if isinstance(exponent, int) and abs(exponent) <= _MAX_DIGITS else None


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

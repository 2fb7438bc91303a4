"""Calls of quantiles: the values, and the fraction of rows below.

MEDIAN(x)   QUANTILE_CONT(x, 0.9)   PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x DESC)
MIN(x)      MAX(x)
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.ir.measures import AggregateKind
from dpsql.privacy.mechanisms.quantiles import MAX_DENOMINATOR
from dpsql.sql.expressions.call import AggregateCall
from dpsql.sql.expressions.legality import refusal
from dpsql.syntax.text import written_name

_CONTINUOUS = (exp.Median, exp.PercentileCont)
EXTREMES = (exp.Min, exp.Max)
QUANTILES = AggregateKind.QUANTILE.value.nodes
_HALF = Fraction(1, 2)
_MAX_DIGITS = 38


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

"""Aggregates over private rows that are formulas of simpler ones.

    CORR(y, x)                     of averages of x, y and their product, and of variances
    QUANTILE_CONT(x, [0.25, 0.5])  [QUANTILE_CONT(x, 0.25), QUANTILE_CONT(x, 0.5)]
    BOOL_OR(c)                     DP_INTERVAL_LOW(COUNT_IF(c)) > 0
    AVG(DISTINCT x)                SUM(DISTINCT x) / COUNT(DISTINCT x)
    SKEWNESS(x), KURTOSIS(x)       of averages of x and its powers, and of its variance

The simpler ones are released, each bounded and with noise as if it were written alone, and a
formula is post-processing: it needs no argument of its own, and costs what its parts cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.call import WRAPPERS
from dpsql.sql.expressions.ranges import Range
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.dialect import PER_ROW, BoundedAggregate

_RangeOf = Callable[[exp.Expr], Range | None]
_MAX_QUANTILES = 100
_TWO = 2
_EXACT = 2.0**31  # whole numbers up to it are subtracted as they are on every engine
_PAIR: Final = NodeArguments("this expression")
_LISTS: Final[Mapping[type[exp.Expr], tuple[str, NodeArguments]]] = {
    **dict.fromkeys(
        (exp.Quantile, exp.ApproxQuantile), ("quantile", NodeArguments("this quantile"))
    ),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), ("expression", _PAIR)),
}
_DISTINCT: Final = NodeArguments("expressions")
_ARRAY: Final = NodeArguments("expressions value_constructor? bracket_notation?")


def formula_of(
    node: exp.Expr, range_of: _RangeOf, is_condition: Callable[[exp.Expr], bool]
) -> exp.Expr | None:
    """Return the formula of an aggregate, over simpler aggregates; None for any other aggregate.

    ``range_of`` finds the bounds of a value of a row, by what is declared; ``is_condition`` tells
    whether it is true or false.
    """
    function = node
    while isinstance(function, WRAPPERS):
        function = function.this
    found = _listed(node, function)
    if found is not None:
        return found
    if isinstance(function, exp.Avg) and isinstance(function.this, exp.Distinct):
        return _average_of_distinct(node, function.this, range_of)
    formula = PAIR_FORMULAS.get(type(function)) if isinstance(function, exp.AggFunc) else None
    if formula is None and not isinstance(function, (*TRUTHS, *SHAPES)):
        return None
    bounded = node.find(BoundedAggregate) is not None  # bounds of one value are none of a formula
    ordered = node.find(exp.WithinGroup, exp.Order, exp.Distinct) is not None
    if bounded or ordered or not _PAIR.hold(function):
        return None
    if isinstance(function, TRUTHS):
        return _truth(node, function) if is_condition(function.this) else None
    where = node.expression if isinstance(node, exp.Filter) else None
    if formula is None:
        return _shape(function, where, range_of)
    return exp.Paren(this=formula(_Pairs(function, where, range_of)))


# -- several quantiles ------------------------------------------------------------------------


def _listed(node: exp.Expr, function: exp.Expr) -> exp.Expr | None:
    """Write one quantile for each of a list of fractions."""
    if isinstance(function, exp.ApproxQuantiles):
        if isinstance(node.find_ancestor(exp.Bracket, exp.Select), exp.Bracket):
            return None  # systems count its elements from 0, or from 1
        name, fractions = "quantile", _equal_parts(function)
        single: exp.Expr = exp.ApproxQuantile(this=function.this.copy())
        single.meta.update(function.meta)
    elif type(function) in _LISTS:
        name, known = _LISTS[type(function)]
        within = isinstance(function.parent, exp.WithinGroup) and function.args.get(name) is None
        name = "this" if within else name
        array = function.args.get(name)
        if not isinstance(array, exp.Array) or not _ARRAY.hold(array) or not known.hold(function):
            return None
        fractions, single = array.expressions, function
    else:
        return None
    nested = any(isinstance(fraction, exp.Array) for fraction in fractions)
    if nested or not 1 <= len(fractions) <= _MAX_QUANTILES:
        return None
    each = []
    for fraction in fractions:
        quantile = single.copy()
        quantile.set(name, fraction.copy())
        each.append(_wrapped(node, quantile))
    return exp.Array(expressions=each)


def _equal_parts(function: exp.ApproxQuantiles) -> list[exp.Expr]:
    """Return the fractions that divide rows in equal parts, from 0 to 1; none if inexact."""
    parts = function.expression
    if not _PAIR.hold(function) or not (isinstance(parts, exp.Literal) and parts.is_int):
        return []
    number = int(parts.this) if len(parts.this) <= len(str(_MAX_QUANTILES)) else 0
    if not 1 <= number < _MAX_QUANTILES or 10**6 % number:
        return []
    return [exp.Literal.number(str(Decimal(place) / number)) for place in range(number + 1)]


def _wrapped(node: exp.Expr, function: exp.Expr) -> exp.Expr:
    """Put another function into the wrappers of an aggregate."""
    if not isinstance(node, WRAPPERS):
        return function
    wrapper = node.copy()
    innermost = wrapper
    while isinstance(innermost.this, WRAPPERS):
        innermost = innermost.this
    innermost.set("this", function)
    return wrapper


# -- conditions -------------------------------------------------------------------------------


def _truth(node: exp.Expr, function: exp.Expr) -> exp.Expr:
    """Tell whether more rows satisfy a condition than noise alone would show.

    One row decides BOOL_OR; so noise must hide it. It is true where the 95% interval of the number
    of such rows does not reach down to 0. BOOL_AND is true unless BOOL_OR(NOT c) is.
    """
    every, condition = isinstance(function, exp.LogicalAnd), function.this.copy()
    counted = exp.CountIf(this=exp.Not(this=exp.paren(condition)) if every else condition)
    low = exp.Anonymous(this="dp_interval_low", expressions=[_wrapped(node, counted)])
    operator = exp.LTE if every else exp.GT
    return exp.Paren(this=operator(this=low, expression=exp.Literal.number(0)))


TRUTHS: Final = (exp.LogicalOr, exp.LogicalAnd)
"""The aggregates of conditions that are a condition themselves."""


# -- distinct values --------------------------------------------------------------------------


def _average_of_distinct(
    node: exp.Expr, distinct: exp.Distinct, range_of: _RangeOf
) -> exp.Expr | None:
    """Divide a sum of distinct values by their number; both are from the middle of the bounds."""
    values, bounded = distinct.expressions, node.find(BoundedAggregate)
    given = [] if bounded is None else bounded.expressions
    if len(values) != 1 or not _DISTINCT.hold(distinct):
        return None
    if given and [fold(each.this.name) for each in given] != [PER_ROW]:
        return None
    (value,), known = values, None if given else range_of(values[0])
    middle = _middle(known)
    ends = [exp.Literal.number(end) for end in known or ()]
    if given and isinstance(given[0].expression, exp.Tuple):
        ends = given[0].expression.expressions
    once = exp.Distinct(expressions=[_moved(value, middle)])
    total = _wrapped(node, exp.Sum(this=once))
    number: exp.Expr = exp.Count(this=distinct.copy())
    if isinstance(node, exp.Filter):
        number = exp.Filter(this=number, expression=node.expression.copy())
    average = _moved(_ratio(total, number), -middle)
    if len(ends) != _TWO:  # bounds that are to be found, or are refused where the sum is read
        return exp.paren(average)
    low, high = ends
    case = exp.case().when(average > high.copy(), high.copy())
    case = case.when(average.copy() < low.copy(), low.copy())
    return exp.paren(case.else_(average.copy()))


# -- shapes of distributions ------------------------------------------------------------------


def _shape(function: exp.Expr, where: exp.Expr | None, range_of: _RangeOf) -> exp.Expr:
    """Write a moment of a sample by averages of powers, of values moved and scaled into -1 to 1.

    There powers are small, and so is their noise. NULL of too few values, and where the variance is
    not surely positive, as its interval says: it is divided by.
    """
    value, known = function.this, range_of(function.this)
    middle = _middle(known)
    half = 1.0 if known is None else max(known[1] - middle, middle - known[0]) or 1.0

    def scaled(number: exp.Expr, by: float) -> exp.Expr:
        return exp.Paren(this=exp.Div(this=number, expression=exp.Literal.number(repr(by))))

    def average(power: exp.Expr) -> exp.Expr:
        return _filtered(exp.Avg, power, where)

    unit = scaled(_moved(value, middle), half)
    square = exp.paren(unit * unit.copy())
    spread, number = (_filtered(kind, value, where) for kind in (exp.VariancePop, exp.Count))
    first, second = scaled(_moved(average(value), middle), half), scaled(spread, half * half)
    third, n = average(square * unit.copy()), exp.cast(number, exp.DType.DOUBLE)
    surely = exp.Anonymous(this="dp_interval_low", expressions=[spread.copy()])
    if isinstance(function, exp.Skewness):
        least, root = 2, exp.func("sqrt", second)
        central = exp.paren(third - first * second * 3 - first * first * first)
        made = _ratio(central, exp.paren(second * root)) * _ratio(
            exp.func("sqrt", n * exp.paren(n - 1)), exp.paren(n - 2)
        )
    else:
        least, fourth = 3, average(square * square.copy())
        squared = first * first
        central = exp.paren(
            fourth - first * third * 4 + squared * second * 6 + squared * squared * 3
        )
        flat = _ratio(central, exp.paren(second * second))
        made = exp.paren(exp.paren(n + 1) * flat - exp.paren(n - 1) * 3) * _ratio(
            exp.paren(n - 1), exp.paren(exp.paren(n - 2) * exp.paren(n - 3))
        )
    return exp.paren(exp.case().when(exp.and_(surely > 0, number > least), made))


def _filtered(kind: type[exp.Expr], value: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    function = kind(this=value.copy())
    return function if where is None else exp.Filter(this=function, expression=where.copy())


SHAPES: Final = (exp.Skewness, exp.Kurtosis)
"""The aggregates that tell how values lie around their average."""


# -- pairs of values --------------------------------------------------------------------------


class _Pairs:
    """The pairs (y, x) of the rows that have both, and the aggregates of them."""

    def __init__(self, function: exp.Expr, where: exp.Expr | None, range_of: _RangeOf) -> None:
        self._where = where
        y, x = function.this, function.expression
        self.y, self.x = _beside(y, x), _beside(x, y)
        self._middles = _middle(range_of(y)), _middle(range_of(x))
        moved_y, moved_x = map(_moved, (y, x), self._middles)
        self._product = exp.Mul(this=moved_y, expression=moved_x)

    def average(self, value: exp.Expr) -> exp.Expr:
        return self._of(exp.Avg, value)

    def variance(self, value: exp.Expr) -> exp.Expr:
        return self._of(exp.VariancePop, value)

    def count(self) -> exp.Expr:
        return self._of(exp.Count, self._product)

    def covariance(self) -> exp.Expr:
        """Average products of distances from the middles of the bounds, which are small."""
        y, x = map(_moved, map(self.average, (self.y, self.x)), self._middles)
        return exp.paren(self.average(self._product) - exp.paren(y * x))

    def correlation(self) -> exp.Expr:
        deviations = (
            exp.func("sqrt", self.variance(self.y)),
            exp.func("sqrt", self.variance(self.x)),
        )
        return _between(_ratio(self.covariance(), exp.paren(deviations[0] * deviations[1])), -1)

    def slope(self) -> exp.Expr:
        return _ratio(self.covariance(), self.variance(self.x))

    def _of(self, kind: type[exp.Expr], value: exp.Expr) -> exp.Expr:
        return _filtered(kind, value, self._where)


def _beside(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """Return a value where another is not NULL."""
    missing = exp.Is(this=_moved(other, 0), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=missing), true=value.copy())])


def _middle(bounds: Range | None) -> int:
    middle = 0.0 if bounds is None else (bounds[0] + bounds[1]) / 2
    return round(middle) if abs(middle) < _EXACT else 0


def _moved(value: exp.Expr, middle: int) -> exp.Expr:
    """Return the distance of a value from a constant."""
    value = value.copy() if isinstance(value, exp.Column) else exp.paren(value)
    if not middle:
        return value
    constant = exp.Literal.number(abs(middle))
    operator = exp.Sub if middle > 0 else exp.Add
    return exp.Paren(this=operator(this=value, expression=constant))


def _ratio(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    nonzero = exp.Nullif(this=divisor, expression=exp.Literal.number(0))
    return exp.Paren(this=exp.Div(this=dividend, expression=nonzero))


def _between(value: exp.Expr, lowest: int) -> exp.Expr:
    """Keep a value between a number and 1; NULL, which LEAST would pass over, stays NULL."""
    case = exp.case().when(value > 1, "1.0").when(value.copy() < lowest, f"{lowest}.0")
    return case.else_(value.copy())


def _sample(pairs: _Pairs) -> exp.Expr:
    """Compute the covariance of a sample; NULL of one pair."""
    more = pairs.count() - 1
    return exp.case().when(
        pairs.count() > 1, pairs.covariance() * _ratio(pairs.count(), exp.paren(more))
    )


def _intercept(pairs: _Pairs) -> exp.Expr:
    return pairs.average(pairs.y) - exp.paren(pairs.slope() * pairs.average(pairs.x))


def _explained(pairs: _Pairs) -> exp.Expr:
    correlation = pairs.correlation()
    return exp.paren(correlation) * exp.paren(correlation.copy())


PAIR_FORMULAS: Final[Mapping[type[exp.AggFunc], Callable[[_Pairs], exp.Expr]]] = {
    exp.Corr: _Pairs.correlation,
    exp.CovarPop: _Pairs.covariance,
    exp.CovarSamp: _sample,
    exp.RegrSlope: _Pairs.slope,
    exp.RegrIntercept: _intercept,
    exp.RegrR2: _explained,
    exp.RegrCount: _Pairs.count,
    exp.RegrAvgy: lambda pairs: pairs.average(pairs.y),
    exp.RegrAvgx: lambda pairs: pairs.average(pairs.x),
    exp.RegrSyy: lambda pairs: pairs.count() * pairs.variance(pairs.y),
    exp.RegrSxx: lambda pairs: pairs.count() * pairs.variance(pairs.x),
    exp.RegrSxy: lambda pairs: pairs.count() * pairs.covariance(),
}
"""The formulas of aggregates of two values, y and x."""
FORMULAS: Final = frozenset({*PAIR_FORMULAS, *TRUTHS, *SHAPES})
"""The aggregates that are formulas of others, in the forms that have one."""

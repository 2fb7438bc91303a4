"""Moments computed of numbers: seconds since 1970, months added, months between ``yyyymm``.

from_unixtime(n)                               TIMESTAMP '1970-01-01' + INTERVAL (n) SECOND
add_months(d, 6)                               d + INTERVAL 6 MONTH; a last day gives a last day
period_diff(strftime(a, '%Y%m'), strftime(b, '%Y%m'))        date_diff('month', b, a)
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.sql.expressions.ages import is_date
from dpsql.sql.expressions.row_constants import text_literal_of, whole_of
from dpsql.sql.expressions.silent_casts import TypeHere
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.moment_formats import of_date_format

_MOST_MONTHS: Final = 12_000
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)
_ROUNDED: Final = (exp.Floor, exp.Ceil)
_INTEGERS: Final = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT)
_TWO: Final = NodeArguments("this expression")
_MONTH_OF_YEAR: Final = "%Y%m"


def of_seconds(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write the moment of a whole number of seconds since 1970; with a format, as a text.

    None for numbers that are not whole by their form: systems keep fractions, or round.
    """
    match node.expressions:
        case [seconds] if _is_whole(seconds, type_of):
            return _moment(seconds)
        case [seconds, form] if _is_whole(seconds, type_of):
            read = of_date_format(text_literal_of(form) or "")
            if read:
                return exp.TimeToStr(this=_moment(seconds), format=exp.Literal.string(read))
    return None


def _moment(seconds: exp.Expr) -> exp.Expr:
    start = exp.cast(exp.Literal.string("1970-01-01"), exp.DType.TIMESTAMP)
    whole = exp.paren(exp.cast(exp.paren(seconds.copy()), exp.DType.BIGINT))
    return exp.paren(
        exp.Add(this=start, expression=exp.Interval(this=whole, unit=exp.var("SECOND")))
    )


def _is_whole(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether a number is whole by its form, whatever its type."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        type_ = type_of(node)
        return type_ is not None and type_.is_integer
    if isinstance(node, exp.Cast):
        return node.to.this in _INTEGERS
    if isinstance(node, _ROUNDED):
        return node.args.get("decimals") is None
    if isinstance(node, _ARITHMETIC) and _TWO.hold(node):
        return _is_whole(node.this, type_of) and _is_whole(node.expression, type_of)
    return isinstance(node, exp.Literal) and node.is_int


def months_added(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ADD_MONTHS(d, n) of a date as Oracle, Snowflake and Redshift read it."""
    number = node.expression.unnest()
    back = isinstance(number, exp.Neg)
    months = whole_of(number.this if back else number)
    date = node.this
    if months is None or months > _MOST_MONTHS or not _TWO.hold(node) or not is_date(date, type_of):
        return None
    kind = exp.Sub if back else exp.Add
    length = exp.Interval(this=exp.Literal.string(str(months)), unit=exp.var("MONTH"))
    moved = exp.cast(kind(this=exp.paren(date.copy()), expression=length), exp.DType.DATE)
    last = exp.EQ(this=date.copy(), expression=exp.LastDay(this=date.copy()))
    ends = exp.If(this=last, true=exp.LastDay(this=moved.copy()))
    return exp.Case(ifs=[ends], default=moved)


def periods_apart(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write MySQL's PERIOD_DIFF of two months, each the text of a moment."""
    months = [each.unnest() for each in node.expressions]
    known = [
        isinstance(each, exp.TimeToStr) and text_literal_of(each.args["format"]) == _MONTH_OF_YEAR
        for each in months
    ]
    if known != [True, True]:
        return None
    return exp.DateDiff(
        this=months[0].this,
        expression=months[1].this,
        unit=exp.var("MONTH"),
        date_part_boundary=True,
    )

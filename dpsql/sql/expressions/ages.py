"""Ages of dates and timestamps in whole years and months, written with their parts.

Each counts from the earlier moment to the later one, with a sign, and is NULL where either is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.sql_types import DATE, TIMESTAMP
from dpsql.sql.expressions.silent_casts import TypeHere
from dpsql.syntax.arguments import NodeArguments

_MOST_NODES: Final = 12
_BELOW_UNIT: Final = {
    "second": "%f",
    "minute": "%S.%f",
    "hour": "%M:%S.%f",
    "day": "%H:%M:%S.%f",
}
"""Formats of the time within a unit, as texts that sort as it does."""
_DAY_AND_TIME: Final = f"%d {_BELOW_UNIT['day']}"
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF_A_MONTH: Final = "31.0"  # as Oracle counts the rest of a month


def is_date(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether a node is a DATE by its form."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return type_of(node) == DATE
    return isinstance(node, exp.Cast) and node.to.this == exp.DType.DATE


def _alike(of: Sequence[exp.Expr], type_of: TypeHere) -> list[exp.Expr] | None:
    """Return two dates, or two timestamps; a date beside a timestamp is its midnight."""
    dates = [is_date(each, type_of) for each in of]
    known = [date or _is_timestamp(each, type_of) for date, each in zip(dates, of, strict=True)]
    if len(of) != 2 or not all(known) or not _are_small(*of):
        return None
    if dates[0] == dates[1]:
        return list(of)
    return [
        exp.cast(each.copy(), exp.DType.TIMESTAMP) if date else each
        for date, each in zip(dates, of, strict=True)
    ]


def _is_timestamp(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether a node is a TIMESTAMP by its form."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return type_of(node) == TIMESTAMP
    timestamps = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)
    return isinstance(node, exp.Cast) and node.to.this in timestamps


def years(of: Sequence[exp.Expr], type_of: TypeHere) -> exp.Expr | None:
    """Write the whole years of an age, of two moments, the later one first."""
    moments = _alike(of, type_of)
    if moments is None:
        return None
    timed = not is_date(moments[0], type_of)
    return _signed(moments[0], moments[1], partial(_anniversaries if timed else _birthdays))


def months_beside_years(of: Sequence[exp.Expr], type_of: TypeHere) -> exp.Expr | None:
    """Write the months of an age beside its whole years, of two moments, the later one first."""
    moments = _alike(of, type_of)
    if moments is None:
        return None
    form = "%d" if is_date(moments[0], type_of) else _DAY_AND_TIME

    def rest(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
        months = exp.paren(
            exp.Sub(this=_apart(later, earlier), expression=_less(later, earlier, form))
        )
        return exp.Mod(this=months, expression=exp.Literal.number(12))

    return _signed(moments[0], moments[1], rest)


def _anniversaries(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the whole years between two timestamps."""
    years = exp.Sub(this=exp.Year(this=later.copy()), expression=exp.Year(this=earlier.copy()))
    return exp.Sub(this=years, expression=_less(later, earlier, f"%m{_DAY_AND_TIME}"))


def _less(later: exp.Expr, earlier: exp.Expr, form: str) -> exp.Expr:
    """Write 1 where a part of one moment is before that of the other, and 0 elsewhere."""
    parts = [
        exp.TimeToStr(this=each.copy(), format=exp.Literal.string(form))
        for each in (later, earlier)
    ]
    before = exp.If(this=exp.LT(this=parts[0], expression=parts[1]), true=exp.Literal.number(1))
    return exp.Case(ifs=[before], default=exp.Literal.number(0))


def units_between(unit: str, start: exp.Expr, end: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write DuckDB's ``date_sub('month', start, end)``, the number of whole units between.

    None for what there is no way to write.
    """
    unit = unit.lower()
    if not _are_small(start, end):
        return None
    if unit in _BELOW_UNIT:
        return _signed(end, start, partial(_units_of_time, unit))
    moments = _alike([end, start], type_of) if unit in _MONTHS else None
    if moments is None:
        return None
    months = _signed(moments[0], moments[1], _months)
    if not is_date(moments[0], type_of):
        months = _signed(moments[0], moments[1], _months_of_timestamps)
    if unit == "month":
        return months
    size = exp.Literal.number(_MONTHS[unit])
    return exp.paren(exp.IntDiv(this=exp.paren(months), expression=size))


def months_between(end: exp.Expr, start: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write Oracle's, Spark's and Snowflake's ``MONTHS_BETWEEN`` of two dates.

    A whole number where both have the same day of the month, or its last; else the days that are
    left count as parts of 31.
    """
    if not all(is_date(each, type_of) for each in (end, start)) or not _are_small(start, end):
        return None
    days = [exp.Day(this=each.copy()) for each in (end, start)]
    last = [
        exp.EQ(this=each.copy(), expression=exp.LastDay(this=each.copy())) for each in (end, start)
    ]
    rest = exp.Div(
        this=exp.paren(exp.Sub(this=days[0], expression=days[1])),
        expression=exp.Literal.number(_DAYS_OF_A_MONTH),
    )
    part = exp.Case(
        ifs=[exp.If(this=exp.and_(*last), true=exp.Literal.number("0.0"))], default=rest
    )
    return exp.paren(exp.Add(this=_apart(end, start), expression=part))


def _are_small(*nodes: exp.Expr) -> bool:
    return all(sum(1 for _ in each.walk()) <= _MOST_NODES for each in nodes)


def _signed(
    later: exp.Expr, earlier: exp.Expr, write: Callable[[exp.Expr, exp.Expr], exp.Expr]
) -> exp.Expr:
    between = [
        exp.If(
            this=exp.GTE(this=later.copy(), expression=earlier.copy()),
            true=write(later, earlier),
        ),
        exp.If(
            this=exp.LT(this=later.copy(), expression=earlier.copy()),
            true=exp.Neg(this=exp.Paren(this=write(earlier, later))),
        ),
    ]
    return exp.Case(ifs=between)


def _birthdays(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the number of birthdays from a date to a later date."""
    days = [
        exp.Add(
            this=exp.Mul(this=exp.Month(this=day.copy()), expression=exp.Literal.number(100)),
            expression=exp.Day(this=day.copy()),
        )
        for day in (later, earlier)
    ]
    before = exp.If(this=exp.LT(this=days[0], expression=days[1]), true=exp.Literal.number(1))
    years = exp.Sub(this=exp.Year(this=later.copy()), expression=exp.Year(this=earlier.copy()))
    return exp.Sub(this=years, expression=exp.Case(ifs=[before], default=exp.Literal.number(0)))


def _units_of_time(unit: str, later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the boundaries between two moments, without the last one if its unit is not whole."""
    boundaries = exp.DateDiff(
        this=later.copy(),
        expression=earlier.copy(),
        unit=exp.var(unit.upper()),
        date_part_boundary=True,
    )
    return exp.Sub(this=boundaries, expression=_less(later, earlier, _BELOW_UNIT[unit]))


def _apart(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write how many months begin between two dates."""
    years = exp.Sub(this=exp.Year(this=later.copy()), expression=exp.Year(this=earlier.copy()))
    months = exp.Sub(this=exp.Month(this=later.copy()), expression=exp.Month(this=earlier.copy()))
    twelve = exp.Mul(this=exp.paren(years), expression=exp.Literal.number(12))
    return exp.paren(exp.Add(this=twelve, expression=exp.paren(months)))


def _months(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the number of whole months; the last day of a shorter month ends one."""
    before = exp.LT(this=exp.Day(this=later.copy()), expression=exp.Day(this=earlier.copy()))
    inside = exp.NEQ(this=later.copy(), expression=exp.LastDay(this=later.copy()))
    unfinished = exp.If(this=exp.and_(before, inside), true=exp.Literal.number(1))
    rest = exp.Case(ifs=[unfinished], default=exp.Literal.number(0))
    return exp.Sub(this=_apart(later, earlier), expression=rest)


def _months_of_timestamps(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the number of whole months between timestamps, by days and the times within them."""
    days = [exp.Day(this=each.copy()) for each in (later, earlier)]
    times = [
        exp.TimeToStr(this=each.copy(), format=exp.Literal.string(_BELOW_UNIT["day"]))
        for each in (later, earlier)
    ]
    date = exp.cast(later.copy(), exp.DType.DATE)
    inside = exp.NEQ(this=date, expression=exp.LastDay(this=later.copy()))
    before = exp.LT(this=days[0], expression=days[1])
    by_time = exp.and_(
        exp.LTE(this=days[0].copy(), expression=days[1].copy()),
        exp.LT(this=times[0], expression=times[1]),
    )
    unfinished = exp.or_(exp.paren(exp.and_(before, inside)), exp.paren(by_time))
    rest = exp.Case(
        ifs=[exp.If(this=unfinished, true=exp.Literal.number(1))], default=exp.Literal.number(0)
    )
    return exp.Sub(this=_apart(later, earlier), expression=rest)


def compared_with_interval(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ``age(a, b) > INTERVAL 5 DAY``, of any moments, and of dates with months and years.

    A month of an interval is as long as 30 days to engines, and the days of an age are fewer than
    those of a month: with less than 28 days nothing is compared but moments.
    """
    comparison, one, other = type(node), node.this.unnest(), node.expression.unnest()
    if _is_age(other):
        comparison, one, other = _MIRRORED[comparison], other, one
    moments = _alike(one.expressions, type_of) if _is_age(one) else None
    length = _length(other)
    if moments is None or length is None or not _COMPARED.hold(node):
        return None
    (later, earlier), (number, unit) = moments, length
    below = comparison in (exp.LT, exp.LTE)
    if unit in _SECONDS and number * _SECONDS[unit] < _SHORTEST_MONTH:
        width = exp.Interval(this=exp.Literal.string(str(number)), unit=exp.var(unit.upper()))
        moved = exp.Add(this=earlier.copy(), expression=width)
        test = comparison(this=later.copy(), expression=moved)
        if number:  # near the last day of an engine, nothing is so much later
            positive = exp.GT(this=later.copy(), expression=earlier.copy())
            if below:
                test = exp.paren(exp.or_(exp.Not(this=positive), test))
            else:
                test = exp.paren(exp.and_(positive, test))
        return _of_finite(later, earlier, test)
    if unit not in _MONTHS or not number or not is_date(later, type_of):
        return None
    least = comparison in (exp.GTE, exp.LT)
    reached = _at_least_months if least else _more_than_months
    found = exp.Case(
        ifs=[
            exp.If(
                this=exp.GTE(this=later.copy(), expression=earlier.copy()),
                true=reached(later, earlier, number * _MONTHS[unit]),
            ),
            exp.If(this=exp.LT(this=later.copy(), expression=earlier.copy()), true=exp.false()),
        ]
    )
    return _of_finite(later, earlier, exp.paren(exp.Not(this=found)) if below else found)


def _of_finite(later: exp.Expr, earlier: exp.Expr, test: exp.Expr) -> exp.Expr:
    """Write a test that is NULL of infinite moments, as an age is."""
    known = [
        exp.Not(this=exp.Is(this=exp.Year(this=each.copy()), expression=exp.Null()))
        for each in (later, earlier)
    ]
    return exp.Case(ifs=[exp.If(this=exp.and_(*known), true=test)])


def _at_least_months(later: exp.Expr, earlier: exp.Expr, number: int) -> exp.Expr:
    """Write whether an age is some months, or a month less and the 30 days of one."""
    days = [exp.Day(this=each.copy()) for each in (later, earlier)]
    long = [exp.Literal.number(month) for month in _OF_31_DAYS]
    in_long = exp.In(this=exp.Month(this=earlier.copy()), expressions=long)
    of_31 = exp.and_(_equal(exp.Sub(this=days[1], expression=days[0]), 1), in_long)
    all_days = _equal(exp.Sub(this=days[0].copy(), expression=days[1].copy()), 30)
    months = exp.paren(_plain_months(later, earlier))
    almost = exp.and_(_equal(months, number - 1), exp.paren(exp.or_(of_31, all_days)))
    reached = exp.GTE(this=months.copy(), expression=exp.Literal.number(number))
    return exp.paren(exp.or_(reached, exp.paren(almost)))


def _more_than_months(later: exp.Expr, earlier: exp.Expr, number: int) -> exp.Expr:
    """Write whether an age is more than some months, by a day at least."""
    months = exp.paren(_plain_months(later, earlier))
    beyond = exp.GT(this=months, expression=exp.Literal.number(number))
    days = [exp.Day(this=each.copy()) for each in (later, earlier)]
    by_days = exp.and_(_equal(months.copy(), number), exp.NEQ(this=days[0], expression=days[1]))
    return exp.paren(exp.or_(beyond, exp.paren(by_days)))


def _plain_months(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Write the months of the age of two dates."""
    days = [exp.Day(this=each.copy()) for each in (later, earlier)]
    before = exp.If(this=exp.LT(this=days[0], expression=days[1]), true=exp.Literal.number(1))
    rest = exp.Case(ifs=[before], default=exp.Literal.number(0))
    return exp.Sub(this=_apart(later, earlier), expression=rest)


def _equal(node: exp.Expr, number: int) -> exp.Expr:
    return exp.EQ(this=node, expression=exp.Literal.number(number))


def _is_age(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and fold(node.name) == "age"


def _length(node: exp.Expr) -> tuple[int, str] | None:
    """Read a constant interval of one unit: its number, and the word for its unit."""
    cast = type(node) is exp.Cast and node.to.this == exp.DType.INTERVAL
    if not (cast or (isinstance(node, exp.Interval) and _INTERVAL.hold(node))):
        return None
    number, unit = node.this, node.args.get("unit")
    if not isinstance(number, exp.Literal) or not isinstance(unit, exp.Var | None):
        return None
    written = f"{number.name} {unit.name}" if isinstance(unit, exp.Var) else number.name
    found = _LENGTH.fullmatch(written)
    return None if found is None else (int(found[1]), found[2].lower())


_OF_31_DAYS: Final = (1, 3, 5, 7, 8, 10, 12)
_COMPARED: Final = NodeArguments("this expression")
_INTERVAL: Final = NodeArguments("this unit")
_LENGTH: Final = re.compile(
    r"([0-9]{1,9}) (second|minute|hour|day|week|month|quarter|year)s?", re.IGNORECASE
)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_SHORTEST_MONTH: Final = 28 * 86400
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}

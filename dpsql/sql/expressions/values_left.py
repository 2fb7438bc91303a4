"""The values that a condition leaves of a column, from the condition's text alone.

``d >= DATE '2024-01-01' AND d < DATE '2024-02-01'`` leaves 31 dates, whatever the rows are. Only
comparisons with constants are read, of the column's own type or of the day, the year or the start
of a period of a moment, and AND and OR of them. Of all other conditions, NOT and CASE among them,
it is said that they leave every value: that is never too few. NULL fulfils none of the comparisons
that are read.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import SqlType
from dpsql.syntax.arguments import Rules, grouped_rules

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_DAY: Final = datetime.timedelta(days=1)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


@dataclass(frozen=True, slots=True)
class WholeSpan:
    """All whole numbers from ``low`` to ``high``: days or microseconds since 1970 of moments."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def size(self) -> float:
        """How many numbers there are."""
        return max(0, self.high - self.low + 1)


Left: TypeAlias = frozenset[object] | WholeSpan
"""Values of which no other fulfils a condition: listed, or in a span of whole numbers."""
EVERYTHING: Final = WholeSpan()


def values_left(condition: exp.Expr, column: str, type_: SqlType) -> Left:
    """Return a superset of the values of a column that fulfil a condition.

    Whole numbers stand for dates and timestamps. ``EVERYTHING`` where the condition says nothing
    that is known to hold, and for types with several spellings of equal values.

    >>> import sqlglot
    >>> def show(text: str, type_: str) -> None:
    ...     print(values_left(sqlglot.parse_one(text, read="duckdb"), "a", SqlType.of(type_)))
    >>> show("a >= 3 AND a < 7 AND b = 1", "BIGINT")
    WholeSpan(low=3, high=6)
    >>> show("a = 'x' OR a IN ('x')", "VARCHAR")
    frozenset({'x'})
    >>> show("a = 'x' OR b = 'x'", "VARCHAR")
    WholeSpan(low=-inf, high=inf)
    >>> show("year(a) = 1970", "DATE")
    WholeSpan(low=0, high=364)
    """
    left = _left(condition, _Subject(column, type_))
    return left if left == EVERYTHING else met(left, _held(type_))


def met(one: Left, other: Left) -> Left:
    """Return the intersection of two sets of values."""
    if other == EVERYTHING or one == EVERYTHING:
        return other if one == EVERYTHING else one
    if isinstance(one, WholeSpan) and isinstance(other, WholeSpan):
        return WholeSpan(max(one.low, other.low), min(one.high, other.high))
    if isinstance(one, WholeSpan):
        one, other = other, one
    assert isinstance(one, frozenset)
    if isinstance(other, frozenset):
        return one & other
    return frozenset(v for v in one if isinstance(v, int) and other.low <= v <= other.high)


def united(one: Left, other: Left) -> Left:
    """Return a superset of the values of either."""
    if EVERYTHING in (one, other):
        return EVERYTHING
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    spans = [_hull(each) for each in (one, other) if each]
    return WholeSpan(min(span.low for span in spans), max(span.high for span in spans))


def values_in(left: Left, most: int) -> tuple[object, ...] | None:
    """List the values in their order; None if they are more than ``most``."""
    if isinstance(left, WholeSpan):
        if left.size > most:
            return None
        return tuple(range(int(left.low), int(left.high) + 1)) if left.size else ()
    return tuple(sorted(left, key=_order)) if len(left) <= most else None


def as_value(whole: int, type_: SqlType) -> object:
    """Return the value of a column's type that a whole number stands for."""
    kind = type_.kind
    if kind == "DATE":
        return _EPOCH.date() + datetime.timedelta(days=whole)
    if kind == "TIMESTAMP":
        return _EPOCH + whole * _MICROSECOND
    return bool(whole) if kind == "BOOLEAN" else whole


def _order(value: object) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, str(value))


def _hull(left: Left) -> WholeSpan:
    if isinstance(left, WholeSpan):
        return left
    numbers = [value for value in left if isinstance(value, int)]
    return WholeSpan(min(numbers), max(numbers))


@dataclass(frozen=True, slots=True)
class _Subject:
    """The column whose values are asked for, and its type."""

    column: str
    type: SqlType

    def is_column(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and node.name == self.column

    def period(self, node: exp.Expr) -> _Period | None:
        """Read what a part of the column tells of a moment; None for other expressions."""
        if self.type.kind not in _TYPES:
            return None
        rule = _PARTS.of(node)
        return None if rule is None else rule(node, self)

    def at(self, day: datetime.date) -> int:
        """Return the first whole number of a day."""
        days = (day - _EPOCH.date()).days
        return days if self.type.kind == "DATE" else days * (_DAY // _MICROSECOND)

    def constant(self, node: exp.Expr) -> str | int | None:
        """Read a constant of the column's own type; None for anything else."""
        node, kind = node.unnest(), self.type.kind
        if kind == "BOOLEAN":
            return int(node.this) if isinstance(node, exp.Boolean) else None
        if self.type.is_integer:
            return _whole(node)
        to = node.to.this if isinstance(node, exp.Cast) else None
        if to is not None and to not in _TYPES.get(kind, ()):
            return None
        literal = node if to is None else node.this
        if not isinstance(literal, exp.Literal) or not literal.is_string:
            return None
        text = str(literal.this)
        if to == exp.DType.DATE and _whole_moment(text, "DATE") is None:
            return None
        return text if kind == "VARCHAR" else _whole_moment(text, kind)


_MOMENTS: Final = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)
_TYPES: Final = {"DATE": _MOMENTS, "TIMESTAMP": _MOMENTS}
"""What a constant may be cast to, to be compared with a column of a type as what it is."""
_INTEGERS: Final = (exp.DType.INT, exp.DType.BIGINT)


@dataclass(frozen=True, slots=True)
class _Period:
    """What never falls as a moment passes: its day, its year, or the start of its month.

    ``constant`` reads what it is compared with, and ``ends`` returns the first moment and the last
    of which it is just that; or of which it is less, the other way round, where it is that of none.
    """

    constant: Callable[[exp.Expr], str | int | None]
    ends: Callable[[int], tuple[int, int]]

    def spans(self, value: int) -> dict[type[exp.Expr], WholeSpan]:
        """Return the moments for each comparison with a value. Raises for one out of time."""
        first, last = self.ends(value)
        equal = WholeSpan(first, last)
        return {
            exp.EQ: equal,
            exp.NullSafeEQ: equal,
            exp.GT: WholeSpan(low=last + 1),
            exp.GTE: WholeSpan(low=first),
            exp.LT: WholeSpan(high=first - 1),
            exp.LTE: WholeSpan(high=last),
        }

    def compared(self, node: exp.Expr, comparison: type[exp.Expr]) -> WholeSpan:
        """Return the moments for which a comparison with a constant may hold."""
        value = self.constant(node)
        if not isinstance(value, int):
            return EVERYTHING
        try:
            return self.spans(value)[comparison]
        except (ValueError, OverflowError):  # out of the years 1 to 9999
            return EVERYTHING


def _day_of(node: exp.Expr, of: _Subject) -> _Period | None:
    """Read CAST(ts AS DATE)."""
    if node.args["to"].this != exp.DType.DATE or not of.is_column(node.this.unnest()):
        return None

    def ends(days: int) -> tuple[int, int]:
        day = _EPOCH.date() + datetime.timedelta(days=days)
        return of.at(day), of.at(day + _DAY) - 1

    return _Period(_Subject("", SqlType.of("DATE")).constant, ends)


def _year_of(node: exp.Expr, of: _Subject) -> _Period | None:
    """Read year(ts) and EXTRACT(year FROM ts)."""
    extract = isinstance(node, exp.Extract)
    if extract and node.name.upper() != "YEAR":
        return None
    if not of.is_column((node.expression if extract else node.this).unnest()):
        return None

    def ends(year: int) -> tuple[int, int]:
        first, after = (datetime.date(each, 1, 1) for each in (year, year + 1))
        return of.at(first), of.at(after) - 1

    return _Period(_whole_alone, ends)


def _start_of(node: exp.Expr, of: _Subject) -> _Period | None:
    """Read date_trunc('month', ts)."""
    after = _PERIODS.get(node.args["unit"].name.upper())
    if after is None or not of.is_column(node.this.unnest()):
        return None

    def ends(whole: int) -> tuple[int, int]:
        moment = as_value(whole, of.type)
        assert isinstance(moment, datetime.date)
        day = moment.date() if isinstance(moment, datetime.datetime) else moment
        first, following = after(day)
        start, last = of.at(first), of.at(following) - 1
        return (start if whole == start else last + 1), last

    return _Period(of.constant, ends)


def _week(day: datetime.date) -> tuple[datetime.date, datetime.date]:
    monday = day - datetime.timedelta(days=day.weekday())
    return monday, monday + 7 * _DAY


def _months(number: int) -> Callable[[datetime.date], tuple[datetime.date, datetime.date]]:
    """Make a function of the first day of a day's period of months, and of the next period's."""

    def found(day: datetime.date) -> tuple[datetime.date, datetime.date]:
        first = (day.month - 1) // number * number
        years, month = divmod(first + number, 12)
        return datetime.date(day.year, first + 1, 1), datetime.date(day.year + years, month + 1, 1)

    return found


_PERIODS: Final[Mapping[str, Callable[[datetime.date], tuple[datetime.date, datetime.date]]]] = {
    "DAY": lambda day: (day, day + _DAY),
    "WEEK": _week,
    "MONTH": _months(1),
    "QUARTER": _months(3),
    "YEAR": _months(12),
}
_PARTS: Final[Rules[Callable[[exp.Expr, _Subject], _Period | None]]] = grouped_rules(
    {
        "this to safe?": {exp.Cast: _day_of, exp.TryCast: _day_of},
        "this": {exp.Year: _year_of},
        "this expression": {exp.Extract: _year_of},
        "this unit": {exp.DateTrunc: _start_of, exp.TimestampTrunc: _start_of},
    }
)


def _whole_alone(node: exp.Expr) -> int | None:
    return _whole(node.unnest())


def _whole(node: exp.Expr) -> int | None:
    """Read a whole number, with its sign and with a cast to an integer type around it."""
    if isinstance(node, exp.Cast) and node.to.this in _INTEGERS:
        node = node.this
    if isinstance(node, exp.Neg):
        below = _whole(node.this.unnest())
        return None if below is None else -below
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _whole_moment(text: str, kind: str) -> int | None:
    """Count the days or microseconds since 1970 of a moment that is written in full."""
    if kind not in _TYPES or not _MOMENT.fullmatch(text):
        return None
    try:
        passed = datetime.datetime.fromisoformat(text) - _EPOCH
    except ValueError:
        return None
    if kind == "TIMESTAMP":
        return passed // _MICROSECOND
    return None if passed % _DAY else passed.days  # no date is at any other time


def _left(node: exp.Expr, of: _Subject) -> Left:
    rule = _RULES.of(node)
    return EVERYTHING if rule is None else rule(node, of)


def _inner(node: exp.Expr, of: _Subject) -> Left:
    return _left(node.this, of)


def _both(node: exp.Expr, of: _Subject) -> Left:
    return met(_left(node.this, of), _left(node.expression, of))


def _either(node: exp.Expr, of: _Subject) -> Left:
    return united(_left(node.this, of), _left(node.expression, of))


def _compared(node: exp.Expr, of: _Subject) -> Left:
    """Read a comparison, whichever side the column is on."""
    one, other, comparison = node.this.unnest(), node.expression.unnest(), type(node)
    if of.is_column(other) or of.period(other) is not None:
        one, other, comparison = other, one, _MIRRORED.get(comparison, comparison)
    period, spans = of.period(one), _SPANS[comparison]
    if period is not None:
        return period.compared(other, comparison)
    value = of.constant(other) if of.is_column(one) else None
    if value is None:
        return EVERYTHING
    if spans is None:
        return _known([value])
    return spans(value) if isinstance(value, int) and of.type.kind != "BOOLEAN" else EVERYTHING


def _among(node: exp.Expr, of: _Subject) -> Left:
    some = [each for each in node.expressions if not isinstance(each.unnest(), exp.Null)]
    period = of.period(node.this.unnest())
    if period is not None and some:
        spans: list[Left] = [period.compared(each, exp.EQ) for each in some]
        return reduce(united, spans)
    values = [of.constant(each) for each in some]
    return _known(values) if of.is_column(node.this.unnest()) else EVERYTHING


def _between(node: exp.Expr, of: _Subject) -> Left:
    period = of.period(node.this.unnest())
    if period is not None:
        low, high = node.args["low"], node.args["high"]
        return met(period.compared(low, exp.GTE), period.compared(high, exp.LTE))
    low, high = of.constant(node.args["low"]), of.constant(node.args["high"])
    whole = isinstance(low, int) and isinstance(high, int) and of.type.kind != "BOOLEAN"
    if not whole or not of.is_column(node.this.unnest()):
        return EVERYTHING
    assert isinstance(low, int)
    assert isinstance(high, int)
    return WholeSpan(low, high)


def _true_column(node: exp.Expr, of: _Subject) -> Left:
    true = of.is_column(node) and of.type.kind == "BOOLEAN"
    return frozenset({1}) if true else EVERYTHING


def _known(values: Sequence[str | int | None]) -> Left:
    """List values; everything if one could not be read."""
    return EVERYTHING if None in values else frozenset(values)


def _held(type_: SqlType) -> WholeSpan:
    """Return the numbers that an integer type holds; everything for others."""
    return WholeSpan(*type_.ends) if type_.is_integer else EVERYTHING


_SPANS: Final[dict[type[exp.Expr], Callable[[int], WholeSpan] | None]] = {
    exp.EQ: None,
    exp.NullSafeEQ: None,
    exp.GT: lambda value: WholeSpan(low=value + 1),
    exp.GTE: lambda value: WholeSpan(low=value),
    exp.LT: lambda value: WholeSpan(high=value - 1),
    exp.LTE: lambda value: WholeSpan(high=value),
}
_MIRRORED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}
_Read: TypeAlias = Callable[[exp.Expr, _Subject], Left]
_RULES: Final[Rules[_Read]] = grouped_rules(
    {
        "this": {exp.Paren: _inner},
        "this table? db? catalog?": {exp.Column: _true_column},
        "this expression": {
            exp.And: _both,
            exp.Or: _either,
            **dict.fromkeys(_SPANS, _compared),
        },
        "this expressions": {exp.In: _among},
        "this low high": {exp.Between: _between},
    }
)

"""The values that a condition leaves of a column, from the condition's text alone.

``d >= DATE '2024-01-01' AND d < DATE '2024-02-01'`` leaves 31 dates, whatever the rows are. Only
comparisons with constants of the column's own type are read, and AND and OR of them. Of all other
conditions, NOT and CASE among them, it is said that they leave every value: that is never too few.
NULL fulfils none of the comparisons that are read.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    one, other, spans = node.this.unnest(), node.expression.unnest(), _SPANS[type(node)]
    if of.is_column(other):
        one, other, spans = other, one, _SPANS[_MIRRORED.get(type(node), type(node))]
    value = of.constant(other) if of.is_column(one) else None
    if value is None:
        return EVERYTHING
    if spans is None:
        return _known([value])
    return spans(value) if isinstance(value, int) and of.type.kind != "BOOLEAN" else EVERYTHING


def _among(node: exp.Expr, of: _Subject) -> Left:
    some = [each for each in node.expressions if not isinstance(each.unnest(), exp.Null)]
    values = [of.constant(each) for each in some]
    return _known(values) if of.is_column(node.this.unnest()) else EVERYTHING


def _between(node: exp.Expr, of: _Subject) -> Left:
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

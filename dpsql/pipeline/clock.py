"""Fixes what a statement asks of the clock, before anything else is made of it.

``WHERE day >= CURRENT_DATE - INTERVAL 30 DAY`` is a condition with a constant, like any that is
written out: what is made of the clock and of constants alone is computed by the twin, so that all
who read conditions see a date. The constant is a part of the question, which is thereby the same
for as long as the constant is: a day for CURRENT_DATE, and for now() no longer than the moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import sql
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.errors import QueryRefused
from dpsql.pipeline.public_keys import whole_number_of
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.expressions.values_left import as_value
from dpsql.syntax.clock import FixedWord, clock_words, fix_word
from dpsql.syntax.row_functions import MOMENTS, ROW_FUNCTIONS
from dpsql.syntax.row_nodes import is_row_node
from dpsql.syntax.text import NAMED, display, output_name, put

_DAYS: Final = frozenset(
    {"day", "week", "month", "quarter", "year", "decade", "century", "millennium"}
)
_OF_DAYS: Final = (
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth),
    *(exp.DayOfYear, exp.DayOfWeek, exp.DayOfWeekIso, exp.Dayname, exp.Monthname, exp.LastDay),
)
"""Functions of a moment that its day decides; seconds and formats may tell more of it."""
_CONSTANTS: Final = (
    *(exp.Literal, exp.Interval, exp.Var, exp.DataType, exp.DataTypeParam),
    *(exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren),
    *(exp.Cast, exp.TimestampTrunc, exp.DateTrunc, exp.Extract, exp.DateDiff),
    *(node for node, function in ROW_FUNCTIONS.items() if "TIMESTAMP" in function.takes),
)
"""What is computed beforehand where it is around the clock and consists of nothing else."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The moment of a statement that asks the clock, in UTC.

    ``daily``: no more than its day is asked for.
    """

    at: datetime
    daily: bool

    def holds(self, at: datetime) -> bool:
        """Tell whether the statement is the same at another moment."""
        return at == self.at or (self.daily and at.date() == self.at.date())

    def beside(self, other: ClockReading) -> ClockReading:
        """Return what is the same for as long as both are; they hold at one moment."""
        return self if self.daily <= other.daily else other

    @property
    def explained(self) -> str:
        """What the statement takes the time for, and how long it is the same question."""
        if self.daily:
            return f"{self.text}; asked on another day it is another question"
        return (
            f"{self.text}; asked again it is another question, at a price of its own. CURRENT_DATE "
            "is the same all day"
        )

    @property
    def text(self) -> str:
        """What the statement takes the time for."""
        if self.daily:
            return f"today is {self.at.date()} (UTC)"
        return f"now is {self.at.replace(tzinfo=None)} (UTC)"


def present_moment() -> datetime:
    """Return the moment of a question that is asked now, in UTC."""
    return datetime.now(UTC)


def read_clock(tree: exp.Query, at: datetime, engine: Engine) -> ClockReading | None:
    """Put constants in the place of what a statement asks of the clock; ``tree`` is changed.

    Columns keep the names that they would have without. Returns None if it asks for nothing.
    """
    words = list(clock_words(tree))
    for word in words:
        _keep_names(word)
    fixed = [found for word in words if (found := fix_word(word, at)) is not None]
    if not fixed:
        return None
    daily = all(_is_of_day(each) for each in fixed)
    tried: set[int] = set()
    for each in fixed:
        for part in reversed(list(_made_of(each.constant))):
            if id(part) not in tried:
                tried.add(id(part))
                value = _computed(part, engine)
                if value is not None:
                    value.meta[NAMED] = display(part)
                    put(part, value)
                    break
    return ClockReading(at, daily)


def _keep_names(word: exp.Expr) -> None:
    """Name the columns of SELECT lists that a word stands in, if nobody has named them."""
    unnamed = [
        node
        for node in _outwards(word)
        if isinstance(node.parent, exp.Select)
        and node.arg_key == "expressions"
        and not isinstance(node, exp.Alias)
    ]
    for column in reversed(unnamed):  # a name of a column has no other names in it yet
        named = exp.Alias(alias=exp.to_identifier(output_name(column), quoted=True))
        put(column, named)
        named.set("this", column)


def _outwards(node: exp.Expr | None) -> Iterator[exp.Expr]:
    while node is not None:
        yield node
        node = node.parent


def _is_of_day(fixed: FixedWord) -> bool:
    """Tell whether the day decides all that is made of a word, on clocks of UTC."""
    outer = fixed.constant.parent
    while isinstance(outer, exp.Paren):
        outer = outer.parent
    if fixed.type == "DATE":
        return fixed.utc
    to_day = isinstance(outer, exp.Cast) and outer.to.this == exp.DType.DATE
    by_day = isinstance(outer, exp.TimestampTrunc | exp.DateTrunc) and _unit(outer) in _DAYS
    return fixed.utc and (to_day or by_day or isinstance(outer, _OF_DAYS))


def _unit(node: exp.Expr) -> str:
    unit = node.args.get("unit")
    return unit.name.lower() if isinstance(unit, exp.Var | exp.Literal) else ""


def _made_of(constant: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts around a constant that other constants alone have a part in, outwards."""
    part = constant.parent
    while part is not None and all(map(_is_constant, part.walk())):
        yield part
        part = part.parent


def _is_constant(node: exp.Expr) -> bool:
    return type(node) in _CONSTANTS and is_row_node(node)


def _computed(part: exp.Expr, engine: Engine) -> exp.Expr | None:
    """Compute a part of constants; None if it is no date, timestamp or whole number."""
    try:
        written = total_sql(part, Table("none", ()), TWIN)
        (column,) = engine.bind(sql("SELECT {}", written))
        type_ = column.type
        if not (type_.is_integer or type_.kind in MOMENTS):
            return None
        (whole,) = engine.compute_constants(sql("SELECT {}", whole_number_of(written, type_)))
        value = None if whole is None else as_value(whole, type_)
    except (QueryRefused, OverflowError):  # then it is said where the part stands
        return None
    if isinstance(value, date):
        text = value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
        return exp.cast(exp.Literal.string(text), str(type_))
    return None if value is None else exp.cast(exp.convert(value), str(type_))

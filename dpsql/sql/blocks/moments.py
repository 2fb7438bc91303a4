"""Aggregates of dates, timestamps and the time between: of numbers below, and moments again above.

    MAX(day)     is   DATE '1970-01-01' + MAX(date_diff('day', DATE '1970-01-01', day))
    MAX(ts)      is   make_timestamp(MAX(epoch(ts)) * 1000000)
    AVG(b - a)   is   to_microseconds(AVG(epoch(b - a)) * 1000000)

The number is what is bounded, released and paid for, so that either spelling is the same question;
the moment is made of it in the tail.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table, fold
from dpsql.core.sql_types import DATE, INTERVAL, TIMESTAMP, SqlType
from dpsql.ir.measures import AggregateKind
from dpsql.sql.expressions.call import WRAPPERS
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.expressions.moments import (
    DAY_SECONDS,
    days_since_1970,
    is_span,
    moment_type,
    moment_written,
)
from dpsql.sql.expressions.quantile_calls import is_continuous
from dpsql.sql.lineage.names import generated_column
from dpsql.syntax.dialect import PER_ROW, BoundedAggregate
from dpsql.syntax.text import put

AVERAGES: Final = tuple(
    node for kind in AggregateKind if kind.is_average for node in kind.value.nodes
)
"""The aggregates that lie between values, and are computed from a sum."""
_OF_MOMENTS: tuple[type[exp.AggFunc], ...] = (*AVERAGES, *AggregateKind.QUANTILE.value.nodes)
_SECOND: Final = 1_000_000  # in microseconds
_FIRST, _LAST = datetime.date.min, datetime.date.max  # all that a moment in Python can be


@dataclass(frozen=True, slots=True)
class MomentAnswer:
    """What an aggregate of numbers stands for: days or seconds since 1970, and their type.

    Of the type INTERVAL they are seconds between two moments.
    """

    days: bool
    type: SqlType

    @property
    def since_1970(self) -> bool:
        """True for moments, which are far from 0."""
        return self.type != INTERVAL

    def of(self, released: str) -> exp.Expr:
        """Write the moment that a released column stands for."""
        if not self.since_1970:
            return _span(generated_column(released))
        unit = 1 if self.days else DAY_SECONDS
        ends = [(day - datetime.date(1970, 1, 1)).days * unit for day in (_FIRST, _LAST)]
        least = exp.Greatest(this=generated_column(released), expressions=[_number(ends[0])])
        within = exp.Least(this=least, expressions=[_number(ends[1])])
        if self.type == DATE:
            return exp.Paren(
                this=exp.Add(this=_day(datetime.date(1970, 1, 1)), expression=_cast(within, "INT"))
            )
        micros = exp.Mul(this=within, expression=_number(_SECOND * DAY_SECONDS // unit))
        moment = exp.Anonymous(this="make_timestamp", expressions=[_cast(micros, "BIGINT")])
        return moment if self.type == TIMESTAMP else _cast(moment, self.type.text)


def as_numbers(node: exp.Expr, table: Table, text: str) -> MomentAnswer | None:
    """Ask an aggregate of moments for that of numbers, in place; None for any other aggregate.

    Raises ``QueryRefused`` for bounds that are no two moments.
    """
    function, order, bounds = node, None, []
    while isinstance(function, WRAPPERS):
        if isinstance(function, exp.WithinGroup):
            order = function.expression
        elif isinstance(function, BoundedAggregate):
            bounds += [each for each in function.expressions if fold(each.this.name) == PER_ROW]
        function = function.this
    if not isinstance(function, _OF_MOMENTS):
        return None
    terms = [function] if order is None else order.expressions
    argument = terms[0].this
    if not isinstance(argument, exp.Expr):
        return None
    if is_span(argument, table):
        put(argument, exp.TimeToUnix(this=argument.copy()))
        return MomentAnswer(days=False, type=INTERVAL)
    found = moment_type(argument, table)
    if found is None:
        return None
    days = found == DATE
    for each in bounds:
        _number_bounds(each, days, text)
    put(
        argument, days_since_1970(argument.copy()) if days else exp.TimeToUnix(this=argument.copy())
    )
    between = isinstance(function, AVERAGES) or is_continuous(function)
    return MomentAnswer(days, TIMESTAMP if days and between else found)


def _span(seconds: exp.Expr) -> exp.Expr:
    """Write an interval of so many seconds, as far apart as two moments can be at most."""
    farthest = _number((_LAST - _FIRST).days * DAY_SECONDS)
    above = exp.Greatest(this=seconds, expressions=[exp.Neg(this=farthest.copy())])
    within = exp.Least(this=above, expressions=[farthest])
    micros = exp.Mul(this=within, expression=_number(_SECOND))
    return exp.Anonymous(this="to_microseconds", expressions=[_cast(micros, "BIGINT")])


def _number_bounds(kwarg: exp.Kwarg, days: bool, text: str) -> None:
    """Write bounds that are moments as numbers, in place."""
    ends = kwarg.expression.expressions if isinstance(kwarg.expression, exp.Tuple) else []
    found = [moment_written(end) for end in ends]
    if len(found) != 2 or None in found:
        raise refusal(
            text,
            f"{PER_ROW} takes two dates or timestamps here, the lower one first",
            "bad_bounds",
            kwarg,
            hint=f"For example {PER_ROW} => (DATE '2020-01-01', DATE '2030-01-01').",
        )
    low, high = (each / (DAY_SECONDS if days else 1) for each in found if each is not None)
    if days:
        low, high = math.floor(low), math.ceil(high)
    kwarg.set("expression", exp.Tuple(expressions=[_number(low), _number(high)]))


def _number(value: float) -> exp.Expr:
    number = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=number) if value < 0 else number


def _day(day: datetime.date) -> exp.Expr:
    return _cast(exp.Literal.string(day.isoformat()), "DATE")


def _cast(node: exp.Expr, to: str) -> exp.Expr:
    return exp.cast(node, to, dialect="duckdb")

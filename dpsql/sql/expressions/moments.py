"""Dates and timestamps by their form, and as numbers: days and seconds since 1970."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table, fold
from dpsql.core.sql_types import DATE, INTERVAL, TIMESTAMP, SqlType
from dpsql.policy.model import ColumnPolicy, TablePolicy
from dpsql.sql.expressions.values_left import Left, WholeSpan, as_value, values_left
from dpsql.syntax.arguments import branches
from dpsql.syntax.row_functions import nodes_giving
from dpsql.syntax.row_nodes import is_row_node

DAY_SECONDS: Final = 86_400
ZONED: Final = SqlType.of("TIMESTAMP WITH TIME ZONE")
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EVERYTHING: Final = (-math.inf, math.inf)
_FIRST, _LAST = datetime.datetime.min, datetime.datetime.max
"""The ends of what a moment in Python can be: as a bound, that there is none."""
_CASTS: Final = {
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: ZONED,
}
_CHOICES = (exp.Case, exp.If, exp.Coalesce, exp.Nullif)
_CUT = (exp.DateTrunc, exp.TimestampTrunc)


def moment_type(node: exp.Expr, table: Table) -> SqlType | None:
    """Return the type of a date or timestamp; None for other expressions.

    Told by its form. What engines disagree on is called a TIMESTAMP, as a DATE can be read as one.
    """
    if not is_row_node(node):
        return None
    if isinstance(node, exp.Paren):
        return moment_type(node.this, table)
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        if column is None or not column.type.is_moment:
            return None
        return column.type if column.type in (DATE, ZONED) else TIMESTAMP
    if isinstance(node, exp.Cast):
        return _CASTS.get(node.to.this)
    if isinstance(node, _CUT):
        return _as_timestamp(moment_type(node.this, table))
    if isinstance(node, exp.DateBin):
        return moment_type(node.expression, table)
    if isinstance(node, exp.Add | exp.Sub):
        return _moved(node, table)
    if isinstance(node, exp.Least | exp.Greatest):
        return _agreed([node.this, *node.expressions], table)
    if isinstance(node, _CHOICES):
        return _agreed(branches(node), table)
    return DATE if isinstance(node, nodes_giving(DATE)) else None


def is_span(node: exp.Expr, table: Table) -> bool:
    """Tell whether an expression is the time between two moments; that of two dates is a number."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return column is not None and column.type == INTERVAL
    if not isinstance(node, exp.Sub):
        return False
    ends = {moment_type(end, table) for end in (node.this, node.expression)}
    return None not in ends and ends != {DATE}


def _agreed(values: list[exp.Expr], table: Table) -> SqlType | None:
    found = {moment_type(value, table) for value in values}
    return found.pop() if len(found) == 1 else None


def _moved(node: exp.Expr, table: Table) -> SqlType | None:
    """Return the type of a moment that an interval, or a number of days, is added to."""
    one, other = node.this.unnest(), node.expression.unnest()
    if isinstance(one, exp.Interval) and isinstance(node, exp.Add):
        one, other = other, one
    found = moment_type(one, table)
    if isinstance(other, exp.Interval):
        return _as_timestamp(found)
    return found if found == DATE and moment_type(other, table) is None else None


def _as_timestamp(type_: SqlType | None) -> SqlType | None:
    return TIMESTAMP if type_ == DATE else type_


def days_since_1970(node: exp.Expr) -> exp.Expr:
    """Write the days of a moment since 1970-01-01, as the parser reads them."""
    epoch = exp.cast(exp.Literal.string("1970-01-01"), exp.DType.DATE)
    return exp.DateDiff(this=node, expression=epoch, unit=exp.var("DAY"), date_part_boundary=True)


def seconds_of(moment: datetime.date) -> float:
    """Count the seconds from 1970 to a date or timestamp; infinite at the ends of the calendar."""
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime.combine(moment, datetime.time())
    if moment in (_FIRST, _LAST):
        return -math.inf if moment == _FIRST else math.inf
    return (moment - _EPOCH).total_seconds()


def moment_range(node: exp.Expr, policy: TablePolicy) -> tuple[float, float]:
    """Return bounds of a moment in seconds since 1970, infinite where none are public."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.this in _CASTS:
        found = moment_written(node)
        return moment_range(node.this, policy) if found is None else (found, found)
    column = policy.column(node.name) if isinstance(node, exp.Column) else None
    if column is None:
        return _EVERYTHING
    low, high = column.lower, column.upper
    if not isinstance(low, datetime.date) or not isinstance(high, datetime.date):
        return _EVERYTHING
    return seconds_of(low), seconds_of(high)


def moment_written(node: exp.Expr) -> float | None:
    """Read a constant date or timestamp in seconds since 1970; None for anything else."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and _CASTS.get(node.to.this) in (DATE, TIMESTAMP):
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    left = values_left(exp.EQ(this=exp.column("m"), expression=node), "m", TIMESTAMP)
    micros = next(iter(left), None) if isinstance(left, frozenset) else None
    return micros / 1e6 if isinstance(micros, int) else None


def with_moments(policy: TablePolicy, table: Table, condition: exp.Expr | None) -> TablePolicy:
    """Add to the policy the bounds that a condition leaves of dates and timestamps."""
    if condition is None:
        return policy
    found: dict[str, ColumnPolicy] = {}
    for column in table.columns:
        if column.type not in (DATE, TIMESTAMP):
            continue
        known = policy.column(column.name) or ColumnPolicy()
        ends = _ends(values_left(condition, column.name, column.type), column.type)
        if ends is not None:
            low, high = ends
            if isinstance(known.lower, datetime.date) and isinstance(known.upper, datetime.date):
                low = max(low, known.lower, key=seconds_of)
                high = min(high, known.upper, key=seconds_of)
            if seconds_of(low) <= seconds_of(high):
                found[fold(column.name)] = replace(known, lower=low, upper=high)
    return replace(policy, columns={**policy.columns, **found}) if found else policy


def _ends(left: Left, type_: SqlType) -> tuple[datetime.date, datetime.date] | None:
    """Return the first and the last moment of what a condition leaves; None for everything."""
    if not isinstance(left, WholeSpan):
        whole = [value for value in left if isinstance(value, int)]
        left = WholeSpan(min(whole), max(whole)) if whole else WholeSpan()
    if left == WholeSpan():
        return None
    low = _FIRST if left.low == -math.inf else as_value(int(left.low), type_)
    high = _LAST if left.high == math.inf else as_value(int(left.high), type_)
    assert isinstance(low, datetime.date)
    assert isinstance(high, datetime.date)
    return low, high

"""Privacy units of one period each: a person's rows of one day, and not of all days together.

The unit of a row is then its user and the period of its time, as one computed column: text that
begins with the number of the period, which has no colon, so that no two units have the same.
It is NULL, so that the row belongs to nobody, where the user or the time is NULL or the time is
infinite, and a function of its own row alone. Checked by ``tests/sql/test_unit_periods.py``.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.periods import Period
from dpsql.core.schema import Column, Table, base_type
from dpsql.ir.relations import Computed, Extend, RowSet, Typed
from dpsql.policy.model import PrivacyUnit
from dpsql.sql.lineage.names import generated_column

_DAY: Final = 86_400
_MINUTE: Final = 60


def per_period(rows: RowSet, table: Table, unit: PrivacyUnit) -> tuple[RowSet, str]:
    """Add to rows of a table the column that names their unit and period.

    Returns the rows and the column's name, which says in words what a unit is. The columns of the
    unit are those of the table, of types of which each value has one text and one period.
    """
    assert unit.per is not None
    who, when = table.column(unit.column), table.column(unit.per.column)
    assert who is not None, "the policy is checked against the schema first"
    assert when is not None, "the policy is checked against the schema first"
    name = unit.words
    while table.column(name) is not None:
        name += "_"
    user = exp.cast(generated_column(who.name), exp.DType.VARCHAR)
    number = exp.cast(_period_number(when, unit.per.every), exp.DType.VARCHAR)
    start = exp.DPipe(this=number, expression=exp.Literal.string(":"))
    made = Extend(rows, (Computed(name, exp.DPipe(this=start, expression=user)),))
    return Typed(made, (Column(name, "VARCHAR"),)), name


def _period_number(when: Column, every: Period) -> exp.Expr:
    """Count from 1970 to the start of a row's period, in months, days or minutes."""
    day = exp.cast(generated_column(when.name), exp.DType.DATE)
    if every.months:
        return _floor(_since(day, "MONTH"), every.months)
    days = _since(day, "DAY")
    if every.whole_days:
        return _floor(days, every.seconds // _DAY)
    minutes = _product(days, _DAY // _MINUTE)
    if base_type(when.type) != "DATE":
        hours = _product(exp.Hour(this=generated_column(when.name)), 60)
        minutes = _sum(minutes, _sum(hours, exp.Minute(this=generated_column(when.name))))
    return _floor(minutes, every.seconds // _MINUTE)


def _since(day: exp.Expr, unit: str) -> exp.Expr:
    """Count the calendar's units that begin after 1970-01-01 and up to a day; NULL if infinite."""
    epoch = exp.cast(exp.Literal.string("1970-01-01"), exp.DType.DATE)
    return exp.DateDiff(this=day, expression=epoch, unit=exp.var(unit))


def _floor(number: exp.Expr, step: int) -> exp.Expr:
    """Return the largest multiple of a step that is not above a whole number."""
    if step == 1:
        return number
    rest = _mod(_sum(_mod(number, step), exp.Literal.number(step)), step)
    return exp.Paren(this=exp.Sub(this=exp.Paren(this=number.copy()), expression=rest))


def _mod(number: exp.Expr, step: int) -> exp.Expr:
    of = exp.Paren(this=number.copy())
    return exp.Paren(this=exp.Mod(this=of, expression=exp.Literal.number(step)))


def _product(number: exp.Expr, factor: int) -> exp.Expr:
    return exp.Paren(this=exp.Mul(this=number, expression=exp.Literal.number(factor)))


def _sum(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=one, expression=other))

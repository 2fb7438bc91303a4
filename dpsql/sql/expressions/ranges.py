"""Ranges of expressions, from public facts: declared bounds and the functions.

This only decides where values are clamped, and every row is clamped, so an interval that is too
narrow costs accuracy and never privacy. No data is read. NULL is left out of account: it takes no
part in sums and averages. Checked against the engine by ``tests/sql/test_aggregates.py``.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table, fold
from dpsql.core.sql_types import BOOLEAN, DATE, DOUBLE, SqlType
from dpsql.policy.model import ColumnPolicy, TablePolicy
from dpsql.sql.expressions.moments import DAY_SECONDS, moment_range, moment_type
from dpsql.syntax.arguments import Rules, branches, extracted_part, grouped_rules
from dpsql.syntax.inner_types import INSIDE, inner_type
from dpsql.syntax.row_functions import (
    MOMENTS,
    PARTS,
    ROW_FUNCTIONS,
    RowFunction,
    nodes_giving,
    nodes_giving_integers,
)
from dpsql.syntax.row_nodes import is_row_node

Range = tuple[float, float]

_EVERYTHING: Range = (-math.inf, math.inf)
_TRUTH: Range = (0.0, 1.0)
_LOGIC: tuple[type[exp.Expr], ...] = (
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In, exp.Boolean, exp.Like, exp.ILike),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *nodes_giving(BOOLEAN),
    exp.ArrayContains,
)
_INTEGER_TYPES = frozenset(
    {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
    | {exp.DType.UTINYINT, exp.DType.USMALLINT, exp.DType.UINT, exp.DType.UBIGINT}
)
_NUMBER_TYPES = _INTEGER_TYPES | {exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL}


def with_truths(policy: TablePolicy, table: Table) -> TablePolicy:
    """Add to the policy the bounds of BOOLEAN columns, which as numbers are 0 or 1."""
    truths = {
        fold(column.name): replace(policy.column(column.name) or ColumnPolicy(), lower=0, upper=1)
        for column in table.columns
        if column.type.kind == "BOOLEAN"
    }
    return replace(policy, columns={**policy.columns, **truths}) if truths else policy


@dataclass(frozen=True, slots=True)
class _Known:
    """What is public about the columns of rows: their bounds, and their types."""

    policy: TablePolicy
    table: Table


def range_of(node: exp.Expr, policy: TablePolicy, table: Table) -> Range | None:
    """Return the (lower, upper) bounds of an expression, or None where they are not public."""
    low, high = interval_of(node, policy, table)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def interval_of(node: exp.Expr, policy: TablePolicy, table: Table) -> Range:
    """Return the same with infinite ends where there are none."""
    return _interval(node, _Known(policy, table))


def _interval(node: exp.Expr, known: _Known) -> Range:
    """Return the same with infinite ends, so that GREATEST(LEAST(x, 9), 0) bounds any x."""
    rule = _RULES.of(node)
    if rule is None:
        return _TRUTH if isinstance(node, _LOGIC) and is_row_node(node) else _EVERYTHING
    low, high = rule(node, known)
    return _EVERYTHING if math.isnan(low) or math.isnan(high) else (low, high)


def _inner(node: exp.Expr, known: _Known) -> Range:
    return _interval(node.this, known)


def _column(node: exp.Expr, known: _Known) -> Range:
    column = known.policy.column(node.name)
    if column is None or column.lower is None or column.upper is None:
        return _EVERYTHING
    if isinstance(column.lower, datetime.date) or isinstance(column.upper, datetime.date):
        return _EVERYTHING  # those of a moment, which is no number
    return _float(column.lower), _float(column.upper)


def _float(value: float | int) -> float:
    """Return the value as a float, infinite if it is larger than any."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _literal(node: exp.Expr, known: _Known) -> Range:
    if not isinstance(node, exp.Literal) or node.is_string:
        return _EVERYTHING
    value = float(node.this)
    return value, value


def _negated(node: exp.Expr, known: _Known) -> Range:
    low, high = _inner(node, known)
    return -high, -low


def _added(node: exp.Expr, known: _Known) -> Range:
    left, right = _operands(node, known)
    return left[0] + right[0], left[1] + right[1]


def _subtracted(node: exp.Expr, known: _Known) -> Range:
    left, right = _operands(node, known)
    return left[0] - right[1], left[1] - right[0]


def _multiplied(node: exp.Expr, known: _Known) -> Range:
    if node.this.unnest() == node.expression.unnest():
        return _squared(_inner(node, known))
    left, right = _operands(node, known)
    return _corners(a * b for a in left for b in right)


def _squared(interval: Range) -> Range:
    low, high = _magnitude(interval)
    return low * low, high * high


def _divided(node: exp.Expr, known: _Known) -> Range:
    left, right = _operands(node, known)
    if right[0] <= 0 <= right[1]:
        return _EVERYTHING
    return _corners(a / b for a in left for b in right)


def _divided_whole(node: exp.Expr, known: _Known) -> Range:
    return _whole(_divided(node, known))


def _remainder(node: exp.Expr, known: _Known) -> Range:
    """Bound a remainder: it has the dividend's sign and is smaller than the divisor."""
    (low, high), right = _operands(node, known)
    most = _magnitude(right)[1]
    return max(min(low, 0.0), -most), min(max(high, 0.0), most)


def _absolute(node: exp.Expr, known: _Known) -> Range:
    return _magnitude(_inner(node, known))


def _magnitude(interval: Range) -> Range:
    low, high = interval
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


def _rounded(node: exp.Expr, known: _Known) -> Range:
    """Bound ROUND, CEIL, FLOOR, TRUNC and casts to integers by the whole numbers around."""
    digits = node.args.get("decimals")
    low, high = _inner(node, known)
    if digits is None:
        return _whole((low, high))
    places = _interval(digits, known)
    if places[0] != places[1] or not -15 <= places[0] <= 15:
        return _EVERYTHING
    scale = 10.0 ** places[0]
    low, high = _whole((low * scale, high * scale))
    return low / scale, high / scale


def _whole(interval: Range) -> Range:
    low, high = interval
    # As floats: integers of any size would end in an OverflowError.
    return (
        float(math.floor(low)) if math.isfinite(low) else low,
        float(math.ceil(high)) if math.isfinite(high) else high,
    )


def _cast(node: exp.Expr, known: _Known) -> Range:
    kind = node.args["to"].this
    if kind in _INTEGER_TYPES or kind == exp.DType.DECIMAL:
        return _whole(_inner(node, known))
    if kind == exp.DType.BOOLEAN:
        return _TRUTH
    return _inner(node, known)


def _sign(node: exp.Expr, known: _Known) -> Range:
    return -1.0, 1.0


def _root(node: exp.Expr, known: _Known) -> Range:
    low, high = _inner(node, known)
    return math.sqrt(max(0.0, low)), math.sqrt(max(0.0, high))


def _power(node: exp.Expr, known: _Known) -> Range:
    """Bound whole powers only: x ** 2 and the like."""
    low, high = _inner(node, known)
    least, most = _interval(node.expression, known)
    if least != most or least not in (1, 2, 3, 4) or max(abs(low), abs(high)) > 1e60:
        return _EVERYTHING
    if least % 2 == 0:
        low, high = _magnitude((low, high))
    return low**least, high**least


def _extreme(node: exp.Expr, known: _Known) -> Range:
    """Bound LEAST and GREATEST: they skip NULLs, so only literals are sure to tighten."""
    operands = [node.this, *node.expressions]
    low, high = _hull(operands, known)
    sure = [_interval(operand, known) for operand in operands if not operand.find(exp.Column)]
    if isinstance(node, exp.Least):
        return low, min([high, *(end for _, end in sure)])
    return max([low, *(start for start, _ in sure)]), high


def _branched(node: exp.Expr, known: _Known) -> Range:
    return _hull(branches(node), known)


def _stated(node: exp.Expr, known: _Known) -> Range:
    found = ROW_FUNCTIONS[type(node)]
    if found.takes[0] not in MOMENTS:
        return found.between or _EVERYTHING
    return _between(found, node.this, known)


def _extracted(node: exp.Expr, known: _Known) -> Range:
    part = PARTS.get(extracted_part(node.this))
    return _EVERYTHING if part is None else _between(part, node.expression, known)


def _between(part: RowFunction, of: exp.Expr, known: _Known) -> Range:
    """Bound a function; parts of an INTERVAL are other numbers than of a moment: 90 days."""
    bounded = not set(part.takes) <= set(MOMENTS) or moment_type(of, known.table) is not None
    return (part.between if bounded or _is_time(of.unnest(), known.table) else None) or _EVERYTHING


def _is_time(node: exp.Expr, table: Table) -> bool:
    column = table.column(node.name) if isinstance(node, exp.Column) else None
    return column is not None and column.type.kind.startswith("TIME")


def _seconds(node: exp.Expr, known: _Known) -> Range:
    return moment_range(node.this, known.policy)


def _apart(node: exp.Expr, known: _Known) -> Range:
    """Bound the number of days from one moment to another."""
    if fold(node.args["unit"].name) != "day":
        return _EVERYTHING
    (low, high), (first, last) = (
        moment_range(m, known.policy) for m in (node.this, node.expression)
    )
    return _days(low) - _days(last), _days(high) - _days(first)


def _days(seconds: float) -> float:
    return float(seconds // DAY_SECONDS) if math.isfinite(seconds) else seconds


def _operands(node: exp.Expr, known: _Known) -> tuple[Range, Range]:
    return _interval(node.this, known), _interval(node.expression, known)


def _corners(values: Iterable[float]) -> Range:
    found = list(values)
    return (math.nan, math.nan) if any(map(math.isnan, found)) else (min(found), max(found))


def _hull(nodes: Iterable[exp.Expr], known: _Known) -> Range:
    found = [_interval(node, known) for node in nodes]
    if not found:
        return _EVERYTHING
    return min(low for low, _ in found), max(high for _, high in found)


_Bound: TypeAlias = Callable[[exp.Expr, _Known], Range]
_RULES: Rules[_Bound] = grouped_rules(
    {
        "this": {
            exp.Paren: _inner,
            exp.Neg: _negated,
            exp.Abs: _absolute,
            exp.Sign: _sign,
            exp.Sqrt: _root,
            exp.TimeToUnix: _seconds,
            **{node: _stated for node, found in ROW_FUNCTIONS.items() if found.between},
        },
        "this table? db? catalog?": {exp.Column: _column},
        "this is_string": {exp.Literal: _literal},
        "this expression": {
            exp.Add: _added,
            exp.Sub: _subtracted,
            exp.Mul: _multiplied,
            exp.Div: _divided,
            exp.IntDiv: _divided_whole,
            exp.Mod: _remainder,
            exp.Pow: _power,
            exp.Extract: _extracted,
            exp.Nullif: _branched,
        },
        "this expression unit date_part_boundary?": {exp.DateDiff: _apart},
        "this decimals": dict.fromkeys((exp.Round, exp.Ceil, exp.Floor, exp.Trunc), _rounded),
        "this to safe?": {exp.Cast: _cast, exp.TryCast: _cast},
        "this expressions ignore_nulls!": {exp.Least: _extreme, exp.Greatest: _extreme},
        "this ifs default": {exp.Case: _branched},
        "this true false": {exp.If: _branched},
        "this expressions": {exp.Coalesce: _branched},
    }
)

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_WHOLE_ARITHMETIC = (*_ARITHMETIC, exp.IntDiv, exp.Mod)
_CHOICES = (exp.Case, exp.If, exp.Coalesce, exp.Nullif)
_OF_ONE = (exp.Paren, exp.Neg, exp.Abs, exp.Round, exp.Trunc)
_OF_NUMBERS: tuple[type[exp.Expr], ...] = (
    *(*_OF_ONE, exp.Ceil, exp.Floor, exp.Sign, exp.Log),
    *(node for node in nodes_giving(DOUBLE) if node is not exp.TimeToUnix),
)
_COUNTS: tuple[type[exp.Expr], ...] = (exp.DateDiff, *nodes_giving_integers())
_ALWAYS_NUMBERS = (*_COUNTS, exp.Extract, exp.TimeToUnix)
_MACHINE_DIGITS = 18


def is_integral(node: exp.Expr, table: Table) -> bool:
    """Tell whether an expression is, by its form, of an integer type; such values cannot be NaN."""
    if not is_row_node(node):
        return False
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return column is not None and column.type.is_integer
    if isinstance(node, exp.Literal):
        return bool(node.is_int)
    if isinstance(node, _OF_ONE):
        return is_integral(node.this, table)
    if isinstance(node, _WHOLE_ARITHMETIC):
        return is_integral(node.this, table) and is_integral(node.expression, table)
    if isinstance(node, exp.Cast):
        return node.to.this in _INTEGER_TYPES
    if isinstance(node, exp.Extract):
        return extracted_part(node.this) in PARTS
    if isinstance(node, exp.Least | exp.Greatest):
        return all(is_integral(operand, table) for operand in [node.this, *node.expressions])
    if isinstance(node, _CHOICES):
        values = branches(node)
        return bool(values) and all(is_integral(value, table) for value in values)
    return isinstance(node, (exp.Sign, *_COUNTS))


def is_exact(node: exp.Expr, table: Table) -> bool:
    """Tell whether no value can be NaN, as with integers, decimals and their arithmetic."""
    if not is_row_node(node):
        return False
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return column is not None and (column.type.is_decimal or column.type.is_integer)
    if isinstance(node, exp.Literal):
        return "e" not in node.this.lower()
    if isinstance(node, _OF_ONE):
        return is_exact(node.this, table)
    if isinstance(node, _ARITHMETIC):
        return is_exact(node.this, table) and is_exact(node.expression, table)
    if isinstance(node, _CHOICES):
        return all(is_exact(value, table) for value in branches(node))
    return is_integral(node, table)


class Numbers(Enum):
    """The kind of a number by its form."""

    MACHINE = "machine"  # integers of at most 64 bits, which can be compared without a cast
    EXACT = "exact"  # integers and decimals: never NaN
    ANY = "any"


def numbers_of(node: exp.Expr, table: Table) -> Numbers:
    """Tell which kind of numbers the values of an expression are."""
    if not is_exact(node, table):
        return Numbers.ANY
    machine = is_integral(node, table) and not any(_may_be_huge(n, table) for n in node.walk())
    return Numbers.MACHINE if machine else Numbers.EXACT


def _may_be_huge(node: exp.Expr, table: Table) -> bool:
    if isinstance(node, exp.Literal):
        return len(node.this) > _MACHINE_DIGITS
    if not isinstance(node, exp.Column):
        return False
    column = table.column(node.name)
    return column is None or column.type.is_huge_integer


def is_number(node: exp.Expr, table: Table) -> bool:
    """Tell whether an expression is, by its form, a number: no text, truth value or date."""
    if not is_row_node(node):
        return False
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return column is not None and column.type.is_numeric
    if isinstance(node, INSIDE):
        inner = inner_type(node, partial(_type_in, table))
        return inner is not None and inner.is_numeric
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Cast):
        return node.to.this in _NUMBER_TYPES
    if isinstance(node, exp.Sub):  # the days between two dates are a number
        operands = (node.this, node.expression)
        dates = all(moment_type(operand, table) == DATE for operand in operands)
        return dates or all(is_number(operand, table) for operand in operands)
    if isinstance(node, exp.Add | exp.Mul | exp.Div | exp.IntDiv | exp.Mod):
        return is_number(node.this, table) and is_number(node.expression, table)
    if isinstance(node, exp.Least | exp.Greatest):
        return all(is_number(operand, table) for operand in [node.this, *node.expressions])
    if isinstance(node, _CHOICES):
        return all(is_number(value, table) for value in branches(node))
    if isinstance(node, _OF_NUMBERS):
        return is_number(node.this, table)
    return isinstance(node, _ALWAYS_NUMBERS)


def _type_in(table: Table, node: exp.Column) -> SqlType | None:
    column = table.column(node.name)
    return None if column is None else column.type


def is_truth(node: exp.Expr, table: Table) -> bool:
    """Tell whether an expression is a condition or a BOOLEAN column."""
    if not is_row_node(node):
        return False
    if isinstance(node, exp.Paren):
        return is_truth(node.this, table)
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        return column is not None and column.type.kind == "BOOLEAN"
    return isinstance(node, _LOGIC)

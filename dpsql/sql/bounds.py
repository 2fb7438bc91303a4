"""Bounds of summed expressions, from declared column bounds by interval arithmetic.

The bounds only decide where values are clamped, and every row is clamped to them, so a bound that
is too tight costs accuracy and never privacy. No data is read.
"""

from __future__ import annotations

import math

from sqlglot import exp

from dpsql.errors import QueryRefused
from dpsql.policy import TablePolicy
from dpsql.query import RELEASED_BITS, Lattice
from dpsql.schema import Table, is_integer

FINE_STEPS = 2**30  # row values are rounded to about this many steps across their range
RELEASED_STEPS = 2**RELEASED_BITS
_LARGEST_BOUND = 1e15

Interval = tuple[float, float]


def interval_of(node: exp.Expr, table: TablePolicy) -> Interval | None:
    """The (lower, upper) bounds of an expression, or None where a part has no declared bounds."""
    if isinstance(node, exp.Paren):
        return interval_of(node.this, table)
    if isinstance(node, exp.Column):
        column = table.column(node.name)
        if column is None or column.lower is None or column.upper is None:
            return None
        return float(column.lower), float(column.upper)
    if isinstance(node, exp.Literal) and not node.is_string:
        value = float(node.this)
        return value, value
    if isinstance(node, exp.Neg):
        inner = interval_of(node.this, table)
        return None if inner is None else (-inner[1], -inner[0])
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return _binary(node, table)
    if isinstance(node, exp.Least | exp.Greatest):
        return _extreme(node, table)
    if isinstance(node, exp.Case):
        return _hull([interval_of(branch, table) for branch in _branches(node)])
    return None


def _extreme(node: exp.Least | exp.Greatest, table: TablePolicy) -> Interval | None:
    """LEAST and GREATEST skip NULLs: only literals are sure to take part and so to tighten."""
    operands = [node.this, *node.expressions]
    hull = _hull([interval_of(operand, table) for operand in operands])
    if hull is None:
        return None
    literals = [
        interval[0]
        for operand in operands
        if not operand.find(exp.Column) and (interval := interval_of(operand, table)) is not None
    ]
    if isinstance(node, exp.Least):
        return hull[0], min([hull[1], *literals])
    return max([hull[0], *literals]), hull[1]


def _branches(node: exp.Case) -> list[exp.Expr]:
    """The values a CASE can take, NULL aside (a NULL takes no part in a sum)."""
    values = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    values += [] if default is None else [default]
    return [value for value in values if not isinstance(value, exp.Null)]


def _hull(intervals: list[Interval | None]) -> Interval | None:
    known = [interval for interval in intervals if interval is not None]
    if len(known) < len(intervals) or not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _binary(node: exp.Add | exp.Sub | exp.Mul, table: TablePolicy) -> Interval | None:
    left, right = interval_of(node.this, table), interval_of(node.expression, table)
    if left is None or right is None:
        return None
    if isinstance(node, exp.Add):
        return left[0] + right[0], left[1] + right[1]
    if isinstance(node, exp.Sub):
        return left[0] - right[1], left[1] - right[0]
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def is_integral(node: exp.Expr, schema: Table) -> bool:
    """True if the expression combines integer columns and integer literals by +, -, * and CASE."""
    if isinstance(node, exp.Column):
        column = schema.column(node.name)
        return column is not None and is_integer(column.type)
    if isinstance(node, exp.Literal):
        return bool(node.is_int)
    if isinstance(node, exp.Paren | exp.Neg):
        return is_integral(node.this, schema)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return is_integral(node.this, schema) and is_integral(node.expression, schema)
    if isinstance(node, exp.Least | exp.Greatest):
        return all(is_integral(operand, schema) for operand in [node.this, *node.expressions])
    if isinstance(node, exp.Case):
        return all(is_integral(branch, schema) for branch in _branches(node))
    return False


def lattice_for(bounds: Interval, integral: bool, max_rows_contributed: int) -> Lattice:
    """The grids for a value in ``bounds``, of which a unit may add so many rows per group."""
    lower, upper = bounds
    reach = max(abs(lower), abs(upper))
    if not math.isfinite(reach) or reach > _LARGEST_BOUND:
        raise QueryRefused(
            f"the bounds of the summed expression exceed {_LARGEST_BOUND:g} in size",
            code="bounds_too_large",
            hint="Declare tighter lower and upper bounds: noise grows with them.",
        )
    quantum = 1.0
    whole = integral and lower == int(lower) and upper == int(upper)
    if not (whole and reach <= FINE_STEPS):
        exponent = math.ceil(math.log2(reach / FINE_STEPS)) if reach > 0 else -30
        quantum = 2.0**exponent
    low, high = math.floor(lower / quantum), math.ceil(upper / quantum)
    total = max_rows_contributed * max(abs(low), abs(high), 1)
    coarsening = 1 << max(0, math.ceil(math.log2(total / RELEASED_STEPS)))
    return Lattice(lower, upper, quantum, low, high, coarsening, integral)

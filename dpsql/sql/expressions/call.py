"""An aggregate as it was written: the function, its FILTER, and the bounds given with it.

    AVG(x, contribution_bounds_per_row => (0, 100)) FILTER (WHERE y > 3)

FILTER is rewritten away: only rows that satisfy the condition have an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.expressions.ranges import Range
from dpsql.sql.syntax.dialect import BOUNDS_PREFIX, BoundedAggregate

PER_ROW = f"{BOUNDS_PREFIX}_per_row"
PER_GROUP = f"{BOUNDS_PREFIX}_per_group"
WRAPPERS = (exp.Filter, exp.WithinGroup, BoundedAggregate)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function with its bounds, the condition of its FILTER, and the order of its
    WITHIN GROUP, if it has them."""

    function: exp.AggFunc
    condition: exp.Expr | None
    per_row: Range | None
    per_group: Range | None
    order: exp.Order | None

    def filtered(self, argument: exp.Expr) -> exp.Expr:
        """Return the argument, NULL on rows that FILTER leaves out."""
        if self.condition is None:
            return argument.copy()
        kept = exp.If(this=self.condition.copy(), true=argument.copy())
        return exp.Case(ifs=[kept])


def refuse_bounds(tail: exp.Query, text: str) -> None:
    """Refuse bounds on an aggregate over released rows. Raises ``QueryRefused``."""
    for node in tail.find_all(BoundedAggregate):
        raise refusal(
            text,
            "contribution bounds belong to an aggregate over a private table",
            "bounds_not_private",
            node,
            hint="Released rows are safe to show: nothing has to be bounded there.",
        )


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a node aggregates private rows, other than within a window function."""
    above = node.parent
    while isinstance(above, WRAPPERS):
        above = above.parent
    return isinstance(_function(node), exp.AggFunc) and not isinstance(above, exp.Window)


def read_call(node: exp.Expr, text: str) -> AggregateCall:
    """Read what an aggregate consists of.

    Raises ``QueryRefused`` for bounds that are not two numbers.
    """
    condition: exp.Expr | None = None
    order: exp.Order | None = None
    bounds: dict[str, Range] = {}
    while isinstance(node, WRAPPERS):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            order = node.expression
        else:
            bounds = dict(_bound(kwarg, text) for kwarg in node.expressions)
            if len(bounds) < len(node.expressions):
                raise refusal(
                    text,
                    "these bounds are given twice",
                    "bad_bounds",
                    node,
                    hint="Give each of them once.",
                )
        node = node.this
    assert isinstance(node, exp.AggFunc)
    return AggregateCall(node, condition, bounds.get(PER_ROW), bounds.get(PER_GROUP), order)


def _function(node: exp.Expr) -> exp.Expr:
    while isinstance(node, WRAPPERS):
        node = node.this
    return node


def _bound(kwarg: exp.Kwarg, text: str) -> tuple[str, Range]:
    name = fold(kwarg.this.name)
    if name not in (PER_ROW, PER_GROUP):
        raise refusal(
            text,
            f"there are no bounds named {name}",
            "unknown_bounds",
            kwarg,
            hint=f"Bounds: {PER_ROW} => (lower, upper), {PER_GROUP} => (lower, upper).",
        )
    pair = kwarg.expression
    ends = [_number(end) for end in pair.expressions] if isinstance(pair, exp.Tuple) else []
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None or not low < high:
        raise refusal(
            text,
            f"{name} takes two numbers, the lower one first",
            "bad_bounds",
            kwarg,
            hint=f"For example {name} => (0, 100).",
        )
    return name, (low, high)


def _number(node: exp.Expr) -> float | None:
    """Read a finite number as it is written, or return None for anything else."""
    node, sign = node.unnest(), 1.0
    if isinstance(node, exp.Neg):
        node, sign = node.this.unnest(), -1.0
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = sign * float(node.this)
    return value if math.isfinite(value) else None

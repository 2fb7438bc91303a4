"""Aggregate calls: the function, its FILTER, and its named options.

    AVG(x, contribution_bounds_per_row => (0, 100)) FILTER (WHERE y > 3)
    COUNT(*, max_error => 20)

FILTER is rewritten away: only rows that satisfy the condition have an argument.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import ParameterError
from dpsql.ir.measures import AggregateKind, MaxError
from dpsql.policy.parameters import check_value
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.expressions.ranges import Range
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.dialect import (
    MAX_ERROR,
    OWN_EPSILON,
    PER_GROUP,
    PER_ROW,
    REPORT_FORMAT,
    BoundedAggregate,
)
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import display, written_name

WRAPPERS = (exp.Filter, exp.WithinGroup, BoundedAggregate)
_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    **{node: NodeArguments("this") for kind in AggregateKind for node in kind.value.nodes},
    **dict.fromkeys((exp.Sum, exp.Where, exp.ApproxDistinct), NodeArguments("this")),
    exp.Count: NodeArguments("this expressions big_int?"),
    exp.CountIf: NodeArguments("this zero_on_all_null"),
    **dict.fromkeys((exp.Min, exp.Max), NodeArguments("this expressions")),
    **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), NodeArguments("this quantile")),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), NodeArguments("this expression")),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), NodeArguments("this expression")),
    exp.AnyValue: NodeArguments("this"),
    **dict.fromkeys((exp.Filter, exp.WithinGroup), NodeArguments("this expression")),
    **dict.fromkeys((BoundedAggregate,), NodeArguments("this expressions")),
    exp.Distinct: NodeArguments("expressions"),
    exp.Order: NodeArguments("this expressions"),
    exp.Ordered: NodeArguments("this desc nulls_first?"),  # values are not NULL
    exp.Star: NodeArguments(""),
}
"""What is read of the nodes that an aggregate consists of, beside the expressions over rows."""
_UNREAD: Final[Mapping[str, tuple[str, str]]] = {
    REPORT_FORMAT: (
        "a report is JSON, of one aggregate: there are none of protocol buffers",
        "Write report_format => JSON, or ask for the ends of the interval: SELECT SUM(x) AS s, "
        "DP_INTERVAL_LOW(s), DP_INTERVAL_HIGH(s) …. In Python, result.intervals() has them.",
    ),
    OWN_EPSILON: (
        "an aggregate has no epsilon of its own: a SELECT divides its epsilon among them",
        "Give it to the SELECT, OPTIONS (epsilon = 1), or say how far an aggregate may be off: "
        f"{MAX_ERROR} => 20.",
    ),
}
"""Arguments of GoogleSQL's aggregates that there is no reading for: the reason, and what to do."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function with its bounds, FILTER, order of WITHIN GROUP, and maximum error.

    ``of_moments``: the numbers that it takes stand for dates or timestamps.
    """

    function: exp.AggFunc
    condition: exp.Expr | None
    per_row: Range | None
    per_group: Range | None
    order: exp.Order | None
    max_error: MaxError | None = None
    of_moments: bool = False

    def filtered(self, argument: exp.Expr) -> exp.Expr:
        """Return the argument, NULL on rows that FILTER leaves out."""
        if self.condition is None:
            return argument.copy()
        kept = exp.If(this=self.condition.copy(), true=argument.copy())
        return exp.Case(ifs=[kept])


def refuse_bounds(tail: exp.Query, text: str) -> None:
    """Refuse bounds and errors on an aggregate over released rows. Raises ``QueryRefused``."""
    for node in tail.find_all(BoundedAggregate):
        errors = all(fold(kwarg.this.name) == MAX_ERROR for kwarg in node.expressions)
        belongs = f"{MAX_ERROR} belongs" if errors else "contribution bounds belong"
        raise refusal(
            text,
            f"{belongs} to an aggregate over a private table",
            "bounds_not_private",
            node,
            hint="Released rows are safe to show: nothing has to be bounded there, and nothing "
            "gets noise.",
        )


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a node aggregates private rows, other than within a window function."""
    above = node.parent
    while isinstance(above, WRAPPERS):
        above = above.parent
    return isinstance(_function(node), exp.AggFunc) and not isinstance(above, exp.Window)


def read_call(node: exp.Expr, text: str) -> AggregateCall:
    """Read the parts of an aggregate.

    Raises ``QueryRefused`` for bounds that are not two numbers, and for a form that says more than
    is read of it; ``ParameterError`` for an error that is no number in range. All have the place.
    """
    _check_arguments(node, text)
    condition: exp.Expr | None = None
    order: exp.Order | None = None
    bounds: dict[str, Range] = {}
    error: MaxError | None = None
    while isinstance(node, WRAPPERS):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            order = node.expression
        else:
            names = [fold(kwarg.this.name) for kwarg in node.expressions]
            if len(set(names)) < len(names):
                raise refusal(
                    text,
                    "these bounds are given twice",
                    "bad_bounds",
                    node,
                    hint="Give each of them once.",
                )
            for name, kwarg in zip(names, node.expressions, strict=True):
                if name == MAX_ERROR:
                    error = _max_error(kwarg, text)
                else:
                    bounds.update([_bound(kwarg, text)])
        node = node.this
    assert isinstance(node, exp.AggFunc)
    return AggregateCall(node, condition, bounds.get(PER_ROW), bounds.get(PER_GROUP), order, error)


def _check_arguments(node: exp.Expr, text: str) -> None:
    function = _function(node)
    assert isinstance(function, exp.Func)
    for part in node.walk():
        known = _READ.get(type(part))
        if known is not None and not known.hold(part):
            raise refusal(
                text,
                f"{written_name(function)} in this form is not available",
                "aggregate_not_supported",
                node,
                hint="Write its argument alone; docs/sql.md shows each aggregate.",
            )


def _function(node: exp.Expr) -> exp.Expr:
    while isinstance(node, WRAPPERS):
        node = node.this
    return node


def _bound(kwarg: exp.Kwarg, text: str) -> tuple[str, Range]:
    name = fold(kwarg.this.name)
    if name in _UNREAD:
        reason, hint = _UNREAD[name]
        raise refusal(text, reason, "aggregate_not_supported", kwarg, hint)
    if name not in (PER_ROW, PER_GROUP):
        raise refusal(
            text,
            f"there are no bounds named {name}",
            "unknown_bounds",
            kwarg,
            hint=f"Bounds: {PER_ROW} => (lower, upper), {PER_GROUP} => (lower, upper). The error "
            f"it may have: {MAX_ERROR} => 20.",
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


def _max_error(kwarg: exp.Kwarg, text: str) -> MaxError:
    """Read the maximum error of an aggregate, under the rules of the option of that name."""
    place, written = place_of(text, kwarg), kwarg.expression
    value: object = _number(written) if isinstance(written, exp.Expr) else ""
    if value is None:
        value = display(written)
    try:
        found = check_value(MAX_ERROR, value)
    except ParameterError as error:
        error.place = place
        raise
    assert isinstance(found, float)
    return MaxError(found, place)


def _number(node: exp.Expr) -> float | None:
    """Read a finite number as it is written, or return None for anything else."""
    node, sign = node.unnest(), 1.0
    if isinstance(node, exp.Neg):
        node, sign = node.this.unnest(), -1.0
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    value = sign * float(node.this)
    return value if math.isfinite(value) else None

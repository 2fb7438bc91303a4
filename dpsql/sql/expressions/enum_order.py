"""Refuses comparisons of ENUM values by their order, in expressions over rows.

Who made an ENUM collected its list from rows, so nobody is told it, and its values are texts here.
Texts that are equal are equal values, but their order is another: ``size < 'medium'`` would be
answered by the alphabet. Columns of an ENUM are marked where their names are resolved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from dpsql.errors import QueryRefused
from dpsql.syntax.arguments import when_branches
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name

_MARK: Final = "enumerated"
_COMPARED: Final = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def mark_enumerated(column: exp.Column) -> None:
    """Mark a column of an ENUM."""
    column.meta[_MARK] = True


def is_enumerated(node: exp.Expr) -> bool:
    """Tell whether an expression may have values of an ENUM, and so its order."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return bool(node.meta.get(_MARK))
    return any(map(is_enumerated, outcomes(node)))


def outcomes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the possible values of a CASE, IF, COALESCE, NULLIF, greatest or least."""
    if isinstance(node, exp.Case):
        yield from (branch.args["true"] for branch in when_branches(node))
        yield from filter(None, [node.args.get("default")])
    elif isinstance(node, exp.If):
        yield from filter(None, [node.args["true"], node.args.get("false")])
    elif isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        yield from (node.this, *node.expressions)
    elif isinstance(node, exp.Nullif):
        yield node.this


def ordered_operands(node: exp.Expr) -> tuple[exp.Expr, ...]:
    """Return the operands that a node compares by their order."""
    if isinstance(node, _COMPARED):
        return node.this, node.expression
    if isinstance(node, exp.Between):
        return node.this, node.args["low"], node.args["high"]
    if isinstance(node, exp.Greatest | exp.Least | exp.Max | exp.Min):
        return (node.this, *node.expressions)
    return (node.expression,) if isinstance(node, exp.ArgMax | exp.ArgMin) else ()


def refuse_enum_order(node: exp.Expr, text: str) -> None:
    """Refuse a node that compares values of an ENUM by their order. Raises ``QueryRefused``."""
    for operand in ordered_operands(node):
        if isinstance(operand, exp.Expr) and is_enumerated(operand):
            raise enum_order(operand, text)


def enum_order(node: exp.Expr, text: str) -> QueryRefused:
    """Build the error for a value of an ENUM whose order is asked for."""
    name = output_name(node.unnest())
    return QueryRefused(
        f"{name} is an ENUM in the database: its order is that of its list, which is not public",
        code="enum_order",
        place=place_of(text, node),
        hint=f"Compare it as a text, CAST({name} AS VARCHAR), or list values: {name} IN ('…'). "
        "ORDER BY a key follows the list of values that the data owner declares (domain), if any.",
    )

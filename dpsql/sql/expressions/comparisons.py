"""Comparisons that cast every text they meet, found before they are run.

An engine compares a text with a number by casting the text, and fails at the first that is none.
Over private rows no row may fail, so such a row would count as one that is not alike: a condition
``country = 1`` would be answered, by nothing. Types announce it, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import BOOLEAN, DOUBLE, INTEGER, UNKNOWN, SqlType
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.syntax.arguments import when_branches
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name, to_sql

_READ_FROM_TEXT = frozenset(
    {"BOOLEAN", "DATE", "DECIMAL", "INTERVAL", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
    | {"TIMESTAMPTZ", "UUID"}
)
TypeOf: TypeAlias = Callable[[str], SqlType]
"""The type of a column of generated SQL."""

_TWO_SIDED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def refuse_unlike(node: exp.Expr, type_of: TypeOf, text: str) -> None:
    """Refuse the comparison of a column of texts with a value of another type.

    ``node`` is resolved, and ``type_of`` tells its columns' types. What is computed is not looked
    into: its types are the engine's business. Raises ``QueryRefused``.
    """
    for part in outside_subqueries(node):
        operands = [operand.unnest() for operand in _compared(part)]
        types = [(operand, _type(operand, type_of)) for operand in operands]
        texts = [operand for operand, type_ in types if type_.kind == "VARCHAR"]
        others = [(operand, type_) for operand, type_ in types if _is_read_from_text(type_)]
        if texts and others:
            raise _unlike(texts[0], *others[0], text)


def refuse_unlike_columns(name: str, types: Sequence[SqlType], node: exp.Expr, text: str) -> None:
    """Refuse a join on columns of one ``name`` where only one side holds texts.

    ``node`` is the join that USING or NATURAL stands in. Raises ``QueryRefused``.
    """
    others = [type_.kind for type_ in types if _is_read_from_text(type_)]
    if others and any(type_.kind == "VARCHAR" for type_ in types):
        raise QueryRefused(
            f"{name} is a text on one side of the join, and of type {others[0]} on the other",
            code="text_compared",
            place=place_of(text, node),
            hint=f"Write JOIN … ON, and read values from the text: {name}::{others[0]} is NULL in "
            "rows where it is none.",
        )


def _is_read_from_text(type_: SqlType) -> bool:
    """Tell whether values of a type are compared with texts by casting the texts."""
    return type_.is_integer or type_.is_float or type_.kind in _READ_FROM_TEXT


def _unlike(one: exp.Expr, other: exp.Expr, type_: SqlType, text: str) -> QueryRefused:
    name, kind = output_name(one), type_.kind
    return QueryRefused(
        f"{name} is a text, and is compared with a value of type {kind}",
        code="text_compared",
        place=place_of(text, other) or place_of(text, one),
        hint=f"Write the value as a text ('…'), or read values from the text: {name}::{kind} is "
        "NULL in rows where it is none.",
    )


def _compared(node: exp.Expr) -> Sequence[exp.Expr]:
    """List the operands that a node compares."""
    if isinstance(node, _TWO_SIDED):
        return (node.this, node.expression)
    if isinstance(node, exp.Between):
        return (node.this, node.args["low"], node.args["high"])
    if isinstance(node, exp.In):
        return (node.this, *node.expressions)
    if isinstance(node, exp.Case) and node.this is not None:
        return (node.this, *(branch.this for branch in when_branches(node)))
    return ()


def _type(node: exp.Expr, type_of: TypeOf) -> SqlType:
    """Return the type of a column, a cast or a constant; UNKNOWN for computed values.

    A constant in quotes has none either: it takes that of what it is compared with.
    """
    if isinstance(node, exp.Neg):
        return _type(node.this, type_of)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return UNKNOWN
        return INTEGER if node.is_int else DOUBLE
    if isinstance(node, exp.Boolean):
        return BOOLEAN
    if isinstance(node, exp.Cast):
        return SqlType.of(to_sql(node.to))
    return type_of(node.name) if isinstance(node, exp.Column) else UNKNOWN

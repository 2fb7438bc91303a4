"""Types of values inside values: elements of lists, and fields of structs."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.sql_types import SqlType
from dpsql.syntax.row_nodes import is_row_node

INSIDE = (exp.Bracket, exp.StructExtract)
"""Nodes that stand for an element of a list, and for a field of a struct."""


def inner_type(node: exp.Expr, type_of: Callable[[exp.Column], SqlType | None]) -> SqlType | None:
    """Return the declared type of a column, an element or a field; None where none is known."""
    if not is_row_node(node):
        return None
    if isinstance(node, exp.Column):
        return type_of(node)
    if isinstance(node, exp.Paren):
        return inner_type(node.this, type_of)
    if not isinstance(node, INSIDE):
        return None
    outer = inner_type(node.this, type_of)
    if outer is None:
        return None
    return outer.element if isinstance(node, exp.Bracket) else outer.member(node.expression.name)

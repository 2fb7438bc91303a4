"""Casts that SQLite and MySQL make without a word: by types of columns and formats of moments.

    d LIKE '2012-01%'             CAST(d AS VARCHAR) LIKE '2012-01%'      of a date or timestamp
    substr(d, 1, 4)               substr(CAST(d AS VARCHAR), 1, 4)
    strftime(d, '%Y') - 1         CAST(strftime(d, '%Y') AS INTEGER) - 1
    strftime(d, '%m') IN (6, 7)   CAST(strftime(d, '%m') AS INTEGER) IN (6, 7)

There, moments are texts as ISO writes them, and texts of digits are numbers in arithmetic and
beside numbers. DuckDB has no such functions of moments and texts, so nothing that it reads
otherwise is meant. Beside a text ``strftime`` stays a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import DATE, TIMESTAMP, SqlType
from dpsql.syntax.arguments import NodeArguments

TypeHere: TypeAlias = Callable[[exp.Column], SqlType | None]
"""The type of a column by its name in the text; None if there is no such column."""

_OF_DIGITS: Final = frozenset({"%Y", "%m", "%d", "%j", "%H", "%M", "%S"})
"""Formats of one part of a moment, of digits alone."""
_FORMATTED: Final = NodeArguments("this format")
_TWO_SIDED: Final = NodeArguments("this expression")
_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    exp.Between: NodeArguments("this low high"),
    exp.In: NodeArguments("this expressions"),
}
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)


def text_of_moment(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write a function of a text whose argument is a date or a timestamp as one of its text.

    None for any other argument.
    """
    moment = node.this.unnest() if isinstance(node.this, exp.Expr) else None
    if not isinstance(moment, exp.Column) or type_of(moment) not in (DATE, TIMESTAMP):
        return None
    made = node.copy()
    made.set("this", exp.cast(moment.copy(), exp.DType.VARCHAR))
    return made


def number_of_text(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Cast texts of digits where a node computes with them, or compares them with numbers.

    None where there are none.
    """
    if not _READ.get(type(node), _TWO_SIDED).hold(node):
        return None
    operands = list(node.iter_expressions())
    others = [each for each in operands if not _has_digits(each.unnest())]
    computes = isinstance(node, _ARITHMETIC)
    if not all(_is_number(each.unnest(), type_of) for each in others):
        return None
    if len(others) == len(operands) or not (others or computes):
        return None
    made = node.copy()
    for text in list(made.iter_expressions()):
        if _has_digits(text.unnest()):
            text.replace(exp.cast(text.unnest().copy(), exp.DType.INT))
    return made


def _has_digits(node: exp.Expr) -> bool:
    """Tell whether a node is a part of a moment as a text of digits."""
    form = node.args.get("format")
    if not isinstance(node, exp.TimeToStr) or not _FORMATTED.hold(node):
        return False
    return isinstance(form, exp.Literal) and form.is_string and form.name in _OF_DIGITS


def _is_number(node: exp.Expr, type_of: TypeHere) -> bool:
    """Tell whether a node is surely a number, by its form."""
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Column):
        found = type_of(node)
        return found is not None and (found.is_integer or found.is_float)
    if isinstance(node, exp.Neg | exp.Paren):
        return _is_number(node.this, type_of)
    if isinstance(node, _ARITHMETIC) and _TWO_SIDED.hold(node):
        return all(_is_number(each, type_of) for each in node.iter_expressions())
    return type(node) is exp.Cast and node.to.this == exp.DType.INT


NUMBERS_OF_TEXTS: Final = (
    *_ARITHMETIC,
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In),
)
"""The nodes that compute with their operands as numbers, or compare them."""
TEXTS_OF_MOMENTS: Final = (exp.Like, exp.ILike, exp.Substring, exp.Left, exp.Right)
"""The nodes whose first argument is a text."""

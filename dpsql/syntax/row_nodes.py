"""The syntax nodes allowed in expressions over private rows, with their arguments.

Whatever is not listed is refused, and so is a listed node with an argument that is not: what a
newer parser makes of a text is closed until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.wordlists import words
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.row_functions import ROW_FUNCTIONS


def nodes_named(names: str) -> tuple[type[exp.Expr], ...]:
    """Return the parser's classes of these names.

    Raises ``AttributeError`` for one that it has not.
    """
    return tuple(getattr(exp, name) for name in words(names))


def _shaped(lines: str) -> dict[type[exp.Expr], NodeArguments]:
    """Read lines of arguments and of the nodes that may have these and no others."""
    found: dict[type[exp.Expr], NodeArguments] = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        arguments, _, names = line.partition(":")
        found.update(dict.fromkeys(nodes_named(names), NodeArguments(arguments)))
    return found


_OPERATORS: Final = _shaped(
    """
    this expression: And Or EQ NEQ GT GTE LT LTE Is NullSafeEQ NullSafeNEQ
    this expression: Add Sub Mul Div IntDiv Mod
    this expression safe?: DPipe
    this expression negate: Like ILike
    this low high: Between
    this expressions: In Bracket
    this ifs default: Case
    this true false: If
    this to safe?: Cast TryCast
    this: Not Neg Paren
    """
)
_LEAVES: Final = _shaped(
    """
    this table db catalog: Column
    this quoted: Identifier
    this is_string: Literal
    this: Boolean Var DataTypeParam
    this expressions: DataType
    this unit: Interval
    : Null
    """
)
_FUNCTIONS: Final = _shaped(
    """
    this: Abs Sign
    this decimals: Ceil Floor Round Trunc
    this expression: ArrayContains ArrayPosition Extract Left Log Nullif Right StructExtract
    this expressions: Coalesce
    this expressions ignore_nulls!: Greatest Least
    expressions safe? coalesce!: Concat
    this start length: Substring
    this expression position: Trim
    this unit: DateTrunc TimestampTrunc
    this expression unit date_part_boundary?: DateDiff
    """
) | {
    **{node: NodeArguments(each.reads) for node, each in ROW_FUNCTIONS.items()},
    exp.DateBin: NodeArguments("this expression"),
}
FUNCTION_NAMES = tuple(
    sorted({fold(n) for kind in _FUNCTIONS if issubclass(kind, exp.Func) for n in kind.sql_names()})
)
"""What functions of a row may be called; most may be called otherwise as well."""
ROW_ARGUMENTS: Final[Mapping[type[exp.Expr], NodeArguments]] = MappingProxyType(
    _OPERATORS | _LEAVES | _FUNCTIONS
)
"""The nodes of row expressions, with their arguments."""
_BRANCH: Final = NodeArguments("this true")
ROW_NODES = frozenset(ROW_ARGUMENTS)


def is_row_node(node: exp.Expr) -> bool:
    """Tell whether a node may stand in an expression over a row, with all that it says."""
    found = ROW_ARGUMENTS.get(type(node))
    if found is None or not found.hold(node):
        return False
    return type(node) is not exp.Case or all(map(_BRANCH.hold, node.args["ifs"]))

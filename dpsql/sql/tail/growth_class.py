"""The resources that a tail may take, by its form.

A tail may be any query, and DuckDB does not count the memory of values that are being computed: a
list of a billion numbers, a text that doubles from subquery to subquery. Expressions that are
known to give values of bounded size are listed here; a tail with others runs in a sandbox.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import TailKind
from dpsql.sql.expressions.legality import CAST_TYPES
from dpsql.sql.expressions.text_growth import REPLACED, doublings
from dpsql.syntax.row_nodes import ROW_NODES, nodes_named

MAX_BOUNDED_TEXT = 500  # characters of a text in a tail with values of bounded size
MAX_DOUBLINGS = 5
_SHORT = 9  # digits of a number that no integer type of the engine is too small for

_CLAUSES: Final = nodes_named(
    """
    Alias CTE Cube Distinct Except Exists Fetch From Group GroupingSets Having Intersect Join
    Lateral Limit LimitOptions Offset Order Ordered Pivot Qualify Rollup Select Star Subquery
    Table TableAlias TableSample Union Values Where With
    """
)
_AGGREGATES: Final = nodes_named(
    """
    AnyValue ApproxDistinct ArgMax ArgMin Avg Corr Count CountIf CovarPop CovarSamp CumeDist
    DenseRank Filter First FirstValue Grouping IgnoreNulls Lag Last LastValue Lead LogicalAnd
    LogicalOr Max Median Min Mode NthValue Ntile PercentileCont PercentileDisc PercentRank Rank
    RespectNulls RowNumber Stddev StddevPop StddevSamp Sum Variance VariancePop Window
    WindowSpec WithinGroup
    """
)
_FUNCTIONS: Final = nodes_named(
    """
    Ascii BitwiseAnd BitwiseOr BitwiseXor Cbrt Cos CurrentDate CurrentTimestamp DateFromParts
    Dayname LastDay Monthname Pi Rand RegexpLike Sin SplitPart StrPosition Tan TimeToUnix Try
    Typeof
    """
)
_TYPES = CAST_TYPES | {exp.DType.INT128, exp.DType.INTERVAL, exp.DType.TIMETZ, exp.DType.UUID}
_NAMED_FUNCTIONS = frozenset({"hash", "make_timestamp", "now"})
"""Functions that the parser has no class for."""
# Over private rows constants alone are put into a text; released texts can be put into each other.
_BOUNDED = ROW_NODES.union(_CLAUSES, _AGGREGATES, _FUNCTIONS).difference(REPLACED)
_ROWS = (exp.Cube, exp.Group, exp.GroupingSets, exp.In, exp.Rollup, exp.Values)
_CONSTANTS = (exp.Boolean, exp.Literal, exp.Null)
_ARITHMETIC = (exp.Add, exp.Div, exp.IntDiv, exp.Mod, exp.Mul, exp.Neg, exp.Sub)
_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.In, exp.Is, exp.LT, exp.LTE, exp.NEQ)
_CONDITIONAL = (exp.Connector, exp.Having, exp.Not, exp.Qualify, exp.Where)
_CONDITIONS = (*_COMPARISONS, exp.Connector, exp.Not)
_SURE_FUNCTIONS = (
    *(kind for kind in _AGGREGATES if issubclass(kind, exp.Func)),
    *(exp.Abs, exp.Ceil, exp.Floor, exp.Sqrt),
)
_SURE_OTHERS = (
    *(set(_CLAUSES) - {exp.Except, exp.Exists, exp.Intersect, exp.Pivot, exp.Union, exp.Values}),
    *(exp.Boolean, exp.Column, exp.Identifier, exp.Null, exp.Paren, exp.Tuple),
    *(exp.Filter, exp.Window, exp.WindowSpec),
)


def tail_kind(tree: exp.Query) -> TailKind:
    """Classify a finished tail: bounded only if every node of it is on the list.

    Checked by ``tests/pipeline/test_tail_limits.py``, which measures what bounded tails take.
    """
    nodes = list(tree.walk())
    if not all(map(_is_bounded, nodes)) or doublings(tree) > MAX_DOUBLINGS:
        return TailKind.UNBOUNDED
    return TailKind.SURE if all(map(_is_sure, nodes)) else TailKind.BOUNDED


def _is_bounded(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return len(node.this) <= MAX_BOUNDED_TEXT
    if isinstance(node, exp.DataType):
        return node.this in _TYPES
    if isinstance(node, exp.With):
        return not node.args.get("recursive")
    if isinstance(node, exp.Tuple):  # elsewhere, a value of several parts
        return isinstance(node.parent, _ROWS)
    if isinstance(node, exp.GenerateSeries):  # elsewhere, a list
        ends = (node.args.get("start"), node.args.get("end"), node.args.get("step"))
        numbers = all(end is None or isinstance(end.unnest(), exp.Literal) for end in ends)
        return numbers and isinstance(node.parent, exp.Table)
    if isinstance(node, exp.TimeToStr):
        return isinstance(node.args.get("format"), exp.Literal)
    if isinstance(node, exp.Anonymous):
        return fold(node.name) in _NAMED_FUNCTIONS
    return type(node) in _BOUNDED


def _is_sure(node: exp.Expr) -> bool:
    """Tell whether the engine casts no constant here, and no unknown type to another.

    What is left is arithmetic, comparisons of aggregates with numbers, functions of one value.
    """
    if isinstance(node, exp.Literal):
        return not node.is_string and len(node.this) <= _SHORT
    if isinstance(node, exp.Join):
        return not node.args.get("using") and not node.method
    parts = [part.unnest() for part in node.iter_expressions()]
    constants = sum(isinstance(part, _CONSTANTS) for part in parts)
    if isinstance(node, _ARITHMETIC):
        return constants < len(parts)
    if isinstance(node, _COMPARISONS):
        return constants == len(parts) - 1 and any(map(_is_number, parts))
    if isinstance(node, _CONDITIONAL):
        return all(isinstance(part, _CONDITIONS) for part in parts)
    if isinstance(node, exp.Round):
        return len(parts) - constants == 1
    if isinstance(node, exp.Func):  # a constant beside may be wrong, as in max(x, 0)
        return isinstance(node, _SURE_FUNCTIONS) and len(parts) == 1 and not constants
    return isinstance(node, _SURE_OTHERS)


def _is_number(node: exp.Expr) -> bool:
    """Tell whether a node is an aggregate, released or not: other columns may be of any type."""
    aggregate = f"{INTERNAL_PREFIX}a"
    released = isinstance(node, exp.Column) and node.name.startswith(aggregate)
    return released or isinstance(node, exp.Avg | exp.Count | exp.Sum)

"""Finite sets of values of expressions, by their form alone.

``month(d)`` is 1 to 12 or NULL, ``price > 15`` true, false or NULL, and a CASE of constants one of
these. No data is read, and nothing is taken on trust: every value on every row is among them, which
declared bounds cannot promise. What cannot be proved never to be NULL is NULL for some row. Checked
against the engines by ``tests/pipeline/test_public_keys.py``.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.policy.model import TablePolicy
from dpsql.sql.expressions.ranges import is_integral, is_truth, range_of
from dpsql.sql.expressions.totality import is_sure_condition
from dpsql.syntax.arguments import when_branches
from dpsql.syntax.row_functions import DAYS, MONTHS, ROW_FUNCTIONS

NOTHING_DECLARED: Final = TablePolicy(TableName("nothing"), None)
_EXACT: Final = 2**53
"""Up to here, ends of ranges are exact."""
_FEW: Final = 1_000
_NAMES: Final[Mapping[type[exp.Expr], Sequence[str]]] = {exp.Dayname: DAYS, exp.Monthname: MONTHS}


def finite_values(
    node: exp.Expr,
    table: Table,
    dialect: Dialect,
    most: int,
    valued: Container[str] = (),
    finite: Container[str] = (),
) -> tuple[object, ...] | None:
    """List the values that an expression can have, NULL last; None if they may be others.

    Columns that are ``valued`` are known not to be NULL, and ``finite`` ones are of moments, of
    which none is NULL or infinite. ``most`` limits the length of the list.
    """
    node = node.unnest()
    if is_truth(node, table):
        sure = _is_null_test(node) or _never_null(node, table, dialect, valued)
        return (False, True) if sure else (False, True, None)
    if isinstance(node, exp.Case | exp.If):
        return _constants(_outcomes(node))
    if type(node) in _NAMES:
        names = tuple(_NAMES[type(node)])
        return names if _is_filled(node, valued, finite) else (*names, None)
    return whole_values(node, table, NOTHING_DECLARED, most, valued, finite)


def has_few_values(node: exp.Expr, table: Table) -> bool:
    """Tell whether an expression has few values by its form, whatever is in its columns."""
    node = node.unnest()
    if is_truth(node, table) or type(node) in _NAMES:
        return True
    if isinstance(node, exp.Case | exp.If):
        return len(_constants(_outcomes(node)) or ()) in range(1, _FEW + 1)
    return whole_values(node, table, NOTHING_DECLARED, _FEW) is not None


def whole_values(
    node: exp.Expr,
    table: Table,
    policy: TablePolicy,
    most: int,
    valued: Container[str] = (),
    finite: Container[str] = (),
) -> tuple[object, ...] | None:
    """List the whole numbers within the range of an expression, and NULL unless it has a value.

    With bounds of columns in the policy, values of rows outside of these are not among them. None
    for expressions without a range or of other types, and for more numbers than ``most``. Columns
    are ``valued`` and ``finite`` as in :func:`finite_values`.
    """
    node = node.unnest()
    found = _ends(node, policy, table) if is_integral(node, table) else None
    if found is None or found[1] - found[0] >= most:
        return None
    values = range(found[0], found[1] + 1)
    return tuple(values) if _is_filled(node, valued, finite) else (*values, None)


def _ends(node: exp.Expr, policy: TablePolicy, table: Table) -> tuple[int, int] | None:
    """Return the least and the largest number of an expression that has most numbers between."""
    if isinstance(node, (*ROW_FUNCTIONS, exp.Extract, exp.Sign)):
        found = range_of(node, policy, table)
        return None if found is None else (int(found[0]), int(found[1]))
    if isinstance(node, exp.Least | exp.Greatest | exp.Add | exp.Sub):
        found = range_of(node, policy, table) if _is_dense(node) else None
        whole = found is not None and max(map(abs, found)) <= _EXACT
        return (int(found[0]), int(found[1])) if found is not None and whole else None
    by = _constant(node.expression.unnest()) if isinstance(node, exp.Mod | exp.IntDiv) else None
    if not isinstance(by, int) or isinstance(by, bool) or by < 1:
        return None
    found = range_of(node.this, policy, table)
    if isinstance(node, exp.Mod):
        low, high = (-math.inf, math.inf) if found is None else found
        return int(max(min(low, 0), 1 - by)), int(min(max(high, 0), by - 1))
    if found is None or max(map(abs, found)) > _EXACT:
        return None
    low, high = (int(end) for end in found)
    return _toward_zero(low, by), _toward_zero(high, by)


def _is_dense(node: exp.Expr) -> bool:
    """Tell whether an expression of whole numbers has most of those between its ends.

    As ``least(greatest(x // 10, 0), 5) + 1`` has, a number of a bucket, and ``10 * x`` has not.
    """
    node = node.unnest()
    if isinstance(node, exp.Least | exp.Greatest):
        return all(map(_is_dense, (node.this, *node.expressions)))
    if isinstance(node, exp.Add | exp.Sub):
        sides = (node.this, node.expression)
        return any(map(_is_whole, sides)) and all(map(_is_dense, sides))
    if isinstance(node, exp.IntDiv):
        return _is_whole(node.expression) and _is_dense(node.this)
    known = isinstance(node, (exp.Column, *ROW_FUNCTIONS, exp.Extract, exp.Sign))
    return known or _is_whole(node)


def _is_whole(node: exp.Expr) -> bool:
    value = _constant(node.unnest())
    return isinstance(value, int) and not isinstance(value, bool)


def _is_filled(node: exp.Expr, valued: Container[str], finite: Container[str]) -> bool:
    """Tell whether an expression is never NULL, on any engine.

    A least or a greatest value passes NULLs over. Sums and differences are NULL where they do not
    fit their type, and parts of moments where these are infinite.
    """
    node = node.unnest()
    if isinstance(node, exp.Column):
        return node.name in valued
    if isinstance(node, exp.Least | exp.Greatest):
        return any(_is_filled(each, valued, finite) for each in (node.this, *node.expressions))
    if isinstance(node, exp.Mod | exp.IntDiv):
        divisor = _constant(node.expression.unnest())
        divides = isinstance(divisor, int) and divisor >= 1
        return divides and _is_filled(node.this, valued, finite)
    if isinstance(node, exp.Sign):
        return _is_filled(node.this, valued, finite)
    if isinstance(node, (*ROW_FUNCTIONS, *_NAMES, exp.Extract)):
        moment = node.expression if isinstance(node, exp.Extract) else node.this
        read = {column.name for column in node.find_all(exp.Column)}
        return isinstance(moment, exp.Column) and all(name in finite for name in read)
    return _is_whole(node)


def _toward_zero(dividend: int, divisor: int) -> int:
    return abs(dividend) // divisor * (1 if dividend >= 0 else -1)


def _is_null_test(node: exp.Expr) -> bool:
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def _never_null(node: exp.Expr, table: Table, dialect: Dialect, valued: Container[str]) -> bool:
    """Tell whether a truth value is proved not to be NULL: of columns that are not."""
    columns = {column.name for column in node.find_all(exp.Column)}
    known = all(name in valued for name in columns) and node.find(exp.Null) is None
    return known and is_sure_condition(node, table, dialect)


def _outcomes(node: exp.Expr) -> list[exp.Expr | None]:
    """List the outcomes of a CASE or IF, None where it has no ELSE."""
    if isinstance(node, exp.If):
        return [node.args["true"], node.args.get("false")]
    return [*(branch.args["true"] for branch in when_branches(node)), node.args.get("default")]


def _constants(nodes: Sequence[exp.Expr | None]) -> tuple[object, ...] | None:
    """Read constants of one type, in their order and once each; None for anything else."""
    values = [None if node is None else _constant(node.unnest()) for node in nodes]
    if _UNREAD in values or len({type(v) for v in values if v is not None}) != 1:
        return None
    found = dict.fromkeys(value for value in values if value is not None)
    return (*found, None) if None in values else tuple(found)


class _Unread:
    """A value that is no constant."""


_UNREAD: Final = _Unread()


def _constant(node: exp.Expr) -> object:
    """Read a text, a whole number, a truth value or NULL."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = _constant(node.this.unnest())
        return -value if isinstance(value, int) and not isinstance(value, bool) else _UNREAD
    if not isinstance(node, exp.Literal):
        return _UNREAD
    if node.is_string:
        return str(node.this)
    return int(node.this) if node.is_int else _UNREAD

"""Expressions over private rows made total: an error on a row becomes NULL on that row.

``TRY`` around a whole expression is not enough. Engines simplify expressions by the minima, maxima
and NULL counts of *all* rows, so in ``TRY(NOT (k > 100 AND CAST(s AS INT) > 3))`` the failing cast
is skipped for every row as long as no row has k > 100, and one unit with such a row turns the
condition from true to NULL for everybody else. So ``TRY`` is put around the largest parts that
evaluate all of their operands (*strict* parts), and what stands above them (AND, OR, NOT, IS,
BETWEEN, IN, CASE, COALESCE), which may skip operands, sees only values that cannot fail. Then an
expression's value on a row depends on that row alone. Checked by ``tests/sql/test_sensitivity.py``
and ``tests/sql/test_poison.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import Sql
from dpsql.core.sql_types import DATE, DOUBLE, TIMESTAMP, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.syntax.arguments import Rules, grouped_rules, unread, when_branches
from dpsql.syntax.row_nodes import is_row_node
from dpsql.syntax.text import DIALECT

_INTEGER: Final = SqlType.of("INTEGER")
_SMALL: Final = 9  # digits of a whole number that is an INTEGER


def total(node: exp.Expr, table: Table, dialect: Dialect) -> exp.Expr:
    """Make an expression total; parts that cannot fail stay as they are, for speed.

    >>> from dpsql.core.schema import Column
    >>> from dpsql.core.sql_types import BIGINT, VARCHAR
    >>> from dpsql.engines.duckdb.dialect import DUCKDB
    >>> import sqlglot
    >>> table = Table("t", (Column("a", BIGINT), Column("s", VARCHAR)))
    >>> def show(text: str) -> None:
    ...     print(total(sqlglot.parse_one(text, read="duckdb"), table, DUCKDB).sql("duckdb"))
    >>> show("a > 3 AND s = 'x'")
    a > 3 AND s = 'x'
    >>> show("NOT (a > 3 AND CAST(s AS INT) > 3)")
    NOT (a > 3 AND TRY(TRY_CAST(s AS INT) > 3))
    >>> show("a * a + 1 IS NULL")
    TRY(a * a + 1) IS NULL
    """
    return _total(_read_whole(node.copy()), _Setting(table, dialect))


def total_condition(node: exp.Expr, table: Table, dialect: Dialect) -> exp.Expr:
    """Make the condition of a WHERE total: a truth value or NULL on every row."""
    return _truth(_read_whole(node.copy()), _Setting(table, dialect))


def total_sql(node: exp.Expr, table: Table, dialect: Dialect) -> Sql:
    """Write the SQL of an expression made total."""
    return dialect.expression(total(node, table, dialect), table)


def total_condition_sql(node: exp.Expr, table: Table, dialect: Dialect) -> Sql:
    """Write the SQL of the condition of a WHERE made total."""
    return dialect.expression(total_condition(node, table, dialect), table)


def is_sure_condition(node: exp.Expr, table: Table, dialect: Dialect) -> bool:
    """Tell whether a condition needs no change, its types being certain to fit."""
    at = _Setting(table, dialect)
    return _is_logic(_read_whole(node), at) and _cannot_fail(node, at)


def _read_whole(node: exp.Expr) -> exp.Expr:
    """Return an expression after checking that all arguments of its parts are known ones.

    Raises ``QueryRefused``: what is made total is put together anew, and would lose them.
    """
    for part in node.walk():
        if not is_row_node(part):
            raise unread(part)
    return node


# The functions below use up the trees they are given.


@dataclass(frozen=True, slots=True)
class _Setting:
    """The columns an expression is over, and the dialect it is to be spelled in."""

    table: Table
    dialect: Dialect


def _total(node: exp.Expr, at: _Setting) -> exp.Expr:
    if _cannot_fail(node, at):
        return node
    lazy = _lazy(node)
    return at.dialect.try_(_strict(node, at), at.table) if lazy is None else lazy(node, at)


def _truth(node: exp.Expr, at: _Setting) -> exp.Expr:
    """Make a total truth value: expressions of other types are cast, so no implicit cast fails."""
    logic = _is_logic(node, at)
    value = _total(node, at)
    return value if logic else at.dialect.try_truth(value)


def _strict(node: exp.Expr, at: _Setting) -> exp.Expr:
    """Prepare a part to stand inside TRY: whatever may skip operands below is made total."""
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, _below_strict(value, at))
        elif isinstance(value, list):
            node.set(key, [_below_strict(v, at) if isinstance(v, exp.Expr) else v for v in value])
    return node


def _below_strict(node: exp.Expr, at: _Setting) -> exp.Expr:
    lazy = _lazy(node) is not None and not isinstance(node, exp.Paren)
    return _total(node, at) if lazy else _strict(node, at)


def _lazy(node: exp.Expr) -> _Make | None:
    """Return how a part that may skip operands is made total; None for a strict part."""
    found = _LAZY.of(node)
    if found is None and type(node) in _LAZY:
        raise unread(node)
    return found


# -- parts that may skip operands -----------------------------------------------------------------


def _paren(node: exp.Expr, at: _Setting) -> exp.Expr:
    return exp.Paren(this=_total(node.this, at))


def _connective(node: exp.Expr, at: _Setting) -> exp.Expr:
    return type(node)(this=_truth(node.this, at), expression=_truth(node.expression, at))


def _not(node: exp.Expr, at: _Setting) -> exp.Expr:
    return exp.Not(this=_truth(node.this, at))


def _is(node: exp.Expr, at: _Setting) -> exp.Expr:
    make = _total if isinstance(node.expression, exp.Null) else _truth
    return exp.Is(this=make(node.this, at), expression=node.expression)


def _null_safe(node: exp.Expr, at: _Setting) -> exp.Expr:
    """Expand a IS NOT DISTINCT FROM b: the comparison, or where it is NULL, if both are."""
    left, right = _operand(node.this), _operand(node.expression)
    equal = _total(exp.EQ(this=left.copy(), expression=right.copy()), at)
    both = exp.And(this=_is_null(left, at), expression=_is_null(right, at))
    same = exp.Coalesce(this=equal, expressions=[exp.Paren(this=both)])
    return exp.Not(this=same) if isinstance(node, exp.NullSafeNEQ) else same


def _is_null(node: exp.Expr, at: _Setting) -> exp.Expr:
    return exp.Is(this=_total(node, at), expression=exp.Null())


def _between(node: exp.Expr, at: _Setting) -> exp.Expr:
    given = _of_one_type((node.this, node.args["low"], node.args["high"]), at)
    value, low, high = map(_operand, given)
    above = _total(exp.GTE(this=value.copy(), expression=low), at)
    below = _total(exp.LTE(this=value, expression=high), at)
    return exp.Paren(this=exp.And(this=above, expression=below))


def _in(node: exp.Expr, at: _Setting) -> exp.Expr:
    """Compare a list of constants as a whole; other lists become x = a OR x = b …"""
    items = node.expressions
    if not any(item.find(exp.Column) for item in items):
        items = [_total(item, at) for item in items]
        listed = exp.In(this=_total(node.this, at), expressions=items)
        return at.dialect.try_(listed, at.table)
    value, *items = map(_operand, _of_one_type((node.this, *items), at))
    equal = [exp.EQ(this=value.copy(), expression=item) for item in items]
    return exp.Paren(this=exp.or_(*(_total(e, at) for e in equal), copy=False))


def _of_one_type(nodes: Sequence[exp.Expr], at: _Setting) -> Sequence[exp.Expr]:
    """Cast the values of one comparison to the type in which DuckDB compares them.

    Several comparisons, of two values each, take a type for each pair: a HUGEINT beside a DECIMAL
    would be compared as that, and as a DOUBLE where a third value is one.
    """
    nodes = _with_typed_texts(nodes, at)
    types = [_type_by_form(node, at) for node in nodes]
    if any(type_ is not None and not type_.is_numeric for type_ in types):
        return nodes
    if sum(node != nodes[0] for node in nodes) == 1:
        return nodes  # there is one pair, beside the value and itself
    rounding: dict[object, exp.Expr] = {}
    for node, type_ in zip(nodes, types, strict=True):
        if not _is_exact(node, at):
            rounding.setdefault(type_ or node, node)
    if not rounding.keys() - {types[0] or nodes[0]} or types[0] == DOUBLE:
        return nodes  # each pair has that type

    def typed(node: exp.Expr, type_: SqlType | None) -> exp.Expr:
        others = [each for key, each in rounding.items() if key != (type_ or node)]
        if not others or isinstance(node.unnest(), exp.Null):
            return node
        never = [exp.If(this=exp.false(), true=each.copy()) for each in others]
        return exp.Case(ifs=never, default=node)

    return [typed(node, type_) for node, type_ in zip(nodes, types, strict=True)]


def _is_exact(node: exp.Expr, at: _Setting) -> bool:
    """Tell whether a node is by its form a number that a comparison may round, but is not rounded.

    NULL and texts are compared as whatever stands beside them.
    """
    if isinstance(node, exp.Paren | exp.Neg):
        return _is_exact(node.this, at)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return _is_exact(node.this, at) and _is_exact(node.expression, at)
    if isinstance(node, exp.Literal | exp.Null):
        return isinstance(node, exp.Null) or node.is_string or "e" not in node.name.lower()
    type_ = _type_by_form(node, at)
    return type_ is not None and not type_.is_float


def _with_typed_texts(nodes: Sequence[exp.Expr], at: _Setting) -> Sequence[exp.Expr]:
    """Write the texts of one comparison as values of the type of all its others.

    A text is read as what it is compared with: beside a DATE and a TIMESTAMP as a TIMESTAMP, which
    two comparisons, of two values each, would not do for both.
    """
    families = [_family(node, at) for node in nodes]
    others = [
        n for n, family in zip(nodes, families, strict=True) if family not in ("null", "text")
    ]
    types = {_type_by_form(node, at) for node in others}
    if "text" not in families or not others:
        return nodes
    as_texts = families[0] == "text" and "text" in families[1:]
    if not as_texts and (len(others) == 1 or (len(types) == 1 and None not in types)):
        return nodes
    if _type_by_form(nodes[0], at) == TIMESTAMP and types <= {DATE, TIMESTAMP}:
        return nodes  # texts are read as timestamps beside one

    def typed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node.unnest(), exp.Literal) or _family(node, at) != "text":
            return node
        return exp.Coalesce(this=node.unnest(), expressions=[each.copy() for each in others])

    return [typed(node) for node in nodes]


def _type_by_form(node: exp.Expr, at: _Setting) -> SqlType | None:
    """Return the type of a column, a cast or a small whole number; None for other forms."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        column = at.table.column(node.name)
        return None if column is None else column.type
    if isinstance(node, exp.Literal) and node.is_int and len(node.name) <= _SMALL:
        return _INTEGER
    if isinstance(node, exp.Cast):
        return SqlType.of(node.to.sql(DIALECT))
    return None


def _case(node: exp.Expr, at: _Setting) -> exp.Expr:
    """Turn CASE x WHEN v into CASE WHEN x = v; TRY guards casts between types of branches."""
    subject = node.this
    branches = []
    for branch in when_branches(node):
        test = branch.this
        if subject is not None:
            test = exp.EQ(this=_operand(subject).copy(), expression=_operand(test))
        branches.append((_truth(test, at), branch.args["true"]))
    return _cases(branches, node.args.get("default"), at)


def _if(node: exp.Expr, at: _Setting) -> exp.Expr:
    branches = [(_truth(node.this, at), node.args["true"])]
    return _cases(branches, node.args.get("false"), at)


def _cases(
    branches: list[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None, at: _Setting
) -> exp.Expr:
    values = [value for _, value in branches] + ([] if default is None else [default])
    alike = _same_family(values, at)
    cases = exp.Case(
        ifs=[exp.If(this=test, true=_total(value, at)) for test, value in branches],
        default=None if default is None else _total(default, at),
    )
    return cases if alike else at.dialect.try_(cases, at.table)


def _coalesce(node: exp.Expr, at: _Setting) -> exp.Expr:
    alike = _same_family((node.this, *node.expressions), at)
    first, *others = (_total(value, at) for value in (node.this, *node.expressions))
    values = exp.Coalesce(this=first, expressions=others)
    return values if alike else at.dialect.try_(values, at.table)


def _operand(node: exp.Expr) -> exp.Expr:
    """Return the node as an operand of a comparison."""
    simple = isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Func)
    return node if simple else exp.Paren(this=node)


_Make: TypeAlias = Callable[[exp.Expr, _Setting], exp.Expr]
_LAZY: Rules[_Make] = grouped_rules(
    {
        "this": {exp.Paren: _paren, exp.Not: _not},
        "this expression": {
            exp.And: _connective,
            exp.Or: _connective,
            exp.Is: _is,
            exp.NullSafeEQ: _null_safe,
            exp.NullSafeNEQ: _null_safe,
        },
        "this low high": {exp.Between: _between},
        "this expressions": {exp.In: _in, exp.Coalesce: _coalesce},
        "this ifs default": {exp.Case: _case},
        "this true false": {exp.If: _if},
    }
)


# -- what cannot fail -----------------------------------------------------------------------------

_CONNECTIVES = (exp.And, exp.Or)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_LOGIC = (*_CONNECTIVES, *_COMPARISONS, exp.Not, exp.Is, exp.Between, exp.In, exp.Boolean)


def _cannot_fail(node: exp.Expr, at: _Setting) -> bool:
    """Tell whether all is columns, literals, comparisons of like with like, and their logic."""
    if isinstance(node, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return True
    if isinstance(node, exp.Paren):
        return _cannot_fail(node.this, at)
    if isinstance(node, exp.Not):
        return _is_logic(node.this, at) and _cannot_fail(node.this, at)
    if isinstance(node, _CONNECTIVES):
        sides = (node.this, node.expression)
        return all(_is_logic(side, at) and _cannot_fail(side, at) for side in sides)
    if isinstance(node, exp.Is):
        plain = isinstance(node.expression, exp.Null) or _is_logic(node.this, at)
        return plain and _cannot_fail(node.this, at)
    if isinstance(node, _COMPARISONS):
        return _same_family((node.this, node.expression), at)
    if isinstance(node, exp.Between):
        return _same_family((node.this, node.args["low"], node.args["high"]), at)
    if isinstance(node, exp.In):
        return _same_family((node.this, *node.expressions), at)
    return False


def _is_logic(node: exp.Expr, at: _Setting) -> bool:
    """Tell whether a node is a truth value by its form, so no implicit cast can hide in it."""
    if isinstance(node, exp.Paren):
        return _is_logic(node.this, at)
    if isinstance(node, exp.Column):
        column = at.table.column(node.name)
        return column is not None and column.type.kind == "BOOLEAN"
    return isinstance(node, _LOGIC)


def _same_family(nodes: Iterable[exp.Expr], at: _Setting) -> bool:
    families = {_family(node, at) for node in nodes} - {"null"}
    return len(families) <= 1 and None not in families


def _family(node: exp.Expr, at: _Setting) -> str | None:
    """Name what leaves are compared with, no cast failing: ``number``, ``text``, a type.

    None for what cannot be compared with anything for sure.
    """
    if isinstance(node, exp.Paren):
        return _family(node.this, at)
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Literal):
        if node.is_string:
            return "text"
        return "number" if len(node.this) <= 15 else None
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return _family(node.this, at)
    if not isinstance(node, exp.Column):
        return None
    column = at.table.column(node.name)
    return None if column is None else at.dialect.comparison_family(column.type)

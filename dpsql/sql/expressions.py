"""Expressions over private rows: which are legal, and how they are made total."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from sqlglot import exp

from dpsql.errors import QueryRefused, UnknownName
from dpsql.schema import Table, base_type, is_float, is_integer
from dpsql.sql.allowlist import CAST_TYPES, ROW_NODES
from dpsql.sql.parse import place_of


def outside_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression in prefix order, not entering subqueries (which are yielded)."""
    yield node
    if isinstance(node, exp.Query):
        return
    for child in node.iter_expressions():
        yield from outside_subqueries(child)


def check_row_expression(node: exp.Expr, text: str) -> None:
    """Refuse whatever is not on the allow-list of expressions over one private row."""
    for part in outside_subqueries(node):
        if isinstance(part, exp.Query):
            raise QueryRefused(
                "a subquery cannot stand in an expression over private rows",
                code="subquery_over_private_rows",
                place=place_of(text, part),
                hint="Write the values as a list, or filter the released rows in an outer query.",
            )
        if isinstance(part, exp.AggFunc):
            raise QueryRefused(
                "an aggregate cannot stand here",
                code="misplaced_aggregate",
                place=place_of(text, part),
                hint="Filter on aggregates with HAVING, or in an outer query.",
            )
        if isinstance(part, exp.Window):
            raise QueryRefused(
                "a window function cannot run over private rows",
                code="window_over_private_rows",
                place=place_of(text, part),
                hint="Window functions may be used over the released groups.",
            )
        if type(part) not in ROW_NODES:
            raise QueryRefused(
                f"{_kind_of(part)} is not available over private rows",
                code="expression_not_allowed",
                place=place_of(text, part),
                hint="Only deterministic functions of one row on dpsql's list can be used here.",
            )
        _check_arguments(part, text)


def _check_arguments(part: exp.Expr, text: str) -> None:
    """Refuse variants of allowed nodes that carry more than the plain form does."""
    unsupported: exp.Expr | None = None
    if isinstance(part, exp.In) and (part.args.get("query") or part.args.get("unnest")):
        unsupported = part
    if isinstance(part, exp.In) and part.args.get("field"):
        unsupported = part
    if isinstance(part, exp.Cast) and (part.to.this not in CAST_TYPES or part.args.get("format")):
        unsupported = part
    if unsupported is not None:
        raise QueryRefused(
            "this form is not available over private rows",
            code="expression_not_allowed",
            place=place_of(text, unsupported),
            hint="Casts go to plain scalar types; IN takes a list of values.",
        )


def _kind_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name.lower()}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    if isinstance(node, exp.Star):
        return "*"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return "a query parameter"
    return f"this construct ({type(node).__name__.lower()})"


def unknown_column(name: str, table: Table, node: exp.Expr, text: str) -> UnknownName:
    """The error for a column that the table does not have, with the nearest name as a hint."""
    names = [column.name for column in table.columns]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Columns: {', '.join(names[:20])}."
    return UnknownName(
        f"table {table.name} has no column {name}",
        code="unknown_column",
        place=place_of(text, node),
        hint=hint,
    )


def total(node: exp.Expr, table: Table) -> exp.Expr:
    """Make an expression total: an error on a row becomes NULL on that row.

    Expressions that cannot fail on any row are left alone, which keeps the engine's fast paths.

    >>> from dpsql.schema import Column
    >>> import sqlglot
    >>> table = Table("t", (Column("a", "BIGINT"), Column("s", "VARCHAR")))
    >>> total(sqlglot.parse_one("a > 3 AND s = 'x'", read="duckdb"), table).sql("duckdb")
    "a > 3 AND s = 'x'"
    >>> total(sqlglot.parse_one("CAST(s AS INT) > 3", read="duckdb"), table).sql("duckdb")
    'TRY(CAST(s AS INT) > 3)'
    """
    if cannot_fail(node, table):
        return node
    return exp.Anonymous(this="TRY", expressions=[node])


_CONNECTIVES = (exp.And, exp.Or)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def cannot_fail(node: exp.Expr, table: Table) -> bool:
    """True for columns, literals, comparisons of like with like, and their logic."""
    if isinstance(node, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return True
    if isinstance(node, exp.Paren):
        return cannot_fail(node.this, table)
    if isinstance(node, exp.Not):
        return _is_logic(node.this) and cannot_fail(node.this, table)
    if isinstance(node, _CONNECTIVES):
        sides = (node.this, node.expression)
        return all(_is_logic(side) and cannot_fail(side, table) for side in sides)
    if isinstance(node, exp.Is):
        return cannot_fail(node.this, table)
    if isinstance(node, _COMPARISONS):
        return _same_family((node.this, node.expression), table)
    if isinstance(node, exp.Between):
        return _same_family((node.this, node.args["low"], node.args["high"]), table)
    if isinstance(node, exp.In):
        return _same_family((node.this, *node.expressions), table)
    return False


def _is_logic(node: exp.Expr) -> bool:
    """True if the node is a truth value by its form, so no implicit cast can hide in it."""
    if isinstance(node, exp.Paren):
        return _is_logic(node.this)
    logic = (*_CONNECTIVES, *_COMPARISONS, exp.Not, exp.Is, exp.Between, exp.In, exp.Boolean)
    return isinstance(node, logic)


def _same_family(nodes: Iterable[exp.Expr], table: Table) -> bool:
    families = {_family(node, table) for node in nodes} - {"null"}
    return len(families) <= 1 and None not in families


def _family(node: exp.Expr, table: Table) -> str | None:
    """``number`` or ``text`` for leaves whose comparison involves no failing cast, else None."""
    if isinstance(node, exp.Paren):
        return _family(node.this, table)
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Literal):
        if node.is_string:
            return "text"
        return "number" if len(node.this) <= 15 else None
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return _family(node.this, table)
    if not isinstance(node, exp.Column):
        return None
    column = table.column(node.name)
    if column is None:
        return None
    kind = base_type(column.type)
    if kind == "VARCHAR":
        return "text"
    # HUGEINT and DECIMAL are cast to a common decimal, which can overflow.
    machine_integer = is_integer(kind) and not kind.endswith("HUGEINT")
    return "number" if machine_integer or is_float(kind) else None

"""Syntax tree to SQL text."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from dpsql.sql.syntax.dialect import BoundedAggregate

DIALECT = "duckdb"
_dialect = Dialect.get_or_raise(DIALECT)


def to_sql(node: exp.Expr, *, copy: bool = True) -> str:
    """The DuckDB SQL of a tree, without comments and with every name in quotes.

    ``copy=False`` uses up the tree, which is faster.
    """
    return str(_dialect.generator(comments=False, identify=True).generate(node, copy=copy))


def display(node: exp.Expr) -> str:
    """An expression as DuckDB would name it: unquoted, functions in lower case, without bounds."""
    bare = exp.Paren(this=node.copy())
    for wrapper in list(bare.find_all(BoundedAggregate)):
        wrapper.replace(wrapper.this)
    for column in bare.find_all(exp.Column):
        column.this.set("this", column.meta.get("name", column.name))
        if "table" in column.meta:
            column.set("table", exp.to_identifier(column.meta["table"]))
    for identifier in bare.find_all(exp.Identifier):
        identifier.set("quoted", False)
    generator = _dialect.generator(comments=False, normalize_functions="lower")
    return str(generator.generate(bare.this, copy=False))


def pretty(sql: str) -> str:
    """Generated SQL laid out over several lines."""
    tree = _dialect.parse(sql)[0]
    assert tree is not None
    return tree.sql(dialect=DIALECT, pretty=True)

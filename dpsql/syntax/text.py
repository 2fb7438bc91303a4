"""Syntax tree to SQL text."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError
from sqlglot.generators.duckdb import DuckDBGenerator

from dpsql.core.schema import fold
from dpsql.syntax.dialect import WRITTEN_NAME, BoundedAggregate

DIALECT = "duckdb"
NAMED = "named"
"""The key, among the metadata of a node, of what it was as it was typed."""
_dialect = Dialect.get_or_raise(DIALECT)


class _Called(DuckDB):
    """DuckDB's SQL with the clock asked by functions.

    To its binder ``current_date`` is the name of a column, too: an answer's column of that name
    would be defined by itself.
    """

    INDEX_OFFSET = 0

    class Generator(DuckDBGenerator):
        TRANSFORMS = {  # noqa: RUF012 (sqlglot's convention)
            **DuckDBGenerator.TRANSFORMS,
            exp.CurrentDate: lambda *_: "current_date()",
            exp.CurrentTime: lambda *_: "get_current_time()",
            exp.CurrentTimestamp: lambda *_: "now()",
            exp.Localtime: lambda *_: "current_localtime()",
            exp.Localtimestamp: lambda *_: "current_localtimestamp()",
        }


class _Named(DuckDB):
    """DuckDB's SQL, with brackets left out as in DuckDB's names of columns."""

    INDEX_OFFSET = 0

    class Generator(DuckDBGenerator):
        TRANSFORMS = {  # noqa: RUF012
            **DuckDBGenerator.TRANSFORMS,
            exp.CurrentCatalog: lambda *_: "current_catalog",
            exp.CurrentDate: lambda *_: "current_date",
            exp.CurrentTime: lambda *_: "current_time",
            exp.CurrentTimestamp: lambda *_: "current_timestamp",
            exp.Localtime: lambda *_: "localtime",
            exp.Localtimestamp: lambda *_: "localtimestamp",
            exp.LogicalAnd: lambda self, node: self.func("bool_and", node.this),
            exp.LogicalOr: lambda self, node: self.func("bool_or", node.this),
            exp.SessionUser: lambda *_: "session_user",
        }


_called, _named = _Called(), _Named()


def to_sql(node: exp.Expr, *, copy: bool = True) -> str:
    """Write a tree as DuckDB SQL, without comments and with every name in quotes.

    ``copy=False`` uses up the tree, which is faster.
    """
    return str(_called.generator(comments=False, identify=True).generate(node, copy=copy))


def display(node: exp.Expr) -> str:
    """Write an expression as DuckDB would name it: unquoted, functions in lower case, no bounds.

    What was rewritten is written as it was typed.
    """
    bare = exp.Paren(this=node.copy())
    for wrapper in list(bare.find_all(BoundedAggregate)):
        wrapper.replace(wrapper.this)
    for column in bare.find_all(exp.Column):
        column.this.set("this", column.meta.get("name", column.name))
        if "table" in column.meta:
            column.set("table", exp.to_identifier(column.meta["table"]))
    for part in list(bare.walk()):
        if NAMED in part.meta and part.parent is not None:
            part.replace(exp.Var(this=part.meta[NAMED]))
    for identifier in bare.find_all(exp.Identifier):
        identifier.set("quoted", False)
    generator = _named.generator(comments=False, normalize_functions="lower")
    return str(generator.generate(bare.this, copy=False))


def pretty(sql: str) -> str:
    """Format generated SQL over several lines; as it is, where another engine's cannot be read."""
    try:
        tree = _dialect.parse(sql)[0]
    except ParseError:
        return sql
    assert tree is not None
    return tree.sql(dialect=DIALECT, pretty=True)


def output_name(node: exp.Expr) -> str:
    """Return the name DuckDB gives an unaliased select item (a count, a sum, a plain column)."""
    if isinstance(node, BoundedAggregate):
        return output_name(node.this)
    if isinstance(node, exp.Column):
        return str(node.meta.get("name", node.name))
    if NAMED in node.meta:
        return str(node.meta[NAMED])
    if isinstance(node, exp.Filter):
        return f"{output_name(node.this)} FILTER ({_condition_name(node.expression)})"
    if isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star)):
        return "count_star()"
    written = node.meta.get(WRITTEN_NAME) if isinstance(node, exp.AggFunc) else None
    if written is None:
        return display(node)
    return f"{fold(written)}({display(node).partition('(')[2]}"


def written_name(function: exp.Func) -> str:
    """Return the name of a function as it was typed, in lower case."""
    if isinstance(function, exp.Anonymous):
        return fold(function.name)
    return fold(str(function.meta.get(WRITTEN_NAME, function.sql_name())))


def _condition_name(where: exp.Expr) -> str:
    text = display(where).strip()
    keyword, _, condition = text.partition(" ")
    plain = isinstance(where.this, exp.Column | exp.Func | exp.Paren)
    return text if plain else f"{keyword} ({condition})"


def put(old: exp.Expr, new: exp.Expr) -> None:
    """Replace a node by another.

    ``old.replace(new)`` would number a list anew for each of its items.
    """
    parent, key, index = old.parent, old.arg_key, old.index
    values = None if parent is None or key is None else parent.args.get(key)
    if not isinstance(values, list) or index is None:
        old.replace(new)
        return
    assert parent is not None
    parent.set("", None)  # forgets what it was equal to, as do those above it
    values[index] = new
    new.parent, new.arg_key, new.index = parent, key, index
    old.parent, old.arg_key, old.index = None, None, None

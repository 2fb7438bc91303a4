"""Subqueries that are answered before the statement around them, as private rows stand beside.

    SELECT COUNT(*) FROM users WHERE age < (SELECT AVG(age) FROM users)
    SELECT … FROM sales JOIN (SELECT country, SUM(x) AS s … GROUP BY 1 ORDER BY s DESC LIMIT 5) …

Over private rows such a subquery is a question of its own: it is paid for and released, and its
answer stands in its place. Over public tables it is computed, for nothing. The statement is refused
otherwise, with a mark on the refusal for who can have the subquery answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import QueryRefused
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import put

_NUMBER: Final = "number of the subquery"
_SERIES: Final = NodeArguments("expressions with_ where order limit offset distinct")
_NO_LISTS: Final = frozenset(
    exp.DType[name]
    for name in ("BIGINT", "DATE", "INT", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ")
)
"""Types that no list has a cast to."""


GroupKeys: TypeAlias = tuple[tuple[int, str], ...]
"""Conditions of a subquery that compare its rows with those around, and the side of its own rows.

They are counted among those that its WHERE joins with AND.
"""


def after_answering(query: exp.Expr, refused: QueryRefused, keys: GroupKeys = ()) -> QueryRefused:
    """Mark a refusal of a statement that can be answered once a subquery of it is.

    With ``keys`` that is asked for all groups of them.
    """
    refused._subquery = query.meta.get(_NUMBER)
    refused._keys = keys
    return refused


def to_answer_first(refused: QueryRefused) -> int | None:
    """Return the number of the subquery to answer first; None where that is of no use."""
    return refused._subquery


def keys_to_group_by(refused: QueryRefused) -> GroupKeys:
    """Return the conditions by which the subquery to answer first is asked for groups."""
    return refused._keys


def set_apart(tree: exp.Query) -> None:
    """Make subqueries of table functions and recursive CTEs that others are joined with.

    ``generate_series(DATE '2025-01-01', …) g`` becomes ``(SELECT * FROM generate_series(…) g) g``,
    which can be answered first. What is a list of constants by itself stays as it is.
    """
    recursive = list(_recursive(tree))
    for select in list(tree.find_all(exp.Select)):
        from_, joins = select.args.get("from_"), select.args.get("joins")
        if from_ is None or not joins:
            continue
        for source in [from_.this, *(join.this for join in joins)]:
            if _is_computed(source) or any(source is table for table in recursive):
                name = source.alias or _function(source)
                inner = source.copy()
                inner.set("joins", None)
                apart = exp.Subquery(
                    this=exp.Select(expressions=[exp.Star()]).from_(inner, copy=False),
                    alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
                    joins=source.args.get("joins"),
                )
                source.replace(apart)


def _recursive(tree: exp.Query) -> Iterator[exp.Table]:
    """Find the references to recursive CTEs outside of these."""
    for with_ in tree.find_all(exp.With):
        if not with_.args.get("recursive") or with_.parent is None:
            continue
        for cte in with_.expressions:
            within = [table for table in cte.this.find_all(exp.Table) if _names(table, cte)]
            if within:
                named = (t for t in with_.parent.find_all(exp.Table) if _names(t, cte))
                yield from (t for t in named if not any(t is each for each in within))


def _function(source: exp.Expr) -> str:
    """Return the name of a source without an alias, as DuckDB names what a function returns."""
    if isinstance(source, exp.Table) and isinstance(source.this, exp.GenerateSeries):
        return "range" if source.this.args.get("is_end_exclusive") else "generate_series"
    return source.name or "unnest"


def _names(table: exp.Table, cte: exp.CTE) -> bool:
    plain = isinstance(table.this, exp.Identifier) and not table.args.get("db")
    return plain and fold(table.name) == fold(cte.alias)


def _is_computed(source: exp.Expr) -> bool:
    """Tell whether a source is a table function of constants, but not of whole numbers or a list.

    One of columns looks at the rows beside it.
    """
    if source.find(exp.Column, exp.Query, exp.Placeholder) is not None:
        return False
    if isinstance(source, exp.Unnest):
        return not all(isinstance(each, exp.Array) for each in source.expressions)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.GenerateSeries):
        return False
    ends = source.this.iter_expressions()
    return not all(isinstance(end, exp.Literal | exp.Neg) for end in ends)


def write_series_as_rows(query: exp.Query) -> None:
    """Make rows of ``SELECT generate_series(…)`` without a FROM; ``query`` is changed.

    PostgreSQL has rows there, and DuckDB a list: no list stands beside private rows, so that
    a subquery that is answered first can mean nothing else. Nor can a cast of one to a moment or
    a whole number.
    """
    if not isinstance(query, exp.Select) or not _SERIES.hold(query):
        return
    for item in query.expressions:
        series = item.unalias()
        while type(series) is exp.Cast and series.to.this in _NO_LISTS:
            series = series.this.unnest()
        if isinstance(series, exp.GenerateSeries) and not series.args.get("is_end_exclusive"):
            put(series, exp.Explode(this=series.copy()))
    for item in list(query.expressions):
        if not isinstance(item, exp.Alias) and item.find(exp.Explode) is not None:
            put(item, exp.alias_(item.copy(), "generate_series", copy=False))


def number_queries(tree: exp.Query) -> None:
    """Number the queries of a statement, in the order of its text."""
    for number, query in enumerate(tree.find_all(exp.Query, bfs=False)):
        query.meta[_NUMBER] = number


def query_numbered(tree: exp.Expr, number: int) -> exp.Query | None:
    """Find the query of a number in a statement, or in a copy of it."""
    queries = tree.find_all(exp.Query, bfs=False)
    return next((query for query in queries if query.meta.get(_NUMBER) == number), None)

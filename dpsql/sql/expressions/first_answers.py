"""Subqueries that are answered before the statement around them, as private rows stand beside.

    SELECT COUNT(*) FROM users WHERE age < (SELECT AVG(age) FROM users)
    SELECT … FROM sales JOIN (SELECT country, SUM(x) AS s … GROUP BY 1 ORDER BY s DESC LIMIT 5) …

Over private rows such a subquery is a question of its own: it is paid for and released, and its
answer stands in its place. Over public tables it is computed, for nothing. The statement is refused
otherwise, with a mark on the refusal for who can have the subquery answered.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.errors import QueryRefused

_NUMBER: Final = "number of the subquery"


def after_answering(query: exp.Expr, refused: QueryRefused) -> QueryRefused:
    """Mark a refusal of a statement that can be answered once a subquery of it is."""
    refused._subquery = query.meta.get(_NUMBER)
    return refused


def to_answer_first(refused: QueryRefused) -> int | None:
    """Return the number of the subquery to answer first; None where that is of no use."""
    return refused._subquery


def number_queries(tree: exp.Query) -> None:
    """Number the queries of a statement, in the order of its text."""
    for number, query in enumerate(tree.find_all(exp.Query, bfs=False)):
        query.meta[_NUMBER] = number


def query_numbered(tree: exp.Expr, number: int) -> exp.Query | None:
    """Find the query of a number in a statement, or in a copy of it."""
    queries = tree.find_all(exp.Query, bfs=False)
    return next((query for query in queries if query.meta.get(_NUMBER) == number), None)

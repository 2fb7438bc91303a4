"""Text to syntax tree: one query, in DuckDB's dialect, or a clear error with its place."""

from __future__ import annotations

import logging

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dpsql.errors import Place, QueryRefused, SQLSyntaxError
from dpsql.sql.dialect import PrivateDuckDB

MAX_LENGTH = 100_000
MAX_NESTING = 60
MAX_DEPTH = 200  # of the syntax tree: a sum of n terms is n deep

_OPENERS = {"(": ")", "[": "]", "{": "}"}

# The parser warns on stderr, with the text, about statements it does not know; they are refused.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())


def parse(text: str) -> exp.Query:
    """Parse one SELECT statement (or WITH, UNION …).

    Raises ``SQLSyntaxError`` for text that is not SQL and ``QueryRefused`` for statements that
    are not queries, for several statements, and for text too long or too deeply nested to be safe.
    """
    if not isinstance(text, str):
        raise SQLSyntaxError("a query must be a string", code="syntax_error")
    _refuse_oversized(text)
    statements = [tree for tree in _parse_all(text) if tree is not None]
    if not statements:
        raise SQLSyntaxError("the query is empty", code="syntax_error", hint="Write a SELECT.")
    if len(statements) > 1 or isinstance(statements[0], exp.Block):
        raise QueryRefused(
            "only one statement can be run at a time",
            code="several_statements",
            hint="Send each SELECT on its own, without a semicolon between them.",
        )
    tree = statements[0]
    if not isinstance(tree, exp.Query):
        raise QueryRefused(
            "only queries can be run: this is another kind of statement",
            code="not_a_query",
            place=Place.in_text(text, len(text) - len(text.lstrip()), len(text)),
            hint="dpsql answers SELECT statements. Parameters are set through connect() or sql().",
        )
    refuse_deep(tree)
    return tree


def refuse_deep(tree: exp.Expr) -> None:
    """Refuse trees that recursive functions could not walk. Raises ``QueryRefused``."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = [child for node in level for child in node.iter_expressions()]


def place_of(text: str, node: exp.Expr | None) -> Place | None:
    """Where a node stands in the query text, from the positions its tokens carry."""
    if node is None:
        return None
    spans = [
        (part.meta["start"], part.meta["end"] + 1)
        for part in node.walk()
        if "start" in part.meta and "end" in part.meta
    ]
    if not spans:
        return None
    return Place.in_text(text, min(s for s, _ in spans), max(e for _, e in spans))


def _parse_all(text: str) -> list[exp.Expr | None]:
    try:
        return list(sqlglot.parse(text, read=PrivateDuckDB))
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except TokenError:
        raise SQLSyntaxError(
            "the text cannot be split into SQL tokens",
            code="syntax_error",
            hint="Look for a quote or a comment that is opened and never closed.",
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _syntax_error(text: str, error: ParseError) -> SQLSyntaxError:
    details = error.errors[0] if error.errors else {}
    place = None
    highlight = details.get("highlight") or ""
    if details.get("line"):
        lines = text.split("\n")
        line = min(int(details["line"]), len(lines))
        start = sum(len(part) + 1 for part in lines[: line - 1])
        end = start + int(details.get("col") or 0)
        place = Place.in_text(text, max(start, end - max(1, len(highlight))), end)
    return SQLSyntaxError("the query is not valid SQL", code="syntax_error", place=place)


def _refuse_oversized(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise QueryRefused(
            f"the query is longer than {MAX_LENGTH:,} characters", code="query_too_long"
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SQLSyntaxError("the query is not valid Unicode text", code="syntax_error")
    depth = 0
    for character in text:
        if character in _OPENERS:
            depth += 1
            if depth > MAX_NESTING:
                raise _too_deep()
        elif character in ")]}":
            depth -= 1


def _too_deep() -> QueryRefused:
    return QueryRefused(
        "the query is nested too deeply",
        code="query_too_deep",
        hint=f"At most {MAX_NESTING} levels of brackets and {MAX_DEPTH} of operators are read; "
        "a long list of alternatives can be written as x IN (…).",
    )

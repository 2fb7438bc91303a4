"""Text to syntax tree: one query, in DuckDB's dialect, or a clear error with its place.

Dates and timestamps that are written by their parts, as ibis and others do, are constants like any
other: ``make_date(2024, 1, 31)`` is ``DATE '2024-01-31'``.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import reduce
from itertools import islice
from typing import Any, Final

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from dpsql.core.formatting import printable
from dpsql.core.schema import fold
from dpsql.errors import Place, QueryRefused, SQLSyntaxError
from dpsql.syntax.averaged_tests import settle_averages
from dpsql.syntax.bracketed_names import with_bracketed_names
from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.moment_words import settle_now
from dpsql.syntax.other_words import (
    settle_elements,
    settle_memberships,
    settle_patterns,
    settle_quantified,
    settle_quantile_lists,
    settle_shares,
)
from dpsql.syntax.repeated_windows import settle_repeated_windows

MAX_LENGTH = 100_000
MAX_NESTING = 60
MISREAD: Final = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    SqlglotError,
)
"""What the parser's builders and its generator raise for calls that they do not expect."""

MAX_DIGITS = 38
MAX_TREE_DEPTH = 200  # of the syntax tree: a sum of n terms is n deep
LONG_CHAIN = 40
"""Terms of AND, or of OR, that are written in a row: longer chains are made trees."""
MAX_TOKENS = 21_000
MAX_WORDS = 4_200  # tokens beside plain constants and commas: what takes time to be planned
MAX_SIDE_BY_SIDE = 250  # of a select list, of joins: some of what they become is quadratic
MAX_BRANCHES = 1_000
"""Of a CASE, each planned by itself."""
MAX_SELECTS = 250
MAX_AGGREGATES = 100

_PLAIN_TOKENS = frozenset(
    {TokenType.NUMBER, TokenType.STRING, TokenType.COMMA, TokenType.PLACEHOLDER}
)
_LIST_DEPTH = 2  # of brackets, in a PIVOT
_LONG_LISTS = (exp.Array, exp.In, exp.Tuple, exp.Values)
"""Constants are nearly all that such lists hold, and need no more than to be read."""

_OPENERS, _CLOSERS = "([{", ")]}"
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?")
_BLANKS = re.compile(r"(?:\s+|--[^\n]*)*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_QUOTED = re.compile(r"(?:'|\"|\bname )(\w+)(?=\(|'|\"| )")
_WORD = re.compile(r"\w*")

_CALL = re.compile(r"(?P<name>\w+)\s*\(\s*(?:distinct\s+)?\Z", re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WITH", "DISTINCT")
_BEFORE_NAMES = frozenset({"AND", "AS", "BY", "FROM", "JOIN", "ON", "OR", "SELECT", "WHERE"})
_ALIKE = 0.7  # of two words: above it, one may be meant by the other
_LOOKED_BACK = 3  # words: that at which reading stopped, and those before it
_BEFORE_BRACKETS = frozenset(
    {"all", "and", "any", "as", "between", "by", "case", "distinct", "else", "exists", "filter"}
    | {"from", "having", "in", "is", "like", "limit", "not", "on", "or", "over", "select", "some"}
    | {"then", "using", "values", "when", "where"}
)
"""Words that may stand before a bracket and are no functions."""

_READ_ONLY = "The database is open for reading only; write SELECT … and aggregate."
_SETTINGS = (
    "The engine's settings and functions are out of reach. Privacy parameters are set with "
    "SET epsilon = 0.5, and SHOW PARAMETERS lists them."
)
_ONE_DATABASE = "A connection reads one database, named when it is opened; tables have plain names."
_NO_TRANSACTIONS = "Queries are charged one by one; there is nothing to commit or to roll back."
_SAVE = "Answers are saved by the program that asked: result.df(), or dpsql query --format csv."
_INSTEAD: Final = {
    **dict.fromkeys(("insert", "update", "delete", "merge", "truncate"), _READ_ONLY),
    **dict.fromkeys(("create", "drop", "alter", "comment", "vacuum", "analyze"), _READ_ONLY),
    **dict.fromkeys(("pragma", "call", "install", "load", "checkpoint", "force"), _SETTINGS),
    **dict.fromkeys(("use", "attach", "detach"), _ONE_DATABASE),
    **dict.fromkeys(
        ("begin", "start", "commit", "rollback", "abort", "end", "savepoint", "release"),
        _NO_TRANSACTIONS,
    ),
    **dict.fromkeys(("copy", "export", "import"), _SAVE),
    **dict.fromkeys(
        ("prepare", "execute", "deallocate"),
        "Pass values beside the query: sql('SELECT … WHERE k = ?', [3]).",
    ),
    "summarize": "SUMMARIZE takes the name of a table, or a SELECT of rows.",
    "explain": "EXPLAIN takes one SELECT.",
    "values": "Write SELECT * FROM (VALUES …) t.",
}

_DIALECT = PrivateDuckDB()

# The parser warns on stderr, with the text, about statements it does not know; they are refused.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())


@contextmanager
def understood() -> Iterator[None]:
    """Refuse a statement that the parser or the generator of SQL stumbles over inside.

    Raises ``QueryRefused`` (``not_understood``).
    """
    try:
        yield
    except MISREAD:
        stumbled = True
    else:
        stumbled = False
    # Raised outside the handler, so that its context quotes no value of a parameter.
    if stumbled:
        raise QueryRefused(
            "a part of the query cannot be understood",
            code="not_understood",
            hint="A function may have too many or too few arguments, or arguments of another kind "
            "than it takes.",
        )


def parse(text: str) -> exp.Query:
    """Parse one SELECT statement (or WITH, UNION …).

    Raises ``SQLSyntaxError`` for text that is not SQL and ``QueryRefused`` for statements that
    are not queries, for several statements, and for text too long or too deeply nested to be safe.
    """
    check_text(text)
    statements = [tree for tree in _parse_all(text) if tree is not None]
    if not statements:
        raise SQLSyntaxError("the query is empty", code="syntax_error", hint="Write a SELECT.")
    if len(statements) > 1 or isinstance(statements[0], exp.Block):
        parts = statements if len(statements) > 1 else statements[0].expressions
        raise several_statements(place_of(text, parts[1]))
    tree = statements[0]
    if not isinstance(tree, exp.Query):
        raise _not_a_query(text)
    _balance(tree)
    refuse_deep(tree)
    nodes = list(tree.walk())
    _refuse_large(nodes, text)
    _refuse_without_columns(nodes, text)
    _refuse_odd_numbers(nodes, text)
    _refuse_top_in_unions(nodes, text)
    _refuse_unread(nodes, text)
    _fetch_as_limit(nodes)
    settle_quantile_lists(tree)
    settle_quantified(tree)
    settle_shares(tree)
    settle_memberships(tree)
    settle_patterns(tree)
    settle_elements(tree)
    settle_averages(tree)
    settle_repeated_windows(tree)
    settle_now(tree)
    write_moments(tree)
    return tree


def check_text(text: str) -> None:
    """Refuse text that is unsafe to parse: no text, not Unicode, too long, nested too deeply.

    Raises ``QueryRefused`` or ``SQLSyntaxError``.
    """
    if not isinstance(text, str):
        raise not_text()
    if len(text) > MAX_LENGTH:
        raise QueryRefused(
            f"the query is longer than {MAX_LENGTH:,} characters",
            code="query_too_long",
            hint="Long lists of values belong in a public table that the query joins.",
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SQLSyntaxError(
            "the query is not valid Unicode text",
            code="syntax_error",
            hint="It holds half of a surrogate pair. Decode the text as UTF-8.",
        )
    if sum(map(text.count, _OPENERS)) > MAX_NESTING:
        _refuse_nested(text)


def not_text() -> SQLSyntaxError:
    """Build the error for a query that is no text."""
    return SQLSyntaxError(
        "a query must be a string", code="syntax_error", hint="Pass the text of a SELECT."
    )


def after_blanks(text: str, start: int = 0) -> int:
    """Find where a text goes on after blanks and comments, which nest."""
    while True:
        start = _end_of(_BLANKS, text, start)
        if not text.startswith("/*", start):
            return start
        depth = 0
        for mark in _COMMENT_MARK.finditer(text, start):
            depth += 1 if mark.group() == "/*" else -1
            if depth == 0:
                start = mark.end()
                break
        else:
            return len(text)


def word_at(text: str, start: int = 0) -> tuple[int, int]:
    """Find the word that follows blanks and comments; of no length if none does."""
    start = after_blanks(text, start)
    return start, _end_of(_WORD, text, start)


def several_statements(place: Place | None = None) -> QueryRefused:
    """Build the error for a text of more than one statement."""
    return QueryRefused(
        "only one statement can be run at a time",
        code="several_statements",
        place=place,
        hint="Send each statement on its own, without a semicolon between them.",
    )


def _not_a_query(text: str) -> QueryRefused:
    start, end = word_at(text)
    word = fold(text[start:end])
    return QueryRefused(
        "this is not a query: dpsql answers SELECT statements",
        code="not_a_query",
        place=Place.in_text(text, start, end),
        hint=_INSTEAD.get(
            word, "Beside SELECT there are EXPLAIN SELECT, SET, RESET, SHOW and DESCRIBE."
        ),
    )


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


def _balance(tree: exp.Expr) -> None:
    """Write long chains of AND, or of OR, as trees that are not deep: both are associative.

    ``a OR b OR c OR d`` becomes ``(a OR b) OR (c OR d)``, of the same terms in the same order.
    """
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And | exp.Or) and type(node.parent) is not type(node):
            kind, terms = type(node), _terms(node)
            if len(terms) > LONG_CHAIN:
                node.replace(_balanced(kind, terms))
            stack += terms
        else:
            stack += node.iter_expressions()


def _terms(node: exp.And | exp.Or) -> list[exp.Expr]:
    """List the terms of a chain, in the order of the text."""
    terms: list[exp.Expr] = []
    rest: exp.Expr = node
    while type(rest) is type(node):
        terms.append(rest.expression)
        rest = rest.this
    return [rest, *reversed(terms)]


def _balanced(kind: type[exp.And | exp.Or], terms: Sequence[exp.Expr]) -> exp.Expr:
    if len(terms) <= LONG_CHAIN:
        return reduce(lambda one, other: kind(this=one, expression=other), terms)
    middle = len(terms) // 2
    halves = (_balanced(kind, half) for half in (terms[:middle], terms[middle:]))
    one, other = (exp.Paren(this=half) for half in halves)
    return kind(this=one, expression=other)


def refuse_deep(tree: exp.Expr) -> None:
    """Refuse trees that recursive functions could not walk. Raises ``QueryRefused``."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_TREE_DEPTH:
            raise _too_deep()
        level = [child for node in level for child in node.iter_expressions()]


def _refuse_large(nodes: Sequence[exp.Expr], text: str) -> None:
    selects = aggregates = 0
    for node in nodes:
        selects += isinstance(node, exp.Select)
        aggregates += isinstance(node, exp.AggFunc)
        lists = [value for value in node.args.values() if isinstance(value, list)]
        row = isinstance(node, exp.Tuple) and isinstance(node.parent, exp.Values)
        plain = isinstance(node, _LONG_LISTS) and not row
        most = MAX_BRANCHES if isinstance(node, exp.Case) else MAX_SIDE_BY_SIDE
        long = not plain and any(len(v) > most for v in lists)
        if long or selects > MAX_SELECTS or aggregates > MAX_AGGREGATES:
            raise too_large(place_of(text, node) if long and node is not nodes[0] else None)


def _refuse_without_columns(nodes: Sequence[exp.Expr], text: str) -> None:
    """Refuse ``SELECT FROM t``, which the parser takes and the engine does not."""
    for node in nodes:
        if isinstance(node, exp.Select) and not node.expressions:
            raise SQLSyntaxError(
                "a SELECT lists no columns",
                code="syntax_error",
                place=place_of(text, node.find(exp.Table)),
                hint="Name columns or aggregates between SELECT and FROM.",
            )


def _refuse_top_in_unions(nodes: Sequence[exp.Expr], text: str) -> None:
    """Refuse ``SELECT TOP 2 … UNION …``, as a LIMIT there would be that of the union."""
    for node in nodes:
        top = isinstance(node, exp.Limit) and node.meta.get("top")
        if top and node.parent is not None and isinstance(node.parent.parent, exp.SetOperation):
            raise SQLSyntaxError(
                "TOP stands in a SELECT that is one side of a UNION",
                code="syntax_error",
                place=place_of(text, node),
                hint="Write brackets around it, (SELECT TOP 3 …) UNION …, or LIMIT at the end.",
            )


def _refuse_unread(nodes: Sequence[exp.Expr], text: str) -> None:
    """Refuse parts of clauses that the parser takes and nothing reads.

    Written as DuckDB's SQL, they would be left out without a word.
    """
    for node in nodes:
        options = node.args.get("limit_options")
        if options is not None and (
            options.args.get("with_ties")
            or (isinstance(node, exp.Fetch) and options.args.get("percent"))
        ):
            part, instead = "FETCH … WITH TIES or PERCENT", "Write LIMIT 10, or LIMIT 10%."
        elif isinstance(node, exp.Limit) and node.expressions:
            part, instead = "LIMIT … BY", "Number rows by a window in an outer query."
        elif isinstance(node, exp.Group) and node.args.get("all") is False:
            part, instead = "GROUP BY DISTINCT", "Name each grouping set once."
        else:
            continue
        raise SQLSyntaxError(
            f"{part} is not available",
            code="syntax_error",
            place=place_of(text, node),
            hint=instead,
        )


def _fetch_as_limit(nodes: Sequence[exp.Expr]) -> None:
    """Write FETCH FIRST … ROWS ONLY as the LIMIT that it is: it is one question, and one choice."""
    for node in nodes:
        if isinstance(node, exp.Fetch):
            count = node.args.get("count") or exp.Literal.number(1)
            limit = exp.Limit(expression=count)
            limit.meta.update(node.meta)
            node.replace(limit)


def _refuse_odd_numbers(nodes: Sequence[exp.Expr], text: str) -> None:
    """Refuse ``0.5ELSE``, which the tokenizer takes for the number ``0.5E`` and a word.

    And integers that only BIGNUM holds: of those the engine cannot tell before it computes them
    whether what is made of them can be computed.
    """
    for node in nodes:
        if not isinstance(node, exp.Literal) or node.is_string:
            continue
        if len(node.this) > MAX_DIGITS and _is_larger_than_integers(node.this):
            raise number_too_long(text, node)
        if not _NUMBER.fullmatch(node.this):
            raise SQLSyntaxError(
                "this is not a number",
                code="syntax_error",
                place=place_of(text, node),
                hint="After E stands an exponent: 1e9. Leave a blank between numbers and words.",
            )


def _is_larger_than_integers(number: str) -> bool:
    return number.isdecimal() and (len(number) > MAX_DIGITS + 1 or int(number) >= 2**128)


def number_too_long(text: str, node: exp.Expr) -> QueryRefused:
    """Build the error for a number with more digits than the engine's integers have."""
    return QueryRefused(
        f"numbers have at most {MAX_DIGITS} digits",
        code="number_too_long",
        place=place_of(text, node),
        hint="Write very large numbers with an exponent: 1e40.",
    )


def too_large(place: Place | None = None) -> QueryRefused:
    """Build the error for a query with too many parts."""
    return QueryRefused(
        "the query has too many parts",
        code="query_too_large",
        place=place,
        hint=f"At most {MAX_SIDE_BY_SIDE} columns or joins stand side by side, {MAX_BRANCHES:,} "
        f"branches in a CASE, {MAX_SELECTS} SELECTs and {MAX_AGGREGATES} aggregates in a query, "
        f"and {MAX_TOKENS:,} words and signs, {MAX_WORDS:,} of them beside constants and commas.",
    )


def place_of(text: str, node: exp.Expr | None) -> Place | None:
    """Find where a node stands in the query text, from the positions its tokens carry."""
    if node is None:
        return None
    spans = [
        (part.meta["start"], part.meta["end"] + 1)
        for part in node.walk()
        if "start" in part.meta and "end" in part.meta
    ]
    if not spans:
        return None
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    call = _CALL.search(text, 0, start) if isinstance(node, exp.Func) else None
    if call is not None and fold(call["name"]) not in _BEFORE_BRACKETS:
        start = call.start()
    return Place.in_text(text, start, _closed(text, start, end))


def place_blamed(text: str, reason: str) -> Place | None:
    """Find the word of a text that an engine's error quotes, if it occurs just once."""
    for word in _QUOTED.findall(reason):
        found = list(re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))
        if len(found) == 1:
            return Place.in_text(text, *found[0].span())
    return None


def _closed(text: str, start: int, end: int) -> int:
    """Find the end of a span and of brackets that open in it; nodes do not know theirs."""
    inside = text[start:end]
    missing = sum(map(inside.count, _OPENERS)) - sum(map(inside.count, _CLOSERS))
    for position in range(end, len(text)):
        if missing <= 0 or text[position] in _OPENERS or text[position] in "'\"":
            break
        if text[position] in _CLOSERS:
            missing -= 1
            end = position + 1
    return end


def _parse_all(text: str) -> list[exp.Expr | None]:
    try:
        tokens = _DIALECT.tokenize(text)
        words = sum(token.token_type not in _PLAIN_TOKENS for token in tokens)
        if len(tokens) > MAX_TOKENS or words > MAX_WORDS or _pivoted(tokens) > MAX_SIDE_BY_SIDE:
            raise too_large()
        return [_placed(tree) for tree in _trees(tokens, text)]
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


def _trees(tokens: Sequence[Token], text: str) -> list[exp.Expr | None]:
    """Parse tokens; brackets are names where they cannot be lists. Raises ``ParseError``."""
    try:
        return _DIALECT.parser().parse(list(tokens), text)
    except ParseError as error:
        renamed = with_bracketed_names(tokens, text)
        if renamed is None:
            raise
        try:
            return _DIALECT.parser().parse(renamed, text)
        except ParseError:
            raise error from None


class _Positions(dict[str, Any]):
    """The parser's notes on a node, mostly its place; copied with it at less expense."""

    def __deepcopy__(self, memo: object) -> _Positions:
        return _Positions(self)


def _placed(tree: exp.Expr | None) -> exp.Expr | None:
    for node in () if tree is None else tree.walk():
        if node._meta is not None:
            node._meta = _Positions(node._meta)
    return tree


def _pivoted(tokens: Sequence[Token]) -> int:
    """Count the columns that the lists of the largest PIVOT make: the parser names them all."""
    starts = [i for i, token in enumerate(tokens) if token.token_type == TokenType.PIVOT]
    return max((_listed(tokens, start + 1) for start in starts), default=0)


def _listed(tokens: Sequence[Token], start: int) -> int:
    """Multiply the lengths of the lists after IN, in the brackets that begin there."""
    columns, items, depth, before = 1, 0, 0, None
    for token in islice(tokens, start, None):
        if token.token_type == TokenType.L_PAREN:
            depth += 1
            items = 1 if depth == _LIST_DEPTH and before == TokenType.IN else items
        elif token.token_type == TokenType.R_PAREN:
            if depth == _LIST_DEPTH:
                columns, items = columns * max(items, 1), 0
            depth -= 1
        elif token.token_type == TokenType.COMMA and depth == _LIST_DEPTH and items:
            items += 1
        if depth <= 0:
            break
        before = token.token_type
    return columns


def _syntax_error(text: str, error: ParseError) -> SQLSyntaxError:
    details = error.errors[0] if error.errors else {}
    misspelled = _misspelled(text, details)
    if misspelled is not None:
        start, end, meant = misspelled
        return SQLSyntaxError(
            f"the query is not valid SQL at {printable(text[start:end])}",
            code="syntax_error",
            place=Place.in_text(text, start, end),
            hint=f"Did you mean {meant}?",
        )
    place = None
    highlight = details.get("highlight") or ""
    if details.get("line"):
        end = _offset(text, details)
        start = text.rfind("\n", 0, end) + 1
        place = Place.in_text(text, max(start, end - max(1, len(highlight))), end)
    return SQLSyntaxError(
        "the query is not valid SQL",
        code="syntax_error",
        place=place,
        hint="Reading stopped there: something before it is missing, misspelled or one too many.",
    )


def _misspelled(text: str, details: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Find a word like a keyword where reading stopped, or among the two before: it, and which.

    The first word of a statement is looked at as well.
    """
    stop = _offset(text, details)
    words = [word.span() for word in _WORDS.finditer(text) if word.start() < stop]
    before = "("
    for place, (start, end) in enumerate(words):
        word = text[start:end].upper()
        near = place == 0 or place >= len(words) - _LOOKED_BACK
        close = difflib.get_close_matches(word, _KEYWORDS, n=1, cutoff=_ALIKE) if near else []
        if close and word not in _KEYWORDS and before not in _BEFORE_NAMES:
            return start, end, close[0]
        before = word
    return None


def _offset(text: str, details: Mapping[str, Any]) -> int:
    """Find the end of what was read, from the parser's line and column."""
    if not details.get("line"):
        return len(text)
    lines = text.split("\n")
    before = lines[: min(int(details["line"]), len(lines)) - 1]
    return sum(len(part) + 1 for part in before) + int(details.get("col") or 0)


def _refuse_nested(text: str) -> None:
    depth = 0
    for character in text:
        if character in _OPENERS:
            depth += 1
            if depth > MAX_NESTING:
                raise _too_deep()
        elif character in _CLOSERS:
            depth -= 1


def _too_deep() -> QueryRefused:
    return QueryRefused(
        "the query is nested too deeply",
        code="query_too_deep",
        hint=f"At most {MAX_NESTING} levels of brackets and {MAX_TREE_DEPTH} of operators are "
        "read; a long list of alternatives can be written as x IN (…).",
    )


_DATE_PARTS: Final = ("year", "month", "day")
_TIME_PARTS: Final = ("hour", "min", "sec")


def write_moments(tree: exp.Expr) -> None:
    """Write the moments of a statement as constants; ``tree`` is changed.

    Columns that are such a moment keep it, as it is what they are called.
    """
    for node in list(tree.find_all(exp.DateFromParts, exp.TimestampFromParts)):
        moment = None if isinstance(node.parent, exp.Alias | exp.Select) else _moment(node)
        if moment is None:
            continue
        date = isinstance(node, exp.DateFromParts)
        text = moment.date().isoformat() if date else moment.isoformat(" ")
        constant = exp.cast(exp.Literal.string(text), "DATE" if date else "TIMESTAMP")
        constant.this.meta.update(_place(node))
        node.replace(constant)


def _moment(node: exp.Expr) -> datetime | None:
    """Read the parts of a moment; None unless they are numbers alone, of a moment that there is."""
    names = _DATE_PARTS + (() if isinstance(node, exp.DateFromParts) else _TIME_PARTS)
    parts = [node.args.get(name) for name in names]
    given = sum(value is not None for value in node.args.values())
    if given > len(parts) or not all(isinstance(p, exp.Literal) and p.is_number for p in parts):
        return None
    *whole, last = (Decimal(part.this) for part in parts if part is not None)
    seconds = last if len(parts) > len(_DATE_PARTS) else None
    numbers = whole if seconds is not None else [*whole, last]
    if any(number > 9999 or number != int(number) for number in numbers):
        return None
    return _existing([int(number) for number in numbers], seconds or Decimal(0))


def _existing(numbers: list[int], seconds: Decimal) -> datetime | None:
    microseconds = seconds * 1_000_000
    if not 0 <= seconds < 60 or microseconds != int(microseconds):
        return None
    second, rest = divmod(int(microseconds), 1_000_000)
    year, month, day, hour, minute = (*numbers, 0, 0)[:5]
    try:
        return datetime(year, month, day, hour, minute, second, rest)
    except ValueError:
        return None


def _place(node: exp.Expr) -> dict[str, int]:
    """Return the meta data of where a node's constants stand in the text."""
    spans = [part.meta for part in node.walk() if "start" in part.meta and "end" in part.meta]
    if not spans:
        return {}
    return {"start": min(s["start"] for s in spans), "end": max(s["end"] for s in spans)}

"""Where statements end: at a semicolon that stands in no quotes and in no comment.

And what of them is comments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import TokenType
from sqlglot.errors import TokenError

from dpsql.syntax.dialect import PrivateDuckDB
from dpsql.syntax.parse import after_blanks

_DIALECT = PrivateDuckDB()
_END = "\n;"
_BRACKET = "("


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text split into statements at semicolons, with the rest after the last one.

    ``statements`` are the ends of ``text[start:end]``, from the first word to before the semicolon;
    statements without a word are left out. What follows begins at ``rest``, which is the length of
    the text if only blanks and comments follow. ``open`` says that the text ends inside of quotes
    or of a comment; then its statements may be among what follows.
    """

    statements: tuple[tuple[int, int], ...]
    rest: int
    open: bool


def split(text: str) -> SplitText:
    """Split a text into statements as the query parser will read them."""
    try:
        tokens = _DIALECT.tokenize(text + _END)
    except TokenError:
        return SplitText((), after_blanks(text), True)
    ends = [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
    if not ends or ends[-1] != len(text) + len(_END) - 1:
        return SplitText((), after_blanks(text), True)
    statements, start = [], after_blanks(text)
    for end in ends[:-1]:
        if start < end:
            statements.append((start, end))
        start = after_blanks(text, end + 1)
    return SplitText(tuple(statements), start, False)


def without_comments(text: str) -> str:
    """Write blanks for the comments of a text, so that all else keeps its place.

    A text that ends inside of quotes or of a comment stays as it is.
    """
    try:
        # Behind a bracket no word is one of those whose rest the lexer takes for a text.
        tokens = _DIALECT.tokenize(_BRACKET + text)[len(_BRACKET) :]
    except TokenError:
        return text
    parts: list[str] = []
    done = 0
    for token in tokens:
        start, end = token.start - len(_BRACKET), token.end + 1 - len(_BRACKET)
        parts += re.sub(r"\S", " ", text[done:start]), text[start:end]
        done = end
    return "".join((*parts, re.sub(r"\S", " ", text[done:])))

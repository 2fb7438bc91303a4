"""Names in brackets, as T-SQL quotes them: ``SELECT [t0].[Order Date] FROM [orders] AS [t0]``.

In DuckDB's words a bracket begins a list, or asks for an element of one. So only a text that does
not parse with lists is read anew with names in their place, and no text that parses changes its
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import Token, TokenType

_NAME: Final = re.compile(r"[^\W\d]\w*(?: \w+)*")
_MOST_WORDS: Final = 12
_VALUES: Final = frozenset(
    {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.STRING}
    | {TokenType.NUMBER, TokenType.VAR, TokenType.IDENTIFIER, TokenType.PARAMETER}
    | {TokenType.PLACEHOLDER, TokenType.IN, TokenType.ARRAY, TokenType.LIST, TokenType.MAP}
)
"""What a list or its elements may be written behind."""


def with_bracketed_names(tokens: Sequence[Token], text: str) -> list[Token] | None:
    """Read brackets around plain words as names, where no value stands before them.

    Returns the tokens of the text with these names, or None if it has none.
    """
    made: list[Token] = []
    place, found = 0, False
    after_name = False
    while place < len(tokens):
        token = tokens[place]
        end = _end_of_name(tokens, place, text)
        behind_value = bool(made) and made[-1].token_type in _VALUES
        behind_value = behind_value and not (after_name or _is_top(made))
        after_name = end is not None and not behind_value
        if end is None or behind_value:
            made.append(token)
            place += 1
            continue
        closing = tokens[end]
        made.append(
            Token(
                TokenType.IDENTIFIER,
                text[token.start + 1 : closing.start],
                line=token.line,
                col=token.col,
                start=token.start,
                end=closing.end,
            )
        )
        place, found = end + 1, True
    return made if found else None


def _is_top(tokens: Sequence[Token]) -> bool:
    """Tell whether tokens end in ``TOP (n)``, behind which a select list begins."""
    word, *number = tokens[-4:]
    kinds = [token.token_type for token in number]
    top = kinds == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]
    return top and word.text.upper() == "TOP"


def _end_of_name(tokens: Sequence[Token], start: int, text: str) -> int | None:
    """Find the closing bracket of a name that begins here; None if none does."""
    if tokens[start].token_type != TokenType.L_BRACKET:
        return None
    for end in range(start + 1, min(start + 1 + _MOST_WORDS, len(tokens))):
        if tokens[end].token_type == TokenType.R_BRACKET:
            inside = text[tokens[start].start + 1 : tokens[end].start]
            return end if _NAME.fullmatch(inside) else None
    return None

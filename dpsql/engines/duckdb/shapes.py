"""Shapes of statements: statements of one shape differ in constants alone, and share a plan.

The engine's own lexer says where a constant begins and where the next token does. So a text that
got out of its quotes is more than one token, and has another shape.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from duckdb import token_type, tokenize

_NUMBERS: Final = token_type.numeric_const
_TEXTS: Final = token_type.string_const
_NUMBER: Final = re.compile(rb"\d{1,37}(\.\d{1,37})?")
_DIGIT: Final = re.compile(rb"\d")
_TEXT: Final = re.compile(rb"'(?:[^']|'')*'")
_ENDS: Final = tuple(2**bits - 1 for bits in (7, 8, 15, 16, 31, 32, 63, 64))  # of integer types
_SIGNS: Final = frozenset({b"=", b"<>", b"!=", b"<", b">", b"<=", b">="})
_BEFORE_NUMBERS: Final = _SIGNS | {b"+", b"-", b"*", b"/", b"%", b"BETWEEN", b"AND"}
_BEFORE_TEXTS: Final = _SIGNS | {b"LIKE", b"ILIKE", b"BETWEEN", b"AND"}
_CASTS: Final = frozenset({b"CAST", b"TRY_CAST"})


def shape(statement: str) -> bytes:
    """Write a statement's shape: digits for its numbers, nothing in its texts.

    Only constants that are operands of comparisons, arithmetic and casts are masked. A number keeps
    how many digits it has, and which types of integers hold it: its own type follows from that, and
    which side of a comparison is cast. Constants anywhere else stay as they are: there they may be
    a position, a width, or the name of a part of a date.
    """
    text = statement.encode()
    tokens = tokenize(statement)
    starts = [start for start, _ in tokens]
    starts.append(len(text))

    def token(place: int) -> bytes:
        return text[starts[place] : starts[place + 1]].rstrip()

    found: list[bytes] = []
    done = 0
    for place, (start, kind) in enumerate(tokens):
        if kind == _NUMBERS:
            if place and token(place - 1) in _BEFORE_NUMBERS:
                constant = token(place)
                found += (text[done:start], _like(constant))
                done = start + len(constant)
        elif kind == _TEXTS and place:
            before = token(place - 1)
            if before == b"(" and place > 1:
                compared = token(place - 2) in _CASTS
            else:
                compared = before in _BEFORE_TEXTS
            constant = token(place)
            if compared and _TEXT.fullmatch(constant):
                found += (text[done:start], b"''")
                done = start + len(constant)
    return b"".join((*found, text[done:]))


@lru_cache(maxsize=4096)
def _like(number: bytes) -> bytes:
    """Write another number of as many digits, which is of the same type wherever it stands."""
    if not _NUMBER.fullmatch(number):
        return number
    beyond = 0 if b"." in number else sum(int(number) > end for end in _ENDS)
    return _DIGIT.sub(b"%d" % (9 - beyond), number)

"""Upper and lower case as DuckDB has them, for engines whose own depend on a locale."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from itertools import pairwise
from typing import Final, Literal

import duckdb

from dpsql.core.sql import bare_word, sql
from dpsql.engines.embedded.running import execute

_FIRST: Final = 0x80  # above ASCII
_END: Final = 0x20000  # above all letters with a case
_SCRIPTS: Final = (0x180, 0x400, 0x530)  # Latin of Europe, other Latin and Greek, Cyrillic


@cache
def other_case(word: Literal["lower", "upper"]) -> tuple[str, str]:
    """List letters above ASCII and their other case, in one order.

    Each becomes one letter, whatever stands beside it.
    """
    asked = sql(
        "SELECT string_agg(letter, '' ORDER BY code), string_agg(other, '' ORDER BY code) FROM "
        "(SELECT code, TRY(chr(code)) AS letter, TRY({word}(chr(code))) AS other "  # no surrogates
        "FROM (SELECT CAST(range AS INTEGER) AS code FROM range({first}, {end}))) "
        "WHERE letter <> other",
        word=bare_word(word),
        first=_FIRST,
        end=_END,
    )
    with duckdb.connect(":memory:") as connection:
        ((letters, others),) = execute(connection, asked).fetchall()
    return letters, others


def by_script(word: Literal["lower", "upper"]) -> list[tuple[str, str]]:
    """List what :func:`other_case` does by neighbouring scripts.

    No letter becomes one that changes again, so one script can be exchanged after the other.
    """
    letters, others = other_case(word)
    ends = [bisect_left(letters, chr(first)) for first in _SCRIPTS]
    parts = pairwise((0, *ends, len(letters)))
    return [(letters[first:end], others[first:end]) for first, end in parts]


def in_case(text: str, word: Literal["lower", "upper"]) -> str:
    """Write a text in lower or upper case, as DuckDB does."""
    if not text.isascii():
        letters, others = other_case(word)
        text = text.translate(str.maketrans(letters, others))
    small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    given, wanted = (large, small) if word == "lower" else (small, large)
    return text.translate(str.maketrans(given, wanted))

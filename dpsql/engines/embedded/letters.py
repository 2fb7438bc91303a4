"""Upper and lower case as DuckDB has them, for engines whose own depend on a locale."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

import duckdb

from dpsql.core.sql import bare_word, sql
from dpsql.engines.embedded.running import execute

_FIRST: Final = 0x80  # above ASCII
_END: Final = 0x20000  # above all letters with a case
_SURROGATES: Final = (0xD800, 0xDFFF)


@cache
def other_case(word: Literal["lower", "upper"]) -> tuple[str, str]:
    """List letters above ASCII and their other case, in one order.

    Each becomes one letter, whatever stands beside it.
    """
    asked = sql(
        "SELECT string_agg(letter, '' ORDER BY code), string_agg(other, '' ORDER BY code) FROM "
        "(SELECT code, chr(code) AS letter, {word}(chr(code)) AS other "
        "FROM (SELECT CAST(range AS INTEGER) AS code FROM range({first}, {end})) "
        "WHERE code NOT BETWEEN {low} AND {high}) WHERE letter <> other",
        word=bare_word(word),
        first=_FIRST,
        end=_END,
        low=_SURROGATES[0],
        high=_SURROGATES[1],
    )
    with duckdb.connect(":memory:") as connection:
        ((letters, others),) = execute(connection, asked).fetchall()
    return letters, others


def lowered(text: str) -> str:
    """Write a text in lower case, as DuckDB does."""
    letters, others = other_case("lower")
    ascii_, small = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
    return text.translate(str.maketrans(ascii_ + letters, small + others))

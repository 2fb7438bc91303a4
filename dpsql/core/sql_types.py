"""Names of types as SQL: an engine's text of a type, read word by word."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from dpsql.core.sql import Name, Sql, Text, bare_word, join, sql

_TOKEN: Final = re.compile(
    r"""(?P<name>"(?:[^"]|"")+")|(?P<text>'(?:[^']|'')*')|(?P<word>[^\W\d]\w*|\d+)"""
    r"|(?P<sign>[(),\[\] ])"
)
_SIGNS: Final = {
    "(": sql("("),
    ")": sql(")"),
    "[": sql("["),
    "]": sql("]"),
    ",": sql(","),
    " ": sql(" "),
}
_CLOSED_BY: Final = {"(": ")", "[": "]"}


@lru_cache(maxsize=4096)
def type_sql(text: str) -> Sql:
    """Make SQL of the name of a type as an engine writes it: words, numbers, names and texts.

    Raises ``ValueError`` for what is none. Names of fields and the values of an ENUM, which are in
    quotes there, are names and literals.

    >>> type_sql("STRUCT(a DECIMAL(18,3), \\"b c\\" INTEGER[])").pieces
    ('STRUCT(a DECIMAL(18,3), ', Name(text='b c'), ' INTEGER[])')
    """
    parts: list[Sql] = []
    opened: list[str] = []
    end = 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError("this is not the name of a type")
        end, token = found.end(), found[0]
        match found.lastgroup:
            case "name":
                parts.append(Sql(Name(token[1:-1].replace('""', '"'))))
            case "text":
                parts.append(Sql(Text(token[1:-1].replace("''", "'"))))
            case "word":
                parts.append(bare_word(token))
            case _:
                if token in _CLOSED_BY:
                    opened.append(_CLOSED_BY[token])
                elif token in _CLOSED_BY.values() and (not opened or opened.pop() != token):
                    raise ValueError("this is not the name of a type")
                parts.append(_SIGNS[token])
    if opened or not parts:
        raise ValueError("this is not the name of a type")
    return join("", parts)

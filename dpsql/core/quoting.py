"""Quoting of names and text in DuckDB's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """Write a quoted identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Write the text of a value as a string literal.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + str(value).replace("'", "''") + "'"


INTERNAL_PREFIX = "__dpsql_"


ROW_ID = f"{INTERNAL_PREFIX}rid"

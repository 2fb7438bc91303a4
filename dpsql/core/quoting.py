"""Quoting of names and text in DuckDB's SQL."""

from __future__ import annotations

from dpsql.core.sql import Name, Sql, sql
from dpsql.core.table_name import TableName


def quote(name: str) -> str:
    """Write a quoted identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_table(name: TableName) -> str:
    """Write the name of a table, with its schema unless that is ``main``.

    >>> quote_table(TableName("a.b")), quote_table(TableName("b", "a"))
    ('"a.b"', '"a"."b"')
    """
    return quote(name.table) if name.in_main else f"{quote(name.schema)}.{quote(name.table)}"


def quote_text(value: object) -> str:
    """Write the text of a value as a string literal.

    >>> quote_text("it's")
    "'it''s'"
    """
    return "'" + str(value).replace("'", "''") + "'"


class Quoted:
    """The renderer of engines that write names and literals as DuckDB does."""

    def name(self, text: str) -> str:
        """Write an identifier in quotes."""
        return quote(text)

    def text(self, value: str) -> str:
        """Write a string literal."""
        return quote_text(value)


def table_sql(name: TableName) -> Sql:
    """Make SQL of the name of a table, with its schema unless that is ``main``."""
    own = Sql(Name(name.table))
    return own if name.in_main else sql("{}.{}", Sql(Name(name.schema)), own)


INTERNAL_PREFIX = "__dpsql_"


ROW_ID = f"{INTERNAL_PREFIX}rid"

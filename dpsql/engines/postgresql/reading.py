"""Reads PostgreSQL columns: values that DuckDB's type has, each in one form.

DuckDB has no NaN among decimals, and calendars part before the year 1 and after 9999: such values
are NULL from here on, for everything that is asked. Texts have the collation "C". Moments with a
time zone are timestamps in UTC, the zone of each session.

The server fails where a value, or a row of values, takes a gigabyte, and some functions take many
bytes for each of a text. So to questions a longer text than ``MOST_TEXT_BYTES`` is NULL as well,
and so is one that is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from dpsql.core.quoting import Quoted
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, SqlRenderer, join, literal, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.row_types import MOST_TEXT_BYTES

POSTGRESQL_TEXT: Final[SqlRenderer] = Quoted()
"""How SQL is written that PostgreSQL reads: the only place where names and literals become text."""
_TYPES: Final = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "time": "TIME",
    "uuid": "UUID",
    "json": "JSON",
    "jsonb": "JSON",
}
_MOST_DIGITS: Final = 38
_DOCUMENT: Final = literal("{}")
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")


def duckdb_type(name: str, shown: str) -> SqlType | None:
    """Return the DuckDB type with the values of a PostgreSQL type; None without one.

    ``shown`` is the type as ``format_type`` has it.
    """
    if name != "numeric":
        return SqlType.of(_TYPES[name]) if name in _TYPES else None
    found = _NUMERIC.fullmatch(shown)
    if found is None:
        return None
    width, scale = int(found[1]), int(found[2])
    return SqlType.decimal(width, scale) if 0 <= scale <= width <= _MOST_DIGITS else None


def rows_of(table: Table) -> Sql:
    """Write the statement that reads all rows of a table, with the columns of the schema."""
    return _rows(table, _read)


def rows_to_question(table: Table) -> Sql:
    """Write the same for questions, where no row may fail: JSON is the text ``{}``, or NULL.

    The text of a document can be larger than any that the server holds. Long texts are NULL.
    """
    return _rows(table, _asked)


def _rows(table: Table, read: Callable[[Column], Sql]) -> Sql:
    columns = join(", ", (sql("{} AS {}", read(c), name(c.name)) for c in table.columns))
    schema = "public" if table.name.in_main else table.name.schema
    return sql("SELECT {} FROM {}.{}", columns, name(schema), name(table.name.table))


def within_years(value: Sql) -> Sql:
    """Write a date or timestamp of the years 1 to 9999, NULL for any other."""
    return sql(
        "CASE WHEN {value} >= '0001-01-01' AND {value} < '10000-01-01' THEN {value} END",
        value=value,
    )


def sent(column: Column) -> Sql:
    """Write a column as it leaves the server: decimals as text, which has all of their digits."""
    own = name(column.name)
    return sql("CAST({} AS TEXT)", own) if column.type.kind == "DECIMAL" else own


def _asked(column: Column) -> Sql:
    """Write a column whose values no row of any question can be too large with."""
    if column.type.is_opaque:
        return _present(column)
    if column.type.kind != "VARCHAR" or column.enumerated:
        return _read(column)
    text = sql("CAST({} AS TEXT)", name(column.name))
    read = _read(column)
    return sql("CASE WHEN octet_length({}) < {} THEN {} END", text, MOST_TEXT_BYTES, read)


def _present(column: Column) -> Sql:
    return sql("CASE WHEN {} IS NOT NULL THEN CAST({} AS TEXT) END", name(column.name), _DOCUMENT)


def _read(column: Column) -> Sql:
    own = name(column.name)
    match column.type.kind:
        case "VARCHAR" | "JSON":
            return sql('(CAST({} AS TEXT) COLLATE "C")', own)
        case "DECIMAL":
            return sql("NULLIF({}, CAST('NaN' AS NUMERIC))", own)
        case "DATE":
            return within_years(own)
        case "TIMESTAMP":
            return within_years(sql("CAST({} AS TIMESTAMP)", own))
    return own

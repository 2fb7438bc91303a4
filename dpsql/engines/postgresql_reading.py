"""What is read of a PostgreSQL column: values that its DuckDB type has, each in one form.

DuckDB has no NaN among decimals, and calendars part before the year 1 and after 9999: such values
are NULL from here on, for everything that is asked. Texts have the collation "C". Moments with a
time zone are timestamps in UTC, the zone of each session.
"""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.quoting import quote
from dpsql.core.schema import Table, base_type

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
}
_MOST_DIGITS: Final = 38
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")


def duckdb_type(name: str, shown: str) -> str | None:
    """Name the DuckDB type with the values of one of PostgreSQL's own; None for none.

    ``shown`` is the type as ``format_type`` has it.
    """
    if name != "numeric":
        return _TYPES.get(name)
    found = _NUMERIC.fullmatch(shown)
    if found is None:
        return None
    width, scale = int(found[1]), int(found[2])
    return f"DECIMAL({width},{scale})" if 0 <= scale <= width <= _MOST_DIGITS else None


def rows_of(table: Table) -> str:
    """Write the statement that reads all rows of a table, with the columns of the schema."""
    columns = ", ".join(f"{_read(quote(c.name), c.type)} AS {quote(c.name)}" for c in table.columns)
    schema = "public" if table.name.in_main else table.name.schema
    return f"SELECT {columns} FROM {quote(schema)}.{quote(table.name.table)}"


def within_years(value: str) -> str:
    """Write a date or timestamp of the years 1 to 9999, NULL for any other."""
    return f"CASE WHEN {value} >= '0001-01-01' AND {value} < '10000-01-01' THEN {value} END"


def sent(column: str, type_: str) -> str:
    """Write a column as it leaves the server: decimals as text, which has all of their digits."""
    kind = base_type(type_)
    return f"CAST({column} AS TEXT)" if kind == "DECIMAL" else column


def _read(column: str, type_: str) -> str:
    match base_type(type_):
        case "VARCHAR":
            return f'(CAST({column} AS TEXT) COLLATE "C")'
        case "DECIMAL":
            return f"NULLIF({column}, CAST('NaN' AS NUMERIC))"
        case "DATE":
            return within_years(column)
        case "TIMESTAMP":
            return within_years(f"CAST({column} AS TIMESTAMP)")
    return column

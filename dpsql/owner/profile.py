"""Profiles of data for their owner, who drafts or checks a policy. Nothing here is private.

Nothing here is private. Analysts have no way here: nothing but ``dpsql init`` and ``dpsql check``
imports this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from dpsql.core.formatting import printable
from dpsql.core.quoting import table_sql
from dpsql.core.schema import fold
from dpsql.core.sql import join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Database
from dpsql.engines.duckdb.engine import DuckDBEngine, open_database
from dpsql.engines.duckdb.views import owned
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.opening import DatabasePlace, is_server
from dpsql.errors import EngineError, InterfaceError

MAX_DOMAIN_VALUES: Final = 12
"""Columns of text with more distinct values are not shown."""


def profile_columns(database: DatabasePlace) -> Mapping[tuple[str, str], str]:
    """Describe each column by the range of its numbers, or by its texts where they are few.

    Keyed by the table's key and the folded name of the column. Raises ``InterfaceError`` and
    ``EngineError``.
    """
    engine = _opened(database)
    try:
        cursor = engine._connection.cursor()
        found = {
            (table.name.key, fold(column.name)): _seen(cursor, table.name, column.name, numeric)
            for table in engine.catalog().tables.values()
            for column in table.columns
            if (numeric := column.type.is_numeric) or column.type.is_text
        }
    except duckdb.Error:
        raise EngineError() from None
    finally:
        engine.close()
    return {key: text for key, text in found.items() if text}


def _opened(database: DatabasePlace) -> DuckDBEngine:
    if is_server(database):
        raise InterfaceError(
            "data can be profiled in files alone, not in a server's database",
            code="server_unsupported",
            hint="Leave --look out, and write bounds from public knowledge.",
        )
    engine = open_database(database)
    engine.declare(engine.proposed())
    return engine


def profile_units(
    database: DatabasePlace, units: Mapping[str, str]
) -> Mapping[tuple[str, str], tuple[str, ...] | None]:
    """Find the columns with a single value per unit, and the tables with a single row per unit.

    A column of a unit maps to the names of the columns with a single value, or to None where a unit
    has a single row. ``units`` are the columns of units by the keys of their tables; the result is
    keyed by both, the column's name folded, without tables that have neither. Raises
    ``InterfaceError`` and ``EngineError``.
    """
    engine = _opened(database)
    found: dict[tuple[str, str], tuple[str, ...] | None] = {}
    try:
        cursor = engine._connection.cursor()
        for table in engine.catalog().tables.values():
            unit = units.get(table.name.key)
            if unit is None:
                continue
            others = [c.name for c in table.columns if fold(c.name) != fold(unit)]
            rows, *values = _most_per_unit(cursor, table.name, unit, others)
            single = tuple(name for name, n in zip(others, values, strict=True) if n == 1)
            if rows == 1:
                found[table.name.key, fold(unit)] = None
            elif single:
                found[table.name.key, fold(unit)] = single
    except duckdb.Error:
        raise EngineError() from None
    finally:
        engine.close()
    return found


def _most_per_unit(
    cursor: duckdb.DuckDBPyConnection, table: TableName, unit: str, others: Sequence[str]
) -> tuple[int | None, ...]:
    """Return the most rows of a unit, and its most values of each other column, NULL for one."""
    numbers = [quoted(f"n{index}") for index in range(len(others))]
    counted = [
        sql(
            "count(DISTINCT {name}) + (count(*) > count({name}))::INT AS {number}",
            name=quoted(name),
            number=number,
        )
        for name, number in zip(others, numbers, strict=True)
    ]
    largest = [sql("max(r)"), *(sql("max({})", number) for number in numbers)]
    of_units = sql(
        "SELECT {counted} FROM {table} WHERE {unit} IS NOT NULL GROUP BY {unit}",
        counted=join(", ", [sql("count(*) AS r"), *counted]),
        table=table_sql(table),
        unit=quoted(unit),
    )
    asked = sql("SELECT {} FROM ({})", join(", ", largest), of_units)
    (row,) = execute(cursor, asked).fetchall()
    return tuple(row)


def values_of_types(engine: Database) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the values that the types of columns list (ENUM), keyed as in :func:`profile_columns`.

    They are a part of the schema: no row is read. Those of a server are not read: columns of such
    types are left out there.
    """
    if not isinstance(engine, DuckDBEngine):
        return {}
    cursor = engine._connection.cursor()
    found = {}
    for table in engine.catalog().tables.values():
        if table.unreadable is None and not engine.definition(table.name).files:
            rows = relation(cursor, sql("SELECT * FROM {}", owned(table.name)))
            for name, type_ in zip(rows.columns, rows.types, strict=True):
                if type_.id == "enum":
                    values = dict(type_.children)["values"]
                    assert isinstance(values, list)
                    found[table.name.key, fold(name)] = tuple(values)
    return found


def _seen(cursor: duckdb.DuckDBPyConnection, table: TableName, column: str, numeric: bool) -> str:
    name, source = quoted(column), table_sql(table)
    if numeric:
        ends = sql("SELECT min({name}), max({name}) FROM {source}", name=name, source=source)
        ((low, high),) = execute(cursor, ends).fetchall()
        return "" if low is None else f"{low} to {high}"
    few = sql(
        "SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {}",
        MAX_DOMAIN_VALUES + 1,
        name=name,
        source=source,
    )
    values = execute(cursor, few).fetchall()
    if len(values) > MAX_DOMAIN_VALUES:
        return ""
    return ", ".join(printable(str(value), 40) for (value,) in values)

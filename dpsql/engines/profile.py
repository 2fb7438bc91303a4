"""What the data hold, for an owner who asks to see it while drafting a policy. Nothing is private.

Analysts have no way here: nothing but ``dpsql init --look`` imports this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb

from dpsql.core.formatting import printable
from dpsql.core.quoting import quote, quote_table
from dpsql.core.schema import fold, is_numeric, is_text
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb import open_database
from dpsql.engines.opening import DatabasePlace, is_server
from dpsql.errors import EngineError, InterfaceError

MAX_DOMAIN_VALUES: Final = 12
"""Columns of text with more distinct values are not shown."""


def look(database: DatabasePlace) -> Mapping[tuple[str, str], str]:
    """Describe each column by the range of its numbers, or by its texts where they are few.

    Keyed by the table's key and the folded name of the column. Raises ``InterfaceError`` and
    ``EngineError``.
    """
    if is_server(database):
        raise InterfaceError(
            "what the data hold is shown of files alone, not of a server's database",
            code="server_unsupported",
            hint="Leave --look out, and write bounds from what is publicly known.",
        )
    engine = open_database(database)
    try:
        cursor = engine._connection.cursor()
        found = {
            (table.name.key, fold(column.name)): _seen(cursor, table.name, column.name, numeric)
            for table in engine.schema().values()
            for column in table.columns
            if (numeric := is_numeric(column.type)) or is_text(column.type)
        }
    except duckdb.Error:
        raise EngineError() from None
    finally:
        engine.close()
    return {key: text for key, text in found.items() if text}


def _seen(cursor: duckdb.DuckDBPyConnection, table: TableName, column: str, numeric: bool) -> str:
    name, source = quote(column), quote_table(table)
    if numeric:
        rows = cursor.execute(f"SELECT min({name}), max({name}) FROM {source}").fetchall()
        low, high = rows[0]
        return "" if low is None else f"{low} to {high}"
    values = cursor.execute(
        f"SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL "
        f"ORDER BY 1 LIMIT {MAX_DOMAIN_VALUES + 1}"
    ).fetchall()
    if len(values) > MAX_DOMAIN_VALUES:
        return ""
    return ", ".join(printable(str(value), 40) for (value,) in values)

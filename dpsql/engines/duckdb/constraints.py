"""Constraints of a DuckDB file's tables, from its catalog: no row is read.

DuckDB holds all rows to all of its constraints. What is a view or a file has none.
"""

from __future__ import annotations

import re
from typing import Final

import duckdb

from dpsql.core.constraints import ConstraintsOf, ForeignKey, gathered
from dpsql.core.sql import literal, sql
from dpsql.core.table_name import TableName, fold
from dpsql.engines.duckdb.views import DATA
from dpsql.engines.embedded.running import execute

_COLUMN: Final = r"(?:[A-Za-z_]\w*|'\"[^\"']+\"')"
_OF_COLUMNS: Final = re.compile(rf"\[({_COLUMN}(?:, {_COLUMN})*)\]", re.A)


def read_constraints(connection: duckdb.DuckDBPyConnection) -> ConstraintsOf:
    """Read the constraints of the owner's tables."""
    asked = sql(
        "SELECT schema_name, table_name, constraint_type, constraint_column_names, "
        "referenced_table, referenced_column_names, expression FROM duckdb_constraints() "
        "WHERE database_name = {} ORDER BY schema_name, table_name, constraint_index",
        literal(DATA),
    )
    keys: list[tuple[TableName, str]] = []
    references, conditions, several = [], [], []
    filled: set[tuple[TableName, str]] = set()
    for schema, name, kind, columns, parent, parents, condition in execute(
        connection, asked
    ).fetchall():
        table = TableName(name, schema)
        if kind in ("PRIMARY KEY", "UNIQUE") and len(columns) == 1:
            keys.append((table, columns[0]))
        elif kind in ("PRIMARY KEY", "UNIQUE"):
            several.append((table, frozenset(columns)))
        elif kind == "NOT NULL":
            filled.add((table, columns[0]))
        elif kind == "FOREIGN KEY" and len(columns) == 1:
            # Both tables of a foreign key are in one schema.
            to = ForeignKey(columns[0], TableName(parent, schema), parents[0])
            references.append((table, to))
        elif kind == "CHECK":
            conditions.append((table, condition))
    for table, found in _unique_indexes(connection):
        if len(found) > 1:
            several.append((table, found))
        else:
            keys += [(table, column) for column in found]
    combinations = [
        (table, columns)
        for table, columns in several
        if all((table, column) in filled for column in columns)
    ]
    return gathered(keys, references, conditions, combinations)


def _unique_indexes(
    connection: duckdb.DuckDBPyConnection,
) -> list[tuple[TableName, frozenset[str]]]:
    """List the columns that have a unique index, alone or several together, as the table has them.

    One over an expression is written in brackets, and over a name of its own in quotes.
    """
    asked = sql(
        "SELECT i.schema_name, i.table_name, expressions, list(column_name) "
        "FROM duckdb_indexes() AS i JOIN duckdb_columns() AS c USING (table_oid, database_name) "
        "WHERE database_name = {} AND is_unique GROUP BY ALL ORDER BY ALL",
        literal(DATA),
    )
    indexes = []
    for schema, name, written, columns in execute(connection, asked).fetchall():
        found = _OF_COLUMNS.fullmatch(written)
        spelled = {fold(column): column for column in columns}
        own = [] if found is None else re.findall(_COLUMN, found[1], re.A)
        known = [spelled.get(fold(column.strip("'\""))) for column in own]
        if known and None not in known:
            indexes.append((TableName(name, schema), frozenset(filter(None, known))))
    return indexes

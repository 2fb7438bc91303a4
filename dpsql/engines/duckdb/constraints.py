"""Constraints of a DuckDB file's tables, from its catalog: no row is read.

DuckDB holds all rows to all of its constraints. What is a view or a file has none.
"""

from __future__ import annotations

import re
from typing import Final

import duckdb

from dpsql.core.constraints import ConstraintsOf, ForeignKey, gathered
from dpsql.core.sql import literal, sql
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.views import DATA
from dpsql.engines.embedded.running import execute

_OF_ONE_COLUMN: Final = re.compile(r"\[(?P<word>[A-Za-z_]\w*)\]|\['\"(?P<name>[^\"']+)\"'\]", re.A)


def read_constraints(connection: duckdb.DuckDBPyConnection) -> ConstraintsOf:
    """Read the constraints of the owner's tables."""
    asked = sql(
        "SELECT schema_name, table_name, constraint_type, constraint_column_names, "
        "referenced_table, referenced_column_names, expression FROM duckdb_constraints() "
        "WHERE database_name = {} ORDER BY schema_name, table_name, constraint_index",
        literal(DATA),
    )
    keys, references, conditions, several = [], [], [], []
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
    combinations = [
        (table, columns)
        for table, columns in several
        if all((table, column) in filled for column in columns)
    ]
    single = [*keys, *_unique_indexes(connection)]
    return gathered(single, references, conditions, combinations)


def _unique_indexes(connection: duckdb.DuckDBPyConnection) -> list[tuple[TableName, str]]:
    """List the columns that have a unique index of their own.

    One over an expression is written in brackets, and over a name of its own in quotes.
    """
    asked = sql(
        "SELECT schema_name, table_name, expressions FROM duckdb_indexes() "
        "WHERE database_name = {} AND is_unique ORDER BY ALL",
        literal(DATA),
    )
    rows = execute(connection, asked).fetchall()
    columns = ((TableName(name, schema), _OF_ONE_COLUMN.fullmatch(o)) for schema, name, o in rows)
    return [(table, found["word"] or found["name"]) for table, found in columns if found]

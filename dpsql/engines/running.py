"""Runs SQL in DuckDB: the only place where it becomes the text that DuckDB reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.core.sql import Sql, join, sql
from dpsql.engines.spelling import DUCKDB_TEXT

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


def execute(
    connection: DuckDBPyConnection, statement: Sql, parameters: Sequence[Any] | None = None
) -> DuckDBPyConnection:
    """Run a statement, with values for its parameters."""
    return connection.execute(statement.render(DUCKDB_TEXT), parameters)


def relation(
    connection: DuckDBPyConnection, statement: Sql, parameters: Sequence[Any] | None = None
) -> DuckDBPyRelation:
    """Bind a query, which runs once its rows are asked for."""
    return connection.sql(statement.render(DUCKDB_TEXT), params=parameters)


def selected(rows: DuckDBPyRelation, columns: Iterable[Sql]) -> DuckDBPyRelation:
    """Bind some columns of a query, or expressions over them."""
    return rows.select(join(", ", columns).render(DUCKDB_TEXT))


def aggregated(rows: DuckDBPyRelation, value: Sql) -> DuckDBPyRelation:
    """Bind an aggregate over all rows of a query."""
    return rows.aggregate(value.render(DUCKDB_TEXT))


def serialized_plan(connection: DuckDBPyConnection, statement: Sql) -> DuckDBPyConnection:
    """Ask for the plan of a query before optimization, as JSON."""
    asked = sql("SELECT json_serialize_plan(?, optimize := false)")
    return execute(connection, asked, [statement.render(DUCKDB_TEXT)])

"""Runs SQL in DuckDB: the only place where it becomes the text that DuckDB reads.

DuckDB tells of Ctrl-C by an error of its own. Who stops a statement is no engine that fails, so
whatever runs here raises the ``KeyboardInterrupt`` that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, join, name, sql
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.engines.embedded.versions import INSTALLED, ONE_THREAD

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation, Statement

_T = TypeVar("_T")
_NUMBERS = count()


def _run(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise


def execute(
    connection: DuckDBPyConnection, statement: Sql, parameters: Sequence[Any] | None = None
) -> DuckDBPyConnection:
    """Run a statement, with values for its parameters."""
    text = statement.render(DUCKDB_TEXT)
    return _run(lambda: connection.execute(text, parameters))


def relation(
    connection: DuckDBPyConnection, statement: Sql, parameters: Sequence[Any] | None = None
) -> DuckDBPyRelation:
    """Bind a query, which runs once its rows are asked for."""
    text = statement.render(DUCKDB_TEXT)
    return _run(lambda: connection.sql(text, params=parameters))


def materialized(
    connection: DuckDBPyConnection, statement: Sql, parameters: Sequence[Any] | None = None
) -> DuckDBPyRelation:
    """Run a query once, and keep its rows in the engine.

    Where relations keep none, each method of one runs its query again, and rows come in another
    order: there they are those of a temporary table, which is gone with the connection.
    """
    if INSTALLED.keeps_rows:
        return relation(connection, statement, parameters).materialize()
    table = name(f"{INTERNAL_PREFIX}kept_{next(_NUMBERS)}")
    execute(connection, sql("CREATE TEMP TABLE {} AS {}", table, statement), parameters)
    return relation(connection, sql("SELECT * FROM {}", table))


def executed(rows: DuckDBPyRelation) -> DuckDBPyRelation:
    """Run a query that was bound, for one reader of its rows."""
    run: DuckDBPyRelation = getattr(rows, "materialize" if INSTALLED.keeps_rows else "execute")()
    return run


def selected(rows: DuckDBPyRelation, columns: Iterable[Sql]) -> DuckDBPyRelation:
    """Bind some columns of a query, or expressions over them."""
    text = join(", ", columns).render(DUCKDB_TEXT)
    return _run(lambda: rows.select(text))


def aggregated(rows: DuckDBPyRelation, value: Sql) -> DuckDBPyRelation:
    """Bind an aggregate over all rows of a query."""
    text = value.render(DUCKDB_TEXT)
    return _run(lambda: rows.aggregate(text))


def serialized_plan(connection: DuckDBPyConnection, statement: Sql) -> DuckDBPyConnection:
    """Ask for the plan of a query before optimization, as JSON."""
    text = statement.render(DUCKDB_TEXT)
    return _run(lambda: connection.execute(_plan_asked(), [text]))


@cache
def _plan_asked() -> Statement:
    """Parse the question for a plan, once: a text would be parsed whenever it is asked."""
    asked = "SELECT json_serialize_plan(?, optimize := false)"
    with duckdb.connect(":memory:", config=ONE_THREAD) as connection:
        (statement,) = connection.extract_statements(asked)
    return statement

"""Columns of tables, with their types as text."""

from __future__ import annotations

from dpsql.core.schema import Column
from dpsql.core.sql_types import SqlType


def column_of(name: str, type_: str, collated: bool = False) -> Column:
    """Return a column of a type that is written as DuckDB does."""
    return Column(name, SqlType.of(type_), collated)

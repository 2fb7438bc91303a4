"""Dates, times and timestamps beyond those that have a text: storage can hold them.

Arrow, NumPy and Parquet store plain integers, such as microseconds that were taken for seconds, and
so does a DuckDB file that was made of them. What DuckDB computes of these was never surveyed, as no
text denotes them, and some of it ends the whole database. So a column of ours is NULL there, and no
row can make a statement fail.
"""

from __future__ import annotations

from typing import Final

from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql_types import type_sql
from dpsql.engines.evidence.edges import TEMPORAL_RANGES, edge_sql

_ZONED: Final = "TIME WITH TIME ZONE"  # is ordered by the moment that it is, of which many are one
_COMMON: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})
_INFINITE: Final = (literal("infinity"), literal("-infinity"))


def is_common(type_: str) -> bool:
    """Tell whether conditions on columns of a type usually narrow down which rows are read."""
    return type_ in _COMMON


def beyond(value: Sql, type_: str) -> Sql:
    """Write the condition that a value has no text, which statistics of a column rule out."""
    if type_ == _ZONED:
        return beyond(sql("CAST({} AS TIME)", value), "TIME")
    first, last = (edge_sql(end, type_) for end in TEMPORAL_RANGES[type_])
    outside = sql("({value} < {} OR {value} > {})", first, last, value=value)
    if type_.startswith("TIME") and not type_.startswith("TIMESTAMP"):
        return outside
    known = join(", ", (sql("CAST({} AS {})", each, type_sql(type_)) for each in _INFINITE))
    return sql("({} AND {} NOT IN ({}))", outside, value, known)


def within(value: Sql, type_: str) -> Sql:
    """Write a value that is NULL where it has no text."""
    return sql("CASE WHEN NOT {} THEN {} END", beyond(value, type_), value)

"""Finds the dialect of an engine's version, by what a survey has found of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from dpsql.engines.verdicts import Verdicts
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.dialects.duckdb import DUCKDB
from dpsql.sql.dialects.postgresql import PostgreSQLDialect
from dpsql.sql.dialects.spark import SparkDialect

TWIN: Final[Dialect] = DUCKDB
"""The dialect of an engine's twin, an empty DuckDB, on which all SQL is bound and examined."""
DIALECTS: Final[Mapping[str, Callable[[Verdicts], Dialect]]] = {
    "duckdb": lambda _: TWIN,  # its verdicts are on plans, and asked on the twin
    "postgresql": PostgreSQLDialect,
    "spark": SparkDialect,
}
"""What makes a dialect of the verdicts on a version, for all engines that there are."""


@cache
def dialect_of(verdicts: Verdicts) -> Dialect:
    """Return the dialect of an engine of which this is known.

    Raises ``ValueError`` for an engine without a dialect.
    """
    engine = verdicts.made_with.engine
    made = DIALECTS.get(engine)
    if made is None:
        raise ValueError(f"generated SQL is written in {', '.join(sorted(DIALECTS))}, not {engine}")
    return made(verdicts)

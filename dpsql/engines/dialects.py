"""Finds the dialect of an engine's version by the verdicts of its survey."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.server_dialect import ServerDialect
from dpsql.engines.duckdb.dialect import AS_TYPED as AS_TYPED
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.evidence.verdicts import Verdicts
from dpsql.engines.postgresql.dialect import PostgreSQLDialect
from dpsql.engines.spark.dialect import SparkDialect

TWIN: Final[Dialect] = DUCKDB
"""The dialect of an engine's twin, an empty DuckDB, on which all SQL is bound and examined."""
SERVERS: Final[Mapping[str, type[ServerDialect]]] = {
    dialect.name: dialect for dialect in (PostgreSQLDialect, SparkDialect)
}
"""The dialects of all other engines, each made with the verdicts on a version."""


@cache
def dialect_of(verdicts: Verdicts) -> Dialect:
    """Return the dialect of an engine with these verdicts.

    Raises ``ValueError`` for an engine without a dialect.
    """
    engine = verdicts.made_with.engine
    if engine == TWIN.name:
        return TWIN  # its verdicts are on plans, and asked on the twin
    if engine not in SERVERS:
        known = ", ".join(sorted((TWIN.name, *SERVERS)))
        raise ValueError(f"generated SQL is written in {known}, not {engine}")
    return SERVERS[engine](verdicts)

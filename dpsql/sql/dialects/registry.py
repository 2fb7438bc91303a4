"""Finds the dialect that an engine asks for by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpsql.sql.dialects.base import Dialect
from dpsql.sql.dialects.duckdb import DUCKDB
from dpsql.sql.dialects.postgresql import POSTGRESQL
from dpsql.sql.dialects.spark import SPARK

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect for dialect in (DUCKDB, POSTGRESQL, SPARK)
}
"""All dialects that generated SQL can be written in, by name."""
TWIN: Final[Dialect] = DUCKDB
"""The dialect of an engine's twin, an empty DuckDB, on which all SQL is bound and examined."""


def dialect_named(name: str) -> Dialect:
    """Return the dialect of that name. Raises ``ValueError`` for one that there is not."""
    found = DIALECTS.get(name)
    if found is None:
        raise ValueError(f"generated SQL is written in {', '.join(sorted(DIALECTS))}, not {name}")
    return found

"""A DuckDB of our own without the owner's data: locked, within limits, without threads of its own.

With the usual settings each has one thread for every processor and eight for reading files.
"""

from __future__ import annotations

from typing import Final

import duckdb

from dpsql.engines.embedded.lockdown import lock_down

MEMORY_LIMIT: Final = "2GB"  # of one such database: what it stores and what runs there
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "threads": "1",
    "async_threads": "0",
}


def isolated(
    path: str = ":memory:", *, read_only: bool = False, plain_arrow: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open a locked connection to a database in memory, or to a file of our own.

    ``plain_arrow``: Arrow comes out of it in Arrow's own types, without extension types.
    """
    connection = duckdb.connect(path, read_only=read_only, config=_CONFIG)
    lock_down(connection, plain_arrow=plain_arrow)
    return connection

"""Locking a DuckDB connection: no files, no extensions, no Python objects, no further settings.

It stands apart from the engine because processes of their own need it and load quickly.
"""

from __future__ import annotations

from typing import Final

import duckdb

from dpsql.errors import InterfaceError
from dpsql.quoting import literal

SETTINGS: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "error_on_division_by_zero": "false",
    # Keys keep their types on their way through Arrow (UUID, HUGEINT, TIME WITH TIME ZONE).
    "arrow_lossless_conversion": "true",
    # The first computes a part shared by two TRY(...) once, outside of both, where it can fail.
    # The second computes functions of the least and greatest values of columns while planning,
    # outside of every TRY and CASE.
    "disabled_optimizers": "common_subexpressions,statistics_propagation",
    "lock_configuration": "true",
}
"""What a locked connection's settings are."""


def lock_down(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection to files, extensions, Python objects and further settings.

    Connections of one process to one file share a DuckDB instance, so it may be locked already:
    then its settings must be these. Raises ``InterfaceError`` if they are not.
    """
    if settings_of(connection)["lock_configuration"] != "true":
        for name, value in SETTINGS.items():
            # Globally, because every query runs on a cursor, and cursors inherit nothing else.
            connection.execute(f"SET GLOBAL {name} = {literal(value)}")
    if settings_of(connection) != SETTINGS:
        raise InterfaceError(
            "the database is open in this process with locked settings of its own",
            code="database_in_use",
            hint="Close the other connection to it first, or use another process.",
        )


def settings_of(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The values that a connection has for ``SETTINGS``."""
    names = ", ".join(map(literal, SETTINGS))
    rows = connection.execute(
        f"SELECT name, lower(value) FROM duckdb_settings() WHERE name IN ({names})"
    )
    # Lists come back in an order of their own.
    return {name: ",".join(sorted(value.split(","))) for name, value in rows.fetchall()}

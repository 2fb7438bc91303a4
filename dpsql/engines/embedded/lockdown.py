"""Locking a DuckDB connection: no files, no extensions, no Python objects, no further settings.

It stands apart from the engine because processes of their own need it and load quickly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from dpsql.core.sql import bare_word, join, literal, sql
from dpsql.engines.embedded.running import execute
from dpsql.engines.embedded.versions import INSTALLED, ONE_THREAD, Config
from dpsql.errors import InternalError

_LOCKED: Final = {
    # What statements may reach.
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_parser_override_extension": "default",
    "allow_persistent_secrets": "false",
    "file_search_path": "",
    # What is written down of them.
    "enable_logging": "0",
    "log_query_path": "",
    # What values they compute.
    "calendar": "gregorian",
    "timezone": "utc",
    "default_collation": "",
    "default_null_order": "nulls_last",
    "default_order": "asc",
    "dialect_compatibility_mode": "none",
    "disable_timestamptz_casts": "false",
    "error_on_division_by_zero": "false",
    "ieee_floating_point_ops": "true",
    "integer_division": "false",
    "legacy_disable_null_type": "false",
    "max_expression_depth": "1000",
    "order_by_non_integer_literal": "false",
    "preserve_identifier_case": "preserve_case",
    "preserve_insertion_order": "true",
    "regex_match_operator_semantics": "partial",
    "scalar_subquery_error_on_multiple_rows": "true",
    "table_function_identifier_conversion": "default",
    "binary_as_string": "false",
    # Keys keep their types on their way through Arrow (UUID, HUGEINT, TIME WITH TIME ZONE).
    "arrow_lossless_conversion": "true",
    "arrow_large_buffer_size": "false",
    "arrow_output_list_view": "false",
    "arrow_output_version": "1.0",
    # The first computes a part shared by two TRY(...) once, outside of both, where it can fail.
    # The second computes functions of the least and greatest values of columns while planning,
    # outside of every TRY and CASE.
    "disabled_optimizers": "common_subexpressions,statistics_propagation",
    "enable_optimizer": "true",
    "max_execution_time": "0",
    "warnings_as_errors": "false",
    "errors_as_json": "false",
    **INSTALLED.own,
    "lock_configuration": "true",
}
LOCKDOWN_SETTINGS: Final = {
    name: value for name, value in _LOCKED.items() if name not in INSTALLED.lacks
}
"""The settings of a locked connection: all that reach outside, or decide values and errors."""

_BEFORE_SECRETS: Final = frozenset({"allow_persistent_secrets"})
"""Settings that cannot be set any more once secrets are in use, not even to what they are."""


def allow(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Let a connection that is about to be locked read some files all the same."""
    if files:
        listed = join(", ", map(literal, files))
        execute(connection, sql("SET GLOBAL allowed_paths = [{}]", listed))


def lock_down(
    connection: duckdb.DuckDBPyConnection,
    without: Sequence[str] = (),
    *,
    plain_arrow: bool = False,
) -> None:
    """Close a connection to files, extensions, Python objects and further settings.

    ``without`` names optimizers that are disabled beside those that always are. ``plain_arrow``:
    what comes out as Arrow is for anybody, and not to keep the engine's types. Raises
    ``InternalError`` if the engine has other settings all the same.
    """
    disabled = sorted([*LOCKDOWN_SETTINGS["disabled_optimizers"].split(","), *without])
    wanted = LOCKDOWN_SETTINGS | {"disabled_optimizers": ",".join(disabled)}
    if plain_arrow:
        wanted["arrow_lossless_conversion"] = "false"
    for name, value in wanted.items():
        if name in _BEFORE_SECRETS and _value(connection, name).lower() == value:
            continue
        # Globally, because every query runs on a cursor, and cursors inherit nothing else.
        try:
            execute(connection, sql("SET GLOBAL {} = {}", bare_word(name), literal(value)))
        except duckdb.CatalogException:  # it has no such setting
            raise _not_locked() from None
    if settings_of(connection) != wanted:
        raise _not_locked()


def _not_locked() -> InternalError:
    return InternalError(
        "the engine does not take the settings it needs",
        code="not_locked",
        hint="Use a version of DuckDB that dpsql was made with.",
    )


def settings_of(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Read the values that a connection has for ``LOCKDOWN_SETTINGS``."""
    rows = execute(connection, sql("SELECT name, value FROM duckdb_settings()")).fetchall()
    rows += [(name, _value(connection, name)) for name in INSTALLED.unlisted]
    # Lists come back in an order of their own.
    return {
        name.lower(): ",".join(sorted(value.lower().split(",")))
        for name, value in rows
        if name.lower() in LOCKDOWN_SETTINGS and value is not None
    }


def _value(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    asked = sql("SELECT current_setting({})::VARCHAR", literal(name))
    ((found,),) = execute(connection, asked).fetchall()
    return str(found)


MEMORY_LIMIT: Final = "2GB"  # of one such database: what it stores and what runs there
_CONFIG: Final[Config] = {"memory_limit": MEMORY_LIMIT, "temp_directory": "", **ONE_THREAD}


def isolated(
    path: str = ":memory:",
    *,
    read_only: bool = False,
    plain_arrow: bool = False,
    memory: str = MEMORY_LIMIT,
) -> duckdb.DuckDBPyConnection:
    """Open a locked connection to a database in memory, or to a file of our own.

    ``plain_arrow``: Arrow comes out of it in Arrow's own types, without extension types.
    ``memory``: the most it may take.
    """
    config = _CONFIG | {"memory_limit": memory}
    connection = duckdb.connect(path, read_only=read_only, config=config)
    lock_down(connection, plain_arrow=plain_arrow)
    return connection

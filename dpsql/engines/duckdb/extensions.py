"""Extensions of DuckDB: loaded where they are installed, and never downloaded."""

from __future__ import annotations

import duckdb

from dpsql.core.sql import bare_word, sql
from dpsql.engines.embedded.running import execute
from dpsql.errors import InterfaceError


def load_extension(
    connection: duckdb.DuckDBPyConnection, extension: str, needed_by: str, instead: str
) -> None:
    """Load an installed extension into a connection that is not locked yet.

    ``needed_by`` says what needs it, ``instead`` what to do without. Raises ``InterfaceError``
    (``extension_missing``) where it is not installed for this version of DuckDB.
    """
    try:
        execute(connection, sql("LOAD {}", bare_word(extension)))
    except duckdb.Error:
        missing = True
    else:
        missing = False
    if missing:
        raise InterfaceError(
            f"the extension {extension} of DuckDB {duckdb.__version__} is not installed, which "
            f"{needed_by} need",
            code="extension_missing",
            hint="dpsql downloads no program. Install it once, as the user who runs dpsql: "
            f"python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\"; or {instead}.",
        )

"""Opens the engine of a place: files of data, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from dpsql.engines.base import Engine
from dpsql.engines.duckdb import open_database
from dpsql.errors import InterfaceError

DatabasePlace: TypeAlias = str | Path
"""The path of a database or of files, or the URL of a database on a server."""
_SCHEMES = ("postgresql://", "postgres://")


def is_server(place: object) -> bool:
    """Tell whether a place is the URL of a database on a server, and no path."""
    return isinstance(place, str) and "://" in place


def open_engine(place: DatabasePlace) -> Engine:
    """Open the database at a place. Raises ``InterfaceError`` if there is none."""
    if not is_server(place):
        return open_database(place)
    if str(place).startswith(_SCHEMES):
        from dpsql.engines.postgresql import PostgreSQLEngine

        return PostgreSQLEngine(str(place))
    raise InterfaceError(
        "there are no databases at addresses of that kind",
        code="server_unsupported",
        hint="Give the path of a DuckDB database or of files, or postgresql://user@host/database.",
    )


def place_name(place: DatabasePlace) -> str:
    """Return a short name of a database: that of its file, or the one on its server."""
    if not is_server(place):
        return Path(place).name
    try:
        return unquote(urlsplit(str(place)).path.strip("/")) or "database"
    except ValueError:
        return "database"

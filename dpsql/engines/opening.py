"""Opens the engine of a place: files of data, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from dpsql.core.data_files import shown_name
from dpsql.engines.base import Engine
from dpsql.engines.duckdb import open_database

DatabasePlace: TypeAlias = str | Path
"""The path of a database or of files, or the URL of a database on a server."""
_SCHEMES = ("postgresql://", "postgres://")


def is_postgresql(place: object) -> bool:
    """Tell whether a place is the URL of a database on a PostgreSQL server."""
    return isinstance(place, str) and place.lower().startswith(_SCHEMES)


def open_engine(place: DatabasePlace) -> Engine:
    """Open the database at a place. Raises ``InterfaceError`` if there is none."""
    if not is_postgresql(place):
        return open_database(place)
    from dpsql.engines.postgresql import PostgreSQLEngine

    return PostgreSQLEngine(str(place))


def place_name(place: DatabasePlace) -> str:
    """Return a short name of a database: that of its file, or the one on its server."""
    if not is_postgresql(place):
        return shown_name(place)
    try:
        return unquote(urlsplit(str(place)).path.strip("/")) or "database"
    except ValueError:
        return "database"

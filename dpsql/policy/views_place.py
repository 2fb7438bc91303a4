"""Where the private states of materialized views lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dpsql.core.data_files import home, is_address

_SUFFIX: Final = ".views"
_DATABASES: Final = (".duckdb", ".db", ".ddb", ".parquet", ".csv")  # endings that name no database


def place_beside(database: object, directory: str | None) -> Path | None:
    """Name the directory of a database's private view states: the owner's, or one beside it.

    None for a database without a path on this computer, where the owner names no directory.
    """
    if directory is not None:
        return Path(directory)
    if isinstance(database, str | Path) and not is_address(database):
        path = Path(home(database)).resolve()
        stem = path.stem if path.suffix.lower() in _DATABASES else path.name
        return path.with_name(f"{stem}{_SUFFIX}")
    return None

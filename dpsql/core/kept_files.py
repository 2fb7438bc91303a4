"""Files in use by dpsql, such as the ledger: no answer may overwrite them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from dpsql.errors import InterfaceError

_BESIDE: Final = ("", "-wal", "-shm", "-journal", ".wal")
"""What SQLite and DuckDB keep beside a file."""


def refuse_kept(
    target: str | os.PathLike[str], kept: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Refuse to overwrite a kept file, under any of its names.

    Addresses of servers, and None, are no files. Raises ``InterfaceError`` (``file_in_use``).
    """
    for file in kept:
        if file is not None and any(_same(target, os.fspath(file), end) for end in _BESIDE):
            raise InterfaceError(
                f"{os.fspath(target)} is in use: it is, or belongs to, {os.fspath(file)}",
                code="file_in_use",
                hint="Answers go to files of their own, never over a database, its policies, its "
                "ledger or the settings.",
            )


def _same(target: str | os.PathLike[str], file: str, end: str) -> bool:
    """Tell whether a target is the file that has this end added to its name."""
    if "://" in file:
        return False
    try:
        # By their names too, as a ledger may not be there yet.
        names = {os.path.realpath(file + end), os.path.realpath(file) + end}
        if os.path.realpath(target) in names:
            return True
        return any(os.path.exists(name) and os.path.samefile(target, name) for name in names)
    except (OSError, ValueError):  # the target is not there, or one of them is no path
        return False

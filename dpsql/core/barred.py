"""Paths that this user may not follow or read, where files look as if they were missing."""

from __future__ import annotations

import os

from dpsql.errors import InterfaceError


def is_barred(path: str | os.PathLike[str]) -> bool:
    """Tell whether this user may not enter a directory on the way to a path, or list it."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK)


def may_not_read(path: str | os.PathLike[str]) -> InterfaceError:
    """Build the error for data that this user may not read."""
    return InterfaceError(
        f"{os.fspath(path)} may not be read by this user",
        code="database_unreadable",
        hint="Ask for permission to read it, and to enter the directories that it is in.",
    )

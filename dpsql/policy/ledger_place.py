"""Where the ledger and the views of a database are, if nobody says: the same for all who ask it.

Never the working directory: another directory would be another budget for the same people. Links
are followed for the same reason.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from dpsql.core.data_files import home, is_address, is_several
from dpsql.errors import InterfaceError
from dpsql.policy.model import Policy

SUFFIX = ".budget.db"
"""What a ledger beside a database is called: ``clinic.budget.db`` beside ``clinic.duckdb``."""


def is_url(place: str) -> bool:
    """Tell whether a place is the address of a database that keeps a ledger, not a file."""
    return "://" in place


def usual_place(policy: Policy | None, database: object) -> str:
    """Return the ledger that the policy names, or else the one beside the database's file.

    Raises :class:`InterfaceError` (``ledger_not_given``) if there is neither, as for an engine or
    an address.
    """
    if policy is not None and policy.ledger is not None:
        return policy.ledger
    if isinstance(database, str | Path) and not is_address(database):
        return beside(database)
    raise InterfaceError(
        "the place of the ledger is not given, which counts the spending",
        code="ledger_not_given",
        hint="Name it: `ledger` in connect(), --ledger or DPSQL_LEDGER for a command, or a line "
        "`ledger: budget.db` in the policies file. A database's file has one beside it; an engine "
        "or a server has no file, and beside an address nothing is written.",
    )


def beside(database: str | Path) -> str:
    """Return the ledger beside a file of data, or beside the directory of several."""
    place = _real(home(database))
    return (place if is_several(database) else os.path.splitext(place)[0]) + SUFFIX


def from_file(place: str, file: str | os.PathLike[str]) -> str:
    """Resolve a place in a file: relative to the file's directory, unless it is a URL."""
    return place if is_url(place) else os.path.join(os.path.dirname(_real(file)), place)


def announcement(place: str) -> str:
    """Report a newly created ledger: the user may have expected an existing one."""
    shown = without_password(place) if is_url(place) else os.path.abspath(place)
    return f"a new ledger was created: {shown}: nothing has been spent in it"


def without_password(place: str) -> str:
    """Return a ledger's place as it may be shown: a URL's password is left out."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    login, at, host = rest.rpartition("@")
    name, colon, _ = login.partition(":")
    shown = f"{name}{':***' * bool(colon)}{at}{host}"
    return f"{scheme}://" + re.sub(r"(?i)([?&][a-z]*password=)[^&]*", r"\1***", shown)


def _real(path: str | os.PathLike[str]) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no path at all, which whoever opens it will say
        return os.path.abspath(path)


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

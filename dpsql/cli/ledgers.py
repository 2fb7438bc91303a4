"""The ledger that a command looks at: reports never create one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.ledger import Ledger


@contextmanager
def existing(place: str, who: str | None = None) -> Iterator[Ledger]:
    """The ledger at ``place``, a file or a URL.

    Raises ``LedgerError`` (``ledger_missing``) for a file that is not there.
    """
    from dpsql.errors import LedgerError
    from dpsql.ledger import Ledger

    if not is_there(place):
        raise LedgerError(
            f"there is no ledger {place}",
            code="ledger_missing",
            hint="name it with --ledger; the first query creates one, and so does "
            "`dpsql budget owner create`",
        )
    with Ledger.open(place, who=who) as ledger:
        yield ledger


@contextmanager
def any_ledger(place: str) -> Iterator[Ledger | None]:
    """The ledger at ``place``, or None where nothing was spent yet: a file that is not there."""
    if is_there(place):
        with existing(place) as ledger:
            yield ledger
    else:
        yield None


def without_password(place: str) -> str:
    """A ledger's place as it may be shown: a URL's password is left out."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    login, at, host = rest.rpartition("@")
    name, colon, _ = login.partition(":")
    shown = f"{name}{':***' * bool(colon)}{at}{host}"
    return f"{scheme}://" + re.sub(r"(?i)([?&][a-z]*password=)[^&]*", r"\1***", shown)


def is_there(place: str) -> bool:
    """True for a file that exists, and for every URL."""
    return "://" in place or os.path.lexists(place)

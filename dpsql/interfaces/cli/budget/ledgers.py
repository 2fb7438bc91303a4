"""Finds the ledger of a command; reports never create one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.core.barred import is_barred
from dpsql.interfaces.cli.printing import remark

if TYPE_CHECKING:
    from dpsql.ledger import Ledger


def located(ledger: str | None, policies: Path, database: str | Path | None) -> str:
    """Return the place that was named, or else the one for these policies and this database.

    Raises ``InterfaceError`` (``ledger_not_given``) if nothing tells.
    """
    if ledger is not None:
        return ledger
    from dpsql.policy.ledger_place import usual_place
    from dpsql.policy.load import load_policy_if_any

    return usual_place(load_policy_if_any(policies), database)


def announce(created: bool, place: str) -> None:
    """Report a newly created ledger on stderr: the user may have expected an existing one."""
    if created:
        from dpsql.policy.ledger_place import announcement

        remark(announcement(place))


@contextmanager
def existing(place: str, who: str | None = None) -> Iterator[Ledger]:
    """Open the ledger at ``place``, a file or a URL.

    Raises ``LedgerError`` (``ledger_missing``) for a file that is not there.
    """
    from dpsql.errors import LedgerError
    from dpsql.ledger import Ledger

    if not is_there(place):
        raise LedgerError(
            f"there is no ledger {place}",
            code="ledger_missing",
            hint="name it with --ledger, or its --database; the first query creates one, and so "
            "does `dpsql budget owner create`",
        )
    with Ledger.open(place, who=who) as ledger:
        yield ledger


@contextmanager
def any_ledger(place: str) -> Iterator[Ledger | None]:
    """Open the ledger at ``place``; None for a file that is not there: nothing was spent yet."""
    if is_there(place):
        with existing(place) as ledger:
            yield ledger
    else:
        yield None


def is_there(place: str) -> bool:
    """Tell whether a ledger's file exists; what nobody here can see counts as there."""
    from dpsql.policy.ledger_place import is_url

    return is_url(place) or os.path.lexists(place) or is_barred(place)

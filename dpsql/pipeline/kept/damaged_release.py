"""What is raised where the ledger holds what no release was packed as."""

from __future__ import annotations

from dpsql.errors import LedgerError


def require_sound(sound: bool) -> None:
    """Raise ``LedgerError`` (``ledger_corrupt``) unless a part of a release is ``sound``."""
    if not sound:
        raise corrupt_release()


def corrupt_release() -> LedgerError:
    """Build the error for a stored release that is damaged; nothing of it is quoted."""
    return LedgerError(
        "a stored release in the ledger is damaged",
        code="ledger_corrupt",
        hint="Run `dpsql budget verify`, and restore the ledger from a backup. Asked afresh, the "
        "question is paid for again.",
    )

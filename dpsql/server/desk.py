"""What owners and auditors work with: the parts of a server."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.errors import UnknownName
from dpsql.ledger import Ledger
from dpsql.server.audit import AuditLog
from dpsql.server.editions import Editions
from dpsql.server.guard import Guard
from dpsql.server.people.users import Users


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts of a server that owners change and auditors read."""

    guard: Guard
    users: Users
    audit: AuditLog
    editions: Editions

    @property
    def ledger(self) -> Ledger:
        """The ledger of what is served."""
        found = self.guard.dataset.ledger
        assert found is not None, "a server has a ledger"
        return found

    def require_own(self, path: str) -> str:
        """Return the path of an account of the dataset that is served.

        A ledger may have accounts of others. Raises ``UnknownName`` (``unknown_account``).
        """
        dataset = self.guard.dataset_name
        if path != dataset and not path.startswith(f"{dataset}/"):
            raise UnknownName(
                "this is no account of the dataset that is served",
                code="unknown_account",
                hint=f"Paths begin with {dataset}/.",
            )
        return path

"""The ledger's values: accounts and limits, charges, totals, entries. Frozen, checked at birth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Never

from dpsql.accounting import Amount, Composition
from dpsql.errors import LedgerError, ParameterError

MAX_PATH = 512
"""The longest account path, in characters."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account and how much may be spent on it in all.

    ``path`` names it, from the dataset down, as in ``sales/alice``. ``limit`` allows rho or
    epsilon, never both, and delta. Limits belong to the policy, not to the ledger: a later
    call may bring higher or lower ones, and what was spent stays spent.

    Raises :class:`ParameterError` for a malformed path or a limit of both rho and epsilon.
    """

    path: str
    limit: Amount

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.limit.rho and self.limit.epsilon:
            _refuse("an account is limited in rho or in epsilon, not in both")

    def has_room(self, spent: Amount, charge: Amount) -> bool:
        """True if ``charge`` fits into what is left after ``spent``."""
        sums = zip(spent.units, charge.units, self.limit.units, strict=True)
        return all(paid + more <= most for paid, more, most in sums)

    def left(self, spent: Amount) -> Amount:
        """What may still be charged after ``spent``: nothing where the limit was lowered below."""
        pairs = zip(self.limit.units, spent.units, strict=True)
        return Amount(*(max(0, most - paid) for most, paid in pairs))

    def require_same_composition(self, spent: Amount) -> None:
        """Refuse an account limited in rho that was charged in epsilon, or the other way round.

        What was spent of the one says nothing of how much is left of the other. Raises
        :class:`LedgerError` (``ledger_other_composition``).
        """
        if (self.limit.rho and spent.epsilon) or (self.limit.epsilon and spent.rho):
            former = Composition.BASIC if spent.epsilon else Composition.ZCDP
            raise LedgerError(
                f"the account {self.path} was charged under `composition: {former}`, and the "
                "policy now gives it another",
                code="ledger_other_composition",
                hint=f"restore `composition: {former}` in the policies file, or give the analyst "
                "an account of another name",
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """A reservation that is on disk: its entry, the accounts that pay it, and its worst case."""

    entry: int
    accounts: tuple[str, ...]
    amount: Amount

    def lowered_to(self, actual: Amount) -> Amount:
        """What to settle for a query that cost ``actual``: never more, and all of its delta."""
        return Amount(
            rho=min(actual.rho, self.amount.rho),
            epsilon=min(actual.epsilon, self.amount.epsilon),
            delta=self.amount.delta,
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """An account's totals: settled entries at their actual cost, unsettled at their reservation."""

    amount: Amount = field(default_factory=Amount)
    queries: int = 0
    unsettled: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger. ``settled`` and ``charged`` are None until the entry is settled.

    ``created`` and ``settled`` are UTC times in ISO 8601; ``query`` is the query's fingerprint and
    ``plan`` the JSON text of its mechanism and parameters; ``accounts`` are in sorted order.
    """

    entry: int
    created: str
    accounts: tuple[str, ...]
    query: str
    plan: str
    reserved: Amount
    settled: str | None
    charged: Amount | None


def check_path(path: str) -> None:
    """Refuse an account path that is not non-empty printable parts joined by slashes."""
    if not isinstance(path, str):
        _refuse(f"an account path must be text, not {type(path).__name__}")
    if len(path) > MAX_PATH:
        _refuse(f"an account path has at most {MAX_PATH} characters")
    parts = path.split("/")
    if not path.isprintable() or any(not part or part != part.strip() for part in parts):
        _refuse(
            "an account path is made of non-empty printable parts joined by '/'",
            hint="write it like 'dataset/analyst', without spaces around a part",
        )


def check_accounts(accounts: Sequence[Account]) -> tuple[Account, ...]:
    """The accounts of one charge: at least one, each once."""
    checked = tuple(accounts)
    if not checked:
        _refuse("a charge needs at least one account to pay it")
    if not all(isinstance(account, Account) for account in checked):
        _refuse("a charge is paid by Account values")
    if len({account.path for account in checked}) < len(checked):
        _refuse("a charge names the same account twice")
    return checked


def _refuse(reason: str, hint: str | None = None) -> Never:
    raise ParameterError(reason, code="bad_parameter", hint=hint)

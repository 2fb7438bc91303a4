"""The ledger's values: accounts and limits, charges, totals, entries. Frozen, checked at birth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Never

from dpsql.accounting import MAX_UNITS
from dpsql.errors import ParameterError

MAX_PATH = 512
"""The longest account path, in characters."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account and how much may be spent on it in all.

    ``path`` names it, from the dataset down, as in ``sales/alice``. ``rho_limit`` and
    ``delta_limit`` are in ledger units. Limits belong to the policy, not to the ledger: a later
    call may bring higher or lower ones, and what was spent stays spent.

    Raises :class:`ParameterError` for a malformed path or a limit not from 0 to 2**63 - 1.
    """

    path: str
    rho_limit: int
    delta_limit: int

    def __post_init__(self) -> None:
        check_path(self.path)
        check_units("rho_limit", self.rho_limit)
        check_units("delta_limit", self.delta_limit)


@dataclass(frozen=True, slots=True)
class Charge:
    """A reservation that is on disk: its entry, the accounts that pay it, and its worst case."""

    entry: int
    accounts: tuple[str, ...]
    rho: int
    delta: int


@dataclass(frozen=True, slots=True)
class Spent:
    """An account's totals: settled entries at their actual cost, unsettled at their reservation."""

    rho: int
    delta: int
    queries: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger. ``settled_*`` are None for as long as the entry is not settled.

    ``created`` and ``settled`` are UTC times in ISO 8601; ``query`` is the query's fingerprint and
    ``plan`` the JSON text of its mechanism and parameters; ``accounts`` are in sorted order.
    """

    entry: int
    created: str
    accounts: tuple[str, ...]
    query: str
    plan: str
    reserved_rho: int
    reserved_delta: int
    settled: str | None
    settled_rho: int | None
    settled_delta: int | None


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


def check_units(name: str, units: int) -> None:
    """Refuse an amount that is not a plain integer from 0 to 2**63 - 1."""
    if type(units) is not int:
        # bool is an int to Python, and a float here would be a cost nobody rounded up.
        _refuse(
            f"{name} must be a whole number of ledger units, not {type(units).__name__}",
            hint="convert it with rho_units_up or delta_units_up",
        )
    if not 0 <= units <= MAX_UNITS:
        _refuse(f"{name} must be between 0 and 2**63 - 1 ledger units")


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

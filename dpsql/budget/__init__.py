"""Who pays for a connection, where accounts stand, and what is left for more questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from dpsql.accounting import Budget, Composition
from dpsql.budget.account import CONVERSION, AccountReport, account_report, any_account
from dpsql.budget.comparison import MAX_COMPARED, Analysis, analyses, charged, counted
from dpsql.budget.forecasts import (
    RECENT,
    Forecast,
    Question,
    forecast,
    question_again,
    question_at,
)
from dpsql.errors import ParameterError, PolicyError
from dpsql.ledger import Account, Entry, Head, Ledger, Spent, Standing, Window
from dpsql.ledger.values import line_of
from dpsql.policy import AccountPolicy, Policy, is_account_name
from dpsql.record import Asked, read_record

__all__ = [
    "AccountReport",
    "BudgetReport",
    "Payer",
    "account_reports",
    "all_entries",
    "budget_report",
    "latest_entries",
    "payer",
]


# -- who pays ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Payer:
    """The ledger account that pays for a connection, and the policy's limits that bind it.

    ``limits`` are those of the dataset, if the policy has a total, and of the analyst.
    """

    path: str
    limits: tuple[Account, ...]

    @property
    def analyst(self) -> str:
        """The path of the analyst's account: this one, or the one above a session's."""
        return self.limits[-1].path


def payer(policy: Policy, analyst: str, session: str = "") -> Payer:
    """Who pays: the analyst's account, or the account of a session of its own below that.

    Accounts are named after the dataset, so that another policies file buys no budget. A session
    has no limit in the policy; what it spends is spent by the analyst, and by the dataset.

    Raises ``UnknownName`` for an analyst without an account, ``ParameterError`` for names that
    cannot be part of a path, and ``PolicyError`` for a total that adds up otherwise than accounts.
    """
    budgets = _policy_budgets(policy, analyst)
    limits = tuple(Account(path, budget.limit) for path, budget in budgets.items())
    path = f"{policy.dataset}/{analyst}"
    return Payer(f"{path}/{_part('session', session)}" if session else path, limits)


def _policy_budgets(policy: Policy, analyst: str) -> dict[str, Budget]:
    """The budgets that the policy gives the dataset, if it has a total, and the analyst."""
    own = _budget(policy.account(analyst))
    path = f"{policy.dataset}/{_part('analyst', analyst)}"
    if policy.total is None:
        return {path: own}
    if policy.total.composition is not own.composition:
        raise PolicyError(
            f"the total and the account of {analyst} differ in their composition",
            code="policy_invalid",
            hint="Give all accounts and the total the same composition: else they do not add up.",
        )
    return {policy.dataset: _budget(policy.total), path: own}


def _budget(account: AccountPolicy) -> Budget:
    return Budget.of(account.epsilon, account.delta, account.composition)


def _part(what: str, name: object) -> str:
    if not isinstance(name, str) or not is_account_name(name):
        raise ParameterError(
            f"the name of the {what} must be 1 to 200 printable characters without /",
            code="bad_parameter",
            hint="give it a plain name, without spaces at its ends",
        )
    return name


# -- where accounts stand ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Where the account that pays stands, and those above it.

    ``accounts`` begins with ``account``, which pays, and ends with the dataset. ``forecasts`` say
    how many more questions there is room for. ``analyses`` compare what the ledger has charged the
    analyst, over all windows, with what other theorems would say; empty unless asked for.

    The other figures are those of the analyst's account: ``epsilon`` and ``delta`` are its limits.
    Under basic composition the epsilon and delta of queries add up to ``epsilon_spent`` and
    ``delta_spent``, and rho is 0 throughout. Under zCDP their rho adds up, ``epsilon_spent`` is
    what all of it amounts to, and ``delta_limit`` is less than ``delta``, part of which is kept for
    that conversion. ``queries`` counts all queries of the window, ``unsettled`` those that run or
    failed after reserving and keep their whole reservation.
    """

    analyst: str
    accounts: tuple[AccountReport, ...]
    forecasts: tuple[Forecast, ...] = ()
    analyses: tuple[Analysis, ...] = ()

    @property
    def account(self) -> str:
        """The path of the account that pays."""
        return self.accounts[0].path

    @property
    def dataset(self) -> str:
        """The path of the dataset's account, which all analysts share."""
        return self.analyst.rpartition("/")[0]

    @property
    def own(self) -> AccountReport:
        """The analyst's account, which pays unless a session of it does."""
        return next(account for account in self.accounts if account.path == self.analyst)

    @property
    def composition(self) -> Composition:
        """How costs add up."""
        return self.own.composition

    @property
    def epsilon(self) -> float:
        """What all queries together may amount to, at ``delta``."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the promise."""
        return self._budget.delta

    @property
    def rho_limit(self) -> float:
        """zCDP that queries may spend."""
        return self._budget.limit.loss.rho

    @property
    def delta_limit(self) -> float:
        """Delta that queries may spend."""
        limit = self.own.delta_limit
        assert limit is not None
        return limit

    @property
    def rho_spent(self) -> float:
        """zCDP spent."""
        return self.own.spent.loss.rho

    @property
    def delta_spent(self) -> float:
        """Delta spent by queries."""
        return self.own.spent.loss.delta

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of what was spent, at ``delta``."""
        return self.own.spent.epsilon

    @property
    def queries(self) -> int:
        """Queries charged."""
        return self.own.spent.queries

    @property
    def suspended(self) -> str:
        """Since when the account, or one above it, answers no new question; empty if all do."""
        return max(account.suspended for account in self.accounts)

    @property
    def unsettled(self) -> int:
        """Queries that hold their whole reservation."""
        return self.own.spent.unsettled

    @property
    def epsilon_remaining(self) -> float:
        """How far ``epsilon_spent`` may still rise. Under zCDP, queries buy more with it than
        their own epsilons add up to."""
        return max(0.0, self.epsilon - self.epsilon_spent)

    @property
    def rho_remaining(self) -> float:
        """zCDP still available."""
        return max(0.0, self.rho_limit - self.rho_spent)

    @property
    def delta_remaining(self) -> float:
        """Delta still available to queries."""
        return max(0.0, self.delta_limit - self.delta_spent)

    @property
    def _budget(self) -> Budget:
        limit = self.own.binding
        assert limit is not None, "the policy limits every analyst"
        return limit.budget

    def __repr__(self) -> str:
        from dpsql.render import budget_text

        return budget_text(self)


def budget_report(
    policy: Policy,
    analyst: str,
    ledger: Ledger | None,
    session: str = "",
    *,
    compare: bool = False,
    asking: Sequence[Question] = (),
) -> BudgetReport:
    """Where an analyst's account stands; without a ledger, nothing has been spent.

    Forecasts are made for the policy's defaults, for the last question again, and for those of
    ``asking``. ``compare`` adds other analyses, which reads all of the account's entries.

    Raises ``UnknownName`` for an analyst without an account, ``ParameterError`` for a bad name of a
    session, and ``LedgerError``.
    """
    budgets, paying = _policy_budgets(policy, analyst), payer(policy, analyst, session)
    own = f"{policy.dataset}/{analyst}"
    standings = _standings(paying, ledger)
    _require_same_composition(paying, standings)
    accounts = tuple(
        account_report(
            standing,
            () if ledger is None else ledger.windows(standing.path),
            budgets.get(standing.path),
            conversion=budgets[own].delta_conversion or CONVERSION,
            composition=budgets[own].composition,
        )
        for standing in reversed(standings)
    )
    entries = [(e, read_record(e.plan)) for e in ledger.history(own, RECENT)] if ledger else []
    queries = next(each.spent.queries for each in accounts if each.path == own)
    questions = [question_at(policy.defaults, budgets[own].composition)]
    questions += [question_again(*asked) for asked in _last(entries, paying.path)]
    forecasts = tuple(forecast(each, standings, entries, queries) for each in (*questions, *asking))
    found = BudgetReport(own, accounts, forecasts)
    return replace(found, analyses=_compared(found.own, ledger)) if compare else found


def account_reports(ledger: Ledger, policy: Policy | None = None) -> tuple[AccountReport, ...]:
    """Where every account of the ledger stands, sorted by path.

    Limits of the policy are those of ``policy`` where it has any, else those of the last charge.
    """
    known: dict[str, Budget] = {}
    for analyst in () if policy is None else policy.accounts:
        assert policy is not None
        known |= _policy_budgets(policy, analyst)
    return tuple(any_account(path, known.get(path), ledger) for path in ledger.accounts())


def latest_entries(
    ledger: Ledger, account: str | None, limit: int, before: int | None = None
) -> tuple[Entry, ...]:
    """The latest entries of an account and those below it, or of all; newest first."""
    if account is not None:
        return ledger.history(account, limit, before)
    return tuple(islice(_entries(ledger, before, limit), limit))


def all_entries(ledger: Ledger, until: Head) -> Iterator[Entry]:
    """All entries of a ledger up to a head, newest first, read as they are asked for."""
    return _entries(ledger, until.seq + 1, RECENT)


def _entries(ledger: Ledger, before: int | None, at_once: int) -> Iterator[Entry]:
    datasets = [path for path in ledger.accounts() if "/" not in path]
    pages = (_pages(ledger, path, before, min(at_once, RECENT)) for path in datasets)
    return merge(*pages, key=lambda entry: entry.entry, reverse=True)


def _pages(ledger: Ledger, path: str, before: int | None, at_once: int) -> Iterator[Entry]:
    while page := ledger.history(path, at_once, before):
        yield from page
        before = page[-1].entry


def _standings(paying: Payer, ledger: Ledger | None) -> tuple[Standing, ...]:
    """From the dataset down; without a ledger nothing has been spent."""
    if ledger is not None:
        return ledger.standing(paying.path, paying.limits)
    limits = {account.path: (account.limit,) for account in paying.limits}
    nothing = Window("", "", Spent())
    return tuple(
        Standing(path, limits.get(path, ()), None, "{}", nothing, Spent())
        for path in line_of(paying.path)
    )


def _require_same_composition(paying: Payer, standings: Sequence[Standing]) -> None:
    spent = {standing.path: standing.window.spent.amount for standing in standings}
    for account in paying.limits:
        account.require_same_composition(spent[account.path])


def _last(entries: Iterable[tuple[Entry, Asked]], path: str) -> list[tuple[Entry, Asked]]:
    """The latest entry of an account or one below it, if there is one."""
    mine = ((e, asked) for e, asked in entries if f"{e.account}/".startswith(f"{path}/"))
    return list(islice(mine, 1))


def _compared(account: AccountReport, ledger: Ledger | None) -> tuple[Analysis, ...]:
    """What the ledger has charged the account in all, and what other theorems would say."""
    total = account.total
    if ledger is None or not 0 < total.queries <= MAX_COMPARED or account.binding is None:
        return ()
    budget = account.binding.budget
    slack = budget.delta_conversion or budget.delta / 2.0 or CONVERSION
    asked = charged(ledger.history(account.path, MAX_COMPARED), slack)
    return (counted(total.loss, total.epsilon, total.delta), *analyses(asked, slack))

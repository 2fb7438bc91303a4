"""Where an account stands: what its queries have spent, and what is left for more."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting import Budget, Composition
from dpsql.errors import ParameterError
from dpsql.ledger import Account, Ledger, Spent
from dpsql.policy import Policy, is_account_name


@dataclass(frozen=True, slots=True)
class Payer:
    """The ledger account that pays for a connection, and the policy's limits that bind it.

    ``limits`` are those of the dataset, if the policy has a total, and of the analyst.
    """

    path: str
    limits: tuple[Account, ...]

    @property
    def analyst(self) -> str:
        """The account of the analyst, of which a session's is a part."""
        return self.limits[-1].path


def payer(policy: Policy, analyst: str, session: str = "") -> Payer:
    """Who pays: the analyst's account, or the account of a session of its own below that.

    Accounts are named after the dataset, so that another policies file buys no budget. A session
    has no limit in the policy; what it spends is spent by the analyst, and by the dataset.

    Raises ``UnknownName`` for an analyst without an account, and ``ParameterError`` for names that
    cannot be part of a path.
    """
    budget, path = _budget(policy, analyst), f"{policy.dataset}/{_part('analyst', analyst)}"
    limits = [Account(path, budget.limit)]
    if policy.total is not None:
        total = Budget.of(policy.total.epsilon, policy.total.delta, policy.total.composition)
        limits.insert(0, Account(policy.dataset, total.limit))
    if session:
        path = f"{path}/{_part('session', session)}"
    return Payer(path, tuple(limits))


def _part(what: str, name: object) -> str:
    if not isinstance(name, str) or not is_account_name(name):
        raise ParameterError(
            f"the name of the {what} must be 1 to 200 printable characters without /",
            code="bad_parameter",
            hint="give it a plain name, without spaces at its ends",
        )
    return name


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Where an account stands.

    ``epsilon`` and ``delta`` are its limits. Under basic composition the epsilon and delta of
    queries add up to ``epsilon_spent`` and ``delta_spent``, and rho is 0 throughout. Under zCDP
    their rho adds up, ``epsilon_spent`` is what all of it amounts to, and ``delta_limit`` is less
    than ``delta``, part of which is kept for that conversion. ``queries`` counts all queries,
    ``unsettled`` those that failed after reserving and keep their whole reservation.
    """

    account: str
    composition: Composition
    epsilon: float
    delta: float
    rho_limit: float
    delta_limit: float
    rho_spent: float
    delta_spent: float
    epsilon_spent: float
    queries: int
    unsettled: int

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

    def __repr__(self) -> str:
        from dpsql.render import budget_text

        return budget_text(self)


def budget_report(policy: Policy, analyst: str, ledger: Ledger | None) -> BudgetReport:
    """Where an analyst's account stands; without a ledger, nothing has been spent.

    Raises ``UnknownName`` for an analyst without an account, and ``LedgerError``.
    """
    budget, account = _budget(policy, analyst), ledger_account(policy, analyst)
    spent = Spent() if ledger is None else ledger.spent(account.path)
    account.require_same_composition(spent.amount)
    limit, total = account.limit.loss, spent.amount.loss
    return BudgetReport(
        account=account.path,
        composition=budget.composition,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho_limit=limit.rho,
        delta_limit=limit.delta,
        rho_spent=total.rho,
        delta_spent=total.delta,
        epsilon_spent=budget.epsilon_spent(total),
        queries=spent.queries,
        unsettled=spent.unsettled,
    )


def ledger_account(policy: Policy, analyst: str) -> Account:
    """The ledger account of an analyst: named after the dataset, so a new file buys no budget."""
    return Account(f"{policy.dataset}/{analyst}", _budget(policy, analyst).limit)


def _budget(policy: Policy, analyst: str) -> Budget:
    account = policy.account(analyst)
    return Budget.of(account.epsilon, account.delta, account.composition)

"""Where an account stands: what its queries have spent, and what is left for more."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting import Budget, Composition
from dpsql.ledger import Account, Ledger, Spent
from dpsql.policy import Policy


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

"""What a query would take from an account, and what one has taken, in the terms of the prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsql.accounting import Budget, Composition, PrivacyLoss
from dpsql.budget import BudgetReport
from dpsql.explain import Explanation
from dpsql.figures import percent, significant


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a query before it runs, in the worst case.

    ``share`` is how much it reserves of what is left, of that of ε, ρ and δ which is scarcest.
    ``left`` is the ε of the account that remains, and ``more`` how many queries of the same price
    that pays for (None for any number).
    """

    epsilon: float
    delta: float
    share: float
    left: float
    more: int | None

    @property
    def question(self) -> str:
        """The price in words."""
        taken = percent(self.share, 1.0)
        more = "" if self.more is None else f", enough for {_queries(self.more)}"
        return (
            f"This reserves ε {significant(self.epsilon)} at δ {significant(self.delta)}: {taken} "
            f"of what is left. Afterwards ε {significant(self.left, 3)} is left{more}."
        )


def price(explanation: Explanation, report: BudgetReport, affordable: int | None) -> Price:
    """The price of an explained query; ``affordable`` is how many the account can pay now."""
    reserved = explanation.reserved
    shares = [
        _share(reserved.rho, report.rho_remaining),
        _share(reserved.delta, report.delta_remaining),
    ]
    if report.composition is Composition.BASIC:
        shares.append(_share(reserved.epsilon, report.epsilon_remaining))
    budget = Budget.of(report.epsilon, report.delta, report.composition)
    # Under zCDP epsilon does not add up: it is 0 in every charge and in the sum of them.
    epsilon = report.epsilon_spent if report.composition is Composition.BASIC else 0.0
    after = PrivacyLoss(report.rho_spent, report.delta_spent, epsilon) + reserved
    return Price(
        epsilon=explanation.reserved_epsilon,
        delta=reserved.delta + explanation.conversion_delta,
        share=max(shares),
        left=max(0.0, report.epsilon - budget.epsilon_spent(after)),
        more=None if affordable is None else max(0, affordable - 1),
    )


def spent_between(before: BudgetReport, after: BudgetReport) -> str | None:
    """What was charged between two reports and stays so, in words; None if nothing was."""
    if after.queries == before.queries:
        return None
    taken = significant(after.epsilon_spent - before.epsilon_spent, 3)
    left = significant(after.epsilon_remaining, 3)
    return f"It took ε {taken} of the account's, which stays spent; ε {left} is left."


def _share(taken: float, left: float) -> float:
    if taken <= 0:
        return 0.0
    return taken / left if left > 0 else math.inf


def _queries(number: int) -> str:
    if number == 0:
        return "no more such queries"
    return f"about {number:,} more such quer{'y' if number == 1 else 'ies'}"

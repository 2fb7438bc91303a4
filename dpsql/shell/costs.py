"""What a query would take from an account, and what one has taken, in the terms of the prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.accounting import Amount, Budget, Composition, PrivacyLoss
from dpsql.budget import BudgetReport
from dpsql.explain import Explanation
from dpsql.figures import percent, significant
from dpsql.ledger import Standing


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a query before it runs, in the worst case.

    ``share`` is how much it reserves of what is left, of that of ε, ρ and δ which is scarcest.
    ``left`` is the ε of the account that remains afterwards. ``affordable`` is how many queries of
    this price can be paid for, this one among them; None for any number.
    """

    epsilon: float
    delta: float
    share: float
    left: float
    affordable: int | None

    @property
    def question(self) -> str:
        """The price in words."""
        taken = percent(self.share, 1.0)
        more = "" if self.affordable is None else f", enough for {_queries(self.affordable - 1)}"
        return (
            f"This reserves ε {significant(self.epsilon)} at δ {significant(self.delta)}: {taken} "
            f"of what is left. Afterwards ε {significant(self.left, 3)} is left{more}."
        )


def price(explanation: Explanation, report: BudgetReport, standings: Sequence[Standing]) -> Price:
    """The price of an explained query to an account, and to those above it."""
    reserved = explanation.reserved
    amount = Amount.charge(reserved)
    budget = Budget.of(report.epsilon, report.delta, report.composition)
    # Under zCDP epsilon does not add up: it is 0 in every charge and in the sum of them.
    epsilon = report.epsilon_spent if report.composition is Composition.BASIC else 0.0
    after = PrivacyLoss(report.rho_spent, report.delta_spent, epsilon) + reserved
    affordable = [standing.affordable(amount) for standing in standings]
    return Price(
        epsilon=explanation.reserved_epsilon,
        delta=reserved.delta + explanation.conversion_delta,
        share=max((_share(amount, standing) for standing in standings), default=0.0),
        left=max(0.0, report.epsilon - budget.epsilon_spent(after)),
        affordable=min((count for count in affordable if count is not None), default=None),
    )


def spent_between(before: BudgetReport, after: BudgetReport) -> str | None:
    """What was charged between two reports and stays so, in words; None if nothing was."""
    if after.queries == before.queries:
        return None
    taken = significant(after.epsilon_spent - before.epsilon_spent, 3)
    left = significant(after.epsilon_remaining, 3)
    return f"It took ε {taken} of the account's, which stays spent; ε {left} is left."


def _share(amount: Amount, standing: Standing) -> float:
    """How much of what is left a charge takes, of what is scarcest."""
    if standing.left is None:
        return 0.0
    pairs = zip(amount.units, standing.left.units, strict=True)
    return max(math.inf if left == 0 else taken / left for taken, left in pairs if taken)


def _queries(number: int) -> str:
    if number == 0:
        return "no more such queries"
    return f"about {number:,} more such quer{'y' if number == 1 else 'ies'}"

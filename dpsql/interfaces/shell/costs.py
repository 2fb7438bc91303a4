"""Costs in the terms of the prompt: the price of a query, and the spending so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpsql.budget import OwnAccount, share_taken
from dpsql.budget.account import account_report
from dpsql.core.formatting import percent, significant
from dpsql.ledger import Standing
from dpsql.privacy.accounting.zcdp import Amount, Budget, PrivacyLoss
from dpsql.results.explanation import Explanation


class ShownBalance(Protocol):
    """Where an account stands, as far as the prompt and remarks tell: in epsilon.

    ``share`` is the part of ``limit`` that is ``left``; ``charges`` counts what was charged.
    """

    @property
    def limit(self) -> float: ...
    @property
    def left(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def charges(self) -> int: ...
    @property
    def epsilon_spent(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Balance:
    """An analyst's spending and budget after a number of charges.

    ``standings`` are all that a question must fit, so far as the analyst may know it.
    """

    budget: Budget
    spent: PrivacyLoss
    charges: int
    standings: tuple[Standing, ...]

    @property
    def limit(self) -> float:
        """The epsilon of the budget."""
        return self.budget.epsilon

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of all spending."""
        return self.budget.epsilon_spent(self.spent)

    @property
    def left(self) -> float:
        """The epsilon left of the budget."""
        return max(0.0, self.budget.epsilon - self.epsilon_spent)

    @property
    def share(self) -> float:
        """The share of the budget that is left."""
        return self.left / self.limit


def balance(account: OwnAccount, policy: Budget) -> Balance:
    """Read where the account that pays stands. Cheap to ask for.

    ``policy`` is the analyst's budget. Raises ``LedgerError``.
    """
    standing = account.standing()
    report = account_report(standing.analyst, (), policy, composition=policy.composition)
    budget = policy if report.binding is None else report.binding.budget
    return Balance(budget, report.spent.loss, report.spent.charges, standing.binding)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a query before it runs, in the worst case.

    ``delta`` is None where it is not told. ``share`` is how much it reserves of what is left, of
    that of ε, ρ and δ which is scarcest. ``left`` is the ε of the account that remains afterwards.
    ``affordable`` is how many queries of this price can be paid for, this one among them; None for
    any number. ``chosen`` says what each private block got that was given no number of groups per
    unit. ``anew`` says why it is not answered from what was released before; empty if nothing was,
    or not of this question. ``open`` says that bounds that are found first make it another price.
    """

    epsilon: float
    delta: float | None
    share: float
    left: float
    affordable: int | None
    chosen: tuple[str, ...] = ()
    anew: str = ""
    open: bool = False

    @property
    def question(self) -> str:
        """The price in words."""
        taken = percent(self.share, 1.0)
        at = "" if self.delta is None else f" at δ {significant(self.delta)}"
        more = "" if self.affordable is None else f", enough for {_queries(self.affordable - 1)}"
        return (
            f"This reserves ε {significant(self.epsilon)}{at}: {taken} "
            f"of what is left. Afterwards ε {significant(self.left, 3)} is left{more}."
            + "".join(f" max_groups_contributed is {chosen}." for chosen in self.chosen)
            + (f" It is asked anew: {self.anew}." if self.anew else "")
            + " Bounds that are found first make it more or less." * self.open
        )


def price(explanation: Explanation, now: Balance) -> Price:
    """Compute the price of an explained query to an account."""
    reserved = explanation.reserved
    amount = Amount.charge(reserved)
    affordable = [standing.affordable(amount) for standing in now.standings]
    return Price(
        epsilon=explanation.reserved_epsilon,
        delta=reserved.delta + explanation.conversion_delta,
        share=share_taken(amount, now.standings) or 0.0,
        left=max(0.0, now.budget.epsilon - now.budget.epsilon_spent(now.spent + reserved)),
        affordable=min((count for count in affordable if count is not None), default=None),
        chosen=tuple(dict.fromkeys(b.groups_chosen for b in explanation.blocks if b.groups_chosen)),
        anew=explanation.anew,
        open=explanation.price_open,
    )


def spent_between(before: ShownBalance, after: ShownBalance) -> str | None:
    """Word the charge between two balances; None without a charge."""
    if after.charges == before.charges:
        return None
    taken = significant(after.epsilon_spent - before.epsilon_spent, 3)
    left = significant(after.left, 3)
    return f"It took ε {taken} of the account's, which stays spent; ε {left} is left."


def _queries(number: int) -> str:
    if number == 0:
        return "no more such queries"
    return f"about {number:,} more such quer{'y' if number == 1 else 'ies'}"

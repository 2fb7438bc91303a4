"""The budget of one block, and the division of its delta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from dpsql.planner.option import Option, attempted
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.gdp import gaussian_rho_from_epsilon
from dpsql.privacy.accounting.zcdp import (
    CONVERSION_SHARE,
    Amount,
    Composition,
    PrivacyLoss,
    divided_delta,
    rho_from_epsilon,
)

SHARES = (CONVERSION_SHARE, 0.4, 0.6)
"""Parts of delta to try for the conversion from zCDP, where a query may choose. Thresholds are flat
there: half is within 0.3% of the least, for any epsilon, delta and number of groups."""


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """zCDP to spend on noise, delta to spend on naming a group that should have stayed unnamed.

    ``conversion`` is the rest of the query's delta, which turns ``rho`` into its epsilon. If
    ``gaussian``, rho is mu**2/2 of Gaussian DP, and only what has such a cost may spend it.
    """

    rho: float
    delta: float
    conversion: float
    gaussian: bool = False

    @property
    def loss(self) -> PrivacyLoss:
        """All of it, as a block is charged."""
        return PrivacyLoss(self.rho, self.delta, gaussian=self.gaussian)

    def price(self, parts: int = 1) -> PrivacyLoss:
        """Return one of ``parts`` equal parts of the rho, with all of delta."""
        return PrivacyLoss(self.rho / parts, self.delta, gaussian=self.gaussian)


@dataclass(frozen=True, slots=True)
class QueryBudget:
    """A block's (epsilon, delta), and how its account adds costs up.

    ``share`` is the part of the rho that a ``BudgetSplit`` has to spend; the rest is held back, up
    to ``available``, which is all that there is for the release. ``delta_for_conversion`` is the
    part of delta that the account keeps for its conversion.
    """

    epsilon: float
    delta: float
    composition: Composition
    share: float = 1.0
    delta_for_conversion: float = CONVERSION_SHARE
    available: float = 1.0

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        composition: Composition,
        share: float = 1.0,
        delta_for_conversion: float = CONVERSION_SHARE,
    ) -> QueryBudget:
        """Return the budget that a query's parameters give each of its blocks."""
        if composition is not Composition.BASIC:
            epsilon, delta = parameters.epsilon, parameters.delta
            return cls(epsilon, delta, composition, share, delta_for_conversion)
        whole = _in_units(PrivacyLoss(0.0, parameters.delta, parameters.epsilon))
        return cls(whole.epsilon, whole.delta, composition, share)

    def without(self, part: float) -> QueryBudget:
        """Return the rest of the budget if a part of the price goes to estimates.

        That is a part of ρ, or of ε under basic composition; δ stays whole, as estimates need none.
        """
        if not self.basic:
            kept = 1 - part
            return replace(self, share=self.share * kept, available=self.available * kept)
        left = _in_units(PrivacyLoss(0.0, 0.0, self.epsilon * (1 - part)))
        return replace(self, epsilon=left.epsilon)

    def part_beside(self, part: float, others: float = 0.0, number: float = 1) -> PrivacyLoss:
        """Return the price of each of some estimates or choices, in whole units of a ledger.

        They share a part of the price, beside ``others`` that have theirs: with these, and with the
        rest, all cost the whole at most. They need no δ.
        """
        whole, left = self.without(others), self.without(others + part)
        if self.basic:
            return _in_units(PrivacyLoss(0.0, 0.0, (whole.epsilon - left.epsilon) / number))
        rho = whole.halved().rho - left.halved().rho
        price = _in_units(PrivacyLoss(rho / number, 0.0))
        return replace(price, gaussian=self.gaussian)

    @property
    def noise_rho(self) -> float:
        """The ρ that noise of this budget is about worth, however its account adds up."""
        return self.halved().rho

    @property
    def gaussian(self) -> bool:
        """True if costs are those of Gaussian DP."""
        return self.composition is Composition.GDP

    @property
    def basic(self) -> bool:
        """True if the block costs its (epsilon, delta), for every mechanism."""
        return self.composition is Composition.BASIC

    @property
    def one_shot(self) -> bool:
        """True if mechanisms may be calibrated by their exact (epsilon, delta).

        Where something is held back they may not: it would have to be added up with theirs, which
        zCDP does better.
        """
        return self.basic and self.share == 1.0

    @property
    def held_back(self) -> float:
        """The rho that no ``BudgetSplit`` has: together they are all, in the same units."""
        whole = replace(self, share=self.available).halved().rho
        return (whole - self.halved().rho) * (1 - 2.0**-40)

    @property
    def loss(self) -> PrivacyLoss:
        """The whole budget, as basic composition charges it."""
        return self.part(1)

    def part(self, parts: float) -> PrivacyLoss:
        """Return one of ``parts`` equal parts of epsilon, with all of delta, to publish once."""
        return PrivacyLoss(0.0, self.delta, self.epsilon / parts)

    def whole(self) -> BudgetSplit:
        """Return the split for mechanisms that need no delta of their own."""
        return _split(self, 1.0) if self.one_shot else self.halved()

    def halved(self) -> BudgetSplit:
        """Return the split of a mechanism that spends delta of its own: usually half of it."""
        return _split(self, self.delta_for_conversion)

    def tightest(self, build: Callable[[BudgetSplit], Option]) -> Option:
        """Find the best of the options that the possible divisions of delta lead to.

        An account under zCDP has divided its delta, once and for good, and a query that asks for
        all of it must fit.
        """
        usual, *others = SHARES if self.one_shot else (self.delta_for_conversion,)
        best = build(_split(self, usual))
        for share in others:
            option = attempted(best.mechanism, partial(build, _split(self, share)))
            best = min(best, option, key=lambda option: option.order)
        return best


@lru_cache(maxsize=4096)
def _split(budget: QueryBudget, share: float) -> BudgetSplit:
    """Split a budget: the same numbers are asked for by each candidate of a plan."""
    conversion, own = (budget.delta, 0.0) if share == 1.0 else divided_delta(budget.delta, share)
    worth = gaussian_rho_from_epsilon if budget.gaussian else rho_from_epsilon
    spent = _in_units(PrivacyLoss(budget.share * worth(budget.epsilon, conversion), own))
    return BudgetSplit(spent.rho, spent.delta, conversion, budget.gaussian)


def _in_units(loss: PrivacyLoss) -> PrivacyLoss:
    """Round down to whole ledger units, so that a query for all of an account's budget fits."""
    whole = Amount.limit(loss).loss
    return PrivacyLoss(
        whole.rho or loss.rho, whole.delta or loss.delta, whole.epsilon or loss.epsilon
    )

"""What one block may spend, and how its delta is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from dpsql.accounting.zcdp import Amount, Composition, PrivacyLoss, rho_from_epsilon
from dpsql.planner.option import Option, attempted
from dpsql.policy.parameters import Parameters

SHARES = (0.5, 0.4, 0.6)
"""Parts of delta to try for the conversion from zCDP, where a query may choose. Thresholds are flat
there: half is within 0.3% of the least, for any epsilon, delta and number of groups."""


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """zCDP to spend on noise, delta to spend on naming a group that should have stayed unnamed.

    ``conversion`` is the rest of the query's delta, which turns ``rho`` into its epsilon.
    """

    rho: float
    delta: float
    conversion: float


@dataclass(frozen=True, slots=True)
class QueryBudget:
    """A block's (epsilon, delta), and how its account adds costs up.

    ``share`` is the part of the rho that a ``BudgetSplit`` has to spend; the rest is held back.
    """

    epsilon: float
    delta: float
    composition: Composition
    share: float = 1.0

    @classmethod
    def of(
        cls, parameters: Parameters, composition: Composition, share: float = 1.0
    ) -> QueryBudget:
        """Return the budget that a query's parameters give each of its blocks."""
        if composition is Composition.ZCDP:
            return cls(parameters.epsilon, parameters.delta, composition, share)
        whole = _in_units(PrivacyLoss(0.0, parameters.delta, parameters.epsilon))
        return cls(whole.epsilon, whole.delta, composition, share)

    def without(self, part: float) -> QueryBudget:
        """Return what is left for the block if a part of the price goes to its looks.

        That is a part of ρ, or of ε under basic composition; δ stays whole, as looks need none.
        """
        if not self.basic:
            return replace(self, share=self.share * (1 - part))
        left = _in_units(PrivacyLoss(0.0, 0.0, self.epsilon * (1 - part)))
        return replace(self, epsilon=left.epsilon)

    def part_for_looks(self, part: float, looks: int) -> PrivacyLoss:
        """Return the price of each of some looks, in whole units of a ledger.

        With what is left without them, all of them cost the whole at most.
        """
        left = self.without(part)
        if self.basic:
            return _in_units(PrivacyLoss(0.0, 0.0, (self.epsilon - left.epsilon) / looks))
        rho = self._split(SHARES[0]).rho - left._split(SHARES[0]).rho
        return _in_units(PrivacyLoss(rho / looks, 0.0))

    @property
    def basic(self) -> bool:
        """True if what a block costs is its (epsilon, delta), however it is spent."""
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
        """The rho that no ``BudgetSplit`` has: together they are the whole, in the same units."""
        whole = replace(self, share=1.0)._split(SHARES[0]).rho
        return (whole - self._split(SHARES[0]).rho) * (1 - 2.0**-40)

    @property
    def loss(self) -> PrivacyLoss:
        """The whole budget, as basic composition charges it."""
        return PrivacyLoss(0.0, self.delta, self.epsilon)

    def whole(self) -> BudgetSplit:
        """Return the split for mechanisms that need no delta of their own."""
        return self._split(1.0 if self.one_shot else SHARES[0])

    def halved(self) -> BudgetSplit:
        """Return the split of a mechanism that spends delta of its own, half of all there is."""
        return self._split(SHARES[0])

    def tightest(self, build: Callable[[BudgetSplit], Option]) -> Option:
        """Find the best of the options that the possible divisions of delta lead to.

        An account under zCDP has divided its delta in half, once and for good, and a query that
        asks for all of it must fit.
        """
        usual, *others = SHARES if self.one_shot else SHARES[:1]
        best = build(self._split(usual))
        for share in others:
            option = attempted(best.mechanism, partial(build, self._split(share)))
            best = min(best, option, key=lambda option: option.order)
        return best

    def _split(self, share: float) -> BudgetSplit:
        conversion = self.delta * share
        rho = self.share * rho_from_epsilon(self.epsilon, conversion)
        spent = _in_units(PrivacyLoss(rho, self.delta - conversion))
        return BudgetSplit(spent.rho, spent.delta, conversion)


def _in_units(loss: PrivacyLoss) -> PrivacyLoss:
    """Round down to whole ledger units, so that a query for all of an account fits into it."""
    whole = Amount.limit(loss).loss
    return PrivacyLoss(
        whole.rho or loss.rho, whole.delta or loss.delta, whole.epsilon or loss.epsilon
    )

"""Unknown keys, the largest groups only.

Options are compared by the score, counted from the (k_bar+1)-th, that comes out with probability
95%; one that samples the groups of a unit has to be a quarter better than one that does not. What
the data would decide is left to whoever asks: a privately chosen k_bar, and a threshold that counts
from the (k+1)-th score, are taken by name only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dpsql.core.formatting import several
from dpsql.errors import ParameterError
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block, TopK
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.noise import NoiseOf, composed_noise, exact_gaussian_noise, pure_laplace_noise
from dpsql.planner.option import Option, impossible
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import one_shot_distance
from dpsql.privacy.mechanisms.registry import (
    ANY_GROUPS,
    CORRELATED_TOP_K,
    FIXED_THRESHOLD,
    GAUSSIAN_TOP_K,
    GUMBEL_TOP_K,
    GUMBEL_TOP_K_CHOSEN_K_BAR,
    LAPLACE_TOP_K,
    Family,
    MechanismEntry,
    Sizes,
    names,
)
from dpsql.privacy.mechanisms.selection import Selection

_ONLY_BY_NAME = "only if asked for"
_CAP_GAIN = 1.25  # a cap leaves out what units have beyond it, which no figure here shows
_EXACT_GAIN = 1.5  # more than what the exact analysis of a single publication ever gains


def top_k_options(block: Block, top_k: TopK, budget: QueryBudget) -> list[Option]:
    """List the mechanisms that look at the k_bar + 1 largest groups only."""
    obstacle = _obstacle(block, top_k)
    if obstacle is not None:
        kinds = names(Family.TOP_K, one_shot=budget.one_shot)
        return [replace(obstacle, mechanism=name) for name in kinds]
    return _TopK(block, top_k, budget).options()


def _obstacle(block: Block, top_k: TopK) -> Option | None:
    if block.ranks_groups:
        return None
    parameters = block.parameters
    if top_k.limit > parameters.k_bar:
        return impossible(
            "",
            f"LIMIT {top_k.limit} exceeds k_bar = {parameters.k_bar}",
            "Lower the LIMIT or raise k_bar.",
        )
    return impossible(
        "",
        "with min_units_per_group above 1 only unit counts can rank groups",
        "ORDER BY COUNT(DISTINCT unit), or set max_groups_contributed to a number.",
    )


class _TopK:
    """The options of one block with a LIMIT."""

    def __init__(self, block: Block, top_k: TopK, budget: QueryBudget) -> None:
        self.block = block
        self.score = top_k.measure
        self.k = top_k.limit
        self.unseen = top_k.unseen
        self.budget = budget
        parameters = block.parameters
        self.cap = parameters.groups_limit
        self.k_bar = parameters.k_bar
        self.share = len(block.measures)
        score = block.measures[top_k.measure]
        self.sizes = Sizes(
            k=self.k,
            k_bar=self.k_bar,
            sensitivity=score.sensitivity(parameters.rows_limit),
            floor=parameters.min_units_per_group - 1,
        )

    def options(self) -> list[Option]:
        tightest = self.budget.tightest
        found = [tightest(partial(self.gumbel, None))]
        if self.cap is not None and self.cap < self.k_bar:
            found.append(tightest(partial(self.gumbel, self.cap)))
        found += [tightest(self.gaussian), tightest(self.correlated)]
        if self.budget.one_shot:
            found += [self.laplace(), *self.exact_correlated(found), self.fixed_threshold()]
        return [*found, tightest(self.chosen_k_bar)]

    # -- names in order, by Gumbel noise ------------------------------------------------------

    def naming(self, split: BudgetSplit) -> PrivacyLoss:
        """Return the price of the names: all of it where only their order is asked for.

        Otherwise it is one of equal parts, and each measure has another.
        """
        return split.price(1 if self.unseen else self.share + 1)

    def gumbel(self, cap: int | None, split: BudgetSplit) -> Option:
        """Offer Gumbel noise for any number of groups per unit; with a cap, ⊥ is lower."""
        price = self.naming(split)
        sizes = replace(self.sizes, groups=ANY_GROUPS if cap is None else cap)
        selection = GUMBEL_TOP_K.within(sizes, price)
        if selection is None:
            return _epsilon_too_small(GUMBEL_TOP_K)
        return self._in_order(selection, price, cap, split.conversion)

    def chosen_k_bar(self, split: BudgetSplit) -> Option:
        """Offer k_bar chosen on the data, for whoever asks: only the data say if that is better."""
        price = self.naming(split)
        try:
            selection = GUMBEL_TOP_K_CHOSEN_K_BAR.within(self.sizes, price)
        except ParameterError as error:
            return impossible(GUMBEL_TOP_K_CHOSEN_K_BAR.name, str(error), "Lower k_bar.")
        if selection is None:
            return _epsilon_too_small(GUMBEL_TOP_K_CHOSEN_K_BAR)
        option = self._in_order(selection, price, None, split.conversion)
        return replace(option, rank=math.inf, variant=_ONLY_BY_NAME)

    def _in_order(
        self, selection: Selection, price: PrivacyLoss, cap: int | None, conversion: float
    ) -> Option:
        """Offer a selection of at most k names in order, with values where these are asked for."""
        if not self.unseen:
            return self._named(selection, composed_noise(self.block, price), cap, conversion)
        values = (NoisyMeasure(self.block.measures[self.score], None),)
        return self._option(selection, values, None, cap, conversion)

    def _named(
        self, selection: Selection, noise_of: NoiseOf, cap: int | None, conversion: float
    ) -> Option:
        """Offer a selection of at most k names; their values get noise of their own."""
        every = self._values(noise_of, self.k, self.k)
        some = None if cap is None or cap >= self.k else self._values(noise_of, cap, self.k)
        if some is not None and _error(some, self.k) < _error(every, self.k):
            return self._option(selection, some, cap, cap, conversion)
        return self._option(selection, every, None, cap, conversion)

    # -- names and scores ---------------------------------------------------------------------

    def gaussian(self, split: BudgetSplit) -> Option:
        """Offer independent noise on a limited number of groups per unit."""
        cap = self.cap
        if cap is None:
            return _unlimited(GAUSSIAN_TOP_K)
        price = split.price(self.share)
        selection = GAUSSIAN_TOP_K.built(replace(self.sizes, groups=cap), price)
        values = self._values(composed_noise(self.block, price), cap, scored=True)
        return self._option(selection, values, cap, cap, split.conversion)

    def correlated(self, split: BudgetSplit) -> Option:
        """Offer shared noise, however many groups a unit touches: for a small k_bar."""
        price = split.price(self.share)
        try:
            selection = CORRELATED_TOP_K.within(self.sizes, price)
        except ParameterError as error:
            return impossible(CORRELATED_TOP_K.name, error.reason)
        if selection is None:
            return impossible(CORRELATED_TOP_K.name, "epsilon is too large for its analysis")
        noise_of = composed_noise(self.block, price)
        values = self._values(noise_of, self.k, self.k, scored=True)
        return self._option(selection, values, None, None, split.conversion)

    def exact_correlated(self, others: Sequence[Option]) -> list[Option]:
        """Offer one publication of the scores alone, by the exact analysis, if it may win.

        With further measures the parts of (epsilon, delta) would have to be added up, which zCDP
        does better.
        """
        composed = min(o.order for o in others if o.mechanism == CORRELATED_TOP_K.name)
        if self.share > 1 or composed > _EXACT_GAIN * min(option.order for option in others):
            return []
        selection = CORRELATED_TOP_K.built(self.sizes, self.budget.loss)
        values = (NoisyMeasure(self.block.measures[self.score], None),)
        option = self._option(selection, values, None, None, 0.0)
        return [replace(option, variant=f"{option.variant}, exact")]

    # -- one publication ----------------------------------------------------------------------

    def laplace(self) -> Option:
        """Offer epsilon on the noise alone, delta on the threshold alone."""
        cap = self.cap
        if cap is None:
            return _unlimited(LAPLACE_TOP_K)
        if self.sizes.sensitivity > 1:
            return _one_per_unit(LAPLACE_TOP_K)
        price, sizes = self.budget.part(self.share), replace(self.sizes, groups=cap)
        try:
            selection = LAPLACE_TOP_K.built(sizes, price)
            values = self._values(pure_laplace_noise(self.block, price), cap, scored=True)
            return self._option(selection, values, cap, cap, 0.0)
        except ParameterError as error:
            return impossible(LAPLACE_TOP_K.name, str(error))

    def fixed_threshold(self) -> Option:
        """Offer a threshold from the (k+1)-th score on: comparable with others if k = k_bar."""
        if self.sizes.sensitivity > 1:
            return _one_per_unit(FIXED_THRESHOLD)
        part = 1 / (self.share + 1)
        epsilon, delta = self.budget.epsilon, self.budget.delta
        try:
            price = PrivacyLoss(0.0, delta * part, epsilon * part)
            selection = FIXED_THRESHOLD.built(self.sizes, price)
            distance = one_shot_distance(epsilon * (1 - part), delta * (1 - part)) / self.share
            option = self._named(selection, exact_gaussian_noise(self.block, distance), None, 0.0)
        except ParameterError as error:
            return impossible(FIXED_THRESHOLD.name, str(error))
        if self.k == self.k_bar:
            return option
        return replace(option, rank=math.inf, variant=_ONLY_BY_NAME)

    # -- plans --------------------------------------------------------------------------------

    def _values(
        self,
        noise_of: NoiseOf,
        groups: int,
        released: int | None = None,
        *,
        scored: bool = False,
    ) -> tuple[NoisyMeasure, ...]:
        """Build noise for each measure but, if ``scored`` groups come out, the score.

        A unit changes ``groups`` of at most ``released``; None where noise is not to be shared.
        """
        return tuple(
            NoisyMeasure(
                measure,
                None if scored and i == self.score else noise_of(measure, groups, released),
            )
            for i, measure in enumerate(self.block.measures)
        )

    def _option(
        self,
        selection: Selection,
        values: tuple[NoisyMeasure, ...],
        groups: int | None,
        cap: int | None,
        conversion: float,
    ) -> Option:
        bounding = None if cap is None else Bounding.sample(cap)
        plan = BlockPlan(self.block, selection, values, self.score, groups, bounding, conversion)
        variant = f"at most {several(cap, 'group')} per unit" if cap else "any number of groups"
        needed = selection.score_for_inclusion(0.95)
        assert needed is not None
        found = self.block.bounds_found
        drawn = found is not None and found.groups and found.known  # so that little is left out
        rank = needed if cap is None or drawn else needed * _CAP_GAIN
        return Option(selection.name, plan, rank, variant=variant)


def _error(values: tuple[NoisyMeasure, ...], groups: int) -> float:
    return math.prod(value.noise.std(groups) for value in values if value.noise is not None)


def _epsilon_too_small(entry: MechanismEntry[Selection]) -> Option:
    return impossible(
        entry.name, "epsilon is too small for this LIMIT", "Ask for fewer groups or raise epsilon."
    )


def _unlimited(entry: MechanismEntry[Selection]) -> Option:
    return impossible(
        entry.name, "max_groups_contributed is unlimited", "Set max_groups_contributed to a number."
    )


def _one_per_unit(entry: MechanismEntry[Selection]) -> Option:
    return impossible(
        entry.name,
        "it ranks by scores that a unit changes by one",
        "ORDER BY COUNT(DISTINCT unit), or set max_rows_contributed to 1.",
    )

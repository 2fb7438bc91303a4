"""Unknown keys: release every group that enough units have to be safe to name.

Without aggregates, the question is which keys exist. Counting units answers that too, so positive
counts (the set union with weight 1 for each item) are candidates here as everywhere; what is added
are set unions whose weights are bounded together. All are compared by the units a key needs if each
unit has ``max_groups_contributed`` keys. That figure is exact where weights are fixed. For a policy
it rests on an estimate (``SetUnion.share``), by which it comes out ahead of the other two wherever
units may have several keys, as it does when measured.
"""

from __future__ import annotations

import math
from functools import partial

from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.noise import (
    UNITS,
    NoiseOf,
    composed_noise,
    exact_gaussian_noise,
    gaussian_noise,
    pure_laplace_noise,
    with_units,
)
from dpsql.planner.option import Option, attempted, impossible
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.registry import (
    GREEDY_SET_UNION,
    HISTOGRAMS,
    JOINT_HISTOGRAMS,
    SET_UNIONS,
    Family,
    MechanismEntry,
    Sizes,
    names,
    weights,
)
from dpsql.privacy.mechanisms.selection import Histogram, JointHistogram
from dpsql.privacy.mechanisms.set_union import STILL_RISING, SetUnion, Weighting
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS


def histogram_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List histogram mechanisms for a block, from the registry.

    Exact mechanisms are among them for a single publication. With weighted units groups need enough
    weight to be named.
    """
    cap = block.parameters.groups_limit
    if cap is None:
        reason = "max_groups_contributed is unlimited, which only a top-k query can bear"
        hint = (
            "Add ORDER BY a count or a sum of non-negative values DESC LIMIT k, or set "
            "max_groups_contributed to a number, or ask the data owner to declare the keys' domain."
        )
        kinds = names(Family.HISTOGRAM, one_shot=budget.one_shot)
        return [impossible(name, reason, hint) for name in kinds]
    histogram = _Histogram(block, budget, cap)
    entries = [e for e in HISTOGRAMS if (e.family is Family.WEIGHTED) == block.weighted]
    options = [histogram.composed(entry) for entry in entries]
    if budget.one_shot:
        options += [
            attempted(entry.name, partial(histogram.joint, entry))
            for entry in JOINT_HISTOGRAMS
            if (entry.family is Family.WEIGHTED) == block.weighted
        ]
        options += [
            attempted(entry.name, partial(histogram.divided, entry))
            for entry in entries
            if Composition.BASIC in entry.priced_in
        ]
    return options


class _Histogram:
    """The options of one block with at most ``cap`` groups per unit, or the weight of as many."""

    def __init__(self, block: Block, budget: QueryBudget, cap: int) -> None:
        self.block = block
        self.budget = budget
        self.cap = cap
        # The unit count is always measured: it decides which groups are safe to name.
        measures = with_units(block)
        self.score = measures.index(UNITS)
        self.sizes = Sizes(
            groups=cap, floor=block.parameters.min_units_per_group - 1, shared=len(measures)
        )
        self.bounding, self.steps = Bounding.sample(cap), 1
        if block.weighted:
            rows = block.parameters.rows_limit
            measures = tuple(measure.weighted(WEIGHT_STEPS, rows) for measure in measures)
            self.bounding, self.steps = Bounding(cap, weights(self.sizes).kept), WEIGHT_STEPS
        self.measures = measures

    def composed(self, entry: MechanismEntry[Histogram]) -> Option:
        """Offer it by its price under zCDP or in Gaussian DP, one part for each measure."""
        composition = Composition.GDP if self.budget.gaussian else Composition.ZCDP
        if composition not in entry.priced_in:
            return impossible(entry.name, entry.unpriced(composition))
        return self.budget.tightest(partial(self._composed, entry))

    def _composed(self, entry: MechanismEntry[Histogram], split: BudgetSplit) -> Option:
        price = split.price(len(self.measures))
        # Weights bound how far a unit moves a measure in l2, not in l1.
        kind = gaussian_noise if self.block.weighted else composed_noise
        others, selection = kind(self.block, price), entry.built(self.sizes, price)
        return self._option(selection, others, split.conversion)

    def joint(self, entry: MechanismEntry[JointHistogram]) -> Option:
        """Offer one publication: the exact delta of Gaussian noise and threshold together."""
        selection = entry.built(self.sizes, self.budget.loss)
        each = self.cap * selection.others / max(1, len(self.measures) - 1)
        return self._option(selection, exact_gaussian_noise(self.block, each), 0.0)

    def divided(self, entry: MechanismEntry[Histogram]) -> Option:
        """Offer one publication: epsilon on the noise alone, delta on the threshold alone."""
        price = self.budget.part(len(self.measures))
        selection = entry.built(self.sizes, price)
        return self._option(selection, pure_laplace_noise(self.block, price), 0.0, "pure epsilon")

    def _option(
        self, selection: Histogram, others: NoiseOf, conversion: float, variant: str = ""
    ) -> Option:
        noisy = tuple(
            NoisyMeasure(measure, None if i == self.score else others(measure, self.cap, False))
            for i, measure in enumerate(self.measures)
        )
        plan = BlockPlan(
            self.block, selection, noisy, self.score, self.cap, self.bounding, conversion
        )
        return Option(selection.name, plan, selection.threshold / self.steps, variant=variant)


_AUTOMATIC = 100  # groups of a unit where none are given: more, or half of it, hardly names fewer
_UNCAPPED = 0.9  # a vote is for any key of a unit: so votes name 4% more than policies, and up
_PLANNED = tuple(entry for entry in SET_UNIONS if entry.planned)


def set_union_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List votes, then policies and fixed shares, each with Gaussian and with Laplace noise."""
    cap = block.parameters.groups_limit
    if block.parameters.automatic:
        cap = min(_AUTOMATIC, _AUTOMATIC if cap is None else cap)
    if block.rows_are_units:
        cap = 1
    return [
        attempted(GREEDY_SET_UNION.name, partial(_greedy_option, block, budget, cap)),
        *_weighing_options(block, budget, cap),
    ]


def _weighing_options(block: Block, budget: QueryBudget, cap: int | None) -> list[Option]:
    if cap is None:
        return _all_impossible(
            "max_groups_contributed is unlimited, which only a top-k query can bear",
            "Set max_groups_contributed to a number.",
        )
    if cap == 1:
        return _all_impossible(
            "with one group per unit it is the same as positive counts", "Ask for those."
        )
    if block.parameters.min_units_per_group > 1:
        # A unit may carry a key over the minimum, and with it the weight that others gave it.
        return _all_impossible(
            "with min_units_per_group above 1 only numbers of units can name groups",
            "Ask for positive counts, or for votes.",
        )
    return [
        attempted(entry.name, partial(_option, block, budget, cap, entry)) for entry in _PLANNED
    ]


def _greedy_option(block: Block, budget: QueryBudget, cap: int | None) -> Option:
    """Offer votes, compared as if units had ``cap`` keys and divided theirs among them.

    As many of a unit's keys are still below the cutoff as ``SetUnion.share`` estimates.
    """
    sizes = Sizes(groups=1, floor=block.parameters.min_units_per_group - 1)

    def composed(split: BudgetSplit) -> Option:
        return planned(split.price(), split.conversion)

    def planned(price: PrivacyLoss, conversion: float) -> Option:
        union = GREEDY_SET_UNION.built(sizes, price)
        plan = BlockPlan(block, union, (), None, 1, None, conversion)
        needed = sizes.floor + union.votes_needed
        keys = _AUTOMATIC if cap is None else cap
        rank = needed * (1.0 if keys == 1 else _UNCAPPED * math.pow(keys, STILL_RISING))
        return Option(union.name, plan, rank, variant="estimated" if cap != 1 else "")

    if budget.one_shot:
        return planned(budget.loss, 0.0)
    return budget.tightest(composed)


def _option(block: Block, budget: QueryBudget, cap: int, entry: MechanismEntry[SetUnion]) -> Option:
    """Offer a set union by the account's composition. Raises ``ParameterError`` if none fits."""
    sizes = Sizes(groups=cap)

    def composed(split: BudgetSplit) -> Option:
        union = entry.built(sizes, split.price())
        return _planned(block, cap, union, split.conversion)

    if not budget.one_shot:
        return budget.tightest(composed)
    union = entry.built(sizes, budget.loss)
    return _planned(block, cap, union, 0.0)


def _planned(block: Block, cap: int, union: SetUnion, conversion: float) -> Option:
    plan = BlockPlan(block, union, (), None, cap, Bounding.sample(cap), conversion)
    needed = union.score_for_inclusion(0.5)
    assert needed is not None
    estimated = "estimated" if union.weighting is Weighting.POLICY else ""
    return Option(union.name, plan, needed, variant=estimated)


def _all_impossible(obstacle: str, hint: str = "") -> list[Option]:
    return [impossible(entry.name, obstacle, hint) for entry in _PLANNED]

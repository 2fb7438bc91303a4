"""Unknown keys, units weighted: release every group with enough weight on it to be safe to name."""

from __future__ import annotations

from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.mechanisms.registry import (
    WEIGHTED_POSITIVE_COUNTS,
    WEIGHTED_SPARSE_HISTOGRAM,
    Sizes,
)
from dpsql.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
    WeightedPositiveCounts,
    WeightedSparseHistogram,
)
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.noise import NoiseOf, exact_gaussian_noise, gaussian_noise
from dpsql.planner.option import Option, attempted


def weighted_options(
    block: Block, budget: QueryBudget, cap: int, measures: tuple[Measure, ...], score: int
) -> list[Option]:
    """List positive weights by zCDP; for one publication the exact analysis too.

    ``measures`` are those of the block and, at ``score``, the unit count. Only Gaussian noise will
    do: weights bound how far a unit moves a measure in l2, not in l1.
    """
    histogram = _WeightedHistogram(block, budget, cap, measures, score)
    options = [budget.tightest(histogram.positive_counts)]
    if budget.one_shot:
        options.append(attempted(WEIGHTED_SPARSE_HISTOGRAM.name, histogram.sparse_histogram))
    return options


class _WeightedHistogram:
    """The options of one block whose units weigh as much as ``cap`` groups."""

    def __init__(
        self, block: Block, budget: QueryBudget, cap: int, measures: tuple[Measure, ...], score: int
    ) -> None:
        rows = block.parameters.max_rows_contributed
        self.block = block
        self.budget = budget
        self.measures = tuple(measure.weighted(WEIGHT_STEPS, rows) for measure in measures)
        self.score = score
        self.sizes = Sizes(
            groups=cap, floor=block.parameters.min_units_per_group - 1, shared=len(measures)
        )

    def positive_counts(self, split: BudgetSplit) -> Option:
        rho = split.rho / len(self.measures)
        selection = WEIGHTED_POSITIVE_COUNTS.at_rho(self.sizes, rho, split.delta)
        return self._option(selection, gaussian_noise(self.block, rho), split.conversion)

    def sparse_histogram(self) -> Option:
        share = len(self.measures)
        selection = WEIGHTED_SPARSE_HISTOGRAM.published_once(
            self.sizes, self.budget.epsilon, self.budget.delta
        )
        each = self.sizes.groups * selection.others / max(1, share - 1)
        return self._option(selection, exact_gaussian_noise(self.block, each), 0.0)

    def _option(
        self,
        selection: WeightedPositiveCounts | WeightedSparseHistogram,
        others: NoiseOf,
        conversion: float,
    ) -> Option:
        groups, kept = selection.weights.groups, selection.weights.kept
        noisy = tuple(
            NoisyMeasure(measure, None if i == self.score else others(measure, groups, False))
            for i, measure in enumerate(self.measures)
        )
        plan = BlockPlan(
            self.block,
            selection,
            noisy,
            self.score,
            groups,
            Bounding(groups, kept),
            conversion,
        )
        return Option(selection.name, plan, selection.threshold / WEIGHT_STEPS)

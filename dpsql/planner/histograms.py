"""Unknown keys: release every group that enough units have to be safe to name."""

from __future__ import annotations

from functools import partial

from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.mechanisms.histogram import PositiveCounts
from dpsql.mechanisms.registry import (
    GAUSSIAN_POSITIVE_COUNTS,
    GAUSSIAN_SPARSE_HISTOGRAM,
    LAPLACE_POSITIVE_COUNTS,
    Family,
    MechanismEntry,
    Sizes,
    names,
)
from dpsql.mechanisms.sparse_histogram import SparseHistogram
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.measured import UNITS, with_units
from dpsql.planner.noise import (
    NoiseOf,
    composed_noise,
    exact_gaussian_noise,
    pure_laplace_noise,
)
from dpsql.planner.option import Option, attempted, impossible
from dpsql.planner.weighted import weighted_options


def histogram_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List positive counts by Gaussian or Laplace noise; for one publication exact ones too.

    With weighted units those of :mod:`dpsql.planner.weighted` take their place.
    """
    cap = block.parameters.max_groups_contributed
    if cap is None:
        reason = "max_groups_contributed is unlimited, which only a top-k query can bear"
        hint = (
            "Add ORDER BY a count or a sum of non-negative values DESC LIMIT k, or set "
            "max_groups_contributed to a number, or ask the data owner to declare the keys' domain."
        )
        kinds = names(Family.HISTOGRAM, one_shot=budget.one_shot)
        return [impossible(name, reason, hint) for name in kinds]
    histogram = _Histogram(block, budget, cap)
    if block.weighted:
        return weighted_options(block, budget, cap, histogram.measures, histogram.score)
    options = [
        budget.tightest(partial(histogram.positive_counts, entry))
        for entry in (GAUSSIAN_POSITIVE_COUNTS, LAPLACE_POSITIVE_COUNTS)
    ]
    if budget.one_shot:
        options += [
            attempted(GAUSSIAN_SPARSE_HISTOGRAM.name, histogram.sparse_histogram),
            attempted(LAPLACE_POSITIVE_COUNTS.name, histogram.pure_laplace),
        ]
    return options


class _Histogram:
    """The options of one block with at most ``cap`` groups per unit."""

    def __init__(self, block: Block, budget: QueryBudget, cap: int) -> None:
        self.block = block
        self.budget = budget
        self.cap = cap
        # The unit count is always measured: it decides which groups are safe to name.
        self.measures = with_units(block)
        self.score = self.measures.index(UNITS)
        self.sizes = Sizes(
            groups=cap,
            floor=block.parameters.min_units_per_group - 1,
            shared=len(self.measures),
        )

    def positive_counts(self, entry: MechanismEntry[PositiveCounts], split: BudgetSplit) -> Option:
        rho = split.rho / len(self.measures)
        selection = entry.at_rho(self.sizes, rho, split.delta)
        others = composed_noise(self.block, rho)
        return self._option(selection, selection.threshold, others, split.conversion)

    def sparse_histogram(self) -> Option:
        """One publication: the exact delta of Gaussian noise and threshold together."""
        share = len(self.measures)
        selection = GAUSSIAN_SPARSE_HISTOGRAM.published_once(
            self.sizes, self.budget.epsilon, self.budget.delta
        )
        others = exact_gaussian_noise(self.block, self.cap * selection.others / max(1, share - 1))
        return self._option(selection, selection.threshold, others, 0.0)

    def pure_laplace(self) -> Option:
        """One publication: epsilon on the noise alone, delta on the threshold alone."""
        epsilon = self.budget.epsilon / len(self.measures)
        selection = LAPLACE_POSITIVE_COUNTS.published_once(self.sizes, epsilon, self.budget.delta)
        others = pure_laplace_noise(self.block, epsilon)
        return self._option(selection, selection.threshold, others, 0.0, "pure epsilon")

    def _option(
        self,
        selection: PositiveCounts | SparseHistogram,
        threshold: float,
        others: NoiseOf,
        conversion: float,
        variant: str = "",
    ) -> Option:
        noisy = tuple(
            NoisyMeasure(measure, None if measure == UNITS else others(measure, self.cap, False))
            for measure in self.measures
        )
        bounding = Bounding.sample(self.cap)
        plan = BlockPlan(self.block, selection, noisy, self.score, self.cap, bounding, conversion)
        return Option(selection.name, plan, threshold, variant=variant)

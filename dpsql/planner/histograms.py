"""Unknown keys: release every group that enough units have to be safe to name."""

from __future__ import annotations

from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.mechanisms.additive import IndependentNoise, gaussian, laplace, one_shot_laplace
from dpsql.mechanisms.histogram import PositiveCounts
from dpsql.mechanisms.sparse_histogram import SparseHistogram, joint_sparse_histogram
from dpsql.planner.budget import Budget, Split
from dpsql.planner.measured import UNITS, with_units
from dpsql.planner.noise import (
    NoiseOf,
    composed_noise,
    exact_gaussian_noise,
    pure_laplace_noise,
)
from dpsql.planner.option import Option, attempted, impossible
from dpsql.planner.weighted import weighted_options

NAMES = ("gaussian_positive_counts", "laplace_positive_counts", "gaussian_sparse_histogram")


def histogram_options(block: Block, budget: Budget) -> list[Option]:
    """Positive counts by Gaussian or Laplace noise; for one publication the exact analyses too.

    With weighted units those of :mod:`dpsql.planner.weighted` take their place.
    """
    cap = block.parameters.max_groups_contributed
    if cap is None:
        reason = "max_groups_contributed is unlimited, which only a top-k query can bear"
        hint = (
            "Add ORDER BY a count or a sum of non-negative values DESC LIMIT k, or set "
            "max_groups_contributed to a number, or ask the data owner to declare the keys' domain."
        )
        names = NAMES if budget.one_shot else NAMES[:2]
        return [impossible(name, reason, hint) for name in names]
    histogram = _Histogram(block, budget, cap)
    if block.weighted:
        return weighted_options(block, budget, cap, histogram.measures, histogram.score)
    options = [
        budget.tightest(histogram.gaussian_positive_counts),
        budget.tightest(histogram.laplace_positive_counts),
    ]
    if budget.one_shot:
        options += [
            attempted("gaussian_sparse_histogram", histogram.sparse_histogram),
            attempted("laplace_positive_counts", histogram.pure_laplace),
        ]
    return options


class _Histogram:
    """The options of one block with at most ``cap`` groups per unit."""

    def __init__(self, block: Block, budget: Budget, cap: int) -> None:
        self.block = block
        self.budget = budget
        self.cap = cap
        # The unit count is always measured: it decides which groups are safe to name.
        self.measures = with_units(block)
        self.score = self.measures.index(UNITS)
        self.floor = block.parameters.min_units_per_group - 1

    def gaussian_positive_counts(self, split: Split) -> Option:
        rho = split.rho / len(self.measures)
        return self._positive_counts(split, gaussian(rho, 1, self.cap))

    def laplace_positive_counts(self, split: Split) -> Option:
        rho = split.rho / len(self.measures)
        return self._positive_counts(split, laplace(rho, 1, self.cap))

    def _positive_counts(self, split: Split, noise: IndependentNoise) -> Option:
        selection = PositiveCounts(noise, self.cap, split.delta, self.floor)
        others = composed_noise(self.block, split.rho / len(self.measures))
        return self._option(selection, selection.threshold, others, split.conversion)

    def sparse_histogram(self) -> Option:
        """One publication: the exact delta of Gaussian noise and threshold together."""
        share = len(self.measures)
        selection = joint_sparse_histogram(
            self.budget.epsilon, self.budget.delta, self.cap, self.floor, share
        )
        others = exact_gaussian_noise(self.block, self.cap * selection.others / max(1, share - 1))
        return self._option(selection, selection.threshold, others, 0.0)

    def pure_laplace(self) -> Option:
        """One publication: epsilon on the noise alone, delta on the threshold alone."""
        epsilon = self.budget.epsilon / len(self.measures)
        noise = one_shot_laplace(epsilon, 1, self.cap)
        selection = PositiveCounts(noise, self.cap, self.budget.delta, self.floor)
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

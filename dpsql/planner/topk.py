"""Unknown keys, the largest groups only."""

from __future__ import annotations

from dataclasses import replace

from dpsql.mechanisms.additive import gaussian
from dpsql.mechanisms.selection import Selection
from dpsql.mechanisms.topk import GaussianTopK, gumbel_top_k
from dpsql.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.planner.budget import Budget, Split
from dpsql.planner.noise import composed_noise
from dpsql.planner.option import Option, impossible
from dpsql.query import Block, MeasureKind, TopK

NAMES = ("gumbel_top_k", "gaussian_top_k")


def top_k_options(block: Block, top_k: TopK, budget: Budget) -> list[Option]:
    """The mechanisms that look at the k_bar + 1 largest groups only."""
    obstacle = _obstacle(block, top_k)
    if obstacle is not None:
        return [replace(obstacle, mechanism=name) for name in NAMES]
    found = _TopK(block, top_k)
    return [budget.tightest(found.gumbel), budget.tightest(found.gaussian)]


def _obstacle(block: Block, top_k: TopK) -> Option | None:
    parameters = block.parameters
    if top_k.limit > parameters.k_bar:
        return impossible(
            "",
            f"LIMIT {top_k.limit} exceeds k_bar = {parameters.k_bar}",
            "Lower the LIMIT or raise k_bar.",
        )
    kind = block.measures[top_k.measure].kind
    if parameters.min_units_per_group > 1 and kind is not MeasureKind.UNITS:
        # A unit may carry a group across the minimum, and its whole score with it.
        return impossible(
            "",
            "with min_units_per_group above 1 only unit counts can rank groups",
            "ORDER BY COUNT(DISTINCT unit), or set max_groups_contributed to a number.",
        )
    return None


class _TopK:
    """The options of one block with a LIMIT."""

    def __init__(self, block: Block, top_k: TopK) -> None:
        self.block = block
        self.top_k = top_k
        parameters = block.parameters
        score = block.measures[top_k.measure]
        self.sensitivity = score.sensitivity(parameters.max_rows_contributed)
        self.floor = parameters.min_units_per_group - 1

    def gumbel(self, split: Split) -> Option:
        rho = split.rho / (len(self.block.measures) + 1)
        selection = gumbel_top_k(
            rho,
            sensitivity=self.sensitivity,
            k=self.top_k.limit,
            k_bar=self.block.parameters.k_bar,
            delta=split.delta,
            floor=self.floor,
        )
        if selection is None:
            return impossible(
                "gumbel_top_k",
                "epsilon is too small for this LIMIT",
                "Ask for fewer groups or raise epsilon.",
            )
        noise_of = composed_noise(self.block, rho)
        noisy = tuple(
            NoisyMeasure(m, noise_of(m, self.top_k.limit, True)) for m in self.block.measures
        )
        plan = BlockPlan(
            self.block, selection, noisy, self.top_k.measure, None, None, split.conversion
        )
        return Option(selection.name, plan, _needed(selection))

    def gaussian(self, split: Split) -> Option:
        cap = self.block.parameters.max_groups_contributed
        if cap is None:
            return impossible(
                "gaussian_top_k",
                "max_groups_contributed is unlimited",
                "Set max_groups_contributed to a number.",
            )
        rho = split.rho / len(self.block.measures) * (1 - 4e-7)
        noise = gaussian(rho, self.sensitivity, cap)
        if noise.scale < 1:
            return impossible("gaussian_top_k", "epsilon is too large for its analysis")
        k_bar = self.block.parameters.k_bar
        selection = GaussianTopK(noise, cap, k_bar, split.delta, self.floor)
        noise_of = composed_noise(self.block, rho)
        noisy = tuple(
            NoisyMeasure(m, None if i == self.top_k.measure else noise_of(m, cap, False))
            for i, m in enumerate(self.block.measures)
        )
        plan = BlockPlan(
            self.block,
            selection,
            noisy,
            self.top_k.measure,
            cap,
            Bounding.sample(cap),
            split.conversion,
        )
        return Option(selection.name, plan, _needed(selection))


def _needed(selection: Selection) -> float:
    """The score (above the k_bar+1-th) that comes out with probability 95%: what ranks top-k."""
    needed = selection.appears_above(0.95)
    assert needed is not None
    return needed

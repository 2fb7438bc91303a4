"""Prices quantiles: divides a block's budget between them and the noisy measures."""

from __future__ import annotations

from dpsql.ir.measures import Quantile
from dpsql.ir.plan import BlockPlan, NoisyQuantile
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.noise import measured, with_units
from dpsql.privacy.mechanisms.gaussian_cost import quantile_for_gaussian_rho
from dpsql.privacy.mechanisms.quantiles import (
    ExponentialQuantile,
    exponential_quantile,
    pure_quantile,
)


def share_without_quantiles(block: Block) -> float:
    """Compute the part of a block's rho that is left to its measures and the choice of groups."""
    if not block.quantiles:
        return 1.0
    others = len(measured(block) if block.known_domain else with_units(block))
    return others / (others + len(block.quantiles))


def priced_quantiles(plan: BlockPlan, budget: QueryBudget) -> tuple[NoisyQuantile, ...]:
    """Return the block's quantiles, which share equally what ``budget`` holds back for them."""
    groups = plan.groups if plan.groups is not None else plan.max_released
    assert groups is not None
    return tuple(
        NoisyQuantile(quantile, _priced(plan.block, quantile, groups, budget))
        for quantile in plan.block.quantiles
    )


def _priced(
    block: Block, quantile: Quantile, groups: int, budget: QueryBudget
) -> ExponentialQuantile:
    """Price a quantile by zCDP or, in a single publication of only quantiles, by epsilon."""
    fraction, size = quantile.fraction, quantile.ranked.points
    rows, part = block.parameters.max_rows_contributed, 1 / len(block.quantiles)
    price = quantile_for_gaussian_rho if budget.gaussian else exponential_quantile
    composed = price(budget.held_back * part, fraction, rows=rows, groups=groups, size=size)
    if not (budget.basic and budget.share == 0.0):
        return composed
    pure = pure_quantile(budget.epsilon * part, fraction, rows=rows, groups=groups, size=size)
    return max(composed, pure, key=lambda option: option.rate)

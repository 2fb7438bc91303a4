"""Prices quantiles: divides a block's budget between them and the noisy measures."""

from __future__ import annotations

from functools import partial

from dpsql.ir.measures import Quantile
from dpsql.ir.plan import BlockPlan, NoisyQuantile
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.noise import measured, with_units
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, exponential_quantile


def share_without_quantiles(block: Block) -> float:
    """Compute the part of a block's rho that is left to its measures and the choice of groups."""
    if not block.quantiles:
        return 1.0
    others = len(measured(block) if block.known_domain else with_units(block))
    return others / (others + len(block.quantiles))


def priced_quantiles(plan: BlockPlan, budget: QueryBudget) -> tuple[NoisyQuantile, ...]:
    """Return the block's quantiles, which share equally the part of ``budget`` for them."""
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
    part = 1 / len(block.quantiles)
    build = partial(
        exponential_quantile,
        fraction=quantile.fraction,
        rows=block.parameters.max_rows_contributed,
        groups=groups,
        size=quantile.ranked.points,
    )
    composed = build(PrivacyLoss(budget.held_back * part, gaussian=budget.gaussian))
    if not (budget.basic and budget.share == 0.0):
        return composed
    pure = build(PrivacyLoss(epsilon=budget.epsilon * part))
    return max(composed, pure, key=lambda option: option.rate)

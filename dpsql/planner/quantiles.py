"""The price of quantiles: what they leave to other things that noise is added to, and their own."""

from __future__ import annotations

from dpsql.measures import Measure, MeasureKind
from dpsql.mechanisms.quantiles import exponential_quantile
from dpsql.plan import BlockPlan, NoisyQuantile
from dpsql.planner.budget import Budget
from dpsql.query import Block

_UNITS = Measure(MeasureKind.UNITS)


def share_without_quantiles(block: Block) -> float:
    """The part of a block's rho that is left to its measures and to the choice of its groups."""
    if not block.quantiles:
        return 1.0
    chosen = not block.known_domain and _UNITS not in block.measures
    others = len(block.measures) + chosen
    return others / (others + len(block.quantiles))


def priced_quantiles(plan: BlockPlan, budget: Budget) -> tuple[NoisyQuantile, ...]:
    """The block's quantiles, which share equally what ``budget`` holds back for them."""
    block = plan.block
    if not block.quantiles:
        return ()
    groups = plan.groups if plan.groups is not None else plan.max_released
    assert groups is not None
    rho = budget.held_back / len(block.quantiles)
    rows = block.parameters.max_rows_contributed
    return tuple(
        NoisyQuantile(
            quantile,
            exponential_quantile(
                rho, quantile.fraction, rows=rows, groups=groups, size=quantile.ranked.points
            ),
        )
        for quantile in block.quantiles
    )

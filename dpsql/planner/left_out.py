"""Prices left-out estimates: the parts of a block's measures that bounding keeps and leaves out.

What can be told is decided by the plan: measures to which rows only add, of units that bounding
lets add to a known number of groups, each with undivided weight.
"""

from __future__ import annotations

from typing import Final

from dpsql.errors import ParameterError
from dpsql.ir.plan import BlockPlan, LeftOutPlan, LeftOutSubject
from dpsql.ir.query import Block
from dpsql.kinds.left_out import clamped_sums
from dpsql.kinds.registry import release_kind
from dpsql.planner.budget import QueryBudget
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.left_out import (
    PARTS_OF_UNITS,
    WHOLE_UNIT,
    LeftOutNoise,
    left_out_noise,
)

MOST_HIDDEN: Final = 10_000
"""How many units' full contributions the noise in what is kept may hide, at 95% confidence."""
MOST_ADDED: Final = 2**40
"""The largest bounded contribution of a unit, in steps, that is estimated."""


def told_subjects(plan: BlockPlan) -> dict[LeftOutSubject, int]:
    """Return the possible subjects of estimates, with a unit's most contribution to each.

    In steps of the measure's quantum. What bounding cannot cut is none of them: counts of units
    that may be in every group, and rows of units that have no more of them than count.
    """
    kind = release_kind(plan)
    groups = kind.groups_added
    if groups is None:
        return {}
    found: dict[LeftOutSubject, int] = {}
    for aggregate in plan.block.aggregates:
        subject = LeftOutSubject.of(plan, aggregate)
        if subject is None or not kind.cuts(subject):
            continue
        measure = subject.bounded_measure(plan)
        most = groups * measure.reach(plan.block.parameters.rows_limit)
        if measure.adds_up and 1 <= most <= MOST_ADDED:
            found[subject] = most
    return found


def clamped_subjects(plan: BlockPlan) -> list[LeftOutSubject]:
    """Return the sums whose values out of bounds can be estimated.

    Where an estimate is to take little time, only beside a cap on groups, which puts together what
    each unit has in any case.
    """
    capped = plan.bounding is not None and bool(plan.block.keys)
    groups = release_kind(plan).groups_added
    if groups is None or not (capped or plan.block.parameters.estimates_anywhere):
        return []
    return clamped_sums(plan)


def estimates_possible(block: Block, budget: QueryBudget) -> bool:
    """Tell whether a plan of the block can have left-out estimates at all.

    Where it is False, none can.
    """
    if block.parameters.left_out_share == 0.0 or budget.gaussian or block.cascades:
        return False
    if block.top_k is not None and block.top_k.unseen:
        return False
    simple = any(a.quantile is None and not a.kind.composed for a in block.aggregates)
    return simple and not block.quantiles


def priced_estimates(plan: BlockPlan, budget: QueryBudget, share: float) -> tuple[LeftOutPlan, ...]:
    """Return the estimates of a plan, which divide this share of the price equally.

    None where no noise in range is so cheap. Of the usual share none either where estimates would
    take long, or where their noise hides what ``MOST_HIDDEN`` units may add in full.
    """
    anywhere = plan.block.parameters.estimates_anywhere
    if not (release_kind(plan).shares_rows or anywhere):
        return ()
    told, clamped = told_subjects(plan), clamped_subjects(plan)
    if not told and not clamped:
        return ()
    price = budget.part_beside(share, number=len(told) + len(clamped))
    if price == ZERO:
        return ()
    try:
        missing = [
            LeftOutPlan(subject, left_out_noise(most, price)) for subject, most in told.items()
        ]
        outside = left_out_noise(WHOLE_UNIT, price, PARTS_OF_UNITS)
    except ParameterError:
        return ()
    estimates = (*missing, *(LeftOutPlan(subject, outside) for subject in clamped))
    return (
        estimates
        if anywhere
        else tuple(estimate for estimate in estimates if _says_something(estimate.noise))
    )


def _says_something(noise: LeftOutNoise) -> bool:
    """Tell whether an estimate's noise is small enough for data of a usual size."""
    return noise.kept_noise.margin(0.95, 1) * noise.coarsening <= MOST_HIDDEN * noise.most

"""Unknown keys without a number of groups per unit: a cascade of rounds that finds one.

Units are always weighed, as names depend on them. What is spent is shared equally between the
number of units, with the choice of groups, and each other measure, whose values are counted once
the groups have names. All figures are those before the pilots: a plan does not know what they say.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dpsql.ir.measures import MeasureKind
from dpsql.ir.plan import BlockPlan, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.planner.budget import SHARES, BudgetSplit, QueryBudget
from dpsql.planner.noise import UNITS, with_units
from dpsql.planner.option import Option, attempted, impossible
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import gaussian
from dpsql.privacy.mechanisms.cascade import (
    CAP_CHOICES,
    Cascade,
    CascadeGoal,
    after_pilot,
    spread_noise,
)
from dpsql.privacy.mechanisms.registry import ANY_GROUPS, CASCADES, Sizes
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS

_RANK_OF_KEYS = 0.0
"""The rank of rounds among set unions, whose figures are of units with many keys each.

Rounds, or votes where their pilot says so, name more than policies on all shapes of ``make union``.
"""

_WITHIN = 1 - 2.0**-40  # so that parts add up to no more than the whole
_HINT = "Set max_groups_contributed to a number: its one round can."


def cascade_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List the cascade, or the obstacle where it cannot answer the block."""
    if block.quantiles:
        return [impossible(Cascade.name, "auto cannot draw quantiles of its groups yet", _HINT)]
    if any(measure.kind is MeasureKind.DISTINCT for measure in block.measures):
        return [impossible(Cascade.name, "auto cannot count distinct values yet", _HINT)]
    option = attempted(Cascade.name, partial(_best, block, budget))
    if block.measures:
        return [option]
    # Where each row is a unit there is nothing to look at.
    return [replace(option, rank=math.inf if block.rows_are_units else _RANK_OF_KEYS)]


def _best(block: Block, budget: QueryBudget) -> Option:
    """Offer rounds by the account's composition; for one publication by their Gaussian DP."""
    if not budget.one_shot:
        return budget.tightest(partial(_option, block))
    once = None if block.measures else budget.loss
    rest = budget.epsilon if once is None else after_pilot(once).epsilon
    options = [
        attempted(Cascade.name, partial(_gaussian, block, budget, rest, share, once))
        for share in SHARES
    ]
    return min(options, key=lambda option: option.order)


def _gaussian(
    block: Block, budget: QueryBudget, epsilon: float, share: float, once: PrivacyLoss | None
) -> Option:
    """Offer rounds whose Gaussian DP is at most ``epsilon`` at a share of delta."""
    exact = QueryBudget(epsilon, budget.delta, Composition.GDP, delta_for_conversion=share)
    return _option(block, exact.halved(), once)


def _option(block: Block, split: BudgetSplit, once: PrivacyLoss | None = None) -> Option:
    rows = block.parameters.rows_limit
    measures = tuple(m.weighted(WEIGHT_STEPS, rows) for m in with_units(block))
    score = with_units(block).index(UNITS)
    whole = split.price(len(measures))
    price = replace(whole, rho=whole.rho * _WITHIN)
    cascade = replace(_built(block, price), once=once)
    used = [
        cascade.counting if i == score else gaussian(price, measure.sensitivity(rows), 1)
        for i, measure in enumerate(measures)
    ]
    for noise in filter(None, used):
        spread_noise(noise, CAP_CHOICES[-1])  # which must not fail once a question is paid for
    noisy = tuple(map(NoisyMeasure, measures, used))
    plan = BlockPlan(block, cascade, noisy, score, 1, None, split.conversion)
    needed = cascade.score_for_inclusion(0.5)
    assert needed is not None
    return Option(cascade.name, plan, needed / WEIGHT_STEPS, variant="by rounds")


def _built(block: Block, price: PrivacyLoss) -> Cascade:
    parameters = block.parameters
    most = ANY_GROUPS if parameters.groups_limit is None else parameters.groups_limit
    sizes = Sizes(groups=most, floor=parameters.min_units_per_group - 1)
    return CASCADES[_goal(block)].built(sizes, price)


def _goal(block: Block) -> CascadeGoal:
    if not block.measures:
        return CascadeGoal.KEYS
    return CascadeGoal.COUNTS if UNITS in block.measures else CascadeGoal.VALUES

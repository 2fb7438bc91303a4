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
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.noise import UNITS, with_units
from dpsql.planner.option import Option, attempted, impossible
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import gaussian
from dpsql.privacy.mechanisms.cascade import CAP_CHOICES, Cascade, CascadeGoal, spread_noise
from dpsql.privacy.mechanisms.registry import ANY_GROUPS, CASCADES, Sizes
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS

_WITHIN = 1 - 2.0**-40  # so that parts add up to no more than the whole
_HINT = "Set max_groups_contributed to a number: its one round can."


def cascade_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List the cascade, or the obstacle where it cannot answer the block."""
    if block.quantiles:
        return [impossible(Cascade.name, "auto cannot draw quantiles of its groups yet", _HINT)]
    if any(measure.kind is MeasureKind.DISTINCT for measure in block.measures):
        return [impossible(Cascade.name, "auto cannot count distinct values yet", _HINT)]
    option = attempted(Cascade.name, lambda: budget.tightest(partial(_option, block)))
    return [option if block.measures else replace(option, rank=_rank_of_keys(budget))]


def _rank_of_keys(budget: QueryBudget) -> float:
    """Rank rounds among set unions, whose figures are of units with many keys each.

    Rounds name more than policies, whose analysis is the same under zCDP: by 1 to 19% on the corpus
    of ``benchmarks/set_union.py``, for epsilon from 0.3 to 8. A single publication has an exact
    analysis of policies and none of rounds: there policies name as many or more.
    """
    return 0.0 if not budget.one_shot else math.inf


def _option(block: Block, split: BudgetSplit) -> Option:
    rows = block.parameters.rows_limit
    measures = tuple(m.weighted(WEIGHT_STEPS, rows) for m in with_units(block))
    score = with_units(block).index(UNITS)
    whole = split.price(len(measures))
    price = replace(whole, rho=whole.rho * _WITHIN)
    cascade = _built(block, price)
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

"""Unknown keys without aggregates: which of them exist.

Counting units answers that too, so positive counts (the set union with weight 1 for each
item) are candidates here as everywhere; what is added are set unions whose weights are bounded
together. All are compared by the units a key needs if each unit has ``max_groups_contributed``
keys. That figure is exact where weights are fixed. For a policy it rests on an estimate
(``SetUnion.share``), by which it comes out ahead of the other two wherever units may have
several keys, as it does when measured.
"""

from __future__ import annotations

from functools import partial

from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.ir.query import Block
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.option import Option, attempted, impossible
from dpsql.privacy.mechanisms.registry import SET_UNIONS, MechanismEntry, Sizes
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting

_AUTOMATIC = 100  # groups of a unit where none are given: more, or half of it, hardly names fewer
_PLANNED = tuple(entry for entry in SET_UNIONS if entry.planned)


def set_union_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List policies and fixed shares, each with Gaussian and with Laplace noise."""
    parameters = block.parameters
    cap = parameters.groups_limit
    if parameters.automatic:
        cap = min(_AUTOMATIC, _AUTOMATIC if cap is None else cap)
    if cap is None:
        return _all_impossible(
            "max_groups_contributed is unlimited, which only a top-k query can bear",
            "Set max_groups_contributed to a number.",
        )
    if cap == 1:
        return _all_impossible(
            "with one group per unit it is the same as positive counts", "Ask for those."
        )
    if parameters.min_units_per_group > 1:
        # A unit may carry a key over the minimum, and with it the weight that others gave it.
        return _all_impossible(
            "with min_units_per_group above 1 only unit counts can name groups",
            "Ask for positive counts.",
        )
    return [
        attempted(entry.name, partial(_option, block, budget, cap, entry)) for entry in _PLANNED
    ]


def _option(block: Block, budget: QueryBudget, cap: int, entry: MechanismEntry[SetUnion]) -> Option:
    """Offer a set union by the account's composition. Raises ``ParameterError`` if none fits."""
    sizes = Sizes(groups=cap)

    def composed(split: BudgetSplit) -> Option:
        union = entry.built(sizes, split.price())
        return _planned(block, cap, union, split.conversion)

    if not budget.one_shot:
        return budget.tightest(composed)
    union = entry.built(sizes, budget.loss)
    return _planned(block, cap, union, 0.0)


def _planned(block: Block, cap: int, union: SetUnion, conversion: float) -> Option:
    plan = BlockPlan(block, union, (), None, cap, Bounding.sample(cap), conversion)
    needed = union.score_for_inclusion(0.5)
    assert needed is not None
    estimated = "estimated" if union.weighting is Weighting.POLICY else ""
    return Option(union.name, plan, needed, variant=estimated)


def _all_impossible(obstacle: str, hint: str = "") -> list[Option]:
    return [impossible(entry.name, obstacle, hint) for entry in _PLANNED]

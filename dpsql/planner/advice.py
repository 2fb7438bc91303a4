"""Advice on settings that would have made an empty or noisy answer say more.

All of it follows from the statement, the policy, the plan, and from what came out: other plans of
the same block are made, without data, and their thresholds and margins are compared. That a group
came out or not is released, and so is a value smaller than its own noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dpsql.accuracy.wording import score_unit
from dpsql.core.formatting import DEFAULT_CONFIDENCE, figure_above, ordinal, printable, significant
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block
from dpsql.kinds.registry import release_kind
from dpsql.planner.max_error import Replan, with_epsilon
from dpsql.policy.parameters import Parameters

_WORTH_SAYING: Final = 0.8  # of what it is: anything less of an improvement is not told
_MORE: Final = 2.0  # times the epsilon
_BOTH: Final = "both"  # of the bounds named before


@dataclass(frozen=True, slots=True)
class CameOut:
    """The outcome of a block: its number of groups, and an aggregate drowned in noise.

    ``drowned`` is the index of an aggregate whose values are all within their margin of zero, None
    if there is none.
    """

    plan: BlockPlan
    released: int
    drowned: int | None = None


def advice(outcomes: Sequence[CameOut], replan: Replan, most: float) -> str:
    """Word the changes that would make an empty or noisy answer say something; empty if none.

    ``replan`` plans a block within its epsilon, which may be ``most`` at most.
    """
    told = (sentence for one in outcomes for sentence in _of_block(one, replan, most))
    return " ".join(dict.fromkeys(told))


def _of_block(outcome: CameOut, replan: Replan, most: float) -> Iterator[str]:
    plan = outcome.plan
    if plan.block.keys and outcome.released == 0 and not plan.answers_all:
        yield from _empty(plan, replan, most)
    elif outcome.drowned is not None:
        yield from _drowned(plan, outcome.drowned, replan, most)


def _empty(plan: BlockPlan, replan: Replan, most: float) -> Iterator[str]:
    here = _half(plan)
    if here is None:
        return
    halves = ((how, _half(other)) for how, other in _others(plan, replan, most))
    better = [
        f"about {figure_above(half)} with {how}"
        for how, half in _lower(((how, half) for how, half in halves if half is not None), here)
    ]
    instead = f" It would need {' or '.join(better)}." if better else ""
    above = "" if plan.base_rank is None else f" above the {ordinal(plan.base_rank)} largest"
    yield (
        f"No group was large enough to appear, which takes about {figure_above(here)} "
        f"{score_unit(plan)}{above}.{instead} Coarser keys make larger groups."
    )


def _drowned(plan: BlockPlan, index: int, replan: Replan, most: float) -> Iterator[str]:
    aggregate = plan.block.aggregates[index]
    better, here = [], _margin(plan, index)
    if here is not None:
        others = ((how, _margin(other, index)) for how, other in _others(plan, replan, most))
        margins = ((how, margin) for how, margin in others if margin is not None)
        better = [f"± {figure_above(margin)} with {how}" for how, margin in _lower(margins, here)]
    instead = (
        f"It would be within {' or '.join(better)}."
        if better
        else "A larger epsilon, closer bounds or larger groups make it less."
    )
    yield f"No value of {printable(aggregate.text)} is larger than its noise. {instead}"


def _half(plan: BlockPlan) -> float | None:
    return release_kind(plan).appears_half()


def _margin(plan: BlockPlan, index: int) -> float | None:
    return release_kind(plan).widest_margin(index, DEFAULT_CONFIDENCE)


def _lower(values: Iterable[tuple[str, float]], here: float) -> list[tuple[str, float]]:
    """Choose what is worth saying: both bounds only where each helps, and the two help more."""
    found: list[tuple[str, float]] = []
    for how, value in values:
        bar = min((one for _, one in found), default=here) if how == _BOTH else here
        if value <= _WORTH_SAYING * bar and (how != _BOTH or len(found) == 2):
            found.append((how, value))
    return found


def _others(plan: BlockPlan, replan: Replan, most: float) -> Iterator[tuple[str, BlockPlan]]:
    """Yield other ways to ask for the same, each with its plan."""
    block = plan.block
    for how, other in (*_less_of_a_unit(plan), *_more_epsilon(block, most)):
        try:
            yield how, replan(other)
        except (ParameterError, QueryRefused):
            continue


def _less_of_a_unit(plan: BlockPlan) -> Iterator[tuple[str, Block]]:
    """Yield the block with a bound of one group, of one row, and with both."""
    parameters = plan.block.parameters
    groups = None if plan.bounding is None else plan.bounding.groups
    fewer: list[tuple[str, Parameters]] = []
    if groups is not None and groups > 1:
        fewer.append(("max_groups_contributed = 1", replace(parameters, max_groups_contributed=1)))
    if parameters.rows_limit > 1:
        fewer.append(("max_rows_contributed = 1", replace(parameters, max_rows_contributed=1)))
    if len(fewer) > 1:
        both = replace(parameters, max_groups_contributed=1, max_rows_contributed=1)
        fewer.append((_BOTH, both))
    for how, one in fewer:
        yield how, replace(plan.block, parameters=one)


def _more_epsilon(block: Block, most: float) -> Iterator[tuple[str, Block]]:
    epsilon = min(most, _MORE * block.parameters.epsilon)
    if epsilon > block.parameters.epsilon and block.parameters.max_error is None:
        yield f"epsilon = {significant(epsilon)}", with_epsilon(block, epsilon)

"""The groups that appear in an answer, and their sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpsql.ir.plan import BlockPlan

_HALF, _SURELY = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where the threshold on a score lies, in the units of the answer.

    Without ``base_rank`` a group appears if its noisy score exceeds ``value``. With it the
    threshold is noisy as well, and lies around a distance from the group of that rank by size.
    How large that group is stays private, so ``value`` is where the threshold is at least.
    """

    value: float
    base_rank: int | None


@dataclass(frozen=True, slots=True)
class Appearance:
    """Sizes of groups, in the units of the answer, and how often they appear.

    A group of size ``half`` appears at least half the time, one of ``surely`` at least 95% of the
    time, one of ``rarely`` at most 5%. For a top-k they count from the base, and say how often a
    group clears the threshold; which of those come out is then limited to k.
    """

    half: float
    surely: float
    rarely: float


def appearance(
    plan: BlockPlan,
    score_for: Callable[[float], float | None] | None = None,
    *,
    above: bool = False,
) -> Appearance | None:
    """Tell which groups appear how often, or None if the data do not decide.

    Sizes of whole units and sums of integers are whole. ``score_for`` tells which score is released
    with a probability, where it is not the selection; ``above`` if a score must be more than that.
    """
    if plan.answers_all:
        return large_enough(plan)
    score_for = score_for or plan.selection.score_for_inclusion
    half, surely = score_for(_HALF), score_for(_SURELY)
    if half is None or surely is None:
        return None
    step, whole = _step(plan), plan.score is None or plan.measures[plan.score].measure.integral
    # A score on the threshold itself appears less often than half the time, the next one more.
    most = math.floor(surely) + 1 if above else math.ceil(surely)
    sizes = (math.floor(half) + 1, most, math.floor(2 * half - surely))
    up, down = (math.ceil, math.floor) if whole else (float, float)
    return Appearance(up(sizes[0] * step), up(sizes[1] * step), down(sizes[2] * step))


def large_enough(plan: BlockPlan) -> Appearance | None:
    """Tell how many units a declared group needs not to be left out, or None if none is."""
    least, surely = plan.units_needed(_HALF), plan.units_needed(_SURELY)
    if least is None or surely is None:
        return None
    return Appearance(least, math.ceil(surely), math.ceil(2 * least - surely) - 1)


def threshold(plan: BlockPlan, aggregate: int) -> Threshold | None:
    """Find the threshold on an aggregate, or None where another value decides, or nothing."""
    fixed, least = plan.selection.threshold, plan.units_needed(_HALF)
    if least is not None and plan.block.aggregates[aggregate].measures == (plan.units_measure,):
        return Threshold(least - 1, None)
    decides = plan.block.aggregates[aggregate].measures == (plan.score,)
    if not decides or fixed is None:
        return None
    least = fixed * _step(plan)
    if plan.base_rank is not None:
        least += plan.block.parameters.min_units_per_group - 1
    return Threshold(least, plan.base_rank)


def _step(plan: BlockPlan) -> float:
    return 1.0 if plan.score is None else plan.measures[plan.score].measure.step

"""How sure a sum of a release's groups is, by the law of the sum of the noise that is on them."""

from __future__ import annotations

from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import AddedUp, BlockPlan
from dpsql.privacy.mechanisms.summation import summed_margin, summed_std


def added_error(
    plan: BlockPlan, added: AddedUp, aggregate: Aggregate, index: int, confidence: float
) -> float:
    """Bound the error of a measure that was added up, in the answer's units.

    It holds with this confidence. Rounding goes on top, at its worst in each group: of exact sums
    to the steps of a coarse lattice, and of noise in parts of a step to whole numbers.
    """
    noise, measure = added.noises[index], plan.measures[index].measure
    margin = summed_margin(noise, added.groups, float(1 - confidence))
    if measure.lattice is not None and measure.lattice.coarsening > 1:
        margin += added.groups
    if plan.is_whole(aggregate) and noise.fractional:
        margin += 0.5 * added.groups
    return float(margin * measure.step)


def added_scale(plan: BlockPlan, added: AddedUp, index: int) -> float:
    """Compute the standard deviation of a measure that was added up, in the answer's units."""
    return summed_std(added.noises[index], added.groups) * plan.measures[index].measure.step

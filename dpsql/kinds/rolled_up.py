"""How sure a sum of a release's groups is, by the law of the sum of the noise that is on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.estimates import FloatArray
from dpsql.accuracy.intervals import risked_confidence
from dpsql.accuracy.wording import Part, printable_name
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import AddedUp, BlockPlan
from dpsql.kinds.groups import GroupsKind
from dpsql.privacy.mechanisms.summation import summed_margin, summed_std


class RolledUpKind(GroupsKind):
    """Declared groups whose values are sums of groups of an earlier release."""

    drawn = False

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether values were added up."""
        return plan.added is not None

    def margin(
        self, plan: BlockPlan, released: int, aggregate: Aggregate, index: int, confidence: float
    ) -> float:
        """Compute half the interval's width of a sum of its groups."""
        assert plan.added is not None
        confidence = risked_confidence(plan, released, index, confidence)
        return added_error(plan, plan.added, aggregate, index, confidence)

    def scales(self, plan: BlockPlan, index: int, columns: Sequence[FloatArray]) -> FloatArray:
        """Compute the standard deviation of a sum of its groups."""
        assert plan.added is not None
        (measure,) = plan.block.aggregates[index].measures
        return np.full_like(columns[0], added_scale(plan, plan.added, measure))

    def chosen(
        self, plan: BlockPlan, released: int, index: int, confidence: float
    ) -> ChosenNoise | None:
        """Return None: what LIMIT does to sums of noise is allowed for."""
        return None

    def origin(self, part: Part) -> Iterator[str]:
        """Yield of which release values are sums, and of what that is true."""
        yield f"Values are {sum_words(part.plan)}."

    def added(self, plan: BlockPlan) -> AddedUp | None:
        """Return the release that values were added up from."""
        return plan.added


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


def sum_words(plan: BlockPlan) -> str:
    """Say of which release a plan's values are sums, and what that left out.

    Empty for values of their own.
    """
    added = plan.added
    if added is None:
        return ""
    keys = ", ".join(map(printable_name, added.keys))
    whose = f"those of the release by {keys} of {added.settled[:10]}"
    if added.groups > 1:
        whose = f"sums of {added.groups:,} groups of the release by {keys} of {added.settled[:10]}"
    kept = ""
    if added.kept is not None:
        kept = f"at most {added.kept:,} group{'s' * (added.kept > 1)} and "
    rows = plan.block.parameters.max_rows_contributed
    text = f"{whose}, bounded as it was: of each unit {kept}at most {rows:,} rows in each of its"
    text += " groups"
    if added.over:
        over = " or ".join(map(printable_name, added.over))
        text += f"; rows whose {over} has no declared value are not in them"
    return text

"""Roll-ups: sums of groups of an earlier release, with intervals by the law of their noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpsql.accuracy.wording import Part, printable_name
from dpsql.core.formatting import several
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure, RolledUp
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.released import NumericArray, ReleasedRows, answer_of_parts
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.registry import KNOWN_DOMAIN, Sizes
from dpsql.privacy.mechanisms.summation import summed_margin, summed_std


class RolledUpKind(GroupsKind):
    """Declared groups whose values are sums of groups of an earlier release."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether the values of a plan are a roll-up."""
        return isinstance(plan.kept, RolledUp)

    @classmethod
    def of(cls, plan: BlockPlan, rolled_up: RolledUp) -> RolledUpKind:
        """Make a plan that of a roll-up: all declared groups, with the noise of their sums."""
        size = plan.block.domain_size
        measures = zip(plan.block.measures, rolled_up.noises, strict=True)
        plan = replace(
            plan,
            selection=KNOWN_DOMAIN.built(Sizes(domain=size), ZERO),
            measures=tuple(NoisyMeasure(measure, noise.noise) for measure, noise in measures),
            score=None,
            groups=size,
            bounding=None if rolled_up.kept is None else Bounding.sample(rolled_up.kept),
            candidates=(),
            estimates=(),
            kept=rolled_up,
        )
        return cls(plan)

    def rows(self, totals: Sequence[NumericArray]) -> ReleasedRows:
        """Compute the answer from the totals of measures, in the units of the answer."""
        found: dict[str, NumericArray] = {}
        with np.errstate(all="ignore"):
            for index, aggregate in enumerate(self.plan.block.aggregates):
                found |= answer_of_parts(self.plan, index, [totals[m] for m in aggregate.measures])
            values = self.with_noise_columns(found)
        ids = np.arange(self.plan.block.domain_size, dtype=np.int64)
        return ReleasedRows(ids, None, values, ZERO)

    @property
    def rolled_up(self) -> RolledUp:
        """The release whose groups were summed."""
        assert isinstance(self.plan.kept, RolledUp)
        return self.plan.kept

    def large_gaussian(self, aggregate: Aggregate, way: int) -> bool:
        """Tell that measures have noise of several releases, each taken by itself."""
        return False

    def reach(self, released: int, index: int, whole: bool, confidence: float, way: int) -> float:
        """Bound how far noise and rounding move a sum of groups.

        Rounding goes on top, at its worst in each group: of exact sums to the steps of a coarse
        lattice, and of noise in parts of a step to whole numbers.
        """
        noise, groups = self.rolled_up.noises[index], self.rolled_up.groups
        measure = self.plan.measures[index].measure
        margin = summed_margin(noise, groups, float(1 - confidence))
        if measure.lattice is not None and measure.lattice.coarsening > 1:
            margin += groups
        if whole and noise.fractional:
            margin += 0.5 * groups
        return float(margin * measure.step)

    def scale(self, measure: int, way: int) -> float:
        """Compute the standard deviation of a sum of groups, in steps."""
        return summed_std(self.rolled_up.noises[measure], self.rolled_up.groups)

    def of_values(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield the release whose groups were summed, and the rows left out of the sums."""
        yield f"Values are {self.sums}."

    @property
    def sums(self) -> str:
        """The release whose groups were summed, and the rows left out of the sums, in words."""
        rolled_up = self.rolled_up
        keys = ", ".join(map(printable_name, rolled_up.keys))
        release = f"the release by {keys} of {rolled_up.settled[:10]}"
        groups = f"sums of {rolled_up.groups:,} groups" if rolled_up.groups > 1 else "those"
        kept = ""
        if rolled_up.kept is not None:
            kept = f"at most {several(rolled_up.kept, 'group')} and "
        rows = self.plan.block.parameters.rows_limit
        text = (
            f"{groups} of {release}, bounded as it was: of each unit {kept}at most "
            f"{several(rows, 'row')} in each of its groups"
        )
        if rolled_up.over:
            over = " or ".join(map(printable_name, rolled_up.over))
            text += f"; rows whose {over} has no declared value are not in them"
        return text

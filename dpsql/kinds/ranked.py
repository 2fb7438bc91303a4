"""Ranked groups: the largest by a count or a sum, as many as LIMIT asks for, chosen privately.

What the mechanism needs is that the score of the last group that is read bounds those of all
others. So the statement returns the ``k_bar`` + 1 largest groups in a total order, where it is not
known which there are; of declared ones it returns all.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.accuracy.appearance import large_enough
from dpsql.accuracy.wording import UNBOUNDED, Part, rows_per_group, score_unit
from dpsql.core.formatting import figure_above, ordinal, several
from dpsql.core.sql import Sql, join, sql
from dpsql.ir.plan import BlockPlan, ColumnFigure, ReleaseNoise
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.quantiles import QuantilesKind
from dpsql.sql.rewrite.rows import PrivateRows


class RankedKind(GroupsKind):
    """Groups that are named by their rank."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a group's chance to appear depends on the scores of others."""
        return plan.base_rank is not None

    @property
    def base_rank(self) -> int:
        """The rank of the group that scores are measured from."""
        assert self.plan.base_rank is not None
        return self.plan.base_rank

    def numbered(self, rows: PrivateRows, groups: Sql) -> Sql:
        """Number the largest groups, in the order of their scores; of declared ones all."""
        largest = self.plan.selection.top_rows_needed
        if largest is not None:
            assert self.plan.score is not None
            score = rows.dialect.descending(rows.measures[self.plan.score])
            terms = [score, *rows.ascending(rows.keys)]
            ordered = sql("{} ORDER BY {}", groups, join(", ", terms))
            groups = rows.dialect.limited(ordered, largest)
        return super().numbered(rows, groups)

    @property
    def read_at_once(self) -> bool:
        """True: the statement returns some groups, or all declared ones."""
        return True

    @property
    def most_released(self) -> int | None:
        """The most groups that can come out: ``k_bar`` where scores are released with them."""
        selection = self.plan.selection
        if selection.score_noise is not None and selection.top_rows_needed is not None:
            return selection.top_rows_needed - 1
        return self.plan.max_released

    def appearing(self, part: Part) -> Iterator[str]:
        """Yield how far above the first group that cannot come out others appear."""
        plan, found, large = self.plan, self.appearance(), large_enough(self.plan)
        if found is None:
            return
        half, surely = figure_above(found.half), figure_above(found.surely)
        above = f"if it is {half} {score_unit(plan)} above the {ordinal(self.base_rank)} largest"
        if plan.declared:
            names = "picks" if large is not None else "always names"
            yield (
                f"It {names} {self.base_rank - 1:,} of the {plan.selection.declared:,} "
                f"{plan.block.known_word} groups. One is among them at least half the time "
                f"{above}, and at least 95% of the time at {surely}{self._if_bounded}."
            )
            if large is not None:
                yield self.small_left_out(part, large)
            return
        assert plan.block.top_k is not None
        limit, floor = plan.block.top_k.limit, plan.block.parameters.min_units_per_group - 1
        yield (
            f"At most {several(limit, 'group')} come{'s' * (limit == 1)} out. One clears "
            f"the threshold at least half the time {above} (above {floor:,} if there are not so "
            f"many), and at least 95% of the time at {surely}{self._if_bounded}."
        )

    @property
    def _if_bounded(self) -> str:
        """The words "after bounding" where bounding may make a group smaller than in the table."""
        plan = self.plan
        whole = plan.bounding is None and plan.measures[plan.score or 0].measure.kind in UNBOUNDED
        return "" if whole else " (after bounding)"

    def large_groups(self, half: float) -> str:
        """Name the groups that appear at least half the time."""
        if large_enough(self.plan) is not None:
            return super().large_groups(half)
        return "that clear the threshold at least half the time"

    @property
    def bounding(self) -> str:
        """In how many groups a unit counts, and how much in each: in any number without a cap."""
        if self.plan.bounding is not None:
            return super().bounding
        return f"a unit may touch any number of groups, {rows_per_group(self.plan)}"

    def figure(self, index: int) -> ColumnFigure:
        """Describe the noise on a score, unless it is none of the answer."""
        if not self.plan.names_alone:
            return super().figure(index)
        text = self.plan.block.aggregates[index].text
        return ColumnFigure(text, "none: names alone, in order", 0.0, None, None)

    def widest_margin(self, index: int, confidence: float) -> float | None:
        """Return None for a score that is none of the answer."""
        return None if self.plan.names_alone else super().widest_margin(index, confidence)

    def published(self, released: int, *, alone: bool) -> ReleaseNoise | None:
        """Return None: whether a group comes out depends on the scores of others."""
        return None


class RankedQuantilesKind(QuantilesKind, RankedKind):
    """Groups that are named by their rank, with quantiles."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a plan is of both kinds."""
        return QuantilesKind.fits(plan) and RankedKind.fits(plan)

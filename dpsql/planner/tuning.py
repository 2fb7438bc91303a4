"""The settings of bounds that tuning tries for a question, and estimates to compare them.

An estimate tells of the settings that it was planned with. Of some measures one estimate tells of
all: where what a unit has is a whole number of things, of which a cap keeps so many, the ladder of
what is beyond the first says how many units have more than any cap (:func:`told_by_one_estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dpsql.ir.measures import AggregateKind, MeasureKind
from dpsql.ir.plan import BlockPlan, LeftOutPlan, LeftOutSubject
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.left_out import told_subjects
from dpsql.privacy.mechanisms.left_out import (
    PARTS_OF_UNITS,
    WHOLE_UNIT,
    Ladder,
    left_out_noise,
)

RUNG_CAPS: Final = (1, 2, 3, 5, 9, 17, 33)
"""Caps that one estimate tells of all at once, as each is 1 above a rung; more cost nothing."""
ESTIMATED_CAPS: Final = (1, 3, 9, 33)
"""Caps that are tried where each takes an estimate of its own."""
ROWS_BESIDE: Final = (1, 10, 100)
"""Times the question's own number of rows that are tried, with each cap on groups."""
LARGE_RUNG_CAPS: Final = (65, 129, 257, 513, 1025)
"""Numbers of rows in all that are tried beyond ``RUNG_CAPS``: units have more rows than groups."""


@dataclass(frozen=True, slots=True)
class CandidateSetting:
    """How a question may bound what a unit contributes.

    ``bounds`` are those of the values that are summed; None leaves them as the question has them.
    """

    groups: int
    rows: int
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TuningEstimate:
    """A left-out estimate for tuning, with the plan that it belongs to.

    ``aggregate``, by index, and ``setting`` are what it tells of; ``setting`` is None where that is
    all of them.
    """

    aggregate: int
    plan: BlockPlan
    subject: LeftOutSubject
    setting: CandidateSetting | None
    most: int
    ladder: Ladder | None

    def priced(self, budget: QueryBudget, share: float, estimates: int) -> LeftOutPlan:
        """Return the look for its part of ``share`` of a budget that so many looks divide.

        Raises ``ParameterError`` where no noise in range is so cheap.
        """
        price = budget.part_beside(share, number=estimates)
        return LeftOutPlan(self.subject, left_out_noise(self.most, price, self.ladder))


def tunable_aggregates(block: Block) -> tuple[int, ...]:
    """List the aggregates, by index, that left-out estimates exist for: counts and sums."""
    return tuple(
        index
        for index, aggregate in enumerate(block.aggregates)
        if aggregate.quantile is None
        and not aggregate.kind.composed
        and block.measures[aggregate.measures[0]].adds_up
    )


def told_by_one_estimate(block: Block, aggregate: int) -> bool:
    """Tell whether a single estimate of an aggregate covers all caps.

    Of units in groups, that is caps on these; of rows without groups, caps on rows.
    """
    asked = block.aggregates[aggregate]
    counted = block.measures[asked.measures[0]]
    rows = asked.kind is AggregateKind.COUNT  # a number of units too, where each has one row
    if block.keys:
        return counted.kind is MeasureKind.UNITS and not rows
    return rows and counted.kind is not MeasureKind.DISTINCT and counted.per_group is None


def summed_aggregates(block: Block) -> tuple[int, ...]:
    """List the sums, by index, whose values' bounds can be varied."""
    return tuple(
        index
        for index, aggregate in enumerate(block.aggregates)
        if aggregate.kind is AggregateKind.SUM
        and block.measures[aggregate.measures[0]].per_group is None
    )


def usual_groups(block: Block, asked: int | None, most: int | None) -> tuple[int, ...]:
    """List the caps on groups that are tried where none are given.

    ``asked`` is the question's own, ``most`` the policy's maximum.
    """
    if not block.keys:
        return (asked or 1,)
    found = {*_told_caps(block), *([] if asked is None else [asked])}
    if block.known_domain:
        most = min(block.domain_size, most or block.domain_size)
    return _within(most, found)


def usual_rows(block: Block, asked: int, most: int | None) -> tuple[int, ...]:
    """List the caps on rows that are tried where none are given, as :func:`usual_groups` does.

    With groups they are multiples of the question's own, if rows are counted at all.
    """
    caps = _told_caps(block)
    if not block.keys:
        return _within(most, {*caps, asked, *(LARGE_RUNG_CAPS if caps is RUNG_CAPS else ())})
    return _within(most, {asked * times for times in ROWS_BESIDE[: 1 if caps is RUNG_CAPS else 3]})


def _told_caps(block: Block) -> tuple[int, ...]:
    """List the usual caps: many if one estimate tells of all of them, few if each takes its own."""
    at_once = all(told_by_one_estimate(block, index) for index in tunable_aggregates(block))
    return RUNG_CAPS if at_once else ESTIMATED_CAPS


def _within(most: int | None, caps: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(cap for cap in caps if most is None or cap <= most))


def cap_of(block: Block, setting: CandidateSetting) -> int:
    """Return the cap that an estimate varies: on groups where there are keys, else on rows."""
    return setting.groups if block.keys else setting.rows


def cap_estimates(
    settings: Iterable[CandidateSetting],
    plans: Iterable[BlockPlan],
    narrowest: BlockPlan,
) -> tuple[TuningEstimate, ...]:
    """List the estimates that compare caps, each with its plan.

    ``narrowest`` is planned with a cap of 1. Measures that a cap cannot leave anything out of have
    no estimate.
    """
    tried = list(zip(settings, plans, strict=True))
    caps = [cap_of(narrowest.block, setting) for setting, _ in tried]
    ladder = Ladder.of_caps(max(caps, default=1))
    found: list[TuningEstimate] = []
    for index in tunable_aggregates(narrowest.block):
        if told_by_one_estimate(narrowest.block, index):
            subject, most = _told(narrowest, index)
            if most is not None:
                found.append(TuningEstimate(index, narrowest, subject, None, most, ladder))
            continue
        for setting, plan in tried:
            subject, most = _told(plan, index)
            if most is not None:
                found.append(TuningEstimate(index, plan, subject, setting, most, None))
    return tuple(found)


def _told(plan: BlockPlan, aggregate: int) -> tuple[LeftOutSubject, int | None]:
    """Return an aggregate's subject of an estimate, and a unit's most contribution, if any."""
    subject = LeftOutSubject.of(plan, plan.block.aggregates[aggregate])
    assert subject is not None
    return subject, told_subjects(plan).get(subject)


def bound_estimates(
    settings: Iterable[CandidateSetting], plans: Iterable[BlockPlan], aggregate: int
) -> tuple[TuningEstimate, ...]:
    """List the estimates of the part of a sum's values outside of bounds."""
    found = []
    for setting, plan in zip(settings, plans, strict=True):
        subject = LeftOutSubject(plan.block.aggregates[aggregate].measures[0], clamped=True)
        found.append(TuningEstimate(aggregate, plan, subject, setting, WHOLE_UNIT, PARTS_OF_UNITS))
    return tuple(found)

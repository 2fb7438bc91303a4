"""The sentences below an answer: how far noise moves its values, and how groups appear.

All is computed from plans, and from how many groups and rows came out, which everybody sees: it is
post-processing, and says nothing about the data that the answer does not. "At least" is meant: what
is stated holds for all data within the bounds, by the exact tails of the noise that is drawn.

A value whose own noise decided whether its group appears was *selected*: groups near the threshold
come out when their noise is large. Its interval still covers with the stated probability, given
that the group appears, for every group that appears at least half the time. Let a group appear if
D > a, D being the noise of the comparison and a < 0, and let g(d) be the chance that the interval
fails given D = d. D is symmetric, and g is even and grows with the size of d. So g is at least as
large on average where D <= a as it is everywhere, and at most as large where D > a. Groups below
that tend to be counted too high. Checked by ``tests/accuracy/test_wording.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsql.core.formatting import printable, several
from dpsql.ir.measures import MeasureKind
from dpsql.ir.plan import BlockPlan

UNBOUNDED = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS)
"""Measures of which bounding rows leaves nothing out."""


@dataclass(frozen=True, slots=True)
class ShownAggregate:
    """A column of an answer that shows an aggregate, given by its index, as it was released."""

    aggregate: int
    name: str


@dataclass(frozen=True, slots=True)
class ShownTerm:
    """A column of an answer that is computed from aggregates, given by their indices."""

    aggregates: tuple[int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """A private block of an answer of ``rows`` rows.

    ``released`` is how many groups came out of it. ``shown`` and ``computed`` are empty where the
    query above the aggregates is too involved to tell what became of them. ``uniform`` is False
    where values are pooled from several releases, and not all groups came out of all of them.
    """

    plan: BlockPlan
    released: int
    shown: tuple[ShownAggregate, ...]
    rows: int
    uniform: bool = True
    computed: tuple[ShownTerm, ...] = ()

    @property
    def told(self) -> bool:
        """True if columns of the answer are known to have intervals."""
        return bool(self.shown or self.computed)


def score_unit(plan: BlockPlan) -> str:
    """Name what a group's size is measured in."""
    kind = MeasureKind.UNITS if plan.score is None else plan.measures[plan.score].measure.kind
    if kind is MeasureKind.UNITS:
        return unit_words(plan)
    if kind is MeasureKind.ROWS:
        return "rows"
    (text, *_) = [a.text for a in plan.block.aggregates if a.measures == (plan.score,)]
    return f"in {printable_name(text)}"


def unit_words(plan: BlockPlan) -> str:
    """Name units, whole ones where they are weighed."""
    weighed = plan.bounding is not None and plan.bounding.weighted
    return f"{'whole ' * weighed}units ({printable_name(plan.block.unit_name)})"


def rows_per_group(plan: BlockPlan) -> str:
    """Word the bound on a unit's rows in a group, for aggregates without bounds of their own."""
    most = plan.block.parameters.rows_limit
    distinct = any(m.measure.kind is MeasureKind.DISTINCT for m in plan.measures)
    values = several(most, "row")
    if distinct:
        values += f" and {several(most, 'distinct value')}"
    return f"at most {values} per unit and group"


def groups_chosen(plan: BlockPlan) -> Iterator[str]:
    """Say in how many groups a unit counts where nobody gave a number."""
    if plan.block.groups_chosen:
        yield f"max_groups_contributed is {plan.block.groups_chosen}."


def printable_name(text: str) -> str:
    """Name a column or an expression, safe for a terminal."""
    return printable(text, 40)


def enumerated(names: Sequence[str]) -> str:
    """List names in a row, with "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

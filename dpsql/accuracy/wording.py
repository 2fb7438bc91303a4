"""What an answer says in plain words: how far noise moves its values, and which groups appear.

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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.accuracy.appearance import (
    Appearance,
    appearance,
    appearance_if_brief,
    large_enough,
)
from dpsql.accuracy.combination import combined_half, deciding_measure, every_release
from dpsql.accuracy.intervals import chosen_noise, interval_of
from dpsql.core.formatting import figure_above as _up
from dpsql.core.formatting import level, ordinal, printable
from dpsql.ir.measures import MeasureKind, Quantile
from dpsql.ir.plan import BlockPlan

MAX_SUMMARISED_PARTS = 4
COUNTED = (
    "The outer query counts or sums the groups that came out. Those too small to appear are "
    "missing from what it says."
)
_UNBOUNDED = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS)


@dataclass(frozen=True, slots=True)
class ShownAggregate:
    """A column of an answer that shows an aggregate, given by its index, as it was released."""

    aggregate: int
    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """A private block of an answer of ``rows`` rows.

    ``released`` is how many groups came out of it. ``shown`` is empty where the query above the
    aggregates is too involved to tell what became of them. ``uniform`` is False where values are
    put together from several releases, and not all groups came out of all of them.
    """

    plan: BlockPlan
    released: int
    shown: tuple[ShownAggregate, ...]
    rows: int
    uniform: bool = True

    def varies(self, aggregate: int, confidence: float) -> bool:
        """Tell whether each row has an interval of an aggregate of a width of its own."""
        if self.plan.block.cascades or not self.uniform:
            return True
        measures = self.plan.block.aggregates[aggregate].measures
        return len(measures) == 1 and (
            chosen_noise(self.plan, self.released, measures[0], confidence) is not None
        )


def summary(parts: Sequence[Part], confidence: float = 0.95, stored: bool = False) -> str:
    """Write one or two sentences for each private block, on a line of their own.

    ``stored`` is True for an answer that was paid for before.
    """
    several = len(parts) > 1
    lines = [
        (f"{_heading(part)}: " if several else "") + " ".join(_sentences(part, confidence))
        for part in parts[:MAX_SUMMARISED_PARTS]
    ]
    if len(parts) > MAX_SUMMARISED_PARTS:
        lines.append(f"… and {len(parts) - MAX_SUMMARISED_PARTS} more parts.")
    if any(part.plan.added is not None for part in parts):
        lines.insert(0, "This answer follows from what was released before; it cost nothing.")
    elif stored:
        lines.insert(0, "This answer was given before; it cost nothing again.")
    return "\n".join(line for line in lines if line)


def _heading(part: Part) -> str:
    keys = [_name(key.text) for key in part.plan.block.keys]
    return f"By {_listed(keys)}" if keys else "In all"


def _sentences(part: Part, confidence: float) -> Iterator[str]:
    yield from _accuracy(part, confidence)
    yield from _together(part)
    yield from _added(part.plan)
    yield from _ranks(part.plan, confidence)
    yield from _groups(part)
    yield from _groups_per_unit(part.plan)
    yield from _rows_per_unit(part.plan)
    if part.plan.block.counted:
        yield COUNTED


def _accuracy(part: Part, confidence: float) -> Iterator[str]:
    """Yield how close values are to those without noise."""
    plan = part.plan
    shown = part.shown or tuple(
        ShownAggregate(index, aggregate.text)
        for index, aggregate in enumerate(plan.block.aggregates)
    )
    shown = tuple(s for s in shown if _says_something(part, s))
    if not shown:
        return
    condition = f"{_selected(part, shown)} ({_before(part)})"
    often = f"At least {level(confidence)} of such"
    if len(shown) > 1:
        sizes = [
            f"{_name(one.name)} ± {_up(_margin(part, one.aggregate, confidence))}"
            for one in shown
            if not plan.block.aggregates[one.aggregate].kind.composed
            and not part.varies(one.aggregate, confidence)
        ]
        inserted = f", {', '.join(sizes)}," if sizes else ""
        yield f"{often} intervals{inserted} hold the true value{condition}."
        return
    (only,) = shown
    kind = plan.block.aggregates[only.aggregate].kind
    if kind.composed or part.varies(only.aggregate, confidence):
        yield f"{often} intervals hold the true {kind.value.noun}{condition}."
    else:
        margin = _up(_margin(part, only.aggregate, confidence))
        yield f"{often} {kind.value.noun}s are within ± {margin} of the true ones{condition}."


def _together(part: Part) -> Iterator[str]:
    """Say from how many releases values are put together, and of what that is true."""
    plan = part.plan
    if plan.combined:
        whole = "those that name it" if not plan.declared else "those that show it"
        each = "" if part.uniform else f", each group from {whole}"
        yield (
            f"Values are combined from {len(plan.combined)} releases of this question{each}: the "
            "true ones are those of the rows as they were then, on weighted average."
        )


def _added(plan: BlockPlan) -> Iterator[str]:
    """Say of which release values are sums, and of what that is true."""
    if plan.added is not None:
        yield f"Values are {sum_words(plan)}."


def sum_words(plan: BlockPlan) -> str:
    """Say of which release a plan's values are sums, and what that left out.

    Empty for values of their own.
    """
    added = plan.added
    if added is None:
        return ""
    keys = ", ".join(map(_name, added.keys))
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
        over = " or ".join(map(_name, added.over))
        text += f"; rows whose {over} has no declared value are not in them"
    return text


def _says_something(part: Part, shown: ShownAggregate) -> bool:
    """Tell whether a sentence is due: quantiles have their own, averages shown have intervals."""
    aggregate = part.plan.block.aggregates[shown.aggregate]
    return aggregate.quantile is None and (bool(part.shown) or not aggregate.kind.composed)


def _selected(part: Part, shown: Sequence[ShownAggregate]) -> str:
    """State the condition under which selected values have their interval."""
    plan = part.plan
    selected = [_name(one.name) for one in shown if _is_selected(plan, one.aggregate)]
    large, found = large_enough(plan), appearance(plan)
    if not selected or found is None:
        return ""
    half = combined_half(plan) or found.half
    whose = "" if len(selected) == len(shown) else f" that of {_listed(selected)}"
    if large is not None:
        return f",{whose} in groups of {_up(half)} {_units(plan)} or more"
    if plan.base_rank is None:
        return f",{whose} in groups of {_up(half)} {score_unit(plan)} or more"
    return f",{whose} in groups that clear the threshold at least half the time"


def _before(part: Part) -> str:
    """Say what the true values are those of."""
    if not part.shown:
        return "after bounding, before the outer query"
    if not _chosen(part):
        return "after bounding"
    top_k = part.plan.block.top_k
    if top_k is not None and part.rows == min(top_k.limit, part.released):
        return "after bounding, LIMIT's choice allowed for"
    return "after bounding, before rows were chosen"


def _chosen(part: Part) -> bool:
    """Tell whether some groups may have been left out by their noisy values."""
    top_k = part.plan.block.top_k
    full = top_k is not None and part.released >= top_k.limit
    return part.rows < part.released or (full and part.plan.selection.leaves_out)


def _ranks(plan: BlockPlan, confidence: float) -> Iterator[str]:
    """Yield how far quantiles are from the rank asked for; in thin data values can be far off."""
    if not plan.quantiles:
        return
    texts = {a.quantile: _name(a.text) for a in plan.block.aggregates if a.quantile is not None}
    sizes = [
        f"{text} is within ± {_rank_margin(plan, quantile, confidence):,} rows"
        for quantile, text in texts.items()
    ]
    yield (
        f"At least {level(confidence)} of the time {_listed(sizes)} of the rank asked for "
        "(after bounding)."
    )


def _rank_margin(plan: BlockPlan, quantile: Quantile, confidence: float) -> int:
    """Return a distance in ranks.

    Quantiles of the same values are put in order, which keeps all of them within the largest of
    their margins if they were within their own.
    """
    alike = [q.mechanism for q in plan.quantiles if q.quantile.ranked == quantile.ranked]
    each = 1 - (1 - confidence) / len(alike)
    return math.ceil(max(mechanism.margin(each) for mechanism in alike))


def _groups(part: Part) -> Iterator[str]:
    """Yield which groups appear."""
    plan, selection = part.plan, part.plan.selection
    large = large_enough(plan)
    if plan.combined and deciding_measure(plan) is not None:
        yield _named_by_any(part)
        return
    if plan.answers_all:
        if large is not None:
            yield _left_out(part, large)
        elif plan.block.keys:
            verb = "appear" if part.shown and part.rows >= part.released else "were answered"
            groups = f"{selection.declared:,} declared groups"
            yield f"All {groups} {verb}, whether they hold rows or not."
        return
    found = appearance(plan)
    if found is None:
        return
    if plan.cascade is not None:
        yield _named_in_rounds(plan, found)
    elif selection.divided_norm is not None:
        yield _union(plan, found)
    elif plan.base_rank is None:
        yield _histogram(part, found)
    elif plan.declared:
        base, names = ordinal(plan.base_rank), "picks" if large is not None else "always names"
        yield (
            f"It {names} {plan.base_rank - 1:,} of the {selection.declared:,} declared groups. One "
            f"is among them at least half the time if it is {_up(found.half)} {score_unit(plan)} "
            f"above the {base} largest, and at least 95% of the time at {_up(found.surely)}"
            f"{_if_bounded(plan)}."
        )
        if large is not None:
            yield _left_out(part, large)
    else:
        yield _top_k(plan, found)


def _groups_per_unit(plan: BlockPlan) -> Iterator[str]:
    """Say in how many groups a unit counts where nobody gave a number."""
    if plan.block.groups_chosen and (plan.cascade is not None or plan.bounding is not None):
        yield f"max_groups_contributed is {plan.block.groups_chosen}."


def _rows_per_unit(plan: BlockPlan) -> Iterator[str]:
    """Say that nobody knows how many rows bounding left out, where looks cannot tell."""
    parameters = plan.block.parameters
    bounded = any(noisy.measure.kind not in _UNBOUNDED for noisy in plan.measures)
    if plan.cascade is not None and bounded and parameters.left_out_share:
        rows = f"max_rows_contributed ({parameters.max_rows_contributed:,})"
        yield f"With auto, what {rows} leaves out is not told."


def _histogram(part: Part, found: Appearance) -> str:
    """State a threshold on the number of units."""
    plan = part.plan
    text = (
        f"A group that keeps {_up(found.half)} {score_unit(plan)} appears at least half the time, "
        f"one with {_up(found.surely)} at least 95%"
    )
    if found.rarely >= plan.block.parameters.min_units_per_group:
        text += f", one with {found.rarely:,.0f} or fewer at most 5%"
    if any(_is_selected(plan, shown.aggregate) for shown in part.shown):
        text += f"; below {_up(found.half)} what appears is counted too high"
    if _is_weighted(plan):
        assert plan.bounding is not None
        text += f". A unit with more than {plan.bounding.groups:,} groups is no whole one"
    return f"{text}."


def _named_by_any(part: Part) -> str:
    """State which groups appear where one release that names them is enough."""
    plan = part.plan
    halves = [each.appears_half for each in plan.combined if each.appears_half is not None]
    surely = [each.appears_95 for each in plan.combined if each.appears_95 is not None]
    text = (
        f"A group appears if one of the releases names it: one that keeps {_up(min(halves))} "
        f"{score_unit(plan)} does at least half the time, one with {_up(min(surely))} at least 95%"
    )
    if any(_is_selected(plan, shown.aggregate) for shown in part.shown):
        text += f"; below {_up(max(halves))} what appears is counted too high"
    if _is_weighted(plan):
        assert plan.bounding is not None
        text += f". A unit with more than {plan.bounding.groups:,} groups is no whole one"
    return f"{text}."


def _named_in_rounds(plan: BlockPlan, found: Appearance) -> str:
    """Write of a threshold on weights that units divide among keys without a name."""
    unit, half, surely = _name(plan.block.unit_name), _up(found.half), _up(found.surely)
    text = (
        f"Groups are named in rounds, in which a unit divides itself among what has no name yet. "
        f"One that {half} units ({unit}) have, and nothing else, appears at least half the time, "
        f"one of {surely} at least 95%"
    )
    brief = appearance_if_brief(plan)
    if brief is not None:
        text += (
            f"; where the second round names few more than the first, it is the last, and it takes "
            f"{_up(brief.half)} and {_up(brief.surely)}"
        )
    return f"{text}."


def _left_out(part: Part, large: Appearance) -> str:
    """State a minimum of units that declared groups must reach, noise included."""
    plan, least = part.plan, part.plan.block.parameters.min_units_per_group
    text = (
        f"Declared groups are left out where the noisy number of {_units(plan)} is below "
        f"{least:,}: one that keeps {_up(large.half)} appears at least half the time, one with "
        f"{_up(large.surely)} at least 95%"
    )
    if large.rarely >= 0:
        text += f", one with {large.rarely:,.0f} or fewer at most 5%"
    if any(_is_selected(plan, shown.aggregate) for shown in part.shown):
        text += f"; below {_up(large.half)} what appears is counted too high"
    return f"{text}."


def _top_k(plan: BlockPlan, found: Appearance) -> str:
    """State a threshold that counts from the first group that cannot come out."""
    assert plan.block.top_k is not None
    assert plan.base_rank is not None
    floor = plan.block.parameters.min_units_per_group - 1
    limit = plan.block.top_k.limit
    return (
        f"At most {limit:,} group{'s' * (limit > 1)} come{'s' * (limit == 1)} out. One clears the "
        f"threshold at least half the time if it is {_up(found.half)} {score_unit(plan)} above the "
        f"{ordinal(plan.base_rank)} largest (above {floor:,} if there are not so many), and at "
        f"least 95% of the time at {_up(found.surely)}{_if_bounded(plan)}."
    )


def _union(plan: BlockPlan, found: Appearance) -> str:
    """State a threshold on weights that units divide among their keys."""
    unit, half, surely = _name(plan.block.unit_name), _up(found.half), _up(found.surely)
    if plan.selection.estimated:
        return (
            f"All that is listed exists. By an estimate a key needs about {half} units ({unit}) to "
            f"be listed half the time, and {surely} for 95% (after bounding)."
        )
    return (
        f"All that is listed exists. A key that keeps {half} units ({unit}) is listed at least "
        f"half the time, one with {surely} at least 95%."
    )


# -- figures ----------------------------------------------------------------------------------


def _margin(part: Part, aggregate: int, confidence: float) -> float:
    """Compute half the width of the intervals of an aggregate that is one noisy measure."""
    columns = [np.zeros(1)]
    if part.plan.combined:
        columns.append(np.array([float(every_release(part.plan))]))
    around_zero = interval_of(part.plan, part.released, aggregate, columns, confidence)
    return float(around_zero.high[0])


def _is_selected(plan: BlockPlan, index: int) -> bool:
    """Tell whether the noise on an aggregate also decided which groups appear."""
    measures = plan.block.aggregates[index].measures
    if plan.units_measure is not None and measures == (plan.units_measure,):
        return True
    decides = plan.selection.score_noise is not None or plan.cascade is not None
    return decides and measures == (plan.score,)


def _if_bounded(plan: BlockPlan) -> str:
    """Say what to add where a group's size may be less than that of the group in the table."""
    whole = plan.bounding is None and plan.measures[plan.score or 0].measure.kind in _UNBOUNDED
    return "" if whole else " (after bounding)"


def _is_weighted(plan: BlockPlan) -> bool:
    return plan.bounding is not None and plan.bounding.weighted


def score_unit(plan: BlockPlan) -> str:
    """Name what a group's size is measured in."""
    kind = MeasureKind.UNITS if plan.score is None else plan.measures[plan.score].measure.kind
    if kind is MeasureKind.UNITS:
        return _units(plan)
    if kind is MeasureKind.ROWS:
        return "rows"
    (text, *_) = [a.text for a in plan.block.aggregates if a.measures == (plan.score,)]
    return f"in {_name(text)}"


def _units(plan: BlockPlan) -> str:
    return f"{'whole ' * _is_weighted(plan)}units ({_name(plan.block.unit_name)})"


def _name(text: str) -> str:
    """Name a column or an expression, safe for a terminal."""
    return printable(text, 40)


def _listed(names: Sequence[str]) -> str:
    """List names in a row, with "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""The sentences below an answer: how close its values are, and what each kind of release says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.accuracy.intervals import allows_for_cut, kept_confidence
from dpsql.accuracy.wording import Part, ShownAggregate, enumerated, printable_name
from dpsql.core.formatting import figure_above as _up
from dpsql.core.formatting import level
from dpsql.kinds.registry import release_kind

MAX_SUMMARISED_PARTS = 4
COUNTED = (
    "The outer query counts, sums or excludes the groups that came out. Those too small to appear "
    "are not among them."
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
    if any(release_kind(part.plan).rolled_up for part in parts):
        lines.insert(0, "This answer is a roll-up of an earlier release; it cost nothing.")
    elif stored:
        lines.insert(0, "This answer was given before; it cost nothing again.")
    return "\n".join(line for line in lines if line)


def _heading(part: Part) -> str:
    keys = [printable_name(key.text) for key in part.plan.block.keys]
    return f"By {enumerated(keys)}" if keys else "In all"


def _sentences(part: Part, confidence: float) -> Iterator[str]:
    yield from _accuracy(part, confidence)
    behind = [s.aggregate for s in part.shown] + [a for s in part.computed for a in s.aggregates]
    allowed = [aggregate for aggregate in behind if allows_for_cut(part.plan, aggregate)]
    if allowed:
        composed = [part.plan.block.aggregates[index].kind.composed for index in allowed]
        where = "further" if any(composed) or part.computed else "further up"
        rows = f"{part.plan.block.parameters.rows_limit:,}"
        yield (
            f"Intervals reach {where}, as some units may add more than counts: "
            f"max_rows_contributed is {rows}, found for this question."
        )
    yield from release_kind(part.plan).sentences(part, confidence)
    block = part.plan.block
    if block.source.share is not None:
        share = block.source.share_text
        yield (
            f"Of a sample of units: each {block.unit_name} is in it with probability {share}, so "
            f"counts and sums are of about {share} of all."
        )
    if part.plan.block.counted:
        yield COUNTED


def _accuracy(part: Part, confidence: float) -> Iterator[str]:
    """Yield how close values are to those without noise."""
    plan, shown = part.plan, part.shown
    if not part.told:
        shown = tuple(ShownAggregate(i, a.text) for i, a in enumerate(plan.block.aggregates))
    shown = tuple(s for s in shown if _says_something(part, s))
    if not (shown or part.computed):
        return
    kind = release_kind(plan)
    computed = (
        ShownAggregate(next(filter(kind.selected, one.aggregates), one.aggregates[0]), one.name)
        for one in part.computed
    )
    condition = f"{kind.condition((*shown, *computed))} ({_before(part)})"
    often = f"At least {level(confidence)} of such"
    if len(shown) != 1 or part.computed:
        sizes = [
            f"{printable_name(one.name)} ± {_up(_margin(part, one.aggregate, confidence))}"
            for one in shown
            if not plan.block.aggregates[one.aggregate].kind.composed
            and not _varies(part, one.aggregate, confidence)
        ]
        inserted = f", {', '.join(sizes)}," if sizes else ""
        yield f"{often} intervals{inserted} hold the true value{condition}."
        return
    (only,) = shown
    of = plan.block.aggregates[only.aggregate].kind
    if of.composed or _varies(part, only.aggregate, confidence):
        yield f"{often} intervals hold the true {of.value.noun}{condition}."
    else:
        margin = _up(_margin(part, only.aggregate, confidence))
        yield f"{often} {of.value.noun}s are within ± {margin} of the true ones{condition}."


def _says_something(part: Part, shown: ShownAggregate) -> bool:
    """Tell whether a sentence is due: quantiles have their own, averages shown have intervals.

    Names alone have none, nor has what is next to 0 whatever the values are.
    """
    if part.plan.names_alone or part.plan.block.tells_nothing(shown.aggregate):
        return False
    aggregate = part.plan.block.aggregates[shown.aggregate]
    return aggregate.quantile is None and (part.told or not aggregate.kind.composed)


def _before(part: Part) -> str:
    """Name the population that the interval refers to."""
    if not part.told:
        return "after bounding, before the outer query"
    if not _chosen(part):
        return "after bounding"
    block = part.plan.block
    by_limit = bool(block.chosen_by or block.limited_order)
    if by_limit and part.rows == block.chosen_of(part.released):
        return "after bounding, LIMIT's choice allowed for"
    if block.chosen_after:
        return "after bounding, the choice of rows allowed for"
    return "after bounding, before rows were chosen"


def _chosen(part: Part) -> bool:
    """Tell whether some groups may have been left out by their noisy values."""
    top_k = part.plan.block.chosen_by
    full = top_k is not None and part.released >= top_k.limit
    return part.rows < part.released or (full and part.plan.selection.leaves_out)


def _varies(part: Part, aggregate: int, confidence: float) -> bool:
    """Tell whether each row has an interval of an aggregate of a width of its own."""
    confidence = kept_confidence(part.plan, part.released, part.rows, confidence)
    varies = release_kind(part.plan).varies(part.released, aggregate, confidence)
    return varies or not part.uniform


def _margin(part: Part, index: int, confidence: float) -> float:
    """Compute half the width of the intervals of an aggregate that is one noisy measure."""
    aggregate = part.plan.block.aggregates[index]
    (measure,), whole = aggregate.measures, part.plan.is_whole(aggregate)
    confidence = kept_confidence(part.plan, part.released, part.rows, confidence)
    return release_kind(part.plan).margin(part.released, measure, whole, confidence)

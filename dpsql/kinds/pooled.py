"""Releases of one statistic put together: which can be, with which weights, how sure the result is.

Each release keeps its own values; putting them together is computed anew whenever an answer is
shown, so that none counts twice. Where a count's own noise decided whether its group appears in a
release, the count is conditionally too high in each release, and the excess does not average out.
Intervals take that in: given that a group appears in s releases that decided by this measure, in
each of which it appears at least half the time, any event is at most 2^(s-1) times as likely as the
same event under the condition of one release alone: the releases are independent, and each of the
other s - 1 conditions has probability 1/2 or more. For one condition the argument of
:mod:`dpsql.accuracy.wording` holds as before, the sum of the other noises being symmetric and
unimodal. So the risk of an interval is divided by 2^(s-1). Checked by
``tests/accuracy/test_combination.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Threshold
from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.estimates import FloatArray
from dpsql.accuracy.intervals import (
    Interval,
    interval_around,
    risked_confidence,
    shared_confidence,
    with_rounding,
)
from dpsql.accuracy.wording import Part, score_unit
from dpsql.core.formatting import figure_above
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.kinds.groups import GroupsKind, deciding_measure, whole_units
from dpsql.kinds.released import NumericArray
from dpsql.privacy.mechanisms.combination import (
    PublishedNoise,
    combined_margin,
    combined_std,
    combining_weights,
)

MAX_COMBINED = 32
"""How many releases of one question are put together at most, the latest: each is a bit."""


class PooledKind(GroupsKind):
    """Groups whose values are put together from several releases of them."""

    drawn = False

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether values are those of several releases."""
        return bool(plan.combined)

    def interval(
        self,
        plan: BlockPlan,
        released: int,
        index: int,
        columns: Sequence[FloatArray],
        confidence: float,
        left_out: float | None = None,
    ) -> Interval:
        """Compute intervals of the mean of what each release would be without noise.

        By the releases that each row has.
        """
        *values, masks = columns
        aggregate, each = plan.block.aggregates[index], confidence
        low, high = np.full_like(masks, np.nan), np.full_like(masks, np.nan)
        if len(aggregate.measures) > 1:
            each = shared_confidence(confidence, len(aggregate.measures))
        for mask, mine in masks_in(masks):
            margins = [
                _margin(plan, aggregate, m, mask, risked_confidence(plan, len(masks), m, each))
                for m in aggregate.measures
            ]
            found = interval_around(plan, aggregate, [column[mine] for column in values], margins)
            low[mine], high[mine] = found.low, found.high
        return Interval(low, high)

    def margin(
        self, plan: BlockPlan, released: int, aggregate: Aggregate, index: int, confidence: float
    ) -> float:
        """Compute half the interval's width of a measure that all releases have."""
        return _margin(plan, aggregate, index, every_release(plan), confidence)

    def scales(self, plan: BlockPlan, index: int, columns: Sequence[FloatArray]) -> FloatArray:
        """Compute standard deviations by the releases that each row has."""
        (measure,) = plan.block.aggregates[index].measures
        scales = np.full_like(columns[-1], np.nan)
        for mask, mine in masks_in(columns[-1]):
            found = combined_scale(plan, measure, mask)
            if found is None:
                (only,) = releases_in(mask, plan.combined)
                found = only.measures[measure].noise.scale * plan.measures[measure].measure.step
            scales[mine] = found
        return scales

    def chosen(
        self, plan: BlockPlan, released: int, index: int, confidence: float
    ) -> ChosenNoise | None:
        """Return None: what LIMIT does to noise of several releases is allowed for."""
        return None

    def uniform(self, plan: BlockPlan, values: Mapping[str, NumericArray]) -> bool:
        """Tell whether all rows came out of all releases."""
        masks = values[plan.block.support_columns(0)[-1]]
        return bool(np.all(masks == every_release(plan)))

    def origin(self, part: Part) -> Iterator[str]:
        """Yield from how many releases values are put together, and of what that is true."""
        plan = part.plan
        whole = "those that name it" if not plan.declared else "those that show it"
        each = "" if part.uniform else f", each group from {whole}"
        yield (
            f"Values are combined from {len(plan.combined)} releases of this question{each}: the "
            "true ones are those of the rows as they were then, on weighted average."
        )

    def appearing(self, part: Part) -> Iterator[str]:
        """Yield which groups appear where one release that names them is enough."""
        plan = part.plan
        if deciding_measure(plan) is None:
            yield from super().appearing(part)
            return
        halves = [each.appears_half for each in plan.combined if each.appears_half is not None]
        surely = [each.appears_95 for each in plan.combined if each.appears_95 is not None]
        text = (
            "A group appears if one of the releases names it: one that keeps "
            f"{figure_above(min(halves))} {score_unit(plan)} does at least half the time, one with "
            f"{figure_above(min(surely))} at least 95%"
        )
        yield f"{text}{self.counted_too_high(part, max(halves))}{whole_units(plan)}."

    def appears_half(self, plan: BlockPlan) -> float | None:
        """Find the size from which a group appears at least half the time in each release."""
        found = super().appears_half(plan)
        sizes = [r.appears_half for r in plan.combined if r.appears_half is not None]
        return None if found is None else max(sizes, default=found)

    def threshold(self, plan: BlockPlan, aggregate: int) -> Threshold | None:
        """Return None: each release had a threshold of its own."""
        return None

    def releases(self, plan: BlockPlan) -> int:
        """Count the releases that values are put together from."""
        return len(plan.combined)


def _margin(
    plan: BlockPlan, aggregate: Aggregate, index: int, mask: int, confidence: float
) -> float:
    """Compute half the interval's width of a measure that these releases have."""
    found = combined_error(plan, aggregate, index, mask, confidence)
    if found is not None:
        return found
    (only,) = releases_in(mask, plan.combined)
    noise = only.measures[index]
    margin = noise.noise.margin(confidence, noise.groups)
    return with_rounding(plan, aggregate, index, margin)


def releases_in(mask: int, releases: Sequence[ReleaseNoise]) -> list[ReleaseNoise]:
    """List the releases that a row is put together from."""
    return [each for bit, each in enumerate(releases) if mask >> bit & 1]


def combined_values(
    values: NDArray[np.float64], held: NDArray[np.bool_], noises: Sequence[PublishedNoise]
) -> NDArray[np.float64]:
    """Compute the weighted means of arrays of shape (releases, groups), of shape (groups,).

    ``held`` says which release has which group; what it has not is left out of the mean.
    """
    weights = np.array(combining_weights(noises))[:, np.newaxis] * held
    total = (weights * np.where(held, values, 0.0)).sum(axis=0)
    only = held.sum(axis=0) == 1
    mean: NDArray[np.float64] = total / weights.sum(axis=0)
    # Of one release alone the value stays what it was: a weight over itself is 1 but for rounding.
    mean[only] = np.where(held, values, 0.0).sum(axis=0)[only]
    return mean


def masks_in(column: FloatArray) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield each set of releases that rows come from, as bits, and the rows that do."""
    for value in np.unique(column[np.isfinite(column)]):
        yield int(value), column == value


def combined_error(
    plan: BlockPlan, aggregate: Aggregate, index: int, mask: int, confidence: float
) -> float | None:
    """Bound the error of a measure put together from several releases, in the answer's units.

    It holds with this confidence for groups that appear at least half the time in each of them.
    None if the bits name one release alone, or none.
    """
    releases = releases_in(mask, plan.combined)
    if len(releases) < 2:
        return None
    deciding = sum(release.decided == index for release in releases)
    risk = (1 - confidence) / 2 ** max(0, deciding - 1)
    noises = [release.measures[index] for release in releases]
    return with_combined_rounding(plan, aggregate, index, noises, combined_margin(noises, risk))


def with_combined_rounding(
    plan: BlockPlan,
    aggregate: Aggregate,
    index: int,
    noises: Sequence[PublishedNoise],
    margin: float,
) -> float:
    """Add to a margin in steps what rounding can: of exact sums, of each release, of the mean."""
    measure = plan.measures[index].measure
    whole = plan.is_whole(aggregate)
    coarse = measure.lattice is not None and measure.lattice.coarsening > 1
    if coarse and measure.weights is None:
        margin += 1
    elif whole and measure.weights is None and any(n.fractional for n in noises):
        margin += 0.5
    within = margin * measure.step
    if measure.weights is not None and whole:
        within += 0.5
    if not whole:
        return float(within)
    # Units keep other groups in each release where they keep a few: then the mean of what the
    # releases estimate need not be a whole number.
    exact = plan.bounding is None and measure.weights is None and not coarse
    return float(np.floor(within + 0.5)) if exact else float(within + 0.5)


def combined_scale(plan: BlockPlan, index: int, mask: int) -> float | None:
    """Compute the standard deviation of a measure put together from several releases.

    In the units of the answer; None if the bits name one release alone, or none.
    """
    releases = releases_in(mask, plan.combined)
    if len(releases) < 2:
        return None
    noises = [release.measures[index] for release in releases]
    return combined_std(noises) * plan.measures[index].measure.step


def every_release(plan: BlockPlan) -> int:
    """Return the bits of all releases that are put together."""
    return (1 << len(plan.combined)) - 1

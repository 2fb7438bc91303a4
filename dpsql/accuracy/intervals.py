"""How sure released numbers are: intervals that cover the noise in them. All is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.accuracy.addition import added_error, added_scale
from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.combination import (
    combined_error,
    combined_scale,
    masks_in,
    releases_in,
)
from dpsql.accuracy.estimates import FloatArray, PlausibleRange, estimate_range
from dpsql.core.plain import plain_number
from dpsql.errors import ParameterError, Place
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import BlockPlan
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.cascade import COUNTINGS


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper ends for each row of a noisy column, in the order of the rows."""

    low: FloatArray
    high: FloatArray


_WORTH_IT = 1.1  # times the margin of noise alone

MOST_CONFIDENCE = 1 - 1e-12
"""Beyond, what is left to 1 is not told exactly by a double, nor divided."""


def check_confidence(confidence: object, place: Place | None = None) -> float:
    """Check a confidence and return it as a float.

    Raises ``ParameterError`` unless 0 < confidence < 1, and above ``MOST_CONFIDENCE``.
    """
    level = plain_number(confidence)
    if level is None or not 0 < level <= MOST_CONFIDENCE:
        raise ParameterError(
            "confidence must be a number between 0 and 1",
            code="confidence_out_of_range",
            place=place,
            hint="The usual one is 0.95. It may be as near to 1 as 1 - 1e-12.",
        )
    return level


def interval_of(
    plan: BlockPlan,
    released: int,
    index: int,
    columns: Sequence[FloatArray],
    confidence: float,
    left_out: float | None = None,
) -> Interval:
    """Compute the intervals of one aggregate of a block, of which ``released`` groups came out.

    ``columns`` are those of ``interval_columns``: the noisy measures of an aggregate that is
    computed from several, or else the aggregate itself. Each interval covers, with at least this
    probability, the value without noise. Where groups are named in rounds, that is the value as it
    was counted, whatever it was scaled to: then the interval takes in the released value too.
    Where releases are put together, it is the mean of what each would be without noise. Where a
    finer release was added up, it is the sum of its values without noise.

    ``left_out`` is the largest value that LIMIT left out, as :func:`largest_left_out` finds it.
    """
    aggregate = plan.block.aggregates[index]
    if plan.block.combines:
        return _combined_interval(plan, aggregate, columns, confidence)
    if plan.block.cascades:
        return _counted_interval(plan, released, aggregate, columns, confidence)
    if not aggregate.kind.composed:
        (values,), (measure,) = columns, aggregate.measures
        chosen = chosen_noise(plan, released, measure, confidence)
        if chosen is not None and left_out is not None:
            return _interval_given_choice(plan, chosen, measure, values, left_out)
        margin = _margin(plan, released, aggregate, measure, confidence)
        return Interval(values - margin, values + margin)
    # All values that fit the intervals of the measures, which share the risk equally.
    each = np.nextafter(1 - (1 - confidence) / len(aggregate.measures), 1)
    parts = [
        PlausibleRange.around(values, _margin(plan, released, aggregate, measure, float(each)))
        for values, measure in zip(columns, aggregate.measures, strict=True)
    ]
    found = estimate_range(aggregate, [m.measure for m in plan.measures], parts)
    return Interval(found.low, found.high)


def risked_confidence(plan: BlockPlan, released: int, index: int, confidence: float) -> float:
    """Return the confidence at which a measure's interval allows for LIMIT's choice by its noise.

    ORDER BY a noisy value LIMIT k chooses the largest of m values, and among groups that are alike
    those whose noise is largest. Intervals that miss with probability risk*k/m for each of the m
    miss for at most a share ``risk`` of the k that are shown, on average, whatever the values
    (Benjamini & Yekutieli 2005, Theorem 1; ``docs/mechanisms/top-k.md``).

    m is how many groups came out before LIMIT. A mechanism that keeps the k largest itself does not
    say how many that were, but k_bar at most.
    """
    top_k = plan.block.top_k
    if top_k is None or top_k.measure != index:
        return confidence
    among, shown = released, min(top_k.limit, released)
    full, fetched = released >= top_k.limit, plan.selection.top_rows_needed
    if full and plan.selection.leaves_out and fetched is not None:
        among = fetched - 1
    return confidence_among(confidence, shown, among)


def confidence_among(confidence: float, shown: int, among: int) -> float:
    """Return the confidence of each of ``among`` intervals that those of the ``shown`` ones keep.

    These are the largest by their noisy values.
    """
    if among <= shown:
        return confidence
    return min(float(np.nextafter(1 - (1 - confidence) * shown / among, 1)), MOST_CONFIDENCE)


def chosen_noise(
    plan: BlockPlan, released: int, index: int, confidence: float
) -> ChosenNoise | None:
    """Describe the noise of a measure given LIMIT's choice by it, where that is narrower.

    None where LIMIT does not choose by it, or where noise is shared, weighted, of several releases
    or only of what a mechanism has kept. None as well where allowing for the choice whatever it is
    (:func:`risked_confidence`) widens intervals by a tenth at most.
    """
    top_k, selection = plan.block.top_k, plan.selection
    if top_k is None or top_k.measure != index or released <= top_k.limit:
        return None
    if plan.combined or plan.added is not None or plan.block.cascades or selection.leaves_out:
        return None
    noise, weights = plan.noise_of(index), plan.measures[index].measure.weights
    if not isinstance(noise, IndependentNoise) or weights is not None:
        return None
    allowed = noise.margin(risked_confidence(plan, released, index, confidence), 1)
    if allowed <= _WORTH_IT * noise.margin(confidence, 1):
        return None
    return ChosenNoise(noise.noise, top_k.limit, released, 1 - confidence)


def largest_left_out(plan: BlockPlan, values: FloatArray) -> float | None:
    """Find the largest of the values by which LIMIT chooses that it leaves out; None without one.

    ``values``: float64 of shape (groups,), those of all groups that came out.
    """
    top_k = plan.block.top_k
    if top_k is None or len(values) <= top_k.limit:
        return None
    place = len(values) - 1 - top_k.limit
    return float(np.partition(values, place)[place])


def _interval_given_choice(
    plan: BlockPlan, chosen: ChosenNoise, index: int, values: FloatArray, left_out: float
) -> Interval:
    """Compute intervals of values that LIMIT chose, given that and the others' values."""
    measure = plan.measures[index].measure
    above = np.rint((values - left_out) / measure.step)
    down, up = chosen.ends(above.astype(np.int64))
    rounded = int(measure.lattice is not None and measure.lattice.coarsening > 1)
    step = measure.step
    return Interval(values - (down + rounded) * step, values + (up + rounded) * step)


def widest_margin(plan: BlockPlan, index: int, confidence: float) -> float:
    """Compute half the width of an aggregate's intervals, for the groups where it is largest.

    Of an aggregate of one measure, in the units of the answer. Where the noise depends on how many
    groups come out, these are 1 or the most there can be: noise that groups share is larger the
    fewer they are, and what LIMIT's choice may do to it the more they are.
    """
    aggregate = plan.block.aggregates[index]
    (measure,) = aggregate.measures
    most, fetched = plan.max_released, plan.selection.top_rows_needed
    if plan.selection.score_noise is not None and fetched is not None:
        most = fetched - 1
    released = (1,) if most is None else (1, most)
    return max(_margin(plan, n, aggregate, measure, confidence) for n in released)


def _counted_margin(
    plan: BlockPlan,
    released: int,
    aggregate: Aggregate,
    index: int,
    counting: int,
    confidence: float,
) -> float:
    """Compute half the width of a measure's interval, as it was counted by a cascade."""
    confidence = risked_confidence(plan, released, index, confidence)
    margin = plan.noise_at(index, counting).margin(confidence, abs(counting))
    return _with_rounding(plan, aggregate, index, margin)


def _counted_interval(
    plan: BlockPlan,
    released: int,
    aggregate: Aggregate,
    columns: Sequence[FloatArray],
    confidence: float,
) -> Interval:
    """Compute intervals of what a cascade counted, by how each row was."""
    *values, countings = columns
    all_counted = values[-len(aggregate.measures) :]
    measures = [m.measure for m in plan.measures]
    low, high = np.full_like(countings, np.nan), np.full_like(countings, np.nan)
    each = float(np.nextafter(1 - (1 - confidence) / len(aggregate.measures), 1))
    for counting in _countings_in(countings):
        mine = countings == counting
        parts = [
            PlausibleRange.around(
                counted[mine], _counted_margin(plan, released, aggregate, m, counting, each)
            )
            for counted, m in zip(all_counted, aggregate.measures, strict=True)
        ]
        if aggregate.kind.composed:
            found = estimate_range(aggregate, measures, parts)
            low[mine], high[mine] = found.low, found.high
        else:
            low[mine] = np.minimum(parts[0].low, values[0][mine])
            high[mine] = np.maximum(parts[0].high, values[0][mine])
    return Interval(low, high)


def _combined_interval(
    plan: BlockPlan, aggregate: Aggregate, columns: Sequence[FloatArray], confidence: float
) -> Interval:
    """Compute intervals of what is put together from several releases, by which each row has."""
    *values, masks = columns
    measures = [m.measure for m in plan.measures]
    low, high = np.full_like(masks, np.nan), np.full_like(masks, np.nan)
    each = confidence
    if len(aggregate.measures) > 1:
        each = float(np.nextafter(1 - (1 - confidence) / len(aggregate.measures), 1))
    for mask, mine in masks_in(masks):
        parts = [
            PlausibleRange.around(
                column[mine],
                _combined_margin(
                    plan, aggregate, m, mask, risked_confidence(plan, len(masks), m, each)
                ),
            )
            for column, m in zip(values, aggregate.measures, strict=True)
        ]
        found = estimate_range(aggregate, measures, parts) if len(parts) > 1 else parts[0]
        low[mine], high[mine] = found.low, found.high
    return Interval(low, high)


def _combined_margin(
    plan: BlockPlan, aggregate: Aggregate, index: int, mask: int, confidence: float
) -> float:
    """Compute half the interval's width of a measure that these releases have."""
    found = combined_error(plan, aggregate, index, mask, confidence)
    if found is not None:
        return found
    (only,) = releases_in(mask, plan.combined)
    noise = only.measures[index]
    margin = noise.noise.margin(confidence, noise.groups)
    return _with_rounding(plan, aggregate, index, margin)


def _countings_in(countings: FloatArray) -> list[int]:
    """List the ways in which rows were counted, of those that there are."""
    return [counting for counting in COUNTINGS if (countings == counting).any()]


def noise_scales(plan: BlockPlan, index: int, columns: Sequence[FloatArray]) -> FloatArray:
    """Compute the scale of the noise on an aggregate of one measure, in the answer's units.

    ``columns`` are those of ``interval_columns``; the answer has one value for each row. Of what is
    put together from several releases, or added up, it is the standard deviation.
    """
    (measure,) = plan.block.aggregates[index].measures
    step = plan.measures[measure].measure.step
    if plan.added is not None:
        return np.full_like(columns[0], added_scale(plan, plan.added, measure))
    if plan.block.combines:
        return _combined_scales(plan, measure, columns[-1])
    if not plan.block.cascades:
        return np.full_like(columns[0], plan.noise_of(measure).scale * step)
    scales = np.full_like(columns[0], np.nan)
    for counting in _countings_in(columns[-1]):
        scales[columns[-1] == counting] = plan.noise_at(measure, counting).scale * step
    return scales


def _combined_scales(plan: BlockPlan, measure: int, masks: FloatArray) -> FloatArray:
    scales = np.full_like(masks, np.nan)
    for mask, mine in masks_in(masks):
        found = combined_scale(plan, measure, mask)
        if found is None:
            (only,) = releases_in(mask, plan.combined)
            found = only.measures[measure].noise.scale * plan.measures[measure].measure.step
        scales[mine] = found
    return scales


def _margin(
    plan: BlockPlan, released: int, aggregate: Aggregate, index: int, confidence: float
) -> float:
    """Compute half the interval's width: the noise's margin, and what rounding can add."""
    confidence = risked_confidence(plan, released, index, confidence)
    if plan.added is not None:
        return added_error(plan, plan.added, aggregate, index, confidence)
    margin = plan.noise_of(index).margin(confidence, plan.spread_groups(released))
    return _with_rounding(plan, aggregate, index, margin)


def _with_rounding(plan: BlockPlan, aggregate: Aggregate, index: int, margin: float) -> float:
    measure = plan.measures[index].measure
    whole = plan.is_whole(aggregate)
    if measure.weights is not None:
        return float(margin * measure.step + (0.5 if whole else 0.0))
    if measure.lattice is not None and measure.lattice.coarsening > 1:
        margin += 1
    elif whole:
        margin = float(np.ceil(margin))
    return float(margin * measure.step)

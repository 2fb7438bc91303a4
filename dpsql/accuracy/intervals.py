"""Intervals that cover the noise in released numbers: all of it is post-processing.

That of an aggregate is put together by its kind of release (:mod:`dpsql.kinds.base`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.estimates import FloatArray
from dpsql.core.plain import plain_number
from dpsql.errors import ParameterError, Place
from dpsql.ir.measures import Aggregate, AggregateKind, MeasureKind
from dpsql.ir.plan import BlockPlan


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper ends for each row of a noisy column, in the order of the rows."""

    low: FloatArray
    high: FloatArray


_OF_ROWS = frozenset({MeasureKind.ROWS, MeasureKind.VALUES, MeasureKind.NUMBERS})
_BEYOND = 0.75  # rows of a pair beyond a bound, as a part of the bound
_BEYOND_OF_VALUES = 4.0  # distinct values of a group beyond a bound, likewise
_DRIFT = 0.1  # of an average, in halves of the range of values, if all rows were cut
_DRIFT_OF_DEVIATIONS = 0.5  # of what deviates from a centre, on one side more than on the other
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


def risked_confidence(plan: BlockPlan, released: int, index: int, confidence: float) -> float:
    """Return a measure's confidence, raised where LIMIT chooses by the same noise.

    ORDER BY a noisy value LIMIT k chooses the largest of m values, and among groups that are alike
    those whose noise is largest. Intervals that miss with probability risk*k/m for each of the m
    miss for at most a share ``risk`` of the k that are shown, on average, whatever the values
    and the order (Benjamini & Yekutieli 2005, Theorem 1; ``docs/mechanisms/top-k.md``).

    m is how many groups came out before LIMIT. A mechanism that keeps the k largest itself does not
    say how many that were, but k_bar at most.
    """
    top_k, order = plan.block.chosen_by, plan.block.limited_order
    if order is not None and index in order.measures:
        return confidence_among(confidence, order.shown(released), released)
    if top_k is None or top_k.measure != index:
        return confidence
    among, shown = released, min(top_k.limit, released)
    full, fetched = released >= top_k.limit, plan.selection.top_rows_needed
    if full and plan.selection.leaves_out and fetched is not None:
        among = fetched - 1
    return confidence_among(confidence, shown, among)


def kept_confidence(plan: BlockPlan, released: int, rows: int, confidence: float) -> float:
    """Return an interval's confidence, raised where HAVING and the like choose rows by noise.

    Of m groups R are shown, those whose values fulfil a condition: intervals that miss with
    probability risk*R/m miss for at most a share ``risk`` of those that are shown, on average
    (Benjamini & Yekutieli 2005, Theorem 1, where noise is independent and whether a group is shown
    does not depend on others, or their number is fixed). What LIMIT has chosen before is
    :func:`risked_confidence`'s.
    """
    if not plan.block.chosen_after:
        return confidence
    return confidence_among(confidence, rows, plan.block.chosen_of(released))


def confidence_among(confidence: float, shown: int, among: int) -> float:
    """Return the confidence of each of ``among`` intervals that those of the ``shown`` ones keep.

    Which of them are shown may depend on their noisy values, how many not.
    """
    if not 0 < shown < among:
        return confidence
    return min(float(np.nextafter(1 - (1 - confidence) * shown / among, 1)), MOST_CONFIDENCE)


def chosen_noise(
    plan: BlockPlan, released: int, index: int, confidence: float
) -> ChosenNoise | None:
    """Describe the noise of a measure given LIMIT's choice by it, where that is narrower.

    None where LIMIT does not choose by it, or where noise is shared, weighted or only of what a
    mechanism has kept. None as well where allowing for the choice whatever it is
    (:func:`risked_confidence`) widens intervals by a tenth at most.
    """
    top_k, selection = plan.block.chosen_by, plan.selection
    if top_k is None or top_k.measure != index or released <= top_k.limit:
        return None
    if selection.leaves_out:
        return None
    noise, weights = plan.noise_of(index).independent, plan.measures[index].measure.weights
    if noise is None or weights is not None:
        return None
    allowed = noise.margin(risked_confidence(plan, released, index, confidence), 1)
    if allowed <= _WORTH_IT * noise.margin(confidence, 1):
        return None
    return ChosenNoise(noise.noise, top_k.limit, released, 1 - confidence)


def largest_left_out(plan: BlockPlan, values: FloatArray) -> float | None:
    """Find the largest value outside of a LIMIT that chooses by value; None without such a LIMIT.

    ``values``: float64 of shape (groups,), those of all groups that came out.
    """
    top_k = plan.block.chosen_by
    if top_k is None or len(values) <= top_k.limit:
        return None
    place = len(values) - 1 - top_k.limit
    return float(np.partition(values, place)[place])


def interval_given_choice(
    plan: BlockPlan, chosen: ChosenNoise, index: int, values: FloatArray, left_out: float
) -> Interval:
    """Compute intervals of values chosen by LIMIT, given the choice and the other values."""
    measure = plan.measures[index].measure
    above = np.rint((values - left_out) / measure.step)
    down, up = chosen.ends(above.astype(np.int64))
    rounded = int(measure.lattice is not None and measure.lattice.coarsening > 1)
    step = measure.step
    return Interval(values - (down + rounded) * step, values + (up + rounded) * step)


@dataclass(frozen=True, slots=True)
class GroupsTotal:
    """The positive values of all groups that came out: their sum, and the sum of their squares."""

    sum: float
    squares: float

    @classmethod
    def of(cls, values: FloatArray) -> GroupsTotal:
        """Total values, of shape (groups,)."""
        positive = np.maximum(values, 0.0)
        return cls(float(positive.sum()), float(positive @ positive))

    def parts(self, values: FloatArray, least: float) -> FloatArray:
        """Divide a shortage among groups: parts of it, of shape (groups,).

        In proportion to their values, or to the squares of these where that is more: of groups that
        units have at random, the largest are those in which units have many rows. ``least`` is a
        value that the total has at least.
        """
        positive = np.maximum(values, 0.0)
        steps = max(self.sum, least), max(self.squares, least**2)
        return np.maximum(positive / steps[0], positive * (positive / steps[1]))


def allows_for_cut(plan: BlockPlan, index: int) -> bool:
    """Tell whether intervals of an aggregate allow for rows beyond a number that was drawn.

    Those of counts of rows, of distinct values where nothing else is bounded, and of sums of one
    sign, which lack them, and of averages and spreads, which drift. Counts of rows of which one was
    drawn count units, and lack the others.
    """
    aggregate = plan.block.aggregates[index]
    if not plan.weight_cut or aggregate.quantile is not None:
        return False
    if aggregate.kind.composed:
        return plan.measures[aggregate.measures[0]].measure.bounded_by_rows
    measure = plan.measures[aggregate.measures[0]].measure
    summed = plan.block.sums_alone and measure.kind is MeasureKind.SUM
    if summed and measure.per_group is None and measure.lattice is not None:
        return measure.lattice.low >= 0  # else what is cut may lie on both sides
    if measure.kind is MeasureKind.DISTINCT:
        one_sign = measure.lattice is None or measure.lattice.low >= 0
        return bool(plan.block.values_alone) and measure.per_group is None and one_sign
    return measure.kind in _OF_ROWS or aggregate.one_row


def supposedly_cut(
    plan: BlockPlan,
    groups: FloatArray | float,
    index: int,
    values: FloatArray,
    total: GroupsTotal | None,
) -> FloatArray:
    """Compute how much of each group is supposedly beyond a number of rows that was drawn.

    It is an allowance, and not a bound: nothing that was released says what the heaviest units
    have. Each of the pairs that the draw supposedly cuts has three quarters as many rows beyond the
    bound as below it, as where numbers of rows fall off like a power between -2 and -3, or as much
    of a sum; of distinct values twice as many, which fewer and fewer units hold. A unit lacks rows
    in ``groups`` of them, which lack parts of the ``total`` (:meth:`GroupsTotal.parts`). All is 0
    for other aggregates, and where the number was given.
    """
    if not allows_for_cut(plan, index) or total is None or not total.sum:
        return np.zeros_like(values)
    lattice = plan.measures[plan.block.aggregates[index].measures[0]].measure.lattice
    each = 1.0 if lattice is None else lattice.high * lattice.quantum
    beyond = _rows_beyond(plan, groups) * each
    return np.asarray(beyond * total.parts(values, each))


def tells_of_rows(plan: BlockPlan, index: int, totals: Sequence[GroupsTotal]) -> bool:
    """Tell whether enough came out of a block for a drawn number of rows to say something.

    If all pairs had more rows than the number that was drawn, and count as that number, each of the
    ``totals``, of all aggregates, would be of so many pairs at least. Of few of these a draw takes
    a small number, whatever they have (``weight_untold``). True where no number was drawn that the
    aggregate lacks rows by, and of sums: those of many small values are as small.
    """
    counts_rows = plan.block.aggregates[index].kind is AggregateKind.COUNT
    if not counts_rows or plan.block.values_alone or not allows_for_cut(plan, index):
        return True
    pairs = (_least_pairs(plan, *each) for each in zip(plan.block.aggregates, totals, strict=True))
    return any(least >= plan.weight_untold for least in pairs)


def _least_pairs(plan: BlockPlan, aggregate: Aggregate, total: GroupsTotal) -> float:
    """Return of how many pairs of a unit and a group a total is at least, but for noise."""
    if aggregate.quantile is not None:
        return 0.0
    measure = plan.measures[aggregate.measures[1 if aggregate.kind.composed else 0]].measure
    quantum = 1.0 if measure.lattice is None else measure.lattice.quantum
    most = measure.reach(plan.block.parameters.rows_limit) * quantum
    return total.sum / most if most else np.inf


def with_drift(
    plan: BlockPlan,
    groups: FloatArray | float,
    index: int,
    interval: Interval,
    number: FloatArray,
    total: GroupsTotal | None,
    lost: FloatArray | float = 0.0,
) -> Interval:
    """Widen intervals of averages and spreads by their supposed distance from those of all rows.

    Each group lacks rows in proportion to its ``number`` of values, of a ``total`` of them, as
    :func:`supposedly_cut` says. The average of these rows differs by a tenth of half the range, and
    their variance by a tenth of its square. Where averages and spreads alone are asked for, rows
    are cut by how far their values, or squares of them, deviate in halves of the range of these,
    and half of that is on one side. So does it by values that weighing supposedly takes, ``lost``
    of all groups. All are within what the bounds of values allow.
    """
    lattice = plan.measures[plan.block.aggregates[index].measures[0]].measure.lattice
    beyond = _rows_beyond(plan, groups) if allows_for_cut(plan, index) else 0.0
    if total is None or not total.sum or lattice is None or not np.any(beyond + lost):
        return interval
    cut = (beyond + lost) / max(total.sum, 1.0)  # of each row that counts
    kind, half = plan.block.aggregates[index].kind, (lattice.upper - lattice.lower) / 2
    average = kind.is_average
    least, most = (lattice.lower, lattice.upper) if average else (0.0, half**2)
    drift = _DRIFT * (half if average else half**2) * cut / (1 + cut)
    if plan.block.averages_alone:
        drift = _DRIFT_OF_DEVIATIONS * (half if average else half**2 / 2) * cut / (1 + cut)
    power = 2 if kind.is_deviation else 1
    low, high = interval.low**power, interval.high**power
    low, high = np.maximum(low - drift, least), np.minimum(high + drift, np.maximum(high, most))
    return Interval(low ** (1 / power), high ** (1 / power))


def total_counted(aggregate: Aggregate, columns: Sequence[FloatArray]) -> GroupsTotal:
    """Total the values of all groups that came out: of averages, the numbers of values.

    ``columns`` are those of ``Block.interval_columns``. It is 0 of quantiles.
    """
    if aggregate.quantile is not None:
        return GroupsTotal(0.0, 0.0)
    return GroupsTotal.of(columns[1 if aggregate.kind.composed else 0])


def _rows_beyond(plan: BlockPlan, groups: FloatArray | float) -> FloatArray | float:
    """Compute how many rows of all groups are supposedly beyond the number that was drawn."""
    part = _BEYOND_OF_VALUES if plan.block.values_alone else _BEYOND
    return part * plan.weight_cut * groups * plan.block.parameters.rows_limit


def with_rounding(plan: BlockPlan, index: int, whole: bool, margin: float) -> float:
    """Convert a margin in steps to the units of the answer, with the error of rounding."""
    measure = plan.measures[index].measure
    if measure.weights is not None:
        return float(margin * measure.step + (0.5 if whole else 0.0))
    if measure.lattice is not None and measure.lattice.coarsening > 1:
        margin += 1
    elif whole:
        margin = float(np.ceil(margin))
    return float(margin * measure.step)

"""Measures: the integers per group that get noise, their steps, and how far a unit moves them.

An aggregate is what an analyst wrote; it is computed from one measure or from several. A quantile
is computed from no measure: it is drawn from all values of a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.errors import Place

RELEASED_BITS = 20
"""Sensitivities of sums are kept near this many bits, well inside the samplers' range."""


class MeasureKind(Enum):
    """An integer-valued statistic of a group, the thing noise is added to."""

    UNITS = "units"  # privacy units in the group
    MATCHING_UNITS = "matching_units"  # privacy units with a row whose argument is not NULL
    ROWS = "rows"  # rows in the group
    VALUES = "values"  # rows whose argument is not NULL
    NUMBERS = "numbers"  # rows whose argument is neither NULL nor NaN
    DISTINCT = "distinct"  # different values of the argument, a few of each unit; or their sum
    SUM = "sum"  # clamped sum of the argument, in lattice steps
    CENTERED_SUM = "centered_sum"  # sum of (argument - midpoint), in lattice steps
    CENTERED_SQUARES = "centered_squares"  # the same of its squared distance from the middle
    CENTERED_AVERAGES = "centered_averages"  # sum of (a unit's clamped average - midpoint)


COUNTED_DISTINCT = frozenset({MeasureKind.UNITS, MeasureKind.MATCHING_UNITS, MeasureKind.DISTINCT})
"""The kinds that count something once however often it occurs."""
CENTERED = frozenset({MeasureKind.CENTERED_SUM, MeasureKind.CENTERED_SQUARES})
"""The sums over rows that averages and spreads are computed of, as distances from a middle."""

SUMS_OF_VALUES = CENTERED | {MeasureKind.SUM, MeasureKind.CENTERED_AVERAGES}
"""The kinds that sum values, between bounds."""


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """An aggregate: its spelling in SQL, its noun in sentences, and the measures behind it.

    ``noun`` is one answer of it, ``written`` the names that the shell suggests, ``nodes`` what the
    parser makes of it; none for counts and sums, which are read by their arguments. ``parts`` are
    the measures that a composed one is computed from, in the order in which
    :mod:`dpsql.accuracy.estimates` takes them (``VALUES`` stands for ``NUMBERS`` where there may be
    NaN); none for what is one noisy measure itself, or is drawn.
    """

    name: str
    noun: str
    written: tuple[str, ...]
    nodes: tuple[type[exp.AggFunc], ...] = ()
    parts: tuple[MeasureKind, ...] = ()


_MEAN = (MeasureKind.CENTERED_SUM, MeasureKind.VALUES)
_SPREAD = (*_MEAN, MeasureKind.CENTERED_SQUARES)
_MEAN_OF_UNITS = (MeasureKind.CENTERED_AVERAGES, MeasureKind.VALUES)


class AggregateKind(Enum):
    """The aggregate an analyst wrote: one entry each, and an estimate for those with parts."""

    COUNT_UNITS = AggregateSpec("count_units", "count", ("COUNT",))
    COUNT = AggregateSpec("count", "count", ("COUNT", "COUNT_IF"))
    SUM = AggregateSpec("sum", "sum", ("SUM",))
    AVG = AggregateSpec("avg", "average", ("AVG",), (exp.Avg,), _MEAN)
    AVG_OF_UNITS = AggregateSpec("avg_of_units", "average of averages", (), (), _MEAN_OF_UNITS)
    VAR_POP = AggregateSpec("var_pop", "variance", ("VAR_POP",), (exp.VariancePop,), _SPREAD)
    VAR_SAMP = AggregateSpec("var_samp", "variance", ("VARIANCE",), (exp.Variance,), _SPREAD)
    STDDEV_POP = AggregateSpec(
        "stddev_pop", "standard deviation", ("STDDEV_POP",), (exp.StddevPop,), _SPREAD
    )
    STDDEV_SAMP = AggregateSpec(
        "stddev_samp", "standard deviation", ("STDDEV",), (exp.StddevSamp, exp.Stddev), _SPREAD
    )
    QUANTILE = AggregateSpec(
        "quantile",
        "quantile",
        ("MEDIAN", "QUANTILE_CONT", "QUANTILE_DISC", "MIN", "MAX"),
        (
            exp.Median,
            exp.PercentileCont,
            exp.PercentileDisc,
            exp.Quantile,
            exp.ApproxQuantile,
            exp.Min,
            exp.Max,
        ),
    )

    @property
    def composed(self) -> bool:
        """True if the answer is computed from several noisy measures."""
        return bool(self.value.parts)

    @property
    def is_average(self) -> bool:
        """True of AVG, of rows or of units."""
        return self.value.parts in (_MEAN, _MEAN_OF_UNITS)

    @property
    def of_units(self) -> AggregateKind | None:
        """The same of what units have in a group, each counting once; None where there is none."""
        return AggregateKind.AVG_OF_UNITS if self is AggregateKind.AVG else None

    @property
    def is_spread(self) -> bool:
        """True of variances and standard deviations."""
        return self.value.parts == _SPREAD

    @property
    def is_deviation(self) -> bool:
        """True if the answer is the root of a variance."""
        return self in (AggregateKind.STDDEV_POP, AggregateKind.STDDEV_SAMP)

    @property
    def of_sample(self) -> bool:
        """True if the number of values counts as one less, as in a sample."""
        return self in (AggregateKind.VAR_SAMP, AggregateKind.STDDEV_SAMP)


@dataclass(frozen=True, slots=True)
class Lattice:
    """The fixed-point grids of a bounded value.

    Rows are rounded to steps of ``quantum`` (1 for moderate integers, else a power of two, so that
    grid points are exact doubles) and summed exactly. A group's total is then divided by
    ``coarsening``, which keeps noise scales in the range of the samplers without rounding each row.
    ``low`` and ``high`` enclose the bounds, in steps of ``quantum``. ``integral`` says that the
    values are integers: their sums are shown as integers and none can be NaN. ``root`` is set where
    the values are made of those of another lattice: squared distances from its midpoint, or
    averages of a unit.
    """

    lower: float
    upper: float
    quantum: float
    low: int
    high: int
    coarsening: int
    integral: bool
    root: Lattice | None = None

    @property
    def midpoint(self) -> int:
        """The step that averages are centred on."""
        return (self.low + self.high) // 2

    @property
    def half_width(self) -> int:
        """The largest distance of a step from the midpoint."""
        return max(self.high - self.midpoint, self.midpoint - self.low)

    def squares(self, max_rows_contributed: int) -> Lattice:
        """Return the lattice of squared distances from the midpoint."""
        high, quantum = self.half_width**2, self.quantum**2
        coarsening = coarsening_for(max_rows_contributed * high)
        upper = high * quantum
        return Lattice(0.0, upper, quantum, 0, high, coarsening, self.integral, self)

    def averages(self, bounds: tuple[float, float]) -> Lattice:
        """Return the lattice of averages within bounds of their own, of the same steps."""
        lower, upper = bounds
        low, high = math.floor(lower / self.quantum), math.ceil(upper / self.quantum)
        found = Lattice(lower, upper, self.quantum, low, high, 1, integral=False, root=self)
        return replace(found, coarsening=coarsening_for(found.half_width))

    def released(self, fine_sensitivity: int) -> int:
        """Compute the sensitivity after coarsening: integer division adds at most one step."""
        if self.coarsening == 1:
            return max(1, fine_sensitivity)
        return fine_sensitivity // self.coarsening + 1


def coarsening_for(fine_sensitivity: int) -> int:
    """Return the power of two that brings a sensitivity down to RELEASED_BITS."""
    return 1 << max(0, (max(1, fine_sensitivity) - 1).bit_length() - RELEASED_BITS)


@dataclass(frozen=True, slots=True)
class WeightGrid:
    """The fixed-point grid of what a unit adds to a group times the unit's weight.

    A whole weight is ``steps``. Each product is divided by ``coarsening``, towards zero, before it
    is summed: rounding a group's total instead would let every group of a unit move by a step more.
    """

    steps: int
    coarsening: int


@dataclass(frozen=True, slots=True)
class Measure:
    """One noisy integer per group: its kind, its argument (and its text) and its grids.

    ``per_group`` bounds what a unit adds to a group it has values in, in steps of the lattice's
    quantum; without it ``max_rows_contributed`` decides. Distinct values are counted, or added up
    where they have a ``lattice``. ``weights`` is set where units with many
    groups are weighted; then it replaces the lattice's own coarsening.
    """

    kind: MeasureKind
    argument: exp.Expr | None = None
    text: str = ""
    lattice: Lattice | None = None
    per_group: tuple[int, int] | None = None
    weights: WeightGrid | None = None

    def weighted(self, steps: int, max_rows_contributed: int) -> Measure:
        """Return the same measure of weighted units, a whole weight being ``steps``."""
        products = self.reach(max_rows_contributed) * steps
        return replace(self, weights=WeightGrid(steps, coarsening_for(products)))

    def contribution(self, max_rows_contributed: int) -> tuple[int, int]:
        """Find the least and the most that a unit adds to a group, in steps of the quantum."""
        if self.per_group is not None:
            return min(0, self.per_group[0]), max(0, self.per_group[1])
        if self.kind in (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS):
            return 0, 1
        rows, lattice = max_rows_contributed, self.lattice
        if lattice is None:
            return 0, rows
        if self.kind is MeasureKind.CENTERED_AVERAGES:
            return -lattice.half_width, lattice.half_width
        if self.kind in (MeasureKind.SUM, MeasureKind.DISTINCT):
            return min(0, rows * lattice.low), max(0, rows * lattice.high)
        return -rows * lattice.half_width, rows * lattice.half_width

    def reach(self, max_rows_contributed: int) -> int:
        """Find the most by which a unit moves a group, in steps of the lattice's quantum."""
        low, high = self.contribution(max_rows_contributed)
        return max(-low, high)

    def sensitivity(self, max_rows_contributed: int) -> int:
        """Tell how far one unit can move this measure in one group (Δ∞), in released steps.

        With weights it also bounds the l2 norm over all groups: a unit whose weights have the l2
        norm of g whole ones moves them by at most sqrt(g) times as much.
        """
        reach = self.reach(max_rows_contributed)
        if self.weights is not None:
            return max(1, -(-reach * self.weights.steps // self.weights.coarsening))
        return reach if self.lattice is None else self.lattice.released(reach)

    @property
    def monotone(self) -> bool:
        """True if adding a unit can only raise the measure (so selection costs half as much)."""
        return self.contribution(1)[0] >= 0

    @property
    def counts_units(self) -> bool:
        """True if a unit adds 1 at most, however many rows it has."""
        return self.kind in (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS)

    @property
    def of_rows(self) -> Lattice | None:
        """The lattice of what is summed over a unit's rows."""
        if self.kind is MeasureKind.DISTINCT:
            return None  # which are told apart first
        if self.kind is not MeasureKind.CENTERED_AVERAGES or self.lattice is None:
            return self.lattice
        return self.lattice.root

    @property
    def bounded_by_rows(self) -> bool:
        """True if ``max_rows_contributed`` decides how much a unit adds to a group."""
        once = self.counts_units or self.kind is MeasureKind.CENTERED_AVERAGES
        return self.per_group is None and not once

    @property
    def adds_up(self) -> bool:
        """True if rows add something to it, and none takes away.

        Such are counts, and sums of values that cannot be negative. Then what bounding leaves out
        is a part of what there is.
        """
        if self.counts_units:
            return True
        if self.kind in (MeasureKind.ROWS, MeasureKind.VALUES, MeasureKind.NUMBERS):
            return True
        if self.kind is not MeasureKind.SUM or self.lattice is None or self.lattice.low < 0:
            return False
        return self.per_group is None or self.per_group[0] <= 0 <= self.per_group[1]

    @property
    def step(self) -> float:
        """The value of one released step, in the units of the answer."""
        if self.weights is not None:
            quantum = 1.0 if self.lattice is None else self.lattice.quantum
            return quantum * self.weights.coarsening / self.weights.steps
        return 1.0 if self.lattice is None else self.lattice.quantum * self.lattice.coarsening

    @property
    def integral(self) -> bool:
        """True if the measure is shown as an integer: counts, and sums of integers."""
        if self.lattice is None:
            return True
        return self.lattice.integral and self.lattice.quantum * self.lattice.coarsening >= 1.0

    @property
    def name(self) -> str:
        """The name in plans: ``units``, ``rows``, ``sum(dep_delay)``."""
        summed = self.kind is MeasureKind.DISTINCT and self.lattice is not None
        kind = "distinct_sum" if summed else self.kind.value
        return f"{kind}({self.text})" if self.text else kind


@dataclass(frozen=True, slots=True)
class Ranked:
    """The values that quantiles are asked of: an argument, rounded to points on a lattice.

    Each step of the lattice is a point; or, where the bounds are too wide for that, so many
    ``bits`` of each step's size are kept, as in a floating-point number. Points are numbered from
    that of the lattice's lowest step.
    """

    argument: exp.Expr
    lattice: Lattice
    bits: int | None = None

    @property
    def points(self) -> int:
        """The number of values there can be."""
        return self.number(self.lattice.high) - self.number(self.lattice.low) + 1

    def first_steps(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the step next to 0 of those that each point stands for."""
        if self.bits is None:
            return points + self.lattice.low
        numbers = points + self.number(self.lattice.low)
        sizes, one = np.abs(numbers), 1 << self.bits
        octaves = np.maximum(sizes // one - 1, 0)
        steps: NDArray[np.int64] = np.sign(numbers) * ((sizes - octaves * one) << octaves)
        return steps

    def number(self, step: int) -> int:
        """Number the point of a step, from 0 at step 0."""
        if self.bits is None:
            return step
        octave = max(0, abs(step).bit_length() - 1 - self.bits)
        number = (octave << self.bits) + (abs(step) >> octave)
        return number if step >= 0 else -number


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which a ``fraction`` of a group's rows lie. ``whole`` ones are integers.

    An ``extreme`` is MIN or MAX: so few rows from the end, where the fraction is 0 or 1, that it
    lies within the data as a rule.
    """

    ranked: Ranked
    fraction: Fraction
    whole: bool
    extreme: bool = False


@dataclass(frozen=True, slots=True)
class MaxError:
    """Half the width that the intervals of an aggregate may have, in the units of the answer.

    ``place`` is where the query says so, None where it was set elsewhere.
    """

    value: float
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the select list: its kind and the measures (by index) it is computed from.

    A quantile is computed from none. ``max_error`` is how far noise may move it, None where an
    epsilon decides; it is no part of what is asked: all that it does is to find the epsilon.
    ``one_row`` tells that rows are counted as units, since ``max_rows_contributed`` is 1: this
    number cuts the others.
    """

    kind: AggregateKind
    measures: tuple[int, ...]
    text: str
    quantile: Quantile | None = None
    max_error: MaxError | None = field(default=None, compare=False)
    one_row: bool = field(default=False, compare=False)

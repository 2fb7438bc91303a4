"""The base of all kinds of release: reading, drawing, intervals and words.

None of what was read is released: it goes from reading to releasing and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Appearance, Threshold, appearance, large_enough, threshold
from dpsql.accuracy.chosen import ChosenNoise
from dpsql.accuracy.estimates import (
    FloatArray,
    PlausibleRange,
    estimate_range,
)
from dpsql.accuracy.intervals import (
    GroupsTotal,
    Interval,
    interval_given_choice,
    largest_left_out,
    risked_confidence,
    supposedly_cut,
    tells_of_rows,
    total_counted,
    with_drift,
    with_rounding,
)
from dpsql.accuracy.joint import joint_range
from dpsql.accuracy.wording import (
    Part,
    ShownAggregate,
    enumerated,
    printable_name,
    score_unit,
    unit_words,
)
from dpsql.core.formatting import DEFAULT_CONFIDENCE, figure_above
from dpsql.core.progress import Percent
from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ArrowStream, ExactRows, KeyArrays, PrivateReader, Scratch
from dpsql.ir.measures import Aggregate, MeasureKind
from dpsql.ir.plan import (
    BlockPlan,
    BoundedBy,
    ColumnFigure,
    LeftOutPlan,
    LeftOutStatus,
    LeftOutSubject,
    PreparedBlock,
    PreparedEstimate,
    ReleaseNoise,
    RolledUp,
    StepFigure,
)
from dpsql.ir.query import NoiseFigure
from dpsql.kinds.left_out import ExactLeftOut
from dpsql.kinds.released import NumericArray, ReleasedRows
from dpsql.kinds.staged import StagedRows, StoredPairs, StoredStage
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.stage import Stage, stage_of

KeysOf = Callable[[NDArray[np.int64]], KeyArrays | ArrowStream]
"""The keys of groups given by their row ids: in this order, or a stream with the row ids."""

Rows: TypeAlias = NDArray[np.bool_] | slice
"""Some of the rows of an answer."""

LARGE: Final = 3.0
"""The standard deviation from which noise on integers is like noise on a continuum."""
USUAL: Final = 0
"""The usual way of release, for rows without another."""
GROUPS: Final = f"{INTERNAL_PREFIX}groups"
"""The table of the groups that a read has stored: row id, keys, measures where there are some."""
_CHOSEN_FEW: Final = 50  # groups that are found faster one by one than by a join

FEW: Final = np.arange(1, 2, dtype=np.int64)
MANY: Final = np.arange(1, 101, dtype=np.int64)
"""Row ids for rehearsals: few are looked for in one way, many in another."""


@dataclass(frozen=True, slots=True)
class BlockReading:
    """The inputs of reading a block: its rows, under a salt of this read alone.

    ``estimates`` are those to be taken at the same rows. What is ``stored`` are these rows, grouped
    already.
    """

    block: PreparedBlock
    rows: PrivateReader
    dialect: Dialect
    salt: int
    progress: Percent
    estimates: Sequence[PreparedEstimate] = ()
    stored: StagedRows | None = None

    @property
    def stage(self) -> StoredStage | None:
        """The stored table of grouped rows, where SQL bounds."""
        return self.stored if isinstance(self.stored, StoredStage) else None

    @property
    def pairs(self) -> StoredPairs | None:
        """The kept pairs of grouped rows, where NumPy bounds."""
        return self.stored if isinstance(self.stored, StoredPairs) else None

    @property
    def plan(self) -> BlockPlan:
        """The plan of the block."""
        return self.block.plan


class ExactBlock(Protocol):
    """The exact rows of a block, and further reading for the groups that come out."""

    @property
    def estimates(self) -> Mapping[str, ExactLeftOut]:
        """The exact rows of estimates that were read with the block, by fingerprint."""

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw the release.

        Guarantee: ``plan.loss(released)``, as δ-approximate zCDP or by the one-shot definition,
        for exact values within the sensitivities of the generated SQL.
        """

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for all that a release could ask back for."""


@dataclass(frozen=True)
class ReleaseKind(ABC):
    """A plan as one of its kind of release.

    What is not abstract is answered as for groups whose noise is drawn at once.
    """

    plan: BlockPlan
    staged: ClassVar[bool] = False
    """True for kinds that can read a stage instead of rows."""
    countings: ClassVar[tuple[int, ...]] = (USUAL,)
    """All that the last column of an aggregate's supports may say of how a row was counted."""

    @property
    def later_columns(self) -> frozenset[str]:
        """The drawn columns that stored releases may lack, as of an earlier format."""
        return frozenset()

    @property
    def drawn(self) -> bool:
        """True if values were drawn for it; False if they follow from earlier releases."""
        return self.plan.kept is None

    @classmethod
    @abstractmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a plan is of this kind."""

    def private_rows(self, salt: int, dialect: Dialect) -> PrivateRows:
        """Return the rows that its SQL is written over."""
        return PrivateRows(self.plan, salt, dialect)

    def rows_of(self, reading: BlockReading) -> PrivateRows:
        """Return the rows that a reading's SQL is written over."""
        rows = self.private_rows(reading.salt, reading.dialect)
        return rows if reading.stage is None else reading.stage.under(rows)

    def stage(self, dialect: Dialect, beside: Sequence[LeftOutPlan] = ()) -> Stage | None:
        """Write the stage that it can be read of, with estimates beside; None if there is none.

        Estimates of what clamps leave out read values that no stage has.
        """
        if not self.staged or not self.plan.measures or any(one.clamped for one in beside):
            return None
        return stage_of(self.private_rows(0, dialect))

    @abstractmethod
    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write the private reading as one statement, to be shown and bound for the types of keys.

        Its columns begin with the row id and the keys.
        """

    @abstractmethod
    def read(self, reading: BlockReading) -> AbstractContextManager[ExactBlock]:
        """Read a block's private rows; what was read is readable until this is left."""

    def bounded_by(self, dialect: Dialect, bounding: BoundingLimit) -> BoundedBy:
        """Choose the maker of bounds by the plan, the owner's limit and the installed packages."""
        return BoundedBy(why="this kind of answer is bounded in SQL")

    # -- intervals ----------------------------------------------------------------------------

    def groups_of_unit(self, released: int, columns: Sequence[FloatArray]) -> FloatArray | float:
        """Tell in how many groups a unit supposedly lacks the rows that are cut, for each row.

        ``columns`` are those of ``Block.interval_columns``.
        """
        return released if self.plan.groups is None else min(self.plan.groups, released)

    def taken(
        self,
        released: int,
        index: int,
        columns: Sequence[FloatArray],
        total: GroupsTotal | None,
    ) -> FloatArray:
        """Compute how much of each group bounding supposedly takes, of what is not composed.

        ``columns`` and ``total`` are as for :meth:`interval`.
        """
        groups = self.groups_of_unit(released, columns)
        cut = supposedly_cut(self.plan, groups, index, columns[0], total)
        return self.within_noise(released, index, columns, cut)

    def within_noise(
        self, released: int, index: int, columns: Sequence[FloatArray], cut: FloatArray
    ) -> FloatArray:
        """Limit what is supposedly cut of counts of rows as units to the 95% margin of their noise.

        A draw among groups of unknown keys aims at a small error of many groups: all that it may
        cut would be several times the noise of a single one.
        """
        if not self.plan.block.aggregates[index].one_row:
            return cut
        limits = np.zeros_like(cut)
        for way, rows in self.ways(columns):
            limits[rows] = self._margins(released, index, way, DEFAULT_CONFIDENCE)[0]
        return np.minimum(cut, limits)

    def tells_of_rows(self, index: int, totals: Sequence[GroupsTotal]) -> bool:
        """Tell whether a number of rows that bounds an aggregate was drawn of enough rows."""
        return tells_of_rows(self.plan, index, totals)

    def taken_either_way(
        self, released: int, index: int, columns: Sequence[FloatArray]
    ) -> FloatArray | float:
        """Compute how far bounding supposedly moves groups of a sum of both signs."""
        return 0.0

    def taken_of_all(self, columns: Sequence[FloatArray]) -> FloatArray | float:
        """Compute how many values weighing supposedly takes, of all groups of an average."""
        return 0.0

    def measured(self, index: int, columns: Sequence[FloatArray]) -> Sequence[FloatArray]:
        """Return the measures of an aggregate as they were counted."""
        number = len(self.plan.block.aggregates[index].measures)
        return columns if len(columns) == number else columns[-1 - number : -1]

    def interval(
        self,
        released: int,
        index: int,
        columns: Sequence[FloatArray],
        confidence: float,
        left_out: float | None = None,
        total: GroupsTotal | None = None,
    ) -> Interval:
        """Compute the intervals of an aggregate in a release of ``released`` groups.

        ``columns`` are those of ``Block.interval_columns``. Each interval covers, with at least
        this probability, the value without noise, and takes in the value that is shown.
        ``left_out`` is the largest value that LIMIT left out, as :func:`largest_left_out` finds it.
        ``total`` is that of :func:`total_counted`: with it, intervals reach further for rows beyond
        a number that was drawn.
        """
        aggregate, each = self.plan.block.aggregates[index], confidence
        if aggregate.kind.composed:  # all values that fit the measures, which share the risk
            each = float(np.nextafter(1 - (1 - confidence) / len(aggregate.measures), 1))
        above = np.zeros_like(columns[0])
        if not aggregate.kind.composed:
            above = self.taken(released, index, columns, total)
        chosen = self.chosen(released, index, confidence)
        if chosen is not None and left_out is not None:
            (values,), (measure,) = columns, aggregate.measures
            given = interval_given_choice(self.plan, chosen, measure, values, left_out)
            return Interval(given.low, given.high + above)
        low, high = np.full_like(columns[0], np.nan), np.full_like(columns[0], np.nan)
        measures = [one.measure for one in self.plan.measures]
        measured = self.measured(index, columns)
        for way, rows in self.ways(columns):
            noisy = [column[rows] for column in measured]
            parts = [
                PlausibleRange.around(one, margin)
                for one, margin in zip(
                    noisy, self._margins(released, index, way, each), strict=True
                )
            ]
            found = estimate_range(aggregate, measures, parts) if len(parts) > 1 else parts[0]
            if aggregate.kind.composed and self.large_gaussian(aggregate, way):
                margins = partial(self._margins, released, index, way)
                found = joint_range(aggregate, measures, noisy, margins, confidence, found)
            low[rows], high[rows] = found.low, found.high
        if not aggregate.kind.composed:
            low, high = np.minimum(low, columns[0]), np.maximum(high, columns[0])
        if aggregate.kind.composed:
            groups = self.groups_of_unit(released, columns)
            lost = self.taken_of_all(columns)
            interval = Interval(low, high)
            return with_drift(self.plan, groups, index, interval, measured[1], total, lost)
        either = self.taken_either_way(released, index, columns)
        return Interval(low - either, high + above + either)

    def _margins(self, released: int, index: int, way: int, confidence: float) -> Sequence[float]:
        """Compute half the intervals' widths of an aggregate's measures, each by itself."""
        aggregate = self.plan.block.aggregates[index]
        whole = self.plan.is_whole(aggregate)
        return [self.margin(released, m, whole, confidence, way) for m in aggregate.measures]

    def large_gaussian(self, aggregate: Aggregate, way: int) -> bool:
        """Tell whether the noise of all measures is Gaussian, and large beside their steps."""
        noises = [self.plan.noise_of(measure) for measure in aggregate.measures]
        return all(n.name.endswith("gaussian") and n.scale >= LARGE for n in noises)

    def ways(self, columns: Sequence[FloatArray]) -> Iterable[tuple[int, Rows]]:
        """List the ways in which rows were released, each with its rows."""
        return [(USUAL, slice(None))]

    def margin(
        self, released: int, index: int, whole: bool, confidence: float, way: int = USUAL
    ) -> float:
        """Compute half the interval's width of a measure, with LIMIT's choice by it allowed for.

        Of rows that came out in a way. ``whole``: the answer is an integer.
        """
        confidence = risked_confidence(self.plan, released, index, confidence)
        return self.reach(released, index, whole, confidence, way)

    def reach(self, released: int, index: int, whole: bool, confidence: float, way: int) -> float:
        """Bound how far noise and rounding move a measure of one row."""
        margin = self.plan.noise_of(index).margin(confidence, self.plan.spread_groups(released))
        return with_rounding(self.plan, index, whole, margin)

    def widest_margin(self, index: int, confidence: float) -> float | None:
        """Compute half the width of an aggregate's intervals, for the groups where it is largest.

        In the units of the answer; None where it depends on what is released. Where the noise
        depends on how many groups come out, these are 1 or the most there can be: noise that groups
        share is larger the fewer they are, and what LIMIT's choice may do to it the more they are.
        """
        plan = self.plan
        aggregate, most = plan.block.aggregates[index], self.most_released
        if aggregate.kind.composed:
            return None
        (measure,), whole = aggregate.measures, plan.is_whole(aggregate)
        released = (1,) if most is None else (1, most)
        return max(self.margin(n, measure, whole, confidence) for n in released)

    @property
    def most_released(self) -> int | None:
        """The most groups that can come out before LIMIT; None without a bound."""
        return self.plan.max_released

    def figure(self, index: int) -> ColumnFigure:
        """Describe the noise that an aggregate will carry."""
        plan, aggregate = self.plan, self.plan.block.aggregates[index]
        measure = aggregate.measures[0]
        noise, step = plan.noise_of(measure), plan.measures[measure].measure.step
        groups = plan.groups if plan.groups is not None else plan.max_released
        assert groups is not None
        composed = aggregate.kind.composed
        return ColumnFigure(
            aggregate=aggregate.text,
            noise=noise.name,
            noise_scale=noise.scale * step,
            noise_std=None if composed else noise.std(groups) * step,
            margin95=None if composed else noise.margin(0.95, groups) * step,
        )

    def scales(self, index: int, columns: Sequence[FloatArray]) -> FloatArray:
        """Compute the scale of the noise on an aggregate of one measure, in the answer's units.

        ``columns`` are those of ``Block.interval_columns``; the answer has one value for each row.
        Of what follows from other releases it is the standard deviation.
        """
        (measure,) = self.plan.block.aggregates[index].measures
        scales = np.full_like(columns[0], np.nan)
        for way, rows in self.ways(columns):
            scales[rows] = self.scale(measure, way) * self.plan.measures[measure].measure.step
        return scales

    def scale(self, measure: int, way: int) -> float:
        """Compute the scale of the noise on a measure, in its steps."""
        return self.plan.noise_of(measure).scale

    def chosen(self, released: int, index: int, confidence: float) -> ChosenNoise | None:
        """Describe the noise of an aggregate given LIMIT's choice by it, where that is narrower."""
        return None

    def varies(self, released: int, index: int, confidence: float) -> bool:
        """Tell whether each row has an interval of an aggregate of a width of its own."""
        return self.chosen(released, index, confidence) is not None

    def uniform(self, values: Mapping[str, NumericArray]) -> bool:
        """Tell whether all rows came out of the same releases."""
        return True

    def with_noise_columns(self, answers: dict[str, NumericArray]) -> dict[str, NumericArray]:
        """Join to the released values what the tail asks of their noise: arrays of shape (groups,).

        That is a function of the plan and of what is released anyway.
        """
        block = self.plan.block
        columns: dict[str, NumericArray] = {}
        for position, asked in enumerate(block.noise_columns):
            index = asked.aggregate
            values = [answers[name].astype(np.float64) for name in block.interval_columns(index)]
            if asked.figure is NoiseFigure.SCALE:
                found = self.scales(index, values)
            else:
                left, groups = largest_left_out(self.plan, values[0]), len(values[0])
                total = total_counted(block.aggregates[index], values)
                interval = self.interval(groups, index, values, asked.confidence, left, total)
                found = interval.low if asked.figure is NoiseFigure.LOW else interval.high
            columns[block.noise_column(position)] = found
        return answers | columns

    # -- words --------------------------------------------------------------------------------

    @abstractmethod
    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield where values come from, which groups appear, and how a unit was bounded."""

    def appearance(self) -> Appearance | None:
        """Tell which groups appear how often, or None if the data do not decide."""
        return appearance(self.plan)

    def threshold(self, aggregate: int) -> Threshold | None:
        """Find the threshold on an aggregate, or None where another value decides, or nothing."""
        return threshold(self.plan, aggregate)

    def selected(self, aggregate: int) -> bool:
        """Tell whether the noise on an aggregate also decided which groups appear."""
        return self.plan.block.aggregates[aggregate].measures == (self.plan.score,)

    def condition(self, shown: Sequence[ShownAggregate]) -> str:
        """State the condition under which selected values have their interval."""
        selected = [printable_name(one.name) for one in shown if self.selected(one.aggregate)]
        half = self.appears_half()
        if not selected or half is None:
            return ""
        whose = "" if len(selected) == len(shown) else f" that of {enumerated(selected)}"
        return f",{whose} in groups {self.large_groups(half)}"

    def large_groups(self, half: float) -> str:
        """Name the groups that appear at least half the time, by their size."""
        plan = self.plan
        unit = score_unit(plan) if large_enough(plan) is None else unit_words(plan)
        return f"of {figure_above(half)} {unit} or more"

    def appears_half(self) -> float | None:
        """Find the size from which a group appears at least half the time in each release."""
        found = self.appearance()
        return None if found is None else found.half

    @property
    def pooled(self) -> int:
        """The number of releases that values are pooled from."""
        return 1

    @property
    def rolled_up(self) -> RolledUp | None:
        """The release that values were rolled up from; None for values of their own."""
        return None

    # -- figures ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bounding(self) -> str:
        """The bound on a unit's contribution, in words."""

    @property
    def counted_by(self) -> str | None:
        """The measure that decides who appears; None if all groups do."""
        plan = self.plan
        return None if plan.score is None else plan.measures[plan.score].measure.name

    @property
    def steps(self) -> tuple[StepFigure, ...]:
        """The steps of the release, if it has several."""
        return ()

    # -- what bounding leaves out -------------------------------------------------------------

    @property
    def groups_added(self) -> int | None:
        """The most groups with undivided weight of a unit; None without such a number.

        None as well where estimates have no price.
        """
        return None

    @property
    def leaves_out_groups(self) -> bool:
        """True if bounding may leave groups of a unit out."""
        return True

    @property
    def shares_rows(self) -> bool:
        """True if estimates can be taken at the rows of units and groups that the block is made of.

        Not where it counts distinct values, which needs the rows below these.
        """
        kinds = [noisy.measure.kind for noisy in self.plan.measures]
        return self.groups_added is not None and MeasureKind.DISTINCT not in kinds

    def beside(self, block: PreparedBlock, wanted: Set[str]) -> tuple[PreparedEstimate, ...]:
        """List a block's estimates, of these fingerprints, that can be taken at the same rows."""
        if not self.shares_rows:
            return ()
        beside = {one.fingerprint: one for one in block.estimates if one.fingerprint in wanted}
        return tuple(beside.values())

    def left_out_status(self, aggregate: Aggregate) -> LeftOutStatus:
        """Tell whether bounding leaves out rows of an aggregate, and whether that is estimated."""
        subject = LeftOutSubject.of(self.plan, aggregate)
        if subject is None:
            return LeftOutStatus.NOT_TOLD
        if any(estimate.subject == subject for estimate in self.plan.estimates):
            return LeftOutStatus.ESTIMATED
        return LeftOutStatus.NOT_TOLD if self.cuts(subject) else LeftOutStatus.NOTHING

    def cuts(self, subject: LeftOutSubject) -> bool:
        """Tell whether bounding may leave out some of a subject, by what the owner declares."""
        block, bounding = self.plan.block, self.plan.bounding
        kept = None if bounding is None else bounding.groups
        groups = self.leaves_out_groups and not _within(block.unit_groups, kept)
        measure = subject.bounded_measure(self.plan)
        if measure.counts_units:
            return groups
        rows = _within(block.unit_rows, block.parameters.rows_limit)
        return groups or measure.per_group is not None or not rows

    # -- bytes --------------------------------------------------------------------------------

    def published(self, released: int, *, alone: bool) -> ReleaseNoise | None:
        """Describe the noise in a release of ``released`` groups.

        It is kept with the release. None for what is not pooled with others.
        """
        return None

    @property
    def adds_up(self) -> bool:
        """True if its groups can be rolled up to those of fewer keys, as they come out."""
        return False


def _within(most: int | None, kept: int | None) -> bool:
    """Tell whether what a unit has at most is kept; None where either number is not known."""
    return most is not None and kept is not None and most <= kept


def keys_at(exact: ExactRows, indices: NDArray[np.intp]) -> KeyArrays | ArrowStream:
    """Take the keys at some positions, or keep the stream of all that were read.

    ``indices``: positions, of shape (groups,).
    """
    if isinstance(exact.keys, dict):
        return {name: values[indices] for name, values in exact.keys.items()}
    return exact.keys


def stored_groups(columns: Sequence[str]) -> Sql:
    """Write the query of row ids and some columns of the groups that are stored as GROUPS."""
    return sql("SELECT {} FROM {}", join(", ", map(quoted, (ROW_ID, *columns))), quoted(GROUPS))


def chosen_groups(columns: Sequence[str], chosen: int, dialect: Dialect) -> Sql:
    """Write the query of stored groups for a given list of row ids."""
    among = dialect.among_given(quoted(ROW_ID), few=chosen <= _CHOSEN_FEW)
    return sql("{} WHERE {}", stored_groups(columns), among)


def keys_in(scratch: Scratch, reading: BlockReading) -> KeysOf:
    """Return how to read the keys of groups that are stored in ``scratch``."""
    keys, dialect = reading.block.keys, reading.dialect
    names = [key.name for key in keys]

    def keys_of(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        exact = scratch.keys(chosen_groups(names, len(ids), dialect), keys, ids)
        return keys_at(exact, np.searchsorted(exact.row_ids, ids))

    return keys_of

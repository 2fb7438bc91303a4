"""Cascades: the distinct pairs of units and keys on a stage, and the steps drawn from it.

The release asks for one exact step after the other. What it asks for is made of public parameters
and of what it has released: row ids of named groups, how many keys a unit keeps, a cap.

The stage is made of tables of one question, each stored by a generated SELECT over earlier ones:

* ``pairs``: one row per unit and keys, with what the unit adds to the group, and the salted hash by
  which a unit's keys are ordered;
* ``groups``: every key with a row id, its rank among them;
* ``staged``: the pairs with the row id in place of the keys.

Of keys alone row ids are ranks by a salted hash of the keys, and ``passed`` has the pairs unit by
unit, for votes.

Steps read the stage, or what is left of it: ``named`` holds the groups with a name, ``left`` the
pairs of all others, ``counted`` the pairs of those that are counted. Which groups have a name comes
as a list of row ids, from released rows. Beside each table of pairs is one of how many of them each
unit has there (:func:`sizes_of`), which all that reads the pairs needs.

The order of a unit's keys depends on the unit, the key and the salt, and is the same in each round:
so is a row id relative to another, but not the row id, which is why the hash is not one of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Appearance, appearance
from dpsql.accuracy.estimates import FloatArray
from dpsql.accuracy.intervals import GroupsTotal, supposedly_cut, with_rounding
from dpsql.accuracy.wording import UNBOUNDED, Part, groups_chosen, printable_name, rows_per_group
from dpsql.core.formatting import figure_above
from dpsql.core.progress import Percent, ReadingProgress
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import EMPTY_SQL, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ArrowStream, KeyArrays, Scratch
from dpsql.ir.measures import Aggregate, Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, BoundedBy, Maker, StepFigure
from dpsql.kinds.base import (
    FEW,
    GROUPS,
    LARGE,
    MANY,
    BlockReading,
    KeysOf,
    ReleaseKind,
    Rows,
    keys_in,
)
from dpsql.kinds.left_out import ExactLeftOut
from dpsql.kinds.released import NumericArray, ReleasedRows, aggregate_answers, drawn_columns
from dpsql.kinds.streamed import bounded_by
from dpsql.kinds.streamed_cascade import streamed_steps
from dpsql.kinds.union import UNITS_TABLE, numbered_units, pairs_between, units_in_order
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps
from dpsql.privacy.mechanisms.cascade import (
    CAP_CHOICES,
    COUNTINGS,
    KEPT_CHOICES,
    MOST_SQUARES,
    NAMED_ALONE,
    WHOLE_SHARE,
    Caps,
    Cascade,
    CascadeGoal,
    CascadeRows,
    ChosenCap,
    NamedGroups,
    PilotNoise,
    UnitSizes,
    cascade_in,
    scaled_counts,
    spread_noise,
)
from dpsql.privacy.mechanisms.naming import GroupWeights
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.mechanisms.weighted_histogram import (
    PART_STEPS,
    SQUARE_STEPS,
    WEIGHT_STEPS,
    weight_of,
)
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.rewrite.contributions import Gathered, summed
from dpsql.sql.rewrite.rewrite import Rewriter
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.weighting import UNIT_WEIGHT, rows_within, unit_weight, weight_within

STAGED_PAIRS, NAMED_IDS, LEFT_PAIRS, COUNTED_PAIRS, PASSED_PAIRS = (
    f"{INTERNAL_PREFIX}{name}" for name in ("staged", "named", "left", "counted", "passed")
)
_RAW_PAIRS = f"{INTERNAL_PREFIX}pairs"
_STAGED = 60  # percent, once the pairs are on the stage
_OF_A_STEP = 7
_SQUARES, _SUMS, _WEIGHT_OF_UNITS = "squares", "sums", "weight_of_units"
_MOST: Final = MOST_ROWS * MOST_SQUARES * SQUARE_STEPS  # that a norm of a unit has, or its square
_KEPT: Final = 1  # groups of a unit, a number in the text of statements


@dataclass(frozen=True, slots=True)
class ExactCascade:
    """The exact rows of a cascade's steps, each read on demand.

    ``totals`` counts the groups with some row ids at caps: int64 arrays of shape (groups,) in this
    order, one for each measure that is counted; 0 is a group without rows. ``keys_of`` reads keys.
    """

    rows: CascadeRows
    totals: Callable[[NDArray[np.int64], Caps], list[NDArray[np.int64]]]
    keys_of: KeysOf
    estimates: Mapping[str, ExactLeftOut] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw the named groups and their values.

        Guarantee: ``plan.loss(None)``, whatever comes out, for steps within the sensitivities of
        ``CascadeSQL``.
        """
        drawn = draw_cascade(plan, self, source)
        ids = drawn.named.ids
        return ReleasedRows(ids, self.keys_of(ids), drawn.answers(plan), plan.loss(len(ids)))

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for each step, with groups that were named before and without."""
        for named in (None, FEW):
            self.rows.unit_sizes(named)
        for named_before in (np.zeros(0, dtype=np.int64), FEW):
            self.rows.unnamed_weights(named_before, _KEPT)
        if not units_alone(plan):
            self.rows.unit_norms(FEW)
            self.rows.norm_shares(FEW)
        for cap in (CAP_CHOICES[0], CAP_CHOICES[-1]):
            self.totals(FEW, Caps(cap, cap))
        if CascadeKind(plan).cascade.votes is not None:
            for _ in self.rows.units_in_order():
                pass
        for ids in (FEW, MANY):
            self.keys_of(ids)


class CascadeKind(ReleaseKind):
    """Groups that are named in rounds, then counted at a privately chosen cap."""

    staged = True
    countings = COUNTINGS

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a plan has several steps."""
        return cascade_in(plan.selection) is not None

    @property
    def cascade(self) -> Cascade:
        """The mechanism that names groups in rounds; its noise of measures is for a cap of 1."""
        found = cascade_in(self.plan.selection)
        assert found is not None
        return found

    def sql(self, salt: int, dialect: Dialect) -> CascadeSQL:
        """Write its statements."""
        return self._over(self.private_rows(salt, dialect))

    def _over(self, rows: PrivateRows) -> CascadeSQL:
        return cascade_sql(rows, by_hash=self._by_hash)

    @property
    def _by_hash(self) -> bool:
        """True where units may vote, each for the first of its keys by their numbers."""
        return self.cascade.goal is CascadeGoal.KEYS

    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write all up to the first round as one statement."""
        return self.sql(salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactCascade]:
        """Put the pairs of units and keys on a stage, in the engine or beside it."""
        progress = StepProgress(reading.progress)
        with reading.rows.scratch() as scratch:
            keys_of = progress.ending(keys_in(scratch, reading))
            if reading.block.bounded_by.maker is Maker.NUMPY:
                rows = streamed_steps(reading, scratch, progress.step, by_hash=self._by_hash)
                progress.staged(1, 1)
                yield ExactCascade(rows, rows.totals, keys_of)
                return
            steps = self._over(self.rows_of(reading))
            stored = None if reading.stage is None else reading.stage.table
            yield read_cascade(steps, scratch, keys_of, progress, stored)

    def bounded_by(self, dialect: Dialect, bounding: BoundingLimit) -> BoundedBy:
        """Choose NumPy where it bounds all that is asked."""
        return bounded_by(self.private_rows(0, dialect), bounding, read_often=True)

    def ways(self, columns: Sequence[FloatArray]) -> Iterable[tuple[int, Rows]]:
        """List the kinds of counting that rows of the release have, each with its rows."""
        found = ((counting, columns[-1] == counting) for counting in COUNTINGS)
        return [(counting, rows) for counting, rows in found if rows.any()]

    def groups_of_unit(self, released: int, columns: Sequence[FloatArray]) -> FloatArray | float:
        """Return in how many groups a unit lacks rows that were cut in each, as of the cap.

        None, where a number that was drawn is a scale of norms: what a cap takes is told.
        """
        cut = np.isnan(columns[-2]) | (rows_within(self.plan) == self._rows)
        return np.where(cut, self._counted_in(released, columns), 0.0)

    def _counted_in(self, released: int, columns: Sequence[FloatArray]) -> FloatArray:
        return np.clip(np.abs(columns[-1]), 1.0, released)

    @property
    def _rows(self) -> int:
        return self.plan.block.parameters.rows_limit

    def measured(self, index: int, columns: Sequence[FloatArray]) -> Sequence[FloatArray]:
        """Return the measures of an aggregate as they were counted."""
        number = len(self.plan.block.aggregates[index].measures)
        return columns[-2 - number : -2]

    def taken(
        self,
        released: int,
        index: int,
        columns: Sequence[FloatArray],
        total: GroupsTotal | None,
    ) -> FloatArray:
        """Compute what weighing supposedly takes of each group, as :meth:`GroupsTotal.parts` does.

        With what is cut of each where a number of rows bounds it.
        """
        measure = self.plan.measures[self.plan.block.aggregates[index].measures[0]].measure
        counted_in = self._counted_in if measure.counts_units else self.groups_of_unit
        groups = counted_in(released, columns)
        cut = supposedly_cut(self.plan, groups, index, columns[0], total)
        cut = self.within_noise(released, index, columns, cut)
        if total is None or self._both_signs(index):
            return cut
        return np.asarray(cut + _told(columns) * total.parts(columns[0], measure.step))

    def tells_of_rows(self, index: int, totals: Sequence[GroupsTotal]) -> bool:
        """Tell so where a number of rows bounds each group: as a scale of norms it cuts nothing."""
        measure = self.plan.measures[self.plan.block.aggregates[index].measures[0]].measure
        scale = rows_within(self.plan) > self._rows and not measure.counts_units
        return scale or super().tells_of_rows(index, totals)

    def taken_either_way(
        self, released: int, index: int, columns: Sequence[FloatArray]
    ) -> FloatArray | float:
        """Divide what weighing takes of a sum of both signs equally among all groups."""
        return _told(columns) / max(1, released) if self._both_signs(index) else 0.0

    def taken_of_all(self, columns: Sequence[FloatArray]) -> FloatArray | float:
        """Return how many values weighing supposedly takes of all groups of an average."""
        return _told(columns)

    @property
    def later_columns(self) -> frozenset[str]:
        """The support columns of losses, which earlier releases lack."""
        block = self.plan.block
        return frozenset(
            supports[-2]
            for index in range(len(block.aggregates))
            if (supports := block.support_columns(index))
        )

    def _both_signs(self, index: int) -> bool:
        """Tell whether an aggregate is a sum of values that may be negative."""
        aggregate = self.plan.block.aggregates[index]
        return not self.plan.measures[aggregate.measures[0]].measure.monotone

    def reach(self, released: int, index: int, whole: bool, confidence: float, way: int) -> float:
        """Bound how far noise and rounding move a measure, as it was counted."""
        margin = noise_at(self.plan, index, way).margin(confidence, abs(way))
        return with_rounding(self.plan, index, whole, margin)

    def large_gaussian(self, aggregate: Aggregate, way: int) -> bool:
        """Tell whether noise is large beside steps, as each measure was counted: it is Gaussian."""
        noises = [noise_at(self.plan, measure, way) for measure in aggregate.measures]
        return all(noise.scale >= LARGE for noise in noises)

    def widest_margin(self, index: int, confidence: float) -> float | None:
        """Return None: the noise is chosen on the way."""
        return None

    def scale(self, measure: int, way: int) -> float:
        """Compute the scale of the noise as it was counted."""
        return noise_at(self.plan, measure, way).scale

    def varies(self, released: int, index: int, confidence: float) -> bool:
        """Tell that intervals are as wide as rows were counted."""
        return True

    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield sentences on how groups appear, and on rows that bounding leaves out untold."""
        plan, parameters = self.plan, self.plan.block.parameters
        found = self.appearance()
        if found is not None:
            yield _named_in_rounds(plan, found)
        yield from groups_chosen(plan)
        bounded = any(noisy.measure.kind not in UNBOUNDED for noisy in plan.measures)
        if bounded and parameters.left_out_share:
            rows = f"max_rows_contributed ({parameters.rows_limit:,})"
            yield f"With auto, what {rows} leaves out is not told."

    @property
    def counted_by(self) -> str | None:
        """Units whose other keys have names."""
        ever = self.cascade.score_if_brief(0.5) is not None
        more = " (more if the second round is the last)" if ever else ""
        return f"units with one unnamed key{more}"

    @property
    def bounding(self) -> str:
        """The bound on a unit's contribution to each step."""
        cascade, rows, within = self.cascade, rows_per_group(self.plan), rows_within(self.plan)
        if within > self._rows:
            rows = (
                f"where l2 norms are measured in {self._rows:,} rows of a group, and at most "
                f"{within:,} rows count per unit and group"
            )
        naming = "its keys weigh at most 1 together in l2 in each round"
        if cascade.shares.ends_after is not None:
            naming += ", of which the second is the last where it names few more than the first"
        if cascade.single:
            return f"at most 1 group per unit (sampled by a salted hash), {rows}"
        kept = f"of which a unit keeps {KEPT_CHOICES[0]} to {KEPT_CHOICES[-1]:,}, as the pilot says"
        if cascade.goal is CascadeGoal.KEYS:
            votes = "" if cascade.votes is None else f"; or {cascade.votes.bounding}"
            return f"{naming}, {kept} (sampled by a salted hash){votes}"
        caps = cascade.caps
        return (
            f"{naming}, {kept} (sampled by a salted hash); named groups weigh as much as {caps[0]} "
            f"to {caps[-1]:,} together in l2, as the second pilot says; {rows}"
        )

    @property
    def steps(self) -> tuple[StepFigure, ...]:
        """Its pilots, rounds and countings."""
        cascade, found = self.cascade, list[StepFigure]()
        if not cascade.single:
            found.append(_pilot_figure("pilot of keys per unit", cascade.pilot))
        narrow, wide = (cascade.naming_rounds(kept) for kept in (KEPT_CHOICES[0], KEPT_CHOICES[-1]))
        for number, (one, other) in enumerate(zip(narrow, wide, strict=True), start=1):
            thresholds = (one.threshold / WEIGHT_STEPS, other.threshold / WEIGHT_STEPS)
            std = one.noise.std / WEIGHT_STEPS
            found.append(
                StepFigure(f"naming, round {number}", one.rho(None), one.delta, std, thresholds)
            )
        counted = [noisy for noisy in self.plan.measures if noisy.noise is not None]
        if counted and not cascade.single:
            parts = _pilot_parts(self.plan)
            pilot = cascade.second_pilot(parts)
            if _units_counted(self.plan):
                found.append(_pilot_figure("pilot of named groups per unit", pilot))
            if not units_alone(self.plan):
                found.append(_pilot_figure("pilot of units' norms", pilot))
                noise = cascade.shares_noise(parts)
                std = noise.std(1) / WHOLE_SHARE
                found.append(StepFigure("pilot of norms' shares", noise.rho(1), 0.0, std))
        for noisy in counted:
            assert noisy.noise is not None
            if noisy.measure.kind is MeasureKind.UNITS and cascade.single:
                continue  # its one round has their number
            std = noisy.noise.std(1) * noisy.measure.step
            found.append(StepFigure(f"counting {noisy.measure.name}", noisy.noise.rho(1), 0.0, std))
        return tuple(found)


def units_alone(plan: BlockPlan) -> bool:
    """Tell whether units alone are counted: each adds as much as a unit may."""
    counted = (noisy.measure.kind for noisy in plan.measures if noisy.noise is not None)
    return all(kind is MeasureKind.UNITS for kind in counted)


def _told(columns: Sequence[FloatArray]) -> FloatArray:
    """Return what weighing supposedly takes: releases of before do not tell."""
    return np.nan_to_num(columns[-2])


def _units_counted(plan: BlockPlan) -> bool:
    """Tell whether units are counted."""
    counted = (noisy.measure.kind for noisy in plan.measures if noisy.noise is not None)
    return any(kind is MeasureKind.UNITS for kind in counted)


def _pilot_parts(plan: BlockPlan) -> int:
    """Count the parts of the second pilot: one for numbers of units, two for values."""
    return _units_counted(plan) + (0 if units_alone(plan) else 2)


def _pilot_figure(name: str, pilot: PilotNoise) -> StepFigure:
    return StepFigure(name, pilot.noise.rho(1), 0.0, pilot.noise.std(1))


def _named_in_rounds(plan: BlockPlan, found: Appearance) -> str:
    """Write of a threshold on weights that units divide among keys without a name."""
    unit, half, surely = (
        printable_name(plan.block.unit_name),
        figure_above(found.half),
        figure_above(found.surely),
    )
    text = (
        f"Groups are named in rounds, in which a unit divides itself among what has no name yet. "
        f"One that {half} units ({unit}) have, and nothing else, appears at least half the time, "
        f"one of {surely} at least 95%"
    )
    brief = appearance(plan, CascadeKind(plan).cascade.score_if_brief)
    if brief is not None:
        text += (
            f"; where the second round names few more than the first, it is the last, and it takes "
            f"{figure_above(brief.half)} and {figure_above(brief.surely)}"
        )
    votes = CascadeKind(plan).cascade.votes
    if votes is not None:
        text += (
            f"; where units have few keys, each has one vote, and it takes "
            f"{figure_above(votes.votes_needed + votes.floor)}"
        )
    return f"{text}."


def noise_at(plan: BlockPlan, measure: int, counting: int) -> IndependentNoise:
    """Build the noise on a measure that was counted as one of ``COUNTINGS`` says.

    ``NAMED_ALONE`` stands for the values of the only round, a negative cap for what was counted
    with the price that naming had left.
    """
    cascade = CascadeKind(plan).cascade
    if counting == NAMED_ALONE:
        return cascade.only_round.score_noise
    noise = plan.noise_of(measure).independent
    assert noise is not None
    if counting < 0 and _has_what_is_left(plan, measure):
        counted = sum(noisy.noise is not None for noisy in plan.measures)
        noise = cascade.spared_noise(noise.sensitivity, counted)
    return spread_noise(noise, abs(counting))


def _has_what_is_left(plan: BlockPlan, measure: int) -> bool:
    """Tell whether a measure is counted with what naming leaves: units, or all others without."""
    return measure == plan.score or CascadeKind(plan).cascade.goal is CascadeGoal.VALUES


class StepProgress:
    """Tells how far reading is: once the pairs are on the stage, step by step, and at the end."""

    def __init__(self, percent: Percent) -> None:
        self._progress = ReadingProgress(percent)
        self._steps = 0

    def staged(self, tables: int, of: int) -> None:
        """Tell that so many of the stage's tables are there."""
        self._progress.reach(_STAGED * tables // of)

    def step(self) -> None:
        """Tell that a step is done."""
        self._steps += 1
        self._progress.reach(min(_STAGED + _OF_A_STEP * self._steps, 99))

    def ending(self, keys_of: KeysOf) -> KeysOf:
        """Return a reader of keys that tells that all is read."""

        def named_keys(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
            found = keys_of(ids)
            self._progress.reach(100)
            return found

        return named_keys


def read_cascade(
    sql: CascadeSQL,
    scratch: Scratch,
    keys_of: KeysOf,
    progress: StepProgress,
    before: str | None = None,
) -> ExactCascade:
    """Put the pairs of units and keys on a stage, which the steps read when they are asked for.

    ``before`` is a table with the same pairs, which nothing but the first statement reads.
    """
    for number, (name, select) in enumerate(sql.tables, 1):
        scratch.store(name, select)
        if number == 1 and before is not None:
            scratch.drop(before)
        progress.staged(number, len(sql.tables))
    for name in sql.dropped:
        scratch.drop(name)
    rows = _StagedRows(sql, scratch, progress.step)
    return ExactCascade(rows, rows.totals, keys_of)


@dataclass(slots=True)
class _StagedRows:
    """The stage of one question: the exact rows of its steps. Tables are made anew by each step."""

    sql: CascadeSQL
    scratch: Scratch
    done: Callable[[], None]
    _stored: set[str] = field(default_factory=set)
    _counted: NDArray[np.int64] | None = None

    def unit_sizes(self, named: NDArray[np.int64] | None) -> UnitSizes:
        table = STAGED_PAIRS
        if named is not None:
            table = COUNTED_PAIRS
            self._count(named)
        return UnitSizes(*self._step(self.sql.unit_sizes(table)))

    def unit_norms(self, named: NDArray[np.int64]) -> UnitSizes:
        self._count(named)
        return UnitSizes(*self._step(self.sql.unit_norms))

    def norm_shares(self, named: NDArray[np.int64]) -> int:
        self._count(named)
        (shares,) = self._step(self.sql.norm_shares)
        return int(shares.sum())

    def unnamed_weights(self, named: NDArray[np.int64], kept: int) -> GroupWeights:
        table = STAGED_PAIRS
        if len(named):
            table = self._of_named(named, LEFT_PAIRS, self.sql.left)
        ids, weights, enough = self._step(self.sql.weights(table, kept))
        return GroupWeights(ids, weights, enough > 0)

    def units_in_order(self) -> Iterator[UnitItems]:
        units = self.scratch.store(UNITS_TABLE, self.sql.units)
        pairs = self.scratch.store(PASSED_PAIRS, self.sql.passed)
        between = pairs_between(self.sql.rows, PASSED_PAIRS)
        yield from units_in_order(self.scratch, between, units, pairs)
        self.scratch.drop(PASSED_PAIRS)
        self.scratch.drop(UNITS_TABLE)

    def totals(self, named: NDArray[np.int64], caps: Caps) -> list[NDArray[np.int64]]:
        """Read units' contributions to the named groups, and to no others.

        ``named``: row ids in ascending order; arrays of shape (groups,) in this order come back.
        """
        self._count(named)
        ids, *columns = self._step(self.sql.totals(caps))
        places = np.searchsorted(named, ids)
        dense = [np.zeros(len(named), dtype=np.int64) for _ in columns]
        for whole, counted in zip(dense, columns, strict=True):
            whole[places] = counted
        return dense

    def _count(self, named: NDArray[np.int64]) -> None:
        """Store the pairs of named groups, unless they are there."""
        if self._counted is None or not np.array_equal(named, self._counted):
            self._of_named(named, COUNTED_PAIRS, self.sql.counted)
            self._counted = named

    def _step(self, statement: Sql) -> list[NDArray[np.int64]]:
        """Read a step, and tell that it is done."""
        found = self.scratch.integers(statement)
        self.done()
        return found

    def _of_named(self, named: NDArray[np.int64], table: str, select: Sql) -> str:
        sizes = sizes_of(table)
        for old in (NAMED_IDS, table, sizes):
            if old in self._stored:
                self.scratch.drop(old)
        self.scratch.store(NAMED_IDS, self.sql.named, named.tolist())
        self.scratch.store(table, select)
        self.scratch.store(sizes, self.sql.sizes(table))
        self._stored |= {NAMED_IDS, table, sizes}
        return table


@dataclass(frozen=True, slots=True)
class CascadeValues:
    """The released measures of the groups that a cascade named, in steps.

    ``released`` and ``counted`` have an array of shape (groups,) for each measure: what is shown,
    and what it was counted as. ``countings`` tell how measures were, each as ``COUNTINGS`` does,
    and ``lost`` how many steps of each that supposedly takes, of all groups together.
    """

    named: NamedGroups
    released: list[Steps]
    counted: list[Steps]
    countings: list[int]
    lost: list[float]

    def answers(self, plan: BlockPlan) -> dict[str, NumericArray]:
        """Compute the aggregates, each with how its measures were counted."""
        block, found = plan.block, aggregate_answers(plan, self.released)
        for index, aggregate in enumerate(block.aggregates):
            used = aggregate.measures
            counted = [self.counted[m] * plan.measures[m].measure.step for m in used]
            lost, way = (
                np.full(len(self.named.ids), value)
                for value in (self._lost(plan, index), float(self.countings[used[0]]))
            )
            found |= zip(block.support_columns(index), [*counted, lost, way], strict=True)
        return {name: found[name] for name in drawn_columns(block)}

    def _lost(self, plan: BlockPlan, index: int) -> float:
        """Return what is lost of an aggregate in the units of the answer: of averages, values."""
        aggregate = plan.block.aggregates[index]
        measure = aggregate.measures[1 if aggregate.kind.composed else 0]
        return self.lost[measure] * plan.measures[measure].measure.step


def draw_cascade(plan: BlockPlan, exact: ExactCascade, source: EntropySource) -> CascadeValues:
    """Draw which groups are named, how they are counted, and the noise on their values.

    Guarantee: ``plan.loss(None)``, for steps within the sensitivities of ``CascadeSQL``.
    """
    cascade = CascadeKind(plan).cascade
    assert plan.score is not None
    named = cascade.name_groups(exact.rows, source)
    groups = len(named.ids)
    released, countings = [named.weights] * len(plan.measures), [NAMED_ALONE] * len(plan.measures)
    lost = [0.0] * len(plan.measures)
    counting = [i for i, noisy in enumerate(plan.measures) if noisy.noise is not None]
    if groups == 0 or not counting or (named.alone and counting == [plan.score]):
        return CascadeValues(named, released, released, countings, lost)
    signs = [-1 if named.spared and _has_what_is_left(plan, index) else 1 for index in counting]
    scales = [_relative_noise(plan, *one) for one in zip(counting, signs, strict=True)]
    chosen = _chosen_caps(plan, exact.rows, named, dict(zip(counting, scales, strict=True)), source)
    caps = Caps(*(one.cap for one in chosen))
    counted = list(released)
    for index, sign, total in zip(counting, signs, exact.totals(named.ids, caps), strict=True):
        if named.alone and index == plan.score:
            continue  # the only round has spent the price of this
        mine = chosen[plan.measures[index].measure.kind is not MeasureKind.UNITS]
        noise = noise_at(plan, index, sign * mine.cap)
        released[index] = counted[index] = noise.add(total, source)
        countings[index], lost[index] = sign * mine.cap, mine.lost * noise.sensitivity
        if index == plan.score:
            released[index] = scaled_counts(named, counted[index], noise.noise.std)
    return CascadeValues(named, released, counted, countings, lost)


def _chosen_caps(
    plan: BlockPlan,
    rows: CascadeRows,
    named: NamedGroups,
    scales: Mapping[int, float],
    source: EntropySource,
) -> tuple[ChosenCap, ChosenCap]:
    """Choose the caps of numbers of units and of values, by what is counted of them."""
    cascade, parts = CascadeKind(plan).cascade, _pilot_parts(plan)
    kinds = {index: plan.measures[index].measure.kind for index in scales}
    of_units = [scales[index] for index, kind in kinds.items() if kind is MeasureKind.UNITS]
    of_values = [scales[index] for index, kind in kinds.items() if kind is not MeasureKind.UNITS]
    units = values = ChosenCap(CAP_CHOICES[0], 0.0)
    if of_units:
        units = cascade.choose_cap_of_units(rows, named, of_units[0], source, parts=parts)
    if of_values:
        values = cascade.choose_cap_of_values(
            rows,
            named,
            of_values,
            source,
            limited=rows_within(plan) == plan.block.parameters.rows_limit,
            cut=plan.weight_cut,
            parts=parts,
        )
    return units, values


def _relative_noise(plan: BlockPlan, index: int, sign: int) -> float:
    """Measure the noise at a cap of 1, in what a unit adds to a group at most."""
    noise = noise_at(plan, index, sign)
    return noise.noise.std / noise.sensitivity


def sizes_of(pairs: str) -> str:
    """Name the table of how many pairs each unit has in a table of pairs."""
    return f"{pairs}_sizes"


@dataclass(frozen=True, slots=True)
class CascadeSQL:
    """The statements of one cascade.

    ``tables`` are names and SELECTs, to be stored in this order; those in ``dropped`` are not
    needed once all are. ``named`` is stored as NAMED_IDS and takes a list of row ids; after it
    ``left`` is stored as LEFT_PAIRS, or ``counted`` as COUNTED_PAIRS. ``sql`` is all up to the
    first round as one statement: row id, keys, weight, and whether enough units keep the group, a
    unit keeping as many keys as it ever may.
    """

    rows: PrivateRows
    tables: tuple[tuple[str, Sql], ...]
    dropped: tuple[str, ...]
    named: Sql
    left: Sql
    counted: Sql
    sql: Sql

    def sizes(self, table: str) -> Sql:
        """Count the pairs of each unit in a table, to be stored as ``sizes_of(table)``."""
        return _sizes(self.rows, table)

    @property
    def units(self) -> Sql:
        """The units with their positions, to be stored as UNITS_TABLE."""
        return numbered_units(self.rows, quoted(sizes_of(STAGED_PAIRS)))

    @property
    def passed(self) -> Sql:
        """The row ids of units by position, to be stored as PASSED_PAIRS after the units."""
        return sql(
            "SELECT {position}, {row_id} FROM {} JOIN {} USING ({unit}) "
            "ORDER BY {position}, {row_id}",
            quoted(STAGED_PAIRS),
            quoted(UNITS_TABLE),
            position=self.rows.internal("position"),
            row_id=self.rows.row_id,
            unit=self.rows.unit,
        )

    def unit_sizes(self, table: str) -> Sql:
        """Count how many units have each number of pairs in a table.

        One unit more or less changes one of these counts, by one.
        """
        size, sizes = self.rows.internal("size"), quoted(sizes_of(table))
        return sql(
            "SELECT {size}, count(*) AS {} FROM {sizes} GROUP BY {size}",
            self.rows.internal("units"),
            size=size,
            sizes=sizes,
        )

    @property
    def unit_norms(self) -> Sql:
        """The numbers of units by the square of the norm of what they add to counted groups.

        In the most that a unit may add to one, rounded up. One unit more or less changes one of
        these counts, by one.
        """
        rows, square = self.rows, self.rows.internal("square")
        squares = column(self.rows.internal(_SQUARES), 0, _MOST, wide=True, dialect=rows.dialect)
        ceiling = (squares + (SQUARE_STEPS - 1)) // SQUARE_STEPS
        each = sql(
            "SELECT {} AS {square} FROM {}",
            ceiling.clamped(1, MOST_SQUARES).narrowed().sql,
            rows.dialect.derived(_norms(rows, rows_within(rows.plan))),
            square=square,
        )
        return sql(
            "SELECT {square}, count(*) AS {} FROM {} GROUP BY {square}",
            rows.internal("units"),
            rows.dialect.derived(each),
            square=square,
        )

    @property
    def norm_shares(self) -> Sql:
        """The sum of the shares of norms above 1 in the sums of units, in steps.

        One unit more or less changes the sum by ``WHOLE_SHARE`` at most.
        """
        rows, dialect, share = self.rows, self.rows.dialect, self.rows.internal("share")
        squares = column(rows.internal(_SQUARES), 0, _MOST, wide=True, dialect=dialect)
        sums = column(rows.internal(_SUMS), 0, _MOST, wide=True, dialect=dialect)
        root = squares.clamped(0, MOST_SQUARES * SQUARE_STEPS).narrowed().root()
        part = (root * WHOLE_SHARE).widened() // sums.clamped(1, _MOST)
        each = squares.split(SQUARE_STEPS, 0, lambda _: part.clamped(0, WHOLE_SHARE).narrowed())
        units = sql(
            "SELECT {} AS {share} FROM {}",
            each.sql,
            dialect.derived(_norms(rows, rows_within(rows.plan))),
            share=share,
        )
        shares = column(share, 0, WHOLE_SHARE, dialect=dialect).sum().or_zero().narrowed()
        return sql("SELECT {} AS {share} FROM {}", shares.sql, dialect.derived(units), share=share)

    def weights(self, table: str, kept: int) -> Sql:
        """Weigh the groups of a table, where a unit keeps ``kept`` groups.

        Row ids, weights, and 1 where the minimum of units keep the group, otherwise 0. One unit
        more or less moves the weights by one whole weight in l2 at most, and brings or takes
        ``kept`` groups at most.
        """
        return _round(self.rows, table, kept)

    def totals(self, caps: Caps) -> Sql:
        """Sum what units add to the counted groups, by their weights at caps, after the row ids.

        One unit more or less moves each measure by the root of its cap times its sensitivity at
        most, in l2: units weigh by their number of groups where they are counted, and elsewhere by
        what they add. Measures without noise of their own are left out.
        """
        rows, most = self.rows, rows_within(self.rows.plan)
        counted, sizes = _counted(rows), quoted(sizes_of(COUNTED_PAIRS))
        weights = dict[str, Ranged]()
        if any(measure.kind is MeasureKind.UNITS for measure, _ in counted):
            weights[_WEIGHT_OF_UNITS] = unit_weight(rows, caps.units)
        if _valued(rows):
            squares = column(rows.internal(_SQUARES), 0, _MOST, wide=True, dialect=rows.dialect)
            weights[UNIT_WEIGHT] = weight_within(squares, caps.values)
            sizes = sql(
                "{} JOIN {} USING ({})", sizes, rows.dialect.derived(_norms(rows, most)), rows.unit
            )
        written = [sql("{} AS {}", found.sql, rows.internal(n)) for n, found in weights.items()]
        weighed = rows.dialect.derived(
            sql(
                "SELECT {columns} FROM {table} JOIN {weights} USING ({unit})",
                columns=join(
                    ", ", [rows.row_id, *_value_columns(rows), *map(rows.internal, weights)]
                ),
                table=quoted(COUNTED_PAIRS),
                weights=rows.dialect.derived(
                    sql("SELECT {}, {} FROM {}", rows.unit, join(", ", written), sizes)
                ),
                unit=rows.unit,
            )
        )
        sums = [
            sql("{} AS {}", _total(rows, measure, name, most), name) for measure, name in counted
        ]
        return sql(
            "SELECT {} FROM {} GROUP BY {}", join(", ", [rows.row_id, *sums]), weighed, rows.row_id
        )


def cascade_sql(rows: PrivateRows, *, by_hash: bool) -> CascadeSQL:
    """Write the statements of a cascade. Row ids are ranks of keys, if ``by_hash`` by salted ones.

    The salt is a fresh random number for each question, the same for all of its steps. Checked by
    ``tests/sql/test_cascade_queries.py``.
    """
    dialect, derived = rows.dialect, rows.dialect.derived
    values = _value_columns(rows)
    order, raw = rows.internal("order"), quoted(_RAW_PAIRS)
    keys = join(", ", rows.keys)
    pairs = sql(
        "SELECT {}, {} AS {order} FROM {}",
        join(", ", [rows.unit, keys, *values]),
        rows.hashed([rows.unit, *rows.keys]),
        derived(Rewriter(_with_all_rows(rows)).pairs()),
        order=order,
    )
    ranks = [*([rows.hashed(rows.keys)] if by_hash else []), *rows.ascending(rows.keys)]
    number = sql("row_number() OVER (ORDER BY {})", join(", ", ranks))
    found = derived(sql("SELECT DISTINCT {} FROM {}", keys, raw))
    groups = sql(
        "SELECT {number} AS {row_id}, {keys} FROM {found}",
        number=number,
        row_id=rows.row_id,
        keys=keys,
        found=found,
    )
    same = join(" AND ", (dialect.same(sql("p.{}", key), sql("g.{}", key)) for key in rows.keys))
    shown = join(", ", [rows.unit, sql("g.{}", rows.row_id), order, *values])
    staged = sql(
        "SELECT {shown} FROM {raw} p JOIN {} g ON {same}",
        quoted(GROUPS),
        shown=shown,
        raw=raw,
        same=same,
    )
    tables = (
        (_RAW_PAIRS, pairs),
        (GROUPS, groups),
        (STAGED_PAIRS, staged),
        (sizes_of(STAGED_PAIRS), _sizes(rows, STAGED_PAIRS)),
    )
    return CascadeSQL(
        rows=rows,
        tables=tables,
        dropped=(_RAW_PAIRS,),
        named=sql(
            "SELECT {} FROM {} WHERE {}",
            rows.row_id,
            quoted(GROUPS),
            dialect.among_given(rows.row_id, few=False),
        ),
        left=_of_named(rows, negated=True),
        counted=_of_named(rows, negated=False),
        sql=_as_one(rows, tables),
    )


def _with_all_rows(rows: PrivateRows) -> PrivateRows:
    """Return the rows with as many of a unit in a group as ``rows_within`` says."""
    plan = rows.plan
    parameters = replace(plan.block.parameters, max_rows_contributed=rows_within(plan))
    return replace(rows, plan=replace(plan, block=replace(plan.block, parameters=parameters)))


def _of_named(rows: PrivateRows, *, negated: bool) -> Sql:
    """Select the pairs with a named group, or with a group without a name."""
    row_id = rows.row_id
    joined = rows.dialect.semi_join(
        sql("{} p", quoted(STAGED_PAIRS)),
        sql("{} g", quoted(NAMED_IDS)),
        sql("p.{row_id} = g.{row_id}", row_id=row_id),
        negated=negated,
    )
    columns = [rows.unit, row_id, rows.internal("order"), *_value_columns(rows)]
    return sql("SELECT {} FROM {}", join(", ", columns), joined)


def _counted(rows: PrivateRows) -> list[tuple[Measure, Sql]]:
    """List the measures with noise of their own, each with its column."""
    return [
        (noisy.measure, name)
        for noisy, name in zip(rows.plan.measures, rows.measures, strict=True)
        if noisy.noise is not None
    ]


def _valued(rows: PrivateRows) -> list[tuple[Measure, Sql]]:
    """List those of which units add different amounts: all but numbers of units."""
    return [each for each in _counted(rows) if each[0].kind is not MeasureKind.UNITS]


def _norms(rows: PrivateRows, most: int) -> Sql:
    """Select units with the norms of what they add to the counted groups, of so many rows in each.

    The square of the l2 norm and the l1 norm, in ``SQUARE_STEPS`` and ``PART_STEPS``, rounded up:
    the largest of those of all values.
    """
    parts = [_part(rows, measure, name, most) for measure, name in _valued(rows)]
    squares = reduce(Ranged.larger, (part.squared().sum() for part in parts))
    sums = reduce(Ranged.larger, (part.sum() for part in parts))
    return sql(
        "SELECT {unit}, {} AS {}, {} AS {} FROM {} GROUP BY {unit}",
        squares.sql,
        rows.internal(_SQUARES),
        sums.sql,
        rows.internal(_SUMS),
        quoted(COUNTED_PAIRS),
        unit=rows.unit,
    )


def _part(rows: PrivateRows, measure: Measure, name: Sql, most: int) -> Ranged:
    """Write the size of a pair's contribution by the largest one, in steps, rounded up."""
    limit = rows.plan.block.parameters.rows_limit
    reach, longest = max(1, measure.reach(limit)), max(1, measure.reach(most))
    added = _added(rows, measure, name, most).or_zero()
    steps = added.larger(added * -1) * PART_STEPS
    return ((steps + (reach - 1)) // reach).clamped(0, -(-longest * PART_STEPS // reach)).narrowed()


def _value_columns(rows: PrivateRows) -> list[Sql]:
    """List the columns of measures other than numbers of units."""
    return [
        name
        for noisy, name in zip(rows.plan.measures, rows.measures, strict=True)
        if noisy.measure.kind is not MeasureKind.UNITS
    ]


def _sizes(rows: PrivateRows, table: str) -> Sql:
    size = rows.internal("size")
    return sql(
        "SELECT {unit}, count(*) AS {size} FROM {} GROUP BY {unit}",
        quoted(table),
        unit=rows.unit,
        size=size,
    )


def _unit_weights(rows: PrivateRows, table: str, cap: int, where: Sql = EMPTY_SQL) -> Sql:
    """Write the units of a table of pairs with what each weighs in a group, at a cap."""
    weight = sql("{} AS {}", unit_weight(rows, cap).sql, rows.internal("weight"))
    sizes = quoted(sizes_of(table))
    return rows.dialect.derived(
        sql(
            "SELECT {unit}, {weight} FROM {sizes}{where}",
            unit=rows.unit,
            weight=weight,
            sizes=sizes,
            where=where,
        )
    )


def _round(rows: PrivateRows, table: str, kept: int) -> Sql:
    """Weigh groups: a unit keeps its first keys, and has one unit of l2 norm for them."""
    dialect, unit, row_id = rows.dialect, rows.unit, rows.row_id
    size, rank, order, weight = (rows.internal(n) for n in ("size", "rank", "order", "weight"))
    pairs, sizes = quoted(table), quoted(sizes_of(table))
    weights = _unit_weights(rows, table, 1, sql(" WHERE {} <= {}", size, kept))
    few = sql(
        "SELECT {row_id}, {weight} FROM {pairs} JOIN {weights} USING ({unit})",
        row_id=row_id,
        weight=weight,
        pairs=pairs,
        weights=weights,
        unit=unit,
    )
    crowded = dialect.derived(
        sql(
            "SELECT {unit} FROM {sizes} WHERE {size} > {kept}",
            unit=unit,
            sizes=sizes,
            size=size,
            kept=kept,
        )
    )
    window = sql("PARTITION BY {} ORDER BY {}, {}", unit, order, row_id)
    ranked = dialect.derived(
        sql(
            "SELECT {row_id}, row_number() OVER ({window}) AS {rank} FROM {pairs} JOIN "
            "{crowded} USING ({unit})",
            row_id=row_id,
            window=window,
            rank=rank,
            pairs=pairs,
            crowded=crowded,
            unit=unit,
        )
    )
    many = sql(
        "SELECT {row_id}, {} FROM {ranked} WHERE {rank} <= {kept}",
        weight_of(1, kept),
        row_id=row_id,
        ranked=ranked,
        rank=rank,
        kept=kept,
    )
    weighed = dialect.derived(sql("{} UNION ALL {}", few, many))
    total = summed(rows, _units(rows.plan), unit_weight(rows, 1))
    minimum = rows.plan.block.parameters.min_units_per_group
    enough = sql(
        "CASE WHEN count(*) >= {} THEN 1 ELSE 0 END AS {}", minimum, rows.internal("enough")
    )
    return sql(
        "SELECT {row_id}, {total} AS {weight}, {enough} FROM {weighed} GROUP BY {row_id}",
        row_id=row_id,
        total=total,
        weight=weight,
        enough=enough,
        weighed=weighed,
    )


def _units(plan: BlockPlan) -> Measure:
    assert plan.score is not None
    return plan.measures[plan.score].measure


def _total(rows: PrivateRows, measure: Measure, name: Sql, most: int) -> Sql:
    weight = _WEIGHT_OF_UNITS if measure.kind is MeasureKind.UNITS else UNIT_WEIGHT
    return summed(rows, measure, _added(rows, measure, name, most), weight)


def _added(rows: PrivateRows, measure: Measure, name: Sql, most: int) -> Ranged:
    """Return the column ``name``, of what pairs add at so many rows."""
    return Gathered(name, name, most, rows.dialect).contribution(measure).named(name)


def _as_one(rows: PrivateRows, tables: tuple[tuple[str, Sql], ...]) -> Sql:
    dialect = rows.dialect
    steps = join(", ", (dialect.materialized(quoted(name), written) for name, written in tables))
    weights = dialect.derived(_round(rows, STAGED_PAIRS, KEPT_CHOICES[-1]))
    shown = (rows.internal("weight"), rows.internal("enough"))
    columns = join(", ", [rows.row_id, *rows.keys, *shown])
    return sql(
        "WITH {steps} SELECT {columns} FROM {} JOIN {weights} USING ({row_id})",
        quoted(GROUPS),
        steps=steps,
        columns=columns,
        weights=weights,
        row_id=rows.row_id,
    )

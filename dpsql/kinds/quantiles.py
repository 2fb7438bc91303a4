"""Quantiles of values in groups: a point is drawn for each group that comes out.

Groups are stored first, with a row id; then one statement for each value that quantiles are asked
of counts its rows in the groups that come out. Rows go through the same cap on the keys of a unit
as those that are summed. Of the rows a unit has beyond ``max_rows_contributed`` in a group it keeps
a systematic sample: in the order of their values every n/m-th one, from a start that a salted hash
draws. All of its rows are as likely to be kept, and those that are resemble the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.wording import Part, enumerated, printable_name
from dpsql.core.formatting import level
from dpsql.core.sql import EMPTY_SQL, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Scratch
from dpsql.ir.measures import Quantile, Ranked
from dpsql.ir.plan import (
    BlockPlan,
    BoundedBy,
    Bounding,
    ColumnFigure,
    Maker,
    NoisyQuantile,
    ReleaseNoise,
)
from dpsql.kinds.base import FEW, GROUPS, BlockReading, keys_in
from dpsql.kinds.groups import ExactGroups, GroupsKind, groups_stored
from dpsql.kinds.released import NumericArray
from dpsql.kinds.streamed import bounded_by, streamed_rows
from dpsql.kinds.streamed_quantiles import streamed_histograms
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, Histograms
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.rewrite.contributions import RowValue, clamped_step
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import StreamedPoints

HistogramsOf = Callable[[Ranked, NDArray[np.int64]], Histograms]
"""The values of groups given by their row ids, in this order; 0 is a group without rows."""


@dataclass(frozen=True, slots=True)
class ExactQuantiles(ExactGroups):
    """The exact rows of groups, with ``histograms`` of their values."""

    histograms: HistogramsOf = field(kw_only=True)

    def beside(
        self, plan: BlockPlan, ids: NDArray[np.int64], source: EntropySource
    ) -> dict[str, NumericArray]:
        """Draw a point for each quantile and group; those that are sorted together are in order."""
        drawn: dict[Quantile, NDArray[np.int64]] = {}
        for ranked in _asked(plan):
            counted = self.histograms(ranked, ids)
            drawn |= {
                noisy.quantile: noisy.mechanism.draw(counted, source)
                for noisy in plan.quantiles
                if noisy.quantile.ranked == ranked
            }
        for quantile in plan.block.quantiles:
            alike = [noisy.quantile for noisy in _sorted_with(plan, quantile)]
            points = np.sort([drawn[one] for one in alike], axis=0)
            drawn |= dict(zip(alike, points, strict=True))
        return {
            plan.block.aggregate_column(index): _value(
                aggregate.quantile, drawn[aggregate.quantile]
            )
            for index, aggregate in enumerate(plan.block.aggregates)
            if aggregate.quantile is not None
        }

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for the values of quantiles, and for keys."""
        for ranked in _asked(plan):
            self.histograms(ranked, FEW)
        ExactGroups.rehearse(self, plan)


class QuantilesKind(GroupsKind):
    """Groups with quantiles, whatever else is measured of them."""

    staged = False

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether quantiles are asked for."""
        return bool(plan.block.quantiles)

    def sql(self, salt: int, dialect: Dialect) -> HistogramSQL:
        """Write its statements."""
        groups = super().statement(salt, dialect)
        return histogram_sql(self.private_rows(salt, dialect), groups)

    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write the exact rows of groups and, below them, the histograms of their values."""
        return self.sql(salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactQuantiles]:
        """Read the groups; their values are counted after the groups to release are chosen."""
        if reading.block.bounded_by.maker is Maker.NUMPY:
            with reading.rows.scratch() as scratch:
                exact, _ = streamed_rows(reading, scratch)
                keys_of = None if self.plan.declared else keys_in(scratch, reading)
                counted = streamed_histograms(reading, scratch, _streamed_points)
                yield ExactQuantiles(exact, keys_of, histograms=counted)
            return
        steps = self.sql(reading.salt, reading.dialect)
        with reading.rows.scratch() as scratch:
            scratch.store(GROUPS, steps.groups)
            found = groups_stored(reading, scratch)
            yield ExactQuantiles(found.rows, found.keys_of, histograms=_histograms(steps, scratch))

    def bounded_by(self, dialect: Dialect, bounding: BoundingLimit) -> BoundedBy:
        """Choose NumPy where it bounds all that is asked, rows with their values too."""
        return bounded_by(self.private_rows(0, dialect), bounding)

    def of_values(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield how far values are from the rank asked for; in thin data they can be far off."""
        texts = {
            a.quantile: printable_name(a.text)
            for a in self.plan.block.aggregates
            if a.quantile is not None
        }
        sizes = [
            f"{text} is within ± {self._rank_margin(quantile, confidence):,} rows"
            for quantile, text in texts.items()
            if not quantile.extreme
        ]
        if sizes:
            yield (
                f"At least {level(confidence)} of the time {enumerated(sizes)} of the rank asked "
                "for (after bounding)."
            )
        for quantile, text in texts.items():
            if quantile.extreme:
                yield self._of_extreme(quantile, text, confidence)

    def _of_extreme(self, quantile: Quantile, text: str, confidence: float) -> str:
        """Say where the value of MIN or MAX lies: it is no row's, and no end of the data."""
        margin, beyond = self._rank_margin(quantile, confidence), self._mechanism(quantile).beyond
        end = "larg" if quantile.fraction == 1 else "small"
        return (
            f"{text} is a value near the {end}est: in groups of {2 * beyond:,} rows or more about "
            f"{beyond:,} rows are {end}er, ± {margin:,} at least {level(confidence)} of the time "
            "(after bounding); in fewer rows it is near the middle."
        )

    def figure(self, index: int) -> ColumnFigure:
        """Describe the noise that an aggregate will carry: of a quantile, in ranks."""
        aggregate = self.plan.block.aggregates[index]
        if aggregate.quantile is None:
            return super().figure(index)
        mechanism, ranked = self._mechanism(aggregate.quantile), aggregate.quantile.ranked
        return ColumnFigure(
            aggregate=aggregate.text,
            noise=mechanism.name,
            noise_scale=mechanism.scale,
            noise_std=None,
            margin95=mechanism.margin(0.95),
            resolution=ranked.lattice.quantum if ranked.bits is None else 2.0**-ranked.bits,
            relative=ranked.bits is not None,
            beyond=mechanism.beyond or None,
        )

    def widest_margin(self, index: int, confidence: float) -> float | None:
        """Compute half the width of an aggregate's intervals; None for quantiles, without such."""
        if self.plan.block.aggregates[index].quantile is not None:
            return None
        return super().widest_margin(index, confidence)

    def _rank_margin(self, quantile: Quantile, confidence: float) -> int:
        """Return a distance in ranks.

        Quantiles are put in the order of their targets, which keeps all of them within the largest
        of their margins if they were within their own.
        """
        alike = [noisy.mechanism for noisy in _sorted_with(self.plan, quantile)]
        each = 1 - (1 - confidence) / len(alike)
        return math.ceil(max(mechanism.margin(each) for mechanism in alike))

    def _mechanism(self, quantile: Quantile) -> ExponentialQuantile:
        return next(q.mechanism for q in self.plan.quantiles if q.quantile == quantile)

    def published(self, released: int, *, alone: bool) -> ReleaseNoise | None:
        """Return None: their error has no variance that is known."""
        return None

    @property
    def adds_up(self) -> bool:
        """False: a quantile of several groups is no sum of theirs."""
        return False

    @property
    def groups_added(self) -> int | None:
        """None: estimates have no price beside quantiles."""
        return None


def _asked(plan: BlockPlan) -> list[Ranked]:
    """List the values that quantiles are asked of, each once."""
    return list(dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles))


def _sorted_with(plan: BlockPlan, quantile: Quantile) -> list[NoisyQuantile]:
    """List the quantiles to sort together with ``quantile``, by rising targets.

    They are of the same values. Which is the higher target, that of MAX or of a high quantile,
    depends on the number of rows: extremes are sorted among themselves.
    """
    alike = [
        noisy
        for noisy in plan.quantiles
        if noisy.quantile.ranked == quantile.ranked and noisy.quantile.extreme == quantile.extreme
    ]
    return sorted(alike, key=lambda noisy: noisy.quantile.fraction)


def _value(quantile: Quantile, points: NDArray[np.int64]) -> NumericArray:
    """Return the values of a grid's points, within the bounds."""
    lattice, steps = quantile.ranked.lattice, quantile.ranked.first_steps(points)
    values: Steps = np.clip(steps * lattice.quantum, lattice.lower, lattice.upper)
    return np.rint(values).astype(np.int64) if quantile.whole else values


def _histograms(steps: HistogramSQL, scratch: Scratch) -> HistogramsOf:
    """Return how to count the rows of groups whose exact rows are stored in ``scratch``."""
    counts = dict(steps.counts)

    def counted(ranked: Ranked, ids: NDArray[np.int64]) -> Histograms:
        owners, points, rows = scratch.integers(counts[ranked], ids.tolist())
        ascending = np.argsort(ids, kind="stable")  # ids may be few and large: 2**33 in Spark
        owners = ascending[np.searchsorted(ids, owners, sorter=ascending)]
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(len(ids)), side="right")
        return Histograms(ends, points[order], rows[order])

    return counted


@dataclass(frozen=True, slots=True)
class HistogramSQL:
    """The statements of a plan with quantiles.

    ``groups`` is to be stored as GROUPS: row id, keys, measures. Those of ``counts`` take a list of
    row ids and return, for these groups, the row id, each point that has rows and how many, in
    order. ``sql`` is all of it as one statement, with a list of points for each of ``counts``.
    """

    groups: Sql
    counts: tuple[tuple[Ranked, Sql], ...]
    sql: Sql


def histogram_sql(rows: PrivateRows, groups: Sql) -> HistogramSQL:
    """Write the statements of a plan with quantiles over ``groups``, its exact rows' statement.

    Sensitivity: when one unit is added or removed, counts change in at most ``plan.groups`` groups
    (any number without a cap), and in each of them at most ``max_rows_contributed`` rows are added,
    or as many taken away. Checked by ``tests/sql/test_quantile_queries.py``.
    """
    plan, asked = rows.plan, _asked(rows.plan)
    if plan.bounding is not None and plan.bounding.weighted:
        # Units count in full here, in as many groups as they weigh.
        rows = replace(rows, plan=replace(plan, bounding=Bounding.sample(plan.bounding.groups)))
    chosen = sql(" AND {}", rows.dialect.among_given(sql("g.{}", rows.row_id), few=False))
    return HistogramSQL(
        groups=groups,
        counts=tuple((ranked, _counted(rows, ranked, chosen)) for ranked in asked),
        sql=_as_one(rows, groups, [_counted(rows, ranked, EMPTY_SQL) for ranked in asked]),
    )


def _counted(rows: PrivateRows, ranked: Ranked, chosen: Sql) -> Sql:
    most = rows.plan.block.parameters.rows_limit
    row_id, point, start = rows.row_id, rows.internal("point"), rows.internal("start")
    number, size = rows.internal("number"), rows.internal("size")
    unit = sql("PARTITION BY {}, {}", row_id, rows.unit)
    numbered = sql(
        "SELECT {row_id}, {point}, {start}, row_number() OVER ({unit} ORDER BY "
        "{point}) AS {number}, count(*) OVER ({unit}) AS {size} FROM {}",
        rows.dialect.derived(_placed(rows, ranked, chosen)),
        row_id=row_id,
        point=point,
        start=start,
        unit=unit,
        number=number,
        size=size,
    )
    place = column(number, 1, MOST_ROWS, dialect=rows.dialect)
    taken, before = _taken(rows, place, most), _taken(rows, place - 1, most)
    return sql(
        "SELECT {row_id}, {point}, count(*) AS {} FROM {} WHERE {size} <= {most} OR "
        "{taken} > {before} GROUP BY {row_id}, {point} ORDER BY {row_id}, {point}",
        rows.internal("rows"),
        rows.dialect.derived(numbered),
        row_id=row_id,
        point=point,
        size=size,
        most=most,
        taken=taken.sql,
        before=before.sql,
    )


def _taken(rows: PrivateRows, number: Ranged, most: int) -> Ranged:
    """Count how many of a unit's first rows are in its sample."""
    size = column(rows.internal("size"), 1, MOST_ROWS, dialect=rows.dialect)
    start = column(rows.internal("start"), 0, 2**32 - 1, dialect=rows.dialect)
    return (number * most + start % size) // size


def _placed(rows: PrivateRows, ranked: Ranked, chosen: Sql) -> Sql:
    """Select rows with their group's row id, their point and their unit's start."""
    dialect, groups = rows.dialect, quoted(GROUPS)
    value, point, start = (rows.internal(name) for name in ("value", "point", "start"))
    argument = sql("{} AS {}", rows.written(ranked.argument), value)
    # One more column than the cap hashes, so that the two are independent.
    drawn = dialect.salted_bits(rows.salt, [rows.unit, *rows.keys, sql("0")])
    columns = join(", ", [rows.unit, *rows.keys])
    found, place = _with_point(rows, ranked, value, rows.capped(rows.select([argument])))
    points = dialect.derived(
        sql(
            "SELECT {columns}, {place} AS {point}, {drawn} AS {start} FROM {}",
            found,
            columns=columns,
            place=place,
            point=point,
            drawn=drawn,
            start=start,
        ),
        alias=sql("p"),
    )
    equal = [dialect.same(sql("p.{}", key), sql("g.{}", key)) for key in rows.keys]
    same = join(" AND ", equal or [sql("TRUE")])
    return sql(
        "SELECT g.{row_id}, {unit}, {point}, {start} FROM {points} JOIN {groups} g ON "
        "{same} WHERE {point} IS NOT NULL{chosen}",
        row_id=rows.row_id,
        unit=rows.unit,
        point=point,
        start=start,
        points=points,
        groups=groups,
        same=same,
        chosen=chosen,
    )


def _with_point(rows: PrivateRows, ranked: Ranked, value: Sql, found: Sql) -> tuple[Sql, Sql]:
    """Write the source of rows with a ``value``, and the number of its point, NULL for none."""
    dialect = rows.dialect
    given = RowValue.of(ranked.argument, value, rows.table, dialect)
    step = clamped_step(ranked.lattice, given, dialect)
    if ranked.bits is not None:  # the step is named several times
        step_name = rows.internal("step")
        found = dialect.derived(sql("SELECT *, {} AS {} FROM {}", step.sql, step_name, found))
        step = column(step_name, ranked.lattice.low, ranked.lattice.high, dialect=dialect)
    return found, point_sql(ranked, step)


def _streamed_points(rows: PrivateRows, ranked: Ranked) -> StreamedPoints:
    """Write the rows that are streamed, with their points."""
    value, point, last = rows.internal("value"), rows.internal("point"), ranked.points
    argument = sql("{} AS {}", rows.written(ranked.argument), value)
    found, place = _with_point(rows, ranked, value, rows.dialect.derived(rows.select([argument])))
    source = sql(
        "SELECT {}, coalesce({}, {}) AS {} FROM {}",
        join(", ", [rows.unit, *rows.keys]),
        place,
        rows.dialect.integer(last),
        point,
        found,
    )
    here = column(sql("here.{}", point), 0, last, dialect=rows.dialect)
    return StreamedPoints(rows, source, here)


def point_sql(ranked: Ranked, step: Ranged) -> Sql:
    """Write the number of the point of a step, from 0 at the lowest one.

    From the step of 2**(bits + 1) on, each octave halves the bits that are told apart.
    """
    lattice, bits = ranked.lattice, ranked.bits
    if bits is None:
        return (step - lattice.low).sql
    lowest = ranked.number(lattice.low)
    whens = []
    for octave in range(_octaves(lattice.high, bits)):
        number = step // 2**octave + ((octave << bits) - lowest)
        ends = step.sql, step.sql, 2 ** (bits + 1 + octave)
        whens.append(sql("WHEN {} >= 0 AND {} < {} THEN {}", *ends, number.sql))
    for octave in range(_octaves(-lattice.low, bits)):
        number = step // 2**octave - ((octave << bits) + lowest)
        ends = step.sql, step.sql, -(2 ** (bits + 1 + octave))
        whens.append(sql("WHEN {} < 0 AND {} > {} THEN {}", *ends, number.sql))
    return sql("CASE {} END", join(" ", whens))


def _octaves(most: int, bits: int) -> int:
    """Count the octaves of steps of one sign, of which the largest is ``most``; 0 if none is."""
    return max(1, most.bit_length() - bits) if most >= 0 else 0


def _as_one(rows: PrivateRows, groups: Sql, counts: list[Sql]) -> Sql:
    dialect, row_id, stored = rows.dialect, rows.row_id, quoted(GROUPS)
    both = dialect.pairs(rows.internal("point"), rows.internal("rows"))
    lists = []
    for i, count in enumerate(counts):
        values = sql("{} AS {} FROM {}", both, rows.internal(f"d{i}"), dialect.derived(count))
        listed = dialect.derived(
            sql("SELECT {row_id}, {values} GROUP BY {row_id}", row_id=row_id, values=values)
        )
        lists.append(sql(" LEFT JOIN {} USING ({})", listed, row_id))
    return sql(
        "WITH {} SELECT * FROM {stored}{} ORDER BY {row_id}",
        dialect.materialized(stored, groups),
        join("", lists),
        stored=stored,
        row_id=row_id,
    )

"""The SQL of left-out estimates: a row of sums of the kept and left-out parts of a measure.

Rows become one row per unit and keys, as for the answer, then one row per unit: what it adds within
its bounds, and what it has beyond that. No groups are drawn: of a unit with n groups that keeps C,
C/n of what is within the bounds of its groups is kept, which is what a draw keeps on average. Where
a unit keeps all of its groups, only those with something beyond the bounds are put together.

A block and its estimates can share their rows (:func:`shared_sql`): these are stored once per unit
and keys, and once per unit, for all of them. Where the cap is put on sorted rows, these are sorted
once for groups and for units, and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import DOUBLE
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, LeftOutPlan
from dpsql.ir.relations import scanned
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column, count
from dpsql.sql.expressions.ranges import Numbers, numbers_of
from dpsql.sql.rewrite.contributions import Gathered, clamped
from dpsql.sql.rewrite.rewrite import (
    CountedValues,
    Rewriter,
)
from dpsql.sql.rewrite.rows import PrivateRows

KEPT_COLUMN: Final = f"{INTERNAL_PREFIX}kept"
_PAIRS: Final = f"{INTERNAL_PREFIX}pairs"
_UNITS: Final = f"{INTERNAL_PREFIX}units"
_BOTH: Final = f"{INTERNAL_PREFIX}both"
_LARGEST = 2**62


def climbed_columns(estimate: LeftOutPlan) -> list[str]:
    """List the columns of what units climbed below each rung, from the lowest."""
    return [f"{INTERNAL_PREFIX}climbed{place}" for place in range(estimate.noise.ladder.rungs)]


def left_out_sql(plan: BlockPlan, estimate: LeftOutPlan, dialect: Dialect) -> Sql:
    """Write the exact row of an estimate: a row id, ``KEPT_COLUMN``, ``climbed_columns``.

    All are 0 over no rows.

    Sensitivity: when one unit is added, what is kept grows by at most ``estimate.noise.most``, and
    what is climbed in each of the ladder's spans by at most the span, and in none before those
    below are climbed. Checked by ``tests/sql/test_left_out_sql.py``.
    """
    measure = estimate.subject.bounded_measure(plan)
    only = replace(
        plan, measures=(replace(plan.measures[estimate.subject.measure], measure=measure),)
    )
    alone = replace(estimate, subject=replace(estimate.subject, measure=0, rows=False))
    shared = _Shared(PrivateRows(only, 0, dialect), (alone,))
    pairs = dialect.derived(shared.pairs())
    units = dialect.derived(shared.units(pairs)) if shared.by_unit else None
    return shared.estimate(shared.estimated[0], pairs, units)


def tables_read(plan: BlockPlan, estimate: LeftOutPlan) -> tuple[TableName, ...]:
    """List the tables that ``left_out_sql`` scans, each as often as it does.

    Where a unit keeps all of its groups, it adds up twice: within bounds, and what is beyond.
    """
    keeps_all = plan.bounding is None or not plan.block.keys
    return scanned(plan.block.source.rows) * (2 if keeps_all and not estimate.clamped else 1)


@dataclass(frozen=True, slots=True)
class SharedSQL:
    """The statements of a block and its estimates, over rows that are read and grouped once.

    ``stored`` are tables to be stored, by name, in this order. ``groups`` has the block's groups,
    not numbered, ``estimates`` the rows of the estimates, in the order in which they were asked
    for.
    """

    stored: tuple[tuple[str, Sql], ...]
    groups: Sql
    estimates: tuple[Sql, ...]


def shared_sql(rows: PrivateRows, estimates: Sequence[LeftOutPlan]) -> SharedSQL:
    """Write a block and its estimates, for a plan that ``shares_rows``.

    The groups are those of ``Rewriter.groups`` under the same salt, and the estimates' rows those
    of ``left_out_sql``, with the same sensitivities. Checked by ``tests/sql/test_left_out_sql.py``.
    """
    shared = _Shared(rows, estimates)
    if rows.ranks_rows:
        return shared.of_sorted_rows()
    pairs, units = quoted(_PAIRS), quoted(_UNITS) if shared.by_unit else None
    stored = [(_PAIRS, shared.pairs())]
    if rows.staged is not None:  # where they are stored
        pairs, stored = rows.dialect.derived(shared.pairs()), []
    if units is not None:
        stored.append((_UNITS, shared.units(pairs)))
    return SharedSQL(
        tuple(stored),
        shared.rewriter.over(pairs, units),
        tuple(shared.estimate(one, pairs, units) for one in shared.estimated),
    )


def outside(rows: PrivateRows, measure: Measure, name: Sql) -> Sql:
    """Write 1 for a value that lies outside its bounds, NULL within."""
    assert measure.lattice is not None
    assert measure.argument is not None
    dialect = rows.dialect
    double = dialect.try_cast(name, DOUBLE, dialect.type_of(measure.argument, rows.table))
    low, high = (dialect.double(n) for n in (measure.lattice.lower, measure.lattice.upper))
    found = sql("{double} < {low} OR {double} > {high}", double=double, low=low, high=high)
    if numbers_of(measure.argument, rows.table) is Numbers.ANY:
        found = sql("({}) AND NOT {}", found, dialect.is_nan(double))
    return sql("CASE WHEN {} THEN 1 END", found)


@dataclass(frozen=True, slots=True)
class _Estimated:
    """An estimate with its measure, and the column ``name`` of a row's contribution to a group.

    Its other columns are told from those of other estimates by ``place``.
    """

    plan: LeftOutPlan
    measure: Measure
    name: Sql
    place: int


class _Shared:
    """The SQL over some rows that a block and its estimates share.

    ``by_unit``: of a unit with many groups not all are kept, so it counts how many it has.
    """

    def __init__(self, rows: PrivateRows, estimates: Sequence[LeftOutPlan]) -> None:
        self.rows = rows
        self.rewriter = Rewriter(rows)
        self.dialect = rows.dialect
        self.by_unit = rows.plan.bounding is not None and bool(rows.keys)
        self.estimated = [
            self._estimated(place, estimate) for place, estimate in enumerate(estimates)
        ]
        self._max_rows = rows.plan.block.parameters.rows_limit

    def _estimated(self, place: int, estimate: LeftOutPlan) -> _Estimated:
        subject = estimate.subject
        name = self._all_rows if subject.rows else self.rows.measures[subject.measure]
        return _Estimated(estimate, subject.bounded_measure(self.rows.plan), name, place)

    @property
    def _all_rows(self) -> Sql:
        """The column with the number of rows, where only units are counted."""
        return self.rows.internal("rows")

    def _column(self, one: _Estimated, name: str) -> Sql:
        return self.rows.internal(f"{name}{one.place}")

    # -- the rows of units --------------------------------------------------------------------

    def pairs(self) -> Sql:
        """Write one row per unit and keys, with all values that estimates use."""
        rows = any(one.plan.subject.rows for one in self.estimated)
        counted = self._all_rows if rows else None
        return self.rewriter.per_unit(self._values_counted(), counted, self._limits())

    def _values_counted(self) -> list[CountedValues]:
        """List the counted values of clamped measures: all values, and those out of bounds."""
        return [
            CountedValues(
                self._column(one, "values"),
                self._column(one, "found"),
                one.plan.subject.measure,
                partial(outside, self.rows, one.measure),
            )
            for one in self.estimated
            if one.plan.clamped
        ]

    def _limits(self) -> dict[int, int]:
        """Tell up to where sums are told apart, by measure."""
        return {
            one.plan.subject.measure: self._seen(one)
            for one in self.estimated
            if one.measure.kind is MeasureKind.SUM and not one.plan.clamped
        }

    @staticmethod
    def _seen(one: _Estimated) -> int:
        """Return the most rows of a unit in a group that an estimate counts, and a block, too."""
        return one.plan.noise.ladder.top + one.plan.noise.most

    def units(self, pairs: Sql) -> Sql:
        """Write one row per unit: its number of groups, and its totals over them."""
        columns = [sql("count(*) AS {}", self.rows.number)]
        for one in self.estimated:
            columns += (sql("{} AS {}", total.sql, name) for total, name in self._totals(one))
        selected = join(", ", [self.rows.unit, *columns])
        return sql("SELECT {} FROM {} GROUP BY {}", selected, pairs, self.rows.unit)

    def _totals(self, one: _Estimated) -> Iterator[tuple[Ranged, Sql]]:
        """Yield the totals over a unit's groups, with their columns."""
        for part, name in self._parts(one):
            yield part.sum(), self._column(one, name)

    def _parts(self, one: _Estimated) -> Iterator[tuple[Ranged, str]]:
        """Yield the parts of one group of a unit that an estimate uses, each with a name."""
        if one.plan.clamped:
            for name in ("found", "values"):
                counted = column(self._column(one, name), 0, MOST_ROWS, dialect=self.dialect)
                yield counted, name
        elif one.measure.kind is not MeasureKind.UNITS:  # which are as many as groups
            yield self._within(one), "within"
            if not one.measure.counts_units:
                yield self._whole(one), "found"

    def _within(self, one: _Estimated) -> Ranged:
        """Compute a unit's bounded contribution to a group."""
        return clamped(one.measure, one.name, self._max_rows, self.dialect)

    def _whole(self, one: _Estimated) -> Ranged:
        """Compute a unit's unbounded contribution to a group, up to the top of the ladder."""
        rows = Gathered(one.name, one.name, self._max_rows, self.dialect)
        return rows.of(one.measure).named(one.name).clamped(0, self._seen(one))

    def of_sorted_rows(self) -> SharedSQL:
        """Write the statements for rows that are sorted once, for groups and for units."""
        of_units = {self.rows.number: self.rows.first_rows(1)}
        for one in self.estimated:
            of_units |= {
                self._column(one, name): total.widened().sql
                for total, name in self._sorted_totals(one)
            }
        both = quoted(_BOTH)
        stored = self.rewriter.beside_units(of_units, self._values_counted(), self._limits())
        columns = join(", ", [*self.rows.keys, *self.rows.measures])
        units = sql("SELECT * FROM {} WHERE {} IS NOT NULL", both, self.rows.unit)
        return SharedSQL(
            ((_BOTH, stored),),
            sql("SELECT {} FROM {} WHERE {} IS NULL", columns, both, self.rows.unit),
            tuple(self.estimate(one, both, self.dialect.derived(units)) for one in self.estimated),
        )

    def _sorted_totals(self, one: _Estimated) -> Iterator[tuple[Ranged, str]]:
        """Yield the same as ``_totals``, of a unit's sorted rows."""
        if one.plan.clamped:
            for name in ("found", "values"):
                yield count(self._column(one, name), dialect=self.dialect), name
        elif one.measure.kind is MeasureKind.ROWS:
            limits = one.measure.contribution(self._max_rows)[1], self._seen(one)
            for name, limit in zip(("within", "found"), limits, strict=True):
                first = self.rows.first_rows(limit)
                yield column(first, 0, MOST_ROWS, dialect=self.dialect), name
        else:
            for part, name in self._parts(one):
                yield part.only_if(self.rows.is_first).sum(), name

    # -- the row of an estimate ----------------------------------------------------------------

    def estimate(self, one: _Estimated, pairs: Sql, units: Sql | None) -> Sql:
        """Write an estimate's row over ``pairs``, and over ``units`` where groups are capped."""
        if units is None and not one.plan.clamped:
            return self._row(one, self._apart(one, pairs))
        kept, left = self._of_unit(one)
        columns = sql(
            "{kept} AS {kept_name}, {} AS {left}",
            self._grains(one, left),
            kept=kept.sql,
            kept_name=self._kept_name,
            left=self._left,
        )
        rows = sql("SELECT {} FROM {}", columns, units or self._valued(one, pairs))
        sums = [self._kept_sum(one), *self._climbed(one)]
        return self._row(
            one, sql("SELECT {} FROM {}", join(", ", sums), self.dialect.derived(rows))
        )

    def _row(self, one: _Estimated, sums: Sql) -> Sql:
        names = join(", ", map(quoted, [KEPT_COLUMN, *climbed_columns(one.plan)]))
        return sql(
            "SELECT 1 AS {}, {} FROM {}", self.rows.row_id, names, self.dialect.derived(sums)
        )

    @property
    def _kept_name(self) -> Sql:
        return quoted(KEPT_COLUMN)

    @property
    def _left(self) -> Sql:
        return self.rows.internal("left")

    def _kept_sum(self, one: _Estimated) -> Sql:
        """Sum the kept parts of units or of groups."""
        kept = column(self._kept_name, 0, one.plan.noise.most, dialect=self.dialect)
        return sql("{} AS {}", _total(kept), self._kept_name)

    def _climbed(self, one: _Estimated) -> Iterator[Sql]:
        """Add up how far units climbed, of a column with what is left out of each, in grains."""
        ladder = one.plan.noise.ladder
        left = column(self._left, 0, ladder.top // ladder.grain, dialect=self.dialect)
        for (low, span), name in zip(ladder.spans, climbed_columns(one.plan), strict=True):
            yield sql("{} AS {}", _total((left - low).clamped(0, span)), quoted(name))

    def _grains(self, one: _Estimated, left: Ranged) -> Sql:
        """Write the left-out part of a unit in grains of the ladder, up to its top."""
        ladder = one.plan.noise.ladder
        counted = left.clamped(0, ladder.top)
        return (counted if ladder.grain == 1 else counted // ladder.grain).narrowed().sql

    def _apart(self, one: _Estimated, pairs: Sql) -> Sql:
        """Write the sums where a unit keeps all of its groups: the kept and the excess.

        Most groups have nothing beyond the bounds, so that few rows are put together by unit.
        """
        derived, left = self.dialect.derived, self._left
        within = self._within(one)
        beyond = self._whole(one) - within
        kept = sql("SELECT {} AS {} FROM {}", within.narrowed().sql, self._kept_name, pairs)
        some = derived(
            sql(
                "SELECT {unit}, {beyond} AS {left} FROM {pairs}",
                unit=self.rows.unit,
                beyond=beyond.sql,
                left=left,
                pairs=pairs,
            )
        )
        some = sql("{} WHERE {} > 0", some, left)
        total = beyond.named(left)
        if self.rows.keys:
            some, total = sql("{} GROUP BY {}", some, self.rows.unit), total.sum()
        units = derived(sql("SELECT {} AS {} FROM {}", self._grains(one, total), left, some))
        first = derived(sql("SELECT {} FROM {}", self._kept_sum(one), derived(kept)))
        second = derived(sql("SELECT {} FROM {}", join(", ", self._climbed(one)), units))
        return sql("SELECT * FROM {} CROSS JOIN {}", first, second)

    def _valued(self, one: _Estimated, pairs: Sql) -> Sql:
        """Write one row per unit with its values, in and out of bounds."""
        if not self.rows.keys:
            return pairs
        named = join(", ", (sql("{} AS {}", total.sql, name) for total, name in self._totals(one)))
        return self.dialect.derived(
            sql(
                "SELECT {unit}, {named} FROM {pairs} GROUP BY {unit}",
                unit=self.rows.unit,
                named=named,
                pairs=pairs,
            )
        )

    def _of_unit(self, one: _Estimated) -> tuple[Ranged, Ranged]:
        """Compute the kept and the left-out part of a unit."""
        parts = {name: part.named(self._column(one, name)) for part, name in self._parts(one)}
        if self.rows.keys:
            parts = {name: part.sum().named(part.sql) for name, part in parts.items()}
        most = one.plan.noise.most
        if one.plan.clamped:
            number, some = parts["values"], parts["found"]
            kept = number.split(0, 0, lambda many: (many - some) * most // many)
            left = number.split(0, 0, lambda many: some * most // many)
            return kept.clamped(0, most).narrowed(), left
        within = parts.get("within", self._number)
        kept = self._kept(within).clamped(0, most)
        return kept.narrowed(), parts.get("found", within) - kept

    @property
    def _number(self) -> Ranged:
        return column(self.rows.number, 1, MOST_ROWS, dialect=self.dialect)

    def _kept(self, within: Ranged) -> Ranged:
        """Compute the kept part of a unit with so many groups, rounded to the nearest."""
        assert self.rows.plan.bounding is not None
        groups, doubled = self.rows.plan.bounding.kept, within * (2 * self.rows.plan.bounding.kept)
        return self._number.split(groups, within, lambda many: (doubled + many) // (many * 2))


def _total(values: Ranged) -> Sql:
    return values.sum().or_zero().clamped(0, _LARGEST).narrowed().sql

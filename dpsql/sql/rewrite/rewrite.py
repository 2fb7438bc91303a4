"""The SQL of exact groups over private rows, generated from a block and its plan.

The rewriting bounds what one unit contributes and computes exact, integer-valued measures per
group. No user text is copied: expressions come from the checked tree, are made total, and names
are quoted. Shapes, with ``salt`` a fresh random number for each query:

* counts of units, and of rows by keys that are not declared: of rows sorted by unit, salted hash
  and key, a unit keeps those of its first ``max_groups_contributed`` keys, and of each key its
  first ones, which are counted;
* other counts of distinct units or values only, and sums of values: COUNT(DISTINCT …) straight on
  the rows, after the same cap, and of values the first ones of a unit in each group;
* other measures: first one row per (unit, key) with clamped contributions, then the same cap, then
  sums over units. Where keys are declared, so that units have many rows with each, rows are grouped
  first; else they are sorted once for the cap and for what those of a key add up to;
* distinct values beside other measures: the cap on the rows, then below each other one row per
  (unit, key) with contributions and the rows with values, then sums and counts of both;
* weighted units: one row per (unit, key) in any case, each with its unit's weight, then sums of
  contributions times weights (:mod:`dpsql.sql.rewrite.weighting`);
* pairs alone: one row per (unit, key), over which a kind of release writes statements of its own;
* over a stage (:mod:`dpsql.sql.rewrite.stage`): all of these but distinct values, with one row per
  (unit, key) from a table instead of rows.

The row number ``__dpsql_rid`` only lines up keys with measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import EMPTY_SQL, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.ir.measures import COUNTED_DISTINCT, Measure, MeasureKind
from dpsql.ir.plan import Bounding
from dpsql.sql.expressions.proven_integers import Ranged, count
from dpsql.sql.expressions.ranges import Numbers, numbers_of
from dpsql.sql.rewrite.contributions import (
    Gathered,
    RowValue,
    as_it_is,
    clamped,
    clamped_step,
    square,
    step,
    summed,
    summed_once,
)
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.weighting import weighted


def numbered(rows: PrivateRows, groups: Sql) -> Sql:
    """Number groups: row id, keys, measures."""
    columns = join(", ", [*rows.keys, *rows.measures])
    row_id = sql("{} AS {}", rows.dialect.row_number(), rows.row_id)
    return sql("SELECT {}, {} FROM {}", row_id, columns, rows.dialect.derived(groups))


@dataclass(frozen=True, slots=True)
class CountedValues:
    """Two columns of a group of a unit: how many values a measure has, and how many are ``some``.

    ``measure`` is its index. ``some`` writes, of a row's value before any bounds, what is NULL for
    all others; it may be anything for what is no value.
    """

    values: Sql
    found: Sql
    measure: int
    some: Callable[[Sql], Sql]


@dataclass(frozen=True, slots=True)
class SteppedSQL:
    """The statements that compute contributions by the end of each of some steps, read once.

    ``rows`` reads private rows, which are to be stored as ``table``; ``by_step`` has a statement
    over these for each step, in order. The first is of all pairs of unit and group so far, those of
    later steps of pairs that have rows in that step: others contribute what they did before.
    """

    table: str
    rows: Sql
    by_step: tuple[Sql, ...]


def declared_groups(rows: PrivateRows) -> Sql:
    """List every group there can be, where nothing is measured; no row is read for it."""
    domains = [key.domain for key in rows.plan.block.keys]
    positions = join(
        ", ",
        (
            rows.dialect.numbers(len(domain or ()), sql("k{}", index), name)
            for index, (domain, name) in enumerate(zip(domains, rows.keys, strict=True))
        ),
    )
    if not positions:
        return sql("SELECT 1 AS {}", rows.row_id)
    columns = join(", ", [sql("{} AS {}", rows.dialect.row_number(), rows.row_id), *rows.keys])
    return sql("SELECT {} FROM {}", columns, positions)


@dataclass(frozen=True, slots=True)
class GatheredOf:
    """The columns of rows that a measure is gathered from: all rows without any.

    ``summed`` has steps that are added up, or with ``squared`` their squared distances from the
    middle of their lattice. The rows where ``counted`` is not NULL are counted.
    """

    measure: Measure
    summed: Sql | None = None
    counted: Sql | None = None
    squared: bool = False


Aggregated: TypeAlias = Callable[[Ranged], Ranged]
"""Tells where an aggregate over a unit's rows in a group is to be found."""


_NULL: Final = sql("NULL")
_ALL: Final = sql("*")
_ROWS: Final = sql("count(*)")


class Rewriter:
    """Writes the totals of private rows, by group, or by unit in each group."""

    def __init__(self, rows: PrivateRows) -> None:
        self.rows = rows
        self.plan = rows.plan
        self.dialect = rows.dialect
        measures = [noisy.measure for noisy in rows.plan.measures]
        # The measures with their columns, and the arguments that they are computed from.
        self._measures = list(zip(measures, rows.measures, strict=True))
        self._sources = [None if m.argument is None else rows.written(m.argument) for m in measures]
        self._values = self._shared_values()
        self._roots = self._columns_squared()

    def over(self, pairs: Sql, units: Sql | None) -> Sql:
        """Write the groups of :meth:`groups` over stored rows of :meth:`per_unit`.

        ``pairs`` names their table, ``units`` one with the ``number`` of groups of each unit, None
        where a unit keeps all of its groups. No measure may count distinct values.
        """
        assert all(m.kind is not MeasureKind.DISTINCT for m, _ in self._measures)
        kept = pairs if units is None else self.rows.capped_apart(pairs, units)
        return self._clamped_sums(kept)

    def beside_units(
        self,
        of_units: Mapping[Sql, Sql],
        counts: Sequence[CountedValues] = (),
        limits: Mapping[int, int] = MappingProxyType({}),
    ) -> Sql:
        """Write groups and units below each other, of rows that are sorted once.

        For rows that are ranked (``ranks_rows``). A row of a group has no unit, its keys and
        measures as :meth:`groups` computes them. That of a unit has ``of_units``: aggregates, with
        their columns, over rows as they are ``placed``. In each of these, a measure's column has
        what was gathered of all rows of the unit in the group, as in :meth:`per_unit`, and the
        columns of ``counts`` the row's own value, and the row's value if it is ``some``; NULL if
        not.
        """
        counted = self._counts_rows({measure.kind for measure, _ in self._measures})
        aggregates: dict[Sql, Sql] = {}
        gathered = {} if counted else self._before_bounds(self._beside(aggregates), limits)
        for one in counts:
            gathered |= {one.values: self._values_of(one), one.found: one.found}
        placed = self.dialect.derived(self.rows.placed(self._steps(counts=counts), aggregates))
        columns = [self.rows.unit, *self.rows.keys, *self.rows.place_columns]
        columns += (sql("{} AS {}", written, name) for name, written in gathered.items())
        once = self.rows.internal("sorted")
        sorted_rows = self.dialect.materialized(
            once, sql("SELECT {} FROM {}", join(", ", columns), placed)
        )
        groups = (
            self._count_rows(once)
            if counted
            else self._clamped_sums(
                sql("{} AND {}", self.rows.first_places(once), self.rows.is_first)
            )
        )
        # Below each other, with NULL for what the other has.
        keys, measures = self.rows.keys, self.rows.measures
        of_group = [_NULL, *keys, *measures, *(_NULL for _ in of_units)]
        of_unit = [self.rows.unit, *(_NULL for _ in (*keys, *measures)), *of_units.values()]
        names = [self.rows.unit, *keys, *measures, *of_units]
        named = join(
            ", ",
            (sql("{} AS {}", written, name) for written, name in zip(of_group, names, strict=True)),
        )
        return sql(
            "WITH {sorted_rows} SELECT {named} FROM {} UNION ALL SELECT {} FROM {once} "
            "GROUP BY {unit}",
            self.dialect.derived(groups),
            join(", ", of_unit),
            sorted_rows=sorted_rows,
            named=named,
            once=once,
            unit=self.rows.unit,
        )

    def _clamped_sums(self, kept: Sql) -> Sql:
        """Sum gathered values over units, from one row per (unit, key), each clamped."""
        sums = [
            self._sum(measure, self._clamped(measure, name)) for measure, name in self._measures
        ]
        return self._grouped(sums, _ROWS, kept)

    def per_unit(
        self,
        counts: Sequence[CountedValues] = (),
        counted: Sql | None = None,
        limits: Mapping[int, int] = MappingProxyType({}),
    ) -> Sql:
        """Write one row per (unit, key) with the totals of the unit's rows, before any bounds.

        These, a column of each measure as it is gathered, and the number of rows in the column
        ``counted``. A unit counts as 1. Measures in ``limits``, by index, are never negative, and
        told apart up to these limits only.
        """

        def columns(found: Aggregated) -> dict[Sql, Sql]:
            numbers = {} if counted is None else {counted: _ALL}
            for one in counts:
                numbers |= {one.found: one.found, one.values: self._values_of(one)}
            return self._before_bounds(found, limits) | {
                name: found(count(source, dialect=self.dialect)).sql
                for name, source in numbers.items()
            }

        return self._by_pair(self._steps(counts=counts), columns)

    def _before_bounds(self, found: Aggregated, limits: Mapping[int, int]) -> dict[Sql, Sql]:
        """Write a unit's contributions to each measure of a group, before any bounds."""
        made = {}
        for place, (measure, name) in enumerate(self._measures):
            if measure.kind is MeasureKind.UNITS:
                made[name] = sql("1")
                continue
            total = self._gathered(name, found).of(measure)
            if place in limits:
                total = total.clamped(0, limits[place]).narrowed()
            made[name] = total.sql
        return made

    def _values_of(self, one: CountedValues) -> Sql:
        """Return the column of the row's values that are counted."""
        return self._values[self.rows.measures[one.measure]]

    def contributions(self, steps: Sql | None = None) -> Sql:
        """Write one row per (unit, key) with the unit's contribution to the group.

        Columns: the unit, the keys, and per measure an integer within ``measure.contribution``,
        in released steps, of which there are fewer. No cap on groups: whoever adds up has to bound
        what a unit contributes in all. ``steps`` are the rows to read, by default all.
        """
        assert all(m.kind is not MeasureKind.DISTINCT for m, _ in self._measures)
        return self._by_pair(self._steps() if steps is None else steps, self._coarsened)

    def stepped(self, number: exp.Expr, steps: int) -> SteppedSQL:
        """Write what :meth:`contributions` computes, by the end of each of ``steps`` steps.

        ``number`` is computed of a row: in which of them it counts first, 0 to ``steps`` - 1.
        """
        table, column = f"{INTERNAL_PREFIX}rows", self.rows.internal("number")
        stored = quoted(table)
        rows = self._steps([(self.rows.written(number), column)])
        pair = [self.rows.unit, *self.rows.keys]
        same = join(
            " AND ",
            (self.dialect.same(sql("here.{}", name), sql("so_far.{}", name)) for name in pair),
        )

        def of(step: int) -> Sql:
            before = sql("SELECT * FROM {} AS so_far WHERE {} <= {}", stored, column, step)
            here = sql(
                "SELECT 1 FROM {stored} AS here WHERE here.{column} = {step} AND {same}",
                stored=stored,
                column=column,
                step=step,
                same=same,
            )
            return before if step == 0 else sql("{} AND EXISTS ({})", before, here)

        return SteppedSQL(table, rows, tuple(self.contributions(of(s)) for s in range(steps)))

    def rows_in_steps(self, counts: Sequence[CountedValues] = ()) -> Sql:
        """Select rows with the columns that :meth:`gathered` names, and the values of ``counts``.

        Of these, the column ``found`` is not NULL for those that are ``some``.
        """
        return self._steps(counts=counts)

    def gathered(self) -> Iterator[GatheredOf]:
        """Yield the columns of rows that each measure is gathered from, where none is distinct."""
        for measure, name in self._measures:
            if measure.argument is None:
                yield GatheredOf(measure)
                continue
            values = self._values[name]
            steps = self._roots.get(values)
            summed = None if measure.of_rows is None else steps or values
            yield GatheredOf(measure, summed, steps or values, squared=steps is not None)

    def pairs(self) -> Sql:
        """Write what units contribute to groups in fine steps; only pairs where units count."""
        if any(measure.kind is not MeasureKind.UNITS for measure, _ in self._measures):
            return self._by_pair(self._steps(), self._contributed)
        columns = join(", ", [self.rows.unit, *self.rows.keys])
        if self.rows.staged is not None:
            return sql("SELECT {} FROM {}", columns, self.rows.staged.table)
        rows = self._to_group(self.dialect.derived(self.rows.select()))
        return sql("SELECT DISTINCT {} FROM {}", columns, rows)

    def by_pair(self, columns: Callable[[Aggregated], Mapping[Sql, Sql]]) -> Sql:
        """Select one row per (unit, key) with ``columns`` of the unit's rows in the group."""
        return self._by_pair(self._steps(), columns)

    def aggregates(self) -> list[Ranged]:
        """List the aggregates over a unit's rows in a group that contributions are computed of.

        Whatever bounds these, and the number of rows.
        """
        asked: dict[Sql, Ranged] = {}

        def found(aggregate: Ranged) -> Ranged:
            return asked.setdefault(aggregate.sql, aggregate)

        found(count(_ALL, dialect=self.dialect))
        self._contributed(found)
        self._before_bounds(found, {})
        return list(asked.values())

    def total(self, place: int, found: Aggregated) -> Ranged:
        """Compute a unit's contribution to a measure of a group before any bounds, by its place."""
        measure, name = self._measures[place]
        return self._gathered(name, found).of(measure)

    def average(self, place: int, found: Aggregated) -> tuple[Ranged, Ranged]:
        """Compute a unit's average in a group of a measure's values, and their number.

        As a distance from the middle; ``place`` is that of the measure.
        """
        measure, name = self._measures[place]
        gathered = self._gathered(name, found)
        assert measure.of_rows is not None
        return gathered.averaged(measure.of_rows), gathered.number()

    @property
    def _max_rows(self) -> int:
        return self.plan.block.parameters.rows_limit

    @property
    def _minimum(self) -> int | None:
        """The fewest units a group needs, where the rewriting has to enforce it."""
        minimum = self.plan.block.parameters.min_units_per_group
        return minimum if minimum > 1 and not self.rows.known else None

    # -- shapes -------------------------------------------------------------------------------

    def groups(self) -> Sql:
        """Write the exact groups: keys, one integer per measure.

        For a known domain the keys are positions in the declared lists. Sensitivity: when one unit
        is added or removed, measure i changes in at most ``plan.groups`` groups (any number for
        top-k with unlimited groups) by at most ``measure.sensitivity`` each. With weighted units it
        changes in up to ``plan.bounding.kept`` groups, by sqrt(``plan.groups``) times as much in
        l2. Checked by ``tests/sql/test_sensitivity.py``.
        """
        bounding, kinds = self.plan.bounding, {noisy.measure.kind for noisy in self.plan.measures}
        if bounding is not None and bounding.weighted:
            assert MeasureKind.DISTINCT not in kinds
            return self._weighted(bounding)
        if self._counts_rows(kinds):
            placed = self.rows.placed(self.rows.select())
            return self._count_rows(self.dialect.derived(placed))
        if kinds <= COUNTED_DISTINCT and self.rows.staged is None:
            return self._count_distinct()
        if MeasureKind.DISTINCT in kinds:
            return self._sum_beside_values()
        if self.rows.ranks_rows:
            pairs = self._by_place(self._steps(), self._contributed)
            return self._summed(self.rows.first_places(self.dialect.derived(pairs)))
        return self._summed(self.rows.capped(self._by_pair(self._steps(), self._contributed)))

    def _counts_rows(self, kinds: set[MeasureKind]) -> bool:
        """Tell whether sorted rows are counted as they are: those of units are sorted anyway."""
        if not self.rows.capped_at_all or not self.dialect.sorts_rows or self.rows.staged:
            return False
        if kinds == {MeasureKind.UNITS}:
            return True
        return self.rows.ranks_rows and kinds <= {MeasureKind.UNITS, MeasureKind.ROWS}

    def _summed(self, units: Sql) -> Sql:
        """Sum contributions, one row per (unit, key), over units."""
        sums = [self._sum(measure, self._added(measure, name)) for measure, name in self._measures]
        return self._grouped(sums, _ROWS, units)

    def _count_rows(self, placed: Sql) -> Sql:
        """Count the first rows of units in groups, which are sorted for the cap in any case."""
        limits = [measure.contribution(self._max_rows)[1] for measure, _ in self._measures]
        most = max(limits)
        rows = self.rows.first_places(placed)
        outputs = [_ROWS if limit == most else self.rows.first_rows(limit) for limit in limits]
        enough = _ROWS if most == 1 else self.rows.first_rows(1)
        return self._grouped(outputs, enough, sql("{} AND {} < {}", rows, self.rows.place, most))

    def _count_distinct(self) -> Sql:
        """Count distinct values straight on the rows."""
        outputs = [self._count(measure, self._values[name]) for measure, name in self._measures]
        units = self._count(Measure(MeasureKind.UNITS), self.rows.unit)
        return self._grouped(outputs, units, self.rows.capped(self._steps()))

    def _by_pair(self, rows: Sql, columns: Callable[[Aggregated], Mapping[Sql, Sql]]) -> Sql:
        """Select one row per (unit, key) with ``columns`` of the unit's rows in the group.

        Of a stage instead of ``rows``, if there is one: it has all their aggregates.
        """
        keys = join(", ", [self.rows.unit, *self.rows.keys])
        staged = self.rows.staged
        if staged is not None:
            written = columns(lambda found: staged.columns[found.sql])
            shown = [sql("{} AS {}", each, name) for name, each in written.items()]
            return sql("SELECT {} FROM {}", join(", ", [keys, *shown]), staged.table)
        named = join(
            ", ", (sql("{} AS {}", written, name) for name, written in columns(as_it_is).items())
        )
        grouped = self._to_group(self.dialect.derived(rows))
        return sql(
            "SELECT {keys}, {named} FROM {grouped} GROUP BY {keys}",
            keys=keys,
            named=named,
            grouped=grouped,
        )

    def _by_place(self, rows: Sql, columns: Callable[[Aggregated], Mapping[Sql, Sql]]) -> Sql:
        """Select the same, with the key's place among those of its unit beside."""
        aggregates: dict[Sql, Sql] = {}
        named = [
            sql("{} AS {}", written, name)
            for name, written in columns(self._beside(aggregates)).items()
        ]
        shown = join(", ", [self.rows.unit, *self.rows.keys, self.rows.rank, *named])
        placed = self.dialect.derived(self.rows.placed(rows, aggregates))
        return sql("SELECT {} FROM {} WHERE {}", shown, placed, self.rows.is_first)

    def _beside(self, aggregates: dict[Sql, Sql]) -> Aggregated:
        """Find aggregates beside each row, and note these with their columns."""

        def found(aggregate: Ranged) -> Ranged:
            name = self.rows.internal(f"of{len(aggregates)}")
            return aggregate.named(aggregates.setdefault(aggregate.sql, name))

        return found

    def _contributed(self, found: Aggregated) -> dict[Sql, Sql]:
        """Write a unit's contributions to each measure of a group but values."""
        return {
            name: self._gathered(name, found).contribution(measure).sql
            for measure, name in self._measures
            if measure.kind is not MeasureKind.DISTINCT
        }

    def _coarsened(self, found: Aggregated) -> dict[Sql, Sql]:
        """Write a unit's contributions to each measure of a group, in released steps."""
        written = self._contributed(found)
        for measure, name in self._measures:
            if measure.lattice is not None and measure.lattice.coarsening > 1:
                fine = self._gathered(name, found).contribution(measure)
                written[name] = (fine // measure.lattice.coarsening).narrowed().sql
        return written

    def _gathered(self, name: Sql, found: Aggregated) -> Gathered:
        values = self._values[name]
        counted = self._roots.get(values, values)
        return Gathered(values, counted, self._max_rows, self.dialect, found)

    def _to_group(self, rows: Sql) -> Sql:
        """Write rows as they are best grouped by unit and keys."""
        return self.dialect.to_group(rows, [self.rows.unit, *self.rows.keys])

    def _sum_beside_values(self) -> Sql:
        """Sum one row per (unit, key), and count the values in the rows below them."""
        values = {name for m, name in self._measures if m.kind is MeasureKind.DISTINCT}
        sums, shown, outputs = [], [], []
        for measure, name in self._measures:
            if name in values:
                sums.append(_NULL)
                shown.append(self._values[name])
                outputs.append(self._count(measure, name))
            else:
                sums.append(name)
                shown.append(_NULL)
                outputs.append(self._sum(measure, self._added(measure, name), self.rows.unit))
        named = [
            sql("{} AS {}", part, name) for part, name in zip(sums, self.rows.measures, strict=True)
        ]
        units = join(", ", [self.rows.unit, *self.rows.keys, *named])
        rows = join(", ", [_NULL, *self.rows.keys, *shown])
        kept, derived = self.rows.internal("kept"), self.dialect.derived
        pairs = self._by_pair(sql("SELECT * FROM {}", kept), self._contributed)
        both = sql(
            "SELECT {units} FROM {} UNION ALL SELECT {rows} FROM {kept}",
            derived(pairs),
            units=units,
            rows=rows,
            kept=kept,
        )
        once = self.dialect.materialized(
            kept, sql("SELECT * FROM {}", self.rows.capped(self._steps()))
        )
        grouped = self._grouped(outputs, sql("count({})", self.rows.unit), derived(both))
        return sql("WITH {} {}", once, grouped)

    def _weighted(self, bounding: Bounding) -> Sql:
        """Sum over weighted units, one row per (unit, key)."""
        names = [name for m, name in self._measures if m.kind is not MeasureKind.UNITS]
        clause, rows = weighted(self.rows, bounding, self.pairs(), names)
        return sql("{} {}", clause, self._summed(rows))

    # -- their parts --------------------------------------------------------------------------

    def _steps(
        self, others: Sequence[tuple[Sql, Sql]] = (), counts: Sequence[CountedValues] = ()
    ) -> Sql:
        """Select rows with each measure's argument as counted or summed; NULL where it is not.

        ``others`` are further expressions, with the columns they become.
        """
        arguments: dict[Sql, Sql] = {}
        steps, over = {}, {}  # what is computed of arguments, and of steps that are there already
        for (measure, name), source in zip(self._measures, self._sources, strict=True):
            if source is None or self._values[name] != name:
                continue
            root = self._roots.get(name)
            if root is None:
                steps[name] = self._step(measure, arguments.setdefault(source, name))
                if measure.kind is MeasureKind.DISTINCT and measure.lattice is not None:
                    over[name] = self._first(measure, name)
            else:
                assert measure.lattice is not None
                over[name] = square(measure.lattice, root, self.dialect)
        computed = [*arguments.items(), *others]
        rows = self.rows.select([sql("{} AS {}", source, name) for source, name in computed])
        if not steps:
            return rows
        for one in counts:
            source = self._sources[one.measure]
            assert source is not None
            steps[one.found] = one.some(arguments[source])
        kept = [name for _, name in others]
        rows = self._with_columns(steps, kept, rows)
        if not over:
            return rows
        # It takes time to find steps, so they are not computed again.
        found = [name for name in steps if name not in over]
        return self._with_columns(over, [*found, *kept], rows)

    def _with_columns(self, made: Mapping[Sql, Sql], kept: Sequence[Sql], rows: Sql) -> Sql:
        named = [sql("{} AS {}", written, name) for name, written in made.items()]
        columns = join(", ", [self.rows.unit, *self.rows.keys, *kept, *named])
        return sql("SELECT {} FROM {}", columns, self.dialect.derived(rows))

    def _shared_values(self) -> dict[Sql, Sql]:
        """Map each measure's column to the first column with the same values.

        What is neither NULL nor NaN is counted where it has steps.
        """
        first: dict[tuple[Sql, Sql, bool], Sql] = {}
        summed: dict[Sql, Sql] = {}
        sourced = [
            (m, name, source)
            for (m, name), source in zip(self._measures, self._sources, strict=True)
            if source is not None
        ]
        values = {name: name for _, name in self._measures}
        for measure, name, source in sourced:
            once = measure.kind is MeasureKind.DISTINCT
            values[name] = first.setdefault((source, self._step(measure, EMPTY_SQL), once), name)
            if measure.of_rows is not None and measure.of_rows.root is None:
                summed.setdefault(source, name)
        for measure, name, source in sourced:
            if self._counts_numbers(measure):
                values[name] = summed.get(source, values[name])
        return values

    def _counts_numbers(self, measure: Measure) -> bool:
        """Tell whether rows are counted whose value is neither NULL nor NaN."""
        if measure.kind is not MeasureKind.VALUES:
            return measure.kind is MeasureKind.NUMBERS
        assert measure.argument is not None
        return numbers_of(measure.argument, self.rows.table) is not Numbers.ANY

    def _columns_squared(self) -> dict[Sql, Sql]:
        """Map the columns of squares to the columns of the steps that are squared."""
        steps = {
            (source, m.of_rows): name
            for (m, name), source in reversed(list(zip(self._measures, self._sources, strict=True)))
            if m.of_rows is not None and self._values[name] == name
        }
        return {
            name: steps[source, m.of_rows.root]
            for (m, name), source in zip(self._measures, self._sources, strict=True)
            if m.of_rows is not None and m.of_rows.root is not None
            if (source, m.of_rows.root) in steps
        }

    def _step(self, measure: Measure, name: Sql) -> Sql:
        if measure.kind is MeasureKind.DISTINCT and measure.lattice is None:
            return self._first(measure, name)
        assert measure.argument is not None
        value = RowValue.of(measure.argument, name, self.rows.table, self.dialect)
        if measure.kind is MeasureKind.DISTINCT:
            assert measure.lattice is not None
            return clamped_step(measure.lattice, value, self.dialect).sql
        return step(measure, value, self.dialect)

    def _first(self, measure: Measure, name: Sql) -> Sql:
        """Return the first values or steps of a unit in a group, by a salted hash, else NULL."""
        # NULL comes last and takes no place.
        group = [self.rows.unit, *self.rows.keys]
        hashed, last = self.rows.hashed([*group, name]), self.dialect.ascending(name)
        order = sql("{} IS NULL, {}, {}", name, hashed, last)
        rank = sql("dense_rank() OVER (PARTITION BY {} ORDER BY {})", join(", ", group), order)
        most = self._max_rows if measure.per_group is None else measure.per_group[1]
        return sql("CASE WHEN {} <= {} THEN {} END", rank, most, name)

    def _added(self, measure: Measure, name: Sql) -> Ranged:
        """Return the column ``name`` of what units add to a group."""
        return self._gathered(name, as_it_is).contribution(measure).named(name)

    def _clamped(self, measure: Measure, name: Sql) -> Ranged:
        return clamped(measure, name, self._max_rows, self.dialect)

    def _sum(self, measure: Measure, contribution: Ranged, units: Sql = _ALL) -> Sql:
        if measure.kind is MeasureKind.UNITS and measure.weights is None:
            return sql("count({})", units)
        return summed(self.rows, measure, contribution)

    def _grouped(self, outputs: list[Sql], units: Sql, rows: Sql) -> Sql:
        keys = self.rows.keys
        named = [
            sql("{} AS {}", out, name)
            for out, name in zip(outputs, self.rows.measures, strict=True)
        ]
        text = sql("SELECT {} FROM {}", join(", ", [*keys, *named]), rows)
        if not keys:
            return text
        having = (
            EMPTY_SQL if self._minimum is None else sql(" HAVING {} >= {}", units, self._minimum)
        )
        return sql("{} GROUP BY {}{}", text, join(", ", keys), having)

    def _count(self, measure: Measure, name: Sql) -> Sql:
        """Count or sum the distinct values of a column, or count units, or those with a value."""
        kind = measure.kind
        if kind is MeasureKind.DISTINCT and measure.lattice is not None:
            return summed_once(measure, name, self.dialect)
        if kind is MeasureKind.DISTINCT:
            return sql("count(DISTINCT {})", name)
        if self.plan.block.rows_are_units:
            return _ROWS if kind is MeasureKind.UNITS else sql("count({})", name)
        if kind is MeasureKind.UNITS:
            return sql("count(DISTINCT {})", self.rows.unit)
        unit = self.rows.unit
        return sql("count(DISTINCT CASE WHEN {} IS NOT NULL THEN {} END)", name, unit)

"""Measures in SQL: contributions of rows, of units to groups, and totals of groups.

Values are integers on the measure's lattice from the first step on, so that sums are exact and do
not depend on the order of rows. All of them are :mod:`dpsql.sql.expressions.proven_integers`, so
that none can overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import EMPTY_SQL, Sql, digits, sql
from dpsql.core.sql_types import BIGINT, DOUBLE, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.measures import Lattice, Measure, MeasureKind
from dpsql.sql.expressions.proven_integers import Ranged, column, count
from dpsql.sql.expressions.ranges import Numbers, numbers_of
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.weighting import UNIT_WEIGHT, weighted_sum

_SATURATION = 2**62


@dataclass(frozen=True, slots=True)
class RowValue:
    """A column with a row's value: its type in the dialect, and the facts about its numbers."""

    name: Sql
    type: SqlType
    numbers: Numbers

    @classmethod
    def of(cls, tree: exp.Expr, name: Sql, table: Table, dialect: Dialect) -> RowValue:
        """Return the column ``name`` that holds the values of an expression over a table."""
        return cls(name, dialect.type_of(tree, table), numbers_of(tree, table))


def step(measure: Measure, value: RowValue, dialect: Dialect) -> Sql:
    """Write a row's value in steps, within its bounds, NULL for values that do not count.

    Values are neither NULL nor NaN where they have steps.
    """
    if measure.of_rows is not None:
        return _steps(measure.of_rows, value, dialect).sql
    name = value.name
    if measure.kind is MeasureKind.NUMBERS:
        double = dialect.try_cast(name, DOUBLE, value.type)
        return sql("CASE WHEN NOT {} THEN 1 END", dialect.is_nan(double))
    return name


def square(lattice: Lattice, name: Sql, dialect: Dialect) -> Sql:
    """Write the squared distance of a row from the middle, of its step ``name`` on the root."""
    assert lattice.root is not None
    root = column(name, lattice.root.low, lattice.root.high, dialect=dialect)
    return (root - lattice.root.midpoint).squared().sql


def _steps(lattice: Lattice, value: RowValue, dialect: Dialect) -> Ranged:
    if lattice.root is None:
        return clamped_step(lattice, value, dialect)
    return (clamped_step(lattice.root, value, dialect) - lattice.root.midpoint).squared()


def clamped_step(lattice: Lattice, given: RowValue, dialect: Dialect) -> Ranged:
    """Clamp a row's value to its bounds, in lattice steps; NULL if NULL or NaN.

    CASE takes half the time of least() and greatest(). What is compared are doubles, to which every
    number can be cast, or integers that need no cast; and casts give NULL where a value does not
    fit, so that one which is skipped for values out of bounds would not fail if it were not.
    """
    value = dialect.try_cast(given.name, DOUBLE, given.type)
    if lattice.integral and lattice.quantum == 1.0:
        value = given.name if given.numbers is Numbers.MACHINE else value
        ends, limits = (lattice.low, lattice.high), (digits(lattice.low), digits(lattice.high))
        inside = dialect.try_cast(given.name, BIGINT, given.type)
    else:
        ends = round(lattice.lower / lattice.quantum), round(lattice.upper / lattice.quantum)
        limits = dialect.double(lattice.lower), dialect.double(lattice.upper)
        steps = dialect.rounded(dialect.quotient(value, lattice.quantum))
        inside = dialect.try_cast(steps, BIGINT, DOUBLE)
    may_be_nan = given.numbers is Numbers.ANY
    steps = sql(
        "CASE {nan}WHEN {value} <= {lower} THEN {low} WHEN {value} >= {upper} THEN {high} "
        "ELSE {inside} END",
        nan=sql("WHEN {} THEN NULL ", dialect.is_nan(value)) if may_be_nan else EMPTY_SQL,
        value=value,
        lower=limits[0],
        low=digits(ends[0]),
        upper=limits[1],
        high=digits(ends[1]),
        inside=inside,
    )
    return column(steps, lattice.low, lattice.high, dialect=dialect)


def as_it_is(aggregate: Ranged) -> Ranged:
    """Find an aggregate in the statement that has it."""
    return aggregate


@dataclass(frozen=True, slots=True)
class Gathered:
    """A unit's rows in one group, as aggregates over them.

    ``name`` is a column of steps, and ``counted`` another that is NULL where that is: to count one
    for all takes less time. ``found`` tells where an aggregate is to be found.
    """

    name: Sql
    counted: Sql
    max_rows: int
    dialect: Dialect
    found: Callable[[Ranged], Ranged] = as_it_is

    def of(self, measure: Measure) -> Ranged:
        """Sum or count rows, before clamping; centred values are clamped, as they are scaled."""
        if measure.argument is None:
            return self._count(sql("*"))
        if measure.lattice is None or measure.of_rows is None:
            return self._count(self.name)
        total = self._total(measure.of_rows)
        if measure.kind is MeasureKind.CENTERED_AVERAGES:
            return self._averaged(measure.lattice, total.or_zero())
        if measure.kind is not MeasureKind.SUM:
            return self._centred(measure, measure.lattice, total.or_zero())
        # Bounds per group that leave out zero are those of units that have values.
        return total if _leaves_out_zero(measure) else total.or_zero()

    def contribution(self, measure: Measure) -> Ranged:
        """Compute a unit's bounded contribution, in 64 bits if it fits."""
        return _bounded(measure, self.of(measure), self.max_rows).narrowed()

    def _count(self, of: Sql) -> Ranged:
        return self.found(count(of, dialect=self.dialect))

    def _total(self, lattice: Lattice) -> Ranged:
        values = RowValue(self.name, DOUBLE, Numbers.ANY)
        return self.found(_steps(lattice, values, self.dialect).named(self.name).sum())

    def number(self) -> Ranged:
        """Count the rows that have a value."""
        return self._count(self.counted)

    def averaged(self, lattice: Lattice) -> Ranged:
        """Compute a unit's average as a distance from the middle of its values, 0 without any."""
        return self._averaged(lattice, self._total(lattice).or_zero())

    def _averaged(self, lattice: Lattice, total: Ranged) -> Ranged:
        """Compute a unit's clamped average as a distance from the middle, 0 for no values."""

        def average(rows: Ranged) -> Ranged:
            whole = total // rows
            return whole.clamped(lattice.low, lattice.high).narrowed() - lattice.midpoint

        return self._count(self.counted).split(0, 0, average)

    def _centred(self, measure: Measure, lattice: Lattice, total: Ranged) -> Ranged:
        """Sum distances from the middle; of more rows than allowed, keep their average.

        Nearly all units have few rows, for which 64 bits do: clamping changes nothing where the
        number is within its limit, and keeps all that an engine might compute elsewhere within its
        type. In this form a sum and an average of the same values share their sum.
        """
        most, number = self.max_rows, self._count(self.counted)
        ends = min(0, most * lattice.low), max(0, most * lattice.high)
        few = total.clamped(*ends).narrowed() - number.at_most(most) * lattice.midpoint
        low, high = measure.contribution(most)

        def many(rows: Ranged) -> Ranged:
            whole = total - rows * lattice.midpoint
            return _scaled(whole, most, rows, lattice.half_width).clamped(low, high).narrowed()

        return number.split(most, few, many).clamped(low, high).narrowed()


def _scaled(centred: Ranged, rows: int, number: Ranged, width: int) -> Ranged:
    """Compute ``centred * rows // number`` for a sum ``centred`` of values within ``width``.

    Where the product fits no type, whole and remainder are scaled apart, with the same result. The
    whole is an average: clamping does not change it, and says how large it can be.
    """
    if centred.fits_times(rows):
        return centred * rows // number
    whole = (centred // number).clamped(-width, width)
    return whole * rows + centred % number * rows // number


def clamped(measure: Measure, name: Sql, max_rows: int, dialect: Dialect) -> Ranged:
    """Clamp a unit's contribution to a group to the measure's bounds.

    ``name`` is the column of what was gathered.
    """
    found = Gathered(name, name, max_rows, dialect).of(measure).named(name)
    return _bounded(measure, found, max_rows)


def _bounded(measure: Measure, found: Ranged, max_rows: int) -> Ranged:
    low, high = measure.contribution(max_rows)
    if measure.lattice is None:
        return found.at_most(high)
    if measure.kind is not MeasureKind.SUM:
        return found  # which is scaled to its bounds
    if _leaves_out_zero(measure):
        assert measure.per_group is not None
        return found.clamped(*measure.per_group).unless_null(found.sql)
    return found.clamped(low, high)


def summed(
    rows: PrivateRows, measure: Measure, contribution: Ranged, weight: str = UNIT_WEIGHT
) -> Sql:
    """Total the contributions to a group, saturated far above any real total.

    ``weight`` is the internal column of the units' weights, where there are some.
    """
    if measure.weights is not None:
        value = weighted_sum(rows, measure, contribution, weight)
    else:
        lattice = measure.lattice
        value = contribution.sum_over(1 if lattice is None else lattice.coarsening)
    return value.clamped(-_SATURATION, _SATURATION).narrowed().sql


def summed_once(measure: Measure, name: Sql, dialect: Dialect) -> Sql:
    """Total the distinct steps of a group, each once, whichever units have them.

    A unit adds ``max_rows_contributed`` of them at most that no other has, each within the bounds.
    """
    lattice = measure.lattice
    assert lattice is not None
    total = column(name, lattice.low, lattice.high, dialect=dialect).sum(distinct=True).or_zero()
    coarse = total if lattice.coarsening == 1 else total // lattice.coarsening
    return coarse.clamped(-_SATURATION, _SATURATION).narrowed().sql


def _leaves_out_zero(measure: Measure) -> bool:
    bounds = measure.per_group
    return bounds is not None and not bounds[0] <= 0 <= bounds[1]

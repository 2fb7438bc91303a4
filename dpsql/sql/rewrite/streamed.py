"""The SQL of rows that are bounded outside of SQL: their unit, group and steps, as integers.

Rows are read, filtered and clamped as for all other statements: this is the innermost SELECT of
them. Declared keys are positions, as ever. Others are found first and stored, numbered in the order
of the keys, each with a salted hash of its own: so what a unit keeps does not depend on which keys
other units have. Units that are no integers are found and stored, too, each with an integer whose
first bits are a salted hash of the unit, and whose last ones tell it from others of this hash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.pairs import PairTally, tallies_of
from dpsql.bounding.specification import (
    EstimateColumns,
    MeasureColumns,
    Specification,
    StepColumn,
)
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, BOOLEAN, TINYINT, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.measures import COUNTED_DISTINCT, Lattice, Measure, MeasureKind
from dpsql.ir.plan import LeftOutPlan, LeftOutSubject
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.rewrite.left_out import outside
from dpsql.sql.rewrite.rewrite import CountedValues, GatheredOf, Rewriter
from dpsql.sql.rewrite.rows import PrivateRows

HASH_COLUMN: Final = f"{INTERNAL_PREFIX}hash"
UNIT_NUMBERS: Final = f"{INTERNAL_PREFIX}unit_numbers"
"""The stored table of units that are no integers."""
_UNITS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
"""Types of units whose values are integers of 64 bits."""
_LARGEST: Final = 2**62
"""The size below which steps and contributions fit 64 bits, and so do their differences."""
_INTEGER: Final = SqlType.of("INTEGER")
_BYTES: Final = ((1, TINYINT), (2, SqlType.of("SMALLINT")), (4, _INTEGER))
"""The types of integers below 64 bits, with their bytes."""
_NUMBER: Final = quoted(f"{INTERNAL_PREFIX}number")
_HASH_BITS: Final = 32
RANK_BITS: Final = 31
"""The last bits of a unit's number, behind those of a hash."""
_MOST_DECLARED: Final = 1 << 16  # groups


@dataclass(frozen=True, slots=True)
class StreamedPairs:
    """The statement of streamed rows, and what is added up of them for each pair.

    Pairs are the same where this is: bounds decide nothing of it, and neither does a salt, unless
    units are sampled by it. ``groups`` is the number of declared groups, None where keys are found.
    """

    statement: Sql
    columns: tuple[StepColumn, ...]
    tallies: tuple[PairTally, ...]
    groups: int | None


class StreamedRows(ABC):
    """The statements of private rows that are streamed: of units, of groups, of the rows."""

    def __init__(self, rows: PrivateRows) -> None:
        self.rows = rows
        self.dialect = rows.dialect

    @abstractmethod
    def stream(self, groups: Sql | None) -> Sql:
        """Write the rows: unit, number of the group from 0, and further columns.

        ``groups`` names the table of :meth:`groups`; None where keys are declared.
        """

    @property
    def numbered(self) -> bool:
        """True where units are no integers of 64 bits, and have numbers in their place."""
        unit = self.rows.table.column(self.rows.plan.block.unit_column)
        return unit is None or str(unit.type) not in _UNITS

    def unit_numbers(self) -> Sql:
        """Write the units, each with its number, to be stored as UNIT_NUMBERS.

        As many units as would have one number do not exist: of one hash there would be 2**31.
        """
        unit, hashed, place = self.rows.unit, quoted(HASH_COLUMN), self.rows.internal("rank")
        rows = self._derived(self.rows.select())
        found = sql("SELECT {} FROM {} GROUP BY {}", unit, rows, unit)
        bits = self.dialect.salted_bits(self.rows.salt, [unit])
        hashes = sql("SELECT {}, {} AS {} FROM {}", unit, bits, hashed, self._derived(found))
        ranked = sql(
            "SELECT {}, {hashed}, row_number() OVER (PARTITION BY {hashed} ORDER BY {}) AS {} "
            "FROM {}",
            unit,
            join(", ", self.rows.ascending([unit])),
            place,
            self._derived(hashes),
            hashed=hashed,
        )
        first = column(hashed, 0, 2**_HASH_BITS - 1, dialect=self.dialect) * 2**RANK_BITS
        last = column(place, 1, MOST_ROWS, dialect=self.dialect).at_most(2**RANK_BITS) - 1
        number = (first + last).sql
        return sql("SELECT {}, {} AS {} FROM {}", unit, number, _NUMBER, self._derived(ranked))

    def groups(self, *, by_hash: bool = False) -> Sql:
        """Write the keys that rows have, numbered from 1 in their order, with hashes of them.

        ``by_hash`` numbers them in the order of these hashes, and of one hash in their own.
        """
        keys = join(", ", self.rows.keys)
        hashed = self.dialect.salted_bits(self.rows.salt, self.rows.keys)
        found = sql("SELECT {} FROM {} GROUP BY {}", keys, self._derived(self.rows.select()), keys)
        order = [*([hashed] if by_hash else []), *self.rows.ascending(self.rows.keys)]
        return sql(
            "SELECT row_number() OVER (ORDER BY {}) AS {}, {}, {} AS {} FROM {}",
            join(", ", order),
            self.rows.row_id,
            keys,
            hashed,
            quoted(HASH_COLUMN),
            self._derived(found),
        )

    def _stream(
        self, rows: Sql, groups: Sql | None, columns: Sequence[Sql], points: Ranged | None = None
    ) -> Sql:
        """Write rows with their unit and the number of their group, and further ``columns``.

        With ``points`` of rows, the number is that of their group and point among all that are
        there.
        """
        ours = sql("here.{}", self.rows.unit)
        own = sql("who.{}", _NUMBER) if self.numbered else ours
        unit = sql("{} AS {}", self.dialect.try_cast(own, BIGINT, BIGINT), self.rows.unit)
        if groups is None:
            number, most = self._position(), self.rows.plan.block.domain_size - 1
        else:  # of a type that does not depend on how many there are
            found = column(sql("there.{}", self.rows.row_id), 1, MOST_ROWS, dialect=self.dialect)
            number, most = found - 1, 2**31 - 1
        if points is not None:
            number = number * (points.high + 1) + points
            most = number.high
        cast = self.dialect.try_cast(number.sql, _narrowest(0, most), BIGINT)
        written = join(", ", [unit, sql("{} AS {}", cast, _NUMBER), *columns])
        source = sql("{} AS here", self._derived(rows))
        if self.numbered:
            same = self.dialect.same(ours, sql("who.{}", self.rows.unit))
            source = sql("{} JOIN {} AS who ON {}", source, quoted(UNIT_NUMBERS), same)
        if groups is None:
            return sql("SELECT {} FROM {}", written, source)
        equal = (
            self.dialect.same(sql("here.{}", key), sql("there.{}", key)) for key in self.rows.keys
        )
        same = join(" AND ", equal)
        return sql("SELECT {} FROM {} JOIN {} AS there ON {}", written, source, groups, same)

    def _position(self) -> Ranged:
        """Write the place of declared keys among all that there can be, the last key's fastest."""
        found: Ranged | None = None
        for key, name in zip(self.rows.plan.block.keys, self.rows.keys, strict=True):
            size = len(key.domain or ())
            here = column(sql("here.{}", name), 1, size, dialect=self.dialect) - 1
            found = here if found is None else found * size + here
        return column(sql("0"), 0, 0, dialect=self.dialect) if found is None else found

    def _derived(self, rows: Sql) -> Sql:
        return self.dialect.derived(rows)


class Streamed(StreamedRows):
    """The statements and the specification of a block whose rows are streamed.

    ``estimates`` are taken at the same rows, and of further subjects, ``beside``, all that such
    estimates would take is there.
    """

    def __init__(
        self,
        rows: PrivateRows,
        estimates: Sequence[LeftOutPlan] = (),
        beside: Sequence[LeftOutSubject] = (),
    ) -> None:
        super().__init__(rows)
        self._rewriter = Rewriter(rows)
        self._columns: dict[Sql, _Column] = {}
        self._gathered = tuple(self._rewriter.gathered())
        self._sources = tuple(map(self._source, self._gathered))
        self._outside: list[CountedValues] = []
        self._estimates = tuple(map(self._estimated, estimates))
        self._beside = tuple(map(self._clamped, beside))

    def source(self, measure: int) -> MeasureColumns:
        """Return the columns of a measure, by its index."""
        return self._sources[measure]

    def objection(self, *, read_often: bool = False) -> str | None:
        """Say why these rows have to be bounded in SQL; None if they need not be.

        SQL counts units in groups as fast, unless the pairs of both, or their rows, are
        ``read_often``.
        """
        plan, block = self.rows.plan, self.rows.plan.block
        kinds = {noisy.measure.kind for noisy in plan.measures}
        if not kinds - COUNTED_DISTINCT and not read_often:
            return "only units are counted"
        if MeasureKind.DISTINCT in kinds:
            return "distinct values are counted"
        if block.rows_are_units:
            return "each row is a unit"
        if plan.bounding is not None and plan.bounding.weighted:
            return "units are weighted"
        if self.rows.known and self.numbered:
            return "units are no integers of 64 bits, and to number them takes what it saves"
        if self.rows.known and block.domain_size > _MOST_DECLARED:
            return "there are too many declared groups"
        if any(self._size(source) >= _LARGEST for source in self._sources):
            return "sums do not fit 64 bits"
        return None

    def specification(self, groups: int, hashes: NDArray[np.int64] | None = None) -> Specification:
        """Write down the bounds, for so many groups; ``hashes`` are those of :meth:`groups`."""
        plan = self.rows.plan
        capped = plan.bounding is not None and self.rows.capped_at_all
        return Specification(
            columns=tuple(each.steps for each in self._columns.values()),
            sources=self._sources,
            groups=groups,
            kept=plan.bounding.kept if capped and plan.bounding is not None else None,
            max_rows=plan.block.parameters.rows_limit,
            minimum=1 if self.rows.known else plan.block.parameters.min_units_per_group,
            salt=self.rows.salt,
            always=not self.rows.keys,
            estimates=self._estimates,
            beside=self._beside,
            hashes=hashes,
            rank_bits=RANK_BITS if self.numbered else 0,
        )

    def stream(self, groups: Sql | None) -> Sql:
        """Write the rows: unit, number of the group, and the columns of the specification."""
        columns = [each.written(self.dialect, name) for name, each in self._columns.items()]
        return self._stream(self._rewriter.rows_in_steps(self._outside), groups, columns)

    def pairs(self, groups: Sql) -> StreamedPairs:
        """Return the origin of its pairs; ``groups`` names the table of keys found in rows."""
        known = self.rows.plan.block.domain_size if self.rows.known else None
        spec = self.specification(known or 0)
        statement = self.stream(groups if known is None else None)
        return StreamedPairs(statement, spec.columns, tallies_of(spec), known)

    def _source(self, gathered: GatheredOf) -> MeasureColumns:
        """Return the columns that a measure is gathered from, and have them streamed."""
        lattice, summed, midpoint = gathered.measure.of_rows, None, None
        if gathered.summed is not None:
            assert lattice is not None
            root = lattice.root if gathered.squared else None
            midpoint = None if root is None else root.midpoint
            summed = self._streamed(gathered.summed, root or lattice)
        counted = None
        if gathered.counted is not None and _counts(gathered.measure):
            counted = self._streamed(gathered.counted, None)
        return MeasureColumns(gathered.measure, summed, midpoint, counted)

    def _estimated(self, estimate: LeftOutPlan) -> EstimateColumns:
        """Return the columns of an estimate: its measure's, or all values and those out of bounds.

        The caps on groups are those of ``left_out_sql``.
        """
        subject, bounding = estimate.subject, self.rows.plan.bounding
        measure = subject.bounded_measure(self.rows.plan)
        groups = bounding.kept if bounding is not None and self.rows.keys else None
        if subject.rows:
            return EstimateColumns(estimate, MeasureColumns(measure), groups=groups)
        if not subject.clamped:
            return EstimateColumns(estimate, self._sources[subject.measure], groups=groups)
        return EstimateColumns(estimate, *self._clamped(subject), groups)

    def _clamped(self, subject: LeftOutSubject) -> tuple[MeasureColumns, int]:
        """Return the columns of a measure's values, and of those out of their bounds."""
        measure, gathered = subject.bounded_measure(self.rows.plan), self._gathered[subject.measure]
        assert gathered.counted is not None
        found = self.rows.internal(f"outside{len(self._outside)}")
        counted = CountedValues(
            gathered.counted, found, subject.measure, partial(outside, self.rows, measure)
        )
        self._outside.append(counted)
        values = MeasureColumns(measure, counted=self._streamed(gathered.counted, None))
        return values, self._streamed(found, None)

    def _streamed(self, name: Sql, lattice: Lattice | None) -> int:
        """Have a column streamed, for its sum with a ``lattice``, else for its rows with a value.

        Returns its place.
        """
        known = self._columns.get(name, _Column())
        known = (
            replace(known, counted=True)
            if lattice is None
            else replace(known, low=lattice.low, high=lattice.high, summed=True)
        )
        self._columns[name] = known
        return list(self._columns).index(name)

    def _size(self, source: MeasureColumns) -> int:
        """Bound two steps, and what a unit contributes to a group."""
        measure, rows = source.measure, self.rows.plan.block.parameters.rows_limit
        if measure.of_rows is None:
            return measure.reach(rows)
        step = max(abs(measure.of_rows.low), abs(measure.of_rows.high))
        return max(2 * step, measure.reach(rows))


class StreamedPoints(StreamedRows):
    """The statements of rows whose values are ``points`` of a grid, numbered from 0.

    ``source`` is the query of units, keys and points. Rows without a value are at the point after
    the last one.
    """

    def __init__(self, rows: PrivateRows, source: Sql, points: Ranged) -> None:
        super().__init__(rows)
        self._source = source
        self._points = points

    def stream(self, groups: Sql | None) -> Sql:
        """Write the rows: unit, and the number of their group and point among all there are."""
        return self._stream(self._source, groups, (), self._points)


def _counts(measure: Measure) -> bool:
    """Tell whether a measure depends on how many values there are: a sum within bounds does not."""
    bounds = measure.per_group
    zero = bounds is None or bounds[0] <= 0 <= bounds[1]
    return measure.kind is not MeasureKind.SUM or not zero


@dataclass(frozen=True, slots=True)
class _Column:
    """A streamed column: its uses, and the bounds of its steps."""

    low: int = 0
    high: int = 1
    summed: bool = False
    counted: bool = False

    @property
    def steps(self) -> StepColumn:
        """The column as the specification has it."""
        if not self.summed:
            return StepColumn(0, 1, 0)
        return StepColumn(self.low, self.high, self.low - 1 if self.counted else None)

    def written(self, dialect: Dialect, name: Sql) -> Sql:
        """Write its values: steps and an integer for NULL, or 1 for a value and 0 for none."""
        ours = sql("here.{}", name)
        if not self.summed:
            there = dialect.try_cast(sql("({} IS NOT NULL)", ours), TINYINT, BOOLEAN)
            return sql("{} AS {}", there, name)
        steps = self.steps
        missing = 0 if steps.missing is None else steps.missing
        type_ = _narrowest(min(steps.low, missing), max(steps.high, missing))
        found = sql("coalesce({}, {})", ours, digits(missing))
        return sql("{} AS {}", dialect.try_cast(found, type_, BIGINT), name)


def _narrowest(low: int, high: int) -> SqlType:
    """Return the smallest type that has integers from ``low`` to ``high``."""
    for size, type_ in _BYTES:
        if -(256**size) <= 2 * low and 2 * high < 256**size:
            return type_
    return BIGINT

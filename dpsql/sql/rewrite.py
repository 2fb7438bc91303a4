"""The only SQL that reads private rows, generated from a block and its plan.

The rewriting bounds what one unit contributes and computes exact, integer-valued measures per
group. No user text is copied: expressions come from the checked tree, are made total, and names
are quoted. Shapes, with ``salt`` a fresh random number for each query:

* unit counts only: COUNT(DISTINCT unit) straight on the rows, of which a unit keeps those of its
  first ``max_groups_contributed`` keys in the order of a salted hash;
* other measures: first one row per (unit, key) with clamped contributions, then the same cap, then
  sums over units;
* weighted units: one row per (unit, key) in either case, each with its unit's weight, then sums of
  contributions times weights (:mod:`dpsql.sql.weighting`);
* top-k: ORDER BY the score DESC, then the keys, LIMIT k_bar + 1.

The row number ``__dpsql_rid`` only lines up keys with measures.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.mechanisms.set_union import SetUnion
from dpsql.plan import BlockPlan, Bounding
from dpsql.query import ROW_ID, Measure, MeasureKind
from dpsql.quoting import quote
from dpsql.schema import Table
from dpsql.sql.rows import UNIT, PrivateRows
from dpsql.sql.set_union import set_union_sql
from dpsql.sql.text import to_sql
from dpsql.sql.totality import total
from dpsql.sql.weighting import weighted, weighted_sum

_SATURATION = 2**62


def rewrite(plan: BlockPlan, table: Table, salt: int) -> str:
    """The SQL that computes the exact rows of a block: row id, keys, one integer per measure.

    For a known domain the keys are positions in the declared lists. Sensitivity: when one unit is
    added or removed, measure i changes in at most ``plan.groups`` groups (any number for top-k
    with unlimited groups) by at most ``measure.sensitivity`` each. With weighted units it changes
    in up to ``plan.bounding.kept`` groups, by sqrt(``plan.groups``) times as much in l2. Checked by
    ``tests/test_sensitivity.py``.
    """
    if isinstance(plan.selection, SetUnion):
        return set_union_sql(plan, table, salt).sql
    return _Rewriter(PrivateRows(plan, table, salt)).sql()


@dataclass(frozen=True, slots=True)
class _Rewriter:
    rows: PrivateRows

    @property
    def plan(self) -> BlockPlan:
        return self.rows.plan

    def sql(self) -> str:
        measures = [m.measure for m in self.plan.measures]
        if all(measure.kind is MeasureKind.UNITS for measure in measures):
            groups = self._count_units(measures)
        else:
            groups = self._sum_over_units(measures)
        if self.plan.selection.fetch is not None:
            assert self.plan.score is not None
            terms = [f"{self.rows.measures[self.plan.score]} DESC", *self.rows.keys]
            groups += f" ORDER BY {', '.join(terms)} LIMIT {self.plan.selection.fetch}"
        columns = ", ".join([*self.rows.keys, *self.rows.measures])
        return f"SELECT row_number() OVER () AS {quote(ROW_ID)}, {columns} FROM ({groups})"

    @property
    def _minimum(self) -> int | None:
        """The fewest units a group needs, where the rewriting has to enforce it."""
        minimum = self.plan.block.parameters.min_units_per_group
        return minimum if minimum > 1 and not self.rows.known else None

    # -- shapes -------------------------------------------------------------------------------

    def _count_units(self, measures: list[Measure]) -> str:
        bounding = self.plan.bounding
        if bounding is not None and bounding.weighted:
            columns = ", ".join([UNIT, *self.rows.keys])
            pairs = f"SELECT DISTINCT {columns} FROM ({self.rows.select()})"
            return self._weighted(measures, bounding, pairs)
        rows = self.rows.capped(self.rows.select())
        count = f"count(DISTINCT {UNIT})"
        outputs = [
            f"{count} AS {name}" for _, name in zip(measures, self.rows.measures, strict=True)
        ]
        return self._grouped(outputs, count, rows)

    def _sum_over_units(self, measures: list[Measure]) -> str:
        """One row per (unit, key) with bounded contributions, then sums over units."""
        names = self.rows.measures
        per_unit = [
            f"{self._gathered(measure, name)} AS {name}"
            for measure, name in zip(measures, names, strict=True)
        ]
        keys = ", ".join([UNIT, *self.rows.keys])
        units = (
            f"SELECT {keys}, {', '.join(per_unit)} FROM ({self._steps(measures)}) GROUP BY {keys}"
        )
        bounding = self.plan.bounding
        if bounding is not None and bounding.weighted:
            return self._weighted(measures, bounding, units)
        return self._grouped(self._sums(measures), "count(*)", self.rows.capped(units))

    def _weighted(self, measures: list[Measure], bounding: Bounding, pairs: str) -> str:
        """Sums over weighted units; ``pairs`` has one row per (unit, key)."""
        columns = [
            name
            for measure, name in zip(measures, self.rows.measures, strict=True)
            if measure.kind is not MeasureKind.UNITS
        ]
        clause, rows = weighted(self.rows, bounding, pairs, columns)
        return f"{clause} {self._grouped(self._sums(measures), 'count(*)', rows)}"

    def _sums(self, measures: list[Measure]) -> list[str]:
        return [
            f"{self._summed(measure, name)} AS {name}"
            for measure, name in zip(measures, self.rows.measures, strict=True)
        ]

    def _steps(self, measures: list[Measure]) -> str:
        """Rows with each measure's argument as it is counted or summed: an integer or NULL."""
        named = [
            (measure, f"{to_sql(total(measure.argument, self.rows.table))} AS {name}", name)
            for measure, name in zip(measures, self.rows.measures, strict=True)
            if measure.argument is not None
        ]
        rows = self.rows.select([argument for _, argument, _ in named])
        if not named:
            return rows
        steps = [f"{self._step(measure, name)} AS {name}" for measure, _, name in named]
        columns = ", ".join([UNIT, *self.rows.keys, *steps])
        return f"SELECT {columns} FROM ({rows})"

    def _grouped(self, outputs: list[str], units: str, rows: str) -> str:
        keys = self.rows.keys
        text = f"SELECT {', '.join([*keys, *outputs])} FROM {rows}"
        if not keys:
            return text
        having = "" if self._minimum is None else f" HAVING {units} >= {self._minimum}"
        return f"{text} GROUP BY {', '.join(keys)}{having}"

    def _step(self, measure: Measure, name: str) -> str:
        """A row's value clamped to its bounds, in lattice steps; NULL if NULL or NaN."""
        if measure.kind is MeasureKind.VALUES:
            return name
        lattice = measure.lattice
        if lattice is None:
            return f"CASE WHEN NOT isnan(CAST({name} AS DOUBLE)) THEN 1 END"
        if lattice.integral and lattice.quantum == 1.0:
            clamped = f"greatest({lattice.low}, least({lattice.high}, {name}))"
            return f"CASE WHEN {name} IS NOT NULL THEN CAST({clamped} AS BIGINT) END"
        value = f"CAST({name} AS DOUBLE)"
        clamped = f"greatest({lattice.lower!r}, least({lattice.upper!r}, {value}))"
        rounded = f"CAST(round({clamped} / {lattice.quantum!r}) AS BIGINT)"
        # isnan(NULL) is NULL, so NULL falls through to NULL as NaN does.
        return f"CASE WHEN NOT isnan({value}) THEN {rounded} END"

    def _gathered(self, measure: Measure, name: str) -> str:
        """A unit's contribution to one group, before clamping."""
        if measure.argument is None:
            return "count(*)"
        if measure.kind in (MeasureKind.VALUES, MeasureKind.NUMBERS):
            return f"count({name})"
        if measure.kind is MeasureKind.SUM:
            return f"coalesce(sum({name}), 0)"
        assert measure.lattice is not None
        rows = self.plan.block.parameters.max_rows_contributed
        centred = f"coalesce(sum({name} - ({measure.lattice.midpoint})), 0)"
        # With more rows than allowed, scale the sum down: the unit's average is kept.
        return (
            f"CASE WHEN count({name}) > {rows} THEN {centred} * {rows} // count({name}) "
            f"ELSE {centred} END"
        )

    def _clamped(self, measure: Measure, name: str) -> str:
        """A unit's contribution to one group, within what one unit may add."""
        rows = self.plan.block.parameters.max_rows_contributed
        lattice = measure.lattice
        if lattice is None:
            return f"least({name}, {rows})"
        if measure.kind is MeasureKind.SUM:
            low, high = min(0, rows * lattice.low), max(0, rows * lattice.high)
        else:
            low, high = -rows * lattice.half_width, rows * lattice.half_width
        return f"greatest({low}, least({high}, {name}))"

    def _summed(self, measure: Measure, name: str) -> str:
        """The group's total of clamped contributions, saturated far above any real total."""
        clamped = self._clamped(measure, name)
        if measure.weights is not None:
            rows = self.plan.block.parameters.max_rows_contributed
            value = weighted_sum(measure, clamped, measure.reach(rows))
        elif measure.kind is MeasureKind.UNITS:
            return "count(*)"
        else:
            value = f"coalesce(sum({clamped}), 0)"
            if measure.lattice is not None and measure.lattice.coarsening > 1:
                value = f"({value} // {measure.lattice.coarsening})"
        return f"CAST(greatest(-{_SATURATION}, least({_SATURATION}, {value})) AS BIGINT)"

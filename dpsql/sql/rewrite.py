"""The only SQL that reads private rows, generated from a block and its plan.

The rewriting bounds what one unit contributes and computes exact, integer-valued measures per
group. No user text is copied: expressions come from the checked tree, are made total, and names
are quoted. Shapes, with ``salt`` a fresh random number for each query:

* unit counts only: COUNT(DISTINCT unit) straight on the rows, of which a unit keeps those of its
  first ``max_groups_contributed`` keys in the order of a salted hash;
* other measures: first one row per (unit, key) with clamped contributions, then the same cap, then
  sums over units;
* top-k: ORDER BY the score DESC, then the keys, LIMIT k_bar + 1.

The row number ``__dpsql_rid`` only lines up keys with measures.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.mechanisms.set_union import SetUnion
from dpsql.plan import BlockPlan
from dpsql.query import ROW_ID, Measure, MeasureKind
from dpsql.quoting import quote
from dpsql.schema import Table
from dpsql.sql.rows import UNIT, PrivateRows
from dpsql.sql.set_union import set_union_sql
from dpsql.sql.text import to_sql
from dpsql.sql.totality import total

_SATURATION = 2**62


def rewrite(plan: BlockPlan, table: Table, salt: int) -> str:
    """The SQL that computes the exact rows of a block: row id, keys, one integer per measure.

    For a known domain the keys are positions in the declared lists. Sensitivity: when one unit is
    added or removed, measure i changes in at most ``plan.groups`` groups (any number for top-k
    with unlimited groups) by at most ``measure.sensitivity`` each. Checked by
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
        outputs = [
            f"{self._summed(measure, name)} AS {name}"
            for measure, name in zip(measures, names, strict=True)
        ]
        return self._grouped(outputs, "count(*)", self.rows.capped(units))

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

    def _summed(self, measure: Measure, name: str) -> str:
        """The group's total of clamped contributions, saturated far above any real total."""
        rows = self.plan.block.parameters.max_rows_contributed
        if measure.kind is MeasureKind.UNITS:
            return "count(*)"
        if measure.lattice is None:
            return f"CAST(coalesce(sum(least({name}, {rows})), 0) AS BIGINT)"
        lattice = measure.lattice
        if measure.kind is MeasureKind.SUM:
            low, high = min(0, rows * lattice.low), max(0, rows * lattice.high)
        else:
            low, high = -rows * lattice.half_width, rows * lattice.half_width
        value = f"coalesce(sum(greatest({low}, least({high}, {name}))), 0)"
        if lattice.coarsening > 1:
            value = f"({value} // {lattice.coarsening})"
        return f"CAST(greatest(-{_SATURATION}, least({_SATURATION}, {value})) AS BIGINT)"

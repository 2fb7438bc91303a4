"""The SQL of looks: one row of sums that say what bounding keeps and leaves out of a measure.

Rows become one row per unit and keys, as for the answer, then one row per unit: what it adds within
its bounds, and what it has beyond that. No groups are drawn: of a unit with n groups that keeps C,
C/n of what is within the bounds of its groups is kept, which is what a draw keeps on average.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Table
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, LeftOutLook
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.expressions.proven_integers import Ranged, column, count
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.rewrite.contributions import clamped, gathered
from dpsql.sql.rewrite.rewrite import unit_groups
from dpsql.sql.rewrite.rows import PrivateRows

KEPT_COLUMN: Final = f"{INTERNAL_PREFIX}kept"
_LARGEST = 2**62


def climbed_columns(look: LeftOutLook) -> list[str]:
    """List the columns of what units climbed below each rung, from the lowest."""
    return [f"{INTERNAL_PREFIX}climbed{place}" for place in range(look.noise.ladder.rungs)]


def left_out_sql(plan: BlockPlan, look: LeftOutLook, table: Table, dialect: Dialect) -> str:
    """Write a look's exact row: a row id, ``KEPT_COLUMN``, ``climbed_columns``; all 0 of no rows.

    Sensitivity: when one unit is added, what is kept grows by at most ``look.noise.most``, and what
    is climbed in each of the ladder's spans by at most the span, and in none before those below are
    climbed. Checked by ``tests/sql/test_left_out_sql.py``.
    """
    measure = plan.looked_measure(look.subject)
    only = replace(plan, measures=(replace(plan.measures[look.subject.measure], measure=measure),))
    rows = PrivateRows(only, table, 0, dialect)
    kept, left = rows.internal("kept"), rows.internal("left")
    most, ladder = look.noise.most, look.noise.ladder
    sums = [(_total(column(kept, 0, most, wide=True, dialect=dialect)), KEPT_COLUMN)]
    beyond = column(left, 0, ladder.top // ladder.grain, wide=True, dialect=dialect)
    for (low, span), name in zip(ladder.spans, climbed_columns(look), strict=True):
        sums.append((_total((beyond - low).clamped(0, span)), name))
    outputs = ", ".join(f"{sql} AS {dialect.quote(name)}" for sql, name in sums)
    units_of = _clamped_units if look.clamped else _units
    units = dialect.derived(units_of(rows, measure, look))
    return f"SELECT 1 AS {rows.row_id}, {outputs} FROM {units}"


def _total(values: Ranged) -> str:
    return values.sum().or_zero().clamped(0, _LARGEST).narrowed().sql


def _units(rows: PrivateRows, measure: Measure, look: LeftOutLook) -> str:
    """Select for each unit what is kept of it, and what is left out, up to the top."""
    dialect, most, top = rows.dialect, look.noise.most, look.noise.ladder.top
    within, found, number = (rows.internal(name) for name in ("within", "found", "number"))
    (name,) = rows.measures
    max_rows = rows.plan.block.parameters.max_rows_contributed
    contribution = clamped(measure, name, max_rows, dialect)
    whole = contribution
    if not measure.counts_units:
        whole = gathered(measure, name, max_rows, dialect).named(name).clamped(0, top + most)
    pairs = dialect.derived(unit_groups(rows))
    totals = [contribution.sum(), whole.sum(), count("*", dialect=dialect)]
    named = ", ".join(
        f"{total.sql} AS {alias}"
        for total, alias in zip(totals, (within, found, number), strict=True)
    )
    summed = f"SELECT {rows.unit}, {named} FROM {pairs} GROUP BY {rows.unit}"
    kept = _kept(rows, totals[0].named(within), totals[2].named(number)).clamped(0, most)
    left = (totals[1].named(found) - kept).clamped(0, top)
    if look.noise.ladder.grain > 1:
        left = left // look.noise.ladder.grain
    columns = (
        f"{kept.widened().sql} AS {rows.internal('kept')}, "
        f"{left.widened().sql} AS {rows.internal('left')}"
    )
    return f"SELECT {columns} FROM {dialect.derived(summed)}"


def _clamped_units(rows: PrivateRows, measure: Measure, look: LeftOutLook) -> str:
    """Select for each unit which part of its values lies within their bounds, and outside."""
    assert measure.argument is not None
    assert measure.lattice is not None
    dialect, most = rows.dialect, look.noise.most
    value, flag, found, number = (
        rows.internal(name) for name in ("value", "outside", "found", "number")
    )
    source = total_sql(measure.argument, rows.table, dialect)
    values = dialect.derived(rows.select([f"{source} AS {value}"]))
    double = dialect.try_cast(value, "DOUBLE", dialect.type_of(measure.argument, rows.table))
    low, high = dialect.double(measure.lattice.lower), dialect.double(measure.lattice.upper)
    outside = (
        f"CASE WHEN {double} IS NULL OR {dialect.is_nan(double)} THEN NULL "
        f"WHEN {double} < {low} OR {double} > {high} THEN 1 ELSE 0 END"
    )
    flags = dialect.derived(f"SELECT {rows.unit}, {outside} AS {flag} FROM {values}")
    beyond = column(flag, 0, 1, dialect=dialect).sum().or_zero()
    counted = count(flag, dialect=dialect)
    summed = dialect.derived(
        f"SELECT {rows.unit}, {beyond.sql} AS {found}, {counted.sql} AS {number} FROM {flags} "
        f"GROUP BY {rows.unit}"
    )
    all_values, some = counted.named(number), beyond.named(found)
    within = all_values.split(0, 0, lambda many: (many - some) * most // many).clamped(0, most)
    left = all_values.split(0, 0, lambda many: some * most // many).clamped(0, most)
    columns = (
        f"{within.widened().sql} AS {rows.internal('kept')}, "
        f"{left.widened().sql} AS {rows.internal('left')}"
    )
    return f"SELECT {columns} FROM {summed}"


def _kept(rows: PrivateRows, within: Ranged, number: Ranged) -> Ranged:
    """Compute what is kept of a unit with so many groups, rounded to the nearest."""
    bounding = rows.plan.bounding
    if bounding is None or not rows.keys:
        return within
    doubled = within * (2 * bounding.kept)
    return number.split(bounding.kept, within, lambda many: (doubled + many) // (many * 2))

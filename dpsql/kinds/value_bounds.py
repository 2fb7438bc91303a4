"""The choice of the bounds of a value: its SQL, and the weights that are read.

It is a release of its own, of an expression over rows that a condition leaves, whatever their keys.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import DOUBLE
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource, Reads
from dpsql.ir.plan import BlockPlan, PreparedValueBounds
from dpsql.ir.query import UnboundedValue
from dpsql.privacy.mechanisms.bounds_choice import WHOLE_WEIGHT
from dpsql.privacy.mechanisms.value_bounds import ValueBounds
from dpsql.sql.expressions.proven_integers import MOST_ROWS, column
from dpsql.sql.expressions.ranges import Numbers
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.rewrite.contributions import RowValue
from dpsql.sql.rewrite.rows import PrivateRows

_PLACE, _WEIGHT = f"{INTERNAL_PREFIX}place", f"{INTERNAL_PREFIX}weight"


def value_bounds_sql(
    plan: BlockPlan, value: UnboundedValue, draw: ValueBounds, dialect: Dialect
) -> Sql:
    """Write the exact rows of a choice: a row id, a place between rungs, and the weight there.

    Places without weight are left out, and so are rows whose value is NULL or NaN. Sensitivity:
    when one unit is added, the weights grow by at most ``WHOLE_WEIGHT`` together, and none falls.
    Checked by ``tests/kinds/test_value_bounds_kind.py``.
    """
    keyless = replace(plan, block=replace(plan.block, keys=()))
    rows, derived = PrivateRows(keyless, 0, dialect), dialect.derived
    name, place, weight = rows.internal("value"), quoted(_PLACE), quoted(_WEIGHT)
    found, pairs, sizes = (rows.internal(each) for each in ("found", "pairs", "sizes"))
    given = RowValue.of(value.argument, name, rows.table, dialect)
    written = total_sql(value.argument, rows.table, dialect)
    doubles = sql(
        "SELECT {}, {} AS {name} FROM {}",
        rows.unit,
        dialect.try_cast(name, DOUBLE, given.type),
        derived(rows.select([sql("{} AS {}", written, name)])),
        name=name,
    )
    placed = sql(
        "SELECT {}, {} AS {} FROM {} WHERE {}",
        rows.unit,
        _place(draw, name, dialect),
        place,
        derived(doubles),
        _counts(given, name, dialect),
    )
    by_pair = sql(
        "SELECT {pair}, count(*) AS {} FROM {} GROUP BY {pair}",
        found,
        derived(placed),
        pair=join(", ", [rows.unit, place]),
    )
    rows_found = column(found, 1, MOST_ROWS, dialect=dialect)
    by_unit = sql(
        "SELECT {unit}, {} AS {} FROM {} GROUP BY {unit}",
        rows_found.sum().clamped(1, MOST_ROWS).narrowed().sql,
        rows.number,
        pairs,
        unit=rows.unit,
    )
    stored = ((pairs, by_pair), (sizes, by_unit))
    steps = join(", ", [dialect.materialized(each, select) for each, select in stored])
    part = rows_found * WHOLE_WEIGHT // column(rows.number, 1, MOST_ROWS, dialect=dialect)
    weighted = sql(
        "SELECT {}, {} AS {} FROM {} JOIN {} USING ({})",
        place,
        part.clamped(0, WHOLE_WEIGHT).narrowed().sql,
        weight,
        pairs,
        sizes,
        rows.unit,
    )
    by_place = sql(
        "SELECT {place}, {} AS {weight} FROM {} GROUP BY {place}",
        column(weight, 0, WHOLE_WEIGHT, dialect=dialect).sum_over(1).narrowed().sql,
        derived(weighted),
        place=place,
        weight=weight,
    )
    return sql(
        "WITH {} SELECT {} AS {}, {}, {} FROM {}",
        steps,
        dialect.row_number(),
        rows.row_id,
        place,
        weight,
        derived(by_place),
    )


def _counts(given: RowValue, double: Sql, dialect: Dialect) -> Sql:
    """Write the condition that a value, as a double, takes part in sums."""
    some = sql("{} IS NOT NULL", double)
    if given.numbers is not Numbers.ANY:
        return some
    return sql("{} AND NOT {}", some, dialect.is_nan(double))


def _place(draw: ValueBounds, double: Sql, dialect: Dialect) -> Sql:
    """Write the place of a value: so many rungs are below its size, from 0 in the middle.

    Places of values above 0 are above that of 0, which is the number of rungs.
    """
    sizes = draw.sizes
    middle = len(sizes)

    def above(first: int, last: int) -> Sql:
        if first == last:
            return digits(middle + first)
        half = (first + last) // 2
        limit = dialect.double(sizes[half])
        branches = above(first, half), above(half + 1, last)
        return sql("CASE WHEN {} <= {} THEN {} ELSE {} END", double, limit, *branches)

    def below(first: int, last: int) -> Sql:
        if first == last:
            return digits(middle - first)
        half = (first + last) // 2
        limit = dialect.double(-sizes[half])
        branches = below(first, half), below(half + 1, last)
        return sql("CASE WHEN {} >= {} THEN {} ELSE {} END", double, limit, *branches)

    return sql(
        "CASE WHEN {double} > {zero} THEN {} WHEN {double} < {zero} THEN {} ELSE {} END",
        above(1, middle),
        below(1, middle),
        digits(middle),
        double=double,
        zero=dialect.double(0.0),
    )


def read_value_weights(
    source: PrivateSource, prepared: PreparedValueBounds
) -> tuple[list[int], list[int]]:
    """Read the exact weights of values by the number of rungs below their size: above 0, below."""
    found = source.over(Reads(prepared.tables)).exact(prepared.statement, (), [_PLACE, _WEIGHT])
    middle = len(prepared.choice.sizes)
    weights = [0] * (2 * middle + 1)
    for place, weight in zip(
        found.measures[_PLACE].tolist(), found.measures[_WEIGHT].tolist(), strict=True
    ):
        weights[place] += weight
    return weights[middle:], weights[middle::-1]

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

    So many rungs are below the size of a value: places of values above 0 are that far above the
    number of rungs, which is the place of 0, and those of values below 0 as far below it. Places
    without weight are left out, and so are rows whose value is NULL or NaN. Sensitivity:
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
    size = rows.internal("size")
    sized = sql(
        "SELECT {}, {name}, {} AS {} FROM {} WHERE {}",
        rows.unit,
        _place_of_size(draw, sql("abs({})", name), dialect),
        size,
        derived(doubles),
        _counts(given, name, dialect),
        name=name,
    )
    middle = len(draw.sizes)
    steps_away = column(size, 0, middle, dialect=dialect)
    placed = sql(
        "SELECT {}, CASE WHEN {} < {} THEN {} ELSE {} END AS {} FROM {}",
        rows.unit,
        *(name, dialect.double(0.0)),
        (steps_away * -1 + middle).sql,
        (steps_away + middle).sql,
        place,
        derived(sized),
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


def _place_of_size(draw: ValueBounds, size: Sql, dialect: Dialect) -> Sql:
    """Write how many rungs are below the size of a value: as few comparisons as halving takes."""

    def place(first: int, last: int) -> Sql:
        if first == last:
            return digits(first)
        half = (first + last) // 2
        limit = dialect.double(draw.sizes[half])
        branches = place(first, half), place(half + 1, last)
        return sql("CASE WHEN {} <= {} THEN {} ELSE {} END", size, limit, *branches)

    return place(0, len(draw.sizes))


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

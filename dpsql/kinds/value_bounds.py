"""The choice of the bounds of a value: its SQL, and the weights that are read.

It is a release of its own, of an expression over rows that a condition leaves, whatever their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.expressions.ranges import Numbers
from dpsql.sql.rewrite.contributions import RowValue
from dpsql.sql.rewrite.rows import PrivateRows

_PLACE, _WEIGHT = f"{INTERNAL_PREFIX}place", f"{INTERNAL_PREFIX}weight"
_FLIGHT = 16  # rungs that are searched by comparisons, beside the first two: eight octaves


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
    written = rows.written(value.argument)
    doubles = sql(
        "SELECT {}, {} AS {name} FROM {}",
        rows.unit,
        dialect.try_cast(name, DOUBLE, given.type),
        derived(rows.select([sql("{} AS {}", written, name)])),
        name=name,
    )
    middle = len(draw.sizes)
    counted = sql("{} WHERE {}", derived(doubles), _counts(given, name, dialect))
    sized, steps_away = _sized(draw, counted, rows, name)
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


def _sized(draw: ValueBounds, source: Sql, rows: PrivateRows, name: Sql) -> tuple[Sql, Ranged]:
    """Write values with the number of rungs below the size of each, and that number.

    If every second rung is twice as large, from the third on, a size is divided by a power of 2
    first, which rounds nothing, until it is among the lowest rungs: so many rungs take few
    comparisons.
    """
    size, at, dialect = rows.internal("size"), rows.internal("at"), rows.dialect
    sizes, most, times = draw.sizes, len(draw.sizes), 2.0 ** (_FLIGHT // 2)
    doubled = all(a * times == b for a, b in zip(sizes[2:], sizes[2 + _FLIGHT :], strict=False))
    lowest = min(2 + _FLIGHT, most) if doubled else most
    ends = sizes[lowest - 1 : most - 1 : _FLIGHT]  # of all flights but the last
    flights = range(len(ends) + 1)
    sized = sql("SELECT {}, {name}, abs({name}) AS {} FROM {}", rows.unit, size, source, name=name)
    divisors = [dialect.double(times**flight) for flight in flights]
    passed = [digits(flight * _FLIGHT) for flight in flights]
    divided = sql(
        "SELECT {}, {}, {size} / {} AS {size}, {} AS {} FROM {}",
        *(rows.unit, name),
        *(_searched(size, ends, each, dialect) for each in (divisors, passed)),
        *(at, dialect.derived(sized)),
        size=size,
    )
    rungs = _searched(size, sizes[:lowest], list(map(digits, range(lowest + 1))), dialect)
    within = column(rungs, 0, lowest, dialect=dialect)
    below = (column(at, 0, flights[-1] * _FLIGHT, dialect=dialect) + within).at_most(most)
    found = sql(
        "SELECT {}, {}, {} AS {} FROM {}",
        *(rows.unit, name, below.sql, at, dialect.derived(divided)),
    )
    return found, below.named(at)


def _searched(size: Sql, limits: Sequence[float], found: Sequence[Sql], dialect: Dialect) -> Sql:
    """Write the entry of ``found`` for a size, by the number of limits below the size.

    As few comparisons are computed as halving takes.
    """
    if not limits:
        return found[0]
    half = (len(limits) - 1) // 2
    return sql(
        "CASE WHEN {} <= {} THEN {} ELSE {} END",
        *(size, dialect.double(limits[half])),
        _searched(size, limits[:half], found[: half + 1], dialect),
        _searched(size, limits[half + 1 :], found[half + 1 :], dialect),
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

"""The choice of bounds: the SQL for those of a unit, the draws, and their release as bytes.

It is bought before the block that it bounds, and by itself. What is chosen are numbers of
the account's: later questions over the same rows and keys, at about the same price, have them for
nothing.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource, Reads
from dpsql.ir.plan import BlockPlan, OpenBounds, PreparedValueBounds
from dpsql.kinds.stored_json import json_object, require_sound
from dpsql.kinds.streamed_bounds import read_streamed_weights
from dpsql.kinds.value_bounds import read_value_weights
from dpsql.privacy.mechanisms.bounds_choice import (
    MOST_CHOSEN,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
    FoundBounds,
)
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.sql.expressions.proven_integers import MOST_ROWS, column
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.rewrite.contributions import Gathered, RowValue, step
from dpsql.sql.rewrite.rows import PrivateRows

_PARTS: Final = frozenset({"bounds choice", "rows", "groups"})
_OF_VALUES: Final = frozenset({"value bounds", "lower", "upper"})
_VERSION: Final = 1
_ROWS: Final = f"{INTERNAL_PREFIX}rows"
_GROUPS: Final = f"{INTERNAL_PREFIX}groups"
_WEIGHT: Final = f"{INTERNAL_PREFIX}weight"
_NOWHERE: Final = -1  # no number of rows or groups: of rows for another draw
_Weights = tuple[list[int], list[int]]  # by rows and by groups, each of shape (rungs + 1,) or (0,)


def bounds_choice_sql(plan: BlockPlan, choice: BoundsChoice, dialect: Dialect) -> Sql:
    """Write the exact rows of a choice: a row id, numbers of rows and of groups, and their weight.

    Numbers that no pair has are left out. Those of a count are as they are: pairs with N different
    numbers of rows have half of N squared rows, so there are few. A number for sums is the first
    rung that is not below it, and shared values have the number of rungs below their place instead.
    Sensitivity: when one unit is added, the weights of either grow by at most ``WHOLE_WEIGHT``
    together, and none falls. Those of shared values, between any two rungs, grow by as many whole
    weights as there are numbers between these at most, and fall by as many as the lower one is.
    Checked by ``tests/kinds/test_bounds_choice_kind.py``.
    """
    rows, derived = PrivateRows(plan, 0, dialect), dialect.derived
    shared = choice.rows is not None and choice.rows.shared
    found, weight = rows.internal("found"), quoted(_WEIGHT)
    pair = join(", ", [rows.unit, *rows.keys])
    once = rows.internal("once")
    read, size = (once, sql("count(*)")) if shared else _sized(rows)
    pairs = sql(
        "SELECT {pair}, {size} AS {found} FROM {rows} GROUP BY {pair}",
        pair=pair,
        size=size,
        found=found,
        rows=dialect.to_group(read, [rows.unit, *rows.keys]),
    )
    all_pairs, all_sizes = rows.internal("pairs"), rows.internal("sizes")
    sizes = sql(
        "SELECT {unit}, count(*) AS {} FROM {} GROUP BY {unit}",
        rows.number,
        all_pairs,
        unit=rows.unit,
    )
    stored = [(all_pairs, pairs), (all_sizes, sizes)]
    if shared:
        stored.insert(0, (once, _with_values(rows)))
    steps = join(", ", [dialect.materialized(name, written) for name, written in stored])
    # Takes half the time of one window over all pairs.
    counted = sql("SELECT * FROM {} JOIN {} USING ({})", all_pairs, all_sizes, rows.unit)
    groups = column(rows.number, 1, MOST_ROWS, dialect=dialect)
    held = found
    if choice.rows is not None and (shared or plan.block.sums_alone):
        held = digits(_NOWHERE) if shared else _rung(choice.rows, found)
    of = ((held, choice.rows, _ROWS), (rows.number, choice.groups, _GROUPS))
    drawn = [(each, draw, quoted(part)) for each, draw, part in of if draw is not None]
    places = join(", ", [place for _, _, place in drawn])
    weighted = sql(
        "SELECT {}, {} AS {} FROM {}",
        join(", ", [sql("{} AS {}", each, place) for each, _, place in drawn]),
        (WHOLE_WEIGHT // groups).narrowed().sql,
        weight,
        derived(counted),
    )
    if shared:
        values = sql(
            "SELECT {}, {weight} FROM {}",
            join(
                ", ",
                [
                    place if draw.shared else sql("{} AS {}", digits(_NOWHERE), place)
                    for _, draw, place in drawn
                ],
            ),
            derived(_named_first(rows, choice, once, all_sizes)),
            weight=weight,
        )
        weighted = values if choice.groups is None else sql("{} UNION ALL {}", weighted, values)
    whole = column(weight, -WHOLE_WEIGHT if shared else 0, WHOLE_WEIGHT, dialect=dialect)
    by_place = sql(
        "SELECT {places}, {} AS {weight} FROM {} GROUP BY {places}",
        whole.sum_over(1).narrowed().sql,
        derived(weighted),
        places=places,
        weight=weight,
    )
    return sql(
        "WITH {} SELECT {} AS {}, {}, {} FROM {}",
        steps,
        dialect.row_number(),
        rows.row_id,
        places,
        weight,
        derived(by_place),
    )


def _value(rows: PrivateRows, index: int) -> Sql:
    return rows.internal(f"value{index}")


def _with_values(rows: PrivateRows) -> Sql:
    """Select rows with all values that are counted once each."""
    arguments = []
    for index, measure in enumerate(rows.plan.block.values_alone):
        assert measure.argument is not None
        source = total_sql(measure.argument, rows.table, rows.dialect)
        arguments.append(sql("{} AS {}", source, _value(rows, index)))
    return rows.select(arguments)


def _named_first(rows: PrivateRows, choice: BoundsChoice, once: Sql, sizes: Sql) -> Sql:
    """Write the weights of values by the rungs below the place at which a unit first has them.

    Each unit has its values in an order of its own, by a hash, like those that an answer keeps. A
    value is known by its hash, which all spellings share. Up to a rung it has the weight of the
    heaviest unit that names it there, and each rung what is beyond the ones before: in two rows,
    that with the rung's own units, less that without them.
    """
    dialect, derived, draw = rows.dialect, rows.dialect.derived, choice.rows
    assert draw is not None
    named, found, place = rows.internal("named"), rows.internal("found"), quoted(_ROWS)
    weight, at, row = quoted(_WEIGHT), rows.internal("at"), rows.internal("row")
    group, measures = [rows.unit, *rows.keys], rows.plan.block.values_alone
    ranked = (
        sql(
            "SELECT {}, {} AS {}, dense_rank() OVER (PARTITION BY {} ORDER BY {}, {}) AS {} "
            "FROM {} WHERE {} IS NOT NULL",
            rows.unit,
            dialect.salted_hash(index, [*rows.keys, value]),
            named,
            join(", ", group),
            rows.hashed([*group, value]),
            dialect.ascending(value),
            found,
            once,
            value,
        )
        for index, value in ((index, _value(rows, index)) for index in range(len(measures)))
    )
    parts = column(rows.number, 1, MOST_ROWS, dialect=dialect) * len(measures)
    weighted = sql(
        "SELECT {}, {} AS {}, {} AS {} FROM {} JOIN {} USING ({})",
        *(named, _place(draw, found), place),
        *((WHOLE_WEIGHT // parts).narrowed().sql, weight),
        *(derived(join(" UNION ALL ", ranked)), sizes, rows.unit),
    )
    heaviest = sql(
        "SELECT {named}, {place}, max({weight}) AS {weight} FROM {} GROUP BY {named}, {place}",
        derived(weighted),
        named=named,
        place=place,
        weight=weight,
    )
    twice = sql(
        "SELECT {named}, {place}, {row}, 2 * {place} + {row} AS {at}, "
        "CASE WHEN {row} = 2 THEN {weight} ELSE 0 END AS {weight} FROM {} CROSS JOIN {}",
        derived(heaviest),
        dialect.numbers(2, sql("n"), row),
        named=named,
        place=place,
        row=row,
        at=at,
        weight=weight,
    )
    so_far = sql("max({}) OVER (PARTITION BY {} ORDER BY {})", weight, named, at)
    heavy = column(so_far, 0, WHOLE_WEIGHT, dialect=dialect)
    return sql(
        "SELECT {place}, CASE WHEN {row} = 2 THEN {} ELSE {} END AS {weight} FROM {}",
        heavy.sql,
        (heavy * -1).narrowed().sql,
        derived(twice),
        place=place,
        row=row,
        weight=weight,
    )


def _sized(rows: PrivateRows) -> tuple[Sql, Sql]:
    """Write rows, and the size of a unit's pair with a group: the number of rows that cuts nothing.

    That is its number of rows; of sums alone, the sum as a multiple of the bound of a value, as the
    sum is clamped to so many bounds.
    """
    block, dialect = rows.plan.block, rows.dialect
    if not block.sums_alone:
        return dialect.derived(rows.select()), sql("count(*)")
    named = [(m, _value(rows, index)) for index, m in enumerate(block.sums_alone)]
    arguments, steps, sizes = [], [], []
    for measure, name in named:
        assert measure.argument is not None
        assert measure.lattice is not None
        source = total_sql(measure.argument, rows.table, dialect)
        arguments.append(sql("{} AS {}", source, name))
        value = RowValue.of(measure.argument, name, rows.table, dialect)
        steps.append(sql("{} AS {}", step(measure, value, dialect), name))
        total = Gathered(name, name, 1, dialect).of(measure)
        for end, side in ((measure.lattice.high, total), (-measure.lattice.low, total * -1)):
            if end > 0:
                most = side.clamped(0, end * (MOST_CHOSEN + 1))
                sizes.append(((most + (end - 1)) // end).narrowed().sql)
    selected = join(", ", [rows.unit, *rows.keys, *steps])
    read = sql("SELECT {} FROM {}", selected, dialect.derived(rows.select(arguments)))
    return dialect.derived(read), reduce(dialect.greatest, sizes, sql("0"))


def _place(draw: BoundDraw, number: Sql) -> Sql:
    """Write how many rungs are below a number."""
    cases = (
        sql("WHEN {} <= {} THEN {}", number, digits(rung), digits(index))
        for index, rung in enumerate(draw.rungs)
    )
    return sql("CASE {} ELSE {} END", join(" ", cases), digits(len(draw.rungs)))


def _rung(draw: BoundDraw, number: Sql) -> Sql:
    """Write the first rung that is not below a number; what follows the last where none is."""
    cases = (sql("WHEN {} <= {rung} THEN {rung}", number, rung=rung) for rung in draw.rungs)
    return sql("CASE {} ELSE {} END", join(" ", cases), draw.rungs[-1] + 1)


def read_weights(source: PrivateSource, prepared: OpenBounds) -> _Weights:
    """Read the exact weights of pairs between rungs, in steps: by rows, and by groups.

    Or those of values: above 0, and below.
    """
    if isinstance(prepared, PreparedValueBounds):
        return read_value_weights(source, prepared)
    if prepared.streamed is not None:
        return read_streamed_weights(source, prepared, prepared.streamed)
    columns = [place for place, _ in _places(prepared.choice)]
    rows = source.over(Reads(prepared.tables)).exact(prepared.statement, (), [*columns, _WEIGHT])
    return weights_by_place(prepared.choice, rows.measures)


def weights_by_place(choice: BoundsChoice, rows: Mapping[str, Iterable[int]]) -> _Weights:
    """Sum the weights of exact rows by the rungs below their rows, and by those below groups."""
    found = {}
    for name, draw in _places(choice):
        found[name] = weights = [0] * (len(draw.rungs) + 1)
        for number, weight in zip(rows[name], rows[_WEIGHT], strict=True):
            if number != _NOWHERE:
                place = number if draw.shared else bisect_left(draw.rungs, number)
                weights[int(place)] += int(weight)
    return found.get(_ROWS, []), found.get(_GROUPS, [])


def _places(choice: BoundsChoice) -> list[tuple[str, BoundDraw]]:
    of = ((_ROWS, choice.rows), (_GROUPS, choice.groups))
    return [(name, draw) for name, draw in of if draw is not None]


def release_bounds(prepared: OpenBounds, weights: _Weights, source: EntropySource) -> FoundBounds:
    """Draw the bounds. Guarantee: ``prepared.choice.loss``."""
    return prepared.choice.draw(*weights, source)


def encode_bounds(bounds: FoundBounds) -> bytes:
    """Pack chosen bounds into bytes: those of a unit, or of a value."""
    if bounds.values:
        ((lower, upper),) = bounds.values
        of_value = {"value bounds": _VERSION, "lower": lower, "upper": upper}
        return json.dumps(of_value, separators=(",", ":")).encode()
    document = {"bounds choice": _VERSION, "rows": bounds.rows, "groups": bounds.groups}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_bounds(prepared: OpenBounds, payload: bytes) -> FoundBounds | None:
    """Unpack chosen bounds; None if they are of another version, or of other ladders.

    Raises ``LedgerError`` (``ledger_corrupt``) for what no choice was packed as.
    """
    document = json_object(payload)
    if isinstance(prepared, PreparedValueBounds):
        return _value_bounds(document, prepared)
    require_sound(document.keys() == _PARTS)
    rows, groups = document["rows"], document["groups"]
    require_sound(all(each is None or type(each) is int for each in (rows, groups)))
    choice = prepared.choice
    known = document["bounds choice"] == _VERSION
    choice = prepared.choice
    known = known and _is_of(choice.rows, rows) and _is_of(choice.groups, groups)
    return FoundBounds(rows, groups) if known else None


def _value_bounds(document: dict[str, object], prepared: PreparedValueBounds) -> FoundBounds | None:
    require_sound(document.keys() == _OF_VALUES)
    lower, upper = document["lower"], document["upper"]
    if not isinstance(lower, float) or not isinstance(upper, float):
        require_sound(sound=False)
        return None
    sizes = prepared.choice.sizes
    known = document["value bounds"] == _VERSION and {-lower, upper} <= set(sizes)
    return FoundBounds(values=((lower, upper),)) if known else None


def _is_of(draw: BoundDraw | None, bound: int | None) -> bool:
    return bound is None if draw is None else bound in draw.rungs

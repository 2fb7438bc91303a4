"""The choice of bounds: the SQL for those of a unit, the draws, and their release as bytes.

It is bought before the block that it bounds, and by itself. What is chosen are numbers of
the account's: later questions over the same rows and keys, at about the same price, have them for
nothing.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial, reduce
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateReader, PrivateSource, Reads
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, OpenBounds, PreparedValueBounds
from dpsql.kinds.staged import Stages, StoredStage
from dpsql.kinds.stored_json import json_object, require_sound
from dpsql.kinds.streamed_bounds import read_streamed_weights
from dpsql.kinds.value_bounds import read_value_weights
from dpsql.privacy.mechanisms.bounds_choice import (
    AVERAGE_PLACES,
    MOST_CHOSEN,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
    FoundBounds,
)
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column, count
from dpsql.sql.rewrite.contributions import Gathered, RowValue, step
from dpsql.sql.rewrite.rewrite import Aggregated, Rewriter
from dpsql.sql.rewrite.rows import PrivateRows, Staged

_PARTS: Final = frozenset({"bounds choice", "rows", "groups"})
_OF_VALUES: Final = frozenset({"value bounds", "lower", "upper"})
_VERSION: Final = 1
_MOST_WEIGHT: Final = MOST_ROWS * WHOLE_WEIGHT
_ROWS: Final = f"{INTERNAL_PREFIX}rows"
_GROUPS: Final = f"{INTERNAL_PREFIX}groups"
_WEIGHT: Final = f"{INTERNAL_PREFIX}weight"
_NOWHERE: Final = -1  # no number of rows or groups: of rows for another draw
PlaceWeights = tuple[list[int], list[int]]
"""By rows and by groups, of shapes (row_places,) and (rungs + 1,), or (0,)."""


def bounds_choice_sql(
    plan: BlockPlan, choice: BoundsChoice, dialect: Dialect, staged: Staged | None = None
) -> Sql:
    """Write the exact rows of a choice: a row id, numbers of rows and of groups, and their weight.

    They are read over ``staged`` pairs, if these are there.
    Numbers that no pair has are left out. Those of a count are as they are: pairs with N different
    numbers of rows have half of N squared rows, so there are few. A number for sums is the first
    rung that is not below it, and shared values have the number of rungs below their place instead.
    Pairs with averages have a place for each of these, and the part of the range that it is in.
    Sensitivity: when one unit is added, the weights of either grow by at most ``WHOLE_WEIGHT``
    together, those of one of several averages by its share of that, and none falls. Those of shared
    values, between any two rungs, grow by as many whole weights as there are numbers between these
    at most, and fall by as many as the lower one is.
    Checked by ``tests/kinds/test_bounds_choice_kind.py``.
    """
    rows, derived = PrivateRows(plan, 0, dialect, staged), dialect.derived
    shared = choice.rows is not None and choice.rows.shared
    found, weight = rows.internal("found"), quoted(_WEIGHT)
    once = rows.internal("once")
    all_pairs, all_sizes = rows.internal("pairs"), rows.internal("sizes")
    stored = []
    if choice.centres is not None:
        stored.append((all_pairs, _averaged_pairs(rows, choice)))
    elif staged is None:
        read, size = (once, sql("count(*)")) if shared else _sized(rows)
        pairs = sql(
            "SELECT {pair}, {size} AS {found} FROM {rows} GROUP BY {pair}",
            pair=join(", ", [rows.unit, *rows.keys]),
            size=size,
            found=found,
            rows=dialect.to_group(read, [rows.unit, *rows.keys]),
        )
        stored.append((all_pairs, pairs))
    else:
        all_pairs = derived(_sized_pairs(rows, found))
    sizes = sql(
        "SELECT {unit}, count(*) AS {} FROM {} GROUP BY {unit}",
        rows.number,
        all_pairs,
        unit=rows.unit,
    )
    stored.append((all_sizes, sizes))
    if shared:
        stored.insert(0, (once, _with_values(rows)))
    steps = join(", ", [dialect.materialized(name, written) for name, written in stored])
    of = ((found, choice.rows, _ROWS), (rows.number, choice.groups, _GROUPS))
    drawn = [(each, draw, quoted(part)) for each, draw, part in of if draw is not None]
    apart = shared or choice.centres is not None

    def held(number: Sql, draw: BoundDraw) -> Sql:
        if apart and draw is choice.rows:
            return digits(_NOWHERE)
        return _rung(draw, number) if draw is choice.rows and plan.block.sums_alone else number

    places = join(", ", [place for _, _, place in drawn])
    # A join takes half the time of one window over all pairs, and few numbers are left of them.
    alike = [rows.number, *(each for each, draw, _ in drawn if each != rows.number)]
    alike = alike[:1] if apart else alike
    counted = sql(
        "SELECT {alike}, count(*) AS {} FROM {} JOIN {} USING ({}) GROUP BY {alike}",
        *(rows.internal("times"), all_pairs, all_sizes, rows.unit),
        alike=join(", ", alike),
    )
    times = column(rows.internal("times"), 1, MOST_ROWS, dialect=dialect)
    groups = column(rows.number, 1, MOST_ROWS, dialect=dialect)
    weighted = sql(
        "SELECT {}, {} AS {} FROM {}",
        join(
            ", ",
            [sql("{} AS {}", held(each, draw), place) for each, draw, place in drawn],
        ),
        (times * (WHOLE_WEIGHT // groups)).clamped(0, _MOST_WEIGHT).narrowed().sql,
        weight,
        derived(counted),
    )
    if apart:
        write = _deviating if choice.centres is not None else partial(_named_first, once=once)
        values = sql(
            "SELECT {}, {weight} FROM {}",
            join(
                ", ",
                [
                    place if draw is choice.rows else sql("{} AS {}", digits(_NOWHERE), place)
                    for _, draw, place in drawn
                ],
            ),
            derived(write(rows, choice, pairs=all_pairs, sizes=all_sizes)),
            weight=weight,
        )
        weighted = values if choice.groups is None else sql("{} UNION ALL {}", weighted, values)
    least = -WHOLE_WEIGHT if shared else 0
    whole = column(weight, least, _MOST_WEIGHT, dialect=dialect).sum_over(1)
    by_place = sql(
        "SELECT {places}, {} AS {weight} FROM {} GROUP BY {places}",
        whole.clamped(-_MOST_WEIGHT, _MOST_WEIGHT).narrowed().sql,
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
        source = rows.written(measure.argument)
        arguments.append(sql("{} AS {}", source, _value(rows, index)))
    return rows.select(arguments)


def _averaged_pairs(rows: PrivateRows, choice: BoundsChoice) -> Sql:
    """Write pairs with a place for each of their averages, by rows and by part of the range.

    Those without values have none. What averages a unit has, and of how many rows, is its own.
    """
    block, draw, dialect = rows.plan.block, choice.rows, rows.dialect
    rewriter, averages = Rewriter(rows), block.averages_alone
    assert draw is not None
    size = (len(draw.rungs) + 1) * AVERAGE_PLACES
    numbers = [rows.internal(f"rows{index}") for index in range(len(averages))]
    parts = [rows.internal(f"part{index}") for index in range(len(averages))]

    def columns(found: Aggregated) -> Mapping[Sql, Sql]:
        written = dict[Sql, Sql]()
        for measure, number, part in zip(averages, numbers, parts, strict=True):
            average, counted = rewriter.average(block.measures.index(measure), found)
            half = _half_width(measure)
            inside = (average + half) * AVERAGE_PLACES // (2 * half + 1)
            written |= {number: counted.sql, part: inside.narrowed().sql}
        return written

    placed = []
    for index, (number, part) in enumerate(zip(numbers, parts, strict=True)):
        rung = column(_place(draw, number), 0, len(draw.rungs), dialect=dialect)
        inside = column(part, 0, AVERAGE_PLACES - 1, dialect=dialect)
        place = rung * AVERAGE_PLACES + inside + index * size
        there = sql("CASE WHEN {} > 0 THEN {} ELSE {} END", number, place.sql, digits(_NOWHERE))
        placed.append(sql("{} AS {}", there, _average(rows, index)))
    return sql(
        "SELECT {} FROM {}",
        join(", ", [rows.unit, *rows.keys, *placed]),
        dialect.derived(rewriter.by_pair(columns)),
    )


def _half_width(measure: Measure) -> int:
    """Return how far the values of an average are from their middle, at most, in steps."""
    assert measure.of_rows is not None
    return measure.of_rows.half_width


def _average(rows: PrivateRows, index: int) -> Sql:
    return rows.internal(f"average{index}")


def _deviating(rows: PrivateRows, choice: BoundsChoice, pairs: Sql, sizes: Sql) -> Sql:
    """Write the weights of averages by their places: a unit's, divided among groups and averages.

    Pairs alike in both are weighed together, as there are few kinds of these.
    """
    assert choice.centres is not None
    derived, place, weight = rows.dialect.derived, quoted(_ROWS), quoted(_WEIGHT)
    times = rows.internal("times")
    counted = (
        sql(
            "SELECT {number}, {average} AS {}, count(*) AS {} FROM {} JOIN {} USING ({}) "
            "GROUP BY {number}, {average}",
            *(place, times, pairs, sizes, rows.unit),
            number=rows.number,
            average=_average(rows, index),
        )
        for index in range(choice.centres.number)
    )
    groups = column(rows.number, 1, MOST_ROWS, dialect=rows.dialect) * choice.centres.number
    alike = column(times, 1, MOST_ROWS, dialect=rows.dialect)
    return sql(
        "SELECT {}, {} AS {} FROM {}",
        place,
        (alike * (WHOLE_WEIGHT // groups)).clamped(0, _MOST_WEIGHT).narrowed().sql,
        weight,
        derived(join(" UNION ALL ", counted)),
    )


def _named_first(rows: PrivateRows, choice: BoundsChoice, pairs: Sql, sizes: Sql, once: Sql) -> Sql:
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
    arguments, steps, totals = [], [], []
    for measure, name in named:
        assert measure.argument is not None
        source = rows.written(measure.argument)
        arguments.append(sql("{} AS {}", source, name))
        value = RowValue.of(measure.argument, name, rows.table, dialect)
        steps.append(sql("{} AS {}", step(measure, value, dialect), name))
        totals.append((measure, Gathered(name, name, 1, dialect).of(measure)))
    selected = join(", ", [rows.unit, *rows.keys, *steps])
    read = sql("SELECT {} FROM {}", selected, dialect.derived(rows.select(arguments)))
    return dialect.derived(read), _largest_size(totals, dialect)


def _sized_pairs(rows: PrivateRows, name: Sql) -> Sql:
    """Write staged pairs with their sizes, as :func:`_sized` does."""
    rewriter, measures = Rewriter(rows), rows.plan.block.measures

    def size(found: Aggregated) -> Mapping[Sql, Sql]:
        sums = [(m, measures.index(m)) for m in rows.plan.block.sums_alone]
        if not sums:
            return {name: found(count(sql("*"), dialect=rows.dialect)).sql}
        totals = ((measure, rewriter.total(place, found)) for measure, place in sums)
        return {name: _largest_size(totals, rows.dialect)}

    return rewriter.by_pair(size)


def _largest_size(totals: Iterable[tuple[Measure, Ranged]], dialect: Dialect) -> Sql:
    """Write the largest of sums as multiples of the bounds of a value, rounded up, by their signs.

    It is 0 where no value can be but 0.
    """
    sizes = []
    for measure, total in totals:
        assert measure.lattice is not None
        for end, side in ((measure.lattice.high, total), (-measure.lattice.low, total * -1)):
            if end > 0:
                most = side.clamped(0, end * (MOST_CHOSEN + 1))
                sizes.append(((most + (end - 1)) // end).narrowed().sql)
    return reduce(dialect.greatest, sizes) if sizes else sql("0")


def _place(draw: BoundDraw, number: Sql) -> Sql:
    """Write how many rungs are below a number."""
    cases = (
        sql("WHEN {} <= {} THEN {}", number, digits(rung), digits(index))
        for index, rung in enumerate(draw.rungs)
    )
    return sql("CASE {} ELSE {} END", join(" ", cases), digits(len(draw.rungs)))


def _rung(draw: BoundDraw, number: Sql) -> Sql:
    """Write the first rung not below a number, or the number after the last rung."""
    cases = (sql("WHEN {} <= {rung} THEN {rung}", number, rung=rung) for rung in draw.rungs)
    return sql("CASE {} ELSE {} END", join(" ", cases), draw.rungs[-1] + 1)


def read_weights(source: PrivateSource, prepared: OpenBounds) -> PlaceWeights:
    """Read the exact weights of pairs between rungs, in steps: by rows, and by groups.

    Or those of values: above 0, and below.
    """
    if isinstance(prepared, PreparedValueBounds):
        return read_value_weights(source, prepared)
    if prepared.streamed is not None:
        with ExitStack() as held:
            return read_streamed_weights(prepared, prepared.streamed, Stages(source, held))
    return _read(source.over(Reads(prepared.tables)), prepared.statement, prepared.choice)


def read_staged_weights(
    stored: StoredStage, plan: BlockPlan, choice: BoundsChoice, dialect: Dialect
) -> PlaceWeights:
    """Read the same weights of pairs that are stored."""
    rows = stored.under(PrivateRows(plan, 0, dialect))
    return _read(stored, bounds_choice_sql(plan, choice, dialect, rows.staged), choice)


def _read(rows: PrivateReader, statement: Sql, choice: BoundsChoice) -> PlaceWeights:
    columns = [place for place, _ in _places(choice)]
    found = rows.exact(statement, (), [*columns, _WEIGHT])
    return weights_by_place(choice, found.measures)


def weights_by_place(choice: BoundsChoice, rows: Mapping[str, Iterable[int]]) -> PlaceWeights:
    """Sum the weights of exact rows by the rungs below their rows, and by those below groups."""
    found = {}
    for name, draw in _places(choice):
        size = choice.row_places if draw is choice.rows else len(draw.rungs) + 1
        found[name] = weights = [0] * size
        for number, weight in zip(rows[name], rows[_WEIGHT], strict=True):
            if number != _NOWHERE:
                placed = draw is choice.rows and (draw.shared or choice.centres is not None)
                weights[int(number) if placed else bisect_left(draw.rungs, number)] += int(weight)
    return found.get(_ROWS, []), found.get(_GROUPS, [])


def _places(choice: BoundsChoice) -> list[tuple[str, BoundDraw]]:
    of = ((_ROWS, choice.rows), (_GROUPS, choice.groups))
    return [(name, draw) for name, draw in of if draw is not None]


def release_bounds(
    prepared: OpenBounds, weights: PlaceWeights, source: EntropySource
) -> FoundBounds:
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

"""The weights that bounds of values are drawn from, and how far one unit moves them."""

from __future__ import annotations

import json
import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import TableLab
from helpers.sql_text import text
from helpers.support import planned
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import sql
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan, PreparedValueBounds
from dpsql.kinds.bounds_choice import decode_bounds, encode_bounds
from dpsql.kinds.value_bounds import value_bounds_sql
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.mechanisms.bounds_choice import WHOLE_WEIGHT, FoundBounds
from dpsql.privacy.mechanisms.value_bounds import value_bounds

COLUMNS = (
    *(("u", "BIGINT"), ("x", "DOUBLE"), ("i", "BIGINT"), ("p", "DECIMAL(12,2)")),
    *(("h", "HUGEINT"), ("c", "VARCHAR")),
)
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
RULES = Policy(
    "audit",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={
        "r": TablePolicy("r", PrivacyUnit("unit", "u"), {"c": ColumnPolicy(domain=("p", "q"))})
    },
)
LAB = TableLab("r", COLUMNS)
Row = tuple[Any, ...]
NAN, INFINITE = float("nan"), float("inf")

one_row = st.tuples(
    st.sampled_from([0.0, 0.1, -3.5, 1e300, NAN, INFINITE, -INFINITE, None]),
    st.sampled_from([0, 1, -7, 2**63 - 1, -(2**63), None]),
    st.sampled_from([0, "9.99", "-9999999999.99", None]),
    st.sampled_from([0, 2**100, -(2**126), None]),
    st.sampled_from(["p", "q", "other", None]),
)
worlds = st.tuples(
    st.lists(st.tuples(st.sampled_from([1, 1, 2, 3, None]), one_row), max_size=20),
    st.lists(one_row, max_size=12),
    st.integers(1, 400),  # as often each row of the unit that comes or goes
)
VALUES = ("x", "i", "p", "h", "x * i", "i * i", "p / i", "abs(i)", "x + p", "CAST(c AS INT)", "-h")


def asked(question: str) -> BlockPlan:
    bounds: Any = {"bounds": (), "epsilon": 1.0, "delta": 1e-6}
    (plan,) = planned(question, SCHEMA, RULES, **bounds).plans
    return plan


def statement(plan: BlockPlan) -> str:
    found = plan.block.bounds_found
    assert found is not None
    return text(value_bounds_sql(plan, found.values[0], plan.value_bounds[0], DUCKDB))


def exact(
    plan: BlockPlan, rows: Sequence[Row], written: Callable[[BlockPlan], str] = statement
) -> Counter[int]:
    """The weights by places, of which that of 0 is 0."""
    LAB.fill(rows)
    middle = len(plan.value_bounds[0].sizes)
    found = LAB.rows(written(plan))
    assert sorted(row[0] for row in found) == list(range(1, len(found) + 1))
    return Counter({int(place) - middle: int(weight) for _, place, weight in found})


def moves(
    plan: BlockPlan, world: Any, written: Callable[[BlockPlan], str] = statement
) -> list[int]:
    """How far a unit moves each weight."""
    others, own, times = world
    before = [(unit, *row) for unit, row in others]
    after = [*before, *[(99, *row) for row in own for _ in range(times)]]
    without, with_unit = exact(plan, before, written), exact(plan, after, written)
    return [with_unit[place] - without[place] for place in {*without, *with_unit}]


def search(examples: settings) -> None:
    """Ask random questions, and leave a random unit out."""

    @examples
    @given(st.sampled_from(VALUES), st.sampled_from(["", " WHERE x > 1"]), worlds)
    def within(value: str, where: str, world: Any) -> None:
        moved = moves(asked(f"SELECT c, sum({value}) FROM r{where} GROUP BY c"), world)
        assert min(moved, default=0) >= 0
        assert sum(moved) <= WHOLE_WEIGHT

    within()


@pytest.mark.slow
def test_one_unit_moves_the_weights_by_one_whole_weight_at_most() -> None:
    search(examples_of(8))


@pytest.mark.slow
def test_no_random_unit_moves_the_weights_by_more() -> None:
    search(many_examples_of(150))


def test_a_twin_whose_rows_all_weigh_a_whole_is_noticed() -> None:
    def whole(plan: BlockPlan) -> str:
        return (
            statement(plan)
            .replace(f"* {WHOLE_WEIGHT}", f"* {4 * WHOLE_WEIGHT}")
            .replace(f"least({WHOLE_WEIGHT}", f"least({4 * WHOLE_WEIGHT}")
        )

    plan = asked("SELECT sum(x) FROM r")
    world: Any = ([], [(value, 0, 0, 0, "p") for value in (1.0, 5.0, -9.0)], 2)
    assert sum(moves(plan, world)) == WHOLE_WEIGHT // 3 * 3
    assert sum(moves(plan, world, whole)) > WHOLE_WEIGHT


@pytest.mark.slow
def test_weights_are_those_of_units_divided_among_their_values() -> None:
    plan = asked("SELECT c, sum(x) FROM r GROUP BY c")
    sizes, half = plan.value_bounds[0].sizes, WHOLE_WEIGHT // 2
    rows = [
        (1, 3.0, 0, 0, 0, "p"),
        (1, -0.1, 0, 0, 0, "other"),  # of any key
        *[(1, without, 0, 0, 0, "p") for without in (NAN, None)],  # take part in no sum
        *[(2, INFINITE, 0, 0, 0, "q")] * 700,
        *[(3, 0.0, 0, 0, 0, "q"), (3, -0.0, 0, 0, 0, "q")],
        *[(None, 5.0, 0, 0, 0, "q")] * 7,  # of no unit
    ]
    place, tenth = sizes.index(3.0), sum(size < 0.1 for size in sizes)
    expected = {place: half, -tenth: half, len(sizes): WHOLE_WEIGHT, 0: WHOLE_WEIGHT}
    assert exact(plan, rows) == expected
    assert not exact(plan, [])


@pytest.mark.parametrize("ladder", ["of fractions", "of integers", "of 5", "irregular"])
def test_a_value_is_above_the_rungs_that_are_smaller(ladder: str) -> None:
    plan = asked("SELECT sum(x) FROM r")
    draw = plan.value_bounds[0]
    if ladder != "of fractions":
        whole = value_bounds(draw.size.loss, draw.sign.loss, 1.0, whole=True).size.rungs
        rungs = {"of integers": whole, "of 5": whole[:5]}.get(ladder, (*whole[:20], 10**6, 10**9))
        draw = replace(draw, unit=1.0, size=replace(draw.size, rungs=rungs))
    sizes = draw.sizes
    values = [0.0, 5e-324, 1e-300, 1e300, sys.float_info.max, INFINITE]
    values += [math.nextafter(size, to) for size in sizes for to in (0.0, size, INFINITE)]
    values += [-value for value in values]
    LAB.fill([(unit, value, 0, 0, 0, "p") for unit, value in enumerate(values)])
    found = plan.block.bounds_found
    assert found is not None
    rows = LAB.rows(text(value_bounds_sql(plan, found.values[0], draw, DUCKDB)))
    expected: Counter[int] = Counter()
    for value in values:
        above = bisect_left(sizes, abs(value))
        expected[len(sizes) + (above if value >= 0 else -above)] += WHOLE_WEIGHT
    assert {int(place): int(weight) for _, place, weight in rows} == expected


def test_bounds_of_a_value_are_found_once_and_not_where_they_are_public() -> None:
    plan = asked(
        "SELECT sum(x), avg(x), stddev(x), median(x), sum(x * i), sum(x, "
        "contribution_bounds_per_row => (0, 5)), sum(x > 1) FROM r"
    )
    found = plan.block.bounds_found
    assert found is not None
    assert [value.text for value in found.values] == ["x", "x * i"]
    assert len(plan.value_bounds) == 2
    (usual,) = planned(
        "SELECT sum(x, contribution_bounds_per_row => (-100, 100)) FROM r",
        SCHEMA,
        RULES,
        epsilon=1.0,
        delta=1e-6,
    ).plans
    alone = asked("SELECT sum(x) FROM r")
    spent = alone.loss(None) + alone.value_bounds[0].loss
    assert usual.loss(None).rho * 0.999 <= spent.rho <= usual.loss(None).rho * (1 + 1e-12)


@pytest.mark.parametrize("value", ["x", "i * i"])
def test_where_bounds_cannot_be_found_values_without_any_are_refused(value: str) -> None:
    with fails_with("unbounded_sum"):
        planned(f"SELECT sum({value}) FROM r", SCHEMA, RULES)


# -- as bytes ---------------------------------------------------------------------------------


def prepared() -> PreparedValueBounds:
    (draw,) = asked("SELECT sum(x) FROM r").value_bounds
    return PreparedValueBounds(
        "f", (), choice=draw, write=lambda: sql("SELECT 1"), renderer=DUCKDB.renderer
    )


def test_bounds_are_read_from_their_bytes() -> None:
    choice = prepared()
    for bounds in ((0.0, 0.0), (-(2.0**-10), 96.0), (-(2.0**49), 2.0**49)):
        found = FoundBounds(values=(bounds,))
        assert decode_bounds(choice, encode_bounds(found)) == found
    for other in ((0.0, 5.0), (1.0, 2.0), (-7.0, 0.0)):  # of other ladders
        assert decode_bounds(choice, encode_bounds(FoundBounds(values=(other,)))) is None
    later = {"value bounds": 2, "lower": 0.0, "upper": 1.0}
    assert decode_bounds(choice, json.dumps(later).encode()) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b'{"bounds choice":1,"rows":4,"groups":1}',
        b'{"value bounds":1,"lower":0.0}',
        b'{"value bounds":1,"lower":0,"upper":1.0}',
        b'{"value bounds":1,"lower":"0","upper":1.0}',
    ],
)
def test_damaged_bytes_are_refused(payload: bytes) -> None:
    with fails_with("ledger_corrupt"):
        decode_bounds(prepared(), payload)

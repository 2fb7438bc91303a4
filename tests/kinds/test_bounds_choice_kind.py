"""The weights that a number of rows is drawn from, and how far one unit moves them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import TableLab, shared_moves_beyond
from helpers.sql_text import text
from helpers.support import Planned, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import sql
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan, PreparedBoundsChoice
from dpsql.kinds.bounds_choice import (
    bounds_choice_sql,
    decode_bounds,
    encode_bounds,
    weights_by_place,
)
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import AUTO
from dpsql.privacy.mechanisms.bounds_choice import (
    AVERAGE_PLACES,
    WHOLE_WEIGHT,
    BoundsChoice,
    FoundBounds,
)

COLUMNS = (("u", "BIGINT"), ("a", "INTEGER"), ("s", "VARCHAR"), ("c", "VARCHAR"), ("x", "DOUBLE"))
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
RULES = Policy(
    "audit",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={
        "r": TablePolicy(
            "r",
            PrivacyUnit("unit", "u"),
            {"x": ColumnPolicy(0.0, 3.5), "c": ColumnPolicy(domain=("p", "q", "r", "s", "t"))},
        )
    },
)
LAB = TableLab("r", COLUMNS)
Row = tuple[Any, ...]

one_row = st.tuples(
    st.sampled_from([0, 1, 2, 3, None]),
    st.sampled_from(["", "1", "bad", None]),
    st.sampled_from(["p", "q", "r", "s", "other", None]),
    st.sampled_from([0.1, 3.5, float("nan"), None]),
)
worlds = st.tuples(
    st.lists(st.tuples(st.sampled_from([1, 1, 2, 3, None]), one_row), max_size=20),
    st.lists(one_row, max_size=12),
    st.integers(1, 400),  # as often each row of the unit that comes or goes
)
KEYS = ("", "a", "s", "c", "a, s", "CAST(s AS INT)", "c, a")
MEASURES = (
    *("count(*)", "sum(x)", "avg(x)", "count(s), stddev(x)", "median(x)", "sum(x), median(x)"),
    "avg(x), avg(2 * x) FILTER (WHERE a > 0), count(DISTINCT u)",
)


@st.composite
def questions(draw: Any) -> str:
    key, measure = draw(st.sampled_from(KEYS)), draw(st.sampled_from(MEASURES))
    where = draw(st.sampled_from(["", " WHERE x > 1", " WHERE s IS NOT NULL"]))
    selected = f"{key}, {measure}" if key else measure
    return f"SELECT {selected} FROM r{where}{' GROUP BY ' + key if key else ''}"


def asked(question: str, **parameters: Any) -> Planned:
    usual: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "max_rows_contributed": AUTO}
    return planned(question, SCHEMA, RULES, usual=False, **(usual | parameters))


def chosen(plan: BlockPlan) -> BoundsChoice:
    assert plan.bounds_choice is not None
    return plan.bounds_choice


def statement(plan: BlockPlan) -> str:
    return text(bounds_choice_sql(plan, chosen(plan), DUCKDB))


def exact(
    plan: BlockPlan, rows: Sequence[Row], written: Callable[[BlockPlan], str] = statement
) -> list[int]:
    LAB.fill(rows)
    choice, found = chosen(plan), LAB.rows(written(plan))
    assert sorted(row[0] for row in found) == list(range(1, len(found) + 1))
    drawn = {"rows": choice.rows, "groups": choice.groups}
    names = [*(name for name, draw in drawn.items() if draw is not None), "weight"]
    columns = zip(*found, strict=True) if found else ((),) * (len(names) + 1)
    read = dict(zip([f"__dpsql_{name}" for name in names], list(columns)[1:], strict=True))
    return [weight for part in weights_by_place(choice, read) for weight in part]


def moves(
    plan: BlockPlan, world: Any, written: Callable[[BlockPlan], str] = statement
) -> list[int]:
    """How far a unit moves each weight."""
    others, own, times = world
    before = [(unit, *row) for unit, row in others]
    after = [*before, *[(99, *row) for row in own for _ in range(times)]]
    pairs = zip(exact(plan, before, written), exact(plan, after, written), strict=True)
    return [with_unit - without for without, with_unit in pairs]


def parts_of(plan: BlockPlan, weights: list[int]) -> list[list[int]]:
    """The weights by rows, and those by groups."""
    choice = chosen(plan)
    return [weights[: choice.row_places], weights[choice.row_places :]]


def search(examples: settings) -> None:
    """Ask random questions, and leave a random unit out."""

    @examples
    @given(questions(), worlds)
    def within(question: str, world: Any) -> None:
        (plan,) = asked(question).plans
        moved = moves(plan, world)
        assert min(moved) >= 0
        assert max(map(sum, parts_of(plan, moved))) <= WHOLE_WEIGHT

    within()


@pytest.mark.slow
def test_one_unit_moves_the_weights_by_one_whole_weight_at_most() -> None:
    search(examples_of(5))


@pytest.mark.slow
def test_no_random_unit_moves_the_weights_by_more() -> None:
    search(many_examples_of(150))


def test_a_twin_whose_pairs_all_weigh_a_whole_is_noticed() -> None:
    def whole(plan: BlockPlan) -> str:
        return statement(plan).replace(
            'SELECT "__dpsql_unit", count(*) AS', 'SELECT "__dpsql_unit", 1 AS'
        )

    (plan,) = asked("SELECT c, count(*) FROM r GROUP BY c").plans
    world: Any = ([], [(0, "1", c, 1.0) for c in "pqr"], 2)
    for part in parts_of(plan, moves(plan, world)):
        assert sum(part) == WHOLE_WEIGHT // 3 * 3
    for part in parts_of(plan, moves(plan, world, whole)):
        assert sum(part) == 3 * WHOLE_WEIGHT


def test_weights_are_those_of_units_divided_among_their_groups() -> None:
    (plan,) = asked("SELECT c, count(*) FROM r GROUP BY c").plans
    rows = [
        *[(1, 0, "", "p", 1.0)] * 5,
        *[(1, 0, "", "q", 1.0)] * 1,
        *[(1, 0, "", "other", 1.0)] * 9,  # no declared group
        *[(2, 0, "", "q", 1.0)] * 700,
        *[(None, 0, "", "q", 1.0)] * 7,  # of no unit
    ]
    choice, half = chosen(plan), WHOLE_WEIGHT // 2
    assert choice.rows is not None
    assert choice.groups is not None
    expected = []
    for draw, numbers in ((choice.rows, (5, 1, 700)), (choice.groups, (2, 2, 1))):
        found: Counter[int] = Counter()
        for number, weight in zip(numbers, (half, half, WHOLE_WEIGHT), strict=True):
            found[sum(rung < number for rung in draw.rungs)] += weight
        expected.append([found[place] for place in range(len(draw.rungs) + 1)])
    assert parts_of(plan, exact(plan, rows)) == expected
    assert not any(exact(plan, []))


@pytest.mark.parametrize(
    ("measures", "sizes"),
    [
        ("sum(x, contribution_bounds_per_row => (-2, 3))", (2, 0, 3)),
        ("sum(x, contribution_bounds_per_row => (-2, 3)), count(DISTINCT u)", (2, 0, 3)),
        ("sum(x), sum(x, contribution_bounds_per_row => (-2, 3))", (2, 0, 3)),
        ("sum(x, contribution_bounds_per_row => (-2, 3)), count(*)", (5, 2, 4)),
        ("sum(x, contribution_bounds_per_row => (-2, 3)), median(x)", (5, 2, 4)),
    ],
)
def test_a_pair_of_sums_alone_is_as_large_as_its_sum(measures: str, sizes: tuple[int, ...]) -> None:
    (plan,) = asked(f"SELECT c, {measures} FROM r GROUP BY c").plans
    rows = [
        *[(1, 0, "", "p", 1.0)] * 5,
        *[(2, 0, "", "q", value) for value in (None, float("nan"))],
        *[(3, 0, "", "q", value) for value in (-9.0, -1.0, -1.5, None)],
    ]
    draw = chosen(plan).rows
    assert draw is not None
    found = Counter(sum(rung < size for rung in draw.rungs) for size in sizes)
    expected = [WHOLE_WEIGHT * found[place] for place in range(len(draw.rungs) + 1)]
    assert parts_of(plan, exact(plan, rows))[0] == expected


@pytest.mark.parametrize(
    ("measures", "number"),
    [("avg(x), stddev(x)", 2), ("variance(x)", 2), ("avg(x), count(DISTINCT u)", 1)],
)
def test_spreads_have_the_averages_of_their_values_and_of_the_squares(
    measures: str, number: int
) -> None:
    (plan,) = asked(f"SELECT c, {measures} FROM r GROUP BY c").plans
    centres = chosen(plan).centres
    assert centres is not None
    assert centres.number == number


def test_a_pair_with_averages_has_a_place_for_each_by_its_values_and_their_average() -> None:
    (plan,) = asked("SELECT c, avg(x), avg(7 - 2 * x) FROM r GROUP BY c").plans
    rows = [
        *[(1, 0, "", "p", 3.5)] * 5,
        *[(1, 0, "", "q", value) for value in (0.0, None, float("nan"))],
        *[(2, 0, "", "q", value) for value in (None, float("nan"))],
    ]
    choice, (of_rows, of_groups) = chosen(plan), parts_of(plan, exact(plan, rows))
    assert choice.rows is not None
    assert choice.centres is not None
    assert choice.centres.number == 2
    first, most = AVERAGE_PLACES * sum(rung < 5 for rung in choice.rows.rungs), AVERAGE_PLACES - 1
    second = AVERAGE_PLACES * (len(choice.rows.rungs) + 1)
    quarter = WHOLE_WEIGHT // 4  # of two groups and two averages
    there = {first + most, 0, second + first, second + most}
    assert {place: weight for place, weight in enumerate(of_rows) if weight} == dict.fromkeys(
        there, quarter
    )
    assert sum(of_groups) == 2 * WHOLE_WEIGHT
    assert not any(exact(plan, []))


@pytest.mark.parametrize(
    "measures",
    [
        *("avg(x), count(*)", "avg(x), sum(x)", "avg(x), median(x)", "stddev(x), count(x)"),
        *("median(x)", "avg(CASE WHEN x > 1 THEN 1 ELSE 0 END)"),
    ],
)
def test_beside_others_or_of_few_steps_averages_do_not_say_how_much_a_pair_counts(
    measures: str,
) -> None:
    (plan,) = asked(f"SELECT c, {measures} FROM r GROUP BY c").plans
    assert chosen(plan).centres is None
    assert chosen(plan).row_places == len(getattr(chosen(plan).rows, "rungs", ())) + 1


def test_beside_a_maximum_error_averages_do_not_say_it_either() -> None:
    question = "SELECT c, avg(x), count(DISTINCT u, max_error => 50) FROM r GROUP BY c"
    (plan,) = asked(question).plans
    assert chosen(plan).centres is None


# -- distinct values --------------------------------------------------------------------------

SHARED = (
    "SELECT count(DISTINCT a) FROM r",
    "SELECT c, count(DISTINCT s) FROM r GROUP BY c",
    "SELECT s, count(DISTINCT x) FILTER (WHERE x > 1) FROM r GROUP BY s",
    "SELECT c, count(DISTINCT a), count(DISTINCT x), count(DISTINCT u) FROM r GROUP BY c",
)


def beyond(
    plan: BlockPlan, world: Any, written: Callable[[BlockPlan], str] = statement
) -> list[str]:
    draw = chosen(plan).rows
    assert draw is not None
    assert draw.shared
    of_rows, of_groups = parts_of(plan, moves(plan, world, written))
    assert min(of_groups, default=0) >= 0
    assert sum(of_groups) <= WHOLE_WEIGHT
    return shared_moves_beyond(draw.rungs, of_rows, WHOLE_WEIGHT)


@pytest.mark.parametrize("number", [4, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("question", SHARED)
def test_one_unit_moves_the_weights_of_values_by_those_it_names(question: str, number: int) -> None:
    (plan,) = asked(question).plans

    @examples_of(number)
    @given(worlds)
    def within(world: Any) -> None:
        assert beyond(plan, world) == []

    within()


def test_a_twin_whose_values_all_weigh_a_whole_in_each_group_is_noticed() -> None:
    def whole(plan: BlockPlan) -> str:
        return statement(plan).replace('count(*) AS "__dpsql_number"', '1 AS "__dpsql_number"')

    (plan,) = asked("SELECT s, count(DISTINCT a) FROM r GROUP BY s").plans
    others = [(1, (value, s, "p", 1.0)) for value in range(3) for s in ("", "1", "bad")]
    world: Any = (others, [(8 + value, s, "p", 1.0) for _, (value, s, *_) in others], 1)
    assert beyond(plan, world) == []
    draw = chosen(plan).rows
    assert draw is not None
    of_rows = parts_of(plan, moves(plan, world, whole))[0]
    assert shared_moves_beyond(draw.rungs, of_rows, WHOLE_WEIGHT) != []


def test_values_have_the_weight_of_the_heaviest_unit_that_names_them() -> None:
    (plan,) = asked("SELECT c, count(DISTINCT a) FROM r GROUP BY c").plans
    rows = [
        *[(1, value, "", "p", 1.0) for value in range(6)] * 2,
        (1, 0, "", "q", 1.0),  # half a unit in each of two groups
        *[(unit, 3, "", "p", 1.0) for unit in (2, 3)],
        *[(unit, None, "", "p", 1.0) for unit in (4, 5)],
        (6, 9, "", "other", 1.0),
    ]
    of_rows, _ = parts_of(plan, exact(plan, rows))
    assert sum(of_rows) == WHOLE_WEIGHT * (5 // 2 + 1 + 1)
    assert of_rows[0] >= WHOLE_WEIGHT * 3 // 2
    assert not any(exact(plan, []))
    alone = [row for row in rows if row[0] == 1]
    half = WHOLE_WEIGHT // 2
    assert parts_of(plan, exact(plan, alone))[0][:6] == [2 * half, half, half, half, 2 * half, 0]


def test_beside_other_counts_it_is_the_rows_of_pairs_that_count() -> None:
    for measures in ("count(*), count(DISTINCT a)", "count(DISTINCT a), median(x)"):
        (plan,) = asked(f"SELECT c, {measures} FROM r GROUP BY c").plans
        draw = chosen(plan).rows
        assert draw is not None
        assert not draw.shared


# -- when there is one ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "parameters"),
    [
        ("SELECT count(DISTINCT u) FROM r", {}),
        ("SELECT count(*, contribution_bounds_per_group => (0, 1)) FROM r", {}),
        ("SELECT count(*) FROM r", {"max_rows_contributed": 3}),
        ("SELECT c, count(DISTINCT u) FROM r GROUP BY c", {"max_groups_contributed": 2}),
        ("SELECT c, count(DISTINCT u) FROM r GROUP BY c", {"contribution_bounding": "weight"}),
        ("SELECT x > 1 AS large, count(DISTINCT u) FROM r GROUP BY large", {}),
    ],
)
def test_where_it_changes_nothing_or_a_number_is_given_nothing_is_drawn(
    question: str, parameters: dict[str, Any]
) -> None:
    plans = asked(question, **parameters).plans
    assert [plan.bounds_choice for plan in plans] == [None]


@pytest.mark.parametrize("measure", MEASURES)
def test_all_that_rows_of_units_change_has_a_choice(measure: str) -> None:
    (plan,) = asked(f"SELECT c, {measure} FROM r GROUP BY c").plans
    assert plan.bounds_choice is not None
    assert plan.bounds_choice.loss.rho > 0
    numbers = {"max_rows_contributed": 10, "max_groups_contributed": 5}
    given = asked(f"SELECT c, {measure} FROM r GROUP BY c", **numbers).plans[0]
    spent, whole = plan.loss(None) + plan.bounds_choice.loss, given.loss(None)
    assert spent.rho <= whole.rho * (1 + 1e-12)
    assert spent.rho >= whole.rho * 0.999


def test_sets_of_groups_have_a_choice_each() -> None:
    plans = asked("SELECT c, count(*) FROM r GROUP BY ROLLUP (c)").plans
    assert len(plans) == 2
    assert all(plan.bounds_choice is not None for plan in plans)


# -- as bytes ---------------------------------------------------------------------------------


def prepared() -> PreparedBoundsChoice:
    (plan,) = asked("SELECT c, count(*) FROM r GROUP BY c").plans
    return PreparedBoundsChoice(
        "f",
        (),
        choice=chosen(plan),
        write=lambda: sql("SELECT 1"),
        renderer=DUCKDB.renderer,
    )


def test_a_choice_is_read_from_its_bytes() -> None:
    choice = prepared()
    draws = choice.choice
    assert draws.rows is not None
    assert draws.groups is not None
    for rows, groups in zip(draws.rows.rungs, cycle(draws.groups.rungs), strict=False):
        found = FoundBounds(rows, groups)
        assert decode_bounds(choice, encode_bounds(found)) == found
    for other in (FoundBounds(5, 1), FoundBounds(4, 99), FoundBounds(4), FoundBounds(None, 1)):
        assert decode_bounds(choice, encode_bounds(other)) is None  # of other ladders
    later = {"bounds choice": 2, "rows": 4, "groups": 1}
    assert decode_bounds(choice, json.dumps(later).encode()) is None
    narrower = replace(draws, rows=replace(draws.rows, rungs=(1, 2, 3)))
    assert decode_bounds(replace(choice, choice=narrower), encode_bounds(FoundBounds(4, 1))) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"bounds choice":1,"rows":4}',
        b'{"bounds choice":1,"rows":"4","groups":1}',
        b'{"bounds choice":1,"rows":4,"groups":true}',
    ],
)
def test_damaged_bytes_are_refused(payload: bytes) -> None:
    with fails_with("ledger_corrupt"):
        decode_bounds(prepared(), payload)

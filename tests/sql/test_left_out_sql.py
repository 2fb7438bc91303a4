"""One unit moves the sums of an estimate by no more than its noise hides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.columns import column_of
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import TableLab
from helpers.sql_text import generated, text
from helpers.support import SALT, Planned, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import Sql
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan, LeftOutPlan, LeftOutStatus
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.registry import release_kind
from dpsql.planner.budget import QueryBudget
from dpsql.planner.tuning import CandidateSetting, cap_estimates
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.left_out import LADDER_SENSITIVITY, LADDER_STEPS
from dpsql.sql.rewrite.left_out import left_out_sql, shared_sql
from dpsql.sql.rewrite.rewrite import Rewriter

COLUMNS = (
    ("u", "BIGINT"),
    ("a", "INTEGER"),
    ("s", "VARCHAR"),
    ("c", "VARCHAR"),
    ("j", "BIGINT"),
    ("x", "DOUBLE"),
)
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
RULES = Policy(
    "audit",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={
        "r": TablePolicy(
            "r",
            PrivacyUnit("unit", "u"),
            {
                "j": ColumnPolicy(0, 4),
                "x": ColumnPolicy(0.0, 3.5),
                "c": ColumnPolicy(domain=("p", "q")),
            },
        )
    },
)
LAB = TableLab("r", COLUMNS)
NAN, INF = float("nan"), float("inf")

one_row = st.tuples(
    st.sampled_from([0, 1, 2, 3, 4, None, -(2**31)]),
    st.sampled_from(["", "1", "7", "bad", None]),
    st.sampled_from(["p", "q", "other", None]),
    st.sampled_from([0, 1, 4, 9, 2**63 - 1, -(2**63), None]),
    st.sampled_from([0.1, 3.5, 1e308, NAN, INF, -INF, -0.0, None]),
)
worlds = st.tuples(
    st.lists(st.tuples(st.sampled_from([1, 1, 2, 3, None]), one_row), max_size=20),
    st.lists(one_row, max_size=20),
    st.integers(1, 400),  # as often each row of the unit that comes or goes
)
KEYS = ("", "a", "s", "c", "a, s", "CAST(s AS INT)", "c, a")
MEASURES = (
    "count(DISTINCT u)",
    "count(DISTINCT u) FILTER (WHERE x > 0)",
    "count(*)",
    "count(*, contribution_bounds_per_group => (0, 1))",
    "count(s)",
    "count(CAST(s AS INT))",
    "sum(j)",
    "sum(x)",
    "sum(x) FILTER (WHERE a > 1)",
    "sum(j, contribution_bounds_per_group => (0, 7))",
    "sum(x, contribution_bounds_per_row => (0, 1000000000))",
)
CONDITIONS = ("", " WHERE a > 0", " WHERE CAST(s AS INT) > 2 OR x > 0")


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    key, where = draw(st.sampled_from(KEYS)), draw(st.sampled_from(CONDITIONS))
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    selected = ", ".join([*filter(None, [key]), *measures])
    parameters = {
        "max_groups_contributed": draw(st.integers(1, 3)),
        "max_rows_contributed": draw(st.integers(1, 3)),
        "left_out_share": draw(st.sampled_from([0.03, 0.1])),
    }
    return f"SELECT {selected} FROM r{where}{' GROUP BY ' + key if key else ''}", parameters


def asked(sql: str, parameters: dict[str, Any]) -> Planned:
    return planned(sql, SCHEMA, RULES, epsilon=1.0, delta=1e-6, **parameters)


def exact(plan: BlockPlan, estimate: LeftOutPlan, rows: Sequence[tuple[Any, ...]]) -> list[int]:
    """What is kept, and what is climbed below each rung."""
    LAB.fill(rows)
    ((_, *sums),) = LAB.rows(text(left_out_sql(plan, estimate, DUCKDB)))
    return [int(value) for value in sums]


def moves(plan: BlockPlan, estimate: LeftOutPlan, world: Any) -> tuple[int, int]:
    """How far a unit moves what is kept, and all rungs together, in steps."""
    others, own, times = world
    before = [(unit, *row) for unit, row in others]
    after = [*before, *[(99, *row) for row in own for _ in range(times)]]
    kept, *climbed = exact(plan, estimate, before)
    now, *further = exact(plan, estimate, after)
    ladder = estimate.noise.ladder
    moved = ladder.standing(further) - ladder.standing(climbed)
    assert now >= kept
    return now - kept, int(np.abs(moved).sum())


def search(examples: settings) -> None:
    """Ask random questions, and leave a random unit out."""

    @examples
    @given(questions(), worlds)
    def within(question: tuple[str, dict[str, Any]], world: Any) -> None:
        (plan,) = asked(*question).plans
        for estimate in plan.estimates:
            kept, rungs = moves(plan, estimate, world)
            assert kept <= estimate.noise.most
            assert rungs <= LADDER_SENSITIVITY

    within()


@pytest.mark.slow
def test_one_unit_moves_an_estimate_within_its_sensitivity() -> None:
    search(examples_of(5))


def shared(plan: BlockPlan, rows: Sequence[tuple[Any, ...]]) -> tuple[Any, list[list[int]]]:
    """Compute the exact rows of a block and of its estimates over rows read once."""
    LAB.fill(rows)
    kind = release_kind(plan)
    assert isinstance(kind, GroupsKind)
    private = kind.private_rows(SALT, DUCKDB)
    sql = shared_sql(private, plan.estimates)
    for name, statement in sql.stored:
        LAB.rows(f'CREATE OR REPLACE TEMP TABLE "{name}" AS {text(statement)}')
    estimates = [
        [int(value) for value in LAB.rows(text(statement))[0][1:]] for statement in sql.estimates
    ]
    return LAB.groups(text(kind.numbered(private, sql.groups)), plan), estimates


def compare(examples: settings) -> None:
    """Ask random questions both ways."""

    @examples
    @given(questions(), worlds, st.sampled_from([1, 3]))
    def same(question: tuple[str, dict[str, Any]], world: Any, minimum: int) -> None:
        sql, parameters = question
        (plan,) = asked(sql, {**parameters, "min_units_per_group": minimum}).plans
        if not plan.estimates:
            return
        others, own, times = world
        rows = [(unit, *row) for unit, row in others] + [(7, *row) for row in own] * times
        found, estimates = shared(plan, rows)
        apart = [exact(plan, estimate, rows) for estimate in plan.estimates]
        assert estimates == apart
        assert found == LAB.groups(text(release_kind(plan).statement(SALT, DUCKDB)), plan)

    same()


@pytest.mark.slow
def test_a_block_and_its_estimates_are_the_same_apart_and_over_rows_read_once() -> None:
    compare(many_examples_of(100))


def test_the_largest_groups_are_the_same_over_rows_read_once() -> None:
    sql = "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 2"
    options = {"max_groups_contributed": 2, "max_rows_contributed": 3, "left_out_share": 0.03}
    (plan,) = asked(sql, options).plans
    assert plan.selection.top_rows_needed is not None
    rows = [(u, u * k % 7, "1", "p", 1, 1.0) for u in range(40) for k in range(9)]
    found, estimates = shared(plan, rows)
    assert estimates == [exact(plan, estimate, rows) for estimate in plan.estimates]
    assert found == LAB.groups(text(release_kind(plan).statement(SALT, DUCKDB)), plan)
    assert len(found) > 2


SORTED_OPTIONS = {"max_groups_contributed": 2, "max_rows_contributed": 3, "left_out_share": 0.1}


def rows_in_groups() -> list[tuple[Any, ...]]:
    """Rows with keys that are NULL, in groups of many units, of few and of none that keeps them."""
    keys = [None, 1, 2]
    return [
        (unit if unit % 5 else None, keys[k % 3], "1" if k % 2 else None, "p", 1, 1.0)
        for unit in range(12)
        for k in range(unit)
        for _ in range(1 + 3 * (k % 2))
    ]


@pytest.mark.parametrize("minimum", [1, 4])
@pytest.mark.parametrize(
    "measures",
    ["count(DISTINCT u)", "count(*), count(DISTINCT u)", "count(*), count(s)", "sum(x), count(*)"],
)
def test_groups_and_units_of_rows_sorted_once_are_those_of_two_statements(
    measures: str, minimum: int
) -> None:
    sql = f"SELECT a, s, {measures} FROM r GROUP BY a, s"
    (plan,) = asked(sql, {**SORTED_OPTIONS, "min_units_per_group": minimum}).plans
    rows = rows_in_groups()
    found, estimates = shared(plan, rows)
    assert estimates == [exact(plan, estimate, rows) for estimate in plan.estimates]
    assert found == LAB.groups(text(release_kind(plan).statement(SALT, DUCKDB)), plan)
    assert found


@pytest.mark.parametrize("measures", ["count(*), count(DISTINCT u)", "sum(x), count(*)"])
@pytest.mark.parametrize(
    ("bound", "broken", "of_groups"),
    [
        ('"__dpsql_rank" <= 2', '"__dpsql_rank" <= 3', True),
        ('"__dpsql_row" = "__dpsql_first"', "TRUE", False),
    ],
)
def test_rows_sorted_once_and_bounded_wrongly_are_noticed(
    measures: str, bound: str, broken: str, of_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan,) = asked(f"SELECT a, s, {measures} FROM r GROUP BY a, s", SORTED_OPTIONS).plans
    rows = rows_in_groups()
    right = shared(plan, rows)

    whole = Rewriter.beside_units

    def twin(*arguments: Any) -> Sql:
        sql = text(whole(*arguments))
        assert bound in sql
        return generated(sql.replace(bound, broken))

    monkeypatch.setattr(Rewriter, "beside_units", twin)
    wrong = shared(plan, rows)
    assert wrong[0 if of_groups else 1] != right[0 if of_groups else 1]


@pytest.mark.slow
def test_one_unit_moves_an_estimate_within_its_sensitivity_at_length() -> None:
    search(many_examples_of(80))


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", 2),
        ("SELECT a, count(*) FROM r GROUP BY a", 6),
        ("SELECT count(*) FROM r", 3),
        ("SELECT a, sum(j) FROM r GROUP BY a", 24),
    ],
)
def test_the_sensitivity_is_reached(sql: str, expected: int) -> None:
    """A noise for anything less would not do."""
    (plan,) = asked(
        sql, {"max_groups_contributed": 2, "max_rows_contributed": 3, "left_out_share": 0.1}
    ).plans
    (estimate,) = (one for one in plan.estimates if not one.clamped)
    own = [(key, "1", "p", 4, 1.0) for key in range(4)]
    kept, rungs = moves(plan, estimate, ([], own, 300))
    assert kept == estimate.noise.most == expected
    assert LADDER_STEPS - 1 <= rungs <= LADDER_STEPS


@pytest.mark.slow
def test_the_sums_are_what_bounding_keeps_and_leaves_out() -> None:
    """Against the same computed in Python, of units of many sizes."""
    rng = np.random.default_rng(4)
    rows = [
        (unit, int(rng.integers(0, 6)), "1", "p", int(rng.integers(0, 5)), 1.0)
        for unit in range(60)
        for _ in range(int(rng.integers(1, 20)))
    ]
    sql = "SELECT a, count(*), count(DISTINCT u), sum(j) FROM r GROUP BY a"
    options = {"max_groups_contributed": 2, "max_rows_contributed": 3, "left_out_share": 0.1}
    (plan,) = asked(sql, options).plans
    asked_of = [(plan.measures[one.subject.measure].measure.name, one) for one in plan.estimates]
    found = {name: estimate for name, estimate in asked_of if not estimate.clamped}
    for name, estimate in found.items():
        amounts: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for unit, key, _, _, j, _ in rows:
            amounts[unit][key].append({"rows": 1, "units": 1, "sum(j)": j}[name])
        limit = {"rows": 3, "units": 1, "sum(j)": 12}[name]
        kept = left = 0
        for groups in amounts.values():
            within = sum(min(sum(values), limit) for values in groups.values())
            whole = len(groups) if name == "units" else sum(map(sum, groups.values()))
            part = within
            if len(groups) > 2:
                part = int(Fraction(within * 2, len(groups)) + Fraction(1, 2))
            kept, left = kept + part, left + whole - part
        exact_kept, *climbed = exact(plan, estimate, rows)
        assert exact_kept == kept
        assert sum(climbed) * estimate.noise.ladder.grain == left


def test_parts_of_values_out_of_bounds_are_those_of_units_and_reach_the_sensitivity() -> None:
    values: dict[int, list[float | None]] = {
        1: [-1.0, 0.0, 2.0, 3.5],
        2: [9.0, INF, -INF],
        3: [NAN, None],
        4: [1.0],
        5: [4.0, 2.0],
    }
    rows = [(unit, 0, "1", "p", 1, x) for unit, listed in values.items() for x in listed]
    (plan,) = asked("SELECT a, sum(x) FROM r GROUP BY a", {"left_out_share": 0.1}).plans
    (estimate,) = (one for one in plan.estimates if one.clamped)
    whole = estimate.noise.most
    kept, *climbed = exact(plan, estimate, rows)
    assert climbed == [whole * 1 // 4 + whole + 0 + whole // 2]
    assert kept == whole * 3 // 4 + 0 + whole + whole // 2
    for own, expected in (([-5.0] * 3, (0, whole)), ([2.0] * 3, (whole, 0))):
        world: Any = ([], [(0, "1", "p", 1, x) for x in own], 50)
        assert moves(plan, estimate, world) == (expected[0], expected[1] * LADDER_STEPS // whole)


def test_no_rows_are_nothing() -> None:
    (plan,) = asked("SELECT a, count(*) FROM r GROUP BY a", {"left_out_share": 0.1}).plans
    assert set(exact(plan, plan.estimates[0], [])) == {0}


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("sql", "counted"),
    [
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", lambda groups: len(groups)),
        ("SELECT count(*) FROM r", lambda groups: sum(groups.values())),
    ],
)
def test_one_estimate_counts_what_every_cap_on_a_rung_leaves_out(
    sql: str, counted: Callable[[dict[int, int]], int]
) -> None:
    rng = np.random.default_rng(8)
    rows: list[Any] = []
    amounts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for unit in range(40):
        for _ in range(int(rng.integers(1, 60))):
            key = int(rng.integers(30))
            amounts[unit][key] += 1
            rows.append((unit, key, "1", "p", 1, 0.5))
    (plan,) = asked(sql, {"max_groups_contributed": 1, "max_rows_contributed": 1}).plans
    setting = CandidateSetting(33, 33)
    (estimate,) = cap_estimates([setting], [plan], plan)
    budget = QueryBudget.of(plan.block.parameters, Composition.ZCDP)
    priced = estimate.priced(budget, 1.0, 1)
    kept, *climbed = exact(plan, priced, rows)
    on_rungs = priced.noise.ladder.standing(climbed) / LADDER_STEPS
    has = [counted(groups) for groups in amounts.values()]
    for cap in (1, 2, 3, 5, 9, 17, 33):
        heights = np.array(priced.noise.ladder.heights)
        left = float((on_rungs * np.maximum(heights - (cap - 1), 0)).sum())
        assert left == pytest.approx(sum(max(0, n - cap) for n in has), abs=0.3)
        more = float((on_rungs * np.minimum(heights, cap - 1)).sum())
        assert kept + more == pytest.approx(sum(min(n, cap) for n in has), abs=0.3)
    world: Any = ([], [(key, "1", "p", 1, 0.5) for key in range(30)], 3)
    moved = moves(plan, priced, world)
    assert moved[0] <= priced.noise.most
    assert 0 < moved[1] <= LADDER_SENSITIVITY


@pytest.mark.parametrize("key", ["", "a"])
def test_rows_are_looked_at_where_each_unit_may_add_one_of_them(key: str) -> None:
    selected, grouped = ("a, ", " GROUP BY a") if key else ("", "")
    sql = f"SELECT {selected}count(*), count(DISTINCT u) FROM r{grouped}"
    options = {"max_groups_contributed": 2, "max_rows_contributed": 1, "left_out_share": 0.1}
    (plan,) = asked(sql, options).plans
    rows = [(unit, 1, "1", "p", 1, 0.5) for unit in range(5) for _ in range(4)]
    found = {estimate.subject.rows: exact(plan, estimate, rows) for estimate in plan.estimates}
    assert found.keys() == ({True, False} if key else {True})
    kept, *climbed = found[True]
    assert (kept, sum(climbed)) == (5, 15)
    if key:
        kept, *climbed = found[False]
        assert (kept, sum(climbed)) == (5, 0)


STATUSES = {
    "SELECT count(DISTINCT u) FROM r": "nothing",
    "SELECT c, count(DISTINCT u) FROM r GROUP BY c": "nothing",
    "SELECT a, count(DISTINCT u) FROM r GROUP BY a": "looked",
    "SELECT c, count(*) FROM r GROUP BY c": "looked",
    "SELECT count(*, contribution_bounds_per_group => (0, 1)) FROM r": "looked",
    "SELECT a, avg(x) FROM r GROUP BY a": "not told",
    "SELECT a, count(DISTINCT s) FROM r GROUP BY a": "not told",
    "SELECT a, median(x) FROM r GROUP BY a": "not told",
    "SELECT sum(x, contribution_bounds_per_row => (-1, 1)) FROM r": "not told",
    "SELECT sum(x, contribution_bounds_per_group => (1, 3)) FROM r": "not told",
}


@pytest.mark.few(9)
@pytest.mark.parametrize("sql", STATUSES)
def test_what_can_be_told_is_decided_by_the_plan(sql: str) -> None:
    (plan,) = asked(sql, {"left_out_share": 0.1}).plans
    (aggregate,) = plan.block.aggregates
    assert release_kind(plan).left_out_status(aggregate) is LeftOutStatus(STATUSES[sql])
    missing = [estimate for estimate in plan.estimates if not estimate.clamped]
    assert bool(missing) == (STATUSES[sql] == "looked")
    assert any(estimate.clamped for estimate in plan.estimates) == ("sum(" in sql)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT a, count(*) FROM r GROUP BY a", {"max_groups_contributed": "auto"}),
        ("SELECT a, count(*) FROM r GROUP BY a", {"contribution_bounding": "weight"}),
        ("SELECT DISTINCT a FROM r", {}),
        (
            "SELECT a, count(*) FROM r GROUP BY a ORDER BY count(DISTINCT u) DESC LIMIT 3",
            {"max_groups_contributed": None},
        ),
    ],
)
def test_what_cannot_be_told_costs_nothing(sql: str, options: dict[str, Any]) -> None:
    told = asked(sql, {**options, "left_out_share": 0.1})
    assert all(plan.estimates == () for plan in told.plans)
    assert told.fingerprint == asked(sql, options).fingerprint

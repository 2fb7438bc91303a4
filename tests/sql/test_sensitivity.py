"""One unit moves the exact rows by no more than the plan declares, and by as much as it may."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from helpers.columns import column_of
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Row, TableLab, audit
from helpers.support import Planned, planned
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sqlglot import exp

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused
from dpsql.ir.plan import Bounding
from dpsql.planner import TOP_K_NAMES
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, weight_of
from dpsql.sql.expressions import totality

COLUMNS = (
    ("u", "BIGINT"),
    ("a", "INTEGER"),
    ("f", "DOUBLE"),
    ("s", "VARCHAR"),
    ("c", "VARCHAR"),
    ("i", "INTEGER"),
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
                "i": ColumnPolicy(-3, 5),
                "j": ColumnPolicy(0, 4),
                "x": ColumnPolicy(-2.0, 3.5),
                "c": ColumnPolicy(domain=("p", "q")),
            },
        )
    },
)
EVERYTHING = 10**6

NAN, INF = float("nan"), float("inf")
TEXTS = st.sampled_from(["", "1", "7", "bad", "é", None])
rows_of_units = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 2, 3, 4, 5, 6, None]),
        st.sampled_from([0, 1, 2, 3, None, -(2**31)]),
        st.sampled_from([0.0, -0.0, 1.5, NAN, INF, -INF, None]),
        TEXTS,
        st.sampled_from(["p", "q", "other", None]),
        st.sampled_from([-3, -1, 0, 2, 5, 100, -100, 2**31 - 1, None]),
        st.sampled_from([0, 1, 4, 2**63 - 1, -(2**63), None]),
        st.sampled_from([-2.0, 0.1, 3.5, 1e308, NAN, INF, -INF, -0.0, None]),
    ),
    max_size=24,
)

KEYS = (
    "a",
    "f",
    "s",
    "c",
    "a % 2",
    "a + 1",
    "upper(s)",
    "CAST(s AS INT)",
    "coalesce(a, 0)",
    "CASE WHEN a > 1 THEN s END",
    "NOT (a > 2 AND CAST(s AS INT) > 2)",
    "CAST(s AS INT) IS NULL",
    "f + f",
)
MEASURES = (
    "count(DISTINCT u)",
    "count(*)",
    "count(i)",
    "count(s)",
    "count(CAST(s AS INT))",
    "sum(i)",
    "sum(j)",
    "sum(x)",
    "avg(i)",
    "avg(x)",
    "sum(i * j)",
    "sum(x * x)",
    "sum(CASE WHEN NOT (a > 2 AND CAST(s AS INT) > 2) THEN i END)",
    "sum(CASE WHEN s = '1' THEN j ELSE 0 END)",
    "count(*) FILTER (WHERE NOT (a > 2 AND CAST(s AS INT) > 2))",
    "count_if(s)",
    "sum(i) FILTER (WHERE x > 0)",
    "sum(x > 0)",
    "sum(coalesce(i, 5) / 2 - abs(x) % 3)",
    "count(DISTINCT u) FILTER (WHERE x > 0)",
    "count(DISTINCT CASE WHEN s = '1' THEN u END)",
    "count(DISTINCT f)",
    "count(DISTINCT s)",
    "count(DISTINCT (s, j))",
    "count(DISTINCT x) FILTER (WHERE i > 0)",
    "count(DISTINCT j, contribution_bounds_per_group => (0, 1))",
    "sum(DISTINCT i)",
    "sum(DISTINCT x)",
    "sum(DISTINCT f, contribution_bounds_per_row => (-1, 4)) FILTER (WHERE a > 0)",
    "sum(DISTINCT x > 0)",
    "avg(DISTINCT i)",
    "var_pop(x)",
    "covar_pop(x, i)",
    "corr(x, i) FILTER (WHERE a > 0)",
    "stddev(i) FILTER (WHERE a > 0)",
    "count(*, contribution_bounds_per_group => (0, 2))",
    "count(i, contribution_bounds_per_group => (0, 1)) FILTER (WHERE a > 0)",
    "sum(j, contribution_bounds_per_group => (1, 7))",
    "sum(f, contribution_bounds_per_row => (-1, 4))",
    "sum(f, contribution_bounds_per_group => (-3, 2))",
    "sum(x, contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0.5, 1.5))",
    "sum(s::DOUBLE, contribution_bounds_per_group => (-7, -2))",
    "avg(f, contribution_bounds_per_row => (0, 1.5))",
    "variance(a * f, contribution_bounds_per_row => (-1, 1))",
    "avg(f, contribution_bounds_per_group => (-2, 1.5))",
    "avg(i, contribution_bounds_per_group => (1, 3)) FILTER (WHERE a > 0)",
    "avg(x, contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (-9, 0.25))",
)
CONDITIONS = (
    None,
    "a > 0",
    "x > 0",
    "NOT (a > 2 AND CAST(s AS INT) > 2)",
    "a BETWEEN 3 AND CAST(s AS INT) OR s = '1'",
    "NOT (a NOT BETWEEN 3 AND CAST(s AS INT))",
    "CAST(s AS INT) IS NULL OR i * i > 4",
    "a NOT IN (3, CAST(s AS INT))",
    "CAST(s AS INT) IS DISTINCT FROM 1",
    "s",
    "s IS TRUE OR a = 1",
    "CASE WHEN a < 3 OR CAST(s AS INT) > 3 THEN TRUE ELSE FALSE END",
    "coalesce(a > 2 AND CAST(s AS INT) > 2, TRUE)",
    "random() < 0.5",
    "a > 0 AND rand() >= 0.4",
)
SCORES = (
    "count(DISTINCT u)",
    "count(*)",
    "count(i)",
    "sum(j)",
    "count(DISTINCT s)",
    "sum(DISTINCT j)",
    "count(DISTINCT u) FILTER (WHERE i > 0)",
    "sum(f, contribution_bounds_per_group => (1, 3))",
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A statement of the accepted grammar and parameters for it."""
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    condition = draw(st.sampled_from(CONDITIONS))
    parameters: dict[str, Any] = {
        "max_groups_contributed": draw(st.integers(1, 3)),
        "max_rows_contributed": draw(st.integers(1, 3)),
        "k_bar": EVERYTHING,
        "min_units_per_group": draw(st.sampled_from([1, 1, 2, 3])),
        "contribution_bounding": draw(st.sampled_from(["sample", "weight"])),
    }
    tail = ""
    if len(keys) > 0 and draw(st.booleans()):
        tail = f" ORDER BY {draw(st.sampled_from(SCORES))} DESC LIMIT 2"
        if draw(st.booleans()):
            parameters["max_groups_contributed"] = None
    where = f" WHERE {condition}" if condition else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *measures])} FROM r{where}{group}{tail}", parameters


LAB = TableLab("r", COLUMNS)


def plans(sql: str, parameters: dict[str, Any]) -> Planned | None:
    """The plan, or None where no mechanism answers within the parameters."""
    try:
        return planned(sql, SCHEMA, RULES, **parameters)
    except QueryRefused as refused:
        if refused.code != "no_mechanism":
            raise
        return None


def check(
    question: tuple[str, dict[str, Any]],
    rows: Sequence[tuple[object, ...]],
    change: Callable[[str], str] = lambda statement: statement,
) -> dict[object, list[str]]:
    found = plans(*question)
    if found is None:
        return {}
    return audit(LAB, rows, found.plans[0], change(found.statements[0]))


@examples_of(40)
@given(questions(), rows_of_units)
def test_one_unit_moves_exact_rows_within_the_declared_sensitivity(
    question: tuple[str, dict[str, Any]], rows: list[Row]
) -> None:
    assert check(question, rows) == {}


def constant_hash(statement: str) -> str:
    return re.sub(r"hash\([^()]*\)", "0", statement)


@pytest.mark.slow
@examples_of(40)
@given(questions(), rows_of_units)
def test_hash_collisions_do_not_raise_a_units_share(
    question: tuple[str, dict[str, Any]], rows: list[Row]
) -> None:
    assert check(question, rows, constant_hash) == {}


@pytest.mark.slow
@many_examples_of(1000)
@given(questions(), rows_of_units)
def test_one_unit_moves_exact_rows_within_the_declared_sensitivity_at_length(
    question: tuple[str, dict[str, Any]], rows: list[Row]
) -> None:
    assert check(question, rows) == {}


@pytest.mark.slow
@examples_of(50)
@given(
    st.sampled_from(SCORES),
    rows_of_units,
    st.integers(1, 3),
    st.sampled_from(["a", "s", "f"]),
    st.sampled_from([1, 2]),
)
def test_the_largest_groups_are_cut_by_score_then_key(
    score: str, rows: list[Row], k_bar: int, key: str, minimum: int
) -> None:
    sql = f"SELECT {key}, {score} FROM r GROUP BY 1 ORDER BY 2 DESC LIMIT 1"
    options: dict[str, Any] = {"min_units_per_group": minimum, "max_rows_contributed": 2}
    cut = plans(sql, {**options, "k_bar": k_bar})
    whole = plans(sql, {**options, "k_bar": EVERYTHING})
    if cut is None or whole is None:
        assert minimum > 1
        return
    plan = cut.plans[0]
    if plan.selection.top_rows_needed is None:
        return
    (statement,) = cut.statements
    unlimited = statement.replace(
        f" LIMIT {plan.selection.top_rows_needed}", f" LIMIT {EVERYTHING}"
    )
    assert unlimited != statement
    LAB.fill(rows)
    found = LAB.rows(statement)
    assert repr(found) == repr(LAB.rows(unlimited)[: plan.selection.top_rows_needed])
    assert [row[0] for row in found] == list(range(1, len(found) + 1))


@pytest.mark.slow
@examples_of(40)
@given(
    st.sampled_from(SCORES),
    rows_of_units,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([("a", m) for m in TOP_K_NAMES[:4]] + [("c", "known_domain_top_k")]),
)
def test_every_top_k_mechanism_gets_the_sensitivity_it_was_planned_for(
    score: str, rows: list[Row], groups: int | None, shape: tuple[str, str]
) -> None:
    key, mechanism = shape
    try:
        found = planned(
            f"SELECT {key}, {score} AS n, sum(j) FROM r GROUP BY {key} ORDER BY n DESC LIMIT 1",
            SCHEMA,
            RULES,
            mechanism=mechanism,
            max_groups_contributed=groups,
            max_rows_contributed=2,
            k_bar=EVERYTHING // 2,
        )
    except QueryRefused:
        assert mechanism == "gaussian_top_k"
        assert groups is None
        return
    assert audit(LAB, rows, found.plans[0], found.statements[0]) == {}


@pytest.mark.parametrize("score", SCORES)
def test_a_stopping_symbol_for_few_groups_per_unit_rests_on_a_cap_that_is_enforced(
    score: str,
) -> None:
    sql = f"SELECT a, {score} AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 2"
    chosen: dict[str, Any] = {"max_groups_contributed": 3, "k_bar": 1_000_000, "delta": 1e-4}
    found = planned(sql, SCHEMA, RULES, mechanism="gumbel_top_k", **chosen)
    plan, statement = found.plans[0], found.statements[0]
    assert isinstance(plan.selection, GumbelTopK)
    assert plan.selection.crossing == 3
    rows = [*unit_with_many_groups(12), (2, 5, 0.0, "1", "p", 5, 4, 3.5)]
    assert audit(LAB, rows, plan, statement) == {}
    uncapped = re.sub(r'"__dpsql_rank" <= 3', "TRUE", statement)
    assert uncapped != statement
    violations = audit(LAB, rows, plan, uncapped)
    assert any(found.endswith("groups change, more than 3") for found in violations[1])


# -- bounds are reached ---------------------------------------------------------------------------


def unit_with_many_groups(groups: int, repeats: int = 1) -> list[tuple[object, ...]]:
    return [(1, k, 0.0, "1", "p", 5, 4, 3.5) for k in range(groups) for _ in range(repeats)]


@pytest.mark.parametrize("measure", ["count(DISTINCT u)", "count(*)", "sum(j)"])
@pytest.mark.parametrize("cap", [1, 3, 9, 10])
@pytest.mark.parametrize("change", [str, constant_hash])
def test_a_unit_with_enough_groups_keeps_exactly_the_cap(
    measure: str, cap: int, change: Callable[[str], str]
) -> None:
    found = planned(
        f"SELECT a, {measure} FROM r GROUP BY a", SCHEMA, RULES, max_groups_contributed=cap
    )
    LAB.fill(unit_with_many_groups(25, repeats=3))
    assert len(LAB.groups(change(found.statements[0]), found.plans[0])) == cap


@pytest.mark.parametrize("keys", ["", "a, "])
@pytest.mark.parametrize("beside", ["", ", count(*)"])
def test_a_unit_adds_as_many_distinct_values_as_it_may(keys: str, beside: str) -> None:
    """Those that others have stay, and are added once."""
    group = " GROUP BY a" if keys else ""
    sql = f"SELECT {keys}sum(DISTINCT i){beside} FROM r{group}"
    found = planned(sql, SCHEMA, RULES, max_groups_contributed=1, max_rows_contributed=2)
    others = [(u, 0, 0.0, "1", "p", i, 4, 3.5) for u, i in ((2, 1), (2, 2), (3, 2), (3, 1))]
    mine = [(1, 0, 0.0, "1", "p", i, 4, 3.5) for i in (100, 5, 4, 4, 1, 2)]
    totals = []
    for rows in (others, [*others, *mine[:3]], [*others, *mine[4:]], [*others, *mine]):
        LAB.fill(rows)
        ((first, *_),) = LAB.groups(found.statements[0], found.plans[0]).values()
        totals.append(first)
    assert totals[:3] == [3, 3 + 5 + 4, 3]
    assert 3 <= totals[3] <= 3 + 5 + 4
    (measure, *_) = [noisy.measure for noisy in found.plans[0].measures if noisy.measure.lattice]
    assert measure.sensitivity(2) == 2 * 5
    assert measure.name == "distinct_sum(i)"


def favoured(statement: str, found: Planned, groups: int, cap: int) -> float:
    """p-value of the groups that 300 units with all of them keep, if none is favoured."""
    LAB.fill([(u, *row[1:]) for u in range(300) for row in unit_with_many_groups(groups)])
    kept = [measures[0] for measures in LAB.groups(statement, found.plans[0]).values()]
    assert sum(kept) == 300 * cap
    # A unit keeps a group or not: the counts vary less than those of independent draws.
    spread = (groups - cap) / (groups - 1)
    return float(stats.chi2.sf(stats.chisquare(kept).statistic / spread, groups - 1))


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("groups", [7, 12])
@pytest.mark.parametrize("salt", [7, 2**61 + 12345])
def test_the_cap_favours_no_group(groups: int, salt: int) -> None:
    sql = "SELECT a, count(DISTINCT u) FROM r GROUP BY a"
    found = planned(sql, SCHEMA, RULES, salt=salt, max_groups_contributed=4)
    assert favoured(found.statements[0], found, groups, 4) > 1e-9
    once = re.sub(r"hash\((hash\([^()]*\))\)", r"\1", found.statements[0])
    assert favoured(once, found, groups, 4) < 1e-9


def test_every_unit_keeps_the_cap_and_units_keep_different_groups() -> None:
    found = planned(
        "SELECT a, count(DISTINCT u) FROM r GROUP BY a", SCHEMA, RULES, max_groups_contributed=4
    )
    rows = [(u, *row[1:]) for u in range(40) for row in unit_with_many_groups(12)]
    LAB.fill(rows)
    counts = [measures[0] for measures in LAB.groups(found.statements[0], found.plans[0]).values()]
    assert sum(counts) == 40 * 4
    assert len(counts) == 12


@pytest.mark.parametrize("cap", [2, 3])
def test_the_cap_is_reached_on_the_declared_domain_too(cap: int) -> None:
    rules = replace(
        RULES,
        tables={
            "r": replace(
                RULES.tables["r"],
                columns={"a": ColumnPolicy(domain=tuple(range(200))), "j": ColumnPolicy(0, 4)},
            )
        },
    )
    found = planned("SELECT a, sum(j) FROM r GROUP BY a", SCHEMA, rules, max_groups_contributed=cap)
    plan = found.plans[0]
    assert plan.score is None
    assert plan.bounding == Bounding.sample(cap)
    LAB.fill(unit_with_many_groups(50))
    assert len(LAB.groups(found.statements[0], plan)) == cap


@pytest.mark.parametrize(
    ("measure", "rows", "expected"),
    [
        ("count(*)", 7, 7),
        ("count(i)", 7, 7),
        ("sum(i)", 7, 35),
        ("sum(j)", 3, 12),
    ],
)
def test_the_clamp_of_rows_is_reached_exactly(measure: str, rows: int, expected: int) -> None:
    found = planned(f"SELECT {measure} FROM r", SCHEMA, RULES, max_rows_contributed=rows)
    plan = found.plans[0]
    LAB.fill(unit_with_many_groups(20))
    ((value,),) = LAB.groups(found.statements[0], plan).values()
    assert value == expected == plan.measures[0].measure.sensitivity(rows)


@pytest.mark.parametrize("measure", ["sum(x)", "avg(x)", "avg(i)", "sum(i)"])
def test_a_unit_at_both_ends_stays_within_one_step_of_the_sensitivity(measure: str) -> None:
    found = planned(f"SELECT {measure} FROM r", SCHEMA, RULES, max_rows_contributed=6)
    plan = found.plans[0]
    limit = plan.measures[0].measure.sensitivity(6)
    for extreme in ((1, 0, 0.0, "", "p", 2**31 - 1, 0, 1e308), (1, 0, 0.0, "", "p", -99, 0, -INF)):
        LAB.fill([extreme] * 9)
        ((value, *_),) = LAB.groups(found.statements[0], plan).values()
        assert abs(value) <= limit
    LAB.fill([(1, 0, 0.0, "", "p", 2**31 - 1, 0, 1e308)] * 9)
    ((value, *_),) = LAB.groups(found.statements[0], plan).values()
    assert value >= limit - 1


def test_rows_without_a_unit_count_for_nothing() -> None:
    found = planned("SELECT a, count(*), sum(j) FROM r GROUP BY a", SCHEMA, RULES)
    LAB.fill([(None, 1, 0.0, "", "p", 1, 4, 1.0)] * 5)
    assert LAB.groups(found.statements[0], found.plans[0]) == {}


# -- weighted units -------------------------------------------------------------------------------

crowded_rows = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 3]),
        st.integers(0, 13),
        st.just(0.0),
        TEXTS,
        st.sampled_from(["p", "q", None]),
        st.sampled_from([-3, 5, 100, None]),
        st.sampled_from([0, 4, 2**63 - 1]),
        st.sampled_from([-2.0, 0.1, 1e308, NAN]),
    ),
    max_size=45,
)


@pytest.mark.slow
@examples_of(40)
@given(
    st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True),
    crowded_rows,
    st.integers(1, 2),
    st.sampled_from([1, 3, 1000, 2**31 - 1]),
    st.sampled_from([1, 1, 2]),
    st.sampled_from([str, constant_hash]),
)
def test_a_weighted_unit_stays_within_its_norm(
    measures: list[str],
    rows: list[Row],
    cap: int,
    repeats: int,
    minimum: int,
    change: Callable[[str], str],
) -> None:
    sql = f"SELECT a, {', '.join(measures)} FROM r GROUP BY a"
    options: dict[str, Any] = {
        "max_groups_contributed": cap,
        "max_rows_contributed": repeats,
        "min_units_per_group": minimum,
        "contribution_bounding": "weight",
    }
    assert check((sql, options), rows, change) == {}


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["count(DISTINCT u)", "count(*)", "sum(j)"])
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_weights_are_those_of_the_mechanism_and_reach_the_norm(measure: str, cap: int) -> None:
    found = planned(
        f"SELECT a, {measure} FROM r GROUP BY a",
        SCHEMA,
        RULES,
        max_groups_contributed=cap,
        max_rows_contributed=2,
        contribution_bounding="weight",
    )
    plan = found.plans[0]
    whole = plan.measures[0].measure.sensitivity(2)
    for groups in (*range(1, 12), 7 * cap - 1, 7 * cap, 7 * cap + 1, 40):
        LAB.fill(unit_with_many_groups(groups, repeats=3))
        values = [measures[0] for measures in LAB.groups(found.statements[0], plan).values()]
        left = min(groups, 7 * cap)
        assert values == [whole * weight_of(cap, left) // WEIGHT_STEPS] * left
        full = min(left, cap) * whole**2
        assert full * 0.999 <= sum(value**2 for value in values) <= full


def test_nothing_changes_but_the_step_where_no_unit_has_too_many_groups() -> None:
    rows: list[tuple[object, ...]] = [
        (u, (u + g) % 9, 0.0, "1", "p", u % 7 - 1, u % 5, 0.5 * u % 3)
        for u in range(30)
        for g in range(1 + u % 3)
    ]
    LAB.fill(rows)
    sql = "SELECT a, count(DISTINCT u), count(*), sum(i), sum(x), avg(x) FROM r GROUP BY a"
    shown = []
    for bounding in ("sample", "weight"):
        found = planned(
            sql, SCHEMA, RULES, max_groups_contributed=3, contribution_bounding=bounding
        )
        plan = found.plans[0]
        steps = [noisy.measure.step for noisy in plan.measures]
        groups = LAB.groups(found.statements[0], plan)
        shown.append(
            {k: [v * s for v, s in zip(vs, steps, strict=True)] for k, vs in groups.items()}
        )
    assert shown[0].keys() == shown[1].keys()
    for key, sampled in shown[0].items():
        assert shown[1][key] == pytest.approx(sampled, abs=1e-3)
        assert shown[1][key][:3] == sampled[:3], "counts and sums of small integers are exact"


@pytest.mark.slow
def test_weighted_units_keep_all_their_declared_groups() -> None:
    rules = replace(
        RULES,
        tables={
            "r": replace(
                RULES.tables["r"],
                columns={"a": ColumnPolicy(domain=tuple(range(60))), "j": ColumnPolicy(0, 4)},
            )
        },
    )
    found = planned(
        "SELECT a, sum(j) FROM r GROUP BY a",
        SCHEMA,
        rules,
        max_groups_contributed=2,
        contribution_bounding="weight",
    )
    plan, statement = found.plans[0], found.statements[0]
    assert plan.score is None
    assert plan.bounding == Bounding(2, 60)
    rows = unit_with_many_groups(50, 10) + [(2, *row[1:]) for row in unit_with_many_groups(3)]
    LAB.fill(rows)
    assert len(LAB.groups(statement, plan)) == 50
    assert audit(LAB, rows, plan, statement) == {}
    assert audit(LAB, rows, plan, whole_weights(statement)) != {}


def test_units_that_are_equal_but_look_different_are_one_unit() -> None:
    """NaN and signed zeros: grouping and joining agree on who is who."""
    schema = schema_of(Table("d", (column_of("u", "DOUBLE"), column_of("a", "INTEGER"))))
    rules = replace(RULES, tables={"d": TablePolicy("d", PrivacyUnit("unit", "u"), {})})
    found = planned(
        "SELECT a, count(DISTINCT u) FROM d GROUP BY a",
        schema,
        rules,
        max_groups_contributed=1,
        contribution_bounding="weight",
    )
    lab = TableLab("d", (("u", "DOUBLE"), ("a", "INTEGER")))
    for twins in ((0.0, -0.0), (NAN, -NAN)):
        lab.fill([(twins[a % 2], a) for a in range(4)])
        values = lab.groups(found.statements[0], found.plans[0]).values()
        assert list(values) == [(weight_of(1, 4),)] * 4


def whole_weights(statement: str) -> str:
    return re.sub(r"CASE WHEN .{1,40} THEN 65536 ELSE .*? END", "65536", statement)


CROWDED = [
    (u, k, 0.0, "1", "p", 5, 4, 3.5) for u in (1, 2, 3) for k in range(9 * u) for _ in range(4)
]
BROKEN_WEIGHTS: dict[str, Callable[[str], str]] = {
    "whole weights": whole_weights,
    "weights without a root": lambda s: re.sub(
        r"floor\(sqrt\(\((\d+) // (.*?)\)\)\)", r"\1 // \2 // 256", s
    ),
    "too many kept": lambda s: re.sub(r'"__dpsql_rank" <= \d+', "TRUE", s),
    "crowded units kept whole": lambda s: re.sub(
        r'(coalesce\("__dpsql_size", \d+\)) <= \d+', r"\1 > 0", s
    ),
    "sizes one too small": lambda s: s.replace(
        'count(*) AS "__dpsql_size"', 'count(*) - 1 AS "__dpsql_size"'
    ),
    "unweighted sums": lambda s: s.replace('* "__dpsql_weight"', "* 65536"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN_WEIGHTS)
def test_the_audit_notices_wrong_weights(name: str) -> None:
    found = planned(
        "SELECT a, count(*) FROM r GROUP BY a",
        SCHEMA,
        RULES,
        max_groups_contributed=2,
        max_rows_contributed=4,
        contribution_bounding="weight",
    )
    plan, statement = found.plans[0], found.statements[0]
    broken = BROKEN_WEIGHTS[name](statement)
    assert broken != statement
    assert audit(LAB, CROWDED, plan, statement) == {}
    assert audit(LAB, CROWDED, plan, broken) != {}


# -- negative controls: the audit notices each way of getting it wrong ----------------------------

MANY = [(u, k, 0.0, "1", "p", 5, 4, 3.5) for u in (1, 2, 3) for k in range(8) for _ in range(4)]
BROKEN: dict[str, tuple[str, Callable[[str], str]]] = {
    "no rank filter": (
        "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
        lambda s: re.sub(r'"__dpsql_rank" <= \d+', "TRUE", s),
    ),
    "one group too many": (
        "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
        lambda s: re.sub(r'"__dpsql_rank" <= (\d+)', r'"__dpsql_rank" <= \1 + 1', s),
    ),
    "no clamp of rows": (
        "SELECT a, count(*) FROM r GROUP BY a",
        lambda s: s.replace('("__dpsql_row" - "__dpsql_first") < 2', "TRUE"),
    ),
    "no clamp of rows beside sums": (
        "SELECT a, count(*), sum(j) FROM r GROUP BY a",
        lambda s: re.sub(r'least\(("__dpsql_of0"), 2\)', r"\1", s),
    ),
    "no clamp of sums": (
        "SELECT a, sum(j) FROM r GROUP BY a",
        lambda s: re.sub(
            r'greatest\(0, least\(\d+, (coalesce\("__dpsql_of0", 0\))\)\)', r"\1", s, count=1
        ),
    ),
    "no clamp of sums that are grouped": (
        "SELECT sum(j) FROM r",
        lambda s: re.sub(
            r'greatest\(0, least\(\d+, (coalesce\(sum\("__dpsql_m0"\), 0\))\)\)', r"\1", s, count=1
        ),
    ),
    "sums of all rows of a key": (
        "SELECT a, sum(j) FROM r GROUP BY a",
        lambda s: s.replace('WHERE "__dpsql_row" = "__dpsql_first"', ""),
    ),
    "a unit counted at each row": (
        "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
        lambda s: s.replace('("__dpsql_row" - "__dpsql_first") < 1', "TRUE"),
    ),
    "rows counted for units": (
        "SELECT count(DISTINCT u) FROM r",
        lambda s: s.replace('count(DISTINCT "__dpsql_unit")', "count(*)"),
    ),
    "units of a constant": (
        "SELECT count(*) FROM r",
        lambda s: s.replace('SELECT "u" AS', "SELECT random() AS"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_audit_notices(name: str) -> None:
    sql, mutate = BROKEN[name]
    found = planned(sql, SCHEMA, RULES, max_groups_contributed=2, max_rows_contributed=2)
    plan, statement = found.plans[0], found.statements[0]
    assert audit(LAB, MANY, plan, statement) == {}
    assert mutate(statement) != statement
    assert audit(LAB, MANY, plan, mutate(statement)) != {}


def test_the_audit_notices_ranks_that_depend_on_other_units() -> None:
    found = planned(
        "SELECT a, count(DISTINCT u) FROM r GROUP BY a", SCHEMA, RULES, max_groups_contributed=1
    )
    plan, statement = found.plans[0], found.statements[0]
    popular = statement.replace(
        'FROM (SELECT "u" AS',
        'FROM (SELECT count(*) OVER (PARTITION BY a) AS popularity, "u" AS',
    )
    popular = re.sub(r"hash\(hash\([^()]*\)\)", "popularity", popular)
    rows = [(u, k, 0.0, "", "p", 0, 0, 0.0) for u, k in [(1, 0), (2, 0), (2, 1), (3, 1)]]
    rows += [(5, 0, 0.0, "", "p", 0, 0, 0.0), (5, 1, 0.0, "", "p", 0, 0, 0.0)]
    assert audit(LAB, rows, plan, statement) == {}
    assert audit(LAB, rows, plan, popular) != {}


def test_the_audit_notices_errors_caught_around_the_whole_condition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statistics of all rows decide whether a failing operand is evaluated at all."""
    sql = "SELECT count(DISTINCT u) FROM r WHERE NOT (a > 2 AND CAST(s AS INT) > 2)"
    rows: list[tuple[object, ...]] = [(u, 0, 0.0, "bad", "p", 0, 0, 0.0) for u in (1, 2, 3)]
    rows.append((4, 3, 0.0, "1", "p", 0, 0, 0.0))
    assert check((sql, {}), rows) == {}

    def around(node: exp.Expr, table: Table, dialect: Dialect) -> exp.Expr:
        return exp.Anonymous(this="TRY", expressions=[node])

    monkeypatch.setattr(totality, "total_condition", around)
    assert set(check((sql, {}), rows)) == {4}

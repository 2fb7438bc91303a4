"""What analysts write inside SELECT: FILTER, bounds of their own, spreads, distinct values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.laws import SeededSource
from helpers.sensitivity import TableLab, audit
from helpers.support import connect, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sqlglot import exp

import dpsql
from dpsql.accuracy.estimates import PlausibleRange, estimate
from dpsql.core.schema import Table, schema_of
from dpsql.core.sql_types import SqlType
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import Error, QueryRefused
from dpsql.ir.measures import Aggregate, AggregateKind, Measure, MeasureKind
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.sql.expressions.lattices import lattice_for
from dpsql.sql.expressions.ranges import is_exact, is_integral, is_number, range_of, with_truths
from dpsql.sql.expressions.totality import total
from dpsql.syntax.parse import parse
from dpsql.syntax.text import to_sql

COLUMNS = (
    ("u", "BIGINT"),
    ("a", "INTEGER"),
    ("s", "VARCHAR"),
    ("i", "INTEGER"),
    ("x", "DOUBLE"),
    ("f", "DOUBLE"),
    ("flag", "BOOLEAN"),
    ("d", "DATE"),
    ("ts", "TIMESTAMP"),
    ("m", "DECIMAL(9, 2)"),
)
TABLE = Table("r", tuple(column_of(*column) for column in COLUMNS))
SCHEMA = schema_of(TABLE)
BOUNDS = {
    "i": ColumnPolicy(-3, 5),
    "x": ColumnPolicy(-2.0, 3.5),
    "m": ColumnPolicy(1, 9),
}
RULES = Policy(
    "aggregates",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), BOUNDS)},
)
LAB = TableLab("r", COLUMNS)
Row = tuple[Any, ...]


def row(u: int, a: int | None = 0, **values: object) -> Row:
    return tuple({"u": u, "a": a, **values}.get(name) for name, _ in COLUMNS)


def exact(sql: str, rows: list[Row], **parameters: Any) -> dict[tuple[object, ...], list[float]]:
    """The exact rows in the units of the answer."""
    found = planned(sql, SCHEMA, RULES, **parameters)
    LAB.fill(rows)
    steps = [noisy.measure.step for noisy in found.plans[0].measures]
    groups = LAB.groups(found.statements[0], found.plans[0])
    return {
        key: [value * step for value, step in zip(values, steps, strict=True)]
        for key, values in groups.items()
    }


def measures(sql: str, **parameters: Any) -> tuple[Measure, ...]:
    return planned(f"SELECT {sql} FROM r", SCHEMA, RULES, **parameters).query.blocks[0].measures


def code(sql: str, **parameters: Any) -> str:
    with pytest.raises(Error) as caught:
        planned(sql, SCHEMA, RULES, **parameters)
    assert caught.value.hint
    return caught.value.code


# -- FILTER ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filtered", "plain"),
    [
        ("sum(i) FILTER (WHERE a > 2)", "sum(CASE WHEN a > 2 THEN i END)"),
        ("avg(x) FILTER (WHERE a > 2)", "avg(CASE WHEN a > 2 THEN x END)"),
        ("stddev(x) FILTER (WHERE a > 2)", "stddev(CASE WHEN a > 2 THEN x END)"),
        ("count(s) FILTER (WHERE a > 2)", "count(CASE WHEN a > 2 THEN s END)"),
        ("count(*) FILTER (WHERE a > 2)", "count(CASE WHEN a > 2 THEN 1 END)"),
        ("count(*) FILTER (WHERE a > 2)", "count_if(a > 2)"),
        ("count(DISTINCT s) FILTER (WHERE a > 2)", "count(DISTINCT CASE WHEN a > 2 THEN s END)"),
        ("count(DISTINCT u) FILTER (WHERE a > 2)", "count(DISTINCT CASE WHEN a > 2 THEN u END)"),
    ],
)
def test_filter_is_a_case_inside(filtered: str, plain: str) -> None:
    assert measures(filtered) == measures(plain)
    assert len(measures(f"{filtered}, {plain}")) == len(measures(plain))


def test_a_filter_does_not_take_groups_or_rows_away_from_other_aggregates() -> None:
    rows = [row(u, u % 2, i=u % 4) for u in range(8)]
    sql = "SELECT a, count(*), count(*) FILTER (WHERE i > 2), sum(i) FILTER (WHERE i > 2) FROM r"
    found = exact(f"{sql} GROUP BY a", rows)
    assert {key: values[:3] for key, values in found.items()} == {
        (0,): [4, 0, 0],
        (1,): [4, 2, 6],
    }


def test_a_unit_counts_once_among_those_with_a_row_that_matches() -> None:
    rows = [row(u, 0, i=i) for u in (1, 2, 3) for i in (-1, u, u)]
    sql = "SELECT a, count(DISTINCT u) FILTER (WHERE i >= 2) AS n FROM r GROUP BY a"
    (measure,) = measures("count(DISTINCT u) FILTER (WHERE i >= 2)")
    assert measure.kind is MeasureKind.MATCHING_UNITS
    assert measure.sensitivity(10) == 1
    for parameters in ({}, {"contribution_bounding": "weight"}):
        ((value, *_),) = exact(sql, rows, **parameters).values()
        assert value == 2
    ranked = planned(f"{sql} ORDER BY n DESC LIMIT 1", SCHEMA, RULES).plans[0]
    assert ranked.score is not None


def test_names_that_only_a_filter_tells_apart_are_those_of_duckdb() -> None:
    (block,) = planned(
        "SELECT count(*) FILTER (WHERE i > 2), var_samp(x), sum(i, contribution_bounds_per_row => "
        "(0, 1)) FROM r",
        SCHEMA,
        RULES,
    ).query.blocks
    assert [aggregate.text for aggregate in block.aggregates] == [
        "count_star() FILTER (WHERE (i > 2))",
        "var_samp(x)",
        "sum(i)",
    ]


# -- bounds of the query --------------------------------------------------------------------------

PER_ROW, PER_GROUP = "contribution_bounds_per_row", "contribution_bounds_per_group"


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        ("sum(i)", [9, 9, -9], 7),  # the policy's bounds
        (f"sum(i, {PER_ROW} => (0, 2))", [9, 9, -9], 4),  # narrower
        (f"sum(i, {PER_ROW} => (-50, 50))", [9, 9, -9], 9),  # wider
        (f"sum(f, {PER_ROW} => (-0.5, 2.25))", [9, 1, -9], 2.75),  # none declared
        (f"sum(f * 2, {PER_ROW} => (-1, (2)))", [9, 0.25, -9], 1.5),
        (f"sum(i, {PER_GROUP} => (0, 4))", [3, 3, -3], 3),
        (f"sum(i, {PER_GROUP} => (0, 4))", [3, 3, 3], 4),
        (f"sum(i, {PER_GROUP} => (0, 4))", [-1, -1, -1], 0),
        (f"sum(i, {PER_GROUP} => (2, 4))", [1], 2),  # a unit with values adds at least 2
        (f"sum(i, {PER_GROUP} => (2, 4))", [None], 0),  # one without them adds nothing
        (f"sum(i, {PER_GROUP} => (-9, -6))", [3, -3], -6),
        (f"sum(f, {PER_GROUP} => (0, 300))", [1000, -950], 50),  # rows may cancel out
        (f"sum(f, {PER_ROW} => (0, 20), {PER_GROUP} => (0, 30))", [99, 5, -99], 25),
        (f"sum(f, {PER_GROUP} => (0, 30), {PER_ROW} => (0, 20))", [99, 99], 30),
        (f"count(*, {PER_GROUP} => (0, 2))", [1, 2, 3], 2),
        (f"count(*, {PER_GROUP} => (0, 50))", [1] * 40, 40),  # more than max_rows_contributed
        (f"count(f, {PER_GROUP} => (0, 2))", [1, None, None], 1),
        (f"count_if(f > 1, {PER_GROUP} => (0, 2))", [1, 2, 3, 4], 2),
        (f"count(DISTINCT f, {PER_GROUP} => (0, 2))", [1, 2, 3, 3], 2),
        (f"sum(f, {PER_GROUP} => (0, 2)) FILTER (WHERE f < 2)", [1, 0.5, 3], 1.5),
    ],
)
def test_the_nearest_bounds_decide_where_contributions_are_clamped(
    aggregate: str, values: list[float | None], expected: float
) -> None:
    rows = [row(1, 0, i=value, f=value) for value in values]
    (found,) = exact(f"SELECT {aggregate} FROM r", rows).values()
    assert found[0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("aggregate", "reach"),
    [
        (f"sum(f, {PER_GROUP} => (-7, 3))", 7),
        (f"sum(f, {PER_GROUP} => (2, 3))", 3),
        (f"sum(f, {PER_GROUP} => (-9.5, -4))", 9.5),
        (f"sum(i, {PER_GROUP} => (0, 3))", 3),
        (f"sum(f, {PER_GROUP} => (0, 1e-6), {PER_ROW} => (0, 1e9))", 1e-6),
        (f"sum(f, {PER_GROUP} => (0, 1e9), {PER_ROW} => (0, 1e-6))", 1e9),
        (f"sum(f, {PER_ROW} => (-2, 1))", 20),
        (f"count(*, {PER_GROUP} => (0, 4))", 4),
        (f"count(DISTINCT f, {PER_GROUP} => (0, 4))", 4),
        ("count(DISTINCT f)", 10),
    ],
)
def test_the_sensitivity_is_that_of_the_bounds(aggregate: str, reach: float) -> None:
    measure = measures(aggregate, max_rows_contributed=10)[0]
    assert measure.sensitivity(10) * measure.step == pytest.approx(reach, rel=1e-3)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT sum(x, {PER_ROW} => (1, 0)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (1, 1)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, i)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 'a')) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 1 + 1)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, NULL)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 1, 2)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => 5) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 1e999)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 1), {PER_ROW} => (0, 2)) FROM r", "bad_bounds"),
        (f"SELECT sum(x, {PER_ROW} => (0, 1e16)) FROM r", "bounds_too_large"),
        (f"SELECT sum(x, {PER_GROUP} => (0, 1e16)) FROM r", "bounds_too_large"),
        ("SELECT sum(x, contribution_bounds => (0, 1)) FROM r", "unknown_bounds"),
        (f"SELECT count(*, {PER_GROUP} => (1, 5)) FROM r", "bad_bounds"),
        (f"SELECT count(*, {PER_GROUP} => (0, 1.5)) FROM r", "bad_bounds"),
        (f"SELECT count(*, {PER_ROW} => (0, 5)) FROM r", "bounds_do_not_apply"),
        (f"SELECT count(DISTINCT u, {PER_ROW} => (0, 5)) FROM r", "bounds_do_not_apply"),
        (f"SELECT stddev(x, {PER_GROUP} => (0, 5)) FROM r", "bounds_do_not_apply"),
        (f"SELECT sum(s, {PER_ROW} => (0, 5)) FROM r", "not_numeric"),
        (f"SELECT sum(upper(s), {PER_ROW} => (0, 5)) FROM r", "not_numeric"),
        (f"SELECT sum(d, {PER_ROW} => (0, 5)) FROM r", "not_numeric"),
        (f"SELECT sum(CASE WHEN a > 1 THEN s END, {PER_ROW} => (0, 5)) FROM r", "not_numeric"),
        (f"SELECT avg(flag, {PER_ROW} => (0, 5)) FROM r", "not_numeric"),
        (f"SELECT abs(x, {PER_ROW} => (0, 5)) FROM r", "raw_rows"),
        (f"SELECT sum(abs(x, {PER_ROW} => (0, 5))) FROM r", "expression_not_allowed"),
        (f"SELECT a FROM r GROUP BY a, abs(a, {PER_ROW} => (0, 5))", "expression_not_allowed"),
        (
            f"SELECT sum(n, {PER_ROW} => (0, 5)) FROM (SELECT count(*) AS n FROM r GROUP BY a)",
            "bounds_not_private",
        ),
        (f"SELECT sum(count(*), {PER_ROW} => (0, 5)) OVER () FROM r", "bounds_not_private"),
    ],
)
def test_bounds_that_mean_nothing_are_refused_before_anything_runs(sql: str, expected: str) -> None:
    assert code(sql) == expected


@pytest.mark.slow
def test_bounds_may_be_query_parameters(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        sql = f"SELECT sum(k, {PER_ROW} => (?, ?)) FROM visits"
        ((value,),) = connection.sql(sql, [0, 2], epsilon=50.0).fetchall()
        assert 600 < value < 2600
        with pytest.raises(QueryRefused, match="two numbers"):
            connection.sql(sql, [2, 0])


def test_bounds_of_a_column_per_unit_can_be_given_where_none_follow() -> None:
    inner = "SELECT u, a, sum(f) AS total FROM r GROUP BY u, a"
    assert code(f"SELECT a, sum(total) FROM ({inner}) GROUP BY a") == "unbounded_sum"
    sql = f"SELECT a, sum(total, {PER_ROW} => (0, 10)), avg(total, {PER_ROW} => (0, 10))"
    rows = [row(u, 0, f=3.0) for u in (1, 2) for _ in range(u)]
    ((found, *_),) = exact(f"{sql} FROM ({inner}) GROUP BY a", rows).values()
    assert found == pytest.approx(3 + 6, abs=1e-3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"sum(x, {PER_ROW} => (0, 1))", f"sum(x, {PER_ROW} => (0, 2))"),
        (f"sum(x, {PER_GROUP} => (0, 1))", f"sum(x, {PER_GROUP} => (0, 2))"),
        (f"count(*, {PER_GROUP} => (0, 3))", f"count(*, {PER_GROUP} => (0, 4))"),
        ("var_pop(x)", "var_samp(x)"),
        ("var_pop(x)", "stddev_pop(x)"),
        ("count(DISTINCT a)", "count(a)"),
    ],
)
def test_statements_that_differ_in_bounds_or_aggregates_are_told_apart(
    one: str, other: str
) -> None:
    prints = [
        planned(f"SELECT {text} AS v FROM r", SCHEMA, RULES).fingerprint
        for text in (one, other, one)
    ]
    assert prints[0] == prints[2] != prints[1]


# -- what is not available ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("sum(DISTINCT i, x)", "aggregate_not_supported"),
        ("sum(DISTINCT i ORDER BY x)", "aggregate_not_supported"),
        ("sum(DISTINCT i, contribution_bounds_per_group => (0, 9))", "bounds_do_not_apply"),
        ("sum(DISTINCT s)", "not_numeric"),
        ("sum(DISTINCT f)", "unbounded_sum"),
        ("avg(DISTINCT i, x)", "aggregate_not_supported"),
        ("avg(DISTINCT i, max_error => 3)", "aggregate_not_supported"),
        ("avg(DISTINCT i, contribution_bounds_per_row => (9, 0))", "bad_bounds"),
        ("max(DISTINCT i)", "aggregate_not_supported"),
        ("stddev(DISTINCT i)", "aggregate_not_supported"),
        ("count(a, i)", "aggregate_not_supported"),
        ("count(a ORDER BY i)", "aggregate_not_supported"),
        ("max(i, 2) FILTER (WHERE a > 1)", "aggregate_not_supported"),
        ("arg_max(i, x)", "aggregate_not_supported"),
        ("bool_or(i)", "aggregate_not_supported"),
        ("bool_and(DISTINCT flag)", "aggregate_not_supported"),
        ("bool_or(flag, max_error => 3)", "aggregate_not_supported"),
        ("list(i)", "aggregate_not_supported"),
        ("corr(i, x, contribution_bounds_per_row => (0, 1))", "aggregate_not_supported"),
        ("corr(i, s)", "not_numeric"),
        ("corr(flag, x)", "not_numeric"),
        ("covar_pop(f, x)", "unbounded_sum"),
        ("corr(x, (SELECT 1))", "subquery_over_private_rows"),
        ("sum(f)", "unbounded_sum"),
        ("var_pop(f)", "unbounded_sum"),
        ("sum(a) FILTER (WHERE i > 2)", "unbounded_sum"),
        ("avg(s)", "not_numeric"),
        ("avg(flag)", "not_numeric"),
        ("stddev(d)", "not_numeric"),
        ("count(*) FILTER (WHERE i > (SELECT 1))", "subquery_over_private_rows"),
        ("count(*) FILTER (WHERE count(*) > 2)", "misplaced_aggregate"),
        ("count(*) FILTER (WHERE random() > 2)", "expression_not_allowed"),
    ],
)
def test_aggregates_that_have_no_private_version_are_refused_with_a_hint(
    sql: str, expected: str
) -> None:
    assert code(f"SELECT {sql} FROM r") == expected


# -- distinct values ------------------------------------------------------------------------------

SHAPES = ("count(DISTINCT f)", "count(DISTINCT f), count(*), sum(i)")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cap", [1, 3, 7])
def test_a_unit_adds_exactly_its_bound_of_distinct_values(shape: str, cap: int) -> None:
    rows = [row(1, a, f=float(v), i=1) for a in (0, 1) for v in range(9) for _ in range(2)]
    rows += [row(1, 0, f=None, i=1)]
    found = exact(f"SELECT a, {shape} FROM r GROUP BY a", rows, max_rows_contributed=cap)
    assert [values[0] for values in found.values()] == [cap, cap]


@pytest.mark.parametrize("shape", SHAPES)
def test_values_that_units_share_are_counted_once_and_null_never(shape: str) -> None:
    rows = [row(u, 0, f=value, i=1) for u in (1, 2) for value in (1.0, 2.0, None)]
    rows += [row(3, 0, f=value, i=1) for value in (math.nan, -math.nan, 0.0, -0.0)]
    rows += [row(4, 1, i=1)]
    found = exact(f"SELECT a, {shape} FROM r GROUP BY a", rows)
    assert [found[0,][0], found[1,][0]] == [4, 0]
    if shape == SHAPES[1]:
        assert (found[0,][1:3], found[1,][1:3]) == ([10, 10], [1, 1])


def test_several_values_are_counted_as_one_and_none_where_one_is_null() -> None:
    """Texts that are alike when joined, with any mark between them, are not the same values."""
    joined = [(1, "1:x"), (11, ":x"), (1, "11:x"), (11, "1:x"), (1, ""), (None, "x"), (2, None)]
    rows = [row(u, a, s=text) for u, (a, text) in enumerate(joined * 2)]
    asked = "count(DISTINCT a, s), count(DISTINCT s, a), count(DISTINCT a, d)"
    assert exact(f"SELECT {asked} FROM r", rows)[()] == [5, 5, 0]
    texts = [(one, other) for one in ("", "1", ":", "1:") for other in ("", "1", ":", "1:", "1:1")]
    rows = [row(u, 0, s=f"{one};{other}") for u, (one, other) in enumerate(texts)]
    parts = "split_part(s, ';', 1), split_part(s, ';', 2)"
    found = exact(f"SELECT count(DISTINCT {parts}) FROM r", rows)
    assert found[()] == [len(texts)]


@pytest.mark.slow
def test_distinct_values_are_the_same_beside_other_aggregates() -> None:
    rng = np.random.default_rng(3)
    rows = [
        row(int(unit), int(key), s=str(value % 7), i=1)
        for unit, key, value in rng.integers(0, 12, (300, 3))
    ]
    alone = exact("SELECT a, count(DISTINCT s) FROM r GROUP BY a", rows)
    beside = exact("SELECT a, count(DISTINCT s), sum(i), count(DISTINCT i) FROM r GROUP BY a", rows)
    assert {key: values[0] for key, values in alone.items()} == {
        key: values[0] for key, values in beside.items()
    }


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("salt", [7, 2**61 + 12345])
def test_which_values_of_a_unit_are_counted_favours_none(salt: int) -> None:
    """500 groups of the same 12 values, of which 4 are kept in each."""
    rows = [row(1, a, f=float(v)) for a in range(500) for v in range(12)]
    sql = "SELECT a, count(DISTINCT f) FROM r GROUP BY a"
    found = planned(
        sql, SCHEMA, RULES, salt=salt, max_rows_contributed=4, max_groups_contributed=10**6
    )
    LAB.fill(rows)
    listed = found.statements[0].replace("count(DISTINCT", "list(DISTINCT")
    counts = LAB.rows(
        f'SELECT count(*) FROM (SELECT unnest("__dpsql_m0") AS v FROM ({listed})) '
        "WHERE v IS NOT NULL GROUP BY v"
    )
    numbers = [int(count) for (count,) in counts]
    assert sum(numbers) == 2000
    spread = (12 - 4) / (12 - 1)
    assert stats.chi2.sf(stats.chisquare(numbers).statistic / spread, 11) > 1e-9


def test_distinct_values_can_rank_groups() -> None:
    sql = "SELECT a, count(DISTINCT s) AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 2"
    plan = planned(sql, SCHEMA, RULES, max_rows_contributed=3).plans[0]
    assert plan.selection.top_rows_needed is not None
    assert plan.score == 0
    assert plan.measures[0].measure.monotone
    assert plan.measures[0].measure.sensitivity(3) == 3


def test_distinct_values_cannot_be_weighted_and_explain_says_so(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        found = connection.explain(
            "SELECT s, count(DISTINCT n) FROM visits GROUP BY s",
            contribution_bounding="weight",
            max_groups_contributed=2,
        )
        (block,) = found.blocks
        assert "as a count of distinct values cannot weigh units" in block.bounding
        assert "at most 10 rows and 10 distinct values per unit and group" in block.bounding


# -- the audit notices ----------------------------------------------------------------------------

CROWD = [
    row(u, a, s=str(10 * u + v), i=5, x=3.5, f=9.0 * v - 30)
    for u in (1, 2, 3)
    for a in (0, 1)
    for v in range(8)
]
RANK = r'dense_rank\(\) OVER \(PARTITION BY "__dpsql_unit", "__dpsql_k0" '
BROKEN: dict[str, tuple[str, Callable[[str], str]]] = {
    "all values of a unit": (
        "count(DISTINCT s)",
        lambda text: re.sub(rf"({RANK}.*?) <= \d+", r"\1 > 0", text),
    ),
    "one value too many": (
        "count(DISTINCT s)",
        lambda text: re.sub(rf"({RANK}.*?) <= (\d+)", r"\1 <= \2 + 1", text),
    ),
    "all values of a unit beside sums": (
        "count(DISTINCT s), sum(i)",
        lambda text: re.sub(rf"({RANK}.*?) <= \d+", r"\1 > 0", text),
    ),
    "rows counted for matching units": (
        "count(DISTINCT u) FILTER (WHERE i > 2)",
        lambda text: re.sub(
            r"count\(DISTINCT CASE WHEN (.*?) IS NOT NULL.*?\)", r"count(\1)", text
        ),
    ),
    "no clamp per group": (
        f"sum(f, {PER_GROUP} => (0, 4))",
        lambda text: re.sub(
            r'greatest\(0, least\(\d+, (coalesce\("__dpsql_of0", 0\))\)\)', r"\1", text
        ),
    ),
    "no clamp of squares": (
        "var_pop(x)",
        lambda text: text.replace('sum("__dpsql_m2")', 'sum(100::HUGEINT * "__dpsql_m2")', 1),
    ),
    "squares clamped too wide": (
        f"var_pop(f, {PER_ROW} => (-2, 2))",
        lambda text: re.sub(
            r"2\.0e0 THEN (-?)1073741824\b",
            r"4.0e0 THEN \g<1>2147483648",
            re.sub(rf"\b({2**60}|{2**61})\b", str(2**62), text),
        ),
    ),
    "no clamp of a count per group": (
        f"count(*, {PER_GROUP} => (0, 2))",
        lambda text: text.replace(' AND ("__dpsql_row" - "__dpsql_first") < 2', ""),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_audit_notices(name: str) -> None:
    aggregates, mutate = BROKEN[name]
    found = planned(
        f"SELECT a, {aggregates} FROM r GROUP BY a", SCHEMA, RULES, max_rows_contributed=2
    )
    plan, statement = found.plans[0], found.statements[0]
    assert mutate(statement) != statement
    assert audit(LAB, CROWD, plan, statement) == {}
    assert audit(LAB, CROWD, plan, mutate(statement)) != {}


@pytest.mark.parametrize("low", [-2.0, 3.5, 0.1])
def test_a_unit_at_the_ends_of_its_bounds_moves_squares_by_their_sensitivity(low: float) -> None:
    found = planned("SELECT var_pop(x) FROM r", SCHEMA, RULES, max_rows_contributed=3)
    plan = found.plans[0]
    squares = plan.measures[2].measure
    LAB.fill([row(1, 0, x=low)] * 7)
    ((*_, moved),) = LAB.groups(found.statements[0], plan).values()
    assert abs(moved) <= squares.sensitivity(3)
    if low != 0.1:
        assert abs(moved) >= squares.sensitivity(3) - 2


# -- averages and spreads -------------------------------------------------------------------------

SPREADS = {
    AggregateKind.VAR_POP: lambda v: np.var(v),
    AggregateKind.VAR_SAMP: lambda v: np.var(v, ddof=1),
    AggregateKind.STDDEV_POP: lambda v: np.std(v),
    AggregateKind.STDDEV_SAMP: lambda v: np.std(v, ddof=1),
}


def parts_of(values: np.ndarray, center: Measure, squares: Measure) -> list[np.ndarray]:
    assert center.lattice is not None
    assert squares.lattice is not None
    middle = center.lattice.midpoint * center.lattice.quantum
    square = squares.lattice.midpoint * squares.lattice.quantum
    moments = ((values - middle).sum(), len(values), ((values - middle) ** 2 - square).sum())
    return [np.array([float(moment)]) for moment in moments]


def spread(kind: AggregateKind) -> tuple[Aggregate, list[Measure]]:
    center = lattice_for((-2.0, 3.5), False, 1)
    measured = [
        Measure(MeasureKind.CENTERED_SUM, lattice=center),
        Measure(MeasureKind.VALUES),
        Measure(MeasureKind.CENTERED_SQUARES, lattice=center.squares(1)),
    ]
    return Aggregate(kind, (0, 1, 2), kind.value.name), measured


@pytest.mark.parametrize("kind", SPREADS)
def test_spreads_are_those_of_the_values_without_noise(kind: AggregateKind) -> None:
    values = np.random.default_rng(1).uniform(-2, 3.5, 50)
    aggregate, measured = spread(kind)
    parts = parts_of(values, measured[0], measured[2])
    assert estimate(aggregate, measured, parts)[0] == pytest.approx(SPREADS[kind](values), rel=1e-9)


@pytest.mark.parametrize("kind", SPREADS)
def test_spreads_stay_within_what_the_bounds_allow_whatever_the_noise(kind: AggregateKind) -> None:
    aggregate, measured = spread(kind)
    noise = np.random.default_rng(2).normal(0, 1000, (3, 500))
    found = estimate(aggregate, measured, list(noise))
    most = (5.5 / 2) ** 2 * (2 if kind.name.endswith("SAMP") else 1)
    assert found.min() >= 0
    assert found.max() <= (math.sqrt(most) if kind.name.startswith("STDDEV") else most) + 1e-12
    assert estimate(aggregate, measured, [np.zeros(1)] * 3)[0] >= 0


@pytest.mark.parametrize(
    ("aggregate", "instead"),
    [
        ("corr(x, i, max_error => 3)", "AVG(x * y) - AVG(x) * AVG(y)"),
        ("bool_or(x)", "COUNT_IF(x > 100, max_error => 20)"),
        ("mode(s, i)", "ORDER BY n DESC LIMIT 1"),
        ("any_value(s) RESPECT NULLS", "ORDER BY n DESC LIMIT 1"),
        ("string_agg(s, ',')", "STRING_AGG(DISTINCT x"),
        ("arg_max(s, x)", "MAX(x)"),
        ("bit_xor(i)", "Available: COUNT"),
    ],
)
def test_a_refused_aggregate_names_what_to_ask_instead(aggregate: str, instead: str) -> None:
    with fails_with("aggregate_not_supported") as refused:
        measures(aggregate)
    assert instead in (refused.value.hint or "")


@pytest.mark.slow
def test_a_composed_aggregate_is_one_entry_and_one_estimate() -> None:
    """No other module asks which one it is, so that another is added in these two."""
    package = Path(__file__).parents[2] / "dpsql"
    entry, formula = package / "ir" / "measures.py", package / "accuracy" / "estimates.py"
    composed = [kind for kind in AggregateKind if kind.composed]
    assert AggregateKind.AVG in composed
    for kind in composed:
        named = re.compile(rf"AggregateKind\.{kind.name}\b|^    {kind.name} = ", re.MULTILINE)
        found = {path for path in package.rglob("*.py") if named.search(path.read_text("utf-8"))}
        assert found == {entry, formula}
        if not kind.value.nodes:  # what is written as another one, with bounds per group
            continue
        nodes = re.compile("|".join(rf"exp\.{node.__name__}\b" for node in kind.value.nodes))
        # What a unit's rows and released rows may be computed with are lists of their own, and
        # other systems have other names.
        read = {path for path in package.rglob("*.py") if nodes.search(path.read_text("utf-8"))}
        read.discard(package / "sql" / "blocks" / "formulas.py")  # asks for them as analysts do
        assert {path.parent.name for path in read - {entry}} <= {"lineage", "syntax", "tail"}


def test_the_bias_of_a_variance_is_as_documented() -> None:
    """Noise of variance s² on the centred sum takes s²/n² off the variance."""
    values = np.random.default_rng(4).uniform(-2, 3.5, 400)
    aggregate, measured = spread(AggregateKind.VAR_POP)
    exact_parts = parts_of(values, measured[0], measured[2])
    sigma, runs = 200.0, 40_000
    drawn = DiscreteGaussian(sigma).sample(runs, SeededSource(5))
    parts = [exact_parts[0] + drawn, *(np.full(runs, part[0]) for part in exact_parts[1:])]
    found = estimate(aggregate, measured, parts)
    expected = np.var(values) - sigma**2 / 400**2
    assert found.mean() == pytest.approx(expected, abs=7 * found.std() / math.sqrt(runs))
    assert abs(np.var(values) - found.mean()) > 7 * found.std() / math.sqrt(runs)


def test_a_range_of_quotients_and_squares_holds_those_of_all_its_values() -> None:
    rng = np.random.default_rng(6)
    ends = np.sort(rng.normal(0, 2, (2, 200)), axis=0)
    divisors = np.sort(rng.uniform(1, 5, (2, 200)), axis=0)
    one, other = PlausibleRange(*ends), PlausibleRange(*divisors)
    for part in np.linspace(0, 1, 7):
        value = ends[0] + part * (ends[1] - ends[0])
        for share in np.linspace(0, 1, 7):
            divisor = divisors[0] + share * (divisors[1] - divisors[0])
            ratio = one.over(other)
            assert bool((ratio.low - 1e-12 <= value / divisor).all())
            assert bool((value / divisor <= ratio.high + 1e-12).all())
        square = one.squared()
        assert bool(((square.low - 1e-12 <= value**2) & (value**2 <= square.high + 1e-12)).all())


def test_an_average_and_a_spread_of_one_column_share_their_noise() -> None:
    kinds = [m.kind for m in measures("avg(x), stddev(x), var_pop(x), count(*)")]
    assert kinds == [
        MeasureKind.CENTERED_SUM,
        MeasureKind.NUMBERS,
        MeasureKind.CENTERED_SQUARES,
        MeasureKind.ROWS,
    ]


def test_spreads_show_their_noise_where_it_does_not_depend_on_the_data(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        found = connection.explain("SELECT stddev(n), count(DISTINCT s), sum(n) FROM visits")
        spread_of, values, total_of = found.blocks[0].columns
        assert (spread_of.noise_std, spread_of.margin95) == (None, None)
        assert spread_of.noise_scale > 0
        assert values.noise_std is not None
        assert total_of.margin95 is not None


# -- intervals of expressions ---------------------------------------------------------------------

EXPRESSIONS = (
    *(
        "i + x",
        "i - x",
        "-x",
        "i * x",
        "i * i",
        "x * x",
        "(x) * x",
        "2 * i - 3",
        "i / 2",
        "x / 0.5",
    ),
    *("i / m", "x / m", "100 / m", "i // 2", "i // 3", "i % 4", "x % 2.5", "-i % 3", "i % m"),
    *("abs(i)", "abs(x - 1)", "round(x)", "round(x, 1)", "round(i, -1)", "floor(x)", "ceil(x)"),
    *("trunc(x)", "sign(x)", "sqrt(m)", "sqrt(abs(x))", "i ** 2", "pow(x, 3)", "x ** 4"),
    *("CAST(x AS INT)", "x::BIGINT", "CAST(x AS DECIMAL(9, 1))", "i::DOUBLE", "CAST(flag AS INT)"),
    *("coalesce(i, 7)", "coalesce(x, i, 0)", "nullif(i, 2)", "if(flag, i, 9)", "if(flag, x, NULL)"),
    *("CASE WHEN flag THEN i WHEN x > 1 THEN 2 * i END", "CASE a WHEN 1 THEN x ELSE 0.5 END"),
    *("least(i, 2)", "greatest(x, i)", "least(greatest(f, 0), 10)", "greatest(least(f, 5), -5)"),
    *("month(d)", "quarter(d)", "day(d)", "dayofweek(d)", "isodow(d)", "dayofyear(d)", "week(d)"),
    *("hour(ts)", "minute(ts)", "extract(month FROM d)", "extract('hour' FROM ts)"),
    *("extract(dow FROM d)", "f % 7", "(i + x) * (m - i) / 4", "i * m * (1 - x / 4)"),
)
UNBOUNDED = (
    *("f", "a", "f + i", "x / i", "1 / x", "i / (i - m)", "f * 0", "year(d)", "pow(x, i)"),
    *("length(s)", "CAST(s AS INT)", "CASE WHEN flag THEN f ELSE 0 END", "coalesce(f, 0)"),
    *(
        "least(f, 3)",
        "ln(m)",
        "extract(year FROM d)",
        "round(x, i)",
        "x ** 0.5",
        "date_diff('day', d, ts)",
        "extract(day FROM ts - d)",
        "extract(hour FROM ts - ts)",
        "day(CASE WHEN flag THEN ts - d END)",
    ),
)
FREE_NUMBERS = st.sampled_from([0.0, -1e300, 1e300, -7.5, math.inf, -math.inf, None])


def expression(text: str) -> exp.Expr:
    (item,) = parse(f"SELECT {text} FROM r").selects
    return item


PUBLIC = with_truths(RULES.tables["r"], TABLE)
rows_in_bounds = st.tuples(
    st.integers(-3, 5) | st.none(),
    st.floats(-2, 3.5) | st.none(),
    FREE_NUMBERS,
    st.booleans() | st.none(),
    st.decimals(1, 9, places=2),
    st.datetimes() | st.none(),
    st.integers(-9, 9),
)


@pytest.mark.slow
@settings(max_examples=9, deadline=None, derandomize=True, database=None)
@given(st.lists(rows_in_bounds, min_size=10, max_size=40))
def test_expressions_lie_within_the_intervals_that_are_computed_for_them(
    values: list[tuple[Any, ...]],
) -> None:
    LAB.fill(
        [
            row(1, a, i=i, x=x, f=f, flag=flag, m=m, d=None if at is None else at.date(), ts=at)
            for i, x, f, flag, m, at, a in values
        ]
    )
    selected = ", ".join(to_sql(total(expression(text), TABLE, DUCKDB)) for text in EXPRESSIONS)
    for found in LAB.rows(f"SELECT {selected} FROM r"):
        for text, value in zip(EXPRESSIONS, found, strict=True):
            interval = range_of(expression(text), PUBLIC, TABLE)
            assert interval is not None, text
            number = math.nan if value is None else float(value)
            slack = 1e-9 * max(map(abs, interval))
            inside = interval[0] - slack <= number <= interval[1] + slack
            assert inside or math.isnan(number), (text, value, interval)


@pytest.mark.parametrize("text", UNBOUNDED)
def test_expressions_without_public_bounds_have_none(text: str) -> None:
    assert range_of(expression(text), PUBLIC, TABLE) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i * i", (0, 25)),
        ("i * x", (-10.5, 17.5)),
        ("i / 2", (-1.5, 2.5)),
        ("100 / m", (100 / 9, 100)),
        ("abs(i)", (0, 5)),
        ("abs(i + 4)", (1, 9)),
        ("i % 4", (-3, 4)),
        ("f % 4", (-4, 4)),
        ("round(x, 1)", (-2, 3.5)),
        ("floor(x)", (-2, 4)),
        ("month(d)", (1, 12)),
        ("day(d + INTERVAL 1 DAY)", (1, 31)),
        ("extract(hour FROM date_trunc('day', coalesce(ts, ts)))", (0, 23)),
        ("least(greatest(f, 0), 10)", (0, 10)),
        ("coalesce(i, 7)", (-3, 7)),
        ("CAST(flag AS INT)", (0, 1)),
    ],
)
def test_intervals_are_tight(text: str, expected: tuple[float, float]) -> None:
    assert range_of(expression(text), PUBLIC, TABLE) == pytest.approx(expected)


@pytest.mark.parametrize("text", [*EXPRESSIONS, *UNBOUNDED])
def test_types_are_recognised_as_the_engine_has_them(text: str) -> None:
    """Integers are integers to the engine, numbers can be summed, exact ones are never NaN."""
    node = expression(text)
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)
    plain = duckdb.connect()
    plain.execute(f"CREATE TABLE r ({columns})")
    type_ = SqlType.of(str(plain.sql(f"SELECT {text} FROM r").types[0]))
    assert is_integral(node, TABLE) == type_.is_integer
    assert is_number(node, TABLE)
    if is_exact(node, TABLE):
        assert type_.is_integer or type_.is_decimal
    plain.close()


@pytest.mark.parametrize(
    "text", ["s", "d", "flag", "upper(s)", "d + INTERVAL 1 DAY", "s || s", "x > 1", "'a'"]
)
def test_what_is_no_number_is_recognised(text: str) -> None:
    assert not is_number(expression(text), TABLE)


@pytest.mark.slow
def test_values_that_may_be_nan_are_not_counted_by_averages() -> None:
    counted = {
        "i": MeasureKind.VALUES,
        "m": MeasureKind.VALUES,
        "m * 2 - i": MeasureKind.VALUES,
        "x": MeasureKind.NUMBERS,
        "x / 2": MeasureKind.NUMBERS,
        "i / m": MeasureKind.NUMBERS,
        "i ** 2": MeasureKind.NUMBERS,
        "CAST(i AS DOUBLE)": MeasureKind.NUMBERS,
    }
    assert {text: measures(f"avg({text})")[1].kind for text in counted} == counted
    rows = [row(1, 0, f=f) for f in (1.0, math.nan, None, 3.0)]
    found = exact(f"SELECT avg(f, {PER_ROW} => (0, 4)) FROM r", rows)
    assert next(iter(found.values()))[1] == 2


@pytest.mark.slow
def test_released_spreads_and_distinct_counts_come_with_intervals(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        result: dpsql.Result = connection.sql(
            "SELECT k, stddev(n) AS a, count(DISTINCT s) AS b, count_if(n > 3) AS c, avg(x) AS d "
            "FROM visits GROUP BY k ORDER BY a LIMIT 4"
        )
        assert list(result.intervals()) == ["a", "b", "c", "d"]
        for name, interval in result.intervals().items():
            values = [float(r[result.columns.index(name)]) for r in result.fetchall()]
            assert bool((interval.low <= values).all())
            assert bool((values <= interval.high).all())

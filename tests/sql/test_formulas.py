"""Formulas of simpler aggregates: without noise they are what DuckDB computes."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.support import connect
from sqlglot import exp

from dpsql.sql.blocks.formulas import PAIR_FORMULAS, formula_of
from dpsql.syntax.dialect import BoundedAggregate
from dpsql.syntax.parse import parse
from dpsql.syntax.text import to_sql

NAMES = tuple(str(node.sql_name()).lower() for node in PAIR_FORMULAS)
BOUNDS = {"x": (0.0, 10.0), "y": (-90.0, -20.0)}


def formula(aggregate: str, *, bounded: bool = True) -> exp.Expr:
    node = parse(f"SELECT {aggregate} FROM t").selects[0]
    found = formula_of(
        node, lambda value: BOUNDS.get(value.name) if bounded else None, lambda _: True
    )
    assert found is not None
    return found


def world() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("""
        CREATE TABLE t AS SELECT CASE WHEN i % 7 > 0 THEN (i * 37) % 11 * 0.9 END AS x,
        CASE WHEN i % 5 > 0 THEN -80.0 + (i * 17) % 23 + (i * 37) % 11 END AS y, i % 3 AS k
        FROM range(200) r(i)
    """)
    return found


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("condition", ["", " FILTER (WHERE k > 0)"])
@pytest.mark.parametrize(
    "value", ["x", "y", "CASE WHEN k > 0 THEN y END", "x, contribution_bounds_per_row => (0, 10)"]
)
def test_an_average_of_distinct_values_is_a_sum_by_a_number(
    value: str, condition: str, *, bounded: bool
) -> None:
    found = formula(f"avg(DISTINCT {value}){condition}", bounded=bounded)
    for named in list(found.find_all(BoundedAggregate)):
        named.replace(named.this)
    aggregate = f"avg(DISTINCT {value.partition(',')[0]}){condition}"
    row = world().execute(f"SELECT {aggregate}, {to_sql(found)} FROM t").fetchone()
    assert row is not None
    assert row[1] == pytest.approx(row[0], rel=1e-9)


def test_all_aggregates_of_pairs_have_formulas() -> None:
    assert len(NAMES) == 12


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("condition", ["", " FILTER (WHERE k > 0)"])
@pytest.mark.parametrize("name", NAMES)
def test_a_formula_is_the_aggregate_without_noise(
    name: str, condition: str, *, bounded: bool
) -> None:
    aggregate = f"{name}(y, x){condition}"
    text = to_sql(formula(aggregate, bounded=bounded))
    row = world().execute(f"SELECT {aggregate}, {text} FROM t").fetchone()
    assert row is not None
    assert row[1] == pytest.approx(row[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("condition", ["", " FILTER (WHERE k > 0)"])
@pytest.mark.parametrize("value", ["x", "y", "x * x"])
def test_a_moment_of_a_sample_is_of_averages_of_powers(
    value: str, condition: str, *, bounded: bool
) -> None:
    for name in ("skewness", "kurtosis"):
        aggregate = f"{name}({value}){condition}"
        found = formula(aggregate, bounded=bounded)
        for call in list(found.find_all(exp.Anonymous)):
            call.replace(call.expressions[0])
        row = world().execute(f"SELECT {aggregate}, {to_sql(found)} FROM t").fetchone()
        assert row is not None
        assert row[1] == pytest.approx(row[0], rel=1e-6)
        for few in ("LIMIT 2", "WHERE x = 0"):  # too few values, and all of them alike
            text = f"SELECT {to_sql(found)} FROM (FROM t WHERE x IS NOT NULL AND y IS NOT NULL) t"
            if value == "x" and not condition:
                rows = world().execute(text.replace(") t", f" {few.replace('WHERE', 'AND')}) t"))
                assert rows.fetchall() == [(None,)]


@pytest.mark.parametrize(("name", "least"), [("corr", -1.0), ("regr_r2", 0.0)])
@pytest.mark.parametrize("variance", ["1e-9", "0.0", "NULL"])
def test_a_correlation_is_in_its_range_whatever_the_noise(
    name: str, least: float, variance: str
) -> None:
    found = formula(f"{name}(y, x)")
    for node in list(found.find_all(exp.VariancePop)):
        node.replace(exp.maybe_parse(variance))
    row = world().execute(f"SELECT {to_sql(found)} FROM t").fetchone()
    assert row is not None
    assert row[0] is None if variance != "1e-9" else least <= row[0] <= 1.0


def test_a_covariance_of_a_sample_of_one_pair_is_null() -> None:
    text = to_sql(formula("covar_samp(y, x)"))
    assert world().execute(f"SELECT {text} FROM (FROM t WHERE x + y < 0 LIMIT 1) t").fetchall() == [
        (None,)
    ]


def test_a_list_of_fractions_is_a_list_of_quantiles() -> None:
    listed = formula("quantile_cont(x, [0.25, 0.5])")
    assert listed.expressions == [
        parse(f"SELECT quantile_cont(x, {fraction}) FROM t").selects[0]
        for fraction in ("0.25", "0.5")
    ]
    for ordered in ("percentile_cont", "percentile_disc"):
        end = "WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE k > 0)"
        listed = formula(f"{ordered}([0.25, 1]) {end}")
        assert listed.expressions == [
            parse(f"SELECT {ordered}({fraction}) {end} FROM t").selects[0]
            for fraction in ("0.25", "1")
        ]
    equal = formula("approx_quantiles(x, 4)")
    fractions = [node.args["quantile"].name for node in equal.expressions]
    assert fractions == ["0", "0.25", "0.5", "0.75", "1"]


@pytest.mark.parametrize(
    "condition", ["k > 5", "k >= 0", "k < 2", "x > 3", "x IS NULL", "NULLIF(k, k) = 1"]
)
@pytest.mark.parametrize("where", ["", " FILTER (WHERE k > 0)"])
def test_a_condition_of_any_or_all_rows_is_a_count_beyond_noise(condition: str, where: str) -> None:
    """Without noise the end of an interval is the count itself."""
    for name in ("bool_or", "bool_and"):
        found = exp.Paren(this=formula(f"{name}({condition}){where}"))
        for call in list(found.find_all(exp.Anonymous)):
            assert call.name == "dp_interval_low"
            call.replace(exp.func("coalesce", call.expressions[0], exp.Literal.number(0)))
        asked = f"coalesce({name}({condition}){where}, {name == 'bool_and'})"
        row = world().execute(f"SELECT {asked}, {to_sql(found)} FROM t").fetchone()
        assert row is not None
        assert row[0] is row[1]


@pytest.mark.slow
def test_one_row_does_not_decide_a_condition(tmp_path: Path) -> None:
    """It is hidden by noise, whichever way it would decide; many rows are not."""
    rows = "INSERT INTO visits (uid, k, flag) SELECT i, i % 2, i > 500 FROM range(1000) r(i)"
    asked = (
        "SELECT BOOL_OR(k = 1 AND uid = 1), BOOL_AND(uid <> 1), BOOL_OR(flag), BOOL_AND(flag), "
        "EVERY(k < 2), LOGICAL_OR(k > 1), BOOL_AND(flag) FILTER (WHERE uid > 500) FROM visits"
    )
    with connect(tmp_path, rows, max_rows_contributed=1) as ana:
        answer = ana.sql(asked, epsilon=0.5)
        assert answer.types == ["BOOLEAN"] * 7
        assert "COUNT_IF" not in str(answer.columns)
        found = [ana.sql(asked, epsilon=2.0, fresh=True).fetchall()[0] for _ in range(5)]
        expected = (False, True, True, False, True, False, True)
        assert sum(row == expected for row in found) >= 3


@pytest.mark.parametrize(
    "aggregate",
    [
        *("avg(x)", "corr(y, x, contribution_bounds_per_row => (0, 1))"),
        *("approx_quantiles(x, 3)", "approx_quantiles(x, 1000)", "quantile_cont(x, [])"),
        *("bool_or(x)", "bool_or(DISTINCT x > 1)"),
        f"quantile_cont(x, [{', '.join(['0.5'] * 101)}])",
    ],
)
def test_other_aggregates_have_no_formula(aggregate: str) -> None:
    node = parse(f"SELECT {aggregate} FROM t").selects[0]
    assert formula_of(node, lambda _: None, lambda _: False) is None


@pytest.mark.slow
def test_aggregates_of_formulas_count_one_by_one(tmp_path: Path) -> None:
    """A limit on those that are written would let formulas ask for many more."""
    some = [f"corr(n, x) FILTER (WHERE k > {n})" for n in range(30)]
    with connect(tmp_path) as ana:
        assert "CASE WHEN" in str(ana.explain(f"SELECT {some[0]} FROM visits"))
        with fails_with("query_too_large"):
            ana.explain(f"SELECT {', '.join(some)} FROM visits")

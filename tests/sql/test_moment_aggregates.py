# ruff: noqa: E501
"""MIN, MAX, quantiles and averages of dates and timestamps: numbers below, moments above."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.present import present
from helpers.support import Planned, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.core.schema import Table, schema_of
from dpsql.core.sql_types import DATE, TIMESTAMP, SqlType
from dpsql.ir.plan import BlockPlan
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.sql.blocks.moments import MomentAnswer
from dpsql.sql.expressions.moments import moment_type
from dpsql.syntax.parse import parse

COLUMNS = (
    ("u", "BIGINT"),
    ("k", "INTEGER"),
    ("d", "DATE"),
    ("t", "TIMESTAMP"),
    ("z", "TIMESTAMP WITH TIME ZONE"),
    ("near", "DATE"),
    ("s", "VARCHAR"),
)
SCHEMA = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
NEAR = ColumnPolicy(datetime.date(2020, 1, 1), datetime.date(2030, 1, 1))
RULES = Policy(
    "moments",
    accounts={"a": AccountPolicy("a", 1e6, 1e-3)},
    tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), {"near": NEAR})},
)
DAYS = "date_diff('day', DATE '1970-01-01', {})"
FIRST, LAST = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days, 21915


def prepared(sql: str, **parameters: Any) -> Planned:
    usual: dict[str, Any] = {"max_rows_contributed": 3, "max_groups_contributed": 2}
    return planned(sql, SCHEMA, RULES, **(usual | parameters))


def found(sql: str) -> BlockPlan:
    return prepared(sql, bounds=[FoundBounds(values=((-8.0, 2.0**31),))]).plans[0]


def bounds_of(sql: str) -> tuple[float, float]:
    (quantile,) = prepared(sql).plans[0].block.quantiles
    return quantile.ranked.lattice.lower, quantile.ranked.lattice.upper


@pytest.mark.parametrize(
    ("moments", "numbers"),
    [
        ("max(d)", f"max({DAYS.format('d')})"),
        ("min(t)", "min(epoch(t))"),
        ("median(z)", "median(epoch(z))"),
        ("max(d) FILTER (WHERE k > 1)", f"max({DAYS.format('d')}) FILTER (WHERE k > 1)"),
        ("quantile_disc(t, 0.25)", "quantile_disc(epoch(t), 0.25)"),
        (
            "percentile_disc(0.9) WITHIN GROUP (ORDER BY d DESC)",
            f"percentile_disc(0.9) WITHIN GROUP (ORDER BY {DAYS.format('d')} DESC)",
        ),
        ("max(d + INTERVAL 1 DAY)", "max(epoch(d + INTERVAL 1 DAY))"),
        ("max(CAST(s AS DATE))", f"max({DAYS.format('CAST(s AS DATE)')})"),
        ("max(t - d)", "max(epoch(t - d))"),
        ("avg(t - TIMESTAMP '2020-01-01')", "avg(epoch(t - TIMESTAMP '2020-01-01'))"),
        ("median(near - d)", "median(near - d)"),  # days between dates are a number
    ],
)
def test_a_moment_is_the_number_of_the_same_question(moments: str, numbers: str) -> None:
    one, other = (found(f"SELECT k, {each} FROM r GROUP BY k") for each in (moments, numbers))
    assert one.block.quantiles == other.block.quantiles
    assert one.quantiles == other.quantiles
    assert one.block.measures == other.block.measures


@pytest.mark.parametrize("sum_of", ["t - d", "z - z", "s - t", "d - t", "k - d", "-d"])
def test_only_numbers_are_summed(sum_of: str) -> None:
    with fails_with("not_numeric"):
        prepared(f"SELECT sum({sum_of}) FROM r")


@pytest.mark.parametrize(
    "between", ["t - d", "max(t) - min(t)", "t - LAG(t) OVER (PARTITION BY u ORDER BY d)"]
)
def test_an_interval_of_a_subquery_is_the_time_between(between: str) -> None:
    """It was refused, with a cast for a hint that no engine has, of a name that nobody wrote."""
    grouped = "GROUP BY u" if "max" in between else ""
    asked = "SELECT {} FROM (SELECT u, " + between + f" AS gap FROM r {grouped})"
    for aggregate in ("median", "max", "avg"):
        one = found(asked.format(f"{aggregate}(gap)"))
        other = found(asked.format(f"{aggregate}(epoch(gap))"))
        assert one.block.measures == other.block.measures
        assert one.block.quantiles == other.block.quantiles
    with fails_with("not_numeric") as refused:
        prepared(asked.format("sum(gap)"))
    assert "epoch(gap)" in str(refused.value)


@pytest.mark.slow
def test_the_time_between_is_an_interval(tmp_path: Path) -> None:
    """As DuckDB's own at zero noise; it was once taken for a number, and answered as 0."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE r AS SELECT i AS u, TIMESTAMP '2024-01-01' + to_hours(CAST(i % 7 AS INT)) "
            "AS a, TIMESTAMP '2024-03-01' + to_days(CAST(i % 5 AS INT)) AS b FROM range(5000) t(i)"
        )
        true = owner.execute("SELECT avg(b - a), median(b - a) FROM r").fetchall()[0]
    policy = dpsql.parse_policy(
        "{version: 1, dataset: d, defaults: {epsilon: 8.0, delta: 1e-8}, "
        "accounts: {ana: {epsilon: 100, delta: 1e-5}}, tables: {r: {privacy_unit: u}}}"
    )
    with dpsql.connect(tmp_path / "t.duckdb", policy, tmp_path / "b.db", "ana") as connection:
        ((average, middle),) = connection.sql("SELECT AVG(b - a), MEDIAN(b - a) FROM r").fetchall()
    for mine, its in zip((average, middle), true, strict=True):
        assert abs(mine - its) < datetime.timedelta(days=2)


@pytest.mark.parametrize(
    ("sql", "bounds"),
    [
        ("SELECT max(near) FROM r", (FIRST, LAST)),
        ("SELECT max(near) FROM r WHERE near < '2020-01-11'", (FIRST, FIRST + 9)),
        ("SELECT max(d) FROM r WHERE d BETWEEN '2020-01-01' AND DATE '2020-01-05'", (FIRST, FIRST + 4)),
        ("SELECT max(t) FROM r WHERE t >= '2020-01-01' AND t <= '2020-01-01 12:00:00' AND k = 1", (FIRST * 86400, FIRST * 86400 + 43200)),
        ("SELECT max(d, contribution_bounds_per_row => (DATE '2020-01-01', '2020-01-02 03:00:00')) FROM r", (FIRST, FIRST + 2)),
        ("SELECT max(z, contribution_bounds_per_row => ('1969-12-31', TIMESTAMP '1970-01-01 00:00:01')) FROM r", (-86400, 1)),
        ("SELECT max(date_diff('day', near, DATE '2020-01-01')) FROM r", (FIRST - LAST, 0)),
    ],
)  # fmt: skip
def test_bounds_are_declared_or_left_by_conditions_or_given(
    sql: str, bounds: tuple[float, float]
) -> None:
    assert bounds_of(sql) == bounds


def test_one_end_that_a_condition_leaves_limits_what_is_found() -> None:
    plan = found("SELECT max(t) FROM r WHERE t >= TIMESTAMP '2020-01-01 00:00:00'")
    (quantile,) = plan.block.quantiles
    assert (quantile.ranked.lattice.lower, quantile.ranked.lattice.upper) == (
        FIRST * 86400,
        2.0**31,
    )
    assert quantile.ranked.bits is None
    assert 2**18 < quantile.ranked.points <= 2**20 + 2


@pytest.mark.parametrize(
    ("aggregate", "code"),
    [
        ("avg(d)", "unbounded_sum"),
        ("sum(d)", "not_numeric"),
        ("variance(t)", "not_numeric"),
        ("max(s)", "not_numeric"),
        ("max(CASE WHEN k > 1 THEN d ELSE t END)", "not_numeric"),
        ("max(d, contribution_bounds_per_row => (0, 1))", "bad_bounds"),
        ("max(d, contribution_bounds_per_row => (DATE '2020-01-01', 'soon'))", "bad_bounds"),
        ("max(d, contribution_bounds_per_row => (DATE '2020-01-02', DATE '2020-01-01'))", "bad_bounds"),
        ("max(k, contribution_bounds_per_row => (DATE '2020-01-01', DATE '2020-01-02'))", "bad_bounds"),
        ("max(d, contribution_bounds_per_group => (DATE '2020-01-01', DATE '2020-01-02'))", "bad_bounds"),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused(aggregate: str, code: str) -> None:
    with fails_with(code):
        found(f"SELECT {aggregate} FROM r")


@pytest.mark.parametrize(
    "expression",
    [
        *("d", "t", "z", "(d)", "CAST(t AS DATE)", "CAST(s AS TIMESTAMP)", "d + 1", "d - k"),
        *("d + INTERVAL 1 DAY", "t - INTERVAL 1 HOUR", "INTERVAL 1 DAY + t", "last_day(t)"),
        *("make_date(k, 1, 1)", "COALESCE(d, near)", "LEAST(t, TIMESTAMP '2020-01-01')"),
        *("CASE WHEN k > 1 THEN d END", "CASE WHEN k > 1 THEN t ELSE NULL END"),
        *("date_trunc('month', t)", "time_bucket(INTERVAL 1 DAY, d)", "NULLIF(d, near)"),
        *("k", "s", "d - near", "t - t", "epoch(t)", "year(d)", "k + 1", "upper(s)", "d > near"),
    ],
)
def test_types_are_those_of_the_engine(expression: str) -> None:
    tree = parse(f"SELECT {expression} FROM r").expressions[0]
    for cast in tree.find_all(exp.Column):
        cast.args["this"].set("quoted", True)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")
        told = connection.sql(f"SELECT {expression} FROM r").types[0]
    type_ = SqlType.of(str(told))
    expected = type_ if type_.is_moment else None
    assert moment_type(tree, SCHEMA["r"]) == expected


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.sampled_from([(True, DATE), (True, TIMESTAMP), (False, TIMESTAMP)]),
    st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1) | st.none(),
)
def test_every_released_number_is_a_moment_of_the_calendar(
    answer: tuple[bool, SqlType], value: float | None
) -> None:
    days, type_ = answer
    written = MomentAnswer(days, type_).of("a").sql("duckdb")
    with duckdb.connect() as connection:
        kind = "BIGINT" if isinstance(value, int) else "DOUBLE"
        ((moment,),) = connection.execute(
            f"SELECT {written} FROM (SELECT ?::{kind}) v(a)", [value]
        ).fetchall()
    if value is None:
        assert moment is None
    else:
        assert type(moment) is (datetime.date if type_ == DATE else datetime.datetime)
        since = moment - (
            datetime.date(1970, 1, 1) if type_ == DATE else datetime.datetime(1970, 1, 1)
        )
        wanted = value * (86400 if days else 1)
        if abs(wanted) < 1e9:
            exact = math.isclose(since.total_seconds(), wanted, abs_tol=1e-5)
            assert exact or (type_ == DATE and abs(since.total_seconds() - wanted) <= 86400)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with duckdb.connect(str(tmp_path / "r.duckdb")) as writer:
        writer.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")
        writer.execute(
            "INSERT INTO r SELECT n, n % 2, DATE '2024-01-01' + n::INT % 100, TIMESTAMP '2024-01-01' "
            "+ INTERVAL (n % 100) DAY, TIMESTAMP '2024-01-01' + INTERVAL (n % 100) DAY, DATE "
            "'2024-01-01' + n::INT % 100, NULL FROM range(20000) t(n)"
        )
        writer.execute(
            "INSERT INTO r VALUES (-1, 0, 'infinity', 'infinity', '-infinity', NULL, '')"
        )
    with dpsql.connect(
        tmp_path / "r.duckdb", RULES, tmp_path / "b.db", "a", epsilon=1000.0, max_rows_contributed=1
    ) as opened:
        yield opened


@pytest.mark.slow
def test_answers_are_moments_near_the_true_ones(connection: dpsql.Connection) -> None:
    given = "contribution_bounds_per_row => (DATE '2023-01-01', DATE '2025-01-01')"
    answer = connection.sql(
        f"SELECT min(near) AS a, max(near) AS b, max(t, {given}) AS c, avg(z, {given}) AS d, "
        f"median(d, {given}) AS e, max(near) - min(near) AS f FROM r"
    )
    assert answer.types == [
        "DATE",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP",
        "BIGINT",
    ]
    ((low, high, latest, average, middle, days),) = answer.fetchall()
    one = datetime.timedelta(days=1)
    assert abs(low - datetime.date(2024, 1, 1)) <= one
    assert abs(high - datetime.date(2024, 4, 9)) <= one
    assert days == (high - low).days
    assert abs(latest - datetime.datetime(2024, 4, 9)) <= one
    assert abs(average.replace(tzinfo=None) - datetime.datetime(2024, 2, 19, 12)) <= one
    assert abs(middle - datetime.datetime(2024, 2, 20)) <= one
    assert present(connection.explain("SELECT max(near) FROM r").blocks[0].columns[0].beyond) > 0


@pytest.mark.slow
def test_a_moment_stands_in_a_statement_as_a_constant(connection: dpsql.Connection) -> None:
    sql = "SELECT count(*) FROM r WHERE near >= (SELECT max(near) FROM r) - INTERVAL 9 DAY"
    ((rows,),) = connection.sql(sql).fetchall()
    assert 1400 <= rows <= 2400

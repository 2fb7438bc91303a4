# ruff: noqa: E501
"""Subqueries that are answered before the statement around them, each at its own price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, TABLES, connect, policy, world_file

import dpsql
from dpsql.errors import BudgetExceeded
from dpsql.pipeline.prepare import Prepared, Preparer
from dpsql.policy.model import AccountPolicy
from dpsql.results.caveats import CaveatKind

PRIVATE = [
    "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits)",
    "SELECT k, COUNT(*) FROM visits WHERE n + 1 >= (SELECT AVG(n) FROM visits WHERE flag) * 2 GROUP BY k ORDER BY k",
    "SELECT s, COUNT(*) FROM visits WHERE s IN (SELECT s FROM visits WHERE k > 1 GROUP BY s ORDER BY COUNT(*) DESC, s LIMIT 2) GROUP BY s ORDER BY s",
    "SELECT s, COUNT(*) FROM visits WHERE s NOT IN (SELECT s FROM visits WHERE n > 3 GROUP BY s HAVING COUNT(*) > 151) GROUP BY s ORDER BY s",
    "WITH t AS (SELECT k, COUNT(*) AS c FROM visits GROUP BY k ORDER BY k LIMIT 3) SELECT visits.k, t.c, SUM(n) FROM visits JOIN t ON visits.k = t.k GROUP BY ALL ORDER BY ALL",
    "WITH t AS (SELECT k, COUNT(*) AS c FROM visits GROUP BY k HAVING k < 2) SELECT CASE WHEN k IN (SELECT k FROM t) THEN k ELSE -1 END AS g, COUNT(*) FROM visits GROUP BY 1 ORDER BY 1",
    "WITH m AS (SELECT AVG(n) AS mu FROM visits) SELECT COUNT(*) FROM visits, m WHERE ABS(n - mu) > 6",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT flag AS f, AVG(n) AS a FROM visits GROUP BY flag) t ON v.flag = t.f AND v.n < t.a",
    "SELECT SUM(CASE WHEN n > (SELECT AVG(x) FROM visits) THEN 1 ELSE 0 END) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits WHERE n < (SELECT AVG(n) FROM visits))",
    "SELECT COUNT(*) FROM visits WHERE d > (SELECT '2024-01-20'::DATE) AND n > (SELECT AVG(n) FROM visits)",
]
PUBLIC = [
    "SELECT COUNT(*) FROM visits WHERE k = (SELECT MAX(k) FROM shops)",
    "SELECT COUNT(*) FROM visits WHERE k = (SELECT k FROM shops WHERE name = 'shop 3')",
    "SELECT COUNT(*) FROM visits WHERE k = (SELECT k FROM shops WHERE name = 'none')",
    "SELECT COUNT(*) FROM visits WHERE k IN (SELECT k FROM shops ORDER BY size DESC LIMIT 2)",
    "SELECT COUNT(*) FROM visits WHERE k NOT IN (SELECT MIN(k) FROM shops GROUP BY size // 30)",
    "WITH r AS (SELECT k, RANK() OVER (ORDER BY size DESC) AS place FROM shops) SELECT place, COUNT(*) FROM visits JOIN r USING (k) GROUP BY place ORDER BY place",
    "SELECT large, COUNT(*) FROM visits JOIN (SELECT size > 30 AS large, MAX(k) AS k FROM shops GROUP BY 1) t USING (k) GROUP BY large ORDER BY large",
    "SELECT COUNT(*) FROM visits v LEFT JOIN (SELECT k, name FROM shops ORDER BY size LIMIT 3) t ON t.k = v.k WHERE t.name IS NULL",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM shops GROUP BY size HAVING size > 40)",
    "SELECT COUNT(*) FROM visits WHERE n > (SELECT n FROM visits WHERE false)",
    "WITH a AS (SELECT 2 AS k) SELECT COUNT(*) FROM visits WHERE k = (WITH b AS (SELECT MAX(k) + 1 AS k FROM a) SELECT k FROM b)",
    "WITH shops AS (SELECT 3 AS k), t AS (SELECT MAX(k) AS k FROM shops) SELECT COUNT(*) FROM visits WHERE k = (SELECT k FROM t)",
    "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 4) SELECT COUNT(*) FROM visits WHERE k IN (SELECT i FROM t)",
    "SELECT COUNT(*) FROM visits JOIN (SELECT k, COUNT(*) AS c FROM visits GROUP BY k LIMIT 0) t USING (k)",
    "SELECT COUNT(*) FROM visits WHERE k NOT IN (SELECT k FROM visits GROUP BY k LIMIT 0)",
    "SELECT COUNT(*) FROM visits WHERE k NOT IN (SELECT k FROM shops UNION ALL SELECT NULL ORDER BY k LIMIT 3)",
    "SELECT COUNT(*) FROM visits WHERE x > (SELECT 0.12345678901234567890123456789012345678::DECIMAL(38,38))",
    "SELECT COUNT(*) FROM visits WHERE big < (SELECT SUM(size) FROM shops)",
    "SELECT COUNT(*) FROM visits WHERE x < (SELECT 'nan'::DOUBLE) AND wide < (SELECT 'inf'::DOUBLE) AND x > (SELECT '-inf'::FLOAT)",
    "SELECT COUNT(*) FROM visits WHERE s > (SELECT 's''1\"; --' || chr(0)) AND flag = (SELECT true)",
    "SELECT COUNT(*) FROM visits LEFT JOIN (SELECT k, NULLIF(MAX(size), MAX(size)) AS no FROM shops GROUP BY k) t USING (k) WHERE no IS NULL",
    "SELECT COUNT(*) FROM visits WHERE COALESCE((SELECT MAX(size) FROM shops WHERE size < 0), n) > 3 AND NOT (n > (SELECT n FROM visits WHERE false) AND n < -9)",
    "SELECT COUNT(*) FROM visits WHERE n IN (SELECT NULLIF(k, k) FROM shops LIMIT 1) OR s = (SELECT MAX(name) FROM shops WHERE size < 0) OR n > 3",
    "SELECT COUNT(*) FROM visits WHERE ts > (SELECT TIMESTAMPTZ '2024-01-07 03:00:00+02')",
]


# PostgreSQL's rows of a SELECT without a FROM, and what DuckDB writes for them.
SERIES = {
    "WITH g AS (SELECT generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 week') AS m) SELECT m, COUNT(v.k) FROM g LEFT JOIN visits v ON v.d >= m GROUP BY m ORDER BY m": "SELECT m, COUNT(v.k) FROM generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 week') g(m) LEFT JOIN visits v ON v.d >= m GROUP BY m ORDER BY m",
    "SELECT m, COUNT(v.k) FROM (SELECT generate_series('2024-01-01'::date, '2024-02-01'::date, '1 week'::interval)::date) t(m) LEFT JOIN visits v ON v.d >= m GROUP BY m ORDER BY m": "SELECT m, COUNT(v.k) FROM (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 week'))::DATE AS m) LEFT JOIN visits v ON v.d >= m GROUP BY m ORDER BY m",
    "WITH g AS (SELECT generate_series(1, 3)) SELECT generate_series, COUNT(*) FROM g JOIN visits ON k = generate_series GROUP BY ALL ORDER BY ALL": "SELECT g, COUNT(*) FROM generate_series(1, 3) t(g) JOIN visits ON k = g GROUP BY ALL ORDER BY ALL",
    "SELECT COUNT(*) FROM visits WHERE k IN (SELECT generate_series(1, 3))": "SELECT COUNT(*) FROM visits WHERE k IN (1, 2, 3)",
    "SELECT COUNT(*) FROM visits WHERE k IN (SELECT generate_series(1, 9) AS g ORDER BY g DESC LIMIT 4)": "SELECT COUNT(*) FROM visits WHERE k IN (6, 7, 8, 9)",
    "SELECT COUNT(*) FROM visits WHERE k = (SELECT len(generate_series(1, 3)))": "SELECT COUNT(*) FROM visits WHERE k = 3",
    "SELECT m[2], n FROM (SELECT generate_series(1, 4) AS m), (SELECT COUNT(*) AS n FROM visits)": "SELECT 2, COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE s <> (SELECT generate_series(1, 4)::VARCHAR)": "SELECT COUNT(*) FROM visits WHERE s <> '[1, 2, 3, 4]'",
}


def plain(sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(":memory:") as engine:
        for statement in (*TABLES.values(), *FILL):
            engine.execute(statement)
        return engine.execute(sql).fetchall()


@pytest.mark.slow
@pytest.mark.usefixtures("discovered_keys")
@pytest.mark.parametrize("sql", [*PRIVATE, *PUBLIC])
def test_without_noise_the_answer_is_that_of_duckdb(
    sql: str, tmp_path: Path, no_noise: None
) -> None:
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        answer = con.sql(sql)
        found = [tuple(map(float_or_self, row)) for row in answer.fetchall()]
        assert found == [tuple(map(float_or_self, row)) for row in plain(sql)]
        told = [caveat.kind for caveat in answer.warnings]
        assert (CaveatKind.ANSWERED_FIRST in told) == (sql in PRIVATE)
        again = con.sql(sql)
        assert again.fetchall() == answer.fetchall()
        assert again.cost.settled.rho == 0


@pytest.mark.slow
@pytest.mark.parametrize("sql", SERIES)
def test_a_series_beside_private_rows_is_rows_and_a_list_elsewhere(
    sql: str, tmp_path: Path, no_noise: None
) -> None:
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        assert con.sql(sql).fetchall() == plain(SERIES[sql])


def float_or_self(value: object) -> object:
    return round(float(value), 6) if isinstance(value, int | float) else value


@pytest.mark.slow
def test_all_prices_are_told_beforehand_and_add_up(tmp_path: Path) -> None:
    sql = PRIVATE[0]
    with connect(tmp_path) as con:
        told = con.explain(sql)
        alone = [
            con.explain("SELECT AVG(n) FROM visits"),
            con.explain("SELECT COUNT(*) FROM visits WHERE n > 1.5"),
        ]
        assert told.answers_first == 1
        assert [block.table for block in told.blocks] == ["visits", "visits"]
        assert told.reserved.rho == pytest.approx(sum(each.reserved.rho for each in alone))
        assert con.budget().queries == 0
        cost = con.sql(sql).cost
        assert cost.settled.rho <= cost.reserved.rho
        spent = con.budget().rho_spent
        assert cost.settled.rho == pytest.approx(spent)
        assert con.sql("SELECT AVG(n) FROM visits").cost.stored, "it is a question like any other"


@pytest.mark.slow
def test_what_the_account_cannot_pay_in_whole_is_refused_before_it_is_begun(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits)"
    with connect(tmp_path, epsilon=1.0) as con:
        whole = con.explain(sql).reserved.rho
    rules = replace(policy(None), accounts={ANALYST: AccountPolicy(ANALYST, 1.2, 1e-6)})
    with (
        world_file(tmp_path / "other.duckdb", *FILL) as path,
        dpsql.connect(path, rules, tmp_path / "other.db", ANALYST, epsilon=1.0) as con,
    ):
        with pytest.raises(BudgetExceeded):
            con.sql(sql)
        assert con.budget().queries == 0
        assert (
            con.sql("SELECT AVG(n) FROM visits").cost.settled.rho > whole / 4
        )  # it could pay for one


@pytest.mark.slow
def test_a_refused_statement_has_no_subquery_answered(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        for sql, code in (
            ("SELECT uid FROM visits WHERE n > (SELECT AVG(n) FROM visits)", "raw_rows"),
            (
                "SELECT COUNT(*), nothing FROM visits WHERE n > (SELECT AVG(n) FROM visits)",
                "unknown_column",
            ),
            (
                "SELECT COUNT(*) FROM visits v WHERE n > (SELECT AVG(n) FROM visits w WHERE w.k < v.k)",
                "subquery_over_private_rows",
            ),
            (
                "SELECT COUNT(*) FROM visits WHERE n > (SELECT n FROM visits)",
                "subquery_over_private_rows",
            ),
            (
                "SELECT COUNT(*) FROM visits WHERE n > (SELECT v FROM secret)",
                "subquery_over_private_rows",
            ),
            ("SELECT COUNT(*) FROM visits WHERE k = (SELECT k FROM shops)", "several_rows"),
            ("SELECT COUNT(*) FROM visits WHERE s = (SELECT AVG(n) FROM visits)", "text_compared"),
            (
                "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n), 1 FROM visits)",
                "several_rows",
            ),
            (
                "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits GROUP BY k)",
                "several_rows",
            ),
            (
                "SELECT COUNT(*) FROM visits WHERE s = (SELECT 's1'::BLOB)",
                "subquery_over_private_rows",
            ),
        ):
            with fails_with(code):
                con.sql(sql)
        assert con.budget().queries == 0


@pytest.mark.slow
def test_too_many_rows_are_refused_and_what_was_released_is_kept(
    tmp_path: Path, no_noise: None
) -> None:
    first = "SELECT big AS b, n AS m, COUNT(*) AS c FROM visits GROUP BY big, n"
    with connect(tmp_path, max_groups_contributed=2000) as con:
        with fails_with("query_too_large"):
            con.sql(f"SELECT COUNT(*) FROM visits JOIN ({first}) t ON big = t.b")
        assert con.sql(first).cost.stored
        with fails_with("query_too_large"):
            con.sql(
                "SELECT COUNT(*) FROM visits JOIN (SELECT a.k, a.size FROM shops a, shops b, shops c, shops d LIMIT 500) t USING (k)"
            )


@pytest.mark.slow
def test_what_has_no_rows_pays_for_no_subquery(tmp_path: Path) -> None:
    asked = "SELECT COUNT(*) AS c FROM visits WHERE n > (SELECT AVG(n) FROM visits)"
    with connect(tmp_path) as con:
        for sql in (f"{asked} LIMIT 0", f"SELECT * FROM ({asked}) WHERE 1 = 0"):
            assert not con.explain(sql).blocks
            answer = con.sql(sql)
            assert (answer.columns, answer.fetchall()) == (["c"], [])
        assert con.budget().queries == 0


@pytest.mark.slow
def test_what_is_released_only_pays_for_no_subquery(tmp_path: Path) -> None:
    only = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (answer_from = released)"
    with connect(tmp_path) as con:
        for sql in (
            f"{only} COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits)",
            f"SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits) AND n > ({only} AVG(x) FROM visits)",
        ):
            with fails_with("nothing_released"):
                con.sql(sql)
        assert con.budget().queries == 0


@pytest.mark.slow
def test_what_was_answered_is_free_and_told_so(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits WHERE x > (SELECT AVG(x) FROM visits))"
    with connect(tmp_path) as con:
        assert con.explain(sql).answered is None
        con.sql(sql)
        told = con.explain(sql)
        assert told.answered is not None
        assert told.answers_first == 0


@pytest.mark.slow
def test_subqueries_in_subqueries_are_planned_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, plan = [], Preparer._planned

    def counted(*arguments: Any) -> Prepared:
        planned.append(arguments)
        return plan(*arguments)

    monkeypatch.setattr(Preparer, "_planned", counted)
    sql = "SELECT AVG(n) FROM visits"
    for _ in range(6):
        sql = f"SELECT AVG(n) FROM visits WHERE n > ({sql})"
    with connect(tmp_path) as con:
        assert len(con.explain(sql).blocks) == 7
    assert len(planned) <= 2 * 7


@pytest.mark.slow
def test_today_in_a_public_subquery_is_another_day_tomorrow(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE d < (SELECT MAX(CURRENT_DATE) FROM shops)"
    with connect(tmp_path) as con:
        assert "today is" in con.explain(sql).clock


def test_a_subquery_has_options_of_its_own(tmp_path: Path) -> None:
    cheap = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) AVG(n) FROM visits"
    with connect(tmp_path) as con:
        told = con.explain(f"SELECT COUNT(*) FROM visits WHERE n > ({cheap})")
        alone = [con.explain(cheap), con.explain("SELECT COUNT(*) FROM visits")]
        assert told.reserved.rho == pytest.approx(sum(each.reserved.rho for each in alone))


def test_a_view_is_made_of_no_first_answers(tmp_path: Path) -> None:
    with connect(tmp_path) as con, fails_with("no_view"):
        con.sql(
            "CREATE MATERIALIZED VIEW v WITH (step = '1 day', steps = 3, start = '2024-01-01') AS SELECT COUNT(*) FROM visits WHERE n > (SELECT AVG(n) FROM visits)"
        )

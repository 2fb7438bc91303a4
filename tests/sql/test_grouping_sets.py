# ruff: noqa: E501
"""ROLLUP, CUBE and GROUPING SETS: the rows DuckDB gives, one priced release for each set."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.support import FILL, TABLES, connect, planned, policy
from test_sql import SCHEMA

QUESTIONS = [
    "SELECT k, s, COUNT(*) AS n FROM visits GROUP BY ROLLUP (k, s)",
    "SELECT k, s, COUNT(*) AS n FROM visits GROUP BY CUBE (k, s)",
    "SELECT s, flag, COUNT(DISTINCT uid) FROM visits GROUP BY GROUPING SETS ((s, flag), (s), ())",
    "SELECT k % 3, flag, SUM(n) FROM visits GROUP BY k % 3, ROLLUP (flag)",
    "SELECT k AS key, COUNT(*) AS n FROM visits v GROUP BY ROLLUP (key)",
    "SELECT v.k, COUNT(*) AS n FROM visits v GROUP BY ROLLUP (k)",
    "SELECT k, flag, COUNT(*) FROM visits GROUP BY 1, CUBE (2)",
    "SELECT k, s, GROUPING(k), GROUPING(k, s) AS g, COUNT(*) FROM visits GROUP BY CUBE (k, s)",
    "SELECT k, COUNT(*) AS n FROM visits GROUP BY ROLLUP (k) HAVING COUNT(*) > 171",
    "SELECT k, COUNT(*) AS n FROM visits GROUP BY ROLLUP (k) HAVING COUNT(*) > (SELECT COUNT(*) / 7 FROM visits)",
    "SELECT k, COUNT(*) AS n, (SELECT COUNT(*) FROM visits WHERE flag) AS w FROM visits GROUP BY ROLLUP (k)",
    "SELECT k, s, COUNT(*) FROM visits GROUP BY CUBE (k, s) HAVING COUNT(*) > (SELECT max(n) / 7 FROM (SELECT flag, COUNT(*) AS n FROM visits GROUP BY ROLLUP (flag)))",
    "SELECT k, COUNT(*) FROM visits GROUP BY ROLLUP (k) HAVING k IN (SELECT n FROM visits GROUP BY n UNION SELECT size FROM shops)",
    # names of select items that are columns too
    "SELECT k, COUNT(*) AS n FROM visits GROUP BY ROLLUP (k) HAVING n > 171",
    "SELECT k % 2 AS k, COUNT(*) FROM visits GROUP BY ROLLUP (k)",
    "SELECT k % 2 AS k, COUNT(*) FROM visits GROUP BY GROUPING SETS ((k), (1))",
    "SELECT s, k % 2 AS k, COUNT(*) FROM visits GROUP BY CUBE (s, k) HAVING k > 3",
    "SELECT s, k AS n, COUNT(*) FROM visits GROUP BY CUBE (s, k) HAVING n > 3",
    "SELECT s, k % 2 AS j, COUNT(*) FROM visits GROUP BY ROLLUP (s, j) HAVING j > 0",
    "SELECT k % 2 AS a, k, COUNT(*) FROM visits GROUP BY GROUPING SETS ((k % 2, k), (k % 2), (k))",
    "SELECT k, s, COUNT(*) FROM visits GROUP BY GROUPING SETS (ROLLUP (k, s), (s))",
    "SELECT k, s, COUNT(*) FROM visits GROUP BY ROLLUP ((k, s))",
    "SELECT k, s, COUNT(*) AS n FROM visits WHERE k IN (SELECT size FROM shops WHERE size > 2) GROUP BY ROLLUP (k, s)",
    "SELECT k, COUNT(*) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM shops WHERE size = v.k) AND flag GROUP BY CUBE (k)",
    "SELECT coalesce(s, 'all') AS t, SUM(n) AS total FROM visits WHERE flag GROUP BY ROLLUP (s)",
    # subqueries that are keys have their values where columns in them are left out; rows have all
    "SELECT (SELECT s.size FROM shops s WHERE s.k = v.k) AS size, k, COUNT(*) FROM visits v GROUP BY GROUPING SETS ((size), (k), ())",
    "SELECT k, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM shops s WHERE s.k = v.k AND s.size > 20)) FROM visits v GROUP BY ROLLUP (k)",
    "SELECT k, SUM((SELECT s.size FROM shops s WHERE s.k = v.k)) FROM visits v GROUP BY ROLLUP (k)",
    "SELECT max(n) FROM (SELECT k, COUNT(*) AS n FROM visits GROUP BY ROLLUP (k))",
    "WITH t AS (SELECT k, s, COUNT(*) AS n FROM visits GROUP BY CUBE (k, s)) "
    "SELECT s, sum(n) FROM t WHERE k IS NULL GROUP BY s",
]


def plain(sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(":memory:") as engine:
        for statement in (*TABLES.values(), *FILL):
            engine.execute(statement)
        return engine.execute(sql).fetchall()


@pytest.mark.slow
@pytest.mark.usefixtures("discovered_keys")
@pytest.mark.few(1)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_without_noise_the_answer_is_that_of_duckdb(
    sql: str, tmp_path: Path, no_noise: None
) -> None:
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        assert sorted(con.sql(sql).fetchall(), key=repr) == sorted(plain(sql), key=repr)


@pytest.mark.slow
def test_order_and_limit_apply_to_all_sets_together(tmp_path: Path, no_noise: None) -> None:
    sql = (
        "SELECT k, COUNT(*) AS n, SUM(n) FROM visits GROUP BY ROLLUP (k) "
        "ORDER BY COUNT(*) DESC, k NULLS LAST LIMIT 4 OFFSET 1"
    )
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        assert con.sql(sql).fetchall() == plain(sql)


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "level DESC, CASE WHEN level = 0 THEN k END, rows",
        "COUNT(*) * 2 DESC, COALESCE(k, -1), upper(s) NULLS FIRST",
        "rows % 2, COALESCE(s, '') || k, k NULLS FIRST, s NULLS LAST, level",
    ],
)
def test_order_may_compute_with_what_is_selected(
    order: str, tmp_path: Path, no_noise: None
) -> None:
    sql = (
        "SELECT k, s, GROUPING(k) + GROUPING(s) AS level, COUNT(*) AS rows FROM visits "
        f"GROUP BY ROLLUP (k, s) ORDER BY {order}, 1, 2, 3"
    )
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        assert con.sql(sql).fetchall() == plain(sql)


@pytest.mark.slow
def test_names_are_those_of_duckdb(tmp_path: Path) -> None:
    sql = "SELECT k, COUNT(*), SUM(n) AS total FROM visits GROUP BY ROLLUP (k)"
    with connect(tmp_path) as con:
        assert con.sql(sql).columns == ["k", "count_star()", "total"]


@pytest.mark.slow
def test_each_set_pays_its_own_price(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        one = con.explain("SELECT k, s, COUNT(*) FROM visits GROUP BY k, s").reserved
        cube = con.explain("SELECT k, s, COUNT(*) FROM visits GROUP BY CUBE (k, s)")
    assert len(cube.blocks) == 4
    assert cube.reserved.rho == pytest.approx(4 * one.rho, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "blocks"),
    [
        ("SELECT k, COUNT(*) FROM visits GROUP BY ROLLUP (k) HAVING COUNT(*) > ({})", 2 + 1),
        ("SELECT k, s, COUNT(*), ({}) FROM visits GROUP BY CUBE (k, s)", 4 + 1),
        ("SELECT k, COUNT(*), ({}), ({}) FROM visits GROUP BY ROLLUP (k)", 2 + 2),
        (
            "SELECT k, COUNT(*) FROM visits GROUP BY k HAVING COUNT(*) > ({0}) OR COUNT(*) < ({0})",
            3,
        ),
    ],
)
def test_a_subquery_of_all_sets_is_paid_once(sql: str, blocks: int, tmp_path: Path) -> None:
    joined = "SELECT COUNT(*) / 9 FROM visits v JOIN visits w ON v.uid = w.uid"
    inner = "SELECT COUNT(*) / 9 FROM visits"
    with connect(tmp_path) as con:
        assert len(con.explain(sql.format(inner, inner)).blocks) == blocks
        assert len(con.explain(sql.format(joined, joined)).blocks) == blocks


@pytest.mark.slow
def test_a_subquery_of_a_subquery_of_all_sets_is_paid_once(tmp_path: Path) -> None:
    lowest = "SELECT COUNT(*) / 9 FROM visits"
    inner = (
        f"SELECT max(n) FROM (SELECT COUNT(*) - ({lowest}) AS n FROM visits GROUP BY ROLLUP (s))"
    )
    sql = f"SELECT k, COUNT(*) FROM visits GROUP BY ROLLUP (k) HAVING COUNT(*) > ({inner})"
    with connect(tmp_path) as con:
        assert len(con.explain(sql).blocks) == 2 + 2 + 1


def test_options_hold_for_every_set() -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) k, COUNT(*) "
        "FROM visits GROUP BY ROLLUP (k)"
    )
    blocks = planned(sql, SCHEMA, policy()).query.blocks
    assert [block.parameters.epsilon for block in blocks] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT uid, COUNT(*) FROM visits GROUP BY ROLLUP (uid)", "groups_by_unit"),
        ("SELECT k, s FROM visits GROUP BY CUBE (k)", "column_not_grouped"),
        ("SELECT k, COUNT(*) FROM visits GROUP BY ROLLUP (k) ORDER BY SUM(n)", "order_not_selected"),
        *(
            (f"SELECT k AS s, s AS k, COUNT(*) AS n FROM visits GROUP BY CUBE (k, s) ORDER BY {order}", "order_not_selected")
            for order in ("n + 1", "SUM(n)", "SUM(n) + 1", "GROUPING(d) + 1", "n + (SELECT 1)", "lag(n) OVER () + 1", "x + n")
        ),
        ("SELECT k, COUNT(*) AS n, SUM(n) AS n FROM visits GROUP BY CUBE (k) ORDER BY n + 1", "order_not_selected"),
        (
            "SELECT COUNT(*) FROM visits GROUP BY CUBE (k, s, n, flag, d, c)",
            "too_many_grouping_sets",
        ),
        ("SELECT k, GROUPING(s), COUNT(*) FROM visits GROUP BY ROLLUP (k)", "aggregate_not_supported"),
        ("SELECT k FROM visits GROUP BY ROLLUP (k)", "raw_rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(sql: str, code: str) -> None:
    with fails_with(code):
        planned(sql, SCHEMA, policy())


@pytest.mark.slow
def test_a_public_tail_keeps_its_own_grouping_sets(tmp_path: Path, no_noise: None) -> None:
    sql = (
        "SELECT k, s, sum(n) FROM (SELECT k, s, COUNT(*) AS n FROM visits GROUP BY k, s) "
        "GROUP BY ROLLUP (k, s)"
    )
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        assert sorted(con.sql(sql).fetchall(), key=repr) == sorted(plain(sql), key=repr)
        assert len(con.explain(sql).blocks) == 1

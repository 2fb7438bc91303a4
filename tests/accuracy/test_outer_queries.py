"""Columns that subqueries and CTEs pass on have the intervals of what they are."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.policy.model import AccountPolicy
from dpsql.results.result import Result


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    directory = tmp_path_factory.mktemp("outer")
    account = AccountPolicy(ANALYST, 1e6, 1e-3)
    with (
        world_file(directory / "world.duckdb", *FILL) as path,
        dpsql.connect(
            path,
            policy(None, **{ANALYST: account}),
            directory / "budget.db",
            ANALYST,
            epsilon=15.0,
            max_groups_contributed=7,
            max_rows_contributed=40,
        ) as connection,
    ):
        yield connection


ALL = (
    "SELECT k, count(*) AS n, count(DISTINCT uid) AS u, avg(big) AS a, "
    "round(count(*) / count(DISTINCT uid), 3) AS r FROM visits GROUP BY k"
)


def intervals_by_key(result: Result) -> dict[str, dict[object, tuple[float, float]]]:
    found = result.intervals()
    keys = [row[0] for row in result.fetchall()]
    return {
        name: {
            key: (float(low), float(high))
            for key, low, high in zip(keys, one.low, one.high, strict=True)
            if not np.isnan(low)
        }
        for name, one in found.items()
    }


@pytest.mark.parametrize(
    "outer",
    [
        f"SELECT k, n, u, a, r FROM ({ALL}) AS s",
        f"SELECT * FROM ({ALL})",
        f"SELECT s.* FROM ({ALL}) s ORDER BY n",
        f"WITH d AS ({ALL}) SELECT * FROM d",
        f"WITH d AS ({ALL}), e AS (SELECT * FROM d) SELECT e.k, n, u, a, r FROM e ORDER BY 2",
        f"WITH d AS ({ALL}) SELECT k, n, u, a, r FROM (SELECT * FROM (SELECT * FROM d)) AS d",
        f"SELECT k, (n) AS n, u AS u, a, r, row_number() OVER (ORDER BY n) AS p FROM ({ALL})",
        "SELECT k, n, u, a, round(n / u, 3) AS r FROM (SELECT k, count(*) AS n, "
        "count(DISTINCT uid) AS u, avg(big) AS a FROM visits GROUP BY k)",
        "SELECT k, n, u, a, round(q, 3) AS r FROM (SELECT k, n, n / u AS q, u, a FROM (SELECT k, "
        "count(*) AS n, count(DISTINCT uid) AS u, avg(big) AS a FROM visits GROUP BY k))",
        f"WITH d AS ({ALL}) SELECT k, n, u, a, r FROM d WHERE k IN (SELECT k FROM d)",
        f"WITH d AS ({ALL}) SELECT k, n, u, a, r, (SELECT max(n) FROM d) AS most FROM d",
    ],
)
def test_intervals_are_those_of_the_aggregates(con: dpsql.Connection, outer: str) -> None:
    inside, outside = con.sql(ALL), con.sql(outer)
    shown = ["k", "n", "u", "a", "r"]
    assert list(outside.columns)[:5] == shown
    assert not any("dpsql" in name for name in outside.columns)
    assert "paid for before" in str(outside)  # the same release
    assert intervals_by_key(outside) == intervals_by_key(inside)
    assert sorted(row[:5] for row in outside.fetchall()) == sorted(inside.fetchall())
    assert "before the outer query" not in outside.summary()


def test_what_outer_queries_compute_has_an_interval_of_all_its_noise(
    con: dpsql.Connection,
) -> None:
    inside = con.sql("SELECT k, count(n) - count(*) AS d, count(*) AS n FROM visits GROUP BY k")
    outside = con.sql(
        "WITH d AS (SELECT k, count(*) AS n, count(n) AS m FROM visits GROUP BY k) "
        "SELECT k, -1 * (n - m) AS d, n FROM d"
    )
    for name, one in inside.intervals().items():
        other = outside.intervals()[name]
        widths = one.high - one.low, other.high - other.low
        assert widths[1].mean() == pytest.approx(widths[0].mean(), rel=0.05)


@pytest.mark.parametrize(
    ("outer", "having"),
    [
        ("WHERE n > {}", "HAVING count(*) > {}"),
        ("WHERE k >= 0 AND n > {}", "HAVING count(*) > {}"),
        ("QUALIFY n > {} AND count(*) OVER () > 0", "HAVING count(*) > {}"),
        ("WHERE n > (SELECT {})", "HAVING count(*) > {}"),
    ],
)
def test_a_choice_by_noisy_values_is_allowed_for(
    con: dpsql.Connection, outer: str, having: str
) -> None:
    asked = "SELECT k, count(*) AS n, count(*) + 1 AS v FROM visits GROUP BY k"
    middle = int(np.median([row[1] for row in con.sql(asked).fetchall()]))
    everything, beside = con.sql(asked), con.sql(f"{asked} {having.format(middle)}")
    chosen = con.sql(f"SELECT k, n, v FROM ({asked}) {outer.format(middle)}")
    assert 0 < len(chosen) < len(everything)
    found, wide = intervals_by_key(chosen), intervals_by_key(beside)
    assert found == wide
    plain = intervals_by_key(everything)
    for key, (low, high) in found["n"].items():
        assert high - low > 1.05 * (plain["n"][key][1] - plain["n"][key][0])
    assert "the choice of rows allowed for" in chosen.summary()


@pytest.mark.parametrize(
    ("outer", "wider"),
    [
        ("WHERE k >= 2", False),
        ("WHERE k + 1 >= 2 ORDER BY n", False),
        ("ORDER BY k LIMIT 3", False),
        ("ORDER BY n DESC LIMIT 3", True),
        ("LIMIT 3", True),  # by whatever order rows have
        ("ORDER BY v OFFSET 2", True),
        ("ORDER BY 1 LIMIT 3", False),
        ("QUALIFY row_number() OVER (ORDER BY n) < 4", True),
    ],
)
def test_a_choice_by_keys_changes_nothing(con: dpsql.Connection, outer: str, wider: bool) -> None:
    asked = "SELECT k, count(*) AS n, count(*) + 1 AS v FROM visits GROUP BY k"
    plain = intervals_by_key(con.sql(asked))["n"]
    chosen = con.sql(f"SELECT * FROM ({asked}) {outer}")
    assert 0 < len(chosen) < len(plain)
    for key, (low, high) in intervals_by_key(chosen)["n"].items():
        assert (high - low > plain[key][1] - plain[key][0]) is wider


@pytest.mark.parametrize(
    "outer",
    [
        "SELECT sum(n) AS n FROM d",
        "SELECT k % 2 AS k, max(n) AS n FROM d GROUP BY ALL",
        "SELECT DISTINCT n FROM d",
        "SELECT n FROM d UNION ALL SELECT n FROM d",
        "SELECT d.n FROM d, d AS e",
        "SELECT d.n FROM d JOIN (VALUES (1), (1)) AS t(x) ON true",
        "SELECT n, unnest([1, 2]) AS x FROM d",
        "SELECT e.m FROM d AS e(l, m)",
        "SELECT n FROM (SELECT DISTINCT n FROM d)",
        "SELECT n FROM (SELECT n FROM d UNION ALL SELECT n FROM d)",
        "SELECT n FROM d USING SAMPLE 3 ROWS",
        "SELECT * EXCLUDE (k) FROM d",
        "SELECT k, n FROM d NATURAL JOIN (SELECT 1 AS k)",
        "SELECT ln(n) AS n FROM d",
        "SELECT n + k AS n FROM d",
    ],
)
def test_other_queries_have_none_and_show_what_they_did(con: dpsql.Connection, outer: str) -> None:
    cte = "WITH d AS (SELECT k, count(*) AS n FROM visits GROUP BY k)"
    result = con.sql(f"{cte} {outer}")
    assert not result.intervals()
    assert not any("dpsql" in name for name in result.columns)


def test_names_are_those_of_the_source_before_aliases(con: dpsql.Connection) -> None:
    """As in DuckDB: an alias of the same SELECT does not hide a column that it reads."""
    inner = "SELECT k, count(*) AS n, count(DISTINCT uid) AS u FROM visits GROUP BY k"
    plain = intervals_by_key(con.sql(inner))
    found = con.sql(f"SELECT k, u AS n, n AS u, n + 0 AS v FROM ({inner})")
    assert intervals_by_key(found) == {"n": plain["u"], "u": plain["n"], "v": plain["n"]}
    rows = {row[0]: row for row in con.sql(inner).fetchall()}
    for key, u, n, v in found.fetchall():
        assert (n, u) == rows[key][1:]
        assert v == n


def test_hidden_columns_stay_hidden_beside_noise_columns(con: dpsql.Connection) -> None:
    inner = "SELECT k, avg(big) AS a, count(*) AS n FROM visits GROUP BY k"
    result = con.sql(
        f"WITH d AS ({inner}) SELECT *, DP_INTERVAL_LOW(n) AS low FROM (SELECT * FROM d) ORDER BY k"
    )
    assert list(result.columns) == ["k", "a", "n", "low"]
    lows = [row[3] for row in result.fetchall()]
    assert lows == pytest.approx(result.intervals()["n"].low.tolist())


PAIR = "SELECT k, count(*) AS n, count(DISTINCT uid) AS u FROM visits GROUP BY k"


@pytest.mark.parametrize(
    ("outer", "wider"),
    [
        ("SELECT k, n FROM d ORDER BY 1 LIMIT 3", False),
        ("SELECT k, n FROM d ORDER BY 2 DESC LIMIT 3", True),
        ("SELECT k, n FROM d ORDER BY ALL LIMIT 3", True),
        ("SELECT k AS j, n AS k FROM d ORDER BY k LIMIT 3", True),
        ("SELECT k, n FROM d ORDER BY (2) LIMIT 3", True),
        ("SELECT k, n FROM (SELECT * FROM d ORDER BY n LIMIT 3)", True),
    ],
)
def test_an_order_by_noisy_values_is_told_however_it_is_written(
    con: dpsql.Connection, outer: str, wider: bool
) -> None:
    plain = con.sql(PAIR).intervals()["n"]
    chosen = con.sql(f"WITH d AS ({PAIR}) {outer}")
    (one,) = chosen.intervals().values()
    assert len(one.high) == 3
    assert bool((one.high - one.low).max() > (plain.high - plain.low).max()) is wider


@pytest.mark.parametrize(
    ("outer", "factor", "of"),
    [
        ("SELECT k, n FROM (SELECT * REPLACE (2 * n AS n) FROM d)", 2, "n"),
        ("SELECT k, n FROM (SELECT * REPLACE (u AS n) FROM d)", 1, "u"),
        ("SELECT k, n FROM (SELECT * RENAME (n AS u, u AS n) FROM d)", 1, "u"),
        ("SELECT k, n FROM (SELECT * EXCLUDE (n), 3 * u AS n FROM d)", 3, "u"),
        ("SELECT k, n FROM (SELECT *, 2 * n AS n FROM d)", 1, "n"),
        ("SELECT k, n FROM (SELECT 2 * n AS n, * FROM d)", 2, "n"),
        ("SELECT k, n FROM (SELECT * EXCLUDE (u), 2 * n AS n FROM d)", 1, "n"),
        ("SELECT k, n FROM (WITH d AS (SELECT k, u AS n FROM d) SELECT * FROM d)", 1, "u"),
        ("SELECT k, n FROM (WITH d AS (SELECT * FROM d WHERE k >= 0) SELECT * FROM d)", 1, "n"),
        (
            "SELECT k, n FROM (WITH e AS (SELECT * FROM d), d AS (SELECT k, u AS n FROM d) "
            "SELECT * FROM e)",
            *(1, "n"),
        ),
    ],
)
def test_a_name_means_what_it_does_for_the_engine(
    con: dpsql.Connection, outer: str, factor: int, of: str
) -> None:
    asked = con.sql(PAIR)
    values = {row[0]: dict(zip(("k", "n", "u"), row, strict=True)) for row in asked.fetchall()}
    plain = intervals_by_key(asked)[of]
    outside = con.sql(f"WITH d AS ({PAIR}) {outer}")
    for key, value in outside.fetchall():
        assert value == factor * values[key][of]
    for key, (low, high) in intervals_by_key(outside)["n"].items():
        assert (low, high) == (factor * plain[key][0], factor * plain[key][1])
    if factor == 1:
        beside = outer.replace("n", "n, DP_INTERVAL_LOW(n) AS low", 1)
        lows = con.sql(f"WITH d AS ({PAIR}) {beside}").fetchall()
        assert {row[0]: row[2] for row in lows} == pytest.approx(
            {key: low for key, (low, _) in plain.items()}
        )


@pytest.mark.parametrize(
    "item",
    ["n::DOUBLE", "'x'", "(s).n", "DATE '2020-01-01'", "TRY_CAST(n AS INTEGER)", "sqrt(n)", "5"],
)
def test_stars_show_columns_without_aliases(con: dpsql.Connection, item: str) -> None:
    inside = con.sql(f"SELECT k, {item} FROM ({PAIR}) AS s")
    outside = con.sql(f"SELECT * FROM (SELECT k, {item} FROM ({PAIR}) AS s)")
    assert len(outside.columns) == 2
    assert sorted(outside.fetchall()) == sorted(inside.fetchall())


@pytest.mark.parametrize(
    "outer",
    [
        "SELECT a, d FROM d",
        "SELECT a, e AS s FROM d AS e",
        "SELECT a, e::VARCHAR AS s FROM (SELECT * FROM d) AS e",
        "SELECT a, (SELECT max(d) FROM d) AS s FROM d",
        "SELECT a, (SELECT D FROM (SELECT 1)) AS s FROM d",
        "SELECT a, (SELECT count(*) FROM (SELECT * FROM d UNION ALL SELECT * FROM d)) FROM d",
        "SELECT a FROM d WHERE (k, a) IN (SELECT * FROM d) ORDER BY d",
    ],
)
def test_rows_as_a_whole_have_no_hidden_columns(con: dpsql.Connection, outer: str) -> None:
    result = con.sql(f"WITH d AS (SELECT k, avg(big) AS a FROM visits GROUP BY k) {outer}")
    assert "dpsql" not in f"{result.columns} {result.fetchall()}"


def test_an_alias_that_names_a_source_is_no_row(con: dpsql.Connection) -> None:
    inner = "SELECT k, avg(big) AS a FROM visits GROUP BY k"
    result = con.sql(f"WITH d AS ({inner}) SELECT k, a AS d FROM d ORDER BY d")
    values = [row[1] for row in result.fetchall()]
    assert values == sorted(values)
    assert intervals_by_key(result)["d"] == intervals_by_key(con.sql(inner))["a"]


def test_names_are_looked_up_once_in_each_cte(con: dpsql.Connection) -> None:
    """Else each CTE that reads the one before twice would take twice as long."""
    ctes = [f"e{i + 1} AS (SELECT * FROM e{i} AS a, e{i} AS b WHERE x > 1)" for i in range(30)]
    with pytest.raises(dpsql.QueryRefused) as refused:
        con.sql(f"WITH e0 AS ({PAIR}), {', '.join(ctes)} SELECT x FROM e30 AS a, e30 AS b")
    assert refused.value.code == "does_not_bind"


@pytest.mark.parametrize("step", ["n + n AS n, k", "n, k + k AS k"])
@pytest.mark.parametrize("levels", [9, 40])
def test_columns_that_double_with_each_query_are_read_soon(
    con: dpsql.Connection, step: str, levels: int
) -> None:
    """Forty of them would be read a trillion times, and are refused."""
    queries = ["WITH c0 AS (SELECT k, count(*) AS n FROM visits GROUP BY k)"]
    queries += [f"c{i + 1} AS (SELECT {step} FROM c{i})" for i in range(levels)]
    last = f"SELECT n FROM c{levels} WHERE k > 0 ORDER BY n LIMIT 3"
    began = time.process_time()
    if levels < 10:
        assert con.explain(f"{', '.join(queries)} {last}").blocks
    else:
        with pytest.raises(dpsql.QueryRefused) as refused:
            con.explain(f"{', '.join(queries)} {last}")
        assert refused.value.code == "query_too_large"
    assert time.process_time() - began < 5

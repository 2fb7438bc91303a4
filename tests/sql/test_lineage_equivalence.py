"""Without noise, joins, subqueries, CTEs and set operations answer as plain DuckDB does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.linked_tables import CREATE, RULES
from test_equivalence import agree

import dpsql
from dpsql.policy.model import PrivacyUnit, TablePolicy

# Units without rows, rows without units, children without parents, duplicates, NULLs everywhere.
FILL = (
    """INSERT INTO people SELECT i, CASE WHEN i % 6 < 5 THEN 'town' || (i % 4) END, 20 + i % 50
        FROM range(40) r(i)""",
    """INSERT INTO visits SELECT i % 30, CASE WHEN i % 9 < 8 THEN i % 7 END,
        CASE WHEN i % 5 = 4 THEN NULL WHEN i % 5 = 3 THEN 'town' || (i % 4) ELSE 's' || (i % 5) END,
        i % 23 - 4, CASE WHEN i % 11 > 0 THEN i % 12 - 2.25 END FROM range(300) r(i)""",
    "INSERT INTO orders SELECT i % 25 + 10, i, i % 5, (i % 90) + 0.5 FROM range(80) r(i)",
    """INSERT INTO items SELECT i % 70, i, CASE WHEN i % 8 > 0 THEN i % 6 END, i % 40
        FROM range(160) r(i)""",
    "INSERT INTO returns SELECT i * 7 % 160, 'why' || (i % 3), i % 6 FROM range(60) r(i)",
    "INSERT INTO logins SELECT i % 35, i % 4 FROM range(90) r(i)",
    "INSERT INTO shops SELECT i, 'shop' || (i % 4), 5 * i, i FROM range(6) r(i)",
    "INSERT INTO shops VALUES (NULL, NULL, NULL, NULL), (3, 'town1', 7, 2), (3, 'shop3', 15, 2)",
    "INSERT INTO towns SELECT 'town' || i, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END FROM "
    "range(3) r(i)",
)
# These belong to nobody: they are in the private database and not in the plain one.
NOBODY = (
    "INSERT INTO people SELECT NULL, 'town' || (i % 4), i FROM range(9) r(i)",
    "INSERT INTO visits SELECT NULL, i % 7, 's1', i, i FROM range(20) r(i)",
    "INSERT INTO orders SELECT NULL, 1000 + i, i % 5, i FROM range(10) r(i)",
    "INSERT INTO items SELECT 1000 + i % 10, 1000 + i, i % 6, i FROM range(20) r(i)",
    "INSERT INTO items SELECT 5000 + i, 5000 + i, i % 6, i FROM range(20) r(i)",
    "INSERT INTO items SELECT NULL, 6000 + i, i % 6, i FROM range(20) r(i)",
    "INSERT INTO returns SELECT 1000 + i, 'why1', 2 FROM range(20) r(i)",
    "INSERT INTO returns SELECT NULL, 'why1', 2 FROM range(20) r(i)",
    "INSERT INTO logins SELECT NULL, i % 4 FROM range(9) r(i)",
)
WIDE: dict[str, Any] = {
    "max_groups_contributed": 10_000,
    "max_rows_contributed": 400,
    "k_bar": 10_000,
    "epsilon": 10.0,
}
CORPUS = Path(__file__).with_name("lineage_equivalence.sql").read_text().splitlines()

ASOF_JOINS = (
    "SELECT s, count(*) FROM (SELECT s.* FROM visits v ASOF JOIN (SELECT size AS s "
    "FROM shops WHERE size IS NOT NULL) s ON v.n >= s.s UNION ALL SELECT k FROM "
    "visits) GROUP BY s ORDER BY s",
    "SELECT n, count(*) FROM (SELECT v.n FROM visits v ASOF JOIN (SELECT l.uid, l.k "
    "* 2 AS m FROM logins l ASOF JOIN (SELECT DISTINCT size AS z FROM shops WHERE "
    "size IS NOT NULL) t ON l.k >= t.z) x ON v.uid = x.uid AND v.n >= x.m) GROUP BY "
    "n ORDER BY n",
)
"""They read what public rows are before a question is planned, as a connection does."""


@pytest.fixture(scope="module")
def connections(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dpsql.Connection, duckdb.DuckDBPyConnection]]:
    directory = tmp_path_factory.mktemp("lineage")
    path = directory / "lineage.duckdb"
    with duckdb.connect(str(path)) as writer:
        for statement in (*CREATE, *FILL, *NOBODY):
            writer.execute(statement)
    private = dpsql.connect(path, RULES, directory / "budget.db", "ana", **WIDE)
    plain = duckdb.connect(":memory:")
    with private, plain:
        for statement in (*CREATE, *FILL):
            plain.execute(statement)
        yield private, plain


@pytest.mark.slow
@pytest.mark.parametrize("sql", [*CORPUS, *ASOF_JOINS])
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_answers_over_several_tables_equal_those_of_plain_duckdb(
    sql: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    agree(*connections, sql)


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_rows_without_a_linking_value_are_in_no_group_of_it(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    """Plain SQL has one group of them, which is of several people."""
    con, plain = connections
    orders = "SELECT n, count(*) FROM (SELECT o.okey, count(*) AS n FROM people p LEFT JOIN orders "
    orders += "o ON o.uid = p.uid {} GROUP BY o.okey) GROUP BY n ORDER BY n"
    found = con.sql(orders.format("")).fetchall()
    assert found == plain.sql(orders.format("WHERE o.okey IS NOT NULL")).fetchall()
    assert found != plain.sql(orders.format("")).fetchall()


@pytest.mark.usefixtures("no_noise", "discovered_keys")
@pytest.mark.parametrize("frame", ["ROWS UNBOUNDED PRECEDING", "ROWS 1 PRECEDING"])
@pytest.mark.parametrize("sum_or_average", ["SUM", "AVG"])
def test_sums_and_averages_of_windows_pass_over_nan(
    sum_or_average: str, frame: str, tmp_path: Path
) -> None:
    path = tmp_path / "nan.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(
            "CREATE TABLE t AS SELECT i // 2 AS uid, i % 2 AS at, "
            "CASE i % 2 WHEN 0 THEN CAST('nan' AS DOUBLE) ELSE 1.5 END AS x FROM range(400) r(i)"
        )
    rules = replace(RULES, tables={"t": TablePolicy("t", PrivacyUnit("person", "uid"))})
    window = f"OVER (PARTITION BY uid ORDER BY at {frame})"
    inner = f"SELECT uid, {sum_or_average}(x) {window} AS v FROM t"
    with dpsql.connect(path, rules, tmp_path / "budget.db", "ana", **WIDE) as con:
        found = con.sql(f"SELECT v, count(*) FROM ({inner}) GROUP BY v ORDER BY v").fetchall()
    assert found == [(1.5, 200), (None, 200)]


@pytest.mark.usefixtures("no_noise", "discovered_keys")
@pytest.mark.parametrize("away", ["31 MICROSECONDS", "7 MILLISECONDS", "0.3 SECONDS", "1 DAY"])
def test_rows_exactly_as_far_away_are_in_a_frame(away: str, tmp_path: Path) -> None:
    path = tmp_path / "moments.duckdb"
    number, unit = away.split()
    with duckdb.connect(str(path)) as writer:
        writer.execute(
            "CREATE TABLE t AS SELECT i // 2 AS uid, TIMESTAMP '2024-02-29 12:34:56.789' + "
            f"(i % 2) * INTERVAL '{number}' {unit} AS ts FROM range(400) r(i)"
        )
    rules = replace(RULES, tables={"t": TablePolicy("t", PrivacyUnit("person", "uid"))})
    frame = f"RANGE BETWEEN INTERVAL '{number}' {unit} PRECEDING AND CURRENT ROW"
    inner = f"SELECT uid, count(*) OVER (PARTITION BY uid ORDER BY ts {frame}) AS v FROM t"
    with dpsql.connect(path, rules, tmp_path / "budget.db", "ana", **WIDE) as con:
        found = con.sql(f"SELECT v, count(*) FROM ({inner}) GROUP BY v ORDER BY v").fetchall()
    assert found == [(1, 200), (2, 200)]


@pytest.mark.slow
def test_the_corpus_has_answers_with_many_rows(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    _, plain = connections
    sizes = [len(plain.sql(sql).fetchall()) for sql in CORPUS]
    assert len(CORPUS) >= 60
    assert sum(sizes) > 5 * len(CORPUS)

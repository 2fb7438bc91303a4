"""Aggregates that list groups are made of released groups, each a block of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from helpers.support import NO_NUMBER, connect

import dpsql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("listed"), defaults=NO_NUMBER) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "names", "blocks"),
    [
        ("SELECT mode(s), count(*) FROM visits", ["mode(s)", "count_star()"], 2),
        ("SELECT mode(s), 1 AS one FROM visits WHERE n > 1", ["mode(s)", "one"], 1),
        ("SELECT upper(mode(s)), sum(n) AS t FROM visits", ["upper(mode(s))", "t"], 2),
        ("SELECT list(DISTINCT s) FROM visits", ["list(DISTINCT s)"], 1),
        ("SELECT histogram(k) FROM visits", ["histogram(k)"], 1),
        ("SELECT entropy(k) FROM visits", ["entropy(k)"], 1),
        ("SELECT k, entropy(s) FROM visits GROUP BY k", ["k", "entropy(s)"], 2),
        ("SELECT any_value(s) FROM visits", ["any_value(s)"], 1),
        ("SELECT k, mode(s), sum(n) FROM visits GROUP BY k", ["k", "mode(s)", "sum(n)"], 2),
        ("SELECT k, mode(s) AS m, any_value(s) AS a FROM visits GROUP BY k", ["k", "m", "a"], 2),
        ("SELECT k, any_value(s) AS m FROM visits GROUP BY k ORDER BY mode(s)", ["k", "m"], 2),
        ("SELECT k, mode(s) AS m, mode(c) AS c FROM visits GROUP BY k", ["k", "m", "c"], 3),
        ("SELECT k, any_value(k + 1) AS a FROM visits GROUP BY k", ["k", "a"], 1),
    ],
)
def test_a_list_of_groups_is_named_as_it_was_written(
    connection: dpsql.Connection, sql: str, names: list[str], blocks: int
) -> None:
    assert list(connection.sql(sql).columns) == names
    assert len(connection.explain(sql).blocks) == blocks


@pytest.mark.slow
def test_a_list_is_the_same_question_as_its_groups(connection: dpsql.Connection) -> None:
    connection.sql("SELECT DISTINCT s FROM visits WHERE k = 3 AND n > 1")
    listed = "SELECT list(DISTINCT s) FILTER (WHERE n > 1) FROM visits WHERE k = 3"
    assert connection.sql(listed).cost.stored


def test_groups_of_keys_look_up_the_same_question_as_their_groups(
    connection: dpsql.Connection,
) -> None:
    explained = connection.explain("SELECT k, mode(s) FILTER (WHERE n > 1) FROM visits GROUP BY k")
    groups = "SELECT k, s, count(*) FROM visits WHERE n > 1 AND NOT (s) IS NULL GROUP BY k, s"
    (alone,) = connection.explain(groups).blocks
    looked_up = explained.blocks[1]
    assert looked_up.reserved == alone.reserved
    assert _unsalted(looked_up.sql) == _unsalted(alone.sql)


def _unsalted(sql: str | None) -> str:
    return re.sub(r"-?\d{9,}", "salt", str(sql))


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_of_equal_counts_the_least_value_is_taken_and_none_without_rows(tmp_path: Path) -> None:
    rows = "INSERT INTO visits SELECT i, i // 40 + 1, chr(97 + (i % 2)::INT) FROM range(80) t(i)"
    with connect(tmp_path, rows.replace("visits", "visits (uid, k, s)")) as opened:
        sql = "SELECT k, mode(s), mode(s) FILTER (WHERE k = 2), mode(c) FROM visits GROUP BY k"
        found = opened.sql(sql + " ORDER BY k").fetchall()
    assert found == [(1, "a", None, None), (2, "a", "a", None)]


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT round(entropy(k), 9), count(*) FROM visits",
        "SELECT round(entropy(k % 3) FILTER (WHERE n > 1), 9) FROM visits",
        "SELECT k, round(entropy(n % 3), 9) FROM visits GROUP BY k ORDER BY k",
        "SELECT entropy(k) FROM visits WHERE n > 10000",
    ],
)
def test_entropy_is_that_of_released_groups(tmp_path: Path, sql: str) -> None:
    defaults = replace(NO_NUMBER, max_rows_contributed=100, max_groups_contributed=100)
    with connect(tmp_path, defaults=defaults) as opened:
        given = opened.sql(sql).fetchall()
    with duckdb.connect(str(tmp_path / "world.duckdb"), read_only=True) as plain:
        assert given == plain.execute(sql).fetchall()

"""Values of an ENUM are sorted as the policy declares them, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.sql.blocks import validate

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 50, delta: 1e-6, max_groups_contributed: 3, max_rows_contributed: 1}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  shirt:
    privacy_unit: {name: buyer, column: buyer}
    columns:
      size: {domain: [small, medium, large]}
  kind: {public: true}
"""
SIZES = ("small", "medium", "large")


def fill(made: duckdb.DuckDBPyConnection) -> None:
    made.execute(f"CREATE TYPE size AS ENUM {SIZES}")
    made.execute("CREATE TABLE shirt (buyer INTEGER, size size, hidden size, word VARCHAR)")
    made.execute(
        "INSERT INTO shirt SELECT i, list_extract(v, 1 + i % 3), list_extract(v, 1 + i % 2),"
        f" list_extract(v, 1 + i % 3) FROM range(900) r(i), (SELECT {list(SIZES)} AS v)"
    )
    made.execute("CREATE TABLE kind AS SELECT size, word FROM shirt WHERE buyer < 6")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    directory = tmp_path_factory.mktemp("shirts")
    with duckdb.connect(str(directory / "shop.duckdb")) as owner:
        fill(owner)
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(directory / "shop.duckdb", policy, directory / "b.db", "ana") as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same rows without privacy."""
    with duckdb.connect() as made:
        fill(made)
        yield made


SORTED = (
    "SELECT size, COUNT(*) FROM shirt GROUP BY size ORDER BY size",
    "SELECT size AS s, COUNT(*) FROM shirt GROUP BY 1 ORDER BY s DESC LIMIT 1",
    "SELECT COUNT(*), size FROM shirt GROUP BY ALL ORDER BY 2 DESC",
    "SELECT size, word, COUNT(*) FROM shirt GROUP BY ALL ORDER BY word DESC, size",
    "SELECT DISTINCT size FROM shirt ORDER BY size",
    "SELECT size, COUNT(*) FROM shirt WHERE size <> 'medium' GROUP BY size ORDER BY size",
    "SELECT size, ROW_NUMBER() OVER (ORDER BY size) FROM (SELECT size, COUNT(*) FROM shirt "
    "GROUP BY size) ORDER BY 2",
    "WITH q(a, b) AS (SELECT size, COUNT(*) FROM shirt GROUP BY size) SELECT * FROM q ORDER BY 1",
    "SELECT size, COUNT(*) FROM shirt GROUP BY ROLLUP (size) ORDER BY size NULLS FIRST",
    "SELECT size, word, COUNT(*) FROM shirt GROUP BY size, word ORDER BY lower(word), size",
    "SELECT z, COUNT(*) FROM (SELECT buyer, size AS z FROM shirt) GROUP BY z ORDER BY z DESC",
)
UNSORTED = (
    "SELECT COUNT(*) FROM shirt WHERE {0} < 'medium'",
    "SELECT COUNT(*) FROM shirt WHERE 'medium' >= {0}",
    "SELECT COUNT(*) FROM shirt WHERE {0} BETWEEN 'a' AND 'z'",
    "SELECT COUNT_IF(CASE WHEN buyer > 5 THEN {0} END > 'm') FROM shirt",
    "SELECT greatest({0}, 'medium') AS k, COUNT(*) FROM shirt GROUP BY k",
    "SELECT COUNT(*) FROM shirt s JOIN kind k ON s.{0} < k.word",
    "SELECT COUNT(*) FROM (SELECT buyer, max({0}) AS m FROM shirt GROUP BY buyer)",
    "SELECT COUNT(*) FROM (SELECT buyer FROM shirt GROUP BY buyer, {0} HAVING {0} > 'm')",
    "SELECT s, COUNT(*) FROM (SELECT buyer, {0} AS s FROM shirt) WHERE s > 'm' GROUP BY s",
    "SELECT {0}, COUNT(*) FROM shirt GROUP BY {0} HAVING {0} < 'medium'",
    "SELECT min(s) FROM (SELECT {0} AS s, COUNT(*) FROM shirt GROUP BY {0})",
    "SELECT arg_min(n, s) FROM (SELECT {0} AS s, COUNT(*) AS n FROM shirt GROUP BY {0})",
    "SELECT string_agg(s, ' ' ORDER BY s) FROM (SELECT {0} AS s FROM shirt GROUP BY {0})",
    "SELECT {0}, COUNT(*) FROM shirt GROUP BY {0} ORDER BY ALL",
    "SELECT size FROM kind ORDER BY size",
    "SELECT max(size) FROM kind",
)
HIDDEN = (
    "SELECT hidden, COUNT(*) FROM shirt GROUP BY hidden ORDER BY hidden",
    "SELECT hidden, COUNT(*) FROM shirt GROUP BY hidden ORDER BY COUNT(*), 1 LIMIT 1",
    "SELECT rank() OVER (ORDER BY hidden) FROM (SELECT hidden, COUNT(*) FROM shirt GROUP BY 1)",
    "SELECT hidden, COUNT(*) FROM shirt GROUP BY ROLLUP (hidden) ORDER BY hidden",
    "SELECT CASE WHEN word > 'm' THEN size END AS s, COUNT(*) FROM shirt GROUP BY s ORDER BY s",
)


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("sql", SORTED)
def test_a_declared_enum_is_sorted_as_plain_sql_sorts_it(
    connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert connection.sql(sql).fetchall() == plain.execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql", [*(each.format(c) for each in UNSORTED for c in ("size", "hidden")), *HIDDEN]
)
def test_an_order_that_nobody_declared_is_refused(connection: dpsql.Connection, sql: str) -> None:
    before = connection.budget()
    with fails_with("enum_order"):
        connection.sql(sql)
    assert connection.budget() == before


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM shirt WHERE hidden = 'medium' AND size IN ('small', 'large')",
        "SELECT COUNT(*) FROM shirt WHERE CAST(size AS VARCHAR) < 'medium'",
        "SELECT CAST(hidden AS VARCHAR) AS h, COUNT(*) FROM shirt GROUP BY h ORDER BY h",
        "SELECT hidden, COUNT(*) AS n FROM shirt GROUP BY hidden ORDER BY n, upper(hidden)",
        "SELECT max(upper(s)) FROM (SELECT size AS s, COUNT(*) FROM shirt GROUP BY size)",
        "SELECT arg_max(s, n) FROM (SELECT word AS s, COUNT(*) + 0 AS n FROM shirt GROUP BY word "
        "ORDER BY word)",
        "SELECT word, COUNT(*) FROM shirt GROUP BY word ORDER BY word",
    ],
)
def test_texts_are_compared_as_texts(
    connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert connection.sql(sql).fetchall() == plain.execute(sql).fetchall()


def test_an_order_by_the_alphabet_would_be_noticed(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    no_noise: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validate, "settle_enum_order", lambda *_: None)
    sql = f"{SORTED[0]} LIMIT 2"
    assert connection.sql(sql).fetchall() != plain.execute(sql).fetchall()

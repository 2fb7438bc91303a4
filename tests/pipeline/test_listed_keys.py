"""Joins with listed constants leave the groups of those alone, of declared and of public keys."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

pytestmark = pytest.mark.usefixtures("no_noise")

POLICY = """
version: 1
dataset: sales
defaults: {epsilon: 5, delta: 1e-8}
maxima: {epsilon: 20}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  sales:
    privacy_unit: {name: buyer, column: buyer_id}
    columns:
      plan: {domain: [free, pro, team]}
  shops: {public: true}
"""
ROWS = """
    CREATE TABLE sales AS
    SELECT i % 2000 AS buyer_id, i % 6 AS shop_id, ['free', 'pro', 'team'][1 + i % 3] AS plan
    FROM range(8000) r(i);
    CREATE TABLE shops AS
    SELECT i AS shop_id, 'shop ' || i AS name, ['DE', 'FR', 'IT'][1 + i % 3] AS country
    FROM range(6) r(i)
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection to sales of which plans are declared and shops are public."""
    directory = tmp_path_factory.mktemp("sales")
    with duckdb.connect(str(directory / "sales.duckdb")) as made:
        made.execute(ROWS)
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(
        directory / "sales.duckdb", policy, directory / "budget.db", "ana"
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("key", "joined", "left"),
    [
        ("s.plan", "JOIN (VALUES ('pro'), ('team')) v(p) ON v.p = s.plan", {"pro", "team"}),
        ("s.plan", "JOIN (VALUES ('pro'), (NULL)) v(p) ON s.plan = v.p", {"pro"}),
        ("s.plan", "JOIN (SELECT 'pro' AS plan UNION ALL SELECT 'free') v USING (plan)", None),
        ("t.country", "JOIN (VALUES ('DE'), ('FR')) v(c) ON v.c = t.country", {"DE", "FR"}),
        ("t.name", "JOIN (VALUES ('IT')) v(c) ON v.c = t.country", {"shop 2", "shop 5"}),
        # The rows that a LIMIT has released are constants in what follows.
        (
            "t.name",
            "JOIN (SELECT shop_id, count(*) FROM sales GROUP BY shop_id ORDER BY 2 DESC LIMIT 2) b "
            "ON b.shop_id = t.shop_id",
            2,
        ),
        # What an outer join keeps is in other groups, too.
        ("s.plan", "LEFT JOIN (VALUES ('pro')) v(p) ON v.p = s.plan", {"free", "pro", "team"}),
        ("s.plan", "JOIN (VALUES ('pro')) v(p) ON v.p <> s.plan", {"free", "pro", "team"}),
    ],
)
def test_an_inner_join_with_constants_leaves_their_groups(
    connection: dpsql.Connection, key: str, joined: str, left: set[str] | int | None
) -> None:
    found = connection.sql(
        f"SELECT {key} AS k, count(*) AS n FROM sales s JOIN shops t ON t.shop_id = s.shop_id "
        f"{joined} GROUP BY {key}"
    )
    groups = set(found["k"])
    if left is None:
        assert groups >= {"free", "pro"}
    elif isinstance(left, int):
        assert len(groups) == left
    else:
        assert groups == left
    assert "cascade" not in found.mechanisms or isinstance(left, int)

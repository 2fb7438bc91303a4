# ruff: noqa: E501
"""Subqueries that look a value up in public rows: one of these is found, or the statement refused."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, NO_NUMBER, connect, policy, world_file

import dpsql
from dpsql.policy.model import TablePolicy

NAMES = "SELECT (SELECT name FROM shops s WHERE s.k = v.k) AS name, COUNT(*) FROM visits v GROUP BY name ORDER BY name"
JOINED = "SELECT s.name, COUNT(*) FROM visits v LEFT JOIN shops s ON s.k = v.k GROUP BY s.name ORDER BY s.name"
AGAIN = "INSERT INTO shops VALUES (3, 'other', 1)"


@pytest.mark.usefixtures("no_noise")
def test_a_lookup_has_the_groups_and_the_price_of_a_join(tmp_path: Path) -> None:
    with connect(tmp_path, defaults=NO_NUMBER) as connection:
        looked_up, joined = connection.sql(NAMES), connection.sql(JOINED)
        assert looked_up.fetchall() == joined.fetchall()
        assert looked_up.cost.settled == joined.cost.settled
        assert "shops" in connection.explain(NAMES).blocks[0].keys[0]


def test_several_lookups_of_a_row_are_one_join(tmp_path: Path) -> None:
    sql = (
        "SELECT (SELECT upper(name) FROM shops s WHERE s.k = v.k) AS label, "
        "SUM((SELECT size FROM shops s WHERE s.k = v.k), contribution_bounds_per_row => (0, 90)) "
        "FROM visits v WHERE (SELECT size FROM shops s WHERE s.k = v.k) > 3 GROUP BY label"
    )
    with connect(tmp_path, defaults=NO_NUMBER) as connection:
        (block,) = connection.explain(sql).blocks
        assert block.sql.count('"shops"') == 1


@pytest.mark.parametrize(
    "condition",
    [
        "s.k = v.k",
        "s.k = v.k AND s.size >= 0",
        "v.n BETWEEN s.size AND s.size + 15",
        "s.k = v.k AND v.n > s.size",
        "s.k < v.k",
        "s.name <> v.s",
        "s.k::DOUBLE = v.x",
    ],
)
@pytest.mark.parametrize("place", ["SELECT ({}) AS x, COUNT(*) FROM visits v GROUP BY x", "SELECT k, s, n, x, ({}) AS y, COUNT(*) FROM visits v GROUP BY k, s, n, x"])  # fmt: skip
def test_a_lookup_that_could_find_several_rows_is_refused_for_nothing(
    tmp_path: Path, condition: str, place: str
) -> None:
    sql = place.format(f"SELECT size FROM shops s WHERE {condition} LIMIT 1")
    with connect(tmp_path, *FILL, AGAIN, defaults=NO_NUMBER) as connection:
        before = connection.budget()
        with fails_with("several_rows"):
            connection.sql(sql)
        assert connection.budget() == before


@pytest.mark.parametrize(
    "condition",
    [
        "s.k = v.k AND s.name <> 'other'",
        "s.k = v.k AND s.size BETWEEN 2 AND 90",
        "s.name = v.s",
        "lower(s.name) = lower(v.s) AND v.k > s.k",
        "v.n >= s.size AND v.n < s.size + 1",
        "s.size < v.n AND v.n <= s.size + 1",
    ],
)
def test_public_rows_that_conditions_tell_apart_are_looked_up(
    tmp_path: Path, condition: str
) -> None:
    sql = f"SELECT COUNT(*) FROM visits v WHERE (SELECT k FROM shops s WHERE {condition}) > 1"
    with connect(tmp_path, *FILL, AGAIN, defaults=NO_NUMBER) as connection:
        connection.explain(sql)


WIDE = "CREATE TABLE wide AS SELECT * FROM (VALUES {}) t(low, high, label)"
TOUCHING = "(0::BIGINT, 9007199254740992::BIGINT, 'a'), (9007199254740993, 9007199254740999, 'b')"
APART = "(0::BIGINT, 1::BIGINT, 'a'), (2, 3, 'b')"
MIXED = "(0::BIGINT, 9007199254740992.0::DOUBLE, 'a'), (9007199254740992, 9e18, 'b')"


@pytest.mark.parametrize(
    ("ends", "condition", "one"),
    [
        (TOUCHING, "v.x BETWEEN w.low AND w.high", False),
        (TOUCHING, "v.n BETWEEN w.low AND w.high", True),
        (TOUCHING, "v.x >= w.low AND v.x < w.high", True),
        (APART, "v.x BETWEEN w.low AND w.high", True),
        (MIXED, "v.big > w.low AND v.big <= w.high", False),
    ],
)
def test_ends_of_ranges_are_as_near_as_values_meet_them(
    tmp_path: Path, ends: str, condition: str, one: bool
) -> None:
    """2^53 and 2^53 + 1 are one DOUBLE, which two ranges then hold."""
    sql = f"SELECT COUNT(*) FROM visits v WHERE (SELECT label FROM wide w WHERE {condition}) = 'a'"
    rules = replace(policy(), tables={**policy().tables, "wide": TablePolicy("wide", None)})
    with (
        world_file(tmp_path / "world.duckdb", *FILL, WIDE.format(ends)) as path,
        dpsql.connect(path, rules, tmp_path / "budget.db", ANALYST) as connection,
        nullcontext() if one else fails_with("several_rows"),
    ):
        connection.explain(sql)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT name FROM shops s WHERE s.k = v.k ORDER BY nothing", "unknown_column"),
        ("SELECT name FROM shops s WHERE s.k = v.k ORDER BY random()", "expression_not_allowed"),
        ("SELECT n FROM visits w WHERE w.uid = v.uid ORDER BY nothing LIMIT 1", "unknown_column"),
        ("SELECT n FROM visits w WHERE w.uid = v.uid ORDER BY n LIMIT 2", "several_rows"),
        (
            "SELECT max(n) FROM visits w WHERE w.uid = v.uid ORDER BY k",
            "subquery_over_private_rows",
        ),
    ],
)
def test_an_order_is_read_also_where_it_orders_nothing(tmp_path: Path, sql: str, code: str) -> None:
    with connect(tmp_path) as connection, fails_with(code):
        connection.explain(f"SELECT COUNT(*) FROM visits v WHERE ({sql}) IS NOT NULL")


def test_rows_that_are_units_are_looked_up_nothing_for(tmp_path: Path) -> None:
    """That one public row was found is no bound on the rows of a unit."""
    policy = dpsql.parse_policy(
        "{version: 1, dataset: d, defaults: {epsilon: 1.0, delta: 1e-6}, "
        "accounts: {ana: {epsilon: 5, delta: 0.1}}, "
        "tables: {visits: {privacy_unit: row}, shops: {public: true}}}"
    )
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.connect(path, policy, tmp_path / "budget.db", "ana") as connection,
        fails_with("unit_row_repeats"),
    ):
        connection.explain(NAMES)


def test_of_no_rows_a_lookup_is_planned(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        assert connection.sql(f"SELECT * FROM ({NAMES}) t LIMIT 0").fetchall() == []


def test_public_rows_that_are_too_many_have_a_place(tmp_path: Path) -> None:
    many = "INSERT INTO shops SELECT 100 + i, 'shop', i FROM range(500) t(i)"
    sql = (
        "SELECT COUNT(*) FROM visits v JOIN (SELECT k, SUM(size) AS s FROM shops GROUP BY k) t "
        "ON t.k = v.k WHERE s > 1"
    )
    with connect(tmp_path, *FILL, many) as connection, pytest.raises(dpsql.Error) as refused:
        connection.explain(sql)
    assert refused.value.code == "query_too_large"
    assert refused.value.place is not None


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (NAMES.replace("shops", "shop"), "unknown_table"),
        (NAMES.replace("v.k", "v.kk"), "unknown_column"),
        (NAMES.replace("v.k", "v.s"), "text_compared"),
        (
            "SELECT s, (SELECT MAX(n) FROM visits w WHERE w.s < v.s), COUNT(*) FROM visits v GROUP BY s",
            "subquery_over_private_rows",
        ),
        (
            "SELECT s, (SELECT size FROM shops h WHERE h.k = v.k), COUNT(*) FROM visits v GROUP BY s",
            "column_not_grouped",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_statement(
    tmp_path: Path, sql: str, code: str
) -> None:
    with connect(tmp_path) as connection, pytest.raises(dpsql.Error) as refused:
        connection.explain(sql)
    assert refused.value.code == code
    assert refused.value.place is not None
    assert "__dpsql" not in str(refused.value)

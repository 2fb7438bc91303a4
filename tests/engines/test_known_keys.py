"""Keys that are public by themselves, on servers: every row is in a group that was known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from engine_world import EngineWorld, Filled
from helpers.key_questions import (
    CODE_ROWS,
    CODES,
    COLUMNS,
    GIVEN,
    KNOWN,
    OF_QUOTIENTS,
    OVER_CODES,
    POLICY,
    SEVERAL,
    fill,
    menu,
    with_buckets,
)

import dpsql
from dpsql.pipeline.tail import public_tables

pytestmark = pytest.mark.slow  # they start a server

FILLED = {"menu": Filled(COLUMNS, menu()), "codes": Filled(CODES, CODE_ROWS)}
ASKED = [
    *(
        f"SELECT {key}, COUNT(*) AS n FROM menu WHERE {condition} GROUP BY {key}"
        for key, condition, values in (*KNOWN, *SEVERAL)
        if (key, condition, values) not in OF_QUOTIENTS
    ),
    *(
        f"SELECT {key}, COUNT(*) AS n FROM menu m {join} GROUP BY {key}"
        for key, join, _ in OVER_CODES
    ),
]


def _postgresql(request: pytest.FixtureRequest) -> tuple[EngineWorld, Any]:
    pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")
    from postgresql_world import PostgreSQLWorld

    server = request.getfixturevalue("postgres_server")
    world = PostgreSQLWorld(server, f"known_{os.getpid()}")
    return world, world.url


def _spark(request: pytest.FixtureRequest) -> tuple[EngineWorld, Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from spark_world import SparkWorld

    world = SparkWorld()
    return world, world.session


@pytest.fixture(autouse=True)
def _all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show all that is released: which groups of NULL are shown is asked elsewhere."""
    monkeypatch.setattr("dpsql.service.answering.with_null_groups_told", lambda released: released)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_postgresql, id="postgresql"),
        pytest.param(_spark, id="spark", marks=pytest.mark.spark),
    ],
)
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dpsql.Connection]:
    world, source = request.param(request)
    world.engine(FILLED)
    policy = dpsql.parse_policy(POLICY)
    ledger = tmp_path_factory.mktemp("known") / "budget.db"
    with dpsql.connect(source, policy, ledger=ledger, analyst="ana") as made:
        yield made
    world.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same rows in a DuckDB without privacy."""
    with duckdb.connect() as made:
        fill(made, menu())
        with_buckets(made)
        yield made


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("sql", ASKED)
def test_all_rows_are_in_a_group_that_was_known(
    sql: str, connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection
) -> None:
    answer = connection.sql(sql)
    assert answer.mechanisms == ("known_domain",)
    found = {tuple(row[:-1]): row[-1] for row in answer.fetchall()}
    truth = {row[:-1]: row[-1] for row in plain.execute(sql).fetchall()}
    assert +Counter(found) == Counter(truth)


def test_public_rows_that_take_too_long_are_found_by_discovery(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Another question finds the server as it was."""
    if "spark" in request.node.name:
        pytest.skip("so many joins are refused there")
    joined = "".join(f" JOIN codes c{i} ON c{i}.x + c0.x > {i}" for i in range(1, 17))
    asked = f"SELECT c0.label, COUNT(*) FROM menu m JOIN codes c0 USING (name){joined} GROUP BY 1"
    monkeypatch.setattr(public_tables, "_SECONDS", 0.2)
    assert connection.explain(asked).blocks[0].keys == ()
    monkeypatch.undo()
    fast = "SELECT label, COUNT(*) FROM menu m JOIN codes c USING (name) WHERE c.x > 1 GROUP BY 1"
    assert connection.explain(fast).blocks[0].keys != ()


@pytest.mark.parametrize("key", [key for key, _, _ in OF_QUOTIENTS])
def test_an_extreme_of_what_may_fail_is_refused_and_costs_nothing(
    key: str, connection: dpsql.Connection
) -> None:
    before = connection.budget()
    with pytest.raises(dpsql.QueryRefused, match="can overflow, or fail otherwise") as refused:
        connection.sql(f"SELECT {key}, COUNT(*) AS n FROM menu GROUP BY {key}")
    assert refused.value.code == "expression_not_allowed"
    assert connection.budget() == before


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "rows", "value"), GIVEN)
def test_groups_of_public_rows_are_those_of_plain_sql(
    key: str,
    rows: str,
    value: str,
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
) -> None:
    sql = f"SELECT {key}, COUNT({value}) AS n FROM {rows} GROUP BY {key}"
    answer = connection.sql(sql)
    assert answer.mechanisms == ("known_domain",)
    assert Counter(answer.fetchall()) == Counter(plain.execute(sql).fetchall())

"""Nothing is met by a server for the first time when its price is reserved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.postgresql_server import Server
from helpers.sql_text import generated, text
from helpers.support import ANALYST, policy
from postgresql_world import PostgreSQLWorld
from worlds import small_tables

import dpsql
from dpsql.core.sql import Sql
from dpsql.core.sql import sql as template
from dpsql.engines.postgresql import engine as postgresql
from dpsql.engines.postgresql import sessions as postgresql_sessions
from dpsql.engines.postgresql.dialect import PostgreSQLDialect

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")

AUTO: dict[str, Any] = {"max_groups_contributed": "auto"}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "histogram": ("SELECT k, count(*), sum(n), avg(x) FROM visits GROUP BY k", {}),
    "declared": ("SELECT c, count(*), sum(n), avg(x) FROM visits GROUP BY c", {}),
    "looks": (
        "SELECT c, count(*), sum(n), avg(x) FROM visits GROUP BY c",
        {"left_out_share": 0.1, "max_groups_contributed": 2},
    ),
    "one group": ("SELECT count(*), sum(n) FROM visits", {"left_out_share": 0.1}),
    "quantiles": ("SELECT k, median(n), quantile_cont(x, 0.9) FROM visits GROUP BY k", {}),
    "cascade": ("SELECT s, count(DISTINCT uid) FROM visits GROUP BY s", AUTO),
    "sums of a cascade": ("SELECT s, count(*), sum(n) FROM visits GROUP BY s", AUTO),
    "policy": ("SELECT DISTINCT s FROM visits", {"mechanism": "policy_gaussian_set_union"}),
    "weights": ("SELECT DISTINCT s FROM visits", {"mechanism": "weighted_gaussian_set_union"}),
    "top": ("SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 3", {}),
    "distinct": ("SELECT k, count(DISTINCT n), sum(n) FROM visits GROUP BY k", {}),
}


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    """The small world on a server."""
    world = PostgreSQLWorld(postgres_server, f"rehearsed_{os.getpid()}")
    world.engine(small_tables())
    yield world
    world.close()


@pytest.fixture
def connection(world: PostgreSQLWorld, tmp_path: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST) as opened:
        yield opened


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All statements that sessions send."""
    statements: list[str] = []
    usual = postgresql_sessions.PostgreSQLSession._execute

    def execute(self: Any, statement: Sql, parameters: Any) -> None:
        statements.append(text(statement))
        usual(self, statement, parameters)

    monkeypatch.setattr(postgresql_sessions.PostgreSQLSession, "_execute", execute)
    return statements


def shape(sql: str) -> str:
    """A statement without what is drawn or released: salts, digests of them, numbers."""
    return re.sub(r"\d+", "0", re.sub(r"__dpsql_([tvr])[0-9a-f]{12}", r"__dpsql_\1", sql))


def rehearsed(sql: str) -> str | None:
    """The statement that was planned, if this is how."""
    found = re.fullmatch(
        r"(CREATE TEMP TABLE \S+ AS )?SELECT \* FROM \((.*)\) AS t LIMIT 0", sql, re.DOTALL
    )
    return found and (found[1] or "") + found[2]


UPKEEP = re.compile(
    r"(SELECT count\(\*\) AS n FROM|ANALYZE|DROP TABLE) pg_temp\.\"\w+\""
    # the last reading, whose function is never called
    r"|CREATE FUNCTION pg_temp\.\"__dpsql_read\"\([a-z, \[\]]*\) RETURNS SETOF record "
    r"LANGUAGE sql BEGIN ATOMIC .*; END"
    r"|DROP FUNCTION pg_temp\.\"__dpsql_read\"\([a-z, \[\]]*\)"
    r"|SELECT prosqlbody::text FROM pg_catalog\.pg_proc WHERE proname = '__dpsql_read' AND .*"
    # a trial on edge values, which no table is in
    r"|SELECT max\(\"__dpsql_value\"\) AS (?:(?!\"public\"|pg_temp|__dpsql_(groups|stage)).)*"
    r"\(VALUES (?:(?!\"public\"|pg_temp|__dpsql_(groups|stage)).)*"
    r"AS \"__dpsql_edges\"\([\w\", ]+\)\) AS \"\w+\" LIMIT \d+\) AS \"\w+\"",
    re.DOTALL,
)
"""What is sent beside statements over rows."""


@pytest.mark.usefixtures("no_noise")
@pytest.mark.few(100)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_statement_that_reads_was_planned_before(
    name: str, connection: dpsql.Connection, sent: list[str]
) -> None:
    sql, options = QUESTIONS[name]
    assert connection.sql(sql, **options).fetchall() is not None
    planned = {shape(found) for each in sent if (found := rehearsed(each)) is not None}
    read = [
        each
        for each in sent
        if "__dpsql" in each and rehearsed(each) is None and not UPKEEP.fullmatch(each)
    ]
    assert read
    assert {shape(each) for each in read} <= planned
    assert any("__dpsql_staged" in each for each in read) == ("cascade" in name)


@pytest.mark.few(100)
@pytest.mark.parametrize("name", ["quantiles", "sums of a cascade", "policy", "weights"])
def test_a_later_step_that_the_server_does_not_take_costs_nothing(
    name: str, connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql, options = QUESTIONS[name]
    before = repr(connection.budget())
    with monkeypatch.context() as broken:
        broken.setattr(
            PostgreSQLDialect,
            "among_given",
            lambda self, value, *, few: template("no_such_function({})", value),
        )
        with pytest.raises(dpsql.QueryRefused) as refused:
            connection.sql(sql, **options)
    assert refused.value.code == "does_not_bind"
    assert "no_such_function" not in str(refused.value)
    assert repr(connection.budget()) == before
    assert connection.sql(sql, **options).cost.reserved.rho > 0  # nothing is left of it


def test_a_rehearsal_leaves_no_table(
    connection: dpsql.Connection, world: PostgreSQLWorld, sent: list[str]
) -> None:
    """Nor would a row be read by one: tables that it makes are empty."""
    made: list[int] = []
    usual = postgresql._PlannedOnServer._make

    def make(self: Any, name: str, passed: Any) -> None:
        usual(self, name, passed)
        found = self._session.ask(generated(f'SELECT count(*) FROM pg_temp."{name}"'))
        made.append(found[0][0])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgresql._PlannedOnServer, "_make", make)
        sql, options = QUESTIONS["sums of a cascade"]
        connection.explain(sql, **options)
    assert made
    assert set(made) == {0}
    with world.engine(small_tables())._sessions.one() as session:
        left = session.ask(
            generated("SELECT count(*) FROM pg_class WHERE relname LIKE '\\_\\_dpsql%'")
        )
    assert left == [(0,)]

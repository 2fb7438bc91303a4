"""Statements that read no private table: answered exactly, free, and far from private rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, connect, policy, world_file
from sqlglot import exp

import dpsql
from dpsql.engines.base.scratch import Reader
from dpsql.policy.model import AccountPolicy
from dpsql.results.result import FREE
from dpsql.service.answering import Answerer
from dpsql.sql.blocks import validate
from dpsql.sql.lineage.resolver import Lineage
from dpsql.sql.lineage.tables import Scope

PING = "SELECT 1"
ANSWERS = {
    PING: [(1,)],
    "SELECT count(*) AS n, max(name) FROM shops": [(7, "shop 6")],
    "WITH t AS (SELECT k * 2 AS d FROM shops) SELECT d FROM t WHERE d > 8 ORDER BY d": [
        (10,),
        (12,),
    ],
    "SELECT a.k FROM shops a JOIN shops b ON a.k = b.k + 5 ORDER BY 1": [(5,), (6,)],
    "SELECT * FROM (VALUES (1, 'x')) t(a, b)": [(1, "x")],
    "SELECT k FROM shops WHERE 1 = 2": [],
    "SELECT k FROM shops WHERE k < 1 UNION ALL SELECT 9": [(0,), (9,)],
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("public")) as opened:
        yield opened


@pytest.mark.parametrize("sql", ANSWERS)
def test_the_answer_is_exact_and_free_and_the_ledger_does_not_hear_of_it(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path) as opened:
        opened.sql("SELECT count(*) FROM visits")
        before = opened.budget()
        monkeypatch.setattr(Answerer, "paying_ledger", None)
        monkeypatch.setattr(Reader, "exact", None)  # these are all reads of private rows
        monkeypatch.setattr(Reader, "scratch", None)
        answer = opened.sql(sql)
        monkeypatch.undo()
        assert answer.fetchall() == ANSWERS[sql]
        assert answer.cost == FREE
        assert not answer.released
        assert answer.intervals() == {}
        assert answer.plan.blocks == ()
        assert opened.budget() == before


def test_one_private_block_is_enough_to_be_charged(connection: dpsql.Connection) -> None:
    before = connection.budget().rho_spent
    answer = connection.sql("SELECT name, n FROM shops, (SELECT count(*) AS n FROM visits) t")
    assert answer.released
    assert connection.budget().rho_spent > before


@pytest.mark.slow
def test_a_spent_account_and_a_connection_without_a_ledger_may_ask(tmp_path: Path) -> None:
    poor = policy(None, ana=AccountPolicy(ANALYST, 1e-3, 1e-9))
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        for ledger in (tmp_path / "budget.db", None):
            with dpsql.connect(path, poor, ledger, ANALYST) as opened:
                with fails_with("budget_exceeded" if ledger else "no_ledger"):
                    opened.sql("SELECT count(*) FROM visits")
                assert opened.sql(PING).fetchall() == [(1,)]


def test_the_plan_says_that_there_is_nothing_to_pay(connection: dpsql.Connection) -> None:
    plan = connection.explain("SELECT name FROM shops")
    assert plan.blocks == ()
    assert plan.reserved_epsilon == 0
    assert "reads no private table, costs nothing" in str(plan)
    assert "Reserves" not in str(plan)


def test_a_cursor_can_be_asked_whether_it_is_alive(connection: dpsql.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(PING)
    assert cursor.fetchone() == (1,)
    cursor.execute("SELECT name FROM shops WHERE k = ?", [3])
    assert cursor.fetchall() == [("shop 3",)]


@pytest.mark.parametrize(
    ("sql", "kind", "code"),
    [
        ("SELECT (SELECT name FROM shops)", dpsql.QueryRefused, "several_rows"),
        ("SELECT (SELECT repeat(name, 2) FROM shops)", dpsql.DataError, "tail_failed"),
        ("SELECT CAST('a' AS INT)", dpsql.QueryRefused, "constant_fails"),
        ("SELECT nothing FROM shops", dpsql.QueryRefused, "does_not_bind"),
        ("SELECT name + 1 FROM shops", dpsql.QueryRefused, "does_not_bind"),
    ],
)
def test_what_fails_says_that_nothing_was_spent_and_shows_no_value(
    sql: str, kind: type[dpsql.Error], code: str, connection: dpsql.Connection
) -> None:
    before = connection.budget()
    with pytest.raises(kind) as failed:
        connection.sql(sql)
    assert failed.value.code == code
    assert "shop 0" not in str(failed.value)
    assert "paid" not in str(failed.value)
    assert connection.budget() == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(*), (SELECT name FROM shops) FROM visits GROUP BY k",
        "SELECT COUNT(*) AS n FROM visits HAVING n > (SELECT k FROM shops)",
        "WITH s AS (SELECT k FROM shops), t AS (SELECT k FROM s) "
        "SELECT k, COUNT(*) + (SELECT k FROM t) AS n FROM visits GROUP BY k ORDER BY n",
        "SELECT n, n IN (7, (SELECT k FROM shops)) FROM (SELECT COUNT(*) AS n FROM visits)",
        "SELECT COUNT(*) FROM visits LIMIT (SELECT k FROM shops)",
    ],
)
def test_a_public_subquery_of_several_rows_is_no_value(
    sql: str, connection: dpsql.Connection
) -> None:
    """What it has does not depend on what is released: nothing is paid for it."""
    before = connection.budget()
    with pytest.raises(dpsql.QueryRefused) as refused:
        connection.sql(sql)
    assert refused.value.code == "several_rows"
    assert refused.value.place is not None
    assert connection.budget() == before


@pytest.mark.parametrize(
    "value",
    [
        "(SELECT k FROM shops WHERE k = 3)",
        "(SELECT k FROM shops WHERE k = -1)",
        "(SELECT max(k) FROM shops)",
        "(SELECT s.k FROM shops s WHERE s.k = x.n - x.n)",
        "(n IN (SELECT k FROM shops))",
        "(EXISTS (SELECT k FROM shops))",
        "(n > ALL (SELECT k FROM shops))",
        "(SELECT sum(k) FROM (SELECT k FROM shops))",
        "(SELECT count(*) FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r "
        "WHERE i < 9) SELECT i FROM r))",
    ],
)
def test_a_subquery_of_one_row_is_a_value(value: str, connection: dpsql.Connection) -> None:
    asked = f"SELECT {value} FROM (SELECT COUNT(*) AS n FROM visits) x"
    assert len(connection.sql(asked).fetchall()) == 1


def test_parameters_are_checked_even_where_they_have_no_use(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.ParameterError):
        connection.sql(PING, epsilon=-1)


# -- what stands between such a statement and private rows ----------------------------------------

GRABS = (
    "SELECT * FROM visits",
    "SELECT max(uid) FROM visits",
    "SELECT k FROM shops UNION ALL SELECT n FROM visits",
    "SELECT (SELECT max(n) FROM visits) FROM shops",
)


@pytest.mark.parametrize("sql", GRABS)
def test_private_rows_are_not_where_public_statements_run(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if whoever splits statements took every table for public, there is nothing to find."""

    def never(self: Lineage, select: exp.Select, scope: Scope) -> None:
        return None

    monkeypatch.setattr(Lineage, "of_from", never)
    monkeypatch.setattr(validate._Splitter, "_check_tail_table", lambda self, table, ctes: None)
    with connect(tmp_path) as opened, pytest.raises((dpsql.DataError, dpsql.EngineError)):
        opened.sql(sql)


@pytest.mark.slow
def test_a_private_table_that_is_declared_public_would_be_found(tmp_path: Path) -> None:
    """The declaration is what protects: this is how the tests above could fail."""
    tables = dict(policy().tables)
    open_to_all = {**tables, "visits": replace(tables["visits"], privacy_unit=None)}
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.connect(path, replace(policy(), tables=open_to_all), None, ANALYST) as opened,
    ):
        for sql in GRABS:
            assert opened.sql(sql).fetchall()


def test_statements_without_tables_leave_nothing_for_the_next_one(
    connection: dpsql.Connection,
) -> None:
    connection.sql("SELECT 42 AS secret_of_another_statement")
    for name in ("answer_0", "secret_of_another_statement", "tail"):
        with pytest.raises(dpsql.UnknownName):
            connection.sql(f"SELECT * FROM {name}")


@pytest.mark.slow
def test_a_ping_is_a_ping_for_sqlalchemy(tmp_path: Path) -> None:
    sa = pytest.importorskip("sqlalchemy")
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        opened = dpsql.connect(path, policy(), tmp_path / "budget.db", ANALYST)
        engine = sa.create_engine("dpsql://", creator=lambda: opened)
        with engine.connect() as session:
            assert session.execute(sa.select(1)).scalar() == 1
            assert session.execute(sa.text("SELECT count(*) FROM shops")).scalar() == 7
        engine.dispose()

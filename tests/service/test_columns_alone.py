"""Asking what a statement would return costs nothing, reads nothing and tells names and types."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql
from dpsql.engines.base.scratch import Reader
from dpsql.engines.duckdb.engine import DuckDBRun
from dpsql.ledger import Ledger

GROUPED = "SELECT k, count(*) AS n, avg(x) AS mean, sum(n) AS total FROM visits GROUP BY k"
WITHOUT_ROWS = [
    "SELECT * FROM visits WHERE 1=0",
    "SELECT * FROM visits WHERE 1 = 2",
    "SELECT * FROM visits WHERE 1 <> 1",
    "SELECT * FROM visits WHERE false",
    "SELECT * FROM visits WHERE NULL",
    "SELECT * FROM visits WHERE k = 3 AND (1 = 0)",
    "SELECT * FROM visits LIMIT 0",
    "SELECT * FROM visits FETCH FIRST 0 ROWS ONLY",
    "SELECT * FROM (SELECT * FROM visits) AS virtual_table LIMIT 0",
    "SELECT DISTINCT s FROM visits LIMIT 0",
    f"SELECT * FROM ({GROUPED}) t WHERE 1 = 0",
    f"SELECT * FROM ({GROUPED}) t LIMIT 0",
    f"{GROUPED} LIMIT 0",
    "SELECT v.s, name FROM visits v JOIN shops USING (k) LIMIT 0",
    "SELECT k FROM visits UNION ALL SELECT k FROM shops LIMIT 0",
    "SELECT * FROM shops LIMIT 0",
]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("columns")) as opened:
        yield opened


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every read of the owner's rows, public ones included, and every reservation."""
    seen: list[str] = []

    def watch(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            seen.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)

    watch(Reader, "scratch")
    watch(DuckDBRun, "stream")
    watch(Ledger, "reserve")
    return seen


@pytest.mark.few(16)
@pytest.mark.parametrize("sql", WITHOUT_ROWS)
def test_nothing_is_read_reserved_or_charged(
    sql: str, connection: dpsql.Connection, touched: list[str]
) -> None:
    before = connection.budget()
    answer = connection.sql(sql)
    assert answer.fetchall() == []
    assert answer.columns
    assert not answer.released
    assert answer.cost.settled.rho == 0
    assert connection.sql(sql, fresh=True, epsilon=0.3).fetchall() == []
    assert "costs nothing" in str(connection.explain(sql))
    assert touched == []
    assert connection.budget() == before


def test_what_has_rows_is_read_and_charged(
    connection: dpsql.Connection, touched: list[str]
) -> None:
    """The watch above notices."""
    connection.sql("SELECT * FROM shops LIMIT 1")
    assert touched == ["stream"]
    connection.sql(f"SELECT * FROM ({GROUPED}) t LIMIT 1")
    assert {"reserve", "scratch"} <= {*touched}


def test_what_is_taken_for_empty_by_mistake_shows_no_row(
    connection: dpsql.Connection, touched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that takes every text for one without rows: answers are wrong, but hold nothing."""
    monkeypatch.setattr("dpsql.pipeline.prepare.has_no_rows", lambda tree: True)
    for sql in ("SELECT * FROM visits AS twin", "SELECT count(*) AS twin FROM visits"):
        assert connection.sql(sql).fetchall() == []
    assert touched == []


def test_types_are_those_of_the_answer_with_rows(connection: dpsql.Connection) -> None:
    answer = connection.sql(GROUPED)
    for text in (f"{GROUPED} LIMIT 0", f"SELECT * FROM ({GROUPED}) t WHERE 1 = 0"):
        empty = connection.sql(text)
        assert (empty.columns, empty.types) == (answer.columns, answer.types)


def test_columns_of_a_private_table_are_those_that_describe_shows(
    connection: dpsql.Connection,
) -> None:
    described = connection.sql("DESCRIBE visits")
    expected = list(zip(described["column_name"], described["column_type"], strict=True))
    empty = connection.sql("SELECT * FROM visits WHERE 1 = 0")
    assert list(zip(empty.columns, empty.types, strict=True)) == expected
    info = connection.sql("PRAGMA table_info('visits')")
    assert list(zip(info["name"], info["type"], strict=True)) == expected
    catalog = connection.sql(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_name = 'visits' ORDER BY ordinal_position"
    )
    assert catalog.fetchall() == expected
    functions = connection.sql(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'visits' "
        "ORDER BY column_index"
    )
    assert functions.fetchall() == expected


def test_frames_without_rows_have_the_columns_types(connection: dpsql.Connection) -> None:
    empty = connection.sql("SELECT k, s, x, d FROM visits LIMIT 0")
    assert [str(t) for t in empty.df().dtypes] == ["int32", "object", "float64", "datetime64[us]"]
    assert [str(t) for t in empty.arrow().schema.types] == [
        "int32",
        "string",
        "double",
        "date32[day]",
    ]
    assert empty.pl().shape == (0, 4)


def test_the_catalog_lists_the_tables_of_the_policy_and_no_others(
    connection: dpsql.Connection,
) -> None:
    tables = sorted(connection.sql("SHOW TABLES")["name"])
    assert "secret" not in tables
    for listed in (
        connection.sql("SELECT table_name FROM information_schema.tables")["table_name"],
        connection.sql("SELECT DISTINCT table_name FROM information_schema.columns")["table_name"],
        connection.sql("SELECT table_name FROM duckdb_tables()")["table_name"],
        connection.sql("SELECT DISTINCT table_name FROM duckdb_columns() t")["table_name"],
        connection.sql("SHOW ALL TABLES")["name"],
        connection.sql("PRAGMA show_tables")["name"],
    ):
        assert sorted(listed) == tables
    assert connection.sql("USE main").fetchall() == connection.sql("SHOW SCHEMAS").fetchall()
    ((database, _),) = connection.sql("USE main").fetchall()
    assert connection.sql("SHOW DATABASES").fetchall() == [(database,)]
    catalogs = "SELECT DISTINCT table_catalog FROM information_schema.tables"
    assert connection.sql(catalogs).fetchall() == [(database,)]


@pytest.mark.parametrize(
    "sql",
    ["SHOW ALL TABLES", "SHOW DATABASES", "USE main", "PRAGMA table_info(visits)", *WITHOUT_ROWS],
)
@pytest.mark.few(20)
def test_columns_alone_can_be_described(sql: str, connection: dpsql.Connection) -> None:
    described, answer = connection.describe(sql), connection.sql(sql)
    assert [column.name for column in described.columns] == answer.columns
    assert [column.type for column in described.columns] == answer.types


def test_a_limit_may_be_a_value(connection: dpsql.Connection) -> None:
    before = connection.budget()
    assert connection.sql("SELECT * FROM visits LIMIT ?", [0]).fetchall() == []
    with fails_with("raw_rows"):
        connection.sql("SELECT * FROM visits LIMIT ?", [1])
    assert connection.budget() == before


def test_a_place_in_an_error_is_one_of_the_text_that_was_sent(
    connection: dpsql.Connection,
) -> None:
    """Though the catalog's tables are written out as constants before the text is checked."""
    sql = "SELECT random() FROM visits, information_schema.tables"
    with pytest.raises(dpsql.Error) as refused:
        connection.sql(sql)
    assert refused.value.place is None or refused.value.place.column <= len(sql)


NAMES = ("a", "b")
BODIES = ("SELECT count(*) AS n FROM visits", "SELECT n FROM a", "SELECT 1 AS n")


@pytest.mark.parametrize("bodies", [*itertools.product(BODIES[::2], BODIES)])
@pytest.mark.parametrize("last", ["SELECT 1 AS n", "SELECT n FROM a", "SELECT n FROM b"])
def test_a_cte_costs_something_only_if_what_is_answered_needs_it(
    bodies: tuple[str, str], last: str, tmp_path: Path
) -> None:
    first, second = bodies
    needed = {"a": "FROM a" in last or ("FROM b" in last and "FROM a" in second)}
    needed["b"] = "FROM b" in last
    paid = any(needed[name] and "visits" in body for name, body in zip(NAMES, bodies, strict=True))
    with connect(tmp_path) as opened:
        opened.sql(f"WITH a AS ({first}), b AS ({second}) {last}")
        assert (opened.budget().rho_spent > 0) is paid


@pytest.mark.slow
def test_probes_answer_the_same_whatever_the_rows(tmp_path: Path) -> None:
    answers = []
    for rows in (0, 3, 500):
        path = tmp_path / str(rows) / "data.duckdb"  # of one name, which statements may hold
        path.parent.mkdir()
        with duckdb.connect(str(path)) as owner:
            owner.execute(f"CREATE TABLE t AS SELECT range AS u, range % 5 AS k FROM range({rows})")
        policy = dpsql.parse_policy(
            "version: 1\ndataset: d\naccounts: {ana: {epsilon: 3, delta: 1e-6}}\n"
            "tables: {t: {privacy_unit: {name: u, column: u}}}\n"
        )
        with dpsql.connect(path, policy, tmp_path / f"{rows}.db", "ana") as opened:
            asked = ["SELECT * FROM t LIMIT 0", "SELECT k / 0 FROM t LIMIT 0"]
            asked += ["SELECT * FROM duckdb_tables()", "SHOW ALL TABLES"]
            answers.append([repr(opened.sql(sql)) for sql in asked])
    assert answers[0] == answers[1] == answers[2]

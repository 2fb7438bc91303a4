# ruff: noqa: E501
"""A PostgreSQL database end to end: what is asked, what is refused, and what is never shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg
import pytest
import sqlglot
from click.testing import CliRunner
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from helpers.support import ANALYST, policy
from helpers.unsurveyed import pretend, refused_unseen
from postgresql_world import PASSWORD, READER, PostgreSQLWorld
from worlds import DuckDBWorld, small_tables

import dpsql
from dpsql.core.schema import Table
from dpsql.core.sql import Sql, sql
from dpsql.engines.dialects import dialect_of
from dpsql.engines.embedded.letters import other_case
from dpsql.engines.evidence.verdicts import EngineVersion, verdicts_on
from dpsql.engines.postgresql.catalog import check_server
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.errors import InterfaceError
from dpsql.interfaces.cli import cli
from dpsql.owner.conformance import check_policy
from dpsql.policy.load import parse_policy

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    """The small world on a server."""
    world = PostgreSQLWorld(postgres_server, f"asked_{os.getpid()}")
    world.engine(small_tables())
    yield world
    world.close()


@pytest.fixture
def connection(world: PostgreSQLWorld, tmp_path: Path) -> Iterator[dpsql.Connection]:
    """A connection by the database's URL."""
    with dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST) as opened:
        yield opened


MOMENTS = parse_policy(
    "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
    "tables:\n  moments: {privacy_unit: {name: person, column: uid}}\n"
)

QUESTIONS = (
    "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k ORDER BY k",
    "SELECT c, count(*), sum(n), avg(x) FROM visits GROUP BY c ORDER BY c",
    "SELECT k, median(n), max(n) FROM visits GROUP BY k ORDER BY k",
    "SELECT k, count(DISTINCT s, n), count(DISTINCT c, d) FROM visits GROUP BY k ORDER BY k",
    "SELECT k, sum(DISTINCT n), sum(DISTINCT x) FROM visits GROUP BY k ORDER BY k",
    "SELECT avg(DISTINCT amount), sum(DISTINCT big), count(*), bool_or(n > 3), bool_and(flag) FROM visits",
    "SELECT skewness(n), kurtosis(x) FILTER (WHERE k > 1) FROM visits",
    "SELECT count(DISTINCT (s, n)), count(DISTINCT row(c, d, k)), sum(COLUMNS(['n', 'x'])) FROM visits",
    "SELECT strlen(s || 'aß\u07ff\u0800€\uffff😀\n') AS b, count(*), sum(strlen(c), contribution_bounds_per_row => (0, 9)) FROM visits GROUP BY b ORDER BY b",
    "SELECT DISTINCT s FROM visits ORDER BY s",
    "SELECT s.name, count(DISTINCT v.uid) FROM visits v JOIN shops s ON v.k = s.k GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('month', ts) AS m, count(*) FROM visits WHERE n > 3 GROUP BY 1 ORDER BY 1",
    "SELECT d, count(DISTINCT uid) FROM visits GROUP BY d ORDER BY d",
    "SELECT amount, count(*) FROM visits GROUP BY amount ORDER BY amount",
    "SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n DESC, k LIMIT 3",
    "SELECT n FROM (SELECT uid, count(*) AS n FROM visits GROUP BY uid) GROUP BY n ORDER BY n",
    "SELECT name, size FROM shops ORDER BY name",
    "SELECT count(*) FROM visits WHERE n > (SELECT avg(n) FROM visits WHERE flag)",
    "SELECT s, count(*) FROM visits WHERE s NOT IN (SELECT s FROM visits WHERE n > 3 GROUP BY s HAVING count(*) > 9000) GROUP BY s ORDER BY s",
    "SELECT count(*) FROM visits LEFT JOIN (SELECT k, NULLIF(max(size), max(size)) AS no FROM shops GROUP BY k) t USING (k) WHERE no IS NULL AND n > COALESCE((SELECT max(k) FROM shops WHERE k < 0), 3)",
    "SELECT k, count(*) FROM visits v WHERE NOT (s IN (SELECT w.s FROM visits w WHERE w.uid = v.uid AND w.n > v.n) OR k > 3) GROUP BY k ORDER BY k",
)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.few(100)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_answers_without_noise_are_those_of_duckdb(
    sql: str, connection: dpsql.Connection, tmp_path: Path
) -> None:
    reference = DuckDBWorld()
    engine = reference.database(small_tables())
    with dpsql.connect(engine, policy(), tmp_path / "other.db", ANALYST) as other:
        options: dict[str, Any] = {"max_groups_contributed": 60, "max_rows_contributed": 100}
        if "shops ORDER" in sql or "median" in sql:
            options = {}
        expected, found = (each.sql(sql, **options) for each in (other, connection))
    if "median" not in sql:  # drawn
        assert found.fetchall() == expected.fetchall()
    assert (found.columns, found.types) == (expected.columns, expected.types)
    assert found.cost.reserved == expected.cost.reserved
    reference.close()


@pytest.mark.usefixtures("no_noise")
@pytest.mark.few(100)
@pytest.mark.parametrize("share", [0.03, 0.1])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c, count(*), sum(n), avg(x) FROM visits GROUP BY c ORDER BY c",
        "SELECT k, count(DISTINCT uid), count(n) FROM visits GROUP BY k ORDER BY k",
        "SELECT date_trunc('month', ts) AS m, sum(n + 1) FROM visits WHERE n > 3 GROUP BY 1 ORDER BY 1",
        "SELECT count(*), sum(n) FROM visits",
    ],
)
def test_estimates_read_what_they_read_in_duckdb(
    sql: str, share: float, connection: dpsql.Connection, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"max_groups_contributed": 60, "max_rows_contributed": 100}
    reference = DuckDBWorld()
    engine = reference.database(small_tables())
    with dpsql.connect(engine, policy(), tmp_path / "other.db", ANALYST) as other:
        expected, found = (
            each.sql(sql, left_out_share=share, **options) for each in (other, connection)
        )
    assert found.left_out
    assert found.left_out == expected.left_out
    assert found.fetchall() == expected.fetchall()
    reference.close()


@pytest.fixture(scope="module")
def moments(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    """Moments of 40 units, six of each a month apart, read by a role that lives in New York."""
    world = PostgreSQLWorld(postgres_server, f"moments_{os.getpid()}")
    world.run("CREATE TABLE moments (uid BIGINT, at TIMESTAMPTZ, local TIMESTAMP)")
    world.run(
        "INSERT INTO moments SELECT i % 40, TIMESTAMPTZ '2024-01-31 23:30:00+00' + i / 40 * "
        "INTERVAL '31 days', TIMESTAMP '2024-01-31 23:30:00' + i / 40 * INTERVAL '31 days' "
        "FROM generate_series(0, 239) AS i"
    )
    edges = (
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 00:00:00+00 BC'",
        "'294276-12-31 23:59:59+00'",
    )
    for edge in edges:
        world.run(f"INSERT INTO moments SELECT i, {edge}, NULL FROM generate_series(0, 39) AS i")
    world.run(f"GRANT SELECT ON moments TO {READER}")
    world.run(f"ALTER ROLE {READER} IN DATABASE {world.database} SET timezone = 'America/New_York'")
    yield world
    world.close()


LONG = parse_policy(
    "version: 1\ndataset: d\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
    "tables:\n  texts: {privacy_unit: {name: person, column: uid}}\n"
)


def test_letters_of_few_scripts_are_not_looked_for_among_those_of_all(
    postgres_server: Server,
) -> None:
    """The server compares each letter of a text with all that could be exchanged."""
    long = "é" + "x" * 300_000
    table = Table("texts", (column_of("s", "VARCHAR"),))
    dialect = dialect_of(verdicts_on(EngineVersion("postgresql", "15")))
    with psycopg.connect(postgres_server.url("postgres")) as owner:
        owner.execute('CREATE TEMPORARY TABLE texts (s TEXT COLLATE "C")')
        owner.execute("INSERT INTO texts VALUES (%s)", [long])

        def seconds(written: str) -> float:
            began = perf_counter()
            assert owner.execute(f"SELECT {written} FROM texts".encode()).fetchall()
            return perf_counter() - began

        for word in ("upper", "lower"):
            tree = sqlglot.parse_one(f"{word}(s)", read="duckdb")
            written = dialect.expression(tree, table).render(dialect.renderer)
            letters, others = other_case(word)
            assert seconds(written) < seconds(f"translate(s, '{letters}', '{others}')") / 2


@pytest.mark.usefixtures("no_noise")
def test_a_text_of_any_length_makes_nothing_fail(postgres_server: Server, tmp_path: Path) -> None:
    """The server takes four or eight bytes for each of a text, and at most 2^30 for a row."""
    world = PostgreSQLWorld(postgres_server, f"long_{os.getpid()}")
    world.run("CREATE TABLE texts (uid BIGINT, s TEXT)")
    world.run("INSERT INTO texts SELECT i, ' a ' FROM generate_series(0, 59) AS i")
    world.run("INSERT INTO texts VALUES (99, repeat('x', 300000000)), (98, repeat('x', 524287))")
    world.run(f"GRANT SELECT ON texts TO {READER}")
    conditions = (
        "trim(s) = 'a'", "trim(s) || 'b' = 'ab'", "concat(s, s) = ' a  a '", "length(s) < 9",
        "s LIKE '% a %'", "contains(s, ' a')", "starts_with(s, ' a')", "left(s, 2) = ' a'",
        "right(s, 2) = 'a '", "substring(s, 2) = 'a '", "coalesce(TRY_CAST(s AS INTEGER), 0) = 0",
        "coalesce(TRY_CAST(s AS DOUBLE), 0) = 0", "regexp_matches(s, ' a ')", "s SIMILAR TO ' a '",
        "regexp_extract(s, 'a') = 'a'", "regexp_replace(s, 'x', 'yy', 'g') = ' a '",
        "replace(s, 'x', 'yy') = ' a '", "s IS NOT NULL AND length(s) < 600000",
        "upper(s) = ' A '", "lower(s) = ' a '", "s ILIKE ' A '",
    )  # fmt: skip
    many = ", ".join(f"s || '{i}' AS k{i}, substring(s, {i + 1}) AS l{i}" for i in range(4))
    with dpsql.connect(world.url, LONG, tmp_path / "budget.db", "ana") as connection:
        for condition in conditions:
            found = connection.sql(f"SELECT count(DISTINCT uid) FROM texts WHERE {condition}")
            assert found.fetchall()[0][0] in (60, 61, 62), condition
        asked = f"SELECT {many}, count(*) AS n FROM texts GROUP BY ALL"
        rows = connection.sql(asked, max_groups_contributed=1, max_rows_contributed=1).fetchall()
        assert (" a 0", " a ", 60) in [(*row[:2], row[-1]) for row in rows]
    world.close()


@pytest.mark.slow
def test_a_maximum_error_finds_bounds_of_values_and_is_kept_or_told(
    postgres_server: Server, tmp_path: Path
) -> None:
    world = PostgreSQLWorld(postgres_server, f"errors_{os.getpid()}")
    world.run("CREATE TABLE texts (uid BIGINT, x DOUBLE PRECISION, n NUMERIC(12,2))")
    world.run(
        "INSERT INTO texts SELECT i, CASE i % 9 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN NULL ELSE i % 50 END, "
        "-(i % 30) FROM generate_series(1, 4500) AS i"
    )
    world.run(f"GRANT SELECT ON texts TO {READER}")
    asked = "SELECT sum(x) AS x, sum(n) AS n FROM texts"
    with dpsql.connect(world.url, LONG, tmp_path / "budget.db", "ana") as connection:
        for error, missed in ((20_000.0, False), (0.001, True)):
            result = connection.sql(asked, max_error=error, max_rows_contributed=1)
            ((x, n),) = result.fetchall()
            assert abs(x - 3500 * 24.5) < 40_000
            assert abs(n + 4500 * 14.5) < 40_000
            assert ("error_missed" in {each.kind for each in result.warnings}) == missed
            known = connection.sql(asked, max_error=error, max_rows_contributed=1)
            assert known.cost.stored
    world.close()


@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_an_enum_is_text_without_an_order(postgres_server: Server, tmp_path: Path) -> None:
    world = PostgreSQLWorld(postgres_server, f"enums_{os.getpid()}")
    world.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    world.run("CREATE TABLE texts (uid BIGINT, m mood)")
    world.run(
        "INSERT INTO texts SELECT i, CASE i % 3 WHEN 0 THEN 'sad'::mood WHEN 1 THEN 'ok' END "
        "FROM generate_series(0, 299) AS i"
    )
    world.run(f"GRANT SELECT ON texts TO {READER}")
    with dpsql.connect(world.url, LONG, tmp_path / "budget.db", "ana") as connection:
        for sql, expected in (
            ("SELECT m, COUNT(DISTINCT uid) FROM texts GROUP BY m", {("sad", 100), ("ok", 100), (None, 100)}),
            ("SELECT COUNT(DISTINCT uid) FROM texts WHERE m = 'ok'", {(100,)}),
            ("SELECT COUNT(DISTINCT uid) FROM texts WHERE m IN ('ok', 'none such')", {(100,)}),
            ("SELECT COUNT(DISTINCT uid) FROM texts WHERE m IS NULL", {(100,)}),
            ("SELECT COUNT(m) FROM texts", {(200,)}),
            ("SELECT left(m, 1) AS u, COUNT(DISTINCT uid) FROM texts GROUP BY u", {("s", 100), ("o", 100), (None, 100)}),
        ):  # fmt: skip
            assert set(connection.sql(sql, max_rows_contributed=1).fetchall()) == expected, sql
        with pytest.raises(dpsql.QueryRefused):
            connection.sql("SELECT COUNT(*) FROM texts WHERE m < 'sad'")
        spent = connection.budget().rho_spent
        world.run(
            "CREATE FUNCTION told(mood) RETURNS TEXT LANGUAGE SQL AS $$ SELECT 1 / 0 || 'x' $$"
        )
        world.run("CREATE CAST (mood AS TEXT) WITH FUNCTION told(mood)")
        with pytest.raises(dpsql.Error) as raised:
            connection.sql("SELECT COUNT(DISTINCT uid) FROM texts WHERE m = 'ok'", fresh=True)
        assert raised.value.code in ("definitions_changed", "statement_unrecognised")
        assert connection.budget().rho_spent == spent
    world.close()


def test_a_database_that_was_closed_ends_its_engines(world: PostgreSQLWorld) -> None:
    """As on DuckDB: what is bound there no more costs nothing. Opened again, it answers."""
    world.engine(small_tables())
    database = PostgreSQLEngine(world.url)
    table = next(iter(database.catalog().tables))
    engine, statement = database.open([table]), sql("SELECT 1 AS n")
    assert [column.name for column in engine.bind(statement)] == ["n"]
    database.close()
    with pytest.raises(dpsql.QueryRefused):
        engine.bind(statement)
    again = database.open([table])
    assert [column.name for column in again.bind(statement)] == ["n"]
    database.close()


@pytest.mark.usefixtures("no_noise", "discovered_keys")
@pytest.mark.few(100)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DATE_TRUNC('month', at) AS m, COUNT(*) FROM moments WHERE at < '2024-04-01' GROUP BY m "
         "ORDER BY m", [(datetime(2024, 1, 1), 40), (datetime(2024, 3, 1), 40)]),
        ("SELECT at::DATE AS d, COUNT(*) FROM moments WHERE MONTH(at) = 1 GROUP BY d",
         [(date(2024, 1, 31), 40)]),
        ("SELECT at = local AS same, COUNT(*) FROM moments GROUP BY same ORDER BY same",
         [(True, 240), (None, 160)]),
        ("SELECT EXTRACT(hour FROM at) AS h, COUNT(*) FROM moments WHERE at >= TIMESTAMP '2024-06-01' "
         "GROUP BY h", [(23, 80)]),
        ("SELECT COUNT(*) AS n FROM moments WHERE at IS NULL", [(160,)]),
    ],
)  # fmt: skip
def test_moments_with_a_time_zone_are_those_of_utc(
    sql: str, expected: list[Any], moments: PostgreSQLWorld, tmp_path: Path
) -> None:
    with dpsql.connect(moments.url, MOMENTS, tmp_path / "budget.db", "ana") as connection:
        assert connection.sql("DESCRIBE moments").fetchall()[1][:2] == ("at", "TIMESTAMP")
        found = connection.sql(sql, max_groups_contributed=10, max_rows_contributed=20)
        assert found.fetchall() == expected


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT k, sum(n % 0.5e0) FROM visits GROUP BY k", "%"),
        ("SELECT extract(era FROM ts) AS y, count(*) FROM visits GROUP BY 1", "extract(era)"),
        ("SELECT k, sum(round(n, -99)) FROM visits GROUP BY k", "round"),
        ("SELECT count(*) FROM visits WHERE CAST(x AS VARCHAR) LIKE '2%'", "CAST"),
        (
            "SELECT ts - TIMESTAMP '2024-01-01' AS t, count(*) FROM visits GROUP BY 1",
            "a length of time, ts - ",
        ),
    ],
)
def test_what_the_server_has_no_equal_of_is_refused_for_nothing(
    sql: str, named: str, connection: dpsql.Connection
) -> None:
    before = repr(connection.budget())
    with pytest.raises(dpsql.QueryRefused) as refused:
        connection.sql(sql)
    assert refused.value.code in ("expression_not_allowed", "bounds_missing", "unbounded")
    assert named in str(refused.value) or refused.value.code != "expression_not_allowed"
    assert "PostgreSQL" in str(refused.value) or refused.value.code != "expression_not_allowed"
    assert repr(connection.budget()) == before


def test_what_fails_on_the_twin_is_refused_as_everywhere(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.UnknownName) as refused:
        connection.sql("SELECT nothing, count(*) FROM visits GROUP BY 1")
    assert "PostgreSQL" not in str(refused.value)
    with fails_with("no_view"):
        connection.sql(
            "CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2024-01-01', steps = 10) "
            "AS SELECT k, count(*) FROM visits GROUP BY k"
        )


def test_a_server_has_no_ledger_beside_it(world: PostgreSQLWorld) -> None:
    with fails_with("ledger_not_given") as raised:
        dpsql.connect(world.url, policy(), analyst=ANALYST)
    assert PASSWORD not in str(raised.value)


def test_passwords_are_never_shown(world: PostgreSQLWorld, connection: dpsql.Connection) -> None:
    engine = PostgreSQLEngine(world.url)
    shown = [repr(engine), repr(connection), str(engine), str(connection.explain(QUESTIONS[0]))]
    engine.close()
    for url in (
        world.url.replace(PASSWORD, "wrong-password"),
        "postgresql://a:wrong-password@[::1",
    ):
        with fails_with("server_unreachable") as raised:
            PostgreSQLEngine(url)
        error: BaseException | None = raised.value
        while error is not None:
            shown.append(f"{error!r} {error}")
            error = error.__cause__ or error.__context__
    assert all(PASSWORD not in text and "wrong-password" not in text for text in shown)


# -- least privilege -------------------------------------------------------------------------------

GRANTS: Mapping[str, tuple[str, str, str]] = {
    "it is a superuser": (f"ALTER ROLE {READER} SUPERUSER", f"ALTER ROLE {READER} NOSUPERUSER", "superuser"),
    "it creates roles": (f"ALTER ROLE {READER} CREATEROLE", f"ALTER ROLE {READER} NOCREATEROLE", "roles"),
    "it writes a table": (
        f"GRANT INSERT ON visits TO {READER}", f"REVOKE INSERT ON visits FROM {READER}", "visits"
    ),
    "it writes a column": (
        f"GRANT UPDATE (n) ON visits TO {READER}", f"REVOKE UPDATE (n) ON visits FROM {READER}", "visits"
    ),
    "it creates tables": (
        f"GRANT CREATE ON SCHEMA public TO {READER}", f"REVOKE CREATE ON SCHEMA public FROM {READER}", "public"
    ),
    "it reads files": (
        f"GRANT pg_read_server_files TO {READER}", f"REVOKE pg_read_server_files FROM {READER}", "files"
    ),
}  # fmt: skip


@pytest.mark.few(100)
@pytest.mark.parametrize("why", GRANTS)
def test_a_role_that_can_do_more_than_read_is_refused(
    why: str, world: PostgreSQLWorld, tmp_path: Path
) -> None:
    grant, revoke, word = GRANTS[why]
    world.run(grant)
    try:
        with pytest.raises(InterfaceError) as raised:
            dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST)
    finally:
        world.run(revoke)
    assert raised.value.code == "server_privileges"
    assert word in str(raised.value)


def test_a_role_without_temporary_tables_is_refused(world: PostgreSQLWorld, tmp_path: Path) -> None:
    database = world.url.rpartition("/")[2]
    world.run(f"REVOKE TEMP ON DATABASE {database} FROM PUBLIC")
    try:
        with pytest.raises(InterfaceError, match="GRANT TEMP"):
            dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST)
    finally:
        world.run(f"GRANT TEMP ON DATABASE {database} TO PUBLIC")


# -- tables and views ------------------------------------------------------------------------------

SETUP = (
    "CREATE DOMAIN small AS INTEGER CHECK (VALUE < 10)",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE feeling AS ENUM ('sad', 'ok')",
    "CREATE FUNCTION felt(feeling) RETURNS TEXT LANGUAGE SQL AS $$ SELECT 1 / 0 || 'x' $$",
    "CREATE CAST (feeling AS TEXT) WITH FUNCTION felt(feeling)",
    "CREATE COLLATION careless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE SCHEMA mart",
    f"GRANT USAGE ON SCHEMA mart TO {READER}",
    'CREATE TABLE mart.odd (uid BIGINT, "Uid" INT, a small, m mood, t TEXT COLLATE careless, n NUMERIC,'
    " arr INT[], b BYTEA, j JSON, ok NUMERIC(9,2), ch CHAR(3), iv INTERVAL, hidden INT, f feeling)",
    f"GRANT SELECT (uid, \"Uid\", a, m, t, n, arr, b, j, ok, ch, iv, f) ON mart.odd TO {READER}",
    "CREATE TABLE secured (uid BIGINT, k INT)",
    "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE parts (uid BIGINT, k INT) PARTITION BY RANGE (k)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE unseen (uid BIGINT)",
    f"GRANT SELECT ON secured, parts TO {READER}",
)  # fmt: skip


@pytest.fixture(scope="module")
def odd(postgres_server: Server) -> Iterator[PostgreSQLEngine]:
    """An engine over tables of all kinds."""
    world = PostgreSQLWorld(postgres_server, f"odd_{os.getpid()}")
    world.engine(small_tables())
    for statement in SETUP:
        world.run(statement)
    engine = PostgreSQLEngine(world.url)
    yield engine
    engine.close()
    world.close()


def test_columns_without_an_equal_are_left_out_with_the_reason(odd: PostgreSQLEngine) -> None:
    table = odd.catalog().tables["mart.odd"]
    assert [(c.name, str(c.type)) for c in table.columns] == [
        ("uid", "BIGINT"),
        ("m", "VARCHAR"),
        ("j", "JSON"),
        ("ok", "DECIMAL(9,2)"),
    ]
    assert [c.name for c in table.columns if c.enumerated] == ["m"]
    reasons = {left.name: left.reason for left in table.left_out}
    assert set(reasons) == {"Uid", "a", "t", "n", "arr", "b", "ch", "iv", "hidden", "f"}
    assert "case of letters" in reasons["Uid"]
    assert "collation" in reasons["t"]
    assert "may not read" in reasons["hidden"]


def test_tables_that_are_not_one_set_of_rows_are_refused(odd: PostgreSQLEngine) -> None:
    schema = odd.catalog().tables
    assert schema["secured"].unreadable is not None
    assert "row-level security" in schema["secured"].unreadable.reason
    assert schema["parts"].unreadable is None
    assert schema["unseen"].unreadable is not None  # nothing of it may be read
    assert "parts_1" not in schema


def test_a_policy_on_such_a_table_is_refused(odd: PostgreSQLEngine) -> None:
    findings = check_policy(policy(), odd.catalog().tables, odd.definition)
    assert [f for f in findings if f.level == "error"] == []


@pytest.mark.parametrize(
    ("version", "number", "encoding"),
    [
        ("PostgreSQL 14.2 on x86_64-pc-linux-gnu, compiled by gcc", 140002, "UTF8"),
        ("PostgreSQL 15.1 on x86_64-pc-linux-gnu, compiled by gcc", 150001, "SQL_ASCII"),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.1", 80002, "UTF8"),
        ("PostgreSQL 15.2-YB-2.25 on x86_64-pc-linux-gnu", 150002, "UTF8"),
        ("CockroachDB CCL v23.1 (x86_64-pc-linux-gnu)", 150000, "UTF8"),
        ("PostgreSQL 15.1 (Greenplum Database 7.0) on x86_64", 150001, "UTF8"),
    ],
)
def test_other_servers_are_refused(version: str, number: int, encoding: str) -> None:
    def ask(statement: Sql) -> list[tuple[Any, ...]]:
        return [(version, number, encoding, "db", "me")]

    with fails_with("server_unsupported"):
        check_server(ask)


@pytest.mark.parametrize("extra", ["", " (Debian 15.1-1)"])
def test_postgresql_itself_is_served(extra: str) -> None:
    version = f"PostgreSQL 15.1{extra} on x86_64-pc-linux-gnu, compiled by gcc"
    found = check_server(lambda sql: [(version, 150001, "UTF8", "db", "me")])
    assert found == ("db", EngineVersion("postgresql", "15"))


def test_a_version_that_nobody_has_surveyed_is_refused_before_anything(
    world: PostgreSQLWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pretend(monkeypatch, "postgresql", tmp_path) == EngineVersion("postgresql", "99")
    refused_unseen(world.url, policy(), ANALYST, tmp_path)


# -- commands --------------------------------------------------------------------------------------


@pytest.fixture
def run(world: PostgreSQLWorld, tmp_path: Path) -> Callable[..., str]:
    """Runs a command; returns what it printed."""

    def run(*arguments: str, stderr: bool = False) -> str:
        done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
        assert PASSWORD not in done.output
        assert done.exit_code == 0, done.output
        return done.stderr if stderr else done.stdout

    return run


def test_a_policy_is_drafted_checked_and_asked(
    run: Callable[..., str], world: PostgreSQLWorld, tmp_path: Path
) -> None:
    target, ledger = str(tmp_path / "drafted.yaml"), str(tmp_path / "budget.db")
    drafted = [
        "--no-ask",
        "--only",
        "visits",
        "--unit",
        "visits.Uid=person",
        "--account",
        "ana=50,1e-6",
    ]
    run("init", world.url, "-o", target, *drafted)
    text = Path(target).read_text()
    assert PASSWORD not in text
    Path(target).write_text(text + f"\nledger: {ledger}\n" if "ledger:" not in text else text)
    assert "visits" in text
    run("check", "-d", world.url, "-p", target)
    assert "PostgreSQL" in run("check", "-d", world.url, "-p", target, "--survey", stderr=True)
    asked = ["SELECT k, count(*) AS n FROM visits GROUP BY k", "-d", world.url, "-p", target]
    asked += ["-l", ledger, "-a", "ana", "--epsilon", "1", "-f", "json"]
    found = json.loads(run("query", *asked))
    assert found


def test_the_owner_sees_what_does_not_answer() -> None:
    done = CliRunner().invoke(cli, ["check", "-d", "postgresql://a:hidden-word@127.0.0.1:1/b"])
    assert done.exit_code != 0
    assert "hidden-word" not in done.output


def test_no_session_is_left_behind(world: PostgreSQLWorld, tmp_path: Path) -> None:
    with dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST) as opened:
        for sql in QUESTIONS[:3]:
            opened.sql(sql)
    database = world.url.rpartition("/")[2]
    with psycopg.connect(world._server.url("postgres"), autocommit=True) as owner:
        left = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND usename = %s"
        found = owner.execute(left, [database, READER]).fetchone()
    assert found is not None
    assert found[0] <= 4  # those of the world's own engine


def test_sessions_that_the_server_ended_are_replaced(
    world: PostgreSQLWorld, connection: dpsql.Connection
) -> None:
    connection.sql(QUESTIONS[0])
    world.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{READER}'")
    assert connection.sql(QUESTIONS[1]).fetchall()


@pytest.mark.filterwarnings("ignore")
def test_of_json_only_its_presence_is_told(postgres_server: Server, tmp_path: Path) -> None:
    world = PostgreSQLWorld(postgres_server, f"json_{os.getpid()}")
    world.run(
        "CREATE TABLE t AS SELECT i % 50 AS uid, CASE WHEN i % 2 = 0 THEN "
        "jsonb_build_object('a', i) END AS j FROM generate_series(1, 200) i"
    )
    world.run("CREATE TABLE pub AS SELECT 1 AS k, CAST('{\"a\": [1]}' AS json) AS j")
    world.run(f"GRANT SELECT ON t, pub TO {READER}")
    policy = dpsql.parse_policy(
        "version: 1\ndataset: j\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        "defaults: {epsilon: 200, max_rows_contributed: 4, max_groups_contributed: 2}\n"
        "tables:\n  t: {privacy_unit: {name: person, column: uid}}\n  pub: {public: true}\n"
    )
    with dpsql.connect(world.url, policy, tmp_path / "b.db", "ana") as connection:
        ((some,),) = connection.sql("SELECT COUNT(j) FROM t").fetchall()
        ((none,),) = connection.sql("SELECT COUNT(*) FROM t WHERE j IS NULL").fetchall()
        assert abs(some - 100) < 20
        assert abs(none - 100) < 20
        assert connection.sql("SELECT j FROM pub").fetchall() == [('{"a": [1]}',)]
        for refused in ("j = '{}'", "CAST(j AS VARCHAR) LIKE '%a%'", "j IN ('1')", "length(j) > 2"):
            with fails_with("expression_not_allowed", match="whether there is a value"):
                connection.sql(f"SELECT COUNT(*) FROM t WHERE {refused}")
        with fails_with("key_type"):
            connection.sql("SELECT j, COUNT(*) FROM t GROUP BY j")
    world.close()

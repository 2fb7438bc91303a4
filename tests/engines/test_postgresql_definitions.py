"""Definitions on a live server are those that were proved, or nobody gets an answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from helpers.reached_texts import reached_texts
from helpers.unsurveyed import pretend

import dpsql
from dpsql.core.sql import name, sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Reads
from dpsql.engines.evidence.trials import TRIED
from dpsql.engines.postgresql import definitions as postgresql_definitions
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

pytestmark = pytest.mark.slow

READER, PASSWORD = "definitions_reader", "reader-word"
SETUP = (
    "CREATE TABLE base (u BIGINT, k INT, s TEXT, c TEXT COLLATE \"C\", d TEXT COLLATE \"POSIX\")",
    "INSERT INTO base SELECT i % 300, i % 3, 's' || i % 5, 'c', 'd' FROM generate_series(1, 900) i",
    "CREATE VIEW v AS SELECT u, k FROM base WHERE k >= 0",
    "CREATE VIEW above AS SELECT u, k FROM v",
    "CREATE TABLE parts (u BIGINT, k INT) PARTITION BY RANGE (k)",
    "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "INSERT INTO parts SELECT u, k FROM base",
    "CREATE TABLE grand (u BIGINT, k INT)",
    "CREATE TABLE child () INHERITS (grand)",
    "INSERT INTO grand SELECT u, k FROM base",
    "CREATE TABLE partly (u BIGINT, k INT, hidden INT)",
    "INSERT INTO partly SELECT u, k, 1 FROM base",
    "CREATE MATERIALIZED VIEW kept AS SELECT u, k FROM base",
    "CREATE TABLE names (k INT, name TEXT)",
    "INSERT INTO names VALUES (0, 'none'), (1, 'one'), (2, 'two')",
)  # fmt: skip
COUNT: Final = 'SELECT 1 AS "__dpsql_rid", count(*) AS m FROM public.{}'
BASE = Reads((TableName("base"),))
TABLES = ("base", "v", "above", "parts", "grand", "partly", "kept")


@pytest.fixture
def server(postgres_server: Server) -> Iterator[tuple[psycopg.Connection[tuple[object, ...]], str]]:
    """A database of its own for each test, as its owner, and its address for the reader."""
    name = f"definitions_{os.getpid()}"
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        admin.execute(f"CREATE DATABASE {name}".encode())
        admin.execute(f"DROP ROLE IF EXISTS {READER}".encode())
        admin.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'".encode())
    with psycopg.connect(postgres_server.url(name), autocommit=True) as owner:
        for statement in SETUP:
            owner.execute(statement.encode())
        for table in (*(t for t in TABLES if t != "partly"), "names"):
            owner.execute(f"GRANT SELECT ON {table} TO {READER}".encode())
        owner.execute(f"GRANT SELECT (u, k) ON partly TO {READER}".encode())
        yield owner, postgres_server.url(name, READER, PASSWORD)
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        admin.execute(f"DROP ROLE IF EXISTS {READER}".encode())


def policy(tables: Sequence[str] = TABLES) -> Policy:
    unit = PrivacyUnit("u", "u")
    listed = {name: TablePolicy(name, unit) for name in tables}
    return Policy(
        "d",
        Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=3),
        accounts={"ana": AccountPolicy("ana", 500.0, 1e-3)},
        tables={**listed, "names": TablePolicy("names", None)},
    )


def counted(connection: dpsql.Connection, table: str) -> int:
    return len(list(connection.sql(f"SELECT k, count(*) FROM {table} GROUP BY k", fresh=True)))


def assert_refused(connection: dpsql.Connection, table: str) -> None:
    """For whoever asks, in the same words, each time, and for nothing."""
    spent, said = connection.budget().rho_spent, set()
    for _ in range(2):
        with fails_with("definitions_changed") as raised:
            counted(connection, table)
        said.add(f"{raised.value} {raised.value.hint}")
    assert len(said) == 1
    assert connection.budget().rho_spent == spent
    assert connection.budget().unsettled == 0


CHANGES: Mapping[str, tuple[str, str]] = {
    "a view computes": (
        "v", "CREATE OR REPLACE VIEW v AS SELECT u, k FROM base WHERE 1 / k >= 0"
    ),
    "a view below one computes": (
        "above", "CREATE OR REPLACE VIEW v AS SELECT u, k FROM base WHERE 1 / k >= 0"
    ),
    "a view reads with other rights": ("v", "ALTER VIEW v SET (security_invoker = true)"),
    "a column has another type": (
        "parts", "ALTER TABLE parts ALTER COLUMN u TYPE TEXT USING u::TEXT"
    ),
    "a column below a view is renamed": ("v", "ALTER TABLE base RENAME COLUMN s TO other"),
    "rows are secured": ("base", "ALTER TABLE base ENABLE ROW LEVEL SECURITY"),
    "rows below a view are secured": ("above", "ALTER TABLE base ENABLE ROW LEVEL SECURITY"),
    "a part is kept elsewhere": (
        "parts",
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
        "CREATE FOREIGN TABLE parts_1 PARTITION OF parts FOR VALUES FROM (10) TO (20) SERVER s",
    ),
    "a grandchild is kept elsewhere": (
        "grand",
        "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
        "CREATE FOREIGN TABLE grandchild () INHERITS (child) SERVER s",
    ),
    "a table is another one": (
        "grand",
        "ALTER TABLE grand RENAME TO former; CREATE TABLE grand (u BIGINT, k INT); "
        f"GRANT SELECT ON grand TO {READER}",
    ),
    "a table is gone": ("partly", "DROP TABLE partly"),
    "it may be read no more": ("grand", f"REVOKE SELECT ON grand FROM {READER}"),
    "texts are cast by the owner": (
        "base",
        "CREATE FUNCTION two(BIGINT) RETURNS TEXT LANGUAGE SQL AS $$ SELECT (2 / $1)::INT::TEXT $$;"
        "CREATE CAST (BIGINT AS TEXT) WITH FUNCTION two(BIGINT)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", CHANGES)
def test_a_definition_that_changed_is_refused_for_everybody(
    why: str, server: tuple[psycopg.Connection[tuple[object, ...]], str], tmp_path: Path
) -> None:
    owner, url = server
    table, change = CHANGES[why]
    before = TRIED["definitions"]
    with dpsql.connect(url, policy(), tmp_path / "budget.db", "ana") as connection:
        assert counted(connection, table) == 3
        with dpsql.connect(url, policy(), tmp_path / "budget.db", "ana") as unused:
            owner.execute(change.encode())
            assert_refused(connection, table)
            with pytest.raises(dpsql.Error):  # what was not planned before: there or before
                unused.sql(f"SELECT count(*) FROM {table}", fresh=True)
            assert unused.budget().unsettled == 0
    assert TRIED["definitions"] >= before + 3


@pytest.mark.parametrize("table", TABLES)
def test_what_changes_no_definition_is_answered(
    table: str, server: tuple[psycopg.Connection[tuple[object, ...]], str], tmp_path: Path
) -> None:
    owner, url = server
    with dpsql.connect(url, policy(), tmp_path / "budget.db", "ana") as connection:
        assert counted(connection, table) == 3
        for harmless in (
            "INSERT INTO base SELECT i, 1, 's', 'c', 'd' FROM generate_series(1, 30) i",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (10) TO (20)",
            "CREATE INDEX ON base (u)",
            "ALTER TABLE base SET (autovacuum_enabled = false)",
            "CREATE TABLE further (u BIGINT)",
            "REFRESH MATERIALIZED VIEW kept",
            "ANALYZE base",
            "COMMENT ON VIEW v IS 'seen'",
        ):
            owner.execute(harmless.encode())
        assert counted(connection, table) == 3
        assert len(list(connection.sql("SELECT name FROM names"))) == 3


def test_tables_stay_as_they_are_until_a_run_is_over(
    server: tuple[psycopg.Connection[tuple[object, ...]], str],
) -> None:
    """TRUNCATE takes rows from snapshots that are older: between two steps, from the second."""
    owner, url = server
    with closing(PostgreSQLEngine(url)) as database:
        engine = database.open(TABLES)
        names = [engine.schema[key].name for key in TABLES]
        run = engine.run()
        run.begin(names)
        owner.execute(b"SET lock_timeout = '200ms'")
        with run:
            for table in TABLES:
                rows = run.over(Reads((engine.schema[table].name,)))
                count = sql(COUNT, name(table))
                before = rows.exact(count, (), ["m"]).measures["m"].tolist()
                if table == "kept":
                    change = "REFRESH MATERIALIZED VIEW kept"
                elif table in ("v", "above"):
                    change = f"CREATE OR REPLACE VIEW {table} AS SELECT u, k FROM base LIMIT 1"
                else:
                    change = f"TRUNCATE {table}"
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    owner.execute(change.encode())
                assert rows.exact(count, (), ["m"]).measures["m"].tolist() == before
        owner.execute(b"TRUNCATE base")
        owner.execute(b"RESET lock_timeout")


def test_a_run_that_nobody_began_begins_with_all_tables(
    server: tuple[psycopg.Connection[tuple[object, ...]], str],
) -> None:
    owner, url = server
    count = sql(COUNT, name("base"))
    with closing(PostgreSQLEngine(url)) as database:
        engine = database.open(TABLES)
        with engine.run() as run:
            assert run.over(BASE).exact(count, (), ["m"]).measures["m"].tolist() == [900]
        owner.execute(b"CREATE OR REPLACE VIEW v AS SELECT u, k FROM base WHERE 1 / k >= 0")
        with engine.run() as run, pytest.raises(dpsql.EngineError):
            run.over(BASE).exact(count, (), ["m"])


def test_a_server_of_another_version_is_another_one(
    server: tuple[psycopg.Connection[tuple[object, ...]], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was upgraded below an open connection: what is known of it is of the version before."""
    asked = postgresql_definitions._DIGESTS
    number = "current_setting('server_version_num')"
    assert number in asked
    with closing(PostgreSQLEngine(server[1])) as database:
        engine = database.open(TABLES)
        names = [engine.schema[key].name for key in TABLES]
        with engine.run() as run:
            run.begin(names)
        monkeypatch.setattr(postgresql_definitions, "_DIGESTS", asked.replace(number, "'990000'"))
        with engine.run() as run, fails_with("definitions_changed"):
            run.begin(names)
        pretend(monkeypatch, "postgresql", tmp_path)
        with fails_with("engine_not_surveyed"):
            database.open(TABLES)


def test_nothing_unlisted_can_be_reached_or_read(
    server: tuple[psycopg.Connection[tuple[object, ...]], str],
) -> None:
    with closing(PostgreSQLEngine(server[1])) as database:
        engine, tables = database.open(["names", "parts"]), database.catalog().tables
        assert set(engine.schema) == {"names", "parts"}
        for key in ("base", "v", "partly"):
            with engine.run() as run, pytest.raises(dpsql.EngineError):
                run.stream(tables[key])
            with pytest.raises(dpsql.QueryRefused):
                engine.bind(sql("SELECT u FROM {}", name(key)))
        with engine.run() as run:
            run.stream(tables["names"])
        texts = reached_texts(engine)
        assert "parts" in texts
        assert not texts & {"base", "above", "partly", "kept", "grand"}


OWN = {
    "cast": (
        "CREATE FUNCTION read_it(TEXT) RETURNS INT LANGUAGE SQL AS $$ SELECT 1 / length($1) $$; "
        "CREATE CAST (TEXT AS INT) WITH FUNCTION read_it(TEXT) AS ASSIGNMENT"
    ),
    "function": (
        "SET allow_system_table_mods = on; CREATE FUNCTION pg_catalog.abs(TEXT) RETURNS TEXT "
        "LANGUAGE SQL AS $$ SELECT $1 $$"
    ),
    "operator": (
        "SET allow_system_table_mods = on; CREATE OPERATOR pg_catalog.+ "
        "(LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = textcat)"
    ),
}


@pytest.mark.parametrize("what", OWN)
def test_what_stands_in_the_place_of_postgresqls_own_is_refused(
    what: str, server: tuple[psycopg.Connection[tuple[object, ...]], str], tmp_path: Path
) -> None:
    owner, url = server
    owner.execute(OWN[what].encode())
    with fails_with("server_unsupported", match=what):
        dpsql.connect(url, policy(), tmp_path / "budget.db", "ana")


VIEWS: Mapping[str, str] = {
    "texts of two collations": "SELECT u, k FROM base WHERE c = d",
    "texts of two collations in a list": "SELECT u, k FROM base WHERE c IN (d, s)",
    "texts of two collations, told apart": "SELECT u, k FROM base WHERE c IS DISTINCT FROM d",
    "the larger of two collations": 'SELECT u, k FROM base WHERE greatest(c, d) COLLATE "C" > s',
    "NULL of two collations": 'SELECT u, k FROM base WHERE nullif(c, d) COLLATE "C" > s',
    "records": "SELECT u, k FROM base WHERE ROW(u, k) < ROW(k, u)",
    "whole rows": "SELECT a.u, a.k FROM base a JOIN base b ON a = b",
    "arrays": "SELECT u, k FROM base WHERE ARRAY[u] = ARRAY[1::BIGINT]",
    "points": "SELECT u, k FROM base WHERE point(u, k) ~= point(1, 1)",
    "secured rows": "SELECT u, k FROM secured",
    "a grandchild of another server": "SELECT u, k FROM grand",
}


@pytest.mark.parametrize("why", VIEWS)
def test_a_view_that_can_fail_on_a_row_is_refused(
    why: str, server: tuple[psycopg.Connection[tuple[object, ...]], str]
) -> None:
    owner, url = server
    for statement in (
        "CREATE TABLE secured (u BIGINT, k INT)",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE grandchild () INHERITS (child) SERVER s",
        f"CREATE VIEW tried AS {VIEWS[why]}",
        f"GRANT SELECT ON tried TO {READER}",
    ):
        owner.execute(statement.encode())
    with closing(PostgreSQLEngine(url)) as database:
        tables = database.catalog().tables
        assert database.definition(tables["tried"].name).refusal is not None
        assert tables["grand"].unreadable is not None


FINE = (
    "SELECT u, k FROM base WHERE c = 'x'",
    "SELECT u, k FROM base WHERE c COLLATE \"C\" = d COLLATE \"C\"",
    "SELECT u, k, greatest(c, 'x') AS s FROM base WHERE s <> 'a' AND k IN (1, 2, 3)",
    "SELECT u, k FROM base WHERE s IS NOT NULL AND k BETWEEN 1 AND 2",
)  # fmt: skip


@pytest.mark.parametrize("sql", FINE)
def test_views_that_compare_single_values_under_one_collation_are_read(
    sql: str, server: tuple[psycopg.Connection[tuple[object, ...]], str]
) -> None:
    owner, url = server
    owner.execute(f"CREATE VIEW tried AS {sql}".encode())
    owner.execute(f"GRANT SELECT ON tried TO {READER}".encode())
    with closing(PostgreSQLEngine(url)) as database:
        assert database.definition(database.catalog().tables["tried"].name).refusal is None


def test_what_a_lock_waits_for_ends(
    server: tuple[psycopg.Connection[tuple[object, ...]], str], postgres_server: Server
) -> None:
    """An owner who holds a table for long makes questions wait, and then be refused for nothing."""
    owner, url = server
    database_name = owner.info.dbname
    with closing(PostgreSQLEngine(url)) as database:
        engine = database.open(["base"])
        with psycopg.connect(postgres_server.url(database_name)) as holding:
            holding.execute(b"LOCK TABLE base IN ACCESS EXCLUSIVE MODE")
            freed = threading.Timer(1.0, holding.rollback)
            freed.start()
            run = engine.run(30.0)
            run.begin([engine.schema["base"].name])
            run.release()
            freed.join()


LEFT_OPEN = """
import sys
import dpsql
from dpsql.core.table_name import TableName
connection = dpsql.connect(*sys.argv[1:4], "ana")
print(len(list(connection.sql("SELECT k, count(*) FROM base GROUP BY k"))))
if sys.argv[4] == "in a run":
    run = connection._answerer.engine.run(60.0)
    run.begin([TableName("base")])
    run.__enter__()
raise SystemExit(3 if sys.argv[4] == "failing" else 0)
"""
POLICY_TEXT = """
version: 1
dataset: d
defaults: {epsilon: 5, delta: 1e-6, max_groups_contributed: 3}
accounts: {ana: {epsilon: 50, delta: 1e-3}}
tables: {base: {privacy_unit: {name: u, column: u}}}
"""


@pytest.mark.parametrize("how", ["left open", "in a run", "failing"])
def test_a_process_that_closes_nothing_ends_without_a_word(
    how: str, server: tuple[psycopg.Connection[tuple[object, ...]], str], tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY_TEXT, encoding="utf-8")
    given = [server[1], str(tmp_path / "p.yaml"), str(tmp_path / "budget.db"), how]
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, *given],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "_ADBC_DRIVER_MANAGER_WARN_UNCLOSED_RESOURCES": "1"},
    )
    assert done.stdout == "3\n", done.stderr
    assert done.returncode == (3 if how == "failing" else 0)
    assert "Cannot close" not in done.stderr
    assert "adbc" not in done.stderr.lower()

"""Tools look into the catalogs: psql, psycopg and SQLAlchemy themselves, at a real server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from helpers.serving import PASSWORD, POLICY, Serving, filled, psql_program, started
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo
from psycopg.types.enum import EnumInfo
from psycopg.types.range import RangeInfo


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("served")
    filled(directory)
    found = started(directory)
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


def psql(server: Serving, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run psql on some commands, without anything of this user's own."""
    return subprocess.run(
        [psql_program(), "-X", "-A", "-t", server.address()],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PAGER": "cat", "PGPASSWORD": PASSWORD},
    )


# -- psql -----------------------------------------------------------------------------------------

ANSWERED = (
    *(
        r"\d",
        r"\d visits",
        r"\d+ visits",
        r"\d public.visits",
        r"\dt",
        r"\dt+",
        r"\dt *.*",
        r"\dtS",
    ),
    *(r"\l", r"\l+", r"\du", r"\du+", r"\dg", r"\dn", r"\dn+", r"\df", r"\df+", r"\dT", r"\dT+"),
    *(r"\dTS", r"\dp", r"\z", r"\ddp", r"\da", r"\dA", r"\dA+", r"\dAc", r"\dAf", r"\dAo", r"\dAp"),
    *(r"\db", r"\db+", r"\dc", r"\dC", r"\dd", r"\dD", r"\des", r"\det", r"\deu", r"\dew", r"\dF"),
    *(
        r"\dFd",
        r"\dFp",
        r"\dFt",
        r"\dL",
        r"\dL+",
        r"\do",
        r"\dO",
        r"\dOS+",
        r"\dP",
        r"\dRp",
        r"\dRs",
    ),
    *(r"\dx", r"\dX", r"\dy", r"\dconfig", r"\conninfo", r"\encoding", r"\d pg_class"),
)
EMPTY = (r"\dv", r"\dm", r"\di", r"\di+", r"\ds", r"\dE", r"\drds")
"""Commands that find nothing, as psql says in words of its own."""


@pytest.mark.slow
def test_commands_of_psql_are_answered(server: Serving) -> None:
    found = psql(server, *ANSWERED)
    assert found.stderr == ""
    nothing = psql(server, *EMPTY).stderr.splitlines()
    assert len(nothing) == len(EMPTY)
    assert all(line.startswith("Did not find any ") for line in nothing)


def test_psql_shows_tables_with_what_the_policy_says(server: Serving) -> None:
    shown = psql(server, r"\dt+").stdout.splitlines()
    assert shown[0].split("|")[1:4] == ["visits", "table", "owner"]
    assert shown[0].endswith("|0 bytes|private: protects each patient")
    assert shown[1].endswith("|0 bytes|public")
    columns = [line.split("|") for line in psql(server, r"\d+ visits").stdout.splitlines()]
    assert [(c[0], c[1], c[-1]) for c in columns if len(c) > 5] == [
        ("patient_id", "bigint", "privacy unit: patient"),
        ("cost", "numeric(3,1)", "0 to 100"),
        ("ward", "text", "one of: a, b"),
        ("day", "date", ""),
    ]
    assert psql(server, r"\du").stdout.split() == ["ana||{}", "owner|Cannot", "login|{}"]
    assert psql(server, r"\l").stdout.startswith("clinic|owner|UTF8|C|C|")


# -- psycopg --------------------------------------------------------------------------------------


def test_psycopg_fetches_types(server: Serving) -> None:
    with server.connect() as con:
        for name, oid, array in (("int4", 23, 1007), ("numeric", 1700, 1231), ("text", 25, 1009)):
            found = TypeInfo.fetch(con, name)
            assert found is not None
            assert (found.oid, found.array_oid, found.name) == (oid, array, name)
        assert TypeInfo.fetch(con, "hstore") is None
        ranged = RangeInfo.fetch(con, "int4range")
        assert ranged is not None
        assert ranged.subtype_oid == 23
        assert EnumInfo.fetch(con, "mood") is None
        assert CompositeInfo.fetch(con, "pair") is None


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_catalogs_come_with_their_types(binary: bool, server: Serving) -> None:
    with server.connect() as con:
        cursor = con.cursor(binary=binary)
        found = cursor.execute(
            "SELECT relname, current_schemas(true), 'visits'::regclass, relnamespace::regnamespace,"
            " 23::regtype, oid = 'public.visits'::regclass FROM pg_class"
            " WHERE relkind = ANY(%s) AND relnamespace = ANY(%b) AND relname = %s",
            (["r", "v"], [2200, 11], "visits"),
        )
        assert found.fetchall() == [
            ("visits", ["pg_catalog", "public"], "visits", "public", "integer", True)
        ]
        assert [column.name for column in found.description or ()] == [
            *("relname", "current_schemas", "regclass", "relnamespace", "regtype", "?column?")
        ]
        absent = cursor.execute(
            "SELECT relname FROM pg_class WHERE relname = ANY(%s)", ([None, 'a"b', "x, y"],)
        )
        assert absent.fetchall() == []


def test_cursors_copies_and_describing_are_for_catalogs_as_well(server: Serving) -> None:
    asked = "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = 2200 ORDER BY 1"
    with server.connect(autocommit=False) as con, con.cursor(name="tables") as cursor:
        assert cursor.execute(asked.encode()).fetchall() == [("visits",), ("wards",)]
    with server.connect() as con, con.cursor() as plain:
        with plain.copy(f"COPY ({asked}) TO STDOUT".encode()) as copy:
            assert b"".join(map(bytes, copy)) == b"visits\nwards\n"
        con.pgconn.prepare(b"s", b"SELECT relname, oid FROM pg_class WHERE relname = $1", [])
        described = con.pgconn.describe_prepared(b"s")
        assert described.nparams == 1
        assert [described.ftype(i) for i in range(described.nfields)] == [25, 20]


# -- SQLAlchemy -----------------------------------------------------------------------------------


def test_sqlalchemy_inspects_and_reflects(server: Serving) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = sqlalchemy.URL.create(
        "postgresql+psycopg", "ana", PASSWORD, "127.0.0.1", server.port, "clinic"
    )
    engine = sqlalchemy.create_engine(url, connect_args={"sslmode": "disable"})
    seen = sqlalchemy.inspect(engine)
    assert seen.get_table_names() == ["visits", "wards"]
    assert seen.get_schema_names() == ["information_schema", "public"]
    assert seen.get_view_names() == seen.get_materialized_view_names() == []
    assert (seen.has_table("visits"), seen.has_table("none")) == (True, False)
    columns = {c["name"]: c for c in seen.get_columns("visits")}
    assert str(columns["cost"]["type"]) == "NUMERIC(3, 1)"
    assert columns["patient_id"]["comment"] == "privacy unit: patient"
    assert seen.get_pk_constraint("visits")["constrained_columns"] == []
    assert seen.get_table_comment("wards") == {"text": "public"}
    for nothing in ("foreign_keys", "indexes", "unique_constraints", "check_constraints"):
        assert getattr(seen, f"get_{nothing}")("visits") == []
    assert seen.get_enums() == []
    reflected = sqlalchemy.MetaData()
    reflected.reflect(engine)
    assert list(reflected.tables["wards"].columns.keys()) == ["ward", "beds", "note"]
    with engine.connect() as con:
        wards = sqlalchemy.select(reflected.tables["wards"].c.beds)
        assert con.execute(wards).scalar() == 3
    engine.dispose()


def test_adbc_lists_objects(server: Serving) -> None:
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
    secret = PASSWORD.replace(" ", "%20")
    url = f"postgresql://ana:{secret}@127.0.0.1:{server.port}/clinic?sslmode=disable"
    with adbc.connect(url) as con:
        assert con.adbc_get_table_schema("wards").names == ["ward", "beds", "note"]
        (catalog,) = con.adbc_get_objects(depth="all").read_all().to_pylist()
    schemas = {s["db_schema_name"]: s["db_schema_tables"] for s in catalog["catalog_db_schemas"]}
    visits = next(t for t in schemas["public"] if t["table_name"] == "visits")
    names = {c["column_name"]: c["remarks"] for c in visits["table_columns"]}
    assert names["patient_id"] == "privacy unit: patient"


# -- what is refused ------------------------------------------------------------------------------


PATH = "string_to_array(current_setting('search_path'), ',')"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        # The schemas that are searched, one a row: a function of one value, and a series up to
        # what a catalog says, in FROM.
        (
            f"SELECT btrim(s[i]) FROM generate_series(array_lower({PATH}, 1), array_upper({PATH}, "
            f"1)) AS i, {PATH} AS s ORDER BY i",
            [('"$user"',), ("public",)],
        ),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_schema IN (SELECT "
            f"btrim(s[i]) FROM generate_series(1, array_length({PATH}, 1)) AS i, {PATH} s) "
            "AND table_name = (parse_ident('visits'))[1]",
            [("visits",)],
        ),
        # A name that is written of its parts is a relation's.
        (
            "SELECT c.relname FROM pg_class c JOIN information_schema.tables t "
            "ON c.oid = CAST(CAST(format('%I.%I', t.table_schema, t.table_name) AS regclass) "
            "AS oid) "
            "WHERE t.table_name = 'visits'",
            [("visits",)],
        ),
        (
            "SELECT c.relname FROM pg_class c JOIN information_schema.tables t "
            "ON c.oid = (t.table_schema || '.' || t.table_name)::regclass "
            "WHERE t.table_name = 'visits'",
            [("visits",)],
        ),
        (
            "SELECT pg_is_wal_replay_paused(), count(age(l.transactionid)) FROM pg_locks l",
            [(False, 0)],
        ),
    ],
)
def test_functions_in_from_and_names_of_parts(
    asked: str, found: list[tuple[object, ...]], server: Serving
) -> None:
    with server.connect() as con:
        assert con.execute(asked.encode()).fetchall() == found
        assert con.execute("SHOW search_path").fetchall() == [('"$user", public',)]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT COUNT(*) FROM visits, pg_catalog.pg_class",
        "SELECT relname FROM pg_class WHERE relname IN (SELECT ward FROM visits)",
        "WITH v AS (SELECT ward FROM visits) SELECT * FROM v, information_schema.tables",
    ],
)
def test_catalogs_and_tables_are_not_mixed(asked: str, server: Serving) -> None:
    with server.connect() as con:
        before = con.execute("SHOW BUDGET").fetchall()
        for text in (asked, f"DECLARE c CURSOR FOR {asked}", f"COPY ({asked}) TO STDOUT"):
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match="either catalogs or tables"
            ):
                con.execute(text.encode())
        assert con.execute("SHOW BUDGET").fetchall() == before


def test_what_only_looks_like_a_catalog_is_none(server: Serving) -> None:
    with server.connect() as con:
        counted = "WITH pg_class AS (SELECT * FROM visits) SELECT COUNT(*) FROM pg_class"
        ((count,),) = con.execute(counted).fetchall()
        assert abs(count - 2000) < 500  # patients, with noise; tables are few
        assert con.execute("SHOW BUDGET").fetchall()[0][2] > 0
        for absent in ("SELECT * FROM public.pg_class", "SELECT COUNT(*) FROM main.pg_class"):
            with pytest.raises(psycopg.errors.UndefinedTable):
                con.execute(absent.encode())
        con.execute("SELECT set_config('dpsql.account', 'bob', false)")
        assert con.execute("SHOW BUDGET").fetchall()[0][0] == "clinic/ana"


def test_a_text_with_the_name_of_a_catalog_decides_nothing(server: Serving) -> None:
    with server.connect() as con:
        found = con.execute(
            "SELECT 'pg_class' AS a, ward, COUNT(*) FROM visits"
            " WHERE ward <> 'FROM pg_catalog.pg_class' GROUP BY ward"
        ).fetchall()
        assert [row[:2] for row in found] == [("pg_class", "a"), ("pg_class", "b")]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT pg_read_file('/etc/passwd'), relname FROM pg_class",
        "SELECT * FROM pg_class, read_text('/etc/passwd')",
        "SELECT * FROM pg_class, '/etc/passwd'",
        "SELECT relname, getenv('HOME') FROM pg_class",
        "WITH d AS (DELETE FROM pg_class RETURNING oid) SELECT * FROM d",
        "SELECT * INTO t FROM pg_class",
        "SELECT nothing FROM pg_class",
        "SELECT current_setting('memory_limit') FROM duckdb_settings(), pg_class",
        "SELECT SUM(a.x * b.x) FROM generate_series(1, 9000000) a(x),"
        " generate_series(1, 9000000) b(x), pg_class",
        "SELECT string_agg(repeat('x', 900000), '') FROM pg_class, pg_attribute a, pg_attribute",
    ],
)
def test_a_query_is_all_that_catalogs_take(asked: str, server: Serving) -> None:
    with server.connect() as con:
        with pytest.raises(psycopg.Error) as caught:
            con.execute(asked.encode()).fetchall()
        assert "root" not in str(caught.value)
        assert con.execute("SELECT 1 FROM pg_class LIMIT 1").fetchone() == (1,)


def test_what_is_not_answered_is_logged_without_its_values(server: Serving) -> None:
    with server.connect() as con, pytest.raises(psycopg.errors.FeatureNotSupported):
        con.execute("SELECT nonsense FROM pg_class WHERE relname = 'Jane' AND oid = 4711")
    log = server.log.read_text()
    assert "SELECT nonsense FROM pg_class WHERE relname = ? AND oid = ?" in log
    assert not any(word in log for word in ("Jane", "4711"))


@pytest.mark.slow
def test_nothing_is_paid_for_a_query_over_catalogs(server: Serving) -> None:
    with server.connect() as con:
        before = con.execute("SHOW BUDGET").fetchall()
        con.execute("SELECT * FROM pg_class, pg_attribute WHERE attrelid = pg_class.oid")
        assert con.execute("SHOW BUDGET").fetchall() == before


# -- what catalogs tell of the data ---------------------------------------------------------------

RELATIONS = ("pg_class", "pg_attribute", "pg_description", "pg_stat_user_tables", "pg_tables")


def rows_of_all(server: Serving) -> dict[str, Any]:
    """The rows of every catalog that there is."""
    with server.connect() as con:
        listed = con.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.oid IN (11, (SELECT oid FROM pg_namespace WHERE"
            " nspname = 'information_schema'))"
        ).fetchall()
        return {
            f"{schema}.{name}": con.execute(f'SELECT * FROM {schema}."{name}"'.encode()).fetchall()
            for schema, name in listed
        }


@pytest.mark.slow
def test_catalogs_are_the_same_whatever_the_data(server: Serving, tmp_path: Path) -> None:
    filled(tmp_path)
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as owner:
        owner.execute("DELETE FROM visits WHERE patient_id > 7")
        owner.execute("UPDATE visits SET cost = 1, ward = 'b'")
        owner.execute("CREATE TABLE unlisted AS SELECT 1 AS secret")
        owner.execute("CHECKPOINT")
    other = started(tmp_path)
    try:
        one, two = rows_of_all(server), rows_of_all(other)
    finally:
        other.process.send_signal(signal.SIGTERM)
        other.process.wait(60)
    assert len(one) > 150
    assert one == two
    assert len(one["pg_catalog.pg_tables"]) == 2


@pytest.mark.slow
def test_catalogs_are_those_of_the_edition_that_is_served(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "clinic.duckdb").rename(tmp_path / "one.duckdb")
    (tmp_path / "clinic.duckdb").symlink_to("one.duckdb")
    server = started(tmp_path)
    asked = "SELECT tablename FROM pg_tables ORDER BY 1"
    try:
        with server.connect() as con:
            assert con.execute(asked).fetchall() == [("visits",), ("wards",)]
            shutil.copy(tmp_path / "one.duckdb", tmp_path / "two.duckdb")
            with duckdb.connect(str(tmp_path / "two.duckdb")) as owner:
                owner.execute("CREATE TABLE doctors AS SELECT 1 AS a")
            (tmp_path / "next").symlink_to("two.duckdb")
            (tmp_path / "next").rename(tmp_path / "clinic.duckdb")
            more = POLICY.replace("  wards: {public: true}", "  doctors: {public: true}")
            (tmp_path / "policies.yaml").write_text(more, encoding="utf-8")
            server.process.send_signal(signal.SIGHUP)
            for _ in range(100):
                if "opened again" in server.log.read_text():
                    break
                time.sleep(0.1)
            assert con.execute(asked).fetchall() == [("doctors",), ("visits",)]
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
    assert "Traceback" not in server.log.read_text()

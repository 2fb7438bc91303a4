"""What a query over catalogs may take: time, memory, and nothing of others."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from helpers.serving import Serving, filled, started

from dpsql.core.schema import Column, Table, schema_of
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.errors import EngineError, NotSupportedError
from dpsql.policy.load import parse_policy
from dpsql.server.catalog.asking import CatalogAsking
from dpsql.server.catalog.macros import CATALOG_FUNCTIONS
from dpsql.server.catalog.packed_values import packed_value, unpacked_value
from dpsql.server.catalog.room import CatalogRoom
from dpsql.server.catalog.structure import structure
from dpsql.syntax.catalog_spelling import CatalogNames, CatalogSpeaker, catalog_query

ENDLESS = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d"
STRANGE = "a\"b'c\\d; DROP TABLE pg_class; --\né"
COLUMN = "x'; SELECT 1 --\t\"{}"
POLICY = parse_policy(
    f"""
version: 1
dataset: clinic
defaults: {{epsilon: 1.0, delta: 1e-9}}
accounts: {{ana: {{epsilon: 1, delta: 1e-6}}}}
tables:
  {json.dumps(STRANGE)}: {{public: true}}
  visits:
    privacy_unit: {{name: "o'x", column: patient_id}}
    columns: {{w: {{domain: ["'; --"]}}}}
"""
)
SCHEMA = schema_of(
    Table(TableName(STRANGE), (Column(COLUMN, SqlType.of("VARCHAR")),)),
    Table("visits", tuple(Column(n, SqlType.of("VARCHAR")) for n in ("patient_id", "w"))),
)
NAMES = CatalogNames(structure().names, CATALOG_FUNCTIONS, frozenset(POLICY.tables))


@pytest.fixture(scope="module")
def room() -> Iterator[CatalogRoom]:
    found = CatalogRoom(structure(), POLICY, SCHEMA)
    yield found
    found.close()


def ask(room: CatalogRoom, text: str, *values: object, user: str = "ana") -> list[object]:
    query = catalog_query(text, NAMES)
    assert query is not None
    written = query.spelled(values, CatalogSpeaker(user, user, "PostgreSQL 15.0"))
    return [*room.ask(written, CatalogAsking(), rows=True).fetchall()]


# -- names of a policy, and of whoever asks -------------------------------------------------------


@pytest.mark.slow
def test_names_of_any_characters_are_values_and_never_text(room: CatalogRoom) -> None:
    named = "SELECT relname FROM pg_class WHERE relname = $1 AND pg_table_is_visible(oid)"
    assert ask(room, named, STRANGE) == [(STRANGE,)]
    columns = "SELECT attname FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class " + (
        "WHERE relname = $1)"
    )
    assert ask(room, columns, STRANGE) == [(COLUMN,)]
    told = "SELECT description FROM pg_description ORDER BY objsubid, 1"
    assert ask(room, told) == [
        *(("private: protects each o'x",), ("public",), ("privacy unit: o'x",)),
        ("one of: '; --",),
    ]
    asked = "SELECT current_user, current_database(), pg_get_userbyid(16384), rolname FROM pg_roles"
    found = ask(room, asked + " WHERE oid = 16384", user=STRANGE)
    assert found == [(STRANGE,) * 4]
    assert ask(room, "SELECT quote_ident(relname) FROM pg_class WHERE relname = 'visits'")


# -- memory and time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("SELECT length(repeat('x', 2000000000)) FROM pg_am", "too much memory|too long"),
        ("SELECT repeat('x', 900000) FROM pg_attribute", "too much memory|too long"),
        ("SELECT a.attname FROM pg_attribute a, pg_attribute b", "not one that is known|too"),
        ("SELECT generate_series(1, 1000000000000) FROM pg_am", "not one that is known|too"),
        ("SELECT count(*) FROM generate_series(1, 1000000000000), pg_am", "not one that is known"),
        pytest.param(ENDLESS, "too long", marks=pytest.mark.slow),
    ],
)
def test_beyond_its_limits_a_query_ends_and_the_next_is_answered(
    asked: str, reason: str, room: CatalogRoom
) -> None:
    began = time.monotonic()
    with pytest.raises(NotSupportedError, match=reason):
        ask(room, asked)
    assert time.monotonic() - began < 15
    assert len(ask(room, "SELECT oid FROM pg_am")) == 7


def test_what_is_parsed_is_limited(room: CatalogRoom) -> None:
    with pytest.raises(NotSupportedError, match="too many values"):
        ask(room, "SELECT oid FROM pg_class WHERE oid = ANY($1)", [1] * 20_000)
    many = ", ".join(["tableoid"] * 1500)
    began = time.monotonic()
    assert catalog_query(f"SELECT {many} FROM pg_class", NAMES) is not None
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_who_is_stopped_before_it_began_is_interrupted(room: CatalogRoom) -> None:
    asking = CatalogAsking()
    asking.stop()
    with pytest.raises(EngineError, match="interrupted"):
        room.ask(ENDLESS.replace("pg_attribute", "pg.pg_attribute"), asking, rows=True)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE pg.pg_class",
        "SELECT 1; SELECT 2",
        "CREATE TABLE pg.t AS SELECT 1",
        "SET memory_limit = '1GB'",
        "ATTACH '/tmp/x.duckdb'",
        "COPY pg.pg_am TO '/tmp/x.csv'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "",
    ],
)
def test_a_process_takes_one_query_alone_and_reads_no_file(text: str, room: CatalogRoom) -> None:
    with pytest.raises(NotSupportedError):
        room.ask(text, CatalogAsking(), rows=True)
    assert len(ask(room, "SELECT oid FROM pg_am")) == 7


def test_values_that_no_process_sends_are_none() -> None:
    for wrong in ({"a": 1}, ["os.system", "x"], ["Decimal", "x"], ["list"], [1, 2, 3]):
        if isinstance(wrong, dict):
            continue
        with pytest.raises((KeyError, TypeError, ValueError, ArithmeticError)):
            unpacked_value(wrong)
    for value in (None, True, 1, 0.5, "a", b"a", [1, [None]], {"a": b"b"}, (1, "x")):
        assert unpacked_value(packed_value(value)) == value


# -- at a server ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("served")
    filled(directory)
    found = started(directory)
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


@pytest.mark.slow
def test_cancelling_and_statement_timeout_stop_a_query(server: Serving) -> None:
    with server.connect() as con:
        con.execute("SELECT 1 FROM pg_class")
        threading.Timer(0.5, con.cancel).start()
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="interrupted"):
            con.execute(ENDLESS.encode())
        con.execute("SET statement_timeout = 300")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
            con.execute(ENDLESS.encode())
        assert time.monotonic() - began < 4
        assert con.execute("SELECT count(*) FROM pg_tables").fetchone() == (2,)


@pytest.mark.slow
def test_a_long_query_holds_up_no_other(server: Serving) -> None:
    with server.connect() as one, server.connect() as two:
        two.execute("SELECT 1 FROM pg_class")
        one.pgconn.send_query(ENDLESS.encode())
        began = time.monotonic()
        assert two.execute("SELECT count(*) FROM pg_tables").fetchone() == (2,)
        assert two.execute("SELECT beds FROM wards").fetchone() == (3,)
        assert time.monotonic() - began < 3
        one.cancel()
        while one.pgconn.get_result() is not None:
            pass


@pytest.mark.slow
def test_nothing_is_left_of_a_server_that_ended(tmp_path: Path) -> None:
    filled(tmp_path)
    here = tmp_path / "temporary"
    here.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(here)
    try:
        server = started(tmp_path)
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
    with server.connect() as con:
        con.execute("SELECT 1 FROM pg_class")
        (made,) = here.iterdir()
        assert made.stat().st_mode & 0o077 == 0
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert list(here.iterdir()) == []

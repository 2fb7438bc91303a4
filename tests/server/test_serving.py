"""A real server process, and clients on PostgreSQL's own library: psycopg."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from helpers.certificates import made
from helpers.serving import PASSWORD, POLICY, Serving, filled, started

from dpsql.server.audit import verify_audit
from dpsql.server.people.users import Users
from dpsql.server.wire.door import MOST_OF_ADDRESS


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
def test_the_audit_log_has_who_asked_what_and_what_became_of_it(tmp_path: Path) -> None:
    filled(tmp_path)
    server = started(tmp_path)
    question = "SELECT COUNT(*) FROM visits WHERE ward = 'a'"
    with server.connect() as con:
        con.execute(question)
        with pytest.raises(psycopg.Error):
            con.execute("SELECT * FROM visits")
    with pytest.raises(psycopg.Error):
        server.connect("ana", "wrong")
    with pytest.raises(psycopg.Error):
        server.connect("olga")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    written = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    session = next(line for line in written if line["event"] == "login")
    assert (session["user"], session["account"], session["address"]) == ("ana", "ana", "127.0.0.1")
    asked = [line for line in written if line["event"] == "asked"]
    assert [line["text"] for line in asked] == [question, "SELECT * FROM visits"]
    assert {line["session"] for line in asked} == {session["session"]}
    assert [line["event"] for line in written][-4:] == (
        ["refused", "login_refused", "login_refused", "stopped"]
    )
    assert [line.get("code") for line in written][-4:] == (
        ["raw_rows", "login_failed", "not_allowed", None]
    )
    assert {"started", "reserved", "settled", "answered"} < {line["event"] for line in written}
    assert verify_audit(tmp_path / "audit.jsonl").lines == len(written)
    assert PASSWORD not in (tmp_path / "audit.jsonl").read_text()


# -- questions ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_question_is_answered_with_its_price_as_a_notice(server: Serving) -> None:
    with server.connect() as con:
        told: list[str] = []
        con.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        rows = con.execute("SELECT ward, COUNT(*) FROM visits GROUP BY ward").fetchall()
        assert [ward for ward, _ in rows] == ["a", "b"]
        assert all(900 < count < 1100 for _, count in rows)
        assert any(text.startswith("cost: epsilon") for text in told)
        again = con.execute("SELECT ward, COUNT(*) FROM visits GROUP BY ward").fetchall()
        assert again == rows
        assert told[-1].startswith("cost: nothing")


@pytest.mark.slow
def test_intervals_are_told_and_are_columns_where_the_connection_says_so(server: Serving) -> None:
    asked = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY ward"
    columns = ["ward", "n", "n_low", "n_high", "cost", "cost_low", "cost_high"]
    with server.connect() as con:
        told: list[str] = []
        con.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        plain = con.execute(asked).fetchall()
        (widths,) = (text for text in told if text.startswith("95% intervals: "))
        assert re.fullmatch(
            r"95% intervals: n ± [\d.]+( to [\d.]+)?, cost ± [\d.]+( to [\d.]+)?", widths
        )
        assert con.execute("SHOW dpsql.intervals").fetchone() == ("off",)
        con.execute("SET dpsql.intervals = on")
        assert con.execute("SHOW dpsql.intervals").fetchone() == ("on",)
        for binary in (False, True):
            found = con.execute(asked, binary=binary)
            assert [column.name for column in found.description or ()] == columns
            for (ward, n, low, high, cost, *ends), row in zip(found, plain, strict=True):
                assert (ward, n, cost) == row
                assert low < n < high
                assert isinstance(low, int)
                assert ends[0] <= cost <= ends[1]
        described = con.pgconn.prepare(b"s", asked.encode(), [])
        described = con.pgconn.describe_prepared(b"s")
        names = [(described.fname(place) or b"").decode() for place in range(described.nfields)]
        assert names == columns
        con.execute("SET dpsql.intervals = off")
        again = con.pgconn.exec_prepared(b"s", [])  # which describes its portal anew
        assert (again.nfields, again.ntuples) == (3, len(plain))
        con.execute("BEGIN")
        con.execute("SET LOCAL dpsql.intervals = on")
        with con.cursor().copy(f"COPY ({asked}) TO STDOUT") as copy:
            copied = b"".join(bytes(part) for part in copy)
        assert copied.splitlines()[0].count(b"\t") == len(columns) - 1
        con.execute("COMMIT")
        assert con.execute(asked).fetchall() == plain
        con.execute("SET dpsql.intervals = on")
        con.execute("DISCARD ALL")
        assert con.execute("SHOW dpsql.intervals").fetchone() == ("off",)


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_each_type_come_as_they_are(binary: bool, server: Serving) -> None:
    with server.connect() as con:
        found = con.execute(
            "SELECT 1.50::DECIMAL(5,2) AS a, DATE '2026-02-03' AS b, 'é' AS c, true AS d, "
            "INTERVAL 3 DAY AS e, [1, 2] AS f, 0.5::DOUBLE AS g, NULL AS h, 2::BIGINT AS i, "
            "TIMESTAMP '2026-02-03 04:05:06.7' AS j, '\\x41'::BLOB AS k",
            binary=binary,
        ).fetchone()
    moment = datetime(2026, 2, 3, 4, 5, 6, 700_000)
    assert found == (
        *(Decimal("1.50"), date(2026, 2, 3), "é", True, timedelta(days=3), [1, 2], 0.5, None, 2),
        *(moment, b"A"),
    )


def test_parameters_are_values_and_never_text(server: Serving) -> None:
    asked = "SELECT COUNT(*) FROM visits WHERE cost > %s AND day >= %s AND ward = %s"
    with server.connect() as con:
        for binary in (False, True):
            cursor = con.cursor(binary=binary)
            found = cursor.execute(asked, (5.0, date(2026, 1, 1), "a")).fetchone()
            assert found is not None
            assert 900 < found[0] < 1100
        found = con.execute(asked, (5.0, date(2026, 1, 1), "a' OR '1' = '1")).fetchone()
        assert found is not None
        assert found[0] < 100


def test_statements_of_one_message_run_up_to_the_first_error(server: Serving) -> None:
    with server.connect() as con:
        both = con.pgconn.exec_(b"SELECT 1 AS a; SELECT 2 AS b;")
        assert both.get_value(0, 0) == b"2"
        failed = con.pgconn.exec_("SELECT 'é' AS a; SELECT nope FROM visits; SELECT 3".encode())
        assert failed.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"42703"
        assert failed.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION) == b"25"
        assert con.pgconn.exec_(b" ").status == psycopg.pq.ExecStatus.EMPTY_QUERY


def test_describing_reads_nothing_and_costs_nothing(server: Serving) -> None:
    budget = server.directory / "clinic.budget.db"
    with server.connect() as con:
        before = spent(con)
        con.pgconn.prepare(b"s", b"SELECT day, COUNT(*) AS n FROM visits GROUP BY day", [])
        described = con.pgconn.describe_prepared(b"s")
        assert [described.fname(i) for i in range(described.nfields)] == [b"day", b"n"]
        assert [described.ftype(i) for i in range(described.nfields)] == [1082, 20]
        con.execute("EXPLAIN SELECT day, COUNT(*) FROM visits GROUP BY day")
        with pytest.raises(psycopg.Error):
            con.execute("SELECT * FROM visits")
        assert spent(con) == before
    assert budget.exists()


def spent(con: psycopg.Connection[Any]) -> Any:
    return con.execute("SHOW BUDGET").fetchall()


def test_prepared_statements_pipelines_and_row_limits(server: Serving) -> None:
    asked = "SELECT ward, COUNT(*) FROM visits WHERE cost > %s GROUP BY ward"
    with server.connect() as con:
        found = [con.execute(asked, (5,), prepare=True).fetchall() for _ in range(3)]
        assert found[0] == found[1] == found[2]
        with con.pipeline():
            one, two = con.execute("SELECT 1"), con.execute(asked, (5,))
            assert one.fetchone() == (1,)
            assert two.fetchall() == found[0]
    with server.connect(autocommit=False) as con, con.cursor(name="rows") as cursor:
        cursor.execute("SELECT beds, ward FROM wards")
        assert cursor.fetchmany(5) == [(3, "a")]
        assert cursor.fetchmany(5) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", b"a\t3\t\\N\n"),
        ("(FORMAT csv, HEADER)", b"ward,beds,note\na,3,\n"),
        ("WITH CSV", b"a,3,\n"),
        ("(FORMAT csv, NULL 'a')", b'"a",3,a\n'),
    ],
)
def test_copies_are_written_as_postgresql_writes_them(
    options: str, expected: bytes, server: Serving
) -> None:
    with server.connect() as con, con.cursor() as cursor:
        copying = f"COPY (SELECT ward, beds, note FROM wards) TO STDOUT {options}"
        with cursor.copy(copying.encode()) as copy:
            assert b"".join(map(bytes, copy)) == expected
        with cursor.copy(b"COPY (SELECT ward, beds FROM wards) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int4"])
            assert list(copy.rows()) == [("a", 3)]


def test_a_transaction_that_failed_answers_nothing_until_its_end(server: Serving) -> None:
    with server.connect(autocommit=False) as con:
        with pytest.raises(psycopg.errors.UndefinedTable):
            con.execute("SELECT COUNT(*) FROM nowhere")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            con.execute("SELECT 1")
        con.rollback()
        assert con.execute("SELECT 1").fetchone() == (1,)
        with con.transaction():
            con.execute("SELECT 2")


def test_settings_last_until_they_are_reset(server: Serving) -> None:
    asked = "SELECT value FROM (SHOW PARAMETERS) WHERE parameter = 'epsilon'"
    with server.connect() as con:
        assert con.execute("SET epsilon = 0.5").description is None
        assert con.pgconn.exec_(b"SET application_name = 'x'").command_status == b"SET"
        with pytest.raises(psycopg.Error):
            con.execute(asked)
        shown = dict(row[:2] for row in con.execute("SHOW PARAMETERS").fetchall())
        assert float(shown["epsilon"]) == 0.5
        con.execute("DISCARD ALL")
        shown = dict(row[:2] for row in con.execute("SHOW PARAMETERS").fetchall())
        assert float(shown["epsilon"]) == 1.0


def test_tags_are_postgresqls(server: Serving) -> None:
    asked = {
        "(SELECT 1)": "SELECT 1",
        "SELECT(1)": "SELECT 1",
        "TABLE wards": "SELECT 1",
        "SHOW TABLES": "SHOW",
        "BEGIN": "BEGIN",
        "COMMIT": "COMMIT",
        "RESET ALL": "RESET",
    }
    with server.connect() as con:
        for sql, expected in asked.items():
            assert con.execute(sql.encode()).statusmessage == expected


# -- who comes in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["ana", "mallory", "", "ana+none"])
def test_a_wrong_password_is_refused_in_the_same_words(user: str, server: Serving) -> None:
    with pytest.raises(psycopg.OperationalError, match="the login failed"):
        server.connect(user or "nobody", "wrong password 1")


def test_owners_ask_nothing_and_accounts_are_those_given(server: Serving) -> None:
    with pytest.raises(psycopg.OperationalError, match="only analysts"):
        server.connect("olga")
    with server.connect(options="-c dpsql.account=bob") as con:
        assert con.execute("SHOW BUDGET").fetchall()[0][0] == "clinic/bob"
    others: list[dict[str, Any]] = [{"options": "-c dpsql.account=eve"}, {"dbname": "other"}]
    for wrong in others:
        with pytest.raises(psycopg.OperationalError):
            server.connect(**wrong)


def test_tokens_are_passwords_until_they_are_revoked(server: Serving) -> None:
    with Users(server.directory / "users.db") as users:
        end = datetime.now(UTC) + timedelta(days=1)
        issued = users.issue_token("ana", "laptop", accounts=["bob"], expires=end)
        with server.connect("ana+laptop", issued.secret) as con:
            assert con.execute("SHOW BUDGET").fetchall()[0][0] == "clinic/bob"
        users.revoke_token("ana", "laptop")
        with pytest.raises(psycopg.OperationalError, match="the login failed"):
            server.connect("ana+laptop", issued.secret)


# -- what is no client ----------------------------------------------------------------------------

HOSTILE = {
    "nothing": b"",
    "a request of the web": b"GET / HTTP/1.1\r\n\r\n",
    "too long": b"\x7f\xff\xff\xff",
    "no end": b"\0\0\0\x0e\0\3\0\0user",
    "no text": b"\0\0\0\x10\0\3\0\0user\0\xff\xff\0",
    "an old version": b"\0\0\0\x08\0\2\0\0",
    "a key of nobody": b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\1abcd",
    "a password first": b"\0\0\0\x13\0\3\0\0user\0ana\0\0p\0\0\0\x08abcd",
    "a query first": b"\0\0\0\x13\0\3\0\0user\0ana\0\0Q\0\0\0\x0dSELECT 1\0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_who_is_no_client_gets_an_error_and_others_go_on(name: str, server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stranger:
        stranger.sendall(HOSTILE[name])
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            pass
    with server.connect() as con:
        assert con.execute("SELECT 1").fetchone() == (1,)


# -- the process ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_a_certificate_all_is_encrypted_and_logins_are_bound_to_it(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "both.pem").write_bytes(made("rsa", "sha256").pem)
    server = started(tmp_path, "--certificate", "both.pem", "--certificate-key", "both.pem")
    try:
        strict: dict[str, Any] = {
            "sslmode": "verify-full",
            "sslrootcert": str(tmp_path / "both.pem"),
        }
        with server.connect(**strict, channel_binding="require") as con:
            assert con.execute("SELECT 1").fetchone() == (1,)
            server.process.send_signal(signal.SIGHUP)
            assert con.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="encrypted here"):
            server.connect()
        with server.connect(**strict) as idle:
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0
            with pytest.raises(psycopg.OperationalError, match=r"stopping|closed"):
                idle.execute("SELECT 1")
    finally:
        server.process.kill()
    assert "Traceback" not in server.log.read_text()


def opened_again(server: Serving, times: int) -> str:
    """Ask a server to open all again; returns its log once it has."""
    server.process.send_signal(signal.SIGHUP)
    for _ in range(200):
        log = server.log.read_text()
        if len(re.findall(r"opened again|old edition goes on", log)) >= times:
            return log
        time.sleep(0.1)
    raise AssertionError(log)


@pytest.mark.slow
def test_another_edition_is_served_to_connections_that_are_open(tmp_path: Path) -> None:
    filled(tmp_path)
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICY.replace("dataset: clinic", "dataset: clinic\nedition: one"))
    (tmp_path / "clinic.duckdb").rename(tmp_path / "one.duckdb")
    (tmp_path / "clinic.duckdb").symlink_to("one.duckdb")
    server = started(tmp_path)
    asked = "SELECT COUNT(*) FROM visits"
    try:
        with server.connect() as con, server.connect(options="-c dpsql.account=bob") as bob:
            con.execute("SET epsilon = 0.75")
            assert 1900 < one(con, asked) < 2100
            with duckdb.connect(str(tmp_path / "two.duckdb")) as owner:
                owner.execute(f"ATTACH '{tmp_path / 'one.duckdb'}' AS one (READ_ONLY)")
                owner.execute(
                    "CREATE TABLE visits AS SELECT range AS patient_id, 10.0 AS cost, 'a' AS ward, "
                    "DATE '2026-01-01' AS day FROM range(9000)"
                )
                owner.execute("CREATE TABLE wards AS FROM one.wards")
            (tmp_path / "next").symlink_to("two.duckdb")
            (tmp_path / "next").rename(tmp_path / "clinic.duckdb")
            without_bob = POLICY.replace(", bob: {epsilon: 1, delta: 1e-6}", "")
            policies.write_text(
                without_bob.replace("dataset: clinic", "dataset: clinic\nedition: two")
            )
            assert "edition two" in opened_again(server, 1)
            assert 8900 < one(con, asked) < 9100
            assert "0.75" in str(con.execute("SHOW PARAMETERS").fetchall())
            with pytest.raises(psycopg.OperationalError, match="closed"):
                bob.execute("SELECT 1")
            policies.write_text("version: 1\ntables: {visits: {}}\n")
            assert "old edition goes on" in opened_again(server, 2)
            policies.write_text(POLICY.replace("dataset: clinic", "dataset: other"))
            assert "another dataset" in opened_again(server, 3)
            assert 8900 < one(con, "SELECT COUNT(*) FROM visits WHERE ward = 'a'") < 9100
        with server.connect() as late:
            assert 8900 < one(late, asked) < 9100
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert "Traceback" not in server.log.read_text()
    written = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = [line["event"] for line in written if line["event"].startswith("edition")]
    assert told == ["edition", "edition_refused", "edition_refused"]


def one(con: psycopg.Connection[Any], text: str) -> Any:
    """The value of an answer that has one."""
    row = con.execute(text).fetchone()
    assert row is not None
    return row[0]


SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.mark.slow
def test_no_account_takes_all_places_and_no_client_holds_up_the_end(tmp_path: Path) -> None:
    filled(tmp_path)
    server = started(tmp_path, "--grace", "2")
    idle = [server.connect() for _ in range(3)]
    try:
        for con in idle:
            con.pgconn.send_query(SLOW.encode())
        time.sleep(1.0)
        began = time.monotonic()
        with server.connect(options="-c dpsql.account=bob") as bob:
            assert bob.execute("SELECT beds FROM wards").fetchone() == (3,)
        assert time.monotonic() - began < 10
        idle.append(stranger := server.connect())
        stranger.pgconn.send_query(b"SELECT range, repeat('x', 200) FROM range(100000)")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(40) == 0
    finally:
        server.process.kill()
        for con in idle:
            con.close()
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_no_other_machine_is_served_without_encryption(tmp_path: Path) -> None:
    filled(tmp_path)
    command = [sys.executable, "-m", "dpsql", "serve", "-d", "clinic.duckdb", "--users", "users.db"]
    found = subprocess.run(
        [*command, "--listen", "0.0.0.0:0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert found.returncode != 0
    assert "plaintext_refused" in found.stderr
    assert not (tmp_path / "clinic.budget.db").exists()


# -- drivers --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_drivers_ask_of_every_server_is_answered(server: Serving) -> None:
    asked = {
        "select pg_catalog.version()": r"PostgreSQL 15\.0",
        "SELECT current_schema()": "public",
        "select current_user": "ana",
        "SELECT current_database()": "clinic",
        "SHOW transaction isolation level": "read committed",
        "show SERVER_VERSION": r"15\.0",
    }
    with server.connect() as con:
        for sql, expected in asked.items():
            for binary in (False, True):
                row = con.cursor(binary=binary).execute(sql.encode()).fetchone()
                assert row is not None
                assert re.match(expected, row[0])
        con.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        # A text with such words in it is no such question.
        found = con.execute("SELECT 'select version()' AS a").fetchone()
        assert found == ("select version()",)


@pytest.mark.slow
def test_sqlalchemy_and_pandas_ask_through_it(server: Serving) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pandas = pytest.importorskip("pandas")
    url = sqlalchemy.URL.create(
        "postgresql+psycopg", "ana", PASSWORD, "127.0.0.1", server.port, "clinic"
    )
    engine = sqlalchemy.create_engine(url, connect_args={"sslmode": "disable"})
    with engine.connect() as con:
        asked = sqlalchemy.text(
            "SELECT ward, COUNT(*) AS n FROM visits WHERE cost > :c GROUP BY ward"
        )
        frame = pandas.read_sql(asked, con, params={"c": 5})
        assert list(frame.columns) == ["ward", "n"]
        assert list(frame["ward"]) == ["a", "b"]
        assert con.execute(sqlalchemy.text("SELECT beds FROM wards")).scalar() == 3
    engine.dispose()


def test_set_local_holds_until_the_transaction_ends(server: Serving) -> None:
    def value(con: psycopg.Connection[Any], name: str) -> object:
        rows = con.execute("SHOW PARAMETERS").fetchall()
        return next(row[1] for row in rows if row[0] == name)

    with server.connect() as con:
        told: list[str] = []
        con.add_notice_handler(lambda notice: told.append(notice.sqlstate or ""))
        con.execute("SET LOCAL epsilon = 0.25")
        assert told == ["25P01"]
        assert value(con, "epsilon") == "1.0"
        con.execute("SET epsilon = 0.5")
        for end in ("COMMIT", "ROLLBACK"):
            con.execute("BEGIN")
            con.execute("SET LOCAL epsilon = 0.25")
            con.execute("SET LOCAL max_groups_contributed = 3")
            con.execute("SET LOCAL timezone = 'UTC'")
            assert (value(con, "epsilon"), value(con, "max_groups_contributed")) == ("0.25", "3")
            con.execute("SET max_groups_contributed = 4")  # to stay
            con.execute(end)
            assert (value(con, "epsilon"), value(con, "max_groups_contributed")) == ("0.5", "4")
        con.execute("BEGIN")
        con.execute("SET LOCAL statement_timeout = '1s'")
        slow = (
            "SELECT count(*) FROM range(100000) a, range(100000) b "
            "WHERE (a.range * b.range) % 7 = 3"
        )
        begun = time.monotonic()
        with pytest.raises(psycopg.Error):
            con.execute(slow)
        assert time.monotonic() - begun < 30
        con.execute("ROLLBACK")
        con.execute("BEGIN")
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            con.execute("SET LOCAL epsilon = 'much'")
        assert refused.value.diag.statement_position == "21"
        con.execute("ROLLBACK")
        con.execute("BEGIN")
        con.execute("SET LOCAL epsilon = 0.125")
        con.execute("DISCARD ALL")
        con.execute("COMMIT")
        assert value(con, "epsilon") == "1.0"


def test_one_address_cannot_take_all_places_at_the_door(server: Serving) -> None:
    here = ("127.0.0.1", server.port)
    taken = [socket.create_connection(here) for _ in range(MOST_OF_ADDRESS)]
    try:
        for each in taken:
            each.settimeout(10)
        # All of these are at the door: the server has answered each.
        for each in taken:
            each.sendall(struct.pack("!ii", 8, 80877103))
            assert each.recv(1) == b"N"
        with pytest.raises(psycopg.OperationalError):
            server.connect()
        with socket.create_connection(here, source_address=("127.0.0.2", 0)) as other:
            other.settimeout(10)
            other.sendall(struct.pack("!ii", 8, 80877103))
            assert other.recv(1) == b"N"
    finally:
        for each in taken:
            each.close()
    for _ in range(100):
        with suppress(psycopg.OperationalError), server.connect() as con:
            assert con.execute("SELECT beds FROM wards").fetchall()
            return
        time.sleep(0.1)
    raise AssertionError("places of connections that have gone are not free")

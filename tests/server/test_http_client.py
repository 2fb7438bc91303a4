"""The Python client against a real server, and against servers that lie."""

from __future__ import annotations

import http.server
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import sqlalchemy
from click.testing import CliRunner, Result
from helpers.certificates import made
from helpers.failures import fails_with
from helpers.http_serving import HttpServing, filled_with_tokens, http_started
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import dpsql
from dpsql.client import transport
from dpsql.client.transport import RemoteServer
from dpsql.interfaces.cli import cli
from dpsql.present.result_files import result_json

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("client")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


def connected(server: HttpServing, token: str = "ana", **more: Any) -> dpsql.RemoteConnection:
    found = dpsql.connect(server.url, token=server.tokens[token], **more)
    assert isinstance(found, dpsql.RemoteConnection)
    return found


@pytest.mark.slow
def test_answers_are_read_like_those_of_a_connection_of_ones_own(server: HttpServing) -> None:
    with connected(server) as con:
        found = con.sql(QUESTION)
        assert found.columns == ["ward", "n"]
        assert found.types == ["VARCHAR", "BIGINT"]
        assert [ward for ward, _ in found] == ["a", "b"]
        assert found["n"] == [n for _, n in found.fetchall()]
        ends = found.intervals()["n"]
        sides = zip(ends.low, found["n"], ends.high, strict=True)
        assert all(low < n < high for low, n, high in sides)
        assert "95%" in found.summary()
        again = con.sql(QUESTION)
        assert again.fetchall() == found.fetchall()
        assert again.cost.free
        assert again.cost.stored
        assert (found.edition.number, found.edition.name, found.from_edition) == (1, "", True)
        assert (again.edition, again.from_edition) == (found.edition, None)
        with con.cursor() as cursor:
            cursor.execute(QUESTION)
            assert cursor.result.edition == found.edition
        asked = "SELECT COUNT(*) AS n FROM visits WHERE day >= $day AND cost > $cost"
        values = {"day": date(2026, 1, 1), "cost": Decimal("5.0")}
        one = con.sql(asked, values, epsilon=0.5)
        assert 1800 < one["n"][0] < 2200
        assert one.cost.epsilon_paid == 0.5
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        con.sql(QUESTION)


@pytest.mark.slow
def test_data_frames_have_intervals(server: HttpServing) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    with connected(server) as con:
        frame = con.sql(QUESTION).to_pandas(intervals=True)
        assert list(frame.columns) == ["ward", "n", "n_low", "n_high"]
        assert (frame["n_low"] < frame["n_high"]).all()
        assert con.sql(QUESTION).to_arrow().column_names == ["ward", "n"]


def test_values_have_the_types_of_python(server: HttpServing) -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 700_000)
    with connected(server) as con:
        found = con.sql(
            "SELECT 1.50::DECIMAL(5,2) AS a, DATE '2026-02-03' AS b, 'é' AS c, true AS d, "
            "0.5::DOUBLE AS g, NULL AS h, 9007199254740993 AS i, "
            "TIMESTAMP '2026-02-03 04:05:06.7' AS j, '\\x41'::BLOB AS k, 'inf'::DOUBLE AS l, "
            "[1, 2] AS m"
        )
        assert found.fetchall() == [
            (
                *(Decimal("1.50"), date(2026, 2, 3), "é", True, 0.5, None, 9007199254740993),
                *(moment, b"A", float("inf"), "[1, 2]"),
            )
        ]


def test_moments_and_lengths_that_python_lacks_are_texts(server: HttpServing) -> None:
    with connected(server) as con:
        found = con.sql(
            "SELECT DATE 'infinity' AS a, TIMESTAMP '-infinity' AS b, DATE '20000-01-01' AS c, "
            "DATE '0044-03-15 (BC)' AS d, INTERVAL '14 months' AS e, INTERVAL '1 day' AS f, "
            "TIMESTAMPTZ 'infinity' AS g"
        )
        assert found.fetchall() == [
            (
                *("infinity", "-infinity", "20000-01-01", "0044-03-15 (BC)"),
                *("1 year 2 months", "86400.0 seconds", "infinity"),
            )
        ]


def test_a_cursor_is_one_of_pep_249(server: HttpServing) -> None:
    with connected(server) as con, con.cursor() as cursor:
        cursor.execute(QUESTION)
        assert cursor.description is not None
        assert [each[0] for each in cursor.description] == ["ward", "n"]
        assert cursor.fetchone() == cursor.result.fetchall()[0]
        assert len(cursor.fetchall()) == 1
        cursor.execute("SELECT beds FROM wards WHERE ward = ?", ["a"])
        assert cursor.fetchall() == [(3,)]


def test_prices_tables_budget_and_history_are_told(server: HttpServing) -> None:
    with connected(server, epsilon=0.25) as con:
        price = con.explain("SELECT COUNT(*) AS n FROM visits WHERE ward = 'b'")
        assert price.price_epsilon == 0.25
        assert "visits" in str(price)
        described = con.describe("SELECT COUNT(*) AS n FROM visits WHERE ward = ?")
        assert [each.name for each in described.columns] == ["n"]
        assert [each.name for each in described.parameters] == ["1"]
        assert [each.name for each in con.tables()] == ["visits", "wards"]
        con.sql(QUESTION)
        assert con.budget().account == "clinic/ana"
        assert con.history(1)[0].stored
    with connected(server, analyst="bob") as bob:
        assert bob.budget().account == "clinic/bob"


def test_what_set_has_set_holds_for_the_statements_to_come(server: HttpServing) -> None:
    with connected(server, epsilon=0.5) as con, connected(server, epsilon=0.5) as other:
        con.sql("SET max_groups_contributed = 1")
        sources = {row[0]: row[2] for row in con.sql("SHOW PARAMETERS").fetchall()}
        assert sources["max_groups_contributed"] == "SET"
        assert sources["epsilon"] == "connect()"
        other_sources = {row[0]: row[2] for row in other.sql("SHOW PARAMETERS").fetchall()}
        assert other_sources["max_groups_contributed"] == "policy"
        con.sql("SET max_error = 50")  # holds instead of the connection's epsilon
        assert con.explain(QUESTION).price_epsilon != 0.5
        con.sql("RESET max_error")
        with fails_with("parameter_out_of_range"):
            con.sql("SET epsilon = 1e9")
        assert con.sql("SHOW PARAMETERS")[0][:3] == ("epsilon", "0.5", "connect()")
        con.reset()
        assert con.sql("SHOW PARAMETERS").fetchall() == other.sql("SHOW PARAMETERS").fetchall()


def test_answers_show_themselves_as_those_of_ones_own_data_do(server: HttpServing) -> None:
    with connected(server) as con:
        found = con.sql(QUESTION)
        assert "± " in repr(found)
        assert "known_domain · paid" in repr(found)
        assert "<table" in found.to_html()
        assert "Mechanism  known_domain" in repr(con.sql(f"EXPLAIN {QUESTION}"))
        assert found.plot(y="n").get_ylabel() == "n"
        document = json.loads(result_json(found, 0.95, intervals=True))
        assert document["columns"] == ["ward", "n", "n_low", "n_high"]
        assert document["mechanisms"] == ["known_domain"]
        assert repr(con.explain(QUESTION)).startswith("Costs")
        assert con.budget().headline.endswith("left")


def asked(server: HttpServing, *words: str, token: str = "ana", **more: str) -> Result:
    return CliRunner().invoke(
        cli, [*words, "-d", server.url], env={"DPSQL_TOKEN": server.tokens[token], **more}
    )


def test_commands_ask_a_server(server: HttpServing, tmp_path: Path) -> None:
    found = asked(server, "query", "-f", "csv", "--intervals", QUESTION)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[0] == "ward,n,n_low,n_high"
    target = tmp_path / "answer.parquet"
    found = asked(server, "query", "-f", "parquet", "-o", str(target), QUESTION)
    assert found.exit_code == 0, found.output
    assert pyarrow.parquet.read_table(target).column_names == ["ward", "n"]
    kept = tmp_path / "token"
    kept.write_text(f"{server.tokens['ana']}\n")
    kept.chmod(0o600)
    words = ["query", "--dry-run", "--token-file", str(kept), "-a", "bob", QUESTION]
    found = asked(server, *words, DPSQL_TOKEN="")
    assert "Mechanism  known_domain" in found.stdout
    found = asked(server, "explain", "--format", "json", QUESTION)
    assert json.loads(found.stdout)["free"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ledger", "x.db"], "--ledger is for data of one's own"),
        (["--session", "monday"], "--session is for data of one's own"),
        (["--token-file", "no-such-file"], "token_missing"),
        (["--ca-file", "no-such-file"], "bad_certificate"),
    ],
)
def test_what_a_server_has_no_use_for_is_refused(
    server: HttpServing, words: list[str], said: str
) -> None:
    found = asked(server, "query", *words, QUESTION)
    assert found.exit_code == 2
    assert said in found.output


def test_options_of_servers_are_refused_for_data_of_ones_own(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        cli, ["query", "-d", str(tmp_path / "x.duckdb"), "--token-file", "token", "-a", "ana", "x"]
    )
    assert found.exit_code == 2
    assert "--token-file is for the address of a server" in found.output
    found = CliRunner().invoke(cli, ["query", "-d", str(tmp_path / "x.duckdb"), "SELECT 1"])
    assert found.exit_code == 2
    assert "Missing option '--analyst'" in found.output


def test_sqlalchemy_asks_a_server(server: HttpServing) -> None:
    address = f"dpsql://:{server.tokens['ana']}@127.0.0.1:{server.port}?encrypted=no"
    engine = sqlalchemy.create_engine(address, pool_size=1, max_overflow=0)
    assert server.tokens["ana"] not in repr(engine.url)
    with engine.connect() as con:
        rows = con.execute(sqlalchemy.text(QUESTION)).all()
        assert [ward for ward, _ in rows] == ["a", "b"]
        assert sqlalchemy.inspect(con).get_table_names() == ["visits", "wards"]
        con.execute(sqlalchemy.text("SET epsilon = 0.25"))
    with engine.connect() as con:  # the same connection, and what was set is not
        found = con.execute(sqlalchemy.text("SHOW PARAMETERS")).all()
        assert next(row for row in found if row[0] == "epsilon")[2] == "policy"
    engine.dispose()


def test_notebooks_ask_a_server(server: HttpServing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_TOKEN", server.tokens["ana"])
    shell = InteractiveShell()
    shell.run_cell("%load_ext dpsql")
    for cell in (
        f"%dpsql connect {server.url}",
        f"%%dpsql --into found\n{QUESTION}",
        f"%%dpsql --into price --explain\n{QUESTION}",
        "%dpsql budget",
        "%dpsql close",
    ):
        with capture_output():
            shell.run_cell(cell).raise_error()
    assert shell.user_ns["found"]["ward"] == ["a", "b"]
    assert shell.user_ns["price"].free


@pytest.mark.parametrize(
    "address",
    [
        "dpsql://127.0.0.1:8439",
        "dpsql://ana:token@127.0.0.1",
        "dpsql://:token@127.0.0.1/clinic.duckdb",
        "dpsql://:token@127.0.0.1?encrypted=maybe",
    ],
)
def test_addresses_that_are_no_servers_are_refused_by_sqlalchemy(address: str) -> None:
    with pytest.raises(sqlalchemy.exc.ArgumentError):
        sqlalchemy.create_engine(address).connect()


def test_a_token_over_sqlalchemy_leaves_no_machine_unencrypted() -> None:
    address = "dpsql://:dpsql_x@example.org?encrypted=no"
    with fails_with("plaintext_refused"):
        sqlalchemy.create_engine(address).raw_connection()
    with fails_with("unknown_parameter"):
        sqlalchemy.create_engine("dpsql://:dpsql_x@localhost?policies=p.yaml").raw_connection()


def test_errors_have_their_class_code_place_and_hint(server: HttpServing) -> None:
    with connected(server) as con:
        with pytest.raises(dpsql.UnknownName) as raised:
            con.sql("SELECT ward,\n nope FROM visits")
        error = raised.value
        assert error.code == "unknown_column"
        assert error.place is not None
        assert (error.place.line, error.place.column) == (2, 2)
        assert error.place.excerpt == " nope FROM visits"
        with pytest.raises(dpsql.QueryRefused) as refused:
            con.sql("SELECT * FROM visits")
        assert refused.value.hint
        with fails_with("unknown_parameter"):
            con.sql(QUESTION, epsilom=1)  # type: ignore[call-arg]
    with connected(server, "bert") as bert:
        with pytest.raises(dpsql.BudgetExceeded) as dear:
            bert.sql(QUESTION, epsilon=50)
        assert dear.value.requested[0] > 0
    with dpsql.connect(server.url, token="wrong") as nobody, fails_with("login_failed"):
        nobody.tables()


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("http://example.org:8439", "plaintext_refused"),
        ("http://127.0.0.1.example.org", "plaintext_refused"),
        ("https://ana:secret@localhost", "bad_address"),
        ("https://localhost/other", "bad_address"),
        ("https://localhost?token=x", "bad_address"),
        ("https://", "bad_address"),
        ("https://localhost:x", "bad_address"),
        ("http://127.0.0.1:1", "server_not_reached"),
    ],
)
def test_a_token_is_sent_to_no_address_by_mistake(address: str, code: str) -> None:
    with fails_with(code), dpsql.connect(address, token="dpsql_x") as con:
        con.tables()


def test_a_token_is_printable_shown_nowhere_and_for_servers_alone(tmp_path: Path) -> None:
    for token in ("", "a b", "a\r\nhost: x", "é"):
        with fails_with("token_missing"):
            dpsql.connect("http://127.0.0.1", token=token)
    with fails_with("token_missing"):
        dpsql.connect("http://127.0.0.1")
    with fails_with("bad_address"):
        dpsql.connect(str(tmp_path / "x.duckdb"), token="dpsql_x")
    with fails_with("bad_address"):
        dpsql.connect("http://127.0.0.1", token="dpsql_x", analyst="a\r\nx: y")
    con = dpsql.connect("http://127.0.0.1", token="dpsql_x")
    assert "dpsql_x" not in repr(con) + repr(vars(con))


@pytest.mark.slow
def test_a_certificate_is_checked(tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_bytes(made("ec", "sha256").pem)
    given = ("--certificate", "both.pem", "--certificate-key", "both.pem")
    server = http_started(tmp_path, filled_with_tokens(tmp_path), *given)
    address = server.url.replace("http:", "https:")
    try:
        trusted = str(tmp_path / "both.pem")
        with dpsql.connect(address, token=server.tokens["ana"], certificate=trusted) as con:
            assert con.sql("SELECT 1 AS a").fetchall() == [(1,)]
        with (
            dpsql.connect(address, token=server.tokens["ana"]) as con,
            pytest.raises(dpsql.OperationalError, match="not trusted"),
        ):
            con.tables()
        with fails_with("bad_certificate"):
            dpsql.connect(address, token="x", certificate=str(tmp_path / "none.pem"))
    finally:
        server.process.kill()
        server.process.wait()


# -- servers that lie -----------------------------------------------------------------------------


@contextmanager
def lying(status: int, kind: str, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything so, and the requests that it got."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('authorization')}")
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.send_response(status)
            for name, value in {"content-type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - as the standard library names it

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_address[1]}", asked
        finally:
            found.shutdown()
            thread.join()


def reply(**changed: Any) -> bytes:
    found: dict[str, Any] = {
        "columns": [{"name": "n", "type": "BIGINT", "noisy": True}],
        "rows": [[1]],
        "intervals": [{"column": "n", "low": [0], "high": [2]}],
        "reading": "",
        "warnings": [],
        "mechanisms": ["known_domain"],
        "cost": {
            "epsilon_paid": 1,
            "epsilon_reserved": 1,
            "free": False,
            "answered": None,
            "epsilon_left": None,
        },
        "release_id": None,
        "edition": {"number": 1, "opened": "", "name": None, "made_on": "this"},
    }
    return json.dumps(found | changed).encode()


def column(type_: str) -> dict[str, Any]:
    return {"columns": [{"name": "n", "type": type_, "noisy": False}], "intervals": []}


def test_redirects_are_not_followed() -> None:
    with (
        lying(200, "application/json", reply()) as (other, stolen),
        lying(302, "text/html", b"", location=f"{other}/v1/query") as (address, _),
        dpsql.connect(address, token="dpsql_secret") as con,
    ):
        with fails_with("bad_reply"):
            con.sql("SELECT 1")
        assert stolen == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        pickle.dumps(date(2026, 1, 1)),
        reply(rows=[[1, 2]]),
        reply(rows=[["x"]]),
        reply(rows=5),
        reply(columns=None),
        reply(intervals=[{"column": "n", "low": [], "high": []}]),
        reply(intervals=[{"column": "other", "low": [1], "high": [1]}]),
        reply(cost={}),
        reply(rows=[["2026-99-99"]], **column("DATE")),
        reply(rows=[["x"]], **column("DECIMAL(5,2)")),
        reply(rows=[["yes"]], **column("BOOLEAN")),
    ],
)
def test_a_reply_of_another_form_is_an_error(body: bytes) -> None:
    with (
        lying(200, "application/json", body) as (address, _),
        dpsql.connect(address, token="dpsql_secret") as con,
        fails_with("bad_reply"),
    ):
        con.sql("SELECT 1")


def test_names_and_types_of_a_server_are_text_and_no_sql() -> None:
    pytest.importorskip("pandas")
    evil = "INTEGER[]) AS x, (SELECT content FROM read_text('/etc/passwd')"
    body = reply(
        rows=[["1"]],
        columns=[{"name": '"; DROP TABLE x; --', "type": evil, "noisy": False}],
        intervals=[],
    )
    with (
        lying(200, "application/json", body) as (address, _),
        dpsql.connect(address, token="dpsql_secret") as con,
    ):
        frame = con.sql("SELECT 1").df()
    assert frame.to_dict("list") == {'"; DROP TABLE x; --': ["1"]}


@pytest.mark.slow
def test_an_error_of_a_server_is_of_a_class_of_dpsql_and_printable() -> None:
    said = {
        "code": "raw_rows",
        "detail": "\x1b[2Jgone",
        "kind": "SystemExit",
        "hint": "\x07",
        "line": 99,
        "column": -1,
    }
    with (
        lying(500, "application/problem+json", json.dumps(said).encode()) as (address, _),
        dpsql.connect(address, token="dpsql_secret") as con,
        pytest.raises(dpsql.QueryRefused) as raised,
    ):
        con.tables()
    assert "\x1b" not in str(raised.value)
    assert raised.value.place is None


@pytest.mark.slow
def test_moments_keep_their_zone() -> None:
    body = reply(rows=[["2026-02-03T04:05:06+00:00"]], **column("TIMESTAMP WITH TIME ZONE"))
    with (
        lying(200, "application/json", body) as (address, _),
        dpsql.connect(address, token="dpsql_secret") as con,
    ):
        ((found,),) = con.sql("SELECT 1").fetchall()
    assert found == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert found.utcoffset() == timedelta(0)


class _Counting(http.server.BaseHTTPRequestHandler):
    """Counts connections and requests; each reply says how many there were."""

    protocol_version = "HTTP/1.1"
    connections = 0
    requests = 0

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def do_POST(self) -> None:
        type(self).requests += 1
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"n": 1}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path.endswith("last"):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def counting() -> Iterator[tuple[RemoteServer, type[_Counting]]]:
    handler = type("Handler", (_Counting,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        server = RemoteServer.at(f"http://127.0.0.1:{listening.server_port}", "token")
        try:
            yield server, handler
        finally:
            server.close()
            listening.shutdown()
            thread.join()


def test_requests_share_a_connection_for_a_moment(
    counting: tuple[RemoteServer, type[_Counting]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, handler = counting
    for _ in range(5):
        assert server.call("POST", "query", {}) == {"n": 1}
    assert (handler.connections, handler.requests) == (1, 5)
    monkeypatch.setattr(transport, "_SECONDS_IDLE", 0.0)
    server.call("POST", "query", {})
    assert (handler.connections, handler.requests) == (2, 6)


def test_a_connection_that_the_server_has_closed_is_not_used_and_nothing_is_sent_twice(
    counting: tuple[RemoteServer, type[_Counting]],
) -> None:
    server, handler = counting
    for number in range(1, 5):
        server.call("POST", "last", {})
        assert handler.requests == number
        time.sleep(0.1)
    assert handler.connections == 4


def test_a_child_process_and_a_closed_one_use_no_connection_of_before(
    counting: tuple[RemoteServer, type[_Counting]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, handler = counting
    server.call("POST", "query", {})
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        server.call("POST", "query", {})
    assert handler.connections == 2
    server.close()
    server.call("POST", "query", {})
    assert handler.connections == 3


def test_only_a_few_connections_wait(counting: tuple[RemoteServer, type[_Counting]]) -> None:
    server, _ = counting
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: server.call("POST", "query", {}), range(60)))
    assert len(server.idle._kept) <= 4

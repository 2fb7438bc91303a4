"""Hostile requests over HTTP: who is no client learns nothing, and others go on."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from helpers.certificates import made
from helpers.http_serving import HttpServing, filled_with_tokens, http_started

from dpsql.errors import OperationalError
from dpsql.server.desk import Desk
from dpsql.server.guard import Guard
from dpsql.server.http.app import HttpApp
from dpsql.server.http.bodies import MOST_SQL, QueryRequest
from dpsql.server.http.operations import OPERATIONS
from dpsql.server.http.reading import MOST_BODY, parsed_body
from dpsql.server.people.records import Role
from dpsql.server.people.users import Users
from dpsql.server.tally import Tally
from dpsql.server.workers import Workers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("attacked")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    log = found.log.read_text() + (directory / "audit.jsonl").read_text()
    assert "Traceback" not in log
    assert all(token not in log for token in found.tokens.values())


def head(server: HttpServing, *lines: str, path: str = "/v1/query", method: str = "POST") -> bytes:
    given = [f"{method} {path} HTTP/1.1", "host: localhost", *lines]
    given += [f"authorization: Bearer {server.tokens['ana']}", "content-type: application/json"]
    return "\r\n".join([*given, "", ""]).encode()


# -- logins ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_whatever_is_wrong_with_a_token_is_the_same_error(tmp_path: Path) -> None:
    tokens = filled_with_tokens(tmp_path)
    server = http_started(tmp_path, tokens)
    try:
        wrong = {
            "unknown": "dpsql_" + "A" * 43,
            "disabled": tokens["carl"],
            "revoked": tokens["eves-old"],
            "expired": tokens["doras-old"],
            "long": "x" * 300,
            "a sign more": tokens["ana"] + "x",
        }
        replies = {name: server.ask("GET", "tables", token=each) for name, each in wrong.items()}
        replies["none"] = server.ask("GET", "tables", token=None)
        replies["basic"] = server.ask("GET", "tables", authorization="Basic YW5hOng=")
        assert {each.status for each in replies.values()} == {401}
        assert len({each.body for each in replies.values()}) == 1
        assert replies["none"].code == "login_failed"
        assert replies["none"].headers["www-authenticate"] == "Bearer"
        for address in (f"tables?access_token={tokens['ana']}", f"tables?token={tokens['ana']}"):
            assert server.ask("GET", address, token=None).status == 401
        began = time.monotonic()
        for _ in range(3):
            assert server.ask("GET", "tables", token=wrong["unknown"]).status == 401
        assert time.monotonic() - began < 0.5 + 5
        for _ in range(40):  # from now on this address has to wait
            server.ask("GET", "tables", token=f"guess-{time.monotonic_ns()}")
            if time.monotonic() - began > 8:
                break
        began = time.monotonic()
        assert server.ask("GET", "tables", token="guess").status == 401
        assert time.monotonic() - began > 0.4
        written = (tmp_path / "audit.jsonl").read_text()
        refused = [
            each
            for each in map(json.loads, written.splitlines())
            if each["event"] == "login_refused"
        ]
        assert all(re.fullmatch(r"token [0-9a-f]{16}", each["user"]) for each in refused)
        assert {each["code"] for each in refused} == {"login_failed"}
        assert not any(each in written for each in tokens.values())
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.slow
def test_a_body_is_read_of_those_alone_who_are_let_in(server: HttpServing) -> None:
    data = b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n"
    assert server.raw(data, shut=False).startswith(b"HTTP/1.1 401")


@pytest.mark.slow
def test_a_token_that_is_revoked_while_its_body_comes_is_refused(server: HttpServing) -> None:
    with Users(server.directory / "users.db") as users:
        secret = users.issue_token("dora", "short").secret
    body = json.dumps({"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost < 52.5"}).encode()
    lines = ["POST /v1/query HTTP/1.1", "host: localhost", "expect: 100-continue"]
    lines += [f"authorization: Bearer {secret}", "content-type: application/json"]
    lines += [f"content-length: {len(body)}", "", ""]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as con:
        con.sendall("\r\n".join(lines).encode())
        assert con.recv(1000).startswith(b"HTTP/1.1 100")  # it is let in, and its body asked for
        with Users(server.directory / "users.db") as users:
            users.revoke_token("dora", "short")
        before = server.ledger
        con.sendall(body)
        assert con.recv(4000).startswith(b"HTTP/1.1 401")
    assert server.ledger == before


def each_operation_refuses(server: HttpServing, secret: str) -> None:
    bodies: dict[str, object] = {
        "request_budget": {"epsilon": 1, "why": "more"},
        **{name: {"sql": "SELECT 1 AS n"} for name in ("query", "explain", "describe")},
    }
    for one in OPERATIONS:
        if one.roles is not None and Role.ANALYST in one.roles:
            path = one.path.replace("{name}", "visits").replace("{id}", "x")
            reply = server.ask(one.method, path, bodies.get(one.name), secret)
            assert (reply.status, reply.code) == (401, "login_failed"), one.name


@pytest.mark.slow
def test_a_token_that_was_good_is_so_no_longer_than_its_user_has_it(server: HttpServing) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    with Users(server.directory / "users.db") as users:
        found = users.issue_token("dora", "brief", expires=soon).secret
    for _ in range(3):
        assert server.ask("GET", "tables", token=found).status == 200
    time.sleep(max(0.0, (soon - datetime.now(UTC)).total_seconds()))
    each_operation_refuses(server, found)
    with Users(server.directory / "users.db") as users:
        first = users.issue_token("dora", "again").secret
        assert server.ask("GET", "tables", token=first).status == 200
        users.revoke_token("dora", "again")
        second = users.issue_token("dora", "again").secret
    each_operation_refuses(server, first)
    for _ in range(2):
        assert server.ask("GET", "tables", token=second).status == 200


@pytest.mark.slow
def test_another_account_is_there_with_the_next_request(server: HttpServing) -> None:
    with Users(server.directory / "users.db") as users:
        users.add("fay", "a password of fay's", [Role.ANALYST], ["ana", "bob"])
        secret = users.issue_token("fay", "laptop").secret
        for accounts in (["ana"], ["bob"], ["ana", "bob"]):
            users.assign("fay", [Role.ANALYST], accounts)
            for name in ("ana", "bob"):
                reply = server.ask("GET", "budget", token=secret, dpsql_account=name)
                assert reply.status == (200 if name in accounts else 403), (accounts, name)


# -- where a request is from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "", "a b"],
)
def test_a_name_that_was_made_to_lead_here_is_refused(host: str, server: HttpServing) -> None:
    for path in ("/v1/healthz", "/v1/tables"):
        data = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()
        assert re.match(rb"HTTP/1.1 4(21|00)", server.raw(data, shut=False))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8439", "LOCALHOST:1", "[::1]:8439"])
def test_own_names_are_taken(host: str, server: HttpServing) -> None:
    data = f"GET /v1/healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode()
    assert server.raw(data, shut=False).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("tables", "GET, HEAD"),
        ("budget/requests", "GET, HEAD, POST"),
        ("queries/x", "DELETE"),
        ("/mcp", "POST"),
    ],
)
def test_another_method_is_told_which_there_are(
    path: str, methods: str, server: HttpServing
) -> None:
    for body in (None, {"sql": "SELECT 1"}):
        found = server.ask("TRACE", path, body)
        assert (found.status, found.code) == (405, "method_not_allowed")
        assert found.headers["allow"] == methods


def test_a_number_beyond_what_counts_is_taken_as_the_description_says(
    server: HttpServing,
) -> None:
    described = server.ask("GET", "openapi.json").json["paths"]["/v1/history"]["get"]
    (limit,) = (each for each in described["parameters"] if each["name"] == "limit")
    most = limit["schema"]["maximum"]
    assert server.ask("GET", f"history?limit={most}").status == 200
    assert server.ask("GET", f"history?limit={most + 1}").status == 400


def test_browsers_are_given_no_way_in(server: HttpServing) -> None:
    origin = {"origin": "https://evil.example"}
    asked = server.ask(
        "OPTIONS", "query", token=None, access_control_request_method="POST", **origin
    )
    assert asked.status == 405
    assert asked.headers["allow"] == "POST"
    assert not any(name.startswith("access-control") for name in asked.headers)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        found = server.ask("POST", "query", {"sql": "SELECT 1"}, content_type=kind, **origin)
        assert (found.status, found.code) == (415, "not_json")


# -- requests that are none -----------------------------------------------------------------------

NOT_HTTP = {
    "PostgreSQL's": b"\0\0\0\x08\x04\xd2\x16\x2f",
    "no version": b"GET /\r\n\r\n",
    "a line without end": b"GET /" + b"a" * 100_000,
    "headers without end": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
    "two hosts": b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
    "no host": b"GET /v1/healthz HTTP/1.1\r\n\r\n",
    "an old version": b"GET /v1/healthz HTTP/1.0\r\n\r\n",
    "two lengths": b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n"
    b"content-length: 2\r\n\r\nab",
    "a length and chunks": b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n"
    b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "an odd coding": b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\n"
    b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a length below nothing": b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\n"
    b"content-length: -1\r\n\r\n",
    "a folded header": b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\n x: y\r\n\r\n",
    "a null": b"GET /v1/healthz\0 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a body of GET": b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nab",
    "an upgrade": b"GET /v1/x HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n"
    b"upgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_no_request_is_refused_and_others_go_on(name: str, server: HttpServing) -> None:
    found = server.raw(NOT_HTTP[name])
    assert re.match(rb"HTTP/1.1 4\d\d ", found) or found == b""
    assert found.count(b"HTTP/1.1 ") <= 1
    assert server.ask("GET", "healthz").status == 200


def test_what_follows_a_refused_request_is_no_request(server: HttpServing) -> None:
    second = head(server, path="/v1/tables", method="GET")
    found = server.raw(head(server, f"content-length: {len(second)}") + second, shut=False)
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1 ") == 1


BODIES = {
    "nothing": b"",
    "no object": b"[1]",
    "no JSON": b"{sql: 1}",
    "no UTF-8": b'{"sql": "\xff"}',
    "UTF-16": '{"sql": "SELECT 1"}'.encode("utf-16"),
    "a key twice": b'{"sql": "SELECT 1", "sql": "SELECT 2"}',
    "a parameter twice": b'{"sql": "SELECT $a", "parameters": {"a": 1, "a": 2}}',
    "NaN": b'{"sql": "SELECT ?", "parameters": [NaN]}',
    "infinity": b'{"sql": "SELECT ?", "parameters": [1e999]}',
    "a huge integer": b'{"sql": "SELECT ?", "parameters": [' + b"9" * 5000 + b"]}",
    "an integer of no type": b'{"sql": "SELECT ?", "parameters": [' + b"9" * 50 + b"]}",
    "depth": b'{"sql": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "some depth": b'{"sql": "SELECT 1", "parameters": ' + b"[" * 20 + b"]" * 20 + b"}",
    "depth of objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "many values": json.dumps({"sql": "SELECT 1", "parameters": [1] * 300_000}).encode(),
    "an unknown field": b'{"sql": "SELECT 1", "seconds_": 1}',
    "another type": b'{"sql": 5}',
    "a boolean as time": b'{"sql": "SELECT 1", "seconds": true}',
    "no time": b'{"sql": "SELECT 1", "seconds": 0}',
    "a long text": json.dumps({"sql": "SELECT 1 " + " " * MOST_SQL}).encode(),
    "an odd id": b'{"sql": "SELECT 1", "id": "../x"}',
    "a surrogate": b'{"sql": "SELECT \'\\ud800\'"}',
    "no date": b'{"sql": "SELECT ?", "parameters": [{"type": "date", "value": "x"}]}',
    "no decimal": b'{"sql": "SELECT ?", "parameters": [{"type": "decimal", "value": "sNaN"}]}',
    "another type of value": b'{"sql": "SELECT ?", "parameters": [{"type": "path", "value": "x"}]}',
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_has_no_single_meaning_is_refused_and_not_quoted(
    name: str, server: HttpServing
) -> None:
    found = server.ask("POST", "query", BODIES[name])
    assert found.status in (400, 422)
    assert len(found.body) < 1000
    assert b"9999" not in found.body
    assert b"seconds_" not in found.body


def test_too_large_a_body_is_refused_by_its_length_or_once_it_is_there(server: HttpServing) -> None:
    found = server.raw(head(server, f"content-length: {MOST_BODY + 1}"), shut=False)
    assert found.startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as con:
        con.sendall(head(server, "transfer-encoding: chunked"))
        try:
            for _ in range(40):
                con.sendall(b"ffff\r\n" + b" " * 65_535 + b"\r\n")
            answer = con.recv(65_536)
        except ConnectionError:
            answer = b"HTTP/1.1 413"
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.slow
def test_fields_are_named_and_values_are_not() -> None:
    with pytest.raises(Exception, match="the field sql is missing"):
        parsed_body(b"{}", QueryRequest)


@pytest.mark.slow
def test_who_sends_slowly_is_ended_and_takes_no_place_of_others(server: HttpServing) -> None:
    slow = []
    for data in (b"GET /v1/healthz HT", b"", head(server, "content-length: 50") + b'{"sql"'):
        con = socket.create_connection(("127.0.0.1", server.port), timeout=40)
        con.sendall(data)
        slow.append(con)
    began = time.monotonic()
    ends = []
    for _ in range(150):
        try:
            slow[0].sendall(b"T")
            time.sleep(0.2)
            slow[0].setblocking(False)
            try:
                if slow[0].recv(10) == b"":
                    break
            except BlockingIOError:
                slow[0].settimeout(5)
        except ConnectionError:
            break
    ends.append(time.monotonic() - began)
    assert slow[1].recv(10) == b"" if not _reset(slow[1]) else True
    answer = slow[2].recv(1000)
    assert answer.startswith(b"HTTP/1.1 408")
    assert ends[0] < 20
    for con in slow:
        con.close()
    assert server.ask("GET", "healthz").status == 200


def _reset(con: socket.socket) -> bool:
    try:
        con.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True
    return False


@pytest.mark.slow
def test_more_connections_than_there_is_room_for_are_closed(server: HttpServing) -> None:
    open_ = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(230)]
    time.sleep(0.5)
    for con in open_:
        con.close()
    time.sleep(0.5)
    assert server.ask("GET", "healthz").status == 200


# -- what goes wrong inside -----------------------------------------------------------------------


class Poisoned:
    """A guard whose failure has a value of the data in its text."""

    dataset_name = "clinic"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def knock_again(self, secret: str, address: str) -> Any:
        raise self.error


def asked(app: HttpApp, path: str) -> tuple[int, dict[str, Any]]:
    """Ask an application in this process."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer x")]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.slow
def test_of_unexpected_errors_a_number_is_told_and_no_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "Ana Anders, HIV positive"
    workers = Workers(1)
    parts = (workers, cast(Desk, Poisoned(ValueError(secret))), Tally(), None, None)
    app = HttpApp(cast(Guard, Poisoned(ValueError(secret))), *parts)
    status, body = asked(app, "/v1/tables")
    assert (status, body["code"]) == (500, "internal_error")
    assert body["id"] in caplog.text
    assert "Anders" not in json.dumps(body) + caplog.text
    full = Poisoned(OperationalError("it is full", code="server_busy"))
    app = HttpApp(cast(Guard, full), *parts)
    assert asked(app, "/v1/tables")[0] == 503
    app.stopping = True
    assert asked(app, "/v1/readyz")[0] == 503
    workers.close()


# -- the process ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_other_machine_is_served_without_encryption(tmp_path: Path) -> None:
    filled_with_tokens(tmp_path)
    command = [sys.executable, "-m", "dpsql", "serve", "-d", "clinic.duckdb", "--users", "users.db"]
    found = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode != 0
    assert "plaintext_refused" in found.stderr
    assert not (tmp_path / "clinic.budget.db").exists()


@pytest.mark.slow
def test_with_a_certificate_all_is_encrypted_also_after_it_was_renewed(tmp_path: Path) -> None:
    tokens = filled_with_tokens(tmp_path)
    (tmp_path / "both.pem").write_bytes(made("ec", "sha256").pem)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "both.pem"))
    server = http_started(
        tmp_path,
        tokens,
        "--certificate",
        "both.pem",
        "--certificate-key",
        "both.pem",
        secure=trusting,
    )
    try:
        assert server.query("SELECT 1").status == 200
        assert not server.raw(b"GET /v1/healthz HTTP/1.1\r\nhost: x\r\n\r\n").startswith(
            b"HTTP/1.1 2"
        )
        (tmp_path / "both.pem").write_bytes(made("rsa", "sha256").pem)
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        server.secure = ssl.create_default_context(cafile=str(tmp_path / "both.pem"))
        assert server.query("SELECT 1").status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    finally:
        server.process.kill()
    assert "Traceback" not in server.log.read_text()

"""Tools for agents over HTTP: the SDK's own client at a real server, and what others may not."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers.http_serving import HttpServing, Reply, filled_with_tokens, http_started

from dpsql.server.audit import verify_audit

ABSENT = "the extra `mcp` is not installed"
Client = pytest.importorskip("mcp.client", reason=ABSENT).Client
streamable = pytest.importorskip("mcp.client.streamable_http", reason=ABSENT)
httpx = pytest.importorskip("httpx2", reason=ABSENT)
ElicitResult = pytest.importorskip("mcp_types", reason=ABSENT).ElicitResult

MOST_SECONDS = 120
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"
FREE: dict[str, dict[str, Any]] = {
    "tables": {},
    "describe": {"table": "visits"},
    "explain": {"sql": QUESTION, "epsilon": 0.7},
    "budget": {},
    "history": {},
}
ACCEPT = {"accept": "application/json, text/event-stream"}
LEGACY = {**ACCEPT, "mcp-protocol-version": "2025-11-25"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("agents-over-http")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    log = found.log.read_text() + (directory / "audit.jsonl").read_text()
    assert "Traceback" not in log
    assert "internal error" not in log
    assert all(token not in log for token in found.tokens.values())
    verify_audit(directory / "audit.jsonl")


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        with anyio.fail_after(MOST_SECONDS):
            await work()

    anyio.run(limited)


@asynccontextmanager
async def client(
    server: HttpServing,
    token: str,
    mode: str = "auto",
    headers: dict[str, str] | None = None,
    **how: Any,
) -> AsyncIterator[Any]:
    given = {"authorization": f"Bearer {server.tokens[token]}", **(headers or {})}
    async with httpx.AsyncClient(headers=given, timeout=MOST_SECONDS) as web:
        transport = streamable.streamable_http_client(f"{server.url}/mcp", http_client=web)
        async with Client(transport, mode=mode, **how) as agent:
            yield agent


def post(server: HttpServing, body: object, token: str | None = "ana", **headers: str) -> Reply:
    return server.ask("POST", "/mcp", body, token, **{**LEGACY, **headers})


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def lines(server: HttpServing) -> list[dict[str, Any]]:
    text = (server.directory / "audit.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@MODES
def test_all_tools_answer_and_the_token_has_an_account_of_its_own(
    server: HttpServing, mode: str
) -> None:
    async def work() -> None:
        async with client(server, "ana-ask", mode) as agent:
            names = {tool.name for tool in (await agent.list_tools()).tools}
            assert names == {*FREE, "ask", "rows", "verify"}
            asked = await agent.call_tool("ask", {"sql": QUESTION})
            assert not asked.is_error, asked.content
            found = asked.structured_content["answer"]
            assert [ward for ward, _ in found["answer"]["rows"]] == ["a", "b"]
            release = found["answer"]["release_id"]
            more = {
                **FREE,
                "rows": {"release_id": release},
                "verify": {"text": "7", "release_ids": [release]},
            }
            for name, arguments in more.items():
                reply = await agent.call_tool(name, arguments)
                assert not reply.is_error, (name, reply.content)
            budget = (await agent.call_tool("budget", {})).structured_content["answer"]
            assert re.fullmatch(
                r"clinic/ana/ana\+ask 2\d{3}-\d\d-\d\d \d\d\.\d\d\.\d\d", budget["account"]
            )
            assert budget["epsilon_limit"] == 8
            again = await agent.call_tool("ask", {"sql": QUESTION})
            assert again.structured_content["answer"]["cost"]["free"]
            (read,) = (await agent.read_resource(f"dpsql://answers/{release}.csv")).contents
            assert read.text.startswith("ward,n,n_low,n_high")

    run(work)
    logins = [one for one in lines(server) if one["event"] == "login" and one["token"] == "ask"]
    assert logins
    assert all(one["account"] == "ana" and one["run"].startswith("ana+ask 2") for one in logins)
    assert all(one["scopes"] == ["ask"] for one in logins)


@pytest.mark.slow
@MODES
def test_free_tools_leave_ledger_and_database_byte_for_byte(server: HttpServing, mode: str) -> None:
    async def work() -> None:
        async with client(server, "ana", mode) as agent:
            await agent.call_tool("ask", {"sql": "SELECT 1 AS one"})
            before = server.ledger, server.database
            for name, arguments in FREE.items():
                assert not (await agent.call_tool(name, arguments)).is_error
            for sql in ("SELECT * FROM visits", "SELEC", "SET epsilon = 9", "x" * 200_000):
                assert (await agent.call_tool("ask", {"sql": sql})).is_error
            assert (server.ledger, server.database) == before

    run(work)


@MODES
def test_stages_of_a_call_are_told_and_no_more(server: HttpServing, mode: str) -> None:
    heard: list[object] = []

    async def hear(progress: float, total: float | None, stage: str | None) -> None:
        heard.append((progress, total, stage))

    async def work() -> None:
        async with client(server, "eve", mode) as agent:
            asked = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 0.5"}
            found = await agent.call_tool("ask", asked, progress_callback=hear)
            assert not found.is_error

    run(work)
    assert heard == [(1.0, 2.0, "asking"), (2.0, 2.0, "answered")]


def test_a_person_is_asked_where_the_protocol_can_and_the_price_is_good_once(
    server: HttpServing,
) -> None:
    heard: list[str] = []
    dear = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost > 3", "epsilon": 4.0}

    async def person(context: Any, params: Any) -> Any:
        heard.append(params.message)
        return ElicitResult(action="accept", content={"agree": True})

    async def work() -> None:
        async with client(server, "ana", elicitation_callback=person) as agent:
            assert not (await agent.call_tool("ask", dear)).is_error
            assert len(heard) == 1
        # Without sessions nobody can be asked in earlier versions.
        async with client(server, "dora", "legacy", elicitation_callback=person) as agent:
            found = await agent.call_tool("ask", {**dear, "fresh": True})
            assert found.structured_content["refused"]["code"] == "needs_confirmation"
            found = await agent.call_tool("ask", {**dear, "fresh": True, "epsilon": 6})
            assert found.structured_content["refused"]["code"] in (
                "question_too_dear",
                "needs_confirmation",
            )

    run(work)
    assert len(heard) == 1


def test_whatever_is_wrong_with_a_token_is_one_answer_as_elsewhere(server: HttpServing) -> None:
    hello = message("tools/list")
    bodies = set()
    for token in ("carl", "doras-old", "eves-old", "dpsql_" + "x" * 43, "", "é"):
        found = post(
            server,
            hello,
            None,
            authorization=f"Bearer {server.tokens.get(token, token)}".encode().decode("latin-1"),
        )
        other = server.ask("GET", "tables", None, "dpsql_" + "y" * 43)
        assert (found.status, found.code) == (401, "login_failed")
        assert found.headers["www-authenticate"] == "Bearer"
        assert found.json == other.json
        bodies.add(found.body)
    assert len(bodies) == 1
    assert post(server, hello, None).status == 401
    assert post(server, hello, "olga").code == "not_allowed"
    assert post(server, hello, "bert", dpsql_account="ana").code == "not_allowed"


def test_nothing_of_a_body_is_read_before_the_login(server: HttpServing) -> None:
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer dpsql_wrong\r\nContent-Length: 900000\r\n\r\n"
    )
    began = time.monotonic()
    found = server.raw(head, shut=False)  # and no body ever comes
    assert found.startswith(b"HTTP/1.1 401")
    assert time.monotonic() - began < 15


def test_a_foreign_host_is_refused(server: HttpServing) -> None:
    found = post(server, message("tools/list"), Host="evil.example.org")
    assert (found.status, found.code) == (421, "wrong_host")


@pytest.mark.slow
def test_scopes_hold_at_the_tools(server: HttpServing) -> None:
    async def work() -> None:
        for token in ("ana-explain", "ana-views"):
            async with client(server, token) as agent:
                for name, arguments in FREE.items():
                    assert not (await agent.call_tool(name, arguments)).is_error, name
                before = server.ledger
                found = await agent.call_tool("ask", {"sql": QUESTION})
                assert found.structured_content["refused"]["code"] == "not_allowed"
                assert server.ledger == before

    run(work)


def test_an_account_of_its_own_is_what_others_cannot_read_from(server: HttpServing) -> None:
    async def work() -> None:
        async with client(server, "ana") as agent, client(server, "dora") as other:
            found = await agent.call_tool("ask", {"sql": QUESTION})
            release = found.structured_content["answer"]["answer"]["release_id"]
            refused = await other.call_tool("rows", {"release_id": release})
            assert refused.structured_content["refused"]["code"] == "unknown_release"
            with pytest.raises(Exception, match="keeps no such answer"):
                await other.read_resource(f"dpsql://answers/{release}.csv")
            assert not (await agent.call_tool("rows", {"release_id": release})).is_error
        async with client(server, "ana", headers={"dpsql-account": "bob"}) as agent:
            refused = await agent.call_tool("rows", {"release_id": release})
            assert refused.structured_content["refused"]["code"] == "unknown_release"

    run(work)


def test_tokens_of_one_name_that_were_issued_at_once_share_no_account(server: HttpServing) -> None:
    found = []
    for token in ("ana", "dora", "eve"):
        reply = post(server, message("tools/call", name="budget", arguments={}), token)
        found += re.findall(r'"account":"clinic/ana/(\w+)\+laptop ', reply.body.decode())
    assert found == ["ana", "dora", "eve"]


def test_long_calls_with_an_open_price_take_no_room() -> None:
    protocol = pytest.importorskip("dpsql.agents.protocol", reason=ABSENT)
    calls = [f"{number}".rjust(100_000) for number in range(300)]
    tracemalloc.start()
    try:
        prices = protocol.OpenPrices()
        tokens = [prices.add(call + ".", 1.0 + len(call)) for call in calls]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_000_000
    assert prices.take(tokens[0], calls[0] + ".") is None  # the oldest are forgotten
    assert prices.take(tokens[-1], calls[-2] + ".") is None
    assert prices.take(tokens[-1], calls[-1] + ".") is None  # it was for one answer
    assert prices.take(tokens[-2], calls[-2] + ".") == 100_001.0


@pytest.mark.slow
def test_an_agent_in_a_loop_is_stopped_by_the_limit_of_its_run(server: HttpServing) -> None:
    async def work() -> None:
        async with client(server, "ana-loop") as agent:
            for step in range(60):
                sql = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {step}"
                found = await agent.call_tool("ask", {"sql": sql, "epsilon": 2.0})
                if found.is_error:
                    break
            refused = found.structured_content["refused"]
            assert refused["code"] == "budget_exceeded", refused
            assert 5 <= step < 59
        async with client(server, "ana") as person:
            assert not (await person.call_tool("ask", {"sql": sql})).is_error

    run(work)
    # Through the other doors the token pays from the same account, within the same limits.
    dear = server.query(
        "SELECT COUNT(*) AS n FROM visits WHERE cost > 99", "ana-loop", options={"epsilon": 2.0}
    )
    assert (dear.status, dear.code) == (402, "budget_exceeded")


@pytest.mark.slow
def test_two_clients_at_once_and_a_cancel_of_one_is_no_others(server: HttpServing) -> None:
    async def work() -> None:
        async with (
            client(server, "ana") as slow,
            client(server, "eve") as other,
            anyio.create_task_group() as group,
        ):
            with anyio.CancelScope() as scope:

                async def busy() -> None:
                    found = await other.call_tool("ask", {"sql": QUESTION, "fresh": True})
                    assert not found.is_error
                    await anyio.sleep(1)
                    scope.cancel()

                group.start_soon(busy)
                began = time.monotonic()
                await slow.call_tool("ask", {"sql": SLOW})
            assert scope.cancelled_caught
            assert time.monotonic() - began < 60
            # What was cancelled has given its place back.
            for _ in range(4):
                assert not (await slow.call_tool("ask", {"sql": "SELECT 2 AS two"})).is_error
            assert not (await other.call_tool("ask", {"sql": QUESTION})).is_error

    run(work)
    assert cancelled_reads(server) == 1


def cancelled_reads(server: HttpServing) -> int:
    """Wait until the slow question has failed; how often it has."""
    for _ in range(200):
        asked = [one for one in lines(server) if one["event"] == "asked" and one["text"] == SLOW]
        sessions = {one["session"] for one in asked}
        ended = [one for one in lines(server) if one.get("session") in sessions and "code" in one]
        if ended:
            return sum(one["code"] in ("interrupted", "tail_failed") for one in ended)
        time.sleep(0.1)
    return 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":'
        + b'{"a":' * 500
        + b"1"
        + b"}" * 501,
        b"\xff\xfe",
    ],
)
def test_bodies_that_are_no_message_are_refused(server: HttpServing, body: bytes) -> None:
    found = post(server, body)
    assert (found.status, found.code) == (400, "bad_request")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": [], "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []},
    ],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01", "é"])
def test_messages_that_are_none_of_the_protocol_are_errors(
    server: HttpServing, body: dict[str, Any], version: str
) -> None:
    found = post(server, body, mcp_protocol_version=version.encode().decode("latin-1"))
    assert found.status in (200, 202, 400, 404)
    assert b"Traceback" not in found.body
    assert b'"result"' not in found.body


def test_there_are_no_sessions_to_take_over_or_end_and_no_streams_to_keep_open(
    server: HttpServing,
) -> None:
    for method in ("GET", "DELETE", "PUT"):
        found = server.ask(method, "/mcp", None, "ana", mcp_session_id="1" * 32, **ACCEPT)
        assert (found.status, found.code) == (405, "method_not_allowed")
    hello = message(
        "initialize",
        protocolVersion="2025-11-25",
        capabilities={},
        clientInfo={"name": "t", "version": "1"},
    )
    found = post(server, hello)
    assert found.status == 200
    assert "mcp-session-id" not in found.headers
    # An id of a session is nothing: neither a key nor an error.
    assert post(server, message("tools/list"), mcp_session_id="2" * 32).status == 200
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert post(server, gone).status == 202


def test_large_and_other_bodies_are_refused(server: HttpServing) -> None:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {server.tokens['ana']}\r\nContent-Length: 1000001\r\n\r\n"
    )
    assert b"body_too_large" in server.raw(head.encode(), shut=False)
    assert post(server, message("tools/list"), content_type="text/plain").code == "not_json"


@pytest.mark.slow
def test_clients_that_vanish_by_the_hundred_leave_the_server_as_it_was(
    server: HttpServing,
) -> None:
    body = json.dumps(message("tools/call", name="ask", arguments={"sql": SLOW})).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
        f"Authorization: Bearer {server.tokens['dora']}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    open_ = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(60)]
    for each in open_:
        each.sendall(head + body)
    time.sleep(2)
    # Others are answered meanwhile.
    assert server.query("SELECT 3 AS three", "bert").status == 200
    for each in open_:
        each.close()
    four = message("tools/call", name="ask", arguments={"sql": "SELECT 4 AS four"})
    for _ in range(100):
        found = post(server, four, "dora")
        if b"four" in found.body:
            break
        time.sleep(0.2)
    assert b"four" in found.body


@pytest.mark.slow
def test_values_of_rows_are_in_no_log_and_no_error(tmp_path: Path) -> None:
    import duckdb

    tokens = filled_with_tokens(tmp_path)
    poison = "poisoned-7f3a"
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as owner:
        owner.execute("UPDATE visits SET ward = ?", [poison])
    found = http_started(tmp_path, tokens)
    seen: list[str] = []

    async def work() -> None:
        async with client(found, "ana") as agent:
            for sql in (
                "SELECT ward::INTEGER AS w, COUNT(*) AS n FROM visits GROUP BY 1",
                "SELECT SUM(ward::DOUBLE) FROM visits",
                "SELECT ward FROM visits",
                "SELECT MAX(ward) FROM visits",
                "SELECT error(ward) FROM visits",
                QUESTION,
            ):
                reply = await agent.call_tool("ask", {"sql": sql})
                seen.append(json.dumps(reply.structured_content))

    try:
        run(work)
    finally:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0
    seen += [found.log.read_text(), (tmp_path / "audit.jsonl").read_text()]
    assert all(poison not in text for text in seen)


@pytest.mark.slow
def test_a_stop_ends_calls_and_their_reservations_stay(tmp_path: Path) -> None:
    found = http_started(tmp_path, filled_with_tokens(tmp_path), "--grace", "0.5")
    body = message("tools/call", name="ask", arguments={"sql": SLOW})
    replies: list[object] = []

    def ask() -> None:
        try:
            replies.append(post(found, body))
        except OSError as error:
            replies.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(100):
        if any(one["event"] == "asked" for one in lines(found)):
            break
        time.sleep(0.1)
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(30) == 0
    asking.join(30)
    assert replies
    assert "Traceback" not in found.log.read_text()


@pytest.mark.slow
def test_the_route_is_there_only_if_it_is_wanted(tmp_path: Path) -> None:
    found = http_started(tmp_path, filled_with_tokens(tmp_path), "--no-mcp")
    try:
        reply = post(found, message("tools/list"))
        assert (reply.status, reply.code) == (404, "unknown_route")
    finally:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0
    assert "/mcp" not in found.log.read_text()


WITHOUT = (
    "-c",
    "import sys; sys.modules['mcp'] = None; from dpsql.interfaces.cli import cli; cli()",
)


@pytest.mark.slow
def test_without_the_package_it_says_so_and_serves_all_else(tmp_path: Path) -> None:
    tokens = filled_with_tokens(tmp_path)
    found = http_started(tmp_path, tokens, program=WITHOUT)
    try:
        assert post(found, message("tools/list")).status == 404
        assert found.query("SELECT 1").status == 200
    finally:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0
    assert "no tools for language models. Install it with" in found.log.read_text()
    with pytest.raises(AssertionError, match=r"pip install(.|\n)*missing_package"):
        http_started(tmp_path, tokens, "--mcp", program=WITHOUT)

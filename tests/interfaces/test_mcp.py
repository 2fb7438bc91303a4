"""`dpsql mcp` by the SDK's own client: in memory, and over the standard streams of a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import duckdb
import pytest
from helpers.agent_worlds import COUNTS, clinic, clinic_policy, toolbox

from dpsql.agents.protocol import AgentDesk, AgentHandlers
from dpsql.agents.tools import TOOLS, Toolbox
from dpsql.errors import EngineError
from dpsql.interfaces.mcp_lines import LineConversation
from dpsql.interfaces.mcp_stdio import serve_lines
from dpsql.pipeline.buyer import Buyer
from dpsql.server.workers import Workers
from dpsql.service.session import Dataset

ABSENT = "the extra `mcp` is not installed"
Client = pytest.importorskip("mcp.client", reason=ABSENT).Client
streams = pytest.importorskip("mcp.client.stdio", reason=ABSENT)
stdio_server = pytest.importorskip("mcp.server.stdio", reason=ABSENT).stdio_server
ElicitResult = pytest.importorskip("mcp_types", reason=ABSENT).ElicitResult

MOST_SECONDS = 120
ROOT = Path(__file__).parents[2]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
ONE = "SELECT COUNT(DISTINCT patient) AS n FROM visits"


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[Dataset]:
    with clinic(tmp_path) as opened:
        yield opened


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        with anyio.fail_after(MOST_SECONDS):
            await work()

    anyio.run(limited)


@asynccontextmanager
async def lines_of(box: Toolbox) -> AsyncIterator[tuple[Any, Any]]:
    """Serve tools over pipes of this process; the streams of the SDK's client for them."""
    (served, asking), (answering, answered) = os.pipe(), os.pipe()
    with (
        open(served, encoding="utf-8") as lines,
        open(answered, "w", encoding="utf-8") as replies,
        open(answering, encoding="utf-8") as heard,
        open(asking, "w", encoding="utf-8") as said,
    ):
        serving = asyncio.ensure_future(serve_lines(box, lines, replies))
        # The SDK's own for servers: it reads and writes lines for either side.
        async with stdio_server(anyio.wrap_file(heard), anyio.wrap_file(said)) as (read, write):
            yield read, write
            await write.aclose()
            said.close()
            await serving
            replies.close()


def client(box: Toolbox, mode: str = "auto", **how: Any) -> Any:
    return Client(lines_of(box), mode=mode, **how)


@pytest.mark.slow
@MODES
@pytest.mark.few(2)
def test_every_tool_and_refusal_passes_the_client(dataset: Dataset, mode: str) -> None:
    async def work() -> None:
        async with client(toolbox(dataset), mode) as agent:
            listed = (await agent.list_tools()).tools
            assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
            reading = {t.name: t.annotations.read_only_hint for t in listed if t.annotations}
            assert [name for name, hint in reading.items() if not hint] == ["ask"]
            asked = await agent.call_tool("ask", {"sql": COUNTS})
            release = asked.structured_content["answer"]["answer"]["release_id"]
            given: dict[str, dict[str, Any]] = {
                "tables": {},
                "describe": {"table": "visits"},
                "explain": {"sql": COUNTS},
                "ask": {"sql": COUNTS},
                "rows": {"release_id": release},
                "budget": {},
                "history": {},
                "verify": {"text": "1 and 2", "release_ids": [release]},
            }
            for name, arguments in given.items():
                found = await agent.call_tool(name, arguments)
                assert not found.is_error
                assert found.structured_content["refused"] is None
                wrong = await agent.call_tool(name, {"nothing": 1})
                assert wrong.is_error
                assert wrong.structured_content["refused"]["code"] == "bad_arguments"
            assert (await agent.call_tool("ask", {"sql": "x" * 10**6})).is_error
            assert (await agent.call_tool("describe", {"table": "nope"})).is_error

    run(work)


@pytest.mark.slow
@MODES
@pytest.mark.few(2)
def test_a_person_is_asked_once_for_one_price(dataset: Dataset, mode: str) -> None:
    heard: list[str] = []
    says = {"agree": True}

    async def person(context: Any, params: Any) -> Any:
        heard.append(params.message)
        return ElicitResult(action="accept", content=dict(says))

    async def work() -> None:
        box = toolbox(dataset, confirm_above=0.1)
        async with client(box, mode, elicitation_callback=person) as agent:
            found = await agent.call_tool("ask", {"sql": COUNTS})
            assert not found.is_error
            assert len(heard) == 1
            assert "epsilon 0.2" in heard[0]
            assert not (await agent.call_tool("ask", {"sql": COUNTS})).is_error
            assert len(heard) == 1  # it is free
            says["agree"] = False
            found = await agent.call_tool("ask", {"sql": COUNTS, "fresh": True})
            assert found.structured_content["refused"]["code"] == "needs_confirmation"
            assert len(heard) == 2
        async with client(box, mode) as alone:
            found = await alone.call_tool("ask", {"sql": ONE})
            refused = found.structured_content["refused"]
            assert refused["code"] == "needs_confirmation"
            assert refused["price_epsilon"] == pytest.approx(0.2, rel=1e-6)

    run(work)


@pytest.mark.slow
def test_a_cancelled_read_ends_and_no_other_does(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, ended = threading.Event(), threading.Event()
    whole, own = Buyer.buy, Buyer.interrupt
    stopped: set[int] = set()

    def interrupt(self: Buyer) -> None:
        stopped.add(id(self))
        own(self)

    def slow(self: Buyer, begun: Any, purchases: Any) -> Any:
        if "cost > 7" not in purchases[0].record:
            yield from whole(self, begun, purchases)
            return
        reading.set()
        for _ in range(11_000):  # as long as the test may take
            if id(self) in stopped:
                ended.set()
                raise EngineError("interrupted", code="interrupted")
            ended.wait(0.01)
        yield from whole(self, begun, purchases)

    monkeypatch.setattr(Buyer, "interrupt", interrupt)
    monkeypatch.setattr(Buyer, "buy", slow)

    async def work() -> None:
        async with client(toolbox(dataset)) as agent, anyio.create_task_group() as group:

            async def cancelled() -> None:
                with anyio.CancelScope() as scope:
                    group.start_soon(cancel, scope)
                    await agent.call_tool("ask", {"sql": f"{ONE} WHERE cost > 7"})

            async def cancel(scope: anyio.CancelScope) -> None:
                while not reading.is_set():
                    await anyio.sleep(0.01)
                other = await agent.call_tool("ask", {"sql": ONE})
                assert not other.is_error
                scope.cancel()

            group.start_soon(cancelled)
            while not ended.is_set():
                await anyio.sleep(0.01)
            found = await agent.call_tool("budget", {})
            assert found.structured_content["answer"]["unsettled"] == 1

    run(work)


@pytest.mark.slow
def test_further_rows_are_a_resource_of_the_run(dataset: Dataset) -> None:
    async def work() -> None:
        sql = "SELECT day FROM days ORDER BY day"
        async with client(toolbox(dataset)) as agent:
            found = await agent.call_tool("ask", {"sql": sql})
            (link,) = [part for part in found.content if part.type == "resource_link"]
            (read,) = (await agent.read_resource(str(link.uri))).contents
            assert read.text.split("\n")[:3] == ["day", "0", "1"]
        async with client(toolbox(dataset, "run-2")) as other:
            with pytest.raises(Exception, match="keeps no such answer"):
                await other.read_resource(str(link.uri))

    run(work)


# -- processes ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("clinic")
    with duckdb.connect(str(found / "clinic.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE visits AS SELECT i % 3000 AS patient, 'eyes' AS ward, "
            "(i % 90)::DOUBLE AS cost FROM range(9000) t(i)"
        )
        writer.execute("CREATE TABLE days AS SELECT i::INTEGER AS day FROM range(1000) t(i)")
    (found / "policies.yaml").write_text(clinic_policy(), "utf-8")
    return found


def command(place: Path, *more: str) -> list[str]:
    named = ["-d", str(place / "clinic.duckdb"), "-p", str(place / "policies.yaml"), "-a", "ana"]
    return [sys.executable, "-m", "dpsql", "mcp", *named, *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def started(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of its own, which is killed if it hangs."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(place), stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment()
    ) as server:
        limit = threading.Timer(MOST_SECONDS, server.kill)
        limit.start()
        try:
            yield server
        finally:
            limit.cancel()


@pytest.mark.slow
def test_two_clients_at_once_over_standard_streams(place: Path) -> None:
    async def work() -> None:
        async def one(run_name: str) -> None:
            question = f"{ONE} WHERE cost > {run_name[-1]}"
            program, *arguments = command(place, "--session", run_name, "--run-epsilon", "0.5")
            server = streams.StdioServerParameters(
                command=program, args=arguments, env=environment()
            )
            async with Client(streams.stdio_client(server)) as agent:
                found = await agent.call_tool("ask", {"sql": question})
                assert not found.is_error
                spent = (await agent.call_tool("budget", {})).structured_content["answer"]
                assert spent["account"] == f"clinic/ana/{run_name}"
                assert spent["epsilon_limit"] == 0.5

        async with anyio.create_task_group() as group:
            group.start_soon(one, "run 1")
            group.start_soon(one, "run 2")

    run(work)


HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


@pytest.mark.slow
def test_standard_output_carries_the_protocol_alone_and_a_client_may_vanish(place: Path) -> None:
    call = (
        '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask","arguments":'
        '{"sql":"%s"}}}\n'
    )
    sent = HELLO + "no json\n" + call % (2, "SELECT 1 AS n") + call % (3, "SELECT * FROM visits")
    with started(place) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(sent)
        server.stdin.flush()
        replies = [json.loads(server.stdout.readline()) for _ in range(4)]
        server.stdin.write(call % (4, ONE))  # and gone
        server.stdin.flush()
        server.stdin.close()
        server.stdout.close()
        server.wait(MOST_SECONDS)
        assert server.stderr is not None
        errors = server.stderr.read()
    assert {reply.get("id") for reply in replies} == {None, 1, 2, 3}
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    assert "Traceback" not in errors
    assert "leaked" not in errors
    assert server.returncode == 0


@pytest.mark.slow
def test_a_client_that_writes_no_more_has_the_replies_to_all_it_has_asked(place: Path) -> None:
    """As a shell does that sends lines through a pipe: the last question is as good as others."""
    asked = "".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        + "\n"
        for number, params in enumerate(
            (
                {"name": "tables"},
                {"name": "ask", "arguments": {"sql": ONE}},
                {"name": "ask", "arguments": {"sql": COUNTS}},
            ),
            2,
        )
    )
    with started(place) as server:
        out, errors = server.communicate(HELLO + asked, timeout=MOST_SECONDS)
    replies = {reply["id"]: reply for reply in map(json.loads, out.splitlines())}
    assert replies.keys() == {1, 2, 3, 4}
    assert not any(replies[number]["result"]["isError"] for number in (2, 3, 4))
    assert "leaked" not in errors
    assert server.returncode == 0


@pytest.mark.slow
def test_sigterm_ends_it_without_a_trace(place: Path) -> None:
    with started(place) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(HELLO)
        server.stdin.flush()
        server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        server.wait(MOST_SECONDS)  # its input is still open
        _, errors = server.communicate(timeout=MOST_SECONDS)
    assert "Traceback" not in errors
    assert "leaked" not in errors
    assert server.returncode == 0


class Exchange:
    """Lines to a conversation, and what comes back, without streams."""

    def __init__(self, box: Toolbox) -> None:
        self.sent: list[dict[str, Any]] = []
        desk = AgentDesk(box, partial(Workers().run, "the run"))
        handlers = AgentHandlers(lambda error: type(error).__name__)
        self.conversation = LineConversation(
            handlers, desk, lambda line: self.sent.append(json.loads(line))
        )

    async def say(self, *messages: object) -> list[dict[str, Any]]:
        """Say lines, or objects as lines; return what has come back when nothing runs any more."""
        before = len(self.sent)
        for each in messages:
            line = each if isinstance(each, str) else json.dumps({"jsonrpc": "2.0", **dict(each)})  # type: ignore[call-overload]
            self.conversation.take(line)
        while self.conversation.busy:
            await asyncio.sleep(0.001)
        return self.sent[before:]


def hello(version: str = "2025-11-25", **capabilities: object) -> dict[str, object]:
    named = {"name": "t", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": named}
    return {"id": 1, "method": "initialize", "params": params}


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
NO_MESSAGES = (
    *("", " \r\n"),
    '{"jsonrpc":"2.0","id":9,"result":{}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
    '{"jsonrpc":"2.0","method":"nothing"}',
)
NO_JSON: tuple[tuple[str, int, object], ...] = (
    ("no json", -32700, None),
    ("[" * 100_000, -32700, None),
    ('{"jsonrpc":"2.0","id":NaN}', -32700, None),
    ('{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":-Infinity}}', -32700, 2),
    *((text, -32600, None) for text in ("[]", "1", "null", '"text"', "{}")),
    ('{"id":2,"method":"ping"}', -32600, 2),
    ('{"jsonrpc":"2.0","id":[2],"method":"ping"}', -32600, None),
    ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
)


def test_what_is_no_request_has_no_reply_and_what_is_a_wrong_one_an_error(
    dataset: Dataset,
) -> None:
    async def work() -> None:
        line = Exchange(toolbox(dataset))
        for each in NO_MESSAGES:
            assert await line.say(each) == [], each[:80]
        for each, code, name in NO_JSON:
            (reply,) = await line.say(each)
            assert (reply["error"]["code"], reply["id"]) == (code, name), each[:80]
        wrong: list[tuple[dict[str, object], int]] = [
            ({"id": 2, "method": 3}, -32600),
            ({"id": 2, "method": "ping", "params": []}, -32600),
            ({"id": 2, "method": "tools/list"}, -32602),  # before the handshake
            ({"id": 2, "method": "nothing"}, -32601),
            ({"id": 2, "method": "initialize", "params": {"protocolVersion": 7}}, -32602),
        ]
        for asked, code in wrong:
            (reply,) = await line.say(asked)
            assert (reply["id"], reply["error"]["code"]) == (2, code), asked
        (reply,) = await line.say(hello("1999-01-01"))
        assert reply["result"]["protocolVersion"] == "2025-11-25"
        called: list[tuple[dict[str, object], int]] = [
            ({"name": 1}, -32602),
            ({"name": "ask", "arguments": [1]}, -32602),
            ({"name": "tables", "_meta": META}, -32600),  # the connection has shaken hands
            ({"name": "tables", "_meta": 5}, -32602),
            ({"name": "tables", "_meta": {"progressToken": [1]}}, -32602),
            ({"name": "tables", "_meta": {"progressToken": 1.5}}, -32602),
            ({"name": "tables", "requestState": 5}, -32602),
            ({"name": "tables", "inputResponses": []}, -32602),
        ]
        for params, code in called:
            (reply,) = await line.say({"id": "a", "method": "tools/call", "params": params})
            assert (reply["id"], reply["error"]["code"]) == ("a", code), params
        (reply,) = await line.say({"id": 2, "method": "resources/read", "params": {"uri": None}})
        assert reply["error"]["code"] == -32602
        nested: dict[str, object] = {}
        for _ in range(500):
            nested = {"sql": nested}
        (reply,) = await line.say(
            {"id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": nested}}
        )
        assert reply["result"]["isError"]
        lone = {"id": 2, "method": "tools/call", "params": {"name": "\ud800", "arguments": None}}
        (reply,) = await line.say(lone)
        assert reply["result"]["isError"]

    run(work)


def test_without_a_handshake_each_request_says_who_sends_it(dataset: Dataset) -> None:
    async def work() -> None:
        line = Exchange(toolbox(dataset))
        (reply,) = await line.say({"id": 1, "method": "tools/list", "params": {"_meta": META}})
        assert reply["result"]["resultType"] == "complete"
        version = "io.modelcontextprotocol/protocolVersion"
        wrong: list[tuple[str, dict[str, Any], int]] = [
            ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, -32022),
            ("tools/list", {}, -32602),
            ("tools/list", {"_meta": {version: "2026-07-28"}}, -32602),
            ("tools/list", {"_meta": {**META, version: 7}}, -32602),
            ("tools/list", {"_meta": {**META, version: "2031-01-01"}}, -32022),
            ("ping", {"_meta": META}, -32601),
        ]
        for method, params, code in wrong:
            (reply,) = await line.say({"id": 1, "method": method, "params": params})
            assert reply["error"]["code"] == code, (method, params)

    run(work)


def test_two_requests_of_one_id_are_not_taken_for_each_other(dataset: Dataset) -> None:
    async def work() -> None:
        line = Exchange(toolbox(dataset))
        await line.say(hello())
        call = {"id": 5, "method": "tools/call", "params": {"name": "tables"}}
        replies = await line.say(call, call)
        assert sorted("error" in each for each in replies) == [False, True]

    run(work)


def test_an_open_price_is_answered_by_the_client_or_ends_with_its_call(dataset: Dataset) -> None:
    async def work() -> None:
        line = Exchange(toolbox(dataset, confirm_above=0.1))
        await line.say(hello(elicitation={}))
        call = {"name": "ask", "arguments": {"sql": COUNTS}}
        for answer, refused in (
            ({"result": {"action": "decline"}}, True),
            ({"error": {"code": 1, "message": "no"}}, True),
            ({"result": {"action": "accept", "content": {"agree": True}}}, False),
        ):
            line.conversation.take(
                json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call})
            )
            while line.sent[-1].get("method") != "elicitation/create":
                await asyncio.sleep(0.001)
            (*_, reply) = await line.say({"id": line.sent[-1]["id"], **answer})
            assert reply["result"]["isError"] == refused
        fresh = {"name": "ask", "arguments": {"sql": COUNTS, "fresh": True}}
        line.conversation.take(
            json.dumps({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": fresh})
        )
        while line.sent[-1].get("method") != "elicitation/create":
            await asyncio.sleep(0.001)
        gone = {"method": "notifications/cancelled", "params": {"requestId": 8}}
        assert await line.say(gone) == []
        await line.conversation.end()

    run(work)


def test_a_call_that_is_cancelled_twice_is_waited_for_until_it_has_ended(dataset: Dataset) -> None:
    async def work() -> None:
        line = Exchange(toolbox(dataset))
        await line.say(hello())
        begun, released = threading.Event(), threading.Event()

        async def turn(work: Callable[[], Any]) -> Any:
            def slow() -> None:
                begun.set()
                released.wait(MOST_SECONDS)

            return await workers.run("the run", slow)

        workers = Workers()
        line.conversation.desk = AgentDesk(toolbox(dataset), turn)
        reads: list[tuple[str, dict[str, object]]] = [
            ("tools/call", {"name": "tables"}),
            ("resources/read", {"uri": "dpsql://answers/x.csv"}),
        ]
        for method, params in reads:
            begun.clear()
            released.clear()
            asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            line.conversation.take(json.dumps(asked))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            gone = {"method": "notifications/cancelled", "params": {"requestId": 7}}
            for _ in range(2):
                line.conversation.take(json.dumps({"jsonrpc": "2.0", **gone}))
                await asyncio.sleep(0.01)
            ended = asyncio.ensure_future(line.conversation.end())
            await asyncio.sleep(0.1)
            assert (line.conversation.busy, workers.running) == (True, 1)
            assert not ended.done()
            released.set()
            await ended
            assert workers.running == 0
        workers.close()

    run(work)

"""`dpsql mcp` by the SDK's own client: in memory, and over the standard streams of a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import duckdb
import pytest
from helpers.agent_worlds import COUNTS, clinic, clinic_policy, toolbox

from dpsql.agents.tools import TOOLS, Toolbox
from dpsql.errors import EngineError
from dpsql.pipeline.buyer import Buyer
from dpsql.service.session import Dataset

ABSENT = "the extra `mcp` is not installed"
Client = pytest.importorskip("mcp.client", reason=ABSENT).Client
streams = pytest.importorskip("mcp.client.stdio", reason=ABSENT)
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


def client(box: Toolbox, mode: str = "auto", **how: Any) -> Any:
    from dpsql.interfaces.mcp_stdio import stdio_server_of
    from dpsql.server.workers import Workers

    return Client(stdio_server_of(box, Workers()), mode=mode, **how)


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
        # What is no JSON has no reply.
        replies = [json.loads(server.stdout.readline()) for _ in range(3)]
        server.stdin.write(call % (4, ONE))  # and gone
        rest, errors = server.communicate(timeout=MOST_SECONDS)
    assert {reply.get("id") for reply in replies} >= {1}
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    for line in rest.splitlines():
        json.loads(line)
    assert "Traceback" not in errors
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
        _, errors = server.communicate(timeout=MOST_SECONDS)
    assert "Traceback" not in errors
    assert server.returncode == 0


def test_without_the_package_it_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from dpsql.interfaces.cli import cli

    monkeypatch.setattr("dpsql.interfaces.cli.mcp.find_spec", lambda name: None)
    found = CliRunner().invoke(cli, command(place)[3:])
    assert found.exit_code == 2
    assert "missing_package" in found.output
    assert "pip install" in found.output

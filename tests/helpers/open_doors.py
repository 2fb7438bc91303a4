"""The doors of a server in a thread of this process: PostgreSQL's wire, HTTP, tools for models.

The parts are the server's own, over sockets; what stands here is their start, and a client of each
that gives back all that it was sent, to the byte. A test that has taken over clocks, noise or
engines of the process sees what a door does with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from dpsql.agents.tools import Call, Toolbox, ToolOutcome
from dpsql.interfaces.mcp_stdio import serve_lines
from dpsql.policy.model import AgentPolicy
from dpsql.server.audit import AuditLog
from dpsql.server.desk import Desk
from dpsql.server.editions import Editions
from dpsql.server.guard import Guard
from dpsql.server.http.agents import HttpAgents
from dpsql.server.http.listener import HttpDoor
from dpsql.server.people.users import Users
from dpsql.server.tally import Tally
from dpsql.server.wire.door import Door
from dpsql.server.workers import Workers
from dpsql.service.session import Dataset
from helpers.scram_client import ScramClient

DOORS: Final = ("wire", "http", "mcp", "stdio", "tools")
PASSWORD: Final = "correct horse battery"
_SECONDS: Final = 120.0
_ENROLLED: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PASSING: Final = re.compile(rb'(?im)^date: .*$|(?<="opened":)\s*"[^"]*"')
"""Times of the machine, in headers and of the opening of the data."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a door sent back for one statement; ``code`` is that of a refusal."""

    code: str
    data: bytes

    @property
    def lasting(self) -> str:
        """What was sent without the times of the machine that are in it."""
        return _PASSING.sub(b"...", self.data).decode("latin-1")

    def shape(self, door: str) -> str:
        """What an answer tells beside its values: columns, types and the price."""
        if door == "wire":
            return repr([body for kind, body in messages_in(self.data) if kind == b"T"])
        found = _object_in(self.data)
        found = found.get("result", {}).get("structuredContent", found)
        found = found.get("answer", found)
        columns = found.get("answer", found)["columns"]
        return repr((columns, f"{found['cost']['epsilon_reserved']:.6g}"))

    @property
    def internal(self) -> bool:
        """True of an error that is no refusal: only its number is told."""
        return self.code in ("XX000", "500")


def _now() -> datetime:
    return datetime.now(UTC)


@cache
def enrolled(accounts: tuple[str, ...]) -> tuple[bytes, Mapping[str, str]]:
    """Make a file of users, one of each account, and their tokens: once, as passwords are slow.

    Where numbers are drawn by seeds it is made before: what is drawn here is of no seed.
    """
    tokens = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "users.db"
        with Users.create(path, iterations=4096, clock=lambda: _ENROLLED) as users:
            for name in accounts:
                users.add(name, PASSWORD, accounts=[name])
                tokens[name] = users.issue_token(name, "laptop").secret
        return path.read_bytes(), MappingProxyType(tokens)


class OpenDoors:
    """Doors to a dataset, for one user of each account; ``close`` closes the dataset, too."""

    def __init__(
        self,
        dataset: Dataset,
        place: Path,
        accounts: Sequence[str],
        clock: Callable[[], datetime] = _now,
    ) -> None:
        place.mkdir()
        self._dataset = dataset
        file, self._tokens = enrolled(tuple(accounts))
        path = place / "users.db"
        path.touch(mode=0o600)
        path.write_bytes(file)
        self._users = Users(path, clock=clock)
        self._audit = AuditLog(place / "audit.jsonl", clock)
        self._boxes: dict[str, Toolbox] = {}
        self._wires: dict[str, WireClient] = {}
        self._lines: dict[str, StdioClient] = {}
        self._request: http.client.HTTPConnection | None = None
        self._call: Call | None = None
        self._ports: dict[str, int] = {}
        self._wrong: list[BaseException] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doors")
        self._thread.start()
        self._ready.wait(_SECONDS)
        if self._wrong:
            raise self._wrong[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self._wrong.append(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tally, workers = Tally(), Workers()
        guard = Guard(self._dataset, self._users, self._audit, tally)
        desk = Desk(guard, self._users, self._audit, cast(Editions, None))  # owners alone ask it
        door = Door(guard, workers)
        web = HttpDoor(guard, workers, None, desk, tally, HttpAgents(guard, workers))
        server = await asyncio.start_server(door.serve, "127.0.0.1", 0)
        self._ports["wire"] = server.sockets[0].getsockname()[1]
        self._ports["http"] = (await web.start("127.0.0.1", 0))[1]
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            server.close()
            await asyncio.gather(door.stop(1), web.stop(1))
            workers.close()
            guard.close()

    def close(self) -> None:
        """End connections, doors and dataset."""
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_SECONDS)
        self._audit.close()
        self._users.close()
        if self._wrong:
            raise self._wrong[0]

    @property
    def _clients(self) -> tuple[WireClient | StdioClient, ...]:
        return *self._wires.values(), *self._lines.values()

    def vanish(self) -> None:
        """Have the clients go away in the middle; what they have asked ends. Safe for threads."""
        for client in self._clients:
            client.vanish()
        if self._request is not None and self._request.sock is not None:
            with contextlib.suppress(OSError):
                self._request.sock.shutdown(socket.SHUT_RDWR)
        if self._call is not None:
            self._call.cancel()

    def forget(self, account: str) -> None:
        """Close the connection of an account to PostgreSQL's door; the next one is another."""
        wire = self._wires.pop(account, None)
        if wire is not None:
            wire.close()

    def ask(self, door: str, account: str, sql: str) -> Sent:
        """Ask a statement at a door."""
        asks: dict[str, Callable[[str, str], Sent]] = {
            "wire": self._wire, "http": self._http, "mcp": self._mcp, "stdio": self._stdio,
            "tools": self._tools,
        }  # fmt: skip
        return asks[door](account, sql)

    def wire(self, account: str) -> WireClient:
        """The connection of an account to the door of PostgreSQL's protocol."""
        if account not in self._wires:
            port, name = self._ports["wire"], self._dataset.policy.dataset
            self._wires[account] = WireClient(port, account, name)
        return self._wires[account]

    def request(
        self, account: str, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request of HTTP; returns status, headers and body."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given["authorization"] = f"Bearer {self._tokens[account]}"
        data = None
        if body is not None:
            data, given["content-type"] = json.dumps(body).encode(), "application/json"
        con = http.client.HTTPConnection("127.0.0.1", self._ports["http"], timeout=_SECONDS)
        with contextlib.closing(con):
            con.connect()
            self._request = con
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                con.request(method, path, data, given)  # a long body may be refused on the way
            found = con.getresponse()
            return found.status, found.getheaders(), found.read()

    def call(self, account: str, tool: str, **arguments: object) -> Sent:
        """Call a tool for language models over HTTP."""
        params = {"name": tool, "arguments": arguments}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        accept = "application/json, text/event-stream"
        status, headers, body = self.request(
            account, "POST", "/mcp", sent, accept=accept, mcp_protocol_version="2025-11-25"
        )
        code = str(status) if status != 200 else _tool_code(body)
        return Sent(code, _whole(status, headers, body))

    def _wire(self, account: str, sql: str) -> Sent:
        data = self.wire(account).query(sql)
        return Sent(_wire_code(data), data)

    def _http(self, account: str, sql: str) -> Sent:
        status, headers, body = self.request(account, "POST", "/v1/query", {"sql": sql})
        code = ""
        if status != 200:
            code = str(status) if status == 500 else json.loads(body)["code"]
        return Sent(code, _whole(status, headers, body))

    def _mcp(self, account: str, sql: str) -> Sent:
        return self.call(account, "ask", sql=sql)

    def _stdio(self, account: str, sql: str) -> Sent:
        if account not in self._lines:
            box = Toolbox.of(self._dataset, account, "stdio", AgentPolicy())
            self._lines[account] = StdioClient(box, self._loop)
        data = self._lines[account].call("ask", sql=sql)
        return Sent(_tool_code(data), data)

    def _tools(self, account: str, sql: str) -> Sent:
        if account not in self._boxes:
            self._boxes[account] = Toolbox.of(self._dataset, account, "tools", AgentPolicy())
        self._call = Call()
        found = self._boxes[account].call("ask", {"sql": sql}, self._call)
        assert isinstance(found, ToolOutcome)
        refused: Any = found.structured["refused"]
        code = "" if refused is None else refused["code"]
        return Sent(code, f"{json.dumps(found.structured)}\n{found.text}".encode())


def _tool_code(data: bytes) -> str:
    """The code of the refusal in a reply of a tool; 500 for an error of the protocol."""
    reply = _object_in(data)
    refused = reply["result"]["structuredContent"]["refused"] if "result" in reply else None
    return "500" if "error" in reply else "" if refused is None else str(refused["code"])


def _object_in(data: bytes) -> Any:
    """Read the object of JSON among the lines of a reply."""
    lines = data.decode().splitlines()
    line = next(line for line in lines if line.startswith(("{", "data: {")))
    return json.loads(line.removeprefix("data: "))


def _wire_code(data: bytes) -> str:
    """The code of the error among some messages, its SQLSTATE if dpsql has none for it."""
    for kind, body in messages_in(data):
        if kind == b"E":
            found = re.search(rb"\[([a-z_]+)\]\0", body)
            if found is not None:
                return found[1].decode()
            return next(each[1:] for each in body.decode().split("\0") if each.startswith("C"))
    return ""


def messages_in(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Cut bytes of PostgreSQL's protocol into messages, each with its kind."""
    while data:
        size = int.from_bytes(data[1:5], "big")
        yield data[:1], data[5 : size + 1]
        data = data[size + 1 :]


def _whole(status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    head = "".join(f"{name}: {value}\n" for name, value in headers)
    return f"{status}\n{head}\n".encode() + body


class StdioClient:
    """A client of ``dpsql mcp`` that keeps all bytes, over pipes in place of its standard ones."""

    def __init__(self, toolbox: Toolbox, loop: asyncio.AbstractEventLoop) -> None:
        (served, asking), (answering, answered) = os.pipe(), os.pipe()
        self._in, self._out = os.fdopen(asking, "wb"), os.fdopen(answering, "rb")
        lines = os.fdopen(served, encoding="utf-8"), os.fdopen(answered, "w", encoding="utf-8")

        async def serve() -> None:
            with lines[0], lines[1]:
                await serve_lines(toolbox, *lines)

        self._served = asyncio.run_coroutine_threadsafe(serve(), loop)
        self._number = 0
        client = {"name": "client", "version": "1"}
        version = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self._sent("initialize", version)

    def call(self, tool: str, **arguments: object) -> bytes:
        """Call a tool, and return the line of its reply."""
        return self._sent("tools/call", {"name": tool, "arguments": arguments})

    def _sent(self, method: str, params: object) -> bytes:
        self._number += 1
        sent = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._in.write(json.dumps(sent).encode() + b"\n")
        self._in.flush()
        found = self._out.readline()
        if not found:
            raise ConnectionError("the server has gone")
        return re.sub(rb'"id":\s*\d+', b'"id":0', found, count=1)

    def vanish(self) -> None:
        """Close the pipe to the server, which ends what was asked."""
        with contextlib.suppress(OSError, ValueError):
            self._in.close()

    def close(self) -> None:
        """Leave, and wait for the end of the server."""
        self.vanish()
        with contextlib.suppress(TimeoutError, ConnectionError):
            self._served.result(_SECONDS)
        self._out.close()


class WireClient:
    """A client of PostgreSQL's protocol that keeps all bytes."""

    def __init__(self, port: int, user: str, database: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        scram = ScramClient(PASSWORD)
        words = ["user", user, "database", database, "client_encoding", "UTF8", ""]
        given = b"\0\x03\0\0" + b"".join(word.encode() + b"\0" for word in words)
        self._socket.sendall((len(given) + 4).to_bytes(4, "big") + given)
        self._message()
        first = scram.first()
        self.send(b"p", b"SCRAM-SHA-256\0" + len(first).to_bytes(4, "big") + first)
        kind, said = self._message()
        assert kind == b"R", said
        self.send(b"p", scram.last(said[4:]))
        self.until_ready()

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Send a message."""
        self._socket.sendall(kind + (len(body) + 4).to_bytes(4, "big") + body)

    def query(self, sql: str) -> bytes:
        """Ask a statement, and return all messages up to the end of its answer."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.until_ready()

    def until_ready(self) -> bytes:
        """Return the bytes of all messages until the server is ready."""
        return b"".join(self._messages())

    def _messages(self) -> Iterator[bytes]:
        while True:
            kind, body = self._message()
            yield kind + (len(body) + 4).to_bytes(4, "big") + body
            if kind == b"Z":
                return

    def _message(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        return head[:1], self._exactly(int.from_bytes(head[1:], "big") - 4)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            if not more:
                raise ConnectionError(f"the server has gone after {found!r}")
            found += more
        return found

    def vanish(self) -> None:
        """End the connection under whoever waits for an answer."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Leave without a word."""
        self._socket.close()

"""The Model Context Protocol on lines of JSON: requests and notifications of one client.

The first request decides how a connection goes on: by a handshake, as up to 2025, or without one,
where each request says itself who sends it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

import dpsql
from dpsql.agents.protocol import (
    INSTRUCTIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_CACHED,
    PARSE_ERROR,
    SERVER_NAME,
    AgentClient,
    AgentDesk,
    AgentHandlers,
    AgentProtocolError,
    ProtocolFields,
    not_valid,
)

RequestId: TypeAlias = int | str

_HANDSHAKES: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_WITHOUT: Final = ("2026-07-28",)
_UNSUPPORTED: Final = -32022
_PREFIX: Final = "io.modelcontextprotocol/"
_VERSION: Final = f"{_PREFIX}protocolVersion"
_CAPABILITIES: Final = f"{_PREFIX}clientCapabilities"
_SERVER: Final = {"name": SERVER_NAME, "version": dpsql.__version__}
_SERVES: Final = {
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_RETURNS_NOTHING: Final[ProtocolFields] = {}


@dataclass(slots=True, eq=False)
class LineConversation:
    """A conversation with one client; ``send`` takes each line for it, without its end."""

    handlers: AgentHandlers
    desk: AgentDesk
    send: Callable[[str], None]
    _handshake: bool | None = None
    _has_person: bool | None = None  # of the client of a handshake; None before it
    _running: dict[RequestId | None, asyncio.Task[None]] = field(default_factory=dict)
    _asked: dict[RequestId, asyncio.Future[object]] = field(default_factory=dict)
    _heard_all: bool = False
    _numbers: count[int] = field(default_factory=partial(count, 1))

    @property
    def busy(self) -> bool:
        """True if a request waits for its reply."""
        return bool(self._running)

    def take(self, line: str) -> None:
        """Take a line of the client. What asks for nothing has no reply."""
        if not line.strip():
            return
        try:
            message = _message(line)
        except _NoMessage as error:
            self._send(id=error.name, error=_told(error.told))
            return
        name, method = _request_id(message.get("id")), message.get("method")
        params = message.get("params")
        params = {} if params is None else params
        whole = isinstance(method, str) and isinstance(params, dict)
        if name is None:
            if whole and "id" in message:
                self._send(id=None, error=_told(_invalid_request()))
            elif whole and method == "notifications/cancelled":
                task = self._running.get(_request_id(params.get("requestId")))
                if task is not None:
                    task.cancel()
        elif method is None:
            asked = self._asked.pop(name, None)
            if asked is not None and not asked.done():
                asked.set_result(message.get("result"))
        elif not whole or name in self._running:
            self._send(id=name, error=_told(_invalid_request()))
        else:
            self._begin(name, method, params)

    async def finish(self) -> None:
        """Wait for the replies to all calls, of a client that says nothing more.

        What its person is asked has no answer then.
        """
        self._heard_all = True
        for each in self._asked.values():
            if not each.done():
                each.set_result(None)
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def end(self) -> None:
        """End all calls that run or wait, and wait until they have ended."""
        left = list(self._running.values())
        for each in left:
            each.cancel()
        if left:
            await asyncio.wait(left)

    def _begin(self, name: RequestId, method: str, params: ProtocolFields) -> None:
        task = asyncio.ensure_future(self._answer(name, method, params))
        self._running[name] = task

        def ended(_: object) -> None:
            self._running.pop(name, None)

        task.add_done_callback(ended)

    async def _answer(self, name: RequestId, method: str, params: ProtocolFields) -> None:
        """Answer a request; one that was cancelled has no reply."""
        try:
            self._send(id=name, result=await self._result(method, params))
        except AgentProtocolError as error:
            self._send(id=name, error=_told(error))

    async def _result(self, method: str, params: ProtocolFields) -> ProtocolFields:
        meta = params.get("_meta")
        if not isinstance(meta, dict | None):
            raise not_valid()
        meta = meta or {}
        without = _VERSION in meta
        if self._handshake is None:
            self._handshake = method == "initialize" or not without
        if self._handshake:
            if without and method != "initialize":
                raise AgentProtocolError(
                    INVALID_REQUEST, "this connection has begun with a handshake of the protocol"
                )
            return await self._after_handshake(method, params, meta)
        return await self._without_handshake(method, params, meta)

    async def _after_handshake(
        self, method: str, params: ProtocolFields, meta: Mapping[str, Any]
    ) -> ProtocolFields:
        if method == "initialize":
            return self._shake_hands(params)
        if method == "ping":
            return _RETURNS_NOTHING
        if method in self.handlers.methods and self._has_person is None:
            raise AgentProtocolError(INVALID_PARAMS, "the connection must begin with initialize")
        client = AgentClient(bool(self._has_person), self._ask, self._reporter(meta))
        return await self.handlers.result(method, params, self.desk, client)

    def _shake_hands(self, params: ProtocolFields) -> ProtocolFields:
        wanted, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(wanted, str) or not isinstance(capabilities, dict):
            raise not_valid()
        self._has_person = _has_person(capabilities)
        return {
            "protocolVersion": wanted if wanted in _HANDSHAKES else _HANDSHAKES[-1],
            "capabilities": _SERVES,
            "serverInfo": _SERVER,
            "instructions": INSTRUCTIONS,
        }

    async def _without_handshake(
        self, method: str, params: ProtocolFields, meta: Mapping[str, Any]
    ) -> ProtocolFields:
        if method == "initialize":
            raise _unsupported(params.get("protocolVersion"))
        capabilities = meta.get(_CAPABILITIES)
        if not isinstance(meta.get(_VERSION), str) or not isinstance(capabilities, dict):
            raise AgentProtocolError(
                INVALID_PARAMS, f"params._meta must have {_VERSION} and {_CAPABILITIES}"
            )
        if meta[_VERSION] not in _WITHOUT:
            raise _unsupported(meta[_VERSION])
        if method == "server/discover":
            found: ProtocolFields = {
                "supportedVersions": list(_WITHOUT),
                "capabilities": _SERVES,
                "instructions": INSTRUCTIONS,
                **NOT_CACHED,
            }
        else:
            client = AgentClient(_has_person(capabilities), None, self._reporter(meta))
            found = await self.handlers.result(method, params, self.desk, client)
        own = {"_meta": {f"{_PREFIX}serverInfo": _SERVER}}
        return {"resultType": "complete", **found, **own}

    def _reporter(self, meta: Mapping[str, Any]) -> Callable[[float, float, str], Awaitable[None]]:
        token = meta.get("progressToken")
        if token is not None and _request_id(token) is None:
            raise not_valid()

        async def report(reached: float, total: float, word: str) -> None:
            if token is not None:
                told = {"progressToken": token, "progress": reached, "total": total}
                self._send(method="notifications/progress", params={**told, "message": word})

        return report

    async def _ask(self, question: ProtocolFields) -> object:
        """Ask the client's person, and wait for the answer; None if there is none."""
        if self._heard_all:
            return None
        name = next(self._numbers)
        answer = self._asked[name] = asyncio.get_running_loop().create_future()
        self._send(id=name, **question)
        try:
            return await answer
        finally:
            self._asked.pop(name, None)

    def _send(self, **fields: object) -> None:
        # In ASCII: what a client sends may be text that has no encoding.
        self.send(json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":"), allow_nan=False))


class _NoMessage(Exception):
    """Says why a line is no message; ``name`` is that of its request, if it can be read."""

    def __init__(self, name: RequestId | None, told: AgentProtocolError) -> None:
        super().__init__()
        self.name = name
        self.told = told


def _message(line: str) -> ProtocolFields:
    """Read a message of the protocol. Raises ``_NoMessage`` for a line that is none."""
    constants: list[str] = []  # NaN and infinities, which are no JSON but are often written
    try:
        found = json.loads(line, parse_constant=constants.append)
    except (ValueError, RecursionError):
        raise _NoMessage(None, _parse_error()) from None
    name = _request_id(found.get("id")) if isinstance(found, dict) else None
    if constants:
        raise _NoMessage(name, _parse_error())
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise _NoMessage(name, _invalid_request())
    return found


def _parse_error() -> AgentProtocolError:
    return AgentProtocolError(PARSE_ERROR, "Parse error")


def _invalid_request() -> AgentProtocolError:
    return AgentProtocolError(INVALID_REQUEST, "Invalid request")


def _request_id(given: object) -> RequestId | None:
    return given if isinstance(given, RequestId) and not isinstance(given, bool) else None


def _has_person(capabilities: Mapping[str, Any]) -> bool:
    return isinstance(capabilities.get("elicitation"), dict)


def _unsupported(wanted: object) -> AgentProtocolError:
    more = {"requested": wanted} if isinstance(wanted, str) else {}
    data = {"supported": list(_WITHOUT), **more}
    return AgentProtocolError(_UNSUPPORTED, "Unsupported protocol version", data)


def _told(error: AgentProtocolError) -> ProtocolFields:
    more = {} if error.data is None else {"data": error.data}
    return {"code": error.code, "message": str(error), **more}

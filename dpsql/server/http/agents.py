"""Tools for agents at the door for HTTP, by the Model Context Protocol.

Each request stands alone, in all versions of the protocol: there are no sessions that one could
take over or keep open. What lasts between requests, kept answers and open prices, belongs to a
token and an account, and is found by the login of each request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import dpsql
from dpsql.agents.kept import KeptAnswers
from dpsql.agents.protocol import (
    INSTRUCTIONS,
    SERVER_NAME,
    AgentClient,
    AgentDesk,
    AgentHandlers,
    AgentProtocolError,
    OpenPrices,
    ProtocolFields,
)
from dpsql.agents.tools import Toolbox
from dpsql.pipeline.events import Observer
from dpsql.policy.model import AgentPolicy, Policy
from dpsql.server.faults import logged_fault
from dpsql.server.guard import Guard, TokenKnock, run_of
from dpsql.server.http.reading import MOST_BODY, object_of_json, read_body
from dpsql.server.workers import Workers
from dpsql.service.rights import SessionLimits
from dpsql.service.session import Session

MOST_RUNS: Final = 64
MOST_CELLS: Final = 200_000
"""For how many tokens answers are kept, and how many values of each."""
_MOST_DEPTH: Final = 16
_DESK: Final = "dpsql.desk"
_LATER: Final = "2026-07-28"  # from this protocol on a question to the person is part of the reply
_TAKES: Final[dict[str, type[types.RequestParams]]] = {
    "tools/list": types.PaginatedRequestParams,
    "tools/call": types.CallToolRequestParams,
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
}


@dataclass(frozen=True, slots=True)
class TokenRun:
    """The run of a token, for one request: each session is opened by the guard."""

    guard: Guard
    knock: TokenKnock
    analyst: str

    @property
    def policy(self) -> Policy:
        """The policy of the dataset at present."""
        return self.guard.dataset.policy

    def session(self, limits: SessionLimits, observer: Observer | None = None) -> Session:
        """Open a session. Raises a ``dpsql.Error`` for what the token may not have."""
        return self.guard.admit_agent(self.knock, self.analyst, limits, observer).session


@dataclass(slots=True)
class _Lasting:
    """What lasts between the requests of a run."""

    kept: KeptAnswers = field(default_factory=lambda: KeptAnswers(MOST_CELLS))
    prices: OpenPrices = field(default_factory=OpenPrices)


class HttpAgents:
    """The tools at one route of the door."""

    def __init__(self, guard: Guard, workers: Workers) -> None:
        self._guard = guard
        self._workers = workers
        self._lasting: OrderedDict[tuple[str, str, str], _Lasting] = OrderedDict()
        self._handlers = AgentHandlers(logged_fault)
        _silence_package()
        self._manager = StreamableHTTPSessionManager(
            _protocol_server(self._handlers),
            stateless=True,
            # The door has looked at the host and read the body.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=MOST_BODY,
        )
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to take requests."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            async with self._manager.run():
                ready.set_result(None)
                await self._stop.wait()

        self._running = asyncio.create_task(run())
        await ready

    def interrupt(self) -> None:
        """End all calls that run or wait."""
        self._handlers.interrupt()

    async def stop(self) -> None:
        """End what is left."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def reply(self, request: Request, knock: TokenKnock, asked: str | None) -> ASGIApp:
        """Return the reply to a request of a token, for an account or the usual one.

        Raises a ``dpsql.Error`` for what it may not have, and for what is no request.
        """
        shortly = self._workers.shortly
        account = await shortly(lambda: self._guard.account_of(knock, asked))
        body = await read_body(request)
        await shortly(lambda: object_of_json(body, _MOST_DEPTH))
        desk = self._desk(knock, account)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            again = _replayed(body, receive)
            await self._manager.handle_request({**scope, _DESK: desk}, again, send)

        return app

    def _desk(self, knock: TokenKnock, account: str) -> AgentDesk:
        login = knock.login
        assert login is not None, "only who is let in has a desk"
        key = login.user, run_of(login), account
        lasting = self._lasting.setdefault(key, _Lasting())
        self._lasting.move_to_end(key)
        while len(self._lasting) > MOST_RUNS:
            self._lasting.popitem(last=False)
        toolbox = Toolbox(TokenRun(self._guard, knock, account), AgentPolicy(), lasting.kept)
        return AgentDesk(toolbox, partial(self._workers.run, account), lasting.prices)


def _protocol_server(handlers: AgentHandlers) -> Server[dict[str, Any]]:
    """Build the protocol's own server over handlers."""
    found: Server[dict[str, Any]] = Server(
        SERVER_NAME, version=dpsql.__version__, instructions=INSTRUCTIONS
    )
    for method in handlers.methods:
        found.add_request_handler(method, _TAKES[method], partial(_result, handlers, method))
    return found


async def _result(
    handlers: AgentHandlers,
    method: str,
    context: ServerRequestContext[Any, Any],
    params: types.RequestParams,
) -> ProtocolFields:
    """Answer a request; cancelled, wait until what it has begun has ended."""
    assert context.request is not None, "all requests come by HTTP"
    desk: AgentDesk = context.request.scope[_DESK]
    capabilities = context.session.client_capabilities
    has_person = capabilities is not None and capabilities.elicitation is not None
    # A request stands alone: nobody is asked but by its reply.
    client = AgentClient(
        has_person and context.protocol_version >= _LATER, None, context.session.report_progress
    )
    task = asyncio.ensure_future(handlers.result(method, context.params or {}, desk, client))
    try:
        return {"resultType": "complete", **await asyncio.shield(task)}
    except AgentProtocolError as error:
        raise MCPError(error.code, str(error), error.data) from None
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


def _silence_package() -> None:
    """Keep the protocol's package from logging: it would write tracebacks with lines of code."""
    log = logging.getLogger("mcp")
    log.addHandler(logging.NullHandler())
    log.propagate = False


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a way to receive a request whose body was read before."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again

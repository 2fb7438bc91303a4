"""Tools for agents at the door for HTTP, by the Model Context Protocol.

Each request stands alone, in all versions of the protocol: there are no sessions that one could
take over or keep open. What lasts between requests, kept answers and open prices, belongs to a
token and an account, and is found by the login of each request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpsql.agents.kept import KeptAnswers
from dpsql.agents.protocol import AgentDesk, AgentHandlers, Context, OpenPrices, without_own_log
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
        self._handlers = AgentHandlers(_desk_of, logged_fault)
        without_own_log()
        self._manager = StreamableHTTPSessionManager(
            self._handlers.server(),
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


def _desk_of(context: Context) -> AgentDesk:
    assert context.request is not None, "all requests come by HTTP"
    found: AgentDesk = context.request.scope[_DESK]
    return found


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a way to receive a request whose body was read before."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again

"""Listens for the door: connections have little time and room, and only so many may be there."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, Protocol

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dpsql.server.desk import Desk
from dpsql.server.guard import HTTP, Guard
from dpsql.server.http.app import AgentDoor, HttpApp
from dpsql.server.http.problems import PROBLEM_TYPE, problem_of
from dpsql.server.http.reading import bad_request
from dpsql.server.tally import Tally
from dpsql.server.workers import Workers

MOST_CONNECTIONS: Final = 200
MOST_HEADERS: Final = 16_384
"""How many bytes the headers of a request may have."""
SECONDS_FOR_HEADERS: Final = 10.0
_SECONDS_IDLE: Final = 5
_SECONDS_TO_TAKE: Final = 60.0  # an answer that the client does not read
_SECONDS_TO_END: Final = 5.0  # of queries that were interrupted
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class ServerTls(Protocol):
    """The server's TLS, whose context may be another one after a while."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of handshakes."""


class StartedAgents(AgentDoor, Protocol):
    """Tools for agents, with a beginning and an end."""

    async def start(self) -> None:
        """Begin to take requests."""

    async def stop(self) -> None:
        """End what is left."""


class LimitedConnection(H11Protocol):
    """A connection with an end to each wait for its client."""

    _waits: asyncio.TimerHandle | None = None
    _stalls: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, if there is room for it."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all waits."""
        for each in (self._waits, self._stalls):
            if each is not None:
                each.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Wait for a client that does not read, for a while."""
        super().pause_writing()
        self._stalls = self.loop.call_later(_SECONDS_TO_TAKE, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._stalls is not None:
            self._stalls.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request as all other errors are answered."""
        body = problem_of(bad_request("this is no request of HTTP")).model_dump_json(
            exclude_none=True
        )
        headers = [
            ("content-type", PROBLEM_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        try:
            parts = (h11.Response(status_code=400, headers=headers), h11.Data(data=body.encode()))
            self.transport.write(b"".join(self.conn.send(each) or b"" for each in parts))
        except h11.LocalProtocolError:
            pass  # an answer is on its way
        self.transport.close()

    def _wait(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
        self._waits = self.loop.call_later(SECONDS_FOR_HEADERS, self._end_wait)

    def _end_wait(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class HttpDoor:
    """The door, listening on one address. Without ``tls`` it is for this machine alone."""

    def __init__(
        self,
        guard: Guard,
        workers: Workers,
        tls: ServerTls | None,
        desk: Desk,
        tally: Tally,
        agents: StartedAgents | None,
    ) -> None:
        self._tls = tls
        self._agents = agents
        hosts = _LOCAL if tls is None else None
        self._app = HttpApp(guard, workers, desk, tally, hosts, agents)
        self._state = ServerState()
        tally.measure("connections", HTTP, by=lambda: len(self._state.connections))
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Open the door and return its address. Raises ``OSError`` where nothing can."""
        config = Config(
            self._app,
            http=LimitedConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # its own logging would write tracebacks
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_SECONDS_IDLE,
            h11_max_incomplete_event_size=MOST_HEADERS,
        )
        config.load()
        if self._agents is not None:
            await self._agents.start()
        loop = asyncio.get_running_loop()

        def connection() -> LimitedConnection:
            return LimitedConnection(config, self._state, {}, loop)

        secure = None if self._tls is None else _current(self._tls)
        seconds = None if secure is None else SECONDS_FOR_HEADERS
        self._server = await loop.create_server(
            connection, host, port, ssl=secure, ssl_handshake_timeout=seconds
        )
        found = self._server.sockets[0].getsockname()
        return found[0], found[1]

    async def stop(self, grace: float) -> None:
        """End idle connections, and others once they are answered or ``grace`` seconds are over."""
        self._app.stopping = True
        if self._server is not None:
            self._server.close()
        for each in list(self._state.connections):
            each.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            self._app.interrupt()
            if late:
                await asyncio.wait(late, timeout=_SECONDS_TO_END)
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._agents is not None:
            await self._agents.stop()


def _current(tls: ServerTls) -> ssl.SSLContext:
    """Return a context whose handshakes go on with the certificate of their time."""
    found = tls.context

    def renewed(handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        handshake.context = tls.context

    found.sni_callback = renewed
    return found

"""The tools for agents on standard input and output, for one client of one machine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

from dpsql.agents.protocol import AgentDesk, AgentHandlers, without_own_log
from dpsql.agents.tools import Toolbox
from dpsql.server.faults import logged_fault
from dpsql.server.workers import Workers

MAX_CALLS: Final = 8
"""How many calls run at once; more wait."""
_MOST_WAITING: Final = 1000
_DAY: Final = 86_400.0


def serve_stdio(toolbox: Toolbox) -> None:
    """Serve a client on standard input and output until it goes, or SIGTERM or SIGINT comes."""
    without_own_log()
    anyio.run(_serve, toolbox)


def stdio_server_of(toolbox: Toolbox, workers: Workers) -> Server[dict[str, Any]]:
    """Build the server of one run, to be run on a transport."""
    desk = AgentDesk(toolbox, partial(workers.run, "the run"))
    return AgentHandlers(lambda context: desk, logged_fault).server()


async def serve_lines(
    toolbox: Toolbox,
    stdin: anyio.AsyncFile[str] | None = None,
    stdout: anyio.AsyncFile[str] | None = None,
) -> None:
    """Serve a client on lines of text until it goes; on the process's own if none are given."""
    workers = Workers(MAX_CALLS, MAX_CALLS, _MOST_WAITING, _DAY)
    server = stdio_server_of(toolbox, workers)
    try:
        async with stdio_server(stdin, stdout) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        workers.close()


async def _serve(toolbox: Toolbox) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_until_signal, group.cancel_scope.cancel)
        await serve_lines(toolbox)
        group.cancel_scope.cancel()


async def _until_signal(stop: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop()
            return

"""The tools for agents on standard input and output, for one client of one machine."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Final, TextIO

from dpsql.agents.protocol import AgentDesk, AgentHandlers
from dpsql.agents.tools import Toolbox
from dpsql.interfaces.mcp_lines import LineConversation
from dpsql.server.faults import logged_fault
from dpsql.server.workers import Workers

MAX_CALLS: Final = 8
"""How many calls run at once; more wait."""
_MOST_WAITING: Final = 1000
_DAY: Final = 86_400.0
_PAUSE: Final = 0.2
_SECONDS_TO_TAKE: Final = 5.0  # the last replies, for a client that may have gone


def serve_stdio(toolbox: Toolbox) -> None:
    """Serve a client on standard input and output until it goes, or SIGTERM or SIGINT comes."""

    async def serve(lines: TextIO, replies: TextIO) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stopped.set)
        await serve_lines(toolbox, lines, replies, stopped)

    with _standard_streams() as streams:
        asyncio.run(serve(*streams))


async def serve_lines(
    toolbox: Toolbox, lines: TextIO, replies: TextIO, stopped: asyncio.Event | None = None
) -> None:
    """Serve a client on lines of text until it goes, or until it is stopped.

    A client that writes no more still has the replies to all that it has asked, if it reads them.
    """
    stopped, heard_all = stopped or asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_loop(work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(work)

    workers = Workers(MAX_CALLS, MAX_CALLS, _MOST_WAITING, _DAY)
    waiting: SimpleQueue[str | None] = SimpleQueue()
    desk = AgentDesk(toolbox, partial(workers.run, "the run"))
    conversation = LineConversation(AgentHandlers(logged_fault), desk, waiting.put)
    # A reader that waits for its client outlives the conversation, and must not keep it: nothing
    # of an engine could be put away at the end of the process then.
    takes = [conversation.take]

    def read() -> None:
        with suppress(OSError, ValueError):  # the stream was closed
            for line in lines:
                on_loop(partial(_taken, takes, line))
        on_loop(heard_all.set)

    def write() -> None:
        with suppress(OSError, ValueError):
            while (line := waiting.get()) is not None:
                replies.write(f"{line}\n")
                replies.flush()
        on_loop(stopped.set)

    # Threads of their own, for which no end waits: a client may neither write nor read any more.
    writer = Thread(target=write, name="dpsql-replies", daemon=True)
    for each in (writer, Thread(target=read, name="dpsql-lines", daemon=True)):
        each.start()
    try:
        await _first(stopped.wait(), heard_all.wait())
        if not stopped.is_set():
            await _first(stopped.wait(), _without_reader(replies), conversation.finish())
        await conversation.end()
    finally:
        takes.clear()
        workers.close()
        waiting.put(None)
        await asyncio.to_thread(writer.join, _SECONDS_TO_TAKE)


async def _first(*waits: Coroutine[object, object, object]) -> None:
    """Wait for the first of several ends, and for none of the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()


async def _without_reader(replies: TextIO) -> None:
    """Wait until nobody can read the replies any more, as far as the stream tells."""
    watched = select.poll()
    watched.register(replies, 0)  # of a pipe whose other end is closed it tells an error
    while not watched.poll(0):
        await asyncio.sleep(_PAUSE)


def _taken(takes: Sequence[Callable[[str], None]], line: str) -> None:
    """Give a line to its conversation, as long as that goes on."""
    for take in takes:
        take(line)


@contextmanager
def _standard_streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Give standard input and output to the protocol alone: what else is printed is no reply."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    lines = open(kept[0], encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    replies = open(kept[1], "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        yield lines, replies
    finally:
        sys.stdout.flush()
        for place, one in enumerate(kept):
            os.dup2(one, place)

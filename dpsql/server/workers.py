"""Where statements run: so many at once, in turn, and no account takes the room of others.

A statement waits in the line of its account, then for one of the places that all share; who waits
too long, or finds the line full, is refused before anything is reserved. How long one waits shows
the load of the server, and of the data no more than that.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from dpsql.errors import OperationalError

_Found = TypeVar("_Found")


class Workers:
    """The places where statements run. To be used in one event loop.

    ``places``: how many run at once, as many as there are processors but four at least if None.
    ``of_account``: how many of one account do, half of them if None, so that a single account never
    takes all. ``waiting``: how many of an account may wait beside, for ``seconds`` at most.
    ``grid``: statements end at multiples of so many seconds of the clock, as whoever asked or waits
    sees it; at once if None. Their places are taken until then: else what waits for one would tell
    when a statement has ended, however its own end is delayed.
    """

    def __init__(
        self,
        places: int | None = None,
        of_account: int | None = None,
        waiting: int = 50,
        seconds: float = 30.0,
        grid: float | None = None,
    ) -> None:
        self.places = places or max(4, os.cpu_count() or 1)
        self._shared = asyncio.Semaphore(self.places)
        self._of_account = of_account or max(1, self.places // 2)
        self._accounts: dict[str, asyncio.Semaphore] = {}
        self._using: Counter[str] = Counter()
        self._most_waiting = waiting
        self._waiting: Counter[str] = Counter()
        self._seconds = seconds
        self._grid = grid
        self._threads = ThreadPoolExecutor(self.places, thread_name_prefix="dpsql-statement")
        # Logins, and the ends of connections, wait for no statement.
        self._short = ThreadPoolExecutor(2, thread_name_prefix="dpsql-door")
        self._aside = ThreadPoolExecutor(2, thread_name_prefix="dpsql-owner")
        self.running = 0
        """How many statements run."""

    async def shortly(self, work: Callable[[], _Found]) -> _Found:
        """Do what takes milliseconds and reads no rows."""
        return await asyncio.get_running_loop().run_in_executor(self._short, work)

    async def aside(self, work: Callable[[], _Found]) -> _Found:
        """Do the work of an owner or an auditor, beside all statements."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    @property
    def waiting(self) -> int:
        """How many statements wait for their turn."""
        return self._waiting.total()

    async def run(self, account: str, work: Callable[[], _Found]) -> _Found:
        """Do the work of an account in its turn; returns what it returns.

        Raises ``OperationalError`` (``server_busy``) where there is no place for it in time. Work
        that has begun goes on to its end, whoever waits for it.
        """
        if self._waiting[account] >= self._most_waiting:
            raise _busy()
        own = self._accounts.setdefault(account, asyncio.Semaphore(self._of_account))
        self._using[account] += 1
        try:
            await self._turn(account, own)
            self.running += 1
            try:
                return await self._in_thread(work)
            finally:
                try:
                    await self._tick()
                finally:
                    self.running -= 1
                    self._shared.release()
                    own.release()
        finally:
            self._using[account] -= 1
            if not self._using[account]:
                del self._using[account], self._accounts[account]

    async def _turn(self, account: str, own: asyncio.Semaphore) -> None:
        """Wait for a place of the account, then for one of all."""
        self._waiting[account] += 1
        try:
            async with asyncio.timeout(self._seconds):
                await own.acquire()
                try:
                    await self._shared.acquire()
                except BaseException:
                    own.release()
                    raise
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]

    async def _tick(self) -> None:
        """Wait for the next multiple of the grid."""
        if self._grid is None:
            return
        now = time.monotonic()
        await asyncio.sleep((math.floor(now / self._grid) + 1) * self._grid - now)

    async def _in_thread(self, work: Callable[[], _Found]) -> _Found:
        """Do the work in a thread; its place is taken until it is done, cancelled or not."""
        task = asyncio.get_running_loop().run_in_executor(self._threads, work)
        task.add_done_callback(_looked_at)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):  # again: it is waited for already
                    await asyncio.wait([task])
            raise

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._threads.shutdown()
        self._short.shutdown()
        self._aside.shutdown()


def _looked_at(task: asyncio.Future[Any]) -> None:
    """Take the error of abandoned work, which asyncio would log."""
    if not task.cancelled():
        task.exception()


def _busy() -> OperationalError:
    return OperationalError(
        "the server has no room for the statement now",
        code="server_busy",
        hint="Ask again later. Nothing was reserved or spent.",
    )

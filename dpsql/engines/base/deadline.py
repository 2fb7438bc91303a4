"""A deadline: what runs when the time is over is interrupted, however its caller came to an end."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final
from weakref import ReferenceType, ref

_INTERRUPTS_EVERY: Final = 0.02  # seconds, once the time is over: work may be between statements
_IDLE: Final = 5.0  # seconds without an open deadline, after which the thread ends
_LEAVES_EVERY: Final = 0.0005  # seconds between checks whether an interrupt is through


class Deadline:
    """Calls ``interrupt`` from a thread when ``seconds`` are over, again and again until left.

    Once left it is not interrupted: leaving waits for an ``interrupt`` that is under way, so this
    should be quick. If it raises it is called again, and no other deadline suffers.

    Infinite ``seconds`` are over once it is told to ``expire``: the thread hears of it only then.

    Ctrl-C may come between any two instructions, also where a ``with`` statement is entered or
    left. So a deadline is over with this object, which the interrupted code does not outlive, and
    ``interrupt`` must not refer to it.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], object]) -> None:
        self._seconds = seconds
        self._watch = _Watch(interrupt)

    @property
    def expired(self) -> bool:
        """True once the time was over before the deadline was left."""
        return self._watch.expired

    def prolong(self, seconds: float) -> None:
        """Put the end off, unless the time is over."""
        self._watch.end += seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass while something else is done, unless the time is over."""
        left = self._watch.end - time.monotonic()
        if left > 0:
            self._watch.end = math.inf
        try:
            yield
        finally:
            if self._watch.end == math.inf and left > 0:  # it was not told to expire meanwhile
                self._watch.end = time.monotonic() + left
                _watcher.wake()

    def expire(self) -> None:
        """End the time now. For other threads to call."""
        endless, self._watch.end = self._watch.end == math.inf, 0.0
        if endless:
            _watcher.add(self._watch)
        else:
            _watcher.wake()

    def __enter__(self) -> Deadline:
        self._watch.end = time.monotonic() + self._seconds
        if self._seconds == math.inf:
            self._watch.owner = ref(self)
        else:
            self._watch.owner = ref(self, _watcher.told)
            _watcher.add(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.leave()
        _watcher.wait_for(self._watch)  # or it could interrupt what comes next


def _nobody() -> None:
    """Stand for the owner of a deadline that was left."""


class _Watch:
    """The watching thread's part of a deadline, without a reference to its owner."""

    __slots__ = ("end", "expired", "interrupt", "owner")

    def __init__(self, interrupt: Callable[[], object]) -> None:
        self.end = 0.0
        self.expired = False
        self.interrupt: Callable[[], object] | None = interrupt
        self.owner: Callable[[], object | None] = _nobody

    @property
    def open(self) -> bool:
        """True until it is left, or its owner is gone."""
        return self.interrupt is not None and self.owner() is not None

    def leave(self) -> None:
        """Drop ``interrupt``; the thread need not be told when the owner goes."""
        self.interrupt = None
        self.owner = _nobody


class _Watcher:
    """One thread for all deadlines, started when it is needed.

    Who opens or leaves a deadline holds no lock that Ctrl-C could leave locked: they put into a
    queue, and read and set single attributes. Locked is only ``_role``, by the thread that watches.
    Where an owner goes without leaving, no code in Python runs that Ctrl-C could stop: the thread
    finds the owner gone, for which it is woken by its reference.
    """

    def __init__(self) -> None:
        self._news: SimpleQueue[_Watch | ReferenceType[Deadline] | None] = SimpleQueue()
        self._role = threading.Lock()
        self._interrupting: _Watch | None = None

    @property
    def told(self) -> Callable[[ReferenceType[Deadline]], object]:
        """The callback of a reference to an owner, for when it is gone."""
        return self._news.put

    def add(self, watch: _Watch) -> None:
        """Watch a deadline from now on."""
        self._news.put(watch)
        if not self._role.locked():
            threading.Thread(target=self._run, daemon=True, name=__name__).start()

    def wake(self) -> None:
        """Have the thread look after all deadlines now."""
        self._news.put(None)

    def wait_for(self, watch: _Watch) -> None:
        """Wait until no interrupt of a deadline that was left is under way."""
        while self._interrupting is watch:
            time.sleep(_LEAVES_EVERY)

    def _run(self) -> None:
        while self._role.acquire(blocking=False):
            self._watch_until_idle()
            self._role.release()
            # Whoever added one before the release counts on this thread, and later on another.
            if self._news.empty():
                return

    def _watch_until_idle(self) -> None:
        watches: list[_Watch] = []
        while self._hear(watches) or watches:
            watches = self._look_after(watches)

    def _hear(self, watches: list[_Watch]) -> bool:
        """Wait for news and add a new deadline to the others; False if there were none in time."""
        try:
            news = self._news.get(timeout=_pause(watches))
        except Empty:
            return False
        if isinstance(news, _Watch):
            watches.append(news)
        return True

    def _look_after(self, watches: list[_Watch]) -> list[_Watch]:
        """Interrupt watches past their end, and return the open ones."""
        watches = [watch for watch in watches if watch.open]
        now = time.monotonic()
        for watch in watches:
            if watch.end <= now:
                self._interrupt(watch)
        return watches

    def _interrupt(self, watch: _Watch) -> None:
        self._interrupting = watch  # first, so that who leaves after the next line waits
        interrupt = watch.interrupt
        if interrupt is not None and watch.open:
            watch.expired = True
            with suppress(Exception):
                interrupt()
        self._interrupting = None


def _pause(watches: Sequence[_Watch]) -> float:
    """Compute how many seconds there is nothing to do, ``_IDLE`` at most."""
    now = time.monotonic()
    left = (watch.end - now for watch in watches)
    return min([_IDLE, *(each if each > 0 else _INTERRUPTS_EVERY for each in left)])


def _start_afresh() -> None:
    """Replace the watcher after a fork: the child has no such thread."""
    global _watcher
    _watcher = _Watcher()


_watcher = _Watcher()
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_start_afresh)

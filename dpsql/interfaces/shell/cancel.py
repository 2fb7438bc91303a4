"""Work that Ctrl-C can end: it runs in a thread of its own, and is interrupted through the engine.

So no exception comes out of nowhere in the middle of a ledger's transaction, and a connection can
be used after a query was cancelled.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

_T = TypeVar("_T")
_TURN = 0.05  # seconds between two looks at whether Ctrl-C was pressed


class Cancelled(Exception):
    """Work ended because Ctrl-C was pressed."""


class Work:
    """Runs one thing after the other, each until it is done or Ctrl-C is pressed."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._stop = threading.Event()

    def run(self, body: Callable[[], _T], waiting: Callable[[bool], None]) -> _T:
        """Run ``body`` and return its outcome.

        ``waiting`` is called now and then until it is there. It is told whether Ctrl-C was pressed.
        From then on ``interrupt`` is called until the work is over, as it may be between two
        statements. Raises ``Cancelled`` if it then failed; if it was nearly done, it is done.
        """
        self._stop.clear()
        outcome: Future[_T] = Future()

        def thread() -> None:
            try:
                outcome.set_result(body())
            except BaseException as error:  # noqa: BLE001 (raised again, in the other thread)
                outcome.set_exception(error)

        with _on_interrupt(self._stop):
            threading.Thread(target=thread, daemon=True).start()
            while wait([outcome], _TURN).not_done:
                if self._stop.is_set():
                    self._interrupt()
                waiting(self._stop.is_set())
        if self._stop.is_set() and outcome.exception() is not None:
            raise Cancelled from None
        return outcome.result()

    def check(self) -> None:
        """End work that is under way between statements, when it calls this after Ctrl-C."""
        if self._stop.is_set():
            raise Cancelled


@contextmanager
def _on_interrupt(event: threading.Event) -> Iterator[None]:
    """Set an event when Ctrl-C is pressed. Only the main thread of a process can hear of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pressed(number: int, frame: FrameType | None) -> None:
        event.set()

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

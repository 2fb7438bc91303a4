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


def run(
    work: Callable[[], _T], interrupt: Callable[[], None], waiting: Callable[[bool], None]
) -> _T:
    """The outcome of ``work``. ``waiting`` is called now and then until it is there, and told
    whether Ctrl-C was pressed.

    Once Ctrl-C is pressed, ``interrupt`` is called until the work is over, as it may be between two
    statements. Raises ``Cancelled`` if it then failed; if it was nearly done, it is done.
    """
    stop = threading.Event()
    outcome: Future[_T] = Future()

    def body() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 (it is raised again, in the other thread)
            outcome.set_exception(error)

    with _on_interrupt(stop):
        threading.Thread(target=body, daemon=True).start()
        while wait([outcome], _TURN).not_done:
            if stop.is_set():
                interrupt()
            waiting(stop.is_set())
    if stop.is_set() and outcome.exception() is not None:
        raise Cancelled from None
    return outcome.result()


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

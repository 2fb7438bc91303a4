"""A deadline: what runs when the time is over is interrupted, however its caller came to an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final
from weakref import finalize

_INTERRUPTS_EVERY: Final = 0.02  # seconds, once the time is over: work may be between statements


class Deadline:
    """Calls ``interrupt`` from a thread when ``seconds`` are over, again and again until left.

    Ctrl-C may come between any two instructions, also where a ``with`` statement is entered or
    left. So the thread ends with this object, which the interrupted code does not outlive, and
    ``interrupt`` must not refer to it.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], object]) -> None:
        self._over = threading.Event()
        self._expired = threading.Event()
        self._watch = seconds, interrupt, self._over, self._expired
        finalize(self, self._over.set).atexit = False

    @property
    def expired(self) -> bool:
        """True once the time was over before this was left."""
        return self._expired.is_set()

    def __enter__(self) -> Deadline:
        self._thread = threading.Thread(target=_watch, args=self._watch, daemon=True, name=__name__)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()  # or it could interrupt what comes next


def _watch(
    seconds: float, interrupt: Callable[[], object], over: threading.Event, expired: threading.Event
) -> None:
    if over.wait(seconds):
        return
    expired.set()
    while not over.wait(_INTERRUPTS_EVERY):
        interrupt()

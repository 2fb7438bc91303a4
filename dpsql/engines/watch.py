"""A watch over many short trials: what takes too long is interrupted, without a thread for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import ref

_LOOKS_EVERY: Final = 0.25  # seconds
_STAYS: Final = 20  # looks without a trial, after which the thread ends


class Watch:
    """Interrupts trials that last longer than ``seconds``, give or take a quarter of a second.

    Trials come one at a time. Nothing is interrupted once its trial has been left.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], object]) -> None:
        self._seconds = seconds
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._until: float | None = None
        self._looks_left = 0

    @contextmanager
    def over(self) -> Iterator[None]:
        """Watch what is done inside."""
        try:
            with self._lock:
                self._until = time.monotonic() + self._seconds
                awake, self._looks_left = self._looks_left > 0, _STAYS
            if not awake:
                looking = threading.Thread(target=_look, args=(ref(self),), name=__name__)
                looking.daemon = True
                looking.start()
            yield
        finally:
            with self._lock:
                self._until = None

    def _looked(self) -> bool:
        """Interrupt a trial whose time is over. True if there is a reason to look again."""
        with self._lock:
            self._looks_left -= 1
            if self._until is None:
                return self._looks_left > 0
            self._looks_left = _STAYS
            if time.monotonic() >= self._until:
                self._interrupt()
            return True


def _look(watch: ref[Watch]) -> None:
    while True:
        time.sleep(_LOOKS_EVERY)
        found = watch()
        if found is None or not found._looked():
            return
        del found

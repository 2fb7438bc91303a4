"""Questions that are being answered: whoever asks the same at the same moment waits, and pays not.

A turn is over with the call that has taken it, however that ends: Ctrl-C may come between any two
instructions, so the turns of calls that are gone count for nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias
from weakref import ref

from dpsql.errors import EngineError

_LOOKS_EVERY: Final = 0.05  # seconds between looks for an interrupt, or for an owner that is gone

_Question: TypeAlias = tuple[str, str]  # an account, and the fingerprint of its question


def _here() -> tuple[int, int]:
    """Return the numbers of this process and this thread."""
    return os.getpid(), threading.get_ident()


class _Turn:
    """The turn of one call; ``running`` is locked until it is over."""

    __slots__ = ("__weakref__", "owner", "running")

    def __init__(self) -> None:
        self.owner = _here()
        self.running = threading.Lock()
        self.running.acquire()


class InFlight:
    """The questions that a dataset's sessions are answering. Safe for threads."""

    def __init__(self) -> None:
        self._turns: dict[_Question, ref[_Turn]] = {}
        self._lock = threading.Lock()

    def take(self, question: _Question, turn: _Turn) -> threading.Lock | None:
        """Take the turn of a question, or return the lock of another call's turn.

        Nobody else refers to the turn of a call: it is gone with it. A call inside of another one
        of its thread waits for none, which could not end, and no turn outlives a fork.
        """
        with self._lock:
            found = self._turns.get(question)
            other = None if found is None else found()
            if other is None or other.owner[0] != turn.owner[0]:
                self._turns[question] = ref(turn)
                return None
            return None if other.owner == turn.owner else other.running

    def end(self, question: _Question, turn: _Turn) -> None:
        """End a turn, if it was taken."""
        with self._lock:
            found = self._turns.get(question)
            if found is not None and found() is turn:
                del self._turns[question]
        turn.running.release()


class Turns:
    """The turns of one session, among those of all sessions of a dataset."""

    def __init__(self, in_flight: InFlight, account: str) -> None:
        self._in_flight = in_flight
        self._account = account
        self._waiting: object | None = None
        self._unwanted: object | None = None

    @contextmanager
    def taken(self, fingerprint: str) -> Iterator[None]:
        """Wait until no other session of the account is answering this question.

        Raises ``EngineError`` (``interrupted``) where the wait was interrupted.
        """
        question, turn = (self._account, fingerprint), _Turn()
        try:
            running = self._in_flight.take(question, turn)
            if running is not None:
                self._wait(question, turn, running)
            yield
        finally:
            self._in_flight.end(question, turn)

    def interrupt(self) -> None:
        """End the wait of another thread for its turn; it fails."""
        self._unwanted = self._waiting

    def _wait(self, question: _Question, turn: _Turn, running: threading.Lock | None) -> None:
        self._waiting = waiting = object()
        try:
            while running is not None:
                if running.acquire(timeout=_LOOKS_EVERY):
                    running.release()
                if self._unwanted is waiting:
                    raise EngineError("the query was interrupted", code="interrupted")
                running = self._in_flight.take(question, turn)
        finally:
            self._waiting = None

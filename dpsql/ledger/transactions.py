"""A ledger's connection: one thread at a time, closed before forks, made again as needed.

An interrupt (Ctrl-C) may come between any two instructions of Python: between the end of
``lock.acquire()`` and the ``try`` behind it, and inside every ``__enter__``, ``__exit__`` and
generator that is written in Python. Wherever it comes, it leaves no lock held (:class:`Turn`), and
a transaction that it has left open is undone by the next call at the latest. So work is handed in
as a function here, and not done inside a context manager.

Every connection is closed before a fork, and made afresh when next used. SQLite keeps its locks per
process and goes on believing in them after a fork, even for connections the child opens itself: the
child could lose its writes when the parent closes the file. A connection to PostgreSQL cannot be
used from two processes either.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from dpsql.errors import LedgerError
from dpsql.ledger.backend import Backend, Home

_T = TypeVar("_T")

opening: Any = threading.RLock()
"""Held while a ledger is opened, so that no fork happens meanwhile."""


class Turn:
    """A lock with a time limit that no interrupt leaves held."""

    def __init__(self) -> None:
        lock: Any = threading.RLock()
        self._lock = lock
        # Both are written in C: nothing can come between leaving a with statement and releasing the
        # lock. Entering it does nothing; a lock that was not acquired inside is not released.
        ends = {"__enter__": lock._is_owned, "__exit__": lock.__exit__}
        self._releasing: Any = type("Releasing", (), ends)()

    def run(self, work: Callable[[], _T], patience: float) -> _T:
        """Run ``work`` while nobody else runs any.

        Raises :class:`LedgerError` (``ledger_busy``).
        """
        if self._lock._is_owned():
            self._require_not_inside()
        acquired = False
        try:
            with self._releasing:
                acquired = self._lock.acquire(timeout=max(patience, 0.001))
                if not acquired:
                    raise _busy("another thread is using it")
                return work()
        except RuntimeError as error:
            if acquired or error.__context__ is None:
                raise
            raise error.__context__ from None  # what was raised before there was a lock to release

    def hold(self) -> None:
        """Acquire the lock until :meth:`let_go`."""
        self._lock.acquire()

    def let_go(self) -> None:
        """Release the lock, if this thread has acquired it."""
        while self._lock._is_owned():
            self._lock.release()

    def _require_not_inside(self) -> None:
        """Refuse work inside of work, and release what else this thread has acquired."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code is Turn.run.__code__ and frame.f_locals.get("self") is self:
                raise _busy("this thread is using it")
            frame = frame.f_back
        self.let_go()


class DatabaseLink:
    """Transactions on the ledger that lives at ``home``, for any number of threads.

    ``patience`` is how many seconds to wait for other threads.
    """

    def __init__(self, home: Home, backend: Backend, patience: float) -> None:
        self._home = home
        self._backend: Backend | None = backend
        self._patience = patience
        self._process = os.getpid()
        self._closed = False
        self._turn = Turn()
        _open.add(self)

    def write(self, work: Callable[[Backend], _T]) -> _T:
        """Run ``work`` in a write transaction: on disk when it is done, undone if it raises."""

        def committed(backend: Backend) -> _T:
            found = work(backend)
            backend.commit()
            return found

        return self._run(lambda backend: backend.begin_write(), committed)

    def read(self, work: Callable[[Backend], _T]) -> _T:
        """Run ``work`` in a transaction that sees one state of the ledger, and changes nothing."""
        return self._run(lambda backend: backend.begin_read(), work)

    def use(self, work: Callable[[Backend], _T]) -> _T:
        """Run ``work`` with the connection by itself; a transaction it leaves open is undone."""
        return self._run(lambda backend: None, work)

    def close(self) -> None:
        """Close the connection for good. Closing twice does nothing."""
        self._turn.run(self._close, self._patience)

    def let_go(self) -> None:
        """Close the connection before a fork."""
        self._turn.hold()
        self._disconnect()

    def take_up(self) -> None:
        """Connect again when next used, after a fork."""
        self._turn.let_go()

    def _run(self, begin: Callable[[Backend], None], work: Callable[[Backend], _T]) -> _T:
        return self._turn.run(lambda: self._transact(begin, work), self._patience)

    def _transact(self, begin: Callable[[Backend], None], work: Callable[[Backend], _T]) -> _T:
        try:
            return work(self._begun(begin))
        finally:
            try:
                self._undo()
            except BaseException:  # an interrupt, while others wait for the end of a transaction
                self._undo()
                raise

    def _begun(self, begin: Callable[[Backend], None]) -> Backend:
        """Return the connection, in a transaction that has begun.

        One that broke while nobody used it is made again: nothing was written yet.
        """
        self._undo()  # what an interrupt has left open
        backend = self._live()
        try:
            begin(backend)
        except LedgerError as error:
            if error.code != "ledger_cannot_open":
                raise
            self._disconnect()
            backend = self._live()
            begin(backend)
        return backend

    def _live(self) -> Backend:
        if self._closed:
            raise LedgerError("the ledger is closed", code="ledger_closed", hint="open it again")
        if self._backend is not None and self._process != os.getpid():
            raise LedgerError(
                "the process was forked while it held the ledger open",
                code="ledger_forked",
                hint="fork with os.fork or multiprocessing, or open the ledger after forking",
            )
        self._home.require_same()
        if self._backend is None:
            self._process = os.getpid()
            self._backend = self._home.connect()
        return self._backend

    def _undo(self) -> None:
        """Roll back the open transaction; close the connection where that fails."""
        if self._backend is None or self._process != os.getpid():
            return
        try:
            self._backend.rollback()
        except LedgerError:
            self._disconnect()  # closing undoes it too; the next call connects afresh

    def _close(self) -> None:
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        backend, self._backend = self._backend, None
        # Closing a connection of the parent process would undo locks the parent relies on.
        if backend is not None and self._process == os.getpid():
            with contextlib.suppress(LedgerError):
                backend.close()


def _busy(why: str) -> LedgerError:
    return LedgerError(
        f"the ledger is busy: {why}",
        code="ledger_busy",
        hint="try again, or open one ledger per thread",
    )


_open: weakref.WeakSet[DatabaseLink] = weakref.WeakSet()


def _before_fork() -> None:
    opening.acquire()
    for link in list(_open):
        link.let_go()


def _after_fork() -> None:
    # All of them: an interrupt may have come in the middle of the list. It ends no fork.
    for link in list(_open):
        link.take_up()
    while opening._is_owned():
        opening.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

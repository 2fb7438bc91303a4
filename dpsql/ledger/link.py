"""A ledger's connection: one thread at a time, closed before forks, made again as needed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from dpsql.errors import LedgerError
from dpsql.ledger import forks
from dpsql.ledger.backend import Backend, Home


class Link:
    """Transactions on the ledger that lives at ``home``, for any number of threads.

    ``patience`` is how many seconds to wait for other threads.
    """

    def __init__(self, home: Home, backend: Backend, patience: float) -> None:
        self._home = home
        self._backend: Backend | None = backend
        self._patience = patience
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        forks.register(self)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Backend]:
        """A write transaction: on disk when the block ends, undone if anything escapes from it."""
        with self.connected() as backend:
            backend.begin_write()
            yield backend
            backend.commit()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Backend]:
        """A transaction that sees one state of the ledger, and changes nothing."""
        with self.connected() as backend:
            backend.begin_read()
            yield backend

    @contextlib.contextmanager
    def connected(self) -> Iterator[Backend]:
        """The connection by itself; a transaction that is left open is undone."""
        with self._held():
            backend = self._live()
            try:
                yield backend
            finally:
                self._undo(backend)

    def close(self) -> None:
        """Close the connection for good. Closing twice does nothing."""
        with self._held():
            self._closed = True
            self._disconnect()

    def let_go(self) -> None:
        """Close the connection before a fork."""
        self._lock.acquire()
        self._disconnect()

    def take_up(self) -> None:
        """Connect again when next used, after a fork."""
        self._lock.release()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(self._patience, 0.001)):
            raise LedgerError(
                "the ledger is busy: another thread is using it",
                code="ledger_busy",
                hint="try again, or open one ledger per thread",
            )
        try:
            yield
        finally:
            self._lock.release()

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
            self._backend = self._home.connect()
            self._process = os.getpid()
        return self._backend

    def _undo(self, backend: Backend) -> None:
        try:
            backend.rollback()
        except LedgerError:
            self._disconnect()  # closing undoes it too; the next call connects afresh

    def _disconnect(self) -> None:
        # Closing a connection of the parent process would undo locks the parent relies on.
        if self._backend is not None and self._process == os.getpid():
            with contextlib.suppress(LedgerError):
                self._backend.close()
            self._backend = None

"""Ledgers and forks: every connection is closed before a fork, and made afresh when next used.

SQLite keeps its locks per process and goes on believing in them after a fork, even for connections
the child opens itself: the child could lose its writes when the parent closes the file. A
connection to PostgreSQL cannot be used from two processes either.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol


class Shareable(Protocol):
    """Something that holds a connection."""

    def let_go(self) -> None:
        """Wait until the connection is not in use, close it, and let nobody make another."""

    def take_up(self) -> None:
        """Allow the connection to be used again; does nothing for one that was not let go."""


opening: Any = threading.RLock()
"""Held while a ledger is opened, so that no fork happens meanwhile."""

_ledgers: weakref.WeakSet[Shareable] = weakref.WeakSet()


def register(ledger: Shareable) -> None:
    """Make ``ledger`` close its connection before any fork."""
    _ledgers.add(ledger)


def _before_fork() -> None:
    opening.acquire()
    for ledger in list(_ledgers):
        ledger.let_go()


def _after_fork() -> None:
    # All of them: an interrupt may have come in the middle of the list. It ends no fork.
    for ledger in list(_ledgers):
        ledger.take_up()
    while opening._is_owned():
        opening.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

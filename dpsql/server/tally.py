"""Counts what a server does: logins, requests, questions. The names of all counts are fixed here.

Labels are words of the program, never of a request: no user, account, statement or value. Nothing
is counted by account, and no time is measured: both would tell about rows.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dpsql.pipeline.events import (
    QuestionAnswered,
    ReadingFailed,
    SessionEvent,
    StatementAsked,
    StatementFailed,
    StatementRefused,
    StepFailed,
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a name counts, and the names of its labels."""

    meaning: str
    labels: tuple[str, ...] = ()


COUNTERS: Final[Mapping[str, Counted]] = MappingProxyType(
    {
        "logins": Counted("Logins; over HTTP each request is one.", ("door", "outcome")),
        "requests": Counted("Requests over HTTP.", ("operation", "status")),
        "statements": Counted("Statements asked, refused and failed.", ("outcome",)),
        "questions": Counted("Answered questions, paid and free.", ("outcome",)),
        "reopenings": Counted("Reopenings of database and policies.", ("outcome",)),
    }
)
GAUGES: Final[Mapping[str, Counted]] = MappingProxyType(
    {
        "statements_running": Counted("Statements that run."),
        "statements_waiting": Counted("Statements that wait for their turn."),
        "places": Counted("Statements that may run at once."),
        "connections": Counted("Open connections.", ("door",)),
        "audit_failures": Counted("Lines of the audit log that could not be written."),
    }
)


class Tally:
    """The counts of one server. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._measures: dict[tuple[str, tuple[str, ...]], Callable[[], int]] = {}

    def count(self, name: str, *labels: str) -> None:
        """Count one more."""
        with self._lock:
            self._counts[name, labels] += 1

    def measure(self, name: str, *labels: str, by: Callable[[], int]) -> None:
        """Have a number asked for whenever the counts are read."""
        self._measures[name, labels] = by

    def counts(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """Return all counts, by name and labels."""
        with self._lock:
            return dict(self._counts)

    def measures(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """Return all numbers of the present."""
        return {key: by() for key, by in self._measures.items()}

    def observe(self, event: SessionEvent) -> None:
        """Count an event of a session."""
        match event:
            case StatementAsked():
                self.count("statements", "asked")
            case StatementRefused():
                self.count("statements", "refused")
            case StatementFailed() | ReadingFailed() | StepFailed():
                self.count("statements", "failed")
            case QuestionAnswered(fingerprint=None):
                self.count("questions", "free")
            case QuestionAnswered(cost=cost):
                self.count("questions", "free" if cost.stored else "paid")

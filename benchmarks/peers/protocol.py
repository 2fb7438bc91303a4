"""How ``benchmarks/peers.py`` and the programs that ask one peer each speak with each other.

A program reads one request, a JSON object, on standard input, and writes events to standard output,
one JSON object per line:

* ``{"event": "ready", "versions": {...}, "asked": "...", "load_seconds": s}`` when the data is
  where the peer wants it and nothing has been asked;
* ``{"event": "answer", "seconds": s, "rows": [[key, value], ...]}`` for each time the question is
  asked; the clock runs from the question to rows in Python;
* ``{"event": "note", "text": "..."}`` for what a reader of the figures should know.

All else that a peer prints goes to standard error. Only the standard library is imported here, as
each program runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, TextIO

PATIENCE = 90.0
"""Seconds after which no further run of a question is begun."""


@dataclass(frozen=True)
class Request:
    """What is asked of a peer: one task on one file of rows, at one price.

    A unit is a user (column ``user_id``). In task ``users`` it counts in at most ``max_groups``
    items; in task ``sums`` in at most ``max_groups`` regions, in each with amounts from ``lower``
    to ``upper``, which add up to at most ``rows_per_group * upper``. With ``auto``, the peer finds
    the number of items for itself, privately, instead.
    """

    data: str
    task: str
    epsilon: float
    delta: float
    max_groups: int
    rows_per_group: int
    lower: int
    upper: int
    regions: tuple[str, ...]
    runs: int
    auto: bool

    @property
    def most_per_group(self) -> int:
        """The most that one unit's amounts add up to in one region."""
        return self.rows_per_group * self.upper

    def json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> Request:
        fields = json.loads(text)
        return Request(**fields | {"regions": tuple(fields["regions"])})


@dataclass(frozen=True)
class Asking:
    """A question that is ready to be asked.

    ``ask`` returns released pairs of a key and a value, and may be called again and again: each
    call is a release of its own at the full price. ``asked`` says by which public API.
    """

    asked: str
    ask: Callable[[], Iterable[tuple[str, float]]]
    packages: tuple[str, ...]
    notes: tuple[str, ...] = ()


def serve(prepare: Callable[[Request], Asking]) -> None:
    """Answer the request on standard input: load, say so, ask up to ``runs`` times."""
    events = _take_standard_output()
    request = Request.read(sys.stdin.read())
    start = time.perf_counter()
    asking = prepare(request)
    loaded = time.perf_counter() - start
    versions = {name: version(name) for name in asking.packages}
    _say(events, "ready", versions=versions, asked=asking.asked, load_seconds=loaded)
    for text in asking.notes:
        _say(events, "note", text=text)
    begun = time.perf_counter()
    for _ in range(request.runs):
        start = time.perf_counter()
        rows = [(str(key), float(value)) for key, value in asking.ask()]
        _say(events, "answer", seconds=time.perf_counter() - start, rows=rows)
        if time.perf_counter() - begun > PATIENCE:
            break


def _take_standard_output() -> TextIO:
    """Keep standard output for events; what libraries print goes to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _say(events: TextIO, event: str, **fields: Any) -> None:
    events.write(json.dumps({"event": event, **fields}) + "\n")
    events.flush()

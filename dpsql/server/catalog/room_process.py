"""A process that answers queries over the catalogs of a room in turn.

The server reads nothing from it but text of JSON of a limited length, and can end it at any time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dpsql.engines.base.deadline import Deadline
from dpsql.server.catalog.packed_values import unpacked_value
from dpsql.server.catalog.structure import CatalogRow

_MOST_BYTES: Final = 16_000_000
"""The longest answer of a process."""
_SECONDS_TO_START: Final = 30.0
# What this process imports, the child imports, whatever its environment says.
_START: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from dpsql.server.catalog.room_child import answer_queries; answer_queries(sys.argv[1])"
)


class RoomFailed(Exception):
    """A process failed, or has no answer to the query."""


class RoomEnded(RoomFailed):
    """A process has ended: it was killed, or went beyond its limits."""


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """The rows of a query over catalogs, with names and types of its columns."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[CatalogRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def fetchall(self) -> list[CatalogRow]:
        """Return all rows."""
        return list(self.rows)


class RoomProcess:
    """A process over the file of a room. Raises ``RoomFailed`` if it does not start."""

    def __init__(self, database: Path) -> None:
        path = [entry or os.getcwd() for entry in sys.path]
        try:
            self._child = subprocess.Popen(  # noqa: S603 (this interpreter, with this program)
                [sys.executable, "-I", "-c", _START, str(database), *path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, ValueError):
            raise RoomFailed from None
        self._sound = True
        try:
            with Deadline(_SECONDS_TO_START, self.kill):
                self._heard()
        except RoomFailed:
            self.end()
            raise

    @property
    def ready(self) -> bool:
        """True if it can be asked."""
        return self._sound and self._child.poll() is None

    def ask(self, written: str, *, rows: bool) -> CatalogAnswer:
        """Return what it answers to a query; raises ``RoomFailed`` if nothing."""
        self._sound = False  # until all of its answer is here
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps([written, rows]).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            raise RoomEnded from None
        found = self._heard()
        self._sound = found.get("last") is False
        if found["columns"] is None:
            raise RoomFailed
        try:
            names, types, values = found["columns"], found["types"], found["rows"]
            answered = tuple(tuple(map(unpacked_value, row)) for row in values)
            return CatalogAnswer(tuple(map(str, names)), tuple(map(str, types)), answered)
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError):
            raise RoomFailed from None

    def _heard(self) -> Mapping[str, Any]:
        """Read the next line that it writes."""
        assert self._child.stdout is not None
        try:
            line = self._child.stdout.readline(_MOST_BYTES)
            found = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or "columns" not in found:
            raise RoomEnded
        return found

    def kill(self) -> None:
        """End it now. For other threads to call."""
        self._sound = False
        self._child.kill()

    def end(self) -> None:
        """End it, and wait until it is gone."""
        self.kill()
        with suppress(OSError), self._child:  # a part of a query may be unsent
            pass

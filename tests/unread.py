"""A way to rows past the last reading: for statements of tests, which are none of dpsql's."""

from __future__ import annotations

from typing import Any

from dpsql.engines.base import Reads, Run
from dpsql.engines.duckdb import DuckDBReader, DuckDBRun


class NoSheet:
    """Reads nothing, and has no objection."""

    def read(self, sql: str, given: Any = ()) -> int:
        """Take any statement."""
        return 0

    def stored(self, name: str, sql: str, given: Any = ()) -> None:
        """Forget it."""

    def dropped(self, name: str) -> None:
        """Forget it."""


def unread(run: Run) -> Any:
    """What runs any statement in a run."""
    if isinstance(run, DuckDBRun):
        return DuckDBReader(run._cursor, NoSheet())
    return run.over(Reads(()))

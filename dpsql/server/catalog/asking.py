"""A query over catalogs while it is asked: its time, and who stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dpsql.engines.base.deadline import Deadline
from dpsql.errors import EngineError, Error
from dpsql.syntax.catalog_spelling import not_answered

CATALOG_SECONDS: Final = 5.0
"""The most that a query over catalogs may take."""


class CatalogAsking:
    """One query under way. ``seconds`` are the client's own limit, 0 for none."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._deadline: Deadline | None = None
        self._stopped = False

    def stop(self) -> None:
        """Interrupt the query. For other threads to call."""
        self._stopped = True
        deadline = self._deadline
        if deadline is not None:
            deadline.expire()

    def limit(self, interrupt: Callable[[], object]) -> Deadline:
        """Return the deadline of the work inside, which is over at once for who was stopped."""
        seconds = min(self._seconds or CATALOG_SECONDS, CATALOG_SECONDS)
        self._deadline = deadline = Deadline(0.0 if self._stopped else seconds, interrupt)
        return deadline

    def failure(self, *, late: bool, ended: bool) -> Error:
        """Make the error of the query, which has failed.

        ``late``: its time was over; ``ended``: its process went beyond its memory.
        """
        if self._stopped:
            return EngineError("the query was interrupted", code="interrupted")
        if late and 0 < self._seconds < CATALOG_SECONDS:
            return EngineError(
                "the query over the catalogs took longer than statement_timeout", code="time_limit"
            )
        if late or ended:
            return not_answered("it takes too long" if late else "it takes too much memory")
        return not_answered("it is not one that is known here")

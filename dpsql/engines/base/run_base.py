"""The base of all engines' runs: a deadline, and statements read before they are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Self

from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import ArrowStream, Reads
from dpsql.engines.base.scratch import Reader, ScratchBase, Sheet


class RunBase(ABC):
    """The statements of one query; ``stop`` ends the statement that runs now.

    As a deadline calls it, ``stop`` must not refer to the run.
    """

    def __init__(self, seconds: float | None, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._deadline = None if seconds is None else Deadline(seconds, stop)

    # -- what an engine does ------------------------------------------------------------------

    @abstractmethod
    def begin(self, tables: Iterable[TableName]) -> None:
        """Keep these tables as they are until the run is over."""

    @abstractmethod
    def release(self) -> None:
        """Give back what the run holds."""

    @abstractmethod
    def place(self, sheet: Sheet) -> ScratchBase:
        """Make a place where statements run that ``sheet`` has read. Raises ``EngineError``."""

    @abstractmethod
    def _sheet(self, reads: Reads) -> Sheet:
        """Return the last reading for statements over these tables."""

    @abstractmethod
    def _all_of(self, table: Table) -> Sql:
        """Write the query of all rows of a public table. Raises ``EngineError``."""

    # -- statements ---------------------------------------------------------------------------

    def over(self, reads: Reads) -> Reader:
        """Return where statements run that read these tables, and no others."""
        sheet = self._sheet(reads)
        return Reader(lambda: self.place(sheet))

    def stream(self, table: Table) -> ArrowStream:
        """Stream all rows of a public table of the schema. Raises ``EngineError``: a fixed text."""
        return self.over(Reads((table.name,))).pairs(self._all_of(table))

    def stream_found(
        self, tables: Sequence[TableName], statement: Sql, columns: Sequence[Column]
    ) -> ArrowStream:
        """Stream what a generated query over public tables finds, with columns of these types."""
        return self.over(Reads(tuple(tables))).pairs(statement)

    # -- time ---------------------------------------------------------------------------------

    @property
    def expired(self) -> bool:
        """True once the time is over: what was running then has been interrupted."""
        return self._deadline is not None and self._deadline.expired

    def paused(self) -> AbstractContextManager[None]:
        """Let no time of the run pass while its caller does something else."""
        return nullcontext() if self._deadline is None else self._deadline.paused()

    def interrupt(self) -> None:
        """Stop the statement of this run that is executed now. For other threads."""
        self._stop()

    def __enter__(self) -> Self:
        if self._deadline is not None:
            self._deadline.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._deadline is not None:
            self._deadline.__exit__()
        self.release()

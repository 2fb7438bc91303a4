"""The one way to private rows, whatever the engine: a statement is read, then sent.

A place is where the statements of one reading run and where they leave tables: a cursor, or a
session. What an engine's class does there is asked of it by :class:`ScratchBase` alone, with a
:class:`Passed` statement, which is made where statements are read and nowhere else. So no engine
can send what has not been read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base.engine import ArrowStream, ExactRows, GivenValues, IntegerStream
from dpsql.errors import EngineError

_T = TypeVar("_T")


class Sheet(Protocol):
    """The last reading of one question's statements over some tables, before they are sent.

    ``objected`` tells of a statement that was not passed whether its plan is none of dpsql's.
    """

    @property
    def objected(self) -> bool: ...

    def read(self, statement: Sql, given: GivenValues = ()) -> int | None:
        """Read a statement; returns how many columns it has, where reading tells.

        Raises ``EngineError`` for what it may not be, and for what the engine does not take.
        """

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        """Record that the statement read last has been stored as a table."""

    def dropped(self, name: str) -> None:
        """Forget a stored table."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A statement that has passed the last reading, with its given values; nothing else is sent.

    ``columns`` is how many it has, where reading tells.
    """

    statement: Sql
    given: GivenValues
    columns: int | None


class ScratchBase(ABC):
    """A place where the statements of one reading run, and the tables that they leave there."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._own: set[str] = set()

    # -- what an engine does ------------------------------------------------------------------

    @abstractmethod
    def _discreetly(self, run: Callable[[], _T]) -> _T:
        """Run what sends a statement; its errors become ``EngineError`` with a fixed text."""

    def _written(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
        """Write a query as it is sent where row ids, keys and measures are read."""
        return statement

    @abstractmethod
    def _exact(self, passed: Passed, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Send a query, and read row ids, keys and measures."""

    @abstractmethod
    def _pairs(self, passed: Passed) -> ArrowStream:
        """Send a query, and stream its rows."""

    @abstractmethod
    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        """Send a query of integers, and read its columns."""

    def _stream(self, passed: Passed) -> IntegerStream:
        """Send a query of integers, and stream its rows. By default an engine does not."""
        raise EngineError()

    @abstractmethod
    def _store(self, name: str, passed: Passed) -> int:
        """Keep the rows of a query as a table; returns how many there are."""

    @abstractmethod
    def _drop(self, name: str) -> None:
        """Drop a table that was stored."""

    def _leave(self, tables: set[str]) -> None:
        """Drop what is left of the tables."""
        for table in tables:
            with suppress(EngineError):  # the transaction is over, or the engine closed
                self._discreetly(partial(self._drop, table))
                self._sheet.dropped(table)

    # -- the one way --------------------------------------------------------------------------

    @final
    def _sent(self, statement: Sql, given: GivenValues, send: Callable[[Passed], _T]) -> _T:
        """Read a statement, then have it sent: nothing is that has not been read."""

        def read_and_send() -> _T:
            columns = self._sheet.read(statement, given)
            return send(Passed(statement, given, columns))

        return self._discreetly(read_and_send)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(self._own)
        self._own.clear()

    @final
    @contextmanager
    def within(self) -> Iterator[Self]:
        """Lend the place for one reading of several, and drop its tables afterwards."""
        before = set(self._own)
        try:
            yield self
        finally:
            later = self._own - before
            self._leave(later)
            self._own -= later

    @final
    def store(self, name: str, statement: Sql, *parameters: list[int]) -> int:
        """Keep the rows of a generated query as a table; returns how many there are."""

        def send(passed: Passed) -> int:
            rows = self._store(name, passed)
            self._sheet.stored(name, statement, parameters)
            return rows

        rows = self._sent(statement, parameters, send)
        self._own.add(name)
        return rows

    @final
    def drop(self, name: str) -> None:
        """Drop a table that is no longer needed."""
        self._discreetly(lambda: self._drop(name))
        self._sheet.dropped(name)
        self._own.remove(name)

    @final
    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query for row ids, keys and measures."""
        written = self._written(statement, keys, measures)
        return self._sent(written, (), lambda passed: self._exact(passed, keys, measures))

    @final
    def pairs(self, statement: Sql) -> ArrowStream:
        """Run a generated query, whose rows go on to a place as private."""
        return self._sent(statement, (), self._pairs)

    @final
    def integers(self, statement: Sql, *parameters: int | list[int]) -> list[NDArray[np.int64]]:
        """Read the columns of a generated query that returns integers and no NULL."""
        return self._sent(statement, parameters, self._integers)

    @final
    def streamed(self, statement: Sql, work: Callable[[IntegerStream], _T]) -> _T:
        """Do work on the rows of a generated query; its errors have fixed texts, too."""
        return self._sent(statement, (), lambda passed: work(self._stream(passed)))

    @final
    def worked(self, work: Callable[[], _T]) -> _T:
        """Do work on rows that were streamed before; its errors have fixed texts, too."""
        return self._discreetly(work)

    @final
    def keys(self, statement: Sql, keys: Sequence[Column], row_ids: NDArray[np.int64]) -> ExactRows:
        """Read the key columns of a generated query with one parameter, a list of row ids."""
        written = self._written(statement, keys, ())
        given = [row_ids.tolist()]
        return self._sent(written, given, lambda passed: self._exact(passed, keys, ()))


class Reader:
    """Where the statements of one reading run, each in a place of its own."""

    def __init__(self, place: Callable[[], ScratchBase]) -> None:
        self._place = place

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query over private rows. Raises ``EngineError`` with a fixed text."""
        with self._place() as place:
            return place.exact(statement, keys, measures)

    def pairs(self, statement: Sql) -> ArrowStream:
        """Stream what a generated query reads. Raises ``EngineError`` with a fixed text."""
        with self._place() as place:
            return place.pairs(statement)

    def scratch(self) -> ScratchBase:
        """Make scratch space for a query that reads private rows in several steps."""
        return self._place()

"""Rehearsals: what a question would send to rows that are elsewhere is planned, and reads none.

A question of several steps is rehearsed by the code that reads it, with a :class:`Rehearsal` where
rows would be read: whatever it stores is an empty table, and whatever it asks for is planned and
answered with as few zeros as it needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base import ArrowStream, ExactRows, KeyArrays, Reads
from dpsql.errors import EngineError, InternalError

_STORED: Final = 1
"""Rows that a table is said to have: where there are none, nothing would be asked of them."""


class Rehearsal(ABC):
    """A reader of private rows, and its scratch space, that has each statement planned.

    Methods raise ``EngineError`` for a statement that the engine does not take.
    """

    def __init__(self) -> None:
        self._tables: set[str] = set()

    # -- what an engine does ------------------------------------------------------------------

    @abstractmethod
    def planned(self, statement: Sql, parameters: Sequence[int | list[int]]) -> int:
        """Have a query planned for none of its rows; returns how many columns it has."""

    @abstractmethod
    def sent(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
        """Write the query as it is sent where row ids, keys and measures are read."""

    @abstractmethod
    def make(self, name: str, statement: Sql, parameters: Sequence[list[int]]) -> None:
        """Make an empty table of the columns that a query has."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """Drop a table that was made."""

    @abstractmethod
    def over(self, reads: Reads) -> Rehearsal:
        """Return where the statements over these tables are planned."""

    # -- reading ------------------------------------------------------------------------------

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Plan the query; there is one row of zeros, as of looks and totals."""
        self.planned(self.sent(statement, keys, measures), ())
        zeros = {name: np.zeros(1, dtype=np.int64) for name in measures}
        return ExactRows(np.ones(1, dtype=np.int64), zeros, _missing(keys, 1))

    def keys(self, statement: Sql, keys: Sequence[Column], row_ids: NDArray[np.int64]) -> ExactRows:
        """Plan the query; all that are asked for are there, and NULL."""
        self.planned(self.sent(statement, keys, ()), [row_ids.tolist()])
        return ExactRows(row_ids, {}, _missing(keys, len(row_ids)))

    def pairs(self, statement: Sql) -> ArrowStream:
        """Plan the query; its rows cannot be read."""
        self.planned(statement, ())
        return _Unread()

    def integers(self, statement: Sql, *parameters: int | list[int]) -> list[NDArray[np.int64]]:
        """Plan the query; there are no rows."""
        return [np.zeros(0, dtype=np.int64) for _ in range(self.planned(statement, parameters))]

    # -- scratch space ------------------------------------------------------------------------

    def scratch(self) -> Rehearsal:
        """Return the same: tables are dropped when it is left."""
        return self

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._tables:
            with suppress(EngineError):  # the transaction is over
                self.forget(name)
        self._tables.clear()

    def store(self, name: str, statement: Sql, *parameters: list[int]) -> int:
        """Make an empty table."""
        self.make(name, statement, parameters)
        self._tables.add(name)
        return _STORED

    def drop(self, name: str) -> None:
        """Drop a table."""
        self.forget(name)
        self._tables.remove(name)


class _Unread:
    """The rows of a query that was planned and not sent."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise EngineError()


def unrecognised() -> InternalError:
    """Build the error for what becomes a statement that the last reading keeps from being sent."""
    return InternalError(
        "the query becomes a statement whose plan in the engine is not one of dpsql's",
        code="statement_unrecognised",
        hint="Nothing was read or spent. It is an error of dpsql's: please report the query.",
    )


def _missing(keys: Sequence[Column], rows: int) -> KeyArrays:
    nothing: Any = np.full(rows, None, dtype=object)
    return {key.name: np.ma.masked_array(nothing, mask=np.ones(rows, bool)) for key in keys}

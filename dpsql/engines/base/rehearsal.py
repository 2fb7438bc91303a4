"""Rehearsals: the engine plans all statements of a question before any row is read.

A question of several steps is rehearsed by the code that reads it, with a :class:`Rehearsal` where
rows would be read: whatever it stores is an empty table, and whatever it asks for is planned and
answered with as few zeros as it needs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from io import RawIOBase
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.engines.base.engine import ArrowStream, ExactRows, IntegerStream, KeyArrays, Reads
from dpsql.engines.base.scratch import Passed, ScratchBase, Sheet
from dpsql.errors import EngineError, Error, InternalError, QueryRefused

_T = TypeVar("_T")
_STORED: Final = 1
"""The assumed number of rows of a table: for none the engine would plan nothing."""


class Rehearsal(ScratchBase):
    """A reader of private rows, and its scratch space, that has each statement planned.

    ``sheets`` returns what reads the statements over some tables. ``engine`` is called so in errors
    for statements that it does not take.
    """

    def __init__(self, sheets: Callable[[Reads], Sheet], engine: str = "the engine") -> None:
        super().__init__(sheets(Reads(())))
        self._sheets = sheets
        self._engine = engine

    # -- what an engine does ------------------------------------------------------------------

    @abstractmethod
    def _planned(self, passed: Passed) -> int:
        """Have a query planned for none of its rows; returns how many columns it has.

        Raises ``EngineError`` for one that the engine does not take.
        """

    @abstractmethod
    def _make(self, name: str, passed: Passed) -> None:
        """Make an empty table of the columns that a query has."""

    def refusal(self) -> Error:
        """Build the error for the statement that was read last, and was not taken."""
        return unrecognised() if self._sheet.objected else not_taken(self._engine)

    # -- reading ------------------------------------------------------------------------------

    def over(self, reads: Reads) -> Rehearsal:
        """Return where the statements over these tables are planned."""
        self._sheet = self._sheets(reads)
        return self

    def scratch(self) -> Rehearsal:
        """Return the same: tables are dropped when it is left."""
        return self

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        """Run something: it is no statement over rows."""
        return run()

    def _exact(self, passed: Passed, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Plan the query; there is one row of zeros, as of estimates and totals.

        Of rows that are asked for by their ids all are there, and their keys are NULL.
        """
        self._planned(passed)
        row_ids = np.array(passed.given[0] if passed.given else [1], dtype=np.int64)
        zeros = {name: np.zeros(1, dtype=np.int64) for name in measures}
        return ExactRows(row_ids, zeros, _missing(keys, len(row_ids)))

    def _pairs(self, passed: Passed) -> ArrowStream:
        """Plan the query; its rows cannot be read."""
        self._planned(passed)
        return _Unread()

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        """Plan the query; there are no rows."""
        return [np.zeros(0, dtype=np.int64) for _ in range(self._planned(passed))]

    def _stream(self, passed: Passed) -> IntegerStream:
        """Plan the query; there are no rows."""
        self._planned(passed)
        return _NoRows()

    def _store(self, name: str, passed: Passed) -> int:
        """Make an empty table."""
        self._make(name, passed)
        return _STORED


class _NoRows:
    """The stream of a query that was planned and not sent."""

    share: Final = 1 << 62

    def __iter__(self) -> Iterator[Sequence[NDArray[Any]]]:
        return iter(())

    def proceed(self) -> None:
        """Do nothing: no statement runs."""

    def file(self) -> RawIOBase:
        raise EngineError()


class _Unread:
    """The rows of a query that was planned and not sent."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise EngineError()


def unrecognised() -> InternalError:
    """Build the error for a generated statement that the last reading refuses to send."""
    return InternalError(
        "the query becomes a statement whose plan in the engine is not one of dpsql's",
        code="statement_unrecognised",
        hint="Nothing was read or spent. It is an error of dpsql's: please report the query.",
    )


def not_taken(engine: str) -> QueryRefused:
    """Build the refusal of a query whose generated statement the engine does not accept."""
    return QueryRefused(
        f"the query does not fit its tables: {engine} rejects its statement",
        code="does_not_bind",
        hint="Give values that stand for each other, in UNION or CASE, one type by a cast; "
        "nest expressions less deeply.",
    )


def _missing(keys: Sequence[Column], rows: int) -> KeyArrays:
    nothing: Any = np.full(rows, None, dtype=object)
    return {key.name: np.ma.masked_array(nothing, mask=np.ones(rows, bool)) for key in keys}

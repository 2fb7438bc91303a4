"""Cursors: PEP 249's way to ask a question and to read its answer.

``execute`` answers once and is charged once. What comes after reads that answer: fetching,
iterating, ``intervals`` and ``cost`` ask nothing and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias, Unpack

from dpsql import errors
from dpsql.core.plain import plain_whole
from dpsql.core.sql_types import SqlType
from dpsql.policy.parameters import PrivacyParameters, check_parameter_name

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dpsql.accuracy.intervals import Interval
    from dpsql.results.explanation import Explanation
    from dpsql.results.result import Cost, Result
    from dpsql.results.rows import Row
    from dpsql.service.session import Session
    from dpsql.syntax.placeholders import PlaceholderValues

ColumnDescription: TypeAlias = tuple[str, str, None, None, int | None, int | None, None]
"""Name, type code (DuckDB's own text), display size, internal size, precision, scale, null_ok."""


class Cursor:
    """One answer at a time, read row by row. Made by ``Connection.cursor``; for one thread.

    ``arraysize``: how many rows ``fetchmany`` reads. ``connection``: the one it came from.
    ``description``: the answer's columns as PEP 249 describes them, or None before an answer.
    ``messages``: the warnings of the answer, as classes and values. Messages of engines are
    withheld, as they may quote data.
    ``result``, ``cost``, ``explanation`` and ``intervals`` go beyond PEP 249. They stay readable
    after the cursor or the connection is closed: what was paid for is not lost.
    """

    def __init__(self, connection: Session) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: tuple[ColumnDescription, ...] | None = None
        self.messages: list[tuple[type[errors.AnswerWarning], errors.AnswerWarning]] = []
        self._result: Result | None = None
        self._rows: list[Row] | None = None
        self._position = 0
        self._closed = False

    def execute(
        self,
        operation: str,
        parameters: PlaceholderValues | None = None,
        *,
        mechanism: str | None = None,
        fresh: bool = False,
        **privacy: Unpack[PrivacyParameters],
    ) -> Cursor:
        """Answer a statement; a query is charged here, once. Returns the cursor itself.

        ``parameters`` are the values of its query parameters, the rest is as in ``Connection.sql``.
        """
        self._refuse_closed()
        self._result, self._rows, self._position, self.description = None, None, 0, None
        self.messages = []
        for name in privacy:
            check_parameter_name(name)  # else ``query`` would be given twice
        values = () if parameters is None else parameters
        self._result = self.connection.sql(
            operation, values, mechanism=mechanism, fresh=fresh, **privacy
        )
        described = zip(self._result.columns, self._result.types, strict=True)
        self.description = tuple(_description(name, type_) for name, type_ in described)
        said = [caveat.python_warning() for caveat in self._result.warnings]
        self.messages = [(type(each), each) for each in said]
        self._result.warn(stacklevel=3)  # frames and other programs show no sentences
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[PlaceholderValues]) -> None:
        """Refuse: every statement returns rows, and all but the last answer would be paid in vain.

        Raises ``NotSupportedError``; nothing runs and nothing is spent.
        """
        self._refuse_closed()
        raise errors.NotSupportedError(
            "executemany would pay for every answer and show only the last",
            code="executemany",
            hint="Call execute once per set of values, or group by what the values select.",
        )

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next ``size`` rows (``arraysize`` unless given), fewer at the end."""
        count = plain_whole(self.arraysize if size is None else size)
        if count is None or count < 0:
            raise errors.ProgrammingError(
                "fetchmany reads a whole number of rows, which cannot be negative", code="bad_size"
            )
        return self._take(count)

    def fetchall(self) -> list[Row]:
        """Return all rows that have not been read."""
        return self._take(None)

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    @property
    def rowcount(self) -> int:
        """The number of rows of the answer; -1 before one, or if Python cannot hold its values."""
        try:
            return -1 if self._result is None else len(self._loaded())
        except errors.InterfaceError:
            return -1

    @property
    def rownumber(self) -> int | None:
        """The index of the next row, from 0, or None before an answer."""
        return None if self._result is None else self._position

    @property
    def lastrowid(self) -> None:
        """None: nothing is inserted."""
        return None

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing: values are literals of the statement, whatever their size."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: values are never cut."""

    @property
    def result(self) -> Result:
        """The whole answer, for Arrow, pandas and polars. ``ProgrammingError`` before one."""
        if self._result is None:
            raise errors.ProgrammingError(
                "there is no answer to read from",
                code="no_answer",
                hint="Call execute first; a statement that failed leaves no answer.",
            )
        return self._result

    @property
    def cost(self) -> Cost:
        """The cost of the answer: what was reserved and charged."""
        return self.result.cost

    @property
    def explanation(self) -> Explanation:
        """The explanation of how the answer was made and priced."""
        return self.result.plan

    def intervals(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Compute confidence intervals for all rows of the answer, as ``Result.intervals``."""
        return self.result.intervals(confidence)

    def df(self, *, intervals: bool = False, confidence: float = 0.95) -> pandas.DataFrame:
        """Return all rows of the answer as a pandas DataFrame, as ``Result.df``."""
        return self.result.df(intervals=intervals, confidence=confidence)

    def pl(self, *, intervals: bool = False, confidence: float = 0.95) -> polars.DataFrame:
        """Return all rows of the answer as a polars DataFrame, as ``Result.pl``."""
        return self.result.pl(intervals=intervals, confidence=confidence)

    def arrow(self, *, intervals: bool = False, confidence: float = 0.95) -> pyarrow.Table:
        """Return all rows of the answer as a pyarrow Table, as ``Result.arrow``."""
        return self.result.arrow(intervals=intervals, confidence=confidence)

    fetchdf = df

    def close(self) -> None:
        """Refuse all further statements and fetches. Closing twice is no error."""
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, count: int | None) -> list[Row]:
        self._refuse_closed()
        rows, start = self._loaded(), self._position
        end = len(rows) if count is None else min(start + count, len(rows))
        self._position = end
        return rows[start:end]

    def _loaded(self) -> list[Row]:
        if self._rows is None:
            self._rows = self.result.fetchall()
        return self._rows

    def _refuse_closed(self) -> None:
        self.connection.refuse_closed()
        if self._closed:
            raise errors.InterfaceError("the cursor is closed", code="closed")


def _description(name: str, code: str) -> ColumnDescription:
    found = SqlType.of(code)
    precision, scale = found.digits if found.is_decimal else (None, None)
    return name, code, None, None, precision, scale, None

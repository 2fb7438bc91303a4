"""Ways to read an answer: rows, columns, and tables of other libraries. None asks anything."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.intervals import Interval
from dpsql.core import display
from dpsql.core.formatting import printable
from dpsql.core.plain import plain_truth, plain_whole
from dpsql.core.schema import fold
from dpsql.core.sql_types import BIGINT, DOUBLE, SqlType
from dpsql.errors import AnswerWarning, ParameterError
from dpsql.results.frames import AnswerTable, require_package
from dpsql.results.rows import AddedColumn, Answer, Row, named_row

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

    from dpsql.accuracy.appearance import Threshold
    from dpsql.results.explanation import Explanation


class Told(Protocol):
    """A caveat: its kind, and a sentence. A ``strong`` one is told where sentences are few."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def strong(self) -> bool: ...
    def python_warning(self) -> AnswerWarning: ...


class ReadableAnswer(ABC):
    """An answer as readers see it: rows as Python values, and data frames."""

    def __init__(self, answer: Answer, width: int) -> None:
        self._answer = answer
        self._width = width
        self._unread: Iterator[Row] | None = None

    @abstractmethod
    def intervals(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Compute confidence intervals for the noisy columns."""

    @abstractmethod
    def thresholds(self) -> dict[str, Threshold]:
        """Return the threshold of appearance by column, for columns with one."""

    @abstractmethod
    def summary(self, confidence: float = 0.95) -> str:
        """Put into plain words how close the values are, and which groups appear."""

    @property
    @abstractmethod
    def warnings(self) -> Sequence[Told]:
        """What limits the meaning of the numbers."""

    @property
    @abstractmethod
    def released(self) -> bool:
        """True if the rows were computed from private ones, by drawing noise."""

    @property
    @abstractmethod
    def explanation_shown(self) -> Explanation | str | None:
        """The plan, or its text, where the answer is one to EXPLAIN."""

    @property
    @abstractmethod
    def footer(self) -> str:
        """The mechanisms, and what the answer cost."""

    @abstractmethod
    def circumstances(self, confidence: float) -> dict[str, object]:
        """Return how the answer came about: mechanisms, cost, warnings, what was left out."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self._answer.names[: self._width]

    @property
    def types(self) -> list[str]:
        """The DuckDB types of the columns."""
        return [str(type_) for type_ in self._answer.types[: self._width]]

    def fetchall(self) -> list[Row]:
        """Collect all rows as tuples of Python values, whatever ``fetchone`` has read."""
        return self._answer.fetchall(self._width)

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last; each call reads one."""
        if self._unread is None:
            self._unread = iter(self)
        return next(self._unread, None)

    def __len__(self) -> int:
        return self._answer.count

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows, with the names of columns that ``pandas.DataFrame(answer)`` looks for."""
        named = named_row(self.columns)
        return map(named, self.fetchall())

    @overload
    def __getitem__(self, which: str) -> list[Any]: ...
    @overload
    def __getitem__(self, which: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, which: slice) -> list[Row]: ...
    def __getitem__(self, which: str | SupportsIndex | slice) -> list[Any] | Row:
        """Return a column's values by its name, a row by its number, or rows by a slice.

        Raises ``ParameterError`` for what the answer does not have.
        """
        if isinstance(which, str):
            return self._answer.column(self._position(which))
        if isinstance(which, slice):
            return self.fetchall()[which]
        rows, place = self.fetchall(), plain_whole(which)
        if place is None or not -len(rows) <= place < len(rows):
            raise ParameterError(
                "this is neither a column of the answer nor the number of a row",
                code="no_such_row",
                hint=f"It has {len(rows)} rows, the first of them number 0.",
            )
        return rows[place]

    def _position(self, name: str) -> int:
        for same in (str, fold):  # as DuckDB finds a column; one spelled exactly so goes first
            for position, column in enumerate(self.columns):
                if same(column) == same(name):
                    return position
        raise ParameterError(
            f"the answer has no column {printable(name, 40)}",
            code="column_not_in_answer",
            hint=f"Columns: {', '.join(printable(c, 40) for c in self.columns)}.",
        )

    def arrow(self, *, intervals: bool = False, confidence: float = 0.95) -> pyarrow.Table:
        """Return a pyarrow Table; ``intervals`` adds columns as in :meth:`df`.

        What Arrow has no type for is text, and integers of 128 bits are decimals if they fit.
        Raises ``InterfaceError`` if pyarrow is not installed, and for infinite dates.
        """
        return self._table(intervals, confidence).pyarrow()

    def df(self, *, intervals: bool = False, confidence: float = 0.95) -> pandas.DataFrame:
        """Return a pandas DataFrame.

        With ``intervals``, each noisy column ``n`` is followed by ``n_low`` and ``n_high``, the
        ends of its confidence intervals. Raises ``InterfaceError`` as :meth:`arrow` does, and
        ``ParameterError`` unless 0 < confidence < 1.
        """
        frame = self._table(intervals, confidence).pandas()
        frame.attrs.update(self.attributes())
        return frame

    def attributes(self) -> dict[str, object]:
        """Return facts about the answer for frames; pandas keeps them as ``attrs``."""
        return {}

    def pl(self, *, intervals: bool = False, confidence: float = 0.95) -> polars.DataFrame:
        """Return a polars DataFrame. Arguments, types and errors are those of :meth:`arrow`."""
        return self._table(intervals, confidence).polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface, of the types of :meth:`arrow`.

        That is how polars, pyarrow, DuckDB and others read an answer that they are given.
        """
        return self._table(intervals=False, confidence=0.95).stream()

    def __narwhals_dataframe__(self) -> object:
        """Return the rows as narwhals reads frames, of the types of :meth:`arrow`.

        That is how altair, plotly and others read an answer that they are given. Raises
        ``InterfaceError`` as :meth:`arrow` does.
        """
        return self._table(intervals=False, confidence=0.95).narwhals()

    to_pandas = fetchdf = df
    to_polars = pl
    to_arrow = arrow

    def ends(self, confidence: float = 0.95) -> dict[str, tuple[AddedColumn, AddedColumn]]:
        """Return the ends of noisy columns' intervals as columns, under names that are free."""
        intervals = self.intervals(confidence)
        noisy = [self.columns.index(name) for name in intervals]
        named = names_of_ends(self.columns, noisy)
        types = self._answer.types
        return {
            name: (
                _end(place, named[place][0], types[place], interval.low),
                _end(place, named[place][1], types[place], interval.high),
            )
            for place, (name, interval) in zip(noisy, intervals.items(), strict=True)
        }

    def plot(
        self,
        x: str | Sequence[str] | None = None,
        y: str | None = None,
        *,
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the rows on a matplotlib Axes, a new one unless ``ax`` is given, and return it.

        ``y`` is the column to draw, by default the first noisy one; ``x`` the column or columns
        that tell rows apart, by default those before it. One column of numbers or dates makes an
        axis with points; anything else makes bars, of which the first 40 rows are drawn. Intervals
        are error bars, NULL keys look different, the threshold is a line where ``y`` decides which
        groups appear, and the caption says what it cost.

        Raises ``InterfaceError`` if matplotlib is not installed, and ``ParameterError`` for columns
        that are not there or hold no numbers, and unless 0 < confidence < 1.
        """
        require_package("matplotlib", "plot")
        drawn: Axes = display.plot(self, x, y, confidence, ax)
        return drawn

    def __repr__(self) -> str:
        return display.text(self)

    def to_html(self) -> str:
        """Write the answer for notebooks: a table in HTML, with sentences on its meaning."""
        return display.html(self)

    def _repr_html_(self) -> str:
        return display.html(self)

    @abstractmethod
    def warn(self, stacklevel: int) -> None:
        """Raise Python warnings of what frames do not show."""

    def _table(self, intervals: bool, confidence: float) -> AnswerTable:
        self.warn(stacklevel=4)  # the caller of the method that asks for the table
        ends: Mapping[str, tuple[AddedColumn, AddedColumn]] = (
            self.ends(confidence) if plain_truth("intervals", intervals) else {}
        )
        return AnswerTable(
            self._answer, self._width, [column for pair in ends.values() for column in pair]
        )


def names_of_ends(columns: Sequence[str], noisy: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Name the columns for both ends of the intervals of noisy columns, by their places.

    >>> names_of_ends(["k", "n", "n_low"], [1])
    {1: ('n_low_1', 'n_high')}
    """
    taken = {fold(name) for name in columns}

    def free(name: str) -> str:
        names = chain([name], (f"{name}_{number}" for number in count(1)))
        found = next(each for each in names if fold(each) not in taken)
        taken.add(fold(found))
        return found

    names = ((place, columns[place]) for place in noisy)
    return {place: (free(f"{name}_low"), free(f"{name}_high")) for place, name in names}


def type_of_ends(type_: SqlType) -> SqlType:
    """Return the type of both ends of the intervals of a column of a type."""
    return BIGINT if type_ == BIGINT else DOUBLE


def _end(after: int, name: str, type_: SqlType, ends: NDArray[np.float64]) -> AddedColumn:
    """Build one end of a column's intervals: whole where the column is, None for NULL."""
    whole = type_ == BIGINT
    values = [None if math.isnan(end) else int(end) if whole else end for end in ends.tolist()]
    return AddedColumn(after, name, type_of_ends(type_), values)

"""The rows of an answer, held as Python values or stored until nobody refers to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date
from functools import cache
from typing import Any, Final, Protocol

import duckdb

from dpsql.core.quoting import quote
from dpsql.core.schema import INTEGER_BITS, base_type
from dpsql.engines.isolated import isolated
from dpsql.errors import InterfaceError

MAX_PYTHON_VALUES = 20_000_000  # of an answer, which take up to 2 GB
FEW_VALUES = 10_000  # of an answer that is held rather than stored
# Types whose values are the same after a trip through Python, also as a parameter.
_HELD: Final = frozenset({"BOOLEAN", "DOUBLE", "VARCHAR", *INTEGER_BITS} - {"UHUGEINT"})
_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})  # except for their first and last years
Row = tuple[Any, ...]


class Answer(Protocol):
    """The rows of a finished tail: the answer's columns, then the hidden ones."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    def types(self) -> list[str]:
        """The DuckDB types of all columns."""

    def fetchall(self, width: int) -> list[Row]:
        """Return the first ``width`` columns as Python values.

        Raises ``InterfaceError`` for values that Python cannot hold.
        """

    def column(self, position: int) -> list[Any]:
        """Return the values of one column."""

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        """Return the first ``width`` columns, for conversion to Arrow and data frames."""


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A small answer of plain types, held as Python values."""

    names: list[str]
    types: list[str]
    rows: list[Row]

    def fetchall(self, width: int) -> list[Row]:
        return [row[:width] for row in self.rows]

    def column(self, position: int) -> list[Any]:
        return [row[position] for row in self.rows]

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        columns = [quote(name) for name in self.names[:width]]
        lists = [self.column(position) for position in range(width)]
        return _converter().cursor().sql(unnest(columns, self.types[:width]), params=lists)


@cache
def _converter() -> duckdb.DuckDBPyConnection:
    """Open the database where held values become columns; nothing is stored or run there."""
    return isolated()


class StoredAnswer:
    """An answer stored as a table until nobody refers to it; ``keeps`` must outlive it."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        names: Sequence[str],
        rows: int,
        keeps: object = None,
    ) -> None:
        self._keeps = keeps
        self._connection = connection
        self._table = table
        self._rows = rows
        self.names = list(names)

    @property
    def types(self) -> list[str]:
        found = self._connection.cursor().execute(f"SELECT * FROM {self._table} LIMIT 0")
        return [str(column[1]) for column in found.description or ()]

    def held(self) -> HeldAnswer | None:
        """Return the same answer as Python values, if it is small and of types that Python has."""
        types = self.types
        known = all(base_type(type_) in _HELD | _TIMES for type_ in types)
        if not known or self._rows * len(types) > FEW_VALUES:
            return None
        rows = self.fetchall(len(types))
        times = [place for place, type_ in enumerate(types) if base_type(type_) in _TIMES]
        if not all(_is_exact(row[place]) for row in rows for place in times):
            return None
        return HeldAnswer(self.names, types, rows)

    def fetchall(self, width: int) -> list[Row]:
        self._refuse_many(width)
        columns = ", ".join(f"c{i}" for i in range(width))
        sql = f"SELECT {columns} FROM {self._table}"
        try:
            rows: list[Row] = self._connection.cursor().execute(sql).fetchall()
        except (duckdb.InvalidInputException, OverflowError, ValueError):
            raise InterfaceError(
                "some values of the answer cannot be shown as Python values",
                code="no_python_value",
                hint="Read the answer with arrow(), or cast the column to VARCHAR in the query. "
                "Timestamps with time zone need the package pytz.",
            ) from None
        return rows

    def column(self, position: int) -> list[Any]:
        self._refuse_many(1)
        sql = f"SELECT c{position} FROM {self._table}"
        return [row[0] for row in self._connection.cursor().execute(sql).fetchall()]

    def relation(self, width: int) -> duckdb.DuckDBPyRelation:
        columns = [f"c{i} AS {quote(name)}" for i, name in enumerate(self.names[:width])]
        sql = f"SELECT {', '.join(columns)} FROM {self._table}"
        return self._connection.cursor().sql(sql)

    def _refuse_many(self, width: int) -> None:
        if self._rows * width > MAX_PYTHON_VALUES:
            raise InterfaceError(
                f"the answer has {self._rows:,} rows: too many values to hold as Python objects",
                code="answer_too_large",
                hint="Read the answer with arrow(), or ask for less of it: the same release "
                "answers another statement over the same blocks at no cost.",
            )


def _is_exact(time: object) -> bool:
    """Tell whether Python has a date for this: no infinity, and a year of four digits."""
    return time is None or (isinstance(time, date) and MINYEAR < time.year < MAXYEAR)


def unnest(names: list[str], types: list[str]) -> str:
    """Return the query that gives lists of values, its parameters, as columns of these types."""
    columns = [f"unnest(?::{type_}[]) AS {name}" for name, type_ in zip(names, types, strict=True)]
    return f"SELECT {', '.join(columns)}"

"""The rows of an answer, held as Python values or stored until nobody refers to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime
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
_MOMENT: Final = "TIMESTAMP WITH TIME ZONE"
_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})  # except for their first and last years
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column computed beside an answer, one value a row, to stand after one of its columns."""

    after: int
    name: str
    type: str
    values: list[object]


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

    def relation(self, width: int, added: Sequence[AddedColumn] = ()) -> duckdb.DuckDBPyRelation:
        """Return the first ``width`` columns, and those added, to be converted to data frames."""


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

    def relation(self, width: int, added: Sequence[AddedColumn] = ()) -> duckdb.DuckDBPyRelation:
        own = [
            AddedColumn(position, name, type_, self.column(position))
            for position, (name, type_) in enumerate(zip(self.names, self.types, strict=True))
        ]
        columns = sorted([*own[:width], *added], key=lambda column: column.after)
        sql = unnest([quote(column.name) for column in columns], [c.type for c in columns])
        return _converter().cursor().sql(sql, params=[column.values for column in columns])


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
        return self._read(range(width))

    def column(self, position: int) -> list[Any]:
        return [row[0] for row in self._read([position])]

    def _read(self, positions: Sequence[int]) -> list[Row]:
        self._refuse_many(len(positions))
        types = self.types
        moments = [base_type(types[position]) == _MOMENT for position in positions]
        columns = [
            # As a moment of UTC without saying so: for others DuckDB needs the package pytz.
            f"CAST(c{position} AS TIMESTAMP)" if moment else f"c{position}"
            for position, moment in zip(positions, moments, strict=True)
        ]
        sql = f"SELECT {', '.join(columns)} FROM {self._table}"
        try:
            rows: list[Row] = self._connection.cursor().execute(sql).fetchall()
        except (duckdb.InvalidInputException, OverflowError, ValueError):
            raise InterfaceError(
                "some values of the answer cannot be shown as Python values",
                code="no_python_value",
                hint="Read the answer with arrow(), or cast the column to VARCHAR in the query. "
                "Nested timestamps with time zone need the package pytz.",
            ) from None
        return [_with_zones(row, moments) for row in rows] if any(moments) else rows

    def relation(self, width: int, added: Sequence[AddedColumn] = ()) -> duckdb.DuckDBPyRelation:
        columns = [(i, f"c{i} AS {quote(name)}") for i, name in enumerate(self.names[:width])]
        columns += [(column.after, f"more.{quote(column.name)}") for column in added]
        source, lists = self._table, [column.values for column in added]
        if added:
            more = unnest([quote(column.name) for column in added], [c.type for c in added])
            source += f" POSITIONAL JOIN ({more}) more"
        chosen = [column for _, column in sorted(columns, key=lambda one: one[0])]
        sql = f"SELECT {', '.join(chosen)} FROM {source}"
        return self._connection.cursor().sql(sql, params=lists)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.names, self.types, self._texts())

    def _texts(self) -> list[list[str | None]]:
        """Spell the values of all columns as texts that stand for them again.

        Raises ``InterfaceError`` for a column of which some do not.
        """
        self._refuse_many(len(self.names))
        columns = []
        for place, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
            again = f"TRY_CAST(CAST(c{place} AS VARCHAR) AS {type_}) IS NOT DISTINCT FROM c{place}"
            sql = f"SELECT CAST(c{place} AS VARCHAR), {again} FROM {self._table}"
            rows = self._connection.cursor().execute(sql).fetchall()
            if not all(same for _, same in rows):
                raise InterfaceError(
                    f"the column {name!r} is of a type whose values cannot be pickled",
                    code="not_pickled",
                    hint="Cast the column to VARCHAR in an outer query, which asks nothing new.",
                )
            columns.append([text for text, _ in rows])
        return columns

    def _refuse_many(self, width: int) -> None:
        if self._rows * width > MAX_PYTHON_VALUES:
            raise InterfaceError(
                f"the answer has {self._rows:,} rows: too many values to hold as Python objects",
                code="answer_too_large",
                hint="Read the answer with arrow(), or ask for less of it: the same release "
                "answers another statement over the same blocks at no cost.",
            )


def _restored(names: list[str], types: list[str], texts: list[list[str | None]]) -> StoredAnswer:
    """Store an answer again that was pickled, in a database of its own."""
    cursor, columns = isolated().cursor(), [f"c{place}" for place in range(len(names))]
    cast = [f"CAST({c} AS {type_}) AS {c}" for c, type_ in zip(columns, types, strict=True)]
    source = unnest(columns, ["VARCHAR"] * len(columns))
    cursor.execute(f"CREATE TABLE answer AS SELECT {', '.join(cast)} FROM ({source})", texts)
    return StoredAnswer(cursor, "answer", names, len(texts[0]))


def _with_zones(row: Row, moments: Sequence[bool]) -> Row:
    """Say of the moments in a row that they are in UTC."""
    return tuple(
        value.replace(tzinfo=UTC) if moment and isinstance(value, datetime) else value
        for value, moment in zip(row, moments, strict=True)
    )


def _is_exact(time: object) -> bool:
    """Tell whether Python has a date for this: no infinity, and a year of four digits."""
    return time is None or (isinstance(time, date) and MINYEAR < time.year < MAXYEAR)


def unnest(names: list[str], types: list[str]) -> str:
    """Return the query that gives lists of values, its parameters, as columns of these types."""
    columns = [f"unnest(?::{type_}[]) AS {name}" for name, type_ in zip(names, types, strict=True)]
    return f"SELECT {', '.join(columns)}"

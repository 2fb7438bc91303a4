"""The rows of an answer, held as Python values or stored until nobody refers to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, Final, Protocol

import duckdb

from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import INTEGER_BITS, VARCHAR, SqlType
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import execute, relation
from dpsql.errors import InterfaceError

MAX_PYTHON_VALUES = 20_000_000  # of an answer, which take up to 2 GB
FEW_VALUES = 10_000  # of an answer that is held rather than stored
# Types whose values are the same after a trip through Python, also as a parameter.
_HELD: Final = frozenset({"BOOLEAN", "DOUBLE", "VARCHAR", *INTEGER_BITS} - {"UHUGEINT"})
_MOMENT: Final = "TIMESTAMP WITH TIME ZONE"
_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})  # where Python has them
_ENDLESS: Final = frozenset(
    {"DATE", _MOMENT, *(f"TIMESTAMP{unit}" for unit in ("", "_S", "_MS", "_NS"))}
)
_LENGTH: Final = "INTERVAL"
_INSIDE: Final = re.compile(r"\b(?:DATE|TIMESTAMP\w*|INTERVAL)\b")
Row = tuple[Any, ...]


def named_row(columns: Sequence[str]) -> Callable[[Row], Row]:
    """Make a type of rows that have their columns' names in ``_fields``, where frames look.

    No ``namedtuple``, which frames take it for: columns may have any names. Copied or pickled, such
    a row is a tuple.
    """
    members = {
        "__slots__": (),
        "__reduce__": _as_tuple,
        "_fields": tuple(columns),
        "_field_defaults": {},
        "_replace": _replaced,
    }
    return type("NamedRow", (tuple,), members)


def _replaced(row: Row, **values: object) -> Row:
    """Return a row with other values. Raises ``ValueError`` as a ``namedtuple`` does."""
    fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise ValueError(f"Got unexpected field names: {unknown!r}")
    return type(row)(values.get(name, value) for name, value in zip(fields, row, strict=True))


def _as_tuple(row: Row) -> tuple[type[tuple[Any, ...]], tuple[Row]]:
    return tuple, (tuple(row),)


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column computed beside an answer, one value a row, to stand after one of its columns."""

    after: int
    name: str
    type: SqlType
    values: list[object]


class Answer(Protocol):
    """The rows of a finished tail: the answer's columns, then the hidden ones."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    def types(self) -> list[SqlType]:
        """The DuckDB types of all columns."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def fetchall(self, width: int) -> list[Row]:
        """Return the first ``width`` columns as Python values.

        Dates and times that Python has not, and lengths of time in months, are DuckDB's texts.
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
    types: list[SqlType]
    rows: list[Row]

    @property
    def count(self) -> int:
        return len(self.rows)

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
        asked = unnest([quoted(column.name) for column in columns], [c.type for c in columns])
        return relation(_converter().cursor(), asked, [column.values for column in columns])


@cache
def _converter() -> duckdb.DuckDBPyConnection:
    """Open the database where held values become columns; nothing is stored or run there."""
    return isolated()


class StoredAnswer:
    """An answer stored as a table until nobody refers to it; ``keeps`` must outlive it."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: Sql,
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
    def count(self) -> int:
        return self._rows

    @property
    def types(self) -> list[SqlType]:
        found = execute(self._connection.cursor(), sql("SELECT * FROM {} LIMIT 0", self._table))
        return [SqlType.of(str(column[1])) for column in found.description or ()]

    def held(self) -> HeldAnswer | None:
        """Return the same answer as Python values, if it is small and of types that Python has."""
        types = self.types
        known = all(type_.kind in _HELD | _TIMES for type_ in types)
        if not known or self._rows * len(types) > FEW_VALUES:
            return None
        rows = self.fetchall(len(types))
        times = [place for place, type_ in enumerate(types) if type_.kind in _TIMES]
        if not all(_is_exact(row[place]) for row in rows for place in times):
            return None
        return HeldAnswer(self.names, types, rows)

    def fetchall(self, width: int) -> list[Row]:
        return self._read(range(width))

    def column(self, position: int) -> list[Any]:
        return [row[0] for row in self._read([position])]

    def _read(self, positions: Sequence[int]) -> list[Row]:
        self._refuse_many(len(positions))
        types, own = self.types, answer_columns(len(self.names))
        moments = [types[position].kind == _MOMENT for position in positions]
        columns = [
            # As a moment of UTC without saying so: for others DuckDB needs the package pytz.
            sql("CAST({} AS TIMESTAMP)", own[position]) if moment else own[position]
            for position, moment in zip(positions, moments, strict=True)
        ]
        spelled = {
            place: text
            for place, position in enumerate(positions)
            if (text := _spelled(columns[place], types[position])) is not None
        }
        asked = sql("SELECT {} FROM {}", join(", ", (*columns, *spelled.values())), self._table)
        try:
            rows: list[Row] = execute(self._connection.cursor(), asked).fetchall()
        except (duckdb.InvalidInputException, OverflowError, ValueError):
            raise InterfaceError(
                "some values of the answer cannot be shown as Python values",
                code="no_python_value",
                hint="Read the answer with arrow(), or cast the column to VARCHAR in the query. "
                "Nested timestamps with time zone need the package pytz.",
            ) from None
        if spelled:
            rows = [_with_texts(row, len(columns), tuple(spelled)) for row in rows]
        return [_with_zones(row, moments) for row in rows] if any(moments) else rows

    def relation(self, width: int, added: Sequence[AddedColumn] = ()) -> duckdb.DuckDBPyRelation:
        own = zip(answer_columns(width), self.names, strict=False)
        columns = [(i, sql("{} AS {}", c, quoted(name))) for i, (c, name) in enumerate(own)]
        columns += [(column.after, sql("more.{}", quoted(column.name))) for column in added]
        source, lists = self._table, [column.values for column in added]
        if added:
            more = unnest([quoted(column.name) for column in added], [c.type for c in added])
            source = sql("{} POSITIONAL JOIN ({}) more", source, more)
        chosen = [column for _, column in sorted(columns, key=lambda one: one[0])]
        asked = sql("SELECT {} FROM {}", join(", ", chosen), source)
        return relation(self._connection.cursor(), asked, lists)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.names, self.types, self._texts())

    def _texts(self) -> list[list[str | None]]:
        """Spell the values of all columns as texts that stand for them again.

        Raises ``InterfaceError`` for a column of which some do not.
        """
        self._refuse_many(len(self.names))
        columns = []
        own = answer_columns(len(self.names))
        for column, name, type_ in zip(own, self.names, self.types, strict=True):
            asked = sql(
                "SELECT CAST({column} AS VARCHAR), "
                "TRY_CAST(CAST({column} AS VARCHAR) AS {type}) IS NOT DISTINCT FROM {column} "
                "FROM {table}",
                column=column,
                type=type_.sql,
                table=self._table,
            )
            rows = execute(self._connection.cursor(), asked).fetchall()
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


def _restored(
    names: list[str], types: list[SqlType], texts: list[list[str | None]]
) -> StoredAnswer:
    """Store an answer again that was pickled, in a database of its own."""
    cursor, columns, table = isolated().cursor(), answer_columns(len(names)), quoted("answer")
    cast = [
        sql("CAST({column} AS {type}) AS {column}", column=column, type=type_.sql)
        for column, type_ in zip(columns, types, strict=True)
    ]
    source = unnest(columns, [VARCHAR] * len(columns))
    made = sql("CREATE TABLE {} AS SELECT {} FROM ({})", table, join(", ", cast), source)
    execute(cursor, made, texts)
    return StoredAnswer(cursor, table, names, len(texts[0]))


def _spelled(value: Sql, type_: SqlType) -> Sql | None:
    """Write SQL for the text of values that Python would have as others, NULL for all else.

    Python has no infinite moments, of which DuckDB makes the first and the last one that there is,
    and no months in a length of time, of which it makes 30 days each. A struct or a map is one text
    where one may be in it. None for other types.
    """
    if type_.text.endswith("[]"):
        inner = _spelled(quoted("x"), SqlType.of(type_.text.removesuffix("[]")))
        return None if inner is None else sql("[{} FOR x IN {}]", inner, value)
    if type_.kind in _ENDLESS:
        beyond = sql("NOT isfinite({})", value)
    elif type_.kind == _LENGTH:
        beyond = sql("datepart('year', {v}) <> 0 OR datepart('month', {v}) <> 0", v=value)
    elif type_.is_nested and _INSIDE.search(type_.text):
        beyond = sql("regexp_matches(CAST({} AS VARCHAR), 'infinity|month|year')", value)
    else:
        return None
    return sql("CASE WHEN {} THEN CAST({} AS VARCHAR) END", beyond, value)


def _with_texts(row: Row, width: int, places: Sequence[int]) -> Row:
    """Put the texts behind the first ``width`` values of a row in the places of these values."""
    found = list(row[:width])
    for place, text in zip(places, row[width:], strict=True):
        found[place] = _with_text(found[place], text)
    return tuple(found)


def _with_text(value: object, text: object) -> object:
    if isinstance(value, list) and isinstance(text, list):
        return [_with_text(*each) for each in zip(value, text, strict=True)]
    return value if text is None else text


def _with_zones(row: Row, moments: Sequence[bool]) -> Row:
    """Say of the moments in a row that they are in UTC."""
    return tuple(
        value.replace(tzinfo=UTC) if moment and isinstance(value, datetime) else value
        for value, moment in zip(row, moments, strict=True)
    )


def _is_exact(time: object) -> bool:
    """Tell whether Python has a date for this."""
    return time is None or isinstance(time, date)


def unnest(names: Sequence[Sql], types: Sequence[SqlType]) -> Sql:
    """Return the query that gives lists of values, its parameters, as columns of these types."""
    columns = [
        sql("unnest(?::{}[]) AS {}", type_.sql, name)
        for name, type_ in zip(names, types, strict=True)
    ]
    return sql("SELECT {}", join(", ", columns))


def answer_columns(count: int) -> list[Sql]:
    """Return the columns of a stored answer, which are numbered."""
    return [quoted(f"c{place}") for place in range(count)]

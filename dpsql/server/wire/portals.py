"""Prepared statements and portals, which a connection keeps by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from dpsql.core.sql_types import SqlType
from dpsql.results.description import AnswerColumn
from dpsql.results.edition import DataEdition
from dpsql.results.reading import names_of_ends, type_of_ends
from dpsql.results.result import Result
from dpsql.server.wire import messages
from dpsql.server.wire.messages import WireColumn
from dpsql.server.wire.values import (
    BINARY_FORMAT,
    TEXT_FORMAT,
    encoded_column,
    field_of,
    formats_of,
    wire_type,
)
from dpsql.syntax.connection_statements import Copy, Own

_AT_ONCE: Final = 1_000  # rows in one write
_BINARY_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class ToldColumns:
    """The columns of an answer as a client was told them, of an edition of the data."""

    columns: tuple[WireColumn, ...]
    edition: DataEdition
    intervals: bool = False


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A statement as a client has prepared it, with the OIDs of its parameters."""

    text: str
    types: tuple[int, ...]
    own: Own | None
    told: ToldColumns | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.text) + 4 * len(self.types)


@dataclass(slots=True)
class Portal:
    """A statement with its values, and the rows that are left once it was answered."""

    text: str
    values: tuple[object, ...]
    formats: tuple[int, ...]
    own: Own | None = None
    size: int = 0
    told: ToldColumns | None = None
    answer: PortalRows | None = None


class SentRows(Protocol):
    """An answer as it is sent: columns, their types in DuckDB's words, and rows."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def types(self) -> Sequence[str]:
        """The types of the columns."""

    def __len__(self) -> int: ...

    def fetchall(self) -> Sequence[tuple[object, ...]]:
        """Return all rows."""


class RowsWithEnds:
    """An answer with the ends of its 95% intervals, each pair behind its column."""

    def __init__(self, result: Result) -> None:
        self._columns = [[name] for name in result.columns]
        self._types = [[type_] for type_ in result.types]
        values: list[list[Sequence[object]]] = [[] for _ in result.columns]
        for pair in result.ends().values():
            for end in pair:
                self._columns[end.after].append(end.name)
                self._types[end.after].append(str(end.type))
                values[end.after].append(end.values)
        self._rows = [
            tuple(
                each
                for value, ends in zip(row, values, strict=True)
                for each in (value, *(end[place] for end in ends))
            )
            for place, row in enumerate(result.fetchall())
        ]

    @property
    def columns(self) -> Sequence[str]:
        return list(chain.from_iterable(self._columns))

    @property
    def types(self) -> Sequence[str]:
        return list(chain.from_iterable(self._types))

    def __len__(self) -> int:
        return len(self._rows)

    def fetchall(self) -> Sequence[tuple[object, ...]]:
        return self._rows


def columns_with_ends(columns: Sequence[AnswerColumn]) -> tuple[list[str], list[str]]:
    """Return the names and types of columns that an answer will have, with those of ends.

    Of columns with one name, the first has them.
    """
    given = [column.name for column in columns]
    noisy = {given.index(column.name) for column in columns if column.noisy}
    ends = names_of_ends(given, sorted(noisy))
    names, types = list[str](), list[str]()
    for place, column in enumerate(columns):
        both = ends.get(place, ())
        names += [column.name, *both]
        types += [column.type, *(str(type_of_ends(SqlType.of(column.type))) for _ in both)]
    return names, types


class PortalRows:
    """The rows of an answer, encoded as they are fetched."""

    def __init__(self, result: SentRows, formats: Sequence[int]) -> None:
        self.fields = wire_columns(result.columns, result.types)
        self.count = len(result)
        self._rows = result.fetchall()
        self._types = [wire_type(type_) for type_ in result.types]
        self._formats = formats_of(formats, len(self.fields))
        self._at = 0

    @property
    def done(self) -> bool:
        """True once all rows were fetched."""
        return self._at >= self.count

    def description(self) -> bytes:
        """Write the columns."""
        return messages.row_description(self.fields, self._formats)

    def fetch(self, most: int | None) -> tuple[int, Iterator[bytes]]:
        """Take so many of the rows that are left, all if None: their number, and the messages."""
        left = self.count - self._at
        number = left if most is None else min(most, left)
        start, self._at = self._at, self._at + number
        return number, self._written(start, start + number)

    def _written(self, start: int, end: int) -> Iterator[bytes]:
        for first in range(start, end, _AT_ONCE):
            rows = self._rows[first : min(end, first + _AT_ONCE)]
            if not self.fields:
                yield messages.empty_rows(len(rows))
                continue
            columns = zip(*rows, strict=True)
            yield messages.data_rows(
                [
                    encoded_column(values, type_, format_)
                    for values, type_, format_ in zip(
                        columns, self._types, self._formats, strict=True
                    )
                ]
            )


def wire_columns(names: Sequence[str], types: Sequence[str]) -> tuple[WireColumn, ...]:
    """Describe columns of these names, and of these types of DuckDB's."""
    return tuple(field_of(name, type_) for name, type_ in zip(names, types, strict=True))


def copied(result: SentRows, asked: Copy) -> Iterator[bytes]:
    """Write an answer as COPY sends it, without the message before it."""
    types = [wire_type(type_) for type_ in result.types]
    if asked.format == "binary":
        yield from _copied_binary(result, types)
        return
    if asked.header:
        yield messages.copy_data(_line(asked, result.columns))
    for row in result.fetchall():
        texts = [
            None if value is None else type_.text(value).decode()
            for value, type_ in zip(row, types, strict=True)
        ]
        yield messages.copy_data(_line(asked, texts))


def _line(asked: Copy, texts: Sequence[str | None]) -> bytes:
    if asked.format == "text":
        escaped = [
            asked.null if text is None else _escaped(text, asked.delimiter) for text in texts
        ]
        return (asked.delimiter.join(escaped) + "\n").encode()
    cells = [asked.null if text is None else _quoted(text, asked) for text in texts]
    return (asked.delimiter.join(cells) + "\n").encode()


def _quoted(text: str, asked: Copy) -> str:
    """Write a cell of CSV: in quotes where it needs them, or is written as NULL is."""
    if text in (asked.null, "\\.") or any(c in text for c in (asked.delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


_ESCAPES: Final = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


def _escaped(text: str, delimiter: str) -> str:
    return "".join(_ESCAPES.get(c, "\\" + c if c == delimiter else c) for c in text)


def _copied_binary(result: SentRows, types: Sequence[object]) -> Iterator[bytes]:
    """Write the header with the first row, as PostgreSQL does and clients expect."""
    columns = [
        encoded_column(values, wire_type(type_), BINARY_FORMAT)
        for values, type_ in zip(zip(*result.fetchall(), strict=True), result.types, strict=False)
    ]
    before = _BINARY_HEAD
    count = len(types).to_bytes(2)
    for row in zip(*columns, strict=True):
        yield messages.copy_data(before + count + b"".join(row))
        before = b""
    yield messages.copy_data(before + _BINARY_END)


def copy_format(asked: Copy) -> int:
    """Return the format of a COPY, as the protocol numbers it."""
    return BINARY_FORMAT if asked.format == "binary" else TEXT_FORMAT

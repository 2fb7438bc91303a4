"""Data without types of their own, read as their owner has declared them: CSV, JSON, directories.

Neither a name nor a type may follow from a value, and no value may make reading fail. So every
value is read as text, the columns are the declared ones alone, and what does not fit its type is
NULL. A line that cannot be read as a row (of other length, of invalid UTF-8, of no JSON) is one row
at most: no other row depends on it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from dpsql.core.data_files import DataFiles, FileKind
from dpsql.core.declared_types import read_type
from dpsql.core.quoting import INTERNAL_PREFIX, literal, quote
from dpsql.core.schema import Column, fold

FILE: Final = f"{INTERNAL_PREFIX}file"
"""The column in which a reader says which file a row is from."""
_LINE: Final = f"{INTERNAL_PREFIX}line"
_ROW: Final = f"{INTERNAL_PREFIX}row"
_MOST_OF_A_LINE: Final = 16_777_216  # bytes; a longer line is no row
_LIMITS: Final = f"max_line_size={_MOST_OF_A_LINE}, buffer_size={4 * _MOST_OF_A_LINE}"
_NO_DIALECT: Final = "auto_detect=false, header=false, delim='\x01', quote='', escape=''"
_DELIMITERS: Final = (",", ";", "\t", "|")
_BOM: Final = "\ufeff"
_SAMPLE: Final = 20_000
"""Rows that a proposal looks at."""
_DAY: Final = "[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
_GUESSES: Final = {
    "BOOLEAN": "lower({0}) IN ('true', 'false')",
    "BIGINT": "regexp_full_match({0}, '[+-]?[0-9]+') AND TRY_CAST({0} AS BIGINT) IS NOT NULL",
    "DOUBLE": "regexp_full_match({0}, '[0-9.eE+-]+') AND TRY_CAST({0} AS DOUBLE) IS NOT NULL",
    "DATE": f"regexp_full_match({{0}}, '{_DAY}') AND TRY_CAST({{0}} AS DATE) IS NOT NULL",
    "TIMESTAMP": f"regexp_matches({{0}}, '^{_DAY}[T ]') "
    "AND TRY_CAST({0} AS TIMESTAMP) IS NOT NULL",
}
"""Types that a proposal takes for texts that all pass a test, in this order."""


# -- values -----------------------------------------------------------------------------------


def as_declared(text: str, type_: str, nested_is_json: bool = True) -> str:
    """Write the value of a text in a declared type: NULL if it does not fit."""
    declared = read_type(type_)
    assert declared is not None, "types are checked when a policy is read"
    if declared.kind == "VARCHAR":
        return text
    if declared.nested and nested_is_json:
        text = f"TRY_CAST({text} AS JSON)"
    return f"TRY_CAST({text} AS {declared})"


# -- directories named by values ----------------------------------------------------------------


def directory_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """List what directories of these files give values to (``key=value``), folded, each once."""
    parts = (part for path in paths for part in path.split("/")[:-1])
    return tuple(dict.fromkeys(fold(part.partition("=")[0]) for part in parts if "=" in part[1:]))


def from_directory(column: Column) -> str:
    """Write the value that a file's directory gives to a column, which no value makes fail."""
    pattern = f"(?i)/{re.escape(column.name)}=([^/]*)/"
    found = f"regexp_extract({quote(FILE)}, {literal(pattern)}, 1)"
    text = f"TRY(url_decode(nullif(nullif({found}, ''), '__HIVE_DEFAULT_PARTITION__')))"
    return as_declared(text, column.type)


def parquet_query(paths: Sequence[str], given: Sequence[Column] = ()) -> str:
    """Write the query that reads Parquet files, with what directories give to some columns."""
    read = f"read_parquet({_listed(paths)}, hive_partitioning=false"
    if not given:
        return f"SELECT * FROM {read})"
    values = ", ".join(f"{from_directory(column)} AS {quote(column.name)}" for column in given)
    return f"SELECT * EXCLUDE ({quote(FILE)}), {values} FROM {read}, filename={literal(FILE)})"


# -- files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UntypedFiles:
    """CSV or JSON files that are one table, once its columns are declared."""

    files: DataFiles

    @property
    def what(self) -> str:
        """What such data are called in messages."""
        return f"{self.files.kind.name} files"

    def query(self, connection: duckdb.DuckDBPyConnection, columns: Sequence[Column]) -> str:
        """Write the query that reads the files as declared. Raises ``duckdb.Error``."""
        read = _csv if self.files.kind is FileKind.CSV else _json
        parts = list(read(connection, self.files.paths, columns))
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
        return " UNION ALL ".join(parts or [f"SELECT {nothing} WHERE false"])

    def proposed(self, connection: duckdb.DuckDBPyConnection) -> tuple[Column, ...]:
        """Guess names and types from the first rows, for a draft that the owner reads.

        Raises ``duckdb.Error``.
        """
        names = [*self._names(connection), *directory_keys(self.files.paths)]
        first = {fold(name): name for name in reversed(names) if name}
        texts = [Column(name, "VARCHAR") for name in names if first.get(fold(name)) == name]
        texts = list(dict.fromkeys(texts))
        if not texts:
            return ()
        guesses = ", ".join(_guess(quote(column.name)) for column in texts)
        row = connection.execute(
            f"SELECT {guesses} FROM (FROM ({self.query(connection, texts)}) LIMIT {_SAMPLE})"
        ).fetchone()
        assert row is not None
        return tuple(Column(c.name, str(type_)) for c, type_ in zip(texts, row, strict=True))

    def _names(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """List the names of columns in the header of the first file, or the keys of objects."""
        if self.files.kind is FileKind.CSV:
            return list(_widest_header(connection, self.files.paths[0]).names)
        (source, *_) = _objects(connection, self.files.paths)
        rows = connection.execute(
            f"SELECT json_keys(line) FROM (SELECT {_valid(quote(_LINE))} AS line FROM ({source}) "
            f"LIMIT {_SAMPLE}) WHERE json_type(line) = 'OBJECT'"
        ).fetchall()
        return list(dict.fromkeys(key for (keys,) in rows for key in keys))


def _guess(text: str) -> str:
    """Write the type that all of some texts fit."""
    whole = " ".join(
        f"WHEN bool_and({test.format(text)}) FILTER ({text} IS NOT NULL) THEN {literal(type_)}"
        for type_, test in _GUESSES.items()
    )
    return f"CASE {whole} ELSE 'VARCHAR' END"


def _listed(paths: Sequence[str]) -> str:
    return f"[{', '.join(map(literal, paths))}]"


def _selected(columns: Sequence[Column], texts: dict[str, str], keys: Sequence[str]) -> str:
    """Write the declared columns, from the texts of a file or from the names of directories."""
    return ", ".join(f"{_value(c, texts, keys)} AS {quote(c.name)}" for c in columns)


def _value(column: Column, texts: dict[str, str], keys: Sequence[str]) -> str:
    text = texts.get(column.name)
    if text is not None:
        return as_declared(text, column.type)
    if fold(column.name) in keys:
        return from_directory(column)
    return f"CAST(NULL AS {column.type})"


def line_at_start(connection: duckdb.DuckDBPyConnection, path: str) -> str | None:
    """Read the first line of a file, whatever bytes are in it; None if it is empty or too long."""
    row = connection.execute(
        f"SELECT {quote(_LINE)} FROM read_csv({_listed([path])}, {_NO_DIALECT}, {_LIMITS}, "
        f"encoding='latin-1', columns={{{literal(_LINE)}: 'VARCHAR'}}, ignore_errors=true, "
        "strict_mode=false, hive_partitioning=false) LIMIT 1"
    ).fetchone()
    if row is None or row[0] is None:
        return None
    return str(row[0]).encode("latin-1", "replace").decode("utf-8", "replace").lstrip(_BOM)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a CSV file: what separates the names in it, and the names."""

    delimiter: str
    names: tuple[str, ...]

    def position(self, name: str) -> int | None:
        """Find the first column of a name, ignoring ASCII case; None if there is none."""
        folded = fold(name)
        return next((i for i, each in enumerate(self.names) if fold(each) == folded), None)


def header_of(
    connection: duckdb.DuckDBPyConnection, path: str, columns: Sequence[Column]
) -> Header:
    """Read the header of a CSV file.

    It is separated by what finds most of the declared names in it, so that no other line matters.
    """
    headers = _headers(connection, path)
    return max(headers, key=lambda each: sum(each.position(c.name) is not None for c in columns))


def _widest_header(connection: duckdb.DuckDBPyConnection, path: str) -> Header:
    """Read the header of a CSV file of which nothing is declared: as that of most names."""
    return max(_headers(connection, path), key=lambda header: len(header.names))


def _headers(connection: duckdb.DuckDBPyConnection, path: str) -> list[Header]:
    """Read the first line of a CSV file with each delimiter that it may have."""
    line = line_at_start(connection, path) or ""
    tab = re.search(r"\.tsv(\.\w+)?$", path.lower()) is not None
    return [
        Header(each, tuple(name.strip() for name in _split(line, each)))
        for each in (("\t",) if tab else _DELIMITERS)
    ]


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:
        return []


def _csv(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> Iterator[str]:
    """Write a query for the files of each header. Those with none of the names have no rows."""
    alike: dict[Header, list[str]] = {}
    for path in paths:
        alike.setdefault(header_of(connection, path, columns), []).append(path)
    for header, files in alike.items():
        found = {c.name: header.position(c.name) for c in columns}
        texts = {name: quote(f"c{at}") for name, at in found.items() if at is not None}
        if not texts:
            continue
        read = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(len(header.names)))
        yield (
            f"SELECT {_selected(columns, texts, directory_keys(files))} FROM read_csv("
            f"{_listed(files)}, auto_detect=false, header=true, delim={literal(header.delimiter)}, "
            f"quote='\"', escape='\"', columns={{{read}}}, ignore_errors=true, strict_mode=false, "
            f"{_LIMITS}, hive_partitioning=false, filename={literal(FILE)})"
        )


def _json(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> Iterator[str]:
    """Write the queries that read the declared keys of objects."""
    pointers = ", ".join(literal("/" + _escaped(c.name)) for c in columns)
    keys = directory_keys(paths)
    texts = {
        c.name: f"{quote(_ROW)}[{i}]"
        for i, c in enumerate(columns, start=1)
        if fold(c.name) not in keys
    }
    for source in _objects(connection, paths):
        yield (
            f"SELECT {_selected(columns, texts, keys)} FROM (SELECT {quote(FILE)}, "
            f"json_extract_string({_valid(quote(_LINE))}, [{pointers}]) AS {quote(_ROW)} "
            f"FROM ({source}))"
        )


def _objects(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Iterator[str]:
    """Write the queries that read each object as a text: those of lines, those of arrays."""
    arrays = [path for path in paths if _is_array(connection, path)]
    lines = [path for path in paths if path not in set(arrays)]
    if lines:
        yield (
            f"SELECT {quote(_LINE)}, {quote(FILE)} FROM read_csv({_listed(lines)}, {_NO_DIALECT}, "
            f"{_LIMITS}, columns={{{literal(_LINE)}: 'VARCHAR'}}, ignore_errors=true, "
            f"strict_mode=false, hive_partitioning=false, filename={literal(FILE)})"
        )
    if arrays:
        yield (
            f"SELECT unnest(json_extract({_valid('content')}, '$[*]')) AS {quote(_LINE)}, "
            f"{quote(FILE)} FROM (SELECT TRY(decode(content)) AS content, filename AS "
            f"{quote(FILE)} FROM read_blob({_listed(arrays)}))"
        )


def _valid(text: str) -> str:
    return f"CASE WHEN json_valid({text}) THEN {text} END"


def _escaped(key: str) -> str:
    """Write a key as JSON pointers have it."""
    return key.replace("~", "~0").replace("/", "~1")


def _is_array(connection: duckdb.DuckDBPyConnection, path: str) -> bool:
    """Tell whether a file is one array of objects: it begins with its bracket."""
    if not path.lower().endswith(".json"):
        return False
    line = line_at_start(connection, path)
    return line is None or line.lstrip().startswith("[")

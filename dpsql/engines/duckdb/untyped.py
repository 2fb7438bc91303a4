"""Data without types of their own, read as their owner has declared them: CSV, JSON, directories.

Neither a name nor a type may follow from a value, and no value may make reading fail. So every
value is read as text, the columns are the declared ones alone, and what does not fit its type is
NULL. A line that cannot be read as a row (of other length, of invalid UTF-8, of no JSON) is one row
at most: no other row depends on it.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import duckdb

from dpsql.core.data_files import DataFiles, FileKind
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, fold
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, DATE, VARCHAR, SqlType
from dpsql.engines.embedded.running import execute

FILE: Final = f"{INTERNAL_PREFIX}file"
"""The reader's column with the file of each row."""
_LINE: Final = f"{INTERNAL_PREFIX}line"
_ROW: Final = f"{INTERNAL_PREFIX}row"
_MOST_OF_A_LINE: Final = 16_777_216  # bytes; a longer line is no row
_BLOCK: Final = 65_536  # bytes that are read at a time until a line ends
_JSON_TEXT: Final = f"{INTERNAL_PREFIX}readable_json"
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_MOST_OF_AN_ARRAY: Final = 1 << 30  # bytes; a larger file is read by lines
_SIZES: Final = sql(
    "max_line_size={}, buffer_size={}, strict_mode=false, hive_partitioning=false",
    _MOST_OF_A_LINE,
    4 * _MOST_OF_A_LINE,
)
_LIMITS: Final = sql("{}, ignore_errors=true", _SIZES)
_UNREADABLE_LINE: Final = re.compile(r"Invalid Input Error: CSV Error on Line: (?P<number>\d+)\b")
"""How DuckDB begins to tell of the first line that it cannot read."""
_NO_DIALECT: Final = sql(
    "auto_detect=false, header=false, delim={}, quote='', escape=''", literal("\x01")
)
_DELIMITERS: Final = (",", ";", "\t", "|")
_TOLD: Final = sql(", store_rejects=true, rejects_limit=100000")
_BOM: Final = "\ufeff"
_SAMPLE: Final = 20_000
"""Rows that a proposal looks at."""
_GUESSES: Final = {
    "BOOLEAN": "lower({text}) IN ('true', 'false')",
    "BIGINT": "regexp_full_match({text}, '[+-]?[0-9]+') AND TRY_CAST({text} AS BIGINT) IS NOT NULL",
    "DOUBLE": "regexp_full_match({text}, '[0-9.eE+-]+') AND TRY_CAST({text} AS DOUBLE) IS NOT NULL",
    "DATE": "regexp_full_match({text}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}') "
    "AND TRY_CAST({text} AS DATE) IS NOT NULL",
    "TIMESTAMP": "regexp_matches({text}, '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]') "
    "AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL",
}
"""Types that a proposal takes for texts that all pass a test, in this order."""


# -- values -----------------------------------------------------------------------------------


def as_declared(text: Sql, type_: SqlType, nested_is_json: bool = True) -> Sql:
    """Write the value of a text in a declared type: NULL if it does not fit."""
    assert type_.declared is not None, "types are checked when a policy is read"
    if type_.kind == "VARCHAR":
        return text
    if type_.is_nested and nested_is_json:
        text = sql("TRY_CAST({} AS JSON)", text)
    return sql("TRY_CAST({} AS {})", text, type_.declared.sql)


# -- directories named by values ----------------------------------------------------------------


def directory_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """List the columns named by directories of these files (``key=value``), folded, each once."""
    parts = (part for path in paths for part in path.split("/")[:-1])
    return tuple(dict.fromkeys(fold(part.partition("=")[0]) for part in parts if "=" in part[1:]))


def directory_types(paths: Sequence[str]) -> tuple[Column, ...]:
    """Guess the types of columns named by directories, for a draft that the owner reads."""
    values: dict[str, list[str]] = {}
    for path in paths:
        for part in path.split("/")[:-1]:
            key, given, value = part.partition("=")
            if key and given:
                values.setdefault(fold(key), []).append(value)
    return tuple(Column(key, _type_of_all(found)) for key, found in values.items())


def _type_of_all(texts: Sequence[str]) -> SqlType:
    if all(re.fullmatch(r"-?\d{1,18}", text) for text in texts):
        return BIGINT
    return DATE if all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts) else VARCHAR


def from_directory(column: Column) -> Sql:
    """Write the value that a file's directory gives to a column; no name makes it fail."""
    pattern = f"(?i)/{re.escape(column.name)}=([^/]*)/"
    found = sql("regexp_extract({}, {}, 1)", quoted(FILE), literal(pattern))
    text = sql("TRY(url_decode(nullif(nullif({}, ''), '__HIVE_DEFAULT_PARTITION__')))", found)
    return as_declared(text, column.type)


def parquet_query(paths: Sequence[str], given: Sequence[Column] = ()) -> Sql:
    """Write the query that reads Parquet files, with columns named by directories.

    Statistics of a file may leave out NaN. By them DuckDB passes over rows that a condition holds
    for, unless other rows make it read the file: one unit would decide whether others are counted.
    """
    read = sql("{}, hive_partitioning=false, can_have_nan=true", _listed(paths))
    if not given:
        return sql("SELECT * FROM read_parquet({})", read)
    values = (sql("{} AS {}", from_directory(c), quoted(c.name)) for c in given)
    return sql(
        "SELECT * EXCLUDE ({}), {} FROM read_parquet({}, filename={})",
        quoted(FILE),
        join(", ", values),
        read,
        literal(FILE),
    )


# -- files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UntypedFiles:
    """CSV or JSON files that are one table, once its columns are declared."""

    files: DataFiles

    @property
    def what(self) -> str:
        """The name of such data in messages."""
        return f"{self.files.kind.name} files"

    @property
    def is_csv(self) -> bool:
        """True for lines of fields below a header, False for JSON."""
        return self.files.kind is FileKind.CSV

    def query(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: Sequence[Column],
        *,
        tells_rejected: bool = False,
    ) -> Sql:
        """Write the query that reads the files as declared. Raises ``duckdb.Error``.

        With ``tells_rejected`` DuckDB lists lines of CSV that are no rows in ``reject_errors``.
        """
        paths = self.files.paths
        if self.is_csv:
            parts = list(_csv(connection, paths, columns, tells_rejected))
        else:
            parts = list(_json(connection, paths, columns))
        nothing = (sql("{} AS {}", _null(c), quoted(c.name)) for c in columns)
        return join(" UNION ALL ", parts or [sql("SELECT {} WHERE false", join(", ", nothing))])

    def beyond(
        self, connection: duckdb.DuckDBPyConnection, columns: Sequence[Column]
    ) -> Iterator[Sql]:
        """Write the queries that count lines of CSV with more fields than their header has names.

        Raises ``duckdb.Error``.
        """
        for header, files in _alike(connection, self.files.paths, columns).items():
            size = len(header.names)
            yield sql(
                "SELECT count({}) FROM read_csv({}, {}, {}, null_padding=true, parallel=false)",
                quoted(f"c{size}"),
                _listed(files),
                _fields(header, size + 1),
                _LIMITS,
            )

    def proposed(self, connection: duckdb.DuckDBPyConnection) -> tuple[Column, ...]:
        """Guess names and types from the first rows, for a draft that the owner reads.

        Raises ``duckdb.Error``.
        """
        names = [*self._names(connection), *directory_keys(self.files.paths)]
        first = {fold(name): name for name in reversed(names) if name}
        texts = [Column(name, VARCHAR) for name in names if first.get(fold(name)) == name]
        texts = list(dict.fromkeys(texts))
        if not texts:
            return ()
        guesses = join(", ", (_guess(quoted(column.name)) for column in texts))
        some = sql("FROM ({}) LIMIT {}", self.query(connection, texts), _SAMPLE)
        row = execute(connection, sql("SELECT {} FROM ({})", guesses, some)).fetchone()
        assert row is not None
        return tuple(
            Column(c.name, SqlType.of(str(type_))) for c, type_ in zip(texts, row, strict=True)
        )

    def _names(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """List the names of columns in the header of the first file, or the keys of objects."""
        if self.files.kind is FileKind.CSV:
            return list(_widest_header(connection, self.files.paths[0]).names)
        (source, *_) = _objects(connection, self.files.paths)
        lines = sql("SELECT {} AS line FROM ({}) LIMIT {}", _valid(quoted(_LINE)), source, _SAMPLE)
        asked = sql("SELECT json_keys(line) FROM ({}) WHERE json_type(line) = 'OBJECT'", lines)
        rows = execute(connection, asked).fetchall()
        return list(dict.fromkeys(key for (keys,) in rows for key in keys))


def _guess(text: Sql) -> Sql:
    """Write the type that all of some texts fit."""
    whole = (
        sql(
            "WHEN bool_and({}) FILTER ({} IS NOT NULL) THEN {}",
            sql(test, text=text),
            text,
            literal(type_),
        )
        for type_, test in _GUESSES.items()
    )
    return sql("CASE {} ELSE 'VARCHAR' END", join(" ", whole))


def _listed(paths: Sequence[str]) -> Sql:
    return sql("[{}]", join(", ", map(literal, paths)))


def _null(column: Column) -> Sql:
    return sql("CAST(NULL AS {})", column.type.sql)


def _selected(columns: Sequence[Column], texts: dict[str, Sql], keys: Sequence[str]) -> Sql:
    """Write the declared columns, from the texts of a file or from the names of directories."""
    values = (sql("{} AS {}", _value(c, texts, keys), quoted(c.name)) for c in columns)
    return join(", ", values)


def _value(column: Column, texts: dict[str, Sql], keys: Sequence[str]) -> Sql:
    text = texts.get(column.name)
    if text is not None:
        return as_declared(text, column.type)
    if fold(column.name) in keys:
        return from_directory(column)
    return _null(column)


def line_at_start(connection: duckdb.DuckDBPyConnection, path: str) -> str | None:
    """Read the first line of a file as bytes allow; None for none, or one that cannot be read.

    No line after it has a part in that. Files that this process can read are read by it, others
    by DuckDB.
    """
    lowered = path.lower()
    if not lowered.endswith(".zst") and Path(path).is_file():
        opened = gzip.open if lowered.endswith(".gz") else open
        try:
            with opened(path, "rb") as file:
                return _first_line(file)
        except (OSError, EOFError, zlib.error):  # damaged, or gone: whoever loads it says so
            return None
    return _first_line_by_duckdb(connection, path)


def _first_line_by_duckdb(connection: duckdb.DuckDBPyConnection, path: str) -> str | None:
    """Read the first line of a file by DuckDB; None for one that is not UTF-8, or too long.

    Where DuckDB passes over lines that it cannot read, the first row may be of any line: a value
    would be the name of a column. Told to pass over none, it says which line is the first of them.
    """
    try:
        rows = execute(connection, _lines_at_start(path, passes_over=False)).fetchall()
    except duckdb.InvalidInputException as error:
        unreadable = _UNREADABLE_LINE.match(str(error))
        if unreadable is None or int(unreadable["number"]) == 1:
            return None
        rows = execute(connection, _lines_at_start(path, passes_over=True)).fetchall()
    return None if not rows or rows[0][0] is None else str(rows[0][0]).lstrip(_BOM)


def _lines_at_start(path: str, passes_over: bool) -> Sql:
    return sql(
        "SELECT {} FROM read_csv({}, {}, {}, {}, parallel=false, columns={{{}: 'VARCHAR'}}) "
        "LIMIT 1",
        quoted(_LINE),
        _listed([path]),
        _NO_DIALECT,
        _SIZES,
        sql("ignore_errors=true") if passes_over else sql("ignore_errors=false"),
        literal(_LINE),
    )


class _Bytes(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


def _first_line(file: _Bytes) -> str | None:
    line = bytearray()
    while len(line) <= _MOST_OF_A_LINE:
        block = file.read(_BLOCK)
        line += block
        ended = re.search(rb"[\r\n]", line)
        if ended is not None or not block:
            text = bytes(line[: ended.start()] if ended else line).decode("utf-8", "replace")
            return text.lstrip(_BOM) or None
    return None


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a CSV file: its delimiter and names."""

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
    """Read the header of a CSV file without declared columns: the candidate with most names."""
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
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[str],
    columns: Sequence[Column],
    tells_rejected: bool,
) -> Iterator[Sql]:
    """Write a query for the files of each header. Those with none of the names have no rows."""
    for header, files in _alike(connection, paths, columns).items():
        found = {c.name: header.position(c.name) for c in columns}
        texts = {name: quoted(f"c{at}") for name, at in found.items() if at is not None}
        if not texts:
            continue
        yield sql(
            "SELECT {} FROM read_csv({}, {}, {}, filename={}{})",
            _selected(columns, texts, directory_keys(files)),
            _listed(files),
            _fields(header, len(header.names)),
            _LIMITS,
            literal(FILE),
            _TOLD if tells_rejected else sql(""),
        )


def _alike(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> dict[Header, list[str]]:
    """Group CSV files by their headers."""
    alike: dict[Header, list[str]] = {}
    for path in paths:
        alike.setdefault(header_of(connection, path, columns), []).append(path)
    return alike


def _fields(header: Header, count: int) -> Sql:
    """Write how lines below a header are read, as so many texts c0, c1, ..."""
    read = (sql("{}: 'VARCHAR'", literal(f"c{at}")) for at in range(count))
    return sql(
        "auto_detect=false, header=true, delim={}, quote='\"', escape='\"', columns={{{}}}",
        literal(header.delimiter),
        join(", ", read),
    )


def _json(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> Iterator[Sql]:
    """Write the queries that read the declared keys of objects."""
    pointers = join(", ", (pointer_to(c.name) for c in columns))
    keys = directory_keys(paths)
    texts = {
        c.name: sql("{}[{}]", quoted(_ROW), i)
        for i, c in enumerate(columns, start=1)
        if fold(c.name) not in keys
    }
    for source in _objects(connection, paths):
        found = sql("json_extract_string({}, [{}])", _valid(quoted(_LINE)), pointers)
        rows = sql("SELECT {}, {} AS {} FROM ({})", quoted(FILE), found, quoted(_ROW), source)
        yield sql("SELECT {} FROM ({})", _selected(columns, texts, keys), rows)


def _objects(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Iterator[Sql]:
    """Write the queries that read JSON objects as texts, from lines and from arrays."""
    arrays = [path for path in paths if _is_array(connection, path)]
    lines = [path for path in paths if path not in set(arrays)]
    if lines:
        yield sql(
            "SELECT {line}, {file} FROM read_csv({}, {}, {}, columns={{{}: 'VARCHAR'}}, "
            "filename={})",
            _listed(lines),
            _NO_DIALECT,
            _LIMITS,
            literal(_LINE),
            literal(FILE),
            line=quoted(_LINE),
            file=quoted(FILE),
        )
    if arrays:
        yield sql(
            "SELECT unnest(json_extract({}, '$[*]')) AS {}, {} FROM ({})",
            _valid(sql("content")),
            quoted(_LINE),
            quoted(FILE),
            _contents(connection, arrays),
        )


def _contents(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Sql:
    """Write the query that reads whole files as JSON, whatever characters stand in a value."""
    known = sql("SELECT 1 FROM duckdb_functions() WHERE function_name = {}", literal(_JSON_TEXT))
    if not execute(connection, known).fetchall():
        connection.create_function(_JSON_TEXT, readable_json, ["BLOB"], "VARCHAR")
    decoded = sql(
        "SELECT TRY(decode(content)) AS decoded, content, filename FROM read_blob({})",
        _listed(paths),
    )
    return sql(
        "SELECT CASE WHEN json_valid(decoded) THEN decoded ELSE {}(content) END AS content, "
        "filename AS {} FROM ({})",
        quoted(_JSON_TEXT),
        quoted(FILE),
        decoded,
    )


def readable_json(content: bytes) -> str:
    """Read JSON as a text, with U+FFFD for bytes that are no UTF-8 and halves of characters.

    Python writes such halves, and DuckDB takes no JSON with one: a value in one row would decide
    whether there are others.
    """
    text = content.decode("utf-8", "replace").lstrip(_BOM)
    return _ESCAPE.sub(lambda found: "\ufffd" if found["half"] else found[0], text)


def objects_of(connection: duckdb.DuckDBPyConnection, files: UntypedFiles) -> Sql:
    """Write the query that reads each object of JSON files, NULL where there is none."""
    lines = (
        sql("SELECT {} AS object FROM ({})", _valid(quoted(_LINE)), source)
        for source in _objects(connection, files.files.paths)
    )
    return join(" UNION ALL ", lines)


def _valid(text: Sql) -> Sql:
    return sql("CASE WHEN json_valid({text}) THEN {text} END", text=text)


def pointer_to(key: str) -> Sql:
    """Write where a key of an object is, as JSON pointers say it."""
    return literal("/" + key.replace("~", "~0").replace("/", "~1"))


def _is_array(connection: duckdb.DuckDBPyConnection, path: str) -> bool:
    """Tell whether a JSON file is a single array of objects, and not lines of arrays.

    One row says nothing of it: the file as a whole is an array, or it is read by lines.
    """
    if not path.lower().endswith(".json"):
        return False
    line = line_at_start(connection, path)
    if line is not None and not line.lstrip().startswith("["):
        return False
    sized = sql("SELECT size FROM read_blob({})", _listed([path]))
    sizes = execute(connection, sized).fetchall()
    if not sizes or sizes[0][0] > _MOST_OF_AN_ARRAY:
        return False
    whole = _contents(connection, [path])
    kind = sql("SELECT json_type({}) FROM ({})", _valid(sql("content")), whole)
    return execute(connection, kind).fetchall() == [("ARRAY",)]

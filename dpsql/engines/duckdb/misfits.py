"""Finds values in files without types that do not fit their declarations, for ``dpsql check``.

Reading goes on whatever rows hold: what does not fit is NULL, and a line that is no row is left
out. So nobody would notice a type that fits no value, or a name that no file has. The owner is told
how many there are, and nothing of this has a way to analysts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import duckdb

from dpsql.core.schema import Column, fold
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import VARCHAR, SqlType
from dpsql.engines.base.engine import Misfit
from dpsql.engines.duckdb.untyped import (
    UntypedFiles,
    as_declared,
    directory_keys,
    header_of,
    objects_of,
    pointer_to,
)
from dpsql.engines.embedded.running import execute

_REJECTED: Final = {
    "MISSING COLUMNS": "with too few fields",
    "TOO MANY COLUMNS": "with too many fields",
    "INVALID ENCODING": "of invalid UTF-8",
    "LINE SIZE OVER MAXIMUM": "of more than 16 MB",
    "UNQUOTED VALUE": "with a quote that nothing closes",
}
_WRITE_AGAIN: Final = "Write the file again, if they should be rows."
_OTHER_TYPE: Final = "Declare another type if they should be values: VARCHAR takes them all."
_SPELLINGS: Final = (
    (("DECIMAL", "DOUBLE", "FLOAT"), "Numbers have a point, and nothing between thousands"),
    (("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), "Dates are written 2024-12-31"),
)
_NESTED: Final = (
    "One value can be written in several ways, so it is no privacy unit, and analysts cannot ask "
    "for its parts. Write the file again with a column for each part that they need."
)


def misfits(
    connection: duckdb.DuckDBPyConnection, files: UntypedFiles, columns: Sequence[Column]
) -> Iterator[Misfit]:
    """Yield the differences from the declaration: names, values, lines. Reads all files once."""
    if files.is_csv:
        yield from _names(connection, files, columns)
    texts = [Column(column.name, VARCHAR) for column in columns]
    for table in ("reject_errors", "reject_scans"):
        execute(connection, sql("DROP TABLE IF EXISTS {}", quoted(table)))
    counts: list[Sql] = []
    for column in columns:
        text = quoted(column.name)
        lost = sql("count({}) - count({})", text, as_declared(text, column.type))
        zeros = sql("count(*) FILTER (contains({}, chr(0)))", text)
        counts += [lost, zeros]
    rows = files.query(connection, texts, tells_rejected=True)
    # All of it: what was rejected is listed once a statement has come to its end.
    (found,) = execute(connection, sql("SELECT {} FROM ({})", join(", ", counts), rows)).fetchall()
    for column, lost_values, zero_values in zip(columns, found[::2], found[1::2], strict=True):
        yield from _of_values(column, lost_values, zero_values)
    if files.is_csv:
        yield from _of_lines(connection)
        yield from _of_long_lines(connection, files, columns)
    else:
        yield from _of_nested(connection, files, columns)
        yield from _of_objects(connection, files)


def _names(
    connection: duckdb.DuckDBPyConnection, files: UntypedFiles, columns: Sequence[Column]
) -> Iterator[Misfit]:
    paths = files.files.paths
    headers = [header_of(connection, path, columns) for path in paths]
    keys = directory_keys(paths)
    for column in columns:
        missing = sum(header.position(column.name) is None for header in headers)
        if not missing or fold(column.name) in keys:
            continue
        everywhere = missing == len(headers)
        where = (
            "no header has it" if everywhere else f"{missing} of {len(headers)} headers have it not"
        )
        yield Misfit(
            column.name,
            f"{where}: it is NULL there",
            "Write the names of columns into the first line of each file, in UTF-8, or correct "
            "the name.",
            wrong=everywhere,
        )


def _of_values(column: Column, lost: int, zeros: int) -> Iterator[Misfit]:
    if lost:
        yield Misfit(
            column.name,
            f"values of {_several(lost, 'row')} do not fit {column.type}, and are NULL",
            _how_to_write(column.type),
        )
    if zeros:
        yield Misfit(
            column.name,
            f"values of {_several(zeros, 'row')} have a NUL character in them",
            "Texts with and without them differ. Write the file again if they should not be.",
        )


def _how_to_write(type_: SqlType) -> str:
    known = (how for types, how in _SPELLINGS if type_.kind in types)
    return " ".join((*(f"{how}." for how in known), _OTHER_TYPE))


def _of_lines(connection: duckdb.DuckDBPyConnection) -> Iterator[Misfit]:
    rejected = sql(
        "SELECT error_type::VARCHAR, count(DISTINCT (file_id, line)) FROM reject_errors "
        "GROUP BY ALL ORDER BY ALL"
    )
    with suppress(duckdb.CatalogException):  # there was no file with rows
        for kind, lines in execute(connection, rejected).fetchall():
            what = _REJECTED.get(kind, "that cannot be read")
            count = _several(lines, "line")
            yield Misfit(None, f"no rows are made of {count} {what}", _WRITE_AGAIN)


def _of_long_lines(
    connection: duckdb.DuckDBPyConnection, files: UntypedFiles, columns: Sequence[Column]
) -> Iterator[Misfit]:
    """Yield how many rows are the first fields of lines that have more of them than the header."""
    counts = [
        execute(connection, query).fetchall()[0][0] for query in files.beyond(connection, columns)
    ]
    if sum(counts):
        yield Misfit(
            None,
            f"what {_several(sum(counts), 'line')} have beyond the names of the header is left out",
            "A character that separates fields may stand in one of them: write it in quotes.",
        )


def _of_nested(
    connection: duckdb.DuckDBPyConnection, files: UntypedFiles, columns: Sequence[Column]
) -> Iterator[Misfit]:
    """Yield which columns of texts have objects and arrays of JSON in them."""
    texts = [column for column in columns if column.type.kind == "VARCHAR"]
    pointers = [pointer_to(column.name) for column in texts]
    kinds = (sql("json_type(object, {})", pointer) for pointer in pointers)
    counts = [sql("count(*) FILTER ({} IN ('OBJECT', 'ARRAY'))", kind) for kind in kinds]
    if not counts:
        return
    asked = sql("SELECT {} FROM ({})", join(", ", counts), objects_of(connection, files))
    (found,) = execute(connection, asked).fetchall()
    for column, nested in zip(texts, found, strict=True):
        if nested:
            what = f"values of {_several(nested, 'row')} are nested, and are texts here"
            yield Misfit(column.name, what, _NESTED)


def _of_objects(connection: duckdb.DuckDBPyConnection, files: UntypedFiles) -> Iterator[Misfit]:
    kind = sql("json_type(object)")
    counted = sql(
        "SELECT count(*) - count(*) FILTER ({} = {}) FROM ({})",
        kind,
        literal("OBJECT"),
        objects_of(connection, files),
    )
    row = execute(connection, counted).fetchone()
    assert row is not None
    if row[0]:
        yield Misfit(
            None,
            f"rows that are NULL throughout are made of {_several(row[0], 'line')} that "
            "have no object of JSON",
            _WRITE_AGAIN,
        )


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

"""A DuckDB of our own, with the owner's data attached to it for reading.

Generated SQL must mean the same whatever the owner's file holds: a macro called ``sum``, a type
called ``JSON``, a schema that is searched first. So it runs in a database of ours, in memory, where
the owner's catalog is attached and is not searched for anything. All that SQL finds there are views
of ours: one for each table and view of the owner's, in a schema of the same name, of the columns
and types dpsql knows. Names alone mean our schema ``main`` and no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import duckdb
from duckdb.sqltypes import DuckDBPyType

from dpsql.core.barred import is_barred, may_not_read
from dpsql.core.formatting import printable
from dpsql.core.quoting import INTERNAL_PREFIX, table_sql
from dpsql.core.schema import Column, LeftOut, Remark, Table, fold
from dpsql.core.sql import EMPTY_SQL, Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import UNKNOWN, SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.untyped import as_declared
from dpsql.engines.duckdb.views import DATA, ParquetView, owned, parquet_view
from dpsql.engines.embedded.plans import Plan, plan_of
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.embedded.types import has_enum, is_scalar, plain_type
from dpsql.engines.embedded.versions import IN_USE
from dpsql.engines.evidence.edges import beyond, is_common, is_stored_wider, within
from dpsql.errors import InterfaceError

_HELD = re.compile(r"lock is held in (?P<program>.+?) \(PID (?P<process>\d+)\)")
_TAKEN = re.compile("Could not set lock|already attached")
_RENAME = "Rename it: names that begin with __dpsql_ are those of generated SQL."
# A schema of such a name could not be told from a database of the engine's.
_DATABASES = frozenset({"memory", "system", "temp"})


def ours(temp_directory: str) -> duckdb.DuckDBPyConnection:
    """Open an in-memory database of dpsql's own, with nothing attached yet."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "temp_directory": temp_directory,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # Whoever runs this may have stored some for other purposes.
            "allow_persistent_secrets": "false",
            # A view must not find an object of this process where a table is missing.
            "python_enable_replacements": "false",
        },
    )
    # What commands print is theirs. Some notebooks have no bar, and none that could be set.
    ((shown,),) = execute(
        connection, sql("SELECT current_setting('enable_progress_bar')")
    ).fetchall()
    if shown:
        execute(connection, sql("SET enable_progress_bar = false"))
    return connection


def attached(path: Path | None, temp_directory: str) -> duckdb.DuckDBPyConnection:
    """Open a database of ours with a file attached for reading, or with tables yet to be loaded.

    Raises ``InterfaceError`` if the file is missing, cannot be read, or is being written to.
    """
    source, how = ":memory:", EMPTY_SQL
    if path is not None:
        refuse_missing(path)
        source, how = str(path.absolute()), sql(" (TYPE duckdb, READ_ONLY)")
    connection = ours(temp_directory)
    try:
        execute(connection, sql("ATTACH {} AS {}{}", literal(source), quoted(DATA), how))
    except duckdb.Error as error:
        connection.close()
        refusal = not_attached(path or Path(source), error, "DuckDB database")
    else:
        return connection
    raise refusal


def refuse_missing(path: Path) -> None:
    """Raise ``InterfaceError`` if there is no such file, or none that this user may know of."""
    if is_barred(path):
        raise may_not_read(path)
    if not path.is_file():
        raise InterfaceError(
            f"there is no database file {path}",
            code="database_missing",
            hint="Check the path; dpsql never creates the database it protects.",
        )


def not_attached(path: Path, error: duckdb.Error, what: str) -> InterfaceError:
    """Build the error for a file that could not be attached as ``what`` it should be."""
    if not os.access(path, os.R_OK):
        return may_not_read(path)
    # No row has been read by now, so the text of this error is looked at.
    if isinstance(error, IN_USE) or _TAKEN.search(str(error)):
        return InterfaceError(
            f"{path} is open for writing{_holder(str(error))}",
            code="database_locked",
            hint="DuckDB lets one process write to a file, or several read it. Close the "
            "connection that writes, in this process or in another, or use a copy of the file.",
        )
    return InterfaceError(
        f"{path} cannot be opened as a {what}",
        code="database_unreadable",
        hint="It may be of another format, of another version, or encrypted.",
    )


def _holder(said: str) -> str:
    """Say which process holds a file, as far as the engine knows."""
    found = _HELD.search(said)
    if found is None:
        return ""
    return f" in {printable(Path(found['program']).name)}, process {found['process']}"


@dataclass(frozen=True, slots=True)
class Beyond:
    """A column of moments or decimals, and the condition for values that are none of its type."""

    column: Column
    common: bool
    beyond: Sql


@dataclass(frozen=True, slots=True)
class Published:
    """A table of the owner's as dpsql publishes it, and the query of its view.

    ``bare`` is the same query for a table without values that are none of their types: its columns
    of common types are as they are stored, so that conditions on them narrow down what is read. It
    is empty for a view of the owner's, whose rows are computed. ``rows`` is what both are over.
    """

    table: Table
    query: Sql = EMPTY_SQL
    bare: Sql = EMPTY_SQL
    rows: Sql = EMPTY_SQL
    ends: tuple[Beyond, ...] = ()


ListedViews: TypeAlias = dict[str, ParquetView | Remark | None]
"""The files of each of the owner's views, by key, listed once."""


def publish(
    connection: duckdb.DuckDBPyConnection,
    views: ListedViews | None,
    declared: Mapping[str, tuple[Column, ...]],
) -> tuple[Published, ...]:
    """Make a view of ours for each table and view of the owner's; returns what there is.

    ``views`` is what is known of views, and is added to; None if all of them are ours. ``declared``
    are the columns that a policy gives types to, by the keys of their tables.
    """
    return tuple(
        _published(connection, name, is_view, views, declared.get(name.key, ()))
        for name, is_view in _owned(connection)
    )


def forget(connection: duckdb.DuckDBPyConnection, published: Iterable[Published]) -> None:
    """Drop the views that were made of all tables, so as to know these."""
    for each in published:
        execute(connection, sql("DROP VIEW IF EXISTS {}", _ours(each.table.name)))


def publish_in(connection: duckdb.DuckDBPyConnection, place: str, found: Published) -> None:
    """Make our view of one table in another database of ours.

    Raises ``duckdb.Error`` if the table cannot be read any more.
    """
    schema, own = found.table.name.schema, found.table.name.table
    inside = sql("{}.{}", quoted(place), quoted(schema))
    execute(connection, sql("CREATE SCHEMA IF NOT EXISTS {}", inside))
    common = [ends for ends in found.ends if ends.common]
    bare = found.bare and not any(_has_beyond(connection, found, each) for each in common)
    query = found.bare if bare else found.query
    execute(connection, sql("CREATE VIEW {}.{} AS {}", inside, quoted(own), query))


def _has_beyond(connection: duckdb.DuckDBPyConnection, found: Published, ends: Beyond) -> bool:
    """Tell whether a column has values none of its type; statistics of clean data say so."""
    asked = sql("SELECT true FROM {} WHERE {} LIMIT 1", found.rows, ends.beyond)
    return bool(execute(connection, asked).fetchall())


def count_beyond(
    connection: duckdb.DuckDBPyConnection, found: Published
) -> tuple[tuple[Column, int], ...]:
    """Count the values that are none of their type, in each column with some.

    Raises ``duckdb.Error``.
    """
    counts = [sql("count(*) FILTER ({})", ends.beyond) for ends in found.ends]
    if not counts:
        return ()
    asked = sql("SELECT {} FROM {}", join(", ", counts), found.rows)
    (numbers,) = execute(connection, asked).fetchall()
    pairs = zip(found.ends, numbers, strict=True)
    return tuple((ends.column, number) for ends, number in pairs if number)


def _owned(connection: duckdb.DuckDBPyConnection) -> list[tuple[TableName, bool]]:
    """List the owner's tables and views, by name, with whether it is a view."""
    asked = sql(
        "SELECT table_name, schema_name, false FROM duckdb_tables() "
        "WHERE database_name = {data} UNION ALL "
        "SELECT view_name, schema_name, true FROM duckdb_views() "
        "WHERE database_name = {data} AND NOT internal ORDER BY 1, 2",
        data=literal(DATA),
    )
    rows = execute(connection, asked).fetchall()
    return [(TableName(table, schema), is_view) for table, schema, is_view in rows]


@dataclass(frozen=True, slots=True)
class _Source:
    """A column of the owner's, and its type in the published view (None: it is left out)."""

    name: str
    type: DuckDBPyType
    plain: SqlType | None
    named: bool = False  # by directories, which give it texts

    def selected(self, position: int, bare: bool) -> Sql:
        """Write the column as our view selects it, by its position in the table.

        ``bare``: as it is stored, if its type is a common one.
        """
        value = self._value(position)
        plain = self.plain or UNKNOWN
        if is_stored_wider(plain) and not (bare and is_common(plain)):
            value = within(value, plain)
        return sql("{} AS {}", value, quoted(self.name))

    def beyond(self, position: int) -> Sql:
        """Write the condition that a value of the column is none of its type."""
        return beyond(self._value(position), self.plain or UNKNOWN)

    def _value(self, position: int) -> Sql:
        column, plain = quoted(_place(position)), self.plain or UNKNOWN
        if self.named:
            return as_declared(column, plain)
        same = is_scalar(self.type) and str(self.type) == plain.text
        return column if same else sql("CAST({} AS {})", column, plain.sql)


def _published(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    is_view: bool,
    views: ListedViews | None,
    declared: Sequence[Column],
) -> Published:
    if _is_reserved(name.table) or _is_reserved(name.schema):
        reason = f"has a name that begins with {INTERNAL_PREFIX}, which is reserved"
        return Published(Table(name, (), is_view, Remark(reason, _RENAME)))
    if fold(name.schema) in _DATABASES:
        return Published(Table(name, (), is_view, _NAMED_LIKE_DATABASE))
    try:
        if is_view and views is not None and name.key not in views:
            views[name.key] = _files_of(connection, name)
        files = None if views is None else views.get(name.key)
        over = files if isinstance(files, ParquetView) else None
        sources = _sources(connection, name, over, declared)
        used = [(i, source) for i, source in enumerate(sources) if source.plain is not None]
        if not used:
            return Published(Table(name, (), is_view, _NO_COLUMN, tuple(_left_out(sources))))
        rows = _rows_of(name, sources, over)
        query, bare = (_view_query(used, rows, bare=bare) for bare in (False, True))
        execute(connection, sql("CREATE SCHEMA IF NOT EXISTS memory.{}", quoted(name.schema)))
        execute(connection, sql("CREATE OR REPLACE VIEW {} AS {}", _ours(name), query))
        columns = tuple(
            replace(column, enumerated=has_enum(source.type))
            for column, (_, source) in zip(_columns(connection, name), used, strict=True)
        )
    except duckdb.Error:
        return Published(Table(name, (), is_view, _DOES_NOT_BIND))
    table = Table(name, columns, is_view, None, tuple(_left_out(sources)))
    ends = tuple(
        Beyond(Column(each.name, each.plain), is_common(each.plain), each.beyond(position))
        for position, each in used
        if each.plain is not None and is_stored_wider(each.plain)
    )
    computed = is_view and views is not None and over is None
    return Published(table, query, EMPTY_SQL if computed else bare, rows, ends)


def _ours(name: TableName) -> Sql:
    """Write the name of our view of a table, while all tables have one."""
    return sql("memory.{}.{}", quoted(name.schema), quoted(name.table))


_NO_COLUMN = Remark("has no column that dpsql can read", "Leave it out of the policy.")
_NAMED_LIKE_DATABASE = Remark(
    "is in a schema that is called like a database of the engine's own", "Rename that schema."
)
_DOES_NOT_BIND = Remark(
    "cannot be read: a table or file of its definition does not exist, or cannot be reached",
    "Look at its definition. A view may use tables of its own database file alone, and nothing "
    "that only one connection has, such as sequences, variables or extensions.",
)


def _files_of(
    connection: duckdb.DuckDBPyConnection, name: TableName
) -> ParquetView | Remark | None:
    """List the files of a view whose plan cannot be read; None where it can."""
    if plan_of(connection, sql("SELECT * FROM {}", owned(name))) is not None:
        return None
    return parquet_view(connection, name)


def _sources(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    over: ParquetView | None,
    declared: Sequence[Column],
) -> list[_Source]:
    found = relation(connection, sql("SELECT * FROM {}", owned(name)))
    if over is None:
        return [
            _Source(column, type_, None if _is_reserved(column) else plain_type(type_))
            for column, type_ in zip(found.columns, found.types, strict=True)
        ]
    types = {fold(column.name): column.type for column in declared}
    listed = relation(connection, over.query)
    if len(listed.columns) != len(found.columns):
        raise duckdb.BinderException("the view has columns of files that are no more")
    return [
        _Source(column, type_, types.get(fold(column)), named=True)
        if fold(inner) in over.directories
        else _Source(column, type_, None if _is_reserved(column) else plain_type(type_))
        for column, inner, type_ in zip(found.columns, listed.columns, listed.types, strict=True)
    ]


def _rows_of(name: TableName, sources: Sequence[_Source], over: ParquetView | None) -> Sql:
    """Write the source of dpsql's view.

    Columns are named by position, so that no name of the owner's means another.
    """
    places = join(", ", (quoted(_place(position)) for position in range(len(sources))))
    source = owned(name) if over is None else sql("({})", over.query)
    return sql("{} AS {}({})", source, quoted(DATA), places)


def _view_query(used: Sequence[tuple[int, _Source]], rows: Sql, *, bare: bool) -> Sql:
    """Write the query of our view."""
    selected = join(", ", (each.selected(position, bare) for position, each in used))
    return sql("SELECT {} FROM {}", selected, rows)


def _columns(connection: duckdb.DuckDBPyConnection, name: TableName) -> tuple[Column, ...]:
    """Return the columns of our view as the engine understands it."""
    rows = sql("SELECT * FROM {}", table_sql(name))
    found = relation(connection, rows)
    collated = _collated(plan_of(connection, rows), len(found.columns))
    return tuple(
        Column(column, SqlType.of(str(type_)), doubtful)
        for column, type_, doubtful in zip(found.columns, found.types, collated, strict=True)
    )


def _collated(plan: Plan | None, columns: int) -> list[bool]:
    """Tell which columns of a plan have a collation. What has no plan has none: it is files."""
    return [False] * columns if plan is None else list(plan.collated)


def _left_out(sources: Sequence[_Source]) -> Iterator[LeftOut]:
    for source in sources:
        if source.plain is None:
            reason = "dpsql does not know its type"
            if source.named:
                reason = "directories name it (key=value), and the policy declares no type of it"
            elif _is_reserved(source.name):
                reason = "its name is reserved"
            yield LeftOut(source.name, reason)


def _is_reserved(name: str) -> bool:
    return fold(name).startswith(INTERNAL_PREFIX)


def _place(position: int) -> str:
    return f"{INTERNAL_PREFIX}{position}"

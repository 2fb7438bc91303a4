"""A room for the catalogs: a database in memory without a row of the data.

What tools ask of it is arbitrary SQL. So it is locked as the rooms of tails are, has little memory
and little time, and takes queries alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import duckdb

from dpsql.core.quoting import table_sql
from dpsql.core.schema import Schema
from dpsql.core.sql import Sql, Written, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import execute, relation
from dpsql.errors import Error, NotSupportedError
from dpsql.policy.model import Policy
from dpsql.server.catalog.macros import MACROS
from dpsql.server.catalog.rows import catalog_rows
from dpsql.server.catalog.structure import PG_CATALOG, CatalogColumn, CatalogRow, Structure
from dpsql.syntax.catalog_spelling import INFORMATION_ROOM, PG_ROOM

CATALOG_MEMORY: Final = "256MB"
CATALOG_SECONDS: Final = 5.0
MOST_CATALOG_ROWS: Final = 100_000
_MOST_KNOWN: Final = 500
_EMPTY: Final = {"BOOLEAN": False, "VARCHAR": ""}
_NUMBERS: Final = frozenset({"BIGINT", "INTEGER", "SMALLINT", "FLOAT", "DOUBLE"})
_OPTIONAL: Final = frozenset(
    {"text", "pg_node_tree", "varchar", "timestamptz", "bytea", "interval", "inet"}
)
_FORMATS: Final = (CatalogColumn("oid", "oid"), CatalogColumn("written", "text"))
_KEYWORDS: Final = tuple(CatalogColumn(n, "text") for n in ("word", "catcode", "catdesc"))


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """The rows of a query over catalogs, with names and types of its columns."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[CatalogRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def fetchall(self) -> list[CatalogRow]:
        """Return all rows."""
        return list(self.rows)


class CatalogRoom:
    """The catalogs of one view of a policy. Safe for threads."""

    def __init__(self, structure: Structure, policy: Policy, schema: Schema) -> None:
        self._database = isolated(memory=CATALOG_MEMORY)
        self._lock = threading.Lock()
        self._known: dict[str, CatalogAnswer] = {}  # descriptions, by respelled queries
        self._fill(structure, policy, schema)

    def _fill(self, structure: Structure, policy: Policy, schema: Schema) -> None:
        """Create all relations and macros, and insert the rows column by column."""
        here = self._database
        execute(here, sql("BEGIN"))
        for room in (PG_ROOM, INFORMATION_ROOM):
            execute(here, sql("CREATE SCHEMA {}", name(room)))
        known = catalog_rows(structure, policy, schema)
        for (schema_name, relation_name), columns in structure.relations.items():
            table = _table(schema_name, relation_name)
            execute(here, _created(table, columns))
            rows = [*structure.rows.get(relation_name, ())] if schema_name == PG_CATALOG else []
            for fields in known.get((schema_name, relation_name), ()):
                bare = schema_name != PG_CATALOG
                rows.append(tuple(fields.get(c.name, None if bare else _empty(c)) for c in columns))
            self._insert(table, columns, rows)
        for special, columns in (("formats", _FORMATS), ("keywords", _KEYWORDS)):
            table = _table(PG_CATALOG, special)
            execute(here, _created(table, columns))
            self._insert(table, columns, structure.rows[special])
        execute(here, MACROS)
        execute(here, sql("COMMIT"))

    def _insert(
        self, table: Sql, columns: Sequence[CatalogColumn], rows: Sequence[CatalogRow]
    ) -> None:
        if not rows:
            return
        holes = join(", ", (sql("unnest(CAST(? AS {}[]))", _type(c)) for c in columns))
        values = [
            [_plain(value, column) for value in values]
            for column, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        execute(self._database, sql("INSERT INTO {} SELECT {}", table, holes), values)

    def describe(self, written: str) -> CatalogAnswer:
        """Describe the columns of a respelled query, which is planned and not run."""
        known = self._known.get(written)
        if known is None:
            known = self._within(partial(_described, statement=Sql(Written(written))))
            with self._lock:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[written] = known
        return known

    def answer(self, written: str) -> CatalogAnswer:
        """Run a respelled query. Raises ``NotSupportedError`` for what cannot be answered."""
        described = self.describe(written)
        return self._within(partial(_answered, statement=Sql(Written(written)), as_=described))

    def _within(self, work: partial[CatalogAnswer]) -> CatalogAnswer:
        """Do some work on a cursor of its own, within the time."""
        with self._lock:
            cursor = self._database.cursor()
        failed = False
        try:
            with Deadline(CATALOG_SECONDS, cursor.interrupt) as limit:
                return work(cursor)
        except (duckdb.Error, MemoryError):
            failed = True
        finally:
            cursor.close()
        assert failed
        raise catalog_refused(late=limit.expired)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def catalog_refused(*, late: bool = False) -> Error:
    """Make the error of a query over catalogs that has no answer."""
    reason = "takes too long" if late else "is not one that is answered"
    return NotSupportedError(
        f"this query over the catalogs {reason}",
        code="catalog_query",
        hint="SHOW TABLES and DESCRIBE list tables and columns, too.",
    )


def _described(cursor: duckdb.DuckDBPyConnection, statement: Sql) -> CatalogAnswer:
    bound = relation(cursor, statement)
    return CatalogAnswer(tuple(bound.columns), tuple(map(_told, bound.types)))


def _answered(
    cursor: duckdb.DuckDBPyConnection, statement: Sql, as_: CatalogAnswer
) -> CatalogAnswer:
    rows = execute(cursor, statement).fetchmany(MOST_CATALOG_ROWS + 1)
    if len(rows) > MOST_CATALOG_ROWS:
        raise catalog_refused()
    return replace(as_, rows=tuple(rows))


def _told(type_: object) -> str:
    """Name a type; what is NULL in all rows is a text, as in PostgreSQL."""
    return "VARCHAR" if str(type_).strip('"') == "NULL" else str(type_)


def _table(schema: str, relation_name: str) -> Sql:
    room = PG_ROOM if schema == PG_CATALOG else INFORMATION_ROOM
    return table_sql(TableName(relation_name, room))


def _created(table: Sql, columns: Iterable[CatalogColumn]) -> Sql:
    listed = (sql("{} {}", name(column.name), _type(column)) for column in columns)
    return sql("CREATE TABLE {} ({})", table, join(", ", listed))


def _type(column: CatalogColumn) -> Sql:
    return SqlType.of(column.stored).sql


def _empty(column: CatalogColumn) -> object:
    """Return the value of a column that nothing is known of."""
    if column.stored in _NUMBERS:
        return 0
    return None if column.type in _OPTIONAL else _EMPTY.get(column.stored)


def _plain(value: object, column: CatalogColumn) -> object:
    if isinstance(value, str) and column.type == "oidvector":
        return [int(each) for each in value.split()]
    return value

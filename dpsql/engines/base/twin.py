"""The twin: an empty database with the owner's tables, where statements are tried before they run.

Statements are bound here first, so types are checked without touching a row and messages cannot
quote one. And here the expressions over private rows are examined: what the engine binds them to
must be total by evidence, and they must run on synthetic rows of edge values.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import duckdb

from dpsql.core.quoting import INTERNAL_PREFIX, table_sql
from dpsql.core.schema import Column, Schema, Table
from dpsql.core.sql import Name, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.core.timeout import refuse_late, seconds_left
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import Examined
from dpsql.engines.embedded.constants import failing_part
from dpsql.engines.embedded.lockdown import lock_down
from dpsql.engines.embedded.plan_sql import plan_type
from dpsql.engines.embedded.plans import read_plan
from dpsql.engines.embedded.running import execute, relation, serialized_plan
from dpsql.engines.embedded.versions import ONE_THREAD, Config
from dpsql.engines.evidence.edges import edge_values
from dpsql.engines.evidence.evidence import Evidence
from dpsql.engines.evidence.trials import TRIED
from dpsql.errors import InternalError, QueryRefused

_ROWS: Final = 50  # of each table, so that the longest list of edge values is gone through
_TRIED: Final = 5000  # rows of a join that expressions are tried on
# Of work on trying them: synthetic rows are few, and joins of them may be many. What a busy machine
# gives to others does not count, so that it refuses nothing that it takes at other times.
_SECONDS: Final = 2.0
_NEARLY: Final = 0.9  # of that work: what was given so much had its time
_PATIENCE: Final = 4  # times as long, by the clock: others wait for the twin meanwhile
_CONFIG: Final[Config] = {**ONE_THREAD, "memory_limit": "1GB", "temp_directory": ""}
# Joins are made as they are written, with the few rows of each table on the right: so the first
# joined rows are found at once, however many there are.
_REORDERING: Final = ("join_order", "build_side_probe_side")
_FIRST: Final = 0
_REMEMBERED: Final = 1000  # statements' expressions
_KIND_OF_ERROR = re.compile(r"^(\w+ )+Error: ")
_LISTS: Final = quoted(f"{INTERNAL_PREFIX}edges")
_ROW: Final = quoted(f"{INTERNAL_PREFIX}row")
_NULL: Final = sql("NULL")
_Found = TypeVar("_Found")


class Twin:
    """An empty copy of a schema, and one with synthetic rows; safe to use from several threads."""

    def __init__(self, schema: Schema, evidence: Evidence) -> None:
        self._evidence = evidence
        self._lock = threading.Lock()
        self._examined: dict[tuple[Sql, tuple[Sql, ...], Sql | None, Sql | None], Examined] = {}
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        self._empty = [table for table in schema.values() if table.unreadable is None]
        for table in self._empty:
            columns = join(", ", (sql("{} {}", quoted(c.name), c.type.sql) for c in table.columns))
            execute(
                self._connection, sql("CREATE SCHEMA IF NOT EXISTS {}", quoted(table.name.schema))
            )
            execute(self._connection, sql("CREATE TABLE {} ({})", table_sql(table.name), columns))
        lock_down(self._connection, _REORDERING)

    def bind(self, statement: Sql) -> tuple[Column, ...]:
        """Find the columns a query would return. Raises ``QueryRefused`` if it does not bind."""
        with self._lock:
            try:
                found = relation(self._connection, statement)
                columns = zip(found.columns, found.types, strict=True)
                return tuple(Column(name, SqlType.of(str(type_))) for name, type_ in columns)
            except duckdb.Error as error:
                raise _does_not_bind(first_line(error)) from None

    def examine(
        self,
        source: Sql,
        expressions: Sequence[Sql],
        typed: Sql | None = None,
        tried: Sql | None = None,
    ) -> Examined:
        """Bind expressions over the rows of a FROM clause, and try them on edge values.

        Of ``typed``, a statement of what they were made of, the constants are computed. They are
        tried over the rows of ``tried``, or of ``source``. Raises ``QueryRefused`` where they do
        not bind (``does_not_bind``), and where they fail on synthetic rows (``fails``);
        ``InternalError`` if there are no such rows to be had. What was computed of all these rows
        once, is not computed again.
        """
        asked = source, tuple(expressions), typed, tried
        with self._lock:
            known = self._examined.get(asked)
            if known is None:
                known = self._looked_up(source, expressions, typed, tried or source)
                self._examined[asked] = known
                if len(self._examined) > _REMEMBERED:
                    del self._examined[next(iter(self._examined))]
            return known

    def compute_constants(self, statement: Sql) -> list[int | None]:
        """Compute a statement over constants alone, which returns one column of whole numbers."""
        try:
            with self._lock:
                rows = self._in_time(lambda: execute(self._connection, statement).fetchall())
                return [row[_FIRST] for row in rows]
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise _too_involved("Write shorter conditions on keys of declared values.") from None
        except duckdb.Error as error:
            raise _fails(first_line(error)) from None

    def _looked_up(
        self, source: Sql, expressions: Sequence[Sql], typed: Sql | None, tried: Sql
    ) -> Examined:
        self._fill()
        plan = self._plan(sql("SELECT {} FROM {}", join(", ", expressions), source))
        failing, rows = None, 0
        if typed is not None:
            failing = failing_part(self._connection, self._plan(typed))
        objection = self._evidence.objection(plan)
        if objection is None:
            self._compute_constants(plan)
            rows = self._try(tried, expressions)
        types = (_type_of(each) for each in plan["plans"][_FIRST]["expressions"])
        return Examined(tuple(types), objection, failing, rows)

    def _plan(self, statement: Sql) -> dict[str, Any]:
        try:
            (text,) = serialized_plan(self._connection, statement).fetchall()[_FIRST]
        except duckdb.Error as error:
            raise _does_not_bind(first_line(error)) from None
        try:
            plan = read_plan(text)
        except (RecursionError, ValueError):
            raise _too_involved("Nest expressions less deeply.") from None
        if plan["error"]:
            raise _does_not_bind(str(plan["error_message"]).split("\n", 1)[_FIRST])
        return plan

    def _compute_constants(self, plan: dict[str, Any]) -> None:
        """Compute the constant parts of a plan, also behind conditions, to find failures."""
        found = failing_part(self._connection, plan)
        if found is not None:
            raise _fails(found.reason)

    def _try(self, source: Sql, expressions: Sequence[Sql]) -> int:
        """Compute the expressions on synthetic rows, every one of them; returns their number."""
        computed = sql("SELECT hash({}) FROM {}", join(", ", expressions), source)
        if not all(isinstance(piece, Name) or piece == "." for piece in source.pieces):
            computed = sql("{} LIMIT {}", computed, _TRIED)  # of one table there are few rows
        try:
            found = self._in_time(lambda: execute(self._connection, computed).fetchnumpy())
            (hashes,) = found.values()
            TRIED["trial"] += 1
            return len(hashes)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise _too_involved("Join fewer tables, on fewer columns.") from None
        except duckdb.Error as error:
            raise _fails(first_line(error)) from None

    def _in_time(self, run: Callable[[], _Found]) -> _Found:
        """Run a statement within some seconds of its own, not counting other threads' work.

        The engine works in this thread alone. Raises ``InterruptException`` beyond.
        """
        seconds, begun = _SECONDS, time.monotonic()
        while True:
            before = time.thread_time()
            refuse_late()
            try:
                with Deadline(min(seconds, seconds_left()), self._connection.interrupt):
                    return run()
            except duckdb.InterruptException:
                refuse_late()
                worked = time.thread_time() - before
                waited = time.monotonic() - begun
                if worked > _NEARLY * _SECONDS or waited > _PATIENCE * _SECONDS:
                    raise
                seconds = min(_SECONDS**2 / max(worked, _SECONDS / _PATIENCE), 2 * seconds)

    def _fill(self) -> None:
        """Give every table its synthetic rows, if they have none yet."""
        if not self._empty:
            return
        types = dict.fromkeys(c.type for t in self._empty for c in t.columns)
        lists = [sql("{} AS {}", _edge_list(type_), quoted(str(type_))) for type_ in types]
        listed = join(", ", lists or [_NULL])
        try:
            execute(self._connection, sql("BEGIN"))
            execute(self._connection, sql("CREATE TEMP TABLE {} AS SELECT {}", _LISTS, listed))
            for table in self._empty:
                columns = enumerate(table.columns)
                values = join(", ", (_value(c.type, place) for place, c in columns))
                rows = sql("SELECT {} FROM range({}) r({}), {}", values, _ROWS, _ROW, _LISTS)
                execute(self._connection, sql("INSERT INTO {} {}", table_sql(table.name), rows))
            execute(self._connection, sql("COMMIT"))
        except duckdb.Error:
            execute(self._connection, sql("ROLLBACK"))
            raise not_tried() from None
        self._empty = []

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Open another connection to the same tables, for one who stores others beside them."""
        return self._connection.cursor()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _too_involved(hint: str) -> QueryRefused:
    return QueryRefused(
        "the query is too involved to be examined before it runs", code="query_too_large", hint=hint
    )


def first_line(error: duckdb.Error) -> str:
    """Return the first line of an engine's message: what is wrong, without the generated SQL."""
    line = str(error).strip().split("\n", 1)[_FIRST].replace(INTERNAL_PREFIX, "")
    return _KIND_OF_ERROR.sub("", line)


def columns_sql(table: Table) -> Sql:
    """Write the columns of a table with their types, as CREATE TABLE lists them."""
    return join(", ", (sql("{} {}", quoted(c.name), c.type.sql) for c in table.columns))


def _edge_list(type_: SqlType) -> Sql:
    return sql("[{}]", join(", ", [*edge_values(type_), _NULL]))


def _value(type_: SqlType, place: int) -> Sql:
    """Write a column's value at this place: its type's edge values in turn, and NULL.

    Columns of one type go through them out of step.
    """
    size = len(edge_values(type_)) + 1
    return sql(
        "{list}[({row} + {place} * (1 + {row} // {size})) % {size} + 1]",
        list=quoted(str(type_)),
        row=_ROW,
        place=place,
        size=size,
    )


def _type_of(expression: dict[str, Any]) -> SqlType | None:
    found = expression.get("return_type") or expression.get("value", {}).get("type")
    return plan_type(found)


def not_tried() -> InternalError:
    """Build the error for a query without synthetic rows to try it on: it must not run."""
    return InternalError("there are no synthetic rows to try the query on", code="not_tried")


def _fails(reason: str) -> QueryRefused:
    return QueryRefused(
        f"a part of the query cannot be computed for all values there can be: {reason}",
        code="fails",
        hint="Write a constant of the type that is needed there, or leave the part out.",
    )


def _does_not_bind(reason: str) -> QueryRefused:
    return QueryRefused(f"the query does not fit its tables: {reason}", code="does_not_bind")

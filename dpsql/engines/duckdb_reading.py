"""The last reading on DuckDB: what is about to be sent is bound, and its plan is read.

Generated SQL is bound by the engine itself on the twin, whose empty tables have the names, columns
and types of the owner's, and no other name is there: so a view of the owner's is one table in the
plan, and files are too. The plan is the one before optimisation, which rows have no part in. It may
hold the tables that the relations of the question scan, each as often, or none of them; tables that
the same question has stored; and what :mod:`dpsql.engines.duckdb_forms` lists. Anything else is not
sent.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Final, Protocol, TypeAlias

import duckdb

from dpsql.core.sql import Sql, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base import Reads
from dpsql.engines.duckdb_plan import FORMS, Forms, ReadPlan, UnknownPart, read_by_forms
from dpsql.engines.plans import plan_of
from dpsql.engines.running import execute
from dpsql.engines.spelling import DUCKDB_TEXT
from dpsql.errors import EngineError

GivenValues: TypeAlias = Sequence[int | list[int]]
_OURS: Final = "memory"
_STORED: Final = ("temp", "main")
_REMEMBERED: Final = 1000  # statements, by their text without the salt


class Sheet(Protocol):
    """What stands before the door of one reading: whatever is sent has been read by it."""

    def read(self, statement: Sql, given: GivenValues = ()) -> int:
        """Read a statement; returns its columns. Raises ``EngineError`` for what it may not be."""

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        """Take note that a statement which was read has been stored as a table."""

    def dropped(self, name: str) -> None:
        """Forget a stored table."""


class LastReading:
    """Reads statements before they are sent; safe to use from several threads.

    ``cursor`` opens a connection to the twin. Statements that differ in their salt alone are one.
    """

    def __init__(
        self, cursor: Callable[[], duckdb.DuckDBPyConnection], forms: Forms = FORMS
    ) -> None:
        self._cursor = cursor
        self._forms = forms
        self._known: OrderedDict[Hashable, int] = OrderedDict()
        self._lock = Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """How many statements have been read, known ones among them."""
        return self._count

    def over(self, reads: Reads) -> Sheet:
        """Return what reads the statements over these tables."""
        return _DuckDBSheet(self, reads)

    # -- for its sheets -----------------------------------------------------------------------

    def opened(self) -> duckdb.DuckDBPyConnection:
        """Open a connection to the twin."""
        return self._cursor()

    def known(self, key: Hashable) -> int | None:
        """Return the columns of a statement that was read before; None for others."""
        with self._lock:
            self._count += 1
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def read(
        self,
        connection: duckdb.DuckDBPyConnection,
        statement: Sql,
        tables: Counter[tuple[str, ...]],
    ) -> int:
        """Read a statement that may scan these tables; returns its columns."""
        found = self._plan(connection, statement)
        scanned = Counter({path: n for path, n in found.tables.items() if path[:2] != _STORED})
        if scanned and scanned != tables:
            raise EngineError()
        return found.columns

    def _plan(self, connection: duckdb.DuckDBPyConnection, statement: Sql) -> ReadPlan:
        plan = plan_of(connection, statement)
        if plan is not None:
            try:
                return read_by_forms(plan.root, self._forms)
            except UnknownPart:
                pass
        raise EngineError()

    def remember(self, key: Hashable, columns: int) -> None:
        """Keep in mind a statement that was read."""
        with self._lock:
            self._known[key] = columns
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


class _DuckDBSheet:
    """Reads what one question sends over some tables. Used by one thread at a time."""

    def __init__(self, reading: LastReading, reads: Reads) -> None:
        self._reading = reading
        self._salt = reads.salt
        names = ((_OURS, name.schema, name.table) for name in reads.tables)
        self._tables = Counter[tuple[str, ...]](names)
        self._over: Hashable = frozenset(self._tables.items())
        self._stored: dict[str, Hashable] = {}  # what each stored table was made of
        self._behind: list[tuple[Sql, GivenValues]] = []  # what the twin has not done yet
        self._connection: duckdb.DuckDBPyConnection | None = None

    def read(self, statement: Sql, given: GivenValues = ()) -> int:
        key = self._key(statement)
        columns = self._reading.known(key)
        if columns is None:
            columns = self._reading.read(self._twin(), statement, self._tables)
            self._reading.remember(key, columns)
        return columns

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        self._stored[name] = self._key(statement)
        made = sql("CREATE TEMP TABLE {} AS {} WITH NO DATA", quoted(name), statement)
        self._behind.append((made, given))

    def dropped(self, name: str) -> None:
        del self._stored[name]
        self._behind.append((sql("DROP TABLE temp.main.{}", quoted(name)), ()))

    def _key(self, statement: Sql) -> Hashable:
        """Return what is equal for two statements with one plan.

        A salt is digits, always as many: where it stands in a text, digits stand in the other.
        """
        text = statement.render(DUCKDB_TEXT)
        unsalted = text if self._salt is None else tuple(text.split(str(self._salt)))
        return self._over, frozenset(self._stored.items()), unsalted

    def _twin(self) -> duckdb.DuckDBPyConnection:
        """Return the connection to the twin, with empty tables of all that is stored.

        While all statements are known, nothing is done there.
        """
        if self._connection is None:
            self._connection = self._reading.opened()
        failed = False
        try:
            for statement, given in self._behind:
                execute(self._connection, statement, list(given))
        except duckdb.Error:
            failed = True
        if failed:
            raise EngineError()
        self._behind.clear()
        return self._connection

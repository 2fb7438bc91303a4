"""The last reading on DuckDB: what is about to be sent is bound, and its plan is read.

Generated SQL is bound by the engine itself on the twin, whose empty tables have the names, columns
and types of the owner's, and no other name is there: so a view of the owner's is one table in the
plan, and files are too. The plan is the one before optimisation, which rows have no part in. It may
hold the tables that the relations of the question scan, each as often, or none of them; tables that
the same question has stored; and what :mod:`dpsql.engines.duckdb.forms` lists. Anything else is not
sent.

A statement is read once. It is known again by its shape (:mod:`dpsql.engines.duckdb.shapes`)
without the salt, and by the columns of the tables that it may scan: a plan follows from these, and
so do the columns of what is stored of it. A stored table is one of them if its name stands in the
text. All connections of a process share what is known, which holds no names of the owner's; the
columns of what is stored are known to the connections of one dataset.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Final, TypeAlias

import duckdb

from dpsql.core.schema import Schema
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.engine import GivenValues, Reads
from dpsql.engines.duckdb.plan import FORMS, Forms, ReadPlan, UnknownPart, read_by_forms
from dpsql.engines.duckdb.shapes import shape
from dpsql.engines.embedded.plans import plan_of
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.errors import EngineError

_Columns: TypeAlias = tuple[tuple[str, SqlType], ...]  # names and types
_OURS: Final = "memory"
_STORED: Final = ("temp", "main")
_REMEMBERED: Final = 10_000  # statements


class KnownStatements:
    """A cache of statements that were read, by the inputs of their plans; safe for threads.

    Those that scan nothing but stored tables are known whatever else they might have scanned.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[_Key, ReadStatement] = OrderedDict()
        self._shapes: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> ReadStatement | None:
        """Return the reading of a statement; None if it has not been read."""
        with self._lock:
            for known in (key.anywhere, key):
                found = self._found.get(known)
                if found is not None:
                    self._found.move_to_end(known)
                    return found
        return None

    def shape_of(self, text: str) -> bytes:
        """Return the digest of a statement's shape: most are sent more than once."""
        mark = _digest(text.encode())
        with self._lock:
            found = self._shapes.get(mark)
            if found is not None:
                self._shapes.move_to_end(mark)
                return found
        made = _digest(shape(text))
        with self._lock:
            self._shapes[mark] = made
            if len(self._shapes) > _REMEMBERED:
                self._shapes.popitem(last=False)
        return made

    def add(self, key: _Key, read: ReadStatement) -> None:
        """Keep in mind a statement that was read."""
        with self._lock:
            self._found[key if read.scans_listed else key.anywhere] = read
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)


@dataclass(frozen=True, slots=True)
class ReadStatement:
    """The reading of a statement: its number of columns, and whether it scans listed tables.

    ``columns`` counts its columns, ``scans_listed`` tells whether it scans any of the listed
    tables. Names are not for everyone who shares the cache.
    """

    columns: int
    scans_listed: bool


@dataclass(frozen=True, slots=True)
class _Key:
    """The inputs of a statement's plan: its shape, and the columns of the tables it scans.

    All are digests: who does not know the tables of a statement finds nothing of it.
    """

    tables: bytes | None
    stored: bytes
    shape: bytes

    @property
    def anywhere(self) -> _Key:
        """The key of a statement that scans no listed table."""
        return _Key(None, self.stored, self.shape)


KNOWN = KnownStatements()
"""Statements that were read by the lists of ``FORMS``, in all connections of the process."""


class LastReading:
    """Reads statements before they are sent; safe to use from several threads.

    ``cursor`` opens a connection to the twin, which has the tables of ``schema``. Lists other than
    ``FORMS`` need statements known by them alone.
    """

    def __init__(
        self,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        schema: Schema,
        forms: Forms = FORMS,
        known: KnownStatements | None = None,
    ) -> None:
        self._cursor = cursor
        self._forms = forms
        self._columns = {
            table.name: tuple((column.name, column.type) for column in table.columns)
            for table in schema.values()
        }
        self._count = 0
        self.known = KNOWN if known is None else known
        self._made: dict[_Key, _Columns] = {}  # columns of stored tables
        self._idle: list[_Bench] = []

    @property
    def count(self) -> int:
        """How many statements have been read, known ones among them."""
        return self._count

    def over(self, reads: Reads) -> DuckDBSheet:
        """Return the last reading for statements over these tables."""
        tables = sorted((n.schema, n.table, self._columns.get(n, ())) for n in reads.tables)
        return DuckDBSheet(self, reads, _digest(repr(tables).encode()))

    # -- for its sheets -----------------------------------------------------------------------

    @contextmanager
    def bench(self) -> Iterator[_Bench]:
        """Lend a connection to the twin to a statement: one that others had, if there is any."""
        try:
            bench = self._idle.pop()
        except IndexError:
            bench = _Bench(self._cursor())
        yield bench
        self._idle.append(bench)  # unless something failed: nobody knows what it has then

    def close(self) -> None:
        """Close the connections to the twin."""
        while self._idle:
            self._idle.pop().connection.close()

    def made(self, key: _Key, find: Callable[[], _Columns]) -> _Columns:
        """Return the columns of a statement's stored table, which are found once."""
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            found = self._made[key] = find()
        return found

    def counted(self) -> None:
        """Count a statement."""
        self._count += 1

    def read(
        self,
        connection: duckdb.DuckDBPyConnection,
        statement: Sql,
        tables: Counter[tuple[str, ...]],
    ) -> tuple[ReadStatement, _Columns | None]:
        """Read a statement that may scan these tables. Raises ``EngineError``.

        Returns the columns, too, or None where its plan does not tell them all.
        """
        found = self._plan(connection, statement)
        scanned = Counter({path: n for path, n in found.tables.items() if path[:2] != _STORED})
        if scanned and scanned != tables:
            raise EngineError()
        return ReadStatement(len(found.selected), bool(scanned)), found.columns()

    def _plan(self, connection: duckdb.DuckDBPyConnection, statement: Sql) -> ReadPlan:
        plan = plan_of(connection, statement)
        if plan is not None:
            try:
                return read_by_forms(plan.root, self._forms)
            except UnknownPart:
                pass
        raise EngineError()


def _digest(text: bytes) -> bytes:
    return sha256(text).digest()


class _Bench:
    """A connection to the twin, with empty tables in place of stored ones."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._there: dict[str, _Columns] = {}

    def lay_out(self, stored: Mapping[str, _Columns], text: str) -> None:
        """Have the stored tables there that a statement names, and no other of these names.

        Whoever had the connection before may have left tables. Raises ``EngineError``.
        """
        failed = False
        try:
            for name in _named(stored.keys() | self._there.keys(), text):
                columns = stored.get(name)
                if columns != self._there.get(name):
                    self._bring(name, columns)
        except duckdb.Error:
            failed = True
        if failed:
            raise EngineError()

    def _bring(self, name: str, columns: _Columns | None) -> None:
        """Make the table of a name one of these columns, or drop it if there are none."""
        self._there.pop(name, None)
        if columns is None:
            execute(self.connection, sql("DROP TABLE temp.main.{}", quoted(name)))
            return
        listed = join(", ", (sql("{} {}", quoted(n), t.sql) for n, t in columns))
        made = sql("CREATE OR REPLACE TEMP TABLE {} ({})", quoted(name), listed)
        execute(self.connection, made)
        self._there[name] = columns


class DuckDBSheet:
    """The last reading of one question's statements over some tables of DuckDB.

    Used by one thread at a time. What it objects to is none of dpsql's, also where it does not
    bind: the twin takes all that is.
    """

    objected: Final = True

    def __init__(self, reading: LastReading, reads: Reads, over: bytes) -> None:
        self._reading = reading
        self._salt = reads.salt
        names = ((_OURS, name.schema, name.table) for name in reads.tables)
        self._tables = Counter[tuple[str, ...]](names)
        self._over = over
        self._stored: dict[str, _Columns] = {}
        self._last: tuple[_Key, _Columns | None] | None = None  # what was read last

    def read(self, statement: Sql, given: GivenValues = ()) -> int:
        """Read a statement; returns how many columns it has."""
        self._reading.counted()
        key, columns = self._key(statement), None
        found = self._reading.known.get(key)
        if found is None:
            with self._laid_out(statement) as connection:
                found, columns = self._reading.read(connection, statement, self._tables)
            self._reading.known.add(key, found)
        self._last = (key if found.scans_listed else key.anywhere), columns
        return found.columns

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        """Have the twin make an empty table of its columns before the next statement."""
        assert self._last is not None, "it was read"
        key, columns = self._last

        def find() -> _Columns:
            # What it is given has no type in its plan.
            return self._bound(statement, given) if columns is None or given else columns

        self._stored[name] = self._reading.made(key, find)

    def dropped(self, name: str) -> None:
        """Have the twin drop a stored table before it reads the next statement."""
        del self._stored[name]

    def _key(self, statement: Sql) -> _Key:
        """Return a key that is equal for statements with the same plan.

        A salt is digits, always as many: where it stands in a text, digits stand in the other. What
        is stored under a name that is nowhere in the text has no part in the plan.
        """
        text = statement.render(DUCKDB_TEXT)
        if self._salt is not None:
            text = text.replace(str(self._salt), "0" * len(str(self._salt)))
        stored = [(name, self._stored[name]) for name in _named(self._stored, text)]
        of_stored = _digest(repr(stored).encode())
        return _Key(self._over, of_stored, self._reading.known.shape_of(text))

    def _bound(self, statement: Sql, given: GivenValues) -> _Columns:
        """Return the names and types of a statement's columns. Raises ``EngineError``."""
        try:
            with self._laid_out(statement) as connection:
                found = relation(connection, statement, list(given) or None)
                types = (SqlType.of(str(type_)) for type_ in found.types)
                return tuple(zip(found.columns, types, strict=True))
        except duckdb.Error:
            pass
        raise EngineError()

    @contextmanager
    def _laid_out(self, statement: Sql) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a connection to the twin, with the stored tables that a statement names.

        While all statements are known, nothing is done there.
        """
        with self._reading.bench() as bench:
            bench.lay_out(self._stored, statement.render(DUCKDB_TEXT))
            yield bench.connection


def _named(tables: Iterable[str], text: str) -> list[str]:
    """List the tables whose names stand anywhere in a text; no statement reads another."""
    folded = text.lower()
    return sorted(name for name in tables if name.lower() in folded)

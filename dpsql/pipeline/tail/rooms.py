"""Rooms: isolated databases in memory where tails run, each lent to one connection at a time.

What a tail can name are its own released rows, public tables and what it computes. That others'
released rows are out of its reach does not rest on names: they are never in the same database. A
connection has a room while a statement of its own runs there or an answer of its own lies there;
then everything is dropped but public tables, and the next one has it. So connections that ask
nothing, and answers that are small, take no room.

A room has a limit of memory of its own: it is one for the statement that runs there, together with
the large answers that the same connection still holds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary, finalize, ref

import duckdb

from dpsql.core.quoting import INTERNAL_PREFIX, table_sql
from dpsql.core.sql import Sql, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Engine
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import execute
from dpsql.errors import EngineError
from dpsql.ir.relations import PublicSource, PublicTable

_TABLES: Final = sql("SELECT table_name, schema_name FROM duckdb_tables()")
_KEPT: Final = 4  # rooms of a pool that wait for the next connection


class Room:
    """A database in memory, and the names of the tables that everybody may find there."""

    def __init__(self) -> None:
        self.database = isolated()
        self.public: set[PublicTable] = set()

    def empty(self) -> bool:
        """Drop all but public tables; returns False where the room is of no use any more."""
        try:
            found = execute(self.database, _TABLES).fetchall()
            kept = {each.table.name for each in self.public}
            for name in (TableName(*row) for row in found):
                if name not in kept:
                    execute(self.database, sql("DROP TABLE {}", table_sql(name)))
        except duckdb.Error:
            return False
        return True


class Stay:
    """One connection's use of a room, which ends with its last statement and its last answer.

    The cursor is of this stay alone. Whoever interrupts it when it is over, late as a thread may
    be, ends nothing of those that come after.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        self.cursor = room.database.cursor()
        # Public tables that the next connection has to read again.
        self.own: set[PublicSource] = set()
        self.unused: deque[Sql] = deque()  # tables that nobody refers to any more
        self._numbers = count()

    def new_table(self) -> Sql:
        """Make a name for an answer, that no other table of the room has."""
        return quoted(f"{INTERNAL_PREFIX}answer_{next(self._numbers)}")

    def drop_unused(self) -> None:
        """Drop the tables that nobody refers to any more."""
        while self.unused:
            execute(self.cursor, sql("DROP TABLE IF EXISTS {}", self.unused.popleft()))

    @contextmanager
    def registered(self, **objects: object) -> Iterator[None]:
        """Register objects of Python, None excepted, as tables with the usual prefix."""
        names = {f"{INTERNAL_PREFIX}{name}": o for name, o in objects.items() if o is not None}
        try:
            for name, found in names.items():
                self.cursor.register(name, found)
            yield
        finally:
            for name in names:
                self.cursor.unregister(name)


class RoomPool:
    """The rooms of connections that may all read the same public tables."""

    def __init__(self) -> None:
        self._free: deque[Room] = deque()

    def take(self) -> Stay:
        """Lend an empty room as a stay, whose end gives the room back."""
        try:
            room = self._free.pop()  # the last one used: it is the likeliest to have the tables
        except IndexError:
            room = Room()
        stay = Stay(room)
        finalize(stay, self._give_back, room).atexit = False
        return stay

    def _give_back(self, room: Room) -> None:
        if len(self._free) < _KEPT and room.empty():
            self._free.append(room)


_POOLS: Final[WeakKeyDictionary[Engine, dict[frozenset[str], RoomPool]]] = WeakKeyDictionary()
_POOLS_LOCK: Final = threading.Lock()


def pool_of(engine: Engine, public: frozenset[str]) -> RoomPool:
    """Return the rooms for connections to an engine whose policies have these public tables."""
    with _POOLS_LOCK:
        return _POOLS.setdefault(engine, {}).setdefault(public, RoomPool())


class Tenant:
    """A connection as a tenant, which takes a room at its first statement.

    Entered for each statement. Not safe for threads, but for :meth:`interrupt`.
    """

    def __init__(self, pool: RoomPool) -> None:
        self._pool = pool
        self._stay: Stay | None = None
        self._last: ref[Stay] | None = None

    def __enter__(self) -> Tenant:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the room, unless there are tables in it that the next statement must find again."""
        if self._stay is not None and not self._stay.own:
            self._stay = None

    def stay(self) -> Stay:
        """Return the running statement's stay, in the room where the connection's answers are.

        Raises ``EngineError`` if there is no room to be had.
        """
        stay = self._stay
        if stay is None and self._last is not None:
            stay = self._last()
        if stay is None:
            try:
                stay = self._pool.take()
            except (duckdb.Error, MemoryError):
                raise EngineError() from None
        self._stay, self._last = stay, ref(stay)
        return stay

    def interrupt(self) -> None:
        """Interrupt this connection's statement in the room; the statement fails.

        For other threads to call.
        """
        stay = self._stay
        if stay is not None:
            with suppress(duckdb.Error):  # it was closed a moment ago
                stay.cursor.interrupt()

    def close(self) -> None:
        """Leave the room. Answers that are still referred to stay in their rooms."""
        self._stay = None

"""A way to rows past the last reading: for statements of tests, which are none of dpsql's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from spelled import generated, text

from dpsql.core.sql import Sql
from dpsql.engines.base import Reads, Run
from dpsql.engines.duckdb import DuckDBReader, DuckDBRun, _Door
from dpsql.engines.postgresql import PostgreSQLReader, PostgreSQLRun
from dpsql.engines.postgresql_last import ServerReading, ServerSheet
from dpsql.engines.spark import SparkReader, SparkRun
from dpsql.engines.spark_reading import SparkReading, SparkSheet


class NoSheet:
    """Reads nothing, and has no objection."""

    def read(self, statement: Sql, given: Any = ()) -> int:
        """Take any statement."""
        return 0

    def stored(self, name: str, statement: Sql, given: Any = ()) -> None:
        """Forget it."""

    def dropped(self, name: str) -> None:
        """Forget it."""


_STATEMENT: Final = {"exact": 0, "pairs": 0, "integers": 0, "keys": 0, "store": 1, "_reading": 0}
"""Which argument of a method is a statement, by place."""


class _InText:
    """A reader or its scratch space, which takes statements as texts, too."""

    def __init__(self, place: Any) -> None:
        self._place = place

    def __enter__(self) -> _InText:
        self._place.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._place.__exit__(*given)

    def scratch(self) -> _InText:
        """The reader's scratch space."""
        return _InText(self._place.scratch())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._place, name)
        if name not in _STATEMENT:
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            given = list(arguments)
            at = _STATEMENT[name]
            given[at] = generated(given[at]) if isinstance(given[at], str) else given[at]
            return found(*given, **named)

        return called


class NoServerSheet(ServerSheet):
    """The same for a server."""

    def __init__(self) -> None:
        super().__init__(ServerReading(), Reads(()))

    def read(self, *_: Any) -> None:
        """Take any statement."""


class NoSparkSheet(SparkSheet):
    """The same for Spark."""

    def __init__(self, reading: SparkReading) -> None:
        super().__init__(reading, Reads(()))

    def read(self, *_: Any) -> None:
        """Take any statement."""

    def stored(self, name: str) -> None:
        """Forget it."""


def unread(run: Run) -> Any:
    """What runs any statement in a run, also one that is a text."""
    if isinstance(run, DuckDBRun):
        return _InText(DuckDBReader(run._cursor, NoSheet()))
    if isinstance(run, PostgreSQLRun):
        return _InText(PostgreSQLReader(lambda: run.session, NoServerSheet()))
    assert isinstance(run, SparkRun)
    sheet = NoSparkSheet(run._reading)
    return _InText(SparkReader(lambda: run._place(sheet)))


def beyond(door: _Door) -> _Door:
    """The same door, behind which nothing is read before it is sent."""
    return _Door(door._cursor, NoSheet())


def sent_inside(
    monkeypatch: pytest.MonkeyPatch, pattern: Callable[[], str], table: str = "visits"
) -> None:
    """Have statements over a table, once they have been read, run inside other SQL."""

    def inside(way: str, place: int) -> Callable[..., Any]:
        send = getattr(_Door, way)

        def sent(self: _Door, *given: Any) -> Any:
            if table not in text(given[place]):
                return send(self, *given)
            self._sheet.read(given[place])
            other = generated(pattern().format(text(given[place])))
            found = send(beyond(self), *given[:place], other, *given[place + 1 :])
            if way == "store":
                self._sheet.stored(*given)
            return found

        return sent

    for way, place in (("executed", 0), ("materialized", 0), ("store", 1)):
        monkeypatch.setattr(_Door, way, inside(way, place))

"""Access to rows past the last reading, for statements that tests write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from dpsql.core.sql import Sql
from dpsql.engines.base.engine import Run
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.scratch import Passed, Reader, ScratchBase
from dpsql.engines.duckdb.engine import DuckDBScratch
from helpers.sql_text import generated, text


class NoSheet:
    """Reads nothing, and has no objection."""

    objected: Final = False

    def read(self, statement: Sql, given: Any = ()) -> int:
        """Take any statement."""
        return 0

    def stored(self, name: str, statement: Sql, given: Any = ()) -> None:
        """Forget it."""

    def dropped(self, name: str) -> None:
        """Forget it."""


_STATEMENT: Final = {"exact": 0, "pairs": 0, "integers": 0, "keys": 0, "streamed": 0, "store": 1}
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


def unread(run: Run) -> Any:
    """What runs any statement in a run, also one that is a text."""
    assert isinstance(run, RunBase)
    return _InText(Reader(lambda: run.place(NoSheet())))


def beyond(scratch: DuckDBScratch) -> DuckDBScratch:
    """The same place, where nothing is read before it is sent."""
    return DuckDBScratch(scratch._cursor, NoSheet(), scratch._streaming)


def sent_inside(
    monkeypatch: pytest.MonkeyPatch, pattern: Callable[[], str], table: str = "visits"
) -> None:
    """Have statements over a table, once they have been read, run inside other SQL."""

    real = ScratchBase._sent

    def sent(
        self: ScratchBase, statement: Sql, given: Any, send: Callable[[Passed], object]
    ) -> object:
        if table not in text(statement):
            return real(self, statement, given, send)
        other = generated(pattern().format(text(statement)))
        return real(self, statement, given, lambda passed: send(replace(passed, statement=other)))

    monkeypatch.setattr(ScratchBase, "_sent", sent)

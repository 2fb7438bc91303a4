"""Trials: generated expressions computed by the engine that will compute them, before any price.

They run over rows of constants, so none of the owner's is read. An expression is tried once over
rows of the same types: what an engine has computed of all edge values, it will compute again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from dpsql.core.sql import Sql
from dpsql.errors import EngineError, InterfaceError, QueryRefused

TRIAL_SECONDS: Final = 20.0
"""How long the expressions of a statement may be computed: synthetic rows are few."""
_REMEMBERED: Final = 20_000
_AT_ONCE: Final = 60  # expressions of one statement
_LONGEST: Final = 200_000  # characters of them


class Trials:
    """The expressions that an engine has computed; safe to use from several threads.

    ``run`` executes a statement on the engine, and raises ``EngineError`` where that fails.
    """

    def __init__(self, run: Callable[[Sql], None]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._known: dict[tuple[Sql, Sql], None] = {}

    def hold(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        """Compute expressions over the rows of a FROM clause, those that were not tried before.

        ``write`` makes a statement of some of them. Raises ``QueryRefused`` (``fails``) if one
        fails, or cannot be tried: what was not tried is never sent.
        """
        with self._lock:
            new = [each for each in dict.fromkeys(expressions) if (rows, each) not in self._known]
        for part in _parts(new):
            try:
                self._run(write(part))
            except EngineError as error:
                code = error.code
            else:
                TRIED["trial on the server"] += 1
                self._remember(rows, part)
                continue
            # Raised outside the handler, so that its context quotes nothing.
            raise _fails(code)

    def _remember(self, rows: Sql, expressions: Sequence[Sql]) -> None:
        with self._lock:
            self._known.update(dict.fromkeys((rows, each) for each in expressions))
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]


def _parts(expressions: Sequence[Sql]) -> list[list[Sql]]:
    """Split expressions into as many as one statement may have."""
    found: list[list[Sql]] = []
    size = 0
    for each in expressions:
        if not found or len(found[-1]) == _AT_ONCE or size + each.size > _LONGEST:
            found.append([])
            size = 0
        found[-1].append(each)
        size += each.size
    return found


def _fails(code: str | None) -> QueryRefused:
    if code == "interrupted":
        return QueryRefused(
            "the query is too involved to be tried before it runs",
            code="query_too_large",
            hint="Nest expressions less deeply, or split up long chains of operators.",
        )
    return QueryRefused(
        "a part of the query cannot be computed by the server for all values there can be",
        code="fails",
        hint="Leave the part out, or write it otherwise: with smaller constants, or a cast to "
        "another type.",
    )


TRIED: Final[Counter[str]] = Counter()
"""Times by the name of the net: ``trial``, ``trial on the server``, ``definitions``, and others."""


def definitions_changed() -> InterfaceError:
    """Build the refusal of tables that have changed since they were proved."""
    return InterfaceError(
        "the definition of a table has changed since the database was opened",
        code="definitions_changed",
        hint="Nothing was spent. Open the database again: what must hold of tables is looked at "
        "then.",
    )

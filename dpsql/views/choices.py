"""The groups that a view has chosen to list, kept in its private state: each choice is drawn once.

A choice is kept before it is shown. So a process that is killed in between finds it again, and none
is drawn a second time from other rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from dpsql.core.sql import Sql, sql
from dpsql.engines.duckdb.engine import discreetly
from dpsql.engines.embedded.running import execute
from dpsql.errors import EngineError

ChosenGroups: TypeAlias = tuple[tuple[str | None, ...], ...]
"""The keys of chosen groups as texts, the first chosen first; of a declared domain, positions."""


@dataclass(frozen=True, slots=True)
class KeptChoice:
    """Chosen groups, with the step of the choice."""

    step: int
    groups: ChosenGroups


@dataclass(frozen=True, slots=True)
class KeptChoices:
    """The choices in an open state, by their numbers."""

    connection: duckdb.DuckDBPyConnection

    def all(self) -> dict[int, KeptChoice]:
        """Read all choices that were drawn, by number, the earliest first.

        Raises ``EngineError`` (``state_damaged``) for what was not kept as a choice.
        """
        self._execute(
            sql("CREATE TABLE IF NOT EXISTS chosen (number BIGINT, step BIGINT, groups VARCHAR)")
        )
        found = self._execute(sql("SELECT number, step, groups FROM chosen ORDER BY number"))
        return {int(number): KeptChoice(step, _groups(text)) for number, step, text in found}

    def keep(self, number: int, choice: KeptChoice) -> None:
        """Keep a choice for good, under a number that has none yet."""
        self._execute(
            sql("INSERT INTO chosen VALUES (?, ?, ?)"),
            [number, choice.step, json.dumps(choice.groups)],
        )

    def _execute(self, statement: Sql, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        return discreetly(lambda: execute(self.connection, statement, values).fetchall())


def _groups(text: str) -> ChosenGroups:
    try:
        return tuple(
            tuple(None if t is None else str(t) for t in group) for group in json.loads(text)
        )
    except (TypeError, ValueError, RecursionError):
        raise EngineError(
            "the private state of the view cannot be used: a choice of groups is damaged",
            code="state_damaged",
            hint="A view without its state cannot go on: drop it, and create another.",
        ) from None

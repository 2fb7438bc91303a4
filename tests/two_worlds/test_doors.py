"""Doors of a server on two worlds: each shows the same, and one that tells of rows is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from helpers.open_doors import DOORS

from dpsql.agents import tools
from dpsql.core.formatting import significant
from dpsql.kinds.groups import ExactGroups
from dpsql.server.http import app

from .invariants import INVARIANTS
from .play import TwoWorlds, ready
from .programs import Program, Step
from .sources import READERS

QUESTION: Final = "SELECT s, count(*) AS n FROM t GROUP BY s"
STATEMENTS: Final = (
    QUESTION,
    "SELECT count(*) AS n FROM t WHERE CAST(i32 AS TINYINT) > 3",
    "SELECT s FROM t",
    "SELECT avg(f64) AS mean FROM t WHERE s = 's1'",
    "SHOW BUDGET",
    "SELECT k FROM pub ORDER BY k LIMIT 2",
)
"""Answered, refused, and told; the models' tools have other words for what is told."""


def noticed(door: str, home: Path) -> set[str]:
    """The nets that notice something when a door is asked all of it."""
    reader = READERS["duckdb at doors"]
    steps = tuple(Step("ask", text, way=door) for text in STATEMENTS)
    with ready():
        played = TwoWorlds(reader, Program(door, 2, steps), home, 0).play(INVARIANTS, stop=False)
    reader.close()
    assert played.answered >= 3
    return {finding.net for finding in played.findings}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_door_shows_nothing_of_rows(door: str, tmp_path: Path) -> None:
    assert noticed(door, tmp_path) == set()


def _header(count: Callable[[], int], patch: pytest.MonkeyPatch) -> None:
    always = app._always
    patch.setattr(app, "_always", lambda: [*always(), (b"x-rows-counted", str(count()).encode())])


def _longer_notice(count: Callable[[], int], patch: pytest.MonkeyPatch) -> None:
    """Only the size of a message differs."""
    notice = "dpsql.server.wire.conversation.significant"
    patch.setattr(notice, lambda cost: significant(cost) + " " * count())


def _words(count: Callable[[], int], patch: pytest.MonkeyPatch) -> None:
    words = tools._left_words
    patch.setattr(tools, "_left_words", lambda left: f"{words(left)}, of {count()} rows")


TWINS: Final[dict[str, Callable[[Callable[[], int], pytest.MonkeyPatch], None]]] = {
    "wire": _longer_notice,
    "http": _header,
    "mcp": _words,
    "stdio": _words,
    "tools": _words,
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_door_that_tells_of_rows_is_noticed(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = [0]
    release = ExactGroups.release

    def counting(self: ExactGroups, *given: Any) -> Any:
        counted[0] = sum(int(values.sum()) for values in self.rows.measures.values())
        return release(self, *given)

    monkeypatch.setattr(ExactGroups, "release", counting)
    TWINS[door](lambda: counted[0], monkeypatch)
    assert "heard" in noticed(door, tmp_path)

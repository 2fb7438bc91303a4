"""What is answered over rows on a server is what is answered over the same rows in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.postgresql_server import Server

import dpsql
from dpsql.engines.postgresql.engine import PostgreSQLEngine

from .compare import without_chance
from .servers import ServerComparison, in_postgresql, require_drivers
from .test_own_answers import ALL, CASES
from .worlds import World

require_drivers()
pytestmark = pytest.mark.slow  # they start a server

REFUSED = {"expression_not_allowed", "unknown_column", "fails"}
"""What is answered in DuckDB, and refused of a server: before anything is paid."""


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, and nothing cut."""
    without_chance(monkeypatch)


@pytest.fixture(scope="module")
def worlds(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ServerComparison]]:
    """All worlds, which are filled when they are first asked of."""
    opened = in_postgresql(postgres_server)
    made = {
        name: ServerComparison(name, texts, opened, tmp_path_factory.mktemp(name))
        for name, texts in ALL.items()
    }
    yield made
    for each in made.values():
        each.close()


@pytest.mark.parametrize(("world", "sql"), CASES[::4])
def test_answers_of_postgresql_are_those_of_duckdb(
    world: str, sql: str, worlds: dict[str, ServerComparison]
) -> None:
    try:
        difference = worlds[world].difference(sql)
    except dpsql.Error as error:
        if error.code not in REFUSED:
            raise
    else:
        assert not difference, difference


def test_a_row_less_on_the_server_is_noticed(postgres_server: Server, tmp_path: Path) -> None:
    def opened(filled: World) -> PostgreSQLEngine:
        rows = {**filled.rows, "hospital": filled.rows["hospital"][1:]}
        return in_postgresql(postgres_server)(replace(filled, rows=rows))

    comparison = ServerComparison("hospital", ALL["hospital"], opened, tmp_path)
    assert not comparison.difference("SELECT COUNT(*) FROM patients")
    assert comparison.difference("SELECT COUNT(*) FROM hospital")
    comparison.close()

"""What is answered over rows on a server is what is answered over the same rows in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.postgresql_server import Server

import dpsql
from dpsql.engines.base.engine import Database

from .compare import without_chance
from .servers import Opened, ServerComparison, in_postgresql, in_spark, require_drivers
from .test_own_answers import ALL, CASES
from .worlds import World

require_drivers()
pytestmark = pytest.mark.slow  # they start a server

REFUSED = {"expression_not_allowed", "unknown_column", "unknown_table", "query_too_large", "fails"}
"""What is answered in DuckDB, and refused of a server: before anything is paid.

Columns of lists are left out there, and a file of DuckDB has the name of its world.
"""


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, and nothing cut."""
    without_chance(monkeypatch)


@contextmanager
def comparisons(
    opened: Opened, places: pytest.TempPathFactory
) -> Iterator[dict[str, ServerComparison]]:
    """All worlds, which are filled when they are first asked of."""
    made = {
        name: ServerComparison(name, texts, opened, places.mktemp(name))
        for name, texts in ALL.items()
    }
    yield made
    for each in made.values():
        each.close()


@pytest.fixture(scope="module")
def worlds(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ServerComparison]]:
    with comparisons(in_postgresql(postgres_server), tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module")
def spark() -> Iterator[Opened]:
    """Where worlds are filled in a session of Spark's."""
    from spark_sessions import require, started

    require()
    session = started("local[1]", **{"spark.sql.shuffle.partitions": "1"})
    yield in_spark(session)
    session.stop()


@pytest.fixture(scope="module")
def spark_worlds(
    spark: Opened, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ServerComparison]]:
    with comparisons(spark, tmp_path_factory) as made:
        yield made


def compare(comparison: ServerComparison, sql: str) -> None:
    """Compare the answers to a statement, if the server has one."""
    try:
        difference = comparison.difference(sql)
    except dpsql.Error as error:
        if error.code not in REFUSED:
            raise
    else:
        assert not difference, difference


@pytest.mark.parametrize(("world", "sql"), CASES[::4])
def test_answers_of_postgresql_are_those_of_duckdb(
    world: str, sql: str, worlds: dict[str, ServerComparison]
) -> None:
    compare(worlds[world], sql)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # of pyspark's own
@pytest.mark.parametrize(("world", "sql"), CASES[::45])
def test_answers_of_spark_are_those_of_duckdb(
    world: str, sql: str, spark_worlds: dict[str, ServerComparison]
) -> None:
    compare(spark_worlds[world], sql)


def notices_a_row_less(opened: Opened, place: Path) -> bool:
    """Tell whether answers differ once a server has a row less, and only of its table."""

    def opened_with_less(filled: World) -> Database:
        rows = {**filled.rows, "hospital": filled.rows["hospital"][1:]}
        return opened(replace(filled, rows=rows))

    comparison = ServerComparison("hospital", ALL["hospital"], opened_with_less, place)
    same, other = (
        comparison.difference(f"SELECT COUNT(*) FROM {table}") for table in ("patients", "hospital")
    )
    comparison.close()
    return bool(other) and not same


def test_a_row_less_in_postgresql_is_noticed(postgres_server: Server, tmp_path: Path) -> None:
    assert notices_a_row_less(in_postgresql(postgres_server), tmp_path)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # of pyspark's own
def test_a_row_less_in_spark_is_noticed(spark: Opened, tmp_path: Path) -> None:
    assert notices_a_row_less(spark, tmp_path)

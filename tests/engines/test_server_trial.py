"""The trial on the server: what will be sent is computed there first, of edge values, for nothing.

Verdicts are the first net and the trial is the second. Here the first has a hole: an operation that
fails on some rows, and that the table of verdicts takes for a sound one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_world import Filled
from helpers.dialects import POSTGRESQL
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from helpers.sql_text import Spelled, generated
from postgresql_world import PostgreSQLWorld

import dpsql
from dpsql.core.sql import sql as template
from dpsql.core.sql_types import SqlType
from dpsql.engines.base import edge_rows
from dpsql.engines.evidence import edges
from dpsql.engines.evidence.trials import TRIED
from dpsql.engines.postgresql import types as pg
from dpsql.engines.spark import casts as spark_casts
from dpsql.errors import EngineError

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")

NET = "trial on the server"
POLICY = """
version: 1
dataset: trials
accounts:
  ana: {epsilon: 100, delta: 1e-3}
tables:
  visits:
    privacy_unit: {name: person, column: u}
    columns:
      v: {lower: 0, upper: 10}
"""
VISITS = Filled(
    (("u", "BIGINT"), ("v", "DOUBLE"), ("n", "INTEGER"), ("s", "VARCHAR"), ("d", "DATE")),
    [(unit, unit / 8, unit % 7, f"s{unit % 3}", None) for unit in range(600)],
)
STEERED = "CASE WHEN u = 7 AND v >= 5 THEN CAST(v * 1e33 AS DECIMAL(38,0)) > 0 ELSE TRUE END"
"""A condition that fails if and only if one person's row is there."""


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    found = PostgreSQLWorld(postgres_server, f"trials_{os.getpid()}")
    found.engine({"visits": VISITS})
    yield found
    found.close()


@pytest.fixture
def connection(world: PostgreSQLWorld, tmp_path: Path) -> Iterator[dpsql.Connection]:
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(world.url, policy, tmp_path / "budget.db", "ana") as opened:
        yield opened


def count(condition: str) -> str:
    return f"SELECT COUNT(*) FROM visits WHERE {condition}"


@pytest.mark.slow
def test_a_cast_that_fails_on_some_rows_is_refused_before_it_costs_anything(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pg._exact_integer
    monkeypatch.setattr(pg, "_exact_integer", lambda value, n: whole(value, min(n, 2)))
    before = repr(connection.budget())
    for condition in (STEERED, "CAST(v * 1e33 AS DECIMAL(38,0)) > 0"):
        with fails_with("fails") as raised:
            connection.sql(count(condition))
        assert "person" not in str(raised.value)
    assert repr(connection.budget()) == before


@pytest.mark.slow
def test_casts_around_what_is_summed_are_tried_too(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg, "_nearest", lambda value: template("CAST({} AS BIGINT)", value))
    before = repr(connection.budget())
    with fails_with("fails"):
        connection.sql("SELECT SUM(v) FROM visits")
    assert repr(connection.budget()) == before


@pytest.mark.slow
def test_the_same_cast_as_it_is_written_is_answered(connection: dpsql.Connection) -> None:
    tried = TRIED[NET]
    assert 550 < float(connection.sql(count(STEERED), epsilon=20).fetchall()[0][0]) < 650
    assert TRIED[NET] > tried


@pytest.mark.slow
def test_an_expression_is_tried_once(connection: dpsql.Connection) -> None:
    connection.sql(count("n + 1 > 3"))
    tried = TRIED[NET]
    connection.sql(count("n + 1 > 3"), epsilon=0.7)
    assert TRIED[NET] == tried
    connection.sql(count("n + 1 > 4"))
    assert TRIED[NET] == tried + 1


@pytest.mark.slow
def test_what_cannot_be_tried_is_refused(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rows of edge values, or none that the server takes: nothing is sent that was not tried."""
    before = repr(connection.budget())
    monkeypatch.setattr(edge_rows, "_LEAST_ROWS", 0)
    monkeypatch.setattr(edge_rows, "_MOST_ROWS", 0)
    with fails_with("fails"):
        connection.sql(count("n + 2 > 3"))
    assert repr(connection.budget()) == before


@pytest.mark.slow
def test_every_edge_value_is_one_of_the_servers(world: PostgreSQLWorld) -> None:
    """Nearly all are read as constants there; what DuckDB alone has is NULL."""
    types = ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE")
    for type_ in (*types, "TIMESTAMP", "TIME", "UUID", "DECIMAL(1,1)", "DECIMAL(38,0)"):
        of_type = SqlType.of(type_)
        found = edges.trial_edges(of_type)
        written = [Spelled(POSTGRESQL).declared(edge, of_type) for edge in found]
        known = [text for text in written if not text.startswith("CAST(NULL")]
        assert len(known) >= min(3, len(written)), type_
        engine = world.engine({"visits": VISITS})
        with engine.run() as run:
            run.session.rows(generated(f"SELECT {', '.join(written)}"))


@pytest.mark.slow
def test_a_text_that_the_server_does_not_take_is_no_row_of_anybodys(
    world: PostgreSQLWorld,
) -> None:
    engine = world.engine({"visits": VISITS})
    with pytest.raises(dpsql.QueryRefused) as raised:
        engine.try_out(
            generated("rows"), [generated("1/0")], lambda parts: template("SELECT {}", parts[0])
        )
    assert raised.value.__context__ is None or not isinstance(raised.value.__context__, EngineError)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_a_cast_that_spark_fails_on_is_refused_before_it_costs_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_sessions import require

    require()
    from spark_world import SparkWorld

    world = SparkWorld()
    world.engine({"visits": VISITS})
    with dpsql.connect(
        world.session, dpsql.parse_policy(POLICY), tmp_path / "budget.db", "ana"
    ) as connection:
        steered = STEERED.replace("1e33", "1e3").replace("38,0", "9,0")
        tried = TRIED[NET]
        assert 550 < float(connection.sql(count(steered), epsilon=20).fetchall()[0][0]) < 650
        assert TRIED[NET] > tried
        monkeypatch.setattr(
            spark_casts,
            "_double_to_decimal",
            lambda value, width, scale: template("CAST({} AS DECIMAL({},{}))", value, width, scale),
        )
        before = repr(connection.budget())
        with fails_with("fails"):
            connection.sql(count(steered.replace("1e3", "1e4")))
        assert repr(connection.budget()) == before
    world.close()

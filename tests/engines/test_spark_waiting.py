"""A question in Spark is not ended for the time that it waits behind those of others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.unchecked_runs import unread
from spark_sessions import require

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()

from engine_world import Filled  # noqa: E402
from spark_world import SparkWorld, spark_world  # noqa: E402

import dpsql  # noqa: E402
from dpsql.engines.spark.waiting import ExecutorClock  # noqa: E402
from dpsql.errors import EngineError  # noqa: E402

SECONDS = 15.0
POLICY = f"""
version: 1
dataset: spark-tests
limits: {{seconds: {SECONDS:g}}}
defaults: {{max_rows_contributed: 5}}
accounts:
  ana: {{epsilon: 200, delta: 1e-3}}
  bo: {{epsilon: 200, delta: 1e-3}}
tables:
  visits:
    privacy_unit: {{name: patient, column: u}}
"""
VISITS = Filled((("u", "BIGINT"), ("k", "VARCHAR")), [(n, f"k{n % 3}") for n in range(600)])
ASKED = "SELECT k, count(DISTINCT u) FROM visits GROUP BY k"


@pytest.fixture(scope="module", params=["classic", "connect"])
def world(request: pytest.FixtureRequest) -> Iterator[SparkWorld]:
    with spark_world(request.param) as world:
        world.engine({"visits": VISITS})
        yield world


@contextmanager
def busy(world: SparkWorld, seconds: float) -> Iterator[None]:
    """Have every executor work for somebody else, for some seconds."""
    engine = world.engine({"visits": VISITS})
    with engine.run() as run:
        place: Any = unread(run)

        def work() -> None:
            with pytest.raises(EngineError):
                place.exact(world.endless, (), ["m"])

        def end() -> None:
            time.sleep(seconds)
            while working.is_alive():
                run.interrupt()
                time.sleep(0.2)

        working = threading.Thread(target=work)
        working.start()
        time.sleep(3)  # until it has them
        ending = threading.Thread(target=end)
        ending.start()
        yield
        ending.join()
        working.join()


def ask(world: SparkWorld, place: Path) -> tuple[Any, float]:
    """What ana is answered behind a long statement, and how long it takes."""
    patient = dpsql.parse_policy(POLICY.replace(f"{SECONDS:g}", "600"))
    with dpsql.connect(world.session, patient, place / "other.db", "ana") as connection:
        connection.sql(ASKED)  # what Spark makes once is made
    rules = dpsql.parse_policy(POLICY)
    with dpsql.connect(world.session, rules, place / "budget.db", "ana") as connection:
        connection.explain(ASKED)  # what is tried before it is paid for has been
        with busy(world, 1.5 * SECONDS):
            began = time.monotonic()
            try:
                found: Any = connection.sql(ASKED).fetchall()
            except dpsql.EngineError as error:
                found = error
            return found, time.monotonic() - began


@pytest.mark.slow
def test_a_question_that_waits_for_executors_is_answered_when_it_has_them(
    world: SparkWorld, tmp_path: Path
) -> None:
    found, seconds = ask(world, tmp_path)
    assert not isinstance(found, Exception), found
    assert len(found) == 3
    assert seconds > SECONDS  # it has waited


@pytest.mark.slow
def test_without_the_clock_it_ends_and_its_account_is_suspended(
    world: SparkWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExecutorClock, "start", lambda self: None)
    found, _ = ask(world, tmp_path)
    assert isinstance(found, dpsql.EngineError)
    assert found.code == "time_limit"


def test_a_statement_whose_own_tasks_run_ends_in_time(world: SparkWorld) -> None:
    engine = world.engine({"visits": VISITS})
    began = time.monotonic()
    with engine.run(3) as run, pytest.raises(EngineError):
        unread(run).exact(world.endless, (), ["m"])
    assert run.expired
    assert time.monotonic() - began < 30

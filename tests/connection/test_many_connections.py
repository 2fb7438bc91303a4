"""Many connections to one engine: an end to one query is no end to another's, and each is light."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.ledger import Ledger
from dpsql.policy.limits import Limits
from dpsql.policy.model import AccountPolicy

OTHER = "bob"
QUESTION = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
STAGED = "SELECT k, MEDIAN(n) AS n FROM visits GROUP BY k"
FOREVER = "SELECT q.* FROM ({0}) q JOIN range(20_000_000_000) r(i) ON hash(r.i) = 7"
SECONDS = (
    "SELECT q.* FROM ({0}) q JOIN "
    "(SELECT count(*) AS c FROM range(400_000_000) r(i) WHERE hash(i) % 3 = 1) ON c > 0"
)
"""Statements around generated ones: the first never ends, the second ends after a while."""

Open = Callable[..., dpsql.Connection]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDBEngine]:
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        pass
    opened = DuckDBEngine(path)
    yield opened
    opened.close()


@pytest.fixture
def open_one(engine: DuckDBEngine, tmp_path: Path) -> Iterator[Open]:
    """Connections of two analysts to one engine and one ledger."""
    accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, OTHER)}
    with Ledger.open(tmp_path / "budget.db") as ledger:

        def opened(analyst: str = ANALYST, seconds: float = 60.0) -> dpsql.Connection:
            rules = replace(policy(None, **accounts), limits=Limits(seconds=seconds))
            return dpsql.connect(engine, rules, ledger, analyst)

        yield opened


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What generated SQL runs inside, by the name of the thread that has it generated."""
    patterns: dict[str, str] = {}
    rewrite = dpsql.pipeline.prepare.rewrite

    def rewritten(*given: object) -> str:
        pattern = patterns.get(threading.current_thread().name.partition("_")[0], "{0}")
        return pattern.format(rewrite(*given))

    monkeypatch.setattr("dpsql.pipeline.prepare.rewrite", rewritten)
    return patterns


def ask(connection: dpsql.Connection, sql: str = QUESTION) -> str | int:
    """How many rows the answer has, or the code of the failure."""
    try:
        return len(connection.sql(sql).fetchall())
    except dpsql.EngineError as error:
        return error.code


def reads(connection: dpsql.Connection) -> bool:
    """Whether a statement of the connection over private rows has been begun."""
    run = connection._run
    return run is not None and bool(run._cursors)  # type: ignore[attr-defined]


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_interrupt_ends_the_query_of_its_own_connection_alone(
    open_one: Open, lasting: dict[str, str]
) -> None:
    lasting |= {"ana": FOREVER, "bob": SECONDS}
    ana, bob = open_one(), open_one(OTHER)
    with ThreadPoolExecutor(1, "ana") as one, ThreadPoolExecutor(1, "bob") as two:
        ended, answered = one.submit(ask, ana), two.submit(ask, bob)
        until(lambda: reads(ana) and reads(bob))
        while not ended.done():
            ana.interrupt()
            time.sleep(0.02)
        assert not answered.done(), "it was running when the other one was interrupted"
        assert ended.result() == "interrupted"
        assert answered.result() == 7
    assert (ana.budget().unsettled, bob.budget().unsettled) == (1, 0)
    assert bob.budget().queries == 1
    # The engine answers whoever was interrupted, and the answer that was paid for is given again.
    assert ask(ana) == 7
    assert bob.sql(QUESTION).cost.stored


def test_the_time_limit_of_one_connection_does_not_end_the_query_of_another(
    open_one: Open, lasting: dict[str, str]
) -> None:
    lasting |= {"ana": FOREVER, "bob": SECONDS}
    ana, bob = open_one(seconds=0.3), open_one(OTHER)
    with ThreadPoolExecutor(1, "ana") as one, ThreadPoolExecutor(1, "bob") as two:
        answered = two.submit(ask, bob)
        until(lambda: reads(bob))
        assert one.submit(ask, ana).result() == "time_limit"
        assert not answered.done(), "it was running when the time of the other one was over"
        assert answered.result() == 7
    assert (ana.budget().unsettled, bob.budget().unsettled) == (1, 0)
    with open_one(OTHER) as again:
        assert ask(again, STAGED) == 7


def test_an_interrupt_while_nothing_runs_ends_nothing_later(open_one: Open) -> None:
    with open_one() as con:
        con.interrupt()
        assert ask(con) == 7
        con.interrupt()
        assert ask(con, STAGED) == 7
        assert con.budget().unsettled == 0

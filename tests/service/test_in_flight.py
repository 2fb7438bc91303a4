"""One account that asks the same question twice at once pays for it once."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.pipeline.events import ChargeReserved, SessionEvent
from dpsql.policy.model import AccountPolicy
from dpsql.service import in_flight
from dpsql.service.in_flight import InFlight, Turns

OTHER = "bob"
COUNT = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
SECONDS = 20.0


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[dpsql.Dataset]:
    accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, OTHER)}
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.open_dataset(path, policy(None, **accounts), tmp_path / "budget.db") as opened,
    ):
        yield opened


class Held:
    """Stops a session where it has reserved, until it may go on, or fail."""

    def __init__(self) -> None:
        self.reserved = threading.Event()
        self.going = threading.Event()
        self.fails = False

    def __call__(self, event: SessionEvent) -> None:
        if isinstance(event, ChargeReserved):
            self.reserved.set()
            assert self.going.wait(SECONDS)
            if self.fails:
                raise RuntimeError("the first one fails")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def asking(
    dataset: dpsql.Dataset,
    analyst: str = ANALYST,
    name: str = "",
    *,
    fresh: bool = False,
    seconds: float | None = None,
) -> Callable[[], dpsql.Result]:
    def ask() -> dpsql.Result:
        with dataset.session(analyst, session=name) as session:
            return session.prepare(COUNT).run(fresh=fresh, seconds=seconds)

    return ask


def first(pool: ThreadPoolExecutor, dataset: dpsql.Dataset, held: Held) -> Future[dpsql.Result]:
    """Ask the question, and go no further than its reservation."""

    def ask() -> dpsql.Result:
        with dataset.session(ANALYST, observer=held) as session:
            return session.sql(COUNT)

    found = pool.submit(ask)
    assert held.reserved.wait(SECONDS)
    return found


def paid(dataset: dpsql.Dataset, analyst: str = ANALYST) -> int:
    with dataset.session(analyst) as session:
        return session.budget().queries


def waiting(*futures: Future[dpsql.Result]) -> bool:
    """Tell whether all still wait a while later."""
    time.sleep(0.3)
    return not any(each.done() for each in futures)


def test_whoever_asks_the_same_at_once_waits_and_pays_nothing(
    dataset: dpsql.Dataset, pool: ThreadPoolExecutor
) -> None:
    held = Held()
    one = first(pool, dataset, held)
    others = [pool.submit(asking(dataset, name=name)) for name in ("", "s1", "s2")]
    assert waiting(*others)
    assert paid(dataset) == 1
    held.going.set()
    rows = one.result(SECONDS).fetchall()
    for each in others:
        assert each.result(SECONDS).fetchall() == rows
        assert each.result().cost.stored
    assert not one.result().cost.stored
    assert paid(dataset) == 1


def test_without_turns_both_would_pay(
    dataset: dpsql.Dataset, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InFlight, "take", lambda *_: None)
    held = Held()
    one = first(pool, dataset, held)
    assert not pool.submit(asking(dataset)).result(SECONDS).cost.stored
    held.going.set()
    assert not one.result(SECONDS).cost.stored
    assert paid(dataset) == 2


def test_other_accounts_other_questions_and_fresh_ones_wait_for_nobody(
    dataset: dpsql.Dataset, pool: ThreadPoolExecutor
) -> None:
    held = Held()
    one = first(pool, dataset, held)
    assert not pool.submit(asking(dataset, OTHER)).result(SECONDS).cost.stored
    assert not pool.submit(asking(dataset, fresh=True)).result(SECONDS).cost.stored
    with dataset.session(ANALYST) as session:
        assert not session.sql(COUNT, epsilon=0.5).cost.stored
    held.going.set()
    one.result(SECONDS)


def test_where_the_first_one_fails_the_next_one_goes_on_and_pays(
    dataset: dpsql.Dataset, pool: ThreadPoolExecutor
) -> None:
    held = Held()
    held.fails = True
    one = first(pool, dataset, held)
    others = [pool.submit(asking(dataset)) for _ in range(3)]
    assert waiting(*others)
    held.going.set()
    with pytest.raises(RuntimeError, match="the first one fails"):
        one.result(SECONDS)
    assert sorted(each.result(SECONDS).cost.stored for each in others) == [False, True, True]
    assert paid(dataset) == 2  # what the first one had reserved stays spent


def test_a_wait_is_interrupted_and_has_a_deadline_of_its_own(
    dataset: dpsql.Dataset, pool: ThreadPoolExecutor
) -> None:
    held = Held()
    one = first(pool, dataset, held)
    began = time.monotonic()
    with fails_with("statement_timeout"):
        pool.submit(asking(dataset, seconds=0.4)).result(SECONDS)
    assert 0.3 < time.monotonic() - began < 10
    with dataset.session(ANALYST) as session:
        other = pool.submit(session.sql, COUNT)
        assert waiting(other)
        session.interrupt()
        with fails_with("interrupted"):
            other.result(SECONDS)
        again = pool.submit(session.sql, COUNT)  # what came before does not end this one
        assert waiting(again, one)
        held.going.set()
        assert again.result(SECONDS).fetchall() == one.result(SECONDS).fetchall()
    assert paid(dataset) == 1


def test_a_question_inside_of_itself_waits_for_no_end_of_its_own_thread(
    dataset: dpsql.Dataset,
) -> None:
    inner: list[dpsql.Result] = []

    def asks(event: SessionEvent) -> None:
        if isinstance(event, ChargeReserved) and not inner:
            inner.append(asking(dataset)())

    with dataset.session(ANALYST, observer=asks) as session:
        session.sql(COUNT)
    assert len(inner) == 1


def test_the_turn_of_a_call_that_is_gone_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flights = InFlight()
    monkeypatch.setattr(in_flight, "_here", lambda: (os.getpid(), 0))
    left = in_flight._Turn()
    assert flights.take((ANALYST, "q"), left) is None
    monkeypatch.undo()
    assert flights.take((ANALYST, "q"), in_flight._Turn()) is left.running
    del left
    gc.collect()
    with Turns(flights, ANALYST).taken("q"):
        assert len(flights._turns) == 1
    assert not flights._turns


def test_no_turn_outlives_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    flights = InFlight()
    monkeypatch.setattr(in_flight, "_here", lambda: (os.getpid() + 1, 0))
    parent = in_flight._Turn()
    assert flights.take((ANALYST, "q"), parent) is None
    monkeypatch.undo()
    with Turns(flights, ANALYST).taken("q"):
        pass
    parent.running.release()

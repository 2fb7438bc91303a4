"""Ctrl-C at any line of the ledger leaves nothing held: the next call works, in any thread."""

from __future__ import annotations

import gc
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.interrupts import interrupted_in
from helpers.ledgers import PLAN, RHO
from helpers.present import present

import dpsql
from dpsql.errors import LedgerError
from dpsql.ledger import Cause, Ledger
from dpsql.ledger.transactions import Turn
from dpsql.policy.load import parse_policy

HOME = str(Path(dpsql.__file__).parent / "ledger")
interrupted = partial(interrupted_in, HOME)
ALICE = RHO.account("sales/alice")
PATIENCE = 2.0


def ask(ledger: Ledger, query: str = "f") -> Any:
    return ledger.reserve(ALICE.path, RHO.amount(10, 1), query=query, plan=PLAN, limits=[ALICE])


def in_another_thread(work: Callable[[], object]) -> None:
    """Raises what ``work`` raises there."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised again, in this thread)
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def require_usable(ledger: Ledger, place: Any) -> None:
    """Another thread may charge at once, and so may somebody else who has the ledger open."""
    in_another_thread(lambda: ask(ledger))
    ask(ledger)
    with Ledger.open(place, busy_timeout=PATIENCE) as other:
        ask(other)


def works(ledger: Ledger) -> dict[str, Callable[[], Callable[[], object]]]:
    """By name, what makes the work that is to be interrupted."""
    owner = ledger.owner("olga")

    def settling() -> Callable[[], object]:
        charge = ask(ledger)
        return lambda: ledger.settle(charge, RHO.amount(1, 1), b"answer")

    def failing() -> Callable[[], object]:
        owner.suspend("sales/alice")
        owner.reopen("sales/alice")
        charge = ask(ledger)
        return lambda: ledger.fail(charge, "sales/alice", Cause.ENGINE)

    def always(work: Callable[[], object]) -> Callable[[], Callable[[], object]]:
        return lambda: work

    return {
        "reserve": always(lambda: ask(ledger)),
        "settle": settling,
        "fail": failing,
        "stored": always(lambda: ledger.stored("sales", "f")),
        "standing": always(lambda: ledger.standing("sales/alice")),
        "history": always(lambda: ledger.history("sales", 1)),
        "head": always(ledger.head),
        "limit": always(lambda: owner.set_limits("sales", RHO.amount(10**9, 10**9))),
        "window": always(lambda: owner.open_window("sales/alice")),
        "forget": always(lambda: owner.forget("sales")),
        "create": always(lambda: owner.create(f"sales/{time.monotonic_ns()}")),
    }


NAMES = (
    *("reserve", "settle", "fail", "stored", "standing", "history", "head"),
    *("limit", "window", "forget", "create"),
)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_after_an_interrupt_at_any_line_the_next_call_works(path: Path, name: str) -> None:
    with Ledger.open(path, busy_timeout=PATIENCE) as ledger:
        ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
        make = works(ledger)[name]
        moment, kept = 0, []
        while True:
            caught = interrupted(make(), moment)
            if caught is None:
                break
            kept.append(caught)
            if ledger.standing("sales/alice")[-1].suspended:
                ledger.owner("olga").reopen("sales/alice")
            require_usable(ledger, path)
            moment += 1 if moment < 60 else 3
        assert len(kept) > 10
        assert ledger.verify().sound


@pytest.mark.slow
def test_an_interrupt_while_a_connection_is_made_again_is_survived(path: Path) -> None:
    with Ledger.open(path, busy_timeout=PATIENCE) as ledger:
        ask(ledger)
        moment, kept = 0, []
        while True:
            ledger._link.let_go()  # as before a fork
            ledger._link.take_up()
            caught = interrupted(ledger.head, moment)
            if caught is None:
                break
            kept.append(caught)
            require_usable(ledger, path)
            moment += 1
        assert len(kept) > 30
        assert ledger.verify().sound


@pytest.mark.slow
def test_interrupts_on_a_server_leave_nothing_held(postgres_server: Any) -> None:
    url = postgres_server.without_ledger()
    with Ledger.open(url, busy_timeout=PATIENCE) as ledger:
        ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
        for name in ("reserve", "settle", "stored"):
            make = works(ledger)[name]
            moment, kept = 0, []
            while (caught := interrupted(make(), moment)) is not None:
                kept.append(caught)
                in_another_thread(lambda: ask(ledger))
                moment += 7
            require_usable(ledger, url)
            assert len(kept) > 3
        assert ledger.verify().sound


@pytest.fixture
def alarms() -> Iterator[None]:
    """Whatever is interrupted, the handler and the collector are those of before afterwards."""
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)
    gc.enable()


class interrupts:  # noqa: N801 - stands after ``with``
    """A real signal after some seconds, which may come between any two instructions.

    Not in a garbage collection: what other libraries hang on those cannot raise. No generator: one
    that was interrupted on its way in would be closed by whichever thread finds it.
    """

    def __init__(self, after: float) -> None:
        self._after = after

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        gc.disable()
        signal.setitimer(signal.ITIMER_REAL, self._after)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()


@pytest.mark.usefixtures("alarms")
@pytest.mark.slow
def test_real_interrupts_at_random_moments_leave_nothing_held(path: Path) -> None:
    chance, count, kept = random.Random(7), 0, []
    with Ledger.open(path, busy_timeout=PATIENCE) as ledger:
        ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
        started = time.perf_counter()
        for _ in range(20):
            ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
        usual = (time.perf_counter() - started) / 20
        for _ in range(300):
            try:
                with interrupts(chance.uniform(1e-5, 1.2 * usual)):
                    ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
                    ledger.stored("sales/alice", "f")
            except KeyboardInterrupt as caught:
                count += 1
                kept.append(caught)
            in_another_thread(ledger.head)
        require_usable(ledger, path)
        assert count > 50
        assert ledger.verify().sound


@pytest.mark.usefixtures("alarms")
@pytest.mark.slow
def test_a_connection_that_was_interrupted_at_random_moments_can_be_used_by_any_thread(
    path: Path,
) -> None:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", {"uid": np.arange(3000)})
    policy = parse_policy(POLICY)
    chance, kept = random.Random(11), []
    with dpsql.connect(engine, policy, path, "ana") as connection:
        count = "SELECT COUNT(DISTINCT uid) AS n FROM visits"
        connection.sql(count)
        started = time.perf_counter()
        connection.sql(count, fresh=True)
        usual = time.perf_counter() - started
        for _ in range(60):
            try:
                with interrupts(chance.uniform(1e-5, 1.2 * usual)):
                    connection.sql(count, fresh=True)
            except KeyboardInterrupt as caught:  # never a failure of the engine
                kept.append(caught)
            in_another_thread(lambda: connection.sql(count))
        assert kept
        connection.sql(count, fresh=True)
    with Ledger.open(path) as ledger:
        assert ledger.verify().sound


POLICY = """\
version: 1
dataset: clinic
accounts: {ana: {epsilon: 900, delta: 1e-3}}
tables: {visits: {privacy_unit: {name: person, column: uid}}}
"""


# The lock by itself


def test_a_turn_is_left_whatever_is_raised_and_waits_no_longer_than_asked() -> None:
    turn = Turn()
    for error in (ValueError("x"), RuntimeError("y"), KeyboardInterrupt()):

        def work(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as raised:
            turn.run(work, 1)
        assert raised.value is error
        in_another_thread(lambda: turn.run(lambda: None, 1))
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        done.wait(30)

    thread = threading.Thread(target=turn.run, args=(hold, 1))
    thread.start()
    inside.wait(30)
    with fails_with("ledger_busy") as refusal:
        turn.run(lambda: None, 0.01)
    assert refusal.value.__suppress_context__
    done.set()
    thread.join(30)
    assert turn.run(lambda: 7, 1) == 7


def test_work_inside_of_work_is_refused_and_harms_nothing(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ask(ledger)

        def nested(sql: Any) -> int:
            before = len(sql.execute("SELECT seq FROM events"))
            with fails_with("ledger_busy"):
                ask(ledger)
            return before

        assert ledger._link.write(nested) == ledger.head().seq
        ask(ledger)
        assert ledger.verify().sound


def test_a_lock_that_is_acquired_and_then_released_by_hand_would_be_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin that the tests above are there to catch."""

    def run(self: Any, work: Callable[[], Any], patience: float) -> Any:
        if not self._lock.acquire(timeout=patience):
            raise LedgerError("busy", code="ledger_busy")
        try:
            return work()
        finally:
            self._lock.release()

    monkeypatch.setattr(Turn, "run", run)
    lost = 0
    for moment in range(6):
        ledger = Ledger.open(path, busy_timeout=0.05)
        backend = present(ledger._link._backend)  # its lock may never be free again
        # Traced lines are those of the ledger's modules: count this function among them.
        code = compile_in(HOME, run)
        monkeypatch.setattr(Turn, "run", code)
        interrupted(ledger.head, moment)
        try:
            in_another_thread(ledger.head)
        except LedgerError:
            lost += 1
        backend.close()
    assert lost > 0


def compile_in(directory: str, function: Any) -> Any:
    """The function as if it stood in a file of that directory."""
    return type(function)(
        function.__code__.replace(co_filename=f"{directory}/twin.py"),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )

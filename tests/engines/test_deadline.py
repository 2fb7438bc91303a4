"""Deadlines: what runs too long is interrupted, and nothing is interrupted that was left."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import FrameType
from typing import Any

import duckdb
import pytest

from dpsql.engines.base import deadline as module
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.spark.waiting import ExecutorClock

FOREVER = "SELECT count(*) FROM range(20_000_000_000) r(i) WHERE hash(i) = 7"


class Calls:
    """An interrupt that counts its calls, and fails now and then."""

    def __init__(self, fails: int = 0) -> None:
        self.count = 0
        self.fails = fails

    def __call__(self) -> None:
        self.count += 1
        if self.count <= self.fails:
            raise RuntimeError("the connection is closed")


def watching() -> int:
    """How many threads watch over deadlines."""
    running = (thread for thread in threading.enumerate() if thread.ident is not None)
    return sum(thread.name == module.__name__ for thread in running)


def comes_true(claim: Callable[[], bool]) -> bool:
    """Whether a claim is true within a few seconds: a thread may have to see to it."""
    end = time.monotonic() + 3
    while not claim() and time.monotonic() < end:
        time.sleep(0.005)
    return claim()


def test_what_runs_when_the_time_is_over_is_interrupted() -> None:
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    with Deadline(0.2, connection.interrupt) as limit, pytest.raises(duckdb.InterruptException):
        connection.execute(FOREVER).fetchall()
    assert limit.expired
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_what_ends_in_time_is_not_interrupted() -> None:
    calls = Calls()
    with Deadline(0.1, calls) as limit:
        pass
    time.sleep(0.2)
    assert not calls.count
    assert not limit.expired


def test_it_is_interrupted_again_and_again_until_it_is_left() -> None:
    calls = Calls()
    with Deadline(0.0, calls):
        assert comes_true(lambda: calls.count >= 5)
    before = calls.count
    time.sleep(0.1)
    assert calls.count == before


def test_a_nearer_end_is_seen_while_a_farther_one_is_waited_for() -> None:
    far, near = Calls(), Calls()
    with Deadline(60.0, far):
        time.sleep(0.05)  # now the thread waits for the far one
        with Deadline(0.05, near) as limit:
            assert comes_true(lambda: near.count > 0)
            assert limit.expired
    assert not far.count


def test_an_interrupt_that_fails_is_tried_again_and_others_are_none_the_worse() -> None:
    failing, other = Calls(fails=2), Calls()
    with Deadline(0.0, failing), Deadline(0.0, other):
        assert comes_true(lambda: failing.count > 3 and other.count > 3)


def leaves_at_its_end(seconds: float) -> bool:
    """Whether a deadline left about when its time is over was interrupted afterwards."""
    left = False
    late = False

    def interrupt() -> None:
        nonlocal late
        time.sleep(0.0002)  # so that leaving often comes while this is under way
        late = late or left

    with Deadline(seconds, interrupt):
        time.sleep(seconds)
    left = True
    return late


def test_many_deadlines_share_a_thread_and_none_is_interrupted_once_left() -> None:
    with ThreadPoolExecutor(8) as pool:
        late = list(pool.map(leaves_at_its_end, [i % 7 / 1000 for i in range(600)]))
        assert watching() == 1
    time.sleep(0.05)
    assert not any(late)


def test_leaving_waits_for_an_interrupt_that_is_under_way() -> None:
    begun, ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        begun.set()
        time.sleep(0.1)
        ended.set()

    with Deadline(0.0, interrupt):
        assert begun.wait(3)
    assert ended.is_set()


def test_the_thread_ends_when_there_is_nothing_to_watch_and_another_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_watcher", module._Watcher())  # others may watch elsewhere
    monkeypatch.setattr(module, "_IDLE", 0.001)
    before = watching()
    for pause in (i / 20_000 for i in range(60)):  # also at the moment when the thread ends
        calls = Calls()
        with Deadline(0.0, calls):
            assert comes_true(lambda calls=calls: calls.count > 0)  # type: ignore[misc]
        time.sleep(pause)
    assert comes_true(lambda: watching() <= before)


class LateNews:
    """The role of a watcher, which is told of another deadline just before it gives the role up."""

    def __init__(self, watcher: module._Watcher, late: module._Watch) -> None:
        self.role = threading.Lock()
        self.watcher = watcher
        self.late = [late]

    def acquire(self, *, blocking: bool) -> bool:
        return self.role.acquire(blocking=blocking)

    def locked(self) -> bool:
        return self.role.locked()

    def release(self) -> None:
        if self.late:
            self.watcher.add(self.late.pop())
        self.role.release()


def test_a_deadline_opened_while_the_thread_is_ending_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watcher = module._Watcher()
    monkeypatch.setattr(module, "_watcher", watcher)
    monkeypatch.setattr(module, "_IDLE", 0.001)
    calls = Calls()
    late = Deadline(0.0, calls)
    late._watch.owner = weakref.ref(late)
    watcher._role = LateNews(watcher, late._watch)  # type: ignore[assignment]
    with Deadline(0.0, list):
        pass
    assert comes_true(lambda: calls.count > 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_leaves_what_it_inherits_and_watches_what_it_opens() -> None:
    with Deadline(60.0, list):
        child = os.fork()
        if child == 0:
            calls = Calls()
            with Deadline(0.0, calls):
                seen = comes_true(lambda: calls.count > 0)
            os._exit(0 if seen else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Interrupt:
    """Raises KeyboardInterrupt at one instruction of the module or of the body that it guards."""

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.raised = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in (module.__file__, __file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not self.raised:
            if self.left == 0:
                self.raised = True
                raise KeyboardInterrupt
            self.left -= 1
        return self


def guarded(interrupt: Calls) -> None:
    """What is interrupted: a deadline that is far away."""
    with Deadline(60.0, interrupt):
        pass


def interrupted(moment: int, interrupt: Calls) -> bool:
    """Whether the guarded body was interrupted; False if it was over before."""
    trace = Interrupt(moment)
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks once, when tracing begins
    sys.settrace(trace)
    try:
        guarded(interrupt)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return trace.raised


def test_an_interrupt_at_any_moment_leaves_nothing_that_could_be_interrupted() -> None:
    """Nothing holds what the thread would have to call, and the next deadline is watched."""
    moments, raised = 0, True
    while raised:
        calls = Calls()
        held = weakref.ref(calls)
        raised = interrupted(moments, calls)
        del calls
        assert comes_true(lambda held=held: held() is None), moments  # type: ignore[misc]
        moments += 1
    assert moments > 20
    calls = Calls()
    with Deadline(0.0, calls):
        assert comes_true(lambda: calls.count > 0)


def test_a_run_that_is_dropped_without_being_left_is_watched_no_longer() -> None:
    with closing(DuckDBEngine()) as engine:
        run = engine.open(()).run(60.0)
        run.__enter__()
        assert run._deadline is not None
        interrupt = weakref.ref(run._deadline._watch.interrupt)
        time.sleep(0.05)  # now the thread waits for its end
        assert interrupt() is not None
        del run
        assert comes_true(lambda: interrupt() is None)


def test_a_deadline_that_is_put_off_ends_later() -> None:
    called = threading.Event()
    began = time.monotonic()
    with Deadline(0.2, called.set) as deadline:
        deadline.prolong(0.4)
        assert called.wait(10)
        assert deadline.expired
    assert time.monotonic() - began >= 0.6


def test_no_time_passes_while_a_deadline_is_paused() -> None:
    calls: list[None] = []
    with Deadline(0.15, lambda: calls.append(None)) as deadline:
        with deadline.paused():
            time.sleep(0.4)
        assert not deadline.expired
        assert calls == []
        time.sleep(0.4)
        before = len(calls)
        assert before
        with deadline.paused():  # what is over stays over
            time.sleep(0.2)
        assert len(calls) > before


def test_a_deadline_that_is_told_to_expire_while_it_is_paused_is_over() -> None:
    with Deadline(60, lambda: None) as deadline:
        with deadline.paused():
            deadline.expire()
        time.sleep(0.2)
        assert deadline.expired


def test_a_clock_that_nobody_stops_ends_with_its_deadline() -> None:
    """As it is where Ctrl-C comes between a deadline and what would leave it."""
    deadline = Deadline(60, lambda: None)
    before = set(threading.enumerate())
    ExecutorClock(deadline, []).start()
    (thread,) = (each for each in threading.enumerate() if each not in before)
    del deadline
    thread.join(10)
    assert not thread.is_alive()

"""Deadlines: what runs too long is interrupted, and no thread stays behind an interrupt."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from types import FrameType
from typing import Any

import duckdb
import pytest

from dpsql.engines import deadline as module
from dpsql.engines.deadline import Deadline
from dpsql.engines.duckdb import DuckDBEngine

FOREVER = "SELECT count(*) FROM range(20_000_000_000) r(i) WHERE hash(i) = 7"


def watching() -> int:
    """How many threads watch over deadlines."""
    running = (thread for thread in threading.enumerate() if thread.ident is not None)
    return sum(thread.name == module.__name__ for thread in running)


def nobody_watches() -> bool:
    end = time.monotonic() + 5
    while watching() and time.monotonic() < end:
        time.sleep(0.01)
    return watching() == 0


def test_what_runs_when_the_time_is_over_is_interrupted() -> None:
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    with Deadline(0.2, connection.interrupt) as limit, pytest.raises(duckdb.InterruptException):
        connection.execute(FOREVER).fetchall()
    assert limit.expired
    assert nobody_watches()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_what_ends_in_time_is_not_interrupted() -> None:
    calls: list[None] = []
    with Deadline(0.1, lambda: calls.append(None)) as limit:
        assert watching() == 1
    assert nobody_watches()
    time.sleep(0.2)
    assert not calls
    assert not limit.expired


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


def guarded() -> None:
    """What is interrupted: a deadline that is far away."""
    with Deadline(60.0, list):
        pass


def interrupted(moment: int) -> bool:
    """Whether the guarded body was interrupted; False if it was over before."""
    trace = Interrupt(moment)
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks once, when tracing begins
    sys.settrace(trace)
    try:
        guarded()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return trace.raised


def test_an_interrupt_at_any_moment_leaves_no_thread_behind() -> None:
    moments = 0
    while interrupted(moments):
        moments += 1
        assert watching() == 0 or nobody_watches(), moments
    assert moments > 20


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_run_that_is_dropped_without_being_left_is_watched_no_longer(
    seconds: float | None,
) -> None:
    with closing(DuckDBEngine()) as engine:
        run = engine.run(seconds)
        run.__enter__()
        assert watching() == (0 if seconds is None else 1)
        del run
        assert nobody_watches()

"""Ctrl-C while tables are loaded: answered at once, and nothing goes on behind it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import numpy as np
import pytest
from helpers.sql_text import generated

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.embedded.interruptible import interruptibly

HOURS_OF_ROWS = "SELECT i, md5(i::VARCHAR) AS h FROM range(1000000000000) t(i)"


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    # What a shell starts in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def never() -> None:
    raise AssertionError("nothing was interrupted")


def test_work_returns_what_it_does_and_raises_its_errors() -> None:
    assert interruptibly(lambda: 7, never) == 7
    with pytest.raises(duckdb.ParserException):
        interruptibly(lambda: duckdb.connect().execute("SELEC"), never)


def test_in_other_threads_work_is_done_where_it_is() -> None:
    found: list[threading.Thread] = []
    work: Callable[[], None] = lambda: found.append(threading.current_thread())  # noqa: E731
    other = threading.Thread(target=interruptibly, args=(work, never))
    other.start()
    other.join()
    assert found == [other]
    interruptibly(work, never)
    assert found[1] is not threading.main_thread()


def test_ctrl_c_ends_the_work_before_it_is_told() -> None:
    ended = threading.Event()
    interrupted: list[float] = []

    def work() -> None:
        while len(interrupted) < 3:  # deaf to the first ones
            time.sleep(0.01)
        time.sleep(0.05)
        ended.set()

    with ctrl_c_after(0.1), pytest.raises(KeyboardInterrupt):
        interruptibly(work, lambda: interrupted.append(time.monotonic()))
    assert ended.is_set()


def test_loading_a_table_is_ended_at_once_and_the_engine_goes_on() -> None:
    engine = DuckDBEngine()
    began = time.monotonic()
    with ctrl_c_after(0.3), pytest.raises(KeyboardInterrupt):
        engine._create("large", generated(HOURS_OF_ROWS))
    assert time.monotonic() - began < 10
    engine.register("small", {"k": np.array([1, 2])})
    assert [*engine.catalog().tables] == ["small"]

"""Work of an engine that does not look for Ctrl-C by itself, such as loading a large file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

_T = TypeVar("_T")
_INTERRUPTS_EVERY: Final = 0.02  # seconds: the work may be between two statements


def interruptibly(work: Callable[[], _T], interrupt: Callable[[], object]) -> _T:
    """Run work that Ctrl-C ends at once by ``interrupt``; returns the work's result.

    Raises what it raises, and ``KeyboardInterrupt`` once the work has ended. Signals come to the
    main thread alone, which waits for another one here; in others the work is done as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: Future[_T] = Future()

    def done() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 (raised again by who waits)
            outcome.set_exception(error)

    thread = threading.Thread(target=done, daemon=True, name=__name__)
    try:
        thread.start()
        return outcome.result()
    except KeyboardInterrupt:
        while thread.is_alive():
            interrupt()
            thread.join(_INTERRUPTS_EVERY)
        raise


def raise_if_interrupted(error: Exception) -> None:
    """Turn DuckDB's RuntimeError for Ctrl-C back into the KeyboardInterrupt it was."""
    if type(error) is RuntimeError and str(error) == "Query interrupted":
        raise KeyboardInterrupt from None

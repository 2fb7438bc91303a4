"""The timeout of a statement, for all that is done before anything is paid for it.

What reads private rows is ended from outside. Planning is not: it asks between its steps, and what
comes after the timeout is refused while nothing is reserved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from dpsql.errors import EngineError

NOTHING_SPENT: Final = "Nothing was spent. Give it more time, or ask for less at once."
_end: ContextVar[float] = ContextVar("_end", default=math.inf)


@contextmanager
def timed(seconds: float) -> Iterator[None]:
    """Give what is done inside so many seconds in all, infinite ones included."""
    token = _end.set(min(_end.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


def seconds_left() -> float:
    """Return the seconds left of the timeout, negative or infinite ones as well."""
    return _end.get() - time.monotonic()


def refuse_late() -> None:
    """Refuse to go on after the timeout. Raises ``EngineError`` (``statement_timeout``)."""
    if seconds_left() <= 0:
        raise statement_timeout(NOTHING_SPENT)


def statement_timeout(hint: str | None) -> EngineError:
    """Build the error of a statement that has met its timeout."""
    return EngineError(
        "the statement took longer than its timeout (statement_timeout, or seconds)",
        code="statement_timeout",
        hint=hint,
    )

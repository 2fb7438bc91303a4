"""What one world does and says, written down: SQL that is sent, log records, warnings, draws.

A tape belongs to one side of a pair of worlds. While a side is played, :func:`playing` makes its
tape the current one; what is taken over for that (clock, ids, salts, noise) comes from named seeds,
so that two sides differ in nothing but their rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.sql import Sql
from dpsql.engines.base import twin
from dpsql.engines.duckdb import engine as duckdb_engine
from dpsql.engines.duckdb import reading as duckdb_reading
from dpsql.engines.duckdb.reading import KnownStatements
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.privacy.sampling.entropy import OSEntropy

START: Final = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
"""When every program begins."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement that was sent to an engine, and by which module of dpsql's."""

    module: str
    sql: str
    values: str


@dataclass
class Tape:
    """One side: its clock, its seeds, and what was written down since :meth:`cut`."""

    seed: str
    side: str = ""
    now: datetime = START
    sent: list[Sent] = field(default_factory=list)
    inside: list[Sent] = field(default_factory=list)  # sent while noise is drawn
    logged: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    words: list[NDArray[np.uint64]] = field(default_factory=list)  # given out while noise is drawn
    primitives: list[str] = field(default_factory=list)  # that drew, with all they are
    noises: list[list[NDArray[np.int64]]] = field(default_factory=list)  # of steps of views
    drawing: int = 0  # primitives that draw for each other now
    adaptive: bool = False  # what is drawn now follows from what was drawn just before
    depth: int = 0  # of the door: above zero while noise is drawn
    counted: Counter[str] = field(default_factory=Counter)
    known: KnownStatements = field(default_factory=KnownStatements)  # to the last reading
    _drawn: Counter[str] = field(default_factory=Counter)
    _step: int = 0

    def begin(self, step: int) -> None:
        """Begin a step of a program: named seeds start again, so that sides stay together."""
        self._step = step
        self._drawn.clear()
        for kept in (
            *(self.sent, self.inside, self.logged, self.warned, self.words, self.primitives),
        ):
            kept.clear()

    def bytes(self, name: str, n: int) -> bytes:
        """The next ``n`` bytes of a named seed; of noise, those of this side alone."""
        side = self.side if name == "noise" else ""
        number = self._drawn[name]
        self._drawn[name] += 1
        label = f"{self.seed}:{side}:{self._step}:{name}:{number}".encode()
        return hashlib.shake_256(label).digest(n)


_current: Tape | None = None
_lock = threading.RLock()


def current() -> Tape | None:
    """The tape of the side that is played now."""
    return _current


@contextlib.contextmanager
def playing(tape: Tape) -> Iterator[Tape]:
    """Write down what is done inside on a tape."""
    global _current
    with _lock:
        before, _current = _current, tape
        known, duckdb_reading.KNOWN = duckdb_reading.KNOWN, tape.known
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _warned
            yield tape
    finally:
        with _lock:
            _current = before
            duckdb_reading.KNOWN = known


def _warned(message: Any, category: Any, *_: Any, **__: Any) -> None:
    if _current is not None:
        _current.warned.append(f"{category.__name__}: {message}")


# -- taking over ---------------------------------------------------------------------------------

_Method = Callable[..., Any]
_REAL_IDS: Final = frozenset(
    {"dpsql.engines.duckdb.spill"}
)  # names of directories, of which each has one


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if _current is not None:
            _current.logged.append(f"{record.levelname} {record.name} {record.getMessage()}")


_RUNS: Final = "dpsql.engines.embedded.running"  # which makes text of SQL, for all others


def note(module: str, sql: object, values: object = None) -> None:
    """Write down a statement."""
    tape = _current
    if tape is None:
        return
    text = sql.render(DUCKDB_TEXT) if isinstance(sql, Sql) else str(sql)
    sent = Sent(module, text, "" if values is None else repr(values))
    with _lock:
        (tape.inside if tape.depth else tape.sent).append(sent)
        tape.counted["statements sent"] += 1


def _caller() -> str:
    """The module that has a statement run, whoever makes its text."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == _RUNS and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "?"))


def _noting(method: _Method) -> _Method:
    def run(self: Any, sql: Any = "", *args: Any, **named: Any) -> Any:
        if _current is not None:
            values = args or [v for v in named.values() if v is not None]
            note(_caller(), sql, values or None)
        return method(self, sql, *args, **named)

    return run


def _seeded(name: str, original: _Method, make: Callable[[Tape, Any], Any]) -> _Method:
    def draw(*args: Any) -> Any:
        tape = _current
        caller = sys._getframe(1).f_globals.get("__name__", "?")
        if tape is None or not caller.startswith("dpsql.") or caller in _REAL_IDS:
            return original(*args)
        tape.counted["ids drawn"] += 1
        return make(tape, *args)

    draw.__name__ = name
    return draw


def _words(original: _Method) -> _Method:
    def words(self: OSEntropy, n: int) -> NDArray[np.uint64]:
        tape = _current
        if tape is None:
            found: NDArray[np.uint64] = original(self, n)
            return found
        tape.counted["noise words"] += n
        given = np.frombuffer(tape.bytes("noise", 8 * n), dtype=np.uint64)
        if tape.depth:
            tape.words.append(given)
        return given

    return words


@contextlib.contextmanager
def taken_over() -> Iterator[None]:
    """Have tapes written, and named seeds in place of clock, ids, salts and noise, while inside."""
    patches: list[tuple[Any, str, Any]] = []

    def patch(target: Any, name: str, value: Any) -> None:
        patches.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    for method in ("execute", "sql", "query"):
        original = getattr(duckdb.DuckDBPyConnection, method)
        patch(duckdb.DuckDBPyConnection, method, _noting(original))
    drawn: dict[str, Callable[..., Any]] = {
        "token_hex": lambda tape, n: tape.bytes("ids", n).hex(),
        "token_bytes": lambda tape, n: tape.bytes("ids", n),
        "randbits": lambda tape, n: (
            int.from_bytes(tape.bytes("ids", (n + 7) // 8)) & ((1 << n) - 1)
        ),
    }
    for name, make in drawn.items():
        patch(secrets, name, _seeded(name, getattr(secrets, name), make))
    patch(OSEntropy, "words", _words(OSEntropy.words))
    real = time.time_ns
    patch(time, "time_ns", lambda: real() if _current is None else _nanoseconds(_current.now))
    patch(duckdb_engine, "last_written", _said_to_be_written)  # a file's own clock is the kernel's
    patch(twin, "_SECONDS", 60.0)  # a busy machine is no difference between worlds
    handler, logger = _Handler(), logging.getLogger("dpsql")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        for target, name, value in reversed(patches):
            setattr(target, name, value)


def _said_to_be_written(path: str | os.PathLike[str]) -> datetime | None:
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    return None


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp()) * 10**9

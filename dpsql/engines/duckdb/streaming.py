"""Streams of rows from DuckDB: integers, for work on the rows in this process.

That work has a share of the memory that the engine may take, which streams divide among them, and a
file in the engine's directory for what is beyond. It needs pyarrow, to read what DuckDB streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import RawIOBase
from threading import Lock
from typing import Any, Final
from weakref import finalize

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.sql import sql
from dpsql.engines.duckdb.spill import Spill
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.running import execute

PART: Final = 8
"""Beside an engine, work on its streams may take one part in so many of the engine's memory."""
_UNITS: Final = {
    unit: 1 << 10 * power
    for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
}
_LEAST: Final = 16_000_000  # bytes
_INTERRUPTED: Final = "INTERRUPT Error:"
_NO_MEMORY: Final = "Out of Memory Error:"
"""How DuckDB's errors begin, whatever rows there are, where Arrow has them as text alone."""


def memory_taken(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the bytes that a connection's engine may take, about."""
    (text,) = execute(connection, sql("SELECT current_setting('memory_limit')")).fetchall()[0]
    number, unit = str(text).split()
    return int(float(number) * _UNITS[unit])


class StreamMemory:
    """The bytes that all streams of an engine may take together; safe for threads."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._streams = 0
        self._lock = Lock()

    @property
    def share(self) -> int:
        """The part of one stream, of those there are now."""
        return max(_LEAST, self._total // max(1, self._streams))

    def begin(self) -> None:
        """Count a stream."""
        with self._lock:
            self._streams += 1

    def end(self) -> None:
        """Count one less."""
        with self._lock:
            self._streams -= 1


class Halt:
    """Tells work outside of the engine that its statement was interrupted."""

    def __init__(self) -> None:
        self.called = False

    def interrupt(self) -> None:
        """Have the work end at its next step. For other threads to call."""
        self.called = True


@dataclass(frozen=True, slots=True)
class Streaming:
    """The resources of streams: memory, a directory for spilled rows, and the halt of a run."""

    memory: StreamMemory
    spill: Spill
    halt: Halt = field(default_factory=Halt)


class DuckDBStream:
    """The rows of a bound query, which runs while they are read."""

    def __init__(self, rows: duckdb.DuckDBPyRelation, streaming: Streaming) -> None:
        self._rows = rows
        self._streaming = streaming
        streaming.memory.begin()
        finalize(self, streaming.memory.end)

    def __iter__(self) -> Iterator[Sequence[NDArray[Any]]]:
        import pyarrow as pa

        with _by_kind(lambda: pa.RecordBatchReader.from_stream(self._rows)) as reader:
            while (batch := _by_kind(lambda: next(reader, None))) is not None:
                yield [_integers(column) for column in batch.columns]

    def proceed(self) -> None:
        """Raise ``InterruptException`` if the statement was interrupted."""
        if self._streaming.halt.called:
            raise duckdb.InterruptException

    @property
    def share(self) -> int:
        """The bytes that work on the stream may take."""
        return self._streaming.memory.share

    def file(self) -> RawIOBase:
        """Open a file in the engine's directory."""
        return self._streaming.spill.file()


def _by_kind(step: Callable[[], Any]) -> Any:
    """Do a step of reading; an error that Arrow has made a text of is one of DuckDB's again."""
    kind: type[Exception]
    try:
        return step()
    except (duckdb.Error, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (replaced by one without its text)
        raise_if_interrupted(error)
        text = str(error)
        kind = duckdb.Error
        if text.startswith(_INTERRUPTED):
            kind = duckdb.InterruptException
        elif text.startswith(_NO_MEMORY):
            kind = duckdb.OutOfMemoryException
    raise kind


def _integers(column: Any) -> NDArray[Any]:
    """Return the values of an Arrow array where they are: integers, none of them NULL."""
    found: NDArray[Any] = np.from_dlpack(column)
    if found.dtype.kind != "i" or not np.can_cast(found.dtype, np.int64):
        raise duckdb.Error
    return found

"""Pairs of units and groups, kept to be read again.

A draw of bounds and the answer that is bounded are of the same pairs, and so are the steps of a
cascade.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dpsql.bounding.array_file import ArrayFile
from dpsql.bounding.pairs import Pairs
from dpsql.engines.base.engine import IntegerStream

_INTEGER: Final = np.dtype(np.int64)
_PART: Final = 4
"""Kept pairs may take one part in so many of the memory of their stream."""


@dataclass(frozen=True, slots=True)
class KeptPairs:
    """The pairs of all units of a stream. As long as they are there, the stream has its memory."""

    parts: tuple[Pairs, ...]
    stream: IntegerStream

    def __iter__(self) -> Iterator[Pairs]:
        for part in self.parts:
            self.stream.proceed()
            yield part

    def of_fields(self, places: Sequence[int]) -> KeptPairs:
        """Return the same pairs with some of the fields alone."""
        parts = (
            replace(part, numbers=tuple(part.numbers[place] for place in places))
            for part in self.parts
        )
        return KeptPairs(tuple(parts), self.stream)


class PairKeeper:
    """Keeps the pairs that pass by, as long as their part of the memory holds all of them."""

    def __init__(self, stream: IntegerStream) -> None:
        self._stream = stream
        self._parts: list[Pairs] | None = []
        self._bytes = 0

    def passing(self, pairs: Iterable[Pairs]) -> Iterator[Pairs]:
        """Yield pairs, each part of them after it was kept."""
        for part in pairs:
            self._bytes += part.nbytes
            if self._bytes > self._stream.share // _PART:
                self._parts = None
            if self._parts is not None:
                self._parts.append(part)
            yield part

    def kept(self) -> KeptPairs | None:
        """Return all pairs so far; None if they are too many to keep."""
        return None if self._parts is None else KeptPairs(tuple(self._parts), self._stream)


@dataclass(frozen=True, slots=True)
class _Spilled:
    """Pairs in a file: the place of their first column, and how many there are."""

    place: int
    pairs: int


class AllPairs:
    """All pairs of a stream, to be read again and again: beyond their part of memory, of a file.

    What memory holds is decided without a change to what is read: no rows choose another maker.
    """

    def __init__(self, stream: IntegerStream, pairs: Iterable[Pairs]) -> None:
        self._stream = stream
        self._file = ArrayFile(stream.file)
        self._parts: list[Pairs | _Spilled] = []
        self._fields = 0
        kept = 0
        for part in pairs:
            self._fields = len(part.numbers)
            kept += part.nbytes
            if kept > stream.share // _PART:
                kept -= part.nbytes
                self._parts.append(self._written(part))
            else:
                self._parts.append(part)

    def __iter__(self) -> Iterator[Pairs]:
        for part in self._parts:
            self._stream.proceed()
            yield self._read(part) if isinstance(part, _Spilled) else part

    def close(self) -> None:
        """Give the file up."""
        self._file.close()

    def _written(self, part: Pairs) -> _Spilled:
        columns = (part.units, part.groups, *part.numbers)
        place, *_ = [self._file.write(each) for each in columns]
        return _Spilled(place, len(part))

    def _read(self, part: _Spilled) -> Pairs:
        types: list[np.dtype[Any]] = [np.dtype(np.uint64)] + [_INTEGER] * (1 + self._fields)
        units, groups, *numbers = (
            self._file.read(part.place + number * part.pairs * type_.itemsize, part.pairs, type_)
            for number, type_ in enumerate(types)
        )
        return Pairs(units, groups, tuple(numbers))

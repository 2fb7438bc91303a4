"""Pairs of units and groups, kept to be read again.

A draw of bounds and the answer that is bounded are of the same pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dpsql.bounding.pairs import Pairs
from dpsql.engines.base.engine import IntegerStream

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

"""Pairs of units and groups, kept to be read again.

A draw of bounds and the answer that is bounded are of the same pairs, and so are the steps of a
cascade.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from dpsql.bounding.array_file import ArrayFile
from dpsql.bounding.pairs import Pairs
from dpsql.bounding.units import GatheredUnits
from dpsql.engines.base.engine import IntegerStream

_PART: Final = 4
"""Kept pairs may take one part in so many of the memory of their stream; others are in a file."""
_INTEGER: Final = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class _Spilled:
    """Pairs in a file: the place of their first column, their number, and that of their fields."""

    place: int
    pairs: int
    fields: int


@dataclass(frozen=True, slots=True)
class KeptPairs:
    """The pairs of all units of a stream, in memory and in a file: some units at once or in parts.

    As long as they are there, the stream has its memory. Where they lie follows from their number,
    and changes nothing of what is read.
    """

    units: Sequence[tuple[Pairs | _Spilled, ...]]
    stream: IntegerStream
    file: ArrayFile
    places: Sequence[int] | None = None

    @classmethod
    def of(cls, stream: IntegerStream, whole: Iterable[GatheredUnits]) -> KeptPairs:
        """Keep all units of a stream."""
        file, kept = ArrayFile(stream.file), 0

        def stored(pairs: Pairs) -> Pairs | _Spilled:
            nonlocal kept
            if kept + pairs.nbytes <= stream.share // _PART:
                kept += pairs.nbytes
                return pairs
            place, *_ = [file.write(each) for each in (pairs.units, pairs.groups, *pairs.numbers)]
            return _Spilled(place, len(pairs), len(pairs.numbers))

        return cls([tuple(map(stored, some.parts)) for some in whole], stream, file)

    def __len__(self) -> int:
        parts = (part for some in self.units for part in some)
        return sum(part.pairs if isinstance(part, _Spilled) else len(part) for part in parts)

    def __iter__(self) -> Iterator[GatheredUnits]:
        for some in self.units:
            yield GatheredUnits.of(partial(self._pairs, some), divided=len(some) > 1)

    def _pairs(self, some: tuple[Pairs | _Spilled, ...]) -> Iterator[Pairs]:
        for part in some:
            self.stream.proceed()
            pairs = self._read(part) if isinstance(part, _Spilled) else part
            if self.places is not None:
                pairs = replace(pairs, numbers=tuple(pairs.numbers[place] for place in self.places))
            yield pairs

    def of_fields(self, places: Sequence[int]) -> KeptPairs:
        """Return the same pairs with some of the fields alone."""
        return replace(self, places=places)

    def _read(self, part: _Spilled) -> Pairs:
        types: list[np.dtype[Any]] = [np.dtype(np.uint64)] + [_INTEGER] * (1 + part.fields)
        units, groups, *numbers = (
            self.file.read(part.place + number * part.pairs * type_.itemsize, part.pairs, type_)
            for number, type_ in enumerate(types)
        )
        return Pairs(units, groups, tuple(numbers))

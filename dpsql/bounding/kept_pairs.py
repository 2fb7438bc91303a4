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
    """The pairs of all units of a stream, in memory and in a file.

    As long as they are there, the stream has its memory. Where they lie follows from their number,
    and changes nothing of what is read.
    """

    parts: Sequence[Pairs | _Spilled]
    stream: IntegerStream
    file: ArrayFile
    places: Sequence[int] | None = None

    @classmethod
    def of(cls, stream: IntegerStream, pairs: Iterable[Pairs]) -> KeptPairs:
        """Keep all pairs of a stream."""
        file, kept, parts = ArrayFile(stream.file), 0, list[Pairs | _Spilled]()
        for part in pairs:
            kept += part.nbytes
            if kept <= stream.share // _PART:
                parts.append(part)
                continue
            kept -= part.nbytes
            place, *_ = [file.write(each) for each in (part.units, part.groups, *part.numbers)]
            parts.append(_Spilled(place, len(part), len(part.numbers)))
        return cls(parts, stream, file)

    def __len__(self) -> int:
        return sum(part.pairs if isinstance(part, _Spilled) else len(part) for part in self.parts)

    def __iter__(self) -> Iterator[Pairs]:
        for part in self.parts:
            self.stream.proceed()
            whole = self._read(part) if isinstance(part, _Spilled) else part
            if self.places is not None:
                numbers = tuple(whole.numbers[place] for place in self.places)
                whole = replace(whole, numbers=numbers)
            yield whole

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

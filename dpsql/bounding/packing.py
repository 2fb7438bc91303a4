"""Rows as words of 64 bits: group and steps of a row lie side by side, its unit before them.

How many bits each takes follows from public bounds. Units that are too large for what is left of
the first word lie beside it. So most rows are one number each, which is moved and sorted as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.specification import Specification

PackedWords = NDArray[np.uint64]

WORD_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column lies: its values less ``least``, which are below ``size``."""

    word: int
    shift: int
    least: int
    size: int


class Packing:
    """The places of groups and columns in words. In the first one the unit comes before the group.

    The last ``group_shift`` bits of the first word are steps, the ``group_bits`` before them the
    group, and the ``room`` before that is for the unit. Steps take room that units might need: a
    unit beside its word takes half of a word mostly, and steps beside it a whole one.
    """

    def __init__(self, spec: Specification) -> None:
        self._groups = spec.groups
        self.group_bits = max(0, spec.groups - 1).bit_length()
        self._places: list[_Place] = []
        most, used = WORD_BITS - self.group_bits, [0]
        for column in spec.columns:
            ends = column.low, column.high, column.missing or 0
            size = max(ends) - min(ends) + 1
            bits = (size - 1).bit_length()
            if used[-1] + bits > (most if len(used) == 1 else WORD_BITS):
                used.append(0)
            self._places.append(_Place(len(used) - 1, used[-1], min(ends), size))
            used[-1] += bits
        self.group_shift = used[0]
        self.room = WORD_BITS - self.group_bits - self.group_shift

    def packed(self, groups: NDArray[Any], columns: Sequence[NDArray[Any]]) -> list[PackedWords]:
        """Write rows as words, whose room for units is zero.

        Raises ``RuntimeError`` for values beyond their bounds, on which everything rests.
        """
        words = [_distances(groups, 0, self._groups) << np.uint64(self.group_shift)]
        for place, column in zip(self._places, columns, strict=True):
            values = _distances(column, place.least, place.size)
            if place.word == len(words):
                words.append(values)
                continue
            values <<= np.uint64(place.shift)
            words[place.word] |= values
        return words

    def column(self, words: Sequence[PackedWords], number: int) -> NDArray[np.int64]:
        """Read a column by its number."""
        place = self._places[number]
        found = words[place.word] >> np.uint64(place.shift)
        found &= np.uint64((1 << (place.size - 1).bit_length()) - 1)
        values = found.view(np.int64)
        if place.least:
            values += place.least
        return values

    def groups(self, words: Sequence[PackedWords]) -> NDArray[np.int64]:
        """Read the groups."""
        found = words[0] >> np.uint64(self.group_shift)
        found &= np.uint64((1 << self.group_bits) - 1)
        return found.view(np.int64)


def _distances(values: NDArray[Any], least: int, size: int) -> PackedWords:
    found = values.astype(np.int64)
    if least:
        found -= least
    distances = found.view(np.uint64)
    if len(distances) and int(distances.max()) >= size:
        raise RuntimeError("a row of a group or step that there is not")
    return distances

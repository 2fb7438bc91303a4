"""Rows in partitions by unit: in memory, or beyond a share of it in a file without a name.

Batches come in any order. A unit's rows are all in one partition, which are read one by one. Of 256
units whose numbers follow each other each partition has one, which of them a keyed hash says: so
neighbours are still neighbours in it, their numbers divided by 256, and no numbers crowd one
partition, however they are chosen. The partition and that quotient are the unit, one to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import RawIOBase
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.array_file import ArrayFile
from dpsql.bounding.hashing import block_hashes, scrambled
from dpsql.bounding.packing import WORD_BITS, PackedWords
from dpsql.bounding.pairs import CHUNK_ROWS, PARTITION_BITS, Chunk

PARTITIONS: Final = 1 << PARTITION_BITS
_SORTED_AT: Final = 1 << 16  # rows
_TOGETHER: Final = 1 << 16  # rows
PART_BITS: Final = 4
_IN_BLOCK: Final = np.uint64(PARTITION_BITS)
_NUMBERS: Final = np.arange(PARTITIONS, dtype=np.uint8)
_FIRST: Final = np.uint64(WORD_BITS - PARTITION_BITS)
_NARROW: Final = 1 << 32
_Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Rows sorted by partition: those of partition p are from ``starts[p]`` to the next start.

    ``apart``: their units are the first column, and not in the first word.
    """

    apart: bool
    starts: list[int]
    columns: tuple[_Array, ...]


@dataclass(frozen=True, slots=True)
class _Spilled:
    """The same in a file: ``places`` are where each column begins."""

    apart: bool
    starts: list[int]
    places: tuple[int, ...]
    types: tuple[np.dtype[Any], ...]


class _Piece(NamedTuple):
    """Some of the rows that lie together."""

    rows: _Sorted | _Spilled
    begin: int
    end: int

    def numbers(self, partitions: range) -> PackedWords:
        """Return the partition of each row, of those that the piece is of."""
        starts = self.rows.starts[partitions.start : partitions.stop + 1]
        sizes = np.diff(np.clip(starts, self.begin, self.end))
        return np.repeat(np.array(partitions, dtype=np.uint64), sizes)


@dataclass(frozen=True, slots=True)
class UnitPart:
    """A part of the units of each partition: those whose hash begins with ``value``.

    Of a single unit it may have some ``groups`` alone, a part by the hashes of pairs.
    """

    bits: int = 0
    value: int = 0
    groups: UnitPart | None = None

    def parts(self) -> list[UnitPart]:
        """Divide its units. Raises ``MemoryError`` where it has one at most."""
        if self.bits + PART_BITS > WORD_BITS:
            raise MemoryError
        first = self.value << PART_BITS
        return [UnitPart(self.bits + PART_BITS, first + n) for n in range(1 << PART_BITS)]

    def parts_of_groups(self) -> list[UnitPart]:
        """Divide the groups of its unit: the last part has those of the lowest hashes."""
        groups = self.groups or UnitPart()
        return [replace(self, groups=part) for part in reversed(groups.parts())]

    def has(self, units: NDArray[np.uint64], key: np.uint64) -> NDArray[np.bool_]:
        """Tell which units are in it, hashed under a key."""
        return self.begins(scrambled(units, key))

    def begins(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which hashes begin with its value."""
        found: NDArray[np.bool_] = hashes >> np.uint64(WORD_BITS - self.bits) == np.uint64(
            self.value
        )
        return found


class Partitions:
    """Keeps rows by partition: up to ``share`` bytes in memory, asked of anew for each batch.

    Of the first word of a row the first bits, ``room`` of them, are for its unit. ``file`` opens a
    file without a name, once it is needed.
    """

    def __init__(
        self, key: np.uint64, room: int, share: Callable[[], int], file: Callable[[], RawIOBase]
    ) -> None:
        self._key = key
        self._room = room
        self._share = share
        self._kept: list[_Sorted] = []
        self._bytes = 0
        self._fresh: list[tuple[_Array, ...]] = []
        self._fresh_rows = 0
        self._spilled: list[_Spilled] = []
        self._file = ArrayFile(file)

    def add(self, units: NDArray[np.int64], words: Sequence[PackedWords]) -> None:
        """Add rows: their units, and their words."""
        self._fresh.append((units, *words))
        self._fresh_rows += len(units)
        if self._fresh_rows >= _SORTED_AT:
            self._sort()

    def _sort(self) -> None:
        """Sort new rows by partition, and spill rows beyond the share."""
        units, *words = _joined(self._fresh)
        self._fresh.clear()
        self._fresh_rows = 0
        blocks = units.view(np.uint64) >> _IN_BLOCK
        turned = block_hashes(blocks, self._key)
        turned += units.view(np.uint64)
        numbers = turned.astype(np.uint8)  # its last bits
        most = int(blocks.max())
        apart = not self._room or most >> self._room > 0
        if apart:
            words.insert(0, blocks.astype(np.uint32) if most < _NARROW else blocks)
        else:
            blocks <<= np.uint64(WORD_BITS - self._room)
            words[0] |= blocks
        order = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers.take(order), _NUMBERS).tolist()
        rows = _Sorted(apart, [*starts, len(order)], tuple(word.take(order) for word in words))
        self._kept.append(rows)
        self._bytes += sum(column.nbytes for column in rows.columns)
        if self._bytes > self._share():
            self._spill()

    def together(self) -> Iterator[range]:
        """Yield partitions that are worked on together, as they have few rows."""
        if self._fresh:
            self._sort()
        whole = [each.starts for each in self._spilled] + [each.starts for each in self._kept]
        starts = np.sum(whole, axis=0) if whole else np.zeros(PARTITIONS + 1, dtype=np.int64)
        begin = 0
        while begin < PARTITIONS:
            most = starts[begin] + _TOGETHER
            end = max(begin + 1, int(np.searchsorted(starts, most, side="right")) - 1)
            yield range(begin, end)
            begin = end

    def chunks(self, partitions: range, units: UnitPart) -> Iterator[Chunk]:
        """Yield the rows of partitions, some at a time.

        Only of some of their units, so that each part of them reads all. A unit's name begins with
        its partition; as long as the key is, it is the same, and no other unit's.
        """
        several = len(partitions) > 1
        room = np.uint64(WORD_BITS - self._room)
        for apart in (False, True):
            for pieces in self._pieces(partitions, apart=apart):
                columns = _joined([self._slice(piece) for piece in pieces])
                if not (apart or several or units.bits):
                    yield Chunk(columns, partitions.start)
                    continue
                if apart:
                    names = columns.pop(0).astype(np.uint64)
                else:
                    names = columns[0] >> room
                    columns[0] = columns[0] & ((np.uint64(1) << room) - np.uint64(1))
                numbers = np.concatenate([each.numbers(partitions) for each in pieces])
                names |= numbers << _FIRST
                if units.bits:
                    places = np.flatnonzero(units.has(names, self._key))
                    names, *columns = (column[places] for column in (names, *columns))
                yield Chunk(columns, partitions.start, names)

    def single(self, partitions: range, units: UnitPart) -> UnitPart | None:
        """Return the part of the only unit that has rows in a part; None of several units."""
        found: int | None = None
        for chunk in self.chunks(partitions, units):
            if chunk.units is None:
                return None
            if len(chunk.units):
                least, most = int(chunk.units.min()), int(chunk.units.max())
                if least != most or found not in (None, least):
                    return None
                found = least
        if found is None:
            return None
        (hashed,) = scrambled(np.array([found], dtype=np.uint64), self._key).tolist()
        return UnitPart(WORD_BITS, hashed)

    def close(self) -> None:
        """Give the file up, and with it what is there."""
        self._kept.clear()
        self._file.close()

    def _pieces(self, partitions: range, *, apart: bool) -> Iterator[list[_Piece]]:
        """Yield rows as they lie, as many as a chunk has."""
        first, last = partitions.start, partitions.stop
        places: list[_Sorted | _Spilled] = [*self._spilled, *self._kept]
        found: list[_Piece] = []
        rows = 0
        for each in places:
            begin, end = each.starts[first], each.starts[last]
            while begin < end and each.apart is apart:
                until = min(end, begin + CHUNK_ROWS - rows)
                found.append(_Piece(each, begin, until))
                rows += until - begin
                begin = until
                if rows == CHUNK_ROWS:
                    yield found
                    found, rows = [], 0
        if found:
            yield found

    def _slice(self, piece: _Piece) -> list[_Array]:
        rows, begin, end = piece.rows, piece.begin, piece.end
        if isinstance(rows, _Sorted):
            return [column[begin:end] for column in rows.columns]
        return [
            self._file.read(place + begin * type_.itemsize, end - begin, type_)
            for place, type_ in zip(rows.places, rows.types, strict=True)
        ]

    def _spill(self) -> None:
        """Write the rows in memory to the file, those of a partition side by side."""
        for apart in (False, True):
            kept = [rows for rows in self._kept if rows.apart is apart]
            if kept:
                self._spilled.append(self._written(kept))
        self._kept.clear()
        self._bytes = 0

    def _written(self, kept: Sequence[_Sorted]) -> _Spilled:
        starts = np.sum([rows.starts for rows in kept], axis=0).tolist()
        places, types = [], []
        for column in range(len(kept[0].columns)):
            pieces = [
                rows.columns[column][rows.starts[partition] : rows.starts[partition + 1]]
                for partition in range(PARTITIONS)
                for rows in kept
            ]
            written = np.concatenate(pieces)
            places.append(self._file.write(written))
            types.append(written.dtype)
        return _Spilled(kept[0].apart, starts, tuple(places), tuple(types))


def unit_numbers(names: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Return the numbers of units by their names, as they came into partitions under a key."""
    blocks = names & np.uint64((1 << (WORD_BITS - PARTITION_BITS)) - 1)
    in_block = ((names >> _FIRST) - block_hashes(blocks, key)) & np.uint64(PARTITIONS - 1)
    return (blocks << _IN_BLOCK) | in_block


def _joined(parts: Sequence[Sequence[_Array]]) -> list[_Array]:
    if len(parts) == 1:
        return list(parts[0])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]

"""Rows in partitions by unit: in memory, or beyond a share of it in a file without a name.

Batches come in any order. A unit's rows are all in one partition, which are read one by one. Of 256
units whose numbers follow each other each partition has one, which of them a keyed hash says: so
neighbours are still neighbours in it, their numbers divided by 256, and no numbers crowd one
partition, however they are chosen. The partition and that quotient are the unit, one to one.

Rows that are too many to be worked on together are divided into parts by bits of a hash, of their
units or of their groups: read once and written to the file, side by side by part. So what each
level takes is in proportion to the rows, however many parts there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.array_file import ArrayFile
from dpsql.bounding.hashing import block_hashes
from dpsql.bounding.packing import WORD_BITS, PackedWords
from dpsql.bounding.pairs import CHUNK_ROWS, PARTITION_BITS, Chunk

PARTITIONS: Final = 1 << PARTITION_BITS
_SORTED_AT: Final = 1 << 16  # rows
_TOGETHER: Final = 1 << 16  # rows
_LEAST_CHUNK: Final = 1 << 16  # rows
_WORK: Final = 128  # bytes of work for each row of a chunk
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


class SomeRows(Protocol):
    """Rows with all others of their units, or of their unit and groups."""

    def chunks(self, *, named: bool = False) -> Iterator[Chunk]:
        """Yield the rows, some at a time; ``named`` asks for the names of their units."""


class _Places:
    """Rows sorted by number below 256, in memory and in a file: those of a number lie together.

    They are read before they are given up: none would be there, and units would be missing.
    """

    def __init__(self, file: ArrayFile, share: Callable[[], int]) -> None:
        self.file = file
        self.share = share
        self.kept: list[_Sorted] = []
        self.spilled: list[_Spilled] = []
        self._closed = False

    def close(self) -> None:
        """Give the rows and the file up."""
        self._closed = True
        self.kept.clear()
        self.file.close()

    @property
    def rows(self) -> list[_Sorted | _Spilled]:
        """All rows, those in the file first."""
        return [*self.spilled, *self.kept]

    def pieces(self, numbers: range, *, apart: bool) -> Iterator[tuple[list[_Piece], list[_Array]]]:
        """Yield rows as they lie, as many as a chunk has: where they lie, and their columns."""
        assert not self._closed
        first, last = numbers.start, numbers.stop
        most = min(CHUNK_ROWS, max(_LEAST_CHUNK, self.share() // _WORK))
        found: list[_Piece] = []
        rows = 0
        for each in self.rows:
            begin, end = each.starts[first], each.starts[last]
            while begin < end and each.apart is apart:
                until = min(end, begin + most - rows)
                found.append(_Piece(each, begin, until))
                rows += until - begin
                begin = until
                if rows == most:
                    yield found, _joined([self._slice(piece) for piece in found])
                    found, rows = [], 0
        if found:
            yield found, _joined([self._slice(piece) for piece in found])

    def _slice(self, piece: _Piece) -> list[_Array]:
        rows, begin, end = piece.rows, piece.begin, piece.end
        if isinstance(rows, _Sorted):
            return [column[begin:end] for column in rows.columns]
        return [
            self.file.read(place + begin * type_.itemsize, end - begin, type_)
            for place, type_ in zip(rows.places, rows.types, strict=True)
        ]

    def write(self, rows: Sequence[_Sorted]) -> None:
        """Write rows to the file, those of a number side by side."""
        starts = np.sum([each.starts for each in rows], axis=0).tolist()
        places, types = [], []
        for column in range(len(rows[0].columns)):
            pieces = [
                each.columns[column][each.starts[number] : each.starts[number + 1]]
                for number in range(PARTITIONS)
                for each in rows
            ]
            written = np.concatenate(pieces)
            places.append(self.file.write(written))
            types.append(written.dtype)
        self.spilled.append(_Spilled(rows[0].apart, starts, tuple(places), tuple(types)))


def _sorted(numbers: NDArray[np.uint8], columns: Sequence[_Array], *, apart: bool) -> _Sorted:
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers.take(order), _NUMBERS).tolist()
    return _Sorted(apart, [*starts, len(order)], tuple(column.take(order) for column in columns))


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
        self._opener = file
        self._places = _Places(ArrayFile(file), share)
        self._bytes = 0
        self._fresh: list[tuple[_Array, ...]] = []
        self._fresh_rows = 0

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
        rows = _sorted(numbers, words, apart=apart)
        self._places.kept.append(rows)
        self._bytes += sum(column.nbytes for column in rows.columns)
        if self._bytes > self._share():
            self._spill()

    def together(self) -> Iterator[OfPartitions]:
        """Yield the rows of partitions that are worked on together, as they have few."""
        if self._fresh:
            self._sort()
        whole = [each.starts for each in self._places.rows]
        starts = np.sum(whole, axis=0) if whole else np.zeros(PARTITIONS + 1, dtype=np.int64)
        begin = 0
        while begin < PARTITIONS:
            most = starts[begin] + _TOGETHER
            end = max(begin + 1, int(np.searchsorted(starts, most, side="right")) - 1)
            yield OfPartitions(self._places, self._room, range(begin, end))
            begin = end

    def divided(
        self, rows: SomeRows, hashed: Callable[[Chunk], NDArray[np.uint64]], level: int
    ) -> Iterator[SomeRows]:
        """Divide rows by a hash into parts, in its order: by its first bits, then by the next ones.

        They lie in a file of their own, which is given up with the last part.
        """
        with closing(_Places(ArrayFile(self._opener), self._share)) as places:
            for chunk in rows.chunks(named=True):
                assert chunk.units is not None
                hashes = hashed(chunk) << np.uint64(level * PARTITION_BITS)
                numbers = (hashes >> _FIRST).astype(np.uint8)
                places.write([_sorted(numbers, [chunk.units, *chunk.words], apart=True)])
            for number in range(PARTITIONS):
                yield _OfPart(places, range(number, number + 1))

    def close(self) -> None:
        """Give the file up, and with it what is there."""
        self._places.close()

    def _spill(self) -> None:
        """Write the rows in memory to the file, those of a partition side by side."""
        for apart in (False, True):
            kept = [rows for rows in self._places.kept if rows.apart is apart]
            if kept:
                self._places.write(kept)
        self._places.kept.clear()
        self._bytes = 0


@dataclass(frozen=True, slots=True)
class OfPartitions:
    """The rows of some partitions. A unit's name begins with its partition."""

    places: _Places
    room: int
    partitions: range

    def chunks(self, *, named: bool = False) -> Iterator[Chunk]:
        """Yield the rows, some at a time; of several partitions units are always named."""
        named = named or len(self.partitions) > 1
        room = np.uint64(WORD_BITS - self.room)
        for apart in (False, True):
            for pieces, columns in self.places.pieces(self.partitions, apart=apart):
                if not (apart or named):
                    yield Chunk(columns, self.partitions.start)
                    continue
                if apart:
                    names = columns.pop(0).astype(np.uint64)
                else:
                    names = columns[0] >> room
                    columns[0] = columns[0] & ((np.uint64(1) << room) - np.uint64(1))
                numbers = np.concatenate([each.numbers(self.partitions) for each in pieces])
                names |= numbers << _FIRST
                yield Chunk(columns, self.partitions.start, names)


@dataclass(frozen=True, slots=True)
class _OfPart:
    """The rows of a part of others, with the names of their units beside them."""

    places: _Places
    number: range

    def chunks(self, *, named: bool = True) -> Iterator[Chunk]:
        """Yield the rows, some at a time, with the names of their units."""
        for _, (names, *words) in self.places.pieces(self.number, apart=True):
            yield Chunk(words, 0, names)


def unit_numbers(names: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Return the numbers of units by their names, as they came into partitions under a key."""
    blocks = names & np.uint64((1 << (WORD_BITS - PARTITION_BITS)) - 1)
    in_block = ((names >> _FIRST) - block_hashes(blocks, key)) & np.uint64(PARTITIONS - 1)
    return (blocks << _IN_BLOCK) | in_block


def _joined(parts: Sequence[Sequence[_Array]]) -> list[_Array]:
    if len(parts) == 1:
        return list(parts[0])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]

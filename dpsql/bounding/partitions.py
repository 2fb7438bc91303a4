"""Rows in partitions by unit: in memory, or beyond a share of it in a file without a name.

Batches come in any order. A unit's rows are all in one partition, which are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.hashing import scrambled
from dpsql.bounding.pairs import CHUNK_ROWS, PARTITION_BITS

PARTITIONS: Final = 1 << PARTITION_BITS
_SORTED_AT: Final = 1 << 18  # rows
_TOGETHER: Final = 1 << 16  # rows
_UNIT_BITS: Final = 64
_PART_BITS: Final = 4
_Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Rows sorted by partition: those of partition p are from ``starts[p]`` to the next start."""

    starts: NDArray[np.int64]
    columns: tuple[_Array, ...]


@dataclass(frozen=True, slots=True)
class _Spilled:
    """The same in a file: ``places`` are where each column begins."""

    starts: NDArray[np.int64]
    places: tuple[int, ...]
    types: tuple[np.dtype[Any], ...]


@dataclass(frozen=True, slots=True)
class UnitPart:
    """A part of the units of each partition: those whose next ``bits`` bits are ``value``."""

    bits: int = 0
    value: int = 0

    def parts(self) -> list[UnitPart]:
        """Divide it. Raises ``MemoryError`` where it has one unit at most."""
        if self.bits + _PART_BITS > _UNIT_BITS - PARTITION_BITS:
            raise MemoryError
        first = self.value << _PART_BITS
        return [UnitPart(self.bits + _PART_BITS, first + n) for n in range(1 << _PART_BITS)]

    def has(self, units: _Array) -> NDArray[np.bool_]:
        """Tell which scrambled units are in it."""
        next_bits = (units << np.uint64(PARTITION_BITS)) >> np.uint64(_UNIT_BITS - self.bits)
        found: NDArray[np.bool_] = next_bits == np.uint64(self.value)
        return found


class Partitions:
    """Keeps rows by partition: up to ``share`` bytes in memory, asked of anew for each batch.

    ``file`` opens a file without a name, once it is needed.
    """

    def __init__(
        self, key: np.uint64, share: Callable[[], int], file: Callable[[], RawIOBase]
    ) -> None:
        self._key = key
        self._share = share
        self._open = file
        self._kept: list[_Sorted] = []
        self._bytes = 0
        self._fresh: list[tuple[_Array, ...]] = []
        self._fresh_rows = 0
        self._spilled: list[_Spilled] = []
        self._file: RawIOBase | None = None
        self._end = 0

    def add(self, units: NDArray[np.int64], columns: Sequence[_Array]) -> None:
        """Add rows: their units, and further columns."""
        self._fresh.append((units, *columns))
        self._fresh_rows += len(units)
        if self._fresh_rows >= _SORTED_AT:
            self._sort()

    def _sort(self) -> None:
        """Sort new rows by partition, and spill rows beyond the share."""
        units, *columns = _joined(self._fresh)
        self._fresh.clear()
        self._fresh_rows = 0
        hidden = scrambled(units.view(np.uint64), self._key)
        numbers = (hidden >> np.uint64(64 - PARTITION_BITS)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        starts = np.zeros(PARTITIONS + 1, dtype=np.int64)
        np.cumsum(np.bincount(numbers, minlength=PARTITIONS), out=starts[1:])
        rows = _Sorted(starts, tuple(column[order] for column in (hidden, *columns)))
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

    def chunks(self, partitions: range, units: UnitPart) -> Iterator[list[_Array]]:
        """Yield the rows of partitions, some at a time: scrambled units and further columns.

        Only of some of their units, so that each part of them reads all.
        """
        parts: list[list[_Array]] = []
        rows = 0
        for part in self._parts(partitions):
            for begin in range(0, len(part[0]), CHUNK_ROWS):
                piece = [column[begin : begin + CHUNK_ROWS] for column in part]
                if units.bits:
                    places = np.flatnonzero(units.has(piece[0]))
                    piece = [column[places] for column in piece]
                if rows + len(piece[0]) > CHUNK_ROWS:
                    yield _joined(parts)
                    parts, rows = [], 0
                parts.append(piece)
                rows += len(piece[0])
        if rows:
            yield _joined(parts)

    def close(self) -> None:
        """Give the file up, and with it what is there."""
        self._kept.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _parts(self, partitions: range) -> Iterator[list[_Array]]:
        for spilled in self._spilled:
            begin, end = (int(n) for n in spilled.starts[[partitions.start, partitions.stop]])
            if end > begin:
                yield [
                    self._read(place + begin * type_.itemsize, end - begin, type_)
                    for place, type_ in zip(spilled.places, spilled.types, strict=True)
                ]
        for kept in self._kept:
            begin, end = (int(n) for n in kept.starts[[partitions.start, partitions.stop]])
            if end > begin:
                yield [column[begin:end] for column in kept.columns]

    def _read(self, place: int, rows: int, type_: np.dtype[Any]) -> _Array:
        assert self._file is not None
        found = np.empty(rows, dtype=type_)
        view, done = found.data.cast("B"), 0
        self._file.seek(place)
        while done < len(view):
            read = self._file.readinto(view[done:])
            if not read:
                raise OSError("a file is shorter than what was written")
            done += read
        return found

    def _spill(self) -> None:
        """Write the rows in memory to the file, those of a partition side by side."""
        if self._file is None:
            self._file = self._open()
        starts = np.sum([rows.starts for rows in self._kept], axis=0)
        places = []
        for column in range(len(self._kept[0].columns)):
            places.append(self._end)
            pieces = [
                rows.columns[column][rows.starts[partition] : rows.starts[partition + 1]]
                for partition in range(PARTITIONS)
                for rows in self._kept
            ]
            self._write(np.concatenate(pieces))
        types = tuple(column.dtype for column in self._kept[0].columns)
        self._spilled.append(_Spilled(starts, tuple(places), types))
        self._kept.clear()
        self._bytes = 0

    def _write(self, values: _Array) -> None:
        assert self._file is not None
        view, done = values.data.cast("B"), 0
        self._file.seek(self._end)
        while done < len(view):
            done += self._file.write(view[done:]) or 0
        self._end += done


def _joined(parts: Sequence[Sequence[_Array]]) -> list[_Array]:
    return [np.concatenate(each) for each in zip(*parts, strict=True)]

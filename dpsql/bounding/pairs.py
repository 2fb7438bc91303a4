"""Pairs of a unit and a group: rows are put together, exactly, whatever their order.

A unit is identified by its scrambled number, which is no other unit's. A table of slots only finds
places for units quickly: who does not get the slot is told from others by comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.hashing import hashed_pairs, slots_of
from dpsql.bounding.packing import WORD_BITS, PackedWords, Packing
from dpsql.bounding.specification import Specification

Int64s = NDArray[np.int64]
UnitNumbers = NDArray[np.uint64]
PairHashes = Callable[[UnitNumbers, Int64s], NDArray[np.uint64]]
"""Hashes of pairs of a unit's name and a group."""
_Flags: TypeAlias = NDArray[np.bool_]
_Additions: TypeAlias = Int64s | _Flags | None
"""What rows add: steps, 1 where a flag is set, or 1 each."""

PARTITION_BITS: Final = 8
"""The first bits of a scrambled unit say in which partition it is."""
CHUNK_ROWS: Final = 1 << 20
"""The most rows that are put together at once: sums of numbers below 2**32 fit 64 bits."""
_LOW_BITS: Final = 32
_DENSE: Final = 8  # cells of a table of units and groups, for each row
_MOST_CELLS: Final = 1 << 22
_KEY_BITS: Final = 63
_MOST_GROUP_BITS: Final = _KEY_BITS - CHUNK_ROWS.bit_length()  # beside numbers of a chunk's units
HASH_BITS: Final = 22
"""The first bits of a hash that order the groups of a unit."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows, as words.

    ``units`` are the names of their units. Where they are None the first words begin with what is
    left of names without their first bits, which are ``partition``.
    """

    words: list[PackedWords]
    partition: int
    units: UnitNumbers | None = None


@dataclass(frozen=True, slots=True)
class PairTally:
    """What is added up over the rows of a pair, each row's part of it below 2**32 in size.

    ``column`` is that of the stream, None for rows. Of a column it is how many rows have a value,
    or with ``summed`` what they add up to. Where steps may be larger, ``part`` is 1 for the high
    bits and 0 for the low ones, and None for all of them.
    """

    column: int | None = None
    summed: bool = False
    midpoint: int | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a unit and a group, sorted by unit, then by group; each is there once.

    ``numbers`` are the totals of the fields.
    """

    units: UnitNumbers
    groups: Int64s
    numbers: tuple[Int64s, ...]

    def __len__(self) -> int:
        return len(self.units)

    @property
    def nbytes(self) -> int:
        """The bytes that they take."""
        return self.units.nbytes + self.groups.nbytes + sum(each.nbytes for each in self.numbers)

    @property
    def owners(self) -> Int64s:
        """The number of each pair's unit, from 0 and ascending."""
        return _starts_to_numbers(changes(self.units))

    @property
    def starts(self) -> NDArray[np.intp]:
        """The place of each unit's first pair."""
        return np.flatnonzero(changes(self.units))

    def at(self, places: NDArray[np.intp]) -> Pairs:
        """Take the pairs at some places."""
        numbers = tuple(each[places] for each in self.numbers)
        return Pairs(self.units[places], self.groups[places], numbers)


def tallies_of(spec: Specification) -> tuple[PairTally, ...]:
    """List what is to be added up, rows first."""
    found: dict[PairTally, None] = {PairTally(): None}
    outside = [each.outside for each in spec.estimates if each.outside is not None]
    found |= dict.fromkeys(map(PairTally, (*outside, *(column for _, column in spec.beside))))
    estimated = [each.source for each in spec.estimates] + [source for source, _ in spec.beside]
    for source in (*spec.sources, *estimated):
        if source.counted is not None and spec.columns[source.counted].missing is not None:
            found[PairTally(source.counted)] = None
        for field in sum_tallies(spec, source.summed, source.midpoint):
            found[field] = None
    return tuple(found)


def sum_tallies(
    spec: Specification, column: int | None, midpoint: int | None
) -> tuple[PairTally, ...]:
    """Return the fields that have a column's sum: one, or its high and its low bits."""
    if column is None:
        return ()
    if step_size(spec, column, midpoint) < 1 << _LOW_BITS:
        return (PairTally(column, summed=True, midpoint=midpoint),)
    return tuple(PairTally(column, summed=True, midpoint=midpoint, part=part) for part in (1, 0))


def step_size(spec: Specification, column: int, midpoint: int | None) -> int:
    """Bound the size of what one row adds to a column's sum."""
    low, high = spec.columns[column].low, spec.columns[column].high
    if midpoint is None:
        return max(abs(low), abs(high))
    return max(abs(low - midpoint), abs(high - midpoint)) ** 2


def pairs_of_rows(
    spec: Specification, packing: Packing, fields: Sequence[PairTally], chunk: Chunk
) -> Pairs:
    """Put the rows of a chunk together."""
    rows = len(chunk.words[0])
    assert rows <= CHUNK_ROWS
    if not rows:
        return no_pairs(fields)
    if packing.group_bits > _MOST_GROUP_BITS:
        parts = _Parts(spec, packing, chunk.words)
        numbers = [_each(parts.of(field), rows) for field in fields]
        return _together(_names(packing, chunk), packing.groups(chunk.words), numbers)
    keys, found = _keyed(packing, chunk, spec.words[1])
    if len(found) << packing.group_bits <= min(_DENSE * rows, _MOST_CELLS):
        parts = _Parts(spec, packing, chunk.words)
        return _by_table(keys, found, packing, [parts.of(field) for field in fields])
    keys, words = _sorted(keys, len(found), packing, chunk.words)
    parts = _Parts(spec, packing, words)
    return _of_sorted(keys, found, packing, [parts.of(field) for field in fields])


def no_pairs(fields: Sequence[PairTally]) -> Pairs:
    """Return none."""
    none = np.zeros(0, np.int64)
    return Pairs(none.view(np.uint64), none, tuple(none for _ in fields))


def merged(parts: Sequence[Pairs]) -> Pairs:
    """Put pairs together that may be there several times."""
    if len(parts) == 1:
        return parts[0]
    return _together(
        np.concatenate([each.units for each in parts]),
        np.concatenate([each.groups for each in parts]),
        [np.concatenate(each) for each in zip(*(part.numbers for part in parts), strict=True)],
    )


def _together(units: UnitNumbers, groups: Int64s, numbers: Sequence[Int64s]) -> Pairs:
    """Put pairs in any order together, of whatever number of units and of groups there are."""
    order = np.lexsort((groups, units))
    units, groups = units[order], groups[order]
    starts = np.flatnonzero(changes(units) | changes(groups))
    totals = tuple(np.add.reduceat(each[order], starts) for each in numbers)
    return Pairs(units[starts], groups[starts], totals)


def kept_flags(spec: Specification, pairs: Pairs) -> NDArray[np.bool_] | None:
    """Tell which pairs are of a unit's first groups by a salted hash, then by group; None for all.

    Which groups a unit keeps depends on its own rows alone: not on others of the partition either,
    so always as many bits of the hash count.
    """
    if spec.kept is None or len(pairs) <= spec.kept:
        return None
    owners = pairs.owners
    many = np.bincount(owners) > spec.kept
    over = np.flatnonzero(many[owners])
    if not len(over):
        return None
    ours, number = owners[over], len(over)
    hashes = hashes_of(spec, pairs.units[over], pairs.groups[over])
    order = _ordered(ours, (hashes >> np.uint64(64 - HASH_BITS)).astype(np.int64))
    starts = changes(ours)  # whose pairs are side by side, before and after
    ranks = np.arange(number) - np.flatnonzero(starts)[_starts_to_numbers(starts)]
    stays = np.ones(len(pairs), dtype=np.bool_)
    stays[over[order[ranks >= spec.kept]]] = False
    return stays


def hashes_of(spec: Specification, units: UnitNumbers, groups: Int64s) -> NDArray[np.uint64]:
    """Hash pairs of a unit and a group: the first bits order the groups of a unit."""
    return hashed_pairs(own_names(spec, units), spec.hashed(groups), spec.words)


def own_names(spec: Specification, units: UnitNumbers) -> UnitNumbers:
    """Return what of the names of units depends on no other unit, to be hashed."""
    if not spec.rank_bits:
        return units
    # A name is a unit with its last bits replaced by a partition, in front.
    return (units << np.uint64(PARTITION_BITS)) >> np.uint64(spec.rank_bits)


def _ordered(owners: Int64s, hashes: Int64s) -> NDArray[np.intp]:
    """Sort pairs by owner, then by hash, then as they are; returns their places."""
    number = len(owners)
    place_bits, owner_bits = number.bit_length(), int(owners[-1]).bit_length()
    if owner_bits + HASH_BITS + place_bits > _KEY_BITS:
        return np.lexsort((hashes, owners))
    keys = (((owners << HASH_BITS) | hashes) << place_bits) | np.arange(number)
    keys.sort()
    return keys & ((1 << place_bits) - 1)


class _Parts:
    """The additions of rows to fields, each computed once."""

    def __init__(self, spec: Specification, packing: Packing, words: Sequence[PackedWords]) -> None:
        self._spec = spec
        self._column = cache(partial(packing.column, words))
        self._known: dict[tuple[int, int | None], Int64s] = {}

    def of(self, field: PairTally) -> _Additions:
        """Return what rows add to a field; None where each adds 1, flags where some do."""
        if field.column is None:
            return None
        missing = self._spec.columns[field.column].missing
        if not field.summed:
            there = self._column(field.column) != missing
            return None if there.all() else there
        whole = self._whole(field.column, field.midpoint)
        if field.part is None:
            return whole
        return whole >> _LOW_BITS if field.part else whole & ((1 << _LOW_BITS) - 1)

    def _whole(self, place: int, midpoint: int | None) -> Int64s:
        if (place, midpoint) not in self._known:
            column = self._column(place)
            missing = self._spec.columns[place].missing
            whole = column if midpoint is None else (column - midpoint) ** 2
            if missing is not None:
                absent = column == missing
                if absent.any():
                    whole = np.where(absent, 0, whole)
            self._known[place, midpoint] = whole
        return self._known[place, midpoint]


def _keyed(packing: Packing, chunk: Chunk, key: np.uint64) -> tuple[Int64s, UnitNumbers]:
    """Number the units of rows from 0; returns numbers with groups, and the units by number."""
    bits, first = packing.group_bits, chunk.words[0]
    if chunk.units is None:
        keys = first >> np.uint64(packing.group_shift)
        least, most = int(keys.min()) >> bits, int(keys.max()) >> bits
        partition = chunk.partition << (WORD_BITS - PARTITION_BITS)
        if most - least < len(keys):
            keys -= np.uint64(least << bits)
            found = np.arange(partition + least, partition + most + 1, dtype=np.uint64)
            return keys.view(np.int64), found
    owners, found = _identified(_names(packing, chunk), key)
    owners <<= bits
    owners |= packing.groups(chunk.words)
    return owners, found


def _names(packing: Packing, chunk: Chunk) -> UnitNumbers:
    """Return the name of each row's unit."""
    if chunk.units is not None:
        return chunk.units
    units = chunk.words[0] >> np.uint64(packing.group_shift + packing.group_bits)
    units |= np.uint64(chunk.partition << (WORD_BITS - PARTITION_BITS))
    return units


def _each(values: _Additions, rows: int) -> Int64s:
    """Write an addition of each row."""
    return np.ones(rows, dtype=np.int64) if values is None else values.astype(np.int64)


def _identified(units: UnitNumbers, key: np.uint64) -> tuple[Int64s, UnitNumbers]:
    """Number the units of rows from 0; returns the number of each row, and the units by number.

    There may be further units. Those whose numbers lie close together have them less the least one.
    """
    least, most = units.min(), units.max()
    if int(most) - int(least) < len(units):
        owners = (units - least).view(np.int64)
        return owners, np.arange(int(least), int(most) + 1, dtype=np.uint64)
    bits = max(1, (len(units) - 1).bit_length())
    slots = slots_of(units, bits, key)
    table = np.zeros(1 << bits, dtype=np.uint64)
    table[slots] = units  # of several units one has it, whole: all of its rows are here
    taken = np.zeros(1 << bits, dtype=np.bool_)
    taken[slots] = True
    places = np.flatnonzero(taken)
    ranks = np.empty(1 << bits, dtype=np.int64)
    ranks[places] = np.arange(len(places))
    owners = ranks[slots]
    found = table[places]
    others = np.flatnonzero(table[slots] != units)
    if len(others):
        apart, numbers = np.unique(units[others], return_inverse=True)
        owners[others] = len(found) + numbers.reshape(-1)
        found = np.concatenate([found, apart])
    return owners, found


def _by_table(
    keys: Int64s, found: UnitNumbers, packing: Packing, values: Sequence[_Additions]
) -> Pairs:
    """Put rows together in a table with a cell for each unit and group."""
    size = len(found) << packing.group_bits
    summed = [each for each in values if _are_steps(each)]
    bits = _bits_of_sum(summed[0]) if summed else None
    if bits is None:
        cells = np.bincount(keys, minlength=size)
    else:  # rows are counted in the bits before the sum
        cells = np.zeros(size, dtype=np.int64)
        np.add.at(cells, keys, summed[0] | (1 << bits))
    there = np.flatnonzero(cells != 0)  # of integers it takes six times as long
    rows, sums = cells[there], []
    if bits is not None:
        sums.append(rows & ((1 << bits) - 1))
        rows >>= bits
    cells[there] = np.arange(len(there))
    if len(sums) < len(summed):
        places = cells[keys]
        for each in summed[len(sums) :]:
            sums.append(np.zeros(len(there), dtype=np.int64))
            np.add.at(sums[-1], places, each)
    waiting = iter(sums)
    numbers = [
        next(waiting) if _are_steps(each) else _counted(each, rows, cells, keys) for each in values
    ]
    return _of_keys(there, found, packing, numbers)


def _are_steps(values: _Additions) -> TypeGuard[Int64s]:
    return values is not None and values.dtype != np.bool_


def _counted(flags: _Additions, rows: Int64s, cells: Int64s, keys: Int64s) -> Int64s:
    """Count the flagged rows of pairs: by themselves, or by the others if these are fewer.

    ``cells`` has the place of a pair by its key.
    """
    if flags is None:
        return rows
    most = 2 * np.count_nonzero(flags) > len(flags)
    some = np.flatnonzero(~flags if most else flags)
    counted = np.bincount(cells[keys[some]], minlength=len(rows))
    return rows - counted if most else counted


def _bits_of_sum(values: Int64s) -> int | None:
    """Bound the bits of sums of values, if the number of rows still fits before them."""
    rows = len(values).bit_length()
    bits = int(values.max()).bit_length() + rows
    return bits if int(values.min()) >= 0 and bits + rows <= _KEY_BITS else None


def _sorted(
    keys: Int64s, units: int, packing: Packing, words: list[PackedWords]
) -> tuple[Int64s, list[PackedWords]]:
    """Sort rows by unit and group: as whole numbers, if their steps or their places fit."""
    bits = (units - 1).bit_length() + packing.group_bits
    if bits + packing.group_shift <= _KEY_BITS and len(words) == 1:
        shift = np.uint64(packing.group_shift)
        whole = keys.view(np.uint64) << shift
        whole |= words[0] & ((np.uint64(1) << shift) - np.uint64(1))
        whole = whole.view(np.int64)
        whole.sort()
        return whole >> packing.group_shift, [whole.view(np.uint64)]
    place_bits = (len(keys) - 1).bit_length()
    if bits + place_bits <= _KEY_BITS:
        keys = (keys << place_bits) | np.arange(len(keys))
        keys.sort()
        order = keys & ((1 << place_bits) - 1)
        keys >>= place_bits
    else:
        order = np.argsort(keys)
        keys = keys[order]
    return keys, [each[order] for each in words]


def _of_sorted(
    keys: Int64s, found: UnitNumbers, packing: Packing, values: Sequence[_Additions]
) -> Pairs:
    """Put rows together that are sorted by unit and group."""
    starts = np.flatnonzero(changes(keys))
    counted = np.diff(starts, append=len(keys))
    totals = [
        counted if each is None else np.add.reduceat(each, starts, dtype=np.int64)
        for each in values
    ]
    return _of_keys(keys[starts], found, packing, totals)


def _of_keys(
    keys: Int64s, found: UnitNumbers, packing: Packing, numbers: Sequence[Int64s]
) -> Pairs:
    """Write pairs by numbers of units with groups."""
    groups = keys & ((1 << packing.group_bits) - 1)
    return Pairs(found[keys >> packing.group_bits], groups, tuple(numbers))


def changes(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Tell where a value differs from the one before; the first one does."""
    found = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def _starts_to_numbers(starts: NDArray[np.bool_]) -> Int64s:
    return np.cumsum(starts, dtype=np.int64) - 1

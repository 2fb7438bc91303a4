"""Pairs of a unit and a group: rows are put together, exactly, whatever their order.

A unit is identified by its scrambled number, which is no other unit's. A table of slots only finds
places for units quickly: who does not get the slot is told from others by comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.hashing import hashed_pairs
from dpsql.bounding.specification import Specification

Int64s = NDArray[np.int64]
UnitNumbers = NDArray[np.uint64]

PARTITION_BITS: Final = 8
"""The first bits of a scrambled unit say in which partition it is."""
CHUNK_ROWS: Final = 1 << 20
"""The most rows that are put together at once: sums of numbers below 2**32 are exact in doubles."""
_LOW_BITS: Final = 32
_DENSE: Final = 4  # cells of a table of units and groups, for each row
_KEY_BITS: Final = 62
_HASH_BITS: Final = 22


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
        return _starts_to_numbers(_changes(self.units))

    @property
    def starts(self) -> NDArray[np.intp]:
        """The place of each unit's first pair."""
        return np.flatnonzero(_changes(self.units))

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
    spec: Specification,
    fields: Sequence[PairTally],
    units: UnitNumbers,
    groups: Int64s,
    columns: Sequence[Int64s],
) -> Pairs:
    """Put the rows of a chunk together."""
    assert len(units) <= CHUNK_ROWS
    if not len(units):
        return no_pairs(fields)
    owners, found = _identified(units)
    parts = _Parts(spec, columns)
    values = [parts.of(field) for field in fields]
    cells = len(found) * spec.groups
    if cells <= _DENSE * len(units):
        return _by_table(owners, found, groups, spec.groups, values)
    return _by_sorting(owners, found, groups, values)


def no_pairs(fields: Sequence[PairTally]) -> Pairs:
    """Return none."""
    none = np.zeros(0, np.int64)
    return Pairs(none.view(np.uint64), none, tuple(none for _ in fields))


def merged(parts: Sequence[Pairs]) -> Pairs:
    """Put pairs together that may be there several times."""
    if len(parts) == 1:
        return parts[0]
    units = np.concatenate([each.units for each in parts])
    groups = np.concatenate([each.groups for each in parts])
    order = np.lexsort((groups, units))
    units, groups = units[order], groups[order]
    changes = _changes(units)
    changes |= _changes(groups)
    starts = np.flatnonzero(changes)
    numbers = tuple(
        np.add.reduceat(np.concatenate(each)[order], starts)
        for each in zip(*(part.numbers for part in parts), strict=True)
    )
    return Pairs(units[starts], groups[starts], numbers)


def kept_pairs(spec: Specification, pairs: Pairs) -> Pairs:
    """Keep each unit's first groups in the order of a salted hash; where that is equal, of groups.

    Which groups a unit keeps depends on its own rows alone: not on others of the partition either,
    so always as many bits of the hash count.
    """
    if spec.kept is None or len(pairs) <= spec.kept:
        return pairs
    owners = pairs.owners
    many = np.bincount(owners) > spec.kept
    over = np.flatnonzero(many[owners])
    if not len(over):
        return pairs
    ours, number = owners[over], len(over)
    hashes = hashed_pairs(pairs.units[over], spec.hashed(pairs.groups[over]), spec.words)
    order = _ordered(ours, (hashes >> np.uint64(64 - _HASH_BITS)).astype(np.int64))
    starts = _changes(ours)  # whose pairs are side by side, before and after
    ranks = np.arange(number) - np.flatnonzero(starts)[_starts_to_numbers(starts)]
    stays = np.ones(len(pairs), dtype=np.bool_)
    stays[over[order[ranks >= spec.kept]]] = False
    return pairs.at(np.flatnonzero(stays))


def _ordered(owners: Int64s, hashes: Int64s) -> NDArray[np.intp]:
    """Sort pairs by owner, then by hash, then as they are; returns their places."""
    number = len(owners)
    place_bits, owner_bits = number.bit_length(), int(owners[-1]).bit_length()
    if owner_bits + _HASH_BITS + place_bits > _KEY_BITS:
        return np.lexsort((hashes, owners))
    keys = (((owners << _HASH_BITS) | hashes) << place_bits) | np.arange(number)
    keys.sort()
    return keys & ((1 << place_bits) - 1)


class _Parts:
    """The additions of rows to fields, each computed once."""

    def __init__(self, spec: Specification, columns: Sequence[Int64s]) -> None:
        self._spec = spec
        self._columns = columns
        self._known: dict[tuple[int, int | None], Int64s] = {}

    def of(self, field: PairTally) -> Int64s | None:
        """Return what rows add to a field; None where each adds 1."""
        if field.column is None:
            return None
        column = self._columns[field.column]
        missing = self._spec.columns[field.column].missing
        if not field.summed:
            there = column != missing
            return None if there.all() else there.astype(np.int64)
        whole = self._whole(field.column, field.midpoint)
        if field.part is None:
            return whole
        return whole >> _LOW_BITS if field.part else whole & ((1 << _LOW_BITS) - 1)

    def _whole(self, place: int, midpoint: int | None) -> Int64s:
        if (place, midpoint) not in self._known:
            column = self._columns[place].astype(np.int64)
            missing = self._spec.columns[place].missing
            whole = column if midpoint is None else (column - midpoint) ** 2
            if missing is not None:
                absent = column == missing
                if absent.any():
                    whole = np.where(absent, 0, whole)
            self._known[place, midpoint] = whole
        return self._known[place, midpoint]


def _identified(units: UnitNumbers) -> tuple[Int64s, UnitNumbers]:
    """Number the units of rows from 0; returns the number of each row, and the units by number."""
    bits = max(1, (len(units) - 1).bit_length())
    slots = ((units << np.uint64(PARTITION_BITS)) >> np.uint64(64 - bits)).astype(np.int64)
    table = np.zeros(1 << bits, dtype=np.uint64)
    table[slots] = units  # of several units one has it, whole: all of its rows are here
    taken = np.zeros(1 << bits, dtype=np.bool_)
    taken[slots] = True
    places = np.flatnonzero(taken)
    ranks = np.empty(1 << bits, dtype=np.int64)
    ranks[places] = np.arange(len(places))
    owners: Int64s = ranks[slots]
    found = table[places]
    others = np.flatnonzero(table[slots] != units)
    if len(others):
        apart, numbers = np.unique(units[others], return_inverse=True)
        owners[others] = len(found) + numbers.reshape(-1)
        found = np.concatenate([found, apart])
    return owners, found


def _by_table(
    owners: Int64s,
    found: UnitNumbers,
    groups: Int64s,
    width: int,
    values: Sequence[Int64s | None],
) -> Pairs:
    """Put rows together in a table with a cell for each unit and group."""
    cells = owners * width + groups
    size = len(found) * width
    rows = np.bincount(cells, minlength=size)
    there = np.flatnonzero(rows != 0)  # of integers it takes six times as long
    numbers = [
        rows[there]
        if each is None
        else np.bincount(cells, weights=each, minlength=size)[there].astype(np.int64)
        for each in values
    ]
    return Pairs(found[there // width], there % width, tuple(numbers))


def _by_sorting(
    owners: Int64s, found: UnitNumbers, groups: Int64s, values: Sequence[Int64s | None]
) -> Pairs:
    """Put rows together by sorting them, their places within the numbers that are sorted."""
    rows = len(owners)
    place_bits = rows.bit_length() if any(each is not None for each in values) else 0
    group_bits = int(groups.max()).bit_length()
    named = None
    if len(found).bit_length() + group_bits + place_bits > _KEY_BITS:
        named, numbers = np.unique(groups, return_inverse=True)
        groups, group_bits = numbers.reshape(-1), len(named).bit_length()
    keys = (owners << group_bits) | groups
    if place_bits:
        keys = (keys << place_bits) | np.arange(rows)
    keys.sort()
    places = keys & ((1 << place_bits) - 1)
    keys >>= place_bits
    starts = np.flatnonzero(_changes(keys))
    counted = np.diff(starts, append=rows)
    totals = [counted if each is None else np.add.reduceat(each[places], starts) for each in values]
    first = keys[starts]
    in_group = first & ((1 << group_bits) - 1)
    return Pairs(
        found[first >> group_bits],
        in_group if named is None else named[in_group],
        tuple(totals),
    )


def _changes(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Tell where a value differs from the one before; the first one does."""
    changes = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _starts_to_numbers(starts: NDArray[np.bool_]) -> Int64s:
    return np.cumsum(starts, dtype=np.int64) - 1

"""Rows at points: how many rows of each group, of those that units keep, have each value.

The rows of a group at one point are taken for a group of their own, a fine one, so that they are
put together as all rows are: to pairs of a unit and a fine group with a number of rows. Of those
a unit keeps some groups, and of each a systematic sample of its rows in the order of their values,
as in the SQL of ``dpsql.kinds.quantiles``; which ones, another hash says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.hashing import hashed_pairs
from dpsql.bounding.pairs import (
    Int64s,
    PairHashes,
    Pairs,
    changes,
    hashes_of,
    own_names,
)
from dpsql.bounding.specification import Specification
from dpsql.bounding.units import FirstGroups, GatheredUnits

_START_BITS: Final = 32
_MOST_CELLS: Final = 1 << 22
_MERGED_AT: Final = 1 << 21
_LARGEST: Final = 1 << 61


class PointCounts(NamedTuple):
    """How many rows are at points: places of groups among those asked for, points, and rows.

    They are in the order of places, then of points; all numbers of rows are positive.
    """

    places: Int64s
    points: Int64s
    rows: Int64s


def point_counts(
    whole: Iterable[GatheredUnits], spec: Specification, points: int, asked: Int64s
) -> PointCounts:
    """Count the rows that units keep in the groups ``asked`` for, at each of so many ``points``.

    ``whole`` are all units with fine groups, and their rows: the group by ``points`` + 1, plus the
    point, which is ``points`` for rows without a value. Parts of a unit are in the order of
    :func:`group_hashes`, and so have whole groups. Bounds are those of ``spec``, whose groups are
    whole ones. Sensitivity: as of ``histogram_sql``. Checked by
    ``tests/kinds/test_streamed_quantiles.py``.
    """
    places = np.full(spec.groups, -1, dtype=np.int64)
    places[asked] = np.arange(len(asked))
    cells = len(asked) * points
    found = _Table(cells) if cells <= _MOST_CELLS else _List()
    for units in whole:
        kept = FirstGroups(spec)
        for pairs in units.parts:
            groups = pairs.groups // (points + 1)
            at = pairs.groups - groups * (points + 1)
            starts = changes(pairs.units) | changes(groups)
            first = np.flatnonzero(starts)
            ours = Pairs(pairs.units[first], groups[first], ())
            of_pairs = places[ours.groups]
            stays = kept.flags(ours)
            counted = of_pairs >= 0 if stays is None else stays & (of_pairs >= 0)
            owners = np.repeat(np.arange(len(ours)), np.diff(first, append=len(pairs)))
            there = np.flatnonzero(counted[owners] & (at < points))
            rows, owners, at = pairs.numbers[0][there], owners[there], at[there]
            rows = _sampled(spec, ours, owners, rows)
            found.add(of_pairs[owners] * points + at, rows)
    keys, totals = found.totals()
    of_keys = keys // points
    return PointCounts(of_keys, keys - of_keys * points, totals)


def group_hashes(spec: Specification, points: int) -> PairHashes:
    """Return a hash of fine groups that is the one of their whole groups."""
    return lambda units, fine: hashes_of(spec, units, fine // (points + 1))


def _sampled(spec: Specification, pairs: Pairs, owners: Int64s, rows: Int64s) -> Int64s:
    """Count the rows of a pair's sample at each of its points, which are in order.

    ``owners`` are the places of pairs. Of n rows the k-th is kept where the number
    (k * most + start) // n, of a start below n, is another than the one for k - 1.
    """
    if not len(rows):
        return rows
    most, starts = spec.max_rows, changes(owners)
    first = np.flatnonzero(starts)
    sizes = np.add.reduceat(rows, first)
    over = np.flatnonzero(sizes > most)
    if not len(over):
        return rows
    numbers = np.diff(first, append=len(rows))[over]
    places = np.repeat(first[over] - (np.cumsum(numbers) - numbers), numbers)
    places += np.arange(len(places))  # of all points of pairs with too many rows
    whose = owners[first[over]]
    units = own_names(spec, pairs.units[whose])
    hashes = hashed_pairs(units, spec.hashed(pairs.groups[whose]), spec.sample_words)
    bits = (hashes >> np.uint64(64 - _START_BITS)).astype(np.int64)
    size = np.repeat(sizes[over], numbers)
    start = np.repeat(bits % sizes[over], numbers)
    ours = rows[places]
    after = np.cumsum(ours)
    after -= np.repeat((after - ours)[np.cumsum(numbers) - numbers], numbers)
    if int(sizes.max()) > _LARGEST // most:
        after = after.astype(object)
    found = rows.copy()
    found[places] = (after * most + start) // size - ((after - ours) * most + start) // size
    return found


class _Table:
    """Totals by key, of few keys: each has a cell."""

    def __init__(self, keys: int) -> None:
        self._cells = np.zeros(keys, dtype=np.int64)

    def add(self, keys: Int64s, rows: Int64s) -> None:
        """Add rows to keys."""
        np.add.at(self._cells, keys, rows)

    def totals(self) -> tuple[Int64s, Int64s]:
        """Return the keys that have any, ascending, and their totals."""
        keys = np.flatnonzero(self._cells)
        return keys, self._cells[keys]


class _List:
    """Totals by key, of any number: those that are there, merged whenever they have doubled."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int64s, Int64s]] = []
        self._size, self._most = 0, _MERGED_AT

    def add(self, keys: Int64s, rows: Int64s) -> None:
        """Add rows to keys."""
        self._parts.append((keys, rows))
        self._size += len(keys)
        if self._size > self._most:
            self._merge()
            self._most = max(_MERGED_AT, 2 * self._size)

    def totals(self) -> tuple[Int64s, Int64s]:
        """Return the keys that have any, ascending, and their totals."""
        self._merge()
        return self._parts[0]

    def _merge(self) -> None:
        none: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        keys = np.concatenate([none, *(part[0] for part in self._parts)])
        rows = np.concatenate([none, *(part[1] for part in self._parts)])
        order = np.argsort(keys)
        keys, rows = keys[order], rows[order]
        first = np.flatnonzero(changes(keys)) if len(keys) else none
        totals = np.add.reduceat(rows, first) if len(keys) else rows
        there = np.flatnonzero(totals)
        self._parts = [(keys[first[there]], totals[there])]
        self._size = len(there)

"""The maker of bounded integers in NumPy: rows stream in, and totals of groups come out.

Rows are put together to pairs of a unit and a group first, which are read once or twice.

What a unit adds to a group follows from the unit's own rows alone, in whatever order and in however
many batches they come. Memory is bounded by a share; what is beyond lies in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions, Sums
from dpsql.bounding.hashing import scrambled
from dpsql.bounding.left_out import LeftOutSums
from dpsql.bounding.packing import Packing
from dpsql.bounding.pairs import (
    HASH_BITS,
    PARTITION_BITS,
    Chunk,
    Int64s,
    PairHashes,
    Pairs,
    hashes_of,
    merged,
    no_pairs,
    pairs_of_rows,
    tallies_of,
)
from dpsql.bounding.partitions import Partitions, SomeRows
from dpsql.bounding.specification import GroupTotals, Specification
from dpsql.bounding.units import FirstGroups, GatheredUnits, added_up
from dpsql.engines.base.engine import IntegerStream

_LARGEST: Final = 1 << 62
"""The size that totals are cut to, far above any real one: as in SQL."""
_MERGED_AT: Final = 1 << 21  # pairs
_WORK: Final = 48  # bytes of work for each number of a pair
_NO_LIMIT: Final = 1 << 62


def bounded(whole: Iterable[GatheredUnits], spec: Specification) -> GroupTotals:
    """Compute the exact integers of groups, from what units contribute within their bounds.

    ``whole`` are all units. Sensitivity: as of ``Rewriter.groups``. Checked by
    ``tests/bounding/test_maker.py``. Totals of groups take what reading them from SQL takes, beside
    the share of memory.
    """
    fields = tallies_of(spec)
    units = np.zeros(spec.groups, dtype=np.int64)
    sums = [Sums(spec.groups) for _ in spec.sources]
    left_out = [LeftOutSums(each) for each in spec.estimates]
    for some in whole:
        first, told = FirstGroups(spec), [list[Int64s]() for _ in left_out]
        for pairs in some.parts:
            contributions = Contributions(spec, fields, pairs)
            for estimate, parts in zip(left_out, told, strict=True):
                parts.append(estimate.measured(pairs, contributions))
            kept = first.of(pairs)
            if not len(kept):
                continue
            if kept is not pairs:
                contributions = Contributions(spec, fields, kept)
            np.add.at(units, kept.groups, 1)
            for source, total in zip(spec.sources, sums, strict=True):
                total.add(kept.groups, contributions.of(source))
        for estimate, parts in zip(left_out, told, strict=True):
            estimate.add(added_up(parts))
    there = np.flatnonzero(units >= max(1, spec.minimum))
    if spec.always:
        there = np.zeros(1, dtype=np.int64)
    return GroupTotals(
        there,
        tuple(
            total.divided(there, _coarsening(spec, place), _LARGEST)
            for place, total in enumerate(sums)
        ),
        tuple(each.sums for each in left_out),
    )


def gathered_units(
    stream: IntegerStream, spec: Specification, hashed: PairHashes | None = None
) -> Iterator[GatheredUnits]:
    """Put rows together, and yield all units with their pairs.

    A unit whose pairs do not fit the share of memory comes in parts, to be read before the next
    units: by the first bits of these hashes of pairs, of which the usual ones order the groups that
    a unit keeps. What is not told apart by the bits that order groups comes at once, whatever
    memory it takes: of so many parts each has few groups, as the hash is salted.
    """
    packing = Packing(spec)
    making = _Making(stream, spec, packing, hashed or partial(hashes_of, spec))
    rows = Partitions(spec.words[0], packing.room, lambda: stream.share // 2, stream.file)
    with closing(rows):
        for units, groups, *columns in stream:
            stream.proceed()
            rows.add(units, packing.packed(groups, columns))
        for some in rows.together():
            yield from making.units(rows, some, 0)


class _Making:
    """Puts rows together, whether or not all pairs of a unit fit the memory."""

    def __init__(
        self, stream: IntegerStream, spec: Specification, packing: Packing, hashed: PairHashes
    ) -> None:
        self._stream = stream
        self._spec = spec
        self._packing = packing
        self._hashed = hashed
        self._fields = tallies_of(spec)

    def _most(self) -> int:
        """Return the number of pairs that fit the memory."""
        return self._stream.share // (_WORK * (len(self._fields) + 2))

    def units(self, rows: Partitions, some: SomeRows, level: int) -> Iterator[GatheredUnits]:
        """Yield the units of some rows: those of parts by units, where all are too many."""
        pairs = self._together(some, self._most)
        if pairs is not None:
            yield GatheredUnits.of(lambda: iter((pairs,)), divided=False)
        elif self._is_one(some):
            yield GatheredUnits.of(lambda: self._parts(rows, some, 0), divided=True)
        else:
            for part in rows.divided(some, self._unit_hashes, level):
                yield from self.units(rows, part, level + 1)

    def _parts(self, rows: Partitions, some: SomeRows, level: int) -> Iterator[Pairs]:
        """Yield the pairs of one unit in parts, in the order of their hashes."""
        last = (level + 1) * PARTITION_BITS > HASH_BITS - PARTITION_BITS
        for part in rows.divided(some, self._group_hashes, level):
            pairs = self._together(part, (lambda: _NO_LIMIT) if last else self._most)
            if pairs is None:
                yield from self._parts(rows, part, level + 1)
            else:
                yield pairs

    def _is_one(self, some: SomeRows) -> bool:
        """Tell whether rows are of a single unit."""
        names = set[int]()
        for chunk in some.chunks(named=True):
            self._stream.proceed()
            assert chunk.units is not None
            if len(chunk.units):
                names |= {int(chunk.units.min()), int(chunk.units.max())}
            if len(names) > 1:
                return False
        return True

    def _unit_hashes(self, chunk: Chunk) -> NDArray[np.uint64]:
        self._stream.proceed()
        assert chunk.units is not None
        return scrambled(chunk.units, self._spec.words[0])

    def _group_hashes(self, chunk: Chunk) -> NDArray[np.uint64]:
        self._stream.proceed()
        assert chunk.units is not None
        return self._hashed(chunk.units, self._packing.groups(chunk.words))

    def _together(self, some: SomeRows, limit: Callable[[], int]) -> Pairs | None:
        """Put rows together; None if there are more pairs than the limit, which is asked anew.

        More than half of it are too many where further rows follow. So pairs are merged only with
        as many others, or many, and what is merged in all is in proportion to the rows.
        """
        parts: list[Pairs] = []
        had = 0
        for chunk in some.chunks():
            self._stream.proceed()
            most = limit()
            if had > most // 2:
                return None
            parts.append(pairs_of_rows(self._spec, self._packing, self._fields, chunk))
            if len(parts) > 1 and sum(map(len, parts)) > min(most, max(_MERGED_AT, 2 * had)):
                parts = [merged(parts)]
                had = len(parts[0])
                if had > most:
                    return None
        return merged(parts) if parts else no_pairs(self._fields)


def _coarsening(spec: Specification, place: int) -> int:
    lattice = spec.sources[place].measure.lattice
    return 1 if lattice is None else lattice.coarsening

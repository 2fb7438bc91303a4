"""The maker of bounded integers in NumPy: rows stream in, and totals of groups come out.

Rows are put together to pairs of a unit and a group first, which are read once or twice.

What a unit adds to a group follows from the unit's own rows alone, in whatever order and in however
many batches they come. Memory is bounded by a share; what is beyond lies in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

import numpy as np

from dpsql.bounding.contributions import Contributions, Sums
from dpsql.bounding.left_out import LeftOutSums
from dpsql.bounding.packing import Packing
from dpsql.bounding.pairs import (
    HASH_BITS,
    Chunk,
    PairHashes,
    Pairs,
    PairTally,
    kept_pairs,
    merged,
    no_pairs,
    pairs_of_rows,
    tallies_of,
)
from dpsql.bounding.partitions import PART_BITS, Partitions, UnitPart
from dpsql.bounding.specification import GroupTotals, Specification
from dpsql.engines.base.engine import IntegerStream

_LARGEST: Final = 1 << 62
"""The size that totals are cut to, far above any real one: as in SQL."""
_MERGED_AT: Final = 1 << 21  # pairs
_WORK: Final = 48  # bytes of work for each number of a pair
_NO_LIMIT: Final = 1 << 62


def bounded(whole: Iterable[Pairs], spec: Specification) -> GroupTotals:
    """Compute the exact integers of groups, from what units contribute within their bounds.

    ``whole`` are the pairs of all units, all of a unit at once. Sensitivity: as of
    ``Rewriter.groups``. Checked by ``tests/bounding/test_maker.py``. Totals of groups take what
    reading them from SQL takes, beside the share of memory.
    """
    fields = tallies_of(spec)
    units = np.zeros(spec.groups, dtype=np.int64)
    sums = [Sums(spec.groups) for _ in spec.sources]
    left_out = [LeftOutSums(each) for each in spec.estimates]
    for pairs in whole:
        contributions = Contributions(spec, fields, pairs)
        for estimate in left_out:
            estimate.add(pairs, contributions)
        kept = kept_pairs(spec, pairs)
        if kept is not pairs:
            contributions = Contributions(spec, fields, kept)
        np.add.at(units, kept.groups, 1)
        for source, total in zip(spec.sources, sums, strict=True):
            total.add(kept.groups, contributions.of(source))
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


def pairs_of_units(
    stream: IntegerStream, spec: Specification, hashed: PairHashes | None = None
) -> Iterator[Pairs]:
    """Put rows together, and yield the pairs of units, all of a unit at once.

    Raises ``MemoryError`` where the pairs of a single unit do not fit the share of memory: another
    maker in its place would keep other groups of all units. With ``hashed`` they come some at a
    time instead, one after the other, in ascending order of the first bits of these hashes. What is
    not told apart by ``HASH_BITS`` of them comes at once, whatever memory it takes.
    """
    fields, packing = tallies_of(spec), Packing(spec)
    rows = Partitions(spec.words[0], packing.room, lambda: stream.share // 2, stream.file)
    with closing(rows):
        for units, groups, *columns in stream:
            stream.proceed()
            rows.add(units, packing.packed(groups, columns))
        for partitions in rows.together():
            waiting = [UnitPart()]
            while waiting:
                part = waiting.pop()
                chunks, most = rows.chunks(partitions, part), stream.share
                if part.groups is not None:
                    assert hashed is not None
                    chunks = _of_groups(chunks, packing, part.groups, hashed)
                    if part.groups.bits >= HASH_BITS - HASH_BITS % PART_BITS:
                        most = _NO_LIMIT
                pairs = _pairs(chunks, stream, spec, packing, fields, most)
                if pairs is None:
                    single = None
                    if hashed is not None:
                        single = part if part.groups else rows.single(partitions, part)
                    waiting += part.parts() if single is None else single.parts_of_groups()
                elif len(pairs):
                    yield pairs


def _of_groups(
    chunks: Iterator[Chunk], packing: Packing, part: UnitPart, hashed: PairHashes
) -> Iterator[Chunk]:
    """Yield the rows of a part of the groups."""
    for chunk in chunks:
        assert chunk.units is not None
        there = part.begins(hashed(chunk.units, packing.groups(chunk.words)))
        places = np.flatnonzero(there)
        words = [word[places] for word in chunk.words]
        yield Chunk(words, chunk.partition, chunk.units[places])


def _coarsening(spec: Specification, place: int) -> int:
    lattice = spec.sources[place].measure.lattice
    return 1 if lattice is None else lattice.coarsening


def _pairs(
    chunks: Iterator[Chunk],
    stream: IntegerStream,
    spec: Specification,
    packing: Packing,
    fields: tuple[PairTally, ...],
    memory: int,
) -> Pairs | None:
    """Put rows together; None if that does not fit so many bytes of memory."""
    parts: list[Pairs] = []
    for chunk in chunks:
        stream.proceed()
        parts.append(pairs_of_rows(spec, packing, fields, chunk))
        most = memory // (_WORK * (len(fields) + 2))
        if len(parts) > 1 and sum(map(len, parts)) > min(most, _MERGED_AT):
            parts = [merged(parts)]
            if len(parts[0]) > most:
                return None
    return merged(parts) if parts else no_pairs(fields)

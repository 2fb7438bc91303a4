"""Units with their groups, one after the other in the order of a salted hash.

Where one unit comes relative to another depends on these two alone: not on which others there are,
and neither on partitions nor on what memory holds. What the proofs of policies and votes rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.hashing import scrambled
from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.pairs import Int64s, Pairs, UnitNumbers, changes, divided_units, own_names
from dpsql.bounding.partitions import unit_numbers
from dpsql.bounding.specification import Specification
from dpsql.privacy.mechanisms.set_union_weights import UnitItems

_WORK: Final = 64  # bytes of work for each pair
_LEAST: Final = 1 << 16  # pairs at once, whatever memory there is
_MOST: Final = 1 << 22
_HASH_BITS: Final = 64


def units_by_hash(whole: KeptPairs, spec: Specification) -> Iterator[UnitItems]:
    """Yield units with their groups, some at a time: once also where there are none.

    Units whose hashes begin alike come at once; for each beginning all pairs are read. Units that
    keep all groups are there to vote: of n units each has its first n groups here, as the others
    have n - 1 votes, so that one of its first n groups takes a vote. So memory holds no unit with
    many more groups than there are units. Checked by ``tests/kinds/test_streamed_union.py``.
    """
    most = number_of_units(whole) if spec.kept is None else None
    at_once = min(_MOST, max(_LEAST, whole.stream.share // _WORK))
    bits = (max(1, len(whole)) // at_once).bit_length()
    done = 0
    for beginning in range(1 << bits):
        parts = whole if most is None else _first_groups(whole, most)
        found = [_NOBODY, *(_beginning(pairs, spec, bits, beginning) for pairs in parts)]
        hashes, numbers, sizes, groups = map(np.concatenate, zip(*found, strict=True))
        first = np.flatnonzero(changes(numbers))
        if len(first) < len(numbers):  # parts of a unit, one after the other
            hashes, numbers, sizes = hashes[first], numbers[first], np.add.reduceat(sizes, first)
        # Only units whose numbers end in a rank may have one hash.
        order = np.lexsort((numbers, hashes)) if spec.rank_bits else np.argsort(hashes)
        ends = np.cumsum(sizes)
        sizes, ends = sizes[order], ends[order]
        positions = np.repeat(np.arange(len(order)), sizes)
        # From the place of a pair here to that in its own unit, before units were sorted.
        places = np.arange(len(groups)) + np.repeat(ends - np.cumsum(sizes), sizes)
        yield UnitItems(positions + done, groups[places])
        done += len(order)


_Units = tuple[UnitNumbers, UnitNumbers, Int64s, Int64s]
_NOBODY: Final[_Units] = (
    np.zeros(0, dtype=np.uint64),
    np.zeros(0, dtype=np.uint64),
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int64),
)


def number_of_units(whole: KeptPairs) -> int:
    """Count the units."""
    return sum(len(pairs.starts) - goes_on for pairs, goes_on in divided_units(whole))


def _first_groups(whole: Iterable[Pairs], most: int) -> Iterator[Pairs]:
    """Yield the pairs of each unit's first groups, by their numbers."""
    had = 0  # of the last unit so far
    for pairs, goes_on in divided_units(whole):
        starts = pairs.starts
        sizes, before = np.diff(starts, append=len(pairs)), had if goes_on else 0
        had = int(sizes[-1]) + (before if len(starts) == 1 else 0)
        if before + int(sizes.max()) <= most:
            yield pairs
            continue
        ranks = np.arange(len(pairs)) - np.repeat(starts, sizes)
        ranks[: sizes[0]] += before
        yield pairs.at(np.flatnonzero(ranks < most))


def _beginning(pairs: Pairs, spec: Specification, bits: int, beginning: int) -> _Units:
    """Return hashes, numbers, and numbers of groups of units whose hash begins so; their groups."""
    starts, key = pairs.starts, spec.order_key
    names = pairs.units[starts]
    sizes = np.diff(starts, append=len(pairs))
    hashes = scrambled(own_names(spec, names), key)
    numbers = unit_numbers(names, spec.words[0])
    if not bits:
        return hashes, numbers, sizes, pairs.groups
    there: NDArray[np.bool_] = hashes >> np.uint64(_HASH_BITS - bits) == np.uint64(beginning)
    groups = pairs.groups[np.repeat(there, sizes)]
    return hashes[there], numbers[there], sizes[there], groups

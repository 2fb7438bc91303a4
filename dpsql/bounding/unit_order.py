"""Units with their groups, one after the other in the order of a salted hash.

Where one unit comes relative to another depends on these two alone: not on which others there are,
and neither on partitions nor on what memory holds. What the proofs of policies and votes rely on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from dpsql.bounding.hashing import scrambled
from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.pairs import Int64s, Pairs, UnitNumbers, merged, own_names
from dpsql.bounding.partitions import unit_numbers
from dpsql.bounding.specification import Specification
from dpsql.bounding.units import GatheredUnits
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
        found = [_NOBODY]
        for units in whole:
            ours = units.changed(partial(_beginning, spec, bits, beginning))
            pairs = _together(ours, most)
            if pairs is not None:
                found.append(_numbered(pairs, spec))
        hashes, numbers, sizes, groups = map(np.concatenate, zip(*found, strict=True))
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
    return sum(units.number for units in whole)


def _together(units: GatheredUnits, most: int | None) -> Pairs | None:
    """Take each unit's first groups by number, all without ``most``; None of no units.

    Of a unit in parts these are looked for among those of parts before and those of the next, once
    these are as many.
    """
    found: list[Pairs] = []
    had = 0
    for pairs in units.parts:
        found.append(_first_groups(pairs, most))
        if most is not None and sum(map(len, found)) > 2 * had + _LEAST:
            found = [_first_groups(merged(found), most)]
            had = len(found[0])
    return _first_groups(merged(found), most) if found else None


def _first_groups(pairs: Pairs, most: int | None) -> Pairs:
    """Take the pairs of each unit's first groups, by their numbers."""
    if most is None or len(pairs) <= most:
        return pairs
    starts = pairs.starts
    sizes = np.diff(starts, append=len(pairs))
    if int(sizes.max()) <= most:
        return pairs
    ranks = np.arange(len(pairs)) - np.repeat(starts, sizes)
    return pairs.at(np.flatnonzero(ranks < most))


def _beginning(spec: Specification, bits: int, beginning: int, pairs: Pairs) -> Pairs:
    """Take the pairs of units whose hash begins so."""
    if not bits:
        return pairs
    starts = pairs.starts
    begins = _hashes(pairs.units[starts], spec) >> np.uint64(_HASH_BITS - bits)
    there = np.repeat(begins == np.uint64(beginning), np.diff(starts, append=len(pairs)))
    return pairs.at(np.flatnonzero(there))


def _numbered(pairs: Pairs, spec: Specification) -> _Units:
    """Return hashes, numbers, and numbers of groups of units; their groups."""
    starts = pairs.starts
    names = pairs.units[starts]
    sizes = np.diff(starts, append=len(pairs))
    return _hashes(names, spec), unit_numbers(names, spec.words[0]), sizes, pairs.groups


def _hashes(names: UnitNumbers, spec: Specification) -> UnitNumbers:
    return scrambled(own_names(spec, names), spec.order_key)

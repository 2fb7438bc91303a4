"""Pools the stored releases of one statistic: post-processing, computed anew each time.

What the ledger keeps is each release for itself; here their values become one estimate per key and
measure, weighted by inverse variance (:mod:`dpsql.privacy.mechanisms.pooling`). A key that a
release does not have is estimated from those that have it. Nothing is read but what was released
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.engines.base.engine import ArrowStream, KeyArrays
from dpsql.ir.plan import PreparedBlock
from dpsql.kinds.pooled import PooledKind
from dpsql.kinds.released import ReleasedBlock, ReleasedRows
from dpsql.pipeline.kept.release_codec import key_lists, unpacked_keys
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.privacy.accounting.zcdp import ZERO

Release: TypeAlias = tuple[ReleasedBlock, ...]
"""The released blocks of one statement, at one time."""


@dataclass(frozen=True, slots=True)
class _MergedKeys:
    """The groups that any of some releases has, and where each release has them.

    ``places`` has the shape (releases, groups): the row of the group in the release, -1 for none.
    """

    row_ids: NDArray[np.int64]
    keys: KeyArrays | ArrowStream | None
    places: NDArray[np.int64]


def pool_releases(
    spelling: KeySpelling, blocks: Sequence[PreparedBlock], releases: Sequence[Release]
) -> Release | None:
    """Pool releases of the same statistics into blocks whose rows name their releases.

    ``blocks`` are prepared to say so (``Block.pools``); ``releases`` were unpacked from the
    ledger, each with a block for each of these. None where that cannot be done: some noise is not
    known, or keys have no exact text.
    """
    pooled = []
    for index, block in enumerate(blocks):
        found = _pooled_block(spelling, block, [release[index] for release in releases])
        if found is None:
            return None
        pooled.append(found)
    return tuple(pooled)


def _pooled_block(
    spelling: KeySpelling, block: PreparedBlock, releases: Sequence[ReleasedBlock]
) -> ReleasedBlock | None:
    noises = [release.noise for release in releases if release.noise is not None]
    if len(noises) < len(releases):
        return None
    declared = block.plan.declared
    merged = _merged_positions(releases) if declared else _merged_keys(spelling, block, releases)
    if merged is None:
        return None
    kind = PooledKind(replace(block.plan, kept=tuple(noises)))
    values = kind.values([release.rows for release in releases], merged.places)
    rows = ReleasedRows(merged.row_ids, merged.keys, values, ZERO)
    return ReleasedBlock(replace(block, plan=kind.plan), rows)


def _merged_positions(releases: Sequence[ReleasedBlock]) -> _MergedKeys:
    """Merge declared groups, which releases name by their positions."""
    found = [release.rows.row_ids for release in releases]
    ids = np.unique(np.concatenate(found))
    places = np.full((len(found), len(ids)), -1, dtype=np.int64)
    for row, each in zip(places, found, strict=True):
        row[np.searchsorted(ids, each)] = np.arange(len(each))
    return _MergedKeys(ids, None, places)


def _merged_keys(
    spelling: KeySpelling, block: PreparedBlock, releases: Sequence[ReleasedBlock]
) -> _MergedKeys | None:
    """Merge undeclared groups by the values of their keys, in an order that these decide."""
    known: dict[tuple[Any, ...], list[int]] = {}
    spelled: list[list[str] | None] = []
    for index, release in enumerate(releases):
        lists, dtypes = key_lists(spelling, block.keys, release.rows)
        if lists is None:
            return None
        spelled.append(dtypes)
        for place, key in enumerate(zip(*lists, strict=True)):
            known.setdefault(key, [-1] * len(releases))[index] = place
    if any(dtypes != spelled[0] for dtypes in spelled):
        return None
    names = sorted(known, key=lambda key: [(part is None, str(part)) for part in key])
    columns = [[name[i] for name in names] for i in range(len(block.keys))]
    ids = list(range(1, len(names) + 1))
    keys = unpacked_keys(spelling, block.keys, spelled[0], columns, ids)
    places = np.array([known[name] for name in names], dtype=np.int64)
    return _MergedKeys(
        np.array(ids, dtype=np.int64), keys, places.reshape(len(names), len(releases)).T
    )

"""Rolls the groups of a stored release up to the groups of a coarser question: post-processing.

Let a release have the groups of all declared values of its keys, and a question ask for fewer of
these keys over the same rows. Then each of its groups is a sum of released ones, if what it counts
adds up: numbers of rows and sums of their values do. Numbers of units do where a unit is in one
group at most, for then none is counted twice.

The sum is what the finer question's bounding left: of each unit so many of *its* groups, and so
many rows in each. And it is of rows whose keys all have a declared value. Both are said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.measures import COUNTED_DISTINCT, Measure, MeasureKind
from dpsql.ir.plan import PreparedBlock, RolledUp
from dpsql.ir.query import Block, Key
from dpsql.kinds.released import NumericArray, ReleasedBlock
from dpsql.kinds.rolled_up import RolledUpKind
from dpsql.pipeline.kept.fingerprint import part_fingerprint, rows_fingerprint
from dpsql.pipeline.kept.roll_up_source import RollUpSource

_ONCE = frozenset({MeasureKind.UNITS, MeasureKind.MATCHING_UNITS})
_EXACT = 2.0**53


def may_roll_up(block: Block) -> bool:
    """Tell whether the answer of a block could be a roll-up of a release over its rows."""
    return bool(block.known_domain and block.measures) and not (
        block.quantiles or block.hides_small_groups
    )


def rolled_up(block: PreparedBlock, source: RollUpSource, settled: str) -> ReleasedBlock | None:
    """Roll a release by more keys, or the same, up to a block; None if keys or measures differ.

    It cannot be if any key, any of their declared values, any measure or its bounds differ.
    """
    asked = block.plan.block
    keys = _keys(asked, source)
    found = [source.columns.get(part_fingerprint(measure)) for measure in asked.measures]
    if keys is None or not may_roll_up(asked) or rows_fingerprint(asked) != source.rows:
        return None
    groups = math.prod(len(key.domain or ()) for key in keys) // asked.domain_size
    adds = all(_adds(measure, source, groups) for measure in asked.measures)
    columns = [column for column in found if column is not None]
    if not adds or len(columns) < len(found):
        return None
    total = [_totals(source.values[name], keys, asked.keys) for name, _ in columns]
    if any(column is None for column in total):
        return None
    noises = tuple(source.noise.measures[index] for _, index in columns)
    own = {_digest(key) for key in asked.keys}
    over = tuple(key.text for key in keys if _digest(key) not in own)
    names = tuple(key.text for key in keys)
    rolled_up = RolledUp(settled, names, over, groups, source.kept, noises)
    kind = RolledUpKind.of(block.plan, rolled_up)
    rows = kind.rows([column for column in total if column is not None])
    return ReleasedBlock(replace(block, plan=kind.plan), rows)


def _digest(key: Key) -> str:
    return part_fingerprint(key)


def _keys(asked: Block, source: RollUpSource) -> list[Key] | None:
    """Find the keys of a stored release among the keys declared today; None if one has changed."""
    today = {_digest(key): key for key in asked.source.declared}
    found = [today[digest] for digest in source.keys if digest in today]
    wanted = {_digest(key) for key in asked.keys}
    if len(found) < len(source.keys) or not wanted <= set(source.keys):
        return None
    return found


def _adds(measure: Measure, source: RollUpSource, groups: int) -> bool:
    """Tell whether values of a measure in several groups add up to that of all of them."""
    if groups == 1 or measure.kind not in COUNTED_DISTINCT:
        return True
    return source.kept == 1 and measure.kind in _ONCE


def _totals(
    values: NumericArray, keys: Sequence[Key], asked: Sequence[Key]
) -> NDArray[np.int64] | NDArray[np.float64] | None:
    """Add an array of shape (finer groups,) up to one of shape (asked groups,).

    Integers stay such if no sum of them can leave the exact doubles. None where the release has
    another number of groups than its keys have.
    """
    shape = [len(key.domain or ()) for key in keys]
    if math.prod(shape) != len(values):
        return None
    wide = values.astype(np.float64)
    whole = values.dtype.kind == "i" and float(np.abs(wide).sum()) < _EXACT
    cube = (values if whole else wide).reshape(shape)
    places = [[_digest(key) for key in keys].index(_digest(key)) for key in asked]
    over = [axis for axis in range(len(keys)) if axis not in places]
    cube = cube.transpose([*places, *over])
    found: NDArray[np.int64] | NDArray[np.float64]
    found = cube.reshape(math.prod(shape[place] for place in places), -1).sum(axis=1)
    return found

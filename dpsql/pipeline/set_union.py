"""Reads set unions: stores units and their keys, and streams them past a policy for weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base import ExactRows, Scratch
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.set_union import SetUnion
from dpsql.mechanisms.set_union_weights import UnitItems
from dpsql.pipeline.exact import ExactUnion
from dpsql.sql.rewrite.set_union import PAIRS_TABLE, UNITS_TABLE, SetUnionSQL

_PAIRS_AT_ONCE = 2**19
Percent = Callable[[int], None]
"""Told 0, 1, ..., 100 in this order while a set union or a cascade reads private rows.

Each number comes once, whatever the data. When it comes is not protected, as timing never is.
"""


_STORED = 60  # percent, once what a policy reads is stored


def read_set_union(
    plan: BlockPlan,
    sql: SetUnionSQL,
    scratch: Scratch,
    keys: Sequence[Column],
    percent: Percent = lambda _: None,
) -> ExactUnion:
    """Read the weights of all keys. Keys themselves are read only once they are named."""
    progress = ReadingProgress(percent)
    rows = {}
    for number, (name, select) in enumerate(sql.tables, 1):
        rows[name] = scratch.store(name, select)
        progress.reach((_STORED if sql.weights is None else 100) * number // len(sql.tables))
    for name in sql.dropped:
        scratch.drop(name)
    if sql.weights is not None:
        (weights,) = scratch.integers(sql.weights)
    else:
        assert sql.pairs is not None
        assert isinstance(plan.selection, SetUnion)
        weights = _weighed(
            plan.selection, scratch, sql.pairs, rows[UNITS_TABLE], rows[PAIRS_TABLE], progress
        )

    def named(ids: NDArray[np.int64]) -> ExactRows:
        return scratch.keys(sql.named, keys, ids)

    return ExactUnion(weights, named)


class ReadingProgress:
    """Tells every percent up to the one that is reached, each once; 0 at the start."""

    def __init__(self, percent: Percent) -> None:
        self._percent = percent
        self._next = 0
        self.reach(0)

    def reach(self, percent: int) -> None:
        while self._next <= percent:
            self._percent(self._next)
            self._next += 1


def _weighed(
    union: SetUnion,
    scratch: Scratch,
    between: Sql,
    units: int,
    pairs: int,
    progress: ReadingProgress,
) -> NDArray[np.int64]:
    """Weigh the keys by a policy's pass over all units, some of them at a time."""

    def tell(done: int, total: int | None) -> None:
        progress.reach(_STORED + (100 - _STORED) * done // (total or done))

    step = max(1, _PAIRS_AT_ONCE * units // max(1, pairs))
    batches = (
        UnitItems(*scratch.integers(between, first, first + step))
        for first in range(0, units, step)
    )
    weights = union.weigh(batches, tell, units)
    progress.reach(100)  # where there are no units
    return weights

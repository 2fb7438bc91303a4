"""Releases set unions: streams units and their keys past the mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.engines.base import Stage
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.sampling.noise import EntropySource
from dpsql.mechanisms.set_union import SetUnion
from dpsql.mechanisms.set_union_weights import UnitItems
from dpsql.pipeline.released import ReleasedRows
from dpsql.sql.rewrite.set_union import PAIRS, UNITS, SetUnionSQL

_PAIRS_AT_ONCE = 2**19
Percent = Callable[[int], None]
"""Told 0, 1, ..., 100 in this order while a set union reads private rows.

Each number comes once, whatever the data. When it comes is not protected, as timing never is.
"""


_STORED = 60  # percent, once what a policy reads is stored


def release_set_union(
    plan: BlockPlan,
    sql: SetUnionSQL,
    stage: Stage,
    keys: Sequence[Column],
    source: EntropySource,
    percent: Percent = lambda _: None,
) -> ReleasedRows:
    """Draw which keys are named. Keys themselves are read only once they are.

    Guarantee: ``plan.loss(released)``, for tables within the sensitivity of ``set_union_sql``.
    """
    union = plan.selection
    assert isinstance(union, SetUnion)
    progress = _Progress(percent)
    rows = {}
    for number, (name, select) in enumerate(sql.tables, 1):
        rows[name] = stage.store(name, select)
        progress.reach((_STORED if sql.weights is None else 100) * number // len(sql.tables))
    for name in sql.scratch:
        stage.drop(name)
    if sql.weights is not None:
        (weights,) = stage.integers(sql.weights)
    else:
        assert sql.pairs is not None
        weights = _weighed(union, stage, sql.pairs, rows[UNITS], rows[PAIRS], progress)
    named = union.select(weights, source).indices
    exact = stage.keys(sql.named, keys, named + 1)
    return ReleasedRows(exact.row_ids, exact.keys, {}, plan.loss(len(named)))


class _Progress:
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
    union: SetUnion, stage: Stage, between: str, units: int, pairs: int, progress: _Progress
) -> NDArray[np.int64]:
    """The keys' weights after a policy's pass over all units, some of them at a time."""

    def tell(done: int, total: int | None) -> None:
        progress.reach(_STORED + (100 - _STORED) * done // (total or done))

    step = max(1, _PAIRS_AT_ONCE * units // max(1, pairs))
    batches = (
        UnitItems(*stage.integers(between, first, first + step)) for first in range(0, units, step)
    )
    weights = union.weigh(batches, tell, units)
    progress.reach(100)  # where there are no units
    return weights

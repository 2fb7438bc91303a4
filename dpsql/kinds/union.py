"""Set unions: keys alone, named by the units that have them.

Units and their keys are stored, and streamed past a policy that weighs the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.core.progress import Percent, ReadingProgress
from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base import ExactRows, Scratch
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import FEW, BlockReading
from dpsql.kinds.left_out import ExactLook
from dpsql.kinds.released import ReleasedRows
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.set_union import PAIRS_TABLE, UNITS_TABLE, SetUnionSQL, set_union_sql

_PAIRS_AT_ONCE = 2**19
_STORED = 60  # percent, once what a policy reads is stored


@dataclass(frozen=True, slots=True)
class ExactUnion:
    """The weights of all keys of a set union, in the order of their row ids, which start at 1.

    ``weights``: int64 array of shape (keys,), in steps. ``named`` reads the keys with some row ids.
    """

    weights: NDArray[np.int64]
    named: Callable[[NDArray[np.int64]], ExactRows]
    looks: Mapping[str, ExactLook] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which keys are named.

        Guarantee: ``plan.loss(released)``, for tables within the sensitivity of ``set_union_sql``.
        """
        union = plan.selection
        assert isinstance(union, SetUnion)
        chosen = union.select(self.weights, source).indices
        named = self.named(chosen + 1)
        return ReleasedRows(named.row_ids, named.keys, {}, plan.loss(len(chosen)))

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for named keys."""
        self.named(FEW)


class UnionKind:
    """Keys alone, named by the units that have them."""

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether a plan needs pairs of units and keys, in one step."""
        return plan.cascade is None and plan.selection.needs_pairs

    def statement(self, plan: BlockPlan, salt: int, dialect: Dialect) -> Sql:
        """Write the keys with their weights, or with the units that have them."""
        return set_union_sql(plan, plan.block.source.table, salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactUnion]:
        """Store units and their keys, and weigh these."""
        plan = reading.plan
        union = set_union_sql(plan, plan.block.source.table, reading.salt, reading.dialect)
        with reading.rows.scratch() as scratch:
            yield read_set_union(plan, union, scratch, reading.block.keys, reading.progress)


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
        for first in range(0, max(1, units), step)  # also where no unit is there
    )
    weights = union.weigh(batches, tell, units)
    progress.reach(100)  # where there are no units
    return weights

"""Set unions: keys alone, named by the units that have them.

Units and their keys are stored, and streamed past a policy that weighs the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Appearance, appearance
from dpsql.accuracy.wording import Part, groups_chosen, printable_name
from dpsql.core.formatting import figure_above
from dpsql.core.progress import Percent, ReadingProgress
from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ExactRows, Scratch
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import FEW, BlockReading, ReleaseKind
from dpsql.kinds.left_out import ExactLeftOut
from dpsql.kinds.released import ReleasedRows
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting, set_union_in
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.sampling.noise import EntropySource
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
    estimates: Mapping[str, ExactLeftOut] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which keys are named.

        Guarantee: ``plan.loss(released)``, for tables within the sensitivity of ``set_union_sql``.
        """
        chosen = UnionKind(plan).union.select(self.weights, source).indices
        named = self.named(chosen + 1)
        return ReleasedRows(named.row_ids, named.keys, {}, plan.loss(len(chosen)))

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for named keys."""
        self.named(FEW)


class UnionKind(ReleaseKind):
    """Keys alone, named by the units that have them."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a set union names the keys."""
        return set_union_in(plan.selection) is not None

    @property
    def union(self) -> SetUnion:
        """The set union that names the keys."""
        found = set_union_in(self.plan.selection)
        assert found is not None
        return found

    def sql(self, salt: int, dialect: Dialect) -> SetUnionSQL:
        """Write its statements."""
        return set_union_sql(self.private_rows(salt, dialect), self.union)

    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write the keys with their weights, or with the units that have them."""
        return self.sql(salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactUnion]:
        """Store units and their keys, and weigh these."""
        plan, union = self.plan, self.sql(reading.salt, reading.dialect)
        with reading.rows.scratch() as scratch:
            yield read_set_union(plan, union, scratch, reading.block.keys, reading.progress)

    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield which keys are listed, and how many of them a unit has."""
        found = self.appearance()
        if found is not None:
            yield _listed(self.plan, found)
        yield from groups_chosen(self.plan)

    def appearance(self) -> Appearance | None:
        """Tell how often keys are listed; for policies by an estimate (see ``SetUnion.share``)."""
        return appearance(self.plan, above=True)

    @property
    def counted_by(self) -> str | None:
        """Units with as many keys as they may have."""
        return f"units of {self.plan.groups} groups each"

    @property
    def bounding(self) -> str:
        """How many keys a unit has, and what they weigh."""
        weight = f"together of weight 1 in l{self.union.norm}"
        return f"at most {self.plan.groups} groups per unit (sampled by a salted hash), {weight}"


def _listed(plan: BlockPlan, found: Appearance) -> str:
    """State a threshold on weights that units divide among their keys."""
    unit, half, surely = (
        printable_name(plan.block.unit_name),
        figure_above(found.half),
        figure_above(found.surely),
    )
    if UnionKind(plan).union.weighting is Weighting.POLICY:
        return (
            f"All that is listed exists. By an estimate a key needs about {half} units ({unit}) to "
            f"be listed half the time, and {surely} for 95% (after bounding)."
        )
    return (
        f"All that is listed exists. A key that keeps {half} units ({unit}) is listed at least "
        f"half the time, one with {surely} at least 95%."
    )


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
        weights = _weighed(
            UnionKind(plan).union,
            scratch,
            sql.pairs,
            rows[UNITS_TABLE],
            rows[PAIRS_TABLE],
            progress,
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

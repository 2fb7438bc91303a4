"""Cascades between reading and releasing: the stage of pairs, and the steps drawn from it.

The release asks for one exact step after the other. What it asks for is made of public parameters
and of what it has released: row ids of named groups, how many keys a unit keeps, a cap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.core.sql import Sql
from dpsql.engines.base import ArrowStream, KeyArrays, Scratch
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.additive import Steps
from dpsql.mechanisms.cascade import (
    NAMED_ALONE,
    NamedGroups,
    UnitSizes,
    scaled_counts,
)
from dpsql.mechanisms.naming import GroupWeights
from dpsql.mechanisms.sampling.noise import EntropySource
from dpsql.pipeline.exact import ExactCascade, KeysOf
from dpsql.pipeline.set_union import Percent, ReadingProgress
from dpsql.sql.rewrite.cascade import (
    COUNTED_PAIRS,
    LEFT_PAIRS,
    NAMED_IDS,
    STAGED_PAIRS,
    CascadeSQL,
    sizes_of,
)

_STAGED = 60  # percent, once the pairs are on the stage
_OF_A_STEP = 7


def read_cascade(
    sql: CascadeSQL, scratch: Scratch, keys_of: KeysOf, percent: Percent
) -> ExactCascade:
    """Put the pairs of units and keys on a stage, which the steps read when they are asked for."""
    progress = ReadingProgress(percent)
    for number, (name, select) in enumerate(sql.tables, 1):
        scratch.store(name, select)
        progress.reach(_STAGED * number // len(sql.tables))
    for name in sql.dropped:
        scratch.drop(name)
    rows = _StagedRows(sql, scratch, progress)

    def named_keys(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        found = keys_of(ids)
        progress.reach(100)
        return found

    return ExactCascade(rows, rows.totals, named_keys)


@dataclass(slots=True)
class _StagedRows:
    """The stage of one question: the exact rows of its steps. Tables are made anew by each step."""

    sql: CascadeSQL
    scratch: Scratch
    progress: ReadingProgress
    _stored: set[str] = field(default_factory=set)
    _steps: int = 0
    _counted: NDArray[np.int64] | None = None

    def unit_sizes(self, named: NDArray[np.int64] | None) -> UnitSizes:
        table = STAGED_PAIRS
        if named is not None:
            table = self._of_named(named, COUNTED_PAIRS, self.sql.counted)
            self._counted = named
        return UnitSizes(*self._step(self.sql.unit_sizes(table)))

    def unnamed_weights(self, named: NDArray[np.int64], kept: int) -> GroupWeights:
        table = STAGED_PAIRS
        if len(named):
            table = self._of_named(named, LEFT_PAIRS, self.sql.left)
        ids, weights, enough = self._step(self.sql.weights(table, kept))
        return GroupWeights(ids, weights, enough > 0)

    def totals(self, named: NDArray[np.int64], cap: int) -> list[NDArray[np.int64]]:
        """Read what units add to the named groups, and to no others.

        ``named``: row ids in ascending order; arrays of shape (groups,) in this order come back.
        """
        if self._counted is None or not np.array_equal(named, self._counted):
            self._of_named(named, COUNTED_PAIRS, self.sql.counted)
        ids, *columns = self._step(self.sql.totals(cap))
        places = np.searchsorted(named, ids)
        dense = [np.zeros(len(named), dtype=np.int64) for _ in columns]
        for whole, column in zip(dense, columns, strict=True):
            whole[places] = column
        return dense

    def _step(self, statement: Sql) -> list[NDArray[np.int64]]:
        """Read a step, and tell that it is done."""
        found = self.scratch.integers(statement)
        self._steps += 1
        self.progress.reach(min(_STAGED + _OF_A_STEP * self._steps, 99))
        return found

    def _of_named(self, named: NDArray[np.int64], table: str, select: Sql) -> str:
        sizes = sizes_of(table)
        for old in (NAMED_IDS, table, sizes):
            if old in self._stored:
                self.scratch.drop(old)
        self.scratch.store(NAMED_IDS, self.sql.named, named.tolist())
        self.scratch.store(table, select)
        self.scratch.store(sizes, self.sql.sizes(table))
        self._stored |= {NAMED_IDS, table, sizes}
        return table


@dataclass(frozen=True, slots=True)
class CascadeValues:
    """What a cascade released of the measures of the groups that it named, in steps.

    ``released`` and ``counted`` have an array of shape (groups,) for each measure: what is shown,
    and what it was counted as. ``countings`` tell how measures were, each as ``COUNTINGS`` does.
    """

    named: NamedGroups
    released: list[Steps]
    counted: list[Steps]
    countings: list[int]


def draw_cascade(plan: BlockPlan, exact: ExactCascade, source: EntropySource) -> CascadeValues:
    """Draw which groups are named, how they are counted, and the noise on their values.

    Guarantee: ``plan.loss(None)``, for steps within the sensitivities of ``CascadeSQL``.
    """
    cascade = plan.cascade
    assert cascade is not None
    assert plan.score is not None
    named = cascade.name_groups(exact.rows, source)
    groups = len(named.ids)
    released, countings = [named.weights] * len(plan.measures), [NAMED_ALONE] * len(plan.measures)
    counting = [i for i, noisy in enumerate(plan.measures) if noisy.noise is not None]
    if groups == 0 or not counting or (named.alone and counting == [plan.score]):
        return CascadeValues(named, released, released, countings)
    signs = [-1 if named.spared and index == plan.score else 1 for index in counting]
    scales = [_relative_noise(plan, *one) for one in zip(counting, signs, strict=True)]
    cap = cascade.choose_cap(exact.rows, named, scales, source)
    counted = list(released)
    for index, sign, column in zip(counting, signs, exact.totals(named.ids, cap), strict=True):
        if named.alone and index == plan.score:
            continue  # the only round has spent the price of this
        noise = plan.noise_at(index, sign * cap)
        released[index] = counted[index] = noise.add(column, source)
        countings[index] = sign * cap
        if index == plan.score:
            released[index] = scaled_counts(named, counted[index], noise.noise.std)
    return CascadeValues(named, released, counted, countings)


def _relative_noise(plan: BlockPlan, index: int, sign: int) -> float:
    """Measure the noise at a cap of 1, in what a unit adds to a group at most."""
    noise = plan.noise_at(index, sign)
    return noise.noise.std / noise.sensitivity

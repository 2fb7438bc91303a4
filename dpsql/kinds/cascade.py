"""Cascades: the stage of pairs, and the steps drawn from it.

The release asks for one exact step after the other. What it asks for is made of public parameters
and of what it has released: row ids of named groups, how many keys a unit keeps, a cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.progress import Percent, ReadingProgress
from dpsql.core.sql import Sql
from dpsql.engines.base import ArrowStream, KeyArrays, Scratch
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import FEW, MANY, BlockReading, KeysOf, keys_in
from dpsql.kinds.left_out import ExactLook
from dpsql.kinds.released import ReleasedRows
from dpsql.kinds.values import CascadeValues, aggregate_answers
from dpsql.privacy.mechanisms.cascade import (
    NAMED_ALONE,
    CascadeRows,
    UnitSizes,
    scaled_counts,
)
from dpsql.privacy.mechanisms.naming import GroupWeights
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.cascade import (
    COUNTED_PAIRS,
    LEFT_PAIRS,
    NAMED_IDS,
    STAGED_PAIRS,
    CascadeSQL,
    sizes_of,
)
from dpsql.sql.rewrite.rewrite import rewrite_cascade

_STAGED = 60  # percent, once the pairs are on the stage
_OF_A_STEP = 7
_KEPT: Final = 1  # groups of a unit, a number in the text of statements


@dataclass(frozen=True, slots=True)
class ExactCascade:
    """What the steps of a cascade read, each when it is asked for.

    ``totals`` counts the groups with some row ids at a cap: int64 arrays of shape (groups,) in this
    order, one for each measure that is counted; 0 is a group without rows. ``keys_of`` reads keys.
    """

    rows: CascadeRows
    totals: Callable[[NDArray[np.int64], int], list[NDArray[np.int64]]]
    keys_of: KeysOf
    looks: Mapping[str, ExactLook] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which groups are named and what is counted in them.

        Guarantee: ``plan.loss(None)``, whatever comes out, for steps within the sensitivities of
        ``CascadeSQL``.
        """
        drawn = draw_cascade(plan, self, source)
        ids = drawn.named.ids
        values = aggregate_answers(plan, drawn.released, {}, drawn)
        return ReleasedRows(ids, self.keys_of(ids), values, plan.loss(len(ids)))

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for each step, with groups that were named before and without."""
        for named in (None, FEW):
            self.rows.unit_sizes(named)
        for named_before in (np.zeros(0, dtype=np.int64), FEW):
            self.rows.unnamed_weights(named_before, _KEPT)
        self.totals(FEW, _KEPT)
        for ids in (FEW, MANY):
            self.keys_of(ids)


class CascadeKind:
    """Groups that are named in rounds, and counted at a cap that is chosen privately."""

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether a plan has several steps."""
        return plan.cascade is not None

    def statement(self, plan: BlockPlan, salt: int, dialect: Dialect) -> Sql:
        """Write all up to the first round as one statement."""
        return rewrite_cascade(plan, plan.block.source.table, salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactCascade]:
        """Put the pairs of units and keys on a stage."""
        plan = reading.plan
        steps = rewrite_cascade(plan, plan.block.source.table, reading.salt, reading.dialect)
        with reading.rows.scratch() as scratch:
            yield read_cascade(steps, scratch, keys_in(scratch, reading), reading.progress)


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

"""The release of a block: keys and noisy values, and aggregates computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.estimates import estimate
from dpsql.accuracy.intervals import GroupsTotal, largest_left_out, total_counted
from dpsql.engines.base.engine import ArrowStream, KeyArrays
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, PreparedBlock, ReleaseNoise
from dpsql.ir.query import Block
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.left_out import LeftOutNoise, LeftOutRelease

NumericArray = NDArray[np.int64] | NDArray[np.float64]
_LARGEST = 2**63 - 2**10  # of the integers that are released, a double too


@dataclass(frozen=True, slots=True)
class ReleasedRows:
    """The released groups of one block, safe to show.

    Arrays are of shape (groups,). ``row_ids`` say which groups came out: row numbers of the exact
    rows, or positions in the declared domain, where ``keys`` is None. ``keys`` holds the key
    columns of the released groups in that order, or streams those of all groups with their row
    numbers (then only the join on row number may read it). ``values`` maps a released column to its
    values in that order. ``loss`` is what the release cost, a function of the released output
    alone.
    """

    row_ids: NDArray[np.int64]
    keys: KeyArrays | ArrowStream | None
    values: dict[str, NumericArray]
    loss: PrivacyLoss

    @property
    def count(self) -> int:
        """The number of groups that came out."""
        return len(self.row_ids)


@dataclass(frozen=True, slots=True)
class ReleasedBlock:
    """A block and its released rows.

    ``noise`` is that of a release that was stored, if it can be pooled with others.
    """

    block: PreparedBlock
    rows: ReleasedRows
    noise: ReleaseNoise | None = None

    @property
    def left_out(self) -> float | None:
        """The largest value outside of a LIMIT that chooses by value; None without such a LIMIT."""
        plan = self.block.plan
        top_k, aggregates = plan.block.chosen_by, plan.block.aggregates
        if top_k is None:
            return None
        index = next(i for i, each in enumerate(aggregates) if each.measures == (top_k.measure,))
        values = self.rows.values[plan.block.aggregate_column(index)]
        return largest_left_out(plan, values.astype(np.float64))

    @property
    def totals(self) -> tuple[GroupsTotal, ...]:
        """The total of each aggregate over all groups, as :func:`total_counted` finds it."""
        block = self.block.plan.block
        return tuple(
            total_counted(
                aggregate,
                [self.rows.values[n].astype(np.float64) for n in block.interval_columns(index)],
            )
            for index, aggregate in enumerate(block.aggregates)
        )


@dataclass(frozen=True, slots=True)
class ReleasedEstimate:
    """A released left-out estimate, and the noise on it."""

    noise: LeftOutNoise
    release: LeftOutRelease


def drawn_columns(block: Block) -> list[str]:
    """List the released columns that are drawn, each aggregate before its supports."""
    return [
        name
        for index in range(len(block.aggregates))
        for name in (block.aggregate_column(index), *block.support_columns(index))
    ]


def aggregate_answers(plan: BlockPlan, noisy: Sequence[Steps]) -> dict[str, NumericArray]:
    """Compute aggregates from noisy measures: post-processing."""
    found: dict[str, NumericArray] = {}
    measures = [m.measure for m in plan.measures]
    for index, aggregate in enumerate(plan.block.aggregates):
        if aggregate.kind.composed:
            parts = [noisy[m] * measures[m].step for m in aggregate.measures]
            found |= answer_of_parts(plan, index, parts)
            continue
        for measure in aggregate.measures:
            name = plan.block.aggregate_column(index)
            found[name] = _plain(measures[measure], noisy[measure])
    return found


def answer_of_parts(
    plan: BlockPlan, index: int, parts: Sequence[NumericArray]
) -> dict[str, NumericArray]:
    """Compute an aggregate from its measures, which are in the units of the answer.

    With what its interval needs of them: post-processing of values that were released.
    """
    block, aggregate = plan.block, plan.block.aggregates[index]
    name, (first, *_) = block.aggregate_column(index), parts
    if aggregate.kind.composed:
        floats = [part.astype(np.float64) for part in parts]
        measures = [noisy.measure for noisy in plan.measures]
        found: dict[str, NumericArray] = {name: estimate(aggregate, measures, floats)}
        return found | dict(zip(block.support_columns(index), floats, strict=False))
    if plan.is_whole(aggregate) and first.dtype.kind != "i":
        return {name: np.rint(np.clip(first, -_LARGEST, _LARGEST)).astype(np.int64)}
    return {name: first}


def _plain(measure: Measure, values: Steps) -> NumericArray:
    if not measure.integral:
        return values * measure.step
    if measure.weights is not None:
        return np.rint(np.clip(values * measure.step, -_LARGEST, _LARGEST)).astype(np.int64)
    step = int(measure.step)
    return np.rint(np.clip(values, -_LARGEST // step, _LARGEST // step)).astype(np.int64) * step

"""Answers of aggregates, computed of what was drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.accuracy.estimates import estimate
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.released import NumericArray
from dpsql.privacy.mechanisms.additive import Steps

_LARGEST = 2**63 - 2**10  # of the integers that are released, a double too


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

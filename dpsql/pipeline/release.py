"""From exact rows to released rows: the only place where noise is drawn.

It sends nothing to the engine: what it needs of groups it has chosen, it asks of what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.estimates import estimate
from dpsql.engines.base import ExactRows
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import Measure, Quantile
from dpsql.ir.plan import BlockPlan, PreparedBlock
from dpsql.ir.query import Block
from dpsql.mechanisms.additive import Steps
from dpsql.mechanisms.cascade import COUNTINGS, NAMED_ALONE
from dpsql.mechanisms.sampling.noise import EntropySource
from dpsql.mechanisms.set_union import SetUnion
from dpsql.pipeline.cascade import CascadeValues, draw_cascade
from dpsql.pipeline.exact import ExactBlock, ExactCascade, ExactUnion, HistogramsOf, KeysOf, keys_at
from dpsql.pipeline.released import (
    NumericArray,
    ReleasedBlock,
    ReleasedRows,
    drawn_columns,
    with_noise_columns,
)

_LARGEST = 2**63 - 2**10  # of the integers that are released, a double too


def release_block(
    block: PreparedBlock, exact: ExactBlock | ExactUnion | ExactCascade, source: EntropySource
) -> ReleasedBlock:
    """Draw what comes out of a block."""
    if isinstance(exact, ExactCascade):
        return ReleasedBlock(block, release_cascade(block.plan, exact, source))
    if isinstance(exact, ExactUnion):
        return ReleasedBlock(block, release_set_union(block.plan, exact, source))
    rows = release(block.plan, exact.rows, source, exact.histograms, exact.keys_of)
    return ReleasedBlock(block, rows)


def release_set_union(plan: BlockPlan, exact: ExactUnion, source: EntropySource) -> ReleasedRows:
    """Draw which keys are named.

    Guarantee: ``plan.loss(released)``, for tables within the sensitivity of ``set_union_sql``.
    """
    union = plan.selection
    assert isinstance(union, SetUnion)
    chosen = union.select(exact.weights, source).indices
    named = exact.named(chosen + 1)
    return ReleasedRows(named.row_ids, named.keys, {}, plan.loss(len(chosen)))


def release_cascade(plan: BlockPlan, exact: ExactCascade, source: EntropySource) -> ReleasedRows:
    """Draw which groups are named and what is counted in them.

    Guarantee: ``plan.loss(None)``, whatever comes out, for steps within the sensitivities of
    ``CascadeSQL``.
    """
    drawn = draw_cascade(plan, exact, source)
    ids = drawn.named.ids
    values = aggregate_answers(plan, drawn.released, {}, drawn)
    return ReleasedRows(ids, exact.keys_of(ids), values, plan.loss(len(ids)))


def release(
    plan: BlockPlan,
    exact: ExactRows,
    source: EntropySource,
    histograms: HistogramsOf | None = None,
    keys_of: KeysOf | None = None,
) -> ReleasedRows:
    """Draw which groups are released, the noise on their values, and their quantiles.

    ``keys_of`` reads the keys of released groups where ``exact`` is without keys.

    Guarantee: ``plan.loss(released)``, as δ-approximate zCDP, for exact rows within the plan's
    sensitivities; see the mechanisms for sources and tests.
    """
    columns = [exact.measures[plan.block.measure_column(i)] for i in range(len(plan.measures))]
    ids = exact.row_ids
    if plan.declared:
        *columns, ids = _dense(plan.block, exact, [*columns, ids])
    # Without a score all groups come out, and only their number matters.
    selected = plan.selection.select(ids if plan.score is None else columns[plan.score], source)
    noisy = [
        selected.noisy
        if measure.noise is None
        else measure.noise.add(column[selected.indices], source)
        for measure, column in zip(plan.measures, columns, strict=True)
    ]
    released = len(selected.indices)
    named = ids[selected.indices]
    quantiles = {} if histograms is None else _quantiles(plan, named, histograms, source)
    keys = None
    if not plan.declared:
        keys = keys_at(exact, selected.indices) if keys_of is None else keys_of(named)
    found = ReleasedRows(
        row_ids=selected.indices if plan.declared else named,
        keys=keys,
        values=aggregate_answers(plan, [n for n in noisy if n is not None], quantiles),
        loss=plan.loss(released),
    )
    units = plan.units_measure
    return found if units is None else _large_enough(plan, found, noisy[units])


def _large_enough(plan: BlockPlan, released: ReleasedRows, units: Steps | None) -> ReleasedRows:
    """Keep the declared groups whose noisy number of units reaches the minimum.

    Post-processing of numbers that are paid for: what it costs stays what it was.
    """
    assert units is not None, "only a selection releases a noisy score"
    assert plan.units_measure is not None
    step = plan.measures[plan.units_measure].measure.step
    kept = units * step >= plan.block.parameters.min_units_per_group
    values = {name: column[kept] for name, column in released.values.items()}
    return replace(released, row_ids=released.row_ids[kept], values=values)


def _dense(
    block: Block, exact: ExactRows, columns: list[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """Return all declared groups' measures, in the domain's order; zero for those without rows."""
    positions = np.zeros(len(exact.row_ids), dtype=np.int64)
    for index, key in enumerate(block.keys):
        assert key.domain is not None
        positions = positions * len(key.domain) + exact.measures[block.key_column(index)] - 1
    dense = [np.zeros(block.domain_size, dtype=np.int64) for _ in columns]
    for whole, column in zip(dense, columns, strict=True):
        whole[positions] = column
    return dense


def _quantiles(
    plan: BlockPlan, ids: NDArray[np.int64], histograms: HistogramsOf, source: EntropySource
) -> dict[Quantile, NDArray[np.int64]]:
    """Draw a point for each quantile and group. Quantiles of the same values are put in order."""
    drawn: dict[Quantile, NDArray[np.int64]] = {}
    for ranked in dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles):
        counted = histograms(ranked, ids)
        alike = [noisy for noisy in plan.quantiles if noisy.quantile.ranked == ranked]
        alike.sort(key=lambda noisy: noisy.quantile.fraction)
        points = np.sort([noisy.mechanism.draw(counted, source) for noisy in alike], axis=0)
        drawn |= {noisy.quantile: row for noisy, row in zip(alike, points, strict=True)}
    return drawn


def aggregate_answers(
    plan: BlockPlan,
    noisy: Sequence[Steps],
    quantiles: Mapping[Quantile, NDArray[np.int64]],
    cascade: CascadeValues | None = None,
) -> dict[str, NumericArray]:
    """Compute the aggregates the analyst asked for: post-processing of what was drawn.

    ``cascade`` is how it was drawn where there were several steps.
    """
    found: dict[str, NumericArray] = {}
    measures = [m.measure for m in plan.measures]
    for index, aggregate in enumerate(plan.block.aggregates):
        name = plan.block.aggregate_column(index)
        if aggregate.quantile is not None:
            found[name] = _value(aggregate.quantile, quantiles[aggregate.quantile])
        elif aggregate.kind.composed:
            parts = [noisy[m] * measures[m].step for m in aggregate.measures]
            found[name] = estimate(aggregate, measures, parts)
        else:
            (measure,) = aggregate.measures
            found[name] = _plain(measures[measure], noisy[measure])
        found |= _supports(plan, index, noisy, cascade)
    return with_noise_columns(plan, found)


def _supports(
    plan: BlockPlan, index: int, noisy: Sequence[Steps], cascade: CascadeValues | None
) -> dict[str, NumericArray]:
    """Collect what the interval of an aggregate needs beside it, in the units of the answer."""
    used = plan.block.aggregates[index].measures
    counted = noisy if cascade is None else cascade.counted
    columns: list[NumericArray] = [counted[m] * plan.measures[m].measure.step for m in used]
    if cascade is not None:
        columns.append(np.full(len(cascade.named.ids), float(cascade.countings[used[0]])))
    return dict(zip(plan.block.support_columns(index), columns, strict=False))


def refuse_unknown_noise(plans: Sequence[BlockPlan]) -> None:
    """Refuse what is asked of the noise if it cannot be computed: the plan alone decides that.

    Raises ``QueryRefused``.
    """
    asking = [plan for plan in plans if plan.block.noise_columns]
    for plan, groups in product(asking, (0, 1)):
        try:
            with np.errstate(all="ignore"):
                for counting in COUNTINGS if plan.block.cascades else (NAMED_ALONE,):
                    answers: dict[str, NumericArray] = dict.fromkeys(
                        drawn_columns(plan.block), np.full(groups, float(counting))
                    )
                    with_noise_columns(plan, answers)
        except (ArithmeticError, ParameterError, ValueError):
            raise QueryRefused(
                "what is asked of the noise cannot be computed",
                code="no_noise_known",
                hint="Ask for a confidence that is not so near to 1: the usual one is 0.95.",
            ) from None


def _value(quantile: Quantile, points: NDArray[np.int64]) -> NumericArray:
    """Return what the points of a grid stand for, within the bounds."""
    lattice = quantile.ranked.lattice
    values: Steps = np.clip((points + lattice.low) * lattice.quantum, lattice.lower, lattice.upper)
    return np.rint(values).astype(np.int64) if quantile.whole else values


def _plain(measure: Measure, values: Steps) -> NumericArray:
    if not measure.integral:
        return values * measure.step
    if measure.weights is not None:
        return np.rint(np.clip(values * measure.step, -_LARGEST, _LARGEST)).astype(np.int64)
    step = int(measure.step)
    return np.rint(np.clip(values, -_LARGEST // step, _LARGEST // step)).astype(np.int64) * step

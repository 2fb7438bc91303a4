"""From exact rows to released rows: the only place where noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.zcdp import PrivacyLoss
from dpsql.accuracy.estimates import estimate
from dpsql.accuracy.intervals import interval_of, noise_scale
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream, ExactRows, KeyArrays, Stage
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import Measure, Quantile, Ranked
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, NoiseFigure
from dpsql.mechanisms.additive import Steps
from dpsql.mechanisms.quantiles import Histograms
from dpsql.mechanisms.sampling.noise import EntropySource
from dpsql.mechanisms.set_union import SetUnion
from dpsql.mechanisms.set_union_weights import UnitItems
from dpsql.sql.rewrite.quantile_histograms import HistogramSQL, chosen_groups
from dpsql.sql.rewrite.set_union import PAIRS, PAIRS_BETWEEN, UNITS, SetUnionSQL

_PAIRS_AT_ONCE = 2**19
_LARGEST = 2**63 - 2**10  # of the integers that are released, a double too

Percent = Callable[[int], None]
"""Told 0, 1, ..., 100 in this order while a set union reads private rows.

Each number comes once, whatever the data. When it comes is not protected, as timing never is.
"""
_STORED = 60  # percent, once what a policy reads is stored
Values = NDArray[np.int64] | NDArray[np.float64]
HistogramsOf = Callable[[Ranked, NDArray[np.int64]], Histograms]
"""The values of groups given by their row ids, in this order; 0 is a group without rows."""
KeysOf = Callable[[NDArray[np.int64]], KeyArrays | ArrowStream]
"""The keys of groups given by their row ids: in this order, or a stream with the row ids."""


@dataclass(frozen=True, slots=True)
class ReleasedRows:
    """The released groups of one block, safe to show.

    ``row_ids`` say which groups came out: row numbers of the exact rows, or positions in the
    declared domain, where ``keys`` is None. ``keys`` holds the key columns of the released groups
    in that order, or streams those of all groups with their row numbers (then only the join on row
    number may read it). ``values`` maps a released column to its values in that order. ``loss`` is
    what the release cost, a function of the released output alone.
    """

    row_ids: NDArray[np.int64]
    keys: KeyArrays | ArrowStream | None
    values: dict[str, Values]
    loss: PrivacyLoss

    @property
    def count(self) -> int:
        """How many groups came out."""
        return len(self.row_ids)


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
        keys = _keys_of(exact, selected.indices) if keys_of is None else keys_of(named)
    found = ReleasedRows(
        row_ids=selected.indices if plan.declared else named,
        keys=keys,
        values=_answers(plan, [n for n in noisy if n is not None], quantiles),
        loss=plan.loss(released),
    )
    units = plan.units_measure
    return found if units is None else _large_enough(plan, found, noisy[units])


def _large_enough(plan: BlockPlan, released: ReleasedRows, units: Steps | None) -> ReleasedRows:
    """The declared groups whose noisy number of units reaches the minimum.

    Post-processing of numbers that are paid for: what it costs stays what it was.
    """
    assert units is not None, "only a selection releases a noisy score"
    assert plan.units_measure is not None
    step = plan.measures[plan.units_measure].measure.step
    kept = units * step >= plan.block.parameters.min_units_per_group
    values = {name: column[kept] for name, column in released.values.items()}
    return replace(released, row_ids=released.row_ids[kept], values=values)


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
    if sql.weights is None:
        weights = _weighed(union, stage, rows[UNITS], rows[PAIRS], progress)
    else:
        (weights,) = stage.integers(sql.weights)
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
    union: SetUnion, stage: Stage, units: int, pairs: int, progress: _Progress
) -> NDArray[np.int64]:
    """The keys' weights after a policy's pass over all units, some of them at a time."""

    def tell(done: int, total: int | None) -> None:
        progress.reach(_STORED + (100 - _STORED) * done // (total or done))

    step = max(1, _PAIRS_AT_ONCE * units // max(1, pairs))
    batches = (
        UnitItems(*stage.integers(PAIRS_BETWEEN, first, first + step))
        for first in range(0, units, step)
    )
    weights = union.weigh(batches, tell, units)
    progress.reach(100)  # where there are no units
    return weights


def _keys_of(exact: ExactRows, indices: NDArray[np.intp]) -> KeyArrays | ArrowStream:
    if isinstance(exact.keys, dict):
        return {name: values[indices] for name, values in exact.keys.items()}
    return exact.keys


def _dense(
    block: Block, exact: ExactRows, columns: list[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """The measures of all declared groups, in the domain's order; zero for those without rows."""
    positions = np.zeros(len(exact.row_ids), dtype=np.int64)
    for index, key in enumerate(block.keys):
        assert key.domain is not None
        positions = positions * len(key.domain) + exact.measures[block.key_column(index)] - 1
    dense = [np.zeros(block.domain_size, dtype=np.int64) for _ in columns]
    for whole, column in zip(dense, columns, strict=True):
        whole[positions] = column
    return dense


def staged_keys(keys: Sequence[Column], stage: Stage) -> KeysOf:
    """How to read the keys of groups that are stored in ``stage``."""
    names = [key.name for key in keys]

    def keys_of(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        sql = chosen_groups(names, len(ids))
        exact = stage.keys(sql, keys, ids)
        return _keys_of(exact, np.searchsorted(exact.row_ids, ids))

    return keys_of


def staged_histograms(sql: HistogramSQL, stage: Stage) -> HistogramsOf:
    """How to count the rows of groups whose exact rows are stored in ``stage``."""
    counts = dict(sql.counts)

    def histograms(ranked: Ranked, ids: NDArray[np.int64]) -> Histograms:
        owners, points, rows = stage.integers(counts[ranked], ids.tolist())
        place = np.full(int(ids.max(initial=0)) + 1, -1, dtype=np.int64)
        place[ids] = np.arange(len(ids))
        owners = place[owners]
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(len(ids)), side="right")
        return Histograms(ends, points[order], rows[order])

    return histograms


def _quantiles(
    plan: BlockPlan, ids: NDArray[np.int64], histograms: HistogramsOf, source: EntropySource
) -> dict[Quantile, NDArray[np.int64]]:
    """A point for each quantile and group. Quantiles of the same values are put in order."""
    drawn: dict[Quantile, NDArray[np.int64]] = {}
    for ranked in dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles):
        counted = histograms(ranked, ids)
        alike = [noisy for noisy in plan.quantiles if noisy.quantile.ranked == ranked]
        alike.sort(key=lambda noisy: noisy.quantile.fraction)
        points = np.sort([noisy.mechanism.draw(counted, source) for noisy in alike], axis=0)
        drawn |= {noisy.quantile: row for noisy, row in zip(alike, points, strict=True)}
    return drawn


def _answers(
    plan: BlockPlan, noisy: list[Steps], quantiles: dict[Quantile, NDArray[np.int64]]
) -> dict[str, Values]:
    """The aggregates as the analyst asked for them: post-processing of what was drawn."""
    answers: dict[str, Values] = {}
    measures = [m.measure for m in plan.measures]
    for index, aggregate in enumerate(plan.block.aggregates):
        name = plan.block.aggregate_column(index)
        if aggregate.quantile is not None:
            answers[name] = _value(aggregate.quantile, quantiles[aggregate.quantile])
        elif aggregate.kind.composed:
            parts = [noisy[m] * measures[m].step for m in aggregate.measures]
            answers[name] = estimate(aggregate, measures, parts)
            answers |= dict(zip(plan.block.support_columns(index), parts, strict=True))
        else:
            (measure,) = aggregate.measures
            answers[name] = _plain(measures[measure], noisy[measure])
    return with_noise_columns(plan, answers)


def drawn_columns(block: Block) -> list[str]:
    """The released columns that are drawn, in their order: aggregates, each before its supports."""
    return [
        name
        for index in range(len(block.aggregates))
        for name in (block.aggregate_column(index), *block.support_columns(index))
    ]


def refuse_unknown_noise(plans: Sequence[BlockPlan]) -> None:
    """Refuse what is asked of the noise if it cannot be computed: the plan alone decides that.

    Raises ``QueryRefused``.
    """
    asking = [plan for plan in plans if plan.block.noise_columns]
    for plan, groups in product(asking, (0, 1)):
        try:
            with np.errstate(all="ignore"):
                answers: dict[str, Values] = dict.fromkeys(
                    drawn_columns(plan.block), np.zeros(groups)
                )
                with_noise_columns(plan, answers)
        except (ArithmeticError, ParameterError, ValueError):
            raise QueryRefused(
                "what is asked of the noise cannot be computed",
                code="no_noise_known",
                hint="Ask for a confidence that is not so near to 1: the usual one is 0.95.",
            ) from None


def with_noise_columns(plan: BlockPlan, answers: dict[str, Values]) -> dict[str, Values]:
    """The released values and what the tail asks of their noise.

    That is a function of the plan and of what is released anyway.
    """
    block = plan.block
    columns: dict[str, Values] = {}
    for position, asked in enumerate(block.noise_columns):
        index = asked.aggregate
        names = block.support_columns(index) or (block.aggregate_column(index),)
        values = [answers[name].astype(np.float64) for name in names]
        if asked.figure is NoiseFigure.SCALE:
            found = np.full_like(values[0], noise_scale(plan, index))
        else:
            interval = interval_of(plan, len(values[0]), index, values, asked.confidence)
            found = interval.low if asked.figure is NoiseFigure.LOW else interval.high
        columns[block.noise_column(position)] = found
    return answers | columns


def _value(quantile: Quantile, points: NDArray[np.int64]) -> Values:
    """What the points of a grid stand for, within the bounds."""
    lattice = quantile.ranked.lattice
    values: Steps = np.clip((points + lattice.low) * lattice.quantum, lattice.lower, lattice.upper)
    return np.rint(values).astype(np.int64) if quantile.whole else values


def _plain(measure: Measure, values: Steps) -> Values:
    if not measure.integral:
        return values * measure.step
    if measure.weights is not None:
        return np.rint(np.clip(values * measure.step, -_LARGEST, _LARGEST)).astype(np.int64)
    step = int(measure.step)
    return np.rint(np.clip(values, -_LARGEST // step, _LARGEST // step)).astype(np.int64) * step

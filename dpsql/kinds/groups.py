"""Groups with measures and quantiles: all declared ones, or those that a selection names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.core.sql import Sql, name, sql
from dpsql.engines.base import ExactRows, PrivateReader, Scratch
from dpsql.ir.measures import Quantile, Ranked
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block
from dpsql.kinds.base import FEW, MANY, BlockReading, KeysOf, keys_at, keys_in
from dpsql.kinds.left_out import ExactLook, read_look_of
from dpsql.kinds.released import ReleasedRows
from dpsql.kinds.values import aggregate_answers
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.quantiles import Histograms
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.left_out import shared_sql
from dpsql.sql.rewrite.quantile_histograms import GROUPS, HistogramSQL, stored_groups
from dpsql.sql.rewrite.rewrite import rewrite, rewrite_quantiles

HistogramsOf = Callable[[Ranked, NDArray[np.int64]], Histograms]
"""The values of groups given by their row ids, in this order; 0 is a group without rows."""


@dataclass(frozen=True, slots=True)
class ExactGroups:
    """The exact rows of a block's groups.

    ``histograms`` reads the values of groups for quantiles, None where none are asked for.
    ``keys_of`` reads the keys of released groups, None where ``rows`` has those of all groups.
    ``looks`` are those that were taken at the same rows, by fingerprint.
    """

    rows: ExactRows
    histograms: HistogramsOf | None = None
    keys_of: KeysOf | None = None
    looks: Mapping[str, ExactLook] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which groups come out, the noise on their values, and their quantiles."""
        return release(plan, self.rows, source, self.histograms, self.keys_of)

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for the values of quantiles, and for keys of few groups and of many."""
        if self.histograms is not None:
            for ranked in dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles):
                self.histograms(ranked, FEW)
        if self.keys_of is not None:
            for ids in (FEW, MANY):
                self.keys_of(ids)


class GroupsKind:
    """Groups with measures and quantiles."""

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether a plan is neither of pairs nor of several steps."""
        return plan.cascade is None and not plan.selection.needs_pairs

    def statement(self, plan: BlockPlan, salt: int, dialect: Dialect) -> Sql:
        """Write the exact rows of groups and, below them, the histograms of their values."""
        table = plan.block.source.table
        if plan.quantiles:
            return rewrite_quantiles(plan, table, salt, dialect).sql
        return rewrite(plan, table, salt, dialect)

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactGroups]:
        """Read groups by one statement, or by several where they are stored first."""
        plan, rows = reading.plan, reading.rows
        if reading.looks:
            with rows.scratch() as scratch:
                yield _shared(reading, scratch)
        elif _at_once(plan) and not plan.quantiles:
            yield ExactGroups(_exact_rows(reading, rows, _salted(reading)))
        else:
            with rows.scratch() as scratch:
                yield _stored(reading, scratch)


def _at_once(plan: BlockPlan) -> bool:
    """Tell whether the groups that are read are bounded in number by the statement."""
    return plan.declared or plan.selection.top_rows_needed is not None


def _shared(reading: BlockReading, scratch: Scratch) -> ExactGroups:
    """Read the exact rows of a block, and looks at them, over rows that are stored once."""
    plan, looks = reading.plan, reading.looks
    table, asked = plan.block.source.table, [look.look for look in looks]
    shared = shared_sql(plan, asked, table, reading.salt, reading.dialect)
    for stored, statement in shared.stored:
        scratch.store(stored, statement)
    told = {
        look.fingerprint: read_look_of(scratch, look, statement)
        for look, statement in zip(looks, shared.looks, strict=True)
    }
    if _at_once(plan):
        return ExactGroups(_exact_rows(reading, scratch, shared.groups), looks=told)
    scratch.store(GROUPS, shared.groups)
    for stored, _ in shared.stored:
        scratch.drop(stored)
    return replace(_groups_stored(reading, scratch), looks=told)


def _stored(reading: BlockReading, scratch: Scratch) -> ExactGroups:
    """Read the exact rows of a block whose groups are stored first, to be asked for more."""
    plan, histograms = reading.plan, None
    if plan.quantiles:
        table = plan.block.source.table
        steps = rewrite_quantiles(plan, table, reading.salt, reading.dialect)
        scratch.store(GROUPS, steps.groups)
        histograms = _histograms(steps, scratch)
    else:
        scratch.store(GROUPS, _salted(reading))
    if plan.declared:
        stored = sql("SELECT * FROM {}", name(GROUPS))
        return ExactGroups(_exact_rows(reading, scratch, stored), histograms)
    return replace(_groups_stored(reading, scratch), histograms=histograms)


def _groups_stored(reading: BlockReading, scratch: Scratch) -> ExactGroups:
    """Read measures of all groups, however many there are; keys of those alone that come out."""
    measures = _measure_columns(reading.plan)
    exact = scratch.exact(stored_groups(measures, reading.dialect), (), measures)
    return ExactGroups(exact, keys_of=keys_in(scratch, reading))


def _histograms(steps: HistogramSQL, scratch: Scratch) -> HistogramsOf:
    """Return how to count the rows of groups whose exact rows are stored in ``scratch``."""
    counts = dict(steps.counts)

    def histograms(ranked: Ranked, ids: NDArray[np.int64]) -> Histograms:
        owners, points, rows = scratch.integers(counts[ranked], ids.tolist())
        ascending = np.argsort(ids, kind="stable")  # ids may be few and large: 2**33 in Spark
        owners = ascending[np.searchsorted(ids, owners, sorter=ascending)]
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(len(ids)), side="right")
        return Histograms(ends, points[order], rows[order])

    return histograms


def _exact_rows(reading: BlockReading, rows: PrivateReader | Scratch, statement: Sql) -> ExactRows:
    keys, measures = reading.block.keys, _measure_columns(reading.plan)
    if reading.plan.declared:
        # Declared keys are read as positions, which are numbers like any measure.
        return rows.exact(statement, (), [*(k.name for k in keys), *measures])
    return rows.exact(statement, keys, measures)


def _measure_columns(plan: BlockPlan) -> list[str]:
    return [plan.block.measure_column(i) for i in range(len(plan.measures))]


def _salted(reading: BlockReading) -> Sql:
    """Write the statement of a block, under the salt of this read."""
    plan = reading.plan
    return rewrite(plan, plan.block.source.table, reading.salt, reading.dialect)


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

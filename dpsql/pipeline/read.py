"""Reads private rows: the only place that does.

A block is one statement, or several steps over scratch space. What is read goes to the release
step, which asks back for the keys and the histograms of groups that it has chosen, and for the next
round of a cascade once it has released the one before: these are read here too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.core.sql import Sql, name, sql
from dpsql.engines.base import (
    ArrowStream,
    ExactRows,
    KeyArrays,
    PrivateReader,
    PrivateSource,
    Reads,
    Scratch,
)
from dpsql.ir.measures import Ranked
from dpsql.ir.plan import BlockPlan, PreparedBlock, PreparedLook
from dpsql.ir.relations import scanned
from dpsql.mechanisms.quantiles import Histograms
from dpsql.pipeline.cascade import read_cascade
from dpsql.pipeline.exact import (
    ExactBlock,
    ExactCascade,
    ExactLook,
    ExactUnion,
    HistogramsOf,
    KeysOf,
    keys_at,
)
from dpsql.pipeline.set_union import Percent, read_set_union
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.left_out import KEPT_COLUMN, climbed_columns, shared_sql
from dpsql.sql.rewrite.quantile_histograms import (
    GROUPS,
    HistogramSQL,
    chosen_groups,
    stored_groups,
)
from dpsql.sql.rewrite.rewrite import rewrite, rewrite_cascade, rewrite_quantiles
from dpsql.sql.rewrite.set_union import set_union_sql


@contextmanager
def read_exact(
    source: PrivateSource,
    block: PreparedBlock,
    dialect: Dialect,
    progress: Percent,
    looks: Sequence[PreparedLook] = (),
) -> Iterator[ExactBlock | ExactUnion | ExactCascade]:
    """Read a block's private rows in the engine's dialect; they are readable until this is left.

    With them some of its looks, where these share its rows: of others there may be none.
    """
    plan, salt = block.plan, _salt()
    rows = source.over(Reads(scanned(plan.block.source.rows), salt))
    if looks:
        with rows.scratch() as scratch:
            yield _shared(block, looks, scratch, dialect, salt)
        return
    bounded = plan.declared or plan.selection.top_rows_needed is not None
    if bounded and not plan.quantiles:
        yield ExactBlock(_exact_rows(rows, plan, _salted(plan, dialect, salt), block.keys))
        return
    with rows.scratch() as scratch:
        if plan.cascade is not None:
            steps = rewrite_cascade(plan, plan.block.source.table, salt, dialect)
            yield read_cascade(steps, scratch, _keys_of(block.keys, scratch, dialect), progress)
        elif plan.selection.needs_pairs:
            union = set_union_sql(plan, plan.block.source.table, salt, dialect)
            yield read_set_union(plan, union, scratch, block.keys, progress)
        else:
            yield _stored(block, scratch, dialect, salt)


def read_look(source: PrivateSource, look: PreparedLook) -> ExactLook:
    """Read what bounding keeps and leaves out."""
    return _exact_look(source.over(Reads(look.tables)), look, look.statement)


def _exact_look(rows: PrivateReader | Scratch, look: PreparedLook, statement: Sql) -> ExactLook:
    climbed = climbed_columns(look.look)
    found = rows.exact(statement, (), [KEPT_COLUMN, *climbed]).measures
    return ExactLook(int(found[KEPT_COLUMN][0]), tuple(int(found[name][0]) for name in climbed))


def _shared(
    block: PreparedBlock,
    looks: Sequence[PreparedLook],
    scratch: Scratch,
    dialect: Dialect,
    salt: int,
) -> ExactBlock:
    """Read the exact rows of a block, and looks at them, over rows that are stored once."""
    plan = block.plan
    asked = [look.look for look in looks]
    shared = shared_sql(plan, asked, plan.block.source.table, salt, dialect)
    for table, statement in shared.stored:
        scratch.store(table, statement)
    told = {
        look.fingerprint: _exact_look(scratch, look, statement)
        for look, statement in zip(looks, shared.looks, strict=True)
    }
    if plan.declared or plan.selection.top_rows_needed is not None:
        return ExactBlock(_exact_rows(scratch, plan, shared.groups, block.keys), looks=told)
    scratch.store(GROUPS, shared.groups)
    for table, _ in shared.stored:
        scratch.drop(table)
    return replace(_groups_stored(block, scratch, dialect), looks=told)


def _stored(block: PreparedBlock, scratch: Scratch, dialect: Dialect, salt: int) -> ExactBlock:
    """Read the exact rows of a block whose groups are stored first, to be asked for more."""
    plan, histograms = block.plan, None
    if plan.quantiles:
        steps = rewrite_quantiles(plan, plan.block.source.table, salt, dialect)
        scratch.store(GROUPS, steps.groups)
        histograms = _histograms(steps, scratch)
    else:
        scratch.store(GROUPS, _salted(plan, dialect, salt))
    if plan.declared:
        stored = sql("SELECT * FROM {}", name(GROUPS))
        return ExactBlock(_exact_rows(scratch, plan, stored, block.keys), histograms)
    return replace(_groups_stored(block, scratch, dialect), histograms=histograms)


def _groups_stored(block: PreparedBlock, scratch: Scratch, dialect: Dialect) -> ExactBlock:
    """Read measures of all groups, however many there are; keys of those alone that come out."""
    measures = _measure_columns(block.plan)
    exact = scratch.exact(stored_groups(measures, dialect), (), measures)
    return ExactBlock(exact, keys_of=_keys_of(block.keys, scratch, dialect))


def _keys_of(keys: Sequence[Column], scratch: Scratch, dialect: Dialect) -> KeysOf:
    """Return how to read the keys of groups that are stored in ``scratch``."""
    names = [key.name for key in keys]

    def keys_of(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        exact = scratch.keys(chosen_groups(names, len(ids), dialect), keys, ids)
        return keys_at(exact, np.searchsorted(exact.row_ids, ids))

    return keys_of


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


def _exact_rows(
    rows: PrivateReader | Scratch, plan: BlockPlan, statement: Sql, keys: Sequence[Column]
) -> ExactRows:
    measures = _measure_columns(plan)
    if plan.declared:
        # Declared keys are read as positions, which are numbers like any measure.
        return rows.exact(statement, (), [*(k.name for k in keys), *measures])
    return rows.exact(statement, keys, measures)


def _measure_columns(plan: BlockPlan) -> list[str]:
    return [plan.block.measure_column(i) for i in range(len(plan.measures))]


def _salted(plan: BlockPlan, dialect: Dialect, salt: int) -> Sql:
    """Write the statement of a block, under a salt of this read alone."""
    return rewrite(plan, plan.block.source.table, salt, dialect)


def _salt() -> int:
    """Draw a salt that no other read has: neither of the same question, nor the one shown.

    All have as many digits and one type, so that no plan depends on which it is.
    """
    return 2**61 + secrets.randbits(61)

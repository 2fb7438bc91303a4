"""The only read of private rows: one block's statement, or its steps on a stage; its release."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from dpsql.core.schema import Column
from dpsql.engines.base import ExactRows, Rows, Stage
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.sampling.noise import EntropySource
from dpsql.mechanisms.set_union import SetUnion
from dpsql.pipeline.release import release
from dpsql.pipeline.released import ReleasedRows
from dpsql.pipeline.set_union import Percent, release_set_union
from dpsql.pipeline.staged import staged_histograms, staged_keys
from dpsql.sql.dialects.registry import dialect_named
from dpsql.sql.rewrite.quantile_histograms import GROUPS, stored_groups
from dpsql.sql.rewrite.rewrite import rewrite_quantiles
from dpsql.sql.rewrite.set_union import set_union_sql


def read_and_release(
    rows: Rows,
    plan: BlockPlan,
    statement: str,
    keys: Sequence[Column],
    source: EntropySource,
    progress: Percent,
) -> ReleasedRows:
    """One block's answer: the only read of private rows, and the noise."""
    bounded = plan.declared or plan.selection.fetch is not None
    if bounded and not plan.quantiles:
        return release(plan, _exact_rows(rows, plan, statement, keys), source)
    with rows.stage() as stage:
        # The same statement in steps has a salt of its own.
        table, salt = plan.block.source.table, secrets.randbits(62)
        dialect = dialect_named(rows.dialect)
        if isinstance(plan.selection, SetUnion):
            union = set_union_sql(plan, table, salt, dialect)
            return release_set_union(plan, union, stage, keys, source, progress)
        histograms = None
        if plan.quantiles:
            steps = rewrite_quantiles(plan, table, salt, dialect)
            statement, histograms = steps.groups, staged_histograms(steps, stage)
        stage.store(GROUPS, statement)
        if plan.declared:
            exact = _exact_rows(stage, plan, f"SELECT * FROM {dialect.quote(GROUPS)}", keys)
            return release(plan, exact, source, histograms)
        # However many groups there are, keys are read of those alone that come out.
        measures = _measure_columns(plan)
        exact = stage.exact(stored_groups(measures, dialect), (), measures)
        return release(plan, exact, source, histograms, staged_keys(keys, stage, dialect))


def _exact_rows(
    rows: Rows | Stage, plan: BlockPlan, statement: str, keys: Sequence[Column]
) -> ExactRows:
    measures = _measure_columns(plan)
    if plan.declared:
        # Declared keys are read as positions, which are numbers like any measure.
        return rows.exact(statement, (), [*(k.name for k in keys), *measures])
    return rows.exact(statement, keys, measures)


def _measure_columns(plan: BlockPlan) -> list[str]:
    return [plan.block.measure_column(i) for i in range(len(plan.measures))]

"""The draws of the bounds of a plan that are to be found first, ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dpsql.engines.base.dialect import Dialect
from dpsql.ir.plan import (
    BlockPlan,
    Maker,
    OpenBounds,
    PreparedBoundsChoice,
    PreparedValueBounds,
)
from dpsql.ir.relations import scanned
from dpsql.kinds.bounds_choice import bounds_choice_sql
from dpsql.kinds.registry import release_kind
from dpsql.kinds.streamed_bounds import streamed_draw
from dpsql.kinds.value_bounds import value_bounds_sql
from dpsql.pipeline.kept.fingerprint import bounds_choice_fingerprint, value_bounds_fingerprint
from dpsql.policy.limits import BoundingLimit


def open_bounds(
    plan: BlockPlan,
    dialect: Dialect,
    steps: int | None = None,
    *,
    bounding: BoundingLimit = BoundingLimit.SQL,
    maker: Maker | None = None,
) -> Iterator[OpenBounds]:
    """Yield the draws of a block's bounds, those of values last, in their order.

    ``bounding`` is the owner's limit on what may put rows together. ``steps`` is the number of
    steps of a view that goes on with them. ``maker`` is that of a block that is read after them.
    """
    tables, renderer = scanned(plan.block.source.rows), dialect.renderer
    choice, found = plan.bounds_choice, plan.block.bounds_found
    if choice is not None:
        write = partial(bounds_choice_sql, plan, choice, dialect)
        mark = bounds_choice_fingerprint(plan, steps)
        shared = maker is Maker.NUMPY
        streamed = streamed_draw(plan, choice, dialect, bounding, shared=shared)
        staged = dialect.keeps_stages and maker is Maker.SQL
        if staged and streamed is not None:
            # A draw that shares its stage with the answer is cheaper than one in NumPy beside it.
            stage = release_kind(plan).stage(dialect, plan.estimates)
            streamed = streamed if stage is None else None
        shared = staged if streamed is None else shared
        yield PreparedBoundsChoice(
            *(mark, tables),
            choice=choice,
            streamed=streamed,
            block=plan if shared else None,
            write=write,
            renderer=renderer,
        )
    values = () if found is None or not plan.value_bounds else found.values
    for value, draw in zip(values, plan.value_bounds, strict=True):
        write = partial(value_bounds_sql, plan, value, draw, dialect)
        mark = value_bounds_fingerprint(plan, value, draw, steps)
        yield PreparedValueBounds(mark, tables, choice=draw, write=write, renderer=renderer)

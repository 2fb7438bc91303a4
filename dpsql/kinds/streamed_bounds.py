"""Draws of bounds over rows that are put together in NumPy, and the choice of the maker for them.

As for groups it follows from the plan, the policy, the machine and what is installed.
"""

from __future__ import annotations

import secrets

from dpsql.bounding.weights import choice_weights
from dpsql.core.sql import name
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import IntegerStream, PrivateSource, Reads, Scratch
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan, Maker, PreparedBoundsChoice, StreamedDraw
from dpsql.kinds.base import GROUPS
from dpsql.kinds.streamed import bounded_by
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.bounds_choice import MOST_CHOSEN, BoundsChoice
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed

_LARGEST = 1 << 62
_Weights = tuple[list[int], list[int]]


def streamed_draw(
    plan: BlockPlan, choice: BoundsChoice, dialect: Dialect, bounding: BoundingLimit
) -> StreamedDraw | None:
    """Return the inputs of a draw whose rows NumPy puts together; None where SQL does.

    SQL tells shared values apart, and sums whose bounds leave out zero.
    """
    shared = choice.rows is not None and choice.rows.shared
    if shared or not all(map(_fits, plan.block.sums_alone)):
        return None
    if bounded_by(PrivateRows(plan, 0, dialect), bounding).maker is not Maker.NUMPY:
        return None
    return StreamedDraw(plan, dialect)


def _fits(measure: Measure) -> bool:
    lattice, bounds = measure.lattice, measure.per_group
    assert lattice is not None
    zero = bounds is None or bounds[0] <= 0 <= bounds[1]
    return zero and max(lattice.high, -lattice.low) * (MOST_CHOSEN + 2) < _LARGEST


def read_streamed_weights(
    source: PrivateSource, prepared: PreparedBoundsChoice, draw: StreamedDraw
) -> _Weights:
    """Read the exact weights of a draw, as ``read_weights`` does."""
    salt = 2**61 + secrets.randbits(61)
    with source.over(Reads(prepared.tables, salt)).scratch() as scratch:
        return streamed_weights(draw, prepared.choice, salt, scratch)


def streamed_weights(
    draw: StreamedDraw, choice: BoundsChoice, salt: int, scratch: Scratch
) -> _Weights:
    """Read the exact weights of a draw, under a salt of this read alone."""
    plan, streamed = draw.plan, Streamed(PrivateRows(draw.plan, salt, draw.dialect))
    if streamed.rows.known:
        groups, number = None, plan.block.domain_size
    else:
        groups, number = name(GROUPS), scratch.store(GROUPS, streamed.groups())
    bounding = streamed.specification(number)
    sums = [streamed.source(plan.block.measures.index(m)) for m in plan.block.sums_alone]

    def work(stream: IntegerStream) -> _Weights:
        return choice_weights(stream, bounding, choice, sums)

    return scratch.streamed(streamed.stream(groups), work)

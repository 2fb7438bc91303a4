"""Draws of bounds over rows that are put together in NumPy, and the choice of the maker for them.

As for groups it follows from the plan, the policy, the machine and what is installed.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.maker import gathered_units
from dpsql.bounding.units import GatheredUnits
from dpsql.bounding.weights import choice_weights
from dpsql.core.sql import name
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import IntegerStream, Scratch
from dpsql.ir.measures import Measure
from dpsql.ir.plan import (
    BlockPlan,
    LeftOutSubject,
    Maker,
    PreparedBoundsChoice,
    StreamedDraw,
)
from dpsql.kinds.base import GROUPS
from dpsql.kinds.left_out import clamped_sums
from dpsql.kinds.staged import Stages
from dpsql.kinds.streamed import bounded_by, read_stream
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.bounds_choice import AVERAGE_PLACES, MOST_CHOSEN, BoundsChoice
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed

_LARGEST = 1 << 62
_Weights = tuple[list[int], list[int]]


def streamed_draw(
    plan: BlockPlan,
    choice: BoundsChoice,
    dialect: Dialect,
    bounding: BoundingLimit,
    *,
    shared: bool = False,
) -> StreamedDraw | None:
    """Return the inputs of a draw whose rows NumPy puts together; None where SQL does.

    ``shared``: a block and its estimates are read of the same pairs.
    SQL tells shared values apart, and sums whose bounds leave out zero.
    """
    several = choice.rows is not None and choice.rows.shared
    if several or not all(map(_fits, plan.block.sums_alone)):
        return None
    if choice.centres is not None and not all(map(_has_parts, plan.block.averages_alone)):
        return None
    rows = PrivateRows(plan, 0, dialect)
    if bounded_by(rows, bounding, read_often=shared).maker is not Maker.NUMPY:
        return None
    return StreamedDraw(plan, dialect, _beside(plan, choice) if shared else ())


def _beside(plan: BlockPlan, choice: BoundsChoice) -> tuple[LeftOutSubject, ...]:
    """List what estimates of values out of bounds may be of, once the bounds are drawn."""
    block = plan.block
    capped = bool(block.keys) and (choice.groups is not None or plan.bounding is not None)
    told = block.parameters.left_out_share > 0.0
    asked = told and (capped or block.parameters.estimates_anywhere)
    return tuple(clamped_sums(plan)) if asked else ()


def _fits(measure: Measure) -> bool:
    lattice, bounds = measure.lattice, measure.per_group
    assert lattice is not None
    zero = bounds is None or bounds[0] <= 0 <= bounds[1]
    return zero and max(lattice.high, -lattice.low) * (MOST_CHOSEN + 2) < _LARGEST


def _has_parts(measure: Measure) -> bool:
    """Tell whether the part of the range that an average is in can be computed in 64 bits."""
    lattice = measure.of_rows
    return lattice is not None and (2 * lattice.half_width + 1) * AVERAGE_PLACES < _LARGEST


def read_streamed_weights(
    prepared: PreparedBoundsChoice, draw: StreamedDraw, stages: Stages
) -> _Weights:
    """Read the exact weights of a draw, as ``read_weights`` does.

    Their pairs are left in ``stages`` for a block that is read after it.
    """
    place = stages.open(prepared.tables)
    shared = prepared.block is not None
    weights, kept, groups = streamed_weights(
        draw, prepared.choice, place.salt, place.place, keep=shared
    )
    if kept is None:
        place.close()
    else:
        rows, stored = PrivateRows(draw.plan, place.salt, draw.dialect), name(GROUPS)
        plain = Streamed(rows).pairs(stored)
        stages.keep(_streamed(draw, rows).pairs(stored), place, kept, groups, plain)
    return weights


def streamed_weights(
    draw: StreamedDraw, choice: BoundsChoice, salt: int, scratch: Scratch, *, keep: bool = False
) -> tuple[_Weights, KeptPairs | None, int]:
    """Read the exact weights of a draw, under a salt of this read alone.

    Beside them its pairs, None unless they are to be kept, and their number of groups.
    """
    plan = draw.plan
    streamed = _streamed(draw, PrivateRows(plan, salt, draw.dialect))
    if streamed.rows.known:
        groups, number = None, plan.block.domain_size
    else:
        groups, number = name(GROUPS), scratch.store(GROUPS, streamed.groups())
    bounding = streamed.specification(number)
    measured = plan.block.averages_alone if choice.centres else plan.block.sums_alone
    alone = [streamed.source(plan.block.measures.index(m)) for m in measured]

    def work(stream: IntegerStream) -> tuple[_Weights, KeptPairs | None, int]:
        units: Iterable[GatheredUnits] = gathered_units(stream, bounding)
        kept = KeptPairs.of(stream, units) if keep else None
        return (
            choice_weights(units if kept is None else kept, bounding, choice, alone),
            kept,
            number,
        )

    return read_stream(streamed, scratch, groups, work)


def _streamed(draw: StreamedDraw, rows: PrivateRows) -> Streamed:
    """Return the rows of a draw, with what the estimates of its block may take of them."""
    return Streamed(rows, beside=draw.beside)

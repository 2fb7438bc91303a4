"""Groups whose units are bounded in NumPy: reading their rows, and the choice of the maker.

The choice follows from the plan, the policy, the machine and what is installed, never from rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.maker import bounded, gathered_units
from dpsql.bounding.specification import GroupTotals, Specification
from dpsql.bounding.unit_order import units_by_hash
from dpsql.core.processors import processors
from dpsql.core.quoting import ROW_ID
from dpsql.core.sql import Sql, name, sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ExactRows, IntegerStream, Scratch
from dpsql.ir.plan import BlockPlan, BoundedBy, LeftOutPlan, Maker
from dpsql.ir.query import Block
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.left_out import ExactLeftOut
from dpsql.kinds.staged import StoredPairs
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import (
    HASH_COLUMN,
    UNIT_NUMBERS,
    Streamed,
    StreamedPairs,
    StreamedRows,
)

_T = TypeVar("_T")
_FEW, _FEW_FOR_KEYS, _FEW_READ_OFTEN = 2, 3, 4
"""The processors up to which NumPy, which works on one of them, takes no longer than SQL.

It does about half of SQL's work, of keys alone a third, and where pairs are read often a quarter.
"""


def bounded_by(
    rows: PrivateRows, bounding: BoundingLimit, *, read_often: bool = False
) -> BoundedBy:
    """Choose the maker that bounds the units of some rows.

    ``read_often``: pairs of a unit and a group may be read several times.
    """
    if bounding is BoundingLimit.SQL:
        return BoundedBy(why="limits.bounding of the policy")
    if rows.known and not rows.plan.measures and not rows.plan.quantiles:
        return BoundedBy(why="nothing is measured")
    streamed = Streamed(rows)
    objection = streamed.objection(read_often=read_often or bool(rows.plan.quantiles))
    if objection is not None:
        return BoundedBy(why=objection)
    few = _FEW_READ_OFTEN if read_often else _FEW
    if not rows.plan.measures and not rows.plan.quantiles:
        few = _FEW_FOR_KEYS
    asked = bounding is BoundingLimit.ANY
    if not asked and processors() > few:
        return BoundedBy(why=f"it uses all processors, more than {few}")
    if not rows.dialect.streams_rows():
        return BoundedBy(why="the engine does not stream rows, or pyarrow is not installed")
    why = "limits.bounding of the policy asks for it" if asked else "less work than in SQL"
    return BoundedBy(Maker.NUMPY, why)


def pairs_of_block(
    plan: BlockPlan, dialect: Dialect, beside: Sequence[LeftOutPlan]
) -> StreamedPairs:
    """Return the pairs that a block is bounded of, with some estimates."""
    return Streamed(PrivateRows(plan, 0, dialect), beside).pairs(name(GROUPS))


def streamed_rows(
    reading: BlockReading, scratch: Scratch
) -> tuple[ExactRows, dict[str, ExactLeftOut]]:
    """Read the exact rows of a block, and of its estimates by fingerprint.

    Keys that are found stay stored, as GROUPS. Then row ids are those of that table, and not all of
    them are there.
    """
    plan = reading.plan
    if not plan.measures:
        every = np.arange(plan.block.domain_size)
        return ExactRows(every + 1, _positions(plan.block, every), {}), {}
    rows = PrivateRows(plan, reading.salt, reading.dialect)
    streamed = Streamed(rows, [estimate.plan for estimate in reading.estimates])
    stored = reading.pairs
    if plan.declared:
        bounding, groups = streamed.specification(plan.block.domain_size), None
    else:
        bounding, groups = specification_of_found(streamed, scratch, stored), name(GROUPS)

    def work(stream: IntegerStream) -> GroupTotals:
        return bounded(gathered_units(stream, bounding), bounding)

    if stored is None:
        totals = read_stream(streamed, scratch, groups, work)
    else:
        totals = scratch.worked(lambda: bounded(stored.kept, bounding))
    columns = [plan.block.measure_column(place) for place in range(len(plan.measures))]
    measures = dict(zip(columns, totals.measures, strict=True))
    if plan.declared:
        measures |= _positions(plan.block, totals.groups)
    told = {
        estimate.fingerprint: ExactLeftOut(kept, tuple(climbed))
        for estimate, (kept, *climbed) in zip(reading.estimates, totals.left_out, strict=True)
    }
    return ExactRows(totals.groups + 1, measures, {}), told


def read_stream(
    streamed: StreamedRows,
    scratch: Scratch,
    groups: Sql | None,
    work: Callable[[IntegerStream], _T],
) -> _T:
    """Do work on the rows of a stream; units that are no integers have numbers for it."""
    if not streamed.numbered:
        return scratch.streamed(streamed.stream(groups), work)
    scratch.store(UNIT_NUMBERS, streamed.unit_numbers())
    found = scratch.streamed(streamed.stream(groups), work)
    scratch.drop(UNIT_NUMBERS)
    return found


def ordered_units(pairs: KeptPairs, spec: Specification, scratch: Scratch) -> Iterator[UnitItems]:
    """Yield the units of kept pairs in the order of a salted hash; errors have fixed texts."""
    batches = units_by_hash(pairs, spec)
    while (batch := scratch.worked(lambda: next(batches, None))) is not None:
        yield batch


def specification_of_found(
    streamed: Streamed, scratch: Scratch, stored: StoredPairs | None, *, by_hash: bool = False
) -> Specification:
    """Find the keys of rows, stored as GROUPS, and write down the bounds."""
    number = (
        scratch.store(GROUPS, streamed.groups(by_hash=by_hash)) if stored is None else stored.groups
    )
    return streamed.specification(number, stored_hashes(scratch))


def stored_hashes(scratch: Scratch) -> NDArray[np.int64]:
    """Read the hashes of the keys that are stored as GROUPS, in the order of their row ids."""
    found = sql("SELECT {}, {} FROM {}", name(ROW_ID), name(HASH_COLUMN), name(GROUPS))
    return _by_row_id(*scratch.integers(found))


def _by_row_id(ids: NDArray[np.int64], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    return hashes[np.argsort(ids)]


def _positions(block: Block, groups: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each key, from 1, of declared groups by their numbers."""
    found: dict[str, NDArray[np.int64]] = {}
    for index, key in reversed(list(enumerate(block.keys))):
        groups, places = np.divmod(groups, len(key.domain or ()))
        found[block.key_column(index)] = places + 1
    return found

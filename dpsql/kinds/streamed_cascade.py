"""Cascades whose units are bounded in NumPy: the exact rows of their steps, over kept pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.maker import gathered_units
from dpsql.bounding.rounds import (
    GroupFlags,
    round_weights,
    unit_norms,
    unit_sizes,
    weighed_totals,
)
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.core.sql import name
from dpsql.engines.base.engine import IntegerStream, Scratch
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.streamed import ordered_units, read_stream, specification_of_found
from dpsql.privacy.mechanisms.cascade import Caps, UnitSizes
from dpsql.privacy.mechanisms.naming import GroupWeights
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed
from dpsql.sql.rewrite.weighting import rows_within

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StreamedSteps:
    """The exact rows of a cascade's steps, over the pairs of all units. Row ids are from 1.

    So many ``rows`` of a unit count in a group.
    """

    pairs: KeptPairs
    spec: Specification
    counted: tuple[MeasureColumns, ...]
    minimum: int
    rows: int
    scratch: Scratch
    done: Callable[[], None]

    def units_in_order(self) -> Iterator[UnitItems]:
        """Yield units with their groups in the order of a salted hash, some at a time."""
        return ordered_units(self.pairs, self.spec, self.scratch)

    def unit_sizes(self, named: NDArray[np.int64] | None) -> UnitSizes:
        """Count units by their number of keys, of all keys or of the named ones alone."""
        among = None if named is None else self._flags(named)
        found = self._step(lambda: unit_sizes(self.pairs, among))
        sizes = np.flatnonzero(found)
        sizes = sizes[sizes > 0]
        return UnitSizes(sizes, found[sizes])

    def unit_norms(self, named: NDArray[np.int64]) -> UnitSizes:
        """Count units by the square of the norm of what they add to the named groups."""
        found, _ = self._norms(named)
        sizes = np.flatnonzero(found)
        return UnitSizes(sizes, found[sizes])

    def norm_shares(self, named: NDArray[np.int64]) -> int:
        """Sum the shares of norms in what units add, in steps."""
        return self._norms(named)[1]

    def _norms(self, named: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        among, rows = self._flags(named), self.rows
        return self._step(lambda: unit_norms(self.pairs, self.spec, self.counted, among, rows))

    def unnamed_weights(self, named: NDArray[np.int64], kept: int) -> GroupWeights:
        """Weigh groups without a name over units that keep so many groups."""
        among = ~self._flags(named) if len(named) else None
        weights, units = self._step(lambda: round_weights(self.pairs, self.spec, among, kept))
        there = np.flatnonzero(units)
        return GroupWeights(there + 1, weights[there], units[there] >= self.minimum)

    def totals(self, named: NDArray[np.int64], caps: Caps) -> list[NDArray[np.int64]]:
        """Total units' contributions to the named groups, in their order, by measure."""
        among, rows = self._flags(named), self.rows
        found = self._step(
            lambda: weighed_totals(self.pairs, self.spec, self.counted, among, caps, rows)
        )
        return [total[named - 1] for total in found]

    def _flags(self, ids: NDArray[np.int64]) -> GroupFlags:
        found = np.zeros(self.spec.groups, dtype=np.bool_)
        found[ids - 1] = True
        return found

    def _step(self, work: Callable[[], _T]) -> _T:
        found = self.scratch.worked(work)
        self.done()
        return found


def streamed_steps(
    reading: BlockReading, scratch: Scratch, done: Callable[[], None], *, by_hash: bool = False
) -> StreamedSteps:
    """Put rows together to pairs, unless a draw has left them, for steps that are asked for.

    ``done`` is told of each step. ``by_hash`` numbers keys in the order of a salted hash, as votes
    need them.
    """
    plan, stored = reading.plan, reading.pairs
    streamed = Streamed(PrivateRows(plan, reading.salt, reading.dialect))
    spec = specification_of_found(streamed, scratch, stored, by_hash=by_hash)
    counted = tuple(
        streamed.source(place)
        for place, noisy in enumerate(plan.measures)
        if noisy.noise is not None
    )
    minimum = plan.block.parameters.min_units_per_group

    def work(stream: IntegerStream) -> KeptPairs:
        return KeptPairs.of(stream, gathered_units(stream, spec))

    kept = None if stored is None else stored.kept
    if kept is None:
        kept = read_stream(streamed, scratch, name(GROUPS), work)
    rows = rows_within(plan)
    return StreamedSteps(kept, spec, counted, minimum, rows, scratch, done)

"""What was released of a block: keys and noisy values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.intervals import largest_left_out
from dpsql.engines.base.engine import ArrowStream, KeyArrays
from dpsql.ir.plan import PreparedBlock, ReleaseNoise
from dpsql.ir.query import Block
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.left_out import LeftOutNoise, LeftOutRelease

NumericArray = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReleasedRows:
    """The released groups of one block, safe to show.

    Arrays are of shape (groups,). ``row_ids`` say which groups came out: row numbers of the exact
    rows, or positions in the declared domain, where ``keys`` is None. ``keys`` holds the key
    columns of the released groups in that order, or streams those of all groups with their row
    numbers (then only the join on row number may read it). ``values`` maps a released column to its
    values in that order. ``loss`` is what the release cost, a function of the released output
    alone.
    """

    row_ids: NDArray[np.int64]
    keys: KeyArrays | ArrowStream | None
    values: dict[str, NumericArray]
    loss: PrivacyLoss

    @property
    def count(self) -> int:
        """The number of groups that came out."""
        return len(self.row_ids)


@dataclass(frozen=True, slots=True)
class ReleasedBlock:
    """A block and its released rows.

    ``noise`` is that of a release that was stored, if it can be pooled with others.
    """

    block: PreparedBlock
    rows: ReleasedRows
    noise: ReleaseNoise | None = None

    @property
    def left_out(self) -> float | None:
        """The largest value outside of a LIMIT that chooses by value; None without such a LIMIT."""
        plan = self.block.plan
        top_k, aggregates = plan.block.top_k, plan.block.aggregates
        if top_k is None:
            return None
        index = next(i for i, each in enumerate(aggregates) if each.measures == (top_k.measure,))
        values = self.rows.values[plan.block.aggregate_column(index)]
        return largest_left_out(plan, values.astype(np.float64))


@dataclass(frozen=True, slots=True)
class ReleasedEstimate:
    """A released left-out estimate, and the noise on it."""

    noise: LeftOutNoise
    release: LeftOutRelease


def drawn_columns(block: Block) -> list[str]:
    """List the released columns that are drawn, each aggregate before its supports."""
    return [
        name
        for index in range(len(block.aggregates))
        for name in (block.aggregate_column(index), *block.support_columns(index))
    ]

"""What all kinds of release share: what is given to read a block, and what was read of it.

None of what was read is released: it goes from reading to releasing and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.core.progress import Percent
from dpsql.core.sql import Sql
from dpsql.engines.base import ArrowStream, ExactRows, KeyArrays, PrivateReader, Scratch
from dpsql.ir.plan import BlockPlan, PreparedBlock, PreparedLook
from dpsql.kinds.left_out import ExactLook
from dpsql.kinds.released import ReleasedRows
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.quantile_histograms import chosen_groups

KeysOf = Callable[[NDArray[np.int64]], KeyArrays | ArrowStream]
"""The keys of groups given by their row ids: in this order, or a stream with the row ids."""

FEW: Final = np.arange(1, 2, dtype=np.int64)
MANY: Final = np.arange(1, 101, dtype=np.int64)
"""Row ids for rehearsals: few are looked for in one way, many in another."""


@dataclass(frozen=True, slots=True)
class BlockReading:
    """What reading a block needs: its rows, under a salt of this read alone.

    ``looks`` are those to be taken at the same rows.
    """

    block: PreparedBlock
    rows: PrivateReader
    dialect: Dialect
    salt: int
    progress: Percent
    looks: Sequence[PreparedLook] = ()

    @property
    def plan(self) -> BlockPlan:
        """The plan of the block."""
        return self.block.plan


class ExactBlock(Protocol):
    """What was read of a block, and what may still be read of the groups that come out."""

    @property
    def looks(self) -> Mapping[str, ExactLook]:
        """The looks that were taken at the same rows, by fingerprint."""

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw what comes out.

        Guarantee: ``plan.loss(released)``, as δ-approximate zCDP or by the one-shot definition,
        for exact values within the sensitivities of the generated SQL.
        """

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for all that a release could ask back for."""


class ReleaseKind(Protocol):
    """A kind of release."""

    def fits(self, plan: BlockPlan) -> bool:
        """Tell whether a plan is of this kind."""

    def statement(self, plan: BlockPlan, salt: int, dialect: Dialect) -> Sql:
        """Write what it reads as one statement: to be shown, and bound for the keys' types.

        Its columns begin with the row id and the keys.
        """

    def read(self, reading: BlockReading) -> AbstractContextManager[ExactBlock]:
        """Read a block's private rows; what was read is readable until this is left."""


def keys_at(exact: ExactRows, indices: NDArray[np.intp]) -> KeyArrays | ArrowStream:
    """Take the keys at some positions, or keep the stream of all that were read.

    ``indices``: positions, of shape (groups,).
    """
    if isinstance(exact.keys, dict):
        return {name: values[indices] for name, values in exact.keys.items()}
    return exact.keys


def keys_in(scratch: Scratch, reading: BlockReading) -> KeysOf:
    """Return how to read the keys of groups that are stored in ``scratch``."""
    keys, dialect = reading.block.keys, reading.dialect
    names = [key.name for key in keys]

    def keys_of(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        exact = scratch.keys(chosen_groups(names, len(ids), dialect), keys, ids)
        return keys_at(exact, np.searchsorted(exact.row_ids, ids))

    return keys_of

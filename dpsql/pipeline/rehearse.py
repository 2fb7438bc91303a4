"""Rehearses blocks before they are paid for: every statement of every step is planned.

The code that reads a block runs, with a source that reads nothing, and is asked for all that a
release could ask back for. So no statement is met by a server for the first time when its price is
reserved.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine, PrivateSource
from dpsql.ir.plan import PreparedBlock, PreparedEstimate
from dpsql.kinds.left_out import read_left_out
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.release import read_exact


class RehearsedWays:
    """The ways of reading a question's blocks that the engine has planned: each of them once.

    Estimates without a release are taken beside a block where they can share its rows, others by
    themselves. So which of a question's estimates have no release decides how it is read, and that
    is known before anything is reserved. Used by one thread at a time.
    """

    def __init__(self, engine: Engine, blocks: Sequence[PreparedBlock], dialect: Dialect) -> None:
        self._engine = engine
        self._blocks = blocks
        self._dialect = dialect
        self._planned: set[tuple[int, frozenset[str]]] = set()
        self._planned_alone: set[str] = set()

    def rehearse(self, wanted: Set[str]) -> None:
        """Have the engine plan all statements of the blocks, with estimates of these fingerprints.

        It reads no row. Raises ``QueryRefused`` (``does_not_bind``) for what it does not take.
        """
        left = set(wanted)
        for place, block in enumerate(self._blocks):
            beside = release_kind(block.plan).beside(block, left)
            taken = frozenset(estimate.fingerprint for estimate in beside)
            left -= taken
            if (place, taken) not in self._planned:
                self._engine.rehearse(partial(_read, block, self._dialect, estimates=beside))
                self._planned.add((place, taken))
        for estimate in (estimate for block in self._blocks for estimate in block.estimates):
            if estimate.fingerprint in left - self._planned_alone:
                rehearse_estimate(self._engine, estimate)
                self._planned_alone.add(estimate.fingerprint)


def rehearse_estimate(engine: Engine, estimate: PreparedEstimate) -> None:
    """Have the engine plan an estimate taken by itself, as :class:`RehearsedWays` does."""
    engine.rehearse(lambda source: _discard(read_left_out(source, estimate)))


def _read(
    block: PreparedBlock,
    dialect: Dialect,
    source: PrivateSource,
    estimates: Sequence[PreparedEstimate],
) -> None:
    with read_exact(source, block, dialect, _discard, estimates) as exact:
        exact.rehearse(block.plan)


def _discard(_: object) -> None:
    """Take what nobody needs."""

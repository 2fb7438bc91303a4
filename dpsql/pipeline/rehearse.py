"""Rehearses blocks before they are paid for: every statement of every step is planned.

The code that reads a block runs, with a source that reads nothing, and is asked for all that a
release could ask back for. So no statement is met by a server for the first time when its price is
reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.engines.base import Engine, PrivateSource
from dpsql.ir.plan import PreparedBlock, PreparedLook
from dpsql.pipeline.exact import ExactBlock, ExactCascade, ExactUnion
from dpsql.pipeline.read import read_exact, read_look
from dpsql.sql.dialects.base import Dialect

_FEW: Final = np.arange(1, 2, dtype=np.int64)
_MANY: Final = np.arange(1, 101, dtype=np.int64)  # row ids that are looked for in another way
_KEPT: Final = 1  # groups of a unit, a number in the text of statements


def rehearse(engine: Engine, block: PreparedBlock, dialect: Dialect) -> None:
    """Have the engine plan all that a block and its looks would send; reads no row.

    Where looks share the block's rows, all of these may be taken beside it, or none, as all are
    known, or each by itself: these ways are planned here. If it turns out that some are known,
    :func:`rehearse_beside` plans what is left. So no way is left to be found unfit when it is sent.
    Raises ``QueryRefused`` (``does_not_bind``) for what it does not take.
    """
    engine.rehearse(partial(_read_all, block, dialect))


def rehearse_beside(
    engine: Engine, block: PreparedBlock, dialect: Dialect, looks: Sequence[PreparedLook]
) -> None:
    """Have the engine plan a block beside some of its looks: those whose release is not known.

    Which these are is known before anything is reserved, and follows from the account's own
    releases. Nothing happens for all of them, or none, which were planned with the block.
    """
    if 0 < len(looks) < len(block.looks):
        engine.rehearse(lambda source: _read(block, dialect, source, looks))


def rehearse_look(engine: Engine, look: PreparedLook) -> None:
    """Have the engine plan a look taken by itself, as :func:`rehearse` does."""
    engine.rehearse(lambda source: _discard(read_look(source, look)))


def _read_all(block: PreparedBlock, dialect: Dialect, source: PrivateSource) -> None:
    if block.looks and block.plan.shares_rows:
        _read(block, dialect, source, block.looks)
    _read(block, dialect, source, ())
    for look in block.looks:
        read_look(source, look)


def _read(
    block: PreparedBlock, dialect: Dialect, source: PrivateSource, looks: Sequence[PreparedLook]
) -> None:
    with read_exact(source, block, dialect, _discard, looks) as exact:
        match exact:
            case ExactBlock():
                _ask_block(block, exact)
            case ExactUnion():
                exact.named(_FEW)
            case ExactCascade():
                _ask_cascade(exact)


def _ask_block(block: PreparedBlock, exact: ExactBlock) -> None:
    if exact.histograms is not None:
        for ranked in dict.fromkeys(noisy.quantile.ranked for noisy in block.plan.quantiles):
            exact.histograms(ranked, _FEW)
    if exact.keys_of is not None:
        for ids in (_FEW, _MANY):
            exact.keys_of(ids)


def _ask_cascade(exact: ExactCascade) -> None:
    rows = exact.rows
    for named in (None, _FEW):
        rows.unit_sizes(named)
    for named_before in (_none(), _FEW):
        rows.unnamed_weights(named_before, _KEPT)
    exact.totals(_FEW, _KEPT)
    for ids in (_FEW, _MANY):
        exact.keys_of(ids)


def _none() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


def _discard(_: object) -> None:
    """Take what nobody needs."""

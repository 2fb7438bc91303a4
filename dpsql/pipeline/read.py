"""Reads private rows: each kind of release has its own way, and all are entered here.

A block is one statement, or several steps over scratch space. What is read goes to the release
step, which asks back for the keys and the histograms of groups that it has chosen, and for the next
round of a cascade once it has released the one before: these are read here too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dpsql.core.progress import Percent
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource, Reads
from dpsql.ir.plan import PreparedBlock, PreparedLook
from dpsql.ir.relations import scanned
from dpsql.kinds.base import BlockReading, ExactBlock
from dpsql.kinds.registry import release_kind


@contextmanager
def read_exact(
    source: PrivateSource,
    block: PreparedBlock,
    dialect: Dialect,
    progress: Percent,
    looks: Sequence[PreparedLook] = (),
) -> Iterator[ExactBlock]:
    """Read a block's private rows in the engine's dialect; they are readable until this is left.

    With them some of its looks, where these share its rows: of others there may be none.
    """
    salt = _salt()
    rows = source.over(Reads(scanned(block.plan.block.source.rows), salt))
    with release_kind(block.plan).read(
        BlockReading(block, rows, dialect, salt, progress, looks)
    ) as exact:
        yield exact


def _salt() -> int:
    """Draw a salt that no other read has: neither of the same question, nor the one shown.

    All have as many digits and one type, so that no plan depends on which it is.
    """
    return 2**61 + secrets.randbits(61)

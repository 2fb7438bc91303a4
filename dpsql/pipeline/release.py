"""From private rows to released values: rows are read and noise is drawn by the kind of a release.

It sends nothing to the engine: what it needs of groups it has chosen, it asks of what was read.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np

from dpsql.core.progress import Percent
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource, Reads
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan, PreparedBlock, PreparedEstimate
from dpsql.ir.relations import scanned
from dpsql.kinds.base import BlockReading, ExactBlock
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import NumericArray, ReleasedBlock, drawn_columns
from dpsql.privacy.sampling.noise import EntropySource


def release_block(block: PreparedBlock, exact: ExactBlock, source: EntropySource) -> ReleasedBlock:
    """Draw what comes out of a block, and compute what its tail asks of the noise."""
    rows = exact.release(block.plan, source)
    values = release_kind(block.plan).with_noise_columns(rows.values)
    return ReleasedBlock(block, replace(rows, values=values))


def refuse_unknown_noise(plans: Sequence[BlockPlan]) -> None:
    """Refuse noise columns whose values cannot be computed, by the plan alone.

    Raises ``QueryRefused``.
    """
    asking = [plan for plan in plans if plan.block.noise_columns]
    for plan, groups in product(asking, (0, 1)):
        try:
            with np.errstate(all="ignore"):
                for counting in release_kind(plan).countings:
                    answers: dict[str, NumericArray] = dict.fromkeys(
                        drawn_columns(plan.block), np.full(groups, float(counting))
                    )
                    release_kind(plan).with_noise_columns(answers)
        except (ArithmeticError, ParameterError, ValueError):
            raise QueryRefused(
                "the noise columns of the query cannot be computed",
                code="no_noise_known",
                hint="Ask for a confidence that is not so near to 1: the usual one is 0.95.",
            ) from None


@contextmanager
def read_exact(
    source: PrivateSource,
    block: PreparedBlock,
    dialect: Dialect,
    progress: Percent,
    estimates: Sequence[PreparedEstimate] = (),
) -> Iterator[ExactBlock]:
    """Read a block's private rows in the engine's dialect; they are readable until this is left.

    With them some of its estimates, where these share its rows: of others there may be none.
    """
    salt = _salt()
    rows = source.over(Reads(scanned(block.plan.block.source.rows), salt))
    with release_kind(block.plan).read(
        BlockReading(block, rows, dialect, salt, progress, estimates)
    ) as exact:
        yield exact


def _salt() -> int:
    """Draw a salt that no other read has: neither of the same question, nor the one shown.

    All have as many digits and one type, so that no plan depends on which it is.
    """
    return 2**61 + secrets.randbits(61)

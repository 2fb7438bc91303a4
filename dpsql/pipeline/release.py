"""From exact values to released ones: noise is drawn by the kind of a release, and through here.

It sends nothing to the engine: what it needs of groups it has chosen, it asks of what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan, PreparedBlock
from dpsql.kinds.base import ExactBlock
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import NumericArray, ReleasedBlock, drawn_columns
from dpsql.privacy.sampling.noise import EntropySource


def release_block(block: PreparedBlock, exact: ExactBlock, source: EntropySource) -> ReleasedBlock:
    """Draw what comes out of a block."""
    return ReleasedBlock(block, exact.release(block.plan, source))


def refuse_unknown_noise(plans: Sequence[BlockPlan]) -> None:
    """Refuse what is asked of the noise if it cannot be computed: the plan alone decides that.

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
                "what is asked of the noise cannot be computed",
                code="no_noise_known",
                hint="Ask for a confidence that is not so near to 1: the usual one is 0.95.",
            ) from None

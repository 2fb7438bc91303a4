"""Roll-ups: answers computed from stored releases by more keys, at no cost. All is free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.errors import QueryRefused
from dpsql.ir.plan import PreparedBlock
from dpsql.kinds.released import ReleasedBlock
from dpsql.kinds.rolled_up import RolledUpKind
from dpsql.pipeline.kept.fingerprint import rows_fingerprint
from dpsql.pipeline.kept.release_codec import decode_roll_up_source
from dpsql.pipeline.kept.roll_up import may_roll_up, rolled_up
from dpsql.pipeline.prepare import Prepared
from dpsql.policy.parameters import Pooling
from dpsql.privacy.mechanisms.summation import summed_std
from dpsql.service.ages import AgeLimit, KeptReleases

MAX_ROLL_UP_SOURCES = 32
"""How many releases of the same rows a coarser question is looked for in, the latest."""


@dataclass(frozen=True, slots=True)
class RollUp:
    """The rolled-up blocks of a question, and when the latest release among them was paid for."""

    settled: str
    blocks: tuple[ReleasedBlock, ...]


class RollUps:
    """Finds stored releases of an account and its sessions that answer a question by roll-up."""

    def __init__(self, kept: KeptReleases) -> None:
        self._kept = kept

    def roll_up(self, prepared: Prepared, limit: AgeLimit) -> RollUp | None:
        """Answer a question from releases by more keys; None if a block has no such release.

        Releases older than the limit are not used.
        """
        if not all(may_roll_up(block.plan.block) for block in prepared.blocks):
            return None
        blocks: list[ReleasedBlock] = []
        for block in prepared.blocks:
            series = prepared.combine is not Pooling.ALL
            found = self._nearest(block, limit, series=series)
            if found is None:
                return None
            blocks.append(found)
        times = [RolledUpKind(each.block.plan).rolled_up.settled for each in blocks]
        return RollUp(max(times), tuple(blocks)) if blocks else None

    def _nearest(
        self, block: PreparedBlock, limit: AgeLimit, *, series: bool
    ) -> ReleasedBlock | None:
        """Find the roll-up with the least noise, of equal ones the latest.

        That depends on the laws of their noise alone, which are public. In a ``series`` nothing
        before the latest that was asked for afresh is looked at: the rows were others then.
        """
        rows = rows_fingerprint(block.plan.block)
        kept = self._kept.on_rows(rows, MAX_ROLL_UP_SOURCES, limit)
        found: list[ReleasedBlock] = []
        for each in reversed(kept):
            source = decode_roll_up_source(self._kept.pieces(each))
            answer = None if source is None else rolled_up(block, source, each.settled)
            if source is None or answer is None:
                continue
            found.append(answer)
            if series and source.noise.alone:
                break
        return min(found, key=_noise_of, default=None)


def nothing_released(*, fresh: bool, aged: bool) -> QueryRefused:
    """Build the error for a question for stored releases alone that none of them answers.

    ``aged``: it has a maximum age, beyond which nothing was looked for.
    """
    if fresh:
        return QueryRefused(
            "an answer cannot be fresh and come from stored releases",
            code="nothing_released",
            hint="Leave out fresh, or ask with answer_from = rows.",
        )
    return QueryRefused(
        f"no stored release of the account answers the question{_YOUNG * aged}",
        code="nothing_released",
        hint="Ask with answer_from = rows, and pay for it. A stored release answers the same "
        "question, and counts and sums over the same rows by fewer of its keys, if all of these "
        "have declared values.",
    )


_YOUNG = " within max_age"


def _noise_of(answer: ReleasedBlock) -> float:
    """Compute the product of the standard deviations of all measures, as its logarithm."""
    added = RolledUpKind(answer.block.plan).rolled_up
    return _log_product([summed_std(noise, added.groups) for noise in added.noises])


def _log_product(factors: Sequence[float]) -> float:
    return math.fsum(math.log(max(factor, 1e-300)) for factor in factors)

"""Purchases: what one charge pays for, from its price to its reading, release and storage.

A question buys its private blocks, together, and each estimate of theirs that the account has no
release of. They are reserved, read, released and settled alike, whatever they are. A step of a
materialized view is read and released so, too: it is paid for already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from dpsql.budget.question import plan_record, record_beside
from dpsql.core.progress import Percent
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import PrivateSource
from dpsql.ir.plan import OpenBounds, PreparedBlock, PreparedEstimate, PrivacyPlan
from dpsql.kinds.bounds_choice import encode_bounds, release_bounds
from dpsql.kinds.left_out import encode_estimate, read_left_out, release_estimate
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedBlock, ReleasedEstimate
from dpsql.kinds.staged import Stages
from dpsql.pipeline.kept.release_codec import encode_release
from dpsql.pipeline.release import read_choice, read_exact, release_block, stage_of_block
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.privacy.accounting.zcdp import ZERO, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.syntax.placeholders import PlaceholderValues


@dataclass(frozen=True, slots=True)
class Bought:
    """The release of one purchase: its cost, and the bytes that the ledger keeps.

    ``loss`` is a function of what was released alone. ``pieces`` are a tuple, or made when asked
    for; None where nothing can be kept, as keys have no exact text. One of ``blocks``,
    ``estimate`` or ``bounds`` (of what a unit contributes) is what was released.
    """

    loss: PrivacyLoss
    pieces: Iterable[bytes] | None
    blocks: tuple[ReleasedBlock, ...] = ()
    estimate: ReleasedEstimate | None = None
    bounds: FoundBounds | None = None


@dataclass(slots=True)
class PurchaseReader:
    """Reads purchases in one run, an estimate together with its block where they share rows.

    ``bought`` are all purchases so far. What ``held`` has entered is left with the run.
    """

    source: PrivateSource
    dialect: Dialect
    entropy: EntropySource
    keys: KeySpelling
    progress: Percent
    bought: Sequence[Purchase[Any]]
    held: ExitStack
    stages: Stages = field(init=False)
    _drawn: dict[str, ReleasedEstimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin without any stage."""
        self.stages = Stages(self.source, self.held)

    def bounds(self, choice: OpenBounds) -> FoundBounds:
        """Draw bounds, and leave the rows read for the block to be bounded."""
        weights = read_choice(choice, self.stages, self.source, self.dialect)
        return release_bounds(choice, weights, self.entropy)

    def block(self, block: PreparedBlock) -> ReleasedBlock:
        """Release a block, and with it the bought estimates over the same rows."""
        bought = {one.fingerprint: one.estimate for one in self.bought if one.estimate is not None}
        beside = release_kind(block.plan).beside(block, bought.keys() - self._drawn.keys())
        stage = stage_of_block(block, self.dialect, beside) if self.stages.waiting else None
        with (
            self.stages.taken(stage) as taken,
            read_exact(self.source, block, self.dialect, self.progress, beside, taken) as exact,
        ):
            released = release_block(block, exact, self.entropy)
            self._drawn |= {
                fingerprint: release_estimate(bought[fingerprint], estimate, self.entropy)
                for fingerprint, estimate in exact.estimates.items()
            }
        return released

    def estimate(self, estimate: PreparedEstimate) -> ReleasedEstimate:
        """Release an estimate, unless it was released with its block."""
        drawn = self._drawn.get(estimate.fingerprint)
        return drawn or release_estimate(
            estimate, read_left_out(self.source, estimate), self.entropy
        )


_B = TypeVar("_B", bound=Bought, covariant=True)


@dataclass(frozen=True, slots=True)
class Purchase(Generic[_B]):
    """Something that is bought with one charge.

    ``fingerprint`` is the digest by which a release of it is found again. ``reserved`` is the worst
    case, which is charged before private rows are read, and ``record`` what the ledger keeps of
    what was asked. ``release`` reads the rows, and draws what comes out of them. ``estimate`` is
    what can be read beside a block that shares its rows, None for blocks.
    """

    fingerprint: str
    reserved: PrivacyLoss
    record: str
    release: Callable[[PurchaseReader], _B]
    estimate: PreparedEstimate | None = None


def purchase_of_blocks(
    blocks: tuple[PreparedBlock, ...],
    plan: PrivacyPlan,
    fingerprint: str,
    text: str,
    values: PlaceholderValues,
    *,
    alone: bool,
) -> Purchase[Bought]:
    """Make the purchase of the private blocks of a question, with its text and parameters.

    ``alone`` is kept with the release: that it is no part of the series before it.
    """
    record = plan_record(plan, text, values)
    return Purchase(fingerprint, plan.reserved, record, partial(_blocks, blocks, alone))


def _blocks(blocks: tuple[PreparedBlock, ...], alone: bool, reader: PurchaseReader) -> Bought:
    released = tuple(map(reader.block, blocks))
    pieces = encode_release(reader.keys, released, alone=alone)
    return Bought(sum((each.rows.loss for each in released), ZERO), pieces, released)


def purchase_of_estimate(
    estimate: PreparedEstimate, text: str = "", values: PlaceholderValues = ()
) -> Purchase[Bought]:
    """Make the purchase of a left-out estimate, whose price is its whole reservation.

    ``text`` and ``values`` are those of its question, unless an entry of that follows.
    """
    loss = estimate.plan.noise.loss
    record = record_beside(loss, text, values)
    return Purchase(estimate.fingerprint, loss, record, partial(_estimate, estimate), estimate)


def purchase_of_bounds(
    choice: OpenBounds, text: str, values: PlaceholderValues
) -> Purchase[Bought]:
    """Make the purchase of contribution bounds, whose price is its whole reservation."""
    loss = choice.choice.loss
    record = record_beside(loss, text, values)
    return Purchase(choice.fingerprint, loss, record, partial(_bounds, choice))


def _bounds(choice: OpenBounds, reader: PurchaseReader) -> Bought:
    bounds = reader.bounds(choice)
    return Bought(choice.choice.loss, (encode_bounds(bounds),), bounds=bounds)


def _estimate(estimate: PreparedEstimate, reader: PurchaseReader) -> Bought:
    found = reader.estimate(estimate)
    return Bought(estimate.plan.noise.loss, (encode_estimate(found),), estimate=found)

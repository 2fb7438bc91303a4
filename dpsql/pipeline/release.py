"""From private rows to released values: rows are read and noise is drawn by the kind of a release.

It sends nothing to the engine: what it needs of groups it has chosen, it asks of what was read.

Blocks are rehearsed before they are paid for: the code that reads a block runs, with a source that
reads nothing, and is asked for all that a release could ask back for. So no statement is met by a
server for the first time when its price is reserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from dpsql.core.progress import Percent
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine, PrivateReader, PrivateSource, Reads
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import (
    BlockPlan,
    Maker,
    OpenBounds,
    PreparedBlock,
    PreparedEstimate,
    PreparedValueBounds,
)
from dpsql.ir.relations import scanned
from dpsql.kinds.base import BlockReading, ExactBlock
from dpsql.kinds.bounds_choice import PlaceWeights, read_staged_weights, read_weights
from dpsql.kinds.left_out import read_left_out
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import NumericArray, ReleasedBlock, drawn_columns
from dpsql.kinds.staged import StagedRows, Stages, fresh_salt, stage_tables
from dpsql.kinds.streamed import pairs_of_block
from dpsql.kinds.streamed_bounds import read_streamed_weights
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.rewrite.stage import Stage
from dpsql.sql.rewrite.streamed import StreamedPairs


def release_block(block: PreparedBlock, exact: ExactBlock, source: EntropySource) -> ReleasedBlock:
    """Draw the release of a block, and compute the noise columns of its tail."""
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
    stored: StagedRows | None = None,
) -> Iterator[ExactBlock]:
    """Read a block's private rows in the engine's dialect; they are readable until this is left.

    With them some of its estimates, where these share its rows: of others there may be none. What
    is ``stored``, which no other block reads, are these rows, grouped already.
    """
    rows: PrivateReader
    if stored is None:
        salt = fresh_salt()
        rows = source.over(Reads(scanned(block.plan.block.source.rows), salt))
    else:
        salt, rows = stored.salt, stored
    with release_kind(block.plan).read(
        BlockReading(block, rows, dialect, salt, progress, estimates, stored)
    ) as exact:
        yield exact


def stage_of_block(
    block: PreparedBlock, dialect: Dialect, beside: Sequence[PreparedEstimate]
) -> Stage | StreamedPairs | None:
    """Write the stage that a block can be read of, with some estimates; None if there is none."""
    plans = [estimate.plan for estimate in beside]
    if block.bounded_by.maker is Maker.NUMPY:
        return pairs_of_block(block.plan, dialect, plans)
    return release_kind(block.plan).stage(dialect, plans)


def read_choice(
    choice: OpenBounds, stages: Stages, source: PrivateSource, dialect: Dialect
) -> PlaceWeights:
    """Read the weights of a draw of bounds, and leave a stage for its block where that can be."""
    if isinstance(choice, PreparedValueBounds):
        return read_weights(source, choice)
    if choice.streamed is not None:
        return read_streamed_weights(choice, choice.streamed, stages)
    plan = choice.block
    stage = None if plan is None else release_kind(plan).stage(dialect, plan.estimates)
    if plan is None or stage is None:
        return read_weights(source, choice)
    stored = stages.store(stage, choice.tables, f"{plan.block.name}_stage")
    return read_staged_weights(stored, plan, choice.choice, dialect)


class RehearsedWays:
    """The ways of reading a question's blocks that the engine has planned: each of them once.

    Estimates without a release are taken beside a block where they can share its rows, others by
    themselves. So which of a question's estimates have no release decides how it is read, and that
    is known before anything is reserved. Safe for threads: at worst, two plan the same at once.
    """

    def __init__(self, engine: Engine, blocks: Sequence[PreparedBlock], dialect: Dialect) -> None:
        self._engine = engine
        self._blocks = blocks
        self._dialect = dialect
        self._planned: set[tuple[int, frozenset[str], str]] = set()
        self._planned_alone: set[str] = set()

    def rehearse(self, wanted: Set[str], waiting: Sequence[StagedRows] = ()) -> None:
        """Have the engine plan all statements of the blocks, with estimates of these fingerprints.

        ``waiting`` are stages that are stored. It reads no row. Raises ``QueryRefused``
        (``does_not_bind``) for what it does not take.
        """
        left, untaken = set(wanted), stage_tables(waiting)
        for place, block in enumerate(self._blocks):
            beside = release_kind(block.plan).beside(block, left)
            taken = frozenset(estimate.fingerprint for estimate in beside)
            left -= taken
            stage = stage_of_block(block, self._dialect, beside) if untaken else None
            staged = next((each for each in untaken if each[0] == stage), None)
            if staged is not None:
                untaken.remove(staged)
            way = place, taken, "" if staged is None else staged[1]
            if way not in self._planned:
                read = partial(_read, block, self._dialect, estimates=beside, staged=staged)
                self._engine.rehearse(read)
                self._planned.add(way)
        for choice in (each for block in self._blocks for each in block.open_bounds):
            if choice.fingerprint not in self._planned_alone:
                self._engine.rehearse(partial(_read_choice, choice, self._dialect))
                self._planned_alone.add(choice.fingerprint)
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
    *,
    staged: tuple[Stage, str] | None,
) -> None:
    with ExitStack() as held:
        stages, taken = Stages(source, held), None
        if staged is not None:
            stage, table = staged
            stages.store(stage, scanned(block.plan.block.source.rows), table)
            taken = held.enter_context(stages.taken(stage))
        exact = held.enter_context(read_exact(source, block, dialect, _discard, estimates, taken))
        exact.rehearse(block.plan)


def _read_choice(choice: OpenBounds, dialect: Dialect, source: PrivateSource) -> None:
    with ExitStack() as held:
        read_choice(choice, Stages(source, held), source, dialect)


def _discard(_: object) -> None:
    """Accept and ignore a value."""

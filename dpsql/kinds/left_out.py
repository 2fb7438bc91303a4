"""Looks at what bounding leaves out: read by themselves, or beside a block that has their rows."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.core.sql import Sql
from dpsql.engines.base.engine import PrivateReader, PrivateSource, Reads, Scratch
from dpsql.ir.plan import PreparedLook
from dpsql.kinds.released import ReleasedLook
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.rewrite.left_out import KEPT_COLUMN, climbed_columns


@dataclass(frozen=True, slots=True)
class ExactLook:
    """What bounding keeps of a measure, and how far units climbed in each span of a ladder.

    Sums over units, in steps of the measure's quantum.
    """

    kept: int
    climbed: tuple[int, ...]


def read_look(source: PrivateSource, look: PreparedLook) -> ExactLook:
    """Read what bounding keeps and leaves out."""
    return read_look_of(source.over(Reads(look.tables)), look, look.statement)


def read_look_of(rows: PrivateReader | Scratch, look: PreparedLook, statement: Sql) -> ExactLook:
    """Read the same by a statement over rows that are stored, or in their tables."""
    climbed = climbed_columns(look.look)
    found = rows.exact(statement, (), [KEPT_COLUMN, *climbed]).measures
    return ExactLook(int(found[KEPT_COLUMN][0]), tuple(int(found[name][0]) for name in climbed))


def release_look(look: PreparedLook, exact: ExactLook, source: EntropySource) -> ReleasedLook:
    """Draw what is told of what bounding keeps and leaves out.

    Guarantee: ``look.look.noise.loss``, for exact sums within the sensitivity of ``left_out_sql``.
    """
    noise = look.look.noise
    return ReleasedLook(noise, noise.release(exact.kept, exact.climbed, source))

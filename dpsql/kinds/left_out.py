"""Left-out estimates: how they are read, drawn, and kept as bytes.

They are read by themselves, or beside a block that has their rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.core.sql import Sql
from dpsql.engines.base.engine import PrivateReader, PrivateSource, Reads, Scratch
from dpsql.errors import ParameterError
from dpsql.ir.measures import AggregateKind, MeasureKind
from dpsql.ir.plan import BlockPlan, LeftOutSubject, PreparedEstimate
from dpsql.kinds.released import ReleasedEstimate
from dpsql.kinds.stored_json import (
    corrupt_release,
    fits_type,
    json_list,
    json_object,
    require_sound,
)
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.left_out import LeftOutNoise, LeftOutRelease, left_out_noise
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.rewrite.left_out import KEPT_COLUMN, climbed_columns

_VERSION: Final = 1
STALE_PRICE: Final = 0.25
"""The part of an estimate's present price below which an older release is too noisy."""
_PARTS: Final = frozenset({"look", "rho", "epsilon", "kept", "rungs"})


@dataclass(frozen=True, slots=True)
class ExactLeftOut:
    """The exact kept sum of a measure, and the units' climb in each span of a ladder.

    Sums over units, in steps of the measure's quantum.
    """

    kept: int
    climbed: tuple[int, ...]


def read_left_out(source: PrivateSource, estimate: PreparedEstimate) -> ExactLeftOut:
    """Read the exact sums that bounding keeps and leaves out."""
    return read_left_out_of(source.over(Reads(estimate.tables)), estimate, estimate.statement)


def read_left_out_of(
    rows: PrivateReader | Scratch, estimate: PreparedEstimate, statement: Sql
) -> ExactLeftOut:
    """Read the same by a statement over rows that are stored, or in their tables."""
    climbed = climbed_columns(estimate.plan)
    found = rows.exact(statement, (), [KEPT_COLUMN, *climbed]).measures
    return ExactLeftOut(int(found[KEPT_COLUMN][0]), tuple(int(found[name][0]) for name in climbed))


def release_estimate(
    estimate: PreparedEstimate, exact: ExactLeftOut, source: EntropySource
) -> ReleasedEstimate:
    """Draw the noisy amounts that bounding keeps and leaves out.

    Guarantee: ``estimate.plan.noise.loss``, for exact sums within the sensitivity of
    ``left_out_sql``.
    """
    noise = estimate.plan.noise
    return ReleasedEstimate(noise, noise.release(exact.kept, exact.climbed, source))


def encode_estimate(found: ReleasedEstimate) -> bytes:
    """Pack a released estimate into bytes, with its price, which gives the scale of its noise."""
    noise, release = found.noise, found.release
    document = {
        "look": _VERSION,
        "rho": noise.loss.rho,
        "epsilon": noise.loss.epsilon,
        "kept": release.kept,
        "rungs": release.rungs,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def decode_estimate(estimate: PreparedEstimate, payload: bytes) -> ReleasedEstimate | None:
    """Unpack a released estimate; None if its noise is too large for use.

    That is a release of less than ``STALE_PRICE`` of what the estimate costs now. Raises
    ``LedgerError`` (``ledger_corrupt``) for what no estimate was packed as.
    """
    document = json_object(payload)
    require_sound(document.keys() == _PARTS)
    if document["look"] != _VERSION:
        return None
    float64, rungs = np.dtype(np.float64), json_list(document["rungs"])
    now = estimate.plan.noise
    require_sound(len(rungs) == now.ladder.rungs)
    require_sound(all(fits_type(document[part], float64) for part in ("rho", "epsilon", "kept")))
    require_sound(all(fits_type(rung, float64) for rung in rungs))
    rho, epsilon = float(document["rho"]), float(document["epsilon"])
    require_sound(0.0 <= min(rho, epsilon) == 0.0 < max(rho, epsilon))
    if rho < STALE_PRICE * now.loss.rho or epsilon < STALE_PRICE * now.loss.epsilon:
        return None
    release = LeftOutRelease(float(document["kept"]), tuple(map(float, rungs)))
    return ReleasedEstimate(_noise_at(now, PrivacyLoss(rho, 0.0, epsilon)), release)


def _noise_at(noise: LeftOutNoise, price: PrivacyLoss) -> LeftOutNoise:
    """Build the same noise at the price that was paid for it."""
    if price == noise.loss:
        return noise
    try:
        return left_out_noise(noise.most, price, noise.ladder)
    except ParameterError:
        raise corrupt_release() from None


def clamped_sums(plan: BlockPlan) -> list[LeftOutSubject]:
    """List the subjects of the parts of summed values that lie out of their bounds."""
    asked = [a.measures[0] for a in plan.block.aggregates if a.kind is AggregateKind.SUM]
    kinds = {index: plan.measures[index].measure.kind for index in asked}
    return [
        LeftOutSubject(index, clamped=True)
        for index, kind in kinds.items()
        if kind is MeasureKind.SUM
    ]

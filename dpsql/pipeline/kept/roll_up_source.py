"""The description of a stored release by which coarser questions are rolled up from it.

Which rows it is of, which declared keys it has, and in which column each of its measures lies: as
digests, which only who asks of the same rows, under the same policy, can match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import NumericArray
from dpsql.kinds.stored_json import require_sound
from dpsql.pipeline.kept.fingerprint import (
    STATISTIC_DIGITS,
    part_fingerprint,
    rows_fingerprint,
)

_PARTS: Final = frozenset({"rows", "keys", "kept", "measures"})


@dataclass(frozen=True, slots=True)
class RollUpSource:
    """A release with all groups of declared keys, whose values can be rolled up.

    ``rows`` and ``keys`` are fingerprints, and ``columns`` maps those of measures to the columns
    and the index of their noise. A unit was kept in ``kept`` groups, None for all. ``values`` are
    arrays of shape (groups,), in the order of the domain.
    """

    rows: str
    keys: tuple[str, ...]
    kept: int | None
    columns: dict[str, tuple[str, int]]
    values: dict[str, NumericArray]
    noise: ReleaseNoise


def described(plans: Sequence[BlockPlan]) -> dict[str, Any] | None:
    """Describe the parts of a release that can be rolled up; None without such parts."""
    if len(plans) != 1 or not release_kind(plans[0]).adds_up:
        return None
    (plan,) = plans
    return {
        "rows": rows_fingerprint(plan.block),
        "keys": [part_fingerprint(key) for key in plan.block.keys],
        "kept": None if plan.bounding is None else plan.bounding.kept,
        "measures": [
            [part_fingerprint(noisy.measure), _column(plan, index)]
            for index, noisy in enumerate(plan.measures[: len(plan.block.measures)])
        ],
    }


def checked_description(found: object) -> dict[str, Any]:
    """Check a description read from the ledger; raise ``LedgerError`` for a malformed one."""
    require_sound(isinstance(found, dict) and found.keys() == _PARTS)
    parts: dict[str, Any] = found  # type: ignore[assignment]
    kept, keys, measures = parts["kept"], parts["keys"], parts["measures"]
    require_sound(kept is None or (type(kept) is int and kept > 0))
    require_sound(isinstance(keys, list) and isinstance(measures, list))
    require_sound(all(map(_is_digest, (parts["rows"], *keys))))
    for pair in measures:
        require_sound(isinstance(pair, list) and len(pair) == 2 and _is_digest(pair[0]))
        require_sound(isinstance(pair[1], str))
    return parts


def _is_digest(found: object) -> bool:
    return isinstance(found, str) and len(found) == STATISTIC_DIGITS


def _column(plan: BlockPlan, measure: int) -> str:
    """Find the released column that has a measure: as drawn, if there is one, or else rounded."""
    block = plan.block
    own = ""
    for index, aggregate in enumerate(block.aggregates):
        if measure in aggregate.measures and aggregate.kind.composed:
            return block.support_columns(index)[aggregate.measures.index(measure)]
        if aggregate.measures == (measure,):
            own = own or block.aggregate_column(index)
    assert own, "every measure is of an aggregate"
    return own

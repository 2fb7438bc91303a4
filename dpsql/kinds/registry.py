"""The list of all kinds of release, and which of them a plan is of."""

from __future__ import annotations

from typing import Final

from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import ReleaseKind
from dpsql.kinds.cascade import CascadeKind
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.pooled import PooledKind
from dpsql.kinds.quantiles import QuantilesKind
from dpsql.kinds.ranked import RankedKind, RankedQuantilesKind
from dpsql.kinds.rolled_up import RolledUpKind
from dpsql.kinds.union import UnionKind

KINDS: Final[tuple[type[ReleaseKind], ...]] = (
    PooledKind,
    RolledUpKind,
    CascadeKind,
    UnionKind,
    RankedQuantilesKind,
    QuantilesKind,
    RankedKind,
    GroupsKind,
)
"""All kinds of release; a plan is of the first that it fits."""


def release_kind(plan: BlockPlan) -> ReleaseKind:
    """Return a plan as one of its kind of release."""
    for kind in KINDS:
        if kind.fits(plan):
            return kind(plan)
    raise AssertionError("a plan is of one of the kinds")

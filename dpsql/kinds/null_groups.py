"""Groups of NULL keys that nobody knows to have rows: post-processing of released values.

A key whose values are known by their form, as those of ``dayname(d)``, may be NULL as far as is
known, so its groups are released with one of NULL. Where no column is NULL that one holds noise
alone, and an outer ``MAX`` or ``ORDER BY … LIMIT 1`` would take it for a group. So it is shown only
where a released value says that it has rows: one whose interval, at 99.9%, does not hold 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import OF_CASE, OF_PUBLIC_ROWS, Key
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedBlock, ReleasedRows

_CONFIDENCE = 0.999


def with_null_groups_told(released: ReleasedBlock) -> ReleasedBlock:
    """Leave out the groups of NULL that seem to have no rows, by all released values.

    NULL that a CASE gives is a value like others where there are no numbers to tell.
    """
    plan, rows = released.block.plan, released.rows
    doubtful = [_is_doubtful(key) for key in plan.block.keys]
    if not plan.declared or rows.keys is not None or not any(doubtful) or not rows.count:
        return released
    null = _null(plan, doubtful, rows.row_ids)
    known = list(_told(plan, rows))
    if not known and any(key.origin == OF_CASE for key in plan.block.keys):
        return released
    kept = ~null | np.logical_or.reduce([*known, np.zeros(rows.count, dtype=np.bool_)])
    if kept.all():
        return released
    values = {name: column[kept] for name, column in rows.values.items()}
    return replace(released, rows=replace(rows, row_ids=rows.row_ids[kept], values=values))


def _is_doubtful(key: Key) -> bool:
    """Tell whether NULL is a possible value of a key, and not a declared one."""
    made = bool(key.origin) and not key.origin.startswith(OF_PUBLIC_ROWS)
    return made and None in (key.domain or ())


def _null(plan: BlockPlan, doubtful: list[bool], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the groups with a doubtful key of NULL, by their positions in the domain."""
    found, stride = np.zeros(len(positions), dtype=np.bool_), plan.block.domain_size
    for key, doubt in zip(plan.block.keys, doubtful, strict=True):
        domain = key.domain or ()
        stride //= len(domain)
        if doubt:
            found |= positions // stride % len(domain) == domain.index(None)
    return found


def _told(plan: BlockPlan, rows: ReleasedRows) -> Iterator[NDArray[np.bool_]]:
    """Yield the marks of groups with rows, as each released number tells them."""
    kind = release_kind(plan)
    for index, aggregate in enumerate(plan.block.aggregates):
        columns = [
            rows.values[name].astype(np.float64) for name in plan.block.interval_columns(index)
        ]
        if aggregate.quantile is not None:
            continue
        if aggregate.kind.composed:
            count = aggregate.measures[1]
            step = plan.measures[count].measure.step
            groups = plan.spread_groups(rows.count)
            yield columns[1] > plan.noise_of(count).margin(_CONFIDENCE, groups) * step
            continue
        found = kind.interval(rows.count, index, columns, _CONFIDENCE)
        yield (found.low > 0) | (found.high < 0)

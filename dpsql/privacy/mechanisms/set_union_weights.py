"""Weights of a set union's items: fixed shares, or one unit after the other.

With one vote each, see :mod:`dpsql.privacy.mechanisms.greedy_union`.

In the policies (Gopi et al. 2020) units come in sequence, in an order fixed by a salted hash. Each
moves the weights of its items towards a common cutoff, as far as its budget of one allows: in l1
all items rise at the same pace until they reach the cutoff (l1-descent, Algorithm 3), in l2 they
move straight towards the point where all are at the cutoff (l2-descent, Algorithm 5). Little is
wasted on items that are safely above the threshold already.

State is one number per distinct item, its *gap* to the cutoff, in steps of 1/STEPS of a unit's
budget. It starts at the cutoff; the weight is the cutoff minus the gap.

**l1-descent is exact.** With integer gaps g and budget B a unit lowers each of its gaps by
min(g, x), x being the largest integer for which that costs at most B, and then the first r
remaining gaps, in the order of the item codes, by one more, r being the budget left over. Write C
for what it spends in all: C = min(B, sum g). Claim: if G1 <= G2 item by item and they differ by at
most B in l1, the same holds after the step.

* *Order.* The costs of a level are no larger for G1, so x1 >= x2. If x1 > x2, a gap of G2 falls by
  at most x2 + 1 <= x1, so G1 stays below. If x1 = x2 = x, the gaps above x of G1 are among those of
  G2, and r1 >= r2; an item that is among the first r2 in G2 and still has a gap in G1 is among the
  first r1 there. All others stay in order by g1 - x <= g2 - x.
* *Distance.* It is sum G2 - sum G1 by the order, and changes by C1 - C2 <= 0, as sum g1 <= sum g2.

The unit that only one neighbour has spends at most B: it makes a pair as claimed, and by induction
the weights end at most B apart in l1. The order of codes must not depend on which units are there.

**l2-descent is charged for its rounding.** The exact step moves a unit's gap vector g to
g * max(0, 1 - B/|g|), which is 1-Lipschitz in l2 (Lemma 5.1). The computed step is at most ``e``
away from it; two runs therefore part by at most 2e per unit, and the neighbours end at most
B + 2 * units * e apart, plus the square root of the number of items when weights are rounded to
whole steps. For k gaps of at most Γ in float64 (u = 2**-53): |g| has a relative error of
(k/2 + 1)u, B/|g| of (k/2 + 2)u, and so g * (1 - B/|g|) an error of at most (k/2 + 2)u*B +
2u*Γ*sqrt(k) in l2; deciding |g| <= B wrongly costs less than (k/2 + 3)u*B. Items with a gap of at
most u*Γ are left alone: that moves the result by at most 2u*Γ*sqrt(k), since setting them to zero
does by half of it (1-Lipschitz again). In all e <= 1.01u * ((k/2 + 3)B + 4Γ*sqrt(k)), where 1.01
covers products of errors. ``l2_sensitivity`` charges this for up to MAX_UNITS units and MAX_ITEMS
items; more are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError, OperationalError

UNIT_WEIGHT_STEPS = 2**26
"""Lattice steps in the whole budget of a unit."""
MAX_UNION_UNITS = 2**28
MAX_UNION_KEYS = 2**28

_ROUNDOFF = 2.0**-53
_CHUNK = 1024  # units between two looks at which items are saturated

Progress = Callable[[int, int | None], None]
"""Called with the units done so far, and how many there are if that is known."""

UnitItemRows = tuple[NDArray[np.int64], NDArray[np.int64]]
Gaps = NDArray[Any]


@dataclass(frozen=True, slots=True)
class UnitItems:
    """Some units with their items: two int64 arrays of shape (rows,), one row per unit and item.

    ``units`` are positions in the salted order, not decreasing and not shared between batches.
    ``items`` are codes from 0, increasing within a unit, whose order depends on the keys alone
    (their rank, say). At most ``groups`` rows per unit, sampled by a salted hash.
    """

    units: NDArray[np.int64]
    items: NDArray[np.int64]


def l2_sensitivity(cutoff: int, groups: int) -> float:
    """Tell how far apart neighbours' weights may end in l2, in steps, by the l2-descent."""
    whole = (groups / 2 + 3) * UNIT_WEIGHT_STEPS + 4 * cutoff * math.sqrt(groups)
    drift = 2 * MAX_UNION_UNITS * 1.01 * _ROUNDOFF * whole
    return (UNIT_WEIGHT_STEPS + drift + math.sqrt(MAX_UNION_KEYS)) * (1 + 2.0**-48)


def descend(
    batches: Iterable[UnitItems],
    *,
    norm: int,
    cutoff: int,
    groups: int,
    progress: Progress | None = None,
    total: int | None = None,
) -> NDArray[np.int64]:
    """Weigh every item code after all units have passed: int64 of shape (codes,), in steps.

    ``norm`` is 1 or 2 and ``cutoff`` is in steps. Memory is one number per item code and one batch.
    Guarantee: adding or removing one unit moves the result by at most STEPS in l1 (norm 1), or by
    at most ``l2_sensitivity`` in l2 (norm 2); see the module for the proof. Checked by
    ``tests/privacy/mechanisms/test_set_union.py``. Raises InternalError for rows out of order or
    too many of a unit, OperationalError beyond MAX_UNITS or MAX_ITEMS.
    """
    gaps: Gaps = np.empty(0, dtype=np.int64 if norm == 1 else np.float64)
    size = 0
    for rows, starts in _checked_rows(batches, groups, progress, total):
        needed = int(rows.max()) + 1
        gaps, size = _grown(gaps, needed, cutoff), max(size, needed)
        if gaps.dtype == np.int64:
            _l1_pass(gaps, rows, starts)
        else:
            _l2_pass(gaps, rows, starts, _ROUNDOFF * cutoff)
    return cutoff - np.ceil(gaps[:size]).astype(np.int64)


def add_up(
    batches: Iterable[UnitItems],
    item_weights: tuple[int, ...],
    progress: Progress | None = None,
    total: int | None = None,
) -> NDArray[np.int64]:
    """Add up weights that depend only on how many items a unit has, by item code, in steps.

    Returns an int64 array of shape (codes,). ``item_weights[n - 1]`` is the weight of each item of
    a unit with n items. The order of units does not matter. Raises as ``descend``.
    """
    shares = np.array(item_weights, dtype=np.int64)
    sums, size = np.empty(0, dtype=np.int64), 0
    for rows, starts in _checked_rows(batches, len(shares), progress, total):
        needed = int(rows.max()) + 1
        sums, size = _grown(sums, needed, 0), max(size, needed)
        sizes = np.diff(starts)
        np.add.at(sums, rows, np.repeat(shares[sizes - 1], sizes))
    return sums[:size]


def vote(
    batches: Iterable[UnitItems],
    *,
    cutoff: int,
    progress: Progress | None = None,
    total: int | None = None,
) -> NDArray[np.int64]:
    """Count votes by item code: int64 of shape (codes,).

    Each unit has one, for its first item, by code, of fewer than ``cutoff`` votes. Guarantee:
    adding or removing one unit moves one item's votes by one
    (:mod:`dpsql.privacy.mechanisms.greedy_union`). Raises as ``descend``, but for no number of
    items.
    """
    left, size = np.empty(0, dtype=np.int64), 0
    for rows, starts in _checked_rows(batches, MAX_UNION_KEYS, progress, total):
        needed = int(rows.max()) + 1
        left, size = _grown(left, needed, cutoff), max(size, needed)
        for still_open, ends in _chunks(left, rows, starts, 0):
            items, start = still_open.tolist(), 0
            for end in ends:
                for item in items[start:end]:
                    if left[item]:
                        left[item] -= 1
                        break
                start = end
    return cutoff - left[:size]


def _checked_rows(
    batches: Iterable[UnitItems], groups: int, progress: Progress | None, total: int | None
) -> Iterator[UnitItemRows]:
    """Yield each batch's item codes and where each unit's begin and end.

    Units are counted, and progress is told.
    """
    done, last = 0, -1
    for batch in batches:
        if len(batch.units) == 0:
            continue
        starts = _checked_starts(batch, last, groups)
        last = int(batch.units[-1])
        done += len(starts) - 1
        if int(batch.items.max()) >= MAX_UNION_KEYS or done > MAX_UNION_UNITS:
            raise OperationalError(
                f"a set union takes at most {MAX_UNION_UNITS} privacy units "
                f"and {MAX_UNION_KEYS} keys",
                code="set_union_too_large",
            )
        yield batch.items, starts
        if progress is not None:
            progress(done, total)


def _checked_starts(batch: UnitItems, last: int, groups: int) -> NDArray[np.int64]:
    """Find where each unit's rows begin, and the end; what the proof relies on is checked."""
    units, items = batch.units, batch.items
    if len(units) != len(items) or units[0] <= last or items.min() < 0:
        raise _disorder()
    step, rise = np.diff(units), np.diff(items)
    if np.any(step < 0) or np.any((step == 0) & (rise <= 0)):
        raise _disorder()
    starts = np.concatenate(([0], np.flatnonzero(step) + 1, [len(units)]))
    if int(np.diff(starts).max()) > groups:
        raise InternalError(
            f"a privacy unit has more than {groups} items in a set union", code="unit_not_bounded"
        )
    return starts


def _disorder() -> InternalError:
    return InternalError(
        "the rows of a set union must be sorted by unit and item, without repeats",
        code="rows_out_of_order",
    )


def _grown(values: Gaps, needed: int, fill: int) -> Gaps:
    """Return the array, at least doubled if it is too short, new places filled."""
    if needed <= len(values):
        return values
    wider = np.full(max(needed, 2 * len(values)), fill, dtype=values.dtype)
    wider[: len(values)] = values
    return wider


def _chunks(
    gaps: Gaps, items: NDArray[np.int64], starts: NDArray[np.int64], negligible: float
) -> Iterator[tuple[NDArray[np.int64], list[int]]]:
    """Yield the rows that still have a gap, a few units at a time, and where each unit's end."""
    for first in range(0, len(starts) - 1, _CHUNK):
        ends = starts[first : first + _CHUNK + 1]
        rows = items[ends[0] : ends[-1]]
        live = gaps[rows] > negligible
        kept = np.concatenate(([0], np.cumsum(live)))
        yield rows[live], kept[ends[1:] - ends[0]].tolist()


def _l2_pass(
    gaps: NDArray[np.float64],
    items: NDArray[np.int64],
    starts: NDArray[np.int64],
    negligible: float,
) -> None:
    """Run l2-descent: each unit scales the vector of its gaps down by a length of one budget."""
    budget, budget_squared, root = (
        float(UNIT_WEIGHT_STEPS),
        float(UNIT_WEIGHT_STEPS) ** 2,
        math.sqrt,
    )
    take = gaps.take
    for rows, ends in _chunks(gaps, items, starts, negligible):
        start = 0
        for end in ends:
            if end == start:
                continue
            own = rows[start:end]
            start = end
            gap = take(own)
            squared = gap.dot(gap)
            if squared > budget_squared:
                gap *= 1.0 - budget / root(squared)
                gaps[own] = gap
            else:
                gaps[own] = 0.0


def _l1_pass(gaps: NDArray[np.int64], items: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    """Run l1-descent: each unit lowers all its gaps at the same pace until its budget is spent."""
    take = gaps.take
    shares: dict[int, NDArray[np.int64]] = {}
    for rows, ends in _chunks(gaps, items, starts, 0):
        start = 0
        for end in ends:
            if end == start:
                continue
            own = rows[start:end]
            start = end
            gap = take(own)
            count = len(gap)
            if (
                int(gap.min()) * count > UNIT_WEIGHT_STEPS
            ):  # the budget runs out before any gap closes
                share = shares.get(count)
                if share is None:
                    share = shares[count] = _equal_shares(count)
                gap -= share
            else:
                _pour(gap)
            gaps[own] = gap


def _equal_shares(count: int) -> NDArray[np.int64]:
    """Split the budget over ``count`` items, the first ones getting what is left over."""
    level, left = divmod(UNIT_WEIGHT_STEPS, count)
    return level + (np.arange(count) < left).astype(np.int64)


def _pour(gap: NDArray[np.int64]) -> None:
    """Lower gaps by min(gap, x) for the largest affordable x, the first ones left by one more."""
    level, budget, open_gaps = 0, UNIT_WEIGHT_STEPS, len(gap)
    for height in sorted(gap.tolist()):
        cost = (height - level) * open_gaps
        if cost > budget:
            break
        level, budget, open_gaps = height, budget - cost, open_gaps - 1
    left = 0
    if open_gaps:
        rise, left = divmod(budget, open_gaps)
        level += rise
    gap -= level
    np.maximum(gap, 0, out=gap)
    gap[np.flatnonzero(gap)[:left]] -= 1

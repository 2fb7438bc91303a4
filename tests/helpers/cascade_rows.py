"""Rows of a cascade in memory: pairs of units and keys as numbers, for tests of the mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.mechanisms.cascade import WHOLE_SHARE, UnitSizes
from dpsql.privacy.mechanisms.naming import GroupWeights, Integers64
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, Weights


class NeverInOrder:
    """Rows that nobody votes over, and of which units alone are counted."""

    def unit_norms(self, named: Integers64) -> UnitSizes:
        raise NotImplementedError

    def norm_shares(self, named: Integers64) -> int:
        raise NotImplementedError

    def units_in_order(self) -> Iterator[UnitItems]:
        raise NotImplementedError


@dataclass(frozen=True)
class PairRows:
    """Distinct pairs: ``units`` and ``keys`` of shape (pairs,). ``order`` ranks a unit's keys."""

    units: NDArray[np.int64]
    keys: NDArray[np.int64]
    order: NDArray[np.float64]
    minimum: int = 1

    def units_in_order(self) -> Iterator[UnitItems]:
        order = np.lexsort((self.keys, self.units))
        yield UnitItems(self.units[order], self.keys[order] - 1)

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        mine = self.units if named is None else self.units[np.isin(self.keys, named)]
        _, sizes = np.unique(mine, return_counts=True)
        return UnitSizes(*np.unique(sizes, return_counts=True))

    def unit_norms(self, named: Integers64) -> UnitSizes:
        """Each unit adds all that it may."""
        return self.unit_sizes(named)

    def norm_shares(self, named: Integers64) -> int:
        found = self.unit_sizes(named)
        shares = (WHOLE_SHARE / np.sqrt(found.sizes)).astype(np.int64)
        return int((found.units * shares)[found.sizes > 1].sum())

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        left = ~np.isin(self.keys, named)
        units, keys, order = self.units[left], self.keys[left], self.order[left]
        sorting = np.lexsort((order, units))
        units, keys = units[sorting], keys[sorting]
        rank = np.arange(len(units)) - np.searchsorted(units, units)
        units, keys = units[rank < kept], keys[rank < kept]
        return _weighed(units, keys, Weights(1, kept), self.minimum)

    def counted(self, named: Integers64, cap: int) -> NDArray[np.int64]:
        """The weights of the named groups in the counting, in their order."""
        mine = np.isin(self.keys, named)
        units, keys = self.units[mine], self.keys[mine]
        found = _weighed(units, keys, Weights(cap, max(cap, len(named))), 1)
        totals = dict(zip(found.ids.tolist(), found.weights.tolist(), strict=True))
        return np.array([totals.get(key, 0) for key in named.tolist()], dtype=np.int64)


def _weighed(
    units: NDArray[np.int64], keys: NDArray[np.int64], weights: Weights, minimum: int
) -> GroupWeights:
    if len(units) == 0:
        return GroupWeights(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    each, which = np.unique(sizes, return_inverse=True)
    weight = weights.of(each)[which][unit]
    ids, group, members = np.unique(keys, return_inverse=True, return_counts=True)
    total = np.zeros(len(ids), np.int64)
    np.add.at(total, group, weight)
    return GroupWeights(ids, total, members >= minimum)


def whole(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights in units."""
    found: NDArray[np.float64] = steps / WEIGHT_STEPS
    return found

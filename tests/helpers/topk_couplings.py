"""Companions of top-k mechanisms on two neighbours, written from docs/mechanisms/coupling.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsql.privacy.mechanisms.topk import GumbelTopK
from helpers.laws import Counts, peeled_law, top_of

BLANK = -1
"""A partner that does not exist."""
LABEL = 1000
"""Pairs are numbered from here, groups from 0."""
Orders = dict[tuple[int, ...], float]


@dataclass(frozen=True, slots=True)
class Coupling:
    """Two tops: common groups, pairs of what leaves and what enters, and the bases.

    A pair is (partner, entering); a partner that does not exist is BLANK. ``scores`` are those of
    all groups, at least the floor.
    """

    common: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    bases: tuple[int, int]
    scores: tuple[Counts, Counts]
    floor: int

    def labels(self, side: int) -> list[int]:
        """The scores under the labels, without the unit (0) or with it (1)."""
        if side == 1:
            return [self.scores[1][entering] for _, entering in self.pairs]
        own = (*self.scores[0], self.floor)
        return [own[partner] for partner, _ in self.pairs]

    @property
    def blanks(self) -> int:
        return sum(partner == BLANK for partner, _ in self.pairs)

    @property
    def shifts(self) -> list[int]:
        """How far all that the companions draw for moves: common groups, labels, the base."""
        common = [self.scores[1][i] - self.scores[0][i] for i in self.common]
        labels = [b - a for a, b in zip(self.labels(0), self.labels(1), strict=True)]
        return [*common, *labels, self.bases[1] - self.bases[0]]


def coupling_of(
    without: Counts,
    with_unit: Counts,
    k_bar: int,
    floor: int,
    rng: np.random.Generator | None = None,
) -> Coupling:
    """Pair what leaves the top with what enters it, by index or at random."""
    scores = tuple(max(c, floor) for c in without), tuple(max(c, floor) for c in with_unit)
    (one, base), (other, raised) = (top_of(s, k_bar, floor) for s in scores)
    entering = sorted(set(other) - set(one))
    partners = sorted(set(one) - set(other))
    partners += [BLANK] * (len(entering) - len(partners))
    if rng is not None:
        partners = [partners[i] for i in rng.permutation(len(partners))]
    pairs = tuple(zip(partners, entering, strict=True))
    return Coupling(tuple(sorted(set(one) & set(other))), pairs, (base, raised), scores, floor)


def companion_orders(mechanism: GumbelTopK, found: Coupling, side: int) -> Orders:
    """The companion's law: what it picks of common groups and labels until the stop, or k times."""
    rate, base = mechanism.epsilon / mechanism.sensitivity, found.bases[side]
    scores = {i: found.scores[side][i] for i in found.common}
    scores |= {LABEL + j: score for j, score in enumerate(found.labels(side))}
    weights = {i: math.exp(rate * (score - base)) for i, score in scores.items()}
    return peeled_law(weights, math.exp(mechanism.stop_offset), mechanism.k)


def unlabelled(law: Orders) -> Orders:
    return {order: p for order, p in law.items() if max(order, default=0) < LABEL}

"""One vote for each unit: a set union where units have about one key.

Units come one after the other, in an order of their own. Each votes for the first of its keys that
has fewer votes than the *cutoff*, in an order of keys that is the same for all; where all have as
many, it votes for none. Then keys are named by chance, which depends on their votes alone
(:mod:`dpsql.privacy.mechanisms.name_chances`). A vote is not lost on a key that is as good as named
already, and however many keys a unit has, there is one vote to be hidden.

**One unit more moves one vote.** Let H be the votes without the unit and G with it, at any moment.
Claim: G = H, or G = H + 1 in one key and G = H in all others. Both start at 0. When the unit itself
comes, H stays and G = H gets a vote or none. When another unit comes, G = H votes alike. Otherwise
let k be the key with G_k = H_k + 1. Keys below the cutoff in G are so in H, and those below it in H
are so in G, but for k where H_k = cutoff - 1. If the unit's choice by H is not k, it is below the
cutoff in G, too, and all keys before it are at the cutoff in H, and so in G, as H <= G <= cutoff:
the choices agree. If it is k, and G_k is below the cutoff, they agree again. If it is k and G_k is
at the cutoff, H gets the vote in k, so that both are at the cutoff there, and G gets one in another
key or none: G = H + 1 in that key at most. This needs that each unit's choice is the first by a
fixed order, and that votes are whole. A choice by votes, such as the key nearest to the cutoff, has
no such proof, and it is false: the tests have a counterexample.

So two neighbours differ by one in the votes of one key, in all that there is: keys without votes
are never named, whether or not anyone has them. Given the orders, each key is named or not by a
draw of its own, and only that key's law differs, as its votes n and n + 1 do. With a minimum of
units, chances count from the minimum - 1: a key of that many votes has as many units.

Checked by ``tests/privacy/mechanisms/test_greedy_union.py``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.name_chances import CERTAIN, draw_named, name_chances
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.mechanisms.set_union_weights import MAX_UNION_KEYS, Progress, UnitItems, vote
from dpsql.privacy.sampling.noise import EntropySource

_ENOUGH = 0.97
"""The chance from which further votes are of more use to other keys.

From 0.9 to 0.99 this changes how many are named by less than 2%."""


@dataclass(frozen=True, slots=True)
class GreedySetUnion(Usual):
    """One vote of each unit; a key is named with the best chance that its votes allow.

    ``price`` is a loss in any composition, ``floor`` the minimum of units - 1.

    Guarantee: that price, of one unit more or less; see the module. Checked by
    ``tests/privacy/mechanisms/test_greedy_union.py``.
    """

    word: ClassVar[str] = "greedy set union"
    name: ClassVar[str] = "greedy_set_union"
    source: ClassVar[str] = (
        "Carvalho et al. 2022 (votes); Desfontaines et al. 2022, Theorem 1 (chances)"
    )
    in_sequence: ClassVar[bool] = True
    keys_by_hash: ClassVar[bool] = True
    norm: ClassVar[int] = 1
    sensitivity: ClassVar[float] = 1.0
    groups: ClassVar[int] = MAX_UNION_KEYS
    price: PrivacyLoss
    floor: int = 0

    @property
    def delta(self) -> float:
        return self.price.delta

    @property
    def chances(self) -> tuple[int, ...]:
        """The chances of being named, of votes above the floor, in parts of 2**-64."""
        return name_chances(self.price)

    @property
    def cutoff(self) -> int:
        """The votes at which a key gets no more."""
        return self.floor + bisect_left(self.chances, math.ceil(_ENOUGH * CERTAIN))

    @property
    def bounding(self) -> str:
        """What bounds a unit's part in the votes."""
        return "one vote per unit, for its first key (by a salted hash) that needs more"

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Return its price; infinite but for a composition that the price is in or implies."""
        if composition is Composition.BASIC:
            return self.price.epsilon or math.inf
        implied = composition is Composition.ZCDP or self.price.gaussian
        return self.price.rho if self.price.rho and implied else math.inf

    def score_for_inclusion(self, probability: float) -> float:
        """Tell how many votes a key must exceed to be named this often."""
        return float(self.floor + bisect_left(self.chances, math.ceil(probability * CERTAIN)) - 1)

    @property
    def votes_needed(self) -> float:
        """About how many votes above the floor make a name as likely as not."""
        chances, half = self.chances, CERTAIN // 2
        reached = bisect_left(chances, half)
        below = chances[reached - 1]
        return reached - 1 + (half - below) / (chances[reached] - below)

    def weigh(
        self,
        batches: Iterable[UnitItems],
        progress: Progress | None = None,
        total: int | None = None,
    ) -> NDArray[np.int64]:
        """Count every key's votes, as ``select`` takes them: int64 of shape (codes,).

        Errors are those of ``vote``.
        """
        return vote(batches, cutoff=self.cutoff, progress=progress, total=total)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the named keys from their votes: an int64 array of shape (codes,)."""
        above = np.maximum(scores - self.floor, 0)
        return Selected(draw_named(above, self.chances, source), None)


def greedy_set_union(price: PrivacyLoss, floor: int) -> GreedySetUnion:
    """Build the set union that costs ``price``.

    Raises ParameterError where that names no key, or its chances are too many: see
    ``name_chances``.
    """
    name_chances(price)
    return GreedySetUnion(price, floor)

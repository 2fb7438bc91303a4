"""Choosing k_bar privately: how far down the ranking the threshold of a top-k starts.

A larger k_bar lowers the base, h_(k_bar+1), and raises ln(k_bar/δ)/ε. Where the scores drop
suddenly, a k_bar just past the drop is best; one more exponential mechanism finds about that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.price import rho_of_picks
from dpsql.privacy.mechanisms.selection import BETA, Selected, Usual, UtilityBound
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.sampling.noise import EntropySource, gumbel_order

MAX_CHOICES = 1_000_000


@dataclass(frozen=True, slots=True)
class GumbelTopKChosenKBar(Usual):
    """Gumbel top-k with a k_bar drawn first, between k and the k_bar of ``widest``.

    k_bar is the i with the largest -ε*base_i/Δ∞ - ln i + Gumbel, where base_i is h_(i+1), or the
    floor if that is larger; then ``widest`` runs with that k_bar. A unit may touch any number of
    groups (with few of them K in the threshold does not grow with k_bar, and the widest is best).

    Guarantee: δ-approximate (1 + picks)*ε²/8-zCDP, ε and δ those of ``widest``. The
    choice is a pick of its own, paid whatever comes out: adding a unit raises every base_i by at
    least 0 and at most Δ∞ (there are as many scores of at least h_(i+1) afterwards as before, and
    none grew by more than Δ∞), so all exponents move one way by at most ε. That makes the choice
    ε-bounded-range, ε²/8-zCDP. The run that follows is chosen adaptively, and
    its cost does not depend on k_bar. k_bar itself may be told.

    After Durfee & Rogers 2019, Algorithm 6, with two corrections. It prints the smallest of scores
    plus Gumbel noise, which is not bounded-range, as Gumbel noise is not symmetric; this takes the
    largest of the negated scores plus noise. And it prints h_(i) where the threshold of k_bar = i
    starts from h_(i+1). Checked by ``tests/privacy/mechanisms/test_choose_k_bar.py``.
    """

    word: ClassVar[str] = "gumbel top-k of chosen k_bar"
    name: ClassVar[str] = "gumbel_top_k_chosen_k_bar"
    source: ClassVar[str] = "Durfee & Rogers 2019, Algorithm 6, corrected; Rogers 2024, Theorem 10"
    widest: GumbelTopK

    def __post_init__(self) -> None:
        if self.widest.groups is not None:
            raise ParameterError("choosing k_bar is for units without a cap", code="needless_cap")
        if not 1 <= self.choices <= MAX_CHOICES:
            raise ParameterError(
                f"k_bar must be from k to k + {MAX_CHOICES - 1}", code="too_many_choices"
            )

    @property
    def delta(self) -> float:
        return self.widest.delta

    @property
    def top_rows_needed(self) -> int | None:
        return self.widest.top_rows_needed

    @property
    def choices(self) -> int:
        """How many values of k_bar compete."""
        return self.widest.k_bar - self.widest.k + 1

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.widest.pick_cost(composition) + self.widest.cost(composition, reach)

    def score_for_inclusion(self, probability: float) -> float | None:
        """Count from the base of the widest, which a draw of another k_bar seldom worsens."""
        rest = (1 - probability) / 2
        above = self.widest.score_for_inclusion(1 - rest)
        return None if above is None else above + self._worse(rest)

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the utility by that of the largest k_bar, at half of ``beta``.

        The other half pays for the choice of k_bar. The gap counts from the base of the largest.
        """
        found = self.widest.utility_bound(k, beta / 2)
        assert found.gap is not None
        return UtilityBound(beta, found.shortfall, found.gap + self._worse(beta / 2))

    def _worse(self, probability: float) -> float:
        """Bound how far the chosen threshold is above the widest's, but for ``probability``."""
        if self.choices == 1:
            return 0.0
        odds = math.log((self.choices - 1) / probability)
        return max(0.0, odds) * self.widest.sensitivity / self.widest.epsilon

    def choose(self, scores: NDArray[np.int64], source: EntropySource) -> int:
        """Draw k_bar by the true scores: an int64 array of shape (groups,), largest first."""
        k, last = self.widest.k, self.widest.k_bar
        bases = np.full(self.choices, self.widest.floor, dtype=np.int64)
        found = scores[k : last + 1]
        bases[: len(found)] = np.maximum(found, self.widest.floor)
        offsets = -np.log(np.arange(k, last + 1))
        rate = self.widest.epsilon / self.widest.sensitivity
        return k + int(gumbel_order(-bases, rate, offsets, 1, source)[0])

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        chosen = replace(self.widest, k_bar=self.choose(scores, source))
        return chosen.select(scores[: chosen.k_bar + 1], source)


def gumbel_top_k_chosen_k_bar(
    price: PrivacyLoss, *, sensitivity: int, k: int, k_bar: int, floor: int
) -> GumbelTopKChosenKBar | None:
    """Build the mechanism of at most ``price``, choice included; None if that is too little."""
    epsilon = math.sqrt(8 * rho_of_picks(price, k + 1) / (k + 1)) * (1 - 1e-11)
    if epsilon <= 1e-9:
        return None
    return GumbelTopKChosenKBar(GumbelTopK(epsilon, sensitivity, k, k_bar, price.delta, floor))

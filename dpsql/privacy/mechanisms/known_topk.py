"""Top-k of a declared domain: every key competes, absent ones with a score of zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.price import cost_of_pick, rho_of_picks
from dpsql.privacy.mechanisms.selection import BETA, Selected, Usual, UtilityBound, intruder_weight
from dpsql.privacy.sampling.noise import EntropySource, gumbel_order
from dpsql.privacy.sampling.numeric import checked_positive


@dataclass(frozen=True, slots=True)
class KnownDomainTopK(Usual):
    """The ordered names of the k largest of ``size`` declared groups, by peeled exponentials.

    ε*score_i/Δ∞ + Gumbel for every declared group; the k largest are released in order, fewer only
    if fewer are declared. The scores may only grow when a unit is added, by at most Δ∞ each; how
    many a unit touches does not matter.

    Guarantee: min(k, size)*ε²/8-zCDP, whatever comes out; δ = 0. Each pick is an exponential
    mechanism on scores that move one way by at most Δ∞, so it is ε-bounded-range, and that is
    ε²/8-zCDP. Sampling is exact (``gumbel_order``).

    Source: Rivera Cardoso & Rogers 2022, Algorithm 5 (its τ is 2/ε) and Theorem 8.
    Checked by ``tests/privacy/mechanisms/test_known_topk.py``.
    """

    word: ClassVar[str] = "declared top-k"
    name: ClassVar[str] = "known_domain_top_k"
    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Algorithm 5"
    delta: ClassVar[float] = 0.0
    epsilon: float
    sensitivity: int
    k: int
    size: int

    def __post_init__(self) -> None:
        checked_positive(self.epsilon, "epsilon")
        if min(self.sensitivity, self.k, self.size) < 1:
            raise ParameterError("sensitivity, k and size must be at least 1", code="not_positive")

    @property
    def declared(self) -> int:
        return self.size

    @property
    def base_rank(self) -> int:
        """The first that does not come out where the scores decide."""
        return self.picks + 1

    @property
    def picks(self) -> int:
        """How many groups come out, always."""
        return min(self.k, self.size)

    @property
    def std(self) -> float:
        """The standard deviation of the Gumbel noise on a score, in its steps."""
        return math.pi / math.sqrt(6) * self.sensitivity / self.epsilon

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.picks * cost_of_pick(composition, self.epsilon)

    def score_for_inclusion(self, probability: float) -> float | None:
        """Count from the (k+1)-th largest score: the last pick, all others at that score."""
        others = self.size - self.picks
        if others == 0:
            return None
        odds = math.log(others) + math.log(probability / (1 - probability))
        return max(0.0, odds) * self.sensitivity / self.epsilon

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the first k groups in order by draws that avoid all others. k always come out."""
        others = self.size - k
        if others <= 0:
            return UtilityBound(beta, 0.0, None)
        odds = math.log(others / intruder_weight(k, beta))
        return UtilityBound(beta, self.sensitivity / self.epsilon * odds, None)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the k largest from the scores of all declared groups.

        ``scores``: int64 array of shape (declared groups,), absent ones included.
        """
        order = gumbel_order(scores, self.epsilon / self.sensitivity, None, self.k, source)
        return Selected(order, None)


def known_domain_top_k(
    price: PrivacyLoss, *, sensitivity: int, k: int, size: int
) -> KnownDomainTopK:
    """Build the mechanism that costs at most ``price``."""
    checked_positive(price.rho, "rho")
    picks = min(k, size)
    epsilon = math.sqrt(8 * rho_of_picks(price, picks) / picks) * (1 - 1e-11)
    return KnownDomainTopK(epsilon, sensitivity, k, size)

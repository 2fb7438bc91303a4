"""Top-k from the k_bar+1 largest groups only (the limited domain).

The engine returns the k_bar+1 largest scores, ties broken by the key. The last one is the base of
a noisy threshold and is never released. Past the end of the data scores count as ``floor``
(minimum units - 1, usually 0); groups at or below the floor do not exist. The guarantees are by
coupling: ``docs/mechanisms/coupling.md`` has the definition and the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, gaussian
from dpsql.privacy.mechanisms.price import cost_of_pick, priced, rho_of_picks
from dpsql.privacy.mechanisms.selection import (
    BETA,
    AboveBase,
    Selected,
    UtilityBound,
    intruder_weight,
)
from dpsql.privacy.sampling.noise import EntropySource, difference_quantile_sf, gumbel_order


def split_base(
    scores: NDArray[np.int64], k_bar: int, floor: int
) -> tuple[NDArray[np.int64], NDArray[np.intp], int]:
    """Split off the candidates and the base: the (k_bar+1)-th score, or the floor.

    ``scores``: int64 array of shape (groups,), largest first. Returns the candidates' scores and
    indices, of shape (candidates,), and the base.
    """
    base = max(int(scores[k_bar]), floor) if len(scores) > k_bar else floor
    candidates = np.flatnonzero(scores[:k_bar] > floor)
    return scores[candidates], candidates, base


def moved_scores(groups: int, k_bar: int) -> int:
    """Bound how many scores, the base's included, a unit in ``groups`` groups moves in the top.

    Moves by less than the most count as parts of one (``docs/mechanisms/coupling.md``, Lemma 4).
    """
    return min(groups, k_bar + 1)


@dataclass(frozen=True, slots=True)
class GaussianTopK(AboveBase):
    """Noise on the k_bar largest scores and on the threshold; scores above it are released.

    score_i + Z_i against base + Δ∞ + t + Z', all discrete Gaussian with the same σ; one unit
    raises at most ``groups`` scores. The noisy scores are released too.

    Guarantee: δ-approximate ρ-zCDP, by coupling, with ρ = min(groups, k_bar + 1)*Δ∞²/(2σ²), where t
    is the smallest integer with P[Z - Z' > t] <= δ/min(groups, k_bar), by an upper bound on the
    exact tail.

    After Rivera Cardoso & Rogers 2022, Algorithm 9 and Lemma 6.1, and Rogers 2024, Theorem 8. The
    companion of the mechanism on two neighbours ranks each group that enters the top under the
    label of one that leaves it. At most so many squares of shifts, of Δ∞² each, are then the whole
    difference, that of the base included, and only the groups under such labels, at most
    min(groups, k_bar) of them on either side, have to stay hidden.
    Checked by ``tests/privacy/mechanisms/test_coupling.py`` and ``test_boundary_delta.py``.
    """

    word: ClassVar[str] = "gaussian top-k"
    name: ClassVar[str] = "gaussian_top_k"
    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Algorithm 9; Rogers 2024, Theorem 8"
    noise: IndependentNoise
    groups: int
    k_bar: int
    delta: float
    floor: int

    @property
    def score_noise(self) -> IndependentNoise:
        return self.noise

    @property
    def threshold(self) -> int:
        """How far above the (k_bar+1)-th score the threshold is centred."""
        sigma = self.noise.scale
        tail = self.delta / min(self.groups, self.k_bar) * (1 - 1e-12)
        return self.noise.sensitivity + difference_quantile_sf(sigma, sigma, tail)

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.noise.cost(composition, moved_scores(self.groups, self.k_bar))

    def score_for_inclusion(self, probability: float) -> float | None:
        if probability <= 0.5:
            return float(self.threshold)
        return self.threshold + 1 + self._difference(1 - probability)

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the k largest noisy scores by a union over pairs of a wanted and another group."""
        pairs = k * (self.k_bar - k)
        share = beta / 2 if pairs else beta
        return UtilityBound(
            beta,
            shortfall=self._difference(share / pairs) if pairs else 0.0,
            gap=self.threshold + 1 + self._difference(share / k),
        )

    def _difference(self, probability: float) -> int:
        """Find the smallest t with P[Z - Z' > t] <= ``probability``."""
        return difference_quantile_sf(self.noise.scale, self.noise.scale, probability)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        values, candidates, base = split_base(scores, self.k_bar, self.floor)
        noisy = self.noise.add(np.append(values, base + self.threshold), source)
        kept = np.flatnonzero(noisy[:-1] > noisy[-1])
        return Selected(candidates[kept], noisy[kept])


@dataclass(frozen=True, slots=True)
class GumbelTopK(AboveBase):
    """The ordered names of up to k groups, drawn by k peeled exponential mechanisms.

    ε*score_i/Δ∞ + Gumbel for the k_bar largest scores against ε*(base/Δ∞ + 1) + ln(K/δ) + Gumbel
    for the stopping symbol ⊥. Groups are released in order until ⊥ or k of them. The scores may
    only grow when a unit is added. K = k_bar where a unit may touch any number of groups, and
    K = min(groups, k_bar) where the rewriting holds it to ``groups`` of them.

    Guarantee: δ-approximate picks*ε²/8-zCDP, by coupling, where picks counts the released groups,
    and ⊥ when fewer than k came out. It holds for adaptively chosen calls that each pay their own
    picks (pay-what-you-get).

    After Durfee & Rogers 2019, Algorithms 1 and 2, and Rogers 2024, Theorems 9 and 10. The
    companion of the mechanism on two neighbours has each group that enters the domain under the
    label of one that leaves it: their scores differ by 0 to Δ∞, as those of all others do, so each
    of its picks is ε-bounded-range. Sampling is exact (``gumbel_order``).

    Why K may be that small. The domain is the k_bar largest groups above the floor, ties broken by
    the key. Adding a unit raises at most ``groups`` scores, and only a raised group can overtake
    another: at most K groups enter the domain. One leaves only for one that entered, so at most K
    leave. On its own side each of them scores at most base + Δ∞: an entering group scored at most
    the base before; a leaving one is at most the base afterwards, which has risen by Δ∞ at most.
    Each beats ⊥ with probability at most δ/K. This is for the domain with ties only: the *strict*
    domain, of scores above the base, loses all of a top of ties when one raised group lifts the
    base, so there K = k_bar however few groups a unit touches (Rogers 2024, Theorem 9, prints k_bar
    and proves with the bound on groups). The strict domain is never the better of the two.
    Checked by ``tests/privacy/mechanisms/test_coupling.py`` and ``test_boundary_delta.py``.
    """

    word: ClassVar[str] = "gumbel top-k"
    name: ClassVar[str] = "gumbel_top_k"
    source: ClassVar[str] = (
        "Durfee & Rogers 2019, Algorithms 1 and 2; Rogers 2024, Theorems 9 and 10"
    )
    epsilon: float
    sensitivity: int
    k: int
    k_bar: int
    delta: float
    floor: int
    groups: int | None = None

    @property
    def crossing(self) -> int:
        """K: how many groups can be in the domain of one of two neighbours only."""
        return self.k_bar if self.groups is None else min(self.groups, self.k_bar)

    @property
    def stop_offset(self) -> float:
        """The offset of ⊥ above the base, in units of ε*score/Δ∞; rounded up."""
        return (self.epsilon + math.log(self.crossing / self.delta)) * (1 + 1e-12)

    @property
    def threshold(self) -> float:
        """How far above the (k_bar+1)-th score ⊥ is centred, in score steps."""
        return self.sensitivity * self.stop_offset / self.epsilon

    def cost(self, composition: Composition, reach: int | None) -> float:
        picks = self.k if reach is None else min(self.k, reach + 1)
        return picks * self.pick_cost(composition)

    def pick_cost(self, composition: Composition) -> float:
        """Compute the cost of one pick."""
        return cost_of_pick(composition, self.epsilon)

    def score_for_inclusion(self, probability: float) -> float | None:
        logit = math.log(probability / (1 - probability))
        return self.threshold + max(0.0, logit) * self.sensitivity / self.epsilon

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound:
        """Bound the first k groups in order by draws that avoid the k_bar - k others, and ⊥."""
        others = self.k_bar - k
        weight = intruder_weight(k, beta) / (2 if others else 1)
        step = self.sensitivity / self.epsilon
        return UtilityBound(
            beta,
            shortfall=step * math.log(others / weight) if others else 0.0,
            gap=step * (self.stop_offset - math.log(weight)),
        )

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        values, candidates, base = split_base(scores, self.k_bar, self.floor)
        stop = len(values)
        offsets = np.zeros(stop + 1)
        offsets[stop] = self.stop_offset
        order = gumbel_order(
            np.append(values, base), self.epsilon / self.sensitivity, offsets, self.k, source
        )
        stopped = np.flatnonzero(order == stop)
        order = order[: stopped[0]] if len(stopped) else order
        return Selected(candidates[order], None)


def gaussian_top_k(
    price: PrivacyLoss, *, sensitivity: int, groups: int, k_bar: int, floor: int
) -> GaussianTopK:
    """Build the Gaussian mechanism of at most ``price``."""
    noise = gaussian(price, sensitivity, moved_scores(groups, k_bar))
    return priced(GaussianTopK(noise, groups, k_bar, price.delta, floor), price)


def gumbel_top_k(
    price: PrivacyLoss,
    *,
    sensitivity: int,
    k: int,
    k_bar: int,
    floor: int,
    groups: int | None = None,
) -> GumbelTopK | None:
    """Build the Gumbel mechanism of at most ``price`` for k picks; None if that is too little."""
    epsilon = math.sqrt(8 * rho_of_picks(price, k) / k) * (1 - 1e-11)
    if epsilon <= 1e-9:
        return None
    found = GumbelTopK(epsilon, sensitivity, k, k_bar, price.delta, floor, groups)
    return priced(found, price)

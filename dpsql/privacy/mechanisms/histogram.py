"""Releasing every group: of a declared domain, or every group large enough to be safe to name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.price import priced
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.sampling.noise import EntropySource


@dataclass(frozen=True, slots=True)
class KnownDomain(Usual):
    """Every declared group is answered, absent ones as zero plus noise. Naming them is free.

    Guarantee: that of the noise alone; the set of groups does not depend on the data.
    """

    word: ClassVar[str] = "declared groups"
    name: ClassVar[str] = "known_domain"
    source: ClassVar[str] = "additive noise on a data-independent set of groups"
    delta: ClassVar[float] = 0.0
    size: int

    @property
    def declared(self) -> int:
        return self.size

    def cost(self, composition: Composition, reach: int | None) -> float:
        return 0.0

    def score_for_inclusion(self, probability: float) -> float | None:
        return None

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        return Selected(np.arange(len(scores), dtype=np.intp), None)


@dataclass(frozen=True, slots=True)
class PositiveCounts(Usual):
    """Noise on each group present in the data; a group is released iff its noisy count > T.

    The score counts privacy units, so a unit changes at most ``groups`` scores by one each. Groups
    with at most ``floor`` units are dropped before noise (minimum units - 1).

    Guarantee: δ-approximate groups*ρ(1)-zCDP, with the smallest integer T for which
    1 - (1 - P[Z > T - 1 - floor])^groups <= δ, by the exact tail of the sampled distribution
    (Rogers 2024, Theorem 7; Lebeda & Retschmeier 2024, Section 6 for the floor). A group that one
    unit alone brings above the floor has at most floor + 1 units. Checked by
    ``tests/privacy/mechanisms/test_boundary_delta.py``.
    """

    word: ClassVar[str] = "positive counts"
    source: ClassVar[str] = "Rogers 2024, Theorem 7"
    noise: IndependentNoise
    groups: int
    delta: float
    floor: int

    @property
    def name(self) -> str:
        return f"{self.noise.name}_positive_counts"

    @property
    def score_noise(self) -> IndependentNoise:
        return self.noise

    @property
    def threshold(self) -> int:
        """T: the noisy count a group must exceed, in units."""
        # (1 - p)^groups >= 1 - delta  iff  p <= 1 - (1 - delta)^(1/groups), rounded down a little.
        per_group = -math.expm1(math.log1p(-self.delta) / self.groups) * (1 - 1e-12)
        return self.floor + 1 + self.noise.noise.quantile_sf(per_group)

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.noise.cost(composition, self.groups)

    def score_for_inclusion(self, probability: float) -> float | None:
        if probability <= 0.5:
            return float(self.threshold)
        return self.threshold + 1 + self.noise.noise.quantile_sf(1 - probability)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        noisy = self.noise.add(scores, source)
        # The engine has dropped small groups already; the mechanism does not rely on it.
        kept = np.flatnonzero((noisy > self.threshold) & (scores > self.floor))
        return Selected(kept, noisy[kept])


def positive_counts(
    noise_for: Callable[[PrivacyLoss, int, int], IndependentNoise],
    price: PrivacyLoss,
    groups: int,
    floor: int,
) -> PositiveCounts:
    """Build positive counts of at most ``price``, with noise that ``noise_for`` builds.

    For one publication, by Laplace noise, epsilon is for the noise and delta for the threshold,
    neither divided. Of the ``groups`` groups that a unit raises by one let j exist without it, and
    let psi >= 1 - delta be the chance that none of the others, which only the unit has, is
    released. With the unit an event has probability at most 1 - psi plus e^(j/b) times that without
    it. Without the unit it has A <= e^(j/b) B, where B psi is at most that with the unit: A exceeds
    e^epsilon times that by at most A (1 - psi). Checked by
    ``tests/privacy/calculator/test_calibrate.py``.
    """
    return priced(PositiveCounts(noise_for(price, 1, groups), groups, price.delta, floor), price)

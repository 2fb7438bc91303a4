"""How much contribution bounding leaves out, learned from one number per unit and a ladder.

Bounding lets a unit add at most ``most`` to an answer's groups together. What a unit has beyond
that has no bound, so its sum over units cannot be released with any noise. Two things can:

* **What is kept**: the sum of what units add within their bounds, of which one moves at most
  ``most``.
* **The ladder**: how many units have how much left out. Rungs are at heights h, 2h, 4h, ... A unit
  between two rungs stands on both, in parts that sum to 1 and average to its height; below the
  first it stands on that in part, and above the last on the last. So the number of units on each
  rung, times its height, adds up to exactly what was left out, of each unit at most the top. And
  yet a unit moves the ladder by at most 1, however much it has: in l1, hence in l2 too.

A sum up to some rung is what was left out with each unit's part cut there, as rungs above hold
whole units less. It is a lower bound, and noise grows with the height of the rung. So whoever reads
a ladder can choose the height that suits the noise, after the fact: that is post-processing.

**Guarantee.** For neighbours that differ in one unit: ρ-zCDP with Gaussian noise, ε-DP with Laplace
noise, the sum of what both numbers cost, by composition (Bun & Steinke 2016, Lemma 2.3). Parts of
units are counted in steps. Each count is rounded once it is summed; one unit moves two rungs at
most, and rounding either by a step at most, so ``LADDER_SENSITIVITY`` is two steps above 1.
Checked by ``tests/privacy/mechanisms/test_ladder.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, gaussian, laplace
from dpsql.privacy.sampling.noise import EntropySource

LADDER_STEPS: Final = 2**10
"""Steps that a whole unit on a rung counts as."""
LADDER_SENSITIVITY: Final = LADDER_STEPS + 2
"""How far one unit moves all rungs together, in steps: in l1, and so in l2."""
WHOLE_UNIT: Final = 2**10
"""What a unit has of a whole, where parts of units are looked at: as many steps."""
LEFT_OUT_REACH: Final = 20
"""The top of a ladder is at least so many times what bounding lets a unit add."""

_FINE_RUNGS = 64  # rungs start where a unit has left out this part of what it may add
_GRAINS = 4096
_KEPT_BITS = 20  # that the sensitivity of the kept sum is brought down to
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs at ``first`` times 1, 2, 4, ..., in units of ``grain`` steps of what is counted.

    What a unit has left out is divided by ``grain``, rounding down: so sums over 2**40 units fit
    64 bits, and nothing of less than a 4096th of what a unit may add is lost.
    """

    first: int
    rungs: int
    grain: int

    @classmethod
    def reaching(cls, most: int) -> Ladder:
        """Return the ladder for units that may add ``most``: it reaches 20 times as far."""
        grain = max(1, most // _GRAINS)
        grains = -(-most // grain)
        first = max(1, grains // _FINE_RUNGS)
        rungs = 1
        while first << (rungs - 1) < LEFT_OUT_REACH * grains:
            rungs += 1
        return cls(first, rungs, grain)

    @classmethod
    def of_caps(cls, largest: int) -> Ladder:
        """Return the ladder over a unit's things beyond its first, for caps up to this.

        It reaches twice as far, and to 64 at least.
        """
        return cls(first=1, rungs=max(7, 1 + (2 * largest - 1).bit_length()), grain=1)

    @property
    def heights(self) -> tuple[int, ...]:
        """The heights of the rungs in steps, from the lowest."""
        return tuple((self.first << place) * self.grain for place in range(self.rungs))

    @property
    def top(self) -> int:
        """The height of the last rung in steps: more than that of one unit is not counted."""
        return self.heights[-1]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The height below each rung and the distance to it, in grains."""
        heights = [self.first << place for place in range(self.rungs)]
        return tuple((low, high - low) for low, high in zip([0, *heights], heights, strict=False))

    def standing(self, climbed: Sequence[int]) -> NDArray[np.int64]:
        """Count the units that stand on each rung, in steps: of shape (rungs,).

        ``climbed`` is the sum over units of how far each got in each of ``spans``.
        """
        counts = []
        for place, (_, span) in enumerate(self.spans):
            # Exact in integers: the span is divided by once.
            above = self.spans[place + 1][1] if place + 1 < self.rungs else 1
            beyond = climbed[place + 1] if place + 1 < self.rungs else 0
            whole = LADDER_STEPS * (climbed[place] * above - beyond * span)
            counts.append((2 * whole + span * above) // (2 * span * above))
        return np.array(counts, dtype=np.int64)


PARTS_OF_UNITS: Final = Ladder(first=WHOLE_UNIT, rungs=1, grain=1)
"""The ladder of what no unit has more than a whole of."""


@dataclass(frozen=True, slots=True)
class LeftOutRelease:
    """The noisy amounts that bounding keeps and leaves out.

    ``kept`` is in the units of what is counted, ``rungs`` are numbers of units, from the lowest.
    """

    kept: float
    rungs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LeftOutNoise:
    """Noise on the kept sum, to which a unit adds at most ``most``, and on a ladder.

    ``loss`` is the price of both together, whatever comes out.
    """

    most: int
    ladder: Ladder
    loss: PrivacyLoss
    kept_noise: IndependentNoise
    rung_noise: IndependentNoise

    @property
    def coarsening(self) -> int:
        """The divisor of the kept sum, which keeps noise in the range of the samplers."""
        return 1 << max(0, (self.most - 1).bit_length() - _KEPT_BITS)

    def release(self, kept: int, climbed: Sequence[int], source: EntropySource) -> LeftOutRelease:
        """Draw the noisy sums; ``climbed`` as for :meth:`Ladder.standing`."""
        coarse = np.array([min(kept // self.coarsening, _LARGEST)], dtype=np.int64)
        (found,) = self.kept_noise.add(coarse, source).tolist()
        rungs = self.rung_noise.add(self.ladder.standing(climbed), source) / LADDER_STEPS
        return LeftOutRelease(found * self.coarsening, tuple(rungs.tolist()))


def left_out_noise(most: int, price: PrivacyLoss, ladder: Ladder | None = None) -> LeftOutNoise:
    """Build the noise of an estimate that costs at most ``price``: of zCDP, or an epsilon.

    ``most`` is what bounding lets a unit add in all, ``ladder`` the one for that by default. Half
    of the price goes to what is kept. Raises ``ParameterError`` where no noise in range is so
    cheap.
    """
    ladder = ladder or Ladder.reaching(most)
    coarsening = 1 << max(0, (most - 1).bit_length() - _KEPT_BITS)
    sensitivity = most if coarsening == 1 else most // coarsening + 1
    build = laplace if price.epsilon else gaussian
    half = replace(price, rho=price.rho / 2, epsilon=price.epsilon / 2)
    kept, rungs = build(half, sensitivity, 1), build(half, LADDER_SENSITIVITY, 1)
    return LeftOutNoise(most, ladder, price, kept, rungs)

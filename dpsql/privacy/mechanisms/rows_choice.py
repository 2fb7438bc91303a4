"""The number of rows of a unit that count in a group: drawn from a ladder before they are counted.

A count whose units add at most R rows to a group errs by what R cuts, and by noise in proportion to
R. Its mean error over groups is least where *as many pairs of a unit and a group are cut as the
noise is wide*: that is a rank among the pairs, from the top, so the choice is one private draw.

Each unit weighs 1, divided among its groups. The tail of R is the weight of the pairs with more
than R rows. R is drawn with probability proportional to

    R ** -5 * exp(-rate * max(tail(R) - target, 0)).

The base measure R ** -5 stands for the noise, which grows with R; the score for what R cuts. A
score of both sides, with \\|tail - target\\|, would have twice the range, so four times the price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.price import Priced, cost_of_pick, rho_of_picks
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.lattice import uniform_below
from dpsql.privacy.sampling.numeric import checked_positive, rounded_up
from dpsql.privacy.sampling.uniform import uniform_integers

WHOLE_WEIGHT: Final = 2**20
"""The steps of a unit's whole weight, which its groups share."""
MOST_CHOSEN: Final = 2**22
"""The largest number of rows on a ladder."""

_POWER = 5  # of the base measure; 4 to 8 do as well
_STRIPS = 40  # bits of the resolution that proposals are drawn with
_SLACK = 2.0**-36  # relative error ascribed to float64 weights; the real one is below 2**-40
_CUT_PER_NOISE = 1.2  # pairs to cut for each standard deviation of the noise on a group


def ladder(most: int | None = None) -> tuple[int, ...]:
    """List the numbers of rows that can be chosen: 1, 2, 3, 4, 6, 8, 11, ..., up to ``most``.

    They grow by the root of 2, so that none is further than a fifth from the best.
    """
    limit = MOST_CHOSEN if most is None else min(most, MOST_CHOSEN)
    steps = {round(2 ** (step / 2)) for step in range(2 * MOST_CHOSEN.bit_length())}
    return tuple(sorted({rows for rows in steps if rows < limit} | {limit}))


def usual_target(groups: int, kept: int, sigma: float) -> float:
    """Compute the weight to be cut for the least mean error of a count by group.

    ``groups`` come out, a unit may be in ``kept`` of them, and ``sigma`` is the noise on a count to
    which each unit adds one row in one group. The noise on a group is sqrt(kept) times as wide; a
    pair weighs 1 / ``kept``.
    """
    return _CUT_PER_NOISE * groups * sigma / math.sqrt(kept)


@dataclass(frozen=True, slots=True)
class RowsChoice(Priced[int | None]):
    """A draw from a ladder of numbers of rows.

    ``target`` is the weight of the pairs that should be cut, in steps of which a unit has
    ``WHOLE_WEIGHT``. ``loss`` is the price that it was built for, and costs.

    Sensitivity: weights of a unit depend on its own rows alone, and sum to ``WHOLE_WEIGHT`` at
    most. So a further unit raises every tail by 0 to 1 units, and every score changes by -1 to 0.

    Guarantee: ``rate``-bounded range; hence rate**2/8-zCDP (Cesar & Rogers 2021, as in Rogers 2024,
    Theorem 5), ``rate``-DP, and the Gaussian DP of such a pick. The base measure and the target are
    public. Checked by ``tests/privacy/mechanisms/test_rows_choice.py``.
    """

    name: ClassVar[str] = "rows_choice"
    rungs: tuple[int, ...]
    rate: float
    target: int
    loss: PrivacyLoss

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute the price of the draw, rounded up; ``reach`` changes nothing."""
        if composition is Composition.BASIC:
            return rounded_up(Fraction(self.rate))
        return cost_of_pick(composition, self.rate)

    def draw(self, weights: Sequence[int], source: EntropySource) -> int:
        """Draw a number of rows, from exactly the stated distribution.

        ``weights`` are those of pairs by the number of rungs below their rows, in steps: of shape
        (rungs + 1,). Rejection, from bars of whole strips, each just above the curve of a rung.
        """
        over = list(accumulate(reversed(weights)))[-2::-1]  # of pairs with more rows than each rung
        scores = [max(0, tail - self.target) for tail in over]
        least = min(scores)
        rate = Fraction(self.rate)
        energies = [rate * Fraction(score - least, WHOLE_WEIGHT) for score in scores]
        bases = [Fraction(1, rows**_POWER) for rows in self.rungs]
        heights = [
            float(base) * math.exp(-float(energy))
            for base, energy in zip(bases, energies, strict=True)
        ]
        scale = math.ldexp(1.0, _STRIPS - math.frexp(sum(heights))[1])
        curve = [height * scale for height in heights]
        ends = list(accumulate(math.floor(top * (1 + _SLACK)) + 1 for top in curve))
        while True:
            strip = int(uniform_integers(np.array([ends[-1]]), source)[0])
            place = next(place for place, end in enumerate(ends) if strip < end)
            height = strip - (ends[place - 1] if place else 0)
            if height + 1 <= curve[place] * (1 - _SLACK):
                return self.rungs[place]
            factor = Fraction(scale) * bases[place]
            if uniform_below(factor, energies[place], height, source):
                return self.rungs[place]


def rows_choice(price: PrivacyLoss, rungs: tuple[int, ...], target: float) -> RowsChoice:
    """Build the most accurate draw of at most ``price``.

    ``target`` is a weight in units. Raises ParameterError if the price is not positive.
    """
    if price.composition is Composition.BASIC:
        checked_positive(price.epsilon, "epsilon")
        rate = price.epsilon * (1 - 1e-12)
    else:
        rho = rho_of_picks(price, 1) if price.rho else 0.0
        checked_positive(rho, "rho")
        rate = math.sqrt(8 * rho) * (1 - 1e-11)
    return RowsChoice(rungs, rate, min(round(target * WHOLE_WEIGHT), 2**62), price)

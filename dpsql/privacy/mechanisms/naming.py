"""Naming keys in rounds with memory: measurements of a round count in all later rounds.

A round weighs the keys that have no name yet, adds noise of its own and names those whose *mean*
over all rounds so far exceeds the round's threshold. In the mean a round counts in proportion to
its part of rho, which is that of its inverse variance: so a key that is weighed alike in all
rounds has as little noise in the last one as if that had had the whole budget. A first, small round
that takes large keys out of the way of the others costs the others next to nothing.

**Setting.** Fix K, how many keys of a unit are kept, and the salted order in which they are. In
round j a unit weighs the first K of its keys that have no name then, n_j in number, by 1/sqrt(n_j)
each. S_j(g) is the sum for key g, which is 0 where no unit keeps g, and Z_j(g) noise of scale
sigma_j, drawn once for each key and round. Round j has part c_j, with sigma_j**2 in proportion to
1/c_j, and W_j = sum over i <= j of c_i (S_i + Z_i), divided by C_j = sum of c_i. Key g is
*eligible* in round j if at least floor + 1 units keep it (one, without a minimum of units). It is
named, with W_j(g), iff it is eligible and W_j(g) > T_j. Names and values of the rounds before are
released, and nothing else. Neighbours are D', and D with one unit more.

**What the unit moves.** Given what was released, S_j on D and on D' differ by the unit's own
weights, of l2 norm 1 at most, over *all* keys, eligible or not. That is why weights are read of all
keys that anyone keeps, and why one that nobody keeps has noise, too: what is drawn for it, it gets
when it is first weighed.

**Keys that are eligible because of the unit.** Let F_j be the keys that are eligible in round j on
D and would not be without the unit's rows, given the same names. Names are only ever added, so what
a unit keeps and has no name yet it keeps in all later rounds: the first K of fewer keys. Therefore

* a key of F_j is kept in round j by the unit and by ``floor`` others, and in an earlier round by no
  others than these: S_i(g) is at most floor + 1/sqrt(n_i) for all i <= j;
* n_i >= n_j for i <= j, and F_j has at most n_j keys. So the mean over the rounds of what a key of
  F_j weighs is at most floor + 1/sqrt(n_j), and there are at most n_j of them.

T_j is such that of n keys of that weight none exceeds it, but for a chance of delta_j, whatever n
from 1 to K is.

**A last test.** Naming may end after a round whose names say so. What the rounds that are not held
would have had of delta is not spent then, so the keys that this round has left are compared once
more, with the same W_j and a lower threshold: one that hides F_j but for delta_j and all of theirs
(:meth:`RoundMemory.named_after_all`). Nothing is drawn, no weights are read, and rho stays.

**Guarantee.** Delta-approximate rho-zCDP as docs/mechanisms/coupling.md defines it, with rho = sum
of 1/(2 sigma_j**2) and delta = sum of delta_j, and as much in Gaussian DP, where mu**2/2 is the sum
of what the rounds' noise costs there. The companion A' is the mechanism on D'. The companion A is
the mechanism on D, except that keys of F_j are not tested in round j. An outcome is all S_j + Z_j;
names and values follow from it. (1) Given the outcomes of earlier rounds both companions test the
same keys, and their S_j differ by 1 at most in l2: rho, or mu**2/2, is the sum of the rounds', by
adaptive composition. (2) Let g be 1 where no key of F_j has W_j > T_j, for any j, and 0 elsewhere:
where it is 1, the mechanism on D did what A did. (3) The mean of 1 - g is at most sum of delta_j
under A, and under A', where keys weigh no more. For a key of F_j was not eligible on D' in any
earlier round, as what is kept only grows: neither companion has tested it, so what was released,
and with it F_j, does not depend on its noise. Whether there is a last test depends on what was
released as well. Where there is one, a key of F_j that exceeds T_j exceeds the lower threshold,
too: so one of both happens with a chance of delta_j plus that of all later rounds, and no later
round is held; where there is none, later rounds have their chances as before.

**Discrete noise.** The tail of one round is that of the noise that is drawn. For means, a discrete
Gaussian of variance sigma**2 is a continuous g of variance sigma**2 - 4, rounded at random to an
integer y with probability proportional to exp(-(y - g)**2/8), but for a factor 1 +- 2e-34: the sum
of that over all integers depends on g by a relative 2.1*exp(-8 pi**2) only (Poisson summation;
after Peikert 2010, Theorem 3.1). The rounding exceeds 60 steps with a chance below exp(-450), and
so does that of a mean, for each of its rounds. Sixty steps are a thousandth of a whole weight.

Checked by ``tests/privacy/mechanisms/test_naming.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps, gaussian
from dpsql.privacy.mechanisms.sparse_histogram import normal_sf, too_little_noise
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, Weights, fresh_threshold
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource
from dpsql.privacy.sampling.numeric import normal_quantile_sf, smallest

_SMOOTHING_VARIANCE = 4.0  # of the random rounding
_ROUNDED = 64  # steps: sixty of random rounding, and what means in floating point are off by
_NEVER = 1e-190  # above the chance that rounding exceeds that, in any round
_UP = 1 + 1e-9  # far above the error of a tail, and what smoothing leaves out

Integers64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupWeights:
    """Groups by row id with their exact weights in steps: int64 arrays of shape (groups,).

    ``enough`` tells, as a bool array of that shape, which of them have the minimum of units.
    """

    ids: Integers64
    weights: Integers64
    enough: Flags


@dataclass(frozen=True)
class MeanNoise:
    """The mean of the noise of several rounds, in steps, each counted by its part.

    Raises ParameterError for noise of 2 steps or less in one of several rounds.
    """

    parts: tuple[int, ...]
    noises: tuple[DiscreteGaussian, ...]

    def __post_init__(self) -> None:
        if len(self.noises) > 1 and min(n.sigma for n in self.noises) ** 2 <= _SMOOTHING_VARIANCE:
            raise too_little_noise()

    @cached_property
    def sigma(self) -> float:
        """The scale of the mean, rounded up."""
        scaled = [p * n.sigma for p, n in zip(self.parts, self.noises, strict=True)]
        return math.hypot(*scaled) / sum(self.parts) * (1 + 1e-14)

    @property
    def std(self) -> float:
        """The standard deviation, in steps."""
        return self.noises[0].std if len(self.noises) == 1 else self.sigma

    @property
    def rounded(self) -> int:
        """By how much its tail is bounded farther out than it is, in steps."""
        return 0 if len(self.noises) == 1 else _ROUNDED

    def sf(self, t: int) -> float:
        """Bound P[mean > t] from above: by the exact tail of one round, or smoothly of several."""
        if len(self.noises) == 1:
            return self.noises[0].sf(t)
        tail = normal_sf(np.array([(t - self.rounded) / self.sigma]))
        return min(1.0, float(tail[0]) * _UP + _NEVER)

    def quantile_sf(self, p: float) -> int:
        """Find the smallest integer t that is exceeded with probability ``p`` at most."""
        guess = round(self.sigma * normal_quantile_sf(math.log(min(p, 0.5)))) + self.rounded
        return smallest(lambda t: self.sf(t) <= p, guess)


@dataclass(frozen=True, slots=True)
class NamingRound:
    """A naming round: its noise, and the mean over rounds that decides about keys.

    ``part`` is what it counts for in the mean, ``delta`` its chance to name any of the keys that
    are eligible because of one unit, ``floor`` the minimum of units - 1.
    """

    own: IndependentNoise
    part: int
    noise: MeanNoise
    weights: Weights
    delta: float
    floor: int

    @property
    def threshold(self) -> int:
        """T: the mean weight that a key must exceed, in steps."""
        beyond = self.noise.rounded
        hiding = fresh_threshold(self.noise, self.delta, self.weights, beyond)
        return self.floor * WEIGHT_STEPS + hiding

    def rho(self, released: int | None) -> float:
        """Compute the zCDP cost of what the round draws itself."""
        return self.own.rho(1)

    def score_for_inclusion(self, probability: float) -> float:
        """Return the weight in all rounds, in steps, for this probability of being named."""
        if probability <= 0.5:
            return float(self.threshold)
        return self.threshold + self.noise.quantile_sf(1 - probability)


def naming_rounds(
    price: PrivacyLoss, parts: Sequence[int], deltas: Sequence[float], weights: Weights, floor: int
) -> tuple[NamingRound, ...]:
    """Build rounds that divide the rho of ``price`` in proportion to their ``parts``.

    Raises ParameterError if that is out of range.
    """
    prices = [replace(price, rho=price.rho * part / sum(parts)) for part in parts]
    draws = [gaussian(price, WEIGHT_STEPS, 1) for price in prices]
    noises = [draw.noise for draw in draws if isinstance(draw.noise, DiscreteGaussian)]
    return tuple(
        NamingRound(
            draws[i],
            parts[i],
            MeanNoise(tuple(parts[: i + 1]), tuple(noises[: i + 1])),
            weights,
            deltas[i],
            floor,
        )
        for i in range(len(parts))
    )


class RoundMemory:
    """The measurements of keys that have no name yet. None of them may be shown.

    Nothing of it may be shown.
    """

    def __init__(self) -> None:
        self._rounds: list[NamingRound] = []
        self._ids: Integers64 = np.zeros(0, np.int64)  # ascending
        self._sums: Steps = np.zeros(0)
        self._enough: Flags = np.zeros(0, np.bool_)

    def named(
        self, one: NamingRound, found: GroupWeights, source: EntropySource
    ) -> tuple[Integers64, Steps]:
        """Measure the keys without a name anew: row ids of those named now, and their means."""
        order = np.argsort(found.ids, kind="stable")
        ids, weights, enough = found.ids[order], found.weights[order], found.enough[order]
        sums = self._before(ids, source) + one.part * one.own.add(weights, source)
        means = sums / sum(one.noise.parts)
        named = enough & (means > one.threshold)
        self._rounds.append(one)
        self._ids, self._sums, self._enough = ids[~named], sums[~named], enough[~named]
        return ids[named], means[named]

    def named_after_all(self, last: NamingRound) -> tuple[Integers64, Steps]:
        """Test the keys left by the last round once more, with a lower threshold.

        ``last`` is that round, with what later rounds would have had of delta. Returns row ids and
        means as :meth:`named` does; nothing is drawn, and no round may follow.
        """
        means = self._sums / sum(last.noise.parts)
        named = self._enough & (means > last.threshold)
        ids, found = self._ids[named], means[named]
        self._ids, self._sums, self._enough = self._ids[:0], self._sums[:0], self._enough[:0]
        return ids, found

    def _before(self, ids: Integers64, source: EntropySource) -> Steps:
        """Sum earlier rounds' measurements of keys; of keys absent then, the noise alone."""
        places = np.searchsorted(self._ids, ids)
        places[places == len(self._ids)] = 0
        known = self._ids[places] == ids if len(self._ids) else np.zeros(len(ids), np.bool_)
        sums = np.zeros(len(ids))
        sums[known] = self._sums[places[known]]
        none = np.zeros(int(np.count_nonzero(~known)), np.int64)
        for earlier in self._rounds:
            sums[~known] += earlier.part * earlier.own.add(none, source)
        return sums

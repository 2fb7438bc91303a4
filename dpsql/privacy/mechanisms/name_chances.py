"""The best chances of being named, by how many units give a key their one vote.

Each unit votes for one key at most, and names are all that comes out. Then one unit more or less
changes one number of votes by one, and a mechanism is a list of chances: pi(n), that a key of n
votes is named, with pi(0) = 0. It is private iff the two laws of naming or not, at n and n + 1
votes, are close for every n. So pi(n + 1) is the largest chance that is close to pi(n), and no
mechanism names a key of any size more often (Desfontaines, Voss, Gipson & Mandayam 2022, Theorem 1:
larger chances at n allow larger ones at n + 1). Noise and threshold are one such list, and not the
best: they leave delta unspent beyond the first vote.

*Basic composition.* pi(n + 1) = min(1, e^eps pi(n) + delta, 1 - e^-eps (1 - pi(n) - delta)).

*zCDP and Gaussian DP.* Let p = pi(n) and a = p/(1 - delta). Where a >= 1, pi(n + 1) = 1: a key of n
votes stays unnamed with a chance of delta at most. Otherwise, with companions that name with
chances a and b, b >= a, and q = delta + (1 - delta) b,

    (1 - delta) a = p,              (1 - delta)(1 - a) = 1 - delta - p <= 1 - p,
    (1 - delta) b <= q,             (1 - delta)(1 - b) = 1 - q.

So naming with p and with q is what the companions do, with probability 1 - delta, and anything else
otherwise: delta-approximate (Bun & Steinke 2016, Definition 8.1) for whatever holds of a and b.

* Gaussian DP: b = Phi(Phi^-1(a) + mu). Two laws of two outcomes have a trade-off with one corner,
  at (a, 1 - b), which that puts on the curve of mu; curves are convex, and this one is symmetric.
* zCDP: mu of Gaussian DP implies rho = mu**2/2, and more is possible. K(s) = s D_(1+s) of one
  companion from the other is convex in s (it is a cumulant generating function), and zero at 0.
  Wanted is K(s) <= rho s(s + 1) for all s > 0. On a part of length w, K is below its chord, and the
  right side above its own less rho w**2/4: so it holds there if it does at both ends with so much
  to spare. On the first part D_(1+s) <= rho is enough, at its end, as D rises with s; beyond the
  last no loss exceeds rho(s + 1). This is checked both ways, for the b that is taken.

Chances are whole numbers of 2**-64, each found from the one before it and rounded down. A smaller
pi(n + 1), of pi(n) at least, is as close to pi(n), so each list of such steps is private, too.
Checked by ``tests/privacy/mechanisms/test_name_chances.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.sampling.entropy import EntropySource

CERTAIN = 2**64
"""The chance of 1, in parts."""
MOST_VOTES = 2**14
"""The most votes that a key may need to be certain of its name."""

_DOWN = 1 - 1e-9  # far beyond the errors of normal tails and their quantiles
_MOST_SEARCHED = 400  # chances; where there are more, those of Gaussian DP do
_FIRST_PART, _PARTS = 0.002, 1.06  # of s: the end of the first part, then each end to the next
_FARTHEST = 60.0  # in log-odds, from one chance to the next
_HALVINGS = 20
_LONGEST = 3.0  # of a step, in those of Gaussian DP: they are about 1.1


@lru_cache(maxsize=4096)
def name_chances(price: PrivacyLoss) -> tuple[int, ...]:
    """List the best chances for a price, in parts of 2**-64: of 0 votes, 1, and so on to certainty.

    Guarantee: one list entry to the next costs ``price``, both ways. Raises ParameterError where
    delta is too small to name any key, or the list would be longer than ``MOST_VOTES``.
    """
    fresh = math.floor(Fraction(price.delta) * CERTAIN)
    if fresh < 1 or not (price.rho or price.epsilon):
        raise ParameterError("delta is too small to name a key", code="bad_parameter")
    following = _step(price, fresh)
    chances = [0]
    while chances[-1] < CERTAIN:
        if len(chances) > MOST_VOTES:
            raise ParameterError(
                f"a key would need more than {MOST_VOTES} units to be named",
                code="bad_parameter",
                hint="Raise epsilon.",
            )
        chances.append(max(chances[-1], min(CERTAIN, following(chances[-1]))))
    return tuple(chances)


def _step(price: PrivacyLoss, fresh: int) -> Callable[[int], int]:
    """Return what finds the chance after another."""
    if price.composition is Composition.BASIC:
        factor = Fraction(math.exp(price.epsilon)) * (1 - Fraction(1, 2**50))
        return lambda chance: math.floor(
            min(factor * chance + fresh, CERTAIN - (CERTAIN - chance - fresh) / factor)
        )
    mu, rest = math.sqrt(2 * price.rho), CERTAIN - fresh
    expected = 2 * math.sqrt(-2 * math.log(price.delta)) / mu
    searched = price.composition is Composition.ZCDP and expected < _MOST_SEARCHED
    search = _Closeness(price.rho) if searched else None

    def following(chance: int) -> int:
        if chance == 0:
            return fresh
        if chance >= rest:
            return CERTAIN
        named, unnamed = chance / rest, (rest - chance) / rest
        other = _moved(named, unnamed, mu)
        if search is not None:
            other = max(other, search.farthest(math.log(named) - math.log(unnamed), other))
        return fresh + math.floor(rest * other)

    return following


def _moved(named: float, unnamed: float, mu: float) -> Fraction:
    """Find Phi(Phi^-1(named) + mu), rounded down; ``unnamed`` is the rest of ``named``."""
    from scipy.special import ndtr, ndtri

    if named < 0.5:
        return Fraction(float(ndtr(ndtri(named) + mu)) * _DOWN)
    return 1 - Fraction(float(ndtr(ndtri(unnamed) - mu)) * (2 - _DOWN))


class _Closeness:
    """The test of two chances for zCDP, at the ends of all parts of s."""

    def __init__(self, rho: float) -> None:
        parts = math.ceil(math.log(_FARTHEST / rho / _FIRST_PART) / math.log(_PARTS))
        self.s = _FIRST_PART * _PARTS ** np.arange(max(parts, 0) + 1)
        spare = ((_PARTS - 1) * self.s) ** 2 / 4  # of the part that begins there, the longer one
        self.allowed = rho * (self.s * (self.s + 1) - spare)
        self.allowed[0] = rho * self.s[0]

    def farthest(self, log_odds: float, gaussian: Fraction) -> Fraction:
        """Find the largest chance that is close to one of these log-odds, rounded down.

        It is looked for around the one of Gaussian DP.
        """
        if gaussian >= 1:
            return gaussian
        step = math.log(gaussian) - math.log(1 - gaussian) - log_odds
        low, high = log_odds, log_odds + min(_FARTHEST, _LONGEST * step)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._close(log_odds, middle) and self._close(middle, log_odds):
                low = middle
            else:
                high = middle
        odds = math.exp(-abs(low))
        if low < 0:
            return Fraction(odds / (1 + odds) * _DOWN)
        return 1 - Fraction(odds / (1 + odds) * (2 - _DOWN))

    def _close(self, one: float, other: float) -> bool:
        """Tell whether the first law is close to the second one, both by their log-odds."""
        named, unnamed = (-math.log1p(math.exp(-one * sign)) for sign in (1, -1))
        against = [-math.log1p(math.exp(-other * sign)) for sign in (1, -1)]
        moved = named - against[0], unnamed - against[1]
        found = np.logaddexp(named + self.s * moved[0], unnamed + self.s * moved[1])
        error = 1e-14 * (1 - (self.s + 1) * (named + unnamed + sum(against)))
        return bool(np.all(found + error <= self.allowed))


def draw_named(
    votes: NDArray[np.int64], chances: tuple[int, ...], source: EntropySource
) -> NDArray[np.intp]:
    """Draw which keys are named, by index, from votes of shape (keys,).

    Votes beyond the list are certain. Exact: a key is named iff a fresh word is below its chance.
    """
    words = source.words(len(votes))
    sure = votes >= len(chances) - 1
    below = np.array([*chances[:-1], 0], dtype=np.uint64)
    return np.flatnonzero(sure | (words < below[np.minimum(votes, len(chances) - 1)]))

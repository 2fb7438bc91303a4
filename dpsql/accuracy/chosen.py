"""Intervals of the largest noisy values of several, given that they are the largest.

ORDER BY a noisy value DESC LIMIT k shows those whose noise is large, where groups are alike. Fix
which groups are shown and the values of all others; c is the largest of these. Then the noisy value
Y = x + Z of a group that is shown is known to be at least c, and has the law of x + Z given that:
as if it had been drawn after the choice. An interval holds all x for which Y is not in a tail of
this law. Far above c nothing is left of the condition, and the interval is that of the noise alone.

Near c such an interval may be long without end. So it is given besides that abs(Z) is at most w,
where w is so large that the chosen miss it for a small part of the risk:

* w is missed with probability beta*risk*k/m by each of m groups, so of the k that are shown at most
  a share beta*risk has abs(Z) > w, on average (Benjamini & Yekutieli 2005, Theorem 1);
* of the others, a share of at most (1 - beta)*risk/(1 - beta*risk) is missed, whatever was chosen.

Both together are at most ``risk``. After Andrews, Kitagawa & McCloskey 2024, "Inference on
winners", with their hybrid for one winner carried over to k. Checked by
``tests/accuracy/test_limited_rows.py``.

Noise is on integers, and ties with c are settled by lot: which part of P[Y = c] is in the law is
not known. So each end is that of the part for which it lies further out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.sampling.noise import LatticeNoise

_BETA: Final = 0.1  # the part of the risk that is spent on noise beyond the window
_KNOTS: Final = 48  # distances from c for which ends are found; others take the next one's
_SURELY: Final = 1 - 1e-9  # relative errors of differences of tails are far below the rest

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChosenNoise:
    """The noise on the ``shown`` largest of ``among`` noisy integers, and the risk of intervals."""

    noise: LatticeNoise
    shown: int
    among: int
    risk: float

    @property
    def window(self) -> int:
        """w: how far the noise of a value that is shown may be, but for a part of the risk."""
        return self.noise.margin(1 - _BETA * self.risk * self.shown / self.among)

    @property
    def each_tail(self) -> float:
        """The probability of each tail that is cut from the law of a shown value."""
        beyond = _BETA * self.risk
        return (self.risk - beyond) / (1 - beyond) / 2

    def ends(self, above: Whole) -> tuple[Whole, Whole]:
        """Find how far intervals reach below and above values so far above c, which are shown.

        Takes and returns int64 arrays of shape (groups,). How far an interval reaches down falls
        with the distance from c, and how far it reaches up grows. It takes in the value itself,
        which where that is c it otherwise would not.
        """
        most = 2 * self.window + 1  # from here on the window has nothing to do with c
        placed = np.clip(above, 0, most)
        knots = np.unique(placed)
        if len(knots) > _KNOTS:
            knots = np.unique(np.linspace(0, most, _KNOTS).astype(np.int64))
        down = np.array([self._reach_down(int(d)) for d in knots], dtype=np.int64)
        up = np.array([self._reach_up(int(d)) for d in knots], dtype=np.int64)
        before = np.searchsorted(knots, placed, side="right") - 1
        after = np.searchsorted(knots, placed, side="left")
        return down[before], up[after]

    def _reach_down(self, above: int) -> int:
        """Find the largest e for which a value of Y - e has Y or more not too rarely.

        It is the noise e that is looked at: of those in the window that lead above c.
        """
        window = self.window

        def likely(noise: int) -> bool:
            first = max(noise - above + 1, -window)  # without a tie
            if above == 0 or first >= noise:
                return True  # it is c itself, or the least there may be
            return self._mass(noise, window) >= self.each_tail * _SURELY * self._mass(first, window)

        return _last(likely, 0, window)

    def _reach_up(self, above: int) -> int:
        """Find the largest e for which a value of Y + e has Y or less not too rarely."""
        window = self.window

        def likely(below: int) -> bool:
            first = max(-below - above, -window)  # with ties
            whole = self._mass(first, window)
            rest = whole - self._mass(-below + 1, window)
            return rest >= self.each_tail * _SURELY * whole

        return _last(likely, 0, window)

    def _mass(self, first: int, last: int) -> float:
        """Compute P[first <= Z <= last]."""
        return self.noise.sf(first - 1) - self.noise.sf(last)


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Find the last integer from ``low`` on before a monotone condition fails."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low

"""Bounds how good a top-k will be before it runs: by its parameters alone, whatever the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

BETA = 0.05  # how often a bound may fail, unless told otherwise


@dataclass(frozen=True, slots=True)
class UtilityBound:
    """How good the first k released groups are, with probability at least 1 - ``beta``.

    Both hold at once, h_(j) being the j-th largest true score: every released group has a true
    score of at least h_(k) - ``shortfall``; and if h_(k) >= base + ``gap``, k groups come out,
    where the base is the score that the threshold starts from (h_(k_bar+1), or the floor).
    In steps of the score. ``gap`` is None where k groups always come out.

    After Durfee & Rogers 2019, Lemma 8.1, which states the two separately and bounds each pick
    alone; the mechanisms say how theirs are derived. Checked by ``tests/accuracy/test_utility.py``.
    """

    beta: float
    shortfall: float
    gap: float | None


def intruder_weight(picks: int, beta: float) -> float:
    """Tell how much weight intruders may have for ``picks`` draws to avoid them, but for ``beta``.

    In an exponential mechanism peeled ``picks`` times, as many wanted outcomes weigh at least 1
    each and intruders W in all. While r wanted ones remain a draw avoids intruders with probability
    at least r/(r + W), so all do with at least the product over r = 1, ..., picks; that is at least
    exp(-W*H), H the harmonic number, hence 1 - beta for W = -ln(1 - beta)/H.
    """
    harmonic = math.log(picks) + 0.57721567 + 1 / (2 * picks)  # above the harmonic number
    return -math.log1p(-beta) / harmonic

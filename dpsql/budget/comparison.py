"""Compares the cost of an account's questions under other composition theorems.

Nothing is charged by this module, and no promise rests on it. Every question is taken as what it
is by itself, (epsilon, delta)-DP at what it reserved, as if all had been fixed beforehand; such a
question is dominated by one that fails with probability delta and else is randomized response
(Kairouz, Oh & Viswanath 2015). Every figure is rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.question import read_record
from dpsql.ledger import Entry
from dpsql.privacy.accounting.composition import optimal
from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp

MAX_COMPARED = 10_000
"""With more questions than these, no comparison is made."""

_UP = 1.0 + 2.0**-40
"""Exceeds the rounding of sums of MAX_COMPARED positive numbers."""
_GRID = 10**6
"""Epsilons are rounded up to multiples of its inverse."""
_POINTS = 200_000
"""The finest grid on which the optimal composition of unequal epsilons is computed."""
_NUMERICAL = 1.0 + 1e-8
"""Exceeds the relative error of probabilities that are products and sums of positive numbers."""
_MOST_ASIDE = 0.5
"""The most of delta that turns rho into epsilon: more than anybody has."""
_NEGLIGIBLE = 1e-20
"""Chances below this part of delta are left out, and allowed for by ``_NUMERICAL``."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis's verdict: all questions together are (``epsilon``, ``delta``)-DP.

    ``promised`` marks the one the ledger counts by.
    """

    name: str
    epsilon: float
    delta: float
    source: str
    promised: bool = False


@dataclass(frozen=True, slots=True)
class Charged:
    """The questions by themselves: how many of each epsilon, their deltas, and their zCDP.

    Each is (epsilon, delta)-DP; ``delta`` adds these up. All together are ``rho_delta``-approximate
    ``rho``-zCDP.
    """

    epsilons: Mapping[float, int]
    delta: float
    rho: float
    rho_delta: float


def charged(entries: Iterable[Entry], conversion: float) -> Charged:
    """Return the questions of ``entries``, each at its reservation.

    Rho is converted with the delta that the question set aside for it, or with ``conversion`` where
    the ledger does not say: any choice is a true statement about the question. An epsilon-DP
    question is rho-zCDP for rho = epsilon tanh(epsilon/2)
    (:func:`dpsql.privacy.accounting.composition.rho_of_pure`).
    """
    epsilons: Counter[float] = Counter()
    deltas = rho = rho_delta = 0.0
    for entry in entries:
        loss = entry.reserved.loss
        aside = sum(block.conversion_delta for block in read_record(entry.plan).blocks)
        if loss.rho == 0.0:
            aside = 0.0
        elif not 0.0 < aside < 1.0:
            aside = conversion
        epsilons[math.ceil(loss.epsilon_at(aside) * _GRID) / _GRID] += 1
        deltas += loss.delta + aside
        rho += loss.rho + loss.epsilon * math.tanh(loss.epsilon / 2.0)
        rho_delta += loss.delta
    return Charged(epsilons, deltas * _UP, rho * _UP, rho_delta * _UP)


def analyses(questions: Charged, slack: float, least: float = 0.0) -> tuple[Analysis, ...]:
    """Compare simple, advanced, optimal and zCDP composition of unequal questions, at one delta.

    It is the questions' own and ``slack``, between 0 and 1, or ``least`` if that is more. All but
    the first spend the slack, zCDP all that the questions leave. What is optimal is so for
    questions of which no more than epsilon and delta are known: zCDP knows more.
    """
    epsilons = {e: count for e, count in questions.epsilons.items() if e > 0.0}
    if not epsilons:
        return ()
    delta = max((questions.delta + slack) * _UP, least)
    kairouz = advanced_of(epsilons, slack)
    best = min(optimal_of(epsilons, slack), kairouz)
    aside = min(delta / _UP - questions.rho_delta, _MOST_ASIDE)
    canonne = epsilon_from_zcdp(questions.rho, aside)
    source = "Bun & Steinke 2016; Canonne, Kamath & Steinke 2020"
    return (
        Analysis("basic", basic_of(epsilons), delta, "Dwork et al. 2006"),
        Analysis("advanced", kairouz, delta, "Kairouz, Oh & Viswanath 2015, Theorem 3.5"),
        Analysis("optimal", best, delta, "Murtagh & Vadhan 2016, Theorem 1.5"),
        Analysis("zcdp", canonne, delta, source),
    )


def basic_of(epsilons: Mapping[float, int]) -> float:
    """Return the sum: basic composition."""
    return sum(count * epsilon for epsilon, count in epsilons.items()) * _UP


def advanced_of(epsilons: Mapping[float, int], slack: float) -> float:
    """Compute ``sum e tanh(e/2) + sqrt(2 ln(1/slack) sum e^2)``, or ``sum e`` if that is less.

    The first summand bounds the mean of the privacy loss, the second its deviation (Azuma).
    """
    mean = sum(count * e * math.tanh(e / 2.0) for e, count in epsilons.items())
    squares = sum(count * e * e for e, count in epsilons.items())
    deviation = math.sqrt(2.0 * squares * -math.log(slack))
    return min(basic_of(epsilons), (mean + deviation) * _UP)


def optimal_of(epsilons: Mapping[float, int], slack: float) -> float:
    """Find the least epsilon, at ``slack``, of fixed randomized responses with these epsilons.

    They are multiples of 10**-6 by :func:`charged`. Where a common step of theirs is too fine to
    compute with, each is rounded up to a coarser one, which only makes the result larger. With one
    epsilon alone it is :func:`dpsql.privacy.accounting.composition.optimal`. Checked by
    ``tests/privacy/accounting/test_analyses.py`` against an enumeration of all answers.
    """
    if len(epsilons) == 1:
        ((epsilon, count),) = epsilons.items()
        if epsilon <= 1000.0:
            return optimal(epsilon, count, slack)
    steps = Counter[int]()
    for epsilon, count in epsilons.items():
        steps[math.ceil(epsilon * _GRID * (1 - 2.0**-50))] += count
    coarse = math.gcd(*steps)
    while sum(count * -(-step // coarse) for step, count in steps.items()) > _POINTS:
        coarse *= 2
    chances = np.ones(1)
    for step, count in steps.items():
        chances = _composed(chances, -(-step // coarse), coarse / _GRID, count, slack)
    allowed = slack / _NUMERICAL
    return min(basic_of(epsilons), _least_epsilon(chances, coarse / _GRID, allowed))


def _composed(
    chances: NDArray[np.float64], step: int, width: float, count: int, slack: float
) -> NDArray[np.float64]:
    """Compute the chances of total losses after ``count`` more responses of ``step * width``.

    ``chances[i]`` is that of a loss of ``i`` widths, twice, below the largest.
    """
    epsilon = step * width
    away = -math.log1p(math.exp(epsilon)) if epsilon < 700.0 else -epsilon
    towards = -math.log1p(math.exp(-epsilon))
    found = np.zeros(len(chances) + step * count)
    for lost in range(count + 1):
        choose = math.lgamma(count + 1) - math.lgamma(lost + 1) - math.lgamma(count - lost + 1)
        chance = math.exp(choose + lost * away + (count - lost) * towards)
        if chance > _NEGLIGIBLE * slack:
            found[lost * step : lost * step + len(chances)] += chance * chances
    return found


def _least_epsilon(chances: NDArray[np.float64], width: float, slack: float) -> float:
    """Find the least E >= 0 whose delta(E) fits.

    delta(E) is the sum over losses s > E of P(s) (1 - exp(E - s)).
    """
    largest = (len(chances) - 1) * width
    losses = largest - 2.0 * width * np.arange(len(chances))
    positive = losses > 0.0
    losses, chances = losses[positive], chances[positive] * _NUMERICAL
    # Between two losses, delta is mass - exp(E) * weight over the losses above.
    mass = np.cumsum(chances)
    with np.errstate(divide="ignore"):
        log_weight = np.logaddexp.accumulate(np.log(chances) - losses)
    above = mass > slack
    steepest = np.log(mass[above] - slack) - log_weight[above]
    return float(steepest.max(initial=0.0)) + (_NUMERICAL - 1.0)


def counted(spent: PrivacyLoss, delta: float) -> Analysis:
    """Return the ledger's own figure: the sum of its charges, after refunds."""
    if spent.rho > 0.0:
        theorem = "Gaussian DP" if spent.gaussian else "zCDP"
        epsilon = spent.epsilon_at(min(delta / _UP - spent.delta, _MOST_ASIDE))
        return Analysis("ledger", epsilon, delta, f"{theorem} of what was charged", promised=True)
    return Analysis("ledger", spent.epsilon, delta, "sum of what was charged", promised=True)

"""The chances of being named keep their price from one number of votes to the next, and nearly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.laws import SeededSource
from numpy.typing import NDArray
from scipy import special

from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.name_chances import CERTAIN, draw_named, name_chances
from dpsql.privacy.mechanisms.set_union import Weighting, set_union_for

BASIC = [(0.1, 1e-6), (0.3, 1e-9), (1.0, 1e-5), (1.0, 1e-17), (3.0, math.exp(-10)), (20.0, 0.1)]
RHOS = [(0.0284, 5e-6), (0.2, 1e-12), (0.5, 0.05), (4.0, 1e-9)]


def steps(chances: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(chances))


# -- basic composition: exactly -------------------------------------------------------------------


def exponential_below(epsilon: float) -> Fraction:
    """e^epsilon from below: a partial sum of the series, of which all terms are positive."""
    term = total = Fraction(1)
    for k in range(1, 150):
        term = Fraction(math.floor(term * Fraction(epsilon) / k * 2**120), 2**120)
        total += term
    return total


def keeps_basic(chances: Sequence[int], epsilon: float, delta: float) -> bool:
    factor, fresh = exponential_below(epsilon), Fraction(delta) * CERTAIN
    return all(
        q <= factor * p + fresh and CERTAIN - p <= factor * (CERTAIN - q) + fresh
        for p, q in steps(chances)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), BASIC)
def test_chances_of_one_publication_keep_epsilon_and_delta_and_none_could_be_higher(
    epsilon: float, delta: float
) -> None:
    chances = name_chances(PrivacyLoss(0.0, delta, epsilon))
    assert chances[0] == 0
    assert chances[-1] == CERTAIN > chances[-2]
    assert keeps_basic(chances, epsilon, delta)
    for n, chance in enumerate(chances[1:-1], 1):
        higher = [*chances[:n], chance + max(2, chance // 10**9), CERTAIN]
        assert not keeps_basic(higher[: n + 1], epsilon, delta)


def test_the_median_is_where_the_closed_form_has_it() -> None:
    """Desfontaines et al. 2022: delta (e^(n epsilon) - 1)/(e^epsilon - 1), up to about half."""
    chances = name_chances(PrivacyLoss(0.0, 1e-5, 1.0))
    for n in range(1, 12):
        closed = 1e-5 * math.expm1(n) / math.expm1(1)
        assert chances[n] / CERTAIN == pytest.approx(closed, rel=1e-9)


# -- zCDP and Gaussian DP: by the companions ------------------------------------------------------


@dataclass(frozen=True)
class Companion:
    """A law of two outcomes, with both logarithms."""

    named: float
    unnamed: float


def companions(p: int, q: int, fresh: int) -> tuple[Companion, Companion]:
    """Of naming with chances p and q, each what it does with probability 1 - delta."""
    rest = CERTAIN - fresh
    one = Companion(_log(Fraction(p, rest)), _log(Fraction(rest - p, rest)))
    other = Companion(_log(Fraction(q - fresh, rest)), _log(Fraction(CERTAIN - q, rest)))
    return one, other


def _log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator) if x > 0 else -math.inf


def of_votes(chances: Sequence[int], fresh: int) -> list[tuple[Companion, Companion]]:
    """The pairs with something to compare: the others are at 0 or at certainty, as delta allows."""
    assert chances[1] <= fresh
    assert chances[-2] >= CERTAIN - fresh
    return [companions(p, q, fresh) for p, q in steps(chances[1:-1])]


ORDERS: NDArray[np.float64] = 1 + np.concatenate(
    (np.geomspace(1e-3, 1, 100), np.geomspace(1, 3e4, 1500))
)


def loss_beyond(one: Companion, other: Companion, rho: float) -> float:
    """The most by which a Rényi divergence exceeds its allowance, as a share of that."""
    found = np.logaddexp(
        ORDERS * one.named + (1 - ORDERS) * other.named,
        ORDERS * one.unnamed + (1 - ORDERS) * other.unnamed,
    )
    return float(np.max(found / (ORDERS - 1) / (ORDERS * rho))) - 1


def moved(law: Companion, by: float) -> Companion:
    """With log-odds that are higher by so much."""
    odds = law.named - law.unnamed + by
    return Companion(-math.log1p(math.exp(-odds)), -math.log1p(math.exp(odds)))


@pytest.mark.parametrize(("rho", "delta"), RHOS)
def test_chances_under_zcdp_keep_rho_in_every_order_both_ways(rho: float, delta: float) -> None:
    fresh = math.floor(Fraction(delta) * CERTAIN)
    pairs = of_votes(name_chances(PrivacyLoss(rho, delta)), fresh)
    assert pairs
    for one, other in pairs:
        assert loss_beyond(one, other, rho) <= 1e-7
        assert loss_beyond(other, one, rho) <= 1e-7
        # Two percent of a step further, and it is noticed: little is given away.
        further = moved(other, 0.02 * (other.named - other.unnamed - one.named + one.unnamed))
        assert max(loss_beyond(one, further, rho), loss_beyond(further, one, rho)) > 1e-7


@pytest.mark.parametrize(("rho", "delta"), RHOS)
def test_chances_in_gaussian_dp_are_a_step_of_mu_apart(rho: float, delta: float) -> None:
    mu, fresh = math.sqrt(2 * rho), math.floor(Fraction(delta) * CERTAIN)
    for one, other in of_votes(name_chances(PrivacyLoss(rho, delta, gaussian=True)), fresh):
        # The corner of the trade-off is on the curve: by whichever side is exact.
        if one.named < one.unnamed:
            apart = _normal_score(other) - float(special.ndtri_exp(one.named))
        else:
            apart = _normal_score(other) + float(special.ndtri_exp(one.unnamed))
        assert mu * (1 - 1e-4) < apart <= mu * (1 + 1e-12)
        for epsilon in (0.0, 0.1, 1.0, 3.0):
            further = max(0.0, math.exp(other.named) - math.exp(epsilon + one.named))
            assert further <= gaussian_delta(epsilon, mu) * (1 + 1e-9)


def _normal_score(law: Companion) -> float:
    if law.named < law.unnamed:
        return float(special.ndtri_exp(law.named))
    return -float(special.ndtri_exp(law.unnamed))


def median(chances: Sequence[int]) -> int:
    return next(n for n, chance in enumerate(chances) if 2 * chance >= CERTAIN)


def test_keys_need_fewer_votes_than_under_noise_and_a_threshold() -> None:
    """A tenth less of both kinds of noise at (1, 1e-5), and of Gaussian noise under zCDP."""
    laplace = set_union_for(Weighting.COUNT, 1, PrivacyLoss(0.0, 1e-5, 1.0), groups=1)
    rho = rho_from_epsilon(1.0, 5e-6)
    gaussian = set_union_for(Weighting.COUNT, 2, PrivacyLoss(rho, 5e-6), groups=1)
    assert gaussian.threshold / 2**26 == pytest.approx(19.54, abs=0.01)
    assert laplace.threshold / 2**26 == pytest.approx(11.82, abs=0.01)
    assert median(name_chances(PrivacyLoss(0.0, 1e-5, 1.0))) == 12
    assert median(name_chances(PrivacyLoss(rho, 5e-6))) == 17
    for n, chance in enumerate(name_chances(PrivacyLoss(rho, 5e-6))[1:], 1):
        named = gaussian.noise.sf(gaussian.threshold - n * 2**26)
        assert chance >= named * CERTAIN * (1 - 1e-6)


# -- drawing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """An entropy source that gives one word again and again."""

    word: int

    def words(self, n: int) -> NDArray[np.uint64]:
        return np.full(n, self.word, dtype=np.uint64)


def test_a_key_is_named_by_exactly_as_many_words_as_its_chance_has_parts() -> None:
    chances = name_chances(PrivacyLoss(0.0, 1e-5, 1.0))
    votes = np.arange(len(chances) + 3)
    assert draw_named(votes, chances, Given(0)).tolist() == votes[1:].tolist()
    assert draw_named(votes, chances, Given(CERTAIN - 1)).tolist() == votes[-4:].tolist()
    for n, chance in enumerate(chances[1:-1], 1):
        assert n in draw_named(votes, chances, Given(chance - 1))
        assert n not in draw_named(votes, chances, Given(chance))


def test_keys_are_drawn_on_their_own() -> None:
    chances = name_chances(PrivacyLoss(0.0, 1e-2, 1.0))
    n, votes = 200_000, 4
    named = draw_named(np.full(n, votes), chances, SeededSource(5))
    assert len(named) / n == pytest.approx(chances[votes] / CERTAIN, abs=6 / math.sqrt(n) / 2)
    halves = np.count_nonzero(named % 2), np.count_nonzero(named % 2 == 0)
    assert halves[0] == pytest.approx(halves[1], abs=6 * math.sqrt(len(named)))


@pytest.mark.slow
def test_a_delta_below_a_part_and_lists_without_end_are_refused() -> None:
    for price in (PrivacyLoss(0.0, 1e-20, 1.0), PrivacyLoss(1.0, 0.0), PrivacyLoss(0.0, 1e-6)):
        with fails_with("bad_parameter"):
            name_chances(price)
    for price in (PrivacyLoss(0.0, 1e-6, 1e-5), PrivacyLoss(1e-10, 1e-6)):
        with fails_with("bad_parameter"):
            name_chances(price)

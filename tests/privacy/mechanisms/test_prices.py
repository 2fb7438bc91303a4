"""What mechanisms cost in Gaussian DP, against exact divergences of the laws that are drawn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import DELTA_UNIT, Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import (
    CorrelatedGaussian,
    IndependentNoise,
)
from dpsql.privacy.mechanisms.price import SMOOTHING_DELTA
from dpsql.privacy.mechanisms.registry import GUMBEL_TOP_K, Sizes
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

Law = NDArray[np.float64]
EPSILONS = tuple(np.linspace(0.0, 6.0, 61))


def exceeds(one: Law, other: Law, rho: float, error: float = 1e-11) -> bool:
    """True if two laws are easier to tell apart than the Gaussians of mu**2/2 = rho."""
    mu = math.sqrt(2 * rho)
    for epsilon in EPSILONS:
        factor = math.exp(epsilon)
        found = max(
            np.maximum(one - factor * other, 0.0).sum(), np.maximum(other - factor * one, 0).sum()
        )
        if found > gaussian_delta(float(epsilon), mu) + error:
            return True
    return False


def summed_laws(sigma: float, shift: int, count: int) -> tuple[Law, Law]:
    """The laws of the sum of ``count`` discrete Gaussians, each moved by ``shift`` or not.

    The loss of the whole vector is a function of the sum, so these are as hard to tell apart.
    """
    reach = math.ceil(12 * sigma)
    one = np.ones(1)
    alone = DiscreteGaussian(sigma).pmf(np.arange(-reach, reach + 1))
    for _ in range(count):
        one = np.convolve(one, alone)
    pad = np.zeros(shift * count)
    return np.concatenate([one, pad]), np.concatenate([pad, one])


@pytest.mark.parametrize("sigma", [2.05, 2.3, 3.0, 5.0, 20.0, 60.0])
@pytest.mark.parametrize(("shift", "count"), [(1, 1), (1, 3), (2, 2), (7, 1)])
def test_discrete_gaussians_are_no_easier_to_tell_apart_than_what_is_charged(
    sigma: float, shift: int, count: int
) -> None:
    noise = IndependentNoise(DiscreteGaussian(sigma), shift)
    rho = noise.cost(Composition.GDP, count)
    exact = Fraction(count * shift**2) / (2 * (Fraction(sigma) ** 2 - 4))
    assert exact <= Fraction(rho) <= exact * (1 + Fraction(1, 10**12))
    laws = summed_laws(sigma, shift, count)
    assert not exceeds(*laws, rho)
    if sigma >= 20:  # where little is lost to the lattice
        assert exceeds(*laws, 0.95 * rho)


def test_too_little_noise_has_no_cost() -> None:
    for sigma in (0.5, 1.9, 2.0):
        assert IndependentNoise(DiscreteGaussian(sigma), 1).cost(Composition.GDP, 1) == math.inf
    assert CorrelatedGaussian(1.01, 1).cost(Composition.GDP, 10) == math.inf
    assert IndependentNoise(DiscreteGaussian(0.5), 1).cost(Composition.GDP, 0) == 0.0


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_laplace_noise_is_no_easier_to_tell_apart_than_what_is_charged(
    scale: float, shift: int
) -> None:
    reach = math.ceil(40 * scale) + 40
    alone = DiscreteLaplace(scale).pmf(np.arange(-reach, reach + 1))
    pad = np.zeros(shift)
    one, other = np.concatenate([alone, pad]), np.concatenate([pad, alone])
    rho = IndependentNoise(DiscreteLaplace(scale), shift).cost(Composition.GDP, 1)
    assert not exceeds(one, other, rho)
    if scale <= 1:  # with less noise it is nearly randomized response
        assert exceeds(one, other, 0.5 * rho)


def pick_laws(scores: tuple[int, ...], epsilon: float, picks: int) -> dict[tuple[int, ...], float]:
    """The law of picks without replacement with weights exp(epsilon * score)."""
    found = {}
    for order in itertools.permutations(range(len(scores)), picks):
        chance, left = 1.0, set(range(len(scores)))
        for chosen in order:
            weights = {i: math.exp(epsilon * scores[i]) for i in left}
            chance *= weights[chosen] / sum(weights.values())
            left.remove(chosen)
        found[order] = chance
    return found


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
@pytest.mark.parametrize("picks", [1, 2, 3])
def test_picks_are_no_easier_to_tell_apart_than_what_is_charged(epsilon: float, picks: int) -> None:
    selection = GUMBEL_TOP_K.within(
        Sizes(k=picks, k_bar=10), PrivacyLoss(zcdp_price(epsilon, picks), 1e-6, gaussian=True)
    )
    assert selection is not None
    rho = selection.cost(Composition.GDP, None)
    assert isinstance(selection, GumbelTopK)
    drawn = selection.epsilon
    tightest = False
    for scores in ((0, 0, 0, 0), (3, 1, 0, 0), (1, 0, 0, 2)):
        for raised in itertools.product((0, 1), repeat=4):
            more = tuple(map(sum, zip(scores, raised, strict=True)))
            here, there = pick_laws(scores, drawn, picks), pick_laws(more, drawn, picks)
            one, other = np.array([*here.values()]), np.array([*there.values()])
            assert not exceeds(one, other, rho)
            tightest |= exceeds(one, other, 0.3 * rho)
    assert tightest, "the bound has something to say"


def zcdp_price(epsilon: float, picks: int) -> float:
    """A cost that leaves each pick about this epsilon."""
    return picks * epsilon**2 / 8 * 1.57


def test_picks_that_were_not_made_are_not_charged() -> None:
    selection = GUMBEL_TOP_K.within(Sizes(k=10, k_bar=100), PrivacyLoss(0.02, 1e-6, gaussian=True))
    assert selection is not None
    assert selection.cost(Composition.GDP, None) <= 0.02
    one = selection.cost(Composition.GDP, 0)
    assert selection.cost(Composition.GDP, 3) == pytest.approx(4 * one, rel=1e-12)
    assert selection.cost(Composition.GDP, 10) == pytest.approx(10 * one, rel=1e-12)


def test_the_lattice_is_paid_for_with_one_unit_of_delta() -> None:
    """The sums of exp(-(y - g)**2 / 8) differ by no more than a few exp(-8 pi**2), in relation."""
    assert SMOOTHING_DELTA == DELTA_UNIT
    factor = 3 * 2.1 * math.exp(-8 * math.pi**2)
    assert 2 * factor * 1e14 <= SMOOTHING_DELTA
    grid = np.arange(-60, 61)
    sums = [float(np.exp(-((grid - g) ** 2) / 8).sum()) for g in np.linspace(0, 1, 17)]
    assert max(sums) / min(sums) - 1 < 1e-14

"""What mechanisms cost in Gaussian DP, against exact divergences of the laws that are drawn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import DELTA_UNIT
from dpsql.privacy.mechanisms.additive import (
    CorrelatedGaussian,
    IndependentNoise,
    one_shot_correlated_gaussian,
    one_shot_gaussian,
)
from dpsql.privacy.mechanisms.gaussian_cost import (
    SMOOTHING_DELTA,
    gaussian_price_of_noise,
    gaussian_price_of_quantile,
    gaussian_price_of_selection,
    laplace_for_gaussian_rho,
    quantile_for_gaussian_rho,
    zcdp_of_picks,
)
from dpsql.privacy.mechanisms.registry import ENTRIES, GUMBEL_TOP_K, MechanismEntry, Sizes
from dpsql.privacy.mechanisms.selection import Selection
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
    rho = gaussian_price_of_noise(noise, count)
    exact = Fraction(count * shift**2) / (2 * (Fraction(sigma) ** 2 - 4))
    assert exact <= Fraction(rho) <= exact * (1 + Fraction(1, 10**12))
    laws = summed_laws(sigma, shift, count)
    assert not exceeds(*laws, rho)
    if sigma >= 20:  # where little is lost to the lattice
        assert exceeds(*laws, 0.95 * rho)


def test_too_little_noise_has_no_cost() -> None:
    for sigma in (0.5, 1.9, 2.0):
        assert gaussian_price_of_noise(IndependentNoise(DiscreteGaussian(sigma), 1), 1) == math.inf
    assert gaussian_price_of_noise(CorrelatedGaussian(1.01, 1), 10) == math.inf
    assert gaussian_price_of_noise(IndependentNoise(DiscreteGaussian(0.5), 1), 0) == 0.0


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_laplace_noise_is_no_easier_to_tell_apart_than_what_is_charged(
    scale: float, shift: int
) -> None:
    reach = math.ceil(40 * scale) + 40
    alone = DiscreteLaplace(scale).pmf(np.arange(-reach, reach + 1))
    pad = np.zeros(shift)
    one, other = np.concatenate([alone, pad]), np.concatenate([pad, alone])
    rho = gaussian_price_of_noise(IndependentNoise(DiscreteLaplace(scale), shift), 1)
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
    selection = GUMBEL_TOP_K.within_gaussian_rho(
        Sizes(k=picks, k_bar=10), zcdp_price(epsilon, picks), 1e-6
    )
    assert selection is not None
    rho = gaussian_price_of_selection(selection, None)
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
    selection = GUMBEL_TOP_K.within_gaussian_rho(Sizes(k=10, k_bar=100), 0.02, 1e-6)
    assert selection is not None
    assert gaussian_price_of_selection(selection, None) <= 0.02
    one = gaussian_price_of_selection(selection, 0)
    assert gaussian_price_of_selection(selection, 3) == pytest.approx(4 * one, rel=1e-12)
    assert gaussian_price_of_selection(selection, 10) == pytest.approx(10 * one, rel=1e-12)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.05, 1.0])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_is_built_for_a_cost_costs_that_and_little_less(
    entry: MechanismEntry[Selection], rho: float
) -> None:
    sizes = Sizes(k=5, groups=3, k_bar=20, sensitivity=2, domain=9)
    if entry.gaussian is None:
        assert entry.name in {
            *("gaussian_sparse_histogram", "weighted_gaussian_sparse_histogram", "cascade"),
            *("correlated_top_k", "laplace_top_k", "fixed_threshold", "count_laplace_set_union"),
        } or entry.name.startswith("rounds"), entry.name
        with pytest.raises(ParameterError, match="not proved"):
            entry.within_gaussian_rho(sizes, rho, 1e-6)
        return
    built = entry.within_gaussian_rho(sizes, rho, 1e-6)
    if built is None or entry.name == "known_domain":
        return
    price = gaussian_price_of_selection(built, None)
    assert price <= rho
    assert price >= rho * (1 - 1e-6)


def test_what_is_not_listed_costs_infinitely_much() -> None:
    sizes = Sizes(k=5, groups=3, k_bar=20)
    for entry in ENTRIES:
        if entry.gaussian is None and entry.composed is not None:
            built = entry.within_rho(sizes, 0.01, 1e-6)
            assert built is not None
            assert gaussian_price_of_selection(built, None) == math.inf


@pytest.mark.parametrize("groups", [1, 2, 30])
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5])
def test_noise_built_for_a_cost_costs_no_more(groups: int, rho: float) -> None:
    for noise in (
        one_shot_gaussian(2 * rho, 3, groups),
        one_shot_correlated_gaussian(2 * rho * (1 - 1e-12), 3, groups),
        laplace_for_gaussian_rho(rho, 3, groups),
    ):
        price = gaussian_price_of_noise(noise, groups)
        assert rho * (1 - 1e-6) <= price <= rho
        less = gaussian_price_of_noise(noise, max(1, groups // 2))
        assert less <= price
    quantile = quantile_for_gaussian_rho(rho, Fraction(1, 2), rows=2, groups=groups, size=100)
    assert rho * (1 - 1e-6) <= gaussian_price_of_quantile(quantile, groups) <= rho
    assert zcdp_of_picks(rho, groups) < rho


def test_the_lattice_is_paid_for_with_one_unit_of_delta() -> None:
    """The sums of exp(-(y - g)**2 / 8) differ by no more than a few exp(-8 pi**2), in relation."""
    assert SMOOTHING_DELTA == DELTA_UNIT
    factor = 3 * 2.1 * math.exp(-8 * math.pi**2)
    assert 2 * factor * 1e14 <= SMOOTHING_DELTA
    grid = np.arange(-60, 61)
    sums = [float(np.exp(-((grid - g) ** 2) / 8).sum()) for g in np.linspace(0, 1, 17)]
    assert max(sums) / min(sums) - 1 < 1e-14

"""Sums of the values of one release: margins by enumeration of the exact laws, and wrong ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.mechanisms.pooling import PublishedNoise
from dpsql.privacy.mechanisms.summation import (
    _chernoff,
    _continuous,
    _draws,
    summed_margin,
    summed_std,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

Law = NDArray[np.float64]


def pmf(law: DiscreteGaussian | DiscreteLaplace) -> Law:
    """A law on the integers around 0, up to where 1e-25 of it is left."""
    gaussian = isinstance(law, DiscreteGaussian)
    reach = math.ceil(law.spread * (11 if gaussian else 58)) + 2
    points = np.arange(-reach, reach + 1)
    energy = (points / law.spread) ** 2 / 2 if gaussian else np.abs(points) / law.spread
    masses = np.exp(-energy)
    found: Law = masses / masses.sum()
    return found


def spread_out(law: Law, factor: int) -> Law:
    """The law of a multiple."""
    wide = np.zeros((len(law) // 2) * 2 * factor + 1)
    wide[::factor] = law
    return wide


def exact(noise: PublishedNoise, count: int) -> tuple[Law, float]:
    """The law of the sum by plain convolution, in units of this many steps."""
    if isinstance(noise.noise, IndependentNoise):
        laws, unit = [pmf(noise.noise.noise)] * count, 1.0
    else:
        (unit, own), (_, shared) = noise.parts
        laws = [pmf(own)] * count + [spread_out(pmf(shared), count)]
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    return total, unit


def outside(noise: PublishedNoise, count: int, margin: float) -> float:
    """The probability that the sum is further off."""
    law, unit = exact(noise, count)
    places = np.abs(np.arange(len(law)) - len(law) // 2) * unit
    return float(law[places > margin + 1e-9].sum())


def gaussian(sigma: float, groups: int = 1) -> PublishedNoise:
    return PublishedNoise(IndependentNoise(DiscreteGaussian(sigma), 1), groups)


def laplace(scale: float) -> PublishedNoise:
    return PublishedNoise(IndependentNoise(DiscreteLaplace(scale), 1), 1)


def correlated(sigma: float, groups: int) -> PublishedNoise:
    return PublishedNoise(CorrelatedGaussian(sigma, 1), groups)


NOISES = [
    gaussian(0.3),
    gaussian(0.99),
    gaussian(1.0),
    gaussian(2.7),
    gaussian(31.4),
    laplace(0.2),
    laplace(1.5),
    laplace(9.0),
    correlated(0.6, 16),
    correlated(1.0, 2),
    correlated(4.0, 81),
    PublishedNoise(EllipticGaussian(2.5, 0.9, 4, 1, 12), 3),
    PublishedNoise(EllipticGaussian(0.8, 1.2, 2, 1, 30), 2),
]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [1, 2, 3, 12])
@pytest.mark.parametrize("risk", [0.4, 0.05, 1e-4])
def test_margins_hold_and_none_that_is_much_smaller_does(
    noise: PublishedNoise, count: int, risk: float
) -> None:
    margin = summed_margin(noise, count, risk)
    assert outside(noise, count, margin) <= risk
    _, unit = _draws(noise, count)
    if margin >= unit and count > 1:
        assert outside(noise, count, margin - unit) > risk * 0.998 - 1e-8


@pytest.mark.parametrize("noise", [NOISES[1], NOISES[4], NOISES[6], NOISES[10]])
@pytest.mark.parametrize("risk", [0.2, 1e-3])
def test_bounds_for_what_is_too_large_to_be_wound_hold_too(
    noise: PublishedNoise, risk: float
) -> None:
    draws, unit = _draws(noise, 7)
    assert outside(noise, 7, unit * _chernoff(draws, risk)) <= risk
    assert outside(noise, 7, unit * _continuous(draws, risk)) <= risk


def test_the_deviation_is_that_of_the_law() -> None:
    for noise in NOISES:
        for count in (1, 5):
            law, unit = exact(noise, count)
            places = (np.arange(len(law)) - len(law) // 2) * unit
            deviation = math.sqrt(float((law * places**2).sum()))
            assert summed_std(noise, count) == pytest.approx(deviation, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("count", [9, 27])
def test_margins_that_take_shared_noise_for_independent_are_caught(count: int) -> None:
    noise = correlated(4.0, 16)
    as_if = math.sqrt(count) * noise.noise.margin(0.95, noise.groups)
    assert outside(noise, count, as_if) > 0.07
    assert outside(noise, count, summed_margin(noise, count, 0.05)) <= 0.05


def test_margins_of_wrong_variance_are_caught() -> None:
    for noise in (gaussian(31.4), laplace(9.0)):
        assert outside(noise, 12, summed_margin(noise, 11, 0.05)) > 0.051
        assert outside(noise, 12, noise.noise.margin(0.95, 1)) > 0.4


def test_margins_grow_with_the_risk_and_the_number_whatever_the_size() -> None:
    for noise in (gaussian(3.0), gaussian(1e7), laplace(1e6), correlated(2e5, 400)):
        for low, high in ((0.05, 0.2), (1e-9, 1e-6)):
            assert summed_margin(noise, 50, low) > summed_margin(noise, 50, high)
        margins = [summed_margin(noise, count, 0.05) for count in (1, 2, 10, 1000)]
        assert margins == sorted(margins)
        factor = margins[-1] / summed_std(noise, 1000)
        assert 1.95 < factor < 2.8

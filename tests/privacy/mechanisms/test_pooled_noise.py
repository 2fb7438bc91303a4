"""Noisy values put together: the bound on their error holds, by the exact laws of the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.mechanisms.pooling import (
    PublishedNoise,
    pooled_margin,
    pooled_std,
    pooling_weights,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace


def gaussian(sigma: float) -> PublishedNoise:
    return PublishedNoise(IndependentNoise(DiscreteGaussian(sigma), 1), 1)


def laplace(scale: float) -> PublishedNoise:
    return PublishedNoise(IndependentNoise(DiscreteLaplace(scale), 1), 1)


def shared(sigma: float, groups: int) -> PublishedNoise:
    return PublishedNoise(CorrelatedGaussian(sigma, 1), groups)


def elliptic(sigma: float, fineness: int) -> PublishedNoise:
    return PublishedNoise(EllipticGaussian(sigma, 0.4 * sigma, fineness, 1, 9), 4)


def law(noise: PublishedNoise, reach: int = 600) -> tuple[Any, Any]:
    """The values of noise in steps and their probabilities, from its definition."""
    points = np.arange(-reach, reach + 1)
    if isinstance(noise.noise, CorrelatedGaussian):
        own = np.exp(-(points**2) / (8 * noise.noise.sigma**2))
        common = np.exp(-(points**2) * math.sqrt(noise.groups) / (8 * noise.noise.sigma**2))
        both = np.convolve(own / own.sum(), common / common.sum())
        return np.arange(-2 * reach, 2 * reach + 1) / 2, both
    if isinstance(noise.noise, EllipticGaussian):
        own, common = (np.exp(-(points**2) / (2 * p.sigma**2)) for p in noise.noise.parts)
        both = np.convolve(own / own.sum(), common / common.sum())
        return np.arange(-2 * reach, 2 * reach + 1) / noise.noise.fineness, both
    if isinstance(noise.noise.noise, DiscreteGaussian):
        masses = np.exp(-(points**2) / (2 * noise.noise.scale**2))
    else:
        masses = np.exp(-np.abs(points) / noise.noise.scale)
    return points.astype(float), masses / masses.sum()


def exact_risk(noises: Sequence[PublishedNoise], margin: float) -> float:
    """The chance that the weighted mean of two or three noises is off by more, by enumeration."""
    weights = pooling_weights(noises)
    values, masses = np.zeros(1), np.ones(1)
    for weight, noise in zip(weights[:-1], noises[:-1], strict=True):
        points, chances = law(noise, 150)
        kept = chances > 1e-12
        values = np.add.outer(values, weight * points[kept]).ravel()
        masses = np.multiply.outer(masses, chances[kept]).ravel()
    points, chances = law(noises[-1], 600)
    order = np.concatenate([[0.0], np.cumsum(chances)])
    last = weights[-1] * points
    within = (
        order[np.searchsorted(last, margin - values, side="right")]
        - order[np.searchsorted(last, -margin - values, side="left")]
    )
    return float(1 - (masses * within).sum())


MIXED = [
    (gaussian(6), gaussian(6)),
    (gaussian(2), gaussian(20)),
    (gaussian(5), laplace(4)),
    (laplace(3), laplace(3)),
    (laplace(1), laplace(9)),
    (laplace(2), gaussian(3), laplace(5)),
    (shared(4, 9), gaussian(7)),
    (shared(3, 4), shared(6, 4)),
    (elliptic(2, 16), gaussian(7)),
    (elliptic(1.5, 8), elliptic(4, 4)),
    (gaussian(0.6), laplace(0.4)),
]


@pytest.mark.parametrize("noises", MIXED)
@pytest.mark.parametrize("risk", [0.5, 0.1, 0.05, 0.001])
def test_the_mean_is_within_its_margin(noises: tuple[PublishedNoise, ...], risk: float) -> None:
    assert exact_risk(noises, pooled_margin(noises, risk)) <= risk * (1 + 1e-9)


@pytest.mark.parametrize("noises", MIXED[:-1])
def test_the_margin_is_near_the_smallest(noises: tuple[PublishedNoise, ...]) -> None:
    """Two steps less would not do: one is the lattice's, one that of the mean's own jumps."""
    assert exact_risk(noises, pooled_margin(noises, 0.05) - 2.2) > 0.05


def test_margins_from_wrong_variances_do_not_hold() -> None:
    """A twin that takes all noises for as small as the smallest is caught by the same figures."""
    honest, twin = (gaussian(4), gaussian(8), laplace(6)), (gaussian(4), gaussian(4), gaussian(4))
    assert exact_risk(honest, pooled_margin(twin, 0.05)) > 0.08


def test_a_mean_with_equal_weights_is_caught() -> None:
    """A twin that averages without weights has more error than the margin of the weighted mean."""
    noises = (gaussian(3), gaussian(30))
    error = math.sqrt(3**2 + 30**2) / 2
    assert pooled_margin(noises, 0.05) < error
    assert pooled_std(noises) == pytest.approx(1 / math.sqrt(1 / 9 + 1 / 900), rel=1e-6)


@pytest.mark.parametrize("spread", [0.3, 0.5, 1.0, 2.5, 7.0, 40.0])
def test_lattice_noise_follows_continuous_noise_within_a_step(spread: float) -> None:
    points = np.arange(1, 400)
    for noise in (gaussian(spread), laplace(spread)):
        values, masses = law(noise, 4000)
        beyond = np.array([masses[np.abs(values) >= k].sum() for k in points[:200]])
        if noise.laplace_scale:
            tail = np.exp(-np.arange(0, 400) / spread)
        else:
            tail = np.array([math.erfc(x / spread / math.sqrt(2)) for x in range(400)])
        assert (beyond <= tail[:200] + 1e-12).all()
        assert (beyond >= tail[2:202] - 1e-12).all()


@pytest.mark.parametrize("noise", [gaussian(5), laplace(5), shared(5, 9)])
def test_one_release_has_its_own_margin(noise: PublishedNoise) -> None:
    assert pooled_margin([noise], 0.05) == noise.noise.margin(0.95, noise.groups)


@pytest.mark.parametrize("kind", [gaussian, laplace])
@pytest.mark.parametrize("risk", [0.05, 1e-9, 1e-18])
def test_more_releases_are_nearer(kind: object, risk: float) -> None:
    margins = [pooled_margin([kind(50.0)] * m, risk) for m in (2, 4, 8, 16, 32)]  # type: ignore[operator]
    assert margins == sorted(margins, reverse=True)


def test_half_the_price_twice_is_nearly_the_whole() -> None:
    """Under zCDP: rho twice is 2 rho, and two Gaussians of rho each have the variance of 2 rho."""
    assert pooled_std([gaussian(100.0)] * 2) == pytest.approx(100 / math.sqrt(2), rel=1e-9)
    assert pooled_margin([gaussian(100.0)] * 2, 0.05) == pytest.approx(138.6, abs=1.1)


def test_weights_have_sum_one_and_favour_the_exact() -> None:
    first, second, third = pooling_weights([gaussian(2.0), gaussian(4.0), laplace(50.0)])
    assert first + second + third == pytest.approx(1)
    assert first / second == pytest.approx(4, rel=1e-6)
    assert third < 0.001

"""What discrete Gaussian noise costs beside continuous noise: exactly, and the proof in parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, special, stats

from dpsql.privacy.mechanisms.calibration import (
    LATTICE_VARIANCE,
    LEAST_SIGMA,
    lattice_gaussian_delta,
    lattice_sigma,
    smooth_sigma,
)

SIGMAS = (1.0, 1.01, 1.1, 1.3, 1.7, 2.0, 2.05, 2.7, 3.0, 5.0, 9.0, 30.0)


def normal_places(sigma: float) -> NDArray[np.float64]:
    """G(k), by which a normal number is exceeded as often as k - 1 is by the noise, for k >= 1."""
    far = math.ceil(80 * sigma * max(1.0, sigma)) + 40
    x = np.arange(-far, far + 1)
    logs = -(x**2) / (2 * sigma**2)
    tails = np.logaddexp.accumulate((logs - special.logsumexp(logs))[::-1])[::-1]
    places: NDArray[np.float64] = -special.ndtri_exp(tails[far + 1 : far + 1 + int(30 * sigma)])
    return places


def steepest(sigma: float) -> float:
    """The largest G(k + 1) - G(k): mu of a shift by one, as thresholds are the best tests."""
    places = normal_places(sigma)
    return max(2 * float(places[0]), float(np.diff(places).max()))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_shift_by_one_costs_what_is_stated_and_a_tenth_less_would_not_do(sigma: float) -> None:
    mu = steepest(sigma)
    proved = (sigma**2 + sigma * math.sqrt(sigma**2 - 1 / 3)) / 2
    assert mu**2 <= 1 / proved <= 1 / (sigma**2 - LATTICE_VARIANCE)
    assert mu <= 1 / smooth_sigma(sigma)
    assert mu**2 > 1 / (sigma**2 - 1 / 13)


def test_nothing_is_said_of_noise_of_less_than_a_step() -> None:
    assert smooth_sigma(LEAST_SIGMA) > 0
    assert smooth_sigma(LEAST_SIGMA - 1e-9) == 0.0
    assert lattice_gaussian_delta(1.0, 0.99, 1.0) == 1.0


@pytest.mark.parametrize("variance", [1e-9, 0.5, 0.95, 3.0, 1e6])
def test_lattice_noise_is_as_private_as_the_continuous_noise_that_it_stands_for(
    variance: float,
) -> None:
    sigma = lattice_sigma(variance)
    assert smooth_sigma(sigma) ** 2 >= variance
    if variance > 0.95:
        assert smooth_sigma(sigma) ** 2 <= variance * (1 + 1e-9)


# -- the proof --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.05, 0.5, 1.05, 2.4])
@pytest.mark.parametrize("centre", [0.0, 0.3, 1.0, 4.0, 20.0])
def test_a_normal_number_within_an_interval_varies_no_more_than_an_even_one(
    length: float, centre: float
) -> None:
    def moment(power: int, mean: float = 0.0) -> float:
        def weighed(u: float) -> float:
            return float((u - mean) ** power * math.exp(-u * u / 2 - centre * u))

        return float(integrate.quad(weighed, -length / 2, length / 2, epsrel=1e-12)[0])

    mean = moment(1) / moment(0)
    assert moment(2, mean) / moment(0) <= length**2 / 12 * (1 + 1e-9)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_no_step_is_so_long_that_the_other_root_matters(sigma: float) -> None:
    assert steepest(sigma) < 1.1 < math.sqrt(6)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_every_test_between_two_shifts_errs_as_much_as_between_two_normal_numbers(
    sigma: float, shift: int
) -> None:
    """The trade-off at its corners, which are thresholds."""
    x = np.arange(-60, 61)
    law = np.exp(-(x**2) / (2 * sigma**2))
    law /= law.sum()
    beyond = np.cumsum(law[::-1])[::-1]
    false, power = beyond[shift:], beyond[:-shift]
    some = (false > 1e-12) & (power < 1 - 1e-12)
    mu = shift / smooth_sigma(sigma)
    assert np.all(power[some] <= stats.norm.sf(stats.norm.isf(false[some]) - mu) + 1e-13)
    less = 0.9 * shift / sigma
    assert np.any(power[some] > stats.norm.sf(stats.norm.isf(false[some]) - less) + 1e-6)

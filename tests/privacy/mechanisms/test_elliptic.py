"""Elliptic Gaussian noise: what it costs, from the exact laws of what is drawn, and what it gains.

If a unit raises j of the values in full, the loss is a function of two numbers: the noisy sum over
those and the sum over the others. All terms of the joint law's exponent that depend on more are the
same with and without the unit. So the laws are compared on a plane, however many values there are.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    Counts,
    SeededSource,
    chi_square_p,
    log_pmf,
    renyi,
    sums_law,
    upper_bound,
)
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting import rho_from_epsilon
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import correlated_gaussian, gaussian, one_shot_distance
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian, elliptic_gaussian
from dpsql.privacy.sampling.noise import DiscreteGaussian, OSEntropy

Array = NDArray[np.float64]
ROUNDING = 1e-9
ORDERS = (1.01, 1.5, 3.0)
SLOW = pytest.mark.slow
FEW_OF = [
    (2, 1),
    (3, 2),
    (7, 3),
    pytest.param(24, 8, marks=SLOW),
]  # d, and how many of them a unit may raise

# -- what it costs, exactly -------------------------------------------------------------------


def own_sums(noise: DiscreteGaussian, count: int) -> Array:
    """P[sum of so many draws], around 0, but for what lies beyond 9 standard deviations."""
    reach = math.ceil(9 * noise.sigma)
    one = np.exp(log_pmf(noise, np.arange(-reach, reach + 1)))
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, one)
    cut = max(0, len(total) // 2 - math.ceil(9 * noise.sigma * math.sqrt(count)))
    return total[cut : len(total) - cut]


def raised_laws(noise: EllipticGaussian, raised: int) -> tuple[Array, Array]:
    """The laws with and without a unit that raises so many of the values in full."""
    own, shared = noise.parts
    reach = math.ceil(9 * shared.sigma)
    weights = np.exp(log_pmf(shared, np.arange(-reach, reach + 1)))
    rise = noise.fineness * noise.sensitivity * raised

    def given_shared(count: int, lift: int) -> Array:
        """Rows: the shared draw; columns: the sum over so many values, lifted."""
        total = own_sums(own, count)
        rows = np.zeros((2 * reach + 1, len(total) + 2 * reach * count + rise))
        for z in range(2 * reach + 1):
            rows[z, z * count + lift : z * count + lift + len(total)] = total
        return rows

    others = given_shared(noise.of - raised, 0)
    with_unit = (given_shared(raised, rise) * weights[:, None]).T @ others
    without = (given_shared(raised, 0) * weights[:, None]).T @ others
    return with_unit, without


def logs(law: Array) -> Array:
    with np.errstate(divide="ignore"):
        found: Array = np.where(law > 1e-290, np.log(law), -np.inf)
    return found


def ratio_of(one: Array, other: Array) -> float:
    """sup over orders of D_order/order, given logs; where one of them was cut off, less."""
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    return max(max(renyi(one, other, order), renyi(other, one, order)) / order for order in ORDERS)


def worst_ratio(noise: EllipticGaussian, groups: int) -> float:
    return max(ratio_of(*map(logs, raised_laws(noise, raised))) for raised in range(1, groups + 1))


def small(of: int, groups: int, sigma: float, fineness: int, sensitivity: int) -> EllipticGaussian:
    """Noise on a lattice of few points, with the ratio of the variances that is the best."""
    best = elliptic_gaussian(PrivacyLoss(0.1), 1, max(2, groups), max(3, of))
    assert best is not None
    shared = sigma * best.shared / best.sigma
    return EllipticGaussian(sigma, shared, fineness, sensitivity, of)


@pytest.mark.parametrize(("of", "groups"), FEW_OF)
@pytest.mark.parametrize(("sigma", "fineness", "sensitivity"), [(1.1, 8, 1), (2.4, 4, 2)])
def test_a_unit_that_raises_some_values_costs_what_is_charged_and_hardly_less(
    of: int, groups: int, sigma: float, fineness: int, sensitivity: int
) -> None:
    """Of so much noise that orders up to 3 have nothing of what the laws are cut off at."""
    noise = small(of, groups, sigma * math.sqrt(groups), fineness, sensitivity)
    worst, charged = worst_ratio(noise, groups), noise.rho(groups)
    assert charged < 0.6
    assert worst <= charged * (1 + ROUNDING)
    assert worst > 0.95 * charged, "5% less would be too little"


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("sigma", "shared", "fineness"), [(0.6, 0.4, 2), (0.45, 0.3, 4)])
def test_no_pattern_of_rises_costs_more_than_what_is_charged(
    sensitivity: int, sigma: float, shared: float, fineness: int
) -> None:
    """Not only those in full: of three values any two are raised by any part of the most."""
    noise = EllipticGaussian(sigma, shared, fineness, sensitivity, 3)
    for rises in itertools.product(range(sensitivity + 1), repeat=3):
        if 0 < sum(rise > 0 for rise in rises) <= 2 and tuple(sorted(rises)) == rises:
            assert joint_ratio(noise, rises) <= noise.rho(2) * (1 + ROUNDING)


def joint_ratio(noise: EllipticGaussian, rises: Counts) -> float:
    own, shared = noise.parts
    reach = math.ceil(6 * math.hypot(own.sigma, shared.sigma)) + 2
    fine = tuple(noise.fineness * rise for rise in rises)
    grid = np.arange(-reach + min(*fine, 0), reach + max(fine) + 1)
    return ratio_of(
        sums_law(own, shared, (0,) * len(rises), grid), sums_law(own, shared, fine, grid)
    )


@pytest.mark.parametrize("released", [1, 2])
def test_a_part_of_the_values_costs_no_more_than_a_rise_of_so_many(released: int) -> None:
    """Why the price of groups that did not come out can be given back."""
    noise = EllipticGaussian(0.6, 0.4, 8, 1, 24)
    for raised in range(1, released + 1):
        rises = (0,) * (released - raised) + (1,) * raised
        assert joint_ratio(noise, rises) <= noise.rho(released) * (1 + ROUNDING)


@pytest.mark.slow
def test_one_group_more_than_the_cap_breaks_the_price() -> None:
    noise = small(7, 3, 2.0, 8, 1)
    assert worst_ratio(noise, 4) > 1.1 * noise.rho(3)


@pytest.mark.slow
def test_a_rise_and_a_fall_break_the_price() -> None:
    """Why only measures that a unit cannot lower may have it."""
    noise = EllipticGaussian(0.6, 0.4, 4, 1, 3)
    assert joint_ratio(noise, (0, 0, 1)) < noise.rho(2)
    assert joint_ratio(noise, (-1, 0, 1)) > 1.3 * noise.rho(2)


@pytest.mark.slow
def test_a_shared_draw_that_is_left_out_breaks_the_price() -> None:
    noise = small(7, 3, 2.0, 8, 1)
    alone = replace(noise, shared=0.1 * noise.shared)
    assert worst_ratio(alone, 3) > 1.1 * noise.rho(3)


def on_whole_steps(noise: EllipticGaussian, groups: int) -> float:
    """What it would cost, were the rounding of the shift for nothing: the twin of ``rho``."""
    own, shared = (Fraction(part.sigma) ** 2 for part in noise.parts)
    weight = 1 / shared + noise.of / own
    return noise.rho(groups) - float(weight / 8)


def test_on_a_coarse_lattice_the_rounding_of_shifts_is_paid_for() -> None:
    """With noise of half a step what rounding costs shows: without its price it is too cheap."""
    noise = EllipticGaussian(0.3, 0.2, 2, 1, 3)
    worst = joint_ratio(noise, (0, 1, 1))
    assert on_whole_steps(noise, 2) < worst <= noise.rho(2)


# -- the bound itself -------------------------------------------------------------------------


def best_shift(noise: EllipticGaussian, rises: Counts, less: int) -> Fraction:
    """The least over whole t of t²/Var(W) + the sum of (v_i - t)²/Var(Z), in steps of the noise."""
    own, shared = (Fraction(part.sigma) ** 2 - less for part in noise.parts)
    fine = [noise.fineness * rise for rise in rises]
    return min(
        t * t / shared + sum((rise - t) ** 2 for rise in fine) / own
        for t in range(max(*fine, 0) + 1)
    )


@pytest.mark.parametrize("less", [0, 4])
@pytest.mark.parametrize(
    "noise",
    [
        EllipticGaussian(3.0, 1.5, 4, 3, 4),
        EllipticGaussian(2.0, 2.0, 2, 4, 4),
        EllipticGaussian(9.0, 1.25, 2, 2, 5),
        EllipticGaussian(5.0, 40.0, 8, 1, 6),
    ],
    ids=repr,
)
def test_the_price_covers_every_rise_and_is_that_of_one_in_full(
    noise: EllipticGaussian, less: int
) -> None:
    patterns = itertools.combinations_with_replacement(range(noise.sensitivity + 1), noise.of)
    needed: Counter[int] = Counter()
    distances: dict[int, Fraction] = dict.fromkeys(range(1, noise.of + 1), Fraction(0))
    for rises in patterns:
        raised = sum(rise > 0 for rise in rises)
        found = best_shift(noise, rises, less)
        needed[raised] += 1
        for groups in range(max(1, raised), noise.of + 1):
            distances[groups] = max(distances[groups], found)
    assert len(needed) == noise.of + 1
    for groups, worst in distances.items():
        charged = noise.squared_distance(groups, less)
        assert worst <= charged
        rounding = noise.of / Fraction(noise.fineness * noise.sigma) ** 2
        assert charged <= worst + rounding + 1 / Fraction(noise.fineness * noise.shared) ** 2


@pytest.mark.parametrize(("of", "groups"), [(3, 2), (7, 3), (24, 10), (50, 10), (1000, 300)])
def test_the_price_is_the_mahalanobis_length_of_the_worst_rise(of: int, groups: int) -> None:
    noise = elliptic_gaussian(PrivacyLoss(0.05), 5, groups, of)
    assert noise is not None
    covariance = noise.sigma**2 * np.eye(of) + noise.shared**2 * np.ones((of, of))
    inverse = np.linalg.inv(covariance)
    lengths = [25 * inverse[:j, :j].sum() for j in range(1, groups + 1)]
    assert 2 * noise.rho(groups) == pytest.approx(max(lengths), rel=2e-4)
    assert 2 * noise.rho(groups) >= max(lengths)
    assert 2 * noise.rho(1) == pytest.approx(lengths[0], rel=0.02)
    assert noise.rho(0) == 0


# -- noise that is built ----------------------------------------------------------------------


@pytest.mark.parametrize("sensitivity", [1, 17, 10**6])
@pytest.mark.parametrize(("of", "groups"), [(3, 2), (24, 10), (24, 20), (10**6, 10)])
@pytest.mark.parametrize("rho", [1e-6, 0.02, 3.0])
def test_noise_of_a_price_costs_no_more_and_nearly_as_much(
    rho: float, of: int, groups: int, sensitivity: int
) -> None:
    noise = elliptic_gaussian(PrivacyLoss(rho), sensitivity, groups, of)
    assert noise is not None
    assert rho * (1 - 2e-3) <= noise.rho(groups) <= rho
    once = elliptic_gaussian(PrivacyLoss(rho, gaussian=True), sensitivity, groups, of)
    assert once is not None
    price = once.cost(Composition.GDP, groups)
    assert rho * (1 - 2e-3) <= price <= rho
    assert price > once.rho(groups) or sensitivity > 1
    assert once.cost(Composition.GDP, 1) <= price


@pytest.mark.parametrize(
    ("of", "groups", "gain"),
    [(24, 8, 0.841), (50, 10, 0.900), (20, 5, 0.914), (12, 3, 0.948), (7, 3, 0.897)],
)
def test_it_has_less_variance_than_independent_noise_of_its_price(
    of: int, groups: int, gain: float
) -> None:
    rho = rho_from_epsilon(1.0, 1e-6)
    noise = elliptic_gaussian(PrivacyLoss(rho), 1, groups, of)
    assert noise is not None
    variance = noise.std(groups) ** 2
    assert variance / gaussian(PrivacyLoss(rho), 1, groups).std(1) ** 2 == pytest.approx(
        gain, abs=1e-3
    )
    assert variance < correlated_gaussian(PrivacyLoss(rho), 1, of).std(of) ** 2
    root = math.sqrt((of - 1) * (of - groups)) + math.sqrt(groups)
    assert variance * 2 * rho == pytest.approx(groups / of**2 * root**2, rel=3e-4)
    once = elliptic_gaussian(PrivacyLoss(rho, gaussian=True), 1, groups, of)
    assert once is not None
    assert (
        once.std(groups)
        < math.sqrt(gain) * gaussian(PrivacyLoss(rho, gaussian=True), 1, groups).std(1) * 1.001
    )


@pytest.mark.parametrize(("of", "groups"), [(3, 2), (7, 3), (24, 8), (24, 14), (24, 20), (50, 10)])
def test_no_other_ratio_of_the_variances_has_less_noise(of: int, groups: int) -> None:
    built = elliptic_gaussian(PrivacyLoss(0.05), 1, groups, of)
    assert built is not None

    def product(ratio: float) -> float:
        """The variance of a value, times the distance: what a price buys."""
        noise = EllipticGaussian(1e3, 1e3 * math.sqrt(ratio), 2, 1, of)
        weight = 1 / ratio + of
        most = max(j - j * j / weight for j in np.linspace(0, groups, 1001))
        return float(noise.std(groups) ** 2 * most)

    ratio = (built.shared / built.sigma) ** 2
    for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2.0):
        assert product(ratio) <= product(ratio * factor) * (1 + 1e-6)


def test_nothing_is_shared_where_a_unit_has_one_group_or_all_and_where_no_scale_is_in_range() -> (
    None
):
    for groups in (1, 24, 30):
        assert elliptic_gaussian(PrivacyLoss(0.1), 1, groups, 24) is None
        assert elliptic_gaussian(PrivacyLoss(0.1 / 2, gaussian=True), 1, groups, 24) is None
    assert elliptic_gaussian(PrivacyLoss(1e-26), 1, 8, 24) is None
    wide = elliptic_gaussian(PrivacyLoss(5e-23), 1, 8, 24)
    assert wide is not None
    assert wide.fineness < 128
    assert wide.rho(8) <= 5e-23


@pytest.mark.parametrize("rho", [0.0, -1.0, math.inf, math.nan])
def test_a_price_that_is_none_is_refused(rho: float) -> None:
    with pytest.raises(ParameterError):
        elliptic_gaussian(PrivacyLoss(rho), 1, 8, 24)
    with pytest.raises(ParameterError):
        elliptic_gaussian(PrivacyLoss(rho / 2, gaussian=True), 1, 8, 24)


@pytest.mark.parametrize(
    "changed",
    [
        {"fineness": 1},
        {"fineness": 12},
        {"fineness": -2},
        {"sensitivity": 0},
        {"of": 0},
        {"sigma": math.nan},
        {"shared": 0.0},
        {"shared": 2.0**40},
    ],
    ids=str,
)
def test_noise_out_of_range_is_refused(changed: dict[str, float]) -> None:
    fine = {"sigma": 3.0, "shared": 1.0, "fineness": 8, "sensitivity": 1, "of": 9}
    EllipticGaussian(**fine)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        EllipticGaussian(**(fine | changed))  # type: ignore[arg-type]


# -- Gaussian DP and single publications ------------------------------------------------------


def exceeds(noise: EllipticGaussian, groups: int, distance: float) -> bool:
    """True if a unit is easier to notice than a Gaussian moved by this many of its sigmas."""
    return any(
        divergence(epsilon, *laws) > gaussian_delta(epsilon, distance) + 1e-11
        for raised in range(1, groups + 1)
        for laws in [raised_laws(noise, raised)]
        for epsilon in (0.0, 0.3, 1.0, 2.5, 5.0)
    )


def divergence(epsilon: float, one: Array, other: Array) -> float:
    factor = math.exp(epsilon)
    return float(
        max(np.maximum(one - factor * other, 0).sum(), np.maximum(other - factor * one, 0).sum())
    )


@pytest.mark.parametrize(
    ("of", "groups", "sigma", "fineness"),
    [(3, 2, 1.2, 2), (3, 2, 0.5, 32), pytest.param(7, 3, 0.6, 32, marks=SLOW)],
)
def test_it_is_no_easier_to_notice_than_the_price_in_gaussian_dp_says(
    of: int, groups: int, sigma: float, fineness: int
) -> None:
    noise = replace(small(of, groups, sigma, fineness, 1), shared=sigma)
    price = noise.cost(Composition.GDP, groups)
    assert not exceeds(noise, groups, math.sqrt(2 * price))
    if fineness > 2:  # where little is lost to the lattice
        assert exceeds(noise, groups, math.sqrt(2 * 0.95 * price))


def test_too_little_noise_has_no_cost_in_gaussian_dp() -> None:
    assert EllipticGaussian(5.0, 0.45, 2, 1, 9).cost(Composition.GDP, 3) == math.inf
    assert EllipticGaussian(0.45, 5.0, 2, 1, 9).cost(Composition.GDP, 3) == math.inf
    assert EllipticGaussian(0.45, 0.45, 2, 1, 9).cost(Composition.GDP, 0) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (4.0, 0.01)])
def test_one_publication_keeps_its_epsilon_and_delta(epsilon: float, delta: float) -> None:
    built = elliptic_gaussian(PrivacyLoss(0.0, delta, epsilon), 1, 2, 3)
    assert built is not None
    # A lattice of few points, and what that takes more of.
    noise = EllipticGaussian(
        math.sqrt(built.sigma**2 + 4 / 64), math.sqrt(built.shared**2 + 4 / 64), 8, 1, 3
    )
    widened = replace(noise, sigma=1.05 * noise.sigma, shared=1.05 * noise.shared)
    assert widened.squared_distance(2, 4) <= one_shot_distance(epsilon, delta)
    assert max(divergence(epsilon, *raised_laws(widened, j)) for j in (1, 2)) <= delta
    smaller = replace(noise, sigma=0.8 * noise.sigma, shared=0.8 * noise.shared)
    assert divergence(epsilon, *raised_laws(smaller, 2)) > delta


# -- what is drawn ----------------------------------------------------------------------------


def pair_law(noise: EllipticGaussian) -> dict[Hashable, float]:
    """The joint law of two noises, in steps of the noise, from the definition."""
    own, shared = noise.parts
    x, z = np.arange(-40, 41), np.arange(-60, 61)
    conditional = np.exp(log_pmf(own, np.arange(-100, 101)))[x[:, None] - z[None, :] + 100]
    joint = np.einsum("xz,yz,z->xy", conditional, conditional, np.exp(log_pmf(shared, z)))
    return {(int(a), int(b)): float(joint[a + 40, b + 40]) for a in x for b in x}


@pytest.mark.slow
@pytest.mark.parametrize("drawn_of", [2, 5])
def test_what_is_drawn_has_its_joint_law_and_no_other_scale(drawn_of: int) -> None:
    """Of all values that share the noise, and of fewer."""
    noise, source = EllipticGaussian(0.8, 0.5, 4, 1, 5), SeededSource(4)
    values = np.arange(drawn_of, dtype=np.int64) * 10
    drawn: Counter[Hashable] = Counter()
    for _ in range(10_000):
        first, last = (4 * (noise.add(values, source) - values)).astype(int)[[0, -1]]
        drawn[int(first), int(last)] += 1
    assert chi_square_p(drawn, pair_law(noise)) > IMPOSSIBLE
    for wrong in (0.6, 1.5):
        for other in (replace(noise, sigma=wrong * 0.8), replace(noise, shared=wrong * 0.5)):
            assert chi_square_p(drawn, pair_law(other)) < IMPOSSIBLE


def test_large_values_are_rounded_after_their_noise_not_before() -> None:
    noise = EllipticGaussian(9.0, 3.0, 64, 1, 3)
    for seed, value in itertools.product(range(4), (2**53 + 1, 2**60 + 127, -(2**58) - 33)):
        small_values = noise.add(np.zeros(3, dtype=np.int64), SeededSource(seed))
        large = noise.add(np.full(3, value, dtype=np.int64), SeededSource(seed))
        exact = [float(value + math.floor(x)) + (x - math.floor(x)) for x in small_values]
        assert large.tolist() == exact


def test_noise_is_for_no_more_values_than_it_was_made_for() -> None:
    noise = EllipticGaussian(9.0, 3.0, 64, 1, 3)
    assert noise.add(np.empty(0, dtype=np.int64), OSEntropy()).shape == (0,)
    with pytest.raises(ParameterError):
        noise.add(np.zeros(4, dtype=np.int64), OSEntropy())


def errors_of(noise: EllipticGaussian, runs: int) -> Iterator[Array]:
    values, source = np.zeros(noise.of, dtype=np.int64), SeededSource(11)
    return (noise.add(values, source) for _ in range(runs))


@pytest.mark.slow
def test_differences_are_sharper_than_independent_ones_and_totals_less_so() -> None:
    noise = elliptic_gaussian(PrivacyLoss(0.02), 1, 8, 24)
    assert noise is not None
    drawn = np.array(list(errors_of(noise, 2000)))
    difference, total = (drawn[:, 0] - drawn[:, 1]).var(), drawn.sum(axis=1).var()
    assert difference == pytest.approx(2 * noise.sigma**2, rel=0.15)
    assert total == pytest.approx(24 * noise.sigma**2 + 24**2 * noise.shared**2, rel=0.15)
    alone = gaussian(PrivacyLoss(0.02), 1, 8).std(1) ** 2
    assert difference < 2 * alone < total / 12


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-6])
@pytest.mark.parametrize(("sigma", "shared", "fineness"), [(0.7, 0.3, 8), (15.0, 5.0, 16)])
def test_margins_are_the_smallest_steps_that_cover(
    sigma: float, shared: float, fineness: int, confidence: float
) -> None:
    noise = EllipticGaussian(sigma, shared, fineness, 1, 9)
    own, common = noise.parts
    reach = math.ceil(12 * own.sigma)
    x = np.arange(-reach, reach + 1)
    law = np.convolve(np.exp(log_pmf(own, x)), np.exp(log_pmf(common, x)))
    margin = round(noise.margin(confidence, 3) * fineness)
    assert noise.margin(confidence, 3) == margin / fineness
    far = np.abs(np.arange(-2 * reach, 2 * reach + 1))
    assert law[far > margin].sum() <= (1 - confidence) * (1 + 1e-9)
    assert law[far > margin - 2].sum() > 1 - confidence
    assert noise.std(3) ** 2 == pytest.approx(float(law @ far**2) / fineness**2, rel=1e-9)
    misses = sum(abs(drawn[0]) > noise.margin(0.8, 3) for drawn in errors_of(noise, 400))
    assert upper_bound(400 - misses, 400) >= 0.8

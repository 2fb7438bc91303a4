"""Exact noise: what is drawn follows the stated law, and every tail and cost is a true bound."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import ClassVar, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import mills_ratio
from dpsql.privacy.sampling.distributions import _sampler
from dpsql.privacy.sampling.entropy import bits16, bits32, uniform_bits
from dpsql.privacy.sampling.gumbel import _float_bounds, gumbel_enclosure
from dpsql.privacy.sampling.lattice import LatticeSampler, exp_enclosure, uniform_below
from dpsql.privacy.sampling.noise import (
    MAX_SCALE,
    MIN_SCALE,
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeNoise,
    OSEntropy,
    difference_log_sf,
    difference_quantile_sf,
    gaussian_sigma_for_rho,
    gumbel_order,
    laplace_scale_for_rho,
)
from dpsql.privacy.sampling.numeric import normal_quantile_sf

IMPOSSIBLE = 1e-9  # a correct build's p-value is below this less than once in 10**9 seeds
KINDS = (DiscreteGaussian, DiscreteLaplace)

Kind: TypeAlias = type[DiscreteGaussian] | type[DiscreteLaplace]


@dataclass(slots=True)
class SeededSource:
    """Reproducible words, so that a passing test keeps passing."""

    seed: int
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**64, size=n, dtype=np.uint64)


@dataclass(slots=True)
class ScriptedSource:
    """The given words first, then reproducible ones; counts what was drawn."""

    script: list[int]
    then: SeededSource = field(default_factory=lambda: SeededSource(0))
    drawn: int = 0

    def words(self, n: int) -> NDArray[np.uint64]:
        self.drawn += n
        head, self.script = self.script[:n], self.script[n:]
        scripted = np.array(head, dtype=np.uint64)
        return np.concatenate((scripted, self.then.words(n - len(head))))


@dataclass(frozen=True, slots=True)
class EarlyTailGaussian(DiscreteGaussian):
    """The same law, with the sampler's tail beginning where much of the probability lies."""

    reach: ClassVar[float] = 1.2


def chi_square_p(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """p-value of counts against expected counts; sparse bins are pooled into one.

    A pool too small for chi-square is tested by its Poisson tails, and the smaller p-value counts.
    """
    dense = expected >= 10
    rest, rest_expected = observed[~dense].sum(), expected[~dense].sum()
    observed, expected = observed[dense], expected[dense]
    p_rest = 1.0
    if rest_expected >= 10:
        observed, expected = np.append(observed, rest), np.append(expected, rest_expected)
    else:
        at_least = float(special.gammainc(rest, rest_expected)) if rest else 1.0
        p_rest = min(1.0, 2 * min(at_least, float(special.gammaincc(rest + 1, rest_expected))))
    if len(expected) == 1:
        return p_rest
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return min(p_rest, float(special.chdtrc(len(expected) - 1, statistic)))


def pointwise_p(draws: NDArray[np.int64], law: LatticeNoise) -> float:
    """Chi-square of draws against a law's probability of each integer."""
    width = math.ceil(16 * law.spread) + 3
    inside = draws[np.abs(draws) <= width]
    observed = np.bincount(inside + width, minlength=2 * width + 1).astype(float)
    expected = len(draws) * law.pmf(np.arange(-width, width + 1))
    observed = np.append(observed, len(draws) - len(inside))
    expected = np.append(expected, max(0.0, len(draws) - expected.sum()))
    return chi_square_p(observed, expected)


def binned_p(draws: NDArray[np.int64], kind: Kind, scale: float) -> float:
    """Chi-square over 400 bins, expected from the continuous law with half-integer edges."""
    edges = np.unique(np.rint(np.linspace(-4, 4, 399) * scale)) + 0.5
    z = edges / scale
    cdf = (
        special.ndtr(z)
        if kind is DiscreteGaussian
        else np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))
    )
    expected = len(draws) * np.diff(np.concatenate(([0.0], cdf, [1.0])))
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1).astype(float)
    return chi_square_p(observed, expected)


# --- Sampling ---------------------------------------------------------------------------------


POINTWISE = [(kind, scale) for kind in KINDS for scale in (0.25, 0.5, 1.0, 3.3, 50.0, 1000.0)]


@pytest.mark.parametrize(("kind", "scale"), [*POINTWISE, (DiscreteLaplace, 0.1)])
def test_draws_follow_the_exact_pmf_and_not_a_nearby_one(kind: Kind, scale: float) -> None:
    draws = kind(scale).sample(1_000_000, SeededSource(11))
    assert pointwise_p(draws, kind(scale)) > IMPOSSIBLE
    assert pointwise_p(draws, kind(scale * 1.3)) < IMPOSSIBLE
    assert pointwise_p(draws, kind(scale * 0.7)) < IMPOSSIBLE


def test_tiny_scales_draw_almost_only_zero() -> None:
    assert not DiscreteGaussian(0.1).sample(100_000, SeededSource(11)).any()
    assert not DiscreteLaplace(MIN_SCALE).sample(100_000, SeededSource(11)).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 2.0**40])
def test_draws_of_large_scale_follow_the_binned_law(kind: Kind, scale: float) -> None:
    draws = kind(scale).sample(400_000, SeededSource(12))
    assert binned_p(draws, kind, scale) > IMPOSSIBLE
    assert binned_p(draws, kind, scale * 1.3) < IMPOSSIBLE
    assert binned_p(draws, kind, scale * 0.7) < IMPOSSIBLE


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_low_bits_of_large_draws_are_uniform(scale: float) -> None:
    draws = DiscreteGaussian(scale).sample(400_000, SeededSource(13))
    uniform = np.full(256, len(draws) / 256)
    assert chi_square_p(np.bincount(draws & 255).astype(float), uniform) > IMPOSSIBLE
    assert chi_square_p(np.bincount((draws & 255) | 1).astype(float), uniform) < IMPOSSIBLE


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.5, 3.3, 50.0])
def test_draws_stay_exact_when_float_evaluation_is_trusted_little(kind: Kind, scale: float) -> None:
    counted = ScriptedSource([], SeededSource(14))
    draws = LatticeSampler(kind(scale), slack=0.1).sample(40_000, counted)
    quick = ScriptedSource([], SeededSource(14))
    LatticeSampler(kind(scale)).sample(40_000, quick)
    assert counted.drawn > quick.drawn + 2_000  # the lazy comparison was taken thousands of times
    assert pointwise_p(draws, kind(scale)) > IMPOSSIBLE
    assert pointwise_p(draws, kind(scale * 1.3)) < IMPOSSIBLE
    assert pointwise_p(draws, kind(scale * 0.7)) < IMPOSSIBLE


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [2.0, 33.0])
def test_tail_proposals_are_exact(sigma: float) -> None:
    noise = EarlyTailGaussian(sigma)
    draws = LatticeSampler(noise).sample(20_000, SeededSource(15))
    assert pointwise_p(draws, noise) > IMPOSSIBLE
    assert pointwise_p(draws, DiscreteGaussian(sigma * 1.3)) < IMPOSSIBLE
    assert pointwise_p(draws, DiscreteGaussian(sigma * 0.7)) < IMPOSSIBLE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [MIN_SCALE, 0.05, 0.7, 1.0, 15.9, 47.0, 1e4, 1e9, MAX_SCALE])
def test_bars_stand_above_the_curve_and_boxes_below(kind: Kind, scale: float) -> None:
    """The premise of exactness, checked in rational arithmetic at each cell's two ends."""
    noise = kind(scale)
    sampler = LatticeSampler(noise)
    height, step = Fraction(sampler._height), 1 << sampler._offset_bits

    def curve(x: int) -> tuple[Fraction, Fraction]:
        low, high = exp_enclosure(noise.exact_energy(x), 40)
        return height * low, height * high

    bars = np.diff(sampler._start)
    cells = len(bars) - 1
    first = sampler._first[:cells]
    assert np.array_equal(np.diff(first), np.full(cells - 1, step))
    assert first[0] == -sampler._tail_from
    assert first[-1] + step == sampler._tail_from
    for x, bar, box in zip(first.tolist(), bars.tolist(), sampler._box.tolist(), strict=False):
        ends = (curve(x), curve(x + step - 1))
        assert max(high for _, high in ends) <= bar
        assert min(low for low, _ in ends) >= box
    for block in (0, 1, 2, 5):
        x = sampler._tail_from + block * sampler._tail_step
        _, high = exp_enclosure(noise.exact_energy(x), 40)
        assert sampler._tail_ratio * 2**block * high <= 1
    assert sampler._start[-1] <= 2**32


@pytest.mark.parametrize("scale", [MIN_SCALE, 1.0, 47.0, 1e6])
def test_a_guided_prefix_lies_wholly_in_one_box(scale: float) -> None:
    sampler = LatticeSampler(DiscreteGaussian(scale))
    prefix = np.flatnonzero(sampler._guide >= 0)
    cell = sampler._guide[prefix]
    assert len(prefix) > 0.85 * 2**16
    assert np.all(prefix << 16 >= sampler._start[cell])
    assert np.all((prefix << 16) + 0xFFFF < sampler._start[cell] + sampler._box[cell])


def test_uniform_below_draws_bits_until_decided() -> None:
    energy, factor, floor = Fraction(1, 3), Fraction(7), 4
    threshold = 7 * Fraction(exp_enclosure(energy, 80)[0]) - floor  # 1.0157..., so scale it down
    assert 1 < threshold < 2
    floor = 5
    threshold -= 1
    bits = math.floor(threshold * 2**128)
    high, low = bits >> 64, bits & (2**64 - 1)
    cases = (([high - 1], True, 1), ([high + 1], False, 1), ([high, low - 1], True, 2))
    for script, below, words in (*cases, ([high, low + 1], False, 2)):
        source = ScriptedSource(script)
        assert uniform_below(factor, energy, floor, source) is below
        assert source.drawn == words


@pytest.mark.parametrize("energy", [Fraction(0), Fraction(1, 7), Fraction(300), Fraction(10**7, 3)])
def test_exp_enclosures_nest_around_the_value(energy: Fraction) -> None:
    coarse, fine = exp_enclosure(energy, 30), exp_enclosure(energy, 60)
    assert coarse[0] < fine[0] <= fine[1] < coarse[1]
    if energy < 700:
        assert float(fine[0]) == pytest.approx(math.exp(-float(energy)), rel=1e-13)


def test_samples_of_any_length_have_that_length() -> None:
    for n in (0, 1, 3, 65_535, 65_536, 65_537):
        assert DiscreteGaussian(100.0).sample(n, OSEntropy()).shape == (n,)


def test_uniform_bits_fill_their_range() -> None:
    source = SeededSource(16)
    for bits in (1, 3, 16, 17, 32, 33, 41):
        draws = uniform_bits(source, 4096, bits)
        assert draws.min() >= 0
        assert 2 ** (bits - 1) <= draws.max() < 2**bits
    assert bits16(source, 7).shape == bits32(source, 7).shape == (7,)
    assert not uniform_bits(source, 5, 0).any()


@pytest.mark.slow
def test_os_entropy_differs_after_a_fork() -> None:
    script = """
import os
from dpsql.privacy.sampling.noise import DiscreteGaussian, OSEntropy
noise, source = DiscreteGaussian(1e6), OSEntropy()
noise.sample(1000, source)
for child in range(3):
    if os.fork() == 0:
        print(*noise.sample(4, source), flush=True)
        os._exit(0)
    os.wait()
print(*noise.sample(4, source))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(set(lines)) == 4


def test_threads_may_share_a_distribution() -> None:
    noise = DiscreteGaussian(123.25)
    results: list[NDArray[np.int64]] = []
    threads = [
        threading.Thread(target=lambda: results.append(noise.sample(100_000, OSEntropy())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pointwise_p(np.concatenate(results), noise) > IMPOSSIBLE


# --- Parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, -1.0, 0.009, 1e13, math.inf, math.nan, "1", None])
def test_scales_out_of_range_are_refused(kind: Kind, scale: float) -> None:
    with pytest.raises(ParameterError, match="must lie between"):
        kind(scale)


def test_numpy_and_int_scales_equal_floats() -> None:
    assert DiscreteGaussian(np.float64(3.0)) == DiscreteGaussian(3) == DiscreteGaussian(3.0)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan, 2.0])
def test_probabilities_out_of_range_are_refused(p: float) -> None:
    for ask in (DiscreteGaussian(1.0).quantile_sf, DiscreteLaplace(1.0).margin):
        with pytest.raises(ParameterError):
            ask(p)
    with pytest.raises(ParameterError):
        difference_quantile_sf(1.0, 1.0, p)


def test_sampler_cache_is_bounded() -> None:
    assert _sampler.cache_info().maxsize == 32


# --- Tails and moments ------------------------------------------------------------------------


@cache
def exact_masses(kind: Kind, scale: float, width: int) -> tuple[Decimal, ...]:
    """Unnormalised probabilities of 0, 1, ..., width with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        exact = Fraction(scale)
        unit = Decimal(exact.numerator) / Decimal(exact.denominator)
        if kind is DiscreteGaussian:
            return tuple((-((x / unit) ** 2) / 2).exp() for x in range(width + 1))
        return tuple((-(x / unit)).exp() for x in range(width + 1))


def exact_tails(kind: Kind, scale: float, width: int) -> list[Decimal]:
    """P[Z > x] for x = 0, 1, ..., width - 1, by summation."""
    masses = exact_masses(kind, scale, width)
    with localcontext() as context:
        context.prec = 60
        total = masses[0] + 2 * sum(masses[1:])
        tails, running = [], Decimal(0)
        for mass in reversed(masses[1:]):
            running += mass
            tails.append(running / total)
        return tails[::-1]


WIDTHS: dict[Kind, Callable[[float], int]] = {
    DiscreteGaussian: lambda scale: math.ceil(60 * scale) + 3,
    DiscreteLaplace: lambda scale: math.ceil(900 * scale) + 3,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.1, 0.5, 0.999, 1.0, 3.3, 17.5])
def test_log_sf_bounds_the_exact_tail_tightly(kind: Kind, scale: float) -> None:
    noise, tails = kind(scale), exact_tails(kind, scale, WIDTHS[kind](scale))
    for x, tail in enumerate(tails):
        log_tail = float(tail.ln())
        if log_tail < -700:
            break
        assert log_tail <= noise.log_sf(x) <= log_tail + 1e-10
        # P[Z > -x-1] = P[Z <= x]
        assert math.log1p(-float(tail)) <= noise.log_sf(-x - 1) <= math.log1p(-float(tail)) + 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [511.0, 513.0, 1000.0])
def test_log_sf_of_large_sigma_bounds_the_exact_tail_tightly(sigma: float) -> None:
    noise = DiscreteGaussian(sigma)
    tails = exact_tails(DiscreteGaussian, sigma, math.ceil(14 * sigma))
    for z in (0.0, 0.3, 1.0, 2.0, 5.0, 9.0):
        x = round(z * sigma)
        log_tail = float(tails[x].ln())
        assert log_tail <= noise.log_sf(x) <= log_tail + 1e-10


def test_log_sf_is_continuous_across_its_two_methods() -> None:
    for z in (0.1, 1.0, 8.0, 20.0, 30.0):
        x = round(z * 600)
        noise = DiscreteGaussian(600.0)
        summed = noise._log_direct_sum(x + 1)
        assert noise._log_euler_maclaurin((x + 0.5) / 600) == pytest.approx(
            summed, abs=2e-12 * (1 + z * z / 2)
        )


@pytest.mark.parametrize("sigma", [1e6, 1e9, MAX_SCALE])
def test_log_sf_of_huge_sigma_is_the_normal_tail(sigma: float) -> None:
    for z in (0.01, 1.0, 6.0, 20.0, 37.0, 100.0):
        x = round(z * sigma)
        normal = float(special.log_ndtr(-(x + 0.5) / sigma))
        assert DiscreteGaussian(sigma).log_sf(x) == pytest.approx(normal, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 3.3, 17.5])
def test_quantile_is_the_smallest_safe_integer(kind: Kind, scale: float) -> None:
    tails = exact_tails(kind, scale, WIDTHS[kind](scale))
    for p in (0.49, 0.3, 0.05, 1e-3, 1e-6, 1e-12, 1e-18, 1e-100, 1e-300):
        expected = next((x for x, tail in enumerate(tails) if tail <= Decimal(p)), None)
        assert expected is not None
        if expected == 0 and 1 - tails[0] <= Decimal(p):
            expected = -1
        assert kind(scale).quantile_sf(p) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 7.7, 600.0, 1e6, 1e11])
@pytest.mark.parametrize("p", [1 - 1e-9, 0.9, 0.5, 0.2, 1e-9, 1e-200])
def test_quantile_brackets_p(kind: Kind, scale: float, p: float) -> None:
    noise = kind(scale)
    t = noise.quantile_sf(p)
    assert noise.log_sf(t) <= math.log(p) < noise.log_sf(t - 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.5, 0.999, 1.0, 3.3])
def test_pmf_and_variance_match_exact_sums(kind: Kind, scale: float) -> None:
    masses = exact_masses(kind, scale, WIDTHS[kind](scale))
    total = masses[0] + 2 * sum(masses[1:])
    exact = np.array([float(mass / total) for mass in masses[:60]])
    visible = exact > 1e-300
    x = np.arange(len(exact))[visible]
    assert kind(scale).pmf(x) == pytest.approx(exact[visible], rel=1e-12)
    assert kind(scale).pmf(-x) == pytest.approx(exact[visible], rel=1e-12)
    second = 2 * sum(x * x * mass for x, mass in enumerate(masses)) / total
    assert kind(scale).variance == pytest.approx(float(second), rel=1e-12)
    assert kind(scale).std == pytest.approx(float(second.sqrt()), rel=1e-12)


def test_margin_is_the_smallest_central_interval() -> None:
    for noise in (DiscreteGaussian(3.3), DiscreteLaplace(2.5), DiscreteGaussian(0.1)):
        for confidence in (0.5, 0.9, 0.95, 0.999):
            m = noise.margin(confidence)
            assert noise.pmf(np.arange(-m, m + 1)).sum() >= confidence - 1e-12
            assert m == 0 or noise.pmf(np.arange(1 - m, m)).sum() < confidence


def test_normal_quantile_inverts_the_normal_tail() -> None:
    for p in (0.5, 0.3, 1e-3, 1e-18, 1e-300):
        assert normal_quantile_sf(math.log(p)) == pytest.approx(-special.ndtri(p), abs=1e-9)
    assert special.log_ndtr(-normal_quantile_sf(-5000.0)) == pytest.approx(-5000.0, rel=1e-12)


# --- Differences ------------------------------------------------------------------------------


def exact_difference_tails(sigma1: float, sigma2: float) -> list[Decimal]:
    """P[Z1 - Z2 > t] for t = 0, 1, ... by 60-digit convolution."""
    reach1, reach2 = math.ceil(13 * sigma1) + 3, math.ceil(13 * sigma2) + 3
    with localcontext() as context:
        context.prec = 60
        one = exact_masses(DiscreteGaussian, sigma1, reach1)
        two = exact_masses(DiscreteGaussian, sigma2, reach2)
        total = (one[0] + 2 * sum(one[1:])) * (two[0] + 2 * sum(two[1:]))
        masses = [
            sum(
                (
                    one[abs(x)] * two[abs(x - d)]
                    for x in range(max(-reach1, d - reach2), min(reach1, d + reach2) + 1)
                ),
                Decimal(0),
            )
            for d in range(reach1 + reach2 + 1)
        ]
        tails, running = [], Decimal(0)
        for mass in reversed(masses[1:]):
            running += mass
            tails.append(running / total)
        return tails[::-1]


@pytest.mark.parametrize(
    "sigmas", [(0.1, 0.1), (0.3, 0.5), (0.5, 0.5), (0.5, 7.0), (1.0, 1.0), (3.3, 1.2), (9.0, 0.6)]
)
def test_difference_tail_is_a_tight_upper_bound(sigmas: tuple[float, float]) -> None:
    tails = exact_difference_tails(*sigmas)
    slack = 2e-8 if max(sigmas) <= 8 else 1e-2
    for t, tail in enumerate(tails):
        if tail < Decimal("1e-25"):
            break
        log_tail = float(tail.ln())
        for pair in (sigmas, sigmas[::-1]):
            assert log_tail <= difference_log_sf(*pair, t) <= log_tail + slack
    for p in (0.3, 0.01, 1e-6, 1e-12, 1e-18):
        expected = next(t for t, tail in enumerate(tails) if tail <= Decimal(p))
        assert difference_quantile_sf(*sigmas, p) == expected


@pytest.mark.parametrize("sigmas", [(0.2, 0.3), (2.0, 5.0), (8.0, 0.9), (8.1, 0.9), (1e4, 3e3)])
def test_difference_quantile_brackets_p(sigmas: tuple[float, float]) -> None:
    for p in (0.9, 0.5, 1e-3, 1e-18, 1e-290):
        t = difference_quantile_sf(*sigmas, p)
        assert difference_log_sf(*sigmas, t) <= math.log(p) < difference_log_sf(*sigmas, t - 1)


def test_difference_tail_bounds_simulated_differences() -> None:
    one, two = DiscreteGaussian(40.0), DiscreteGaussian(9.0)
    n = 400_000
    draws = one.sample(n, SeededSource(21)) - two.sample(n, SeededSource(22))
    t = difference_quantile_sf(40.0, 9.0, 1e-3)
    exceeded = int((draws > t).sum())
    assert special.bdtrc(exceeded - 1, n, 1e-3) > IMPOSSIBLE  # not more than claimed
    assert special.bdtr(exceeded, n, 1.3e-3) < IMPOSSIBLE  # and the claim is not loose


# --- Costs ------------------------------------------------------------------------------------


def renyi_over_alpha(noise: DiscreteLaplace, shift: int, alpha: float) -> float:
    """D_alpha(Z, Z + shift)/alpha, summed from the probability mass function."""
    reach = math.ceil(60 * noise.scale) + shift
    x = np.arange(-reach, reach + shift + 1)
    p = -np.abs(x) / noise.scale
    q = -np.abs(x - shift) / noise.scale
    log_total = special.logsumexp(p)
    return float(special.logsumexp(alpha * p + (1 - alpha) * q) - log_total) / (alpha - 1) / alpha


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 4.0, 60.0])
@pytest.mark.parametrize("shift", [1, 2, 7, 40])
def test_laplace_rho_is_the_supremum_of_renyi_over_alpha(scale: float, shift: int) -> None:
    noise = DiscreteLaplace(scale)
    alphas = 1 + np.geomspace(1e-3, 500, 80)
    worst = max(renyi_over_alpha(noise, shift, float(alpha)) for alpha in alphas)
    rho = noise.rho(shift)
    assert worst <= rho * (1 + 1e-9)
    assert worst > 0.99 * rho


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 1e4, 1e9, 1e12])
def test_laplace_rho_of_unit_shift_is_eps_tanh_half_eps(scale: float) -> None:
    eps = 1 / scale
    closed = eps * math.tanh(eps / 2)
    assert closed <= DiscreteLaplace(scale).rho(1) <= closed * (1 + 1e-13)


@pytest.mark.parametrize("scale", [0.02, 0.3, 0.9, 2.0, 300.0])
@pytest.mark.parametrize("shift", [1, 3, 1000, 10**6])
def test_laplace_rho_is_rounded_up_and_stable(scale: float, shift: int) -> None:
    with localcontext() as context:
        context.prec = 80
        eps = 1 / Decimal(scale)
        q = (-eps).exp()
        exact = eps * (shift - 2 * q * (1 - (-eps * shift).exp()) / (1 - q * q))
        assert exact <= Decimal(DiscreteLaplace(scale).rho(shift)) <= exact * (1 + Decimal("1e-13"))


def test_gaussian_rho_is_rounded_up() -> None:
    rng = np.random.default_rng(31)
    for sigma, shift in rng.uniform(0.1, 100, size=(200, 2)).tolist():
        exact = Fraction(shift) ** 2 / (2 * Fraction(sigma) ** 2)
        rho = DiscreteGaussian(sigma).rho(shift)
        assert exact <= Fraction(rho) <= exact * (1 + Fraction(1, 2**51))


def test_gaussian_sigma_is_the_smallest_float_within_rho() -> None:
    rng = np.random.default_rng(32)
    for rho, l2_squared in (10 ** rng.uniform(-6, 2, size=(300, 2))).tolist():
        sigma = gaussian_sigma_for_rho(rho, l2_squared)
        assert Fraction(l2_squared) <= 2 * Fraction(rho) * Fraction(sigma) ** 2
        below = Fraction(math.nextafter(sigma, 0))
        assert sigma == MIN_SCALE or Fraction(l2_squared) > 2 * Fraction(rho) * below**2
    assert gaussian_sigma_for_rho(0.5, Fraction(1)) == 1.0
    assert gaussian_sigma_for_rho(1e30, 1.0) == MIN_SCALE


def test_laplace_scale_costs_at_most_rho_and_no_less() -> None:
    rng = np.random.default_rng(33)
    for rho in (10 ** rng.uniform(-10, 1, size=60)).tolist():
        for shift in (1, 5, 300):
            scale = laplace_scale_for_rho(rho, shift)
            assert DiscreteLaplace(scale).rho(shift) <= rho
            assert DiscreteLaplace(scale * (1 - 1e-12)).rho(shift) > rho
    assert laplace_scale_for_rho(1e9, 1) == MIN_SCALE


def test_costs_refuse_bad_input() -> None:
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError):
            gaussian_sigma_for_rho(bad, 1.0)
        with pytest.raises(ParameterError):
            gaussian_sigma_for_rho(1.0, bad)
        with pytest.raises(ParameterError):
            laplace_scale_for_rho(bad, 1)
        with pytest.raises(ParameterError):
            laplace_scale_for_rho(1.0, bad)
    for unreachable in (1e-40, 1e-300):
        with pytest.raises(ParameterError, match="must lie between"):
            gaussian_sigma_for_rho(unreachable, 1e10)
        with pytest.raises(ParameterError, match="must lie between"):
            laplace_scale_for_rho(unreachable, 1)
    with pytest.raises(ParameterError, match="whole"):
        DiscreteLaplace(1.0).rho(0.5)
    with pytest.raises(ParameterError):
        DiscreteGaussian(1.0).rho(-1.0)


# --- Gumbel ranking ---------------------------------------------------------------------------


def peeling_p(orders: Counter[tuple[int, ...]], weights: list[float], limit: int) -> float:
    """Chi-square of rankings against drawing without replacement in proportion to weights."""
    outcomes = list(permutations(range(len(weights)), limit))
    expected = np.empty(len(outcomes))
    for i, outcome in enumerate(outcomes):
        left, probability = sum(weights), 1.0
        for item in outcome:
            probability *= weights[item] / left
            left -= weights[item]
        expected[i] = probability
    observed = np.array([orders[outcome] for outcome in outcomes], dtype=float)
    assert observed.sum() == orders.total()
    return chi_square_p(observed, expected * orders.total())


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_gumbel_order_is_the_peeled_exponential_mechanism(limit: int) -> None:
    scores, offsets, epsilon = np.array([7, 5, 9, 6]), np.array([0.0, 0.5, -1.0, 0.25]), 0.7
    source = SeededSource(41)
    orders = Counter(
        tuple(gumbel_order(scores, epsilon, offsets, limit, source).tolist()) for _ in range(10_000)
    )

    def weights(eps: float) -> list[float]:
        return [float(w) for w in np.exp(eps * scores + offsets)]

    assert peeling_p(orders, weights(epsilon), limit) > IMPOSSIBLE
    assert peeling_p(orders, weights(epsilon * 1.3), limit) < IMPOSSIBLE


@pytest.mark.slow
def test_equal_first_words_are_told_apart_by_further_bits() -> None:
    """All keys collide in 64 bits; the rest must order equal scores uniformly."""
    orders: Counter[tuple[int, ...]] = Counter()
    then = SeededSource(42)
    for i in range(600):
        source = ScriptedSource([(i * 2**54 + 12345) % 2**64] * 3, then)
        orders[tuple(gumbel_order([5, 5, 5], 0.1, None, 2, source).tolist())] += 1
        assert source.drawn > 3
    assert peeling_p(orders, [1.0, 1.0, 1.0], 2) > IMPOSSIBLE
    assert peeling_p(orders, [2.5, 1.0, 1.0], 2) < IMPOSSIBLE


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_extreme_words_are_refined(word: int) -> None:
    source = ScriptedSource([word] * 2)
    assert sorted(gumbel_order([1, 1], 1.0, None, 2, source).tolist()) == [0, 1]
    assert source.drawn == 4


def test_a_collision_outside_the_places_asked_for_costs_no_bits() -> None:
    source = ScriptedSource([1, 2**63, 2**63, 2**63])
    assert gumbel_order([0, 0, 0, 0], 1.0, None, 1, source).tolist() == [0]
    assert source.drawn == 4


@pytest.mark.slow
def test_float_intervals_contain_the_exact_ones() -> None:
    words = SeededSource(43).words(300)
    edges = [0, 1, 2, 2**11, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2**11, 2**64 - 2, 2**64 - 1]
    words = np.concatenate((words, words >> np.uint64(40), np.array(edges, dtype=np.uint64)))
    low, high = _float_bounds(np.zeros(len(words)), np.zeros(len(words)), words)
    for i, word in enumerate(words.tolist()):
        exact_low, exact_high = gumbel_enclosure(word, 64)
        assert low[i] <= exact_low < exact_high <= high[i]
        finer_low, finer_high = gumbel_enclosure(word << 64 | 2**63, 128)
        assert exact_low <= finer_low < finer_high <= exact_high
    ordinary = (words > 2**40) & (words < 2**64 - 2**40)
    assert np.all((high - low)[ordinary] < 1e-3)


def test_score_types_agree() -> None:
    scores = np.array([3, -(2**62), 2**62, 2**62 - 1, 0])
    for seed in range(20):
        orders = [
            gumbel_order(same, 0.5, None, 5, SeededSource(seed)).tolist()
            for same in (scores, scores.tolist(), [Fraction(s) for s in scores.tolist()])
        ]
        assert orders[0] == orders[1] == orders[2]
        assert set(orders[0][:2]) == {2, 3}


def test_fractional_scores_and_offsets_shift_the_ranking() -> None:
    halves = [Fraction(1, 2), Fraction(200), Fraction(-401, 2)]
    assert gumbel_order(halves, 1.0, None, 3, SeededSource(44)).tolist() == [1, 0, 2]
    offsets = np.array([1e3, -1e3, 0.0])
    assert gumbel_order(halves, 1.0, offsets, 3, SeededSource(44)).tolist() == [0, 2, 1]


def test_limits_are_respected() -> None:
    source = SeededSource(45)
    assert gumbel_order([1, 2], 1.0, None, 0, source).tolist() == []
    assert gumbel_order([], 1.0, None, 3, source).tolist() == []
    assert gumbel_order([8], 1.0, None, 3, source).tolist() == [0]
    order = gumbel_order(np.zeros(5001, dtype=np.int64), 1.0, None, 10**6, source)
    assert sorted(order.tolist()) == list(range(5001))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 1e308])
def test_gumbel_refuses_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        gumbel_order([1], epsilon, None, 1, OSEntropy())


@pytest.mark.parametrize("offset", [math.inf, -math.inf, math.nan, 1e305])
def test_gumbel_refuses_bad_offsets(offset: float) -> None:
    with pytest.raises(ParameterError, match="offset"):
        gumbel_order([1, 2], 1.0, np.array([0.0, offset]), 1, OSEntropy())
    with pytest.raises(ParameterError, match="offset"):
        gumbel_order([1, 2], 1.0, np.array([0.0]), 1, OSEntropy())
    with pytest.raises(ParameterError, match="places"):
        gumbel_order([1, 2], 1.0, None, -1, OSEntropy())


def mills_to_many_digits(z: Decimal) -> Decimal:
    """P[N > z] / density(z) by its power series, with digits enough for what cancels."""
    with localcontext() as context:
        context.prec = 60 + int(z * z)
        root = (Decimal(2) * PI_60).sqrt() / 2
        total, term, odd = Decimal(0), z, 1
        while abs(term) > Decimal(10) ** -(context.prec - 5):
            total += term
            odd += 2
            term = term * z * z / odd
        return root * (z * z / 2).exp() - total


PI_60 = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


@pytest.mark.parametrize("z", ["0", "0.001", "0.5", "1", "3", "7.9", "8.1", "9.5"])
def test_the_mills_ratio_is_that_of_fifty_digits(z: str) -> None:
    exact = mills_to_many_digits(Decimal(z))
    assert abs(Decimal(mills_ratio(float(z))) / exact - 1) < Decimal("1e-13")

"""A group that one unit alone brings in is named with probability at most delta, and near delta."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from helpers.laws import (
    Counts,
    SeededSource,
    difference_tail,
    gaussian_top_k_law,
    gumbel_law,
    hockey_stick,
    log_cdf,
    log_pmf,
    neighbours,
    peeled_law,
    tail,
    top_of,
)

from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.sampling.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeNoise,
)

Noise = DiscreteGaussian | DiscreteLaplace
DELTAS = (0.3, 0.05, 1e-3, 1e-6, 1e-9, 1e-15)
NOISES = (
    DiscreteGaussian(0.4),
    DiscreteGaussian(1.0),
    DiscreteGaussian(3.7),
    DiscreteGaussian(41.0),
    DiscreteLaplace(0.3),
    DiscreteLaplace(1.0),
    DiscreteLaplace(2.9),
    DiscreteLaplace(30.0),
)


def positive(noise: Noise, groups: int, delta: float, floor: int) -> PositiveCounts:
    return PositiveCounts(IndependentNoise(noise, 1), groups, delta, floor)


def any_of(probability: float, groups: int) -> float:
    """P[at least one of independent events], without cancellation."""
    return -math.expm1(groups * math.log1p(-probability))


# -- every large group ------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("groups", [1, 2, 10, 5000])
@pytest.mark.parametrize("floor", [0, 4])
def test_fresh_groups_are_named_with_probability_at_most_delta_and_no_lower_threshold_does(
    noise: Noise, groups: int, floor: int
) -> None:
    for delta in DELTAS:
        mechanism = positive(noise, groups, delta, floor)
        fresh = floor + 1
        named = any_of(tail(noise, mechanism.threshold - fresh), groups)
        lower = any_of(tail(noise, mechanism.threshold - 1 - fresh), groups)
        assert named <= delta * (1 + 1e-11)
        assert lower > delta * (1 - 1e-9), "the threshold is needlessly high"


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("skipped", [1, 3])
def test_leaving_out_small_groups_unnoticed_costs_more_than_all_of_delta(
    noise: Noise, skipped: int
) -> None:
    """A raised group crosses the cut more often than a fresh one the threshold, but for a floor."""
    for delta in DELTAS:
        mechanism = positive(noise, 10, delta, 0)
        crossing = any_of(tail(noise, mechanism.threshold - (skipped + 1)), 10)
        assert crossing > delta * (1 - 1e-9)
        with_floor = positive(noise, 10, delta, skipped)
        assert with_floor.threshold == mechanism.threshold + skipped
        assert any_of(tail(noise, with_floor.threshold - (skipped + 1)), 10) <= delta * (1 + 1e-11)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.7])
@pytest.mark.parametrize("groups", [1, 7])
def test_the_boundary_holds_in_forty_digit_arithmetic(sigma: float, groups: int) -> None:
    for delta in DELTAS:
        threshold = positive(DiscreteGaussian(sigma), groups, delta, 0).threshold
        with localcontext() as context:
            context.prec = 40
            two_variances = 2 * Decimal(sigma) ** 2
            weights = {x: (-Decimal(x * x) / two_variances).exp() for x in range(-60, 61)}
            above = sum(w for x, w in weights.items() if 1 + x > threshold)
            shown = above / sum(weights.values())
            assert 1 - (1 - shown) ** groups <= Decimal(delta)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.9])
def test_a_laplace_boundary_holds_by_its_closed_form(scale: float) -> None:
    for delta in DELTAS:
        threshold = positive(DiscreteLaplace(scale), 1, delta, 0).threshold
        with localcontext() as context:
            context.prec = 40
            q = (-1 / Decimal(scale)).exp()
            # A count of 1 exceeds t with P[Z >= t], which is q**t/(1 + q) for t >= 0.
            t = threshold
            above = q**t / (1 + q) if t >= 0 else 1 - q ** (1 - t) / (1 + q)
            assert above <= Decimal(delta)


def test_groups_at_or_below_the_floor_are_never_named() -> None:
    mechanism = positive(DiscreteGaussian(50.0), 1, 0.4, 9)
    scores = np.arange(10, dtype=np.int64).repeat(1000)
    assert len(mechanism.select(scores, SeededSource(1)).indices) == 0


# -- Gaussian top-k ---------------------------------------------------------------------------


def gaussian_top_k(
    sigma: float, sensitivity: int, groups: int, k_bar: int, delta: float, floor: int = 0
) -> GaussianTopK:
    noise = IndependentNoise(DiscreteGaussian(sigma), sensitivity)
    return GaussianTopK(noise, groups, k_bar, delta, floor)


def crossing_released(mechanism: GaussianTopK, one: Counts, other: Counts) -> float:
    """P[a group of the top k_bar of ``one`` but not of ``other`` comes out], on ``one``."""
    noise = mechanism.noise.noise
    top, base = top_of(one, mechanism.k_bar, mechanism.floor)
    crossing = set(top) - set(top_of(other, mechanism.k_bar, mechanism.floor)[0])
    center = base + mechanism.threshold
    width = math.ceil(12 * noise.spread) + 12
    x = np.arange(center - width, center + width)
    log_hidden = log_pmf(noise, x - center)
    for i in crossing:
        log_hidden = log_hidden + log_cdf(noise, x - one[i])
    return 1.0 - math.fsum(np.exp(log_hidden)) if crossing else 0.0


@pytest.mark.parametrize(("sensitivity", "floor"), [(1, 0), (1, 1), (2, 0)])  # floors: units only
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("k_bar", [1, 2])
def test_groups_that_cross_the_edge_of_the_top_are_named_with_probability_at_most_delta(
    sensitivity: int, groups: int, k_bar: int, floor: int
) -> None:
    mechanism = gaussian_top_k(1.3, sensitivity, groups, k_bar, 0.2, floor)
    worst = 0.0
    for without, with_unit in neighbours(3, 3, groups, sensitivity, floor):
        worst = max(
            worst,
            crossing_released(mechanism, without, with_unit),
            crossing_released(mechanism, with_unit, without),
        )
    each = mechanism.delta / min(groups, k_bar)
    at_worst = difference_tail(DiscreteGaussian(1.3), mechanism.threshold - sensitivity)
    assert (
        at_worst
        <= each
        < difference_tail(DiscreteGaussian(1.3), mechanism.threshold - sensitivity - 1)
    )
    assert worst <= mechanism.delta
    assert worst >= at_worst * 0.999, "the worst case is reached, so the threshold is not loose"


@pytest.mark.parametrize("sigma", [1.0, 6.5, 80.0])
@pytest.mark.parametrize("groups", [1, 10, 1000])
def test_the_top_k_threshold_is_the_smallest_for_its_delta(sigma: float, groups: int) -> None:
    for delta in DELTAS[1:]:
        for k_bar in (1, 3, 1000):
            mechanism = gaussian_top_k(sigma, 5, groups, k_bar, delta)
            each = delta / min(groups, k_bar)
            noise = DiscreteGaussian(sigma)
            t = mechanism.threshold - 5
            assert difference_tail(noise, t) <= each * (1 + 1e-11)
            assert difference_tail(noise, t - 1) > each * (1 - 2e-8)


class NoSensitivity(GaussianTopK):
    """The threshold forgets that a unit lifts a group by up to the sensitivity."""

    @property
    def threshold(self) -> int:
        return super().threshold - self.noise.sensitivity


class NonStrict(GaussianTopK):
    """A noisy count equal to the noisy threshold is released too."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


class UnionForgotten(GaussianTopK):
    """The whole of delta for each of the groups a unit brings in."""

    @property
    def threshold(self) -> int:
        alone = GaussianTopK(self.noise, 1, 1, self.delta, self.floor)
        return alone.threshold


@pytest.mark.parametrize(
    ("broken", "groups", "sensitivity"),
    [(NoSensitivity, 1, 3), (NonStrict, 1, 1), (UnionForgotten, 3, 1)],
)
def test_broken_top_k_thresholds_are_caught_exactly(
    broken: type[GaussianTopK], groups: int, sensitivity: int
) -> None:
    noise = IndependentNoise(DiscreteGaussian(1.5), sensitivity)
    mechanism = broken(noise, groups, groups, 0.4, 0)
    nothing, fresh = (0,) * groups, (sensitivity,) * groups
    assert crossing_released(mechanism, fresh, nothing) > mechanism.delta


def test_padding_is_never_released() -> None:
    """The printed algorithm fills the top up with empty groups; here they do not exist."""
    mechanism = gaussian_top_k(40.0, 1, 1, 50, 0.4)
    source = SeededSource(2)
    for scores in ([], [7], [9, 7, 0]):
        for _ in range(300):
            released = mechanism.select(np.array(scores, dtype=np.int64), source).indices
            assert set(released) <= set(np.flatnonzero(np.array(scores) > 0))


# -- Gumbel top-k -----------------------------------------------------------------------------


def gumbel(
    epsilon: float,
    k: int,
    k_bar: int,
    delta: float,
    sensitivity: int = 1,
    floor: int = 0,
    groups: int | None = None,
) -> GumbelTopK:
    return GumbelTopK(epsilon, sensitivity, k, k_bar, delta, floor, groups)


def domain_of(mechanism: GumbelTopK, counts: Counts, strict: bool) -> set[int]:
    """The groups that compete; with ``strict``, only those above the (k_bar+1)-th count."""
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    return {i for i in top if counts[i] > base} if strict else set(top)


def differing_released(
    mechanism: GumbelTopK, one: Counts, other: Counts, strict: bool = False
) -> float:
    """P[an ordering that holds a group outside the common domain], on ``one``."""
    domain = domain_of(mechanism, one, strict)
    common = domain & domain_of(mechanism, other, strict)
    base = top_of(one, mechanism.k_bar, mechanism.floor)[1]
    rate = mechanism.epsilon / mechanism.sensitivity
    weights = {i: math.exp(rate * (one[i] - base)) for i in sorted(domain)}
    law = peeled_law(weights, math.exp(mechanism.stop_offset), mechanism.k)
    return math.fsum(p for order, p in law.items() if not common.issuperset(order))


def worst_differing(
    mechanism: GumbelTopK, size: int, largest: int, strict: bool = False, touched: int | None = None
) -> float:
    """The worst over all pairs in which a unit touches what the mechanism counts on, at most."""
    allowed = touched or mechanism.groups or size
    pairs = neighbours(size, largest, allowed, mechanism.sensitivity, mechanism.floor)
    return max(
        max(
            differing_released(mechanism, a, b, strict), differing_released(mechanism, b, a, strict)
        )
        for a, b in pairs
    )


@pytest.mark.parametrize(
    ("k", "k_bar"), [(k, k_bar) for k_bar in (1, 2, 3) for k in range(1, k_bar + 1)]
)
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_on_every_small_pair_of_neighbours_gumbel_names_a_differing_group_at_most_delta(
    k: int, k_bar: int, delta: float
) -> None:
    mechanism = gumbel(1.2, k, k_bar, delta)
    worst = worst_differing(mechanism, 3, 4)
    assert worst <= delta
    if k == k_bar == 1:
        assert worst > delta / (1 + delta) * (1 - 1e-9), "the offset is not needlessly large"


@pytest.mark.parametrize(("sensitivity", "floor"), [(1, 2), (2, 0), (3, 0)])
def test_gumbel_keeps_delta_with_a_floor_and_with_larger_steps(
    sensitivity: int, floor: int
) -> None:
    mechanism = gumbel(0.8, 2, 2, 0.2, sensitivity, floor)
    assert worst_differing(mechanism, 3, 4) <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_four_groups_gumbel_names_a_differing_group_at_most_delta(delta: float) -> None:
    assert worst_differing(gumbel(1.2, 3, 3, delta), 4, 4) <= delta


class SmallK(GumbelTopK):
    """ln(1/delta) in place of ln(k_bar/delta): valid only if a unit touches one group."""

    @property
    def stop_offset(self) -> float:
        return self.epsilon + math.log(1 / self.delta)


class NoUnitAboveBase(GumbelTopK):
    """The stopping symbol starts at the base, without the sensitivity."""

    @property
    def stop_offset(self) -> float:
        return math.log(self.k_bar / self.delta)


@pytest.mark.parametrize(("broken", "k", "k_bar"), [(SmallK, 2, 3), (NoUnitAboveBase, 1, 1)])
def test_broken_gumbel_offsets_are_caught_exactly(
    broken: type[GumbelTopK], k: int, k_bar: int
) -> None:
    mechanism = broken(1.2, 1, k, k_bar, 0.2, 0)
    assert worst_differing(mechanism, 3, 4) > 0.2


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("k", "k_bar"), [(1, 1), (1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize(("sensitivity", "floor"), [(1, 0), (1, 2), (2, 0)])
def test_a_capped_gumbel_names_a_differing_group_at_most_delta_on_every_small_pair(
    groups: int, k: int, k_bar: int, sensitivity: int, floor: int
) -> None:
    mechanism = gumbel(1.2, k, k_bar, 0.2, sensitivity, floor, groups)
    assert mechanism.crossing == min(groups, k_bar)
    worst = worst_differing(mechanism, 4 if k_bar < 3 else 3, 3, strict=False)
    assert worst <= 0.2
    if groups == k == 1:
        assert worst > 0.2 / 1.2 * (1 - 1e-9), "the offset is not needlessly large"


def test_the_domain_with_ties_loses_no_more_groups_than_a_unit_touches_a_strict_one_does() -> None:
    lost = {True: 0, False: 0}
    mechanism = gumbel(1.2, 3, 3, 0.2, groups=1)
    for a, b in neighbours(4, 2, 1, 1):
        for strict in lost:
            gone = domain_of(mechanism, a, strict) - domain_of(mechanism, b, strict)
            lost[strict] = max(lost[strict], len(gone))
    assert lost == {True: 3, False: 1}


def test_a_strict_domain_with_the_cap_is_caught_and_with_k_bar_it_is_not() -> None:
    """Keeping only counts above the base, one raised group empties a top of ties."""
    capped, free = gumbel(1.2, 3, 3, 0.2, groups=1), gumbel(1.2, 3, 3, 0.2)
    assert worst_differing(capped, 4, 2, strict=True) > 0.2
    assert worst_differing(capped, 4, 2, strict=False) <= 0.2
    assert worst_differing(free, 4, 2, strict=True) <= 0.2


def test_a_cap_that_is_not_enforced_is_caught() -> None:
    assert worst_differing(gumbel(1.2, 3, 3, 0.2, groups=1), 3, 3, touched=3) > 0.2


def test_the_gumbel_offset_is_rounded_up() -> None:
    for epsilon, k_bar, delta in itertools.product((1e-6, 0.3, 9.0), (1, 777), (1e-15, 0.1)):
        mechanism = gumbel(epsilon, 1, k_bar, delta)
        with localcontext() as context:
            context.prec = 40
            exact = Decimal(epsilon) + (k_bar / Decimal(delta)).ln()
        assert Fraction(mechanism.stop_offset) > Fraction(exact)


# -- the tools --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES[:6], ids=repr)
def test_independent_tails_agree_with_the_product(noise: LatticeNoise) -> None:
    for t in (-3, 0, 1, 4, 9):
        assert noise.sf(t) == pytest.approx(tail(noise, t), rel=1e-9)


def test_laws_are_probabilities() -> None:
    grid = np.arange(-40, 60)
    mechanism = gaussian_top_k(1.5, 1, 1, 2, 0.2)
    law = gaussian_top_k_law(mechanism, (3, 2, 2), grid)
    assert sum(float(v.sum()) for v in law.values()) == pytest.approx(1, abs=1e-12)
    assert hockey_stick(law, law, 0.0) == 0.0
    orders: dict[tuple[int, ...], float] = gumbel_law(gumbel(1.0, 2, 2, 0.1), (3, 2, 2))
    assert math.fsum(orders.values()) == pytest.approx(1, abs=1e-12)

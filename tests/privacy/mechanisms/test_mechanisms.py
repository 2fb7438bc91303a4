"""Each mechanism draws from the law its guarantee was computed for, and from no other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    SeededSource,
    as_returned,
    chi_square_p,
    flat,
    gaussian_top_k_law,
    gumbel_law,
    log_pmf,
    outcome,
    positive_counts_law,
)
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.privacy.mechanisms.registry import ENTRIES, names
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK, split_base
from dpsql.privacy.sampling.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeNoise,
    OSEntropy,
)

Noise = DiscreteGaussian | DiscreteLaplace
RUNS = 4_000
WRONG = (0.7, 1.3)


def rescaled(noise: Noise, factor: float) -> Noise:
    return type(noise)(noise.spread * factor)


def additive(noise: Noise) -> IndependentNoise:
    return IndependentNoise(noise, 1)


def values_p(drawn: NDArray[np.float64], law: dict[Hashable, float]) -> float:
    return chi_square_p(Counter(drawn.tolist()), law)


def law_of(noise: LatticeNoise) -> dict[Hashable, float]:
    x = np.arange(-400, 401)
    return dict(zip(x.astype(float).tolist(), np.exp(log_pmf(noise, x)), strict=True))


# -- additive noise ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [DiscreteGaussian(0.6), DiscreteGaussian(5.0), DiscreteLaplace(0.6), DiscreteLaplace(5.0)],
    ids=repr,
)
def test_independent_noise_has_its_law_on_every_value_and_no_other_scale(noise: Noise) -> None:
    values = np.repeat(np.array([-7, 0, 1000, 2**61], dtype=np.int64), 20_000)
    noisy = additive(noise).add(values, SeededSource(1))
    for part, start in zip(np.split(noisy, 4), (-7, 0, 1000, 2**61), strict=True):
        if start < 2**50:
            assert values_p(part - start, law_of(noise)) > IMPOSSIBLE
            for factor in WRONG:
                assert values_p(part - start, law_of(rescaled(noise, factor))) < IMPOSSIBLE


def pair_law(noise: CorrelatedGaussian, groups: int) -> dict[Hashable, float]:
    """The joint law of two noises, in half-steps, from the definition."""
    own = DiscreteGaussian(2 * noise.sigma)
    shared = DiscreteGaussian(2 * noise.sigma / groups**0.25)
    x, z = np.arange(-40, 41), np.arange(-60, 61)
    conditional = np.exp(log_pmf(own, np.arange(-100, 101)))[x[:, None] - z[None, :] + 100]
    joint = np.einsum("xz,yz,z->xy", conditional, conditional, np.exp(log_pmf(shared, z)))
    return {(int(a), int(b)): float(joint[a + 40, b + 40]) for a in x for b in x}


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 5])
def test_correlated_noise_has_its_joint_law_and_no_other_scale(groups: int) -> None:
    noise, source = CorrelatedGaussian(1.5, 1), SeededSource(4)
    values = np.arange(groups, dtype=np.int64) * 10
    drawn: Counter[Hashable] = Counter()
    for _ in range(RUNS):
        first, last = (2 * (noise.add(values, source) - values)).astype(int)[[0, -1]]
        drawn[int(first), int(last)] += 1
    assert chi_square_p(drawn, pair_law(noise, groups)) > IMPOSSIBLE
    for factor in WRONG:
        assert chi_square_p(drawn, pair_law(CorrelatedGaussian(1.5 * factor, 1), groups)) < (
            IMPOSSIBLE
        )


@dataclass(frozen=True, slots=True)
class FixedDraws:
    """Words that make every draw the same: only the rounding of the sum is looked at."""

    seed: int

    def words(self, n: int) -> NDArray[np.uint64]:
        return SeededSource(self.seed).words(n)


@pytest.mark.parametrize("seed", range(8))
def test_large_values_are_rounded_after_their_noise_not_before(seed: int) -> None:
    """Rounding the exact value first would let it move by more than its sensitivity."""
    noise = CorrelatedGaussian(9.0, 1)
    small = noise.add(np.zeros(3, dtype=np.int64), FixedDraws(seed))
    for value in (2**53 + 1, 2**60 + 127, 2**60 + 129, -(2**58) - 33):
        large = noise.add(np.full(3, value, dtype=np.int64), FixedDraws(seed))
        exact = [float(value + math.floor(x)) + (x - math.floor(x)) for x in small]
        assert large.tolist() == exact


def test_noise_on_no_values_is_no_values() -> None:
    empty = np.empty(0, dtype=np.int64)
    for noise in (additive(DiscreteGaussian(2.0)), CorrelatedGaussian(2.0, 1)):
        assert noise.add(empty, OSEntropy()).shape == (0,)
    assert CorrelatedGaussian(2.0, 1).rho(0) == 0.0


@pytest.mark.parametrize("groups", [1, 2, 10, 100])
def test_the_stated_standard_deviation_is_that_of_the_law(groups: int) -> None:
    noise = CorrelatedGaussian(3.0, 1)
    expected = math.sqrt(9 + 9 / math.sqrt(groups))
    assert noise.std(groups) == pytest.approx(expected, rel=1e-9)
    independent = math.sqrt(groups) * math.sqrt(1 / (2 * noise.rho(groups)))
    saved = (math.sqrt(groups) + 1) ** 2 / (4 * groups)
    assert noise.std(groups) ** 2 == pytest.approx(saved * independent**2, rel=1e-6)


# -- every large group ------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [DiscreteGaussian(3.0), DiscreteLaplace(2.0)], ids=repr)
def test_positive_counts_release_by_their_law_and_no_other_scale(noise: Noise) -> None:
    mechanism = PositiveCounts(additive(noise), 1, 0.05, 0)
    count, grid = mechanism.threshold + 1, np.arange(-40, 80)
    scores = np.full(30_000, count, dtype=np.int64)
    released = mechanism.select(scores, SeededSource(7))
    assert released.noisy is not None
    drawn = Counter(outcome([0], [value]) for value in released.noisy)
    drawn[(), ()] = len(scores) - len(released.indices)

    def law(factor: float) -> dict[Hashable, float]:
        scaled = Fixed(additive(rescaled(noise, factor)), 1, 0.05, 0)
        return flat(positive_counts_law(scaled, (count,), grid), grid)

    assert chi_square_p(drawn, law(1.0)) > IMPOSSIBLE
    for factor in WRONG:
        assert chi_square_p(drawn, law(factor)) < IMPOSSIBLE


class Fixed(PositiveCounts):
    """The threshold of the tests above whatever the scale, so that only the noise differs."""

    @property
    def threshold(self) -> int:
        original = DiscreteGaussian(3.0) if self.noise.name == "gaussian" else DiscreteLaplace(2.0)
        return PositiveCounts(additive(original), 1, 0.05, 0).threshold


def test_released_scores_belong_to_the_released_groups() -> None:
    mechanism = PositiveCounts(additive(DiscreteGaussian(2.0)), 3, 1e-6, 0)
    scores = np.array([100, 1, 20_000, 3, 4_000_000], dtype=np.int64)
    released = mechanism.select(scores, SeededSource(1))
    assert released.indices.tolist() == [0, 2, 4]
    assert released.noisy is not None
    assert bool((np.abs(released.noisy - scores[[0, 2, 4]]) < 20).all())


def test_a_known_domain_releases_every_group_in_order() -> None:
    assert KnownDomain(4).select(np.zeros(4, dtype=np.int64), OSEntropy()).indices.tolist() == [
        0,
        1,
        2,
        3,
    ]


# -- top-k ------------------------------------------------------------------------------------


def test_the_base_is_the_score_after_the_top_and_never_below_the_floor() -> None:
    scores = np.array([9, 7, 7, 3], dtype=np.int64)
    values, candidates, base = split_base(scores, 3, 0)
    assert (values.tolist(), candidates.tolist(), base) == ([9, 7, 7], [0, 1, 2], 3)
    assert split_base(scores, 4, 0)[2] == 0
    assert split_base(scores, 3, 5)[2] == 5
    values, candidates, base = split_base(scores[::-1].copy()[:2], 2, 4)
    assert (values.tolist(), candidates.tolist(), base) == ([7], [1], 4)
    assert split_base(np.empty(0, dtype=np.int64), 3, 0)[2] == 0


def drawn_top_k(mechanism: GaussianTopK, counts: tuple[int, ...]) -> Counter[Hashable]:
    source, found = SeededSource(9), Counter[Hashable]()
    scores, whose = as_returned(counts, mechanism.k_bar, mechanism.floor)
    for _ in range(RUNS):
        selected = mechanism.select(scores, source)
        assert selected.noisy is not None
        found[outcome([whose[i] for i in selected.indices], selected.noisy)] += 1
    return found


def test_gaussian_top_k_releases_by_its_law_and_no_other_scale() -> None:
    grid, counts = np.arange(-25, 50), (3, 9, 8, 4)
    mechanism = GaussianTopK(additive(DiscreteGaussian(1.5)), 1, 2, 0.3, 0)
    drawn = drawn_top_k(mechanism, counts)
    assert chi_square_p(drawn, flat(gaussian_top_k_law(mechanism, counts, grid), grid)) > IMPOSSIBLE
    for factor in WRONG:
        scaled = replace(mechanism, noise=additive(DiscreteGaussian(1.5 * factor)))
        law = flat(gaussian_top_k_law(scaled, counts, grid), grid)
        assert chi_square_p(drawn, law) < IMPOSSIBLE


def test_gaussian_top_k_compares_strictly_with_a_noisy_threshold() -> None:
    """A law with a lower threshold, or one tie more, does not fit."""
    grid, counts = np.arange(-25, 50), (3, 9, 8, 4)
    mechanism = GaussianTopK(additive(DiscreteGaussian(1.5)), 1, 2, 0.3, 0)
    drawn = drawn_top_k(mechanism, counts)
    looser = OneLower(mechanism.noise, 1, 2, 0.3, 0)
    assert chi_square_p(drawn, flat(gaussian_top_k_law(looser, counts, grid), grid)) < IMPOSSIBLE


class OneLower(GaussianTopK):
    """A non-strict comparison."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


def drawn_orders(mechanism: GumbelTopK, counts: tuple[int, ...]) -> Counter[Hashable]:
    source, found = SeededSource(11), Counter[Hashable]()
    scores, whose = as_returned(counts, mechanism.k_bar, mechanism.floor)
    for _ in range(3 * RUNS):
        selected = mechanism.select(scores, source)
        assert selected.noisy is None
        found[tuple(whose[i] for i in selected.indices)] += 1
    return found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mechanism",
    [GumbelTopK(1.0, 1, 2, 3, 0.2, 0), GumbelTopK(1.6, 2, 3, 3, 0.1, 1)],
    ids=repr,
)
def test_gumbel_top_k_releases_orders_by_its_law_and_no_other_epsilon(
    mechanism: GumbelTopK,
) -> None:
    counts = (4, 8, 7, 9, 3)
    drawn = drawn_orders(mechanism, counts)
    assert chi_square_p(drawn, gumbel_law(mechanism, counts)) > IMPOSSIBLE
    for factor in WRONG:
        scaled = replace(mechanism, epsilon=mechanism.epsilon * factor)
        assert chi_square_p(drawn, gumbel_law(scaled, counts)) < IMPOSSIBLE


def test_gumbel_releases_at_most_k_and_charges_the_stop_when_fewer_came() -> None:
    mechanism = GumbelTopK(1.0, 1, 3, 10, 0.1, 0)
    assert [mechanism.rho(n) / mechanism.pick_cost(Composition.ZCDP) for n in (0, 1, 2, 3)] == [
        1,
        2,
        3,
        3,
    ]
    assert mechanism.rho(None) == mechanism.rho(3)
    plenty = np.full(11, 10**9, dtype=np.int64)
    plenty[10] = 0
    assert len(mechanism.select(plenty, OSEntropy()).indices) == 3
    assert len(mechanism.select(np.empty(0, dtype=np.int64), OSEntropy()).indices) == 0


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_a_group_as_large_as_stated_appears_with_the_stated_probability(
    probability: float,
) -> None:
    """What EXPLAIN promises about the size a group needs."""
    source, runs = SeededSource(13), 2500
    slack = 6 * math.sqrt(probability * (1 - probability) / runs)
    noise = additive(DiscreteGaussian(6.0))
    positive = PositiveCounts(noise, 2, 1e-4, 0)
    needed = math.ceil(positive.score_for_inclusion(probability) or 0)
    scores = np.full(runs, needed, dtype=np.int64)
    # At the threshold itself half of the lattice's tie counts against the group.
    tie = 0.05 if probability == 0.5 else 0.0
    found = len(positive.select(scores, source).indices) / runs
    assert found >= probability - slack - tie
    for mechanism in (
        GaussianTopK(noise, 2, 3, 1e-4, 0),
        GumbelTopK(0.7, 1, 1, 3, 1e-4, 0),
    ):
        needed = math.ceil(mechanism.score_for_inclusion(probability) or 0)
        lone = np.array([needed], dtype=np.int64)
        found = sum(len(mechanism.select(lone, source).indices) for _ in range(runs)) / runs
        assert found >= probability - slack - tie


# -- the registry -----------------------------------------------------------------------------


def test_an_entry_is_known_by_one_name_and_builds_something() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.priced_in for entry in ENTRIES)
    assert {*names()} == {entry.name for entry in ENTRIES if entry.planned}
    assert {*names()} - {*names(one_shot=False)} == {e.name for e in ENTRIES if e.one_shot}

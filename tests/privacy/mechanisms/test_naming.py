"""Rounds that remember: their price, what a unit brings about in any round, noise of means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from helpers.cascade_rows import PairRows
from helpers.laws import SeededSource, lower_bound
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps, gaussian
from dpsql.privacy.mechanisms.cascade import KEPT_CHOICES
from dpsql.privacy.mechanisms.naming import (
    GroupWeights,
    Integers64,
    MeanNoise,
    NamingRound,
    RoundMemory,
    naming_rounds,
)
from dpsql.privacy.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
    Weights,
    fresh_delta,
    weight_of,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, EntropySource

PARTS, DELTAS = (1, 4, 15), (0.05, 0.1, 0.85)


def rounds(
    rho: float = 0.05, delta: float = 1e-6, kept: int = 30, floor: int = 0
) -> tuple[NamingRound, ...]:
    return naming_rounds(
        PrivacyLoss(rho), PARTS, [delta * d for d in DELTAS], Weights(1, kept), floor
    )


# -- the price --------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-6, 0.0123, 40.0])
def test_rounds_divide_the_price_and_the_last_has_the_noise_of_all_of_it(rho: float) -> None:
    found = rounds(rho)
    assert 0.9999 * rho < sum(one.rho(None) for one in found) <= rho
    for one, done in zip(found, np.cumsum(PARTS) / sum(PARTS), strict=True):
        assert one.noise.std == pytest.approx(
            gaussian(PrivacyLoss(rho * done), WEIGHT_STEPS, 1).noise.std
        )


def test_each_round_hides_a_units_keys_up_to_its_delta() -> None:
    for delta in (0.1, 1e-8):
        for kept in KEPT_CHOICES:
            for one in rounds(delta=delta, kept=kept):
                shown = fresh_delta(one.noise, one.threshold, one.weights)
                assert 0.99 * one.delta < shown <= one.delta


def test_noise_of_a_few_steps_has_no_mean() -> None:
    with pytest.raises(ParameterError):
        MeanNoise((1, 1), (DiscreteGaussian(2.0), DiscreteGaussian(100.0)))


# -- the noise of a mean ----------------------------------------------------------------------


def exact_tail(mean: MeanNoise) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sums of the scaled noises of two rounds, and their exact chances to be exceeded."""
    from scipy.signal import fftconvolve

    laws = []
    for part, noise in zip(mean.parts, mean.noises, strict=True):
        reach = math.ceil(9 * noise.sigma)
        law = np.zeros(2 * reach * part + 1)
        law[::part] = noise.pmf(np.arange(-reach, reach + 1))
        laws.append(law)
    law = fftconvolve(*laws)
    sums = np.arange(len(law), dtype=np.int64) - len(law) // 2
    return sums, np.cumsum(law[::-1])[::-1] - law


@pytest.mark.parametrize(
    ("parts", "sigmas"), [((1, 4), (4000.0, 2000.0)), ((3, 10), (900.0, 500.0))]
)
def test_the_tail_of_a_mean_is_bounded_closely(
    parts: tuple[int, int], sigmas: tuple[float, float]
) -> None:
    mean = MeanNoise(parts, (DiscreteGaussian(sigmas[0]), DiscreteGaussian(sigmas[1])))
    sums, tails = exact_tail(mean)
    for z in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0):
        t = round(z * mean.sigma)
        exact = float(tails[np.searchsorted(sums, t * sum(parts))])
        assert exact <= mean.sf(t)
        assert mean.sf(t) <= exact * math.exp((z + 1) * 66 / mean.sigma)
        assert mean.sf(mean.quantile_sf(exact)) <= exact


def test_a_tail_without_the_square_root_would_be_noticed() -> None:
    """Means are not as wide as the widest of what they are of, nor as narrow as the narrowest."""
    mean = rounds()[2].noise
    assert min(n.sigma for n in mean.noises) > mean.sigma > 0.8 * mean.noises[2].sigma


# -- what one unit moves, in all rounds -------------------------------------------------------


class OrderOfTheRound(PairRows):
    """A cap whose order is another in each round: a unit may drop a key that it kept before."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        order = (self.order * 997 + self.keys * 0.37 * (1 + len(named))) % 1
        rows = PairRows(self.units, self.keys, order, self.minimum)
        return rows.unnamed_weights(named, kept)


class SilentBelowTheMinimum(PairRows):
    """Weights of keys with the minimum of units only."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        found = PairRows.unnamed_weights(self, named, kept)
        some = found.enough
        return GroupWeights(found.ids[some], found.weights[some], found.enough[some])


class NoMinimumBefore(PairRows):
    """A minimum that counts all units with the key, not those that keep it."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        found = PairRows.unnamed_weights(self, named, kept)
        have = np.bincount(self.keys, minlength=100)
        return GroupWeights(found.ids, found.weights, have[found.ids] >= self.minimum)


def worlds(kind: type[PairRows], count: int) -> Iterator[tuple[PairRows, PairRows]]:
    """Random rows, and the same without one of their units."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        held = np.argwhere(rng.random((7, 9)) < rng.random((7, 1)))
        order, minimum = rng.random(len(held)), 1 + seed % 3
        for unit in range(7):
            left = held[:, 0] != unit
            yield (
                kind(held[:, 0], held[:, 1], order, minimum),
                kind(held[left, 0], held[left, 1], order[left], minimum),
            )


def weighed(rows: PairRows, named: Integers64, kept: int) -> tuple[NDArray[np.int64], set[int]]:
    """The weights of all nine keys, and which are eligible."""
    found, dense = rows.unnamed_weights(named, kept), np.zeros(9, np.int64)
    dense[found.ids] = found.weights
    return dense, set(found.ids[found.enough].tolist())


def problems(kind: type[PairRows], count: int) -> set[str]:
    """What a unit does in some round, given any names before, that thresholds do not expect."""
    seen: set[str] = set()
    for number, (mine, others) in enumerate(worlds(kind, count)):
        rng = np.random.default_rng(number)
        names, kept = rng.permutation(9)[: rng.integers(0, 6)], int(rng.integers(1, 5))
        ends, done = np.sort(rng.integers(0, len(names) + 1, 2)), 0
        sums = np.zeros(9)
        for part, end in zip(PARTS, (0, *ends.tolist()), strict=True):
            named = np.sort(names[:end])
            (one, may), (two, might) = (weighed(rows, named, kept) for rows in (mine, others))
            if np.sum((one - two) ** 2) > WEIGHT_STEPS**2:
                seen.add("moves")
            if not might <= may:
                seen.add("hides")
            sums, done, fresh = sums + part * one, done + part, sorted(may - might)
            most = (mine.minimum - 1) * WEIGHT_STEPS + weight_of(1, max(1, len(fresh)))
            if len(fresh) > kept or np.any(sums[fresh] / done > most):
                seen.add("fresh")
    return seen


@pytest.mark.slow
def test_a_unit_does_in_each_round_what_thresholds_expect_of_all_rounds_so_far() -> None:
    assert problems(PairRows, 60) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "what"),
    [(OrderOfTheRound, "fresh"), (SilentBelowTheMinimum, "moves"), (NoMinimumBefore, "fresh")],
)
def test_the_audit_of_rounds_that_remember_notices(broken: type[PairRows], what: str) -> None:
    assert what in problems(broken, 60)


# -- what is drawn ----------------------------------------------------------------------------


class Forgetful(RoundMemory):
    """Keys that are weighed for the first time have no noise of the rounds before."""

    def _before(self, ids: Integers64, source: EntropySource) -> Steps:
        self._rounds = []
        return super()._before(ids, source)


class Redrawn(RoundMemory):
    """What was measured before is drawn anew."""

    def _before(self, ids: Integers64, source: EntropySource) -> Steps:
        self._ids = self._ids[:0]
        return super()._before(ids, source)


def of_keys(ids: NDArray[np.int64], weight: int, enough: bool) -> GroupWeights:
    whole = np.full(len(ids), weight * WEIGHT_STEPS, np.int64)
    return GroupWeights(ids, whole, np.full(len(ids), enough))


def spread_of(memory: RoundMemory, first_seen: int) -> float:
    """The deviation of means of keys weighed from a round on, beside what the last round states."""
    found, source, ids = rounds(0.05, 1e-3), SeededSource(5), np.arange(4_000)
    for number, one in enumerate(found[:2]):
        seen = ids if number >= first_seen else ids[:0]
        memory.named(one, of_keys(seen[::-1], 1_000, False), source)
    named, means = memory.named(found[2], of_keys(ids, 1_000, True), source)
    assert np.array_equal(named, ids)
    return float(means.std()) / found[2].noise.std


@pytest.mark.parametrize("first_seen", [0, 1, 2])
def test_each_mean_has_the_noise_of_all_rounds_whenever_its_key_is_first_weighed(
    first_seen: int,
) -> None:
    assert spread_of(RoundMemory(), first_seen) == pytest.approx(1, abs=0.04)


def test_noise_that_is_left_out_is_noticed() -> None:
    assert spread_of(Forgetful(), 2) < 0.92


def sum_over_rounds(memory: RoundMemory) -> float:
    """How well the first round's measurement of keys is remembered by the second."""
    one, two, _ = rounds(0.05, 1e-3)
    source, ids = SeededSource(6), np.arange(4_000)
    memory.named(one, of_keys(ids, 0, False), source)
    first = memory._sums.copy()
    memory.named(two, of_keys(ids, 0, False), source)
    return float(np.corrcoef(first, memory._sums)[0, 1])


def test_noise_is_drawn_once() -> None:
    # Parts of 1 and 4 and variances that go with them: the first round is 1/5 of the variance.
    assert sum_over_rounds(RoundMemory()) == pytest.approx(math.sqrt(0.2), abs=0.05)
    assert abs(sum_over_rounds(Redrawn())) < 0.1


def test_only_eligible_keys_are_named_and_each_at_its_mean() -> None:
    memory, source = RoundMemory(), SeededSource(7)
    found = rounds(5.0, 1e-3)
    both = GroupWeights(
        np.array([9, 3]), np.array([50, 50]) * WEIGHT_STEPS, np.array([True, False])
    )
    named, means = memory.named(found[0], both, source)
    assert named.tolist() == [9]
    assert means[0] / WEIGHT_STEPS == pytest.approx(50, abs=8)
    later = GroupWeights(np.array([3]), np.array([100]) * WEIGHT_STEPS, np.array([True]))
    named, means = memory.named(found[1], later, source)
    assert named.tolist() == [3]
    assert means[0] / WEIGHT_STEPS == pytest.approx((50 + 4 * 100) / 5, abs=4)


# -- what neighbours can tell apart -----------------------------------------------------------


def laws(found: tuple[NamingRound, ...], score: float) -> NDArray[np.float64]:
    """What comes of one key in two rounds: densities of being named with a value, or not."""
    from scipy.stats import norm

    one, two = found[:2]
    sigma1, sigma = one.noise.sigma / WEIGHT_STEPS, two.noise.sigma / WEIGHT_STEPS
    low, high = (r.threshold / WEIGHT_STEPS for r in (one, two))
    grid = np.linspace(-12 * sigma1, 12 * sigma1, 40_001)
    step = grid[1] - grid[0]
    first = np.where(grid > low, norm.pdf(grid, score, sigma1), 0) * step
    # Given the mean of both rounds, the first has this much of its deviation, and what is left.
    share = sigma1**2 * PARTS[0] / (PARTS[0] + PARTS[1]) / sigma**2
    rest = sigma1 * math.sqrt(1 - share**2 * sigma**2 / sigma1**2)
    unnamed = norm.cdf(low, score + share * (grid - score), rest)
    second = np.where(grid > high, norm.pdf(grid, score, sigma) * unnamed, 0) * step
    return np.concatenate([first, second, [1 - first.sum() - second.sum()]])


def renyi(one: NDArray[np.float64], two: NDArray[np.float64], order: float) -> float:
    seen = (one > 1e-300) & (two > 1e-300)
    terms = order * np.log(one[seen]) + (1 - order) * np.log(two[seen])
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def worst_rate(found: tuple[NamingRound, ...]) -> float:
    """The largest divergence of neighbours for its order, over a key's weights without the unit."""
    return max(
        renyi(laws(found, score + up), laws(found, score + 1 - up), order) / order
        for score in (0.0, 1.0, 3.0, 5.0)
        for order in (1.2, 2.0, 5.0)
        for up in (0, 1)
    )


@pytest.mark.slow
def test_two_rounds_cost_no_more_than_both_and_more_than_the_larger() -> None:
    found = rounds(0.3, 0.3, kept=1)
    both = found[0].rho(None) + found[1].rho(None)
    assert found[1].rho(None) * 1.02 < worst_rate(found) <= both * (1 + 1e-3)


def told_apart(found: tuple[NamingRound, ...], mu: float) -> float:
    """How much easier a key's neighbours are told apart than Gaussians, over its weights."""
    pairs = [(laws(found, score), laws(found, score + 1)) for score in (0.0, 1.0, 3.0, 5.0)]
    return max(
        float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) - gaussian_delta(epsilon, mu)
        for pair in pairs
        for p, q in (pair, pair[::-1])
        for epsilon in (0.0, 0.3, 0.8, 1.5)
    )


def test_two_rounds_are_as_private_as_their_gaussians_together_and_less_than_the_larger() -> None:
    found = naming_rounds(PrivacyLoss(0.3, gaussian=True), PARTS, (0.1,) * 3, Weights(1, 1), 0)
    one, two = (r.own.cost(Composition.GDP, 1) for r in found[:2])
    assert told_apart(found, math.sqrt(2 * (one + two))) <= 1e-4
    assert told_apart(found, math.sqrt(2 * two * 1.02)) > 1e-3


def fresh_key_named(deltas: tuple[float, ...], runs: int) -> int:
    """How often a key that one unit brings is named in some round."""
    found = naming_rounds(PrivacyLoss(0.05), PARTS, deltas, Weights(1, 1), 0)
    memory, source, alive = RoundMemory(), SeededSource(11), np.arange(runs)
    for one in found:
        named, _ = memory.named(one, of_keys(alive, 1, True), source)
        alive = np.setdiff1d(alive, named)
    return runs - len(alive)


def test_a_fresh_key_is_named_in_no_round_with_more_than_the_chance_of_all() -> None:
    runs, delta = 20_000, 0.3
    honest = fresh_key_named(tuple(delta * d for d in DELTAS), runs)
    assert lower_bound(honest, runs) <= delta
    assert honest > 0.8 * delta * runs
    assert lower_bound(fresh_key_named((delta, delta, delta), runs), runs) > delta


def with_later_delta(found: tuple[NamingRound, ...], more: float = 0.0) -> NamingRound:
    """The second round as the last one, with the delta of the third."""
    return replace(found[1], delta=found[1].delta + found[2].delta + more)


def named_in_two(found: tuple[NamingRound, ...], last: NamingRound, group: GroupWeights) -> int:
    """How many of these keys two rounds and a last test name."""
    memory, source, alive, named = RoundMemory(), SeededSource(12), group, 0
    for one in found[:2]:
        ids, _ = memory.named(one, alive, source)
        left = ~np.isin(alive.ids, ids)
        alive = GroupWeights(alive.ids[left], alive.weights[left], alive.enough[left])
        named += len(ids)
    ids, means = memory.named_after_all(last)
    assert np.all(means > last.threshold)
    assert np.all(means <= found[1].threshold)
    assert not len(memory.named_after_all(last)[0])
    return named + len(ids)


def test_a_last_test_names_a_fresh_key_with_no_more_than_the_chance_of_all() -> None:
    runs, delta = 20_000, 0.3
    found = naming_rounds(PrivacyLoss(0.05), PARTS, [delta * d for d in DELTAS], Weights(1, 1), 0)
    fresh = of_keys(np.arange(runs), 1, True)
    honest = named_in_two(found, with_later_delta(found), fresh)
    assert lower_bound(honest, runs) <= delta
    assert honest > 0.9 * delta * runs
    twice = named_in_two(found, with_later_delta(found, delta), fresh)
    assert lower_bound(twice, runs) > delta


def test_a_last_test_is_of_eligible_keys_and_has_the_lower_threshold() -> None:
    found = rounds(0.05, 1e-3)
    last, runs = with_later_delta(found), 4_000
    steps = np.full(runs, last.threshold, np.int64)
    eligible = GroupWeights(np.arange(runs), steps, np.full(runs, True))
    assert abs(named_in_two(found, last, eligible) - runs / 2) < 0.04 * runs
    # Without the last test it would be those above the threshold of the second round alone.
    assert named_in_two(found, found[1], eligible) < 0.42 * runs
    others = GroupWeights(np.arange(runs), steps, np.full(runs, False))
    assert named_in_two(found, last, others) == 0


def test_rounds_take_noise_on_whole_weights() -> None:
    one = rounds()[0]
    assert one.own == IndependentNoise(one.own.noise, WEIGHT_STEPS)
    assert one.score_for_inclusion(0.5) == one.threshold
    assert one.score_for_inclusion(0.95) > one.threshold + one.noise.std

"""Laplace top-k and the fixed threshold: exact laws on small inputs against (epsilon, delta)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    Counts,
    Law,
    SeededSource,
    apart,
    chi_square_p,
    drawn,
    flat,
    gaussian_top_k_law,
    log_cdf,
    log_pmf,
    neighbours,
    tail,
    top_of,
    upper_bound,
)

from dpsql.errors import ParameterError
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.topk import GaussianTopK
from dpsql.privacy.mechanisms.topk_laplace import (
    FixedThreshold,
    LaplaceTopK,
    fixed_threshold,
    overtaking_delta,
)
from dpsql.privacy.sampling.noise import DiscreteLaplace

# -- the chance of overtaking a noisy threshold -----------------------------------------------


def exact_overtaking(scale: float, items: int, t: int) -> float:
    noise = DiscreteLaplace(scale)
    reach = math.ceil(45 * scale) + 5
    z = np.arange(-reach, reach + 1)
    downwards = np.arange(abs(t) + 2 * reach, t - reach, -1)
    tails = np.cumsum(np.exp(log_pmf(noise, downwards)).astype(np.longdouble))
    above = np.minimum(np.asarray(tails[-len(z) :][::-1], dtype=np.float64), 1 - 1e-16)
    return math.fsum(np.exp(log_pmf(noise, z)) * -np.expm1(items * np.log1p(-above)))


@pytest.mark.parametrize("scale", [0.4, 1.0, 6.3, 90.0])
@pytest.mark.parametrize("items", [1, 2, 40])
def test_the_chance_of_overtaking_is_exact(scale: float, items: int) -> None:
    for t in (0, 1, 4, round(3 * scale), round(20 * scale)):
        exact = exact_overtaking(scale, items, t)
        found = overtaking_delta(scale, items, t)
        assert exact * (1 - 1e-11) <= found <= exact * (1 + 1e-9) + 1e-16


def test_wide_noise_uses_the_union_bound_with_its_closed_form() -> None:
    scale, t = 700.0, 9000
    exact = exact_overtaking(scale, 1, t)
    assert overtaking_delta(scale, 1, t) == pytest.approx(exact, rel=1e-9)
    assert overtaking_delta(scale, 5, t) == pytest.approx(5 * exact, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "groups"), [(0.1, 1), (0.1, 10), (0.02, 100)])
def test_the_threshold_is_below_the_one_of_the_printed_bound(epsilon: float, groups: int) -> None:
    """Durfee & Rogers 2019, Lemma 6.1, solved for the offset ln(groups/x)/epsilon."""
    delta = 1e-6
    for paid in (1, math.exp(groups * epsilon) + 1):  # times: by coupling, and as printed
        allowed = delta / paid
        x = allowed
        for _ in range(100):
            x = 4 * allowed / (3 + math.log(groups / x))
        printed = 1 + math.log(groups / x) / epsilon
        ours = LaplaceTopK(epsilon, groups, 10**6, allowed, 0).threshold
        assert printed * 0.95 < ours <= printed + 1
    lower = LaplaceTopK(epsilon, groups, 10**6, delta, 0).threshold
    assert lower < printed - 0.9 * math.log(paid) / epsilon


# -- Laplace top-k ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LawOf(GaussianTopK):
    """The same comparison with the threshold given, for the exact law."""

    given: int = 0

    @property
    def threshold(self) -> int:
        return self.given


def laplace_law(
    mechanism: LaplaceTopK, counts: Counts, reach: int, scale: float = 1.0, lower: int = 0
) -> Law:
    noise = IndependentNoise(DiscreteLaplace(scale / mechanism.epsilon_per_group), 1)
    shim = LawOf(noise, 1, mechanism.k_bar, 0.1, mechanism.floor, mechanism.threshold - lower)
    return gaussian_top_k_law(shim, counts, grid_of(reach))


def grid_of(reach: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(-reach, reach + 8)


@pytest.mark.parametrize(
    ("groups", "k_bar", "epsilon", "floor"),
    [(1, 1, 1.0, 0), (2, 1, 0.7, 0), (1, 2, 1.2, 0), (2, 2, 0.9, 0), (2, 1, 0.8, 1)],
)
def test_no_small_pair_of_neighbours_exceeds_the_stated_epsilon_and_delta(
    groups: int, k_bar: int, epsilon: float, floor: int
) -> None:
    mechanism = LaplaceTopK(epsilon, groups, k_bar, 0.05, floor)
    reach = 30 if k_bar == 1 else 24
    pairs = list(neighbours(3, 2, groups, 1, floor))
    laws = {c: laplace_law(mechanism, c, reach) for c in {c for pair in pairs for c in pair}}
    worst = max(apart(laws[a], laws[b], mechanism.epsilon) for a, b in pairs)
    assert worst <= mechanism.delta
    assert worst > mechanism.delta / 10
    assert mechanism.epsilon == pytest.approx(groups * epsilon)


def crossing_of(mechanism: LaplaceTopK, one: Counts, other: Counts, lower: int = 0) -> float:
    crossing = set(top_of(one, mechanism.k_bar, mechanism.floor)[0])
    crossing -= set(top_of(other, mechanism.k_bar, mechanism.floor)[0])
    law = laplace_law(mechanism, one, 40, lower=lower)
    return sum(
        float(v.sum()) for key, v in law.items() if isinstance(key, tuple) and crossing & set(key)
    )


@pytest.mark.parametrize(("groups", "k_bar"), [(1, 1), (2, 1), (2, 2)])
def test_crossing_groups_appear_at_most_as_often_as_paid_for_and_one_lower_more(
    groups: int, k_bar: int
) -> None:
    mechanism = LaplaceTopK(1.0, groups, k_bar, 0.1, 0)
    paid = mechanism.delta
    pairs = list(neighbours(3, 2, groups, 1))
    both_ways = [*pairs, *((b, a) for a, b in pairs)]
    assert max(crossing_of(mechanism, a, b) for a, b in both_ways) <= paid
    assert max(crossing_of(mechanism, a, b, lower=1) for a, b in both_ways) > paid


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (0.7, False), (1.3, False)])
def test_laplace_draws_follow_the_law_at_the_stated_scale_only(scale: float, passes: bool) -> None:
    mechanism = LaplaceTopK(0.5, 1, 2, 0.3, 0)
    counts = (12, 9, 3)
    law = flat(laplace_law(mechanism, counts, 60, scale), grid_of(60))
    assert (chi_square_p(drawn(mechanism, counts, 6000, 2), law) > IMPOSSIBLE) == passes


# -- the fixed threshold ----------------------------------------------------------------------


def fixed_law(
    mechanism: FixedThreshold, counts: Counts, *, hard: bool = False, scale: float = 1.0
) -> dict[Hashable, float]:
    """Which names come out. ``hard`` is the printed comparison of the true score."""
    top, base = top_of(counts, mechanism.k, mechanism.floor)
    bar = base + mechanism.threshold
    noise = DiscreteLaplace(scale / mechanism.epsilon_per_group)
    considered = [i for i in top if counts[i] > (bar if hard else base)]
    law: dict[Hashable, float] = {}
    for size in range(len(considered) + 1):
        for released in itertools.combinations(considered, size):
            parts = [
                shown(noise, bar - counts[i]) if i in released else hidden(noise, bar - counts[i])
                for i in considered
            ]
            law[released] = math.prod(parts)
    return law


@cache
def shown(noise: DiscreteLaplace, t: int) -> float:
    return tail(noise, t)


@cache
def hidden(noise: DiscreteLaplace, t: int) -> float:
    return math.exp(float(log_cdf(noise, np.array([t]))[0]))


def divergence(p: dict[Hashable, float], q: dict[Hashable, float], epsilon: float) -> float:
    return sum(max(0.0, v - math.exp(epsilon) * q.get(key, 0.0)) for key, v in p.items())


SMALL = [*neighbours(3, 4, 3, 1), ((9, 5, 2), (10, 6, 3)), ((9, 8, 0), (10, 9, 0))]


def worst_divergence(mechanism: FixedThreshold, epsilon: float, *, hard: bool = False) -> float:
    laws = {c: fixed_law(mechanism, c, hard=hard) for pair in SMALL for c in pair}
    return max(
        max(divergence(laws[a], laws[b], epsilon), divergence(laws[b], laws[a], epsilon))
        for a, b in SMALL
    )


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("epsilon", [0.4, 1.3])
def test_the_fixed_threshold_keeps_its_epsilon_and_delta(k: int, epsilon: float) -> None:
    for delta in (0.3, 0.01):
        mechanism = FixedThreshold(epsilon, k, delta, 0.0, 0)
        assert worst_divergence(mechanism, mechanism.epsilon) <= mechanism.delta
        fresh = tail(DiscreteLaplace(1 / epsilon), mechanism.threshold - 1)
        named = fixed_law(mechanism, (1,) * k + (0,))
        assert 1 - named[()] == pytest.approx(1 - (1 - fresh) ** k)
        assert 1 - named[()] <= mechanism.delta
        assert tail(DiscreteLaplace(1 / epsilon), mechanism.threshold - 2) > delta


def test_the_printed_comparison_of_true_scores_breaks_the_promise() -> None:
    """Durfee & Rogers 2019, Algorithm 8, draws noise only for true scores above the threshold."""
    mechanism = FixedThreshold(0.4, 1, 1e-3, 0.0, 0)
    bar = mechanism.threshold
    below, above = (
        fixed_law(mechanism, (bar, 0), hard=True),
        fixed_law(mechanism, (bar + 1, 0), hard=True),
    )
    assert divergence(above, below, mechanism.epsilon) > 0.5
    below, above = fixed_law(mechanism, (bar, 0)), fixed_law(mechanism, (bar + 1, 0))
    assert divergence(above, below, mechanism.epsilon) <= mechanism.delta


def test_a_non_strict_comparison_would_break_the_delta() -> None:
    mechanism = FixedThreshold(0.5, 1, 0.1, 0.0, 0)
    at_least = tail(DiscreteLaplace(2.0), mechanism.threshold - 2)
    assert at_least > mechanism.delta


def test_composition_is_the_better_of_basic_and_advanced() -> None:
    few, many = FixedThreshold(1.0, 2, 1e-9, 1e-7, 0), FixedThreshold(0.05, 400, 1e-9, 1e-7, 0)
    assert few.epsilon == pytest.approx(2.0)
    advanced = 400 * 0.05 * math.tanh(0.025) + 0.05 * math.sqrt(800 * math.log(1e7))
    assert many.epsilon == pytest.approx(advanced)
    assert many.delta == pytest.approx(400e-9 + 1e-7, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("k", [1, 10, 2000])
def test_a_calibrated_fixed_threshold_spends_its_epsilon_and_delta_and_no_more(
    epsilon: float, k: int
) -> None:
    for delta in (1e-3, 1e-9):
        found = fixed_threshold(epsilon, delta=delta, k=k, floor=0)
        assert epsilon * (1 - 1e-9) <= found.epsilon <= epsilon
        assert delta * 0.99 <= found.delta <= delta
        assert found.threshold <= FixedThreshold(epsilon / k, k, delta / k, 0.0, 0).threshold + 1


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_a_group_as_large_as_stated_appears_with_the_stated_probability(
    probability: float,
) -> None:
    runs, source = 2500, SeededSource(19)
    for mechanism in (LaplaceTopK(0.3, 2, 3, 1e-4, 0), FixedThreshold(0.3, 2, 1e-4, 0.0, 0)):
        above = mechanism.score_for_inclusion(probability)
        assert above is not None
        for lower in (0, math.ceil(above / 3)):
            scores = np.array([math.ceil(above) - lower], dtype=np.int64)
            found = sum(len(mechanism.select(scores, source).indices) for _ in range(runs))
            # At the threshold itself, half of the lattice's tie counts against the group.
            tie = 0.1 if probability == 0.5 else 0.0
            enough = upper_bound(found, runs) >= probability - tie
            assert enough == (lower == 0)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (0.7, False), (1.3, False)])
def test_fixed_threshold_draws_follow_the_law_at_the_stated_scale_only(
    scale: float, passes: bool
) -> None:
    mechanism = FixedThreshold(0.4, 2, 0.1, 0.0, 1)
    counts = (10, 7, 4)
    law = fixed_law(mechanism, counts, scale=scale)
    source, found = SeededSource(7), Counter[Hashable]()
    scores = np.array(counts, dtype=np.int64)
    for _ in range(10_000):
        found[tuple(int(i) for i in mechanism.select(scores, source).indices)] += 1
    assert (chi_square_p(found, law) > IMPOSSIBLE) == passes


def test_groups_level_with_the_base_are_never_named() -> None:
    mechanism = FixedThreshold(0.05, 3, 0.4, 0.0, 2)
    source = SeededSource(5)
    for scores in ([], [2, 1], [7, 5, 5, 5], [4, 3, 3, 3]):
        standing = {i for i, s in enumerate(scores[:3]) if s > max([2, *scores[3:]])}
        seen: set[int] = set()
        for _ in range(300):
            seen |= set(mechanism.select(np.array(scores, dtype=np.int64), source).indices)
        assert seen == standing


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceTopK(0.0, 1, 1, 1e-6, 0),
        lambda: LaplaceTopK(1.0, 0, 1, 1e-6, 0),
        lambda: LaplaceTopK(1.0, 1, 1, 0.0, 0),
        lambda: FixedThreshold(math.inf, 1, 1e-6, 0.0, 0),
        lambda: FixedThreshold(1.0, 1, 1e-6, 1.0, 0),
        lambda: LaplaceTopK(20.0, 6, 9, 1e-6, 0),
        lambda: fixed_threshold(0.0, delta=1e-6, k=1, floor=0),
        lambda: fixed_threshold(1.0, delta=1.0, k=1, floor=0),
    ],
)
def test_senseless_parameters_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ParameterError):
        make()

"""Weighted histograms: the weights, the two thresholds, and what neighbours can tell apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from helpers.laws import (
    EPSILONS,
    IMPOSSIBLE,
    Counts,
    SeededSource,
    apart,
    at_threshold_law,
    chi_square_p,
    drawn,
    flat,
    lower_bound,
    upper_bound,
    worst_excess,
)
from scipy import special

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms import weighted_histogram as module
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.sparse_histogram import sparse_histogram
from dpsql.privacy.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
    WeightedPositiveCounts,
    WeightedSparseHistogram,
    Weights,
    fresh_delta,
    kept_groups,
    weight_of,
    weighted_histogram_delta,
    weighted_positive_counts,
    weighted_sparse_histogram,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian

# -- weights ----------------------------------------------------------------------------------


def test_a_units_weights_have_exactly_the_norm_they_may_and_no_less() -> None:
    for groups, size in itertools.product((1, 2, 3, 7, 10, 1000, 2**31 - 1), range(1, 200)):
        for n in (size, groups, groups + size, groups * size):
            weight = weight_of(groups, n)
            assert n * weight**2 <= groups * WEIGHT_STEPS**2
            assert weight == WEIGHT_STEPS or n * (weight + 1) ** 2 > groups * WEIGHT_STEPS**2
            assert (weight == WEIGHT_STEPS) == (n <= groups)


def test_weights_must_keep_at_least_what_they_count_for() -> None:
    assert Weights(3, 3).of(np.array([1, 3])).tolist() == [WEIGHT_STEPS, WEIGHT_STEPS]
    for groups, kept in ((0, 3), (4, 3)):
        with pytest.raises(ParameterError):
            Weights(groups, kept)


# -- fresh groups -----------------------------------------------------------------------------


def tail(sigma: float, t: int) -> float:
    """P[Z > t] of wide discrete noise, to a relative 1e-8: the integral from the midpoint."""
    return float(special.ndtr(-(t + 0.5) / sigma))


def any_of(probability: float, groups: int) -> float:
    return -math.expm1(groups * math.log1p(-probability))


def worst_shown(sigma: float, threshold: int, weights: Weights) -> float:
    """P[some fresh group of a unit is named], for the worst number of them."""
    sizes = range(1, weights.kept + 1)
    return max(any_of(tail(sigma, threshold - weight_of(weights.groups, n)), n) for n in sizes)


SIGMAS = (0.3, 0.7, 2.0, 13.4, 900.0)  # in units


@pytest.mark.parametrize("weights", [Weights(1, 1), Weights(1, 7), Weights(3, 21), Weights(10, 50)])
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("floor", [0, 4])
def test_fresh_groups_of_any_number_are_named_with_probability_at_most_delta_and_near_it(
    weights: Weights, sigma: float, floor: int
) -> None:
    noise = DiscreteGaussian(sigma * WEIGHT_STEPS)
    for delta in (0.3, 1e-3, 1e-9, 1e-15):
        mechanism = WeightedPositiveCounts(noise, weights, delta, floor)
        above_floor = mechanism.threshold - floor * WEIGHT_STEPS
        assert worst_shown(noise.sigma, above_floor, weights) <= delta * (1 + 1e-8)
        lower = worst_shown(noise.sigma, above_floor - 40, weights)
        assert lower > delta * (1 - 1e-8), "the threshold is needlessly high"
        assert fresh_delta(noise, above_floor - 1, weights) > delta


def test_either_end_of_the_sizes_can_be_the_worst() -> None:
    """Narrow noise: few groups of full weight. Wide noise: many groups."""
    weights = Weights(3, 30)
    for sigma, worst in ((0.2, 3), (9.0, 30)):
        mechanism = WeightedPositiveCounts(DiscreteGaussian(sigma * WEIGHT_STEPS), weights, 1e-6, 0)
        shown = [
            any_of(tail(sigma * WEIGHT_STEPS, mechanism.threshold - weight_of(3, n)), n)
            for n in range(1, 31)
        ]
        assert 1 + int(np.argmax(shown)) == worst


# -- one publication: the analysis ------------------------------------------------------------


def curve(epsilon: float, distance: float) -> float:
    """The hockey-stick divergence of two Gaussians, from a formula of its own."""
    second = math.exp(epsilon + special.log_ndtr(-distance / 2 - epsilon / distance))
    return float(special.ndtr(distance / 2 - epsilon / distance) - second)


def every_split(
    epsilon: float, sigma: float, threshold: int, weights: Weights, others: float = 0.0
) -> float:
    """The largest delta over every size of a unit and every number of its groups that are old."""
    joint = math.sqrt(1 / sigma**2 + others / WEIGHT_STEPS**2)
    found = 0.0
    for size in range(1, weights.kept + 1):
        weight = weight_of(weights.groups, size)
        log_hidden = float(special.log_ndtr((threshold + 0.5 - weight) / sigma))
        for old in range(size + 1):
            log_psi = (size - old) * log_hidden
            psi = math.exp(log_psi)
            distance = math.sqrt(old) * weight * joint
            if old == 0:
                found = max(found, 1 - psi)
                continue
            found = max(found, 1 - psi + psi * curve(epsilon - log_psi, distance))
            found = max(found, curve(epsilon + log_psi, distance))
    return found


@pytest.mark.parametrize("weights", [Weights(1, 1), Weights(1, 5), Weights(3, 12), Weights(10, 60)])
@pytest.mark.parametrize("t", [1.5, 3.0, 4.5])
@pytest.mark.parametrize("ratio", [0.4, 1.0, 3.0])
def test_the_analysis_is_never_below_the_worst_of_all_splits_and_hardly_above(
    weights: Weights, t: float, ratio: float
) -> None:
    sigma = ratio * math.sqrt(weights.groups) * WEIGHT_STEPS
    noise = DiscreteGaussian(sigma)
    threshold = WEIGHT_STEPS + round(t * sigma)
    for epsilon in (0.2, 1.0, 3.0):
        stated = weighted_histogram_delta(epsilon, noise, threshold, weights)
        exact = every_split(epsilon, sigma, threshold, weights)
        assert exact * (1 - 1e-8) <= stated <= exact * (1 + 1e-4)


@pytest.mark.parametrize("epsilon", [0.35, 1.0, 4.0])
@pytest.mark.parametrize("weights", [Weights(1, 7), Weights(3, 21), Weights(10, 50)])
def test_a_calibrated_mechanism_spends_its_delta_and_no_more(
    epsilon: float, weights: Weights
) -> None:
    mechanism = weighted_sparse_histogram(epsilon, 1e-6, weights)
    exact = every_split(epsilon, mechanism.noise.sigma, mechanism.threshold, weights)
    assert 0.999e-6 <= exact <= 1e-6 * (1 + 1e-8)
    lower = weighted_histogram_delta(epsilon, mechanism.noise, mechanism.threshold - 1, weights)
    assert lower > 1e-6


@pytest.mark.parametrize("measures", [2, 5])
def test_further_values_are_part_of_the_analysis(measures: int) -> None:
    weights, epsilon, delta = Weights(3, 21), 1.0, 1e-6
    mechanism = weighted_sparse_histogram(epsilon, delta, weights, 0, measures)
    sigma, threshold, others = mechanism.noise.sigma, mechanism.threshold, mechanism.others
    exact = every_split(epsilon, sigma, threshold, weights, others)
    assert delta * 0.999 <= exact <= delta * (1 + 1e-8)
    alone = weighted_sparse_histogram(epsilon, delta, weights)
    assert alone.others == 0
    spent = 3 * (WEIGHT_STEPS**2 / sigma**2 + others)
    assert spent == pytest.approx(3 * WEIGHT_STEPS**2 / alone.noise.sigma**2, rel=1e-6)
    assert others == pytest.approx((measures - 1) * WEIGHT_STEPS**2 / sigma**2, rel=1e-6), (
        "equal shares"
    )
    # As much noise on the weights alone would hide far less of more values than stated.
    assert every_split(epsilon, sigma, threshold, weights, 4 * others) > 2 * delta
    too_many = WeightedSparseHistogram(epsilon, delta, mechanism.noise, weights, 0, 4 * others)
    with pytest.raises(ParameterError, match="noise alone"):
        _ = too_many.threshold


@pytest.mark.parametrize("groups", [1, 10, 1000])
def test_without_extra_groups_it_is_the_unweighted_sparse_histogram(groups: int) -> None:
    weighted = weighted_sparse_histogram(1.0, 1e-6, Weights(groups, groups))
    plain = sparse_histogram(1.0, 1e-6, groups)
    # Whole units are a coarse lattice for the noise of one group.
    assert weighted.noise.sigma / WEIGHT_STEPS == pytest.approx(plain.sigma, rel=0.011)
    assert weighted.threshold / WEIGHT_STEPS == pytest.approx(plain.threshold, abs=1.0)


def test_keeping_seven_times_the_groups_raises_the_threshold_by_six_percent() -> None:
    base = weighted_sparse_histogram(1.0, 1e-6, Weights(10, 10))
    wide = weighted_sparse_histogram(1.0, 1e-6, Weights(10, kept_groups(10)))
    assert wide.noise.sigma == pytest.approx(base.noise.sigma, rel=1e-6)
    assert 1.05 < wide.threshold / base.threshold < 1.06


def test_no_other_noise_allows_a_lower_threshold() -> None:
    best = weighted_sparse_histogram(1.0, 1e-6, Weights(10, 70))
    for factor in (0.999, 1.01, 1.1, 1.5):
        noise = DiscreteGaussian(best.noise.sigma * factor)
        other = WeightedSparseHistogram(1.0, 1e-6, noise, best.weights, 0)
        if factor < 1:
            with pytest.raises(ParameterError, match="noise alone"):
                _ = other.threshold
        else:
            assert other.threshold >= best.threshold


def test_many_groups_are_analysed_without_looking_at_each() -> None:
    mechanism = weighted_sparse_histogram(0.35, 1e-5, Weights(51_914, 7 * 51_914))
    assert 13_913 < mechanism.threshold / WEIGHT_STEPS < 13_913 * 1.1


# -- what neighbours can tell apart, from the probabilities that are drawn ---------------------

COARSE = 8  # steps in a whole weight, few enough to sum over every output


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same code on a coarse lattice."""
    caches: tuple[Callable[..., object], ...] = (
        module.fresh_threshold,
        module._one_shot_threshold,
        module._one_shot_sigma,
    )
    monkeypatch.setattr(module, "WEIGHT_STEPS", COARSE)
    for cached in caches:
        cached.cache_clear()  # type: ignore[attr-defined]
    yield
    for cached in caches:
        cached.cache_clear()  # type: ignore[attr-defined]


def pairs_of(weight: Callable[[int], int], kept: int, high: int) -> Iterator[tuple[Counts, Counts]]:
    """A unit with 1 to ``kept`` groups, of which some are fresh, some small and some large."""
    for size in range(1, kept + 1):
        for without in itertools.combinations_with_replacement((0, COARSE, high), size):
            yield without, tuple(score + weight(size) for score in without)


def worst_stick(
    mechanism: WeightedSparseHistogram, weight: Callable[[int], int], kept: int, threshold: int
) -> float:
    sigma = mechanism.noise.sigma
    high = threshold + math.ceil(5 * sigma)
    grid = np.arange(threshold, high + COARSE + math.ceil(5 * sigma))
    worst = 0.0
    for pair in pairs_of(weight, kept, high):
        p, q = (at_threshold_law(sigma, threshold, scores, grid) for scores in pair)
        worst = max(
            worst,
            apart(p, q, mechanism.epsilon),
        )
    return worst


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(("epsilon", "delta"), [(0.9, 0.03), (2.0, 0.1)])
def test_no_small_pair_of_neighbours_exceeds_the_stated_delta(epsilon: float, delta: float) -> None:
    mechanism = weighted_sparse_histogram(epsilon, delta, Weights(1, 3))
    found = worst_stick(mechanism, lambda n: weight_of(1, n), 3, mechanism.threshold)
    # Sixteen steps of variance for smoothing are not negligible on so coarse a lattice.
    assert delta * 0.75 < found <= delta


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
def test_neighbours_tell_whole_weights_and_low_thresholds_apart() -> None:
    mechanism = weighted_sparse_histogram(0.9, 0.03, Weights(1, 3))
    unweighted = worst_stick(mechanism, lambda n: COARSE, 3, mechanism.threshold)
    assert unweighted > 2 * 0.03
    linear_root = worst_stick(mechanism, lambda n: round(COARSE / n**0.25), 3, mechanism.threshold)
    assert linear_root > 0.03
    sampled = weighted_sparse_histogram(0.9, 0.03, Weights(1, 1)).threshold
    assert worst_stick(mechanism, lambda n: weight_of(1, n), 3, sampled) > 0.03


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
def test_the_zcdp_statement_holds_for_every_small_pair_and_epsilon() -> None:
    mechanism = weighted_positive_counts(PrivacyLoss(0.4, 0.02), Weights(1, 3))
    sigma, threshold = mechanism.noise.sigma, mechanism.threshold
    assert mechanism.rho(None) == pytest.approx(0.4, rel=1e-6)
    high = threshold + math.ceil(4 * sigma)
    grid = np.arange(threshold, high + COARSE + math.ceil(5 * sigma))

    def excess(weight: Callable[[int], int], at: int) -> float:
        worst = -1.0
        for pair in pairs_of(weight, 3, high):
            p, q = (at_threshold_law(sigma, at, scores, grid) for scores in pair)
            worst = max(worst, worst_excess(p, q, mechanism.rho(None), mechanism.delta))
        return worst

    assert excess(lambda n: weight_of(1, n), threshold) <= 1e-6
    assert excess(lambda n: COARSE, threshold) > 1e-3
    assert len(EPSILONS) > 5, "the claim is tested at several orders"


# -- what is drawn ----------------------------------------------------------------------------


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (0.7, False), (1.3, False)])
@pytest.mark.parametrize("one_shot", [True, False])
def test_draws_follow_the_law_at_the_stated_scale_only(
    scale: float, passes: bool, one_shot: bool
) -> None:
    noise, weights = DiscreteGaussian(9.0), Weights(1, 3)
    mechanism: WeightedSparseHistogram | WeightedPositiveCounts = (
        WeightedSparseHistogram(5.0, 0.3, noise, weights, 1)
        if one_shot
        else WeightedPositiveCounts(noise, weights, 0.3, 1)
    )
    scores = (mechanism.threshold + 5, mechanism.threshold - 4)
    grid = np.arange(mechanism.threshold - 60, mechanism.threshold + 70)
    law = flat(at_threshold_law(9.0 * scale, mechanism.threshold, scores, grid), grid)
    p = chi_square_p(drawn(mechanism, scores, 4000), law)
    assert (p > IMPOSSIBLE) == passes


def test_the_floor_moves_both_thresholds_by_whole_units() -> None:
    weights = Weights(2, 14)
    for floor in (0, 7):
        one_shot = weighted_sparse_histogram(1.0, 1e-3, weights, floor)
        zcdp = weighted_positive_counts(PrivacyLoss(0.05, 1e-3), weights, floor)
        base = weighted_sparse_histogram(1.0, 1e-3, weights)
        assert one_shot.threshold == base.threshold + floor * WEIGHT_STEPS
        assert zcdp.threshold == (
            weighted_positive_counts(PrivacyLoss(0.05, 1e-3), weights).threshold
            + floor * WEIGHT_STEPS
        )


def test_groups_of_both_appear_as_often_as_they_say() -> None:
    one_shot: Selection = weighted_sparse_histogram(1.0, 1e-6, Weights(10, 70))
    zcdp: Selection = weighted_positive_counts(PrivacyLoss(0.02, 1e-6), Weights(10, 70))
    for mechanism in (one_shot, zcdp):
        assert mechanism.top_rows_needed is None
        assert mechanism.score_noise is not None
        half, high = mechanism.score_for_inclusion(0.5), mechanism.score_for_inclusion(0.95)
        assert half is not None
        assert high is not None
        assert high - half == pytest.approx(1.645 * mechanism.score_noise.scale, rel=1e-3)
        scores = np.full(4000, round(high), dtype=np.int64)
        released = len(mechanism.select(scores, SeededSource(2)).indices)
        assert lower_bound(released, 4000) <= 0.95 <= upper_bound(released, 4000)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 0.5)]
)
def test_senseless_parameters_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ParameterError):
        weighted_sparse_histogram(epsilon, delta, Weights(1, 7))
    with pytest.raises(ParameterError):
        weighted_positive_counts(PrivacyLoss(epsilon, delta), Weights(1, 7))


def test_noise_narrower_than_a_step_is_refused() -> None:
    with pytest.raises(ParameterError):
        weighted_histogram_delta(1.0, DiscreteGaussian(0.9), 10 * WEIGHT_STEPS, Weights(1, 7))

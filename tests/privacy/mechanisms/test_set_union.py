"""Set union: what it promises about privacy, and that it names as much as published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
from helpers import set_union_reference as reference
from helpers.failures import fails_with
from helpers.laws import SeededSource
from helpers.scripts import script
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from dpsql.errors import OperationalError, ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms import set_union_weights
from dpsql.privacy.mechanisms.calibration import (
    analytic_gaussian_sigma,
    lattice_gaussian_delta,
    lattice_gaussian_sigma,
)
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting, set_union_for
from dpsql.privacy.mechanisms.set_union_weights import (
    UNIT_WEIGHT_STEPS,
    UnitItems,
    descend,
    l2_sensitivity,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

EPSILON, DELTA = 3.0, math.exp(-10)
ALL = [(weighting, norm) for weighting in Weighting for norm in (1, 2)]
Users = Sequence[Sequence[int]]


def batches(users: Users, size: int = 1000) -> Iterable[UnitItems]:
    for first in range(0, len(users), size):
        part = users[first : first + size]
        units = np.repeat(np.arange(first, first + len(part)), [len(items) for items in part])
        yield UnitItems(units, np.array([i for items in part for i in sorted(items)], np.int64))


def random_users(rng: np.random.Generator, units: int, items: int, groups: int) -> Users:
    """Sets of 1 to ``groups`` items, low codes more often."""
    sizes = rng.integers(1, min(items, groups) + 1, units)
    keys = rng.exponential(np.arange(1, items + 1), (units, items)).argsort(axis=1)
    return [sorted(row[:n].tolist()) for row, n in zip(keys, sizes, strict=True)]


def padded(weights: NDArray[np.int64], items: int) -> NDArray[np.int64]:
    return np.concatenate((weights, np.zeros(items - len(weights), np.int64)))


def laplace_union(weighting: Weighting, groups: int, delta: float = DELTA) -> SetUnion:
    return set_union_for(weighting, 1, PrivacyLoss(0.0, delta, EPSILON), groups=groups)


def gaussian_union(weighting: Weighting, groups: int, delta: float = DELTA) -> SetUnion:
    return set_union_for(weighting, 2, PrivacyLoss(0.0, delta, EPSILON), groups=groups)


# -- calibration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-9, 1e-12])
def test_the_analytic_gaussian_meets_its_delta_and_wastes_next_to_nothing(
    epsilon: float, delta: float
) -> None:
    sigma = analytic_gaussian_sigma(epsilon, delta)
    u = 1 / sigma
    first = special.log_ndtr(u / 2 - epsilon / u)
    second = epsilon + special.log_ndtr(-u / 2 - epsilon / u)
    exact = math.exp(first) * -math.expm1(second - first)
    assert exact == pytest.approx(delta, rel=1e-7)
    assert gaussian_delta(epsilon, 1 / sigma) <= delta
    assert gaussian_delta(epsilon, 1 / sigma / (1 - 1e-6)) > delta
    assert analytic_gaussian_sigma(epsilon, delta, 7.0) == pytest.approx(7 * sigma, rel=1e-13)


def test_the_classical_gaussian_needs_more_noise() -> None:
    classical = math.sqrt(2 * math.log(1.25 / 1e-6)) / 0.5
    assert analytic_gaussian_sigma(0.5, 1e-6) < 0.85 * classical


@pytest.mark.parametrize("sigma", [1.0, 1.5, 4.5, 20.0])
@pytest.mark.parametrize("shift", [(1,), (5,), (1, 1, 1), (3, 4), (2, 1)])
def test_discrete_gaussian_noise_is_as_private_as_stated(
    sigma: float, shift: tuple[int, ...]
) -> None:
    """The privacy loss of a vector of discrete Gaussians depends on one integer combination."""
    x = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    single = DiscreteGaussian(sigma).pmf(x)
    law, first = np.ones(1), 0
    for step in shift:
        spaced = np.zeros((len(x) - 1) * step + 1)
        spaced[::step] = single
        law, first = np.convolve(law, spaced), first + int(x[0]) * step
    total = first + np.arange(len(law))
    squared = sum(step * step for step in shift)
    loss = (2 * total + squared) / (2 * sigma**2)
    for epsilon in (0.05, 0.3, 1.0):
        exact = float(np.sum(law * np.maximum(0.0, -np.expm1(epsilon - loss))))
        assert exact <= lattice_gaussian_delta(epsilon, sigma, math.sqrt(squared)) * (1 + 1e-9)


def test_lattice_noise_costs_no_more_than_a_tenth_of_a_steps_variance() -> None:
    wide = lattice_gaussian_sigma(1.0, 1e-6, 1000.0)
    exact = analytic_gaussian_sigma(1.0, 1e-6, 1000.0)
    assert wide**2 == pytest.approx(exact**2 + 3 / 32, rel=1e-11)
    assert lattice_gaussian_delta(1.0, wide, 1000.0) <= 1e-6 * (1 + 1e-9)
    assert lattice_gaussian_delta(1.0, 0.9, 1.0) == 1.0


@pytest.mark.parametrize("bad", [(0.0, 1e-6, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (1.0, 0.1, 0)])
def test_calibration_refuses_impossible_parameters(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ParameterError):
        analytic_gaussian_sigma(*bad)


# -- thresholds and costs -------------------------------------------------------------------------


def fresh_weight(weighting: Weighting, norm: int, items: int) -> Fraction:
    """What one unit with only new items gives each, by running it."""
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, DELTA, EPSILON), groups=items)
    return Fraction(int(union.weigh(batches([range(items)])).max()))


@pytest.mark.parametrize(("weighting", "norm"), ALL)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("groups", [1, 7, 40])
def test_new_items_of_one_unit_are_named_with_probability_delta_at_most_and_nearly(
    weighting: Weighting, norm: int, delta: float, groups: int
) -> None:
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, delta, EPSILON), groups=groups)

    def named(threshold: int) -> float:
        worst = 0.0
        for t in range(1, groups + 1):
            weight = int(fresh_weight(weighting, norm, t))
            none = t * math.log1p(
                -continuous_tail(union, (threshold - weight + 0.5) / UNIT_WEIGHT_STEPS)
            )
            worst = max(worst, -math.expm1(none))
        return worst

    assert named(union.threshold) <= union.delta * (1 + 1e-6)
    assert named(union.threshold) >= union.delta * (1 - 1e-6)
    assert named(union.threshold - UNIT_WEIGHT_STEPS // 100) > union.delta


def continuous_tail(union: SetUnion, x: float) -> float:
    """P[noise > x], x in unit weights. The lattice is so fine that 1e-6 separates the two laws."""
    scale = union.noise.spread / UNIT_WEIGHT_STEPS
    tail = stats.laplace.sf(x / scale) if union.norm == 1 else special.ndtr(-x / scale)
    return float(tail)


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(UNIT_WEIGHT_STEPS / 3), DiscreteGaussian(1.3 * UNIT_WEIGHT_STEPS)]
)
@pytest.mark.parametrize("weighting", list(Weighting))
def test_the_threshold_is_the_smallest_integer_that_every_number_of_new_items_allows(
    weighting: Weighting, noise: DiscreteLaplace | DiscreteGaussian
) -> None:
    """By the exact tail at the boundary, strict comparison: T passes, T - 1 does not."""
    union = SetUnion(weighting, noise, 60, 1e-6)

    def delta(threshold: int, t: int) -> float:
        if weighting is Weighting.POLICY:
            weight = (
                UNIT_WEIGHT_STEPS // t if union.norm == 1 else math.isqrt(UNIT_WEIGHT_STEPS**2 // t)
            ) + 1
        else:
            weight = union.item_weights[t - 1]
        return -math.expm1(t * math.log1p(-noise.sf(threshold - weight)))

    sizes = range(1, 61)
    assert max(delta(union.threshold, t) for t in sizes) <= 1e-6
    # One step moves the tail by a relative 5e-8; the tail's own slack is below 1e-10.
    assert max(delta(union.threshold - 1, t) for t in sizes) > 1e-6


def in_halves(weighting: Weighting, groups: int) -> SetUnion:
    """As Gopi et al. 2020 print it."""
    return set_union_for(weighting, 2, PrivacyLoss(0.0, DELTA, EPSILON), groups=groups, halves=True)


def test_published_thresholds_come_out() -> None:
    for groups in (1, 10, 100, 300):
        laplace = max(
            1 / t - math.log(2 * -math.expm1(math.log1p(-DELTA) / t)) / EPSILON
            for t in range(1, groups + 1)
        )
        sigma = analytic_gaussian_sigma(EPSILON, DELTA / 2)
        gauss = max(
            1 / math.sqrt(t) + sigma * stats.norm.isf(-math.expm1(math.log1p(-DELTA / 2) / t))
            for t in range(1, groups + 1)
        )
        for weighting in (Weighting.WEIGHTED, Weighting.POLICY):
            found = laplace_union(weighting, groups).threshold / UNIT_WEIGHT_STEPS
            assert found == pytest.approx(laplace, abs=1e-6)
        found = in_halves(Weighting.WEIGHTED, groups).threshold / UNIT_WEIGHT_STEPS
        assert found == pytest.approx(gauss, abs=1e-6)
        found = in_halves(Weighting.POLICY, groups).threshold / UNIT_WEIGHT_STEPS
        assert gauss < found < gauss * (1 + 5e-4)


def test_the_policy_gaussian_cutoff_comes_from_the_gaussian_threshold() -> None:
    """The printed Algorithm 6 uses the Laplace one, far lower: a cutoff below the threshold."""
    union = gaussian_union(Weighting.POLICY, 100)
    sigma = union.noise.spread
    assert union.cutoff == pytest.approx(union.threshold + 5 * sigma, abs=1)
    printed = laplace_union(Weighting.POLICY, 100).threshold + 5 * sigma
    assert printed < union.cutoff - 2 * UNIT_WEIGHT_STEPS
    weights = union.weigh(batches([[0]] * 100))
    assert weights.tolist() == [union.cutoff]


@pytest.mark.parametrize(("weighting", "norm"), ALL)
def test_a_one_shot_budget_is_kept_and_used(weighting: Weighting, norm: int) -> None:
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, DELTA, EPSILON), groups=20)
    assert DELTA * (1 - 1e-6) < union.delta_at(EPSILON) <= DELTA
    assert union.delta_at(EPSILON * 0.99) > DELTA


def two_families(union: SetUnion, old: int, fresh: int) -> float:
    """The exact delta for a unit with so many items of either kind, of continuous noise."""
    size = old + fresh
    weight = 1.0 if union.weighting is Weighting.COUNT else size**-0.5
    sigma = union.noise.spread / UNIT_WEIGHT_STEPS
    shown = continuous_tail(union, union.threshold / UNIT_WEIGHT_STEPS - weight)
    log_hidden = fresh * math.log1p(-shown)
    distance = math.sqrt(old) * weight / sigma

    def moved(epsilon: float) -> float:
        if old == 0:
            return max(0.0, -math.expm1(epsilon))
        first = special.ndtr(distance / 2 - epsilon / distance)
        return float(first - math.exp(epsilon) * special.ndtr(-distance / 2 - epsilon / distance))

    with_unit = -math.expm1(log_hidden) + math.exp(log_hidden) * moved(EPSILON - log_hidden)
    return max(with_unit, moved(EPSILON + log_hidden))


@pytest.mark.parametrize("weighting", [Weighting.COUNT, Weighting.WEIGHTED])
@pytest.mark.parametrize("groups", [1, 2, 7, 30])
def test_fixed_weights_with_gaussian_noise_keep_delta_however_old_and_new_items_mix(
    weighting: Weighting, groups: int
) -> None:
    """Both families of Lebeda & Retschmeier 2024, Lemma 2.7, for every unit, and nearly reached."""
    for delta in (1e-3, DELTA):
        union = set_union_for(weighting, 2, PrivacyLoss(0.0, delta, EPSILON), groups=groups)
        split = [(n - t, t) for n in range(1, groups + 1) for t in range(n + 1)]
        worst = max(two_families(union, old, fresh) for old, fresh in split)
        assert delta * 0.99 < worst <= delta * (1 + 1e-6)
        smaller = DiscreteGaussian(union.noise.spread * 0.99)
        broken = replace(union, noise=smaller)
        assert max(two_families(broken, old, fresh) for old, fresh in split) > delta


class OnePercentLower(SetUnion):
    """The threshold one part in a hundred too low."""

    @property
    def threshold(self) -> int:
        return super().threshold * 99 // 100


def test_a_set_union_threshold_one_percent_lower_is_caught() -> None:
    for weighting in (Weighting.COUNT, Weighting.WEIGHTED):
        union = gaussian_union(weighting, 7)
        lower = OnePercentLower(weighting, union.noise, 7, union.delta)
        assert max(two_families(union, 0, n) for n in range(1, 8)) <= DELTA
        assert max(two_families(lower, 0, n) for n in range(1, 8)) > DELTA


def test_fixed_weights_gain_from_the_joint_analysis_and_halves_stay_reachable() -> None:
    for weighting in Weighting:
        lowest, printed = (
            set_union_for(weighting, 2, PrivacyLoss(0.0, DELTA, EPSILON), groups=10, halves=halves)
            for halves in (False, True)
        )
        assert printed.delta == pytest.approx(DELTA / 2)
        assert lowest.threshold <= printed.threshold
        assert lowest.delta_at(EPSILON) <= DELTA
        if weighting is not Weighting.POLICY:
            assert lowest.threshold < 0.95 * printed.threshold


def test_spreading_a_change_over_items_never_costs_laplace_noise_more() -> None:
    """So the price of one item taking it all covers every unit."""
    noise = DiscreteLaplace(UNIT_WEIGHT_STEPS / 3)
    whole = noise.rho(UNIT_WEIGHT_STEPS)
    for parts in (2, 3, 7, 100, 4096):
        split = [UNIT_WEIGHT_STEPS // parts] * parts
        split[0] += UNIT_WEIGHT_STEPS - sum(split)
        assert sum(noise.rho(part) for part in split) < whole


@pytest.mark.parametrize("groups", [1, 2, 3, 10, 77, 300])
def test_a_units_fixed_weights_fill_its_sensitivity_and_never_exceed_it(groups: int) -> None:
    weighted1 = laplace_union(Weighting.WEIGHTED, groups)
    weighted2 = gaussian_union(Weighting.WEIGHTED, groups)
    for items in range(1, groups + 1):
        assert (
            UNIT_WEIGHT_STEPS - items
            < items * weighted1.item_weights[items - 1]
            <= UNIT_WEIGHT_STEPS
        )
        squared = items * weighted2.item_weights[items - 1] ** 2
        assert UNIT_WEIGHT_STEPS**2 * (1 - 1e-6) < squared <= UNIT_WEIGHT_STEPS**2
    assert (
        Fraction(gaussian_union(Weighting.COUNT, groups).sensitivity) ** 2
        >= groups * UNIT_WEIGHT_STEPS**2
    )
    assert laplace_union(Weighting.COUNT, groups).sensitivity == groups * UNIT_WEIGHT_STEPS


# -- the policies' sensitivity --------------------------------------------------------------------


def ends(norm: int, cutoff: int, users: Users, items: int, size: int = 1000) -> NDArray[np.int64]:
    return padded(descend(batches(users, size), norm=norm, cutoff=cutoff, groups=items), items)


def distance(norm: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    difference = [abs(int(d)) for d in first - second]
    return sum(difference) if norm == 1 else math.sqrt(sum(d * d for d in difference))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_removing_any_unit_moves_the_weights_by_the_sensitivity_at_most(
    data: st.DataObject,
) -> None:
    items = data.draw(st.integers(1, 6))
    sets = st.sets(st.integers(0, items - 1), min_size=1)
    users = [sorted(s) for s in data.draw(st.lists(sets, min_size=1, max_size=25))]
    removed = data.draw(st.integers(0, len(users) - 1))
    cutoff = data.draw(st.integers(1, 6 * UNIT_WEIGHT_STEPS))
    without = users[:removed] + users[removed + 1 :]
    l1 = distance(1, ends(1, cutoff, users, items), ends(1, cutoff, without, items))
    assert l1 <= UNIT_WEIGHT_STEPS
    l2 = distance(2, ends(2, cutoff, users, items), ends(2, cutoff, without, items))
    assert l2 <= UNIT_WEIGHT_STEPS + math.sqrt(items) + 1e-3


def random_neighbours(seed: int) -> tuple[Users, Users, int, int]:
    rng = np.random.default_rng(seed)
    items = int(rng.integers(1, 40))
    users = random_users(rng, int(rng.integers(1, 60)), items, items)
    removed = int(rng.integers(len(users)))
    cutoff = int(rng.integers(1, 12 * UNIT_WEIGHT_STEPS))
    return users, [*users[:removed], *users[removed + 1 :]], items, cutoff


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("norm", [1, 2])
def test_thousands_of_random_neighbours_end_within_the_sensitivity(norm: int) -> None:
    furthest = 0.0
    for seed in range(2000):
        users, without, items, cutoff = random_neighbours(seed)
        apart = distance(norm, ends(norm, cutoff, users, items), ends(norm, cutoff, without, items))
        furthest = max(furthest, apart)
        assert apart <= (
            UNIT_WEIGHT_STEPS if norm == 1 else UNIT_WEIGHT_STEPS + math.sqrt(items) + 1e-2
        )
    assert (
        furthest > 0.999 * UNIT_WEIGHT_STEPS
    )  # the bound is met: a late unit's whole budget remains


def test_a_greedy_policy_is_caught_by_the_same_check() -> None:
    """Negative control: filling the fullest item first is not contractive (their Appendix C)."""
    users = [[1], [0], *([[0, 1]] * 40)]
    cutoff = Decimal(30)
    first = [[1], [1], *users[1:]]
    start: reference.Histogram = {0: Decimal("0.5"), 1: Decimal(0)}
    ends_at = []
    for database in (first, first[1:]):
        histogram: reference.Histogram = dict(start)
        for items in database:
            reference.greedy(cutoff)(histogram, items)
        ends_at.append(histogram)
    apart = sum(abs(ends_at[0][u] - ends_at[1][u]) for u in (0, 1))
    assert apart > 10


@pytest.mark.slow
def test_dropping_the_left_over_budget_is_caught_by_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control: plain rounding down spends unequal budgets and breaks contraction."""

    def careless(gap: NDArray[np.int64]) -> None:
        level = 0
        while int(np.minimum(gap, level + 1).sum()) <= 7:
            level += 1
            if level > int(gap.max()):
                break
        gap -= np.minimum(gap, level)

    def furthest() -> float:
        worst = 0.0
        for seed in range(400):
            rng = np.random.default_rng(seed)
            users = random_users(rng, 30, 6, 6)
            removed = int(rng.integers(len(users)))
            without = [*users[:removed], *users[removed + 1 :]]
            cutoff = int(rng.integers(5, 60))
            worst = max(worst, distance(1, ends(1, cutoff, users, 6), ends(1, cutoff, without, 6)))
        return worst

    # A budget of 7 steps makes every rounding large.
    monkeypatch.setattr(set_union_weights, "UNIT_WEIGHT_STEPS", 7)
    assert furthest() <= 7
    monkeypatch.setattr(set_union_weights, "_pour", careless)
    monkeypatch.setattr(
        set_union_weights, "_equal_shares", lambda count: np.full(count, 7 // count, np.int64)
    )
    assert furthest() > 7


def test_an_order_of_codes_that_depends_on_the_units_breaks_the_exact_descent() -> None:
    """Why codes must rank the keys: the left-over steps go by that order."""
    budget = UNIT_WEIGHT_STEPS
    users = [[0, 1, 2]]
    shared = ends(1, 10 * budget, users, 3)
    assert shared.sum() == budget
    assert (np.diff(shared) <= 0).all()
    assert shared[0] == shared[2] + 1


def test_rounding_is_charged_for_every_unit_the_pass_accepts() -> None:
    """Against 50-digit decimals: the computed l2-descent strays far less than the charge."""
    rng = np.random.default_rng(5)
    groups, cutoff = 30, 9 * UNIT_WEIGHT_STEPS
    users = random_users(rng, 400, 60, groups)
    exact = reference.algorithm_2(users, reference.algorithm_5(Decimal(9)))
    found = padded(descend(batches(users), norm=2, cutoff=cutoff, groups=groups), 60)
    gaps = [float(exact.get(u, Decimal(0)) * UNIT_WEIGHT_STEPS) - int(found[u]) for u in range(60)]
    strayed = math.hypot(*gaps)
    assert strayed <= math.sqrt(60)
    assert (
        UNIT_WEIGHT_STEPS + math.sqrt(60)
        < l2_sensitivity(cutoff, groups)
        < UNIT_WEIGHT_STEPS * (1 + 5e-4)
    )


# -- the whole mechanism --------------------------------------------------------------------------


def named_law(union: SetUnion, weights: NDArray[np.int64], threshold: int) -> NDArray[np.float64]:
    """The probability of every set of released items."""
    law = np.ones(1)
    for weight in weights:
        p = union.noise.sf(threshold - int(weight)) if weight > 0 else 0.0
        law = np.concatenate((law * (1 - p), law * p))
    return law


def worst_delta(union: SetUnion, users: Users, items: int, threshold: int) -> float:
    """The largest hockey-stick divergence at EPSILON when one of the users is removed."""
    worst = 0.0
    with_all = named_law(union, padded(union.weigh(batches(users)), items), threshold)
    for removed in range(len(users)):
        without = [*users[:removed], *users[removed + 1 :]]
        one_less = named_law(union, padded(union.weigh(batches(without)), items), threshold)
        for first, second in ((with_all, one_less), (one_less, with_all)):
            excess = np.maximum(0.0, first - math.exp(EPSILON) * second)
            worst = max(worst, float(excess.sum()))
    return worst


@pytest.mark.parametrize(("weighting", "norm"), ALL)
def test_the_released_names_are_as_private_as_stated(weighting: Weighting, norm: int) -> None:
    """Exactly, over all sets of names, removing each user of small databases in turn."""
    delta = 1e-3
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, delta, EPSILON), groups=6)
    worst = careless = 0.0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        users = [*random_users(rng, int(rng.integers(1, 14)), 5, 5), [5]]
        worst = max(worst, worst_delta(union, users, 6, union.threshold))
        low = union.threshold - round(3 * union.noise.spread)
        careless = max(careless, worst_delta(union, users, 6, low))
    assert worst <= union.delta_at(EPSILON) <= delta
    assert careless > delta


# -- against the reference ------------------------------------------------------------------------


@pytest.mark.parametrize(("weighting", "norm"), ALL)
def test_weights_equal_the_papers_algorithms_up_to_the_lattice(
    weighting: Weighting, norm: int
) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        users = random_users(rng, int(rng.integers(1, 120)), 30, 12)
        union = set_union_for(weighting, norm, PrivacyLoss(0.0, DELTA, EPSILON), groups=12)
        cutoff = Decimal(union.cutoff) / UNIT_WEIGHT_STEPS
        update = {
            (Weighting.COUNT, 1): reference.count,
            (Weighting.COUNT, 2): reference.count,
            (Weighting.WEIGHTED, 1): reference.weighted_laplace,
            (Weighting.WEIGHTED, 2): reference.weighted_gaussian,
            (Weighting.POLICY, 1): reference.algorithm_3(cutoff),
            (Weighting.POLICY, 2): reference.algorithm_5(cutoff),
        }[weighting, norm]
        exact = reference.algorithm_2(users, update)
        found = padded(union.weigh(batches(users)), 30)
        for u in range(30):
            expected = float(exact.get(u, Decimal(0)) * UNIT_WEIGHT_STEPS)
            assert abs(int(found[u]) - expected) <= 2 + len(users)


def test_how_units_are_batched_makes_no_difference() -> None:
    rng = np.random.default_rng(3)
    users = random_users(rng, 3000, 50, 8)
    for norm in (1, 2):
        whole = ends(norm, 7 * UNIT_WEIGHT_STEPS, users, 50, size=10**6)
        parts = ends(norm, 7 * UNIT_WEIGHT_STEPS, users, 50, size=17)
        assert np.abs(whole - parts).max() <= (0 if norm == 1 else 1)


def test_names_come_out_as_the_paper_draws_them() -> None:
    """Release frequencies equal P[weight + noise > threshold]; a shifted threshold is noticed."""
    runs = 4000
    for union in (laplace_union(Weighting.WEIGHTED, 3), gaussian_union(Weighting.WEIGHTED, 3)):
        for offset in (-1.0, 0.0, 1.5):
            score = union.threshold + round(offset * union.noise.spread)
            drawn = union.select(np.full(runs, score, np.int64), SeededSource(11))
            expected = continuous_tail(union, -offset * union.noise.spread / UNIT_WEIGHT_STEPS)
            p = stats.binomtest(len(drawn.indices), runs, expected).pvalue
            assert p > 1e-9
            wrong = continuous_tail(union, (0.3 - offset) * union.noise.spread / UNIT_WEIGHT_STEPS)
            assert stats.binomtest(len(drawn.indices), runs, wrong).pvalue < 1e-9


def test_items_nobody_has_are_never_named() -> None:
    union = SetUnion(Weighting.WEIGHTED, DiscreteLaplace(100.0 * UNIT_WEIGHT_STEPS), 1, 0.4)
    drawn = union.select(np.array([0, UNIT_WEIGHT_STEPS] * 500, np.int64), SeededSource(1))
    assert set((drawn.indices % 2).tolist()) == {1}
    assert drawn.noisy is None


def test_items_named_half_of_the_time_are_at_the_threshold() -> None:
    union = laplace_union(Weighting.WEIGHTED, 10)
    share = union.item_weights[-1]
    assert union.score_for_inclusion(0.5) == union.threshold / share
    above = union.score_for_inclusion(0.95)
    assert above is not None
    drawn = union.select(np.full(4000, round(above * share), np.int64), SeededSource(2))
    assert stats.binomtest(len(drawn.indices), 4000, 0.95).pvalue > 1e-9


# -- the pass -------------------------------------------------------------------------------------


def test_progress_is_told_after_every_batch() -> None:
    seen: list[tuple[int, int | None]] = []
    union = laplace_union(Weighting.POLICY, 2)
    union.weigh(batches([[0], [0, 1], [1]], 2), lambda done, of: seen.append((done, of)), total=3)
    assert seen == [(2, 3), (3, 3)]


@pytest.mark.parametrize("weighting", list(Weighting))
@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([([1, 0], [0, 0])], "rows_out_of_order"),
        ([([0, 0], [1, 0])], "rows_out_of_order"),
        ([([0, 0], [1, 1])], "rows_out_of_order"),
        ([([0], [-1])], "rows_out_of_order"),
        ([([0, 0], [1])], "rows_out_of_order"),
        ([([0], [0]), ([0], [1])], "rows_out_of_order"),
        ([([0, 0, 0], [0, 1, 2])], "unit_not_bounded"),
    ],
)
def test_rows_the_proof_does_not_cover_are_refused(
    weighting: Weighting, rows: list[tuple[list[int], list[int]]], code: str
) -> None:
    given_rows = [UnitItems(np.array(u, np.int64), np.array(i, np.int64)) for u, i in rows]
    with fails_with(code):
        laplace_union(weighting, 2).weigh(given_rows)


def test_more_units_or_keys_than_the_charge_covers_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(set_union_weights, "MAX_UNION_UNITS", 2)
    union = gaussian_union(Weighting.POLICY, 2)
    union.weigh(batches([[0], [0]]))
    with pytest.raises(OperationalError):
        union.weigh(batches([[0], [0], [0]], 1))
    monkeypatch.setattr(set_union_weights, "MAX_UNION_KEYS", 2)
    with pytest.raises(OperationalError):
        union.weigh(batches([[2]]))


@pytest.mark.parametrize(("weighting", "norm"), ALL)
def test_an_empty_table_gives_an_empty_union(weighting: Weighting, norm: int) -> None:
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, DELTA, EPSILON), groups=2)
    weights = union.weigh([])
    assert len(weights) == 0
    assert len(union.select(weights, SeededSource(1)).indices) == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"norm": 3},
        {"groups": 0},
        {"groups": 2**21},
        {"delta": 0.0},
        {"delta": 1.0},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"alpha": -1.0},
        {"alpha": math.nan},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, float]) -> None:
    values = {"norm": 2, "epsilon": 1.0, "groups": 5, "delta": 1e-6, "alpha": 5.0} | parameters
    with pytest.raises(ParameterError):
        set_union_for(
            Weighting.POLICY,
            int(values["norm"]),
            PrivacyLoss(0.0, values["delta"], values["epsilon"]),
            groups=int(values["groups"]),
            alpha=values["alpha"],
        )


def test_a_pass_too_long_for_its_rounding_is_refused_not_mispriced() -> None:
    """Drift grows with the cutoff, hence with the noise: here no noise can cover its own."""
    with pytest.raises(ParameterError):
        set_union_for(Weighting.POLICY, 2, PrivacyLoss(1e-6, 1e-9), groups=2**20)


@pytest.mark.parametrize(("weighting", "norm"), ALL)
def test_even_an_absurd_delta_names_only_items_that_exist(weighting: Weighting, norm: int) -> None:
    union = set_union_for(weighting, norm, PrivacyLoss(0.0, 0.99, EPSILON), groups=3)
    weights = union.weigh(batches([[0, 2], [2]]))
    assert (weights > 0).tolist() == [True, False, True]


def test_policies_have_no_fixed_weights() -> None:
    with pytest.raises(ParameterError):
        _ = laplace_union(Weighting.POLICY, 2).item_weights


# -- what comes out -------------------------------------------------------------------------------


def benchmark() -> ModuleType:
    return script("benchmarks/set_union.py")


@pytest.mark.slow
def test_the_policies_name_most_of_a_small_corpus() -> None:
    """A tenth of the published size. Less noise matters more there: Gaussian leads throughout."""
    bench = benchmark()
    data = bench.corpus(22_000)
    found = {row.algorithm: row.named for row in bench.measure(data, 1, (100,))}
    assert found["policy_gaussian"] > 1.3 * found["weighted_gaussian"]
    assert found["weighted_gaussian"] > 1.3 * found["count_gaussian"]
    assert found["policy_laplace"] > 2 * found["weighted_laplace"]
    assert found["weighted_laplace"] > 2 * found["count_laplace"]
    assert found["policy_gaussian"] > 1.8 * found["policy_laplace"]


@pytest.mark.slow
def test_the_published_table_comes_out_within_a_tenth() -> None:
    bench = benchmark()
    rows = bench.measure(bench.corpus(), 1, (10, 100))
    for row in rows:
        if row.algorithm.startswith(("weighted_gaussian", "policy")):
            assert row.named == pytest.approx(row.published, rel=0.1)
    at_100 = {row.algorithm: row.named for row in rows if row.groups == 100}
    published = {name: figures[3] for name, figures in bench.PUBLISHED.items()}
    assert sorted(at_100, key=at_100.__getitem__) == sorted(published, key=published.__getitem__)
    assert at_100["policy_gaussian"] / at_100["weighted_gaussian"] == pytest.approx(1.9, abs=0.15)
    assert at_100["policy_gaussian"] / at_100["count_gaussian"] == pytest.approx(2.6, abs=0.25)

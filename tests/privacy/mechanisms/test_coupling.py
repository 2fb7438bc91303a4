"""Coupling, computed: companions of top-k mechanisms on neighbours, as docs/mechanisms/coupling.md.

The lemmas are checked on all small neighbours and on random larger ones, the three conditions of
the definition from exact laws, and what follows from them on the true output laws. Each check has
twins that it must reject.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from functools import cache

import numpy as np
import pytest
from helpers.laws import (
    ORDERS,
    Counts,
    Law,
    above_threshold_law,
    coupled_delta,
    gumbel_law,
    log_pmf,
    neighbours,
    renyi,
    top_of,
    total_mass,
    worst_excess,
)
from helpers.topk_couplings import (
    LABEL,
    Coupling,
    Orders,
    companion_orders,
    coupling_of,
    unlabelled,
)
from numpy.typing import NDArray
from scipy import special

from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.mechanisms.topk_laplace import LaplaceTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian, LatticeNoise

ROUNDING = 1e-12


# -- the pairs ------------------------------------------------------------------------------------


def breaches(found: Coupling, groups: int, sensitivity: int, k_bar: int) -> list[str]:
    """What of Lemmas 3 and 4 does not hold."""
    shifts, broken = found.shifts, []
    if not all(0 <= shift <= sensitivity for shift in shifts):
        broken.append("a shift out of range")
    moved = min(groups, k_bar + 1)
    if sum(shifts) > moved * sensitivity:
        broken.append("sum of shifts")
    if sum(shift**2 for shift in shifts) > moved * sensitivity**2:
        broken.append("sum of squares")
    if len(found.pairs) > min(groups, k_bar):
        broken.append("too many labels")
    for side in (0, 1):
        if any(score > found.bases[side] + sensitivity for score in found.labels(side)):
            broken.append("a label too high")
    return broken


SMALL = [
    (size, largest, groups, sensitivity, k_bar, floor)
    for size, largest, groups, sensitivity, floor in (
        (4, 2, 1, 1, 0),
        (4, 2, 2, 1, 0),
        (4, 2, 3, 1, 0),
        (4, 2, 2, 2, 0),
        (3, 3, 2, 3, 0),
        (3, 3, 3, 2, 0),
        (4, 4, 2, 1, 2),
    )
    for k_bar in (1, 2, 3)
]


@pytest.mark.parametrize(("size", "largest", "groups", "sensitivity", "k_bar", "floor"), SMALL)
def test_all_small_neighbours_can_be_paired(
    size: int, largest: int, groups: int, sensitivity: int, k_bar: int, floor: int
) -> None:
    most = 0
    for a, b in neighbours(size, largest, groups, sensitivity, floor):
        found = coupling_of(a, b, k_bar, floor)
        assert breaches(found, groups, sensitivity, k_bar) == []
        most = max(most, sum(shift**2 for shift in found.shifts))
    assert most == min(groups, k_bar + 1) * sensitivity**2, "the bound is reached"


def random_neighbours(
    rng: np.random.Generator, size: int, largest: int, groups: int, sensitivity: int
) -> tuple[Counts, Counts]:
    without = rng.integers(0, largest + 1, size)
    rise = np.zeros(size, dtype=np.int64)
    touched = rng.permutation(size)[:groups]
    rise[touched] = rng.integers(0, sensitivity + 1, len(touched))
    return tuple(without.tolist()), tuple((without + rise).tolist())


@pytest.mark.slow
def test_random_neighbours_can_be_paired_in_any_way() -> None:
    rng = np.random.default_rng(7)
    crossed = blanks = unraised = 0
    for _ in range(20_000):
        size, k_bar = int(rng.integers(2, 13)), int(rng.integers(1, 8))
        groups, sensitivity = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        largest = int(rng.integers(1, 9))
        a, b = random_neighbours(rng, size, largest, groups, sensitivity)
        found = coupling_of(a, b, k_bar, 0, rng)
        assert breaches(found, groups, sensitivity, k_bar) == []
        crossed += bool(found.pairs)
        blanks += bool(found.blanks)
        unraised += sum(shift > 0 for shift in found.shifts) > sum(map(int.__lt__, a, b))
    assert min(crossed, blanks) > 2000
    assert unraised > 10, "more places may move than groups are raised, by less in all"


def test_scores_that_fall_cannot_be_paired() -> None:
    """The negative control of both lemmas: one score rises and one falls, or one only falls."""
    assert breaches(coupling_of((1, 2), (1, 1), 1, 0), 1, 1, 1) == ["a shift out of range"]
    broken: set[str] = set()
    for a, b in neighbours(4, 3, 1, 2):
        for down in range(4):
            fallen = tuple(c - 2 * (i == down) for i, c in enumerate(b))
            if min(a) > 0 and min(fallen) > 0:  # none appears or vanishes
                broken |= set(breaches(coupling_of(a, fallen, 2, 0), 2, 2, 2))
    assert {"a shift out of range", "a label too high"} <= broken


@pytest.mark.slow
def test_without_the_pairs_the_base_would_be_one_change_too_many() -> None:
    """Case two of Lemma 4: nothing is left over for the base, and a pair makes room for it."""
    crowded = [
        coupling_of(a, b, 2, 0)
        for a, b in neighbours(4, 3, 2, 2)
        if sum(map(int.__lt__, a, b)) == 2
    ]
    assert max(sum(shift > 0 for shift in found.shifts) for found in crowded) == 3
    assert max(sum(found.shifts) for found in crowded) == 4


# -- noise on scores and threshold ----------------------------------------------------------------

Threshold = GaussianTopK | LaplaceTopK
GRID = np.arange(-16, 34)


def gaussian_top_k(
    sigma: float, sensitivity: int, groups: int, k_bar: int, delta: float, floor: int = 0
) -> GaussianTopK:
    noise = IndependentNoise(DiscreteGaussian(sigma), sensitivity)
    return GaussianTopK(noise, groups, k_bar, delta, floor)


GAUSSIAN = [
    gaussian_top_k(0.4, 1, 1, 1, 0.1),
    gaussian_top_k(1.0, 1, 2, 2, 0.1),
    gaussian_top_k(1.5, 1, 1, 2, 0.02),
    gaussian_top_k(1.5, 1, 3, 1, 0.3),
    gaussian_top_k(1.5, 1, 2, 2, 0.3, floor=1),
    gaussian_top_k(1.7, 2, 1, 2, 0.1),
    gaussian_top_k(1.7, 2, 2, 1, 0.3),
    gaussian_top_k(1.7, 3, 2, 2, 0.2),
]
LAPLACE = [
    LaplaceTopK(1.0, 1, 1, 0.05, 0),
    LaplaceTopK(0.7, 2, 1, 0.05, 0),
    LaplaceTopK(0.9, 2, 2, 0.2, 0),
    LaplaceTopK(0.8, 2, 1, 0.1, 1),
]


def noise_of(mechanism: Threshold) -> LatticeNoise:
    return mechanism.score_noise.noise


def reach_of(mechanism: Threshold) -> NDArray[np.int64]:
    if isinstance(mechanism, GaussianTopK):
        return GRID
    return np.arange(-26, 36)


def true_law(mechanism: Threshold, counts: Counts) -> Law:
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    center = base + mechanism.threshold
    scores = {i: counts[i] for i in top}
    return above_threshold_law(noise_of(mechanism), scores, center, reach_of(mechanism))


def companion_law(mechanism: Threshold, found: Coupling, side: int, *, labels: bool = False) -> Law:
    """The companion's law; outcomes without labels alone, unless ``labels``."""
    grid, center = reach_of(mechanism), found.bases[side] + mechanism.threshold
    scores = {i: found.scores[side][i] for i in found.common}
    unseen = found.labels(side)
    if labels:
        scores |= {LABEL + j: score for j, score in enumerate(unseen)}
        unseen = []
    return above_threshold_law(noise_of(mechanism), scores, center, grid, unseen)


def couplings(
    mechanism: Threshold | GumbelTopK, size: int, largest: int
) -> Iterator[tuple[Counts, Counts, Coupling]]:
    step = 1 if isinstance(mechanism, LaplaceTopK) else sensitivity_of(mechanism)
    for a, b in neighbours(size, largest, mechanism.groups or size, step, mechanism.floor):
        yield a, b, coupling_of(a, b, mechanism.k_bar, mechanism.floor)


def sensitivity_of(mechanism: GaussianTopK | GumbelTopK) -> int:
    if isinstance(mechanism, GaussianTopK):
        return mechanism.noise.sensitivity
    return mechanism.sensitivity


def size_of(mechanism: Threshold) -> tuple[int, int]:
    return (3, 2 + mechanism.floor) if mechanism.k_bar > 1 else (3, 3 + mechanism.floor)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [*GAUSSIAN, *LAPLACE], ids=repr)
def test_companions_without_labels_lie_below_the_mechanism_and_miss_at_most_delta(
    mechanism: Threshold,
) -> None:
    """Conditions 2 and 3, with equality where they say so."""
    truth = cache(lambda counts: true_law(mechanism, counts))
    for a, b, found in couplings(mechanism, *size_of(mechanism)):
        for side, counts in enumerate((a, b)):
            part, law = companion_law(mechanism, found, side), truth(counts)
            assert total_mass(part) >= 1 - mechanism.delta
            for key, values in part.items():
                assert bool((values <= law[key] + ROUNDING).all())
                if side == 1 or not found.blanks:
                    assert np.allclose(values, law[key], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=repr)
def test_gaussian_companions_are_as_close_as_the_cost_says(mechanism: GaussianTopK) -> None:
    """Condition 1: of all that they draw, at every order."""

    @cache
    def apart(shift: int, order: float) -> float:
        noise = mechanism.noise.noise
        reach = math.ceil(60 * noise.spread) + 60 + math.ceil(shift * (order + 1))
        x = np.arange(-reach, reach + 1)
        return renyi(log_pmf(noise, x), log_pmf(noise, x - shift), order)

    moved = {tuple(sorted(c.shifts)) for _, _, c in couplings(mechanism, *size_of(mechanism))}
    for order in ORDERS:
        worst = max(sum(apart(shift, order) for shift in shifts if shift) for shifts in moved)
        assert worst <= order * mechanism.rho(None) * (1 + 1e-9)
    assert worst >= order * mechanism.rho(None) * 0.99, "and no closer"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", GAUSSIAN[:4], ids=repr)
def test_what_gaussian_companions_release_is_no_further_apart(mechanism: GaussianTopK) -> None:
    """The same of the outcomes, labels included, from their laws."""
    for _, _, found in couplings(mechanism, 3, 2):
        laws = [companion_law(mechanism, found, side, labels=True) for side in (0, 1)]
        with np.errstate(divide="ignore"):
            logs = [np.log(np.concatenate([v.ravel() for v in law.values()])) for law in laws]
        for order in (1.01, 2.0, 10.0):
            for p, q in (logs, logs[::-1]):
                known = np.isfinite(p) & np.isfinite(q)
                assert renyi(p[known], q[known], order) <= order * mechanism.rho(None) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", LAPLACE, ids=repr)
def test_laplace_companions_differ_by_at_most_epsilon_everywhere(mechanism: LaplaceTopK) -> None:
    widest = 0.0
    for _, _, found in couplings(mechanism, *size_of(mechanism)):
        laws = [companion_law(mechanism, found, side, labels=True) for side in (0, 1)]
        for key, values in laws[0].items():
            seen = (values > 1e-9) & (laws[1][key] > 1e-9)  # the grid's ends are cut off
            ratios = np.abs(np.log(values[seen] / laws[1][key][seen]))
            widest = max(widest, float(ratios.max(initial=0.0)))
    assert 0.95 * mechanism.epsilon <= widest <= mechanism.epsilon * (1 + 1e-6)


# -- picks ----------------------------------------------------------------------------------------

GUMBEL = [
    GumbelTopK(1.5, 1, 1, 1, 0.1, 0),
    GumbelTopK(1.5, 1, 1, 3, 0.3, 0),
    GumbelTopK(3.0, 1, 2, 2, 0.05, 0),
    GumbelTopK(0.4, 1, 3, 3, 0.3, 0),
    GumbelTopK(2.0, 2, 2, 2, 0.2, 0),
    GumbelTopK(2.0, 1, 2, 2, 0.2, 1),
    GumbelTopK(1.5, 1, 1, 3, 0.3, 0, groups=1),
    GumbelTopK(0.8, 1, 3, 3, 0.2, 0, groups=1),
    GumbelTopK(2.0, 2, 2, 3, 0.2, 0, groups=2),
]


@pytest.mark.parametrize("mechanism", GUMBEL, ids=repr)
def test_companions_that_pick_no_label_pick_at_most_as_the_mechanism_does(
    mechanism: GumbelTopK,
) -> None:
    """Conditions 2 and 3, with equality where they say so."""
    truth = cache(lambda counts: gumbel_law(mechanism, counts))
    for a, b, found in couplings(mechanism, 3, 2 + mechanism.floor):
        for side, counts in enumerate((a, b)):
            part, law = unlabelled(companion_orders(mechanism, found, side)), truth(counts)
            assert math.fsum(part.values()) >= 1 - mechanism.delta
            for order, p in part.items():
                assert p <= law[order] * (1 + ROUNDING)
                if side == 1 or not found.blanks:
                    assert p == pytest.approx(law[order], rel=1e-12)


def unpaid(p: Orders, q: Orders, mechanism: GumbelTopK, order: float) -> float:
    """log E_Q[(P/Q)**order * exp(-order (order - 1) cost)], with each outcome's settled cost.

    At most 0 for every order means: what is settled covers the loss, also in adaptive sequences.
    """
    logs = [
        order * math.log(p[y])
        + (1 - order) * math.log(q[y])
        - order * (order - 1) * mechanism.rho(len(y))
        for y in p
    ]
    return float(special.logsumexp(logs)) / (order - 1)


def worst_unpaid(mechanism: GumbelTopK, found: Iterator[tuple[Counts, Counts, Coupling]]) -> float:
    """The largest shortfall of the settled costs over neighbours, per order - 1."""
    worst = -math.inf
    for _, _, coupling in found:
        p, q = (companion_orders(mechanism, coupling, side) for side in (0, 1))
        for order in ORDERS:
            for one, other in ((p, q), (q, p)):
                worst = max(worst, unpaid(one, other, mechanism, order))
    return worst


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", GUMBEL, ids=repr)
def test_picks_settle_at_least_what_the_companions_reveal(mechanism: GumbelTopK) -> None:
    """Condition 1, at epsilon**2/8 a pick and nothing more."""
    assert mechanism.pick_cost(Composition.ZCDP) == pytest.approx(
        mechanism.epsilon**2 / 8, rel=1e-11
    )
    assert worst_unpaid(mechanism, couplings(mechanism, 3, 2 + mechanism.floor)) <= ROUNDING


@pytest.mark.parametrize("mechanism", GUMBEL, ids=repr)
def test_picks_settle_enough_on_random_neighbours_with_random_pairs(
    mechanism: GumbelTopK,
) -> None:
    rng, floor = np.random.default_rng(11), mechanism.floor

    def drawn() -> Iterator[tuple[Counts, Counts, Coupling]]:
        for _ in range(60):
            pair = random_neighbours(rng, 5, 5, mechanism.groups or 5, mechanism.sensitivity)
            a, b = (tuple(c + floor for c in counts) for counts in pair)
            yield a, b, coupling_of(a, b, mechanism.k_bar, floor, rng)

    assert worst_unpaid(mechanism, drawn()) <= ROUNDING


class StopIsFree(GumbelTopK):
    """The stopping symbol is not charged."""

    def cost(self, composition: Composition, reach: int | None) -> float:
        return (self.k if reach is None else reach) * self.pick_cost(composition)


class TenthOff(GumbelTopK):
    """A pick for nine tenths of its price."""

    def pick_cost(self, composition: Composition) -> float:
        return super().pick_cost(composition) * 0.9


def test_a_pick_for_less_is_caught_where_a_group_is_level_with_the_stop() -> None:
    for epsilon in (0.2, 0.5):
        fair, broken = (kind(epsilon, 1, 1, 1, 0.01, 0) for kind in (GumbelTopK, TenthOff))
        level = round(fair.threshold)
        pairs = [((c,), (c + 1,)) for c in range(level - 3, level + 3)]
        both = [(a, b, coupling_of(a, b, 1, 0)) for a, b in pairs]
        assert worst_unpaid(fair, iter(both)) <= ROUNDING
        assert worst_unpaid(broken, iter(both)) > 0.02 * fair.pick_cost(Composition.ZCDP)


def test_a_stop_that_costs_nothing_is_caught() -> None:
    broken = StopIsFree(3.0, 1, 2, 2, 0.05, 0)
    assert worst_unpaid(broken, couplings(broken, 2, 3)) > 1e-3


# -- sessions -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_pays_what_it_gets_when_the_second_call_depends_on_the_first() -> None:
    """Picks limited to three in all: the second call's k is what the first left over (Lemma 2)."""
    limit, first = 3, GumbelTopK(2.0, 1, 2, 2, 0.1, 0)

    def second(y: tuple[int, ...]) -> GumbelTopK:
        return GumbelTopK(2.0, 1, limit - min(2, len(y) + 1), 2, 0.1, 0)

    def session(found: Coupling, side: int) -> dict[Hashable, float]:
        return {
            (y, z): p * q
            for y, p in companion_orders(first, found, side).items()
            for z, q in companion_orders(second(y), found, side).items()
        }

    def true_session(counts: Counts) -> Law:
        return {
            (y, z): np.asarray(p * q)
            for y, p in gumbel_law(first, counts).items()
            for z, q in gumbel_law(second(y), counts).items()
        }

    rho = limit * first.pick_cost(Composition.ZCDP)
    for a, b, found in couplings(first, 3, 2):
        p, q = (session(found, side) for side in (0, 1))
        logs = [np.log(np.array([law[y] for y in p])) for law in (p, q)]
        for order in ORDERS:
            for one, other in (logs, logs[::-1]):
                assert renyi(one, other, order) <= order * rho * (1 + 1e-9)
        assert worst_excess(true_session(a), true_session(b), rho, 0.2, coupled_delta) <= ROUNDING


# -- noise that groups share ----------------------------------------------------------------------


def shared_breaches(less: Counts, more: Counts, k_bar: int, sensitivity: int) -> set[str]:
    """What of the coupling of shared noise does not hold, in half-steps."""
    (top, base), (top_without, base_without) = (top_of(c, k_bar, 0) for c in (more, less))
    here = {i: more[i] - base for i in top if more[i] > base}
    there = {i: less[i] - base_without for i in top_without if less[i] > base_without}
    common, fresh, gone = here.keys() & there.keys(), here.keys() - there, there.keys() - here
    shift = sensitivity - 2 * (base - base_without)
    moved = [2 * here[i] - shift - 2 * there[i] for i in common]
    broken = set()
    if max(map(abs, [shift, *moved])) > sensitivity or len(common) > k_bar:
        broken.add("moved too far")
    if len(fresh) + len(gone) > (k_bar if sensitivity == 1 else 2 * k_bar):
        broken.add("too many to hide")
    for extra in (0, shift):  # of the shared noise, under either companion
        centres = {2 * here[i] - shift + extra for i in fresh}
        centres |= {2 * there[i] + extra for i in gone}
        if max(centres, default=0) > 2 * sensitivity:
            broken.add("too high to hide")
    return broken


@pytest.mark.parametrize(("sensitivity", "largest"), [(1, 3), (2, 3), (3, 4)])
@pytest.mark.parametrize("k_bar", [1, 2, 3])
def test_what_one_neighbour_has_alone_is_hidden_and_the_rest_moves_by_a_rise_at_most(
    k_bar: int, sensitivity: int, largest: int
) -> None:
    for less, more in neighbours(3, largest, 3, sensitivity):
        assert shared_breaches(less, more, k_bar, sensitivity) == set()


def test_scores_that_fall_or_rise_more_are_noticed() -> None:
    assert "moved too far" in shared_breaches((9, 5, 0), (8, 6, 0), 2, 1) | shared_breaches(
        (9, 9, 1), (8, 9, 2), 2, 1
    )
    assert "moved too far" in shared_breaches((9, 0), (11, 0), 1, 1)
    assert "too high to hide" in shared_breaches((0, 0), (3, 0), 1, 2)

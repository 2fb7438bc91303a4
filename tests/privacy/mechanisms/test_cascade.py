"""Cascades: the price of all steps together, what one unit moves, what it may bring about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from helpers.cascade_rows import NeverInOrder, PairRows, whole
from helpers.laws import SeededSource, lower_bound
from numpy.typing import NDArray

import dpsql.privacy.mechanisms.cascade as cascade_module
from dpsql.planner.budget import QueryBudget
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import DELTA_UNIT, Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps, gaussian
from dpsql.privacy.mechanisms.cascade import (
    CAP_CHOICES,
    KEPT_CHOICES,
    MOST_SQUARES,
    WHOLE_SHARE,
    Cascade,
    CascadeGoal,
    CascadeRows,
    NamedGroups,
    PilotNoise,
    UnitSizes,
    after_pilot,
    scaled_counts,
    spread_noise,
)
from dpsql.privacy.mechanisms.naming import GroupWeights, Integers64, NamingRound, RoundMemory
from dpsql.privacy.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace, EntropySource

GOALS = tuple(CascadeGoal)


def cascade(
    rho: float = 0.05,
    delta: float = 1e-6,
    goal: CascadeGoal = CascadeGoal.COUNTS,
    floor: int = 0,
    most: int | None = None,
    composition: Composition = Composition.ZCDP,
) -> Cascade:
    price = PrivacyLoss(rho, delta, gaussian=composition is Composition.GDP)
    return Cascade(price, floor, most, goal)


def random_rows(seed: int, units: int = 8, keys: int = 9, minimum: int = 1) -> PairRows:
    rng = np.random.default_rng(seed)
    held = np.argwhere(rng.random((units, keys)) < rng.random((units, 1)))
    return PairRows(held[:, 0], held[:, 1], rng.random(len(held)), minimum)


def without(rows: PairRows, unit: int) -> PairRows:
    left = rows.units != unit
    return replace(rows, units=rows.units[left], keys=rows.keys[left], order=rows.order[left])


def weighed(ids: NDArray[np.int64], weight: int) -> GroupWeights:
    """Groups of one weight, in steps, that have enough units."""
    return GroupWeights(ids, np.full(len(ids), weight, np.int64), np.full(len(ids), True))


# -- the price --------------------------------------------------------------------------------


SESSIONS = (Composition.ZCDP, Composition.GDP)


def steps_cost(
    one: Cascade, composition: Composition, brief: bool, measures: int = 1, parts: int = 1
) -> float:
    """What all that is drawn costs together, as each noise says by itself.

    Values have a price of their own, besides what naming leaves them: that is taken away. The
    second pilot has one histogram, or two, and a sum of shares beside the norms' one.
    """
    shares, ends = one.shares, one.shares.ends_after if brief else None
    drawn = [one.pilot.noise, *(r.own for r in one.rounds(30)[:ends])]
    if shares.second_pilot:
        drawn += [one.second_pilot(parts).noise] * max(1, parts - 1)
        drawn += [one.shares_noise(parts)] if parts > 1 else []
    counting, paid = one.counting, 0.0
    if brief:
        counting = one.spared_noise(WEIGHT_STEPS, measures)
        if one.goal is CascadeGoal.VALUES:
            drawn += [counting] * (measures - 1)
            paid = measures * one.price.rho
    drawn += [counting] if counting is not None else []
    return sum(noise.cost(composition, 1) for noise in drawn) - paid


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("rho", [1e-6, 0.0123, 0.7, 40.0])
@pytest.mark.parametrize("composition", SESSIONS)
def test_all_steps_together_cost_what_is_stated_however_they_turn_out(
    goal: CascadeGoal, rho: float, composition: Composition
) -> None:
    one = cascade(rho, goal=goal, composition=composition)
    brief = {False, one.shares.ends_after is not None}
    for kept in KEPT_CHOICES:
        rounds = one.rounds(kept)
        assert [r.own for r in rounds] == [r.own for r in one.rounds(30)]
        assert sum(r.delta for r in rounds) <= one.delta
    for ends in brief:  # after rounds that leave little: what the others would have had
        for parts in (1, 2, 3):
            # Pilots count units, whose lattice is coarse beside Gaussian noise of less than one.
            coarse = composition is Composition.GDP and rho == 40
            least = {1: 0.963, 2: 0.988, 3: 0.991}[parts] if coarse else 0.999
            cost = steps_cost(one, composition, ends, measures=2 * parts - 1, parts=parts)
            assert least * rho < cost <= rho
    counting = 0.0 if one.counting is None else one.counting.cost(composition, 1)
    assert 0.999 * rho < one.cost(composition, None) + counting <= rho
    assert one.pilot.noise.cost(composition, 1) + one.only_round.cost(composition, None) <= rho
    assert one.only_round.delta == one.delta
    single = cascade(rho, goal=goal, most=1, composition=composition)
    assert 0.999 * rho < single.only_round.cost(composition, None) <= rho


def test_noise_of_a_zcdp_price_costs_more_in_gaussian_dp() -> None:
    """So that a step which forgets its kind of price is noticed."""
    assert steps_cost(cascade(0.7), Composition.GDP, False) > 0.7
    assert cascade(0.7).cost(Composition.GDP, None) == math.inf


@pytest.mark.parametrize("cap", CAP_CHOICES)
@pytest.mark.parametrize("composition", SESSIONS)
def test_counting_costs_the_same_at_every_cap(cap: int, composition: Composition) -> None:
    for sensitivity in (1, WEIGHT_STEPS):
        price = PrivacyLoss(0.002, gaussian=composition is Composition.GDP)
        base = gaussian(price, sensitivity, 1)
        wider, least = spread_noise(base, cap), 0.99 if sensitivity == 1 else 0.999999
        cost = base.cost(composition, 1)
        assert least * cost < wider.cost(composition, cap) <= cost <= 0.002
        assert wider.noise.std == pytest.approx(base.noise.std * math.sqrt(cap), rel=1e-6)


def test_a_unit_is_in_one_bucket_of_a_pilot() -> None:
    silent = PilotNoise(IndependentNoise(DiscreteGaussian(0.05), 1))
    for size in (1, 2, 3, 4, 7, 8, 1023, 1024, 8191, 8192, 10**9, 2**40):
        one = silent.histogram(UnitSizes(np.array([size]), np.array([1])), SeededSource(1))
        assert one.sum() == 1
        assert one[min(size.bit_length() - 1, 13)] == 1


# -- what one unit moves ----------------------------------------------------------------------


class EverythingAgain(PairRows):
    """A round that forgets to leave out what has a name."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        return PairRows.unnamed_weights(self, named[:0], kept)


class OrderOfOthers(PairRows):
    """A cap whose order depends on how many pairs other units have."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        shifted = (self.order * 997 + self.keys * len(self.units) * 0.37) % 1
        rows = PairRows(self.units, self.keys, shifted, self.minimum)
        return rows.unnamed_weights(named, kept)


class CountedWhole(PairRows):
    """A cap whose units weigh by the keys that they keep of all, as if they had no more."""

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        found = PairRows.unnamed_weights(self, named, kept)
        return GroupWeights(found.ids, found.weights * 2, found.enough)


def moved(rows: CascadeRows, other: CascadeRows, named: Integers64, kept: int) -> float:
    """The squared l2 distance, in whole weights: that of a group which nobody keeps is 0."""
    mine, theirs = (r.unnamed_weights(named, kept) for r in (rows, other))
    one = dict(zip(mine.ids.tolist(), mine.weights.tolist(), strict=True))
    two = dict(zip(theirs.ids.tolist(), theirs.weights.tolist(), strict=True))
    assert two.keys() <= one.keys() or rows.__class__ is not PairRows
    total: int = sum((one.get(key, 0) - two.get(key, 0)) ** 2 for key in one.keys() | two.keys())
    return total / WEIGHT_STEPS**2


def worst_move(kind: type[PairRows]) -> float:
    worst = 0.0
    for seed in range(60):
        rows = random_rows(seed)
        rows = kind(rows.units, rows.keys, rows.order)
        named = np.flatnonzero(np.random.default_rng(seed).random(9) < 0.4)
        for unit in range(8):
            for kept in (1, 3, 10):
                left = without(rows, unit)
                worst = max(worst, moved(rows, left, named, kept))
    return worst


@pytest.mark.slow
def test_a_unit_moves_a_round_by_one_whole_weight_at_most_whatever_has_a_name() -> None:
    assert 0.99 < worst_move(PairRows) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("broken", [OrderOfOthers, CountedWhole])
def test_the_audit_of_rounds_notices(broken: type[PairRows]) -> None:
    assert worst_move(broken) > 1.01


# -- names ------------------------------------------------------------------------------------


def crowd(units: int, keys: int) -> PairRows:
    """Units who all have the first two keys, and each one more of the others."""
    unit = np.repeat(np.arange(units), 3)
    key = np.column_stack(
        [np.zeros(units, int), np.ones(units, int), 2 + np.arange(units) % keys]
    ).ravel()
    return PairRows(unit, key, np.random.default_rng(1).random(len(unit)))


def test_each_group_is_named_once_and_later_rounds_see_what_is_left() -> None:
    rows = crowd(3_000, 60)
    found = cascade(0.2, 1e-4).name_groups(rows, SeededSource(3))
    assert found.ids.tolist() == sorted(set(found.ids.tolist())) == list(range(62))
    assert found.rounds[:2].tolist() == [0, 0]
    assert not found.alone
    # Whole units are behind what is left: they have one key without a name. The first round, which
    # is a fifth of what the second knows, saw a third of each.
    late = found.rounds == 1
    assert late.sum() > 30
    expected = 50 * (4 + 1 / math.sqrt(3)) / 5
    assert np.abs(whole(found.weights[late]) - expected).max() < 4 * found.scales[1] / WEIGHT_STEPS
    assert np.abs(found.weights[0] / WEIGHT_STEPS - 3000 / math.sqrt(3)) < 60


def test_a_round_that_forgets_to_leave_out_what_is_named_is_noticed() -> None:
    rows = crowd(3_000, 12)
    broken = EverythingAgain(rows.units, rows.keys, rows.order)
    found = cascade(2.0, 1e-4).name_groups(broken, SeededSource(3))
    assert len(set(found.ids.tolist())) < len(found.ids)


def test_where_units_have_one_key_there_is_one_round_at_all_of_the_price() -> None:
    rows = PairRows(np.arange(4_000), np.arange(4_000) % 10, np.zeros(4_000))
    one = cascade(0.5)
    found = one.name_groups(rows, SeededSource(4))
    assert found.alone
    assert found.scales == (one.only_round.noise.std,)
    assert found.ids.tolist() == list(range(10))


def spread(units: int, keys: int, each: int) -> PairRows:
    """Units with so many of the keys each, all keys alike."""
    unit, place = np.divmod(np.arange(units * each), each)
    return PairRows(unit, (unit + place) % keys, np.random.default_rng(1).random(len(unit)))


def together(*parts: PairRows) -> PairRows:
    """The rows of all parts, each with keys of its own, of the same units."""
    keys = [part.keys + 1_000 * number for number, part in enumerate(parts)]
    units, order = ([getattr(part, name) for part in parts] for name in ("units", "order"))
    return PairRows(np.concatenate(units), np.concatenate(keys), np.concatenate(order))


@pytest.mark.slow
def test_few_large_keys_end_the_naming_before_its_budget() -> None:
    for goal in (CascadeGoal.COUNTS, CascadeGoal.VALUES):
        found = cascade(goal=goal).name_groups(spread(20_000, 6, 3), SeededSource(1))
        assert found.spared
        assert found.ids.tolist() == list(range(6))
        assert len(found.scales) == 2
    keys = cascade(goal=CascadeGoal.KEYS)  # which have nothing to spare it for
    other = keys.name_groups(spread(20_000, 6, 3), SeededSource(1))
    assert not other.spared
    assert len(other.scales) == len(keys.shares.parts)


def test_values_have_less_noise_where_naming_leaves_some_of_its_price() -> None:
    """Each measure by as much more as the third round would have cost, divided equally."""
    one = cascade(goal=CascadeGoal.VALUES)
    left = one.rounds(30)[2].rho(None)
    for measures in (1, 4):
        spared = one.spared_noise(WEIGHT_STEPS, measures)
        assert spared.rho(1) == pytest.approx(one.price.rho + left / measures, rel=1e-3)


@pytest.mark.slow
def test_a_brief_round_names_as_often_as_it_says() -> None:
    one = cascade()
    surely, usual = one.score_if_brief(0.95), one.score_for_inclusion(0.95)
    assert surely is not None
    assert usual is not None
    assert surely > 1.9 * usual  # what would hold without a brief round does not hold with it
    assert cascade(goal=CascadeGoal.KEYS).score_if_brief(0.95) is None
    assert cascade(most=1).score_if_brief(0.95) is None
    large = spread(20_000, 6, 3)
    named = dict.fromkeys((usual, surely), 0)
    for score in named:
        count = math.ceil(score / WEIGHT_STEPS)
        rows = PairRows(
            np.concatenate([large.units, np.arange(count) + 10**6]),
            np.concatenate([large.keys, np.full(count, 99)]),
            np.concatenate([large.order, np.zeros(count)]),
        )
        for seed in range(40):
            found = one.name_groups(rows, SeededSource(seed))
            late = 99 in found.ids[found.rounds > 0]  # a second round that names few is the last
            assert found.spared or late
            named[score] += 99 in found.ids
    assert named[surely] >= 36
    assert named[usual] < 20


def test_a_brief_naming_spends_all_of_delta() -> None:
    one = cascade()
    last = one.brief_round(30)
    assert last is not None
    first, second, third = one.rounds(30)
    assert first.delta + last.delta == pytest.approx(one.delta)
    assert second.delta + third.delta == pytest.approx(last.delta)
    assert (last.own, last.noise) == (second.own, second.noise)  # nothing else is drawn
    assert last.threshold < 0.96 * second.threshold


def test_small_keys_behind_a_gap_are_named_with_the_rest() -> None:
    """A brief round that finds many is followed by all of the rest."""
    one = cascade(0.2, 1e-4)
    small = PairRows(np.arange(1_440), np.arange(1_440) % 60, np.zeros(1_440))
    found = one.name_groups(together(spread(20_000, 6, 3), small), SeededSource(2))
    assert not found.spared
    assert len(found.scales) == 3
    assert len(found.ids) == 66
    assert len({*found.rounds[6:].tolist()} & {1, 2}) > 0


def near_the_threshold(one: Cascade, keys: int) -> PairRows:
    """Units that give each of so many keys half more than the first round asks for."""
    threshold = one.rounds(3)[0].threshold / WEIGHT_STEPS
    return spread(int(threshold * 1.5 * math.sqrt(3) * keys / 3), keys, 3)


def test_naming_goes_on_where_the_first_round_names_nothing_or_few_keys_near_its_threshold() -> (
    None
):
    one = cascade()
    for rows in (near_the_threshold(one, 4), spread(30, 6, 3)):
        found = one.name_groups(rows, SeededSource(3))
        assert not found.spared
        assert len(found.scales) == 3
        assert found.scales[2] < 0.3 * found.scales[0]


def test_several_keys_end_the_naming_where_a_longer_round_finds_no_more() -> None:
    one = cascade()
    found = one.name_groups(near_the_threshold(one, 8), SeededSource(3))
    assert found.rounds.tolist() == [0] * 8
    assert found.spared
    # A tail of smaller keys is found by the second round, and the third has all of the rest.
    ranks = np.arange(1, 200)
    sizes = (6 * one.rounds(3)[0].threshold / WEIGHT_STEPS / ranks).astype(int)
    keys = np.repeat(ranks, sizes)
    tail = PairRows(np.arange(len(keys)), keys, np.zeros(len(keys)))
    assert not one.name_groups(together(near_the_threshold(one, 8), tail), SeededSource(4)).spared


class SilentAtLast(RoundMemory):
    """Rounds without a last test."""

    def named_after_all(self, last: NamingRound) -> tuple[Integers64, Steps]:
        return np.zeros(0, np.int64), np.zeros(0)


def named_at_last(one: Cascade, runs: int) -> int:
    """How often a key about as large as a brief naming names is named when that ends."""
    last, rows = one.brief_round(10), near_the_threshold(one, 8)
    assert last is not None
    count = math.ceil(last.threshold / WEIGHT_STEPS)
    alone = PairRows(np.arange(count) + 10**6, np.zeros(count, np.int64), np.zeros(count))
    both = together(rows, alone)
    found = [one.name_groups(both, SeededSource(seed)) for seed in range(runs)]
    return sum(each.spared and 1_000 in each.ids for each in found)


@pytest.mark.slow
def test_a_key_that_the_third_rounds_delta_names_is_lost_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of values, whose naming goes on where the second round names the key.
    one, runs = cascade(goal=CascadeGoal.VALUES), 100
    assert named_at_last(one, runs) > 0
    monkeypatch.setattr(cascade_module, "RoundMemory", SilentAtLast)
    assert named_at_last(one, runs) == 0


class AllOfDelta(Cascade):
    """Rounds that do not divide delta."""

    def rounds(self, kept: int) -> tuple[NamingRound, ...]:
        return tuple(replace(r, delta=self.delta) for r in super().rounds(kept))


@dataclass(frozen=True)
class FreshKey(NeverInOrder):
    """One unit with one key, and a pilot that shows units with two keys each."""

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        return UnitSizes(np.array([2]), np.array([1_000_000]))

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        here = np.array([] if len(named) else [7], dtype=np.int64)
        return weighed(here, WEIGHT_STEPS)


def often_named(one: Cascade, runs: int) -> int:
    source = SeededSource(11)
    return sum(len(one.name_groups(FreshKey(), source).ids) for _ in range(runs))


@pytest.mark.slow
def test_a_fresh_key_is_named_as_rarely_as_stated_when_it_is_drawn() -> None:
    runs, honest = 4_000, cascade(0.05, 0.3)
    assert lower_bound(often_named(honest, runs), runs) <= honest.delta
    broken = AllOfDelta(PrivacyLoss(0.05, 0.3), 0, None, CascadeGoal.COUNTS)
    assert lower_bound(often_named(broken, runs), runs) > broken.delta


# -- pilots -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnTheEdge(NeverInOrder):
    """So many units with one key beside others with 100, where one more unit turns the choice."""

    ones: int

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        return UnitSizes(np.array([1, 100]), np.array([self.ones, 5_000]))

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        return weighed(np.array([kept]), 0)


@dataclass(frozen=True)
class Units(NeverInOrder):
    """Units of given sizes, and no keys."""

    of: UnitSizes

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        return self.of

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        raise NotImplementedError


class UsedBeforeReleased(PilotNoise):
    """A look that tells what it sees, without noise."""

    def histogram(self, exact: UnitSizes, source: EntropySource) -> NDArray[np.float64]:
        silent = PilotNoise(IndependentNoise(DiscreteGaussian(0.05), 1))
        return silent.histogram(exact, source)


class Peeking(Cascade):
    @property
    def pilot(self) -> PilotNoise:
        return UsedBeforeReleased(super().pilot.noise)


Choice = Callable[[Cascade, OnTheEdge, EntropySource], object]


def chosen(one: Cascade, rows: OnTheEdge, source: EntropySource) -> object:
    return one._kept(rows, source)


def turning_point() -> int:
    """The least number of units with one key at which the exact histogram chooses otherwise."""
    peeking, source = Peeking(PrivacyLoss(0.05, 1e-6), 0, None, CascadeGoal.COUNTS), SeededSource(1)
    low, high = 0, 2_000_000
    first = chosen(peeking, OnTheEdge(low), source)
    while high - low > 1:
        middle = (low + high) // 2
        if chosen(peeking, OnTheEdge(middle), source) == first:
            low = middle
        else:
            high = middle
    return high


def share_of_choice(one: Cascade, ones: int, runs: int) -> tuple[Counter[object], int]:
    source = SeededSource(5)
    return Counter(chosen(one, OnTheEdge(ones), source) for _ in range(runs)), runs


def largest_gap(one: Cascade) -> float:
    """By how much one unit changes the share of some choice."""
    at = turning_point()
    (here, runs), (there, _) = (share_of_choice(one, ones, 2_000) for ones in (at, at - 1))
    return max(abs(here[c] - there[c]) for c in here.keys() | there.keys()) / runs


@pytest.mark.slow
def test_a_choice_depends_on_a_pilot_only_through_its_noise() -> None:
    honest = cascade(0.05)
    # rho of the pilot bounds the total variation by sqrt(rho / 2), here 0.016.
    bound = math.sqrt(honest.pilot.noise.rho(1) / 2)
    assert largest_gap(honest) < bound + 0.1
    assert largest_gap(Peeking(PrivacyLoss(0.05, 1e-6), 0, None, CascadeGoal.COUNTS)) > 0.9


def test_what_the_cut_off_may_hide_keeps_choices_moderate_and_weighs_nothing_beside_many() -> None:
    """Few units with many keys each show nothing; many show all that matters."""
    one, source = cascade(0.02), SeededSource(9)
    none = UnitSizes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert {one._kept(rows, source) for rows in [Units(none)] * 20} == {300}
    few = UnitSizes(np.array([40, 90, 200]), np.array([150, 150, 150]))
    assert {one._kept(rows, source) for rows in [Units(few)] * 20} <= {100, 300}
    many = UnitSizes(np.array([2, 3]), np.array([200_000, 300_000]))
    assert {one._kept(rows, source) for rows in [Units(many)] * 20} == {3}
    seen = one.pilot.with_unseen(np.zeros(14), 64)
    assert np.flatnonzero(seen).tolist() == [0, 1, 2, 3, 4, 5]
    assert (seen[:6] == one.pilot.noise.noise.std).all()
    shown = one.pilot.with_unseen(np.full(14, 1e5), 64)
    assert (shown == 1e5).all()


@pytest.mark.slow
def test_noise_alone_makes_no_bucket() -> None:
    empty = UnitSizes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    source, pilot = SeededSource(8), cascade(0.02).pilot
    shown = sum(bool(pilot.certain(pilot.histogram(empty, source)).any()) for _ in range(3_000))
    assert shown <= 15  # 14 * 3e-5 of them on average


# -- the cap ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes(NeverInOrder):
    """Units that all have so many named groups."""

    size: int
    units: int = 200_000

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        return UnitSizes(np.array([self.size]), np.array([self.units]))

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        raise NotImplementedError


def named_groups(groups: int, alone: bool = False) -> NamedGroups:
    none = np.zeros(groups)
    return NamedGroups(np.arange(groups), none.astype(np.intp), none, (1.0, 1.0), alone)


def chosen_cap(one: Cascade, rows: CascadeRows, named: NamedGroups, scale: float) -> int:
    """The cap for a value of which each unit adds all that it may."""
    return one.choose_cap_of_units(rows, named, scale, SeededSource(2)).cap


def test_the_cap_follows_what_units_have_and_the_owners_limit() -> None:
    one = cascade(0.5)
    several = (1, 10, 100, 1000)
    caps = [chosen_cap(one, Sizes(n), named_groups(1000), 3.0) for n in several]
    assert caps == sorted(caps)
    assert caps[0] == 1
    assert caps[-1] == 1000
    limited = cascade(0.5, most=4)
    assert chosen_cap(limited, Sizes(1000), named_groups(1000), 3.0) == 4
    # Units that may have twelve groups count in full at the next cap, 20; at 10 they lose a tenth.
    for most, cap in ((1, 1), (4, 4), (9, 10), (12, 20), (25, 30), (8_000, 7_000)):
        limited = cascade(0.5, most=most)
        assert limited.caps[-1] == cap
        assert chosen_cap(limited, Sizes(most), named_groups(most), 1e-3) == cap
    # More than the named groups there are none to count in.
    for groups, cap in ((1, 1), (6, 6), (45, 50)):
        assert chosen_cap(one, Sizes(groups), named_groups(groups), 1e-3) <= cap
    assert chosen_cap(one, Sizes(6), named_groups(6), 3.0) == 6
    assert chosen_cap(one, Sizes(1000), named_groups(500, alone=True), 3.0) == 1
    for groups in (2, 4, 8, 64):  # as many as the least of a bucket
        assert chosen_cap(one, Sizes(groups), named_groups(groups), 3.0) >= groups
    # With few units the noise outweighs what is left out.
    assert chosen_cap(one, Sizes(1000, 100), named_groups(5000), 300.0) <= 3


SHAPES = {
    # Units by their number of named groups, and how many groups there are.
    "one or two": ({1: 9_000, 2: 2_200, 3: 300}, 80),
    "one or two, few units": ({1: 900, 2: 220, 3: 30}, 80),
    "some have all": ({1: 6_000, 2: 1_600, 3: 100, 80: 300}, 80),
    "all alike": ({6: 2_000, 7: 3_000}, 200),
    "few units with many": ({40: 150, 90: 150, 200: 150}, 300),
    "falling by halves": ({1: 4_000, 2: 2_000, 4: 1_000, 8: 500, 16: 250, 32: 125, 64: 60}, 100),
    "one of twelve": ({1: 3_000}, 12),
    "both of two": ({1: 9_000, 2: 6_000}, 2),
    "up to four": ({1: 200, 2: 100, 3: 100, 4: 2_000}, 4),
}


@dataclass(frozen=True)
class Shape(NeverInOrder):
    """Units by their number of named groups, and what each adds to one of the most that it may."""

    units: dict[int, int]
    share: float = 1.0

    def unit_norms(self, named: Integers64) -> UnitSizes:
        squares = np.ceil(np.array(list(self.units)) * self.share**2).astype(np.int64)
        return UnitSizes(np.clip(squares, 1, MOST_SQUARES), np.array(list(self.units.values())))

    def norm_shares(self, named: Integers64) -> int:
        losing = [(size, n) for size, n in self.units.items() if size * self.share**2 > 1]
        return sum(n * int(WHOLE_SHARE / math.sqrt(size)) for size, n in losing)

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        return UnitSizes(np.array(list(self.units)), np.array(list(self.units.values())))

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        raise NotImplementedError


def error_at(
    units: dict[int, int], groups: int, scale: float, cap: int, share: float = 1.0
) -> float:
    """The mean absolute error of a count: of its noise, and of what the cap takes away."""
    lost = sum(n * max(0.0, share * size - math.sqrt(cap * size)) for size, n in units.items())
    return 0.8 * scale * math.sqrt(cap) + lost / groups


def mean_regret(one: Cascade, runs: int, share: float = 1.0) -> dict[str, float]:
    """How much larger errors are than at the best cap in hindsight, by shape."""
    source, scale = SeededSource(11), 1 / math.sqrt(2 * one.price.rho)
    found = {}
    for name, (units, groups) in SHAPES.items():
        best = min(error_at(units, groups, scale, cap, share) for cap in CAP_CHOICES)
        named = named_groups(groups)
        rows, caps = Shape(units, share), list[int]()
        for _ in range(runs):
            if share == 1:
                caps.append(one.choose_cap_of_units(rows, named, scale, source).cap)
            else:
                caps.append(
                    one.choose_cap_of_values(rows, named, [scale], source, limited=share <= 1).cap
                )
        errors = [error_at(units, groups, scale, cap, share) for cap in caps]
        found[name] = float(np.mean(errors)) / best
    return found


def guess_that_hidden_buckets_are_full(
    self: PilotNoise, noisy: NDArray[np.float64]
) -> NDArray[np.float64]:
    return self.with_unseen(self.certain(noisy), 256)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.002, 0.01, 0.1])
def test_caps_are_near_the_best_in_hindsight(rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    one = cascade(rho)
    found = mean_regret(one, 100)
    assert max(found.values()) < 1.75
    assert math.prod(found.values()) ** (1 / len(found)) < 1.3
    # Where each bucket that shows nothing is taken for one that noise just hides.
    monkeypatch.setattr(PilotNoise, "expected", guess_that_hidden_buckets_are_full)
    twin = mean_regret(one, 100)
    assert twin["one or two, few units"] > 3
    assert math.prod(twin.values()) ** (1 / len(twin)) > 1.5


def units_add_all_they_may(self: Shape, named: Integers64) -> UnitSizes:
    return self.unit_sizes(named)


def each_unit_adds_to_one_group(self: Shape, named: Integers64) -> int:
    return 2 * WHOLE_SHARE * sum(self.units.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "most", "mean"),
    [(0.05, 1.1, 1.03), (0.2, 1.4, 1.12), (0.5, 2.4, 1.25), (3, 4.6, 1.6)],
)
def test_caps_are_near_the_best_where_units_add_a_part_of_what_they_may_or_more(
    share: float, most: float, mean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cascade(0.01)
    found = mean_regret(one, 60, share)
    assert max(found.values()) < most
    assert math.prod(found.values()) ** (1 / len(found)) < mean
    if share in (0.2, 0.5):
        # Where sums are taken for no larger than norms: caps are too small.
        with monkeypatch.context() as patch:
            patch.setattr(Shape, "norm_shares", each_unit_adds_to_one_group)
            twin = mean_regret(one, 60, share)
        assert max(twin.values()) > 1.5 * most
        assert math.prod(twin.values()) ** (1 / len(twin)) > 1.05 * mean
    # Where each unit is taken for one that adds all it may: caps are too large, or too small.
    monkeypatch.setattr(Shape, "unit_norms", units_add_all_they_may)
    twin = mean_regret(one, 60, share)
    assert math.prod(twin.values()) ** (1 / len(twin)) > 1.4 * mean


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0.0, 40.0])
def test_what_a_cap_takes_is_told(cut: float) -> None:
    """Where many units are beyond the cap, and where a draw alone says that some are."""
    one, source, named = cascade(0.01), SeededSource(3), named_groups(50)
    units, share = {1: 5_000, 2: 900, 3: 500}, 8.0
    rows, found = Shape(units, share), list[float]()
    for _ in range(60):
        chosen = one.choose_cap_of_values(rows, named, [2_000.0], source, limited=False, cut=cut)
        cap = chosen.cap
        true = sum(n * max(0.0, share * s - math.sqrt(cap * s)) for s, n in units.items())
        found.append(chosen.lost / max(true, 1.0))
    assert 0.8 < float(np.median(found)) < 2.0
    assert np.mean(np.array(found) > 0.7) > 0.9
    none = Shape({1: 5_000}, 0.5)
    lost = one.choose_cap_of_values(none, named, [7.0], source, limited=False, cut=cut).lost
    assert cut <= lost < 2_000  # of some 44 units that noise may hide in each bucket


def test_a_sum_of_shares_costs_what_is_left_of_the_second_pilot() -> None:
    """Of one unit it is a whole share at most, and the histogram beside it has the rest."""
    for composition in SESSIONS:
        one = cascade(0.01, composition=composition)
        limit = one.price.rho * one.shares.second_pilot
        for parts in (1, 2, 3):
            noises = [one.second_pilot(parts).noise, one.shares_noise(parts)]
            assert noises[1].sensitivity == WHOLE_SHARE
            for noise in noises:
                cost = noise.cost(composition, 1)
                assert 0.999 * limit < parts * cost <= limit


def test_what_noise_would_often_make_is_taken_for_few_units() -> None:
    pilot = cascade(0.02).second_pilot(1)
    std = pilot.noise.noise.std
    noisy = np.array([-1e9, -40, -3, 0, 1, 2, 3, 4, 6, 40, 1e9]) * std
    found = pilot.expected(noisy) / std
    assert (np.diff(found) >= 0).all()
    assert 0 < found[0] < found[3] < 0.1
    assert found[5] < 1 < found[6] < 3
    assert found[7:] == pytest.approx(noisy[7:] / std, rel=1e-2)


# -- scaling ----------------------------------------------------------------------------------


def test_scaling_is_better_than_either_where_units_are_alike() -> None:
    rng = np.random.default_rng(1)
    true = rng.integers(200, 3000, 400) * float(WEIGHT_STEPS)
    seen = true / 3 + rng.normal(0, 10 * WEIGHT_STEPS, 400)
    counted = true + rng.normal(0, 60 * WEIGHT_STEPS, 400)
    named = NamedGroups(np.arange(400), np.zeros(400, np.intp), seen, (10.0 * WEIGHT_STEPS,), False)
    found = scaled_counts(named, counted, 60.0 * WEIGHT_STEPS)
    error = np.abs(found - true).mean()
    assert error < 0.7 * np.abs(counted - true).mean()
    assert error < 1.05 * np.abs(3 * seen - true).mean()


def test_rounds_are_not_trusted_where_groups_are_of_different_units() -> None:
    rng = np.random.default_rng(1)
    true = (rng.integers(200, 3000, 400) * WEIGHT_STEPS).astype(np.float64)
    part = np.where(np.arange(400) % 2, 1.0, 0.1)
    seen = (true * part).astype(np.float64)
    counted = true + rng.normal(0, 20 * WEIGHT_STEPS, 400)
    named = NamedGroups(np.arange(400), np.zeros(400, np.intp), seen, (1.0,), False)
    found = scaled_counts(named, counted, 20.0 * WEIGHT_STEPS)
    assert np.abs(found - true).mean() < 1.1 * np.abs(counted - true).mean()


def test_a_group_alone_in_its_round_keeps_its_count() -> None:
    named = NamedGroups(np.array([4]), np.zeros(1, np.intp), np.array([70.0]), (5.0, 5.0), False)
    assert scaled_counts(named, np.array([200.0]), 9.0).tolist() == [200.0]


def test_scaled_counts_of_a_group_rely_on_what_its_round_weighed() -> None:
    """Of 60 units in one group, each of weight 1, whose counting has five times the noise."""
    rng, tries = np.random.default_rng(3), 400
    errors: list[tuple[float, float]] = []
    for seen, counted in 60 + rng.normal(0, [[5.0, 24.0]], (tries, 2)):
        named = NamedGroups(np.array([1]), np.zeros(1, np.intp), np.array([seen]), (5.0,), False)
        (found,) = scaled_counts(named, np.array([counted]), 24.0)
        errors.append((abs(found - 60), abs(counted - 60)))
    scaled, alone = np.mean(errors, axis=0)
    assert scaled < 0.8 * alone


def test_scaled_counts_of_groups_that_noise_has_named_are_as_few_as_their_counting_says() -> None:
    """Of 2,000 groups with 45 units noise names a few dozen: the weights of those are too large."""
    rng, errors = np.random.default_rng(4), list[float]()
    for _ in range(20):
        weights = 45 + rng.normal(0, 8.4, 2000)
        weights = weights[weights > 59]
        counted = 45 + rng.normal(0, 40, len(weights))
        rounds = np.zeros(len(weights), np.intp)
        named = NamedGroups(np.arange(1, len(weights) + 1), rounds, weights, (8.4,), False)
        errors.append(float(np.mean(scaled_counts(named, counted, 40.0))) - 45)
    assert abs(np.mean(errors)) < 8  # with the weights themselves it is 16


# -- votes ------------------------------------------------------------------------------------


def of_keys(once: PrivacyLoss | None = None, **fields: Any) -> Cascade:
    """A cascade of keys alone, as the planner builds it: for zCDP, or for one publication."""
    price = PrivacyLoss(0.0284, 5e-6)
    if once is not None:
        rest = QueryBudget(after_pilot(once).epsilon, once.delta, Composition.GDP)
        price = rest.halved().price()
    return replace(Cascade(price, 0, None, CascadeGoal.KEYS, once), **fields)


ONCE = PrivacyLoss(0.0, 1e-5, 1.0)


def test_parts_of_one_publication_add_up_to_its_epsilon_and_delta() -> None:
    one = of_keys(ONCE)
    assert isinstance(one.pilot.noise.noise, DiscreteLaplace)
    pilot = one.pilot.noise.cost(Composition.BASIC, 1)
    assert one.votes is not None
    assert 0.999999 < pilot + one.votes.price.epsilon <= 1.0
    assert one.votes.price.delta == ONCE.delta
    rest = 1.0 - pilot
    for kept in KEPT_CHOICES:
        rounds = one.rounds(kept)
        rho = sum(r.own.cost(Composition.GDP, 1) for r in rounds)
        moved = gaussian_delta(rest, math.sqrt(2 * rho))
        assert moved + sum(r.delta for r in rounds) + DELTA_UNIT <= ONCE.delta
        assert moved > 0.499 * ONCE.delta, "nothing is given away"


def test_votes_cost_all_that_the_pilot_leaves() -> None:
    one = of_keys()
    assert one.votes is not None
    assert 0.0284 * 0.999999 < one.votes.price.rho + one.pilot.noise.rho(1) <= 0.0284
    alone = of_keys(most=1)
    assert alone.votes is not None
    assert alone.votes.price.rho == pytest.approx(0.0284)
    assert of_keys(goal=CascadeGoal.COUNTS).votes is None
    assert of_keys(price=PrivacyLoss(0.1, 1e-20)).votes is None, "rounds answer then"


@pytest.mark.parametrize(
    ("once", "sizes"), [(None, {1: "votes", 2: "votes", 4: "rounds"}), (ONCE, {2: "votes"})]
)
def test_the_pilot_says_whether_units_vote(once: PrivacyLoss | None, sizes: dict[int, str]) -> None:
    one, source = of_keys(once), SeededSource(4)
    for size, expected in {**sizes, 60: "rounds"}.items():
        rows = Units(UnitSizes(np.array([size]), np.array([100_000])))
        kept = {one._kept(rows, source) for _ in range(5)}
        assert (kept == {None}) is (expected == "votes")


def test_votes_name_more_keys_than_rounds_where_units_have_one() -> None:
    rng = np.random.default_rng(8)
    keys = (rng.pareto(1.0, 60_000) * 10).astype(np.int64) + 1
    rows = PairRows(np.arange(60_000), keys, rng.random(60_000))
    for once in (None, ONCE):
        one = of_keys(once)
        named = one.name_groups(rows, SeededSource(6))
        assert named.alone
        counts = np.bincount(keys, minlength=named.ids.max() + 1)
        assert counts[named.ids].min() > 5
        hashed = replace(one, goal=CascadeGoal.COUNTS, once=None)
        others = hashed.name_groups(rows, SeededSource(6))
        assert len(named.ids) > 1.05 * len(others.ids)

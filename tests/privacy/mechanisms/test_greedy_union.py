"""One vote for each unit: one unit more or less moves one vote, and names keep their price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.laws import SeededSource

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion, greedy_set_union
from dpsql.privacy.mechanisms.name_chances import CERTAIN
from dpsql.privacy.mechanisms.set_union_weights import UnitItems, vote

Users = Sequence[Sequence[int]]
Choice = Callable[[dict[int, int], Sequence[int], int], int | None]
ITEMS = 6


def batches(users: Users, size: int = 1000) -> Iterator[UnitItems]:
    for first in range(0, len(users), size):
        part = users[first : first + size]
        units = np.repeat(np.arange(first, first + len(part)), [len(items) for items in part])
        yield UnitItems(units, np.array([i for items in part for i in items], np.int64))


def votes(users: Users, cutoff: int, size: int = 1000) -> list[int]:
    found: list[int] = vote(batches(users, size), cutoff=cutoff).tolist()
    return found + [0] * (ITEMS - len(found))


def first_open(votes: dict[int, int], items: Sequence[int], cutoff: int) -> int | None:
    """As the module says it, for one unit."""
    return next((item for item in items if votes[item] < cutoff), None)


def passed(choice: Choice, users: Users, cutoff: int) -> list[int]:
    found = dict.fromkeys(range(ITEMS), 0)
    for items in users:
        chosen = choice(found, items, cutoff)
        if chosen is not None:
            found[chosen] += 1
    return list(found.values())


def crowds(count: int) -> Iterator[tuple[Users, int]]:
    rng = np.random.default_rng(11)
    for _ in range(count):
        sizes = rng.integers(1, 4, rng.integers(1, 14))
        users = [sorted(rng.choice(ITEMS, n, replace=False).tolist()) for n in sizes]
        yield users, int(rng.integers(1, 5))


def moves(count: Callable[[Users, int], list[int]], users: Users, cutoff: int) -> int:
    """The most that a unit's departure changes, in all."""
    whole = count(users, cutoff)
    short = (count([*users[:i], *users[i + 1 :]], cutoff) for i in range(len(users)))
    return max(sum(abs(a - b) for a, b in zip(whole, each, strict=True)) for each in short)


@pytest.mark.slow
def test_one_unit_more_moves_one_vote() -> None:
    assert {moves(votes, users, cutoff) for users, cutoff in crowds(600)} == {0, 1}


def test_the_pass_is_that_of_the_proof_however_units_are_batched() -> None:
    for users, cutoff in crowds(200):
        expected = passed(first_open, users, cutoff)
        assert votes(users, cutoff) == votes(users, cutoff, 3) == expected


def nearest(votes: dict[int, int], items: Sequence[int], cutoff: int) -> int | None:
    """The key that is nearest to the cutoff: a choice by what others did."""
    return max((i for i in items if votes[i] < cutoff), key=lambda i: votes[i], default=None)


def overflowing(votes: dict[int, int], items: Sequence[int], cutoff: int) -> int | None:
    """A key that the number of all votes decides on, if all are at the cutoff."""
    found = first_open(votes, items, cutoff)
    return items[sum(votes.values()) % len(items)] if found is None else found


@pytest.mark.slow
@pytest.mark.parametrize("broken", [nearest, overflowing])
def test_a_choice_by_votes_moves_more_and_is_noticed(broken: Choice) -> None:
    def count(users: Users, cutoff: int) -> list[int]:
        return passed(broken, users, cutoff)

    assert max(moves(count, users, cutoff) for users, cutoff in crowds(1500)) > 1


# -- names ----------------------------------------------------------------------------------------


def law(union: GreedySetUnion, users: Users, choice: Choice = first_open) -> list[Fraction]:
    """The exact chance of each set of names."""
    found = passed(choice, users, union.cutoff)
    chances = union.chances
    each = [chances[min(max(0, n - union.floor), len(chances) - 1)] for n in found]
    outcomes = itertools.product((True, False), repeat=ITEMS)
    return [
        math.prod(
            (
                Fraction(c if named else CERTAIN - c, CERTAIN)
                for c, named in zip(each, outcome, strict=True)
            ),
            start=Fraction(1),
        )
        for outcome in outcomes
    ]


def worst_delta(union: GreedySetUnion, choice: Choice = first_open) -> float:
    factor, worst = Fraction(math.exp(union.price.epsilon)), Fraction(0)
    for users, _ in crowds(60):
        whole = law(union, users, choice)
        for i in range(len(users)):
            short = law(union, [*users[:i], *users[i + 1 :]], choice)
            for one, other in ((whole, short), (short, whole)):
                apart = (a - factor * b for a, b in zip(one, other, strict=True))
                worst = max(worst, sum((max(Fraction(0), d) for d in apart), Fraction(0)))
    return float(worst)


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0, 1])
def test_names_keep_epsilon_and_delta_and_those_of_a_choice_by_votes_do_not(floor: int) -> None:
    union = greedy_set_union(PrivacyLoss(0.0, 0.05, 0.7), floor)
    assert 0.05 * 0.99 < worst_delta(union) <= 0.05 * (1 + 1e-12)
    assert worst_delta(union, nearest) > 0.055


@pytest.mark.parametrize("floor", [0, 4])
def test_keys_of_fewer_units_than_the_minimum_are_never_named(floor: int) -> None:
    union = greedy_set_union(PrivacyLoss(0.0, 0.4, 5.0), floor)
    scores = np.repeat(np.arange(floor + 2), 4000)
    named = scores[union.select(scores, SeededSource(3)).indices]
    assert set(named.tolist()) == {floor + 1}


def test_votes_needed_lie_where_half_of_the_keys_are_named() -> None:
    union = greedy_set_union(PrivacyLoss(0.0, 1e-5, 1.0), 2)
    assert union.votes_needed == pytest.approx(11.368, abs=0.001)
    assert union.score_for_inclusion(0.5) == 13  # to be exceeded, the floor included
    assert union.cutoff == 2 + 15
    assert union.chances[15] >= 0.97 * CERTAIN > union.chances[14]


def test_a_price_costs_what_it_says_in_its_composition_alone() -> None:
    rho, gaussian, once = (
        greedy_set_union(price, 0)
        for price in (
            PrivacyLoss(0.1, 1e-6),
            PrivacyLoss(0.1, 1e-6, gaussian=True),
            PrivacyLoss(0.0, 1e-6, 1.0),
        )
    )
    z, g, b = Composition.ZCDP, Composition.GDP, Composition.BASIC
    assert [rho.cost(c, None) for c in (z, g, b)] == [0.1, math.inf, math.inf]
    assert [gaussian.cost(c, None) for c in (z, g, b)] == [0.1, 0.1, math.inf]
    assert [once.cost(c, None) for c in (z, g, b)] == [math.inf, math.inf, 1.0]


def test_rows_out_of_order_are_noticed() -> None:
    with fails_with("rows_out_of_order"):
        vote([UnitItems(np.array([0, 0]), np.array([2, 1]))], cutoff=3)

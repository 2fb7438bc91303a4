"""Top-k of declared keys: its law, its price, and what breaks it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    ORDERS,
    Counts,
    SeededSource,
    chi_square_p,
    lower_bound,
    neighbours,
    peeled_law,
    renyi,
    upper_bound,
)

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.price import cost_of_pick


def law_of(mechanism: KnownDomainTopK, counts: Counts) -> dict[Hashable, float]:
    """The ordered releases: draws without replacement, and no stopping symbol."""
    rate = mechanism.epsilon / mechanism.sensitivity
    weights = {i: math.exp(rate * count) for i, count in enumerate(counts)}
    whole = peeled_law(weights, 0.0, mechanism.picks)
    return {order: p for order, p in whole.items() if len(order) == mechanism.picks}


def worst_ratio(mechanism: KnownDomainTopK, pairs: list[tuple[Counts, Counts]]) -> float:
    """The largest Rényi divergence of two neighbours' laws, by its order."""
    worst = 0.0
    for a, b in pairs:
        one, other = law_of(mechanism, a), law_of(mechanism, b)
        p, q = (np.log(np.array([law[y] for y in one])) for law in (one, other))
        worst = max(worst, *(max(renyi(p, q, o), renyi(q, p, o)) / o for o in ORDERS))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_no_pair_of_neighbours_differs_by_more_than_the_stated_rho(
    epsilon: float, k: int, sensitivity: int
) -> None:
    mechanism = KnownDomainTopK(epsilon, sensitivity, k, 3)
    pairs = list(neighbours(3, 1, 3, sensitivity))
    assert worst_ratio(mechanism, pairs) <= mechanism.rho(None) * (1 + 1e-9)


def test_the_price_of_one_pick_is_nearly_reached() -> None:
    mechanism = KnownDomainTopK(0.3, 1, 1, 2)
    assert worst_ratio(mechanism, list(neighbours(2, 2, 2, 1))) > mechanism.rho(None) * 0.95


def test_scores_that_may_move_both_ways_would_cost_more() -> None:
    mechanism = KnownDomainTopK(1.0, 1, 1, 2)
    both_ways: list[tuple[Counts, Counts]] = [((0, 1), (1, 0)), ((0, 0), (1, 0))]
    assert worst_ratio(mechanism, both_ways) > mechanism.rho(None) * 3
    assert worst_ratio(mechanism, both_ways[1:]) <= mechanism.rho(None)


@pytest.mark.slow
def test_an_understated_sensitivity_is_caught() -> None:
    stated, moved = KnownDomainTopK(1.0, 1, 2, 3), list(neighbours(3, 2, 3, 2))
    assert worst_ratio(stated, moved) > stated.rho(None) * 2


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mechanism", [KnownDomainTopK(0.6, 1, 2, 4), KnownDomainTopK(1.9, 3, 4, 4)], ids=repr
)
def test_draws_follow_the_law_at_the_stated_epsilon_only(mechanism: KnownDomainTopK) -> None:
    counts, source = (3, 0, 5, 4), SeededSource(4)
    found: Counter[Hashable] = Counter()
    for _ in range(20_000):
        selected = mechanism.select(np.array(counts, dtype=np.int64), source)
        assert selected.noisy is None
        found[tuple(selected.indices.tolist())] += 1
    assert chi_square_p(found, law_of(mechanism, counts)) > IMPOSSIBLE
    for factor in (0.7, 1.3):
        wrong = replace(mechanism, epsilon=mechanism.epsilon * factor)
        assert chi_square_p(found, law_of(wrong, counts)) < IMPOSSIBLE


@pytest.mark.parametrize(("k", "size"), [(1, 1), (3, 8), (8, 8), (20, 8)])
def test_k_groups_always_come_out_whether_they_hold_rows_or_not(k: int, size: int) -> None:
    mechanism = KnownDomainTopK(0.5, 1, k, size)
    for scores in ([0] * size, list(range(size)), [10**15] + [0] * (size - 1)):
        order = mechanism.select(np.array(scores, dtype=np.int64), SeededSource(1)).indices
        assert len(order) == len(set(order.tolist())) == min(k, size)
    for released in (None, 0, min(k, size)):
        assert mechanism.rho(released) == min(k, size) * cost_of_pick(
            Composition.ZCDP, mechanism.epsilon
        )
    assert mechanism.delta == 0


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.5, 0.95])
def test_a_group_as_large_as_stated_is_among_the_k_with_the_stated_probability(
    probability: float,
) -> None:
    mechanism, runs = KnownDomainTopK(0.7, 2, 3, 30), 4000
    above = mechanism.score_for_inclusion(probability)
    assert above is not None
    source = SeededSource(8)
    for two_giants, exact in ((True, True), (False, False)):
        scores = np.zeros(30, dtype=np.int64)
        scores[0] = math.ceil(above)
        scores[1:3] = 1000 if two_giants else 0
        found = sum(0 in mechanism.select(scores, source).indices for _ in range(runs))
        assert upper_bound(found, runs) >= probability
        if exact:
            assert lower_bound(found, runs) <= probability + 0.06
    assert KnownDomainTopK(0.7, 2, 30, 30).score_for_inclusion(0.95) is None


@pytest.mark.parametrize("bad", [(0.0, 1, 1, 1), (1.0, 0, 1, 1), (1.0, 1, 0, 1), (1.0, 1, 1, 0)])
def test_senseless_parameters_are_refused(bad: tuple[float, int, int, int]) -> None:
    with pytest.raises(ParameterError):
        KnownDomainTopK(*bad)

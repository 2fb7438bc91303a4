"""A privately chosen k_bar: the law of the choice and of what follows, and their joint price."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from helpers.laws import (
    IMPOSSIBLE,
    ORDERS,
    Counts,
    SeededSource,
    as_returned,
    chi_square_p,
    coupled_delta,
    gumbel_law,
    neighbours,
    top_of,
    worst_excess,
)
from helpers.topk_couplings import companion_orders, coupling_of, unlabelled
from scipy import special

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar
from dpsql.privacy.mechanisms.topk import GumbelTopK

Joint = dict[tuple[int, tuple[int, ...]], float]


def chosen(
    epsilon: float, k: int, k_bar: int, delta: float, sensitivity: int = 1, floor: int = 0
) -> GumbelTopKChosenKBar:
    return GumbelTopKChosenKBar(GumbelTopK(epsilon, sensitivity, k, k_bar, delta, floor))


def narrowed(mechanism: GumbelTopKChosenKBar) -> Iterator[GumbelTopK]:
    widest = mechanism.widest
    for k_bar in range(widest.k, widest.k_bar + 1):
        yield replace(widest, k_bar=k_bar)


def choice_law(mechanism: GumbelTopKChosenKBar, counts: Counts) -> dict[Hashable, float]:
    """P[k_bar], an exponential mechanism in the height of the threshold."""
    widest = mechanism.widest
    rate = widest.epsilon / widest.sensitivity
    weights = {
        m.k_bar: math.exp(-rate * top_of(counts, m.k_bar, m.floor)[1]) / m.k_bar
        for m in narrowed(mechanism)
    }
    total = sum(weights.values())
    return {k_bar: weight / total for k_bar, weight in weights.items()}


def joint_law(mechanism: GumbelTopKChosenKBar, counts: Counts) -> Joint:
    choice = choice_law(mechanism, counts)
    return {
        (m.k_bar, order): choice[m.k_bar] * p
        for m in narrowed(mechanism)
        for order, p in gumbel_law(m, counts).items()
    }


def orders_law(mechanism: GumbelTopKChosenKBar, counts: Counts) -> dict[Hashable, float]:
    """What comes out, if k_bar is not told."""
    found: dict[Hashable, float] = {}
    for (_, order), p in joint_law(mechanism, counts).items():
        found[order] = found.get(order, 0.0) + p
    return found


MECHANISMS = [
    chosen(1.5, 1, 3, 0.1),
    chosen(0.7, 2, 3, 0.3),
    chosen(2.0, 1, 2, 0.2, sensitivity=2),
    chosen(1.2, 1, 3, 0.2, floor=1),
]


def pairs_of(mechanism: GumbelTopKChosenKBar, largest: int = 2) -> Iterator[tuple[Counts, Counts]]:
    widest = mechanism.widest
    yield from neighbours(3, largest + widest.floor, 3, widest.sensitivity, widest.floor)
    yield (5, 3, 3, 3, 0), (5, 3 + widest.sensitivity, 3, 3, 0)


# -- the choice -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_base_moves_one_way_by_at_most_the_sensitivity(
    mechanism: GumbelTopKChosenKBar,
) -> None:
    for a, b in pairs_of(mechanism, 3):
        for m in narrowed(mechanism):
            rise = top_of(b, m.k_bar, m.floor)[1] - top_of(a, m.k_bar, m.floor)[1]
            assert 0 <= rise <= m.sensitivity


def spread(one: dict[Hashable, float], other: dict[Hashable, float]) -> float:
    """The range of the log-ratio of two laws."""
    ratios = [math.log(one[y] / other[y]) for y in one]
    return max(ratios) - min(ratios)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_choice_is_bounded_range_and_reaches_it(mechanism: GumbelTopKChosenKBar) -> None:
    worst = max(
        spread(choice_law(mechanism, a), choice_law(mechanism, b)) for a, b in pairs_of(mechanism)
    )
    epsilon = mechanism.widest.epsilon
    assert epsilon * (1 - 1e-9) <= worst <= epsilon * (1 + 1e-9)


def test_choosing_at_the_rate_of_a_smaller_sensitivity_is_caught() -> None:
    stated, true = chosen(2.0, 1, 2, 0.2, sensitivity=1), chosen(2.0, 1, 2, 0.2, sensitivity=2)
    worst = max(spread(choice_law(stated, a), choice_law(stated, b)) for a, b in pairs_of(true))
    assert worst > stated.widest.epsilon * 1.9


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("counts", [(9, 5, 3, 1), (4, 2), ()], ids=str)
def test_k_bar_is_drawn_by_its_law_and_no_other_epsilon(
    mechanism: GumbelTopKChosenKBar, counts: Counts
) -> None:
    widest, source = mechanism.widest, SeededSource(6)
    scores, _ = as_returned(counts, widest.k_bar, widest.floor)
    drawn = Counter[Hashable](mechanism.choose(scores, source) for _ in range(12_000))
    assert chi_square_p(drawn, choice_law(mechanism, counts)) > IMPOSSIBLE
    if len(counts) == 4:
        for factor in (0.5, 1.6):
            wrong = replace(mechanism, widest=replace(widest, epsilon=widest.epsilon * factor))
            assert chi_square_p(drawn, choice_law(wrong, counts)) < IMPOSSIBLE


@pytest.mark.slow
def test_k_bar_is_mostly_just_past_a_sudden_drop() -> None:
    """What it is for: the threshold of a fixed, generous k_bar is higher."""
    mechanism = chosen(0.5, 10, 50_000, 1e-6)
    scores = np.concatenate([np.full(10, 900), np.full(40, 300), np.full(60_000, 2)])
    source = SeededSource(2)
    drawn = [mechanism.choose(scores[:50_001].astype(np.int64), source) for _ in range(60)]
    assert min(drawn) >= 50
    assert sorted(drawn)[30] < 5_000
    lower = replace(mechanism.widest, k_bar=sorted(drawn)[30]).threshold
    assert lower < mechanism.widest.threshold - 4


# -- the choice and what follows --------------------------------------------------------------


def companions_law(
    mechanism: GumbelTopKChosenKBar, one: Counts, other: Counts, side: int
) -> tuple[Joint, list[float]]:
    """The choice, then what the companion of that k_bar picks; and P[no label] for each."""
    choice, law, masses = choice_law(mechanism, (one, other)[side]), {}, []
    for m in narrowed(mechanism):
        picked = companion_orders(m, coupling_of(one, other, m.k_bar, m.floor), side)
        masses.append(math.fsum(unlabelled(picked).values()))
        law.update({(m.k_bar, o): choice[m.k_bar] * p for o, p in picked.items()})
    return law, masses


def worst_unpaid(mechanism: GumbelTopKChosenKBar) -> float:
    """The largest shortfall of the settled costs: at most 0 if they cover the loss."""
    worst = -math.inf
    for a, b in pairs_of(mechanism):
        (p, above), (q, below) = (companions_law(mechanism, a, b, side) for side in (0, 1))
        assert p.keys() == q.keys()
        assert min(*above, *below) >= 1 - mechanism.delta
        for order, (x, y) in itertools.product(ORDERS, ((p, q), (q, p))):
            logs = [
                order * math.log(x[o])
                + (1 - order) * math.log(y[o])
                - order * (order - 1) * mechanism.rho(len(o[1]))
                for o in x
            ]
            worst = max(worst, float(special.logsumexp(logs)) / (order - 1))
    return worst


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_what_is_settled_covers_the_choice_and_the_picks(mechanism: GumbelTopKChosenKBar) -> None:
    assert worst_unpaid(mechanism) <= 1e-12


class FreeChoice(GumbelTopKChosenKBar):
    """The choice is not charged."""

    def cost(self, composition: Composition, reach: int | None) -> float:
        return self.widest.cost(composition, reach)


@pytest.mark.slow
def test_an_unpaid_choice_is_caught() -> None:
    assert worst_unpaid(FreeChoice(MECHANISMS[0].widest)) > 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_what_comes_out_implies_every_epsilon_and_delta_of_the_claim(
    mechanism: GumbelTopKChosenKBar,
) -> None:
    for a, b in pairs_of(mechanism):
        one, other = (
            {y: np.asarray(p) for y, p in orders_law(mechanism, counts).items()}
            for counts in (a, b)
        )
        rho, delta = mechanism.rho(None), mechanism.delta
        assert worst_excess(one, other, rho, delta, coupled_delta) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_draws_follow_the_joint_law(mechanism: GumbelTopKChosenKBar) -> None:
    counts, widest, source = (7, 5, 2, 2, 1), mechanism.widest, SeededSource(12)
    scores, whose = as_returned(counts, widest.k_bar, widest.floor)
    found: Counter[Hashable] = Counter()
    for _ in range(12_000):
        selected = mechanism.select(scores, source)
        assert selected.noisy is None
        found[tuple(whose[i] for i in selected.indices)] += 1
    assert chi_square_p(found, orders_law(mechanism, counts)) > IMPOSSIBLE
    other = replace(mechanism, widest=replace(widest, epsilon=widest.epsilon * 0.7))
    assert chi_square_p(found, orders_law(other, counts)) < IMPOSSIBLE


# -- parameters -------------------------------------------------------------------------------


def test_senseless_ranges_are_refused() -> None:
    for k, k_bar in ((5, 4), (1, 2_000_000)):
        with pytest.raises(ParameterError):
            chosen(1.0, k, k_bar, 0.1)
    with pytest.raises(ParameterError):
        GumbelTopKChosenKBar(GumbelTopK(1.0, 1, 2, 9, 0.1, 0, groups=3))

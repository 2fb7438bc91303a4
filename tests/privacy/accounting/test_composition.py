"""Composition theorems: valid on enumerated worst cases, ordered as they must be, exact figures."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.composition import (
    ANY,
    BOUNDED_RANGE,
    Comparison,
    advanced,
    basic,
    bounded_range,
    compare,
    comparisons,
    optimal,
    queries_that_fit,
    rho_of_bounded_range,
    rho_of_pure,
)
from dpsql.privacy.accounting.zcdp import (
    PrivacyLoss,
    epsilon_from_zcdp,
    epsilon_simple,
)

SMALL = [
    (epsilon, queries, delta)
    for epsilon in (0.05, 0.3, 1.0, 2.5)
    for queries in (1, 2, 5, 9)
    for delta in (1e-6, 1e-3, 0.05, 0.4)
]


def profile(pairs: list[tuple[list[float], list[float]]], epsilon: float) -> float:
    """The exact delta at epsilon of independent answers, by enumerating every joint answer."""
    total = 0.0
    for answers in itertools.product(*(range(len(first)) for first, _ in pairs)):
        p = math.prod(first[a] for (first, _), a in zip(pairs, answers, strict=True))
        q = math.prod(second[a] for (_, second), a in zip(pairs, answers, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def randomized_response(epsilon: float) -> tuple[list[float], list[float]]:
    truth = 1 / (1 + math.exp(-epsilon))
    return [truth, 1 - truth], [1 - truth, truth]


def worst_selection(epsilon: float, top: float) -> tuple[list[float], list[float]]:
    """Two answers whose losses are ``top`` and ``top - epsilon``: the whole range, used."""
    q = -math.expm1(top - epsilon) / (math.exp(top) - math.exp(top - epsilon))
    return [q * math.exp(top), (1 - q) * math.exp(top - epsilon)], [q, 1 - q]


def renyi(pair: tuple[list[float], list[float]], order: float) -> float:
    losses = [(p, math.log(p / q)) for p, q in zip(*pair, strict=True)]
    above_one = math.fsum(p * math.expm1((order - 1) * loss) for p, loss in losses)
    return math.log1p(above_one) / (order - 1)


ORDERS = [1 + 10**e for e in np.linspace(-5, 1.6, 60)]


@pytest.mark.parametrize(("epsilon", "queries", "delta"), SMALL)
def test_every_theorem_holds_on_all_answers_of_randomized_response(
    epsilon: float, queries: int, delta: float
) -> None:
    pairs = [randomized_response(epsilon)] * queries
    for composed in compare(epsilon, queries, delta):
        if composed.holds_for == ANY:
            assert profile(pairs, composed.epsilon) <= composed.delta + 1e-14, composed.theorem


@pytest.mark.parametrize(("epsilon", "queries", "delta"), SMALL)
def test_optimal_composition_is_exact(epsilon: float, queries: int, delta: float) -> None:
    """No smaller epsilon is true: that is what optimal means, and it catches a loose formula."""
    pairs = [randomized_response(epsilon)] * queries
    least = optimal(epsilon, queries, delta)
    if least > 0:
        assert profile(pairs, least * (1 - 1e-9)) > delta
    else:
        assert profile(pairs, 0.0) <= delta


@pytest.mark.parametrize(("epsilon", "queries", "delta"), SMALL)
def test_every_theorem_holds_on_selections_that_use_their_whole_range(
    epsilon: float, queries: int, delta: float
) -> None:
    mixes = [[share * epsilon] * queries for share in (0.2, 0.5, 0.8)]
    mixes.append([epsilon * (1 + i) / (queries + 1) for i in range(queries)])
    for tops in mixes:
        pairs = [worst_selection(epsilon, top) for top in tops]
        for composed in compare(epsilon, queries, delta):
            assert profile(pairs, composed.epsilon) <= composed.delta + 1e-14, composed.theorem


def test_bounded_range_figures_would_be_false_for_other_queries() -> None:
    """The negative control: randomized response is not bounded-range, and the check notices."""
    caught = [
        composed.theorem
        for composed in compare(0.3, 9, 1e-3)
        if profile([randomized_response(0.3)] * 9, composed.epsilon) > composed.delta + 1e-14
    ]
    assert caught == ["bounded_range", "bounded_range_zcdp"]


def test_half_of_an_excess_is_noticed() -> None:
    """Another control: optimal composition with delta counted on half of the answers."""
    broken = optimal(0.3, 9, 2e-3)
    assert profile([randomized_response(0.3)] * 9, broken) > 1e-3


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_rho_of_pure_is_the_supremum_for_randomized_response(epsilon: float) -> None:
    ratios = [renyi(randomized_response(epsilon), a) / a for a in ORDERS]
    assert max(ratios) <= rho_of_pure(epsilon) * (1 + 1e-9)
    assert max(ratios) >= rho_of_pure(epsilon) * (1 - 1e-3)
    assert rho_of_pure(epsilon) <= epsilon**2 / 2 * (1 + 1e-14)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0, 12.0])
def test_rho_of_bounded_range_covers_every_selection(epsilon: float) -> None:
    worst = max(
        renyi(worst_selection(epsilon, share * epsilon), a) / a
        for share in np.linspace(0.02, 0.98, 97)
        for a in ORDERS
    )
    assert worst <= rho_of_bounded_range(epsilon) * (1 + 1e-9)
    if epsilon <= 1.0:  # and no constant better than 1/8 would do
        assert worst >= epsilon**2 / 8 * (1 - 0.02)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    epsilon=st.floats(1e-4, 20.0),
    queries=st.integers(1, 600),
    delta=st.floats(1e-15, 0.5),
)
def test_theorems_are_ordered_as_they_must_be(epsilon: float, queries: int, delta: float) -> None:
    total = {c.theorem: c.epsilon for c in compare(epsilon, queries, delta)}
    assert all(math.isfinite(value) and value >= 0 for value in total.values())
    assert total["optimal"] <= total["basic"]
    assert total["optimal"] <= total["advanced"] <= total["basic"]
    assert total["optimal"] <= total["zcdp_tight"] <= total["zcdp_simple"]
    assert total["bounded_range"] <= total["advanced"]
    assert total["bounded_range_zcdp"] <= total["zcdp_tight"]
    tail = queries * epsilon**2 / 8 + epsilon * math.sqrt(queries * -math.log(delta) / 2)
    assert total["bounded_range_zcdp"] <= tail * (1 + 1e-12)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    epsilon=st.floats(1e-3, 5.0),
    queries=st.integers(1, 200),
    delta=st.floats(1e-12, 0.3),
    more=st.floats(1.0, 3.0),
)
def test_more_queries_a_larger_epsilon_or_a_smaller_delta_never_cost_less(
    epsilon: float, queries: int, delta: float, more: float
) -> None:
    base = compare(epsilon, queries, delta)
    for worse in (
        compare(epsilon, queries + 1, delta),
        compare(epsilon * more, queries, delta),
        compare(epsilon, queries, delta / more),
    ):
        for before, after in zip(base, worse, strict=True):
            assert after.epsilon >= before.epsilon * (1 - 1e-12), before.theorem


def printed_delta(epsilon: float, queries: int, i: int) -> Decimal:
    """Durfee & Rogers 2019, Lemma A.1, at the corner (queries - 2i) * epsilon."""
    e = Decimal(epsilon)
    return (
        sum(
            (
                math.comb(queries, l)
                * (((queries - l) * e).exp() - ((queries - 2 * i + l) * e).exp())
                for l in range(i)
            ),
            Decimal(0),
        )
        / (1 + e.exp()) ** queries
    )


@pytest.mark.parametrize(("epsilon", "queries"), [(0.1, 100), (0.5, 40), (1.0, 21), (0.02, 400)])
def test_at_its_corners_optimal_composition_is_the_printed_one(
    epsilon: float, queries: int
) -> None:
    getcontext().prec = 60
    seen = 0
    for i in range(1, queries // 2):
        delta = float(printed_delta(epsilon, queries, i))
        if 1e-12 < delta < 0.5:
            seen += 1
            assert optimal(epsilon, queries, delta) == pytest.approx(
                (queries - 2 * i) * epsilon, rel=1e-9
            )
    assert seen >= 3


def test_optimal_composition_keeps_its_digits_where_probabilities_vanish() -> None:
    """Basic composition is never exceeded, and reached where delta is next to nothing."""
    assert optimal(1.0, 2000, 1e-300) <= basic(1.0, 2000)
    assert optimal(10.0, 60, 1e-300) == pytest.approx(600.0, rel=1e-9)
    assert optimal(1e-3, 100_000, 1e-6) == pytest.approx(optimal(1e-2, 1000, 1e-6), rel=3e-3)


def test_figures_of_a_session_of_a_hundred_queries() -> None:
    """Computed independently from the printed formulas, at (0.1, 100, 1e-6)."""
    log = math.log(1e6)
    total = {c.theorem: c for c in compare(0.1, 100, 1e-6)}
    assert total["basic"].epsilon == pytest.approx(10.0)
    assert total["basic"].delta == 0.0
    mean = 10 * (math.e**0.1 - 1) / (math.e**0.1 + 1)
    assert total["advanced"].epsilon == pytest.approx(mean + 0.1 * math.sqrt(200 * log))
    assert total["bounded_range"].epsilon == pytest.approx(0.5 + 0.1 * math.sqrt(50 * log))
    rho = 10 * math.tanh(0.05)
    assert total["zcdp_simple"].epsilon == pytest.approx(epsilon_simple(rho, 1e-6))
    assert total["zcdp_tight"].epsilon == pytest.approx(epsilon_from_zcdp(rho, 1e-6))
    assert total["bounded_range_zcdp"].epsilon == pytest.approx(epsilon_from_zcdp(0.125, 1e-6))
    assert {c.holds_for for c in total.values()} == {ANY, BOUNDED_RANGE}
    assert all(c.source for c in total.values())


def test_figures_are_rounded_up() -> None:
    getcontext().prec = 60
    for epsilon, queries, delta in SMALL:
        e, log = Decimal(epsilon), -Decimal(delta).ln()
        mean = queries * e * (1 - 2 / (1 + e.exp()))
        exact = min(queries * e, mean + e * (2 * queries * log).sqrt())
        selections = min(exact, queries * e * e / 2 + e * (queries * log / 2).sqrt())
        rho = queries * e * (1 - 2 / (1 + e.exp()))
        simple = {c.theorem: c.epsilon for c in compare(epsilon, queries, delta)}["zcdp_simple"]
        assert Decimal(basic(epsilon, queries)) >= queries * e
        assert Decimal(advanced(epsilon, queries, delta)) >= exact
        assert Decimal(bounded_range(epsilon, queries, delta)) >= selections
        assert Decimal(queries * rho_of_pure(epsilon)) >= rho
        assert Decimal(simple) >= rho + 2 * (rho * log).sqrt()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(0.01, 20.0), delta=st.floats(1e-15, 1e-3))
def test_optimal_composition_is_rounded_up_by_one_digit_at_most(
    epsilon: float, delta: float
) -> None:
    """One query, where delta(E) = (e^epsilon - e^E) / (1 + e^epsilon)."""
    getcontext().prec = 60
    odds = Decimal(epsilon).exp()
    exact = (odds - Decimal(delta) * (1 + odds)).ln()
    found = optimal(epsilon, 1, delta)
    assert Decimal(math.nextafter(found, 0.0)) < exact <= Decimal(found)


def test_a_grid_lists_every_pair_in_order() -> None:
    grid = comparisons([0.1, 0.2], iter([1, 10]), 1e-6)
    assert [(row.epsilon, row.queries) for row in grid] == [
        (0.1, 1),
        (0.1, 10),
        (0.2, 1),
        (0.2, 10),
    ]
    assert grid[3] == Comparison(0.2, 10, 1e-6, compare(0.2, 10, 1e-6))


@pytest.mark.parametrize(
    ("epsilon", "queries", "delta"),
    [
        (0.0, 1, 1e-6),
        (-1.0, 1, 1e-6),
        (math.nan, 1, 1e-6),
        (math.inf, 1, 1e-6),
        (1001.0, 1, 1e-6),
        (True, 1, 1e-6),
        (1.0, 0, 1e-6),
        (1.0, 1.0, 1e-6),
        (1.0, True, 1e-6),
        (1.0, 10**6 + 1, 1e-6),
        (1.0, 1, 0.0),
        (1.0, 1, 1.0),
        (1.0, 1, math.nan),
        (1.0, 1, "x"),
        (1.0, 1, 5e-324),
    ],
)
def test_bad_input_is_refused(epsilon: float, queries: int, delta: float) -> None:
    with pytest.raises(ParameterError, match="must be"):
        compare(epsilon, queries, delta)


PARTS = ("rho", "delta", "epsilon")


def spend(limit: PrivacyLoss, reserved: PrivacyLoss, settled: PrivacyLoss) -> int:
    """A session played through in exact arithmetic: reserve the worst case, run, settle."""
    left = {part: Fraction(getattr(limit, part)) for part in PARTS}
    count = 0
    while all(getattr(reserved, part) <= left[part] for part in PARTS):
        left = {part: left[part] - Fraction(getattr(settled, part)) for part in PARTS}
        count += 1
    return count


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    part=st.sampled_from(["rho", "epsilon"]),
    limit=st.floats(0.01, 5.0),
    share=st.floats(0.003, 1.2),
    refund=st.floats(0.05, 1.0),
    delta=st.floats(1e-9, 1e-7),
)
def test_queries_that_fit_are_those_a_session_affords(
    part: str, limit: float, share: float, refund: float, delta: float
) -> None:
    def loss(amount: float, rest: float) -> PrivacyLoss:
        if part == "rho":
            return PrivacyLoss(amount, rest)
        return PrivacyLoss(0.0, rest, amount)

    account, reserved = loss(limit, 1e-6), loss(limit * share, delta)
    settled = loss(getattr(reserved, part) * refund, delta)
    assert queries_that_fit(account, reserved, settled) == spend(account, reserved, settled)


def test_a_session_that_uses_nothing_up_is_refused() -> None:
    account = PrivacyLoss(0.5, 1e-6)
    with pytest.raises(ParameterError, match="settle something"):
        queries_that_fit(account, PrivacyLoss(0.1, 0.0), PrivacyLoss(0.0, 0.0))
    with pytest.raises(ParameterError, match="at most what it reserved"):
        queries_that_fit(account, PrivacyLoss(0.1, 0.0), PrivacyLoss(0.2, 0.0))


def test_a_refund_lets_more_queries_in_but_not_past_the_last_reservation() -> None:
    account, reserved = PrivacyLoss(1.0, 1.0), PrivacyLoss(0.6, 0.0)
    assert queries_that_fit(account, reserved, reserved) == 1
    assert queries_that_fit(account, reserved, PrivacyLoss(0.125, 0.0)) == 4
    assert queries_that_fit(account, PrivacyLoss(1.1, 0.0), PrivacyLoss(0.1, 0.0)) == 0

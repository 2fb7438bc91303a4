from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting import (
    DELTA_UNIT,
    MAX_UNITS,
    RHO_UNIT,
    ZERO,
    Budget,
    PrivacyLoss,
    delta_of_units,
    delta_units_down,
    delta_units_up,
    epsilon_from_zcdp,
    epsilon_simple,
    rho_from_epsilon,
    rho_of_units,
    rho_units_down,
    rho_units_up,
)
from dpsql.errors import ParameterError

NOT_A_COST = [math.nan, math.inf, -math.inf, -1.0, -5e-324, 10**400, True, "1", None]

epsilons = st.floats(1e-3, 1e3)
rhos = st.floats(1e-9, 1e4)
deltas = st.floats(1e-30, 0.5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [(1, 1e-6, 0.02436), (0.5, 1e-6, 0.00664), (5, 1e-6, 0.46306), (1, 1e-9, 0.01497)],
)
def test_rho_equals_the_reference_values(epsilon: float, delta: float, rho: float) -> None:
    assert rho_from_epsilon(epsilon, delta) == pytest.approx(rho, abs=6e-6)


def test_the_tight_conversion_buys_39_percent_more_rho_at_1_and_1e_6() -> None:
    simple = (math.sqrt(1 + math.log(1e6)) - math.sqrt(math.log(1e6))) ** 2
    assert simple == pytest.approx(0.01747, abs=6e-6)
    assert epsilon_simple(simple, 1e-6) == pytest.approx(1.0)
    assert rho_from_epsilon(1, 1e-6) / simple == pytest.approx(1.39, abs=0.005)


@settings(max_examples=100, deadline=None)
@given(rhos, deltas)
def test_epsilon_is_the_minimum_over_all_orders(rho: float, delta: float) -> None:
    order = np.exp(np.linspace(math.log(1e-6), math.log(1e12), 20_001))
    bound = (1 + order) * rho - np.log1p(1 / order) + (-math.log(delta) - np.log1p(order)) / order
    least = max(0.0, float(bound.min()))
    epsilon = epsilon_from_zcdp(rho, delta)
    assert epsilon <= least * (1 + 1e-9) + 1e-12
    assert epsilon >= least * (1 - 1e-3) - 1e-12


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def exact_gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of a Gaussian mechanism with this rho (Balle & Wang 2018, Thm 8)."""
    shift = math.sqrt(2 * rho)
    above, below = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return normal_cdf(above) - math.exp(epsilon) * normal_cdf(below)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-4, 50), st.floats(1e-9, 0.5))
def test_epsilon_covers_the_exact_gaussian_mechanism(rho: float, delta: float) -> None:
    epsilon = epsilon_from_zcdp(rho, delta)
    assert exact_gaussian_delta(rho, epsilon) <= delta * (1 + 1e-9)


def test_a_third_of_epsilon_would_not_cover_the_gaussian_mechanism() -> None:
    epsilon = epsilon_from_zcdp(0.02436, 1e-6) / 3
    assert exact_gaussian_delta(0.02436, epsilon) > 1e-6


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-12, 1e6), st.floats(1e-300, 1 - 2**-53))
def test_rho_never_buys_more_than_epsilon(epsilon: float, delta: float) -> None:
    assert epsilon_from_zcdp(rho_from_epsilon(epsilon, delta), delta) <= epsilon


@settings(max_examples=100, deadline=None)
@given(epsilons, deltas)
def test_rho_is_the_largest_that_fits(epsilon: float, delta: float) -> None:
    rho = rho_from_epsilon(epsilon, delta)
    assert epsilon_from_zcdp(rho * (1 + 1e-9), delta) > epsilon


@settings(max_examples=100, deadline=None)
@given(rhos, deltas)
def test_the_tight_epsilon_is_never_above_the_simple_one(rho: float, delta: float) -> None:
    assert epsilon_from_zcdp(rho, delta) <= epsilon_simple(rho, delta) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(rhos, deltas)
def test_more_rho_is_more_epsilon_and_less_delta_is_more_epsilon(rho: float, delta: float) -> None:
    epsilon = epsilon_from_zcdp(rho, delta)
    assert epsilon_from_zcdp(rho * 1.01, delta) >= epsilon
    assert epsilon_from_zcdp(rho, delta / 2) >= epsilon


def test_nothing_spent_is_epsilon_zero() -> None:
    assert epsilon_from_zcdp(0.0, 1e-6) == 0.0
    assert Budget.zcdp(1, 1e-6).epsilon_spent(0.0) == 0.0


@pytest.mark.parametrize("rho", [5e-324, 1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 0.5, 1 - 2**-53])
def test_extreme_costs_convert_without_error(rho: float, delta: float) -> None:
    assert epsilon_from_zcdp(rho, delta) >= 0.0


@pytest.mark.parametrize("bad", NOT_A_COST)
def test_a_cost_that_is_not_finite_and_non_negative_is_refused(bad: float) -> None:
    refusals: list[Callable[[], object]] = [
        lambda: PrivacyLoss(bad, 0.0),
        lambda: PrivacyLoss(0.0, bad),
        lambda: epsilon_from_zcdp(bad, 1e-6),
        lambda: epsilon_simple(bad, 1e-6),
        lambda: rho_from_epsilon(bad, 1e-6),
        lambda: Budget.zcdp(bad, 1e-6),
        lambda: rho_units_up(bad),
        lambda: rho_units_down(bad),
        lambda: delta_units_up(bad),
        lambda: delta_units_down(bad),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()


@pytest.mark.parametrize("bad", [0.0, 1.0, 2.0, -1e-6, math.nan, math.inf, "1e-6", None, True])
def test_a_delta_outside_zero_and_one_is_refused(bad: float) -> None:
    refusals: list[Callable[[], object]] = [
        lambda: epsilon_from_zcdp(0.1, bad),
        lambda: epsilon_simple(0.1, bad),
        lambda: rho_from_epsilon(1.0, bad),
        lambda: Budget.zcdp(1.0, bad),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()


def test_an_epsilon_of_zero_is_refused() -> None:
    with pytest.raises(ParameterError):
        rho_from_epsilon(0.0, 1e-6)


def test_losses_compose_by_adding() -> None:
    losses = [PrivacyLoss(0.25, 0.5), PrivacyLoss(0.5, 0.125)]
    assert sum(losses, ZERO) == PrivacyLoss(0.75, 0.625)


def test_adding_up_to_infinity_is_refused() -> None:
    with pytest.raises(ParameterError):
        PrivacyLoss(1.7e308, 0) + PrivacyLoss(1.7e308, 0)


@settings(max_examples=100, deadline=None)
@given(epsilons, st.floats(1e-12, 0.5))
def test_a_budget_splits_delta_in_two_and_never_promises_more(epsilon: float, delta: float) -> None:
    budget = Budget.zcdp(epsilon, delta)
    assert Fraction(budget.delta_conversion) + Fraction(budget.delta_mechanisms) == Fraction(delta)
    assert budget.delta_conversion == budget.delta_mechanisms
    assert epsilon_from_zcdp(budget.rho, budget.delta_conversion) <= epsilon
    assert Fraction(budget.rho_limit, 2**40) <= Fraction(budget.rho)
    assert Fraction(budget.delta_limit, 2**62) <= Fraction(budget.delta_mechanisms)


def test_spending_a_whole_budget_spends_epsilon_and_no_more() -> None:
    budget = Budget.zcdp(1.0, 1e-6)
    assert budget.epsilon_spent(budget.rho) == pytest.approx(1.0, rel=1e-9)
    assert budget.epsilon_spent(budget.rho) <= 1.0
    assert budget.epsilon_spent(rho_of_units(budget.rho_limit)) <= 1.0
    assert budget.epsilon_spent(budget.rho * 2) > 1.4


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-6), (1.0, 1e-19), (1e8, 1e-6)])
def test_a_budget_the_ledger_cannot_count_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ParameterError):
        Budget.zcdp(epsilon, delta)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 8e6))
def test_rho_units_round_exactly(rho: float) -> None:
    up, down = rho_units_up(rho), rho_units_down(rho)
    exact = Fraction(rho) * 2**40
    assert down <= exact <= up
    assert up - down == (exact.denominator != 1)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1))
def test_delta_units_round_exactly(delta: float) -> None:
    up, down = delta_units_up(delta), delta_units_down(delta)
    exact = Fraction(delta) * 2**62
    assert down <= exact <= up
    assert up - down == (exact.denominator != 1)


def test_the_smallest_positive_cost_is_one_unit_and_buys_no_limit() -> None:
    assert rho_units_up(5e-324) == delta_units_up(5e-324) == 1
    assert rho_units_down(5e-324) == delta_units_down(5e-324) == 0
    assert rho_units_up(0) == delta_units_up(0) == 0


def test_a_rho_whose_product_with_two_to_the_forty_is_not_a_float_rounds_up() -> None:
    just_above = Fraction(3) + Fraction(1, 10**30)
    assert rho_units_up(just_above) == 3 * 2**40 + 1
    assert rho_units_up(float(just_above)) == 3 * 2**40
    assert delta_units_up(Fraction(1, 3)) == delta_units_down(Fraction(1, 3)) + 1


def test_units_stop_at_64_bits() -> None:
    assert rho_units_up(Fraction(MAX_UNITS, 2**40)) == MAX_UNITS
    refusals: list[Callable[[], object]] = [
        lambda: rho_units_up(2.0**23),
        lambda: rho_units_down(2.0**23),
        lambda: delta_units_up(2.0),
        lambda: rho_units_up(1e308),
        lambda: rho_units_up(Fraction(MAX_UNITS, 2**40) + Fraction(1, 2**60)),
        lambda: rho_units_down(Fraction(-1, 3)),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, MAX_UNITS))
def test_units_shown_as_floats_never_understate(units: int) -> None:
    assert Fraction(rho_of_units(units)) >= Fraction(units, 2**40)
    assert Fraction(delta_of_units(units)) >= Fraction(units, 2**62)
    assert rho_of_units(units) <= units * RHO_UNIT * (1 + 2**-51)
    assert delta_of_units(units) <= units * DELTA_UNIT * (1 + 2**-51)


def test_a_conversion_takes_less_than_a_fifth_of_a_millisecond() -> None:
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            rho_from_epsilon(1.0, 1e-6)
            epsilon_from_zcdp(0.02, 1e-6)
        best = min(best, (time.perf_counter() - start) / 10)
    assert best < 2 * 0.2e-3

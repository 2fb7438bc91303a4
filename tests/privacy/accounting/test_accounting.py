from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import (
    DELTA_UNIT,
    MAX_LEDGER_UNITS,
    ZERO,
    Amount,
    Budget,
    Composition,
    PrivacyLoss,
    epsilon_from_zcdp,
    epsilon_simple,
    rho_from_epsilon,
)

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    for composition in Composition:
        assert Budget.of(1, 1e-6, composition).epsilon_spent(ZERO) == 0.0


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
        lambda: PrivacyLoss(0.0, 0.0, bad),
        lambda: Budget.zcdp(bad, 1e-6),
        lambda: Budget.basic(bad, 1e-6),
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
        lambda: Budget.basic(1.0, bad),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()


def test_an_epsilon_of_zero_is_refused() -> None:
    with pytest.raises(ParameterError):
        rho_from_epsilon(0.0, 1e-6)


def test_losses_compose_by_adding() -> None:
    losses = [PrivacyLoss(0.25, 0.5, 1.0), PrivacyLoss(0.5, 0.125, 0.5)]
    assert sum(losses, ZERO) == PrivacyLoss(0.75, 0.625, 1.5)


def test_adding_up_to_infinity_is_refused() -> None:
    for loss in (PrivacyLoss(1.7e308, 0), PrivacyLoss(0, 0, 1.7e308)):
        with pytest.raises(ParameterError):
            loss + loss


def test_a_loss_is_worth_its_epsilon_and_what_its_rho_converts_to() -> None:
    assert PrivacyLoss(0.0, 1e-8, 0.75).epsilon_at(0.0) == 0.75
    assert PrivacyLoss(0.02, 1e-8).epsilon_at(1e-6) == epsilon_from_zcdp(0.02, 1e-6)
    assert PrivacyLoss(0.02, 0.0, 0.5).epsilon_at(1e-6) == 0.5 + epsilon_from_zcdp(0.02, 1e-6)
    with pytest.raises(ParameterError):
        PrivacyLoss(0.02, 1e-8).epsilon_at(0.0)


@settings(max_examples=100, deadline=None)
@given(epsilons, st.floats(1e-12, 0.5))
def test_a_zcdp_budget_splits_delta_in_two_and_never_promises_more(
    epsilon: float, delta: float
) -> None:
    budget = Budget.zcdp(epsilon, delta)
    assert Fraction(budget.delta_conversion) + Fraction(budget.most.delta) == Fraction(delta)
    assert budget.delta_conversion == budget.most.delta
    assert epsilon_from_zcdp(budget.most.rho, budget.delta_conversion) <= epsilon
    assert Fraction(budget.limit.rho, 2**40) <= Fraction(budget.most.rho)
    assert Fraction(budget.limit.delta, 2**62) <= Fraction(budget.most.delta)
    assert budget.limit.epsilon == 0


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(epsilons, st.floats(1e-12, 0.5), st.floats(0.01, 0.99))
def test_a_zcdp_budget_keeps_any_part_of_delta_for_its_conversion(
    epsilon: float, delta: float, share: float
) -> None:
    budget = Budget.of(epsilon, delta, Composition.ZCDP, share)
    assert Fraction(budget.delta_conversion) + Fraction(budget.most.delta) <= Fraction(delta)
    assert budget.delta_conversion == pytest.approx(delta * share, rel=1e-12)
    assert budget.delta_conversion + budget.most.delta == pytest.approx(delta, rel=1e-12)
    assert epsilon_from_zcdp(budget.most.rho, budget.delta_conversion) <= epsilon
    larger = Budget.of(epsilon, delta, Composition.ZCDP, (share + 1) / 2)
    assert larger.most.rho >= budget.most.rho
    assert larger.most.delta <= budget.most.delta


def test_95_percent_for_the_conversion_buy_more_noise_reduction() -> None:
    """At (1, 1e-6) rho is 5.7% more, which is what declared keys can use."""
    half, most = (Budget.of(1.0, 1e-6, Composition.ZCDP, share) for share in (0.5, 0.95))
    assert most.most.rho / half.most.rho == pytest.approx(1.057, abs=2e-3)
    assert Budget.of(1.0, 1e-6, Composition.BASIC, 0.95) == Budget.basic(1.0, 1e-6)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, 2.0, math.nan, "0.5", None, True])
def test_a_part_of_delta_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ParameterError):
        Budget.of(1.0, 1e-6, Composition.ZCDP, bad)


@settings(max_examples=100, deadline=None)
@given(epsilons, st.floats(1e-12, 0.5))
def test_a_basic_budget_is_all_of_epsilon_and_delta_and_never_more(
    epsilon: float, delta: float
) -> None:
    budget = Budget.basic(epsilon, delta)
    assert budget.most == PrivacyLoss(0.0, delta, epsilon)
    for units, whole, bits in (
        (budget.limit.epsilon, epsilon, 40),
        (budget.limit.delta, delta, 62),
    ):
        assert Fraction(units, 2**bits) <= Fraction(whole) < Fraction(units + 1, 2**bits)
    assert budget.limit.rho == 0


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.floats(1e-3, 10.0),
    st.floats(1e-12, 1e-3),
    st.lists(st.tuples(st.floats(1e-6, 5.0), st.floats(0.0, 1e-3)), min_size=1, max_size=30),
)
def test_charges_that_fit_a_basic_budget_never_add_up_to_more_than_epsilon_or_delta(
    epsilon: float, delta: float, asked: list[tuple[float, float]]
) -> None:
    """Summed exactly, as the ledger sums; a sum of floats would let some of these through."""
    limit = Budget.basic(epsilon, delta).limit
    paid_epsilon, paid_delta = Fraction(0), Fraction(0)
    units: tuple[int, ...] = (0, 0, 0, 0)
    for one_epsilon, one_delta in asked:
        charge = Amount.charge(PrivacyLoss(0.0, one_delta, one_epsilon)).units
        after = tuple(map(sum, zip(units, charge, strict=True)))
        if all(total <= most for total, most in zip(after, limit.units, strict=True)):
            units = after
            paid_epsilon += Fraction(one_epsilon)
            paid_delta += Fraction(one_delta)
    assert paid_epsilon <= Fraction(epsilon)
    assert paid_delta <= Fraction(delta)


def test_ten_tenths_exceed_a_whole_in_floats_and_the_ledger_knows() -> None:
    """A tenth as a float is more than a tenth: ten of them are refused where nine are not."""
    tenth = Amount.charge(PrivacyLoss(0.0, 0.0, 0.1)).epsilon
    assert 10 * Fraction(0.1) > 1
    assert 9 * tenth <= Budget.basic(1.0, 1e-6).limit.epsilon < 10 * tenth


def test_spending_a_whole_budget_spends_epsilon_and_no_more() -> None:
    budget = Budget.zcdp(1.0, 1e-6)
    rho = budget.most.rho
    assert budget.epsilon_spent(budget.most) == pytest.approx(1.0, rel=1e-9)
    assert budget.epsilon_spent(budget.most) <= 1.0
    assert budget.epsilon_spent(budget.limit.loss) <= 1.0
    assert budget.epsilon_spent(PrivacyLoss(rho * 2, 0.0)) > 1.4


def test_a_basic_budget_spends_the_sum_of_epsilons_even_beyond_a_lowered_limit() -> None:
    budget = Budget.basic(1.0, 1e-6)
    assert budget.epsilon_spent(PrivacyLoss(0.0, 1e-7, 0.75)) == 0.75
    assert budget.epsilon_spent(budget.limit.loss) == 1.0
    assert budget.epsilon_spent(PrivacyLoss(0.0, 1e-7, 3.0)) == 3.0


def test_the_composition_decides_what_a_budget_counts() -> None:
    assert Budget.of(1.0, 1e-6, Composition.ZCDP) == Budget.zcdp(1.0, 1e-6)
    assert Budget.of(1.0, 1e-6, Composition.BASIC) == Budget.basic(1.0, 1e-6)
    assert Budget.of(1.0, 1e-6, Composition.GDP) == Budget.gdp(1.0, 1e-6)
    for composition in Composition:
        budget = Budget.of(1.0, 1e-6, composition)
        assert budget.composition is composition
        counted = {"rho": "zcdp", "epsilon": "basic", "gaussian": "gdp"}
        for currency, counts in counted.items():
            assert (getattr(budget.limit, currency) > 0) == (composition == counts)
        assert budget.limit.loss.gaussian == (composition is Composition.GDP)


@pytest.mark.parametrize("composition", Composition)
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-13, 1e-6), (1.0, 1e-19), (1e8, 1e-6)])
def test_a_budget_the_ledger_cannot_count_is_refused(
    epsilon: float, delta: float, composition: Composition
) -> None:
    with pytest.raises(ParameterError):
        Budget.of(epsilon, delta, composition)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.floats(0, 8e6), st.floats(0, 8e6), st.floats(0, 1))
def test_charges_round_up_and_limits_down_exactly(rho: float, epsilon: float, delta: float) -> None:
    loss = PrivacyLoss(rho, delta, epsilon)
    up, down = Amount.charge(loss), Amount.limit(loss)
    for name, bits in (("rho", 40), ("epsilon", 40), ("delta", 62)):
        exact = Fraction(getattr(loss, name)) * 2**bits
        assert getattr(down, name) <= exact <= getattr(up, name)
        assert getattr(up, name) - getattr(down, name) == (exact.denominator != 1)


def test_the_smallest_positive_cost_is_one_unit_and_buys_no_limit() -> None:
    least = PrivacyLoss(5e-324, 5e-324, 5e-324)
    assert Amount.charge(least) == Amount(1, 1, 1)
    assert Amount.limit(least) == Amount()
    assert Amount.charge(ZERO) == Amount()


def test_a_cost_just_above_a_unit_is_charged_the_next_one() -> None:
    above = PrivacyLoss(math.nextafter(2.0**-40, 1), math.nextafter(DELTA_UNIT, 1), 3.0)
    assert Amount.charge(above) == Amount(2, 3 * 2**40, 2)
    assert Amount.limit(above) == Amount(1, 3 * 2**40, 1)


def test_units_stop_at_64_bits() -> None:
    most = MAX_LEDGER_UNITS * 2.0**-40  # rounds up to 2**23
    for loss in (
        PrivacyLoss(most, 0.0),
        PrivacyLoss(0.0, 2.0),
        PrivacyLoss(0.0, 0.0, most),
        PrivacyLoss(1e308, 0.0),
    ):
        for build in (Amount.charge, Amount.limit):
            with pytest.raises(ParameterError):
                build(loss)
    assert Amount.charge(PrivacyLoss(math.nextafter(most, 0), 0.0)).rho <= MAX_LEDGER_UNITS


@pytest.mark.parametrize("bad", [True, 1.0, -1, 2**63, "1", None, math.nan])
def test_an_amount_is_whole_units_of_64_bits(bad: int) -> None:
    for name in ("rho", "epsilon", "delta"):
        with pytest.raises(ParameterError, match=name):
            Amount(**{name: bad})


@settings(max_examples=200, deadline=None)
@given(st.integers(0, MAX_LEDGER_UNITS))
def test_units_shown_as_floats_never_understate(units: int) -> None:
    shown = Amount(units, units, units).loss
    for value, bits in ((shown.rho, 40), (shown.epsilon, 40), (shown.delta, 62)):
        assert Fraction(value) >= Fraction(units, 2**bits)
        assert value <= units * 2.0**-bits * (1 + 2**-51)


def test_a_conversion_takes_less_than_a_fifth_of_a_millisecond() -> None:
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            rho_from_epsilon(1.0, 1e-6)
            epsilon_from_zcdp(0.02, 1e-6)
        best = min(best, (time.perf_counter() - start) / 10)
    assert best < 2 * 0.2e-3

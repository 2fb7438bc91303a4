"""Gaussian DP: its conversions against SciPy, and its composition against exact divergences."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr
from scipy.stats import norm

from dpsql.privacy.accounting.gdp import (
    bounded_range_of_gaussian_rho,
    epsilon_from_gaussian,
    gaussian_delta,
    gaussian_rho_from_epsilon,
    gaussian_rho_of_bounded_range,
    gaussian_rho_of_pure,
    pure_of_gaussian_rho,
)
from dpsql.privacy.accounting.zcdp import (
    ZERO,
    Amount,
    Budget,
    Composition,
    PrivacyLoss,
    epsilon_from_zcdp,
    rho_from_epsilon,
)

Law = NDArray[np.float64]


def reference(epsilon: float, mu: float) -> float:
    """delta(epsilon) of N(0, 1) and N(mu, 1), by SciPy's logarithms of tails."""
    far = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return float(norm.cdf(mu / 2 - epsilon / mu)) - math.exp(far)


def divergence(one: Law, other: Law, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)


# -- conversions ------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.floats(1e-4, 100.0), st.floats(1e-12, 0.4))
def test_a_limit_is_the_largest_mu_that_keeps_epsilon(epsilon: float, delta: float) -> None:
    rho = gaussian_rho_from_epsilon(epsilon, delta)
    mu = math.sqrt(2 * rho)
    assert reference(epsilon, mu) <= delta * (1 + 1e-9)
    assert reference(epsilon, mu * (1 + 1e-5)) > delta
    assert epsilon_from_gaussian(rho, delta) == pytest.approx(epsilon, rel=1e-7)
    assert epsilon_from_gaussian(rho, delta) >= epsilon * (1 - 1e-7)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.floats(1e-10, 50.0), st.floats(1e-12, 0.4))
def test_an_epsilon_is_never_too_small_and_never_above_that_of_zcdp(
    rho: float, delta: float
) -> None:
    epsilon = epsilon_from_gaussian(rho, delta)
    assert reference(epsilon, math.sqrt(2 * rho)) <= delta * (1 + 1e-9)
    assert epsilon <= epsilon_from_zcdp(rho, delta) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "gain"), [(0.1, 1.17), (0.5, 1.15), (1.0, 1.14), (2.0, 1.135), (8.0, 1.12)]
)
def test_an_account_affords_more_than_by_zcdp(epsilon: float, gain: float) -> None:
    found = gaussian_rho_from_epsilon(epsilon, 5e-7) / rho_from_epsilon(epsilon, 5e-7)
    assert found == pytest.approx(gain, abs=0.01)


def quantile(odds: float) -> float:
    """The normal quantile of the probability with these logarithmic odds."""
    return float(-norm.isf(expit(odds)) if odds < 0 else norm.isf(expit(-odds)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.floats(1e-8, 60.0), st.floats(-30.0, 30.0))
def test_no_pick_of_bounded_range_is_easier_to_tell_apart_than_its_gaussian(
    epsilon: float, middle: float
) -> None:
    """Its extreme laws are two Bernoullis whose odds differ by e^epsilon, around any middle."""
    rho = gaussian_rho_of_bounded_range(epsilon)
    mu = math.sqrt(2 * rho)
    # The vertex of their trade-off: errors 1 - here and there; a Gaussian's is at least as low.
    here, there = (quantile(middle + half) for half in (epsilon / 2, -epsilon / 2))
    assert here - there <= mu * (1 + 1e-9) + 1e-9


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 30.0))
def test_the_symmetric_pick_has_no_smaller_gaussian(epsilon: float) -> None:
    rho = gaussian_rho_of_bounded_range(epsilon)
    exact = 2 * float(norm.isf(expit(-epsilon / 2))) ** 2
    assert exact <= rho * (1 + 1e-12) <= exact * (1 + 1e-6) + 1e-12
    assert gaussian_rho_of_pure(epsilon) == gaussian_rho_of_bounded_range(2 * epsilon)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-14, 900.0))
def test_what_is_built_for_a_cost_costs_no_more(rho: float) -> None:
    epsilon = bounded_range_of_gaussian_rho(rho)
    assert gaussian_rho_of_bounded_range(epsilon) <= rho
    assert gaussian_rho_of_pure(pure_of_gaussian_rho(rho)) <= rho
    if rho < 500:
        assert gaussian_rho_of_bounded_range(epsilon * (1 + 1e-6) + 1e-12) > rho


def test_a_pick_at_its_zcdp_price_would_cost_too_little() -> None:
    """The twin: epsilon**2/8 is what zCDP charges, and here two Bernoullis exceed it."""
    here, there = np.array([expit(0.5), expit(-0.5)]), np.array([expit(-0.5), expit(0.5)])
    for epsilon in (0.1, 0.3, 0.5):
        found = divergence(here, there, epsilon)
        assert found <= gaussian_delta(epsilon, math.sqrt(2 * gaussian_rho_of_bounded_range(1.0)))
    cheap = math.sqrt(2 * 1.0 / 8)
    assert any(divergence(here, there, e) > gaussian_delta(e, cheap) for e in (0.1, 0.3, 0.5))


# -- composition ------------------------------------------------------------------------------


def lattice_laws(sigma: float, shift: int, reach: int) -> tuple[Law, Law]:
    points = np.arange(-reach, reach + 1)
    one = np.exp(-(points**2) / (2 * sigma**2))
    other = np.exp(-((points - shift) ** 2) / (2 * sigma**2))
    whole = np.exp(-(np.arange(-10 * reach, 10 * reach) ** 2) / (2 * sigma**2)).sum()
    return one / whole, other / whole


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.floats(2.5, 12.0),
    st.lists(st.floats(0.05, 1.0), min_size=8, max_size=8),
    st.integers(1, 2),
)
def test_answers_that_choose_the_next_question_never_exceed_the_filter(
    sigma: float, spends: list[float], shift: int
) -> None:
    """Two discrete Gaussians; the first answer decides how much of what is left the second takes.

    The exact divergence of the joint law against the curve of the limit, at many epsilons.
    """
    first_cost = shift**2 / (sigma**2 - 4) / 2
    limit = Amount.limit(PrivacyLoss(first_cost * 2.5, 0.0, gaussian=True))
    paid = Amount.charge(PrivacyLoss(first_cost, 0.0, gaussian=True))
    one, other = lattice_laws(sigma, shift, 120)
    seconds = []
    for share in spends:
        left = Amount(gaussian=int((limit.gaussian - paid.gaussian) * share))
        cost = max(left.loss.rho, 1e-9)
        seconds.append(lattice_laws(math.sqrt(shift**2 / (2 * cost) + 4), shift, 400))
    mu = math.sqrt(2 * limit.loss.rho)
    for epsilon in EPSILONS:
        here = there = 0.0
        for index, (p, q) in enumerate(zip(one, other, strict=True)):
            p2, q2 = seconds[(index * 7) % len(seconds)]
            here += float(np.maximum(p * p2 - math.exp(epsilon) * q * q2, 0.0).sum())
            there += float(np.maximum(q * q2 - math.exp(epsilon) * p * p2, 0.0).sum())
        assert max(here, there) <= gaussian_delta(epsilon, mu) + 1e-12


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.floats(0.01, 10.0),
    st.floats(1e-10, 1e-3),
    st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=40),
)
def test_charges_that_fit_a_gaussian_budget_never_add_up_to_more_than_mu(
    epsilon: float, delta: float, asked: list[float]
) -> None:
    budget = Budget.gdp(epsilon, delta)
    assert Fraction(budget.delta_conversion) + Fraction(budget.most.delta) <= Fraction(delta)
    assert budget.limit.rho == budget.limit.epsilon == 0
    spent, paid = 0, Fraction(0)
    for part in asked:
        loss = PrivacyLoss(budget.most.rho * part, 0.0, gaussian=True)
        charge = Amount.charge(loss)
        assert charge.units == (0, 0, 0, charge.gaussian)
        if spent + charge.gaussian <= budget.limit.gaussian:
            spent += charge.gaussian
            paid += Fraction(loss.rho)
    assert paid <= Fraction(budget.most.rho)
    assert reference(epsilon, math.sqrt(2 * float(paid)) + 1e-300) <= budget.delta_conversion * (
        1 + 1e-9
    )


def test_a_gaussian_loss_with_other_rho_is_zcdp_and_no_more() -> None:
    gaussian, other = PrivacyLoss(0.25, 1e-9, gaussian=True), PrivacyLoss(0.25, 1e-9)
    assert (gaussian + gaussian).gaussian
    assert (ZERO + gaussian).gaussian
    assert not (gaussian + other).gaussian
    assert (gaussian + other).rho == 0.5
    mixed = Amount.charge(gaussian).units, Amount.charge(other).units
    both = Amount(*map(sum, zip(*mixed, strict=True)))
    assert both.currencies == 2
    assert both.loss == PrivacyLoss(0.5, both.loss.delta)
    assert gaussian.epsilon_at(1e-6) == epsilon_from_gaussian(0.25, 1e-6)
    assert gaussian.epsilon_at(1e-6) < other.epsilon_at(1e-6)


def test_spending_a_whole_gaussian_budget_spends_epsilon_and_no_more() -> None:
    budget = Budget.of(1.0, 1e-6, Composition.GDP, 0.8)
    assert budget.delta_conversion == pytest.approx(8e-7)
    assert budget.epsilon_spent(budget.limit.loss) == pytest.approx(1.0, rel=1e-9)
    assert budget.epsilon_spent(budget.limit.loss) <= 1.0

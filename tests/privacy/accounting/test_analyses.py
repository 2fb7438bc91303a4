"""Questions of unequal epsilon by other theorems: every figure is a guarantee, and tight."""

from __future__ import annotations

import itertools
import math

import pytest

from dpsql.budget.comparison import Charged, advanced_of, analyses, basic_of, charged, optimal_of
from dpsql.budget.question import read_record
from dpsql.ledger import Entry
from dpsql.privacy.accounting.composition import compare
from dpsql.privacy.accounting.zcdp import Amount, PrivacyLoss, epsilon_from_zcdp, rho_from_epsilon

MIXTURES = [
    {0.5: 3, 0.2: 4},
    {1.0: 1, 0.25: 5},
    {0.3: 2, 0.7: 2, 0.05: 3},
    {2.0: 1, 0.000001: 2},
    {0.1: 9},
]


def delta_of(epsilons: dict[float, int], epsilon: float) -> float:
    """The exact delta of randomized responses, by all of their answers."""
    each = [e for e, count in epsilons.items() for _ in range(count)]
    found = 0.0
    for signs in itertools.product((1, -1), repeat=len(each)):
        chance = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, each, strict=True))
        loss = sum(s * e for s, e in zip(signs, each, strict=True))
        found += max(0.0, chance * -math.expm1(epsilon - loss)) if loss > epsilon else 0.0
    return found


@pytest.mark.parametrize("slack", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("epsilons", MIXTURES, ids=str)
def test_the_optimal_composition_is_that_of_all_answers(
    epsilons: dict[float, int], slack: float
) -> None:
    found = optimal_of(epsilons, slack)
    assert delta_of(epsilons, found) <= slack * (1 + 1e-6)
    # The negative control: a hair less is no guarantee.
    assert delta_of(epsilons, found * (1 - 1e-5)) > slack


def test_a_coarser_step_only_makes_the_optimal_composition_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = [optimal_of(epsilons, 1e-5) for epsilons in MIXTURES[:3]]
    monkeypatch.setattr("dpsql.budget.comparison._POINTS", 8)
    coarse = [optimal_of(epsilons, 1e-5) for epsilons in MIXTURES[:3]]
    assert all(map(float.__le__, exact, coarse))
    assert exact[0] < coarse[0]


def pure(epsilons: dict[float, int], delta: float) -> Charged:
    """Questions of which no more than epsilon and delta are known."""
    rho = sum(count * e * math.tanh(e / 2) for e, count in epsilons.items())
    return Charged(epsilons, delta, rho, delta)


@pytest.mark.parametrize("epsilons", MIXTURES, ids=str)
def test_no_theorem_says_less_than_the_optimal_composition(epsilons: dict[float, int]) -> None:
    basic, advanced, optimal, zcdp = analyses(pure(epsilons, 1e-7), 1e-6)
    assert [e.name for e in (advanced, optimal, zcdp)] == ["advanced", "optimal", "zcdp"]
    assert basic.epsilon == pytest.approx(sum(e * n for e, n in epsilons.items()))
    assert optimal.epsilon <= advanced.epsilon <= basic.epsilon
    assert optimal.epsilon <= zcdp.epsilon * (1 + 1e-9)
    (delta,) = {e.delta for e in (basic, advanced, optimal, zcdp)}
    assert delta == pytest.approx(1.1e-6)
    (later, *_) = analyses(pure(epsilons, 1e-7), 1e-6, 1e-5)
    assert later.delta == 1e-5


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 100), (0.5, 10), (1.0, 3000)])
def test_equal_questions_amount_to_what_the_theorems_for_equal_questions_say(
    epsilon: float, count: int
) -> None:
    known = {found.theorem: found.epsilon for found in compare(epsilon, count, 1e-6)}
    found = {each.name: each.epsilon for each in analyses(pure({epsilon: count}, 0.0), 1e-6)}
    for name in ("basic", "advanced", "optimal"):
        assert found[name] == pytest.approx(known[name], rel=1e-9), name
    assert found["zcdp"] == pytest.approx(known["zcdp_tight"], rel=1e-9)


def entry(plan: str, loss: PrivacyLoss) -> Entry:
    amount = Amount.charge(loss)
    return Entry(1, "", "", "d/a", "q", plan, amount, None, None, False)


def test_a_question_is_taken_for_what_it_is_by_itself() -> None:
    rho = rho_from_epsilon(0.5, 5e-9)
    plan = '{"blocks": [{"conversion_delta": 5e-9}]}'
    found = charged([entry(plan, PrivacyLoss(rho * (1 - 1e-9), 5e-9))] * 3, 1e-3)
    assert dict(found.epsilons) == {0.5: 3}
    assert found.delta == pytest.approx(3e-8)
    assert found.rho == pytest.approx(3 * rho)
    assert found.rho_delta == pytest.approx(1.5e-8)
    basic = charged([entry(plan, PrivacyLoss(0.0, 1e-8, 0.25))], 1e-3)
    assert dict(basic.epsilons) == {0.25: 1}
    assert basic.delta == pytest.approx(1e-8)


@pytest.mark.parametrize(
    "plan", ["{}", "[]", "7", "nonsense", '{"blocks": [{"conversion_delta": 2}]}']
)
def test_a_question_of_which_little_is_known_is_still_stated_truly(plan: str) -> None:
    assert read_record(plan).statement == ""
    found = charged([entry(plan, PrivacyLoss(0.01, 1e-8))], 1e-6)
    ((epsilon, _),) = found.epsilons.items()
    assert epsilon_from_zcdp(0.01, 1e-6) <= epsilon <= epsilon_from_zcdp(0.01, 1e-6) + 1e-6
    assert found.delta == pytest.approx(1.01e-6)


def test_nothing_asked_amounts_to_nothing() -> None:
    assert analyses(charged([], 1e-6), 1e-6) == ()
    assert analyses(charged([entry("{}", PrivacyLoss(0.0, 1e-8))], 1e-6), 1e-6) == ()


def test_many_unequal_questions_are_composed_in_reasonable_time() -> None:
    epsilons = {0.1: 3000, 0.25: 3000, 0.5: 2000, 1.0: 2000}
    assert optimal_of(epsilons, 1e-6) <= advanced_of(epsilons, 1e-6) <= basic_of(epsilons)

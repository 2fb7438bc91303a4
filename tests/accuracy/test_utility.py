"""What a top-k promises before it runs holds, and half of it is false."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from helpers.blocks import UNITS, block, summed
from helpers.laws import SeededSource, lower_bound
from numpy.typing import NDArray

from dpsql.planner import plan_block
from dpsql.policy.parameters import Parameters
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.selection import Selected, intruder_weight
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.mechanisms.topk_laplace import FixedThreshold, LaplaceTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.results.explanation import Explanation, explain_block

RUNS = 1500
K, K_BAR, BASE = 3, 8, 20
GAUSSIAN = IndependentNoise(DiscreteGaussian(7.0), 1)
GUMBEL = GumbelTopK(0.2, 1, K, K_BAR, 1e-3, 0)

Mechanism = (
    GumbelTopK
    | GumbelTopKChosenKBar
    | GaussianTopK
    | LaplaceTopK
    | CorrelatedTopK
    | FixedThreshold
    | KnownDomainTopK
)
MECHANISMS: dict[str, Mechanism] = {
    "gumbel": GUMBEL,
    "gumbel, large steps": GumbelTopK(0.5, 4, K, K_BAR, 1e-3, 0, groups=2),
    "gumbel, chosen k_bar": GumbelTopKChosenKBar(GUMBEL),
    "gaussian": GaussianTopK(GAUSSIAN, 2, K_BAR, 1e-3, 0),
    "laplace": LaplaceTopK(0.2, 2, K_BAR, 1e-3, 0),
    "correlated": CorrelatedTopK(7.0, 1, K, K_BAR, 1e-3, 0),
    "fixed threshold": FixedThreshold(0.2, K, 1e-3, 1e-3, 0),
    "known domain": KnownDomainTopK(0.2, 1, K, K_BAR),
}


def first_k(selected: Selected) -> list[int]:
    """The first k in the released order: as drawn, or by noisy score."""
    if selected.noisy is None:
        return [int(i) for i in selected.indices[:K]]
    return [int(i) for i in selected.indices[np.argsort(-selected.noisy, kind="stable")[:K]]]


def failures(mechanism: Mechanism, scores: list[int], failed: Callable[[list[int]], bool]) -> int:
    source = SeededSource(23)
    exact = np.array(scores, dtype=np.int64)
    return sum(failed(first_k(mechanism.select(exact, source))) for _ in range(RUNS))


def too_few(mechanism: Mechanism, gap: float) -> int:
    """Runs without k groups, when the k largest are ``gap`` above a base that all others share."""
    scores = [BASE + math.ceil(gap)] * K + [BASE] * (K_BAR + 1 - K)
    return failures(mechanism, scores, lambda first: len(first) < K)


def intruders(mechanism: Mechanism, shortfall: float) -> int:
    """Runs with a group just more than ``shortfall`` below the k largest, the base far away."""
    high = 10_000
    low = high - math.floor(shortfall) - 1
    scores = [low] * (K_BAR - K) + [high] * K
    order: NDArray[np.int64] = np.argsort(-np.array(scores), kind="stable")
    ranked = np.array(scores)[order].tolist()
    if not isinstance(mechanism, KnownDomainTopK):
        ranked += [BASE]
    return failures(mechanism, ranked, lambda first: any(ranked[i] == low for i in first))


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_k_groups_come_out_above_the_promised_gap_and_not_above_half_of_it(
    name: str, beta: float
) -> None:
    mechanism = MECHANISMS[name]
    gap = mechanism.utility_bound(K, beta).gap
    if gap is None:
        assert failures(mechanism, [0] * K_BAR, lambda first: len(first) < K) == 0
        return
    assert lower_bound(too_few(mechanism, gap), RUNS) <= beta
    assert lower_bound(too_few(mechanism, gap / 2), RUNS) > beta


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_no_group_comes_out_below_the_promised_shortfall_and_some_do_below_half_of_it(
    name: str, beta: float
) -> None:
    mechanism = MECHANISMS[name]
    shortfall = mechanism.utility_bound(K, beta).shortfall
    if isinstance(mechanism, FixedThreshold):
        assert shortfall == 0
        return
    assert lower_bound(intruders(mechanism, shortfall), RUNS) <= beta
    assert lower_bound(intruders(mechanism, shortfall / 2), RUNS) > beta


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_others_in_the_domain_nothing_can_fall_short(name: str) -> None:
    mechanism = MECHANISMS[name]
    if isinstance(mechanism, FixedThreshold):
        return
    whole = mechanism.utility_bound(K_BAR)
    assert whole.shortfall == 0
    assert whole.beta == 0.05


def avoided(picks: int, weight: float) -> float:
    """P[as many draws of a peeled exponential mechanism avoid intruders of that weight]."""
    return math.exp(-math.fsum(math.log1p(weight / r) for r in range(1, picks + 1)))


@pytest.mark.parametrize("picks", [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize("beta", [1e-9, 0.05, 0.5])
def test_intruders_of_the_stated_weight_are_avoided_and_not_much_heavier_ones(
    picks: int, beta: float
) -> None:
    weight = intruder_weight(picks, beta)
    assert avoided(picks, weight) >= 1 - beta
    assert avoided(picks, weight * 1.6) < 1 - beta


@pytest.mark.parametrize("beta", [0.05, 0.3])
@pytest.mark.parametrize("groups", [None, 2])
def test_the_gumbel_promise_is_exact_to_a_tenth_where_both_halves_are_at_their_worst(
    beta: float, groups: int | None
) -> None:
    mechanism = GumbelTopK(0.3, 1, 5, 50, 1e-6, 0, groups)
    found = mechanism.utility_bound(5, beta)
    assert found.gap is not None
    low = 45 * math.exp(-0.3 * found.shortfall)
    stop = math.exp(mechanism.stop_offset - 0.3 * found.gap)
    assert 1 - beta <= avoided(5, low + stop) <= 1 - beta * 0.8
    assert avoided(5, 45 * math.exp(-0.3 * found.shortfall / 2)) < 1 - beta


def test_the_gumbel_promise_is_below_the_printed_one() -> None:
    """Durfee & Rogers 2019, Lemma 8.1, its two statements at half of beta each."""
    for k, k_bar in ((1, 10), (10, 100), (100, 10_000)):
        found = GumbelTopK(0.5, 1, k, k_bar, 1e-6, 0).utility_bound(k, 0.05)
        assert found.gap is not None
        assert found.shortfall < math.log(k * k_bar / 0.025) / 0.5 + 0.2
        assert found.gap < 1 + (math.log(k_bar / 1e-6) + math.log(k / 0.025)) / 0.5 + 0.2


# -- as EXPLAIN tells it --------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_promises_in_the_units_of_the_answer() -> None:
    free = Parameters(
        epsilon=1.0, delta=1e-6, max_groups_contributed=None, k_bar=500, left_out_share=0.0
    )
    measure = summed(free, 0, 10**8)
    plan = plan_block(block(free, measure, limit=7))
    told = explain_block(plan, "SELECT 1")
    assert isinstance(plan.selection, GumbelTopK)
    exact = plan.selection.utility_bound(7)
    assert measure.step > 1
    assert told.utility_bound is not None
    assert exact.gap is not None
    assert told.utility_bound.shortfall == exact.shortfall * measure.step
    assert told.utility_bound.gap == exact.gap * measure.step
    assert (told.limit, told.base_rank) == (7, 501)


@pytest.mark.parametrize(
    ("domain", "limit", "expected"),
    [
        (None, 3, ("none comes out that has", "less than the 3rd", "if the 3rd is", "the 101st")),
        (None, 100, ("none but the 100 largest come out", "all 100 come out if")),
        (90, 2, ("less than the 2nd", "; 2 always come out")),
    ],
)
def test_explain_says_the_utility_bound_in_one_sentence(
    domain: int | None, limit: int, expected: tuple[str, ...]
) -> None:
    free = Parameters(
        epsilon=1.0, delta=1e-6, max_groups_contributed=None, k_bar=100, left_out_share=0.0
    )
    plan = plan_block(block(free, UNITS, domain=domain, limit=limit))
    block_told = explain_block(plan, "SELECT 1")
    told = Explanation("", "SELECT 1", (block_told,), plan.loss(None), 1.0, 5e-7)
    text = " ".join(re.sub(r"[^\w.,;%-]+", " ", repr(told)).split())
    assert "Utility with probability 95%, " in text
    for words in expected:
        assert words in text


@pytest.mark.parametrize("limit", [None, 5])
def test_where_every_declared_group_is_answered_nothing_is_promised(limit: int | None) -> None:
    plan = plan_block(block(Parameters(), UNITS, domain=5, limit=limit))
    assert explain_block(plan, "SELECT 1").utility_bound is None

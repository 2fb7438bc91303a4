"""Top-k over a stream: what all selections and shared counts cost, drawn once for ever."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.known_topk import known_domain_top_k
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import Factorisation, SquareRoot, best_tree
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.mechanism import StreamGroups
from dpsql.privacy.streams.shared import SharedContinualNoise, shared_continual_noise
from dpsql.privacy.streams.topk import (
    ScheduledTopK,
    doubling_steps,
    scheduled_top_k,
)

KEYS = step_keys(100)


def cost_of_counts(
    noise: SharedContinualNoise, moved: NDArray[np.float64], step: int, shared: float = 1.0
) -> float:
    """rho of an event at a step that moves ``moved``, from the covariance of all answers."""
    factorisation = noise.factorisation
    steps, groups = factorisation.steps, len(moved)
    rows = np.zeros((steps, steps))
    for t in range(1, steps + 1):
        rows[t - 1, :t] = factorisation.row(t).weights
    own = (2 * noise.sigma) ** 2
    among = own * np.eye(groups) + shared * own / math.sqrt(noise.most)
    covariance = np.kron(among, rows @ rows.T) / 4
    shift = np.kron(moved, np.arange(steps) >= step - 1)
    return float(shift @ np.linalg.solve(covariance, shift)) / 2


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_no_event_costs_more_than_rho(most: int) -> None:
    noise = SharedContinualNoise(SquareRoot(4), 3.0, 2, most)
    generator = np.random.default_rng(most)
    costs = [
        cost_of_counts(noise, np.array(moved, dtype=float), step)
        for step in (1, 2, 4)
        for moved in generator.choice([0, 1, 2], (60, most))
    ]
    whole = cost_of_counts(noise, np.full(most, 2.0), 1)
    assert max(*costs, whole) <= noise.rho(most) * (1 + 1e-9)
    half = np.zeros(most)
    half[: math.ceil(most / 2)] = 2.0
    assert max(*costs, whole, cost_of_counts(noise, half, 1)) > 0.5 * noise.rho(most)


def test_without_the_shared_noise_an_event_would_cost_more() -> None:
    """The broken twin."""
    noise = SharedContinualNoise(SquareRoot(4), 3.0, 1, 9)
    assert cost_of_counts(noise, np.ones(9), 1, shared=1e-9) > 2 * noise.rho(9)


def test_groups_that_are_not_named_are_not_paid_for() -> None:
    noise = SharedContinualNoise(SquareRoot(4), 3.0, 1, 100)
    for named in (1, 10, 100):
        assert cost_of_counts(noise, np.ones(named), 1) <= noise.rho(named)
    assert noise.rho(1) < 0.12 * noise.rho(100)


@pytest.mark.parametrize("factorisation", [SquareRoot(100), best_tree(100)], ids=repr)
def test_calibration_of_shared_noise_spends_the_budget(factorisation: Factorisation) -> None:
    noise = shared_continual_noise(0.05, factorisation, 3, 40)
    assert 0.05 * (1 - 1e-9) < noise.rho(40) <= 0.05


@pytest.mark.slow
def test_shared_noise_has_the_stated_size_and_correlation() -> None:
    noise = SharedContinualNoise(SquareRoot(40), 3.0, 1, 16)
    groups = [encode_group((str(i),)) for i in range(4)]
    exact = np.array([5, 6, 7, 8])
    found = np.array(
        [noise.add(40, exact, groups, KEYS, f"measure {i}") - exact for i in range(1500)]
    )
    assert found.std() == pytest.approx(noise.std(40), rel=0.07)
    correlation = np.corrcoef(found.T)
    assert correlation[~np.eye(4, dtype=bool)].mean() == pytest.approx(1 / 5, abs=0.07)  # 1/(1 + 4)
    assert set(np.unique(found % 1)) == {0.0, 0.5}
    assert np.mean(np.abs(found) <= noise.half_widths(0.95)[39]) > 0.95 - 6.5 * 0.0035
    again = noise.add(40, exact[2:3], groups[2:3], KEYS, "measure 7") - exact[2:3]
    assert again == found[7, 2:3]


def known(rho: float, steps: int, k: int, size: int, sensitivity: int = 1) -> ScheduledTopK:
    groups = StreamGroups(size)
    found = scheduled_top_k(PrivacyLoss(rho), steps, groups, k=k, sensitivity=sensitivity)
    assert found is not None
    return found


def test_a_stream_costs_all_selections() -> None:
    assert doubling_steps(1000) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    mechanism = scheduled_top_k(PrivacyLoss(0.1, 1e-6), 1000, StreamGroups(k_bar=100), k=5)
    assert mechanism is not None
    assert 0.1 * (1 - 1e-6) < mechanism.loss.rho <= 0.1
    assert 1e-6 * (1 - 1e-6) < mechanism.loss.delta <= 1e-6
    assert mechanism.counts.most == 50
    assert isinstance(mechanism.selection, GumbelTopK)
    selections = 10 * mechanism.selection.rho(None)
    assert mechanism.loss.rho == pytest.approx(selections + mechanism.counts.rho(50))


def test_declared_groups_cost_picks_at_every_selection() -> None:
    mechanism = known(0.1, 100, k=3, size=12, sensitivity=4)
    assert mechanism.loss.delta == 0.0
    assert mechanism.loss.rho <= 0.1
    # As in section 4.3 of the survey: an exponential mechanism costs epsilon**2/8, seven times.
    each = 3 * mechanism.selection.epsilon**2 / 8
    assert mechanism.loss.rho == pytest.approx(7 * each + mechanism.counts.rho(12))
    assert mechanism.counts.most == 12  # not 21: there are no more


def test_a_choice_is_drawn_once_and_large_groups_are_chosen() -> None:
    mechanism = known(5.0, 64, k=3, size=8)
    scores = np.array([0, 500, 3, 700, 1, 600, 2, 4])
    for step in mechanism.schedule:
        first = mechanism.choose(step, scores, KEYS[step - 1])
        assert (mechanism.choose(step, scores, StepKey(KEYS[step - 1].secret)) == first).all()
        assert set(first.tolist()) == {1, 3, 5}
    level = known(1e-4, 64, k=3, size=8)
    chosen = [tuple(level.choose(step, scores * 0, KEYS[step - 1])) for step in level.schedule]
    assert len(set(chosen)) > 3  # each step draws for itself
    assert [level.latest(step) for step in (1, 3, 7, 64)] == [1, 2, 4, 64]
    groups = [encode_group((str(i),)) for i in first]
    noisy = mechanism.noisy(64, scores[first], groups, KEYS)
    assert np.abs(noisy - scores[first]).max() < 6.5 * mechanism.counts.std(64)


def test_what_is_out_of_range_is_refused() -> None:
    mechanism = known(1.0, 10, k=2, size=5)
    with pytest.raises(ParameterError):
        mechanism.choose(3, np.zeros(5, dtype=np.int64), KEYS[2])
    selection = known_domain_top_k(PrivacyLoss(0.1), sensitivity=1, k=2, size=5)
    for schedule in ((), (2, 1), (1, 1), (0, 1), (5, 11)):
        with pytest.raises(ParameterError):
            ScheduledTopK(selection, mechanism.counts, schedule)
    with pytest.raises(ParameterError):
        SharedContinualNoise(SquareRoot(3), 1.0, 0, 1)
    with pytest.raises(ParameterError):
        shared_continual_noise(1.0, SquareRoot(3), 1, 0)

"""Top-k with a sparse vector: its exact loss on small neighbours, its cost, its memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.step_keys import step_keys

from dpsql.errors import ParameterError
from dpsql.privacy.sampling.noise import DiscreteLaplace
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.sparse import SparseChoice, SparseTopK, SparseVector, sparse_top_k

KEYS = step_keys(60)


@dataclass(frozen=True)
class Scales:
    """The scales of the noise of the threshold and of counts."""

    threshold: float
    counts: float


def law(
    counts: np.ndarray, thresholds: list[int], scales: Scales, *, redrawn: bool = False
) -> np.ndarray:
    """P[first yes at step 1, 2, ..., never], for counts of shape (steps, groups)."""
    z = np.arange(-400, 401)
    weight = DiscreteLaplace(scales.threshold).pmf(z)
    noise = DiscreteLaplace(scales.counts)
    grid = np.arange(-900, 901)
    below = np.concatenate(([0.0], np.cumsum(noise.pmf(grid))))  # P[noise < grid]
    no = np.array(
        [
            np.prod([below[np.clip(t + z - int(c) + 901, 0, 1801)] for c in row], axis=0)
            for row, t in zip(counts, thresholds, strict=True)
        ]
    )
    if redrawn:
        no = np.repeat((no * weight).sum(axis=1)[:, None], len(z), axis=1)
    never = np.cumprod(no, axis=0)
    before = np.vstack((np.ones_like(z, dtype=float)[None], never[:-1]))
    first = before * (1 - no)
    return np.append((first * weight).sum(axis=1), (never[-1] * weight).sum())


def worst_ratio(vector: SparseVector, scales: Scales) -> float:
    """The largest log ratio between neighbours: groups that move first, and one that is left alone.

    The worst is where the others stay below a low threshold, and then the one exceeds a high one.
    """
    worst, unit = 0.0, vector.noise.scale
    for moving, low, high in itertools.product((1, 6), (-5, 0, 3), (0, 8, 18)):
        one = np.zeros((2, moving + 1), dtype=np.int64)
        one[0, -1], one[1, -1], one[1, :-1] = -130 * unit, 20 * unit, -50 * unit
        two = one.copy()
        two[:, :-1] += vector.sensitivity
        p, q = (law(c, [round(low * unit), round(high * unit)], scales) for c in (one, two))
        worst = max(worst, float(np.abs(np.log(p / q)).max()))
    return worst


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.3, 1), (1.0, 1), (1.0, 3)])
def test_no_answers_of_a_sparse_vector_tell_more_than_epsilon(
    epsilon: float, sensitivity: int
) -> None:
    vector = SparseVector(epsilon, sensitivity)
    scale = vector.noise.scale
    worst = worst_ratio(vector, Scales(scale, scale))
    assert 0.99 * epsilon < worst <= epsilon * (1 + 1e-6)  # the sums round


def test_broken_twins_of_the_sparse_vector_are_caught() -> None:
    vector = SparseVector(1.0, 1)
    scale = vector.noise.scale
    assert worst_ratio(vector, Scales(scale, scale * 0.9)) > 1.0
    assert worst_ratio(vector, Scales(scale * 0.9, scale)) > 1.0
    # With a new threshold at every step the no's add up: three steps of two groups.
    rising = np.full((40, 2), 0)
    risen = rising + 1
    scales = Scales(scale, scale)

    def told(*, redrawn: bool) -> float:
        p, q = (law(c, [6] * 40, scales, redrawn=redrawn)[-1] for c in (rising, risen))
        return abs(math.log(p / q))

    assert told(redrawn=False) <= 1.0 < told(redrawn=True)


@pytest.mark.slow
def test_the_sparse_vector_draws_what_the_law_says() -> None:
    vector = SparseVector(0.8, 1)
    scale = vector.noise.scale
    counts, threshold = np.array([3, 1]), 2
    wanted = law(counts[None], [threshold], Scales(scale, scale))[0]
    trials = 4000
    found = np.mean(
        [
            vector.above(counts, threshold, KEYS[0].source("kept", i), KEYS[0].source("fresh", i))
            for i in range(trials)
        ]
    )
    assert abs(found - wanted) < 6.5 * math.sqrt(wanted * (1 - wanted) / trials)


@pytest.mark.parametrize(("k", "switches", "size"), [(1, 3, 100), (5, 2, 8), (2, 0, 9)])
def test_the_budget_is_spent_in_the_shares_of_the_paper(k: int, switches: int, size: int) -> None:
    mechanism = sparse_top_k(0.1, 50, k=k, size=size, switches=switches, margin=5)
    spent = mechanism.loss.rho
    assert spent <= 0.1
    wanted = 0.1 * (2 * k + (switches > 0)) / (2 * k + 1)
    assert spent == pytest.approx(wanted, rel=1e-9)
    assert mechanism.loss.delta == 0.0
    assert mechanism.vector.rho * switches <= 0.1 / (2 * k + 1)


def followed(
    mechanism: SparseTopK, exact: np.ndarray, groups: list[bytes], keys: Sequence[StepKey]
) -> list[SparseChoice]:
    choices = [mechanism.first(1, exact[0], keys)]
    for step in range(2, len(exact) + 1):
        choices.append(mechanism.advance(choices[-1], step, exact[step - 1], groups, keys))
    return choices


def test_the_list_changes_when_another_group_has_grown_and_at_most_so_often() -> None:
    groups = [encode_group((str(i),)) for i in range(6)]
    mechanism = sparse_top_k(20.0, 60, k=1, size=6, switches=2, margin=30)
    exact = np.zeros((60, 6), dtype=np.int64)
    exact[:, 0] = 200
    exact[20:, 1] = 500
    exact[40:, 2] = 1000
    exact[50:, 3] = 2000  # no switch is left for this one
    choices = followed(mechanism, exact, groups, KEYS)
    listed = [choice.listed for choice in choices]
    assert listed == [(0,)] * 20 + [(1,)] * 20 + [(2,)] * 20
    assert choices[-1] == SparseChoice((2,), 3, frozenset({0, 1, 2}), 41)
    assert followed(mechanism, exact, groups, step_keys(60)) == choices
    noisy = mechanism.noisy(choices[-1], 60, exact[-1], groups, KEYS)
    assert abs(noisy[0] - 1000) < 6.5 * mechanism.counts.std(60)


def test_all_that_may_happen_is_paid_for() -> None:
    mechanism = sparse_top_k(0.5, 60, k=2, size=6, switches=3, margin=10)
    selections, asked = 4 * mechanism.selection.rho(None), 3 * mechanism.vector.rho
    assert mechanism.loss.rho == pytest.approx(selections + asked + mechanism.counts.rho(6))
    assert mechanism.loss.rho <= 0.5


def test_parameters_that_do_not_fit_are_refused() -> None:
    good = sparse_top_k(0.5, 4, k=2, size=6, switches=1, margin=10)
    for build in (
        lambda: SparseVector(0.0, 1),
        lambda: SparseVector(1.0, 0),
        lambda: SparseTopK(good.selection, good.counts, good.vector, -1, good.margins),
        lambda: SparseTopK(good.selection, good.counts, good.vector, 1, (1, 2, 3)),
        lambda: SparseTopK(good.selection, good.counts, good.vector, 1, (1, 2, 3, -1)),
        lambda: SparseTopK(good.selection, good.counts, good.vector, 2, good.margins),
        lambda: sparse_top_k(0.0, 4, k=2, size=6, switches=1, margin=10),
        lambda: sparse_top_k(0.5, 4, k=0, size=6, switches=1, margin=10),
    ):
        with pytest.raises(ParameterError):
            build()

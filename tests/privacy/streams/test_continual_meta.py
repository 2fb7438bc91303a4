"""One-shot mechanisms on the cells of a tree: every step is covered, an event is paid per level."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.step_keys import step_keys

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import best_tree
from dpsql.privacy.streams.mechanism import StreamGroups
from dpsql.privacy.streams.meta import (
    CellRelease,
    MetaHistogram,
    meta_histogram,
)

KEYS = step_keys(37)
STEPS = 37


def settings(rho: float) -> list[MetaHistogram]:
    price, unknown = PrivacyLoss(rho, 1e-6), StreamGroups(k_bar=20)
    return [
        known(rho, STEPS, groups=2, size=6),
        built(meta_histogram(price, STEPS, StreamGroups(6), k=3)),
        built(meta_histogram(price, STEPS, unknown, groups=2)),
        built(meta_histogram(price, STEPS, unknown, k=3)),
    ]


def built(found: MetaHistogram | None) -> MetaHistogram:
    assert found is not None
    return found


def known(rho: float, steps: int, groups: int, size: int) -> MetaHistogram:
    return built(meta_histogram(PrivacyLoss(rho), steps, StreamGroups(size), groups=groups))


def run(
    mechanism: MetaHistogram, increments: np.ndarray, *, ranked: bool
) -> list[dict[bytes, float]]:
    """All steps' answers, from increments of shape (steps, groups)."""
    released: dict[tuple[int, int], CellRelease] = {}
    answers = []
    for step in range(1, STEPS + 1):
        for cell in mechanism.completed(step):
            first, last = mechanism.steps_of(cell)
            assert last == step
            scores = increments[first - 1 : last].sum(axis=0)
            order = np.argsort(-scores, kind="stable") if ranked else np.arange(len(scores))
            names = [encode_group((str(i),)) for i in order]
            released[cell] = mechanism.release_cell(cell, scores[order], names, KEYS)
        answers.append(mechanism.running(step, released))
    return answers


def test_budgets_are_spent_and_no_more() -> None:
    for mechanism in settings(0.3):
        assert 0.3 * (1 - 1e-6) < mechanism.loss.rho <= 0.3
        assert mechanism.loss.delta <= 1e-6
    assert [m.loss.delta > 0 for m in settings(0.3)] == [False, False, True, True]


@pytest.mark.parametrize("steps", [1, 2, 30, 37, 100])
def test_every_step_is_made_of_cells_that_are_there_and_an_event_is_in_one_of_a_level(
    steps: int,
) -> None:
    mechanism = known(1.0, steps, groups=1, size=1)
    there: set[tuple[int, int]] = set()
    for step in range(1, steps + 1):
        there |= set(mechanism.completed(step))
        covered = [mechanism.steps_of(cell) for cell in mechanism.tree.nodes(step)]
        assert set(mechanism.tree.nodes(step)) <= there
        counted = [t for first, last in covered for t in range(first, last + 1)]
        assert counted == list(range(1, step + 1))
    for event in range(1, steps + 1):
        touched = [
            c for c in there if mechanism.steps_of(c)[0] <= event <= mechanism.steps_of(c)[1]
        ]
        levels = [level for level, _ in touched]
        assert len(levels) == len(set(levels)) <= mechanism.tree.levels


def test_large_groups_have_their_running_counts_in_all_settings() -> None:
    increments = np.random.default_rng(1).integers(20, 60, (STEPS, 6)) * np.array(
        [9, 5, 3, 1, 1, 1]
    )
    exact = increments.cumsum(axis=0)
    for mechanism, ranked in zip(settings(2.0), (False, False, True, True), strict=True):
        for step, answer in enumerate(run(mechanism, increments, ranked=ranked), start=1):
            for i in range(3):
                assert abs(answer[encode_group((str(i),))] - exact[step - 1, i]) <= 40


def test_noise_is_that_of_the_cells_and_drawn_once() -> None:
    mechanism = known(0.05, STEPS, groups=2, size=400)
    zeros = np.zeros((STEPS, 400), dtype=np.int64)
    answers = run(mechanism, zeros, ranked=False)
    assert run(mechanism, zeros, ranked=False) == answers
    assert mechanism.counts is not None
    for step in (1, 15, 37):
        cells = len(best_tree(STEPS).nodes(step))
        found = np.array(list(answers[step - 1].values()))
        wanted = mechanism.counts.std(2) * cells**0.5
        assert found.std() == pytest.approx(wanted, rel=6.5 / 800**0.5)


def test_small_groups_of_unknown_keys_are_not_released() -> None:
    for mechanism in settings(0.3)[2:]:
        ones = np.zeros((STEPS, 5), dtype=np.int64)
        ones[10] = 1
        released = run(mechanism, ones, ranked=True)
        assert all(not answer for answer in released)


def test_a_missing_cell_is_refused() -> None:
    mechanism = known(1.0, STEPS, groups=1, size=1)
    with pytest.raises(ParameterError):
        mechanism.running(5, {})
    assert meta_histogram(PrivacyLoss(1e-20, 1e-6), STEPS, StreamGroups(k_bar=20), k=3) is None

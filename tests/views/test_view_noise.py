"""What is kept of a view's noise decides how long a refresh takes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray

from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import (
    Factorisation,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.keyed import KeyedNoise
from dpsql.privacy.streams.streams import ContinualNoise
from dpsql.views.noise import ViewNoise
from dpsql.views.plan import ViewPlan
from dpsql.views.state import KeptNoise

STEPS = 40
STEP_KEYS = step_keys(STEPS)
KEYS = [None, *(f"group {i}" for i in range(999))]
SIGMAS = (25.0, 900.0)


def plan(shape: Factorisation) -> ViewPlan:
    """As much of a plan as noise depends on: two measures, of which the second decides."""
    noises = tuple(ContinualNoise(shape, sigma, 3, 1) for sigma in SIGMAS)
    block = SimpleNamespace(measure_column=lambda index: f"m{index}")
    return cast(ViewPlan, SimpleNamespace(noises=noises, score=1, block=block))


def of_the_keys(shape: Factorisation, step: int, count: int) -> list[NDArray[np.int64]]:
    groups = [encode_group((key,)) for key in KEYS[:count]]
    names = ("m0", "units")
    return [
        KeyedNoise(STEP_KEYS, name, sigma, shape).noise(step, groups)
        for name, sigma in zip(names, SIGMAS, strict=True)
    ]


def refreshes(shape: Factorisation, change: Callable[[KeptNoise], KeptNoise | None]) -> list[bool]:
    """Refresh now and then, with more groups each time; whether each step has the keys' noise."""
    found, kept = [], None
    for first, last in ((1, 1), (2, 12), (13, 13), (17, 29), (31, STEPS)):
        noise = ViewNoise(plan(shape), STEP_KEYS, kept)
        for step in range(first, last + 1):
            count = 20 * step
            drawn = noise.at(step, [KEYS[:count]], count)
            exact = of_the_keys(shape, step, count)
            found.append(all((a == b).all() for a, b in zip(drawn, exact, strict=True)))
        given = noise.kept()
        kept = None if given is None else change(given)
    return found


SHAPES = [
    SquareRoot(STEPS),
    SquareRoot(STEPS, 12),
    SlidingWindow(STEPS, 5),
    best_tree(STEPS),
    TreeFromBelow(STEPS),
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.name}_{s.bits}")
def test_noise_is_that_of_the_keys_from_step_to_step_and_after_restarts(shape: Any) -> None:
    assert all(refreshes(shape, lambda kept: kept))


@pytest.mark.slow
def test_what_is_kept_of_other_noise_is_not_used() -> None:
    shape = SquareRoot(STEPS)
    assert all(refreshes(shape, lambda kept: None))
    assert all(refreshes(shape, lambda kept: replace(kept, digest=b"another", columns={})))
    assert all(refreshes(shape, lambda kept: replace(kept, step=STEPS)))


@pytest.mark.slow
def test_sums_that_are_wrong_would_be_noticed() -> None:
    """The broken twin: sums of a step before, or of groups in another order."""
    shape = SquareRoot(STEPS)
    assert not all(refreshes(shape, lambda kept: replace(kept, step=max(0, kept.step - 1))))

    def turned(kept: KeptNoise) -> KeptNoise:
        return replace(kept, columns={n: c[::-1] for n, c in kept.columns.items()})

    assert not all(refreshes(shape, turned))


@pytest.mark.slow
def test_only_what_is_of_use_is_kept() -> None:
    noise = ViewNoise(plan(SlidingWindow(STEPS, 5)), STEP_KEYS)
    noise.at(1, [KEYS], len(KEYS))
    assert noise.kept() is None
    noise = ViewNoise(plan(SquareRoot(STEPS)), STEP_KEYS)
    noise.at(1, [KEYS], len(KEYS))
    kept = noise.kept()
    assert kept is not None
    sizes = {column.shape for column in kept.columns.values()}
    assert sizes == {(len(KEYS),)}
    assert len(kept.columns) < 60  # however many steps there are

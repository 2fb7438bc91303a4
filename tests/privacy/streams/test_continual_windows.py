"""Sliding windows over unknown keys: delta against streams that react to what they were told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray

from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import SlidingWindow
from dpsql.privacy.streams.keyed import KeyedNoise, rounded_products
from dpsql.privacy.streams.streams import ContinualHistogram, ContinualNoise

STEPS, WIDTH, FLOOR, GROUPS, DELTA = 10, 4, 2, 2, 0.05
KEYS = [encode_group((str(i),)) for i in range(1200)]
TRIALS = 250
HISTOGRAM = ContinualHistogram(
    ContinualNoise(SlidingWindow(STEPS, WIDTH), 5.0, GROUPS, 1), DELTA, FLOOR
)
Counts = NDArray[np.int64]


def noise_of(trial: str) -> Counts:
    """The noise of all keys at all steps, of shape (keys, steps): the shipped one."""
    noise, shape = HISTOGRAM.noise, HISTOGRAM.noise.factorisation
    draws = KeyedNoise(step_keys(STEPS, trial), "units", noise.sigma, shape).draws
    z = draws.draw(KEYS, np.arange(STEPS))
    rows = [rounded_products(shape, step, z[:, :step]) for step in range(1, STEPS + 1)]
    return np.stack(rows, axis=1)


def predicted(known: Counts, step: int, seen: list[int]) -> NDArray[np.float64]:
    """The mean of the noise at a step, given that at steps that were seen: by the covariance."""
    shape, rows = HISTOGRAM.noise.factorisation, np.zeros((STEPS, STEPS))
    for t in range(1, STEPS + 1):
        rows[t - 1, :t] = shape.row(t).weights
    covariance = rows @ rows.T
    places = [each - 1 for each in seen]
    weights = np.linalg.solve(covariance[np.ix_(places, places)], covariance[places, step - 1])
    found: NDArray[np.float64] = known[:, places] @ weights
    return found


@dataclass
class Stream:
    """What an adversary makes of the rows: of all units, and of the one that is protected.

    ``told`` are the noisy counts that were shown, of shape (keys, steps); NaN for others.
    """

    told: NDArray[np.float64]
    common: Counts
    unit: Counts


def returning(stream: Stream, step: int) -> None:
    """Let all keys be large once and leave the window; bring those back whose noise looks high."""
    if step == 1:
        stream.common[:, 0] = 400
    if step == 1 + WIDTH:
        seen = list(range(1, 1 + WIDTH))
        score = predicted(np.nan_to_num(stream.told - 400).astype(np.int64), step, seen)
        stream.common[:, step - 1] = FLOOR
        stream.unit[np.argsort(-score)[:GROUPS], step - 1] = 1


def waiting(stream: Stream, step: int) -> None:
    """Put keys at the floor, and the unit into some of them from the beginning."""
    if step == 1:
        stream.common[:, 0] = FLOOR
        stream.unit[:GROUPS, 0] = 1


def moving(stream: Stream, step: int) -> None:
    """Choose keys by what was shown of others, one after the other, and keep some large."""
    if step == 1:
        stream.common[:, 0] = FLOOR
        stream.common[::2, 0] = 300
    if step in (3, 6):
        last = np.nan_to_num(stream.told[:, step - 2], nan=0.0)
        key = (2 * int(np.argmax(last)) + 1) % len(KEYS)
        stream.unit[key, step - 1] = 0 if stream.unit[key].any() else 1
        stream.common[1::2, step - 1] = np.where(stream.common[1::2].sum(axis=1) < FLOOR, 1, 0)


STRATEGIES = (returning, waiting, moving)


def brought_about(
    react: Callable[[Stream, int], None], trials: int, *, by_window: bool = False
) -> int:
    """How often a key is shown that exists with the unit's rows alone.

    ``by_window`` is the broken twin: keys exist by their counts in the window.
    """
    found = 0
    for trial in range(trials):
        noise, size = noise_of(f"{react.__name__} {trial}"), (len(KEYS), STEPS)
        zeros = np.zeros(size, dtype=np.int64)
        stream = Stream(np.full(size, math.nan), zeros, zeros.copy())
        happened = False
        for step in range(1, STEPS + 1):
            react(stream, step)
            assert (np.abs(stream.unit).sum(axis=1) <= 1).all()
            assert (stream.unit.any(axis=1)).sum() <= GROUPS
            both = stream.common + stream.unit
            first = max(0, step - WIDTH)
            window = both[:, first:step].sum(axis=1)
            small = stream.common[:, first if by_window else 0 : step].sum(axis=1)
            large = both[:, first if by_window else 0 : step].sum(axis=1)
            noisy = window + noise[:, step - 1]
            shown = HISTOGRAM.shown(step, large, noisy)
            stream.told[shown, step - 1] = noisy[shown]
            happened |= bool((shown & (small <= FLOOR)).any())
        found += happened
    return found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("react", STRATEGIES)
def test_a_stream_that_reacts_brings_a_key_about_with_delta_at_most(
    react: Callable[[Stream, int], None],
) -> None:
    """By the coupling of the proof: the event that what runs on neighbours is not the same rule."""
    found = brought_about(react, TRIALS)
    assert found <= TRIALS * DELTA + 6 * math.sqrt(TRIALS * DELTA)


@pytest.mark.slow
def test_keys_that_exist_by_their_window_would_be_noticed() -> None:
    """The broken twin: a key leaves the window, and is brought back while its noise is known."""
    found = brought_about(returning, 60, by_window=True)
    assert found > 60 * DELTA + 6 * math.sqrt(60 * DELTA)


def test_a_key_exists_by_its_count_since_the_start() -> None:
    counts = np.array([0, FLOOR, FLOOR + 1, 900])
    noisy = np.full(4, 10**6)
    assert HISTOGRAM.shown(7, counts, noisy).tolist() == [False, False, True, True]
    left = HISTOGRAM.noise.add(7, np.zeros(4, dtype=np.int64), KEYS[:4], step_keys(7))
    gone = HISTOGRAM.shown(7, counts, left)
    assert not gone[:2].any()

"""Ladders: they add up to what was left out, and one unit moves them by one at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers.laws import SeededSource
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.left_out import (
    LADDER_SENSITIVITY,
    LADDER_STEPS,
    LEFT_OUT_REACH,
    Ladder,
    LeftOutNoise,
    left_out_noise,
)

MOSTS = (1, 3, 10, 100, 5_000, 12_345, 10**9, 2**40)


def climbed(ladder: Ladder, left: Sequence[int]) -> list[int]:
    """What the generated SQL sums, of units that have so much left out."""
    grains = [min(amount, ladder.top) // ladder.grain for amount in left]
    return [sum(min(max(g - low, 0), span) for g in grains) for low, span in ladder.spans]


def standing(ladder: Ladder, left: Sequence[int]) -> NDArray[np.int64]:
    return ladder.standing(climbed(ladder, left))


@st.composite
def lefts(draw: st.DrawFn) -> tuple[Ladder, list[int]]:
    ladder = Ladder.reaching(draw(st.sampled_from(MOSTS)))
    amounts = st.one_of(
        st.integers(0, 40 * ladder.grain),
        st.integers(0, 2 * ladder.top),
        st.sampled_from(ladder.heights),
    )
    return ladder, draw(st.lists(amounts, min_size=1, max_size=12))


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(lefts())
def test_one_unit_moves_all_rungs_by_at_most_the_sensitivity(
    case: tuple[Ladder, list[int]],
) -> None:
    ladder, left = case
    moved = standing(ladder, left) - standing(ladder, left[1:])
    assert np.abs(moved).sum() <= LADDER_SENSITIVITY
    assert np.count_nonzero(moved) <= 2


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(lefts())
def test_rungs_times_heights_are_what_was_left_out(case: tuple[Ladder, list[int]]) -> None:
    ladder, left = case
    counted = sum(min(one, ladder.top) // ladder.grain * ladder.grain for one in left)
    total = sum(int(s) * h for s, h in zip(standing(ladder, left), ladder.heights, strict=True))
    rounding = sum(ladder.heights) / 2
    assert abs(total - counted * LADDER_STEPS) <= rounding


def test_a_unit_on_a_rung_moves_it_by_one_whole_and_no_more() -> None:
    ladder = Ladder.reaching(15)
    for place, height in enumerate(ladder.heights):
        expected = np.zeros(ladder.rungs)
        expected[place] = LADDER_STEPS
        assert (standing(ladder, [height]) == expected).all()
    assert (standing(ladder, [10**9]) == standing(ladder, [ladder.top])).all()


def test_what_units_climbed_is_no_ladder() -> None:
    """The sensitivity is that of standing: a unit climbs every span below where it stands."""
    ladder = Ladder.reaching(15)
    parts = [c / span for c, (_, span) in zip(climbed(ladder, [10**9]), ladder.spans, strict=True)]
    assert sum(parts) == ladder.rungs > 1


@pytest.mark.few(8)
@pytest.mark.parametrize("most", MOSTS)
def test_ladders_reach_far_enough_and_their_sums_fit_64_bits(most: int) -> None:
    ladder = Ladder.reaching(most)
    assert ladder.top >= LEFT_OUT_REACH * most
    assert max(span for _, span in ladder.spans) * 2**40 < 2**62
    assert ladder.grain <= max(1, most // 4096)


@pytest.mark.few(8)
@pytest.mark.parametrize("most", MOSTS)
@pytest.mark.parametrize("price", [1e-5, 0.3])
def test_both_noises_together_cost_what_is_stated(most: int, price: float) -> None:
    composed = left_out_noise(most, PrivacyLoss(price))
    parts = composed.kept_noise.rho(1) + composed.rung_noise.rho(1)
    assert 0.99 * price <= parts <= price
    assert composed.loss.rho == price
    pure = left_out_noise(most, PrivacyLoss(epsilon=price))
    shifts = [n.sensitivity / n.scale for n in (pure.kept_noise, pure.rung_noise)]
    assert sum(shifts) <= price
    assert (pure.loss.epsilon, pure.loss.rho, pure.loss.delta) == (price, 0.0, 0.0)
    for noise in (composed, pure):
        moved = -(-most // noise.coarsening) if noise.coarsening > 1 else most
        assert noise.kept_noise.sensitivity >= moved
        assert noise.rung_noise.sensitivity == LADDER_SENSITIVITY


def test_no_noise_is_so_cheap() -> None:
    with pytest.raises(ParameterError):
        left_out_noise(10, PrivacyLoss(1e-300))


def drawn(noise: LeftOutNoise, runs: int, seed: int) -> NDArray[np.float64]:
    """Noise on what is kept and on each rung: of shape (runs, 1 + rungs), in units."""
    source = SeededSource(seed)
    zeros = [0] * noise.ladder.rungs
    found = [noise.release(0, zeros, source) for _ in range(runs)]
    return np.array([[one.kept, *one.rungs] for one in found])


def p_values(noise: LeftOutNoise, draws: NDArray[np.float64], sensitivity: float) -> list[float]:
    """Test whether no variance is below what the price asks of a sensitivity."""
    kept = noise.most / np.sqrt(noise.loss.rho)
    rung = sensitivity / np.sqrt(noise.loss.rho)
    found = []
    for column, std in zip(draws.T, [kept, *[rung] * noise.ladder.rungs], strict=True):
        statistic = float((column**2).sum()) / std**2
        found.append(float(stats.chi2.cdf(statistic, len(column))))
    return found


def test_released_noise_is_as_large_as_the_price_asks() -> None:
    """For σ: half of ρ each, so Δ²/(2σ²) = ρ/2. A twin for half the sensitivity is caught."""
    noise = left_out_noise(15, PrivacyLoss(0.01))
    draws = drawn(noise, 400, 5)
    assert min(p_values(noise, draws, 1.0)) > 1e-6
    halved = np.column_stack([draws[:, 0], draws[:, 1:] / 2])
    assert min(p_values(noise, halved, 1.0)) < 1e-9


def test_releases_are_centred_on_the_exact_sums() -> None:
    noise = left_out_noise(15, PrivacyLoss(1.0))
    left = [5, 5, 8, 100, 320, 9_999]
    exact = standing(noise.ladder, left) / LADDER_STEPS
    source = SeededSource(3)
    found = [noise.release(77, climbed(noise.ladder, left), source) for _ in range(600)]
    rungs = np.array([one.rungs for one in found])
    error = rungs.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(rungs.mean(axis=0) - exact) < 6 * error).all()
    kept = np.array([one.kept for one in found])
    assert abs(kept.mean() - 77) < 6 * kept.std() / np.sqrt(len(kept))

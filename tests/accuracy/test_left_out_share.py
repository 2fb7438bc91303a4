"""What is said of what bounding left out is right as often as it says, whatever the shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.laws import SeededSource
from numpy.typing import NDArray
from scipy import stats

from dpsql.accuracy.left_out import (
    LeftOutPart,
    ShareEstimate,
    confidence_of_each,
    corrected_ends,
    estimated_share,
    left_out_words,
)
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, gaussian, laplace
from dpsql.privacy.mechanisms.left_out import Ladder, LeftOutNoise, LeftOutRelease, left_out_noise

MOST = 10
RUNS = 300


def shape(name: str) -> NDArray[np.int64]:
    """What each of some thousand units has, of which MOST is kept."""
    rng = np.random.default_rng(2)
    match name:
        case "few rows":
            return rng.integers(1, 6, 20_000)
        case "many rows":
            return np.maximum(1, rng.lognormal(1.5, 1.2, 20_000)).astype(np.int64)
        case "some heavy":
            heavy = rng.integers(50, 150, 1_000)
            return np.concatenate([rng.integers(1, 4, 20_000), heavy])
    return np.concatenate([np.full(20_000, 3), np.full(40, 3_000)])  # beyond the ladder


SHAPES = ("few rows", "many rows", "some heavy", "a few beyond all")


def climbed(noise: LeftOutNoise, left: NDArray[np.int64]) -> list[int]:
    grains = np.minimum(left, noise.ladder.top) // noise.ladder.grain
    return [int(np.clip(grains - low, 0, span).sum()) for low, span in noise.ladder.spans]


def releases(noise: LeftOutNoise, has: NDArray[np.int64], seed: int = 1) -> list[LeftOutRelease]:
    source, kept = SeededSource(seed), np.minimum(has, MOST)
    steps = climbed(noise, has - kept)
    return [noise.release(int(kept.sum()), steps, source) for _ in range(RUNS)]


def wrong(noise: LeftOutNoise, found: Sequence[LeftOutRelease], truth: tuple[float, float]) -> int:
    """How many lower ends lie above the truth, or upper ones below that up to the ladder's top."""
    shares = [estimated_share(noise, one) for one in found]
    return sum(one.low > truth[0] or one.high < truth[1] for one in shares)


def truth(noise: LeftOutNoise, has: NDArray[np.int64]) -> tuple[float, float]:
    """The true share, and the same of at most the ladder's top of each unit."""
    kept = np.minimum(has, MOST)
    left = has - kept
    seen = np.minimum(left, noise.ladder.top).sum()
    return float(left.sum() / has.sum()), float(seen / (seen + kept.sum()))


@pytest.mark.slow
@pytest.mark.few(8)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pure", [False, True])
def test_shares_lie_in_their_intervals_as_often_as_stated(name: str, pure: bool) -> None:
    noise = left_out_noise(MOST, PrivacyLoss(epsilon=0.1) if pure else PrivacyLoss(5e-4))
    has = shape(name)
    misses = wrong(noise, releases(noise, has), truth(noise, has))
    assert stats.binom.sf(misses - 1, RUNS, 0.05) > 1e-4


def test_a_noise_larger_than_it_states_is_noticed() -> None:
    has = shape("some heavy")
    drawn, stated = (left_out_noise(MOST, PrivacyLoss(rho)) for rho in (5e-5, 5e-4))
    misses = wrong(stated, releases(drawn, has), truth(stated, has))
    assert stats.binom.sf(misses - 1, RUNS, 0.05) < 1e-4


def test_with_much_budget_the_share_itself_is_told() -> None:
    has = shape("some heavy")
    noise = left_out_noise(MOST, PrivacyLoss(100.0))
    share, _ = truth(noise, has)
    for one in releases(noise, has)[:20]:
        found = estimated_share(noise, one)
        assert not found.vague
        assert found.share == pytest.approx(share, abs=0.001)
        assert found.low <= share <= found.high <= share + 0.01


CAPS = (2, 3, 7, 9, 33)
"""Caps that one look tells of; 7 lies between two rungs."""


def missed_by_caps(noise: LeftOutNoise, found: Sequence[LeftOutRelease], has: Any) -> list[int]:
    """For each cap, how often the interval of one look does not hold what it leaves out."""
    seen = np.minimum(has, 1 + noise.ladder.top)
    misses = []
    for cap in CAPS:
        shares = [estimated_share(noise, one, beyond=cap - 1) for one in found]
        left, held = np.maximum(has - cap, 0).sum(), np.minimum(has, cap).sum()
        least = np.maximum(seen - cap, 0).sum()
        low, high = left / (left + held), least / (least + held)
        misses.append(sum(one.low > low + 1e-12 or one.high < high - 1e-12 for one in shares))
    return misses


def releases_of_caps(noise: LeftOutNoise, has: NDArray[np.int64]) -> list[LeftOutRelease]:
    source, steps = SeededSource(5), climbed(noise, has - 1)
    return [noise.release(len(has), steps, source) for _ in range(RUNS)]


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pure", [False, True])
def test_intervals_of_every_cap_hold_as_often_as_stated(name: str, pure: bool) -> None:
    ladder = Ladder.of_caps(33)
    noise = left_out_noise(1, PrivacyLoss(epsilon=0.1) if pure else PrivacyLoss(5e-4), ladder)
    has = shape(name)
    for misses in missed_by_caps(noise, releases_of_caps(noise, has), has):
        assert stats.binom.sf(misses - 1, RUNS, 0.05) > 1e-4


def test_caps_told_with_a_noise_larger_than_stated_are_noticed() -> None:
    ladder, has = Ladder.of_caps(33), shape("some heavy")
    drawn, stated = (left_out_noise(1, PrivacyLoss(rho), ladder) for rho in (1e-5, 5e-4))
    misses = missed_by_caps(stated, releases_of_caps(drawn, has), has)
    assert stats.binom.sf(max(misses) - 1, RUNS, 0.05) < 1e-4


def test_with_much_budget_shares_of_all_caps_are_told() -> None:
    ladder, has = Ladder.of_caps(33), shape("many rows")
    noise = left_out_noise(1, PrivacyLoss(100.0), ladder)
    seen = np.minimum(has, 1 + ladder.top)
    for one in releases_of_caps(noise, has)[:20]:
        for cap in (1, 2, 3, 5, 9, 17, 33):
            found = estimated_share(noise, one, beyond=cap - 1)
            share = np.maximum(seen - cap, 0).sum() / seen.sum()
            assert found.share == pytest.approx(share, abs=0.002)
            assert found.there == pytest.approx(seen.sum(), rel=0.002)
        between = estimated_share(noise, one, beyond=6)
        share = np.maximum(seen - 7, 0).sum() / seen.sum()
        assert between.low - 0.002 <= share <= between.share + 0.002


def test_a_ladder_does_not_tell_of_caps_beyond_it() -> None:
    noise = left_out_noise(1, PrivacyLoss(0.1), Ladder.of_caps(33))
    (one, *_) = releases_of_caps(noise, np.full(10, 3))
    with pytest.raises(ValueError, match="reaches"):
        estimated_share(noise, one, beyond=noise.ladder.top)


def test_with_hardly_any_budget_nothing_is_claimed() -> None:
    has = shape("few rows")[:50]
    noise = left_out_noise(MOST, PrivacyLoss(1e-9))
    found = [estimated_share(noise, one) for one in releases(noise, has)[:50]]
    assert sum(one.low == 0.0 and one.high == 1.0 for one in found) >= 40


def missed_totals(
    noise: LeftOutNoise, value: IndependentNoise, has: NDArray[np.int64], *, careless: bool = False
) -> int:
    """How often the interval of a corrected total does not hold the true one.

    ``careless`` leaves out that the share is an estimate.
    """
    each, misses = confidence_of_each(0.95), 0
    seen = np.minimum(has, MOST + noise.ladder.top)
    kept, source = np.array([np.minimum(has, MOST).sum()]), SeededSource(3)
    for one in releases(noise, has, seed=11):
        (released,) = value.add(kept, source).tolist()
        margin = value.margin(each, 1)
        found = estimated_share(noise, one, each)
        if careless:
            found = replace(found, low=found.share, high=found.share)
        low, high = corrected_ends(released - margin, released + margin, found)
        misses += bool(low > has.sum() or (high is not None and high < seen.sum()))
    return misses


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pure", [False, True])
def test_corrected_totals_lie_in_their_intervals_as_often_as_stated(name: str, pure: bool) -> None:
    noise = (
        left_out_noise(MOST, PrivacyLoss(epsilon=0.3))
        if pure
        else left_out_noise(MOST, PrivacyLoss(5e-3))
    )
    value = (
        laplace(PrivacyLoss(epsilon=0.01), MOST, 1)
        if pure
        else gaussian(PrivacyLoss(1e-5), MOST, 1)
    )
    misses = missed_totals(noise, value, shape(name))
    assert stats.binom.sf(misses - 1, RUNS, 0.05) > 1e-4


def test_totals_corrected_as_if_the_share_were_exact_are_noticed() -> None:
    noise, value = left_out_noise(MOST, PrivacyLoss(5e-4)), gaussian(PrivacyLoss(1e-2), MOST, 1)
    misses = missed_totals(noise, value, shape("some heavy"), careless=True)
    assert stats.binom.sf(misses - 1, RUNS, 0.05) < 1e-4


def test_only_a_lower_end_is_told_of_totals_whose_share_is_vague() -> None:
    low, high = corrected_ends(90.0, 110.0, ShareEstimate(0.3, 0.1, 0.9))
    assert low == pytest.approx(100.0)
    assert high is None
    assert corrected_ends(-5.0, 8.0, ShareEstimate(0.0, 0.0, 0.0)) == (0.0, 8.0)
    assert corrected_ends(90.0, 110.0, ShareEstimate(1.0, 1.0, 1.0))[1] is None


PART = LeftOutPart(("n",), "rows", 0.41, 0.384, 0.437, False, ("max_rows_contributed",))


def test_words_round_away_from_what_is_claimed() -> None:
    assert left_out_words(PART) == (
        "About 41% (38% to 44%) of the rows were left out by max_rows_contributed, groups that do "
        "not appear included."
    )
    vague = replace(PART, at_least=True, high=0.9)
    assert left_out_words(vague).startswith("At least 38% of the rows were left out by")
    none = replace(PART, low=0.0, share=0.0, high=0.0)
    assert not none.nothing
    assert left_out_words(none).startswith("By estimate, none of the rows were left out by")
    nothing_known = replace(PART, low=0.0, high=1.0, at_least=True)
    assert "cannot be told from so little budget" in left_out_words(nothing_known)
    hidden = replace(PART, low=0.001, share=0.62, high=1.0, at_least=True)
    assert left_out_words(hidden) == (
        "Some of the rows were left out by max_rows_contributed: noise hides how much, groups that "
        "do not appear included."
    )
    assert left_out_words(replace(hidden, share=0.01)).startswith("By estimate 1% of the rows")
    sums = replace(PART, of="sum(x\x1b[31m)", limits=("a", "b"))
    assert "\x1b" not in left_out_words(sums)
    assert "was left out by a and b" in left_out_words(sums)
    clamped = replace(PART, of="sum(x)", clamped=True)
    assert left_out_words(clamped).startswith(
        "Of an average unit's values in sum(x), about 41% (38%"
    )
    assert "cannot be told" in left_out_words(replace(clamped, low=0.0, at_least=True))
    untold = LeftOutPart(("a",), "avg(x)", None, None, None, False, ())
    assert left_out_words(untold) == "How much bounding left out of avg(x) is not told."
    whole = LeftOutPart(("u",), "count(DISTINCT uid)", 0.0, 0.0, 0.0, False, ())
    assert left_out_words(whole) == (
        "Bounding leaves nothing out of count(DISTINCT uid): no unit has more than is counted."
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("at_least", [False, True])
@pytest.mark.parametrize("share", [0.03, 0.92])
def test_an_estimate_that_may_be_noise_is_not_told_as_a_finding(
    share: float, at_least: bool
) -> None:
    found = replace(PART, share=share, low=0.0, high=0.95, at_least=at_least)
    words = left_out_words(found)
    assert "nothing was found beyond noise" in words
    assert f"{share:.0%}" not in words
    assert ("at most 95%" in words) is not at_least
    assert "beyond noise" not in left_out_words(replace(found, low=0.02))
    clamped = left_out_words(replace(found, of="sum(x)", clamped=True, at_least=False))
    assert "none were found outside their bounds beyond noise: at most 95%" in clamped

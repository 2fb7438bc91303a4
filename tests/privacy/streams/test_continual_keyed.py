"""Noise from a key: the stated law, the same bits for ever, and rounded as integers would be."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray
from scipy import stats

from dpsql.errors import ParameterError
from dpsql.privacy.sampling.lattice import LatticeSampler
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.privacy.streams import keyed
from dpsql.privacy.streams.buffered_noise import BufferedNoise, _powers
from dpsql.privacy.streams.buffers import optimal_buffers
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import (
    Factorisation,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.keyed import (
    KeyedDraws,
    KeyedNoise,
    LatticeGaussian,
    StepKey,
    rounded_products,
)

KEYS = step_keys(365)
GROUPS = [encode_group((str(i), f"group {i}")) for i in range(300)]
IMPOSSIBLE = 1e-9  # a correct sampler fails less often


def drawn(sigma: float, keys: Sequence[StepKey] = KEYS) -> KeyedDraws:
    return KeyedDraws(keys, "units", sigma, SquareRoot(len(keys)))


def law_p(draws: NDArray[np.int64], sigma: float) -> float:
    """The p-value of draws against the exact law, in cells of about equal probability."""
    inner = np.unique(np.rint(stats.norm.ppf(np.arange(1, 100) / 100) * sigma).astype(np.int64))
    noise = DiscreteGaussian(sigma) if sigma <= 2.0**20 else None
    if noise is None:  # the steps of the lattice do not show
        below = stats.norm.cdf((inner + 0.5) / sigma)
    else:
        below = np.array([1 - noise.sf(int(x)) for x in inner])
    expected = np.diff(below, prepend=0.0, append=1.0) * len(draws)
    observed = np.bincount(np.searchsorted(inner, draws), minlength=len(expected))
    return float(stats.chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue)


@pytest.mark.parametrize("sigma", [1024.0, 3000.5, 2.0**28, 2.0**45])
def test_draws_follow_the_law(sigma: float) -> None:
    """With one word for a draw, and with two, at the largest scales."""
    draws = drawn(sigma).draw(GROUPS, np.arange(300))
    assert law_p(draws.ravel(), sigma) > IMPOSSIBLE
    # The low bits too: they come from the offsets.
    low = np.bincount(draws.ravel() & 15, minlength=16)
    assert stats.chisquare(low).pvalue > IMPOSSIBLE


def test_rare_paths_keep_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = LatticeSampler(LatticeGaussian(1024.0), slack=2.0**-5)
    monkeypatch.setattr(keyed, "_sampler", lambda sigma: sampler)
    draws = drawn(1024.0).draw(GROUPS, np.arange(40))
    assert law_p(draws.ravel(), 1024.0) > IMPOSSIBLE


def test_a_slightly_smaller_scale_would_be_noticed() -> None:
    """The negative control: draws of a scale 5% smaller."""
    draws = drawn(1024.0 * 0.95).draw(GROUPS, np.arange(300))
    assert law_p(draws.ravel(), 1024.0) < IMPOSSIBLE


@pytest.mark.parametrize("sigma", [1024.0, 2.0**45])
def test_draws_do_not_depend_on_what_is_drawn_beside(sigma: float) -> None:
    draws = drawn(sigma)
    whole = draws.draw(GROUPS, np.arange(100))
    assert (draws.draw(GROUPS[::-3], np.arange(100)) == whole[::-3]).all()
    some = np.array([93, 5, 8, 8, 41])
    assert (draws.draw(GROUPS[:20], some) == whole[:20, some]).all()
    again = drawn(sigma, pickle.loads(pickle.dumps(KEYS)))
    assert (again.draw(GROUPS[7:8], np.arange(99, 100)) == whole[7:8, 99:]).all()


@pytest.mark.slow
def test_draws_of_other_keys_measures_groups_and_numbers_are_unrelated() -> None:
    numbers = np.arange(2000)
    found = [
        KeyedDraws(keys, measure, 1024.0, SquareRoot(4000)).draw([group], numbers + shift)[0]
        for keys in (step_keys(4000), step_keys(4000, "another"))
        for measure in ("units", "rows")
        for group in GROUPS[:3]
        for shift in (0, 2000)
    ]
    correlations = np.corrcoef(found)
    off = np.abs(correlations - np.eye(len(found)))
    assert off.max() < 6.5 / np.sqrt(2000)
    assert len({tuple(draws) for draws in found}) == len(found)


def test_the_draws_of_a_step_come_from_its_key_alone_and_later_ones_do_not_exist() -> None:
    for shape in (SquareRoot(60), SlidingWindow(60, 7), best_tree(60), TreeFromBelow(60)):
        numbers = np.unique(np.concatenate([shape.row(step).draws for step in range(1, 61)]))
        steps = shape.first_steps(numbers)
        whole = KeyedDraws(KEYS[:60], "units", 1024.0, shape).draw(GROUPS[:5], numbers)
        for step in (1, 7, 30, 60):
            # Every row uses draws of the steps up to its own, and one of its own among them.
            assert shape.first_steps(shape.row(step).draws).max() == step
            begun = KeyedDraws(KEYS[:step], "units", 1024.0, shape)
            assert (begun.draw(GROUPS[:5], numbers[steps <= step]) == whole[:, steps <= step]).all()
            for number in numbers[steps > step][:3]:
                with pytest.raises(IndexError):
                    begun.draw(GROUPS[:5], np.array([number]))
            forked = [*KEYS[:step], *step_keys(60 - step, "fork")]
            other = KeyedDraws(forked, "units", 1024.0, shape).draw(GROUPS[:5], numbers)
            same = (other == whole).all(axis=0)
            assert same[steps <= step].all()
            assert not same[steps > step].any()


def test_a_key_does_not_show_itself() -> None:
    noise, key = KeyedNoise(KEYS, "units", 20.0, SquareRoot(5)), KEYS[0]
    for shown in (repr(key), repr(noise), str(noise.draws)):
        assert "secret" not in shown
        assert repr(key.secret)[2:-1] not in shown
        assert key.secret.hex() not in shown


def test_words_for_selections_are_the_same_however_they_are_taken() -> None:
    whole = KEYS[2].source("top k", 3).words(50)
    again = KEYS[2].source("top k", 3)
    parts = [again.words(n) for n in (1, 0, 7, 13, 29)]
    assert (np.concatenate(parts) == whole).all()
    for other in (KEYS[2].source("top k", 4), KEYS[2].source("top", 3), KEYS[1].source("top k", 3)):
        assert not np.isin(other.words(50), whole).any()
    assert len(set(whole.tolist())) == 50


@pytest.mark.parametrize(
    "factorisation", [SquareRoot(60), best_tree(60), TreeFromBelow(60)], ids=lambda f: f.name
)
def test_noise_is_rounded_as_integers_would(factorisation: Factorisation) -> None:
    noise = KeyedNoise(KEYS, "units", 20.0, factorisation)
    for step in (1, 2, 31, 60):
        z = noise.draws.draw(GROUPS[:40], factorisation.row(step).draws)
        exact = [factorisation.rounded_noise(step, draws) for draws in z.tolist()]
        assert noise.noise(step, GROUPS[:40]).tolist() == exact


def test_noise_next_to_a_half_is_decided_by_integers() -> None:
    """The last draw of a root weighs one: it moves the sum to just above or below a half."""
    factorisation = SquareRoot(60, 40)
    z = drawn(2.0**52).draw(GROUPS[:50], np.arange(60))
    for place in range(len(z)):
        unit = 1 << 60  # exact to 60 places: the sum of draws enlarged by so much
        large = [int(draw) * unit for draw in z[place]]
        total = Fraction(factorisation.rounded_noise(60, large), unit)
        short = round((Fraction(1, 2) - total % 1) * 2**40)
        z[place, -1] += short + place % 3 - 1
    exact = [factorisation.rounded_noise(60, draws) for draws in z.tolist()]
    assert rounded_products(factorisation, 60, z).tolist() == exact
    floats = np.floor(z @ factorisation.row(60).weights * 2.0**-40 + 0.5)
    assert floats.tolist() != exact  # the negative control: float64 alone errs here


def test_noise_is_the_same_after_a_restart_and_in_any_batch() -> None:
    factorisation = SquareRoot(100)
    first = KeyedNoise(KEYS, "units", 20.0, factorisation)
    history = {step: first.noise(step, GROUPS) for step in (1, 50, 100)}
    keyed._sampler.cache_clear()
    second = KeyedNoise(step_keys(100), "units", 20.0, SquareRoot(100))
    for step in (100, 1, 50):
        assert (second.noise(step, GROUPS[40:20:-1]) == history[step][40:20:-1]).all()
    assert second.noise(3, []).shape == (0,)


def test_the_bits_of_a_stream_never_change() -> None:
    """Streams outlive releases of dpsql: what these keys draw is written down here."""
    noise = KeyedNoise(KEYS, "units", 20.0, SquareRoot(100))
    begins = b"\0\0\0\2i" + (1).to_bytes(8, "big")
    groups = [begins + bytes([i]) + encode_group((f"group {i}",))[4:] for i in range(8)]
    assert noise.noise(100, groups).tolist() == PINNED


PINNED = [-13, -28, 29, -18, -41, 6, 6, -36]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        *((optimal_buffers, (60, buffers, bits)) for buffers in (2, 4) for bits in (24, 40)),
        *((SquareRoot, (60, bits)) for bits in (24, 40)),
    ],
)
def test_noise_from_step_to_step_is_the_same_to_the_bit(
    made: Callable[..., Factorisation], sizes: tuple[int, ...]
) -> None:
    noise = KeyedNoise(KEYS, "units", 700.0, made(*sizes))
    steps = BufferedNoise(noise)
    state = steps.at(0, GROUPS)
    for step in range(1, 61):
        state, found = steps.next(state, GROUPS)
        assert (found == noise.noise(step, GROUPS)).all()
        if step == 31:  # groups that are seen later, and a restart
            state = steps.at(31, GROUPS[:7]).joined(steps.at(31, GROUPS[7:]))
        if step == 40:  # some steps that were not asked for
            skipped, state = state, steps.advanced(steps.at(12, GROUPS), 40, GROUPS)
            assert np.allclose(state.sums, skipped.sums, atol=1e-3)
    with pytest.raises(ParameterError):
        steps.next(state, GROUPS)


@pytest.mark.slow
def test_the_state_settles_most_roundings_and_knows_which_not() -> None:
    factorisation = optimal_buffers(60, 3, 24)
    steps = BufferedNoise(KeyedNoise(KEYS, "units", 7e5, factorisation))
    groups = [encode_group((str(i),)) for i in range(3000)]
    state = steps.at(59, groups)
    found = steps.next(state, groups)[1]
    exact = steps.noise.noise(60, groups)
    assert (found == exact).all()
    # The negative control: without the bound, the powers round some of them wrongly.
    powers = _powers(factorisation)
    z = steps.noise.draws.draw(groups, np.array([59]))[:, 0]
    sums = (state.sums * powers.roots + z[:, None]) @ powers.weights
    assert (np.floor(sums * 2.0**-24 + 0.5) != exact).any()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 1000, 10_000])
def test_powers_stand_for_square_roots_of_any_length(steps: int) -> None:
    noise = KeyedNoise(step_keys(steps), "units", 20.0, SquareRoot(steps))
    kept = BufferedNoise.worthwhile(noise)
    assert kept is not None
    state, found = kept.next(kept.at(steps - 1, GROUPS), GROUPS)
    assert (found == noise.noise(steps, GROUPS)).all()
    assert state.sums.shape == (len(GROUPS), kept.powers)
    assert kept.powers <= 24


def test_only_noise_of_powers_goes_step_by_step() -> None:
    window = KeyedNoise(KEYS, "units", 20.0, SlidingWindow(5, 3))
    assert BufferedNoise.worthwhile(window) is None
    with pytest.raises(ParameterError):
        BufferedNoise(window)
    # A C that is rounded coarsely, for large sums: nothing could be settled without all draws.
    coarse = KeyedNoise(KEYS, "units", 2.0**34, SquareRoot(365, 12))
    assert BufferedNoise.worthwhile(coarse) is None


def test_states_of_other_noise_have_another_digest() -> None:
    noises = [
        KeyedNoise(KEYS, measure, sigma, shape)
        for measure in ("units", "rows")
        for sigma in (20.0, 21.0)
        for shape in (
            SquareRoot(60),
            SquareRoot(61),
            optimal_buffers(60, 2),
            optimal_buffers(60, 3),
        )
    ]
    assert len({BufferedNoise(noise).digest for noise in noises}) == len(noises)


@pytest.mark.slow
@pytest.mark.parametrize(
    "factorisation", [SquareRoot(365), best_tree(365), TreeFromBelow(365)], ids=lambda f: f.name
)
def test_the_noise_of_a_year_has_the_stated_size(factorisation: Factorisation) -> None:
    groups = [encode_group((str(i),)) for i in range(4000)]
    noise = KeyedNoise(KEYS, "units", 15.0, factorisation)
    for step in (1, 7, 100, 344, 365):
        found = noise.noise(step, groups)
        std = 15.0 * factorisation.row_norms()[step - 1]
        assert found.std() == pytest.approx(np.hypot(std, 12**-0.5), rel=6.5 / np.sqrt(8000))
        assert abs(found.mean()) < 6.5 * std / np.sqrt(4000)


@pytest.mark.parametrize("sigma", [1e-5, 2.0**30, np.inf, np.nan])
def test_scales_without_an_exact_sampler_are_refused(sigma: float) -> None:
    with pytest.raises(ParameterError):
        KeyedNoise(KEYS, "units", sigma, SquareRoot(5)).noise(1, GROUPS[:1])


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), bytearray(32), "a" * 32])
def test_keys_of_other_lengths_are_refused(secret: object) -> None:
    with pytest.raises(ParameterError):
        StepKey(secret)  # type: ignore[arg-type]

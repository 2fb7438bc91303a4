"""The noise of a view's groups over steps, and the part kept between refreshes.

It is that of the keys of the view's steps, to the bit, whatever was kept: where nothing was, or
another's, it is drawn anew from the keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.streams.buffered_noise import BufferedNoise, BufferedState
from dpsql.privacy.streams.encoding import encode_texts
from dpsql.privacy.streams.keyed import KeyedNoise, StepKey, rounded_products
from dpsql.privacy.streams.streams import UNIT_COUNTS
from dpsql.views.plan import ViewPlan
from dpsql.views.state import KeptNoise

_MOST_DRAWS: Final = 1 << 24  # that are kept of a measure while steps follow each other


class ViewNoise:
    """The noise of each measure of a view, for groups whose number only grows.

    Groups are named by their keys as texts, by column, always in one order: those that are new come
    last. ``keys`` are those of the steps that have begun, and it grows as more of them do. Not safe
    for threads.
    """

    def __init__(
        self, plan: ViewPlan, keys: Sequence[StepKey], kept: KeptNoise | None = None
    ) -> None:
        self._noises = [
            KeyedNoise(keys, name, noise.sigma, noise.factorisation)
            for name, noise in zip(_names(plan), plan.noises, strict=True)
        ]
        self._stepwise = [BufferedNoise.worthwhile(noise) for noise in self._noises]
        self._encoded: list[bytes] = []
        self._drawn: dict[int, dict[int, NDArray[np.int64]]] = {}
        self._states = dict(self._read(kept)) if kept is not None else {}

    def at(
        self, step: int, keys: Sequence[Sequence[str | None]], count: int
    ) -> list[NDArray[np.int64]]:
        """Return the noise of a step, for each measure an array of shape (groups,).

        ``keys`` are those of ``count`` groups.
        """
        known = len(self._encoded)
        self._encoded += encode_texts([column[known:] for column in keys], count - known)
        return [self._of(index, step) for index in range(len(self._noises))]

    def kept(self) -> KeptNoise | None:
        """Return the noise to keep for later steps, None without use for it."""
        if not self._states:
            return None
        (step,) = {state.step for state in self._states.values()}
        columns = {
            name: array
            for index, state in sorted(self._states.items())
            for name, array in _columns(index, state)
        }
        return KeptNoise(step, self._digest(), columns)

    def _of(self, index: int, step: int) -> NDArray[np.int64]:
        noise = self._stepwise[index]
        if noise is None:
            return self._of_draws(index, step)
        state = self._before(index, noise, step)
        self._states[index], found = noise.next(state, self._encoded)
        return found

    def _of_draws(self, index: int, step: int) -> NDArray[np.int64]:
        """Return the noise of a step from all of its draws; the next step reuses most of them."""
        noise, count = self._noises[index], len(self._encoded)
        numbers = noise.factorisation.row(step).draws.tolist()
        if count * len(numbers) > _MOST_DRAWS:
            return noise.noise(step, self._encoded)
        before = self._drawn.get(index, {})
        known = min((len(drawn) for drawn in before.values()), default=0)
        again = [number for number in numbers if number in before]
        fresh = [number for number in numbers if number not in before]
        newer = noise.draws.draw(self._encoded[known:], np.array(again, dtype=np.int64))
        whole = noise.draws.draw(self._encoded, np.array(fresh, dtype=np.int64))
        found = {n: np.append(before[n], newer[:, i]) for i, n in enumerate(again)}
        found |= {n: whole[:, i] for i, n in enumerate(fresh)}
        self._drawn[index] = found
        return rounded_products(
            noise.factorisation, step, np.column_stack([found[n] for n in numbers])
        )

    def _before(self, index: int, noise: BufferedNoise, step: int) -> BufferedState:
        """Return the state of all groups before a step."""
        state = self._states.get(index)
        if state is None or state.step >= step or len(state.sizes) > len(self._encoded):
            return noise.at(step - 1, self._encoded)
        known = len(state.sizes)
        state = noise.advanced(state, step - 1, self._encoded[:known])
        if known == len(self._encoded):
            return state
        return state.joined(noise.at(step - 1, self._encoded[known:]))

    def _read(self, kept: KeptNoise) -> Iterator[tuple[int, BufferedState]]:
        if kept.digest != self._digest():
            return
        for index, noise in enumerate(self._stepwise):
            if noise is not None:
                sums = [kept.columns[_sum_name(index, m)] for m in range(noise.powers)]
                size = kept.columns[_size_name(index)]
                yield index, BufferedState(kept.step, np.column_stack(sums), size)

    def _digest(self) -> bytes:
        """Digest which noise the sums are of."""
        parts = [b"" if noise is None else noise.digest for noise in self._stepwise]
        return hashlib.blake2b(b"|".join(parts), digest_size=16).digest()


def _names(plan: ViewPlan) -> list[str]:
    """Name the draws of each measure; draws of the deciding measure are named units."""
    columns = map(plan.block.measure_column, range(len(plan.noises)))
    return [UNIT_COUNTS if i == plan.score else name for i, name in enumerate(columns)]


def _columns(index: int, state: BufferedState) -> Iterator[tuple[str, NDArray[np.float64]]]:
    yield _size_name(index), state.sizes
    for m in range(state.sums.shape[1]):
        yield _sum_name(index, m), state.sums[:, m]


def _sum_name(index: int, power: int) -> str:
    return f"sum_{index}_{power}"


def _size_name(index: int) -> str:
    return f"size_{index}"

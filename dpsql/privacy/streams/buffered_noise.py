"""Keyed noise of many groups step by step: a few numbers per group instead of all its draws.

The entries of a Toeplitz factorisation's B are, very nearly, a sum of a few powers, b_k = sum of
weight_m * root_m**k: of a buffered one as many as it has buffers and one, of the square root, whose
entries are a mixture of all powers, some twenty. So (B z)_t is nearly a weighted sum of
S_m = sum of root_m**(t - j) z_j, and each S_m follows from the one before and one draw. "Nearly" is
bounded, and where the bound does not settle how the noise is rounded, it is computed from all
draws, in integers. So the noise is that of :class:`KeyedNoise`, to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.streams.factorisation import BufferedToeplitz, SquareRoot
from dpsql.privacy.streams.keyed import KeyedNoise, rounded_products

_ROUNDING: Final = 2.0**-51  # of a step of the recurrence, doubled, relative to its terms' sizes
_CHUNK: Final = 1 << 18  # draws at a time
_MOST_POWERS: Final = 32
_FASTEST: Final = 12.0  # decay of a root, as -log: what is faster is the root 0
_MOST_DOUBTFUL: Final = 0.25  # of all roundings, beyond which powers are not worth their keep

_Shape = SquareRoot | BufferedToeplitz


@dataclass(frozen=True, slots=True)
class BufferedState:
    """The buffered sums of a measure's groups after ``step`` steps.

    ``sums`` has shape (groups, powers), ``sizes`` (groups,): the S_m, and the sum of the sizes of
    the draws, both in units of the lattice. Whoever has it knows the noise: it is as secret as the
    keys, from which it can be computed again.
    """

    step: int
    sums: NDArray[np.float64]
    sizes: NDArray[np.float64]

    def joined(self, other: BufferedState) -> BufferedState:
        """Join these groups and then the others, at the same step."""
        assert self.step == other.step
        sums = np.concatenate((self.sums, other.sums))
        return BufferedState(self.step, sums, np.concatenate((self.sizes, other.sizes)))


@dataclass(frozen=True, slots=True)
class BufferedNoise:
    """The noise of a stream's groups from one step to the next: one draw for each.

    Guarantee: the same integers as ``noise.noise``. Few steps are settled by integers if the
    lattice is fine for the noise's size. Raises ParameterError for a factorisation without powers.
    Checked by ``tests/privacy/streams/test_continual_keyed.py``.
    """

    noise: KeyedNoise

    def __post_init__(self) -> None:
        if not isinstance(self.noise.factorisation, _Shape):
            raise ParameterError("only the noise of powers goes step by step", code="bad_parameter")

    @classmethod
    def worthwhile(cls, noise: KeyedNoise) -> BufferedNoise | None:
        """Make the noise step by step; None where most of it would come from all draws anyway."""
        shape = noise.factorisation
        if not isinstance(shape, _Shape):
            return None
        sizes = shape.steps * noise.sigma  # of the draws, added up, in units of the measure
        return cls(noise) if 2 * _powers(shape).error * sizes <= _MOST_DOUBTFUL else None

    @property
    def powers(self) -> int:
        """How many sums are kept for a group."""
        return len(_powers(self._shape).roots)

    @property
    def digest(self) -> bytes:
        """The identity of these sums: states of other roots or scales must not be used."""
        shape, roots = self._shape, _powers(self._shape).roots
        scale = (self.noise.measure, self.noise.sigma, shape.steps, shape.bits)
        return hashlib.blake2b(repr(scale).encode() + roots.tobytes(), digest_size=16).digest()

    def at(self, step: int, groups: Sequence[bytes]) -> BufferedState:
        """Compute the state of groups after ``step`` steps from the keys: of new ones, or all."""
        start = np.zeros((len(groups), self.powers))
        return self.advanced(BufferedState(0, start, np.zeros(len(groups))), step, groups)

    def advanced(self, state: BufferedState, step: int, groups: Sequence[bytes]) -> BufferedState:
        """Advance the state of some groups to that after ``step`` steps, by all draws between."""
        count = step - state.step
        if count == 0:
            return state
        roots = _powers(self._shape).roots
        powers, size = roots[None, :] ** np.arange(count - 1, -1, -1)[:, None], _CHUNK // count
        sums, sizes = state.sums * roots**count, state.sizes.copy()
        numbers, draws = np.arange(state.step, step), self.noise.draws
        for begin in range(0, len(groups), max(1, size)):
            part = slice(begin, begin + max(1, size))
            drawn = draws.draw(groups[part], numbers).astype(np.float64)
            sums[part] += drawn @ powers
            sizes[part] += np.abs(drawn).sum(axis=1)
        return BufferedState(step, sums, sizes)

    def next(
        self, state: BufferedState, groups: Sequence[bytes]
    ) -> tuple[BufferedState, NDArray[np.int64]]:
        """Return the state and the noise of the next step, of shape (groups,).

        ``groups`` are the encoded keys, in the order of the state. Raises ParameterError after the
        last step.
        """
        step = state.step + 1
        if step > self._shape.steps:
            raise ParameterError("the stream has no further step", code="bad_parameter")
        z = self._drawn(step, groups).astype(np.float64)
        sums = state.sums * _powers(self._shape).roots
        sums += z[:, None]
        found = BufferedState(step, sums, state.sizes + np.abs(z))
        return found, self._rounded(found, groups)

    def _drawn(self, step: int, groups: Sequence[bytes]) -> NDArray[np.int64]:
        """Draw for a step: of shape (groups,)."""
        draws, number = self.noise.draws, np.array([step - 1])
        drawn = np.empty(len(groups), dtype=np.int64)
        for begin in range(0, len(groups), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            drawn[part] = draws.draw(groups[part], number)[:, 0]
        return drawn

    @property
    def _shape(self) -> _Shape:
        assert isinstance(self.noise.factorisation, _Shape)
        return self.noise.factorisation

    def _rounded(self, state: BufferedState, groups: Sequence[bytes]) -> NDArray[np.int64]:
        """Round the noise of a step, from all draws where the recurrence leaves a doubt.

        A step of a recurrence errs by 2**-52 of the sizes, and no root is above 1.
        """
        powers, unit = _powers(self._shape), 2.0**-self._shape.bits
        halves = state.sums @ powers.weights * unit + 0.5
        relative = powers.error + (state.step + 16) * _ROUNDING * float(
            np.abs(powers.weights).sum()
        )
        bound = relative * (1 + 1e-6) * state.sizes * unit + 2.0**-50 * np.abs(halves)
        found = np.floor(halves).astype(np.int64)
        doubtful = np.flatnonzero(np.abs(halves - np.rint(halves)) <= bound)
        size = max(1, _CHUNK // state.step)
        for begin in range(0, len(doubtful), size):
            part = doubtful[begin : begin + size]
            again = self.noise.draws.draw([groups[int(i)] for i in part], np.arange(state.step))
            found[part] = rounded_products(self._shape, state.step, again)
        return found


@dataclass(frozen=True, slots=True)
class _Powers:
    """B's entries as sums of powers: no entry differs from its sum by more than ``error``."""

    roots: NDArray[np.float64]
    weights: NDArray[np.float64]
    error: float


@lru_cache(maxsize=16)
def _powers(shape: _Shape) -> _Powers:
    """Find roots, and weights by least squares; whatever they are, the error is theirs."""
    if isinstance(shape, BufferedToeplitz):
        return _fitted(shape, _roots_of_buffers(shape))
    # A few more powers leave an error that the rounding of C to its lattice has anyway.
    for number in range(8, _MOST_POWERS, 4):
        found = _fitted(shape, _spread_roots(shape.steps, number))
        if found.error <= 2.0**-shape.bits:
            return found
    return _fitted(shape, _spread_roots(shape.steps, _MOST_POWERS))


def _roots_of_buffers(shape: BufferedToeplitz) -> NDArray[np.float64]:
    """Find the roots whose powers B consists of: 1 and the inverse roots of N.

    C = N(x)/D(x), so that B = D(x)/(N(x)(1 - x)).
    """
    decays, weights = np.array(shape.decays), np.array(shape.weights)
    numerator = np.poly(decays)
    for m, weight in enumerate(weights):
        numerator[1:] += weight * np.poly(np.delete(decays, m))
    return np.append(1.0, np.clip(np.real(np.roots(numerator)), 0.0, 1.0))


def _spread_roots(steps: int, number: int) -> NDArray[np.float64]:
    """Choose roots whose decays are at equal ratios, as a power law's: k**(-1/2) here."""
    decays = np.geomspace(0.3 / max(steps, 2), _FASTEST, number - 1)
    return np.append(np.exp(-decays), 0.0)


def _fitted(shape: _Shape, roots: NDArray[np.float64]) -> _Powers:
    row = shape.row(shape.steps)
    entries = row.weights[::-1]
    table = roots[None, :] ** np.arange(shape.steps)[:, None]
    solved = np.asarray(np.linalg.lstsq(table, entries, rcond=None)[0], dtype=np.float64)
    # Powers of up to 10,000 by the library err by far less than 1e-12 of a weight.
    rounding = 1e-12 * float(np.abs(solved).sum()) + 2.0**-52 + row.slack
    return _Powers(roots, solved, float(np.abs(table @ solved - entries).max()) + rounding)

"""Keyed noise of many groups step by step: a few numbers per group instead of all its draws.

With a buffered factorisation the entries of B are, very nearly, a sum of a few powers, b_k = sum of
weight_m * root_m**k. So (B z)_t is nearly a weighted sum of S_m = sum of root_m**(t - j) z_j, and
each S_m follows from the one before and one draw. "Nearly" is bounded, and where the bound does not
settle how the noise is rounded, it is computed from all draws, in integers. So the noise is that of
:class:`KeyedNoise`, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.mechanisms.continual.factorisation import BufferedToeplitz
from dpsql.mechanisms.continual.keyed import KeyedNoise, rounded_products

_ROUNDING = 2.0**-51  # of a step of the recurrence, doubled, relative to the sizes of its terms
_CHUNK = 1 << 20  # draws at a time


@dataclass(frozen=True, slots=True)
class BufferedState:
    """What is kept of a measure's groups after ``step`` steps.

    ``sums`` has shape (groups, buffers + 1), ``sizes`` (groups,): the S_m, and the sum of the sizes
    of the draws, both in units of the lattice. Whoever has it knows the noise: it is as secret as
    the key, from which it can be computed again.
    """

    step: int
    sums: NDArray[np.float64]
    sizes: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BufferedNoise:
    """The noise of a stream's groups from one step to the next: one draw for each.

    Guarantee: the same integers as ``noise.noise``. Few steps are settled by integers if the
    lattice is fine: 40 binary places where sigma allows. Raises ParameterError for a factorisation
    without buffers. Checked by ``tests/mechanisms/continual/test_continual_keyed.py``.
    """

    noise: KeyedNoise

    def __post_init__(self) -> None:
        if not isinstance(self.noise.factorisation, BufferedToeplitz):
            raise ParameterError("only buffered noise goes step by step", code="bad_parameter")

    def at(self, step: int, groups: Sequence[bytes]) -> BufferedState:
        """Compute the state of groups after ``step`` steps from the key: of new ones, or of all."""
        roots = _powers(self._shape).roots
        sums, sizes = np.zeros((len(groups), len(roots))), np.zeros(len(groups))
        if step == 0:
            return BufferedState(0, sums, sizes)
        ages = np.arange(step - 1, -1, -1)
        powers, size = roots[None, :] ** ages[:, None], max(1, _CHUNK // step)
        for begin in range(0, len(groups), size):
            part = slice(begin, begin + size)
            draws = self.noise.draws.draw(groups[part], np.arange(step)).astype(np.float64)
            sums[part], sizes[part] = draws @ powers, np.abs(draws).sum(axis=1)
        return BufferedState(step, sums, sizes)

    def next(
        self, state: BufferedState, groups: Sequence[bytes]
    ) -> tuple[BufferedState, NDArray[np.int64]]:
        """The state and the noise of the next step, of shape (groups,).

        ``groups`` are the encoded keys, in the order of the state. Raises ParameterError after the
        last step.
        """
        step = state.step + 1
        if step > self._shape.steps:
            raise ParameterError("the stream has no further step", code="bad_parameter")
        powers, number = _powers(self._shape), np.array([step - 1])
        z = np.empty(len(groups))
        for begin in range(0, len(groups), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            z[part] = self.noise.draws.draw(groups[part], number)[:, 0]
        sums = state.sums * powers.roots + z[:, None]
        sizes = state.sizes + np.abs(z)
        noise = self._rounded(BufferedState(step, sums, sizes), groups)
        return BufferedState(step, sums, sizes), noise

    @property
    def _shape(self) -> BufferedToeplitz:
        assert isinstance(self.noise.factorisation, BufferedToeplitz)
        return self.noise.factorisation

    def _rounded(self, state: BufferedState, groups: Sequence[bytes]) -> NDArray[np.int64]:
        """A step of a recurrence errs by 2**-52 of the sizes, and no root is above 1."""
        powers, unit = _powers(self._shape), 2.0**-self._shape.bits
        halves = state.sums @ powers.weights * unit + 0.5
        relative = powers.error + (state.step + 16) * _ROUNDING * float(
            np.abs(powers.weights).sum()
        )
        bound = relative * (1 + 1e-6) * state.sizes * unit + 2.0**-50 * np.abs(halves)
        found = np.floor(halves).astype(np.int64)
        doubtful = np.flatnonzero(np.abs(halves - np.rint(halves)) <= bound)
        if len(doubtful):
            again = self.noise.draws.draw([groups[int(i)] for i in doubtful], np.arange(state.step))
            found[doubtful] = rounded_products(self._shape, state.step, again)
        return found


@dataclass(frozen=True, slots=True)
class _Powers:
    """B's entries as sums of powers: no entry differs from its sum by more than ``error``."""

    roots: NDArray[np.float64]
    weights: NDArray[np.float64]
    error: float


@lru_cache(maxsize=16)
def _powers(shape: BufferedToeplitz) -> _Powers:
    """Roots from the polynomials, weights by least squares; whatever they are, the error is theirs.

    C = N(x)/D(x), so that B = D(x)/(N(x)(1 - x)) has the powers of 1 and of N's inverse roots.
    """
    decays, weights = np.array(shape.decays), np.array(shape.weights)
    numerator = np.poly(decays)
    for m, weight in enumerate(weights):
        numerator[1:] += weight * np.poly(np.delete(decays, m))
    found = np.roots(numerator)
    roots = np.append(1.0, np.clip(np.real(found), 0.0, 1.0))
    row = shape.row(shape.steps)
    entries = row.weights[::-1]
    table = roots[None, :] ** np.arange(shape.steps)[:, None]
    solved = np.asarray(np.linalg.lstsq(table, entries, rcond=None)[0], dtype=np.float64)
    # Powers of up to 10,000 by the library err by far less than 1e-12 of a weight.
    rounding = 1e-12 * float(np.abs(solved).sum()) + 2.0**-52 + row.slack
    return _Powers(roots, solved, float(np.abs(table @ solved - entries).max()) + rounding)

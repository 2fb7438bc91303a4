"""Noise from keys: one draw per group and step, the same at any time and in any company.

Every step of a stream has a key of its own, uniform and secret, which is drawn when the step
begins: before, its noise does not exist. A step's draws are exact discrete Gaussians, sampled from
the words of a keyed hash (BLAKE2b, RFC 7693, taken for a pseudorandom function) instead of the
operating system's. Its argument says to whom a word belongs: purpose, measure, draw, attempt, and
the encoded group. So a process that starts again, or computes other groups beside, finds the same
bits of the steps that have begun, and a group that is seen late has the noise of all of them.

What must hold, each a leak if broken: the key of a step is stored with what the step has added, in
one write, so that no key ever meets other data; a group has one encoding
(``encoding.encode_group``); and whoever knows a key knows the noise of its step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.lattice import LatticeSampler
from dpsql.privacy.streams.factorisation import Factorisation, NoiseRow

KEY_BYTES = 32
"""The length of a step's key."""
MAX_LATTICE_SIGMA = 2.0**52
"""The largest sigma of draws in units of their lattice: draws are 64-bit integers."""

_WORDS = 8  # of 64 bits, in a digest
_DRAW, _DOUBT, _SOURCE = (bytes([purpose]) for purpose in range(3))
_CHUNK = 1 << 18  # draws at a time: the working arrays stay small


@dataclass(frozen=True, slots=True)
class StepKey:
    """The secret of a step of a stream: its owner can subtract all noise of the step.

    A stream has a sequence of them, one for each step that has begun, the first for the first.
    Raises ParameterError unless it has KEY_BYTES bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not (type(self.secret) is bytes and len(self.secret) == KEY_BYTES):
            raise ParameterError(f"a step's key has {KEY_BYTES} bytes", code="bad_parameter")

    def source(self, purpose: str, number: int = 0) -> KeyedWords:
        """Return the words of the step's ``purpose``, always the same: one draw for ever."""
        argument = _SOURCE + _framed(purpose.encode()) + _field(number)
        return KeyedWords(self._hash(), argument)

    def digest(self, argument: bytes, groups: Sequence[bytes]) -> bytes:
        """Hash each group after an argument: 64 bytes for each, one after the other."""
        base = self._hash()
        base.update(argument)
        return b"".join([_digest(base, group) for group in groups])

    def words(self, argument: bytes) -> KeyedWords:
        """Return the words of an argument."""
        return KeyedWords(self._hash(), argument)

    def _hash(self) -> hashlib.blake2b:
        return hashlib.blake2b(key=self.secret, person=b"dpsql step")


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def _field(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _digest(base: hashlib.blake2b, argument: bytes) -> bytes:
    word = base.copy()
    word.update(argument)
    return word.digest()


class KeyedWords:
    """An entropy source that hands out one sequence of words, from the beginning."""

    __slots__ = ("_argument", "_base", "_block", "_left")

    def __init__(self, base: hashlib.blake2b, argument: bytes) -> None:
        self._base = base
        self._argument = argument
        self._block = 0
        self._left = np.empty(0, dtype=np.uint64)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Compute the next ``n`` words, each uniform on [0, 2**64), of shape (n,)."""
        blocks = -(-(n - len(self._left)) // _WORDS)
        if blocks > 0:
            raw = b"".join(
                _digest(self._base, self._argument + _field(self._block + i)) for i in range(blocks)
            )
            self._block += blocks
            self._left = np.concatenate((self._left, np.frombuffer(raw, dtype="<u8")))
        taken, self._left = self._left[:n], self._left[n:]
        return taken


@dataclass(frozen=True, slots=True)
class LatticeGaussian:
    """A discrete Gaussian whose ``sigma`` may be up to MAX_LATTICE_SIGMA, for the exact sampler."""

    reach: ClassVar[float] = 5.5  # P[abs(Z) > 5.5 sigma] is below 1e-7
    sigma: float

    @property
    def spread(self) -> float:
        """sigma."""
        return self.sigma

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute x**2 / (2 sigma**2) for integers of any shape, to 3 units in the last place.

        x is rounded once, as it is large.
        """
        z = x / self.sigma
        return 0.5 * z * z

    def exact_energy(self, x: int) -> Fraction:
        """Compute x**2 / (2 sigma**2), exactly."""
        return Fraction(x) ** 2 / (2 * Fraction(self.sigma) ** 2)


@lru_cache(maxsize=32)
def _sampler(sigma: float) -> LatticeSampler:
    return LatticeSampler(LatticeGaussian(sigma))


@dataclass(frozen=True, slots=True)
class KeyedDraws:
    """The draws of a measure's groups: discrete Gaussians of ``sigma``, by their numbers.

    ``sigma`` is in units of the lattice. A draw comes from the key of the step at which the
    ``factorisation`` uses it first: ``keys`` has those of the steps that have begun, and a draw of
    a later one does not exist (IndexError). Guarantee: with uniform keys and the hash a random
    function, draws of different groups, measures or numbers are independent and have exactly the
    law of the discrete Gaussian. Checked by ``tests/privacy/streams/test_continual_keyed.py``.
    """

    keys: Sequence[StepKey]
    measure: str
    sigma: float
    factorisation: Factorisation

    def draw(self, groups: Sequence[bytes], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw those of ``numbers``, of shape (groups, numbers); ``groups`` are encoded keys."""
        steps = self.factorisation.first_steps(numbers)
        # No index below 0 may stand for a step that has not begun.
        assert steps.min(initial=1) >= 1, "the first step of a stream is 1"
        asked = [
            _Asked(self.keys[step - 1], _framed(self.measure.encode()) + _field(number), groups)
            for step, number in zip(steps.tolist(), numbers.tolist(), strict=True)
        ]
        value = np.empty(len(asked) * len(groups), dtype=np.int64)
        todo, page = np.arange(len(value)), 0
        while len(todo):
            if page == 0:
                digests = b"".join([each.page(0, groups) for each in asked])
            else:
                places = [divmod(i, len(groups)) for i in todo.tolist()]
                digests = b"".join([asked[i].page(page, groups[g : g + 1]) for i, g in places])
            words = np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)
            todo = self._attempts(value, todo, words.reshape(len(todo), -1), page, asked)
            page += 1
        return np.ascontiguousarray(value.reshape(len(asked), len(groups)).T)

    def _attempts(
        self,
        value: NDArray[np.int64],
        todo: NDArray[np.intp],
        words: NDArray[np.uint64],
        page: int,
        asked: Sequence[_Asked],
    ) -> NDArray[np.intp]:
        """Make a digest's attempts at each draw; return the draws without an accepted attempt."""
        width = self._width
        for slot in range(_WORDS // width):
            attempt, left = page * (_WORDS // width) + slot, todo

            def doubt(i: int, left: NDArray[np.intp] = left, attempt: int = attempt) -> KeyedWords:
                number, group = divmod(int(left[i]), len(asked[0].groups))
                return asked[number].doubt(group, attempt)

            drawn, kept = self._decide(words[:, slot * width : (slot + 1) * width], doubt)
            value[todo[kept]] = drawn[kept]
            todo, words = todo[~kept], words[~kept]
            if not len(todo):
                break
        return todo

    @property
    def _width(self) -> int:
        """How many words a proposal takes: 32 bits for the strip, and those of the offset."""
        return 1 if _sampler(self.sigma).offset_bits <= 32 else 2

    def _decide(
        self, words: NDArray[np.uint64], doubts: Callable[[int], EntropySource]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        sampler = _sampler(self.sigma)
        strip = (words[:, 0] >> 32).astype(np.int64)
        bits = sampler.offset_bits
        if self._width == 1:
            offset = ((words[:, 0] & 0xFFFFFFFF) >> (32 - bits)).astype(np.int64)
        else:
            offset = (words[:, 1] >> (64 - bits)).astype(np.int64)
        return sampler.decide(strip, offset, doubts)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The draws of one number for some groups: their key, and the argument of the digest."""

    key: StepKey
    name: bytes
    groups: Sequence[bytes]

    def page(self, page: int, groups: Sequence[bytes]) -> bytes:
        """Return the words of several attempts at the draws of some groups."""
        return self.key.digest(_DRAW + self.name + _field(page), groups)

    def doubt(self, group: int, attempt: int) -> KeyedWords:
        """Return further words for one attempt at one group's draw."""
        return self.key.words(_DOUBT + self.name + _field(attempt) + self.groups[group])


@dataclass(frozen=True, slots=True)
class KeyedNoise:
    """The noise (B z)_t of a measure's groups, rounded to integers: a function of the keys alone.

    ``sigma`` is that of a draw in units of the measure, an exact float64. Guarantee: each value is
    the nearest integer to (B z)_t for the exact B of the factorisation, halves up, whatever
    float64 did: what lies closer to a half than the error bound is computed in integers. Raises
    ParameterError if sigma in units of the lattice is out of range. Checked by
    ``tests/privacy/streams/test_continual_keyed.py``.
    """

    keys: Sequence[StepKey]
    measure: str
    sigma: float
    factorisation: Factorisation

    @property
    def draws(self) -> KeyedDraws:
        """The draws z behind the noise."""
        sigma = self.sigma * 2.0**self.factorisation.bits
        checked_lattice_sigma(sigma)
        return KeyedDraws(self.keys, self.measure, sigma, self.factorisation)

    def noise(self, step: int, groups: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the noise of a step, 1 to T, of shape (groups,); ``groups`` are encoded keys."""
        row = self.factorisation.row(step)
        size = max(1, _CHUNK // len(row.draws))
        out = np.empty(len(groups), dtype=np.int64)
        draws = self.draws
        for begin in range(0, len(groups), size):
            z = draws.draw(groups[begin : begin + size], row.draws)
            out[begin : begin + size] = rounded_products(self.factorisation, step, z)
        return out


def checked_lattice_sigma(sigma: float) -> float:
    """Check a sigma in units of the lattice: ParameterError if no exact sampler has it."""
    if not 2.0**10 <= sigma <= MAX_LATTICE_SIGMA:
        raise ParameterError(
            "the noise's sigma must lie between 2**10 and 2**52 units of its lattice",
            code="noise_scale",
            hint="choose a larger or smaller budget, or bring the bounds into a saner unit",
        )
    return sigma


def rounded_products(
    factorisation: Factorisation, step: int, draws: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Round (B z)_step to the nearest integer, halves up, for draws of shape (groups, n).

    A sum of n products of float64, in any order, errs by less than (n + 2) * 2**-53 of the sum of
    their sizes (to first order; doubled below); each draw is rounded once and each weight lies
    within the row's slack. Where a half is closer than that, integers decide.
    """
    row = factorisation.row(step)
    near, doubtful = _float_products(row, factorisation.bits, draws)
    for i in np.flatnonzero(doubtful):
        near[i] = factorisation.rounded_noise(step, draws[i].tolist())
    return near


def _float_products(
    row: NoiseRow, bits: int, draws: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    products = draws.astype(np.float64) @ row.weights * 2.0**-bits
    n = len(row.weights)
    relative = (n + 8) * 2.0**-52 * float(np.abs(row.weights).sum()) + 2 * n * row.slack
    bound = relative * float(np.abs(draws).max(initial=0)) * 2.0**-bits
    halves = products + 0.5
    doubtful = np.abs(halves - np.rint(halves)) <= bound + 2.0**-50 * np.abs(halves)
    return np.floor(halves).astype(np.int64), doubtful

"""Noise from a key: one draw per group and step, whenever and beside whom it is asked for.

A stream's draws are exact discrete Gaussians, sampled from the words of a keyed hash (BLAKE2b, RFC
7693, taken for a pseudorandom function) instead of the operating system's. Its argument says to
whom a word belongs, in fixed-length fields: purpose, draw, attempt; the group's own key is that of
its measure and its encoded keys. So a process that starts again, or computes other groups beside,
finds the same bits, and nothing is stored.

What must hold, each a leak if broken: a new stream has a new identity, hence a new key; a group has
one encoding (``encoding.encode_group``); a step is answered once, from one state of the data; and
whoever knows the key knows the noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.mechanisms.continual.factorisation import Factorisation, NoiseRow
from dpsql.mechanisms.sampling.entropy import EntropySource
from dpsql.mechanisms.sampling.lattice import LatticeSampler

KEY_BYTES = 32
"""The length of a stream's key, and the least of an owner's secret."""
MAX_LATTICE_SIGMA = 2.0**52
"""The largest sigma of draws in units of their lattice: draws are 64-bit integers."""

_WORDS = 8  # of 64 bits, in a digest
_DRAW, _RETRY, _DOUBT, _SOURCE = (bytes([purpose]) for purpose in range(4))
_DRAWS = b"dpsql draws"  # what the words of a group's own key are for
_CHUNK = 1 << 20  # draws at a time: the working arrays stay small


@dataclass(frozen=True, slots=True)
class StreamKey:
    """A stream's secret: whoever has it can subtract all noise of the stream.

    Raises ParameterError unless it has KEY_BYTES bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not (type(self.secret) is bytes and len(self.secret) == KEY_BYTES):
            raise ParameterError(f"a stream's key has {KEY_BYTES} bytes", code="bad_parameter")

    @classmethod
    def derive(cls, owner_secret: bytes, stream: str, fingerprint: bytes) -> StreamKey:
        """Derive the key of a stream from an owner's secret of at least KEY_BYTES bytes.

        ``stream`` is an identity that was never used before, ``fingerprint`` of what it computes:
        two streams of one key would share their noise. Raises ParameterError for a short secret.
        """
        if not (type(owner_secret) is bytes and KEY_BYTES <= len(owner_secret) <= 64):
            raise ParameterError(
                f"an owner's secret has {KEY_BYTES} to 64 bytes", code="bad_parameter"
            )
        argument = _framed(stream.encode()) + _framed(fingerprint)
        return cls(
            hashlib.blake2b(
                argument, key=owner_secret, digest_size=KEY_BYTES, person=b"dpsql stream"
            ).digest()
        )

    def source(self, purpose: str, step: int) -> KeyedWords:
        """Return the words of a step's ``purpose``, always the same: one draw per step for ever."""
        base = hashlib.blake2b(purpose.encode(), key=self.secret, person=b"dpsql once")
        return KeyedWords(base, _SOURCE + _field(step))

    def group_keys(self, measure: str, groups: Sequence[bytes]) -> list[bytes]:
        """Derive the groups' own keys for a measure, of 64 bytes each."""
        argument = _framed(measure.encode())
        base = hashlib.blake2b(argument, key=self.secret, person=b"dpsql group")
        return [_digest(base, group) for group in groups]


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def _field(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _digest(base: hashlib.blake2b, argument: bytes) -> bytes:
    word = base.copy()
    word.update(argument)
    return word.digest()


def _digests(own: Sequence[bytes], labels: Sequence[bytes]) -> bytes:
    """Hash each label under each group's own key: the words of all groups, one after the other."""
    if len(labels) == 1:  # one call instead of three: it is made for each group there is
        made, (label,) = hashlib.blake2b, labels
        return b"".join([made(label, key=key, person=_DRAWS).digest() for key in own])
    bases = (hashlib.blake2b(key=key, person=_DRAWS) for key in own)
    return b"".join([_digest(base, label) for base in bases for label in labels])


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

    sigma: float

    @property
    def spread(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def reach(self) -> float:
        """P[abs(Z) > 5.5 sigma] is below 1e-7."""
        return 5.5

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

    ``sigma`` is in units of the lattice. Guarantee: with a uniform key and the hash a random
    function, draws of different groups, measures or numbers are independent and have exactly the
    law of the discrete Gaussian. Checked by ``tests/mechanisms/continual/test_continual_keyed.py``.
    """

    key: StreamKey
    measure: str
    sigma: float

    def draw(self, groups: Sequence[bytes], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw those of ``numbers``, of shape (groups, numbers); ``groups`` are encoded keys."""
        own, slots = self.key.group_keys(self.measure, groups), self.together
        blocks, where = np.unique(numbers // slots, return_inverse=True)
        labels = [_DRAW + _field(int(block)) for block in blocks]
        words = self._words(_digests(own, labels))
        words = words.reshape(len(groups), len(blocks), slots, self._width)
        words = words[:, where, numbers % slots].reshape(-1, self._width)
        owners = _Owners(own, numbers)
        value, kept = self._decide(words, lambda i: owners.doubt(i, 0))
        self._retry(value, np.flatnonzero(~kept), owners)
        return value.reshape(len(groups), len(numbers))

    def _retry(self, value: NDArray[np.int64], todo: NDArray[np.intp], owners: _Owners) -> None:
        """Put further attempts in the place of draws that were not kept."""
        slots, page = self.together, 0
        while len(todo):
            pages = self._words(b"".join([owners.page(int(i), page) for i in todo]))
            words = pages.reshape(len(todo), slots, self._width)
            for slot in range(slots):
                attempt, asked = page * slots + slot + 1, todo
                again, kept = self._decide(
                    words[:, slot],
                    lambda i, asked=asked, attempt=attempt: owners.doubt(int(asked[i]), attempt),  # type: ignore[misc]
                )
                value[todo[kept]] = again[kept]
                todo, words = todo[~kept], words[~kept]
            page += 1

    @property
    def together(self) -> int:
        """How many draws of a group one hash gives: those of the numbers with one quotient."""
        return _WORDS // self._width

    @property
    def _width(self) -> int:
        """How many words a proposal takes: 32 bits for the strip, and those of the offset."""
        return 1 if _sampler(self.sigma).offset_bits <= 32 else 2

    def _words(self, digests: bytes) -> NDArray[np.uint64]:
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)

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
class _Owners:
    """To whom each of a flat array of draws belongs, by the groups' own keys."""

    own: list[bytes]
    numbers: NDArray[np.int64]

    def _of(self, i: int) -> tuple[hashlib.blake2b, bytes]:
        group, place = divmod(i, len(self.numbers))
        base = hashlib.blake2b(key=self.own[group], person=_DRAWS)
        return base, _field(int(self.numbers[place]))

    def page(self, i: int, page: int) -> bytes:
        base, number = self._of(i)
        return _digest(base, _RETRY + number + _field(page))

    def doubt(self, i: int, attempt: int) -> KeyedWords:
        base, number = self._of(i)
        return KeyedWords(base, _DOUBT + number + _field(attempt))


@dataclass(frozen=True, slots=True)
class KeyedNoise:
    """The noise (B z)_t of a measure's groups, rounded to integers: a function of the key alone.

    ``sigma`` is that of a draw in units of the measure, an exact float64. Guarantee: each value is
    the nearest integer to (B z)_t for the exact B of the factorisation, halves up, whatever
    float64 did: what lies closer to a half than the error bound is computed in integers. Raises
    ParameterError if sigma in units of the lattice is out of range. Checked by
    ``tests/mechanisms/continual/test_continual_keyed.py``.
    """

    key: StreamKey
    measure: str
    sigma: float
    factorisation: Factorisation

    @property
    def draws(self) -> KeyedDraws:
        """The draws z of which the noise is made."""
        sigma = self.sigma * 2.0**self.factorisation.bits
        return KeyedDraws(self.key, self.measure, checked_lattice_sigma(sigma))

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

"""Where random bits come from: one small protocol, and the operating system behind it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class EntropySource(Protocol):
    """A supply of independent uniform 64-bit words."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Give fresh words of shape (n,), each uniform on [0, 2**64) and never handed out twice."""
        ...


@dataclass(frozen=True, slots=True)
class OSEntropy:
    """The operating system's generator. It keeps no state, so a forked child never repeats us."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Read words from ``os.urandom``: an array of shape (n,)."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


def bits16(source: EntropySource, n: int) -> NDArray[np.uint16]:
    """Draw uniform 16-bit numbers, four to a word: an array of shape (n,)."""
    return source.words(-(-n // 4)).view(np.uint16)[:n]


def bits32(source: EntropySource, n: int) -> NDArray[np.uint32]:
    """Draw uniform 32-bit numbers, two to a word: an array of shape (n,)."""
    return source.words(-(-n // 2)).view(np.uint32)[:n]


def uniform_bits(source: EntropySource, n: int, bits: int) -> NDArray[np.int64]:
    """Draw uniform integers in [0, 2**bits), for ``bits`` at most 62: an array of shape (n,)."""
    raw: NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]
    if bits == 0:
        return np.zeros(n, dtype=np.int64)
    if bits <= 16:
        raw, width = bits16(source, n), 16
    elif bits <= 32:
        raw, width = bits32(source, n), 32
    else:
        raw, width = source.words(n), 64
    return (raw >> (width - bits)).astype(np.int64)

"""Keyed hashes of integers of 64 bits."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST: Final = np.uint64(0xFF51AFD7ED558CCD)
_SECOND: Final = np.uint64(0xC4CEB9FE1A85EC53)
_HALF: Final = np.uint64(33)
_BYTE: Final = np.uint64(56)


def scrambled(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Map integers to others under a key, one to one: different integers stay different.

    Each step can be undone: exclusive or, multiplication by an odd number, and a shift that is
    combined with what was shifted. So what comes out can stand for what went in.
    """
    mixed = values ^ key
    mixed ^= mixed >> _HALF
    mixed *= _FIRST
    mixed ^= mixed >> _HALF
    mixed *= _SECOND
    mixed ^= mixed >> _HALF
    return mixed


def block_hashes(blocks: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Hash blocks of units to a byte under a key, in two operations: each row has one.

    The first bits of a product with an odd number: of a secret one, two blocks have the same byte
    no more often than in 2 of 256 cases, whatever blocks there are.
    """
    mixed = blocks * (key | np.uint64(1))
    mixed >>= _BYTE
    return mixed


def slots_of(units: NDArray[np.uint64], bits: int, key: np.uint64) -> NDArray[np.int64]:
    """Hash units to so many bits under a key, as cheaply."""
    mixed = units * (key | np.uint64(1))
    mixed >>= np.uint64(64 - bits)
    return mixed.view(np.int64)


def hashed_pairs(
    units: NDArray[np.uint64], groups: NDArray[np.int64], words: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Hash pairs of a unit and a group, of which there are integers, under three keys."""
    of_groups = scrambled(groups.view(np.uint64), words[2])
    return scrambled(scrambled(units, words[1]) + of_groups, words[3])

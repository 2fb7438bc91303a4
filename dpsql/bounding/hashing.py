"""Keyed hashes of integers of 64 bits."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST: Final = np.uint64(0xFF51AFD7ED558CCD)
_SECOND: Final = np.uint64(0xC4CEB9FE1A85EC53)
_HALF: Final = np.uint64(33)


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


def hashed_pairs(
    units: NDArray[np.uint64], groups: NDArray[np.int64], words: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Hash pairs of a unit and a group, of which there are integers, under three keys."""
    of_groups = scrambled(groups.view(np.uint64), words[2])
    return scrambled(scrambled(units, words[1]) + of_groups, words[3])

"""Uniform integers below any bound, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.sampling.entropy import EntropySource


def uniform_integers(bounds: NDArray[np.int64], source: EntropySource) -> NDArray[np.int64]:
    """Draw independent uniform integers from 0 to each bound - 1, by rejection.

    Bounds are positive and below 2**53; the result has their shape, (n,).
    """
    _, bits = np.frexp(bounds - 1)  # numbers below 2**53 are exact here
    drawn = np.empty(len(bounds), dtype=np.int64)
    todo = np.arange(len(bounds))
    while len(todo):
        words = source.words(len(todo)) >> (63 - bits[todo]).astype(np.uint64) >> np.uint64(1)
        drawn[todo] = words.astype(np.int64)
        todo = todo[drawn[todo] >= bounds[todo]]
    return drawn

"""What was read of a private block, and what may still be read of the groups that come out.

None of it is released: these values go from :mod:`dpsql.pipeline.read` to
:mod:`dpsql.pipeline.release` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.engines.base import ArrowStream, ExactRows, KeyArrays
from dpsql.ir.measures import Ranked
from dpsql.mechanisms.cascade import CascadeRows
from dpsql.mechanisms.quantiles import Histograms

HistogramsOf = Callable[[Ranked, NDArray[np.int64]], Histograms]
"""The values of groups given by their row ids, in this order; 0 is a group without rows."""
KeysOf = Callable[[NDArray[np.int64]], KeyArrays | ArrowStream]
"""The keys of groups given by their row ids: in this order, or a stream with the row ids."""


@dataclass(frozen=True, slots=True)
class ExactLook:
    """What bounding keeps of a measure, and how far units climbed in each span of a ladder.

    Sums over units, in steps of the measure's quantum.
    """

    kept: int
    climbed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExactBlock:
    """The exact rows of a block's groups.

    ``histograms`` reads the values of groups for quantiles, None where none are asked for.
    ``keys_of`` reads the keys of released groups, None where ``rows`` has those of all groups.
    ``looks`` are those that were taken at the same rows, by fingerprint.
    """

    rows: ExactRows
    histograms: HistogramsOf | None = None
    keys_of: KeysOf | None = None
    looks: Mapping[str, ExactLook] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExactUnion:
    """The weights of all keys of a set union, in the order of their row ids, which start at 1.

    ``weights``: int64 array of shape (keys,), in steps. ``named`` reads the keys with some row ids.
    """

    weights: NDArray[np.int64]
    named: Callable[[NDArray[np.int64]], ExactRows]


@dataclass(frozen=True, slots=True)
class ExactCascade:
    """What the steps of a cascade read, each when it is asked for.

    ``totals`` counts the groups with some row ids at a cap: int64 arrays of shape (groups,) in this
    order, one for each measure that is counted; 0 is a group without rows. ``keys_of`` reads keys.
    """

    rows: CascadeRows
    totals: Callable[[NDArray[np.int64], int], list[NDArray[np.int64]]]
    keys_of: KeysOf


def keys_at(exact: ExactRows, indices: NDArray[np.intp]) -> KeyArrays | ArrowStream:
    """Take the keys at some positions, or keep the stream of all that were read.

    ``indices``: positions, of shape (groups,).
    """
    if isinstance(exact.keys, dict):
        return {name: values[indices] for name, values in exact.keys.items()}
    return exact.keys

"""Keys and histograms of released groups, fetched from the scratch tables of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream, ExactRows, KeyArrays, Stage
from dpsql.ir.measures import Ranked
from dpsql.mechanisms.quantiles import Histograms
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.quantile_histograms import HistogramSQL, chosen_groups

HistogramsOf = Callable[[Ranked, NDArray[np.int64]], Histograms]
"""The values of groups given by their row ids, in this order; 0 is a group without rows."""
KeysOf = Callable[[NDArray[np.int64]], KeyArrays | ArrowStream]
"""The keys of groups given by their row ids: in this order, or a stream with the row ids."""


def keys_at(exact: ExactRows, indices: NDArray[np.intp]) -> KeyArrays | ArrowStream:
    """The keys at these positions, or the stream of all that were read."""
    if isinstance(exact.keys, dict):
        return {name: values[indices] for name, values in exact.keys.items()}
    return exact.keys


def staged_keys(keys: Sequence[Column], stage: Stage, dialect: Dialect) -> KeysOf:
    """How to read the keys of groups that are stored in ``stage``."""
    names = [key.name for key in keys]

    def keys_of(ids: NDArray[np.int64]) -> KeyArrays | ArrowStream:
        sql = chosen_groups(names, len(ids), dialect)
        exact = stage.keys(sql, keys, ids)
        return keys_at(exact, np.searchsorted(exact.row_ids, ids))

    return keys_of


def staged_histograms(sql: HistogramSQL, stage: Stage) -> HistogramsOf:
    """How to count the rows of groups whose exact rows are stored in ``stage``."""
    counts = dict(sql.counts)

    def histograms(ranked: Ranked, ids: NDArray[np.int64]) -> Histograms:
        owners, points, rows = stage.integers(counts[ranked], ids.tolist())
        place = np.full(int(ids.max(initial=0)) + 1, -1, dtype=np.int64)
        place[ids] = np.arange(len(ids))
        owners = place[owners]
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(len(ids)), side="right")
        return Histograms(ends, points[order], rows[order])

    return histograms

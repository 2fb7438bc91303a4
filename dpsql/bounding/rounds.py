"""The steps of a cascade over pairs of units and groups: sizes, weights, and weighed totals.

They are those of the SQL of ``dpsql.kinds.cascade``, number for number; where a unit keeps some of
its groups, another hash says which. What a unit adds to a step follows from its own rows alone, and
from which groups are looked at: those with a name, or those without, as released before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions, Sums, quotients
from dpsql.bounding.pairs import Int64s, Pairs, kept_pairs, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.privacy.mechanisms.cascade import WHOLE_SHARE
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, weights_of

GroupFlags = NDArray[np.bool_]
_LARGEST: Final = 1 << 62


def unit_sizes(whole: Iterable[Pairs], among: GroupFlags | None) -> Int64s:
    """Count units by how many of the groups ``among`` which they have; None stands for all.

    The count of units with n groups is at place n. One unit moves one of these counts, by one.
    """
    found = np.zeros(1, dtype=np.int64)
    for pairs in whole:
        sizes = np.bincount(_sizes(pairs, among))
        longer = max(len(found), len(sizes))
        found = _longer(found, longer) + _longer(sizes, longer)
    return found


def named_shares(
    whole: Iterable[Pairs],
    spec: Specification,
    sources: Sequence[MeasureColumns],
    among: GroupFlags,
) -> int:
    """Sum the shares of units: their mean additions to the groups ``among``, by the largest ones.

    In steps, of which one unit moves the sum by ``WHOLE_SHARE`` at most.
    """
    fields, found = tallies_of(spec), 0
    for pairs in _among(whole, among):
        contributions = Contributions(spec, fields, pairs)
        shares = np.zeros(len(pairs), dtype=np.int64)
        for source in sources:
            shares += _shares(source.measure, contributions.of(source), spec.max_rows)
        each = np.add.reduceat(shares, pairs.starts) // (_sizes(pairs, None) * len(sources))
        found += int(each.sum())
    return found


def round_weights(
    whole: Iterable[Pairs], spec: Specification, among: GroupFlags | None, kept: int
) -> tuple[Int64s, Int64s]:
    """Weigh groups over units that keep ``kept`` of them: weights in steps, and numbers of units.

    Both are by number of the group. One unit moves the weights by one whole weight in l2 at most,
    and brings or takes ``kept`` groups at most.
    """
    bounds = replace(spec, kept=kept)
    weights, units = (np.zeros(spec.groups, dtype=np.int64) for _ in range(2))
    for pairs in _among(whole, among):
        ours = kept_pairs(bounds, replace(pairs, numbers=()))
        np.add.at(weights, ours.groups, _weights(ours, 1))
        np.add.at(units, ours.groups, 1)
    return weights, units


def weighed_totals(
    whole: Iterable[Pairs],
    spec: Specification,
    sources: Sequence[MeasureColumns],
    among: GroupFlags,
    cap: int,
) -> list[Int64s]:
    """Total what units contribute to groups, by their weights at a cap: an array for each source.

    They are by number of the group. One unit moves each measure by sqrt(``cap``) times its
    sensitivity at most, in l2.
    """
    fields = tallies_of(spec)
    sums = [Sums(spec.groups) for _ in sources]
    for pairs in _among(whole, among):
        contributions, weights = Contributions(spec, fields, pairs), _weights(pairs, cap)
        for source, total in zip(sources, sums, strict=True):
            total.add(pairs.groups, _weighed(source, contributions.of(source), weights))
    every = np.arange(spec.groups)
    return [total.divided(every, 1, _LARGEST) for total in sums]


def _among(whole: Iterable[Pairs], among: GroupFlags | None) -> Iterator[Pairs]:
    """Yield the pairs whose groups are looked at."""
    for pairs in whole:
        ours = pairs if among is None else pairs.at(np.flatnonzero(among[pairs.groups]))
        if len(ours):
            yield ours


def _sizes(pairs: Pairs, among: GroupFlags | None) -> Int64s:
    """Count the pairs of each unit, or those whose groups are looked at."""
    if among is None:
        return np.diff(pairs.starts, append=len(pairs))
    return np.add.reduceat(among[pairs.groups], pairs.starts, dtype=np.int64)


def _weights(pairs: Pairs, groups: int) -> Int64s:
    """Compute the weight of each pair, where a unit has the l2 norm of so many whole ones."""
    sizes = _sizes(pairs, None)
    return np.repeat(weights_of(groups, sizes), sizes)


def _weighed(source: MeasureColumns, contributions: Int64s, weights: Int64s) -> Int64s:
    """Multiply contributions by weights, each product divided and rounded towards zero."""
    measure = source.measure
    if measure.kind is MeasureKind.UNITS:
        return weights
    assert measure.weights is not None
    if max(int(contributions.max()), -int(contributions.min())) < _LARGEST // WEIGHT_STEPS:
        return quotients(contributions * weights, measure.weights.coarsening)
    products = contributions.astype(object) * weights
    return quotients(products, measure.weights.coarsening).astype(np.int64)


def _shares(measure: Measure, contributions: Int64s, max_rows: int) -> Int64s:
    """Divide the sizes of contributions by the largest one, in steps, rounding down."""
    if measure.kind is MeasureKind.UNITS:
        return np.full(len(contributions), WHOLE_SHARE)
    reach = max(1, measure.reach(max_rows))
    if reach < _LARGEST // WHOLE_SHARE:
        return np.abs(contributions) * WHOLE_SHARE // reach
    return np.asarray(abs(contributions.astype(object)) * WHOLE_SHARE // reach).astype(np.int64)


def _longer(counts: Int64s, length: int) -> Int64s:
    return np.pad(counts, (0, length - len(counts)))

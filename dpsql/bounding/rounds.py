"""The steps of a cascade over pairs of units and groups: sizes, weights, and weighed totals.

They are those of the SQL of ``dpsql.kinds.cascade``, number for number; where a unit keeps some of
its groups, another hash says which. What a unit adds to a step follows from its own rows alone, and
from which groups are looked at: those with a name, or those without, as released before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.contributions import Contributions, Sums, quotients
from dpsql.bounding.pairs import Int64s, Pairs, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.bounding.units import GatheredUnits, ReadAgain, added_up, kept_units
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.privacy.mechanisms.cascade import MOST_SQUARES, WHOLE_SHARE, Caps
from dpsql.privacy.mechanisms.weighted_histogram import (
    PART_STEPS,
    SQUARE_STEPS,
    WEIGHT_STEPS,
    weights_of,
    weights_within,
)

GroupFlags = NDArray[np.bool_]
_Adding: TypeAlias = tuple[Pairs, Contributions]
_LARGEST: Final = 1 << 62


def unit_sizes(whole: Iterable[GatheredUnits], among: GroupFlags | None) -> Int64s:
    """Count units by how many of the groups ``among`` which they have; None stands for all.

    The count of units with n groups is at place n. One unit moves one of these counts, by one.
    """
    found = np.zeros(1, dtype=np.int64)
    for units in whole:
        counts = np.bincount(units.of_each(lambda pairs: _sizes(pairs, among)))
        found = np.pad(found, (0, max(0, len(counts) - len(found))))
        found[: len(counts)] += counts
    return found


def unit_norms(
    whole: Iterable[GatheredUnits],
    spec: Specification,
    sources: Sequence[MeasureColumns],
    among: GroupFlags,
    rows: int,
) -> tuple[Int64s, int]:
    """Count units by the square of the norm of what they add to groups, and sum norms' shares.

    Squares are in the most that a unit may add to a group, rounded up, ``MOST_SQUARES`` at most;
    shares those of norms above 1 in what units add in all, in steps. One unit moves one of the
    counts by one, and the sum by ``WHOLE_SHARE`` at most. ``rows`` of a unit count in a group.
    """
    counts, shares = np.zeros(MOST_SQUARES + 1, dtype=np.int64), 0
    for parts in _adding(whole, spec, among, rows):
        _, squares, sums = _norms(spec, parts, sources)
        ceilings = np.clip(-(-squares // SQUARE_STEPS), 1, MOST_SQUARES)
        counts += np.bincount(ceilings, minlength=MOST_SQUARES + 1)
        roots = np.sqrt(np.minimum(squares, MOST_SQUARES * SQUARE_STEPS)).astype(np.int64)
        each = np.minimum(roots * WHOLE_SHARE // np.maximum(sums, 1), WHOLE_SHARE)
        shares += int(each[squares > SQUARE_STEPS].sum())
    return counts, shares


def round_weights(
    whole: Iterable[GatheredUnits], spec: Specification, among: GroupFlags | None, kept: int
) -> tuple[Int64s, Int64s]:
    """Weigh groups over units that keep ``kept`` of them: weights in steps, and numbers of units.

    Both are by number of the group. One unit moves the weights by one whole weight in l2 at most,
    and brings or takes ``kept`` groups at most.
    """
    bounds = replace(spec, kept=kept)
    weights, units = (np.zeros(spec.groups, dtype=np.int64) for _ in range(2))
    for some in _among(whole, among):
        ours = kept_units(bounds, some.changed(lambda pairs: replace(pairs, numbers=())))
        of_units = weights_of(1, ours.of_each(_sizes))
        for pairs in ours.parts:
            np.add.at(weights, pairs.groups, np.repeat(of_units, _sizes(pairs)))
            np.add.at(units, pairs.groups, 1)
    return weights, units


def weighed_totals(
    whole: Iterable[GatheredUnits],
    spec: Specification,
    sources: Sequence[MeasureColumns],
    among: GroupFlags,
    caps: Caps,
    rows: int,
) -> list[Int64s]:
    """Total what units contribute to groups, by their weights at caps: an array for each source.

    They are by number of the group. One unit moves each measure by the root of its cap times its
    sensitivity at most, in l2. ``rows`` of a unit count in a group.
    """
    sums = [Sums(spec.groups) for _ in sources]
    for parts in _adding(whole, spec, among, rows):
        groups, squares, _ = _norms(spec, parts, sources)
        of_units, of_values = weights_of(caps.units, groups), weights_within(caps.values, squares)
        for pairs, contributions in parts:
            sizes = _sizes(pairs)
            for source, total in zip(sources, sums, strict=True):
                ours = of_units if source.measure.kind is MeasureKind.UNITS else of_values
                weighed = _weighed(source, contributions.of(source), np.repeat(ours, sizes))
                total.add(pairs.groups, weighed)
    every = np.arange(spec.groups)
    return [total.divided(every, 1, _LARGEST) for total in sums]


def _among(whole: Iterable[GatheredUnits], among: GroupFlags | None) -> Iterator[GatheredUnits]:
    """Yield units with the groups that are looked at."""
    for units in whole:
        if among is None:
            yield units
        else:
            yield units.changed(lambda pairs: pairs.at(np.flatnonzero(among[pairs.groups])))


def _sizes(pairs: Pairs, among: GroupFlags | None = None) -> Int64s:
    """Count the pairs of each unit, or those whose groups are looked at."""
    if among is None:
        return np.diff(pairs.starts, append=len(pairs))
    return np.add.reduceat(among[pairs.groups], pairs.starts, dtype=np.int64)


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


def _adding(
    whole: Iterable[GatheredUnits], spec: Specification, among: GroupFlags, rows: int
) -> Iterator[ReadAgain[_Adding]]:
    """Yield the pairs of units in chosen groups with their contributions at a number of rows."""
    bounds, fields = replace(spec, max_rows=rows), tallies_of(spec)
    for units in _among(whole, among):
        yield units.each(lambda pairs: (pairs, Contributions(bounds, fields, pairs)))


def _norms(
    spec: Specification, parts: Iterable[_Adding], sources: Sequence[MeasureColumns]
) -> tuple[Int64s, Int64s, Int64s]:
    """Compute units' numbers of groups, the squares of their l2 norms, and their l1 norms.

    In ``SQUARE_STEPS`` and ``PART_STEPS``, rounded up: the largest of all measures of which units
    add different amounts, all but numbers of units.
    """
    values = [source for source in sources if source.measure.kind is not MeasureKind.UNITS]

    def measured(pairs: Pairs, contributions: Contributions) -> Int64s:
        found = [_sizes(pairs)]
        for source in values:
            sizes = _parts(source.measure, contributions.of(source), spec.max_rows)
            found += [np.add.reduceat(each, pairs.starts) for each in (sizes**2, sizes)]
        return np.stack(found)

    found = added_up(measured(*part) for part in parts)
    if not found.size:
        return (np.zeros(0, dtype=np.int64),) * 3
    none = np.zeros_like(found[0])
    squares, sums = (reduce(np.maximum, found[first::2], none) for first in (1, 2))
    return found[0], squares, sums


def _parts(measure: Measure, contributions: Int64s, max_rows: int) -> Int64s:
    """Divide the sizes of contributions by the largest one, in steps, rounding up."""
    reach = max(1, measure.reach(max_rows))
    if reach < _LARGEST // (2 * MOST_SQUARES * PART_STEPS):
        return -(-np.abs(contributions) * PART_STEPS // reach)
    return np.asarray(-(-abs(contributions.astype(object)) * PART_STEPS // reach)).astype(np.int64)

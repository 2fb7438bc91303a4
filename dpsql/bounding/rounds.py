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
from dpsql.bounding.pairs import Int64s, Pairs, divided_units, kept_units, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification
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
_LARGEST: Final = 1 << 62


def unit_sizes(whole: Iterable[Pairs], among: GroupFlags | None) -> Int64s:
    """Count units by how many of the groups ``among`` which they have; None stands for all.

    The count of units with n groups is at place n. One unit moves one of these counts, by one.
    """
    found = np.zeros(1, dtype=np.int64)
    size = 0  # of the last unit so far
    for pairs, goes_on in divided_units(whole):
        sizes = _sizes(pairs, among)
        if goes_on:
            found[size] -= 1
            sizes[0] += size
        size = int(sizes[-1])
        counts = np.bincount(sizes)
        found = np.pad(found, (0, max(0, len(counts) - len(found))))
        found[: len(counts)] += counts
    return found


def unit_norms(
    whole: Iterable[Pairs],
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
    for pairs, contributions in _adding(whole, spec, among, rows):
        squares, sums = _norms(spec, pairs, contributions, _valued(sources))
        ceilings = np.clip(-(-squares // SQUARE_STEPS), 1, MOST_SQUARES)
        counts += np.bincount(ceilings, minlength=MOST_SQUARES + 1)
        roots = np.sqrt(np.minimum(squares, MOST_SQUARES * SQUARE_STEPS)).astype(np.int64)
        each = np.minimum(roots * WHOLE_SHARE // np.maximum(sums, 1), WHOLE_SHARE)
        shares += int(each[squares > SQUARE_STEPS].sum())
    return counts, shares


def round_weights(
    whole: Iterable[Pairs], spec: Specification, among: GroupFlags | None, kept: int
) -> tuple[Int64s, Int64s]:
    """Weigh groups over units that keep ``kept`` of them: weights in steps, and numbers of units.

    Both are by number of the group. One unit moves the weights by one whole weight in l2 at most,
    and brings or takes ``kept`` groups at most.
    """
    bounds = replace(spec, kept=kept)
    weights, units = (np.zeros(spec.groups, dtype=np.int64) for _ in range(2))
    looked_at = (replace(pairs, numbers=()) for pairs in _among(whole, among))
    for ours in kept_units(bounds, looked_at):
        np.add.at(weights, ours.groups, _weights(ours, 1))
        np.add.at(units, ours.groups, 1)
    return weights, units


def weighed_totals(
    whole: Iterable[Pairs],
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
    for pairs, contributions in _adding(whole, spec, among, rows):
        of_units = _weights(pairs, caps.units)
        squares, _ = _norms(spec, pairs, contributions, _valued(sources))
        of_values = np.repeat(weights_within(caps.values, squares), _sizes(pairs, None))
        for source, total in zip(sources, sums, strict=True):
            ours = of_units if source.measure.kind is MeasureKind.UNITS else of_values
            total.add(pairs.groups, _weighed(source, contributions.of(source), ours))
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


def _valued(sources: Sequence[MeasureColumns]) -> list[MeasureColumns]:
    """List the measures of which units add different amounts: all but numbers of units."""
    return [source for source in sources if source.measure.kind is not MeasureKind.UNITS]


def _adding(
    whole: Iterable[Pairs], spec: Specification, among: GroupFlags, rows: int
) -> Iterator[tuple[Pairs, Contributions]]:
    """Yield the pairs of chosen groups with their contributions at a number of rows."""
    bounds, fields = replace(spec, max_rows=rows), tallies_of(spec)
    for pairs in _among(whole, among):
        yield pairs, Contributions(bounds, fields, pairs)


def _norms(
    spec: Specification,
    pairs: Pairs,
    contributions: Contributions,
    values: Sequence[MeasureColumns],
) -> tuple[Int64s, Int64s]:
    """Compute the squares of units' l2 norms, and their l1 norms: the largest of all values.

    In ``SQUARE_STEPS`` and ``PART_STEPS``, rounded up.
    """
    squares, sums = np.zeros((2, len(pairs.starts)), dtype=np.int64)
    for source in values:
        parts = _parts(source.measure, contributions.of(source), spec.max_rows)
        squares = np.maximum(squares, np.add.reduceat(parts**2, pairs.starts))
        sums = np.maximum(sums, np.add.reduceat(parts, pairs.starts))
    return squares, sums


def _parts(measure: Measure, contributions: Int64s, max_rows: int) -> Int64s:
    """Divide the sizes of contributions by the largest one, in steps, rounding up."""
    reach = max(1, measure.reach(max_rows))
    if reach < _LARGEST // (2 * MOST_SQUARES * PART_STEPS):
        return -(-np.abs(contributions) * PART_STEPS // reach)
    return np.asarray(-(-abs(contributions.astype(object)) * PART_STEPS // reach)).astype(np.int64)

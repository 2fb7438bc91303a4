"""Releases of one statistic put together: which can be, with which weights, how sure the result is.

Each release keeps its own values; putting them together is computed anew whenever an answer is
shown, so that none counts twice. Where a count's own noise decided whether its group appears in a
release, the count is conditionally too high in each release, and the excess does not average out.
Intervals take that in: given that a group appears in s releases that decided by this measure, in
each of which it appears at least half the time, any event is at most 2^(s-1) times as likely as the
same event under the condition of one release alone: the releases are independent, and each of the
other s - 1 conditions has probability 1/2 or more. For one condition the argument of
:mod:`dpsql.accuracy.wording` holds as before, the sum of the other noises being symmetric and
unimodal. So the risk of an interval is divided by 2^(s-1). Checked by
``tests/accuracy/test_combination.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import appearance
from dpsql.accuracy.estimates import FloatArray
from dpsql.ir.measures import Aggregate
from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.combination import (
    PublishedNoise,
    combined_margin,
    combined_std,
    combining_weights,
)
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian

MAX_COMBINED = 32
"""How many releases of one question are put together at most, the latest: each is a bit."""


def release_noise(plan: BlockPlan, released: int, *, alone: bool) -> ReleaseNoise | None:
    """Describe the noise in a release of this plan, of which ``released`` groups came out.

    None for what is not put together with others: groups that are named in rounds or by their rank,
    keys alone, and quantiles, whose error has no variance that is known.
    """
    block, selection = plan.block, plan.selection
    ranked = plan.base_rank is not None or selection.leaves_out
    if plan.cascade is not None or ranked or block.quantiles or not block.aggregates:
        return None
    noises = []
    for index in range(len(block.measures)):
        noise = plan.noise_of(index)
        if not isinstance(noise, IndependentNoise | CorrelatedGaussian | EllipticGaussian):
            return None
        noises.append(PublishedNoise(noise, plan.spread_groups(released)))
    found = appearance(plan)
    half, surely = (None, None) if found is None else (found.half, found.surely)
    return ReleaseNoise(tuple(noises), deciding_measure(plan), half, surely, alone)


def deciding_measure(plan: BlockPlan) -> int | None:
    """Find the measure whose released noise also decided which groups appear; None if none did."""
    if plan.units_measure is not None:
        return plan.units_measure
    return plan.score if plan.selection.score_noise is not None else None


def releases_in(mask: int, releases: Sequence[ReleaseNoise]) -> list[ReleaseNoise]:
    """List the releases that a row is put together from."""
    return [each for bit, each in enumerate(releases) if mask >> bit & 1]


def combined_values(
    values: NDArray[np.float64], held: NDArray[np.bool_], noises: Sequence[PublishedNoise]
) -> NDArray[np.float64]:
    """Compute the weighted means of arrays of shape (releases, groups), of shape (groups,).

    ``held`` says which release has which group; what it has not is left out of the mean.
    """
    weights = np.array(combining_weights(noises))[:, np.newaxis] * held
    total = (weights * np.where(held, values, 0.0)).sum(axis=0)
    only = held.sum(axis=0) == 1
    mean: NDArray[np.float64] = total / weights.sum(axis=0)
    # Of one release alone the value stays what it was: a weight over itself is 1 but for rounding.
    mean[only] = np.where(held, values, 0.0).sum(axis=0)[only]
    return mean


def masks_in(column: FloatArray) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield each set of releases that rows come from, as bits, and the rows that do."""
    for value in np.unique(column[np.isfinite(column)]):
        yield int(value), column == value


def combined_error(
    plan: BlockPlan, aggregate: Aggregate, index: int, mask: int, confidence: float
) -> float | None:
    """Bound the error of a measure put together from several releases, in the answer's units.

    It holds with this confidence for groups that appear at least half the time in each of them.
    None if the bits name one release alone, or none.
    """
    releases = releases_in(mask, plan.combined)
    if len(releases) < 2:
        return None
    deciding = sum(release.decided == index for release in releases)
    risk = (1 - confidence) / 2 ** max(0, deciding - 1)
    noises = [release.measures[index] for release in releases]
    return with_combined_rounding(plan, aggregate, index, noises, combined_margin(noises, risk))


def with_combined_rounding(
    plan: BlockPlan,
    aggregate: Aggregate,
    index: int,
    noises: Sequence[PublishedNoise],
    margin: float,
) -> float:
    """Add to a margin in steps what rounding can: of exact sums, of each release, of the mean."""
    measure = plan.measures[index].measure
    whole = plan.is_whole(aggregate)
    coarse = measure.lattice is not None and measure.lattice.coarsening > 1
    if coarse and measure.weights is None:
        margin += 1
    elif whole and measure.weights is None and any(n.fractional for n in noises):
        margin += 0.5
    within = margin * measure.step
    if measure.weights is not None and whole:
        within += 0.5
    if not whole:
        return float(within)
    # Units keep other groups in each release where they keep a few: then the mean of what the
    # releases estimate need not be a whole number.
    exact = plan.bounding is None and measure.weights is None and not coarse
    return float(np.floor(within + 0.5)) if exact else float(within + 0.5)


def combined_scale(plan: BlockPlan, index: int, mask: int) -> float | None:
    """Compute the standard deviation of a measure put together from several releases.

    In the units of the answer; None if the bits name one release alone, or none.
    """
    releases = releases_in(mask, plan.combined)
    if len(releases) < 2:
        return None
    noises = [release.measures[index] for release in releases]
    return combined_std(noises) * plan.measures[index].measure.step


def combined_half(plan: BlockPlan) -> float | None:
    """Find the size from which a group appears at least half the time in each release."""
    sizes = [r.appears_half for r in plan.combined if r.appears_half is not None]
    return max(sizes, default=None)


def every_release(plan: BlockPlan) -> int:
    """Return the bits of all releases that are put together."""
    return (1 << len(plan.combined)) - 1

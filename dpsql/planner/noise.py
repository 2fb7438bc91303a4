"""The noise on a measure: the smallest that its share of a budget can pay for.

Each function returns a ``NoiseOf``, which takes a measure, the number of groups of it that a unit
changes, and whether these are all the groups that are released.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.ir.measures import Measure
from dpsql.ir.query import Block
from dpsql.mechanisms.additive import (
    Additive,
    correlated_gaussian,
    gaussian,
    laplace,
    one_shot_correlated_gaussian,
    one_shot_gaussian,
    one_shot_laplace,
)

NoiseOf = Callable[[Measure, int, bool], Additive]


def composed_noise(block: Block, rho: float) -> NoiseOf:
    """Build noise that costs ``rho`` under zCDP, of whichever kind is smallest."""

    def noise(measure: Measure, groups: int, all_groups: bool) -> Additive:
        sensitivity = _sensitivity(block, measure)
        options: list[Additive] = [
            gaussian(rho, sensitivity, groups),
            laplace(rho, sensitivity, groups),
        ]
        if _raises_all(measure, groups, all_groups):
            options.append(correlated_gaussian(rho, sensitivity, groups))
        return min(options, key=lambda option: option.std(groups))

    return noise


def gaussian_noise(block: Block, rho: float) -> NoiseOf:
    """Build independent Gaussian noise of ``rho`` under zCDP, whose price is one of l2 alone."""

    def noise(measure: Measure, groups: int, all_groups: bool) -> Additive:
        return gaussian(rho, _sensitivity(block, measure), groups)

    return noise


def exact_gaussian_noise(block: Block, distance: float) -> NoiseOf:
    """Build Gaussian noise that takes ``distance`` of what one publication may (see additive)."""

    def noise(measure: Measure, groups: int, all_groups: bool) -> Additive:
        sensitivity = _sensitivity(block, measure)
        options: list[Additive] = [one_shot_gaussian(distance, sensitivity, groups)]
        if _raises_all(measure, groups, all_groups):
            options.append(one_shot_correlated_gaussian(distance, sensitivity, groups))
        return min(options, key=lambda option: option.std(groups))

    return noise


def pure_laplace_noise(block: Block, epsilon: float) -> NoiseOf:
    """Build Laplace noise that is ``epsilon``-DP."""

    def noise(measure: Measure, groups: int, all_groups: bool) -> Additive:
        return one_shot_laplace(epsilon, _sensitivity(block, measure), groups)

    return noise


def _sensitivity(block: Block, measure: Measure) -> int:
    return measure.sensitivity(block.parameters.max_rows_contributed)


def _raises_all(measure: Measure, groups: int, all_groups: bool) -> bool:
    """Whether the change can be shared: a unit may raise every group, and lower none."""
    return all_groups and measure.monotone and groups > 1

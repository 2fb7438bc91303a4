"""What noise is added to, and which: the smallest that its share of a budget can pay for.

Each ``…_noise`` returns a ``NoiseOf``, which takes a measure, the number of its groups that a unit
changes, and whether these are all the groups that are released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dpsql.ir.measures import Measure, MeasureKind
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
from dpsql.mechanisms.gaussian_cost import laplace_for_gaussian_rho

NoiseOf = Callable[[Measure, int, bool], Additive]
_Priced = Callable[[float, int, int], Additive]  # of a price, a sensitivity, a number of groups

UNITS: Final = Measure(MeasureKind.UNITS)


def with_units(block: Block) -> tuple[Measure, ...]:
    """Return the measures of a block, with the number of units if it is not among them."""
    return block.measures if UNITS in block.measures else (*block.measures, UNITS)


def measured(block: Block) -> tuple[Measure, ...]:
    """Return what noise is added to where all keys are declared."""
    return with_units(block) if block.hides_small_groups else block.measures


def composed_noise(block: Block, rho: float, *, gaussian_dp: bool = False) -> NoiseOf:
    """Build noise that costs ``rho`` under zCDP, or in GDP, of whichever kind is smallest."""
    if gaussian_dp:
        kinds = _gaussian_for_gaussian_rho, laplace_for_gaussian_rho
        return _smallest(block, rho, *kinds, shared=_shared_for_gaussian_rho)
    return _smallest(block, rho, gaussian, laplace, shared=correlated_gaussian)


def gaussian_noise(block: Block, rho: float, *, gaussian_dp: bool = False) -> NoiseOf:
    """Build independent Gaussian noise of ``rho``, in zCDP or in GDP: its price is one of l2."""
    return _smallest(block, rho, _gaussian_for_gaussian_rho if gaussian_dp else gaussian)


def _gaussian_for_gaussian_rho(rho: float, sensitivity: int, groups: int) -> Additive:
    return one_shot_gaussian(2 * rho, sensitivity, groups)


def _shared_for_gaussian_rho(rho: float, sensitivity: int, groups: int) -> Additive:
    return one_shot_correlated_gaussian(2 * rho * (1 - 1e-12), sensitivity, groups)


def exact_gaussian_noise(block: Block, distance: float) -> NoiseOf:
    """Build Gaussian noise that takes ``distance`` of what one publication may (see additive)."""
    return _smallest(block, distance, one_shot_gaussian, shared=one_shot_correlated_gaussian)


def pure_laplace_noise(block: Block, epsilon: float) -> NoiseOf:
    """Build Laplace noise that is ``epsilon``-DP."""
    return _smallest(block, epsilon, one_shot_laplace)


def _smallest(
    block: Block, price: float, *kinds: _Priced, shared: _Priced | None = None
) -> NoiseOf:
    """Choose among independent ``kinds`` and, where groups can share a part, ``shared`` noise."""

    def noise(measure: Measure, groups: int, all_groups: bool) -> Additive:
        sensitivity = measure.sensitivity(block.parameters.max_rows_contributed)
        able = list(kinds)
        # The change can be shared: a unit may raise every group, and lower none.
        if shared is not None and all_groups and measure.monotone and groups > 1:
            able.append(shared)
        options = [kind(price, sensitivity, groups) for kind in able]
        return min(options, key=lambda option: option.std(groups))

    return noise

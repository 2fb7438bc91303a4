"""What noise is added to, and which: the smallest that its share of a budget can pay for.

Each ``…_noise`` returns a ``NoiseOf``, which takes a measure, the number of its groups that a unit
changes, and the most groups that are released, None where nothing is to be shared among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.query import Block
from dpsql.privacy.mechanisms.additive import (
    Additive,
    correlated_gaussian,
    gaussian,
    laplace,
    one_shot_correlated_gaussian,
    one_shot_gaussian,
    one_shot_laplace,
)
from dpsql.privacy.mechanisms.elliptic import elliptic_gaussian, one_shot_elliptic_gaussian
from dpsql.privacy.mechanisms.gaussian_cost import laplace_for_gaussian_rho

NoiseOf = Callable[[Measure, int, int | None], Additive]
_Priced = Callable[[float, int, int], Additive]  # of a price, a sensitivity, a number of groups
_PricedOf = Callable[[float, int, int, int], Additive | None]  # and of how many groups it is

_ELLIPTIC_GAIN: Final = 0.95
"""The variance of elliptic noise on a value is at most this part of that of independent noise.

A smaller gain is not worth it that totals over groups become less sharp.
"""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Noise that groups share a part of: if a unit may raise all of them, or only some."""

    all_groups: _Priced
    some_groups: _PricedOf

    def options(
        self, price: float, sensitivity: int, groups: int, released: int
    ) -> list[tuple[Additive, float]]:
        """List the noises that there are, each with the least gain in std that it is taken for."""
        if groups == released:
            return [(self.all_groups(price, sensitivity, groups), 1.0)]
        some = self.some_groups(price, sensitivity, groups, released)
        return [] if some is None else [(some, math.sqrt(_ELLIPTIC_GAIN))]


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
        return _smallest(block, rho, *kinds, shared=_SHARED_FOR_GAUSSIAN_RHO)
    return _smallest(block, rho, gaussian, laplace, shared=_SHARED_FOR_RHO)


def gaussian_noise(block: Block, rho: float, *, gaussian_dp: bool = False) -> NoiseOf:
    """Build independent Gaussian noise of ``rho``, in zCDP or in GDP: its price is one of l2."""
    return _smallest(block, rho, _gaussian_for_gaussian_rho if gaussian_dp else gaussian)


def _gaussian_for_gaussian_rho(rho: float, sensitivity: int, groups: int) -> Additive:
    return one_shot_gaussian(2 * rho, sensitivity, groups)


def _shared_for_gaussian_rho(rho: float, sensitivity: int, groups: int) -> Additive:
    return one_shot_correlated_gaussian(2 * rho * (1 - 1e-12), sensitivity, groups)


def _elliptic_for_gaussian_rho(
    rho: float, sensitivity: int, groups: int, released: int
) -> Additive | None:
    return one_shot_elliptic_gaussian(2 * rho * (1 - 1e-12), sensitivity, groups, released)


_SHARED_FOR_RHO: Final = _Shared(correlated_gaussian, elliptic_gaussian)
_SHARED_FOR_GAUSSIAN_RHO: Final = _Shared(_shared_for_gaussian_rho, _elliptic_for_gaussian_rho)
_SHARED_ONCE: Final = _Shared(one_shot_correlated_gaussian, one_shot_elliptic_gaussian)


def exact_gaussian_noise(block: Block, distance: float) -> NoiseOf:
    """Build Gaussian noise that takes ``distance`` of what one publication may (see additive)."""
    return _smallest(block, distance, one_shot_gaussian, shared=_SHARED_ONCE)


def pure_laplace_noise(block: Block, epsilon: float) -> NoiseOf:
    """Build Laplace noise that is ``epsilon``-DP."""
    return _smallest(block, epsilon, one_shot_laplace)


def _smallest(
    block: Block, price: float, *kinds: _Priced, shared: _Shared | None = None
) -> NoiseOf:
    """Choose among independent ``kinds`` and, where groups can share a part, ``shared`` noise."""

    def noise(measure: Measure, groups: int, released: int | None) -> Additive:
        sensitivity = measure.sensitivity(block.parameters.max_rows_contributed)
        found = [(kind(price, sensitivity, groups), 1.0) for kind in kinds]
        # The change can be shared: a unit may raise several groups, and lower none.
        if shared is not None and released is not None and measure.monotone and groups > 1:
            found += shared.options(price, sensitivity, groups, released)
        return min(found, key=lambda option: option[0].std(groups) / option[1])[0]

    return noise

"""Chooses the noise of measures: the smallest that its share of a budget pays for.

Each ``…_noise`` returns a ``NoiseOf``, which takes a measure, the number of its groups that a unit
changes, and the most groups that are released, None where nothing is to be shared among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from dpsql.ir.measures import Measure, MeasureKind, Quantile
from dpsql.ir.plan import BlockPlan, NoisyQuantile
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import Additive, correlated_gaussian, gaussian, laplace
from dpsql.privacy.mechanisms.elliptic import elliptic_gaussian
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, exponential_quantile

NoiseOf = Callable[[Measure, int, int | None], Additive]
_Kind = Callable[[PrivacyLoss, int, int], Additive]  # of a price, a sensitivity, how many groups

_ELLIPTIC_GAIN: Final = 0.95
"""The variance of elliptic noise on a value is at most this part of that of independent noise.

A smaller gain is not worth it that totals over groups become less sharp.
"""


UNITS: Final = Measure(MeasureKind.UNITS)


def with_units(block: Block) -> tuple[Measure, ...]:
    """Return the measures of a block, with the number of units if it is not among them."""
    return block.measures if UNITS in block.measures else (*block.measures, UNITS)


def measured(block: Block) -> tuple[Measure, ...]:
    """Return the measures that get noise where all keys are declared."""
    return with_units(block) if block.hides_small_groups else block.measures


def composed_noise(block: Block, price: PrivacyLoss) -> NoiseOf:
    """Build noise that costs ``price``, in zCDP or in GDP, of whichever kind is smallest."""
    # What is stated of shared noise in GDP is rounded up by several steps.
    within = replace(price, rho=price.rho * (1 - 1e-12)) if price.gaussian else price
    return _smallest(block, price, gaussian, laplace, shared=within)


def gaussian_noise(block: Block, price: PrivacyLoss) -> NoiseOf:
    """Build independent Gaussian noise of ``price``, in zCDP or in GDP: that is one of l2."""
    return _smallest(block, price, gaussian)


def exact_gaussian_noise(block: Block, distance: float) -> NoiseOf:
    """Build Gaussian noise that takes ``distance`` of a publication's allowance (see additive)."""
    price = PrivacyLoss(distance / 2, gaussian=True)
    return _smallest(block, price, gaussian, shared=price)


def pure_laplace_noise(block: Block, price: PrivacyLoss) -> NoiseOf:
    """Build Laplace noise that is epsilon-DP, for the epsilon of ``price``."""
    return _smallest(block, price, laplace)


def _smallest(
    block: Block, price: PrivacyLoss, *kinds: _Kind, shared: PrivacyLoss | None = None
) -> NoiseOf:
    """Choose among independent ``kinds`` and, where groups can share a part, noise for ``shared``.

    Of the options each has the least gain in std that it is taken for.
    """

    def noise(measure: Measure, groups: int, released: int | None) -> Additive:
        sensitivity = measure.sensitivity(block.parameters.rows_limit)
        found = [(kind(price, sensitivity, groups), 1.0) for kind in kinds]
        # The change can be shared: a unit may raise several groups, and lower none.
        if shared is not None and released is not None and measure.monotone and groups > 1:
            found += _shared_options(shared, sensitivity, groups, released)
        return min(found, key=lambda option: option[0].std(groups) / option[1])[0]

    return noise


def _shared_options(
    price: PrivacyLoss, sensitivity: int, groups: int, released: int
) -> list[tuple[Additive, float]]:
    """List noises shared by groups, each with the least gain in std that justifies it."""
    if groups == released:
        return [(correlated_gaussian(price, sensitivity, groups), 1.0)]
    some = elliptic_gaussian(price, sensitivity, groups, released)
    return [] if some is None else [(some, math.sqrt(_ELLIPTIC_GAIN))]


def share_without_quantiles(block: Block) -> float:
    """Compute the part of a block's rho that is left to its measures and the choice of groups."""
    if not block.quantiles:
        return 1.0
    others = len(measured(block) if block.known_domain else with_units(block))
    return others / (others + len(block.quantiles))


def priced_quantiles(plan: BlockPlan, budget: QueryBudget) -> tuple[NoisyQuantile, ...]:
    """Return the block's quantiles, which share equally the part of ``budget`` for them."""
    groups = plan.groups if plan.groups is not None else plan.max_released
    assert groups is not None
    return tuple(
        NoisyQuantile(quantile, _priced(plan.block, quantile, groups, budget))
        for quantile in plan.block.quantiles
    )


def _priced(
    block: Block, quantile: Quantile, groups: int, budget: QueryBudget
) -> ExponentialQuantile:
    """Price a quantile by zCDP or, in a single publication of only quantiles, by epsilon."""
    part = 1 / len(block.quantiles)
    build = partial(
        exponential_quantile,
        fraction=quantile.fraction,
        rows=block.parameters.rows_limit,
        groups=groups,
        size=quantile.ranked.points,
        extreme=quantile.extreme,
    )
    composed = build(PrivacyLoss(budget.held_back * part, gaussian=budget.gaussian))
    if not (budget.basic and budget.share == 0.0):
        return composed
    pure = build(PrivacyLoss(epsilon=budget.epsilon * part))
    return max(composed, pure, key=lambda option: option.rate)

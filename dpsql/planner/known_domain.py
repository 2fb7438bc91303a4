"""Declared keys: every group is answered, so all that matters is the noise."""

from __future__ import annotations

import math
from functools import partial

from dpsql.errors import QueryRefused
from dpsql.mechanisms.additive import one_shot_distance
from dpsql.mechanisms.histogram import KnownDomain
from dpsql.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.planner.budget import Budget
from dpsql.planner.noise import (
    NoiseOf,
    composed_noise,
    exact_gaussian_noise,
    pure_laplace_noise,
)
from dpsql.planner.option import Option, attempted
from dpsql.query import Block

MAX_DOMAIN = 1_000_000


def known_domain_options(block: Block, budget: Budget) -> list[Option]:
    """Noise on every declared group, with and without a cap on the groups of a unit."""
    size = block.domain_size
    if size > MAX_DOMAIN:
        raise QueryRefused(
            f"the declared keys have {size:,} combinations, more than {MAX_DOMAIN:,}",
            code="domain_too_large",
            hint="Group by fewer keys.",
        )
    cap = block.parameters.max_groups_contributed
    reaches = [None] if cap is None or cap >= size else [None, cap]
    return [option for reach in reaches for option in _options(block, budget, size, reach)]


def _options(block: Block, budget: Budget, size: int, cap: int | None) -> list[Option]:
    split, share = budget.whole(), len(block.measures)
    reach = "a unit may touch every group" if cap is None else f"at most {cap} groups per unit"
    composed = composed_noise(block, split.rho / share)
    options = [_option(block, size, cap, composed, split.conversion, reach)]
    if budget.one_shot:
        distance = one_shot_distance(budget.epsilon, budget.delta) / share
        kinds = {
            "exact Gaussian": exact_gaussian_noise(block, distance),
            "Laplace": pure_laplace_noise(block, budget.epsilon / share),
        }
        for kind, noise_of in kinds.items():
            build = partial(_option, block, size, cap, noise_of, 0.0, f"{reach}, {kind}")
            options.append(attempted("known_domain", build))
    return options


def _option(
    block: Block, size: int, cap: int | None, noise_of: NoiseOf, conversion: float, variant: str
) -> Option:
    groups = size if cap is None else cap
    measures = tuple(NoisyMeasure(m, noise_of(m, groups, cap is None)) for m in block.measures)
    bounding = None if cap is None else Bounding.sample(cap)
    plan = BlockPlan(block, KnownDomain(size), measures, None, groups, bounding, conversion)
    rank = math.prod(plan.noise_of(index).std(size) for index in range(len(measures)))
    return Option("known_domain", plan, rank, variant=variant)

"""Declared keys: every group is answered, or the k largest of them.

Either way all that matters is the noise. With a LIMIT, answering every group spends nothing on
choosing but noise on groups that will not be shown; choosing first spends a share on the choice and
noise on k groups only, or none on them where their order alone is asked for. Options are compared
by the noise on what is shown: how far the ranking may err is of the same order in both, and changes
sides at about the same size (twice k, without a cap). Of an order alone, it is that of the ranking.

A cap loses what units have beyond it, which no figure here tells. So it must be worth it without
noise that is shared among the groups of capped units: that is a gain on top, and no reason to cap.

Where small groups are to be left out, their number of units is measured as well, whether it was
asked for or not: it decides with its noise on it, after all is paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from dpsql.core.formatting import several
from dpsql.errors import QueryRefused
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block, TopK
from dpsql.planner.budget import QueryBudget
from dpsql.planner.noise import (
    NoiseOf,
    composed_noise,
    exact_gaussian_noise,
    gaussian_noise,
    measured,
    pure_laplace_noise,
)
from dpsql.planner.option import Option, attempted, impossible
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.additive import one_shot_distance
from dpsql.privacy.mechanisms.registry import KNOWN_DOMAIN, KNOWN_DOMAIN_TOP_K, Sizes
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS

MAX_DOMAIN = 1_000_000
_NONE_LEFT_OUT = "LIMIT leaves out none of the declared groups"


def known_domain_options(block: Block, budget: QueryBudget) -> list[Option]:
    """List noise on declared groups, with and without a cap on the groups of a unit."""
    size = block.domain_size
    if size > MAX_DOMAIN:
        raise QueryRefused(
            f"the declared keys have {size:,} combinations, more than {MAX_DOMAIN:,}",
            code="domain_too_large",
            hint="Group by fewer keys.",
        )
    options = _with_and_without_cap(block, size, partial(_every_group, block, budget, size))
    if block.top_k is None:
        return options
    return [*options, *_largest(block, block.top_k, budget, size)]


def _with_and_without_cap(
    block: Block, shown: int, offered: Callable[[int | None, bool], list[Option]]
) -> list[Option]:
    """List options without a cap on groups, and with the cap where it is below the groups shown.

    ``offered`` takes the cap, and whether groups may share noise: under a cap if it is the better
    choice without.
    """
    cap, free = block.parameters.groups_limit, offered(None, True)
    if cap is None or cap >= shown:
        return free
    apart = offered(cap, False)
    return [*free, *(offered(cap, True) if _least(apart) < _least(free) else apart)]


def _least(options: list[Option]) -> float:
    return min(option.order for option in options)


def _every_group(
    block: Block, budget: QueryBudget, size: int, cap: int | None, sharing: bool
) -> list[Option]:
    if block.weighted and block.measures and cap is not None:
        return _every_weighted_group(block, budget, cap)
    split, share = budget.whole(), max(1, len(measured(block)))
    reach = f"at most {several(cap, 'group')} per unit" if cap else "a unit may touch every group"
    composed = composed_noise(block, split.price(share))
    every = KNOWN_DOMAIN.built(Sizes(domain=size), split.price())
    make = partial(_option, block, every, size, cap, sharing)
    options = [attempted(every.name, partial(make, composed, split.conversion, reach))]
    if budget.one_shot:
        distance = one_shot_distance(budget.epsilon, budget.delta) / share
        exact = exact_gaussian_noise(block, distance)
        pure = pure_laplace_noise(block, budget.part(share))
        kinds = {f"{reach}, exact Gaussian": exact, f"{reach}, Laplace": pure}
        options += [
            attempted(every.name, partial(make, noise, 0.0, kind)) for kind, noise in kinds.items()
        ]
    return options


def _every_weighted_group(block: Block, budget: QueryBudget, cap: int) -> list[Option]:
    """Offer weights: a unit may keep all of its groups, as no threshold names anything.

    Only Gaussian noise will do: weights bound how far a unit moves a measure in l2, not in l1.
    """
    split, share, reach = budget.whole(), len(measured(block)), f"units weigh {cap} groups"
    composed = gaussian_noise(block, split.price(share))
    options = [_weighted_option(block, cap, composed, split.conversion, reach)]
    if budget.one_shot:
        distance = one_shot_distance(budget.epsilon, budget.delta) / share
        exact, variant = exact_gaussian_noise(block, distance), f"{reach}, exact Gaussian"
        build = partial(_weighted_option, block, cap, exact, 0.0, variant)
        options.append(attempted(options[0].mechanism, build))
    return options


def _weighted_option(
    block: Block, cap: int, noise_of: NoiseOf, conversion: float, variant: str
) -> Option:
    size, rows = block.domain_size, block.parameters.rows_limit
    measures = [measure.weighted(WEIGHT_STEPS, rows) for measure in measured(block)]
    noisy = tuple(NoisyMeasure(m, noise_of(m, cap, None)) for m in measures)
    selection = KNOWN_DOMAIN.built(Sizes(domain=size), ZERO)  # its price is that of the noise
    plan = BlockPlan(block, selection, noisy, None, cap, Bounding(cap, size), conversion)
    return Option(selection.name, plan, _error(plan, size), variant=variant)


def _largest(block: Block, top_k: TopK, budget: QueryBudget, size: int) -> list[Option]:
    """Offer the k largest first, then noise on their values."""
    if top_k.limit >= size:
        return [impossible(KNOWN_DOMAIN_TOP_K.name, _NONE_LEFT_OUT)]
    split = budget.whole()
    unseen = top_k.unseen and not block.hides_small_groups
    price = split.price(1 if unseen else len(measured(block)) + 1)
    position = top_k.measure
    score = block.measures[position]
    sensitivity = score.sensitivity(block.parameters.rows_limit)
    sizes = Sizes(sensitivity=sensitivity, k=top_k.limit, domain=size)
    selection = KNOWN_DOMAIN_TOP_K.built(sizes, price)
    if unseen:
        names = (NoisyMeasure(score, None),)
        plan = BlockPlan(block, selection, names, position, top_k.limit, None, split.conversion)
        error = selection.std * score.step
        return [Option(selection.name, plan, error, variant="any number of groups")]
    composed = composed_noise(block, price)

    def offered(cap: int | None, sharing: bool) -> list[Option]:
        reach = f"at most {several(cap, 'group')} per unit" if cap else "any number of groups"
        make = partial(_option, block, selection, top_k.limit, cap, sharing)
        return [make(composed, split.conversion, reach, position)]

    return _with_and_without_cap(block, top_k.limit, offered)


def _option(
    block: Block,
    selection: Selection,
    shown: int,
    cap: int | None,
    sharing: bool,
    noise_of: NoiseOf,
    conversion: float,
    variant: str,
    score: int | None = None,
) -> Option:
    """Offer noise on the ``shown`` groups, of which a unit changes all, or ``cap``."""
    groups, released = shown if cap is None else cap, shown if sharing else None
    noisy = tuple(NoisyMeasure(m, noise_of(m, groups, released)) for m in measured(block))
    bounding = None if cap is None else Bounding.sample(cap)
    plan = BlockPlan(block, selection, noisy, score, groups, bounding, conversion)
    return Option(selection.name, plan, _error(plan, shown), variant=variant)


def _error(plan: BlockPlan, shown: int) -> float:
    """Multiply the standard deviations of what is shown, in the units of the answer.

    Those of quantiles grow with the root of the number of groups.
    """
    assert plan.groups is not None
    return math.sqrt(plan.groups) ** len(plan.block.quantiles) * math.prod(
        plan.noise_of(index).std(shown) * noisy.measure.step
        for index, noisy in enumerate(plan.measures)
    )

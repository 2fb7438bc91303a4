"""Chooses the mechanism of each private block from public parameters only.

A block may spend the query's (epsilon, delta). Under zCDP composition delta is divided between the
conversion of rho and the chance of naming a group that should have stayed unnamed; under basic
composition mechanisms may use their exact (epsilon, delta) as well. What is spent on noise is
shared equally among the things noise is added to. Options are compared by the score a group needs
to appear, or by noise where all groups are answered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from dpsql.core.timeout import refuse_late
from dpsql.errors import Error, ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan, Candidate, PrivacyPlan
from dpsql.ir.query import Block, Query
from dpsql.planner.bounds_choice import (
    bounds_share,
    priced_bounds,
    with_supposed_weights,
)
from dpsql.planner.budget import QueryBudget
from dpsql.planner.cascade import cascade_options
from dpsql.planner.groups import with_groups_decided
from dpsql.planner.histograms import histogram_options, set_union_options
from dpsql.planner.known_domain import known_domain_options
from dpsql.planner.left_out import estimates_possible, priced_estimates
from dpsql.planner.max_error import (
    ErrorTarget,
    all_kept,
    error_targets,
    plan_with_least_epsilon,
)
from dpsql.planner.noise import priced_quantiles, share_without_quantiles
from dpsql.planner.option import Option
from dpsql.planner.topk import top_k_options
from dpsql.policy.parameters import EPSILON_LIMITS
from dpsql.privacy.accounting.zcdp import CONVERSION_SHARE, ZERO, Composition
from dpsql.privacy.mechanisms.registry import ENTRIES, Family, names

MECHANISM_NAMES = names()
"""The mechanisms that can be asked for by name."""

TOP_K_NAMES = names(Family.TOP_K)

_LAST_RESORT = 1e30
"""The handicap of options of last resort in the ranking."""

ONE_SHOT_ONLY = frozenset(entry.name for entry in ENTRIES if entry.one_shot)
"""Mechanisms that state (epsilon, delta) and no zCDP."""


def plan_query(
    query: Query,
    mechanism: str | None = None,
    composition: Composition = Composition.ZCDP,
    most_epsilon: float = EPSILON_LIMITS[1],
    delta_for_conversion: float = CONVERSION_SHARE,
    *,
    capped: bool = False,
) -> PrivacyPlan:
    """Plan every block of a query; the reservation is the sum of their worst cases.

    ``mechanism`` forces a mechanism by name; ``composition`` is that of the account that pays,
    and ``delta_for_conversion`` the part of delta that it keeps for converting rho.
    ``most_epsilon`` is the most that a block may spend if it asks for a maximum error; if
    ``capped``, one whose bounds were found spends its own epsilon at most. Raises ``QueryRefused``
    or ``ParameterError`` where no mechanism can answer within the parameters.
    """
    blocks = tuple(
        plan_block(block, mechanism, composition, most_epsilon, delta_for_conversion, capped=capped)
        for block in query.blocks
    )
    return PrivacyPlan(blocks, sum((block.loss(None) for block in blocks), ZERO))


def plan_block(
    block: Block,
    mechanism: str | None = None,
    composition: Composition = Composition.ZCDP,
    most_epsilon: float = EPSILON_LIMITS[1],
    delta_for_conversion: float = CONVERSION_SHARE,
    *,
    capped: bool = False,
) -> BlockPlan:
    """Find the best plan for one block, with the candidates it was chosen from.

    The block's own ``mechanism`` goes before that of the statement. Where the block asks for a
    maximum error, its epsilon is the least that keeps it, and its parameters then say so. Where no
    number of groups per unit was given, it is decided what that means, if it was not before.
    """
    block = with_groups_decided(block, mechanism, composition, delta_for_conversion)
    replan = partial(
        plan_within_epsilon,
        mechanism=mechanism,
        composition=composition,
        delta_for_conversion=delta_for_conversion,
    )
    if not error_targets(block):
        return replan(block)
    found = block.bounds_found
    if capped and found is not None and found.known:
        most_epsilon = block.parameters.epsilon
    plan = plan_with_least_epsilon(block, replan, most_epsilon)
    is_open = plan.bounds_choice is not None or bool(plan.value_bounds)
    if not is_open or plan.block.parameters.epsilon >= block.parameters.epsilon:
        return plan
    # A wide error costs little, and bounds that are drawn for as little would be no good ones.
    usual, own = (
        QueryBudget.of(each.parameters, composition, 1.0, delta_for_conversion)
        for each in (block, plan.block)
    )
    others = block.parameters.left_out_share if plan.estimates else 0.0
    choice, values = priced_bounds(plan.block, own, others, payer=usual)
    return replace(plan, bounds_choice=choice or plan.bounds_choice, value_bounds=values)


def plan_within_epsilon(
    block: Block,
    mechanism: str | None,
    composition: Composition,
    delta_for_conversion: float = CONVERSION_SHARE,
) -> BlockPlan:
    """Find the best plan that costs at most the epsilon in the block's parameters.

    Of those that keep a maximum error, if any does and the block asks for one. Where
    bounds are found privately, and where a part of the price is for telling what
    bounding leaves out and that can be told, the plan has the rest of the price. What the rest does
    not answer is answered without that part, and nothing is told.
    """
    planned = partial(_plan_for_share, block, mechanism, composition, delta_for_conversion)
    refuse_late()
    share = block.parameters.left_out_share
    budget = QueryBudget.of(block.parameters, composition, 1.0, delta_for_conversion)
    draws = priced_bounds(block, budget)
    known = block.bounds_found is not None and block.bounds_found.known
    first = bounds_share(block) if known or any(draws) else 0.0
    if estimates_possible(block, budget):
        with suppress(QueryRefused, ParameterError):
            plan = planned(share + first)
            estimates = priced_estimates(plan, budget, share)
            if estimates:
                choice, values = priced_bounds(block, budget, share)
                plan = replace(plan, estimates=estimates, bounds_choice=choice, value_bounds=values)
                return with_supposed_weights(plan, budget, share)
    choice, values = draws
    plan = replace(planned(first), bounds_choice=choice, value_bounds=values)
    return with_supposed_weights(plan, budget)


def _plan_for_share(
    block: Block,
    mechanism: str | None,
    composition: Composition,
    delta_for_conversion: float,
    share_beside: float,
) -> BlockPlan:
    """Find the best plan for the price without a share for estimates and the choice of rows."""
    mechanism = block.mechanism or mechanism
    if mechanism is not None and mechanism not in MECHANISM_NAMES:
        raise ParameterError(
            f"there is no mechanism named {mechanism[:60]}",
            code="unknown_mechanism",
            hint=f"Mechanisms: {', '.join(MECHANISM_NAMES)}.",
        )
    share = share_without_quantiles(block)
    budget = QueryBudget.of(block.parameters, composition, share, delta_for_conversion)
    if share_beside:
        budget = budget.without(share_beside)
    options = _options(block, budget)
    wanted = [o for o in options if o.plan is not None and mechanism in (None, o.mechanism)]
    if not wanted:
        raise _no_mechanism(options, mechanism, budget)
    targets = error_targets(block)
    # What is taken by name or for want of anything else is not taken for a smaller epsilon either.
    usual = [o for o in wanted if o.rank < _LAST_RESORT] or wanted
    keeping = [o for o in usual if o.plan is not None and all_kept(o.plan, targets)]
    best = min(keeping or wanted, key=lambda option: option.rank)
    assert best.plan is not None
    forced = mechanism is not None
    candidates = tuple(_candidate(o, o is best, forced, targets) for o in options)
    plan = replace(best.plan, quantiles=priced_quantiles(best.plan, budget))
    return replace(_priced(plan, budget), candidates=candidates)


def _candidate(
    option: Option, chosen: bool, forced: bool, targets: tuple[ErrorTarget, ...]
) -> Candidate:
    """Return an option as a candidate for EXPLAIN, marked if it misses a maximum error."""
    candidate = option.candidate(chosen, forced)
    if chosen or option.plan is None or all_kept(option.plan, targets):
        return candidate
    verdict = candidate.verdict.replace("possible", "exceeds max_error", 1)
    return replace(candidate, verdict=verdict)


def _priced(plan: BlockPlan, budget: QueryBudget) -> BlockPlan:
    """Charge a block as its account adds costs up: all its (epsilon, delta) where that is basic."""
    if budget.gaussian:
        return replace(plan, gaussian=True)
    if not budget.basic:
        return plan
    return replace(plan, one_shot=budget.loss, conversion_delta=0.0)


def _options(block: Block, budget: QueryBudget) -> list[Option]:
    # Without aggregates the question is which keys exist, which a declared domain cannot answer.
    if block.known_domain and block.aggregates:
        return known_domain_options(block, budget)
    if block.cascades:
        cascades = cascade_options(block, budget)
        return cascades if block.aggregates else [*cascades, *set_union_options(block, budget)]
    if not block.aggregates:
        return [*histogram_options(block, budget), *set_union_options(block, budget)]
    if block.top_k is None:
        return histogram_options(block, budget)
    last_resort = [replace(o, rank=o.rank + _LAST_RESORT) for o in histogram_options(block, budget)]
    return [*top_k_options(block, block.top_k, budget), *last_resort]


def _no_mechanism(options: list[Option], mechanism: str | None, budget: QueryBudget) -> Error:
    possible = {option.mechanism for option in options}
    if mechanism in ONE_SHOT_ONLY and not budget.one_shot:
        return QueryRefused(
            f"the mechanism {mechanism} states no cost that a session can add up",
            code="mechanism_needs_basic",
            hint="It is for accounts with `composition: basic`.",
        )
    if mechanism is not None and mechanism not in possible:
        return QueryRefused(
            f"the mechanism {mechanism} does not answer this shape of query",
            code="mechanism_does_not_fit",
            hint=f"Possible here: {', '.join(sorted(possible))}.",
        )
    relevant = [o for o in options if mechanism in (None, o.mechanism)]
    return QueryRefused(
        "; ".join(dict.fromkeys(o.obstacle for o in relevant)),
        code="no_mechanism",
        hint=relevant[-1].hint or None,
    )

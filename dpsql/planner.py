"""Chooses the mechanism of each private block from public parameters only.

Every block may spend ρ(ε, δ/2) on noise and δ/2 on the chance of naming a group that should have
stayed unnamed. The ρ is shared equally among the things noise is added to; candidates are compared
by the score a group needs to appear, or by noise where all groups are answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsql.accounting import ZERO, rho_from_epsilon
from dpsql.errors import Error, ParameterError, QueryRefused
from dpsql.mechanisms.additive import (
    Additive,
    IndependentNoise,
    correlated_gaussian,
    gaussian,
    laplace,
)
from dpsql.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.mechanisms.selection import Selection
from dpsql.mechanisms.topk import GaussianTopK, gumbel_top_k
from dpsql.plan import BlockPlan, Candidate, NoisyMeasure, PrivacyPlan
from dpsql.query import Block, Measure, MeasureKind, Query

MAX_DOMAIN = 1_000_000
MECHANISMS = (
    "known_domain",
    "gaussian_positive_counts",
    "laplace_positive_counts",
    "gaussian_top_k",
    "gumbel_top_k",
)


def plan_query(query: Query, mechanism: str | None = None) -> PrivacyPlan:
    """Plan every block of a query; the reservation is the sum of their worst cases.

    ``mechanism`` forces a mechanism by name. Raises ``QueryRefused`` or ``ParameterError`` where
    no mechanism can answer within the parameters.
    """
    blocks = tuple(plan_block(block, mechanism) for block in query.blocks)
    return PrivacyPlan(blocks, sum((block.loss(None) for block in blocks), ZERO))


def plan_block(block: Block, mechanism: str | None = None) -> BlockPlan:
    """The best plan for one block, with the candidates it was chosen from."""
    if mechanism is not None and mechanism not in MECHANISMS:
        raise ParameterError(
            f"there is no mechanism named {mechanism}",
            code="unknown_mechanism",
            hint=f"Mechanisms: {', '.join(MECHANISMS)}.",
        )
    budget = _Budget.of(block)
    options = _options(block, budget)
    ranked = sorted((o for o in options if o.plan is not None), key=lambda o: o.rank)
    wanted = [o for o in ranked if mechanism in (None, o.mechanism)]
    if not wanted:
        raise _no_mechanism(block, options, mechanism)
    best = wanted[0]
    assert best.plan is not None
    forced = mechanism is not None
    return replace(best.plan, candidates=tuple(o.candidate(o is best, forced) for o in options))


@dataclass(frozen=True, slots=True)
class _Budget:
    rho: float
    delta: float

    @classmethod
    def of(cls, block: Block) -> _Budget:
        parameters = block.parameters
        half = parameters.delta / 2
        return cls(rho_from_epsilon(parameters.epsilon, half), half)


@dataclass(frozen=True, slots=True)
class _Option:
    """A mechanism with its plan, or with the reason why it cannot be used (and what would help)."""

    mechanism: str
    plan: BlockPlan | None
    rank: float = 0.0
    obstacle: str = ""
    hint: str = ""
    variant: str = ""

    def candidate(self, chosen: bool, forced: bool) -> Candidate:
        if self.plan is None:
            return Candidate(self.mechanism, None, False, None, self.obstacle, False)
        plan = self.plan
        step = 1.0 if plan.score is None else plan.measures[plan.score].measure.step
        threshold = plan.selection.appears_above(0.5)
        chosen_for = "asked for" if forced else "smallest threshold or error"
        verdict = (chosen_for if chosen else "possible") + self.variant
        return Candidate(
            mechanism=self.mechanism,
            threshold=None if threshold is None else threshold * step,
            relative=plan.selection.fetch is not None,
            noise_std=_noise_std(plan),
            verdict=verdict,
            chosen=chosen,
        )


def _noise_std(plan: BlockPlan) -> float | None:
    if not plan.measures:
        return None
    groups = plan.groups if plan.groups is not None else plan.max_released
    assert groups is not None
    return plan.noise_of(0).std(groups) * plan.measures[0].measure.step


def _options(block: Block, budget: _Budget) -> list[_Option]:
    # Without aggregates the question is which keys exist, which a declared domain cannot answer.
    if block.known_domain and block.measures:
        return _known_domain_options(block, budget)
    if block.top_k is None:
        return _histogram_options(block, budget)
    return [
        _gumbel_option(block, budget),
        _gaussian_top_k_option(block, budget),
        *(replace(o, rank=o.rank + 1e30) for o in _histogram_options(block, budget)),
    ]


def _no_mechanism(block: Block, options: list[_Option], mechanism: str | None) -> Error:
    names = {option.mechanism for option in options}
    if mechanism is not None and mechanism not in names:
        return QueryRefused(
            f"the mechanism {mechanism} does not answer this shape of query",
            code="mechanism_does_not_fit",
            hint=f"Possible here: {', '.join(sorted(names))}.",
        )
    relevant = [o for o in options if mechanism in (None, o.mechanism)]
    return QueryRefused(
        "; ".join(dict.fromkeys(o.obstacle for o in relevant)),
        code="no_mechanism",
        hint=relevant[-1].hint or None,
    )


# -- a declared domain ------------------------------------------------------------------------


def _known_domain_options(block: Block, budget: _Budget) -> list[_Option]:
    size = block.domain_size
    if size > MAX_DOMAIN:
        raise QueryRefused(
            f"the declared keys have {size:,} combinations, more than {MAX_DOMAIN:,}",
            code="domain_too_large",
            hint="Group by fewer keys.",
        )
    cap = block.parameters.max_groups_contributed
    rho = budget.rho / len(block.measures)
    plans = [_known_domain_plan(block, size, None, rho)]
    if cap is not None and cap < size:
        plans.append(_known_domain_plan(block, size, cap, rho))
    options = []
    for plan in plans:
        rank = 1.0
        for index in range(len(plan.measures)):
            rank *= plan.noise_of(index).std(size)
        variant = "" if len(plans) == 1 else f" ({_reach(plan)})"
        options.append(_Option("known_domain", plan, rank, variant=variant))
    return options


def _reach(plan: BlockPlan) -> str:
    if plan.bounding is None:
        return "a unit may touch every group"
    return f"at most {plan.bounding} groups per unit"


def _known_domain_plan(block: Block, size: int, cap: int | None, rho: float) -> BlockPlan:
    groups = size if cap is None else cap
    measures = tuple(
        NoisyMeasure(measure, _best_noise(measure, block, rho, groups, every_group=cap is None))
        for measure in block.measures
    )
    return BlockPlan(block, KnownDomain(size), measures, None, groups, cap, ())


def _best_noise(
    measure: Measure, block: Block, rho: float, groups: int, *, every_group: bool
) -> Additive:
    """The smallest noise at cost ``rho``; correlated noise where a unit may change every group."""
    sensitivity = measure.sensitivity(block.parameters.max_rows_contributed)
    options: list[Additive] = [
        gaussian(rho, sensitivity, groups),
        laplace(rho, sensitivity, groups),
    ]
    if every_group and measure.monotone and groups > 1:
        options.append(correlated_gaussian(rho, sensitivity, groups))
    return min(options, key=lambda noise: noise.std(groups))


# -- unknown keys, every large group ----------------------------------------------------------


def _histogram_options(block: Block, budget: _Budget) -> list[_Option]:
    cap = block.parameters.max_groups_contributed
    if cap is None:
        reason = "max_groups_contributed is unlimited, which only a top-k query can bear"
        hint = (
            "Add ORDER BY a count or a sum of non-negative values DESC LIMIT k, or set "
            "max_groups_contributed to a number, or ask the data owner to declare the keys' domain."
        )
        names = ("gaussian_positive_counts", "laplace_positive_counts")
        return [_Option(name, None, obstacle=reason, hint=hint) for name in names]
    measures = _with_units(block.measures)
    rho = budget.rho / len(measures)
    return [
        _histogram_option(block, budget, measures, rho, cap, make)
        for make in (gaussian(rho, 1, cap), laplace(rho, 1, cap))
    ]


def _with_units(measures: tuple[Measure, ...]) -> tuple[Measure, ...]:
    """The unit count is always measured: it decides which groups are safe to name."""
    units = Measure(MeasureKind.UNITS)
    return measures if units in measures else (*measures, units)


def _histogram_option(
    block: Block,
    budget: _Budget,
    measures: tuple[Measure, ...],
    rho: float,
    cap: int,
    noise: IndependentNoise,
) -> _Option:
    floor = block.parameters.min_units_per_group - 1
    selection = PositiveCounts(noise, cap, budget.delta, floor)
    score = measures.index(Measure(MeasureKind.UNITS))
    noisy = tuple(
        NoisyMeasure(
            measure,
            None if index == score else _best_noise(measure, block, rho, cap, every_group=False),
        )
        for index, measure in enumerate(measures)
    )
    plan = BlockPlan(block, selection, noisy, score, cap, cap, ())
    return _Option(selection.name, plan, float(selection.threshold))


# -- unknown keys, the largest groups ---------------------------------------------------------


def _gumbel_option(block: Block, budget: _Budget) -> _Option:
    assert block.top_k is not None
    top_k, parameters = block.top_k, block.parameters
    obstacle = _top_k_obstacle(block)
    if obstacle is not None:
        return replace(obstacle, mechanism="gumbel_top_k")
    score = block.measures[top_k.measure]
    rho = budget.rho / (len(block.measures) + 1)
    selection = gumbel_top_k(
        rho,
        sensitivity=score.sensitivity(parameters.max_rows_contributed),
        k=top_k.limit,
        k_bar=parameters.k_bar,
        delta=budget.delta,
        floor=parameters.min_units_per_group - 1,
    )
    if selection is None:
        return _Option(
            "gumbel_top_k",
            None,
            obstacle="epsilon is too small for this LIMIT",
            hint="Ask for fewer groups or raise epsilon.",
        )
    noisy = tuple(
        NoisyMeasure(m, _best_noise(m, block, rho, top_k.limit, every_group=True))
        for m in block.measures
    )
    plan = BlockPlan(block, selection, noisy, top_k.measure, None, None, ())
    return _Option("gumbel_top_k", plan, _needed(selection))


def _gaussian_top_k_option(block: Block, budget: _Budget) -> _Option:
    assert block.top_k is not None
    top_k, parameters = block.top_k, block.parameters
    cap = parameters.max_groups_contributed
    obstacle = _top_k_obstacle(block)
    if obstacle is not None:
        return replace(obstacle, mechanism="gaussian_top_k")
    if cap is None:
        return _Option(
            "gaussian_top_k",
            None,
            obstacle="max_groups_contributed is unlimited",
            hint="Set max_groups_contributed to a number.",
        )
    score = block.measures[top_k.measure]
    sensitivity = score.sensitivity(parameters.max_rows_contributed)
    rho = budget.rho / len(block.measures) * (1 - 4e-7)
    noise = gaussian(rho, sensitivity, cap)
    if noise.scale < 1:
        return _Option("gaussian_top_k", None, obstacle="epsilon is too large for its analysis")
    floor = parameters.min_units_per_group - 1
    selection = GaussianTopK(noise, cap, parameters.k_bar, budget.delta, floor)
    noisy = tuple(
        NoisyMeasure(
            m, None if i == top_k.measure else _best_noise(m, block, rho, cap, every_group=False)
        )
        for i, m in enumerate(block.measures)
    )
    plan = BlockPlan(block, selection, noisy, top_k.measure, cap, cap, ())
    return _Option("gaussian_top_k", plan, _needed(selection))


def _top_k_obstacle(block: Block) -> _Option | None:
    assert block.top_k is not None
    parameters = block.parameters
    if block.top_k.limit > parameters.k_bar:
        return _Option(
            "",
            None,
            obstacle=f"LIMIT {block.top_k.limit} exceeds k_bar = {parameters.k_bar}",
            hint="Lower the LIMIT or raise k_bar.",
        )
    kind = block.measures[block.top_k.measure].kind
    if parameters.min_units_per_group > 1 and kind is not MeasureKind.UNITS:
        # A unit may carry a group across the minimum, and its whole score with it.
        return _Option(
            "",
            None,
            obstacle="with min_units_per_group above 1 only unit counts can rank groups",
            hint="ORDER BY COUNT(DISTINCT unit), or set max_groups_contributed to a number.",
        )
    return None


def _needed(selection: Selection) -> float:
    """The score (above the k_bar+1-th) that comes out with probability 95%: what ranks top-k."""
    needed = selection.appears_above(0.95)
    assert needed is not None
    return needed

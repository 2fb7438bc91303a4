"""The plan is a function of public parameters, and never costs more than the query may."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from blocks import ROWS, UNITS, block, query, summed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.accounting import Composition, PrivacyLoss, rho_from_epsilon
from dpsql.errors import Error, ParameterError, QueryRefused
from dpsql.mechanisms.additive import CorrelatedGaussian
from dpsql.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.plan import BlockPlan, Bounding
from dpsql.planner import MECHANISMS, plan_block, plan_query
from dpsql.policy import COUNT_LIMITS, DELTA_LIMITS, EPSILON_LIMITS, Parameters
from dpsql.query import Block

USUAL = Parameters(epsilon=1.0, delta=1e-6)
QUIET = [HealthCheck.too_slow]


def exponents(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers spread evenly on a logarithmic scale, ends included."""
    inner = st.floats(math.log(low), math.log(high)).map(lambda x: min(high, max(low, math.exp(x))))
    return st.one_of(st.sampled_from([low, high]), inner)


def counts(high: int) -> st.SearchStrategy[int]:
    return exponents(1, high).map(lambda x: max(1, round(x)))


def parameters(
    epsilon: tuple[float, float] = (1e-3, 10.0),
    delta: tuple[float, float] = (1e-12, 1e-4),
    groups: int = 10_000,
    rows: int = 1000,
    k_bar: int = 100_000,
) -> st.SearchStrategy[Parameters]:
    return st.builds(
        Parameters,
        epsilon=exponents(*epsilon),
        delta=exponents(*delta),
        max_groups_contributed=st.one_of(st.none(), counts(groups)),
        max_rows_contributed=counts(rows),
        k_bar=counts(k_bar),
        min_units_per_group=st.sampled_from([1, 1, 2, 100]),
    )


@st.composite
def blocks(draw: st.DrawFn, limits: st.SearchStrategy[Parameters], k: int = 2000) -> Block:
    chosen = draw(limits)
    lower, upper = draw(st.sampled_from([(0, 100), (0, 10**9), (-50, 40), (-5, 0), (3, 3)]))
    available = [
        UNITS,
        ROWS,
        summed(chosen, lower, upper),
        summed(chosen, lower, upper, centered=True),
    ]
    measures = draw(st.lists(st.sampled_from(available), max_size=3, unique=True))
    domain = draw(st.one_of(st.none(), counts(200)))
    limit = None
    if measures and measures[0].monotone and domain is None and draw(st.booleans()):
        limit = draw(counts(k))
    return block(chosen, *measures, domain=domain, limit=limit)


def within_budget(plan: BlockPlan) -> None:
    asked = plan.block.parameters
    reserved = plan.loss(None)
    assert 0 < reserved.rho <= rho_from_epsilon(asked.epsilon, asked.delta / 2)
    assert reserved.delta <= asked.delta / 2
    most = plan.max_released if plan.max_released is not None else 50
    previous = 0.0
    for released in {*range(min(most, 40) + 1), most // 2, most}:
        settled = plan.loss(released)
        assert settled.rho <= reserved.rho
        assert settled.delta == reserved.delta
    for released in range(min(most, 40) + 1):
        assert plan.loss(released).rho >= previous, "more released never costs less"
        previous = plan.loss(released).rho


@given(blocks(parameters()))
@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
def test_no_plan_costs_more_than_the_query_may_or_settles_above_its_reservation(b: Block) -> None:
    try:
        plan = plan_block(b)
    except Error:
        return
    within_budget(plan)


@given(blocks(parameters()), st.sampled_from(MECHANISMS))
@settings(max_examples=120, deadline=None, suppress_health_check=QUIET)
def test_a_forced_mechanism_is_used_within_the_same_budget_or_refused(b: Block, name: str) -> None:
    try:
        plan = plan_block(b, name)
    except Error:
        return
    assert plan.selection.name == name
    within_budget(plan)


@given(blocks(parameters()), st.sampled_from([None, *MECHANISMS]))
@settings(max_examples=120, deadline=None, suppress_health_check=QUIET)
def test_under_basic_composition_a_block_costs_its_epsilon_and_delta(
    b: Block, name: str | None
) -> None:
    try:
        plan = plan_block(b, name, Composition.BASIC)
    except Error:
        return
    assert name in (None, plan.selection.name)
    for released in (None, 0, 1):
        assert plan.loss(released) == PrivacyLoss(0.0, b.parameters.delta, b.parameters.epsilon)


@given(blocks(parameters()))
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
def test_one_publication_never_needs_more_than_a_query_of_a_session(b: Block) -> None:
    try:
        session = plan_block(b)
    except Error:
        return
    once = plan_block(b, composition=Composition.BASIC)
    if session.score is not None:
        least = [min(c.threshold or math.inf for c in p.candidates) for p in (once, session)]
        assert least[0] <= least[1] * (1 + 1e-9)


@given(
    blocks(
        parameters(EPSILON_LIMITS, DELTA_LIMITS, COUNT_LIMITS[1], COUNT_LIMITS[1], COUNT_LIMITS[1]),
        k=COUNT_LIMITS[1],
    ),
    st.sampled_from([None, *MECHANISMS]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
def test_every_extreme_is_planned_or_refused_clearly(b: Block, name: str | None) -> None:
    try:
        plan = plan_block(b, name)
    except Error:  # and no other exception
        return
    assert math.isfinite(plan.loss(None).rho)
    assert all(math.isfinite(plan.noise_of(i).scale) for i in range(len(plan.measures)))


@given(blocks(parameters()))
@settings(max_examples=50, deadline=None, suppress_health_check=QUIET)
def test_the_same_question_gets_the_same_plan(b: Block) -> None:
    """Nothing but the block goes in: no data, no clock, no randomness."""
    try:
        first = plan_block(b)
    except Error:
        return
    assert plan_block(replace(b)) == first


@given(blocks(parameters()))
@settings(max_examples=50, deadline=None, suppress_health_check=QUIET)
def test_exactly_one_candidate_is_chosen_and_refusals_say_why(b: Block) -> None:
    try:
        plan = plan_block(b)
    except Error:
        return
    chosen = [c for c in plan.candidates if c.chosen]
    assert [c.mechanism for c in chosen] == [plan.selection.name]
    for candidate in plan.candidates:
        assert candidate.verdict
        assert candidate.chosen or candidate.verdict != "smallest threshold or error"


def threshold_of(plan: BlockPlan, name: str) -> float:
    (found,) = {c.threshold for c in plan.candidates if c.mechanism == name}
    assert found is not None
    return found


@pytest.mark.parametrize("groups", [1, 2, 10, 300])
def test_the_smaller_threshold_wins_where_every_large_group_is_released(groups: int) -> None:
    plan = plan_block(block(replace(USUAL, max_groups_contributed=groups), UNITS))
    own = threshold_of(plan, plan.selection.name)
    assert all(c.threshold is not None and own <= c.threshold for c in plan.candidates)


def test_laplace_wins_for_one_group_at_a_loose_delta_and_gaussian_for_many() -> None:
    many = plan_block(block(replace(USUAL, max_groups_contributed=100), UNITS))
    assert many.selection.name == "gaussian_positive_counts"
    one = plan_block(block(Parameters(epsilon=10.0, delta=1e-2, max_groups_contributed=1), UNITS))
    assert one.selection.name == min(one.candidates, key=lambda c: c.threshold or 0).mechanism


@pytest.mark.parametrize("groups", [None, 1, 3, 30, 1000])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_top_k_takes_the_mechanism_whose_kth_group_may_be_smallest(
    groups: int | None, k: int
) -> None:
    plan = plan_block(block(replace(USUAL, max_groups_contributed=groups), UNITS, limit=k))
    needed = {}
    for name in ("gumbel_top_k", "gaussian_top_k"):
        try:
            forced = plan_block(plan.block, name)
        except QueryRefused:
            assert groups is None
            continue
        needed[name] = forced.selection.appears_above(0.95) or 0.0
    assert plan.selection.name == min(needed, key=lambda name: needed[name])


def test_correlated_noise_is_used_where_a_unit_may_raise_every_group() -> None:
    plan = plan_block(block(replace(USUAL, max_groups_contributed=None), ROWS, domain=10))
    assert isinstance(plan.measures[0].noise, CorrelatedGaussian)


def test_correlated_noise_is_never_used_for_values_that_may_fall_or_under_a_cap() -> None:
    free = replace(USUAL, max_groups_contributed=None)
    falling = plan_block(block(free, summed(free, -5, 5), domain=10))
    centered = plan_block(block(free, summed(free, 0, 5, centered=True), domain=10))
    capped = plan_block(block(replace(USUAL, max_groups_contributed=2), ROWS, domain=10))
    assert capped.bounding == Bounding.sample(2)
    for plan in (falling, centered, capped):
        assert not isinstance(plan.measures[0].noise, CorrelatedGaussian)


def test_a_cap_is_enforced_wherever_the_cost_counts_on_it() -> None:
    for groups in (1, 4, 50):
        capped = replace(USUAL, max_groups_contributed=groups)
        for b in (block(capped, ROWS), block(capped, UNITS, domain=60)):
            plan = plan_block(b)
            assert plan.bounding in (Bounding.sample(groups), None)
            if plan.bounding is None:
                assert plan.groups == b.domain_size
    gumbel = plan_block(block(USUAL, UNITS, limit=5), "gumbel_top_k")
    assert gumbel.bounding is None
    assert gumbel.groups is None
    gaussian = plan_block(block(USUAL, UNITS, limit=5), "gaussian_top_k")
    assert gaussian.bounding == Bounding.sample(10)
    assert gaussian.groups == 10


def test_group_names_are_chosen_by_unit_counts_even_if_none_were_asked_for() -> None:
    plan = plan_block(block(USUAL, summed(USUAL, 0, 10)))
    assert plan.score is not None
    assert plan.measures[plan.score].measure == UNITS
    assert plan.measures[plan.score].noise is None


def test_top_k_mechanisms_get_the_sensitivity_of_their_score() -> None:
    rows = replace(USUAL, max_rows_contributed=7)
    gumbel = plan_block(block(rows, ROWS, limit=5), "gumbel_top_k").selection
    gaussian = plan_block(block(rows, ROWS, limit=5), "gaussian_top_k").selection
    assert isinstance(gumbel, GumbelTopK)
    assert isinstance(gaussian, GaussianTopK)
    assert gumbel.sensitivity == gaussian.noise.sensitivity == 7
    assert gaussian.noise.scale >= 1, "the proof needs it"


def test_a_minimum_of_units_refuses_to_rank_by_anything_else() -> None:
    with pytest.raises(QueryRefused, match="only unit counts can rank"):
        plan_block(
            block(replace(USUAL, min_units_per_group=5, max_groups_contributed=None), ROWS, limit=3)
        )
    plan = plan_block(block(replace(USUAL, min_units_per_group=5), UNITS, limit=3))
    assert isinstance(plan.selection, GumbelTopK | GaussianTopK)
    assert plan.selection.floor == 4


def test_unlimited_groups_with_unknown_keys_are_refused_unless_top_k() -> None:
    free = replace(USUAL, max_groups_contributed=None)
    with pytest.raises(QueryRefused, match="unlimited") as refused:
        plan_block(block(free, UNITS))
    assert refused.value.hint
    assert plan_block(block(free, UNITS, limit=3)).selection.name == "gumbel_top_k"


def test_an_unknown_mechanism_and_one_that_does_not_fit_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="no mechanism named magic"):
        plan_block(block(USUAL, UNITS), "magic")
    with pytest.raises(QueryRefused, match="known_domain does not answer"):
        plan_block(block(USUAL, UNITS), "known_domain")


def test_a_statement_reserves_the_sum_of_its_blocks() -> None:
    parts = [block(USUAL, UNITS), block(USUAL, ROWS, domain=4)]
    plan = plan_query(query(*parts))
    singles = [plan_block(part).loss(None) for part in parts]
    assert plan.reserved.rho == pytest.approx(sum(s.rho for s in singles), rel=1e-15)
    assert plan.reserved.delta == pytest.approx(sum(s.delta for s in singles), rel=1e-15)


def test_only_pay_what_you_get_may_settle_below_its_reservation() -> None:
    exact = plan_query(query(block(USUAL, UNITS), block(USUAL, ROWS, domain=4)))
    assert all(part.loss(0) == part.loss(None) for part in exact.blocks)
    free = replace(USUAL, max_groups_contributed=None)
    top = plan_query(query(block(free, UNITS, limit=10)))
    assert top.blocks[0].loss(0).rho < top.reserved.rho / 10

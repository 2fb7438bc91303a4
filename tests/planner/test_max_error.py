"""A maximum error is kept by the noise that is drawn, and by no less epsilon than it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Context, Decimal

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, query, summed
from helpers.failures import fails_with
from helpers.present import present
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import Error, Place
from dpsql.ir.measures import MaxError
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, NoiseColumn, NoiseFigure
from dpsql.kinds.registry import release_kind
from dpsql.planner import plan_block, plan_query, plan_within_epsilon
from dpsql.planner.max_error import error_within, exchange_rates, least
from dpsql.policy.parameters import EPSILON_LIMITS, ContributionBounding, Parameters
from dpsql.privacy.accounting.zcdp import Composition

USUAL = Parameters(
    epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=2, left_out_share=0.0
)
WEIGHING = replace(USUAL, contribution_bounding=ContributionBounding.WEIGHT)
UNLIMITED = replace(USUAL, max_groups_contributed=None)
SUM = summed(USUAL, 0, 100)
COARSE = summed(USUAL, -(2**30), 2**30)
PLACE = Place.in_text("count(*, max_error => 3)", 9, 23)


def asking(made: Block, *errors: float | None, confidence: float | None = None) -> Block:
    """A block whose aggregates may have these errors, their intervals shown with a confidence."""
    aggregates = tuple(
        replace(a, max_error=None if error is None else MaxError(error, PLACE))
        for a, error in zip(made.aggregates, errors, strict=True)
    )
    columns = [] if confidence is None else [NoiseColumn(0, NoiseFigure.LOW, confidence)]
    return replace(made, aggregates=aggregates, noise_columns=tuple(columns))


# Each with the errors it asks for, one per aggregate, and its confidence.
BLOCKS: dict[str, Block] = {
    "declared": asking(block(USUAL, ROWS, domain=8), 20),
    "declared, all touched": asking(block(UNLIMITED, UNITS, domain=8), 7.5),
    "one group": asking(block(USUAL, SUM, domain=1), 333),
    "unknown keys": asking(block(USUAL, UNITS, SUM), None, 2000),
    "unknown keys, both": asking(block(USUAL, UNITS, SUM), 30, 2000),
    "unknown keys, 99%": asking(block(USUAL, ROWS), 20, confidence=0.99),
    "unknown keys, 50%": asking(block(USUAL, ROWS), 20, confidence=0.5),
    "weighted": asking(block(WEIGHING, UNITS, domain=8), 3),
    "weighted, unknown": asking(block(WEIGHING, UNITS), 3),
    "coarse": asking(block(USUAL, COARSE, domain=4), 3e10),
    "largest": asking(block(USUAL, UNITS, limit=3), 12),
    "largest, unlimited": asking(block(UNLIMITED, UNITS, SUM, limit=5), 12, 900),
    "whole": asking(block(USUAL, UNITS, domain=3), 0.4),
}
COMPOSITIONS = tuple(Composition)


def widest(plan: BlockPlan, index: int, confidence: float) -> float:
    """Half the width of the widest interval that an answer may have."""
    counts = [*range(1, 6)] if plan.groups is None else [1]
    if plan.block.top_k is not None:  # LIMIT's choice is the worse the more it chooses from
        most, fetched = plan.max_released, plan.selection.top_rows_needed
        counts.append((fetched or 2) - 1 if most is None else most)
    found = [release_kind(plan).interval(n, index, [np.zeros(1)], confidence) for n in counts]
    return max(float(interval.high[0]) for interval in found)


def kept(plan: BlockPlan, made: Block) -> bool:
    shown = [column.confidence for column in made.noise_columns]
    return all(
        widest(plan, index, max([0.95, *shown])) <= aggregate.max_error.value
        for index, aggregate in enumerate(made.aggregates)
        if aggregate.max_error is not None
    )


def step_below(epsilon: float) -> float:
    """The next epsilon of four digits that is less."""
    return float(Context(prec=4).next_minus(Decimal(repr(epsilon))))


def faults(made: Block, composition: Composition) -> Iterator[str]:
    """What is wrong with the epsilon that is found for a block."""
    plan = plan_block(made, None, composition)
    epsilon = plan.block.parameters.epsilon
    if not kept(plan, made):
        yield f"{epsilon} does not keep it"
    less = replace(made, parameters=replace(made.parameters, epsilon=step_below(epsilon)))
    if kept(plan_within_epsilon(less, None, composition), made):
        yield f"less than {epsilon} keeps it"


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("name", BLOCKS)
def test_the_epsilon_keeps_the_error_and_one_step_less_would_not(
    name: str, composition: Composition
) -> None:
    made = BLOCKS[name]
    assert list(faults(made, composition)) == []
    plan = plan_block(made, None, composition)
    assert len(f"{Decimal(repr(plan.block.parameters.epsilon)).normalize():e}".split("e")[0]) <= 5
    # Nothing but the epsilon has changed, and what is stated is what is paid.
    assert replace(plan.block, parameters=made.parameters) == made
    worst, conversion = plan.loss(None), plan.conversion_delta
    assert worst.epsilon_at(conversion) <= plan.block.parameters.epsilon


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_taken_by_name_alone_is_not_taken_for_a_smaller_epsilon(
    name: str, composition: Composition
) -> None:
    (chosen,) = (c for c in plan_block(BLOCKS[name], None, composition).candidates if c.chosen)
    assert "only if asked for" not in chosen.verdict


def test_candidates_that_miss_the_error_say_so() -> None:
    candidates = plan_block(BLOCKS["declared"]).candidates
    verdicts = {c.chosen: c.verdict.split(" (")[0] for c in candidates}
    assert verdicts == {True: "smallest threshold or error", False: "exceeds max_error"}


def of_continuous_noise(plan: BlockPlan, index: int, confidence: float) -> float:
    """A solver that forgets the lattice: the noise as if it were continuous, and never rounded."""
    (measure,) = plan.block.aggregates[index].measures
    step, released = plan.measures[measure].measure.step, plan.spread_groups(5)
    return 1.96 * plan.noise_of(measure).std(released) * step


def at_usual_confidence(plan: BlockPlan, index: int, confidence: float) -> float:
    return widest(plan, index, 0.95)


def for_most_groups(plan: BlockPlan, index: int, confidence: float) -> float:
    """A solver that forgets that noise is larger where fewer groups share it."""
    interval = release_kind(plan).interval(plan.max_released or 1, index, [np.zeros(1)], confidence)
    return float(interval.high[0])


def doubled(plan: BlockPlan, index: int, confidence: float) -> float:
    return 2 * widest(plan, index, confidence)


@pytest.mark.parametrize(
    ("margin", "name"),
    [
        (of_continuous_noise, "weighted"),
        (at_usual_confidence, "unknown keys, 99%"),
        (for_most_groups, "largest, unlimited"),
        (doubled, "declared"),
    ],
)
def test_a_solver_that_forgets_something_is_caught(
    margin: Callable[[BlockPlan, int, float], float], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(faults(BLOCKS[name], Composition.ZCDP)) == []
    kind = type(release_kind(plan_block(BLOCKS[name])))
    monkeypatch.setattr(kind, "widest_margin", lambda self, *asked: margin(self.plan, *asked))
    assert list(faults(BLOCKS[name], Composition.ZCDP)) != []


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("name", ["declared", "unknown keys", "largest", "weighted, unknown"])
def test_half_the_error_costs_more(name: str, composition: Composition) -> None:
    made = BLOCKS[name]
    smaller = [a.max_error.value / 2 if a.max_error else None for a in made.aggregates]
    dear = plan_block(asking(made, *smaller), None, composition)
    cheap = plan_block(made, None, composition)
    assert dear.block.parameters.epsilon > 1.4 * cheap.block.parameters.epsilon


def test_where_the_search_starts_does_not_matter() -> None:
    found = set()
    for epsilon in (EPSILON_LIMITS[0], 0.01, 0.3333333, 7.0, EPSILON_LIMITS[1]):
        start = replace(USUAL, epsilon=epsilon)
        found.add(plan_block(replace(BLOCKS["declared"], parameters=start)).block.parameters)
    assert len(found) == 1


def test_each_block_of_a_query_gets_an_epsilon_of_its_own() -> None:
    blocks = BLOCKS["declared"], BLOCKS["one group"]
    both = plan_query(query(*blocks))
    assert both.blocks == tuple(map(plan_block, blocks))
    assert both.reserved.rho == sum(plan_block(each).loss(None).rho for each in blocks)


def test_a_mechanism_asked_for_by_name_is_the_one_that_keeps_the_error() -> None:
    made = BLOCKS["largest"]
    named = plan_block(made, "gumbel_top_k")
    assert named.selection.name == "gumbel_top_k"
    assert kept(named, made)
    with fails_with("mechanism_does_not_fit"):
        plan_block(made, "known_domain")


# -- what cannot be kept ----------------------------------------------------------------------


def refused_at(made: Block, most: float, composition: Composition) -> Error:
    with fails_with("max_error_too_small") as refused:
        plan_block(made, None, composition, most)
    assert refused.value.place == PLACE
    return refused.value


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("most", [0.05, 0.123456789])
def test_more_than_the_most_epsilon_is_refused_and_the_error_it_allows_is_told(
    most: float, composition: Composition
) -> None:
    made = BLOCKS["declared"]
    told = refused_at(made, most, composition).reason.rsplit("± ", 1)[1]
    allowed = float(told.replace(",", ""))
    plan = plan_block(asking(made, allowed), None, composition, most)
    assert plan.block.parameters.epsilon <= most
    assert widest(plan, 0, 0.95) <= allowed
    refused_at(asking(made, allowed - 1), most, composition)


def test_the_most_epsilon_itself_can_be_found() -> None:
    """Although it has more digits than what is searched."""
    most = 0.123456789
    error = widest(plan_block(block(replace(USUAL, epsilon=most), COARSE, domain=2)), 0, 0.95)
    plan = plan_block(asking(block(USUAL, COARSE, domain=2), error), most_epsilon=most)
    assert plan.block.parameters.epsilon == most


def test_a_lattice_too_coarse_for_the_error_is_refused_whatever_the_epsilon() -> None:
    made = asking(block(USUAL, COARSE, domain=2), COARSE.step / 2)
    assert "that dpsql allows" in refused_at(made, EPSILON_LIMITS[1], Composition.ZCDP).reason


# -- the search -------------------------------------------------------------------------------


@given(
    threshold=st.floats(1e-6, 1000.0),
    start=st.floats(1e-6, 1000.0),
    most=st.floats(1e-6, 1000.0),
    digits=st.sampled_from([2, 4]),
)
def test_the_least_epsilon_of_so_many_digits_is_found(
    threshold: float, start: float, most: float, digits: int
) -> None:
    def attempt(epsilon: float) -> float | None:
        assert EPSILON_LIMITS[0] <= epsilon <= most
        return epsilon if epsilon >= threshold else None

    found = least(attempt, min(start, most), most, digits)
    if threshold > most:
        assert found is None
        return
    context = Context(prec=digits, rounding="ROUND_CEILING")
    expected = float(context.create_decimal(Decimal(repr(threshold))))
    assert found == min(most, expected)


# -- the exchange rate ------------------------------------------------------------------------


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("made", [block(USUAL, UNITS, SUM), block(USUAL, ROWS, domain=5)])
def test_the_exchange_rate_is_what_the_epsilons_buy(made: Block, composition: Composition) -> None:
    def replan(again: Block) -> BlockPlan:
        return plan_within_epsilon(again, None, composition)

    plan = replan(made)
    rates = exchange_rates(plan, replan, EPSILON_LIMITS[1])
    epsilons = [rate.epsilon for rate in rates]
    assert len(rates) == 3
    assert epsilons == sorted(epsilons)
    assert epsilons[1] == 1.0
    for rate in rates:
        again = replan(replace(made, parameters=replace(USUAL, epsilon=rate.epsilon)))
        assert rate.margins == tuple(widest(again, i, 0.95) for i in range(len(made.aggregates)))
    twice, here, half = (present(rate.margins[0]) for rate in rates)
    assert 1.5 * here <= twice <= 2.5 * here
    assert half <= 0.75 * here


def test_there_is_no_rate_for_what_has_no_error_known_beforehand() -> None:
    averaged = block(
        USUAL, summed(USUAL, 0, 100, centered=True), replace(ROWS), average=True, domain=3
    )
    plan = plan_block(averaged)
    replan = plan_block
    assert exchange_rates(plan, replan, EPSILON_LIMITS[1]) == ()


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_share_of_the_price_buys_what_is_said(composition: Composition) -> None:
    made = BLOCKS["declared"]

    def replan(again: Block) -> BlockPlan:
        return plan_within_epsilon(again, None, composition)

    plan = plan_block(made, None, composition)
    whole = plan.loss(None)
    text = present(error_within(plan, 0.3, replan))
    allowed = float(text.rsplit("± ", 1)[1].replace(",", ""))
    cheaper = plan_block(asking(made, allowed), None, composition).loss(None)
    assert allowed > 20
    assert cheaper.rho <= 0.3 * whole.rho
    assert cheaper.epsilon <= 0.3 * whole.epsilon
    assert error_within(plan, 1e-14, replan) is None
    assert math.isfinite(allowed)

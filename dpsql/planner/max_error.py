"""Accuracy first: the least epsilon that keeps intervals as narrow as a query wants them.

Noise is public, so how wide the intervals of counts and sums will be is known before any row is
read. The answer to ``max_error`` is an epsilon, found by planning the block again and again: what
is compared are the margins of the very noise that would be drawn, on its lattice, with all that
rounding adds. Intervals that depend on released values (averages, spreads, quantiles) have no
width to promise; they are refused when the statement is read.

An epsilon found this way is no more than one that the analyst might have given: it follows from the
statement, the policy and the composition alone. Checked by ``tests/planner/test_max_error.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from dpsql.core.formatting import DEFAULT_CONFIDENCE, figure_above, level, significant
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import MaxError
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, NoiseFigure
from dpsql.kinds.registry import release_kind
from dpsql.policy.parameters import EPSILON_LIMITS
from dpsql.privacy.accounting.zcdp import PrivacyLoss

DIGITS: Final = 4
"""Significant digits of an epsilon that is found: the next one below is less by 0.1% at most."""
_RATE_DIGITS: Final = 2
_DECADES_BELOW_ONE: Final = 6
_RATED: Final = (0.5, 2.0)  # half the epsilon, and twice
_Found = TypeVar("_Found")
Replan = Callable[[Block], BlockPlan]


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """The maximum width of an aggregate's intervals, at a confidence."""

    aggregate: int
    error: MaxError
    confidence: float

    def margin(self, plan: BlockPlan) -> float:
        """Compute half the width of the widest interval there can be."""
        margin = release_kind(plan).widest_margin(self.aggregate, self.confidence)
        assert margin is not None, "of counts and sums, in so many groups"
        return margin

    def kept(self, plan: BlockPlan) -> bool:
        """Tell whether no interval is wider, however many groups come out."""
        return self.margin(plan) <= self.error.value


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """The error that an epsilon buys: half the width of 95% intervals, per aggregate.

    In the units of the answer, for the number of groups where it is largest; None for aggregates
    whose intervals depend on what is released.
    """

    epsilon: float
    margins: tuple[float | None, ...]


def error_targets(block: Block) -> tuple[ErrorTarget, ...]:
    """List the maximum errors of a block, at 95% or at the confidence of its intervals."""
    return tuple(
        ErrorTarget(index, aggregate.max_error, _confidence(block, index))
        for index, aggregate in enumerate(block.aggregates)
        if aggregate.max_error is not None
    )


def _confidence(block: Block, index: int) -> float:
    """Return the largest confidence of an aggregate's intervals in the answer."""
    asked = [
        column.confidence
        for column in block.noise_columns
        if column.aggregate == index and column.figure is not NoiseFigure.SCALE
    ]
    return max(DEFAULT_CONFIDENCE, *asked) if asked else DEFAULT_CONFIDENCE


def with_epsilon(block: Block, epsilon: float) -> Block:
    """Return the block with another epsilon to spend."""
    return replace(block, parameters=replace(block.parameters, epsilon=epsilon))


def plan_with_least_epsilon(block: Block, replan: Replan, most: float) -> BlockPlan:
    """Plan a block with the least epsilon, of ``DIGITS`` digits, that keeps its ``error_targets``.

    ``replan`` plans a block within its epsilon, which may be ``most`` at most. With one step less
    epsilon the plan would not keep them. Where contribution bounds are open, the plan is one for
    the usual ones, or for the least where those keep no error; and it has the block's own epsilon
    where all targets rest on bounds of values that are open. It has that, too, and keeps less,
    where no epsilon keeps them with bounds that were found: these are paid for. Raises
    ``QueryRefused`` (``max_error_too_small``) if none does else, and (``error_not_public``) where
    the noise depends on what is released, and what ``replan`` raises if the block cannot be planned
    at all.
    """
    targets = error_targets(block)
    if block.cascades:
        raise _chosen_noise(targets)
    targets = tuple(
        target for target in targets if not block.rests_on_open(block.aggregates[target.aggregate])
    )
    if not targets:
        return replan(block)

    def attempt(block: Block, epsilon: float) -> BlockPlan | None:
        plan = _planned(block, epsilon, replan)
        return plan if plan is not None and all_kept(plan, targets) else None

    for bounded in (block, *_with_least_bounds(block)):
        found = least(partial(attempt, bounded), block.parameters.epsilon, most, DIGITS)
        if found is not None:
            return found
    if block.bounds_found is not None and block.bounds_found.known:
        return replan(block)
    raise _out_of_reach(replan(with_epsilon(bounded, most)), targets, most)


def margins_missed(plan: BlockPlan) -> str | None:
    """Word the margins of a plan beside its maximum errors; None where none is missed.

    It may where bounds were found, which decide what the error costs.
    """
    found = plan.block.bounds_found
    if found is None or not found.known:
        return None
    widest = release_kind(plan).widest_margin
    missed = [
        target
        for target in error_targets(plan.block)
        if (widest(target.aggregate, target.confidence) or 0.0) > target.error.value
    ]
    if not missed:
        return None
    asked = ", ".join(f"± {target.error.value:g}" for target in missed[:4])
    return f"{_in_words(plan, tuple(missed))}, and not {asked}"


def _with_least_bounds(block: Block) -> Iterator[Block]:
    """Yield the block with the least bounds in place of the usual ones, where they are open."""
    found, parameters = block.bounds_found, block.parameters
    if found is None or found.known:
        return
    if found.rows:
        parameters = replace(parameters, max_rows_contributed=1)
    if found.groups:
        parameters = replace(parameters, max_groups_contributed=1)
    yield replace(block, parameters=parameters)


def least(
    attempt: Callable[[float], _Found | None], start: float, most: float, digits: int
) -> _Found | None:
    """Return the result of ``attempt`` at the least epsilon of so many digits that has one.

    None if it finds none up to ``most``. The search leaves ``start`` by factors of two, to the
    first change, and halves what is between: it is the least of all where more epsilon never
    hurts, and one step less finds nothing in any case.
    """
    top = _index(most, digits)
    top += _epsilon_at(top, digits) < most

    def value(index: int) -> float:
        return min(most, _epsilon_at(index, digits))

    above = min(top, _index(start, digits))
    found, below = attempt(value(above)), above
    while found is None and above < top:
        below, above = above, min(top, max(above + 1, _index(2 * value(above), digits)))
        found = attempt(value(above))
    if found is None:
        return None
    while below == above and below > 0:
        below = min(below - 1, _index(value(below) / 2, digits))
        lower = attempt(value(below))
        if lower is not None:
            above, found = below, lower
    while above - below > 1:
        middle = (above + below) // 2
        lower = attempt(value(middle))
        if lower is None:
            below = middle
        else:
            above, found = middle, lower
    return found


def exchange_rates(plan: BlockPlan, replan: Replan, most: float) -> tuple[ExchangeRate, ...]:
    """List the errors that a plan's epsilon buys, and about half and twice as much of it.

    The two others have two digits; they are left out where no mechanism answers with them, and
    above ``most``. Empty if no aggregate has an error known beforehand.
    """
    here = _rate(plan)
    if not any(here.margins):
        return () if all(margin is None for margin in here.margins) else (here,)
    grid = (_index(here.epsilon * factor, _RATE_DIGITS) for factor in _RATED)
    epsilons = [_epsilon_at(place, _RATE_DIGITS) for place in grid]
    others = [
        _planned(plan.block, epsilon, replan)
        for epsilon in epsilons
        if epsilon <= most and epsilon != here.epsilon
    ]
    found = [here, *(_rate(other) for other in others if other is not None)]
    return tuple(sorted(found, key=lambda rate: rate.epsilon))


def error_within(plan: BlockPlan, share: float, replan: Replan) -> str | None:
    """Say how near a block that asks for a maximum error comes to it for a share of its price.

    None if it cannot be answered for that.
    """
    loss = plan.loss(None)
    epsilon = loss.epsilon * share
    if loss.rho > 0:
        epsilon = loss.converted(loss.rho * share, plan.conversion_delta)
    if epsilon < EPSILON_LIMITS[0]:
        return None
    index = _index(epsilon, _RATE_DIGITS)
    for place in range(index, max(-1, index - 3), -1):
        other = _planned(plan.block, _epsilon_at(place, _RATE_DIGITS), replan)
        if other is not None and _costs_less(other.loss(None), loss, share):
            return _in_words(other, error_targets(plan.block))
    return None


# -- grids of epsilons -------------------------------------------------------------------------


def _epsilon_at(index: int, digits: int) -> float:
    """Return an epsilon of so many significant digits: the number 0 is the least one allowed."""
    first = 10 ** (digits - 1)
    decade, mantissa = divmod(index, 9 * first)
    return float(f"{first + mantissa}e{decade - _DECADES_BELOW_ONE - digits + 1}")


def _index(epsilon: float, digits: int) -> int:
    """Return the number of the largest such epsilon not above this one; 0 without any."""
    first: int = 10 ** (digits - 1)
    decade = max(0, math.floor(math.log10(epsilon)) + _DECADES_BELOW_ONE)
    mantissa = epsilon / 10.0 ** (decade - _DECADES_BELOW_ONE) * first
    index = max(0, 9 * first * decade + math.floor(mantissa) - first)
    while _epsilon_at(index + 1, digits) <= epsilon:
        index += 1
    while index > 0 and _epsilon_at(index, digits) > epsilon:
        index -= 1
    return index


# -- plans and their errors --------------------------------------------------------------------


def _planned(block: Block, epsilon: float, replan: Replan) -> BlockPlan | None:
    """Plan a block with an epsilon, or return None where no mechanism can answer it with that."""
    try:
        return replan(with_epsilon(block, epsilon))
    except (ParameterError, QueryRefused):
        return None


def all_kept(plan: BlockPlan, targets: tuple[ErrorTarget, ...]) -> bool:
    """Tell whether a plan keeps all of these."""
    return all(target.kept(plan) for target in targets)


def _rate(plan: BlockPlan) -> ExchangeRate:
    margins = tuple(
        release_kind(plan).widest_margin(index, DEFAULT_CONFIDENCE)
        for index in range(len(plan.block.aggregates))
    )
    return ExchangeRate(plan.block.parameters.epsilon, margins)


def _costs_less(loss: PrivacyLoss, whole: PrivacyLoss, share: float) -> bool:
    return loss.rho <= whole.rho * share and loss.epsilon <= whole.epsilon * share


def _in_words(plan: BlockPlan, targets: tuple[ErrorTarget, ...]) -> str:
    """Say how near the aggregates come that were to come nearer."""
    found = [
        f"{plan.block.aggregates[target.aggregate].text} is within ± "
        f"{figure_above(target.margin(plan))}"
        for target in targets
    ]
    return f"at epsilon {significant(plan.block.parameters.epsilon)} {', '.join(found[:4])}"


def _chosen_noise(targets: tuple[ErrorTarget, ...]) -> QueryRefused:
    """Build the refusal of an error where the noise is chosen on the way."""
    return QueryRefused(
        "with max_groups_contributed = auto the noise depends on how many groups units turn out to "
        "have: no epsilon keeps max_error whatever the rows are",
        code="error_not_public",
        place=targets[0].error.place,
        hint="Set max_groups_contributed to a number, or give epsilon instead.",
    )


def _out_of_reach(plan: BlockPlan, targets: tuple[ErrorTarget, ...], most: float) -> QueryRefused:
    """Build the refusal of an error that no epsilon keeps."""
    missed = next((target for target in targets if not target.kept(plan)), targets[0])
    whose = "that the policy allows" if most < EPSILON_LIMITS[1] else "that dpsql allows"
    text = plan.block.aggregates[missed.aggregate].text
    hint = (
        "Ask for a larger max_error, for fewer numbers at once, or let a unit contribute less "
        "(max_groups_contributed, max_rows_contributed, closer bounds)."
    )
    return QueryRefused(
        f"no epsilon {whose} keeps {text} within ± {missed.error.value:g} "
        f"with {level(missed.confidence)} confidence: {_in_words(plan, targets)}",
        code="max_error_too_small",
        place=missed.error.place,
        hint=hint,
    )

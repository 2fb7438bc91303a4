"""The plan of a view in words: its price, its noise and thresholds by step, beside repetition."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpsql.core.formatting import significant
from dpsql.views.explain_listings import few_steps, listing_lines
from dpsql.views.listing_plan import ListingPlan
from dpsql.views.plan import ViewPlan
from dpsql.views.prepare import PreparedView


def explain_view(view: PreparedView) -> str:
    """Tell what a view would cost, and what noise each of its steps would have."""
    return "\n".join(_lines(view))


def _lines(view: PreparedView) -> Iterator[str]:
    yield from _promised(view)
    plan = view.plan
    yield from listing_lines(plan) if isinstance(plan, ListingPlan) else _running(plan)


def _promised(view: PreparedView) -> Iterator[str]:
    plan, definition = view.plan, view.plan.definition
    steps, block, loss = definition.steps, plan.block, plan.loss
    epsilon, delta = definition.parameters.epsilon, definition.parameters.delta
    yield f"materialized view {definition.name} over {block.table}"
    start = f"{steps.start:%Y-%m-%d %H:%M} {steps.zone}"
    yield f"  {steps.count:,} steps of {steps.period}, from {start}"
    yield f"  price: epsilon {significant(epsilon)}, delta {significant(delta)}, once for all steps"
    yield f"  (rho {significant(loss.rho)}, delta {significant(loss.delta)}); nothing is refunded"
    yield f"  protects: {block.unit_name} ({block.unit_column}), over all steps together"
    if block.groups_chosen:
        yield f"  max_groups_contributed is {block.groups_chosen}"


def _running(plan: ViewPlan) -> Iterator[str]:
    definition, block = plan.definition, plan.block
    steps = definition.steps
    yield f"  contributions: at most {plan.groups:,} groups per unit over all steps, the first ones"
    yield f"  at most {block.parameters.max_rows_contributed:,} rows of a unit in each"
    yield f"  mechanism: {plan.histogram.name}"
    if definition.window is not None:
        yield f"  each value covers the last {definition.window:,} steps"
    for index, noise in enumerate(plan.noises):
        measure = plan.measures[index]
        yield f"  noise of {measure.name}: standard deviation by step"
        for step in few_steps(steps.count):
            std = noise.std(step) * measure.step
            yield f"    step {step:,}: {significant(std)}"
        yield f"    one answer at this price: {significant(_once(plan, index) * measure.step)}; "
        repeated = _once(plan, index) * math.sqrt(steps.count) * measure.step
        yield f"    asked again at every step: {significant(repeated)}"
    thresholds = plan.histogram.thresholds()
    if thresholds is None:
        yield "  groups: all declared ones, at every step"
        return
    score = plan.measures[plan.score]
    yield f"  groups: those whose noisy {score.name} exceeds"
    for step in few_steps(steps.count):
        yield f"    step {step:,}: {int(thresholds[step - 1]):,}"


def _once(plan: ViewPlan, index: int) -> float:
    """Return the standard deviation of a single answer that costs as much as the whole view."""
    noise = plan.noises[index]
    return noise.sigma / math.sqrt(float(noise.factorisation.norm_squared))

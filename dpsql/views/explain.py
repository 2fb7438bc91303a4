"""The plan of a view in words and numbers: its price, and its noise and thresholds by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpsql.core.formatting import several
from dpsql.ir.plan import PreparedBoundsChoice, PreparedValueBounds
from dpsql.privacy.mechanisms.bounds_choice import NONE
from dpsql.privacy.streams.mechanism import few_steps
from dpsql.privacy.streams.topk import single_top_k_std
from dpsql.results.explanation import (
    Explanation,
    StreamFigures,
    StreamNoiseFigure,
    explain_block,
)
from dpsql.views.plan import ViewPlan
from dpsql.views.prepare import PreparedView


def explain_view(view: PreparedView, sql: str) -> Explanation:
    """Return the explanation of a view; ``sql`` is the reading of its first step."""
    plan, definition = view.plan, view.plan.definition
    bounds = view.bounds
    last = replace(
        plan.at(definition.steps.count),
        bounds_choice=next((b.choice for b in bounds if isinstance(b, PreparedBoundsChoice)), None),
        value_bounds=tuple(b.choice for b in bounds if isinstance(b, PreparedValueBounds)),
    )
    shown = explain_block(last, sql)
    block = replace(
        shown,
        declared=(*shown.declared, *_drawn(view)),
        bounding=_bounding(plan),
        base_rank=plan.mechanism.base_rank,
        reserved=view.loss,
        least=view.loss,
        stream=_figures(plan),
    )
    return Explanation(
        query=definition.text,
        blocks=(block,),
        reserved=view.loss,
        reserved_epsilon=definition.parameters.epsilon,
        conversion_delta=plan.conversion_delta,
    )


def _drawn(view: PreparedView) -> Iterator[str]:
    """Name the rows of a draw, and contribution bounds without a drawn number."""
    plan = view.plan
    if view.bounds and view.between is not None:
        first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in view.between)
        yield f"rows from {first} to {last} tell, as long a time as all steps take"
    drawn, parameters = plan.definition.drawn, plan.definition.parameters
    if drawn is None:
        return
    why = "the usual number, as too few units had rows to find one"
    if drawn.rows == NONE:
        yield f"max_rows_contributed is {parameters.rows_limit:,}, {why}"
    if drawn.groups == NONE:
        yield f"max_groups_contributed is {parameters.groups_limit:,}, {why}"


def _bounding(plan: ViewPlan) -> str:
    """Word the bound on a unit's contributions over all steps."""
    rows = several(plan.block.parameters.rows_limit, "row")
    if not plan.block.keys:
        return f"at most {rows} per unit over all steps"
    groups = "any number of groups"
    if plan.groups is not None:
        groups = f"its first {several(plan.groups, 'group')}"
    at = "at its first step only" if plan.one_step else "at any step"
    each = (
        f"{plan.reaches[0]:,} to the count of each" if plan.mechanism.chooses else f"{rows} in each"
    )
    return f"over all steps a unit adds to {groups}, {at}, and at most {each}"


def _figures(plan: ViewPlan) -> StreamFigures:
    steps, window = plan.definition.steps, plan.definition.window
    few, thresholds = few_steps(steps.count), plan.mechanism.thresholds()
    start = f"{steps.start:%Y-%m-%d %H:%M} {steps.zone}"
    covered = "all since the start" if window is None else f"the last {window:,} steps"
    return StreamFigures(
        lasting=f"{steps.count:,} of {steps.period}, from {start}, paid for once",
        covered=f"a value covers {covered}",
        choices=plan.mechanism.choices,
        steps=tuple(few),
        noises=tuple(_noises(plan, few)),
        thresholds=None if thresholds is None else tuple(float(thresholds[t - 1]) for t in few),
    )


def _noises(plan: ViewPlan, steps: Sequence[int]) -> Iterator[StreamNoiseFigure]:
    alone: list[float | None] = [noise.once for noise in plan.noises]
    if plan.mechanism.chooses:
        top_k, rho = plan.block.top_k, plan.mechanism.loss.rho
        once = None if top_k is None else single_top_k_std(rho, plan.reaches[0], top_k.limit)
        alone = [once]
    for measure, noise, once in zip(plan.measures, plan.streams, alone, strict=True):
        single = None if once is None else once * measure.step
        yield StreamNoiseFigure(
            measure=measure.name,
            noise=noise.name,
            stds=tuple(noise.std(step) * measure.step for step in steps),
            once=single,
            repeated=None if single is None else single * math.sqrt(plan.definition.steps.count),
        )

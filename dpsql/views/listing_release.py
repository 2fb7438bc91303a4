"""What a step of a view lists: exact counts and choices in, released rows out.

All that is drawn is a function of the keys of the steps so far, and of rows that no later step can
change: a choice is drawn once and kept in the state, a cell of a tree has what its own steps have
added. So whatever stopped a step, the next one goes on with the same choices and the same cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.kinds.released import drawn_columns
from dpsql.kinds.values import aggregate_answers
from dpsql.privacy.mechanisms.additive import Steps as NoisySteps
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.meta import Cell, CellRelease, MetaHistogram
from dpsql.privacy.streams.sparse import SparseChoice, SparseTopK
from dpsql.privacy.streams.topk import ScheduledTopK
from dpsql.views.choices import ChosenGroups, KeptChoice
from dpsql.views.listing_plan import ListingPlan
from dpsql.views.publication import GroupTexts, StepRelease, exact_groups
from dpsql.views.state import Totals, ViewState

_Listed: TypeAlias = tuple[Sequence[GroupTexts], NoisySteps]
"""Groups and their noisy counts, in any order."""


def draw_listing(plan: ListingPlan, step: int, totals: Totals, state: ViewState) -> StepRelease:
    """Draw what a view lists at a step, whose rows the state has absorbed.

    ``totals`` are the exact values of the step. Guarantee: over all steps ``plan.loss``, for what a
    ``ViewState`` of the plan's shape has counted.
    """
    match plan.mechanism:
        case ScheduledTopK():
            found = _scheduled(plan, plan.mechanism, step, totals, state)
        case SparseTopK():
            found = _sparse(plan, plan.mechanism, step, totals, state)
        case MetaHistogram():
            found = _of_cells(plan, plan.mechanism, step, state)
    return _presented(plan, step, *found)


def _presented(
    plan: ListingPlan, step: int, groups: Sequence[GroupTexts], noisy: NoisySteps
) -> StepRelease:
    """Select what is shown of the released groups, in the order of their keys: post-processing."""
    block = plan.block
    # First of all by key: groups may come in the order of their exact counts, and ties would tell.
    order = sorted(range(len(groups)), key=lambda i: _key_order(plan, groups[i]))
    places = np.array(order, dtype=np.intp)
    if block.hides_small_groups:
        places = places[noisy[places] >= block.parameters.min_units_per_group]
    if block.top_k is not None:
        largest = np.argsort(-noisy[places], kind="stable")[: block.top_k.limit]
        places = places[np.sort(largest)]
    shown = places.tolist()
    with np.errstate(all="ignore"):
        answers = aggregate_answers(plan.at(step), [noisy[shown]], {})
    columns = {name: answers[name] for name in drawn_columns(block)}
    return StepRelease(step, tuple(groups[i] for i in shown), columns)


def _key_order(plan: ListingPlan, group: GroupTexts) -> tuple[tuple[bool, int | str], ...]:
    if plan.block.known_domain:
        return tuple((True, int(text or 0)) for text in group)
    return tuple((text is not None, text or "") for text in group)


# -- a schedule, a sparse vector ------------------------------------------------------------------


def _scheduled(
    plan: ListingPlan, mechanism: ScheduledTopK, step: int, totals: Totals, state: ViewState
) -> _Listed:
    """List the groups chosen last; choose where the schedule says so and nothing is chosen yet.

    A choice whose own step was used up by a failure is made at the next one, in its place: there
    are never more than the schedule has.
    """
    due = mechanism.latest(step)
    if due is None:
        return [], np.empty(0, dtype=np.float64)
    groups, exact = exact_groups(plan.block, totals)
    kept = state.choices.all().get(due)
    if kept is not None:
        chosen = kept.groups
    else:
        ranked = _in_order(mechanism.selection.top_rows_needed, groups, exact)
        picked = ranked[mechanism.choose(due, exact[ranked], state.keys[step - 1])]
        chosen = tuple(groups[i] for i in picked.tolist())
        state.choices.keep(due, KeptChoice(step, chosen))
    names = [encode_group(group) for group in chosen]
    return chosen, mechanism.noisy(step, _counts_of(chosen, groups, exact), names, state.keys)


def _sparse(
    plan: ListingPlan, mechanism: SparseTopK, step: int, totals: Totals, state: ViewState
) -> _Listed:
    """List the groups chosen last; choose anew once the sparse vector says yes."""
    groups, exact = exact_groups(plan.block, totals)
    names = [encode_group(group) for group in groups]
    before = _last_choice(groups, state.choices.all())
    if before is None:
        choice = mechanism.first(step, exact, state.keys)
    else:
        choice = mechanism.advance(before, step, exact, names, state.keys)
    listed = tuple(groups[i] for i in choice.listed)
    if choice is not before:
        state.choices.keep(choice.choices, KeptChoice(step, listed))
    return listed, mechanism.noisy(choice, step, exact, names, state.keys)


def _last_choice(groups: Sequence[GroupTexts], kept: dict[int, KeptChoice]) -> SparseChoice | None:
    if not kept:
        return None
    wanted = {group for choice in kept.values() for group in choice.groups}
    places = {group: i for i, group in enumerate(groups) if group in wanted}
    last = kept[max(kept)]
    listed = tuple(places[group] for group in last.groups)
    return SparseChoice(listed, max(kept), frozenset(places.values()), last.step)


# -- the cells of a tree --------------------------------------------------------------------------


def _of_cells(plan: ListingPlan, mechanism: MetaHistogram, step: int, state: ViewState) -> _Listed:
    """Add up what the cells of a step release, each the same whenever it is asked."""
    released: dict[Cell, CellRelease] = {}
    texts: dict[bytes, GroupTexts] = {}
    encoded = cache(encode_group)
    for cell in mechanism.tree.nodes(step):
        groups, exact = exact_groups(plan.block, state.added(*mechanism.steps_of(cell)))
        order = _in_order(mechanism.selection.top_rows_needed, groups, exact)
        names = [encoded(groups[i]) for i in order.tolist()]
        part = released[cell] = mechanism.release_cell(cell, exact[order], names, state.keys)
        known = dict(zip(names, order.tolist(), strict=True))
        texts |= {name: groups[known[name]] for name in part.groups}
    totals = mechanism.running(step, released)
    return [texts[name] for name in totals], np.array(list(totals.values()), dtype=np.float64)


# -- exact counts ---------------------------------------------------------------------------------


def _in_order(
    needed: int | None, groups: Sequence[GroupTexts], exact: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Sort the places of the ``needed`` largest groups, ties by their keys; not those of all."""
    if needed is None:
        return np.arange(len(groups))
    # Groups of no count do not exist: some that were counted may lie outside of what is summed.
    least = max(1, int(np.sort(exact)[-needed]) if len(exact) > needed else 1)
    near = np.flatnonzero(exact >= least).tolist()
    near.sort(key=lambda i: (-int(exact[i]), encode_group(groups[i])))
    return np.array(near[:needed], dtype=np.intp)


def _counts_of(
    chosen: ChosenGroups, groups: Sequence[GroupTexts], exact: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Look up the exact counts of chosen groups; 0 for one that a window has left behind."""
    wanted = set(chosen)
    found = {group: int(exact[i]) for i, group in enumerate(groups) if group in wanted}
    return np.array([found.get(group, 0) for group in chosen], dtype=np.int64)

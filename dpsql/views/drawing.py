"""Drawing of a view's step: exact totals and keys of steps in, released rows out.

All that is drawn is a function of the keys of the steps so far, and of rows that no later step can
change: they are stored with what each step has added, a choice is drawn once and kept in the state,
a cell of a tree has what its own steps have added. So whatever stopped a step, the next one goes on
with the same noise, the same choices and the same cells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.measures import MeasureKind
from dpsql.ir.query import Block
from dpsql.kinds.released import aggregate_answers, drawn_columns
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.mechanism import Choice, Listed, StreamCounts
from dpsql.views.choices import KeptChoice
from dpsql.views.noise import ViewNoise
from dpsql.views.plan import ViewPlan
from dpsql.views.publication import GroupTexts, StepRelease
from dpsql.views.state import Totals, ViewState


def draw_step(
    plan: ViewPlan,
    step: int,
    totals: Totals,
    state: ViewState,
    noise: ViewNoise | None,
    listed: Collection[GroupTexts],
) -> StepRelease:
    """Draw the release of a step, after the state has absorbed its rows.

    ``totals`` are its exact values, ``noise`` is that of running measures, None where groups are
    chosen; ``listed`` are the groups of the step before. Guarantee: over all steps ``plan.loss``,
    for what a ``ViewState`` of the plan's shape has counted.
    """
    if plan.block.known_domain:
        totals = _dense(plan.block, totals)
    found = plan.mechanism.answer(_counts(plan, step, totals, state, noise, listed))
    return presented(plan, step, totals.keys, found)


def presented(
    plan: ViewPlan, step: int, keys: Sequence[Sequence[str | None]], found: Listed
) -> StepRelease:
    """Select the shown groups of a step, in the order of their keys.

    ``keys`` are those of all groups as texts, by column; of a declared domain their positions.
    """
    block = plan.block
    # First of all by key: groups may come in the order of their exact counts, and ties would tell.
    order = np.argsort(found.places) if block.known_domain else _by_keys(plan, keys, found.places)
    places, values = found.places[order], [column[order] for column in found.values]
    if block.hides_small_groups:
        units = values[[measure.kind for measure in plan.measures].index(MeasureKind.UNITS)]
        large = units >= block.parameters.min_units_per_group
        places, values = places[large], [column[large] for column in values]
    if block.top_k is not None:
        largest = np.argsort(-values[block.top_k.measure], kind="stable")[: block.top_k.limit]
        largest = np.sort(largest)
        places, values = places[largest], [column[largest] for column in values]
    with np.errstate(all="ignore"):
        noisy = [column.astype(np.float64) for column in values]
        answers = aggregate_answers(plan.at(step), noisy)
    groups = tuple(_texts(keys, place) for place in places.tolist())
    return StepRelease(step, groups, {name: answers[name] for name in drawn_columns(block)})


def _by_keys(
    plan: ViewPlan, keys: Sequence[Sequence[str | None]], places: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the order of groups by their keys as texts; NULL is first where groups are chosen."""
    first = plan.mechanism.chooses
    rows = [
        tuple(((text is None) != first, text or "") for text in _texts(keys, place))
        for place in places.tolist()
    ]
    return np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.intp)


def _counts(
    plan: ViewPlan,
    step: int,
    totals: Totals,
    state: ViewState,
    noise: ViewNoise | None,
    listed: Collection[GroupTexts],
) -> StreamCounts:
    """Give a mechanism the counts of a step, and the choices in the state.

    The place of a group is its number in the state, or its position in the declared domain.
    """
    block, keys = plan.block, totals.keys
    name = cache(lambda place: encode_group(_texts(keys, place)))

    def places_of(groups: Collection[GroupTexts]) -> dict[GroupTexts, int]:
        found = zip(*keys, strict=True) if keys else [()]
        return {g: place for place, g in enumerate(found) if g in groups} if groups else {}

    def noisy() -> list[NDArray[np.int64]]:
        assert noise is not None
        noises = noise.at(step, keys, totals.count)
        return [exact + drawn for exact, drawn in zip(totals.values, noises, strict=True)]

    def added(first: int, last: int) -> NDArray[np.int64]:
        found = state.added(first, last)
        return (_dense(block, found) if block.known_domain else found).values[plan.score]

    def choices() -> dict[int, Choice]:
        kept = state.choices.all()
        places = places_of({group for choice in kept.values() for group in choice.groups})
        return {
            number: Choice(choice.step, tuple(places[group] for group in choice.groups))
            for number, choice in kept.items()
        }

    def keep(number: int, places: Sequence[int]) -> None:
        groups = tuple(_texts(keys, place) for place in places)
        state.choices.keep(number, KeptChoice(step, groups))

    # Of a top-k, and of a window, only what stands out now is shown.
    stays = plan.definition.window is None and not block.hides_small_groups and block.top_k is None
    before = np.zeros(totals.count, dtype=np.bool_)
    before[list(places_of(frozenset(listed) if stays else ()).values())] = True
    return StreamCounts(
        step=step,
        keys=state.keys,
        score=plan.score,
        exact=totals.values[plan.score],
        since_start=totals.since_start[plan.score],
        before=before,
        noisy=noisy,
        names=lambda places: list(map(name, places)),
        added=added,
        choices=choices,
        keep=keep,
    )


def _dense(block: Block, totals: Totals) -> Totals:
    """Return the totals of all declared groups, by their keys' positions, in the domain's order."""
    sizes = [len(key.domain or ()) for key in block.keys]
    size = block.domain_size
    places = np.zeros(totals.count, dtype=np.int64)
    for column, number in zip(totals.keys, sizes, strict=True):
        places = places * number + np.array([int(text or 0) - 1 for text in column], dtype=np.int64)
    dense = [np.zeros(size, dtype=np.int64) for _ in totals.values]
    for whole, values in zip(dense, totals.values, strict=True):
        whole[places] = values
    positions = np.unravel_index(np.arange(size), sizes) if sizes else ()
    keys: list[list[str | None]] = [list(map(str, (row + 1).tolist())) for row in positions]
    return Totals(size, keys, dense, dense)  # all of them exist


def _texts(keys: Sequence[Sequence[str | None]], place: int) -> GroupTexts:
    return tuple([column[place] for column in keys])

"""The plan of a view whose groups are chosen, in words: contributions, choices and noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dpsql.core.formatting import ordinal, significant
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import correlated_gaussian
from dpsql.privacy.streams.meta import MetaHistogram
from dpsql.privacy.streams.separate import SeparateContinualNoise
from dpsql.privacy.streams.sparse import SparseTopK
from dpsql.privacy.streams.topk import ScheduledTopK
from dpsql.views.listing_plan import ListingPlan, mechanism_name, noise_std

_SHOWN: Final = 5  # steps, of those that are spread over all
_LISTED: Final = 12  # steps of a schedule
_LIKELY: Final = 0.95


def listing_lines(plan: ListingPlan) -> Iterator[str]:
    """Tell how a view chooses the groups that it lists, and what noise their counts have."""
    yield from _contributions(plan)
    mechanism = plan.mechanism
    yield f"  mechanism: {mechanism_name(mechanism)}"
    if plan.definition.window is not None:
        yield f"  each value covers the last {plan.definition.window:,} steps"
    match mechanism:
        case ScheduledTopK():
            yield from _schedule(plan, mechanism)
        case SparseTopK():
            yield from _sparse(mechanism)
        case MetaHistogram():
            yield from _cells(plan, mechanism)
    yield f"  noise of {plan.measure.name}: standard deviation by step"
    for step in few_steps(plan.definition.steps.count):
        yield f"    step {step:,}: {significant(noise_std(mechanism, step))}"
    yield from _repeated(plan)


def _repeated(plan: ListingPlan) -> Iterator[str]:
    """Compare with a top-k that is asked once, half of its price for its counts; and T times."""
    if plan.block.top_k is None:
        return
    k, half = plan.block.top_k.limit, plan.mechanism.loss.rho / 2
    prices = PrivacyLoss(half), PrivacyLoss(half / plan.definition.steps.count)
    once, each = (correlated_gaussian(price, plan.sensitivity, k).std(k) for price in prices)
    yield f"    one answer at this price: {significant(once)};"
    yield f"    asked again at every step: {significant(each)}"


def few_steps(count: int) -> list[int]:
    """List the first of ``count`` steps, the last one, and some between them at equal ratios."""
    spread = {round(count ** (i / (_SHOWN - 1))) for i in range(_SHOWN)}
    return sorted(spread | {1, count})


def _contributions(plan: ListingPlan) -> Iterator[str]:
    cap = plan.groups
    groups = "any number of groups" if cap is None else f"at most {cap:,} groups, the first ones"
    yield f"  contributions: of a unit to {groups},"
    if plan.one_step:
        yield "  at one step only: the first that reads rows of it; later ones do not count it"
    else:
        yield "  at any of the steps"
    yield f"  at most {plan.sensitivity:,} to the count of each group, over all steps together"


def _schedule(plan: ListingPlan, mechanism: ScheduledTopK) -> Iterator[str]:
    chosen = mechanism.schedule
    yield f"  the {mechanism.selection.k:,} largest groups are chosen at {len(chosen):,} steps:"
    yield f"    {_some(chosen)}; between them the same are listed"
    yield from _inclusion(plan, "a choice")
    yield from _shared(plan)


def _sparse(mechanism: SparseTopK) -> Iterator[str]:
    picks, switches = mechanism.selection.picks, mechanism.switches
    margin, scale = mechanism.margins[0], significant(mechanism.vector.noise.scale)
    yield f"  the {picks:,} largest declared groups are chosen at the first step, and at most"
    yield f"  {switches:,} times anew: once another seems to exceed the smallest noisy count listed"
    yield f"  by more than {margin:,}, with Laplace noise of scale {scale} on both sides; steps at"
    yield "  which none does cost nothing"


def _cells(plan: ListingPlan, mechanism: MetaHistogram) -> Iterator[str]:
    tree = mechanism.tree
    yield f"  every cell of a tree of base {tree.base} with {tree.levels} levels is published once,"
    yield "  from the rows of its own steps; a step adds up the cells it consists of:"
    for step in few_steps(plan.definition.steps.count):
        yield f"    cells of step {step:,}: {len(tree.nodes(step)):,}"
    if mechanism.margin(1, _LIKELY) is None:
        yield "  a group that a cell has not released counts nothing in it"
    yield from _inclusion(plan, "a cell")


def _inclusion(plan: ListingPlan, where: str) -> Iterator[str]:
    """Tell how large a group must be to come out, where keys are unknown."""
    if plan.block.known_domain:
        return
    needed = plan.mechanism.selection.score_for_inclusion(_LIKELY)
    if needed is None:
        return
    floor, base = plan.block.parameters.min_units_per_group - 1, plan.block.parameters.k_bar + 1
    yield f"  a group comes out at {where} with 95% if its count exceeds that of the"
    yield f"  {ordinal(base)} largest ({floor} if there are not so many) by {significant(needed)}"


def _shared(plan: ListingPlan) -> Iterator[str]:
    mechanism = plan.mechanism
    if isinstance(mechanism, ScheduledTopK) and isinstance(
        mechanism.counts, SeparateContinualNoise
    ):
        yield "  counts have noise of their own each, as a unit may add to them at different steps"


def _some(steps: Sequence[int]) -> str:
    texts = [f"{step:,}" for step in steps]
    if len(texts) <= _LISTED:
        return ", ".join(texts)
    return ", ".join([*texts[: _LISTED - 1], "…", texts[-1]])

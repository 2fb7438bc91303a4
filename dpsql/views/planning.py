"""Plans a view: its mechanism, its groups, and the noise of all steps.

All measures of all groups are counted at each step, or the groups are chosen that are listed: the k
largest, or those of a tree's cells. A unit may be in any number of groups there. Which units a
mechanism protects is decided by the state: with ``one_step`` it counts a unit at the first step
that reads rows of it and at no other, else as often as its bounds allow.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.query import Block
from dpsql.planner.bounds_choice import priced_bounds
from dpsql.planner.budget import QueryBudget
from dpsql.planner.noise import UNITS, with_units
from dpsql.policy.model import AccountPolicy
from dpsql.policy.parameters import AnswerFrom
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import one_shot_distance
from dpsql.privacy.mechanisms.bounds_choice import BoundsChoice
from dpsql.privacy.mechanisms.value_bounds import ValueBounds
from dpsql.privacy.streams.buffers import optimal_buffers
from dpsql.privacy.streams.factorisation import (
    BufferedToeplitz,
    Factorisation,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.mechanism import StreamGroups, StreamMechanism
from dpsql.privacy.streams.meta import (
    MetaHistogram,
    meta_histogram,
)
from dpsql.privacy.streams.sparse import SparseTopK, sparse_top_k
from dpsql.privacy.streams.streams import (
    ContinualHistogram,
    continual_noise_for_rho,
    one_shot_continual_noise,
)
from dpsql.privacy.streams.topk import (
    ScheduledTopK,
    scheduled_top_k,
)
from dpsql.sql.blocks.time_bounds import no_view
from dpsql.views.definition import (
    ContinualMechanism,
    Factoring,
    UnitSteps,
    ViewDefinition,
)
from dpsql.views.plan import ViewPlan

_BUFFERS: Final = 4
_SLIGHTLY_LESS: Final = 1 - 2.0**-40  # exceeds the rounding of what is added up
_REACH_BITS: Final = 24  # of what one unit may add: rounding it is nothing beside the noise
_COUNTS: Final = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS, MeasureKind.ROWS)
"""Measures that can decide whether a group exists, the best first: they only grow."""
_MAX_DOMAIN: Final = 100_000  # groups that each step publishes
_OWN_OPTIONS: Final = {
    ContinualMechanism.SCHEDULED_TOP_K: ("schedule", "unit_contributes"),
    ContinualMechanism.SPARSE_GUMB: ("switches", "margin", "unit_contributes"),
    ContinualMechanism.META_ALGO: ("unit_contributes",),
}
_RANKED: Final = (
    MeasureKind.UNITS,
    MeasureKind.MATCHING_UNITS,
    MeasureKind.ROWS,
    MeasureKind.VALUES,
    MeasureKind.NUMBERS,
)
"""The measures that rank groups: a unit can only raise them."""
_SWITCHES: Final = 10
"""How often a sparse vector may choose anew, if its view does not say."""
_BY_CHANCE: Final = 0.25
"""How likely each of the noises, of a threshold and of all counts, is to exceed its margin."""


def chooses_groups(definition: ViewDefinition) -> bool:
    """Tell whether the options of a view say that it chooses groups."""
    return definition.mechanism in _OWN_OPTIONS or definition.choices.schedule is not None


def plan_view(
    definition: ViewDefinition,
    block: Block,
    account: AccountPolicy,
    *,
    short_lived: bool,
    beside: float = 0.0,
) -> ViewPlan:
    """Plan a view by the mechanism it names, or by the one its query asks for.

    ``beside`` is the part of the price that a choice of contribution bounds has.

    ``short_lived`` says that no unit has rows of several steps. A top-k of unknown
    keys without a bound on a unit's groups is chosen on a schedule; all else that names no
    mechanism is counted in full. Raises ``QueryRefused`` (``no_view``) for a query that has no
    running answer, ``ParameterError`` for parameters out of range.
    """
    kind = _kind(definition, block)
    if not (short_lived or definition.choices.unit_steps is UnitSteps.FIRST):
        _refuse_window(definition)
    if kind not in _OWN_OPTIONS:
        return _running(definition, block, _view_budget(block, account).without(beside))
    return _Listing(definition, block, account, kind, short_lived=short_lived).plan()


def _refuse_window(definition: ViewDefinition) -> None:
    """Refuse a sliding window over units of many steps.

    A unit counts once per group, and its rows up to a bound, over all steps: whoever comes back is
    new to no window. Counting it again in each would cost as many steps as it comes back in.
    """
    window = definition.window
    if window is not None and window < definition.steps.count:
        raise no_view(
            "a window counts a unit where it is new, and misses those who come back",
            "Count over all steps, or units that live in one: privacy_unit.per no longer than a "
            "step, by the column of `time`, or rows_per_unit: 1.",
        )


def _kind(definition: ViewDefinition, block: Block) -> ContinualMechanism | None:
    if definition.mechanism is not None:
        return definition.mechanism
    unbounded = block.parameters.max_groups_contributed is None and not block.known_domain
    if block.top_k is not None and (unbounded or definition.choices.schedule is not None):
        return ContinualMechanism.SCHEDULED_TOP_K
    return None


class _Listing:
    """The planning of one view."""

    def __init__(
        self,
        definition: ViewDefinition,
        block: Block,
        account: AccountPolicy,
        kind: ContinualMechanism,
        *,
        short_lived: bool,
    ) -> None:
        self.definition, self.block, self.kind = definition, block, kind
        self.budget = _view_budget(block, account)
        asked = definition.choices.unit_steps
        self.one_step = short_lived if asked is None else asked is UnitSteps.FIRST
        self.steps = definition.steps.count
        self.k = None if block.top_k is None else block.top_k.limit
        self.floor = block.parameters.min_units_per_group - 1

    def plan(self) -> ViewPlan:
        if self.budget.gaussian:
            raise no_view(
                "what a view costs that chooses groups is not proved in Gaussian DP",
                "Create it from an account of another composition.",
            )
        for name in self.definition.choices.given:
            if name not in _OWN_OPTIONS[self.kind]:
                raise no_view(f"{self.kind} has no option {name}", "Leave it out.")
        measure = self._measure()
        self.sensitivity = _stream_reach(measure, self.block.parameters.rows_limit)
        self._refuse_sizes()
        known = self.block.known_domain
        split = self.budget.whole() if known else self.budget.halved()
        mechanism = self._mechanism(PrivacyLoss(split.rho, 0.0 if known else split.delta))
        if mechanism is None:
            raise no_view(
                "epsilon is too small for so many choices",
                "Raise epsilon, or choose at fewer steps.",
            )
        basic = self.budget.basic
        return ViewPlan(
            self.definition,
            self.block,
            (measure,),
            (),
            0,
            mechanism,
            self.block.parameters.groups_limit,
            (self.sensitivity,),
            self.one_step,
            self.budget.loss if basic else mechanism.loss,
            0.0 if basic else split.conversion,
        )

    def _measure(self) -> Measure:
        """Return the count that ranks the groups, the only one allowed here."""
        _refuse_no_running_answer(self.block)
        (measure, *others) = self.block.measures
        if others or measure.kind not in _RANKED:
            raise no_view(
                f"{self.kind} answers one count, and this is something else",
                "Select the keys and one COUNT, of rows, values or units.",
            )
        if self.floor > 0 and measure.kind is not MeasureKind.UNITS:
            # A unit may carry a group across the minimum, and its whole count with it.
            raise no_view(
                "with min_units_per_group above 1 only unit counts can rank groups",
                "ORDER BY COUNT(DISTINCT unit), or set min_units_per_group to 1.",
            )
        return _stream_measure(measure, self.block.parameters.rows_limit)

    def _refuse_sizes(self) -> None:
        block, k_bar = self.block, self.block.parameters.k_bar
        unlimited = block.parameters.max_groups_contributed is None
        meta = self.kind is ContinualMechanism.META_ALGO
        if self.k is None and not (meta and (block.known_domain or not unlimited)):
            raise no_view(
                f"{self.kind} lists the largest groups, and the query does not say how many",
                "Write ORDER BY the count DESC LIMIT k.",
            )
        if not block.known_domain and self.k is not None and self.k > k_bar:
            raise no_view(
                f"LIMIT {self.k} exceeds k_bar = {k_bar}", "Lower the LIMIT or raise k_bar."
            )

    def _mechanism(self, price: PrivacyLoss) -> StreamMechanism | None:
        if self.kind is ContinualMechanism.META_ALGO:
            return self._meta(price)
        assert self.k is not None
        if self.kind is ContinualMechanism.SPARSE_GUMB:
            return self._sparse(price, self.k)
        return self._scheduled(price, self.k)

    @property
    def groups(self) -> StreamGroups:
        """The groups that it may list."""
        if self.block.known_domain:
            return StreamGroups(self.block.domain_size)
        return StreamGroups(k_bar=self.block.parameters.k_bar, floor=self.floor)

    def _scheduled(self, price: PrivacyLoss, k: int) -> ScheduledTopK | None:
        return scheduled_top_k(
            price,
            self.steps,
            self.groups,
            k=k,
            sensitivity=self.sensitivity,
            schedule=self.definition.choices.schedule,
            factorisation=_factorisation_of(self.definition),
            one_step=self.one_step,
        )

    def _sparse(self, price: PrivacyLoss, k: int) -> SparseTopK:
        block, choices = self.block, self.definition.choices
        if not block.known_domain:
            raise no_view(
                "sparse_gumb compares all declared groups, and these keys are not declared",
                "The owner declares a domain of the keys; or write continual = 'scheduled_top_k'.",
            )
        found = sparse_top_k(
            price.rho,
            self.steps,
            k=k,
            size=block.domain_size,
            switches=_SWITCHES if choices.switches is None else choices.switches,
            margin=0,
            sensitivity=self.sensitivity,
            factorisation=_factorisation_of(self.definition),
            one_step=self.one_step,
        )
        margin = _usual_margin(found) if choices.margin is None else choices.margin
        return replace(found, margins=(margin,) * self.steps)

    def _meta(self, price: PrivacyLoss) -> MetaHistogram | None:
        if not self.one_step:
            raise no_view(
                "in meta_algo a unit contributes at one step, and these units last longer",
                "Write unit_contributes = 'first step': a unit then counts at the first step that "
                "reads rows of it, and at no other. Or the owner declares privacy_unit.per.",
            )
        if self.definition.window is not None:
            raise no_view("the cells of a tree have no sliding window", "Leave `window` out.")
        groups = self.block.parameters.groups_limit
        if self.block.known_domain and not (groups is None and self.k is not None):
            size = self.block.domain_size
            groups = size if groups is None else min(groups, size)
        return meta_histogram(
            *(price, self.steps, self.groups), k=self.k, groups=groups, sensitivity=self.sensitivity
        )


def _usual_margin(mechanism: SparseTopK) -> int:
    """Compute a margin that noise alone hardly exceeds: of all counts, and of a threshold, 25%.

    P[X > m] <= exp(-m/b)/2 for Laplace noise of scale b, of one threshold and of all counts.
    """
    scale = mechanism.vector.noise.scale
    counts = mechanism.selection.size * len(mechanism.margins)
    return math.ceil(scale * (math.log(counts / 2 / _BY_CHANCE) + math.log(1 / 2 / _BY_CHANCE)))


# -- all measures of all groups -----------------------------------------------------------------


def _running(definition: ViewDefinition, block: Block, budget: QueryBudget) -> ViewPlan:
    """Spread the noise of running measures over the steps: measures share epsilon and delta."""
    _refuse_no_running_answer(block)
    _refuse_other_names(definition, block)
    known = block.known_domain
    groups = _groups(block)
    deciding = block.parameters.min_units_per_group > 1
    counted = [m.kind for m in block.measures if m.kind in _COUNTS]
    needs_units = deciding if known else deciding or not counted
    asked, rows = with_units(block) if needs_units else block.measures, block.parameters.rows_limit
    measures = tuple(_stream_measure(measure, rows) for measure in asked)
    score = min(range(len(measures)), key=lambda i: _rank(measures[i], units=needs_units))
    split = budget.whole() if known else budget.halved()
    factorisation = _factorisation_of(definition)
    reaches = [_stream_reach(measure, rows) for measure in measures]
    if budget.one_shot and len(measures) == 1:
        # All of delta for the noise where keys are declared, else half of it for the names.
        delta = budget.delta if known else budget.delta / 2
        distance = one_shot_distance(budget.epsilon, delta)
        noises = [one_shot_continual_noise(distance, factorisation, groups, reaches[0])]
        spare, conversion = budget.delta - delta, 0.0
    elif budget.gaussian:
        distance = 2 * split.rho / len(measures) * _SLIGHTLY_LESS
        noises = [one_shot_continual_noise(distance, factorisation, groups, r) for r in reaches]
        spare, conversion = split.delta, split.conversion
    else:
        share = split.rho / len(measures)
        noises = [continual_noise_for_rho(share, factorisation, groups, r) for r in reaches]
        spare, conversion = split.delta, split.conversion
    floor = None if known else block.parameters.min_units_per_group - 1
    histogram = ContinualHistogram(noises[score], 0.0 if known else spare, floor)
    loss = PrivacyLoss(sum(noise.rho for noise in noises), histogram.delta)
    if budget.gaussian:
        rho = sum(noise.gaussian_rho for noise in noises)
        loss = PrivacyLoss(rho, histogram.delta, gaussian=True)
    return ViewPlan(
        definition,
        block,
        measures,
        tuple(noises),
        score,
        histogram,
        groups,
        tuple(reaches),
        False,
        budget.loss if budget.basic else loss,
        0.0 if budget.basic else conversion,
    )


def bounds_to_draw(
    plan: ViewPlan, account: AccountPolicy
) -> tuple[BoundsChoice | None, tuple[ValueBounds, ...]]:
    """Return the draws of bounds that a view was given none of: of units, and of values.

    ``plan`` has the usual ones. Chosen groups have these in any case, and sum no values. Raises
    ``QueryRefused`` where the price buys no bounds of values.
    """
    if plan.mechanism.chooses:
        return None, ()
    block, steps = replace(plan.block, measures=plan.measures), plan.definition.steps.count
    times = max(noise.std(steps) / noise.once for noise in plan.noises)
    return priced_bounds(block, _view_budget(block, account), times_noise=times)


# -- what both have in common --------------------------------------------------------------------


def _view_budget(block: Block, account: AccountPolicy) -> QueryBudget:
    """Return the (epsilon, delta) that a view may spend, by the rules of the paying account."""
    share = account.delta_for_conversion
    return QueryBudget.of(block.parameters, account.composition, delta_for_conversion=share)


def optimised(steps: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Find decays and weights of buffers for so many steps."""
    found = optimal_buffers(steps, _BUFFERS)
    return found.decays, found.weights


def _factorisation_of(definition: ViewDefinition) -> Factorisation:
    """Return the factorisation of a view's noise. Raises ``QueryRefused`` (``no_view``)."""
    steps = definition.steps.count
    if definition.window is not None and definition.window < steps:
        if definition.factoring is not Factoring.TOEPLITZ:
            raise no_view(
                f"a sliding window has no factorisation {definition.factoring.value}",
                "Leave `continual` out.",
            )
        return SlidingWindow(steps, definition.window)
    match definition.factoring:
        case Factoring.TREE:
            return best_tree(steps)
        case Factoring.HONAKER:
            return TreeFromBelow(steps)
        case Factoring.BLT:
            decays, weights = definition.buffers or optimised(steps)
            return BufferedToeplitz(steps, decays, weights)
    return SquareRoot(steps)


def _refuse_no_running_answer(block: Block) -> None:
    """Refuse a block that no view answers. Raises ``QueryRefused`` (``no_view``)."""
    if block.parameters.automatic:
        raise no_view(
            "max_groups_contributed is auto, and is found for running counts of all groups alone",
            "Set max_groups_contributed to a number: it bounds a unit's groups over all steps.",
        )
    if block.parameters.max_error is not None or any(a.max_error for a in block.aggregates):
        raise no_view(
            "the error of a view grows from step to step, so max_error has no one epsilon",
            "Give epsilon; EXPLAIN CREATE MATERIALIZED VIEW tells the error of each step.",
        )
    if block.mechanism is not None:
        raise no_view(
            "OPTIONS name a mechanism that answers once",
            "Leave it out; the view's option `continual` names a mechanism of many steps.",
        )
    if block.fresh or block.parameters.answer_from is AnswerFrom.RELEASED:
        raise no_view(
            "a view is made of rows, at each of its steps anew",
            "Leave out fresh, and answer_from = released.",
        )
    if block.source.share is not None:
        raise no_view(
            "a sample of units is drawn whenever rows are read, and another one at each step",
            "Leave the sample out: a view reads the rows of all units.",
        )
    if not block.aggregates:
        raise no_view("a view counts or sums", "Add an aggregate such as COUNT(*).")
    if any(aggregate.quantile is not None for aggregate in block.aggregates):
        raise no_view("quantiles have no running answer", "Ask for counts, sums or averages.")
    if any(measure.kind is MeasureKind.DISTINCT for measure in block.measures):
        raise no_view(
            "counts of distinct values have no running answer",
            "Count the privacy unit, or rows.",
        )
    if block.noise_columns:
        raise no_view(
            "a view's query asks nothing of its noise",
            "Ask for intervals where you read the view: DP_INTERVAL_LOW(column). For BOOL_OR(x), "
            "have the view count: COUNT_IF(x).",
        )
    if block.known_domain and block.domain_size > _MAX_DOMAIN:
        raise no_view(
            f"the declared keys have more than {_MAX_DOMAIN:,} combinations", "Group by fewer keys."
        )


def _refuse_other_names(definition: ViewDefinition, block: Block) -> None:
    """Refuse a named mechanism that does not fit the query, and options it lacks."""
    if definition.choices.given:
        raise no_view(
            f"all groups are counted at every step, which has no {definition.choices.given[0]}",
            "Leave the option out, or write continual = 'scheduled_top_k' and ORDER BY … LIMIT k.",
        )
    match definition.mechanism:
        case ContinualMechanism.BASE_MECH:
            fits, what = not block.keys, "one count without keys"
        case ContinualMechanism.KNOWN_BASE:
            fits, what = block.known_domain and bool(block.keys), "keys that are all declared"
        case ContinualMechanism.UNK_BASE:
            fits, what = not block.known_domain, "keys that nobody declared"
        case _:
            return
    if not fits:
        others = ", ".join((Factoring.TREE, *list(ContinualMechanism)[:3]))
        raise no_view(
            f"{definition.mechanism} is for {what}",
            f"Write continual = one of: {others}; or leave it out, for less noise.",
        )


def _groups(block: Block) -> int:
    """Return how many groups a unit may contribute to; with declared keys at most all there are."""
    cap = block.parameters.groups_limit
    if block.known_domain:
        return block.domain_size if cap is None else min(cap, block.domain_size)
    if cap is None:
        raise no_view(
            "a unit may contribute to any number of groups",
            "Set max_groups_contributed: it bounds the groups of a unit over all steps. Or ask for "
            "the largest ones: ORDER BY a count DESC LIMIT k.",
        )
    return cap


def _rank(measure: Measure, *, units: bool) -> int:
    """Rank a measure by how well it says that a group exists."""
    if units:
        return 0 if measure == UNITS else 1
    return _COUNTS.index(measure.kind) if measure.kind in _COUNTS else len(_COUNTS)


def _stream_measure(measure: Measure, rows: int) -> Measure:
    """Return the measure without weights, on a lattice as fine as a running sum may be.

    What a unit adds is rounded to it, and not totals: a state counts what units add.
    """
    if measure.lattice is None:
        return replace(measure, weights=None)
    spare = max(0, measure.reach(rows).bit_length() - _REACH_BITS)
    return replace(measure, weights=None, lattice=replace(measure.lattice, coarsening=1 << spare))


def _stream_reach(measure: Measure, rows: int) -> int:
    """Bound what a unit adds to a group over all steps, in steps of the measure."""
    reach = measure.reach(rows)
    return max(1, reach) if measure.lattice is None else measure.lattice.released(reach)

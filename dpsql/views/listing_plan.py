"""How a view is answered whose groups are chosen: the k largest, or those of a tree's cells.

A unit may be in any number of groups here. Which units a mechanism protects is decided by the
state: with ``one_step`` it counts a unit at the first step that reads rows of it and at no other,
else as often as its bounds allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.planner.budget import BudgetSplit
from dpsql.policy.model import AccountPolicy
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps as NoisySteps
from dpsql.privacy.mechanisms.additive import UsualNoise
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.privacy.streams.meta import (
    MetaHistogram,
    meta_known,
    meta_known_top_k,
    meta_unknown,
    meta_unknown_top_k,
)
from dpsql.privacy.streams.sparse import SparseTopK, sparse_top_k
from dpsql.privacy.streams.topk import (
    ScheduledTopK,
    doubling_steps,
    scheduled_top_k,
    scheduled_top_k_unknown,
)
from dpsql.sql.blocks.time_bounds import no_view
from dpsql.views.definition import (
    ChoiceOptions,
    ContinualMechanism,
    UnitSteps,
    ViewDefinition,
)
from dpsql.views.plan import (
    ViewPlan,
    factorisation_of,
    fine_measure,
    plan_view,
    refuse_no_running_answer,
    stream_reach,
    view_budget,
)
from dpsql.views.state import Contribution

ChoosingMechanism: TypeAlias = ScheduledTopK | SparseTopK | MetaHistogram
"""What decides which groups a view lists."""

_LISTINGS: Final = (
    ContinualMechanism.SCHEDULED_TOP_K,
    ContinualMechanism.SPARSE_GUMB,
    ContinualMechanism.META_ALGO,
)
_SOURCES: Final = {
    ContinualMechanism.SCHEDULED_TOP_K: "Rivera Cardoso & Rogers 2022, Theorem 3",
    ContinualMechanism.SPARSE_GUMB: "Rivera Cardoso & Rogers 2022, Algorithm 8",
    ContinualMechanism.META_ALGO: "Rivera Cardoso & Rogers 2022, Algorithm 7",
}
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
"""What ranks groups: a unit can only raise it."""
_SWITCHES: Final = 10
"""How often a sparse vector may choose anew, if its view does not say."""
_BY_CHANCE: Final = 0.25
"""How likely each of the noises, of a threshold and of all counts, is to exceed its margin."""


@dataclass(frozen=True, slots=True)
class ListingNoise(UsualNoise):
    """The noise on what a view lists at one step, as an ``Additive``: to say how large it is."""

    mechanism: ChoosingMechanism
    step: int

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return mechanism_name(self.mechanism)

    @property
    def scale(self) -> float:
        """Its standard deviation, in counts."""
        return noise_std(self.mechanism, self.step)

    def cost(self, composition: Composition, reach: int) -> float:
        """Return what the stream costs: one charge, made when the view was created."""
        return self.mechanism.loss.rho

    def std(self, groups: int) -> float:
        """Return its standard deviation, in counts."""
        return self.scale

    def margin(self, confidence: float, groups: int) -> float:
        """Find the smallest m for which P[abs(noise) <= m] >= ``confidence`` is proved."""
        if isinstance(self.mechanism, MetaHistogram):
            return self.mechanism.margin(self.step, confidence) or math.inf
        return self.mechanism.counts.margin(self.step, confidence)

    def add(self, values: NDArray[np.int64], source: EntropySource) -> NoisySteps:
        """Refuse to draw: the noise of a view comes from its keys."""
        raise AssertionError("the noise of a view comes from its keys")


@dataclass(frozen=True, slots=True)
class ListingSelection(Usual):
    """Which groups a view lists, as a ``Selection``: to say so in words and in SQL.

    ``domain`` is the number of declared groups, None if keys are unknown; ``one_step`` says that a
    unit contributes at one step only.
    """

    mechanism: ChoosingMechanism
    one_step: bool
    domain: int | None

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return mechanism_name(self.mechanism)

    @property
    def source(self) -> str:
        """Where the mechanism and its guarantee come from."""
        return _SOURCES[listing_kind(self.mechanism)]

    @property
    def delta(self) -> float:
        """The probability of a differentiating outcome over all steps."""
        return self.mechanism.loss.delta

    @property
    def declared(self) -> int | None:
        """How many declared groups it chooses from, or None if keys are unknown."""
        return self.domain

    def score_for_inclusion(self, probability: float) -> float | None:
        """Tell how large a score must be to be chosen with this probability, at one choice."""
        return self.mechanism.selection.score_for_inclusion(probability)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Refuse to draw: what a view draws comes from its keys."""
        raise AssertionError("what a view draws comes from its keys")


@dataclass(frozen=True, slots=True)
class ListingPlan:
    """The plan of a view whose groups are chosen, by one count that ranks them.

    ``block`` is the private block of its query without the limits of any step. A unit adds at most
    ``sensitivity`` to a group over all steps; with ``one_step`` at a single step, which the state
    enforces. ``loss`` is what the whole stream costs.
    """

    definition: ViewDefinition
    block: Block
    measure: Measure
    mechanism: ChoosingMechanism
    one_step: bool
    sensitivity: int
    loss: PrivacyLoss
    conversion_delta: float

    @property
    def groups(self) -> int | None:
        """The number of groups that one unit may contribute to over all steps; None for any."""
        return self.block.parameters.groups_limit

    @property
    def by_step(self) -> bool:
        """True if the state keeps what each step added."""
        return self.definition.window is not None or isinstance(self.mechanism, MetaHistogram)

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """What a unit may contribute to a group over all steps."""
        return (Contribution(self.block.measure_column(0), self.sensitivity, grows=True),)

    def of_block(self, block: Block) -> ListingPlan:
        """Return the same plan over other rows: those of a later step."""
        return replace(self, block=block)

    def figures(self, aggregate: int, confidence: float | None) -> list[float] | None:
        """Tell the noise of an aggregate by step: as half-widths, or as standard deviations.

        None where values lack what cells of a tree have left out.
        """
        mechanism, steps = self.mechanism, range(1, self.definition.steps.count + 1)
        if not isinstance(mechanism, MetaHistogram):
            counts = mechanism.counts
            if confidence is not None:
                return [float(margin) for margin in counts.margins(confidence)]
            return [counts.std(step) for step in steps]
        if mechanism.margin(1, 0.5) is None:
            return None
        if confidence is None:
            return [mechanism.std(step) for step in steps]
        return [mechanism.margin(step, confidence) or 0.0 for step in steps]

    def at(self, step: int) -> BlockPlan:
        """Return the plan of one step as one of a query: for its SQL, intervals and words."""
        declared = self.block.domain_size if self.block.known_domain else None
        return BlockPlan(
            block=replace(self.block, measures=(self.measure,)),
            selection=ListingSelection(self.mechanism, self.one_step, declared),
            measures=(NoisyMeasure(self.measure, ListingNoise(self.mechanism, step)),),
            score=None if declared is not None else 0,
            groups=self.groups,
            bounding=None,
            conversion_delta=self.conversion_delta,
        )


def plan_continual(
    definition: ViewDefinition, block: Block, account: AccountPolicy, *, short_lived: bool
) -> ViewPlan | ListingPlan:
    """Plan a view by the mechanism it names, or by the one its query asks for.

    ``short_lived`` says that no unit has rows of several steps. A top-k of unknown
    keys without a bound on a unit's groups is chosen on a schedule; all else that names no
    mechanism is counted in full. Raises ``QueryRefused`` (``no_view``) for a query that has no
    running answer, ``ParameterError`` for parameters out of range.
    """
    kind = _kind(definition, block)
    if not (short_lived or definition.choices.unit_steps is UnitSteps.FIRST):
        _refuse_window(definition)
    if kind not in _LISTINGS:
        return plan_view(definition, block, account)
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
        self.budget = view_budget(block, account)
        asked = definition.choices.unit_steps
        self.one_step = short_lived if asked is None else asked is UnitSteps.FIRST
        self.steps = definition.steps.count
        self.k = None if block.top_k is None else block.top_k.limit
        self.floor = block.parameters.min_units_per_group - 1

    def plan(self) -> ListingPlan:
        _refuse_options(self.definition.choices, self.kind)
        measure = self._measure()
        self.sensitivity = stream_reach(measure, self.block.parameters.max_rows_contributed)
        self._refuse_sizes()
        known = self.block.known_domain
        split = self.budget.whole() if known else self.budget.halved()
        mechanism = self._mechanism(split)
        if mechanism is None:
            raise no_view(
                "epsilon is too small for so many choices",
                "Raise epsilon, or choose at fewer steps.",
            )
        basic = self.budget.basic
        return ListingPlan(
            self.definition,
            self.block,
            measure,
            mechanism,
            self.one_step,
            self.sensitivity,
            self.budget.loss if basic else mechanism.loss,
            0.0 if basic else split.conversion,
        )

    def _measure(self) -> Measure:
        """Return the count that ranks the groups, which is all that may be asked."""
        refuse_no_running_answer(self.block)
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
        return fine_measure(measure)

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

    def _mechanism(self, split: BudgetSplit) -> ChoosingMechanism | None:
        if self.kind is ContinualMechanism.META_ALGO:
            return self._meta(split)
        assert self.k is not None
        if self.kind is ContinualMechanism.SPARSE_GUMB:
            return self._sparse(split, self.k)
        return self._scheduled(split, self.k)

    def _scheduled(self, split: BudgetSplit, k: int) -> ScheduledTopK | None:
        schedule = self.definition.choices.schedule or doubling_steps(self.steps)
        factorisation = factorisation_of(self.definition)
        if self.block.known_domain:
            return scheduled_top_k(
                split.rho,
                self.steps,
                k=k,
                size=self.block.domain_size,
                sensitivity=self.sensitivity,
                schedule=schedule,
                factorisation=factorisation,
                one_step=self.one_step,
            )
        return scheduled_top_k_unknown(
            split.rho,
            split.delta,
            self.steps,
            k=k,
            k_bar=self.block.parameters.k_bar,
            floor=self.floor,
            sensitivity=self.sensitivity,
            schedule=schedule,
            factorisation=factorisation,
            one_step=self.one_step,
        )

    def _sparse(self, split: BudgetSplit, k: int) -> SparseTopK:
        block, choices = self.block, self.definition.choices
        if not block.known_domain:
            raise no_view(
                "sparse_gumb compares all declared groups, and these keys are not declared",
                "The owner declares a domain of the keys; or write continual = 'scheduled_top_k'.",
            )
        found = sparse_top_k(
            split.rho,
            self.steps,
            k=k,
            size=block.domain_size,
            switches=_SWITCHES if choices.switches is None else choices.switches,
            margin=0,
            sensitivity=self.sensitivity,
            factorisation=factorisation_of(self.definition),
            one_step=self.one_step,
        )
        margin = _usual_margin(found) if choices.margin is None else choices.margin
        return replace(found, margins=(margin,) * self.steps)

    def _meta(self, split: BudgetSplit) -> MetaHistogram | None:
        if not self.one_step:
            raise no_view(
                "in meta_algo a unit contributes at one step, and these units last longer",
                "Write unit_contributes = 'first step': a unit then counts at the first step that "
                "reads rows of it, and at no other. Or the owner declares privacy_unit.per.",
            )
        if self.definition.window is not None:
            raise no_view("the cells of a tree have no sliding window", "Leave `window` out.")
        block, rho, steps = self.block, split.rho, self.steps
        cap, k_bar = block.parameters.groups_limit, block.parameters.k_bar
        reach = self.sensitivity
        if block.known_domain:
            size = block.domain_size
            if cap is None and self.k is not None:
                return meta_known_top_k(rho, steps, k=self.k, size=size, sensitivity=reach)
            groups = size if cap is None else min(cap, size)
            return meta_known(rho, steps, groups=groups, size=size, sensitivity=reach)
        named = {"k_bar": k_bar, "floor": self.floor, "sensitivity": reach}
        if cap is not None:
            return meta_unknown(rho, split.delta, steps, groups=cap, **named)
        assert self.k is not None
        return meta_unknown_top_k(rho, split.delta, steps, k=self.k, **named)


def listing_kind(mechanism: ChoosingMechanism) -> ContinualMechanism:
    """Name the kind of a mechanism, as it can be asked for."""
    match mechanism:
        case ScheduledTopK():
            return ContinualMechanism.SCHEDULED_TOP_K
        case SparseTopK():
            return ContinualMechanism.SPARSE_GUMB
    return ContinualMechanism.META_ALGO


def mechanism_name(mechanism: ChoosingMechanism) -> str:
    """Name a mechanism with the selection that it repeats."""
    return f"{listing_kind(mechanism)}_{mechanism.selection.name}"


def noise_std(mechanism: ChoosingMechanism, step: int) -> float:
    """Compute the standard deviation of what a view lists at a step, in counts."""
    if isinstance(mechanism, MetaHistogram):
        return mechanism.std(step)
    return mechanism.counts.std(step)


def _refuse_options(choices: ChoiceOptions, kind: ContinualMechanism) -> None:
    for name in choices.given:
        if name not in _OWN_OPTIONS[kind]:
            raise no_view(f"{kind} has no option {name}", "Leave it out.")


def _usual_margin(mechanism: SparseTopK) -> int:
    """Compute a margin that noise alone hardly exceeds: of all counts, and of a threshold, 25%.

    P[X > m] <= exp(-m/b)/2 for Laplace noise of scale b, of one threshold and of all counts.
    """
    scale = mechanism.vector.noise.scale
    counts = mechanism.selection.size * len(mechanism.margins)
    return math.ceil(scale * (math.log(counts / 2 / _BY_CHANCE) + math.log(1 / 2 / _BY_CHANCE)))

"""How a view is answered: which groups come out at a step, and the noise of all steps, priced once.

A plan is a pure function of the definition, the policy and the account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.intervals import confidence_among
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.noise import UNITS, with_units
from dpsql.policy.model import AccountPolicy
from dpsql.policy.parameters import AnswerFrom
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps as NoisySteps
from dpsql.privacy.mechanisms.additive import UsualNoise, one_shot_distance
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.privacy.streams.buffers import optimal_buffers
from dpsql.privacy.streams.factorisation import (
    BufferedToeplitz,
    Factorisation,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.streams import (
    ContinualHistogram,
    ContinualNoise,
    continual_noise_for_rho,
    one_shot_continual_noise,
)
from dpsql.sql.blocks.time_bounds import no_view
from dpsql.views.definition import ContinualMechanism, Factoring, ViewDefinition
from dpsql.views.state import Contribution

_BUFFERS: Final = 4
_FINE_BITS: Final = 36  # of what one unit may add: totals of 2**27 units fit 64 bits
_COUNTS: Final = (MeasureKind.UNITS, MeasureKind.MATCHING_UNITS, MeasureKind.ROWS)
"""What can say that a group exists, the best first: it only grows."""
_MAX_DOMAIN: Final = 100_000  # groups that each step publishes


@dataclass(frozen=True, slots=True)
class StepNoise(UsualNoise):
    """The noise of a running measure at one step, as an ``Additive``: to say how large it is."""

    noise: ContinualNoise
    step: int

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return self.noise.name

    @property
    def scale(self) -> float:
        """Its standard deviation, in steps of the measure."""
        return self.noise.std(self.step)

    def cost(self, composition: Composition, reach: int) -> float:
        """Return what the noise of all steps costs: one charge, made when the view was created."""
        return self.noise.rho

    def std(self, groups: int) -> float:
        """Return its standard deviation, in steps of the measure."""
        return self.scale

    def margin(self, confidence: float, groups: int) -> float:
        """Find the smallest m for which P[abs(noise) <= m] >= ``confidence`` is proved."""
        return float(self.noise.margin(self.step, confidence))

    def add(self, values: NDArray[np.int64], source: EntropySource) -> NoisySteps:
        """Refuse to draw: the noise of a view comes from its keys."""
        raise AssertionError("the noise of a view comes from its keys")


@dataclass(frozen=True, slots=True)
class ContinualSelection(Usual):
    """Which groups of a view come out, as a ``Selection``: to say so in words and in SQL.

    ``domain`` is the number of declared groups, None if keys are unknown.
    """

    histogram: ContinualHistogram
    step: int
    domain: int | None

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return self.histogram.name

    @property
    def source(self) -> str:
        """Where the mechanism and its guarantee come from."""
        return "Rivera Cardoso & Rogers 2022, Theorem 6"

    @property
    def delta(self) -> float:
        """The probability of a differentiating outcome over all steps."""
        return self.histogram.delta

    @property
    def declared(self) -> int | None:
        """How many declared groups it answers, or None if keys are unknown."""
        return self.domain

    @property
    def threshold(self) -> float | None:
        """What a noisy score must exceed at this step."""
        found = self.histogram.thresholds()
        return None if found is None else float(found[self.step - 1])

    def score_for_inclusion(self, probability: float) -> float | None:
        """Return how large a score must be to be released at this step with this probability."""
        threshold = self.threshold
        if threshold is None:
            return None
        if probability <= 0.5:
            return threshold + 1
        return threshold + 1 + self.histogram.margin(self.step, 2 * probability - 1)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Refuse to draw: the noise of a view comes from its keys."""
        raise AssertionError("the noise of a view comes from its keys")


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The plan of a view: the noise of each measure, and the histogram of the one that decides.

    ``score`` is that measure, by index. ``block`` is the private block of its query without the
    limits of any step. ``loss`` is what the whole stream costs.
    """

    definition: ViewDefinition
    block: Block
    measures: tuple[Measure, ...]
    noises: tuple[ContinualNoise, ...]
    score: int
    histogram: ContinualHistogram
    loss: PrivacyLoss
    conversion_delta: float

    @property
    def groups(self) -> int:
        """How many groups one unit may contribute to over all steps."""
        return self.histogram.noise.groups

    @property
    def one_step(self) -> bool:
        """False: a unit may contribute at every step, within its bounds."""
        return False

    @property
    def by_step(self) -> bool:
        """True if the state keeps what each step added."""
        return self.definition.window is not None

    def of_block(self, block: Block) -> ViewPlan:
        """Return the same plan over other rows: those of a later step."""
        return replace(self, block=block)

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """What a unit may contribute to a group over all steps, per measure."""
        return tuple(
            Contribution(self.block.measure_column(i), noise.sensitivity, only_grows(measure))
            for i, (measure, noise) in enumerate(zip(self.measures, self.noises, strict=True))
        )

    def figures(self, aggregate: int, confidence: float | None) -> list[float] | None:
        """Tell the noise of an aggregate by step: as half-widths, or as standard deviations.

        None for an aggregate that is computed from several measures. Half-widths allow for what
        LIMIT chooses among declared groups; how many others there are is not published.
        """
        found = self.block.aggregates[aggregate]
        if found.kind.composed:
            return None
        (index,) = found.measures
        noise, unit = self.noises[index], self.measures[index].step
        if confidence is None:
            return [float(std) * unit for std in noise.stds()]
        top_k, block = self.block.top_k, self.block
        if top_k is not None and top_k.measure == index and block.known_domain:
            confidence = confidence_among(confidence, top_k.limit, block.domain_size)
        margins = np.maximum(noise.quantiles_sf((1.0 - confidence) / 2), 0)
        return [float(margin) * unit for margin in margins]

    def at(self, step: int) -> BlockPlan:
        """Plan one step, as a query's plan does: for its SQL, its intervals and its words."""
        block = replace(self.block, measures=self.measures)
        declared = block.domain_size if block.known_domain else None
        noisy = [
            NoisyMeasure(measure, StepNoise(noise, step))
            for measure, noise in zip(self.measures, self.noises, strict=True)
        ]
        return BlockPlan(
            block=block,
            selection=ContinualSelection(self.histogram, step, declared),
            measures=tuple(noisy),
            score=None if declared is not None else self.score,
            groups=self.groups,
            bounding=None,
            conversion_delta=self.conversion_delta,
        )


def view_budget(block: Block, account: AccountPolicy) -> QueryBudget:
    """Return the (epsilon, delta) that a view may spend, by the rules of the account that pays."""
    if account.composition is Composition.GDP:
        raise no_view(
            "the cost of a view in Gaussian DP is not proved",
            "Create it from an account of another composition.",
        )
    share = account.delta_for_conversion
    return QueryBudget.of(block.parameters, account.composition, delta_for_conversion=share)


def plan_view(definition: ViewDefinition, block: Block, account: AccountPolicy) -> ViewPlan:
    """Spread the noise of a view over its steps, within its epsilon and delta.

    The measures of the view share them equally. Raises ``QueryRefused`` (``no_view``) for a query
    that has no running answer, ``ParameterError`` for parameters out of range.
    """
    refuse_no_running_answer(block)
    _refuse_other_names(definition, block)
    known = block.known_domain
    groups = _groups(block)
    deciding = block.parameters.min_units_per_group > 1
    counted = [m.kind for m in block.measures if m.kind in _COUNTS]
    needs_units = deciding if known else deciding or not counted
    measures = tuple(map(fine_measure, with_units(block) if needs_units else block.measures))
    score = min(range(len(measures)), key=lambda i: _rank(measures[i], units=needs_units))
    budget = view_budget(block, account)
    split = budget.whole() if known else budget.halved()
    rows = block.parameters.max_rows_contributed
    factorisation = factorisation_of(definition)
    reaches = [stream_reach(measure, rows) for measure in measures]
    if budget.one_shot and len(measures) == 1:
        # All of delta for the noise where keys are declared, else half of it for the names.
        delta = budget.delta if known else budget.delta / 2
        distance = one_shot_distance(budget.epsilon, delta)
        noises = [one_shot_continual_noise(distance, factorisation, groups, reaches[0])]
        spare, conversion = budget.delta - delta, 0.0
    else:
        share = split.rho / len(measures)
        noises = [continual_noise_for_rho(share, factorisation, groups, r) for r in reaches]
        spare, conversion = split.delta, split.conversion
    floor = None if known else block.parameters.min_units_per_group - 1
    histogram = ContinualHistogram(noises[score], 0.0 if known else spare, floor)
    loss = PrivacyLoss(sum(noise.rho for noise in noises), histogram.delta)
    return ViewPlan(
        definition,
        block,
        measures,
        tuple(noises),
        score,
        histogram,
        budget.loss if budget.basic else loss,
        0.0 if budget.basic else conversion,
    )


def optimised(steps: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Find decays and weights of buffers for so many steps."""
    found = optimal_buffers(steps, _BUFFERS)
    return found.decays, found.weights


def factorisation_of(definition: ViewDefinition) -> Factorisation:
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


def refuse_no_running_answer(block: Block) -> None:
    """Refuse a block that no view answers. Raises ``QueryRefused`` (``no_view``)."""
    if block.parameters.automatic:
        raise no_view(
            "max_groups_contributed is auto, which looks at the rows of one step alone",
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
            "Ask for intervals where you read the view: DP_INTERVAL_LOW(column).",
        )
    if block.known_domain and block.domain_size > _MAX_DOMAIN:
        raise no_view(
            f"the declared keys have more than {_MAX_DOMAIN:,} combinations", "Group by fewer keys."
        )


def _refuse_other_names(definition: ViewDefinition, block: Block) -> None:
    """Refuse a mechanism, asked for by name, that is another one; and options that it lacks."""
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


def fine_measure(measure: Measure) -> Measure:
    """Return the measure as it is without weights, on a lattice as fine as totals allow."""
    if measure.lattice is None:
        return replace(measure, weights=None)
    lattice = measure.lattice
    return replace(measure, weights=None, lattice=replace(lattice, coarsening=1))


def stream_reach(measure: Measure, rows: int) -> int:
    """Bound what a unit adds to a group over all steps, in steps of the measure.

    Raises ``QueryRefused`` (``no_view``) for more than a running sum can hold.
    """
    reach = max(1, measure.reach(rows))
    if reach.bit_length() > _FINE_BITS:
        raise no_view(
            "the values that one unit may add to a group are too large for a running sum",
            "Lower max_rows_contributed, or declare closer bounds of the column.",
        )
    return reach


def only_grows(measure: Measure) -> bool:
    """Tell whether what a unit adds to a measure is never negative."""
    return measure.kind not in (
        MeasureKind.SUM,
        MeasureKind.CENTERED_SUM,
        MeasureKind.CENTERED_SQUARES,
    )

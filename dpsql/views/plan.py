"""The plan of a view: its measures, the noise of all steps, and the mechanism of its groups.

A plan is a pure function of the definition, the policy and the account. It is priced once, for all
steps: the plan of a single step costs nothing any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.intervals import confidence_among
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps as NoisySteps
from dpsql.privacy.mechanisms.additive import UsualNoise
from dpsql.privacy.mechanisms.selection import Selected, Usual
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.privacy.streams.mechanism import StreamMechanism, StreamNoise
from dpsql.privacy.streams.streams import ContinualNoise
from dpsql.views.definition import ViewDefinition
from dpsql.views.state import Contribution


@dataclass(frozen=True, slots=True)
class StepNoise(UsualNoise):
    """The noise on a measure at one step, as an ``Additive``: to say how large it is."""

    stream: StreamNoise
    step: int

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return self.stream.name

    @property
    def scale(self) -> float:
        """Its standard deviation, in steps of the measure."""
        return self.stream.std(self.step)

    def cost(self, composition: Composition, reach: int) -> float:
        """Return 0: all steps were paid for when the view was created."""
        return 0.0

    def std(self, groups: int) -> float:
        """Return its standard deviation, in steps of the measure."""
        return self.scale

    def margin(self, confidence: float, groups: int) -> float:
        """Find the smallest m for which P[abs(noise) <= m] >= ``confidence`` is proved."""
        found = self.stream.half_widths(confidence)
        return math.inf if found is None else float(found[self.step - 1])

    def add(self, values: NDArray[np.int64], source: EntropySource) -> NoisySteps:
        """Refuse to draw: the noise of a view comes from its keys."""
        raise AssertionError("the noise of a view comes from its keys")


class ListingNoise(StepNoise):
    """The noise of a mechanism that chooses groups, apart from others in descriptions."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StepSelection(Usual):
    """Which groups of a view come out at a step, as a ``Selection``: to say so in words and in SQL.

    ``domain`` is the number of declared groups, None if keys are unknown; ``one_step`` says that a
    unit contributes at one step only.
    """

    mechanism: StreamMechanism
    step: int
    one_step: bool
    domain: int | None

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return self.mechanism.name

    @property
    def source(self) -> str:
        """Where the mechanism and its guarantee come from."""
        return self.mechanism.source

    @property
    def delta(self) -> float:
        """0: all steps were paid for when the view was created."""
        return 0.0

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Return 0, as above."""
        return 0.0

    @property
    def declared(self) -> int | None:
        """How many declared groups it answers or chooses from, or None if keys are unknown."""
        return self.domain

    @property
    def threshold(self) -> float | None:
        """The threshold of a noisy score at this step."""
        found = self.mechanism.thresholds()
        return None if found is None else float(found[self.step - 1])

    def score_for_inclusion(self, probability: float) -> float | None:
        """Return how large a score must be to be released at this step with this probability."""
        return self.mechanism.score_for_inclusion(probability, self.step)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Refuse to draw: what a view draws comes from its keys."""
        raise AssertionError("what a view draws comes from its keys")


class ListingSelection(StepSelection):
    """The selection of a mechanism that chooses groups, apart from others in descriptions."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The plan of a view: the noise of each measure, and the mechanism that selects groups.

    ``noises`` are those of running measures; there are none where the mechanism chooses the groups
    that it lists, and puts noise on their one count.
    ``block`` is the private block of its query without the limits of any step, ``score`` the
    measure, by index, by which groups come out. A unit contributes to at most ``groups`` groups
    over all steps, None for any number, and adds at most ``reaches`` to each measure of a group;
    with ``one_step`` at a single step, which the state enforces. ``loss`` is what the whole stream
    costs.
    """

    definition: ViewDefinition
    block: Block
    measures: tuple[Measure, ...]
    noises: tuple[ContinualNoise, ...]
    score: int
    mechanism: StreamMechanism
    groups: int | None
    reaches: tuple[int, ...]
    one_step: bool
    loss: PrivacyLoss
    conversion_delta: float

    @property
    def streams(self) -> tuple[StreamNoise, ...]:
        """The noise of each measure."""
        return self.noises or (self.mechanism,)

    @property
    def by_step(self) -> bool:
        """True if the state keeps what each step added."""
        return self.definition.window is not None or self.mechanism.keeps_steps

    def of_block(self, block: Block) -> ViewPlan:
        """Return the same plan over other rows: those of a later step."""
        return replace(self, block=block)

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """The bound on a unit's contribution to a group over all steps, per measure."""
        return tuple(
            Contribution(self.block.measure_column(i), reach, only_grows(measure))
            for i, (measure, reach) in enumerate(zip(self.measures, self.reaches, strict=True))
        )

    def figures(self, aggregate: int, confidence: float | None) -> list[float] | None:
        """Tell the noise of an aggregate by step: as half-widths, or as standard deviations.

        None for an aggregate that is computed from several measures, and where values lack what
        cells of a tree have left out. Half-widths allow for what LIMIT chooses among declared
        groups; how many others there are is not published.
        """
        found = self.block.aggregates[aggregate]
        if found.kind.composed:
            return None
        (index,) = found.measures
        noise, unit = self.streams[index], self.measures[index].step
        top_k, block = self.block.top_k, self.block
        ranks = top_k is not None and top_k.measure == index and not self.mechanism.chooses
        among = confidence or 0.5
        if confidence is not None and top_k is not None and ranks and block.known_domain:
            among = confidence_among(confidence, top_k.limit, block.domain_size)
        widths = noise.half_widths(among)
        if widths is None:
            return None
        steps = range(1, self.definition.steps.count + 1)
        figures = map(noise.std, steps) if confidence is None else widths
        return [float(figure) * unit for figure in figures]

    def at(self, step: int) -> BlockPlan:
        """Plan one step, as a query's plan does: for its SQL, its intervals and its words."""
        declared = self.block.domain_size if self.block.known_domain else None
        chooses = self.mechanism.chooses
        noise, selection = StepNoise, StepSelection
        if chooses:
            noise, selection = ListingNoise, ListingSelection
        noisy = [
            NoisyMeasure(measure, noise(stream, step))
            for measure, stream in zip(self.measures, self.streams, strict=True)
        ]
        return BlockPlan(
            block=replace(self.block, measures=self.measures),
            selection=selection(self.mechanism, step, self.one_step, declared),
            measures=tuple(noisy),
            score=None if declared is not None else self.score,
            groups=self.groups,
            bounding=None,
            conversion_delta=self.conversion_delta,
        )


def only_grows(measure: Measure) -> bool:
    """Tell whether what a unit adds to a measure is never negative."""
    return measure.kind not in (
        MeasureKind.SUM,
        MeasureKind.CENTERED_SUM,
        MeasureKind.CENTERED_SQUARES,
        MeasureKind.CENTERED_AVERAGES,
    )

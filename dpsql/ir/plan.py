"""How a query is answered: mechanism, parameters, price. Decided before any data is read.

A plan is a pure function of the statement, the policy and the account, so EXPLAIN can print all of
it and nothing in it can leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsql.accounting.zcdp import PrivacyLoss
from dpsql.core.schema import Column
from dpsql.ir.measures import Aggregate, Measure, MeasureKind, Quantile
from dpsql.ir.query import Block
from dpsql.mechanisms.additive import Additive, IndependentNoise
from dpsql.mechanisms.cascade import NAMED_ALONE, Cascade, spread_noise
from dpsql.mechanisms.gaussian_cost import (
    SMOOTHING_DELTA,
    gaussian_price_of_noise,
    gaussian_price_of_quantile,
    gaussian_price_of_selection,
)
from dpsql.mechanisms.quantiles import ExponentialQuantile
from dpsql.mechanisms.selection import Selection


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism the planner considered, with the figures it was judged by.

    ``threshold`` is the score a group needs to be released with probability 1/2 (counted from the
    base of a top-k mechanism where ``relative``), ``noise_std`` the standard deviation of the first
    released value, both in the units of the answer. ``verdict`` says why it was taken or not.
    """

    mechanism: str
    threshold: float | None
    relative: bool
    noise_std: float | None
    verdict: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class NoisyMeasure:
    """A measure and its noise. ``noise`` is None where the selection releases the noisy score."""

    measure: Measure
    noise: Additive | None


@dataclass(frozen=True, slots=True)
class NoisyQuantile:
    """A quantile and the mechanism that draws it for each released group."""

    quantile: Quantile
    mechanism: ExponentialQuantile


@dataclass(frozen=True, slots=True)
class Bounding:
    """How many groups of a unit the rewriting keeps, and how much they weigh together.

    A unit keeps at most ``kept`` groups, the first by a salted hash. Sampling: ``kept`` equals
    ``groups`` and each counts in full. Weighting: a unit that keeps n > ``groups`` counts
    sqrt(``groups``/n) in each, so that its l2 norm is that of ``groups`` full contributions.
    """

    groups: int
    kept: int

    @classmethod
    def sample(cls, groups: int) -> Bounding:
        """Keep ``groups`` groups of each unit."""
        return cls(groups, groups)

    @property
    def weighted(self) -> bool:
        """True if units with many groups count less in each."""
        return self.kept > self.groups


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The plan of one private block.

    ``groups`` is the number of groups one unit may change among those released, or None where the
    released groups themselves are the bound. ``bounding`` is what the rewriting enforces on groups
    per unit, or None where nothing is needed. ``score`` indexes the measure that selection reads,
    or is None for a known domain. ``conversion_delta`` is the part of the query's delta that
    turns zCDP into its epsilon. ``one_shot`` is the price under basic composition: the block is
    then (epsilon, delta)-DP as a whole, whatever comes out. ``gaussian``: an account adds up what
    Gaussian DP costs, and the block is charged so.
    """

    block: Block
    selection: Selection
    measures: tuple[NoisyMeasure, ...]
    score: int | None
    groups: int | None
    bounding: Bounding | None
    conversion_delta: float
    quantiles: tuple[NoisyQuantile, ...] = ()
    one_shot: PrivacyLoss | None = None
    gaussian: bool = False
    candidates: tuple[Candidate, ...] = ()

    @property
    def cascade(self) -> Cascade | None:
        """The rounds that name groups, where there are several steps; ``measures`` are counted at
        a cap that is chosen on the way, and their noise is that at a cap of 1."""
        return self.selection if isinstance(self.selection, Cascade) else None

    @property
    def declared(self) -> bool:
        """True if the groups are those of declared keys.

        Exact rows then give keys as positions, and groups without rows count as zero.
        """
        return self.selection.declared is not None

    @property
    def answers_all(self) -> bool:
        """True if no score decides which of the declared groups come out."""
        return self.declared and self.base_rank is None

    @property
    def units_measure(self) -> int | None:
        """The number of units by which small declared groups are left out; None if none are.

        It is one of ``measures``, by index: a group comes out if it has at least
        ``min_units_per_group`` of them, with the noise that is on it.
        """
        if not (self.declared and self.block.hides_small_groups):
            return None
        kinds = [noisy.measure.kind for noisy in self.measures]
        return kinds.index(MeasureKind.UNITS)

    def units_needed(self, probability: float) -> float | None:
        """Tell how many units a declared group needs not to be left out with this probability.

        At least 1/2: noise is symmetric. None if no group is left out for its size.
        """
        index = self.units_measure
        if index is None:
            return None
        margin = 0.0
        if probability > 0.5:
            noise = self.noise_of(index).margin(2 * probability - 1, self.spread_groups(0))
            margin = noise * self.measures[index].measure.step
        return self.block.parameters.min_units_per_group + margin

    @property
    def base_rank(self) -> int | None:
        """The rank of the score that a group's chance to appear depends on, or None if none."""
        return self.selection.base_rank

    @property
    def max_released(self) -> int | None:
        """The most groups that can come out, where the SQL alone limits them."""
        return self.block.top_k.limit if self.groups is None and self.block.top_k else None

    def loss(self, released: int | None) -> PrivacyLoss:
        """Return the cost when ``released`` groups came out; None asks for the worst case.

        A function of the released output alone: this is what makes settling private.
        """
        if self.one_shot is not None:
            return self.one_shot
        groups = self.groups
        if groups is None:
            groups = self.max_released if released is None else released
            assert groups is not None
        if self.gaussian:
            return self._gaussian_loss(groups, released)
        values = sum(m.noise.rho(groups) for m in self.measures if m.noise is not None)
        values += sum(q.mechanism.rho(groups) for q in self.quantiles)
        return PrivacyLoss(self.selection.rho(released) + values, self.selection.delta)

    def _gaussian_loss(self, groups: int, released: int | None) -> PrivacyLoss:
        """Return the cost in Gaussian DP. Raises ``ParameterError`` where there is none."""
        price = gaussian_price_of_selection(self.selection, released)
        noises = (m.noise for m in self.measures if m.noise is not None)
        price += sum(gaussian_price_of_noise(noise, groups) for noise in noises)
        price += sum(gaussian_price_of_quantile(q.mechanism, groups) for q in self.quantiles)
        delta = self.selection.delta + SMOOTHING_DELTA
        if delta - self.selection.delta < SMOOTHING_DELTA:
            delta = math.nextafter(delta, 1.0)
        return PrivacyLoss(price, delta, gaussian=True)

    def is_whole(self, aggregate: Aggregate) -> bool:
        """Tell whether an answer is an integer: a count, or a sum or quantile of integers."""
        if aggregate.quantile is not None:
            return aggregate.quantile.whole
        return not aggregate.kind.composed and self.measures[aggregate.measures[0]].measure.integral

    def noise_of(self, measure: int) -> Additive:
        """Build the noise that ends up on a measure's released values."""
        noise = self.measures[measure].noise or self.selection.score_noise
        assert noise is not None
        return noise

    def noise_at(self, measure: int, counting: int) -> IndependentNoise:
        """Build the noise on a measure that a cascade counted as one of ``COUNTINGS`` says.

        ``NAMED_ALONE`` stands for the values of its only round, a negative cap for units that were
        counted with what naming had left.
        """
        assert self.cascade is not None
        if counting == NAMED_ALONE:
            return self.cascade.only_round.score_noise
        noise = self.noise_of(measure)
        if counting < 0 and measure == self.score:
            noise = self.cascade.spared_counting
        assert isinstance(noise, IndependentNoise)
        return spread_noise(noise, abs(counting))

    def spread_groups(self, released: int) -> int:
        """Tell how many groups share noise: those released, where they are the bound."""
        return released if self.groups is None else self.groups


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """A private block ready to be run: its plan, its generated SQL and its released keys.

    ``statement`` is how private rows are read, under a salt that is shown; each read has a salt of
    its own. ``keys`` are the released key columns and their types.
    """

    plan: BlockPlan
    statement: str
    keys: tuple[Column, ...]

    @property
    def name(self) -> str:
        """The name of the block's released table in the tail."""
        return self.plan.block.name

    @property
    def released_columns(self) -> tuple[Column, ...]:
        """The columns of the released table: keys, aggregates and their supports, noise."""
        block = self.plan.block
        columns = [Column(block.key_column(i), key.type) for i, key in enumerate(self.keys)]
        for index, aggregate in enumerate(block.aggregates):
            whole = self.plan.is_whole(aggregate)
            columns.append(Column(block.aggregate_column(index), "BIGINT" if whole else "DOUBLE"))
            columns += [Column(name, "DOUBLE") for name in block.support_columns(index)]
        asked = range(len(block.noise_columns))
        return (*columns, *(Column(block.noise_column(index), "DOUBLE") for index in asked))


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """The plan of a whole statement: one block plan per private block, costs added."""

    blocks: tuple[BlockPlan, ...]
    reserved: PrivacyLoss

    @property
    def conversion_delta(self) -> float:
        """The delta that converts the statement's rho to epsilon; 0 under basic composition."""
        return sum(block.conversion_delta for block in self.blocks)

    def epsilon(self, loss: PrivacyLoss) -> float:
        """Return the epsilon of a loss of this statement alone, with ``conversion_delta``."""
        return loss.epsilon_at(self.conversion_delta)

"""How a query is answered: mechanism, parameters, price. Decided before any data is read.

A plan is a pure function of the statement, the policy and the account, so EXPLAIN can print all of
it and nothing in it can leak.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from dpsql.core.schema import Column
from dpsql.core.sql import Sql, SqlRenderer
from dpsql.core.sql_types import BIGINT, DOUBLE
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.measures import Aggregate, AggregateKind, Measure, MeasureKind, Quantile
from dpsql.ir.query import Block
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import Additive
from dpsql.privacy.mechanisms.bounds_choice import BoundsChoice
from dpsql.privacy.mechanisms.left_out import LeftOutNoise
from dpsql.privacy.mechanisms.pooling import PublishedNoise
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.value_bounds import ValueBounds


@dataclass(frozen=True, slots=True)
class ReleaseNoise:
    """The noise in one release of a block, independent of its plan.

    ``measures`` is the noise on each of the block's measures. ``decided`` is the measure, by index,
    whose noise also decided which groups came out, None if none did; groups of size
    ``appears_half`` (in the units of the answer) appear at least half the time, those of
    ``appears_95`` 95% of the time. ``alone`` says that it was asked for afresh, to stand alone.
    """

    measures: tuple[PublishedNoise, ...]
    decided: int | None
    appears_half: float | None
    appears_95: float | None
    alone: bool


@dataclass(frozen=True, slots=True)
class RolledUp:
    """The release whose groups were summed for a block, with the noise of those groups.

    It was settled at a time (a UTC time in ISO 8601), had these ``keys``, ``over`` of which it was
    added, and so many of its groups make one. ``kept`` is how many of its groups it kept of a unit,
    None for all. ``noises`` are on one of its groups, for each of the block's measures.
    """

    settled: str
    keys: tuple[str, ...]
    over: tuple[str, ...]
    groups: int
    kept: int | None
    noises: tuple[PublishedNoise, ...]


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
class ColumnFigure:
    """An aggregate of the query and the noise it will carry.

    ``noise_std`` and ``margin95`` (half the width of a 95% interval) are in the units of the
    answer, for the most groups that can come out; None for averages and spreads, whose error
    depends on the released count. ``noise_scale`` is then that of the centred sum. ``resolution``
    is set for quantiles, which lie on a grid of such steps, or of such a share of the value if it
    is ``relative``: their ``noise_scale`` and ``margin95`` are in ranks, and the latter bounds how
    many rows a quantile can be off, whatever the data. ``beyond`` is how many rows are meant to lie
    beyond the value of a MIN or MAX; None for all else.
    ``together95`` is ``margin95`` after the answer is pooled with earlier releases, for
    groups that all of these have; None where there are none. ``follows95`` is half the width of
    its interval where it is rolled up from an earlier release; None where it follows from none.
    """

    aggregate: str
    noise: str
    noise_scale: float
    noise_std: float | None
    margin95: float | None
    resolution: float | None = None
    together95: float | None = None
    follows95: float | None = None
    relative: bool = False
    beyond: int | None = None


@dataclass(frozen=True, slots=True)
class StepFigure:
    """A step of a cascade, with its part of the block's price.

    ``noise_std`` is in units, of counting at a cap of 1 (it grows with the root of the cap).
    ``thresholds`` are the weights in whole units that a key must exceed, where a unit keeps as few
    keys and as many as it may; None for steps that name nothing.
    """

    step: str
    rho: float
    delta: float
    noise_std: float
    thresholds: tuple[float, float] | None = None


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
class LeftOutSubject:
    """The subject of an estimate: a measure of a plan, by index.

    With ``rows``, the rows that a number of units stands for, as each unit may add one row only.
    With ``clamped``, the parts of units' values that lie outside their bounds.
    """

    measure: int
    rows: bool = False
    clamped: bool = False

    @classmethod
    def of(cls, plan: BlockPlan, aggregate: Aggregate) -> LeftOutSubject | None:
        """Find the subject of an aggregate's estimate; None for aggregates without one."""
        if aggregate.quantile is not None or aggregate.kind.composed:
            return None
        (index,) = aggregate.measures
        units = plan.measures[index].measure.kind is MeasureKind.UNITS
        return cls(index, rows=units and aggregate.kind is AggregateKind.COUNT)

    def bounded_measure(self, plan: BlockPlan) -> Measure:
        """Return the measure that bounding reduces: rows, or the aggregate's own measure."""
        if not self.rows:
            return plan.measures[self.measure].measure
        one_row = plan.block.parameters.rows_limit == 1
        return Measure(MeasureKind.ROWS, per_group=None if one_row else (0, 1))


@dataclass(frozen=True, slots=True)
class LeftOutPlan:
    """The plan of a left-out estimate: how much of its subject bounding keeps and leaves out.

    One unit adds at most ``noise.most`` to what is kept, in steps of the measure's quantum, or of a
    whole unit where it is asked which part of its values lies outside their bounds.
    """

    subject: LeftOutSubject
    noise: LeftOutNoise

    @property
    def clamped(self) -> bool:
        """True if it is asked which part of values lies outside their bounds."""
        return self.subject.clamped


class LeftOutStatus(Enum):
    """What can be said of how much bounding leaves out of an aggregate."""

    ESTIMATED = "looked"  # there is an estimate
    NOTHING = "nothing"  # bounding cannot leave out any of it
    NOT_TOLD = "not told"


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The plan of one private block.

    ``groups`` is the number of groups one unit may change among those released, or None where the
    released groups themselves are the bound. ``bounding`` is what the rewriting enforces on groups
    per unit, or None where nothing is needed. ``score`` indexes the measure that selection reads,
    or is None for a known domain. ``conversion_delta`` is the part of the query's delta that turns
    zCDP into its epsilon. ``one_shot`` is the price under basic composition: the block is then
    (epsilon, delta)-DP as a whole, whatever comes out. ``gaussian``: an account adds up what
    Gaussian DP costs, and the block is charged so. ``estimates`` are asked and paid for apart,
    where the account has no release of them yet. ``bounds_choice`` are the draws of contribution
    bounds, and ``value_bounds`` those of the bounds of values without any, which go before: with
    them, the plan is one for the usual bounds. ``weight_cut`` is the weight of pairs of a unit and
    a group that supposedly have more rows than count, of each unit 1 divided among its groups,
    where that number was drawn, and ``weight_untold`` that of pairs which the draw hardly tells
    from pairs without further rows. ``kept`` are the earlier releases that values follow from:
    several that are pooled, in the order of the bits by which each row says from which, or one of
    more groups, which are rolled up; None where values are of their own.
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
    kept: tuple[ReleaseNoise, ...] | RolledUp | None = None
    estimates: tuple[LeftOutPlan, ...] = ()
    bounds_choice: BoundsChoice | None = None
    value_bounds: tuple[ValueBounds, ...] = ()
    weight_cut: float = 0.0
    weight_untold: float = 0.0

    @property
    def draws(self) -> tuple[BoundsChoice | ValueBounds, ...]:
        """All draws of bounds that go before."""
        return (*filter(None, (self.bounds_choice,)), *self.value_bounds)

    @property
    def tells_left_out(self) -> bool:
        """True if the plan has estimates of what bounding leaves out, or they were asked for."""
        return bool(self.estimates) or self.block.parameters.estimates_anywhere

    @property
    def price_open(self) -> bool:
        """True if bounds that are to be found decide its price: it keeps a maximum error."""
        exact = [each for each in self.block.aggregates if each.max_error is not None]
        if self.bounds_choice is not None:
            return bool(exact)
        return bool(self.value_bounds) and any(map(self.block.rests_on_open, exact))

    @property
    def names_alone(self) -> bool:
        """True if groups come out in their order, and no score of theirs is drawn.

        What stands for the score then counts down from the number of groups to 1.
        """
        noises = [noisy.noise for noisy in self.measures]
        return bool(noises) and self.selection.score_noise is None and not any(noises)

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
        """The index of the number of units that hides small declared groups, or None.

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
        """The rank of the score from which a group's threshold counts; None without one."""
        return self.selection.base_rank

    @property
    def max_released(self) -> int | None:
        """The most groups that can come out, where the SQL alone limits them."""
        return self.block.top_k.limit if self.groups is None and self.block.top_k else None

    def loss(self, released: int | None) -> PrivacyLoss:
        """Return the cost when ``released`` groups came out; None asks for the worst case.

        A function of the released output alone: this is what makes settling private. Values are
        drawn for released groups alone, after these were chosen and paid for. A unit changes at
        most ``groups`` of them, and no more than there are, each by as much as planned: the values
        of few groups cost less, under zCDP. Checked by ``tests/pipeline/test_refund.py``.
        """
        if self.one_shot is not None:
            return self.one_shot
        composition = Composition.GDP if self.gaussian else Composition.ZCDP
        choice, delta = self.selection.cost(composition, released), self.selection.delta
        values = sum(
            m.noise.cost(composition, self._groups_paid(released, m.noise))
            for m in self.measures
            if m.noise is not None
        )
        ranks = sum(
            q.mechanism.cost(composition, self._groups_paid(released)) for q in self.quantiles
        )
        return PrivacyLoss(choice + (values + ranks), delta, gaussian=self.gaussian)

    def _groups_paid(self, released: int | None, noise: Additive | None = None) -> int:
        """Tell in how many groups a unit's values are paid for when so many came out.

        Noise that all groups share has the law of all of them. In Gaussian DP, and where the
        selection has one price, all that were planned are paid for.
        """
        groups = self.groups
        if groups is None:
            groups = self.max_released if released is None else released
            assert groups is not None
            return groups
        whole = self.gaussian or not self.selection.refunds
        if released is None or whole or not (noise is None or noise.divides):
            return groups
        return min(groups, released)

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

    def spread_groups(self, released: int) -> int:
        """Tell how many groups share noise: those released, where they are the bound."""
        return released if self.groups is None else self.groups


@dataclass(frozen=True, slots=True)
class PreparedBeside:
    """What is read and paid for beside a block: its generated SQL, and its release's fingerprint.

    ``tables`` are those that its statement scans, each as often as it does. ``write`` writes that
    statement, to be run by itself, and to be shown.
    """

    fingerprint: str
    tables: tuple[TableName, ...]
    write: Callable[[], Sql] = field(compare=False, repr=False, kw_only=True)
    renderer: SqlRenderer = field(compare=False, repr=False, kw_only=True)

    @property
    def statement(self) -> Sql:
        """The generated SQL, by itself."""
        return self.write()

    @property
    def text(self) -> str:
        """The SQL as its engine reads it."""
        return self.statement.render(self.renderer)


@dataclass(frozen=True, slots=True)
class PreparedEstimate(PreparedBeside):
    """A left-out estimate ready to run."""

    plan: LeftOutPlan = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class StreamedDraw:
    """The inputs of a draw over rows that are streamed: the plan of its block, and the dialect.

    ``beside`` are subjects of estimates that may be taken at its pairs of units and groups.
    """

    plan: BlockPlan
    dialect: Dialect
    beside: tuple[LeftOutSubject, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedBoundsChoice(PreparedBeside):
    """The draws of a block's contribution bounds, ready to run.

    With ``streamed`` its statement is shown alone: NumPy puts rows together, to the same weights.
    ``block`` is the plan of a block that may be read of the same pairs of units and groups; None if
    none will be.
    """

    choice: BoundsChoice = field(kw_only=True)
    streamed: StreamedDraw | None = field(default=None, compare=False, repr=False, kw_only=True)
    block: BlockPlan | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class PreparedValueBounds(PreparedBeside):
    """The draws of the bounds of a value, ready to run."""

    choice: ValueBounds = field(kw_only=True)


OpenBounds: TypeAlias = PreparedBoundsChoice | PreparedValueBounds
"""The draws of bounds that are to be found before a block is asked."""


class Maker(Enum):
    """What bounds the contributions of units, to the same integers."""

    SQL = "SQL"
    NUMPY = "NumPy"


@dataclass(frozen=True, slots=True)
class BoundedBy:
    """The maker that bounds a block, and why. It is no part of what is asked."""

    maker: Maker = Maker.SQL
    why: str = ""


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """A private block ready to be run: its plan, its generated SQL and its released keys.

    ``write`` writes how private rows are read, under a salt that is shown; each read has a salt of
    its own. ``keys`` are the released key columns and their types. ``estimates`` are
    those of the plan, and ``open_bounds`` its draws of bounds, those of values last.
    ``bounded_by`` says what bounds it, and estimates that are read beside.
    """

    plan: BlockPlan
    keys: tuple[Column, ...]
    estimates: tuple[PreparedEstimate, ...] = ()
    open_bounds: tuple[OpenBounds, ...] = ()
    bounded_by: BoundedBy = field(default=BoundedBy(), compare=False)
    write: Callable[[], Sql] = field(compare=False, repr=False, kw_only=True)
    renderer: SqlRenderer = field(compare=False, repr=False, kw_only=True)

    @property
    def statement(self) -> Sql:
        """The generated SQL to be shown and bound."""
        return self.write()

    @property
    def text(self) -> str:
        """The SQL as its engine reads it."""
        return self.statement.render(self.renderer)

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
            columns.append(Column(block.aggregate_column(index), BIGINT if whole else DOUBLE))
            columns += [Column(name, DOUBLE) for name in block.support_columns(index)]
        asked = range(len(block.noise_columns))
        return (*columns, *(Column(block.noise_column(index), DOUBLE) for index in asked))


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """The plan of a whole statement: one block plan per private block, costs added.

    ``reserved`` is the worst case of its blocks, without estimates and draws of bounds.
    """

    blocks: tuple[BlockPlan, ...]
    reserved: PrivacyLoss

    @property
    def reserved_with_estimates(self) -> PrivacyLoss:
        """The worst case where the account has no release of any estimate or draw of bounds."""
        estimates = (estimate.noise.loss for block in self.blocks for estimate in block.estimates)
        choices = (draw.loss for block in self.blocks for draw in block.draws)
        return sum((*estimates, *choices), self.reserved)

    @property
    def conversion_delta(self) -> float:
        """The delta that converts the statement's rho to epsilon; 0 under basic composition."""
        return sum(block.conversion_delta for block in self.blocks)

    def epsilon(self, loss: PrivacyLoss) -> float:
        """Return the epsilon of a loss of this statement alone, with ``conversion_delta``."""
        return loss.epsilon_at(self.conversion_delta)

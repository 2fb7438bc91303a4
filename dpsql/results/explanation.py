"""Explanations of EXPLAIN: the plan and the price of a query, from public facts only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from dpsql.accuracy.left_out import left_out_limits
from dpsql.accuracy.wording import enumerated
from dpsql.core import display
from dpsql.core.formatting import json_text, significant, upper_figures
from dpsql.ir.plan import (
    BlockPlan,
    BoundedBy,
    Candidate,
    ColumnFigure,
    LeftOutSubject,
    PreparedBlock,
    PreparedEstimate,
    PrivacyPlan,
    ReleaseNoise,
    StepFigure,
)
from dpsql.ir.query import Block, BoundsFound, Query
from dpsql.kinds.registry import release_kind
from dpsql.kinds.rolled_up import RolledUpKind
from dpsql.planner.max_error import ExchangeRate, error_targets, margins_missed
from dpsql.policy.limits import Limits
from dpsql.policy.parameters import parameter_text
from dpsql.privacy.accounting.zcdp import ZERO, PrivacyLoss
from dpsql.privacy.mechanisms.left_out import LADDER_STEPS
from dpsql.privacy.mechanisms.selection import UtilityBound


@dataclass(frozen=True, slots=True)
class LeftOutFigure:
    """The left-out estimate of an aggregate in a plan: its status, price and noise.

    ``status`` is ``looked``, ``nothing`` or ``not told``. An estimate costs ``loss`` where the
    account has no release of it yet, counts units with a noise of ``noise_std`` units, and of what
    one unit has left out at most ``reach``, in steps of the values' lattice; ``limits`` names what
    causes it and ``sql`` is its statement. All but ``aggregate`` and ``status`` say nothing without
    an estimate.
    """

    aggregate: str
    status: str
    limits: tuple[str, ...] = ()
    loss: PrivacyLoss = ZERO
    noise_std: float = 0.0
    reach: int = 0
    sql: str = ""


@dataclass(frozen=True, slots=True)
class StreamNoiseFigure:
    """The noise on a measure of a materialized view, as standard deviations in its own units.

    ``stds`` are those of some steps. One answer at the price of the whole view would have a noise
    of ``once``, and answers asked again at every step of ``repeated``; None where none compares.
    """

    measure: str
    noise: str
    stds: tuple[float, ...]
    once: float | None
    repeated: float | None


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """What the block of a materialized view has at some of its ``steps``: the first to the last.

    ``lasting`` says how many there are and how long one is, ``covered`` which of them a value
    covers, ``choices`` how groups are chosen, empty where none are. ``thresholds`` are the noisy
    scores that a group must exceed at these steps, None without a fixed one.
    """

    lasting: str
    covered: str
    choices: str
    steps: tuple[int, ...]
    noises: tuple[StreamNoiseFigure, ...]
    thresholds: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class BlockExplanation:
    """One private block: the generated SQL, the mechanism and its alternatives, and its figures.

    ``source`` names the paper and the theorem of the mechanism, ``bounding`` says what one unit may
    contribute, ``score`` what groups are compared by (None where all are answered). The block costs
    ``reserved`` at most and ``least`` if nothing comes out.

    ``appears_half`` and ``appears_95`` are the scores a group needs to be released with that
    probability, counted from the largest score of rank ``base_rank`` if that is not None.
    ``least_units`` is the noisy number of units below which a declared group is left out, None if
    none is; one of ``units_95`` units comes out with probability 95%. ``utility_bound`` says how
    good the first ``limit`` groups of a top-k are, in the units of the answer. All scores are those
    of bounded contributions. ``epsilon`` is the most it may cost: as was asked for, or the least
    that keeps a maximum error. ``rates`` say which margins of 95% intervals which epsilons buy,
    this block's own and others, in the order of epsilon. ``sql`` holds a random salt, which no run
    uses. ``steps`` are those of a cascade, which reads rows in several statements: ``sql`` is the
    first of them, and figures of noise are those at a cap of 1. ``left_out`` is empty where no part
    of the price goes to telling what bounding leaves out. ``counted`` is True where the tail
    counts, sums or excludes the groups that come out. ``groups_chosen`` says what became of
    ``max_groups_contributed`` where nobody gave it, and why; it is empty where somebody did.
    ``maker`` says what bounds the contributions of units, and why that; nothing else depends on it.
    ``follows`` says of which release it is the sum, if it could be answered from one for nothing.
    ``keys`` says where all values of each key come from; it is empty where they are found in rows.
    ``declared`` says which parameters follow from defaults of tables, or from what is declared of
    units and their rows. ``stream`` is that of a materialized view, whose price is for all steps;
    figures on who appears are of its last one.
    """

    table: str
    privacy_unit: str
    mechanism: str
    source: str
    bounding: str
    sql: str
    candidates: tuple[Candidate, ...]
    columns: tuple[ColumnFigure, ...]
    score: str | None
    base_rank: int | None
    appears_half: float | None
    appears_95: float | None
    least_units: int | None
    units_95: float | None
    limit: int | None
    utility_bound: UtilityBound | None
    reserved: PrivacyLoss
    least: PrivacyLoss
    epsilon: float = 0.0
    rates: tuple[ExchangeRate, ...] = ()
    steps: tuple[StepFigure, ...] = ()
    left_out: tuple[LeftOutFigure, ...] = ()
    groups_chosen: str = ""
    counted: bool = False
    maker: str = ""
    follows: str = ""
    keys: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    stream: StreamFigures | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a query in words and numbers. Printing it costs nothing and reads nothing.

    ``query`` is the text as it was asked, ``blocks`` its private parts, ``tail`` what is left of it
    over released rows. ``reserved`` is the worst case, which is charged before reading; alone it is
    worth ``reserved_epsilon``, at the delta of ``reserved`` plus ``conversion_delta``.
    ``answered`` is when the account paid for a release of these blocks that the ledger would give
    again at no cost (a UTC time in ISO 8601), if it did. ``limits`` are those of the policy on the
    work of reading private rows, if any are read. A statement that is no query has its text alone.
    ``earlier`` is how many releases of the question the account holds that a new one would be put
    together with; of a question that was ``answered``, a new one asked for with ``fresh`` and
    ``combine`` ``all``. ``follows`` is when the account paid for the latest of the releases that
    the answer follows from, at no cost, with ``answer_from = released``; None if it does not.
    ``only_released`` says that it is asked for so: then it is refused where it does not follow.
    ``outdated`` is when the account paid for a release that would be given again if it were not
    older than ``max_age``; None, both of them, if there is none.
    ``delta_buys`` is for how many such questions the policy gives the account δ, whatever it has
    left; None if they take none. ``taken`` is the share that the price takes of what the account
    has left, of that of ε, ρ and δ which is scarcest; None without a limit. ``taken_from`` words
    what it is a share of: where no ledger is read, of the whole budget. ``shows_sql`` says that
    its text has the generated SQL, as ``EXPLAIN (SQL)`` asks for. ``price_open`` says that what a
    maximum error costs is decided by bounds that are found first, and that figures are for the
    usual ones; ``cheapest`` is then the ε of the least. ``clock`` says what it takes the time for;
    it is empty if it does not ask. ``answers_first`` is how many subqueries are answered first,
    whose blocks come first; figures of the others are for some constants in the place of their
    answers.
    """

    query: str
    tail: str = ""
    blocks: tuple[BlockExplanation, ...] = ()
    reserved: PrivacyLoss = ZERO
    reserved_epsilon: float = 0.0
    conversion_delta: float = 0.0
    answered: str | None = None
    limits: Limits | None = None
    earlier: int = 0
    follows: str | None = None
    only_released: bool = False
    delta_buys: int | None = None
    outdated: str | None = None
    max_age: str | None = None
    taken: float | None = None
    taken_from: str = ""
    shows_sql: bool = False
    price_open: bool = False
    cheapest: float | None = None
    answers_first: int = 0

    def after(self, first: Sequence[Explanation]) -> Explanation:
        """Return the explanation of a question for which others are answered first."""
        reserved = sum((each.reserved for each in first), self.reserved)
        delta = sum((each.conversion_delta for each in first), self.conversion_delta)
        return replace(
            self,
            blocks=tuple(block for each in (*first, self) for block in each.blocks),
            reserved=reserved,
            conversion_delta=delta,
            reserved_epsilon=reserved.epsilon_at(delta),
            answers_first=len(first),
        )

    clock: str = ""

    @property
    def anew(self) -> str:
        """The reason for a new release although one is stored: its age; empty if none is stored."""
        if self.outdated is None:
            return ""
        return f"the stored answer of {self.outdated[:10]} is older than max_age, {self.max_age}"

    def to_json(self) -> str:
        """Write all of it as JSON text."""
        return json_text(upper_figures(asdict(self)), indent=2)

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


_ONE_ROW: Final = "none needed: a unit is one row, in one group"


def explain_block(
    plan: BlockPlan,
    sql: str,
    rates: tuple[ExchangeRate, ...] = (),
    estimates: Sequence[PreparedEstimate] = (),
    bounded_by: BoundedBy = BoundedBy(),  # noqa: B008 (frozen)
) -> BlockExplanation:
    """Return the figures of one block plan, with its estimates."""
    block, selection, kind = plan.block, plan.selection, release_kind(plan)
    half, high = selection.score_for_inclusion(0.5), selection.score_for_inclusion(0.95)
    step = 1.0 if plan.score is None else plan.measures[plan.score].measure.step
    units = plan.units_needed(0.95)
    return BlockExplanation(
        table=block.table,
        privacy_unit=f"{block.unit_name} ({block.unit_column})",
        mechanism=selection.name,
        source=selection.source,
        bounding=_ONE_ROW if block.rows_are_units else kind.bounding,
        sql=sql,
        candidates=plan.candidates,
        counted=block.counted,
        columns=tuple(kind.figure(index) for index in range(len(block.aggregates))),
        score=kind.counted_by,
        base_rank=plan.base_rank,
        appears_half=None if half is None else half * step,
        appears_95=None if high is None else high * step,
        least_units=None if units is None else block.parameters.min_units_per_group,
        units_95=units,
        limit=None if block.top_k is None else block.top_k.limit,
        utility_bound=_utility_bound(plan, step),
        reserved=plan.loss(None),
        least=plan.loss(0),
        epsilon=block.parameters.epsilon,
        rates=rates,
        steps=kind.steps,
        left_out=_left_out_figures(plan, estimates),
        groups_chosen=block.groups_chosen,
        maker=_maker(bounded_by),
        keys=tuple(_keys(block)),
        declared=tuple(_declared(plan)),
    )


def _maker(bounded_by: BoundedBy) -> str:
    """Name what bounds contributions, with the reason."""
    return f"{bounded_by.maker.value}: {bounded_by.why}" if bounded_by.why else ""


def _keys(block: Block) -> Iterator[str]:
    """Say where all values of each key come from, if they are known."""
    for key in block.keys if block.known_domain else ():
        size = f"{len(key.domain or ()):,} values"
        yield f"{key.text}: {size}, from {key.origin or 'the policy'}"


def _declared(plan: BlockPlan) -> Iterator[str]:
    """Say which parameters follow from tables' defaults, from rows of units, or from a draw."""
    block = plan.block
    unit, parameters = block.unit_name, block.parameters
    if block.source.share is not None:
        share = block.source.share_text
        yield (
            f"a sample of units: each {unit} is in it with probability {share}, so counts and sums "
            f"are of about {share} of all"
        )
    if block.chooses_rows and error_targets(block):
        yield (
            "max_error is of the noise before rows are chosen by it: intervals of those that are "
            "shown may be wider"
        )
    known = {"max_rows_contributed": block.most_rows, "max_groups_contributed": block.most_groups}
    for name, table in block.table_defaults:
        if known.get(name) is None:
            value = parameter_text(name, getattr(parameters, name))
            yield f"{name} is {value}, the default of {table}"
    found, named = block.bounds_found or BoundsFound(), block.bounds_to_find
    values = found.values
    if found.known:
        for name, bound in named.items():
            yield f"{name} is {bound:,}, found privately"
        for each in values:
            why = "found privately"
            if each.usual:
                why = "the usual bounds, as too few units had values to find others"
            yield f"{each.text} is clamped to {each.range}, {why}"
        missed = margins_missed(plan)
        if missed is not None:
            yield f"max_error takes more than can be spent: {missed}"
    elif plan.draws:
        loss = sum((draw.loss for draw in plan.draws), ZERO)
        price = f"ε {significant(loss.epsilon)}" if loss.epsilon else f"ρ {significant(loss.rho)}"
        known_by = {name: f"{bound:,}" for name, bound in named.items()}
        known_by |= {f"the bounds of {each.text}": each.range for each in values}
        grows = "the price of the error" if plan.price_open else "noise"
        several = len(named) + 2 * len(values) > 1
        are, them = ("are", "them") if several else ("is", "it")
        usual = enumerated(list(dict.fromkeys(known_by.values())))
        yield (
            f"{enumerated(list(known_by))} {are} found first, for {price}; {grows} grows with "
            f"{them}, and is said below for {usual}"
        )
    if block.most_rows is not None:
        in_all = block.unit_groups is not None and block.unit_groups <= block.most_rows
        where = "here" if in_all or not block.keys else "in a group"
        yield f"max_rows_contributed is {block.most_rows}, as no {unit} has more rows {where}"
    if block.most_groups is not None:
        most = "at most " if parameters.automatic else ""
        why = "more rows here" if block.most_groups > 1 else "two values of the keys"
        number = f"{most}{block.most_groups}"
        yield f"max_groups_contributed is {number}, as no {unit} has {why}"


def _left_out_figures(
    plan: BlockPlan, estimates: Sequence[PreparedEstimate]
) -> tuple[LeftOutFigure, ...]:
    """List the left-out estimates of a plan's aggregates, where a part of the price is for them.

    A trace shows plans before estimates are prepared for them.
    """
    if not plan.tells_left_out:
        return ()
    by_subject = {one.plan.subject: one for one in estimates}
    found = []
    for aggregate in plan.block.aggregates:
        status = release_kind(plan).left_out_status(aggregate)
        figure = LeftOutFigure(aggregate.text, status.value)
        subject = LeftOutSubject.of(plan, aggregate)
        prepared = None if subject is None else by_subject.get(subject)
        if prepared is not None and subject is not None:
            noise = prepared.plan.noise
            figure = replace(
                figure,
                limits=left_out_limits(plan, subject.bounded_measure(plan)),
                loss=noise.loss,
                noise_std=noise.rung_noise.std(1) / LADDER_STEPS,
                reach=noise.ladder.top,
                sql=prepared.text,
            )
        found.append(figure)
        outside = None if subject is None else by_subject.get(replace(subject, clamped=True))
        if outside is not None:
            noise = outside.plan.noise
            text = f"values of {aggregate.text}"
            std = noise.rung_noise.std(1) / LADDER_STEPS
            limits = ("contribution_bounds_per_row",)
            found.append(LeftOutFigure(text, "looked", limits, noise.loss, std, 1, outside.text))
    return tuple(found)


def explain(
    query: Query,
    plan: PrivacyPlan,
    blocks: Sequence[PreparedBlock],
    rates: Sequence[tuple[ExchangeRate, ...]],
) -> Explanation:
    """Return the explanation of a planned statement, with the exchange rates of each block."""
    reserved = plan.reserved_with_estimates
    return Explanation(
        query=query.text,
        tail=query.run,
        blocks=tuple(
            explain_block(block.plan, block.text, rate, block.estimates, block.bounded_by)
            for block, rate in zip(blocks, rates, strict=True)
        ),
        reserved=reserved,
        reserved_epsilon=plan.epsilon(reserved),
        conversion_delta=plan.conversion_delta,
        price_open=any(block.price_open for block in plan.blocks),
    )


def with_earlier(
    explanation: Explanation,
    plans: Sequence[BlockPlan],
    earlier: Sequence[Sequence[ReleaseNoise]],
) -> Explanation:
    """Add to an explanation what its answer gains from ``earlier`` releases, each of all blocks."""
    if not earlier:
        return explanation
    blocks = [
        _block_with_earlier(block, plan, [release[index] for release in earlier])
        for index, (block, plan) in enumerate(zip(explanation.blocks, plans, strict=True))
    ]
    return replace(explanation, blocks=tuple(blocks), earlier=len(earlier))


def with_roll_up(
    explanation: Explanation, settled: str | None, plans: Sequence[BlockPlan], *, only: bool
) -> Explanation:
    """Add to an explanation what follows from releases of more keys, as ``plans`` say.

    The latest of these was paid for when ``settled`` says; None if nothing follows. ``only`` says
    that nothing else was asked for.
    """
    explanation = replace(explanation, only_released=only)
    if settled is None:
        return explanation
    pairs = zip(explanation.blocks, plans, strict=True)
    blocks = tuple(_block_rolled_up(block, plan) for block, plan in pairs)
    return replace(explanation, blocks=blocks, follows=settled)


def _block_rolled_up(block: BlockExplanation, plan: BlockPlan) -> BlockExplanation:
    figures = []
    for index, figure in enumerate(block.columns):
        within = release_kind(plan).widest_margin(index, 0.95)
        figures.append(replace(figure, follows95=within))
    return replace(block, columns=tuple(figures), follows=RolledUpKind(plan).sums)


def _block_with_earlier(
    block: BlockExplanation, plan: BlockPlan, earlier: Sequence[ReleaseNoise]
) -> BlockExplanation:
    own = release_kind(plan).published(1, alone=False)
    assert own is not None
    joined = replace(plan, kept=(*earlier, own))
    figures = []
    for figure, aggregate in zip(block.columns, plan.block.aggregates, strict=True):
        if figure.margin95 is not None:
            (index,) = aggregate.measures
            error = release_kind(joined).margin(1, index, plan.is_whole(aggregate), 0.95)
            figure = replace(figure, together95=error)
        figures.append(figure)
    return replace(block, columns=tuple(figures))


def _utility_bound(plan: BlockPlan, step: float) -> UtilityBound | None:
    """Bound the utility of a top-k mechanism, in the units of the answer."""
    top_k = plan.block.top_k
    found = None if top_k is None else plan.selection.utility_bound(top_k.limit)
    if found is None:
        return None
    gap = None if found.gap is None else found.gap * step
    return replace(found, shortfall=found.shortfall * step, gap=gap)

"""From the text of a query to all that its answer needs, but for the budget and the rows.

Whatever can be refused is refused here, where nothing has been read or spent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.periods import Period
from dpsql.core.remembered import Remembered
from dpsql.core.schema import Column, Table, rules_of
from dpsql.core.sql_types import UNKNOWN
from dpsql.core.timeout import refuse_late
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.edge_rows import on_edge_rows, trial_statement
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN, dialect_of
from dpsql.errors import QueryRefused, UnknownName
from dpsql.ir.plan import (
    BlockPlan,
    LeftOutPlan,
    OpenBounds,
    PreparedBlock,
    PreparedEstimate,
    PrivacyPlan,
)
from dpsql.ir.query import Block, PlainTail, Query
from dpsql.ir.relations import (
    PublicSource,
    PublishedView,
    RowSet,
    TypesAlone,
    ViewScan,
    bottom_up,
)
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.clock import ClockReading, read_clock
from dpsql.pipeline.decided_columns import decide
from dpsql.pipeline.first_answers import (
    MOST_ANSWER_ROWS,
    FirstAnswer,
    groups_can_be_missing,
    has_too_many_groups,
    part_of,
    place_answers,
    stand_in,
    subquery_text,
    too_many_rows,
)
from dpsql.pipeline.given_keys import with_keys_given
from dpsql.pipeline.kept.fingerprint import estimate_fingerprints, fingerprint
from dpsql.pipeline.known_keys import with_keys_narrowed
from dpsql.pipeline.looked_up import finds_one
from dpsql.pipeline.open_bounds import open_bounds
from dpsql.pipeline.public_keys import with_keys_made
from dpsql.pipeline.release import RehearsedWays, refuse_unknown_noise, rehearse_estimate
from dpsql.pipeline.tail.runner import Tails
from dpsql.pipeline.trace import StatementTrace, Trace
from dpsql.planner import plan_query, plan_within_epsilon
from dpsql.planner.budget import QueryBudget
from dpsql.planner.groups import with_groups_decided
from dpsql.planner.max_error import Replan, error_targets, error_within, exchange_rates
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import EPSILON_LIMITS, AnswerFrom, Parameters, Pooling
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.results.explanation import Explanation, explain
from dpsql.results.rows import Row
from dpsql.sql.blocks.catalog import place_catalog
from dpsql.sql.blocks.examined import (
    examine,
    trials_of,
)
from dpsql.sql.blocks.validate import validate
from dpsql.sql.blocks.view_intervals import place_view_intervals
from dpsql.sql.expressions.first_answers import (
    GroupKeys,
    keys_to_group_by,
    number_queries,
    set_apart,
    to_answer_first,
)
from dpsql.sql.expressions.legality import plain_column
from dpsql.sql.lineage.asof_joins import write_asof_joins
from dpsql.sql.lineage.lateral_joins import write_laterals
from dpsql.sql.lineage.lookups import KeyComparison
from dpsql.sql.lineage.table_names import name_of, settle_names, tables_named
from dpsql.sql.relations.from_clause import from_clause
from dpsql.sql.rewrite.left_out import left_out_sql, tables_read
from dpsql.sql.tail.bind_check import tail_sql
from dpsql.syntax.parse import parse, place_blamed, understood
from dpsql.syntax.placeholders import PlaceholderValues, bind_values, values_key
from dpsql.syntax.probes import drop_unused_ctes, has_no_rows

_MOST_FIRST = 16  # subqueries of a statement that are answered first
MOST_PLANS = 256  # statements that an account keeps planned
_LONGEST = 10_000  # characters of a statement that is kept: plans are some hundred times as large
MOST_PLANNED_TEXT = 500_000  # characters of all of them, with their values
_Key: TypeAlias = tuple[
    str,
    object,
    str | None,
    tuple[Parameters, frozenset[str]],
    tuple[bool, bool, bool],
    tuple[FoundBounds | None, ...],
    tuple[int | None, GroupKeys, tuple[FirstAnswer, ...]],
]


@dataclass(frozen=True, slots=True)
class Question:
    """A question: its text, values and parameters, and the moment ``at`` which it is asked.

    ``pooling``: it is prepared to show several releases of it pooled. ``bounds`` are the
    bounds that were found for its blocks, in their order, None where none is needed. ``capped``: a
    maximum error that these make too dear gives way to the epsilon in force. Of a subquery that is
    answered first, ``part`` is the number, and ``keys`` are the conditions by which it is asked for
    groups. ``answers`` are those that were given first. ``supposed``: its values only stand for
    those to come.
    """

    text: str
    values: PlaceholderValues
    mechanism: str | None
    parameters: Parameters
    fresh: bool
    at: datetime
    pooling: bool = False
    bounds: tuple[FoundBounds | None, ...] = ()
    capped: bool = False
    part: int | None = None
    keys: GroupKeys = ()
    answers: tuple[FirstAnswer, ...] = ()
    supposed: bool = False

    @property
    def sound(self) -> bool:
        """True if text and mechanism are texts: callers can pass anything."""
        return isinstance(self.text, str) and isinstance(self.mechanism, str | None)

    @property
    def key(self) -> _Key:
        """The key under which a prepared question is cached: equal for equal questions.

        Of those that ask the clock, no longer than it says the same.
        """
        asked = (self.parameters, self.parameters.given)
        values = values_key(self.values)
        flags = self.pooling, self.capped, self.supposed
        first = self.part, self.keys, self.answers
        return self.text, values, self.mechanism, asked, flags, self.bounds, first


@dataclass(frozen=True, slots=True)
class PlanningTerms:
    """How blocks were planned: ``replan`` plans one within its epsilon, ``most`` being the most."""

    replan: Replan
    most: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that has been validated, planned, rewritten and bound: ready to be paid for.

    ``terms`` are for asking what other epsilons would buy. ``ways`` have it planned as it will be
    read, and have done so for estimates without a release. What reads materialized views, which
    come and go, is ``passing``: it is not remembered. Where it is ``empty``, its text alone says
    that it has no rows: it has no blocks then, and nothing is to be run. ``clock`` is what it was
    told of the time, if it asks for it. ``first`` are its subqueries that were answered first, of
    private rows, in short, and ``of_some_groups`` those of them that give a value to the rows of
    groups that came out alone. What was planned by rows of public tables, which may be others for
    the next connection, is ``of_connection``: it is remembered by this one alone.
    """

    query: Query
    plan: PrivacyPlan
    blocks: tuple[PreparedBlock, ...]
    columns: tuple[Column, ...]
    fingerprint: str
    terms: PlanningTerms
    ways: RehearsedWays
    passing: bool = False
    empty: bool = False
    clock: ClockReading | None = None
    first: tuple[str, ...] = ()
    of_some_groups: tuple[str, ...] = ()
    of_connection: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the answer's columns, hidden ones too."""
        return tuple(column.name for column in self.columns)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that an answer shows."""
        return self.columns[: len(self.columns) - self.query.hidden]

    @property
    def fresh(self) -> bool:
        """True if a block's OPTIONS ask for new noise."""
        return any(block.plan.block.fresh for block in self.blocks)

    @property
    def only_released(self) -> bool:
        """True if a block is to be answered from what the account holds, and not from rows."""
        asked = (block.plan.block.parameters.answer_from for block in self.blocks)
        return any(each is AnswerFrom.RELEASED for each in asked)

    @property
    def estimates(self) -> tuple[PreparedEstimate, ...]:
        """The left-out estimates of all blocks."""
        return tuple(estimate for block in self.blocks for estimate in block.estimates)

    @property
    def open_bounds(self) -> tuple[tuple[OpenBounds, ...], ...]:
        """The draws of the bounds that are to be found first, by block.

        It is empty where there are none: the question can be answered as it is prepared.
        """
        choices = tuple(block.open_bounds for block in self.blocks)
        return choices if any(choices) else ()

    @property
    def price_open(self) -> bool:
        """True if a draw of bounds decides the price of a maximum error."""
        return any(block.plan.price_open for block in self.blocks)

    @property
    def combine(self) -> Pooling:
        """The releases with which the answer is pooled: the strictest setting of its blocks."""
        if any(block.plan.block.source.share is not None for block in self.blocks):
            return Pooling.OFF  # each reading has a sample of its own
        asked = {block.plan.block.parameters.combine for block in self.blocks}
        return next((c for c in (Pooling.OFF, Pooling.ALL) if c in asked), Pooling.SERIES)

    @property
    def max_age(self) -> Period | None:
        """The maximum age of releases for the answer: the least of its blocks'."""
        asked = (block.plan.block.parameters.max_age for block in self.blocks)
        return min(filter(None, asked), key=lambda age: age.length, default=None)

    def explain(self) -> Explanation:
        """Explain the plan in words and numbers."""
        replan, most = self.terms.replan, self.terms.most
        rates = tuple(exchange_rates(block.plan, replan, most) for block in self.blocks)
        told = "" if self.clock is None else self.clock.explained
        return replace(explain(self.query, self.plan, self.blocks, rates), clock=told)

    def holds(self, at: datetime) -> bool:
        """Tell whether it is prepared for a moment: unless it asks the clock, for any."""
        return self.clock is None or self.clock.holds(at)

    def beside(self, parts: Sequence[Prepared]) -> Prepared:
        """Return a query that is remembered no longer than its answered subqueries."""
        clocks = [each.clock for each in (self, *parts) if each.clock is not None]
        clock = reduce(ClockReading.beside, clocks) if clocks else None
        passing = self.passing or any(part.passing for part in parts)
        own = self.of_connection or any(part.of_connection for part in parts)
        return replace(self, clock=clock, passing=passing, of_connection=own)

    def within(self, share: float) -> str | None:
        """Say how near the answer comes to a maximum error for a share of its price.

        None if it asks for none, or if the share is too small to be answered.
        """
        asking = [block.plan for block in self.blocks if error_targets(block.plan.block)]
        if len(asking) < len(self.blocks):
            return None
        found = [error_within(plan, share, self.terms.replan) for plan in asking]
        return None if not found or None in found else "; ".join(filter(None, found))


@dataclass(frozen=True, slots=True)
class _Staged:
    """A question as it is planned, with stand-ins for the answers to its ``parts``.

    These are over private rows, and are to be paid for first: without their answers the question is
    ``refused``.
    """

    prepared: Prepared
    parts: tuple[Question, ...] = ()
    refused: QueryRefused | None = None


def _plain_columns(tail: PlainTail, block: PreparedBlock) -> tuple[Column, ...]:
    """Return the answer's columns where these are a block's released ones, renamed."""
    types = {column.name: column.type for column in block.released_columns}
    named = zip(tail.names, tail.columns, strict=True)
    return tuple(Column(name, types[column]) for name, column in named)


def _emptied(prepared: Prepared) -> Prepared:
    """Return the prepared form of a statement without rows, which costs nothing."""
    plan = PrivacyPlan((), ZERO)
    query = replace(
        prepared.query, blocks=(), tail=prepared.query.text, run=prepared.query.text
    )  # only to be shown
    return replace(
        prepared, query=query, plan=plan, blocks=(), fingerprint=fingerprint(()), empty=True
    )


@contextmanager
def _placed(text: str) -> Iterator[None]:
    """Add the position in the statement to an engine's error that names a word of it."""
    try:
        yield
    except QueryRefused as error:
        if error.place is None and error.code == "does_not_bind":
            error.place = place_blamed(text, str(error))
        raise


def _refuse_views(blocks: Sequence[Block]) -> None:
    """Refuse to join views with private rows: the engine that holds these does not have them."""
    for block in blocks:
        scans = [node for node in bottom_up(block.source.rows) if isinstance(node, ViewScan)]
        read = [scan.table.name for scan in scans]
        if read:
            raise QueryRefused(
                f"the view {read[0]} cannot be joined with private rows",
                code="view_beside_rows",
                hint="Join it with what is released: SELECT … FROM (SELECT … GROUP BY k) JOIN "
                f"{read[0]} USING (k).",
            )


class PlanMemory:
    """The planned statements of connections that have their engine, policy and account in common.

    What one account asks is in no memory of another's: how long a plan takes tells nobody else.
    Safe for threads.
    """

    def __init__(self) -> None:
        self._kept: Remembered[_Key, _Staged] = Remembered(MOST_PLANS, MOST_PLANNED_TEXT)

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget all plans."""
        self._kept.clear()

    def get(self, key: _Key, at: datetime) -> _Staged | None:
        """Look up how a question is planned at a moment; None if it is not known."""
        found = self._kept.get(key)
        return found if found is not None and found.prepared.holds(at) else None

    def keep(self, key: _Key, staged: _Staged) -> None:
        """Keep how a question is planned."""
        size = _size_kept(key, staged.prepared)
        if size is not None:
            self._kept.keep(key, staged, size)


def size_kept(question: Question, prepared: Prepared) -> int | None:
    """Return the size for which a plan of a question counts in memories of sessions.

    None for one that none keeps, or one session alone.
    """
    return None if prepared.of_connection else _size_kept(question.key, prepared)


def _size_kept(key: _Key, prepared: Prepared) -> int | None:
    text, values, *_, first = key
    if len(text) > _LONGEST or prepared.passing:
        return None
    # Values and first answers stand in a plan like constants of its text.
    return len(text) + len(repr(values)) + len(repr(first))


@dataclass(eq=False)
class Preparer:
    """Prepares one connection's queries, and remembers them like a database's statements.

    ``_shared`` remembers for all connections of the account.
    """

    _engine: Engine
    _policy: Policy
    _account: AccountPolicy
    _tails: Tails
    _shared: PlanMemory
    _trace: Trace | None = None

    def __post_init__(self) -> None:
        # Private rows are read in the engine's dialect; all is bound and examined on its twin.
        self.dialect: Dialect = dialect_of(self._engine.verdicts)
        self._twins = TWIN
        self._own = PlanMemory()

    def prepare(self, question: Question) -> Prepared:
        """Prepare a query completely: paying and answering are all that is left.

        Raises ``QueryRefused``, ``UnknownName``, ``ParameterError`` or ``SQLSyntaxError``. One with
        subqueries over private rows that are not answered yet is refused.
        """
        staged = self._staged(question)
        if staged.refused is not None and not staged.prepared.empty:
            raise staged.refused.with_traceback(None)
        return staged.prepared

    def with_stand_ins(self, question: Question) -> tuple[Prepared, tuple[Question, ...]]:
        """Prepare a query before its subqueries are answered, and list these.

        Some constants stand in place of their answers. Raises as :meth:`prepare`, for what no
        subquery mends. What has no rows needs no answers.
        """
        staged = self._staged(question)
        parts = () if staged.prepared.empty else staged.parts
        return staged.prepared, tuple(
            replace(part, at=question.at, fresh=question.fresh) for part in parts
        )

    def answer_of(self, part: Question, rows: Sequence[Row], *, released: bool) -> FirstAnswer:
        """Make the answer to a subquery the one that stands in its statement."""
        prepared, text = self._staged(part).prepared, self._text(part)
        blocks = [release.plan.block for release in prepared.blocks]
        return FirstAnswer(
            part.part or 0,
            text,
            prepared.shown,
            tuple(rows),
            released=released,
            keys=part.keys,
            missing=bool(part.keys) and any(map(groups_can_be_missing, blocks)),
        )

    def _text(self, part: Question) -> str:
        with understood():
            tree = self._whole(part, None)
            return subquery_text(tree, part.part or 0)

    def _staged(self, question: Question) -> _Staged:
        """Plan a question, with constants in place of its subqueries; what is known is kept."""
        if not question.sound:
            return _Staged(self._planned(question, None))  # refused there, with a reason
        key, stages = question.key, self._stages(question)
        staged = self._shared.get(key, question.at) or self._own.get(key, question.at)
        if staged is None:
            with _placed(question.text):
                staged = self._with_parts(question, stages)
            memory = self._own if staged.prepared.of_connection else self._shared
            memory.keep(key, staged)
        if stages is not None:
            prepared = staged.prepared
            stages.sql(prepared.blocks, prepared.query.run)
        return staged

    def budget_of(self, parameters: Parameters) -> QueryBudget:
        """Return the budget that parameters give to a block, on the paying account."""
        account = self._account
        return QueryBudget.of(parameters, account.composition, 1.0, account.delta_for_conversion)

    def _stages(self, question: Question) -> StatementTrace | None:
        """Return the trace of this question's stages, once, if questions are traced."""
        if self._trace is None or question.pooling:
            return None
        schema, hidden = self._engine.schema, bool(question.values)
        return self._trace.statement(question.text, schema, hidden=hidden)

    def _with_parts(self, question: Question, stages: StatementTrace | None) -> _Staged:
        """Plan a question, with constants in the places of subqueries that are answered first.

        These are the answers of those over public tables, and stand-ins for the others'.
        """
        parts: list[Question] = []
        beneath: list[Prepared] = []
        first: QueryRefused | None = None
        while True:
            try:
                prepared = self._planned(question, stages)
            except QueryRefused as refused:
                part, found = self._part(question, refused)
                blocks = [release.plan.block for release in found.prepared.blocks]
                if part.keys and any(map(has_too_many_groups, blocks)):
                    raise
                if blocks:
                    answer = stand_in(self.answer_of(part, (), released=True))
                    first = first or refused.with_traceback(None)
                    parts.append(part)
                else:
                    try:
                        rows = self._public_rows(part, found.prepared)
                        answer = self.answer_of(part, rows, released=False)
                    except QueryRefused as wrong:
                        wrong.place = wrong.place or refused.place
                        raise
                if not answer.has_constants:
                    raise
                beneath.append(found.prepared)
                question = replace(question, answers=(*question.answers, answer))
            else:
                return _Staged(prepared.beside(beneath), tuple(parts), first)

    def _part(self, question: Question, refused: QueryRefused) -> tuple[Question, _Staged]:
        """Return the subquery to answer first as a question, and how it is planned.

        Raises the refusal where there is none, or where it is none by itself.
        """
        number = to_answer_first(refused)
        given = {answer.number for answer in question.answers}
        if number is None or number in given or len(given) >= _MOST_FIRST:
            raise refused
        part = replace(question, part=number, keys=keys_to_group_by(refused), bounds=())
        try:
            return part, self._staged(part)
        except (QueryRefused, UnknownName):
            raise refused from None

    def _public_rows(self, part: Question, prepared: Prepared) -> Sequence[Row]:
        """Compute the rows of a subquery over public tables alone."""
        if prepared.empty:
            return ()
        answer = self._tails.runner.run(prepared.query, (), prepared.names)
        if answer.count > MOST_ANSWER_ROWS:
            raise too_many_rows(self._text(part), released=False)
        return answer.fetchall(len(prepared.shown))

    def _planned(self, question: Question, stages: StatementTrace | None) -> Prepared:
        """Plan a question; only names and types for a text without rows (``WHERE false``)."""
        with understood():
            tree = self._tree(question, stages)
            empty = has_no_rows(tree)
        clock = read_clock(tree, question.at, self._engine)
        if not empty:
            first = tuple(answer.text for answer in question.answers if answer.released)
            some = tuple(answer.text for answer in question.answers if answer.missing)
            asked = self._tails.public.asked
            found = self._plan(question, tree, stages)
            looked = self._tails.public.asked > asked
            return replace(
                found, clock=clock, first=first, of_some_groups=some, of_connection=looked
            )
        try:
            return _emptied(self._plan(question, tree, stages, empty=True))
        except QueryRefused as refused:
            if refused.code != "raw_rows":
                raise
        # Of no rows, all are public. Nothing that follows has tables to read: types stand for them.
        with understood():
            tree = self._tree(question, None)
        read_clock(tree, question.at, self._engine)
        own = [TypesAlone(self._engine.schema[name]) for name in self._policy.tables]
        return _emptied(self._plan(question, tree, None, empty=True, shown=own))

    def _tree(self, question: Question, stages: StatementTrace | None) -> exp.Query:
        """Parse a question, and insert its values, look-ups in the catalog, and first answers."""
        tree = self._whole(question, stages)
        place_answers(tree, question.answers)
        if question.part is None:
            return tree
        return part_of(tree, question.part, question.keys, self._columns_of)

    def _columns_of(self, source: exp.Table) -> tuple[Table, bool] | None:
        """Return the columns of a listed table, and whether it is public; None for any other."""
        name = name_of(source)
        policy = None if name is None else self._policy.table(name)
        return None if policy is None else (self._engine.schema[policy.name.key], policy.public)

    def _whole(self, question: Question, stages: StatementTrace | None) -> exp.Query:
        """Parse the statement of a question, with its values and its look-ups in the catalog."""
        tree = parse(question.text)
        if stages is not None:
            stages.tree(tree)
        tree = bind_values(tree, question.values, question.text)
        schema, name = self._engine.schema, self._engine.name
        place_catalog(tree, self._policy, schema, name)
        settle_names(tree, question.text, rules_of(schema, name, self._policy.names))
        write_asof_joins(tree, question.text, self._policy)
        write_laterals(tree, self._columns_of)
        set_apart(tree)
        number_queries(tree)
        return tree

    def _plan(
        self,
        question: Question,
        tree: exp.Query,
        stages: StatementTrace | None,
        *,
        empty: bool = False,
        shown: Sequence[TypesAlone] = (),
    ) -> Prepared:
        """Plan a question. If it is ``empty``, no table is loaded, and types stand for its rows.

        ``shown`` are tables of which as much as their types is public.
        """
        text = question.text
        with understood():
            views = self._views(tree)
            if views:
                place_view_intervals(tree, views, self._tails.public.views().figures, text)
            query = self._validated(tree, question, (*shown, *views.values()), empty=empty)
        if stages is not None:
            stages.blocks(query, self.dialect)
        _refuse_views(query.blocks)
        most = self._policy.maxima.epsilon or EPSILON_LIMITS[1]
        account = self._account
        plan = plan_query(
            *(query, question.mechanism, account.composition, most, account.delta_for_conversion),
            capped=question.capped,
        )
        if stages is not None:
            stages.plans(plan.blocks)
        if not question.pooling:  # what can be combined was prepared as a release alone before
            refuse_unknown_noise(plan.blocks)
        blocks = tuple(self._block(block, text) for block in plan.blocks)
        ways = RehearsedWays(self._engine, blocks, self.dialect)
        if not question.pooling:  # of which nothing is read
            ways.rehearse(
                {estimate.fingerprint for block in blocks for estimate in block.estimates}
            )
        if not empty:
            self._tails.public.load(query.public_tables)
        if query.plain is not None and query.plain.sure:
            columns = _plain_columns(query.plain, *blocks)
        else:
            stand_ins = [source.table for source in query.public_tables] if empty else []
            self._tails.checker.check(query, blocks, stand_ins)
            if not empty:
                self._tails.checker.check_values(query, self._tails.public)
            # All types are checked here, where there are no rows.
            published = stand_ins or [view.table for view in views.values()]
            columns = self._engine.bind(tail_sql(query, blocks, published))
        replan = partial(
            plan_within_epsilon,
            mechanism=question.mechanism,
            composition=account.composition,
            delta_for_conversion=account.delta_for_conversion,
        )
        return Prepared(
            query,
            plan,
            blocks,
            columns,
            fingerprint(plan.blocks),
            PlanningTerms(replan, most),
            ways,
            passing=bool(views),
        )

    def _validated(
        self, tree: exp.Query, question: Question, beside: Sequence[PublicSource], *, empty: bool
    ) -> Query:
        """Validate a statement with public tables beside the policy's; CTEs without use go.

        They are validated before: what is refused anywhere is refused here, too.
        """

        def decides(rows: RowSet, columns: Collection[str], column: str) -> bool:
            public = None if empty else self._tails.public
            return decide(columns, column, rows, self._policy, public)

        def finds(rows: RowSet, compared: Sequence[KeyComparison]) -> bool:
            public = None if empty else self._tails.public
            return finds_one(rows, compared, self._engine, self._policy, public)

        def validated(tree: exp.Query) -> Query:
            return validate(
                tree,
                question.text,
                self._policy,
                self._engine.schema,
                question.parameters,
                self._engine.bind,
                self._twins,
                self._decided(question, empty=empty),
                pools=question.pooling,
                catalog=self._engine.name,
                beside=beside,
                bounds=question.bounds,
                decides=decides,
                finds_one=finds,
            )

        used = tree.copy()
        if not drop_unused_ctes(used):
            return validated(tree)
        validated(tree)
        return validated(used)

    def _decided(self, question: Question, *, empty: bool) -> Callable[[Block], Block]:
        """Return the decision on a block's groups: declared values, mechanism, number per unit.

        Nothing is given to one that is ``empty``, and nothing will be asked of its rows.
        """
        account, mechanism = self._account, question.mechanism
        supposed = question.supposed or any(answer.supposed for answer in question.answers)

        def decided(block: Block) -> Block:
            try:
                narrowed = with_keys_narrowed(block, self._engine)
            except QueryRefused as refused:
                if not supposed or refused.code != "no_group_left":
                    raise
                narrowed = block  # what only stands for a value need not be a declared one
            given = (
                narrowed
                if empty
                else with_keys_given(
                    *(narrowed, self._engine, self.dialect, self._policy, self._tails.public),
                    mechanism,
                )
            )
            return with_groups_decided(
                with_keys_made(
                    *(given, self._engine, self.dialect, self._policy, self._tails.public),
                    mechanism,
                ),
                mechanism=mechanism,
                composition=account.composition,
                delta_for_conversion=account.delta_for_conversion,
            )

        return decided

    def _views(self, tree: exp.Query) -> dict[str, PublishedView]:
        """Return the materialized views that a statement may name: names without a table."""
        names = {name.key for table in tables_named(tree) if (name := name_of(table)) is not None}
        unknown = names - self._policy.tables.keys()
        if not unknown:
            return {}
        views = self._tails.public.views().tables()
        return {name: view for name, view in views.items() if name in unknown}

    def _block(self, plan: BlockPlan, text: str) -> PreparedBlock:
        refuse_late()
        keys = self._key_columns(plan, text)
        estimates = self._estimates(plan, plan.estimates)
        # To be shown: every read has a salt of its own.
        salt = secrets.randbits(62)
        write = partial(release_kind(plan).statement, salt, self.dialect)
        limit, renderer = self._policy.limits.bounding, self.dialect.renderer
        bounding = release_kind(plan).bounded_by(self.dialect, limit)
        bounds = tuple(open_bounds(plan, self.dialect, bounding=limit, maker=bounding.maker))
        return PreparedBlock(
            plan, keys, estimates, bounds, bounding, write=write, renderer=renderer
        )

    def estimate(self, plan: BlockPlan, estimate: LeftOutPlan) -> PreparedEstimate:
        """Write the SQL of an estimate, over the same rows as its block's."""
        (prepared,) = self._estimates(plan, (estimate,))
        rehearse_estimate(self._engine, prepared)
        return prepared

    def _estimates(
        self, plan: BlockPlan, estimates: Sequence[LeftOutPlan]
    ) -> tuple[PreparedEstimate, ...]:
        return tuple(
            PreparedEstimate(
                mark,
                tables_read(plan, estimate),
                plan=estimate,
                write=partial(left_out_sql, plan, estimate, self.dialect),
                renderer=self.dialect.renderer,
            )
            for estimate, mark in zip(
                estimates, estimate_fingerprints(plan, estimates), strict=True
            )
        )

    def _key_columns(self, plan: BlockPlan, text: str) -> tuple[Column, ...]:
        """Return the released keys' types, once nothing computed of private rows can fail.

        The types of plain columns are known from the catalog. Where rows are on a server, all that
        is asked of them must bind on the twin as well, which plans nothing else of it.
        """
        block = plan.block
        types = examine(block, self._engine, text)
        elsewhere = self.dialect is not self._twins
        if elsewhere:
            self._try_out(block)
        known = [block.source.table.column(plain_column(key)) for key in block.keys]
        found = [
            key.type or (types[place] if column is None else column.type)
            for place, (key, column) in enumerate(zip(block.keys, known, strict=True))
        ]
        if elsewhere or None in found:
            statement = release_kind(plan).statement(0, self._twins)
            bound = self._engine.bind(statement)[1:]
            found = [column.type for column in bound] if None in found else found
        names = [block.key_column(i) for i in range(len(block.keys))]
        return tuple(
            Column(name, type_ or UNKNOWN) for name, type_ in zip(names, found, strict=False)
        )

    def _try_out(self, block: Block) -> None:
        """Have the server compute the texts that it will be sent, over rows of edge values."""
        dialect = on_edge_rows(self.dialect)
        for over, expressions in trials_of(block, self.dialect):
            rows = from_clause(over, dialect)
            write = partial(trial_statement, rows, dialect=dialect)
            self._engine.try_out(rows, expressions, write)

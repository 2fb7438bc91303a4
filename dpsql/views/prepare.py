"""From the SELECT of a view to its plan, and to the SQL that reads one of its steps.

The query is the analyst's with two conditions more, on the time of its private table. It is planned
anew for every step from the definition alone, so that nothing of it depends on what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from types import MappingProxyType
from typing import Final

from dpsql.core.schema import Column, fold, rules_of
from dpsql.core.sql import Sql
from dpsql.core.sql_types import BIGINT, DATE, DOUBLE, TIMESTAMP, SqlType
from dpsql.core.table_name import NameRules
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN, dialect_of
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan, OpenBounds
from dpsql.ir.query import Block, PlainTail, Query, UnboundedValue
from dpsql.pipeline.kept.description import VOCABULARY, Vocabulary, worded
from dpsql.pipeline.kept.fingerprint import fingerprint
from dpsql.pipeline.known_keys import with_keys_narrowed
from dpsql.pipeline.open_bounds import open_bounds
from dpsql.planner.bounds_choice import bounds_share
from dpsql.planner.groups import WHOLE_STREAM, with_groups_of_steps, with_usual_groups
from dpsql.policy.model import AccountPolicy, Policy, TablePolicy, TimeColumn
from dpsql.policy.parameters import PARAMETER_NAMES, Parameters
from dpsql.policy.resolve import again
from dpsql.privacy.accounting.zcdp import NO_CHARGE, ZERO, Amount, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import BoundsChoice, FoundBounds
from dpsql.privacy.mechanisms.value_bounds import ValueBounds
from dpsql.privacy.streams.factorisation import (
    BaseTree,
    BufferedToeplitz,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
)
from dpsql.privacy.streams.meta import MetaHistogram
from dpsql.privacy.streams.shared import SeparateContinualNoise, SharedContinualNoise
from dpsql.privacy.streams.sparse import SparseTopK, SparseVector
from dpsql.privacy.streams.streams import ContinualHistogram, ContinualNoise
from dpsql.privacy.streams.topk import ScheduledTopK
from dpsql.sql.blocks.examined import examine
from dpsql.sql.blocks.time_bounds import (
    bound_time,
    no_view,
    number_steps,
    refuse_clock,
    timed_table,
)
from dpsql.sql.blocks.validate import validate
from dpsql.sql.blocks.view_intervals import STEP
from dpsql.sql.lineage.table_names import parsed
from dpsql.sql.rewrite.rewrite import Rewriter, SteppedSQL
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.syntax.parse import understood
from dpsql.views.definition import DrawnBounds, ViewDefinition
from dpsql.views.plan import ListingNoise, ListingSelection, StepNoise, StepSelection, ViewPlan
from dpsql.views.planning import bounds_to_draw, chooses_groups, plan_view
from dpsql.views.state import StateShape
from dpsql.views.steps import ViewSteps

AS_OF: Final = "as_of"
"""The column of every view that holds the wall time at which a step ended."""

_KEY_TYPES: Final = frozenset(
    {"VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "UUID"}
    | {"TIMESTAMP_NS", "DECIMAL"}
    | {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
    | {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
)
"""Types of keys that have one text each, wherever and whenever it is written: a group draws its
noise by that text. (That of a TIMESTAMP WITH TIME ZONE depends on the session's zone.)"""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: a key, or an aggregate, by its index; and its type."""

    name: str
    type: SqlType
    key: int | None
    aggregate: int | None


@dataclass(frozen=True, slots=True)
class PreparedView:
    """A view ready to be created or refreshed.

    ``keys`` are the key columns in generated SQL with their types, ``columns`` those of the view
    after ``step`` and ``as_of``. ``fingerprint`` is that of the plan of its first step. ``bounds``
    are the draws of bounds that nobody gave, of units and of values, over the rows ``between`` two
    wall times: until then the plan has the usual ones.
    """

    plan: ViewPlan
    unit_type: SqlType
    keys: tuple[Column, ...]
    columns: tuple[ViewColumn, ...]
    fingerprint: str
    bounds: tuple[OpenBounds, ...] = ()
    between: tuple[datetime, datetime] | None = None

    @property
    def loss(self) -> PrivacyLoss:
        """The price of all steps, and of the bounds that are to be drawn."""
        return sum((each.choice.loss for each in self.bounds), self.plan.loss)

    @property
    def shape(self) -> StateShape:
        """The columns of the view's private state; declared keys are their positions there."""
        plan, keys = self.plan, self.keys
        if plan.block.known_domain:
            keys = tuple(Column(key.name, BIGINT) for key in keys)
        return StateShape(
            self.unit_type,
            keys,
            plan.contributions,
            plan.groups,
            plan.definition.window,
            plan.one_step,
            plan.by_step,
        )

    @property
    def shown(self) -> tuple[Column, ...]:
        """All columns of the view."""
        first = (Column(STEP, BIGINT), Column(AS_OF, TIMESTAMP))
        return (*first, *(Column(column.name, column.type) for column in self.columns))


class ViewPreparer:
    """Prepares views on one engine under one policy."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self._policy = policy
        self._lasting = replace(policy, edition="")  # a view goes on over all of them
        self._dialect: Dialect = dialect_of(engine.verdicts)
        self._twins: Dialect = TWIN

    def time_of(self, text: str) -> TimeColumn:
        """Return the time column of the one private table that a view's query reads.

        Raises ``QueryRefused`` (``no_view``) if there is no such table, or it has no time column.
        """
        with understood():
            _, table = timed_table(parsed(text, self._rules()), self._policy)
        assert table.time is not None
        return table.time

    def prepare(
        self, definition: ViewDefinition, account: AccountPolicy, now: datetime | None = None
    ) -> PreparedView:
        """Plan a view for the account that pays for it.

        One that is new is planned ``now``: bounds that were not given are found then.

        Its parameters are resolved by this policy, as those of a query are: what was given beside
        the definition, then OPTIONS in its text. All of them are part of the plan's definition,
        as asked for: there they are checked again, by the policy of the day, and never replaced.
        Raises what a query is refused with, ``ParameterError`` for what the policy does not allow,
        and ``QueryRefused`` (``no_view``).
        """
        if self._dialect is not self._twins:
            raise no_view(
                "views are made of DuckDB's rows alone, not of a server's",
                "Ask the query itself, as often as you need it.",
            )
        query = self._query(definition, 1, finds=now is not None)
        (block,) = query.blocks
        tail = query.plain
        assert tail is not None
        if "max_age" in block.parameters.given - definition.parameters.given:
            raise no_view(
                "a view has no max_age: its rows say of which step they are",
                "Leave it out. REFRESH publishes the steps that have closed since.",
            )
        drawn, between = definition.drawn, None
        bounds: tuple[OpenBounds, ...] = ()
        if drawn is not None:  # also where OPTIONS in the text ask for auto
            parameters = _bounded(block.parameters, definition.bounds)
            told = drawn.told(_values(block))
            block = replace(block, parameters=parameters, bounds_found=told)
        settled = replace(block.parameters, given=frozenset(PARAMETER_NAMES))
        definition = replace(definition, parameters=settled)
        planned = partial(
            plan_view, definition, account=account, short_lived=self._short_lived(definition)
        )
        plan = planned(block, beside=0.0 if drawn is None else drawn.share)
        choice, values = (None, ()) if now is None else bounds_to_draw(plan, account)
        if (choice or values) and now is not None:
            share = bounds_share(block, of_view=True)
            most = reduce(FoundBounds.beside, (d.most for d in (choice, *values) if d is not None))
            # Numbers that cannot be found are the usual ones; there are none of values.
            with nullcontext() if values else suppress(QueryRefused, ParameterError):
                self.prepare(_drawn(definition, most, share), account)
                plan = planned(block, beside=share)
                between = definition.steps.as_long(now)
                bounds = self._bounds(plan, choice, values, between)
        examine(block, self._engine, definition.text)
        first = plan.at(1)
        unit, *columns = self._engine.bind(self._contributions(first))
        keys = tuple(_key_columns(first.block, columns))
        shown = tuple(_columns(plan, keys, tail, query.hidden))
        marked = fingerprint([first], STEP_VOCABULARY)
        return PreparedView(plan, unit.type, keys, shown, marked, bounds, between)

    def _bounds(
        self,
        plan: ViewPlan,
        choice: BoundsChoice | None,
        values: tuple[ValueBounds, ...],
        between: tuple[datetime, datetime],
    ) -> tuple[OpenBounds, ...]:
        """Prepare the draws of bounds over the rows of as long a time as the view will have.

        Where the table is as old, they tell what a unit will have in all steps.
        """
        definition = plan.definition
        (before,) = self._query(definition, 1, between=between, finds=True).blocks
        first = plan.of_block(replace(plan.block, condition=before.condition)).at(1)
        first = replace(first, bounds_choice=choice, value_bounds=values)
        return tuple(open_bounds(first, self._dialect, definition.steps.count))

    def text(self, view: PreparedView) -> str:
        """Return the SQL that reads the first step."""
        return self.contributions(view, 1).render(self._dialect.renderer)

    def contributions(self, view: PreparedView, step: int) -> Sql:
        """Write the SQL for what each unit has contributed to each group by the end of a step."""
        (block,) = self._query(view.plan.definition, step, finds=bool(view.bounds)).blocks
        return self._contributions(_over(view, block).at(step))

    def _short_lived(self, definition: ViewDefinition) -> bool:
        """Tell whether no unit has rows of several steps, by what the owner declares.

        Units are of periods that all lie within one step each, or have one row. What depends on it
        is kept by the state, whether it is true or not.
        """
        with understood():
            _, table = timed_table(parsed(definition.text, self._rules()), self._policy)
        unit, time = table.privacy_unit, table.time
        if table.rows_per_unit == 1:
            return True
        if unit is None or unit.per is None or time is None:
            return False
        same = fold(unit.per.column) == fold(time.column)
        return same and definition.steps.consist_of(unit.per.every)

    def stepped(self, view: PreparedView, first: int, last: int) -> SteppedSQL:
        """Write the SQL that computes several steps' contributions, and reads private rows once."""
        found = self._query(view.plan.definition, last, first, finds=bool(view.bounds))
        (block,) = found.blocks
        assert block.step_number is not None
        plan = _over(view, block).at(last)
        rows = PrivateRows(plan, 0, self._dialect)
        return Rewriter(rows).stepped(block.step_number, last - first + 1)

    def _contributions(self, plan: BlockPlan) -> Sql:
        return Rewriter(PrivateRows(plan, 0, self._dialect)).contributions()

    def _query(
        self,
        definition: ViewDefinition,
        step: int,
        first: int | None = None,
        between: tuple[datetime, datetime] | None = None,
        *,
        finds: bool = False,
    ) -> Query:
        """Make the query over the rows up to the end of a step, or over those of another time.

        With ``first``, it says of a row in which step from that one on it counts first. A view that
        ``finds`` bounds of values has the usual ones here, and one that has found them has these.
        """
        text = definition.text
        bounds: tuple[FoundBounds, ...] | None = () if finds else None
        if definition.drawn is not None:
            bounds = (definition.bounds,)
        with understood():
            tree = parsed(text, self._rules())
            alias, table = timed_table(tree, self._policy)
            assert table.time is not None
            refuse_clock(tree, text)
            type_, steps = self._time_type(table, table.time, definition.steps), definition.steps
            between = between or (steps.end(0), steps.end(step))
            bound_time(tree, alias, table.time.column, type_, steps.zone, between)
            if first is not None:
                ends = [steps.end(each) for each in range(first, step)]
                number_steps(tree, alias, table.time.column, type_, steps.zone, ends)
            query = validate(
                tree,
                text,
                self._lasting,
                self._engine.schema,
                again(self._lasting, definition.parameters),
                self._engine.bind,
                self._dialect,
                partial(self._decided, definition),
                catalog=self._engine.name,
                bounds=bounds,
            )
        if len(query.blocks) != 1 or query.plain is None or query.plain.offset:
            raise no_view(
                "a view has no running answer for expressions over its groups",
                "Select keys and aggregates, and compute from them where you read the view.",
            )
        (block,) = query.blocks
        if block.source.given is not None:
            raise no_view(
                "a view has the groups of its rows, or declared ones, and no public rows beside",
                "Write an inner JOIN, and join the public rows where you read the view.",
            )
        if query.plain.limit is not None and block.top_k is None:
            raise no_view(
                "it is not said which groups are the first",
                "Write ORDER BY one aggregate DESC LIMIT k.",
            )
        return query

    def _decided(self, definition: ViewDefinition, block: Block) -> Block:
        """Return the block with its known groups, and with the number of groups of a unit."""
        block = with_keys_narrowed(block, self._engine)
        if chooses_groups(definition):
            return with_usual_groups(block, why=WHOLE_STREAM)
        return with_groups_of_steps(block)

    def _rules(self) -> NameRules:
        """Tell how queries name tables."""
        return rules_of(self._engine.schema, self._engine.name, self._policy.names)

    def _time_type(self, table: TablePolicy, time: TimeColumn, steps: ViewSteps) -> SqlType:
        found = self._engine.schema[table.name.key].column(time.column)
        if found is None or not found.type.is_moment:
            raise no_view(
                f"the time column of {table.name} is no date and no timestamp",
                "The policy names it under `time`.",
            )
        if found.type == DATE and not (steps.period.months or steps.period.whole_days):
            raise no_view(
                f"steps of {steps.period} are shorter than a day, and {time.column} is a date",
                "Take steps of whole days.",
            )
        return found.type


def with_drawn(view: PreparedView, found: FoundBounds) -> ViewDefinition:
    """Return the definition of a view whose bounds were drawn, before it is paid.

    It has the usual ones where there were too few units to tell.
    """
    charged = Amount.charge(sum((each.choice.loss for each in view.bounds), ZERO))
    return _drawn(view.plan.definition, found, bounds_share(view.plan.block, of_view=True), charged)


def _drawn(
    definition: ViewDefinition, found: FoundBounds, share: float, charged: Amount = NO_CHARGE
) -> ViewDefinition:
    return replace(
        definition,
        parameters=_bounded(definition.parameters, found),
        drawn=DrawnBounds(found.rows, found.groups, share, found.values, charged),
    )


def _values(block: Block) -> tuple[UnboundedValue, ...]:
    """List the values of a block that have no bounds of their own."""
    return () if block.bounds_found is None else block.bounds_found.values


def _bounded(parameters: Parameters, found: FoundBounds) -> Parameters:
    return replace(
        parameters,
        max_rows_contributed=found.rows or parameters.max_rows_contributed,
        max_groups_contributed=found.groups or parameters.max_groups_contributed,
    )


def _over(view: PreparedView, block: Block) -> ViewPlan:
    """Return the view's plan over other rows, with the bounds that it has been priced with."""
    return view.plan.of_block(replace(block, parameters=view.plan.block.parameters))


def _key_columns(block: Block, found: Sequence[Column]) -> Iterator[Column]:
    """Yield the keys with their types: those of the rows, also where positions stand for them."""
    for index, key in enumerate(block.keys):
        type_ = found[index].type
        if key.domain is not None and block.known_domain:
            column = block.source.table.column(key.expression.name)
            assert column is not None
            type_ = column.type
        if type_.kind not in _KEY_TYPES:
            raise no_view(
                f"keys of type {type_} have no exact text",
                "Group by a text, a whole number, a date or a time; cast the key to one of them.",
            )
        yield Column(block.key_column(index), type_)


def _columns(
    plan: ViewPlan, keys: tuple[Column, ...], tail: PlainTail, hidden: int
) -> Iterator[ViewColumn]:
    """Yield the columns of the view; the last ``hidden`` ones of its tail are for intervals."""
    block, first = plan.block, plan.at(1)
    places: dict[str, tuple[int | None, int | None, SqlType]] = {}
    for index, key in enumerate(keys):
        places[key.name] = index, None, key.type
    for index, aggregate in enumerate(block.aggregates):
        type_ = BIGINT if first.is_whole(aggregate) else DOUBLE
        places[block.aggregate_column(index)] = None, index, type_
    names = {STEP, AS_OF}
    shown = slice(len(tail.columns) - hidden)
    for name, column in zip(tail.names[shown], tail.columns[shown], strict=True):
        if fold(name) in names:
            raise no_view(
                f"two columns are called {name[:60]}",
                "Give them different aliases; every view has the columns step and as_of.",
            )
        names.add(fold(name))
        key_index, aggregate_index, type_ = places[column]
        yield ViewColumn(name, type_, key_index, aggregate_index)


STEP_VOCABULARY: Final[Vocabulary] = MappingProxyType(
    {
        **VOCABULARY,
        StepNoise: worded("noise of a step", "stream: noise, step"),
        StepSelection: worded(
            "groups of a step", "mechanism: histogram, step, domain", left_out="one_step"
        ),
        ListingNoise: worded("noise of a listing", "stream: mechanism, step"),
        ListingSelection: worded(
            "groups of a listing", "mechanism, one_step, domain", left_out="step"
        ),
        SquareRoot: worded("square root", "steps, bits"),
        SlidingWindow: worded("sliding window", "steps, width, bits"),
        BufferedToeplitz: worded("buffered toeplitz", "steps, decays, weights, bits"),
        BaseTree: worded("tree", "steps, base, bits"),
        TreeFromBelow: worded("tree from below", "steps, bits"),
        ContinualNoise: worded("continual noise", "factorisation, sigma, groups, sensitivity"),
        SharedContinualNoise: worded(
            "shared continual noise", "factorisation, sigma, sensitivity, most"
        ),
        SeparateContinualNoise: worded("separate continual noise", "noise"),
        ContinualHistogram: worded("continual histogram", "noise, delta, floor"),
        MetaHistogram: worded("meta histogram", "tree, selection, counts, changed"),
        ScheduledTopK: worded("scheduled top-k", "selection, counts, schedule"),
        SparseVector: worded("sparse vector", "epsilon, sensitivity"),
        SparseTopK: worded("sparse top-k", "selection, counts, vector, switches, margins"),
    }
)
"""The words of all that the plan of a step is made of."""

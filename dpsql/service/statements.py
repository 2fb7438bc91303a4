"""Answers statements: gives questions to the answerer, and obeys or looks up all others itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from dpsql.core.plain import plain_or, plain_text, plain_truth
from dpsql.core.remembered import Remembered
from dpsql.core.schema import Column, fold, rules_of
from dpsql.core.table_name import TableName, written
from dpsql.errors import EngineError, Error, ParameterError, Place, ProgrammingError
from dpsql.pipeline import clock
from dpsql.pipeline.prepare import Prepared, Question
from dpsql.policy.model import Policy
from dpsql.policy.parameters import INSTEAD_OF, Overrides, Parameters, check_parameter_name
from dpsql.policy.resolve import check_setting, resolve
from dpsql.results.description import AnswerColumn, Description, QueryParameter
from dpsql.results.explanation import Explanation
from dpsql.results.result import FREE, Cost, Result
from dpsql.results.rows import HeldAnswer
from dpsql.results.tuning import Tuning
from dpsql.service import listings
from dpsql.service.answering import Answerer
from dpsql.service.listings import Layer, Listing
from dpsql.service.rights import Right, refuse_statement
from dpsql.service.tuning import Tuner, TuningRequest
from dpsql.syntax.client_settings import Unchanged
from dpsql.syntax.parse import not_text
from dpsql.syntax.placeholders import (
    PlaceholderValues,
    plain_values,
    query_parameters,
    values_key,
)
from dpsql.syntax.statements import (
    Command,
    CreateView,
    Describe,
    DropView,
    Explain,
    RefreshView,
    Reset,
    Select,
    Set,
    Show,
    ShowSubject,
    read_statement,
)

if TYPE_CHECKING:
    from dpsql.views.prepare import PreparedView
    from dpsql.views.views import View


_MOST_DESCRIBED: Final = 256
_LONGEST_DESCRIBED: Final = 10_000
_TEXT_DESCRIBED: Final = 500_000  # characters of all that are kept, with their values


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments beside the text of a statement."""

    values: PlaceholderValues = ()
    mechanism: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    fresh: bool = False

    @classmethod
    def of(
        cls,
        values: object,
        mechanism: object,
        parameters: Mapping[str, object],
        fresh: object = False,
    ) -> Arguments:
        """Turn what a program passed into values of built-in types. Raises what ``sql`` does."""
        return cls(
            plain_values(values),
            None if mechanism is None else plain_text("mechanism", mechanism),
            parameters,
            plain_truth("fresh", fresh),
        )

    def with_values(self, values: object, fresh: object = False) -> Arguments:
        """Return the same with values of query parameters. Raises what ``sql`` does."""
        return replace(self, values=plain_values(values), fresh=plain_truth("fresh", fresh))

    def refuse(self) -> None:
        """Refuse arguments to a statement that has no use for them."""
        if self.values or self.mechanism is not None or self.parameters or self.fresh:
            raise ProgrammingError(
                "this statement takes no values and no privacy parameters",
                code="arguments_not_taken",
                hint="They belong to SELECT and EXPLAIN SELECT. For the rest of the connection, "
                "write SET epsilon = 0.5.",
            )


class Statements:
    """Answers the statements of one connection, and keeps the settings of SET.

    Not safe for threads. ``given`` are the privacy parameters that the connection was opened with,
    ``rights`` what it may do, ``kept`` what SET has set before.
    """

    def __init__(
        self,
        answerer: Answerer,
        given: Overrides,
        rights: frozenset[Right],
        kept: Mapping[str, object] | None = None,
    ) -> None:
        self._answerer = answerer
        self._policy = answerer.policy
        self._given = given
        self._rights = rights
        self._set = dict(kept or {})
        self._in_force: Parameters | None = None  # of a statement that has none of its own
        self._known: Remembered[tuple[str, object], tuple[Prepared, Description]]
        self._known = Remembered(_MOST_DESCRIBED, _TEXT_DESCRIBED)

    @property
    def kept(self) -> Mapping[str, object]:
        """What SET has set, by name."""
        return MappingProxyType(self._set)

    def result(self, text: str, asked: Arguments) -> Result:
        """Answer a statement of any kind. Raises as ``Connection.sql`` does."""
        statement = read_statement(text)
        refuse_statement(self._rights, statement)
        match statement:
            case Select():
                return self._answerer.answer(self.question(statement.text, asked))
            case Explain():
                return self._planned(self._explanation(statement, asked))
            case CreateView():
                asked.refuse()
                if not statement.explained:
                    return self._created(statement, text)
                explained = self._answerer.views.explain(self._defined(statement))
                return self._planned(replace(explained, shows_sql=statement.sql))
            case _:
                asked.refuse()
                return self._listed(self._listing(statement), Explanation(text))

    def explanation(self, text: str, asked: Arguments) -> Explanation:
        """Explain a query, with or without the word EXPLAIN in front of it."""
        statement = read_statement(text)
        if isinstance(statement, Explain):
            return self._explanation(statement, asked)
        return self._answerer.explain(self.question(text, asked))

    def description(self, text: str, values: PlaceholderValues | None) -> Description:
        """Describe a statement of any kind; nothing is set, read or paid for."""
        statement = read_statement(text)
        match statement:
            case Select():
                return self._described(statement.text, values)
            case Explain():
                with _placed_after(statement.before):
                    inner = self._described(statement.text, values)
                return Description(_answer_columns(listings.PLAN_COLUMNS), inner.parameters)
            case _:
                Arguments(values or ()).refuse()
                return Description(_answer_columns(self._listed_columns(statement)), ())

    def known_description(self, text: str, values: PlaceholderValues | None) -> Description | None:
        """Return the earlier description of a SELECT, if it holds still; else None."""
        known = self._known.get(_described_key(text, values))
        if known is None or not known[0].holds(clock.present_moment()):
            return None
        return known[1]

    def question(self, text: str, asked: Arguments) -> Question:
        """Build the question of a query under the privacy parameters in force."""
        if asked.parameters:
            layers = (layer.given for layer in self._layers())
            settings = resolve(self._policy, *layers, Overrides.of(asked.parameters))
        else:
            settings = self._parameters_in_force()
        at = clock.present_moment()
        return Question(text, asked.values, asked.mechanism, settings, asked.fresh, at)

    def _parameters_in_force(self) -> Parameters:
        if self._in_force is None:
            layers = [layer.given for layer in self._layers()]
            self._in_force = self._answerer.memory.parameters(layers)
        return self._in_force

    def _changed(self) -> None:
        """Forget what followed from the settings of before."""
        self._in_force = None
        self._known.clear()

    def tuning(self, text: str, asked: Arguments, request: TuningRequest) -> Tuning:
        """Tune a query's bounds. Raises as ``Connection.tune`` does."""

        at = clock.present_moment()  # the same for all settings

        def ask(changed: Mapping[str, object]) -> Question:
            given = {**asked.parameters, **changed}
            return replace(self.question(text, replace(asked, parameters=given)), at=at)

        return Tuner(self._answerer).tune(ask, request)

    def restore(self, settings: Mapping[str, object]) -> None:
        """Set settings again that SET had set before. Raises ``ParameterError``."""
        for name, value in settings.items():
            check_parameter_name(name)
            self._set[fold(name)] = check_setting(self._policy, fold(name), value)
            self._changed()

    def reset(self) -> None:
        """Forget all that SET has set."""
        self._set.clear()
        self._changed()

    def _explanation(self, statement: Explain, asked: Arguments) -> Explanation:
        with _placed_after(statement.before):
            found = self._answerer.explain(self.question(statement.text, asked))
        return replace(found, shows_sql=statement.sql)

    def _described(self, text: str, values: PlaceholderValues | None) -> Description:
        names = query_parameters(text)
        given = dict.fromkeys(names) if values is None else values
        question = replace(self.question(text, Arguments(given)), supposed=values is None)
        prepared = self._answerer.planned(question)
        types = self._answerer.types_of(given)
        parameters = tuple(QueryParameter(name, types[name]) for name in names)
        query = prepared.query
        noisy = zip_longest(query.outputs, query.computed)
        columns = _answer_columns(prepared.shown)
        found = Description(
            tuple(
                column if each is None or not any(each) else replace(column, noisy=True)
                for column, each in zip_longest(columns, noisy)
            ),
            parameters,
        )
        if len(text) <= _LONGEST_DESCRIBED and not prepared.passing:
            key = _described_key(text, values)
            self._known.keep(key, (prepared, found), len(text) + len(repr(key[1])))
        return found

    def _listed_columns(self, statement: Command) -> tuple[Column, ...]:
        """Return the columns of a command's listing, after the command's checks."""
        match statement:
            case Set(name, value, place):
                _checked(self._policy, name, value, place)
            case CreateView():
                self._defined(statement)
                return listings.PLAN_COLUMNS if statement.explained else listings.VIEW_COLUMNS
            case RefreshView(name, _, place):
                with _at(place):
                    self._answerer.views.named(name)
                return listings.REFRESH_COLUMNS
            case DropView(name, place):
                with _at(place):
                    self._answerer.views.named(name)
                return listings.VIEW_COLUMNS
            case Show(ShowSubject.VIEWS):
                return listings.VIEW_COLUMNS
            case Show(ShowSubject.BUDGET):
                return listings.BUDGET_COLUMNS
            case Show(ShowSubject.TABLES):
                return listings.TABLE_COLUMNS
            case Describe() | Show(ShowSubject.ALL_TABLES | ShowSubject.DATABASES):
                return self._listing(statement).columns
            case Show(ShowSubject.SCHEMAS):
                return listings.SCHEMA_COLUMNS
            case Unchanged():
                return listings.unchanged_listing(statement).columns
        return listings.PARAMETER_COLUMNS

    def _planned(self, explanation: Explanation) -> Result:
        return self._listed(listings.plan_listing(str(explanation)), explanation)

    def _listed(self, listing: Listing, explanation: Explanation, cost: Cost = FREE) -> Result:
        columns = listing.columns
        rows = HeldAnswer([c.name for c in columns], [c.type for c in columns], listing.rows)
        return Result(rows, lambda: explanation, cost)

    def _listing(self, statement: Command) -> Listing:
        """Run a free command and return its listing.

        Only those on views read rows.
        """
        match statement:
            case Set(name, value, place):
                checked = _checked(self._policy, name, value, place)
                self._set.pop(INSTEAD_OF.get(name, ""), None)
                self._set[name] = checked
                self._changed()
                return listings.parameter_listing(self._policy, self._layers(), name)
            case Reset(name):
                self._set.pop(name, None)
                self._changed()
                return listings.parameter_listing(self._policy, self._layers(), name)
            case Show(ShowSubject.BUDGET):
                return listings.budget_listing(self._answerer.budget())
            case Show(ShowSubject.TABLES):
                return listings.table_listing(self._policy)
            case Show(ShowSubject.PARAMETERS):
                return listings.parameter_listing(self._policy, self._layers())
            case Show(ShowSubject.VIEWS):
                return listings.view_listing(self._answerer.views.listed())
            case RefreshView(name, until, place):
                with _at(place):
                    found = self._answerer.views.refresh(name, _moment(until))
                return listings.refresh_listing(found)
            case DropView(name, place):
                with _at(place):
                    self._answerer.views.drop(name)
                return listings.view_listing(self._answerer.views.listed())
            case Show(ShowSubject.ALL_TABLES):
                engine = self._answerer.engine
                return listings.all_table_listing(self._policy, engine.schema, engine.name)
            case Show(ShowSubject.DATABASES):
                return listings.database_listing(self._answerer.engine.name)
            case Show(ShowSubject.SCHEMAS):
                return listings.schema_listing(self._policy, self._answerer.engine.name)
            case Describe():
                return self._columns_of(statement)
            case Unchanged():
                return listings.unchanged_listing(statement)
        raise AssertionError("every statement has been answered")

    def _columns_of(self, statement: Describe) -> Listing:
        """List the columns of a table or a view."""
        engine = self._answerer.engine
        schema = engine.schema
        name = rules_of(schema, engine.name, self._policy.names).named(statement.names)
        shown, place = written(*statement.names), statement.place
        if statement.engine:
            return listings.table_info_listing(self._policy, schema, name, shown, place)
        view = None if name is None else self._view(name)
        if view is not None:
            return listings.view_column_listing(self._answerer.views.plan_of(view))
        return listings.column_listing(self._policy, schema, name, shown, place)

    def _view(self, name: TableName) -> View | None:
        """Return the readable view of this name; None if a table hides it."""
        if self._policy.table(name) is not None or not self._answerer.has_ledger:
            return None
        return self._answerer.views.of_name(name)

    def _created(self, statement: CreateView, text: str) -> Result:
        """Create a view, at the cost of all of its steps."""
        prepared = self._defined(statement)
        with _at(statement.place):
            plan = self._answerer.views.create(prepared).plan
        loss = prepared.loss if prepared.bounds else plan.loss
        listing = listings.view_listing(self._answerer.views.listed())
        cost = Cost(loss, loss, plan.conversion_delta)
        return self._listed(listing, Explanation(text), cost)

    def _defined(self, statement: CreateView) -> PreparedView:
        layers = (layer.given for layer in self._layers())
        with _placed_after(statement.before):
            return self._answerer.views.define(
                statement.name, statement.text, statement.options, *layers
            )

    def _layers(self) -> tuple[Layer, ...]:
        """Return the settings of the connection, from far to near."""
        return Layer("connect()", self._given), Layer("SET", Overrides.of(self._set))


@contextmanager
def _at(place: Place) -> Iterator[None]:
    """Give errors without a place this one."""
    try:
        yield
    except Error as error:
        if error.place is None and not isinstance(error, EngineError):
            error.place = place
        raise


def _moment(text: str | None) -> datetime | None:
    """Read the wall time of UNTIL. Raises ``ParameterError`` (``bad_time``)."""
    if text is None:
        return None
    from dpsql.views.steps import read_wall_time

    return read_wall_time("UNTIL", text)


@contextmanager
def _placed_after(before: str) -> Iterator[None]:
    """Shift the places of errors in the end of a text, to count from the start of it."""
    try:
        yield
    except Error as error:
        if error.place is not None and error.place.source == "query":
            error.place = error.place.after(before)
        raise


def _described_key(text: str, values: PlaceholderValues | None) -> tuple[str, object]:
    return text, None if values is None else values_key(values)


def _answer_columns(columns: Iterable[Column]) -> tuple[AnswerColumn, ...]:
    return tuple(AnswerColumn(column.name, str(column.type)) for column in columns)


def statement_text(text: object) -> str:
    """Return a statement's text as a built-in one. Raises ``SQLSyntaxError`` for other things."""
    found = plain_or(text, None)
    if not isinstance(found, str):
        raise not_text()
    return found


def positive_seconds(seconds: object) -> float:
    """Return a time as a built-in number. Raises ``ParameterError`` unless it is above 0."""
    found = plain_or(seconds, None)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
        raise ParameterError("seconds must be a number above 0", code="bad_parameter")
    return float(found)


def _checked(policy: Policy, name: str, value: object, place: Place) -> object:
    """Check a parameter's value as an argument of ``connect`` is; errors have a place."""
    try:
        return check_setting(policy, name, value)
    except ParameterError as error:
        error.place = place
        raise

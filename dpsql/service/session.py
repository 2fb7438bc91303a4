"""Datasets, opened once, and their sessions: one analyst's way to ask questions each.

How a question is answered is told in :mod:`dpsql.service.answering`, how other statements are in
:mod:`dpsql.service.statements`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self, Unpack
from weakref import ReferenceType, WeakSet, ref

from dpsql.budget import AccountReport, BudgetReport, EarlierQuestion
from dpsql.core.plain import plain_limit, plain_text, plain_truth
from dpsql.core.progress import Percent
from dpsql.core.schema import Schema
from dpsql.core.timeout import NOTHING_SPENT, seconds_left, statement_timeout, timed
from dpsql.engines.base.deadline import Deadline
from dpsql.engines.base.engine import Engine
from dpsql.errors import DataError, EngineError, Error, InterfaceError
from dpsql.ledger import Ledger
from dpsql.pipeline.events import (
    ChargeReserved,
    Observer,
    ReadingFailed,
    SessionEvent,
    SessionOpened,
    StatementAsked,
    StatementFailed,
    StatementRefused,
    StepFailed,
    log,
)
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Overrides, PrivacyParameters
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.results.description import AnswerColumn, Description, QueryParameter
from dpsql.results.edition import DataEdition
from dpsql.results.explanation import Explanation
from dpsql.results.result import Result
from dpsql.results.tuning import Tuning
from dpsql.service.account_memory import AccountMemory
from dpsql.service.answering import NOT_KEPT, Answerer
from dpsql.service.in_flight import InFlight
from dpsql.service.rights import ALL_RIGHTS, NO_LIMITS, Right, SessionLimits, refuse_statement
from dpsql.service.statements import Arguments, Statements, positive_seconds, statement_text
from dpsql.service.tuning import USUAL_SHARE, TuningRequest
from dpsql.syntax.placeholders import PlaceholderValues, plain_values
from dpsql.syntax.statements import Select

_KEPT: Final = (
    "The release was paid for and is kept: asked again with more time, it costs nothing more"
)


class Session:
    """Answers one analyst's statements, one at a time; safe to use from several threads.

    ``session`` names an account of its own below the analyst's. ``progress`` is told percents while
    a question for keys alone reads its rows. ``observer`` is told of events beside the log.
    """

    def __init__(
        self,
        dataset: Dataset,
        analyst: str,
        session: str,
        parameters: Mapping[str, object],
        *,
        progress: Percent | None = None,
        observer: Observer | None = None,
        rights: frozenset[Right] | None = None,
        limits: SessionLimits = NO_LIMITS,
    ) -> None:
        self._observer = observer
        self._rights = ALL_RIGHTS if rights is None else frozenset(rights)
        self._progress = progress
        self._names, self._limits = (analyst, session), limits
        self._given = Overrides.of(parameters)
        self._turn: Any = threading.RLock()
        self._answerer, self._statements = self._opened(dataset)
        self._tenant = self._answerer.tails.tenant
        self._closed = False
        self._answering: object | None = None  # stands for the one statement that has a deadline
        # The prepared statement that was answered last, if it was one, and the end of its time.
        self._running: tuple[object, ReferenceType[Deadline]] | None = None
        self._told: set[type[SessionEvent]] = set()  # of the statement that is being answered
        self._tell(SessionOpened(self._answerer.payer.path))

    def _opened(
        self, dataset: Dataset, kept: Mapping[str, object] | None = None
    ) -> tuple[Answerer, Statements]:
        """Open an answerer on a dataset, and its statements with the kept settings of SET.

        Raises ``UnknownName`` and ``ParameterError`` where its policy has not the account, or
        refuses the settings.
        """
        analyst, session = self._names
        memory = dataset.memory_of(analyst)
        memory.parameters((self._given, Overrides.of(kept or {})))
        answerer = Answerer(
            *(dataset.engine, memory, dataset.ledger, session, self._tell),
            *(dataset.views_place, self._limits, dataset.in_flight),
        )
        self._edition = dataset.edition
        return answerer, Statements(answerer, self._given, self._rights, kept)

    def _move(self, dataset: Dataset) -> None:
        """Go on with another dataset, after a running query. Raises as :meth:`_opened` does."""
        with self._turn:
            if self._closed:
                return
            before = self._answerer
            self._answerer, self._statements = self._opened(dataset, self._statements.kept)
            self._tenant = self._answerer.tails.tenant
            before.close()

    def sql(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        mechanism: str | None = None,
        fresh: bool = False,
        **parameters: Unpack[PrivacyParameters],
    ) -> Result:
        """Answer a query under differential privacy, or one of the statements beside SELECT.

        Those are EXPLAIN SELECT, SET and RESET of a privacy parameter for the rest of this
        connection, SHOW BUDGET, SHOW TABLES, SHOW PARAMETERS and DESCRIBE, and what tools ask to
        find tables and columns, as PRAGMA table_info and LIMIT 0: they cost nothing.

        ``values`` are those of its query parameters: a sequence for ``?``, a mapping for ``$name``
        and ``:name``. ``parameters`` are privacy parameters for this query alone (epsilon, delta,
        max_groups_contributed, max_rows_contributed, k_bar, min_units_per_group,
        contribution_bounding, combine; or max_error instead of epsilon), within the policy's range;
        ``mechanism`` forces one by name.

        A statement that reads no private table is answered as it is, at no cost. So is a question
        that this account has asked before, from the ledger with the same release, as
        ``cost.stored`` says; ``fresh`` draws, and pays for, a new one that stands alone. At another
        epsilon the answer is pooled from all releases of the question: ``pooled`` of the answer
        counts them, and ``combine`` decides which.

        Raises a ``dpsql.Error``; unless it is an ``EngineError`` or a ``DataError``, nothing was
        spent.
        """
        text = statement_text(query)
        return self._answer(text, Arguments.of(values, mechanism, dict(parameters), fresh))

    def _answer(
        self,
        text: str,
        asked: Arguments,
        *,
        running: object = None,
        progress: Percent | None = None,
        seconds: float = math.inf,
    ) -> Result:
        """Answer a statement, ended when its time is over as :meth:`interrupt` ends it."""
        self._refuse_inside()
        with self._turn, self._tenant, self._telling(text):
            self.refuse_closed()
            with self._limited(progress or self._progress, running, seconds):
                result = self._statements.result(text, asked)
            result.edition = self._edition
            return result

    @contextmanager
    def _limited(
        self, progress: Percent | None, running: object = None, seconds: float = math.inf
    ) -> Iterator[None]:
        """Begin to answer a statement, which is ended when its time is over, or once it is told."""
        self._answerer.begin(progress)
        self._answering = answering = object()
        try:
            with (
                timed(seconds),
                Deadline(seconds, partial(self._end, answering)) as limit,
                self._naming_timeout(),
            ):
                # By reference: nothing but this call keeps a deadline.
                self._running = running, ref(limit)
                yield
        finally:
            self._answering = None

    @contextmanager
    def _naming_timeout(self) -> Iterator[None]:
        """Name the timeout in the error of what it has ended: the reading of rows, or the tail."""
        try:
            yield
            return
        except (EngineError, DataError) as error:
            ended = "interrupted", "tail_failed"
            if error.code not in ended or seconds_left() > 0:
                raise
            hint = error.hint
            if self._answerer.reserved == ZERO:
                hint = NOTHING_SPENT
            elif error.code == "tail_failed" and hint != NOT_KEPT:
                hint = _KEPT
        # Outside of the handler: an engine's own error may quote values.
        raise statement_timeout(hint)

    def _end(self, answering: object) -> None:
        """End a statement, and none after it: a traceback of Ctrl-C may keep its deadline open."""
        if self._answering is answering:
            self._answerer.interrupt()

    def prepare(
        self,
        query: str,
        *,
        mechanism: str | None = None,
        seconds: float | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> PreparedStatement:
        """Prepare a statement: describe it now, and answer it once or often with values.

        Arguments are those of :meth:`sql`. Reads nothing private and costs nothing. Raises what
        :meth:`describe` does, and ``EngineError`` (``statement_timeout``) once ``seconds`` are
        over.
        """
        text = statement_text(query)
        asked = Arguments.of((), mechanism, dict(parameters))
        with timed(math.inf if seconds is None else positive_seconds(seconds)):
            return PreparedStatement(self, text, asked, self.describe(text))

    def explain(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        mechanism: str | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> Explanation:
        """Explain how a query would be answered, and its price. Reads no data and costs nothing."""
        text = statement_text(query)
        return self._explain(text, Arguments.of(values, mechanism, dict(parameters)))

    def _explain(self, text: str, asked: Arguments) -> Explanation:
        self._refuse_inside()
        with self._turn, self._tenant:
            self.refuse_closed()
            return self._statements.explanation(text, asked)

    def tune(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        groups: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        bounds: Sequence[tuple[float, float]] | None = None,
        size: float | None = None,
        share: float = USUAL_SHARE,
        dry_run: bool = False,
        mechanism: str | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> Tuning:
        """Try settings that bound a unit's contributions to a query, and recommend one.

        ``groups`` and ``rows`` are values of ``max_groups_contributed`` and
        ``max_rows_contributed`` to try, in all combinations; left out, usual ones. ``bounds`` are
        pairs to try as those of the values of the query's sum, at the caps that it has. Each is
        planned like a query. What it leaves out is estimated by estimates at private rows, which
        cost ``share`` of the query's price together: reserved first, kept in the ledger, known for
        nothing when the same is tried again. ``dry_run`` says what they would cost, and which noise
        each setting has, at no cost. ``size`` is that of the groups that matter, before anything is
        left out, in the units of the answer; left out, one is estimated if it can be.

        Raises a ``dpsql.Error``, among them ``InterfaceError`` (``nothing_to_tune``) where nothing
        can be told of the query; unless it is an ``EngineError``, nothing was spent.
        """
        text = statement_text(query)
        request = TuningRequest.of(groups, rows, bounds, size, share, dry_run)
        asked = Arguments.of(values, mechanism, dict(parameters))
        self._refuse_inside()
        with self._turn, self._tenant, self._telling(text):
            self.refuse_closed()
            if not request.dry_run:
                refuse_statement(self._rights, Select(text))
            with self._limited(self._progress):
                return self._statements.tuning(text, asked, request)

    def describe(self, query: str, values: PlaceholderValues | None = None) -> Description:
        """Describe the columns of a statement's answer, and its query parameters.

        Any statement that ``sql`` takes can be described: nothing private is read, nothing is set,
        nothing is paid. ``values`` are those of its query parameters, as in ``sql``; None if they
        are not known yet: then NULL stands for each, and where that is refused, values are needed.
        Raises what ``explain`` does.
        """
        text = statement_text(query)
        given = None if values is None else plain_values(values)
        self._refuse_inside()
        with self._turn, self._tenant:
            self.refuse_closed()
            return self._statements.description(text, given)

    def known_description(
        self, query: str, values: PlaceholderValues | None = None
    ) -> Description | None:
        """Return the description of a SELECT that was described before, without a wait.

        None where it has to be planned, or the session answers another statement: :meth:`describe`
        does that.
        """
        text = statement_text(query)
        given = None if values is None else plain_values(values)
        if self._turn._is_owned() or not self._turn.acquire(blocking=False):
            return None
        try:
            return None if self._closed else self._statements.known_description(text, given)
        finally:
            self._turn.release()

    @property
    def edition(self) -> DataEdition:
        """The opening of the data that is asked at present; an answer tells its own."""
        return self._edition

    @property
    def schema(self) -> Schema:
        """The tables that the policy lists, with their columns."""
        return self._answerer.engine.schema

    @property
    def settings(self) -> dict[str, object]:
        """What SET has set at present, as ``restore`` takes it."""
        with self._turn:
            self.refuse_closed()
            return dict(self._statements.kept)

    def restore(self, settings: Mapping[str, object]) -> None:
        """Set the settings of an earlier session again.

        ``settings`` are literal values by name. Raises ``ParameterError``.
        """
        with self._turn:
            self.refuse_closed()
            self._statements.restore(settings)

    def reset(self) -> None:
        """Forget all that SET has set, as RESET ALL and DISCARD ALL do."""
        with self._turn:
            self.refuse_closed()
            self._statements.reset()

    def interrupt(self) -> None:
        """End the query that another thread runs on this session; the query fails.

        Told once, it ends whatever the query does then or later: what is not reserved yet is not
        reserved. What it reserved stays spent, unless it was settled before: then the answer is
        stored, and the same question again costs nothing. Other connections go on, also to the same
        engine.
        """
        _, limit = self._running or (None, None)
        deadline = None if limit is None else limit()
        if deadline is not None:
            # Interrupts until the query has ended, as it may be between two reads.
            deadline.expire()
        self._answerer.interrupt()

    def _cancel(self, running: object) -> None:
        """End a prepared statement if the session is answering it."""
        found, limit = self._running or (None, None)
        deadline = limit() if found is running and limit is not None else None
        if deadline is not None:
            deadline.expire()

    def budget(self, *, compare: bool = False) -> BudgetReport:
        """Report the spending of this analyst's account, the rest, and the questions it allows.

        ``compare`` adds what other composition theorems would say of all that was charged, which
        reads every entry of the account.
        """
        self.refuse_closed()
        return self._answerer.budget(compare=plain_truth("compare", compare))

    def accounts(self) -> tuple[AccountReport, ...]:
        """Report the account that pays and the analyst's above it, without forecasts."""
        self.refuse_closed()
        return self._answerer.accounts()

    def history(self, limit: int) -> tuple[EarlierQuestion, ...]:
        """List the analyst's latest questions, in any session, the latest first."""
        self.refuse_closed()
        return self._answerer.history(plain_limit(limit))

    def close(self) -> None:
        """Close the session and the resources it opened, after a running query."""
        self._refuse_inside()
        with self._turn:
            if not self._closed:
                self._closed = True
                self._release()

    def _release(self) -> None:
        self._answerer.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<dpsql.{type(self).__name__} of {self._answerer.payer.path}{closed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, event: SessionEvent) -> None:
        self._told.add(type(event))
        log(event)
        if self._observer is not None:
            self._observer(event)

    @contextmanager
    def _telling(self, text: str) -> Iterator[None]:
        """Tell that a statement was asked, and of its refusal or failure.

        It is refused as long as nothing was charged, whatever is raised: by an observer, too.
        """
        account = self._answerer.payer.path
        self._told.clear()
        try:
            self._tell(StatementAsked(account, text))
            yield
        except Error as error:
            if ChargeReserved in self._told or isinstance(error, EngineError):
                if self._told.isdisjoint((ReadingFailed, StepFailed)):
                    self._tell(StatementFailed(account, error.code))
            else:
                self._tell(StatementRefused(account, error.code))
            raise

    def _refuse_inside(self) -> None:
        """Refuse a statement inside of another of this thread, which would wait for its own end.

        A listener to the progress may try it, or the handler of a signal.
        """
        if self._turn._is_owned():
            raise InterfaceError(
                "the connection is answering another statement in this thread",
                code="connection_busy",
                hint="Ask once it is answered, or by another connection. `budget` and `interrupt` "
                "may be called at any time.",
            )

    def refuse_closed(self) -> None:
        """Raise ``InterfaceError`` if the connection is closed."""
        if self._closed:
            raise InterfaceError("the connection is closed", code="closed")


class PreparedStatement:
    """A statement of a session that has been read and described. Made by ``Session.prepare``.

    It is answered in its turn, among all statements of the session.
    """

    def __init__(
        self, session: Session, text: str, asked: Arguments, description: Description
    ) -> None:
        self._session = session
        self._asked = asked
        self._description = description
        self.text = text
        """The statement, as it was typed."""

    @property
    def columns(self) -> tuple[AnswerColumn, ...]:
        """The columns that its answer will have."""
        return self._description.columns

    @property
    def parameters(self) -> tuple[QueryParameter, ...]:
        """Its query parameters."""
        return self._description.parameters

    def price(self, values: PlaceholderValues = ()) -> Explanation:
        """Explain the answer for these values, with the reservation it would take; free."""
        return self._session._explain(self.text, self._asked.with_values(values))

    def run(
        self,
        values: PlaceholderValues = (),
        *,
        fresh: bool = False,
        progress: Percent | None = None,
        seconds: float | None = None,
    ) -> Result:
        """Answer it with values, as ``Session.sql`` does.

        ``progress`` is told percents in place of the session's listener. Once ``seconds`` are over
        it is ended as by :meth:`cancel`, with an error that says so (``statement_timeout``); the
        policy's own limit holds beside.
        """
        asked = self._asked.with_values(values, fresh)
        limit = math.inf if seconds is None else positive_seconds(seconds)
        return self._session._answer(
            self.text, asked, running=self, progress=progress, seconds=limit
        )

    def cancel(self) -> None:
        """End the statement's run in another thread; the run fails, and nothing else does.

        What it reserved stays spent, as with ``Session.interrupt``.
        """
        self._session._cancel(self)

    def __repr__(self) -> str:
        return f"<dpsql.PreparedStatement of {len(self.parameters)} parameters>"


class Closing(Protocol):
    """A resource that a dataset closes with itself."""

    def close(self) -> None:
        """Close it."""


class Dataset:
    """The tables that a policy lists, open for any number of sessions at once.

    Made by ``dpsql.open_dataset``. ``ledger_created``: opening it has created the ledger, so
    nothing had been spent in it. ``owned`` is what it has opened itself, and closes.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        ledger: Ledger | None,
        views_place: Path | None,
        *,
        ledger_created: bool,
        owned: Sequence[Closing],
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.ledger = ledger
        self.views_place = views_place
        self.ledger_created = ledger_created
        self._owned = owned
        self._sessions: WeakSet[Session] = WeakSet()
        opened = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        self.edition = DataEdition(1, opened, policy.edition)
        """Which opening of the data this is, for answers to tell."""
        self._closed = False
        self._lock = threading.Lock()
        self._memories: dict[str, AccountMemory] = {}
        self.in_flight = InFlight()
        """The questions that its sessions are answering."""

    def memory_of(self, analyst: str) -> AccountMemory:
        """Return the memory of an account, for all of its sessions. Raises ``UnknownName``."""
        with self._lock:
            found = self._memories.get(analyst)
            if found is None:
                found = self._memories[analyst] = AccountMemory(self.policy, analyst)
            return found

    def follow(self, before: Dataset) -> None:
        """Count this opening of the data after another one, before there are sessions."""
        self.edition = replace(self.edition, number=before.edition.number + 1)

    def session(
        self,
        analyst: str,
        *,
        session: str = "",
        progress: Percent | None = None,
        observer: Observer | None = None,
        rights: frozenset[Right] | None = None,
        limits: SessionLimits = NO_LIMITS,
        **parameters: Unpack[PrivacyParameters],
    ) -> Session:
        """Open a session of one analyst, which pays from its account.

        ``analyst``: an account of the policy. ``session``: the name of an account of its own below
        the analyst's, which pays too. ``progress``: told 0, 1, ..., 100 percent while a query for
        keys alone reads its rows. ``observer``: told of each event, as it happens. ``rights``: what
        the session may do, all if left out; SQL changes nothing of it. ``limits``: what it may
        spend; one on its account needs the name of a session. ``parameters``: privacy parameters
        for all of its queries. Raises ``UnknownName`` and ``ParameterError``, and
        ``InterfaceError`` if the dataset is closed.
        """
        names = plain_text("analyst", analyst), plain_text("session", session)
        opened = Session(
            *(self, *names, dict(parameters)),
            progress=progress,
            observer=observer,
            rights=rights,
            limits=limits,
        )
        with self._lock:
            if not self._closed:
                self._sessions.add(opened)
                return opened
        raise InterfaceError("the dataset is closed", code="closed")

    def replace_by(self, dataset: Dataset) -> None:
        """Close this dataset, and have its sessions go on with another of the same accounts.

        Each goes over once its running query has ended, with what SET has set. One that cannot, as
        the other policy has not its account or refuses its settings, is closed.
        """
        with self._lock:
            self._closed = True
            sessions = list(self._sessions)
        # Idle ones first: none waits for the statement of another.
        for session in sorted(sessions, key=lambda each: each._answering is not None):
            try:
                session._move(dataset)
            except Error:
                session.close()
            else:
                dataset._take(session)
                self._sessions.discard(session)
        self.close()

    def _take(self, session: Session) -> None:
        """Keep a session that has come from another dataset, to be closed with this one."""
        with self._lock:
            self._sessions.add(session)

    def close(self) -> None:
        """Close its sessions, each after its running query, and the resources that it opened.

        An engine that goes while rows are read has failed: the account would be suspended.
        """
        with self._lock:
            self._closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        for resource in self._owned:
            resource.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

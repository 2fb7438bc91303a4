"""A connection: one analyst's way to ask questions of one database under one policy.

``execute`` is the whole story of a query, in order: nothing is read before the worst case is
reserved, and nothing is shown before the actual cost is settled.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Unpack

from dpsql.accounting.zcdp import ZERO, Amount
from dpsql.budget import BudgetReport, budget_report, payer
from dpsql.budget.question import plan_record
from dpsql.connection import listings as show
from dpsql.connection.cursor import CursorConnection
from dpsql.core.plain import NotPlain, plain, plain_text, type_name
from dpsql.core.schema import Column
from dpsql.engines.base import Engine, Run
from dpsql.engines.duckdb import open_database
from dpsql.errors import (
    EngineError,
    Error,
    InterfaceError,
    NewLedgerWarning,
    ParameterError,
    Place,
    PolicyError,
    ProgrammingError,
)
from dpsql.ir.plan import BlockPlan
from dpsql.ledger import Cause, Charge, Ledger
from dpsql.mechanisms.sampling.noise import EntropySource, OSEntropy
from dpsql.pipeline.prepare import Prepared, Preparer, Question
from dpsql.pipeline.read import read_and_release
from dpsql.pipeline.release_codec import pack, unpack
from dpsql.pipeline.released import ReleasedRows
from dpsql.pipeline.set_union import Percent
from dpsql.pipeline.tail import Tails
from dpsql.policy.conformance import check_policy
from dpsql.policy.ledger_place import announcement, usual_place
from dpsql.policy.limits import ResourceFailures
from dpsql.policy.model import Policy
from dpsql.policy.parameters import NOT_GIVEN, NotGiven, Overrides, PrivacyParameters
from dpsql.policy.resolve import check_setting, resolve
from dpsql.results.explanation import Explanation
from dpsql.results.result import FREE, Cost, Noise, Result
from dpsql.results.rows import HeldAnswer
from dpsql.sql.syntax.parse import not_text
from dpsql.sql.syntax.placeholders import Values, plain_values
from dpsql.sql.syntax.statements import (
    Describe,
    Explain,
    Reset,
    Select,
    Set,
    Show,
    Shown,
    read_statement,
)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """What comes beside the text of a query."""

    values: Values
    mechanism: str | None
    parameters: dict[str, object]
    fresh: bool = False

    @classmethod
    def of(
        cls, values: object, mechanism: object, parameters: dict[str, object], fresh: object = False
    ) -> _Arguments:
        """What a program passed, as values of built-in types. Raises what ``sql`` does."""
        return cls(
            plain_values(values),
            None if mechanism is None else plain_text("mechanism", mechanism),
            parameters,
            _boolean("fresh", fresh),
        )

    def refuse(self) -> None:
        """Refuse to be given to a statement that has no use for it."""
        if self.values or self.mechanism is not None or self.parameters or self.fresh:
            raise ProgrammingError(
                "this statement takes no values and no privacy parameters",
                code="arguments_not_taken",
                hint="They belong to SELECT and EXPLAIN SELECT. For the rest of the connection, "
                "write SET epsilon = 0.5.",
            )


class Connection(CursorConnection):
    """Answers one analyst's queries. Made by :func:`connect`; safe to use from several threads.

    ``sql`` gives a whole answer; ``cursor``, ``commit`` and ``rollback`` are those of PEP 249.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        ledger: Ledger | None,
        analyst: str,
        session: str,
        settings: Overrides,
        *,
        owns_engine: bool,
        owns_ledger: bool,
        progress: Percent,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._ledger = ledger
        self._analyst = analyst
        self._payer = payer(policy, analyst, session)
        self._session_name = session
        self._settings = settings
        self._session: dict[str, object] = {}  # what SET has set
        self._owned: list[Engine | Ledger] = [engine] if owns_engine else []
        if ledger is not None and owns_ledger:
            self._owned.append(ledger)
        resolve(policy, settings)
        self._tail = Tails.of(engine, policy)
        composition = policy.account(analyst).composition
        self._preparer = Preparer(engine, policy, composition, self._tail)
        self._source: EntropySource = OSEntropy()
        self._progress = progress
        self._stopped: Exception | None = None  # what the listener to the progress raised
        self._failures: list[tuple[Charge, Cause]] = []  # that the ledger does not know yet
        self._turn = threading.Lock()
        self._run: Run | None = None  # that reads private rows at this moment
        self._closed = False
        self.ledger_created = owns_ledger and ledger is not None and ledger.created
        """True if opening the connection has created its ledger: nothing had been spent in it."""

    def sql(
        self,
        query: str,
        values: Values = (),
        *,
        mechanism: str | None = None,
        fresh: bool = False,
        **parameters: Unpack[PrivacyParameters],
    ) -> Result:
        """Answer a query under differential privacy, or one of the statements beside SELECT.

        Those are EXPLAIN SELECT, SET and RESET of a privacy parameter for the rest of this
        connection, SHOW BUDGET, SHOW TABLES, SHOW PARAMETERS and DESCRIBE: they cost nothing.

        ``values`` are those of its query parameters: a sequence for ``?``, a mapping for ``$name``
        and ``:name``. ``parameters`` are privacy parameters for this query alone (epsilon, delta,
        max_groups_contributed, max_rows_contributed, k_bar, min_units_per_group,
        contribution_bounding), within the policy's range; ``mechanism`` forces one by name.

        A statement that reads no private table is answered as it is, at no cost. So is a question
        that this account has asked before, from the ledger with the same release, as
        ``cost.stored`` says; ``fresh`` draws, and pays for, a new one.

        Raises a ``dpsql.Error``; unless it is an ``EngineError`` or a ``DataError``, nothing was
        spent.
        """
        query, asked = _query(query), _Arguments.of(values, mechanism, dict(parameters), fresh)
        with self._turn, self._tail.tenant:
            self.refuse_closed()
            statement = read_statement(query)
            match statement:
                case Select():
                    return self._execute(self._question(statement.text, asked))
                case Explain():
                    return self._explained(self._explanation(statement, asked))
                case _:
                    asked.refuse()
                    return self._told(query, self._listing(statement))

    def explain(
        self,
        query: str,
        values: Values = (),
        *,
        mechanism: str | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> Explanation:
        """How the query would be answered, and its price. Reads no data and costs nothing."""
        query, asked = _query(query), _Arguments.of(values, mechanism, dict(parameters))
        with self._turn, self._tail.tenant:
            self.refuse_closed()
            statement = read_statement(query)
            if isinstance(statement, Explain):
                return self._explanation(statement, asked)
            return self._explain(self._question(query, asked))

    def interrupt(self) -> None:
        """End the query that another thread is running on this connection, if one is; it fails.

        What it reserved stays spent, unless it was settled before: then the answer is stored, and
        the same question again costs nothing. Other connections go on, also to the same engine.
        """
        run = self._run
        if run is not None:
            run.interrupt()
        self._tail.interrupt()

    def budget(self, *, compare: bool = False) -> BudgetReport:
        """What this analyst's account has spent and has left, and for how many more questions.

        ``compare`` adds what other composition theorems would say of all that was charged, which
        reads every entry of the account.
        """
        self.refuse_closed()
        ledger = self._paying_ledger()
        return budget_report(
            self._policy, self._analyst, ledger, self._session_name, compare=compare
        )

    def close(self) -> None:
        """Close the connection and what it opened itself, once a query that is running is done."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._tail.tenant.close()
                for resource in self._owned:
                    resource.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- statements beside SELECT -------------------------------------------------------------

    def _explanation(self, statement: Explain, asked: _Arguments) -> Explanation:
        try:
            return self._explain(self._question(statement.text, asked))
        except Error as error:
            if error.place is not None and error.place.source == "query":
                error.place = error.place.after(statement.before)
            raise

    def _explained(self, explanation: Explanation) -> Result:
        listing = show.lines(str(explanation), "plan")
        return Result(_held(listing), lambda: explanation)

    def _told(self, text: str, listing: show.Listing) -> Result:
        nothing = Explanation(text, "", (), ZERO, 0.0, 0.0)
        return Result(_held(listing), lambda: nothing)

    def _listing(self, statement: Set | Reset | Show | Describe) -> show.Listing:
        """Obey or look up; nothing here reads a row or costs anything."""
        match statement:
            case Set(name, value, place):
                self._session[name] = _checked(self._policy, name, value, place)
                return show.parameters(self._policy, self._layers(), name)
            case Reset(name):
                self._session.pop(name, None)
                return show.parameters(self._policy, self._layers(), name)
            case Show(what):
                return self._shown(what)
            case Describe(table, place):
                return show.describe(self._policy, self._engine.schema(), table, place)

    def _shown(self, what: Shown) -> show.Listing:
        match what:
            case Shown.BUDGET:
                return show.budget(self.budget())
            case Shown.TABLES:
                return show.tables(self._policy)
            case Shown.PARAMETERS:
                return show.parameters(self._policy, self._layers())

    def _layers(self) -> tuple[show.Layer, ...]:
        """What was given to the connection, from far to near."""
        return (
            show.Layer("connect()", self._settings),
            show.Layer("SET", Overrides.of(self._session)),
        )

    # -- one query ----------------------------------------------------------------------------

    def _question(self, text: str, asked: _Arguments) -> Question:
        layers = [layer.given for layer in self._layers()]
        settings = resolve(self._policy, *layers, Overrides.of(asked.parameters))
        return Question(text, asked.values, asked.mechanism, settings, asked.fresh)

    def _execute(self, question: Question) -> Result:
        prepared = self._preparer.prepare(question)
        if not prepared.plan.blocks:
            return self._present(prepared, (), FREE)
        stored = None if question.fresh or prepared.fresh else self._stored(prepared)
        if stored is not None:
            return self._present(prepared, *stored)
        charge = self._reserve(prepared, question)
        released, payload = self._released(prepared, charge)
        return self._present(prepared, released, self._settle(prepared, charge, released, payload))

    def _explain(self, question: Question) -> Explanation:
        """The plan, and whether the ledger has a release of it to give again."""
        prepared = self._preparer.prepare(question)
        explanation = self._explained_plan(prepared)
        if self._ledger is None or prepared.fresh or not prepared.plan.blocks:
            return explanation
        stored = self._stored(prepared)
        return explanation if stored is None else replace(explanation, answered=stored[1].answered)

    def _stored(self, prepared: Prepared) -> tuple[tuple[ReleasedRows, ...], Cost] | None:
        """The release the analyst was given for this question, in any session, and its cost now."""
        kept = self._paying_ledger().stored(self._payer.analyst, prepared.fingerprint)
        if kept is None:
            return None
        released = unpack(self._tail.keys, prepared.plan.blocks, prepared.keys, kept.payload)
        return None if released is None else (released, replace(FREE, answered=kept.settled))

    def _reserve(self, prepared: Prepared, question: Question) -> Charge:
        self._record_failures()
        return self._paying_ledger().reserve(
            self._payer.path,
            Amount.charge(prepared.plan.reserved),
            query=prepared.fingerprint,
            plan=plan_record(prepared.plan, question.text, question.values),
            limits=self._payer.limits,
        )

    def _released(
        self, prepared: Prepared, charge: Charge
    ) -> tuple[tuple[ReleasedRows, ...], bytes | None]:
        """The released rows of all blocks, and as what the ledger keeps them.

        Whatever fails here may have failed because of what the rows hold. So the ledger is told,
        and the analyst's account suspended: one failure may tell something, a second must not.
        Raises ``EngineError`` with a fixed text, also for errors of ours.
        """
        self._stopped = None
        run = self._run = self._engine.run(self._policy.limits.seconds)
        try:
            with run:
                released = tuple(self._release(run, *block) for block in prepared.blocks())
                return released, pack(
                    self._tail.keys, prepared.plan.blocks, prepared.keys, released
                )
        except Exception as error:
            if error is self._stopped:  # by who listens to the progress
                raise
            code = _code(error, run.expired)
        finally:
            self._run = None
        # Raised outside the handler, so that not even its context quotes a row.
        raise self._failure(charge, code)

    def _release(
        self, run: Run, plan: BlockPlan, statement: str, keys: tuple[Column, ...]
    ) -> ReleasedRows:
        return read_and_release(run, plan, statement, keys, self._source, self._told_percent)

    def _told_percent(self, percent: int) -> None:
        try:
            self._progress(percent)
        except Exception as error:
            self._stopped = error
            raise

    def _failure(self, charge: Charge, code: str) -> EngineError:
        """What the analyst is told, once the ledger knows."""
        kept, account = "What it had reserved stays spent.", self._payer.analyst
        if code == "interrupted":
            return EngineError("the query was interrupted", code="interrupted", hint=kept)
        keeps = self._policy.limits.resource_failures is ResourceFailures.KEEP
        if code == "engine_failed" or not keeps:
            self._failures.append((charge, _CAUSES[code]))
            self._record_failures()
            kept += (
                f" The account {account} gets no answer to a new question until the owner has "
                f"looked and reopens it: dpsql budget owner reopen {account}"
            )
        if code == "time_limit":
            seconds = f"{self._policy.limits.seconds:g}"
            reason = f"the query ran into the policy's limit of {seconds} seconds"
            return EngineError(reason, code="time_limit", hint=kept)
        if code == "memory_limit":
            reason = "the query ran into the limit of memory"
            return EngineError(reason, code="memory_limit", hint=kept)
        return EngineError(EngineError.FIXED_REASON, code="engine_failed", hint=kept)

    def _record_failures(self) -> None:
        """Tell the ledger of failures it does not know yet; until it does, nothing is asked."""
        while self._failures:
            charge, cause = self._failures[0]
            self._paying_ledger().fail(charge, self._payer.analyst, cause)
            self._failures.pop(0)

    def _settle(
        self,
        prepared: Prepared,
        charge: Charge,
        released: tuple[ReleasedRows, ...],
        payload: bytes | None,
    ) -> Cost:
        """Commit the actual charge, which depends on the released rows alone, and keep them."""
        loss = sum((rows.loss for rows in released), ZERO)
        self._paying_ledger().settle(charge, charge.lowered_to(Amount.charge(loss)), payload)
        return Cost(prepared.plan.reserved, loss, prepared.plan.conversion_delta)

    def _explained_plan(self, prepared: Prepared) -> Explanation:
        """The plan, and how much work it may be."""
        explanation = prepared.explain()
        return replace(explanation, limits=self._policy.limits if explanation.blocks else None)

    def _present(
        self, prepared: Prepared, released: tuple[ReleasedRows, ...], cost: Cost
    ) -> Result:
        query, plans = prepared.query, prepared.plan.blocks
        answer = self._tail.runner.run(query, plans, prepared.keys, released, prepared.names)
        counts = tuple(rows.count for rows in released)
        return Result(
            answer,
            lambda: self._explained_plan(prepared),
            cost,
            Noise(query.outputs, query.supports, plans, counts),
        )

    def _paying_ledger(self) -> Ledger:
        if self._ledger is None:
            raise InterfaceError(
                "the connection has no ledger, so it can only explain",
                code="no_ledger",
                hint="Leave out `ledger=None`, or pass the ledger's path to connect().",
            )
        return self._ledger

    def refuse_closed(self) -> None:
        """Raise ``InterfaceError`` if the connection is closed."""
        if self._closed:
            raise InterfaceError("the connection is closed", code="closed")


def _held(listing: show.Listing) -> HeldAnswer:
    """A listing as an answer. It was not released: there is nothing private in it."""
    columns = listing.columns
    return HeldAnswer([c.name for c in columns], [c.type for c in columns], listing.rows)


def _query(text: object) -> str:
    """The text of a statement. Raises ``SQLSyntaxError`` for what is no text."""
    try:
        found = plain(text)
    except NotPlain:
        found = None
    if not isinstance(found, str):
        raise not_text()
    return found


_CAUSES: Final = {
    "engine_failed": Cause.ENGINE,
    "time_limit": Cause.TIME,
    "memory_limit": Cause.MEMORY,
}


def _code(error: Exception, expired: bool) -> str:
    """What happened to a query, told by the kind of an error: its text may quote rows."""
    if isinstance(error, MemoryError):
        return "memory_limit"
    if not isinstance(error, EngineError):
        return "engine_failed"  # an error of ours, for reasons that rows may have
    return "time_limit" if expired and error.code == "interrupted" else error.code


def _boolean(name: str, value: object) -> bool:
    try:
        found = plain(value)
    except NotPlain:
        found = None
    if not isinstance(found, bool):
        raise ParameterError(
            f"{name} must be True or False, not {type_name(value)}", code="bad_parameter"
        )
    return found


def _checked(policy: Policy, name: str, value: object, place: Place) -> object:
    """The value of a parameter, checked as an argument of ``connect`` is; errors have a place."""
    try:
        return check_setting(policy, name, value)
    except ParameterError as error:
        error.place = place
        raise


def _untold(percent: int) -> None:
    """Progress that nobody asked for."""


def connect(
    database: str | Path | Engine,
    policies: str | Path | Policy = "policies.yaml",
    ledger: str | Path | Ledger | NotGiven | None = NOT_GIVEN,
    analyst: str = "",
    *,
    session: str = "",
    progress: Percent = _untold,
    **parameters: Unpack[PrivacyParameters],
) -> Connection:
    """Open a connection for one analyst.

    ``database``: a DuckDB, Parquet or CSV file, or an engine the owner has filled. ``policies``: a
    policies file. ``ledger``: the SQLite file that keeps the budget, created if missing, or the
    ``postgresql://`` URL of one; None for a connection that can explain and do nothing else. Left
    out, it is the one that the policies file names, or ``clinic.budget.db`` beside
    ``clinic.duckdb``; if that had to be created, a ``NewLedgerWarning`` says so.
    ``analyst``: an account of the policy. ``session``: the name of an account of its own below the
    analyst's, which pays too; the owner may limit it. ``progress``: told 0, 1, ..., 100 percent
    while a query for keys alone reads its rows, which takes long on large tables; the numbers are
    the same for all data, but not when they come. ``parameters``: privacy parameters for all
    queries of this connection. Raises ``PolicyError``, ``LedgerError``, ``UnknownName``,
    ``ParameterError`` or ``InterfaceError``, saying what is wrong and where.
    """
    analyst, session = plain_text("analyst", analyst), plain_text("session", session)
    if not isinstance(database, str | Path) and not hasattr(type(database), "schema"):
        raise _odd("database", "a path or an engine", database)
    if not isinstance(ledger, str | Path | Ledger | NotGiven | None):
        raise _odd("ledger", "a path, a URL, a Ledger or None", ledger)
    policy = _policy(policies)
    payer(policy, analyst, session)
    settings = Overrides.of(parameters)
    resolve(policy, settings)
    place = usual_place(policy, database) if isinstance(ledger, NotGiven) else ledger
    with ExitStack() as owned:
        engine = database
        if isinstance(engine, str | Path):
            engine = owned.enter_context(closing(open_database(engine)))
        _check(policy, engine)
        engine.lock(policy.tables, policy.limits.memory)
        opened = place
        if isinstance(opened, str | Path):
            opened = owned.enter_context(closing(Ledger.open(opened)))
            if opened.created and place is not ledger:
                warnings.warn(announcement(str(place)), NewLedgerWarning, stacklevel=2)
        connection = Connection(
            engine,
            policy,
            opened,
            analyst,
            session,
            settings,
            owns_engine=engine is not database,
            owns_ledger=opened is not place,
            progress=progress,
        )
        owned.pop_all()  # from here on they are the connection's
    return connection


def _policy(policies: str | Path | Policy) -> Policy:
    if isinstance(policies, Policy):
        return policies
    if not isinstance(policies, str | Path):
        raise _odd("policies", "a path or a Policy", policies)
    from dpsql.policy.load import load_policy

    return load_policy(policies)


def _odd(name: str, kinds: str, value: object) -> ParameterError:
    """The error for an argument of a type that it cannot have."""
    return ParameterError(f"{name} must be {kinds}, not {type_name(value)}", code="bad_parameter")


def _check(policy: Policy, engine: Engine) -> None:
    """Refuse a policy that does not fit the database."""
    found = check_policy(policy, engine.schema(), engine.definition)
    findings = [f for f in found if f.level == "error"]
    if findings:
        first = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PolicyError(
            f"{first.subject}: {first.message}{more}",
            code="policy_does_not_fit",
            hint=first.hint or "Run `dpsql check` to see all findings.",
        )

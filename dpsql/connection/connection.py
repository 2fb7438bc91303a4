"""A connection: one analyst's way to ask questions of one database under one policy.

How a question is answered is told in :mod:`dpsql.connection.answering`, how other statements are
in :mod:`dpsql.connection.statements`.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dpsql.budget import BudgetReport, payer
from dpsql.connection.answering import Answerer
from dpsql.connection.cursor import CursorConnection
from dpsql.connection.statements import Arguments, Statements, statement_text
from dpsql.connection.tuning import USUAL_SHARE, TuningRequest
from dpsql.core.plain import plain_text, type_name
from dpsql.engines.base import Engine
from dpsql.engines.opening import engine_of_session, is_session, open_engine
from dpsql.errors import (
    EngineError,
    Error,
    InterfaceError,
    NewLedgerWarning,
    ParameterError,
    PolicyError,
)
from dpsql.ledger import Ledger
from dpsql.pipeline.set_union import Percent
from dpsql.policy.conformance import check_policy
from dpsql.policy.ledger_place import announcement, usual_place
from dpsql.policy.model import Policy
from dpsql.policy.parameters import NOT_GIVEN, NotGiven, Overrides, PrivacyParameters
from dpsql.policy.resolve import resolve
from dpsql.policy.views_place import place_beside
from dpsql.results.description import Description
from dpsql.results.explanation import Explanation
from dpsql.results.result import Result
from dpsql.results.tuning import Tuning
from dpsql.sql.syntax.placeholders import PlaceholderValues, plain_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)


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
        views_place: Path | None = None,
    ) -> None:
        resolve(policy, settings)
        self._answerer = Answerer(engine, policy, ledger, analyst, session, progress, views_place)
        self._statements = Statements(self._answerer, settings)
        self._owned: list[Engine | Ledger] = [engine] if owns_engine else []
        if ledger is not None and owns_ledger:
            self._owned.append(ledger)
        self._turn = threading.Lock()
        self._tenant = self._answerer.tails.tenant
        self._closed = False
        self.ledger_created = owns_ledger and ledger is not None and ledger.created
        """True if opening the connection has created its ledger: nothing had been spent in it."""

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
        ``cost.stored`` says; ``fresh`` draws, and pays for, a new one that stands alone. Asked
        otherwise at another epsilon, a question is answered from all releases of it together, as
        ``combined`` says of the answer; ``combine`` decides which.

        Raises a ``dpsql.Error``; unless it is an ``EngineError`` or a ``DataError``, nothing was
        spent.
        """
        text = statement_text(query)
        asked = Arguments.of(values, mechanism, dict(parameters), fresh)
        with self._turn, self._tenant, self._logging_refusals():
            self.refuse_closed()
            return self._statements.result(text, asked)

    def explain(
        self,
        query: str,
        values: PlaceholderValues = (),
        *,
        mechanism: str | None = None,
        **parameters: Unpack[PrivacyParameters],
    ) -> Explanation:
        """Explain how a query would be answered, and its price. Reads no data and costs nothing."""
        text, asked = statement_text(query), Arguments.of(values, mechanism, dict(parameters))
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
        """Try settings of what bounds a unit's contributions to a query, and recommend one.

        ``groups`` and ``rows`` are values of ``max_groups_contributed`` and
        ``max_rows_contributed`` to try, in all combinations; left out, usual ones. ``bounds`` are
        pairs to try as those of the values of the query's sum, at the caps that it has. Each is
        planned like a query. What it leaves out is estimated by looks at private rows, which cost
        ``share`` of the query's price together: reserved first, kept in the ledger, known for
        nothing when the same is tried again. ``dry_run`` says what they would cost, and which
        noise each setting has, at no cost. ``size`` is that of the groups that matter, before
        anything is left out, in the units of the answer; left out, one is estimated if it can be.

        Raises a ``dpsql.Error``, among them ``InterfaceError`` (``nothing_to_tune``) where nothing
        can be told of the query; unless it is an ``EngineError``, nothing was spent.
        """
        text = statement_text(query)
        request = TuningRequest.of(groups, rows, bounds, size, share, dry_run)
        asked = Arguments.of(values, mechanism, dict(parameters))
        with self._turn, self._tenant, self._logging_refusals():
            self.refuse_closed()
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
        with self._turn, self._tenant:
            self.refuse_closed()
            return self._statements.description(text, given)

    def interrupt(self) -> None:
        """End the query that another thread is running on this connection, if one is; it fails.

        What it reserved stays spent, unless it was settled before: then the answer is stored, and
        the same question again costs nothing. Other connections go on, also to the same engine.
        """
        self._answerer.interrupt()

    def budget(self, *, compare: bool = False) -> BudgetReport:
        """Report what this analyst's account has spent, what is left, and for how many questions.

        ``compare`` adds what other composition theorems would say of all that was charged, which
        reads every entry of the account.
        """
        self.refuse_closed()
        return self._answerer.budget(compare=compare)

    def close(self) -> None:
        """Close the connection and what it opened itself, once a query that is running is done."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._answerer.close()
                for resource in self._owned:
                    resource.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<dpsql.Connection of {self._answerer.payer.path}{closed}>"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _logging_refusals(self) -> Iterator[None]:
        """Log the codes of errors; of failures of the engine, their answerer has told more."""
        try:
            yield
        except EngineError:
            raise
        except Error as error:
            _logger.info("%s: refused, %s", self._answerer.payer.path, error.code)
            raise

    def refuse_closed(self) -> None:
        """Raise ``InterfaceError`` if the connection is closed."""
        if self._closed:
            raise InterfaceError("the connection is closed", code="closed")


def _ignore_progress(percent: int) -> None:
    """Ignore progress that nobody asked for."""


def connect(
    database: str | Path | Engine | SparkSession,
    policies: str | Path | Policy = "policies.yaml",
    ledger: str | Path | Ledger | NotGiven | None = NOT_GIVEN,
    analyst: str = "",
    *,
    session: str = "",
    progress: Percent = _ignore_progress,
    **parameters: Unpack[PrivacyParameters],
) -> Connection:
    """Open a connection for one analyst.

    ``database``: a DuckDB, Parquet or CSV file, the ``postgresql://`` URL of a server's database,
    the ``sc://`` URL of a Spark Connect server, a Spark session, or an engine the owner has filled.
    ``policies``: a policies file. ``ledger``: the SQLite file that keeps the budget, created if
    missing, or the ``postgresql://`` URL of one; None for a connection that can explain and do
    nothing else. Left
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
    if is_session(database):
        database = engine_of_session(database)
    if not isinstance(database, str | Path) and not hasattr(type(database), "schema"):
        raise _wrong_type("database", "a path or an engine", database)
    if not isinstance(ledger, str | Path | Ledger | NotGiven | None):
        raise _wrong_type("ledger", "a path, a URL, a Ledger or None", ledger)
    policy = _policy(policies).of_account(analyst)
    payer(policy, analyst, session)
    settings = Overrides.of(parameters)
    resolve(policy, settings)
    place = usual_place(policy, database) if isinstance(ledger, NotGiven) else ledger
    with ExitStack() as owned:
        engine = database
        if isinstance(engine, str | Path):
            engine = owned.enter_context(closing(open_engine(engine)))
        _check(policy, engine)
        policy = replace(policy, edition=policy.edition or engine.edition or "")
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
            views_place=place_beside(database, policy.views.directory),
        )
        owned.pop_all()  # from here on they are the connection's
    _logger.info("%s: connected", connection._answerer.payer.path)
    return connection


def _policy(policies: str | Path | Policy) -> Policy:
    if isinstance(policies, Policy):
        return policies
    if not isinstance(policies, str | Path):
        raise _wrong_type("policies", "a path or a Policy", policies)
    from dpsql.policy.load import load_policy

    return load_policy(policies)


def _wrong_type(name: str, kinds: str, value: object) -> ParameterError:
    """Build the error for an argument of a type that it cannot have."""
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

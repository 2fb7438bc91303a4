"""A connection: one analyst's way to ask questions of one database under one policy.

It is opened by :mod:`dpsql.service.opening`, and holds the tables of the policy alone.
How a question is answered is told in :mod:`dpsql.service.answering`, how other statements are
in :mod:`dpsql.service.statements`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Unpack

from dpsql.budget import BudgetReport
from dpsql.core.progress import Percent
from dpsql.core.schema import Schema
from dpsql.dbapi.cursor import CursorConnection
from dpsql.engines.base.engine import Engine
from dpsql.errors import EngineError, Error, InterfaceError
from dpsql.ledger import Ledger
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Overrides, PrivacyParameters
from dpsql.policy.resolve import resolve
from dpsql.results.description import Description
from dpsql.results.explanation import Explanation
from dpsql.results.result import Result
from dpsql.results.tuning import Tuning
from dpsql.service.answering import Answerer
from dpsql.service.statements import Arguments, Statements, statement_text
from dpsql.service.tuning import USUAL_SHARE, TuningRequest
from dpsql.syntax.placeholders import PlaceholderValues, plain_values

_logger = logging.getLogger(__name__)


class Closing(Protocol):
    """What is closed with a connection: nothing else can be asked of it."""

    def close(self) -> None:
        """Close it."""


class Connection(CursorConnection):
    """Answers one analyst's queries. Made by ``dpsql.connect``; safe to use from several threads.

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
        owned: Sequence[Closing] = (),
        ledger_created: bool = False,
        progress: Percent,
        views_place: Path | None = None,
    ) -> None:
        resolve(policy, settings)
        self._answerer = Answerer(engine, policy, ledger, analyst, session, progress, views_place)
        self._statements = Statements(self._answerer, settings)
        self._owned = owned
        self._turn: Any = threading.RLock()
        self._tenant = self._answerer.tails.tenant
        self._closed = False
        self.ledger_created = ledger_created
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
        self._refuse_inside()
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
        self._refuse_inside()
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
        self._refuse_inside()
        with self._turn, self._tenant:
            self.refuse_closed()
            return self._statements.description(text, given)

    @property
    def schema(self) -> Schema:
        """The tables that the policy lists, with their columns."""
        return self._answerer.engine.schema

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
        self._refuse_inside()
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

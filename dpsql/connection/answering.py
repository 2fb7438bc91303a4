"""Answers questions: the story of a query, in order.

:meth:`Answerer.answer` tells it. Nothing private is read before the worst case is reserved, and
nothing is shown before the actual cost is settled.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.accounting.zcdp import ZERO, Amount
from dpsql.budget import BudgetReport, budget_report, payer
from dpsql.budget.question import plan_record
from dpsql.core.schema import Column
from dpsql.engines.base import Engine, Run
from dpsql.errors import BudgetExceeded, EngineError, InterfaceError
from dpsql.ledger import Cause, Charge, Ledger
from dpsql.mechanisms.sampling.noise import EntropySource, OSEntropy
from dpsql.pipeline.failures import failure_code, failure_error, suspending_cause
from dpsql.pipeline.prepare import Prepared, Preparer, Question
from dpsql.pipeline.read import read_exact
from dpsql.pipeline.release import release_block
from dpsql.pipeline.release_codec import decode_release, encode_release
from dpsql.pipeline.released import ReleasedBlock
from dpsql.pipeline.set_union import Percent
from dpsql.pipeline.tail import Tails
from dpsql.pipeline.trace import trace_from
from dpsql.policy.model import Policy
from dpsql.results.explanation import Explanation
from dpsql.results.result import FREE, AnswerNoise, Cost, Result
from dpsql.sql.syntax.placeholders import PlaceholderValues, literals

if TYPE_CHECKING:
    from dpsql.continual.views import Views

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Release:
    """The released blocks of a question, and as what the ledger keeps them if it does."""

    blocks: tuple[ReleasedBlock, ...]
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class _Failure:
    """That reading or releasing failed: the code of what the analyst is told, and nothing else."""

    code: str


class Answerer:
    """Answers the questions of one account, one at a time. Not safe for threads."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        ledger: Ledger | None,
        analyst: str,
        session: str,
        progress: Percent,
        views_place: Path | None = None,
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.payer = payer(policy, analyst, session)
        trace, account = trace_from(os.environ), policy.account(analyst)
        self.tails = Tails.of(engine, policy)
        self.preparer = Preparer(engine, policy, account, self.tails, trace)
        self.source: EntropySource = OSEntropy()
        if ledger is not None:
            self.tails.public.views = lambda: self.views
        self._views: Views | None = None
        self._views_place = views_place
        self._ledger = ledger
        self._analyst = analyst
        self._session = session
        self._progress = progress
        self._run: Run | None = None  # that reads private rows at this moment
        self._stopped: Exception | None = None  # what the listener to the progress raised
        self._failures: list[tuple[Charge, Cause]] = []  # that the ledger does not know yet

    @property
    def views(self) -> Views:
        """The materialized views of the account."""
        if self._views is None:
            # Loaded when first asked for: most statements know no view.
            from dpsql.continual.prepare import ViewPreparer
            from dpsql.continual.views import Views

            self._views = Views(
                self.engine,
                self.policy,
                self.paying_ledger,
                self.payer,
                self._views_place,
                ViewPreparer(self.engine, self.policy),
                self._progress,
            )
        return self._views

    def answer(self, question: Question) -> Result:
        """Answer a question, from the ledger if it has the release, else with a new one.

        Whatever can be refused is refused while the question is prepared; it costs nothing then.
        """
        began = time.monotonic()
        prepared = self.preparer.prepare(question)
        if not prepared.blocks:
            return self._answered(prepared, self._present(prepared, (), FREE), began)
        stored = None if question.fresh or prepared.fresh else self.stored(prepared)
        if stored is not None:
            return self._answered(prepared, self.present_stored(prepared, *stored), began)
        charge = self._reserve(prepared, question)
        found = self._read_and_release(prepared)
        if isinstance(found, _Failure):
            # Raised outside of any handler, so that not even its context quotes a row.
            error = self._failed(charge, found)
            _logger.error("%s: failed %s, %s", self.payer.path, _short(prepared), found.code)
            raise error
        cost = self._settle(prepared, charge, found)
        return self._answered(prepared, self._present(prepared, found.blocks, cost), began)

    def explain(self, question: Question) -> Explanation:
        """Explain the plan, and whether the ledger has a release of it to give again."""
        prepared = self.preparer.prepare(question)
        explanation = self._explained(prepared)
        if self._ledger is None or prepared.fresh or not prepared.blocks:
            return explanation
        stored = self.stored(prepared)
        return explanation if stored is None else replace(explanation, answered=stored[1])

    def describe(self, question: Question) -> tuple[Column, ...]:
        """Return the columns of the answer. Reads nothing private and costs nothing."""
        return self.preparer.prepare(question).shown

    def types_of(self, values: PlaceholderValues) -> dict[str, str | None]:
        """Return the types of query parameters' values in a statement; None for NULL."""
        written = literals(values)
        if not written:
            return {}
        bound = self.engine.bind(f"SELECT {', '.join(written.values())}")
        named = zip(written.items(), bound, strict=True)
        return {name: None if sql == "NULL" else column.type for (name, sql), column in named}

    def budget(self, *, compare: bool = False) -> BudgetReport:
        """Report what the account has spent and has left.

        Raises ``InterfaceError`` without a ledger.
        """
        ledger = self.paying_ledger()
        return budget_report(self.policy, self._analyst, ledger, self._session, compare=compare)

    def interrupt(self) -> None:
        """End what another thread is answering; it fails."""
        run = self._run
        if run is not None:
            run.interrupt()
        if self._views is not None:
            self._views.interrupt()
        self.tails.interrupt()

    def close(self) -> None:
        """Give back the room of the tails; answers that are still referred to stay readable."""
        self.tails.tenant.close()

    @property
    def has_ledger(self) -> bool:
        """True if the connection can pay; one without can explain and do nothing else."""
        return self._ledger is not None

    def paying_ledger(self) -> Ledger:
        """Return the ledger. Raises ``InterfaceError`` if there is none."""
        if self._ledger is None:
            raise InterfaceError(
                "the connection has no ledger, so it can only explain",
                code="no_ledger",
                hint="Leave out `ledger=None`, or pass the ledger's path to connect().",
            )
        return self._ledger

    # -- the steps, in order ------------------------------------------------------------------

    def stored(self, prepared: Prepared) -> tuple[tuple[ReleasedBlock, ...], str] | None:
        """Find the release given for this question, in any session, and when it was paid."""
        kept = self.paying_ledger().stored(self.payer.analyst, prepared.fingerprint)
        if kept is None:
            return None
        released = decode_release(self.tails.keys, prepared.blocks, kept.payload)
        return None if released is None else (released, kept.settled)

    def _reserve(self, prepared: Prepared, question: Question) -> Charge:
        """Charge the worst case, before any private row is read."""
        self._record_failures()
        try:
            return self.paying_ledger().reserve(
                self.payer.path,
                Amount.charge(prepared.plan.reserved),
                query=prepared.fingerprint,
                plan=plan_record(prepared.plan, question.text, question.values),
                limits=self.payer.limits,
            )
        except BudgetExceeded as error:
            error.hint = _affordable(prepared, error) or error.hint
            raise

    def _read_and_release(self, prepared: Prepared) -> _Release | _Failure:
        """Read the private rows of all blocks and draw what comes out of them.

        Whatever fails here may have failed because of what the rows hold, an error of ours too. So
        nothing of it is told but a code. Raises what the listener to the progress raised.
        """
        self._stopped = None
        run = self._run = self.engine.run(self.policy.limits.seconds)
        released: list[ReleasedBlock] = []
        try:
            with run:
                for block in prepared.blocks:
                    with read_exact(run, block, self._report_progress) as exact:
                        released.append(release_block(block, exact, self.source))
                return _Release(tuple(released), encode_release(self.tails.keys, released))
        except Exception as error:
            if error is self._stopped:
                raise
            return _Failure(failure_code(error, expired=run.expired))
        finally:
            self._run = None

    def _settle(self, prepared: Prepared, charge: Charge, release: _Release) -> Cost:
        """Commit the actual charge, which depends on the released rows alone, and keep them."""
        loss = sum((each.rows.loss for each in release.blocks), ZERO)
        settled = charge.lowered_to(Amount.charge(loss))
        self.paying_ledger().settle(charge, settled, release.payload)
        return Cost(prepared.plan.reserved, loss, prepared.plan.conversion_delta)

    def present_stored(
        self, prepared: Prepared, released: tuple[ReleasedBlock, ...], answered: str
    ) -> Result:
        """Present the answer from a release that was paid for at some time."""
        return self._present(prepared, released, replace(FREE, answered=answered))

    def _present(
        self, prepared: Prepared, released: tuple[ReleasedBlock, ...], cost: Cost
    ) -> Result:
        """Run the tail over what was released."""
        query = prepared.query
        answer = self.tails.runner.run(query, released, prepared.names)
        counts = tuple(each.rows.count for each in released)
        return Result(
            answer,
            lambda: self._explained(prepared),
            cost,
            AnswerNoise(query.outputs, query.supports, prepared.plan.blocks, counts),
        )

    def _answered(self, prepared: Prepared, result: Result, began: float) -> Result:
        """Log what an answer cost, and how long it took; what was asked is told by its digest."""
        paid, stored = result.cost.settled, ", stored" if result.cost.stored else ""
        _logger.info(
            "%s: answered %s%s, cost rho %.6g, epsilon %.6g, delta %.6g, in %.3f seconds",
            *(self.payer.path, _short(prepared), stored),
            *(paid.rho, paid.epsilon, paid.delta, time.monotonic() - began),
        )
        return result

    def _explained(self, prepared: Prepared) -> Explanation:
        """Return the plan, and how much work it may be."""
        explanation = prepared.explain()
        return replace(explanation, limits=self.policy.limits if explanation.blocks else None)

    def _report_progress(self, percent: int) -> None:
        try:
            self._progress(percent)
        except Exception as error:
            self._stopped = error
            raise

    # -- failures -----------------------------------------------------------------------------

    def _failed(self, charge: Charge, failure: _Failure) -> EngineError:
        """Build what the analyst is told of a failure, once the ledger knows of it."""
        cause = suspending_cause(self.policy, failure.code)
        if cause is not None:
            self._failures.append((charge, cause))
            self._record_failures()
        suspended = None if cause is None else self.payer.analyst
        kept = "What it had reserved stays spent."
        return failure_error(self.policy, failure.code, kept, suspended)

    def _record_failures(self) -> None:
        """Tell the ledger of failures it does not know yet; until it does, nothing is asked."""
        while self._failures:
            charge, cause = self._failures[0]
            self.paying_ledger().fail(charge, self.payer.analyst, cause)
            self._failures.pop(0)
            _logger.warning("%s: account suspended, cause %s", self.payer.analyst, cause.value)


def _affordable(prepared: Prepared, error: BudgetExceeded) -> str | None:
    """Say which error what is left of the account still buys; None if none, or none was asked."""
    if error.remaining is None or error.remaining[1] < error.requested[1]:
        return None
    share = error.remaining[0] / error.requested[0]
    within = prepared.within(share) if share < 1 else None
    if within is None:
        return None
    return f"what is left allows less: {within}. Ask for a larger max_error"


def _short(prepared: Prepared) -> str:
    """Name a question in a log: by the start of its fingerprint."""
    return prepared.fingerprint[:12] if prepared.blocks else "from public tables"

"""Answers questions: the story of a query, in order.

:meth:`Answerer.answer` tells it. Nothing private is read before the worst case is reserved, and
nothing is shown before the actual cost is settled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dpsql.accuracy.left_out import EstimateEvidence
from dpsql.budget import (
    AccountReport,
    BudgetReport,
    EarlierQuestion,
    OwnAccount,
    budget_report,
    earlier_questions,
    payer,
    share_taken,
)
from dpsql.budget.payer import delta_buys
from dpsql.core.formatting import figure_above, figure_below, significant
from dpsql.core.progress import Percent
from dpsql.core.sql import Sql, Written, join, sql
from dpsql.core.table_name import TableName
from dpsql.core.timeout import refuse_late
from dpsql.engines.base.engine import Engine
from dpsql.errors import (
    BudgetExceeded,
    DataError,
    EngineError,
    InterfaceError,
    ParameterError,
    QueryRefused,
)
from dpsql.ir.plan import BlockPlan, OpenBounds, PreparedEstimate
from dpsql.ir.relations import PublishedView, scanned
from dpsql.kinds.bounds_choice import decode_bounds
from dpsql.kinds.left_out import decode_estimate
from dpsql.kinds.null_groups import with_null_groups_told
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedBlock, ReleasedEstimate
from dpsql.ledger import Charge, Ledger, Stored
from dpsql.pipeline.buyer import Buyer, Counter, Failure, Releases
from dpsql.pipeline.events import Observer, QuestionAnswered, ReadingFailed
from dpsql.pipeline.kept.release_codec import decode_release
from dpsql.pipeline.prepare import PlanMemory, PlanningTerms, Prepared, Preparer, Question
from dpsql.pipeline.purchase import (
    Bought,
    Purchase,
    purchase_of_blocks,
    purchase_of_bounds,
    purchase_of_estimate,
)
from dpsql.pipeline.tail.runner import Tails
from dpsql.pipeline.till import Till
from dpsql.pipeline.trace import trace_from
from dpsql.planner.advice import CameOut, advice
from dpsql.planner.max_error import error_targets
from dpsql.policy.parameters import AnswerFrom, Pooling
from dpsql.privacy.accounting.zcdp import ZERO, Amount, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.results.caveats import (
    Caveat,
    answered_first,
    clock_read,
    of_some_groups,
    view_bounds,
)
from dpsql.results.explanation import Explanation, with_earlier, with_roll_up
from dpsql.results.result import (
    FREE,
    AnswerNoise,
    Cost,
    LeftOutEvidence,
    Result,
    for_another_reader,
)
from dpsql.results.rows import HeldAnswer
from dpsql.service.account_memory import AccountMemory
from dpsql.service.given_answers import GivenAnswer
from dpsql.service.in_flight import InFlight, Turns
from dpsql.service.rights import SessionLimits
from dpsql.service.stored_releases import (
    ANY_AGE,
    AgeLimit,
    KeptReleases,
    PooledReleases,
    RollUp,
    RollUps,
    StoredRelease,
    StoredReleases,
    nothing_released,
)
from dpsql.syntax.placeholders import PlaceholderValues, literals

if TYPE_CHECKING:
    from dpsql.views.views import Views

_ROLL_UP = "A roll-up of a stored release answers it: with answer_from = released it costs nothing"

_GIVE_BOUNDS = (
    "Not all bounds that can be found can be answered: give max_rows_contributed, "
    "max_groups_contributed, and contribution_bounds_per_row => (lower, upper)"
)

NOT_KEPT = (
    "The release was paid for, and could not be kept: its keys have no exact text. Asked again, it "
    "is paid for again"
)

_FITS = 0.95
"""The part of what is left that a proposed ε takes, as prices are not quite in proportion to it."""

_ROUNDED_UP = 1 + 1e-6

_Estimates = Mapping[str, ReleasedEstimate]  # by fingerprint


@dataclass(frozen=True, slots=True)
class _Sold:
    """A question that was paid for and read: its charges, and its releases or their failure.

    Beside are the estimates that were bought, those that were known, and earlier releases that it
    is pooled with.
    """

    charges: tuple[Charge, ...]
    found: Releases | Failure
    estimates: tuple[Purchase[Bought], ...]
    known: _Estimates
    pool: PooledReleases | None


class Answerer:
    """Answers the questions of one account, one at a time. Not safe for threads."""

    def __init__(
        self,
        engine: Engine,
        memory: AccountMemory,
        ledger: Ledger | None,
        session: str,
        observer: Observer,
        views_place: Path | None,
        limits: SessionLimits,
        in_flight: InFlight,
    ) -> None:
        self.engine = engine
        self.memory = memory
        self.policy = policy = memory.policy
        self.payer = payer(policy, memory.analyst, session, limits.epsilon)
        trace, account = trace_from(os.environ), policy.account(memory.analyst)
        self.tails = Tails.of(engine, policy)
        # A trace tells of what others have planned, too.
        plans = memory.plans if trace is None else PlanMemory()
        self.preparer = Preparer(engine, policy, account, self.tails, plans, trace)
        self.tell = observer
        self.till = Till(self.paying_ledger, self.payer, observer)
        self.buyer = Buyer(
            *(engine, policy, self.payer.analyst),
            *(self.preparer.dialect, self.tails.keys, self._progressed),
        )
        self.kept = KeptReleases(self.paying_ledger, self.payer.analyst)
        self.releases = StoredReleases(self.kept, self.preparer, self.tails.keys)
        self.roll_ups = RollUps(self.kept)
        self._turns = Turns(in_flight, self.payer.analyst)
        if ledger is not None:
            self.tails.public.views = lambda: self.views
        self._views: Views | None = None
        self._views_place = views_place
        self._ledger = ledger
        self._session = session
        self._limits = limits
        self.reserved = ZERO
        """What the statement that is being answered has reserved so far."""
        self._listener: Percent | None = None
        self._interrupted = False

    def begin(self, listener: Percent | None) -> None:
        """Begin another statement, whose progress in percent is told to a listener."""
        self.reserved = ZERO
        self._listener = listener
        self._interrupted = False

    def _progressed(self, percent: int) -> None:
        if self._listener is not None:
            self._listener(percent)

    @property
    def views(self) -> Views:
        """The materialized views of the account."""
        if self._views is None:
            # Loaded when first asked for: most statements know no view.
            from dpsql.views.prepare import ViewPreparer
            from dpsql.views.views import Views

            self._views = Views(
                self.engine,
                self.policy,
                self.paying_ledger,
                self.payer,
                self.till,
                self.buyer,
                self._views_place,
                ViewPreparer(self.engine, self.policy),
                self._known_bounds_of_view,
                self._progressed,
                self.tell,
            )
        return self._views

    def answer(self, question: Question, then: PrivacyLoss = ZERO) -> Result:
        """Answer a question, from the ledger if it has the release, else with a new one.

        Whatever can be refused is refused while the question is prepared; it costs nothing then.
        ``then`` is what the account must have beside, if it has to pay. Where another session of
        the account is answering the same question, its release is waited for.
        """
        began = time.monotonic()
        prepared, parts = self.preparer.with_stand_ins(question)
        if parts:
            return self._after_first(question, prepared, parts, then)
        if prepared.empty:
            return self._answered(prepared, self._columns_alone(prepared), began)
        if not prepared.blocks:
            return self._answered(prepared, self._present(prepared, (), FREE), began)
        limit = self.kept.limit(prepared.max_age)
        asked = question, prepared
        kept = self._given_again(*asked, limit, began)
        if kept is not None:
            return kept
        if prepared.only_released:
            return self._answered(prepared, self._rolled_up(*asked, limit), began)
        if question.fresh or prepared.fresh:
            return self._bought(*asked, limit, began, then)
        with self._turns.taken(prepared.fingerprint):
            kept = self._given_again(*asked, limit, began)
            if kept is not None:
                return kept
            return self._bought(*asked, limit, began, then)

    def _given_again(
        self, question: Question, prepared: Prepared, limit: AgeLimit, began: float
    ) -> Result | None:
        """Answer a question with its stored release; None if it has none."""
        for form, stored in self._kept(question, prepared, limit):
            result = self._presented(*form, stored, limit)
            if result is not None:
                return self._answered(form[1], result, began)
        return None

    def _bought(
        self,
        question: Question,
        prepared: Prepared,
        limit: AgeLimit,
        began: float,
        then: PrivacyLoss,
    ) -> Result:
        """Answer a question with a new release; what is open is found and paid for first.

        It is found in the same run, so that what was read for it need not be read again.
        """
        choices = _open(prepared)
        known = self._known_bounds(choices, limit)
        missing = {
            choice.fingerprint: choice for choice in choices if choice.fingerprint not in known
        }
        before, open_price = ZERO, prepared.price_open
        with (
            self.buyer.begun(_tables_of(prepared), 2 if missing else 1) as run,
            self.buyer.counter(run) as counter,
        ):
            if missing:
                draws = tuple(missing.values())
                bought = self._buy_bounds(question, prepared, draws, limit, then, counter)
                known |= zip(missing, (each.bounds for each in bought if each.bounds), strict=True)
                before = sum((each.loss for each in bought), ZERO)
            question, prepared = self._with_bounds(question, prepared, known)
            try:
                sold = self._buy(question, prepared, limit, then, counter)
            except (BudgetExceeded, QueryRefused) as error:
                limited = isinstance(error, BudgetExceeded) or error.code == "question_too_dear"
                if not (limited and before != ZERO and open_price):
                    raise
                sold = None
            if sold is None:  # room for this was there before the bounds were paid for
                question = replace(question, capped=True)
                prepared = self.preparer.prepare(question)
                sold = self._buy(question, prepared, limit, then, counter)
        return self._answered(prepared, self._sold(prepared, sold, before), began)

    def _buy(
        self,
        question: Question,
        prepared: Prepared,
        limit: AgeLimit,
        then: PrivacyLoss,
        counter: Counter,
    ) -> _Sold:
        """Pay for the answer to a question with known bounds, and read it."""
        fresh = question.fresh or prepared.fresh
        alone = fresh and prepared.combine is not Pooling.ALL
        pool = None if alone else self._poolable(prepared, question, limit)
        known = self._known_estimates(prepared.estimates, limit)
        estimates = _estimates_to_buy(prepared.estimates, known)
        purchase = purchase_of_blocks(
            *(prepared.blocks, prepared.plan, prepared.fingerprint),
            *(question.text, question.values),
            alone=alone,
        )
        marks = {estimate.fingerprint for estimate in estimates}
        prepared.ways.rehearse(marks, self.buyer.waiting)
        to_pay = (*estimates, purchase)
        *beside, charge = self._reserve(question, prepared, limit, to_pay, then=then)
        found = counter.buy((purchase, *estimates))
        return _Sold((charge, *beside), found, estimates, known, pool)

    def _sold(self, prepared: Prepared, sold: _Sold, before: PrivacyLoss) -> Result:
        """Settle the answer to a question, and present it; ``before`` was paid for its bounds."""
        charges, found = sold.charges, sold.found
        if isinstance(found, Failure):
            # Raised outside of any handler, so that not even its context quotes a row.
            error = self._failed(charges, found)
            self.tell(ReadingFailed(self.payer.path, prepared.fingerprint, found.code))
            raise error
        cost, kept = self._settle(prepared, charges, found, before)
        shown = self._pooled(prepared, found[0], sold.pool)
        known = {**sold.known, **_estimates_bought(sold.estimates, found[1:])}
        try:
            return self._present(*shown, cost, known)
        except DataError as error:
            if error.code == "tail_failed" and not kept:
                error.hint = NOT_KEPT
            raise

    def _kept(
        self, question: Question, prepared: Prepared, limit: AgeLimit
    ) -> Iterator[tuple[tuple[Question, Prepared], Stored]]:
        """Yield stored releases of a question, each with the form of the question that has it."""
        if question.fresh or prepared.fresh:
            return
        for form in self._forms(question, prepared):
            stored = self.releases.latest(form[1], limit)
            if stored is not None:
                yield form, stored

    def _after_first(
        self,
        question: Question,
        planned: Prepared,
        parts: Sequence[Question],
        then: PrivacyLoss,
    ) -> Result:
        """Answer a question whose subqueries are answered first, each with its own price.

        The first is paid for where the account can pay for all. None is where a later one, or the
        rest, may not be.
        """
        asked = (planned, *(self.preparer.with_stand_ins(part)[0] for part in parts))
        if any(each.only_released for each in asked):
            released = replace(question.parameters, answer_from=AnswerFrom.RELEASED)
            parts = [replace(part, parameters=released) for part in parts]
        prices = [self._price(part) for part in parts]
        own, costs = planned.plan.reserved_with_estimates + then, []
        for place, planned_part in enumerate(parts):
            part = replace(planned_part, answers=question.answers)
            result = self.answer(part, sum(prices[place + 1 :], own))
            costs.append(result.cost)
            answer = self.preparer.answer_of(part, result.fetchall(), released=True)
            question = replace(question, answers=(*question.answers, answer))
        result = self.answer(question, then)
        result.cost = reduce(Cost.beside, costs, result.cost)
        return result

    def _price(self, question: Question) -> PrivacyLoss:
        """Return the worst case of a question and of its subqueries answered first.

        What the account has a release of is free.
        """
        prepared, parts = self.preparer.with_stand_ins(question)
        if not parts:
            kept = self._kept(question, prepared, self.kept.limit(prepared.max_age))
            if any(self.releases.read(form[1], stored) is not None for form, stored in kept):
                return ZERO
        return sum(map(self._price, parts), prepared.plan.reserved_with_estimates)

    def explain(self, question: Question) -> Explanation:
        """Explain the plan and its price, and whether the ledger has a release to give again."""
        found = self._explanation(question)
        if not found.blocks:
            return found
        if found.price_open and not found.answers_first:
            prepared = self.preparer.prepare(question)
            draws = (each.choice.loss for each in _open(prepared))
            least = sum(draws, self._with_least_bounds(question, prepared).plan.reserved)
            found = replace(found, cheapest=prepared.plan.epsilon(least))
        account = OwnAccount(self.payer, self._ledger)
        amount = Amount.charge(found.reserved)
        taken = share_taken(amount, account.standing().binding)
        whole = "the account's whole budget" if self._ledger is None else "what is left"
        return replace(found, taken=taken, taken_from=whole)

    def _with_answers_kept(
        self, question: Question
    ) -> tuple[Question, Prepared, tuple[Question, ...]]:
        """Put the first answers that the account holds in their places in a question.

        Returns it as it is planned then, with the subqueries that are left.
        """
        prepared, parts = self.preparer.with_stand_ins(question)
        if not parts or self._ledger is None:
            return question, prepared, parts
        part = replace(parts[0], answers=question.answers)
        part, planned, beneath = self._with_answers_kept(part)
        if beneath:
            return question, prepared, parts
        limit = self.kept.limit(planned.max_age)
        for form, stored in self._kept(part, planned, limit):
            result = self._presented(*form, stored, limit)
            if result is not None:
                answer = self.preparer.answer_of(part, result.fetchall(), released=True)
                known = replace(question, answers=(*question.answers, answer))
                return self._with_answers_kept(known)
        return question, prepared, parts

    def _explanation(self, question: Question) -> Explanation:
        """Explain the plan, and whether the ledger has a release of it to give again."""
        question, prepared, parts = self._with_answers_kept(question)
        if parts:
            return self._explained(prepared).after([self._explanation(part) for part in parts])
        if self._ledger is None or not prepared.blocks:
            return self._explained(prepared)
        asked, limit = (question, prepared), self.kept.limit(prepared.max_age)
        _, prepared = self._with_known_bounds(*asked, ANY_AGE)
        given = (self._given(form, ANY_AGE) for _, form in self._forms(*asked))
        before = None if prepared.fresh else next(filter(None, given), None)
        stored = before if before is not None and limit.keeps(before.settled) else None
        if stored is None:  # then bounds that are too old are found anew
            _, prepared = self._with_known_bounds(*asked, limit)
        explanation = self._explained(prepared)
        unpaid = self._unpaid_estimates(prepared, limit)
        if len(unpaid) < len(prepared.estimates):
            losses = [estimate.plan.noise.loss for estimate in unpaid]
            losses += [each.choice.loss for each in _open(prepared)]
            reserved = sum(losses, prepared.plan.reserved)
            epsilon = prepared.plan.epsilon(reserved)
            explanation = replace(explanation, reserved=reserved, reserved_epsilon=epsilon)
        if stored is not None:
            explanation = replace(explanation, answered=stored.settled)
        else:
            if before is not None:
                explanation = replace(explanation, outdated=before.settled, max_age=str(limit.age))
            explanation = self._offering(explanation, *asked, limit)
        noises = [
            [block.noise for block in release.blocks if block.noise is not None]
            for release in self._pooled_with_new(prepared, stored, limit)
        ]
        return with_earlier(explanation, prepared.plan.blocks, noises)

    def _offering(
        self, explanation: Explanation, question: Question, prepared: Prepared, limit: AgeLimit
    ) -> Explanation:
        """Add the roll-up that would answer the question for nothing, if there is one."""
        found = None
        if not prepared.fresh:
            _, found = self._roll_up(question, prepared, limit)
        plans = [] if found is None else [each.block.plan for each in found.blocks]
        settled = None if found is None else found.settled
        return with_roll_up(explanation, settled, plans, only=prepared.only_released)

    def _pooled_with_new(
        self, prepared: Prepared, stored: StoredRelease | None, limit: AgeLimit
    ) -> tuple[StoredRelease, ...]:
        """List the releases that a new release would be pooled with under ``combine``.

        Of what is stored already a new one is asked for with ``fresh``, which takes all or none.
        """
        combine = prepared.combine
        if (stored is not None or prepared.fresh) and combine is Pooling.SERIES:
            if prepared.fresh:
                return ()
            combine = Pooling.ALL
        alike = self.releases.alike(prepared, limit, combine)
        return self.releases.before(prepared, alike, combine=combine)

    def take_estimates(
        self, prepared: Prepared, question: Question, asked: Sequence[PreparedEstimate]
    ) -> tuple[Mapping[str, ReleasedEstimate], Cost]:
        """Release left-out estimates alone, by fingerprint, with their cost; no question is asked.

        Those that the account has a release of cost nothing. The ledger has the question's text
        with each of the others.
        """
        known = self._known_estimates(asked, self.kept.limit(prepared.max_age))
        estimates = _estimates_to_buy(asked, known, question)
        if not estimates:
            return known, FREE
        self._refuse_interrupted()
        self.engine.refuse_changed()
        with self.buyer.begun(_tables_of(prepared)) as run:
            charges = self.till.reserve(estimates)
            found = self.buyer.buy_all(run, estimates)
        if isinstance(found, Failure):
            error = self._failed(charges, found)
            self.tell(ReadingFailed(self.payer.path, None, found.code))
            raise error
        self.till.settle(charges, found)
        loss = sum((each.loss for each in found), ZERO)
        delta = prepared.plan.conversion_delta
        return known | _estimates_bought(estimates, found), Cost(loss, loss, delta)

    def estimates_to_pay(
        self, prepared: Prepared, asked: Sequence[PreparedEstimate]
    ) -> tuple[PreparedEstimate, ...]:
        """List the estimates that the account has no release of: all without a ledger."""
        known: _Estimates = {}
        if self._ledger is not None:
            known = self._known_estimates(asked, self.kept.limit(prepared.max_age))
        missing = {
            estimate.fingerprint: estimate
            for estimate in asked
            if estimate.fingerprint not in known
        }
        return tuple(missing.values())

    def planned(self, question: Question) -> Prepared:
        """Plan a question, to be described. Reads nothing private and costs nothing."""
        return self.preparer.with_stand_ins(question)[0]

    def types_of(self, values: PlaceholderValues) -> dict[str, str | None]:
        """Return the types of query parameters' values in a statement; None for NULL."""
        written = literals(values)
        if not written:
            return {}
        values_sql = join(", ", (Sql(Written(text)) for text in written.values()))
        bound = self.engine.bind(sql("SELECT {}", values_sql))
        named = zip(written.items(), bound, strict=True)
        return {
            name: None if text == "NULL" else str(column.type) for (name, text), column in named
        }

    def budget(self, *, compare: bool = False) -> BudgetReport:
        """Report what the account has spent and has left.

        Raises ``InterfaceError`` without a ledger.
        """
        ledger = self.paying_ledger()
        own, limit = (self.memory.analyst, ledger, self._session), self._limits.epsilon
        return budget_report(self.policy, *own, compare=compare, session_epsilon=limit)

    def accounts(self) -> tuple[AccountReport, ...]:
        """Report the account that pays and the analyst's above it.

        Raises ``InterfaceError`` without a ledger.
        """
        ledger = self.paying_ledger()
        return self.memory.accounts(ledger, self._session, self._limits.epsilon)

    def history(self, limit: int) -> tuple[EarlierQuestion, ...]:
        """List the analyst's latest questions. Raises ``InterfaceError`` without a ledger."""
        return earlier_questions(OwnAccount(self.payer, self.paying_ledger()), limit)

    def interrupt(self) -> None:
        """Interrupt the answer to another thread's question; it fails, and reserves no more."""
        self._interrupted = True
        self._turns.interrupt()
        self.buyer.interrupt()
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

    def _poolable(
        self, prepared: Prepared, question: Question, limit: AgeLimit
    ) -> PooledReleases | None:
        """Find the releases that a new release will be pooled with, before it is paid for."""
        alike = self.releases.alike(prepared, limit)
        return self.releases.pool(question, self.releases.before(prepared, alike))

    def _rolled_up(self, question: Question, prepared: Prepared, limit: AgeLimit) -> Result:
        """Answer from a roll-up of stored releases; refuse the question where there is none."""
        fresh = question.fresh or prepared.fresh
        prepared, found = self._roll_up(question, prepared, limit)
        if found is None or fresh:
            raise nothing_released(fresh=fresh, aged=limit.age is not None)
        return self._present(prepared, found.blocks, self._cost_of_stored(found.settled))

    def _roll_up(
        self, question: Question, prepared: Prepared, limit: AgeLimit
    ) -> tuple[Prepared, RollUp | None]:
        """Find a roll-up of stored releases; of any number of rows where that is open.

        It comes with the question as it is prepared for that number.
        """
        found = self.roll_ups.roll_up(prepared, limit)
        tried = () if found is not None else self.roll_ups.bounds_of(prepared, limit)
        for bounds in tried:
            other = self.preparer.prepare(replace(question, bounds=bounds))
            found = self.roll_ups.roll_up(other, limit)
            if found is not None:
                return other, found
        return prepared, found

    def _cost_of_stored(self, answered: str) -> Cost:
        """Return the cost of a stored release, with the time of its data or their edition."""
        written = None if self.policy.edition else self.engine.written
        outdated = written is not None and written > answered
        return replace(FREE, answered=answered, data_written=written if outdated else None)

    def _pooled(
        self, prepared: Prepared, release: Bought, pool: PooledReleases | None
    ) -> tuple[Prepared, tuple[ReleasedBlock, ...]]:
        """Pool a new release with earlier ones; show it alone where they cannot be pooled."""
        if pool is None or release.pieces is None:
            return prepared, release.blocks
        drawn = decode_release(self.tails.keys, prepared.blocks, release.pieces)
        found = None if drawn is None else self.releases.pooled(pool.with_new(drawn))
        return (prepared, release.blocks) if found is None else (pool.prepared, found)

    def _buy_bounds(
        self,
        question: Question,
        prepared: Prepared,
        missing: Sequence[OpenBounds],
        limit: AgeLimit,
        then: PrivacyLoss,
        counter: Counter,
    ) -> Releases:
        """Pay for bounds, where the account can pay for all of the question.

        Raises ``BudgetExceeded`` where it cannot.
        """
        forms = (
            self._with_any_bounds(question, prepared),
            self._with_least_bounds(question, prepared),
        )
        rests = (
            sum(
                (each.plan.noise.loss for each in self._unpaid_estimates(form, limit, prepared)),
                form.plan.reserved,
            )
            for form in forms
        )
        rest = max(rests, key=lambda loss: Amount.charge(loss).units) + then
        purchases = [purchase_of_bounds(one, question.text, question.values) for one in missing]
        charges = self._reserve(question, prepared, limit, purchases, then=rest)
        found = counter.buy(purchases)
        if isinstance(found, Failure):
            error = self._failed(charges, found)
            self.tell(ReadingFailed(self.payer.path, None, found.code))
            raise error
        self.till.settle(charges, found)
        return found

    def _with_any_bounds(self, question: Question, prepared: Prepared) -> Prepared:
        """Prepare a question with the bounds that are hardest to answer, before any are paid for.

        Those are the largest, for which a maximum error has given way to the epsilon in force.
        Refuses a question that not all could answer.
        """
        hardest = {each.fingerprint: each.choice.most for each in _open(prepared)}
        try:
            return self._with_bounds(replace(question, capped=True), prepared, hardest)[1]
        except (ParameterError, QueryRefused) as error:
            error.hint = _GIVE_BOUNDS
            raise

    def _with_least_bounds(self, question: Question, prepared: Prepared) -> Prepared:
        """Prepare a question with the least bounds, for which a maximum error costs least.

        As it is, if bounds that are to be found do not decide its price.
        """
        if not prepared.price_open:
            return prepared
        least = {each.fingerprint: each.choice.least for each in _open(prepared)}
        return self._with_bounds(question, prepared, least)[1]

    def _known_bounds(
        self, choices: Sequence[OpenBounds], limit: AgeLimit
    ) -> dict[str, FoundBounds]:
        """Find the bounds that the account has chosen before, by fingerprint."""
        found = {}
        for choice in choices:
            kept = self.kept.latest(choice.fingerprint, limit)
            bounds = None if kept is None else decode_bounds(choice, kept.payload)
            if bounds is not None:
                found[choice.fingerprint] = bounds
        return found

    def _known_bounds_of_view(self, choices: Sequence[OpenBounds]) -> dict[str, FoundBounds]:
        """Find the bounds that the account has drawn for a view, by fingerprint."""
        return {} if self._ledger is None else self._known_bounds(choices, ANY_AGE)

    def _given(self, prepared: Prepared, limit: AgeLimit) -> StoredRelease | None:
        """Find the latest release of a question."""
        kept = self.releases.latest(prepared, limit)
        return None if kept is None else self.releases.read(prepared, kept)

    def _with_known_bounds(
        self, question: Question, prepared: Prepared, limit: AgeLimit
    ) -> tuple[Question, Prepared]:
        """Prepare a question with its bounds, if the account knows all of them."""
        known = self._known_bounds(_open(prepared), limit)
        return self._with_bounds(question, prepared, known)

    def _forms(self, question: Question, prepared: Prepared) -> Iterator[tuple[Question, Prepared]]:
        """Yield a question with its known bounds, then with the epsilon in force for its error.

        As that it may have been answered, where its bounds made a maximum error too dear.
        """
        question, known = self._with_known_bounds(question, prepared, ANY_AGE)
        yield question, known
        if prepared.price_open and not known.open_bounds:
            question = replace(question, capped=True)
            yield question, self.preparer.prepare(question)

    def _with_bounds(
        self, question: Question, prepared: Prepared, known: Mapping[str, FoundBounds]
    ) -> tuple[Question, Prepared]:
        """Prepare a question with its bounds; as it is, if some are not known."""
        choices = prepared.open_bounds
        if not choices or not {each.fingerprint for each in _open(prepared)} <= known.keys():
            return question, prepared
        found = [[known[each.fingerprint] for each in of_block] for of_block in choices]
        bounds = tuple(reduce(FoundBounds.beside, each) if each else None for each in found)
        question = replace(question, bounds=bounds)
        return question, self.preparer.prepare(question)

    def _known_estimates(
        self, estimates: Sequence[PreparedEstimate], limit: AgeLimit
    ) -> dict[str, ReleasedEstimate]:
        """Find the stored releases of estimates, which cost nothing."""
        return _estimates_read(estimates, self._kept_estimates(estimates, limit))

    def _kept_estimates(
        self, estimates: Sequence[PreparedEstimate], limit: AgeLimit
    ) -> dict[str, Stored]:
        """Find the stored releases of estimates as the ledger has them, by fingerprint."""
        marks = dict.fromkeys(estimate.fingerprint for estimate in estimates)
        found = {mark: self.kept.latest(mark, limit) for mark in marks}
        return {mark: kept for mark, kept in found.items() if kept is not None}

    def _unpaid_estimates(
        self, prepared: Prepared, limit: AgeLimit, asked: Prepared | None = None
    ) -> tuple[PreparedEstimate, ...]:
        """List the estimates that a question is to pay for, each once.

        A block whose bounds are open, as it was ``asked``, gets others once they are found: no
        release of those for other bounds says that they are known.
        """
        known = self._known_estimates(prepared.estimates, limit)
        unpaid = {
            estimate.fingerprint: estimate
            for block, before in zip(prepared.blocks, (asked or prepared).blocks, strict=True)
            for estimate in block.estimates
            if before.open_bounds or estimate.fingerprint not in known
        }
        return tuple(unpaid.values())

    def _reserve(
        self,
        question: Question,
        prepared: Prepared,
        limit: AgeLimit,
        purchases: Sequence[Purchase[Bought]],
        then: PrivacyLoss = ZERO,
    ) -> tuple[Charge, ...]:
        """Charge the worst case of purchases of a question before any private row is read.

        Estimates go before it, as all of their price can be given back: if what is left does not
        allow the question, nothing is spent. ``then`` is what the account must have beside.
        """
        self._refuse_interrupted()
        self.engine.refuse_changed()
        refuse_late()
        asked = sum((each.reserved for each in purchases), self.reserved)
        self._refuse_dear(asked + then, prepared)
        try:
            charges = self.till.reserve(purchases, then=then)
        except BudgetExceeded as error:
            _, found = self._roll_up(question, prepared, limit)
            error.hint = _ROLL_UP if found else _affordable(prepared, error) or error.hint
            raise
        self.reserved = asked
        return charges

    def _refuse_interrupted(self) -> None:
        """Refuse to reserve more for a statement that was interrupted between two steps."""
        if self._interrupted:
            raise EngineError("the query was interrupted", code="interrupted")

    def _refuse_dear(self, asked: PrivacyLoss, prepared: Prepared) -> None:
        """Refuse a statement whose worst case is more than a question of the session may cost.

        ``asked`` is all of it, with what the statement has reserved before.
        """
        most = self._limits.epsilon_per_question
        price = asked.epsilon_at(prepared.plan.conversion_delta)
        # A price is rounded up: that of a question at the limit is a little above.
        if most is not None and not price <= most * _ROUNDED_UP:
            usual = min(block.plan.block.parameters.epsilon for block in prepared.blocks)
            hint = (
                f"Ask with epsilon = {figure_below(_FITS * usual * most / price)}, or ask for "
                "fewer aggregates."
            )
            if any(error_targets(block.plan.block) for block in prepared.blocks):
                within = prepared.within(_share_worth(asked, prepared, most))
                hint = (
                    "Ask for a larger max_error."
                    if within is None
                    else (f"The limit buys less: {within}. Ask for a larger max_error.")
                )
            raise QueryRefused(
                f"the question would cost up to epsilon {figure_above(price)}, and a question of "
                f"this session at most {significant(most)}",
                code="question_too_dear",
                hint=hint,
            )

    def _settle(
        self,
        prepared: Prepared,
        charges: Sequence[Charge],
        found: Sequence[Bought],
        before: PrivacyLoss,
    ) -> tuple[Cost, bool]:
        """Commit the cost of a question and its estimates, and store their releases in one write.

        ``before`` is what was paid for its bounds. Tells whether the question's
        release could be kept.
        """
        kept = self.till.settle(charges, found)
        beside = sum((each.loss for each in found[1:]), before)
        paid, loss = prepared.plan.reserved + beside, found[0].loss + beside
        return Cost(paid, loss, prepared.plan.conversion_delta), kept

    def _presented(
        self, question: Question, prepared: Prepared, stored: Stored, limit: AgeLimit
    ) -> Result | None:
        """Present the answer from a release that was paid for at some time, as it was given then.

        That is together with those before it, as far as these are not too old. None for a release
        that is of another format, or of other blocks.
        """
        estimates = self._kept_estimates(prepared.estimates, limit)
        alike = self.releases.alike(prepared, limit)
        cost = self._cost_of_stored(stored.settled)
        made_of = GivenAnswer.of(prepared, (stored, *alike, *estimates.values()), cost)
        known = self.memory.answers.get(made_of)
        if known is not None:
            shown, answer = known
            return for_another_reader(answer, partial(self._explained, shown))
        release = self.releases.read(prepared, stored)
        if release is None:
            return None
        pool = self.releases.pool(question, self.releases.before(prepared, alike, release))
        found = None if pool is None else self.releases.pooled(pool.with_new(release.blocks))
        if pool is None or found is None:
            shown, found = prepared, release.blocks
        else:
            shown = pool.prepared
        answer = self._present(shown, found, cost, _estimates_read(prepared.estimates, estimates))
        self.memory.answers.keep(made_of, question, shown, answer)
        return answer

    def _present(
        self,
        prepared: Prepared,
        released: tuple[ReleasedBlock, ...],
        cost: Cost,
        estimates: _Estimates = MappingProxyType({}),
    ) -> Result:
        """Run the tail over what was released."""
        query = prepared.query
        released = tuple(map(with_null_groups_told, released))
        answer = self.tails.runner.run(query, released, prepared.names)
        counts = tuple(each.rows.count for each in released)
        plans = tuple(each.block.plan for each in released)
        uniform = tuple(
            release_kind(each.block.plan).uniform(each.rows.values) for each in released
        )
        left_out = tuple(each.left_out for each in released)
        totals = tuple(each.totals for each in released)
        result = Result(
            answer,
            partial(self._explained, prepared),
            cost,
            AnswerNoise(
                query.outputs,
                query.computed,
                *(query.hidden, plans, counts, uniform, left_out, totals),
                tuple(self._caveats_beforehand(prepared)),
            ),
            _evidence(prepared, estimates),
            partial(_advice, tuple(zip(plans, counts, strict=True)), prepared.terms),
        )
        result.of_views = any(isinstance(each, PublishedView) for each in query.public_tables)
        return result

    def _caveats_beforehand(self, prepared: Prepared) -> Iterator[Caveat]:
        """Yield what readers must know of the clock, and of the bounds of views."""
        if prepared.clock is not None and prepared.blocks:
            yield clock_read(prepared.clock.text)
        if prepared.first:
            yield answered_first(prepared.first)
        if prepared.of_some_groups:
            yield of_some_groups(prepared.of_some_groups)
        for source in prepared.query.public_tables:
            for found in self.views.bounds_of(source) if isinstance(source, PublishedView) else ():
                yield view_bounds(str(source.table.name), found.words, told=found.told)

    def _columns_alone(self, prepared: Prepared) -> Result:
        """Present the columns of a statement without rows (``WHERE false``): nothing runs."""
        columns = prepared.shown
        nothing = HeldAnswer([c.name for c in columns], [c.type for c in columns], [])
        return Result(nothing, lambda: self._explained(prepared))

    def _answered(self, prepared: Prepared, result: Result, began: float) -> Result:
        """Report an answer's cost and duration to the observer."""
        fingerprint = prepared.fingerprint if prepared.blocks else None
        seconds = time.monotonic() - began
        self.tell(QuestionAnswered(self.payer.path, fingerprint, result.cost, seconds))
        return result

    def _explained(self, prepared: Prepared) -> Explanation:
        """Return the plan, and how much work it may be."""
        explanation = prepared.explain()
        if not explanation.blocks:
            return explanation
        bought = delta_buys(self.payer, Amount.charge(explanation.reserved))
        return replace(explanation, limits=self.policy.limits, delta_buys=bought)

    # -- failures -----------------------------------------------------------------------------

    def _failed(self, charges: Sequence[Charge], failure: Failure) -> EngineError:
        """Build the analyst's error for a failure, after the ledger has recorded it."""
        kept = "What it had reserved stays spent."
        return self.buyer.failed(failure, kept, partial(self.till.fail, charges))


def _tables_of(prepared: Prepared) -> set[TableName]:
    """Return the tables that the private blocks of a question read."""
    sources = (block.plan.block.source for block in prepared.blocks)
    return {name for source in sources for name in scanned(source.rows)}


def _estimates_read(
    estimates: Sequence[PreparedEstimate], kept: Mapping[str, Stored]
) -> dict[str, ReleasedEstimate]:
    """Read stored releases of estimates; those of another format are left out."""
    found = {}
    for estimate in estimates:
        stored = kept.get(estimate.fingerprint)
        known = None if stored is None else decode_estimate(estimate, stored.payload)
        if known is not None:
            found[estimate.fingerprint] = known
    return found


def _estimates_to_buy(
    estimates: Sequence[PreparedEstimate], known: _Estimates, question: Question | None = None
) -> tuple[Purchase[Bought], ...]:
    """List estimates without a release, each once; ``question`` is kept with them."""
    missing = {
        estimate.fingerprint: estimate
        for estimate in estimates
        if estimate.fingerprint not in known
    }
    asked = () if question is None else (question.text, question.values)
    return tuple(purchase_of_estimate(estimate, *asked) for estimate in missing.values())


def _estimates_bought(
    estimates: Sequence[Purchase[Bought]], bought: Sequence[Bought]
) -> dict[str, ReleasedEstimate]:
    """Return the bought releases of estimates by fingerprint."""
    pairs = zip(estimates, bought, strict=True)
    return {
        estimate.fingerprint: each.estimate for estimate, each in pairs if each.estimate is not None
    }


def _share_worth(asked: PrivacyLoss, prepared: Prepared, most: float) -> float:
    """Return the largest share of a loss that is worth no more than an epsilon, nearly."""
    low, high = 0.0, 1.0
    for _ in range(30):
        share = (low + high) / 2
        part = replace(asked, epsilon=asked.epsilon * share, rho=asked.rho * share)
        if prepared.plan.epsilon(part) <= most:
            low = share
        else:
            high = share
    return low


def _affordable(prepared: Prepared, error: BudgetExceeded) -> str | None:
    """Word the ε, or the error, that the rest of the account still buys; None if it buys none."""
    if error.remaining is None or error.remaining[1] < error.requested[1]:
        return None
    share = error.remaining[0] / error.requested[0]
    if not 0 < share < 1:
        return None
    if prepared.price_open:
        return (
            "an answer at the epsilon in force must be affordable before bounds are found: SET a "
            "smaller epsilon, or ask for a larger max_error"
        )
    within = prepared.within(share)
    if within is not None:
        return f"what is left allows less: {within}. Ask for a larger max_error"
    if any(error_targets(block.plan.block) for block in prepared.blocks):
        return None
    plan = prepared.plan
    price, part = plan.reserved_with_estimates, share * _FITS
    whole = plan.epsilon(price)
    fits = plan.epsilon(replace(price, epsilon=price.epsilon * part, rho=price.rho * part)) / whole
    given = min(block.plan.block.parameters.epsilon for block in prepared.blocks)  # to each block
    return (
        f"it reserves ε {significant(whole, 3)}; what is left is enough with "
        f"epsilon = {figure_below(fits * given)}"
    )


def _open(prepared: Prepared) -> list[OpenBounds]:
    """List the draws of the bounds that a question is to find first."""
    return [each for of_block in prepared.open_bounds for each in of_block]


def _evidence(prepared: Prepared, estimates: _Estimates) -> LeftOutEvidence:
    """Collect the evidence of all released estimates on what bounding left out."""
    return {
        (number, estimate.plan.subject): EstimateEvidence(known.noise, known.release)
        for number, block in enumerate(prepared.blocks)
        for estimate in block.estimates
        if (known := estimates.get(estimate.fingerprint)) is not None
    }


def _advice(
    came_out: Sequence[tuple[BlockPlan, int]], terms: PlanningTerms, drowned: Sequence[int | None]
) -> str:
    """Word the settings that would have made an answer say more, for newly released blocks."""
    outcomes = [
        CameOut(plan, released, index)
        for (plan, released), index in zip(came_out, drowned, strict=True)
        if release_kind(plan).drawn
    ]
    return advice(outcomes, terms.replan, terms.most)

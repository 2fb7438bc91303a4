"""The materialized views of one account: creating, refreshing, dropping and reading them.

A view is paid for when it is created, once and in full. :meth:`Views.refresh` is the story of a
step: it is marked as used before anything is read, its rows are counted in the private state, what
comes out is stored before it is shown. Whatever stops it, the step is never read again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from dpsql.budget.payer import Payer, delta_buys
from dpsql.core.progress import Percent
from dpsql.core.schema import Table, fold
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import (
    ArrowStream,
    Engine,
    PrivateSource,
    Reads,
    Scratch,
)
from dpsql.errors import (
    EngineError,
    InterfaceError,
    LedgerError,
    ParameterError,
    QueryRefused,
    UnknownName,
)
from dpsql.ir.plan import OpenBounds
from dpsql.ir.relations import PublishedView, scanned
from dpsql.kinds.bounds_choice import read_weights
from dpsql.ledger import Ledger, StepTicket, StreamRecord
from dpsql.pipeline.buyer import Buyer, Failure
from dpsql.pipeline.events import (
    Observer,
    ReadingFailed,
    StepFailed,
    StepPublished,
    ViewCreated,
)
from dpsql.pipeline.purchase import Bought, Purchase, PurchaseReader, purchase_of_bounds
from dpsql.pipeline.tail.rooms import Stay
from dpsql.pipeline.till import Till
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import Overrides, suggestion
from dpsql.policy.resolve import resolve
from dpsql.privacy.accounting.zcdp import ZERO, Amount
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.results.explanation import Explanation
from dpsql.sql.rewrite.rewrite import SteppedSQL
from dpsql.views.definition import (
    Factoring,
    ViewBounds,
    ViewDefinition,
    read_definition,
    read_options,
)
from dpsql.views.drawing import draw_step
from dpsql.views.explain import explain_view
from dpsql.views.noise import ViewNoise
from dpsql.views.planning import optimised
from dpsql.views.prepare import PreparedView, ViewPreparer, with_drawn
from dpsql.views.publication import GroupTexts, StepRelease, packed, unpacked
from dpsql.views.rows import ViewRows, view_rows
from dpsql.views.state import ViewState
from dpsql.views.steps import ViewSteps

_STREAM_ID: Final = re.compile(r"[0-9a-f]{32}")
_AT_ONCE: Final = 32  # steps that are begun together: as many are lost if the process is killed


@dataclass(frozen=True, slots=True)
class View:
    """An existing view: its record in the ledger, and its definition.

    ``shared`` is True for a view of another account that all may read.
    """

    record: StreamRecord
    definition: ViewDefinition
    fingerprint: str
    shared: bool

    @property
    def name(self) -> str:
        """Its name, as it was written when it was created."""
        return self.definition.name

    @property
    def published(self) -> int:
        """How many of its steps are published."""
        return len(self.record.published)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The outcome of a refresh: the published steps, and the number of steps left."""

    view: str
    steps: tuple[int, ...]
    rows: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtStep(Bought):
    """The release of a step, which is paid already, and its kept bytes."""

    pieces: Iterable[bytes]
    release: StepRelease


@dataclass(slots=True)
class _Work:
    """The parts of a refresh; without noise where groups are chosen.

    ``listed`` are the groups that the last step shows.
    """

    view: View
    prepared: PreparedView
    state: ViewState
    noise: ViewNoise | None
    listed: tuple[GroupTexts, ...]

    def keep(self) -> None:
        """Store the noise that later steps build on, for the next refresh."""
        kept = None if self.noise is None else self.noise.kept()
        if kept is not None:
            self.state.keep_noise(kept)


class _StepRows:
    """The rows of some steps: read at once if there are several."""

    def __init__(self, preparer: ViewPreparer, view: PreparedView, steps: range) -> None:
        self._preparer, self._view, self._steps = preparer, view, steps
        self._scratch: Scratch | None = None
        self._sql: SteppedSQL | None = None

    def read(self, source: PrivateSource, held: ExitStack, step: int) -> ArrowStream:
        """Read the contributions of units up to a step's end, for pairs that the step may change.

        What is stored of the rows is there until ``held`` is left.
        """
        reads = Reads(scanned(self._view.plan.block.source.rows))
        if len(self._steps) == 1:
            return source.over(reads).pairs(self._preparer.contributions(self._view, step))
        if self._scratch is None or self._sql is None:
            self._sql = self._preparer.stepped(self._view, self._steps[0], self._steps[-1])
            self._scratch = held.enter_context(source.over(reads).scratch())
            self._scratch.store(self._sql.table, self._sql.rows)
        return self._scratch.pairs(self._sql.by_step[self._steps.index(step)])


@dataclass(eq=False)
class Views:
    """The views that one account may create, refresh and read. Not safe for threads."""

    _engine: Engine
    _policy: Policy
    _ledger: Callable[[], Ledger]
    _payer: Payer
    _till: Till
    _buyer: Buyer
    _place: Path | None
    _preparer: ViewPreparer
    _bounds_known: Callable[[Sequence[OpenBounds]], dict[str, FoundBounds]]
    _progress: Percent
    _tell: Observer

    def __post_init__(self) -> None:
        self._state: ViewState | None = None  # that counts them
        self._prepared: dict[str, PreparedView] = {}
        self._made: WeakKeyDictionary[Stay, dict[str, tuple[str, int]]] = WeakKeyDictionary()

    # -- statements ---------------------------------------------------------------------------

    def define(
        self, name: str, text: str, options: Mapping[str, object], *given: Overrides
    ) -> PreparedView:
        """Plan a view that may be created. Nothing is read, and nothing paid.

        Raises what refuses a query or an option, and ``ParameterError`` (``name_taken``).
        """
        found, privacy = read_options(options)
        self._refuse_others()
        if self._policy.table(name) is not None:
            raise ParameterError(
                f"there is a table {name[:60]} already",
                code="name_taken",
                hint="Choose another name for the view.",
            )
        time = self._preparer.time_of(text)
        steps = ViewSteps(found.period, found.start, found.count, time.zone)
        parameters = resolve(self._policy, *given, Overrides.of(privacy))
        buffers = optimised(steps.count) if found.factoring is Factoring.BLT else None
        definition = ViewDefinition(
            name,
            text,
            steps,
            found.window,
            found.factoring,
            parameters,
            buffers,
            found.mechanism,
            found.choices,
        )
        view = self._preparer.prepare(definition, self._account(self._payer.analyst), _now())
        known = self._bounds_known(view.bounds)
        open_ = [each for each in view.bounds if each.fingerprint not in known]
        return view if open_ or not view.bounds else self._with_drawn(view, known)

    def explain(self, view: PreparedView) -> Explanation:
        """Explain the cost of a view, and the noise of its steps."""
        explanation = explain_view(view, self._preparer.text(view))
        bought = delta_buys(self._payer, Amount.charge(view.loss))
        return replace(explanation, limits=self._policy.limits, delta_buys=bought)

    def create(self, view: PreparedView) -> PreparedView:
        """Pay for a view, and make its private state. Only open bounds are drawn from rows before.

        Returns the view with its bounds. The charge comes first: a state that nobody paid for is
        never there, and one that is not made any more, as the process was killed, is made by the
        first refresh. Raises ``BudgetExceeded``, ``LedgerError`` (``ledger_stream_exists``), and
        ``EngineError`` where no state can be made, or rows cannot be read.
        """
        self._sweep()
        self._rehearse(view, range(1, 2))
        self._rehearse(view, range(1, 1 + min(_AT_ONCE, view.plan.definition.steps.count)))
        stream = secrets.token_hex(16)
        place = self._state_of(stream)
        ViewState.require_room(place)
        if view.bounds:
            view = self._with_drawn(view, self._drawn(view))
        definition = view.plan.definition
        self._till.pay_stream(
            *(view.plan.loss, view.fingerprint),
            name=fold(definition.name),
            stream=stream,
            plan=definition.record(view.fingerprint),
        )
        with suppress(EngineError):  # the first refresh makes it, or says why it cannot
            ViewState.create(place, stream, view.shape)
        self._tell(ViewCreated(self._payer.path, stream))
        return view

    def _drawn(self, view: PreparedView) -> dict[str, FoundBounds]:
        """Draw the unknown bounds of a view, if the account can pay for all of the view.

        They are kept: whatever stops it then, another attempt has them for nothing.
        """
        definition = view.plan.definition
        if fold(definition.name) in {s.name for s in self._ledger().streams(self._payer.path)}:
            raise LedgerError(
                "the account has a stream of this name",
                code="ledger_stream_exists",
                hint="Choose another name, or drop the view first.",
            )
        known = self._bounds_known(view.bounds)
        missing = [each for each in view.bounds if each.fingerprint not in known]

        def read(source: PrivateSource) -> None:
            for choice in missing:
                read_weights(source, choice)

        self._engine.rehearse(read)
        self._engine.refuse_changed()
        purchases = [purchase_of_bounds(choice, definition.text, ()) for choice in missing]
        with self._buyer.begun(scanned(view.plan.block.source.rows)) as run:
            charges = self._till.reserve(purchases, then=view.plan.loss)
            found = self._buyer.buy_all(run, purchases)
        if isinstance(found, Failure):
            kept = "What it had reserved stays spent, and there is no view."
            error = self._buyer.failed(found, kept, partial(self._till.fail, charges))
            self._tell(ReadingFailed(self._payer.path, None, found.code))
            raise error
        self._till.settle(charges, found)
        bounds = (each.bounds for each in found if each.bounds is not None)
        marks = (choice.fingerprint for choice in missing)
        return known | dict(zip(marks, bounds, strict=True))

    def _with_drawn(self, view: PreparedView, known: Mapping[str, FoundBounds]) -> PreparedView:
        account = self._account(self._payer.analyst)
        found = reduce(FoundBounds.beside, (known[each.fingerprint] for each in view.bounds))
        return self._preparer.prepare(with_drawn(view, found), account)

    def refresh(self, name: str, until: datetime | None = None) -> Refreshed:
        """Publish every step that has closed and is not used yet, in order.

        ``until``: only the steps that end by then, a wall time in the view's zone. Raises
        ``InterfaceError`` (``no_step_closed``) if there is none, ``QueryRefused``
        (``view_not_allowed``, ``view_changed``) where the policy ends the view, ``EngineError`` and
        ``LedgerError``; what was published before stays.
        """
        self._sweep()
        view = self._own(name)
        self._refuse_others()
        prepared = self.plan_of(view)
        steps, first = view.definition.steps, view.record.begun + 1
        last = steps.closed(_now())
        if until is not None:
            last = min(last, sum(steps.end(t) <= until for t in range(1, last + 1)))
        if last < first:
            raise _nothing_to_do(view, first)
        self._engine.refuse_changed()
        place, memory = self._state_of(view.record.stream), self._policy.limits.memory
        if not view.record.begun and not ViewState.is_there(place):
            self._make_state(place, view.record.stream, prepared)
        published: list[int] = []
        rows = 0
        with ViewState.open(place, view.record.stream, prepared.shape, memory) as state:
            # Nobody else refreshes it from here on, and somebody may have until now.
            view = self._now_of(view.record.stream, view.name)
            first = self._first(view, state)
            if last < first:
                raise _nothing_to_do(view, first)
            numbers, noise = range(first, last + 1), None
            if not prepared.plan.mechanism.chooses:
                noise = ViewNoise(prepared.plan, state.keys, state.kept_noise())
            work = _Work(view, prepared, state, noise, self._listed(view))
            with closing(self._published(work, numbers)) as releases:
                for release in releases:
                    rows += len(release.groups)
                    published.append(release.step)
                    self._progress(100 * len(published) // len(numbers))
        return Refreshed(view.name, tuple(published), rows, steps.count - last)

    def _make_state(self, place: Path, stream: str, view: PreparedView) -> None:
        """Make the state of a paid view that has begun no step.

        Nothing is lost with one that was there: keys are drawn, and rows counted, after the first
        step was begun.
        """
        try:
            ViewState.create(place, stream, view.shape)
        except EngineError:
            if not ViewState.is_there(place):  # by now, as somebody else has made it
                raise

    def drop(self, name: str) -> None:
        """End a view: its published steps and private state are deleted; nothing is refunded."""
        view = self._own(name)
        self._ledger().drop_stream(view.record.account, view.record.stream)
        self._prepared.pop(view.record.stream, None)
        self._sweep()

    def _sweep(self) -> None:
        """Remove the private states of views that have ended: by a statement, killed or not.

        Or by the owner, who has nothing but the ledger. Of all accounts: one that was renamed, or
        is no more in the policy, may ask for nothing any more.
        """
        if self._place is None or not self._place.is_dir():
            return
        found = (_STREAM_ID.match(each.name.lstrip(".")) for each in self._place.iterdir())
        streams = dict.fromkeys(each[0] for each in found if each is not None)
        for stream in self._ledger().ended_streams(tuple(streams)):
            ViewState.remove(self._state_of(stream))

    def all(self) -> list[View]:
        """List the views that the account may read, its own first; each name once."""
        own = [self._payer.path, self._payer.analyst]
        shared = [f"{self._policy.dataset}/{name}" for name in self._policy.views.shared]
        found: dict[str, View] = {}
        ledger = self._ledger()
        for path in dict.fromkeys([*own, *shared]):
            for record in ledger.streams(path) if path in own else _of_another(ledger, path):
                definition, fingerprint = read_definition(record.plan)
                view = View(record, definition, fingerprint, shared=path not in own)
                found.setdefault(fold(view.name), view)
        return list(found.values())

    def listed(self) -> list[View]:
        """List the readable views, to show them: drawn bounds are released."""
        self._sweep()
        found = self.all()
        for view in found:
            if view.shared and view.definition.drawn is not None:
                self._ledger().note_read(self._payer.analyst, view.record.stream)
        return found

    def named(self, name: str) -> View:
        """Find the view of that name. Raises ``UnknownName`` (``unknown_view``)."""
        views = {fold(view.name): view for view in self.all()}
        found = views.get(fold(name))
        if found is None:
            raise _unknown(name, views)
        return found

    def plan_of(self, view: View) -> PreparedView:
        """Return the plan of a view, which must be the plan of its creation.

        Its parameters must be allowed by the policy of today, too. Raises ``QueryRefused``
        (``view_changed``) where the policy or a table is another now.
        """
        stream = view.record.stream
        if stream not in self._prepared:
            account = self._account(view.record.account)
            try:
                found = self._preparer.prepare(view.definition, account)
            except (QueryRefused, ParameterError) as refusal:  # it could be created once
                raise _changed(view, f"Now it is refused: {refusal.reason}. ") from refusal
            if found.fingerprint != view.fingerprint:
                raise _changed(view, "")
            self._prepared[stream] = found
        return self._prepared[stream]

    def interrupt(self) -> None:
        """End what the state of a view is doing. For other threads to call."""
        state = self._state
        if state is not None:
            state.interrupt()

    # -- reading what was published -----------------------------------------------------------

    def tables(self) -> Mapping[str, PublishedView]:
        """Return all views that the policy still allows, by their names' keys."""
        found: dict[str, PublishedView] = {}
        for view in self.all():
            try:
                shown = self.plan_of(view).shown
            except (QueryRefused, UnknownName, ParameterError):  # the policy is another now
                continue
            table = Table(view.name, shown)
            found[table.name.key] = PublishedView(table, view.record.stream)
        return found

    def load(self, source: PublishedView, stay: Stay) -> None:
        """Make the table of a view in a room, as it is published now."""
        view = self._shown(source.stream, str(source.table.name))
        version = source.stream, len(view.record.published)
        made = self._made.setdefault(stay, {})
        if made.get(source.table.name.key) != version:
            self.rows(view).make(source, stay)
            made[source.table.name.key] = version

    def _shown(self, stream: str, name: str) -> View:
        """Return a view as it is now, of which something is shown next.

        That it was read is on record from then on, if it is another account's.
        """
        view = self._now_of(stream, name)
        if view.shared:
            self._ledger().note_read(self._payer.analyst, stream)
        return view

    def _now_of(self, stream: str, name: str) -> View:
        """Return a view as it is now. Raises ``UnknownName`` if it was dropped since."""
        found = next((v for v in self.all() if v.record.stream == stream), None)
        if found is None:
            raise _unknown(name, ())
        return found

    def of_name(self, name: TableName) -> View | None:
        """Return the view of a name without a table; None without a view."""
        return next((view for view in self.all() if TableName(view.name) == name), None)

    def figures(
        self, source: PublishedView, column: str, confidence: float | None
    ) -> list[float] | None:
        """Tell the noise of a view's column by step, up to the last that is published.

        The half-width of its intervals at a confidence, or the standard deviation without one; None
        for what is not one noisy measure.
        """
        view = self._shown(source.stream, str(source.table.name))
        prepared, last = self.plan_of(view), view.record.begun
        found = next((c for c in prepared.columns if c.name == column), None)
        if found is None or found.aggregate is None:
            return None
        figures = prepared.plan.figures(found.aggregate, confidence)
        return None if figures is None else figures[:last]

    def bounds_of(self, source: PublishedView) -> tuple[ViewBounds, ...]:
        """List the bounds of a view that nobody gave."""
        view = self._shown(source.stream, str(source.table.name))
        return tuple(view.definition.bounds_in_words(self.plan_of(view).plan.block))

    def rows(self, view: View) -> ViewRows:
        """Return all published rows of a view."""
        return view_rows(self.plan_of(view), self._releases(view, 0))

    def _releases(self, view: View, after: int) -> Iterator[StepRelease]:
        plan = self.plan_of(view).plan
        ledger = self._ledger()
        for step, parts in ledger.step_releases(view.record.account, view.record.stream, after):
            yield unpacked(plan, step, parts)

    # -- a step -------------------------------------------------------------------------------

    def _published(self, work: _Work, steps: range) -> Generator[StepRelease, None, None]:
        """Use steps, some at a time: mark them, read their rows, publish one after the other."""
        record = work.view.record
        tables = scanned(work.prepared.plan.block.source.rows)
        self._state = work.state
        try:
            for first in range(steps.start, steps.stop, _AT_ONCE):
                numbers = range(first, min(first + _AT_ONCE, steps.stop))
                self._rehearse(work.prepared, numbers)
                rows = _StepRows(self._preparer, work.prepared, numbers)
                purchases = [
                    Purchase(record.stream, ZERO, record.plan, partial(self._step, work, rows, n))
                    for n in numbers
                ]
                with self._buyer.begun(tables, len(numbers)) as run:
                    # None of them is ever begun again, whatever stops this.
                    tickets = self._till.begin(record.account, record.stream, numbers)
                    with closing(self._buyer.buy(run, purchases)) as bought:
                        for ticket, found in zip(tickets, bought, strict=True):
                            yield self._settled(work.view, ticket, numbers, found)
        finally:
            self._state = None
        work.keep()

    def _rehearse(self, view: PreparedView, numbers: range) -> None:
        """Have the statements of some steps read before these are begun. Sends none of them."""
        rows = _StepRows(self._preparer, view, numbers)

        def read(source: PrivateSource) -> None:
            with ExitStack() as held:
                for step in numbers:
                    rows.read(source, held, step)

        self._engine.rehearse(read)

    def _step(self, work: _Work, rows: _StepRows, step: int, reader: PurchaseReader) -> BoughtStep:
        """Read a step, absorb its rows, and draw its release."""
        state, plan = work.state, work.prepared.plan
        with state.within(self._policy.limits.seconds):
            state.absorb(step, rows.read(reader.source, reader.held, step))
            totals = state.totals(step)
            release = draw_step(plan, step, totals, state, work.noise, work.listed)
            pieces = packed(release)
        work.listed = release.groups
        return BoughtStep(ZERO, pieces=pieces, release=release)

    def _settled(
        self, view: View, ticket: StepTicket, steps: range, found: BoughtStep | Failure
    ) -> StepRelease:
        """Publish the release of a step; a failed step raises a code and nothing else."""
        if isinstance(found, Failure):
            raise self._failed(view, ticket, steps, found)
        self._ledger().publish_step(ticket, found.pieces)
        self._tell(StepPublished(ticket.account, ticket.stream, ticket.step))
        return found.release

    def _first(self, view: View, state: ViewState) -> int:
        """Find the step that comes next for the ledger and for the state.

        Raises ``EngineError`` (``state_behind``) for a state that lacks what was published: it was
        put back, and would count anew what units have contributed.
        """
        read, published = state.read_steps, view.record.published
        if published and published[-1].step > read:
            raise EngineError(
                f"the private state of the view {view.name} is older than its published steps",
                code="state_behind",
                hint="It was restored from a backup. Drop the view, and create another.",
            )
        # A ledger that was put back does not know all steps that were read: they stay used.
        return max(view.record.begun, read) + 1

    def _failed(
        self, view: View, ticket: StepTicket, steps: range, failure: Failure
    ) -> EngineError:
        kept = f"Step {ticket.step} is used, and stays empty; what it read counts in later ones."
        if steps[-1] > ticket.step:
            kept = f"Steps {ticket.step} to {steps[-1]} are used, and stay empty; later ones count."
        error = self._buyer.failed(failure, kept, partial(self._till.fail, [ticket]))
        told = ticket.stream, ticket.step, failure.code
        self._tell(StepFailed(view.record.account, *told))
        return error

    def _listed(self, view: View) -> tuple[GroupTexts, ...]:
        """Return the groups that the last published step shows."""
        if not view.record.published:
            return ()
        last = view.record.published[-1].step
        (release,) = self._releases(view, last - 1)
        return release.groups

    def _refuse_others(self) -> None:
        """Refuse accounts that may not have views of their own, or no longer."""
        allowed = self._policy.views.create
        account = self._payer.analyst.rpartition("/")[2]
        if allowed is not None and account not in allowed:
            raise QueryRefused(
                f"the account {account} may not create or refresh materialized views",
                code="view_not_allowed",
                hint="The owner says who may: `views: {create: […]}` in the policies file.",
            )

    # -- what a view is -----------------------------------------------------------------------

    def _own(self, name: str) -> View:
        view = self.named(name)
        if view.shared:
            raise InterfaceError(
                f"the view {view.name} belongs to another account",
                code="view_of_another",
                hint="It is refreshed and dropped by the account that created it.",
            )
        return view

    def _account(self, path: str) -> AccountPolicy:
        """Return the account that a path belongs to: dataset, analyst, session."""
        return self._policy.account(path.split("/")[1])

    def _state_of(self, stream: str) -> Path:
        if self._place is None:
            raise InterfaceError(
                "it is not said where the private state of views is kept",
                code="state_not_placed",
                hint="It lies beside the database's file. For an engine without one, the policies "
                "file names a directory: `views: {directory: …}`.",
            )
        if not _STREAM_ID.fullmatch(stream):  # it comes from the ledger, and names a directory
            raise LedgerError(
                "the ledger holds a view of an impossible name",
                code="ledger_corrupt",
                hint="run `dpsql budget verify`, and restore the ledger from a backup",
            )
        return self._place / stream


def _of_another(ledger: Ledger, path: str) -> tuple[StreamRecord, ...]:
    """Return the views that an account shares; none for an account under its old name."""
    try:
        return ledger.streams(path)
    except LedgerError as error:
        if error.code != "account_renamed":
            raise
        return ()


def _unknown(name: str, known: Iterable[str]) -> UnknownName:
    return UnknownName(
        f"there is no materialized view {name[:60]}",
        code="unknown_view",
        hint=suggestion(name, tuple(known)) or "SHOW MATERIALIZED VIEWS lists them.",
    )


def _changed(view: View, why: str) -> QueryRefused:
    return QueryRefused(
        f"the policy or the tables of the view {view.name} have changed",
        code="view_changed",
        hint=f"{why}What it promises was priced under the former ones: drop it, create another.",
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _nothing_to_do(view: View, first: int) -> InterfaceError:
    steps = view.definition.steps
    if first > steps.count:
        return InterfaceError(
            f"the view {view.name} is full: all of its {steps.count:,} steps are used",
            code="view_full",
            hint="Create another view that starts where this one ends.",
        )
    return InterfaceError(
        f"no further step of the view {view.name} has closed",
        code="no_step_closed",
        hint=f"Step {first} closes at {steps.end(first):%Y-%m-%d %H:%M} ({steps.zone}).",
    )

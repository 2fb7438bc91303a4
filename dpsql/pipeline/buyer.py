"""Reads the private rows of purchases, and words the error where a reading fails.

Whatever fails there may have failed because of what rows hold, an error of ours too. So nothing of
it is told but a code.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from dpsql.core.progress import Percent
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine, Run
from dpsql.errors import EngineError
from dpsql.kinds.staged import StagedRows, Stages
from dpsql.ledger import Cause
from dpsql.pipeline.purchase import Bought, Purchase, PurchaseReader
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.policy.limits import ResourceFailures
from dpsql.policy.model import Policy
from dpsql.privacy.sampling.noise import EntropySource, OSEntropy

_B = TypeVar("_B", bound=Bought)


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a reading or a release: the code of the analyst's error, and nothing else."""

    code: str


Releases: TypeAlias = tuple[Bought, ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """Where purchases are bought in one run, which ends with the first failure."""

    _purchases: list[Purchase[Bought]]
    _bought: Iterator[Bought | Failure]

    def buy(self, purchases: Sequence[Purchase[Bought]]) -> Releases | Failure:
        """Return the releases of all purchases, or the failure of one."""
        self._purchases.extend(purchases)
        found = []
        for each in islice(self._bought, len(purchases)):
            if isinstance(each, Failure):
                return each
            found.append(each)
        return tuple(found)


@dataclass(eq=False)
class Buyer:
    """Buys for one account, in one run at a time. Not safe for threads."""

    _engine: Engine
    _policy: Policy
    _analyst: str
    _dialect: Dialect
    _keys: KeySpelling
    _progress: Percent

    def __post_init__(self) -> None:
        self.entropy: EntropySource = OSEntropy()
        self._run: Run | None = None  # that reads private rows at this moment
        self._stopped: Exception | None = None  # what the listener to the progress raised
        self._stages: Stages | None = None  # of that run

    @contextmanager
    def begun(self, tables: Iterable[TableName], times: int = 1) -> Iterator[Run]:
        """Lend a run over some tables, which stay as they are until it is over.

        It has the time of so many questions. Raises ``InterfaceError`` if tables are not what they
        were: nothing is reserved by then.
        """
        seconds = self._policy.limits.seconds
        run = self._engine.run(None if seconds is None else seconds * times)
        run.begin(tables)
        try:
            yield run
        finally:
            run.release()

    def buy(
        self, run: Run, purchases: Sequence[Purchase[_B]]
    ) -> Generator[_B | Failure, None, None]:
        """Yield the releases of purchases, one after the other, up to the first failure.

        Others may be added while it waits: they are read in the same run. Raises what the listener
        to the progress raised.
        """
        self._stopped = None
        self._run = run
        try:
            with run, ExitStack() as held:
                reader = PurchaseReader(
                    *(run, self._dialect, self.entropy, self._keys),
                    *(self._report_progress, purchases, held),
                )
                self._stages = reader.stages
                for purchase in purchases:
                    found = purchase.release(reader)
                    with run.paused():  # the ledger's time, and that of planning, is not the run's
                        yield found
            return
        except Exception as error:
            if error is self._stopped:
                raise
            failure = Failure(failure_code(error, expired=run.expired))
        finally:
            self._run = self._stages = None
        yield failure  # outside of any handler, so that not even a context quotes a row

    @property
    def waiting(self) -> tuple[StagedRows, ...]:
        """The stages stored in the present run, for the blocks bought next."""
        return () if self._stages is None else self._stages.waiting

    @contextmanager
    def counter(self, run: Run) -> Iterator[Counter]:
        """Open a run for several purchases, the later ones chosen by the results of the earlier."""
        purchases: list[Purchase[Bought]] = []
        with closing(self.buy(run, purchases)) as bought:
            yield Counter(purchases, bought)

    def buy_all(self, run: Run, purchases: Sequence[Purchase[Bought]]) -> Releases | Failure:
        """Return the releases of all purchases, or the failure of one."""
        with self.counter(run) as counter:
            return counter.buy(purchases)

    def failed(
        self, failure: Failure, kept: str, suspend: Callable[[Cause], object]
    ) -> EngineError:
        """Build the analyst's error for a failure, after ``suspend`` has recorded it in the ledger.

        ``kept`` says what stays spent. The account is suspended if the failure may tell of rows.
        """
        cause = suspending_cause(self._policy, failure.code)
        if cause is not None:
            suspend(cause)
        suspended = None if cause is None else self._analyst
        return failure_error(self._policy, failure.code, kept, suspended)

    def interrupt(self) -> None:
        """Stop the statement that reads private rows now. For other threads to call."""
        run = self._run
        if run is not None:
            run.interrupt()

    def _report_progress(self, percent: int) -> None:
        try:
            self._progress(percent)
        except Exception as error:
            self._stopped = error
            raise


_CAUSES = {
    "engine_failed": Cause.ENGINE,
    "time_limit": Cause.TIME,
    "memory_limit": Cause.MEMORY,
}


def failure_code(error: Exception, *, expired: bool) -> str:
    """Return a failure's code, by the kind of the error alone; ``expired`` if time was over."""
    if isinstance(error, MemoryError):
        return "memory_limit"
    if not isinstance(error, EngineError):
        return "engine_failed"  # an error of ours, for reasons that rows may have
    return "time_limit" if expired and error.code == "interrupted" else error.code


def suspending_cause(policy: Policy, code: str) -> Cause | None:
    """Return the cause for which a failure suspends the account; None if it does not.

    One failure may tell something of the rows, a second must not. What the caller interrupted tells
    nothing; of limits that were met, the policy decides.
    """
    keeps = policy.limits.resource_failures is ResourceFailures.KEEP
    if code == "interrupted" or (code != "engine_failed" and keeps):
        return None
    return _CAUSES.get(code, Cause.ENGINE)


def failure_error(policy: Policy, code: str, kept: str, suspended: str | None) -> EngineError:
    """Build the error that tells the analyst of a failure, in fixed words.

    ``kept`` says what stays spent; ``suspended`` is the account that is suspended now, if one is.
    """
    if suspended is not None:
        kept += (
            f" The account {suspended} gets no answer to a new question until the owner has "
            f"looked and reopens it: dpsql budget owner reopen {suspended}"
        )
    match code:
        case "interrupted":
            reason = "the query was interrupted"
        case "time_limit":
            seconds = f"{policy.limits.seconds:g}"
            reason = f"the query ran into the policy's limit of {seconds} seconds"
        case "memory_limit":
            reason = "the query ran into the limit of memory"
        case _:
            code, reason = "engine_failed", EngineError.FIXED_REASON
    return EngineError(reason, code=code, hint=kept)

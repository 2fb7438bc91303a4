"""Data of one's own as the source of a shell: database, policies, ledger and analyst."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from dpsql import present as render
from dpsql.budget import OwnAccount, payer
from dpsql.budget.payer import policy_budget
from dpsql.core.data_files import is_address, shown_address
from dpsql.core.formatting import significant
from dpsql.core.progress import Percent
from dpsql.dbapi.connection import Connection, connect
from dpsql.engines.opening import DatabasePlace, open_engine, place_name
from dpsql.interfaces.shell.cancel import Work
from dpsql.interfaces.shell.candidates import Nameable
from dpsql.interfaces.shell.costs import Balance, Price, balance, price
from dpsql.interfaces.shell.past import charges_table
from dpsql.interfaces.shell.source import ShellSource
from dpsql.ledger import Ledger
from dpsql.policy.ledger_place import announcement, is_url, place_beside, without_password
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.present.budget_files import budget_json
from dpsql.present.result_files import explanation_json
from dpsql.privacy.accounting.zcdp import Budget
from dpsql.results.reading import ReadableAnswer
from dpsql.results.result import Result


@dataclass(frozen=True, slots=True)
class DataTarget:
    """A database to connect to, with policies, ledger and analyst."""

    database: DatabasePlace
    policies: Path
    ledger: str
    analyst: str
    session: str = ""
    settings: Path | None = None

    @property
    def name(self) -> str:
        """A short name of the database."""
        return place_name(self.database)

    def opened(self, progress: Percent) -> AbstractContextManager[OpenData]:
        """Open it, closed at the end. Raises as :func:`dpsql.connect` does."""
        return _opened(self, progress)


class OpenData(ShellSource):
    """Open data of one's own: ``account`` is what the analyst may see of the ledger."""

    def __init__(
        self,
        target: DataTarget,
        connection: Connection,
        policy: Policy,
        account: OwnAccount,
        budget: Budget,
        work: Work,
    ) -> None:
        self._target = target
        self.connection: Connection = connection
        self._policy = policy
        self._account = account
        self._budget = budget
        self.work = work

    @property
    def name(self) -> str:
        """A short name of the database."""
        return self._target.name

    @property
    def payer(self) -> str:
        """The analyst, and the session where there is one."""
        session = self._target.session
        return f"{self._target.analyst}/{session}" if session else self._target.analyst

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._policy.dataset

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """Database, policies, ledger and settings."""
        target = self._target
        return target.database, target.policies, target.ledger, target.settings

    @property
    def news(self) -> str:
        """Where the ledger is, if it was created."""
        return announcement(self._target.ledger) if self.connection.ledger_created else ""

    def facts(self) -> list[tuple[str, str]]:
        """List database, dataset, account, policies and ledger; addresses without a password."""
        target = self._target
        at = target.database
        ledger = without_password(target.ledger) if is_url(target.ledger) else target.ledger
        return [
            ("database", shown_address(at) if is_address(at) else str(at)),
            ("dataset", self.dataset),
            ("account", self.payer),
            ("policies", str(target.policies)),
            ("ledger", ledger),
        ]

    def names(self) -> Nameable:
        """Collect the names that the policy gives."""
        return Nameable.of(self._policy, self.connection.schema)

    def balance(self) -> Balance:
        """Read where the account stands in the ledger."""
        return balance(self._account, self._budget)

    def price(self, text: str) -> Price | None:
        """Price a query; None for one that costs nothing."""
        explanation = self.connection.explain(text)
        free = explanation.answered is not None or explanation.only_released
        if not explanation.blocks or free:
            return None
        return price(explanation, self.balance())

    def explained(self, text: str, as_json: bool) -> RenderableType:
        """Explain a query, at no cost."""
        found = self.connection.explain(text)
        return explanation_json(found) + "\n" if as_json else render.explanation_panel(found)

    def budget(self, as_json: bool) -> RenderableType:
        """Show spending and rest of the account."""
        report = self.connection.budget()
        return budget_json(report) + "\n" if as_json else render.budget_panel(report)

    def history(self, limit: int) -> RenderableType:
        """List the latest charges, with what they paid."""
        entries = self._account.history(limit)
        if not entries:
            return Text("Nothing was charged yet.")
        return charges_table(entries, self._account.payer.limits[-1].limit)

    def paid(self, answer: ReadableAnswer) -> str:
        """Word what an answer cost."""
        if not isinstance(answer, Result) or not answer.released:
            return ""
        if answer.rolled_up:
            return "from what was released, free, "
        if answer.cost.stored:
            return "given before, free, "
        return f"ε {significant(answer.cost.settled_epsilon, 3)} paid, "


@contextmanager
def _opened(target: DataTarget, progress: Percent) -> Iterator[OpenData]:
    policy = _with_views_placed(load_policy(target.policies), target.database)
    account = policy.account(target.analyst)
    with closing(open_engine(target.database)) as database:

        def told(percent: int) -> None:
            work.check()
            progress(percent)

        with (
            connect(
                database,
                policy,
                target.ledger,
                target.analyst,
                session=target.session,
                progress=told,
            ) as connection,
            Ledger.open(target.ledger) as ledger,
        ):
            work = Work(connection.interrupt)
            own = OwnAccount(payer(policy, target.analyst, target.session), ledger)
            yield OpenData(target, connection, policy, own, policy_budget(account), work)


def _with_views_placed(policy: Policy, database: DatabasePlace) -> Policy:
    """Set where private states of views lie: an engine that is handed over names no file."""
    place = place_beside(database, policy.views.directory)
    if place is None:
        return policy
    return replace(policy, views=replace(policy.views, directory=str(place)))

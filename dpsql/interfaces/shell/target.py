"""The target of a shell: a connection and its parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpsql.budget import OwnAccount, payer
from dpsql.budget.payer import policy_budget
from dpsql.core.data_files import is_address, shown_address
from dpsql.core.progress import Percent
from dpsql.core.schema import Schema
from dpsql.dbapi.connection import Connection, connect
from dpsql.engines.opening import DatabasePlace, open_engine, place_name
from dpsql.interfaces.shell.cancel import Work
from dpsql.ledger import Ledger
from dpsql.policy.ledger_place import place_beside
from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy
from dpsql.privacy.accounting.zcdp import Budget


@dataclass(frozen=True, slots=True)
class Target:
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

    @property
    def shown_database(self) -> str:
        """The database's path, or its address without a password."""
        return shown_address(self.database) if is_address(self.database) else str(self.database)

    @property
    def files(self) -> tuple[str | Path | None, ...]:
        """The target's own files: no answer may be written over one of them."""
        return self.database, self.policies, self.ledger, self.settings


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """An open target: ``account`` is what the analyst may see of the ledger.

    ``budget`` is what the policy gives the analyst; ``work`` runs queries.
    """

    target: Target
    connection: Connection
    policy: Policy
    schema: Schema
    account: OwnAccount
    budget: Budget
    work: Work


@contextmanager
def open_target(target: Target, progress: Percent) -> Iterator[OpenTarget]:
    """Open a source, closed at the end. Raises as :func:`dpsql.connect` does."""
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
            budget = policy_budget(account)
            yield OpenTarget(target, connection, policy, connection.schema, own, budget, work)


def _with_views_placed(policy: Policy, database: DatabasePlace) -> Policy:
    """Set where private states of views lie: an engine that is handed over names no file."""
    place = place_beside(database, policy.views.directory)
    if place is None:
        return policy
    return replace(policy, views=replace(policy.views, directory=str(place)))

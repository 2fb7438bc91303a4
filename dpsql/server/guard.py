"""Who may come in, and what is opened to them: users and accounts, the same for all doors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpsql.core.schema import fold
from dpsql.errors import InterfaceError, NotSupportedError
from dpsql.server.people.lockout import Lockout, LoginAttempt
from dpsql.server.people.records import Login, Role
from dpsql.server.people.scram import ScramExchange, login_failed
from dpsql.server.people.users import Users
from dpsql.service.session import Dataset, Session

ACCOUNT_SETTING: Final = "dpsql.account"


@dataclass(frozen=True, slots=True)
class Knock:
    """A login by SCRAM that is under way."""

    exchange: ScramExchange
    attempt: LoginAttempt
    login: Login | None

    @property
    def wait(self) -> float:
        """The seconds after which the answer is given, whatever it is."""
        return self.attempt.wait


@dataclass(frozen=True, slots=True)
class Admitted:
    """Whoever has logged in, the account that pays, and a session of it."""

    login: Login
    account: str
    session: Session


class Guard:
    """Decides on logins, and opens sessions. Safe for threads."""

    def __init__(self, dataset: Dataset, users: Users, lockout: Lockout | None = None) -> None:
        self._dataset = dataset
        self._users = users
        self._lockout = lockout or Lockout()

    @property
    def dataset_name(self) -> str:
        """The name of the dataset behind the doors."""
        return self._dataset.policy.dataset

    def knock(self, user: str, address: str, binding: bytes | None) -> Knock:
        """Begin a login by SCRAM; ``binding`` is the hash of the certificate, where there is TLS.

        Raises ``login_failed`` for an address that has failed too often.
        """
        attempt = self._lockout.begin(user, address)
        found = self._users.credential(user)
        exchange = ScramExchange(found.verifier, allowed=found.login is not None, binding=binding)
        return Knock(exchange, attempt, found.login)

    def failed(self, knock: Knock) -> None:
        """Count a login that has failed."""
        self._lockout.failed(knock.attempt)

    def admit(self, knock: Knock, database: str, settings: Mapping[str, str]) -> Admitted:
        """Open a session for a login that has succeeded.

        ``database`` is the name that the client gives, its user's if it gives none; ``settings``
        are those of its startup. Raises a ``dpsql.Error`` for what it may not have.
        """
        login = knock.login
        if login is None or not knock.exchange.succeeded:
            raise login_failed()
        policy = self._dataset.policy
        if fold(database) not in (fold(policy.dataset), fold(knock.attempt.user)):
            raise InterfaceError(
                "there is no dataset of this name",
                code="unknown_dataset",
                hint=f"The dataset here is {policy.dataset}.",
            )
        account = self._account(login, settings.get(ACCOUNT_SETTING))
        self._users.record_use(login)
        return Admitted(login, account, self._dataset.session(account))

    def _account(self, login: Login, asked: str | None) -> str:
        """Choose the account that pays: by the client's wish, or the usual one of the login."""
        if Role.ANALYST not in login.roles:
            raise NotSupportedError(
                "only analysts may ask questions",
                code="not_allowed",
                hint="An owner of the server gives users the role analyst, and accounts.",
            )
        if asked is None:
            return login.accounts[0]
        if asked not in login.accounts:
            raise NotSupportedError(
                "this user may not use the account",
                code="not_allowed",
                hint=f"Accounts of this login: {', '.join(login.accounts)}.",
            )
        return asked

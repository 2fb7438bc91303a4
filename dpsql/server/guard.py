"""Who may come in, and what is opened to them: users and accounts, the same for all doors."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dpsql.agents.runs import AGENT_RIGHTS, run_limits
from dpsql.core.formatting import printable
from dpsql.core.remembered import Remembered
from dpsql.core.schema import fold
from dpsql.errors import Error, InterfaceError, NotSupportedError, OperationalError
from dpsql.pipeline.events import Observer, SessionEvent
from dpsql.policy.model import AgentPolicy
from dpsql.server.audit import AuditLog
from dpsql.server.people.lockout import Lockout, LoginAttempt
from dpsql.server.people.records import (
    ALL_SCOPES,
    MOST_NAME,
    WIRE_SEPARATOR,
    Login,
    Role,
    TokenScope,
    named_roles,
)
from dpsql.server.people.scram import ScramExchange, login_failed
from dpsql.server.people.users import Users
from dpsql.server.tally import Tally
from dpsql.service.rights import NO_LIMITS, Right, SessionLimits
from dpsql.service.session import Dataset, Session

if TYPE_CHECKING:
    from dpsql.server.people.sign_on import SignOn, SignOnSettings

ACCOUNT_SETTING: Final = "dpsql.account"
HTTP: Final = "http"
POSTGRESQL: Final = "postgresql"
"""The doors, as counts name them."""
_SIGN_ON: Final = "sign-on"  # no token's run has this name: that ends with a time
_MOST_KNOWN: Final = 1_000
"""How many tokens are known again while the users are the same."""
_RIGHTS: Final[Mapping[TokenScope, frozenset[Right]]] = MappingProxyType(
    {
        TokenScope.EXPLAIN: frozenset({Right.SET}),
        TokenScope.ASK: frozenset({Right.SET, Right.ASK}),
        TokenScope.VIEWS: frozenset({Right.SET, Right.CREATE_VIEWS, Right.REFRESH_VIEWS}),
        TokenScope.AGENT: AGENT_RIGHTS,
    }
)


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
class TokenKnock:
    """A login by a token alone that is under way.

    It fails where ``login`` is None.
    """

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
    """Decides on logins, and opens sessions. Safe for threads.

    Logins, and what is asked in sessions, are written to the audit log.
    """

    def __init__(
        self,
        dataset: Dataset,
        users: Users,
        audit: AuditLog,
        tally: Tally,
        lockout: Lockout | None = None,
        sign_on: SignOn | None = None,
    ) -> None:
        self._dataset = dataset
        self._users = users
        self._audit = audit
        self._tally = tally
        self._lockout = lockout or Lockout()
        self._sign_on = sign_on
        self._key = secrets.token_bytes(32)
        self._known: Remembered[bytes, tuple[int, Login]] = Remembered(_MOST_KNOWN, _MOST_KNOWN)

    def serve(self, dataset: Dataset) -> None:
        """Serve another edition of the dataset, to all who are in already as well.

        Those who ask something at present go over once they are answered. Blocks until then.
        Raises ``InterfaceError`` (``unknown_dataset``) for a dataset of another name, whose
        accounts are others, and ``OperationalError`` where the audit log cannot be written.
        """
        before = self._dataset
        if dataset.policy.dataset != before.policy.dataset:
            raise InterfaceError(
                f"the policies are those of another dataset, {printable(dataset.policy.dataset)}",
                code="unknown_dataset",
                hint=f"A server of {before.policy.dataset} goes on with that: start another one.",
            )
        dataset.follow(before)
        self._audit.write("edition", edition=f"{dataset.edition}")
        self._dataset = dataset
        before.replace_by(dataset)

    def close(self) -> None:
        """Close the dataset that is served."""
        self._dataset.close()

    @property
    def dataset(self) -> Dataset:
        """The dataset that is served at present."""
        return self._dataset

    @property
    def sign_on(self) -> SignOnSettings | None:
        """Whose tokens are taken beside the server's own, if any are."""
        return None if self._sign_on is None else self._sign_on.settings

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

    def knock_by_token(self, secret: str, address: str) -> TokenKnock:
        """Begin a login by a token, the server's own or an issuer's, and count it if it fails.

        Who fails is counted by address and by the token that was tried: no user is named, and none
        can be kept out. Raises ``login_failed`` for an address that has failed too often, and
        ``sign_on_unavailable`` where an issuer's token cannot be checked now.
        """
        tried = self._tried(secret)
        attempt = self._attempt(tried, address)
        try:
            version = self._users.version()  # before the token is looked up
            login = self._login_of(secret)
            if login.until is None:
                self._known.keep(tried, (version, login), 1)
            return TokenKnock(attempt, login)
        except OperationalError as error:
            if error.code == "sign_on_unavailable":
                raise
            self._lockout.failed(attempt)
            self._tally.count("logins", HTTP, "failed")
            self._note_refusal(attempt, "login_failed")
            return TokenKnock(attempt, None)

    def knock_again(self, secret: str, address: str) -> TokenKnock | None:
        """Begin a login by a token that was good before; None if the users have changed since.

        It may have expired: that is told by the session that it opens, or by
        :meth:`require_current`. Takes microseconds. Raises ``login_failed`` for an address that has
        failed too often.
        """
        tried = self._tried(secret)
        known = self._known.get(tried)
        if known is None or known[0] != self._users.version():
            return None
        return TokenKnock(self._attempt(tried, address), known[1])

    def _tried(self, secret: str) -> bytes:
        """Hash a token by a key of this process: what is logged does not help to guess it."""
        return hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")

    def _attempt(self, tried: bytes, address: str) -> LoginAttempt:
        return self._lockout.begin(f"token {tried.hex()[:16]}", address)

    def _login_of(self, secret: str) -> Login:
        if self._sign_on is None or not self._sign_on.takes(secret):
            return self._users.check_token(secret)
        found = self._sign_on.checked(secret)
        return self._users.signed_on(found.user, found.until)

    def authorize(self, knock: TokenKnock, roles: frozenset[Role]) -> Login:
        """Return the login of a token that has one of these roles.

        A token whose scopes are limited is good for what analysts do alone. Raises
        ``login_failed`` for a token that is none, and ``NotSupportedError`` (``not_allowed``).
        """
        login = knock.login
        if login is None:
            raise login_failed()
        limited = Role.ANALYST in login.roles and login.scopes != ALL_SCOPES
        if roles.isdisjoint(login.roles) or (limited and Role.ANALYST not in roles):
            self._note_refusal(knock.attempt, "not_allowed")
            names = " or ".join(named_roles(roles))
            raise NotSupportedError(
                f"this is for the role {names}",
                code="not_allowed",
                hint="An owner of the server gives users their roles.",
            )
        self._tally.count("logins", HTTP, "ok")
        return login

    def failed(self, knock: Knock) -> None:
        """Count a login that has failed."""
        self._lockout.failed(knock.attempt)
        self._tally.count("logins", POSTGRESQL, "failed")
        self._note_refusal(knock.attempt, "login_failed")

    def admit(self, knock: Knock, database: str, settings: Mapping[str, str]) -> Admitted:
        """Open a session for a login that has succeeded.

        ``database`` is the name that the client gives, its user's if it gives none; ``settings``
        are those of its startup. Raises a ``dpsql.Error`` for what it may not have.
        """
        login = knock.login
        if login is None or not knock.exchange.succeeded:
            raise login_failed()
        try:
            self._require_dataset(knock.attempt.user, database)
        except Error as error:
            self._note_refusal(knock.attempt, error.code)
            raise
        found = self._opened(knock.attempt, login, settings.get(ACCOUNT_SETTING))
        self._tally.count("logins", POSTGRESQL, "ok")
        return found

    def admit_by_token(
        self,
        knock: TokenKnock,
        account: str | None,
        observer: Observer | None = None,
        parameters: Mapping[str, Any] = MappingProxyType({}),
    ) -> Admitted:
        """Open a session for a token, which pays from an account; None is its usual one.

        ``parameters`` are privacy parameters for all questions of the session.

        Raises ``login_failed``, and ``NotSupportedError`` for what it may not have.
        """
        if knock.login is None:
            raise login_failed()
        return self._opened(knock.attempt, knock.login, account, observer, parameters)

    def admit_agent(
        self,
        knock: TokenKnock,
        account: str | None,
        limits: SessionLimits,
        observer: Observer | None = None,
    ) -> Admitted:
        """Open a session of a token's own run, whose account is below the one chosen.

        Raises as :meth:`admit_by_token` does.
        """
        if knock.login is None:
            raise login_failed()
        return self._opened(knock.attempt, knock.login, account, observer, limits=limits)

    def account_of(self, knock: TokenKnock, asked: str | None) -> str:
        """Choose the account of a token's requests. Raises as :meth:`admit_by_token` does."""
        if knock.login is None:
            raise login_failed()
        return self._chosen(knock.attempt, knock.login, asked)

    def account_to_fill(self, knock: TokenKnock, asked: str | None) -> str:
        """Choose the account that a token may ask more budget for.

        Raises as :meth:`admit_by_token` does, and ``NotSupportedError`` (``not_allowed``) for a
        token that asks no questions: owners read requests as words of a person.
        """
        self.require_current(knock)
        assert knock.login is not None, "only who is let in is current"
        if TokenScope.ASK not in knock.login.scopes:
            self._note_refusal(knock.attempt, "not_allowed")
            raise NotSupportedError(
                "this token may not ask for more budget",
                code="not_allowed",
                hint="Use a token with the scope ask.",
            )
        return self.account_of(knock, asked)

    def _chosen(self, attempt: LoginAttempt, login: Login, asked: str | None) -> str:
        try:
            return self._account(login, asked)
        except Error as error:
            self._note_refusal(attempt, error.code)
            raise

    def require_current(self, knock: TokenKnock) -> None:
        """Refuse a token that was good when it came, and is not any more."""
        if knock.login is None:
            raise login_failed()
        self._require_current(knock.attempt, knock.login)

    def _require_current(self, attempt: LoginAttempt, login: Login) -> None:
        """Refuse who was let in and may not come in any more: a body or a turn can take long."""
        try:
            self._users.require_current(login)
        except OperationalError as error:
            self._note_refusal(attempt, error.code)
            raise

    def _opened(
        self,
        attempt: LoginAttempt,
        login: Login,
        asked: str | None,
        observer: Observer | None = None,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        limits: SessionLimits | None = None,
    ) -> Admitted:
        """Open a session; of the token's run where there are ``limits``, or its scope says so."""
        self._require_current(attempt, login)
        account = self._chosen(attempt, login, asked)
        dataset, run = self._dataset, ""
        rights = frozenset[Right]().union(*(_RIGHTS[scope] for scope in login.scopes))
        if limits is None and TokenScope.AGENT in login.scopes:
            # Nobody can be asked for a yes at a door for people.
            found = dataset.policy.agent(account, AgentPolicy())
            limits = run_limits(found, found.confirm_above)
        who = {"session": secrets.token_hex(8), "user": login.user, "account": account}
        if limits is not None:
            rights, run = rights & AGENT_RIGHTS, run_of(login)
            who["run"] = run
        more: dict[str, object] = {"token": login.token}
        more |= {"scopes": sorted(scope.value for scope in login.scopes)}
        if login.until is not None and self._sign_on is not None:
            more["issuer"] = self._sign_on.settings.issuer
        self._audit.write("login", **who, **more, address=attempt.address)
        self._users.record_use(login)
        audited = self._audit.observer(**who)

        def both(event: SessionEvent) -> None:
            audited(event)
            self._tally.observe(event)
            if observer is not None:
                observer(event)

        session = dataset.session(
            account,
            session=run,
            observer=both,
            rights=rights,
            limits=limits or NO_LIMITS,
            **parameters,
        )
        return Admitted(login, account, session)

    def _note_refusal(self, attempt: LoginAttempt, code: str) -> None:
        with suppress(OperationalError):  # it is refused in any case
            user = printable(attempt.user, MOST_NAME)
            self._audit.write("login_refused", user=user, address=attempt.address, code=code)

    def _require_dataset(self, user: str, database: str) -> None:
        policy = self._dataset.policy
        if fold(database) not in (fold(policy.dataset), fold(user)):
            raise InterfaceError(
                "there is no dataset of this name",
                code="unknown_dataset",
                hint=f"The dataset here is {policy.dataset}.",
            )

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


def run_of(login: Login) -> str:
    """Name the account of a token's own; one that is issued later has another.

    Users may share an account, and have tokens of one name that were issued at once. All tokens of
    another issuer are one run of their user: a new one every few minutes would be a new run each.
    """
    if login.issued is None:
        return f"{login.user}{WIRE_SEPARATOR}{_SIGN_ON}"
    issued = f"{datetime.fromtimestamp(login.issued, UTC):%Y-%m-%d %H.%M.%S}"
    return f"{login.user}{WIRE_SEPARATOR}{login.token} {issued}"

"""The users of a server and their tokens, kept in a file; and who a login would be.

One enrolment writes what every door needs: a SCRAM verifier for PostgreSQL's wire, an argon2 hash
for the web. Of a token, its SHA-256 and a SCRAM verifier are stored: it has 256 random bits, and
nothing slower is needed. What no user may learn is who else exists, so a name that nobody has is
answered with made-up values, at the same work.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import sqlite3
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dpsql.core.formatting import printable
from dpsql.core.names import look_alikes
from dpsql.core.remembered import Remembered
from dpsql.errors import InterfaceError, ParameterError
from dpsql.server.people.budget_requests import BudgetRequests
from dpsql.server.people.passwords import hash_password, matches_hash, require_good_password
from dpsql.server.people.records import (
    WIRE_SEPARATOR,
    Credential,
    IssuedToken,
    Login,
    Role,
    Token,
    TokenScope,
    User,
    fold_name,
    require_name,
    require_scope,
    require_scopes,
)
from dpsql.server.people.scram import (
    USUAL_ITERATIONS,
    ScramVerifier,
    login_failed,
    require_iterations,
)
from dpsql.server.people.user_file import UserFile, create_user_file

ISSUED_PREFIX: Final = "dpsql_"
"""How every token begins, so that programs which look for leaked secrets find it."""

_SECRET: Final = 32
_USER: Final = "SELECT name, roles, accounts, disabled, created, changed FROM users"
_ISSUED: Final = (
    "SELECT t.user, t.name, t.roles, t.accounts, t.scopes, t.created, t.expires, t.revoked,"
    " t.last_used"
    " FROM tokens t"
)
# What a login needs of a user, and the same of a token.
_BY_NAME: Final = (
    "SELECT verifier, hash, roles, accounts, disabled, NULL, roles, accounts, 0, NULL, NULL, NULL,"
    " NULL"
    " FROM users WHERE name = ?"
)
_BY_ISSUED: Final = (
    "SELECT t.verifier, u.hash, u.roles, u.accounts, u.disabled, t.name, t.roles, t.accounts,"
    " t.revoked, t.expires, t.scopes, t.created, t.digest, u.name FROM tokens t"
    " JOIN users u ON u.name = t.user WHERE"
)


_MOST_KNOWN: Final = 1_000
"""How many logins are known to be the same while the file is."""


def _now() -> datetime:
    return datetime.now(UTC)


class Users:
    """The users in a file. May be shared by threads, and the file by processes."""

    def __init__(self, path: str | Path, *, clock: Callable[[], datetime] = _now) -> None:
        """Open the file at ``path``. Raises ``InterfaceError`` (``users_missing`` and others)."""
        self._clock = clock
        self._file = UserFile(Path(path))
        self._current: Remembered[Login, tuple[int, float]] = Remembered(_MOST_KNOWN, _MOST_KNOWN)
        self._used: Remembered[Login, int] = Remembered(_MOST_KNOWN, _MOST_KNOWN)
        self.requests = BudgetRequests(self._file, clock)
        """Requests of users for more budget, which are in the same file."""
        ((self._secret, self.iterations, self._no_hash),) = self._file.read(
            "SELECT secret, iterations, no_hash FROM settings"
        )

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        iterations: int = USUAL_ITERATIONS,
        clock: Callable[[], datetime] = _now,
    ) -> Users:
        """Create a file without users and open it; all its verifiers have these iterations.

        Raises ``InterfaceError`` for a place that cannot be written or where a file is, and where
        argon2-cffi is not installed; ``ParameterError`` for iterations out of range.
        """
        require_iterations(iterations)
        values = (secrets.token_bytes(_SECRET), iterations, hash_password(secrets.token_bytes(32)))

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO settings VALUES (1, ?, ?, ?)", values)

        create_user_file(Path(path), fill)
        return cls(path, clock=clock)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- users ------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        password: str | bytes,
        roles: Iterable[Role] = (Role.ANALYST,),
        accounts: Iterable[str] = (),
    ) -> User:
        """Enrol a user. Raises ``ParameterError``, and ``InterfaceError`` (``user_exists``).

        A name that looks like another user's is taken, too.
        """
        name = require_name(name, "user")
        found, named = require_scope(roles, accounts)
        require_good_password(name, password)
        secret = (self._verifier(password), hash_password(password))
        now = self._seconds()
        with self._file.writing() as write:
            names = [each for (each,) in self._file.read("SELECT name FROM users")]
            self._require_free(name, names)
            values = (name, *_stored(found, named), *secret, now, now)
            write(
                "INSERT INTO users (name, roles, accounts, verifier, hash, created, changed)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        return self.user(name)

    def user(self, name: str) -> User:
        """Return a user. Raises ``InterfaceError`` (``unknown_user``)."""
        rows = self._file.read(f"{_USER} WHERE name = ?", (_key(name),))
        if not rows:
            raise InterfaceError(
                f"there is no user {printable(name)}",
                code="unknown_user",
                hint="`dpsql user list` shows all of them.",
            )
        return _user(rows[0])

    def users(self) -> tuple[User, ...]:
        """Return all users, by name."""
        return tuple(map(_user, self._file.read(f"{_USER} ORDER BY name")))

    def set_password(self, name: str, password: str | bytes) -> User:
        """Give a user another password. Tokens stay as they are."""
        name = self.user(name).name
        require_good_password(name, password)
        secret = (self._verifier(password), hash_password(password))
        return self._change(name, "verifier = ?, hash = ?", secret)

    def assign(self, name: str, roles: Iterable[Role], accounts: Iterable[str]) -> User:
        """Give a user other roles and accounts; a token keeps those of its own that remain."""
        return self._change(
            name, "roles = ?, accounts = ?", _stored(*require_scope(roles, accounts))
        )

    def disable(self, name: str) -> User:
        """Refuse a user's logins from now on, with a password and with every token."""
        return self._change(name, "disabled = ?", (1,))

    def enable(self, name: str) -> User:
        """Let a disabled user log in again."""
        return self._change(name, "disabled = ?", (0,))

    # -- tokens -----------------------------------------------------------------------------------

    def issue_token(
        self,
        user: str,
        name: str,
        *,
        roles: Iterable[Role] | None = None,
        accounts: Iterable[str] | None = None,
        scopes: Iterable[TokenScope] | None = None,
        expires: datetime | None = None,
    ) -> IssuedToken:
        """Create a token of a user: of all present roles and accounts, or of some of them.

        ``scopes`` limit what it is good for.

        A revoked or expired token of the same name is replaced. Raises ``InterfaceError``
        (``unknown_user``, ``token_exists``) and ``ParameterError``, such as for a scope that the
        user does not have.
        """
        owner, name = self.user(user), require_name(name, "token")
        scope = _token_scope(owner, roles, accounts)
        allowed = require_scopes(scope[0], scopes)
        if expires is not None and expires <= self._clock():
            raise ParameterError(
                "the token would have expired already",
                code="bad_expiry",
                hint="Give a time to come, or none.",
            )
        secret = ISSUED_PREFIX + urlsafe_b64encode(secrets.token_bytes(_SECRET)).decode().rstrip(
            "="
        )
        kept = (_digest(secret), self._verifier(secret), *_stored(*scope), _words(allowed))
        ends = None if expires is None else int(expires.timestamp())
        with self._file.writing() as write:
            if any(
                known.name == name and known.is_valid(self._clock())
                for known in self.tokens(owner.name)
            ):
                raise InterfaceError(
                    f"the user {owner.name} has a token {name}",
                    code="token_exists",
                    hint="Give another name, or revoke that one first.",
                )
            write("DELETE FROM tokens WHERE user = ? AND name = ?", (owner.name, name))
            write(
                "INSERT INTO tokens (user, name, digest, verifier, roles, accounts, scopes,"
                " created, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (owner.name, name, *kept, self._seconds(), ends),
            )
        return IssuedToken(self._token(owner.name, name), secret)

    def tokens(self, user: str | None = None) -> tuple[Token, ...]:
        """Return the tokens of a user, or of all, by name; revoked and expired ones too."""
        if user is None:
            rows = self._file.read(f"{_ISSUED} ORDER BY user, name")
        else:
            rows = self._file.read(
                f"{_ISSUED} WHERE user = ? ORDER BY name", (self.user(user).name,)
            )
        return tuple(map(_token, rows))

    def revoke_token(self, user: str, name: str) -> Token:
        """Revoke a token for good. Raises ``InterfaceError`` (``unknown_token``)."""
        found = self._token(self.user(user).name, _key(name))
        with self._file.writing() as write:
            write(
                "UPDATE tokens SET revoked = 1 WHERE user = ? AND name = ?",
                (found.user, found.name),
            )
        return self._token(found.user, found.name)

    # -- logins -----------------------------------------------------------------------------------

    def credential(self, wire_name: str) -> Credential:
        """Find what a login on the wire is checked against.

        ``ana`` is a user with her password, ``ana+laptop`` her token of that name, given as the
        password. For every other name, and for logins that are not allowed, there is a verifier
        too, and as much is computed.
        """
        key = _key(wire_name)
        user, sign, token = key.partition(WIRE_SEPARATOR)
        if sign:
            rows = self._file.read(f"{_BY_ISSUED} t.user = ? AND t.name = ?", (user, token))
        else:
            rows = self._file.read(_BY_NAME, (user,))
        mock = ScramVerifier.mock(self._secret, key, self.iterations)
        if not rows:
            return Credential(mock, None)
        return Credential(ScramVerifier.parse(rows[0][0]), self._login(user, rows[0]))

    def check_password(self, name: str, password: str | bytes) -> Login:
        """Return the login of a user by a password. Raises ``login_failed``, whatever is wrong."""
        key = _key(name)
        rows = self._file.read(_BY_NAME, (key,))
        matches = matches_hash(rows[0][1] if rows else self._no_hash, password)
        login = self._login(key, rows[0]) if rows else None
        if not matches or login is None:
            raise login_failed()
        return login

    def version(self) -> int:
        """Return a number that differs after each change of users and tokens."""
        return self._file.version()

    def check_token(self, secret: str) -> Login:
        """Return the login that a token is worth by itself. Raises ``login_failed``."""
        # Who does not know a token cannot choose its digest: that an index finds it tells nothing.
        rows = self._file.read(f"{_BY_ISSUED} t.digest = ?", (_digest(secret),))
        login = self._login(rows[0][-1], rows[0]) if rows else None
        if login is None:
            raise login_failed()
        return login

    def signed_on(self, name: str, until: int) -> Login:
        """Return the login of a user whom an issuer's token names. Raises ``login_failed``."""
        rows = self._file.read(_BY_NAME, (name,))
        login = self._login(name, rows[0]) if rows else None
        if login is None or self._clock().timestamp() >= until:
            raise login_failed()
        return replace(login, until=until)

    def require_current(self, login: Login) -> None:
        """Raise ``login_failed`` unless a login would still be the same one."""
        version = self.version()  # before it is looked up
        now = self._clock().timestamp()
        known = self._current.get(login)
        if known is None or known[0] != version:
            known = version, self._end_of(login)
            self._current.keep(login, known, 1)
        if now >= known[1]:
            raise login_failed()

    def _end_of(self, login: Login) -> float:
        """Return when a login ends, in seconds since 1970, as long as nothing is changed.

        Raises ``login_failed`` for one that would be another now.
        """
        own = replace(login, until=None)
        if login.token is None:
            rows = self._file.read(_BY_NAME, (login.user,))
        else:
            by_name = f"{_BY_ISSUED} t.user = ? AND t.name = ?"
            rows = self._file.read(by_name, (login.user, login.token))
        if not rows or self._login(login.user, rows[0]) != own:
            raise login_failed()
        ends = (rows[0][9], login.until)
        return float(min((end for end in ends if end is not None), default=math.inf))

    def record_use(self, login: Login) -> None:
        """Record the day on which a token was used: one write a day."""
        if login.token is None:
            return
        today = self._clock().toordinal()
        if self._used.get(login) == today:
            return
        unknown = "(last_used IS NULL OR last_used < ?)"
        if self._file.read(
            f"SELECT 1 FROM tokens WHERE user = ? AND name = ? AND {unknown}",
            (login.user, login.token, today),
        ):
            with self._file.writing() as write:
                write(
                    f"UPDATE tokens SET last_used = ? WHERE user = ? AND name = ? AND {unknown}",
                    (today, login.user, login.token, today),
                )
        self._used.keep(login, today, 1)

    def _login(self, user: str, row: Sequence[Any]) -> Login | None:
        """Return the login of a row of user or token; None if it is not allowed."""
        _, _, roles, accounts, disabled, token, own_roles, own_accounts, revoked, expires = row[:10]
        scopes, issued, digest = row[10:13]
        expired = expires is not None and self._clock().timestamp() >= expires
        usable = json.loads(accounts)
        named = tuple(name for name in json.loads(own_accounts) if name in usable)
        found = _roles(roles) & _roles(own_roles)
        if not named:
            found -= {Role.ANALYST}
        if disabled or revoked or expired or not found:
            return None
        if token is None:
            return Login(user, None, found, named)
        return Login(user, token, found, named, _scopes(scopes), issued, digest)

    # -- the file ---------------------------------------------------------------------------------

    def _verifier(self, secret: str | bytes) -> str:
        return ScramVerifier.of_password(secret, self.iterations).text()

    def _token(self, user: str, name: str) -> Token:
        rows = self._file.read(f"{_ISSUED} WHERE user = ? AND name = ?", (user, name))
        if not rows:
            raise InterfaceError(
                f"the user {user} has no token {printable(name)}",
                code="unknown_token",
                hint=f"`dpsql user list {user}` shows them.",
            )
        return _token(rows[0])

    def _require_free(self, name: str, names: Sequence[str]) -> None:
        alike = (one for one, other in look_alikes([*names, name]) if other == name)
        taken = name if name in names else next(alike, None)
        if taken is not None:
            seen = "" if taken == name else ", which looks the same"
            raise InterfaceError(
                f"there is a user {taken}{seen}", code="user_exists", hint="Choose another name."
            )

    def _change(self, name: str, assignments: str, values: Sequence[object]) -> User:
        found = self.user(name).name
        with self._file.writing() as write:
            sql = f"UPDATE users SET {assignments}, changed = ? WHERE name = ?"
            write(sql, (*values, self._seconds(), found))
        return self.user(found)

    def _seconds(self) -> int:
        return int(self._clock().timestamp())


def open_or_create_users(path: str | Path, iterations: int | None = None) -> Users:
    """Open the file of users at a path; create it if nothing is there.

    Raises ``ParameterError`` (``bad_iterations``) for a file whose verifiers have other iterations.
    """
    try:
        found = Users(path)
    except InterfaceError as error:
        if error.code != "users_missing":
            raise
        return Users.create(path, iterations=USUAL_ITERATIONS if iterations is None else iterations)
    if iterations not in (None, found.iterations):
        found.close()
        raise ParameterError(
            f"the verifiers of this file have {found.iterations:,} iterations",
            code="bad_iterations",
            hint="All have the same number, or it would tell who exists: it is given once, with "
            "the first user.",
        )
    return found


def _token_scope(
    owner: User, roles: Iterable[Role] | None, accounts: Iterable[str] | None
) -> tuple[frozenset[Role], tuple[str, ...]]:
    """Return the roles and accounts of a token: those named, or all of its user's."""
    found = owner.roles if roles is None else frozenset(roles)
    asks = Role.ANALYST in found
    named = (owner.accounts if asks else ()) if accounts is None else tuple(accounts)
    found, named = require_scope(found, named)
    beyond = [*(role.value for role in found - owner.roles)]
    beyond += [name for name in named if name not in owner.accounts]
    if beyond:
        raise ParameterError(
            f"the user {owner.name} does not have: {', '.join(map(printable, beyond))}",
            code="bad_scope",
            hint="A token gives some of its user's roles and accounts, and never more.",
        )
    return found, named


def _key(name: str) -> str:
    """Return a name as it is looked up: folded, and as text that can be stored."""
    return fold_name(name).encode("utf-8", "replace").decode("utf-8")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _stored(roles: frozenset[Role], accounts: tuple[str, ...]) -> tuple[str, str]:
    return _words(roles), json.dumps(accounts)


def _words(found: Iterable[Role | TokenScope]) -> str:
    return ",".join(sorted(each.value for each in found))


def _roles(text: str) -> frozenset[Role]:
    return frozenset(map(Role, text.split(",")))


def _scopes(text: str) -> frozenset[TokenScope]:
    return frozenset(map(TokenScope, filter(None, text.split(","))))


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _user(row: Sequence[Any]) -> User:
    name, roles, accounts, disabled, created, changed = row
    named = tuple(json.loads(accounts))
    return User(name, _roles(roles), named, bool(disabled), _time(created), _time(changed))


def _token(row: Sequence[Any]) -> Token:
    user, name, roles, accounts, scopes, created, expires, revoked, last_used = row
    return Token(
        user,
        name,
        _roles(roles),
        tuple(json.loads(accounts)),
        _scopes(scopes),
        _time(created),
        None if expires is None else _time(expires),
        bool(revoked),
        None if last_used is None else date.fromordinal(last_used),
    )

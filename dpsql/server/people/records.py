"""Users, their tokens and their logins, as values without any secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from dpsql.core.formatting import printable
from dpsql.core.names import is_account_name
from dpsql.errors import ParameterError
from dpsql.server.people.scram import ScramVerifier

MOST_NAME: Final = 63
WIRE_SEPARATOR: Final = "+"
"""On the wire, ``ana+laptop`` logs in with the token ``laptop`` of ``ana``."""

_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
# Beyond ASCII, whatever may be in the name of an account.
_NAME: Final = re.compile(
    rf"[a-z0-9_\u0080-\U0010ffff][a-z0-9_.@$\u0080-\U0010ffff-]{{0,{MOST_NAME - 1}}}"
)


class TokenScope(Enum):
    """Something that an analyst's token is good for, at every door.

    ``EXPLAIN``: what costs nothing: tables, prices, budget, history; the others may do that too.
    ``ASK``: questions. ``VIEWS``: materialized views. ``AGENT``: questions that an account of the
    token's own pays for, below its user's, within the policy's limits of agents.
    """

    EXPLAIN = "explain"
    ASK = "ask"
    VIEWS = "views"
    AGENT = "agent"


ALL_SCOPES: Final = frozenset({TokenScope.ASK, TokenScope.VIEWS})
"""The scopes of a password, and of a token for which none are chosen."""


class Role(Enum):
    """What a user is to the server. One may be several."""

    ANALYST = "analyst"
    OWNER = "owner"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class User:
    """A user of a server. The accounts are an analyst's, the usual one first."""

    name: str
    roles: frozenset[Role]
    accounts: tuple[str, ...]
    disabled: bool
    created: datetime
    changed: datetime

    def facts(self) -> dict[str, Any]:
        """Return all of it as values of JSON."""
        return {
            "name": self.name,
            "roles": named_roles(self.roles),
            "accounts": [*self.accounts],
            "disabled": self.disabled,
            "created": self.created.isoformat(),
            "changed": self.changed.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a user. It gives these roles and accounts, as far as the user still has them.

    Of what analysts do it allows what is in its scopes.
    """

    user: str
    name: str
    roles: frozenset[Role]
    accounts: tuple[str, ...]
    scopes: frozenset[TokenScope]
    created: datetime
    expires: datetime | None
    revoked: bool
    last_used: date | None

    def is_valid(self, now: datetime) -> bool:
        """Tell whether the token is neither revoked nor expired."""
        return not self.revoked and (self.expires is None or now < self.expires)

    def facts(self, now: datetime) -> dict[str, Any]:
        """Return it as values of JSON, with whether it is valid; ``token`` is its name."""
        return {
            "token": self.name,
            "roles": named_roles(self.roles),
            "accounts": [*self.accounts],
            "scopes": [one.value for one in TokenScope if one in self.scopes],
            "valid": self.is_valid(now),
            "created": self.created.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "last_used": None if self.last_used is None else self.last_used.isoformat(),
        }

    @property
    def wire_name(self) -> str:
        """The user name of PostgreSQL's clients that log in with the token."""
        return f"{self.user}{WIRE_SEPARATOR}{self.name}"


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token with its secret, to be shown once: nothing that is stored leads back to it."""

    token: Token
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """A user who has logged in, by a password or a token, with the roles and accounts to use.

    ``issued`` is when the token was, in seconds: with its name it names one token and no later one.
    ``digest`` is the digest of the token itself: two of one name and one second are two.
    ``until`` is when a login by a token of another issuer ends, in seconds; None for others.
    """

    user: str
    token: str | None
    roles: frozenset[Role]
    accounts: tuple[str, ...]
    scopes: frozenset[TokenScope] = ALL_SCOPES
    issued: int | None = None
    digest: bytes | None = field(default=None, repr=False)
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """The verifier of a name on the wire, and the login that a proof is worth.

    None is a login that fails whatever its proof; there is a verifier all the same.
    """

    verifier: ScramVerifier
    login: Login | None


def named_roles(roles: Iterable[Role]) -> list[str]:
    """Return the names of roles, in the order in which they are declared."""
    return [role.value for role in Role if role in frozenset(roles)]


def fold_name(name: str) -> str:
    """Fold a name as PostgreSQL folds names without quotes: ASCII letters become small ones."""
    return name.translate(_LOWER)


def require_name(name: str, what: str) -> str:
    """Return a folded name of a user or token. Raises ``ParameterError`` (``bad_user_name``)."""
    folded = fold_name(name)
    if not (_NAME.fullmatch(folded) and is_account_name(folded)):
        raise ParameterError(
            f"{printable(name[: MOST_NAME + 1])!r} cannot be the name of a {what}",
            code="bad_user_name",
            hint=f"A name has 1 to {MOST_NAME} letters, digits and any of _ . @ $ -, and begins "
            "with a letter, a digit or _. Capital letters become small ones.",
        )
    return folded


def require_scope(
    roles: Iterable[Role], accounts: Iterable[str]
) -> tuple[frozenset[Role], tuple[str, ...]]:
    """Return roles and accounts that belong together.

    Raises ``ParameterError`` (``bad_scope``) for no role, an analyst without an account, an account
    of nobody who asks, and a name that no account can have.
    """
    found, named = frozenset(roles), tuple(dict.fromkeys(accounts))
    wrong = next((name for name in named if not is_account_name(name)), None)
    if not found:
        reason = "there is no role"
    elif Role.ANALYST in found and not named:
        reason = "an analyst needs an account"
    elif named and Role.ANALYST not in found:
        reason = "accounts are for analysts"
    elif wrong is not None:
        reason = f"{printable(wrong)!r} cannot be the name of an account"
    else:
        return found, named
    raise ParameterError(
        reason,
        code="bad_scope",
        hint="An analyst has one or more accounts of the policies file; owners and auditors ask "
        "nothing, and have none.",
    )


def require_scopes(
    roles: frozenset[Role], scopes: Iterable[TokenScope] | None
) -> frozenset[TokenScope]:
    """Return the scopes of a token with some roles; None stands for all that analysts may do.

    Raises ``ParameterError`` (``bad_scope``) for scopes of nobody who asks, for none at all, and
    for a second one beside an agent's questions, which another account would pay for.
    """
    if scopes is None:
        return ALL_SCOPES if Role.ANALYST in roles else frozenset()
    found = frozenset(scopes)
    if Role.ANALYST not in roles:
        reason = "scopes are for analysts"
    elif not found:
        reason = "there is no scope"
    elif TokenScope.AGENT in found and not found <= {TokenScope.AGENT, TokenScope.EXPLAIN}:
        reason = "an agent pays from an account of its own, and does nothing from its user's"
    else:
        return found
    raise ParameterError(
        reason,
        code="bad_scope",
        hint="Choose explain; or ask, views or both; or agent.",
    )

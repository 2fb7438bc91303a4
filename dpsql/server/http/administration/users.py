"""Users and tokens, as ``dpsql user`` has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.bodies import (
    AddUserRequest,
    IssuedTokenReply,
    IssueTokenRequest,
    PasswordRequest,
    ScopeRequest,
    TokenFacts,
    TokenRequest,
    UserFacts,
    UserRequest,
    UsersReply,
)
from dpsql.server.people.passwords import require_argon2
from dpsql.server.people.records import Role, Token, TokenScope


def list_users(desk: Desk, act: Act) -> UsersReply:
    """List users and tokens."""
    return UsersReply(
        users=[UserFacts(**each.facts()) for each in desk.users.users()],
        tokens=[_token(each) for each in desk.users.tokens()],
    )


def add_user(desk: Desk, act: Act) -> UserFacts:
    """Enrol a user."""
    given = act.taken(AddUserRequest)
    require_argon2()
    password = given.password.get_secret_value()
    added = desk.users.add(given.user, password, _roles(given.roles), given.accounts)
    return UserFacts(**added.facts())


def set_password(desk: Desk, act: Act) -> UserFacts:
    """Give a user another password."""
    given = act.taken(PasswordRequest)
    require_argon2()
    changed = desk.users.set_password(given.user, given.password.get_secret_value())
    return UserFacts(**changed.facts())


def assign_scope(desk: Desk, act: Act) -> UserFacts:
    """Give a user other roles and accounts."""
    given = act.taken(ScopeRequest)
    changed = desk.users.assign(given.user, _roles(given.roles), given.accounts)
    return UserFacts(**changed.facts())


def disable_user(desk: Desk, act: Act) -> UserFacts:
    """Refuse a user's logins."""
    return UserFacts(**desk.users.disable(act.taken(UserRequest).user).facts())


def enable_user(desk: Desk, act: Act) -> UserFacts:
    """Let a user log in again."""
    return UserFacts(**desk.users.enable(act.taken(UserRequest).user).facts())


def issue_token(desk: Desk, act: Act) -> IssuedTokenReply:
    """Create a token, and show its secret."""
    given = act.taken(IssueTokenRequest)
    issued = desk.users.issue_token(
        given.user,
        given.token,
        roles=None if given.roles is None else _roles(given.roles),
        accounts=given.accounts,
        scopes=None if given.scopes is None else map(TokenScope, given.scopes),
        expires=datetime.now(UTC) + timedelta(days=given.days),
    )
    return IssuedTokenReply(token=_token(issued.token), secret=issued.secret)


def revoke_token(desk: Desk, act: Act) -> TokenFacts:
    """Revoke a token for good."""
    given = act.taken(TokenRequest)
    return _token(desk.users.revoke_token(given.user, given.token))


def _token(token: Token) -> TokenFacts:
    return TokenFacts(user=token.user, **token.facts(datetime.now(UTC)))


def _roles(names: Iterable[str]) -> frozenset[Role]:
    return frozenset(map(Role, names))

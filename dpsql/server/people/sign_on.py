"""Tokens of an OpenID Connect issuer, which say who somebody is and nothing else.

What a user may do is the server's own: the user has to be enrolled, and has the roles and accounts
that an owner gave. The algorithm of a signature follows from the issuer's key, never from the
token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from dpsql.errors import InterfaceError
from dpsql.server.people.issuer_keys import IssuerKeys, require_issuer
from dpsql.server.people.records import MOST_NAME, fold_name
from dpsql.server.people.scram import login_failed

LEEWAY: Final = 30
"""The seconds by which the clocks of issuer and server may differ."""
LONGEST: Final = 86_400
"""The most seconds for which a token may be good."""
USUAL_CLAIM: Final = "sub"
_KINDS: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_IN_HEADER: Final = frozenset({"alg", "kid", "typ", "x5t", "x5t#S256"})
"""The parameters of a header that are taken: none has a key, leads to one, or changes a meaning."""


@dataclass(frozen=True, slots=True)
class SignOnSettings:
    """The issuer of tokens, with the claims that a good one has.

    ``audience`` is what the tokens are for, ``client`` the program that they were issued to, and
    ``claim`` the one whose value is the name of a user.
    """

    issuer: str
    audience: str
    client: str
    claim: str = USUAL_CLAIM

    def __post_init__(self) -> None:
        require_issuer(self.issuer)
        if not (self.audience and self.client and self.claim):
            raise InterfaceError(
                "sign-on needs an audience, a client and a claim",
                code="bad_sign_on",
                hint="Give --oidc-audience and --oidc-client-id as the issuer has them.",
            )


@dataclass(frozen=True, slots=True)
class SignedName:
    """The user whom a token names, and until when, in seconds since 1970."""

    user: str
    until: int


class SignOn:
    """Checks tokens of one issuer. Safe for threads."""

    def __init__(
        self, settings: SignOnSettings, keys: IssuerKeys, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self._keys = keys
        self._clock = clock

    def takes(self, token: str) -> bool:
        """Tell whether a token has the three parts of signed ones, which the server's have not."""
        return token.count(".") == 2

    def checked(self, token: str) -> SignedName:
        """Return whom a token names.

        Raises ``login_failed``, whatever is wrong with it, and ``OperationalError``
        (``sign_on_unavailable``) where the issuer's keys are not known now.
        """
        name = _key_name(token)
        key = None if name is None else self._keys.key(name)
        if key is None:
            raise login_failed()
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                issuer=self.settings.issuer,
                audience=self.settings.audience,
                # Times are compared below, by one clock and as the numbers that they have to be.
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "require": ["iss", "aud", "exp", "iat"],
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
            raise login_failed() from None
        until = self._until(claims)
        user = self._user(claims)
        if until is None or user is None or not self._is_for_client(claims):
            raise login_failed()
        return SignedName(user, until)

    def _until(self, claims: Mapping[str, Any]) -> int | None:
        """Return when a token ends; None for one that is not good now."""
        begun, ends = _seconds(claims["iat"]), _seconds(claims["exp"])
        first = begun if "nbf" not in claims else _seconds(claims["nbf"])
        now = self._clock()
        if begun is None or ends is None or first is None:
            return None
        if max(begun, first) > now + LEEWAY or ends <= now - LEEWAY or ends - begun > LONGEST:
            return None
        return math.ceil(ends) + LEEWAY

    def _is_for_client(self, claims: Mapping[str, Any]) -> bool:
        """Tell whether a token was issued to the client, if it says to whom.

        One that is for several has to say it.
        """
        named = [claims[name] for name in ("azp", "client_id") if name in claims]
        alone = not isinstance(claims["aud"], list) or len(claims["aud"]) == 1
        return (alone or bool(named)) and all(each == self.settings.client for each in named)

    def _user(self, claims: Mapping[str, Any]) -> str | None:
        """Return the name of a user, which the claim has to be letter by letter."""
        name = claims.get(self.settings.claim)
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME or fold_name(name) != name:
            return None
        if not name.isprintable():  # no name has such letters, and some cannot even be looked up
            return None
        if self.settings.claim == "email" and claims.get("email_verified") is not True:
            return None
        return name


def _key_name(token: str) -> str | None:
    """Return the key's name in the header of a token; None for a header that is refused."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return None
    kind, name = header.get("typ", "JWT"), header.get("kid")
    fits = isinstance(kind, str) and kind.lower() in _KINDS and header.keys() <= _IN_HEADER
    return name if fits and isinstance(name, str) and 0 < len(name) <= 200 else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None

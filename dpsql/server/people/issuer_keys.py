"""The public keys of an issuer of tokens, by OpenID Connect Discovery.

They come from the ``jwks_uri`` of the issuer's own metadata and from nowhere else: nothing of a
token leads to a request but its key's name, and that at most once a minute. No redirect is
followed, and of a reply 64 kB are read.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import jwt

from dpsql.errors import InterfaceError, OperationalError

MOST_METADATA: Final = 65_536
"""The most bytes of metadata, and of keys."""
MOST_KEYS: Final = 100
LEAST_RSA: Final = 2_048
"""The fewest bits of an RSA key."""
PAUSE: Final = 60.0
"""The least seconds between two requests for keys."""
FRESH: Final = 300.0
"""After so many seconds keys are asked for again, and the old ones go on where that fails."""
USABLE: Final = 3_600.0
"""After so many seconds without a reply, keys are no longer used."""
_SECONDS: Final = 5.0
_METADATA: Final = "/.well-known/openid-configuration"
# The algorithms of each kind of key; the first is meant where the key names none.
_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType(
    {
        ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        ("EC", "P-256"): ("ES256",),
        ("EC", "P-384"): ("ES384",),
        ("EC", "P-521"): ("ES512",),
        ("OKP", "Ed25519"): ("EdDSA", "Ed25519"),
    }
)


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key, and the one algorithm that its signatures are checked by."""

    algorithm: str
    key: jwt.PyJWK


class IssuerKeys:
    """The keys of one issuer. Safe for threads; one at a time asks the issuer, and others go on."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._clock = clock
        self._asking = threading.Lock()
        self._keys: Mapping[str, IssuerKey] = {}
        self._asked: float | None = None
        self._had: float | None = None

    def key(self, name: str) -> IssuerKey | None:
        """Return the key of this name; None where the issuer has no such key that can be used.

        Raises ``OperationalError`` (``sign_on_unavailable``) where that is not known now.
        """
        if (name not in self._keys or self._age > FRESH) and self._may_ask():
            self._ask()
        if self._age > USABLE:
            raise OperationalError(
                "the issuer of the token cannot be asked for its keys now",
                code="sign_on_unavailable",
                hint="Try again in a minute; tokens of the server itself go on.",
            )
        return self._keys.get(name)

    @property
    def _age(self) -> float:
        return float("inf") if self._had is None else self._clock() - self._had

    def _may_ask(self) -> bool:
        return self._asked is None or self._clock() - self._asked >= PAUSE

    def _ask(self) -> None:
        if not self._asking.acquire(blocking=False):
            return  # who has asked a moment ago brings them
        try:
            if self._may_ask():
                self._asked = self._clock()
                found = self._found()
                if found is not None:
                    self._keys, self._had = found, self._clock()
        finally:
            self._asking.release()

    def _found(self) -> Mapping[str, IssuerKey] | None:
        """Ask for metadata and keys; None where they are not had."""
        metadata = _asked_json(self._issuer.rstrip("/") + _METADATA)
        if metadata is None or metadata.get("issuer") != self._issuer:
            return None
        issuer, keys = _address(self._issuer), _address(metadata.get("jwks_uri"))
        if issuer is None or keys is None or (issuer.scheme, keys.scheme) == ("https", "http"):
            return None  # an issuer elsewhere leads to no program on this machine
        reply = _asked_json(keys.geturl())
        listed = None if reply is None else reply.get("keys")
        return _usable(listed) if isinstance(listed, list) else None


def require_issuer(issuer: str) -> str:
    """Return the address of an issuer. Raises ``InterfaceError`` (``bad_address``)."""
    found = _address(issuer)
    if found is None or found.query:
        raise InterfaceError(
            "this is no address of an issuer of tokens",
            code="bad_address",
            hint="Write it as the issuer's own metadata does: https://login.example.org/realm.",
        )
    return issuer


def _address(text: object) -> SplitResult | None:
    """Read an address that may be asked: encrypted, or on this machine."""
    if not isinstance(text, str) or re.fullmatch(r"[!-~]{1,2000}", text) is None:
        return None
    with suppress(ValueError):
        found = urlsplit(text)
        plain = found.username is None and found.password is None and not found.fragment
        if plain and found.hostname and (found.port or 1) > 0:
            if found.scheme == "https":
                return found
            if found.scheme == "http" and _is_here(found.hostname):
                return found
    return None


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _asked_json(address: object) -> dict[str, Any] | None:
    """Ask for an object of JSON; None for anything else, and a redirect is something else."""
    found = _address(address)
    if found is None or found.hostname is None:
        return None
    ends = time.monotonic() + _SECONDS
    connection = (
        http.client.HTTPSConnection(
            found.hostname, found.port, timeout=_SECONDS, context=ssl.create_default_context()
        )
        if found.scheme == "https"
        else http.client.HTTPConnection(found.hostname, found.port, timeout=_SECONDS)
    )
    path = (found.path or "/") + (f"?{found.query}" if found.query else "")
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        data = b""
        while len(data) <= MOST_METADATA and time.monotonic() < ends:
            part = response.read1(MOST_METADATA + 1 - len(data))
            if not part:
                whole = response.length in (None, 0)
                read = json.loads(data) if response.status == 200 and whole else None
                return read if isinstance(read, dict) else None
            data += part
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        pass
    finally:
        connection.close()
    return None


def _usable(listed: Sequence[object]) -> dict[str, IssuerKey]:
    """Return keys by their names: public ones for signatures, alone of their name, and long."""
    found: dict[str, IssuerKey] = {}
    twice: set[str] = set()
    for one in listed[:MOST_KEYS]:
        if not isinstance(one, dict) or not isinstance(one.get("kid"), str):
            continue
        name = one["kid"]
        key = _read(one)
        if key is None:
            continue
        if name in found:
            twice.add(name)
        found[name] = key
    return {name: key for name, key in found.items() if name not in twice}


def _read(one: Mapping[str, Any]) -> IssuerKey | None:
    kind, curve = one.get("kty"), one.get("crv", "")
    operations = one.get("key_ops", ["verify"])
    if not (isinstance(kind, str) and isinstance(curve, str) and isinstance(operations, list)):
        return None
    known = _ALGORITHMS.get((kind, curve), ("",))
    algorithm = one.get("alg", known[0])
    for_signatures = one.get("use", "sig") == "sig" and "verify" in operations
    if not algorithm or algorithm not in known or not for_signatures or "d" in one:
        return None
    try:
        key = jwt.PyJWK(dict(one), algorithm=algorithm)
        size = getattr(key.key, "key_size", None)
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError):
        return None
    if kind == "RSA" and not (isinstance(size, int) and size >= LEAST_RSA):
        return None
    return IssuerKey(algorithm, key)

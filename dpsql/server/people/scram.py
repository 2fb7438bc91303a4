"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: RFC 5802, 7677 and 5929.

Nothing here reads or writes a network: an exchange is given the client's messages and returns the
server's. Whatever is wrong with a login, it ends with one and the same error, and the work up to it
does not depend on whether the user exists.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

from dpsql.errors import InterfaceError, OperationalError, ParameterError
from dpsql.server.people.passwords import prepare_password

SCRAM: Final = "SCRAM-SHA-256"
SCRAM_PLUS: Final = "SCRAM-SHA-256-PLUS"

USUAL_ITERATIONS: Final = 100_000
LEAST_ITERATIONS: Final = 4_096
MOST_ITERATIONS: Final = 10_000_000
"""Clients do this work at each login, in some languages slowly."""

_SALT: Final = 16
_HASH: Final = 32
_NONCE: Final = 18
_MOST_MESSAGE: Final = 4_096

# What stands behind an attribute: anything but its end, and no zero byte.
_VALUE: Final = r"[^\0,]"
_NONCE_CHARACTER: Final = r"[!-+\--~]"
_EXTENSIONS: Final = rf"(?:,(?!p=)[A-Za-z]={_VALUE}+)*"
# A name to act as and mandatory extensions (m=) are not supported, so they do not match.
_FIRST: Final = re.compile(
    rf"(?P<header>(?P<flag>n|y|p=[A-Za-z0-9.-]+),,)"
    rf"(?P<bare>n={_VALUE}*,r=(?P<nonce>{_NONCE_CHARACTER}+){_EXTENSIONS})"
)
_LAST: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE_CHARACTER}+){_EXTENSIONS})"
    rf",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_VERIFIER: Final = re.compile(
    r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})",
    re.ASCII,
)
_END_POINT: Final = "p=tls-server-end-point"


def login_failed() -> OperationalError:
    """Build the only error of a login: it says nothing of what was wrong."""
    return OperationalError(
        "the login failed",
        code="login_failed",
        hint="Check the name and the password or token. After several failures, each further "
        "attempt takes longer.",
    )


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """What a server keeps of a password: enough to check a proof, too little to make one."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of_password(
        cls, password: str | bytes, iterations: int = USUAL_ITERATIONS, salt: bytes | None = None
    ) -> ScramVerifier:
        """Derive the verifier of a password, by default with a salt of its own."""
        require_iterations(iterations)
        salt = secrets.token_bytes(_SALT) if salt is None else salt
        prepared = prepare_password(password)
        salted = hashlib.pbkdf2_hmac("sha256", prepared, salt, iterations)
        client_key = _keyed(salted, b"Client Key")
        return cls(iterations, salt, _hashed(client_key), _keyed(salted, b"Server Key"))

    @classmethod
    def mock(cls, secret: bytes, name: str, iterations: int) -> ScramVerifier:
        """Make up the verifier of a name that nobody has; it is the same each time.

        No password belongs to it, as nobody can find a key that has a given hash.
        """
        named = name.encode("utf-8", "surrogatepass")
        salt, stored, server = (
            _keyed(secret, use + named) for use in (b"salt\0", b"stored\0", b"server\0")
        )
        return cls(iterations, salt[:_SALT], stored, server)

    @classmethod
    def parse(cls, text: str) -> ScramVerifier:
        """Parse PostgreSQL's text of a verifier. Raises ``InterfaceError`` (``bad_verifier``)."""
        try:
            found = _VERIFIER.fullmatch(text)
            if found is None:
                raise ValueError
            iterations = int(found[1])
            salt, stored, server = (b64decode(p, validate=True) for p in found.group(2, 3, 4))
            if iterations < LEAST_ITERATIONS or {len(stored), len(server)} != {_HASH}:
                raise ValueError
        except ValueError:
            raise InterfaceError(
                "a stored verifier is none of SCRAM-SHA-256",
                code="bad_verifier",
                hint="Set the user's password again, or restore the file from a backup.",
            ) from None
        return cls(iterations, salt, stored, server)

    def text(self) -> str:
        """Write the verifier as PostgreSQL does."""
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{SCRAM}${self.iterations}:{salt}${stored}:{server}"


class ScramExchange:
    """One login: ``begin`` takes the client's first message, ``finish`` its last one.

    ``allowed`` is False for a login that fails whatever its proof: the exchange takes the same
    course, and the same work. ``binding`` is the hash of the server's certificate on a connection
    with TLS (``end_point_binding``); without it, SCRAM-SHA-256-PLUS is not offered. The name in the
    client's message is passed over, as by PostgreSQL: the connection has told it before.
    """

    def __init__(
        self,
        verifier: ScramVerifier,
        *,
        allowed: bool,
        binding: bytes | None = None,
        nonce: str | None = None,
    ) -> None:
        self._verifier = verifier
        self._allowed = allowed
        self._binding = binding
        self._own_nonce = nonce or _base64(secrets.token_bytes(_NONCE))
        self._nonce = self._bound = self._said = ""
        self._awaited = "begin"
        self.succeeded = False

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms to offer, the best first."""
        return (SCRAM,) if self._binding is None else (SCRAM_PLUS, SCRAM)

    def begin(self, mechanism: str, message: bytes) -> bytes:
        """Take the client's first message; return the server's. Raises ``login_failed``."""
        self._require_awaited("begin")
        found = _matched(_FIRST, message)
        if not self._fits(mechanism, found["flag"]):
            raise login_failed()
        bound = found["header"].encode()
        if mechanism == SCRAM_PLUS and self._binding is not None:
            bound += self._binding
        self._bound = _base64(bound)
        self._nonce = found["nonce"] + self._own_nonce
        verifier = self._verifier
        reply = f"r={self._nonce},s={_base64(verifier.salt)},i={verifier.iterations}"
        self._said = f"{found['bare']},{reply}"
        self._awaited = "finish"
        return reply.encode()

    def finish(self, message: bytes) -> bytes:
        """Take the client's last message; return the server's. Raises ``login_failed``."""
        self._require_awaited("finish")
        found = _matched(_LAST, message)
        proof = _proof(found["proof"])
        said = f"{self._said},{found['unproved']}".encode()
        client_key = _xor(proof, _keyed(self._verifier.stored_key, said))
        signature = _keyed(self._verifier.server_key, said)
        # All are looked at, whichever fails: the time tells nothing of it.
        right = (
            hmac.compare_digest(found["nonce"], self._nonce),
            hmac.compare_digest(found["binding"], self._bound),
            hmac.compare_digest(_hashed(client_key), self._verifier.stored_key),
            self._allowed,
        )
        if not all(right):
            raise login_failed()
        self.succeeded = True
        return f"v={_base64(signature)}".encode()

    def _require_awaited(self, step: str) -> None:
        """Refuse a message out of its turn; after it, none is awaited unless its step says so."""
        awaited, self._awaited = self._awaited, ""
        self.succeeded = False
        if awaited != step:
            raise login_failed()

    def _fits(self, mechanism: str, flag: str) -> bool:
        """Tell whether the client's word on binding fits its mechanism and what was offered."""
        if mechanism == SCRAM_PLUS:
            return self._binding is not None and flag == _END_POINT
        # "y" says that the client can bind and was not offered it: somebody between has taken
        # the offer away.
        return mechanism == SCRAM and (flag == "n" or (flag == "y" and self._binding is None))


def require_iterations(iterations: int) -> None:
    """Refuse a number of iterations out of range: ``ParameterError`` (``bad_iterations``)."""
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ParameterError(
            f"verifiers have {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,} iterations",
            code="bad_iterations",
            hint=f"{USUAL_ITERATIONS:,} take clients some hundredths of a second.",
        )


def _matched(form: re.Pattern[str], message: bytes) -> dict[str, str]:
    """Split a client's message into its parts. Raises ``login_failed`` for another form."""
    if len(message) > _MOST_MESSAGE:
        raise login_failed()
    try:
        found = form.fullmatch(message.decode("utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise login_failed()
    return found.groupdict()


def _proof(text: str) -> bytes:
    try:
        proof = b64decode(text, validate=True)
    except binascii.Error:
        proof = b""
    if len(proof) != _HASH:
        raise login_failed()
    return proof


def _keyed(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _hashed(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _base64(text: bytes) -> str:
    return b64encode(text).decode("ascii")

"""An issuer of tokens over HTTP: metadata, keys, and signatures good and bad."""

from __future__ import annotations

import http.server
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

CLIENT = "notebooks"
AUDIENCE = "dpsql"


@cache
def private_keys() -> dict[str, Any]:
    """Keys of all kinds; ``short`` is too short, ``stranger`` is nobody's."""
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "pss": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
        "short": rsa.generate_private_key(65537, 1024),
        "encrypts": rsa.generate_private_key(65537, 2048),
        "stranger": rsa.generate_private_key(65537, 2048),
        "twin": rsa.generate_private_key(65537, 2048),
        "next": rsa.generate_private_key(65537, 2048),
    }


ALGORITHMS = {"rsa": "RS256", "pss": "PS256", "ec": "ES256", "ed": "EdDSA", "short": "RS256"}
_KINDS = {"ec": jwt.algorithms.ECAlgorithm, "ed": jwt.algorithms.OKPAlgorithm}


def public_key(name: str) -> dict[str, Any]:
    """A public key as the issuer publishes it."""
    kind = _KINDS.get(name, jwt.algorithms.RSAAlgorithm)
    found = dict(json.loads(kind.to_jwk(private_keys()[name].public_key())))  # type: ignore[attr-defined]
    return {"kid": name, "use": "sig", **{k: v for k, v in found.items() if k != "key_ops"}}


def published() -> list[Any]:
    """What the issuer publishes: good keys, and all kinds of others."""
    return [
        public_key("rsa"),
        {**public_key("pss"), "alg": "PS256"},
        public_key("ec"),
        public_key("ed"),
        public_key("short"),
        {**public_key("encrypts"), "use": "enc"},
        {**public_key("rsa"), "kid": "hmac", "alg": "HS256"},
        {**public_key("rsa"), "kid": "none", "alg": "none"},
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"},
        public_key("twin"),
        {**public_key("rsa"), "kid": "twin"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": ["RSA"], "kid": "listed"},
        {"kty": "RSA"},
        "no key",
        None,
    ]


def encoded(part: object) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


def forged(header: object, claims: object, sign: Callable[[bytes], bytes]) -> str:
    """Write a token that no library would write."""
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(sign(text.encode()))}"


@dataclass
class Issuer:
    """A running issuer: what it publishes can be changed, and what it was asked is counted."""

    url: str = ""
    keys: list[Any] = field(default_factory=published)
    metadata: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    reply: Callable[[http.server.BaseHTTPRequestHandler], bool] = lambda handler: False
    """Replies instead, if it returns True."""

    def claims(self, now: float, **more: Any) -> dict[str, Any]:
        """Return the claims of a good token; None leaves one out."""
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ana",
            "iat": int(now),
            "exp": int(now) + 300,
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def token(
        self, now: float, key: str = "rsa", header: dict[str, Any] | None = None, **more: Any
    ) -> str:
        """Sign claims by a key."""
        return jwt.encode(
            self.claims(now, **more),
            private_keys()[key],
            ALGORITHMS.get(key, "RS256"),
            {"kid": key, **(header or {})},
        )


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer on a port of its own."""
    issuer = Issuer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            if issuer.reply(self):
                return
            if self.path == "/realm/.well-known/openid-configuration":
                self.told({"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"})
            elif self.path == "/realm/keys":
                self.told({"keys": issuer.keys})
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            issuer.asked.append(self.path)
            if not issuer.reply(self):
                self.send_error(404)

        def told(self, found: dict[str, Any]) -> None:
            data = json.dumps({**found, **(issuer.metadata if "issuer" in found else {})}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}/realm"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A client of SCRAM-SHA-256, for tests of servers."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from dpsql.server.people.passwords import prepare_password


class ScramClient:
    """A client that does as the RFCs say, by a code of its own."""

    def __init__(self, password: str, header: str = "n,,", binding: bytes = b"") -> None:
        self.password, self.header, self.binding = prepare_password(password), header, binding
        self.bare = "n=,r=fyko+d2lbbFgONRv9qkxdawL"

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def last(self, server_first: bytes, **changed: str) -> bytes:
        """The proof for what the server said; ``changed`` are other attributes than are right."""
        said = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salt, iterations = b64decode(said["s"]), int(said["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password, salt, iterations)
        key = hmac.digest(salted, b"Client Key", "sha256")
        bound = b64encode(self.header.encode() + self.binding).decode()
        unproved = f"c={changed.get('c', bound)},r={changed.get('r', said['r'])}"
        signed = ",".join((self.bare, server_first.decode(), unproved)).encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self.expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        return f"{unproved},p={b64encode(proof).decode()}".encode()

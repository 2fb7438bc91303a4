"""Stored releases: answers kept with their entries, so that the same question again is free.

The chain holds the SHA-256 of an answer, not the answer: its owner may delete it, and the chain
stays whole.
"""

from __future__ import annotations

import hashlib
import zlib

from dpsql.accounting.zcdp import Amount
from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.backend import Backend
from dpsql.ledger.chain import iso
from dpsql.ledger.records import Stored

MAX_RELEASE = 8 * 2**20
"""The largest answer that is kept, in bytes."""

_LATEST = """
SELECT releases.entry, releases.account, at, rho, epsilon, delta, digest, size, packed, payload
FROM releases JOIN events ON events.entry = releases.entry
WHERE releases.query = ? AND (releases.account = ? OR substr(releases.account, 1, ?) = ?)
ORDER BY releases.entry DESC LIMIT 1
"""


def digest_of(payload: bytes) -> bytes:
    """Tell what the chain keeps of an answer."""
    return hashlib.sha256(payload).digest()


def check_release(payload: bytes) -> None:
    """Refuse what is not bytes or too large to keep (:class:`ParameterError`)."""
    if not isinstance(payload, bytes):
        raise ParameterError(
            f"a release to store must be bytes, not {type(payload).__name__}", code="bad_parameter"
        )
    if len(payload) > MAX_RELEASE:
        raise ParameterError(
            f"a release of more than {MAX_RELEASE} bytes is not stored",
            code="release_too_large",
            hint="settle without storing it",
        )


def store(sql: Backend, entry: int, account: str, query: str, payload: bytes) -> None:
    """Keep the answer of an entry, compressed where that saves anything."""
    packed = zlib.compress(payload, 1)
    smaller = len(packed) < len(payload)
    sql.execute(
        "INSERT INTO releases (entry, account, query, size, packed, payload) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (entry, account, query, len(payload), int(smaller), packed if smaller else payload),
    )


def latest(sql: Backend, account: str, query: str) -> Stored | None:
    """Return the latest kept answer to a question that the account, or one below it, has asked.

    Raises :class:`LedgerError` if it is not what was stored.
    """
    below = account + "/"
    rows = sql.execute(_LATEST, (query, account, len(below), below))
    if not rows:
        return None
    entry, payer, at, rho, epsilon, delta, digest, *kept = rows[0]
    payload = unpack(*kept)
    if payload is None or digest_of(payload) != digest:
        raise LedgerError(
            "the stored release is not what was stored",
            code="ledger_corrupt",
            hint="run `dpsql budget verify`, and restore the ledger from a backup",
        )
    return Stored(entry, payer, iso(at), Amount(rho, epsilon, delta), payload)


def unpack(size: int, packed: int, payload: bytes) -> bytes | None:
    """The answer in its row, or None if it is damaged. Never more than ``MAX_RELEASE`` bytes."""
    if not packed:
        return payload if len(payload) == size else None
    unpacker = zlib.decompressobj()
    try:
        answer = unpacker.decompress(payload, MAX_RELEASE + 1)
    except zlib.error:
        return None
    return answer if unpacker.eof and len(answer) == size else None

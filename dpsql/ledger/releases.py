"""Stored releases: answers kept with their entries, so that the same question again is free.

The chain holds the SHA-256 of an answer, not the answer: its owner may delete it, and the chain
stays whole. What a step of a stream has released is kept in parts, of which the chain holds one
SHA-256: that of the SHA-256 of each, in order.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from dpsql.accounting.zcdp import Amount
from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.backend import Backend, LedgerRow
from dpsql.ledger.chain import iso
from dpsql.ledger.names import full_names
from dpsql.ledger.records import Stored
from dpsql.ledger.schema import ROWS_START

MAX_RELEASE = 8 * 2**20
"""The largest answer that is kept, and the largest part of what a step releases, in bytes."""
MAX_STEP_RELEASE = 256 * 2**20
"""The most that is kept of one step of a stream, in bytes."""
MAX_ALIKE_BYTES = 4 * MAX_RELEASE
"""The most that is read at once of answers to questions that are alike, in bytes."""
MAX_PARTS = 1024
"""How many parts the release of one step may have."""

Packed: TypeAlias = tuple[int, int, bytes]
"""A release as it is stored: its size in bytes, 1 if it is compressed, and what is stored."""

_LATEST = """
SELECT releases.entry, releases.account, at, rho, epsilon, delta, gaussian, digest, size, packed,
    payload
FROM releases JOIN events ON events.entry = releases.entry
WHERE releases.query = ? AND (releases.account = ? OR substr(releases.account, 1, ?) = ?)
ORDER BY releases.entry DESC LIMIT 1
"""

_ALIKE = """
SELECT entry, size FROM releases
WHERE query >= ? AND query < ? AND substr(query, 1, ?) = ?
    AND (account = ? OR substr(account, 1, ?) = ?)
ORDER BY entry DESC LIMIT ?
"""

_ON_ROWS = f"""
SELECT entry, size FROM (
    SELECT entry, size FROM releases WHERE substr(query, {ROWS_START}) = ? AND account = ?
    UNION ALL
    SELECT entry, size FROM releases
    WHERE substr(query, {ROWS_START}) = ? AND account > ? AND account < ?
) AS found ORDER BY entry DESC LIMIT ?
"""

_OF_ENTRY = """
SELECT releases.entry, releases.account, at, rho, epsilon, delta, gaussian, digest, size, packed,
    payload
FROM releases JOIN events ON events.entry = releases.entry WHERE releases.entry = ?
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
    sql.execute(
        "INSERT INTO releases (entry, account, query, size, packed, payload) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (entry, account, query, *pack(payload)),
    )


def pack(payload: bytes) -> Packed:
    """Compress a release where that saves anything."""
    packed = zlib.compress(payload, 1)
    smaller = len(packed) < len(payload)
    return len(payload), int(smaller), packed if smaller else payload


def check_parts(parts: Sequence[bytes]) -> None:
    """Refuse what are not bytes in parts that can be kept (:class:`ParameterError`)."""
    if not isinstance(parts, list | tuple):
        raise ParameterError(
            f"what a step releases is a list of bytes, not {type(parts).__name__}",
            code="bad_parameter",
        )
    for part in parts:
        check_release(part)
    if len(parts) > MAX_PARTS or sum(map(len, parts)) > MAX_STEP_RELEASE:
        raise ParameterError(
            f"a release of more than {MAX_STEP_RELEASE} bytes or {MAX_PARTS} parts is not stored",
            code="release_too_large",
            hint="publish fewer groups",
        )


def digest_of_parts(parts: Iterable[bytes]) -> bytes:
    """Compute what the chain keeps of a release in parts: the SHA-256 of their SHA-256."""
    return hashlib.sha256(b"".join(map(digest_of, parts))).digest()


def store_parts(sql: Backend, stream: int, step: int, parts: Sequence[Packed]) -> None:
    """Keep what a step of the stream of this entry has released."""
    for number, part in enumerate(parts):
        sql.execute(
            "INSERT INTO step_releases (stream, step, part, size, packed, payload) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (stream, step, number, *part),
        )


def kept_parts(sql: Backend, stream: int, step: int, digest: bytes) -> Iterator[bytes]:
    """Read what is kept of a step, a part at a time.

    Raises :class:`LedgerError` (``ledger_corrupt``), after the last part at the latest, if it is
    not what was published.
    """
    found = hashlib.sha256()
    numbers = sql.execute(
        "SELECT part FROM step_releases WHERE stream = ? AND step = ? ORDER BY part",
        (stream, step),
    )
    for index, (number,) in enumerate(numbers):
        row = sql.execute(
            "SELECT size, packed, payload FROM step_releases "
            "WHERE stream = ? AND step = ? AND part = ?",
            (stream, step, number),
        )[0]
        payload = unpack(*row) if number == index else None
        if payload is None:
            raise _altered()
        found.update(digest_of(payload))
        yield payload
    if found.digest() != digest:
        raise _altered()


def forget_parts(sql: Backend, stream: int) -> None:
    """Delete what all steps of the stream of this entry have released."""
    sql.execute("DELETE FROM step_releases WHERE stream = ?", (stream,))


def latest(sql: Backend, account: str, query: str) -> Stored | None:
    """Return the latest kept answer to a question that the account, or one below it, has asked.

    Raises :class:`LedgerError` if it is not what was stored.
    """
    below = account + "/"
    rows = sql.execute(_LATEST, (query, account, len(below), below))
    if not rows:
        return None
    return _sound(sql, rows[0])


def alike(sql: Backend, account: str, start: str, most: int) -> tuple[Stored, ...]:
    """Return the kept answers to questions with this start of a fingerprint, the oldest first.

    Of the account and those below it, the latest ``most``, and no more than make up
    ``MAX_ALIKE_BYTES``. Raises :class:`LedgerError` if one is not what was stored.
    """
    below = account + "/"
    after = start[:-1] + chr(ord(start[-1]) + 1)
    place = (start, after, len(start), start, account, len(below), below, most)
    return _read_in_order(sql, sql.execute(_ALIKE, place))


def on_rows(sql: Backend, account: str, rows: str, most: int) -> tuple[Stored, ...]:
    """Return the kept answers to questions whose fingerprint names these rows, the oldest first.

    Of the same accounts as :func:`alike`, and as many. Raises :class:`LedgerError` if one is not
    what was stored.
    """
    below, after = account + "/", account + chr(ord("/") + 1)
    return _read_in_order(sql, sql.execute(_ON_ROWS, (rows, account, rows, below, after, most)))


def _read_in_order(sql: Backend, sizes: Sequence[LedgerRow]) -> tuple[Stored, ...]:
    """Read answers of which entries and sizes are given, the latest first, until it is too much."""
    totals = accumulate(size for _, size in sizes)
    read = [
        entry for (entry, _), all_ in zip(sizes, totals, strict=True) if all_ <= MAX_ALIKE_BYTES
    ]
    return tuple(_sound(sql, sql.execute(_OF_ENTRY, (entry,))[0]) for entry in reversed(read))


def _sound(sql: Backend, row: LedgerRow) -> Stored:
    """Unpack the answer in a row. Raises :class:`LedgerError` if it is not what was stored."""
    entry, payer, at, rho, epsilon, delta, gaussian, digest, *kept = row
    payload = unpack(*kept)
    if payload is None or digest_of(payload) != digest:
        raise _altered()
    name = full_names(sql, [payer])[payer]
    return Stored(entry, name, iso(at), Amount(rho, epsilon, delta, gaussian), payload)


def unpack(size: int, packed: int, payload: bytes) -> bytes | None:
    """Unpack the answer in its row, None if it is damaged; never over ``MAX_RELEASE`` bytes."""
    if not packed:
        return payload if len(payload) == size else None
    unpacker = zlib.decompressobj()
    try:
        answer = unpacker.decompress(payload, MAX_RELEASE + 1)
    except zlib.error:
        return None
    return answer if unpacker.eof and len(answer) == size else None


def _altered() -> LedgerError:
    return LedgerError(
        "the stored release is not what was stored",
        code="ledger_corrupt",
        hint="run `dpsql budget verify`, and restore the ledger from a backup",
    )

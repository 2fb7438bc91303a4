"""Stored releases: answers kept with their entries, so that the same question again is free.

The chain holds the SHA-256 of an answer, not the answer: its owner may delete it, and the chain
stays whole. What is larger than ``MAX_RELEASE``, and what a step of a stream has released, is kept
in parts, of which the chain holds one SHA-256: that of the SHA-256 of each, in order.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from dpsql.errors import LedgerError, ParameterError
from dpsql.ledger.backend import Backend, LedgerRow
from dpsql.ledger.chain import iso
from dpsql.ledger.names import full_names
from dpsql.ledger.records import Stored, refused_change
from dpsql.ledger.schema import ROWS_START
from dpsql.privacy.accounting.zcdp import Amount

MAX_RELEASE = 8 * 2**20
"""The largest stored part of an answer or a step, in bytes."""
MAX_ALIKE_BYTES = 4 * MAX_RELEASE
"""The most that is read at once of answers to questions that are alike, in bytes."""
Packed: TypeAlias = tuple[int, int, bytes]
"""A stored release: its size in bytes, 1 if compressed, and the stored bytes."""

_COUNT = "(SELECT count(*) FROM release_parts AS more WHERE more.entry = releases.entry)"

_LATEST = f"""
SELECT releases.entry, releases.account, at, rho, epsilon, delta, gaussian, digest, {_COUNT}, size,
    packed, payload
FROM releases JOIN events ON events.entry = releases.entry
WHERE releases.query = ? AND (releases.account = ? OR substr(releases.account, 1, ?) = ?)
ORDER BY releases.entry DESC LIMIT 1
"""

_SIZE = """
size + coalesce((SELECT sum(more.size) FROM release_parts AS more
    WHERE more.entry = releases.entry), 0) AS size
"""

_ALIKE = f"""
SELECT entry, {_SIZE} FROM releases
WHERE query >= ? AND query < ? AND substr(query, 1, ?) = ?
    AND (account = ? OR substr(account, 1, ?) = ?)
ORDER BY entry DESC LIMIT ?
"""

_ON_ROWS = f"""
SELECT entry, size FROM (
    SELECT entry, {_SIZE} FROM releases WHERE substr(query, {ROWS_START}) = ? AND account = ?
    UNION ALL
    SELECT entry, {_SIZE} FROM releases
    WHERE substr(query, {ROWS_START}) = ? AND account > ? AND account < ?
) AS found ORDER BY entry DESC LIMIT ?
"""

_OF_ENTRY = f"""
SELECT releases.entry, releases.account, at, rho, epsilon, delta, gaussian, digest, {_COUNT}, size,
    packed, payload
FROM releases JOIN events ON events.entry = releases.entry WHERE releases.entry = ?
"""


def digest_of(payload: bytes) -> bytes:
    """Return the chain's digest of an answer."""
    return hashlib.sha256(payload).digest()


def in_parts(release: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Divide an answer, or its pieces, into parts that the ledger can store.

    At least one; all but the last have ``MAX_RELEASE`` bytes, so pieces may be of any size. Raises
    :class:`ParameterError` for what is not bytes.
    """
    held, found = bytearray(), False
    if isinstance(release, bytes) or not isinstance(release, Iterable):
        release = (release,)
    for piece in release:
        if not isinstance(piece, bytes):
            raise ParameterError(
                f"a release to store must be bytes, not {type(piece).__name__}",
                code="bad_parameter",
            )
        for start in range(0, len(piece), MAX_RELEASE):
            held += memoryview(piece)[start : start + MAX_RELEASE]
            while len(held) >= MAX_RELEASE:
                yield bytes(held[:MAX_RELEASE])
                del held[:MAX_RELEASE]
                found = True
    if held or not found:
        yield bytes(held)


def store(sql: Backend, entry: int, account: str, query: str, payload: bytes) -> None:
    """Keep the answer of an entry, compressed where that saves anything."""
    sql.execute(
        "INSERT INTO releases (entry, account, query, size, packed, payload) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (entry, account, query, *pack(payload)),
    )


def store_part(sql: Backend, entry: int, part: int, packed: Packed) -> None:
    """Keep a further part of the answer of an entry that is not settled yet; the first is 0."""
    sql.execute(
        "INSERT INTO release_parts (entry, part, size, packed, payload) VALUES (?, ?, ?, ?, ?)",
        (entry, part, *packed),
    )


def drop_parts(sql: Backend, entry: int) -> None:
    """Delete the further parts of an answer, if there are any."""
    if sql.execute("SELECT 1 FROM release_parts WHERE entry = ? LIMIT 1", (entry,)):
        sql.execute("DELETE FROM release_parts WHERE entry = ?", (entry,))


def require_parts(sql: Backend, entry: int, count: int) -> None:
    """Require that so many further parts are kept. Raises :class:`LedgerError`."""
    ((found,),) = sql.execute("SELECT count(*) FROM release_parts WHERE entry = ?", (entry,))
    if found != count:
        raise LedgerError(
            "the parts of the release were deleted while it was stored",
            code="ledger_failed",
            hint="settle again with the whole release",
        )


def further_part(sql: Backend, entry: int, part: int) -> bytes:
    """Read a part of an answer after the first. Raises :class:`LedgerError` if it is none."""
    rows = sql.execute(
        "SELECT size, packed, payload FROM release_parts WHERE entry = ? AND part = ?",
        (entry, part),
    )
    payload = unpack(*rows[0]) if rows else None
    if payload is None:
        raise altered()
    return payload


class PartsDigest:
    """The chain's digest of an answer: SHA-256 of its only part, or of the digests of its parts."""

    def __init__(self) -> None:
        self.count = 0
        self._only = b""
        self._all = hashlib.sha256()

    def add(self, payload: bytes) -> None:
        """Take the next part."""
        self._only, self.count = digest_of(payload), self.count + 1
        self._all.update(self._only)

    @property
    def of_parts(self) -> bytes:
        """The chain's digest of a step: SHA-256 of its parts' digests, also of a single one."""
        return self._all.digest()

    @property
    def digest(self) -> bytes:
        """The digest of all parts so far."""
        return self._only if self.count == 1 else self._all.digest()


def pack(payload: bytes) -> Packed:
    """Compress a release where that saves anything."""
    packed = zlib.compress(payload, 1)
    smaller = len(packed) < len(payload)
    return len(payload), int(smaller), packed if smaller else payload


def store_step_part(sql: Backend, stream: int, step: int, part: int, packed: Packed) -> None:
    """Keep a part of what a step of the stream of this entry has released; the first is 0.

    Nothing happens where it is kept already, by an attempt that was interrupted. Raises
    :class:`LedgerError` where another one is: a step has one release.
    """
    kept = sql.execute(
        "SELECT size, packed, payload FROM step_releases "
        "WHERE stream = ? AND step = ? AND part = ?",
        (stream, step, part),
    )
    if not kept:
        sql.execute(
            "INSERT INTO step_releases (stream, step, part, size, packed, payload) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (stream, step, part, *packed),
        )
    elif unpack(*kept[0]) != unpack(*packed):
        raise _another_release()


def require_step_parts(sql: Backend, stream: int, step: int, count: int) -> None:
    """Require that so many parts are kept of a step. Raises :class:`LedgerError`."""
    if count_step_parts(sql, stream, step) != count:
        raise _another_release()


def count_step_parts(sql: Backend, stream: int, step: int) -> int:
    """Count the parts that are kept of a step."""
    ((count,),) = sql.execute(
        "SELECT count(*) FROM step_releases WHERE stream = ? AND step = ?", (stream, step)
    )
    return int(count)


def step_part(sql: Backend, stream: int, step: int, part: int) -> bytes:
    """Read a part of what a step has released. Raises :class:`LedgerError` if it is none."""
    rows = sql.execute(
        "SELECT size, packed, payload FROM step_releases "
        "WHERE stream = ? AND step = ? AND part = ?",
        (stream, step, part),
    )
    payload = unpack(*rows[0]) if rows else None
    if payload is None:
        raise altered()
    return payload


def _another_release() -> LedgerError:
    return refused_change("ledger_step_ended", "something else was kept of the step before")


def forget_parts(sql: Backend, stream: int) -> None:
    """Delete what all steps of the stream of this entry have released."""
    sql.execute("DELETE FROM step_releases WHERE stream = ?", (stream,))


def latest(sql: Backend, account: str, query: str) -> Stored | None:
    """Return the latest stored answer to a question of an account or an account below it.

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
    """Read stored answers, the latest first, up to a total size."""
    totals = accumulate(size for _, size in sizes)
    read = [
        entry for (entry, _), all_ in zip(sizes, totals, strict=True) if all_ <= MAX_ALIKE_BYTES
    ]
    return tuple(_sound(sql, sql.execute(_OF_ENTRY, (entry,))[0]) for entry in reversed(read))


def _sound(sql: Backend, row: LedgerRow) -> Stored:
    """Unpack the answer in a row. Raises :class:`LedgerError` if it is not what was stored.

    Of an answer in several parts the first is looked at alone: all of it is compared as it is read.
    """
    entry, payer, at, rho, epsilon, delta, gaussian, digest, further, *kept = row
    payload = unpack(*kept)
    if payload is None or (not further and digest_of(payload) != digest):
        raise altered()
    name = full_names(sql, [payer])[payer]
    amount = Amount(rho, epsilon, delta, gaussian)
    return Stored(entry, name, iso(at), amount, payload, further, digest)


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


def altered() -> LedgerError:
    return LedgerError(
        "the stored release differs from the one that was stored",
        code="ledger_corrupt",
        hint="run `dpsql budget verify`, and restore the ledger from a backup",
    )

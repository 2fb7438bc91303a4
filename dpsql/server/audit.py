"""The audit log of a server: logins, statements, their outcomes and charges.

A file of JSON objects, one a line. Each has the SHA-256 of the line before it, so that a line that
is changed, left out or put in shows. What is cut off at the end shows to whoever has noted a
``head``, the hash of the last line at that time. No line has a row, a value of an answer or how
long a reading took.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError, OperationalError
from dpsql.pipeline.events import (
    AccountSuspended,
    ChargeReserved,
    ChargeSettled,
    Observer,
    QuestionAnswered,
    ReadingFailed,
    SessionEvent,
    StatementAsked,
    StatementFailed,
    StatementRefused,
    StepFailed,
    StepPublished,
    ViewCreated,
)
from dpsql.privacy.accounting.zcdp import Amount

if sys.platform != "win32":
    import fcntl

LOG: Final = logging.getLogger("dpsql.server")
BEFORE_ALL: Final = "0" * 64
"""Stands in the first line for the hash of the line before."""
MOST_AUDITED: Final = 10_000
"""Characters of a statement that are kept; a longer one has its length and hash as well."""
_BEGIN: Final = b'{"at": "'
_MOST_LINE: Final = 1 << 20
_STEP: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class AuditedLines:
    """The lines of an unaltered audit log: their number, first and last time, and head."""

    lines: int
    first: str
    last: str
    head: str


@dataclass(frozen=True, slots=True)
class AuditedPage:
    """Some lines of an unaltered audit log, each with its number, from 1; beside the whole log's
    number of lines and head."""

    numbered: tuple[tuple[int, Mapping[str, Any]], ...]
    lines: int
    head: str


class AuditLog:
    """Appends to an audit log. Safe for threads; one process at a time has the file.

    Raises ``InterfaceError`` (``audit_unusable``) for a file that is not one, that others may
    read, or that another server has.
    """

    def __init__(
        self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._clock = clock
        self._path = path
        self._lock = threading.Lock()
        self.failures = 0
        """How many lines could not be written."""
        self._file = _opened(path)
        try:
            self._size = os.fstat(self._file).st_size
            self._before = self._last_hash(path)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def head(self) -> str:
        """The hash of the last line, to be noted elsewhere."""
        return self._before

    def write(self, event: str, **facts: object) -> None:
        """Append a line.

        Raises ``OperationalError`` (``audit_not_written``) where it cannot; the file ends as it
        did before.
        """
        with self._lock:
            at = self._clock().isoformat(timespec="milliseconds")
            line = {"at": at, "event": event, **facts, "before": self._before}
            data = json.dumps(line, ensure_ascii=True).encode("ascii")
            if not self._appended(data + b"\n"):
                self.failures += 1
                raise OperationalError(
                    "the audit log cannot be written",
                    code="audit_not_written",
                    hint="Nothing was reserved or spent. The server's owner finds the reason in "
                    "its log: the disk may be full.",
                )
            self._before = _hash(data)

    def observer(self, **who: object) -> Observer:
        """Return an observer of a session's events, all told with the facts of ``who``.

        What is asked is written before anything is done, or refused. What comes later has been
        charged, and goes on even if it cannot be written; what is asked next is refused then.
        """

        def observe(event: SessionEvent) -> None:
            found = _facts(event)
            if found is None:
                return
            name, facts = found
            try:
                self.write(name, **who, **facts)
            except OperationalError:
                if isinstance(event, StatementAsked):
                    raise

        return observe

    def page(self, first: int | None, limit: int) -> AuditedPage:
        """Check the whole log, and return ``limit`` lines from the number ``first`` on.

        None for the latest ones. Parts of lines, as a crash leaves them, are left out. Raises
        ``InterfaceError`` (``audit_altered``) where something does not fit.
        """
        with self._lock:
            size = self._size
        found: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=limit)
        number, end = 0, BEFORE_ALL
        for line, hash_ in _checked_lines(self._path, size):
            number, end = number + 1, hash_
            if line is not None and (first is None or first <= number < first + limit):
                found.append((number, line))
        return AuditedPage(tuple(found), number, end)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._file)
            self._file = -1  # whoever writes now does not write into another file

    def _appended(self, data: bytes) -> bool:
        try:
            written = os.write(self._file, data)
            if written == len(data):
                self._size += written
                return True
            reason = "only a part was written"
        except OSError as error:
            reason = str(error.strerror)
        LOG.error("the audit log cannot be written: %s", reason)
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            LOG.exception("a part of a line may be left at the end of the audit log")
        return False

    def _last_hash(self, path: Path) -> str:
        """Hash the last line; end a part of one first, as a crash leaves it."""
        if not self._size:
            return BEFORE_ALL
        end = b""
        start = self._size
        while start and end.rstrip(b"\n").count(b"\n") < 2:
            step = min(_STEP, start)
            start -= step
            end = os.pread(self._file, step, start) + end
            if len(end) > 2 * _MOST_LINE + _STEP:
                raise _unusable(path, "is no audit log")
        *before, last = end.rstrip(b"\n").split(b"\n")
        whole = end.endswith(b"\n")
        if whole and _parsed(last) is None:
            raise _unusable(path, "is no audit log")
        if not whole:
            # A part of a line follows a whole one, or begins as the first one does.
            follows = _parsed(before[-1]) is not None if before else last.startswith(_BEGIN)
            if not follows:
                raise _unusable(path, "is no audit log")
            if not self._appended(b"\n"):
                raise _unusable(path, "cannot be written")
        return _hash(last)


def verify_audit(path: Path, head: str | None = None) -> AuditedLines:
    """Check the chain of an audit log, line by line.

    ``head`` is one that was noted: it has to be the hash of a line. Raises ``InterfaceError``:
    ``audit_altered`` where something does not fit, with the number of the line, ``audit_unusable``
    for what cannot be read.
    """
    before, first, last, number = BEFORE_ALL, "", "", 0
    found_head = head is None
    for line, before in _checked_lines(path):
        number += 1
        if line is not None:
            first, last = first or line["at"], line["at"]
        found_head = found_head or before == head
    if not found_head:
        raise InterfaceError(
            "no line of the audit log has the head that was noted",
            code="audit_altered",
            hint="Lines were changed or cut off after it was noted, or it is another log's.",
        )
    return AuditedLines(number, first, last, before)


def _checked_lines(
    path: Path, size: int | None = None
) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Read the lines of an audit log, each with its hash, and check that they fit.

    A part of a line, as a crash leaves it, is None. ``size``: read no more than so many bytes.
    """
    before, number, cut_off = BEFORE_ALL, 0, False
    left = sys.maxsize if size is None else size
    try:
        with path.open("rb") as file:
            while data := file.readline(min(_MOST_LINE + 1, left)):
                left -= len(data)
                number += 1
                line = _parsed(data[:-1]) if data.endswith(b"\n") else None
                if line is None and not cut_off:
                    cut_off = True  # by a crash, if a server was started next
                elif line is None or line["before"] != before:
                    raise _altered(number)
                elif cut_off and line["event"] != "started":
                    raise _altered(number - 1)
                else:
                    cut_off = False
                before = _hash(data.removesuffix(b"\n"))
                yield line, before
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None


def _opened(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no path"
        raise _unusable(path, f"cannot be opened: {reason}") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "is no file")
        if sys.platform != "win32":
            if found.st_mode & 0o077:
                raise _unusable(path, "may be read by others than its owner")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise _unusable(path, "is another server's") from None
    except BaseException:
        os.close(file)
        raise
    return file


def _facts(event: SessionEvent) -> tuple[str, dict[str, object]] | None:
    """Return the name and facts of an event; None for one that is not written."""
    match event:
        case StatementAsked(text=text):
            facts: dict[str, object] = {"text": text[:MOST_AUDITED]}
            if len(text) > MOST_AUDITED:
                facts |= {"characters": len(text), "sha256": _hash(text.encode("utf-8", "replace"))}
            return "asked", facts
        case StatementRefused(code=code):
            return "refused", {"code": code}
        case StatementFailed(code=code):
            return "failed", {"code": code}
        case ChargeReserved(entry=entry, fingerprint=fingerprint, amount=amount):
            return "reserved", {"entry": entry, "question": fingerprint, **_charged(amount)}
        case ChargeSettled(entry=entry, amount=amount, kept=kept):
            return "settled", {"entry": entry, "kept": kept, **_charged(amount)}
        case QuestionAnswered(fingerprint=fingerprint, cost=cost):
            return "answered", {"question": fingerprint, "stored": cost.stored}
        case ReadingFailed(fingerprint=fingerprint, code=code):
            return "reading_failed", {"question": fingerprint, "code": code}
        case AccountSuspended(cause=cause):
            return "suspended", {"cause": cause.value}
        case ViewCreated(stream=stream):
            return "view_created", {"stream": stream}
        case StepPublished(stream=stream, step=step):
            return "step_published", {"stream": stream, "step": step}
        case StepFailed(stream=stream, step=step, code=code):
            return "step_failed", {"stream": stream, "step": step, "code": code}
    return None


def _charged(amount: Amount) -> Mapping[str, object]:
    """Return the parts of an amount that are not nothing, in the ledger's whole units."""
    parts = ("rho", "epsilon", "delta", "gaussian")
    return {f"{name}_units": value for name in parts if (value := getattr(amount, name))}


def _parsed(data: bytes) -> dict[str, Any] | None:
    """Return a line as it was written; None for what is none."""
    try:
        line = json.loads(data)
    except ValueError:
        return None
    named = ("at", "event", "before")
    if isinstance(line, dict) and all(isinstance(line.get(name), str) for name in named):
        return line
    return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unusable(path: Path, reason: str) -> InterfaceError:
    return InterfaceError(
        f"{printable(str(path))} {reason}",
        code="audit_unusable",
        hint="Give the server an audit log of its own with --audit; the file was not changed.",
    )


def _altered(number: int) -> InterfaceError:
    return InterfaceError(
        f"line {number:,} of the audit log does not fit the one before it",
        code="audit_altered",
        hint="Lines were changed, left out or put in there. What stands before is as it was "
        "written; compare with a copy.",
    )

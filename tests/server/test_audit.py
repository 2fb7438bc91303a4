"""The audit log: what is in it, what shows when it is changed, and what happens when it fails."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, connect

import dpsql
from dpsql.pipeline.events import ChargeReserved, SessionEvent, StatementAsked
from dpsql.server.audit import MOST_AUDITED, AuditLog, verify_audit

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
WHO = {"session": "5", "user": "ana"}
ASKED = "SELECT k, count(*) FROM visits GROUP BY k"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    opened = AuditLog(path, lambda: AT)
    yield opened
    opened.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_hash_of_the_line_before(log: AuditLog, path: Path) -> None:
    log.write("started", dataset="clinic")
    first = log.head
    log.write("stopped")
    assert lines_of(path) == [
        {"at": "2026-03-01T12:00:00.000+00:00", "event": "started", "dataset": "clinic"}
        | {"before": "0" * 64},
        {"at": "2026-03-01T12:00:00.000+00:00", "event": "stopped", "before": first},
    ]
    found = verify_audit(path, first)
    assert (found.lines, found.head) == (2, log.head)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_what_a_session_does_is_written_without_any_value(
    log: AuditLog, path: Path, tmp_path: Path
) -> None:
    with connect(tmp_path) as opened:
        told = log.observer(**WHO)
        asking = opened._dataset.session(ANALYST, observer=told)
        asking.sql(ASKED)
        asking.sql(ASKED)
        with pytest.raises(dpsql.Error):
            asking.sql("SELECT * FROM visits")
    written = lines_of(path)
    names = [line["event"] for line in written]
    assert names[0] == "asked"
    assert names[-6:] == ["settled", "answered", "asked", "answered", "asked", "refused"]
    assert written[0]["text"] == ASKED
    assert all(line["user"] == "ana" for line in written)
    assert written[-1]["code"] == "raw_rows"
    reserved = next(line for line in written if line["event"] == "reserved")
    assert reserved["rho_units"] > 0
    allowed = {"at", "event", "before", "session", "user", "text", "code", "entry", "question"}
    allowed |= {"kept", "stored", "rho_units", "delta_units"}
    assert {name for line in written for name in line} <= allowed
    verify_audit(path)


@pytest.mark.parametrize("kind", ["changed", "left out", "put in", "swapped", "first left out"])
def test_what_is_changed_later_shows(kind: str, log: AuditLog, path: Path) -> None:
    for number in range(5):
        log.write("asked", text=f"SELECT {number}")
    head = log.head
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "changed": [*lines[:2], lines[2].replace(b"SELECT 2", b"SELECT 7"), *lines[3:]],
        "left out": lines[:2] + lines[3:],
        "put in": [*lines[:2], lines[1], *lines[2:]],
        "swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "first left out": lines[1:],
    }[kind]
    path.write_bytes(b"".join(changed))
    with fails_with("audit_altered"):
        verify_audit(path)
    path.write_bytes(b"".join(lines[:-1]))
    assert verify_audit(path).lines == 4  # what is cut off shows to whoever noted the head
    with fails_with("audit_altered"):
        verify_audit(path, head)


def test_a_part_of_a_line_that_a_crash_left_is_kept_and_known(path: Path) -> None:
    log = AuditLog(path)
    log.write("started")
    log.close()
    with path.open("ab") as file:
        file.write(b'{"at": "2026')
    again = AuditLog(path)
    again.write("started")
    again.write("stopped")
    again.close()
    assert verify_audit(path).lines == 4
    path.write_bytes(path.read_bytes().replace(b'{"at": "2026\n', b'{"at": "2025\n'))
    with fails_with("audit_altered"):
        verify_audit(path)


def test_a_part_of_a_line_in_the_middle_of_a_run_is_a_change(log: AuditLog, path: Path) -> None:
    log.write("started")
    log._appended(b"{\n")
    log._before = hashlib.sha256(b"{").hexdigest()
    log.write("asked", text="SELECT 1")
    with fails_with("audit_altered", match="line 2"):
        verify_audit(path)


def test_a_disk_that_is_full_refuses_what_is_asked_and_leaves_no_part(
    log: AuditLog, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write("started")
    before = path.read_bytes()
    real = os.write

    def full(file: int, data: bytes) -> int:
        real(file, data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    with connect(tmp_path) as opened:
        asking = opened._dataset.session(ANALYST, observer=log.observer(**WHO))
        budget = asking.budget()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with fails_with("audit_not_written"):
                asking.sql(ASKED)
        assert asking.budget() == budget
        assert path.read_bytes() == before
        asking.sql(ASKED)
    assert verify_audit(path).lines > 3


def test_what_was_charged_is_answered_even_if_the_log_fails_meanwhile(
    log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = log.observer(**WHO)

    def later(event: SessionEvent) -> None:
        if isinstance(event, ChargeReserved):
            monkeypatch.setattr(log, "_appended", lambda data: False)
        told(event)

    with connect(tmp_path) as opened:
        asking = opened._dataset.session(ANALYST, observer=later)
        assert len(asking.sql(ASKED)) > 0
        with fails_with("audit_not_written"):
            asking.sql("SELECT count(*) FROM visits")


def test_a_file_that_is_no_log_is_refused_unchanged(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("a\nb\n")
    foreign.chmod(0o600)
    open_to_all = tmp_path / "open"
    open_to_all.touch(mode=0o644)
    open_to_all.chmod(0o644)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\0" * 2_000_000)
    binary.chmod(0o600)
    unended = tmp_path / "unended"
    unended.write_text("a key")
    unended.chmod(0o600)
    for path in (
        foreign,
        unended,
        open_to_all,
        binary,
        tmp_path,
        tmp_path / "none" / "audit",
        Path("a\0b"),
    ):
        with fails_with("audit_unusable"):
            AuditLog(path)
    assert foreign.read_text() == "a\nb\n"
    assert unended.read_text() == "a key"
    with fails_with("audit_unusable"):
        verify_audit(tmp_path / "none")


def test_a_first_line_that_a_crash_cut_is_kept(path: Path) -> None:
    path.write_bytes(b'{"at": "2026')
    path.chmod(0o600)
    log = AuditLog(path)
    log.write("started")
    log.close()
    assert verify_audit(path).lines == 2
    with fails_with("audit_not_written"):
        log.write("stopped")


def test_one_server_has_the_file(log: AuditLog, path: Path) -> None:
    with fails_with("audit_unusable", match="another server's"):
        AuditLog(path)


def test_long_and_strange_texts_are_lines_like_others(log: AuditLog, path: Path) -> None:
    told = log.observer(**WHO)
    for text in ("x" * (MOST_AUDITED + 1), "\ud800", "a\nb\0\u2028", "😀" * MOST_AUDITED):
        told(StatementAsked("clinic/ana", text))
    written = lines_of(path)
    assert len(written) == 4
    assert (len(written[0]["text"]), written[0]["characters"]) == (MOST_AUDITED, MOST_AUDITED + 1)
    assert written[1]["text"] == "\ud800"
    verify_audit(path)


def test_threads_write_whole_lines_in_one_chain(log: AuditLog, path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(50):
            log.write("asked", text=str(number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify_audit(path).lines == 400

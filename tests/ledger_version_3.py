"""A ledger as version 3 wrote it: tables, rules, and events hashed without what came later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ledgers import raw

HERE = Path(__file__).parent
START = 1_767_225_600_000_000  # 2026-01-01
AMOUNT = (10, 0, 1)
NONE = (0, 0, 0)
# kind, account, entry, query, detail, amount, release
EVENTS: tuple[tuple[Any, ...], ...] = (
    ("ledger", "", None, "", '{"ledger": "old", "version": 3}', NONE, None),
    ("account", "sales", None, "", "{}", NONE, None),
    ("account", "sales/alice", None, "", "{}", NONE, None),
    ("policy", "sales/alice", None, "", '{"limited": true}', (100, 0, 50), None),
    ("limits", "sales", None, "", '{"limited": true, "terms": {}}', (900, 0, 90), None),
    ("reserve", "sales/alice", None, "f1", "{}", AMOUNT, None),
    ("reserve", "sales/alice", None, "f2", "{}", AMOUNT, None),
    ("settle", "sales/alice", 6, "", "{}", (4, 0, 1), b"answer"),
    ("window", "sales/alice", None, "", '{"by": "owner", "period": ""}', NONE, None),
    ("reserve", "sales/alice", None, "f3", "{}", AMOUNT, None),
)
WINDOWS = (
    (2, "sales", "", 24, 0, 3, 3, 2),
    (3, "sales/alice", "", 14, 0, 2, 2, 1),
    (9, "sales/alice", "", 10, 0, 1, 1, 1),
)
ACCOUNTS = (
    ("sales", 2, "", "{}", 900, 0, 90, None, None, None),
    ("sales/alice", 9, "", "{}", None, None, None, 100, 0, 50),
)

_RULE = "SELECT sql FROM sqlite_schema WHERE name = 'window_starts_at_zero'"


def make(path: Path) -> str:
    """A file of version 3; the head of its chain."""
    with raw(path) as connection:
        connection.executescript((HERE / "ledger_v3.sql").read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode = WAL")
        (rule,) = connection.execute(_RULE).fetchone()
        connection.execute("DROP TRIGGER window_starts_at_zero")
        head = fill(lambda sql, values: connection.execute(sql, values))
        connection.execute(rule)
        return head


def fill(execute: Callable[[str, Sequence[Any]], object]) -> str:
    """Write all rows; returns the head of the chain."""
    previous = bytes(32)
    for seq, (kind, account, entry, query, detail, amount, release) in enumerate(EVENTS, 1):
        digest = None if release is None else hashlib.sha256(release).digest()
        fields = (seq, START + seq, "ana", kind, account, entry, query, detail, *amount)
        plain = [*fields, None if digest is None else digest.hex()]
        text = json.dumps(plain, separators=(",", ":")).encode()
        previous = hashlib.sha256(previous + text).digest()
        execute(f"INSERT INTO events VALUES ({', '.join('?' * 13)})", (*fields, digest, previous))
        if release is not None:
            execute(
                "INSERT INTO releases VALUES (?, ?, ?, ?, 0, ?)",
                (entry, account, "f1", len(release), release),
            )
    for window in WINDOWS:
        execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?, ?)", window)
    for each in ACCOUNTS:
        execute("INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", each)
    execute(
        "INSERT INTO head VALUES (1, 'old', 3, ?, ?, ?)",
        (len(EVENTS), START + len(EVENTS), previous),
    )
    return f"{len(EVENTS)}:{previous.hex()}"

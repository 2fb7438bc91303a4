"""Whoever reads a stream of another account has that on record, once in a window, for nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.ledgers import RHO, raw

from dpsql.ledger import Cause, Kind, Ledger, ReadableStream, Renewal
from dpsql.ledger.sqlite_file import SQLiteBackend

ALICE = RHO.account("sales/alice")
A, B = "sales/alice", "sales/bob"
READ = ReadableStream("s1", A, RHO.amount(20, 2))


def reads(ledger: Ledger) -> list[tuple[str, str]]:
    return [(e.account, e.query) for e in ledger.events() if e.kind == Kind.READ]


def test_a_reading_is_on_record_once_for_each_account_and_stream(ledger: Ledger) -> None:
    for stream in ("s1", "s2"):
        RHO.stream(ledger, stream, ALICE)
    assert ledger.streams_read(B) == ()
    for _ in range(3):
        for account, stream in ((B, "s1"), (B, "s2"), ("sales/carl", "s1")):
            ledger.note_read(account, stream)
    assert reads(ledger) == [(B, "s1"), (B, "s2"), ("sales/carl", "s1")]
    assert ledger.streams_read(B)[0] == READ
    assert [each.stream for each in ledger.streams_read(B)] == ["s1", "s2"]
    assert ledger.streams_read("sales/carl") == (READ,)
    assert (ledger.spent(B).queries, ledger.spent("sales/carl").queries) == (0, 0)
    assert ledger.verify().sound


def test_what_was_read_stays_known_when_it_is_dropped(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ledger.note_read(B, "s1")
    ledger.drop_stream(A, "s1")
    assert ledger.streams_read(B) == (READ,)
    with fails_with("ledger_unknown_stream"):
        ledger.note_read(B, "s1")
    with fails_with("ledger_unknown_stream"):
        ledger.note_read("sales/carl", "s9")
    assert reads(ledger) == [(B, "s1")]
    assert ledger.verify().sound


def test_each_window_knows_what_was_read_in_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ledger.note_read(B, "s1")
    ledger.owner("olga").open_window(B)
    began = ledger.standing(B)[-1].window.began
    assert ledger.streams_read(B, began) == ()
    for _ in range(2):
        ledger.note_read(B, "s1")
    assert ledger.streams_read(B, began) == (READ,)
    assert len(reads(ledger)) == 2
    assert ledger.verify().sound


def test_a_window_that_is_due_counts_before_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2096, 1, 15, tzinfo=UTC)
    monkeypatch.setattr(SQLiteBackend, "now", lambda _: int(now.timestamp() * 1e6))
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.note_read(B, "s1")
        ledger.owner("olga").renew(B, Renewal.MONTH)
        now += timedelta(days=30)  # in February
        began = ledger.standing(B)[-1].window.began
        assert began == datetime(2096, 2, 1, tzinfo=UTC)
        assert ledger.streams_read(B, began) == ()
        for _ in range(2):
            ledger.note_read(B, "s1")
        now += timedelta(days=5)
        RHO.reserve(ledger, 1, 1, RHO.account(B))  # opens it
        assert ledger.windows(B)[-1].began == began
        ledger.note_read(B, "s1")
        assert len(reads(ledger)) == 2
        assert ledger.streams_read(B, began) == (READ,)
        assert ledger.verify().sound


def test_neither_a_suspension_nor_a_clock_prevents_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.fail(RHO.reserve(ledger, 1, 1, RHO.account(B)), B, Cause.ENGINE)
        monkeypatch.setattr(SQLiteBackend, "now", lambda _: 1_000_000)
        ledger.note_read(B, "s1")
        assert reads(ledger) == [(B, "s1")]
        assert ledger.verify().sound


def test_a_renamed_account_keeps_what_it_has_read(ledger: Ledger) -> None:
    RHO.stream(ledger, "s1", ALICE)
    ledger.note_read(B, "s1")
    owner = ledger.owner("olga")
    owner.rename(B, "sales/zoe")
    owner.rename(A, "sales/ann")
    assert ledger.streams_read("sales/zoe") == (replace(READ, account="sales/ann"),)
    with fails_with("account_renamed"):
        ledger.note_read(B, "s1")
    ledger.note_read("sales/zoe", "s1")
    assert len(reads(ledger)) == 1
    assert ledger.verify().sound


def test_the_price_has_what_was_charged_beside(ledger: Ledger) -> None:
    plan = '{"stream": {"steps": 5, "beside": [3, 0, 1, 0]}}'
    terms = {"name": "n", "stream": "s1", "plan": plan, "limits": [ALICE]}
    ledger.create_stream(A, RHO.amount(20, 2), **terms)  # type: ignore[arg-type]
    ledger.note_read(B, "s1")
    assert [each.price for each in ledger.streams_read(B)] == [RHO.amount(23, 3)]
    assert [each.price for each in ledger.readable_streams(A)] == [RHO.amount(23, 3)]


def test_a_reading_that_is_edited_away_is_noticed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        RHO.reserve(ledger, 1, 1, RHO.account(B))
        ledger.note_read(B, "s1")
        RHO.reserve(ledger, 1, 1, ALICE)  # it is not the last event
    with raw(path) as connection:
        connection.execute("DROP TRIGGER events_no_update")
        (text,) = connection.execute("SELECT kind FROM events WHERE kind = 'read'").fetchall()
        assert text == ("read",)
        connection.execute("UPDATE events SET query = 's2' WHERE kind = 'read'")
        connection.execute(
            "CREATE TRIGGER events_no_update BEFORE UPDATE ON events "
            "WHEN (1 = 1) BEGIN SELECT RAISE(ABORT, 'events refuses UPDATE'); END"
        )
    with Ledger.open(path) as ledger:
        with fails_with("ledger_corrupt"):
            ledger.streams_read(B)
        with fails_with("ledger_corrupt"):
            RHO.reserve(ledger, 1, 1, RHO.account(B))
        assert not ledger.verify().sound


@pytest.mark.slow
def test_asking_for_it_takes_the_same_time_in_a_large_ledger(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.stream(ledger, "s1", ALICE)
        ledger.note_read(B, "s1")
        for _ in range(3000):
            RHO.reserve(ledger, 1, 1, RHO.account(B))
        began = time.perf_counter()
        for _ in range(100):
            ledger.note_read(B, "s1")
        assert time.perf_counter() - began < 100 * 0.002

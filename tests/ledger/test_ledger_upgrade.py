"""Ledgers of the version before: opening one upgrades it, in place, or changes nothing.

``data/version_8.sql`` is such a ledger, as the dpsql that wrote it has left it: with windows,
sessions, stored and deleted answers, streams, a look, and an account that a failure has suspended.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ledgers import everything, raw

from dpsql.errors import LedgerError
from dpsql.ledger import Account, Head, Kind, Ledger, accounts
from dpsql.ledger.backend import Backend
from dpsql.ledger.journal import Journal
from dpsql.ledger.schema import FORMER_VERSIONS, POSTGRES_SCHEMAS, SCHEMA_VERSION
from dpsql.ledger.sqlite import SQLiteBackend, run_statements
from dpsql.ledger.windows import period
from dpsql.privacy.accounting.zcdp import Amount

if TYPE_CHECKING:
    from postgres import Server

WRITTEN = (Path(__file__).parent / "data" / "version_8.sql").read_text()
TABLES = ("events", "head", "windows", "accounts", "releases", "step_releases")
PAID = Account("clinic/ana", Amount(rho=10**10, delta=10**10), 0.5)


def ask(ledger: Ledger, query: str = "new", path: str = "clinic/ana") -> Any:
    limits = [Account(path, PAID.limit, PAID.conversion_share)]
    return ledger.reserve(path, Amount(rho=5, delta=1), query=query, plan="{}", limits=limits)


@pytest.fixture
def former_file(tmp_path: Path) -> Path:
    path = tmp_path / "budget.ledger"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(WRITTEN)
        connection.execute("PRAGMA journal_mode = WAL")
    return path


@pytest.fixture
def former_database(former_file: Path, postgres_server: Server) -> str:
    """The same ledger in PostgreSQL: its tables have the same columns there."""
    import psycopg

    url = postgres_server.without_ledger()
    with (
        psycopg.connect(url, autocommit=True) as database,
        closing(sqlite3.connect(former_file)) as connection,
    ):
        database.execute(b"CREATE SCHEMA dpsql_ledger")
        database.execute(b"SET search_path = dpsql_ledger")
        database.execute(POSTGRES_SCHEMAS[8].encode())
        database.execute(b"SET session_replication_role = replica")  # no rule stands in the way
        for table in TABLES:
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = ", ".join(name for name, *_ in cursor.description)
            marks = ", ".join(["%s"] * len(cursor.description))
            text = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            database.cursor().executemany(text.encode(), cursor.fetchall())
    return url


@pytest.fixture(params=["former_file", "former_database"])
def former(request: pytest.FixtureRequest) -> str | Path:
    found: str | Path = request.getfixturevalue(request.param)
    return found


def test_nothing_that_was_spent_or_answered_is_lost(former: str | Path) -> None:
    with Ledger.open(former, who="zoe") as ledger:
        assert not ledger.created
        assert ledger.accounts() == (
            "clinic",
            "clinic/ana",
            "clinic/ana/notebook",
            "clinic/bob",
            "clinic/carl",
        )
        first, second = ledger.windows("clinic/ana")
        assert first.spent.amount == Amount(rho=900 + 300, delta=7)
        assert (first.spent.queries, first.spent.looks, first.spent.unsettled) == (2, 1, 0)
        assert second.spent.amount == Amount(rho=500 + 200 + 50 + 10, delta=3 + 2 + 5 + 1)
        assert (second.spent.queries, second.spent.looks, second.spent.unsettled) == (4, 0, 1)
        answer = ledger.stored("clinic/ana", "question 1")
        assert answer is not None
        assert answer.payload == b"answer 1 " * 20
        assert ledger.stored("clinic/ana", "question 2") is None
        ((step, parts),) = ledger.step_releases("clinic/ana", "stream 1")
        assert (step, list(parts)) == (1, [b"step 1"])
        assert [record.name for record in ledger.all_streams()] == ["visits"]
        with pytest.raises(LedgerError) as refusal:
            ask(ledger, path="clinic/bob")
        assert refusal.value.code == "account_suspended"
        assert ledger.renames() == ()
        found = ledger.verify()
        assert (found.sound, found.events) == (True, 35)


def _window_without_streams(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a window as version 8 did: nothing counts in it."""
    with raw(path) as connection:
        sql = SQLiteBackend(connection)
        sql.begin_write()
        journal, node = Journal(sql, "olga"), accounts.require_node(sql, "clinic/ana")
        label = period(node.renews, journal.at)
        pane = accounts.Pane(node.path, journal.next, label, (0,) * 6, journal.next, None)
        states = [node._replace(window=pane).state, pane.state]
        journal.note(Kind.WINDOW, node.path, states=states, by="owner", period=label)
        sql.execute(
            "INSERT INTO windows (opened, path, period, last, tie) VALUES (?, ?, ?, ?, ?)",
            (pane.opened, pane.path, pane.period, *journal.last),
        )
        sql.execute(
            "UPDATE accounts SET opened = ?, last = ?, tie = ? WHERE path = ?",
            (pane.opened, *journal.last, pane.path),
        )
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.ledger.journal.SCHEMA_VERSION", 8)
            journal.finish()
        sql.commit()


def test_a_window_that_opened_without_streams_counts_them_from_then_on(
    former_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stream 1, of rho 50 and delta 5, was bought before and goes on."""
    _window_without_streams(former_file, monkeypatch)
    with Ledger.open(former_file) as ledger:
        assert ledger.verify().sound
        *_, before, last = ledger.windows("clinic/ana")
        assert last.spent.amount == last.carried == Amount(rho=50, delta=5)
        assert last.bought == Amount()
        assert before.carried == Amount()
        assert ledger.total("clinic/ana").amount == Amount(rho=1200 + 760, delta=7 + 11)


def test_an_upgrade_that_forgets_streams_is_found(
    former_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _window_without_streams(former_file, monkeypatch)
    monkeypatch.setattr("dpsql.ledger.upgrade.streams_of", lambda sql, key: ())
    with Ledger.open(former_file) as ledger:
        assert not ledger.verify().sound


def test_it_goes_on_as_one_of_this_version(former: str | Path) -> None:
    with Ledger.open(former, who="zoe") as ledger:
        (upgrade,) = ledger.events(after=34)
        assert (upgrade.kind, upgrade.who) == (Kind.UPGRADE, "zoe")
        assert upgrade.detail == f'{{"version": {SCHEMA_VERSION}}}'
        ledger.settle(ask(ledger), Amount(rho=5, delta=1), b"new")
        ledger.owner("olga").rename("clinic/ana", "clinic/zoe")
        ask(ledger, path="clinic/zoe")
        assert ledger.begin_step("clinic/zoe", "stream 1", 2).step == 2
        anchor = ledger.head()
    with Ledger.open(former) as ledger:  # once is enough
        assert ledger.head() == anchor
        assert ledger.verify([anchor]).sound
        assert ledger.total("clinic/zoe").queries == 2 + 4 + 2


def test_a_head_of_before_still_anchors_it(former_file: Path) -> None:
    with closing(sqlite3.connect(former_file)) as connection:
        ((seq, digest),) = connection.execute("SELECT seq, hash FROM head").fetchall()
    with Ledger.open(former_file) as ledger:
        assert ledger.verify([Head(seq, digest)]).sound


def test_of_many_who_open_it_at_once_one_upgrades_it(former: str | Path) -> None:
    failed: list[BaseException] = []

    def opening() -> None:
        try:
            with Ledger.open(former) as ledger:
                ask(ledger)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=opening) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with Ledger.open(former) as ledger:
        kinds = [event.kind for event in ledger.events()]
        before = WRITTEN.count(",'reserve',")
        assert (kinds.count(Kind.UPGRADE), kinds.count(Kind.RESERVE)) == (1, before + 6)
        assert ledger.verify().sound


def test_whoever_has_it_open_as_what_it_was_cannot_write_to_it(
    former_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not know of accounts that are renamed."""
    with raw(former_file) as connection:
        before = SQLiteBackend(connection)
        before.execute("SELECT 1 FROM head")
        Ledger.open(former_file).close()
        before.begin_write()
        journal = Journal(before, "old")
        journal.note(Kind.CLOCK)
        monkeypatch.setattr("dpsql.ledger.journal.SCHEMA_VERSION", FORMER_VERSIONS[-1])
        with pytest.raises(LedgerError):
            journal.finish()
        before.rollback()


def _rule_taken_away(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TRIGGER events_no_delete")


def _chain_cut(connection: sqlite3.Connection) -> None:
    texts = connection.execute("SELECT name, sql FROM sqlite_schema WHERE name LIKE 'head%'")
    rules = [(name, text) for name, text in texts.fetchall() if text.startswith("CREATE TRIGGER")]
    for name, _ in rules:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE head SET seq = seq - 1")
    for _, text in rules:
        connection.execute(text)


@pytest.mark.parametrize("damage", [_rule_taken_away, _chain_cut])
def test_a_damaged_one_is_refused_and_left_as_it_is(
    former_file: Path, damage: Callable[[sqlite3.Connection], None]
) -> None:
    with raw(former_file) as connection:
        damage(connection)
    before = everything(former_file.parent)
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(former_file)
    assert refusal.value.code == "ledger_corrupt"
    assert everything(former_file.parent) == before


class _Stop(Exception):
    """The process dies here."""


@pytest.mark.parametrize("kept", range(8))
def test_an_upgrade_that_was_interrupted_has_changed_nothing(
    former_file: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """After each statement of it, as far as there are any."""

    def dying(connection: sqlite3.Connection, script: str) -> None:
        statements = [part + ";" for part in script.split(";\n") if part.strip()]
        for statement in statements[:kept]:
            run_statements(connection, statement + "\n")
        raise _Stop

    dump = former_dump(former_file)
    monkeypatch.setattr("dpsql.ledger.sqlite_file.run_statements", dying)
    with pytest.raises(_Stop):
        Ledger.open(former_file)
    monkeypatch.undo()
    assert former_dump(former_file) == dump
    with Ledger.open(former_file) as ledger:
        assert ledger.verify().sound


def former_dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [str(connection.execute("PRAGMA user_version").fetchone()), *connection.iterdump()]


def test_a_role_that_may_not_upgrade_it_is_told_who_may(
    former_database: str, postgres_server: Server
) -> None:
    import psycopg

    with psycopg.connect(former_database, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS asking")
        admin.execute(b"CREATE ROLE asking LOGIN PASSWORD 'p'")
        admin.execute("GRANT USAGE ON SCHEMA dpsql_ledger TO asking")
        admin.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dpsql_ledger TO asking")
    try:
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(postgres_server.url("postgres", "asking", "p"))
        assert refusal.value.code == "ledger_version"
        assert "the role that owns" in (refusal.value.hint or "")
        with Ledger.open(former_database) as ledger:
            assert ledger.head().seq == 35
    finally:
        with psycopg.connect(former_database, autocommit=True) as admin:
            admin.execute("DROP OWNED BY asking")
            admin.execute("DROP ROLE asking")


def test_an_upgrade_that_the_chain_does_not_tell_of_is_found(
    former_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silently(sql: Backend, who: str) -> None:
        journal = Journal(sql, who)
        journal.note(Kind.CLOCK)
        journal.finish()

    monkeypatch.setattr("dpsql.ledger.sqlite_file.upgrade_chain", silently)
    with Ledger.open(former_file) as ledger:
        assert not ledger.verify().sound

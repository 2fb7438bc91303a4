"""A ledger of version 2 is upgraded whole or not at all, and a copy of it is kept."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ledger_version_3
import pytest
from ledgers import EPSILON, RHO, everything, finish, raw, start

from dpsql.accounting import Amount
from dpsql.errors import BudgetExceeded, LedgerError
from dpsql.ledger import Charge, Head, Ledger
from dpsql.ledger.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from postgres import Server

SCHEMA = (Path(__file__).parent / "ledger_v2.sql").read_text(encoding="utf-8")
DAY = "2026-01-0{}T00:00:00.000000+00:00"


def reserve(
    connection: sqlite3.Connection, entry: int, paths: str, amount: Amount, created: str
) -> None:
    connection.execute(
        "INSERT INTO entries (entry, created, query, plan, reserved_rho, reserved_epsilon, "
        "reserved_delta) VALUES (?, ?, ?, '{}', ?, ?, ?)",
        (entry, created, f"q{entry}", *amount.units),
    )
    for path in paths.split():
        connection.execute(
            "INSERT INTO accounts (path) SELECT ?1 "
            "WHERE NOT EXISTS (SELECT 1 FROM accounts WHERE path = ?1)",
            (path,),
        )
        connection.execute(
            "INSERT INTO charges SELECT account, ? FROM accounts WHERE path = ?", (entry, path)
        )


def settle(connection: sqlite3.Connection, entry: int, amount: Amount, settled: str) -> None:
    connection.execute(
        "UPDATE entries SET (settled, settled_rho, settled_epsilon, settled_delta) = (?, ?, ?, ?) "
        "WHERE entry = ?",
        (settled, *amount.units, entry),
    )


def make_old(path: Path, more: int = 0) -> None:
    """A ledger as version 2 wrote it: settled, unsettled, of both compositions."""
    with raw(path) as connection:
        connection.executescript(SCHEMA)
        connection.execute("PRAGMA journal_mode = WAL")
        reserve(connection, 1, "sales/alice", RHO.amount(100, 7), DAY.format(1))
        reserve(connection, 2, "sales/alice", RHO.amount(50, 3), DAY.format(2))
        reserve(connection, 3, "else/bob", EPSILON.amount(30, 1), DAY.format(2))
        settle(connection, 1, RHO.amount(60, 7), DAY.format(3))
        settle(connection, 3, EPSILON.amount(0, 1), DAY.format(4))
        connection.execute("BEGIN")
        for entry in range(4, 4 + more):
            reserve(connection, entry, "sales/carol", RHO.amount(2, 1), DAY.format(5))
            settle(connection, entry, RHO.amount(1, 1), DAY.format(5))
        connection.execute("COMMIT")


def test_what_was_spent_and_asked_is_the_same_after_an_upgrade(path: Path) -> None:
    make_old(path)
    with raw(path) as connection:
        old = list(connection.iterdump())
    with Ledger.open(path, who="ana") as ledger:
        assert ledger.spent("sales/alice") == RHO.spent(110, 10, 2, 1)
        assert ledger.spent("sales") == RHO.spent(110, 10, 2, 1)
        assert ledger.spent("else/bob") == EPSILON.spent(0, 1, 1, 0)
        newest, oldest = ledger.history("sales/alice")
        assert (oldest.query, oldest.created) == ("q1", DAY.format(1))
        assert oldest.settled == DAY.format(3)
        assert (oldest.reserved, oldest.charged) == (RHO.amount(100, 7), RHO.amount(60, 7))
        assert (newest.query, newest.created, newest.charged) == ("q2", DAY.format(2), None)
        assert ledger.verify().sound
        told = [event for event in ledger.events() if event.kind == "migrated"]
        assert len(told) == 1
        assert '"entries": 3' in told[0].detail
        with pytest.raises(BudgetExceeded):
            RHO.reserve(ledger, 41, 1, RHO.account("sales/alice", 150, 100))
        RHO.reserve(ledger, 40, 1, RHO.account("sales/alice", 150, 100))
    copy = path.with_name(path.name + ".version-2")
    assert {item.name for item in path.parent.iterdir()} == {path.name, copy.name}
    with raw(copy) as connection:
        assert list(connection.iterdump()) == old
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert copy.stat().st_mode & 0o777 == 0o600


def test_an_upgraded_ledger_is_upgraded_once(path: Path) -> None:
    make_old(path)
    Ledger.open(path).close()
    first = everything(path.parent)
    Ledger.open(path).close()
    assert everything(path.parent) == first


def test_a_second_upgrade_does_not_overwrite_the_first_ones_copy(path: Path) -> None:
    make_old(path)
    Ledger.open(path).close()
    kept = path.with_name(path.name + ".version-2").read_bytes()
    path.unlink()
    make_old(path, more=3)
    Ledger.open(path).close()
    assert path.with_name(path.name + ".version-2").read_bytes() == kept
    assert path.with_name(path.name + ".version-2.1").exists()


def test_an_empty_old_ledger_is_upgraded(path: Path) -> None:
    with raw(path) as connection:
        connection.executescript(SCHEMA)
    with Ledger.open(path) as ledger:
        assert ledger.accounts() == ()
        assert ledger.verify().sound


def test_entries_of_several_accounts_are_charged_to_each_of_their_lines(path: Path) -> None:
    with raw(path) as connection:
        connection.executescript(SCHEMA)
        reserve(connection, 1, "sales sales/alice", RHO.amount(10, 1), DAY.format(1))
        reserve(connection, 2, "sales/alice else/bob", RHO.amount(5, 1), DAY.format(1))
        settle(connection, 2, RHO.amount(3, 1), DAY.format(1))
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales") == ledger.spent("sales/alice") == RHO.spent(13, 2, 2, 1)
        assert ledger.spent("else/bob") == RHO.spent(3, 1, 1, 0)
        assert ledger.verify().sound


def test_times_that_went_back_are_put_in_order(path: Path) -> None:
    with raw(path) as connection:
        connection.executescript(SCHEMA)
        reserve(connection, 1, "sales", RHO.amount(10, 1), DAY.format(5))
        reserve(connection, 2, "sales", RHO.amount(10, 1), DAY.format(2))
        settle(connection, 1, RHO.amount(3, 1), DAY.format(1))
        reserve(connection, 3, "sales", RHO.amount(1, 1), "2999-01-01T00:00:00+00:00")
    with Ledger.open(path) as ledger:
        assert ledger.verify().sound
        assert ledger.spent("sales") == RHO.spent(14, 3, 3, 2)
        RHO.reserve(ledger, 1, 1)


LATE = "settled = 'x', settled_rho = 1, settled_epsilon = 0, settled_delta = 3"


@pytest.mark.parametrize(
    ("rules", "statement"),
    [
        ("entry_stays", ""),
        ("account_only_grows_or_settles", "UPDATE accounts SET rho = rho - 1 WHERE rho > 0"),
        ("settling_lowers_totals", f"UPDATE entries SET {LATE} WHERE entry = 2"),
        (
            "entry_settles_once settling_lowers_totals",
            "UPDATE entries SET created = 'x' WHERE entry = 2",
        ),
    ],
)
def test_a_damaged_old_ledger_is_refused_untouched(path: Path, rules: str, statement: str) -> None:
    make_old(path)
    with raw(path) as connection:
        for name in rules.split():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for name in rules.split() if statement else ():
            begin = SCHEMA.index(f"CREATE TRIGGER {name}")
            connection.execute(SCHEMA[begin : SCHEMA.index("END;", begin) + 3])
    before = everything(path.parent)
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(path)
    assert refusal.value.code == "ledger_corrupt"
    assert everything(path.parent) == before


def test_an_upgrade_without_room_for_the_copy_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(path)
    before = everything(path.parent)

    def refuse(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(path)
    assert refusal.value.code == "ledger_cannot_create"
    assert everything(path.parent) == before
    Ledger.open(path).close()


def test_an_old_ledger_in_use_is_upgraded_when_it_is_let_go(path: Path) -> None:
    make_old(path)
    with raw(path) as old:
        old.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(path, busy_timeout=0.05)
        assert refusal.value.code == "ledger_busy"
        old.execute("ROLLBACK")
        with Ledger.open(path) as ledger:
            assert ledger.spent("sales/alice").queries == 2
            with pytest.raises(sqlite3.DatabaseError):  # who still runs the old dpsql is stopped
                reserve(old, 9, "sales/alice", RHO.amount(1, 1), DAY.format(9))


def test_processes_that_open_an_old_ledger_at_once_upgrade_it_once(path: Path) -> None:
    make_old(path, more=50)
    script = """
sys.stdin.read(1)
with Ledger.open(path, busy_timeout=60) as ledger:
    reserve(ledger)
"""
    for process in [start(script, path) for _ in range(4)]:
        finish(process)
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales").queries == 2 + 50 + 4
        assert [event.kind for event in ledger.events()].count("migrated") == 1
        assert ledger.verify().sound
    copies = [item.name for item in path.parent.iterdir() if "version" in item.name]
    assert copies == [path.name + ".version-2"]


# Version 3


def upgrades(ledger: Ledger) -> int:
    """How often a ledger was upgraded; accounts are carried over one by one."""
    return sum(event.kind == "migrated" and not event.account for event in ledger.events())


def require_upgraded(ledger: Ledger, head: str) -> None:
    """What a ledger of version 3 held is all there, and it can be charged, suspended, verified."""
    assert ledger.verify([Head.parse(head)]).sound  # heads that were written down still hold
    assert ledger.spent("sales") == RHO.spent(24, 3, 3, 2)
    assert ledger.spent("sales/alice") == RHO.spent(10, 1, 1, 1)
    assert ledger.total("sales/alice") == RHO.spent(24, 3, 3, 2)
    kept = ledger.stored("sales/alice", "f1")
    assert kept is not None
    assert kept.payload == b"answer"
    newest, unsettled, oldest = ledger.history("sales")
    assert (newest.query, newest.failed, unsettled.charged) == ("f3", None, None)
    assert oldest.charged == RHO.amount(4, 1)
    limit = RHO.account("sales/alice", 100, 50)
    with pytest.raises(BudgetExceeded):
        RHO.reserve(ledger, 91, 1, limit)
    ledger.settle(Charge(7, "sales/alice", RHO.amount(10, 1)), RHO.amount(3, 1))
    assert ledger.total("sales") == RHO.spent(17, 3, 3, 1)
    ledger.fail(RHO.reserve(ledger, 1, 1, limit), "sales/alice", "engine")
    with pytest.raises(LedgerError) as refusal:
        RHO.reserve(ledger, 1, 1, limit)
    assert refusal.value.code == "account_suspended"
    ledger.owner("olga").reopen("sales/alice")
    RHO.reserve(ledger, 1, 1, limit)
    assert upgrades(ledger) == 1
    assert ledger.verify([Head.parse(head)]).sound


def test_a_ledger_of_version_3_is_upgraded_and_its_heads_still_hold(path: Path) -> None:
    head = ledger_version_3.make(path)
    with raw(path) as connection:
        old = list(connection.iterdump())
    with Ledger.open(path) as ledger:
        require_upgraded(ledger, head)
    copy = path.with_name(path.name + ".version-3")
    assert {item.name for item in path.parent.iterdir()} == {path.name, copy.name}
    with raw(copy) as connection:
        assert list(connection.iterdump()) == old
    with Ledger.open(path) as ledger:
        assert upgrades(ledger) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE windows SET rho = 0",
        "UPDATE accounts SET limit_rho = 5000 WHERE path = 'sales'",
        "UPDATE head SET hash = zeroblob(32)",
        "UPDATE releases SET size = 3",
        "UPDATE events SET who = 'eve' WHERE seq = 5",
        "DROP INDEX releases_by_query",
    ],
)
def test_a_damaged_ledger_of_version_3_is_refused_untouched(path: Path, statement: str) -> None:
    ledger_version_3.make(path)
    with raw(path) as connection:
        rules = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        texts = dict(rules.fetchall())
        for name in texts:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for text in texts.values():
            connection.execute(text)
    before = everything(path.parent)
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(path)
    assert refusal.value.code == "ledger_corrupt"
    assert everything(path.parent) == before


def make_on_server(url: str) -> str:
    import psycopg

    text = (Path(__file__).parent / "ledger_v3_postgres.sql").read_text(encoding="utf-8")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA dpsql_ledger")
        connection.execute("SET search_path = dpsql_ledger")
        connection.execute(text.encode())
        connection.execute("ALTER TABLE windows DISABLE TRIGGER window_starts_at_zero")
        head = ledger_version_3.fill(
            lambda sql, values: connection.execute(sql.replace("?", "%s").encode(), values)
        )
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        connection.commit()
        connection.execute("ALTER TABLE windows ENABLE TRIGGER window_starts_at_zero")
    return head


def test_a_ledger_of_version_3_on_a_server_is_upgraded(postgres_server: Server) -> None:
    url = postgres_server.without_ledger()
    head = make_on_server(url)
    with Ledger.open(url) as ledger:
        require_upgraded(ledger, head)
    with Ledger.open(url) as ledger:
        assert upgrades(ledger) == 1


def test_a_damaged_ledger_of_version_3_on_a_server_is_refused(postgres_server: Server) -> None:
    url = postgres_server.without_ledger()
    make_on_server(url)
    postgres_server.run("UPDATE dpsql_ledger.windows SET rho = rho + 1")
    for _ in range(2):
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(url)
        assert refusal.value.code == "ledger_corrupt"


def test_only_the_owner_of_the_tables_upgrades_them(postgres_server: Server) -> None:
    url = postgres_server.without_ledger()
    make_on_server(url)
    postgres_server.run("DROP ROLE IF EXISTS guest")
    postgres_server.run(
        "CREATE ROLE guest LOGIN PASSWORD 'pw'; GRANT USAGE ON SCHEMA dpsql_ledger TO guest; "
        "GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA dpsql_ledger TO guest"
    )
    try:
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(postgres_server.url("postgres", "guest", "pw"))
        assert refusal.value.code == "ledger_version"
        assert "owns its tables" in (refusal.value.hint or "")
    finally:
        postgres_server.run("DROP OWNED BY guest; DROP ROLE guest")


# Kills itself at its n-th statement, commits included.
KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from dpsql.ledger import Ledger
from dpsql.ledger import file, migration

class Dying(sqlite3.Connection):
    left = -1
    def execute(self, *args):
        if Dying.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        Dying.left -= 1
        return super().execute(*args)

real = file._open
def opened(path, options, patience):
    return sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=patience,
        isolation_level=None, check_same_thread=False, factory=Dying)
file._open = opened
for line in sys.stdin:
    place, moment = line.rsplit(" ", 1)
    child = os.fork()
    if child == 0:
        Dying.left = int(moment)
        Ledger.open(place).close()
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_an_upgrade_killed_at_any_statement_leaves_the_old_ledger_or_the_new_one(
    tmp_path: Path,
) -> None:
    original = tmp_path / "original"
    make_old(original, more=2)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = set()
    moment = 0
    while True:
        directory = tmp_path / str(moment)
        directory.mkdir()
        path = directory / "ledger"
        shutil.copy(original, path)
        process.stdin.write(f"{path} {moment}\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        with raw(path) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        seen.add(version)
        with Ledger.open(path) as ledger:
            assert ledger.spent("sales/alice") == RHO.spent(110, 10, 2, 1)
            assert ledger.spent("sales/carol") == RHO.spent(2, 2, 2, 0)
            assert ledger.verify().sound
        shutil.rmtree(directory)
        if status == 0:
            break
        assert status == signal.SIGKILL
        moment += 1
    process.communicate()
    assert moment > 100
    assert seen == {2, SCHEMA_VERSION}

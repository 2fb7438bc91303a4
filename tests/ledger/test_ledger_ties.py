"""Rows that were edited behind the ledger's back are noticed by the next charge, at constant cost.

The rules of the database stand in nobody's way here who may write the file: they are taken away and
put back.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.ledgers import PLAN, RHO, raw

from dpsql.errors import BudgetExceeded, LedgerError
from dpsql.ledger import Cause, Charge, Ledger, Renewal
from dpsql.ledger.chain import FIELDS, hash_of

ALICE = RHO.account("sales/alice", 100, 100)
BOB = RHO.account("sales/bob", 100, 100)
ROWS = "rho = {0}, epsilon = {0}, delta = {0}, queries = {0}, unsettled = {0}"


def ask(ledger: Ledger, units: int = 10, path: str = "sales/alice") -> Charge:
    limit = RHO.account("sales/" + path.split("/")[1], 100, 100)
    return ledger.reserve(path, RHO.amount(units, 1), query="f", plan=PLAN, limits=[limit])


@contextlib.contextmanager
def forging(path: Path) -> Iterator[sqlite3.Connection]:
    """The file without its rules, which are put back at the end."""
    with raw(path) as connection:
        rules = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        texts = dict(rules.fetchall())
        for name in texts:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for text in texts.values():
            connection.execute(text)


@pytest.fixture
def used(path: Path) -> Path:
    """A ledger with all kinds of rows, some of them of older windows."""
    with Ledger.open(path) as ledger:
        owner = ledger.owner("olga")
        owner.create("sales/alice")
        owner.set_limits("sales", RHO.amount(150, 150))
        ledger.settle(ask(ledger, 30), RHO.amount(20, 1), b"answer")
        ledger.settle(ask(ledger, 15, "sales/bob"), RHO.amount(5, 1))
        owner.renew("sales/bob", Renewal.MONTH)
        ask(ledger, 40)
    return path


def require_noticed(path: Path, account: str = "sales/alice") -> None:
    """The account is not charged, nor acted on, and nothing is written."""
    with Ledger.open(path) as ledger:
        before = ledger.head()
        for _ in range(2):
            with fails_with("ledger_corrupt"):
                ask(ledger, 1, account)
        assert ledger.head() == before
        assert not ledger.verify().sound


@pytest.mark.parametrize(
    "edit",
    [
        f"UPDATE windows SET {ROWS.format(0)}",
        "UPDATE windows SET rho = 0 WHERE path = 'sales'",
        "UPDATE windows SET rho = rho - 1 WHERE path = 'sales/alice'",
        "UPDATE windows SET delta = 0 WHERE path = 'sales/alice'",
        "UPDATE windows SET queries = queries + 1 WHERE path = 'sales/alice'",
        "UPDATE windows SET unsettled = 0 WHERE path = 'sales/alice'",
        "UPDATE windows SET period = '2000-01' WHERE path = 'sales/alice'",
        "UPDATE windows SET last = last - 1 WHERE path = 'sales/alice'",
        "UPDATE windows SET last = 99 WHERE path = 'sales/alice'",
        "UPDATE windows SET tie = NULL",
        "UPDATE windows SET tie = zeroblob(32), rho = 0",
        "UPDATE accounts SET limit_rho = 10000 WHERE path = 'sales'",
        "UPDATE accounts SET limit_rho = NULL, limit_epsilon = NULL, limit_delta = NULL, "
        "limit_gaussian = NULL",
        "UPDATE accounts SET policy_rho = 10000 WHERE path = 'sales/alice'",
        "UPDATE accounts SET renews = 'day' WHERE path = 'sales/alice'",
        "UPDATE accounts SET opened = (SELECT min(opened) FROM windows) WHERE path = 'sales/alice'",
        "DELETE FROM accounts WHERE path = 'sales/alice'",
        "DELETE FROM accounts; DELETE FROM windows",
        "DELETE FROM windows WHERE path = 'sales/alice'",
        # and in the events, without the hashes
        f"UPDATE windows SET {ROWS.format(0)}; UPDATE events SET state = replace(replace(state, "
        "',65,0,', ',0,0,'), ',60,0,', ',0,0,')",
        "UPDATE events SET state = '[]'",
    ],
)  # fmt: skip
def test_an_edited_row_is_noticed_by_the_next_charge(used: Path, edit: str) -> None:
    with forging(used) as connection:
        connection.executescript(edit)
    require_noticed(used)


def test_an_edit_is_noticed_in_a_ledger_that_is_open(used: Path) -> None:
    """What the connection remembers of the chain is not what was edited."""
    with Ledger.open(used) as ledger:
        charge = ask(ledger, 1)
        with forging(used) as connection:
            connection.execute("UPDATE windows SET rho = 0 WHERE path = 'sales'")
        for act in (
            lambda: ask(ledger, 1),
            lambda: ask(ledger, 1, "sales/bob"),
            lambda: ledger.settle(charge, RHO.amount(1, 1)),
            lambda: ledger.owner("olga").open_window("sales"),
            lambda: ledger.owner("olga").set_limits("sales", None),
            lambda: ledger.fail(charge, "sales", Cause.ENGINE),
        ):
            with fails_with("ledger_corrupt"):
                act()
        ledger.fail(charge, "sales/alice", Cause.ENGINE)  # its own rows are what they were


def test_settling_does_not_make_an_edited_sum_right(used: Path) -> None:
    with Ledger.open(used) as ledger:
        charge = ask(ledger, 7)
    with forging(used) as connection:
        connection.execute("UPDATE windows SET rho = 7 WHERE path = 'sales/alice'")
    with Ledger.open(used) as ledger, fails_with("ledger_corrupt"):
        ledger.settle(charge, RHO.amount(1, 1))
    require_noticed(used)


def test_a_suspension_that_was_edited_away_is_noticed(used: Path) -> None:
    with Ledger.open(used) as ledger:
        ledger.fail(ask(ledger), "sales/alice", Cause.ENGINE)
    with forging(used) as connection:
        connection.execute("UPDATE accounts SET suspended = 0")
    require_noticed(used)


def roll_back(path: Path, old: Path, table: str, account: str) -> None:
    """The rows of an account as they were in an older copy, with the events they name."""
    key = {"windows": "opened", "accounts": "path"}[table]
    with forging(path) as connection:
        connection.execute("ATTACH ? AS old", (str(old),))
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(names)
        connection.execute(
            f"UPDATE {table} SET ({columns}) = (SELECT {columns} FROM old.{table} AS o "
            f"WHERE o.{key} = {table}.{key}) WHERE path = ? "
            f"AND EXISTS (SELECT 1 FROM old.{table} AS o WHERE o.{key} = {table}.{key})",
            (account,),
        )
        connection.execute("DETACH old")


def copied(path: Path) -> Path:
    """A copy of the ledger as it is now."""
    copy = path.with_name("copy")
    with raw(path) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


@pytest.mark.parametrize("account", ["sales", "sales/alice"])
def test_sums_of_an_earlier_time_are_noticed_by_the_account_that_was_charged_since(
    used: Path, account: str
) -> None:
    old = copied(used)
    with Ledger.open(used) as ledger:
        ask(ledger, 3)
    roll_back(used, old, "windows", account)
    require_noticed(used)


def test_sums_of_an_earlier_time_are_noticed_by_whoever_lost_a_charge(used: Path) -> None:
    old = copied(used)
    with Ledger.open(used) as ledger:
        ask(ledger, 3, "sales/bob")
    roll_back(used, old, "windows", "sales")
    require_noticed(used, "sales/bob")
    with Ledger.open(used) as ledger:
        ask(ledger, 1)  # what only verification finds: somebody else's charge that is gone
        assert not ledger.verify().sound


@pytest.mark.parametrize("account", ["sales", "sales/alice"])
@pytest.mark.parametrize("act", ["limit", "suspend", "window", "renew"])
def test_settings_of_an_earlier_time_are_noticed(used: Path, account: str, act: str) -> None:
    old = copied(used)
    with Ledger.open(used) as ledger:
        owner = ledger.owner("olga")
        if act == "limit":
            owner.set_limits(account, RHO.amount(1, 1))
        elif act == "suspend":
            owner.suspend(account)
        elif act == "window":
            owner.open_window(account)
        else:
            owner.renew(account, Renewal.DAY)
    roll_back(used, old, "accounts", account)
    require_noticed(used)


def test_a_charge_reads_the_same_number_of_events_however_many_there_are(used: Path) -> None:
    """What is checked does not grow with the ledger."""
    with Ledger.open(used) as ledger, Ledger.open(used) as other:
        counts = []
        for _ in range(3):
            for _ in range(20):
                ledger.settle(ask(ledger, 1), RHO.amount(0, 1))
            known = other._link.use(lambda sql: len(sql.said))
            other.settle(ask(other, 1), RHO.amount(0, 1))
            counts.append(other._link.use(lambda sql: len(sql.said)) - known)
        assert max(counts[1:]) <= 4, counts
        assert ledger.verify().sound


def test_a_forger_needs_the_whole_chain_from_the_edit_on(used: Path) -> None:
    """Sums, states and one hash made anew: the next event does not follow, which is verified."""
    with forging(used) as connection:
        fields = f"SELECT {FIELDS}, hash FROM events ORDER BY seq"
        *_, before, last = connection.execute(fields).fetchall()
        state = last[-2].replace(",60,0,", ",1,0,")
        assert state != last[-2]
        forged = hash_of(before[-1], (*last[:-2], state))
        connection.execute(
            "UPDATE events SET state = ?, hash = ? WHERE seq = ?", (state, forged, last[0])
        )
        connection.execute("UPDATE windows SET rho = 1, tie = ? WHERE rho = 60", (forged,))
        connection.execute("UPDATE windows SET tie = ? WHERE last = ?", (forged, last[0]))
    with pytest.raises(LedgerError):  # it was the last event, which the head names
        Ledger.open(used)


def test_a_busy_ledger_forgets_what_it_knew_and_reads_it_again(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.ledger.ties._MOST", 3)
    with Ledger.open(used) as ledger:
        for _ in range(30):
            ledger.settle(ask(ledger, 1, "sales/alice/notebook"), RHO.amount(0, 1))
            ledger.settle(ask(ledger, 1, "sales/bob"), RHO.amount(0, 1))
        with pytest.raises(BudgetExceeded):
            ask(ledger, 90)
        assert ledger.verify().sound


def test_the_rules_of_the_database_want_events_that_say_what_they_do(used: Path) -> None:
    with raw(used) as connection:
        for statement in (
            f"INSERT INTO events ({FIELDS}, hash) SELECT seq + 1, at, who, kind, account, NULL, "
            "NULL, 0, query, detail, rho, epsilon, delta, gaussian, digest, NULL, hash FROM events "
            "ORDER BY seq DESC LIMIT 1",
            "UPDATE windows SET last = last - 1",
            "UPDATE accounts SET last = last - 1",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)


def test_edits_on_a_server_are_noticed_by_the_next_charge(postgres_server: object) -> None:
    import psycopg
    from helpers.postgresql_server import Server

    assert isinstance(postgres_server, Server)
    url = postgres_server.without_ledger()
    with Ledger.open(url) as ledger, psycopg.connect(url, autocommit=True) as admin:
        ask(ledger, 30)
        admin.execute("SET search_path = dpsql_ledger")
        admin.execute("SET session_replication_role = replica")  # no rules, as superuser
        admin.execute("UPDATE windows SET rho = 0 WHERE path = 'sales'")
        with fails_with("ledger_corrupt"):
            ask(ledger, 1)

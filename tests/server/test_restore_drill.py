"""The drill of docs/how-to/backup.md: all that a server keeps, put back on another machine."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.plays import COUNTED, REFRESH, ROWS, WITH, change, rows
from helpers.plays import clock as clock

import dpsql
from dpsql.ledger import Ledger
from dpsql.server.audit import AuditLog, verify_audit
from dpsql.server.people.users import Users

POLICY = """
version: 1
dataset: x
defaults: {epsilon: 1, delta: 1e-6, max_groups_contributed: 3, max_rows_contributed: 2}
accounts: {ana: {epsilon: 500, delta: 0.1}}
views: {directory: states}
tables:
  plays:
    privacy_unit: {name: user, column: user_id}
    time: {column: played_at}
"""
QUESTION = "SELECT artist, COUNT(*) AS n FROM plays GROUP BY artist"
NOISY = WITH.replace("epsilon = 20", "epsilon = 1")
PASSWORD = "a long and rather good passphrase"


def opened(place: Path) -> dpsql.Connection:
    return dpsql.connect(place / "x.duckdb", place / "policies.yaml", place / "x.budget.db", "ana")


def copied(place: Path, elsewhere: Path) -> None:
    """Copy as the page says: ledger and users by SQLite, the rest as files."""
    elsewhere.mkdir()
    for name in ("x.budget.db", "users.db"):
        with (
            closing(sqlite3.connect(place / name)) as kept,
            closing(sqlite3.connect(elsewhere / name)) as copy,
        ):
            kept.backup(copy)
        (elsewhere / name).chmod(0o600)
    for name in ("x.duckdb", "policies.yaml", "audit.jsonl"):
        shutil.copy2(place / name, elsewhere / name)
    shutil.copytree(place / "states", elsewhere / "states")


@pytest.mark.slow
def test_all_that_a_server_keeps_is_put_back_elsewhere(
    tmp_path: Path, clock: Callable[[int], None]
) -> None:
    place, elsewhere = tmp_path / "first", tmp_path / "second"
    place.mkdir()
    (place / "policies.yaml").write_text(POLICY)
    with duckdb.connect(str(place / "x.duckdb")) as owner:
        owner.execute(ROWS)
    with (
        Users.create(place / "users.db", iterations=4096) as users,
        Ledger.open(place / "x.budget.db") as ledger,
        opened(place) as con,
    ):
        users.add("ana", PASSWORD, accounts=["ana"])
        kept, gone = (users.issue_token("ana", name).secret for name in ("laptop", "lost"))
        users.revoke_token("ana", "lost")
        audit = AuditLog(place / "audit.jsonl")
        audit.write("login", user="ana")
        told = con.sql(QUESTION).fetchall()
        clock(4)
        con.sql(f"CREATE MATERIALIZED VIEW v {NOISY} AS {COUNTED}")
        con.sql(REFRESH)
        published, spent = rows(con), con.budget().accounts[0].spent
        copied(place, elsewhere)  # while all of it is open
        head, noted = ledger.head(), audit.head
        audit.close()
        # What comes later is lost with the first machine.
        clock(6)
        con.sql(REFRESH)
        lost = rows(con)[len(published) :]
    assert lost

    with Ledger.open(elsewhere / "x.budget.db") as ledger:
        assert ledger.verify([head]).sound
    assert verify_audit(elsewhere / "audit.jsonl", noted).lines == 1
    with Users(elsewhere / "users.db") as users:
        assert users.check_token(kept).user == "ana"
        with fails_with("login_failed"):
            users.check_token(gone)
    change(elsewhere, "UPDATE plays SET artist = 'a0' WHERE played_at >= TIMESTAMP '2026-01-04'")
    with opened(elsewhere) as con:
        again = con.sql(QUESTION)
        assert again.cost.stored
        assert again.fetchall() == told
        assert con.budget().accounts[0].spent == spent
        assert rows(con) == published, "what was published stays"
        clock(6)
        con.sql(REFRESH)
        further = rows(con)[len(published) :]
        assert len(further) == len(lost)
        assert further != lost, "a step over other rows has other noise"
        assert con.budget().accounts[0].spent.loss.rho == spent.loss.rho, "a view is paid for once"

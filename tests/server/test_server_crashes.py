"""A server killed with -9 at any moment, under load: what clients were shown is paid, and kept."""

from __future__ import annotations

import os
import random
import re
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from helpers.random_examples import LENGTH
from helpers.serving import PASSWORD, ended, filled, started

from dpsql.ledger import Ledger

WORKER: Final = Path(__file__).parents[1] / "helpers" / "server_worker.py"
SEED: Final = int(os.environ.get("DPSQL_CRASH_SEED", str(secrets.randbits(32))))
KILLS: Final = max(2, round(12 * LENGTH))
CLIENTS: Final = 16
FIRST, LAST = 100, 5_000  # moments that a server passes under this load

Shown = dict[tuple[str, str], list[tuple[Any, ...]]]


class Load:
    """Clients of two accounts that ask, cancel and vanish until the server is gone."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.shown: Shown = {}
        self.asked = 0
        self.unexplained: list[str] = []
        self.contradicted: list[str] = []
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed} {number}"), number))
            for number in range(CLIENTS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), f"a client hangs, DPSQL_CRASH_SEED={SEED}"

    def _run(self, draw: random.Random, number: int) -> None:
        account = "ana" if number % 2 else "bob"
        for _ in range(200):
            try:
                with psycopg.connect(
                    *(f"host=127.0.0.1 port={self.port} dbname=clinic sslmode=disable",),
                    user="ana",
                    password=PASSWORD,
                    options=f"-c dpsql.account={account}",
                    autocommit=True,
                ) as con:
                    self._ask(con, draw, number, account)
            except psycopg.OperationalError as error:
                if "refused" in str(error) or "closed" in str(error) or "reset" in str(error):
                    return
                if error.sqlstate is None:
                    return

    def _ask(
        self, con: psycopg.Connection[Any], draw: random.Random, number: int, account: str
    ) -> None:
        for _ in range(draw.randrange(1, 6)):
            # Some were asked before, by the same client.
            old = number * 20 + draw.randrange(20)
            condition = old if draw.random() < 0.3 else draw.randrange(1_000, 10**9)
            asked = (
                f"SELECT ward, COUNT(*) AS n FROM visits WHERE patient_id <> {condition} GROUP BY 1"
            )
            with self._lock:
                self.asked += 1
            if draw.random() < 0.1:
                threading.Timer(draw.random() / 20, _cancel, (con,)).start()
            if draw.random() < 0.05:
                con.pgconn.send_query(asked.encode())
                return  # and vanish
            try:
                rows = con.execute(asked).fetchall()
            except psycopg.Error as error:
                if error.sqlstate is None:
                    raise
                if not error.diag.message_primary:
                    self.unexplained.append(repr(error))
                continue
            with self._lock:
                before = self.shown.setdefault((account, asked), rows)
            if before != rows:
                self.contradicted.append(asked)


def _cancel(con: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):
        con.cancel()


def killed(
    directory: Path, left: int, seed: int, *, how: str = "sound", seconds: float = 120
) -> tuple[str, Load]:
    """Run a server under load until it is killed at a moment; say where that was."""
    log = directory / f"log-{left}"
    command = [sys.executable, "-W", "ignore", str(WORKER), str(left), how, "serve", "-d"]
    command += ["clinic.duckdb", "--users", "users.db", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=directory, stdout=written, stderr=written, env=environment
        )
    found = None
    while found is None and process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        found = re.search(r"served on 127\.0\.0\.1:(\d+)", log.read_text())
    assert found is not None, log.read_text()
    load = Load(int(found[1]), seed)
    load.start()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    alive = process.poll() is None
    process.kill()
    process.wait(60)
    load.join()
    said = log.read_text()
    assert "Traceback" not in said, said
    assert not load.unexplained
    where = re.search(r"^died (.+)$", said, re.MULTILINE)
    assert alive or where is not None, said
    return ("" if where is None else where[1]), load


def check_after_crash(directory: Path, shown: Shown) -> None:
    """A server that is started again gives what was shown, for nothing, and its ledger is sound."""
    with Ledger.open(directory / "budget.db") as ledger:
        assert ledger.verify().sound
        before = [ledger.total(f"clinic/{name}") for name in ("ana", "bob")]
        for name, total in zip(("ana", "bob"), before, strict=True):
            kept = [e for e in ledger.history(f"clinic/{name}", 10**6) if e.stored]
            paid = [e.charged.rho for e in kept if e.charged is not None]
            assert total.amount.rho >= sum(paid)
            assert len(kept) >= sum(account == name for account, _ in shown)
    server = started(directory, "--ledger", "budget.db")
    try:
        for account in ("ana", "bob"):
            with server.connect(options=f"-c dpsql.account={account}") as con:
                for (payer, asked), rows in shown.items():
                    if payer == account:
                        assert con.execute(asked).fetchall() == rows
    finally:
        ended(server)
    with Ledger.open(directory / "budget.db") as ledger:
        assert [ledger.total(f"clinic/{name}") for name in ("ana", "bob")] == before


def ready(directory: Path) -> None:
    """A dataset whose accounts can pay for all that is asked."""
    filled(directory)
    policy = (directory / "policies.yaml").read_text()
    many = policy.replace("bob: {epsilon: 1, delta: 1e-6}", "bob: {epsilon: 1000, delta: 1e-3}")
    (directory / "policies.yaml").write_text(many.replace("epsilon: 1.0,", "epsilon: 0.01,"))


@pytest.mark.slow
# A driver whose server dies while it connects drops what it had open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_killed_at_any_moment_has_shown_nothing_unpaid(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    ready(tmp_path)
    shown: Shown = {}
    died = []
    asked = answered = 0
    part = (LAST - FIRST) // KILLS
    for early in range(FIRST, LAST - part + 1, part):
        moment = early + draw.randrange(part)
        where, load = killed(tmp_path, moment, draw.getrandbits(32))
        died.append(where)
        assert not load.contradicted, "one question has two answers"
        shown |= load.shown
        asked, answered = asked + load.asked, answered + len(load.shown)
        check_after_crash(tmp_path, load.shown)
    check_after_crash(tmp_path, shown)
    assert sum(map(bool, died)) >= 2, (died, f"DPSQL_CRASH_SEED={SEED}")
    assert answered > asked / 4, (asked, answered)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_never_settles_fails_these_checks(tmp_path: Path) -> None:
    ready(tmp_path)
    _, load = killed(tmp_path, 10**9, SEED, how="broken", seconds=10)
    assert load.shown
    with pytest.raises(AssertionError):
        check_after_crash(tmp_path, load.shown)

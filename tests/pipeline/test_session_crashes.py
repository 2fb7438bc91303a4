"""A process killed with -9 at any moment of a query: what was shown is spent, a retry is free."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.random_examples import LENGTH

import dpsql
from dpsql.ledger import Ledger
from dpsql.privacy.accounting.zcdp import Amount, PrivacyLoss

WORKER = Path(__file__).parents[1] / "helpers" / "session_worker.py"
ACCOUNT = "clinic/ana"
POLICY = """
version: 1
dataset: clinic
defaults: {epsilon: 1.0, delta: 1e-7, max_groups_contributed: 10}
accounts:
  ana: {epsilon: 100, delta: 1e-3}
tables:
  visits:
    privacy_unit: {name: patient, column: id}
    columns: {x: {lower: 0, upper: 9}}
"""
QUERIES = [
    "SELECT k, count(*) AS n, avg(x) AS x FROM visits WHERE x <> {} GROUP BY k ORDER BY k",
    "SELECT k, count(DISTINCT id) n FROM visits WHERE x <> {} GROUP BY k ORDER BY n DESC LIMIT 2",
]


class Analyst:
    """Runs ``session_worker`` tasks, each in a fork of one process."""

    def __init__(self, directory: Path, ledger: str) -> None:
        self.database = str(directory / "data.duckdb")
        self.policies = str(directory / "policies.yaml")
        self.ledger = ledger
        Path(self.policies).write_text(POLICY, encoding="utf-8")
        with duckdb.connect(self.database) as data:
            data.execute(
                "CREATE TABLE visits AS SELECT range // 3 AS id, 'k' || range % 4 AS k, "
                "range % 10 AS x FROM range(6000)"
            )
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def asks(self, left: int, queries: list[str], *, broken: bool = False) -> tuple[int, list[str]]:
        """The status of a process that dies at the ``left``-th failpoint, and what it showed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        task = [self.database, self.policies, self.ledger, left, queries, broken]
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        status, lines = json.loads(self.process.stdout.readline())
        return status, lines


@pytest.fixture
def analyst(tmp_path: Path, place: str | Path) -> Iterator[Analyst]:
    made = Analyst(tmp_path, str(place))
    yield made
    made.process.communicate()


def rows_in(lines: list[str]) -> dict[str, list[Any]]:
    """The rows that were shown, by question."""
    shown: dict[str, list[Any]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "row":
            query, row = json.loads(rest)
            shown.setdefault(query, []).append(row)
    return shown


def check_after_crash(analyst: Analyst, shown: dict[str, list[Any]]) -> None:
    """The ledger is sound, holds what was shown, and gives it again at no cost."""
    with (
        Ledger.open(analyst.ledger) as ledger,
        dpsql.connect(analyst.database, analyst.policies, ledger, "ana") as connection,
    ):
        assert ledger.verify().sound
        before = ledger.total(ACCOUNT)
        prices = {e.query: e.charged for e in ledger.history(ACCOUNT, 10**6) if e.stored}
        assert len(prices) >= len(shown)
        charged = [price.units for price in prices.values() if price is not None]
        assert all(
            spent >= sum(paid)
            for spent, paid in zip(before.amount.units, zip(*charged, strict=True), strict=False)
        )
        for query, rows in shown.items():
            again = connection.sql(query)
            assert again.cost.stored
            assert [list(row) for row in again.fetchall()][: len(rows)] == rows
        assert ledger.total(ACCOUNT) == before


def killed_everywhere(analyst: Analyst, step: int) -> set[str]:
    """Kill an analyst of two questions at every ``step``-th failpoint; say where that was."""
    died: set[str] = set()
    all_shown = rows_in(analyst.asks(10**6, [query.format(0) for query in QUERIES])[1])
    moment = 0  # counted from where the ledger knows the account
    while True:
        queries = [query.format(moment + 100) for query in QUERIES]
        status, lines = analyst.asks(moment, queries)
        shown = rows_in(lines)
        check_after_crash(analyst, shown)
        all_shown |= shown
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        died.add(lines[-1].removeprefix("died "))
        moment += step
    check_after_crash(analyst, all_shown)
    return died


STEPS = ("reserve", "settle", "tail")
LABELS = {f"{when} {step}" for when in ("before", "after") for step in STEPS}
LABELS |= {"before stage", "after stage read", "after keys", "before engine", "after engine"}
LABELS |= {"before fetch", "during fetch", "before BEGIN", "after COMMIT"}


@pytest.mark.few(1)
def test_killed_at_some_moments_of_a_query_nothing_shown_is_unpaid(analyst: Analyst) -> None:
    assert len(killed_everywhere(analyst, 73)) >= 2


@pytest.mark.slow
def test_killed_at_every_moment_of_a_query_nothing_shown_is_unpaid(analyst: Analyst) -> None:
    on_a_server = analyst.ledger.startswith("postgresql:")
    step = math.ceil((5 if on_a_server else 1) / min(1, LENGTH))
    died = killed_everywhere(analyst, step)
    assert died >= LABELS if step == 1 else len(died) >= max(2, len(LABELS) // step)


@pytest.mark.slow
@pytest.mark.few(1)
def test_a_session_that_never_settles_fails_these_checks(analyst: Analyst) -> None:
    _, lines = analyst.asks(10**6, [query.format(-1) for query in QUERIES], broken=True)
    with pytest.raises(AssertionError):
        check_after_crash(analyst, rows_in(lines))


@pytest.mark.slow
@pytest.mark.few(1)
def test_a_charge_is_at_least_what_its_query_was_told_to_cost(analyst: Analyst) -> None:
    status, lines = analyst.asks(10**6, [query.format(-1) for query in QUERIES])
    assert status == 0
    costs = [json.loads(line[5:]) for line in lines if line.startswith("cost ")]
    told = [Amount.charge(PrivacyLoss(rho=rho, delta=delta)) for _, rho, delta in costs]
    with Ledger.open(analyst.ledger) as ledger:
        spent = ledger.total(ACCOUNT).amount
    assert spent.rho == sum(amount.rho for amount in told) > 0
    assert spent.delta >= sum(amount.delta for amount in told) > 0

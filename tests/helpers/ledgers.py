"""What the tests of the ledger share: currencies, raw files, other processes."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpsql.ledger import Account, Charge, Ledger, Spent
from dpsql.privacy.accounting.zcdp import Amount

PLAN = '{"mechanism": "gaussian", "sigma": 2.5}'
LIMIT = 10**12


@dataclass(frozen=True)
class Currency:
    """What an account is charged in beside delta: ``rho``, ``epsilon`` or ``gaussian``."""

    name: str

    @property
    def word(self) -> str:
        """What messages call it: mu**2/2 of Gaussian DP is a rho."""
        return "epsilon" if self.name == "epsilon" else "rho"

    @property
    def other(self) -> Currency:
        return {"rho": EPSILON, "epsilon": GAUSSIAN, "gaussian": RHO}[self.name]

    def amount(self, units: int, delta: int) -> Amount:
        return Amount(**{self.name: units}, delta=delta)

    def account(self, path: str, units: int = LIMIT, delta: int = LIMIT) -> Account:
        return Account(path, self.amount(units, delta))

    def spent(self, units: int, delta: int, queries: int, unsettled: int) -> Spent:
        return Spent(self.amount(units, delta), queries, unsettled)

    def reserve(self, ledger: Ledger, units: int, delta: int, *limits: Account) -> Charge:
        """Charge the deepest of the accounts, or ``sales``, under these limits."""
        given = limits or (self.account("sales"),)
        leaf = max((limit.path for limit in given), key=len)
        return ledger.reserve(leaf, self.amount(units, delta), query="f1", plan=PLAN, limits=given)

    def stream(
        self, ledger: Ledger, stream: str, *limits: Account, name: str = "", steps: int = 5
    ) -> Charge:
        """Charge the deepest of the accounts, or ``sales``, for a stream named after its id."""
        given = limits or (self.account("sales"),)
        leaf, called = max((limit.path for limit in given), key=len), name or f"name of {stream}"
        plan = json.dumps({"stream": {"name": called, "steps": steps}, "text": "SELECT 1"})
        return ledger.create_stream(
            leaf, self.amount(20, 2), name=called, stream=stream, plan=plan, limits=given
        )


RHO, EPSILON, GAUSSIAN = Currency("rho"), Currency("epsilon"), Currency("gaussian")

# The start of every script run in another process.
SCRIPT = f"""
import os, sys, time, threading
from dpsql.privacy.accounting.zcdp import Amount
from dpsql.ledger import Account, Ledger
from dpsql.errors import BudgetExceeded
PLAN = '{{}}'
path, name = sys.argv[1], sys.argv[2]
def amount(units, delta=1):
    return Amount(**{{name: units}}, delta=delta)
account = Account("sales", amount({LIMIT}, {LIMIT}))
def reserve(ledger, units=1):
    return ledger.reserve("sales", amount(units), query="q", plan=PLAN, limits=[account])
"""


def start(script: str, place: Path | str, currency: Currency = RHO) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + script, str(place), currency.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def finish(process: subprocess.Popen[str], timeout: float = 60) -> str:
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0
    return output


@contextlib.contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as anybody with SQLite may open it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def sum_of_events(ledger: Ledger, account: str) -> Spent:
    """What ``total`` must say, computed the long way."""
    events = list(ledger.events())
    under = [
        event
        for event in events
        if event.kind == "reserve" and (event.account + "/").startswith(account + "/")
    ]
    settled = {event.entry: event.amount for event in events if event.kind == "settle"}
    costs = [settled.get(event.seq, event.amount).units for event in under]
    return Spent(
        Amount(*(sum(units) for units in zip(*costs, strict=True))) if costs else Amount(),
        queries=len(under),
        unsettled=sum(event.seq not in settled for event in under),
    )


def everything(directory: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in directory.iterdir() if item.is_file()}

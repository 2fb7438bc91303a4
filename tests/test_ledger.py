from __future__ import annotations

import contextlib
import copy
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from dpsql.accounting import MAX_UNITS, Amount
from dpsql.errors import BudgetExceeded, LedgerError, ParameterError
from dpsql.ledger import Account, Charge, Ledger, Spent
from dpsql.ledger.schema import SCHEMA_VERSION

PLAN = '{"mechanism": "gaussian", "sigma": 2.5}'
LIMIT = 10**12


@dataclass(frozen=True)
class Currency:
    """What an account is charged in beside delta: ``rho`` or ``epsilon``."""

    name: str

    @property
    def other(self) -> Currency:
        return EPSILON if self == RHO else RHO

    def amount(self, units: int, delta: int) -> Amount:
        return Amount(**{self.name: units}, delta=delta)

    def account(self, path: str, units: int = LIMIT, delta: int = LIMIT) -> Account:
        return Account(path, self.amount(units, delta))

    def spent(self, units: int, delta: int, queries: int, unsettled: int) -> Spent:
        return Spent(self.amount(units, delta), queries, unsettled)

    def reserve(self, ledger: Ledger, units: int, delta: int, *accounts: Account) -> Charge:
        payers = accounts or (self.account("sales"),)
        return ledger.reserve(payers, self.amount(units, delta), query="f1", plan=PLAN)


RHO, EPSILON = Currency("rho"), Currency("epsilon")

# The start of every script run in another process.
SCRIPT = f"""
import os, sys, time, threading
from dpsql.accounting import Amount
from dpsql.ledger import Account, Ledger
from dpsql.errors import BudgetExceeded
PLAN = '{{}}'
path, name = sys.argv[1], sys.argv[2]
def amount(units, delta=1):
    return Amount(**{{name: units}}, delta=delta)
account = Account("sales", amount({LIMIT}, {LIMIT}))
def reserve(ledger, units=1):
    return ledger.reserve([account], amount(units), query="q", plan=PLAN)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as opened:
        yield opened


@pytest.fixture(params=[RHO, EPSILON], ids=lambda currency: currency.name)
def currency(request: pytest.FixtureRequest) -> Currency:
    found: Currency = request.param
    return found


def start(script: str, path: Path, currency: Currency = RHO) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + script, str(path), currency.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=60)
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


def sum_of_entries(path: Path, account: str) -> Spent:
    """What ``spent`` must say, computed the long way."""
    with raw(path) as connection:
        rows = connection.execute(
            "SELECT reserved_rho, reserved_epsilon, reserved_delta, settled, settled_rho, "
            "settled_epsilon FROM entries "
            "JOIN charges USING (entry) JOIN accounts USING (account) WHERE path = ?",
            (account,),
        ).fetchall()
    return Spent(
        Amount(
            rho=sum(row[0] if row[3] is None else row[4] for row in rows),
            epsilon=sum(row[1] if row[3] is None else row[5] for row in rows),
            delta=sum(row[2] for row in rows),
        ),
        queries=len(rows),
        unsettled=sum(row[3] is None for row in rows),
    )


def everything(directory: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in directory.iterdir() if item.is_file()}


# Reserving and settling


def test_a_new_account_has_spent_nothing(ledger: Ledger) -> None:
    assert ledger.spent("sales") == Spent()
    assert ledger.history("sales") == ()


def test_a_reservation_counts_in_full_until_it_is_settled(
    ledger: Ledger, currency: Currency
) -> None:
    charge = currency.reserve(ledger, 100, 7)
    assert charge == Charge(charge.entry, ("sales",), currency.amount(100, 7))
    assert ledger.spent("sales") == currency.spent(100, 7, 1, 1)
    ledger.settle(charge, currency.amount(40, 7))
    assert ledger.spent("sales") == currency.spent(40, 7, 1, 0)


def test_every_account_of_a_charge_pays_it_all(ledger: Ledger, currency: Currency) -> None:
    charge = currency.reserve(
        ledger, 100, 7, currency.account("sales"), currency.account("sales/alice")
    )
    assert ledger.spent("sales") == ledger.spent("sales/alice") == currency.spent(100, 7, 1, 1)
    ledger.settle(charge, currency.amount(0, 7))
    assert ledger.spent("sales") == ledger.spent("sales/alice") == currency.spent(0, 7, 1, 0)
    assert ledger.spent("sales/bob") == Spent()


def test_a_limit_can_be_reached_exactly_and_not_passed(ledger: Ledger, currency: Currency) -> None:
    account = currency.account("sales", 10, 5)
    currency.reserve(ledger, 6, 2, account)
    currency.reserve(ledger, 4, 3, account)
    for units, delta in [(1, 0), (0, 1)]:
        with pytest.raises(BudgetExceeded):
            currency.reserve(ledger, units, delta, account)
    assert ledger.spent("sales") == currency.spent(10, 5, 2, 2)


def test_limits_of_64_bits_do_not_overflow(ledger: Ledger, currency: Currency) -> None:
    account = currency.account("sales", MAX_UNITS, MAX_UNITS)
    currency.reserve(ledger, MAX_UNITS, MAX_UNITS, account)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, MAX_UNITS, MAX_UNITS, account)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, 1, 0, account)
    assert ledger.spent("sales") == currency.spent(MAX_UNITS, MAX_UNITS, 1, 1)


def test_a_refused_reservation_says_what_is_left_and_changes_nothing(
    ledger: Ledger, path: Path, currency: Currency
) -> None:
    currency.reserve(ledger, 2**39, 2**60, currency.account("sales", 2**40, 2**62))
    with raw(path) as connection:
        before = list(connection.iterdump())
        with pytest.raises(BudgetExceeded) as refusal:
            currency.reserve(
                ledger,
                2**39,
                2**60,
                currency.account("sales/alice", 2**40, 2**62),
                currency.account("sales", 2**39 + 2**38, 2**61),
            )
        assert list(connection.iterdump()) == before
    assert refusal.value.remaining == (0.25, 0.25)
    assert refusal.value.requested == (0.5, 0.25)
    assert "sales" in str(refusal.value)
    assert "sales/alice" not in str(refusal.value)
    assert f"{currency.name} 0.25 and delta 0.25 are left" in refusal.value.reason
    assert currency.other.name not in refusal.value.reason


def test_one_full_account_of_several_refuses_the_charge_for_all(
    ledger: Ledger, currency: Currency
) -> None:
    for order in (1, -1):
        accounts = currency.account("sales", 10, 10), currency.account("sales/alice", 100, 100)
        with pytest.raises(BudgetExceeded):
            currency.reserve(ledger, 11, 0, *accounts[::order])
    assert ledger.spent("sales") == ledger.spent("sales/alice") == Spent()


def test_a_lowered_limit_leaves_nothing_rather_than_a_negative_amount(
    ledger: Ledger, currency: Currency
) -> None:
    currency.reserve(ledger, 100, 100)
    with pytest.raises(BudgetExceeded) as refusal:
        currency.reserve(ledger, 1, 0, currency.account("sales", 50, 50))
    assert refusal.value.remaining == (0.0, 0.0)


def test_settling_frees_room_that_the_next_reservation_may_use(
    ledger: Ledger, currency: Currency
) -> None:
    account = currency.account("sales", 10, 10)
    charge = currency.reserve(ledger, 10, 1, account)
    ledger.settle(charge, currency.amount(3, 1))
    currency.reserve(ledger, 7, 1, account)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, 1, 0, account)


def test_settling_refuses_more_than_reserved_and_any_refund_of_delta(
    ledger: Ledger, currency: Currency
) -> None:
    charge = currency.reserve(ledger, 100, 7)
    for units, delta in [(101, 7), (100, 8), (100, 6), (0, 0)]:
        with pytest.raises(LedgerError):
            ledger.settle(charge, currency.amount(units, delta))
    assert ledger.spent("sales") == currency.spent(100, 7, 1, 1)


def test_settling_twice_is_refused(ledger: Ledger, currency: Currency) -> None:
    charge = currency.reserve(ledger, 100, 7)
    ledger.settle(charge, currency.amount(50, 7))
    for units in (0, 50, 100):
        with pytest.raises(LedgerError) as refusal:
            ledger.settle(charge, currency.amount(units, 7))
        assert refusal.value.code == "ledger_settled_twice"
    assert ledger.spent("sales") == currency.spent(50, 7, 1, 0)


def test_a_charge_this_ledger_did_not_make_is_refused(ledger: Ledger, currency: Currency) -> None:
    charge = currency.reserve(ledger, 100, 7)
    for forged in (
        Charge(charge.entry + 1, charge.accounts, currency.amount(100, 7)),
        Charge(charge.entry, charge.accounts, currency.amount(101, 7)),
        Charge(charge.entry, charge.accounts, currency.amount(100, 8)),
        Charge(charge.entry, ("sales/alice",), currency.amount(100, 7)),
    ):
        with pytest.raises(LedgerError) as refusal:
            ledger.settle(forged, currency.amount(0, forged.amount.delta))
        assert refusal.value.code == "ledger_unknown_entry"
    assert ledger.spent("sales") == currency.spent(100, 7, 1, 1)


def test_an_account_is_never_charged_in_the_currency_it_has_no_limit_in(
    ledger: Ledger, currency: Currency
) -> None:
    for units, delta in [(1, 0), (MAX_UNITS, 1)]:
        with pytest.raises(BudgetExceeded):
            currency.reserve(ledger, units, delta, currency.other.account("sales"))
    assert ledger.spent("sales") == Spent()


def test_neither_a_charge_nor_an_account_is_in_both_currencies(ledger: Ledger) -> None:
    both = Amount(rho=1, epsilon=1, delta=1)
    with pytest.raises(ParameterError):
        Account("sales", both)
    with pytest.raises(ParameterError):
        ledger.reserve([RHO.account("sales")], both, query="f1", plan=PLAN)
    assert ledger.spent("sales") == Spent()


def test_an_account_whose_composition_was_changed_after_a_charge_is_refused_until_it_is_restored(
    ledger: Ledger, path: Path, currency: Currency
) -> None:
    former = {"rho": "zcdp", "epsilon": "basic"}[currency.name]
    charge = currency.reserve(ledger, 100, 7)
    switched = currency.other.account("sales")
    with raw(path) as connection:
        before = list(connection.iterdump())
        for payers in [(switched,), (currency.other.account("sales/alice"), switched)]:
            with pytest.raises(LedgerError) as refusal:
                currency.other.reserve(ledger, 1, 1, *payers)
            assert refusal.value.code == "ledger_other_composition"
            assert f"the account sales was charged under `composition: {former}`" in str(
                refusal.value
            )
            assert f"restore `composition: {former}`" in (refusal.value.hint or "")
            assert "another name" in (refusal.value.hint or "")
        assert list(connection.iterdump()) == before
    ledger.settle(charge, currency.amount(1, 7))
    with pytest.raises(LedgerError):
        currency.other.reserve(ledger, 1, 1, switched)
    currency.reserve(ledger, 1, 1)
    assert ledger.spent("sales") == currency.spent(2, 8, 2, 1)


def test_an_account_that_was_refunded_everything_but_delta_may_change_its_composition(
    ledger: Ledger, currency: Currency
) -> None:
    ledger.settle(currency.reserve(ledger, 100, 7), currency.amount(0, 7))
    account = currency.other.account("sales", 5, 10)
    currency.other.reserve(ledger, 5, 3, account)
    with pytest.raises(BudgetExceeded):
        currency.other.reserve(ledger, 0, 1, account)
    assert ledger.spent("sales") == currency.other.spent(5, 10, 2, 1)


@pytest.mark.parametrize("bad", [True, 1.0, -1, 2**63, "1", None, float("nan")])
def test_amounts_are_integers_of_64_bits(ledger: Ledger, bad: Any, currency: Currency) -> None:
    charge = currency.reserve(ledger, 1, 1)
    refusals: list[Callable[[], object]] = [
        lambda: currency.reserve(ledger, bad, 1),
        lambda: currency.reserve(ledger, 1, bad),
        lambda: ledger.settle(charge, currency.amount(bad, 1)),
        lambda: ledger.settle(charge, currency.amount(1, bad)),
        lambda: ledger.settle(Charge(bad, ("sales",), charge.amount), charge.amount),
        lambda: ledger.history("sales", bad),
        lambda: currency.account("sales", bad, 1),
        lambda: currency.account("sales", 1, bad),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()
    assert ledger.spent("sales") == currency.spent(1, 1, 1, 1)


def test_a_charge_of_nothing_or_to_nobody_is_refused(ledger: Ledger, currency: Currency) -> None:
    with pytest.raises(ParameterError):
        currency.reserve(ledger, 0, 0)
    with pytest.raises(ParameterError):
        ledger.reserve([], currency.amount(1, 1), query="f1", plan=PLAN)
    with pytest.raises(ParameterError):
        currency.reserve(ledger, 1, 1, currency.account("sales"), currency.account("sales", 5, 5))
    with pytest.raises(ParameterError):
        ledger.reserve(
            ["sales"],  # type: ignore[list-item]
            currency.amount(1, 1),
            query="f1",
            plan=PLAN,
        )


@pytest.mark.parametrize(
    "bad", ["", "/", "a/", "/a", "a//b", " a", "a/ b", "a\nb", "a\0b", "\ud800", "a" * 513, 5, None]
)
def test_malformed_account_paths_are_refused(ledger: Ledger, bad: Any) -> None:
    for refused in (lambda: Account(bad, Amount()), lambda: ledger.spent(bad)):
        with pytest.raises(ParameterError):
            refused()


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 1025, None])
def test_a_malformed_fingerprint_is_refused(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(ParameterError):
        ledger.reserve([RHO.account("sales")], RHO.amount(1, 1), query=bad, plan=PLAN)


@pytest.mark.parametrize("bad", ["", "{", "[" * 100_000, '"\ud800"', None, {"a": 1}])
def test_a_plan_that_is_not_json_is_refused(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(ParameterError):
        ledger.reserve([RHO.account("sales")], RHO.amount(1, 1), query="f1", plan=bad)


def test_history_tells_what_happened_newest_first(ledger: Ledger, currency: Currency) -> None:
    before = datetime.now(UTC)
    first = currency.reserve(
        ledger, 100, 7, currency.account("sales/alice"), currency.account("sales")
    )
    second = currency.reserve(ledger, 50, 3)
    ledger.settle(first, currency.amount(60, 7))
    newest, oldest = ledger.history("sales")
    assert (newest.entry, oldest.entry) == (second.entry, first.entry)
    assert (newest.accounts, oldest.accounts) == (("sales",), ("sales", "sales/alice"))
    assert (oldest.query, oldest.plan) == ("f1", PLAN)
    assert (oldest.reserved, oldest.charged) == (currency.amount(100, 7), currency.amount(60, 7))
    assert (newest.reserved, newest.charged) == (currency.amount(50, 3), None)
    assert newest.settled is None
    assert oldest.settled is not None
    for moment in map(datetime.fromisoformat, (newest.created, oldest.created, oldest.settled)):
        assert moment.utcoffset() == timedelta(0)
        assert before <= moment <= datetime.now(UTC)
    assert ledger.history("sales", 1) == (newest,)
    assert ledger.history("sales", 0) == ()
    assert ledger.history("sales/alice") == (oldest,)


def test_what_was_spent_survives_closing(path: Path, currency: Currency) -> None:
    with Ledger.open(path) as ledger:
        charge = currency.reserve(ledger, 100, 7)
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales") == currency.spent(100, 7, 1, 1)
        ledger.settle(charge, currency.amount(1, 7))
        assert ledger.spent("sales") == currency.spent(1, 7, 1, 0)


def test_spent_takes_the_same_work_after_many_entries(ledger: Ledger, currency: Currency) -> None:
    def steps() -> int:
        """Steps of SQLite's machine, which do not depend on the clock."""
        count = 0

        def tick() -> int:
            nonlocal count
            count += 1
            return 0

        assert ledger._connection is not None
        ledger._connection.set_progress_handler(tick, 1)
        ledger.spent("sales")
        ledger._connection.set_progress_handler(None, 1)
        return count

    currency.reserve(ledger, 1, 1)
    few = steps()
    for _ in range(100):
        currency.reserve(ledger, 1, 1)
    assert steps() <= few + 2


# Nothing else lowers what was spent


def test_the_ledger_has_no_call_that_refunds() -> None:
    public = {name for name in dir(Ledger) if not name.startswith("_")}
    assert public == {"open", "close", "reserve", "settle", "spent", "history"}


# Settles the second entry, which is open; what follows is all that is wrong with it. (Of several
# assignments to a column the last one counts.)
SETTLE = "UPDATE entries SET settled = 't', settled_delta = 7, settled_{paid} = 1, "
OPEN = " WHERE entry = 2"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries",
        "DELETE FROM charges",
        "DELETE FROM accounts",
        "UPDATE entries SET reserved_{paid} = 0" + OPEN,
        "UPDATE entries SET created = '2000-01-01'" + OPEN,
        SETTLE + "settled_{other} = 0, reserved_{paid} = 10" + OPEN,
        SETTLE + "settled_{other} = 0, reserved_{paid} = 1000" + OPEN,
        SETTLE + "settled_{other} = 0, reserved_delta = 6, settled_delta = 6" + OPEN,
        SETTLE + "settled_{other} = 0, created = '2000-01-01'" + OPEN,
        SETTLE + "settled_{other} = 0, plan = '{{}}'" + OPEN,
        SETTLE + "settled_{other} = 0, entry = 12" + OPEN,
        SETTLE + "settled_{other} = 1" + OPEN,
        SETTLE + "settled_{other} = NULL" + OPEN,
        SETTLE + "settled_{other} = 0, settled_{paid} = NULL" + OPEN,
        SETTLE + "settled_{other} = 0, settled_{paid} = 101" + OPEN,
        SETTLE + "settled_{other} = 0, settled_{paid} = 1.5" + OPEN,
        SETTLE + "settled_{other} = 0, settled_{paid} = -1" + OPEN,
        SETTLE + "settled_{other} = 0, settled_delta = 6" + OPEN,
        SETTLE + "settled_{other} = 0, settled_delta = NULL" + OPEN,
        SETTLE + "settled_{other} = 0 WHERE entry = 1",
        "UPDATE entries SET settled = NULL, settled_rho = NULL, settled_epsilon = NULL, "
        "settled_delta = NULL WHERE entry = 1",
        "INSERT OR REPLACE INTO entries {new} VALUES (2, 't', 'q', '{{}}', 1, 0, 0, {open})",
        "INSERT INTO entries {new} VALUES (9, 't', 'q', '{{}}', 5, 0, 0, 't', 1, 0, 0)",
        "INSERT INTO entries {new} VALUES (9, 't', 'q', '{{}}', -5, 0, 1, {open})",
        "INSERT INTO entries {new} VALUES (9, 't', 'q', '{{}}', 0.5, 0, 1, {open})",
        "INSERT INTO entries {new} VALUES (9, 't', 'q', '{{}}', 0, 0, 0, {open})",
        "INSERT INTO entries {new} VALUES (9, 't', 'q', '{{}}', 5, 5, 0, {open})",
        "INSERT OR REPLACE INTO charges VALUES (1, 2)",
        "UPDATE charges SET account = 2",
        "UPDATE accounts SET {paid} = {paid} - 1",
        "UPDATE accounts SET {other} = 1",
        "UPDATE accounts SET delta = delta - 1",
        "UPDATE accounts SET path = 'other'",
        "INSERT INTO accounts (path, {paid}) VALUES ('other', 5)",
        "INSERT OR REPLACE INTO accounts (path) VALUES ('sales')",
        "INSERT OR REPLACE INTO accounts (account, path) VALUES (1, 'other')",
    ],
)
def test_the_file_itself_refuses_to_forget(
    ledger: Ledger, path: Path, statement: str, currency: Currency
) -> None:
    paid, other = currency.name, currency.other.name
    columns = (
        f"(entry, created, query, plan, reserved_{paid}, reserved_{other}, reserved_delta, "
        f"settled, settled_{paid}, settled_{other}, settled_delta)"
    )
    words = {"paid": paid, "other": other, "new": columns, "open": "NULL, NULL, NULL, NULL"}
    charge = currency.reserve(ledger, 100, 7)
    ledger.settle(charge, currency.amount(60, 7))
    currency.reserve(ledger, 100, 7)
    with raw(path) as connection:
        before = list(connection.iterdump())
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement.format(**words))
        assert list(connection.iterdump()) == before
        connection.execute((SETTLE + "settled_{other} = 0" + OPEN).format(**words))
    assert ledger.spent("sales") == currency.spent(61, 14, 2, 0)


# Files


def test_a_new_ledger_is_private_to_its_owner(path: Path) -> None:
    previous = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            RHO.reserve(ledger, 1, 1)
            modes = {item.name: item.stat().st_mode & 0o777 for item in path.parent.iterdir()}
    finally:
        os.umask(previous)
    assert set(modes) == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    assert set(modes.values()) == {0o600}


def test_every_commit_is_synced(ledger: Ledger) -> None:
    connection = ledger._connection
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def make_text(path: Path) -> None:
    path.write_text("policies:\n  - not a ledger\n" * 100)


def make_empty(path: Path) -> None:
    path.touch()


def make_foreign(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE precious (x)")


def make_foreign_in_use(path: Path) -> None:
    """A database whose owner died and left work in its log, which opening it would replay."""
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE precious (x)")
        log = Path(f"{path}-wal").read_bytes()
    Path(f"{path}-wal").write_bytes(log)


def make_used_ledger(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for _ in range(50):
            RHO.reserve(ledger, 1, 1)


def make_newer(path: Path) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def make_altered(path: Path) -> None:
    make_used_ledger(path)
    with raw(path) as connection:
        connection.execute("DROP TRIGGER entry_stays")


def make_truncated(path: Path) -> None:
    make_used_ledger(path)
    os.truncate(path, 4096 * 3)


def make_cut_short(path: Path) -> None:
    make_used_ledger(path)
    os.truncate(path, 200)


def make_damaged(path: Path) -> None:
    make_used_ledger(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 2000)


def make_damaged_header(path: Path) -> None:
    make_used_ledger(path)
    with path.open("r+b") as file:
        file.write(b"\xa5" * 60)


def make_read_only(path: Path) -> None:
    make_used_ledger(path)
    path.chmod(0o444)


def make_log_without_ledger(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"log")


def make_broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (make_text, "ledger_corrupt"),
        (make_empty, "ledger_foreign"),
        (make_foreign, "ledger_foreign"),
        (make_foreign_in_use, "ledger_foreign"),
        (make_newer, "ledger_version"),
        (make_altered, "ledger_corrupt"),
        (make_truncated, "ledger_corrupt"),
        (make_cut_short, "ledger_corrupt"),
        (make_damaged, "ledger_corrupt"),
        (make_damaged_header, "ledger_corrupt"),
        (make_read_only, "ledger_read_only"),
        (make_log_without_ledger, "ledger_missing"),
        (make_broken_link, "ledger_missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_is_not_a_usable_ledger_is_refused_untouched(
    path: Path, make: Callable[[Path], None], code: str
) -> None:
    make(path)
    before = everything(path.parent)
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(path)
    assert refusal.value.code == code
    assert refusal.value.hint
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert everything(path.parent) == before


def test_a_directory_and_a_path_without_directory_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[str | Path, str]] = [
        (tmp_path, "ledger_not_a_file"),
        (tmp_path / "missing" / "budget.ledger", "ledger_cannot_create"),
        (tmp_path / ("n" * 300), "ledger_cannot_create"),
        ("nul\0byte", "ledger_cannot_create"),
        ("/dev/null", "ledger_not_a_file"),
    ]
    for path, code in cases:
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(path)
        assert refusal.value.code == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?mode=memory#%41.db", ":memory:", "données", "-x"])
def test_any_file_name_is_just_a_file_name(tmp_path: Path, name: str) -> None:
    with Ledger.open(tmp_path / name) as ledger:
        RHO.reserve(ledger, 1, 1)
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_a_ledger_replaced_while_open_is_noticed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        path.rename(path.with_name("aside"))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").rename(path.with_name(f"aside{suffix}"))
        with pytest.raises(LedgerError):
            RHO.reserve(ledger, 1, 1)
        with Ledger.open(path), pytest.raises(LedgerError) as refusal:
            RHO.reserve(ledger, 1, 1)
        assert refusal.value.code == "ledger_missing"


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "10", True, None])
def test_a_bad_busy_timeout_is_refused(path: Path, bad: Any) -> None:
    with pytest.raises(ParameterError):
        Ledger.open(path, busy_timeout=bad)
    assert not path.exists()


def test_a_ledger_locked_for_too_long_is_busy_and_unchanged(path: Path) -> None:
    with Ledger.open(path, busy_timeout=0.05) as ledger, raw(path) as other:
        charge = RHO.reserve(ledger, 5, 1)
        other.execute("BEGIN IMMEDIATE")
        for attempt in (
            lambda: RHO.reserve(ledger, 1, 1),
            lambda: ledger.settle(charge, RHO.amount(1, 1)),
        ):
            with pytest.raises(LedgerError) as refusal:
                attempt()
            assert refusal.value.code == "ledger_busy"
        assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
        other.execute("ROLLBACK")
        ledger.settle(charge, RHO.amount(1, 1))


def test_a_full_disk_refuses_the_charge_and_changes_nothing(ledger: Ledger) -> None:
    RHO.reserve(ledger, 1, 1)
    connection = ledger._connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError) as refusal:
        ledger.reserve(
            [RHO.account("sales")],
            RHO.amount(1, 1),
            query="f1",
            plan='"' + "x" * 100_000 + '"',
        )
    assert refusal.value.code == "ledger_disk_full"
    assert refusal.value.__suppress_context__
    assert ledger.spent("sales") == RHO.spent(1, 1, 1, 1)
    connection.execute("PRAGMA max_page_count = 1000000")
    RHO.reserve(ledger, 1, 1)


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = Ledger.open(path)
    ledger.close()
    ledger.close()
    for attempt in (lambda: RHO.reserve(ledger, 1, 1), lambda: ledger.spent("sales")):
        with pytest.raises(LedgerError) as refusal:
            attempt()
        assert refusal.value.code == "ledger_closed"


def test_a_ledger_is_neither_pickled_nor_copied(ledger: Ledger) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(LedgerError) as refusal:
            attempt(ledger)
        assert refusal.value.code == "ledger_not_picklable"


def test_an_interrupt_inside_a_transaction_undoes_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.ledger.store._require_settleable", interrupted)
        charge = RHO.reserve(ledger, 5, 1)
        with pytest.raises(KeyboardInterrupt):
            ledger.settle(charge, RHO.amount(1, 1))
    assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
    ledger.settle(charge, RHO.amount(1, 1))
    assert ledger.spent("sales") == RHO.spent(1, 1, 1, 0)


# Threads, processes, crashes, forks


def test_threads_share_one_ledger_and_one_limit(
    ledger: Ledger, path: Path, currency: Currency
) -> None:
    account = currency.account("sales", 50)
    granted: list[Charge] = []

    def work() -> None:
        for _ in range(10):
            with contextlib.suppress(BudgetExceeded):
                granted.append(currency.reserve(ledger, 1, 1, account))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({charge.entry for charge in granted}) == len(granted) == 50
    total = currency.spent(50, 50, 50, 50)
    assert ledger.spent("sales") == sum_of_entries(path, "sales") == total


def test_eight_processes_racing_reach_the_limit_exactly_and_never_pass_it(
    path: Path, currency: Currency
) -> None:
    script = """
account = Account("sales", amount(100, 10**6))
sys.stdin.read(1)
granted = 0
with Ledger.open(path, busy_timeout=60) as ledger:
    for _ in range(16):
        try:
            reserve(ledger)
            granted += 1
        except BudgetExceeded:
            pass
print(granted)
"""
    processes = [start(script, path, currency) for _ in range(8)]
    assert sum(int(finish(process)) for process in processes) == 100
    with Ledger.open(path) as ledger:
        total = currency.spent(100, 100, 100, 100)
        assert ledger.spent("sales") == sum_of_entries(path, "sales") == total
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_process_killed_between_reserve_and_settle_leaves_its_reservation_spent(
    path: Path, currency: Currency
) -> None:
    child = start(
        """
ledger = Ledger.open(path)
reserve(ledger, 1000)
print("reserved", flush=True)
time.sleep(60)
""",
        path,
        currency,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "reserved\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales") == currency.spent(1000, 1, 1, 1)


def test_a_process_killed_at_any_moment_keeps_all_it_was_told(
    path: Path, currency: Currency
) -> None:
    script = """
with Ledger.open(path) as ledger:
    while True:
        charge = reserve(ledger, 10)
        print("reserved", charge.entry, flush=True)
        ledger.settle(charge, amount(3))
        print("settled", charge.entry, flush=True)
"""
    told: list[list[str]] = []
    for pause in (0.0, 0.013, 0.037):
        child = start(script, path, currency)
        assert child.stdout is not None
        told.append(child.stdout.readline().split())
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        output, _ = child.communicate()
        # The last line may have been cut by the kill.
        told.extend(line.split() for line in output.split("\n")[:-1])
    reserved = {int(entry) for word, entry in told if word == "reserved"}
    settled = {int(entry) for word, entry in told if word == "settled"}
    with Ledger.open(path) as ledger:
        entries = {entry.entry: entry for entry in ledger.history("sales", 10**6)}
        assert reserved <= set(entries)
        assert all(entries[entry].charged == currency.amount(3, 1) for entry in settled)
        assert ledger.spent("sales") == sum_of_entries(path, "sales")
        assert getattr(ledger.spent("sales").amount, currency.name) >= 3 * len(reserved)


def test_opening_the_ledger_again_in_one_process_keeps_the_first_ones_locks(path: Path) -> None:
    """Closing any descriptor of a file drops all POSIX locks of the process on it."""
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, 1, 1)
        Ledger.open(path).close()
        # If this process had lost its locks, the other would take itself for the last user and
        # delete the log that the next charge goes to.
        finish(start("Ledger.open(path).close()", path))
        RHO.reserve(ledger, 1, 1)
        assert Path(f"{path}-wal").exists()
        with Ledger.open(path) as second:
            assert second.spent("sales") == RHO.spent(2, 2, 2, 2)


def test_a_forked_child_loses_no_charge_when_its_parent_closes(path: Path) -> None:
    """Without letting go before the fork, the parent's close deletes the log the child writes."""
    finish(
        start(
            """
ledger = Ledger.open(path)
charge = reserve(ledger)
child_used, tell_parent = os.pipe()
parent_closed, tell_child = os.pipe()
child = os.fork()
if child == 0:
    reserve(ledger)
    os.write(tell_parent, b"x")
    os.read(parent_closed, 1)
    for _ in range(4):
        reserve(ledger)
    os._exit(0)
reserve(ledger)
os.read(child_used, 1)
ledger.settle(charge, amount(0))
ledger.close()
os.write(tell_child, b"x")
assert os.waitpid(child, 0)[1] == 0
""",
            path,
        )
    )
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales") == sum_of_entries(path, "sales") == RHO.spent(6, 7, 7, 6)


def test_forks_in_the_middle_of_other_threads_charges_lose_nothing(path: Path) -> None:
    finish(
        start(
            """
ledger = Ledger.open(path, busy_timeout=30)
done = False
count = 0
def work():
    global count
    while not done:
        reserve(ledger)
        count += 1
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for _ in range(6):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        for _ in range(3):
            reserve(ledger)
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
done = True
for thread in threads:
    thread.join()
assert ledger.spent("sales").queries == count + 18, (ledger.spent("sales"), count)
ledger.close()
""",
            path,
        )
    )
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales") == sum_of_entries(path, "sales")


def test_a_fork_that_python_did_not_announce_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    RHO.reserve(ledger, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(LedgerError) as refusal:
            RHO.reserve(ledger, 1, 1)
        assert refusal.value.code == "ledger_forked"
    assert ledger.spent("sales") == RHO.spent(1, 1, 1, 1)


# A model


class LedgerModel(RuleBasedStateMachine):
    """The ledger against a list of [accounts, amount, settled].

    Each reservation finds another policy, which gives its accounts zCDP or basic composition.
    """

    charges = Bundle("charges")
    limits: ClassVar = {"a": (40, 30), "a/b": (25, 60), "a/c": (60, 15)}

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "ledger"
        self.ledger = Ledger.open(self.path)
        self.model: dict[int, list[Any]] = {}

    def teardown(self) -> None:
        self.ledger.close()
        self.directory.cleanup()

    def total(self, path: str) -> Spent:
        lines = [line for line in self.model.values() if path in line[0]]
        return Spent(
            Amount(*(sum(line[1].units[i] for line in lines) for i in range(3))),
            queries=len(lines),
            unsettled=sum(not line[2] for line in lines),
        )

    @rule(
        target=charges,
        paths=st.lists(st.sampled_from(sorted(limits)), min_size=1, unique=True),
        policy=st.sampled_from([RHO, EPSILON]),
        currency=st.sampled_from([RHO, EPSILON]),
        units=st.integers(0, 20),
        delta=st.integers(0, 12),
    )
    def reserve(
        self, paths: list[str], policy: Currency, currency: Currency, units: int, delta: int
    ) -> Any:
        amount = currency.amount(units, delta)
        totals = {path: self.total(path).amount for path in paths}
        switched = any(getattr(total, policy.other.name) for total in totals.values())
        fits = all(
            getattr(totals[path], policy.name) + units <= self.limits[path][0]
            and totals[path].delta + delta <= self.limits[path][1]
            and (currency == policy or units == 0)
            for path in paths
        )
        accounts = [policy.account(path, *self.limits[path]) for path in paths]
        if units == delta == 0 or switched or not fits:
            with pytest.raises((BudgetExceeded, LedgerError, ParameterError)) as refusal:
                self.ledger.reserve(accounts, amount, query="q", plan="{}")
            code = "ledger_other_composition" if switched else "budget_exceeded"
            assert refusal.value.code == (code if units or delta else "bad_parameter")
            return None
        charge = self.ledger.reserve(accounts, amount, query="q", plan="{}")
        assert charge.entry not in self.model
        self.model[charge.entry] = [paths, amount, False]
        return charge

    @rule(
        charge=charges,
        currency=st.sampled_from([RHO, EPSILON]),
        units=st.integers(0, 20),
        delta=st.integers(-1, 1),
    )
    def settle(self, charge: Charge | None, currency: Currency, units: int, delta: int) -> None:
        if charge is None:
            return
        line = self.model[charge.entry]
        if line[2] or delta or units > getattr(charge.amount, currency.name):
            with pytest.raises((LedgerError, ParameterError)):
                self.ledger.settle(charge, currency.amount(units, charge.amount.delta + delta))
            return
        amount = currency.amount(units, charge.amount.delta)
        self.ledger.settle(charge, amount)
        line[1], line[2] = amount, True

    @rule(charge=consumes(charges))
    def abandon(self, charge: Charge | None) -> None:
        """A query dies: its charge is lost, its reservation is not."""

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.path)

    @invariant()
    def totals_are_the_models_and_the_sum_of_entries(self) -> None:
        for path in self.limits:
            assert self.ledger.spent(path) == self.total(path) == sum_of_entries(self.path, path)

    @invariant()
    def no_account_holds_both_currencies_or_more_than_its_limit(self) -> None:
        for path, (units, delta) in self.limits.items():
            amount = self.ledger.spent(path).amount
            assert min(amount.rho, amount.epsilon) == 0
            assert max(amount.rho, amount.epsilon) <= units
            assert amount.delta <= delta


def test_the_ledger_agrees_with_a_small_model() -> None:
    run_state_machine_as_test(
        LedgerModel,
        settings=settings(
            max_examples=40,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

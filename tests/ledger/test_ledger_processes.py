"""Threads, processes, crashes and forks on one ledger."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from helpers.ledgers import EPSILON, RHO, Currency, finish, start, sum_of_events

from dpsql.errors import BudgetExceeded, LedgerError
from dpsql.ledger import Charge, Ledger


@pytest.fixture(params=[RHO, EPSILON], ids=lambda currency: currency.name)
def currency(request: pytest.FixtureRequest) -> Currency:
    found: Currency = request.param
    return found


def test_threads_share_one_ledger_and_one_limit(ledger: Ledger, currency: Currency) -> None:
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
    assert ledger.spent("sales") == sum_of_events(ledger, "sales") == total


@pytest.mark.slow
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
        assert ledger.spent("sales") == sum_of_events(ledger, "sales") == total
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
        assert ledger.spent("sales") == sum_of_events(ledger, "sales")
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
        assert ledger.spent("sales") == sum_of_events(ledger, "sales") == RHO.spent(6, 7, 7, 6)


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
        assert ledger.spent("sales") == sum_of_events(ledger, "sales")


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


@pytest.mark.few(1)
def test_a_ledger_is_found_sound_while_others_write_to_it(place: str | Path) -> None:
    """Verification sees one state throughout, whatever is charged meanwhile."""
    with Ledger.open(place) as ledger, Ledger.open(place, busy_timeout=60) as other:
        done = threading.Event()

        def work() -> None:
            for _ in range(60):
                charge = RHO.reserve(other, 2, 1)
                other.settle(charge, RHO.amount(1, 1), b"answer")
            done.set()

        writer = threading.Thread(target=work)
        writer.start()
        seen = {ledger.verify()}
        while not done.is_set():
            seen.add(ledger.verify())
        writer.join()
        assert all(found.sound for found in seen)
        assert len(seen) > 1
        assert ledger.verify().events == 3 + 60 * 2

"""Threads, processes, crashes and forks on one ledger."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.ledgers import EPSILON, RHO, Currency, finish, start, sum_of_events

from dpsql.errors import BudgetExceeded
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


@pytest.mark.slow
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
        with fails_with("ledger_forked"):
            RHO.reserve(ledger, 1, 1)
    assert ledger.spent("sales") == RHO.spent(1, 1, 1, 1)


@pytest.mark.slow
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

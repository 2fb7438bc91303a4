"""An engine that failed on private rows suspends the account until the owner has looked."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import PLAN, RHO, raw
from test_ledger_owner import Clock, clock

from dpsql.errors import Error, ParameterError
from dpsql.ledger import Account, Cause, Charge, Kind, Ledger

__all__ = ["clock"]  # a fixture
ALICE, BOB = RHO.account("sales/alice"), RHO.account("sales/bob")
NOTEBOOK = RHO.account("sales/alice/notebook")


def ask(ledger: Ledger, account: Account = ALICE) -> Charge:
    return RHO.reserve(ledger, 10, 1, account)


def refusal_of(ledger: Ledger, account: Account = ALICE) -> Error:
    with fails_with("account_suspended") as refusal:
        ask(ledger, account)
    return refusal.value


def test_a_failure_suspends_the_account_and_all_below_it_alone(ledger: Ledger) -> None:
    session, other = ask(ledger, NOTEBOOK), ask(ledger, BOB)
    ledger.fail(session, "sales/alice", Cause.ENGINE)
    before = ledger.head()
    for account in (ALICE, NOTEBOOK, RHO.account("sales/alice/new")):
        refusal_of(ledger, account)
    assert ledger.head() == before  # free of charge
    ledger.settle(other, RHO.amount(1, 1))
    ask(ledger, BOB)
    assert ledger.spent("sales/alice") == RHO.spent(10, 1, 1, 1)  # the reservation stays whole
    dataset, alice, notebook = ledger.standing("sales/alice/notebook")
    assert (dataset.suspended, notebook.suspended) == (None, None)
    (event,) = ledger.suspensions("sales/alice/notebook")
    assert (event.kind, event.account, event.entry) == (Kind.FAILURE, "sales/alice", session.entry)
    assert event.detail == '{"cause": "engine"}'
    assert alice.suspended == event.time
    assert ledger.verify().sound


def test_a_failure_of_the_dataset_suspends_everybody(ledger: Ledger) -> None:
    ledger.fail(ask(ledger), "sales", Cause.TIME)
    refusal_of(ledger, ALICE)
    refusal_of(ledger, BOB)
    assert "account sales is" in refusal_of(ledger, NOTEBOOK).reason


def test_the_refusal_says_what_to_do_and_nothing_of_the_cause(ledger: Ledger) -> None:
    told = set()
    for number, cause in enumerate(Cause):
        account = RHO.account(f"sales/it's {number}")
        ledger.fail(ask(ledger, account), account.path, cause)
        refusal = refusal_of(ledger, account)
        assert f"dpsql budget owner reopen 'sales/it'\"'\"'s {number}'" in (refusal.hint or "")
        told.add(f"{refusal.reason} {refusal.hint}".replace(f"s {number}", ""))
    (text,) = told
    assert "the engine failed while it read private rows for an earlier question" in text
    assert "until the owner of the data has reopened it" in text


def test_failing_twice_is_failing_once(ledger: Ledger) -> None:
    charge = ask(ledger)
    ledger.fail(charge, "sales/alice", Cause.ENGINE)
    head, since = ledger.head(), ledger.standing("sales/alice")[-1].suspended
    ledger.fail(charge, "sales/alice", Cause.MEMORY)
    assert ledger.head() == head
    ledger.owner("olga").reopen("sales/alice")
    ledger.fail(charge, "sales/alice", Cause.ENGINE)  # the owner has looked at this one
    assert ledger.standing("sales/alice")[-1].suspended is None
    ledger.fail(ask(ledger), "sales/alice", Cause.ENGINE)
    assert ledger.standing("sales/alice")[-1].suspended != since
    refusal_of(ledger)


def test_queries_that_run_when_another_fails_are_not_answered_either(ledger: Ledger) -> None:
    """Or each of them would tell whether it failed."""
    failing, running, also = (ask(ledger) for _ in range(3))
    ledger.fail(failing, "sales/alice", Cause.ENGINE)
    first = ledger.standing("sales/alice")[-1].suspended
    with fails_with("account_suspended"):
        ledger.settle(running, RHO.amount(1, 1), b"answer")
    assert ledger.stored("sales/alice", "f1") is None
    ledger.fail(also, "sales/alice", Cause.ENGINE)
    assert ledger.standing("sales/alice")[-1].suspended == first
    ledger.owner("olga").reopen("sales/alice")  # once for both
    ledger.settle(running, RHO.amount(1, 1), b"answer")
    assert ledger.stored("sales/alice", "f1") is not None
    assert ledger.verify().sound


def test_a_failed_query_is_never_settled(ledger: Ledger) -> None:
    charge = ask(ledger)
    ledger.fail(charge, "sales", Cause.ENGINE)
    ledger.owner("olga").reopen("sales")
    with fails_with("ledger_failed_entry"):
        ledger.settle(charge, RHO.amount(1, 1))
    assert ledger.spent("sales") == RHO.spent(10, 1, 1, 1)
    (entry,) = ledger.history("sales")
    assert (entry.settled, entry.charged, entry.stored) == (None, None, False)
    assert entry.failed == ledger.suspensions("sales")[-1].time


def test_what_cannot_fail_is_refused_unchanged(ledger: Ledger) -> None:
    charge, settled = ask(ledger, NOTEBOOK), ask(ledger)
    ledger.settle(settled, RHO.amount(1, 1))
    head = ledger.head()
    for account in ("sales/bob", "sales/alice/notebook/x", "sal", "sales/", "", "else"):
        with pytest.raises(ParameterError):
            ledger.fail(charge, account, Cause.ENGINE)
    odd: list[Any] = ["Conversion Error: 17 is no date", "", "Engine", None, b"engine", []]
    for cause in odd:
        with pytest.raises(ParameterError):
            ledger.fail(charge, "sales", cause)
    for unknown, code in (
        (Charge(99, "sales/alice", charge.amount), "ledger_unknown_entry"),
        (Charge(charge.entry, "sales/alice", charge.amount), "ledger_unknown_entry"),
        (Charge(charge.entry, charge.account, RHO.amount(9, 1)), "ledger_unknown_entry"),
        (settled, "ledger_settled_twice"),
    ):
        with fails_with(code):
            ledger.fail(unknown, "sales", Cause.ENGINE)
    assert ledger.head() == head


def test_answers_that_were_given_before_are_still_given(ledger: Ledger) -> None:
    ledger.settle(ask(ledger), RHO.amount(1, 1), b"answer")
    ledger.fail(ask(ledger), "sales", Cause.ENGINE)
    kept = ledger.stored("sales/alice", "f1")
    assert kept is not None
    assert kept.payload == b"answer"


def test_the_owner_suspends_and_reopens(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    ask(ledger)
    with fails_with("ledger_not_suspended"):
        owner.reopen("sales/alice")
    owner.suspend("sales")
    assert "the owner of the data has suspended it" in refusal_of(ledger).reason
    with fails_with("ledger_not_suspended"):
        owner.reopen("sales/alice")  # it is not this one
    owner.suspend("sales")
    owner.reopen("sales")
    ask(ledger)
    told = [(event.kind, event.who) for event in ledger.suspensions("sales/alice")]
    assert told == [("reopen", "olga"), ("suspend", "olga"), ("suspend", "olga")]
    assert ledger.suspensions("else") == ()
    assert ledger.verify().sound


def test_a_suspension_outlives_windows_and_the_ledgers_process(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.fail(ask(ledger), "sales/alice", Cause.ENGINE)
        ledger.owner("olga").open_window("sales/alice")
    with Ledger.open(path) as ledger:
        refusal_of(ledger)


def test_a_clock_that_went_back_does_not_prevent_a_suspension(ledger: Ledger, clock: Clock) -> None:
    clock.time += timedelta(days=1)
    charge = ask(ledger)
    clock.time -= timedelta(hours=1)
    with fails_with("ledger_clock"):
        ask(ledger)
    ledger.fail(charge, "sales/alice", Cause.ENGINE)
    assert ledger.standing("sales/alice")[-1].suspended is not None
    assert ledger.verify().sound


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE windows SET rho = rho + 1, queries = queries + 1, unsettled = unsettled + 1",
        "UPDATE accounts SET suspended = 0",
        "UPDATE accounts SET reopened = 0 WHERE reopened > 0",
    ],
)
def test_the_database_itself_keeps_the_rules(path: Path, statement: str) -> None:
    with Ledger.open(path) as ledger:
        charges = ask(ledger), ask(ledger)
        for charge in charges:
            ledger.fail(charge, "sales/alice", Cause.ENGINE)
            if charge is charges[0]:
                ledger.owner("olga").reopen("sales/alice")
    with raw(path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)


def test_failures_of_many_threads_at_once_are_all_recorded(ledger: Ledger) -> None:
    charges = [ask(ledger) for _ in range(12)]
    threads = [
        threading.Thread(target=ledger.fail, args=(charge, "sales/alice", Cause.ENGINE))
        for charge in charges
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {event.entry for event in ledger.suspensions("sales")} == {c.entry for c in charges}
    refusal_of(ledger)
    ledger.owner("olga").reopen("sales/alice")
    ask(ledger)
    assert ledger.verify().sound


def test_a_crash_before_the_failure_is_recorded_leaves_the_reservation(path: Path) -> None:
    child = os.fork()
    if child == 0:
        ledger = Ledger.open(path)
        ask(ledger)
        os._exit(0)
    os.waitpid(child, 0)
    with Ledger.open(path) as ledger:
        assert ledger.spent("sales/alice") == RHO.spent(10, 1, 1, 1)


def test_random_runs_agree_with_a_simple_account_of_them(ledger: Ledger) -> None:
    """Every order of failing, suspending and reopening on a line of three accounts."""
    owner, line = ledger.owner("olga"), ("sales", "sales/alice", "sales/alice/notebook")
    owner.create(line[-1])
    suspended: set[str] = set()
    for acts in itertools.product(line, ("fail", "suspend", "reopen"), repeat=2):
        for path, act in zip(acts[::2], acts[1::2], strict=True):
            apply(ledger, suspended, path, act)
            assert {s.path for s in ledger.standing(line[-1]) if s.suspended} == suspended
    assert ledger.verify().sound


def apply(ledger: Ledger, suspended: set[str], path: str, act: str) -> None:
    """Do it to the ledger, and to the simple account of what is suspended."""
    owner: Any = ledger.owner("olga")
    if act == "suspend":
        owner.suspend(path)
        suspended.add(path)
    elif act == "reopen" and path in suspended:
        owner.reopen(path)
        suspended.remove(path)
    elif act == "fail":
        if suspended:
            refusal_of(ledger, NOTEBOOK)
            return
        charge = ledger.reserve(
            NOTEBOOK.path, RHO.amount(1, 1), query="f1", plan=PLAN, limits=[NOTEBOOK]
        )
        ledger.fail(charge, path, Cause.ENGINE)
        suspended.add(path)

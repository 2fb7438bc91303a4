"""Failed logins slow the next ones, by user and by address, and tell nothing of who exists."""

from __future__ import annotations

import pytest
from helpers.failures import fails_with

from dpsql.server.people.lockout import Lockout


class Clock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lockout(clock: Clock) -> Lockout:
    return Lockout(clock=clock)


def fail(lockout: Lockout, clock: Clock, user: str, address: str, times: int = 1) -> list[float]:
    """Fail a login so many times, each after the wait of the one before."""
    waits = []
    for _ in range(times):
        attempt = lockout.begin(user, address)
        lockout.failed(attempt)
        clock.time += attempt.wait
        waits.append(attempt.wait)
    return waits


def test_the_delay_of_a_user_grows_from_any_address(lockout: Lockout, clock: Clock) -> None:
    waits = [fail(lockout, clock, "ana", f"192.0.2.{i}")[0] for i in range(12)]
    assert waits == [0, 0, 0, 0, 0, 0.5, 1, 2, 4, 8, 8, 8]
    assert lockout.begin("bob", "192.0.2.1").wait == 0


def test_a_name_is_counted_as_it_logs_in(lockout: Lockout, clock: Clock) -> None:
    waits = [
        fail(lockout, clock, name, f"192.0.2.{i}")[0]
        for i, name in enumerate(["ana", "ANA", "Ana"] * 2)
    ]
    assert waits[-1] == 0.5


def test_the_delay_of_an_address_grows_for_any_user(lockout: Lockout, clock: Clock) -> None:
    assert sum(fail(lockout, clock, f"user{i}", "192.0.2.1")[0] for i in range(20)) == 0
    assert lockout.begin("ana", "192.0.2.1").wait == 0.5
    assert lockout.begin("ana", "192.0.2.2").wait == 0


def test_more_connections_of_an_address_give_no_more_guesses(clock: Clock) -> None:
    lockout = Lockout(address_free=0, user_free=1_000, clock=clock)
    fail(lockout, clock, "ana", "192.0.2.1", 6)
    clock.time += 100
    waits = []
    with fails_with("login_failed"):
        for _ in range(100):
            waits.append(lockout.begin("ana", "192.0.2.1").wait)
    assert waits == [8, 16]  # each after the one before, and no third
    clock.time += 8.5
    assert lockout.begin("ana", "192.0.2.1").wait == 15.5


def test_who_fails_on_purpose_delays_a_user_and_keeps_nobody_out(
    lockout: Lockout, clock: Clock
) -> None:
    for i in range(1_000):
        fail(lockout, clock, "ana", f"198.51.{i // 250}.{i % 250}")
    assert lockout.begin("ana", "192.0.2.1").wait == 8


def test_logins_that_succeed_forget_no_failure(lockout: Lockout, clock: Clock) -> None:
    """Else an own account would buy further guesses, and a count that falls tell of a login."""
    fail(lockout, clock, "ana", "192.0.2.1", 8)
    before = lockout.begin("ana", "192.0.2.7").wait
    for _ in range(10):
        lockout.begin("ana", "192.0.2.1")  # succeeds: nothing is told
    assert lockout.begin("ana", "192.0.2.7").wait == before == 4


def test_many_logins_at_once_that_succeed_wait_for_nothing(lockout: Lockout, clock: Clock) -> None:
    assert {lockout.begin("ana", "192.0.2.1").wait for _ in range(50)} == {0}


def test_failures_are_forgotten_in_time(clock: Clock) -> None:
    lockout = Lockout(memory=100, clock=clock)
    fail(lockout, clock, "ana", "192.0.2.1", 10)
    clock.time += 90
    assert lockout.begin("ana", "192.0.2.2").wait == 8
    clock.time += 3
    assert fail(lockout, clock, "ana", "192.0.2.2", 6) == [0, 0, 0, 0, 0, 0.5]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("", "/run/dpsql.sock", False),
    ],
)
def test_addresses_of_one_site_are_counted_together(
    one: str, other: str, same: bool, clock: Clock
) -> None:
    lockout = Lockout(address_free=1, clock=clock)
    fail(lockout, clock, "ana", one, 2)
    assert (lockout.begin("bob", other).wait > 0) == same


def test_memory_is_bounded(clock: Clock) -> None:
    lockout = Lockout(user_free=1, kept=10, clock=clock)
    fail(lockout, clock, "ana", "192.0.2.1", 3)
    for i in range(9):
        fail(lockout, clock, f"user{i}" * 1_000, f"192.0.3.{i}")
    assert lockout.begin("ana", "192.0.2.2").wait > 0
    fail(lockout, clock, "\udce9", "192.0.3.9")
    assert lockout.begin("ana", "192.0.2.2").wait == 0  # the oldest is the first to go
    assert len(lockout._users) == len(lockout._addresses) == 10

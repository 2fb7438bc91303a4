"""Paid means kept, whatever its size: large answers are kept in parts, and read as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.ledgers import RHO, raw

from dpsql.errors import ParameterError
from dpsql.ledger import MAX_RELEASE, Charge, Ledger, StepTicket, releases
from dpsql.privacy.accounting.zcdp import Amount

ACCOUNT = "sales/ana"
PAID = Amount(rho=5, delta=1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Parts of a thousand bytes."""
    monkeypatch.setattr(releases, "MAX_RELEASE", 1000)
    return 1000


def charge(ledger: Ledger, query: str = "q") -> Charge:
    return ledger.reserve(ACCOUNT, PAID, query=query, plan="{}", limits=[RHO.account(ACCOUNT)])


def kept(ledger: Ledger, query: str = "q") -> bytes:
    stored = ledger.stored(ACCOUNT, query)
    assert stored is not None
    return b"".join(ledger.release_parts(stored))


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 5500])
@pytest.mark.parametrize("piece", [1, 300, 1000, 10_000])
def test_an_answer_of_any_size_in_any_pieces_is_kept(
    ledger: Ledger, small: int, size: int, piece: int
) -> None:
    answer = os.urandom(size)
    pieces = [answer[start : start + piece] for start in range(0, size, piece)]
    ledger.settle(charge(ledger), PAID, iter(pieces))
    assert kept(ledger) == answer
    stored = ledger.stored(ACCOUNT, "q")
    assert stored is not None
    assert stored.further == max(0, -(-size // small) - 1)
    assert ledger.verify().sound
    (same,) = ledger.stored_alike(ACCOUNT, "q", 5)
    assert (same.further, same.digest) == (stored.further, stored.digest)


def test_nothing_is_kept_of_what_was_not_finished(ledger: Ledger, small: int) -> None:
    asked = charge(ledger)

    def breaking() -> Iterator[bytes]:
        yield bytes(2500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.settle(asked, PAID, breaking())
    assert ledger.stored(ACCOUNT, "q") is None
    assert ledger.spent(ACCOUNT).unsettled == 1
    assert ledger.verify().sound
    ledger.settle(asked, PAID, [b"x" * 1500])
    assert kept(ledger) == b"x" * 1500
    assert ledger.verify().sound


def test_parts_of_what_is_settled_without_an_answer_or_fails_are_no_damage(
    ledger: Ledger, small: int
) -> None:
    def breaking() -> Iterator[bytes]:
        yield bytes(2500)
        raise KeyboardInterrupt

    for query in ("q", "p"):
        asked = charge(ledger, query)
        with pytest.raises(KeyboardInterrupt):
            ledger.settle(asked, PAID, breaking())
        if query == "q":
            ledger.settle(asked, PAID)
        else:
            ledger.fail(asked, ACCOUNT, "engine")
        assert ledger.verify().sound


def test_what_was_paid_for_cannot_be_settled_twice(ledger: Ledger, small: int) -> None:
    asked = charge(ledger)
    ledger.settle(asked, PAID, b"x" * 1500)
    for other in (b"y" * 1500, b"y"):
        with fails_with("ledger_settled_twice"):
            ledger.settle(asked, PAID, other)
    assert kept(ledger) == b"x" * 1500
    with pytest.raises(ParameterError):
        ledger.settle(charge(ledger), PAID, [b"x", "y"])  # type: ignore[list-item]


def test_forgetting_deletes_all_parts(ledger: Ledger, small: int) -> None:
    ledger.settle(charge(ledger), PAID, b"x" * 5500)
    stored = ledger.stored(ACCOUNT, "q")
    assert stored is not None
    assert ledger.owner("olga").forget(ACCOUNT) == 1
    assert ledger.stored(ACCOUNT, "q") is None
    with fails_with("ledger_corrupt"):
        list(ledger.release_parts(stored))
    assert ledger.verify().sound


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE release_parts SET payload = zeroblob(1000), packed = 0 WHERE part = 1",
        "DELETE FROM release_parts WHERE part = 2",
        "DELETE FROM release_parts",
        "UPDATE release_parts SET part = 9 - part",
        "INSERT INTO release_parts SELECT entry, 3, size, packed, payload FROM release_parts "
        "WHERE part = 2",
    ],
)
def test_parts_that_were_changed_are_noticed(tmp_path: Path, small: int, edit: str) -> None:
    path = tmp_path / "budget.ledger"
    with Ledger.open(path) as ledger:
        ledger.settle(charge(ledger), PAID, os.urandom(2500))
        with raw(path) as connection:
            for rule in (
                "release_parts_no_update",
                "release_is_whole_when_settled",
                "parts_are_deleted_with_their_release",
            ):
                connection.execute(f"DROP TRIGGER {rule}")
            connection.execute(edit)
            connection.commit()
        assert not ledger.verify().sound
        with fails_with("ledger_corrupt"):
            kept(ledger)


def test_the_database_itself_keeps_parts_as_they_are(tmp_path: Path, small: int) -> None:
    path = tmp_path / "budget.ledger"
    with Ledger.open(path) as ledger:
        ledger.settle(charge(ledger), PAID, bytes(2500))
    with raw(path) as connection:
        for edit in (
            "UPDATE release_parts SET size = 1",
            "DELETE FROM release_parts",
            "INSERT INTO release_parts SELECT entry, 7, size, packed, payload FROM release_parts",
            "INSERT OR REPLACE INTO release_parts SELECT * FROM release_parts",
        ):
            with pytest.raises(connection.IntegrityError):
                connection.execute(edit)


# -- steps of streams: the same, where an event says that a step is out ---------------------------


def begun(ledger: Ledger, *steps: int) -> list[StepTicket]:
    """Begin steps of the one stream there is, which is made before the first."""
    if not ledger.streams(ACCOUNT):
        RHO.stream(ledger, "s", RHO.account(ACCOUNT))
    return list(ledger.begin_steps(ACCOUNT, "s", steps))


def published(ledger: Ledger) -> dict[int, bytes]:
    return {step: b"".join(parts) for step, parts in ledger.step_releases(ACCOUNT, "s")}


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 5500])
@pytest.mark.parametrize("piece", [300, 1000, 10_000])
def test_a_step_of_any_size_in_any_pieces_is_kept(
    ledger: Ledger, small: int, size: int, piece: int
) -> None:
    release = os.urandom(size)
    pieces = [release[start : start + piece] for start in range(0, size, piece)]
    first, second = begun(ledger, 1, 2)
    ledger.publish_step(first, iter(pieces))
    ledger.publish_step(second, [b"x"])
    assert published(ledger) == {1: release, 2: b"x"}
    ((_, parts), _) = ledger.step_releases(ACCOUNT, "s")
    assert len(list(parts)) == max(1, -(-size // small))
    assert ledger.verify().sound
    ledger.drop_stream(ACCOUNT, "s")
    assert ledger.verify().sound


def interrupted(release: bytes) -> Iterator[bytes]:
    yield release
    raise KeyboardInterrupt


def test_nothing_is_read_of_a_step_that_was_not_finished(ledger: Ledger, small: int) -> None:
    first, second = begun(ledger, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        ledger.publish_step(first, interrupted(b"x" * 2500))
    assert published(ledger) == {}
    assert ledger.streams(ACCOUNT)[0].published == ()
    assert ledger.verify().sound
    ledger.publish_step(second, [b"y" * 1500])  # what comes later goes on
    assert published(ledger) == {2: b"y" * 1500}
    assert ledger.verify().sound
    with fails_with("ledger_step_ended"):
        ledger.publish_step(first, [b"x" * 2500])
    ledger.drop_stream(ACCOUNT, "s")
    assert ledger.verify().sound


@pytest.mark.parametrize("other", [b"y" * 2500, b"x" * 1500, b"x" * 5500])
def test_a_step_has_one_release_whoever_was_interrupted(
    ledger: Ledger, small: int, other: bytes
) -> None:
    (ticket,) = begun(ledger, 1)
    release = b"x" * 3500
    with pytest.raises(KeyboardInterrupt):
        ledger.publish_step(ticket, interrupted(release))
    if other != b"x" * 5500:  # which begins with the same, and may be what it was going to be
        with fails_with("ledger_step_ended"):
            ledger.publish_step(ticket, other)
        assert published(ledger) == {}
        other = release
    ledger.publish_step(ticket, other)
    assert published(ledger) == {1: other}
    assert ledger.verify().sound


def test_a_stream_that_is_dropped_meanwhile_keeps_nothing(ledger: Ledger, small: int) -> None:
    (ticket,) = begun(ledger, 1)

    def pieces() -> Iterator[bytes]:
        yield bytes(2500)
        ledger.drop_stream(ACCOUNT, "s")
        yield bytes(2500)

    with fails_with("ledger_unknown_stream"):
        ledger.publish_step(ticket, pieces())
    assert ledger.verify().sound


def test_a_step_that_is_read_while_its_stream_is_dropped_is_no_damage(
    ledger: Ledger, small: int
) -> None:
    (ticket,) = begun(ledger, 1)
    ledger.publish_step(ticket, bytes(2500))
    ((_, parts),) = ledger.step_releases(ACCOUNT, "s")
    next(parts)
    ledger.drop_stream(ACCOUNT, "s")
    with fails_with("ledger_unknown_stream"):
        list(parts)


_KILLED = """
import os, sys
from dpsql.ledger import Ledger, releases
releases.MAX_RELEASE = 1000
place, step, moment = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Ledger.open(place) as ledger:
    (ticket,) = ledger.begin_steps("sales/ana", "s", [step])
    write, left = ledger._link.write, [moment]
    def killed(work):
        def done(sql):
            found = work(sql)
            left[0] -= 1
            if not left[0]: os.kill(os.getpid(), 9)  # written, and not committed
            return found
        found = write(done)
        left[0] -= 1
        if not left[0]: os.kill(os.getpid(), 9)  # committed, and not told
        return found
    ledger._link.write = killed
    ledger.publish_step(ticket, [bytes([step]) * 3500])
"""


@pytest.mark.slow
def test_a_step_killed_at_any_part_is_used_and_nothing_of_it_is_read(tmp_path: Path) -> None:
    """Three parts and the event, each killed before and after it is on disk."""
    place = tmp_path / "budget.ledger"
    with Ledger.open(place) as ledger:
        RHO.stream(ledger, "s", RHO.account(ACCOUNT), steps=20)
    for moment in range(1, 10):
        step = moment
        command = [sys.executable, "-c", _KILLED, str(place), str(step), str(moment)]
        done = subprocess.run(command, check=False, capture_output=True)
        ended = moment == 9
        assert done.returncode == (0 if ended else -9), done.stderr
        with Ledger.open(place) as ledger:
            assert ledger.verify().sound
            # After the event, which is the last write, it is out; before, it never will be.
            assert published(ledger) == {n: bytes([n]) * 3500 for n in range(8, moment + 1)}
            with fails_with("ledger_step_used"):
                ledger.begin_step(ACCOUNT, "s", step)


# The peak of `getrusage` is no measure here: a process starts with that of whoever started it.
_LARGE = """
import os, re, sys
from pathlib import Path
from dpsql.privacy.accounting.zcdp import Amount
from dpsql.ledger import Account, Ledger
what, size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
paid, account = Amount(rho=5, delta=1), Account("sales/ana", Amount(rho=10**6, delta=10**6))
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024
def pieces():
    block = os.urandom(2**20)
    for _ in range(size // len(block)):
        yield block
with Ledger.open(path) as ledger:
    if what == "answer":
        charge = ledger.reserve("sales/ana", paid, query="q", plan="{}", limits=[account])
    else:
        plan = '{"stream": {"name": "n", "steps": 1}}'
        ledger.create_stream(
            "sales/ana", paid, name="n", stream="q", plan=plan, limits=[account]
        )
        ticket = ledger.begin_step("sales/ana", "q", 1)
    before = peak()
    if what == "answer":
        ledger.settle(charge, paid, pieces())
        parts = ledger.release_parts(ledger.stored("sales/ana", "q"))
    else:
        ledger.publish_step(ticket, pieces())
        ((_, parts),) = ledger.step_releases("sales/ana", "q")
    read = sum(map(len, parts))
    assert read == size, read
    print(peak() - before)
"""


def _grown(what: str, size: int, path: Path) -> int:
    """Tell by how many MiB a process grows that keeps and reads so large an answer, or a step."""
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, what, str(size), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["answer", "step"])
def test_memory_does_not_grow_with_the_answer(what: str, tmp_path: Path) -> None:
    assert MAX_RELEASE == 8 * 2**20
    assert _grown(what, 2**27, tmp_path / "budget.ledger") < 100


@pytest.mark.slow
@pytest.mark.parametrize("what", ["answer", "step"])
def test_a_gigabyte_is_kept_in_little_memory(what: str, tmp_path: Path) -> None:
    assert _grown(what, 2**30, tmp_path / "budget.ledger") < 200

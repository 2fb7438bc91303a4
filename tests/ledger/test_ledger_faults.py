"""Killed processes, crowds, full and failing disks: what was shown is spent, and verify passes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledger_worker import ACCOUNT, COST, LABELS, LIMITS, RESERVED, STEP_LABELS, STREAM
from helpers.ledgers import RHO, sum_of_events

from dpsql.errors import BudgetExceeded
from dpsql.ledger import Kind, Ledger, StepTicket, streams
from dpsql.ledger.journal import Journal
from dpsql.privacy.accounting.zcdp import Amount

WORKER = Path(__file__).parents[1] / "helpers" / "ledger_worker.py"


class Workers:
    """Runs tasks of ``ledger_worker`` in forks of one process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(self, *tasks: list[Any]) -> list[tuple[int, list[list[str]]]]:
        """Run tasks side by side; for each its status and the words of its lines."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(tasks, default=str) + "\n")
        self.process.stdin.flush()
        answers = json.loads(self.process.stdout.readline())
        return [(status, [line.split() for line in lines]) for status, lines in answers]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.process.communicate()


def shown_in(lines: list[list[str]]) -> dict[str, str]:
    """What was shown, by question."""
    shown: dict[str, str] = {}
    for word, *rest in lines:
        if word == "shown":
            shown[rest[0]] = shown.get(rest[0], "") + rest[1]
    return shown


def check_after_crash(ledger: Ledger, shown: dict[str, str]) -> None:
    """Everything shown was paid for, and is what a retry will be given."""
    assert ledger.verify().sound
    assert ledger.total(ACCOUNT) == sum_of_events(ledger, ACCOUNT)
    assert ledger.total(ACCOUNT).amount.rho >= COST * len(shown)
    for query, answer in shown.items():
        found = ledger.stored(ACCOUNT, query)
        assert found is not None
        assert found.payload.decode().startswith(answer)
        assert found.charged == Amount(rho=COST, delta=1)


def crash_everywhere(workers: Workers, place: str | Path, statements: bool) -> set[str]:
    """Kill an analyst of two questions at every failpoint in turn; return where that was."""
    died: set[str] = set()
    moment = 0
    while True:
        queries = [f"q{moment}a", f"q{moment}b"]
        ((status, lines),) = workers.run(["crash", place, moment, queries, statements])
        with Ledger.open(place) as ledger:
            check_after_crash(ledger, shown_in(lines))
            spent = ledger.total(ACCOUNT).amount.rho
            kept = {query for query in queries if ledger.stored(ACCOUNT, query)}
        ((again, retried),) = workers.run(["crash", place, -1, queries, False])
        assert again == 0
        answers = shown_in(retried)
        assert all(answers[q].startswith(shown) for q, shown in shown_in(lines).items())
        with Ledger.open(place) as ledger:
            check_after_crash(ledger, answers)
            paid = ledger.total(ACCOUNT).amount.rho - spent
            assert paid == COST * (2 - len(kept))  # what was settled before costs nothing again
        if status == 0:
            assert moment > 10
            return died
        assert status == signal.SIGKILL
        died.add(" ".join(lines[-1][1:]))
        moment += 1


@pytest.mark.slow
def test_an_analyst_killed_at_any_labelled_moment_has_paid_for_what_was_shown(
    workers: Workers, place: str | Path
) -> None:
    assert crash_everywhere(workers, place, statements=False) == set(LABELS)


@pytest.mark.slow
def test_an_analyst_killed_between_any_two_statements_has_paid_for_what_was_shown(
    workers: Workers, place: str | Path
) -> None:
    died = crash_everywhere(workers, place, statements=True)
    words = {"BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT"}
    assert {f"{side} {word}" for side in ("before", "after") for word in words} <= died
    assert set(LABELS) <= died


def check_stream(ledger: Ledger, lines: list[list[str]]) -> None:
    """What was begun is used, what was shown is kept, and nothing was charged for it."""
    assert ledger.verify().sound
    assert ledger.total(ACCOUNT) == RHO.spent(20, 2, 1, 0)
    (found,) = ledger.streams(ACCOUNT)
    kept = {step: b"".join(parts) for step, parts in ledger.step_releases(ACCOUNT, STREAM)}
    assert [each.step for each in found.published] == list(kept)
    begun = {int(line[1]) for line in lines if line[0] == "begun"}
    assert max(begun, default=0) <= found.begun
    assert set(kept) <= set(range(1, found.begun + 1))
    for word, *rest in lines:
        if word == "shown":
            assert kept[int(rest[0])] == rest[1].encode()


def crash_in_steps(workers: Workers, place: str | Path, statements: bool) -> set[str]:
    """Kill the refresh of a stream at every failpoint in turn; return where that was."""
    died: set[str] = set()
    said: list[list[str]] = []
    with Ledger.open(place) as ledger:
        RHO.stream(ledger, STREAM, *LIMITS, steps=10**6)
    for moment in range(1000):
        with Ledger.open(place) as ledger:
            (before,) = ledger.streams(ACCOUNT)
            following = [before.begun + 1, before.begun + 2]
        ((status, lines),) = workers.run(["stream", place, moment, following, statements])
        said += lines
        with Ledger.open(place) as ledger:
            check_stream(ledger, said)
            (after,) = ledger.streams(ACCOUNT)
            for step in range(before.begun + 1, after.begun + 1):
                with fails_with("ledger_step_used"):  # used, published or not
                    ledger.begin_step(ACCOUNT, STREAM, step)
        if status == 0:
            assert moment >= 2 * len(STEP_LABELS)
            return died
        assert status == signal.SIGKILL
        died.add(" ".join(lines[-1][1:]))
    raise AssertionError("it never came to an end")


def test_a_step_killed_at_any_labelled_moment_is_used_and_what_was_shown_is_kept(
    workers: Workers, place: str | Path
) -> None:
    assert crash_in_steps(workers, place, statements=False) == set(STEP_LABELS)


@pytest.mark.slow
def test_a_step_killed_between_any_two_statements_is_used_or_not_begun(
    workers: Workers, place: str | Path
) -> None:
    died = crash_in_steps(workers, place, statements=True)
    words = {"BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT"}
    assert {f"{side} {word}" for side in ("before", "after") for word in words} <= died
    assert set(STEP_LABELS) <= died


def test_a_step_killed_between_begin_and_publish_is_used_and_empty(
    workers: Workers, place: str | Path
) -> None:
    with Ledger.open(place) as ledger:
        RHO.stream(ledger, STREAM, *LIMITS)
        moment = STEP_LABELS.index("during engine")
        ((status, lines),) = workers.run(["stream", place, moment, [1], False])
        assert (status, lines[-1]) == (signal.SIGKILL, ["died", "during", "engine"])
        (found,) = ledger.streams(ACCOUNT)
        assert (found.begun, found.published) == (1, ())
        assert list(ledger.step_releases(ACCOUNT, STREAM)) == []
        with fails_with("ledger_step_used"):
            ledger.begin_step(ACCOUNT, STREAM, 1)
        ledger.publish_step(ledger.begin_step(ACCOUNT, STREAM, 2), [b"next"])
        ((step, parts),) = ledger.step_releases(ACCOUNT, STREAM)
        assert (step, list(parts)) == (2, [b"next"])
        assert ledger.verify().sound


def test_of_processes_that_begin_one_step_at_once_exactly_one_does(
    workers: Workers, place: str | Path
) -> None:
    steps = list(range(1, 21))
    with Ledger.open(place) as ledger:
        RHO.stream(ledger, STREAM, *LIMITS, steps=len(steps))
    answers = workers.run(*[["race", place, steps] for _ in range(4)])
    assert [status for status, _ in answers] == [0] * 4
    said = [line for _, lines in answers for line in lines]
    begun = [int(step) for word, step in said if word == "begun"]
    assert sorted(begun) == sorted(set(begun))  # none twice
    assert max(begun) == len(steps)
    assert {code for word, code in said if word == "refused"} == {"ledger_step_used"}
    with Ledger.open(place) as ledger:
        assert ledger.streams(ACCOUNT)[0].begun == len(steps)
        assert sorted(begun) == [e.step for e in ledger.events() if e.kind == "step"]
        assert ledger.verify().sound


def test_a_ledger_that_forgets_the_steps_it_began_fails_these_checks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks above can fail: here a step is begun without its event, and can be again."""
    with Ledger.open(path) as ledger:
        entry = RHO.stream(ledger, STREAM, *LIMITS).entry
        check_stream(ledger, [])

        def forgetful(
            journal: Journal, account: str, limits: object, stream: str, step: int
        ) -> StepTicket:
            journal.note(Kind.CLOCK)
            return StepTicket(entry, account, stream, step)

        monkeypatch.setattr(streams, "open_step", forgetful)
        assert ledger.begin_step(ACCOUNT, STREAM, 1) == ledger.begin_step(ACCOUNT, STREAM, 1)
        with pytest.raises(AssertionError):
            check_stream(ledger, [["begun", "1"]])


def test_a_ledger_that_settles_after_showing_fails_these_checks(path: Path) -> None:
    """The checks above can fail: here an answer is shown and its charge lost."""
    with Ledger.open(path) as ledger:
        RHO.reserve(ledger, RESERVED, 1, RHO.account(ACCOUNT))
        check_after_crash(ledger, {})
        with pytest.raises(AssertionError):
            check_after_crash(ledger, {"q": "answer"})


def crowd(workers: Workers, place: str | Path, processes: int, times: int, most: int) -> None:
    """Four analysts in many processes, under limits of their own and one of the dataset."""
    with Ledger.open(place) as ledger:
        owner = ledger.owner("olga")
        owner.create("sales")
        owner.set_limits("sales", Amount(rho=most, delta=10**9))
    each = most // 3
    accounts = [f"sales/a{i % 4}" for i in range(processes)]
    done = workers.run(*(["crowd", place, account, each, times] for account in accounts))
    assert [status for status, _ in done] == [0] * processes
    granted = [int(lines[-1][1]) for _, lines in done]
    assert sum(granted) == most
    with Ledger.open(place) as ledger:
        assert ledger.verify().sound
        assert ledger.total("sales") == sum_of_events(ledger, "sales")
        assert ledger.total("sales").amount == Amount(rho=most, delta=most)
        by_account = [
            sum(count for count, paid in zip(granted, accounts, strict=True) if paid == account)
            for account in sorted(set(accounts))
        ]
        totals = [ledger.total(account).queries for account in sorted(set(accounts))]
        assert totals == by_account
        assert max(totals) <= each
        with pytest.raises(BudgetExceeded):
            RHO.reserve(ledger, 1, 1, RHO.account("sales/a0"))


def test_a_few_processes_reach_the_limit_exactly_and_never_pass_it(
    workers: Workers, place: str | Path
) -> None:
    crowd(workers, place, processes=4, times=20, most=50)


@pytest.mark.slow
def test_sixteen_processes_of_64_queries_reach_the_limit_exactly_and_never_pass_it(
    workers: Workers, place: str | Path
) -> None:
    crowd(workers, place, processes=16, times=64, most=600)


def check_after_starving(place: Path, lines: list[list[str]], codes: set[str]) -> None:
    """The ledger is sound, holds all it granted, and works again."""
    granted = [int(rest[0]) for word, *rest in lines if word == "granted"]
    settled = [int(rest[0]) for word, *rest in lines if word == "settled"]
    assert lines[-1][0] == "refused"
    assert lines[-1][1] in codes
    with Ledger.open(place) as ledger:
        assert ledger.verify().sound
        entries = {entry.entry: entry for entry in ledger.history(ACCOUNT, 10**6)}
        assert set(granted) <= set(entries)
        assert all(entries[entry].charged == Amount(rho=COST, delta=1) for entry in settled)
        unsettled = len(set(granted)) - len(settled)
        assert ledger.spent(ACCOUNT).amount.rho >= COST * len(settled) + COST * unsettled
        RHO.reserve(ledger, 1, 1, RHO.account(ACCOUNT))


def test_a_file_that_may_not_grow_refuses_charges_and_loses_none(
    workers: Workers, path: Path
) -> None:
    ((status, lines),) = workers.run(["starve", path, "size"])
    assert status == 0
    check_after_starving(path, lines, {"ledger_io_error", "ledger_disk_full"})


@pytest.mark.slow
def test_a_disk_that_cannot_sync_refuses_charges_and_loses_none(
    workers: Workers, path: Path
) -> None:
    ((status, lines),) = workers.run(["starve", path, "fsync"])
    assert status == 0
    assert [word for word, *_ in lines] == ["granted", "refused"]
    check_after_starving(path, lines, {"ledger_io_error"})


@pytest.mark.slow
def test_a_full_disk_refuses_charges_and_loses_none(workers: Workers, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(small)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk; a limit on the file's size is tested too")
    try:
        path, ballast = small / "ledger", small / "ballast"
        ballast.write_bytes(bytes(200_000))
        Ledger.open(path).close()
        ((status, lines),) = workers.run(["starve", path, "disk"])
        assert status == 0
        assert len(lines) > 10
        with Ledger.open(path) as ledger:  # reading and verifying need no room
            assert ledger.verify().sound
        ballast.unlink()
        check_after_starving(path, lines, {"ledger_disk_full"})
    finally:
        subprocess.run(["umount", str(small)], check=True)

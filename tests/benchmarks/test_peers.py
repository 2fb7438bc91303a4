"""The bench against peers: what its processes say, what is measured, and what is kept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
from helpers.scripts import script

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield script("benchmarks/peers.py")
    sys.path[:] = before


@pytest.fixture
def request_of(bench: ModuleType) -> Any:
    return bench.request_for(bench.PLAIN, "users", Path("visits.parquet"), runs=2)


def program(folder: Path, body: str) -> list[str]:
    """A program that speaks the protocol, its preparation given."""
    path = folder / "ask_test.py"
    path.write_text(
        f"import sys\nsys.path.append({str(PROGRAMS)!r})\n"
        "from protocol import Asking, serve\n" + textwrap.dedent(body),
        encoding="utf-8",
    )
    return [sys.executable, str(path)]


def test_a_request_is_read_as_it_was_written(bench: ModuleType, request_of: Any) -> None:
    read = type(request_of).read(request_of.json())
    assert read == request_of
    assert read.most_per_group == 1_000
    assert (read.epsilon, read.delta) == (1.0, 1e-6)


@pytest.mark.slow
def test_answers_are_heard_in_order_and_what_else_is_printed_is_not(
    bench: ModuleType, request_of: Any, tmp_path: Path
) -> None:
    command = program(
        tmp_path,
        """
        def prepare(request):
            print("a library is talkative")
            count = iter(range(10))

            def ask():
                print("and goes on")
                held = bytearray(50_000_000)
                total = sum(range(3_000_000))
                return [(request.task, next(count)), (str(len(held)), total)]

            return Asking("in words", ask, ("numpy",), ("a note",))

        serve(prepare)
        """,
    )
    run = bench.ask(command, request_of, limit=60)
    assert run.failure is None
    assert [answer[0] for answer in run.answers] == [("users", 0.0), ("users", 1.0)]
    assert (run.asked, run.notes) == ("in words", ("a note",))
    assert set(run.versions) == {"numpy"}
    assert len(run.seconds) == len(run.cpu_seconds) == 2
    assert sum(run.cpu_seconds) > 0
    assert run.peak_bytes > 5_000_000


def test_a_program_that_fails_is_a_run_that_says_why(
    bench: ModuleType, request_of: Any, tmp_path: Path
) -> None:
    command = program(
        tmp_path,
        """
        def prepare(request):
            raise ImportError("there is no java")

        serve(prepare)
        """,
    )
    run = bench.ask(command, request_of, limit=60)
    assert run.failure == "failed: ImportError: there is no java"
    row = bench.judged(bench.PLAIN, "users", run, None, {})
    assert row.failure == run.failure
    assert row.seconds is None
    assert row.error is None
    assert run.failure in bench.line(row)


def test_answers_before_a_failure_count(bench: ModuleType, request_of: Any, tmp_path: Path) -> None:
    command = program(
        tmp_path,
        """
        answers = iter([[("a", 3.0)]])
        serve(lambda request: Asking("once", lambda: next(answers), ()))
        """,
    )
    run = bench.ask(command, request_of, limit=60)
    assert run.failure == "failed: StopIteration"
    row = bench.judged(bench.PLAIN, "users", run, None, {"a": 1.0})
    assert (row.runs, row.error, row.failure) == (1, 2.0, run.failure)


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("print('hello')", "failed: said what is not of the protocol"),
        ("print('[]')", "failed: said what is not of the protocol"),
        ('print(\'{"event": "answer"}\')', "failed: said what is not of the protocol"),
        ("pass", "failed: ended without an answer"),
        ("raise SystemExit(3)", "failed: without a word"),
    ],
)
def test_a_program_that_does_not_keep_to_the_protocol_has_failed(
    bench: ModuleType, request_of: Any, code: str, failure: str
) -> None:
    assert bench.ask([sys.executable, "-c", code], request_of, limit=60).failure == failure


@pytest.mark.slow
def test_a_slow_program_is_stopped_with_all_that_it_started(
    bench: ModuleType, request_of: Any, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    code = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(started)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    run = bench.ask([sys.executable, "-c", code], request_of, limit=2.0)
    assert run.failure is not None
    assert run.failure.startswith("stopped after ")
    assert gone(int(started.read_text()))


def gone(pid: int) -> bool:
    """Whether a process has ended, or ends soon."""
    for _ in range(50):
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
        ).stdout.strip()
        if not state or state.startswith("Z"):
            return True
        time.sleep(0.1)
    return False


def test_figures_are_taken_over_released_groups_and_over_the_largest(bench: ModuleType) -> None:
    truth = {"a": 10.0, "b": 20.0, "c": 40.0}
    run = bench.Run(
        seconds=(3.0, 1.0, 2.0),
        cpu_seconds=(4.0, 4.0, 5.0),
        answers=((("a", 11.0), ("c", 36.0)), (("c", 40.0), ("new", 7.0)), ()),
        peak_bytes=5,
    )
    row = bench.judged(bench.PEERS[1], "users", run, bench.Run(seconds=(0.5, 0.4, 9.0)), truth)
    assert (row.seconds, row.cpu_seconds, row.plain_seconds, row.times_plain) == (2.0, 4.0, 0.5, 4)
    assert row.groups == pytest.approx(4 / 3)
    assert row.error == pytest.approx(((1 + 4) / 2 + 7 / 2) / 2)
    assert row.relative_error == pytest.approx((0.1 + 0.0) / 2)
    assert row.error_of_largest == pytest.approx(((1 + 20 + 4) / 3 + 30 / 3 + 70 / 3) / 3)


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_a_row_and_the_others_are_asked(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: object) -> None:
        raise bench.InstallationError("not installed: no matching distribution")

    monkeypatch.setattr(bench, "_install", refuse)
    monkeypatch.setattr(bench, "ENVIRONMENTS", tmp_path)
    data = tmp_path / "visits.parquet"
    bench.build(data, 20_000)
    missing = bench.Peer("Missing", "ask_opendp.py", "opendp.txt", tasks=("sums",))
    exact = bench.Peer("Plain", "ask_duckdb.py", tasks=("sums",))
    shown: list[object] = []
    rows = bench.compare([missing, exact], data, runs=1, limit=60, each=shown.append)
    assert rows == shown
    assert [row.failure for row in rows] == ["not installed: no matching distribution", None]
    assert (rows[1].error, rows[1].groups) == (0.0, 20)


@pytest.mark.slow
def test_dpsql_is_asked_for_both_tasks_and_costs_what_it_may(
    bench: ModuleType, tmp_path: Path
) -> None:
    data = tmp_path / "visits.parquet"
    bench.build(data, 20_000)
    peers = [peer for peer in bench.PEERS if peer.name.startswith("dpsql")]
    rows = bench.compare(peers, data, runs=1, limit=120, each=lambda row: None)
    assert [(row.peer, row.task, row.failure) for row in rows] == [
        ("dpsql", "users", None),
        ("dpsql", "sums", None),
        ("dpsql, auto", "users", None),
    ]
    assert rows[1].groups == 20
    assert all(row.groups and row.error and row.times_plain for row in rows)
    assert "=auto" in rows[2].asked


def test_rows_are_those_that_the_tasks_speak_of(bench: ModuleType, tmp_path: Path) -> None:
    path, again = tmp_path / "visits.parquet", tmp_path / "again.parquet"
    bench.build(path, 5_000)
    bench.build(again, 5_000)
    relation = duckdb.read_parquet(str(path))
    assert relation.columns == ["user_id", "item", "region", "amount"]
    assert relation.fetchall() == duckdb.read_parquet(str(again)).fetchall()
    (found,) = relation.aggregate("min(amount), max(amount), max(user_id), count(*)").fetchall()
    low, high, users, rows = found
    assert 0 <= low <= high <= 100
    assert users < 500
    assert rows == 5_000
    regions = relation.project("region").distinct().fetchall()
    assert {region for (region,) in regions} == set(bench.REGIONS)


def test_peers_that_were_not_asked_keep_their_rows_of_as_much_data(
    bench: ModuleType, tmp_path: Path
) -> None:
    target = tmp_path / "peers.json"
    first, second = (
        bench.judged(peer, "users", bench.Run(failure=why), None, {})
        for peer, why in zip(bench.PEERS[:2], ("once", "once"), strict=True)
    )
    again = bench.judged(bench.PEERS[1], "users", bench.Run(failure="again"), None, {})

    def kept() -> list[tuple[str, str]]:
        answers = json.loads(target.read_text(encoding="utf-8"))["answers"]
        return [(row["peer"], row["failure"]) for row in answers]

    bench.report([second, first], 1_000, 600.0, target)
    assert kept() == [(first.peer, "once"), (second.peer, "once")]
    bench.report([again], 1_000, 600.0, target)
    assert kept() == [(first.peer, "once"), (second.peer, "again")]
    bench.report([again], 2_000, 600.0, target)
    assert kept() == [(second.peer, "again")]


def test_every_peer_has_its_program_and_pins_every_package(bench: ModuleType) -> None:
    programs = {path.name for path in PROGRAMS.glob("ask_*.py")}
    assert {peer.program for peer in bench.PEERS} == programs
    files = {path.name for path in (PROGRAMS / "requirements").glob("*.txt")}
    assert {peer.requirements for peer in bench.PEERS} - {None} == files
    for name in files:
        lines = (PROGRAMS / "requirements" / name).read_text(encoding="utf-8").splitlines()
        assert len(lines) > 5
        assert all(re.fullmatch(r"[\w.\-]+==[\w.]+", line) for line in lines), name


def test_the_kept_results_are_of_these_peers_and_fields(bench: ModuleType) -> None:
    found = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert (found["rows"], found["epsilon"], found["delta"]) == (5_000_000, 1.0, 1e-6)
    asked = {(row["peer"], row["task"]) for row in found["answers"]}
    assert asked <= {(peer.name, task) for peer in bench.PEERS for task in peer.tasks}
    assert asked >= {(peer.name, task) for peer in bench.PEERS[:2] for task in peer.tasks}
    fields = asdict(bench.judged(bench.PLAIN, "users", bench.Run(), None, {})).keys()
    for row in found["answers"]:
        assert row.keys() == fields
        assert (row["seconds"] is None) <= bool(row["failure"])

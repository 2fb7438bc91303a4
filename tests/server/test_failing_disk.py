"""A server whose ledger's disk and clock fail, by a plan that a seed draws.

Writes are cut short, fail or find the disk full, syncs and reads fail, checkpoints do; power is cut
in the middle of a write or at a sync, and loses any of what was not synced; the clock goes back. A
library between SQLite and libc does so, for the files of the ledger alone. Clients of two accounts
ask meanwhile, one of which has not enough for all of its questions.

``DPSQL_DISK_SEED`` repeats a run: the same questions and the same failures before each of them.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import secrets
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from helpers.random_examples import long
from helpers.serving import PASSWORD, ended, filled, started

import dpsql
from dpsql.ledger import Ledger

HELPERS: Final = Path(__file__).parents[1] / "helpers"
SEED: Final = int(os.environ.get("DPSQL_DISK_SEED", str(secrets.randbits(32))))
AGAIN: Final = f"DPSQL_DISK_SEED={SEED}"
ROUNDS: Final = long(120, least=72)
CLIENTS: Final = 3
MOST_IN_BURST: Final = 15  # until a checkpoint
ACCOUNTS: Final = ("ana", "bob")
HOUR: Final = 3_600 * 10**9


class Fault(IntEnum):
    """What can go wrong, as ``failing_disk.c`` counts it; the clock is beside."""

    NOTHING = 0
    SHORT = 1
    WRITE = 2
    FULL = 3
    SYNC = 4
    READ = 5
    POWER_WRITE = 6
    POWER_SYNC = 7
    CHECKPOINT = 8
    CLOCK = 9


@dataclass(frozen=True)
class Round:
    """What goes wrong, after how many times that it goes well, while these questions are asked."""

    fault: Fault
    left: int
    seed: int
    asked: tuple[tuple[str, str], ...]


def plan(seed: int, rounds: int) -> Iterator[Round]:
    """Draw the rounds: each second one has a fault, and each fault has its turns.

    The power is cut less often than all else goes wrong: questions are lost then.
    """
    draw = random.Random(seed)
    faults: list[Fault] = []
    old = [("ana", question(1)), ("bob", question(1))]
    for number in range(rounds):
        if not faults:
            rare = number > 2 * len(Fault) and draw.random() < 0.75
            faults = [each for each in Fault if each and not (rare and each in _POWER)]
            draw.shuffle(faults)
        fault = faults.pop() if number % 2 else Fault.NOTHING
        left = draw.choice((0, 0, 1, 2)) if fault in (Fault.SYNC, Fault.POWER_SYNC) else 0
        left = draw.randrange(30) if fault in _WRITES else left
        size = MOST_IN_BURST if fault is Fault.CHECKPOINT else draw.randint(1, CLIENTS)
        asked = []
        for _ in range(size):
            if draw.random() < 0.25:
                asked.append(draw.choice(old))
                continue
            payer = "bob" if draw.random() < 0.3 else "ana"
            asked.append((payer, question(draw.randrange(10_000, 10**9))))
        old += asked
        yield Round(fault, left, draw.getrandbits(32), tuple(asked))


_WRITES: Final = frozenset({Fault.SHORT, Fault.WRITE, Fault.FULL, Fault.POWER_WRITE})
_POWER: Final = frozenset({Fault.POWER_WRITE, Fault.POWER_SYNC})


def question(number: int) -> str:
    return f"SELECT ward, COUNT(*) AS n FROM visits WHERE patient_id <> {number} GROUP BY 1"


class Disk:
    """The file by which the server's disk is told what goes wrong."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "disk"
        self.path.write_bytes(bytes(4096))
        with self.path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 4096)

    def fail(self, fault: Fault, left: int, seed: int) -> None:
        if fault is Fault.CLOCK:
            struct.pack_into("<q", self._shared, 16, HOUR)
            return
        struct.pack_into("<iII", self._shared, 4, left, self.hits, seed)
        struct.pack_into("<I", self._shared, 0, fault)

    def work(self) -> None:
        """Let nothing fail."""
        struct.pack_into("<I", self._shared, 0, 0)
        struct.pack_into("<q", self._shared, 16, 0)

    @property
    def hits(self) -> int:
        (found,) = struct.unpack_from("<I", self._shared, 8)
        return int(found)


@dataclass
class Run:
    """What came of all questions."""

    shown: dict[tuple[str, str], list[tuple[Any, ...]]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    hits: Counter[Fault] = field(default_factory=Counter)

    @property
    def asked(self) -> int:
        return self.outcomes.total()

    @property
    def explained(self) -> int:
        return self.asked - self.outcomes["lost"] - self.outcomes["unexplained"]


class Simulation:
    """A server on a failing disk, and its clients."""

    def __init__(self, directory: Path, library: Path, how: str) -> None:
        self.directory = directory
        self.how = how
        self.disk = Disk(directory)
        self.found = Run()
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "LD_PRELOAD": str(library),
            "FAILING_DISK": str(self.disk.path),
        }
        self._starts = 0
        self._cuts = False  # the power, in this round
        self._connections: dict[tuple[str, int], psycopg.Connection[Any]] = {}
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._log = self.directory / f"log-{self._starts}"
        command = [sys.executable, "-W", "ignore", str(HELPERS / "disk_worker.py"), self.how]
        command += ["serve", "-d", "clinic.duckdb", "--users", "users.db"]
        with self._log.open("w") as written:
            self._process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"],
                cwd=self.directory,
                stdout=written,
                stderr=written,
                env=self._environment,
            )
        found = None
        while found is None and self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
            found = re.search(r"served on 127\.0\.0\.1:(\d+)", self._log.read_text())
        assert found is not None, (self._log.read_text(), AGAIN)
        address = f"host=127.0.0.1 port={found[1]} dbname=clinic user=ana password='{PASSWORD}'"
        self._connections = {
            (name, place): psycopg.connect(
                f"{address} sslmode=disable",
                options=f"-c dpsql.account={name}",
                autocommit=True,
            )
            for name in ACCOUNTS
            for place in range(CLIENTS)
        }

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.disk.work()
        self._leave()
        self._process.kill()
        self._process.wait(60)

    def _leave(self) -> None:
        for each in self._connections.values():
            with suppress(psycopg.Error):
                each.close()

    def play(self, rounds: Iterator[Round]) -> Run:
        """Play all rounds, with a new server after each cut of the power."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            for each in rounds:
                before = self.disk.hits
                self.disk.fail(each.fault, each.left, each.seed)
                self._cuts = each.fault in _POWER
                places = range(len(each.asked))
                list(pool.map(self._ask, each.asked, [place % CLIENTS for place in places]))
                self.disk.work()
                hit = each.fault is Fault.CLOCK or self.disk.hits > before
                self.found.hits[each.fault] += hit
                if hit and each.fault in _POWER:
                    self._end(signal.SIGKILL)
                    assert_sound(self.directory)
                    self._start()
        self._end(signal.SIGTERM)
        return self.found

    def _ask(self, asked: tuple[str, str], place: int) -> None:
        payer, text = asked
        found = self.found
        try:
            rows = self._connections[payer, place].execute(text).fetchall()
        except psycopg.Error as error:
            if error.sqlstate is None:
                found.outcomes["cut" if self._cuts else "lost"] += 1
            elif error.sqlstate == "XX000" or not error.diag.message_primary:
                found.outcomes["unexplained"] += 1
            else:
                found.outcomes["refused"] += 1
            return
        found.outcomes["answered"] += 1
        assert found.shown.setdefault(asked, rows) == rows, AGAIN

    def _end(self, how: signal.Signals) -> None:
        self._leave()
        self._process.send_signal(how)
        self._process.wait(60)
        assert "Traceback" not in self._log.read_text(), (self._log.read_text(), AGAIN)


def assert_sound(directory: Path) -> None:
    """The chain of the ledger, and all sums that follow from it, hold."""
    with Ledger.open(directory / "budget.db") as ledger:
        assert ledger.verify().sound, AGAIN


def check(directory: Path, found: Run) -> None:
    """All that was shown is paid for and kept, and no account has spent more than it has."""
    assert_sound(directory)
    with Ledger.open(directory / "budget.db") as ledger:
        before = [ledger.total(f"clinic/{name}") for name in ACCOUNTS]
        for name, total in zip(ACCOUNTS, before, strict=True):
            kept = [each for each in ledger.history(f"clinic/{name}", 10**6) if each.stored]
            paid = [each.charged.rho for each in kept if each.charged is not None]
            assert total.amount.rho >= sum(paid), AGAIN
            assert len(kept) >= sum(payer == name for payer, _ in found.shown), AGAIN
    with dpsql.open_dataset(
        directory / "clinic.duckdb", directory / "policies.yaml", directory / "budget.db"
    ) as dataset:
        for name in ACCOUNTS:
            with dataset.session(name) as session:
                (own, *_) = session.budget().accounts
                assert own.binding is not None
                assert own.spent.epsilon <= own.binding.budget.epsilon, AGAIN
    server = started(directory, "--ledger", "budget.db")
    try:
        for name in ACCOUNTS:
            with server.connect(options=f"-c dpsql.account={name}") as con:
                for (payer, asked), rows in found.shown.items():
                    if payer == name:
                        assert con.execute(asked).fetchall() == rows, AGAIN
    finally:
        ended(server)
    with Ledger.open(directory / "budget.db") as ledger:
        assert [ledger.total(f"clinic/{name}") for name in ACCOUNTS] == before, AGAIN


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that fails, compiled."""
    compiler = shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the disk fails by a library for Linux, which gcc makes")
    made = tmp_path_factory.mktemp("library") / "failing_disk.so"
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    source = HELPERS / "failing_disk.c"
    subprocess.run(
        [compiler, *options, "-o", str(made), str(source), "-ldl", "-lpthread"], check=True
    )
    return made


def ready(directory: Path) -> None:
    """A dataset of which one account can pay for all that it asks, and the other cannot."""
    filled(directory)
    policy = (directory / "policies.yaml").read_text()
    policy = policy.replace("bob: {epsilon: 1, delta: 1e-6}", "bob: {epsilon: 0.5, delta: 1e-6}")
    (directory / "policies.yaml").write_text(policy.replace("epsilon: 1.0,", "epsilon: 0.1,"))


def played(directory: Path, library: Path, rounds: Iterator[Round], how: str = "sound") -> Run:
    ready(directory)
    with Simulation(directory, library, how) as simulation:
        return simulation.play(rounds)


@pytest.mark.slow
def test_a_failing_disk_shows_nothing_unpaid_and_lets_nobody_overspend(
    tmp_path: Path, library: Path
) -> None:
    found = played(tmp_path, library, plan(SEED, ROUNDS))
    said = found.outcomes, found.hits, AGAIN
    check(tmp_path, found)
    assert found.explained == found.asked, said
    assert found.outcomes["answered"] > found.asked / 2, said
    assert sum(map(bool, found.hits.values())) >= len(Fault) - 3, said


def only(faults: set[Fault], rounds: int) -> Iterator[Round]:
    """A plan with these faults alone."""
    wanted = (each for each in plan(SEED, 10**6) if each.fault in faults)
    for _ in range(rounds):
        yield Round(Fault.NOTHING, 0, 0, (("ana", question(random.randrange(10**9))),))
        yield next(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "faults"),
    [
        ("unsettled", {Fault.NOTHING}),
        ("unsynced", {Fault.POWER_WRITE}),
        ("careless", {Fault.WRITE, Fault.FULL}),
    ],
)
def test_a_broken_ledger_fails_these_checks(
    tmp_path: Path, library: Path, how: str, faults: set[Fault]
) -> None:
    def shows() -> None:
        found = played(tmp_path, library, only(faults, 6), how)
        assert found.shown
        check(tmp_path, found)

    with pytest.raises((AssertionError, dpsql.LedgerError)):
        shows()

"""Analysts in processes of their own, for tests that kill, crowd and starve them.

A worker imports everything once and forks for every task, a line of JSON on its standard input. It
answers with a line of JSON: the task's status and all it wrote before it ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any

from dpsql.errors import BudgetExceeded, Error
from dpsql.ledger import Account, Ledger
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.privacy.accounting.zcdp import Amount

with contextlib.suppress(Error):
    from dpsql.ledger import postgres

RESERVED, COST = 10, 3
ACCOUNT = "sales/alice"
LIMITS = (Account(ACCOUNT, Amount(rho=10**12, delta=10**12)),)
LABELS = (
    "before reserve",
    "after reserve",
    "during engine",
    "before settle",
    "after settle",
    "during fetch",
)


STREAM = "stream 1"
STEP_LABELS = ("before begin", "after begin", "during engine", "before publish", "after publish")


class Failpoints:
    """Kills its process when it is reached the ``left``-th time. Says before where that is."""

    def __init__(self, left: int, out: int) -> None:
        self.left = left
        self.out = out

    def reach(self, label: str) -> None:
        if self.left == 0:
            os.write(self.out, f"died {label}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def between_statements(backend: type[Any], points: Failpoints) -> None:
    """Reach a failpoint before and after every statement, commits included."""
    real = backend.execute

    def execute(self: Any, sql: str, values: Any = ()) -> Any:
        points.reach("before " + sql.split()[0])
        rows = real(self, sql, values)
        points.reach("after " + sql.split()[0])
        return rows

    backend.execute = execute


def backend_of(place: str) -> type[Any]:
    return postgres.PostgresBackend if place.startswith("postgres") else SQLiteBackend


def reserve(ledger: Ledger, query: str) -> Any:
    return ledger.reserve(
        ACCOUNT, Amount(rho=RESERVED, delta=1), query=query, plan="{}", limits=LIMITS
    )


def ask(ledger: Ledger, query: str, points: Failpoints) -> None:
    """One question as a session asks it, shown line by line."""
    found = ledger.stored(ACCOUNT, query)
    if found is None:
        points.reach(LABELS[0])
        charge = reserve(ledger, query)
        points.reach(LABELS[1])
        points.reach(LABELS[2])
        answer = os.urandom(8).hex().encode()
        points.reach(LABELS[3])
        ledger.settle(charge, Amount(rho=COST, delta=1), answer)
        points.reach(LABELS[4])
    else:
        answer = found.payload
    for half in (answer[:8], answer[8:]):
        os.write(points.out, f"shown {query} ".encode() + half + b"\n")
        points.reach(LABELS[5])


def crash(out: int, place: str, left: int, queries: list[str], statements: bool = True) -> None:
    points = Failpoints(left, out)
    with Ledger.open(place, busy_timeout=60) as ledger:
        if statements:
            between_statements(backend_of(place), points)
        for query in queries:
            ask(ledger, query, points)


def stream(out: int, place: str, left: int, steps: list[int], statements: bool = True) -> None:
    """Publish steps of a stream that there is, shown line by line, until a failpoint."""
    points = Failpoints(left, out)
    with Ledger.open(place, busy_timeout=60) as ledger:
        if statements:
            between_statements(backend_of(place), points)
        for step in steps:
            points.reach(STEP_LABELS[0])
            ticket = ledger.begin_step(ACCOUNT, STREAM, step)
            os.write(out, f"begun {step}\n".encode())
            points.reach(STEP_LABELS[1])
            points.reach(STEP_LABELS[2])
            answer = os.urandom(8).hex()
            points.reach(STEP_LABELS[3])
            ledger.publish_step(ticket, [answer.encode()])
            points.reach(STEP_LABELS[4])
            os.write(out, f"shown {step} {answer}\n".encode())


def race(out: int, place: str, steps: list[int]) -> None:
    """Begin and publish each of these steps, if nobody else has; say which."""
    with Ledger.open(place, busy_timeout=300) as ledger:
        for step in steps:
            try:
                ticket = ledger.begin_step(ACCOUNT, STREAM, step)
            except Error as error:
                os.write(out, f"refused {error.code}\n".encode())
                continue
            os.write(out, f"begun {ticket.step}\n".encode())


def crowd(out: int, place: str, account: str, most: int, times: int) -> None:
    """Ask ``times`` times, settling every third at its full price; say how many were granted."""
    limits = [Account(account, Amount(rho=most, delta=10**9))]
    granted = 0
    with Ledger.open(place, busy_timeout=300) as ledger:
        for turn in range(times):
            try:
                charge = ledger.reserve(
                    account, Amount(rho=1, delta=1), query="q", plan="{}", limits=limits
                )
            except BudgetExceeded:
                continue
            granted += 1
            if turn % 3 == 0:
                ledger.settle(charge, charge.amount, b"answer")
    os.write(out, f"granted {granted}\n".encode())


def starve(out: int, place: str, how: str) -> None:
    """Go on charging until the disk refuses; say what was granted, and how it was refused."""
    with Ledger.open(place) as ledger:
        os.write(out, f"granted {reserve(ledger, 'q').entry}\n".encode())
        if how == "size":
            size = os.stat(place + "-wal").st_size + 30_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        if how == "fsync":
            refuse_fsync()
        try:
            for _ in range(10_000):
                charge = reserve(ledger, "q")
                os.write(out, f"granted {charge.entry}\n".encode())
                ledger.settle(charge, Amount(rho=COST, delta=1), os.urandom(500))
                os.write(out, f"settled {charge.entry}\n".encode())
        except Error as error:
            os.write(out, f"refused {error.code}\n".encode())


def refuse_fsync() -> None:
    """Have the kernel answer EIO to every fsync and fdatasync of this process."""
    machine = platform.machine()
    calls = {"x86_64": (74, 75), "aarch64": (82, 83)}[machine]
    error = 0x00050000 | 5  # SECCOMP_RET_ERRNO with EIO
    code = [(0x20, 0, 0, 0)]  # load the number of the system call
    code += [(0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, error)]  # allow, or the error
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = Program(len(code), ctypes.cast(buffer, ctypes.c_void_p))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert libc.prctl(22, 2, ctypes.byref(filter_), 0, 0) == 0  # seccomp, with a filter


TASKS: dict[str, Callable[..., None]] = {
    "crash": crash,
    "crowd": crowd,
    "starve": starve,
    "stream": stream,
    "race": race,
}


def fork(task: list[Any]) -> tuple[int, int]:
    """Run a task in a new process; its id, and where to read what it says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            TASKS[task[0]](write, *task[1:])
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    return child, read


def main() -> None:
    for line in sys.stdin:
        running = [fork(task) for task in json.loads(line)]
        answers = []
        for child, read in running:
            with os.fdopen(read) as said:
                words = said.read().splitlines()
            answers.append([os.waitpid(child, 0)[1], words])
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()

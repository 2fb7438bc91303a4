"""dpsql beside its peers: the same two tasks, on the same rows, at the same price.

Run with ``make peers`` or ``python benchmarks/peers.py [--rows N] [--limit SECONDS]``. Rows are
those of ``benchmarks/utility.py`` (5,000,000 by 500,000 users over 100,000 zipf items), each with a
region out of 20 and an amount from 0 to 100 besides. At (epsilon 1, delta 1e-6) each peer is asked
for

* users: the number of distinct users of each item, items unknown, a user counting in ten of them;
* sums: the sum of amounts in each of 20 declared regions, a user adding to each what ten rows can
  add, clamped or in rows.

Each peer has a virtual environment of its own under ``.peers/``, of the versions pinned in
``benchmarks/peers/requirements/``, and a program of its own, ``benchmarks/peers/ask_*.py``, that
asks it through its public API. Peers are asked one after the other, each in a process of its own,
and the plain query is asked of DuckDB just before each. A peer that cannot be installed, that
fails, or that takes too long is a row that says so.

* seconds: from the question to rows in Python, data loaded before; a median of up to three runs;
* CPU seconds: of all processes of the peer meanwhile, which other work on the machine hardly moves;
* times plain: the seconds over those of the plain query;
* error: over the released groups, the mean absolute difference from the truth, nothing bounded and
  nothing noised; and the median of the relative differences;
* error of the largest: the same mean over the 1,000 truly largest groups, released or not (0);
* peak memory: resident, of all processes of the peer, sampled.

Prints a table and writes benchmarks/results/peers.json, in which peers that were not asked this
time keep their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np
from speed import zipf

HERE = Path(__file__).parent
PROGRAMS = HERE / "peers"
sys.path.append(str(PROGRAMS))

from protocol import Request  # noqa: E402 (a folder that programs of other environments share)

ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".peers"
RESULTS = HERE / "results" / "peers.json"
SEED = 20240607
ROWS = 5_000_000
ITEMS = 100_000
REGIONS = tuple(f"region{number}" for number in range(20))
EPSILON, DELTA = 1.0, 1e-6
LARGEST = 1_000
TRUTH = {
    "users": "SELECT item, COUNT(DISTINCT user_id) FROM read_parquet($1) GROUP BY item",
    "sums": "SELECT region, SUM(amount)::BIGINT FROM read_parquet($1) GROUP BY region",
}


@dataclass(frozen=True)
class Peer:
    """Who is asked: a program of benchmarks/peers and the file that pins what it imports.

    Without requirements, the program runs in the environment of dpsql.
    """

    name: str
    program: str
    requirements: str | None = None
    tasks: tuple[str, ...] = ("users", "sums")
    auto: bool = False


PLAIN = Peer("DuckDB, no privacy", "ask_duckdb.py")
PEERS = (
    PLAIN,
    Peer("dpsql", "ask_dpsql.py"),
    Peer("dpsql, auto", "ask_dpsql.py", tasks=("users",), auto=True),
    Peer("OpenDP", "ask_opendp.py", "opendp.txt"),
    Peer("Qrlew", "ask_qrlew.py", "qrlew.txt"),
    Peer("SmartNoise SQL", "ask_smartnoise.py", "smartnoise.txt"),
    Peer("PipelineDP", "ask_pipelinedp.py", "pipelinedp.txt"),
    Peer("Tumult Analytics", "ask_tumult.py", "tumult.txt"),
)


@dataclass(frozen=True)
class Run:
    """What one process of a peer said: its answers in order, and why there are no more of them."""

    versions: Mapping[str, str] = field(default_factory=dict)
    asked: str = ""
    notes: tuple[str, ...] = ()
    load_seconds: float = 0.0
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    answers: tuple[tuple[tuple[str, float], ...], ...] = ()
    peak_bytes: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class Row:
    """One peer at one task; figures are None where it gave no answer, and ``failure`` says why."""

    peer: str
    task: str
    versions: Mapping[str, str]
    asked: str
    notes: tuple[str, ...]
    failure: str | None
    runs: int
    load_seconds: float
    peak_bytes: int
    machine_load: float
    plain_seconds: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    times_plain: float | None = None
    groups: float | None = None
    error: float | None = None
    relative_error: float | None = None
    error_of_largest: float | None = None


class InstallationError(Exception):
    """Says why a peer has no environment."""


# -- data -----------------------------------------------------------------------------------------


def build(path: Path, rows: int) -> None:
    """Write the rows, as a Parquet file: the visits of benchmarks/utility.py, and two columns."""
    rng = np.random.default_rng(SEED)
    users = rows // 10
    rank = zipf(rng, users, 0.6, rows)
    data = {
        "user": rng.permutation(users)[rank],
        "item": zipf(rng, ITEMS, 1.0, rows),
        "amount": np.minimum(rng.lognormal(3.0, 1.2, rows), 100.0).astype(np.int64),
        "region": zipf(rng, len(REGIONS), 1.0, rows),
    }
    with duckdb.connect() as connection:
        connection.register("data", data)
        connection.execute(
            "COPY (SELECT \"user\" AS user_id, 'item' || item AS item, "
            f"'region' || region AS region, amount FROM data) TO '{path}' (FORMAT parquet)"
        )


def request_for(peer: Peer, task: str, data: Path, runs: int) -> Request:
    return Request(
        data=str(data),
        task=task,
        epsilon=EPSILON,
        delta=DELTA,
        max_groups=10 if task == "users" else len(REGIONS),
        rows_per_group=10,
        lower=0,
        upper=100,
        regions=REGIONS,
        runs=runs,
        auto=peer.auto,
    )


# -- environments ---------------------------------------------------------------------------------


def interpreter(peer: Peer) -> Path:
    """Return the Python that has the peer's packages, installing them when they are not there yet.

    An environment is finished when it holds a copy of the requirements it was made of.
    """
    if peer.requirements is None:
        return Path(sys.executable)
    requirements = PROGRAMS / "requirements" / peer.requirements
    folder = ENVIRONMENTS / requirements.stem
    python, finished = folder / "bin" / "python", folder / "requirements.txt"
    wanted = requirements.read_text(encoding="utf-8")
    if not finished.exists() or finished.read_text(encoding="utf-8") != wanted:
        _install([sys.executable, "-m", "venv", "--clear", str(folder)])
        _install(
            [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        )
        finished.write_text(wanted, encoding="utf-8")
    return python


def _install(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise InstallationError("not installed: " + _short(errors[-1] if errors else done.stderr))


# -- one process ----------------------------------------------------------------------------------


def ask(command: Sequence[str], request: Request, limit: float) -> Run:
    """Run a program of benchmarks/peers and return what it said until it ended or time was up.

    A program that ends with an error, says nothing, or is stopped after ``limit`` seconds makes a
    run with a ``failure``, never an exception.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        with _started(command, complaints) as process:
            run = _listen(process, request, limit)
        if run.failure is None and process.returncode:
            complaints.seek(0)
            run = replace(run, failure=f"failed: {_short(complaints.read())}")
    if run.failure is None and not run.answers:
        run = replace(run, failure="failed: ended without an answer")
    return run


@contextmanager
def _started(command: Sequence[str], complaints: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, so that all it starts is measured and ended with it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        encoding="utf-8",
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        for pid in _session(process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _listen(process: subprocess.Popen[str], request: Request, limit: float) -> Run:
    deadline = time.monotonic() + limit
    heard: queue.SimpleQueue[tuple[str, float] | None] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(process, request, heard), daemon=True).start()
    run, used = Run(), 0.0
    while True:
        run = replace(run, peak_bytes=max(run.peak_bytes, _resident(process.pid)))
        try:
            said = heard.get(timeout=0.25)
        except queue.Empty:
            if time.monotonic() > deadline:
                return replace(run, failure=f"stopped after {limit / 60:g} minutes")
            continue
        if said is None:
            return _ended(process, run, deadline)
        line, cpu = said
        try:
            run = _told(run, json.loads(line), cpu - used)
        except (ValueError, KeyError, TypeError):
            return replace(run, failure="failed: said what is not of the protocol")
        used = cpu


def _ended(process: subprocess.Popen[str], run: Run, deadline: float) -> Run:
    """A run whose program has closed its output and has until the deadline to end."""
    try:
        process.wait(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return replace(run, failure="failed: did not end")
    return run


def _hear(
    process: subprocess.Popen[str],
    request: Request,
    heard: queue.SimpleQueue[tuple[str, float] | None],
) -> None:
    """Put each line in the queue with the CPU time that was used when it came, then None."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(OSError):  # it may have ended without reading
            process.stdin.write(request.json())
            process.stdin.close()
        for line in process.stdout:
            heard.put((line, _cpu(process.pid)))
    except (OSError, ValueError):
        pass  # it ended while it wrote, which its end says
    finally:
        heard.put(None)


def _told(run: Run, event: Mapping[str, Any], cpu: float) -> Run:
    """What is known of a run after one more event."""
    match event["event"]:
        case "ready":
            return replace(
                run,
                versions=dict(event["versions"]),
                asked=str(event["asked"]),
                load_seconds=float(event["load_seconds"]),
            )
        case "note":
            return replace(run, notes=(*run.notes, str(event["text"])))
        case "answer":
            rows = tuple((str(key), float(value)) for key, value in event["rows"])
            return replace(
                run,
                seconds=(*run.seconds, float(event["seconds"])),
                cpu_seconds=(*run.cpu_seconds, cpu),
                answers=(*run.answers, rows),
            )
    raise ValueError(event["event"])


def _session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    return [pid for pid, fields in _processes() if int(fields[3]) == leader]


def _resident(leader: int) -> int:
    pages = (int(fields[21]) for _, fields in _processes() if int(fields[3]) == leader)
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _cpu(leader: int) -> float:
    """Seconds that a session's processes and those they have waited for have computed."""
    ticks = (
        sum(int(field) for field in fields[11:15])
        for _, fields in _processes()
        if int(fields[3]) == leader
    )
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, list[str]]]:
    """All processes, with the fields of /proc/PID/stat that follow the name: state, parent, ..."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:  # it has ended
                continue
            yield int(entry.name), text.rpartition(")")[2].split()


def _short(text: str) -> str:
    """The last line of a complaint, without paths of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "without a word"
    return last.replace(str(ROOT), "…")[:300]


# -- figures --------------------------------------------------------------------------------------


def judged(peer: Peer, task: str, run: Run, plain: Run | None, truth: Mapping[str, float]) -> Row:
    """The row of a peer's run: times beside the plain query's, released values beside the truth.

    A run that failed after answers keeps the figures of these, and says why it failed.
    """
    row = Row(
        peer=peer.name,
        task=task,
        versions=run.versions,
        asked=run.asked,
        notes=run.notes,
        failure=run.failure,
        runs=len(run.answers),
        load_seconds=run.load_seconds,
        peak_bytes=run.peak_bytes,
        machine_load=os.getloadavg()[0],
    )
    if not run.answers:
        return row
    seconds = statistics.median(run.seconds)
    plain_seconds = statistics.median(plain.seconds) if plain and plain.seconds else None
    return replace(
        row,
        seconds=seconds,
        cpu_seconds=statistics.median(run.cpu_seconds),
        plain_seconds=plain_seconds,
        times_plain=seconds / plain_seconds if plain_seconds else None,
        groups=statistics.fmean(len(answer) for answer in run.answers),
        error=_over(run, lambda answer: _mean_error(answer, truth)),
        relative_error=_over(run, lambda answer: _relative_error(answer, truth)),
        error_of_largest=_over(run, lambda answer: _error_of_largest(answer, truth)),
    )


Answer = Sequence[tuple[str, float]]


def _over(run: Run, figure: Callable[[Answer], float | None]) -> float | None:
    figures = [found for answer in run.answers if (found := figure(answer)) is not None]
    return statistics.fmean(figures) if figures else None


def _mean_error(answer: Answer, truth: Mapping[str, float]) -> float | None:
    errors = [abs(value - truth.get(key, 0.0)) for key, value in answer]
    return statistics.fmean(errors) if errors else None


def _relative_error(answer: Answer, truth: Mapping[str, float]) -> float | None:
    errors = [abs(value - truth[key]) / truth[key] for key, value in answer if truth.get(key)]
    return statistics.median(errors) if errors else None


def _error_of_largest(answer: Answer, truth: Mapping[str, float]) -> float:
    released = dict(answer)
    largest = sorted(truth, key=lambda key: (-truth[key], key))[:LARGEST]
    return statistics.fmean(abs(released.get(key, 0.0) - truth[key]) for key in largest)


# -- the whole ------------------------------------------------------------------------------------


def compare(
    peers: Sequence[Peer], data: Path, runs: int, limit: float, each: Callable[[Row], None]
) -> list[Row]:
    """Ask every peer its tasks, one after the other, and hand over each row when it is there."""
    rows = []
    with duckdb.connect() as connection:
        truths = {
            task: {
                str(key): float(value)
                for key, value in connection.execute(query, [str(data)]).fetchall()
            }
            for task, query in TRUTH.items()
        }
    for peer in peers:
        for task in peer.tasks:
            rows.append(_asked(peer, task, data, runs, limit, truths[task]))
            each(rows[-1])
    return rows


def _asked(
    peer: Peer, task: str, data: Path, runs: int, limit: float, truth: Mapping[str, float]
) -> Row:
    try:
        python = interpreter(peer)
    except InstallationError as error:
        return judged(peer, task, Run(failure=str(error)), None, truth)
    plain = ask(_command(Path(sys.executable), PLAIN), request_for(PLAIN, task, data, 3), limit)
    run = ask(_command(python, peer), request_for(peer, task, data, runs), limit)
    return judged(peer, task, run, plain, truth)


def _command(python: Path, peer: Peer) -> list[str]:
    return [str(python), str(PROGRAMS / peer.program)]


def line(row: Row) -> str:
    """A row for the screen."""
    name = f"{row.task:5} {row.peer:18}"
    if row.seconds is None:
        return f"{name} {row.failure}"
    figures = (
        f"{row.seconds:8.1f} s {row.times_plain or 0:7.1f} x {row.cpu_seconds:8.1f} CPU s "
        f"{row.groups:8,.0f} groups  error {row.error or 0:11,.1f} "
        f"({row.relative_error or 0:.1%})  {row.peak_bytes / 2**30:5.1f} GiB"
    )
    return f"{name} {figures}{'  ' + row.failure if row.failure else ''}"


def report(rows: Sequence[Row], size: int, limit: float, target: Path) -> None:
    """Write the rows, and keep those of peers that were not asked, if asked of as many rows."""
    found = [asdict(row) for row in rows]
    asked = {(row.peer, row.task) for row in rows}
    kept = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    if kept.get("rows") == size:
        found += [row for row in kept["answers"] if (row["peer"], row["task"]) not in asked]
    order = {(peer.name, task): (task, n) for n, peer in enumerate(PEERS) for task in peer.tasks}
    found.sort(key=lambda row: order.get((row["peer"], row["task"]), ("", 0)), reverse=False)
    whole = {
        "rows": size,
        "epsilon": EPSILON,
        "delta": DELTA,
        "limit_seconds": limit,
        "cores": os.cpu_count(),
        "largest": LARGEST,
        "answers": found,
    }
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a peer and a task")
    parser.add_argument("--peer", action="append", choices=[peer.name for peer in PEERS])
    parser.add_argument("--task", action="append", choices=list(TRUTH))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    wanted = options.task or list(TRUTH)
    peers = [
        replace(peer, tasks=tuple(task for task in peer.tasks if task in wanted))
        for peer in PEERS
        if not options.peer or peer.name in options.peer
    ]
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "visits.parquet"
        build(data, options.rows)
        rows: list[Row] = []

        def each(row: Row) -> None:
            rows.append(row)
            print(line(row), flush=True)
            report(rows, options.rows, options.limit, options.output)

        compare(peers, data, options.runs, options.limit, each)


if __name__ == "__main__":
    main()

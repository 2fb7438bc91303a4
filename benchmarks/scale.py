"""What more rows cost on one machine: Parquet files in place, two cores, a limit of memory.

Run with ``make scale`` or ``python benchmarks/scale.py [--rows N ...]``. Writes Parquet files with
DuckDB (zipf activity of units, ten rows to a unit on average), asks plain DuckDB and dpsql the same
of them, and prints CPU seconds, their ratio, the peak of memory and what was spilled to disk. Every
question is asked by a process of its own, with nothing cached. Needs Linux, which is asked what a
process takes. Writes benchmarks/results/scale.json
and the tables of docs/scale.md; the data is kept below ``--directory`` while it is asked, only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "scale.json"
PAGE = ROOT / "docs" / "scale.md"
ROWS = (1_000_000, 10_000_000, 100_000_000)
CORES = 2
MEMORY = "4GB"
LOW_MEMORY = ((10_000_000, "1GB"), (10_000_000, "256MB"))
"""Numbers of rows that are asked once more, with less memory than they take."""
PLAIN, DPSQL, START = "plain", "dpsql", "start"

_PER_ITEM = "FROM events GROUP BY item"
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "units": (
        f"SELECT item, COUNT(DISTINCT user_id) AS n {_PER_ITEM}",
        {"max_groups_contributed": 10},
    ),
    "rows": (
        f"SELECT item, COUNT(*) AS n {_PER_ITEM}",
        {"max_groups_contributed": 10, "max_rows_contributed": 5},
    ),
    "sums": (
        f"SELECT item, SUM(amount) AS s {_PER_ITEM}",
        {"max_groups_contributed": 10, "max_rows_contributed": 5},
    ),
    "top": (
        f"SELECT item, COUNT(DISTINCT user_id) AS n {_PER_ITEM} ORDER BY n DESC LIMIT 10",
        {"max_groups_contributed": "unlimited"},
    ),
}
"""Questions of all items, and the bounds that dpsql is asked them with."""


@dataclass(frozen=True)
class Took:
    """What one process took: CPU and wall seconds of the question, the most memory and disk.

    ``memory`` is of the whole process in bytes, ``spilled`` of the files in its temporary
    directory. ``failed`` is the error where there was no answer; None where there was one.
    """

    cpu: float
    wall: float
    memory: int
    spilled: int
    failed: str | None = None


# -- the data -------------------------------------------------------------------------------------


def generate(place: Path, rows: int) -> None:
    """Write events of ``rows`` / 10 units with 100,000 items, or 1,000,000 from 100M rows on.

    Ranks are drawn by the inverse of the distribution function, of units to the power 0.6 and of
    items to the power 1, from hashes of the row's number: the same rows every time.
    """
    import duckdb

    units, items = rows // 10, 100_000 if rows < 100_000_000 else 1_000_000
    power = 1 - 0.6
    with duckdb.connect(config={"threads": str(CORES), "memory_limit": MEMORY}) as writer:
        writer.execute("SET preserve_insertion_order = false")
        uniform = "(hash(4 * i + {0}) / 18446744073709551616.0)"
        unit = f"(pow({units}, {power}) - 1) * {uniform.format(1)} + 1"
        unit = f"floor(pow({unit}, {1 / power}))::BIGINT"
        item = f"floor(pow({items}, {uniform.format(2)}))::BIGINT"
        amount = f"round(exp(3 + 1.2 * sqrt(-2 * ln(1 - {uniform.format(3)})) "
        amount += f"* cos(2 * pi() * {uniform.format(0)})), 2)"
        writer.execute(
            # The multiplication keeps a unit's number from telling how active it is.
            f"COPY (SELECT {unit} * 7919 % {units} AS user_id, 'item' || {item} AS item, "
            f"{amount} AS amount FROM range({rows}) r(i)) TO '{place}' (FORMAT parquet)"
        )


# -- one process ----------------------------------------------------------------------------------


def peak_memory() -> int:
    """The most bytes this process has had in memory, as Linux tells."""
    # What getrusage says of a process may be what it had before it became another.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def ask_plain(place: Path, memory: str, question: str) -> None:
    import duckdb

    with duckdb.connect(
        config={
            "threads": str(CORES),
            "memory_limit": memory,
            "temp_directory": tempfile.gettempdir(),
        }
    ) as con:
        con.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{place}')")
        con.execute(QUESTIONS[question][0]).fetchnumpy()


@contextmanager
def connected(place: Path, memory: str) -> Iterator[Any]:
    import dpsql
    from dpsql.policy.limits import Limits
    from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
    from dpsql.policy.parameters import Parameters

    policy = Policy(
        dataset="scale",
        defaults=Parameters(epsilon=1.0, delta=1e-8),
        accounts={"bench": AccountPolicy("bench", 100.0, 1e-3)},
        tables={
            "events": TablePolicy(
                "events",
                PrivacyUnit("user", "user_id"),
                {"amount": ColumnPolicy(lower=0, upper=100)},
            )
        },
        limits=Limits(memory=memory, seconds=3600),
    )
    with closing(dpsql.DuckDBEngine(files={"events": place})) as engine:
        engine.prove()
    with (
        tempfile.TemporaryDirectory(dir=place.parent) as directory,  # it is not what is spilled
        dpsql.connect(place, policy, Path(directory) / "budget.db", "bench") as con,
    ):
        yield con


def ask_dpsql(place: Path, memory: str, question: str) -> None:
    sql, parameters = QUESTIONS[question]
    with connected(place, memory) as con:
        con.sql(sql, **parameters)


def run_child(who: str, place: Path, memory: str, question: str) -> None:
    """Ask one question, and print what it took. Imports count for the start alone."""
    if who != START:
        __import__("duckdb" if who == PLAIN else "dpsql.dbapi.connection")
    cpu, wall, failed = time.process_time(), time.perf_counter(), None
    try:
        if who == PLAIN:
            ask_plain(place, memory, question)
        elif who == DPSQL:
            ask_dpsql(place, memory, question)
        else:
            with connected(place, memory):
                pass
    except Exception as error:  # noqa: BLE001 (that there is no answer is a result)
        failed = f"{type(error).__name__}: {error}"
    taken = (time.process_time() - cpu, time.perf_counter() - wall)
    print(json.dumps(asdict(Took(*taken, peak_memory(), 0, failed))))


# -- all processes --------------------------------------------------------------------------------


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory; what goes while it is looked at counts for none."""
    total = 0
    for place, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def size_without_names(directory: Path, process: int) -> int:
    """Bytes of the files that a process has open below a directory, and that have no name."""
    total = 0
    opened = Path(f"/proc/{process}/fd")
    try:
        for number in os.listdir(opened):
            if os.readlink(opened / number).startswith(f"{directory}/"):
                found = os.stat(opened / number)
                total += found.st_size if found.st_nlink == 0 else 0
    except OSError:  # it has ended, or closed one of them
        pass
    return total


class Watch(threading.Thread):
    """Looks again and again how much a process has below a directory, until it is told to end."""

    def __init__(self, directory: Path, process: int) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._process = process
        self._ended = threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self._ended.wait(0.02):
            unnamed = size_without_names(self._directory, self._process)
            self.most = max(self.most, size_of(self._directory) + unnamed)

    def end(self) -> int:
        self._ended.set()
        self.join()
        return self.most


def two_cores() -> None:
    """Keep a process to so many cores as are meant: dpsql takes as many threads as there are."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def measure(directory: Path, who: str, place: Path, memory: str, question: str) -> Took:
    """Have a process of its own ask, with a temporary directory of its own."""
    temporary = directory / "temporary"
    temporary.mkdir()
    command = [sys.executable, __file__, "--child", who, str(place), memory, question]
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    try:
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=two_cores,
        ) as asking:
            watch = Watch(temporary, asking.pid)
            watch.start()
            said, _ = asking.communicate()
            spilled = watch.end()
        if asking.returncode:
            raise subprocess.CalledProcessError(asking.returncode, command)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Took(**(json.loads(said) | {"spilled": spilled}))


def median(runs: list[Took]) -> Took:
    """The median CPU and wall time, and the most memory and disk of any run."""
    failed = next((run.failed for run in runs if run.failed is not None), None)
    return Took(
        cpu=statistics.median(run.cpu for run in runs),
        wall=statistics.median(run.wall for run in runs),
        memory=max(run.memory for run in runs),
        spilled=max(run.spilled for run in runs),
        failed=failed,
    )


def compare(directory: Path, place: Path, memory: str, runs: int) -> Iterator[dict[str, Any]]:
    """Ask all questions of both, in turns."""
    for question in QUESTIONS:
        taken: dict[str, list[Took]] = {PLAIN: [], DPSQL: []}
        for _ in range(runs):
            for who, found in taken.items():
                found.append(measure(directory, who, place, memory, question))
        theirs, ours = median(taken[PLAIN]), median(taken[DPSQL])
        entry = {"question": question, "plain": asdict(theirs), "dpsql": asdict(ours)}
        yield entry | {"ratio": ours.cpu / theirs.cpu}


def measure_rows(directory: Path, rows: int, runs: int) -> dict[str, Any]:
    """Everything about one number of rows. Its data is gone afterwards."""
    place = directory / "events.parquet"
    print(f"{rows:,} rows: writing", flush=True)
    generate(place, rows)
    runs = 1 if rows >= 100_000_000 else runs
    try:
        start = median([measure(directory, START, place, MEMORY, "units") for _ in range(runs)])
        found: dict[str, Any] = {"rows": rows, "bytes": place.stat().st_size}
        print(
            f"{found['bytes'] / 1e6:,.0f} MB of Parquet; opened in {start.cpu:.2f} CPU s "
            f"({start.wall:.2f} s) with {start.memory / 1e6:.0f} MB (aim: below 1 s, 200 MB)"
        )
        found |= {"start": asdict(start), "limits": []}
        memories = [MEMORY, *(memory for number, memory in LOW_MEMORY if number == rows)]
        for memory in memories:
            entries = []
            for entry in compare(directory, place, memory, runs):
                show(rows, memory, entry)
                entries.append(entry)
            found["limits"].append({"memory": memory, "questions": entries})
        return found
    finally:
        place.unlink()


# -- what is shown --------------------------------------------------------------------------------


def show(rows: int, memory: str, entry: dict[str, Any]) -> None:
    plain, ours = Took(**entry["plain"]), Took(**entry["dpsql"])
    print(f"{rows:>11,}  {memory:>5}  {entry['question']:5}  " + "  ".join(cells(plain, ours)))
    sys.stdout.flush()


def cells(plain: Took, ours: Took) -> tuple[str, str, str, str]:
    """CPU seconds of both, their ratio, memory of both, and what both spilled."""
    ratio = "–" if plain.failed or ours.failed else f"{ours.cpu / plain.cpu:.1f}×"
    return (
        f"{cpu(plain)} → {cpu(ours)}",
        ratio,
        f"{plain.memory / 1e6:,.0f} → {ours.memory / 1e6:,.0f} MB",
        f"{plain.spilled / 1e6:,.0f} → {ours.spilled / 1e6:,.0f} MB",
    )


def cpu(took: Took) -> str:
    return f"{took.cpu:.1f} s" if took.failed is None else "no answer"


def table(found: dict[str, Any], memory: str) -> str:
    """The table of a number of rows, or of what it takes with less memory."""
    lines = ["| Question | CPU | Ratio | Peak of memory | Spilled |", "|---|--:|--:|--:|--:|"]
    (entries,) = (each["questions"] for each in found["limits"] if each["memory"] == memory)
    for entry in entries:
        both = Took(**entry["plain"]), Took(**entry["dpsql"])
        lines.append(f"| {entry['question']} | " + " | ".join(cells(*both)) + " |")
    return "\n".join(lines)


def starts(report: dict[str, Any]) -> str:
    lines = ["| Rows | Parquet | Import and opening | Memory |", "|--:|--:|--:|--:|"]
    for found in report["sizes"].values():
        start = Took(**found["start"])
        lines.append(
            f"| {found['rows']:,} | {found['bytes'] / 1e6:,.0f} MB | {start.cpu:.1f} CPU s "
            f"| {start.memory / 1e6:.0f} MB |"
        )
    return "\n".join(lines)


def page(current: str, report: dict[str, Any]) -> str:
    """The page with its tables, each between ``<!-- table: name -->`` and ``<!-- end -->``."""
    tables = {"starts": starts(report)}
    for rows, found in report["sizes"].items():
        tables |= {
            f"{rows} {each['memory']}": table(found, each["memory"]) for each in found["limits"]
        }

    def filled(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in tables:
            return match.group()
        return f"<!-- table: {name} -->\n\n{tables[name]}\n\n<!-- end -->"

    return re.sub(r"<!-- table: ([^>]+?) -->.*?<!-- end -->", filled, current, flags=re.DOTALL)


def versions() -> dict[str, str]:
    import duckdb

    import dpsql

    return {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--runs", type=int, default=3, help="of up to 10M rows")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        who, place, memory, question = options.child
        run_child(who, Path(place), memory, question)
        return
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="dpsql-scale-") as directory:
        for rows in options.rows:
            keep(measure_rows(Path(directory), rows, options.runs))


def keep(found: dict[str, Any]) -> None:
    """Write what was found of a number of rows beside what is known of others."""
    report = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    sizes = report.get("sizes", {}) | {str(found["rows"]): found}
    sizes = dict(sorted(sizes.items(), key=lambda each: int(each[0])))
    report = {"cores": CORES, "memory": MEMORY, "sizes": sizes, "versions": versions()}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a refresh of a view costs: the engine's own work, the private state, the noise, the ledger.

    python benchmarks/continual.py [--groups 10000] [--units 1000000] [--steps 365]
        [--factoring toeplitz]

Builds tables in a temporary directory, creates a view of many steps over each, catches up with it
to some steps and publishes these one by one. Prints the time of one refresh beside that of the
running aggregate in plain DuckDB (COUNT(DISTINCT unit) per group of all rows so far), the time of a
step among many that are caught up with, and the memory that the process had at most; and writes all
of it to ``benchmarks/results/continual.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy, TimeColumn
from dpsql.policy.parameters import Parameters

RESULTS = Path(__file__).parent / "results" / "continual.json"
PLAIN = "SELECT item, count(DISTINCT user_id) FROM plays WHERE played_at < ? GROUP BY item"
ALONE = 3  # steps that are published one by one at each place
PLACES = {10_000: (36, 365), 1_000_000: (6, 36)}  # the last of them, by the number of groups
FILLED = {10_000: 365, 1_000_000: 6}  # the steps in which rows arrive: then all groups are there


@dataclass(frozen=True, slots=True)
class Place:
    """Figures at one place of a stream, in seconds and in MB; ``processor`` is of all threads."""

    groups: int
    steps: int
    rows: int
    factoring: str
    step: int
    refresh: float
    processor: float
    plain: float
    step_of_many: float | None
    peak: float


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, choices=PLACES, default=None)
    parser.add_argument("--steps", type=int, default=365)
    parser.add_argument("--units", type=int, default=None)
    parser.add_argument("--factoring", default="toeplitz")
    given = parser.parse_args()
    if given.groups is None:  # each size in a process of its own, for its memory
        found = [place for groups in PLACES for place in in_process(groups, given.factoring)]
        RESULTS.write_text(json.dumps({"places": found}, indent=2) + "\n", encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as directory:
        units = given.units or max(100_000, given.groups)
        for place in measure(Path(directory), given.groups, given.steps, units, given.factoring):
            print(json.dumps(asdict(place)), flush=True)


def in_process(groups: int, factoring: str) -> Iterator[object]:
    """Measure one size in a process of its own."""
    command = [sys.executable, __file__, "--groups", str(groups), "--factoring", factoring]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            yield json.loads(line)


def measure(
    directory: Path, groups: int, steps: int, units: int, factoring: str
) -> Iterator[Place]:
    """Publish a view up to some places, and tell what its refreshes take there."""
    database = directory / "x.duckdb"
    rows = max(5 * groups, 2 * units)
    fill(database, rows, groups, units)
    with dpsql.connect(database, policy(), str(directory / "l.db"), "ana") as connection:
        connection.sql(
            f"CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2020-01-01', steps = "
            f"{steps}, continual = '{factoring}') AS "
            "SELECT item, COUNT(DISTINCT user_id) AS users FROM plays GROUP BY item"
        )
        done = 0
        for place in PLACES[groups]:
            before = place - ALONE - done
            together = refresh(connection, place - ALONE) / before if before > 1 else None
            taken, worked = refreshes(connection, range(place - ALONE + 1, place + 1))
            done, plain = place, plain_seconds(database, place)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield Place(groups, steps, rows, factoring, place, taken, worked, plain, together, peak)


def fill(database: Path, rows: int, groups: int, units: int) -> None:
    """Make a table whose units and items come back."""
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            f"CREATE TABLE plays AS SELECT (range * 7919) % {units} AS user_id, "
            f"'item ' || (range * 104729) % {groups} AS item, DATE '2020-01-01' + "
            f"(range % {FILLED[groups]})::INTEGER AS played_at FROM range({rows})"
        )


def policy() -> Policy:
    """The table's policy: ten items of a user, and ten rows of each."""
    table = TablePolicy("plays", PrivacyUnit("user", "user_id"), time=TimeColumn("played_at"))
    return Policy(
        "bench",
        Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=10, max_rows_contributed=10),
        accounts={"ana": AccountPolicy("ana", 100.0, 1e-2)},
        tables={"plays": table},
    )


def refresh(connection: dpsql.Connection, step: int) -> float:
    """Refresh up to a step, and tell in how many seconds."""
    began = time.perf_counter()
    connection.sql(f"REFRESH MATERIALIZED VIEW v UNTIL TIMESTAMP '{day(step)}'")
    return time.perf_counter() - began


def refreshes(connection: dpsql.Connection, steps: range) -> tuple[float, float]:
    """Refresh step by step, and tell the least seconds, of the clock and of the processor."""
    taken, worked = [], []
    for step in steps:
        before = time.process_time()
        taken.append(refresh(connection, step))
        worked.append(time.process_time() - before)
    return min(taken), min(worked)


def day(steps: int) -> str:
    """The end of so many steps."""
    found = duckdb.execute("SELECT (DATE '2020-01-01' + ?::INTEGER)::VARCHAR", [steps]).fetchone()
    assert found is not None
    return str(found[0])


def plain_seconds(database: Path, step: int) -> float:
    """The running aggregate itself, in a process state as warm as can be: the best of three."""
    best = float("inf")
    with duckdb.connect(str(database), read_only=True) as connection:
        for _ in range(3):
            began = time.perf_counter()
            connection.execute(PLAIN, [day(step)]).fetchnumpy()
            best = min(best, time.perf_counter() - began)
    return best


if __name__ == "__main__":
    main()

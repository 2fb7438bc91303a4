"""What a refresh costs: the engine's own work, the private state, the noise, the ledger.

    python benchmarks/continual.py [--groups 10000] [--steps 365] [--units 100000]

Builds a table in a temporary directory, creates a view of many steps, publishes all but the last
few in one go and the rest one by one, and prints the time of one refresh beside that of the running
aggregate in plain DuckDB (COUNT(DISTINCT unit) per group of all rows so far).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import duckdb

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy, TimeColumn
from dpsql.policy.parameters import Parameters

PLAIN = "SELECT item, count(DISTINCT user_id) FROM plays WHERE played_at < ? GROUP BY item"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=365)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--published", type=int, default=3, help="steps that are timed at the end")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory), given.groups, given.steps, given.units, given.published)


def measure(place: Path, groups: int, steps: int, units: int, published: int) -> None:
    """Print what the last refreshes of a view take, in seconds."""
    database = place / "x.duckdb"
    rows = max(5 * groups, 2 * units)
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            f"CREATE TABLE plays AS SELECT (range * 7919) % {units} AS user_id, "
            f"(range * 104729) % {groups} AS item, DATE '2020-01-01' + "
            f"(range % {steps})::INTEGER AS played_at FROM range({rows})"
        )
    table = TablePolicy("plays", PrivacyUnit("user", "user_id"), time=TimeColumn("played_at"))
    policy = Policy(
        "bench",
        Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=10),
        accounts={"ana": AccountPolicy("ana", 100.0, 1e-2)},
        tables={"plays": table},
    )
    with dpsql.connect(database, policy, str(place / "l.db"), "ana") as connection:
        connection.sql(
            f"CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2020-01-01', "
            f"steps = {steps}) AS SELECT item, COUNT(DISTINCT user_id) AS users FROM plays "
            "GROUP BY item"
        )
        began = time.perf_counter()
        first = steps - published
        if first:
            until = f"REFRESH MATERIALIZED VIEW v UNTIL TIMESTAMP '{day(first)}'"
            connection.sql(until)
            print(f"steps 1 to {first}: {(time.perf_counter() - began) / first:.3f} s a step")
        for step in range(first + 1, steps + 1):
            began = time.perf_counter()
            connection.sql(f"REFRESH MATERIALIZED VIEW v UNTIL TIMESTAMP '{day(step)}'")
            taken = time.perf_counter() - began
            plain = plain_seconds(database, step)
            print(f"step {step}: {taken:.3f} s, plain {plain:.3f} s, ratio {taken / plain:.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{groups:,} groups, {steps} steps, {rows:,} rows: peak {peak:,.0f} MB")


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

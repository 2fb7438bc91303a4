"""An analyst in a process of its own, killed at a moment of the test's choosing.

Answers a line of JSON, a task, with a line of JSON: how the process ended and what it had shown.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import dpsql
from dpsql.engines.base.scratch import Reader
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.ledger import Ledger
from dpsql.pipeline.prepare import Prepared
from dpsql.pipeline.tail.runner import TailRunner
from dpsql.results.result import Cost, Result
from dpsql.service.answering import Answerer
from helpers.ledger_worker import Failpoints, backend_of, between_statements

STEPS: tuple[tuple[type[Any], str, str], ...] = (
    (Ledger, "stored", "lookup"),
    (Ledger, "reserve", "reserve"),
    (Reader, "exact", "engine"),
    (DuckDBScratch, "store", "stage"),
    (DuckDBScratch, "exact", "stage read"),
    (DuckDBScratch, "keys", "keys"),
    (Ledger, "settle_together", "settle"),
    (TailRunner, "run", "tail"),
    (Result, "fetchall", "fetch"),
)
"""What a query goes through, in about this order: a class, its method, and the failpoints' name."""


def between_steps(points: Failpoints, steps: Sequence[tuple[type[Any], str, str]] = STEPS) -> None:
    """Reach a failpoint before and after every step of a query."""
    for owner, name, label in steps:
        setattr(owner, name, _watched(getattr(owner, name), label, points))


def _watched(real: Any, label: str, points: Failpoints) -> Any:
    def watched(*arguments: Any, **named: Any) -> Any:
        points.reach(f"before {label}")
        found = real(*arguments, **named)
        points.reach(f"after {label}")
        return found

    return watched


def never_settles(
    answerer: Answerer, prepared: Prepared, charge: object, release: object, before: object
) -> tuple[Cost, bool]:
    """A broken session: it shows what the ledger does not know."""
    return Cost(prepared.plan.reserved, prepared.plan.reserved, 1e-9), True


def ask(
    out: int,
    database: str,
    policies: str,
    ledger: str,
    left: int,
    queries: list[str],
    broken: bool,
) -> None:
    """Ask and show every answer row by row, and what it cost, until the failpoint is reached."""
    points = Failpoints(left, out)
    if broken:
        Answerer._settle = never_settles  # type: ignore[assignment]
    with dpsql.connect(database, policies, ledger, "ana") as connection:
        between_steps(points)
        between_statements(backend_of(ledger), points)
        for query in queries:
            result = connection.sql(query)
            for row in result.fetchall():
                os.write(out, f"row {json.dumps([query, row])}\n".encode())
                points.reach("during fetch")
            cost = result.cost.settled
            os.write(out, f"cost {json.dumps([query, cost.rho, cost.delta])}\n".encode())


def main() -> None:
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(read)
                ask(write, *json.loads(line))
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read) as said:
            lines = said.read().splitlines()
        print(json.dumps([os.waitpid(child, 0)[1], lines]), flush=True)


if __name__ == "__main__":
    main()

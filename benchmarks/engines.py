"""What bounding costs on a server: its CPU seconds for a question, beside the plain query's there.

``python benchmarks/engines.py`` starts a PostgreSQL server of its own, fills a table and writes
``benchmarks/results/engines.json``; docs/engines/postgresql.md shows it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import psycopg

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from postgres import Server, running  # noqa: E402

import dpsql  # noqa: E402
from dpsql.policy.model import (  # noqa: E402
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import Parameters  # noqa: E402

ROWS, UNITS, ITEMS = 1_000_000, 100_000, 80_000
RESULT = HERE / "results" / "engines.json"
QUESTIONS = {
    "units of each item": "SELECT item, COUNT(DISTINCT uid) FROM plays GROUP BY item",
    "rows of each item": "SELECT item, COUNT(*) FROM plays GROUP BY item",
    "the 10 items with most units": "SELECT item, COUNT(DISTINCT uid) AS n FROM plays "
    "GROUP BY item ORDER BY n DESC LIMIT 10",
    "sum and average of 20 categories": "SELECT kind, SUM(x), AVG(x) FROM plays GROUP BY kind",
}
FILL = f"""
INSERT INTO plays SELECT floor(power(random(), 2) * {UNITS}), floor(power(random(), 3) * {ITEMS}),
  (random() * 19)::INT, random() * 100 FROM generate_series(1, {ROWS})
"""


def main() -> None:
    """Measure and write."""
    with running() as server, tempfile.TemporaryDirectory() as place:
        fill(server)
        url = server.url("bench", "reader", "reading")
        with dpsql.connect(url, policy(), Path(place) / "budget.db", "ana") as connection:
            found = {name: measured(server, connection, sql) for name, sql in QUESTIONS.items()}
    RESULT.write_text(json.dumps({"rows": ROWS, "questions": found}, indent=1) + "\n")
    for name, (plain, bounded) in found.items():
        print(f"{name:34} {plain:6.2f} {bounded:6.2f} {bounded / plain:6.1f}")


def fill(server: Server) -> None:
    """Make the database and its reader."""
    server.run("CREATE DATABASE bench TEMPLATE template0 ENCODING 'UTF8'")
    server.run("CREATE ROLE reader LOGIN PASSWORD 'reading'")
    server.run("CREATE TABLE plays (uid BIGINT, item INTEGER, kind INTEGER, x FLOAT8)", "bench")
    server.run(FILL, "bench")
    server.run("GRANT SELECT ON plays TO reader", "bench")
    server.run("VACUUM ANALYZE plays", "bench")


def policy() -> Policy:
    """A policy of one table and a large account."""
    columns = {"x": ColumnPolicy(0, 100)}
    return Policy(
        "bench",
        defaults=Parameters(epsilon=1.0, delta=1e-7, max_groups_contributed=10),
        accounts={"ana": AccountPolicy("ana", 1000.0, 1e-3)},
        tables={"plays": TablePolicy("plays", PrivacyUnit("person", "uid"), columns)},
    )


def measured(server: Server, connection: dpsql.Connection, sql: str) -> tuple[float, float]:
    """CPU seconds of the server for the plain query, and for the question: the least of three."""
    found = []
    for run in (lambda: plain(server, sql), lambda: connection.sql(sql, fresh=True)):
        times = []
        for _ in range(3):
            before = cpu(server)
            run()
            times.append(cpu(server) - before)
        found.append(min(times))
    return found[0], found[1]


def plain(server: Server, sql: str) -> None:
    """Run the query as it is, and fetch its rows."""
    with psycopg.connect(server.url("bench")) as session:
        session.execute("SET jit = off")
        session.execute(sql.encode()).fetchall()


def cpu(server: Server) -> float:
    """CPU seconds of the server and all of its processes, those that have ended too."""
    main = server.process.pid
    ticks = sum(_ticks(main))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == main:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> list[int]:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


if __name__ == "__main__":
    main()

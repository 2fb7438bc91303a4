"""TPC-H with customers as privacy units: speed against plain DuckDB, and how good the answers are.

Run with ``make tpch`` or ``python benchmarks/tpch.py [--scales 0.1 1] [--runs N]``. Generates the
data, asks every query that is answered, writes benchmarks/results/tpch.json and the tables of
docs/tpch.md. A statement is timed as a connection meets it for the first time, so parsing, planning
and the budget's bookkeeping are part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import dpsql

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "tpch.json"
PAGE = ROOT / "docs" / "tpch.md"
sys.path.insert(0, str(ROOT / "tests" / "tpch"))

from tpch_queries import QUERIES, RUNNING, TpchQuery, text  # noqa: E402
from tpch_world import ANALYST, POLICY, database, exact, plain  # noqa: E402

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Measured:
    """One query: seconds, groups that came out, relative error of what came out.

    ``error`` is the median over all values and runs; None if no group came out.
    """

    name: str
    plain: float
    dpsql: float
    plain_median: float
    dpsql_median: float
    groups: int
    released: float
    error: float | None


def seconds(action: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    found = action()
    return time.perf_counter() - start, found


@contextmanager
def connection(path: Path) -> Iterator[dpsql.Connection]:
    """A connection that has answered something, with a budget of its own."""
    with (
        tempfile.TemporaryDirectory() as directory,
        dpsql.connect(path, POLICY, Path(directory) / "budget.db", ANALYST) as con,
    ):
        con.sql("SELECT c_mktsegment, count(*) FROM customer GROUP BY 1 HAVING count(*) > 0")
        yield con


def errors(query: TpchQuery, rows: Iterable[Row], right: dict[Row, Row]) -> Iterator[float]:
    """How far the released values are from the exact ones, relative to these."""
    for row in rows:
        expected = right.get(row[: query.keys], ())
        for value, truth in zip(row[query.keys :], expected[query.keys :], strict=False):
            if value is not None and truth:
                yield abs(float(value) - float(truth)) / abs(float(truth))


def _rows(con: dpsql.Connection, query: TpchQuery, values: dict[str, object]) -> list[Row]:
    chosen: Any = query.parameters
    return con.sql(query.asked, values, **chosen).fetchall()


def measure(query: TpchQuery, path: Path, duck: duckdb.DuckDBPyConnection, runs: int) -> Measured:
    """Alternate plain DuckDB and dpsql, so that whatever else the machine does meets both."""
    exact(duck, query.reference)
    theirs, ours, released = [], [], []
    wrong: list[float] = []
    right: dict[Row, Row] = {}
    for _ in range(runs):
        taken, rows = seconds(lambda: exact(duck, query.reference))
        theirs.append(taken)
        right = {row[: query.keys]: row for row in rows}  # type: ignore[attr-defined]
        with connection(path) as con:
            values: dict[str, object] = {}
            if query.first:
                ((values["average"],),) = con.sql(
                    text("edited", query.first), max_rows_contributed=1
                ).fetchall()
            taken, answer = seconds(partial(_rows, con, query, values))
        ours.append(taken)
        released.append(sum(row[: query.keys] in right for row in answer))  # type: ignore[attr-defined]
        wrong += errors(query, answer, right)  # type: ignore[arg-type]
    return Measured(
        name=query.name,
        plain=min(theirs),
        dpsql=min(ours),
        plain_median=statistics.median(theirs),
        dpsql_median=statistics.median(ours),
        groups=len(right),
        released=statistics.median(released),
        error=statistics.median(wrong) if wrong else None,
    )


def measure_all(scale: str, runs: int) -> dict[str, object]:
    """All queries that are answered, at one scale factor."""
    path = database(scale)
    found = []
    with plain(path) as duck:
        ((customers,),) = exact(duck, "SELECT count(*) FROM customer")
        ((lines,),) = exact(duck, "SELECT count(*) FROM lineitem")
        for query in RUNNING:
            found.append(asdict(measure(query, path, duck, runs)))
            print(scale, found[-1])
    return {
        "customers": customers,
        "lineitems": lines,
        "runs": runs,
        "cores": os.cpu_count(),
        "epsilon": POLICY.defaults.epsilon,
        "delta": POLICY.defaults.delta,
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
        "queries": found,
    }


# -- the page -------------------------------------------------------------------------------------


def outcomes() -> str:
    """What becomes of each query."""
    lines = ["| | Query | Outcome | Edits, or why it is refused |", "|--:|---|---|---|"]
    for query in QUERIES:
        if query.refusal is not None:
            outcome, why = f"refused: `{query.refusal.code}`", query.refusal.because
            why = why[0].upper() + why[1:]
        elif query.public:
            outcome, why = "runs, free", "Reads public tables only: there is nothing to protect"
        else:
            outcome, why = "runs, edited" if query.edits else "runs", ". ".join(query.edits)
        lines.append(f"| {query.number} | {query.title} | {outcome} | {why} |")
    return "\n".join(lines)


def measurements(report: dict[str, dict[str, object]], scale: str) -> str:
    """Speed and accuracy of each query that runs."""
    head = "| | Bounds | DuckDB | dpsql | Difference | Groups | Released | Error |"
    lines = [head, "|--:|--:|--:|--:|--:|--:|--:|--:|"]
    bounds = {query.name: f"{query.groups} × {query.rows}" for query in RUNNING}
    for found in report[scale]["queries"]:  # type: ignore[attr-defined]
        name, theirs, ours = found["name"], 1000 * found["plain"], 1000 * found["dpsql"]
        lines.append(
            f"| {int(name[1:])} | {bounds[name]} | {theirs:.0f} ms | {ours:.0f} ms "
            f"| {ours - theirs:.0f} ms | {found['groups']} | {found['released']:g} "
            f"| {share(found['error'])} |"
        )
    return "\n".join(lines)


def share(error: float | None) -> str:
    """A relative error in percent."""
    if error is None:
        return "–"
    return f"{100 * error:.2g}%" if error < 1 else "over 100%"


def page(current: str, report: dict[str, dict[str, object]]) -> str:
    """The page with its tables, each between ``<!-- table: name -->`` and ``<!-- end -->``."""
    tables = {"outcomes": outcomes()}
    tables |= {f"scale {scale}": measurements(report, scale) for scale in report}

    def filled(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- table: {name} -->\n\n{tables[name]}\n\n<!-- end -->"

    return re.sub(r"<!-- table: ([^>]+?) -->.*?<!-- end -->", filled, current, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", nargs="*", default=["0.1", "1"])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    report = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    report |= {scale: measure_all(scale, options.runs) for scale in options.scales}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()

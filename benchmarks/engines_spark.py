"""What bounding costs in Spark: dpsql's statements against the plain ones, on 1M rows.

``python benchmarks/engines_spark.py`` prints CPU seconds of Python and the JVM, the best of three
rounds after one to warm up, and writes benchmarks/results/engines_spark.json. Needs
the extra ``spark`` and Java.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / name) for name in (".", "sql", "engines"))]

from engine_world import prepared  # noqa: E402
from spark_sessions import started  # noqa: E402
from support import planned  # noqa: E402

import dpsql  # noqa: E402
from dpsql.pipeline.read import read_exact  # noqa: E402
from dpsql.policy.model import (  # noqa: E402
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import Parameters  # noqa: E402

ROWS = int(os.environ.get("DPSQL_BENCH_ROWS", "1000000"))
ROUNDS = 3
QUESTIONS = {
    "units": ("SELECT item, count(DISTINCT u) AS n FROM r GROUP BY item", "sample"),
    "rows": ("SELECT item, count(*) AS n FROM r GROUP BY item", "sample"),
    "rows, weighted": ("SELECT item, count(*) AS n FROM r GROUP BY item", "weight"),
    "top k": (
        "SELECT item, count(DISTINCT u) AS n FROM r GROUP BY item ORDER BY n DESC LIMIT 9",
        "",
    ),
    "sums": ("SELECT cat, sum(v) AS s, avg(v) AS m FROM r GROUP BY cat", "sample"),
}


def data(rows: int) -> pa.Table:
    """Rows of units with zipf-distributed items, a category and a value."""
    drawn = np.random.default_rng(1)
    return pa.table(
        {
            "u": drawn.integers(0, rows // 10, rows),
            "item": np.minimum(drawn.zipf(1.3, rows), 10**6),
            "cat": drawn.integers(0, 20, rows).astype("int32"),
            "v": drawn.normal(50, 20, rows),
        }
    )


def cpu(session: Any, run: Callable[[], object]) -> float:
    """CPU seconds of this process and of Spark's."""
    pid, ticks = session.sparkContext._gateway.proc.pid, os.sysconf("SC_CLK_TCK")

    def spent() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / ticks + time.process_time()

    before = spent()
    run()
    return spent() - before


def main() -> None:
    """Measure all questions."""
    session = started(**{"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "3g"})
    session.createDataFrame(data(ROWS)).write.mode("overwrite").saveAsTable("r")
    engine = dpsql.SparkEngine(session)
    engine.lock()
    rules = Policy(
        "bench",
        defaults=Parameters(epsilon=1.0, delta=1e-8),
        accounts={"ana": AccountPolicy("ana", 1000.0, 1e-3)},
        tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), {"v": ColumnPolicy(0, 100)})},
    )
    found = {}
    for name, (sql, bounding) in QUESTIONS.items():
        parameters: dict[str, Any] = {"max_groups_contributed": 10, "max_rows_contributed": 5}
        if bounding in ("sample", "weight"):
            parameters["contribution_bounding"] = bounding
        else:
            parameters["max_groups_contributed"] = None
        plan = planned(sql, engine.schema(), rules, **parameters).plans[0]
        block = prepared(plan, engine.schema())

        def bounded(block: Any = block) -> None:
            with engine.run() as run, read_exact(run, block, lambda _: None):
                pass

        def plain(sql: str = sql) -> None:
            session.sql(sql).toArrow()

        costs = []
        for run in (plain, bounded):
            run()
            costs.append(min(cpu(session, run) for _ in range(ROUNDS)))
        found[name] = {"plain": costs[0], "dpsql": costs[1], "ratio": costs[1] / costs[0]}
        print(f"{name:16} {costs[0]:6.2f} s -> {costs[1]:6.2f} s   {costs[1] / costs[0]:5.1f}")
    place = ROOT / "benchmarks" / "results" / "engines_spark.json"
    place.write_text(json.dumps({"spark": {"rows": ROWS, **found}}, indent=1) + "\n", "utf-8")
    session.stop()


if __name__ == "__main__":
    main()

"""Asks a cluster what one process is asked: exact rows of both must be equal.

``python ask.py local-cluster[2,1,1024]`` starts two executors of its own on this machine; in the
compose file beside it the master is ``spark://master:7077``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / name) for name in (".", "sql", "engines"))]

from engine_suite import one_table  # noqa: E402
from engine_world import prepared, read_all, schema_for  # noqa: E402
from helpers.support import planned  # noqa: E402
from spark_sessions import missing, started  # noqa: E402
from spark_world import SparkWorld  # noqa: E402
from test_sensitivity import RULES, SCHEMA  # noqa: E402
from worlds import DuckDBWorld  # noqa: E402

from dpsql.kinds.union import UnionKind  # noqa: E402

QUESTIONS = (
    "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
    "SELECT s, count(*), sum(x), avg(i) FROM r GROUP BY s",
    "SELECT a, median(x) FROM r GROUP BY a",
    "SELECT DISTINCT s FROM r",
)


def main(master: str) -> int:
    reason = missing()
    if reason is not None:
        sys.exit(reason)
    import pyspark

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    session = started(master, **{"spark.executor.memory": "1g"})
    worlds = (DuckDBWorld(), SparkWorld(session))
    rows = [
        (unit, unit % 7, 0.0, f"s{unit % 5}", "p", unit % 11, unit, float(unit % 13))
        for unit in range(2000)
    ]
    tables = one_table(rows)
    for question in QUESTIONS:
        found = planned(question, SCHEMA, RULES, max_groups_contributed=50, max_rows_contributed=50)
        block = prepared(found.plans[0], schema_for(tables))
        one, other = (read_all(world.engine(tables), block) for world in worlds)
        assert one.groups == other.groups, question
        if not UnionKind.fits(block.plan):
            assert one.others == other.others, question
        print(f"equal: {len(one.groups)} groups of {question}")
    executors = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(f"{executors} executors beside the driver")
    session.sparkContext.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "local-cluster[2,1,1024]"))

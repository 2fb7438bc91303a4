"""Writes the table of what Spark computes as DuckDB does: needs Spark, and some minutes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from spark_sessions import started  # noqa: E402
from spark_survey import verdicts  # noqa: E402

if __name__ == "__main__":
    session = started()
    table = {"engine": "spark", "version": session.version, "calls": verdicts(session)}
    text = json.dumps(table, indent=0, ensure_ascii=False)
    place = ROOT / "dpsql" / "engines" / "surveys" / "spark-4.json"
    place.write_text(text + "\n", encoding="utf-8")
    session.stop()

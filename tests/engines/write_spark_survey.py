"""Writes the table of what Spark computes as DuckDB does: needs Spark, and some minutes."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from spark_sessions import started  # noqa: E402
from spark_survey import verdicts  # noqa: E402

from dpsql.engines.verdicts import EngineVersion, Verdicts  # noqa: E402

if __name__ == "__main__":
    session = started()
    found = Verdicts(EngineVersion.of("spark", session.version), verdicts(session))
    place = ROOT / "dpsql" / "engines" / "surveys" / found.made_with.file_name
    place.write_text(found.text(), encoding="utf-8")
    session.stop()

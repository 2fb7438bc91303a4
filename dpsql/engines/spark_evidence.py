"""What Spark computes as DuckDB does: the table of a survey on edge values, call by call.

The table is made by ``tests/engines/write_spark_survey.py`` and compared with a real session by the
tests. A call that is not in it is refused before anything is paid for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

SPARK_SURVEY: Final = "spark-4.json"
"""The file of the table, among the surveys."""
DIFFERS: Final = "differs"
"""How the verdict begins on calls that compute something else."""


@dataclass(frozen=True, slots=True)
class SparkEvidence:
    """The verdicts on calls: ``same``, ``same but …``, ``differs: …``, by call."""

    version: str
    verdicts: Mapping[str, str]


@cache
def spark_evidence() -> SparkEvidence:
    """Load the table."""
    text = (files("dpsql.engines") / "surveys" / SPARK_SURVEY).read_text(encoding="utf-8")
    table = json.loads(text)
    return SparkEvidence(table["version"], table["calls"])

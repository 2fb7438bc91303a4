"""Which calls of row expressions an engine answers as DuckDB does: tables made by comparing them.

``dpsql/engines/survey_postgresql.py`` writes such a table from the values of both engines on rows
of edge values. What is not in the table, or differs, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

SAME: Final = "same"
"""The verdict on what is written alike, and means the same on all rows that were tried."""
REWRITTEN: Final = "rewritten"
"""The verdict on what is written otherwise, and then means the same on all rows."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on calls, such as ``+(INTEGER, INTEGER)``, and reasons where they are refused."""

    calls: Mapping[str, str]

    def objection(self, call: str) -> str | None:
        """Say why a call is refused; None if it is answered as DuckDB does."""
        verdict = self.calls.get(call)
        if verdict in (SAME, REWRITTEN):
            return None
        return verdict or "it was never compared with what DuckDB computes"


@cache
def verdicts_on(name: str) -> Verdicts:
    """Load the table of an engine's dialect."""
    found = files("dpsql.sql.dialects").joinpath("surveys", f"{name}.json")
    return Verdicts(json.loads(found.read_text(encoding="utf-8"))["calls"])

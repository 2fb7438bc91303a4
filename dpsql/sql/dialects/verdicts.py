"""Which calls of row expressions an engine answers as DuckDB does: tables made by comparing them.

``tests/sql/survey_postgresql.py`` writes such a table from the values of both engines on rows of
edge values. What is not in the table, or differs, is refused.

Decimals are no single type: what holds 4 digits may fail with 38. A verdict is on one of four kinds
of them, by the digits that DuckDB stores in 16, 32, 64 and 128 bits, and is found at the ends of
their widths and scales.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

SAME: Final = "same"
"""The verdict on what is written alike, and means the same on all rows that were tried."""
REWRITTEN: Final = "rewritten"
"""The verdict on what is written otherwise, and then means the same on all rows."""


_STORED: Final = (4, 9, 18, 38)  # decimal digits of 16, 32, 64 and 128 bits
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*\d+\)")


def verdict_type(type_: str) -> str:
    """Name a type as verdicts do: decimals by the most digits that are stored as theirs are.

    >>> verdict_type("DECIMAL(12,2)"), verdict_type("BIGINT")
    ('DECIMAL(18)', 'BIGINT')
    """
    found = _DECIMAL.fullmatch(type_)
    if found is None:
        return type_
    return f"DECIMAL({next(most for most in _STORED if int(found[1]) <= most)})"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on calls, such as ``+(INTEGER, INTEGER)``, and reasons where they are refused."""

    calls: Mapping[str, str]

    def objection(self, call: str) -> str | None:
        """Say why a call is refused; None if it is answered as DuckDB does."""
        verdict = self.calls.get(call)
        if verdict is None:
            return "it was never compared with what DuckDB computes"
        if verdict.startswith((SAME, REWRITTEN)):  # "same but for …" is documented
            return None
        return "it computes something else there" if verdict.startswith("differs") else verdict


@cache
def verdicts_on(name: str) -> Verdicts:
    """Load the table of an engine's dialect."""
    found = files("dpsql.sql.dialects").joinpath("surveys", f"{name}.json")
    return Verdicts(json.loads(found.read_text(encoding="utf-8"))["calls"])

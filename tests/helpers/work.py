"""Limits of CPU time that mean the same on every processor.

A processor that is slower, or that others use as well, counts more seconds for the same work. So
does a fixed piece of the same kind of work, by which limits grow.
"""

from __future__ import annotations

import time

import sqlglot

_TEXT = f"SELECT count(*) FROM visits WHERE k IN ({', '.join(map(str, range(5000)))})"
_SECONDS = 0.1
"""What parsing, copying and writing the text takes where nothing else runs."""


def within(seconds: float, limit: float) -> bool:
    """Tell whether CPU ``seconds`` that were counted just now are within ``limit``."""
    return seconds < limit or seconds < limit * _slowness()


def _slowness() -> float:
    """Measure how many times as long the fixed work takes now, at least once."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        sqlglot.parse_one(_TEXT, read="duckdb").copy().sql("duckdb")
        taken.append(time.process_time() - began)
    return max(1.0, min(taken) / _SECONDS)

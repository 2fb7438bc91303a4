"""Two worlds: a program runs on two databases that differ in one unit, and all but noise is equal.

``python tests/two_worlds --programs 300`` runs it at length.
"""

from __future__ import annotations

import sys
from pathlib import Path

# What the other tests share (attack, audit, support …) is imported by plain names.
_TESTS = Path(__file__).resolve().parents[1]
for _place in (str(_TESTS / "sql"), str(_TESTS)):
    if _place not in sys.path:
        sys.path.insert(0, _place)

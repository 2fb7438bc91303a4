"""A standing attacker: statements nobody meant to write, on databases that differ in one unit.

``python tests/attack --statements 100000 --seed 1 --report attack.json`` runs it at length.
"""

from __future__ import annotations

import sys
from pathlib import Path

# What the other tests share is in the package helpers.
_TESTS = Path(__file__).resolve().parents[1]
for _place in (str(_TESTS / "sql"), str(_TESTS)):
    if _place not in sys.path:
        sys.path.insert(0, _place)

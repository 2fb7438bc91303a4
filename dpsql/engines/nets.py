"""How often each net has been used in this process: one that counts nothing was off.

A net that cannot be set up refuses. That none was off all the same, tests read here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

TRIED: Final[Counter[str]] = Counter()
"""Times by the name of the net: ``trial``, ``trial on the server``, ``rehearsal``, and others."""

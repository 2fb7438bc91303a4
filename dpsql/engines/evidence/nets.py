"""How often each net has been used in this process: one that counts nothing was off.

A net that cannot be set up refuses. That none was off all the same, tests read here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from dpsql.errors import InterfaceError

TRIED: Final[Counter[str]] = Counter()
"""Times by the name of the net: ``trial``, ``trial on the server``, ``definitions``, and others."""


def definitions_changed() -> InterfaceError:
    """Build the refusal of tables that are no longer what was proved: one text for everybody."""
    return InterfaceError(
        "a table is not made of what it was when the database was opened",
        code="definitions_changed",
        hint="Nothing was spent. Open the database again: what must hold of tables is looked at "
        "then.",
    )

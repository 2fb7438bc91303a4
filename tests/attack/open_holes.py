"""Findings that are known and not closed yet: patterns of ``world net: detail``."""

from __future__ import annotations

import re
from typing import Final

OPEN: Final[tuple[str, ...]] = ()
_OPEN = re.compile("|".join(f"(?:{pattern})" for pattern in OPEN)) if OPEN else None


def is_open(signature: str) -> bool:
    """True for a finding that is known."""
    return _OPEN is not None and _OPEN.match(signature) is not None

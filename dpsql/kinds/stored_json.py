"""Reads the JSON of stored releases: whoever can write to the ledger can put anything there."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np

from dpsql.errors import LedgerError

_MOST: Final = 2.0**1000  # beyond any value, and its intervals are numbers still


def require_sound(sound: bool) -> None:
    """Raise ``LedgerError`` (``ledger_corrupt``) unless a part of a release is ``sound``."""
    if not sound:
        raise corrupt_release()


def corrupt_release() -> LedgerError:
    """Build the error for a stored release that is damaged; nothing of it is quoted."""
    return LedgerError(
        "a stored release in the ledger is damaged",
        code="ledger_corrupt",
        hint="Run `dpsql budget verify`, and restore the ledger from a backup. Asked afresh, the "
        "question is paid for again.",
    )


def json_object(payload: object) -> dict[str, Any]:
    """Read an object. Raises ``LedgerError`` (``ledger_corrupt``) for what is none."""
    try:
        require_sound(isinstance(payload, str | bytes))
        document = json.loads(payload, parse_constant=_no_constant)  # type: ignore[arg-type]
    except (ValueError, RecursionError, MemoryError):
        raise corrupt_release() from None
    require_sound(isinstance(document, dict))
    found: dict[str, Any] = document
    return found


def _no_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python's reader of JSON knows."""
    raise ValueError


def json_list(value: object) -> list[Any]:
    """Return a list. Raises ``LedgerError`` (``ledger_corrupt``) for what is none."""
    require_sound(isinstance(value, list))
    found: list[Any] = value  # type: ignore[assignment]
    return found


def fits_type(value: object, type_: np.dtype[Any]) -> bool:
    """Tell whether a value is one that a column of the type had."""
    match type_.kind:
        case "b":
            return type(value) is bool
        case "f":
            return type(value) in (int, float) and abs(value) <= _MOST  # type: ignore[arg-type]
        case "O":
            return value is not None and stored_text(value)
    limits = np.iinfo(type_)
    return type(value) is int and limits.min <= value <= limits.max


def stored_text(value: object) -> bool:
    """Tell whether a value is NULL, or a text that an engine can hold."""
    if value is None:
        return True
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)

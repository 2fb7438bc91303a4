"""Settings and transactions of drivers, and the values that cannot be changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpsql.core.schema import fold

TRANSACTION: Final = "transaction"
NO_TRANSACTION: Final = "none: each question stands for itself, and what is paid for stays paid for"
CLIENT_SETTINGS: Final[Mapping[str, str | None]] = {
    "application_name": None,
    "client_encoding": "UTF8",
    "client_min_messages": None,
    "datestyle": "ISO",
    "extra_float_digits": None,
    "search_path": "main",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
}
"""The value of each, which cannot be changed; None for those that change nothing here."""
_ALSO: Final = {"utf-8": "utf8", "unicode": "utf8", "true": "on", "1": "on", "iso, mdy": "iso"}


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A statement of drivers that changes nothing: the setting's name and its value."""

    name: str
    value: str


def unchanged(name: str) -> Unchanged:
    """Return the setting as it is. The name is one of ``CLIENT_SETTINGS``, folded."""
    return Unchanged(name, CLIENT_SETTINGS[name] or "")


def holds(name: str, value: object) -> bool:
    """Tell whether a setting has this value already, or has no effect whatever it is."""
    kept, asked = CLIENT_SETTINGS[name], fold(str(value))
    return kept is None or _ALSO.get(asked, asked) == fold(kept)

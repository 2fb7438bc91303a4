r"""Settings of the shell, changed by ``\set``: the display of answers, and when it asks first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from dpsql.core.schema import fold
from dpsql.errors import InterfaceError
from dpsql.policy.parameters import PARAMETER_NAMES, suggestion


class Format(StrEnum):
    """How answers are written."""

    TABLE = "table"
    VERTICAL = "vertical"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    MARKDOWN = "markdown"


class Expanded(StrEnum):
    """When a table is turned into one line for each value."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Completing(StrEnum):
    """When suggestions are shown."""

    TAB = "tab"
    TYPING = "typing"


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """All settings. ``confirm`` is the share of what is left beyond which a query is asked about
    first, or None for never; ``max_rows`` None shows all rows."""

    complete: Completing = Completing.TAB
    confidence: float = 0.95
    confirm: float | None = 0.2
    expanded: Expanded = Expanded.AUTO
    format: Format = Format.TABLE
    intervals: bool = False
    max_rows: int | None = 1000
    pager: bool = True
    timing: bool = False

    def with_text(self, name: str, text: str) -> ShellSettings:
        """Return these settings with one of them read from text.

        Raises ``InterfaceError`` (``unknown_setting``, ``bad_setting``).
        """
        setting = _setting(name)
        value: Any = setting.read(text.strip().strip("'\""))
        if value is _BAD:
            raise InterfaceError(
                f"{setting.name} cannot be {text.strip()[:60]}",
                code="bad_setting",
                hint=f"Write \\set {setting.name} and one of: {', '.join(setting.values)}.",
            )
        return replace(self, **{setting.name: value})

    def without(self, name: str) -> ShellSettings:
        """Return these settings with one of them at its default."""
        setting = _setting(name)
        return replace(self, **{setting.name: getattr(ShellSettings(), setting.name)})

    def shown(self) -> list[tuple[str, str, str]]:
        """List each setting with its value as text, and its meaning."""
        return [
            (s.name, s.write(getattr(self, s.name)), s.meaning) for s in SHELL_SETTINGS.values()
        ]


_BAD: Final = object()
_SWITCH: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class ShellSetting:
    """One setting: ``values`` are those to suggest, ``read`` returns ``_BAD`` for any other."""

    name: str
    meaning: str
    values: tuple[str, ...]
    read: Callable[[str], object]
    write: Callable[[object], str]


def is_setting(name: str) -> bool:
    """Tell whether a name is one of the shell's own settings, not a privacy parameter."""
    return fold(name) in SHELL_SETTINGS


def unknown_setting(name: str) -> InterfaceError:
    """Build the error for a name that is neither a setting nor a privacy parameter."""
    known = (*PARAMETER_NAMES, *SHELL_SETTINGS)
    return InterfaceError(
        f"there is no setting {name[:60]}",
        code="unknown_setting",
        hint=suggestion(name, known) or f"One of: {', '.join(known)}.",
    )


def _setting(name: str) -> ShellSetting:
    if not is_setting(name):
        raise unknown_setting(name)
    return SHELL_SETTINGS[fold(name)]


def _number(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan


def _confidence(text: str) -> object:
    return number if 0 < (number := _number(text)) < 1 else _BAD


def _share(text: str) -> object:
    if fold(text) in _SWITCH:
        return ShellSettings().confirm if _SWITCH[fold(text)] else None
    return number if 0 <= (number := _number(text)) <= 1 else _BAD


def _rows(text: str) -> object:
    if fold(text) == "all":
        return None
    return int(text) if text.isdecimal() and 0 < len(text) < 10 and int(text) else _BAD


def _choice(kind: type[StrEnum]) -> Callable[[str], object]:
    values: Mapping[str, object] = {member.value: member for member in kind}
    return lambda text: values.get(fold(text), _BAD)


def _switch(name: str, meaning: str) -> ShellSetting:
    return ShellSetting(
        name,
        meaning,
        ("on", "off"),
        lambda text: _SWITCH.get(fold(text), _BAD),
        lambda value: "on" if value else "off",
    )


def percent_of(share: object) -> str:
    """Write a share as a setting: ``20%``, or ``off`` for none."""
    return f"{100 * share:.6g}%" if isinstance(share, float) else "off"


SHELL_SETTINGS: Final[Mapping[str, ShellSetting]] = {
    setting.name: setting
    for setting in (
        ShellSetting(
            "complete",
            "show suggestions at Tab, or while typing",
            tuple(Completing),
            _choice(Completing),
            str,
        ),
        ShellSetting(
            "confidence", "confidence of the intervals", ("0.95", "0.99"), _confidence, str
        ),
        ShellSetting(
            "confirm",
            "ask before a query that takes more than this share of what is left",
            ("20%", "50%", "0%", "on", "off"),
            _share,
            percent_of,
        ),
        ShellSetting(
            "expanded",
            "one line for each value: always, never, or where a table is too wide",
            tuple(Expanded),
            _choice(Expanded),
            str,
        ),
        ShellSetting("format", "how answers are written", tuple(Format), _choice(Format), str),
        _switch("intervals", "write the ends of intervals to CSV"),
        ShellSetting(
            "max_rows",
            "rows of an answer that are shown",
            ("1000", "all"),
            _rows,
            lambda value: "all" if value is None else str(value),
        ),
        _switch("pager", "show long answers page by page"),
        _switch("timing", "say how long each statement took"),
    )
}

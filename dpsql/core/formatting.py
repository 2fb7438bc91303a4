"""Numbers and cells as people read them: no more digits than are known, nothing unprintable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from dpsql.core.quoting import quote_text

MAX_DECIMALS = 6
MISSING = "NULL"
_UPWARD = Context(prec=10, rounding=ROUND_CEILING)

DEFAULT_CONFIDENCE = 0.95
"""Confidence of an interval where none is named."""


def significant(value: float, digits: int = 4) -> str:
    """Write a figure to a few significant digits, thousands separated, without trailing zeros.

    >>> significant(0.0043708), significant(127_881_728.4), significant(1.0)
    ('0.004371', '127,881,728', '1')
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def several(number: int, thing: str) -> str:
    """Count things, thousands separated.

    >>> several(1, "row"), several(1234, "group")
    ('1 row', '1,234 groups')
    """
    return f"{number:,} {thing}{'s' * (number != 1)}"


def figure_above(value: float) -> str:
    """Round a figure up to three digits at least, so that statements about it stay true.

    >>> figure_above(53.0), figure_above(0.12345), figure_above(1234.5)
    ('53', '0.124', '1,235')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{math.ceil(value * 10**decimals) / 10**decimals:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def figure_below(value: float) -> str:
    """Round a positive figure down to two digits.

    >>> figure_below(0.2199), figure_below(53.0), figure_below(1.0)
    ('0.21', '53', '1')
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return significant(math.floor(value / step * (1 + 1e-12)) * step, 2)


def upper_figure(value: float) -> float:
    """Round a figure of privacy or noise up to ten significant digits, for other programs.

    What a computation left behind these means nothing. All are rounded in one direction, so none
    is told smaller than it is and what is spent stays below its limit.

    >>> upper_figure(1.999999999991368), upper_figure(0.1), upper_figure(0.5000000000001)
    (2.0, 0.1, 0.5000000001)
    """
    return float(_UPWARD.create_decimal(repr(float(value)))) if math.isfinite(value) else value


def upper_figures(value: Any) -> Any:
    """Round all floats within dicts, lists and tuples as :func:`upper_figure` does."""
    if isinstance(value, float):
        return upper_figure(value)
    if isinstance(value, dict):
        return {key: upper_figures(inner) for key, inner in value.items()}
    return [upper_figures(inner) for inner in value] if isinstance(value, list | tuple) else value


def fixed(value: float, decimals: int) -> str:
    """Write a number with the given decimals, thousands separated, and no minus before zero.

    >>> fixed(1234.56, 1), fixed(-0.01, 0), fixed(float("nan"), 0)
    ('1,234.6', '0', 'nan')
    """
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not any(digit in "123456789" for digit in text) else text


def decimals_for(half_width: float) -> int:
    """Count the decimals that show an uncertainty to two significant digits: more would be noise.

    >>> decimals_for(54.0), decimals_for(8.1), decimals_for(0.03)
    (0, 1, 3)
    """
    if not (math.isfinite(half_width) and half_width > 0):
        return 0
    return min(MAX_DECIMALS, max(0, 1 - math.floor(math.log10(half_width))))


def percent(part: float, whole: float) -> str:
    """Write a share of a limit, in words that never round something to nothing.

    >>> percent(1, 8), percent(1e-6, 1), percent(0, 1)
    ('12.5%', '<0.1%', '0%')
    """
    if part <= 0 or whole <= 0:
        return "0%"
    share = 100 * part / whole
    return "<0.1%" if share < 0.1 else f"{share:.3g}%"


def all_numbers(values: Sequence[object]) -> bool:
    """Find out whether all values that there are are numbers."""
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        for value in present
    )


def level(confidence: float) -> str:
    """Write a confidence as people write it.

    >>> level(0.95), level(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * confidence:.6g}%"


def ordinal(number: int) -> str:
    """Write a place in an order.

    >>> ordinal(1), ordinal(12), ordinal(1002)
    ('1st', '12th', '1,002nd')
    """
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if 10 < number % 100 < 14 else last}"


def printable(text: str, width: int | None = None) -> str:
    """Make text of data or a catalog fit for a terminal: one line, control characters escaped.

    >>> printable("two\\nlines"), printable("a long title", 7)
    ('two\\\\nlines', 'a long…')
    """
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def printable_line(line: str) -> str:
    """Replace each unprintable character of a line by one space, so that columns stay aligned."""
    return "".join(c if c.isprintable() else " " for c in line)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def cell(value: object, width: int | None = 60) -> str:
    """Return a value without noise of its own: a key, or something the tail computed."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return printable(f"\\x{value.hex()}", width)
    if isinstance(value, Decimal):  # str() writes a zero of ten decimals as 0E-10
        return printable(f"{value:f}", width)
    return printable(no_marker(str(value)), width)


def no_marker(text: str) -> str:
    """Quote a text that would read as the marker of NULL, or as such a text in its quotes.

    >>> no_marker("NULL"), no_marker("null")
    ("'NULL'", 'null')
    """
    return quote_text(text) if text.strip("'") == MISSING else text


def _float(value: float) -> str:
    """Write six significant digits; thousands are separated where it cannot be a year."""
    if 1e4 <= abs(value) < 1e15:
        text = f"{value:,.{max(0, 5 - math.floor(math.log10(abs(value))))}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.6g}"


def common_decimals(lows: Iterable[float], highs: Iterable[float]) -> int:
    """Count the decimals that the narrowest interval of a noisy column deserves."""
    widths = [(high - low) / 2 for low, high in zip(lows, highs, strict=True)]
    return max((decimals_for(width) for width in widths), default=0)


def json_text(value: object, indent: int | None = None) -> str:
    """Write JSON; NaN and infinities as null, dates in ISO 8601, bytes in hexadecimal."""
    return json.dumps(_json_value(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _json_value(value: Any) -> Any:
    """Turn a value into one JSON can hold: NaN and infinities null, dates in ISO 8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, Decimal):
        # A number where a double holds it exactly as written, else its digits.
        return float(value) if Decimal(repr(float(value))) == value else f"{value:f}"
    return plain_cell(value)


def plain_cell(value: object) -> object:
    """Write a value as text: dates in ISO 8601, bytes in hex; numbers and None stay as they are."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if value is None or isinstance(value, int | float | str) else str(value)

"""Dates and timestamps written by their parts, as ibis and others do: constants like any other.

day >= make_date(2024, 1, 31)        is        day >= DATE '2024-01-31'
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

from sqlglot import exp

_DATE_PARTS: Final = ("year", "month", "day")
_TIME_PARTS: Final = ("hour", "min", "sec")


def write_moments(tree: exp.Expr) -> None:
    """Write the moments of a statement as constants; ``tree`` is changed.

    Columns that are such a moment keep it, as it is what they are called.
    """
    for node in list(tree.find_all(exp.DateFromParts, exp.TimestampFromParts)):
        moment = None if isinstance(node.parent, exp.Alias | exp.Select) else _moment(node)
        if moment is None:
            continue
        date = isinstance(node, exp.DateFromParts)
        text = moment.date().isoformat() if date else moment.isoformat(" ")
        constant = exp.cast(exp.Literal.string(text), "DATE" if date else "TIMESTAMP")
        constant.this.meta.update(_place(node))
        node.replace(constant)


def _moment(node: exp.Expr) -> datetime | None:
    """Read the parts of a moment; None unless they are numbers alone, of a moment that there is."""
    names = _DATE_PARTS + (() if isinstance(node, exp.DateFromParts) else _TIME_PARTS)
    parts = [node.args.get(name) for name in names]
    given = sum(value is not None for value in node.args.values())
    if given > len(parts) or not all(isinstance(p, exp.Literal) and p.is_number for p in parts):
        return None
    *whole, last = (Decimal(part.this) for part in parts if part is not None)
    seconds = last if len(parts) > len(_DATE_PARTS) else None
    numbers = whole if seconds is not None else [*whole, last]
    if any(number > 9999 or number != int(number) for number in numbers):
        return None
    return _existing([int(number) for number in numbers], seconds or Decimal(0))


def _existing(numbers: list[int], seconds: Decimal) -> datetime | None:
    microseconds = seconds * 1_000_000
    if not 0 <= seconds < 60 or microseconds != int(microseconds):
        return None
    second, rest = divmod(int(microseconds), 1_000_000)
    year, month, day, hour, minute = (*numbers, 0, 0)[:5]
    try:
        return datetime(year, month, day, hour, minute, second, rest)
    except ValueError:
        return None


def _place(node: exp.Expr) -> dict[str, int]:
    """Return the meta data of where a node's constants stand in the text."""
    spans = [part.meta for part in node.walk() if "start" in part.meta and "end" in part.meta]
    if not spans:
        return {}
    return {"start": min(s["start"] for s in spans), "end": max(s["end"] for s in spans)}

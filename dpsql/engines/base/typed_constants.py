"""Typed constants: declared values of a policy, and literals beside a column.

They are read as DuckDB casts them, whatever engine they are written for.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Final
from uuid import UUID

import numpy as np

from dpsql.core.sql_types import SqlType
from dpsql.engines.base.row_types import INTEGERS, MOST_DIGITS

_DATE: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})")
_TIME: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_TIMESTAMP: Final = re.compile(rf"(\d{{4}}-\d\d-\d\d)([ T]({_TIME.pattern})Z?)?")
_TRUTHS: Final = {"t": "true", "1": "true", "f": "false", "0": "false"}


def constant_text(value: object, type_: SqlType) -> str | None:
    """Write a constant as a value of a type, without quotes; None where it does not fit.

    Raises ``KeyError`` for a type without constants.
    """
    read = _READERS[type_.kind]
    try:
        return read(str(value), type_)
    except (ValueError, InvalidOperation):
        return None


def _integer(text: str, type_: SqlType) -> str | None:
    whole = int(_rounded(_exact(text), 0))
    low, high = type_.ends
    return str(whole) if low <= whole <= high else None


def _decimal(text: str, type_: SqlType) -> str | None:
    width, scale = type_.digits
    rounded = _rounded(_exact(text), scale)
    return f"{rounded:f}" if rounded.copy_abs() < 10 ** (width - scale) else None


def _exact(text: str) -> Decimal:
    """Read a number. Raises ``ValueError`` for one that no type holds."""
    number = Decimal(text)
    if not number.is_finite() or abs(number.adjusted()) >= 2 * MOST_DIGITS:
        raise ValueError("a number out of every type's range")
    return number


def _rounded(number: Decimal, places: int) -> Decimal:
    digits = len(number.as_tuple().digits) + 4 * MOST_DIGITS
    exact = Context(prec=digits, rounding=ROUND_HALF_UP)
    return exact.quantize(number, Decimal(1).scaleb(-places, exact))


def _float(text: str, type_: SqlType) -> str:
    """Find the nearest value of 32 bits: beyond the largest it is infinite, as in DuckDB."""
    with np.errstate(over="ignore"):
        return str(np.float32(repr(float(text))))


def _boolean(text: str, type_: SqlType) -> str | None:
    word = text.lower()
    return word if word in ("true", "false") else _TRUTHS.get(word)


def _date(text: str, type_: SqlType) -> str | None:
    plain = _DATE.fullmatch(text.strip()) is not None  # Python reads other forms as well
    return datetime.date.fromisoformat(_padded(text)).isoformat() if plain else None


def _timestamp(text: str, type_: SqlType) -> str | None:
    found = _TIMESTAMP.fullmatch(_padded(text))
    if found is None:
        return None
    day, time = found[1], found[3] or "00:00:00"
    return datetime.datetime.fromisoformat(f"{day} {time}").isoformat(" ")


def _padded(text: str) -> str:
    """Write a date with four digits of a year, and two of all else."""
    return _DATE.sub(lambda m: f"{m[1]:0>4}-{m[2]:0>2}-{m[3]:0>2}", text.strip())


def _time(text: str, type_: SqlType) -> str | None:
    plain = _TIME.fullmatch(text.strip()) is not None
    return datetime.time.fromisoformat(text.strip()).isoformat() if plain else None


_READERS: Final[Mapping[str, Callable[[str, SqlType], str | None]]] = MappingProxyType(
    {
        **dict.fromkeys(INTEGERS, _integer),
        "DECIMAL": _decimal,
        "DOUBLE": lambda text, _: repr(float(text)),
        "FLOAT": _float,
        "BOOLEAN": _boolean,
        "DATE": _date,
        "TIMESTAMP": _timestamp,
        "TIME": _time,
        "UUID": lambda text, _: str(UUID(text.strip())),
    }
)

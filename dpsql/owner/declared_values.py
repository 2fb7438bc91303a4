"""Values that a policy declares of a column, as the column's type holds them.

Engines read declared values from their text into the type of the column. What the type cannot hold
would be a group that no row is in and that has no value to be shown by; and two spellings of one
value would be two groups, of which the second has no rows. So both are found here, before anything
is asked. Nothing is read: the rules are those of the types alone.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from dpsql.core.sql_types import SqlType

_UUID: Final = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}")
_BLOB: Final = re.compile(r"(?:[\x00-\x5b\x5d-\x7f]|\\x[0-9A-Fa-f]{2})*")
_BYTE: Final = re.compile(r"\\x(..)")
_PARTS: Final = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}
"""How many microseconds the smallest part of a timestamp has, where that is more than one."""
_NANOSECONDS: Final = (
    datetime.datetime(1677, 9, 22),
    datetime.datetime(2262, 4, 11),
)
"""Whole days between which 64 bits count the nanoseconds since 1970."""


def held_value(value: object, type_: SqlType) -> object:
    """Return a declared value in the form of a column's type; None if the type cannot hold it.

    Two values that are held as equal ones are the same key.
    """
    kind = type_.kind
    if type_.is_text:
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or kind == "BOOLEAN":
        return value if isinstance(value, bool) and kind == "BOOLEAN" else None
    if isinstance(value, int | float):
        return _held_number(value, type_)
    if isinstance(value, datetime.date):
        return _held_moment(value, kind)
    if not isinstance(value, str):
        return None
    return _held_uuid(value) if kind == "UUID" else _held_blob(value) if kind == "BLOB" else None


def same_declared(values: Iterable[object], type_: SqlType) -> tuple[object, object] | None:
    """Find two declared values that a column of this type holds as one."""
    first: dict[object, object] = {}
    for value in values:
        held = held_value(value, type_)
        if held is not None and held in first:
            return first[held], value
        first[held] = value
    return None


def _held_number(value: int | float, type_: SqlType) -> object:
    if type_.is_integer:
        low, high = type_.ends
        return int(value) if value == math.floor(value) and low <= value <= high else None
    if type_.is_decimal:
        width, scale = type_.digits
        scaled = Decimal(str(value)).scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**width
        return scaled if fits else None
    if not type_.is_float:
        return None
    try:
        near = float(value)
        if type_.kind != "DOUBLE":
            (near,) = struct.unpack("<f", struct.pack("<f", near))  # the nearest of 32 bits
    except OverflowError:
        return None
    return near


def _held_moment(value: datetime.date, kind: str) -> object:
    if not isinstance(value, datetime.datetime):
        if kind == "DATE":
            return value
        value = datetime.datetime.combine(value, datetime.time())
    if not kind.startswith("TIMESTAMP") or value.microsecond % _PARTS.get(kind, 1):
        return None
    early, late = _NANOSECONDS
    if kind == "TIMESTAMP_NS" and not early <= value <= late:
        return None
    return value


def _held_uuid(text: str) -> str | None:
    folded = text.lower()
    return folded.replace("-", "") if _UUID.fullmatch(folded) else None


def _held_blob(text: str) -> bytes | None:
    if not _BLOB.fullmatch(text):
        return None
    return _BYTE.sub(lambda found: chr(int(found[1], 16)), text).encode("latin-1")
